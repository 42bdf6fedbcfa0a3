/*
 * etl_record.c - record headers, extended items and TraceLogging metadata of etl_writer.h.
 */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "etl_writer.h"

#define MAX_RECORD 0xffffu

static void put8(struct blob *out, unsigned value)
{
    uint8_t byte = (uint8_t)value;
    blob_put(out, &byte, 1);
}

static void set16(struct blob *out, size_t at, size_t value)
{
    if (value > MAX_RECORD)
        abort();
    kda_put_le16(out->data + at, (uint16_t)value);
}

unsigned etl_header_type(enum etl_kind kind, unsigned pointer_size)
{
    static const uint8_t types[][2] = {{1, 2},   {3, 4},   {16, 17}, {10, 20},
                                       {11, 21}, {18, 19}, {13, 13}, {0, 0}};
    return types[kind][pointer_size != 4];
}

/* SYSTEM, COMPACT, PERFINFO: version, marker, size, hook, then who and when as far as the header
 * goes. */
static void put_short(struct blob *out, const struct etl_record *r, size_t start)
{
    unsigned version = r->version;
    if (r->counter_count > 7)
        abort();
    version |= (unsigned)r->counter_count << 8 | (r->pebs ? 0x8000u : 0);
    blob_put16(out, (uint16_t)version);
    put8(out, etl_header_type(r->kind, r->pointer_size));
    put8(out, 0xc0);
    blob_put16(out, 0); /* size, later */
    put8(out, r->type);
    put8(out, r->group);
    if (r->kind != ETL_PERFINFO) {
        blob_put32(out, r->tid);
        blob_put32(out, r->pid);
    }
    blob_put64(out, r->time);
    if (r->kind == ETL_SYSTEM) {
        blob_put32(out, r->kernel_time);
        blob_put32(out, r->user_time);
    }
    if (r->pebs)
        blob_put64(out, r->pebs_index);
    for (size_t i = 0; i < r->counter_count; i++)
        blob_put64(out, r->counters[i]);
    blob_put(out, r->payload, r->payload_size);
    set16(out, start + 4, out->size - start);
}

/* FULL and INSTANCE: EVENT_TRACE_HEADER, EVENT_INSTANCE_GUID_HEADER. */
static void put_full(struct blob *out, const struct etl_record *r, size_t start)
{
    blob_put16(out, 0);
    put8(out, etl_header_type(r->kind, r->pointer_size));
    put8(out, 0xc0);
    put8(out, r->type);
    put8(out, r->level);
    blob_put16(out, r->version);
    blob_put32(out, r->tid);
    blob_put32(out, r->pid);
    blob_put64(out, r->time);
    blob_put(out, r->guid, 16);
    blob_put32(out, r->kernel_time);
    blob_put32(out, r->user_time);
    if (r->kind == ETL_INSTANCE) {
        blob_put32(out, r->instance);
        blob_put32(out, r->parent_instance);
        blob_put(out, r->parent_guid, 16);
    }
    blob_put(out, r->payload, r->payload_size);
    set16(out, start, out->size - start);
}

static void put_items(struct blob *out, const struct etl_record *r)
{
    for (size_t i = 0; i < r->ext_count; i++) {
        const struct etl_ext *ext = &r->ext[i];
        size_t whole = (8u + ext->size + 7u) & ~(size_t)7;
        size_t end = out->size + whole;
        blob_put16(out, (uint16_t)whole);
        blob_put16(out, ext->type);
        blob_put16(out, i + 1 < r->ext_count);
        blob_put16(out, ext->size);
        blob_put(out, ext->data, ext->size);
        blob_pad(out, end);
    }
}

/* EVENT and ERROR: EVENT_HEADER. */
static void put_event(struct blob *out, const struct etl_record *r, size_t start)
{
    unsigned flags = r->flags;
    if (r->ext_count > 0)
        flags |= 1u;
    blob_put16(out, 0);
    put8(out, etl_header_type(r->kind, r->pointer_size));
    put8(out, 0xc0);
    blob_put16(out, (uint16_t)flags);
    blob_put16(out, r->property);
    blob_put32(out, r->tid);
    blob_put32(out, r->pid);
    blob_put64(out, r->time);
    blob_put(out, r->guid, 16);
    blob_put16(out, r->id);
    put8(out, r->version);
    put8(out, r->channel);
    put8(out, r->level);
    put8(out, r->type);
    blob_put16(out, r->task);
    blob_put64(out, r->keyword);
    blob_put32(out, r->kernel_time);
    blob_put32(out, r->user_time);
    blob_put(out, r->activity, 16);
    put_items(out, r);
    blob_put(out, r->payload, r->payload_size);
    set16(out, start, out->size - start);
}

static void put_message(struct blob *out, const struct etl_record *r, size_t start)
{
    blob_put16(out, 0);
    put8(out, 3); /* no type: messages were seen with 0 and with 3 here */
    put8(out, 0x90);
    blob_put16(out, r->id);
    blob_put16(out, r->flags);
    if (r->flags & ETL_MSG_SEQUENCE)
        blob_put32(out, r->sequence);
    if (r->flags & ETL_MSG_GUID)
        blob_put(out, r->guid, 16);
    else if (r->flags & ETL_MSG_COMPONENT)
        blob_put32(out, r->instance);
    if (r->flags & ETL_MSG_TIME)
        blob_put64(out, r->time);
    if (r->flags & ETL_MSG_SYSTEMINFO) {
        blob_put32(out, r->tid);
        blob_put32(out, r->pid);
    }
    blob_put(out, r->payload, r->payload_size);
    set16(out, start, out->size - start);
}

size_t etl_put_record(struct blob *out, const struct etl_record *record)
{
    static const uint8_t padding[8] = {0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc};
    size_t start = out->size;
    switch (record->kind) {
    case ETL_SYSTEM:
    case ETL_COMPACT:
    case ETL_PERFINFO:
        put_short(out, record, start);
        break;
    case ETL_FULL:
    case ETL_INSTANCE:
        put_full(out, record, start);
        break;
    case ETL_EVENT:
    case ETL_ERROR:
        put_event(out, record, start);
        break;
    case ETL_MESSAGE:
        put_message(out, record, start);
        break;
    }
    size_t size = out->size - start;
    blob_put(out, padding, (8 - (size & 7)) & 7);
    return size;
}

static unsigned hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f')
        return (unsigned)(c - 'a') + 10;
    if (c >= 'A' && c <= 'F')
        return (unsigned)(c - 'A') + 10;
    abort();
}

void etl_guid(const char *text, uint8_t guid[16])
{
    /* The first three groups are little-endian numbers. */
    static const uint8_t place[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    size_t n = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '-')
            continue;
        if (n >= 16)
            abort();
        guid[place[n++]] = (uint8_t)(hex_digit(p[0]) << 4 | hex_digit(p[1]));
        p++;
    }
    if (n != 16)
        abort();
}

void etl_put_wide(struct blob *out, const char *text)
{
    for (const char *p = text;; p++) {
        blob_put16(out, (uint8_t)*p);
        if (!*p)
            return;
    }
}

void etl_put_narrow(struct blob *out, const char *text)
{
    blob_put(out, text, strlen(text) + 1);
}

/* Seven bits a byte, the high bit says that more follow; most significant first. */
static void put_tag(struct blob *out, uint32_t tag)
{
    if (tag >> 28)
        abort();
    if (tag == 0) {
        put8(out, 0);
        return;
    }
    uint32_t bits = tag << 4;
    while (bits << 7 != 0) {
        put8(out, bits >> 25 | 0x80);
        bits <<= 7;
    }
    put8(out, bits >> 25);
}

void etl_schema_begin(struct blob *out, const char *event, uint32_t tag)
{
    if (out->size != 0)
        abort();
    blob_put16(out, 0);
    put_tag(out, tag);
    etl_put_narrow(out, event);
}

void etl_schema_field(struct blob *out, const char *name, uint8_t in, uint8_t out_type,
                      uint32_t tag)
{
    bool has_out = out_type != 0 || tag != 0;
    etl_put_narrow(out, name);
    put8(out, in | (has_out ? 0x80u : 0));
    if (has_out)
        put8(out, out_type | (tag ? 0x80u : 0));
    if (tag)
        put_tag(out, tag);
}

void etl_schema_count(struct blob *out, uint16_t count)
{
    blob_put16(out, count);
}

void etl_schema_end(struct blob *out)
{
    set16(out, 0, out->size);
}

void etl_put_traits(struct blob *out, const char *provider, const uint8_t *group)
{
    size_t start = out->size;
    blob_put16(out, 0);
    etl_put_narrow(out, provider);
    if (group) {
        blob_put16(out, 19);
        put8(out, 1);
        blob_put(out, group, 16);
    }
    set16(out, start, out->size - start);
}
