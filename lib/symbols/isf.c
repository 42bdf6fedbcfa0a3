/*
 * Layout from a Volatility symbol table: only the structures and globals that are wanted are
 * parsed.
 *
 * Source: Volatility 3, framework/schemas (format 4.0.0 to 6.2.0) and what its PDB converter
 * writes: "symbols" hold RVAs, metadata.windows.pdb the identity.
 */
#include "isf.h"

#ifdef KDA_HAVE_ISF

#include <jansson.h>
#include <string.h>

#include "alloc.h"
#include "handle.h"
#include "isf_unpack.h"
#include "json_scan.h"
#include "lookup.h"
#include "pdb.h"
#include "store.h"
#include "text.h"

#define MAX_TYPES ((size_t)1 << 20)
#define MAX_DEPTH 32u

struct entry {
    struct kda_json_slice name, value;
};

/* Members of one big object by name. */
struct index {
    struct entry *items;
    size_t count, capacity;
};

struct isf {
    const char *file;
    struct kda_json_slice base_types, enums, metadata, symbols, user_types;
    struct index types, enum_index;
    json_t *bases;
    struct kda_error *err;
};

static enum kda_status damaged(const struct isf *isf, const char *what)
{
    return kda_fail(isf->err, KDA_BAD_DATA, "symbols", "\"%s\": %s", isf->file, what);
}

static enum kda_status no_memory(const struct isf *isf)
{
    return kda_fail(isf->err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", isf->file);
}

/* NULL: damaged, or out of memory (*status says which). */
static json_t *parse(const struct isf *isf, struct kda_json_slice slice, enum kda_status *status)
{
    json_error_t why;
    json_t *json = NULL;
    bool out = kda_fault();
    if (!out)
        json = json_loadb(slice.text, slice.size, JSON_DECODE_ANY, &why);
    if (!json)
        *status = out || json_error_code(&why) == json_error_out_of_memory
                      ? no_memory(isf)
                      : damaged(isf, "a part of it is not valid JSON");
    return json;
}

static enum kda_status split(struct isf *isf, struct kda_json_slice text)
{
    struct kda_json_scan scan = kda_json_object(text);
    struct kda_json_slice key, value;
    while (kda_json_next(&scan, &key, &value)) {
        if (kda_json_is(key, "base_types"))
            isf->base_types = value;
        else if (kda_json_is(key, "enums"))
            isf->enums = value;
        else if (kda_json_is(key, "metadata"))
            isf->metadata = value;
        else if (kda_json_is(key, "symbols"))
            isf->symbols = value;
        else if (kda_json_is(key, "user_types"))
            isf->user_types = value;
    }
    if (scan.failed)
        return damaged(isf, "not a JSON object, or cut");
    if (!isf->metadata.text || !isf->user_types.text || !isf->base_types.text)
        return damaged(isf, "no Volatility symbol table (metadata or types are missing)");
    return KDA_OK;
}

static enum kda_status build_index(const struct isf *isf, struct kda_json_slice object,
                                   struct index *ret)
{
    if (!object.text)
        return KDA_OK;
    struct kda_json_scan scan = kda_json_object(object);
    struct entry entry;
    while (kda_json_next(&scan, &entry.name, &entry.value)) {
        if (ret->count == MAX_TYPES)
            return kda_fail(isf->err, KDA_LIMIT, "symbols", "\"%s\": over %zu types", isf->file,
                            MAX_TYPES);
        if (!kda_grow((void **)&ret->items, &ret->capacity, ret->count + 1, sizeof(entry),
                      MAX_TYPES))
            return no_memory(isf);
        ret->items[ret->count++] = entry;
    }
    return scan.failed ? damaged(isf, "its types cannot be read") : KDA_OK;
}

static const struct entry *find(const struct index *index, const char *name)
{
    for (size_t i = 0; i < index->count; i++) {
        if (kda_json_is(index->items[i].name, name))
            return &index->items[i];
    }
    return NULL;
}

static enum kda_status read_identity(const struct isf *isf, struct kda_kernel_id *ret)
{
    enum kda_status status = KDA_OK;
    json_t *metadata = parse(isf, isf->metadata, &status);
    if (!metadata)
        return status;
    json_t *pdb = json_object_get(json_object_get(metadata, "windows"), "pdb");
    const char *guid_text = json_string_value(json_object_get(pdb, "GUID"));
    const char *name = json_string_value(json_object_get(pdb, "database"));
    json_int_t age = json_integer_value(json_object_get(pdb, "age"));
    struct kda_kernel_id id = {.has_pdb = true};
    bool named = name && kda_store_name_ok(name);
    (void)snprintf(id.pdb_name, sizeof(id.pdb_name), "%s", named ? name : "ntkrnlmp.pdb");
    if (!guid_text || !kda_guid_parse(guid_text, id.pdb_guid) || age < 0 || age > UINT32_MAX) {
        status = damaged(isf, "it does not say which PDB it was made from (metadata.windows.pdb)");
    } else {
        id.pdb_age = (uint32_t)age;
        *ret = id;
    }
    json_decref(metadata);
    return status;
}

static enum kda_status check_identity(const struct isf *isf, const struct kda_kernel_id *id)
{
    struct kda_kernel_id found;
    enum kda_status status = read_identity(isf, &found);
    if (status == KDA_OK)
        status = kda_check_identity(isf->file, found.pdb_guid, found.pdb_age, id, isf->err);
    return status;
}

/* ---- types ---- */

/* A number that fits an offset or a size. */
static bool number(const json_t *json, uint64_t *ret)
{
    json_int_t value = json_integer_value(json);
    if (!json_is_integer(json) || value < 0)
        return false;
    *ret = (uint64_t)value;
    return true;
}

static uint64_t base_size(const struct isf *isf, const char *name)
{
    uint64_t size = 0;
    return number(json_object_get(json_object_get(isf->bases, name), "size"), &size) ? size : 0;
}

/* Only the number is taken from the text of a named structure or enum. */
static uint64_t named_size(const struct index *index, const char *name)
{
    const struct entry *entry = find(index, name);
    if (!entry)
        return 0;
    struct kda_json_scan scan = kda_json_object(entry->value);
    struct kda_json_slice key, value;
    while (kda_json_next(&scan, &key, &value)) {
        uint64_t size = 0;
        if (!kda_json_is(key, "size") || value.size > 10)
            continue;
        for (size_t i = 0; i < value.size; i++) {
            if (value.text[i] < '0' || value.text[i] > '9')
                return 0;
            size = size * 10 + (uint64_t)(value.text[i] - '0');
        }
        return size;
    }
    return 0;
}

/* Bytes of a type; 0 = unknown. Arrays of arrays are the only nesting. */
static uint64_t type_size(const struct isf *isf, const json_t *type)
{
    uint64_t count = 1;
    for (unsigned depth = 0; depth < MAX_DEPTH; depth++) {
        const char *kind = json_string_value(json_object_get(type, "kind"));
        const char *name = json_string_value(json_object_get(type, "name"));
        uint64_t size = 0, more = 0;
        if (!kind)
            return 0;
        if (strcmp(kind, "array") == 0) {
            if (!number(json_object_get(type, "count"), &more) || more > UINT32_MAX ||
                count > UINT32_MAX)
                return 0;
            count *= more;
            type = json_object_get(type, "subtype");
            continue;
        }
        if (strcmp(kind, "pointer") == 0)
            size = base_size(isf, "pointer");
        else if (!name)
            return 0;
        else if (strcmp(kind, "base") == 0)
            size = base_size(isf, name);
        else if (strcmp(kind, "enum") == 0)
            size = named_size(&isf->enum_index, name);
        else
            size = named_size(&isf->types, name);
        return size <= UINT32_MAX && count <= UINT32_MAX ? size * count : 0;
    }
    return 0;
}

static void set_field(const struct isf *isf, const json_t *json, struct kda_field *field)
{
    const json_t *type = json_object_get(json, "type");
    uint64_t offset, bit, bits;
    if (!number(json_object_get(json, "offset"), &offset))
        return;
    const char *kind = json_string_value(json_object_get(type, "kind"));
    if (kind && strcmp(kind, "bitfield") == 0) {
        if (number(json_object_get(type, "bit_position"), &bit) &&
            number(json_object_get(type, "bit_length"), &bits) && bit <= 64 && bits <= 64)
            kda_field_set_bits(field, offset, (unsigned)bit, (unsigned)bits);
        return;
    }
    kda_field_set(field, offset, type_size(isf, type));
}

static enum kda_status read_struct(const struct isf *isf, enum kda_struct_id id,
                                   struct kda_layout *ret)
{
    const struct entry *entry = find(&isf->types, kda_struct_name(id));
    if (!entry)
        return KDA_OK;
    enum kda_status status = KDA_OK;
    json_t *json = parse(isf, entry->value, &status);
    if (!json)
        return status;
    uint64_t size;
    const json_t *fields = json_object_get(json, "fields");
    if (number(json_object_get(json, "size"), &size) && size < KDA_NONE)
        ret->size[id] = (uint32_t)size;
    struct kda_lookup_fields own;
    kda_lookup_fields(&own, id);
    for (unsigned i = own.first; i < own.end; i++) {
        const char *name = kda_field_name((enum kda_field_id)i) + own.prefix;
        const json_t *found = json_object_get(fields, name);
        if (found)
            set_field(isf, found, &ret->field[i]);
    }
    json_decref(json);
    return KDA_OK;
}

/* ---- globals ---- */

static enum kda_status read_symbols(const struct isf *isf, struct kda_layout *ret)
{
    if (!isf->symbols.text)
        return KDA_OK;
    struct kda_lookup lookup;
    kda_lookup_symbols(&lookup);
    struct kda_json_scan scan = kda_json_object(isf->symbols);
    struct kda_json_slice key, value;
    while (kda_json_next(&scan, &key, &value)) {
        unsigned id;
        if (!kda_lookup_find(&lookup, key.text, key.size, &id))
            continue;
        enum kda_status status = KDA_OK;
        json_t *json = parse(isf, value, &status);
        if (!json)
            return status;
        uint64_t rva;
        if (number(json_object_get(json, "address"), &rva) && rva < KDA_NONE)
            ret->rva[id] = (uint32_t)rva;
        json_decref(json);
    }
    return scan.failed ? damaged(isf, "its symbols cannot be read") : KDA_OK;
}

static enum kda_status fill(struct isf *isf, struct kda_json_slice text,
                            const struct kda_kernel_id *id, struct kda_layout *layout)
{
    enum kda_status status = split(isf, text);
    if (status == KDA_OK)
        status = check_identity(isf, id);
    if (status == KDA_OK)
        isf->bases = parse(isf, isf->base_types, &status);
    if (status == KDA_OK)
        status = build_index(isf, isf->user_types, &isf->types);
    if (status == KDA_OK)
        status = build_index(isf, isf->enums, &isf->enum_index);
    for (unsigned i = 0; status == KDA_OK && i < KDA_STRUCT_COUNT; i++)
        status = read_struct(isf, (enum kda_struct_id)i, layout);
    return status == KDA_OK ? read_symbols(isf, layout) : status;
}

enum kda_status kda_isf_layout(struct kda_file *file, const struct kda_kernel_id *id,
                               struct kda_layout *ret, struct kda_error *err)
{
    char *text;
    size_t size;
    enum kda_status status = kda_isf_text(file, &text, &size, err);
    if (status != KDA_OK)
        return status;
    struct isf isf = {.file = kda_file_name(file), .err = err};
    struct kda_layout layout;
    kda_layout_clear(&layout);
    status = fill(&isf, (struct kda_json_slice){text, size}, id, &layout);
    if (status == KDA_OK)
        *ret = layout;
    json_decref(isf.bases);
    kda_free(isf.types.items);
    kda_free(isf.enum_index.items);
    kda_free(text);
    return status;
}

enum kda_status kda_isf_identity(struct kda_file *file, struct kda_kernel_id *ret,
                                 struct kda_error *err)
{
    char *text;
    size_t size;
    enum kda_status status = kda_isf_text(file, &text, &size, err);
    if (status != KDA_OK)
        return status;
    struct isf isf = {.file = kda_file_name(file), .err = err};
    status = split(&isf, (struct kda_json_slice){text, size});
    if (status == KDA_OK)
        status = read_identity(&isf, ret);
    kda_free(text);
    return status;
}

#else

enum kda_status kda_isf_layout(struct kda_file *file, const struct kda_kernel_id *id,
                               struct kda_layout *ret, struct kda_error *err)
{
    (void)id;
    (void)ret;
    return kda_fail(err, KDA_UNSUPPORTED, "symbols",
                    "\"%s\": this build has no ISF reader (made without jansson and liblzma)",
                    kda_file_name(file));
}

enum kda_status kda_isf_identity(struct kda_file *file, struct kda_kernel_id *ret,
                                 struct kda_error *err)
{
    (void)ret;
    return kda_fail(err, KDA_UNSUPPORTED, "symbols",
                    "\"%s\": this build has no ISF reader (made without jansson and liblzma)",
                    kda_file_name(file));
}

#endif
