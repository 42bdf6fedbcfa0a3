/*
 * event_ring.h - what the tests of the ring share: clocks, a ring in fresh memory, small events
 * that carry a producer and a sequence number.
 */
#ifndef EVENT_RING_H
#define EVENT_RING_H

#include <stdbool.h>
#include <stdint.h>

#include "kda_ring.h"

/* A clock and a CPU that the test sets. `step` is added by every reading. */
struct fake_time {
    uint64_t time;
    uint64_t step;
    uint32_t cpu;
};
struct kda_ring_ops fake_ops(struct fake_time *fake);
/* Nanoseconds of the machine and the real CPU; `divisor` (context) makes the clock coarse. */
struct kda_ring_ops real_ops(uint64_t *divisor);

struct kda_ring_config ring_config(uint32_t shards, uint32_t shard_bytes, struct kda_ring_ops ops);
/* Never NULL; ends the program if there is no memory. The memory begins dirty. */
struct kda_ring *ring_new(const struct kda_ring_config *config);
void ring_free(struct kda_ring *ring);

/* Room for the largest event the tests push. */
#define EVENT_WORDS 8192
struct event_buffer {
    uint64_t words[EVENT_WORDS];
};

/* A registry.value_set or other event; `payload` bytes go into `data` (VALUE kinds) or the image.
 * pid is the producer, tid the sequence number. All payload bytes are made from both. */
const struct kda_event *make_event(struct event_buffer *buffer, unsigned kind, uint32_t producer,
                                   uint32_t sequence, size_t payload);
/* True if the payload is what make_event made. */
bool event_intact(const struct kda_event *event);

#endif
