/*
 * map.h - open-addressing map from non-zero 64-bit keys (addresses) to 64-bit values.
 */
#ifndef KDA_BASE_MAP_H
#define KDA_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kda_map {
    uint64_t *keys; /* 0 = free */
    uint64_t *values;
    size_t count;
    size_t capacity; /* power of two */
};

void kda_map_init(struct kda_map *map);
void kda_map_deinit(struct kda_map *map);
/* True when `key` is there; *value (nullable) receives its value. */
bool kda_map_get(const struct kda_map *map, uint64_t key, uint64_t *value);
/* Adds or replaces. False when memory ran out or key is 0; the map is unchanged then. */
bool kda_map_put(struct kda_map *map, uint64_t key, uint64_t value);

#endif
