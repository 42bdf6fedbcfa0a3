/*
 * audit_ask.c - what checks ask of the image: lists walked again, gaps, rows by address or pid.
 */
#include "audit.h"

#include <string.h>

#define MAX_LISTS 1048576u

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

void kda_audit_each_provider(struct kda_audit *audit, kda_provider_fn fn)
{
    size_t count;
    if (kda_audit_no_model(audit))
        return;
    static const char *const kinds[] = {"providers", "silo", "silos", NULL};
    kda_audit_open_gaps(audit, "providers", kinds);
    const struct kda_etw_provider *const *providers = kda_etw_providers(audit->etw, &count);
    for (size_t i = 0; i < count; i++) {
        struct kda_subject subject = kda_subject_provider(providers[i]);
        kda_audit_examined(audit);
        if (!providers[i]->readable)
            kda_audit_open(audit, &subject, "the entry's memory is not in the image");
        else
            fn(audit, providers[i], &subject);
    }
}

bool kda_audit_slots_readable(struct kda_audit *audit, const struct kda_etw_provider *provider,
                              const struct kda_subject *subject)
{
    bool whole = provider->combined.readable;
    for (unsigned i = 0; i < KDA_ETW_ENABLE_SLOTS; i++)
        whole = whole && provider->enables[i].readable;
    if (!whole)
        kda_audit_open(audit, subject, "not every enable slot of the entry is in the image");
    return whole;
}
