/* Symbols from the user's own profiles: what PDBs and symbol tables said before. */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "ops.h"
#include "own.h"
#include "pdb.h"
#include "store.h"

static void take(struct kda_symbols *ret, const struct kda_own *own, char *path)
{
    ret->layout = own->layout;
    ret->origin = path;
    ret->info.origin = path;
}

static enum kda_status look_in(const char *folder, const struct kda_kernel_id *id, bool keep,
                               struct kda_symbols *ret, struct kda_error *err)
{
    struct kda_own own;
    char *path;
    enum kda_status status =
        kda_own_find(folder, id, &own, &path, ret->note, sizeof(ret->note), err);
    if (status != KDA_OK)
        return status;
    take(ret, &own, path);
    /* The first image of this kernel tells what its PDB could not. */
    if (keep && !own.id.has_pe && id->has_pe) {
        own.id.has_pe = true;
        own.id.pe_timestamp = id->pe_timestamp;
        own.id.pe_size = id->pe_size;
        (void)!kda_own_write(&own, NULL, NULL);
    }
    return KDA_OK;
}

static enum kda_status cache_find(const struct kda_kernel_id *id,
                                  const struct kda_symbols_options *options,
                                  struct kda_symbols *ret, struct kda_error *err)
{
    if (!kda_store_has_cache())
        return kda_fail(err, KDA_NO_SYMBOL, "symbols", "no cache (HOME is not set)");
    char *folder = kda_own_folder();
    if (!folder)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a path");
    enum kda_status status = look_in(folder, id, options->keep, ret, err);
    kda_free(folder);
    return status;
}

static enum kda_status cache_load(const char *path, const struct kda_kernel_id *id,
                                  struct kda_symbols *ret, struct kda_error *err)
{
    struct kda_own own;
    if (kda_symbol_path_is(path)) /* made of stores, which hold no profiles */
        return kda_fail(err, KDA_NO_SYMBOL, "symbols", "%s", path);
    if (kda_path_kind(path) == KDA_PATH_FOLDER)
        return look_in(path, id, false, ret, err);
    enum kda_status status = kda_own_read(path, &own, NULL, err);
    if (status == KDA_OK && id)
        status = kda_check_identity(path, own.id.pdb_guid, own.id.pdb_age, id, err);
    if (status != KDA_OK)
        return status;
    char *origin = kda_strdup(path);
    if (!origin)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", path);
    take(ret, &own, origin);
    return KDA_OK;
}

static const char *const endings[] = {KDA_OWN_ENDING, NULL};

const struct kda_symbol_source kda_sym_cache = {
    .name = "cache",
    .title = "profiles of one's own (.kdaprof)",
    .endings = endings,
    .find = cache_find,
    .load = cache_load,
};
