/* own_store.c - the user's folder of profiles. */
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "isf.h"
#include "own.h"
#include "pdb.h"
#include "store.h"
#include "text.h"

char *kda_own_folder(void)
{
    return kda_store_cache_folder("profiles");
}

static char *join(const char *folder, const char *name, const char *ending)
{
    size_t size = strlen(folder) + strlen(name) + strlen(ending) + 2;
    char *path = kda_calloc(size, 1);
    if (path)
        (void)snprintf(path, size, "%s/%s%s", folder, name, ending);
    return path;
}

/* "-GUIDAGE.kdaprof": the end of every name of a profile of `id`. */
#define TAIL_TEXT (KDA_KEY_TEXT + sizeof(KDA_OWN_ENDING) + 1)
static void tail_of(const struct kda_kernel_id *id, char out[TAIL_TEXT])
{
    char key[KDA_KEY_TEXT];
    kda_key_text(id->pdb_guid, id->pdb_age, key);
    (void)snprintf(out, TAIL_TEXT, "-%s" KDA_OWN_ENDING, key);
}

static bool ends_with(const char *text, const char *ending)
{
    size_t a = strlen(text), b = strlen(ending);
    return a >= b && strcmp(text + a - b, ending) == 0;
}

enum kda_status kda_own_read(const char *path, struct kda_own *ret, uint64_t *time_100ns,
                             struct kda_error *err)
{
    struct kda_file *file = NULL;
    void *bytes = NULL;
    size_t size = 0;
    enum kda_status status = kda_file_open(path, &file, err);
    if (status == KDA_OK && time_100ns)
        *time_100ns = kda_file_time(file);
    if (status == KDA_OK)
        status = kda_file_read_all(file, KDA_OWN_MAX_BYTES, &bytes, &size, err);
    if (status == KDA_OK)
        status = kda_own_decode(bytes, size, path, ret, err);
    kda_free(bytes);
    kda_file_close(file);
    return status;
}

/* ---- writing ---- */

static enum kda_status write_file(const char *part, const char *path, const uint8_t *bytes,
                                  size_t size, struct kda_error *err)
{
    struct kda_outfile *out = NULL;
    enum kda_status status = kda_outfile_open(part, &out, err);
    if (status != KDA_OK)
        return status;
    status = kda_outfile_reset(out, err); /* what an earlier, killed run left */
    if (status == KDA_OK)
        status = kda_outfile_write(out, bytes, size, err);
    if (status == KDA_OK)
        status = kda_outfile_commit(out, path, err);
    kda_outfile_close(out, false);
    return status;
}

static enum kda_status write_into(const char *folder, const struct kda_own *own,
                                  const uint8_t *bytes, size_t size, char **ret,
                                  struct kda_error *err)
{
    char tail[TAIL_TEXT], name[KDA_PDB_NAME_MAX + TAIL_TEXT];
    tail_of(&own->id, tail);
    (void)snprintf(name, sizeof(name), "%s%s", own->id.pdb_name, tail);
    char *path = join(folder, name, ""), *part = join(folder, name, ".tmp");
    enum kda_status status = KDA_OK;
    if (!path || !part)
        status = kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a path");
    if (status == KDA_OK)
        status = kda_dirs_create(folder, err);
    if (status == KDA_OK)
        status = write_file(part, path, bytes, size, err);
    kda_free(part);
    if (status == KDA_OK && ret)
        *ret = path;
    else
        kda_free(path);
    return status;
}

enum kda_status kda_own_write(const struct kda_own *own, char **path, struct kda_error *err)
{
    uint8_t bytes[KDA_OWN_MAX_BYTES];
    size_t size;
    enum kda_status status = kda_own_encode(own, bytes, sizeof(bytes), &size, err);
    if (status != KDA_OK)
        return status;
    if (!kda_store_has_cache())
        return kda_fail(err, KDA_USAGE, "symbols", "no folder for profiles: HOME is not set");
    char *folder = kda_own_folder();
    if (!folder)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a path");
    status = write_into(folder, own, bytes, size, path, err);
    kda_free(folder);
    return status;
}

/* ---- finding ---- */

struct own_search {
    const char *folder, *tail; /* tail NULL: the image tells only its PE stamp and size */
    const struct kda_kernel_id *id;
    struct kda_own *ret;
    char *path, *note;
    size_t note_cap;
    enum kda_status status;
};

static bool is_of(const struct kda_own *own, const struct kda_kernel_id *id)
{
    if (id->has_pdb)
        return own->id.pdb_age == id->pdb_age && memcmp(own->id.pdb_guid, id->pdb_guid, 16) == 0;
    return id->has_pe && own->id.has_pe && own->id.pe_timestamp == id->pe_timestamp &&
           own->id.pe_size == id->pe_size;
}

/* False ends the walk over the folder. */
static bool try_profile(void *context, const char *name)
{
    struct own_search *search = context;
    if (!ends_with(name, search->tail ? search->tail : KDA_OWN_ENDING))
        return true;
    char *path = join(search->folder, name, "");
    if (!path) {
        search->status = KDA_NO_MEMORY;
        return false;
    }
    struct kda_own own;
    struct kda_error why;
    enum kda_status status = kda_own_read(path, &own, NULL, &why);
    if (status == KDA_OK && is_of(&own, search->id)) {
        *search->ret = own;
        search->path = path;
        search->status = KDA_OK;
        return false;
    }
    /* A name that promises this kernel and a content that does not is worth a word. */
    if (status == KDA_OK && search->tail)
        (void)kda_fail(&why, KDA_BAD_DATA, "symbols", "\"%s\" is of another kernel", path);
    if ((status != KDA_OK || search->tail) && search->note[0] == '\0')
        (void)snprintf(search->note, search->note_cap, "profile skipped: %.*s",
                       (int)search->note_cap, why.text);
    kda_free(path);
    search->status = status == KDA_NO_MEMORY ? status : KDA_NO_SYMBOL;
    return status != KDA_NO_MEMORY;
}

enum kda_status kda_own_find(const char *folder, const struct kda_kernel_id *id,
                             struct kda_own *ret, char **path, char *note, size_t note_cap,
                             struct kda_error *err)
{
    char tail[TAIL_TEXT];
    struct own_search search = {.folder = folder, .id = id, .ret = ret, .note = note};
    search.note_cap = note_cap;
    search.status = KDA_NO_SYMBOL;
    if (id->has_pdb) {
        tail_of(id, tail);
        search.tail = tail;
    }
    enum kda_status status = kda_dir_walk(folder, KDA_OWN_MAX_FILES, try_profile, &search, err);
    if (status == KDA_NO_MEMORY || search.status == KDA_NO_MEMORY)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory looking for a profile");
    if (search.status != KDA_OK)
        return kda_fail(err, KDA_NO_SYMBOL, "symbols", "%s", folder);
    *path = search.path;
    return KDA_OK;
}

/* ---- adding ---- */

static bool is_pdb(const char *path)
{
    size_t size = strlen(path);
    return size >= 4 && kda_same_nocase(path + size - 4, ".pdb");
}

/* Whose file it is, from the file itself. A PDB does not hold its own name: that of the file must
 * do, which in a symbol store is the right one. */
static enum kda_status identify(struct kda_file *file, bool pdb, struct kda_kernel_id *ret,
                                struct kda_error *err)
{
    struct kda_kernel_id id = {.has_pdb = true};
    if (!pdb) {
        enum kda_status status = kda_isf_identity(file, &id, err);
        if (status == KDA_OK)
            *ret = id;
        return status;
    }
    const char *name = kda_path_name(kda_file_name(file));
    if (!kda_store_name_ok(name))
        return kda_fail(err, KDA_USAGE, "symbols", "\"%s\" is no name for a PDB", name);
    for (size_t i = 0; name[i]; i++)
        id.pdb_name[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    enum kda_status status = kda_pdb_identity(file, id.pdb_guid, &id.pdb_age, err);
    if (status == KDA_OK)
        *ret = id;
    if (status == KDA_NOT_MINE)
        return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\" is not a PDB file",
                        kda_file_name(file));
    return status;
}

static enum kda_status load_own(struct kda_file *file, bool pdb, const struct kda_kernel_id *id,
                                struct kda_own *own, struct kda_error *err)
{
    enum kda_status status = identify(file, pdb, &own->id, err);
    if (status == KDA_OK && id)
        status =
            kda_check_identity(kda_file_name(file), own->id.pdb_guid, own->id.pdb_age, id, err);
    if (status == KDA_OK)
        status = (pdb ? kda_pdb_layout : kda_isf_layout)(file, &own->id, &own->layout, err);
    if (status != KDA_OK)
        return status;
    if (id && id->has_pdb)
        memcpy(own->id.pdb_name, id->pdb_name, sizeof(own->id.pdb_name));
    if (id && id->has_pe) {
        own->id.has_pe = true;
        own->id.pe_timestamp = id->pe_timestamp;
        own->id.pe_size = id->pe_size;
    }
    (void)snprintf(own->source, sizeof(own->source), "%s", pdb ? "pdb" : "isf");
    const char *lacks = kda_layout_lacks(&own->layout);
    if (lacks)
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "\"%s\" is of no Windows kernel or holds too little of it: no %s",
                        kda_file_name(file), lacks);
    return KDA_OK;
}

enum kda_status kda_symbols_add(const char *path, const struct kda_kernel_id *id, char **ret,
                                struct kda_error *err)
{
    struct kda_own own = {.source = ""};
    struct kda_file *file = NULL;
    bool pdb = is_pdb(path);
    if (!pdb && !kda_isf_named(path))
        return kda_fail(err, KDA_USAGE, "symbols",
                        "\"%s\": a file to add ends in .pdb, .json or .json.xz", path);
    enum kda_status status = kda_file_open(path, &file, err);
    if (status == KDA_OK)
        status = load_own(file, pdb, id, &own, err);
    kda_file_close(file);
    return status == KDA_OK ? kda_own_write(&own, ret, err) : status;
}

/* ---- listing ---- */

struct listing {
    const char *folder;
    kda_own_profile_fn fn;
    void *context;
    enum kda_status status;
};

static bool list_one(void *context, const char *name)
{
    struct listing *listing = context;
    if (!ends_with(name, KDA_OWN_ENDING))
        return true;
    char *path = join(listing->folder, name, "");
    if (!path) {
        listing->status = KDA_NO_MEMORY;
        return false;
    }
    struct kda_own own;
    struct kda_error why;
    struct kda_own_profile profile = {.path = path};
    enum kda_status status = kda_own_read(path, &own, &profile.time_100ns, &why);
    if (status == KDA_OK) {
        profile.id = own.id;
        profile.source = own.source;
        profile.version = kda_profile_version(&own.id);
        profile.layout = &own.layout;
    } else {
        profile.problem = why.text;
    }
    /* Lack of memory says nothing about the file. */
    if (status == KDA_NO_MEMORY)
        listing->status = status;
    bool more = status != KDA_NO_MEMORY && listing->fn(listing->context, &profile);
    kda_free(path);
    return more;
}

enum kda_status kda_own_profiles(kda_own_profile_fn fn, void *context, struct kda_error *err)
{
    if (!kda_store_has_cache())
        return KDA_OK;
    struct listing listing = {.folder = NULL, .fn = fn, .context = context};
    char *folder = kda_own_folder();
    if (!folder)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for a path");
    listing.folder = folder;
    enum kda_status status = KDA_OK;
    if (kda_path_kind(folder) == KDA_PATH_FOLDER)
        status = kda_dir_walk(folder, KDA_OWN_MAX_FILES, list_one, &listing, err);
    kda_free(folder);
    if (status == KDA_OK && listing.status != KDA_OK)
        return kda_fail(err, listing.status, "symbols", "out of memory listing profiles");
    return status;
}
