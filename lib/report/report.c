/*
 * report.c - the table of output formats, the buffered sink, and the way of a row through grep
 * and limit to the writer.
 */
#include "writer.h"

#include <string.h>

#include "alloc.h"

static const struct kda_report_ops *const formats[] = {
    &kda_report_text, &kda_report_csv, &kda_report_tsv, &kda_report_json, &kda_report_jsonl,
};
#define FORMAT_COUNT (sizeof(formats) / sizeof(formats[0]))

const char *kda_row_kind_name(enum kda_row_kind kind)
{
    return (unsigned)kind < KDA_ROW_KINDS ? kda_row_table_of(kind)->name : "unknown";
}

const struct kda_report_format *kda_report_format_at(size_t index)
{
    return index < FORMAT_COUNT ? &formats[index]->format : NULL;
}

enum kda_status kda_report_open(const struct kda_report_options *options, kda_write_fn write,
                                void *context, struct kda_report **ret, struct kda_error *err)
{
    const char *name = options->format ? options->format : "text";
    const struct kda_report_ops *ops = NULL;
    for (size_t i = 0; i < FORMAT_COUNT; i++)
        if (strcmp(formats[i]->format.name, name) == 0)
            ops = formats[i];
    if (!ops)
        return kda_fail(err, KDA_USAGE, "report", "no output format is named '%s'", name);
    struct kda_report *report = kda_calloc(1, sizeof(*report));
    if (!report)
        return kda_fail(err, KDA_NO_MEMORY, "report", "out of memory for the report");
    report->ops = ops;
    report->options = *options;
    report->write = write;
    report->context = context;
    report->ops->begin(report);
    *ret = report;
    return KDA_OK;
}

static void flush(struct kda_report *report)
{
    if (report->status == KDA_OK && report->used > 0 &&
        !report->write(report->context, report->buffer, report->used))
        report->status = KDA_IO;
    report->used = 0;
}

enum kda_status kda_report_close(struct kda_report *report, struct kda_error *err)
{
    if (!report)
        return KDA_OK;
    report->ops->end(report);
    flush(report);
    enum kda_status status = report->status;
    kda_row_deinit(&report->row);
    kda_free(report);
    if (status == KDA_IO)
        return kda_fail(err, status, "report", "the output could not be written");
    if (status == KDA_USAGE)
        return kda_fail(err, status, "report",
                        "csv and tsv hold one kind of row in a table, and there are several");
    if (status != KDA_OK)
        return kda_fail(err, status, "report", "out of memory while writing the report");
    return KDA_OK;
}

void kda_report_flush(struct kda_report *report)
{
    if (report->ops->flush)
        report->ops->flush(report);
    flush(report);
}

void kda_report_fail(struct kda_report *report, enum kda_status status)
{
    if (report->status == KDA_OK)
        report->status = status;
}

bool kda_report_failed(const struct kda_report *report)
{
    return report->status != KDA_OK;
}

uint64_t kda_report_skipped(const struct kda_report *report)
{
    return report->skipped;
}

void kda_out(struct kda_report *report, const char *bytes, size_t size)
{
    while (size > 0 && report->status == KDA_OK) {
        size_t room = sizeof(report->buffer) - report->used;
        size_t part = size < room ? size : room;
        memcpy(report->buffer + report->used, bytes, part);
        report->used += part;
        bytes += part;
        size -= part;
        if (report->used == sizeof(report->buffer))
            flush(report);
    }
}

void kda_out_text(struct kda_report *report, const char *text)
{
    kda_out(report, text, strlen(text));
}

void kda_out_repeat(struct kda_report *report, char c, size_t count)
{
    while (count-- > 0)
        kda_out(report, &c, 1);
}

struct kda_row *kda_report_row(struct kda_report *report, enum kda_row_kind kind)
{
    kda_row_begin(&report->row, kind);
    kda_put_text(&report->row, "row", kda_row_table_of(kind)->name);
    report->row.fitted = report->options.fitted;
    return &report->row;
}

bool kda_report_wants(struct kda_report *report)
{
    if (report->row.failed)
        kda_report_fail(report, KDA_NO_MEMORY);
    return !report->row.failed &&
           (!report->options.grep || kda_row_contains(&report->row, report->options.grep));
}

bool kda_report_admit(struct kda_report *report, enum kda_row_kind kind)
{
    uint64_t limit = kind == KDA_ROW_GAP ? 0 : report->options.limit;
    if (limit && report->counts[kind] >= limit) {
        report->skipped++;
        return false;
    }
    report->counts[kind]++;
    return true;
}

void kda_report_emit(struct kda_report *report)
{
    const struct kda_row *row = &report->row;
    bool wanted = kda_report_wants(report);
    if (report->status != KDA_OK)
        return;
    /* What is missing is never filtered away: an answer that looks complete would be a lie. */
    if (row->kind != KDA_ROW_GAP && !wanted)
        return;
    if (!kda_report_admit(report, row->kind))
        return;
    report->ops->row(report, row);
    report->started = true;
    report->last = row->kind;
}
