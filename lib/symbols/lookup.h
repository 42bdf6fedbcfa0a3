/*
 * lookup.h - from a name in a symbol file to its id. Internal to lib/symbols.
 *
 * A kernel's PDB has tens of thousands of names and fifty are wanted, so that the common answer is
 * "no" and must be cheap: a small hash table, built on the caller's stack once per file.
 */
#ifndef KDA_SYMBOLS_LOOKUP_H
#define KDA_SYMBOLS_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/fields.h"

#define KDA_LOOKUP_SLOTS 256u

struct kda_lookup {
    const char *(*name)(unsigned id);
    uint16_t slots[KDA_LOOKUP_SLOTS]; /* id + 1; 0 = free */
};

void kda_lookup_symbols(struct kda_lookup *lookup);
void kda_lookup_structs(struct kda_lookup *lookup);
/* `text` need not end in NUL, and may hold one. */
bool kda_lookup_find(const struct kda_lookup *lookup, const char *text, size_t size, unsigned *id);

/* The fields of one structure: ids first to end - 1. */
struct kda_lookup_fields {
    unsigned first, end;
    size_t prefix; /* of the full name, before the field's own */
};

void kda_lookup_fields(struct kda_lookup_fields *ret, enum kda_struct_id type);
/* Field by its plain name. */
bool kda_lookup_field(const struct kda_lookup_fields *fields, const char *text, size_t size,
                      enum kda_field_id *id);

uint32_t kda_name_hash(const char *text, size_t size);

#endif
