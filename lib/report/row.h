/*
 * row.h - one row between the model and a writer: a flat run of typed tokens.
 *
 * Builders put keys and values in contract order; writers read the same run. Strings are borrowed
 * from the model for as long as the row is being written. A value that is absent is not put at
 * all, which is how "absent = key left out" holds for every format.
 */
#ifndef KDA_REPORT_ROW_H
#define KDA_REPORT_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/report.h"

/* A row is at most this long; a provider with the most registrations the model allows fits. */
#define KDA_ROW_MAX_TOKENS ((size_t)32 << 20)
#define KDA_ROW_MAX_DEPTH 8u
#define KDA_SCALAR_TEXT 64
/* Bytes of the texts that are made for one row. */
#define KDA_ROW_ROOM 512u

enum kda_token_type {
    KDA_TOKEN_TEXT,
    KDA_TOKEN_UINT,
    KDA_TOKEN_INT,
    KDA_TOKEN_HEX,
    KDA_TOKEN_BOOL,
    KDA_TOKEN_TIME, /* FILETIME */
    KDA_TOKEN_GUID,
    KDA_TOKEN_ARRAY,
    KDA_TOKEN_OBJECT,
    KDA_TOKEN_END,
};

struct kda_token {
    enum kda_token_type type;
    const char *key; /* string constant; NULL inside an array */
    union {
        uint64_t number; /* also BOOL and TIME; ARRAY and OBJECT: index of their END */
        int64_t integer;
        uint8_t guid[16];
        struct {
            const char *text;
            size_t size;
        } string;
    } u;
};

struct kda_row {
    enum kda_row_kind kind;
    struct kda_token *tokens;
    size_t count, capacity;
    size_t open[KDA_ROW_MAX_DEPTH]; /* indexes of containers not yet ended */
    size_t depth;
    bool failed; /* memory or the token limit ran out */
    bool fitted; /* the layout was fitted: rows of the model say so */
    size_t room_used;
    char room[KDA_ROW_ROOM]; /* for texts that are made for the row */
};

void kda_row_begin(struct kda_row *row, enum kda_row_kind kind);
void kda_row_deinit(struct kda_row *row);

void kda_put_text(struct kda_row *row, const char *key, const char *text); /* NULL: nothing */
void kda_put_text_n(struct kda_row *row, const char *key, const char *text, size_t size);
void kda_put_uint(struct kda_row *row, const char *key, uint64_t value);
void kda_put_int(struct kda_row *row, const char *key, int64_t value);
void kda_put_hex(struct kda_row *row, const char *key, uint64_t value);
void kda_put_address(struct kda_row *row, const char *key, uint64_t va); /* 0: nothing */
void kda_put_bool(struct kda_row *row, const char *key, bool value);
void kda_put_time(struct kda_row *row, const char *key, uint64_t filetime); /* 0: nothing */
void kda_put_guid(struct kda_row *row, const char *key, const uint8_t guid[16]);
/* Names of the bits that are set, lowest first. */
void kda_put_set(struct kda_row *row, const char *key, unsigned bits, const char *const *names,
                 size_t count);
/* Names that `name` tells of `value`. */
typedef size_t (*kda_names_fn)(uint32_t value, const char **names, size_t max);
void kda_put_names(struct kda_row *row, const char *key, kda_names_fn name, uint32_t value);
/* A function, or a small number in its place. */
void kda_put_clock(struct kda_row *row, const char *key, uint64_t value);
void kda_put_array(struct kda_row *row, const char *key);
void kda_put_object(struct kda_row *row, const char *key);
void kda_put_end(struct kda_row *row);
/* `size` bytes that live as long as the row; all of a kind's fit KDA_ROW_ROOM. */
char *kda_row_room(struct kda_row *row, size_t size);

/* The token after `token` on the same level (past the END of a container). */
const struct kda_token *kda_token_next(const struct kda_row *row, const struct kda_token *token);
/* Token at a dotted path of keys ("provider_enable.level"), or NULL. */
const struct kda_token *kda_row_find(const struct kda_row *row, const char *path);
/* Member `key` (of `size` characters) of the object `object`, or NULL. */
const struct kda_token *kda_object_find(const struct kda_row *row, const struct kda_token *object,
                                        const char *key, size_t size);

bool kda_token_is_scalar(const struct kda_token *token);
/* Text of a scalar without quotes or escapes: the token's own string, or `scratch`. */
const char *kda_token_text(const struct kda_token *token, char scratch[KDA_SCALAR_TEXT],
                           size_t *size);

/* Does any scalar of the row contain `needle` (ASCII case ignored)? */
bool kda_row_contains(const struct kda_row *row, const char *needle);

#endif
