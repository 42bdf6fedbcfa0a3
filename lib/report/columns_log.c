/*
 * columns_log.c - how rows about logs become cells.
 */
#include "columns_log.h"

enum {
    R = KDA_COLUMN_RIGHT,
    C = KDA_COLUMN_CSV_ONLY,
    O = KDA_COLUMN_OPTIONAL,
    T = KDA_COLUMN_TEXT_ONLY,
    B = KDA_COLUMN_SIZE,
    V = KDA_COLUMN_VERBOSE,
};

/* clang-format off */
static const struct kda_column event_columns[] = {
    {"row", "", C, NULL, NULL},
    {"time", "Time", 0, NULL, NULL},
    {"id", "Id", R, NULL, NULL},
    {"kind", "Kind", 0, NULL, NULL},
    {"source", "", C, NULL, NULL},
    {"cpu", "CPU", R | V, NULL, NULL},
    {"pid", "PID", R, NULL, NULL},
    {"tid", "TID", R | V, NULL, NULL},
    {"process_key", "", C, NULL, NULL},
    {"process", "Process", T, NULL, NULL},
    {"image", "", C, NULL, NULL},
    {"command_line", "", C, NULL, NULL},
    {"parent_pid", "", C, NULL, NULL},
    {"parent_key", "", C, NULL, NULL},
    {"creator_pid", "", C, NULL, NULL},
    {"creator_tid", "", C, NULL, NULL},
    {"session", "", C, NULL, NULL},
    {"user_sid", "", C, NULL, NULL},
    {"integrity", "", C, NULL, NULL},
    {"elevated", "", C, NULL, NULL},
    {"protection", "", C, NULL, NULL},
    {"create_time", "", C, NULL, NULL},
    {"exit_time", "", C, NULL, NULL},
    {"exit_code", "", C, NULL, NULL},
    {"new_tid", "", C, NULL, NULL},
    {"target_pid", "", C, NULL, NULL},
    {"target_key", "", C, NULL, NULL},
    {"start_address", "", C, NULL, NULL},
    {"start_module", "", C, NULL, NULL},
    {"remote", "", C, NULL, NULL},
    {"module", "", C, NULL, NULL},
    {"base", "", C, NULL, NULL},
    {"size", "", C, NULL, NULL},
    {"kernel", "", C, NULL, NULL},
    {"signature_level", "", C, NULL, NULL},
    {"signature_type", "", C, NULL, NULL},
    {"protocol", "", C, NULL, NULL},
    {"transport", "", C, NULL, NULL},
    {"ip_version", "", C, NULL, NULL},
    {"local_ip", "", C, NULL, NULL},
    {"local_port", "", C, NULL, NULL},
    {"remote_ip", "", C, NULL, NULL},
    {"remote_port", "", C, NULL, NULL},
    {"direction", "", C, NULL, NULL},
    {"key", "", C, NULL, NULL},
    {"new_name", "", C, NULL, NULL},
    {"value", "", C, NULL, NULL},
    {"value_type", "", C, NULL, NULL},
    {"data", "", C, NULL, NULL},
    {"data_size", "", C, NULL, NULL},
    {"old_type", "", C, NULL, NULL},
    {"old_data", "", C, NULL, NULL},
    {"disposition", "", C, NULL, NULL},
    {"status", "", C, NULL, NULL},
    {"provider", "", C, NULL, NULL},
    {"provider_name", "", C, NULL, NULL},
    {"event_id", "", C, NULL, NULL},
    {"version", "", C, NULL, NULL},
    {"opcode", "", C, NULL, NULL},
    {"level", "", C, NULL, NULL},
    {"keyword", "", C, NULL, NULL},
    {"task", "", C, NULL, NULL},
    {"channel", "", C, NULL, NULL},
    {"event_name", "", C, NULL, NULL},
    {"activity", "", C, NULL, NULL},
    {"related_activity", "", C, NULL, NULL},
    {"fields", "", C, NULL, NULL},
    {"extended", "", C, NULL, NULL},
    {"payload", "", C, NULL, NULL},
    {"lost", "", C, NULL, NULL},
    {"lost_events", "", C, NULL, NULL},
    {"lost_buffers", "", C, NULL, NULL},
    {"lost_bytes", "", C, NULL, NULL},
    {"reason", "", C, NULL, NULL},
    {"file", "", C, NULL, NULL},
    {"offset", "", C, NULL, NULL},
    {"why", "", C, NULL, NULL},
    {"what", "What", T, NULL, NULL},
};

static const struct kda_column log_columns[] = {
    {"row", "", C, NULL, NULL},
    {"log", "Log", O, NULL, NULL},
    {"holds", "Account holds", 0, NULL, "yes|NO"},
    {"findings", "Findings", 0, NULL, NULL},
    {"ending", "Ends", 0, NULL, NULL},
    {"begins", "Beginning there", 0, NULL, "yes|no"},
    {"cut_line", "Last line cut", O, NULL, "yes|no"},
    {"tail", "Lines after shutdown", O, NULL, NULL},
    {"files", "Files", 0, NULL, NULL},
    {"bytes", "Bytes", B, NULL, NULL},
    {"lines", "Lines", 0, NULL, NULL},
    {"first_id", "First id", O, NULL, NULL},
    {"last_id", "Last id", O, NULL, NULL},
    {"first_time", "First time", O, NULL, NULL},
    {"last_time", "Last time", O, NULL, NULL},
    {"totals", "Totals", 0, NULL, NULL},
};

static const struct kda_column account_columns[] = {
    {"row", "", C, NULL, NULL},
    {"log", "", C, NULL, NULL},
    {"kind", "Kind", 0, NULL, NULL},
    {"offered", "Offered", R | O, NULL, NULL},
    {"written", "Written", R | O, NULL, NULL},
    {"lost", "Lost", R | O, NULL, NULL},
    {"filtered", "Filtered", R | O, NULL, NULL},
    {"lines", "Lines", R, NULL, NULL},
};

static const struct kda_column finding_columns[] = {
    {"row", "", C, NULL, NULL},
    {"check", "Check", 0, NULL, NULL},
    {"file", "File", 0, NULL, NULL},
    {"line", "Line", R | O, NULL, NULL},
    {"text", "Finding", 0, NULL, NULL},
};

static const struct kda_column count_columns[] = {
    {"row", "", C, NULL, NULL},
    {"by", "By", 0, NULL, NULL},
    {"lines", "Lines", R, NULL, NULL},
    {"bytes", "Bytes", R, NULL, NULL},
    {"first_time", "First", 0, NULL, NULL},
    {"last_time", "Last", 0, NULL, NULL},
    {"name", "Name", 0, NULL, NULL},
};
/* clang-format on */

_Static_assert(sizeof(event_columns) / sizeof(event_columns[0]) <= KDA_COLUMNS_MAX, "a table");

#define TABLE(t, v, s)                                                                             \
    {                                                                                              \
        t, sizeof(t) / sizeof((t)[0]), v, s                                                        \
    }
const struct kda_columns kda_event_columns = TABLE(event_columns, false, true);
const struct kda_columns kda_log_columns = TABLE(log_columns, true, false);
const struct kda_columns kda_account_columns = TABLE(account_columns, false, false);
const struct kda_columns kda_finding_columns = TABLE(finding_columns, false, false);
const struct kda_columns kda_count_columns = TABLE(count_columns, false, false);
