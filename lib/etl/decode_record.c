/*
 * decode_record.c - from a record to an event: which description fits, and what is written where
 * none does.
 */
#include <stdio.h>

#include "decode.h"

#define FLAG_STRING_ONLY 0x4u

/* ---- finding a description ---- */

static size_t cache_slot(const uint8_t *guid, uint16_t id, uint8_t version, bool classic)
{
    uint64_t h = kda_le64(guid) ^ kda_le64(guid + 8) * 3;
    h ^= ((uint64_t)id << 9 | (uint64_t)version << 1 | classic) * UINT64_C(0x9E3779B97F4A7C15);
    h *= UINT64_C(0xD6E8FEB86659FD93);
    return (size_t)(h >> 40) & (KDA_DECODE_CACHE - 1);
}

/* Without room to keep it, the template is made anew for each of its events. */
static const struct kda_etl_template *from_builtin(struct kda_etl_decoder *d,
                                                   const struct kda_etl_record *record,
                                                   const struct kda_builtin_provider *provider,
                                                   bool *keeps)
{
    const struct kda_builtin_event *event =
        kda_builtin_event(provider, record->id, (uint8_t)record->version);
    const struct kda_etl_template *kept = NULL;
    if (!event)
        return NULL;
    kda_builtin_template(provider, event, d->builtin_fields, &d->builtin);
    struct kda_template_key key = {.id = record->id, .version = (uint8_t)record->version};
    memcpy(key.guid, record->guid, 16);
    *keeps = kda_templates_add(&d->store, &key, &d->builtin, &kept, NULL) == KDA_OK;
    return *keeps ? kept : &d->builtin;
}

/* A description of a lower version: versions only grow. */
static const struct kda_etl_template *of_lower_version(const struct kda_etl_decoder *d,
                                                       const struct kda_etl_record *record,
                                                       uint16_t id, bool classic)
{
    for (unsigned version = record->version; version-- > 0;) {
        const struct kda_etl_template *t =
            kda_templates_find(&d->store, record->guid, id, (uint8_t)version, classic);
        if (t && !t->exact)
            return t;
    }
    return NULL;
}

static const struct kda_decode_cached *lookup(const struct kda_decoding *x)
{
    const struct kda_etl_record *record = x->record;
    struct kda_etl_decoder *d = x->d;
    bool classic = record->shape == KDA_ETL_SHAPE_CLASSIC;
    uint16_t id = classic ? record->type : record->id;
    uint8_t version = (uint8_t)record->version;
    struct kda_decode_cached *c = &d->cache[cache_slot(record->guid, id, version, classic)];
    if (c->used && c->id == id && c->version == version && c->classic == classic &&
        memcmp(c->guid, record->guid, 16) == 0)
        return c;
    const struct kda_builtin_provider *provider = classic ? NULL : kda_builtin_find(record->guid);
    memcpy(c->guid, record->guid, 16);
    c->id = id;
    c->version = version;
    c->classic = classic;
    c->used = d->cached = true;
    c->t = kda_templates_find(&d->store, record->guid, id, version, classic);
    if (!c->t)
        c->t = of_lower_version(d, record, id, classic);
    if (!c->t && provider)
        c->t = from_builtin(d, record, provider, &c->used);
    c->provider_name = provider ? kda_builtin_text + provider->name : NULL;
    if (!c->provider_name)
        c->provider_name = kda_templates_provider(&d->store, record->guid);
    if (!c->provider_name && x->class_ < KDA_MOF_CLASS_COUNT)
        c->provider_name = kda_mof_provider_name(x->class_);
    if (!c->provider_name && d->options.provider_name)
        c->provider_name = d->options.provider_name(record->guid);
    return c;
}

/* Name that the record itself has for its provider. */
static const char *own_provider_name(const struct kda_etl_record *record)
{
    struct kda_etl_ext item;
    if (!record->ext || !kda_etl_ext_find(record, KDA_ETL_EXT_TRAITS, &item))
        return NULL;
    return kda_traits_parse(item.data, item.size, NULL);
}

static bool decode_tracelogging(const struct kda_decoding *x, const char *provider_name)
{
    struct kda_etl_decoder *d = x->d;
    struct kda_etl_ext item;
    struct kda_etl_template t;
    if (!kda_etl_ext_find(x->record, KDA_ETL_EXT_SCHEMA_TL, &item))
        return false;
    const struct kda_etl_template *found =
        kda_templates_find_blob(&d->store, x->record->guid, item.data, item.size);
    if (!found) {
        const char *problem = kda_tracelogging_parse(&d->draft, item.data, item.size, &t);
        if (problem) {
            kda_decode_begin_etw(x, provider_name, NULL);
            kda_decode_put_payload(x, problem);
            return true;
        }
        struct kda_template_key key = {.blob = item.data, .blob_size = item.size};
        memcpy(key.guid, x->record->guid, 16);
        /* Without room for it, it is parsed again each time. */
        if (kda_templates_add(&d->store, &key, &t, &found, NULL) != KDA_OK)
            found = &t;
    }
    kda_decode_template(x, found, provider_name);
    return true;
}

/* ---- events that need no description ---- */

static void decode_text(const struct kda_decoding *x, const char *provider_name)
{
    static const struct kda_etl_field field = {.name = "Message", .in = KDA_IN_UNICODE, .next = 1};
    static const struct kda_etl_template t = {
        .fields = &field, .count = 1, .top = 1, .origin = "the record"};
    kda_decode_template(x, &t, provider_name);
}

static void decode_chunk(const struct kda_decoding *x, const char *provider_name)
{
    static const struct kda_etl_field fields[] = {
        {.name = "Format", .in = KDA_IN_UINT8, .next = 1},
        {.name = "MajorVersion", .in = KDA_IN_UINT8, .next = 2},
        {.name = "MinorVersion", .in = KDA_IN_UINT8, .next = 3},
        {.name = "Magic", .in = KDA_IN_UINT8, .next = 4},
        {.name = "TotalChunks", .in = KDA_IN_UINT16, .next = 5},
        {.name = "ChunkNumber", .in = KDA_IN_UINT16, .next = 6},
        {.name = "Manifest", .in = KDA_IN_REST_ANSI, .flags = KDA_FIELD_HIDDEN, .next = 7},
    };
    static const struct kda_etl_template t = {.event_name = "ManifestData",
                                              .fields = fields,
                                              .count = 7,
                                              .top = 7,
                                              .origin = "the record"};
    kda_decode_template(x, &t, provider_name);
}

/* Name of the provider by anything that describes one of its events. */
static void decode_event(const struct kda_decoding *x)
{
    const struct kda_etl_record *record = x->record;
    const char *own = own_provider_name(record);
    const struct kda_decode_cached *c;
    if (record->ext && decode_tracelogging(x, own))
        return;
    c = lookup(x);
    const char *provider_name = own ? own : c->provider_name;
    if (kda_eventsource_is_chunk(record))
        decode_chunk(x, provider_name);
    else if (record->shape == KDA_ETL_SHAPE_EVENT && record->flags & FLAG_STRING_ONLY)
        decode_text(x, provider_name);
    else if (c->t)
        kda_decode_template(x, c->t, provider_name);
    else {
        kda_decode_begin_etw(x, provider_name, NULL);
        kda_decode_put_payload(x, "no description of this event");
    }
}

static void decode_raw(const struct kda_decoding *x, const char *why)
{
    const char *provider_name = NULL;
    char name[96];
    const char *event_name = NULL;
    if (x->class_ < KDA_MOF_CLASS_COUNT) {
        provider_name = kda_mof_provider_name(x->class_);
        if (!kda_mof_is_manifest(x->class_)) {
            (void)snprintf(name, sizeof(name), "%s/%u", kda_mof_class_name(x->class_),
                           kda_mof_type_of(x->record, x->class_));
            event_name = name;
        }
    }
    kda_decode_begin_etw(x, provider_name, event_name);
    kda_decode_put_payload(x, why);
}

/* Descriptions with counts and maps are better than a row that stands in for them. */
static bool described_better(const struct kda_decoding *x)
{
    const struct kda_decode_cached *c = kda_mof_is_stand_in(x->class_) ? lookup(x) : NULL;
    return c && c->t && !c->t->exact;
}

void kda_decode_record(const struct kda_decoding *x)
{
    if (x->d->options.raw) {
        decode_raw(x, "not asked for");
    } else if (x->class_ < KDA_MOF_CLASS_COUNT && !described_better(x) && kda_decode_kernel(x)) {
        /* done */
    } else if (x->record->shape == KDA_ETL_SHAPE_EVENT) {
        decode_event(x);
    } else if (x->class_ < KDA_MOF_CLASS_COUNT) {
        decode_raw(x, "no description of this event fits");
    } else if (x->record->shape == KDA_ETL_SHAPE_CLASSIC) {
        decode_event(x);
    } else if (x->record->shape == KDA_ETL_SHAPE_MESSAGE) {
        decode_raw(x, "WPP message: its format is in the symbols of its program");
    } else {
        decode_raw(x, "no description of this event");
    }
    kda_decode_ext(x);
}
