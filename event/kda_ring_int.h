/*
 * kda_ring_int.h - the inside of the ring, shared by its producers' half (kda_ring.c) and its
 * consumer's half (kda_merge.c).
 */
#ifndef KDA_RING_INT_H
#define KDA_RING_INT_H

#include "kda_platform.h"
#include "kda_ring.h"

/* First word of what lies in a shard. 0 while it is being written. */
#define RING_COMMITTED 0x80000000u
#define RING_PAD 0x40000000u
#define RING_LENGTH 0x00FFFFFFu
_Static_assert(KDA_EVENT_MAX_BYTES <= RING_LENGTH, "length of a record");
_Static_assert(KDA_RING_MAX_SHARD_BYTES - 1 <= RING_LENGTH, "length of a pad");

/* Of one reason. `begun` runs ahead of the sum of `count` while a producer is counting. */
struct ring_losses {
    uint64_t begun;
    uint64_t bytes;
    uint64_t first; /* 0: none since the last take */
    uint64_t last;
    uint64_t count[KDA_KIND_COUNT];
};

/* Positions count bytes since first_position and may wrap at 2^64; only differences are used. */
struct ring_shard {
    /* Producers. */
    _Alignas(KDA_APART) uint64_t head;
    uint64_t tail_cached; /* a tail some producer has seen; may be old */
    uint64_t accepted[KDA_KIND_COUNT];
    /* Producers, when they lose. */
    _Alignas(KDA_APART) struct ring_losses losses[KDA_LOSS_REASONS];
    /* The consumer; producers read it when tail_cached does not help. */
    _Alignas(KDA_APART) uint64_t tail;
};

enum front_state {
    FRONT_NONE,  /* nothing between pos and lim2 */
    FRONT_READY, /* `time`, `bytes` describe the record at pos */
    FRONT_BUSY   /* reserved, not committed */
};

/* How far another shard was looked through for records older than the front of this one. */
struct ring_look {
    uint64_t seen;  /* up to here, from the front of that shard on */
    uint32_t least; /* smallest head, as in ring_window, of the spilled records passed on the way */
    _Bool passed;   /* there were some */
};

/* The consumer's view of one shard. */
struct ring_front {
    uint64_t pos;  /* of the next record */
    uint64_t lim;  /* records before it may leave */
    uint64_t lim2; /* records before it are compared */
    uint64_t published;
    uint64_t time;
    uint64_t busy_since; /* FRONT_BUSY: when it was first seen so */
    uint32_t bytes;
    uint8_t state;
    struct ring_look own;     /* for spilled fronts: their home was looked through for its own */
    struct ring_look spilled; /* for others: the next shard was looked through for spilled ones */
};

struct ring_merge {
    uint64_t next_id;
    uint64_t last_time;  /* of the last event handed out */
    uint64_t empty_time; /* read before the heads that said: empty */
    uint64_t stall_ticks;
    uint64_t unsure_since; /* equal times that cannot be ordered yet; 0: none */
    uint32_t handed;       /* shard of the record handed out */
    _Bool has_handed;
    struct ring_front front[KDA_RING_MAX_SHARDS];
    /* What kda_ring_take_loss has told, by reason. */
    uint64_t told_counts[KDA_LOSS_REASONS][KDA_KIND_COUNT];
    uint64_t told_bytes[KDA_LOSS_REASONS];
    uint64_t carried_first[KDA_LOSS_REASONS];
};

struct kda_ring {
    /* Read by all, written at init. */
    struct ring_shard *shards;
    uint8_t *data;
    uint64_t size; /* of one shard */
    uint64_t mask;
    uint64_t watermark;
    uint64_t limit[KDA_CLASS_COUNT];
    uint32_t shard_mask;
    uint32_t urgent_classes;
    struct kda_ring_ops ops;
    /* Written by the consumer when it sleeps, by the producer that wakes it. */
    _Alignas(KDA_APART) uint64_t sleeping;
    /* The consumer; read by kda_ring_count. */
    _Alignas(KDA_APART) uint64_t popped;
    /* The consumer alone. */
    _Alignas(KDA_APART) struct ring_merge merge;
};

/* What a push adds to the caller's record. */
struct push_stamp {
    uint64_t time;
    uint32_t cpu;
    struct ring_shard *home; /* spilled: the shard that refused, else NULL */
    uint64_t home_head;      /* spilled: its head when it refused */
};

/* A spilled record keeps two heads of its home shard in `id` until it leaves: when that refused it,
 * and after it was reserved elsewhere. 32 bits of 8-byte units are enough to compare positions that
 * are less than 16 GiB apart. */
static inline uint64_t ring_window(uint64_t refused, uint64_t reserved)
{
    return refused / 8 << 32 | (reserved / 8 & UINT32_MAX);
}

static inline _Bool ring_before_refused(uint64_t position, uint64_t window)
{
    return (int32_t)((uint32_t)(position / 8) - (uint32_t)(window >> 32)) < 0;
}

static inline _Bool ring_after_reserved(uint64_t position, uint64_t window)
{
    return (int32_t)((uint32_t)(position / 8) - (uint32_t)window) >= 0;
}

static inline uint8_t *ring_at(const struct kda_ring *ring, const struct ring_shard *shard,
                               uint64_t position)
{
    size_t index = (size_t)(shard - ring->shards);
    return ring->data + index * (size_t)ring->size + (size_t)(position & ring->mask);
}

static inline uint32_t *ring_word(const struct kda_ring *ring, const struct ring_shard *shard,
                                  uint64_t position)
{
    return (uint32_t *)(void *)ring_at(ring, shard, position);
}

static inline struct kda_event *ring_event(const struct kda_ring *ring,
                                           const struct ring_shard *shard, uint64_t position)
{
    return (struct kda_event *)(void *)ring_at(ring, shard, position);
}

#endif
