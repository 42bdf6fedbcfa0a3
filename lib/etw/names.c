/*
 * names.c - words for bits and numbers.
 */
#include "kda/etw.h"

/* Source: "Logging Mode Constants", Microsoft ETW documentation; evntrace.h. */
static const struct {
    uint32_t bit;
    const char *name;
} mode_bits[] = {
    {0x00000001u, "file_sequential"},
    {0x00000002u, "file_circular"},
    {0x00000004u, "file_append"},
    {0x00000008u, "file_newfile"},
    {0x00000010u, "using_mshistory_mode"},
    {0x00000020u, "file_preallocate"},
    {0x00000040u, "nonstoppable"},
    {0x00000080u, "secure"},
    {0x00000100u, "real_time"},
    {0x00000200u, "delay_open_file"},
    {0x00000400u, "buffering"},
    {0x00000800u, "private_logger"},
    {0x00001000u, "add_header"},
    {0x00002000u, "use_kbytes_for_size"},
    {0x00004000u, "use_global_sequence"},
    {0x00008000u, "use_local_sequence"},
    {0x00010000u, "relog"},
    {0x00020000u, "private_in_proc"},
    {0x00040000u, "buffer_interface"},
    {0x00080000u, "kd_filter"},
    {0x00100000u, "realtime_relog"},
    {0x00200000u, "lost_events_debug"},
    {0x00400000u, "stop_on_hybrid_shutdown"},
    {0x00800000u, "persist_on_hybrid_shutdown"},
    {0x01000000u, "use_paged_memory"},
    {0x02000000u, "system_logger"},
    {0x04000000u, "compressed"},
    {0x08000000u, "independent_session"},
    {0x10000000u, "no_per_processor_buffering"},
    {0x20000000u, "blocking"},
    {0x80000000u, "add_to_triage_dump"},
};

size_t kda_etw_mode_names(uint32_t mode, const char **names, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof(mode_bits) / sizeof(mode_bits[0]); i++)
        if ((mode & mode_bits[i].bit) && count < max)
            names[count++] = mode_bits[i].name;
    return count;
}

/* Bit order of _ETW_REG_ENTRY.Dbg*. Source: PDBs of 9600, 14393, 17763. */
static const char *const reg_flags[] = {
    "kernel",     "user",   "reply",    "classic", "session_space",
    "modern",     "closed", "inserted", "wow64",   "use_descriptor_type",
    "drop_traits"};

size_t kda_etw_reg_flag_names(uint32_t flags, const char **names, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof(reg_flags) / sizeof(reg_flags[0]); i++)
        if ((flags >> i & 1) && count < max)
            names[count++] = reg_flags[i];
    return count;
}

const char *kda_etw_guid_type_name(enum kda_etw_guid_type type)
{
    static const char *const names[KDA_ETW_GUID_TYPES] = {"trace", "notification", "group"};
    return (unsigned)type < KDA_ETW_GUID_TYPES ? names[type] : "unknown";
}

/* Source: WNODE_HEADER.ClientContext, evntrace.h. */
const char *kda_etw_clock_name(uint32_t clock)
{
    static const char *const names[] = {"qpc", "system_time", "cpu_cycles"};
    return clock >= 1 && clock <= 3 ? names[clock - 1] : NULL;
}
