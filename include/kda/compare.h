/*
 * kda/compare.h - two witnesses of one machine and time: what did only one of them see?
 *
 * Events of both come as lines of the schema (docs/events.md), whatever they were read from. They
 * are matched by who did what to what, within a tolerance of time. What a witness could not have
 * seen (outside its own span, kinds it does not record, declared losses, filters) is left out and
 * counted, never reported as missing.
 *
 * Ownership: the comparison copies what it needs of each line. Threads: one at a time.
 */
#ifndef KDA_COMPARE_H
#define KDA_COMPARE_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/log.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KDA_COMPARE_MAX_EVENTS 16777216u /* of one witness */
#define KDA_COMPARE_MAX_WINDOWS 65536u   /* losses and filters of one witness */
#define KDA_COMPARE_MAX_LOOKS 1024u      /* at free events alike but for their paths, per event */
#define KDA_COMPARE_TOLERANCE_100NS 10000000u

struct kda_compare;

struct kda_compare_options {
    uint64_t tolerance_100ns; /* 0 = KDA_COMPARE_TOLERANCE_100NS (one second) */
};

/* Why an event that only one witness has is not reported as missing in the other. */
enum kda_compare_reason {
    KDA_COMPARE_BEFORE,   /* before the other witness began, after it ended, or between two logs */
    KDA_COMPARE_KIND,     /* the other witness records no event of this kind */
    KDA_COMPARE_LOST,     /* the other witness declares losses of this kind at this time */
    KDA_COMPARE_FILTERED, /* the other witness's rules took events of this kind at this time */
    KDA_COMPARE_REASONS
};

/* An event that only one witness saw. */
struct kda_compare_event {
    unsigned seen_by; /* 0 or 1 */
    unsigned kind;    /* as kda_log_kind_name */
    bool has_id;
    uint64_t id;
    uint64_t time;
    uint64_t pid;      /* whose doing, or whom it is about */
    const char *image; /* of that process, "" = unknown */
    const char *what;  /* "C:\\… loaded", key and value, addresses: for people */
};

/* All of one kind and process, that only one witness saw. */
struct kda_compare_group {
    unsigned seen_by, kind;
    uint64_t pid;
    const char *image;
    uint64_t count;
    uint64_t first_time, last_time;
    uint64_t declared; /* of these, as many are within losses or filters that declare fewer */
    const struct kda_compare_event *const *events;
};

/* What one witness covers. */
struct kda_compare_witness {
    uint64_t events; /* of comparable kinds */
    uint64_t matched, only;
    uint64_t left_out[KDA_COMPARE_REASONS]; /* of its own events, because of the other */
    uint64_t first_time, last_time;
    uint64_t kinds; /* bit per kind that it records */
    uint64_t other; /* lines of kinds that are not compared */
};

KDA_MUST_CHECK enum kda_status kda_compare_create(const struct kda_compare_options *options,
                                                  struct kda_compare **ret, struct kda_error *err);
void kda_compare_destroy(struct kda_compare *compare); /* NULL is allowed */

/* A line of witness 0 or 1, in any order. Lines that are no events of the schema are passed over.
 * Errors: KDA_NO_MEMORY, KDA_LIMIT. */
KDA_MUST_CHECK enum kda_status kda_compare_add(struct kda_compare *compare, unsigned witness,
                                               const struct kda_log_line *line,
                                               struct kda_error *err);
/* Matches; once, after the last line. */
KDA_MUST_CHECK enum kda_status kda_compare_run(struct kda_compare *compare, struct kda_error *err);

const struct kda_compare_witness *kda_compare_witness(const struct kda_compare *compare,
                                                      unsigned witness);
/* By witness, kind, pid, image. */
const struct kda_compare_group *kda_compare_groups(const struct kda_compare *compare,
                                                   size_t *count);
const char *kda_compare_reason_name(enum kda_compare_reason reason);
/* Are events of this kind compared? */
bool kda_compare_kind(unsigned kind);

#ifdef __cplusplus
}
#endif

#endif
