/* The table of symbol sources and the search through it. */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "handle.h"
#include "ops.h"

extern const struct kda_symbol_source kda_sym_profile;

/* In order of preference: what costs nothing first, then what is exact by itself. */
static const struct kda_symbol_source *const sources[] = {&kda_sym_profile};

#define SOURCE_COUNT (sizeof(sources) / sizeof(sources[0]))

static void finish(struct kda_symbols *symbols, const struct kda_symbol_source *source)
{
    struct kda_symbols_info *info = &symbols->info;
    info->source = source->name;
    info->version = symbols->version[0] ? symbols->version : NULL;
    info->symbols_total = KDA_SYM_COUNT;
    info->fields_total = KDA_FIELD_COUNT;
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        info->symbols_found += symbols->layout.rva[i] != KDA_NONE;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        info->fields_found += symbols->layout.field[i].offset != KDA_NONE;
}

enum kda_status kda_symbols_find(const struct kda_kernel_id *id,
                                 const struct kda_symbols_options *options,
                                 struct kda_symbols **ret, struct kda_error *err)
{
    struct kda_symbols *symbols = kda_calloc(1, sizeof(*symbols));
    if (!symbols)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a symbol table");
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        enum kda_status status = sources[i]->find(id, options, symbols, err);
        if (status == KDA_OK) {
            finish(symbols, sources[i]);
            *ret = symbols;
            return KDA_OK;
        }
    }
    kda_symbols_free(symbols);
    return KDA_NO_SYMBOL;
}

void kda_symbols_free(struct kda_symbols *symbols)
{
    if (!symbols)
        return;
    kda_free(symbols->origin);
    kda_free(symbols);
}

const struct kda_layout *kda_symbols_layout(const struct kda_symbols *symbols)
{
    return &symbols->layout;
}

const struct kda_symbols_info *kda_symbols_info(const struct kda_symbols *symbols)
{
    return &symbols->info;
}
