/*
 * bench_whole.c - the whole way: four producers, queue, merge, encoder, file. The first way is a
 * locked ring of fixed slots, snprintf and one write per line; the second is ours with writes of
 * 256 KiB. Both alternate in one process; what is printed is the CPU time of the one consumer.
 * Of every run the file is read again: each event offered is a line of it, once, with the next id.
 *
 * Usage: kda-bench-whole [FOLDER]    (where the file goes; default .)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/plain.h"
#include "common/queues.h"
#include "common/targets.h"
#include "kda_ring.h"

#define REPEATS 9u
#define LINE_BYTES 16384u
#define PRODUCERS 4u
#define WRITE_BYTES 262144u

struct way {
    const struct queue_ops *queue;
    bool plain; /* snprintf, one write per line */
    uint32_t each;
};

struct job {
    const struct way *way;
    void *queue;
    unsigned number;
    uint64_t refused;
    pthread_t thread;
};

static void *produce(void *argument)
{
    struct job *job = argument;
    bench_pin(0);
    queue_set_cpu(job->number % 2);
    for (uint32_t i = 0; i < job->way->each; i++) {
        const struct kda_event *event = mix_get()->event[(i + 64 * job->number) % MIX_EVENTS];
        while (!job->way->queue->push(job->queue, job->number, event)) {
            job->refused++;
            sched_yield();
        }
    }
    return NULL;
}

/* --- account ---------------------------------------------------------------------------------- */

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

/* How many events of each kind all producers of a way push. */
static void count_offered(const struct way *way, uint64_t *counts)
{
    memset(counts, 0, KDA_KIND_COUNT * sizeof *counts);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        for (uint32_t i = 0; i < way->each; i++)
            counts[mix_get()->event[(i + 64 * p) % MIX_EVENTS]->kind]++;
    }
}

static unsigned kind_of(const char *line)
{
    const char *at = strstr(line, "\"kind\":\"");
    for (unsigned kind = 1; at && kind < KDA_KIND_COUNT; kind++) {
        size_t length = strlen(kda_kinds[kind].name);
        if (strncmp(at + 8, kda_kinds[kind].name, length) == 0 && at[8 + length] == '"')
            return kind;
    }
    return 0;
}

static void check_file(const struct way *way, const char *path)
{
    static char line[LINE_BYTES];
    uint64_t offered[KDA_KIND_COUNT], written[KDA_KIND_COUNT] = {0}, next = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path);
    while (fgets(line, sizeof line, file)) {
        const char *id = strstr(line, "\"id\":");
        if (!id || strtoull(id + 5, NULL, 10) != next++)
            fail("an id is missing in the file");
        written[kind_of(line)]++;
    }
    fclose(file);
    count_offered(way, offered);
    if (memcmp(offered, written, sizeof offered) != 0)
        fail("the file does not hold what was offered");
}

/* Each refusal was counted, and tried again; all offered was accepted. */
static void check_ring(const struct way *way, const struct kda_ring *ring, uint64_t refused)
{
    uint64_t offered[KDA_KIND_COUNT], counts[KDA_KIND_COUNT], lost = 0;
    kda_ring_lost(ring, counts);
    for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++)
        lost += counts[kind];
    count_offered(way, offered);
    kda_ring_accepted(ring, counts);
    if (lost != refused || memcmp(offered, counts, sizeof offered) != 0)
        fail("the ring's account is wrong");
}

struct sink {
    int file;
    size_t used;
    char buffer[WRITE_BYTES + LINE_BYTES];
};

static void flush_sink(struct sink *sink)
{
    for (size_t done = 0; done < sink->used;) {
        ssize_t n = write(sink->file, sink->buffer + done, sink->used - done);
        if (n <= 0) {
            perror("write");
            exit(1);
        }
        done += (size_t)n;
    }
    sink->used = 0;
}

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct outcome {
    double ns;   /* CPU per event of the consumer's thread, without idling */
    double wall; /* events a second, by the clock */
    uint64_t refused;
};

static struct outcome go(const struct way *way, const char *path)
{
    static struct sink sink;
    struct job jobs[PRODUCERS];
    struct kda_clock clock = {.frequency = 3000000000u, .in_order = true};
    void *queue = way->queue->create();
    sink.file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    sink.used = 0;
    if (sink.file < 0) {
        perror(path);
        exit(1);
    }
    bench_pin(1);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        jobs[p] = (struct job){.way = way, .queue = queue, .number = p};
        pthread_create(&jobs[p].thread, NULL, produce, &jobs[p]);
    }
    uint64_t idle = 0, wall = bench_ns(), start = thread_ns();
    for (uint64_t got = 0; got < (uint64_t)PRODUCERS * way->each;) {
        const struct kda_event *event = way->queue->pop(queue);
        if (!event) {
            uint64_t from = thread_ns();
            bench_idle();
            idle += thread_ns() - from;
            continue;
        }
        char *at = sink.buffer + sink.used;
        sink.used += way->plain ? plain_encode(event, &clock, at, LINE_BYTES)
                                : kda_jsonl_encode(event, &clock, at, LINE_BYTES);
        got++;
        if (way->plain || sink.used >= WRITE_BYTES)
            flush_sink(&sink);
    }
    flush_sink(&sink);
    uint64_t end = thread_ns();
    double events = (double)PRODUCERS * way->each;
    struct outcome outcome = {.ns = (double)(end - start - idle) / events,
                              .wall = events * 1e9 / (double)(bench_ns() - wall)};
    for (unsigned p = 0; p < PRODUCERS; p++) {
        pthread_join(jobs[p].thread, NULL);
        outcome.refused += jobs[p].refused;
    }
    if (!way->plain)
        check_ring(way, queue, outcome.refused);
    way->queue->destroy(queue);
    close(sink.file);
    check_file(way, path);
    unlink(path);
    return outcome;
}

static void print_way(const char *name, double *ns, double *wall, double first)
{
    double median = bench_median(ns, REPEATS);
    printf("  %-28s %8.0f ns/event %7.1f x %7.2f M events/s a core, %.2f M/s by the clock\n", name,
           median, first / median, 1000 / median, bench_median(wall, REPEATS) / 1e6);
}

static void bench_whole(const char *folder)
{
    static const struct target core = {
        "whole way on one consumer core", 1.0, 2.0, TARGET_AT_LEAST, 2, "M/s"};
    static const struct target ratio = {
        "whole way to the first design", 6, 12, TARGET_AT_LEAST, 1, "x"};
    const struct queue_ops *ours = queue_table;
    while (ours[1].name)
        ours++;
    const struct way ways[2] = {{&queue_table[0], true, 20000}, {ours, false, 80000}};
    double ns[2][REPEATS], wall[2][REPEATS];
    uint64_t refused = 0;
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-whole-%ld.jsonl", folder, (long)getpid());
    for (size_t repeat = 0; repeat < REPEATS; repeat++) {
        for (size_t w = 0; w < 2; w++) {
            struct outcome outcome = go(&ways[w], path);
            ns[w][repeat] = outcome.ns;
            wall[w][repeat] = outcome.wall;
            refused += w == 1 ? outcome.refused : 0;
        }
    }
    double first = bench_median(ns[0], REPEATS), second = bench_median(ns[1], REPEATS);
    printf("%u producers, queue, encoder, file: CPU of the one consumer\n", PRODUCERS);
    print_way("locked, snprintf, line writes", ns[0], wall[0], first);
    print_way("kda_ring, kda_jsonl, 256 KiB", ns[1], wall[1], first);
    printf("  account: all %u events of each run are in its file, ids without a gap; %llu refusals "
           "by a "
           "full ring, all counted\n",
           PRODUCERS * ways[1].each, (unsigned long long)refused);
    targets_head();
    targets_row(&core, 1000 / second);
    targets_row(&ratio, first / second);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_real_time();
    (void)mix_get();
    bench_whole(argc > 1 ? argv[1] : ".");
    return 0;
}
