/*
 * sink.h - a report's output in memory, and a sink that breaks on purpose.
 */
#ifndef KDA_TESTS_SINK_H
#define KDA_TESTS_SINK_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct sink {
    char *text; /* NUL-terminated */
    size_t size, capacity;
    size_t fail_at; /* refuses bytes from here on; 0 = never */
};

static inline bool sink_write(void *context, const char *bytes, size_t size)
{
    struct sink *sink = context;
    if (sink->fail_at && sink->size + size > sink->fail_at)
        return false;
    if (sink->size + size + 1 > sink->capacity) {
        size_t capacity = (sink->size + size + 1) * 2;
        char *grown = realloc(sink->text, capacity);
        if (!grown)
            return false;
        sink->text = grown;
        sink->capacity = capacity;
    }
    memcpy(sink->text + sink->size, bytes, size);
    sink->size += size;
    sink->text[sink->size] = '\0';
    return true;
}

static inline void sink_free(struct sink *sink)
{
    free(sink->text);
    memset(sink, 0, sizeof(*sink));
}

#endif
