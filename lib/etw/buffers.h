/*
 * buffers.h - private to lib/etw: a session's buffers while they are collected.
 */
#ifndef KDA_ETW_BUFFERS_INTERNAL_H
#define KDA_ETW_BUFFERS_INTERNAL_H

#include "kda/buffers.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/map.h"

struct kda_etw_buffers {
    struct kda_kernel *kernel;
    const struct kda_etw_session *session;
    struct kda_trace_buffer *items;
    size_t count, capacity;
    struct kda_map by_va; /* kernel buffers: address -> index */
    uint8_t *bytes;       /* of the buffer last asked for */
    size_t bytes_capacity;
    uint8_t *plain; /* the same, decompressed */
    size_t plain_capacity;
    void *holes; /* struct kda_buffer_hole */
    size_t hole_capacity;
    uint32_t largest;
    bool no_memory;
};

/* Adds the kernel buffer at `va` or, if it is known, the bit. NULL: no buffer stands there (a gap
 * was recorded), or memory ran out. `readable` false: only the address is known. */
struct kda_trace_buffer *kda_buffers_add(struct kda_etw_buffers *b, uint64_t va, unsigned found_by,
                                         bool readable);
/* Appends an empty row; NULL past the limit or without memory. */
struct kda_trace_buffer *kda_buffers_new(struct kda_etw_buffers *b);
/* Fills the row from a header; false if these bytes are no header of a trace buffer. */
bool kda_buffers_header(const uint8_t bytes[KDA_BUFFER_HEADER], struct kda_trace_buffer *row);

static inline bool kda_buffers_stop(const struct kda_etw_buffers *b)
{
    return b->no_memory || kda_kernel_exhausted(b->kernel);
}

/* Says that the work allowed for the image is used up. */
void kda_buffers_tell_limit(struct kda_etw_buffers *b);

/* buffer_bytes.c: frees what kda_etw_buffer_bytes holds. */
void kda_buffers_drop_bytes(struct kda_etw_buffers *b);

/* buffers_user.c: what consumers hold in their own memory, and what they wait for. */
void kda_buffers_of_consumers(struct kda_etw_buffers *b);
/* Page-table root of the process whose memory holds the copy; 0 = unknown. */
uint64_t kda_buffers_root(const struct kda_etw_buffers *b, const struct kda_etw_consumer *consumer);

#endif
