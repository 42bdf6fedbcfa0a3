/*
 * rows_etl.c - rows about trace files: what a file says of itself, damage, counts.
 */
#include "writer.h"

#include <stdio.h>
#include <string.h>

#include "kda/etl.h"
#include "text.h"

#define REST_MAX 256
#define MODE_NAMES_MAX 40u

static const char *clock_name(enum kda_etl_clock_type type)
{
    return type == KDA_ETL_CLOCK_QPC      ? "qpc"
           : type == KDA_ETL_CLOCK_SYSTEM ? "system_time"
                                          : "cpu_cycles";
}

static const char *compression_name(uint32_t format)
{
    return format == KDA_ETL_COMPRESSION_LZNT1    ? "lznt1"
           : format == KDA_ETL_COMPRESSION_XPRESS ? "xpress"
                                                  : "xpress_huffman";
}

static void put_mode(struct kda_row *row, uint32_t mode)
{
    const char *names[MODE_NAMES_MAX];
    size_t count = kda_etw_mode_names(mode, names, MODE_NAMES_MAX);
    kda_put_hex(row, "mode", mode);
    kda_put_array(row, "mode_flags");
    for (size_t i = 0; i < count; i++)
        kda_put_text(row, NULL, names[i]);
    kda_put_end(row);
}

/* What only the first record tells. */
static void put_header(struct kda_row *row, const struct kda_etl_info *info, char version[32],
                       char layout[16])
{
    kda_put_text(row, "session", info->session_name);
    kda_put_text(row, "log_file", info->file_name);
    (void)snprintf(version, 32, "%u.%u.%u", info->os_major, info->os_minor, info->os_build);
    (void)snprintf(layout, 16, "%u.%u", info->layout_major, info->layout_minor);
    kda_put_text(row, "os_version", version);
    kda_put_uint(row, "pointer_size", info->pointer_size);
    kda_put_text(row, "layout", layout);
    kda_put_uint(row, "processors", info->processors);
    put_mode(row, info->mode);
    kda_put_text(row, "clock", clock_name(info->clock.type));
    if (info->clock_guessed)
        kda_put_bool(row, "clock_guessed", true);
    kda_put_uint(row, "frequency", info->clock.frequency);
    kda_put_time(row, "start_time", info->start_time);
    kda_put_time(row, "end_time", info->end_time);
    kda_put_time(row, "boot_time", info->boot_time);
    kda_put_bool(row, "unfinished", info->unfinished);
    if (info->wrapped)
        kda_put_bool(row, "wrapped", true);
    kda_put_uint(row, "buffer_size", info->buffer_size);
}

static void put_buffers(struct kda_row *row, const struct kda_etl_info *info)
{
    kda_put_uint(row, "buffers", info->buffers);
    if (info->has_header)
        kda_put_uint(row, "buffers_written", info->buffers_written);
    kda_put_uint(row, "used_bytes", info->used_bytes);
    if (info->tail_zeros)
        kda_put_uint(row, "tail_zeros", info->tail_zeros);
    if (info->compression) {
        kda_put_text(row, "compression", compression_name(info->compression));
        kda_put_uint(row, "compressed_buffers", info->compressed_buffers);
    }
    if (info->unread_buffers)
        kda_put_uint(row, "unread_buffers", info->unread_buffers);
    if (info->has_header) {
        kda_put_uint(row, "events_lost", info->events_lost);
        kda_put_uint(row, "buffers_lost", info->buffers_lost);
    }
    if (info->events_lost_buffers)
        kda_put_uint(row, "events_lost_buffers", info->events_lost_buffers);
    if (info->buffer_lost_buffers)
        kda_put_uint(row, "buffer_lost_buffers", info->buffer_lost_buffers);
    if (info->rtbackup_corrupt_buffers)
        kda_put_uint(row, "backup_corrupt_buffers", info->rtbackup_corrupt_buffers);
}

void kda_report_trace(struct kda_report *report, const char *file, const struct kda_etl *etl,
                      const struct kda_report_trace_totals *totals)
{
    const struct kda_etl_info *info = kda_etl_info(etl);
    char version[32], layout[16];
    struct kda_row *row = kda_report_row(report, KDA_ROW_TRACE);
    kda_put_text(row, "file", file);
    kda_put_uint(row, "size", info->file_size);
    if (info->has_header)
        put_header(row, info, version, layout);
    put_buffers(row, info);
    kda_put_uint(row, "records", totals->records);
    kda_put_time(row, "first_time", totals->first_time);
    kda_put_time(row, "last_time", totals->last_time);
    kda_put_uint(row, "sessions", kda_etl_session_count(etl));
    kda_put_uint(row, "cpus", kda_etl_cpu_count(etl));
    kda_put_uint(row, "damages", kda_etl_damage_count(etl));
    kda_report_emit(report);
}

void kda_report_trace_sessions(struct kda_report *report, const char *file,
                               const struct kda_etl *etl)
{
    for (size_t i = 0; i < kda_etl_session_count(etl); i++) {
        const struct kda_etl_session *session = kda_etl_session_at(etl, i);
        struct kda_row *row = kda_report_row(report, KDA_ROW_TRACE_SESSION);
        kda_put_text(row, "file", file);
        kda_put_uint(row, "logger_id", session->logger_id);
        kda_put_uint(row, "first_buffer", session->first_buffer);
        kda_put_uint(row, "buffers", session->buffers);
        kda_put_uint(row, "first_sequence", session->first_sequence);
        kda_put_uint(row, "last_sequence", session->last_sequence);
        kda_put_bool(row, "closed", session->closed);
        kda_report_emit(report);
    }
}

void kda_report_trace_cpus(struct kda_report *report, const char *file, const struct kda_etl *etl)
{
    for (size_t i = 0; i < kda_etl_cpu_count(etl); i++) {
        const struct kda_etl_cpu *cpu = kda_etl_cpu_at(etl, i);
        struct kda_row *row = kda_report_row(report, KDA_ROW_TRACE_CPU);
        kda_put_text(row, "file", file);
        if (cpu->cpu != KDA_ETL_CPU_UNKNOWN)
            kda_put_uint(row, "cpu", cpu->cpu);
        kda_put_uint(row, "buffers", cpu->buffers);
        kda_put_uint(row, "used_bytes", cpu->used_bytes);
        kda_report_emit(report);
    }
}

void kda_report_trace_damages(struct kda_report *report, const char *file,
                              const struct kda_etl *etl)
{
    const struct kda_etl_damage *damage;
    for (size_t i = 0; (damage = kda_etl_damage_at(etl, i)) != NULL; i++) {
        struct kda_row *row = kda_report_row(report, KDA_ROW_TRACE_DAMAGE);
        kda_put_text(row, "file", file);
        kda_put_text(row, "damage", kda_etl_damage_name(damage->kind));
        kda_put_hex(row, "offset", damage->off);
        kda_put_uint(row, "bytes", damage->bytes);
        kda_put_bool(row, "lost", damage->lost);
        kda_put_text(row, "why", damage->why);
        kda_report_emit(report);
    }
}

/* "op0 lvl4 fl1 pr0 ext[12,11]" */
static void rest_of(const struct kda_etl_count *count, char out[REST_MAX])
{
    int at = snprintf(out, REST_MAX, "op%u lvl%u fl%u pr%u", count->opcode, count->level,
                      count->flags, count->property);
    for (size_t i = 0; i < count->ext_count; i++) {
        at += snprintf(out + at, REST_MAX - (size_t)at, "%s%u", i ? "," : " ext[",
                       count->ext[i].type);
        if (count->ext[i].size)
            at += snprintf(out + at, REST_MAX - (size_t)at, ":%u", count->ext[i].size);
    }
    if (count->ext_count)
        (void)snprintf(out + at, REST_MAX - (size_t)at, "%s]", count->more_ext ? ",..." : "");
}

void kda_report_trace_count(struct kda_report *report, const char *file,
                            const struct kda_etl_count *count)
{
    char source[KDA_GUID_TEXT], event[16], version[16], rest[REST_MAX];
    struct kda_row *row = kda_report_row(report, KDA_ROW_TRACE_COUNT);
    bool system = count->shape == KDA_ETL_SHAPE_SYSTEM;
    bool has_id = count->shape == KDA_ETL_SHAPE_EVENT || count->shape == KDA_ETL_SHAPE_MESSAGE;
    kda_put_text(row, "file", file);
    kda_put_uint(row, "count", count->count);
    kda_put_text(row, "header", count->others ? "OTHERS" : kda_etl_header_name(count->header));
    if (system)
        (void)snprintf(source, sizeof(source), "g%02x", count->group);
    else if (count->has_guid) /* without braces, as the table of counts has it */
        kda_guid_text(count->guid, source);
    else
        (void)snprintf(source, sizeof(source), "c%u", count->component);
    size_t size = strlen(source);
    bool braces = source[0] == '{';
    if (count->shape != KDA_ETL_SHAPE_NONE) {
        kda_put_text_n(row, "group_or_provider", source + braces, size - 2 * braces);
        (void)snprintf(event, sizeof(event), has_id ? "id%u" : "t%u",
                       has_id ? count->id : count->type);
        (void)snprintf(version, sizeof(version), "v%u", count->version);
        kda_put_text(row, "type_or_id", event);
        kda_put_text(row, "version", version);
    }
    if (count->shape == KDA_ETL_SHAPE_EVENT) {
        rest_of(count, rest);
        kda_put_text(row, "rest", rest);
    }
    kda_report_emit(report);
}

void kda_report_trace_total(struct kda_report *report, const char *file, uint64_t records)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_TRACE_COUNT);
    kda_put_text(row, "file", file);
    kda_put_uint(row, "count", records);
    kda_put_text(row, "header", "TOTAL");
    kda_report_emit(report);
}
