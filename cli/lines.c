#include "lines.h"

#include <stdlib.h>
#include <string.h>

void lines_init(struct lines *lines, size_t limit)
{
    memset(lines, 0, sizeof(*lines));
    lines->limit = limit;
}

void lines_deinit(struct lines *lines)
{
    free(lines->bytes);
    memset(lines, 0, sizeof(*lines));
}

char *lines_room(struct lines *lines, size_t size)
{
    if (lines->start > 0) {
        memmove(lines->bytes, lines->bytes + lines->start, lines->used - lines->start);
        lines->used -= lines->start;
        lines->start = 0;
    }
    if (lines->capacity - lines->used >= size)
        return lines->bytes + lines->used;
    size_t capacity = lines->used + size;
    char *bytes = realloc(lines->bytes, capacity);
    if (!bytes)
        return NULL;
    lines->bytes = bytes;
    lines->capacity = capacity;
    return bytes + lines->used;
}

void lines_put(struct lines *lines, size_t size)
{
    lines->used += size;
}

bool lines_next(struct lines *lines, const char **text, size_t *size)
{
    for (;;) {
        char *at = lines->bytes + lines->start;
        size_t left = lines->used - lines->start;
        const char *end = left > 0 ? memchr(at, '\n', left) : NULL;
        if (!end) {
            /* What is kept of a line that will be left out need not be kept. */
            if (left > lines->limit || lines->skipping) {
                lines->too_long += lines->skipping ? 0 : 1;
                lines->skipping = true;
                lines->start = lines->used;
            }
            return false;
        }
        size_t length = (size_t)(end - at);
        lines->start += length + 1;
        if (lines->skipping || length > lines->limit) {
            lines->too_long += lines->skipping ? 0 : 1;
            lines->skipping = false;
            continue;
        }
        *text = at;
        *size = length;
        return true;
    }
}
