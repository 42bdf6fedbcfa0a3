/*
 * columns.c - how each row kind becomes cells. csv prints every column under its path, so its
 * headings are as stable as the keys of the rows; text shows the few that people compare.
 */
#include "writer.h"

#include <string.h>

#include "columns_audit.h"
#include "columns_compare.h"
#include "columns_etl.h"
#include "columns_log.h"

enum {
    R = KDA_COLUMN_RIGHT,
    C = KDA_COLUMN_CSV_ONLY,
    H = KDA_COLUMN_HIDE_HOST,
    K = KDA_COLUMN_KIB,
    O = KDA_COLUMN_OPTIONAL,
    N = KDA_COLUMN_COUNT,
    V = KDA_COLUMN_VERBOSE,
    T = KDA_COLUMN_TEXT_ONLY,
    S = KDA_COLUMN_TOTAL,
    L = KDA_COLUMN_LINES,
    X = KDA_COLUMN_HEX,
    B = KDA_COLUMN_SIZE,
    E = KDA_COLUMN_ON,
};

/* clang-format off */
static const struct kda_column info_columns[] = {
    {"row", "", C, NULL, NULL},
    {"title", "Format", O, NULL, NULL},
    {"format", "Format name", 0, NULL, NULL},
    {"kind", "Holds", 0, NULL, NULL},
    {"size", "File size", B, NULL, NULL},
    {"pages", "Pages", O, NULL, NULL},
    {"max_pa", "Memory ends at", O, NULL, NULL},
    {"dump_type", "Dump type", O, NULL, NULL},
    {"version", "Windows version", O, NULL, NULL},
    {"build_known", "In the table", O, NULL, NULL},
    {"build", "Build", O, NULL, NULL},
    {"machine", "Machine", O, NULL, NULL},
    {"cpus", "CPUs", O, NULL, NULL},
    {"capture_time", "Captured", O, NULL, NULL},
    {"capture_time_source", "Capture time from", O, NULL, NULL},
    {"kernel_base", "Kernel base", O, NULL, NULL},
    {"dtb", "Page tables (DTB)", O, NULL, NULL},
    {"dtb_source", "DTB found by", O, NULL, NULL},
    {"la57", "Five-level paging", O, NULL, "yes|no"},
    {"pdb_name", "PDB", O, NULL, NULL},
    {"pdb_guid", "PDB GUID", O, NULL, NULL},
    {"pdb_age", "PDB age", O, NULL, NULL},
    {"pe_timestamp", "PE time stamp", O, NULL, NULL},
    {"pe_size", "PE image size", O, NULL, NULL},
    {"kdbg", "Debugger block", O, NULL, NULL},
    {"kdbg_size", "Debugger block size", O | C, NULL, NULL},
    {"kdbg_source", "Debugger block by", O, NULL, NULL},
    {"kdbg_state", "Debugger block is", O, NULL, NULL},
    {"kernel_missing", "No kernel", O, NULL, NULL},
    {"symbol_source", "Symbols", O, NULL, NULL},
    {"symbol_origin", "Symbols from", O, NULL, NULL},
    {"symbols_found", "Globals known", O, NULL, NULL},
    {"symbols_total", "of", S, NULL, NULL},
    {"fields_found", "Fields known", O, NULL, NULL},
    {"fields_total", "of", S, NULL, NULL},
    {"symbols_missing", "Symbols missing", O, NULL, NULL},
    {"bugcheck.code", "Bug check", O, NULL, NULL},
    {"bugcheck.args", "Bug check args", O, NULL, NULL},
    {"process.name", "Process", O, NULL, NULL},
    {"process.pid", "Process id", O, NULL, NULL},
    {"process.va", "EPROCESS", O, NULL, NULL},
    {"driver_count", "Drivers", O, NULL, NULL},
    {"drivers", "Driver list", O | V | L, "{base}:{size}:{timestamp}:{name}",
     "{base}  {size}  {timestamp}  {name}"},
    {"warnings", "Warning", O | L, NULL, NULL},
    {"features", "Built in", 0, NULL, NULL},
    {"gap_count", "Gaps", 0, NULL, NULL},
    {"fit.nearest", "Nearest layout", O, NULL, NULL},
    {"fit.whole", "Fits as a whole", O, NULL, "yes|no"},
    {"fit.layouts_left", "Layouts left", O, NULL, NULL},
    {"fit.layouts_known", "of", S, NULL, NULL},
    {"fit.score", "Score", O, NULL, NULL},
    {"fit.checks_passed", "Checks passed", O, NULL, NULL},
    {"fit.checks_failed", "Checks failed", O, NULL, NULL},
    {"fit.fields_proven", "Fields proven", O, NULL, NULL},
    {"fit.fields_fitted", "Fields fitted", O, NULL, NULL},
    {"fit.fields_absent", "Fields left out", O, NULL, NULL},
    {"fit.anchors_disagree", "Anchors disagree", O, NULL, "yes|no"},
    {"fit.anchors", "Anchors", O | L, "{name}:{verdict}:{refused}", "{name} {verdict}"},
    {"fit.proven", "Proven", O | V | L, NULL, NULL},
    {"fit.fitted", "Fitted", O | V | L, NULL, NULL},
    {"completeness", "Completeness", O | V | L, "{name}:{of}:{state}:{found}:{counted}:{count_va}",
     "{name}[ of {of}][: {state}][, {whole} of][ {lists} whole][, {found} found]"
     "[, {by_others} by others only][, {counted} counted][ at {count_va}][, {uncounted}]"
     "[, breaks at {broken_at}][ and {broken_back}][ ({reason})]"},
};

static const struct kda_column session_columns[] = {
    {"row", "", C, NULL, NULL},
    {"silo", "Silo", H, NULL, NULL},
    {"id", "Id", R, NULL, NULL},
    {"logger_id", "", C, NULL, NULL},
    {"collecting", "Status", 0, NULL, "Running|Stopped"},
    {"mode", "Mode", R, NULL, NULL},
    {"buffer_size", "Buffer KB", R | K, NULL, NULL},
    {"buffers", "Buffers", R, NULL, NULL},
    {"max_buffers", "Max", R, NULL, NULL},
    {"buffers_written", "Written", R, NULL, NULL},
    {"events_lost", "Events Lost", R, NULL, NULL},
    {"buffers_lost", "Buffers Lost", R, NULL, NULL},
    {"realtime_buffers_lost", "RT Lost", R, NULL, NULL},
    {"name", "Name", 0, NULL, NULL},
    {"va", "", C, NULL, NULL},
    {"mode_flags", "", C, NULL, NULL},
    {"accept_new_events", "", C, NULL, NULL},
    {"clock", "", C, NULL, NULL},
    {"get_cpu_clock", "", C, NULL, NULL},
    {"start_time", "", C, NULL, NULL},
    {"instance_guid", "", C, NULL, NULL},
    {"security", "", C, NULL, NULL},
    {"num_consumers", "", C, NULL, NULL},
    {"consumers", "Consumers", O, "{pid}:{process}", "{process} ({pid})"},
    {"log_file", "Log File", O, NULL, NULL},
};

static const struct kda_column consumer_columns[] = {
    {"row", "", C, NULL, NULL},
    {"silo", "Silo", H, NULL, NULL},
    {"session_id", "Session", R, NULL, NULL},
    {"pid", "PID", R, NULL, NULL},
    {"va", "Address", R, NULL, NULL},
    {"handle", "Handle", R, NULL, NULL},
    {"found_by", "Found By", 0, NULL, NULL},
    {"buffers_lost", "Buffers Lost", R | O, NULL, NULL},
    {"flags", "", C, NULL, NULL},
    {"process", "Process", 0, NULL, NULL},
    {"session", "Session Name", 0, NULL, NULL},
    {"image", "Image", O, NULL, NULL},
};

static const struct kda_column provider_columns[] = {
    {"row", "", C, NULL, NULL},
    {"silo", "Silo", H, NULL, NULL},
    {"type", "Type", 0, NULL, NULL},
    {"guid", "GUID", 0, NULL, NULL},
    {"registrations", "Regs", R | N | T, NULL, NULL},
    {"provider_enable.level", "Level", R | O, NULL, NULL},
    {"provider_enable.match_any", "Keywords (Any)", R | O, NULL, NULL},
    {"provider_enable.match_all", "Keywords (All)", R | O, NULL, NULL},
    {"provider_enable.enabled", "", C, NULL, NULL},
    {"name", "Name", 0, NULL, NULL},
    {"group", "", C, NULL, NULL},
    {"va", "", C, NULL, NULL},
    {"found_by", "", C, NULL, NULL},
    {"enables", "Enabled For", O | E,
     "{slot}:{enabled}:{session_id}:{session}:{level}:{match_any}:{match_all}:{property}",
     "{session} ({session_id})"},
    {"filters", "", C, "{slot}:{va}", NULL},
    {"security", "", C, NULL, NULL},
    {"registrations", "", C,
     "{kind}:{pid}:{process}:{module}:{callback}:{enable_mask}:{group_enable_mask}:{va}", NULL},
};

static const struct kda_column process_columns[] = {
    {"row", "", C, NULL, NULL},
    {"silo", "Silo", H, NULL, NULL},
    {"pid", "PID", R, NULL, NULL},
    {"ppid", "PPID", R, NULL, NULL},
    {"va", "EPROCESS", R, NULL, NULL},
    {"dtb", "DTB", R, NULL, NULL},
    {"create_time", "Created", 0, NULL, NULL},
    {"exit_time", "Exited", O, NULL, NULL},
    {"protection", "Prot", R | O | X, NULL, NULL},
    {"found_by", "Found By", 0, NULL, NULL},
    {"name", "Name", 0, NULL, NULL},
    {"image", "Image", O, NULL, NULL},
};

static const struct kda_column symbols_columns[] = {
    {"row", "", C, NULL, NULL},
    {"pdb_name", "PDB", O, NULL, NULL},
    {"pdb_guid", "PDB GUID", O, NULL, NULL},
    {"pdb_age", "PDB age", O, NULL, NULL},
    {"pe_timestamp", "PE time stamp", O, NULL, NULL},
    {"pe_size", "PE image size", O, NULL, NULL},
    {"store_path", "Store path", O, NULL, NULL},
    {"isf_name", "ISF name", O, NULL, NULL},
    {"found", "Found", 0, NULL, "yes|no"},
    {"source", "Source", O, NULL, NULL},
    {"origin", "From", O, NULL, NULL},
    {"version", "Version", O, NULL, NULL},
    {"symbols_found", "Globals known", O, NULL, NULL},
    {"symbols_total", "of", S, NULL, NULL},
    {"fields_found", "Fields known", O, NULL, NULL},
    {"fields_total", "of", S, NULL, NULL},
    {"fetched", "Stored at", O, NULL, NULL},
    {"missing", "Missing", O, NULL, NULL},
    {"build_known", "In the table", O, NULL, NULL},
    {"pdb_source", "PDB known by", O, NULL, NULL},
};

static const struct kda_column format_columns[] = {
    {"row", "", C, NULL, NULL},
    {"table", "Table", 0, NULL, NULL},
    {"name", "Name", 0, NULL, NULL},
    {"usable", "Usable", 0, NULL, "yes|no"},
    {"title", "Title", 0, NULL, NULL},
    {"advice", "Advice", O, NULL, NULL},
};

static const struct kda_column profile_columns[] = {
    {"row", "", C, NULL, NULL},
    {"source", "Source", 0, NULL, NULL},
    {"version", "Version", O, NULL, NULL},
    {"pdb_name", "PDB", O, NULL, NULL},
    {"pdb_guid", "PDB GUID", O, NULL, NULL},
    {"pdb_age", "PDB age", R | O, NULL, NULL},
    {"pe_timestamp", "PE time stamp", R | O, NULL, NULL},
    {"pe_size", "PE size", R | O, NULL, NULL},
    {"builds", "Builds", R | O, NULL, NULL},
    {"complete_builds", "Complete", R | O, NULL, NULL},
    {"symbols_found", "Globals", R | O, NULL, NULL},
    {"symbols_total", "Globals total", C, NULL, NULL},
    {"fields_found", "Fields", R | O, NULL, NULL},
    {"fields_total", "Fields total", C, NULL, NULL},
    {"written", "Written", O, NULL, NULL},
    {"origin", "File", O, NULL, NULL},
    {"problem", "Problem", O, NULL, NULL},
};

static const struct kda_column buffer_columns[] = {
    {"row", "", C, NULL, NULL},
    {"silo", "Silo", H, NULL, NULL},
    {"session_id", "Session", R, NULL, NULL},
    {"session", "", C, NULL, NULL},
    {"va", "Address", R, NULL, NULL},
    {"cpu", "CPU", R, NULL, NULL},
    {"state", "State", 0, NULL, NULL},
    {"used", "Used", R, NULL, NULL},
    {"size", "of", R, NULL, NULL},
    {"records", "Events", R, NULL, NULL},
    {"old", "Old", O, NULL, "old|"},
    {"copy", "Copy", O, NULL, "copy|"},
    {"unwritten", "Unwritten", R | O, NULL, NULL},
    {"damaged", "Damaged", R | O, NULL, NULL},
    {"missing", "Missing", R | O, NULL, NULL},
    {"cut", "", C, NULL, NULL},
    {"oldest", "Oldest", O, NULL, NULL},
    {"newest", "Newest", O, NULL, NULL},
    {"oldest_raw", "", C, NULL, NULL},
    {"newest_raw", "", C, NULL, NULL},
    {"sequence", "Sequence", R, NULL, NULL},
    {"found_by", "Found By", 0, NULL, NULL},
    {"slot_cpu", "", C, NULL, NULL},
    {"references", "", C, NULL, NULL},
    {"overfull", "", C, NULL, NULL},
    {"flags", "", C, NULL, NULL},
    {"type", "", C, NULL, NULL},
    {"time_raw", "", C, NULL, NULL},
    {"consumer", "", C, NULL, NULL},
    {"pid", "PID", R | O, NULL, NULL},
    {"process", "Process", O, NULL, NULL},
};

static const struct kda_column gap_columns[] = {
    {"row", "", C, NULL, NULL},
    {"what", "Gap", 0, NULL, NULL},
    {"va", "Address", R, NULL, NULL},
    {"reason", "Reason", 0, NULL, NULL},
    {"text", "Text", 0, NULL, NULL},
};
/* clang-format on */

#define TABLE(t, v)                                                                                \
    {                                                                                              \
        t, sizeof(t) / sizeof((t)[0]), v, false                                                    \
    }
static const struct kda_columns tables[KDA_ROW_KINDS] = {
    [KDA_ROW_INFO] = TABLE(info_columns, true),
    [KDA_ROW_SESSION] = TABLE(session_columns, false),
    [KDA_ROW_CONSUMER] = TABLE(consumer_columns, false),
    [KDA_ROW_PROVIDER] = TABLE(provider_columns, false),
    [KDA_ROW_PROCESS] = TABLE(process_columns, false),
    [KDA_ROW_SYMBOLS] = TABLE(symbols_columns, true),
    [KDA_ROW_FORMAT] = TABLE(format_columns, false),
    [KDA_ROW_PROFILE] = TABLE(profile_columns, false),
    [KDA_ROW_BUFFER] = TABLE(buffer_columns, false),
    [KDA_ROW_GAP] = TABLE(gap_columns, false),
};

const struct kda_columns *kda_columns_of(enum kda_row_kind kind)
{
    switch (kind) {
    case KDA_ROW_EVENT:
        return &kda_event_columns;
    case KDA_ROW_LOG:
        return &kda_log_columns;
    case KDA_ROW_ACCOUNT:
        return &kda_account_columns;
    case KDA_ROW_FINDING:
        return &kda_finding_columns;
    case KDA_ROW_COUNT:
        return &kda_count_columns;
    case KDA_ROW_WITNESS:
        return &kda_witness_columns;
    case KDA_ROW_DIFFERENCE:
        return &kda_difference_columns;
    case KDA_ROW_UNMATCHED:
        return &kda_unmatched_columns;
    case KDA_ROW_TRACE:
        return &kda_trace_columns;
    case KDA_ROW_TRACE_SESSION:
        return &kda_trace_session_columns;
    case KDA_ROW_TRACE_CPU:
        return &kda_trace_cpu_columns;
    case KDA_ROW_TRACE_DAMAGE:
        return &kda_trace_damage_columns;
    case KDA_ROW_TRACE_COUNT:
        return &kda_trace_count_columns;
    case KDA_ROW_CALLBACK:
        return &kda_callback_columns;
    case KDA_ROW_AUDIT:
        return &kda_audit_columns;
    case KDA_ROW_UNCHECKED:
        return &kda_unchecked_columns;
    case KDA_ROW_CHANGE:
        return &kda_change_columns;
    case KDA_ROW_CHECK:
        return &kda_check_columns;
    default:
        return &tables[kind];
    }
}

static void add_scalar(const struct kda_token *token, const struct kda_column *column,
                       bool for_text, struct kda_text *out)
{
    char scratch[KDA_SCALAR_TEXT];
    size_t size;
    const char *text = kda_token_text(token, scratch, &size);
    if (for_text && token->type == KDA_TOKEN_BOOL && column->text_item) {
        /* "yes|no" */
        const char *bar = strchr(column->text_item, '|');
        if (token->u.number)
            kda_text_add(out, column->text_item, (size_t)(bar - column->text_item));
        else
            kda_text_adds(out, bar + 1);
        return;
    }
    unsigned long long number = token->type == KDA_TOKEN_UINT ? token->u.number : 0;
    if (for_text && number && (column->flags & KDA_COLUMN_KIB) && number % 1024 == 0) {
        kda_text_addf(out, "%llu", number / 1024);
        return;
    }
    if (for_text && number && (column->flags & KDA_COLUMN_HEX)) {
        kda_text_addf(out, "0x%llx", number);
        return;
    }
    kda_text_add_escaped(out, text, size);
    if (for_text && number && (column->flags & KDA_COLUMN_SIZE))
        kda_text_addf(out, " (%.1f MiB)", (double)number / 1048576.0);
}

/* The member that the next "{key}" of a template names, or NULL. */
static const struct kda_token *next_member(const struct kda_row *row,
                                           const struct kda_token *object, const char *format)
{
    const char *key = strchr(format, '{');
    return key ? kda_object_find(row, object, key + 1, strcspn(key, "}") - 1) : NULL;
}

/* One object of an array through its template; a key that is absent leaves its place empty (csv)
 * or shows "?" (text). A part in brackets is left out when its first key is absent. */
static void add_object(const struct kda_row *row, const struct kda_token *object,
                       const struct kda_column *column, const char *format, bool for_text,
                       struct kda_text *out)
{
    while (*format) {
        size_t run = strcspn(format, "{[]");
        kda_text_add(out, format, run);
        format += run;
        if (*format == '\0')
            break;
        if (*format == '[' && !next_member(row, object, format))
            format += strcspn(format, "]");
        if (*format != '{') {
            format++;
            continue;
        }
        size_t size = strcspn(format, "}");
        const struct kda_token *member = kda_object_find(row, object, format + 1, size - 1);
        if (member && kda_token_is_scalar(member))
            add_scalar(member, column, false, out);
        else if (for_text)
            kda_text_adds(out, "?");
        format += size + 1;
    }
}

void kda_cell_item(const struct kda_row *row, const struct kda_token *item,
                   const struct kda_column *column, bool for_text, struct kda_text *out)
{
    const char *format = for_text ? column->text_item : column->csv_item;
    if (kda_token_is_scalar(item))
        add_scalar(item, column, for_text, out);
    else if (item->type == KDA_TOKEN_OBJECT && format)
        add_object(row, item, column, format, for_text, out);
}

static bool is_on(const struct kda_row *row, const struct kda_token *item)
{
    const struct kda_token *enabled =
        item->type == KDA_TOKEN_OBJECT ? kda_object_find(row, item, "enabled", 7) : NULL;
    return enabled && enabled->u.number;
}

static void add_array(const struct kda_row *row, const struct kda_token *array,
                      const struct kda_column *column, bool for_text, struct kda_text *out)
{
    const struct kda_token *item = array + 1;
    bool first = true;
    for (; item->type != KDA_TOKEN_END; item = kda_token_next(row, item)) {
        if (for_text && (column->flags & KDA_COLUMN_ON) && !is_on(row, item))
            continue;
        if (!first)
            kda_text_adds(out, for_text ? ", " : ";");
        first = false;
        kda_cell_item(row, item, column, for_text, out);
    }
}

void kda_cell(const struct kda_row *row, const struct kda_column *column, bool for_text,
              struct kda_text *out)
{
    const struct kda_token *token = kda_row_find(row, column->path);
    if (!token)
        return;
    if (token->type == KDA_TOKEN_ARRAY && for_text && (column->flags & KDA_COLUMN_COUNT)) {
        size_t count = 0;
        for (const struct kda_token *t = token + 1; t->type != KDA_TOKEN_END;
             t = kda_token_next(row, t))
            count++;
        kda_text_addf(out, "%zu", count);
    } else if (token->type == KDA_TOKEN_ARRAY) {
        add_array(row, token, column, for_text, out);
    } else if (kda_token_is_scalar(token)) {
        add_scalar(token, column, for_text, out);
    }
}
