/*
 * decode_write.c - what every record's event is made of: its beginning, its payload as it stands,
 * its fields by a template.
 */
#include <stdio.h>

#include "decode.h"
#include "text.h"

#define WHY_BYTES 240u

static const uint8_t no_guid[16];

unsigned kda_decode_slot(unsigned kind, const char *name)
{
    for (unsigned slot = 0; slot < kda_kinds[kind].slots; slot++)
        if (strcmp(kda_kinds[kind].fields[slot].name, name) == 0)
            return slot;
    return KDA_DECODE_NO_SLOT;
}

enum kda_field kda_decode_field(unsigned kind, unsigned slot)
{
    return (enum kda_field)KDA_FIELD_ID(kda_kinds[kind].shape, slot);
}

void kda_decode_begin(const struct kda_decoding *x, unsigned kind)
{
    struct kda_event_builder *b = &x->d->b;
    (void)kda_event_begin(b, x->d->event, sizeof(x->d->event), kind, (unsigned)x->place->source);
    struct kda_event *event = b->event;
    event->time = x->place->time;
    if (!x->place->has_time)
        event->flags |= KDA_EVENT_NO_TIME;
    if (x->record->cpu < KDA_NO_CPU)
        event->cpu = (uint16_t)x->record->cpu;
    if (x->record->has_ids) {
        event->pid = x->record->pid;
        event->tid = x->record->tid;
    }
}

static void put_guid(struct kda_event_builder *b, enum kda_field field, const uint8_t *guid)
{
    if (guid && memcmp(guid, no_guid, 16) != 0)
        kda_event_bytes(b, field, guid, 16, 16);
}

void kda_decode_begin_etw(const struct kda_decoding *x, const char *provider_name,
                          const char *event_name)
{
    const struct kda_etl_record *record = x->record;
    struct kda_event_builder *b = &x->d->b;
    kda_decode_begin(x, KDA_KIND_ETW_EVENT);
    bool event = record->shape == KDA_ETL_SHAPE_EVENT;
    const uint8_t *guid = record->guid;
    if (!guid && x->class_ < KDA_MOF_CLASS_COUNT)
        guid = x->d->mof.guids[x->class_];
    put_guid(b, KDA_FIELD_ETW_PROVIDER, guid);
    if (provider_name)
        kda_event_text(b, KDA_FIELD_ETW_PROVIDER_NAME, provider_name);
    if (event || record->shape == KDA_ETL_SHAPE_MESSAGE)
        kda_event_set(b, KDA_FIELD_ETW_EVENT_ID, record->id);
    else if (record->shape == KDA_ETL_SHAPE_SYSTEM && !guid)
        kda_event_set(b, KDA_FIELD_ETW_EVENT_ID, (uint64_t)record->group << 8 | record->type);
    if (record->shape != KDA_ETL_SHAPE_MESSAGE) {
        kda_event_set(b, KDA_FIELD_ETW_VERSION, record->version);
        kda_event_set(b, KDA_FIELD_ETW_OPCODE, record->opcode);
    }
    if (event || record->shape == KDA_ETL_SHAPE_CLASSIC)
        kda_event_set(b, KDA_FIELD_ETW_LEVEL, record->level);
    if (event)
        kda_event_set(b, KDA_FIELD_ETW_KEYWORD, record->keyword);
    if (record->task)
        kda_event_set(b, KDA_FIELD_ETW_TASK, record->task);
    if (record->channel)
        kda_event_set(b, KDA_FIELD_ETW_CHANNEL, record->channel);
    if (event_name)
        kda_event_text(b, KDA_FIELD_ETW_EVENT_NAME, event_name);
    put_guid(b, KDA_FIELD_ETW_ACTIVITY, record->activity);
    put_guid(b, KDA_FIELD_ETW_RELATED_ACTIVITY, record->related);
}

void kda_decode_put_payload(const struct kda_decoding *x, const char *why)
{
    struct kda_event_builder *b = &x->d->b;
    kda_event_text(b, KDA_FIELD_ETW_WHY, why);
    kda_event_bytes(b, KDA_FIELD_ETW_PAYLOAD, x->record->payload, x->record->payload_size,
                    SIZE_MAX);
}

/* ---- templates ---- */

static uint8_t pointer_size(const struct kda_etl_record *record)
{
    return record->pointer_size == 4 ? 4 : 8;
}

static void why_not(const struct kda_payload *p, char why[WHY_BYTES])
{
    const char *field = p->problem_field && p->problem_field->name ? p->problem_field->name : "";
    if (p->problem)
        (void)snprintf(why, WHY_BYTES, "field %.100s %s (described by %s)", field, p->problem,
                       p->t->origin);
    else
        (void)snprintf(why, WHY_BYTES, "%u bytes behind the last field (described by %s)",
                       (unsigned)(p->size - p->pos), p->t->origin);
    why[kda_utf8_valid_prefix(why, strlen(why))] = '\0';
}

/* Descriptions without counts may be wrong without being seen to be, unless every byte fits; fields
 * before one of unknown length, and those of an older version, are good as they are. */
static bool trusted(const struct kda_payload *p, bool fits, unsigned version)
{
    if (!p->t->exact || (fits && p->pos == p->size))
        return true;
    if (fits)
        return p->t->version < version;
    return p->problem_field && p->problem_field->in == KDA_IN_BINARY &&
           !(p->problem_field->flags & (KDA_FIELD_LENGTH_FIELD | KDA_FIELD_LENGTH_REST));
}

void kda_decode_template(const struct kda_decoding *x, const struct kda_etl_template *t,
                         const char *provider_name)
{
    struct kda_etl_decoder *d = x->d;
    char why[WHY_BYTES];
    struct kda_payload p = {
        .bytes = x->record->payload,
        .size = x->record->payload_size,
        .pointer_size = pointer_size(x->record),
        .t = t,
        .values = d->values,
    };
    kda_decode_begin_etw(x, t->provider_name ? t->provider_name : provider_name, t->event_name);
    bool fits = true, shown = true;
    if (t->exact) {
        fits = kda_payload_walk(&p);
        shown = trusted(&p, fits, x->record->version);
    }
    if (shown) {
        p.out = &d->b;
        kda_event_object_begin(&d->b, KDA_FIELD_ETW_FIELDS);
        fits = kda_payload_walk(&p);
        kda_event_object_end(&d->b);
    }
    if (!fits || p.pos < p.size) {
        why_not(&p, why);
        kda_decode_put_payload(x, why);
    }
}
