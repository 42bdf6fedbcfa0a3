/*
 * builtin.h - shape of the generated table of manifest events, and the lookup. Internal to lib/etl.
 */
#ifndef KDA_ETL_BUILTIN_H
#define KDA_ETL_BUILTIN_H

#include <stddef.h>
#include <stdint.h>

#include "templates.h"

#define KDA_BUILTIN_NO_LENGTH 0xFFu
#define KDA_BUILTIN_REST 0xFEu

struct kda_builtin_provider {
    uint8_t guid[16]; /* memory order; rows are sorted by it */
    uint32_t name;    /* offset into kda_builtin_text */
    uint32_t first, count;
};

struct kda_builtin_event { /* sorted by id and version within a provider */
    uint16_t id;
    uint8_t version;
    uint8_t count; /* fields */
    uint32_t name;
    uint32_t first;
};

struct kda_builtin_field {
    uint32_t name;
    uint8_t in;     /* enum kda_in_type */
    uint8_t length; /* index of the field that has it, or one of the two above */
};

extern const size_t kda_builtin_provider_count;
extern const struct kda_builtin_provider kda_builtin_providers[];
extern const struct kda_builtin_event kda_builtin_events[];
extern const struct kda_builtin_field kda_builtin_fields[];
extern const char kda_builtin_text[];

/* Row of a provider, NULL if there is none. */
const struct kda_builtin_provider *kda_builtin_find(const uint8_t *guid);
/* Event of this id with the highest version up to `version`, NULL if there is none. */
const struct kda_builtin_event *kda_builtin_event(const struct kda_builtin_provider *provider,
                                                  uint16_t id, uint8_t version);
/* Makes a template of it. The texts are those of the table. */
void kda_builtin_template(const struct kda_builtin_provider *provider,
                          const struct kda_builtin_event *event, struct kda_etl_field *fields,
                          struct kda_etl_template *ret);

#endif
