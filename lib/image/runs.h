/*
 * runs.h - stretches of memory and where they stand in a file. Shared by every format that is a
 * list of ranges.
 */
#ifndef KDA_IMAGE_RUNS_H
#define KDA_IMAGE_RUNS_H

#include <stddef.h>
#include <stdint.h>

#include "image_internal.h"

/* A machine of 128 GiB in which every other page is present. A list is never longer than the
 * file that it was read from allows, so this guards only against absurd files. */
#define KDA_IMAGE_MAX_RUNS ((size_t)1 << 24)

struct kda_run {
    uint64_t start; /* address of the first byte */
    uint64_t size;  /* bytes */
    uint64_t off;   /* where that byte stands in the file */
};

struct kda_runs {
    struct kda_run *items;
    size_t count, capacity;
    size_t hint;      /* last run that answered */
    uint64_t overlap; /* bytes that more than one run claimed */
    uint64_t cut;     /* bytes that lie behind the end of the file */
};

void kda_runs_deinit(struct kda_runs *runs);

/* Appends; joins with the previous run where both address and offset go on. Empty runs are
 * dropped. KDA_BAD_DATA if start + size or off + size overflows. */
KDA_MUST_CHECK enum kda_status kda_runs_add(struct kda_runs *runs, uint64_t start, uint64_t size,
                                            uint64_t off, struct kda_error *err);

/* Cuts the runs at the end of the file, sorts them by address and resolves overlaps: the run
 * added first wins. Must be called once, before the lookups. */
KDA_MUST_CHECK enum kda_status kda_runs_finish(struct kda_runs *runs, uint64_t file_size,
                                               struct kda_error *err);

/* Reads bytes; KDA_ABSENT unless all of them are held. */
KDA_MUST_CHECK enum kda_status kda_runs_read(struct kda_runs *runs, struct kda_file *file,
                                             uint64_t start, void *buf, size_t size,
                                             struct kda_error *err);

/* As kda_image_next_run. */
bool kda_runs_next(const struct kda_runs *runs, uint64_t pa, uint64_t *start, uint64_t *size);

/* ---- for formats whose priv is nothing but a run list ---- */

/* New list in image->priv. */
KDA_MUST_CHECK enum kda_status kda_image_new_runs(struct kda_image *image, struct kda_runs **ret,
                                                  struct kda_error *err);
/* kda_runs_add for physical memory: KDA_BAD_DATA beyond KDA_MAX_PA. */
KDA_MUST_CHECK enum kda_status kda_image_add_run(struct kda_runs *runs, uint64_t pa, uint64_t size,
                                                 uint64_t off, struct kda_error *err);
/* kda_runs_finish, then warnings about overlap and missing data and the totals of info. Fails
 * with KDA_BAD_DATA if no whole page is left. */
KDA_MUST_CHECK enum kda_status kda_image_finish_runs(struct kda_image *image, struct kda_runs *runs,
                                                     struct kda_error *err);
enum kda_status kda_image_runs_read(struct kda_image *image, uint64_t pa, void *buf, size_t size,
                                    struct kda_error *err);
bool kda_image_runs_place(struct kda_image *image, uint64_t pa, uint64_t *off, uint64_t *left);
bool kda_image_runs_next(struct kda_image *image, uint64_t pa, uint64_t *start, uint64_t *size);
void kda_image_runs_close(struct kda_image *image);

#endif
