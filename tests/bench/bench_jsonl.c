/*
 * bench_jsonl.c - the encoder against snprintf per field and jansson, and the whole way: four
 * producers, queue, encoder, file. The first way is a locked ring of fixed slots, snprintf and one
 * write per line; the second ours with writes of 256 KiB.
 *
 * Usage: kda-bench-jsonl [FOLDER]    (where the output of the whole way goes; default .)
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/plain.h"
#include "common/queues.h"

#define REPEATS 9u
#define LINE_BYTES 16384u
#define PRODUCERS 4u
#define WRITE_BYTES 262144u

static char line[LINE_BYTES];
static char other[LINE_BYTES];

typedef size_t encoder(const struct kda_event *event, struct kda_clock *clock);

static size_t with_ours(const struct kda_event *event, struct kda_clock *clock)
{
    return kda_jsonl_encode(event, clock, line, sizeof line);
}

static size_t with_portable(const struct kda_event *event, struct kda_clock *clock)
{
    return kda_jsonl_encode_portable(event, clock, line, sizeof line);
}

static size_t with_plain(const struct kda_event *event, struct kda_clock *clock)
{
    return plain_encode(event, clock, line, sizeof line);
}

static const struct {
    const char *name;
    encoder *encode;
} encoders[] = {{"snprintf per field", with_plain},
                {"jansson", jansson_encode},
                {"kda_jsonl, portable", with_portable},
                {"kda_jsonl", with_ours}};
#define ENCODERS (sizeof encoders / sizeof encoders[0])

static void check_equal(void)
{
    struct kda_clock clock = {.frequency = 10000000};
    for (size_t i = 0; i < MIX_EVENTS; i++) {
        size_t a = kda_jsonl_encode(mix_get()->event[i], &clock, line, sizeof line);
        size_t b = plain_encode(mix_get()->event[i], &clock, other, sizeof other);
        if (a != b || memcmp(line, other, a) != 0) {
            fprintf(stderr, "lines differ:\n%.*s%.*s", (int)a, line, (int)b, other);
            exit(1);
        }
    }
}

static void bench_encoders(void)
{
    struct kda_clock clock = {.frequency = 10000000};
    double values[ENCODERS][REPEATS];
    uint64_t bytes = 0;
    for (size_t repeat = 0; repeat < REPEATS; repeat++) {
        for (size_t e = 0; e < ENCODERS; e++) {
            uint64_t start = bench_ns();
            bytes = 0;
            for (unsigned round = 0; round < 40; round++) {
                for (size_t i = 0; i < MIX_EVENTS; i++)
                    bytes += encoders[e].encode(mix_get()->event[i], &clock);
            }
            values[e][repeat] = (double)(bench_ns() - start) / (40.0 * MIX_EVENTS);
        }
    }
    printf("encoder, %.0f bytes in, %.0f out (must: 6 times snprintf)\n", mix_get()->mean_bytes,
           (double)bytes / (40.0 * MIX_EVENTS));
    double first = bench_median(values[0], REPEATS);
    for (size_t e = 0; e < ENCODERS; e++) {
        double ns = bench_median(values[e], REPEATS);
        printf("  %-28s %8.0f ns/event %7.1f x %7.2f M events/s\n", encoders[e].name, ns,
               first / ns, 1000 / ns);
    }
}

/* --- the whole way --------------------------------------------------------------------------- */

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

/* CPU nanoseconds per event of the consumer's thread. */
static double go(const struct way *way, const char *path)
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
    uint64_t idle = 0, start = thread_ns();
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
    for (unsigned p = 0; p < PRODUCERS; p++)
        pthread_join(jobs[p].thread, NULL);
    way->queue->destroy(queue);
    close(sink.file);
    unlink(path);
    return (double)(end - start - idle) / ((double)PRODUCERS * way->each);
}

static void bench_whole(const char *folder)
{
    const struct queue_ops *ours = queue_table;
    while (ours[1].name)
        ours++;
    const struct way ways[2] = {{&queue_table[0], true, 20000}, {ours, false, 80000}};
    double values[2][REPEATS];
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-jsonl-%ld.jsonl", folder, (long)getpid());
    for (size_t repeat = 0; repeat < REPEATS; repeat++) {
        for (size_t w = 0; w < 2; w++)
            values[w][repeat] = go(&ways[w], path);
    }
    double first = bench_median(values[0], REPEATS), second = bench_median(values[1], REPEATS);
    printf(
        "\n%u producers, queue, encoder, file: CPU of the one consumer (must: 1.0 M/s, 6 times)\n",
        PRODUCERS);
    printf("  %-28s %8.0f ns/event %7.1f x %7.2f M events/s\n", "locked, snprintf, line writes",
           first, 1.0, 1000 / first);
    printf("  %-28s %8.0f ns/event %7.1f x %7.2f M events/s\n", "kda_ring, kda_jsonl, 256 KiB",
           second, first / second, 1000 / second);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_real_time();
    check_equal();
    bench_encoders();
    bench_whole(argc > 1 ? argv[1] : ".");
    return 0;
}
