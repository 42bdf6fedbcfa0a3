/*
 * The ring under threads: order per producer, dense ids, exact accounting, producers that
 * interrupt producers (a timer signal that pushes inside a push), producers that change their CPU,
 * counting from outside, stopping.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "event_ring.h"
#include "kda_platform.h"

#if defined(__SANITIZE_THREAD__)
#define SLOW 20u
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SLOW 20u
#endif
#endif
#ifndef SLOW
#define SLOW 1u
#endif

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define MAX_PRODUCERS 8u
#define NESTED 100u /* the signal handler of thread n is producer NESTED + n */
#define ALL_PRODUCERS (NESTED + MAX_PRODUCERS)

struct scene {
    struct kda_ring_config config;
    unsigned producers;
    unsigned pushes;
    bool lossless; /* try again until it is in */
    bool nested;
    bool hop; /* change the CPU every few pushes */
    uint64_t divisor;
};

struct producer {
    struct kda_ring *ring;
    const struct scene *scene;
    uint32_t number;
    uint32_t nested_next;
    uint64_t accepted[2]; /* own, nested */
    uint64_t refused[2];
    pthread_t thread;
};

static _Thread_local struct producer *volatile current;
static atomic_uint running;

static unsigned kind_of(uint32_t sequence)
{
    static const unsigned kinds[4] = {KDA_KIND_REGISTRY_VALUE_SET, KDA_KIND_PROCESS_CREATE,
                                      KDA_KIND_THREAD_CREATE, KDA_KIND_REGISTRY_VALUE_DELETE};
    return kinds[sequence & 3];
}

static size_t payload_of(uint32_t number, uint32_t sequence)
{
    return (number * 131 + sequence * 29) % 400;
}

static void on_timer(int signal)
{
    (void)signal;
    struct producer *p = current;
    struct event_buffer buffer;
    if (!p)
        return;
    uint32_t sequence = p->nested_next++;
    uint32_t number = NESTED + p->number;
    const struct kda_event *event =
        make_event(&buffer, kind_of(sequence), number, sequence, payload_of(number, sequence));
    unsigned result = kda_ring_push(p->ring, event) & ~KDA_PUSH_WAKE;
    if (result == KDA_PUSH_QUEUED)
        p->accepted[1]++;
    else
        p->refused[1]++;
}

static timer_t start_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    timer_t timer;
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0)
        abort();
    struct itimerspec every = {.it_interval = {.tv_nsec = 30000}, .it_value = {.tv_nsec = 30000}};
    timer_settime(timer, 0, &every, NULL);
    return timer;
}

static void change_cpu(uint32_t turn)
{
    cpu_set_t set;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    CPU_ZERO(&set);
    CPU_SET(turn % (cpus > 0 ? (uint32_t)cpus : 1), &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void *produce(void *argument)
{
    struct producer *p = argument;
    const struct scene *scene = p->scene;
    struct event_buffer buffer;
    timer_t timer = 0;
    current = p;
    if (scene->nested)
        timer = start_timer();
    for (uint32_t i = 0; i < scene->pushes; i++) {
        const struct kda_event *event =
            make_event(&buffer, kind_of(i), p->number, i, payload_of(p->number, i));
        if (scene->hop && i % 64 == 0)
            change_cpu(i / 64 + p->number);
        unsigned result;
        while ((result = kda_ring_push(p->ring, event) & ~KDA_PUSH_WAKE) != KDA_PUSH_QUEUED) {
            p->refused[0]++;
            if (!scene->lossless)
                break;
            sched_yield();
        }
        p->accepted[0] += result == KDA_PUSH_QUEUED;
    }
    if (scene->nested) {
        sigset_t block;
        sigemptyset(&block);
        sigaddset(&block, SIGUSR1);
        pthread_sigmask(SIG_BLOCK, &block, NULL);
        timer_delete(timer);
    }
    current = NULL;
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* What the consumer saw. */
struct seen {
    uint64_t events;
    uint64_t per_producer[ALL_PRODUCERS];
    uint32_t next[ALL_PRODUCERS];
    uint64_t last_time;
    uint64_t errors;
    uint64_t relaxed;
    uint64_t told_lost;
};

static void check_event(struct seen *seen, const struct scene *scene, const struct kda_event *event)
{
    uint32_t p = event->pid;
    seen->errors += p >= ALL_PRODUCERS || event->id != seen->events ||
                    event->time < seen->last_time || !event_intact(event);
    if (p < ALL_PRODUCERS) {
        bool dense = scene->lossless && p < NESTED;
        seen->errors += dense ? event->tid != seen->next[p] : event->tid < seen->next[p];
        seen->errors += event->kind != kind_of(event->tid);
        seen->next[p] = event->tid + 1;
        seen->per_producer[p]++;
    }
    seen->last_time = event->time;
    seen->relaxed += event->flags & KDA_EVENT_RELAXED;
    seen->events++;
}

static void take_losses(struct kda_ring *ring, struct seen *seen)
{
    struct kda_ring_loss loss;
    if (kda_ring_take_loss(ring, KDA_LOSS_RING_FULL, &loss)) {
        seen->told_lost += loss.total;
        seen->errors += loss.first_time == 0 || loss.first_time > loss.last_time;
    }
}

static void consume(struct kda_ring *ring, const struct scene *scene, struct seen *seen)
{
    struct kda_event *event = NULL;
    for (;;) {
        bool last = atomic_load(&running) == 0;
        enum kda_next next;
        unsigned n = 0;
        while ((next = kda_ring_next(ring, &event)) == KDA_NEXT_EVENT) {
            check_event(seen, scene, event);
            if (++n % 256 == 0) {
                take_losses(ring, seen);
                /* Never less than 0, which would be a huge number. */
                seen->errors += kda_ring_count(ring) > 1000000;
            }
        }
        if (last && next == KDA_NEXT_EMPTY)
            break;
        sched_yield();
    }
    take_losses(ring, seen);
}

static void run_scene(struct scene *scene)
{
    static struct producer producers[MAX_PRODUCERS];
    struct seen *seen = calloc(1, sizeof *seen);
    assert_non_null(seen);
    scene->config.ops = real_ops(&scene->divisor);
    scene->pushes /= SLOW;
    struct kda_ring *ring = ring_new(&scene->config);
    struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    memset(producers, 0, sizeof producers);
    atomic_store(&running, scene->producers);
    for (uint32_t i = 0; i < scene->producers; i++) {
        producers[i].ring = ring;
        producers[i].scene = scene;
        producers[i].number = i;
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    consume(ring, scene, seen);
    uint64_t accepted = 0, refused = 0, nested = 0;
    for (uint32_t i = 0; i < scene->producers; i++) {
        pthread_join(producers[i].thread, NULL);
        for (unsigned k = 0; k < 2; k++) {
            accepted += producers[i].accepted[k];
            refused += producers[i].refused[k];
        }
        nested += producers[i].accepted[1];
        assert_int_equal(seen->per_producer[i], producers[i].accepted[0]);
        assert_int_equal(seen->per_producer[NESTED + i], producers[i].accepted[1]);
        if (scene->lossless)
            assert_int_equal(producers[i].accepted[0], scene->pushes);
    }
    assert_int_equal(seen->errors, 0);
    assert_int_equal(seen->events, accepted);
    assert_int_equal(seen->told_lost, refused);
    if (scene->nested)
        assert_true(nested > 0);
    if (!scene->lossless)
        assert_true(refused > 0);
    uint64_t lost[KDA_KIND_COUNT], taken[KDA_KIND_COUNT];
    kda_ring_lost(ring, lost);
    kda_ring_accepted(ring, taken);
    for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++) {
        accepted -= taken[kind];
        refused -= lost[kind];
    }
    assert_int_equal(accepted, 0);
    assert_int_equal(refused, 0);
    assert_int_equal(kda_ring_count(ring), 0);
    assert_true(kda_ring_idle(ring));
    ring_free(ring);
    free(seen);
}

static struct scene scene_of(uint32_t shards, uint32_t bytes, unsigned producers, unsigned pushes)
{
    struct scene scene = {.producers = producers, .pushes = pushes, .divisor = 1};
    scene.config = ring_config(shards, bytes, (struct kda_ring_ops){0});
    scene.lossless = true;
    return scene;
}

static void order_per_producer(void **state)
{
    (void)state;
    const uint32_t shards[] = {1, 2, 4};
    for (size_t i = 0; i < 3; i++) {
        struct scene scene = scene_of(shards[i], 65536, 4, 100000);
        run_scene(&scene);
    }
}

/* A counter of 10 MHz: most neighbours have equal times; small shards: most pushes spill. */
static void order_with_equal_times(void **state)
{
    (void)state;
    struct scene scene = scene_of(2, 8192, 2, 200000);
    scene.divisor = 100;
    run_scene(&scene);
}

static void order_across_migration(void **state)
{
    (void)state;
    struct scene scene = scene_of(2, 32768, 4, 60000);
    scene.hop = true;
    run_scene(&scene);
}

static void nested_pushes(void **state)
{
    (void)state;
    const unsigned producers[] = {1, 2, 4};
    for (size_t i = 0; i < 3; i++) {
        struct scene scene = scene_of(2, 32768, producers[i], 100000);
        scene.nested = true;
        run_scene(&scene);
    }
}

static void nested_and_full(void **state)
{
    (void)state;
    struct scene scene = scene_of(2, 4096, 2, 300000);
    scene.nested = true;
    scene.lossless = false;
    scene.divisor = 100;
    run_scene(&scene);
}

static void positions_wrap_under_threads(void **state)
{
    (void)state;
    const uint64_t starts[] = {((uint64_t)1 << 32) - 100000, UINT64_MAX - 100000};
    for (size_t i = 0; i < 2; i++) {
        struct scene scene = scene_of(2, 16384, 2, 50000);
        scene.config.first_position = starts[i];
        run_scene(&scene);
    }
}

/* A short deadline: shards may pass over busy ones, nothing is lost or told twice. */
static void short_deadline(void **state)
{
    (void)state;
    struct scene scene = scene_of(1, 32768, 4, 60000);
    scene.config.stall_ticks = 1;
    run_scene(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_per_producer),     cmocka_unit_test(order_with_equal_times),
        cmocka_unit_test(order_across_migration), cmocka_unit_test(nested_pushes),
        cmocka_unit_test(nested_and_full),        cmocka_unit_test(positions_wrap_under_threads),
        cmocka_unit_test(short_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
