/*
 * bench_queue.c - the ring against a locked ring of fixed slots (how this began), ck_ring and
 * wfcqueue: throughput, latency of a push, events held. All alternate in one process, each run
 * between two probes of the distance of the CPUs; medians. Use the ratios, not the figures.
 *
 * Usage: kda-bench-queue [ROUNDS]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/queues.h"

#define MAX_QUEUES 8u
#define MAX_ROUNDS 64u
#define EVENTS 240000u
#define PACED_EVENTS 60000u
#define PACE_NS 5000u /* 200,000 events a second */

struct job {
    const struct queue_ops *ops;
    void *queue;
    unsigned producers;
    unsigned number;
    uint32_t events;
    uint64_t interval; /* ticks between pushes of one producer; 0: as fast as it goes */
    uint32_t *latency;
    pthread_t thread;
};

static atomic_uint ready;
static atomic_bool go;

static void *produce(void *argument)
{
    struct job *job = argument;
    const struct mix *mix = mix_get();
    /* Paced: on both CPUs, as callbacks are. Closed loop: all against the consumer's CPU. */
    unsigned cpu = job->interval ? job->number % 2 : 0;
    bench_pin(cpu);
    queue_set_cpu(cpu);
    atomic_fetch_add(&ready, 1);
    while (!atomic_load(&go))
        sched_yield();
    uint64_t due = bench_ticks() + job->interval * job->number / job->producers;
    for (uint32_t i = 0; i < job->events; i++) {
        const struct kda_event *event = mix->event[(i + 64 * job->number) % MIX_EVENTS];
        if (job->interval) {
            while (bench_ticks() < due)
                sched_yield();
            due += job->interval;
        }
        uint64_t start = bench_ticks();
        while (!job->ops->push(job->queue, job->number, event))
            sched_yield();
        if (job->latency)
            job->latency[i] = (uint32_t)(bench_ticks() - start);
    }
    return NULL;
}

/* Every byte is read. */
static uint64_t sum_of(const struct kda_event *event)
{
    const uint64_t *word = (const uint64_t *)(const void *)&event->pid;
    uint64_t sum = 0;
    for (size_t i = 0; i < (event->size - offsetof(struct kda_event, pid)) / 8; i++)
        sum += word[i] * (i == 1 ? 0 : 1); /* the word with the CPU is set by some pushes */
    return sum;
}

static uint64_t expected_sum(unsigned producers, uint32_t events)
{
    uint64_t sum = 0;
    for (unsigned p = 0; p < producers; p++) {
        for (uint32_t i = 0; i < events; i++)
            sum += sum_of(mix_get()->event[(i + 64 * p) % MIX_EVENTS]);
    }
    return sum;
}

/* Nanoseconds per event; ends the program if one byte is wrong. */
static double run(const struct queue_ops *ops, unsigned producers, uint32_t each, uint64_t interval,
                  uint32_t *latency)
{
    struct job jobs[QUEUE_PRODUCERS];
    void *queue = ops->create();
    atomic_store(&ready, 0);
    atomic_store(&go, false);
    for (unsigned p = 0; p < producers; p++) {
        jobs[p] = (struct job){.ops = ops,
                               .queue = queue,
                               .producers = producers,
                               .number = p,
                               .events = each,
                               .interval = interval,
                               .latency = latency ? latency + (size_t)p * each : NULL};
        pthread_create(&jobs[p].thread, NULL, produce, &jobs[p]);
    }
    bench_pin(1);
    while (atomic_load(&ready) < producers)
        sched_yield();
    uint64_t sum = 0, start = bench_ns();
    atomic_store(&go, true);
    for (uint64_t got = 0; got < (uint64_t)producers * each;) {
        const struct kda_event *event = ops->pop(queue);
        if (!event) {
            /* Paced: as the writer does, a wait with a timeout instead of a wake-up per event. */
            if (interval)
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            else
                bench_idle();
            continue;
        }
        sum += sum_of(event);
        got++;
    }
    uint64_t end = bench_ns();
    for (unsigned p = 0; p < producers; p++)
        pthread_join(jobs[p].thread, NULL);
    ops->destroy(queue);
    if (sum != expected_sum(producers, each)) {
        fprintf(stderr, "%s: events were damaged\n", ops->name);
        exit(1);
    }
    return (double)(end - start) / ((double)producers * each);
}

/* A queue made for one number of producers is not run with another. */
static bool fits(const struct queue_ops *ops, unsigned producers)
{
    size_t length = strlen(ops->name);
    if (strncmp(ops->name, "wfcqueue", 8) != 0)
        return true;
    return (unsigned)(ops->name[length - 1] - '0') == producers;
}

struct samples {
    double value[MAX_ROUNDS];
    size_t count;
};

static struct samples samples[MAX_QUEUES][BENCH_DISTANCES];

static void add(unsigned queue, double before, double after, double value)
{
    double larger = before > after ? before : after;
    double mean = (before + after) / 2;
    if (larger > 1.3 * mean)
        return; /* the machine changed its state in between */
    bool far = mean >= BENCH_FAR_NS;
    struct samples *s = &samples[queue][far ? BENCH_FAR : BENCH_NEAR];
    if (s->count < MAX_ROUNDS)
        s->value[s->count++] = value;
}

static void print_throughput(unsigned producers)
{
    static const char *const names[BENCH_DISTANCES] = {"near", "far"};
    static const double must[BENCH_DISTANCES] = {4, 10};
    for (unsigned d = 0; d < BENCH_DISTANCES; d++) {
        double reference = bench_median(samples[0][d].value, samples[0][d].count);
        if (reference == 0)
            continue;
        printf("\n%u producer%s, CPUs %s (must: %.0f times the first)\n", producers,
               producers == 1 ? "" : "s", names[d], must[d]);
        for (unsigned q = 0; queue_table[q].name; q++) {
            double ns = bench_median(samples[q][d].value, samples[q][d].count);
            if (ns > 0)
                printf("  %-28s %8.0f ns/event %7.1f x   %zu runs\n", queue_table[q].name, ns,
                       reference / ns, samples[q][d].count);
        }
    }
}

static void throughput(unsigned producers, unsigned rounds)
{
    memset(samples, 0, sizeof samples);
    for (unsigned round = 0; round < rounds; round++) {
        double before = bench_round_trip();
        for (unsigned q = 0; queue_table[q].name; q++) {
            if (!fits(&queue_table[q], producers))
                continue;
            /* The reference is slow: fewer events tell as much. */
            uint32_t events = EVENTS / producers / (q == 0 ? 4 : 1);
            double ns = run(&queue_table[q], producers, events, 0, NULL);
            double after = bench_round_trip();
            add(q, before, after, ns);
            before = after;
        }
    }
    print_throughput(producers);
}

static void latency(unsigned producers, unsigned rounds)
{
    static uint32_t ticks[PACED_EVENTS];
    static struct samples p50[MAX_QUEUES], p99[MAX_QUEUES], p999[MAX_QUEUES];
    double rate = bench_ns_per_tick();
    memset(p50, 0, sizeof p50);
    memset(p99, 0, sizeof p99);
    memset(p999, 0, sizeof p999);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned q = 0; queue_table[q].name; q++) {
            if (!fits(&queue_table[q], producers))
                continue;
            uint64_t interval = (uint64_t)((double)PACE_NS * producers / rate);
            run(&queue_table[q], producers, PACED_EVENTS / producers, interval, ticks);
            p50[q].value[p50[q].count++] = bench_percentile(ticks, PACED_EVENTS, 50) * rate;
            p99[q].value[p99[q].count++] = bench_percentile(ticks, PACED_EVENTS, 99) * rate;
            p999[q].value[p999[q].count++] = bench_percentile(ticks, PACED_EVENTS, 99.9) * rate;
        }
    }
    printf("\npush at 200,000 events/s, %u producers on 2 CPUs, ns (must: 1/4, 1/2, 1/3 of the "
           "first)\n",
           producers);
    double first[3] = {0};
    for (unsigned q = 0; queue_table[q].name; q++) {
        if (p50[q].count == 0)
            continue;
        double v[3] = {bench_median(p50[q].value, p50[q].count),
                       bench_median(p99[q].value, p99[q].count),
                       bench_median(p999[q].value, p999[q].count)};
        if (q == 0)
            memcpy(first, v, sizeof first);
        printf("  %-28s p50 %6.0f (1/%.1f)  p99 %6.0f (1/%.1f)  p99.9 %6.0f (1/%.1f)\n",
               queue_table[q].name, v[0], first[0] / v[0], v[1], first[1] / v[1], v[2],
               first[2] / v[2]);
    }
}

static void held(void)
{
    double first = 0;
    printf("\nevents held in 2 MB, pushed by one CPU, nobody reads (must: 4.0 times the first)\n");
    for (unsigned q = 0; queue_table[q].name; q++) {
        if (!fits(&queue_table[q], 1))
            continue;
        void *queue = queue_table[q].create();
        uint32_t count = 0;
        queue_set_cpu(0);
        /* Each class has its threshold: count until none gets in any more. */
        for (uint32_t i = 0, misses = 0; misses < MIX_EVENTS; i++) {
            bool in = queue_table[q].push(queue, 0, mix_get()->event[i % MIX_EVENTS]);
            count += in;
            misses = in ? 0 : misses + 1;
        }
        first = q == 0 ? count : first;
        printf("  %-28s %8u %7.1f x\n", queue_table[q].name, count, count / first);
        queue_table[q].destroy(queue);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 7;
    if (rounds < 1 || rounds > (int)MAX_ROUNDS)
        rounds = 7;
    setvbuf(stdout, NULL, _IOLBF, 0);
    bool real_time = bench_real_time();
    printf("mean record %.0f bytes, queues of 2 MB; round trip of a cache line %.0f ns; %s\n",
           mix_get()->mean_bytes, bench_round_trip(),
           real_time ? "real-time scheduling" : "normal scheduling");
    throughput(1, (unsigned)rounds);
    throughput(4, (unsigned)rounds);
    latency(4, 3);
    held();
    return 0;
}
