/*
 * kda_ring.c - shards: reserving, copying and committing, loss counters. The consumer's half is in
 * kda_merge.c. docs/queue.md states the invariants that the comments here name.
 */
#include "kda_ring_int.h"

#define POSITION_UNIT 8u
/* At least this, or a quarter of a smaller shard, is kept for processes: some ten starts and ends,
 * as many as a busy machine makes while the writer is away once. */
#define KEPT_BYTES 8192u

static _Bool power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

static size_t control_bytes(const struct kda_ring_config *config)
{
    return sizeof(struct kda_ring) + config->shards * sizeof(struct ring_shard);
}

size_t kda_ring_bytes(const struct kda_ring_config *config)
{
    if (!config || !power_of_two(config->shards) || config->shards > KDA_RING_MAX_SHARDS ||
        !power_of_two(config->shard_bytes) || config->shard_bytes < KDA_RING_MIN_SHARD_BYTES ||
        config->shard_bytes > KDA_RING_MAX_SHARD_BYTES || !config->ops.time || !config->ops.cpu)
        return 0;
    return control_bytes(config) + (size_t)config->shards * config->shard_bytes;
}

/* Of a small shard the last twentieth holds not even one process start: there more is kept. */
static uint64_t class_limit(uint64_t shard_bytes, unsigned class_)
{
    uint64_t limit = shard_bytes * kda_class_percent[class_] / 100;
    uint64_t keep = shard_bytes / 4 < KEPT_BYTES ? shard_bytes / 4 : KEPT_BYTES;
    if (kda_class_percent[class_] < 100 && limit > shard_bytes - keep)
        limit = shard_bytes - keep;
    return limit;
}

struct kda_ring *kda_ring_init(void *memory, size_t bytes, const struct kda_ring_config *config)
{
    size_t need = kda_ring_bytes(config);
    if (need == 0 || bytes < need || !memory || (uintptr_t)memory % KDA_RING_ALIGNMENT != 0)
        return NULL;
    kda_clear(memory, need);
    struct kda_ring *ring = memory;
    ring->shards = (struct ring_shard *)(void *)(ring + 1);
    ring->data = (uint8_t *)memory + control_bytes(config);
    ring->shard_mask = config->shards - 1;
    ring->size = config->shard_bytes;
    ring->mask = config->shard_bytes - 1;
    ring->watermark = config->shard_bytes / 4;
    ring->urgent_classes = config->urgent_classes;
    ring->ops = config->ops;
    for (unsigned c = 0; c < KDA_CLASS_COUNT; c++)
        ring->limit[c] = class_limit(config->shard_bytes, c);
    uint64_t first = config->first_position & ~(uint64_t)(POSITION_UNIT - 1);
    for (unsigned s = 0; s < config->shards; s++) {
        struct ring_shard *shard = &ring->shards[s];
        shard->head = shard->tail_cached = shard->tail = first;
        ring->merge.front[s].pos = ring->merge.front[s].published = first;
        ring->merge.front[s].lim = ring->merge.front[s].lim2 = first;
        ring->merge.front[s].own.seen = ring->merge.front[s].spilled.seen = first;
    }
    ring->merge.stall_ticks = config->stall_ticks;
    return ring;
}

/* --- loss ------------------------------------------------------------------------------------ */

static void lower_time(uint64_t *slot, uint64_t time)
{
    uint64_t seen = kda_load64_ordered(slot);
    while (seen == 0 || time < seen) {
        if (kda_cas64_ordered(slot, &seen, time))
            return;
    }
}

static void raise_time(uint64_t *slot, uint64_t time)
{
    uint64_t seen = kda_load64_relaxed(slot);
    while (time > seen) {
        if (kda_cas64_ordered(slot, &seen, time))
            return;
    }
}

/* The order matters to kda_ring_take_loss: begun, times, bytes, count. */
static void count_loss(struct ring_shard *shard, unsigned kind, uint64_t bytes, unsigned reason,
                       uint64_t time)
{
    struct ring_losses *losses = &shard->losses[reason];
    kda_add64_ordered(&losses->begun, 1);
    KDA_RACE_POINT();
    lower_time(&losses->first, time);
    KDA_RACE_POINT();
    raise_time(&losses->last, time);
    kda_add64_relaxed(&losses->bytes, bytes);
    KDA_RACE_POINT();
    kda_add64_release(&losses->count[kind], 1);
}

void kda_ring_lose(struct kda_ring *ring, unsigned kind, uint64_t bytes,
                   enum kda_loss_reason reason)
{
    if (kind >= KDA_KIND_COUNT || (unsigned)reason >= KDA_LOSS_REASONS)
        return;
    struct ring_shard *shard = &ring->shards[ring->ops.cpu(ring->ops.context) & ring->shard_mask];
    count_loss(shard, kind, bytes, (unsigned)reason, ring->ops.time(ring->ops.context));
}

/* --- push ------------------------------------------------------------------------------------ */

/* Takes `bytes` of a shard, after a pad if they would wrap. False if the class may not have them;
 * *position is then a head that is not before any reservation this thread made earlier. */
static _Bool reserve(const struct kda_ring *ring, struct ring_shard *shard, uint32_t bytes,
                     uint64_t limit, uint64_t *position, uint64_t *used)
{
    uint64_t head = kda_load64_relaxed(&shard->head);
    uint64_t tail = kda_load64_acquire(&shard->tail_cached);
    KDA_RACE_POINT();
    for (;;) {
        uint64_t to_end = ring->size - (head & ring->mask);
        uint64_t need = bytes <= to_end ? bytes : to_end + bytes;
        if (head - tail + need > limit) {
            uint64_t fresh = kda_load64_acquire(&shard->tail);
            KDA_RACE_POINT();
            /* Full at the moment head was read. A head older than the tail says nothing. */
            if (head - fresh + need > limit && head - fresh <= ring->size) {
                *position = head;
                return 0;
            }
            if (head - fresh > ring->size) {
                head = kda_load64_relaxed(&shard->head);
                tail = fresh;
                continue;
            }
            tail = fresh;
            /* Release: who reads it must see the consumer's clearing, as we do. Writing an older
             * tail over a newer one only costs the next producer a look at the real one. */
            kda_store64_release(&shard->tail_cached, fresh);
            KDA_RACE_POINT();
        }
        if (kda_cas64_ordered(&shard->head, &head, head + need)) {
            *position = head + need - bytes;
            *used = head + need - tail;
            KDA_RACE_POINT();
            if (need != bytes)
                kda_store32_release(ring_word(ring, shard, head),
                                    RING_COMMITTED | RING_PAD | (uint32_t)to_end);
            return 1;
        }
        kda_relax();
    }
}

/* The word is stored last: until then the consumer reads the 0 it left there. */
static void commit(const struct kda_ring *ring, struct ring_shard *shard, uint64_t position,
                   const struct kda_event *event, const struct push_stamp *stamp)
{
    struct kda_event *to = ring_event(ring, shard, position);
    uint32_t bytes = event->size;
    /* Before the copy: a locked instruction behind it would wait until every line has arrived. */
    kda_add64_relaxed(&shard->accepted[event->kind], 1);
    KDA_RACE_POINT();
    kda_copy((uint8_t *)to + offsetof(struct kda_event, kind),
             (const uint8_t *)event + offsetof(struct kda_event, kind),
             bytes - offsetof(struct kda_event, kind));
    to->time = stamp->time;
    to->cpu = (uint16_t)stamp->cpu;
    to->flags =
        (uint8_t)((event->flags & ~(KDA_EVENT_SPILLED | KDA_EVENT_RELAXED | KDA_EVENT_NO_TIME)) |
                  (stamp->home ? KDA_EVENT_SPILLED : 0u));
    /* Both ends of the time in which this push was under way, in positions of its home shard. */
    to->id =
        stamp->home ? ring_window(stamp->home_head, kda_load64_ordered(&stamp->home->head)) : 0;
    KDA_RACE_POINT();
    kda_store32_release(&to->size, RING_COMMITTED | bytes);
}

/* True if up to `end` a quarter waits to be read. The tail that reserve went by is as old as the
 * last time the shard was nearly full: by that alone every push of three quarters of a lap would
 * wake. */
static _Bool filled(const struct kda_ring *ring, struct ring_shard *shard, uint64_t end)
{
    uint64_t tail = kda_load64_acquire(&shard->tail);
    KDA_RACE_POINT();
    kda_store64_release(&shard->tail_cached, tail);
    KDA_RACE_POINT();
    /* More than the shard: read already, the tail is behind `end`. */
    return end - tail >= ring->watermark && end - tail <= ring->size;
}

static unsigned queued(struct kda_ring *ring, struct ring_shard *shard, enum kda_class class_,
                       uint64_t end, uint64_t used)
{
    _Bool urgent = (ring->urgent_classes >> class_ & 1) != 0;
    if (KDA_LIKELY(used < ring->watermark && !urgent) || kda_load64_ordered(&ring->sleeping) == 0)
        return KDA_PUSH_QUEUED;
    KDA_RACE_POINT();
    if (!urgent && !filled(ring, shard, end))
        return KDA_PUSH_QUEUED;
    /* The swap makes one producer of many the one that wakes. */
    if (kda_swap64_ordered(&ring->sleeping, 0) == 0)
        return KDA_PUSH_QUEUED;
    return KDA_PUSH_QUEUED | KDA_PUSH_WAKE;
}

unsigned kda_ring_push(struct kda_ring *ring, const struct kda_event *event)
{
    if (!ring || !event || event->size < KDA_EVENT_HEAD_BYTES ||
        event->size > KDA_EVENT_MAX_BYTES || event->size % POSITION_UNIT != 0 ||
        event->kind == KDA_KIND_NONE || event->kind >= KDA_KIND_COUNT)
        return KDA_PUSH_INVALID;
    enum kda_class class_ = kda_class_of(event->kind);
    uint64_t limit = ring->limit[class_];
    struct push_stamp stamp = {.cpu = ring->ops.cpu(ring->ops.context)};
    uint32_t home = stamp.cpu & ring->shard_mask;
    struct ring_shard *shard = &ring->shards[home];
    /* Before reserving: whoever reserves behind us and is then seen by the next push of this
     * thread has a time that is not later than that push. */
    KDA_RACE_POINT();
    stamp.time = ring->ops.time(ring->ops.context);
    KDA_RACE_POINT();
    if (KDA_UNLIKELY(event->size > limit / 2)) {
        count_loss(shard, event->kind, event->size, KDA_LOSS_TOO_BIG, stamp.time);
        return KDA_PUSH_TOO_BIG;
    }
    uint64_t position = 0;
    uint64_t used = 0;
    if (KDA_UNLIKELY(!reserve(ring, shard, event->size, limit, &position, &used))) {
        stamp.home = shard;
        stamp.home_head = position;
        KDA_RACE_POINT();
        shard = &ring->shards[(home + 1) & ring->shard_mask];
        if (shard == stamp.home || !reserve(ring, shard, event->size, limit, &position, &used)) {
            count_loss(stamp.home, event->kind, event->size, KDA_LOSS_RING_FULL, stamp.time);
            return KDA_PUSH_FULL;
        }
    }
    commit(ring, shard, position, event, &stamp);
    return queued(ring, shard, class_, position + event->size, used);
}
