/*
 * header.c - the first record of a file: TRACE_LOGFILE_HEADER.
 *
 * Source: evntrace.h, and the layout that files of Windows 7 to 11 show: the two name pointers
 * shift what follows, and the four bytes behind the time zone are there in both widths.
 */
#include "internal.h"

#include <string.h>

#include "alloc.h"
#include "bytes.h"
#include "text.h"

#define FIXED 264u     /* bytes before the strings, without the two pointers */
#define MAX_NAME 1024u /* UTF-16 units of a name that are read */
#define PER_SECOND 10000000u
#define MHZ 1000000u

/* UTF-16 text at the cursor up to its NUL or the end; NULL when memory ran out. */
static char *take_name(struct kda_cursor *c)
{
    size_t most = kda_cursor_left(c) / 2, units = 0;
    const uint8_t *text = c->base + c->pos;
    while (units < most && kda_le16(text + 2 * units) != 0)
        units++;
    c->pos += 2 * (units < most ? units + 1 : units);
    if (units > MAX_NAME)
        units = MAX_NAME;
    char *name = kda_calloc(KDA_UTF8_MAX(units) + 1, 1);
    if (name)
        (void)kda_utf16_to_utf8(text, units, true, name, KDA_UTF8_MAX(units) + 1);
    return name;
}

static void set_clock(struct kda_etl_info *info, uint64_t raw, uint64_t frequency)
{
    info->clock.raw = raw;
    info->clock.filetime = info->start_time;
    info->clock.type = (enum kda_etl_clock_type)info->clock_field;
    info->clock.frequency = frequency;
    info->clock_guessed = false;
    switch (info->clock_field) {
    case KDA_ETL_CLOCK_QPC:
        break;
    case KDA_ETL_CLOCK_SYSTEM:
        info->clock.frequency = PER_SECOND;
        return;
    case KDA_ETL_CLOCK_CYCLES:
        info->clock.frequency = (uint64_t)info->cpu_mhz * MHZ;
        break;
    default:
        info->clock.type = KDA_ETL_CLOCK_QPC;
        info->clock_guessed = true;
        break;
    }
    if (info->clock.frequency == 0) {
        info->clock.frequency = PER_SECOND;
        info->clock_guessed = true;
    }
}

/* The part of fixed size; the cursor stands behind it then. */
static void take_fixed(struct kda_cursor *c, const struct kda_etl_record *record,
                       struct kda_etl_info *info)
{
    info->has_header = true;
    info->pointer_size = record->pointer_size;
    info->buffer_size = kda_take32(c);
    info->os_major = kda_take8(c);
    info->os_minor = kda_take8(c);
    info->layout_major = kda_take8(c);
    info->layout_minor = kda_take8(c);
    info->os_build = kda_take32(c);
    info->processors = kda_take32(c);
    info->end_time = kda_take64(c);
    info->timer_resolution = kda_take32(c);
    info->max_file_mib = kda_take32(c);
    info->mode = kda_take32(c);
    info->buffers_written = kda_take32(c);
    (void)kda_take(c, 8); /* StartBuffers, PointerSize: the header type says it too */
    info->events_lost = kda_take32(c);
    info->cpu_mhz = kda_take32(c);
    (void)kda_take(c, 2u * record->pointer_size); /* no pointers in a file, and of no use */
    info->bias_minutes = (int32_t)kda_take32(c);
    (void)kda_take(c, 172); /* rest of the time zone, four bytes of padding */
    info->boot_time = kda_take64(c);
    uint64_t frequency = kda_take64(c);
    info->start_time = kda_take64(c);
    info->clock_field = kda_take32(c);
    info->buffers_lost = kda_take32(c);
    info->unfinished = info->end_time == 0;
    set_clock(info, record->raw_time, frequency);
}

enum kda_status kda_etl_header_read(const uint8_t *p, size_t left, struct kda_etl_info *info,
                                    char **session_name, char **file_name, bool *found,
                                    struct kda_error *err)
{
    struct kda_etl_record record;
    uint32_t size = kda_etl_record_size(p, left);
    *found = false;
    if (size == 0 || (p[2] != KDA_ETL_SYSTEM32 && p[2] != KDA_ETL_SYSTEM64))
        return KDA_OK;
    kda_etl_record_fill(p, size, &record);
    if (record.group != 0 || record.type != 0 ||
        record.payload_size < FIXED + 2u * record.pointer_size)
        return KDA_OK;
    struct kda_cursor c = kda_cursor_make(record.payload, record.payload_size);
    take_fixed(&c, &record, info);
    char *session = take_name(&c);
    char *file = take_name(&c);
    if (!session || !file) {
        kda_free(session);
        kda_free(file);
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory reading the file's header");
    }
    *session_name = session;
    *file_name = file;
    *found = true;
    return KDA_OK;
}
