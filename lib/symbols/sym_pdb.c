/* Symbols from a program database (PDB). */
#include "ops.h"
#include "pdb.h"
#include "store.h"

static const struct kda_store_reader reader = {kda_store_pdb_candidate, kda_pdb_layout};

static enum kda_status pdb_load(const char *path, const struct kda_kernel_id *id,
                                struct kda_symbols *ret, struct kda_error *err)
{
    return kda_store_load(path, id, &reader, ret, err);
}

static enum kda_status pdb_find(const struct kda_kernel_id *id,
                                const struct kda_symbols_options *options, struct kda_symbols *ret,
                                struct kda_error *err)
{
    return kda_store_find(options, id, &reader, ret, err);
}

static const char *const endings[] = {".pdb", NULL};

const struct kda_symbol_source kda_sym_pdb = {
    .name = "pdb",
    .title = "program database (.pdb)",
    .endings = endings,
    .find = pdb_find,
    .load = pdb_load,
};
