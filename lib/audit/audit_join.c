/*
 * audit_join.c - findings that corroborate each other become one that says so.
 *
 * A cause is a row: what one act leaves behind, as the checks that see it. Findings of two of these
 * checks about one object were left by one act. The most severe of them stands for all; the others
 * stay findings of their checks and name it.
 */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#define CAUSE_CHECKS 5u
#define TEXT_MAX 1024u
#define NO_MEMBER SIZE_MAX

/* Checks in the order in which they stand for the others when their severity is the same. */
static const struct cause {
    const char *checks[CAUSE_CHECKS];
    bool elsewhere; /* what the act was done to is none of the objects that the findings name */
} causes[] = {
    /* a driver's callback was removed */
    {{"callback.security_driver", "callback.missing", "callback.count"}, false},
    /* a process was hidden */
    {{"process.unlinked", "process.no_cid", "consumer.no_process", "consumer.no_handle"}, false},
    /* a consumer was cut off from its session */
    {{"consumer.unlinked", "consumer.disconnected", "session.consumer_count",
      "session.no_consumer"},
     false},
    /* a session's context was written to */
    {{"session.rejecting", "session.stopped", "session.clock", "session.logger_id"}, false},
    /* a session was taken out of the array */
    {{"system.loggers", "system.security_provider", "consumer.unlinked", "provider.dead_session"},
     true},
    /* a provider was silenced */
    {{"provider.combined", "provider.silent", "registration.mask", "provider.filtered"}, false},
    /* a provider or registration was taken off its list */
    {{"provider.unlinked", "registration.unlinked", "registration.flags"}, false},
};
#define CAUSES (sizeof(causes) / sizeof(causes[0]))

struct member {
    struct kda_audit_finding *finding;
    unsigned rank; /* of its check in the cause */
    size_t parent; /* towards the one whose group it is in */
    size_t lead;   /* of a group's root: the member that stands for it */
    size_t others; /* of a group's root: findings of other checks than the lead's */
};

struct joining {
    struct kda_audit *audit;
    struct member *members;
    size_t count, capacity;
    struct kda_map objects; /* va -> member that is about it */
    bool no_memory;
};

static size_t root_of(struct joining *joining, size_t index)
{
    struct member *members = joining->members;
    while (members[index].parent != index) {
        members[index].parent = members[members[index].parent].parent;
        index = members[index].parent;
    }
    return index;
}

static void link_object(struct joining *joining, size_t index, uint64_t va)
{
    uint64_t other;
    if (va == 0)
        return;
    if (kda_map_get(&joining->objects, va, &other))
        joining->members[root_of(joining, index)].parent = root_of(joining, (size_t)other);
    else if (!kda_map_put(&joining->objects, va, index))
        joining->no_memory = true;
}

static void collect(struct joining *joining, const struct cause *cause)
{
    struct kda_audit *audit = joining->audit;
    joining->count = 0;
    for (size_t i = 0; i < audit->finding_count; i++) {
        struct kda_audit_finding *finding = audit->findings[i];
        unsigned rank = 0;
        while (rank < CAUSE_CHECKS && cause->checks[rank] &&
               strcmp(cause->checks[rank], finding->check->id) != 0)
            rank++;
        if (rank == CAUSE_CHECKS || !cause->checks[rank] || finding->joined_to ||
            finding->corroborating_count)
            continue;
        void *items = joining->members;
        if (!kda_grow(&items, &joining->capacity, joining->count + 1, sizeof(*joining->members),
                      SIZE_MAX)) {
            joining->no_memory = true;
            return;
        }
        joining->members = items;
        joining->members[joining->count] =
            (struct member){finding, rank, joining->count, NO_MEMBER, 0};
        joining->count++;
        if (!cause->elsewhere)
            link_object(joining, joining->count - 1, finding->va);
        for (size_t k = 0; k < KDA_AUDIT_RELATED; k++)
            link_object(joining, joining->count - 1, finding->related[k]);
    }
}

static bool stands_before(const struct member *a, const struct member *b)
{
    if (a->finding->severity != b->finding->severity)
        return a->finding->severity > b->finding->severity;
    return a->rank < b->rank;
}

static void choose(struct joining *joining)
{
    struct member *members = joining->members;
    for (size_t i = 0; i < joining->count; i++) {
        struct member *root = &members[root_of(joining, i)];
        if (root->lead == NO_MEMBER || stands_before(&members[i], &members[root->lead]))
            root->lead = i;
    }
    for (size_t i = 0; i < joining->count; i++) {
        struct member *root = &members[root_of(joining, i)];
        root->others += members[i].rank != members[root->lead].rank;
    }
}

/* The sentence with what the others say: the first of each check. */
static const char *joined_text(struct kda_audit *audit, const char *text,
                               const struct kda_audit_finding *const *others, size_t count)
{
    char joined[TEXT_MAX] = "";
    size_t used = 0, same;
    for (size_t i = 0; i < count && used < sizeof(joined); i += same) {
        char more[40] = "";
        for (same = 1; i + same < count && others[i + same]->check == others[i]->check;)
            same++;
        if (same > 1)
            (void)snprintf(more, sizeof(more), "; %zu findings", same);
        int size = snprintf(joined + used, sizeof(joined) - used, "%s%s (%s%s)", i ? ", " : "",
                            others[i]->check->id, others[i]->text, more);
        used += size < 0 ? 0 : (size_t)size;
    }
    return kda_audit_text(audit, "%s; corroborated by %s", text, joined);
}

/* What the others read is shown where they are. */
static void take_evidence(struct kda_audit *audit, struct kda_audit_finding *lead,
                          const struct kda_audit_finding *other)
{
    size_t count = lead->evidence_count;
    struct kda_evidence *all = kda_arena_alloc(&audit->arena, KDA_AUDIT_EVIDENCE * sizeof(*all));
    if (!all) {
        audit->no_memory = true;
        return;
    }
    memset(all, 0, KDA_AUDIT_EVIDENCE * sizeof(*all));
    if (count)
        memcpy(all, lead->evidence, count * sizeof(*all));
    for (size_t i = 0; i < other->evidence_count && count < KDA_AUDIT_EVIDENCE; i++) {
        bool known = false;
        for (size_t k = 0; k < count; k++)
            known = known || (other->evidence[i].va && all[k].va == other->evidence[i].va);
        if (!known)
            all[count++] = other->evidence[i];
    }
    lead->evidence = all;
    lead->evidence_count = count;
}

static void join_group(struct joining *joining, size_t root)
{
    struct kda_audit *audit = joining->audit;
    struct member *members = joining->members;
    size_t lead = members[root].lead, count = 0;
    const struct kda_audit_finding **others =
        kda_arena_alloc(&audit->arena, members[root].others * sizeof(struct kda_audit_finding *));
    if (!others) {
        joining->no_memory = true;
        return;
    }
    for (size_t i = 0; i < joining->count; i++)
        if (root_of(joining, i) == root && members[i].rank != members[lead].rank) {
            members[i].finding->joined_to = members[lead].finding;
            others[count++] = members[i].finding;
        }
    for (size_t i = 0; i < joining->count; i++) {
        struct kda_audit_finding *finding = members[i].finding;
        if (root_of(joining, i) != root || members[i].rank != members[lead].rank)
            continue;
        finding->corroborating = others;
        finding->corroborating_count = count;
        finding->text = joined_text(audit, finding->text, others, count);
        for (size_t k = 0; k < count && finding->evidence_count < KDA_AUDIT_EVIDENCE; k++)
            take_evidence(audit, finding, others[k]);
    }
}

bool kda_audit_join(struct kda_audit *audit)
{
    struct joining joining = {.audit = audit};
    for (size_t i = 0; i < CAUSES && !joining.no_memory; i++) {
        kda_map_init(&joining.objects);
        collect(&joining, &causes[i]);
        if (!joining.no_memory)
            choose(&joining);
        for (size_t k = 0; k < joining.count && !joining.no_memory; k++)
            if (joining.members[k].parent == k && joining.members[k].others > 0)
                join_group(&joining, k);
        kda_map_deinit(&joining.objects);
    }
    kda_free(joining.members);
    return !joining.no_memory && !audit->no_memory;
}
