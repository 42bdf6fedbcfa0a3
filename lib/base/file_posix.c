#define _FILE_OFFSET_BITS 64
#define _GNU_SOURCE     /* SEEK_DATA */
#define _DEFAULT_SOURCE /* flock: POSIX locks vanish when any descriptor of the file closes */
#define _POSIX_C_SOURCE 200809L

#include "file_os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "alloc.h"

enum kda_path_kind kda_path_kind(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return KDA_PATH_NONE;
    if (S_ISDIR(st.st_mode))
        return KDA_PATH_FOLDER;
    return S_ISREG(st.st_mode) ? KDA_PATH_FILE : KDA_PATH_OTHER;
}

static const char *kind_of(mode_t mode)
{
    if (S_ISDIR(mode))
        return "a directory";
    if (S_ISFIFO(mode))
        return "a pipe";
    if (S_ISSOCK(mode))
        return "a socket";
    return "a character device";
}

enum kda_status kda_os_open(const char *path, struct kda_opened *opened, struct kda_error *err)
{
    /* O_NONBLOCK: opening a pipe by mistake must not hang before it can be refused. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    opened->handle = fd;
    if (fd < 0)
        return kda_fail(err, KDA_IO, "file", "cannot open \"%s\": %s", path, strerror(errno));
    struct stat st;
    if (kda_fault() || fstat(fd, &st) != 0)
        return kda_fail(err, KDA_IO, "file", "cannot examine \"%s\": %s", path, strerror(errno));
    /* FILETIME counts from 1601. */
    if (st.st_mtime > 0)
        opened->time_100ns = ((uint64_t)st.st_mtime + 11644473600u) * 10000000u;
    if (S_ISREG(st.st_mode)) {
        opened->size = (uint64_t)st.st_size;
        return KDA_OK;
    }
    if (!S_ISBLK(st.st_mode))
        return kda_fail(err, KDA_IO, "file", "\"%s\" is %s, not a file", path, kind_of(st.st_mode));
    off_t end = lseek(fd, 0, SEEK_END);
    if (end < 0)
        return kda_fail(err, KDA_IO, "file", "cannot measure \"%s\": %s", path, strerror(errno));
    opened->size = (uint64_t)end;
    return KDA_OK;
}

void kda_os_close(intptr_t handle)
{
    (void)close((int)handle);
}

enum kda_status kda_os_measure(intptr_t handle, const char *name, uint64_t *size,
                               struct kda_error *err)
{
    struct stat st;
    if (kda_fault() || fstat((int)handle, &st) != 0)
        return kda_fail(err, KDA_IO, "file", "cannot examine \"%s\": %s", name, strerror(errno));
    if (S_ISREG(st.st_mode))
        *size = (uint64_t)st.st_size;
    return KDA_OK;
}

enum kda_status kda_os_read(intptr_t handle, const char *name, uint64_t off, void *buf, size_t size,
                            struct kda_error *err)
{
    uint8_t *bytes = buf;
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread((int)handle, bytes + done, size - done, (off_t)(off + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kda_fail_at(err, KDA_IO, "file", off + done,
                               "reading \"%s\" at offset 0x%llx: %s", name,
                               (unsigned long long)(off + done), strerror(errno));
        if (n == 0)
            return kda_fail_at(err, KDA_IO, "file", off + done,
                               "\"%s\" became shorter while it was read (offset 0x%llx)", name,
                               (unsigned long long)(off + done));
        done += (size_t)n;
    }
    return KDA_OK;
}

uint64_t kda_os_next_data(intptr_t handle, uint64_t off, uint64_t size)
{
#ifdef SEEK_DATA
    off_t at = lseek((int)handle, (off_t)off, SEEK_DATA);
    if (at < 0)
        return errno == ENXIO ? size : off;
    return (uint64_t)at;
#else
    (void)handle;
    (void)size;
    return off;
#endif
}

enum kda_status kda_os_list(const char *path, kda_dir_fn add, void *context, struct kda_error *err)
{
    DIR *dir = opendir(path);
    if (!dir)
        return kda_fail(err, errno == ENOENT ? KDA_ABSENT : KDA_IO, "file",
                        "cannot open folder \"%s\": %s", path, strerror(errno));
    const struct dirent *entry;
    while ((entry = readdir(dir)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !add(context, entry->d_name))
            break;
    (void)closedir(dir);
    return KDA_OK;
}

char *kda_cache_folder(bool *named)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *named = true;
    if (xdg && xdg[0] == '/') /* the XDG specification: a relative path is ignored */
        return kda_strdup(xdg);
    *named = home && home[0] != '\0';
    if (!*named)
        return NULL;
    static const char below[] = "/.cache";
    size_t size = strlen(home) + sizeof(below);
    char *path = kda_calloc(size, 1);
    if (path)
        (void)snprintf(path, size, "%s%s", home, below);
    return path;
}

const char *kda_path_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool kda_path_is_foreign(const char *path)
{
    bool letter = (path[0] >= 'a' && path[0] <= 'z') || (path[0] >= 'A' && path[0] <= 'Z');
    return (letter && path[1] == ':' && (path[2] == '\\' || path[2] == '/')) ||
           (path[0] == '\\' && path[1] == '\\');
}

void kda_file_remove(const char *path)
{
    (void)unlink(path);
}

void kda_dir_remove(const char *path)
{
    (void)rmdir(path);
}

static enum kda_status make_dir(const char *path, struct kda_error *err)
{
    if (kda_fault())
        return kda_fail(err, KDA_IO, "file", "cannot create folder \"%s\": injected fault", path);
    if (mkdir(path, 0777) == 0)
        return KDA_OK;
    int reason = errno;
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return KDA_OK;
    return kda_fail(err, KDA_IO, "file", "cannot create folder \"%s\": %s", path, strerror(reason));
}

enum kda_status kda_dirs_create(const char *path, struct kda_error *err)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return KDA_OK;
    char *copy = kda_strdup(path);
    if (!copy)
        return kda_fail(err, KDA_NO_MEMORY, "file", "out of memory creating \"%s\"", path);
    enum kda_status status = KDA_OK;
    for (char *p = copy + 1; status == KDA_OK && *copy && *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        status = make_dir(copy, err);
        *p = '/';
    }
    if (status == KDA_OK)
        status = make_dir(copy, err);
    kda_free(copy);
    return status;
}

struct kda_outfile {
    int fd;
    uint64_t size;
    bool committed;
    char *path;
};

/* Between open and lock the last holder may have renamed the file into place: then the lock is on
 * the finished file, and writing there would damage it. */
static bool still_named(int fd, const char *path)
{
    struct stat held, named;
    return fstat(fd, &held) == 0 && stat(path, &named) == 0 && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

static enum kda_status lock_out(struct kda_outfile *out, struct kda_error *err)
{
    for (int attempt = 0; attempt < 16; attempt++) {
        out->fd = open(out->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                       0666);
        if (out->fd < 0 || kda_fault())
            return kda_fail(err, KDA_IO, "file", "cannot write \"%s\": %s", out->path,
                            out->fd < 0 ? strerror(errno) : "injected fault");
        /* A file system without locks is no reason to refuse. */
        if (flock(out->fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            return kda_fail(err, KDA_IO, "file", "\"%s\" is being written by another process",
                            out->path);
        if (still_named(out->fd, out->path))
            return KDA_OK;
        (void)close(out->fd);
        out->fd = -1;
    }
    return kda_fail(err, KDA_IO, "file", "\"%s\" keeps changing while it is opened", out->path);
}

enum kda_status kda_outfile_open(const char *path, struct kda_outfile **ret, struct kda_error *err)
{
    struct kda_outfile *out = kda_calloc(1, sizeof(*out));
    char *name = kda_strdup(path);
    if (!out || !name) {
        kda_free(out);
        kda_free(name);
        return kda_fail(err, KDA_NO_MEMORY, "file", "out of memory opening \"%s\"", path);
    }
    out->fd = -1;
    out->path = name;
    struct stat st;
    enum kda_status status = lock_out(out, err);
    if (status == KDA_OK && (fstat(out->fd, &st) != 0 || !S_ISREG(st.st_mode)))
        status = kda_fail(err, KDA_IO, "file", "\"%s\" is not a file that can be written", path);
    if (status != KDA_OK) {
        kda_outfile_close(out, true);
        return status;
    }
    out->size = (uint64_t)st.st_size;
    *ret = out;
    return KDA_OK;
}

uint64_t kda_outfile_size(const struct kda_outfile *out)
{
    return out->size;
}

enum kda_status kda_outfile_write(struct kda_outfile *out, const void *bytes, size_t size,
                                  struct kda_error *err)
{
    const uint8_t *p = bytes;
    if (kda_fault())
        return kda_fail(err, KDA_IO, "file", "cannot write \"%s\": injected fault", out->path);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(out->fd, p + done, size - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return kda_fail(err, KDA_IO, "file", "cannot write \"%s\": %s", out->path,
                            n < 0 ? strerror(errno) : "the system took no bytes");
        done += (size_t)n;
        out->size += (size_t)n;
    }
    return KDA_OK;
}

enum kda_status kda_outfile_reset(struct kda_outfile *out, struct kda_error *err)
{
    if (kda_fault() || ftruncate(out->fd, 0) != 0)
        return kda_fail(err, KDA_IO, "file", "cannot empty \"%s\": %s", out->path, strerror(errno));
    out->size = 0;
    return KDA_OK;
}

enum kda_status kda_outfile_commit(struct kda_outfile *out, const char *target,
                                   struct kda_error *err)
{
    if (kda_fault() || fsync(out->fd) != 0)
        return kda_fail(err, KDA_IO, "file", "cannot flush \"%s\": %s", out->path, strerror(errno));
    if (kda_fault() || rename(out->path, target) != 0)
        return kda_fail(err, KDA_IO, "file", "cannot move \"%s\" to \"%s\": %s", out->path, target,
                        strerror(errno));
    out->committed = true;
    return KDA_OK;
}

void kda_outfile_close(struct kda_outfile *out, bool keep)
{
    if (!out)
        return;
    /* Removed before the lock goes, so that no one else's new file is hit. */
    if (!keep && !out->committed && out->fd >= 0)
        (void)unlink(out->path);
    if (out->fd >= 0)
        (void)close(out->fd);
    kda_free(out->path);
    kda_free(out);
}
