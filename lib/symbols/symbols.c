/* The table of symbol sources and the search through it. */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "file.h"
#include "handle.h"
#include "ops.h"
#include "own.h"
#include "store.h"
#include "text.h"

extern const struct kda_symbol_source kda_sym_profile, kda_sym_cache, kda_sym_pdb, kda_sym_isf;

/* In order of preference: what costs nothing first, then what Microsoft says, then what others made
 * of it. */
static const struct kda_symbol_source *const sources[] = {&kda_sym_profile, &kda_sym_cache,
                                                          &kda_sym_pdb, &kda_sym_isf};

#define SOURCE_COUNT (sizeof(sources) / sizeof(sources[0]))

static bool is_source(const char *word)
{
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        if (strcmp(word, sources[i]->name) == 0)
            return true;
    }
    return false;
}

static void count(struct kda_symbols *symbols)
{
    struct kda_symbols_info *info = &symbols->info;
    info->symbols_found = 0;
    info->fields_found = 0;
    info->symbols_total = KDA_SYM_COUNT;
    info->fields_total = KDA_FIELD_COUNT;
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        info->symbols_found += symbols->layout.rva[i] != KDA_NONE;
    for (size_t i = 0; i < KDA_FIELD_COUNT; i++)
        info->fields_found += symbols->layout.field[i].offset != KDA_NONE;
}

static void finish(struct kda_symbols *symbols, const struct kda_symbol_source *source,
                   const struct kda_kernel_id *id)
{
    symbols->info.source = source->name;
    symbols->info.version = kda_profile_version(id);
    count(symbols);
}

static bool ends_with(const char *text, const char *ending)
{
    size_t a = strlen(text), b = strlen(ending);
    return a >= b && kda_same_nocase(text + a - b, ending);
}

static const struct kda_symbol_source *source_of_file(const char *path)
{
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        for (const char *const *e = sources[i]->endings; e && *e; e++) {
            if (ends_with(path, *e))
                return sources[i];
        }
    }
    return NULL;
}

static enum kda_status load_given(const char *path, const struct kda_kernel_id *id,
                                  struct kda_symbols *symbols, struct kda_error *err)
{
    const struct kda_symbol_source *source = source_of_file(path);
    if (!source)
        return kda_fail(err, KDA_USAGE, "symbols",
                        "\"%s\": a symbol file ends in .pdb, .json, .json.xz or .kdaprof", path);
    enum kda_status status = source->load(path, id, symbols, err);
    if (status == KDA_NOT_MINE) /* the user named it, so it is no question of whose it is */
        status = kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\" is not a PDB file", path);
    if (status == KDA_OK)
        finish(symbols, source, id);
    return status;
}

/* Text that grows over the sources and is cut at its end. */
struct places {
    char text[480];
    char last[480]; /* sources that look in the same folders say so once */
};

static void add_places(struct places *places, const char *text)
{
    if (text[0] == '\0' || strcmp(places->last, text) == 0)
        return;
    (void)snprintf(places->last, sizeof(places->last), "%s", text);
    size_t used = strlen(places->text);
    (void)snprintf(places->text + used, sizeof(places->text) - used, "%s%s", used ? "; " : "",
                   text);
}

/* One pass over the sources: in `folder` when that is given, else where each looks by itself,
 * `only` (nullable) one of them. KDA_NO_SYMBOL: go on elsewhere. */
static enum kda_status try_sources(const struct kda_kernel_id *id,
                                   const struct kda_symbols_options *options, const char *folder,
                                   const char *only, struct kda_symbols *symbols,
                                   struct places *places, struct kda_error *err)
{
    for (size_t i = 0; i < SOURCE_COUNT; i++) {
        const struct kda_symbol_source *source = sources[i];
        if ((only && strcmp(only, source->name) != 0) || (folder && !source->load))
            continue;
        struct kda_error why = {0};
        enum kda_status status = folder ? source->load(folder, id, symbols, &why)
                                        : source->find(id, options, symbols, &why);
        if (status == KDA_OK) {
            finish(symbols, source, id);
            return KDA_OK;
        }
        if (status != KDA_NO_SYMBOL) {
            if (err)
                *err = why;
            return status;
        }
        add_places(places, why.text);
    }
    return KDA_NO_SYMBOL;
}

static enum kda_status nothing_found(const struct kda_kernel_id *id, const struct places *places,
                                     struct kda_error *err)
{
    /* A name from a hostile image is not repeated to a terminal. */
    if (!id->has_pdb || !kda_store_name_ok(id->pdb_name))
        return kda_fail(err, KDA_NO_SYMBOL, "symbols",
                        "no symbols: the image %s, so that its PDB cannot be named; give the right "
                        "one with --symbols; looked in: %s",
                        id->has_pdb ? "names its PDB by no plain file name"
                                    : "does not hold the kernel's debug record",
                        places->text);
    char path[2 * KDA_PDB_NAME_MAX + KDA_KEY_TEXT + 2], guid[33];
    kda_symbols_store_path(id, path, sizeof(path));
    kda_guid_key(id->pdb_guid, guid);
    return kda_fail(err, KDA_NO_SYMBOL, "symbols",
                    "no symbols for this kernel; needed: %s (or %s-%u.json.xz); get it with: kda "
                    "symbols get IMAGE; looked in: %s",
                    path, guid, (unsigned)id->pdb_age, places->text);
}

static enum kda_status find(const struct kda_kernel_id *id,
                            const struct kda_symbols_options *options, struct kda_symbols *symbols,
                            struct kda_error *err)
{
    const char *path = options->path && options->path[0] ? options->path : NULL;
    if (path && strcmp(path, "none") == 0)
        return kda_fail(err, KDA_NO_SYMBOL, "symbols", "symbols were switched off");
    bool word = path && is_source(path);
    enum kda_path_kind kind = path ? kda_path_kind(path) : KDA_PATH_NONE;
    struct places places = {.text = ""};
    enum kda_status status = KDA_NO_SYMBOL;
    if (path && !word) {
        if (!kda_symbol_path_is(path) && kind == KDA_PATH_NONE)
            return kda_fail(err, KDA_IO, "symbols", "\"%s\" does not exist", path);
        if (!kda_symbol_path_is(path) && kind != KDA_PATH_FOLDER)
            return load_given(path, id, symbols, err);
        /* A folder that was named comes before everything built in. */
        status = try_sources(id, options, path, NULL, symbols, &places, err);
    }
    if (status == KDA_NO_SYMBOL)
        status = try_sources(id, options, NULL, word ? path : NULL, symbols, &places, err);
    return status == KDA_NO_SYMBOL ? nothing_found(id, &places, err) : status;
}

/* Leaves what a file said as a profile, so that the next run needs no file. That it cannot be
 * written is no failure, that a file is of too little use is not even worth a word. */
static void keep(const struct kda_kernel_id *id, struct kda_symbols *symbols)
{
    struct kda_error why;
    struct kda_own own = {.id = *id, .layout = symbols->layout};
    const char *source = symbols->info.source;
    bool from_file = strcmp(source, "pdb") == 0 || strcmp(source, "isf") == 0;
    if (!from_file || !id->has_pdb || kda_layout_lacks(&symbols->layout))
        return;
    (void)snprintf(own.source, sizeof(own.source), "%s", source);
    if (kda_own_write(&own, NULL, &why) != KDA_OK)
        (void)snprintf(symbols->note, sizeof(symbols->note),
                       "symbols not kept as a profile: %.240s", why.text);
}

enum kda_status kda_symbols_find(const struct kda_kernel_id *id,
                                 const struct kda_symbols_options *options,
                                 struct kda_symbols **ret, struct kda_error *err)
{
    static const struct kda_symbols_options none = {0};
    struct kda_symbols *symbols = kda_calloc(1, sizeof(*symbols));
    if (!symbols)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a symbol table");
    kda_layout_clear(&symbols->layout);
    enum kda_status status = find(id, options ? options : &none, symbols, err);
    if (status != KDA_OK) {
        kda_symbols_free(symbols);
        return status;
    }
    if (options && options->keep)
        keep(id, symbols);
    symbols->info.note = symbols->note[0] ? symbols->note : NULL;
    *ret = symbols;
    return KDA_OK;
}

enum kda_status kda_symbols_create(const struct kda_layout *layout, const char *source,
                                   const char *origin, const char *version,
                                   struct kda_symbols **ret, struct kda_error *err)
{
    struct kda_symbols *symbols = kda_calloc(1, sizeof(*symbols));
    char *copy = symbols ? kda_strdup(origin) : NULL;
    if (!copy) {
        kda_free(symbols);
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a symbol table");
    }
    symbols->layout = *layout;
    symbols->origin = copy;
    symbols->info.source = source;
    symbols->info.origin = copy;
    if (version) {
        (void)snprintf(symbols->version, sizeof(symbols->version), "%s", version);
        symbols->info.version = symbols->version;
    }
    count(symbols);
    *ret = symbols;
    return KDA_OK;
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
