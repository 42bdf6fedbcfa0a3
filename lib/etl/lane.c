/*
 * lane.c - the buffers of one CPU, one behind the other, as one sequence of records.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "bytes.h"
#include "xpress.h"

/* A few bytes can claim to be a buffer of 64 MiB: the time that a file takes stays in proportion to
 * its size. Real traces are compressed to a tenth, never to a thousandth. */
#define UNPACK_ALWAYS (256ull << 20)
#define UNPACK_RATIO 1024u

/* ---- which buffers a lane has ---- */

struct sorted {
    uint64_t sequence;
    uint32_t entry;
};

static int by_sequence(const void *a, const void *b)
{
    const struct sorted *x = a, *y = b;
    if (x->sequence != y->sequence)
        return x->sequence < y->sequence ? -1 : 1;
    return x->entry < y->entry ? -1 : 1;
}

static bool add_lane(struct kda_etl *etl, uint16_t slots[CPU_SLOTS], unsigned slot)
{
    void *lanes = etl->lanes, *cpus = etl->cpus;
    size_t capacity = etl->lane_capacity;
    if (!kda_grow(&lanes, &etl->lane_capacity, etl->lane_count + 1, sizeof(*etl->lanes), CPU_SLOTS))
        return false;
    etl->lanes = lanes;
    if (!kda_grow(&cpus, &capacity, etl->lane_count + 1, sizeof(*etl->cpus), CPU_SLOTS))
        return false;
    etl->cpus = cpus;
    uint32_t cpu = slot == KDA_ETL_MAX_CPUS ? KDA_ETL_CPU_UNKNOWN : slot;
    memset(&etl->lanes[etl->lane_count], 0, sizeof(*etl->lanes));
    etl->lanes[etl->lane_count].cpu = cpu;
    etl->lanes[etl->lane_count].first = NO_ENTRY;
    etl->cpus[etl->lane_count] = (struct kda_etl_cpu){.cpu = cpu};
    slots[slot] = (uint16_t)etl->lane_count++;
    return true;
}

static bool link_entry(struct kda_etl *etl, uint16_t slots[CPU_SLOTS], uint32_t index)
{
    struct kda_etl_entry *entry = &etl->entries[index];
    if (slots[entry->cpu] == UINT16_MAX && !add_lane(etl, slots, entry->cpu))
        return false;
    struct kda_etl_cpu *cpu = &etl->cpus[slots[entry->cpu]];
    cpu->buffers++;
    cpu->used_bytes += entry->used - KDA_ETL_BUFFER_HEADER;
    if (entry->what & ENTRY_FIRST) /* read on its own, before all others */
        return true;
    struct kda_etl_lane *lane = &etl->lanes[slots[entry->cpu]];
    if (lane->first == NO_ENTRY)
        lane->first = index;
    else
        etl->entries[lane->last].next = index;
    lane->last = index;
    return true;
}

/* A circular file that went round begins with its newest buffers; elsewhere the sequence says less
 * than the order in the file, because each appended session counts anew. */
static struct sorted *sort_circular(struct kda_etl *etl)
{
    struct sorted *order = kda_calloc(etl->entry_count, sizeof(*order));
    if (!order)
        return NULL;
    for (uint32_t i = 0; i < etl->entry_count; i++)
        order[i] = (struct sorted){etl->entries[i].sequence, i};
    qsort(order, etl->entry_count, sizeof(*order), by_sequence);
    return order;
}

static int by_cpu(const void *a, const void *b)
{
    const struct kda_etl_cpu *x = a, *y = b;
    return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

enum kda_status kda_etl_lanes_make(struct kda_etl *etl, struct kda_error *err)
{
    bool circular = etl->info.mode & KDA_ETL_MODE_CIRCULAR;
    struct sorted *order = circular ? sort_circular(etl) : NULL;
    uint16_t slots[CPU_SLOTS];
    bool fine = order || !circular;
    memset(slots, 0xff, sizeof(slots));
    for (uint32_t i = 0; fine && i < etl->entry_count; i++)
        fine = link_entry(etl, slots, order ? order[i].entry : i);
    kda_free(order);
    if (!fine)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory sorting the buffers");
    /* Lanes keep their order, CPUs are for showing. */
    qsort(etl->cpus, etl->lane_count, sizeof(*etl->cpus), by_cpu);
    return KDA_OK;
}

/* ---- reading ---- */

void kda_etl_lane_start(struct kda_etl_lane *lane, uint32_t entry)
{
    lane->entry = entry;
    lane->key = lane->sequence = 0;
    lane->loaded = false;
}

void kda_etl_lane_free(struct kda_etl *etl, struct kda_etl_lane *lane)
{
    kda_free(lane->bytes);
    etl->memory -= lane->capacity;
    lane->bytes = NULL;
    lane->capacity = 0;
    lane->loaded = false;
}

/* Room for a buffer. *fits is false when the buffer may not be read: that costs this buffer only.
 */
static enum kda_status make_room(struct kda_etl *etl, struct kda_etl_lane *lane, uint32_t need,
                                 bool *fits, struct kda_error *err)
{
    *fits = true;
    if (need <= lane->capacity)
        return KDA_OK;
    kda_etl_lane_free(etl, lane);
    /* All buffers of a session have one size: later ones fit as well. */
    uint32_t usual = etl->info.buffer_size;
    size_t capacity =
        usual > need && usual <= KDA_ETL_MAX_BUFFER && usual <= etl->info.file_size ? usual : need;
    if (capacity > KDA_ETL_MAX_MEMORY - etl->memory) {
        *fits = false;
        return KDA_OK;
    }
    lane->bytes = kda_calloc(capacity, 1);
    if (!lane->bytes)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory reading a buffer of %zu bytes",
                        capacity);
    lane->capacity = capacity;
    etl->memory += capacity;
    return KDA_OK;
}

static enum kda_status read_packed(struct kda_etl *etl, const struct kda_etl_entry *entry,
                                   struct kda_error *err)
{
    size_t size = entry->size - KDA_ETL_BUFFER_HEADER;
    if (size > etl->packed_capacity) {
        kda_free(etl->packed);
        etl->packed_capacity = 0;
        etl->packed = kda_calloc(size, 1);
        if (!etl->packed)
            return kda_fail(err, KDA_NO_MEMORY, "etl",
                            "out of memory reading a compressed buffer of %zu bytes", size);
        etl->packed_capacity = size;
    }
    return size == 0 ? KDA_OK
                     : kda_file_read_at(etl->file, entry->off + KDA_ETL_BUFFER_HEADER, etl->packed,
                                        size, err);
}

static void lose(struct kda_etl *etl, enum kda_etl_damage_kind kind,
                 const struct kda_etl_entry *entry, const char *why)
{
    kda_etl_damage_add(etl, kind, true, entry->off, entry->size, why);
}

/* *used: bytes of the buffer that can be framed; 0: lost. */
static enum kda_status unpack(struct kda_etl *etl, struct kda_etl_lane *lane,
                              const struct kda_etl_entry *entry, size_t *used,
                              struct kda_error *err)
{
    size_t size = entry->size - KDA_ETL_BUFFER_HEADER, got;
    *used = 0;
    if (etl->unpacked > UNPACK_ALWAYS + UNPACK_RATIO * etl->info.file_size) {
        lose(etl, KDA_ETL_DAMAGE_BUFFER, entry, "the file expands more than traces do");
        return KDA_OK;
    }
    enum kda_status status = read_packed(etl, entry, err);
    if (status != KDA_OK)
        return status;
    enum kda_xpress end =
        kda_xpress_decompress(etl->packed, size, lane->bytes + KDA_ETL_BUFFER_HEADER,
                              entry->used - KDA_ETL_BUFFER_HEADER, &got);
    etl->unpacked += got;
    if (end == KDA_XPRESS_BAD) {
        lose(etl, KDA_ETL_DAMAGE_BUFFER, entry, "the compressed bytes are damaged");
        return KDA_OK;
    }
    *used = KDA_ETL_BUFFER_HEADER + got;
    if (end == KDA_XPRESS_SHORT && !(entry->what & ENTRY_CUT))
        lose(etl, KDA_ETL_DAMAGE_BUFFER, entry, "the compressed bytes end early");
    return KDA_OK;
}

static enum kda_status load(struct kda_etl *etl, struct kda_etl_lane *lane, struct kda_error *err)
{
    const struct kda_etl_entry *entry = &etl->entries[lane->entry];
    bool packed = entry->what & ENTRY_COMPRESSED, fits;
    size_t used = entry->used;
    if (packed && etl->info.compression != 0 &&
        etl->info.compression != KDA_ETL_COMPRESSION_XPRESS) {
        lose(etl, KDA_ETL_DAMAGE_UNSUPPORTED, entry,
             etl->info.compression == KDA_ETL_COMPRESSION_LZNT1
                 ? "compressed with LZNT1, which is not supported"
                 : "compressed with XPRESS Huffman, which is not supported");
        return KDA_OK;
    }
    enum kda_status status = make_room(etl, lane, entry->used, &fits, err);
    if (status != KDA_OK)
        return status;
    if (!fits) {
        lose(etl, KDA_ETL_DAMAGE_BUFFER, entry, "the buffers at one time need too much memory");
        return KDA_OK;
    }
    if (packed)
        status = unpack(etl, lane, entry, &used, err);
    else
        status = kda_file_read_at(etl->file, entry->off, lane->bytes, entry->used, err);
    if (status != KDA_OK || used <= KDA_ETL_BUFFER_HEADER)
        return status;
    uint64_t last_time = lane->framer.last_time;
    kda_etl_framer_init(&lane->framer, lane->bytes, used, entry->off, lane->entry,
                        entry->cpu == KDA_ETL_MAX_CPUS ? KDA_ETL_CPU_UNKNOWN : entry->cpu);
    lane->framer.last_time = last_time;
    lane->framer.exact = entry->what & ENTRY_EXACT && used == entry->used;
    lane->sequence = entry->sequence;
    lane->loaded = true;
    return KDA_OK;
}

/* A record whose time is far too large would hold up its CPU until all others are through: where
 * the next one is earlier, that one's time says when this one's turn is. */
static void set_key(struct kda_etl_lane *lane)
{
    uint64_t time = lane->record.raw_time, next;
    const struct kda_etl_framer *f = &lane->framer;
    if (f->next_size != 0 && kda_etl_record_time(f->bytes + f->cursor, &next) && next < time)
        time = next > lane->key ? next : lane->key;
    lane->key = time;
}

enum kda_status kda_etl_lane_next(struct kda_etl *etl, struct kda_etl_lane *lane,
                                  struct kda_error *err)
{
    struct kda_etl_hole hole;
    while (lane->entry != NO_ENTRY) {
        if (!lane->loaded) {
            enum kda_status status = load(etl, lane, err);
            if (status != KDA_OK)
                return status;
        }
        enum kda_etl_frame frame = KDA_ETL_FRAME_END;
        if (lane->loaded)
            frame = kda_etl_frame_next(&lane->framer, &lane->record, &hole);
        if (frame == KDA_ETL_FRAME_RECORD) {
            set_key(lane);
            return KDA_OK;
        }
        if (frame == KDA_ETL_FRAME_END) {
            const struct kda_etl_entry *entry = &etl->entries[lane->entry];
            bool in_file = etl->order == KDA_ETL_FILE_ORDER;
            bool last = lane->entry + 1 == etl->entry_count;
            lane->entry = !in_file ? entry->next : last ? NO_ENTRY : lane->entry + 1;
            lane->loaded = false;
            continue;
        }
        kda_etl_damage_add(etl,
                           frame == KDA_ETL_FRAME_UNWRITTEN ? KDA_ETL_DAMAGE_UNWRITTEN
                                                            : KDA_ETL_DAMAGE_RECORD,
                           true, hole.off, hole.bytes, hole.why);
    }
    return KDA_OK;
}
