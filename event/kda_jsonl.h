/*
 * kda_jsonl.h - a record becomes one JSON line in the caller's buffer.
 *
 * The line is what docs/events.md says, to the byte. No memory is taken, no C library is needed,
 * nothing is kept between calls except in the caller's struct kda_clock, which one thread at a time
 * uses.
 */
#ifndef KDA_JSONL_H
#define KDA_JSONL_H

#include "kda_event.h"

/* No line of a record of `size` bytes is longer. The worst text is a byte below 0x20 (6 bytes
 * out); names, numbers and punctuation of the head fit into the rest. */
#define KDA_JSONL_MAX(size) (6u * (size_t)(size) + 4096u)

/* A reading of the performance counter and the UTC time at that moment, both by one CPU. A writer
 * takes a new pair from time to time and keeps `utc_floor` between them, so that corrections of
 * the system clock never make a log go backwards. */
struct kda_clock {
    uint64_t counter;
    uint64_t utc;       /* 100 ns units since 1601 */
    uint64_t frequency; /* counter ticks per second; 10,000,000 with counter == utc is identity */
    uint64_t utc_floor; /* the latest time written; events in order are never before it */
    _Bool in_order;     /* events come in the order of a log: raise and keep the floor */
    /* Date and time of day of the second that was written last; 0 at first. */
    uint64_t second;
    char second_text[24];
};

/* UTC of a counter reading, exact to the unit (rounded down), before or after the pair. Saturates
 * at 0 and UINT64_MAX. Does not look at utc_floor. */
uint64_t kda_clock_convert(const struct kda_clock *clock, uint64_t counter);
/* The same, and if clock->in_order at least utc_floor, which it raises. */
uint64_t kda_clock_utc(struct kda_clock *clock, uint64_t counter);

/* Writes the line with its '\n' and returns its bytes. If `capacity` is less than that, the
 * buffer's content is undefined (never written past) and the result is the size that is needed,
 * greater than `capacity`. `event` is valid (kda_event_valid); 0 for a clock of frequency 0. */
size_t kda_jsonl_encode(const struct kda_event *event, struct kda_clock *clock, char *buffer,
                        size_t capacity);
/* The same line by the code that machines without SSE2 run. */
size_t kda_jsonl_encode_portable(const struct kda_event *event, struct kda_clock *clock,
                                 char *buffer, size_t capacity);

/* ISO 8601, UTC, 7 digits: `2026-11-29T21:04:05.1234567Z`, without NUL. Returns the bytes written;
 * years after 9999 have five digits. */
#define KDA_TIME_BYTES 29u
size_t kda_jsonl_time(uint64_t utc, char buffer[KDA_TIME_BYTES]);

#endif
