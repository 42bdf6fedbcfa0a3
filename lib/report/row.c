#include "row.h"

#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "text.h"

void kda_row_begin(struct kda_row *row, enum kda_row_kind kind)
{
    row->kind = kind;
    row->count = 0;
    row->depth = 0;
    row->failed = false;
    row->room_used = 0;
}

void kda_row_deinit(struct kda_row *row)
{
    kda_free(row->tokens);
    memset(row, 0, sizeof(*row));
}

static struct kda_token *add(struct kda_row *row, enum kda_token_type type, const char *key)
{
    if (row->failed)
        return NULL;
    if (row->count == row->capacity) {
        void *items = row->tokens;
        if (!kda_grow(&items, &row->capacity, row->count + 1, sizeof(*row->tokens),
                      KDA_ROW_MAX_TOKENS)) {
            row->failed = true;
            return NULL;
        }
        row->tokens = items;
    }
    struct kda_token *token = &row->tokens[row->count++];
    token->type = type;
    token->key = key;
    return token;
}

static void put_number(struct kda_row *row, enum kda_token_type type, const char *key,
                       uint64_t value)
{
    struct kda_token *token = add(row, type, key);
    if (token)
        token->u.number = value;
}

void kda_put_text_n(struct kda_row *row, const char *key, const char *text, size_t size)
{
    struct kda_token *token = add(row, KDA_TOKEN_TEXT, key);
    if (!token)
        return;
    token->u.string.text = text;
    token->u.string.size = size;
}

void kda_put_text(struct kda_row *row, const char *key, const char *text)
{
    if (text)
        kda_put_text_n(row, key, text, strlen(text));
}

void kda_put_uint(struct kda_row *row, const char *key, uint64_t value)
{
    put_number(row, KDA_TOKEN_UINT, key, value);
}

void kda_put_int(struct kda_row *row, const char *key, int64_t value)
{
    struct kda_token *token = add(row, KDA_TOKEN_INT, key);
    if (token)
        token->u.integer = value;
}

void kda_put_hex(struct kda_row *row, const char *key, uint64_t value)
{
    put_number(row, KDA_TOKEN_HEX, key, value);
}

void kda_put_address(struct kda_row *row, const char *key, uint64_t va)
{
    if (va != 0)
        kda_put_hex(row, key, va);
}

void kda_put_bool(struct kda_row *row, const char *key, bool value)
{
    put_number(row, KDA_TOKEN_BOOL, key, value);
}

void kda_put_time(struct kda_row *row, const char *key, uint64_t filetime)
{
    char text[KDA_TIME_TEXT];
    if (filetime != 0 && kda_time_text(filetime, text))
        put_number(row, KDA_TOKEN_TIME, key, filetime);
}

void kda_put_set(struct kda_row *row, const char *key, unsigned bits, const char *const *names,
                 size_t count)
{
    kda_put_array(row, key);
    for (size_t i = 0; i < count; i++)
        if (bits >> i & 1u)
            kda_put_text(row, NULL, names[i]);
    kda_put_end(row);
}

#define NAMES_MAX 64u
void kda_put_names(struct kda_row *row, const char *key, kda_names_fn name, uint32_t value)
{
    const char *names[NAMES_MAX];
    size_t count = name(value, names, NAMES_MAX);
    kda_put_array(row, key);
    for (size_t i = 0; i < count; i++)
        kda_put_text(row, NULL, names[i]);
    kda_put_end(row);
}

/* Function address up to build 18362, a small index since: a number stays a number. */
void kda_put_clock(struct kda_row *row, const char *key, uint64_t value)
{
    if (value < 0x10000)
        kda_put_uint(row, key, value);
    else
        kda_put_hex(row, key, value);
}

char *kda_row_room(struct kda_row *row, size_t size)
{
    if (size > KDA_ROW_ROOM - row->room_used) {
        row->failed = true;
        return row->room;
    }
    char *room = row->room + row->room_used;
    row->room_used += size;
    return room;
}

void kda_put_guid(struct kda_row *row, const char *key, const uint8_t guid[16])
{
    struct kda_token *token = add(row, KDA_TOKEN_GUID, key);
    if (token)
        memcpy(token->u.guid, guid, sizeof(token->u.guid));
}

static void open_container(struct kda_row *row, enum kda_token_type type, const char *key)
{
    if (row->depth == KDA_ROW_MAX_DEPTH)
        row->failed = true;
    size_t index = row->count;
    if (add(row, type, key))
        row->open[row->depth++] = index;
}

void kda_put_array(struct kda_row *row, const char *key)
{
    open_container(row, KDA_TOKEN_ARRAY, key);
}

void kda_put_object(struct kda_row *row, const char *key)
{
    open_container(row, KDA_TOKEN_OBJECT, key);
}

void kda_put_end(struct kda_row *row)
{
    size_t index = row->count;
    if (add(row, KDA_TOKEN_END, NULL))
        row->tokens[row->open[--row->depth]].u.number = index;
}

bool kda_token_is_scalar(const struct kda_token *token)
{
    return token->type < KDA_TOKEN_ARRAY;
}

const struct kda_token *kda_token_next(const struct kda_row *row, const struct kda_token *token)
{
    if (token->type == KDA_TOKEN_ARRAY || token->type == KDA_TOKEN_OBJECT)
        return row->tokens + token->u.number + 1;
    return token + 1;
}

static const struct kda_token *find_key(const struct kda_row *row, const struct kda_token *token,
                                        const struct kda_token *end, const char *key, size_t size)
{
    for (; token < end && token->type != KDA_TOKEN_END; token = kda_token_next(row, token))
        if (token->key && token->key[0] == key[0] && strncmp(token->key, key, size) == 0 &&
            token->key[size] == '\0')
            return token;
    return NULL;
}

const struct kda_token *kda_object_find(const struct kda_row *row, const struct kda_token *object,
                                        const char *key, size_t size)
{
    return find_key(row, object + 1, row->tokens + object->u.number, key, size);
}

const struct kda_token *kda_row_find(const struct kda_row *row, const char *path)
{
    const struct kda_token *token = NULL;
    for (;;) {
        size_t size = strcspn(path, ".");
        token = token ? kda_object_find(row, token, path, size)
                      : find_key(row, row->tokens, row->tokens + row->count, path, size);
        if (!token || path[size] == '\0')
            return token;
        if (token->type != KDA_TOKEN_OBJECT)
            return NULL;
        path += size + 1;
    }
}

const char *kda_token_text(const struct kda_token *token, char scratch[KDA_SCALAR_TEXT],
                           size_t *size)
{
    const char *text = scratch;
    scratch[0] = '\0';
    switch (token->type) {
    case KDA_TOKEN_TEXT:
        *size = token->u.string.size;
        return token->u.string.text;
    case KDA_TOKEN_UINT:
        (void)snprintf(scratch, KDA_SCALAR_TEXT, "%llu", (unsigned long long)token->u.number);
        break;
    case KDA_TOKEN_INT:
        (void)snprintf(scratch, KDA_SCALAR_TEXT, "%lld", (long long)token->u.integer);
        break;
    case KDA_TOKEN_HEX:
        (void)snprintf(scratch, KDA_SCALAR_TEXT, "0x%llx", (unsigned long long)token->u.number);
        break;
    case KDA_TOKEN_BOOL:
        text = token->u.number ? "true" : "false";
        break;
    case KDA_TOKEN_TIME:
        (void)kda_time_text(token->u.number, scratch);
        break;
    case KDA_TOKEN_GUID:
        kda_guid_text(token->u.guid, scratch);
        break;
    case KDA_TOKEN_ARRAY:
    case KDA_TOKEN_OBJECT:
    case KDA_TOKEN_END:
        break;
    }
    *size = strlen(text);
    return text;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool contains(const char *text, size_t size, const char *needle, size_t needle_size)
{
    for (size_t i = 0; needle_size <= size && i <= size - needle_size; i++) {
        size_t k = 0;
        while (k < needle_size && lower(text[i + k]) == lower(needle[k]))
            k++;
        if (k == needle_size)
            return true;
    }
    return false;
}

bool kda_row_contains(const struct kda_row *row, const char *needle)
{
    size_t needle_size = strlen(needle);
    char scratch[KDA_SCALAR_TEXT];
    for (size_t i = 0; i < row->count; i++) {
        if (!kda_token_is_scalar(&row->tokens[i]))
            continue;
        size_t size;
        const char *text = kda_token_text(&row->tokens[i], scratch, &size);
        if (contains(text, size, needle, needle_size))
            return true;
    }
    return false;
}
