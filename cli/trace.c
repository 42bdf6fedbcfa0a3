/*
 * trace.c - frames the buffers of a session and writes them as an .etl file.
 */
#include "trace.h"

#include <stdlib.h>
#include <string.h>

#define FILE_MODE_SEQUENTIAL 0x1u
/* Bits that say how the kernel went about its own file; this one is written front to back. */
#define FILE_MODE_DROPPED                                                                          \
    0x040000aeu                  /* circular, append, newfile, preallocate, secure, compressed */
#define TIMER_RESOLUTION 156250u /* the usual one; no layout table carries KeMaximumIncrement */
#define BUFFER_STEP 1024u
#define RACE_SHARE 100u /* of a second: writers of one CPU that interrupt each other are closer */

/* ---- one buffer ---- */

static bool in_hole(const struct kda_buffer_content *content, uint64_t off, uint64_t size)
{
    for (size_t i = 0; i < content->hole_count; i++)
        if (off < (uint64_t)content->holes[i].off + content->holes[i].size &&
            content->holes[i].off < off + size)
            return true;
    return false;
}

/* Appends a record with its padding; false: out of memory. */
static bool pack(struct trace *trace, const struct kda_etl_record *record)
{
    size_t padded = ((size_t)record->size + 7) & ~(size_t)7;
    if (trace->packed_capacity - trace->packed_size < padded) {
        size_t capacity = (trace->packed_size + padded) * 2;
        uint8_t *grown = realloc(trace->packed, capacity);
        if (!grown)
            return false;
        trace->packed = grown;
        trace->packed_capacity = capacity;
    }
    uint8_t *to = trace->packed + trace->packed_size;
    memcpy(to, record->bytes, record->size);
    memset(to + record->size, 0, padded - record->size);
    trace->packed_size += padded;
    return true;
}

/* Reserved and not written yet, over what the buffer held before: buffers are not cleared, so the
 * room shows a record of an earlier time. Only a buffer with writers in it can have such room. */
static bool is_leftover(const struct trace *trace, const struct kda_trace_buffer *buffer,
                        const struct kda_trace_facts *facts, const struct kda_etl_record *record)
{
    return buffer->references > 0 && facts->has_time && record->has_time &&
           record->raw_time < facts->first &&
           facts->first - record->raw_time > trace->clock.frequency / RACE_SHARE;
}

static bool count_record(struct trace *trace, const struct kda_trace_buffer *buffer,
                         struct kda_trace_facts *facts, const struct kda_etl_record *record)
{
    if (is_leftover(trace, buffer, facts, record)) {
        facts->unwritten++;
        return true;
    }
    facts->records++;
    if (record->has_time) {
        if (!facts->has_time)
            facts->first = facts->oldest = record->raw_time;
        if (record->raw_time < facts->oldest)
            facts->oldest = record->raw_time;
        if (!facts->has_time || record->raw_time > facts->newest)
            facts->newest = record->raw_time;
        facts->has_time = true;
    }
    return pack(trace, record);
}

/* Frames `content`: fills *facts and the packed records. False: out of memory. */
static bool frame(struct trace *trace, const struct kda_trace_buffer *buffer,
                  const struct kda_buffer_content *content, struct kda_trace_facts *facts)
{
    struct kda_etl_framer framer;
    struct kda_etl_record record;
    struct kda_etl_hole hole;
    kda_etl_framer_init(&framer, content->bytes, content->size, 0, 0, buffer->cpu);
    framer.exact = buffer->used_known;
    trace->packed_size = 0;
    for (;;) {
        switch (kda_etl_frame_next(&framer, &record, &hole)) {
        case KDA_ETL_FRAME_END:
            return true;
        case KDA_ETL_FRAME_RECORD:
            /* A record that reaches into missing memory is a part of that gap. */
            if (in_hole(content, record.off, record.size))
                facts->cut++;
            else if (!count_record(trace, buffer, facts, &record))
                return false;
            break;
        case KDA_ETL_FRAME_UNWRITTEN:
            if (!in_hole(content, hole.off, hole.bytes))
                facts->unwritten++;
            break;
        case KDA_ETL_FRAME_DAMAGED:
            if (!in_hole(content, hole.off, hole.bytes))
                facts->damaged++;
            break;
        }
    }
}

static int frame_row(struct trace *trace, const struct kda_trace_buffer *buffer,
                     struct kda_trace_facts *facts)
{
    struct kda_buffer_content content;
    struct kda_error err;
    memset(facts, 0, sizeof(*facts));
    trace->packed_size = 0;
    if (!buffer->readable)
        return CLI_DONE;
    enum kda_status status = kda_etw_buffer_bytes(trace->buffers, buffer, &content, &err);
    if (status == KDA_LIMIT) /* the gap list says so */
        return CLI_DONE;
    if (status != KDA_OK) {
        cli_error_of(&err);
        return CLI_INTERNAL;
    }
    for (size_t i = 0; i < content.hole_count; i++)
        facts->missing += content.holes[i].size;
    facts->framed = true;
    if (frame(trace, buffer, &content, facts))
        return CLI_DONE;
    cli_error("out of memory");
    return CLI_INTERNAL;
}

/* ---- a session ---- */

static void set_times(const struct trace *trace, struct kda_trace_facts *facts)
{
    const struct kda_etw_clock *c = &trace->clock;
    struct kda_etl_clock clock = {.type = (enum kda_etl_clock_type)c->type,
                                  .frequency = c->frequency,
                                  .raw = c->raw,
                                  .filetime = c->time_100ns};
    facts->has_utc = facts->has_time &&
                     (c->type == KDA_ETL_CLOCK_SYSTEM || (c->frequency != 0 && c->time_100ns != 0));
    if (!facts->has_utc)
        return;
    facts->oldest_100ns = kda_etl_clock_time(&clock, facts->oldest);
    facts->newest_100ns = kda_etl_clock_time(&clock, facts->newest);
}

int trace_open(struct cli *cli, const struct kda_etw_session *session, struct trace *ret)
{
    struct kda_error err;
    memset(ret, 0, sizeof(*ret));
    ret->cli = cli;
    ret->session = session;
    enum kda_status status = kda_etw_buffers_read(cli->kernel, session, &ret->buffers, &err);
    if (status != KDA_OK) {
        cli_error_of(&err);
        return status == KDA_NO_SYMBOL ? CLI_SYMBOLS : CLI_INTERNAL;
    }
    kda_etw_session_clock(cli->kernel, session, &ret->clock);
    ret->rows = kda_etw_buffers_list(ret->buffers, &ret->row_count);
    ret->facts = calloc(ret->row_count ? ret->row_count : 1, sizeof(*ret->facts));
    int code = ret->facts ? CLI_DONE : CLI_INTERNAL;
    if (!ret->facts)
        cli_error("out of memory");
    for (size_t i = 0; i < ret->row_count && code == CLI_DONE; i++) {
        code = frame_row(ret, &ret->rows[i], &ret->facts[i]);
        ret->facts[i].packed = (uint32_t)ret->packed_size;
        set_times(ret, &ret->facts[i]);
    }
    if (code != CLI_DONE)
        trace_close(ret);
    return code;
}

void trace_close(struct trace *trace)
{
    kda_etw_buffers_free(trace->buffers);
    free(trace->facts);
    free(trace->packed);
    free(trace->parts);
    memset(trace, 0, sizeof(*trace));
}

static int by_time(const void *a, const void *b)
{
    const struct trace_part *x = a, *y = b;
    uint64_t s = x->facts->oldest, t = y->facts->oldest;
    if (s == t) {
        s = x->buffer->sequence;
        t = y->buffer->sequence;
    }
    if (s == t) {
        s = x->buffer->va;
        t = y->buffer->va;
    }
    return s < t ? -1 : s > t;
}

static bool is_wanted(struct trace *trace, size_t row, bool old)
{
    bool wanted = trace->facts[row].records > 0 && !trace->rows[row].copy;
    if (!wanted || old || !trace->rows[row].old)
        return wanted;
    trace->old_left_out++;
    return false;
}

/* Size of the file's buffers: the session's, unless these would take too much room. */
static void fit_into(struct trace *trace, uint32_t largest, bool compact, uint64_t *room)
{
    const struct kda_etw_session *s = trace->session;
    uint32_t least = (largest + KDA_BUFFER_HEADER + BUFFER_STEP - 1) / BUFFER_STEP * BUFFER_STEP;
    uint32_t size = KDA_ETW_HAS(s, S, BUFFER_SIZE) ? s->buffer_size : 0;
    if (compact || size < least || size % BUFFER_STEP != 0 || size > KDA_ETL_WRITE_MAX_BUFFER ||
        (uint64_t)size * (trace->part_count + 1) > *room)
        size = least;
    if ((uint64_t)size * (trace->part_count + 1) > *room) {
        size_t fits = (size_t)(*room / size);
        trace->part_count = fits > 0 ? fits - 1 : 0;
        kda_gaps_add(kda_kernel_gaps(trace->cli->kernel), "buffers", s->va, KDA_LIMIT,
                     "session %u: its buffers hold more than is taken; the latest were left out",
                     s->id);
    }
    uint64_t taken = (uint64_t)size * (trace->part_count + 1);
    *room -= taken < *room ? taken : *room;
    trace->file_buffer_size = size;
}

int trace_select(struct trace *trace, bool old, bool compact, uint64_t *room)
{
    uint32_t largest = 0;
    free(trace->parts);
    trace->parts = calloc(trace->row_count ? trace->row_count : 1, sizeof(*trace->parts));
    trace->part_count = 0;
    trace->records = trace->unwritten = trace->damaged = 0;
    trace->old_left_out = 0;
    if (!trace->parts) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    for (size_t i = 0; i < trace->row_count; i++) {
        if (!is_wanted(trace, i, old))
            continue;
        if (trace->facts[i].packed > largest)
            largest = trace->facts[i].packed;
        trace->parts[trace->part_count++] = (struct trace_part){&trace->rows[i], &trace->facts[i]};
    }
    qsort(trace->parts, trace->part_count, sizeof(*trace->parts), by_time);
    fit_into(trace, largest, compact, room);
    for (size_t i = 0; i < trace->part_count; i++) {
        trace->records += trace->parts[i].facts->records;
        trace->unwritten += trace->parts[i].facts->unwritten;
        trace->damaged += trace->parts[i].facts->damaged;
    }
    return CLI_DONE;
}

/* ---- the file ---- */

static void set_version(const struct cli *cli, struct kda_etl_write_options *o)
{
    uint32_t build = kda_kernel_info(cli->kernel)->build;
    o->os_build = build;
    o->os_major = build != 0 && build < 10000 ? 6 : 10;
    if (o->os_major == 6)
        o->os_minor = build < 7600 ? 0 : build < 9200 ? 1 : build < 9600 ? 2 : 3;
}

/* Counter and cycles start at boot; good to seconds, and nothing is computed from it. 0 = unknown.
 */
static uint64_t boot_time(const struct kda_etw_clock *c)
{
    if (c->type == KDA_ETL_CLOCK_SYSTEM || c->frequency == 0 || c->time_100ns == 0)
        return 0;
    uint64_t seconds = c->raw / c->frequency, rest = c->raw % c->frequency;
    double since = (double)seconds * 1e7 + (double)rest * 1e7 / (double)c->frequency;
    return since < (double)c->time_100ns ? c->time_100ns - (uint64_t)since : 0;
}

static void set_options(const struct trace *trace, struct kda_etl_write_options *o)
{
    const struct kda_etw_session *s = trace->session;
    const struct kda_kernel_info *info = kda_kernel_info(trace->cli->kernel);
    memset(o, 0, sizeof(*o));
    set_version(trace->cli, o);
    o->processors = info->cpus;
    for (size_t i = 0; i < trace->part_count; i++)
        if (trace->parts[i].buffer->cpu >= o->processors)
            o->processors = trace->parts[i].buffer->cpu + 1u;
    o->buffer_size = trace->file_buffer_size;
    o->buffers = (uint32_t)trace->part_count;
    o->mode = (s->mode & ~FILE_MODE_DROPPED) | FILE_MODE_SEQUENTIAL;
    o->logger_id = (uint16_t)s->id;
    o->clock = trace->clock.type;
    o->start_raw = trace->clock.raw;
    o->start_100ns = trace->clock.time_100ns;
    o->frequency = trace->clock.qpc_frequency;
    o->cpu_mhz = trace->clock.cpu_mhz;
    o->end_100ns = info->system_time_100ns;
    o->boot_100ns = boot_time(&trace->clock);
    o->timer_resolution = TIMER_RESOLUTION;
    o->events_lost = s->events_lost;
    o->buffers_lost = s->buffers_lost;
    o->session_name = s->name;
    o->file_name = s->log_file;
}

int trace_write(struct trace *trace, kda_etl_write_fn write, void *context)
{
    struct kda_etl_write_options options;
    struct kda_etl_writer *writer = NULL;
    struct kda_error err;
    set_options(trace, &options);
    enum kda_status status = kda_etl_writer_create(&options, write, context, &writer, &err);
    for (size_t i = 0; i < trace->part_count && status == KDA_OK; i++) {
        const struct trace_part *part = &trace->parts[i];
        struct kda_trace_facts again;
        int code = frame_row(trace, part->buffer, &again);
        if (code != CLI_DONE) {
            (void)!kda_etl_writer_close(writer, NULL);
            return code;
        }
        struct kda_etl_write_buffer buffer = {
            .cpu = part->buffer->cpu,
            .time = part->facts->has_time ? part->facts->newest : part->buffer->time,
            .flags = part->buffer->flags & (KDA_ETL_FLAG_EVENTS_LOST | KDA_ETL_FLAG_BUFFER_LOST),
            .records = trace->packed,
            .size = trace->packed_size,
        };
        status = kda_etl_writer_buffer(writer, &buffer, &err);
    }
    enum kda_status closed = kda_etl_writer_close(writer, status == KDA_OK ? &err : NULL);
    if (status == KDA_OK)
        status = closed;
    if (status == KDA_OK)
        return CLI_DONE;
    if (status != KDA_IO)
        cli_error_of(&err);
    return CLI_INTERNAL;
}
