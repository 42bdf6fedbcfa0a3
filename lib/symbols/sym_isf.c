/* Symbols from a Volatility symbol table (ISF). */
#include <string.h>

#include "isf.h"
#include "ops.h"
#include "store.h"
#include "text.h"

static const struct kda_store_reader reader = {kda_store_isf_candidate, kda_isf_layout};

static enum kda_status isf_load(const char *path, const struct kda_kernel_id *id,
                                struct kda_symbols *ret, struct kda_error *err)
{
    return kda_store_load(path, id, &reader, ret, err);
}

static enum kda_status isf_find(const struct kda_kernel_id *id,
                                const struct kda_symbols_options *options, struct kda_symbols *ret,
                                struct kda_error *err)
{
    return kda_store_find(options, id, &reader, ret, err);
}

static const char *const endings[] = {".json", ".json.xz", NULL};

bool kda_isf_named(const char *path)
{
    size_t size = strlen(path);
    for (const char *const *e = endings; *e; e++) {
        size_t tail = strlen(*e);
        if (size >= tail && kda_same_nocase(path + size - tail, *e))
            return true;
    }
    return false;
}

const struct kda_symbol_source kda_sym_isf = {
    .name = "isf",
    .title = "Volatility symbol table (.json, .json.xz)",
    .endings = endings,
    .find = isf_find,
    .load = isf_load,
};

bool kda_symbols_have_isf(void)
{
#ifdef KDA_HAVE_ISF
    return true;
#else
    return false;
#endif
}
