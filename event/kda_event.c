/*
 * kda_event.c - tables made from the lists of kda_schema.h, and the bounded reader.
 */
#include "kda_event.h"
#include "kda_platform.h"

#define KEY(name) ",\"" #name "\":"
#define F(shape, NAME, name, type, doc)                                                            \
    _Static_assert(sizeof(KEY(name)) - 1 <= KDA_FIELD_KEY_BYTES, "room for the key");
#define H(shape) KDA_FIELDS_OF(F, shape)
KDA_SHAPES(H)
#undef H
#undef F

#define F(shape, NAME, name, type, doc)                                                            \
    {#name, KEY(name), (uint8_t)(sizeof(KEY(name)) - 1), KDA_TYPE_##type},
#define H(shape)                                                                                   \
    static const struct kda_field_info fields_##shape[KDA_SLOTS_##shape] = {                       \
        KDA_FIELDS_OF(F, shape)};
KDA_SHAPES(H)
#undef H
#undef F

const struct kda_kind_info kda_kinds[KDA_KIND_COUNT] = {
#define K(name, number, text, class_, shape, doc)                                                  \
    [number] = {text,                                                                              \
                KDA_CLASS_##class_,                                                                \
                KDA_SHAPE_##shape,                                                                 \
                KDA_SLOTS_##shape,                                                                 \
                (uint8_t)(sizeof(text) - 1),                                                       \
                fields_##shape},
    KDA_KINDS(K)
#undef K
};

const uint8_t kda_class_percent[KDA_CLASS_COUNT] = {
#define C(name, number, text, percent) [number] = percent,
    KDA_CLASSES(C)
#undef C
};

const char *kda_source_name(unsigned source)
{
    switch (source) {
#define S(name, number, text)                                                                      \
    case number:                                                                                   \
        return text;
        KDA_SOURCES(S)
#undef S
    default:
        return NULL;
    }
}

const char *kda_class_name(unsigned class_)
{
    switch (class_) {
#define C(name, number, text, percent)                                                             \
    case number:                                                                                   \
        return text;
        KDA_CLASSES(C)
#undef C
    default:
        return NULL;
    }
}

const char *kda_omit_reason_name(unsigned reason)
{
    switch (reason) {
#define R(name, number, text, doc)                                                                 \
    case number:                                                                                   \
        return text;
        KDA_OMIT_REASONS(R)
#undef R
    default:
        return NULL;
    }
}

#define NAMED(X)                                                                                   \
    X(INTEGRITY)                                                                                   \
    X(SIGNATURE_LEVEL)                                                                             \
    X(SIGNATURE_TYPE)                                                                              \
    X(SUBSYSTEM)                                                                                   \
    X(TRANSPORT)                                                                                   \
    X(DIRECTION)                                                                                   \
    X(DISPOSITION)                                                                                 \
    X(VALUE_TYPE)                                                                                  \
    X(LOSS_REASON)                                                                                 \
    X(SCOPE)

struct numbered_name {
    uint64_t number;
    struct kda_name name;
};

/* Lists end with an empty name. */
#define N(number, text) {number, {text, sizeof(text) - 1}},
#define X(TYPE)                                                                                    \
    static const struct numbered_name names_##TYPE[] = {KDA_##TYPE##_NAMES(N){0, {"", 0}}};
NAMED(X)
#undef X
#undef N
#define N(number, text) _Static_assert(sizeof(text) <= KDA_NAME_BYTES, "room for the name");
#define X(TYPE) KDA_##TYPE##_NAMES(N)
NAMED(X)
#undef X
#undef N

static const struct numbered_name *const names_of[KDA_TYPE_COUNT] = {
#define X(TYPE) [KDA_TYPE_##TYPE] = names_##TYPE,
    NAMED(X)
#undef X
};

const struct kda_name *kda_value_name(unsigned type, uint64_t value)
{
    const struct numbered_name *row = type < KDA_TYPE_COUNT ? names_of[type] : NULL;
    for (; row && row->name.size != 0; row++) {
        if (row->number == value)
            return &row->name;
    }
    return NULL;
}

/* --- reading --------------------------------------------------------------------------------- */

static _Bool masks_valid(const struct kda_event *event)
{
    uint32_t all = (uint32_t)(((uint64_t)1 << event->slots) - 1);
    return ((event->present | event->omitted) & ~all) == 0 &&
           (event->present & event->omitted) == 0 && (event->truncated & ~event->present) == 0;
}

/* Place of a string or blob; `room` falls by its size, so that no byte is told twice and the
 * longest line stays bounded by the size of the record. */
static _Bool place_valid(const struct kda_event *event, unsigned slot, uint32_t *room)
{
    unsigned type = kda_kinds[event->kind].fields[slot].type;
    uint64_t place = kda_event_slots(event)[slot];
    uint32_t offset = (uint32_t)place;
    uint32_t bytes = (uint32_t)(place >> 32);
    uint32_t start = KDA_EVENT_HEAD_BYTES + 8u * event->slots;
    if (offset < start || offset > event->size || bytes > event->size - offset || bytes > *room)
        return 0;
    *room -= bytes;
    if (type == KDA_TYPE_STRING)
        return offset % 2 == 0 && bytes % 2 == 0;
    return type != KDA_TYPE_COUNTS || bytes % sizeof(struct kda_kind_count) == 0;
}

_Bool kda_event_valid(const void *record, size_t bytes)
{
    const struct kda_event *event = record;
    if (!record || bytes < KDA_EVENT_HEAD_BYTES || event->size > bytes ||
        event->size > KDA_EVENT_MAX_BYTES || event->size % 8 != 0)
        return 0;
    if (event->kind >= KDA_KIND_COUNT || !kda_kinds[event->kind].name ||
        event->slots != kda_kinds[event->kind].slots || !kda_source_name(event->source))
        return 0;
    uint32_t start = KDA_EVENT_HEAD_BYTES + 8u * event->slots;
    if (event->size < start || !masks_valid(event))
        return 0;
    uint32_t room = event->size - start;
    for (unsigned slot = 0; slot < event->slots; slot++) {
        if (event->omitted >> slot & 1 &&
            !kda_omit_reason_name((uint8_t)kda_event_slots(event)[slot]))
            return 0;
        if (event->present >> slot & 1 &&
            kda_type_is_variable(kda_kinds[event->kind].fields[slot].type) &&
            !place_valid(event, slot, &room))
            return 0;
    }
    return 1;
}

/* Slot of a field in this event; KDA_EVENT_MAX_SLOTS if it has no such field. */
static unsigned slot_of(const struct kda_event *event, enum kda_field field)
{
    unsigned shape = (unsigned)field >> 8;
    unsigned slot = (unsigned)field & 0xFF;
    if (event->kind >= KDA_KIND_COUNT || slot >= kda_kinds[event->kind].slots)
        return KDA_EVENT_MAX_SLOTS;
    if (shape == KDA_FIELD_ANY_SHAPE ? slot > 1 : shape != kda_kinds[event->kind].shape)
        return KDA_EVENT_MAX_SLOTS;
    return slot;
}

_Bool kda_event_get(const struct kda_event *event, enum kda_field field, uint64_t *value)
{
    unsigned slot = slot_of(event, field);
    if (slot == KDA_EVENT_MAX_SLOTS || !(event->present >> slot & 1) ||
        kda_type_is_variable(kda_kinds[event->kind].fields[slot].type))
        return 0;
    *value = kda_event_slots(event)[slot];
    return 1;
}

_Bool kda_event_get_bytes(const struct kda_event *event, enum kda_field field,
                          struct kda_bytes *value)
{
    unsigned slot = slot_of(event, field);
    if (slot == KDA_EVENT_MAX_SLOTS || !(event->present >> slot & 1) ||
        !kda_type_is_variable(kda_kinds[event->kind].fields[slot].type))
        return 0;
    uint64_t place = kda_event_slots(event)[slot];
    value->at = (const uint8_t *)event + (uint32_t)place;
    value->size = (size_t)(place >> 32);
    return 1;
}

enum kda_omit_reason kda_event_omitted(const struct kda_event *event, enum kda_field field)
{
    unsigned slot = slot_of(event, field);
    if (slot == KDA_EVENT_MAX_SLOTS || !(event->omitted >> slot & 1))
        return KDA_OMIT_NONE;
    return (enum kda_omit_reason)(uint8_t)kda_event_slots(event)[slot];
}

_Bool kda_object_next(struct kda_bytes *rest, struct kda_object_entry *entry)
{
    if (rest->size < KDA_OBJECT_ENTRY_BYTES)
        return 0;
    size_t name = kda_read16(rest->at + 2);
    size_t value = kda_read32(rest->at + 4);
    size_t body = rest->size - KDA_OBJECT_ENTRY_BYTES;
    unsigned type = rest->at[0];
    if (type >= KDA_TYPE_COUNT || name > body || value > body - name)
        return 0;
    if (!kda_type_is_variable(type) && value != sizeof(uint64_t))
        return 0;
    entry->type = type;
    entry->name = (struct kda_bytes){rest->at + KDA_OBJECT_ENTRY_BYTES, name};
    entry->value = (struct kda_bytes){rest->at + KDA_OBJECT_ENTRY_BYTES + name, value};
    rest->at = entry->value.at + value;
    rest->size = body - name - value;
    return 1;
}
