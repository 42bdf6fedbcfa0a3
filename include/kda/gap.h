/*
 * kda/gap.h - what could not be read, and why.
 *
 * A walker that meets missing memory records a gap and goes on. Gaps are results: reports
 * print them and the exit code says "incomplete". The list owns its storage; one thread at a time.
 */
#ifndef KDA_GAP_H
#define KDA_GAP_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gaps kept one by one; further ones are only counted (kda_gaps.dropped). */
#define KDA_MAX_GAPS 16384u

struct kda_gap {
    const char *what; /* string constant: object kind in one word ("session", "handle_table") */
    uint64_t va;      /* address that could not be read, or whose object is damaged */
    enum kda_status reason; /* KDA_ABSENT, KDA_PAGED_OUT, KDA_UNMAPPED, KDA_BAD_DATA, KDA_LIMIT,
                               KDA_NO_SYMBOL */
    char text[160];         /* one sentence, valid UTF-8, no control characters */
};

struct kda_gaps {
    struct kda_gap *items;
    size_t count;
    size_t capacity;
    size_t dropped; /* found after the list was full or memory ran out */
};

void kda_gaps_init(struct kda_gaps *gaps);
void kda_gaps_deinit(struct kda_gaps *gaps);

/* Adds a gap unless the same (what, va) is among the last 512. Never fails: what cannot be stored
 * is counted in `dropped`, so that "complete" is never said by mistake. `gaps` may be NULL. */
void kda_gaps_add(struct kda_gaps *gaps, const char *what, uint64_t va, enum kda_status reason,
                  const char *fmt, ...) KDA_PRINTF(5, 6);
void kda_gaps_addv(struct kda_gaps *gaps, const char *what, uint64_t va, enum kda_status reason,
                   const char *fmt, va_list args);

/* True when anything is missing. */
static inline bool kda_gaps_any(const struct kda_gaps *gaps)
{
    return gaps->count > 0 || gaps->dropped > 0;
}

#ifdef __cplusplus
}
#endif

#endif
