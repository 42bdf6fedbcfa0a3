/*
 * registry.c - names of registry keys by key control block and by key object.
 *
 * Source: Registry class of MSNT_SystemTrace; manifest of Microsoft-Windows-Kernel-Registry. KCB
 * records hold absolute names, everything else names relative to one.
 */
#include "registry.h"

#include "bytes.h"

enum { KCB_CREATE = 22, KCB_DELETE = 23, KCB_RUNDOWN_BEGIN = 24, KCB_RUNDOWN_END = 25 };
enum { QUERY_VALUE = 16 };
enum { M_CREATE_KEY = 1, M_OPEN_KEY = 2, M_CLOSE_KEY = 13 };

struct kda_key_name {
    const uint8_t *bytes;
    uint32_t size;
};

enum kda_status kda_registry_init(struct kda_registry *registry, struct kda_error *err)
{
    memset(registry, 0, sizeof(*registry));
    kda_arena_init(&registry->arena, KDA_REGISTRY_MAX_BYTES);
    kda_map_init(&registry->interned);
    kda_map_init(&registry->first_time);
    kda_map_init(&registry->kcbs);
    kda_map_init(&registry->objects);
    registry->path = kda_calloc(KDA_REGISTRY_PATH_BYTES, 1);
    return registry->path ? KDA_OK
                          : kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for key names");
}

void kda_registry_deinit(struct kda_registry *registry)
{
    kda_arena_deinit(&registry->arena);
    kda_map_deinit(&registry->interned);
    kda_map_deinit(&registry->first_time);
    kda_map_deinit(&registry->kcbs);
    kda_map_deinit(&registry->objects);
    kda_free(registry->names);
    kda_free(registry->path);
    memset(registry, 0, sizeof(*registry));
}

/* ---- names ---- */

/* Number of a name + 1; 0 where there is no room for it. The same names come again and again. */
static uint64_t intern(struct kda_registry *r, const uint8_t *bytes, uint32_t size)
{
    uint64_t hash = kda_map_key(kda_map_hash(KDA_MAP_HASH, bytes, size)), found;
    if (kda_map_get(&r->interned, hash, &found)) {
        const struct kda_key_name *name = &r->names[found - 1];
        return name->size == size && memcmp(name->bytes, bytes, size) == 0 ? found : 0;
    }
    uint8_t *copy = kda_arena_alloc(&r->arena, size + 1u);
    if (!copy || !kda_grow((void **)&r->names, &r->name_capacity, r->name_count + 1,
                           sizeof(*r->names), KDA_REGISTRY_MAX_KEYS))
        return 0;
    memcpy(copy, bytes, size);
    r->names[r->name_count] = (struct kda_key_name){copy, size};
    if (!kda_map_put(&r->interned, hash, r->name_count + 1))
        return 0;
    return ++r->name_count;
}

static void set_name(struct kda_map *map, uint64_t key, uint64_t name)
{
    if (key != 0 && (map->count < KDA_REGISTRY_MAX_KEYS || kda_map_get(map, key, NULL)))
        (void)kda_map_put(map, key, name); /* without memory the name stays unknown */
}

static bool get_name(const struct kda_registry *r, const struct kda_map *map, uint64_t key,
                     struct kda_bytes *ret)
{
    uint64_t number;
    if (key == 0 || !kda_map_get(map, key, &number) || number == 0)
        return false;
    *ret = (struct kda_bytes){r->names[number - 1].bytes, r->names[number - 1].size};
    return true;
}

/* ---- fields of a record ---- */

static bool field(const struct kda_registry_record *record, enum kda_mof_target target,
                  struct kda_bytes *ret)
{
    unsigned index = record->event->place_of[target - KDA_TARGET_PID];
    if (index == 0 || !record->places[index - 1].present)
        return false;
    const struct kda_place *place = &record->places[index - 1];
    *ret = (struct kda_bytes){record->payload + place->off, place->size};
    return true;
}

static uint64_t address(const struct kda_registry_record *record, enum kda_mof_target target)
{
    struct kda_bytes bytes;
    if (!field(record, target, &bytes) || (bytes.size != 4 && bytes.size != 8))
        return 0;
    return bytes.size == 4 ? kda_le32(bytes.at) : kda_le64(bytes.at);
}

static bool is_absolute(struct kda_bytes name)
{
    return name.size >= 2 && name.at[0] == '\\' && name.at[1] == 0;
}

/* base + "\" + rest into r->path; false where that is no path. */
static bool join(struct kda_registry *r, struct kda_bytes base, struct kda_bytes rest,
                 struct kda_bytes *path)
{
    size_t used = base.size;
    if (base.size + rest.size + 2 > KDA_REGISTRY_PATH_BYTES)
        return false;
    memmove(r->path, base.at, base.size);
    bool separated = used >= 2 && r->path[used - 2] == '\\' && r->path[used - 1] == 0;
    if (rest.size > 0 && !separated && !is_absolute(rest)) {
        r->path[used++] = '\\';
        r->path[used++] = 0;
    }
    memcpy(r->path + used, rest.at, rest.size);
    *path = (struct kda_bytes){r->path, used + rest.size};
    return true;
}

static bool resolve_kcb(struct kda_registry *r, const struct kda_registry_record *record,
                        struct kda_bytes *path)
{
    static const uint8_t none[1];
    struct kda_bytes base, name = {none, 0};
    unsigned type = record->event->row->type;
    uint64_t kcb = address(record, KDA_TARGET_KCB);
    (void)field(record, KDA_TARGET_NAME, &name);
    if ((type >= KCB_CREATE && type <= KCB_RUNDOWN_END) || kcb == 0) {
        *path = name;
        return is_absolute(name);
    }
    if (!get_name(r, &r->kcbs, kcb, &base))
        return false;
    /* The name of value operations is that of a value. */
    if (type == QUERY_VALUE)
        name.size = 0;
    return join(r, base, name, path);
}

static bool resolve_object(struct kda_registry *r, const struct kda_registry_record *record,
                           struct kda_bytes *path)
{
    static const uint8_t none[1];
    struct kda_bytes base = {none, 0}, name = {none, 0};
    unsigned type = record->event->row->type;
    (void)field(record, KDA_TARGET_NAME, &name);
    if (is_absolute(name)) {
        *path = name;
        return true;
    }
    if (type == M_CREATE_KEY || type == M_OPEN_KEY) {
        (void)field(record, KDA_TARGET_BASE_NAME, &base);
        if (!is_absolute(base) &&
            !get_name(r, &r->objects, address(record, KDA_TARGET_BASE), &base))
            return false;
    } else if (!get_name(r, &r->objects, address(record, KDA_TARGET_OBJECT), &base)) {
        return false;
    }
    return join(r, base, name, path);
}

/* ---- the two passes ---- */

void kda_registry_learn(struct kda_registry *r, const struct kda_registry_record *record)
{
    struct kda_bytes name;
    unsigned type = record->event->row->type;
    uint64_t kcb = address(record, KDA_TARGET_KCB), before;
    if (record->event->row->class_ != KDA_MOF_REGISTRY || kcb == 0 || type < KCB_CREATE ||
        type > KCB_RUNDOWN_END || !field(record, KDA_TARGET_NAME, &name) || !is_absolute(name))
        return;
    /* What the first record of a KCB says holds since before the trace, unless it is a creation. */
    if (kda_map_get(&r->first_time, kcb, &before) && before <= record->time)
        return;
    set_name(&r->first_time, kcb, record->time);
    set_name(&r->kcbs, kcb, type == KCB_CREATE ? 0 : intern(r, name.at, (uint32_t)name.size));
}

static void take_names(struct kda_registry *r, const struct kda_registry_record *record,
                       struct kda_bytes path, bool known)
{
    unsigned type = record->event->row->type;
    if (record->event->row->class_ == KDA_MOF_REGISTRY) {
        uint64_t kcb = address(record, KDA_TARGET_KCB);
        if (type == KCB_DELETE)
            set_name(&r->kcbs, kcb, 0);
        else if (type >= KCB_CREATE && type <= KCB_RUNDOWN_END && known)
            set_name(&r->kcbs, kcb, intern(r, path.at, (uint32_t)path.size));
        return;
    }
    uint64_t object = address(record, KDA_TARGET_OBJECT);
    if (type == M_CLOSE_KEY)
        set_name(&r->objects, object, 0);
    else if (type == M_CREATE_KEY || type == M_OPEN_KEY)
        set_name(&r->objects, object, known ? intern(r, path.at, (uint32_t)path.size) : 0);
}

bool kda_registry_resolve(struct kda_registry *r, const struct kda_registry_record *record,
                          struct kda_bytes *path)
{
    bool manifest = record->event->row->class_ == KDA_MOF_M_REGISTRY;
    bool known = manifest ? resolve_object(r, record, path) : resolve_kcb(r, record, path);
    take_names(r, record, known ? *path : (struct kda_bytes){NULL, 0}, known);
    return known;
}
