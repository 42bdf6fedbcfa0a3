/*
 * columns_audit.c - how rows of callbacks and of the audit become cells.
 */
#include "columns_audit.h"

enum {
    R = KDA_COLUMN_RIGHT,
    C = KDA_COLUMN_CSV_ONLY,
    H = KDA_COLUMN_HIDE_HOST,
    O = KDA_COLUMN_OPTIONAL,
    V = KDA_COLUMN_VERBOSE,
};

/* clang-format off */
static const struct kda_column callback_columns[] = {
    {"row", "", C, NULL, NULL},
    {"kind", "Kind", 0, NULL, NULL},
    {"slot", "Slot", R, NULL, NULL},
    {"slot_va", "", C, NULL, NULL},
    {"va", "Address", 0, NULL, NULL},
    {"function", "Function", 0, NULL, NULL},
    {"module", "Driver", 0, NULL, NULL},
    {"altitude", "Altitude", O, NULL, NULL},
    {"context", "Context", V, NULL, NULL},
    {"post", "Post-operation", O, NULL, NULL},
    {"post_module", "", C, NULL, NULL},
    {"enabled", "", C, NULL, NULL},
    {"operations", "", C, NULL, NULL},
    {"cookie", "", C, NULL, NULL},
};

static const struct kda_column check_columns[] = {
    {"row", "", C, NULL, NULL},
    {"check", "Check", 0, NULL, NULL},
    {"outcome", "Outcome", 0, NULL, NULL},
    {"examined", "Examined", R, NULL, NULL},
    {"findings", "Findings", R, NULL, NULL},
    {"not_checked", "Not checked", R, NULL, NULL},
    {"severity", "", C, NULL, NULL},
    {"attack", "", C, NULL, NULL},
    {"title", "What it looks for", 0, NULL, NULL},
};

static const struct kda_column audit_columns[] = {
    {"row", "", C, NULL, NULL},
    {"severity", "Severity", 0, NULL, NULL},
    {"check", "Check", 0, NULL, NULL},
    {"silo", "Silo", H, NULL, NULL},
    {"object", "Object", 0, NULL, NULL},
    {"name", "Name", 0, NULL, NULL},
    {"va", "Address", 0, NULL, NULL},
    {"text", "Finding", 0, NULL, NULL},
    {"evidence", "Evidence", 0, "{name}:{va}:{found}:{expected}",
     "{name} = {found}[ at {va}][ (expected: {expected})]"},
    {"attack", "ATT&CK", V, NULL, NULL},
    {"false_positives", "Also caused by", V, NULL, NULL},
    {"corroborated_by", "Corroborated by", O, "{check}:{name}:{va}",
     "{check}[ of {name}][ at {va}]"},
    {"joined_to", "", C, "{check}:{name}:{va}", NULL},
};

static const struct kda_column change_columns[] = {
    {"row", "", C, NULL, NULL},
    {"change", "Change", 0, NULL, NULL},
    {"object", "Object", 0, NULL, NULL},
    {"name", "Name", 0, NULL, NULL},
    {"field", "Field", O, NULL, NULL},
    {"before", "Before", O, NULL, NULL},
    {"after", "After", O, NULL, NULL},
    {"va", "Address", O, NULL, NULL},
};

static const struct kda_column unchecked_columns[] = {
    {"row", "", C, NULL, NULL},
    {"check", "Check", 0, NULL, NULL},
    {"object", "Object", 0, NULL, NULL},
    {"name", "Name", 0, NULL, NULL},
    {"va", "Address", O, NULL, NULL},
    {"reason", "Not checked because", 0, NULL, NULL},
};
/* clang-format on */

#define TABLE(t)                                                                                   \
    {                                                                                              \
        t, sizeof(t) / sizeof((t)[0]), false, false                                                \
    }
const struct kda_columns kda_callback_columns = TABLE(callback_columns);
const struct kda_columns kda_check_columns = TABLE(check_columns);
const struct kda_columns kda_audit_columns = TABLE(audit_columns);
const struct kda_columns kda_change_columns = TABLE(change_columns);
const struct kda_columns kda_unchecked_columns = TABLE(unchecked_columns);
