/*
 * resync.c - finds buffers among other bytes.
 *
 * A buffer header has no magic number. What is taken for one has fields that can be, and behind it
 * stands a record, plain or compressed; a plain one also has the size that all have in its file.
 */
#include "internal.h"

#include <string.h>

#include "bytes.h"
#include "xpress.h"

#define WINDOW 65536u
#define FIRST_LOOK 256u
#define MAX_PROBES 200000u /* hostile files: bounds the work, not what real ones need */
#define TRIAL_IN 8192u     /* compressed bytes that surely hold TRIAL_OUT when unpacked */
#define TRIAL_OUT 4096u
#define RECORD_HEAD 8u /* bytes of a record that tell its size */

enum kda_status kda_etl_header_at(struct kda_etl_scan *scan, uint64_t off,
                                  struct kda_etl_buffer *ret, bool *found, struct kda_error *err)
{
    uint8_t bytes[KDA_ETL_BUFFER_HEADER];
    *found = false;
    if (off >= scan->file_size || scan->file_size - off < KDA_ETL_BUFFER_HEADER)
        return KDA_OK;
    if (!scan->cached || scan->cached_off != off) {
        enum kda_status status =
            kda_file_read_at(scan->etl->file, off, bytes, KDA_ETL_BUFFER_HEADER, err);
        if (status != KDA_OK)
            return status;
        scan->cached = true;
        scan->cached_off = off;
        scan->cached_found = kda_etl_buffer_parse(bytes, 0, &scan->cached_buffer);
    }
    *found = scan->cached_found;
    *ret = scan->cached_buffer;
    return KDA_OK;
}

enum kda_status kda_etl_record_at(struct kda_etl_scan *scan, uint64_t off, uint64_t left,
                                  bool *found, struct kda_error *err)
{
    uint8_t bytes[RECORD_HEAD];
    *found = false;
    if (left < RECORD_HEAD || off >= scan->file_size || scan->file_size - off < RECORD_HEAD)
        return KDA_OK;
    enum kda_status status = kda_file_read_at(scan->etl->file, off, bytes, RECORD_HEAD, err);
    *found = status == KDA_OK && kda_etl_record_size(bytes, (size_t)left) != 0;
    return status;
}

/* The first bytes of a compressed buffer, unpacked: do records start there? */
static enum kda_status try_packed(struct kda_etl_scan *scan, uint64_t off,
                                  const struct kda_etl_buffer *b, bool *found,
                                  struct kda_error *err)
{
    uint8_t in[TRIAL_IN], out[TRIAL_OUT];
    size_t size = b->size - KDA_ETL_BUFFER_HEADER, used = b->used - KDA_ETL_BUFFER_HEADER, got;
    off += KDA_ETL_BUFFER_HEADER;
    *found = false;
    if (size > scan->file_size - off)
        size = (size_t)(scan->file_size - off);
    size = size < TRIAL_IN ? size : TRIAL_IN;
    enum kda_status status = kda_file_read_at(scan->etl->file, off, in, size, err);
    if (status != KDA_OK)
        return status;
    enum kda_xpress end =
        kda_xpress_decompress(in, size, out, used < TRIAL_OUT ? used : TRIAL_OUT, &got);
    if (end == KDA_XPRESS_BAD || got < RECORD_HEAD)
        return KDA_OK;
    uint32_t first = kda_etl_record_size(out, used);
    size_t next = kda_etl_align8(first);
    *found = first != 0;
    if (*found && next + RECORD_HEAD <= got && kda_le32(out + next) != END_MARKER)
        *found = kda_etl_record_size(out + next, used - next) != 0;
    return KDA_OK;
}

enum kda_status kda_etl_verify(struct kda_etl_scan *scan, uint64_t off,
                               const struct kda_etl_buffer *b, bool *found, struct kda_error *err)
{
    if (b->flags & KDA_ETL_FLAG_COMPRESSED)
        return try_packed(scan, off, b, found, err);
    uint32_t used = b->used != 0 ? b->used : b->size;
    bool usual = b->size == scan->plain_size;
    *found = usual && used == KDA_ETL_BUFFER_HEADER; /* without records only the size tells */
    if (*found)
        return KDA_OK;
    enum kda_status status = kda_etl_record_at(scan, off + KDA_ETL_BUFFER_HEADER,
                                               used - KDA_ETL_BUFFER_HEADER, found, err);
    if (status != KDA_OK || !*found || usual || off + b->size == scan->file_size)
        return status;
    struct kda_etl_buffer next;
    return kda_etl_header_at(scan, off + b->size, &next, found, err);
}

/* The cheap half of kda_etl_buffer_parse, for every byte of a file. */
static bool may_be_header(const uint8_t *p)
{
    return (p[0x35] | p[0x37] | p[3]) <= 0x03 && p[0x35] == 0 && p[0x37] == 0 && p[0x36] <= 7 &&
           p[0x34] <= 0x7f && p[0x2d] == 0 && kda_le32(p) >= KDA_ETL_BUFFER_HEADER;
}

static enum kda_status scan_window(struct kda_etl_scan *scan, uint64_t off, const uint8_t *bytes,
                                   size_t places, bool *found, uint64_t *ret, struct kda_error *err)
{
    enum kda_status status = KDA_OK;
    for (size_t i = 0; i < places && status == KDA_OK && scan->probes < MAX_PROBES; i++) {
        struct kda_etl_buffer b;
        if (!may_be_header(bytes + i) || !kda_etl_buffer_parse(bytes + i, 0, &b))
            continue;
        bool plain = !(b.flags & KDA_ETL_FLAG_COMPRESSED);
        if (plain && scan->plain_size != 0 && b.size != scan->plain_size)
            continue;
        scan->probes++;
        status = kda_etl_verify(scan, off + i, &b, found, err);
        if (status == KDA_OK && *found) {
            *ret = off + i;
            break;
        }
    }
    return status;
}

enum kda_status kda_etl_find_buffer(struct kda_etl_scan *scan, uint64_t from, uint64_t to,
                                    uint64_t *ret, struct kda_error *err)
{
    uint8_t bytes[WINDOW];
    bool found = false;
    enum kda_status status = KDA_OK;
    *ret = to;
    while (from < to && scan->file_size - from >= KDA_ETL_BUFFER_HEADER && !found &&
           status == KDA_OK && scan->probes < MAX_PROBES) {
        uint64_t left = scan->file_size - from;
        uint64_t need = to - from + KDA_ETL_BUFFER_HEADER - 1;
        size_t size = left < WINDOW ? (size_t)left : WINDOW;
        size = need < size ? (size_t)need : size; /* asked often about little, if hostile */
        size_t places = size - KDA_ETL_BUFFER_HEADER + 1;
        status = kda_file_read_at(scan->etl->file, from, bytes, size, err);
        if (status == KDA_OK)
            status = scan_window(scan, from, bytes, places, &found, ret, err);
        from += places;
    }
    return status;
}

enum kda_status kda_etl_only_zeros(struct kda_etl_scan *scan, uint64_t from, bool *ret,
                                   struct kda_error *err)
{
    uint8_t bytes[WINDOW];
    struct kda_file *file = scan->etl->file;
    *ret = true;
    /* Most are told by their first bytes. */
    for (size_t most = FIRST_LOOK; *ret; most = WINDOW) {
        from = kda_file_next_data(file, from);
        if (from >= scan->file_size)
            break;
        uint64_t left = scan->file_size - from;
        size_t size = left < most ? (size_t)left : most;
        enum kda_status status = kda_file_read_at(file, from, bytes, size, err);
        if (status != KDA_OK)
            return status;
        *ret = bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
        from += size;
    }
    return KDA_OK;
}
