/*
 * columns_etl.c - how rows about trace files become cells.
 */
#include "columns_etl.h"

enum {
    R = KDA_COLUMN_RIGHT,
    C = KDA_COLUMN_CSV_ONLY,
    O = KDA_COLUMN_OPTIONAL,
    B = KDA_COLUMN_SIZE,
};

/* clang-format off */
static const struct kda_column trace_columns[] = {
    {"row", "", C, NULL, NULL},
    {"file", "File", 0, NULL, NULL},
    {"size", "File size", B, NULL, NULL},
    {"session", "Session", O, NULL, NULL},
    {"log_file", "Log file", O, NULL, NULL},
    {"os_version", "Windows version", O, NULL, NULL},
    {"pointer_size", "Pointer size", O, NULL, NULL},
    {"layout", "File layout", O, NULL, NULL},
    {"processors", "Processors", O, NULL, NULL},
    {"mode", "Mode", O, NULL, NULL},
    {"mode_flags", "Mode bits", O, NULL, NULL},
    {"clock", "Clock", O, NULL, NULL},
    {"clock_guessed", "Clock assumed", O, NULL, "yes|no"},
    {"frequency", "Ticks a second", O, NULL, NULL},
    {"start_time", "Started", O, NULL, NULL},
    {"end_time", "Ended", O, NULL, NULL},
    {"boot_time", "Booted", O, NULL, NULL},
    {"unfinished", "Unfinished", O, NULL, "yes|no"},
    {"wrapped", "Oldest overwritten", O, NULL, "yes|no"},
    {"buffer_size", "Buffer size", O, NULL, NULL},
    {"buffers", "Buffers", 0, NULL, NULL},
    {"buffers_written", "Buffers written", O, NULL, NULL},
    {"used_bytes", "Bytes of records", B, NULL, NULL},
    {"tail_zeros", "Zeros at the end", O | B, NULL, NULL},
    {"compression", "Compression", O, NULL, NULL},
    {"compressed_buffers", "Compressed buffers", O, NULL, NULL},
    {"unread_buffers", "Buffers not read", O, NULL, NULL},
    {"events_lost", "Events lost", O, NULL, NULL},
    {"buffers_lost", "Buffers lost", O, NULL, NULL},
    {"events_lost_buffers", "Buffers marked EVENTS_LOST", O, NULL, NULL},
    {"buffer_lost_buffers", "Buffers marked BUFFER_LOST", O, NULL, NULL},
    {"backup_corrupt_buffers", "Buffers marked RTBACKUP_CORRUPT", O, NULL, NULL},
    {"records", "Records", 0, NULL, NULL},
    {"first_time", "First record", O, NULL, NULL},
    {"last_time", "Last record", O, NULL, NULL},
    {"sessions", "Sessions", 0, NULL, NULL},
    {"cpus", "CPUs", 0, NULL, NULL},
    {"damages", "Damaged places", 0, NULL, NULL},
};

static const struct kda_column trace_session_columns[] = {
    {"row", "", C, NULL, NULL},
    {"file", "", C, NULL, NULL},
    {"logger_id", "Session", R, NULL, NULL},
    {"first_buffer", "First buffer", R, NULL, NULL},
    {"buffers", "Buffers", R, NULL, NULL},
    {"first_sequence", "First sequence", R, NULL, NULL},
    {"last_sequence", "Last sequence", R, NULL, NULL},
    {"closed", "Closed", 0, NULL, "yes|no"},
};

static const struct kda_column trace_cpu_columns[] = {
    {"row", "", C, NULL, NULL},
    {"file", "", C, NULL, NULL},
    {"cpu", "CPU", R, NULL, NULL},
    {"buffers", "Buffers", R, NULL, NULL},
    {"used_bytes", "Bytes of records", R, NULL, NULL},
};

static const struct kda_column trace_damage_columns[] = {
    {"row", "", C, NULL, NULL},
    {"file", "File", 0, NULL, NULL},
    {"damage", "Damage", 0, NULL, NULL},
    {"offset", "Offset", R, NULL, NULL},
    {"bytes", "Bytes", R, NULL, NULL},
    {"lost", "Lost", 0, NULL, "yes|no"},
    {"why", "Why", 0, NULL, NULL},
};

/* No column "row": tsv is the table of counts as it is kept beside trace files. */
static const struct kda_column trace_count_columns[] = {
    {"file", "File", 0, NULL, NULL},
    {"count", "Records", R, NULL, NULL},
    {"header", "Header", 0, NULL, NULL},
    {"group_or_provider", "Group or provider", 0, NULL, NULL},
    {"type_or_id", "Type or id", 0, NULL, NULL},
    {"version", "Version", 0, NULL, NULL},
    {"rest", "Rest", 0, NULL, NULL},
};
/* clang-format on */

#define TABLE(t, v)                                                                                \
    {                                                                                              \
        t, sizeof(t) / sizeof((t)[0]), v, false                                                    \
    }
const struct kda_columns kda_trace_columns = TABLE(trace_columns, true);
const struct kda_columns kda_trace_session_columns = TABLE(trace_session_columns, false);
const struct kda_columns kda_trace_cpu_columns = TABLE(trace_cpu_columns, false);
const struct kda_columns kda_trace_damage_columns = TABLE(trace_damage_columns, false);
const struct kda_columns kda_trace_count_columns = TABLE(trace_count_columns, false);
