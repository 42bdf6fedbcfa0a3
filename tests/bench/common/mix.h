/*
 * mix.h - events like those of a busy workstation, and what every measurement shares: a clock,
 * medians, pinned threads, the distance between the two CPUs.
 */
#ifndef BENCH_MIX_H
#define BENCH_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda_jsonl.h"

#define MIX_EVENTS 256u

struct mix {
    const struct kda_event *event[MIX_EVENTS];
    double mean_bytes;
};

/* Registry 45%, images 25%, threads 15%, network 10%, processes 5%. Never NULL. */
const struct mix *mix_get(void);

uint64_t bench_ns(void);    /* monotonic */
uint64_t bench_ticks(void); /* fastest counter of this machine */
double bench_ns_per_tick(void);
void bench_pin(unsigned cpu);
/* Real-time scheduling for this thread and those it starts, where the system lets us: like code at
 * raised IRQL they are then not preempted half-way, and other jobs disturb less. */
bool bench_real_time(void);
void bench_idle(void); /* a few microseconds: how a lazy consumer waits */

/* Sorts; the middle of it. 0 for none. */
double bench_median(double *values, size_t count);
double bench_percentile(uint32_t *values, size_t count, double percent);

/* Nanoseconds of a round trip of one cache line between CPU 0 and CPU 1. On shared machines this
 * has two states, and most figures differ by it: runs are grouped. */
double bench_round_trip(void);
enum bench_distance { BENCH_NEAR, BENCH_FAR, BENCH_DISTANCES };
#define BENCH_FAR_NS 280.0

#endif
