/*
 * fetch.h - HTTP(S) GET into a part file or a small buffer. The only part of the library that
 * talks to a network, through http.h, and only when kda_symbols_download was called.
 */
#ifndef KDA_SYMBOLS_FETCH_H
#define KDA_SYMBOLS_FETCH_H

#include "download.h"
#include "part.h"

struct kda_fetcher;

/* What a failed fetch means for the next step. */
struct kda_fetch_result {
    long code;   /* last HTTP status, 0 = none came */
    bool dead;   /* the server cannot be reached or is out of order: ask it nothing more */
    bool local;  /* the failure is on this side (disk, memory): no other server helps */
    bool broken; /* the transfer began but did not finish; the part file may be resumed */
};

KDA_MUST_CHECK enum kda_status kda_fetcher_create(const struct kda_download_limits *limits,
                                                  kda_progress_fn progress, void *context,
                                                  struct kda_fetcher **ret, struct kda_error *err);
void kda_fetcher_destroy(struct kda_fetcher *fetcher); /* NULL is allowed */

/* Fetches a PDB or a CAB; anything that starts like neither is KDA_BAD_DATA before it fills the
 * disk. Goes on where `part` stopped if the server agrees that it is still the same file.
 * KDA_ABSENT: the server says it has no such file (result->code). KDA_BAD_DATA: it lies or leads in
 * circles. KDA_LIMIT, KDA_IO, KDA_CANCELLED, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_fetch_file(struct kda_fetcher *fetcher, const char *url,
                                              struct kda_part *part,
                                              struct kda_fetch_result *result,
                                              struct kda_error *err);

/* Fetches at most `cap` bytes of a small file; a longer one is KDA_LIMIT. */
KDA_MUST_CHECK enum kda_status kda_fetch_small(struct kda_fetcher *fetcher, const char *url,
                                               char *out, size_t cap, size_t *size,
                                               struct kda_fetch_result *result,
                                               struct kda_error *err);

/* Resolves a reference against a URL as RFC 3986 says; false when the result is not http(s). */
bool kda_fetch_resolve(const char *base, const char *reference, char *out, size_t cap);

#endif
