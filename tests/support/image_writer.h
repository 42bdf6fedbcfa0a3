/*
 * image_writer.h - tiny memory images of every format, in memory, for the tests. Each page holds a
 * pattern that depends on its number, so that a page in a wrong place is noticed.
 */
#ifndef KDA_TEST_IMAGE_WRITER_H
#define KDA_TEST_IMAGE_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "blob.h"

struct range {
    uint64_t pfn, count;
};

void page_pattern(uint64_t pfn, uint8_t page[4096]);
void blob_put_pages(struct blob *blob, const struct range *ranges, size_t n);

#define TEST_DTB 0x1AD000u
#define TEST_TIME 133406160670000000u

/* Header of 0x2000 bytes, "PAGE" where nothing is set. */
void write_dmp_header(struct blob *blob, uint32_t type);

void write_raw(struct blob *blob, const struct range *ranges,
               size_t n); /* ranges must begin at 0 */
void write_dmp_full(struct blob *blob, const struct range *ranges, size_t n);
/* Bits end right behind the last page. `tag` is "SDMP" or "FDMP". */
void write_dmp_bitmap(struct blob *blob, uint32_t type, const char *tag, const struct range *ranges,
                      size_t n);
/* `slack`: unused bytes of metadata behind the ranges. */
void write_dmp_rdmp(struct blob *blob, uint32_t type, const struct range *ranges, size_t n,
                    size_t slack);
void write_dmp_triage(struct blob *blob);

enum elf_flavour { ELF_QEMU, ELF_XNUM, ELF_VBOX };
/* QEMU: two CPUs, the first in user mode (CR3 0x5000), the second in the kernel (TEST_DTB, LA57).
 * VirtualBox: version 0, one CPU (TEST_DTB). XNUM: the count of program headers in section 0. */
void write_elf(struct blob *blob, enum elf_flavour flavour, const struct range *ranges, size_t n);
void write_lime(struct blob *blob, const struct range *ranges, size_t n);

/* VMware state file of format `version` (0 = 32-bit sizes, 2). Regions are packed in the memory
 * file in the order given; `with_memory` puts the pages into the state file itself. n == 0: no
 * regions (flat). */
void write_vmss(struct blob *blob, unsigned version, const struct range *ranges, size_t n,
                int with_memory);

/* The samples that many tests loop over. */
struct sample {
    const char *name;
    const char *format;
    int seed; /* is in the fuzz corpus under its name */
    void (*build)(struct blob *blob, const struct range *ranges, size_t n);
};
extern const struct sample samples[];
extern const size_t sample_count;

/* Pages that every sample but raw and triage holds; raw holds 0 .. 17. */
extern const struct range sample_ranges[2];

#endif
