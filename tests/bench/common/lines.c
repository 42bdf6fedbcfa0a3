#define _GNU_SOURCE
#include "lines.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "mix.h"

#define LINE_BYTES 64u
#define LINES 4096u /* 256 KiB: more than a first-level cache, less than a second-level one */
#define ROUNDS 64u

struct lines {
    uint64_t word[LINES][LINE_BYTES / 8];
    _Alignas(128) atomic_uint turn; /* even: the writer's */
};

static void wait_for(struct lines *lines, unsigned turn)
{
    while (atomic_load_explicit(&lines->turn, memory_order_acquire) != turn)
        sched_yield();
}

static void *write_lines(void *argument)
{
    struct lines *lines = argument;
    bench_pin(0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        wait_for(lines, 2 * round);
        for (unsigned i = 0; i < LINES; i++) {
            for (unsigned w = 0; w < LINE_BYTES / 8; w++)
                lines->word[i][w] = round + i;
        }
        atomic_store_explicit(&lines->turn, 2 * round + 1, memory_order_release);
    }
    return NULL;
}

double bench_read_line(void)
{
    static double values[ROUNDS];
    struct lines *lines = aligned_alloc(128, sizeof *lines);
    pthread_t writer;
    uint64_t sum = 0, expected = 0;
    if (!lines)
        abort();
    atomic_init(&lines->turn, 0);
    bench_pin(1);
    if (pthread_create(&writer, NULL, write_lines, lines) != 0)
        abort();
    for (unsigned round = 0; round < ROUNDS; round++) {
        wait_for(lines, 2 * round + 1);
        uint64_t start = bench_ticks();
        for (unsigned i = 0; i < LINES; i++) {
            for (unsigned w = 0; w < LINE_BYTES / 8; w++)
                sum += lines->word[i][w];
            expected += (uint64_t)(round + i) * (LINE_BYTES / 8);
        }
        values[round] = (double)(bench_ticks() - start) * bench_ns_per_tick() / LINES;
        atomic_store_explicit(&lines->turn, 2 * round + 2, memory_order_release);
    }
    pthread_join(writer, NULL);
    free(lines);
    if (sum != expected)
        abort();
    return bench_median(values, ROUNDS);
}
