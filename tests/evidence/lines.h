/*
 * lines.h - rows of a run against rows of the first one: only what differs is told.
 */
#ifndef KDA_EVIDENCE_LINES_H
#define KDA_EVIDENCE_LINES_H

#include <stdbool.h>
#include <stddef.h>

/* Collects the lines that a report writes. */
struct lines {
    char *bytes;
    size_t size, capacity;
    bool failed;
};

bool lines_write(void *lines, const char *bytes, size_t size); /* kda_write_fn */

/* The lines of the first run, by content. */
struct first_run;
/* Takes the bytes of `lines`, which is empty afterwards. NULL: out of memory. */
struct first_run *first_run_make(struct lines *lines);
void first_run_free(struct first_run *first);

/* Prints "+" and each line that the first run has not, then "-" and the number of each line of it
 * that is not there (from 0, in the order they were printed). `first` NULL: all are new. */
void lines_tell(const struct lines *lines, struct first_run *first);

#endif
