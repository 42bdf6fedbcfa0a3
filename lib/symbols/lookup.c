#include "lookup.h"

#include <string.h>

#include "kda/symbols.h"

_Static_assert(KDA_SYM_COUNT < KDA_LOOKUP_SLOTS / 2, "table of symbols gets slow");
_Static_assert(KDA_STRUCT_COUNT < KDA_LOOKUP_SLOTS / 2, "table of structures gets slow");

/* FNV-1a. */
uint32_t kda_name_hash(const char *text, size_t size)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (uint8_t)text[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static const char *symbol_name(unsigned id)
{
    return kda_symbol_name((enum kda_symbol_id)id);
}

static const char *struct_name(unsigned id)
{
    return kda_struct_name((enum kda_struct_id)id);
}

static void build(struct kda_lookup *lookup, const char *(*name)(unsigned id), unsigned count)
{
    *lookup = (struct kda_lookup){.name = name};
    for (unsigned id = 0; id < count; id++) {
        const char *text = name(id);
        uint32_t slot = kda_name_hash(text, strlen(text)) % KDA_LOOKUP_SLOTS;
        while (lookup->slots[slot] != 0)
            slot = (slot + 1) % KDA_LOOKUP_SLOTS;
        lookup->slots[slot] = (uint16_t)(id + 1);
    }
}

void kda_lookup_symbols(struct kda_lookup *lookup)
{
    build(lookup, symbol_name, KDA_SYM_COUNT);
}

void kda_lookup_structs(struct kda_lookup *lookup)
{
    build(lookup, struct_name, KDA_STRUCT_COUNT);
}

/* `text` comes from a file, and may hold a NUL. */
static bool same(const char *name, const char *text, size_t size)
{
    return strlen(name) == size && memcmp(name, text, size) == 0;
}

bool kda_lookup_find(const struct kda_lookup *lookup, const char *text, size_t size, unsigned *id)
{
    uint32_t slot = kda_name_hash(text, size) % KDA_LOOKUP_SLOTS;
    for (; lookup->slots[slot] != 0; slot = (slot + 1) % KDA_LOOKUP_SLOTS) {
        unsigned candidate = lookup->slots[slot] - 1u;
        if (same(lookup->name(candidate), text, size)) {
            *id = candidate;
            return true;
        }
    }
    return false;
}

/* fields.h lists fields grouped by structure. */
void kda_lookup_fields(struct kda_lookup_fields *ret, enum kda_struct_id type)
{
    unsigned i = 0;
    while (i < KDA_FIELD_COUNT && kda_field_struct((enum kda_field_id)i) != type)
        i++;
    ret->first = i;
    while (i < KDA_FIELD_COUNT && kda_field_struct((enum kda_field_id)i) == type)
        i++;
    ret->end = i;
    ret->prefix = strlen(kda_struct_name(type)) + 1;
}

bool kda_lookup_field(const struct kda_lookup_fields *fields, const char *text, size_t size,
                      enum kda_field_id *id)
{
    for (unsigned i = fields->first; i < fields->end; i++) {
        if (same(kda_field_name((enum kda_field_id)i) + fields->prefix, text, size)) {
            *id = (enum kda_field_id)i;
            return true;
        }
    }
    return false;
}
