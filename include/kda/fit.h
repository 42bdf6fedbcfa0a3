/*
 * kda/fit.h - the layout of a kernel for which no symbols are at hand, worked out from the image.
 *
 * The known layouts (the built-in table without its addresses) are hypotheses. Each is tested
 * against the objects in the image; what the data contradict is dropped, and a field is used only
 * where the data prove its place or all layouts that are left agree on it. Nothing is guessed: what
 * is not supported is left out. docs/fit.md names every anchor and check.
 *
 * Ownership: kda_etw_fit gives the caller a handle to kda_fit_free; strings live as long as it.
 * Threads: one thread per kernel at a time.
 */
#ifndef KDA_FIT_H
#define KDA_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/kernel.h"
#include "kda/symbols.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kda_fit;

/* How the place of a field is known. */
enum kda_fit_state {
    KDA_FIT_ABSENT, /* nothing supports it: left out */
    KDA_FIT_FITTED, /* no check touches it; every layout that is left has it there */
    KDA_FIT_PROVEN, /* checks on the data depended on it and passed */
};

/* Ways to the ETW state of the host, most direct first. */
enum kda_fit_anchor {
    KDA_ANCHOR_DEBUGGER_DATA, /* EtwpDebuggerData, from the debugger block or by its bytes */
    KDA_ANCHOR_SELF_NAMING,   /* a pointer in nt to a state that names the place of the pointer */
    KDA_ANCHOR_EXPORTED_CODE, /* PsGetServerSiloServiceSessionId */
    KDA_ANCHOR_THREAT_INT,    /* the Threat-Intelligence registration, where its RVA is known */
    KDA_ANCHOR_HANDLES,       /* consumers and registrations in handle tables */
    KDA_ANCHOR_POOL_TAGS,     /* blocks tagged EtwG and EtwC anywhere in memory */
    KDA_ANCHOR_COUNT
};

enum kda_fit_verdict {
    KDA_FIT_NOT_TRIED,
    KDA_FIT_NOT_FOUND,
    KDA_FIT_REJECTED, /* found something that did not pass the checks */
    KDA_FIT_ACCEPTED,
};

struct kda_fit_anchor_info {
    enum kda_fit_verdict verdict;
    uint64_t state;   /* the state it led to, 0 = none */
    unsigned refused; /* candidates that failed the checks */
};

struct kda_fit_info {
    const char *nearest; /* first build of the known layout that fits best ("10.0.22000.434") */
    bool whole;          /* one known layout passes every check */
    unsigned layouts;    /* distinct layouts known */
    unsigned left;       /* of those, not contradicted as a whole */
    uint64_t state;      /* the host's ETW state */
    uint32_t passed;     /* checks of the chosen layout that passed, over all objects */
    uint32_t failed;     /* and that failed (damaged or tampered objects) */
    size_t proven, fitted, absent; /* fields by state */
    bool disagreement;             /* two accepted anchors lead to different states */
    struct kda_fit_anchor_info anchor[KDA_ANCHOR_COUNT];
};

struct kda_fit_options {
    bool no_profile; /* do not let the built-in table identify the build (--symbols none) */
    /* For tests: a layout by its number from 1 on, 0 = none. */
    unsigned only;    /* tries no other; others still complete what it lacks */
    unsigned without; /* leaves it out altogether */
};

/* Works the layout out. Reads the image only; gaps are recorded for findings (two anchors that
 * disagree), not for missing pages. Errors: KDA_NO_SYMBOL (what could not be found, in the text),
 * KDA_CANCELLED, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_etw_fit(struct kda_kernel *kernel,
                                           const struct kda_fit_options *options,
                                           struct kda_fit **ret, struct kda_error *err);
void kda_fit_free(struct kda_fit *fit); /* NULL is allowed */

/* Gives the layout to the kernel, as symbols of source "fitted". */
KDA_MUST_CHECK enum kda_status kda_fit_install(const struct kda_fit *fit, struct kda_kernel *kernel,
                                               struct kda_error *err);

const struct kda_fit_info *kda_fit_info(const struct kda_fit *fit);
const struct kda_layout *kda_fit_layout(const struct kda_fit *fit);
enum kda_fit_state kda_fit_field_state(const struct kda_fit *fit, enum kda_field_id field);

/* Stable lower-case words for rows: "debugger_data", "accepted", "proven". */
const char *kda_fit_anchor_name(enum kda_fit_anchor anchor);
const char *kda_fit_verdict_name(enum kda_fit_verdict verdict);
const char *kda_fit_state_name(enum kda_fit_state state);

#ifdef __cplusplus
}
#endif

#endif
