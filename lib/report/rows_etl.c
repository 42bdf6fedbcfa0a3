/*
 * rows_etl.c - rows about trace files: what the lines of keys_etl.h need.
 */
#include "writer.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

#define NUMBERS_TEXT 40u
#define REST_TEXT 256u
_Static_assert(KDA_GUID_TEXT + 2 * NUMBERS_TEXT + REST_TEXT <= KDA_ROW_ROOM, "texts of a row");

struct trace_row {
    const char *file;
    const struct kda_etl *etl;
    const struct kda_etl_info *info;
    const struct kda_report_trace_totals *totals;
};

struct trace_session_row {
    const char *file;
    const struct kda_etl_session *at;
};

struct trace_cpu_row {
    const char *file;
    const struct kda_etl_cpu *at;
};

struct trace_damage_row {
    const char *file;
    const struct kda_etl_damage *at;
};

struct trace_count_row {
    const char *file, *header;
    uint64_t records;
    const struct kda_etl_count *at;
    bool named; /* the records have a source, a type and a version */
};

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

static const char *os_version(const struct kda_etl_info *info, char out[NUMBERS_TEXT])
{
    (void)snprintf(out, NUMBERS_TEXT, "%u.%u.%u", info->os_major, info->os_minor, info->os_build);
    return out;
}

static const char *file_layout(const struct kda_etl_info *info, char out[NUMBERS_TEXT])
{
    (void)snprintf(out, NUMBERS_TEXT, "%u.%u", info->layout_major, info->layout_minor);
    return out;
}

/* A GUID has no braces here, as the table of counts has it. */
static const char *source_text(const struct kda_etl_count *count, char out[KDA_GUID_TEXT])
{
    if (count->shape == KDA_ETL_SHAPE_SYSTEM) {
        (void)snprintf(out, KDA_GUID_TEXT, "g%02x", count->group);
    } else if (count->has_guid) {
        kda_guid_text(count->guid, out);
        out[strlen(out) - 1] = '\0';
        return out + 1;
    } else {
        (void)snprintf(out, KDA_GUID_TEXT, "c%u", count->component);
    }
    return out;
}

static const char *event_text(const struct kda_etl_count *count, char out[NUMBERS_TEXT])
{
    bool has_id = count->shape == KDA_ETL_SHAPE_EVENT || count->shape == KDA_ETL_SHAPE_MESSAGE;
    (void)snprintf(out, NUMBERS_TEXT, has_id ? "id%u" : "t%u", has_id ? count->id : count->type);
    return out;
}

static const char *version_text(const struct kda_etl_count *count, char out[NUMBERS_TEXT])
{
    (void)snprintf(out, NUMBERS_TEXT, "v%u", count->version);
    return out;
}

/* "op0 lvl4 fl1 pr0 ext[12,11]" */
static const char *rest_text(const struct kda_etl_count *count, char out[REST_TEXT])
{
    int at = snprintf(out, REST_TEXT, "op%u lvl%u fl%u pr%u", count->opcode, count->level,
                      count->flags, count->property);
    for (size_t i = 0; i < count->ext_count; i++) {
        at += snprintf(out + at, REST_TEXT - (size_t)at, "%s%u", i ? "," : " ext[",
                       count->ext[i].type);
        if (count->ext[i].size)
            at += snprintf(out + at, REST_TEXT - (size_t)at, ":%u", count->ext[i].size);
    }
    if (count->ext_count)
        (void)snprintf(out + at, REST_TEXT - (size_t)at, "%s]", count->more_ext ? ",..." : "");
    return out;
}

#include "keys_build.h"

#include "keys_etl.h"

#include "keys_table.h"

#include "keys_etl.h"

void kda_report_trace(struct kda_report *report, const char *file, const struct kda_etl *etl,
                      const struct kda_report_trace_totals *totals)
{
    const struct trace_row trace = {file, etl, kda_etl_info(etl), totals};
    emit_trace(report, &trace);
}

void kda_report_trace_sessions(struct kda_report *report, const char *file,
                               const struct kda_etl *etl)
{
    for (size_t i = 0; i < kda_etl_session_count(etl); i++) {
        const struct trace_session_row session = {file, kda_etl_session_at(etl, i)};
        emit_trace_session(report, &session);
    }
}

void kda_report_trace_cpus(struct kda_report *report, const char *file, const struct kda_etl *etl)
{
    for (size_t i = 0; i < kda_etl_cpu_count(etl); i++) {
        const struct trace_cpu_row cpu = {file, kda_etl_cpu_at(etl, i)};
        emit_trace_cpu(report, &cpu);
    }
}

void kda_report_trace_damages(struct kda_report *report, const char *file,
                              const struct kda_etl *etl)
{
    struct trace_damage_row damage = {file, NULL};
    for (size_t i = 0; (damage.at = kda_etl_damage_at(etl, i)) != NULL; i++) {
        emit_trace_damage(report, &damage);
    }
}

void kda_report_trace_count(struct kda_report *report, const char *file,
                            const struct kda_etl_count *count)
{
    const struct trace_count_row all = {
        .file = file,
        .records = count->count,
        .header = count->others ? "OTHERS" : kda_etl_header_name(count->header),
        .at = count,
        .named = count->shape != KDA_ETL_SHAPE_NONE,
    };
    emit_trace_count(report, &all);
}

void kda_report_trace_total(struct kda_report *report, const char *file, uint64_t records)
{
    const struct trace_count_row all = {.file = file, .records = records, .header = "TOTAL"};
    emit_trace_count(report, &all);
}
