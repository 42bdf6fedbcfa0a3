/*
 * buffer.c - the header of a trace buffer.
 */
#include "internal.h"

#include <string.h>

#include "bytes.h"

#define KNOWN_FLAGS 0x7fu
#define CPU_MASK 0x7ffu     /* ETW_PROCESSOR_INDEX_MASK, with PROC_INDEX */
#define CPU_MASK_WIN7 0xffu /* the high byte is an alignment */
#define STATES 7u           /* EtwBufferStateFree .. Placeholder */

static bool credible(uint32_t used, uint32_t limit)
{
    return used >= KDA_ETL_BUFFER_HEADER && used <= limit;
}

/* The largest of the fields that can be: what lies behind the last record is 0xFF, so a field that
 * is too large costs nothing and one that is too small costs records. CurrentOffset counts only
 * where the others say nothing: it is often BufferSize more than what is used. */
static uint32_t used_of(const struct kda_etl_buffer *b, uint32_t limit)
{
    uint32_t used = 0;
    if (credible(b->filled, limit))
        used = b->filled;
    if (credible(b->saved_offset, limit) && b->saved_offset > used)
        used = b->saved_offset;
    if (used == 0 && credible(b->current_offset, limit))
        used = b->current_offset;
    return used;
}

bool kda_etl_buffer_parse(const uint8_t bytes[KDA_ETL_BUFFER_HEADER], uint32_t max_used,
                          struct kda_etl_buffer *ret)
{
    struct kda_etl_buffer b = {
        .size = kda_le32(bytes),
        .saved_offset = kda_le32(bytes + 0x04),
        .current_offset = kda_le32(bytes + 0x08),
        .reference_count = (int32_t)kda_le32(bytes + 0x0c),
        .time = kda_le64(bytes + 0x10),
        .sequence = kda_le64(bytes + 0x18),
        .cpu = kda_le16(bytes + 0x28),
        .logger_id = kda_le16(bytes + 0x2a),
        .state = kda_le32(bytes + 0x2c),
        .filled = kda_le32(bytes + 0x30),
        .flags = kda_le16(bytes + 0x34),
        .type = kda_le16(bytes + 0x36),
    };
    if (b.size < KDA_ETL_BUFFER_HEADER || b.size > KDA_ETL_MAX_BUFFER ||
        (b.flags & ~KNOWN_FLAGS) != 0 || b.type > KDA_ETL_BUFFER_DBG_INFO ||
        (b.state & 0xffffu) >= STATES)
        return false;
    b.cpu &= b.flags & KDA_ETL_FLAG_PROC_INDEX ? CPU_MASK : CPU_MASK_WIN7;
    bool compressed = b.flags & KDA_ETL_FLAG_COMPRESSED;
    uint32_t limit = max_used != 0 ? max_used : compressed ? KDA_ETL_MAX_BUFFER : b.size;
    b.used = used_of(&b, limit);
    if (compressed && b.used == 0) /* nothing else says how long the bytes are when unpacked */
        return false;
    *ret = b;
    return true;
}
