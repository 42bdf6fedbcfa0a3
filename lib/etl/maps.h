/*
 * maps.h - value maps by provider and name. Templates may want a map before it is known: they get
 * one that is empty, and filled later. Internal to lib/etl.
 */
#ifndef KDA_ETL_MAPS_H
#define KDA_ETL_MAPS_H

#include "map.h"
#include "templates.h"

#define KDA_MAPS_MAX 16384u

struct kda_map_list {
    struct kda_map_item *items;
    size_t count, capacity;
    struct kda_map index;
    struct kda_templates *store;
};

void kda_maps_init(struct kda_map_list *maps, struct kda_templates *store);
void kda_maps_deinit(struct kda_map_list *maps);
/* Map of this name, empty until it is set; NULL: no room for it, values stay numbers. */
const struct kda_etl_map *kda_maps_want(struct kda_map_list *maps, const uint8_t *provider,
                                        const char *name);
/* Errors: KDA_NO_MEMORY, KDA_LIMIT. */
KDA_MUST_CHECK enum kda_status kda_maps_set(struct kda_map_list *maps, struct kda_templates *store,
                                            const uint8_t *provider, const struct kda_etl_map *map,
                                            struct kda_error *err);

#endif
