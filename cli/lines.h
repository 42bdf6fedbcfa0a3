/*
 * lines.h - whole lines out of a stream of bytes.
 */
#ifndef KDA_CLI_LINES_H
#define KDA_CLI_LINES_H

#include <stdbool.h>
#include <stddef.h>

struct lines {
    char *bytes;
    size_t start, used, capacity;
    size_t limit; /* of a line */
    bool skipping;
    unsigned long long too_long; /* lines over the limit, which are left out */
};

void lines_init(struct lines *lines, size_t limit);
void lines_deinit(struct lines *lines);
/* Room for `size` more bytes; NULL: no memory. Lines that were handed out are no longer valid. */
char *lines_room(struct lines *lines, size_t size);
void lines_put(struct lines *lines, size_t size); /* so many were written there */
/* The next line without its end; false: there is no whole one. */
bool lines_next(struct lines *lines, const char **text, size_t *size);

#endif
