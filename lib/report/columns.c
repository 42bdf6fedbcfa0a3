/*
 * columns.c - how the keys of a kind become columns, and a value its cell. csv prints every column
 * under its path, so its headings are as stable as the keys; text shows the few that people
 * compare.
 */
#include "writer.h"

#include <string.h>

static const struct kda_row_table *const kinds[KDA_ROW_KINDS] = {
#define K(ID, name) [KDA_ROW_##ID] = &kda_rows_##name,
    KDA_ROW_KIND_LIST(K)
#undef K
};

const struct kda_row_table *kda_row_table_of(enum kda_row_kind kind)
{
    return kinds[kind];
}

const char *kda_key_type_words(const struct kda_key *key)
{
    static const char *const words[] = {
#define K(type, text) text,
        KDA_KEY_TYPES(K)
#undef K
    };
    return words[key->type];
}

/* Shapes of events share fields: each is one column. */
static bool is_there(const struct kda_columns *columns, const struct kda_key *key)
{
    for (size_t i = 0; key->type == KDA_KEY_member && i < columns->count; i++)
        if (columns->items[i]->type == KDA_KEY_member &&
            strcmp(columns->items[i]->path, key->path) == 0)
            return true;
    return false;
}

void kda_columns_order(const struct kda_key *keys, struct kda_columns *ret)
{
    ret->count = 0;
    for (const struct kda_key *key = keys; key->path; key++) {
        if ((key->flags & KDA_COLUMN_JSON_ONLY) || ret->count == KDA_COLUMNS_MAX ||
            is_there(ret, key))
            continue;
        size_t at = ret->count++;
        for (; at > 0 && ret->items[at - 1]->place > key->place; at--)
            ret->items[at] = ret->items[at - 1];
        ret->items[at] = key;
    }
}

const struct kda_columns *kda_report_columns(struct kda_report *report, enum kda_row_kind kind)
{
    if (report->columns_of != kinds[kind])
        kda_columns_order(kinds[kind]->keys, &report->columns);
    report->columns_of = kinds[kind];
    return &report->columns;
}

static void add_scalar(const struct kda_token *token, const struct kda_key *column, bool for_text,
                       struct kda_text *out)
{
    char scratch[KDA_SCALAR_TEXT];
    size_t size;
    const char *text = kda_token_text(token, scratch, &size);
    if (for_text && token->type == KDA_TOKEN_BOOL && column->words) {
        /* "yes|no" */
        const char *bar = strchr(column->words, '|');
        if (token->u.number)
            kda_text_add(out, column->words, (size_t)(bar - column->words));
        else
            kda_text_adds(out, bar + 1);
        return;
    }
    unsigned long long number = token->type == KDA_TOKEN_UINT ? token->u.number : 0;
    if (for_text && number && (column->flags & KDA_COLUMN_KIB) && number % 1024 == 0) {
        kda_text_addf(out, "%llu", number / 1024);
        return;
    }
    if (for_text && number && (column->flags & KDA_COLUMN_HEX)) {
        kda_text_addf(out, "0x%llx", number);
        return;
    }
    kda_text_add_escaped(out, text, size);
    if (for_text && number && (column->flags & KDA_COLUMN_SIZE))
        kda_text_addf(out, " (%.1f MiB)", (double)number / 1048576.0);
}

/* The member that the next "{key}" of a template names, or NULL. */
static const struct kda_token *next_member(const struct kda_row *row,
                                           const struct kda_token *object, const char *format)
{
    const char *key = strchr(format, '{');
    return key ? kda_object_find(row, object, key + 1, strcspn(key, "}") - 1) : NULL;
}

/* One object of a list through the template of text; a key that is absent shows "?". A part in
 * brackets is left out when its first key is absent. */
static void add_sentence(const struct kda_row *row, const struct kda_token *object,
                         const struct kda_key *column, struct kda_text *out)
{
    const char *format = column->words;
    while (*format) {
        size_t run = strcspn(format, "{[]");
        kda_text_add(out, format, run);
        format += run;
        if (*format == '\0')
            break;
        if (*format == '[' && !next_member(row, object, format))
            format += strcspn(format, "]");
        if (*format != '{') {
            format++;
            continue;
        }
        size_t size = strcspn(format, "}");
        const struct kda_token *member = kda_object_find(row, object, format + 1, size - 1);
        if (member && kda_token_is_scalar(member))
            add_scalar(member, column, false, out);
        else
            kda_text_adds(out, "?");
        format += size + 1;
    }
}

/* "a:b:c", for csv; a key that is absent leaves its place empty. */
static void add_members(const struct kda_row *row, const struct kda_token *object,
                        const struct kda_key *column, struct kda_text *out)
{
    struct kda_columns members;
    kda_columns_order(column->items, &members);
    for (size_t i = 0; i < members.count; i++) {
        const char *name = members.items[i]->path;
        const struct kda_token *member = kda_object_find(row, object, name, strlen(name));
        if (i > 0)
            kda_text_adds(out, ":");
        if (member && kda_token_is_scalar(member))
            add_scalar(member, column, false, out);
    }
}

void kda_cell_item(const struct kda_row *row, const struct kda_token *item,
                   const struct kda_key *column, bool for_text, struct kda_text *out)
{
    if (kda_token_is_scalar(item))
        add_scalar(item, column, for_text, out);
    else if (item->type == KDA_TOKEN_OBJECT && for_text && column->words)
        add_sentence(row, item, column, out);
    else if (item->type == KDA_TOKEN_OBJECT && !for_text && column->items)
        add_members(row, item, column, out);
}

static bool is_on(const struct kda_row *row, const struct kda_token *item)
{
    const struct kda_token *enabled =
        item->type == KDA_TOKEN_OBJECT ? kda_object_find(row, item, "enabled", 7) : NULL;
    return enabled && enabled->u.number;
}

static void add_array(const struct kda_row *row, const struct kda_token *array,
                      const struct kda_key *column, bool for_text, struct kda_text *out)
{
    const struct kda_token *item = array + 1;
    bool first = true;
    for (; item->type != KDA_TOKEN_END; item = kda_token_next(row, item)) {
        if (for_text && (column->flags & KDA_COLUMN_ON) && !is_on(row, item))
            continue;
        if (!first)
            kda_text_adds(out, for_text ? ", " : ";");
        first = false;
        kda_cell_item(row, item, column, for_text, out);
    }
}

void kda_cell(const struct kda_row *row, const struct kda_key *column, bool for_text,
              struct kda_text *out)
{
    const struct kda_token *token = kda_row_find(row, column->path);
    if (!token)
        return;
    if (token->type == KDA_TOKEN_ARRAY && for_text && (column->flags & KDA_COLUMN_COUNT)) {
        size_t count = 0;
        for (const struct kda_token *t = token + 1; t->type != KDA_TOKEN_END;
             t = kda_token_next(row, t))
            count++;
        kda_text_addf(out, "%zu", count);
    } else if (token->type == KDA_TOKEN_ARRAY) {
        add_array(row, token, column, for_text, out);
    } else if (kda_token_is_scalar(token)) {
        add_scalar(token, column, for_text, out);
    }
}
