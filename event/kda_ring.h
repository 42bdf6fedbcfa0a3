/*
 * kda_ring.h - the queue between many callbacks and one writer: a byte ring per CPU (shard),
 * merged by time.
 *
 * Any number of producers at any interrupt level, also nested in each other on one CPU; none ever
 * waits. One consumer. Nothing is overwritten: when a shard is full (for the class of the event)
 * and its neighbour too, the newest event is refused and counted exactly. docs/queue.md says why
 * it is built like this and what is guaranteed.
 */
#ifndef KDA_RING_H
#define KDA_RING_H

#include "kda_event.h"

#define KDA_RING_MAX_SHARDS 64u
#define KDA_RING_MIN_SHARD_BYTES 4096u
#define KDA_RING_MAX_SHARD_BYTES 16777216u
/* With shards of this size no record is ever too big for its class. */
#define KDA_RING_DEFAULT_SHARD_BYTES 1048576u
#define KDA_RING_ALIGNMENT 128u

struct kda_ring;

/* What the ring asks of its surroundings. Called in the push (and `time` also by the consumer), so
 * both must be callable at every IRQL of every producer. */
struct kda_ring_ops {
    uint64_t (*time)(void *context); /* performance counter: consistent across CPUs, never 0 */
    uint32_t (*cpu)(void *context);  /* any number; it is used modulo the number of shards */
    void *context;
};

struct kda_ring_config {
    uint32_t shards; /* power of two, 1 .. KDA_RING_MAX_SHARDS; min(CPUs, 16) is a good start */
    uint32_t shard_bytes; /* power of two, KDA_RING_MIN_SHARD_BYTES .. MAX */
    /* How long (in counter ticks) an event that was begun and not finished holds back the others.
     */
    uint64_t stall_ticks;
    uint32_t urgent_classes; /* bit of each class that wakes a sleeping consumer at once */
    uint64_t first_position; /* 0; tests start near a wrap. Rounded down to a multiple of 8 */
    struct kda_ring_ops ops;
};

/* Bytes of memory the ring needs; 0 if the configuration is wrong. */
size_t kda_ring_bytes(const struct kda_ring_config *config);
/* Builds a ring in the caller's memory (KDA_RING_ALIGNMENT, never paged out), which the caller
 * frees when no producer and no consumer is left. NULL if the configuration, size or alignment is
 * wrong. */
struct kda_ring *kda_ring_init(void *memory, size_t bytes, const struct kda_ring_config *config);

/* --- producers ------------------------------------------------------------------------------- */

/* Result of a push: one of the first four; WAKE may be added to QUEUED. */
#define KDA_PUSH_QUEUED 0u
#define KDA_PUSH_FULL 1u    /* refused and counted as ring_full */
#define KDA_PUSH_TOO_BIG 2u /* refused and counted as too_big */
#define KDA_PUSH_INVALID 3u /* NULL, or no record: refused, nothing to count */
#define KDA_PUSH_WAKE 4u    /* the consumer sleeps and should be woken, by this caller alone */

/* Copies the record into the ring of this CPU; reads time and CPU number on the way. The caller
 * holds the thread on its CPU (NT: IRQL raised to DISPATCH_LEVEL or above) and `event` is not
 * pageable: a producer that stops half-way holds back the consumer up to stall_ticks. Correct, if
 * slower, without both. */
unsigned kda_ring_push(struct kda_ring *ring, const struct kda_event *event);
/* Counts an event that never became a record (no memory for it). Any level. */
void kda_ring_lose(struct kda_ring *ring, unsigned kind, uint64_t bytes,
                   enum kda_loss_reason reason);

/* --- the consumer: one thread at a time ------------------------------------------------------ */

enum kda_next {
    KDA_NEXT_EVENT,
    KDA_NEXT_EMPTY,
    KDA_NEXT_HELD /* there are events, but one before them is not finished: ask again soon */
};

/* Hands out the oldest event in place, with its id. It is valid, and may be changed, until the
 * next call of kda_ring_next or kda_ring_release. Times never go backwards: an event that comes
 * out after a later one is given the time of that one and KDA_EVENT_RELAXED. */
enum kda_next kda_ring_next(struct kda_ring *ring, struct kda_event **event);
/* Gives back all room of events handed out; done by kda_ring_next too, in larger steps. */
void kda_ring_release(struct kda_ring *ring);
/* Gives a record of the consumer's own (sensor.*) its id and a time in the order of the log. */
void kda_ring_stamp(struct kda_ring *ring, struct kda_event *event);
uint64_t kda_ring_next_id(const struct kda_ring *ring);

/* Before waiting: true if the consumer may wait. From then on a push that fills a quarter of its
 * shard, or is urgent, asks its caller to wake the consumer. The consumer waits with a timeout
 * (5-10 ms): no wake-up is promised for the rest. */
_Bool kda_ring_sleep(struct kda_ring *ring);
void kda_ring_awake(struct kda_ring *ring);

/* Losses of one reason since the last take. */
struct kda_ring_loss {
    uint64_t counts[KDA_KIND_COUNT];
    uint64_t total;
    uint64_t bytes;
    /* No lost event counted here is older or younger, in counter ticks. */
    uint64_t first_time;
    uint64_t last_time;
};
/* False, and `loss` untouched, if there were none. */
_Bool kda_ring_take_loss(struct kda_ring *ring, enum kda_loss_reason reason,
                         struct kda_ring_loss *loss);

/* --- any thread, any time -------------------------------------------------------------------- */

/* Events that are in the ring at some moment during the call. */
uint64_t kda_ring_count(const struct kda_ring *ring);
/* Totals since init, indexed by kind, KDA_KIND_COUNT long. offered = accepted + lost. */
void kda_ring_accepted(const struct kda_ring *ring, uint64_t *counts);
void kda_ring_lost(const struct kda_ring *ring, uint64_t *counts);
/* True if no room is taken: no event waits and no push is under way. With all producers gone
 * this is the end of a drain. */
_Bool kda_ring_idle(const struct kda_ring *ring);

#endif
