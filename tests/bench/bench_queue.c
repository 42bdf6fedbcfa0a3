/*
 * bench_queue.c - the ring against a locked ring of fixed slots (how this began), ck_ring, ck_fifo
 * and wfcqueue: throughput, latency of a push, events held, wake-ups, a storm of one class; at the
 * end all of it beside the targets. All alternate in one process, each run between two probes of
 * the distance of the CPUs; medians. Use the ratios, not the figures.
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

#include "common/lines.h"
#include "common/queues.h"
#include "common/targets.h"
#include "common/wakes.h"
#include "kda_ring.h"

#define MAX_QUEUES 12u
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
    for (uint64_t got = 0; ops->pop && got < (uint64_t)producers * each;) {
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
    if (ops->pop && sum != expected_sum(producers, each)) {
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

/* For the table at the end; 0: not measured. */
static struct {
    double to_reference[BENCH_DISTANCES]; /* the least of all runs with 1 and 4 producers */
    double to_library[BENCH_DISTANCES];
    double ns[BENCH_DISTANCES]; /* 1 producer */
    double latency[3];          /* of the reference, divided by ours: p50, p99, p99.9 */
    double latency_net;         /* p50, without the clock readings around the push */
    double latency_floor;       /* p50, of the reference divided by what no push can do without */
    double held;
} result;

static void keep_least(double *kept, double value)
{
    if (*kept == 0 || value < *kept)
        *kept = value;
}

static bool is_ours(unsigned queue)
{
    return strncmp(queue_table[queue].name, "kda_ring", 8) == 0;
}

/* What an own ring of one per CPU, the last of the table, did against the others. */
static void keep_throughput(unsigned producers, unsigned d, double reference)
{
    double library = 0, ours = 0;
    for (unsigned q = 1; queue_table[q].name; q++) {
        double ns = bench_median(samples[q][d].value, samples[q][d].count);
        if (is_ours(q))
            ours = ns;
        else if (ns > 0)
            keep_least(&library, ns);
    }
    if (ours == 0)
        return;
    keep_least(&result.to_reference[d], reference / ours);
    if (library > 0)
        keep_least(&result.to_library[d], library / ours);
    if (producers == 1)
        result.ns[d] = ours;
}

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
    for (unsigned d = 0; d < BENCH_DISTANCES; d++) {
        double reference = bench_median(samples[0][d].value, samples[0][d].count);
        if (reference == 0)
            continue;
        printf("\n%u producer%s, CPUs %s\n", producers, producers == 1 ? "" : "s", names[d]);
        for (unsigned q = 0; queue_table[q].name; q++) {
            double ns = bench_median(samples[q][d].value, samples[q][d].count);
            if (ns > 0)
                printf("  %-28s %8.0f ns/event %7.1f x   %zu runs\n", queue_table[q].name, ns,
                       reference / ns, samples[q][d].count);
        }
        keep_throughput(producers, d, reference);
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

struct percentiles {
    struct samples p50, p99, p999;
};

/* Ticks between two readings of the clock with nothing in between: part of every latency. */
static double empty_reading(void)
{
    static uint32_t ticks[1000];
    for (size_t i = 0; i < 1000; i++) {
        uint64_t start = bench_ticks();
        ticks[i] = (uint32_t)(bench_ticks() - start);
    }
    return bench_percentile(ticks, 1000, 50) * bench_ns_per_tick();
}

static void paced(const struct queue_ops *ops, unsigned producers, struct percentiles *to)
{
    static uint32_t ticks[PACED_EVENTS];
    double rate = bench_ns_per_tick();
    uint64_t interval = (uint64_t)((double)PACE_NS * producers / rate);
    run(ops, producers, PACED_EVENTS / producers, interval, ticks);
    to->p50.value[to->p50.count++] = bench_percentile(ticks, PACED_EVENTS, 50) * rate;
    to->p99.value[to->p99.count++] = bench_percentile(ticks, PACED_EVENTS, 99) * rate;
    to->p999.value[to->p999.count++] = bench_percentile(ticks, PACED_EVENTS, 99.9) * rate;
}

static void print_latency(const char *name, struct percentiles *p, double first[3], bool is_first)
{
    double v[3] = {bench_median(p->p50.value, p->p50.count),
                   bench_median(p->p99.value, p->p99.count),
                   bench_median(p->p999.value, p->p999.count)};
    if (is_first)
        memcpy(first, v, sizeof v);
    for (unsigned i = 0; i < 3; i++)
        result.latency[i] = first[i] / v[i];
    printf("  %-31s p50 %6.0f (1/%.1f)  p99 %6.0f (1/%.1f)  p99.9 %6.0f (1/%.1f)\n", name, v[0],
           first[0] / v[0], v[1], first[1] / v[1], v[2], first[2] / v[2]);
}

static void latency(unsigned producers, unsigned rounds)
{
    static struct percentiles all[MAX_QUEUES + 1];
    double first[3] = {0}, empty = empty_reading();
    memset(all, 0, sizeof all);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned q = 0; queue_table[q].name; q++) {
            if (fits(&queue_table[q], producers))
                paced(&queue_table[q], producers, &all[q]);
        }
        paced(&queue_floor, producers, &all[MAX_QUEUES]);
    }
    printf("\npush at 200,000 events/s, %u producers on 2 CPUs, ns, with %.0f of the clock around "
           "it\n",
           producers, empty);
    double ours = 0;
    for (unsigned q = 0; queue_table[q].name; q++) {
        if (all[q].p50.count == 0)
            continue;
        print_latency(queue_table[q].name, &all[q], first, q == 0);
        if (q == 0)
            print_latency(queue_floor.name, &all[MAX_QUEUES], first, false);
        ours = bench_median(all[q].p50.value, all[q].p50.count);
    }
    double least = bench_median(all[MAX_QUEUES].p50.value, all[MAX_QUEUES].p50.count);
    result.latency_net = ours > empty ? (first[0] - empty) / (ours - empty) : 0;
    result.latency_floor = first[0] / least;
}

/* --- events held ------------------------------------------------------------------------------ */

/* By callers on `cpus` CPUs; nobody reads. */
static uint32_t count_held(const struct queue_ops *ops, unsigned cpus)
{
    void *queue = ops->create();
    uint32_t count = 0;
    /* Each class has its threshold: count until none gets in any more. */
    for (uint32_t i = 0, misses = 0; misses < MIX_EVENTS; i++) {
        queue_set_cpu(i % cpus);
        bool in = ops->push(queue, 0, mix_get()->event[i % MIX_EVENTS]);
        count += in;
        misses = in ? 0 : misses + 1;
    }
    ops->destroy(queue);
    return count;
}

static void held(void)
{
    double first = 0;
    printf("\nevents held in 2 MB, nobody reads, pushed by 1, 2, 4 CPUs\n");
    for (unsigned q = 0; queue_table[q].name; q++) {
        if (!fits(&queue_table[q], 1))
            continue;
        uint32_t one = count_held(&queue_table[q], 1), two = count_held(&queue_table[q], 2),
                 four = count_held(&queue_table[q], 4);
        uint32_t least = one < two ? one : two;
        least = least < four ? least : four;
        first = q == 0 ? least : first;
        result.held = least / first;
        printf("  %-28s %6u %6u %6u %7.1f x\n", queue_table[q].name, one, two, four, result.held);
    }
}

/* --- a storm ---------------------------------------------------------------------------------- */

struct storm {
    uint64_t bytes, offered, lost, processes, processes_lost, read;
    bool exact;
};

/* Registry events of ten times what the ring holds, as fast as two CPUs can, with a process start
 * among each 500; the consumer takes one event for each ten pushed. */
static struct storm storm(void)
{
    const struct queue_ops *ours = queue_table;
    struct storm s = {0};
    uint64_t counts[KDA_KIND_COUNT], pushed = 0;
    while (ours[1].name)
        ours++;
    struct kda_ring *ring = ours->create();
    for (uint32_t i = 0; s.bytes < 10u * QUEUE_BYTES; i++) {
        const struct kda_event *event = mix_get()->event[i % MIX_EVENTS];
        unsigned wanted = i % 500 == 0 ? KDA_KIND_PROCESS_CREATE : KDA_KIND_REGISTRY_VALUE_SET;
        for (uint32_t k = i; event->kind != wanted; k++)
            event = mix_get()->event[k % MIX_EVENTS];
        queue_set_cpu(i & 1);
        s.bytes += event->size;
        s.processes += wanted == KDA_KIND_PROCESS_CREATE;
        s.offered++;
        pushed += (kda_ring_push(ring, event) & ~KDA_PUSH_WAKE) == KDA_PUSH_QUEUED;
        struct kda_event *out;
        if (i % 10 == 0 && kda_ring_next(ring, &out) == KDA_NEXT_EVENT)
            s.read++;
    }
    for (struct kda_event *out; kda_ring_next(ring, &out) == KDA_NEXT_EVENT;)
        s.read++;
    kda_ring_lost(ring, counts);
    for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++)
        s.lost += counts[kind];
    s.processes_lost = counts[KDA_KIND_PROCESS_CREATE];
    s.exact = s.offered == s.read + s.lost && s.read == pushed;
    ours->destroy(ring);
    return s;
}

/* --- the targets ------------------------------------------------------------------------------ */

static void throughput_targets(void)
{
    static const char *const none = "the machine was never in this state";
    static const struct target seed[BENCH_DISTANCES] = {
        {"throughput to the first design, near", 4, 5.5, TARGET_AT_LEAST, 1, "x"},
        {"throughput to the first design, far", 10, 16, TARGET_AT_LEAST, 1, "x"}};
    static const struct target library[BENCH_DISTANCES] = {
        {"to the best library queue, near", 1.0, 1.2, TARGET_AT_LEAST, 1, "x"},
        {"to the best library queue, far", 2.5, 4, TARGET_AT_LEAST, 1, "x"}};
    for (unsigned d = 0; d < BENCH_DISTANCES; d++) {
        if (result.to_reference[d] > 0)
            targets_row(&seed[d], result.to_reference[d]);
        else
            targets_missing(&seed[d], none);
        if (result.to_library[d] > 0)
            targets_row(&library[d], result.to_library[d]);
        else
            targets_missing(&library[d], result.to_reference[d] > 0 ? "none installed" : none);
    }
}

/* Nanoseconds to read a line that the other CPU has just written, in either state; 0: not met. */
static void read_lines(double ns[BENCH_DISTANCES])
{
    memset(samples, 0, sizeof samples);
    for (unsigned round = 0; round < 9; round++) {
        double before = bench_round_trip();
        double line = bench_read_line();
        add(0, before, bench_round_trip(), line);
    }
    for (unsigned d = 0; d < BENCH_DISTANCES; d++)
        ns[d] = bench_median(samples[0][d].value, samples[0][d].count);
}

/* The lines of a record at the speed at which a CPU can read what the other wrote. */
static void bound_target(const double read_line[BENCH_DISTANCES])
{
    static const struct target share = {
        "share of what reading allows, far", 40, 65, TARGET_AT_LEAST, 0, "%"};
    double percent[BENCH_DISTANCES] = {0};
    char why[80];
    for (unsigned d = 0; d < BENCH_DISTANCES; d++) {
        if (result.ns[d] > 0)
            percent[d] = 100 * read_line[d] * mix_get()->mean_bytes / 64 / result.ns[d];
    }
    snprintf(why, sizeof why, "the machine was never in this state; near: %.0f %%",
             percent[BENCH_NEAR]);
    if (percent[BENCH_FAR] > 0)
        targets_row(&share, percent[BENCH_FAR]);
    else
        targets_missing(&share, why);
}

static void print_targets(const struct storm *s, const double read_line[BENCH_DISTANCES],
                          struct wakes wakes)
{
    static const struct target latency_row[3] = {
        {"push p50: the first design's to it", 4, 6, TARGET_AT_LEAST, 1, "x"},
        {"push p99", 2, 3, TARGET_AT_LEAST, 1, "x"},
        {"push p99.9", 3, 8, TARGET_AT_LEAST, 1, "x"}};
    static const struct target hold = {
        "events held per MB, any CPUs", 4.0, 4.8, TARGET_AT_LEAST, 1, "x"};
    static const struct target lost = {
        "storm at 10 times capacity: processes lost", 0, 0, TARGET_AT_MOST, 0, ""};
    static const struct target errors = {
        "storm: events neither read nor counted", 0, 0, TARGET_AT_MOST, 0, ""};
    static const struct target wake = {
        "wake-ups at 100,000 events/s", 1000, 500, TARGET_AT_MOST, 0, "/s"};
    static const struct target cpu = {
        "consumer's CPU in the queue, same rate", 10, 4, TARGET_AT_MOST, 1, "%"};
    targets_head();
    throughput_targets();
    bound_target(read_line);
    for (unsigned i = 0; i < 3; i++)
        targets_row(&latency_row[i], result.latency[i]);
    targets_row(&hold, result.held);
    targets_row(&lost, (double)s->processes_lost);
    targets_row(&errors, (double)(s->offered - s->read - s->lost));
    targets_row(&wake, wakes.per_second);
    targets_row(&cpu, wakes.cpu_percent);
    printf("  p50 of a push without the clock around it: %.1f x; the floor, with it: %.1f x\n",
           result.latency_net, result.latency_floor);
}

static struct wakes median_wakes(bool urgent, unsigned rounds)
{
    double wakes[MAX_ROUNDS], cpu[MAX_ROUNDS];
    for (unsigned r = 0; r < rounds; r++) {
        struct wakes w = bench_wakes(urgent);
        wakes[r] = w.per_second;
        cpu[r] = w.cpu_percent;
    }
    struct wakes w = {bench_median(wakes, rounds), bench_median(cpu, rounds)};
    printf("  %-44s %6.0f wake-ups/s, %4.1f %% of a CPU\n",
           urgent ? "and at once for each of 5,000 processes/s"
                  : "woken by a quarter full or after 5 ms",
           w.per_second, w.cpu_percent);
    return w;
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
    latency(4, 5);
    held();
    printf("\nconsumer asleep between, 100,000 events/s\n");
    struct wakes wakes = median_wakes(false, 5);
    (void)median_wakes(true, 5);
    struct storm s = storm();
    printf("\nregistry storm of %.0f times the ring: %llu events offered, %llu read, %llu lost; of "
           "%llu "
           "processes %llu lost\n",
           (double)s.bytes / QUEUE_BYTES, (unsigned long long)s.offered, (unsigned long long)s.read,
           (unsigned long long)s.lost, (unsigned long long)s.processes,
           (unsigned long long)s.processes_lost);
    double read_line[BENCH_DISTANCES];
    read_lines(read_line);
    printf(
        "\na line that the other CPU has just written is read in %.1f ns near, %.1f ns far (0: not "
        "met)\n",
        read_line[BENCH_NEAR], read_line[BENCH_FAR]);
    print_targets(&s, read_line, wakes);
    return s.exact && s.processes_lost == 0 ? 0 : 1;
}
