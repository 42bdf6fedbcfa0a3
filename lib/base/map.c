#include "map.h"

#include <string.h>

#include "alloc.h"

void kda_map_init(struct kda_map *map)
{
    memset(map, 0, sizeof(*map));
}

void kda_map_deinit(struct kda_map *map)
{
    kda_free(map->keys);
    kda_free(map->values);
    memset(map, 0, sizeof(*map));
}

/* Keys come from hostile images, which could choose a million addresses that one fixed function
 * puts into one slot. Where the table lies differs from run to run and seeds the function; no
 * result depends on the order of slots. */
static size_t slot_of(const uint64_t *keys, size_t capacity, uint64_t key)
{
    uint64_t h = key ^ (uint64_t)(uintptr_t)keys * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
    h = (h ^ h >> 29) * 0x9e3779b97f4a7c15u;
    return (size_t)(h >> 32) & (capacity - 1);
}

static size_t probe(const uint64_t *keys, size_t capacity, uint64_t key)
{
    size_t slot = slot_of(keys, capacity, key);
    while (keys[slot] != 0 && keys[slot] != key)
        slot = (slot + 1) & (capacity - 1);
    return slot;
}

bool kda_map_get(const struct kda_map *map, uint64_t key, uint64_t *value)
{
    if (map->capacity == 0 || key == 0)
        return false;
    size_t slot = probe(map->keys, map->capacity, key);
    if (map->keys[slot] == 0)
        return false;
    if (value)
        *value = map->values[slot];
    return true;
}

static bool grow(struct kda_map *map)
{
    size_t capacity = map->capacity ? map->capacity * 2 : 64;
    uint64_t *keys = kda_calloc(capacity, sizeof(*keys));
    uint64_t *values = kda_calloc(capacity, sizeof(*values));
    if (!keys || !values) {
        kda_free(keys);
        kda_free(values);
        return false;
    }
    for (size_t i = 0; i < map->capacity; i++) {
        if (map->keys[i] == 0)
            continue;
        size_t slot = probe(keys, capacity, map->keys[i]);
        keys[slot] = map->keys[i];
        values[slot] = map->values[i];
    }
    kda_free(map->keys);
    kda_free(map->values);
    map->keys = keys;
    map->values = values;
    map->capacity = capacity;
    return true;
}

bool kda_map_put(struct kda_map *map, uint64_t key, uint64_t value)
{
    if (key == 0)
        return false;
    if ((map->count + 1) * 4 > map->capacity * 3 && !grow(map))
        return false;
    size_t slot = probe(map->keys, map->capacity, key);
    if (map->keys[slot] == 0) {
        map->keys[slot] = key;
        map->count++;
    }
    map->values[slot] = value;
    return true;
}
