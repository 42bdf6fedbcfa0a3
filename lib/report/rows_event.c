/*
 * rows_event.c - rows of events: the members of a line.
 */
#include "writer.h"

#include <string.h>

#include "alloc.h"
#include "json_pull.h"

/* Strings of one row, freed after it was emitted. Keys gain a NUL; escaped text only shrinks. */
struct strings {
    char *at;
    size_t left;
};

static const char *keep(struct strings *strings, const char *text, size_t size, bool escaped,
                        size_t *kept)
{
    char *to = strings->at;
    size_t used = escaped ? kda_json_unescape(text, size, to) : size;
    if (!escaped)
        memcpy(to, text, size);
    to[used] = '\0';
    strings->at += used + 1;
    strings->left -= used + 1;
    if (kept)
        *kept = used;
    return to;
}

static void put_number(struct kda_row *row, const char *key, const struct kda_json_token *token)
{
    uint64_t value;
    bool negative = token->value[0] == '-';
    if (kda_json_uint(token->value + negative, token->size - negative, &value) &&
        (!negative || value <= (uint64_t)INT64_MAX)) {
        if (negative)
            kda_put_int(row, key, -(int64_t)value);
        else
            kda_put_uint(row, key, value);
    } else {
        kda_put_text_n(row, key, token->value, token->size);
    }
}

static void put_token(struct kda_row *row, struct strings *strings,
                      const struct kda_json_token *token)
{
    const char *key = token->key ? keep(strings, token->key, token->key_size, false, NULL) : NULL;
    size_t size;
    const char *text;
    switch (token->type) {
    case KDA_JSON_STRING:
        text = keep(strings, token->value, token->size, token->escaped, &size);
        kda_put_text_n(row, key, text, size);
        break;
    case KDA_JSON_NUMBER:
        put_number(row, key, token);
        break;
    case KDA_JSON_TRUE:
    case KDA_JSON_FALSE:
        kda_put_bool(row, key, token->type == KDA_JSON_TRUE);
        break;
    case KDA_JSON_OBJECT:
        kda_put_object(row, key);
        break;
    case KDA_JSON_ARRAY:
        kda_put_array(row, key);
        break;
    case KDA_JSON_CLOSE:
        kda_put_end(row);
        break;
    case KDA_JSON_NULL:
    case KDA_JSON_END:
        break;
    }
}

/* `flat`: an object is one cell, with its JSON. */
static void put_members(struct kda_row *row, struct strings *strings,
                        const struct kda_log_line *line, bool flat)
{
    struct kda_json_pull json;
    struct kda_json_token token;
    bool inside = false;
    kda_json_pull_begin(&json, line->text, line->size);
    while (kda_json_pull_next(&json, &token) && token.type != KDA_JSON_END) {
        if (flat && token.depth == 1 && token.type == KDA_JSON_OBJECT) {
            const char *key = keep(strings, token.key, token.key_size, false, NULL);
            const struct kda_log_member *member = kda_log_find(line, key);
            inside = true;
            if (member)
                kda_put_text_n(row, key, member->value, member->size);
        } else if (inside) {
            inside = token.depth > 1 || token.type != KDA_JSON_CLOSE;
        } else if (token.depth > 0) {
            put_token(row, strings, &token);
        }
    }
}

/* What people read of an event, in order; a piece without its member is left out. */
static const struct {
    const char *before, *key;
} pieces[] = {
    {" ", "command_line"},  {" parent ", "parent_pid"}, {" code ", "exit_code"},
    {" tid ", "new_tid"},   {" in ", "target_pid"},     {" ", "module"},
    {" at ", "base"},       {" ", "start_address"},     {" ", "start_module"},
    {" ", "transport"},     {" ", "local_ip"},          {" port ", "local_port"},
    {" -> ", "remote_ip"},  {" port ", "remote_port"},  {" ", "key"},
    {" -> ", "new_name"},   {" \\ ", "value"},          {" ", "value_type"},
    {" ", "data"},          {" ", "disposition"},       {" ", "reason"},
    {" lost ", "lost"},     {" filtered ", "filtered"}, {" host ", "host"},
    {" ", "provider_name"}, {" ", "event_name"},        {" next id ", "next_id"},
    {" log ", "log"},       {" status ", "status"},
};

static void add_member(struct kda_text *out, const struct kda_log_member *member)
{
    if (!member->escaped) {
        kda_text_add(out, member->value, member->size);
        return;
    }
    char *text = kda_calloc(member->size + 1, 1);
    if (text)
        kda_text_add(out, text, kda_json_unescape(member->value, member->size, text));
    else
        out->failed = true;
    kda_free(text);
}

/* Of what a trace holds beyond the pieces above: an event that no kind has fields for, a loss. */
static void add_trace(struct kda_text *out, const struct kda_log_line *line, bool loss)
{
    static const struct {
        const char *before, *key;
        bool loss;
    } rest[] = {
        {" ", "event_id", false},
        {" ", "fields", false},
        {" - ", "why", false},
        {" ", "payload", false},
        {" events ", "lost_events", true},
        {" buffers ", "lost_buffers", true},
        {" bytes ", "lost_bytes", true},
        {" at ", "offset", true},
        {" of ", "file", true},
        {" - ", "why", true},
    };
    for (size_t i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
        const struct kda_log_member *member = kda_log_find(line, rest[i].key);
        if (!member || rest[i].loss != loss || (i == 0 && kda_log_find(line, "event_name")))
            continue;
        kda_text_adds(out, rest[i].before);
        add_member(out, member);
    }
}

static void add_what(struct kda_text *out, const struct kda_log_line *line)
{
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        const struct kda_log_member *member = kda_log_find(line, pieces[i].key);
        bool fine = member && strcmp(pieces[i].key, "status") == 0 && member->size == 10 &&
                    memcmp(member->value, "0x00000000", 10) == 0;
        if (!member || fine)
            continue;
        kda_text_adds(out, pieces[i].before + (out->size == 0));
        add_member(out, member);
    }
    bool loss = line->kind == kda_log_kind_find("sensor.loss", 11);
    if (loss || line->kind == kda_log_kind_find("etw.event", 9))
        add_trace(out, line, loss);
    const struct kda_log_member *remote = kda_log_find(line, "remote");
    if (remote && remote->type == 't')
        kda_text_adds(out, " REMOTE");
}

static size_t base_of(const char *path, size_t size)
{
    size_t at = size;
    while (at > 0 && path[at - 1] != '\\')
        at--;
    return at;
}

/* `process` and `what` are for people; formats for programs have all members and need neither. */
static void put_for_people(struct kda_row *row, struct kda_text *what, struct strings *strings,
                           const struct kda_log_line *line)
{
    const struct kda_log_member *image = kda_log_find(line, "image");
    if (image && image->type == '"') {
        size_t size;
        const char *text = keep(strings, image->value, image->size, image->escaped, &size);
        size_t base = base_of(text, size);
        kda_put_text_n(row, KDA_EVENT_PROCESS, text + base, size - base);
    }
    add_what(what, line);
    if (what->failed)
        row->failed = true;
    else if (what->size > 0)
        kda_put_text_n(row, KDA_EVENT_WHAT, what->bytes, what->size);
}

/* jsonl: the log's own bytes, so that the output is a log again. */
static void emit_event(struct kda_report *report, const struct kda_log_line *line)
{
    if (report->ops != &kda_report_jsonl) {
        kda_report_emit(report);
        return;
    }
    if (!kda_report_wants(report) || !kda_report_admit(report, KDA_ROW_EVENT))
        return;
    kda_out(report, line->text, line->size);
    kda_out(report, "\n", 1);
}

void kda_report_event(struct kda_report *report, const struct kda_log_line *line)
{
    bool for_people = report->ops == &kda_report_text;
    bool flat = report->ops == &kda_report_csv || report->ops == &kda_report_tsv;
    struct kda_row *row = kda_report_row(report, KDA_ROW_EVENT);
    if (report->ops == &kda_report_jsonl && !report->options.grep) {
        emit_event(report, line); /* grep alone looks into the row */
        return;
    }
    /* A key gains at most one byte, and takes four with its quotes, colon and comma. */
    struct strings strings = {NULL, line->size * 2 + 16};
    char *block = kda_calloc(strings.left, 1);
    struct kda_text what = {0};
    strings.at = block;
    if (block) {
        put_members(row, &strings, line, flat);
        if (for_people)
            put_for_people(row, &what, &strings, line);
    } else {
        row->failed = true;
    }
    emit_event(report, line);
    kda_text_deinit(&what);
    kda_free(block);
}
