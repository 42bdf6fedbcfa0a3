/*
 * csv.c - csv and tsv: one table, of one kind of row. csv is RFC 4180 with a heading line. Text
 * cells that a spreadsheet would run as a formula get a leading apostrophe; control characters are
 * shown as \x1b, so a record is always one line. tsv is the same without quotes: no cell holds a
 * tab or a line end. A report of several kinds is a table each: options.table is told when the rows
 * of another kind follow.
 */
#include "writer.h"

#include <string.h>

static bool is_tsv(const struct kda_report *report)
{
    return report->ops == &kda_report_tsv;
}

static void put_separator(struct kda_report *report)
{
    kda_out(report, is_tsv(report) ? "\t" : ",", 1);
}

static void end_line(struct kda_report *report)
{
    kda_out_text(report, is_tsv(report) ? "\n" : "\r\n");
}

static void put_field(struct kda_report *report, const char *text, size_t size, bool is_text)
{
    /* Numbers may start with '-': only what came from memory as text can be a formula. */
    bool formula = is_text && size > 0 && strchr("=+-@", text[0]) != NULL;
    bool quote = false;
    for (size_t i = 0; i < size && !quote && !is_tsv(report); i++)
        quote = text[i] == ',' || text[i] == '"' || text[i] == '\n' || text[i] == '\r';
    if (quote)
        kda_out(report, "\"", 1);
    if (formula)
        kda_out(report, "'", 1);
    for (size_t i = 0; i < size;) {
        const char *inner = quote ? memchr(text + i, '"', size - i) : NULL;
        size_t run = inner ? (size_t)(inner - text) + 1 - i : size - i;
        kda_out(report, text + i, run);
        if (inner)
            kda_out(report, "\"", 1);
        i += run;
    }
    if (quote)
        kda_out(report, "\"", 1);
}

static void put_heading(struct kda_report *report, const struct kda_columns *columns)
{
    bool first = true;
    for (size_t i = 0; i < columns->count; i++) {
        if (columns->items[i]->flags & KDA_COLUMN_TEXT_ONLY)
            continue;
        if (!first)
            put_separator(report);
        first = false;
        kda_out_text(report, columns->items[i]->path);
    }
    end_line(report);
}

/* Rows of another kind than before: they stand in a table of their own. */
static bool begin_kind(struct kda_report *report, enum kda_row_kind kind)
{
    if (report->options.table) {
        kda_report_flush(report);
        if (!report->options.table(report->context, kda_row_kind_name(kind)))
            kda_report_fail(report, KDA_IO);
    } else if (report->started) {
        kda_report_fail(report, KDA_USAGE);
    }
    return !kda_report_failed(report);
}

static void row_csv(struct kda_report *report, const struct kda_row *row)
{
    const struct kda_columns *columns = kda_report_columns(report, row->kind);
    struct kda_text cell = {0};
    bool first = true;
    if ((!report->started || report->last != row->kind) && !begin_kind(report, row->kind))
        return;
    if (report->counts[row->kind] == 1)
        put_heading(report, columns);
    for (size_t i = 0; i < columns->count; i++) {
        const struct kda_key *column = columns->items[i];
        if (column->flags & KDA_COLUMN_TEXT_ONLY)
            continue;
        if (!first)
            put_separator(report);
        first = false;
        cell.size = 0;
        const struct kda_token *token = kda_row_find(row, column->path);
        if (!token)
            continue;
        kda_cell(row, column, false, &cell);
        bool is_number = token->type == KDA_TOKEN_INT || token->type == KDA_TOKEN_UINT;
        put_field(report, cell.bytes, cell.size, !is_number);
    }
    end_line(report);
    if (cell.failed)
        kda_report_fail(report, KDA_NO_MEMORY);
    kda_text_deinit(&cell);
}

static void nothing(struct kda_report *report)
{
    (void)report;
}

const struct kda_report_ops kda_report_csv = {
    .format = {"csv", "RFC 4180 with a heading line; nested lists joined into one cell"},
    .begin = nothing,
    .row = row_csv,
    .end = nothing,
};

const struct kda_report_ops kda_report_tsv = {
    .format = {"tsv", "like csv with tabs and without quotes"},
    .begin = nothing,
    .row = row_csv,
    .end = nothing,
};
