/*
 * list.c - the one walker for LIST_ENTRY rings in hostile memory.
 */
#include <string.h>

#include "internal.h"

/* Marks of a node in `seen`. */
#define MET_FORWARD 1u
#define MET_BACKWARD 2u
#define MET_REFUSED 4u
#define MET_TORN 8u /* refused, and a neighbour that names it may still vouch for it */
#define LINK_SIZE 16u
#define MAX_REFUSALS 8u /* of one way; then it leads through something else */

struct ring {
    struct kda_kernel *kernel;
    uint64_t head;
    size_t max;
    kda_list_fn fn;
    void *context;
    struct kda_map seen; /* node -> marks */
    size_t nodes;
    bool no_memory, stopped;
};

/* One direction of a walk and how it ended. */
struct way {
    unsigned next_at, back_at; /* of the link followed, and of the one that names the predecessor */
    unsigned mark;
    enum kda_list_end end;
    uint64_t broken_va;
    enum kda_status reason;
    uint64_t torn;          /* first node that names another predecessor, */
    uint64_t torn_from;     /* and the one that led to it */
    uint64_t last, missing; /* last node read; the one behind it whose memory is missing */
    uint64_t refused;       /* first node that the callback did not take */
    unsigned refusals;
    bool met_head;
};

static bool end(struct way *way, enum kda_list_end how, uint64_t va, enum kda_status reason)
{
    way->end = how;
    way->broken_va = va;
    way->reason = reason;
    return false;
}

static bool mark(struct ring *ring, struct way *way, uint64_t at, uint64_t marks)
{
    if (kda_map_put(&ring->seen, at, marks))
        return true;
    ring->no_memory = ring->stopped = true;
    return end(way, KDA_LIST_STOPPED, at, KDA_NO_MEMORY);
}

static bool offer(struct ring *ring, struct way *way, uint64_t at, enum kda_link link)
{
    if (ring->nodes >= ring->max)
        return end(way, KDA_LIST_LIMIT, at, KDA_LIMIT);
    enum kda_step step = ring->fn(ring->context, at, link);
    if (step == KDA_STEP_STOP) {
        ring->stopped = true;
        return end(way, KDA_LIST_STOPPED, at, KDA_OK);
    }
    uint64_t refused = link == KDA_LINK_TORN ? MET_REFUSED | MET_TORN : MET_REFUSED;
    if (!mark(ring, way, at, way->mark | (step == KDA_STEP_REFUSE ? refused : 0u)))
        return false;
    if (step == KDA_STEP_TAKE) {
        ring->nodes++;
        return true;
    }
    if (link == KDA_LINK_TORN)
        return end(way, KDA_LIST_MISMATCH, at, KDA_BAD_DATA);
    /* It stands in its place all the same (what it holds was changed), or the links only look like
     * that; what comes next is looked at for itself. */
    way->refused = way->refused ? way->refused : at;
    return ++way->refusals < MAX_REFUSALS || end(way, KDA_LIST_REFUSED, at, KDA_BAD_DATA);
}

/* A node that was met before. The other direction ends there (the walks have joined) unless the
 * first one went on behind torn nodes: what it stepped over can be found from the other side. */
static bool again(struct ring *ring, struct way *way, uint64_t at, uint64_t marks, bool pass)
{
    if (marks & way->mark)
        return end(way, KDA_LIST_CYCLE, at, KDA_BAD_DATA);
    if ((marks & MET_REFUSED) && !pass)
        return end(way, KDA_LIST_REFUSED, at, KDA_BAD_DATA);
    return mark(ring, way, at, marks | way->mark) &&
           (pass || end(way, KDA_LIST_CLOSED, at, KDA_OK));
}

/* Goes from `way->last` to `at` and reads its link; false when the way ends here. */
static bool step(struct ring *ring, struct way *way, uint64_t at, bool pass, uint8_t *link)
{
    uint64_t marks;
    if (!kda_is_kernel_va(ring->kernel, at) || (at & 7) != 0)
        return end(way, KDA_LIST_BROKEN, way->last, KDA_BAD_DATA);
    enum kda_status status = kda_read(ring->kernel, at, link, LINK_SIZE, NULL);
    if (status == KDA_UNMAPPED) /* no page is missing: the link is wild */
        return end(way, KDA_LIST_BROKEN, way->last, KDA_BAD_DATA);
    if (status == KDA_LIMIT)
        return end(way, KDA_LIST_LIMIT, at, KDA_LIMIT);
    if (status != KDA_OK) {
        way->missing = at;
        return end(way, KDA_LIST_BROKEN, at, status);
    }
    bool sound = kda_le64(link + way->back_at) == way->last;
    if (!sound && way->torn == 0) {
        way->torn = at;
        way->torn_from = way->last;
    }
    if (kda_map_get(&ring->seen, at, &marks) && !(sound && marks & MET_TORN))
        return again(ring, way, at, marks, pass);
    enum kda_link link_kind = way->torn != 0 ? KDA_LINK_BEHIND : KDA_LINK_SOUND;
    return offer(ring, way, at, sound ? link_kind : KDA_LINK_TORN);
}

/* Follows one direction from `start`. `pass`: nodes of the other direction do not end it. */
static void follow(struct ring *ring, struct way *way, uint64_t start, bool pass)
{
    uint8_t link[LINK_SIZE];
    way->last = start;
    enum kda_status status = kda_read(ring->kernel, start, link, sizeof(link), NULL);
    if (status != KDA_OK) {
        (void)end(way, KDA_LIST_BROKEN, start, status);
        return;
    }
    uint64_t at = kda_le64(link + way->next_at), named = kda_le64(link + way->back_at);
    for (; at != ring->head; at = kda_le64(link + way->next_at)) {
        if (at == start) { /* a ring without its head */
            (void)end(way, KDA_LIST_CYCLE, at, KDA_BAD_DATA);
            return;
        }
        if (!step(ring, way, at, pass, link))
            return;
        way->last = at;
    }
    way->met_head = true;
    if (way->torn != 0)
        (void)end(way, KDA_LIST_MISMATCH, way->torn, KDA_BAD_DATA);
    else if (way->refused != 0)
        (void)end(way, KDA_LIST_REFUSED, way->refused, KDA_BAD_DATA);
    else if (start == ring->head && named != way->last) /* nodes cut off at the end */
        (void)end(way, KDA_LIST_MISMATCH, at, KDA_BAD_DATA);
    else
        (void)end(way, KDA_LIST_CLOSED, at, KDA_OK);
}

/* The missing node that `way` was sent to exists unless the other direction came by its sender from
 * another node: then one of the two links lies. */
static void offer_missing(struct ring *ring, struct way *way, const struct way *other)
{
    uint64_t marks = 0;
    if (way->missing == 0 || ring->stopped || kda_map_get(&ring->seen, way->missing, NULL))
        return;
    (void)kda_map_get(&ring->seen, way->last, &marks);
    if ((marks & other->mark) || (way->last == ring->head && other->met_head))
        return;
    struct way aside = *way; /* how the way ended stays as it is */
    (void)offer(ring, &aside, way->missing, KDA_LINK_MISSING);
}

/* Both directions from the head, the second one only if the first leaves something open. */
static void both(struct ring *ring, struct way *forward, struct way *backward)
{
    follow(ring, forward, ring->head, false);
    if (forward->end == KDA_LIST_CLOSED || forward->end == KDA_LIST_LIMIT || ring->stopped)
        return;
    follow(ring, backward, ring->head, forward->torn != 0 || forward->refused != 0);
    if (backward->end == KDA_LIST_LIMIT || ring->stopped)
        return;
    offer_missing(ring, forward, backward);
    offer_missing(ring, backward, forward);
}

static const char *end_text(enum kda_list_end end)
{
    switch (end) {
    case KDA_LIST_CYCLE:
        return "runs in a circle";
    case KDA_LIST_MISMATCH:
        return "has a node that does not name its predecessor";
    case KDA_LIST_REFUSED:
        return "leads to something that does not belong to it";
    case KDA_LIST_LIMIT:
        return "is longer than the limit";
    default:
        return "is broken";
    }
}

static void tell(struct kda_gaps *gaps, const char *what, uint64_t head, const struct way *way)
{
    if (way->torn != 0 && way->torn != way->broken_va)
        kda_gaps_add(gaps, what, way->torn, KDA_BAD_DATA,
                     "the list at 0x%016llx leads here from 0x%016llx, which this node does not "
                     "name",
                     (unsigned long long)head, (unsigned long long)way->torn_from);
    if (way->end != KDA_LIST_CLOSED)
        kda_gaps_add(gaps, what, way->broken_va, way->reason,
                     "the list at 0x%016llx %s here; followed from both ends",
                     (unsigned long long)head, end_text(way->end));
}

enum kda_status kda_list_walk(struct kda_kernel *kernel, uint64_t head, size_t max,
                              const char *what, kda_list_fn fn, void *context,
                              struct kda_list_result *result, struct kda_error *err)
{
    uint8_t link[LINK_SIZE];
    enum kda_status status = kda_read(kernel, head, link, sizeof(link), err);
    if (status != KDA_OK) {
        kda_gaps_add(what ? &kernel->gaps : NULL, what, head, status,
                     "the list head cannot be read");
        return status;
    }
    struct ring ring = {.kernel = kernel, .head = head, .max = max, .fn = fn, .context = context};
    struct way forward = {.next_at = 0, .back_at = 8, .mark = MET_FORWARD};
    struct way backward = {.next_at = 8, .back_at = 0, .mark = MET_BACKWARD};
    kda_map_init(&ring.seen);
    both(&ring, &forward, &backward);
    if (what && !ring.stopped)
        tell(&kernel->gaps, what, head, &forward);
    kda_map_deinit(&ring.seen);
    if (ring.no_memory)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory walking a list");
    if (result)
        *result = (struct kda_list_result){forward.end,
                                           backward.end,
                                           ring.nodes,
                                           {forward.broken_va, backward.broken_va},
                                           {forward.reason, backward.reason}};
    return KDA_OK;
}

enum kda_status kda_list_around(struct kda_kernel *kernel, uint64_t link_va, uint64_t head,
                                size_t max, kda_list_fn fn, void *context, struct kda_error *err)
{
    struct ring ring = {.kernel = kernel, .head = head, .max = max, .fn = fn, .context = context};
    struct way forward = {.next_at = 0, .back_at = 8, .mark = MET_FORWARD};
    struct way backward = {.next_at = 8, .back_at = 0, .mark = MET_BACKWARD};
    kda_map_init(&ring.seen);
    follow(&ring, &forward, link_va, false);
    if (!ring.stopped)
        follow(&ring, &backward, link_va, true);
    offer_missing(&ring, &forward, &backward);
    offer_missing(&ring, &backward, &forward);
    kda_map_deinit(&ring.seen);
    return ring.no_memory ? kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory walking a list")
                          : KDA_OK;
}
