/*
 * store.h - symbol paths and where a file of symbols may stand in a folder. Internal to
 * lib/symbols; the downloader uses it too.
 *
 * Source: "Symbol path for Windows debuggers" and "SymStore folder tree" of Microsoft's debugger
 * documentation; folder layout of Volatility 3 symbol tables for ISF.
 */
#ifndef KDA_SYMBOLS_STORE_H
#define KDA_SYMBOLS_STORE_H

#include "handle.h"

#define KDA_STORE_PATH_MAX 4096u
#define KDA_STORE_MAX_PLACES 32u
#define KDA_STORE_MAX_FOLDERS 8u /* in one srv* element */

enum kda_place_kind {
    KDA_PLACE_FOLDER, /* plain folder or store, read only */
    KDA_PLACE_CACHE,  /* cache*folder: what later elements download is kept here */
    KDA_PLACE_SERVER, /* srv*folder*...*url, or a bare URL */
};

/* One element of a symbol path. */
struct kda_place {
    enum kda_place_kind kind;
    const char *folders[KDA_STORE_MAX_FOLDERS]; /* nearest first; "" = the user's default cache */
    size_t folder_count;
    const char *url; /* KDA_PLACE_SERVER only; NULL when every part is a folder */
};

struct kda_symbol_path {
    struct kda_place places[KDA_STORE_MAX_PLACES];
    size_t count;
    char *text; /* owns the strings above */
};

/* Splits "srv*cache*url;cache*dir;folder". Empty elements are skipped. Errors: KDA_USAGE (more
 * than the limits above), KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_symbol_path_parse(const char *text, struct kda_symbol_path *ret,
                                                     struct kda_error *err);
void kda_symbol_path_deinit(struct kda_symbol_path *path);

/* Is this text a symbol path ("srv*...") and not the name of one file or folder? */
bool kda_symbol_path_is(const char *text);

/* Folder for downloads of this user: $XDG_CACHE_HOME or ~/.cache, then kda/symbols. NULL when the
 * environment names neither, or out of memory. The caller frees with kda_free. */
char *kda_store_default_cache(void);
/* Another folder beside it. */
char *kda_store_cache_folder(const char *name);
/* Does the environment name a place for them? */
bool kda_store_has_cache(void);

/* A PDB name comes from the image: it must be one plain file name. */
bool kda_store_name_ok(const char *name);

/* n-th place (0, 1, ...) where a file for `id` may stand in `folder`; false after the last. A place
 * whose path would be too long is "". The caller has checked the name. */
typedef bool (*kda_candidate_fn)(const struct kda_kernel_id *id, const char *folder, unsigned n,
                                 char *out, size_t cap);
bool kda_store_pdb_candidate(const struct kda_kernel_id *id, const char *folder, unsigned n,
                             char *out, size_t cap);
bool kda_store_isf_candidate(const struct kda_kernel_id *id, const char *folder, unsigned n,
                             char *out, size_t cap);

/* A source whose tables are files. */
struct kda_store_reader {
    kda_candidate_fn candidate;
    kda_layout_fn read;
};

/* Loads the first good file from the folders of options->kda_symbols, options->nt_symbol_path and
 * the default cache. KDA_NO_SYMBOL: the text lists the folders and the first file that was there
 * but no good. */
KDA_MUST_CHECK enum kda_status kda_store_find(const struct kda_symbols_options *options,
                                              const struct kda_kernel_id *id,
                                              const struct kda_store_reader *reader,
                                              struct kda_symbols *ret, struct kda_error *err);

/* Loads one file that the user named, or looks in one folder or symbol path (KDA_NO_SYMBOL as
 * above). */
KDA_MUST_CHECK enum kda_status kda_store_load(const char *path, const struct kda_kernel_id *id,
                                              const struct kda_store_reader *reader,
                                              struct kda_symbols *ret, struct kda_error *err);

#endif
