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

/* Keys for what is no number: FNV-1a over the pieces that make it up, begun with KDA_MAP_HASH. Two
 * things may have one key: who looks up compares them. Never 0 after kda_map_key. */
#define KDA_MAP_HASH UINT64_C(0xcbf29ce484222325)
static inline uint64_t kda_map_hash(uint64_t hash, const void *bytes, size_t size)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ b[i]) * UINT64_C(0x100000001b3);
    return hash;
}
static inline uint64_t kda_map_key(uint64_t hash)
{
    return hash ? hash : 1;
}

void kda_map_init(struct kda_map *map);
void kda_map_deinit(struct kda_map *map);
/* True when `key` is there; *value (nullable) receives its value. */
bool kda_map_get(const struct kda_map *map, uint64_t key, uint64_t *value);
/* Adds or replaces. False when memory ran out or key is 0; the map is unchanged then. */
bool kda_map_put(struct kda_map *map, uint64_t key, uint64_t value);

#endif
