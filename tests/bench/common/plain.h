/*
 * plain.h - the encoders that are compared with ours: snprintf for every field, and jansson.
 */
#ifndef BENCH_PLAIN_H
#define BENCH_PLAIN_H

#include "mix.h"

/* The line of an event of the mix, with its '\n'; bytes written. */
size_t plain_encode(const struct kda_event *event, struct kda_clock *clock, char *out, size_t room);
/* Bytes of the line, which is made and thrown away; 0 where there is no jansson. */
size_t jansson_encode(const struct kda_event *event, struct kda_clock *clock);

#endif
