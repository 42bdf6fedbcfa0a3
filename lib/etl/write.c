/*
 * write.c - writes .etl files: header buffer, data buffers.
 */
#include "kda/etl_write.h"

#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"

#define HEADER 72u      /* WMI_BUFFER_HEADER */
#define RECORD 32u      /* SYSTEM_TRACE_HEADER */
#define LOG_HEADER 280u /* TRACE_LOGFILE_HEADER of a 64-bit logger, without the names */
#define NAME_UNITS 1024u
#define STATE_FLUSH 3u
#define TYPE_HEADER 4u
#define FLAG_FLUSH_MARKER 0x01u
#define FLAG_PROC_INDEX 0x20u
#define CPU_MASK 0x7ffu

struct kda_etl_writer {
    kda_etl_write_fn write;
    void *context;
    uint8_t *bytes; /* one buffer */
    uint32_t size;
    uint32_t announced, written;
    uint16_t logger_id;
};

/* One character of UTF-8 as a code point; anything malformed is U+FFFD and takes one byte. */
static uint32_t code_point(const char *text, size_t left, size_t *used)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t more = p[0] < 0x80 ? 0 : p[0] >= 0xf0 ? 3 : p[0] >= 0xe0 ? 2 : p[0] >= 0xc0 ? 1 : 4;
    uint32_t value = more == 0 ? p[0] : p[0] & (0x3fu >> more);
    *used = 1;
    if (more > 3 || more >= left)
        return more == 0 ? value : 0xfffd;
    for (size_t i = 1; i <= more; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0xfffd;
        value = value << 6 | (p[i] & 0x3fu);
    }
    *used = 1 + more;
    return value <= 0x10ffff ? value : 0xfffd;
}

/* UTF-16 with its NUL; returns bytes. */
static size_t put_name(uint8_t *out, const char *text)
{
    size_t units = 0, left = text ? strlen(text) : 0, used;
    for (size_t i = 0; left > 0; i += used, left -= used) {
        uint32_t c = code_point(text + i, left, &used);
        size_t need = c > 0xffff ? 2 : 1;
        if (units + need > NAME_UNITS)
            break;
        if (need == 2) {
            kda_put_le16(out + 2 * units++, (uint16_t)(0xd800 + ((c - 0x10000) >> 10)));
            c = 0xdc00 + ((c - 0x10000) & 0x3ff);
        }
        kda_put_le16(out + 2 * units++, (uint16_t)c);
    }
    kda_put_le16(out + 2 * units++, 0);
    return 2 * units;
}

static void put_buffer_header(struct kda_etl_writer *w, uint32_t used, uint64_t time, uint32_t cpu,
                              uint32_t flags, uint32_t type)
{
    uint8_t *h = w->bytes;
    memset(h, 0, HEADER);
    kda_put_le32(h + 0x00, w->size);
    kda_put_le32(h + 0x04, used);
    kda_put_le32(h + 0x08, used);
    kda_put_le64(h + 0x10, time);
    kda_put_le64(h + 0x18, w->written); /* the header buffer is 0 */
    kda_put_le16(h + 0x28, (uint16_t)cpu);
    kda_put_le16(h + 0x2a, w->logger_id);
    kda_put_le32(h + 0x2c, STATE_FLUSH);
    kda_put_le32(h + 0x30, used);
    kda_put_le16(h + 0x34, (uint16_t)(flags | FLAG_PROC_INDEX));
    kda_put_le16(h + 0x36, (uint16_t)type);
    memset(h + used, 0xff, w->size - used);
}

static size_t put_log_header(uint8_t *p, const struct kda_etl_write_options *o)
{
    memset(p, 0, LOG_HEADER);
    kda_put_le32(p + 0, o->buffer_size);
    p[4] = o->os_major;
    p[5] = o->os_minor;
    p[6] = 2; /* layout 2.0: processor numbers of 11 bits */
    kda_put_le32(p + 8, o->os_build);
    kda_put_le32(p + 12, o->processors);
    kda_put_le64(p + 16, o->end_100ns);
    kda_put_le32(p + 24, o->timer_resolution);
    kda_put_le32(p + 32, o->mode);
    kda_put_le32(p + 36, o->buffers + 1);
    kda_put_le32(p + 40, 1);
    kda_put_le32(p + 44, 8);
    kda_put_le32(p + 48, o->events_lost);
    kda_put_le32(p + 52, o->cpu_mhz);
    /* 56: two pointers; 72: time zone, UTC; padding */
    kda_put_le64(p + 248, o->boot_100ns);
    kda_put_le64(p + 256, o->frequency);
    kda_put_le64(p + 264, o->start_100ns);
    kda_put_le32(p + 272, o->clock);
    kda_put_le32(p + 276, o->buffers_lost);
    size_t size = LOG_HEADER;
    size += put_name(p + size, o->session_name);
    return size + put_name(p + size, o->file_name);
}

static enum kda_status emit(struct kda_etl_writer *w, struct kda_error *err)
{
    if (!w->write(w->context, w->bytes, w->size))
        return kda_fail(err, KDA_IO, "etl", "the trace file could not be written");
    w->written++;
    return KDA_OK;
}

static enum kda_status put_header_buffer(struct kda_etl_writer *w,
                                         const struct kda_etl_write_options *o,
                                         struct kda_error *err)
{
    uint8_t record[RECORD + LOG_HEADER + 2 * 2 * (NAME_UNITS + 1)];
    size_t size = RECORD + put_log_header(record + RECORD, o);
    memset(record, 0, RECORD);
    kda_put_le16(record, 2); /* version; SYSTEM64, group 0, type 0 */
    record[2] = 2;
    record[3] = 0xc0;
    kda_put_le16(record + 4, (uint16_t)size);
    kda_put_le64(record + 0x10, o->start_raw);
    if (HEADER + size > w->size) { /* buffers smaller than the names: the names give way */
        size = w->size - HEADER;
        kda_put_le16(record + 4, (uint16_t)size);
        memset(record + size - 4, 0, 4);
    }
    memcpy(w->bytes + HEADER, record, size);
    uint32_t used = HEADER + (uint32_t)((size + 7) & ~(size_t)7);
    memset(w->bytes + HEADER + size, 0, used - HEADER - size);
    put_buffer_header(w, used, o->start_raw, 0, FLAG_FLUSH_MARKER, TYPE_HEADER);
    return emit(w, err);
}

enum kda_status kda_etl_writer_create(const struct kda_etl_write_options *options,
                                      kda_etl_write_fn write, void *context,
                                      struct kda_etl_writer **ret, struct kda_error *err)
{
    if (options->buffer_size < KDA_ETL_WRITE_MIN_BUFFER || options->buffer_size % 8 != 0 ||
        options->buffer_size > KDA_ETL_WRITE_MAX_BUFFER || options->buffers == UINT32_MAX)
        return kda_fail(err, KDA_USAGE, "etl", "no trace file has buffers of %u bytes",
                        options->buffer_size);
    struct kda_etl_writer *w = kda_calloc(1, sizeof(*w));
    uint8_t *bytes = w ? kda_calloc(options->buffer_size, 1) : NULL;
    if (!bytes) {
        kda_free(w);
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for a trace buffer");
    }
    *w = (struct kda_etl_writer){.write = write,
                                 .context = context,
                                 .bytes = bytes,
                                 .size = options->buffer_size,
                                 .announced = options->buffers,
                                 .logger_id = options->logger_id};
    enum kda_status status = put_header_buffer(w, options, err);
    if (status == KDA_OK) {
        *ret = w;
    } else {
        kda_free(bytes);
        kda_free(w);
    }
    return status;
}

enum kda_status kda_etl_writer_buffer(struct kda_etl_writer *writer,
                                      const struct kda_etl_write_buffer *buffer,
                                      struct kda_error *err)
{
    struct kda_etl_writer *w = writer;
    if (w->written > w->announced)
        return kda_fail(err, KDA_USAGE, "etl", "more trace buffers than were announced");
    if (buffer->size > w->size - HEADER || buffer->size % 8 != 0 || buffer->cpu > CPU_MASK)
        return kda_fail(err, KDA_USAGE, "etl", "%zu bytes of records do not fit a trace buffer",
                        buffer->size);
    if (buffer->size > 0)
        memcpy(w->bytes + HEADER, buffer->records, buffer->size);
    uint32_t last = w->written == w->announced ? FLAG_FLUSH_MARKER : 0;
    put_buffer_header(w, HEADER + (uint32_t)buffer->size, buffer->time, buffer->cpu,
                      buffer->flags | last, 0);
    return emit(w, err);
}

enum kda_status kda_etl_writer_close(struct kda_etl_writer *writer, struct kda_error *err)
{
    if (!writer)
        return KDA_OK;
    bool whole = writer->written == writer->announced + 1;
    uint32_t missing = writer->announced + 1 - writer->written;
    kda_free(writer->bytes);
    kda_free(writer);
    if (whole)
        return KDA_OK;
    return kda_fail(err, KDA_USAGE, "etl", "%u of the announced trace buffers were not written",
                    missing);
}
