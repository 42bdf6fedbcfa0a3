/*
 * json_pull.h - strict pull reader of one JSON object that lies in memory.
 *
 * Tokens come one by one and point into the text; nothing is allocated. It accepts exactly RFC
 * 8259 with valid UTF-8 and refuses nesting beyond KDA_JSON_MAX_DEPTH, so hostile lines cost no
 * more than their length.
 */
#ifndef KDA_BASE_JSON_PULL_H
#define KDA_BASE_JSON_PULL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KDA_JSON_MAX_DEPTH 8u

enum kda_json_type {
    KDA_JSON_STRING, /* value: the text between the quotes, escapes as they stand */
    KDA_JSON_NUMBER,
    KDA_JSON_TRUE,
    KDA_JSON_FALSE,
    KDA_JSON_NULL,
    KDA_JSON_OBJECT, /* value: from here to the end of the text */
    KDA_JSON_ARRAY,
    KDA_JSON_CLOSE, /* ends the innermost object or array */
    KDA_JSON_END    /* the outermost object was closed and nothing follows */
};

struct kda_json_token {
    enum kda_json_type type;
    bool escaped;    /* STRING: holds a backslash */
    unsigned depth;  /* 0: the outermost object itself; 1: its members */
    const char *key; /* NULL in an array; escapes as they stand */
    size_t key_size;
    const char *value;
    size_t size;
};

struct kda_json_pull {
    const char *text;
    size_t size, at;
    unsigned depth;
    bool started, first, failed;
    const char *problem; /* string constant, set when failed */
    char open[KDA_JSON_MAX_DEPTH];
};

void kda_json_pull_begin(struct kda_json_pull *json, const char *text, size_t size);
/* False when the text is not JSON; `problem` and `at` say what and where. */
bool kda_json_pull_next(struct kda_json_pull *json, struct kda_json_token *token);

/* Text of a string with escapes resolved: at most `size` bytes, written to `out`, which may be the
 * string itself. Returns the bytes. A lone surrogate becomes U+FFFD. */
size_t kda_json_unescape(const char *value, size_t size, char *out);
/* False unless `value` is a whole number that fits. */
bool kda_json_uint(const char *value, size_t size, uint64_t *ret);

#endif
