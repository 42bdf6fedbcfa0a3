#define _GNU_SOURCE
#include "event_ring.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t fake_now(void *context)
{
    struct fake_time *fake = context;
    fake->time += fake->step;
    return fake->time;
}

static uint32_t fake_cpu(void *context)
{
    return ((struct fake_time *)context)->cpu;
}

struct kda_ring_ops fake_ops(struct fake_time *fake)
{
    return (struct kda_ring_ops){fake_now, fake_cpu, fake};
}

static uint64_t real_now(void *context)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t divisor = *(uint64_t *)context;
    return ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) / divisor;
}

static uint32_t real_cpu(void *context)
{
    (void)context;
    return (uint32_t)sched_getcpu();
}

struct kda_ring_ops real_ops(uint64_t *divisor)
{
    return (struct kda_ring_ops){real_now, real_cpu, divisor};
}

struct kda_ring_config ring_config(uint32_t shards, uint32_t shard_bytes, struct kda_ring_ops ops)
{
    return (struct kda_ring_config){
        .shards = shards,
        .shard_bytes = shard_bytes,
        .stall_ticks = UINT64_MAX,
        .urgent_classes = 1u << KDA_CLASS_PROCESS,
        .ops = ops,
    };
}

struct kda_ring *ring_new(const struct kda_ring_config *config)
{
    size_t bytes = kda_ring_bytes(config);
    void *memory = bytes ? aligned_alloc(KDA_RING_ALIGNMENT, (bytes + 127) & ~(size_t)127) : NULL;
    if (!memory)
        abort();
    memset(memory, 0xA5, bytes);
    struct kda_ring *ring = kda_ring_init(memory, bytes, config);
    if (!ring)
        abort();
    return ring;
}

void ring_free(struct kda_ring *ring)
{
    free(ring);
}

/* Bytes that look like words of the ring: committed, pad, lengths. */
static uint8_t payload_byte(uint32_t producer, uint32_t sequence, size_t i)
{
    static const uint8_t hostile[8] = {0x40, 0x00, 0x00, 0x80, 0x08, 0x00, 0x00, 0xC0};
    return (uint8_t)(hostile[i % 8] ^ (i % 8 == 0 ? producer * 8 + sequence * 64 : 0));
}

const struct kda_event *make_event(struct event_buffer *buffer, unsigned kind, uint32_t producer,
                                   uint32_t sequence, size_t payload)
{
    struct kda_event_builder b;
    uint8_t bytes[4096];
    if (!kda_event_begin(&b, buffer, sizeof *buffer, kind, KDA_SOURCE_DRIVER))
        abort();
    b.event->pid = producer;
    b.event->tid = sequence;
    payload = payload > sizeof bytes ? sizeof bytes : payload;
    for (size_t i = 0; i < payload; i++)
        bytes[i] = payload_byte(producer, sequence, i);
    if (kda_kinds[kind].shape == KDA_SHAPE_VALUE)
        kda_event_bytes(&b, KDA_FIELD_VALUE_DATA, bytes, payload, SIZE_MAX);
    else
        kda_event_string(&b, KDA_FIELD_IMAGE, (const uint16_t *)(const void *)bytes, payload / 2);
    if (b.misused || kda_event_end(&b) == 0)
        abort();
    return b.event;
}

bool event_intact(const struct kda_event *event)
{
    struct kda_bytes payload = {NULL, 0};
    if (!kda_event_valid(event, event->size))
        return false;
    if (kda_kinds[event->kind].shape == KDA_SHAPE_VALUE) {
        if (!kda_event_get_bytes(event, KDA_FIELD_VALUE_DATA, &payload))
            return false;
    } else if (!kda_event_get_bytes(event, KDA_FIELD_IMAGE, &payload)) {
        return false;
    }
    for (size_t i = 0; i < payload.size; i++) {
        if (payload.at[i] != payload_byte(event->pid, event->tid, i))
            return false;
    }
    return true;
}
