/*
 * stats.c - how many records of which kind.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "map.h"

struct kind {
    struct kda_etl_count count;
    uint32_t next; /* entry with the same hash + 1; 0 = none */
};

struct kda_etl_stats {
    struct kind *kinds;
    size_t count, capacity;
    struct kda_map by_hash; /* hash of the key -> first entry + 1 */
    struct kda_etl_count others;
};

enum kda_status kda_etl_stats_create(struct kda_etl_stats **ret, struct kda_error *err)
{
    struct kda_etl_stats *stats = kda_calloc(1, sizeof(*stats));
    if (!stats)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for statistics");
    kda_map_init(&stats->by_hash);
    stats->others.others = true;
    *ret = stats;
    return KDA_OK;
}

void kda_etl_stats_destroy(struct kda_etl_stats *stats)
{
    if (!stats)
        return;
    kda_map_deinit(&stats->by_hash);
    kda_free(stats->kinds);
    kda_free(stats);
}

/* Stacks and descriptions are as long as they happen to be. */
static bool varies(uint16_t type)
{
    return type == KDA_ETL_EXT_STACK32 || type == KDA_ETL_EXT_STACK64 ||
           type == KDA_ETL_EXT_SCHEMA_TL || type == KDA_ETL_EXT_TRAITS;
}

/* Every byte of *key is set, padding too: it is compared and hashed as bytes. */
static void make_key(const struct kda_etl_record *record, struct kda_etl_count *key)
{
    memset(key, 0, sizeof(*key));
    key->header = record->header;
    key->shape = record->shape;
    key->version = record->version;
    key->id = record->id;
    key->component = record->component;
    key->has_guid = record->guid != NULL;
    if (record->guid)
        memcpy(key->guid, record->guid, sizeof(key->guid));
    if (record->shape == KDA_ETL_SHAPE_SYSTEM || record->shape == KDA_ETL_SHAPE_CLASSIC) {
        key->group = record->group;
        key->type = record->type;
    }
    if (record->shape != KDA_ETL_SHAPE_EVENT)
        return;
    key->opcode = record->opcode;
    key->level = record->level;
    key->flags = record->flags;
    key->property = record->property;
    struct kda_etl_ext item;
    for (uint32_t at = 0; kda_etl_ext_next(record, &at, &item);) {
        if (key->ext_count == KDA_ETL_COUNT_EXT) {
            key->more_ext = true;
            break;
        }
        key->ext[key->ext_count].type = item.type;
        key->ext[key->ext_count++].size = varies(item.type) ? 0 : item.size;
    }
}

#define KEY_AT offsetof(struct kda_etl_count, header)
#define KEY_SIZE (sizeof(struct kda_etl_count) - KEY_AT)

static uint64_t hash_of(const struct kda_etl_count *key)
{
    const uint8_t *p = (const uint8_t *)key + KEY_AT;
    uint64_t hash = 0, word;
    for (size_t at = 0; at < KEY_SIZE; at += sizeof(word)) {
        size_t left = KEY_SIZE - at;
        word = 0;
        memcpy(&word, p + at, left < sizeof(word) ? left : sizeof(word));
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 32;
    }
    return hash != 0 ? hash : 1;
}

static struct kda_etl_count *count_of(struct kda_etl_stats *stats, const struct kda_etl_count *key)
{
    uint64_t hash = hash_of(key), first = 0;
    (void)kda_map_get(&stats->by_hash, hash, &first);
    for (uint64_t at = first; at != 0; at = stats->kinds[at - 1].next)
        if (memcmp((const uint8_t *)&stats->kinds[at - 1].count + KEY_AT,
                   (const uint8_t *)key + KEY_AT, KEY_SIZE) == 0)
            return &stats->kinds[at - 1].count;
    if (stats->count == KDA_ETL_MAX_COUNTS)
        return &stats->others;
    void *items = stats->kinds;
    if (!kda_grow(&items, &stats->capacity, stats->count + 1, sizeof(*stats->kinds),
                  KDA_ETL_MAX_COUNTS))
        return NULL;
    stats->kinds = items;
    if (!kda_map_put(&stats->by_hash, hash, stats->count + 1))
        return NULL;
    struct kind *kind = &stats->kinds[stats->count++];
    memcpy(&kind->count, key, sizeof(*key)); /* with its padding */
    kind->next = (uint32_t)first;
    return &kind->count;
}

enum kda_status kda_etl_stats_add(struct kda_etl_stats *stats, const struct kda_etl_record *record,
                                  struct kda_error *err)
{
    struct kda_etl_count key;
    make_key(record, &key);
    struct kda_etl_count *count = count_of(stats, &key);
    if (!count)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for statistics");
    count->count++;
    count->bytes += record->size;
    return KDA_OK;
}

/* Most first; then by what is shown, so that the same file gives the same bytes. */
static int compare(const void *a, const void *b)
{
    const struct kda_etl_count *x = &((const struct kind *)a)->count;
    const struct kda_etl_count *y = &((const struct kind *)b)->count;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return memcmp((const uint8_t *)x + KEY_AT, (const uint8_t *)y + KEY_AT, KEY_SIZE);
}

void kda_etl_stats_walk(struct kda_etl_stats *stats,
                        void (*put)(void *context, const struct kda_etl_count *count),
                        void *context)
{
    if (stats->count > 0)
        qsort(stats->kinds, stats->count, sizeof(*stats->kinds), compare);
    for (size_t i = 0; i < stats->count; i++)
        put(context, &stats->kinds[i].count);
    if (stats->others.count > 0)
        put(context, &stats->others);
}
