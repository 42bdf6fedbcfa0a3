/*
 * wakes.h - a consumer that sleeps as the driver's writer does, at 100,000 events a second.
 */
#ifndef BENCH_WAKES_H
#define BENCH_WAKES_H

#include <stdbool.h>

struct wakes {
    double per_second;  /* times the consumer got up, by a producer or by its timeout */
    double cpu_percent; /* of one CPU, taking and reading all bytes, without encoding */
};

/* `urgent`: process events wake at once, as the driver sets it; the mix has 5,000 a second. */
struct wakes bench_wakes(bool urgent);

#endif
