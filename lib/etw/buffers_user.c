/*
 * buffers_user.c - copies of buffers in the memory of real-time consumers.
 *
 * The kernel copies a flushed buffer into space that the consumer's process keeps for it and hangs
 * the copy on a list there. A copy stays in place after it was read, until the space is used again:
 * the list gives what waits, the space gives what was. Much of this memory is usually not in an
 * image; only what the image should have and has not is a gap.
 */
#include "buffers.h"

#include <string.h>

/* Members that no layout table carries, by their distance from one that it does. Source: the same
 * in all 14 PDB tables at hand, 6.1.7601 to 10.0.22000. */
#define LIST_HEAD_FROM_COUNT 8u     /* UserBufferListHead, from UserBufferCount */
#define SPACE_BEFORE_SPACE_SIZE 8u  /* ReservedBufferSpace, from ReservedBufferSpaceSize */
#define UNDELIVERED_FROM_PROCESS 8u /* NextNotDelivered, from ProcessObject */
#define WOW_FLAG 0x10u              /* bit 4 of the flags; as lib/etw/consumer.c orders them */
#define USER_LIST_MAX KDA_ETW_MAX_BUFFERS

struct user_walk {
    struct kda_etw_buffers *b;
    const struct kda_etw_consumer *consumer;
    uint64_t root;
    unsigned link_size;
    uint32_t link_at;     /* SlistEntry in a header */
    struct kda_map by_va; /* copies of this consumer: address -> index of the row */
    uint64_t missing_va;  /* first page that should be there */
    enum kda_status missing;
    size_t missing_count;
};

uint64_t kda_buffers_root(const struct kda_etw_buffers *b, const struct kda_etw_consumer *consumer)
{
    const struct kda_process *process =
        consumer && consumer->process_va ? kda_process_at(b->kernel, consumer->process_va) : NULL;
    return process ? process->dtb : 0;
}

/* User memory that nothing maps is no gap: space is reserved long before it is used. */
static bool read_user(struct user_walk *w, uint64_t va, void *bytes, size_t size)
{
    enum kda_status status = kda_read_in(w->b->kernel, w->root, va, bytes, size, NULL);
    if (status == KDA_NO_MEMORY)
        w->b->no_memory = true;
    if (status != KDA_OK && status != KDA_UNMAPPED && w->missing_count++ == 0) {
        w->missing_va = va;
        w->missing = status;
    }
    return status == KDA_OK;
}

static uint64_t user_pointer(struct user_walk *w, uint64_t va)
{
    uint8_t bytes[8] = {0};
    return read_user(w, va, bytes, w->link_size) ? kda_le64(bytes) : 0;
}

/* A header in memory that the process may write as it likes: it has to be one of this session. */
static bool is_copy(const struct user_walk *w, const struct kda_trace_buffer *row)
{
    const struct kda_etw_session *s = w->b->session;
    bool size_fits = row->size == s->buffer_size ||
                     (row->flags & KDA_BUFFER_FLAG_COMPRESSED && row->size < s->buffer_size);
    return KDA_ETW_HAS(s, S, BUFFER_SIZE) && size_fits && row->logger_id == (uint16_t)s->id &&
           row->used > KDA_BUFFER_HEADER;
}

/* The row of the copy at `va`, made if there is one; NULL if none stands there. */
static struct kda_trace_buffer *add_copy(struct user_walk *w, uint64_t va, unsigned found_by)
{
    uint64_t index;
    uint8_t bytes[KDA_BUFFER_HEADER];
    struct kda_trace_buffer row = {.va = va, .found_by = found_by, .consumer = w->consumer};
    if (va == 0)
        return NULL;
    if (kda_map_get(&w->by_va, va, &index)) {
        w->b->items[index].found_by |= found_by;
        return &w->b->items[index];
    }
    if (!read_user(w, va, bytes, sizeof(bytes)) || !kda_buffers_header(bytes, &row) ||
        !is_copy(w, &row))
        return NULL;
    struct kda_trace_buffer *added = kda_buffers_new(w->b);
    if (!added)
        return NULL;
    *added = row;
    /* Its records were delivered before, unless the list still names it. */
    added->old = found_by == KDA_BUFFER_SPACE;
    if (!kda_map_put(&w->by_va, va, w->b->count - 1)) {
        w->b->count--;
        w->b->no_memory = true;
        return NULL;
    }
    return added;
}

static void walk_user_list(struct user_walk *w, uint64_t head)
{
    struct kda_map seen;
    kda_map_init(&seen);
    uint64_t link = user_pointer(w, head);
    while (link != 0 && seen.count < USER_LIST_MAX && !kda_buffers_stop(w->b)) {
        if (kda_map_get(&seen, link, NULL)) {
            kda_gaps_add(kda_kernel_gaps(w->b->kernel), "consumer_buffers", w->consumer->va,
                         KDA_BAD_DATA, "the list of buffers in the consumer's process is circular");
            break;
        }
        if (!kda_map_put(&seen, link, 1)) {
            w->b->no_memory = true;
            break;
        }
        if (!add_copy(w, link - w->link_at, KDA_BUFFER_CONSUMER))
            break;
        link = user_pointer(w, link);
    }
    kda_map_deinit(&seen);
}

/* Copies start on pages of their own. */
static void scan_space(struct user_walk *w, uint64_t space, uint64_t size)
{
    uint64_t pages = size / KDA_PAGE_SIZE;
    if (pages > KDA_ETW_MAX_USER_PAGES) {
        kda_gaps_add(kda_kernel_gaps(w->b->kernel), "consumer_buffers", w->consumer->va, KDA_LIMIT,
                     "a consumer's space for buffers is said to have %llu pages; %u are looked at",
                     (unsigned long long)pages, KDA_ETW_MAX_USER_PAGES);
        pages = KDA_ETW_MAX_USER_PAGES;
    }
    for (uint64_t page = 0; page < pages && !kda_buffers_stop(w->b);) {
        const struct kda_trace_buffer *row =
            add_copy(w, space + page * KDA_PAGE_SIZE, KDA_BUFFER_SPACE);
        page += row ? (row->size + KDA_PAGE_SIZE - 1) / KDA_PAGE_SIZE : 1;
    }
}

/* An integer member, or the pointer `from` bytes from it; 0 = none, or not readable (a gap). */
static uint64_t consumer_number(const struct user_walk *w, enum kda_field_id field, int64_t from,
                                size_t size)
{
    uint8_t bytes[8] = {0};
    struct kda_error why;
    uint32_t at = kda_field_offset(w->b->kernel, field);
    if (at == KDA_NONE)
        return 0;
    uint64_t va = w->consumer->va + at + (uint64_t)from;
    enum kda_status status = kda_read(w->b->kernel, va, bytes, size, &why);
    if (status == KDA_OK)
        return kda_le64(bytes);
    if (!kda_kernel_exhausted(w->b->kernel))
        kda_gaps_add(kda_kernel_gaps(w->b->kernel), "consumer_buffers", va, status, "%s: %s",
                     kda_field_name(field), why.text);
    return 0;
}

static bool is_user_va(uint64_t va)
{
    return va >= 0x10000 && va < (uint64_t)1 << 47;
}

/* The buffer where delivery to this consumer goes on. What the pointer names exactly is not known
 * from public sources: it counts only if it names a buffer of the session in one of its ways. */
static void mark_undelivered(struct user_walk *w)
{
    uint64_t to =
        consumer_number(w, KDA_F_ETW_REALTIME_CONSUMER_ProcessObject, UNDELIVERED_FROM_PROCESS, 8);
    const uint32_t ways[3] = {0, w->link_at,
                              kda_field_offset(w->b->kernel, KDA_F_WMI_BUFFER_HEADER_GlobalEntry)};
    uint64_t index;
    for (size_t i = 0; i < 3 && to != 0; i++)
        if (kda_map_get(&w->b->by_va, to - ways[i], &index)) {
            w->b->items[index].found_by |= KDA_BUFFER_UNDELIVERED;
            if (!w->b->items[index].consumer)
                w->b->items[index].consumer = w->consumer;
            return;
        }
}

static void read_consumer(struct kda_etw_buffers *b, const struct kda_etw_consumer *consumer)
{
    struct user_walk w = {.b = b, .consumer = consumer, .link_size = 8};
    if (!consumer->readable)
        return; /* the model has recorded that gap */
    w.link_at = kda_field_offset(b->kernel, KDA_F_WMI_BUFFER_HEADER_NextBuffer);
    if (w.link_at == KDA_NONE)
        return;
    mark_undelivered(&w);
    w.root = kda_buffers_root(b, consumer);
    if (w.root == 0)
        return;
    if (consumer->has_flags && consumer->flags & WOW_FLAG)
        w.link_size = 4;
    kda_map_init(&w.by_va);
    uint64_t head =
        consumer_number(&w, KDA_F_ETW_REALTIME_CONSUMER_UserBufferCount, LIST_HEAD_FROM_COUNT, 8);
    uint64_t space = consumer_number(&w, KDA_F_ETW_REALTIME_CONSUMER_ReservedBufferSpaceSize,
                                     -(int64_t)SPACE_BEFORE_SPACE_SIZE, 8);
    uint64_t size = consumer_number(&w, KDA_F_ETW_REALTIME_CONSUMER_ReservedBufferSpaceSize, 0, 4);
    if (is_user_va(head))
        walk_user_list(&w, head);
    if (is_user_va(space) && (space & KDA_PAGE_MASK) == 0 && !kda_buffers_stop(b))
        scan_space(&w, space, size);
    if (w.missing_count > 0)
        kda_gaps_add(kda_kernel_gaps(b->kernel), "consumer_buffers", w.missing_va, w.missing,
                     "%zu pages of the buffers in the consumer's process (pid %llu) are missing",
                     w.missing_count, (unsigned long long)consumer->pid);
    kda_map_deinit(&w.by_va);
}

/* What makes two buffers the same: a copy keeps header and bytes. */
static uint64_t identity(const struct kda_trace_buffer *row)
{
    uint64_t key = row->sequence * 0x9e3779b97f4a7c15u ^ row->time;
    key = (key ^ row->cpu) * 0xbf58476d1ce4e5b9u ^ row->used;
    return key ? key : 1;
}

static void mark_copies(struct kda_etw_buffers *b, size_t first_copy)
{
    struct kda_map seen;
    kda_map_init(&seen);
    for (size_t i = 0; i < b->count && !b->no_memory; i++) {
        struct kda_trace_buffer *row = &b->items[i];
        uint64_t key = identity(row), other;
        if (!row->readable || row->used <= KDA_BUFFER_HEADER)
            continue;
        if (!kda_map_get(&seen, key, &other))
            b->no_memory = !kda_map_put(&seen, key, i);
        else if (i >= first_copy && !row->kernel)
            row->copy =
                b->items[other].sequence == row->sequence && b->items[other].time == row->time;
    }
    kda_map_deinit(&seen);
}

void kda_buffers_of_consumers(struct kda_etw_buffers *b)
{
    size_t first_copy = b->count;
    for (size_t i = 0; i < b->session->consumer_count && !kda_buffers_stop(b); i++)
        read_consumer(b, b->session->consumers[i]);
    if (b->count > first_copy)
        mark_copies(b, first_copy);
}
