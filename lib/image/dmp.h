/*
 * dmp.h - the header that all 64-bit Windows crash dumps share.
 */
#ifndef KDA_IMAGE_DMP_H
#define KDA_IMAGE_DMP_H

#include "image_internal.h"

#define KDA_DMP_HEADER 0x2000u

/* DumpType. Source: crash dump header of Windows (DUMP_TYPE_*); 8 to 0xA are written by WinDbg's
 * .dump /k, /ka and /f since 2023. */
enum kda_dmp_type {
    KDA_DMP_FULL = 1,
    KDA_DMP_SUMMARY = 2,
    KDA_DMP_HEADER_ONLY = 3,
    KDA_DMP_TRIAGE = 4,
    KDA_DMP_BITMAP_FULL = 5,
    KDA_DMP_BITMAP_KERNEL = 6,
    KDA_DMP_AUTOMATIC = 7,
    KDA_DMP_RDMP_KERNEL = 8,
    KDA_DMP_RDMP_ACTIVE = 9,
    KDA_DMP_RDMP_FULL = 0xA,
};

/* What stands at 0x2000. */
enum kda_dmp_tag { KDA_DMP_TAG_NONE, KDA_DMP_TAG_BITMAP, KDA_DMP_TAG_RDMP };

/* Is the file a 64-bit dump, and of which type? KDA_NOT_MINE; KDA_BAD_DATA if the header is cut
 * before DumpType. */
KDA_MUST_CHECK enum kda_status kda_dmp_type(const struct kda_image *image, uint32_t *type,
                                            struct kda_error *err);

KDA_MUST_CHECK enum kda_status kda_dmp_tag(struct kda_image *image, enum kda_dmp_tag *tag,
                                           struct kda_error *err);

/* Reads the header into `header` and its facts into image->info. */
KDA_MUST_CHECK enum kda_status kda_dmp_read_header(struct kda_image *image,
                                                   uint8_t header[KDA_DMP_HEADER],
                                                   struct kda_error *err);

/* Header fields are filled with "PAGE" before they are set; these give 0 for a field that was
 * not. */
uint32_t kda_dmp_u32(const uint8_t *header, size_t off);
uint64_t kda_dmp_u64(const uint8_t *header, size_t off);

#endif
