#include "store.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "file.h"
#include "handle.h"
#include "text.h"

#define FILE_PTR_MAX 4096u

/* ---- symbol path ---- */

static bool is_url(const char *text)
{
    return kda_starts_nocase(text, "http://") || kda_starts_nocase(text, "https://");
}

static const char *as_folder(const char *text)
{
    return kda_starts_nocase(text, "file://") ? text + 7 : text;
}

/* The parts of "srv*a*b*url" after the first '*', cut in place. */
static enum kda_status parse_server(char *text, struct kda_place *place, struct kda_error *err)
{
    place->kind = KDA_PLACE_SERVER;
    for (char *part = text; part;) {
        char *star = strchr(part, '*');
        if (star)
            *star = '\0';
        if (is_url(part)) {
            place->url = part; /* what follows a server cannot be reached through it */
            break;
        }
        if (place->folder_count == KDA_STORE_MAX_FOLDERS)
            return kda_fail(err, KDA_USAGE, "symbols",
                            "more than %u folders in one srv* element of a symbol path",
                            KDA_STORE_MAX_FOLDERS);
        place->folders[place->folder_count++] = as_folder(part);
        part = star ? star + 1 : NULL;
    }
    return KDA_OK;
}

static enum kda_status parse_element(char *text, struct kda_place *place, struct kda_error *err)
{
    if (kda_starts_nocase(text, "srv*"))
        return parse_server(text + 4, place, err);
    if (kda_starts_nocase(text, "symsrv*")) {
        char *rest = strchr(text + 7, '*'); /* the name of a library comes first */
        return parse_server(rest ? rest + 1 : text + strlen(text), place, err);
    }
    if (is_url(text))
        return parse_server(text, place, err);
    bool cache = kda_starts_nocase(text, "cache*");
    place->kind = cache ? KDA_PLACE_CACHE : KDA_PLACE_FOLDER;
    place->folders[place->folder_count++] = as_folder(cache ? text + 6 : text);
    return KDA_OK;
}

enum kda_status kda_symbol_path_parse(const char *text, struct kda_symbol_path *ret,
                                      struct kda_error *err)
{
    struct kda_symbol_path path = {.text = kda_strdup(text)};
    if (!path.text)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a symbol path");
    for (char *part = path.text; part;) {
        char *end = strchr(part, ';');
        if (end)
            *end = '\0';
        if (*part != '\0') {
            enum kda_status status = KDA_OK;
            if (path.count == KDA_STORE_MAX_PLACES)
                status = kda_fail(err, KDA_USAGE, "symbols",
                                  "more than %u elements in a symbol path", KDA_STORE_MAX_PLACES);
            else
                status = parse_element(part, &path.places[path.count++], err);
            if (status != KDA_OK) {
                kda_free(path.text);
                return status;
            }
        }
        part = end ? end + 1 : NULL;
    }
    *ret = path;
    return KDA_OK;
}

void kda_symbol_path_deinit(struct kda_symbol_path *path)
{
    kda_free(path->text);
    *path = (struct kda_symbol_path){0};
}

bool kda_symbol_path_is(const char *text)
{
    return strchr(text, ';') || is_url(text) || kda_starts_nocase(text, "srv*") ||
           kda_starts_nocase(text, "symsrv*") || kda_starts_nocase(text, "cache*");
}

char *kda_store_cache_folder(const char *name)
{
    bool named;
    char *base = kda_cache_folder(&named);
    if (!base)
        return NULL;
    static const char middle[] = "/kda/";
    size_t size = strlen(base) + sizeof(middle) + strlen(name);
    char *path = kda_calloc(size, 1);
    if (path)
        (void)snprintf(path, size, "%s%s%s", base, middle, name);
    kda_free(base);
    return path;
}

char *kda_store_default_cache(void)
{
    return kda_store_cache_folder("symbols");
}

bool kda_store_has_cache(void)
{
    bool named;
    kda_free(kda_cache_folder(&named));
    return named;
}

/* ---- places in a folder ---- */

bool kda_store_name_ok(const char *name)
{
    if (name[0] == '\0' || name[0] == '.' || strlen(name) >= KDA_PDB_NAME_MAX)
        return false;
    for (const char *p = name; *p; p++) {
        if (*p == '/' || *p == '\\' || *p == ':' || (unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
    }
    return true;
}

/* False if the text was in lower case already. */
static bool lower(char *text)
{
    bool changed = false;
    for (; *text; text++) {
        changed = changed || isupper((unsigned char)*text);
        *text = (char)tolower((unsigned char)*text);
    }
    return changed;
}

/* printf, and false when it was cut: a cut path would name another file. */
KDA_PRINTF(3, 4) static bool put_path(char *out, size_t cap, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(out, cap, fmt, args);
    va_end(args);
    if (length < 0 || (size_t)length >= cap)
        out[0] = '\0';
    return true;
}

/* Store layouts (one-level and with the two-letter level of index2.txt), GUID upper and lower
 * case, name as given and in lower case: servers on Windows do not care about case, folders copied
 * from them do. Then the redirect file, then a flat folder. */
bool kda_store_pdb_candidate(const struct kda_kernel_id *id, const char *folder, unsigned n,
                             char *out, size_t cap)
{
    char key[KDA_KEY_TEXT], name[KDA_PDB_NAME_MAX];
    kda_key_text(id->pdb_guid, id->pdb_age, key);
    (void)snprintf(name, sizeof(name), "%s", id->pdb_name);
    out[0] = '\0';
    if ((n & 1 && !lower(name)) || (n & 2 && !lower(key)))
        return n < 14; /* the same place again */
    if (n < 4)
        return put_path(out, cap, "%s/%s/%s/%s", folder, name, key, name);
    if (n < 8)
        return put_path(out, cap, "%s/%.2s/%s/%s/%s", folder, name, name, key, name);
    if (n < 12)
        return put_path(out, cap, "%s/%s/%s/file.ptr", folder, name, key);
    if (n < 14)
        return put_path(out, cap, "%s/%s", folder, name);
    return false;
}

bool kda_store_isf_candidate(const struct kda_kernel_id *id, const char *folder, unsigned n,
                             char *out, size_t cap)
{
    static const char *const below[] = {"", "windows/", "symbols/windows/", ""};
    char key[33];
    kda_guid_key(id->pdb_guid, key);
    const char *ending = n & 1 ? ".json" : ".json.xz";
    if (n < 2)
        return put_path(out, cap, "%s/%s-%u%s", folder, key, (unsigned)id->pdb_age, ending);
    if (n < 8)
        return put_path(out, cap, "%s/%s%s/%s-%u%s", folder, below[n / 2], id->pdb_name, key,
                        (unsigned)id->pdb_age, ending);
    return false;
}

/* ---- search ---- */

struct search {
    const struct kda_kernel_id *id;
    const struct kda_store_reader *reader;
    struct kda_symbols *ret;
    char places[360]; /* for the message */
    char problem[240];
};

/* Opens a file, reads it and notes where it came from. */
static enum kda_status load_file(const char *path, const struct kda_kernel_id *id,
                                 kda_layout_fn read, struct kda_symbols *ret, struct kda_error *err)
{
    struct kda_file *file;
    enum kda_status status = kda_file_open(path, &file, err);
    if (status != KDA_OK)
        return status;
    char *origin = kda_strdup(path);
    if (!origin)
        status = kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", path);
    else
        status = read(file, id, &ret->layout, err);
    kda_file_close(file);
    if (status != KDA_OK) {
        kda_free(origin);
        return status;
    }
    ret->origin = origin;
    ret->info.origin = origin;
    return KDA_OK;
}

static void note_folder(struct search *search, const char *folder)
{
    size_t used = strlen(search->places);
    if (strstr(search->places, folder))
        return;
    (void)snprintf(search->places + used, sizeof(search->places) - used, "%s%s", used ? ", " : "",
                   folder);
}

/* A file.ptr holds "PATH:" and the place of the file, or "MSG:" and why there is none. */
static bool follow_pointer(const char *path, char *out, size_t cap)
{
    struct kda_file *file;
    if (kda_file_open(path, &file, NULL) != KDA_OK)
        return false;
    void *bytes;
    size_t size;
    enum kda_status status = kda_file_read_all(file, FILE_PTR_MAX, &bytes, &size, NULL);
    kda_file_close(file);
    if (status != KDA_OK)
        return false;
    const char *text = bytes;
    if (kda_starts_nocase(text, "PATH:"))
        text += 5;
    size_t length = strcspn(text, "\r\n");
    bool good = length > 0 && length < cap && !kda_starts_nocase(text, "MSG:");
    if (good)
        (void)snprintf(out, cap, "%.*s", (int)length, text);
    kda_free(bytes);
    return good;
}

static enum kda_status try_file(struct search *search, const char *path)
{
    if (path[0] == '\0' || kda_path_kind(path) != KDA_PATH_FILE)
        return KDA_NO_SYMBOL;
    char target[KDA_STORE_PATH_MAX];
    size_t length = strlen(path);
    if (length > 9 && strcmp(path + length - 9, "/file.ptr") == 0) {
        if (!follow_pointer(path, target, sizeof(target)))
            return KDA_NO_SYMBOL;
        path = target;
    }
    struct kda_error err;
    enum kda_status status = load_file(path, search->id, search->reader->read, search->ret, &err);
    if (status != KDA_OK && search->problem[0] == '\0')
        (void)snprintf(search->problem, sizeof(search->problem), "%.*s",
                       (int)sizeof(search->problem) - 1, err.text);
    return status;
}

/* KDA_OK: found. KDA_NO_MEMORY ends the search; a file that is no good does not. */
static enum kda_status search_folder(struct search *search, const char *folder)
{
    char path[KDA_STORE_PATH_MAX];
    char *cache = NULL;
    if (folder[0] == '\0') {
        if (!kda_store_has_cache())
            return KDA_NO_SYMBOL;
        cache = kda_store_default_cache();
        if (!cache)
            return KDA_NO_MEMORY;
        folder = cache;
    }
    note_folder(search, folder);
    enum kda_status status = KDA_NO_SYMBOL;
    bool there = kda_path_kind(folder) == KDA_PATH_FOLDER;
    for (unsigned n = 0;
         there && search->reader->candidate(search->id, folder, n, path, sizeof(path)); n++) {
        status = try_file(search, path);
        if (status == KDA_OK || status == KDA_NO_MEMORY)
            break;
    }
    kda_free(cache);
    return status;
}

static enum kda_status search_path(struct search *search, const char *text, struct kda_error *err)
{
    if (!text)
        return KDA_NO_SYMBOL;
    struct kda_symbol_path path;
    enum kda_status status = kda_symbol_path_parse(text, &path, err);
    if (status != KDA_OK)
        return status;
    status = KDA_NO_SYMBOL;
    for (size_t i = 0; i < path.count && status != KDA_OK && status != KDA_NO_MEMORY; i++) {
        const struct kda_place *place = &path.places[i];
        for (size_t j = 0; j < place->folder_count; j++) {
            status = search_folder(search, place->folders[j]);
            if (status == KDA_OK || status == KDA_NO_MEMORY)
                break;
        }
    }
    kda_symbol_path_deinit(&path);
    return status;
}

/* `texts` are symbol paths, NULL = not given; the default cache comes last if asked for. */
static enum kda_status search_all(struct search *search, const char *const *texts, size_t count,
                                  bool with_cache, struct kda_error *err)
{
    if (!search->id->has_pdb || !kda_store_name_ok(search->id->pdb_name))
        return kda_fail(err, KDA_NO_SYMBOL, "symbols", "%s", ""); /* nothing to look for */
    enum kda_status status = KDA_NO_SYMBOL;
    for (size_t i = 0; i < count; i++) {
        status = search_path(search, texts[i], err);
        if (status == KDA_OK || status == KDA_USAGE || status == KDA_NO_MEMORY)
            break;
        status = KDA_NO_SYMBOL;
    }
    if (status == KDA_NO_SYMBOL && with_cache)
        status = search_folder(search, "");
    if (status == KDA_OK || status == KDA_USAGE)
        return status;
    if (status == KDA_NO_MEMORY)
        return kda_fail(err, status, "symbols", "out of memory looking for symbols");
    return kda_fail(err, KDA_NO_SYMBOL, "symbols", "%s%s%s",
                    search->places[0] ? search->places : "no folder",
                    search->problem[0] ? "; skipped: " : "", search->problem);
}

enum kda_status kda_store_find(const struct kda_symbols_options *options,
                               const struct kda_kernel_id *id,
                               const struct kda_store_reader *reader, struct kda_symbols *ret,
                               struct kda_error *err)
{
    struct search search = {.id = id, .reader = reader, .ret = ret};
    const char *const texts[] = {options->kda_symbols, options->nt_symbol_path};
    return search_all(&search, texts, sizeof(texts) / sizeof(texts[0]), true, err);
}

enum kda_status kda_store_load(const char *path, const struct kda_kernel_id *id,
                               const struct kda_store_reader *reader, struct kda_symbols *ret,
                               struct kda_error *err)
{
    if (!kda_symbol_path_is(path) && kda_path_kind(path) != KDA_PATH_FOLDER)
        return load_file(path, id, reader->read, ret, err);
    struct search search = {.id = id, .reader = reader, .ret = ret};
    return search_all(&search, &path, 1, false, err);
}
