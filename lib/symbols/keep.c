#include "keep.h"

#ifdef KDA_HAVE_DOWNLOAD

#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "cab.h"
#include "handle.h"
#include "pdb.h"

#define COPY_CHUNK ((size_t)64 * 1024)

enum kda_status kda_keep_verify(const char *path, const struct kda_kernel_id *id,
                                struct kda_error *err)
{
    struct kda_file *file = NULL;
    uint8_t guid[16];
    uint32_t age;
    enum kda_status status = kda_file_open(path, &file, err);
    if (status == KDA_OK)
        status = kda_pdb_identity(file, guid, &age, err);
    if (status == KDA_OK)
        status = kda_check_identity(id->pdb_name, guid, age, id, err);
    kda_file_close(file);
    return status == KDA_NOT_MINE || status == KDA_UNSUPPORTED ? KDA_BAD_DATA : status;
}

static bool is_pointer(const char *path)
{
    size_t size = strlen(path);
    return size > 9 && strcmp(path + size - 9, "/file.ptr") == 0;
}

enum kda_status kda_keep_find(const struct kda_kernel_id *id, const char *dir, char *out,
                              struct kda_error *err)
{
    for (unsigned n = 0; kda_store_pdb_candidate(id, dir, n, out, KDA_STORE_PATH_MAX); n++) {
        /* The file itself is wanted here, not what a pointer leads to. */
        if (kda_path_kind(out) != KDA_PATH_FILE || is_pointer(out))
            continue;
        enum kda_status status = kda_keep_verify(out, id, err);
        if (status == KDA_OK || status == KDA_NO_MEMORY)
            return status;
    }
    return KDA_ABSENT;
}

static enum kda_status too_long(const char *dir, struct kda_error *err)
{
    return kda_fail(err, KDA_LIMIT, "symbols", "the path in cache \"%s\" is too long", dir);
}

static bool is_two_tier(const char *dir)
{
    char mark[KDA_STORE_PATH_MAX];
    int size = snprintf(mark, sizeof(mark), "%s/index2.txt", dir);
    return (size_t)size < sizeof(mark) && kda_path_kind(mark) == KDA_PATH_FILE;
}

enum kda_status kda_keep_prepare(const struct kda_kernel_id *id, const char *dir, char *out,
                                 struct kda_error *err)
{
    char key[KDA_KEY_TEXT];
    const char *name = id->pdb_name;
    kda_key_text(id->pdb_guid, id->pdb_age, key);
    int size;
    if (is_two_tier(dir))
        size = snprintf(out, KDA_STORE_PATH_MAX, "%s/%.2s/%s/%s", dir, name, name, key);
    else
        size = snprintf(out, KDA_STORE_PATH_MAX, "%s/%s/%s", dir, name, key);
    /* Room for the name and the endings that the unfinished file has. */
    if (size < 0 || (size_t)size + strlen(name) + 16 > KDA_STORE_PATH_MAX)
        return too_long(dir, err);
    enum kda_status status = kda_dirs_create(out, err);
    if (status == KDA_OK)
        (void)snprintf(out + size, KDA_STORE_PATH_MAX - (size_t)size, "/%s", name);
    else
        out[0] = '\0'; /* kda_keep_tidy must not go up from half a path */
    return status;
}

void kda_keep_tidy(const char *target)
{
    char folder[KDA_STORE_PATH_MAX];
    (void)snprintf(folder, sizeof(folder), "%s", target);
    for (int level = 0; level < 2; level++) {
        char *slash = strrchr(folder, '/');
        if (!slash)
            return;
        *slash = '\0';
        kda_dir_remove(folder);
    }
}

static enum kda_status copy_bytes(struct kda_file *from, struct kda_outfile *out,
                                  struct kda_error *err)
{
    uint8_t *chunk = kda_calloc(COPY_CHUNK, 1);
    if (!chunk)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory copying a PDB");
    enum kda_status status = KDA_OK;
    uint64_t size = kda_file_size(from);
    for (uint64_t pos = 0; status == KDA_OK && pos < size;) {
        size_t step = size - pos < COPY_CHUNK ? (size_t)(size - pos) : COPY_CHUNK;
        status = kda_file_read_at(from, pos, chunk, step, err);
        if (status == KDA_OK)
            status = kda_outfile_write(out, chunk, step, err);
        pos += step;
    }
    kda_free(chunk);
    return status;
}

enum kda_status kda_keep_install(const struct kda_kernel_id *id, struct kda_file *from, bool cab,
                                 uint64_t max, const char *target, struct kda_error *err)
{
    char name[KDA_STORE_PATH_MAX];
    struct kda_outfile *out = NULL;
    int size = snprintf(name, sizeof(name), "%s.tmp", target);
    if (size < 0 || (size_t)size >= sizeof(name))
        return too_long(target, err);
    enum kda_status status = kda_outfile_open(name, &out, err);
    if (status != KDA_OK)
        return status;
    status = kda_outfile_reset(out, err); /* what an earlier, killed run left */
    if (status == KDA_OK)
        status = cab ? kda_cab_unpack(from, out, max, err) : copy_bytes(from, out, err);
    if (status == KDA_OK)
        status = kda_keep_verify(name, id, err);
    if (status == KDA_OK)
        status = kda_outfile_commit(out, target, err);
    kda_outfile_close(out, false);
    return status;
}

#endif
