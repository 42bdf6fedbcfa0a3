#include "file.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "file_os.h"

struct kda_file {
    intptr_t handle; /* KDA_NO_HANDLE: memory */
    const uint8_t *bytes;
    uint64_t size;
    uint64_t calls, total;
    uint64_t time_100ns;
    char *name;
};

static struct kda_file *file_of(const char *name)
{
    struct kda_file *file = kda_calloc(1, sizeof(*file));
    char *copy = kda_strdup(name);
    if (!file || !copy) {
        kda_free(file);
        kda_free(copy);
        return NULL;
    }
    file->handle = KDA_NO_HANDLE;
    file->name = copy;
    return file;
}

enum kda_status kda_file_open(const char *path, struct kda_file **ret, struct kda_error *err)
{
    struct kda_file *file = file_of(path);
    if (!file)
        return kda_fail(err, KDA_NO_MEMORY, "file", "out of memory opening \"%s\"", path);
    struct kda_opened opened = {.handle = KDA_NO_HANDLE};
    enum kda_status status = kda_os_open(path, &opened, err);
    file->handle = opened.handle;
    file->size = opened.size;
    file->time_100ns = opened.time_100ns;
    if (status != KDA_OK) {
        kda_file_close(file);
        return status;
    }
    *ret = file;
    return KDA_OK;
}

enum kda_status kda_file_open_memory(const void *bytes, size_t size, const char *name,
                                     struct kda_file **ret, struct kda_error *err)
{
    struct kda_file *file = file_of(name);
    if (!file)
        return kda_fail(err, KDA_NO_MEMORY, "file", "out of memory opening \"%s\"", name);
    file->bytes = bytes;
    file->size = size;
    *ret = file;
    return KDA_OK;
}

void kda_file_close(struct kda_file *file)
{
    if (!file)
        return;
    if (file->handle != KDA_NO_HANDLE)
        kda_os_close(file->handle);
    kda_free(file->name);
    kda_free(file);
}

enum kda_status kda_file_measure(struct kda_file *file, struct kda_error *err)
{
    if (file->handle == KDA_NO_HANDLE)
        return KDA_OK;
    return kda_os_measure(file->handle, file->name, &file->size, err);
}

uint64_t kda_file_size(const struct kda_file *file)
{
    return file->size;
}

uint64_t kda_file_time(const struct kda_file *file)
{
    return file->time_100ns;
}

const char *kda_file_name(const struct kda_file *file)
{
    return file->name;
}

bool kda_file_is_memory(const struct kda_file *file)
{
    return file->bytes != NULL;
}

uint64_t kda_file_read_calls(const struct kda_file *file)
{
    return file->calls;
}

uint64_t kda_file_read_bytes(const struct kda_file *file)
{
    return file->total;
}

enum kda_status kda_file_read_at(struct kda_file *file, uint64_t off, void *buf, size_t size,
                                 struct kda_error *err)
{
    if (off > file->size || size > file->size - off)
        return kda_fail_at(err, KDA_BAD_DATA, "file", off,
                           "\"%s\" ends at 0x%llx, but 0x%llx bytes are needed at 0x%llx",
                           file->name, (unsigned long long)file->size, (unsigned long long)size,
                           (unsigned long long)off);
    if (kda_fault())
        return kda_fail_at(err, KDA_IO, "file", off, "reading \"%s\": injected fault", file->name);
    file->calls++;
    file->total += size;
    if (file->bytes) {
        memcpy(buf, file->bytes + off, size);
        return KDA_OK;
    }
    return kda_os_read(file->handle, file->name, off, buf, size, err);
}

uint64_t kda_file_next_data(struct kda_file *file, uint64_t off)
{
    if (file->handle == KDA_NO_HANDLE || off >= file->size)
        return off;
    return kda_os_next_data(file->handle, off, file->size);
}

enum kda_status kda_file_read_all(struct kda_file *file, size_t max, void **ret, size_t *size,
                                  struct kda_error *err)
{
    if (file->size > max)
        return kda_fail(err, KDA_LIMIT, "file", "\"%s\" has %llu bytes, more than the %zu allowed",
                        file->name, (unsigned long long)file->size, max);
    size_t length = (size_t)file->size;
    void *bytes = kda_calloc(length + 1, 1);
    if (!bytes)
        return kda_fail(err, KDA_NO_MEMORY, "file", "out of memory reading \"%s\"", file->name);
    enum kda_status status = kda_file_read_at(file, 0, bytes, length, err);
    if (status != KDA_OK) {
        kda_free(bytes);
        return status;
    }
    *ret = bytes;
    *size = length;
    return KDA_OK;
}

struct names {
    char **items;
    size_t count, capacity, max;
    bool failed;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool add_name(void *context, const char *name)
{
    struct names *names = context;
    void *items = names->items;
    if (names->count == names->max)
        return false;
    names->failed =
        !kda_grow(&items, &names->capacity, names->count + 1, sizeof(*names->items), names->max);
    if (names->failed)
        return false;
    names->items = items;
    names->items[names->count] = kda_strdup(name);
    names->failed = !names->items[names->count];
    names->count += names->failed ? 0 : 1;
    return !names->failed;
}

enum kda_status kda_dir_walk(const char *path, size_t max, kda_dir_fn fn, void *context,
                             struct kda_error *err)
{
    struct names names = {.max = max};
    if (kda_fault())
        return kda_fail(err, KDA_IO, "file", "cannot open folder \"%s\": injected fault", path);
    enum kda_status status = kda_os_list(path, add_name, &names, err);
    if (status == KDA_OK && names.failed)
        status = kda_fail(err, KDA_NO_MEMORY, "file", "out of memory reading folder \"%s\"", path);
    else if (names.count > 1)
        qsort(names.items, names.count, sizeof(*names.items), by_name);
    for (size_t i = 0; status == KDA_OK && i < names.count && fn(context, names.items[i]); i++)
        continue;
    for (size_t i = 0; i < names.count; i++)
        kda_free(names.items[i]);
    kda_free(names.items);
    return status;
}
