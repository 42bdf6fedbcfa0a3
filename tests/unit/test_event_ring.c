/*
 * The ring in one thread: order, ids, refusing and counting, classes, spill, pads, wraps, wake
 * hints, losses. Threads and signals are in test_event_ring_threads.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "event_ring.h"
#include "kda_ring_int.h"

#define KIND_REGISTRY KDA_KIND_REGISTRY_VALUE_SET
#define KIND_PROCESS KDA_KIND_PROCESS_CREATE

static unsigned push(struct kda_ring *ring, unsigned kind, uint32_t producer, uint32_t sequence,
                     size_t payload)
{
    struct event_buffer buffer;
    return kda_ring_push(ring, make_event(&buffer, kind, producer, sequence, payload));
}

static void two_pushes_then_pops(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 100, .step = 1, .cpu = 3};
    struct kda_ring_config config = ring_config(1, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct kda_event *event = NULL;
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EMPTY);
    assert_int_equal(push(ring, KIND_REGISTRY, 1, 10, 20), KDA_PUSH_QUEUED);
    assert_int_equal(push(ring, KIND_PROCESS, 1, 11, 30), KDA_PUSH_QUEUED);
    assert_int_equal(kda_ring_count(ring), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
        assert_int_equal(event->id, i);
        assert_int_equal(event->tid, 10 + i);
        assert_int_equal(event->cpu, 3);
        assert_int_equal(event->flags, 0);
        assert_true(event->time > 100);
        assert_true(event_intact(event));
        assert_int_equal(kda_ring_count(ring), 1 - i);
    }
    assert_false(kda_ring_idle(ring));
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EMPTY);
    assert_true(kda_ring_idle(ring));
    ring_free(ring);
}

static void refuses_what_is_no_event(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1, .step = 1};
    struct kda_ring_config config = ring_config(1, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct event_buffer buffer;
    struct kda_event *bad = (struct kda_event *)&buffer;
    make_event(&buffer, KIND_PROCESS, 1, 1, 0);
    uint32_t size = bad->size;
    assert_int_equal(kda_ring_push(ring, NULL), KDA_PUSH_INVALID);
    assert_int_equal(kda_ring_push(NULL, bad), KDA_PUSH_INVALID);
    const uint32_t sizes[] = {
        0, 8, KDA_EVENT_HEAD_BYTES - 8, size + 4, KDA_EVENT_MAX_BYTES + 8, UINT32_MAX & ~7u};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        bad->size = sizes[i];
        assert_int_equal(kda_ring_push(ring, bad), KDA_PUSH_INVALID);
    }
    bad->size = size;
    bad->kind = 0;
    assert_int_equal(kda_ring_push(ring, bad), KDA_PUSH_INVALID);
    bad->kind = KDA_KIND_COUNT;
    assert_int_equal(kda_ring_push(ring, bad), KDA_PUSH_INVALID);
    assert_int_equal(kda_ring_count(ring), 0);
    assert_true(kda_ring_idle(ring));
    ring_free(ring);
}

static void refuses_wrong_configurations(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1, .step = 1};
    const struct kda_ring_config good = ring_config(2, 4096, fake_ops(&fake));
    size_t bytes = kda_ring_bytes(&good);
    assert_true(bytes > 8192);
    struct kda_ring_config c = good;
    const uint32_t shards[] = {0, 3, 128};
    for (size_t i = 0; i < 3; i++) {
        c.shards = shards[i];
        assert_int_equal(kda_ring_bytes(&c), 0);
    }
    c = good;
    const uint32_t sizes[] = {0, 2048, 4097, 6144, 2 * KDA_RING_MAX_SHARD_BYTES};
    for (size_t i = 0; i < 5; i++) {
        c.shard_bytes = sizes[i];
        assert_int_equal(kda_ring_bytes(&c), 0);
    }
    c = good;
    c.ops.time = NULL;
    assert_int_equal(kda_ring_bytes(&c), 0);
    c = good;
    c.ops.cpu = NULL;
    assert_int_equal(kda_ring_bytes(&c), 0);
    assert_int_equal(kda_ring_bytes(NULL), 0);
    char *memory = aligned_alloc(KDA_RING_ALIGNMENT, (bytes + 255) & ~(size_t)127);
    assert_non_null(memory);
    assert_null(kda_ring_init(memory, bytes - 1, &good));
    assert_null(kda_ring_init(memory + 8, bytes, &good));
    assert_null(kda_ring_init(NULL, bytes, &good));
    assert_non_null(kda_ring_init(memory, bytes, &good));
    free(memory);
}

/* Fills, drains and fills again with odd sizes around every wrap; all comes out as it went in. */
static void wraps(uint64_t first_position, size_t payload_step)
{
    struct fake_time fake = {.time = 1, .step = 1};
    struct kda_ring_config config = ring_config(1, 4096, fake_ops(&fake));
    config.first_position = first_position;
    struct kda_ring *ring = ring_new(&config);
    uint32_t pushed = 0, popped = 0;
    uint64_t refused = 0;
    for (unsigned round = 0; round < 400; round++) {
        for (unsigned i = 0; i < 1 + round % 40; i++) {
            size_t payload = (pushed * payload_step + round) % 700;
            unsigned result = push(ring, KIND_PROCESS, 7, pushed, payload);
            if (result == KDA_PUSH_QUEUED)
                pushed++;
            else
                refused++;
            assert_true(result == KDA_PUSH_QUEUED || result == KDA_PUSH_FULL);
        }
        struct kda_event *event = NULL;
        for (unsigned i = 0; i < 1 + round % 17; i++) {
            if (kda_ring_next(ring, &event) != KDA_NEXT_EVENT)
                break;
            assert_int_equal(event->tid, popped);
            assert_int_equal(event->id, popped);
            assert_true(event_intact(event));
            popped++;
        }
        assert_int_equal(kda_ring_count(ring), pushed - popped);
    }
    struct kda_event *event = NULL;
    while (kda_ring_next(ring, &event) == KDA_NEXT_EVENT)
        assert_int_equal(event->tid, popped++);
    assert_int_equal(popped, pushed);
    assert_true(refused > 100);
    assert_true(kda_ring_idle(ring));
    uint64_t counts[KDA_KIND_COUNT];
    kda_ring_lost(ring, counts);
    assert_int_equal(counts[KIND_PROCESS], refused);
    kda_ring_accepted(ring, counts);
    assert_int_equal(counts[KIND_PROCESS], pushed);
    /* All of the shard reads 0 again: a payload can never be taken for a word. */
    for (uint64_t i = 0; i < ring->size; i++)
        assert_int_equal(ring->data[i], 0);
    ring_free(ring);
}

static void positions_wrap(void **state)
{
    (void)state;
    const uint64_t starts[] = {0,
                               8,
                               4096 - 8,
                               ((uint64_t)1 << 32) - 4096,
                               ((uint64_t)1 << 32) - 8,
                               ((uint64_t)1 << 63) - 512,
                               UINT64_MAX - 20000,
                               UINT64_MAX};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        wraps(starts[i], 37);
        wraps(starts[i], 8);
    }
}

/* A full ring refuses, counts each, and accepts again as soon as there is room. */
static void full_refuses_and_counts(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1000, .step = 1};
    struct kda_ring_config config = ring_config(1, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct event_buffer buffer;
    uint32_t size = make_event(&buffer, KIND_PROCESS, 1, 0, 100)->size;
    uint32_t fit = 4096 / size;
    uint32_t accepted = 0;
    for (uint32_t i = 0; i < 100; i++)
        accepted += push(ring, KIND_PROCESS, 1, i, 100) == KDA_PUSH_QUEUED;
    assert_int_equal(accepted, fit);
    uint64_t first_lost = 1000 + fit + 1;
    struct kda_ring_loss loss;
    assert_false(kda_ring_take_loss(ring, KDA_LOSS_TOO_BIG, &loss));
    assert_true(kda_ring_take_loss(ring, KDA_LOSS_RING_FULL, &loss));
    assert_int_equal(loss.total, 100 - fit);
    assert_int_equal(loss.counts[KIND_PROCESS], 100 - fit);
    assert_int_equal(loss.bytes, (uint64_t)size * (100 - fit));
    assert_int_equal(loss.first_time, first_lost);
    assert_int_equal(loss.last_time, 1100);
    assert_false(kda_ring_take_loss(ring, KDA_LOSS_RING_FULL, &loss));
    struct kda_event *event = NULL;
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    kda_ring_release(ring);
    assert_int_equal(kda_ring_count(ring), fit - 1);
    unsigned result = push(ring, KIND_PROCESS, 1, 200, 8);
    assert_int_equal(result, KDA_PUSH_QUEUED);
    /* The second window starts anew. */
    assert_int_equal(push(ring, KIND_PROCESS, 1, 201, 1000), KDA_PUSH_FULL);
    assert_true(kda_ring_take_loss(ring, KDA_LOSS_RING_FULL, &loss));
    assert_int_equal(loss.total, 1);
    assert_int_equal(loss.first_time, loss.last_time);
    assert_true(loss.first_time > 1100);
    ring_free(ring);
}

static void too_big_is_its_own_reason(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1, .step = 1};
    struct kda_ring_config config = ring_config(2, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    assert_int_equal(push(ring, KIND_PROCESS, 1, 1, 2500), KDA_PUSH_TOO_BIG);
    assert_int_equal(push(ring, KIND_REGISTRY, 1, 1, 1500), KDA_PUSH_TOO_BIG);
    kda_ring_lose(ring, KDA_KIND_THREAD_CREATE, 77, KDA_LOSS_NO_MEMORY);
    kda_ring_lose(ring, KDA_KIND_COUNT, 77, KDA_LOSS_NO_MEMORY);
    struct kda_ring_loss loss;
    assert_true(kda_ring_take_loss(ring, KDA_LOSS_TOO_BIG, &loss));
    assert_int_equal(loss.total, 2);
    assert_int_equal(loss.counts[KIND_REGISTRY], 1);
    assert_true(kda_ring_take_loss(ring, KDA_LOSS_NO_MEMORY, &loss));
    assert_int_equal(loss.total, 1);
    assert_int_equal(loss.bytes, 77);
    assert_int_equal(loss.counts[KDA_KIND_THREAD_CREATE], 1);
    assert_false(kda_ring_take_loss(ring, KDA_LOSS_RING_FULL, &loss));
    ring_free(ring);
}

/* A storm of each class stops at its share; the classes above it still get in. */
static void classes_have_thresholds(void **state)
{
    (void)state;
    static const unsigned kinds[] = {KDA_KIND_REGISTRY_VALUE_SET, KDA_KIND_NETWORK_CONNECT,
                                     KDA_KIND_IMAGE_LOAD, KDA_KIND_PROCESS_CREATE};
    struct fake_time fake = {.time = 1, .step = 1};
    struct kda_ring_config config = ring_config(1, 262144, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    uint64_t used = 0;
    for (size_t k = 0; k < 4; k++) {
        uint64_t limit = (uint64_t)262144 * kda_class_percent[kda_class_of(kinds[k])] / 100;
        struct event_buffer buffer;
        uint32_t size = make_event(&buffer, kinds[k], 1, 1, 64)->size;
        unsigned got_in = 0;
        while (push(ring, kinds[k], 1, 1, 64) == KDA_PUSH_QUEUED)
            got_in++;
        assert_true(got_in > 10);
        used += (uint64_t)got_in * size;
        assert_true(used <= limit && used + size > limit);
        /* Everything below is refused from here on. */
        for (size_t j = 0; j <= k; j++)
            assert_int_equal(push(ring, kinds[j], 1, 1, 64), KDA_PUSH_FULL);
    }
    uint64_t lost[KDA_KIND_COUNT];
    kda_ring_lost(ring, lost);
    assert_int_equal(lost[KDA_KIND_PROCESS_CREATE], 2);
    assert_int_equal(lost[KDA_KIND_REGISTRY_VALUE_SET], 5);
    ring_free(ring);
}

/* In a small ring, too, a storm of all other classes leaves room for some processes. */
static void small_rings_keep_room_for_processes(void **state)
{
    (void)state;
    for (uint32_t bytes = 4096; bytes <= 131072; bytes *= 2) {
        struct fake_time fake = {.time = 1, .step = 1};
        struct kda_ring_config config = ring_config(1, bytes, fake_ops(&fake));
        struct kda_ring *ring = ring_new(&config);
        struct event_buffer buffer;
        uint64_t size = make_event(&buffer, KIND_PROCESS, 1, 1, 64)->size;
        uint64_t kept = bytes / 4 < 8192 ? bytes / 4 : 8192;
        while (push(ring, KDA_KIND_IMAGE_LOAD, 1, 1, 64) == KDA_PUSH_QUEUED)
            continue;
        uint64_t got_in = 0;
        while (push(ring, KIND_PROCESS, 1, 1, 64) == KDA_PUSH_QUEUED)
            got_in += size;
        if (bytes <= 65536)
            assert_true(got_in > kept - 2 * size); /* one of them may lie behind a pad */
        else
            assert_true(got_in > bytes / 20 - size);
        ring_free(ring);
    }
}

/* One CPU takes the burst: its own shard, then its neighbour's, then refusal. */
static void spills_to_one_other(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1, .step = 0, .cpu = 3};
    struct kda_ring_config config = ring_config(4, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct event_buffer buffer;
    uint32_t size = make_event(&buffer, KIND_PROCESS, 1, 0, 64)->size;
    uint32_t accepted = 0;
    while (push(ring, KIND_PROCESS, 1, accepted, 64) == KDA_PUSH_QUEUED)
        accepted++;
    assert_int_equal(accepted, 2 * (4096 / size));
    /* CPU 1 has its own two. */
    fake.cpu = 1;
    assert_int_equal(push(ring, KIND_PROCESS, 2, 0, 64), KDA_PUSH_QUEUED);
    struct kda_event *event = NULL;
    uint32_t next = 0, others = 0, spilled = 0;
    while (kda_ring_next(ring, &event) == KDA_NEXT_EVENT) {
        /* The clock stands still: equal times, and still in order. */
        if (event->pid == 1)
            assert_int_equal(event->tid, next++);
        else
            others++;
        spilled += (event->flags & KDA_EVENT_SPILLED) != 0;
        assert_int_equal(event->flags & KDA_EVENT_RELAXED, 0);
    }
    assert_int_equal(next, accepted);
    assert_int_equal(others, 1);
    assert_int_equal(spilled, accepted / 2);
    ring_free(ring);
}

/* Equal times, spilling to and fro while the consumer makes room in odd places. */
static void equal_times_keep_order(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 200; seed++) {
        struct fake_time fake = {.time = 5, .step = 0};
        struct kda_ring_config config = ring_config(4, 4096, fake_ops(&fake));
        struct kda_ring *ring = ring_new(&config);
        uint32_t next_in[4] = {0}, next_out[4] = {0};
        uint32_t random = seed * 2654435761u;
        for (unsigned i = 0; i < 600; i++) {
            random = random * 1664525u + 1013904223u;
            unsigned cpu = random >> 24 & 3;
            fake.cpu = cpu;
            fake.time += (random >> 20 & 15) == 0;
            if (push(ring, KIND_PROCESS, cpu, next_in[cpu], random >> 8 & 511) == KDA_PUSH_QUEUED)
                next_in[cpu]++;
            struct kda_event *event = NULL;
            for (unsigned n = random >> 28 & 3; n > 0; n--) {
                if (kda_ring_next(ring, &event) != KDA_NEXT_EVENT)
                    break;
                assert_int_equal(event->tid, next_out[event->pid]++);
            }
            if (random & 0x10000)
                kda_ring_release(ring);
        }
        struct kda_event *event = NULL;
        while (kda_ring_next(ring, &event) == KDA_NEXT_EVENT)
            assert_int_equal(event->tid, next_out[event->pid]++);
        assert_memory_equal(next_in, next_out, sizeof next_in);
        ring_free(ring);
    }
}

static void merges_by_time(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 0, .step = 1};
    struct kda_ring_config config = ring_config(8, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    for (uint32_t i = 0; i < 100; i++) {
        fake.cpu = i * 5;
        assert_int_equal(push(ring, KIND_PROCESS, 1, i, 16), KDA_PUSH_QUEUED);
    }
    struct kda_event *event = NULL;
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
        assert_int_equal(event->tid, i);
        assert_int_equal(event->cpu, i * 5);
    }
    ring_free(ring);
}

/* An event that comes late never makes time run backwards. */
static void late_event_is_marked(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 100, .step = 0};
    struct kda_ring_config config = ring_config(2, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct kda_event *event = NULL;
    push(ring, KIND_PROCESS, 1, 0, 8);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    assert_int_equal(event->flags & KDA_EVENT_RELAXED, 0);
    fake.time = 90;
    push(ring, KIND_PROCESS, 1, 1, 8);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    assert_int_equal(event->time, 100);
    assert_int_equal(event->flags & KDA_EVENT_RELAXED, KDA_EVENT_RELAXED);
    ring_free(ring);
}

/* A push that stops half-way: reserved by hand, never committed; in each of two shards. */
static void stalls(uint32_t shard)
{
    struct fake_time fake = {.time = 100, .step = 1};
    struct kda_ring_config config = ring_config(2, 4096, fake_ops(&fake));
    config.stall_ticks = 50;
    struct kda_ring *ring = ring_new(&config);
    struct kda_event *event = NULL;
    struct event_buffer buffer;
    const struct kda_event *made = make_event(&buffer, KIND_PROCESS, 1, 0, 8);
    fake.cpu = shard;
    assert_int_equal(kda_ring_push(ring, made), KDA_PUSH_QUEUED);
    uint64_t stalled = ring->shards[shard].head;
    ring->shards[shard].head += made->size;
    assert_int_equal(push(ring, KIND_PROCESS, 1, 2, 8), KDA_PUSH_QUEUED);
    fake.cpu = 1 - shard;
    assert_int_equal(push(ring, KIND_PROCESS, 2, 0, 8), KDA_PUSH_QUEUED);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    assert_int_equal(event->tid, 0);
    /* Held back until the deadline, then the other shard goes on. */
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_HELD);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_HELD);
    fake.time += 60;
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    assert_int_equal(event->pid, 2);
    assert_int_equal(event->flags & KDA_EVENT_RELAXED, KDA_EVENT_RELAXED);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_HELD);
    assert_false(kda_ring_idle(ring));
    /* The producer goes on: nothing was skipped. */
    struct kda_event *late = ring_event(ring, &ring->shards[shard], stalled);
    memcpy((uint8_t *)late + 4, (const uint8_t *)made + 4, made->size - 4);
    late->time = 101;
    late->size = RING_COMMITTED | made->size;
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    assert_int_equal(event->flags & KDA_EVENT_RELAXED, KDA_EVENT_RELAXED);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    assert_int_equal(event->tid, 2);
    assert_int_equal(event->id, 3);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EMPTY);
    assert_true(kda_ring_idle(ring));
    ring_free(ring);
}

static void stalled_producer(void **state)
{
    (void)state;
    stalls(0);
    stalls(1);
}

static void wakes_at_watermark_and_for_urgent(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1, .step = 1};
    struct kda_ring_config config = ring_config(1, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct kda_event *event = NULL;
    /* Awake: never. */
    assert_int_equal(push(ring, KIND_PROCESS, 1, 0, 8), KDA_PUSH_QUEUED);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    assert_true(kda_ring_sleep(ring));
    unsigned quiet = 0, wakes = 0;
    for (unsigned i = 0; i < 12; i++) {
        unsigned result = push(ring, KIND_REGISTRY, 1, i, 40);
        if (result & KDA_PUSH_WAKE) {
            wakes++;
            assert_true(quiet > 3);
        } else if (wakes == 0) {
            quiet++;
        }
    }
    /* One caller wakes, not each. */
    assert_int_equal(wakes, 1);
    /* Above the watermark there is no sleeping. */
    assert_false(kda_ring_sleep(ring));
    while (kda_ring_next(ring, &event) == KDA_NEXT_EVENT)
        continue;
    assert_true(kda_ring_sleep(ring));
    assert_int_equal(push(ring, KIND_PROCESS, 1, 0, 8), KDA_PUSH_QUEUED | KDA_PUSH_WAKE);
    assert_int_equal(push(ring, KIND_PROCESS, 1, 0, 8), KDA_PUSH_QUEUED);
    assert_true(kda_ring_sleep(ring));
    kda_ring_awake(ring);
    assert_int_equal(push(ring, KIND_PROCESS, 1, 0, 8), KDA_PUSH_QUEUED);
    ring_free(ring);
}

/* A quarter full is what waits, not what was pushed since the ring was last looked at: a consumer
 * that takes all each time is never woken, however often the ring goes round. */
static void wakes_for_what_waits(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1, .step = 1};
    struct kda_ring_config config = ring_config(1, 65536, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct kda_event *event = NULL;
    unsigned wakes = 0;
    for (uint32_t round = 0; round < 200; round++) {
        assert_true(kda_ring_sleep(ring));
        for (uint32_t i = 0; i < 20; i++)
            wakes += (push(ring, KIND_REGISTRY, 1, i, 100) & KDA_PUSH_WAKE) != 0;
        kda_ring_awake(ring);
        for (uint32_t i = 0; i < 20; i++)
            assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
        assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EMPTY);
    }
    assert_int_equal(wakes, 0);
    assert_true(kda_ring_sleep(ring));
    for (uint32_t i = 0; i < 200 && wakes == 0; i++)
        wakes += (push(ring, KIND_REGISTRY, 1, i, 100) & KDA_PUSH_WAKE) != 0;
    assert_int_equal(wakes, 1);
    ring_free(ring);
}

/* A registry storm of ten times the ring, with a consumer that is ten times too slow: what is lost
 * is registry, is counted, and no process is among it. */
static void storm_loses_no_process(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1, .step = 0};
    struct kda_ring_config config = ring_config(2, 65536, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct event_buffer buffer;
    struct kda_event *event = NULL;
    uint64_t bytes = 0, offered[2] = {0}, read[2] = {0}, lost[KDA_KIND_COUNT];
    for (uint32_t i = 0; bytes < 10u * 2u * 65536u; i++) {
        bool process = i % 50 == 0;
        const struct kda_event *next =
            make_event(&buffer, process ? KIND_PROCESS : KIND_REGISTRY, process,
                       (uint32_t)offered[process], 100 + i % 200);
        fake.cpu = i & 1;
        fake.time += i % 64 == 0;
        bytes += next->size;
        offered[process]++;
        unsigned result = kda_ring_push(ring, next);
        assert_true(result == KDA_PUSH_QUEUED || (result == KDA_PUSH_FULL && !process));
        if (i % 10 == 0 && kda_ring_next(ring, &event) == KDA_NEXT_EVENT)
            read[event->pid]++;
    }
    while (kda_ring_next(ring, &event) == KDA_NEXT_EVENT) {
        assert_true(event_intact(event));
        if (event->pid == 1)
            assert_true(event->tid >= read[1]); /* in order */
        read[event->pid]++;
    }
    kda_ring_lost(ring, lost);
    assert_int_equal(read[1], offered[1]);
    assert_int_equal(lost[KIND_PROCESS], 0);
    assert_int_equal(read[0] + lost[KIND_REGISTRY], offered[0]);
    assert_true(lost[KIND_REGISTRY] > offered[0] / 2);
    ring_free(ring);
}

/* The consumer's own records take ids and times in the order of the log. */
static void stamps_in_order(void **state)
{
    (void)state;
    struct fake_time fake = {.time = 1000, .step = 1};
    struct kda_ring_config config = ring_config(2, 4096, fake_ops(&fake));
    struct kda_ring *ring = ring_new(&config);
    struct event_buffer own;
    struct kda_event *mine = (struct kda_event *)&own;
    struct kda_event *event = NULL;
    make_event(&own, KDA_KIND_SENSOR_START, 4, 4, 0);
    kda_ring_stamp(ring, mine);
    assert_int_equal(mine->id, 0);
    assert_true(mine->time >= 1000);
    push(ring, KIND_PROCESS, 1, 0, 8);
    push(ring, KIND_PROCESS, 1, 1, 8);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    uint64_t time = event->time;
    fake.time += 500;
    kda_ring_stamp(ring, mine);
    assert_int_equal(mine->id, 2);
    assert_int_equal(mine->time, time); /* not now: one more is waiting */
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EVENT);
    assert_int_equal(event->id, 3);
    assert_int_equal(event->flags & KDA_EVENT_RELAXED, 0);
    assert_int_equal(kda_ring_next(ring, &event), KDA_NEXT_EMPTY);
    kda_ring_stamp(ring, mine);
    assert_true(mine->time > time + 400);
    assert_int_equal(kda_ring_next_id(ring), 5);
    ring_free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_pushes_then_pops),
        cmocka_unit_test(refuses_what_is_no_event),
        cmocka_unit_test(refuses_wrong_configurations),
        cmocka_unit_test(positions_wrap),
        cmocka_unit_test(full_refuses_and_counts),
        cmocka_unit_test(too_big_is_its_own_reason),
        cmocka_unit_test(classes_have_thresholds),
        cmocka_unit_test(small_rings_keep_room_for_processes),
        cmocka_unit_test(spills_to_one_other),
        cmocka_unit_test(equal_times_keep_order),
        cmocka_unit_test(merges_by_time),
        cmocka_unit_test(late_event_is_marked),
        cmocka_unit_test(stalled_producer),
        cmocka_unit_test(wakes_at_watermark_and_for_urgent),
        cmocka_unit_test(wakes_for_what_waits),
        cmocka_unit_test(storm_loses_no_process),
        cmocka_unit_test(stamps_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
