/* providers.h - shape of the generated table of provider names. Internal to lib/symbols. */
#ifndef KDA_SYMBOLS_PROVIDERS_H
#define KDA_SYMBOLS_PROVIDERS_H

#include <stddef.h>
#include <stdint.h>

struct kda_provider_row {
    uint8_t guid[16]; /* memory order; rows are sorted by it */
    uint32_t name;    /* offset into kda_provider_names */
    uint8_t group;    /* index into kda_provider_groups; 0 = none */
};

extern const size_t kda_provider_row_count;
extern const struct kda_provider_row kda_provider_rows[];
extern const uint8_t kda_provider_groups[][16];
/* NUL-terminated names, one after another. An array of characters, not one string literal: those
 * are only promised up to 4095 bytes. */
extern const char kda_provider_names[];

#endif
