/*
 * verify.h - state of a verification; verify.c reads the lines, totals.c compares the totals.
 */
#ifndef KDA_LOG_VERIFY_H
#define KDA_LOG_VERIFY_H

#include "internal.h"

/* One set of totals, as a line of the sensor tells it. */
struct kda_log_totals {
    uint64_t offered[KDA_LOG_MAX_KINDS], written[KDA_LOG_MAX_KINDS];
    uint64_t lost[KDA_LOG_MAX_KINDS], filtered[KDA_LOG_MAX_KINDS];
};

struct kda_log_check {
    struct kda_log *log;
    const struct kda_log_listener *listener;
    struct kda_log_verdict verdict;
    size_t file;
    bool entered; /* a file was begun */
    uint64_t next_id;
    uint64_t reader_gap; /* lines that the live reader lost since the last one with an id */
    bool shutdown, stopped, told_end;
    bool strange; /* the counts that were read last could not all be taken */
    /* A log without its beginning (older files were deleted) is compared from its first totals
     * on: what those were ahead of the files. */
    bool based;
    struct kda_log_totals base;
    struct kda_log_totals before, now; /* totals of the line before, and of this one */
};

void kda_log_say(struct kda_log_check *check, const char *what, const struct kda_log_line *line,
                 const char *fmt, ...) KDA_PRINTF(4, 5);

/* A line with offered, written, lost and filtered. `final`: nothing is under way any more. */
void kda_log_check_totals(struct kda_log_check *check, const struct kda_log_line *line, bool final);

#endif
