/*
 * kda/recall.h - how complete the picture is: which anchors and lists of the kernel are whole,
 * where the others break, what other witnesses made up for, and the kernel's own counts beside what
 * was found.
 *
 * Ownership: the result owns its rows and borrows names from the model and the kernel; free it
 * before them. Threads: immutable once returned.
 */
#ifndef KDA_RECALL_H
#define KDA_RECALL_H

#include <stddef.h>
#include <stdint.h>

#include "kda/callbacks.h"
#include "kda/error.h"
#include "kda/etw.h"
#include "kda/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

enum kda_recall_state {
    KDA_RECALL_COMPLETE,
    KDA_RECALL_BROKEN,  /* it ends early: broken_va says where */
    KDA_RECALL_MISSING, /* it is not in the image */
    KDA_RECALL_UNKNOWN, /* where it stands is not known for this build */
    KDA_RECALL_STATES,
};

/* An anchor, a list or table (or all of one kind), or a count. */
struct kda_recall_item {
    const char *name;   /* of the global, member or table: "PsActiveProcessHead" */
    const char *object; /* what it leads to or counts: "process" */
    const char *of;     /* whose it is where there are several: a session, a silo; NULL = all */
    uint64_t va;        /* 0 = unknown, or several */
    bool only_count;    /* nothing is walked here: `state` says nothing */
    enum kda_recall_state state;
    enum kda_status reason; /* why it is not complete; KDA_OK = complete or not known */
    uint64_t broken_va[2];  /* of the first that is broken: forward, backward; 0 = none */
    size_t lists, whole;    /* where there are several: how many, and complete ones; 0 = one */
    bool has_found, has_others;
    size_t found;     /* objects (slots, pages) that it led to */
    size_t by_others; /* objects of this kind that only other witnesses named */
    bool has_count;
    uint64_t counted;      /* the kernel's own count */
    uint64_t count_va;     /* where it stands; 0 = a sum, or not known */
    const char *uncounted; /* why there is a count that is not known; NULL = none is kept */
};

struct kda_recall;

/* Reads lists, tables and counts again, without recording gaps; only callbacks, which no model
 * holds, leave theirs. `etw` may be NULL: then only what processes and drivers hang on. Errors:
 * KDA_NO_SYMBOL (symbols not loaded), KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_recall_read(struct kda_kernel *kernel, const struct kda_etw *etw,
                                               struct kda_recall **ret, struct kda_error *err);
void kda_recall_free(struct kda_recall *recall); /* NULL is allowed */
const struct kda_recall_item *kda_recall_items(const struct kda_recall *recall, size_t *count);

const char *kda_recall_state_name(enum kda_recall_state state); /* "complete", "broken", … */

#ifdef __cplusplus
}
#endif

#endif
