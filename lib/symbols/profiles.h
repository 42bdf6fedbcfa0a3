/*
 * profiles.h - shape of the generated table of known kernel builds. Internal to lib/symbols.
 *
 * The arrays are made by tools/gen_profiles.py. Places of fields repeat over builds, so a layout
 * holds indices into one pool of distinct places; a build is a key, a layout number and its RVAs.
 */
#ifndef KDA_SYMBOLS_PROFILES_H
#define KDA_SYMBOLS_PROFILES_H

#include <stddef.h>
#include <stdint.h>

#include "kda/fields.h"

#define KDA_PROFILE_NO_RVAS UINT16_MAX
#define KDA_PROFILE_NO_OFFSET UINT16_MAX

struct kda_profile_cell {
    uint16_t offset; /* KDA_PROFILE_NO_OFFSET = absent */
    uint16_t size;
    uint8_t bit, bits;
};

struct kda_profile_row {
    char version[20];
    uint8_t guid[16];               /* valid if age != 0 */
    uint32_t pe_timestamp, pe_size; /* valid if pe_size != 0 */
    uint16_t rvas;                  /* KDA_PROFILE_NO_RVAS = none known */
    uint8_t age;
    uint8_t layout;
};

extern const size_t kda_profile_row_count;
extern const struct kda_profile_row kda_profile_rows[];
extern const struct kda_profile_cell kda_profile_cells[];
/* Columns of layouts.tsv behind its keys, KDA_PROFILE_COLUMNS of them: id of a global, or
 * KDA_SYM_COUNT + id of a structure (its size), or KDA_SYM_COUNT + KDA_STRUCT_COUNT + id of a
 * field. */
#define KDA_PROFILE_COLUMNS ((size_t)KDA_SYM_COUNT + KDA_STRUCT_COUNT + KDA_FIELD_COUNT)
extern const uint16_t kda_profile_columns[];
extern const uint16_t kda_profile_sizes[][KDA_STRUCT_COUNT];
extern const uint16_t kda_profile_fields[][KDA_FIELD_COUNT];
extern const uint32_t kda_profile_rvas[][KDA_SYM_COUNT];

#endif
