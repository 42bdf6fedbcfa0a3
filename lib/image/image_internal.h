/*
 * image_internal.h - what the image formats share: the handle, warnings, magics.
 */
#ifndef KDA_IMAGE_INTERNAL_H
#define KDA_IMAGE_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc.h"
#include "file.h"
#include "kda/image.h"
#include "ops.h"

#define KDA_IMAGE_HEAD 4096u

/* x86-64 has at most 52 physical address bits; anything above is not an address. */
#define KDA_MAX_PA ((uint64_t)1 << 52)

/* Where tools that leave out the device hole below 4 GiB start to give wrong addresses. Source:
 * VMware and QEMU map devices from 3 GiB (or later) up to 4 GiB. */
#define KDA_DEVICE_HOLE ((uint64_t)3 << 30)

struct kda_image {
    const struct kda_image_ops *ops;
    struct kda_file *file;  /* the one the user named */
    struct kda_file *pages; /* the one that holds the pages; mostly the same */
    bool companions;        /* other files may be looked for (not for bytes in memory) */
    bool warning_lost;      /* no memory for a warning: open fails rather than hide it */
    struct kda_image_info info;
    struct kda_image_stats stats;
    struct kda_arena arena;       /* warnings, names */
    uint8_t head[KDA_IMAGE_HEAD]; /* first bytes of the file */
    size_t head_size;
    void *priv;
};

/* Adds a sentence to info.warnings. */
void kda_image_warn(struct kda_image *image, const char *fmt, ...) KDA_PRINTF(2, 3);

/* Adds a page-table root candidate unless it is there already; clears the low 12 bits and drops
 * what cannot be one. */
void kda_image_add_dtb(struct kda_image *image, uint64_t cr3);

/* Do the head's bytes at `off` equal `magic`? */
bool kda_head_has(const struct kda_image *image, size_t off, const void *magic, size_t size);

/* Does the file name end with `ending` (".vmem"), in any case of letters? */
bool kda_name_ends(const char *name, const char *ending);

/* Formats, in the order of lib/image/image.c. */
extern const struct kda_image_ops kda_fmt_dmp_triage;
extern const struct kda_image_ops kda_fmt_dmp_full;
extern const struct kda_image_ops kda_fmt_dmp_rdmp;
extern const struct kda_image_ops kda_fmt_dmp_bitmap;
extern const struct kda_image_ops kda_fmt_elf_core;
extern const struct kda_image_ops kda_fmt_lime;
extern const struct kda_image_ops kda_fmt_vmware;
extern const struct kda_image_ops kda_fmt_vmem;
extern const struct kda_image_ops kda_fmt_raw;

#endif
