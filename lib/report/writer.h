/*
 * writer.h - what the writers of lib/report share: the buffered sink, escaping, column tables.
 */
#ifndef KDA_REPORT_WRITER_H
#define KDA_REPORT_WRITER_H

#include "kda/report.h"
#include "keys.h"
#include "ops.h"
#include "row.h"

struct kda_table;

struct kda_report {
    const struct kda_report_ops *ops;
    struct kda_report_options options;
    kda_write_fn write;
    void *context;
    enum kda_status status; /* first failure; sticks */
    struct kda_row row;     /* reused by every row */
    uint64_t counts[KDA_ROW_KINDS];
    uint64_t skipped;
    struct kda_columns columns;             /* csv and text: of the kind below */
    const struct kda_row_table *columns_of; /* NULL: of none yet */
    struct kda_table *table;                /* text writer: rows waiting for their column widths */
    bool started;                           /* a row, or its heading, was written */
    bool in_gaps;                           /* json writer: the second array is open */
    enum kda_row_kind last;                 /* kind of the row before, valid if started */
    size_t used;
    char buffer[16384];
};

/* ---- sink ---- */
void kda_out(struct kda_report *report, const char *bytes, size_t size);
void kda_out_text(struct kda_report *report, const char *text);
void kda_out_repeat(struct kda_report *report, char c, size_t count);
void kda_report_fail(struct kda_report *report, enum kda_status status);

/* ---- text on a terminal ---- */

/* Growing bytes, for cells and lines. */
struct kda_text {
    char *bytes; /* NUL-terminated once anything was added */
    size_t size, capacity;
    bool failed;
};
void kda_text_deinit(struct kda_text *text);
void kda_text_add(struct kda_text *text, const char *bytes, size_t size);
void kda_text_adds(struct kda_text *text, const char *string);
void kda_text_addf(struct kda_text *text, const char *fmt, ...) KDA_PRINTF(2, 3);
/* Adds `bytes` with everything that could move a cursor or hide a character made visible. */
void kda_text_add_escaped(struct kda_text *text, const char *bytes, size_t size);

/* One character of escaped text: its bytes and how many terminal columns it takes. */
size_t kda_next_char(const char *text, size_t left, unsigned *columns);
size_t kda_columns(const char *text, size_t size);

/* SGR sequences; empty without colour. */
enum kda_style { KDA_STYLE_NONE, KDA_STYLE_HEAD, KDA_STYLE_NAME, KDA_STYLE_DIM, KDA_STYLE_WARN };
/* Writes one line of `text`, cut with an ellipsis to the terminal's width. */
void kda_out_line(struct kda_report *report, const char *text, size_t size, enum kda_style style);

/* ---- tables of keys, cells ---- */

#define K(ID, name) extern const struct kda_row_table kda_rows_##name;
KDA_ROW_KIND_LIST(K)
#undef K

const struct kda_row_table *kda_row_table_of(enum kda_row_kind kind);
/* The columns of a kind; borrowed until those of another are asked for. */
const struct kda_columns *kda_report_columns(struct kda_report *report, enum kda_row_kind kind);
/* Text of a cell: scalars as they are, arrays joined. `for_text` picks template and separator. */
void kda_cell(const struct kda_row *row, const struct kda_key *column, bool for_text,
              struct kda_text *out);
/* One item of an array. */
void kda_cell_item(const struct kda_row *row, const struct kda_token *item,
                   const struct kda_key *column, bool for_text, struct kda_text *out);

/* ---- rows ---- */

/* Starts the report's row; kda_report_emit applies grep and limit and writes it. */
struct kda_row *kda_report_row(struct kda_report *report, enum kda_row_kind kind);
void kda_report_emit(struct kda_report *report);
/* After kda_report_wants: counts the row, or counts it as kept back by the limit. */
bool kda_report_admit(struct kda_report *report, enum kda_row_kind kind);
/* Does grep let the row through? Fails the report if the row could not be built. */
bool kda_report_wants(struct kda_report *report);

/* Builders, apart from their emitters so that the map view can ask grep about an object. */
void kda_build_session(struct kda_row *row, const struct kda_etw_session *session);
void kda_build_provider(struct kda_row *row, const struct kda_etw_provider *provider);

extern const struct kda_report_ops kda_report_text, kda_report_csv, kda_report_tsv, kda_report_json,
    kda_report_jsonl;

#endif
