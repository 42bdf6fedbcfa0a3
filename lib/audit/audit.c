/*
 * audit.c - runs the checks and keeps what they say.
 */
#include "audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define TEXT_MAX 1024
#define MAX_LISTS 1048576u

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

/* ---- texts ---- */

static const char *keep_text(struct kda_audit *audit, const char *fmt, va_list args)
{
    char text[TEXT_MAX];
    int size = vsnprintf(text, sizeof(text), fmt, args);
    size_t used = size < 0 ? 0 : (size_t)size < sizeof(text) ? (size_t)size : sizeof(text) - 1;
    char *kept = kda_arena_strndup(&audit->arena, text, kda_utf8_valid_prefix(text, used));
    if (!kept)
        audit->no_memory = true;
    return kept ? kept : "";
}

const char *kda_audit_text(struct kda_audit *audit, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const char *text = keep_text(audit, fmt, args);
    va_end(args);
    return text;
}

const char *kda_audit_place(struct kda_audit *audit, uint64_t va)
{
    const struct kda_module *module = kda_module_at(audit->kernel, va);
    return module && module->name[0] ? kda_audit_text(audit, "in %s", module->name)
           : module                  ? "in a driver without a name"
                                     : "in no loaded driver";
}

/* ---- what checks say ---- */

static const char *name_of(struct kda_audit *audit, const struct kda_subject *subject)
{
    return subject->name_row ? subject->name_row(audit, subject->row, subject->of) : subject->name;
}

void kda_audit_finding(struct kda_audit *audit, enum kda_severity severity,
                       const struct kda_subject *subject, const char *fmt, ...)
{
    audit->now->findings++;
    audit->open = NULL;
    void *items = audit->findings;
    if (audit->now->findings > KDA_AUDIT_MAX_FINDINGS) {
        audit->dropped++;
        return;
    }
    struct kda_audit_finding *finding = kda_arena_alloc(&audit->arena, sizeof(*finding));
    if (!finding || !kda_grow(&items, &audit->finding_capacity, audit->finding_count + 1,
                              sizeof(*audit->findings), SIZE_MAX)) {
        audit->no_memory = true;
        return;
    }
    audit->findings = items;
    finding->order = audit->finding_count;
    audit->findings[audit->finding_count++] = finding;
    va_list args;
    va_start(args, fmt);
    finding->text = keep_text(audit, fmt, args);
    va_end(args);
    finding->check = audit->now->check;
    finding->severity = severity;
    finding->object = subject->object;
    finding->name = name_of(audit, subject);
    finding->va = subject->va;
    finding->silo = subject->silo;
    audit->open = finding;
    audit->open_evidence = NULL;
}

void kda_audit_evidence(struct kda_audit *audit, const char *name, uint64_t va, const char *found,
                        const char *expected)
{
    struct kda_audit_finding *finding = audit->open;
    if (!finding || finding->evidence_count >= KDA_AUDIT_EVIDENCE)
        return;
    if (!audit->open_evidence) {
        audit->open_evidence =
            kda_arena_alloc(&audit->arena, KDA_AUDIT_EVIDENCE * sizeof(*audit->open_evidence));
        if (!audit->open_evidence) {
            audit->no_memory = true;
            return;
        }
        finding->evidence = audit->open_evidence;
    }
    struct kda_evidence *evidence = &audit->open_evidence[finding->evidence_count++];
    evidence->name = name;
    evidence->va = va;
    evidence->found = kda_audit_text(audit, "%s", found);
    evidence->expected = expected ? kda_audit_text(audit, "%s", expected) : NULL;
}

void kda_audit_about(struct kda_audit *audit, uint64_t va)
{
    struct kda_audit_finding *finding = audit->open;
    for (size_t i = 0; finding && va && i < KDA_AUDIT_RELATED; i++)
        if (finding->related[i] == 0) {
            finding->related[i] = va;
            return;
        }
}

void kda_audit_about_slot(struct kda_audit *audit, const struct kda_etw_silo *silo, uint32_t slot)
{
    if (silo && silo->array && slot < silo->slots)
        kda_audit_about(audit, silo->array + slot * (uint64_t)8);
}

void kda_audit_number(struct kda_audit *audit, const char *name, uint64_t va, uint64_t found,
                      const char *expected)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)found);
    kda_audit_evidence(audit, name, va, text, expected);
}

void kda_audit_hex(struct kda_audit *audit, const char *name, uint64_t va, uint64_t found,
                   const char *expected)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "0x%llx", (unsigned long long)found);
    kda_audit_evidence(audit, name, va, text, expected);
}

void kda_audit_open(struct kda_audit *audit, const struct kda_subject *subject, const char *fmt,
                    ...)
{
    audit->now->unchecked++;
    audit->open = NULL;
    void *items = audit->unchecked;
    if (audit->now->unchecked > KDA_AUDIT_MAX_UNCHECKED) {
        audit->dropped++;
        return;
    }
    if (!kda_grow(&items, &audit->unchecked_capacity, audit->unchecked_count + 1,
                  sizeof(*audit->unchecked), SIZE_MAX)) {
        audit->no_memory = true;
        return;
    }
    audit->unchecked = items;
    struct kda_unchecked *item = &audit->unchecked[audit->unchecked_count++];
    memset(item, 0, sizeof(*item));
    item->check = audit->now->check;
    if (subject) {
        item->object = subject->object;
        item->name = name_of(audit, subject);
        item->va = subject->va;
    }
    va_list args;
    va_start(args, fmt);
    item->reason = keep_text(audit, fmt, args);
    va_end(args);
}

/* ---- what checks ask ---- */

uint64_t kda_audit_member(const struct kda_audit *audit, uint64_t object, enum kda_field_id field)
{
    uint32_t at = kda_field_offset(audit->kernel, field);
    return at == KDA_NONE ? 0 : object + at;
}

static enum kda_step on_node(void *context, uint64_t link_va, enum kda_link how)
{
    struct kda_audit *audit = context;
    struct kda_audited_lists *lists = &audit->lists;
    uint64_t now = lists->count - 1, other;
    if (how == KDA_LINK_TORN)
        return KDA_STEP_REFUSE; /* what a list holds is asked, not what it may lead to */
    if (kda_map_get(&lists->nodes, link_va, &other) && other != now) {
        lists->status[other] = KDA_BAD_DATA; /* a node of two lists: neither can be trusted */
        lists->status[now] = KDA_BAD_DATA;
        return KDA_STEP_TAKE;
    }
    audit->no_memory = audit->no_memory || !kda_map_put(&lists->nodes, link_va, now);
    return audit->no_memory ? KDA_STEP_STOP : KDA_STEP_TAKE;
}

static bool add_list(struct kda_audit *audit, uint64_t head)
{
    struct kda_audited_lists *lists = &audit->lists;
    void *items = lists->status;
    if (!kda_grow(&items, &lists->capacity, lists->count + 1, sizeof(*lists->status), MAX_LISTS) ||
        !kda_map_put(&lists->heads, head, lists->count)) {
        lists->status = items;
        audit->no_memory = true;
        return false;
    }
    lists->status = items;
    lists->status[lists->count++] = KDA_OK;
    return true;
}

static enum kda_status walk_again(struct kda_audit *audit, uint64_t head, size_t max)
{
    struct kda_list_result result;
    if (!add_list(audit, head))
        return KDA_NO_MEMORY;
    enum kda_status *ret = &audit->lists.status[audit->lists.count - 1];
    enum kda_status status =
        kda_list_walk(audit->kernel, head, max, NULL, on_node, audit, &result, NULL);
    if (status == KDA_NO_MEMORY)
        audit->no_memory = true;
    if (status == KDA_OK && result.forward != KDA_LIST_CLOSED)
        status = result.forward == KDA_LIST_BROKEN && kda_status_is_gap(result.reason[0])
                     ? result.reason[0]
                     : KDA_BAD_DATA;
    if (status != KDA_OK)
        *ret = status;
    return *ret;
}

enum kda_status kda_audit_on_list(struct kda_audit *audit, uint64_t head, size_t max,
                                  uint64_t link_va, bool *found)
{
    uint64_t index, list;
    enum kda_status status = kda_map_get(&audit->lists.heads, head, &index)
                                 ? audit->lists.status[index]
                                 : walk_again(audit, head, max);
    *found = kda_map_get(&audit->lists.heads, head, &index) &&
             kda_map_get(&audit->lists.nodes, link_va, &list) && list == index;
    return status;
}

void kda_audit_open_gaps(struct kda_audit *audit, const char *objects, const char *const *kinds)
{
    const struct kda_gaps *gaps = kda_kernel_gaps(audit->kernel);
    const struct kda_gap *first = NULL;
    size_t count = gaps->dropped;
    for (size_t i = 0; i < gaps->count; i++)
        for (size_t k = 0; kinds[k]; k++)
            if (strcmp(gaps->items[i].what, kinds[k]) == 0) {
                first = first ? first : &gaps->items[i];
                count++;
            }
    if (count == 0)
        return;
    kda_audit_open(audit, NULL, "%s may be missing, %zu gap%s: %s", objects, count,
                   count == 1 ? "" : "s", first ? first->text : "more than could be kept");
}

bool kda_audit_has_gap(struct kda_audit *audit, const char *what)
{
    const struct kda_gaps *gaps = kda_kernel_gaps(audit->kernel);
    size_t max = sizeof(audit->gap_kinds) / sizeof(audit->gap_kinds[0]);
    for (; audit->gaps_seen < gaps->count; audit->gaps_seen++) {
        const char *kind = gaps->items[audit->gaps_seen].what;
        bool known = false;
        for (size_t i = 0; i < audit->gap_kind_count && !known; i++)
            known = strcmp(audit->gap_kinds[i], kind) == 0;
        if (!known && audit->gap_kind_count < max)
            audit->gap_kinds[audit->gap_kind_count++] = kind;
    }
    for (size_t i = 0; i < audit->gap_kind_count; i++)
        if (strcmp(audit->gap_kinds[i], what) == 0)
            return true;
    /* More kinds than there are names for, or gaps that were not kept: anything may be missing. */
    return gaps->dropped > 0 || audit->gap_kind_count == max;
}

const struct kda_process *kda_audit_live_pid(const struct kda_audit *audit, uint64_t pid)
{
    uint64_t index;
    return pid < UINT64_MAX && kda_map_get(&audit->live_pids, pid + 1, &index)
               ? &audit->processes[index]
               : NULL;
}

const struct kda_etw_provider *kda_audit_provider_at(const struct kda_audit *audit, uint64_t va)
{
    size_t count;
    uint64_t index;
    return kda_map_get(&audit->providers, va, &index) ? kda_etw_providers(audit->etw, &count)[index]
                                                      : NULL;
}

bool kda_audit_no_model(struct kda_audit *audit)
{
    if (audit->etw)
        return false;
    kda_audit_open(audit, NULL, "the ETW state of this image could not be read");
    return true;
}

/* ---- subjects ---- */

struct kda_subject kda_subject_session(const struct kda_etw_session *session)
{
    struct kda_subject subject = {
        .object = "session",
        .name = KDA_ETW_HAS(session, S, NAME) ? session->name : NULL,
        .va = session->va,
        .silo = session->silo ? session->silo->label : NULL,
    };
    return subject;
}

static const char *name_process(struct kda_audit *audit, const void *row, const void *of)
{
    const struct kda_process *process = row;
    (void)of;
    return process->has_pid
               ? kda_audit_text(audit, "%s (%llu)", process->name, (unsigned long long)process->pid)
               : NULL;
}

struct kda_subject kda_subject_process(const struct kda_process *process)
{
    struct kda_subject subject = {
        .object = "process", .va = process->va, .name_row = name_process, .row = process};
    return subject;
}

static const char *name_consumer(struct kda_audit *audit, const void *row, const void *of)
{
    const struct kda_etw_consumer *consumer = row;
    const char *session = consumer->session && KDA_ETW_HAS(consumer->session, S, NAME)
                              ? consumer->session->name
                              : "?";
    (void)of;
    return consumer->has_pid ? kda_audit_text(audit, "%s (%llu) of %s", consumer->process,
                                              (unsigned long long)consumer->pid, session)
                             : kda_audit_text(audit, "of %s", session);
}

struct kda_subject kda_subject_consumer(const struct kda_etw_consumer *consumer)
{
    struct kda_subject subject = {
        .object = "consumer",
        .va = consumer->va,
        .silo = consumer->silo ? consumer->silo->label : NULL,
        .name_row = name_consumer,
        .row = consumer,
    };
    return subject;
}

static const char *name_provider(struct kda_audit *audit, const void *row, const void *of)
{
    const struct kda_etw_provider *provider = row;
    char guid[KDA_GUID_TEXT];
    (void)of;
    if (!provider->has_guid)
        return provider->name;
    kda_guid_text(provider->guid, guid);
    return provider->name ? kda_audit_text(audit, "%s %s", provider->name, guid)
                          : kda_audit_text(audit, "%s", guid);
}

struct kda_subject kda_subject_provider(const struct kda_etw_provider *provider)
{
    struct kda_subject subject = {
        .object = "provider",
        .va = provider->va,
        .silo = provider->silo ? provider->silo->label : NULL,
        .name_row = name_provider,
        .row = provider,
    };
    return subject;
}

static const char *name_registration(struct kda_audit *audit, const void *row, const void *of)
{
    const struct kda_etw_registration *reg = row;
    const char *provider = name_provider(audit, of, NULL);
    provider = provider ? provider : "provider";
    if (reg->has_pid)
        return kda_audit_text(audit, "%s by %s (%llu)", provider, reg->process,
                              (unsigned long long)reg->pid);
    return kda_audit_text(audit, "%s by %s", provider, reg->module ? reg->module : "unknown");
}

struct kda_subject kda_subject_registration(const struct kda_etw_provider *provider,
                                            const struct kda_etw_registration *reg)
{
    struct kda_subject subject = {
        .object = "registration",
        .va = reg->va,
        .silo = provider->silo ? provider->silo->label : NULL,
        .name_row = name_registration,
        .row = reg,
        .of = provider,
    };
    return subject;
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
