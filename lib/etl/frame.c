/*
 * frame.c - from record to record inside one buffer, over what is damaged.
 */
#include "internal.h"

#include <string.h>

#include "bytes.h"

#define LEAST 8u /* bytes of the shortest record; records start at multiples of it */

/* A lone record between two damaged ones is believed if its time is close behind the last good
 * one: two minutes of a 500 MHz counter, two hours of the usual 10 MHz. */
#define NEAR_TIME (1ull << 36)

void kda_etl_framer_init(struct kda_etl_framer *framer, const uint8_t *bytes, size_t size,
                         uint64_t off, uint32_t buffer, uint32_t cpu)
{
    memset(framer, 0, sizeof(*framer));
    framer->bytes = bytes;
    framer->size = size;
    framer->cursor = KDA_ETL_BUFFER_HEADER;
    framer->off = off;
    framer->buffer = buffer;
    framer->cpu = cpu;
}

bool kda_etl_chain(const uint8_t *bytes, size_t size, size_t at, unsigned wanted)
{
    unsigned got = 0;
    while (got < wanted) {
        if (at >= size || size - at < LEAST || kda_le32(bytes + at) == END_MARKER)
            return got > 0;
        uint32_t record = kda_etl_record_size(bytes + at, size - at);
        if (record == 0)
            return false;
        at += kda_etl_align8(record);
        got++;
    }
    return true;
}

/* First place in [from, to) where `wanted` records in a row start, or one that is near in time;
 * `to` if there is none. Linear: each place costs at most `wanted` looks. */
static size_t find_start(const struct kda_etl_framer *framer, size_t from, size_t to,
                         unsigned wanted)
{
    const uint8_t *bytes = framer->bytes;
    for (size_t at = from; at < to && framer->size - at >= LEAST; at += LEAST) {
        if (bytes[at + 3] < 0x90 || bytes[at + 3] == 0xff)
            continue;
        if (kda_etl_chain(bytes, framer->size, at, wanted))
            return at;
        uint64_t time;
        if (wanted == 2 && framer->good_time != 0 &&
            kda_etl_record_size(bytes + at, framer->size - at) != 0 &&
            kda_etl_record_time(bytes + at, &time) && time >= framer->good_time &&
            time - framer->good_time < NEAR_TIME)
            return at;
    }
    return to;
}

static bool all_same(const uint8_t *bytes, size_t size, uint8_t value)
{
    return size == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static const char *why_not(const uint8_t *p, size_t left)
{
    uint8_t whole[LEAST] = {0};
    memcpy(whole, p, left < LEAST ? left : LEAST);
    whole[0] = whole[1] = whole[4] = whole[5] = 0xff; /* the largest size there is */
    return kda_etl_record_size(whole, SIZE_MAX) == 0 ? "no record header"
                                                     : "a record whose size cannot be";
}

/* Moves on to `next` and says what lay before it. */
static enum kda_etl_frame make_hole(struct kda_etl_framer *framer, size_t next,
                                    struct kda_etl_hole *hole)
{
    size_t at = framer->cursor, bytes = next - at;
    const uint8_t *p = framer->bytes + at;
    hole->off = framer->off + at;
    hole->bytes = bytes;
    framer->cursor = next;
    framer->next_size = 0;
    if (all_same(p, bytes, 0x00) || all_same(p, bytes, 0xff)) {
        hole->why = "reserved, but not written";
        return KDA_ETL_FRAME_UNWRITTEN;
    }
    hole->why = why_not(p, framer->size - at);
    return KDA_ETL_FRAME_DAMAGED;
}

static enum kda_etl_frame skip(struct kda_etl_framer *framer, struct kda_etl_hole *hole)
{
    size_t at = framer->cursor, size = framer->size;
    bool filler = kda_le32(framer->bytes + at) == END_MARKER;
    if (filler && all_same(framer->bytes + at, size - at, 0xff) && !framer->exact) {
        framer->cursor = size;
        return KDA_ETL_FRAME_END;
    }
    return make_hole(framer, find_start(framer, at + LEAST, size, 2), hole);
}

/* Looks at what stands behind the record at the cursor. True: a record, the end marker or the end.
 * The size of the next record is kept, so that each header is measured once. */
static bool look_behind(struct kda_etl_framer *framer, uint32_t size)
{
    size_t next = framer->cursor + kda_etl_align8(size);
    framer->next_size = 0;
    if (next >= framer->size || framer->size - next < LEAST)
        return true;
    framer->next_size = kda_etl_record_size(framer->bytes + next, framer->size - next);
    return framer->next_size != 0 || kda_le32(framer->bytes + next) == END_MARKER;
}

enum kda_etl_frame kda_etl_frame_next(struct kda_etl_framer *framer, struct kda_etl_record *record,
                                      struct kda_etl_hole *hole)
{
    size_t at = framer->cursor;
    if (at >= framer->size || framer->size - at < LEAST)
        return KDA_ETL_FRAME_END;
    const uint8_t *p = framer->bytes + at;
    uint32_t size = framer->next_size;
    if (size == 0)
        size = kda_etl_record_size(p, framer->size - at);
    if (size == 0)
        return skip(framer, hole);
    size_t next = at + kda_etl_align8(size);
    bool suspect = false;
    if (!look_behind(framer, size)) {
        /* Either the next record is damaged or the size of this one: if records start within it,
         * it is this one. */
        size_t start = find_start(framer, at + LEAST, next, 3);
        if (start < next)
            return make_hole(framer, start, hole);
        suspect = true;
    }
    kda_etl_record_fill(p, size, record);
    record->suspect |= suspect;
    record->off = framer->off + at;
    record->buffer = framer->buffer;
    record->cpu = framer->cpu;
    if (record->has_time)
        framer->last_time = framer->good_time = record->raw_time;
    else
        record->raw_time = framer->last_time;
    framer->cursor = next < framer->size ? next : framer->size;
    return KDA_ETL_FRAME_RECORD;
}
