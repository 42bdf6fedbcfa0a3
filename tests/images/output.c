#define _FILE_OFFSET_BITS 64
#define _POSIX_C_SOURCE 200809L

#include "forge_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where an image goes: a file with holes, or memory. */

#define MEMORY_MAX GIB

static const char *const format_names[FORGE_FORMATS] = {
    "raw",      "dmp-full",        "dmp-kernel",    "dmp-bitmap", "dmp-live",
    "dmp-rdmp", "dmp-rdmp-active", "dmp-rdmp-full", "elf",        "vmem",
    "lime"};

const char *forge_format_name(enum forge_format format)
{
    return format < FORGE_FORMATS ? format_names[format] : NULL;
}

bool forge_format_parse(const char *name, enum forge_format *ret)
{
    for (size_t i = 0; i < FORGE_FORMATS; i++) {
        if (strcmp(format_names[i], name) != 0)
            continue;
        *ret = (enum forge_format)i;
        return true;
    }
    return false;
}

void sink_resize(struct sink *s, uint64_t size)
{
    if (s->status != KDA_OK)
        return;
    s->size = size;
    if (s->fd >= 0) {
        if (ftruncate(s->fd, (off_t)size) != 0)
            s->status =
                kda_fail(s->err, KDA_IO, "forge", "cannot size the image: %s", strerror(errno));
        return;
    }
    if (size > MEMORY_MAX) {
        s->status = kda_fail(s->err, KDA_LIMIT, "forge", "too big for memory: write a file");
        return;
    }
    s->bytes = calloc(1, size ? (size_t)size : 1);
    if (!s->bytes)
        s->status = kda_fail(s->err, KDA_NO_MEMORY, "forge", "out of memory");
}

void sink_put(struct sink *s, uint64_t off, const void *bytes, size_t size)
{
    if (s->status != KDA_OK)
        return;
    if (off > s->size || size > s->size - off) {
        s->status = kda_fail(s->err, KDA_BAD_DATA, "forge", "writing outside the image");
        return;
    }
    if (s->fd < 0) {
        memcpy(s->bytes + off, bytes, size);
        return;
    }
    const uint8_t *from = bytes;
    while (size > 0) {
        ssize_t n = pwrite(s->fd, from, size, (off_t)off);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            s->status = kda_fail(s->err, KDA_IO, "forge", "writing: %s", strerror(errno));
            return;
        }
        from += n;
        off += (uint64_t)n;
        size -= (size_t)n;
    }
}

/* Pages without content are the file's holes. */
void sink_page(struct forge *f, struct sink *s, uint64_t off, uint64_t pfn)
{
    const uint8_t *page = phys_state(f, pfn) == PAGE_USED ? phys_peek(f, pfn) : NULL;
    if (page)
        sink_put(s, off, page, PAGE);
}

/* Pages nobody uses: there in a small or raw image; dumps of the bitmap kinds leave them out
 * unless the scenario or the size asks for a realistic page count. */
bool filler_wanted(const struct forge *f)
{
    return f->opt.filler_set ? f->opt.filler : f->opt.size > 256 * MIB;
}

bool next_run(const struct forge *f, uint64_t pfn, struct ram_range *run)
{
    bool filler = filler_wanted(f);
    for (size_t i = 0; i < f->ram_count; i++) {
        uint64_t end = f->ram[i].first + f->ram[i].count;
        uint64_t at_pfn = pfn > f->ram[i].first ? pfn : f->ram[i].first;
        while (at_pfn < end && (phys_state(f, at_pfn) == PAGE_GONE ||
                                (phys_state(f, at_pfn) == PAGE_FILLER && !filler)))
            at_pfn++;
        if (at_pfn >= end)
            continue;
        run->first = at_pfn;
        while (at_pfn < end && (phys_state(f, at_pfn) == PAGE_USED ||
                                (phys_state(f, at_pfn) == PAGE_FILLER && filler)))
            at_pfn++;
        run->count = at_pfn - run->first;
        return true;
    }
    return false;
}

static bool pages_gone(const struct forge *f)
{
    for (uint64_t i = 0; i < f->truth.hole_count; i++)
        if (phys_state(f, f->truth.holes[i].pfn) == PAGE_GONE)
            return true;
    return false;
}

static void emit(struct forge *f, struct sink *s, enum forge_format format)
{
    switch (format) {
    case FORGE_RAW:
    case FORGE_VMEM:
        if (pages_gone(f))
            s->status = kda_fail(s->err, KDA_UNSUPPORTED, "forge",
                                 "a flat file cannot leave pages out: use kind=paged");
        else
            container_raw(f, s, format == FORGE_VMEM);
        return;
    case FORGE_ELF:
        container_elf(f, s);
        return;
    case FORGE_LIME:
        container_lime(f, s);
        return;
    default:
        container_dmp(f, s, format);
        return;
    }
}

/* Half an image would pass for one. What is no file (a device) stays. */
static void drop(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        (void)unlink(path);
}

static enum kda_status write_file(struct forge *f, const char *path, enum forge_format format,
                                  bool companion, struct kda_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return kda_fail(err, KDA_IO, "forge", "cannot create \"%s\": %s", path, strerror(errno));
    struct sink s = {fd, NULL, 0, err, KDA_OK};
    if (companion)
        container_vmss(f, &s);
    else
        emit(f, &s, format);
    if (close(fd) != 0 && s.status == KDA_OK)
        s.status = kda_fail(err, KDA_IO, "forge", "closing \"%s\": %s", path, strerror(errno));
    if (s.status != KDA_OK)
        drop(path);
    return s.status;
}

enum kda_status forge_write(struct forge *f, enum forge_format format, const char *path,
                            struct kda_error *err)
{
    char other[4096];
    enum kda_status status = write_file(f, path, format, false, err);
    if (status != KDA_OK || format != FORGE_VMEM)
        return status;
    const char *dot = strrchr(path, '.');
    size_t stem = dot && !strchr(dot, '/') ? (size_t)(dot - path) : strlen(path);
    if (stem + 6 > sizeof(other)) {
        status = kda_fail(err, KDA_USAGE, "forge", "the path is too long");
    } else {
        (void)snprintf(other, sizeof(other), "%.*s.vmss", (int)stem, path);
        status = write_file(f, other, format, true, err);
    }
    if (status != KDA_OK)
        drop(path);
    return status;
}

enum kda_status forge_write_memory(struct forge *f, enum forge_format format, uint8_t **bytes,
                                   size_t *size, struct kda_error *err)
{
    struct sink s = {-1, NULL, 0, err, KDA_OK};
    emit(f, &s, format);
    if (s.status != KDA_OK) {
        free(s.bytes);
        return s.status;
    }
    *bytes = s.bytes;
    *size = (size_t)s.size;
    return KDA_OK;
}

enum kda_status forge_build_memory(const char *scenario, enum forge_format format, uint8_t **bytes,
                                   size_t *size, struct kda_error *err)
{
    struct forge *f = NULL;
    enum kda_status status = forge_build(scenario, &f, err);
    if (status == KDA_OK)
        status = forge_write_memory(f, format, bytes, size, err);
    forge_free(f);
    return status;
}
