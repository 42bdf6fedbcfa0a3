/*
 * registry.h - names of registry keys. Records name a key by an address and a rest; the addresses
 * get their names from other records. Internal to lib/etl.
 */
#ifndef KDA_ETL_REGISTRY_H
#define KDA_ETL_REGISTRY_H

#include "alloc.h"
#include "map.h"
#include "mof.h"
#include "payload.h"

#define KDA_REGISTRY_MAX_BYTES ((size_t)64 << 20) /* of names */
#define KDA_REGISTRY_MAX_KEYS 4194304u
#define KDA_REGISTRY_PATH_BYTES 65534u /* as long as a UNICODE_STRING */

struct kda_registry {
    struct kda_arena arena;
    struct kda_map interned;    /* hash of a name -> its number + 1 */
    struct kda_key_name *names; /* number -> name */
    size_t name_count, name_capacity;
    struct kda_map first_time; /* KCB -> time of the first record that says something of it */
    struct kda_map kcbs;       /* KCB -> number + 1; 0 = no name now */
    struct kda_map objects;    /* key object -> number + 1 */
    uint8_t *path;             /* KDA_REGISTRY_PATH_BYTES: the last path that was put together */
};

/* Errors: KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_registry_init(struct kda_registry *registry,
                                                 struct kda_error *err);
void kda_registry_deinit(struct kda_registry *registry);

/* One record with its fields found. */
struct kda_registry_record {
    const struct kda_mof_event *event;
    const struct kda_place *places;
    const uint8_t *payload;
    uint8_t pointer_size;
    uint64_t time; /* raw */
};

/* First pass, records in any order: names that keys have had since before the trace. */
void kda_registry_learn(struct kda_registry *registry, const struct kda_registry_record *record);
/* Second pass, in order of time: full path of the key that the record is about, UTF-16; false if it
 * is not known. Then what the record says about names is taken. */
bool kda_registry_resolve(struct kda_registry *registry, const struct kda_registry_record *record,
                          struct kda_bytes *path);

#endif
