/*
 * table.c - text for people: one table per row kind, widths taken from the rows, numbers to the
 * right, wide names last. Rows wait here until their kind ends, because a column is as wide as its
 * widest cell.
 */
#include "writer.h"

#include <string.h>

#include "alloc.h"

/* A cell wider than this sticks out instead of pushing every other row to the right, so that one
 * hostile name costs one ugly line and no memory. */
#define PAD_MAX 48u
/* Rows of a streaming kind (events) go out in blocks, each as wide as the widest so far. */
#define STREAM_ROWS 256u

struct kda_table {
    struct kda_text cells; /* NUL-terminated cells, row by row */
    size_t rows;
    bool headed; /* the heading of a streaming kind is written */
    enum kda_row_kind kind;
    size_t width[KDA_COLUMNS_MAX];
    bool any[KDA_COLUMNS_MAX];     /* a cell with text */
    bool foreign[KDA_COLUMNS_MAX]; /* a cell that is not "host" */
};

static bool is_stream(enum kda_row_kind kind)
{
    return (kda_row_table_of(kind)->flags & KDA_KIND_STREAM) != 0;
}

static bool shown(const struct kda_report *report, const struct kda_key *column, size_t i)
{
    const struct kda_table *table = report->table;
    if (!column->heading)
        return false;
    if ((column->flags & KDA_COLUMN_VERBOSE) && !report->options.verbose)
        return false;
    if ((column->flags & KDA_COLUMN_HIDE_HOST) && !table->foreign[i])
        return false;
    return table->any[i] || !(column->flags & KDA_COLUMN_OPTIONAL);
}

static void pad(struct kda_text *line, size_t from, size_t to)
{
    for (; from < to; from++)
        kda_text_add(line, " ", 1);
}

static void add_cell(struct kda_text *line, const char *cell, size_t width, bool right, bool first)
{
    size_t columns = kda_columns(cell, strlen(cell));
    if (!first)
        kda_text_adds(line, "  ");
    if (right)
        pad(line, columns, width);
    kda_text_adds(line, cell);
    if (!right)
        pad(line, columns, width);
}

static void put_lines(struct kda_report *report, const struct kda_columns *columns)
{
    struct kda_table *table = report->table;
    struct kda_text line = {0};
    const char *cell = table->cells.bytes;
    for (size_t r = table->headed ? 1 : 0; r <= table->rows; r++) {
        bool first = true;
        line.size = 0;
        for (size_t i = 0; i < columns->count; i++) {
            const struct kda_key *column = columns->items[i];
            const char *text = r == 0 ? column->heading : cell;
            if (r > 0)
                cell += strlen(cell) + 1;
            if (!shown(report, column, i))
                continue;
            add_cell(&line, text, table->width[i], (column->flags & KDA_COLUMN_RIGHT) != 0, first);
            first = false;
        }
        kda_out_line(report, line.bytes ? line.bytes : "", line.size,
                     r == 0 ? KDA_STYLE_HEAD : KDA_STYLE_NONE);
    }
    if (line.failed)
        kda_report_fail(report, KDA_NO_MEMORY);
    kda_text_deinit(&line);
}

static void flush_table(struct kda_report *report)
{
    struct kda_table *table = report->table;
    if (!table || table->rows == 0)
        return;
    const struct kda_columns *columns = kda_report_columns(report, table->kind);
    for (size_t i = 0; i < columns->count; i++) {
        const char *heading = columns->items[i]->heading;
        size_t width = heading ? kda_columns(heading, strlen(heading)) : 0;
        if (table->width[i] < width)
            table->width[i] = width;
    }
    if (table->cells.failed)
        kda_report_fail(report, KDA_NO_MEMORY);
    else
        put_lines(report, columns);
    table->cells.size = 0;
    table->rows = 0;
    table->headed = is_stream(table->kind);
    if (table->headed)
        return;
    memset(table->width, 0, sizeof(table->width));
    memset(table->any, 0, sizeof(table->any));
    memset(table->foreign, 0, sizeof(table->foreign));
}

#define NAME_WIDTH 19u

static void put_named(struct kda_report *report, const char *name, struct kda_text *value)
{
    struct kda_text line = {0};
    add_cell(&line, name, NAME_WIDTH, false, true);
    kda_text_adds(&line, " ");
    kda_text_add(&line, value->bytes ? value->bytes : "", value->size);
    /* Never cut: these lines hold the paths and reasons that the reader has to act on. */
    kda_out(report, line.bytes ? line.bytes : "", line.size);
    kda_out(report, "\n", 1);
    if (line.failed || value->failed)
        kda_report_fail(report, KDA_NO_MEMORY);
    kda_text_deinit(&line);
    value->size = 0;
}

/* "Name   value" lines. */
static void put_vertical(struct kda_report *report, const struct kda_row *row)
{
    const struct kda_columns *columns = kda_report_columns(report, row->kind);
    struct kda_text value = {0};
    for (size_t i = 0; i < columns->count; i++) {
        const struct kda_key *column = columns->items[i];
        const struct kda_token *token = kda_row_find(row, column->path);
        /* A total is shown behind the count it belongs to. */
        if (!token || !column->heading || (column->flags & KDA_COLUMN_TOTAL) ||
            ((column->flags & KDA_COLUMN_VERBOSE) && !report->options.verbose))
            continue;
        if (token->type == KDA_TOKEN_ARRAY && (column->flags & KDA_COLUMN_LINES)) {
            const char *name = column->heading;
            const struct kda_token *item = token + 1;
            for (; item->type != KDA_TOKEN_END; item = kda_token_next(row, item), name = "") {
                kda_cell_item(row, item, column, true, &value);
                put_named(report, name, &value);
            }
            continue;
        }
        kda_cell(row, column, true, &value);
        if (i + 1 < columns->count && (columns->items[i + 1]->flags & KDA_COLUMN_TOTAL)) {
            kda_text_adds(&value, " of ");
            kda_cell(row, columns->items[i + 1], true, &value);
        }
        put_named(report, column->heading, &value);
    }
    kda_text_deinit(&value);
}

static void keep_row(struct kda_report *report, const struct kda_row *row)
{
    struct kda_table *table = report->table;
    const struct kda_columns *columns = kda_report_columns(report, row->kind);
    struct kda_text *cells = &table->cells;
    for (size_t i = 0; i < columns->count; i++) {
        const struct kda_key *column = columns->items[i];
        size_t start = cells->size;
        if (column->heading)
            kda_cell(row, column, true, cells);
        size_t size = cells->size - start;
        const char *cell = size ? cells->bytes + start : "";
        size_t width = kda_columns(cell, size);
        if (width > PAD_MAX)
            width = PAD_MAX;
        if (table->width[i] < width)
            table->width[i] = width;
        table->any[i] |= size > 0;
        table->foreign[i] |= size > 0 && !(size == 4 && memcmp(cell, "host", 4) == 0);
        kda_text_add(cells, "", 1); /* the NUL that ends the cell */
    }
    table->rows++;
}

static void begin_text(struct kda_report *report)
{
    report->table = kda_calloc(1, sizeof(*report->table));
    if (!report->table)
        kda_report_fail(report, KDA_NO_MEMORY);
}

static void row_text(struct kda_report *report, const struct kda_row *row)
{
    struct kda_table *table = report->table;
    if (report->started && report->last != row->kind) {
        flush_table(report);
        memset(table->width, 0, sizeof(table->width));
        memset(table->any, 0, sizeof(table->any));
        memset(table->foreign, 0, sizeof(table->foreign));
        table->headed = false;
        kda_out(report, "\n", 1);
    }
    if (kda_row_table_of(row->kind)->flags & KDA_KIND_VERTICAL) {
        put_vertical(report, row);
        return;
    }
    table->kind = row->kind;
    keep_row(report, row);
    if (is_stream(row->kind) && table->rows >= STREAM_ROWS)
        flush_table(report);
}

static void flush_text(struct kda_report *report)
{
    if (report->table && report->table->rows > 0 && is_stream(report->table->kind))
        flush_table(report);
}

static void end_text(struct kda_report *report)
{
    flush_table(report);
    if (report->table)
        kda_text_deinit(&report->table->cells);
    kda_free(report->table);
    report->table = NULL;
}

const struct kda_report_ops kda_report_text = {
    .format = {"text", "tables and views for people"},
    .begin = begin_text,
    .row = row_text,
    .end = end_text,
    .flush = flush_text,
};
