/*
 * recall_etw.c - the lists and tables of tracing, and the kernel's counts of consumers.
 */
#include <string.h>

#include "recall_int.h"

#define BUCKET_LISTS 3u
#define LIST_ENTRY_SIZE 16u
#define BUCKET_WITHOUT_TYPE 56u /* where no structure describes it: three heads and a lock */

static uint64_t member(const struct kda_recall *recall, uint64_t object, enum kda_field_id field)
{
    uint32_t at = kda_field_offset(recall->kernel, field);
    return object == 0 || at == KDA_NONE ? 0 : object + at;
}

/* ---- slots of the logger array ---- */

static void slots(struct kda_recall *recall, const struct kda_etw_silo *silo)
{
    struct kda_recall_item *item =
        kda_recall_add(recall, "logger array", "logger slot", silo->array);
    size_t there = 0;
    item->of = silo->label;
    if (silo->array == 0)
        return;
    for (uint32_t i = 0; i < silo->slots; i++) {
        uint8_t bytes[8];
        uint64_t at = silo->array + i * (uint64_t)8;
        enum kda_status status = kda_read(recall->kernel, at, bytes, sizeof(bytes), NULL);
        there += status == KDA_OK;
        if (status == KDA_OK || item->state != KDA_RECALL_COMPLETE)
            continue;
        item->state = KDA_RECALL_BROKEN;
        item->reason = status;
        item->broken_va[0] = at;
    }
    kda_recall_found(item, there);
    uint64_t count = member(recall, silo->state, KDA_F_ETW_SILODRIVERSTATE_MaxLoggers);
    if (count) /* other builds have an array of fixed length */
        kda_recall_count(recall, item, count, 4);
}

/* ---- hash tables ---- */

static void buckets(struct kda_recall *recall, const struct kda_etw_silo *silo)
{
    uint32_t size = kda_kernel_layout(recall->kernel)->size[KDA_STRUCT_ETW_HASH_BUCKET];
    struct kda_recall_item *item =
        kda_recall_add(recall, "EtwpGuidHashTable", "provider", silo->table);
    const struct kda_etw_provider *const *providers;
    size_t count, nodes = 0, found = 0, others = 0;
    item->of = silo->label;
    if (silo->table == 0)
        return;
    if (size == KDA_NONE)
        size = BUCKET_WITHOUT_TYPE;
    for (uint32_t i = 0; i < KDA_ETW_BUCKETS * BUCKET_LISTS && !recall->no_memory; i++) {
        uint64_t head = silo->table + (uint64_t)(i / BUCKET_LISTS) * size +
                        (uint64_t)(i % BUCKET_LISTS) * LIST_ENTRY_SIZE;
        item->lists++;
        item->whole += kda_recall_list(recall, item, head, KDA_ETW_MAX_GUIDS, &nodes);
    }
    providers = kda_etw_providers(recall->etw, &count);
    for (size_t i = 0; i < count; i++) {
        bool here = providers[i]->silo == silo;
        found += here && (providers[i]->found_by & KDA_PROVIDER_TABLE) != 0;
        others += here && !(providers[i]->found_by & KDA_PROVIDER_TABLE);
    }
    kda_recall_witnessed(item, found, others);
    kda_recall_group(item);
}

/* ---- consumers ---- */

/* A session whose count is not what was found, or cannot be read: a row of its own. */
static void one_session(struct kda_recall *recall, const struct kda_etw_session *session)
{
    uint64_t at = member(recall, session->va, KDA_F_WMI_LOGGER_CONTEXT_NumConsumers);
    bool known = KDA_ETW_HAS(session, S, NUM_CONSUMERS);
    if (at == 0 || (known && session->num_consumers == session->consumer_count))
        return;
    struct kda_recall_item *item =
        kda_recall_add(recall, "WMI_LOGGER_CONTEXT.NumConsumers", "consumer", session->va);
    item->of = KDA_ETW_HAS(session, S, NAME) ? session->name : NULL;
    item->only_count = true;
    kda_recall_found(item, session->consumer_count);
    item->count_va = at;
    item->has_count = known;
    item->counted = known ? session->num_consumers : 0;
    if (!known)
        item->uncounted = "the count is not in the image";
}

static void consumers(struct kda_recall *recall)
{
    size_t count, session_count, nodes = 0, found = 0, unread = 0;
    uint64_t sum = 0;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(recall->etw, &session_count);
    const struct kda_etw_consumer *const *all = kda_etw_consumers(recall->etw, &count);
    struct kda_recall_item *item =
        kda_recall_add(recall, "WMI_LOGGER_CONTEXT.Consumers", "consumer", 0);
    if (!kda_has_field(recall->kernel, KDA_F_WMI_LOGGER_CONTEXT_Consumers))
        return;
    item->state = KDA_RECALL_COMPLETE;
    for (size_t i = 0; i < session_count && !recall->no_memory; i++) {
        uint64_t head = member(recall, sessions[i]->va, KDA_F_WMI_LOGGER_CONTEXT_Consumers);
        item->lists++;
        item->whole += head && kda_recall_list(recall, item, head, KDA_ETW_MAX_CONSUMERS, &nodes);
        if (KDA_ETW_HAS(sessions[i], S, NUM_CONSUMERS))
            sum += sessions[i]->num_consumers;
        else
            unread++;
    }
    for (size_t i = 0; i < count; i++)
        found += (all[i]->found_by & KDA_CONSUMER_LIST) != 0;
    kda_recall_witnessed(item, found, count - found);
    kda_recall_group(item);
    item->has_count = unread < session_count || session_count == 0;
    item->counted = sum; /* a sum has no address: sessions that differ have a row */
    if (unread > 0)
        item->uncounted = "sessions whose memory is missing are not in the sum";
    for (size_t i = 0; i < session_count; i++)
        one_session(recall, sessions[i]);
    kda_recall_objects(recall, "EtwConsumer", "consumer", count);
}

/* ---- registrations ---- */

static void registrations(struct kda_recall *recall)
{
    size_t count, nodes = 0, found = 0, others = 0, objects = 0;
    const struct kda_etw_provider *const *providers = kda_etw_providers(recall->etw, &count);
    struct kda_recall_item *item =
        kda_recall_add(recall, "ETW_GUID_ENTRY.RegListHead", "registration", 0);
    if (!kda_has_field(recall->kernel, KDA_F_ETW_GUID_ENTRY_RegListHead))
        return;
    item->state = KDA_RECALL_COMPLETE;
    for (size_t i = 0; i < count && !recall->no_memory; i++) {
        const struct kda_etw_provider *provider = providers[i];
        uint64_t head = member(recall, provider->va, KDA_F_ETW_GUID_ENTRY_RegListHead);
        item->lists++;
        item->whole += head && kda_recall_list(recall, item, head, KDA_ETW_MAX_REGS, &nodes);
        if (provider->has_type && provider->type == KDA_ETW_GROUP)
            continue; /* a group's registrations are those of its members */
        for (size_t k = 0; k < provider->registration_count; k++) {
            const struct kda_etw_registration *reg = provider->registrations[k];
            found += (reg->found_by & KDA_REG_LIST) != 0;
            others += !(reg->found_by & KDA_REG_LIST);
            objects += reg->has_kind && !reg->kernel;
        }
    }
    kda_recall_witnessed(item, found, others);
    kda_recall_group(item);
    kda_recall_objects(recall, "EtwRegistration", "user registration", objects);
}

void kda_recall_etw(struct kda_recall *recall)
{
    size_t count;
    const struct kda_etw_silo *silos = kda_etw_silos(recall->etw, &count);
    for (size_t i = 0; i < count; i++) {
        slots(recall, &silos[i]);
        buckets(recall, &silos[i]);
    }
    consumers(recall);
    registrations(recall);
}
