/*
 * part.h - a download that is not finished: NAME.part beside the final place, and NAME.part.from,
 * which says where its bytes came from.
 */
#ifndef KDA_SYMBOLS_PART_H
#define KDA_SYMBOLS_PART_H

#include "file.h"
#include "remote.h"

#include "kda/error.h"

struct kda_part {
    char *path;
    char *from_path;
    struct kda_outfile *out;
    struct kda_part_origin origin; /* of the bytes now in the file; url "" = unknown */
};

/* Opens and locks `target`.part; `part` is the caller's storage, to be deinitialised even after a
 * failure. */
KDA_MUST_CHECK enum kda_status kda_part_init(struct kda_part *part, const char *target,
                                             struct kda_error *err);
/* Keeps the files only if a later run can go on from them; `keep` false removes them always. */
void kda_part_deinit(struct kda_part *part, bool keep);

uint64_t kda_part_size(const struct kda_part *part);

/* Offset from which a download of `url` (without password) can go on; 0 = from the start. */
uint64_t kda_part_resume(const struct kda_part *part, const char *url);

/* Empties the file and records where the coming bytes are from. */
KDA_MUST_CHECK enum kda_status kda_part_begin(struct kda_part *part,
                                              const struct kda_part_origin *origin,
                                              struct kda_error *err);
KDA_MUST_CHECK enum kda_status kda_part_write(struct kda_part *part, const void *bytes, size_t size,
                                              struct kda_error *err);

/* The bytes turned out to be of no use, or were used: nothing to resume. */
void kda_part_forget(struct kda_part *part);

/* Puts the file in its final place. */
KDA_MUST_CHECK enum kda_status kda_part_commit(struct kda_part *part, const char *target,
                                               struct kda_error *err);

#endif
