#include "lines.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    const char *text;
    size_t size;
    uint64_t hash;
    size_t next; /* line + 1 with the same last bits of the hash, 0 = none */
    bool seen;
};

#define BUCKETS 4096u

struct first_run {
    char *bytes;
    struct line *lines;
    size_t count, buckets[BUCKETS];
};

bool lines_write(void *context, const char *bytes, size_t size)
{
    struct lines *lines = context;
    if (size > lines->capacity - lines->size) {
        size_t capacity = (lines->capacity + size) * 2;
        char *grown = realloc(lines->bytes, capacity);
        if (!grown) {
            lines->failed = true;
            return false;
        }
        lines->bytes = grown;
        lines->capacity = capacity;
    }
    memcpy(lines->bytes + lines->size, bytes, size);
    lines->size += size;
    return true;
}

/* FNV-1a. */
static uint64_t hash_of(const char *text, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)text[i]) * 0x100000001b3u;
    return hash;
}

/* The line at *at, without its end; false: none is left. */
static bool next_line(const char *bytes, size_t size, size_t *at, struct line *line)
{
    if (*at >= size)
        return false;
    const char *end = memchr(bytes + *at, '\n', size - *at);
    line->text = bytes + *at;
    line->size = end ? (size_t)(end - line->text) : size - *at;
    line->hash = hash_of(line->text, line->size);
    *at += line->size + 1;
    return true;
}

static bool keep(struct first_run *first, const struct line *line)
{
    struct line *grown = realloc(first->lines, (first->count + 1) * sizeof(*grown));
    if (!grown)
        return false;
    first->lines = grown;
    size_t *bucket = &first->buckets[line->hash % BUCKETS];
    grown[first->count] = *line;
    grown[first->count].next = *bucket;
    grown[first->count].seen = false;
    *bucket = ++first->count;
    return true;
}

struct first_run *first_run_make(struct lines *lines)
{
    struct first_run *first = calloc(1, sizeof(*first));
    if (!first)
        return NULL;
    first->bytes = lines->bytes;
    size_t at = 0, size = lines->size;
    memset(lines, 0, sizeof(*lines));
    struct line line;
    while (next_line(first->bytes, size, &at, &line))
        if (!keep(first, &line)) {
            first_run_free(first);
            return NULL;
        }
    return first;
}

void first_run_free(struct first_run *first)
{
    if (!first)
        return;
    free(first->bytes);
    free(first->lines);
    free(first);
}

static bool known(struct first_run *first, const struct line *line)
{
    for (size_t i = first->buckets[line->hash % BUCKETS]; i > 0; i = first->lines[i - 1].next) {
        struct line *other = &first->lines[i - 1];
        if (!other->seen && other->hash == line->hash && other->size == line->size &&
            memcmp(other->text, line->text, line->size) == 0) {
            other->seen = true;
            return true;
        }
    }
    return false;
}

void lines_tell(const struct lines *lines, struct first_run *first)
{
    struct line line;
    for (size_t i = 0; first && i < first->count; i++)
        first->lines[i].seen = false;
    for (size_t at = 0; next_line(lines->bytes, lines->size, &at, &line);)
        if (!first || !known(first, &line))
            (void)printf("+%.*s\n", (int)line.size, line.text);
    for (size_t i = 0; first && i < first->count; i++)
        if (!first->lines[i].seen)
            (void)printf("-%zu\n", i);
}
