/*
 * decode_ext.c - what stands beside the payload of a record: stacks, SIDs, keys, activities.
 */
#include <stdio.h>

#include "decode.h"

static void put_stack(struct kda_event_builder *b, const struct kda_etl_ext *item)
{
    unsigned size = item->type == KDA_ETL_EXT_STACK32 ? 4 : 8;
    if (item->size < 8)
        return;
    uint64_t match = kda_le64(item->data);
    if (match != 0)
        kda_event_object_number(b, "stack_match", KDA_TYPE_HEX, match);
    if (!kda_event_object_open(b, "stack", KDA_TYPE_ARRAY))
        return;
    unsigned count = (item->size - 8u) / size;
    for (unsigned i = 0; i < count && i < KDA_DECODE_MAX_STACK; i++) {
        const uint8_t *at = item->data + 8 + (size_t)i * size;
        kda_event_object_number(b, NULL, KDA_TYPE_HEX, size == 4 ? kda_le32(at) : kda_le64(at));
    }
    kda_event_object_close(b);
}

static void put_number(struct kda_event_builder *b, const char *name,
                       const struct kda_etl_ext *item, enum kda_type type)
{
    if (item->size >= 8)
        kda_event_object_number(b, name, type, kda_le64(item->data));
    else if (item->size >= 4)
        kda_event_object_number(b, name, type, kda_le32(item->data));
}

static void put_guid(struct kda_event_builder *b, const char *name, const struct kda_etl_ext *item)
{
    if (item->size >= 16)
        kda_event_object_bytes(b, name, KDA_TYPE_GUID, item->data, 16);
}

static void put_traits(struct kda_event_builder *b, const struct kda_etl_ext *item)
{
    const uint8_t *group;
    (void)kda_traits_parse(item->data, item->size, &group);
    if (group)
        kda_event_object_bytes(b, "provider_group", KDA_TYPE_GUID, group, 16);
}

static void put_instance(struct kda_event_builder *b, const struct kda_etl_ext *item)
{
    if (item->size < 24)
        return;
    kda_event_object_number(b, "instance", KDA_TYPE_NUMBER, kda_le32(item->data));
    kda_event_object_number(b, "parent_instance", KDA_TYPE_NUMBER, kda_le32(item->data + 4));
    kda_event_object_bytes(b, "parent_guid", KDA_TYPE_GUID, item->data + 8, 16);
}

static void put_counters(struct kda_event_builder *b, const uint8_t *bytes, uint32_t size)
{
    if (size < 8 || !kda_event_object_open(b, "counters", KDA_TYPE_ARRAY))
        return;
    for (uint32_t i = 0; size - i >= 8; i += 8)
        kda_event_object_number(b, NULL, KDA_TYPE_NUMBER, kda_le64(bytes + i));
    kda_event_object_close(b);
}

/* Items that are shown elsewhere: related activity, TraceLogging schema, process start key. */
static bool shown_elsewhere(const struct kda_event *event, unsigned type)
{
    return type == KDA_ETL_EXT_SCHEMA_TL || type == KDA_ETL_EXT_PROCESS_KEY ||
           (type == KDA_ETL_EXT_RELATED_ACTIVITY && event->kind == KDA_KIND_ETW_EVENT);
}

static void put_item(struct kda_event_builder *b, const struct kda_etl_ext *item)
{
    char name[24];
    switch (item->type) {
    case KDA_ETL_EXT_RELATED_ACTIVITY:
        put_guid(b, "related_activity", item);
        return;
    case KDA_ETL_EXT_SID:
        if (kda_payload_sid(item->data, item->size))
            kda_event_object_bytes(b, "user_sid", KDA_TYPE_SID, item->data,
                                   kda_payload_sid(item->data, item->size));
        return;
    case KDA_ETL_EXT_TS_ID:
        put_number(b, "session", item, KDA_TYPE_NUMBER);
        return;
    case KDA_ETL_EXT_INSTANCE:
        put_instance(b, item);
        return;
    case KDA_ETL_EXT_STACK32:
    case KDA_ETL_EXT_STACK64:
        put_stack(b, item);
        return;
    case KDA_ETL_EXT_PEBS:
        put_number(b, "pebs_index", item, KDA_TYPE_NUMBER);
        return;
    case KDA_ETL_EXT_PMC:
        put_counters(b, item->data, item->size);
        return;
    case KDA_ETL_EXT_PSM_KEY:
        put_number(b, "psm_key", item, KDA_TYPE_HEX);
        return;
    case KDA_ETL_EXT_EVENT_KEY:
        put_number(b, "event_key", item, KDA_TYPE_HEX);
        return;
    case KDA_ETL_EXT_TRAITS:
        put_traits(b, item);
        return;
    case KDA_ETL_EXT_CONTROL_GUID:
        put_guid(b, "control_guid", item);
        return;
    case KDA_ETL_EXT_QPC_DELTA:
        put_number(b, "qpc_delta", item, KDA_TYPE_NUMBER);
        return;
    case KDA_ETL_EXT_CONTAINER_ID:
        kda_payload_ansi(b, "container_id", item->data, item->size);
        return;
    default:
        (void)snprintf(name, sizeof(name), "item_%u", (unsigned)item->type);
        kda_event_object_bytes(b, name, KDA_TYPE_BINARY, item->data, item->size);
        return;
    }
}

/* A trait without a group says nothing that is not shown. */
static bool says_something(const struct kda_event *event, const struct kda_etl_ext *item)
{
    const uint8_t *group = NULL;
    if (item->type != KDA_ETL_EXT_TRAITS)
        return !shown_elsewhere(event, item->type);
    (void)kda_traits_parse(item->data, item->size, &group);
    return group != NULL;
}

void kda_decode_ext(const struct kda_decoding *x)
{
    static const uint8_t none[16];
    const struct kda_etl_record *record = x->record;
    struct kda_event_builder *b = &x->d->b;
    struct kda_etl_ext item;
    uint32_t at = 0;
    bool etw = b->event->kind == KDA_KIND_ETW_EVENT;
    bool activity = !etw && record->activity && memcmp(record->activity, none, 16) != 0;
    bool any = activity || record->counters_size >= 8 || x->place->state ||
               record->shape == KDA_ETL_SHAPE_MESSAGE || record->parent_guid;
    while (record->ext && kda_etl_ext_next(record, &at, &item)) {
        if (item.type == KDA_ETL_EXT_PROCESS_KEY && item.size >= 8)
            kda_event_set(b, KDA_FIELD_PROCESS_KEY, kda_le64(item.data));
        any = any || says_something(b->event, &item);
    }
    unsigned slot = any ? x->d->slots[b->event->kind].extended : KDA_DECODE_NO_SLOT;
    if (slot == KDA_DECODE_NO_SLOT)
        return;
    kda_event_object_begin(b, kda_decode_field(b->event->kind, slot));
    if (x->place->state)
        kda_event_object_bytes(b, "buffer", KDA_TYPE_UTF8, x->place->state,
                               strlen(x->place->state));
    if (activity)
        kda_event_object_bytes(b, "activity", KDA_TYPE_GUID, record->activity, 16);
    for (at = 0; record->ext && kda_etl_ext_next(record, &at, &item);)
        if (says_something(b->event, &item))
            put_item(b, &item);
    if (record->parent_guid) {
        kda_event_object_number(b, "instance", KDA_TYPE_NUMBER, record->instance_id);
        kda_event_object_number(b, "parent_instance", KDA_TYPE_NUMBER, record->parent_instance_id);
        kda_event_object_bytes(b, "parent_guid", KDA_TYPE_GUID, record->parent_guid, 16);
    }
    if (record->shape == KDA_ETL_SHAPE_MESSAGE) {
        kda_event_object_number(b, "message_sequence", KDA_TYPE_NUMBER, record->sequence);
        if (!record->guid)
            kda_event_object_number(b, "message_component", KDA_TYPE_NUMBER, record->component);
    }
    put_counters(b, record->counters, record->counters_size);
    kda_event_object_end(b);
}
