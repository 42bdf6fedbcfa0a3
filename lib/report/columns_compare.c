/*
 * columns_compare.c - how rows of a comparison become cells.
 */
#include "columns_compare.h"

enum { R = KDA_COLUMN_RIGHT, C = KDA_COLUMN_CSV_ONLY, O = KDA_COLUMN_OPTIONAL };

/* clang-format off */
static const struct kda_column witness_columns[] = {
    {"row", "", C, NULL, NULL},
    {"witness", "Witness", 0, NULL, NULL},
    {"path", "File", 0, NULL, NULL},
    {"source", "Source", 0, NULL, NULL},
    {"first_time", "From", 0, NULL, NULL},
    {"last_time", "To", 0, NULL, NULL},
    {"events", "Events", R, NULL, NULL},
    {"matched", "Matched", R, NULL, NULL},
    {"only", "Only here", R, NULL, NULL},
    {"left_out.outside", "Other not watching", R | O, NULL, NULL},
    {"left_out.kind_not_recorded", "Kind not recorded", R | O, NULL, NULL},
    {"left_out.declared_lost", "Declared lost", R | O, NULL, NULL},
    {"left_out.filtered", "Filtered", R | O, NULL, NULL},
    {"kinds", "", C, NULL, NULL},
    {"other", "Other lines", R | O, NULL, NULL},
};

static const struct kda_column difference_columns[] = {
    {"row", "", C, NULL, NULL},
    {"seen_by", "Seen by", 0, NULL, NULL},
    {"missing_in", "Missing in", 0, NULL, NULL},
    {"kind", "Kind", 0, NULL, NULL},
    {"pid", "PID", R, NULL, NULL},
    {"image", "Image", 0, NULL, NULL},
    {"count", "Events", R, NULL, NULL},
    {"first_time", "From", 0, NULL, NULL},
    {"last_time", "To", 0, NULL, NULL},
    {"declared", "Declared lost", R | O, NULL, NULL},
    {"example", "First of them", O, NULL, NULL},
};

static const struct kda_column unmatched_columns[] = {
    {"row", "", C, NULL, NULL},
    {"seen_by", "Seen by", 0, NULL, NULL},
    {"missing_in", "Missing in", 0, NULL, NULL},
    {"kind", "Kind", 0, NULL, NULL},
    {"pid", "PID", R, NULL, NULL},
    {"image", "Image", 0, NULL, NULL},
    {"id", "Id", R | O, NULL, NULL},
    {"time", "Time", 0, NULL, NULL},
    {"what", "What", O, NULL, NULL},
};
/* clang-format on */

#define TABLE(t)                                                                                   \
    {                                                                                              \
        t, sizeof(t) / sizeof((t)[0]), false, false                                                \
    }
const struct kda_columns kda_witness_columns = TABLE(witness_columns);
const struct kda_columns kda_difference_columns = TABLE(difference_columns);
const struct kda_columns kda_unmatched_columns = TABLE(unmatched_columns);
