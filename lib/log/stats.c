/*
 * stats.c - how many lines of which kind, and of which image.
 */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "map.h"

struct image {
    struct kda_log_count count;
    size_t key_size;
    char *key;   /* as it stands in the JSON */
    size_t next; /* entry with the same hash + 1; 0 = none */
};

struct kda_log_stats {
    struct kda_log_count kinds[KDA_LOG_MAX_KINDS];
    struct image *images;
    size_t count, capacity;
    struct kda_map by_hash;      /* hash of the image -> first entry + 1 */
    struct kda_log_count others; /* of images beyond the limit */
    struct kda_arena arena;
};

enum kda_status kda_log_stats_create(struct kda_log_stats **ret, struct kda_error *err)
{
    struct kda_log_stats *stats = kda_calloc(1, sizeof(*stats));
    if (!stats)
        return kda_fail(err, KDA_NO_MEMORY, "log", "out of memory for statistics");
    kda_map_init(&stats->by_hash);
    kda_arena_init(&stats->arena, 0);
    for (unsigned kind = 0; kind < KDA_LOG_MAX_KINDS; kind++) {
        const char *name = kda_log_kind_name(kind);
        stats->kinds[kind].by = "kind";
        stats->kinds[kind].name = name ? name : "unknown";
    }
    stats->others.by = "image";
    stats->others.name = "(others)";
    *ret = stats;
    return KDA_OK;
}

void kda_log_stats_destroy(struct kda_log_stats *stats)
{
    if (!stats)
        return;
    kda_map_deinit(&stats->by_hash);
    kda_arena_deinit(&stats->arena);
    kda_free(stats->images);
    kda_free(stats);
}

static uint64_t hash_of(const char *text, size_t size)
{
    return kda_map_key(kda_map_hash(KDA_MAP_HASH, text, size));
}

/* NULL when memory ran out. */
static struct kda_log_count *new_image(struct kda_log_stats *stats,
                                       const struct kda_log_member *image, uint64_t hash,
                                       uint64_t first)
{
    void *items = stats->images;
    bool grown = kda_grow(&items, &stats->capacity, stats->count + 1, sizeof(*stats->images),
                          KDA_LOG_MAX_IMAGES);
    stats->images = items;
    char *name = kda_arena_alloc(&stats->arena, image->size + 1);
    char *key = kda_arena_strndup(&stats->arena, image->value, image->size);
    if (!grown || !name || !key || !kda_map_put(&stats->by_hash, hash, stats->count + 1))
        return NULL;
    struct image *entry = &stats->images[stats->count++];
    memset(entry, 0, sizeof(*entry));
    (void)kda_log_text(image, name, image->size + 1);
    entry->key = key;
    entry->key_size = image->size;
    entry->next = (size_t)first;
    entry->count.by = "image";
    entry->count.name = name;
    return &entry->count;
}

static struct kda_log_count *count_of(struct kda_log_stats *stats,
                                      const struct kda_log_member *image)
{
    uint64_t hash = hash_of(image->value, image->size), first = 0;
    (void)kda_map_get(&stats->by_hash, hash, &first);
    for (uint64_t at = first; at != 0; at = stats->images[at - 1].next) {
        struct image *entry = &stats->images[at - 1];
        if (entry->key_size == image->size && memcmp(entry->key, image->value, image->size) == 0)
            return &entry->count;
    }
    if (stats->count == KDA_LOG_MAX_IMAGES)
        return &stats->others;
    return new_image(stats, image, hash, first);
}

static void add(struct kda_log_count *count, const struct kda_log_line *line)
{
    count->lines++;
    count->bytes += line->size + 1;
    if (!line->has_time)
        return;
    if (count->first_time == 0 || line->time < count->first_time)
        count->first_time = line->time;
    if (line->time > count->last_time)
        count->last_time = line->time;
}

enum kda_status kda_log_stats_add(struct kda_log_stats *stats, const struct kda_log_line *line,
                                  struct kda_error *err)
{
    const struct kda_log_member *image = kda_log_find(line, "image");
    add(&stats->kinds[line->kind], line);
    if (!image || image->type != '"')
        return KDA_OK;
    struct kda_log_count *count = count_of(stats, image);
    if (!count)
        return kda_fail(err, KDA_NO_MEMORY, "log", "out of memory for statistics");
    add(count, line);
    return KDA_OK;
}

static int compare_images(const void *a, const void *b)
{
    const struct image *x = a, *y = b;
    if (x->count.lines != y->count.lines)
        return x->count.lines > y->count.lines ? -1 : 1;
    return strcmp(x->count.name, y->count.name);
}

void kda_log_stats_walk(struct kda_log_stats *stats,
                        void (*put)(void *context, const struct kda_log_count *count),
                        void *context)
{
    for (unsigned kind = 0; kind < KDA_LOG_MAX_KINDS; kind++)
        if (stats->kinds[kind].lines > 0)
            put(context, &stats->kinds[kind]);
    if (stats->count > 0)
        qsort(stats->images, stats->count, sizeof(*stats->images), compare_images);
    for (size_t i = 0; i < stats->count; i++)
        put(context, &stats->images[i].count);
    if (stats->others.lines > 0)
        put(context, &stats->others);
}
