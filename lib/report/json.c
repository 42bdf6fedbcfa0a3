/*
 * json.c - streaming JSON: one object (json) or one object a line (jsonl). Output is valid UTF-8
 * that is safe to embed: control characters (C0, DEL, C1), U+2028 and U+2029 are escaped, "<" too
 * so that a process named "</script>" cannot end a script element, and bytes that are no UTF-8
 * become U+FFFD.
 */
#include "writer.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

/* Bytes to copy as they are from the start of `text`. */
static size_t plain_run(const char *text, size_t size)
{
    size_t i = 0;
    while (i < size) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == '<' || c >= 0x7f)
            break;
        i++;
    }
    return i;
}

/* Size of the valid UTF-8 sequence at `text`, or 0. */
static size_t sequence_size(const char *text, size_t left)
{
    unsigned char c = (unsigned char)text[0];
    size_t size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
    return size <= left && kda_utf8_valid_prefix(text, size) == size ? size : 0;
}

/* Writes the character that plain_run stopped at and returns its size in bytes. */
static size_t put_special(struct kda_report *report, const char *text, size_t left)
{
    unsigned char c = (unsigned char)text[0];
    char escape[8];
    size_t size = 1;
    if (c == '"' || c == '\\') {
        (void)snprintf(escape, sizeof(escape), "\\%c", c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
        (void)snprintf(escape, sizeof(escape), "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    } else if (c < 0x80) {
        (void)snprintf(escape, sizeof(escape), "\\u%04x", c);
    } else {
        size = sequence_size(text, left);
        if (size == 2 && c == 0xc2 && (unsigned char)text[1] < 0xa0) {
            (void)snprintf(escape, sizeof(escape), "\\u%04x", (unsigned char)text[1]);
        } else if (size == 3 &&
                   (memcmp(text, "\xe2\x80\xa8", 3) == 0 || memcmp(text, "\xe2\x80\xa9", 3) == 0)) {
            (void)snprintf(escape, sizeof(escape), "\\u%04x",
                           text[2] == '\xa8' ? 0x2028u : 0x2029u);
        } else if (size == 0) {
            (void)snprintf(escape, sizeof(escape), "\xef\xbf\xbd");
            size = 1;
        } else {
            kda_out(report, text, size);
            return size;
        }
    }
    kda_out_text(report, escape);
    return size;
}

static void put_string(struct kda_report *report, const char *text, size_t size)
{
    kda_out(report, "\"", 1);
    for (size_t i = 0; i < size;) {
        size_t run = plain_run(text + i, size - i);
        kda_out(report, text + i, run);
        i += run;
        if (i < size)
            i += put_special(report, text + i, size - i);
    }
    kda_out(report, "\"", 1);
}

static void put_scalar(struct kda_report *report, const struct kda_token *token)
{
    char scratch[KDA_SCALAR_TEXT];
    size_t size;
    const char *text = kda_token_text(token, scratch, &size);
    if (token->type == KDA_TOKEN_UINT || token->type == KDA_TOKEN_INT ||
        token->type == KDA_TOKEN_BOOL)
        kda_out(report, text, size);
    else
        put_string(report, text, size);
}

/* The whole row; nesting is bounded by KDA_ROW_MAX_DEPTH, so no recursion is needed. */
static void put_row(struct kda_report *report, const struct kda_row *row)
{
    char close[KDA_ROW_MAX_DEPTH + 1];
    size_t depth = 0;
    bool first = true;
    close[depth++] = '}';
    kda_out(report, "{", 1);
    for (size_t i = 0; i < row->count; i++) {
        const struct kda_token *token = &row->tokens[i];
        if (token->type == KDA_TOKEN_END) {
            kda_out(report, &close[--depth], 1);
            first = false;
            continue;
        }
        if (!first)
            kda_out(report, ",", 1);
        first = false;
        if (token->key) {
            put_string(report, token->key, strlen(token->key));
            kda_out(report, ":", 1);
        }
        if (token->type == KDA_TOKEN_ARRAY || token->type == KDA_TOKEN_OBJECT) {
            kda_out(report, token->type == KDA_TOKEN_ARRAY ? "[" : "{", 1);
            close[depth++] = token->type == KDA_TOKEN_ARRAY ? ']' : '}';
            first = true;
        } else {
            put_scalar(report, token);
        }
    }
    kda_out(report, "}", 1);
}

static void begin_json(struct kda_report *report)
{
    char schema[32];
    (void)snprintf(schema, sizeof(schema), ",\"schema\":%d", KDA_ROWS_VERSION);
    kda_out_text(report, "{\"tool\":\"kda\",\"version\":\"" KDA_VERSION "\"");
    kda_out_text(report, schema);
    if (report->options.image) {
        kda_out_text(report, ",\"image\":");
        put_string(report, report->options.image, strlen(report->options.image));
    }
    kda_out_text(report, ",\"rows\":[");
}

static void row_json(struct kda_report *report, const struct kda_row *row)
{
    /* Gaps come last (kda_report_gaps), so one switch from "rows" to "gaps" is enough. */
    bool opens_gaps = row->kind == KDA_ROW_GAP && !report->in_gaps;
    if (opens_gaps) {
        kda_out_text(report, report->started ? "\n],\"gaps\":[" : "],\"gaps\":[");
        report->in_gaps = true;
    }
    kda_out_text(report, report->started && !opens_gaps ? ",\n" : "\n");
    put_row(report, row);
}

static void end_json(struct kda_report *report)
{
    const char *line = report->started ? "\n" : "";
    kda_out_text(report, line);
    kda_out_text(report, report->in_gaps ? "]}\n" : "],\"gaps\":[]}\n");
}

static void begin_jsonl(struct kda_report *report)
{
    (void)report;
}

static void row_jsonl(struct kda_report *report, const struct kda_row *row)
{
    put_row(report, row);
    kda_out(report, "\n", 1);
}

static void end_jsonl(struct kda_report *report)
{
    (void)report;
}

const struct kda_report_ops kda_report_json = {
    .format = {"json", "one object with rows and gaps"},
    .begin = begin_json,
    .row = row_json,
    .end = end_json,
};

const struct kda_report_ops kda_report_jsonl = {
    .format = {"jsonl", "one object a line, gaps as rows"},
    .begin = begin_jsonl,
    .row = row_jsonl,
    .end = end_jsonl,
};
