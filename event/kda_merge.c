/*
 * kda_merge.c - the consumer's half of the ring: merging the shards by time, giving ids, giving
 * room back, reporting losses.
 */
#include "kda_ring_int.h"

static uint64_t now(const struct kda_ring *ring)
{
    return ring->ops.time(ring->ops.context);
}

/* True if position `a` is before `b`; both are less than 2^63 apart. */
static _Bool before(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) < 0;
}

/* --- fronts ---------------------------------------------------------------------------------- */

/* Looks at the record at pos; steps over pads. Only the word of a pad was written, all else is
 * still clear. */
static void load_front(struct kda_ring *ring, uint32_t s)
{
    struct ring_front *front = &ring->merge.front[s];
    struct ring_shard *shard = &ring->shards[s];
    while (before(front->pos, front->lim2)) {
        uint32_t *word = ring_word(ring, shard, front->pos);
        uint32_t state = kda_load32_acquire(word);
        KDA_RACE_POINT();
        if (!(state & RING_COMMITTED)) {
            if (front->state != FRONT_BUSY)
                front->busy_since = now(ring);
            front->state = FRONT_BUSY;
            return;
        }
        if (!(state & RING_PAD)) {
            front->bytes = state & RING_LENGTH;
            front->time = ring_event(ring, shard, front->pos)->time;
            front->state = FRONT_READY;
            return;
        }
        front->state = FRONT_NONE;
        *word = 0;
        front->pos += state & RING_LENGTH;
    }
    front->state = FRONT_NONE;
}

/* Two passes. Whatever leaves lies before `lim`; what its thread pushed earlier, into whichever
 * shard, was reserved before and so lies before the `lim2` read afterwards: it is compared. With
 * one pass a thread that changed its CPU could overtake itself. */
static void read_heads(struct kda_ring *ring)
{
    uint32_t shards = ring->shard_mask + 1;
    for (uint32_t s = 0; s < shards; s++) {
        ring->merge.front[s].lim = kda_load64_ordered(&ring->shards[s].head);
        KDA_RACE_POINT();
    }
    for (uint32_t s = 0; s < shards; s++) {
        ring->merge.front[s].lim2 = kda_load64_ordered(&ring->shards[s].head);
        KDA_RACE_POINT();
    }
    for (uint32_t s = 0; s < shards; s++) {
        if (ring->merge.front[s].state == FRONT_NONE)
            load_front(ring, s);
    }
}

#define NOBODY UINT32_MAX

/* --- equal times ----------------------------------------------------------------------------- */

/* A counter of 10 MHz gives two pushes of one thread the same time. Where one of them was spilled
 * they lie in two shards. The spilled one tells where its home shard stood before and after it: a
 * record of that home is either clearly before it, or clearly behind, or was pushed by someone else
 * meanwhile. What is clear is the order in which the records were reserved, so it has no circles.
 */

static uint32_t home_of(const struct kda_ring *ring, const struct kda_event *event)
{
    return event->cpu & ring->shard_mask;
}

enum meeting {
    MEET_NOTHING, /* says nothing about this event: look on */
    MEET_OLDER,   /* was reserved before it */
    MEET_YOUNGER  /* neither this record nor one behind it was reserved before it */
};

/* A spilled event looks for records of its home that were there before it was refused. */
static enum meeting meet_own(const struct kda_event *event, const struct kda_event *other,
                             uint64_t pos)
{
    if (other->flags & KDA_EVENT_SPILLED)
        return MEET_NOTHING;
    return ring_before_refused(pos, event->id) ? MEET_OLDER : MEET_YOUNGER;
}

/* An event of its own shard, at `at`, looks for spilled ones that were reserved before it. Of those
 * behind a spilled one each was reserved after that was refused, so where the refusal came later
 * than `at` none of them is older. */
static enum meeting meet_spilled(struct ring_look *look, uint64_t at, const struct kda_event *other)
{
    if (ring_after_reserved(at, other->id))
        return MEET_OLDER;
    if (ring_before_refused(at, other->id))
        return MEET_YOUNGER;
    if (!look->passed || (int32_t)((uint32_t)other->id - look->least) < 0)
        look->least = (uint32_t)other->id;
    look->passed = 1;
    return MEET_NOTHING;
}

/* What was looked through for an earlier event need not be looked through again: it holds nothing,
 * or only spilled records that were reserved after `at`. Without this a clock that stands still
 * makes every event look through all of the other shard. */
static void resume(struct ring_look *look, const struct ring_front *theirs, uint64_t at)
{
    if (before(look->seen, theirs->pos) || (look->passed && ring_after_reserved(at, look->least))) {
        look->seen = theirs->pos;
        look->passed = 0;
    }
}

/* True if no record of the same home and time waits in the other shard it can be in. False also
 * where that cannot be known because one is busy there. */
static _Bool may_go_first(struct kda_ring *ring, uint32_t s)
{
    struct ring_front *mine = &ring->merge.front[s];
    const struct kda_event *event = ring_event(ring, &ring->shards[s], mine->pos);
    _Bool spilled = (event->flags & KDA_EVENT_SPILLED) != 0;
    uint32_t other = spilled ? home_of(ring, event) : (s + 1) & ring->shard_mask;
    const struct ring_front *theirs = &ring->merge.front[other];
    if (other == s || theirs->state != FRONT_READY || theirs->time > mine->time)
        return 1;
    struct ring_look *look = spilled ? &mine->own : &mine->spilled;
    resume(look, theirs, mine->pos);
    while (before(look->seen, theirs->lim2)) {
        uint32_t state = kda_load32_acquire(ring_word(ring, &ring->shards[other], look->seen));
        KDA_RACE_POINT();
        if (!(state & RING_COMMITTED))
            return spilled && !ring_before_refused(look->seen, event->id);
        if (!(state & RING_PAD)) {
            const struct kda_event *next = ring_event(ring, &ring->shards[other], look->seen);
            if (next->time > mine->time)
                return 1;
            enum meeting meeting = MEET_NOTHING;
            if (spilled)
                meeting = meet_own(event, next, look->seen);
            else if ((next->flags & KDA_EVENT_SPILLED) && home_of(ring, next) == s)
                meeting = meet_spilled(look, mine->pos, next);
            if (meeting != MEET_NOTHING)
                return meeting == MEET_YOUNGER;
        }
        look->seen += state & RING_LENGTH;
    }
    return 1;
}

/* NOBODY: not to be known before a busy record is finished. */
static uint32_t first_of_equals(struct kda_ring *ring, uint32_t best)
{
    uint64_t time = ring->merge.front[best].time;
    for (uint32_t s = best; s <= ring->shard_mask; s++) {
        const struct ring_front *front = &ring->merge.front[s];
        if (front->state == FRONT_READY && front->time == time && may_go_first(ring, s))
            return s;
    }
    return NOBODY;
}

/* --- choosing -------------------------------------------------------------------------------- */

struct choice {
    uint32_t shard; /* NOBODY: none */
    _Bool held;     /* a busy record holds all back */
    _Bool relaxed;  /* a busy record was passed over */
};

/* Past the deadline equal times are taken as they come. */
static void order_equals(struct kda_ring *ring, struct choice *choice)
{
    struct ring_merge *merge = &ring->merge;
    uint32_t first = first_of_equals(ring, choice->shard);
    if (first != NOBODY) {
        choice->shard = first;
        merge->unsure_since = 0;
        return;
    }
    uint64_t time = now(ring);
    if (merge->unsure_since == 0)
        merge->unsure_since = time;
    if (time - merge->unsure_since <= merge->stall_ticks)
        *choice = (struct choice){NOBODY, 1, 0};
    else
        choice->relaxed = 1;
}

/* The oldest record that is compared. A busy one could be older than all of them; after the
 * deadline its shard is left alone, never skipped. */
static struct choice choose(struct kda_ring *ring)
{
    struct choice choice = {NOBODY, 0, 0};
    struct ring_front *fronts = ring->merge.front;
    uint32_t equals = 0;
    for (uint32_t s = 0; s <= ring->shard_mask; s++) {
        struct ring_front *front = &fronts[s];
        if (KDA_UNLIKELY(front->state == FRONT_BUSY)) {
            load_front(ring, s);
            if (front->state == FRONT_BUSY) {
                if (now(ring) - front->busy_since <= ring->merge.stall_ticks) {
                    return (struct choice){NOBODY, 1, 0};
                }
                choice.relaxed = 1;
            }
        }
        if (front->state != FRONT_READY)
            continue;
        if (choice.shard == NOBODY || front->time < fronts[choice.shard].time) {
            choice.shard = s;
            equals = 0;
        } else if (front->time == fronts[choice.shard].time) {
            equals++;
        }
    }
    if (KDA_UNLIKELY(equals != 0))
        order_equals(ring, &choice);
    return choice;
}

/* --- handing out ----------------------------------------------------------------------------- */

static void publish(struct kda_ring *ring, uint32_t s)
{
    struct ring_front *front = &ring->merge.front[s];
    if (front->published == front->pos)
        return;
    front->published = front->pos;
    kda_store64_release(&ring->shards[s].tail, front->pos);
}

/* Clears the record that was handed out, so that a later lap reads 0 wherever it may look for a
 * word, and only then lets producers have the room. */
static void finish_handed(struct kda_ring *ring)
{
    struct ring_merge *merge = &ring->merge;
    if (!merge->has_handed)
        return;
    uint32_t s = merge->handed;
    struct ring_front *front = &merge->front[s];
    kda_clear(ring_at(ring, &ring->shards[s], front->pos), front->bytes);
    KDA_RACE_POINT();
    front->pos += front->bytes;
    front->state = FRONT_NONE;
    merge->has_handed = 0;
    if (front->pos - front->published >= ring->size / 8)
        publish(ring, s);
    load_front(ring, s);
}

void kda_ring_release(struct kda_ring *ring)
{
    finish_handed(ring);
    for (uint32_t s = 0; s <= ring->shard_mask; s++)
        publish(ring, s);
}

static void hand_out(struct kda_ring *ring, const struct choice *choice, struct kda_event **event)
{
    struct ring_merge *merge = &ring->merge;
    struct ring_front *front = &merge->front[choice->shard];
    struct kda_event *record = ring_event(ring, &ring->shards[choice->shard], front->pos);
    record->size = front->bytes;
    record->id = merge->next_id++;
    if (choice->relaxed)
        record->flags |= KDA_EVENT_RELAXED;
    if (KDA_UNLIKELY(record->time < merge->last_time)) {
        record->time = merge->last_time;
        record->flags |= KDA_EVENT_RELAXED;
    }
    merge->last_time = record->time;
    merge->unsure_since = 0;
    merge->handed = choice->shard;
    merge->has_handed = 1;
    kda_store64_release(&ring->popped, ring->popped + 1);
    *event = record;
}

enum kda_next kda_ring_next(struct kda_ring *ring, struct kda_event **event)
{
    finish_handed(ring);
    for (unsigned round = 0; round < 2; round++) {
        struct choice choice = choose(ring);
        if (choice.shard != NOBODY &&
            before(ring->merge.front[choice.shard].pos, ring->merge.front[choice.shard].lim)) {
            hand_out(ring, &choice, event);
            return KDA_NEXT_EVENT;
        }
        if (choice.held || round == 1) {
            kda_ring_release(ring);
            return choice.held || choice.relaxed ? KDA_NEXT_HELD : KDA_NEXT_EMPTY;
        }
        uint64_t time = now(ring);
        read_heads(ring);
        ring->merge.empty_time = time;
    }
    return KDA_NEXT_EMPTY;
}

void kda_ring_stamp(struct kda_ring *ring, struct kda_event *event)
{
    struct ring_merge *merge = &ring->merge;
    _Bool empty = 1;
    for (uint32_t s = 0; s <= ring->shard_mask; s++)
        empty = empty && merge->front[s].state == FRONT_NONE;
    /* A time of now would be later than that of events still to come out. */
    if (empty && !merge->has_handed && merge->empty_time > merge->last_time)
        merge->last_time = merge->empty_time;
    if (merge->last_time == 0)
        merge->last_time = now(ring);
    event->time = merge->last_time;
    event->id = merge->next_id++;
}

uint64_t kda_ring_next_id(const struct kda_ring *ring)
{
    return ring->merge.next_id;
}

/* --- sleeping -------------------------------------------------------------------------------- */

/* The flag first, then the heads; a push does the reverse: one of the two sees the other. */
_Bool kda_ring_sleep(struct kda_ring *ring)
{
    kda_ring_release(ring);
    kda_swap64_ordered(&ring->sleeping, 1);
    KDA_RACE_POINT();
    for (uint32_t s = 0; s <= ring->shard_mask; s++) {
        uint64_t head = kda_load64_ordered(&ring->shards[s].head);
        if (head - ring->merge.front[s].pos >= ring->watermark) {
            kda_ring_awake(ring);
            return 0;
        }
    }
    return 1;
}

void kda_ring_awake(struct kda_ring *ring)
{
    kda_swap64_ordered(&ring->sleeping, 0);
}

/* --- counters -------------------------------------------------------------------------------- */

uint64_t kda_ring_count(const struct kda_ring *ring)
{
    /* What was popped was accepted before, so reading in this order never gives less than 0. */
    uint64_t popped = kda_load64_acquire(&ring->popped);
    uint64_t accepted = 0;
    for (uint32_t s = 0; s <= ring->shard_mask; s++) {
        for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++)
            accepted += kda_load64_relaxed(&ring->shards[s].accepted[kind]);
    }
    return accepted - popped;
}

void kda_ring_accepted(const struct kda_ring *ring, uint64_t *counts)
{
    kda_clear(counts, KDA_KIND_COUNT * sizeof *counts);
    for (uint32_t s = 0; s <= ring->shard_mask; s++) {
        for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++)
            counts[kind] += kda_load64_relaxed(&ring->shards[s].accepted[kind]);
    }
}

void kda_ring_lost(const struct kda_ring *ring, uint64_t *counts)
{
    kda_clear(counts, KDA_KIND_COUNT * sizeof *counts);
    for (uint32_t s = 0; s <= ring->shard_mask; s++) {
        for (unsigned reason = 0; reason < KDA_LOSS_REASONS; reason++) {
            for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++)
                counts[kind] += kda_load64_acquire(&ring->shards[s].losses[reason].count[kind]);
        }
    }
}

/* Adds one shard. True if a producer may have left its time here and not yet its count: then the
 * first time is also that of the next take. */
static _Bool gather_loss(struct ring_losses *losses, struct kda_ring_loss *sum, uint64_t *first)
{
    uint64_t counted = 0;
    for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++) {
        uint64_t count = kda_load64_acquire(&losses->count[kind]);
        sum->counts[kind] += count;
        counted += count;
    }
    KDA_RACE_POINT();
    if (counted == 0 && kda_load64_ordered(&losses->begun) == 0)
        return 0;
    uint64_t mine = kda_swap64_ordered(&losses->first, 0);
    KDA_RACE_POINT();
    uint64_t last = kda_load64_acquire(&losses->last);
    KDA_RACE_POINT();
    sum->bytes += kda_load64_relaxed(&losses->bytes);
    if (mine != 0 && (*first == 0 || mine < *first))
        *first = mine;
    if (last > sum->last_time)
        sum->last_time = last;
    return kda_load64_ordered(&losses->begun) != counted;
}

_Bool kda_ring_take_loss(struct kda_ring *ring, enum kda_loss_reason reason,
                         struct kda_ring_loss *loss)
{
    unsigned r = (unsigned)reason;
    if (r >= KDA_LOSS_REASONS)
        return 0;
    struct kda_ring_loss sum;
    kda_clear(&sum, sizeof sum);
    uint64_t first = ring->merge.carried_first[r];
    _Bool in_flight = 0;
    for (uint32_t s = 0; s <= ring->shard_mask; s++)
        in_flight = gather_loss(&ring->shards[s].losses[r], &sum, &first) || in_flight;
    ring->merge.carried_first[r] = first;
    for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++) {
        uint64_t fresh = sum.counts[kind] - ring->merge.told_counts[r][kind];
        ring->merge.told_counts[r][kind] = sum.counts[kind];
        sum.counts[kind] = fresh;
        sum.total += fresh;
    }
    if (sum.total == 0)
        return 0;
    if (!in_flight)
        ring->merge.carried_first[r] = 0;
    uint64_t bytes = sum.bytes;
    sum.bytes -= ring->merge.told_bytes[r];
    ring->merge.told_bytes[r] = bytes;
    sum.first_time = first;
    *loss = sum;
    return 1;
}

_Bool kda_ring_idle(const struct kda_ring *ring)
{
    for (uint32_t s = 0; s <= ring->shard_mask; s++) {
        uint64_t tail = kda_load64_acquire(&ring->shards[s].tail);
        if (kda_load64_ordered(&ring->shards[s].head) != tail)
            return 0;
    }
    return 1;
}
