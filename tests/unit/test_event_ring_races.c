/*
 * The ring with someone coming in between at every step: compiled here with its race points, each
 * of which calls back. What a signal or another CPU does by chance is done here at each point in
 * turn, in one thread.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define KDA_RACE_POINTS
#include "../../event/kda_merge.c"
#include "../../event/kda_ring.c"

#include "event_ring.h"

/* At the n-th point from now (0: the next one) `action` runs, once, with points switched off or,
 * if `again` is set, armed for it at the point `again_at`. */
struct visitor {
    int at;
    void (*action)(void);
    int again_at;
    void (*again)(void);
    unsigned passed;
};
static struct visitor visitor;

void kda_race_point(void)
{
    visitor.passed++;
    if (!visitor.action || visitor.at-- > 0)
        return;
    struct visitor saved = visitor;
    memset(&visitor, 0, sizeof visitor);
    if (saved.again) {
        visitor.at = saved.again_at;
        visitor.action = saved.again;
    }
    saved.action();
    memset(&visitor, 0, sizeof visitor);
    visitor.passed = saved.passed;
}

static struct fake_time fake;
static struct kda_ring *ring;
static uint32_t next_in[4], next_out[4];
static uint64_t refused;

static void begin(uint32_t shards, uint64_t step)
{
    memset(&visitor, 0, sizeof visitor);
    memset(next_in, 0, sizeof next_in);
    memset(next_out, 0, sizeof next_out);
    refused = 0;
    fake = (struct fake_time){.time = 100, .step = step};
    struct kda_ring_config config = ring_config(shards, 4096, fake_ops(&fake));
    ring = ring_new(&config);
}

/* Order within a producer is checked only where it must hold: `producer` pushes one after the
 * other, never within itself. */
static bool push(uint32_t producer, uint32_t cpu, size_t payload)
{
    struct event_buffer buffer;
    fake.cpu = cpu;
    const struct kda_event *event =
        make_event(&buffer, KDA_KIND_PROCESS_CREATE, producer, next_in[producer], payload);
    unsigned result = kda_ring_push(ring, event) & ~KDA_PUSH_WAKE;
    if (result == KDA_PUSH_QUEUED)
        next_in[producer]++;
    else
        refused++;
    return result == KDA_PUSH_QUEUED;
}

static uint64_t drained;

static enum kda_next drain_some(uint64_t most)
{
    struct kda_event *event = NULL;
    while (most-- > 0) {
        enum kda_next next = kda_ring_next(ring, &event);
        if (next != KDA_NEXT_EVENT)
            return next;
        assert_int_equal(event->id, drained++);
        assert_true(event->pid < 4);
        assert_int_equal(event->tid, next_out[event->pid]++);
        assert_true(event_intact(event));
    }
    return KDA_NEXT_EVENT;
}

static void finish(void)
{
    struct kda_ring_loss loss = {.total = 0};
    visitor.action = NULL;
    assert_int_equal(drain_some(UINT64_MAX), KDA_NEXT_EMPTY);
    assert_memory_equal(next_in, next_out, sizeof next_in);
    assert_true(kda_ring_idle(ring));
    assert_int_equal(kda_ring_count(ring), 0);
    assert_int_equal(kda_ring_take_loss(ring, KDA_LOSS_RING_FULL, &loss), refused > 0);
    assert_int_equal(loss.total, refused);
    ring_free(ring);
    drained = 0;
}

/* --- producers in producers ------------------------------------------------------------------- */

static void nested_one(void)
{
    uint32_t cpu = fake.cpu;
    (void)push(1, cpu, 40);
    fake.cpu = cpu;
}

static void nested_two(void)
{
    uint32_t cpu = fake.cpu;
    (void)push(2, cpu, 24);
    fake.cpu = cpu;
}

static void drain_inside(void)
{
    (void)drain_some(UINT64_MAX);
}

static void drain_and_push(void)
{
    drain_inside();
    nested_one();
}

/* Fills so far that the next pushes meet a pad, a full ring, a spill. */
static void fill(unsigned records, size_t payload, unsigned read)
{
    for (unsigned i = 0; i < records; i++)
        (void)push(3, 0, payload);
    (void)drain_some(read);
}

static void visits(void (*first)(void), void (*second)(void), uint64_t step)
{
    for (unsigned records = 0; records < 40; records += 3) {
        for (unsigned read = 0; read < 2; read++) {
            for (int at = 0; at < 14; at++) {
                for (int again = 0; again < (second ? 14 : 1); again++) {
                    begin(2, step);
                    fill(records, 61, read * records / 2);
                    visitor = (struct visitor){at, first, again, second, 0};
                    (void)push(0, 0, 100);
                    visitor.action = NULL;
                    (void)push(0, 0, 30);
                    finish();
                }
            }
        }
    }
}

static void a_producer_at_every_step(void **state)
{
    (void)state;
    visits(nested_one, NULL, 1);
    visits(nested_one, NULL, 0);
}

static void two_producers_at_every_step(void **state)
{
    (void)state;
    visits(nested_one, nested_two, 1);
}

static void the_consumer_at_every_step(void **state)
{
    (void)state;
    visits(drain_inside, NULL, 1);
    visits(drain_and_push, NULL, 1);
    visits(drain_and_push, NULL, 0);
    visits(drain_and_push, nested_two, 1);
}

/* --- producers in the consumer ---------------------------------------------------------------- */

/* One thread that changes its CPU between two pushes. */
static void migrate_up(void)
{
    (void)push(0, 0, 16);
    (void)push(0, 1, 16);
}

static void migrate_down(void)
{
    (void)push(0, 1, 16);
    (void)push(0, 0, 16);
    (void)push(1, 0, 16);
}

static void a_migrating_thread_at_every_step(void **state)
{
    (void)state;
    static void (*const ways[2])(void) = {migrate_up, migrate_down};
    for (unsigned way = 0; way < 2; way++) {
        for (unsigned before = 0; before < 4; before++) {
            for (int at = 0; at < 40; at++) {
                begin(2, 1);
                for (unsigned i = 0; i < before; i++)
                    (void)push(2, i, 8);
                visitor = (struct visitor){at, ways[way], 0, NULL, 0};
                (void)drain_some(UINT64_MAX);
                finish();
            }
        }
    }
}

/* --- equal times with a busy record in between -------------------------------------------------
 */

static enum kda_next seen_inside;
static uint64_t given_inside;

static void look_inside(void)
{
    uint64_t before = drained;
    seen_inside = drain_some(UINT64_MAX);
    given_inside = drained - before;
}

static void begin_second_busy(void)
{
    /* Shard 1 holds one record of CPU 1, then the busy one; now CPU 0 spills behind it. */
    assert_true(push(0, 0, 8));
    /* The consumer takes what is older and makes room in shard 0, ... */
    fake.time = 100;
    assert_int_equal(drain_some(next_in[3] - 1), KDA_NEXT_EVENT);
    kda_ring_release(ring);
    /* ... where the next one of the same thread goes, and a busy one behind that. */
    fake.time = 200;
    assert_true(push(0, 0, 8));
    /* Points of the push: CPU read, time read, head read, reserved. */
    visitor = (struct visitor){3, look_inside, 0, NULL, 0};
    assert_true(push(2, 0, 8));
}

static void equal_times_wait_for_what_is_busy(void **state)
{
    (void)state;
    begin(2, 0);
    while (ring->shards[1].head == 0)
        assert_true(push(3, 0, 200));
    /* The consumer knows these, and reads no heads before it has given them out. */
    assert_int_equal(drain_some(1), KDA_NEXT_EVENT);
    fake.time = 200;
    assert_true(push(1, 1, 8));
    visitor = (struct visitor){3, begin_second_busy, 0, NULL, 0};
    assert_true(push(1, 1, 8));
    assert_int_equal(seen_inside, KDA_NEXT_HELD);
    assert_int_equal(given_inside, 0);
    finish();
}

/* --- losses ----------------------------------------------------------------------------------- */

static uint64_t told, told_bytes;
static uint64_t lost_times[64];
static unsigned lost_count, told_count;

static void take(void)
{
    struct kda_ring_loss loss;
    if (!kda_ring_take_loss(ring, KDA_LOSS_NO_MEMORY, &loss))
        return;
    told += loss.total;
    told_bytes += loss.bytes;
    /* In one thread losses are counted in the order in which they end. */
    for (uint64_t i = 0; i < loss.total; i++, told_count++) {
        assert_true(loss.first_time <= lost_times[told_count]);
        assert_true(loss.last_time >= lost_times[told_count]);
    }
}

static void lose(void)
{
    uint64_t time = ++fake.time;
    kda_ring_lose(ring, KDA_KIND_THREAD_EXIT, 10, KDA_LOSS_NO_MEMORY);
    lost_times[lost_count++] = time;
}

static void begin_losses(void)
{
    begin(2, 0);
    told = told_bytes = lost_count = told_count = 0;
}

static void end_losses(void)
{
    visitor.action = NULL;
    take();
    assert_int_equal(told, lost_count);
    assert_int_equal(told_bytes, 10 * lost_count);
    ring_free(ring);
}

static void losses_at_every_step(void **state)
{
    (void)state;
    for (int at = 0; at < 20; at++) {
        for (unsigned before = 0; before < 3; before++) {
            /* A take inside a loss. */
            begin_losses();
            for (unsigned i = 0; i < before; i++)
                lose();
            uint64_t time = ++fake.time;
            visitor = (struct visitor){at, take, 0, NULL, 0};
            kda_ring_lose(ring, KDA_KIND_THREAD_EXIT, 10, KDA_LOSS_NO_MEMORY);
            lost_times[lost_count++] = time;
            lose();
            end_losses();
            /* A loss inside a take. */
            begin_losses();
            for (unsigned i = 0; i < before; i++)
                lose();
            visitor = (struct visitor){at, lose, 0, NULL, 0};
            take();
            visitor.action = NULL;
            lose();
            end_losses();
        }
    }
}

/* --- sleeping --------------------------------------------------------------------------------- */

static bool woken;

static void fill_up(void)
{
    for (unsigned i = 0; i < 10; i++) {
        struct event_buffer buffer;
        fake.cpu = 0;
        const struct kda_event *event =
            make_event(&buffer, KDA_KIND_REGISTRY_VALUE_SET, 0, next_in[0]++, 100);
        woken = kda_ring_push(ring, event) & KDA_PUSH_WAKE || woken;
    }
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    for (int at = 0; at < 12; at++) {
        begin(1, 1);
        woken = false;
        visitor = (struct visitor){at, fill_up, 0, NULL, 0};
        bool sleeps = kda_ring_sleep(ring);
        visitor.action = NULL;
        if (next_in[0] == 0)
            fill_up();
        assert_true(!sleeps || woken);
        ring_free(ring);
    }
}

/* --- a clock that stands still --------------------------------------------------------------- */

/* Fills two shards, all at one time, by threads on `cpus` CPUs; every `urgent`-th event is of the
 * class that fits where others spill. Returns the steps of the consumer per event. */
static double steps_per_event(uint32_t shard_bytes, uint32_t cpus, uint32_t urgent, bool trickle)
{
    struct event_buffer buffer;
    uint64_t events = 0;
    memset(&visitor, 0, sizeof visitor);
    memset(next_in, 0, sizeof next_in);
    memset(next_out, 0, sizeof next_out);
    fake = (struct fake_time){.time = 100, .step = 0};
    struct kda_ring_config config = ring_config(2, shard_bytes, fake_ops(&fake));
    ring = ring_new(&config);
    for (uint32_t i = 0, misses = 0; misses < 8; i++) {
        uint32_t producer = i % cpus;
        unsigned kind = urgent && i / cpus % urgent == 0 ? KDA_KIND_PROCESS_CREATE
                                                         : KDA_KIND_REGISTRY_VALUE_SET;
        fake.cpu = producer;
        bool in = kda_ring_push(ring, make_event(&buffer, kind, producer, next_in[producer], 8)) ==
                  KDA_PUSH_QUEUED;
        next_in[producer] += in;
        events += in;
        misses = in ? 0 : misses + 1;
        /* The consumer makes room meanwhile, so that shards are entered, left and entered again. */
        if (trickle && i % 3 == 0 && i < shard_bytes / 128) {
            visitor.passed = 0;
            (void)drain_some(1);
        }
    }
    assert_true(events > shard_bytes / 256);
    uint64_t before_drain = drained;
    visitor.passed = 0;
    assert_int_equal(drain_some(UINT64_MAX), KDA_NEXT_EMPTY);
    assert_memory_equal(next_in, next_out, sizeof next_in);
    double steps = (double)visitor.passed / (double)(drained - before_drain);
    ring_free(ring);
    drained = 0;
    return steps;
}

/* Whatever lies in the other shard is looked at once, not once for each event. */
static void equal_times_cost_no_more_when_many_wait(void **state)
{
    (void)state;
    for (uint32_t cpus = 1; cpus <= 2; cpus++) {
        for (uint32_t urgent = 0; urgent < 4; urgent++) {
            for (unsigned trickle = 0; trickle < 2; trickle++) {
                assert_true(steps_per_event(16384, cpus, urgent, trickle) < 8);
                assert_true(steps_per_event(262144, cpus, urgent, trickle) < 8);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_producer_at_every_step),
        cmocka_unit_test(two_producers_at_every_step),
        cmocka_unit_test(the_consumer_at_every_step),
        cmocka_unit_test(a_migrating_thread_at_every_step),
        cmocka_unit_test(equal_times_wait_for_what_is_busy),
        cmocka_unit_test(equal_times_cost_no_more_when_many_wait),
        cmocka_unit_test(losses_at_every_step),
        cmocka_unit_test(no_wake_up_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
