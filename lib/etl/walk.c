/*
 * walk.c - finds the buffers of a file by their headers, from first to last.
 *
 * The count in the file's header is not believed (unfinished and circular files have a wrong one),
 * and no single field may cost more than its own buffer: a size is checked against what stands
 * where the next buffer should be.
 */
#include "internal.h"

#include <string.h>

#include "alloc.h"

#define MAX_SESSIONS 65536u
#define SIZE_PROBES 5u /* buffers that are asked for the size of all */
#define FIRST_RECORD KDA_ETL_BUFFER_HEADER

struct walk {
    struct kda_etl_scan scan;
    struct kda_etl *etl;
    uint64_t off;
    bool full;    /* no room for more entries */
    bool flushed; /* the session's last buffer was seen */
};

static bool compressed(const struct kda_etl_buffer *b)
{
    return b->flags & KDA_ETL_FLAG_COMPRESSED;
}

/* ---- what is found ---- */

/* An appended file says nowhere where a session ends: its buffers have another logger id, or count
 * from 1 again behind one with the flush marker. */
static void note_session(struct walk *walk, const struct kda_etl_buffer *b, uint32_t index)
{
    struct kda_etl *etl = walk->etl;
    struct kda_etl_session *last =
        etl->session_count > 0 ? &etl->sessions[etl->session_count - 1] : NULL;
    bool circular = etl->info.mode & KDA_ETL_MODE_CIRCULAR; /* counts back where it went round */
    bool begins = !last || b->logger_id != last->logger_id ||
                  (walk->flushed && !circular && b->sequence <= last->last_sequence);
    if (begins && etl->session_count < MAX_SESSIONS) {
        void *items = etl->sessions;
        if (kda_grow(&items, &etl->session_capacity, etl->session_count + 1, sizeof(*etl->sessions),
                     MAX_SESSIONS)) {
            etl->sessions = items;
            last = &etl->sessions[etl->session_count++];
            *last = (struct kda_etl_session){
                .logger_id = b->logger_id, .first_buffer = index, .first_sequence = b->sequence};
            walk->flushed = false;
        } else {
            etl->out_of_memory = true;
        }
    }
    if (!last)
        return;
    last->buffers++;
    if (b->sequence < last->first_sequence)
        last->first_sequence = b->sequence;
    if (b->sequence > last->last_sequence)
        last->last_sequence = b->sequence;
    /* The header buffer always has the marker. */
    if (b->flags & KDA_ETL_FLAG_FLUSH_MARKER && b->type != KDA_ETL_BUFFER_HEADER_TYPE)
        walk->flushed = last->closed = true;
}

static void count_flags(struct kda_etl_info *info, const struct kda_etl_buffer *b)
{
    info->compressed_buffers += compressed(b);
    info->events_lost_buffers += (b->flags & KDA_ETL_FLAG_EVENTS_LOST) != 0;
    info->buffer_lost_buffers += (b->flags & KDA_ETL_FLAG_BUFFER_LOST) != 0;
    info->rtbackup_corrupt_buffers += (b->flags & KDA_ETL_FLAG_RTBACKUP_CORRUPT) != 0;
}

static enum kda_status add_entry(struct walk *walk, const struct kda_etl_entry *entry,
                                 struct kda_error *err)
{
    struct kda_etl *etl = walk->etl;
    if (etl->entry_count == MAX_ENTRIES) {
        kda_etl_damage_add(etl, KDA_ETL_DAMAGE_FILE, true, walk->off,
                           walk->scan.file_size - walk->off, "more buffers than are read");
        walk->full = true;
        return KDA_OK;
    }
    void *items = etl->entries;
    if (etl->out_of_memory || !kda_grow(&items, &etl->entry_capacity, etl->entry_count + 1,
                                        sizeof(*etl->entries), MAX_ENTRIES))
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory listing the buffers");
    etl->entries = items;
    etl->entries[etl->entry_count++] = *entry;
    etl->info.buffers++;
    etl->info.used_bytes += entry->used - KDA_ETL_BUFFER_HEADER;
    return KDA_OK;
}

static void damage(struct walk *walk, enum kda_etl_damage_kind kind, bool lost, uint64_t bytes,
                   const char *why)
{
    kda_etl_damage_add(walk->etl, kind, lost, walk->off, bytes, why);
}

/* ---- a buffer with a header ---- */

/* Can the buffer at walk->off end at `end`? At the usual place any header will do; elsewhere bytes
 * of records may look like one. */
static enum kda_status fits(struct walk *walk, uint64_t end, bool *ret, struct kda_error *err)
{
    struct kda_etl_buffer next;
    uint32_t plain = walk->scan.plain_size;
    *ret = end == walk->scan.file_size;
    if (*ret || end > walk->scan.file_size)
        return KDA_OK;
    enum kda_status status = kda_etl_header_at(&walk->scan, end, &next, ret, err);
    if (status != KDA_OK || !*ret || compressed(&next))
        return status;
    if (plain != 0 && end == walk->off + plain)
        return KDA_OK;
    return kda_etl_verify(&walk->scan, end, &next, ret, err);
}

/* Where the next buffer begins before the one at walk->off can have ended: its size is wrong, or
 * bytes of it are missing. `*ret` stays as it is if there is none. */
static enum kda_status find_early(struct walk *walk, uint32_t *ret, struct kda_error *err)
{
    uint64_t found, to = walk->off + *ret;
    if (to > walk->scan.file_size)
        to = walk->scan.file_size;
    if (walk->off + KDA_ETL_BUFFER_HEADER >= to)
        return KDA_OK;
    enum kda_status status =
        kda_etl_find_buffer(&walk->scan, walk->off + KDA_ETL_BUFFER_HEADER, to, &found, err);
    if (status == KDA_OK && found < to)
        *ret = (uint32_t)(found - walk->off);
    return status;
}

/* How long the buffer at walk->off is. */
static enum kda_status choose_size(struct walk *walk, const struct kda_etl_buffer *b, uint32_t *ret,
                                   struct kda_error *err)
{
    uint32_t plain = compressed(b) ? 0 : walk->scan.plain_size;
    bool good;
    *ret = b->size;
    enum kda_status status = fits(walk, walk->off + b->size, &good, err);
    if (status != KDA_OK || good)
        return status;
    if (plain != 0 && plain != b->size) {
        *ret = plain;
        status = fits(walk, walk->off + plain, &good, err);
        if (status != KDA_OK || good)
            return status;
    }
    return find_early(walk, ret, err);
}

/* Bytes of `used` that the file holds. */
static void note_cut(struct walk *walk, const struct kda_etl_buffer *b, uint64_t left,
                     struct kda_etl_entry *entry)
{
    entry->what |= ENTRY_CUT;
    entry->size = (uint32_t)left;
    bool lost = compressed(b) || entry->used > left;
    if (!compressed(b) && lost) {
        entry->used = (uint32_t)left;
        entry->what &= (uint8_t)~ENTRY_EXACT; /* the last record is cut: the framer says so */
    }
    damage(walk, KDA_ETL_DAMAGE_FILE, lost, left,
           lost ? "the file ends within this buffer"
                : "the file ends within the unused part of this buffer");
}

/* The two are equal in data buffers; in header buffers SavedOffset may be smaller. */
static bool contradicts(const struct kda_etl_buffer *b, bool first)
{
    if (compressed(b) || b->saved_offset == 0)
        return false;
    return first ? b->filled < b->saved_offset || b->filled > b->size
                 : b->filled != b->saved_offset;
}

static enum kda_status take_buffer(struct walk *walk, const struct kda_etl_buffer *b,
                                   struct kda_error *err)
{
    uint32_t size;
    uint64_t left = walk->scan.file_size - walk->off;
    enum kda_status status = choose_size(walk, b, &size, err);
    if (status != KDA_OK)
        return status;
    struct kda_etl_entry entry = {
        .off = walk->off,
        .sequence = b->sequence,
        .size = size,
        .used = b->used != 0 ? b->used : size,
        .next = NO_ENTRY,
        .cpu = (uint16_t)b->cpu,
        .what = (uint8_t)((compressed(b) ? ENTRY_COMPRESSED : 0) |
                          (b->used != 0 ? ENTRY_EXACT : 0) | (walk->off == 0 ? ENTRY_FIRST : 0)),
    };
    if (size != b->size)
        damage(walk, KDA_ETL_DAMAGE_BUFFER, false, size < left ? size : left,
               "BufferSize cannot be: the next buffer stands elsewhere");
    else if (contradicts(b, walk->off == 0))
        damage(walk, KDA_ETL_DAMAGE_BUFFER, false, size < left ? size : left,
               "the header contradicts itself about the used part");
    /* There SavedOffset is too small where Offset is right: if that is damaged, nothing says it. */
    if (walk->off == 0 && contradicts(b, true)) {
        entry.used = size;
        entry.what &= (uint8_t)~ENTRY_EXACT;
    }
    if (!compressed(b) && entry.used > size)
        entry.used = size;
    if (size > left)
        note_cut(walk, b, left, &entry);
    bool plain_file = !(walk->etl->info.mode & KDA_ETL_MODE_COMPRESSED);
    if (plain_file && walk->off != 0 && walk->scan.plain_size == 0 && size <= left)
        walk->scan.plain_size = size;
    count_flags(&walk->etl->info, b);
    note_session(walk, b, (uint32_t)walk->etl->entry_count);
    status = add_entry(walk, &entry, err);
    walk->off += entry.size;
    return status;
}

/* ---- bytes without a header ---- */

/* Records may be there all the same, at the place where they start in every buffer. */
static enum kda_status take_headless(struct walk *walk, uint64_t size, bool *taken,
                                     struct kda_error *err)
{
    uint64_t left = walk->scan.file_size - walk->off;
    if (size > left)
        size = left;
    *taken = false;
    if (size <= KDA_ETL_BUFFER_HEADER)
        return KDA_OK;
    enum kda_status status = kda_etl_record_at(&walk->scan, walk->off + FIRST_RECORD,
                                               size - KDA_ETL_BUFFER_HEADER, taken, err);
    if (status != KDA_OK || !*taken)
        return status;
    bool first = walk->off == 0;
    struct kda_etl_entry entry = {
        .off = walk->off,
        .size = (uint32_t)size,
        .used = (uint32_t)size,
        .next = NO_ENTRY,
        .cpu = first ? 0 : KDA_ETL_MAX_CPUS,
        .what = ENTRY_NO_HEADER | (first ? ENTRY_FIRST : 0),
    };
    damage(walk, KDA_ETL_DAMAGE_BUFFER, false, KDA_ETL_BUFFER_HEADER,
           "the buffer's header is damaged: its records were read, its CPU is not known");
    status = add_entry(walk, &entry, err);
    walk->off += size;
    return status;
}

/* Zeros up to the end are room that was never filled, unless buffers are missing. */
static void note_zeros(struct walk *walk)
{
    struct kda_etl_info *info = &walk->etl->info;
    info->tail_zeros = walk->scan.file_size - walk->off;
    bool whole = info->unfinished || info->buffers_written <= info->buffers;
    if (!info->has_header || !whole)
        damage(walk, KDA_ETL_DAMAGE_FILE, true, info->tail_zeros, "zeros where buffers should be");
    walk->off = walk->scan.file_size;
}

static enum kda_status skip_to_buffer(struct walk *walk, struct kda_error *err)
{
    struct kda_etl_scan *scan = &walk->scan;
    uint64_t next = walk->off + scan->plain_size, limit = scan->file_size;
    struct kda_etl_buffer b;
    bool found = false;
    enum kda_status status = KDA_OK;
    if (scan->plain_size != 0)
        status = kda_etl_header_at(scan, next, &b, &found, err);
    found = found && b.size == scan->plain_size;
    /* What holds no buffer in its first part is another kind of file. */
    if (walk->etl->entry_count == 0 && limit > KDA_ETL_MAX_BUFFER)
        limit = KDA_ETL_MAX_BUFFER;
    if (status == KDA_OK && !found && walk->off + 1 < limit)
        status = kda_etl_find_buffer(scan, walk->off + 1, limit, &next, err);
    else if (!found)
        next = limit;
    if (status != KDA_OK)
        return status;
    if (next >= limit)
        next = scan->file_size;
    damage(walk, KDA_ETL_DAMAGE_FILE, true, next - walk->off, "no buffer header");
    walk->off = next;
    return KDA_OK;
}

static enum kda_status pass_damage(struct walk *walk, struct kda_error *err)
{
    bool zeros, taken = false;
    enum kda_status status = kda_etl_only_zeros(&walk->scan, walk->off, &zeros, err);
    if (status != KDA_OK)
        return status;
    if (zeros) {
        note_zeros(walk);
        return KDA_OK;
    }
    uint64_t size = walk->scan.plain_size;
    if (size == 0 && walk->off == 0 && walk->etl->info.has_header) /* ends where the next begins */
        status = kda_etl_find_buffer(
            &walk->scan, 1,
            walk->scan.file_size < KDA_ETL_MAX_BUFFER ? walk->scan.file_size : KDA_ETL_MAX_BUFFER,
            &size, err);
    if (status == KDA_OK && size != 0)
        status = take_headless(walk, size, &taken, err);
    return status != KDA_OK || taken ? status : skip_to_buffer(walk, err);
}

/* ---- the file ---- */

/* Of the first places where buffers of this size would begin: how many have one. */
static enum kda_status count_fits(struct walk *walk, uint32_t size, unsigned *ret,
                                  struct kda_error *err)
{
    struct kda_etl_buffer b;
    bool found;
    *ret = size == walk->scan.file_size;
    for (uint64_t i = 0; i < SIZE_PROBES; i++) {
        enum kda_status status = kda_etl_header_at(&walk->scan, i * size, &b, &found, err);
        if (status != KDA_OK)
            return status;
        *ret += found && b.size == size;
    }
    return KDA_OK;
}

/* The size of all plain buffers: what the first record says or what the first header says,
 * whichever more buffers agree with. */
static enum kda_status find_plain_size(struct walk *walk, struct kda_error *err)
{
    struct kda_etl_info *info = &walk->etl->info;
    struct kda_etl_buffer b;
    bool found;
    unsigned best = 0, fit;
    if (info->mode & KDA_ETL_MODE_COMPRESSED)
        return KDA_OK;
    enum kda_status status = kda_etl_header_at(&walk->scan, 0, &b, &found, err);
    uint32_t sizes[2] = {info->buffer_size, status == KDA_OK && found ? b.size : 0};
    for (size_t i = 0; i < 2 && status == KDA_OK; i++) {
        if (sizes[i] <= KDA_ETL_BUFFER_HEADER || sizes[i] > KDA_ETL_MAX_BUFFER)
            continue;
        status = count_fits(walk, sizes[i], &fit, err);
        if (status == KDA_OK && fit > best) {
            best = fit;
            walk->scan.plain_size = sizes[i];
        }
    }
    return status;
}

static enum kda_status read_first(struct walk *walk, struct kda_error *err)
{
    struct kda_etl *etl = walk->etl;
    struct kda_etl_buffer b;
    bool found;
    if (walk->scan.file_size <= FIRST_RECORD)
        return KDA_OK;
    uint64_t left = walk->scan.file_size - FIRST_RECORD;
    size_t size = left < LOGFILE_HEADER_MAX ? (size_t)left : LOGFILE_HEADER_MAX;
    uint8_t *bytes = kda_calloc(size, 1);
    if (!bytes)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory reading the file's header");
    enum kda_status status = kda_file_read_at(etl->file, FIRST_RECORD, bytes, size, err);
    if (status == KDA_OK)
        status = kda_etl_header_read(bytes, size, &etl->info, &etl->session_name, &etl->file_name,
                                     &found, err);
    kda_free(bytes);
    if (status == KDA_OK)
        status = kda_etl_header_at(&walk->scan, 0, &b, &found, err);
    if (status != KDA_OK || !(etl->info.mode & KDA_ETL_MODE_COMPRESSED))
        return status;
    /* Only in compressed files the first header's State is the format; other values are states. */
    uint32_t format = found ? b.state & 0xffffu : 0;
    etl->info.compression =
        format == KDA_ETL_COMPRESSION_LZNT1 || format == KDA_ETL_COMPRESSION_XPRESS_HUFF
            ? format
            : KDA_ETL_COMPRESSION_XPRESS;
    return KDA_OK;
}

enum kda_status kda_etl_walk(struct kda_etl *etl, struct kda_error *err)
{
    struct walk walk = {.etl = etl, .scan = {.etl = etl, .file_size = kda_file_size(etl->file)}};
    etl->info.file_size = walk.scan.file_size;
    enum kda_status status = read_first(&walk, err);
    if (status == KDA_OK)
        status = find_plain_size(&walk, err);
    while (status == KDA_OK && walk.off < walk.scan.file_size && !walk.full) {
        struct kda_etl_buffer b;
        bool found;
        status = kda_etl_header_at(&walk.scan, walk.off, &b, &found, err);
        if (status == KDA_OK)
            status = found ? take_buffer(&walk, &b, err) : pass_damage(&walk, err);
    }
    if (status != KDA_OK)
        return status;
    if (etl->entry_count == 0)
        return kda_fail(err, KDA_BAD_DATA, "etl", "\"%s\" is no trace file: no buffer header in it",
                        kda_file_name(etl->file));
    if (!etl->info.has_header)
        kda_etl_damage_add(etl, KDA_ETL_DAMAGE_BUFFER, true, 0, 0,
                           "the file's first record is damaged: there is no clock");
    else if (etl->info.buffer_size == 0)
        etl->info.buffer_size = walk.scan.plain_size;
    return KDA_OK;
}
