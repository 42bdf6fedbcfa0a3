/*
 * kda/audit.h - is somebody blinding the sensors? A table of checks over the ETW model, the kernel
 * callbacks and the processes of an image.
 *
 * Every check ends as findings, as passed, or as not checked with the reason: "passed" is never
 * said of what could not be read. Each finding names the object and carries evidence: the place
 * that was read, the value there, and what was expected.
 *
 * Ownership: the result owns its texts and borrows names from the model and the kernel; free it
 * before them. Threads: immutable once returned.
 */
#ifndef KDA_AUDIT_H
#define KDA_AUDIT_H

#include <stddef.h>
#include <stdint.h>

#include "kda/callbacks.h"
#include "kda/error.h"
#include "kda/etw.h"
#include "kda/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Findings and unchecked objects kept of each check, so that a flood in one does not hide another;
 * further ones are counted. */
#define KDA_AUDIT_MAX_FINDINGS 4096u
#define KDA_AUDIT_MAX_UNCHECKED 4096u
#define KDA_AUDIT_EVIDENCE 8u /* pieces of evidence a finding can carry */
#define KDA_AUDIT_RELATED 3u  /* objects a finding can be about besides its own */
#define KDA_AUDIT_LOST_DEFAULT 1000u

/* info: worth knowing, also true of healthy machines. low and medium: explained by ordinary causes
 * now and then. high: an ordinary cause is hard to name. critical: only tampering or memory that
 * was destroyed does this. */
enum kda_severity {
    KDA_SEVERITY_INFO,
    KDA_SEVERITY_LOW,
    KDA_SEVERITY_MEDIUM,
    KDA_SEVERITY_HIGH,
    KDA_SEVERITY_CRITICAL,
    KDA_SEVERITIES,
};

enum kda_outcome { KDA_CHECK_PASSED, KDA_CHECK_FOUND, KDA_CHECK_NOT_CHECKED };

struct kda_audit;

/*
 * One check. To add one: a function and a row in the table of its group
 * (lib/audit/audit_<group>.c), a positive, a negative and a missing-page test; docs/checks.md is
 * generated from the table.
 */
struct kda_check {
    const char *id;             /* "session.stopped": group and name, never renamed */
    enum kda_severity severity; /* highest it gives */
    const char *title;          /* what is wrong, in a few words */
    const char *meaning;        /* why it matters, what an attacker gains */
    const char *needs;          /* what must be readable */
    const char *false_positives;
    const char *attack; /* MITRE ATT&CK technique */
    void (*run)(struct kda_audit *audit);
};

struct kda_evidence {
    const char *name; /* "CollectionOn" */
    uint64_t va;      /* where it was read; 0 = worked out from what other rows show */
    const char *found;
    const char *expected; /* NULL: nothing to compare with */
};

struct kda_audit_finding {
    const struct kda_check *check;
    enum kda_severity severity;
    const char *object; /* "session", "consumer", "provider", "registration", "callback", … */
    const char *name;   /* of the object, NULL = it has none */
    uint64_t va;        /* of the object, 0 = none */
    const char *silo;   /* label, NULL = does not apply */
    const char *text;   /* one sentence */
    const struct kda_evidence *evidence;
    size_t evidence_count;
    size_t order;                        /* in which it was found */
    uint64_t related[KDA_AUDIT_RELATED]; /* other objects it is about, 0 = none */
    /* Findings of other checks about one of these objects that have the same cause; they are
     * findings of their own as well and name this one. A finding stands at one end only. */
    const struct kda_audit_finding *const *corroborating;
    size_t corroborating_count;
    const struct kda_audit_finding *joined_to; /* NULL: stands for itself */
};

/* Something a check could not decide. */
struct kda_unchecked {
    const struct kda_check *check;
    const char *object, *name; /* NULL = the check as a whole */
    uint64_t va;
    const char *reason;
};

struct kda_check_result {
    const struct kda_check *check;
    enum kda_outcome outcome; /* FOUND, else NOT_CHECKED if anything is open, else PASSED */
    size_t examined;          /* objects looked at */
    size_t findings, unchecked;
};

/* A session that has to exist on the host. */
struct kda_expectation {
    const char *session; /* name, ASCII case ignored */
    enum kda_severity severity;
    uint32_t first_build, last_build; /* 0 = no bound */
    const char *why;
};

/* A list of them from a file: a session a line, then in any order a severity ("high" if none) and
 * the builds of Windows it is expected in ("19041", "10240-19045", "22000-"). Names with blanks
 * stand in quotes; # begins a comment. Errors name file and line: KDA_USAGE, KDA_BAD_DATA (no
 * text), KDA_IO, KDA_LIMIT, KDA_NO_MEMORY. */
struct kda_expectations;
KDA_MUST_CHECK enum kda_status kda_expectations_load(const char *path,
                                                     struct kda_expectations **ret,
                                                     struct kda_error *err);
void kda_expectations_free(struct kda_expectations *list); /* NULL is allowed */
const struct kda_expectation *kda_expectations_items(const struct kda_expectations *list,
                                                     size_t *count);

struct kda_audit_options {
    /* Events or buffers lost from which it is more than informational; 0 = KDA_AUDIT_LOST_DEFAULT
     * marks a session as having lost many, which stays informational. */
    uint32_t lost_threshold;
    const struct kda_expectation *expected; /* instead of the built-in ones; NULL = built-in */
    size_t expected_count;
    /* Ids of events that a provider is known to have, one by one: false past the last. NULL = no
     * provider's events are known. */
    bool (*known_event)(void *context, const uint8_t guid[16], size_t index, uint16_t *id);
    void *context;
};

/* Runs every check. `etw` may be NULL (then the checks that need it say so). Missing memory met on
 * the way becomes gaps of the kernel. Errors: KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_audit_run(struct kda_kernel *kernel, const struct kda_etw *etw,
                                             const struct kda_audit_options *options,
                                             struct kda_audit **ret, struct kda_error *err);
void kda_audit_free(struct kda_audit *audit); /* NULL is allowed */

/* Of the checks that ran, in the order of the table: those of pool memory run with the kernel's
 * option `carve` only. */
const struct kda_check_result *kda_audit_results(const struct kda_audit *audit, size_t *count);
/* Most severe first, then by check, then in the order of the model. */
const struct kda_audit_finding *const *kda_audit_findings(const struct kda_audit *audit,
                                                          size_t *count);
/* By check. */
const struct kda_unchecked *kda_audit_unchecked(const struct kda_audit *audit, size_t *count);
/* Findings and open objects that were not kept. */
size_t kda_audit_dropped(const struct kda_audit *audit);

/* Row `index` of the table of checks, NULL past its end. Static storage. */
const struct kda_check *kda_check_at(size_t index);
/* Row `index` of the built-in expectations, NULL past its end. */
const struct kda_expectation *kda_expectation_at(size_t index);

const char *kda_severity_name(enum kda_severity severity);
bool kda_severity_parse(const char *name, enum kda_severity *ret);
const char *kda_outcome_name(enum kda_outcome outcome); /* "passed", "findings", "not_checked" */

#ifdef __cplusplus
}
#endif

#endif
