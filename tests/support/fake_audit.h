/* fake_audit.h - callbacks and audit of the pretended machine; a part of fake_model.h. */
#ifndef KDA_TESTS_FAKE_AUDIT_H
#define KDA_TESTS_FAKE_AUDIT_H

#include <strings.h>

#include "kda/audit.h"

static const struct kda_module fake_module = {
    .name = "edr.sys", .base = 0xfffff80003000000, .size = 0x10000};
static struct kda_callback fake_callback_rows[] = {
    {.kind = KDA_CALLBACK_PROCESS,
     .has_slot = true,
     .slot = 2,
     .slot_va = 0xfffff80000500010,
     .va = 0xffffe10000000100,
     .readable = true,
     .enabled = true,
     .function = 0xfffff80003001000,
     .module = &fake_module},
};
static struct kda_callbacks fake_callbacks = {
    .rows = fake_callback_rows,
    .count = 1,
    .sources = {[KDA_CALLBACK_THREAD] = {.status = KDA_NO_SYMBOL}},
};

enum kda_status kda_callbacks_read(struct kda_kernel *kernel, struct kda_callbacks **ret,
                                   struct kda_error *err)
{
    (void)kernel;
    (void)err;
    *ret = &fake_callbacks;
    return KDA_OK;
}

void kda_callbacks_free(struct kda_callbacks *callbacks)
{
    (void)callbacks;
}

const char *kda_callback_kind_name(enum kda_callback_kind kind)
{
    return kind == KDA_CALLBACK_PROCESS ? "process" : "thread";
}

static const char *const fake_severities[] = {"info", "low", "medium", "high", "critical"};

const char *kda_severity_name(enum kda_severity severity)
{
    return fake_severities[severity];
}

bool kda_severity_parse(const char *name, enum kda_severity *ret)
{
    for (unsigned i = 0; i < KDA_SEVERITIES; i++)
        if (strcasecmp(name, fake_severities[i]) == 0) {
            *ret = (enum kda_severity)i;
            return true;
        }
    return false;
}

const char *kda_outcome_name(enum kda_outcome outcome)
{
    return outcome == KDA_CHECK_PASSED  ? "passed"
           : outcome == KDA_CHECK_FOUND ? "findings"
                                        : "not_checked";
}

static const struct kda_check fake_checks[] = {
    {.id = "session.stopped",
     .severity = KDA_SEVERITY_HIGH,
     .title = "a session does not collect",
     .attack = "T1562.006",
     .false_positives = "none known"},
    {.id = "session.lost",
     .severity = KDA_SEVERITY_LOW,
     .title = "a session lost events",
     .attack = "T1562.006",
     .false_positives = "busy machines"},
    {.id = "process.unlinked",
     .severity = KDA_SEVERITY_CRITICAL,
     .title = "a hidden process",
     .attack = "T1014",
     .false_positives = "none known"},
};
static const struct kda_evidence fake_evidence = {"CollectionOn", 0xffffc00000000110, "0", "not 0"};
static const struct kda_audit_finding fake_findings[] = {
    {.check = &fake_checks[0],
     .severity = KDA_SEVERITY_HIGH,
     .object = "session",
     .name = "Edr",
     .va = 0xffffc00000000100,
     .silo = "host",
     .text = "the session does not collect",
     .evidence = &fake_evidence,
     .evidence_count = 1},
    {.check = &fake_checks[1],
     .severity = KDA_SEVERITY_INFO,
     .object = "session",
     .name = "Edr",
     .text = "the session lost events"},
};
static const struct kda_audit_finding *const fake_finding_list[] = {&fake_findings[0],
                                                                    &fake_findings[1]};
static const struct kda_unchecked fake_unchecked[] = {
    {.check = &fake_checks[2], .reason = "the list cannot be read to its end"},
};
static const struct kda_check_result fake_results[] = {
    {&fake_checks[0], KDA_CHECK_FOUND, 3, 1, 0},
    {&fake_checks[1], KDA_CHECK_FOUND, 3, 1, 0},
    {&fake_checks[2], KDA_CHECK_NOT_CHECKED, 2, 0, 1},
};

struct kda_audit {
    struct kda_audit_options options;
};

enum kda_status kda_audit_run(struct kda_kernel *kernel, const struct kda_etw *etw,
                              const struct kda_audit_options *options, struct kda_audit **ret,
                              struct kda_error *err)
{
    (void)kernel;
    (void)etw;
    (void)err;
    struct kda_audit *audit = calloc(1, sizeof(*audit));
    audit->options = *options;
    *ret = audit;
    return KDA_OK;
}

void kda_audit_free(struct kda_audit *audit)
{
    free(audit);
}

const struct kda_check_result *kda_audit_results(const struct kda_audit *audit, size_t *count)
{
    (void)audit;
    *count = 3;
    return fake_results;
}

const struct kda_audit_finding *const *kda_audit_findings(const struct kda_audit *audit,
                                                          size_t *count)
{
    *count = audit->options.expected_count ? 1 : 2; /* a list of one's own was handed on */
    return fake_finding_list;
}

const struct kda_unchecked *kda_audit_unchecked(const struct kda_audit *audit, size_t *count)
{
    (void)audit;
    *count = 1;
    return fake_unchecked;
}

size_t kda_audit_dropped(const struct kda_audit *audit)
{
    (void)audit;
    return 5;
}

#endif
