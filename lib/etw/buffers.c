/*
 * buffers.c - the lists that a session's trace buffers hang on.
 *
 * Every buffer is on GlobalList; the other lists say what it is used for, and may still name one
 * that GlobalList has lost. A buffer is a row once, with a bit for each list.
 */
#include "buffers.h"

#include <string.h>

#define SLOT_BLOCK 64u /* ETW_SILO_TRACING_BLOCK; ProcessorBuffers is its first member */
#define FAST_REF_BITS 15u
#define MAX_CPUS 2048u

/* Members that no layout table carries, by their distance from one that it does. Source: the same
 * in every PDB table at hand that has them (11 builds from 10.0.14393 to 10.0.22000). */
#define COMPRESSION_TARGET_FROM_SILO_STATE 56u
#define PLACEHOLDER_LIST_FROM_SILO_STATE 88u

/* ---- rows ---- */

static bool fits(uint32_t offset, uint32_t size)
{
    return offset >= KDA_BUFFER_HEADER && offset <= size;
}

/* How far records may reach. CurrentOffset is where the next reservation goes; it runs past the end
 * when one did not fit, and SavedOffset then holds the end. A free buffer's offsets may be reset
 * while its records are still there: the largest counts. */
static uint32_t used_bytes(struct kda_trace_buffer *row)
{
    const uint32_t offsets[3] = {row->current_offset, row->saved_offset, row->offset};
    uint32_t used = 0;
    row->used_known = true;
    if (row->state == KDA_BUFFER_STATE_FREE) {
        for (size_t i = 0; i < 3; i++)
            if (fits(offsets[i], row->size) && offsets[i] > used)
                used = offsets[i];
        return used ? used : KDA_BUFFER_HEADER;
    }
    /* Compressed bytes fill the buffer; the offsets count what they unpack to. */
    if (row->flags & KDA_BUFFER_FLAG_COMPRESSED)
        return row->size;
    for (size_t i = 0; i < 3; i++)
        if (fits(offsets[i], row->size))
            return offsets[i];
    row->used_known = false;
    return row->size;
}

bool kda_buffers_header(const uint8_t bytes[KDA_BUFFER_HEADER], struct kda_trace_buffer *row)
{
    struct kda_cursor c = kda_cursor_make(bytes, KDA_BUFFER_HEADER);
    row->size = kda_take32(&c);
    row->saved_offset = kda_take32(&c);
    row->current_offset = kda_take32(&c);
    row->references = (int32_t)kda_take32(&c);
    row->time = kda_take64(&c);
    row->sequence = kda_take64(&c);
    (void)kda_take64(&c); /* list link */
    uint16_t processor = kda_take16(&c);
    row->logger_id = kda_take16(&c);
    row->state = kda_take32(&c);
    row->offset = kda_take32(&c);
    row->flags = kda_take16(&c);
    row->type = kda_take16(&c);
    /* Without the flag the high byte is the alignment. */
    row->cpu = row->flags & KDA_BUFFER_FLAG_PROC_INDEX ? processor & 0x7ffu : processor & 0xffu;
    if (row->size < KDA_BUFFER_HEADER || row->size > KDA_BUFFER_MAX_SIZE ||
        !kda_buffer_state_name(row->state))
        return false;
    row->readable = true;
    row->old = row->state == KDA_BUFFER_STATE_FREE;
    row->overfull = row->current_offset > row->size && fits(row->saved_offset, row->size);
    row->used = used_bytes(row);
    return true;
}

struct kda_trace_buffer *kda_buffers_new(struct kda_etw_buffers *b)
{
    void *items = b->items;
    if (b->count >= KDA_ETW_MAX_BUFFERS) {
        kda_gaps_add(kda_kernel_gaps(b->kernel), "buffers", b->session->va, KDA_LIMIT,
                     "session %u has more than %u buffers", b->session->id, KDA_ETW_MAX_BUFFERS);
        return NULL;
    }
    if (!kda_grow(&items, &b->capacity, b->count + 1, sizeof(*b->items), KDA_ETW_MAX_BUFFERS)) {
        b->no_memory = true;
        return NULL;
    }
    b->items = items;
    struct kda_trace_buffer *row = &b->items[b->count++];
    memset(row, 0, sizeof(*row));
    return row;
}

static void no_buffer(struct kda_etw_buffers *b, uint64_t va, unsigned found_by)
{
    unsigned bit = 0;
    while (found_by >> bit > 1)
        bit++;
    kda_gaps_add(kda_kernel_gaps(b->kernel), "buffers", va, KDA_BAD_DATA,
                 "session %u: a pointer (%s) leads here, where no trace buffer is", b->session->id,
                 kda_buffer_place_name(bit));
}

struct kda_trace_buffer *kda_buffers_add(struct kda_etw_buffers *b, uint64_t va, unsigned found_by,
                                         bool readable)
{
    uint64_t index;
    if (kda_map_get(&b->by_va, va, &index)) {
        b->items[index].found_by |= found_by;
        return &b->items[index];
    }
    struct kda_trace_buffer row = {.va = va, .kernel = true, .found_by = found_by};
    if (!kda_is_kernel_va(b->kernel, va) || (va & 7) != 0) {
        no_buffer(b, va, found_by);
        return NULL;
    }
    uint8_t bytes[KDA_BUFFER_HEADER];
    struct kda_error why;
    enum kda_status status =
        readable ? kda_read(b->kernel, va, bytes, sizeof(bytes), &why) : KDA_ABSENT;
    if (status == KDA_NO_MEMORY) {
        b->no_memory = true;
        return NULL;
    }
    if (status == KDA_UNMAPPED || (status == KDA_OK && !kda_buffers_header(bytes, &row))) {
        no_buffer(b, va, found_by);
        return NULL;
    }
    if (status != KDA_OK && readable)
        kda_gaps_add(kda_kernel_gaps(b->kernel), "buffer", va, status, "header of a buffer: %s",
                     why.text);
    struct kda_trace_buffer *added = kda_buffers_new(b);
    if (!added)
        return NULL;
    if (!kda_map_put(&b->by_va, va, b->count - 1)) {
        b->count--;
        b->no_memory = true;
        return NULL;
    }
    *added = row;
    return added;
}

void kda_buffers_tell_limit(struct kda_etw_buffers *b)
{
    kda_gaps_add(kda_kernel_gaps(b->kernel), "work", 0, KDA_LIMIT,
                 "structures of this image lead round and round; reading was stopped, and what is "
                 "shown is incomplete");
}

/* ---- the lists ---- */

static uint64_t member(const struct kda_etw_buffers *b, enum kda_field_id field)
{
    uint32_t offset = kda_field_offset(b->kernel, field);
    return offset == KDA_NONE ? 0 : b->session->va + offset;
}

static enum kda_step on_global(void *context, uint64_t link_va, enum kda_link how)
{
    struct kda_etw_buffers *b = context;
    uint32_t at = kda_field_offset(b->kernel, KDA_F_WMI_BUFFER_HEADER_GlobalEntry);
    const struct kda_trace_buffer *row =
        kda_buffers_add(b, link_va - at, KDA_BUFFER_GLOBAL, how != KDA_LINK_MISSING);
    if (kda_buffers_stop(b))
        return KDA_STEP_STOP;
    return row ? KDA_STEP_TAKE : KDA_STEP_REFUSE;
}

/* One qword of kernel memory; a missing page is a gap. 0 = none, which a whole page may hold. */
static uint64_t pointer_at(struct kda_etw_buffers *b, uint64_t va)
{
    uint8_t bytes[8];
    struct kda_error why;
    enum kda_status status =
        kda_read_in(b->kernel, kda_kernel_info(b->kernel)->dtb, va, bytes, sizeof(bytes), &why);
    if (status == KDA_OK)
        return kda_le64(bytes);
    if (status == KDA_NO_MEMORY)
        b->no_memory = true;
    else if (!kda_kernel_exhausted(b->kernel))
        kda_gaps_add(kda_kernel_gaps(b->kernel), "buffers", va, status, "session %u: %s",
                     b->session->id, why.text);
    return 0;
}

/* A chain of SlistEntry links that starts at `head`; 0 ends it. */
static void walk_chain(struct kda_etw_buffers *b, uint64_t head, unsigned found_by)
{
    uint32_t at = kda_field_offset(b->kernel, KDA_F_WMI_BUFFER_HEADER_NextBuffer);
    uint64_t place = head;
    if (at == KDA_NONE)
        return;
    while (!kda_buffers_stop(b)) {
        uint64_t link = pointer_at(b, place), index;
        if (link == 0)
            return;
        if (kda_map_get(&b->by_va, link - at, &index) && b->items[index].found_by & found_by) {
            kda_gaps_add(kda_kernel_gaps(b->kernel), "buffers", place, KDA_BAD_DATA,
                         "session %u: the chain of %s buffers runs in a circle here",
                         b->session->id,
                         kda_buffer_place_name(found_by == KDA_BUFFER_FREE ? 1 : 2));
            return;
        }
        if (!kda_buffers_add(b, link - at, found_by, true))
            return;
        place = link;
    }
}

static void walk_queue(struct kda_etw_buffers *b, enum kda_field_id field, unsigned found_by)
{
    uint64_t queue = member(b, field);
    uint32_t entry = kda_field_offset(b->kernel, KDA_F_ETW_BUFFER_QUEUE_QueueEntry);
    if (queue != 0 && entry != KDA_NONE)
        walk_chain(b, queue + entry, found_by);
}

/* Each CPU's slot for this session. The state's blocks may not be there (0): then GlobalList and
 * the buffers' own states have to do. */
static void read_slots(struct kda_etw_buffers *b)
{
    uint64_t state = b->session->silo ? b->session->silo->state : 0;
    uint32_t at = kda_field_offset(b->kernel, KDA_F_ETW_SILODRIVERSTATE_ProcessorBlocks);
    uint32_t cpus = kda_kernel_info(b->kernel)->cpus;
    if (state == 0 || at == KDA_NONE)
        return;
    uint64_t blocks = pointer_at(b, state + at);
    if (!kda_is_kernel_va(b->kernel, blocks))
        return;
    for (uint32_t cpu = 0; cpu < cpus && cpu < MAX_CPUS && !kda_buffers_stop(b); cpu++) {
        uint64_t slots = pointer_at(b, blocks + (uint64_t)cpu * SLOT_BLOCK);
        if (!kda_is_kernel_va(b->kernel, slots))
            continue;
        uint64_t ref = pointer_at(b, slots + (uint64_t)b->session->id * 8u);
        if (ref == 0)
            continue;
        struct kda_trace_buffer *row =
            kda_buffers_add(b, ref & ~(uint64_t)FAST_REF_BITS, KDA_BUFFER_CPU, true);
        if (row) {
            row->has_slot_cpu = true;
            row->slot_cpu = cpu;
        }
    }
}

static void read_single_buffers(struct kda_etw_buffers *b)
{
    uint64_t at = member(b, KDA_F_WMI_LOGGER_CONTEXT_CurrentBuffer);
    uint64_t ref = at ? pointer_at(b, at) & ~(uint64_t)FAST_REF_BITS : 0;
    if (ref != 0)
        (void)kda_buffers_add(b, ref, KDA_BUFFER_CURRENT, true);
    uint64_t state = member(b, KDA_F_WMI_LOGGER_CONTEXT_SiloState);
    if (state == 0 || kda_buffers_stop(b))
        return; /* builds before 14393 do not compress in memory */
    uint64_t target = pointer_at(b, state + COMPRESSION_TARGET_FROM_SILO_STATE);
    if (target != 0)
        (void)kda_buffers_add(b, target, KDA_BUFFER_COMPRESSION, true);
    walk_chain(b, state + PLACEHOLDER_LIST_FROM_SILO_STATE, KDA_BUFFER_PLACEHOLDER);
}

static void read_lists(struct kda_etw_buffers *b)
{
    uint64_t head = member(b, KDA_F_WMI_LOGGER_CONTEXT_GlobalList);
    if (kda_list_walk(b->kernel, head, KDA_ETW_MAX_BUFFERS, "buffers", on_global, b, NULL, NULL) ==
        KDA_NO_MEMORY)
        b->no_memory = true;
    if (!kda_buffers_stop(b))
        walk_queue(b, KDA_F_WMI_LOGGER_CONTEXT_BufferQueue, KDA_BUFFER_FREE);
    if (!kda_buffers_stop(b))
        walk_queue(b, KDA_F_WMI_LOGGER_CONTEXT_OverflowQueue, KDA_BUFFER_OVERFLOW);
    if (!kda_buffers_stop(b))
        read_slots(b);
    if (!kda_buffers_stop(b))
        read_single_buffers(b);
    if (!kda_buffers_stop(b))
        kda_buffers_of_consumers(b);
    if (kda_kernel_exhausted(b->kernel))
        kda_buffers_tell_limit(b);
}

enum kda_status kda_etw_buffers_read(struct kda_kernel *kernel,
                                     const struct kda_etw_session *session,
                                     struct kda_etw_buffers **ret, struct kda_error *err)
{
    if (!kda_has_field(kernel, KDA_F_WMI_LOGGER_CONTEXT_GlobalList) ||
        !kda_has_field(kernel, KDA_F_WMI_BUFFER_HEADER_GlobalEntry))
        return kda_fail(err, KDA_NO_SYMBOL, "buffers",
                        "the layout of this kernel lacks the list of trace buffers");
    struct kda_etw_buffers *b = kda_calloc(1, sizeof(*b));
    if (!b)
        return kda_fail(err, KDA_NO_MEMORY, "buffers", "out of memory for trace buffers");
    b->kernel = kernel;
    b->session = session;
    kda_map_init(&b->by_va);
    read_lists(b);
    if (b->no_memory) {
        kda_etw_buffers_free(b);
        return kda_fail(err, KDA_NO_MEMORY, "buffers", "out of memory for trace buffers");
    }
    for (size_t i = 0; i < b->count; i++)
        if (b->items[i].used > b->largest)
            b->largest = b->items[i].used;
    *ret = b;
    return KDA_OK;
}

void kda_etw_buffers_free(struct kda_etw_buffers *buffers)
{
    if (!buffers)
        return;
    kda_free(buffers->items);
    kda_buffers_drop_bytes(buffers);
    kda_map_deinit(&buffers->by_va);
    kda_free(buffers);
}

const struct kda_trace_buffer *kda_etw_buffers_list(const struct kda_etw_buffers *buffers,
                                                    size_t *count)
{
    *count = buffers->count;
    return buffers->items;
}
