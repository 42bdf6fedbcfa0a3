/*
 * cm.c - keys and values of the simulated registry, and the driver's Zw...Key calls.
 *
 * A node is found by its parent and its name, so that a rename moves one node only. Nodes that were
 * deleted stay in memory until the machine ends: key objects may still point to them.
 */
#include "cm.h"

#define BUCKETS 65536u

struct sim_node {
    struct sim_node *next; /* with the same hash */
    struct sim_node *made_before;
    struct sim_node *parent;
    struct sim_wide name;
    struct sim_value *values;
    unsigned children;
    bool deleted;
};

static pthread_rwlock_t store_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct sim_node *buckets[BUCKETS];
static struct sim_node *newest;

/* --- nodes ----------------------------------------------------------------------------------- */

static struct sim_node **bucket_of(const struct sim_node *parent, struct sim_str name)
{
    uint64_t hash = sim_wide_hash(name.units, name.count) ^ (uintptr_t)parent >> 4;

    return &buckets[(hash ^ hash >> 17) % BUCKETS];
}

static struct sim_node *child(const struct sim_node *parent, struct sim_str name)
{
    struct sim_node *n = *bucket_of(parent, name);

    while (n && (n->parent != parent ||
                 !sim_wide_equal(n->name.units, n->name.count, name.units, name.count)))
        n = n->next;
    return n;
}

static void link_node(struct sim_node *n)
{
    struct sim_node **bucket = bucket_of(n->parent, (struct sim_str){n->name.units, n->name.count});

    n->next = *bucket;
    *bucket = n;
}

static void unlink_node(struct sim_node *n)
{
    struct sim_node **at = bucket_of(n->parent, (struct sim_str){n->name.units, n->name.count});

    while (*at != n)
        at = &(*at)->next;
    *at = n->next;
}

/* The current control set is a link to the first. */
static struct sim_str resolve(struct sim_str part)
{
    static const struct sim_str current = {u"CurrentControlSet", 17};
    static const struct sim_str first = {u"ControlSet001", 13};

    return sim_wide_equal(part.units, part.count, current.units, current.count) ? first : part;
}

bool sim_cm_resolve(struct sim_str path, struct sim_wide *target)
{
    size_t at = 0;

    for (size_t i = 0; i <= path.count; i++) {
        struct sim_str part = {path.units + at, i - at};
        struct sim_str instead;
        if (i < path.count && path.units[i] != '\\')
            continue;
        instead = resolve(part);
        if (instead.units != part.units) {
            target->count = at + instead.count + path.count - i;
            target->units = sim_alloc(target->count * 2);
            memcpy(target->units, path.units, at * 2);
            memcpy(target->units + at, instead.units, instead.count * 2);
            memcpy(target->units + at + instead.count, path.units + i, (path.count - i) * 2);
            return true;
        }
        at = i + 1;
    }
    return false;
}

bool sim_node_deleted(const struct sim_node *node)
{
    return node && node->deleted;
}

static struct sim_node *walk(struct sim_str path, bool make, bool *is_new)
{
    struct sim_node *node = NULL;
    size_t at = 0;

    while (at < path.count) {
        struct sim_str part;
        struct sim_node *next;
        if (path.units[at] == '\\') {
            at++;
            continue;
        }
        part.units = path.units + at;
        part.count = 0;
        while (at < path.count && path.units[at] != '\\') {
            part.count++;
            at++;
        }
        part = resolve(part);
        next = child(node, part);
        if (!next && !make)
            return NULL;
        if (is_new)
            *is_new = next == NULL;
        if (!next) {
            next = sim_alloc(sizeof(*next));
            next->parent = node;
            sim_wide_set(&next->name, part);
            next->made_before = newest;
            newest = next;
            if (node)
                node->children++;
            link_node(next);
        }
        node = next;
    }
    return node;
}

struct sim_node *sim_cm_find(struct sim_str path)
{
    struct sim_node *node;

    pthread_rwlock_rdlock(&store_lock);
    node = walk(path, false, NULL);
    pthread_rwlock_unlock(&store_lock);
    return node;
}

struct sim_node *sim_cm_make(struct sim_str path, bool *is_new)
{
    struct sim_node *node;

    pthread_rwlock_wrlock(&store_lock);
    node = walk(path, true, is_new);
    pthread_rwlock_unlock(&store_lock);
    return node;
}

static void value_free(struct sim_value *value)
{
    sim_wide_free(&value->name);
    free(value->data);
    free(value);
}

static void node_clear(struct sim_node *node)
{
    while (node->values) {
        struct sim_value *next = node->values->next;
        value_free(node->values);
        node->values = next;
    }
}

int32_t sim_cm_delete(struct sim_node *node)
{
    int32_t status = STATUS_SUCCESS;

    pthread_rwlock_wrlock(&store_lock);
    if (!node || node->deleted) {
        status = STATUS_OBJECT_NAME_NOT_FOUND;
    } else if (node->children) {
        status = NTSTATUS_OF(0xC0000121); /* STATUS_CANNOT_DELETE */
    } else {
        unlink_node(node);
        node_clear(node);
        node->deleted = true;
        if (node->parent)
            node->parent->children--;
    }
    pthread_rwlock_unlock(&store_lock);
    return status;
}

int32_t sim_cm_rename(struct sim_node *node, struct sim_str name)
{
    int32_t status = STATUS_SUCCESS;

    pthread_rwlock_wrlock(&store_lock);
    if (!node || node->deleted) {
        status = STATUS_OBJECT_NAME_NOT_FOUND;
    } else if (child(node->parent, name)) {
        status = NTSTATUS_OF(0xC0000022);
    } else {
        unlink_node(node);
        sim_wide_free(&node->name);
        sim_wide_set(&node->name, name);
        link_node(node);
    }
    pthread_rwlock_unlock(&store_lock);
    return status;
}

/* --- values ---------------------------------------------------------------------------------- */

static struct sim_value **value_find(struct sim_node *node, struct sim_str name)
{
    struct sim_value **at = &node->values;

    while (*at && !sim_wide_equal((*at)->name.units, (*at)->name.count, name.units, name.count))
        at = &(*at)->next;
    return at;
}

void sim_cm_set(struct sim_node *node, struct sim_str name, uint32_t type, const void *data,
                size_t size)
{
    struct sim_value **at;

    if (!node)
        return; /* a path without a name in it is no key */
    pthread_rwlock_wrlock(&store_lock);
    at = value_find(node, name);
    if (!*at) {
        *at = sim_alloc(sizeof(**at));
        sim_wide_set(&(*at)->name, name);
    }
    free((*at)->data);
    (*at)->data = sim_alloc(size);
    (*at)->size = size;
    (*at)->type = type;
    if (size)
        memcpy((*at)->data, data, size);
    pthread_rwlock_unlock(&store_lock);
}

int32_t sim_cm_remove(struct sim_node *node, struct sim_str name)
{
    struct sim_value **at;
    struct sim_value *found = NULL;

    pthread_rwlock_wrlock(&store_lock);
    if (node) {
        at = value_find(node, name);
        found = *at;
        if (found)
            *at = found->next;
    }
    pthread_rwlock_unlock(&store_lock);
    if (!found)
        return STATUS_OBJECT_NAME_NOT_FOUND;
    value_free(found);
    return STATUS_SUCCESS;
}

bool sim_cm_get(struct sim_node *node, struct sim_str name, uint32_t *type, void *data, size_t room,
                size_t *size)
{
    const struct sim_value *value = NULL;

    pthread_rwlock_rdlock(&store_lock);
    if (node)
        value = *value_find(node, name);
    if (value) {
        *type = value->type;
        *size = value->size;
        if (value->size && room)
            memcpy(data, value->data, value->size < room ? value->size : room);
    }
    pthread_rwlock_unlock(&store_lock);
    return value != NULL;
}

void sim_cm_clear(void)
{
    while (newest) {
        struct sim_node *before = newest->made_before;
        node_clear(newest);
        sim_wide_free(&newest->name);
        free(newest);
        newest = before;
    }
    memset(buckets, 0, sizeof(buckets));
}

/* --- key objects ----------------------------------------------------------------------------- */

static void key_destroy(void *body)
{
    sim_wide_free(&((struct sim_key *)body)->path);
}

struct sim_key *sim_key_object(struct sim_str path, bool nameless)
{
    struct sim_key *key = sim_object_create(SIM_TYPE_KEY, sizeof(*key), key_destroy);

    sim_wide_set(&key->path, path);
    key->nameless = nameless;
    return key;
}

struct sim_node *sim_key_node(struct sim_key *key)
{
    if (!key->node)
        key->node = sim_cm_find((struct sim_str){key->path.units, key->path.count});
    return key->node;
}

struct sim_str sim_key_name(const void *key)
{
    const struct sim_key *k = key;
    struct sim_str text = {k->path.units, k->path.count};

    return text;
}

/* --- settings -------------------------------------------------------------------------------- */

static const struct sim_str parameters = {
    u"\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\kdamonitor\\Parameters",
    sizeof(u"\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\kdamonitor\\Parameters") / 2 -
        1};

void sim_settings_set(struct sim_str name, uint32_t type, const void *data, size_t size)
{
    sim_cm_set(sim_cm_make(parameters, NULL), name, type, data, size);
}

void sim_settings_set_dword(struct sim_str name, uint32_t value)
{
    sim_settings_set(name, REG_DWORD, &value, 4);
}

void sim_settings_set_string(struct sim_str name, struct sim_str value)
{
    uint16_t *text = sim_alloc(value.count * 2 + 2);

    if (value.count)
        memcpy(text, value.units, value.count * 2);
    sim_settings_set(name, REG_SZ, text, value.count * 2 + 2);
    free(text);
}

void sim_settings_clear(void)
{
    sim_cm_delete(sim_cm_find(parameters));
}
