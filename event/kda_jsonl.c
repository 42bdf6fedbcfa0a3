/*
 * kda_jsonl.c - a record to one JSON line: head, marks, fields in the order of their list.
 */
#include "kda_jsonl.h"
#include "kda_out.h"

#define STRINGIFY(x) #x
#define TEXT_OF(x) STRINGIFY(x)

/* Everything between the time and the source, whole, so that it is copied with a known size. */
#define KIND_BYTES 48u
static const struct {
    char text[KIND_BYTES];
    uint8_t bytes;
} kind_texts[KDA_KIND_COUNT] = {
#define TEXT(name) ",\"kind\":\"" name "\",\"source\":\""
#define K(name, number, text_, class_, shape, doc)                                                 \
    [number] = {TEXT(text_), sizeof(TEXT(text_)) - 1},
    KDA_KINDS(K)
#undef K
};
#define K(name, number, text_, class_, shape, doc)                                                 \
    _Static_assert(sizeof(TEXT(text_)) - 1 <= KIND_BYTES, "room for the text");
KDA_KINDS(K)
#undef K

/* --- values ---------------------------------------------------------------------------------- */

static void put_protection(struct kda_out *o, uint64_t value)
{
    static const char *const kinds[3] = {NULL, "light", "full"};
    static const char *const signers[9] = {"none",        "authenticode", "codegen",
                                           "antimalware", "lsa",          "windows",
                                           "wintcb",      "winsystem",    "app"};
    uint64_t kind = value & 7; /* bit 3 is the audit bit */
    uint64_t signer = value >> 4;
    if (value == 0) {
        kda_out_literal(o, "\"none\"");
    } else if (kind == 0 || kind > 2 || signer > 8) {
        kda_out_decimal(o, value);
    } else {
        kda_out_char(o, '"');
        kda_out_name(o, kinds[kind]);
        kda_out_char(o, ':');
        kda_out_name(o, signers[signer]);
        kda_out_char(o, '"');
    }
}

void kda_out_scalar(struct kda_out *o, unsigned type, uint64_t value)
{
    kda_out_need(o, 64);
    switch (type) {
    case KDA_TYPE_NUMBER:
        kda_out_decimal(o, value);
        return;
    case KDA_TYPE_SIGNED:
        if (value >> 63) {
            kda_out_char(o, '-');
            value = 0 - value;
        }
        kda_out_decimal(o, value);
        return;
    case KDA_TYPE_HEX:
        kda_out_literal(o, "\"0x");
        kda_out_hex(o, value, 1);
        kda_out_char(o, '"');
        return;
    case KDA_TYPE_BOOL:
        if (value)
            kda_out_literal(o, "true");
        else
            kda_out_literal(o, "false");
        return;
    case KDA_TYPE_STATUS:
        kda_out_status(o, value);
        return;
    case KDA_TYPE_TIME:
        kda_out_time(o, value);
        return;
    case KDA_TYPE_COUNTER:
        kda_out_time(o, kda_clock_convert(o->clock, value));
        return;
    case KDA_TYPE_PROTECTION:
        put_protection(o, value);
        return;
    default:
        break;
    }
    const struct kda_name *name = kda_value_name(type, value);
    if (!name) {
        kda_out_decimal(o, value);
        return;
    }
    kda_out_char(o, '"');
    kda_out_named(o, name);
    kda_out_char(o, '"');
}

static void put_counts(struct kda_out *o, struct kda_bytes value)
{
    _Bool first = 1;
    kda_out_need(o, 1);
    kda_out_char(o, '{');
    for (size_t i = 0; i + sizeof(struct kda_kind_count) <= value.size;
         i += sizeof(struct kda_kind_count)) {
        uint32_t kind = kda_read32(value.at + i);
        if (kind >= KDA_KIND_COUNT || !kda_kinds[kind].name)
            continue;
        kda_out_need(o, 64);
        if (!first)
            kda_out_char(o, ',');
        first = 0;
        kda_out_char(o, '"');
        kda_out_name(o, kda_kinds[kind].name);
        kda_out_literal(o, "\":");
        kda_out_decimal(o, kda_read64(value.at + i + offsetof(struct kda_kind_count, count)));
    }
    kda_out_need(o, 1);
    kda_out_char(o, '}');
}

/* --- objects --------------------------------------------------------------------------------- */

/* -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)? */
static size_t digits_at(const uint8_t *at, size_t i, size_t bytes)
{
    size_t start = i;
    while (i < bytes && at[i] >= '0' && at[i] <= '9')
        i++;
    return i - start;
}

static _Bool is_json_number(const uint8_t *at, size_t bytes)
{
    size_t i = bytes > 0 && at[0] == '-' ? 1 : 0;
    size_t whole = digits_at(at, i, bytes);
    if (whole == 0 || (whole > 1 && at[i] == '0') || bytes > 64)
        return 0;
    i += whole;
    if (i < bytes && at[i] == '.') {
        size_t part = digits_at(at, i + 1, bytes);
        if (part == 0)
            return 0;
        i += 1 + part;
    }
    if (i < bytes && (at[i] == 'e' || at[i] == 'E')) {
        i++;
        if (i < bytes && (at[i] == '+' || at[i] == '-'))
            i++;
        size_t power = digits_at(at, i, bytes);
        if (power == 0 || power > 2) /* readers refuse what a double cannot hold */
            return 0;
        i += power;
    }
    return i == bytes;
}

static void put_number_text(struct kda_out *o, struct kda_bytes value)
{
    if (!is_json_number(value.at, value.size)) {
        kda_out_utf8(o, value.at, value.size);
        return;
    }
    kda_out_need(o, 64);
    kda_copy(o->at, value.at, value.size);
    o->at += value.size;
}

/* One entry of a list up to its value; false for types that a list does not have. */
static _Bool put_entry(struct kda_out *o, const struct kda_object_entry *entry, _Bool array,
                       _Bool first)
{
    if (entry->type == KDA_TYPE_DATA || entry->type == KDA_TYPE_COUNTS)
        return 0;
    kda_out_need(o, 1);
    if (!first)
        kda_out_char(o, ',');
    if (!array)
        kda_out_key(o, entry->name.at, entry->name.size);
    if (entry->type == KDA_TYPE_OBJECT || entry->type == KDA_TYPE_ARRAY)
        return 1;
    if (kda_type_is_variable(entry->type))
        kda_out_blob(o, entry->type, entry->value);
    else
        kda_out_scalar(o, entry->type, kda_read64(entry->value.at));
    return 1;
}

/* Lists in lists, without recursion. A malformed rest of a list, and lists below the depth that a
 * builder makes, are left out. */
static void put_object(struct kda_out *o, struct kda_bytes value)
{
    struct {
        struct kda_bytes rest;
        _Bool array;
        _Bool first;
    } level[KDA_OBJECT_MAX_DEPTH];
    unsigned depth = 1;
    level[0].rest = value;
    level[0].array = 0;
    level[0].first = 1;
    kda_out_need(o, 1);
    kda_out_char(o, '{');
    while (depth > 0) {
        struct kda_object_entry entry;
        if (!kda_object_next(&level[depth - 1].rest, &entry)) {
            kda_out_need(o, 1);
            kda_out_char(o, level[depth - 1].array ? ']' : '}');
            depth--;
            continue;
        }
        _Bool list = entry.type == KDA_TYPE_OBJECT || entry.type == KDA_TYPE_ARRAY;
        if (list && depth == KDA_OBJECT_MAX_DEPTH)
            continue;
        if (!put_entry(o, &entry, level[depth - 1].array, level[depth - 1].first))
            continue;
        level[depth - 1].first = 0;
        if (!list)
            continue;
        level[depth].rest = entry.value;
        level[depth].array = entry.type == KDA_TYPE_ARRAY;
        level[depth].first = 1;
        kda_out_need(o, 1);
        kda_out_char(o, level[depth].array ? '[' : '{');
        depth++;
    }
}

void kda_out_blob(struct kda_out *o, unsigned type, struct kda_bytes value)
{
    switch (type) {
    case KDA_TYPE_STRING:
        kda_out_utf16(o, value.at, value.size);
        break;
    case KDA_TYPE_UTF8:
        kda_out_utf8(o, value.at, value.size);
        break;
    case KDA_TYPE_SID:
        kda_out_sid(o, value.at, value.size);
        break;
    case KDA_TYPE_IP:
        kda_out_ip(o, value.at, value.size);
        break;
    case KDA_TYPE_GUID:
        kda_out_guid(o, value.at, value.size);
        break;
    case KDA_TYPE_COUNTS:
        put_counts(o, value);
        break;
    case KDA_TYPE_OBJECT:
        put_object(o, value);
        break;
    case KDA_TYPE_NUMBER_TEXT:
        put_number_text(o, value);
        break;
    default:
        kda_out_binary(o, value.at, value.size);
        break;
    }
}

/* --- the line -------------------------------------------------------------------------------- */

/* The field that says of which type registry data is: it comes before it in the list. */
static _Bool data_type(const struct kda_event *event, unsigned slot, uint64_t *type)
{
    unsigned before = slot == KDA_SLOT_VALUE_OLD_DATA ? (unsigned)KDA_SLOT_VALUE_OLD_TYPE
                                                      : (unsigned)KDA_SLOT_VALUE_VALUE_TYPE;
    *type = kda_event_slots(event)[before];
    return event->present >> before & 1;
}

static void put_key(struct kda_out *o, const struct kda_field_info *field)
{
    kda_out_need(o, KDA_FIELD_KEY_BYTES);
    kda_copy(o->at, field->json, KDA_FIELD_KEY_BYTES);
    o->at += field->json_size;
}

static void put_field(struct kda_out *o, const struct kda_event *event, unsigned slot)
{
    const struct kda_field_info *field = &kda_kinds[event->kind].fields[slot];
    uint64_t value = kda_event_slots(event)[slot];
    if (!kda_type_is_variable(field->type)) {
        if (field->type == KDA_TYPE_TRANSPORT && !kda_value_name(KDA_TYPE_TRANSPORT, value))
            return;
        put_key(o, field);
        kda_out_scalar(o, field->type, value);
        return;
    }
    struct kda_bytes bytes = {(const uint8_t *)event + (uint32_t)value, (size_t)(value >> 32)};
    put_key(o, field);
    if (field->type == KDA_TYPE_DATA) {
        uint64_t type = 0;
        _Bool has_type = data_type(event, slot, &type);
        kda_out_data(o, bytes.at, bytes.size, has_type, type);
    } else {
        kda_out_blob(o, field->type, bytes);
    }
}

static void put_fields(struct kda_out *o, const struct kda_event *event, uint32_t wanted)
{
    for (uint32_t left = event->present & wanted; left != 0; left &= left - 1)
        put_field(o, event, (unsigned)__builtin_ctz(left));
}

static void put_head(struct kda_out *o, const struct kda_event *event)
{
    const char *source = kda_source_name(event->source);
    kda_out_need(o, KDA_OUT_SCRATCH);
    kda_out_literal(o, "{\"v\":" TEXT_OF(KDA_SCHEMA_VERSION));
    if (event->id != KDA_NO_ID) {
        kda_out_literal(o, ",\"id\":");
        kda_out_decimal(o, event->id);
    }
    if (!(event->flags & KDA_EVENT_NO_TIME)) {
        kda_out_literal(o, ",\"time\":");
        kda_out_time(o, kda_clock_utc(o->clock, event->time));
    }
    kda_out_need(o, KDA_OUT_SCRATCH);
    kda_copy(o->at, kind_texts[event->kind].text, KIND_BYTES);
    o->at += kind_texts[event->kind].bytes;
    kda_out_name(o, source ? source : "");
    kda_out_char(o, '"');
    if (event->cpu != KDA_NO_CPU) {
        kda_out_literal(o, ",\"cpu\":");
        kda_out_decimal(o, event->cpu);
    }
    if (event->pid != KDA_NO_PID) {
        kda_out_literal(o, ",\"pid\":");
        kda_out_decimal(o, event->pid);
    }
    if (event->tid != KDA_NO_TID) {
        kda_out_literal(o, ",\"tid\":");
        kda_out_decimal(o, event->tid);
    }
}

/* truncated, omitted, relaxed. */
static void put_marks(struct kda_out *o, const struct kda_event *event)
{
    const struct kda_field_info *fields = kda_kinds[event->kind].fields;
    const char *open = ",\"truncated\":[\"";
    for (uint32_t left = event->truncated; left != 0; left &= left - 1) {
        kda_out_need(o, 64);
        kda_out_name(o, open);
        kda_out_name(o, fields[__builtin_ctz(left)].name);
        kda_out_char(o, '"');
        open = ",\"";
    }
    kda_out_need(o, 1);
    if (event->truncated)
        kda_out_char(o, ']');
    open = ",\"omitted\":{\"";
    for (uint32_t left = event->omitted; left != 0; left &= left - 1) {
        unsigned slot = (unsigned)__builtin_ctz(left);
        const char *reason = kda_omit_reason_name((uint8_t)kda_event_slots(event)[slot]);
        kda_out_need(o, 96);
        kda_out_name(o, open);
        kda_out_name(o, fields[slot].name);
        kda_out_literal(o, "\":\"");
        kda_out_name(o, reason ? reason : "");
        kda_out_char(o, '"');
        open = ",\"";
    }
    kda_out_need(o, 32);
    if (event->omitted)
        kda_out_char(o, '}');
    if (event->flags & KDA_EVENT_RELAXED)
        kda_out_literal(o, ",\"relaxed\":true");
}

#define COMMON_SLOTS 3u /* bits of process_key and image */

static size_t encode(const struct kda_event *event, struct kda_clock *clock, char *buffer,
                     size_t capacity, _Bool vectors)
{
    struct kda_out o;
    if (clock->frequency == 0)
        return 0;
    kda_out_begin(&o, buffer, capacity);
    o.clock = clock;
    o.vectors = vectors;
    put_head(&o, event);
    put_fields(&o, event, COMMON_SLOTS);
    if (event->truncated | event->omitted | (event->flags & KDA_EVENT_RELAXED))
        put_marks(&o, event);
    put_fields(&o, event, ~COMMON_SLOTS);
    kda_out_need(&o, 2);
    kda_out_literal(&o, "}\n");
    return kda_out_end(&o);
}

size_t kda_jsonl_encode(const struct kda_event *event, struct kda_clock *clock, char *buffer,
                        size_t capacity)
{
    return encode(event, clock, buffer, capacity, 1);
}

size_t kda_jsonl_encode_portable(const struct kda_event *event, struct kda_clock *clock,
                                 char *buffer, size_t capacity)
{
    return encode(event, clock, buffer, capacity, 0);
}
