/*
 * record.c - record headers: how long a record is, and what its header says.
 */
#include "internal.h"

#include <string.h>

#include "bytes.h"

#define MARK_TRACE 0xc0u   /* TRACE_HEADER_FLAG | TRACE_HEADER_EVENT_TRACE */
#define MARK_MESSAGE 0x90u /* TRACE_HEADER_FLAG | TRACE_MESSAGE */

#define SYSTEM_VERSION_MASK 0xffu
#define SYSTEM_COUNTERS(version) (((version)&0x0700u) >> 8)
#define SYSTEM_PEBS 0x8000u

#define EVENT_EXTENDED 0x0001u
#define EXT_HEAD 8u
#define EXT_LINKAGE 1u /* another item follows */

enum { /* TRACE_MESSAGE_ flags, in the order of the pieces they announce */
       MESSAGE_SEQUENCE = 0x01,
       MESSAGE_GUID = 0x02,
       MESSAGE_COMPONENT = 0x04,
       MESSAGE_TIME = 0x08,
       MESSAGE_IDS = 0x20,
       MESSAGE_POINTER32 = 0x40,
       MESSAGE_POINTER64 = 0x80,
       MESSAGE_HEAD = 8
};

struct shape {
    const char *name;
    uint8_t shape, pointer_size, header, size_at, time_at;
};

/* By HeaderType. No row: no record starts so. */
static const struct shape shapes[] = {
    [KDA_ETL_SYSTEM32] = {"SYSTEM32", KDA_ETL_SHAPE_SYSTEM, 4, 0x20, 4, 0x10},
    [KDA_ETL_SYSTEM64] = {"SYSTEM64", KDA_ETL_SHAPE_SYSTEM, 8, 0x20, 4, 0x10},
    [KDA_ETL_COMPACT32] = {"COMPACT32", KDA_ETL_SHAPE_SYSTEM, 4, 0x18, 4, 0x10},
    [KDA_ETL_COMPACT64] = {"COMPACT64", KDA_ETL_SHAPE_SYSTEM, 8, 0x18, 4, 0x10},
    [KDA_ETL_FULL32] = {"FULL32", KDA_ETL_SHAPE_CLASSIC, 4, 0x30, 0, 0x10},
    [KDA_ETL_INSTANCE32] = {"INSTANCE32", KDA_ETL_SHAPE_CLASSIC, 4, 0x48, 0, 0x10},
    [KDA_ETL_TIMED] = {"TIMED", KDA_ETL_SHAPE_NONE, 0, 8, 0, 0},
    [KDA_ETL_ERROR] = {"ERROR", KDA_ETL_SHAPE_EVENT, 0, 0x50, 0, 0x10},
    [KDA_ETL_WNODE] = {"WNODE", KDA_ETL_SHAPE_NONE, 0, 8, 0, 0},
    [KDA_ETL_PERFINFO32] = {"PERFINFO32", KDA_ETL_SHAPE_SYSTEM, 4, 0x10, 4, 0x08},
    [KDA_ETL_PERFINFO64] = {"PERFINFO64", KDA_ETL_SHAPE_SYSTEM, 8, 0x10, 4, 0x08},
    [KDA_ETL_EVENT32] = {"EVENT32", KDA_ETL_SHAPE_EVENT, 4, 0x50, 0, 0x10},
    [KDA_ETL_EVENT64] = {"EVENT64", KDA_ETL_SHAPE_EVENT, 8, 0x50, 0, 0x10},
    [KDA_ETL_FULL64] = {"FULL64", KDA_ETL_SHAPE_CLASSIC, 8, 0x30, 0, 0x10},
    [KDA_ETL_INSTANCE64] = {"INSTANCE64", KDA_ETL_SHAPE_CLASSIC, 8, 0x48, 0, 0x10},
    [KDA_ETL_MESSAGE] = {"MESSAGE", KDA_ETL_SHAPE_MESSAGE, 0, 0, 0, 0},
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

const char *kda_etl_header_name(enum kda_etl_header header)
{
    size_t index = (size_t)header;
    return index < SHAPES && shapes[index].name ? shapes[index].name : "?";
}

static const struct shape *shape_at(const uint8_t *p)
{
    /* The row of messages is behind the last number of the format and has no length. */
    return p[3] == MARK_TRACE && p[2] < SHAPES && shapes[p[2]].header ? &shapes[p[2]] : NULL;
}

/* Bytes of a message up to its time (`time` true) or its payload. */
static uint32_t message_pieces(unsigned flags, bool to_time)
{
    uint32_t size = MESSAGE_HEAD;
    if (flags & MESSAGE_SEQUENCE)
        size += 4;
    /* Of GUID and component id one is there; a sender that sets both writes the GUID. */
    if (flags & MESSAGE_GUID)
        size += 16;
    else if (flags & MESSAGE_COMPONENT)
        size += 4;
    if (to_time)
        return size;
    if (flags & MESSAGE_TIME)
        size += 8;
    if (flags & MESSAGE_IDS)
        size += 8;
    return size;
}

uint32_t kda_etl_record_size(const uint8_t *p, size_t left)
{
    if (left < MESSAGE_HEAD)
        return 0;
    uint32_t size, least;
    const struct shape *shape = shape_at(p);
    if (shape) {
        size = kda_le16(p + shape->size_at);
        least = shape->header;
    } else if (p[3] == MARK_MESSAGE && p[7] == 0) { /* byte 2 is no type and may hold anything */
        size = kda_le16(p);
        least = message_pieces(kda_le16(p + 6), false);
    } else {
        return 0;
    }
    return size >= least && size <= left ? size : 0;
}

bool kda_etl_record_time(const uint8_t *p, uint64_t *ret)
{
    const struct shape *shape = shape_at(p);
    if (shape && shape->time_at) {
        *ret = kda_le64(p + shape->time_at);
        return true;
    }
    if (shape || !(kda_le16(p + 6) & MESSAGE_TIME))
        return false;
    *ret = kda_le64(p + message_pieces(kda_le16(p + 6), true));
    return true;
}

/* PERFINFO headers may be followed by a PEBS index and counters; SYSTEM and COMPACT use the same
 * bits of the version. */
static void fill_counters(const uint8_t *p, uint32_t header, struct kda_etl_record *record)
{
    uint32_t size =
        8u * (SYSTEM_COUNTERS(record->flags) + ((record->flags & SYSTEM_PEBS) != 0 ? 1u : 0u));
    if (size == 0)
        return;
    if (size > record->payload_size) {
        record->suspect = true;
        return;
    }
    record->counters = p + header;
    record->counters_size = size;
    record->payload += size;
    record->payload_size -= size;
}

static void fill_system(const uint8_t *p, uint32_t header, struct kda_etl_record *record)
{
    record->flags = kda_le16(p);
    record->version = record->flags & SYSTEM_VERSION_MASK;
    record->type = record->opcode = p[6];
    record->group = p[7];
    if (record->header != KDA_ETL_PERFINFO32 && record->header != KDA_ETL_PERFINFO64) {
        record->has_ids = true;
        record->tid = kda_le32(p + 8);
        record->pid = kda_le32(p + 12);
    }
    if (record->header == KDA_ETL_SYSTEM32 || record->header == KDA_ETL_SYSTEM64) {
        record->has_cpu_times = true;
        record->kernel_time = kda_le32(p + 0x18);
        record->user_time = kda_le32(p + 0x1c);
    }
    fill_counters(p, header, record);
}

static void fill_ids(const uint8_t *p, uint32_t cpu_times, struct kda_etl_record *record)
{
    record->has_ids = true;
    record->tid = kda_le32(p + 8);
    record->pid = kda_le32(p + 12);
    record->guid = p + 0x18;
    record->has_cpu_times = true;
    record->kernel_time = kda_le32(p + cpu_times);
    record->user_time = kda_le32(p + cpu_times + 4);
}

static void fill_classic(const uint8_t *p, struct kda_etl_record *record)
{
    fill_ids(p, 0x28, record);
    record->type = record->opcode = p[4];
    record->level = p[5];
    record->version = kda_le16(p + 6);
    if (record->header == KDA_ETL_INSTANCE32 || record->header == KDA_ETL_INSTANCE64) {
        record->instance_id = kda_le32(p + 0x30);
        record->parent_instance_id = kda_le32(p + 0x34);
        record->parent_guid = p + 0x38;
    }
}

/* Size of the item at `at`, 0 if it does not fit into the record. */
static uint32_t ext_item_size(const uint8_t *p, uint32_t at, uint32_t end)
{
    if (end - at < EXT_HEAD)
        return 0;
    uint32_t item = kda_le16(p + at), data = kda_le16(p + at + 6);
    if (item == 0)
        item = kda_etl_align8(EXT_HEAD + data);
    return item >= EXT_HEAD + data && item <= end - at ? item : 0;
}

/* What is behind an impossible item is taken for payload: better shown than lost. */
static void fill_ext(const uint8_t *p, uint32_t header, struct kda_etl_record *record)
{
    uint32_t at = header;
    bool more = true;
    while (more) {
        uint32_t item = ext_item_size(p, at, record->size);
        if (item == 0) {
            record->suspect = true;
            break;
        }
        if (kda_le16(p + at + 2) == KDA_ETL_EXT_RELATED_ACTIVITY && kda_le16(p + at + 6) >= 16)
            record->related = p + at + EXT_HEAD;
        more = kda_le16(p + at + 4) & EXT_LINKAGE;
        at += item;
    }
    if (at == header)
        return;
    record->ext = p + header;
    record->ext_size = at - header;
    record->payload = p + at;
    record->payload_size = record->size - at;
}

static void fill_event(const uint8_t *p, uint32_t header, struct kda_etl_record *record)
{
    fill_ids(p, 0x38, record);
    record->flags = kda_le16(p + 4);
    record->property = kda_le16(p + 6);
    record->id = kda_le16(p + 0x28);
    record->version = p[0x2a];
    record->channel = p[0x2b];
    record->level = p[0x2c];
    record->opcode = record->type = p[0x2d];
    record->task = kda_le16(p + 0x2e);
    record->keyword = kda_le64(p + 0x30);
    record->activity = p + 0x40;
    if (record->flags & EVENT_EXTENDED)
        fill_ext(p, header, record);
}

static void fill_message(const uint8_t *p, struct kda_etl_record *record)
{
    unsigned flags = kda_le16(p + 6);
    uint32_t at = MESSAGE_HEAD;
    record->id = kda_le16(p + 4);
    record->flags = (uint16_t)flags;
    record->pointer_size = flags & MESSAGE_POINTER64 ? 8 : flags & MESSAGE_POINTER32 ? 4 : 0;
    if (flags & MESSAGE_SEQUENCE) {
        record->sequence = kda_le32(p + at);
        at += 4;
    }
    if (flags & MESSAGE_GUID) {
        record->guid = p + at;
        at += 16;
    } else if (flags & MESSAGE_COMPONENT) {
        record->component = kda_le32(p + at);
        at += 4;
    }
    if (flags & MESSAGE_TIME)
        at += 8;
    if (flags & MESSAGE_IDS) {
        record->has_ids = true;
        record->tid = kda_le32(p + at);
        record->pid = kda_le32(p + at + 4);
    }
}

void kda_etl_record_fill(const uint8_t *p, uint32_t size, struct kda_etl_record *record)
{
    const struct shape *shape = shape_at(p);
    uint32_t header = shape ? shape->header : message_pieces(kda_le16(p + 6), false);
    memset(record, 0, sizeof(*record));
    record->header = shape ? (enum kda_etl_header)p[2] : KDA_ETL_MESSAGE;
    record->shape = (enum kda_etl_shape)(shape ? shape->shape : KDA_ETL_SHAPE_MESSAGE);
    record->pointer_size = shape ? shape->pointer_size : 0;
    record->bytes = p;
    record->size = size;
    record->payload = p + header;
    record->payload_size = size - header;
    record->has_time = kda_etl_record_time(p, &record->raw_time);
    switch (record->shape) {
    case KDA_ETL_SHAPE_SYSTEM:
        fill_system(p, header, record);
        break;
    case KDA_ETL_SHAPE_CLASSIC:
        fill_classic(p, record);
        break;
    case KDA_ETL_SHAPE_EVENT:
        fill_event(p, header, record);
        break;
    case KDA_ETL_SHAPE_MESSAGE:
        fill_message(p, record);
        break;
    case KDA_ETL_SHAPE_NONE:
        break;
    }
}

bool kda_etl_ext_next(const struct kda_etl_record *record, uint32_t *at, struct kda_etl_ext *item)
{
    if (*at >= record->ext_size)
        return false;
    const uint8_t *p = record->ext + *at;
    item->type = kda_le16(p + 2);
    item->size = kda_le16(p + 6);
    item->data = p + EXT_HEAD;
    *at += ext_item_size(record->ext, *at, record->ext_size);
    return true;
}

bool kda_etl_ext_find(const struct kda_etl_record *record, enum kda_etl_ext_type type,
                      struct kda_etl_ext *item)
{
    struct kda_etl_ext found;
    for (uint32_t at = 0; kda_etl_ext_next(record, &at, &found);) {
        if (found.type != (uint16_t)type)
            continue;
        *item = found;
        return true;
    }
    return false;
}
