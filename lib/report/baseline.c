/*
 * baseline.c - two maps, object by object.
 *
 * A row is flattened to paths and values ("enables.0.level" = "5"); a table of objects says which
 * paths name an object and which of them matter. What identifies an object is its name; objects of
 * one name (two instances of a process) are counted.
 */
#include "kda/baseline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "file.h"
#include "json_pull.h"
#include "text.h"

#define MAX_LEAVES 262144u
#define NAME_MAX 1024u
#define CALLBACK_KINDS 16u
#define NAMES 5u  /* parts of an object's name */
#define FIELDS 9u /* of an object that are compared */

/* A scalar of a row. */
struct leaf {
    const char *path, *value;
};

struct fact {
    const char *field, *value;
};

struct object {
    const char *kind, *name;
    uint64_t va;
    size_t order;
    struct fact *facts;
    size_t fact_count;
};

struct kda_baseline {
    struct kda_arena arena;
    struct object *objects;
    size_t count, capacity;
    bool callbacks;                             /* all were read, even if there are none */
    const char *callback_kinds[CALLBACK_KINDS]; /* first words of their names */
    size_t callback_kind_count;
    size_t gaps;
    struct leaf *leaves; /* of the row at hand */
    size_t leaf_count, leaf_capacity;
    struct kda_arena row_arena;
};

/* What is compared. `list`: the object is each element of that array of the row. `name`: paths in
 * the element ("." before it: in the row). */
struct kind {
    const char *row, *object, *list;
    const char *names[NAMES];
    const char *fields[FIELDS];
};

static const struct kind kinds[] = {
    {"session",
     "session",
     NULL,
     {"silo", "name"},
     {"mode", "collecting", "accept_new_events", "clock", "log_file", "security"}},
    {"consumer", "consumer", NULL, {"silo", "session", "process"}, {"found_by"}},
    {"provider",
     "provider",
     NULL,
     {"silo", "type", "guid"},
     {"name", "group", "provider_enable.enabled", "provider_enable.level",
      "provider_enable.match_any", "provider_enable.match_all", "security", "found_by"}},
    {"provider",
     "slot",
     "enables",
     {".silo", ".type", ".guid", "session"},
     {"enabled", "level", "match_any", "match_all", "property"}},
    {"provider",
     "filter",
     "filters",
     {".silo", ".type", ".guid", "slot"},
     {"flags", "pids", "executables", "event_ids"}},
    {"provider",
     "registration",
     "registrations",
     {".silo", ".type", ".guid", "module", "process"},
     {"flags", "found_by"}},
    {"callback",
     "callback",
     NULL,
     {"kind", "module", "altitude"},
     {"enabled", "operations", "post_module"}},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

enum kda_status kda_baseline_create(struct kda_baseline **ret, struct kda_error *err)
{
    struct kda_baseline *baseline = kda_calloc(1, sizeof(*baseline));
    if (!baseline)
        return kda_fail(err, KDA_NO_MEMORY, "baseline", "out of memory");
    kda_arena_init(&baseline->arena, 0);
    kda_arena_init(&baseline->row_arena, 0);
    *ret = baseline;
    return KDA_OK;
}

void kda_baseline_destroy(struct kda_baseline *baseline)
{
    if (!baseline)
        return;
    kda_arena_deinit(&baseline->arena);
    kda_arena_deinit(&baseline->row_arena);
    kda_free(baseline->objects);
    kda_free(baseline->leaves);
    kda_free(baseline);
}

static enum kda_status no_memory(struct kda_error *err)
{
    return kda_fail(err, KDA_NO_MEMORY, "baseline", "out of memory for a map");
}

/* ---- a row as leaves ---- */

/* Where the reader is inside a row: the path so far, and the index in arrays. */
struct place {
    size_t length; /* of the path, without what this level adds */
    size_t index;
    bool array;
};

static bool add_leaf(struct kda_baseline *baseline, const char *path, const char *value)
{
    void *items = baseline->leaves;
    if (!path || !value ||
        !kda_grow(&items, &baseline->leaf_capacity, baseline->leaf_count + 1,
                  sizeof(*baseline->leaves), MAX_LEAVES))
        return false;
    baseline->leaves = items;
    baseline->leaves[baseline->leaf_count++] = (struct leaf){path, value};
    return true;
}

static const char *value_of(struct kda_baseline *baseline, const struct kda_json_token *token)
{
    static const char *const words[] = {
        [KDA_JSON_TRUE] = "true", [KDA_JSON_FALSE] = "false", [KDA_JSON_NULL] = "null"};
    if (token->type != KDA_JSON_STRING && token->type != KDA_JSON_NUMBER)
        return words[token->type];
    char *text = kda_arena_strndup(&baseline->row_arena, token->value, token->size);
    if (text && token->escaped)
        text[kda_json_unescape(token->value, token->size, text)] = '\0';
    return text;
}

/* The row's leaves. False: memory ran out. *problem: it is no row. */
static bool flatten(struct kda_baseline *baseline, const char *text, size_t size,
                    const char **problem)
{
    struct kda_json_pull json;
    struct kda_json_token token;
    struct place places[KDA_JSON_MAX_DEPTH + 1] = {{0}};
    char path[NAME_MAX];
    size_t depth = 0, length = 0;
    baseline->leaf_count = 0;
    kda_json_pull_begin(&json, text, size);
    while (kda_json_pull_next(&json, &token)) {
        if (token.type == KDA_JSON_END)
            return true;
        if (token.type == KDA_JSON_CLOSE) {
            length = places[depth].length;
            depth -= depth > 0;
            continue;
        }
        struct place *here = &places[depth];
        size_t begin = length;
        int more = 0;
        if (depth > 0 && here->array)
            more = snprintf(path + length, sizeof(path) - length, "%s%zu", length ? "." : "",
                            here->index++);
        else if (token.key)
            more = snprintf(path + length, sizeof(path) - length, "%s%.*s", length ? "." : "",
                            (int)(token.key_size < 64 ? token.key_size : 64), token.key);
        if (more < 0 || (size_t)more >= sizeof(path) - length) {
            *problem = "its keys are too long";
            return true;
        }
        length += (size_t)more;
        path[length] = '\0';
        if (token.type == KDA_JSON_OBJECT || token.type == KDA_JSON_ARRAY) {
            if (++depth > KDA_JSON_MAX_DEPTH) {
                *problem = "it is nested too deep";
                return true;
            }
            places[depth] = (struct place){begin, 0, token.type == KDA_JSON_ARRAY};
            continue;
        }
        if (!add_leaf(baseline, kda_arena_strdup(&baseline->row_arena, path),
                      value_of(baseline, &token)))
            return false;
        length = begin;
    }
    *problem = json.problem ? json.problem : "it is no JSON";
    return true;
}

/* Leaves of one element of a list, or of the whole row. */
struct range {
    size_t from, to;
};

static const char *leaf(const struct kda_baseline *baseline, struct range in, const char *path)
{
    for (size_t i = in.from; i < in.to; i++)
        if (strcmp(baseline->leaves[i].path, path) == 0)
            return baseline->leaves[i].value;
    return NULL;
}

/* A scalar, or the elements of an array of scalars one behind the other. */
static const char *joined(struct kda_baseline *baseline, struct range in, const char *path)
{
    char text[NAME_MAX * 4] = "";
    size_t used = 0, size = strlen(path);
    const char *one = leaf(baseline, in, path);
    if (one)
        return one;
    for (size_t i = in.from; i < in.to; i++) {
        const struct leaf *item = &baseline->leaves[i];
        if (strncmp(item->path, path, size) != 0 || item->path[size] != '.' ||
            strspn(item->path + size + 1, "0123456789") != strlen(item->path + size + 1))
            continue;
        int more = snprintf(text + used, sizeof(text) - used, "%s%s", used ? " " : "", item->value);
        if (more < 0 || (size_t)more >= sizeof(text) - used)
            break;
        used += (size_t)more;
    }
    return used ? kda_arena_strdup(&baseline->row_arena, text) : NULL;
}

/* ---- objects ---- */

static const char *element_path(char *path, size_t cap, const struct kind *kind, size_t index,
                                const char *name)
{
    if (kind->list)
        (void)snprintf(path, cap, "%s.%zu.%s", kind->list, index, name);
    else
        (void)snprintf(path, cap, "%s", name);
    return path;
}

/* Silos have no names, only addresses: the host, and the others. */
static const char *name_part(const char *field, const char *value)
{
    const char *plain = field[0] == '.' ? field + 1 : field;
    return strcmp(plain, "silo") == 0 && strcmp(value, "host") != 0 ? "silo" : value;
}

/* Is there a callback whose name begins with the same word? */
static bool has_callback_kind(const struct kda_baseline *baseline, const char *name)
{
    size_t size = strcspn(name, " ");
    for (size_t i = 0; i < baseline->callback_kind_count; i++)
        if (strcspn(baseline->callback_kinds[i], " ") == size &&
            memcmp(baseline->callback_kinds[i], name, size) == 0)
            return true;
    return false;
}

static bool add_object(struct kda_baseline *baseline, const struct kind *kind, size_t index,
                       struct range in, const char *const outer[NAMES])
{
    char path[NAME_MAX], name[NAME_MAX] = "";
    size_t used = 0;
    void *items = baseline->objects;
    if (!kda_grow(&items, &baseline->capacity, baseline->count + 1, sizeof(*baseline->objects),
                  KDA_BASELINE_MAX_OBJECTS))
        return false;
    baseline->objects = items;
    struct object *object = &baseline->objects[baseline->count];
    memset(object, 0, sizeof(*object));
    for (size_t i = 0; i < NAMES && kind->names[i] && used < sizeof(name); i++) {
        const char *value = outer[i];
        if (kind->names[i][0] != '.')
            value =
                leaf(baseline, in, element_path(path, sizeof(path), kind, index, kind->names[i]));
        if (value)
            used += (size_t)snprintf(name + used, sizeof(name) - used, "%s%s", used ? " " : "",
                                     name_part(kind->names[i], value));
    }
    const char *va = leaf(baseline, in, element_path(path, sizeof(path), kind, index, "va"));
    object->kind = kind->object;
    object->name =
        kda_arena_strndup(&baseline->arena, name, kda_utf8_valid_prefix(name, strlen(name)));
    object->va = va ? strtoull(va, NULL, 16) : 0;
    object->order = baseline->count;
    object->facts = kda_arena_alloc(&baseline->arena, FIELDS * sizeof(*object->facts));
    if (!object->name || !object->facts)
        return false;
    for (size_t i = 0; i < FIELDS && kind->fields[i]; i++) {
        const char *value =
            joined(baseline, in, element_path(path, sizeof(path), kind, index, kind->fields[i]));
        char *kept = value ? kda_arena_strdup(&baseline->arena, value) : NULL;
        if (value && !kept)
            return false;
        object->facts[object->fact_count++] = (struct fact){kind->fields[i], kept};
    }
    baseline->count++;
    if (strcmp(kind->object, "callback") == 0 && !has_callback_kind(baseline, object->name) &&
        baseline->callback_kind_count < CALLBACK_KINDS)
        baseline->callback_kinds[baseline->callback_kind_count++] = object->name;
    return true;
}

/* The next element of `list` from leaf `from` on; elements stand one behind the other. */
static bool next_element(const struct kda_baseline *baseline, const char *list, size_t from,
                         struct range *ret, size_t *index)
{
    size_t size = strlen(list), digits = 0;
    ret->from = from;
    while (ret->from < baseline->leaf_count) {
        const char *path = baseline->leaves[ret->from].path;
        if (strncmp(path, list, size) == 0 && path[size] == '.')
            break;
        ret->from++;
    }
    if (ret->from == baseline->leaf_count)
        return false;
    const char *first = baseline->leaves[ret->from].path;
    digits = strspn(first + size + 1, "0123456789");
    *index = strtoul(first + size + 1, NULL, 10);
    size_t prefix = size + 1 + digits + 1;
    ret->to = ret->from;
    while (ret->to < baseline->leaf_count &&
           strncmp(baseline->leaves[ret->to].path, first, prefix) == 0)
        ret->to++;
    if (ret->to == ret->from)
        ret->to++; /* a scalar in a list of objects: nothing to compare */
    return true;
}

/* A provider that is neither enabled nor registered is in a map only if --all was given. */
static bool in_use(const struct kda_baseline *baseline)
{
    struct range in;
    size_t index;
    return next_element(baseline, "enables", 0, &in, &index) ||
           next_element(baseline, "registrations", 0, &in, &index);
}

static bool add_objects(struct kda_baseline *baseline, const struct kind *kind)
{
    struct range in = {0, baseline->leaf_count};
    const char *outer[NAMES] = {NULL};
    size_t index = 0;
    for (size_t i = 0; i < NAMES && kind->names[i]; i++)
        if (kind->names[i][0] == '.')
            outer[i] = leaf(baseline, in, kind->names[i] + 1);
    if (!kind->list && strcmp(kind->object, "provider") == 0 && !in_use(baseline))
        return true;
    if (!kind->list)
        return add_object(baseline, kind, 0, in, outer);
    for (size_t from = 0; next_element(baseline, kind->list, from, &in, &index); from = in.to)
        if (!add_object(baseline, kind, index, in, outer))
            return false;
    return true;
}

static enum kda_status add_row(struct kda_baseline *baseline, const char *text, size_t size,
                               struct kda_error *err)
{
    const char *problem = NULL;
    kda_arena_deinit(&baseline->row_arena);
    kda_arena_init(&baseline->row_arena, 0);
    if (!flatten(baseline, text, size, &problem))
        return no_memory(err);
    if (problem)
        return kda_fail(err, KDA_BAD_DATA, "baseline", "a line is no row of a map: %s", problem);
    struct range whole = {0, baseline->leaf_count};
    const char *row = leaf(baseline, whole, "row");
    if (row && strcmp(row, "gap") == 0)
        baseline->gaps++;
    for (size_t k = 0; row && k < KIND_COUNT; k++)
        if (strcmp(kinds[k].row, row) == 0 && !add_objects(baseline, &kinds[k]))
            return baseline->count >= KDA_BASELINE_MAX_OBJECTS
                       ? kda_fail(err, KDA_LIMIT, "baseline", "more than %u objects in a map",
                                  KDA_BASELINE_MAX_OBJECTS)
                       : no_memory(err);
    return KDA_OK;
}

enum kda_status kda_baseline_read(struct kda_baseline *baseline, const char *text, size_t size,
                                  struct kda_error *err)
{
    static const char head[] = "{\"row\":";
    enum kda_status status = KDA_OK;
    while (size > 0 && status == KDA_OK) {
        const char *end = memchr(text, '\n', size);
        size_t line = end ? (size_t)(end - text) : size;
        size_t whole = line;
        while (whole > 0 && (text[whole - 1] == '\r' || text[whole - 1] == ','))
            whole--; /* json puts a comma between rows, and both put one on a line */
        if (whole > sizeof(head) && memcmp(text, head, sizeof(head) - 1) == 0)
            status = add_row(baseline, text, whole, err);
        text += line + (end ? 1 : 0);
        size -= line + (end ? 1 : 0);
    }
    return status;
}

enum kda_status kda_baseline_load(struct kda_baseline *baseline, const char *path,
                                  struct kda_error *err)
{
    struct kda_file *file;
    char first = 0;
    void *text;
    size_t size;
    enum kda_status status = kda_file_open(path, &file, err);
    if (status != KDA_OK)
        return status;
    if (kda_file_size(file) > 0)
        status = kda_file_read_at(file, 0, &first, 1, err);
    if (status == KDA_OK && first != '{')
        status = kda_fail(err, KDA_NOT_MINE, "baseline", "'%s' is no saved map", path);
    if (status == KDA_OK)
        status = kda_file_read_all(file, KDA_BASELINE_MAX_BYTES, &text, &size, err);
    kda_file_close(file);
    if (status != KDA_OK)
        return status;
    status = kda_baseline_read(baseline, text, size, err);
    kda_free(text);
    if (status == KDA_OK && baseline->count == 0)
        status = kda_fail(err, KDA_BAD_DATA, "baseline",
                          "'%s' has no rows of a map; kda map -f jsonl writes them", path);
    return status;
}

size_t kda_baseline_count(const struct kda_baseline *baseline)
{
    return baseline->count;
}

size_t kda_baseline_gaps(const struct kda_baseline *baseline)
{
    return baseline->gaps;
}

void kda_baseline_add_gaps(struct kda_baseline *baseline, size_t count)
{
    baseline->gaps += count;
}

void kda_baseline_cover_callbacks(struct kda_baseline *baseline)
{
    baseline->callbacks = true;
}

bool kda_baseline_covers(const struct kda_baseline *baseline, const char *callback_kind)
{
    return baseline->callbacks || has_callback_kind(baseline, callback_kind);
}

/* ---- the difference ---- */

static int compare_names(const struct object *a, const struct object *b)
{
    int order = strcmp(a->kind, b->kind);
    return order ? order : strcmp(a->name, b->name);
}

static int by_name(const void *a, const void *b)
{
    const struct object *x = a, *y = b;
    int order = compare_names(x, y);
    return order ? order : x->order < y->order ? -1 : 1;
}

static size_t run_of(const struct kda_baseline *side, size_t from)
{
    size_t to = from;
    while (to < side->count && compare_names(&side->objects[to], &side->objects[from]) == 0)
        to++;
    return to - from;
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void tell(kda_change_fn fn, void *context, const char *change, const struct object *object)
{
    const struct kda_change it = {change, object->kind, object->name, NULL, NULL, NULL, object->va};
    fn(context, &it);
}

static void tell_changes(kda_change_fn fn, void *context, const struct object *before,
                         const struct object *after)
{
    for (size_t i = 0; i < after->fact_count; i++) {
        const struct fact *was = &before->facts[i], *is = &after->facts[i];
        const struct kda_change it = {"changed",  after->kind, after->name, is->field,
                                      was->value, is->value,   after->va};
        if (!same_text(was->value, is->value))
            fn(context, &it);
    }
}

static void tell_counts(kda_change_fn fn, void *context, const struct object *object, size_t before,
                        size_t after)
{
    char was[24], is[24];
    (void)snprintf(was, sizeof(was), "%zu", before);
    (void)snprintf(is, sizeof(is), "%zu", after);
    const struct kda_change it = {"changed", object->kind, object->name, "count",
                                  was,       is,           object->va};
    fn(context, &it);
}

void kda_baseline_compare(struct kda_baseline *before, struct kda_baseline *after, kda_change_fn fn,
                          void *context)
{
    size_t i = 0, j = 0;
    if (before->count > 1)
        qsort(before->objects, before->count, sizeof(*before->objects), by_name);
    if (after->count > 1)
        qsort(after->objects, after->count, sizeof(*after->objects), by_name);
    while (i < before->count || j < after->count) {
        const struct object *was = i < before->count ? &before->objects[i] : NULL;
        const struct object *is = j < after->count ? &after->objects[j] : NULL;
        int order = !was ? 1 : !is ? -1 : compare_names(was, is);
        size_t was_count = order <= 0 ? run_of(before, i) : 0;
        size_t is_count = order >= 0 ? run_of(after, j) : 0;
        const struct object *one = order <= 0 ? was : is;
        bool told = strcmp(one->kind, "callback") != 0 || (kda_baseline_covers(before, one->name) &&
                                                           kda_baseline_covers(after, one->name));
        if (order < 0 && told)
            tell(fn, context, "vanished", was);
        else if (order > 0 && told)
            tell(fn, context, "appeared", is);
        else if (order == 0 && was_count != is_count)
            tell_counts(fn, context, is, was_count, is_count);
        else if (order == 0 && was_count == 1)
            tell_changes(fn, context, was, is);
        i += was_count;
        j += is_count;
    }
}
