/*
 * kda/symbols.h - where kernel structures and globals are, for one exact kernel.
 *
 * A source (built-in profile table, PDB, Volatility ISF) turns the identity of a kernel into a
 * `struct kda_layout`: offsets of fields, sizes of structures, RVAs of globals. Sources are rows
 * of one table and are tried in order.
 *
 * Ownership: kda_symbols_find gives the caller a handle to kda_symbols_free. Threads: a found
 * handle is immutable and may be shared.
 */
#ifndef KDA_SYMBOLS_H
#define KDA_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/fields.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KDA_NONE UINT32_MAX /* an absent offset, size or RVA */
#define KDA_PDB_NAME_MAX 64

/* Where a field is. Bit fields: `bits` != 0, `bit` counts from the least significant bit of the
 * little-endian unit at `offset`; `size` is the smallest of 1, 2, 4 and 8 bytes that holds the
 * field (the compiler's own unit may be larger), so that every source gives the same answer. */
struct kda_field {
    uint32_t offset; /* bytes from the start of the structure; KDA_NONE = absent in this build */
    uint16_t size;   /* bytes; 0 = unknown, or over 65535 */
    uint8_t bit;
    uint8_t bits;
};

struct kda_layout {
    uint32_t rva[KDA_SYM_COUNT];     /* from the kernel base; KDA_NONE = absent */
    uint32_t size[KDA_STRUCT_COUNT]; /* bytes; KDA_NONE = absent */
    struct kda_field field[KDA_FIELD_COUNT];
};

/* Identity of a kernel image, as far as known. */
struct kda_kernel_id {
    bool has_pdb;
    char pdb_name[KDA_PDB_NAME_MAX]; /* "ntkrnlmp.pdb" */
    uint8_t pdb_guid[16];            /* memory order */
    uint32_t pdb_age;                /* of the RSDS record, = DBI age */
    bool has_pe;
    uint32_t pe_timestamp;
    uint32_t pe_size; /* SizeOfImage, bytes */
};

/* What to try. All strings borrowed for the call; NULL = not given. */
struct kda_symbols_options {
    const char *path; /* --symbols: a .pdb, .json, .json.xz file, a store or folder, or one of
                         the words "profile", "cache", "pdb", "isf" to force a source, or "none" to
                         use none of them */
    const char *nt_symbol_path; /* _NT_SYMBOL_PATH; only local parts are used here */
    const char *kda_symbols;    /* KDA_SYMBOLS: more folders, ';' separated */
    bool keep; /* write what a PDB or ISF said as a profile into the user's cache */
};

struct kda_symbols;

/* Description of a found layout; strings live as long as the handle. */
struct kda_symbols_info {
    const char *source;  /* "profile", "cache", "pdb", "isf" */
    const char *origin;  /* file path, or "built-in table" */
    const char *version; /* "10.0.22000.795" where known, else NULL */
    size_t symbols_found;
    size_t symbols_total; /* KDA_SYM_COUNT */
    size_t fields_found;
    size_t fields_total; /* KDA_FIELD_COUNT */
    const char *note;    /* what the user should know: a profile skipped or not kept; else NULL */
};

/* Tries the sources in table order (profile, cache, pdb, isf; or only what options->path forces).
 * Errors: KDA_NO_SYMBOL (text names the exact file wanted, the places looked in, and the command
 * that gets it), KDA_BAD_DATA (a file that was forced is damaged or of another kernel), KDA_IO,
 * KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_symbols_find(const struct kda_kernel_id *id,
                                                const struct kda_symbols_options *options,
                                                struct kda_symbols **ret, struct kda_error *err);
void kda_symbols_free(struct kda_symbols *symbols); /* NULL is allowed */

/* A handle over a layout that the caller worked out; the layout and the strings are copied,
 * `source` is a string constant. `version` may be NULL. Errors: KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_symbols_create(const struct kda_layout *layout,
                                                  const char *source, const char *origin,
                                                  const char *version, struct kda_symbols **ret,
                                                  struct kda_error *err);

const struct kda_layout *kda_symbols_layout(const struct kda_symbols *symbols);
const struct kda_symbols_info *kda_symbols_info(const struct kda_symbols *symbols);

/* Names for messages: "PspHostSiloGlobals", "_EPROCESS", "_EPROCESS.ActiveProcessLinks". */
const char *kda_symbol_name(enum kda_symbol_id id);
const char *kda_struct_name(enum kda_struct_id id);
const char *kda_field_name(enum kda_field_id id);
enum kda_struct_id kda_field_struct(enum kda_field_id id);

/* Store name of a PDB: "ntkrnlmp.pdb/8E33...B31/ntkrnlmp.pdb" (GUID upper case without dashes,
 * age in hex without padding). Source: Microsoft symbol store layout ("SymSrv"). */
void kda_symbols_store_path(const struct kda_kernel_id *id, char *out, size_t cap);

/* Builds known to the built-in table, for `kda formats` and tests. */
size_t kda_profile_count(void);

/* One build of the table. `id` may lack the PDB or the PE half. A row without RVAs
 * (has_rvas false) or without layout cannot be used alone. */
struct kda_profile_info {
    const char *version;
    struct kda_kernel_id id;
    bool has_rvas;
    bool has_layout; /* of the tracing structures */
};
void kda_profile_get(size_t index, struct kda_profile_info *ret);
/* The row of this kernel, the fullest if there are several; false if the table does not know it. A
 * row without globals or without layout still names the build. */
bool kda_profile_identify(const struct kda_kernel_id *id, struct kda_profile_info *ret);
/* Fills *ret with the full layout of a row. */
void kda_profile_layout(size_t index, struct kda_layout *ret);
/* Row that names this kernel, or SIZE_MAX. */
size_t kda_profile_match(const struct kda_kernel_id *id);

/* ---- profiles of one's own ----
 *
 * A profile keeps what a PDB or ISF said about one kernel, below 1,000 bytes, in the user's cache
 * ($XDG_CACHE_HOME/kda/profiles or ~/.cache/kda/profiles). It answers like the built-in table,
 * right after it. The file's format is in docs/symbols.md. */

/* Adds a .pdb, .json or .json.xz file. `id` (nullable) is the kernel it must be for, whose PE stamp
 * and size are kept as well. *ret (nullable) receives the profile's place, to be freed with
 * kda_symbols_free_path. Errors: KDA_BAD_DATA (damaged, of another kernel, or of none), KDA_USAGE,
 * KDA_IO, KDA_UNSUPPORTED, KDA_LIMIT, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_symbols_add(const char *path, const struct kda_kernel_id *id,
                                               char **ret, struct kda_error *err);

/* Borrowed for the call of the callback. */
struct kda_own_profile {
    const char *path;
    uint64_t time_100ns; /* when it was written, FILETIME; 0 = not known */
    const char *problem; /* why it cannot be used; then nothing below is set */
    struct kda_kernel_id id;
    const char *source;  /* what it was made from: "pdb", "isf" */
    const char *version; /* where the built-in table knows the build, else NULL */
    const struct kda_layout *layout;
};
/* Returns false to stop. */
typedef bool (*kda_own_profile_fn)(void *context, const struct kda_own_profile *profile);
/* All profiles, by name. No folder is no error. Errors: KDA_IO, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_own_profiles(kda_own_profile_fn fn, void *context,
                                                struct kda_error *err);

/* One line of the table that tools/gen_profiles.py reads, with '\n'; the heading when `layout` is
 * NULL. `version` NULL = not known. *ret is freed with kda_symbols_free_path. Errors:
 * KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_symbols_row(const struct kda_kernel_id *id, const char *version,
                                               const char *source, const struct kda_layout *layout,
                                               char **ret, struct kda_error *err);

/* "GUIDAGE" as symbol stores write it to an identity without name; false for anything else. */
bool kda_symbols_parse_key(const char *text, struct kda_kernel_id *ret);

/* Registered name of a provider, from the built-in table, or NULL. `guid` in memory order.
 * Source: System Informer's provider list (NOTICE). */
const char *kda_provider_name(const uint8_t guid[16]);
/* Provider group of a provider by the same table: false if it is in none, *group untouched then. */
bool kda_provider_group(const uint8_t guid[16], uint8_t group[16]);

/* Progress of a download, about ten times a second: bytes so far, total (0 = unknown). Returning
 * false cancels (KDA_CANCELLED). */
typedef bool (*kda_progress_fn)(void *context, uint64_t done, uint64_t total);

struct kda_download_options {
    const char *symbol_path; /* like _NT_SYMBOL_PATH: "srv*cache*url;cache*dir;..."; NULL =
                                Microsoft's public server into the default cache */
    const char *cache; /* folder to store into when the path names none; NULL = user's cache */
    kda_progress_fn progress; /* nullable */
    void *context;
};

/* Fetches the PDB of `id` and verifies GUID and age before it is put in place; an existing good
 * file is never replaced by a bad one. *path receives the file's place (caller frees with
 * kda_symbols_free_path). Errors: KDA_UNSUPPORTED (built without libcurl), KDA_ABSENT (no server
 * has it; text lists what was asked), KDA_IO, KDA_BAD_DATA, KDA_LIMIT, KDA_NO_MEMORY,
 * KDA_CANCELLED (the part that came is kept; the next call goes on from it), KDA_USAGE.
 * Threads: each call starts and ends libcurl's global state; with a libcurl before 7.84 only one
 * thread of the process may be in here, or using libcurl, at a time. Reads the proxy variables,
 * XDG_CACHE_HOME and HOME. Source: Microsoft symbol store layout ("SymSrv", "SymStore"). */
KDA_MUST_CHECK enum kda_status kda_symbols_download(const struct kda_kernel_id *id,
                                                    const struct kda_download_options *options,
                                                    char **path, struct kda_error *err);
void kda_symbols_free_path(char *path);

/* Is this part of the build? For `kda info`. */
bool kda_symbols_have_isf(void);
bool kda_symbols_have_download(void);

#ifdef __cplusplus
}
#endif

#endif
