/*
 * kda_build.c - building a record in the caller's buffer. What does not fit is cut and marked,
 * never written past the end and never left out in silence.
 */
#include "kda_event.h"
#include "kda_platform.h"

static uint64_t *slots_of(struct kda_event_builder *b)
{
    return (uint64_t *)(void *)(b->event + 1);
}

/* Slot of `field`, or KDA_EVENT_MAX_SLOTS for a field that this kind does not have. */
static unsigned find_slot(struct kda_event_builder *b, enum kda_field field)
{
    if (!b->event)
        return KDA_EVENT_MAX_SLOTS;
    const struct kda_kind_info *kind = &kda_kinds[b->event->kind];
    unsigned shape = (unsigned)field >> 8;
    unsigned slot = (unsigned)field & 0xFF;
    if (slot >= kind->slots ||
        (shape == KDA_FIELD_ANY_SHAPE ? slot > KDA_SLOT_PROCESS_IMAGE : shape != kind->shape)) {
        b->misused = 1;
        return KDA_EVENT_MAX_SLOTS;
    }
    return slot;
}

/* The same for a value with a place; there is none while an object is open. */
static unsigned find_place(struct kda_event_builder *b, enum kda_field field)
{
    unsigned slot = find_slot(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS || !b->depth)
        return slot;
    b->misused = 1;
    return KDA_EVENT_MAX_SLOTS;
}

static unsigned type_of(const struct kda_event_builder *b, unsigned slot)
{
    return kda_kinds[b->event->kind].fields[slot].type;
}

static void mark_present(struct kda_event_builder *b, unsigned slot, uint64_t value, _Bool cut)
{
    uint32_t bit = (uint32_t)1 << slot;
    slots_of(b)[slot] = value;
    b->event->present |= bit;
    b->event->omitted &= ~bit;
    b->event->truncated = cut ? b->event->truncated | bit : b->event->truncated & ~bit;
}

static void mark_omitted(struct kda_event_builder *b, unsigned slot, unsigned reason)
{
    uint32_t bit = (uint32_t)1 << slot;
    slots_of(b)[slot] = reason;
    b->event->omitted |= bit;
    b->event->present &= ~bit;
    b->event->truncated &= ~bit;
}

_Bool kda_event_begin(struct kda_event_builder *b, void *buffer, size_t bytes, unsigned kind,
                      unsigned source)
{
    kda_clear(b, sizeof *b);
    if (!buffer || bytes < KDA_EVENT_MIN_BYTES || kind >= KDA_KIND_COUNT || !kda_kinds[kind].name)
        return 0;
    struct kda_event *event = buffer;
    unsigned slots = kda_kinds[kind].slots;
    kda_clear(event, KDA_EVENT_HEAD_BYTES + 8u * slots);
    event->kind = (uint16_t)kind;
    event->source = (uint8_t)source;
    event->id = KDA_NO_ID;
    event->pid = KDA_NO_PID;
    event->tid = KDA_NO_TID;
    event->cpu = KDA_NO_CPU;
    event->slots = (uint16_t)slots;
    b->event = event;
    b->capacity = bytes > KDA_EVENT_MAX_BYTES ? KDA_EVENT_MAX_BYTES : (uint32_t)bytes & ~7u;
    b->used = KDA_EVENT_HEAD_BYTES + 8u * slots;
    return 1;
}

_Bool kda_event_resume(struct kda_event_builder *b, void *buffer, size_t bytes,
                       const struct kda_event *event)
{
    kda_clear(b, sizeof *b);
    if (!buffer || bytes < event->size)
        return 0;
    kda_copy(buffer, event, event->size);
    b->event = buffer;
    b->capacity = bytes > KDA_EVENT_MAX_BYTES ? KDA_EVENT_MAX_BYTES : (uint32_t)bytes & ~7u;
    b->used = event->size;
    return 1;
}

void kda_event_set(struct kda_event_builder *b, enum kda_field field, uint64_t value)
{
    unsigned slot = find_slot(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS)
        return;
    if (kda_type_is_variable(type_of(b, slot)))
        b->misused = 1;
    else
        mark_present(b, slot, value, 0);
}

void kda_event_omit(struct kda_event_builder *b, enum kda_field field, enum kda_omit_reason reason)
{
    unsigned slot = find_slot(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS)
        return;
    if (!kda_omit_reason_name((unsigned)reason))
        b->misused = 1;
    else
        mark_omitted(b, slot, (unsigned)reason);
}

void kda_event_cut(struct kda_event_builder *b, enum kda_field field)
{
    unsigned slot = find_slot(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS)
        return;
    if (b->event->present >> slot & 1)
        b->event->truncated |= (uint32_t)1 << slot;
    else
        b->misused = 1;
}

/* --- strings and blobs ----------------------------------------------------------------------- */

/* Takes the next `bytes`, which are there, as the value of a slot. Places stay even, so that a
 * string is aligned. */
static void take(struct kda_event_builder *b, unsigned slot, size_t bytes, _Bool cut)
{
    mark_present(b, slot, (uint64_t)bytes << 32 | b->used, cut);
    b->used += (uint32_t)(bytes + (bytes & 1));
    if (bytes & 1)
        ((uint8_t *)b->event)[b->used - 1] = 0;
}

static size_t room_of(const struct kda_event_builder *b)
{
    return b->capacity - b->used;
}

/* A value of `count` bytes of which at most `limit` are kept, in whole units of `unit`. */
static void store(struct kda_event_builder *b, unsigned slot, const void *bytes, size_t count,
                  size_t limit, size_t unit)
{
    size_t kept = count < limit ? count : limit;
    if (kept > room_of(b))
        kept = room_of(b);
    kept -= kept % unit;
    if (kept == 0 && count != 0 && limit != 0) {
        mark_omitted(b, slot, KDA_OMIT_LIMIT);
        return;
    }
    if (kept)
        kda_copy((uint8_t *)b->event + b->used, bytes, kept);
    take(b, slot, kept, kept != count);
}

void kda_event_string(struct kda_event_builder *b, enum kda_field field, const uint16_t *units,
                      size_t count)
{
    unsigned slot = find_place(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS)
        return;
    if (type_of(b, slot) != KDA_TYPE_STRING || (count && !units)) {
        b->misused = 1;
        return;
    }
    _Bool over = count > KDA_STRING_MAX_UNITS;
    store(b, slot, units, 2 * (over ? KDA_STRING_MAX_UNITS : count), SIZE_MAX, 2);
    if (over && b->event->present >> slot & 1)
        b->event->truncated |= (uint32_t)1 << slot;
}

static _Bool sid_whole(const uint8_t *sid, size_t bytes)
{
    return bytes >= 8 && sid[0] == 1 && sid[1] <= 15 && bytes == 8 + 4 * (size_t)sid[1];
}

/* Types whose value is whole or nothing. */
static _Bool whole_size(unsigned type, const uint8_t *bytes, size_t count)
{
    switch (type) {
    case KDA_TYPE_SID:
        return sid_whole(bytes, count);
    case KDA_TYPE_IP:
        return count == 4 || count == 16;
    case KDA_TYPE_GUID:
        return count == 16;
    default:
        return 0;
    }
}

void kda_event_bytes(struct kda_event_builder *b, enum kda_field field, const void *bytes,
                     size_t count, size_t limit)
{
    unsigned slot = find_place(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS)
        return;
    switch (type_of(b, slot)) {
    case KDA_TYPE_SID:
    case KDA_TYPE_IP:
    case KDA_TYPE_GUID:
        if (!bytes || !whole_size(type_of(b, slot), bytes, count))
            mark_omitted(b, slot, KDA_OMIT_FAILED);
        else if (count > room_of(b))
            mark_omitted(b, slot, KDA_OMIT_LIMIT);
        else
            store(b, slot, bytes, count, SIZE_MAX, 1);
        break;
    case KDA_TYPE_UTF8:
    case KDA_TYPE_BINARY:
    case KDA_TYPE_DATA:
        if (count && !bytes)
            b->misused = 1;
        else
            store(b, slot, bytes, count, limit, 1);
        break;
    default:
        b->misused = 1;
    }
}

void kda_event_text(struct kda_event_builder *b, enum kda_field field, const char *text)
{
    size_t count = 0;
    while (text && text[count] != '\0')
        count++;
    kda_event_bytes(b, field, text, count, SIZE_MAX);
}

void *kda_event_room(struct kda_event_builder *b, size_t *bytes)
{
    if (!b->event || room_of(b) == 0 || b->depth)
        return NULL;
    *bytes = room_of(b);
    return (uint8_t *)b->event + b->used;
}

void kda_event_take(struct kda_event_builder *b, enum kda_field field, size_t bytes)
{
    unsigned slot = find_place(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS)
        return;
    unsigned type = type_of(b, slot);
    if (bytes > room_of(b) ||
        !(type == KDA_TYPE_BINARY || type == KDA_TYPE_DATA || type == KDA_TYPE_UTF8 ||
          (type == KDA_TYPE_STRING && bytes % 2 == 0 && bytes <= 2 * KDA_STRING_MAX_UNITS)))
        b->misused = 1;
    else
        take(b, slot, bytes, 0);
}

void kda_event_counts(struct kda_event_builder *b, enum kda_field field, const uint64_t *counts)
{
    unsigned slot = find_place(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS)
        return;
    if (type_of(b, slot) != KDA_TYPE_COUNTS) {
        b->misused = 1;
        return;
    }
    size_t bytes = 0;
    _Bool cut = 0;
    for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++) {
        struct kda_kind_count entry = {kind, 0, counts[kind]};
        if (counts[kind] == 0)
            continue;
        if (room_of(b) - bytes < sizeof entry) {
            cut = 1;
            break;
        }
        kda_copy((uint8_t *)b->event + b->used + bytes, &entry, sizeof entry);
        bytes += sizeof entry;
    }
    take(b, slot, bytes, cut);
}

void kda_event_flow(struct kda_event_builder *b, unsigned protocol, unsigned version,
                    const void *local_ip, unsigned local_port, const void *remote_ip,
                    unsigned remote_port)
{
    size_t bytes = version == 6 ? 16 : 4;
    kda_event_set(b, KDA_FIELD_NETWORK_PROTOCOL, protocol);
    kda_event_set(b, KDA_FIELD_NETWORK_TRANSPORT, protocol);
    kda_event_set(b, KDA_FIELD_NETWORK_IP_VERSION, version);
    if (local_ip) {
        kda_event_bytes(b, KDA_FIELD_NETWORK_LOCAL_IP, local_ip, bytes, SIZE_MAX);
        kda_event_set(b, KDA_FIELD_NETWORK_LOCAL_PORT, local_port);
    }
    if (remote_ip) {
        kda_event_bytes(b, KDA_FIELD_NETWORK_REMOTE_IP, remote_ip, bytes, SIZE_MAX);
        kda_event_set(b, KDA_FIELD_NETWORK_REMOTE_PORT, remote_port);
    }
}

/* --- objects --------------------------------------------------------------------------------- */

/* list[0] is where the value began; list[n] is the entry whose size word covers level n. */
static void write16(uint8_t *at, uint32_t value)
{
    uint16_t half = (uint16_t)value;
    kda_copy(at, &half, sizeof half);
}

static void write32(uint8_t *at, uint32_t value)
{
    kda_copy(at, &value, sizeof value);
}

void kda_event_object_begin(struct kda_event_builder *b, enum kda_field field)
{
    unsigned slot = find_place(b, field);
    if (slot == KDA_EVENT_MAX_SLOTS)
        return;
    if (type_of(b, slot) != KDA_TYPE_OBJECT) {
        b->misused = 1;
        return;
    }
    mark_present(b, slot, 0, 0);
    b->object_slot = (uint16_t)slot;
    b->list[0] = b->used;
    b->depth = 1;
}

/* Head and name of an entry; NULL, and the field marked as cut, if they or the value would not
 * fit. Returns the place of the value. */
static uint8_t *entry(struct kda_event_builder *b, const char *name, unsigned type, size_t bytes)
{
    size_t name_bytes = 0;
    while (name && name[name_bytes] != '\0')
        name_bytes++;
    size_t room = room_of(b);
    if (name_bytes > UINT16_MAX || room < KDA_OBJECT_ENTRY_BYTES + name_bytes ||
        bytes > room - KDA_OBJECT_ENTRY_BYTES - name_bytes) {
        b->event->truncated |= (uint32_t)1 << b->object_slot;
        return NULL;
    }
    uint8_t *at = (uint8_t *)b->event + b->used;
    at[0] = (uint8_t)type;
    at[1] = 0;
    write16(at + 2, (uint32_t)name_bytes);
    write32(at + 4, (uint32_t)bytes);
    if (name_bytes)
        kda_copy(at + KDA_OBJECT_ENTRY_BYTES, name, name_bytes);
    b->used += (uint32_t)(KDA_OBJECT_ENTRY_BYTES + name_bytes + bytes);
    return at + KDA_OBJECT_ENTRY_BYTES + name_bytes;
}

void kda_event_object_number(struct kda_event_builder *b, const char *name, enum kda_type type,
                             uint64_t value)
{
    if (!b->event)
        return;
    if (!b->depth || (unsigned)type >= KDA_TYPE_COUNT || kda_type_is_variable((unsigned)type)) {
        b->misused = 1;
        return;
    }
    uint8_t *at = entry(b, name, (unsigned)type, sizeof value);
    if (at)
        kda_copy(at, &value, sizeof value);
}

void kda_event_object_bytes(struct kda_event_builder *b, const char *name, enum kda_type type,
                            const void *bytes, size_t count)
{
    if (!b->event)
        return;
    if (!b->depth || !kda_type_is_variable((unsigned)type) || type == KDA_TYPE_OBJECT ||
        type == KDA_TYPE_ARRAY || type == KDA_TYPE_DATA || type == KDA_TYPE_COUNTS ||
        (count && !bytes)) {
        b->misused = 1;
        return;
    }
    uint8_t *at = entry(b, name, (unsigned)type, count);
    if (at && count)
        kda_copy(at, bytes, count);
}

_Bool kda_event_object_open(struct kda_event_builder *b, const char *name, enum kda_type type)
{
    if (!b->event)
        return 0;
    if (!b->depth || (type != KDA_TYPE_OBJECT && type != KDA_TYPE_ARRAY)) {
        b->misused = 1;
        return 0;
    }
    if (b->depth == KDA_OBJECT_MAX_DEPTH) {
        b->event->truncated |= (uint32_t)1 << b->object_slot;
        return 0;
    }
    uint32_t at = b->used;
    if (!entry(b, name, (unsigned)type, 0))
        return 0;
    b->list[b->depth++] = at;
    return 1;
}

void kda_event_object_close(struct kda_event_builder *b)
{
    if (!b->event)
        return;
    if (b->depth < 2) {
        b->misused = 1;
        return;
    }
    uint8_t *at = (uint8_t *)b->event + b->list[--b->depth];
    uint32_t body = b->list[b->depth] + KDA_OBJECT_ENTRY_BYTES + kda_read16(at + 2);
    write32(at + 4, b->used - body);
}

void kda_event_object_end(struct kda_event_builder *b)
{
    if (!b->event)
        return;
    if (b->depth != 1) {
        b->misused = 1;
        return;
    }
    uint32_t start = b->list[0];
    size_t bytes = b->used - start;
    _Bool cut = b->event->truncated >> b->object_slot & 1;
    b->depth = 0;
    b->used = start;
    take(b, b->object_slot, bytes, cut);
}

size_t kda_event_end(struct kda_event_builder *b)
{
    if (!b->event)
        return 0;
    while (b->depth > 1)
        kda_event_object_close(b);
    if (b->depth)
        kda_event_object_end(b);
    uint32_t size = (b->used + 7u) & ~7u;
    kda_clear((uint8_t *)b->event + b->used, size - b->used);
    b->event->size = size;
    return size;
}
