/*
 * etl_file.c - buffers and whole files of etl_writer.h.
 */
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "etl_writer.h"

#define BUFFERS_WRITTEN_AT (ETL_BUFFER_HEADER + 32u + 36u)
#define HASH_BITS 12
#define TYPE_HEADER 4u

struct etl_params etl_defaults(void)
{
    return (struct etl_params){
        .pointer_size = 8,
        .os_major = 10,
        .layout_major = 2,
        .build = 22000,
        .buffer_size = 0x10000,
        .cpus = 4,
        .clock = 1,
        .frequency = 10000000,
        .cpu_mhz = 2600,
        .start_100ns = 133403823250000000u,
        .start_raw = 3594954863453u,
        .boot_100ns = 133400228318816011u,
        .end_100ns = 133403881910000000u,
        .timer_resolution = 156250,
        .mode = 1,
        .logger_id = 7,
        .name = "Sample",
        .file = "C:\\sample.etl",
        .compression = 3,
    };
}

void etl_put_buffer(struct blob *out, const struct etl_buffer *buffer, const void *records,
                    size_t size)
{
    size_t start = out->size;
    uint32_t used = ETL_BUFFER_HEADER + (uint32_t)size;
    bool header = buffer->type == TYPE_HEADER;
    if (used > buffer->size && !(buffer->flags & ETL_FLAG_COMPRESSED))
        abort();
    blob_put32(out, buffer->size);
    blob_put32(out, buffer->windows7 && header ? 0 : used);
    blob_put32(out, used);
    blob_put32(out, 0);
    blob_put64(out, buffer->time);
    blob_put64(out, buffer->sequence);
    blob_put64(out, 0);
    blob_put16(out, (uint16_t)(buffer->cpu | (buffer->windows7 ? 0x800u : 0)));
    blob_put16(out, buffer->logger_id);
    blob_put32(out, buffer->state);
    blob_put32(out, used);
    blob_put16(out, buffer->flags);
    blob_put16(out, buffer->type);
    blob_put(out, NULL, 16);
    if (buffer->flags & ETL_FLAG_COMPRESSED) {
        struct blob packed = {0};
        etl_compress(records, size, &packed);
        blob_put(out, packed.data, packed.size);
        blob_set32(out, start, ETL_BUFFER_HEADER + (uint32_t)packed.size);
        blob_free(&packed);
        return;
    }
    blob_put(out, records, size);
    size_t rest = buffer->size - used;
    blob_put(out, NULL, rest);
    memset(out->data + out->size - rest, 0xff, rest);
}

/* TRACE_LOGFILE_HEADER. */
static void put_log_header(struct blob *out, const struct etl_params *p)
{
    size_t pointer = p->pointer_size;
    blob_put32(out, p->buffer_size);
    const uint8_t versions[4] = {p->os_major, p->os_minor, p->layout_major, p->layout_minor};
    blob_put(out, versions, 4);
    blob_put32(out, p->build);
    blob_put32(out, p->cpus);
    blob_put64(out, p->end_100ns);
    blob_put32(out, p->timer_resolution);
    blob_put32(out, 0);
    blob_put32(out, p->mode);
    blob_put32(out, 0); /* BuffersWritten, when it is known */
    blob_put32(out, 1);
    blob_put32(out, (uint32_t)pointer);
    blob_put32(out, p->events_lost);
    blob_put32(out, p->cpu_mhz);
    blob_put(out, NULL, 2 * pointer);
    blob_put(out, NULL, 176); /* time zone and padding */
    blob_put64(out, p->boot_100ns);
    blob_put64(out, p->frequency);
    blob_put64(out, p->start_100ns);
    blob_put32(out, p->clock);
    blob_put32(out, p->buffers_lost);
    etl_put_wide(out, p->name ? p->name : "");
    etl_put_wide(out, p->file ? p->file : "");
}

static void emit(struct etl_writer *w, const struct blob *bytes)
{
    if (!w->params.stream) {
        blob_put(&w->file, bytes->data, bytes->size);
    } else if (fwrite(bytes->data, 1, bytes->size, w->params.stream) != bytes->size) {
        abort();
    }
}

/* The header buffer of a compressed file is as long as needed, in steps of 512 bytes. */
static uint32_t header_size(const struct etl_params *p, size_t records)
{
    if (!(p->mode & ETL_MODE_COMPRESSED))
        return p->buffer_size;
    return (uint32_t)((ETL_BUFFER_HEADER + records + 511) & ~(size_t)511);
}

void etl_begin(struct etl_writer *writer, const struct etl_params *params)
{
    *writer = (struct etl_writer){.params = *params, .sequence = 1};
    const struct etl_params *p = &writer->params;
    struct blob header = {0}, records = {0}, buffer = {0};
    put_log_header(&header, p);
    struct etl_record first = {.kind = ETL_SYSTEM,
                               .pointer_size = p->pointer_size,
                               .version = 2,
                               .time = p->start_raw,
                               .payload = header.data,
                               .payload_size = header.size};
    etl_put_record(&records, &first);
    size_t saved = records.size;
    if (p->header_records)
        blob_put(&records, p->header_records->data, p->header_records->size);
    struct etl_buffer head = {
        .size = header_size(p, records.size),
        .logger_id = p->merged ? 0 : p->logger_id,
        .time = p->merged ? p->start_100ns : p->start_raw,
        .state = p->mode & ETL_MODE_COMPRESSED ? p->compression : 3,
        .flags = p->merged || p->windows7 ? ETL_FLAG_FLUSH_MARKER
                                          : ETL_FLAG_FLUSH_MARKER | ETL_FLAG_PROC_INDEX,
        .type = TYPE_HEADER,
        .windows7 = p->windows7,
    };
    etl_put_buffer(&buffer, &head, records.data, records.size);
    if (p->merged)
        blob_set32(&buffer, 4, ETL_BUFFER_HEADER + (uint32_t)saved);
    emit(writer, &buffer);
    writer->written = 1;
    blob_free(&header);
    blob_free(&records);
    blob_free(&buffer);
}

size_t etl_flush(struct etl_writer *writer, uint32_t cpu, bool even_empty)
{
    const struct etl_params *p = &writer->params;
    struct blob *records = &writer->open[cpu];
    if (records->size == 0 && !even_empty)
        return 0;
    struct etl_buffer head = {
        .size = p->buffer_size,
        .cpu = (uint16_t)(p->mode & ETL_MODE_NO_PER_CPU ? 0 : cpu),
        .logger_id = p->merged ? 0 : p->logger_id,
        .time = p->merged ? p->start_100ns : writer->last_time[cpu],
        .sequence = writer->sequence++,
        .state = 3,
        .flags = (uint16_t)(writer->next_flags | (p->windows7 ? 0u : ETL_FLAG_PROC_INDEX) |
                            (p->mode & ETL_MODE_COMPRESSED ? ETL_FLAG_COMPRESSED : 0u)),
        .windows7 = p->windows7,
    };
    writer->next_flags = 0;
    struct blob buffer = {0};
    etl_put_buffer(&buffer, &head, records->data, records->size);
    records->size = 0;
    size_t at = writer->file.size;
    if (p->mode & ETL_MODE_CIRCULAR && p->circular_buffers != 0 &&
        writer->written > p->circular_buffers) {
        at = (1 + (writer->written - 1) % p->circular_buffers) * (size_t)p->buffer_size;
        memcpy(writer->file.data + at, buffer.data, buffer.size);
    } else {
        emit(writer, &buffer);
    }
    writer->written++;
    blob_free(&buffer);
    return at;
}

static void make_room(struct etl_writer *w, uint32_t cpu, size_t size)
{
    size_t room = w->params.buffer_size - ETL_BUFFER_HEADER;
    if (cpu >= ETL_MAX_CPUS || size > room)
        abort();
    if (w->open[cpu].size + size > room)
        etl_flush(w, cpu, false);
}

void etl_add(struct etl_writer *writer, uint32_t cpu, const struct etl_record *record)
{
    struct blob one = {0};
    etl_put_record(&one, record);
    etl_add_bytes(writer, cpu, one.data, one.size);
    blob_free(&one);
    writer->last_time[cpu] = record->time;
    writer->records++;
}

void etl_add_bytes(struct etl_writer *writer, uint32_t cpu, const void *bytes, size_t size)
{
    make_room(writer, cpu, size);
    blob_put(&writer->open[cpu], bytes, size);
}

/* Flushes what is open; the last buffer written says that it is. */
static void flush_all(struct etl_writer *w)
{
    uint32_t last = ETL_MAX_CPUS;
    for (uint32_t cpu = 0; cpu < ETL_MAX_CPUS; cpu++)
        if (w->open[cpu].size > 0)
            last = cpu;
    for (uint32_t cpu = 0; cpu < ETL_MAX_CPUS; cpu++) {
        if (cpu == last)
            w->next_flags |= ETL_FLAG_FLUSH_MARKER;
        etl_flush(w, cpu, false);
    }
}

void etl_append_session(struct etl_writer *writer, uint16_t logger_id)
{
    flush_all(writer);
    writer->sequence = 1;
    writer->params.logger_id = logger_id;
}

void etl_finish(struct etl_writer *writer)
{
    flush_all(writer);
    for (uint32_t cpu = 0; cpu < ETL_MAX_CPUS; cpu++)
        blob_free(&writer->open[cpu]);
    if (writer->params.end_100ns == 0)
        return; /* never closed: the count stays 0 */
    if (!writer->params.stream) {
        blob_set32(&writer->file, BUFFERS_WRITTEN_AT, writer->written);
        return;
    }
    uint8_t count[4];
    kda_put_le32(count, writer->written);
    if (fseek(writer->params.stream, BUFFERS_WRITTEN_AT, SEEK_SET) != 0 ||
        fwrite(count, 1, sizeof(count), writer->params.stream) != sizeof(count) ||
        fseek(writer->params.stream, 0, SEEK_END) != 0)
        abort();
}

void etl_writer_free(struct etl_writer *writer)
{
    blob_free(&writer->file);
    for (uint32_t cpu = 0; cpu < ETL_MAX_CPUS; cpu++)
        blob_free(&writer->open[cpu]);
}

/* ---- compression ---- */

struct packer {
    struct blob *out;
    size_t flags_at; /* the flag word being filled */
    unsigned flags_used;
    size_t nibble_at; /* byte whose high nibble is free, 0 = none */
};

static void put_flag(struct packer *p, unsigned bit)
{
    if (p->flags_used == 32) {
        p->flags_at = p->out->size;
        p->flags_used = 0;
        blob_put32(p->out, 0xffffffff);
    }
    uint32_t mask = 1u << (31 - p->flags_used++);
    uint32_t word = kda_le32(p->out->data + p->flags_at);
    blob_set32(p->out, p->flags_at, bit ? word | mask : word & ~mask);
}

static void put_match(struct packer *p, size_t distance, size_t length)
{
    size_t rest = length - 3;
    blob_put16(p->out, (uint16_t)((distance - 1) << 3 | (rest < 7 ? rest : 7)));
    if (rest < 7)
        return;
    rest -= 7;
    uint8_t nibble = (uint8_t)(rest < 15 ? rest : 15);
    if (p->nibble_at) {
        p->out->data[p->nibble_at] |= (uint8_t)(nibble << 4);
        p->nibble_at = 0;
    } else {
        p->nibble_at = p->out->size;
        blob_put(p->out, &nibble, 1);
    }
    if (rest < 15)
        return;
    rest -= 15;
    uint8_t byte = (uint8_t)(rest < 255 ? rest : 255);
    blob_put(p->out, &byte, 1);
    if (rest < 255)
        return;
    rest += 22;
    if (rest <= 0xffff) {
        blob_put16(p->out, (uint16_t)rest);
    } else {
        blob_put16(p->out, 0);
        blob_put32(p->out, (uint32_t)rest);
    }
}

void etl_compress(const uint8_t *bytes, size_t size, struct blob *out)
{
    struct packer p = {.out = out, .flags_used = 32};
    size_t *last = calloc((size_t)1 << HASH_BITS, sizeof(*last)); /* place + 1 */
    if (!last)
        abort();
    for (size_t at = 0; at < size;) {
        size_t length = 0, from = 0;
        if (at + 3 <= size) {
            uint32_t three =
                bytes[at] | (uint32_t)bytes[at + 1] << 8 | (uint32_t)bytes[at + 2] << 16;
            size_t *slot = &last[three * 2654435761u >> (32 - HASH_BITS)];
            from = *slot;
            *slot = at + 1;
            if (from != 0 && at - (from - 1) <= 8192)
                while (at + length < size && bytes[from - 1 + length] == bytes[at + length])
                    length++;
        }
        put_flag(&p, length >= 3);
        if (length >= 3) {
            put_match(&p, at - (from - 1), length);
            at += length;
        } else {
            blob_put(out, bytes + at++, 1);
        }
    }
    /* The terminating match flag of the format's own compressor. */
    put_flag(&p, 1);
    free(last);
}
