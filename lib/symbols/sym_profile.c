/* The built-in table of known builds: a key, a layout and the addresses of globals. */
#include <string.h>

#include "handle.h"
#include "ops.h"
#include "own.h"
#include "profiles.h"

size_t kda_profile_count(void)
{
    return kda_profile_row_count;
}

void kda_profile_get(size_t index, struct kda_profile_info *ret)
{
    const struct kda_profile_row *row = &kda_profile_rows[index];
    *ret = (struct kda_profile_info){.version = row->version};
    ret->has_rvas = row->rvas != KDA_PROFILE_NO_RVAS;
    ret->has_layout = kda_profile_sizes[row->layout][KDA_STRUCT_WMI_LOGGER_CONTEXT] != 0;
    if (row->age != 0) {
        ret->id.has_pdb = true;
        /* The table is of kernels whose PDB has this name in every surveyed build. */
        memcpy(ret->id.pdb_name, "ntkrnlmp.pdb", sizeof("ntkrnlmp.pdb"));
        memcpy(ret->id.pdb_guid, row->guid, 16);
        ret->id.pdb_age = row->age;
    }
    if (row->pe_size != 0) {
        ret->id.has_pe = true;
        ret->id.pe_timestamp = row->pe_timestamp;
        ret->id.pe_size = row->pe_size;
    }
}

void kda_profile_layout(size_t index, struct kda_layout *ret)
{
    const struct kda_profile_row *row = &kda_profile_rows[index];
    kda_layout_clear(ret);
    for (size_t i = 0; row->rvas != KDA_PROFILE_NO_RVAS && i < KDA_SYM_COUNT; i++) {
        uint32_t rva = kda_profile_rvas[row->rvas][i];
        if (rva != 0)
            ret->rva[i] = rva;
    }
    for (size_t i = 0; i < KDA_STRUCT_COUNT; i++) {
        uint16_t size = kda_profile_sizes[row->layout][i];
        if (size != 0)
            ret->size[i] = size;
    }
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++) {
        const struct kda_profile_cell *cell =
            &kda_profile_cells[kda_profile_fields[row->layout][i]];
        if (cell->offset != KDA_PROFILE_NO_OFFSET)
            ret->field[i] = (struct kda_field){cell->offset, cell->size, cell->bit, cell->bits};
    }
}

static bool matches(const struct kda_profile_row *row, const struct kda_kernel_id *id)
{
    bool both_pdb = id->has_pdb && row->age != 0;
    if (both_pdb)
        return row->age == id->pdb_age && memcmp(row->guid, id->pdb_guid, 16) == 0;
    return id->has_pe && row->pe_size != 0 && row->pe_timestamp == id->pe_timestamp &&
           row->pe_size == id->pe_size;
}

size_t kda_profile_match(const struct kda_kernel_id *id)
{
    for (size_t i = 0; i < kda_profile_row_count; i++) {
        if (matches(&kda_profile_rows[i], id))
            return i;
    }
    return SIZE_MAX;
}

const char *kda_profile_version(const struct kda_kernel_id *id)
{
    size_t row = kda_profile_match(id);
    return row == SIZE_MAX ? NULL : kda_profile_rows[row].version;
}

/* Enough to start from: a way to the loggers and their layout. Rows from crash dumps have a few
 * globals and no layout, rows from published headers a layout and no globals. */
const char *kda_layout_lacks(const struct kda_layout *layout)
{
    if (layout->rva[KDA_SYM_PspHostSiloGlobals] == KDA_NONE &&
        layout->rva[KDA_SYM_EtwpHostSiloState] == KDA_NONE &&
        layout->rva[KDA_SYM_WmipLoggerContext] == KDA_NONE)
        return "PspHostSiloGlobals";
    if (layout->rva[KDA_SYM_PsActiveProcessHead] == KDA_NONE)
        return "PsActiveProcessHead";
    if (layout->field[KDA_F_WMI_LOGGER_CONTEXT_LoggerName].offset == KDA_NONE)
        return "_WMI_LOGGER_CONTEXT.LoggerName";
    return NULL;
}

bool kda_profile_identify(const struct kda_kernel_id *id, struct kda_profile_info *ret)
{
    bool known = false;
    for (size_t i = 0; i < kda_profile_row_count; i++) {
        struct kda_profile_info info;
        if (!matches(&kda_profile_rows[i], id))
            continue;
        kda_profile_get(i, &info);
        if (known && !(info.has_layout && info.has_rvas))
            continue;
        *ret = info;
        known = true;
    }
    return known;
}

static enum kda_status profile_find(const struct kda_kernel_id *id,
                                    const struct kda_symbols_options *options,
                                    struct kda_symbols *ret, struct kda_error *err)
{
    (void)options;
    const char *known = NULL;
    for (size_t i = 0; i < kda_profile_row_count; i++) {
        const struct kda_profile_row *row = &kda_profile_rows[i];
        if (!matches(row, id))
            continue;
        known = row->version;
        kda_profile_layout(i, &ret->layout);
        if (kda_layout_lacks(&ret->layout))
            continue;
        ret->info.origin = "built-in table";
        return KDA_OK;
    }
    if (known)
        return kda_fail(err, KDA_NO_SYMBOL, "symbols",
                        "built-in table (it knows build %s, but not the addresses of its globals)",
                        known);
    return kda_fail(err, KDA_NO_SYMBOL, "symbols", "built-in table");
}

const struct kda_symbol_source kda_sym_profile = {
    .name = "profile",
    .title = "built-in table of known builds",
    .find = profile_find,
};
