/* handle.h - the symbol handle and what every source needs to fill it. Internal to lib/symbols. */
#ifndef KDA_SYMBOLS_HANDLE_H
#define KDA_SYMBOLS_HANDLE_H

#include "kda/symbols.h"

struct kda_symbols {
    struct kda_layout layout;
    struct kda_symbols_info info;
    char *origin;     /* owned, or NULL when info.origin is constant */
    char version[24]; /* "" = unknown */
};

/* Everything absent: where a source starts. */
void kda_layout_clear(struct kda_layout *layout);

/* Size of the smallest power-of-two unit that holds bits [bit, bit + bits), or 0 over 64 bits. */
uint16_t kda_bit_unit(unsigned bit, unsigned bits);

/* Sets the parts of a field, leaving it absent when they cannot be expressed. */
void kda_field_set(struct kda_field *field, uint64_t offset, uint64_t size);
/* `offset` and `bit` as the source states them, relative to the unit it chose. */
void kda_field_set_bits(struct kda_field *field, uint64_t offset, unsigned bit, unsigned bits);

#endif
