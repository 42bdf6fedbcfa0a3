#define _GNU_SOURCE
#include "wakes.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kda_ring.h"
#include "mix.h"

#define PRODUCERS 2u
#define EVENTS 25000u /* of each: half a second */
#define INTERVAL_NS 20000u
#define WAIT_NS 5000000
#define SHARD_BYTES (1u << 20)

struct producer {
    struct kda_ring *ring;
    unsigned number;
    pthread_t thread;
};

static _Thread_local uint32_t my_cpu;
static atomic_uint signalled; /* the consumer's event */

static uint64_t ring_time(void *context)
{
    (void)context;
    return bench_ticks();
}

static uint32_t ring_cpu(void *context)
{
    (void)context;
    return my_cpu;
}

static void *produce(void *argument)
{
    struct producer *me = argument;
    uint64_t interval = (uint64_t)(INTERVAL_NS / bench_ns_per_tick());
    my_cpu = me->number;
    /* Not on the consumer's CPU: its share of that is measured. */
    bench_pin(0);
    uint64_t due = bench_ticks() + interval * me->number / PRODUCERS;
    for (uint32_t i = 0; i < EVENTS; i++) {
        while (bench_ticks() < due)
            sched_yield();
        due += interval;
        const struct kda_event *event = mix_get()->event[(i + 64 * me->number) % MIX_EVENTS];
        unsigned result = kda_ring_push(me->ring, event);
        while (result == KDA_PUSH_FULL) { /* the machine stood still for a while */
            sched_yield();
            result = kda_ring_push(me->ring, event);
        }
        if (result & KDA_PUSH_WAKE) {
            atomic_store(&signalled, 1);
            syscall(SYS_futex, &signalled, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        }
    }
    return NULL;
}

static struct kda_ring *make_ring(bool urgent)
{
    struct kda_ring_config config = {.shards = PRODUCERS,
                                     .shard_bytes = SHARD_BYTES,
                                     .stall_ticks = UINT64_MAX,
                                     .urgent_classes = urgent ? 1u << KDA_CLASS_PROCESS : 0,
                                     .ops = {ring_time, ring_cpu, NULL}};
    size_t bytes = kda_ring_bytes(&config);
    void *memory = aligned_alloc(KDA_RING_ALIGNMENT, (bytes + 127) & ~(size_t)127);
    struct kda_ring *ring = memory ? kda_ring_init(memory, bytes, &config) : NULL;
    if (!ring)
        abort();
    return ring;
}

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* As the driver's writer waits. */
static void wait_for_events(struct kda_ring *ring)
{
    const struct timespec timeout = {.tv_nsec = WAIT_NS};
    if (kda_ring_sleep(ring))
        syscall(SYS_futex, &signalled, FUTEX_WAIT_PRIVATE, 0, &timeout, NULL, 0);
    atomic_store(&signalled, 0);
    kda_ring_awake(ring);
}

struct wakes bench_wakes(bool urgent)
{
    static volatile uint64_t sink;
    struct producer producers[PRODUCERS];
    struct kda_ring *ring = make_ring(urgent);
    uint64_t wakes = 0, sum = 0;
    (void)mix_get();
    (void)bench_ns_per_tick();
    atomic_store(&signalled, 0);
    bench_pin(1);
    uint64_t start = bench_ns(), cpu = thread_ns();
    for (unsigned p = 0; p < PRODUCERS; p++) {
        producers[p] = (struct producer){.ring = ring, .number = p};
        if (pthread_create(&producers[p].thread, NULL, produce, &producers[p]) != 0)
            abort();
    }
    for (uint64_t got = 0; got < (uint64_t)PRODUCERS * EVENTS;) {
        struct kda_event *event;
        if (kda_ring_next(ring, &event) != KDA_NEXT_EVENT) {
            wait_for_events(ring);
            wakes++;
            continue;
        }
        const uint64_t *word = (const uint64_t *)(const void *)event;
        for (uint32_t i = 0; i < event->size / 8; i++)
            sum += word[i];
        got++;
    }
    cpu = thread_ns() - cpu;
    uint64_t wall = bench_ns() - start;
    for (unsigned p = 0; p < PRODUCERS; p++)
        pthread_join(producers[p].thread, NULL);
    sink = sum; /* so that the reading is not left out */
    (void)sink;
    free(ring);
    return (struct wakes){.per_second = (double)wakes * 1e9 / (double)wall,
                          .cpu_percent = 100.0 * (double)cpu / (double)wall};
}
