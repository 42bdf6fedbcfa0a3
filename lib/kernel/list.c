/*
 * list.c - the one walker for LIST_ENTRY rings in hostile memory.
 */
#include <string.h>

#include "internal.h"

struct ring {
    struct kda_kernel *kernel;
    uint64_t head;
    size_t max;
    kda_list_fn fn;
    void *context;
    struct kda_map seen;
    size_t nodes;
    bool no_memory;
};

/* One direction. `next_at` and `back_at` are the offsets of the link followed and of the link that
 * must name the predecessor: Flink 0, Blink 8 forward, exchanged backward. */
static enum kda_list_end run(struct ring *ring, unsigned next_at, unsigned back_at,
                             uint64_t *broken_va, enum kda_status *reason)
{
    uint8_t link[16];
    *reason = kda_read(ring->kernel, ring->head, link, sizeof(link), NULL);
    *broken_va = ring->head;
    if (*reason != KDA_OK)
        return KDA_LIST_BROKEN;
    uint64_t previous = ring->head, at = kda_le64(link + next_at);
    uint64_t last = kda_le64(link + back_at);
    for (;;) {
        *broken_va = at;
        *reason = KDA_BAD_DATA;
        if (at == ring->head) /* nodes cut off at the end are still named from there */
            return last == previous ? KDA_LIST_CLOSED : KDA_LIST_MISMATCH;
        if (!kda_is_kernel_va(ring->kernel, at) || (at & 7) != 0) {
            *broken_va = previous;
            return KDA_LIST_BROKEN;
        }
        uint64_t direction;
        bool met = kda_map_get(&ring->seen, at, &direction);
        /* Backward, meeting a node of the forward walk means that the walks have joined. */
        if (met)
            return direction == next_at ? KDA_LIST_CYCLE : KDA_LIST_CLOSED;
        enum kda_status status = kda_read(ring->kernel, at, link, sizeof(link), NULL);
        if (status == KDA_OK && kda_le64(link + back_at) != previous)
            return KDA_LIST_MISMATCH;
        if (status == KDA_UNMAPPED) { /* no page is missing: the link is wild */
            *broken_va = previous;
            return KDA_LIST_BROKEN;
        }
        if (ring->nodes >= ring->max || status == KDA_LIMIT) {
            *reason = KDA_LIMIT;
            return KDA_LIST_LIMIT;
        }
        if (!kda_map_put(&ring->seen, at, next_at)) {
            ring->no_memory = true;
            return KDA_LIST_STOPPED;
        }
        ring->nodes++;
        if (!ring->fn(ring->context, at, status == KDA_OK))
            return KDA_LIST_STOPPED;
        if (status != KDA_OK) {
            *reason = status;
            return KDA_LIST_BROKEN;
        }
        previous = at;
        at = kda_le64(link + next_at);
    }
}

static const char *end_text(enum kda_list_end end)
{
    switch (end) {
    case KDA_LIST_CYCLE:
        return "runs in a circle";
    case KDA_LIST_MISMATCH:
        return "has a node that does not name its predecessor";
    case KDA_LIST_LIMIT:
        return "is longer than the limit";
    default:
        return "is broken";
    }
}

enum kda_status kda_list_walk(struct kda_kernel *kernel, uint64_t head, size_t max,
                              const char *what, kda_list_fn fn, void *context,
                              struct kda_list_result *result, struct kda_error *err)
{
    struct kda_list_result r;
    memset(&r, 0, sizeof(r));
    uint8_t link[16];
    enum kda_status status = kda_read(kernel, head, link, sizeof(link), err);
    if (status != KDA_OK) {
        kda_gaps_add(what ? &kernel->gaps : NULL, what, head, status,
                     "the list head cannot be read");
        return status;
    }
    struct ring ring = {kernel, head, max, fn, context, {0}, 0, false};
    kda_map_init(&ring.seen);
    r.backward = KDA_LIST_CLOSED;
    r.forward = run(&ring, 0, 8, &r.broken_va[0], &r.reason[0]);
    if (r.forward != KDA_LIST_CLOSED && r.forward != KDA_LIST_STOPPED) {
        if (r.forward != KDA_LIST_LIMIT)
            r.backward = run(&ring, 8, 0, &r.broken_va[1], &r.reason[1]);
        if (r.backward != KDA_LIST_STOPPED)
            kda_gaps_add(what ? &kernel->gaps : NULL, what, r.broken_va[0], r.reason[0],
                         "the list at 0x%016llx %s here; followed from both ends",
                         (unsigned long long)head, end_text(r.forward));
    }
    r.nodes = ring.nodes;
    kda_map_deinit(&ring.seen);
    if (ring.no_memory)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory walking a list");
    if (result)
        *result = r;
    return KDA_OK;
}
