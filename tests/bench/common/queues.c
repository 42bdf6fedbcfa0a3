#define _GNU_SOURCE
#include "queues.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#ifdef BENCH_CK
#include <ck_fifo.h>
#include <ck_ring.h>
#endif
#ifdef BENCH_URCU
#include <urcu/wfcqueue.h>
#endif

#include "kda_ring.h"

static _Thread_local unsigned my_cpu;

void queue_set_cpu(unsigned cpu)
{
    my_cpu = cpu;
}

static void *aligned(size_t bytes)
{
    void *memory = aligned_alloc(128, (bytes + 127) & ~(size_t)127);
    if (!memory)
        abort();
    memset(memory, 0, bytes);
    return memory;
}

/* --- reference: one lock, fixed slots, zeroed, copied in and out ------------------------------ */

#define FIXED_BYTES 1904u
#define FIXED_SLOTS (QUEUE_BYTES / 2048u)

union fixed {
    struct kda_event event;
    uint64_t words[FIXED_BYTES / 8];
};

struct locked {
    pthread_spinlock_t lock;
    unsigned head, count;
    uint64_t next_id, dropped;
    union fixed out;
    union fixed slot[FIXED_SLOTS];
};

static void *locked_create(void)
{
    struct locked *q = aligned(sizeof *q);
    pthread_spin_init(&q->lock, PTHREAD_PROCESS_PRIVATE);
    return q;
}

static bool locked_push(void *queue, unsigned producer, const struct kda_event *event)
{
    struct locked *q = queue;
    union fixed local;
    (void)producer;
    memset(&local, 0, sizeof local);
    memcpy(&local, event, event->size < sizeof local ? event->size : sizeof local);
    local.event.time = bench_ticks();
    pthread_spin_lock(&q->lock);
    bool room = q->count < FIXED_SLOTS;
    if (room) {
        local.event.id = q->next_id++;
        q->slot[(q->head + q->count++) % FIXED_SLOTS] = local;
    } else {
        q->dropped++;
    }
    pthread_spin_unlock(&q->lock);
    return room;
}

static const struct kda_event *locked_pop(void *queue)
{
    struct locked *q = queue;
    pthread_spin_lock(&q->lock);
    bool any = q->count > 0;
    if (any) {
        q->out = q->slot[q->head];
        q->head = (q->head + 1) % FIXED_SLOTS;
        q->count--;
    }
    pthread_spin_unlock(&q->lock);
    return any ? &q->out.event : NULL;
}

/* --- ck_ring: pointers one way, free slots the other ------------------------------------------ */

#ifdef BENCH_CK
struct slot {
    uint64_t words[2048 / 8];
};

struct ck {
    _Alignas(128) ck_ring_t full;
    _Alignas(128) ck_ring_t empty;
    ck_ring_buffer_t full_buffer[2 * FIXED_SLOTS];
    ck_ring_buffer_t empty_buffer[2 * FIXED_SLOTS];
    _Alignas(128) struct slot *held;
    _Alignas(128) struct slot slot[FIXED_SLOTS];
};

static void *ck_create(void)
{
    struct ck *q = aligned(sizeof *q);
    ck_ring_init(&q->full, 2 * FIXED_SLOTS);
    ck_ring_init(&q->empty, 2 * FIXED_SLOTS);
    for (size_t i = 0; i < FIXED_SLOTS; i++)
        ck_ring_enqueue_spmc(&q->empty, q->empty_buffer, &q->slot[i]);
    return q;
}

static bool ck_push(void *queue, unsigned producer, const struct kda_event *event)
{
    struct ck *q = queue;
    void *slot = NULL;
    (void)producer;
    if (!ck_ring_dequeue_spmc(&q->empty, q->empty_buffer, &slot))
        return false;
    memcpy(slot, event, event->size);
    ((struct kda_event *)slot)->time = bench_ticks();
    return ck_ring_enqueue_mpsc(&q->full, q->full_buffer, slot);
}

static const struct kda_event *ck_pop(void *queue)
{
    struct ck *q = queue;
    void *slot = NULL;
    if (q->held)
        ck_ring_enqueue_spmc(&q->empty, q->empty_buffer, q->held);
    q->held = NULL;
    if (!ck_ring_dequeue_mpsc(&q->full, q->full_buffer, &slot))
        return NULL;
    q->held = slot;
    return slot;
}
#endif

/* --- ck_fifo: its nodes are not those of the events; they go round in a ring of their own -------
 */

#if defined(BENCH_CK) && defined(CK_F_FIFO_MPMC)
#define BENCH_CK_FIFO
struct fifo {
    _Alignas(128) ck_fifo_mpmc_t full;
    _Alignas(128) ck_ring_t slots;
    _Alignas(128) ck_ring_t nodes;
    ck_ring_buffer_t slot_buffer[2 * FIXED_SLOTS];
    ck_ring_buffer_t node_buffer[2 * FIXED_SLOTS];
    _Alignas(128) struct slot *held;
    _Alignas(128) ck_fifo_mpmc_entry_t node[FIXED_SLOTS + 1];
    _Alignas(128) struct slot slot[FIXED_SLOTS];
};

static void *fifo_create(void)
{
    struct fifo *q = aligned(sizeof *q);
    ck_ring_init(&q->slots, 2 * FIXED_SLOTS);
    ck_ring_init(&q->nodes, 2 * FIXED_SLOTS);
    ck_fifo_mpmc_init(&q->full, &q->node[FIXED_SLOTS]);
    for (size_t i = 0; i < FIXED_SLOTS; i++) {
        ck_ring_enqueue_spmc(&q->slots, q->slot_buffer, &q->slot[i]);
        ck_ring_enqueue_spmc(&q->nodes, q->node_buffer, &q->node[i]);
    }
    return q;
}

static bool fifo_push(void *queue, unsigned producer, const struct kda_event *event)
{
    struct fifo *q = queue;
    void *slot = NULL, *node = NULL;
    (void)producer;
    if (!ck_ring_dequeue_spmc(&q->slots, q->slot_buffer, &slot))
        return false;
    /* There are as many nodes as slots, and a node comes back before its slot. */
    if (!ck_ring_dequeue_spmc(&q->nodes, q->node_buffer, &node))
        abort();
    memcpy(slot, event, event->size);
    ((struct kda_event *)slot)->time = bench_ticks();
    ck_fifo_mpmc_enqueue(&q->full, node, slot);
    return true;
}

static const struct kda_event *fifo_pop(void *queue)
{
    struct fifo *q = queue;
    ck_fifo_mpmc_entry_t *node = NULL;
    void *slot = NULL;
    if (q->held)
        ck_ring_enqueue_spmc(&q->slots, q->slot_buffer, q->held);
    q->held = NULL;
    if (!ck_fifo_mpmc_dequeue(&q->full, (void *)&slot, &node))
        return NULL;
    ck_ring_enqueue_spmc(&q->nodes, q->node_buffer, node);
    q->held = slot;
    return slot;
}
#endif

/* --- wfcqueue: each producer owns slots, which come back to it -------------------------------- */

#ifdef BENCH_URCU
struct node {
    struct cds_wfcq_node node;
    unsigned owner;
    _Alignas(64) uint64_t words[1984 / 8];
};

struct ends {
    _Alignas(128) struct cds_wfcq_head head;
    _Alignas(128) struct cds_wfcq_tail tail;
};

struct wfcq {
    struct ends full;
    struct ends empty[QUEUE_PRODUCERS];
    _Alignas(128) struct node *held;
    _Alignas(128) struct node node[FIXED_SLOTS];
};

static void *wfcq_create(void)
{
    struct wfcq *q = aligned(sizeof *q);
    cds_wfcq_init(&q->full.head, &q->full.tail);
    for (unsigned p = 0; p < QUEUE_PRODUCERS; p++)
        cds_wfcq_init(&q->empty[p].head, &q->empty[p].tail);
    return q;
}

/* How many producers there are is known only now. */
static void wfcq_share(struct wfcq *q, unsigned producers)
{
    for (unsigned i = 0; i < FIXED_SLOTS; i++) {
        unsigned p = i % producers;
        q->node[i].owner = p;
        cds_wfcq_node_init(&q->node[i].node);
        cds_wfcq_enqueue(&q->empty[p].head, &q->empty[p].tail, &q->node[i].node);
    }
}

static struct node *wfcq_take(struct ends *ends)
{
    struct cds_wfcq_node *node = __cds_wfcq_dequeue_nonblocking(&ends->head, &ends->tail);
    return node && node != CDS_WFCQ_WOULDBLOCK ? (struct node *)(void *)node : NULL;
}

static bool wfcq_push(void *queue, unsigned producer, const struct kda_event *event)
{
    struct wfcq *q = queue;
    struct node *node = wfcq_take(&q->empty[producer]);
    if (!node)
        return false;
    memcpy(node->words, event, event->size < sizeof node->words ? event->size : sizeof node->words);
    ((struct kda_event *)node->words)->time = bench_ticks();
    cds_wfcq_node_init(&node->node);
    cds_wfcq_enqueue(&q->full.head, &q->full.tail, &node->node);
    return true;
}

static const struct kda_event *wfcq_pop(void *queue)
{
    struct wfcq *q = queue;
    if (q->held) {
        struct ends *back = &q->empty[q->held->owner];
        cds_wfcq_node_init(&q->held->node);
        cds_wfcq_enqueue(&back->head, &back->tail, &q->held->node);
    }
    q->held = wfcq_take(&q->full);
    return q->held ? (const struct kda_event *)q->held->words : NULL;
}

static void *wfcq_create_one(void)
{
    struct wfcq *q = wfcq_create();
    wfcq_share(q, 1);
    return q;
}

static void *wfcq_create_four(void)
{
    struct wfcq *q = wfcq_create();
    wfcq_share(q, 4);
    return q;
}
#endif

/* --- ours ------------------------------------------------------------------------------------ */

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

static void *ring_create_shards(uint32_t shards)
{
    struct kda_ring_config config = {.shards = shards,
                                     .shard_bytes = QUEUE_BYTES / shards,
                                     .stall_ticks = UINT64_MAX,
                                     .ops = {ring_time, ring_cpu, NULL}};
    size_t bytes = kda_ring_bytes(&config);
    struct kda_ring *ring = kda_ring_init(aligned(bytes), bytes, &config);
    if (!ring)
        abort();
    return ring;
}

static void *ring_create(void)
{
    return ring_create_shards(2);
}

static void *ring_create_one(void)
{
    return ring_create_shards(1);
}

static bool ring_push(void *queue, unsigned producer, const struct kda_event *event)
{
    (void)producer;
    return kda_ring_push(queue, event) == KDA_PUSH_QUEUED;
}

static const struct kda_event *ring_pop(void *queue)
{
    struct kda_event *event = NULL;
    return kda_ring_next(queue, &event) == KDA_NEXT_EVENT ? event : NULL;
}

/* --- what no push can do without: the clock, one locked instruction, the copy -------------------
 */

struct floor {
    struct {
        _Alignas(128) uint64_t head;
        _Alignas(128) uint8_t data[QUEUE_BYTES / 2];
    } cpu[2];
};

static void *floor_create(void)
{
    return aligned(sizeof(struct floor));
}

static bool floor_push(void *queue, unsigned producer, const struct kda_event *event)
{
    struct floor *q = queue;
    unsigned cpu = my_cpu % 2;
    uint64_t time = bench_ticks();
    uint64_t at = __atomic_fetch_add(&q->cpu[cpu].head, event->size, __ATOMIC_SEQ_CST);
    uint8_t *to = q->cpu[cpu].data + (at & (QUEUE_BYTES / 4 - 1) & ~(uint64_t)7);
    (void)producer;
    memcpy(to, event, event->size);
    ((struct kda_event *)(void *)to)->time = time;
    return true;
}

const struct queue_ops queue_floor = {
    "floor: clock, locked add, copy", floor_create, floor_push, NULL, NULL, free};

const struct queue_ops queue_table[] = {
    {"locked slots (first design)", locked_create, locked_push, locked_pop, NULL, free},
#ifdef BENCH_CK
    {"ck_ring", ck_create, ck_push, ck_pop, NULL, free},
#endif
#ifdef BENCH_CK_FIFO
    {"ck_fifo", fifo_create, fifo_push, fifo_pop, NULL, free},
#endif
#ifdef BENCH_URCU
    {"wfcqueue 1", wfcq_create_one, wfcq_push, wfcq_pop, NULL, free},
    {"wfcqueue 4", wfcq_create_four, wfcq_push, wfcq_pop, NULL, free},
#endif
    {"kda_ring, 1 shard", ring_create_one, ring_push, ring_pop, NULL, free},
    {"kda_ring, 2 shards", ring_create, ring_push, ring_pop, NULL, free},
    {NULL, NULL, NULL, NULL, NULL, NULL},
};
