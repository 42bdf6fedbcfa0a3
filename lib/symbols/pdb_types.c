/*
 * The wanted structures of a PDB's type stream.
 *
 * One pass notes where each record starts and every definition of a structure, union or enum;
 * then only the field lists of the wanted structures are read. A member's type is followed as far
 * as its size needs.
 *
 * Source: Microsoft's microsoft-pdb repository, include/cvinfo.h (CodeView records).
 */
#include <string.h>

#include "alloc.h"
#include "bytes.h"
#include "handle.h"
#include "lookup.h"
#include "pdb.h"

enum { STREAM_TPI = 2 };

enum {
    LF_MODIFIER = 0x1001,
    LF_POINTER = 0x1002,
    LF_FIELDLIST = 0x1203,
    LF_BITFIELD = 0x1205,
    LF_BCLASS = 0x1400,
    LF_VBCLASS = 0x1401,
    LF_IVBCLASS = 0x1402,
    LF_INDEX = 0x1404,
    LF_VFUNCTAB = 0x1409,
    LF_ENUMERATE = 0x1502,
    LF_ARRAY = 0x1503,
    LF_CLASS = 0x1504,
    LF_STRUCTURE = 0x1505,
    LF_UNION = 0x1506,
    LF_ENUM = 0x1507,
    LF_MEMBER = 0x150d,
    LF_STMEMBER = 0x150e,
    LF_METHOD = 0x150f,
    LF_NESTTYPE = 0x1510,
    LF_ONEMETHOD = 0x1511,
    LF_NESTTYPEEX = 0x1512,
    LF_INTERFACE = 0x1519,
    LF_BINTERFACE = 0x151a,
};

#define PROP_FORWARD 0x0080u
#define PROP_UNIQUE_NAME 0x0200u

#define TPI_HEADER 56u
#define FIRST_TYPE_MIN 0x1000u
/* A type that refers to itself must not be followed for ever. */
#define MAX_TYPE_DEPTH 32u
#define MAX_NESTING 16u
/* Members read in all wanted structures together; a kernel's have some thousands. */
#define MAX_MEMBERS 100000u
#define MAX_PROBES 256u

struct types {
    const char *file;
    uint8_t *records;
    size_t size;
    uint32_t first, count;
    uint32_t *offsets;     /* of each record's length field */
    uint32_t *definitions; /* hash of name -> type index, 0 = free */
    uint32_t slots;        /* power of two */
    uint32_t wanted[KDA_STRUCT_COUNT];
    uint32_t members_left;
};

/* A structure, union or enum. */
struct udt {
    uint16_t kind, properties;
    uint32_t fields, base; /* base: the integer type of an enum */
    uint64_t size;
    const char *name, *key; /* key: unique name where there is one */
};

static enum kda_status damaged(const struct types *types, const char *what, uint32_t index,
                               struct kda_error *err)
{
    return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\": type 0x%x: %s", types->file, index,
                    what);
}

/* Body of a type record, kind first. False for simple types and indices out of range. */
static bool record(const struct types *types, uint32_t index, struct kda_cursor *ret)
{
    if (index < types->first || index - types->first >= types->count)
        return false;
    const uint8_t *at = types->records + types->offsets[index - types->first];
    *ret = kda_cursor_make(at + 2, kda_le16(at));
    return true;
}

/* Numbers below 0x8000 stand as they are, others behind a word that says their width. */
static uint64_t take_number(struct kda_cursor *c)
{
    uint16_t word = kda_take16(c);
    if (word < 0x8000)
        return word;
    switch (word) {
    case 0x8000:
        return (uint64_t)(int64_t)(int8_t)kda_take8(c);
    case 0x8001:
        return (uint64_t)(int64_t)(int16_t)kda_take16(c);
    case 0x8002:
        return kda_take16(c);
    case 0x8003:
        return (uint64_t)(int64_t)(int32_t)kda_take32(c);
    case 0x8004:
        return kda_take32(c);
    case 0x8009:
    case 0x800a:
        return kda_take64(c);
    default:
        c->failed = true;
        return 0;
    }
}

static bool is_udt(uint16_t kind)
{
    return kind == LF_STRUCTURE || kind == LF_CLASS || kind == LF_UNION || kind == LF_ENUM ||
           kind == LF_INTERFACE;
}

/* *c stands behind the kind. */
static bool take_udt(struct kda_cursor *c, uint16_t kind, struct udt *ret)
{
    *ret = (struct udt){.kind = kind};
    (void)kda_take16(c); /* member count: the list itself is what counts */
    ret->properties = kda_take16(c);
    if (kind == LF_ENUM)
        ret->base = kda_take32(c);
    ret->fields = kda_take32(c);
    if (kind != LF_ENUM && kind != LF_UNION)
        (void)kda_take(c, 8); /* base classes, virtual function table */
    if (kind != LF_ENUM)
        ret->size = take_number(c);
    ret->name = kda_take_cstr(c);
    if (!ret->name)
        return false;
    ret->key = ret->properties & PROP_UNIQUE_NAME ? kda_take_cstr(c) : ret->name;
    if (!ret->key)
        ret->key = ret->name;
    return true;
}

static bool udt_at(const struct types *types, uint32_t index, struct udt *ret)
{
    struct kda_cursor c;
    if (!record(types, index, &c))
        return false;
    uint16_t kind = kda_take16(&c);
    return is_udt(kind) && take_udt(&c, kind, ret);
}

/* ---- first pass ---- */

static enum kda_status index_records(struct types *types, uint32_t *udts, struct kda_error *err)
{
    struct kda_cursor c = kda_cursor_make(types->records, types->size);
    *udts = 0;
    for (uint32_t i = 0; i < types->count; i++) {
        types->offsets[i] = (uint32_t)c.pos;
        uint16_t length = kda_take16(&c);
        const uint8_t *body = kda_take(&c, length);
        if (!body || length < 2)
            return damaged(types, "the record does not fit the type stream", types->first + i, err);
        *udts += is_udt(kda_le16(body));
    }
    return KDA_OK;
}

/* Slot of a definition by name, or a free one; NULL when neither is near: a file made so that all
 * names collide must not cost the square of its size. */
static uint32_t *definition_slot(const struct types *types, const char *key)
{
    uint32_t slot = kda_name_hash(key, strlen(key));
    for (unsigned i = 0; i < MAX_PROBES; i++, slot++) {
        uint32_t *entry = &types->definitions[slot & (types->slots - 1)];
        struct udt udt;
        if (*entry == 0 || (udt_at(types, *entry, &udt) && strcmp(udt.key, key) == 0))
            return entry;
    }
    return NULL;
}

static void index_definitions(struct types *types)
{
    struct kda_lookup lookup;
    kda_lookup_structs(&lookup);
    for (uint32_t i = 0; i < types->count; i++) {
        struct udt udt;
        uint32_t index = types->first + i;
        if (!udt_at(types, index, &udt) || (udt.properties & PROP_FORWARD))
            continue;
        uint32_t *slot = definition_slot(types, udt.key);
        if (slot)
            *slot = index;
        unsigned id;
        if (udt.kind != LF_ENUM && kda_lookup_find(&lookup, udt.name, strlen(udt.name), &id))
            types->wanted[id] = index;
    }
}

/* Definition behind a forward reference. */
static bool find_definition(const struct types *types, const struct udt *want, struct udt *ret)
{
    const uint32_t *slot = definition_slot(types, want->key);
    return slot && *slot != 0 && udt_at(types, *slot, ret);
}

/* ---- sizes ---- */

/* Index below 0x1000: kind in the low byte, pointer mode above it. */
static uint64_t simple_size(uint32_t index)
{
    static const struct {
        uint8_t kind, size;
    } sizes[] = {
        {0x08, 4}, {0x10, 1}, {0x11, 2},  {0x12, 4},  {0x13, 8},  {0x14, 16}, {0x20, 1},
        {0x21, 2}, {0x22, 4}, {0x23, 8},  {0x24, 16}, {0x30, 1},  {0x31, 2},  {0x32, 4},
        {0x33, 8}, {0x40, 4}, {0x41, 8},  {0x42, 10}, {0x43, 16}, {0x46, 2},  {0x68, 1},
        {0x69, 1}, {0x70, 1}, {0x71, 2},  {0x72, 2},  {0x73, 2},  {0x74, 4},  {0x75, 4},
        {0x76, 8}, {0x77, 8}, {0x78, 16}, {0x79, 16}, {0x7a, 2},  {0x7b, 4},  {0x7c, 1},
    };
    switch (index >> 8 & 7) {
    case 0:
        break;
    case 4:
        return 4;
    case 6:
        return 8;
    default:
        return 0;
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i].kind == (index & 0xff))
            return sizes[i].size;
    }
    return 0;
}

/* Size of a pointer from its attributes: stated, else by its kind (0xc = 64 bits, 0xa = 32). */
static uint64_t pointer_size(uint32_t attributes)
{
    uint32_t stated = attributes >> 13 & 0x3f;
    if (stated)
        return stated;
    return (attributes & 0x1f) == 0xc ? 8 : 4;
}

/* Bytes of a type; 0 = unknown. */
static uint64_t type_size(const struct types *types, uint32_t index)
{
    for (unsigned depth = 0; depth < MAX_TYPE_DEPTH; depth++) {
        struct kda_cursor c;
        if (!record(types, index, &c))
            return index < FIRST_TYPE_MIN ? simple_size(index) : 0;
        uint16_t kind = kda_take16(&c);
        uint32_t next = kda_take32(&c);
        if (kind == LF_POINTER) {
            uint32_t attributes = kda_take32(&c);
            return c.failed ? 0 : pointer_size(attributes);
        }
        if (kind == LF_ARRAY) {
            (void)kda_take32(&c); /* type of the index */
            uint64_t size = take_number(&c);
            return c.failed ? 0 : size;
        }
        if (kind == LF_MODIFIER || kind == LF_BITFIELD) {
            index = next;
            continue;
        }
        struct udt udt;
        if (!udt_at(types, index, &udt))
            return 0;
        if ((udt.properties & PROP_FORWARD) && !find_definition(types, &udt, &udt))
            return 0;
        if (udt.kind != LF_ENUM)
            return udt.size;
        index = udt.base;
    }
    return 0;
}

/* ---- members ---- */

struct visit {
    const struct types *types;
    struct kda_lookup_fields fields;
    struct kda_layout *ret;
};

static void set_member(const struct visit *visit, enum kda_field_id id, uint32_t type,
                       uint64_t offset)
{
    struct kda_field *field = &visit->ret->field[id];
    if (field->offset != KDA_NONE)
        return; /* the outer of two members of one name counts */
    struct kda_cursor c;
    if (record(visit->types, type, &c) && kda_take16(&c) == LF_BITFIELD) {
        (void)kda_take32(&c);
        uint8_t bits = kda_take8(&c), bit = kda_take8(&c);
        if (!c.failed)
            kda_field_set_bits(field, offset, bit, bits);
        return;
    }
    kda_field_set(field, offset, type_size(visit->types, type));
}

/* Field list to read next, with the offset its members are relative to. */
struct list {
    uint32_t index;
    uint64_t base;
};

struct todo {
    struct list items[MAX_NESTING];
    size_t count;
};

static bool push(struct todo *todo, uint32_t index, uint64_t base)
{
    if (todo->count == MAX_NESTING)
        return false;
    todo->items[todo->count++] = (struct list){index, base};
    return true;
}

/* A member without a name is an anonymous structure or union: its members belong to the outer. */
static bool take_member(const struct visit *visit, struct kda_cursor *c, uint64_t base,
                        struct todo *todo)
{
    (void)kda_take16(c); /* attributes */
    uint32_t type = kda_take32(c);
    uint64_t offset = take_number(c);
    const char *name = kda_take_cstr(c);
    if (!name || !kda_add64(base, offset, &offset))
        return false;
    enum kda_field_id id;
    if (name[0] == '\0') {
        struct udt udt;
        if (!udt_at(visit->types, type, &udt))
            return true;
        if ((udt.properties & PROP_FORWARD) && !find_definition(visit->types, &udt, &udt))
            return true;
        return udt.kind == LF_ENUM || push(todo, udt.fields, offset);
    }
    if (kda_lookup_field(&visit->fields, name, strlen(name), &id))
        set_member(visit, id, type, offset);
    return true;
}

/* Steps over what is no data member. False for kinds that are not known: their length is not
 * either. */
static bool skip_member(struct kda_cursor *c, uint16_t kind)
{
    uint16_t attributes = kda_take16(c);
    switch (kind) {
    case LF_ENUMERATE:
        (void)take_number(c);
        return kda_take_cstr(c) != NULL;
    case LF_STMEMBER:
    case LF_METHOD:
    case LF_NESTTYPE:
    case LF_NESTTYPEEX:
        (void)kda_take32(c);
        return kda_take_cstr(c) != NULL;
    case LF_ONEMETHOD: {
        unsigned property = attributes >> 2 & 7u;
        (void)kda_take(c, property == 4 || property == 6 ? 8 : 4); /* introduces a virtual slot */
        return kda_take_cstr(c) != NULL;
    }
    case LF_BCLASS:
    case LF_BINTERFACE:
        (void)kda_take32(c);
        (void)take_number(c);
        return !c->failed;
    case LF_VBCLASS:
    case LF_IVBCLASS:
        (void)kda_take(c, 8);
        (void)take_number(c);
        (void)take_number(c);
        return !c->failed;
    case LF_VFUNCTAB:
        (void)kda_take32(c);
        return !c->failed;
    default:
        return false;
    }
}

static void skip_padding(struct kda_cursor *c)
{
    while (kda_cursor_left(c) > 0 && c->base[c->pos] >= 0xf0) {
        size_t step = c->base[c->pos] & 0x0fu;
        if (!kda_take(c, step ? step : 1))
            return;
    }
}

static bool read_list(struct types *types, const struct visit *visit, struct list list,
                      struct todo *todo)
{
    struct kda_cursor c;
    if (!record(types, list.index, &c) || kda_take16(&c) != LF_FIELDLIST)
        return list.index == 0; /* an empty structure has no list */
    for (skip_padding(&c); kda_cursor_left(&c) >= 2 && !c.failed; skip_padding(&c)) {
        if (types->members_left == 0)
            return false;
        types->members_left--;
        uint16_t kind = kda_take16(&c);
        bool good;
        if (kind == LF_MEMBER) {
            good = take_member(visit, &c, list.base, todo);
        } else if (kind == LF_INDEX) { /* the list goes on in another record */
            (void)kda_take16(&c);
            uint32_t next = kda_take32(&c);
            good = !c.failed && push(todo, next, list.base);
        } else {
            good = skip_member(&c, kind);
        }
        if (!good)
            return false;
    }
    return !c.failed;
}

static enum kda_status read_struct(struct types *types, enum kda_struct_id id,
                                   struct kda_layout *ret, struct kda_error *err)
{
    uint32_t index = types->wanted[id];
    struct udt udt;
    if (index == 0 || !udt_at(types, index, &udt) || udt.size >= KDA_NONE)
        return KDA_OK;
    ret->size[id] = (uint32_t)udt.size;
    struct visit visit = {.types = types, .ret = ret};
    kda_lookup_fields(&visit.fields, id);
    struct todo todo = {.count = 0};
    (void)push(&todo, udt.fields, 0);
    while (todo.count > 0) {
        struct list list = todo.items[--todo.count];
        if (!read_list(types, &visit, list, &todo))
            return damaged(types, "its list of members cannot be read", index, err);
    }
    return KDA_OK;
}

/* ---- whole ---- */

static enum kda_status read_header(struct kda_msf *msf, struct types *types, struct kda_error *err)
{
    uint8_t header[TPI_HEADER];
    enum kda_status status = kda_msf_read(msf, STREAM_TPI, 0, header, sizeof(header), err);
    if (status != KDA_OK)
        return status;
    uint32_t header_size = kda_le32(header + 4), end = kda_le32(header + 12);
    types->first = kda_le32(header + 8);
    types->size = kda_le32(header + 16);
    uint32_t total = kda_msf_size(msf, STREAM_TPI);
    if (header_size < TPI_HEADER || header_size > total || types->size > total - header_size ||
        types->first < FIRST_TYPE_MIN || end < types->first || end - types->first > types->size / 4)
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "\"%s\": header of the type stream: types 0x%x to 0x%x in %zu bytes",
                        types->file, types->first, end, types->size);
    types->count = end - types->first;
    types->records = kda_calloc(types->size, 1);
    if (!types->records)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", types->file);
    return kda_msf_read(msf, STREAM_TPI, header_size, types->records, types->size, err);
}

static enum kda_status build_index(struct types *types, struct kda_error *err)
{
    uint32_t udts;
    types->offsets = kda_calloc(types->count, sizeof(*types->offsets));
    if (!types->offsets)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", types->file);
    enum kda_status status = index_records(types, &udts, err);
    if (status != KDA_OK)
        return status;
    types->slots = 16;
    while (types->slots / 2 < udts)
        types->slots *= 2;
    types->definitions = kda_calloc(types->slots, sizeof(*types->definitions));
    if (!types->definitions)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", types->file);
    index_definitions(types);
    return KDA_OK;
}

enum kda_status kda_pdb_types(struct kda_msf *msf, struct kda_layout *ret, struct kda_error *err)
{
    struct types types = {.file = kda_file_name(msf->file), .members_left = MAX_MEMBERS};
    enum kda_status status = read_header(msf, &types, err);
    if (status == KDA_OK)
        status = build_index(&types, err);
    for (unsigned id = 0; status == KDA_OK && id < KDA_STRUCT_COUNT; id++)
        status = read_struct(&types, (enum kda_struct_id)id, ret, err);
    kda_free(types.offsets);
    kda_free(types.definitions);
    kda_free(types.records);
    return status;
}
