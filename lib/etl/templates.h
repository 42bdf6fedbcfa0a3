/*
 * templates.h - templates by the event they describe. Kept for the life of a decoder; lookups
 * neither allocate nor fail. Internal to lib/etl.
 */
#ifndef KDA_ETL_TEMPLATES_H
#define KDA_ETL_TEMPLATES_H

#include "alloc.h"
#include "kda/error.h"
#include "map.h"
#include "template.h"

/* Limits of what a file may make a decoder keep. */
#define KDA_TEMPLATES_MAX_TEMPLATES 65536u
#define KDA_TEMPLATES_MAX_BYTES ((size_t)64 << 20)

/* Who said it: where two describe the same event, the higher one wins. */
enum kda_origin { KDA_ORIGIN_BUILT_IN, KDA_ORIGIN_FILE, KDA_ORIGIN_USER };

struct kda_template_key {
    uint8_t guid[16]; /* provider; of classic events their class */
    uint16_t id;      /* event id; of classic events their type */
    uint8_t version;
    uint8_t origin;
    bool classic;
    const struct kda_etl_template *t;
    uint64_t blob_hash;  /* TraceLogging: of the metadata, else 0 */
    const uint8_t *blob; /* TraceLogging: the metadata */
    uint32_t blob_size;
};

struct kda_templates {
    struct kda_arena arena;
    struct kda_template_key *entries;
    size_t count, capacity;
    uint32_t *slots; /* index + 1 */
    size_t slot_count;
    struct kda_map names; /* provider -> index of an entry that has its name */
};

void kda_templates_init(struct kda_templates *store);
void kda_templates_deinit(struct kda_templates *store);

/* Template of exactly this event, NULL if there is none. */
const struct kda_etl_template *kda_templates_find(const struct kda_templates *store,
                                                  const uint8_t *guid, uint16_t id, uint8_t version,
                                                  bool classic);
const struct kda_etl_template *kda_templates_find_blob(const struct kda_templates *store,
                                                       const uint8_t *guid, const uint8_t *blob,
                                                       uint32_t size);

/* Name of a provider as one of its descriptions has it, NULL if none does. */
const char *kda_templates_provider(const struct kda_templates *store, const uint8_t *guid);

/* Copies `t` with everything it points to; replaces one of a lower or the same origin. Errors:
 * KDA_NO_MEMORY, KDA_LIMIT. `kept` (nullable) is the template that the store now has. */
KDA_MUST_CHECK enum kda_status kda_templates_add(struct kda_templates *store,
                                                 const struct kda_template_key *key,
                                                 const struct kda_etl_template *t,
                                                 const struct kda_etl_template **kept,
                                                 struct kda_error *err);

/* A map that templates may point to; copied. NULL: no memory. */
const struct kda_etl_map *kda_templates_add_map(struct kda_templates *store,
                                                const struct kda_etl_map *map);

#endif
