/*
 * map.h - shared by the two halves of the map view: sessions (map.c) and providers
 * (map_providers.c).
 */
#ifndef KDA_REPORT_MAP_H
#define KDA_REPORT_MAP_H

#include "writer.h"

struct kda_map {
    struct kda_report *report;
    const struct kda_etw *etw;
    const struct kda_selection *selection;
    struct kda_text line; /* reused */
    /* Providers of the model by name, then GUID: what a person looks for. */
    const struct kda_etw_provider **providers;
    size_t provider_count;
};

/* Ends the line that was put together in map->line. */
void kda_map_line(struct kda_map *map, enum kda_style style);
/* Same, but a line too long for the terminal goes on below, at column `indent`, after a comma. */
void kda_map_wrapped(struct kda_map *map, size_t indent, enum kda_style style);
/* A string of the image into the line; "" and NULL become "?". */
void kda_map_name(struct kda_map *map, const char *text);

bool kda_map_sort_providers(struct kda_map *map);
void kda_map_session_providers(struct kda_map *map, const struct kda_etw_session *session);
void kda_map_orphans(struct kda_map *map);

#endif
