/*
 * maps.c - value maps by provider and name.
 */
#include "maps.h"

#include <string.h>

struct kda_map_item {
    uint8_t provider[16];
    struct kda_etl_map *map; /* in the arena: templates point to it */
};

void kda_maps_init(struct kda_map_list *maps, struct kda_templates *store)
{
    memset(maps, 0, sizeof(*maps));
    maps->store = store;
    kda_map_init(&maps->index);
}

void kda_maps_deinit(struct kda_map_list *maps)
{
    kda_free(maps->items);
    kda_map_deinit(&maps->index);
    memset(maps, 0, sizeof(*maps));
}

static uint64_t key_of(const uint8_t *provider, const char *name)
{
    uint64_t hash = kda_map_hash(KDA_MAP_HASH, provider, 16);
    return kda_map_key(kda_map_hash(hash, name, strlen(name)));
}

/* Two names of the same key: the second one does without. */
static struct kda_etl_map *find(const struct kda_map_list *maps, const uint8_t *provider,
                                const char *name, bool *taken)
{
    uint64_t at;
    *taken = kda_map_get(&maps->index, key_of(provider, name), &at);
    if (!*taken || memcmp(maps->items[at].provider, provider, 16) != 0 ||
        strcmp(maps->items[at].map->name, name) != 0)
        return NULL;
    return maps->items[at].map;
}

static struct kda_etl_map *want(struct kda_map_list *maps, const uint8_t *provider,
                                const char *name)
{
    bool taken;
    struct kda_etl_map *map = find(maps, provider, name, &taken);
    if (map || taken)
        return map;
    map = kda_arena_alloc(&maps->store->arena, sizeof(*map));
    char *kept = kda_arena_strdup(&maps->store->arena, name);
    if (!map || !kept ||
        !kda_grow((void **)&maps->items, &maps->capacity, maps->count + 1, sizeof(*maps->items),
                  KDA_MAPS_MAX) ||
        !kda_map_put(&maps->index, key_of(provider, name), maps->count))
        return NULL;
    map->name = kept;
    memcpy(maps->items[maps->count].provider, provider, 16);
    maps->items[maps->count++].map = map;
    return map;
}

const struct kda_etl_map *kda_maps_want(struct kda_map_list *maps, const uint8_t *provider,
                                        const char *name)
{
    return want(maps, provider, name);
}

enum kda_status kda_maps_set(struct kda_map_list *maps, struct kda_templates *store,
                             const uint8_t *provider, const struct kda_etl_map *map,
                             struct kda_error *err)
{
    struct kda_etl_map *target = want(maps, provider, map->name);
    const struct kda_etl_map *copy = target ? kda_templates_add_map(store, map) : NULL;
    if (!copy)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "no room for a value map");
    target->bits = copy->bits;
    target->count = copy->count;
    target->entries = copy->entries;
    return KDA_OK;
}
