/*
 * templates.c - an open-addressing table of templates over an arena.
 */
#include "templates.h"

#include "bytes.h"

#define FIRST_SLOTS 256u

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t key_hash(const uint8_t *guid, uint16_t id, uint8_t version, bool classic)
{
    uint64_t h = mix(kda_le64(guid), kda_le64(guid + 8));
    return mix(h, (uint64_t)id << 16 | (uint64_t)version << 8 | (classic ? 1u : 0u));
}

/* Never 0, which marks entries that are no TraceLogging. */
static uint64_t blob_hash(const uint8_t *guid, const uint8_t *blob, uint32_t size)
{
    uint64_t h = mix(kda_le64(guid) ^ size, kda_le64(guid + 8));
    uint32_t at = 0;
    for (; size - at >= 8; at += 8)
        h = mix(h, kda_le64(blob + at));
    for (; at < size; at++)
        h = mix(h, blob[at]);
    return h | 1;
}

static uint64_t entry_hash(const struct kda_template_key *e)
{
    return e->blob_hash ? e->blob_hash : key_hash(e->guid, e->id, e->version, e->classic);
}

static bool same_key(const struct kda_template_key *a, const struct kda_template_key *b)
{
    if (a->blob_hash != b->blob_hash || memcmp(a->guid, b->guid, 16) != 0)
        return false;
    if (a->blob_hash)
        return a->blob_size == b->blob_size && memcmp(a->blob, b->blob, a->blob_size) == 0;
    return a->id == b->id && a->version == b->version && a->classic == b->classic;
}

void kda_templates_init(struct kda_templates *store)
{
    memset(store, 0, sizeof(*store));
    kda_arena_init(&store->arena, KDA_TEMPLATES_MAX_BYTES);
    kda_map_init(&store->names);
}

void kda_templates_deinit(struct kda_templates *store)
{
    kda_free(store->entries);
    kda_free(store->slots);
    kda_map_deinit(&store->names);
    kda_arena_deinit(&store->arena);
    memset(store, 0, sizeof(*store));
}

/* Slot of the key, or the free one where it would go. The table is never full. */
static size_t find_slot(const struct kda_templates *store, const struct kda_template_key *key)
{
    size_t mask = store->slot_count - 1;
    size_t at = (size_t)entry_hash(key) & mask;
    while (store->slots[at] != 0 && !same_key(&store->entries[store->slots[at] - 1], key))
        at = (at + 1) & mask;
    return at;
}

static const struct kda_etl_template *lookup(const struct kda_templates *store,
                                             const struct kda_template_key *key)
{
    if (store->slot_count == 0)
        return NULL;
    uint32_t found = store->slots[find_slot(store, key)];
    return found ? store->entries[found - 1].t : NULL;
}

const struct kda_etl_template *kda_templates_find(const struct kda_templates *store,
                                                  const uint8_t *guid, uint16_t id, uint8_t version,
                                                  bool classic)
{
    struct kda_template_key key = {.id = id, .version = version, .classic = classic};
    memcpy(key.guid, guid, 16);
    return lookup(store, &key);
}

const struct kda_etl_template *kda_templates_find_blob(const struct kda_templates *store,
                                                       const uint8_t *guid, const uint8_t *blob,
                                                       uint32_t size)
{
    struct kda_template_key key = {.blob = blob, .blob_size = size};
    memcpy(key.guid, guid, 16);
    key.blob_hash = blob_hash(guid, blob, size);
    return lookup(store, &key);
}

static uint64_t provider_key(const uint8_t *guid)
{
    return mix(kda_le64(guid), kda_le64(guid + 8)) | 1;
}

const char *kda_templates_provider(const struct kda_templates *store, const uint8_t *guid)
{
    uint64_t at;
    if (!kda_map_get(&store->names, provider_key(guid), &at) ||
        memcmp(store->entries[at].guid, guid, 16) != 0)
        return NULL;
    return store->entries[at].t->provider_name;
}

/* ---- adding ---- */

static bool grow_slots(struct kda_templates *store)
{
    size_t count = store->slot_count ? store->slot_count * 2 : FIRST_SLOTS;
    uint32_t *slots = kda_calloc(count, sizeof(*slots));
    if (!slots)
        return false;
    for (size_t i = 0; i < store->count; i++) {
        size_t at = (size_t)entry_hash(&store->entries[i]) & (count - 1);
        while (slots[at] != 0)
            at = (at + 1) & (count - 1);
        slots[at] = (uint32_t)i + 1;
    }
    kda_free(store->slots);
    store->slots = slots;
    store->slot_count = count;
    return true;
}

static const char *keep(struct kda_templates *store, const char *text, bool *ok)
{
    if (!text)
        return NULL;
    const char *kept = kda_arena_strdup(&store->arena, text);
    *ok = *ok && kept;
    return kept;
}

static const struct kda_etl_template *copy_template(struct kda_templates *store,
                                                    const struct kda_etl_template *t)
{
    bool ok = true;
    struct kda_etl_template *copy = kda_arena_alloc(&store->arena, sizeof(*copy));
    struct kda_etl_field *fields =
        kda_arena_alloc(&store->arena, (t->count ? t->count : 1u) * sizeof(*fields));
    if (!copy || !fields)
        return NULL;
    *copy = *t;
    copy->fields = fields;
    copy->provider_name = keep(store, t->provider_name, &ok);
    copy->event_name = keep(store, t->event_name, &ok);
    for (unsigned i = 0; i < t->count && ok; i++) {
        fields[i] = t->fields[i];
        fields[i].name = keep(store, t->fields[i].name, &ok);
    }
    return ok ? copy : NULL;
}

static enum kda_status no_room(const struct kda_templates *store, struct kda_error *err)
{
    if (store->arena.used >= KDA_TEMPLATES_MAX_BYTES / 2)
        return kda_fail(err, KDA_LIMIT, "etl", "descriptions of more than %u MiB",
                        (unsigned)(KDA_TEMPLATES_MAX_BYTES >> 20));
    return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for a description");
}

enum kda_status kda_templates_add(struct kda_templates *store, const struct kda_template_key *key,
                                  const struct kda_etl_template *t,
                                  const struct kda_etl_template **kept, struct kda_error *err)
{
    struct kda_template_key entry = *key;
    if (entry.blob)
        entry.blob_hash = blob_hash(entry.guid, entry.blob, entry.blob_size);
    if (store->count >= KDA_TEMPLATES_MAX_TEMPLATES)
        return kda_fail(err, KDA_LIMIT, "etl", "more than %u descriptions",
                        KDA_TEMPLATES_MAX_TEMPLATES);
    if (store->slot_count < 2 * (store->count + 1) && !grow_slots(store))
        return no_room(store, err);
    size_t slot = find_slot(store, &entry);
    uint32_t at = store->slots[slot];
    if (at && store->entries[at - 1].origin > entry.origin) {
        if (kept)
            *kept = store->entries[at - 1].t;
        return KDA_OK;
    }
    entry.t = copy_template(store, t);
    if (!entry.t)
        return no_room(store, err);
    if (entry.blob) {
        uint8_t *blob = kda_arena_alloc(&store->arena, entry.blob_size + 1u);
        if (!blob)
            return no_room(store, err);
        memcpy(blob, entry.blob, entry.blob_size);
        entry.blob = blob;
    }
    if (!at) {
        if (!kda_grow((void **)&store->entries, &store->capacity, store->count + 1, sizeof(entry),
                      KDA_TEMPLATES_MAX_TEMPLATES))
            return no_room(store, err);
        at = (uint32_t)++store->count;
        store->slots[slot] = at;
    }
    store->entries[at - 1] = entry;
    /* Without memory for it, the name is only with the events that have a description. */
    if (entry.t->provider_name)
        (void)kda_map_put(&store->names, provider_key(entry.guid), at - 1);
    if (kept)
        *kept = entry.t;
    return KDA_OK;
}

/* By value, so that one can be looked up in few steps however many there are. */
static void sort_entries(struct kda_etl_map_entry *entries, size_t count)
{
    for (size_t gap = count / 2; gap > 0; gap /= 2)
        for (size_t i = gap; i < count; i++) {
            struct kda_etl_map_entry entry = entries[i];
            size_t at = i;
            for (; at >= gap && entries[at - gap].value > entry.value; at -= gap)
                entries[at] = entries[at - gap];
            entries[at] = entry;
        }
}

const struct kda_etl_map *kda_templates_add_map(struct kda_templates *store,
                                                const struct kda_etl_map *map)
{
    bool ok = true;
    struct kda_etl_map *copy = kda_arena_alloc(&store->arena, sizeof(*copy));
    struct kda_etl_map_entry *entries =
        kda_arena_alloc(&store->arena, (map->count ? map->count : 1u) * sizeof(*entries));
    if (!copy || !entries)
        return NULL;
    *copy = *map;
    copy->entries = entries;
    copy->name = keep(store, map->name, &ok);
    for (uint32_t i = 0; i < map->count && ok; i++) {
        entries[i].value = map->entries[i].value;
        entries[i].name = keep(store, map->entries[i].name, &ok);
    }
    if (ok)
        sort_entries(entries, map->count);
    return ok ? copy : NULL;
}
