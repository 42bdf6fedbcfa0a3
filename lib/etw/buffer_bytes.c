/*
 * buffer_bytes.c - the bytes of a trace buffer, with holes where memory is missing, and
 * decompressed where the kernel has compressed them.
 */
#include "buffers.h"

#include <string.h>

#include "base/xpress.h"

void kda_buffers_drop_bytes(struct kda_etw_buffers *b)
{
    kda_free(b->bytes);
    kda_free(b->plain);
    kda_free(b->holes);
}

static bool make_room(uint8_t **bytes, size_t *capacity, size_t need)
{
    if (*capacity >= need)
        return true;
    uint8_t *grown = kda_realloc_array(*bytes, need, 1);
    if (!grown)
        return false;
    *bytes = grown;
    *capacity = need;
    return true;
}

static bool add_hole(struct kda_etw_buffers *b, size_t *count, uint32_t off, uint32_t size,
                     enum kda_status reason)
{
    struct kda_buffer_hole *list = b->holes;
    if (*count > 0 && list[*count - 1].off + list[*count - 1].size == off &&
        list[*count - 1].reason == reason) {
        list[*count - 1].size += size;
        return true;
    }
    if (!kda_grow(&b->holes, &b->hole_capacity, *count + 1, sizeof(*list),
                  KDA_BUFFER_MAX_SIZE / KDA_PAGE_SIZE + 2))
        return false;
    list = b->holes;
    list[(*count)++] = (struct kda_buffer_hole){off, size, reason};
    return true;
}

static void tell_holes(struct kda_etw_buffers *b, const struct kda_trace_buffer *buffer,
                       size_t count)
{
    const struct kda_buffer_hole *holes = b->holes;
    for (size_t i = 0; i < count; i++)
        kda_gaps_add(kda_kernel_gaps(b->kernel), "buffer", buffer->va + holes[i].off,
                     holes[i].reason, "session %u: %u bytes of the buffer at 0x%016llx are missing",
                     b->session->id, holes[i].size, (unsigned long long)buffer->va);
}

/* Page by page, so that one missing page costs nothing else. */
static enum kda_status read_pages(struct kda_etw_buffers *b, const struct kda_trace_buffer *buffer,
                                  size_t *holes)
{
    uint64_t root = buffer->kernel ? 0 : kda_buffers_root(b, buffer->consumer);
    for (uint32_t off = 0; off < buffer->used;) {
        uint64_t va = buffer->va + off;
        uint32_t size = (uint32_t)(KDA_PAGE_SIZE - (va & KDA_PAGE_MASK));
        if (size > buffer->used - off)
            size = buffer->used - off;
        enum kda_status status = buffer->kernel
                                     ? kda_read_in(b->kernel, kda_kernel_info(b->kernel)->dtb, va,
                                                   b->bytes + off, size, NULL)
                                     : kda_read_in(b->kernel, root, va, b->bytes + off, size, NULL);
        if (status == KDA_LIMIT || status == KDA_NO_MEMORY)
            return status;
        if (status != KDA_OK) {
            memset(b->bytes + off, 0, size);
            if (!add_hole(b, holes, off, size, status))
                return KDA_NO_MEMORY;
        }
        off += size;
    }
    return KDA_OK;
}

/* Bytes that the buffer holds when it is not compressed: its Offset, at most what any buffer of the
 * session can hold. */
static uint32_t plain_size(const struct kda_etw_buffers *b, const struct kda_trace_buffer *buffer)
{
    uint32_t most = KDA_ETW_HAS(b->session, S, BUFFER_SIZE) ? b->session->buffer_size : 0;
    if (most < KDA_BUFFER_HEADER || most > KDA_BUFFER_MAX_SIZE)
        most = KDA_BUFFER_MAX_SIZE;
    if (buffer->offset > KDA_BUFFER_HEADER && buffer->offset <= most)
        return buffer->offset;
    return buffer->saved_offset > KDA_BUFFER_HEADER && buffer->saved_offset <= most
               ? buffer->saved_offset
               : 0;
}

/* Plain LZ77 reads what it wrote before: what lies behind a hole cannot be decompressed. */
static enum kda_status unpack(struct kda_etw_buffers *b, const struct kda_trace_buffer *buffer,
                              size_t *holes, struct kda_buffer_content *ret)
{
    const struct kda_buffer_hole *list = b->holes;
    uint32_t size = plain_size(b, buffer);
    uint32_t packed = *holes > 0 ? list[0].off : buffer->used;
    enum kda_status reason = *holes > 0 ? list[0].reason : KDA_BAD_DATA;
    size_t written = 0;
    if (size == 0) {
        kda_gaps_add(kda_kernel_gaps(b->kernel), "buffer", buffer->va, KDA_BAD_DATA,
                     "session %u: a compressed buffer does not say how much it holds",
                     b->session->id);
        *ret = (struct kda_buffer_content){b->bytes, KDA_BUFFER_HEADER, NULL, 0};
        return KDA_OK;
    }
    if (!make_room(&b->plain, &b->plain_capacity, size))
        return KDA_NO_MEMORY;
    memcpy(b->plain, b->bytes, KDA_BUFFER_HEADER);
    if (packed > KDA_BUFFER_HEADER)
        (void)kda_xpress_decompress(b->bytes + KDA_BUFFER_HEADER, packed - KDA_BUFFER_HEADER,
                                    b->plain + KDA_BUFFER_HEADER, size - KDA_BUFFER_HEADER,
                                    &written);
    uint32_t have = KDA_BUFFER_HEADER + (uint32_t)written;
    bool told = *holes > 0;
    *holes = 0;
    if (have < size) {
        memset(b->plain + have, 0, size - have);
        if (!add_hole(b, holes, have, size - have, reason))
            return KDA_NO_MEMORY;
        if (!told)
            kda_gaps_add(kda_kernel_gaps(b->kernel), "buffer", buffer->va, KDA_BAD_DATA,
                         "session %u: a compressed buffer is damaged %u bytes before its end",
                         b->session->id, size - have);
    }
    *ret = (struct kda_buffer_content){b->plain, size, b->holes, *holes};
    return KDA_OK;
}

enum kda_status kda_etw_buffer_bytes(struct kda_etw_buffers *buffers,
                                     const struct kda_trace_buffer *buffer,
                                     struct kda_buffer_content *ret, struct kda_error *err)
{
    struct kda_etw_buffers *b = buffers;
    size_t holes = 0;
    if (!buffer->readable)
        return kda_fail(err, KDA_USAGE, "buffers", "the header of this buffer is not in the image");
    enum kda_status status = make_room(&b->bytes, &b->bytes_capacity, b->largest)
                                 ? read_pages(b, buffer, &holes)
                                 : KDA_NO_MEMORY;
    if (status == KDA_OK) {
        tell_holes(b, buffer, holes);
        if (buffer->flags & KDA_BUFFER_FLAG_COMPRESSED)
            status = unpack(b, buffer, &holes, ret);
        else
            *ret = (struct kda_buffer_content){b->bytes, buffer->used, b->holes, holes};
    }
    if (status == KDA_LIMIT) {
        kda_buffers_tell_limit(b);
        return kda_fail(err, status, "buffers",
                        "reading was stopped: structures of this image lead round and round");
    }
    if (status != KDA_OK)
        return kda_fail(err, KDA_NO_MEMORY, "buffers", "out of memory for a trace buffer");
    return KDA_OK;
}
