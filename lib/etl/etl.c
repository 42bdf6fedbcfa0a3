/*
 * etl.c - trace files: open, and the records of all CPUs in time order.
 */
#include "internal.h"

#include <string.h>

#include "alloc.h"

/* ---- open and close ---- */

/* Circular, and more was written than is there. */
static bool wrapped(const struct kda_etl *etl)
{
    const struct kda_etl_info *info = &etl->info;
    return (info->mode & KDA_ETL_MODE_CIRCULAR) != 0 && info->buffers_written > info->buffers &&
           etl->entry_count > 1 && etl->entries[1].sequence > 1;
}

static enum kda_status set_up(struct kda_etl *etl, struct kda_error *err)
{
    enum kda_status status = kda_etl_walk(etl, err);
    if (status == KDA_OK)
        status = kda_etl_lanes_make(etl, err);
    if (status != KDA_OK)
        return status;
    etl->heap = kda_calloc(etl->lane_count, sizeof(struct kda_etl_lane *));
    if (!etl->heap)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory opening \"%s\"",
                        kda_file_name(etl->file));
    struct kda_etl_info *info = &etl->info;
    info->session_name = etl->session_name ? etl->session_name : "";
    info->file_name = etl->file_name ? etl->file_name : "";
    info->wrapped = wrapped(etl);
    if (info->compression != 0 && info->compression != KDA_ETL_COMPRESSION_XPRESS)
        info->unread_buffers = info->compressed_buffers;
    if (info->compressed_buffers != 0 && info->compression == 0)
        info->compression = KDA_ETL_COMPRESSION_XPRESS;
    etl->damage_at_open = etl->damage_count;
    etl->damage_kept_at_open = etl->damage_kept;
    return KDA_OK;
}

/* Takes `file`, also when it fails. */
static enum kda_status open_file(struct kda_file *file, struct kda_etl **ret, struct kda_error *err)
{
    struct kda_etl *etl = kda_calloc(1, sizeof(*etl));
    if (!etl) {
        enum kda_status status = kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory opening \"%s\"",
                                          kda_file_name(file));
        kda_file_close(file);
        return status;
    }
    etl->file = file;
    enum kda_status status = set_up(etl, err);
    if (status != KDA_OK) {
        kda_etl_close(etl);
        return status;
    }
    *ret = etl;
    return KDA_OK;
}

bool kda_etl_is_trace(const char *path)
{
    uint8_t bytes[KDA_ETL_BUFFER_HEADER];
    struct kda_etl_buffer header;
    struct kda_file *file;
    if (kda_file_open(path, &file, NULL) != KDA_OK)
        return false;
    bool whole = kda_file_read_at(file, 0, bytes, sizeof(bytes), NULL) == KDA_OK;
    kda_file_close(file);
    return whole && kda_etl_buffer_parse(bytes, 0, &header) &&
           header.type == KDA_ETL_BUFFER_HEADER_TYPE;
}

enum kda_status kda_etl_open(const char *path, struct kda_etl **ret, struct kda_error *err)
{
    struct kda_file *file;
    enum kda_status status = kda_file_open(path, &file, err);
    return status == KDA_OK ? open_file(file, ret, err) : status;
}

enum kda_status kda_etl_open_memory(const void *bytes, size_t size, const char *name,
                                    struct kda_etl **ret, struct kda_error *err)
{
    struct kda_file *file;
    enum kda_status status = kda_file_open_memory(bytes, size, name, &file, err);
    return status == KDA_OK ? open_file(file, ret, err) : status;
}

void kda_etl_close(struct kda_etl *etl)
{
    if (!etl)
        return;
    for (size_t i = 0; i < etl->lane_count; i++)
        kda_etl_lane_free(etl, &etl->lanes[i]);
    kda_etl_lane_free(etl, &etl->serial);
    kda_free(etl->heap);
    kda_free(etl->packed);
    kda_free(etl->lanes);
    kda_free(etl->cpus);
    kda_free(etl->sessions);
    kda_free(etl->damage);
    kda_free(etl->entries);
    kda_free(etl->session_name);
    kda_free(etl->file_name);
    kda_file_close(etl->file);
    kda_free(etl);
}

/* ---- merge ---- */

static bool before(const struct kda_etl_lane *a, const struct kda_etl_lane *b)
{
    if (a->key != b->key)
        return a->key < b->key;
    if (a->sequence != b->sequence)
        return a->sequence < b->sequence;
    return a->record.off < b->record.off;
}

static void sift_down(struct kda_etl_lane **heap, size_t count, size_t at)
{
    struct kda_etl_lane *lane = heap[at];
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(heap[child + 1], heap[child]))
            child++;
        if (!before(heap[child], lane))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = lane;
}

/* The header buffer first; in file order all that follows it too. */
static enum kda_status start(struct kda_etl *etl, struct kda_error *err)
{
    bool in_file = etl->order == KDA_ETL_FILE_ORDER;
    bool first = etl->entries[0].what & ENTRY_FIRST;
    kda_etl_lane_start(&etl->serial, in_file || first ? 0 : NO_ENTRY);
    etl->heap_count = 0;
    etl->started = true;
    enum kda_status status = kda_etl_lane_next(etl, &etl->serial, err);
    for (size_t i = 0; status == KDA_OK && !in_file && i < etl->lane_count; i++) {
        struct kda_etl_lane *lane = &etl->lanes[i];
        kda_etl_lane_start(lane, lane->first);
        status = kda_etl_lane_next(etl, lane, err);
        if (status != KDA_OK)
            return status;
        if (lane->entry != NO_ENTRY)
            etl->heap[etl->heap_count++] = lane;
        else
            kda_etl_lane_free(etl, lane);
    }
    for (size_t i = etl->heap_count / 2; i-- > 0;)
        sift_down(etl->heap, etl->heap_count, i);
    return status;
}

/* Moves the lane that gave the last record on. */
static enum kda_status move_on(struct kda_etl *etl, struct kda_error *err)
{
    struct kda_etl_lane *lane = etl->current;
    if (!lane)
        return KDA_OK;
    enum kda_status status = kda_etl_lane_next(etl, lane, err);
    if (status != KDA_OK)
        return status;
    if (lane->entry == NO_ENTRY)
        kda_etl_lane_free(etl, lane);
    if (lane == &etl->serial)
        return KDA_OK;
    if (lane->entry == NO_ENTRY)
        etl->heap[0] = etl->heap[--etl->heap_count];
    if (etl->heap_count > 1)
        sift_down(etl->heap, etl->heap_count, 0);
    return KDA_OK;
}

enum kda_status kda_etl_next(struct kda_etl *etl, const struct kda_etl_record **ret,
                             struct kda_error *err)
{
    enum kda_status status = KDA_OK;
    if (!etl->ended)
        status = etl->started ? move_on(etl, err) : start(etl, err);
    etl->ended |= status != KDA_OK;
    if (status != KDA_OK)
        return status;
    etl->current = NULL;
    if (!etl->ended && etl->serial.entry != NO_ENTRY)
        etl->current = &etl->serial;
    else if (!etl->ended && etl->heap_count > 0)
        etl->current = etl->heap[0];
    etl->ended = etl->current == NULL;
    *ret = etl->current ? &etl->current->record : NULL;
    return KDA_OK;
}

void kda_etl_rewind(struct kda_etl *etl, enum kda_etl_order order)
{
    for (size_t i = 0; i < etl->lane_count; i++) {
        kda_etl_lane_free(etl, &etl->lanes[i]);
        etl->lanes[i].framer.last_time = 0;
    }
    kda_etl_lane_free(etl, &etl->serial);
    etl->serial.framer.last_time = 0;
    etl->order = order;
    etl->started = etl->ended = false;
    etl->current = NULL;
    etl->heap_count = 0;
    etl->unpacked = 0;
    etl->damage_count = etl->damage_at_open;
    etl->damage_kept = etl->damage_kept_at_open;
}

/* ---- facts ---- */

bool kda_etl_time(const struct kda_etl *etl, uint64_t raw, uint64_t *ret)
{
    if (!etl->info.has_header)
        return false;
    *ret = kda_etl_clock_time(&etl->info.clock, raw);
    return true;
}

const char *kda_etl_name(const struct kda_etl *etl)
{
    return kda_path_name(kda_file_name(etl->file));
}

const struct kda_etl_info *kda_etl_info(const struct kda_etl *etl)
{
    return &etl->info;
}

size_t kda_etl_session_count(const struct kda_etl *etl)
{
    return etl->session_count;
}

const struct kda_etl_session *kda_etl_session_at(const struct kda_etl *etl, size_t index)
{
    return index < etl->session_count ? &etl->sessions[index] : NULL;
}

size_t kda_etl_cpu_count(const struct kda_etl *etl)
{
    return etl->lane_count;
}

const struct kda_etl_cpu *kda_etl_cpu_at(const struct kda_etl *etl, size_t index)
{
    return index < etl->lane_count ? &etl->cpus[index] : NULL;
}
