/* handle.h - the symbol handle and what every source needs to fill it. Internal to lib/symbols. */
#ifndef KDA_SYMBOLS_HANDLE_H
#define KDA_SYMBOLS_HANDLE_H

#include "kda/symbols.h"

struct kda_symbols {
    struct kda_layout layout;
    struct kda_symbols_info info;
    char *origin;     /* owned, or NULL when info.origin is constant */
    char version[24]; /* "" = unknown */
    char note[320];   /* "" = none */
};

struct kda_file;

/* Reads one kind of file into a layout; checks that it is for `id` (NULL = no check). */
typedef enum kda_status (*kda_layout_fn)(struct kda_file *file, const struct kda_kernel_id *id,
                                         struct kda_layout *ret, struct kda_error *err);

/* Version of a known build, or NULL. */
const char *kda_profile_version(const struct kda_kernel_id *id);

/* "8E33...B31": GUID upper case without dashes, then the age in upper-case hex. */
#define KDA_KEY_TEXT 41
void kda_key_text(const uint8_t guid[16], uint32_t age, char out[KDA_KEY_TEXT]);
/* The 32 digits alone. */
void kda_guid_key(const uint8_t guid[16], char out[33]);

/* Everything absent: where a source starts. */
void kda_layout_clear(struct kda_layout *layout);

/* Size of the smallest power-of-two unit that holds bits [bit, bit + bits), or 0 over 64 bits. */
uint16_t kda_bit_unit(unsigned bit, unsigned bits);

/* Sets the parts of a field, leaving it absent when they cannot be expressed. */
void kda_field_set(struct kda_field *field, uint64_t offset, uint64_t size);
/* `offset` and `bit` as the source states them, relative to the unit it chose. */
void kda_field_set_bits(struct kda_field *field, uint64_t offset, unsigned bit, unsigned bits);

#endif
