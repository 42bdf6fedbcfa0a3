/*
 * audit.c - the groups of checks, their order, and what they said.
 */
#include "audit.h"

#include <stdlib.h>

#include "base/text.h"

static const struct {
    const struct kda_check *checks;
    bool carved; /* run only when the kernel carves */
} groups[] = {
    {kda_checks_session, false},      {kda_checks_consumer, false}, {kda_checks_provider, false},
    {kda_checks_registration, false}, {kda_checks_callback, false}, {kda_checks_process, false},
    {kda_checks_system, false},       {kda_checks_code, false},     {kda_checks_pool, true},
};

static const char *const severity_names[KDA_SEVERITIES] = {"info", "low", "medium", "high",
                                                           "critical"};
static const char *const outcome_names[] = {"passed", "findings", "not_checked"};

const char *kda_severity_name(enum kda_severity severity)
{
    return (unsigned)severity < KDA_SEVERITIES ? severity_names[severity] : "unknown";
}

bool kda_severity_parse(const char *name, enum kda_severity *ret)
{
    for (size_t i = 0; i < KDA_SEVERITIES; i++)
        if (kda_same_nocase(name, severity_names[i])) {
            *ret = (enum kda_severity)i;
            return true;
        }
    return false;
}

const char *kda_outcome_name(enum kda_outcome outcome)
{
    return (unsigned)outcome <= KDA_CHECK_NOT_CHECKED ? outcome_names[outcome] : "unknown";
}

const struct kda_check *kda_check_at(size_t index)
{
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        for (const struct kda_check *check = groups[i].checks; check->id; check++)
            if (index-- == 0)
                return check;
    return NULL;
}

/* ---- the run ---- */

static int by_severity(const void *a, const void *b)
{
    const struct kda_audit_finding *x = *(const struct kda_audit_finding *const *)a;
    const struct kda_audit_finding *y = *(const struct kda_audit_finding *const *)b;
    if (x->severity != y->severity)
        return x->severity < y->severity ? 1 : -1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static bool index_rows(struct kda_audit *audit)
{
    size_t count = 0;
    bool fits = true;
    for (size_t i = 0; i < audit->process_count && fits; i++)
        if (audit->processes[i].has_pid && audit->processes[i].pid < UINT64_MAX &&
            audit->processes[i].exit_time_100ns == 0)
            fits = kda_map_put(&audit->live_pids, audit->processes[i].pid + 1, i);
    const struct kda_etw_provider *const *providers =
        audit->etw ? kda_etw_providers(audit->etw, &count) : NULL;
    for (size_t i = 0; i < count && fits; i++)
        fits = providers[i]->va == 0 || kda_map_put(&audit->providers, providers[i]->va, i);
    return fits;
}

static enum kda_status prepare(struct kda_audit *audit, struct kda_error *err)
{
    size_t count = 0;
    while (kda_check_at(count))
        count++;
    audit->results = kda_calloc(count, sizeof(*audit->results));
    if (!audit->results)
        return kda_fail(err, KDA_NO_MEMORY, "audit", "out of memory for the audit");
    audit->processes_status =
        kda_processes(audit->kernel, &audit->processes, &audit->process_count, err);
    if (audit->processes_status != KDA_OK)
        audit->process_count = 0;
    if (audit->processes_status == KDA_NO_MEMORY)
        return KDA_NO_MEMORY;
    if (!index_rows(audit))
        return kda_fail(err, KDA_NO_MEMORY, "audit", "out of memory for the audit");
    enum kda_status status = kda_callbacks_read(audit->kernel, &audit->callbacks, err);
    return status == KDA_NO_MEMORY ? status : KDA_OK;
}

static enum kda_status run_group(struct kda_audit *audit, const struct kda_check *checks,
                                 struct kda_error *err)
{
    for (const struct kda_check *check = checks; check->id; check++) {
        struct kda_check_result *result = &audit->results[audit->result_count++];
        result->check = check;
        audit->now = result;
        check->run(audit);
        result->outcome = result->findings    ? KDA_CHECK_FOUND
                          : result->unchecked ? KDA_CHECK_NOT_CHECKED
                                              : KDA_CHECK_PASSED;
        if (audit->no_memory)
            return kda_fail(err, KDA_NO_MEMORY, "audit", "out of memory for findings");
    }
    return KDA_OK;
}

enum kda_status kda_audit_run(struct kda_kernel *kernel, const struct kda_etw *etw,
                              const struct kda_audit_options *options, struct kda_audit **ret,
                              struct kda_error *err)
{
    struct kda_audit *audit = kda_calloc(1, sizeof(*audit));
    if (!audit)
        return kda_fail(err, KDA_NO_MEMORY, "audit", "out of memory for the audit");
    audit->kernel = kernel;
    audit->etw = etw;
    if (options)
        audit->options = *options;
    kda_arena_init(&audit->arena, 0);
    kda_map_init(&audit->live_pids);
    kda_map_init(&audit->providers);
    kda_map_init(&audit->lists.heads);
    kda_map_init(&audit->lists.nodes);
    audit->imports_left = KDA_AUDIT_MAX_IMPORTS;
    enum kda_status status = prepare(audit, err);
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]) && status == KDA_OK; i++)
        if (!groups[i].carved || kda_pool_carving(kernel))
            status = run_group(audit, groups[i].checks, err);
    if (status != KDA_OK) {
        kda_audit_free(audit);
        return status;
    }
    if (!kda_audit_join(audit)) {
        kda_audit_free(audit);
        return kda_fail(err, KDA_NO_MEMORY, "audit", "out of memory for findings");
    }
    if (audit->finding_count > 1)
        qsort(audit->findings, audit->finding_count, sizeof(*audit->findings), by_severity);
    *ret = audit;
    return KDA_OK;
}

void kda_audit_free(struct kda_audit *audit)
{
    if (!audit)
        return;
    kda_callbacks_free(audit->callbacks);
    kda_map_deinit(&audit->live_pids);
    kda_map_deinit(&audit->providers);
    kda_map_deinit(&audit->lists.heads);
    kda_map_deinit(&audit->lists.nodes);
    kda_free(audit->lists.status);
    kda_names_free(audit->running);
    kda_arena_deinit(&audit->arena);
    kda_free(audit->results);
    kda_free(audit->findings);
    kda_free(audit->unchecked);
    kda_free(audit);
}

const struct kda_check_result *kda_audit_results(const struct kda_audit *audit, size_t *count)
{
    *count = audit->result_count;
    return audit->results;
}

const struct kda_audit_finding *const *kda_audit_findings(const struct kda_audit *audit,
                                                          size_t *count)
{
    *count = audit->finding_count;
    return (const struct kda_audit_finding *const *)audit->findings;
}

const struct kda_unchecked *kda_audit_unchecked(const struct kda_audit *audit, size_t *count)
{
    *count = audit->unchecked_count;
    return audit->unchecked;
}

size_t kda_audit_dropped(const struct kda_audit *audit)
{
    return audit->dropped;
}
