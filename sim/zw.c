/*
 * zw.c - the driver's files, kept in a folder of the host that is C:\.
 *
 * Names are matched without regard to case, sharing is checked, faults and a full disk can be made.
 */
#include "zw.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    char root[512];
    bool own_root;
    struct file *open;
    unsigned fail_ops;
    int32_t fail_status;
    uint32_t fail_times;
    uint64_t bytes_free;
    uint32_t slow_us;
    uint64_t writes;
    uint64_t written;
    bool refuses;
    bool follows_all;         /* the kernel does not know OBJ_DONT_REPARSE */
    uint32_t short_write;     /* bytes that the next write takes; 0: all */
    _Atomic NTSTATUS planned; /* success of the next call that is not STATUS_SUCCESS */
    struct secured {
        struct secured *next;
        char *path;
        struct sim_security security;
    } * secured;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- the disk -------------------------------------------------------------------------------- */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

bool sim_zw_boot(void)
{
    static const char *const folders[] = {
        "Windows", "Windows/System32", "Windows/Temp", "Windows/System32/LogFiles", "ProgramData",
        "Users",   "Windows/Logs"};
    const char *temporary = getenv("TMPDIR");
    char path[600];

    disk.own_root = !sim.options.disk;
    sim_disk_follows_links(false);
    if (disk.own_root) {
        snprintf(disk.root, sizeof(disk.root), "%s/kda-sim-XXXXXX", temporary ? temporary : "/tmp");
        if (!mkdtemp(disk.root))
            return false;
    } else {
        if (strlen(sim.options.disk) >= sizeof(disk.root) ||
            (mkdir(sim.options.disk, 0777) != 0 && errno != EEXIST))
            return false;
        snprintf(disk.root, sizeof(disk.root), "%s", sim.options.disk);
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", disk.root, folders[i]);
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return false;
    }
    disk.open = NULL;
    disk.bytes_free = sim.options.disk_bytes ? sim.options.disk_bytes : UINT64_MAX;
    disk.fail_ops = disk.fail_times = 0;
    disk.slow_us = 0;
    disk.writes = disk.written = 0;
    disk.refuses = false;
    disk.short_write = 0;
    disk.planned = STATUS_SUCCESS;
    return true;
}

void sim_zw_end(void)
{
    while (disk.secured) {
        struct secured *next = disk.secured->next;
        free(disk.secured->path);
        free(disk.secured);
        disk.secured = next;
    }
    if (disk.own_root)
        nftw(disk.root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *sim_disk(void)
{
    return disk.root;
}

void sim_file_fail(unsigned ops, int32_t status, uint32_t times)
{
    pthread_mutex_lock(&disk.lock);
    disk.fail_ops = ops;
    disk.fail_status = status;
    disk.fail_times = times;
    pthread_mutex_unlock(&disk.lock);
}

void sim_disk_free(uint64_t bytes)
{
    pthread_mutex_lock(&disk.lock);
    disk.bytes_free = bytes;
    pthread_mutex_unlock(&disk.lock);
}

void sim_disk_short_write(uint32_t bytes)
{
    pthread_mutex_lock(&disk.lock);
    disk.short_write = bytes;
    pthread_mutex_unlock(&disk.lock);
}

void sim_disk_slow(uint32_t microseconds)
{
    pthread_mutex_lock(&disk.lock);
    disk.slow_us = microseconds;
    pthread_mutex_unlock(&disk.lock);
}

uint64_t sim_disk_writes(void)
{
    uint64_t value;

    pthread_mutex_lock(&disk.lock);
    value = disk.writes;
    pthread_mutex_unlock(&disk.lock);
    return value;
}

uint64_t sim_disk_written(void)
{
    uint64_t value;

    pthread_mutex_lock(&disk.lock);
    value = disk.written;
    pthread_mutex_unlock(&disk.lock);
    return value;
}

bool sim_disk_refuses(void)
{
    bool value;

    pthread_mutex_lock(&disk.lock);
    value = disk.refuses;
    pthread_mutex_unlock(&disk.lock);
    return value;
}

static void note_result(NTSTATUS status)
{
    pthread_mutex_lock(&disk.lock);
    disk.refuses = !NT_SUCCESS(status);
    pthread_mutex_unlock(&disk.lock);
}

bool sim_file_fails(const char *ddi, enum sim_file_op op, NTSTATUS *status)
{
    bool fail;

    if (sim_fails(ddi, SIM_ANY_CLASS, STATUS_INSUFFICIENT_RESOURCES, status)) {
        /* A success, or a write that is still under way, is none. */
        if (!NT_SUCCESS(*status))
            return true;
        disk.planned = *status;
    }
    pthread_mutex_lock(&disk.lock);
    fail = (disk.fail_ops & op) != 0 && disk.fail_times > 0;
    if (fail && disk.fail_times != UINT32_MAX)
        disk.fail_times--;
    *status = disk.fail_status;
    pthread_mutex_unlock(&disk.lock);
    return fail;
}

/* --- file objects ---------------------------------------------------------------------------- */

static void file_destroy(void *body)
{
    struct file *f = body;

    if (f->path) {
        pthread_mutex_lock(&disk.lock);
        for (struct file **at = &disk.open; *at; at = &(*at)->next) {
            if (*at == f) {
                *at = f->next;
                break;
            }
        }
        pthread_mutex_unlock(&disk.lock);
    }
    if (f->fd >= 0)
        close(f->fd);
    for (int i = 0; i < f->entry_count; i++)
        free(f->entries[i]);
    free(f->entries);
    free(f->pattern);
    free(f->path);
    sim_wide_free(&f->name);
}

static struct file *file_make(struct sim_str name)
{
    struct file *f = sim_object_create(SIM_TYPE_FILE, sizeof(*f), file_destroy);

    f->fd = -1;
    sim_wide_set(&f->name, name);
    f->object.Type = 5;
    f->object.Size = sizeof(f->object);
    f->object.FileName = sim_unicode(&f->name);
    return f;
}

PFILE_OBJECT sim_file_object(struct sim_str name)
{
    return &file_make(name)->object;
}

/* Who opens now must allow what the others do, and the other way round. */
static bool shareable(const struct file *f)
{
    const uint32_t writes = FILE_WRITE_DATA | FILE_APPEND_DATA;

    for (const struct file *o = disk.open; o; o = o->next) {
        if (strcmp(o->path, f->path) != 0)
            continue;
        if (((f->access & FILE_READ_DATA) && !(o->share & FILE_SHARE_READ)) ||
            ((f->access & writes) && !(o->share & FILE_SHARE_WRITE)) ||
            ((f->access & DELETE) && !(o->share & FILE_SHARE_DELETE)) ||
            ((o->access & FILE_READ_DATA) && !(f->share & FILE_SHARE_READ)) ||
            ((o->access & writes) && !(f->share & FILE_SHARE_WRITE)) ||
            ((o->access & DELETE) && !(f->share & FILE_SHARE_DELETE)))
            return false;
    }
    return true;
}

static NTSTATUS status_of(int error)
{
    switch (error) {
    case ENOENT:
        return STATUS_OBJECT_NAME_NOT_FOUND;
    case EEXIST:
        return STATUS_OBJECT_NAME_COLLISION;
    case EACCES:
    case EPERM:
    case EROFS:
        return STATUS_ACCESS_DENIED;
    case ENOTDIR:
        return STATUS_OBJECT_PATH_NOT_FOUND;
    case ENOSPC:
        return STATUS_DISK_FULL;
    default:
        return STATUS_IO_DEVICE_ERROR;
    }
}

static void remember_security(const char *path, const struct sim_security *security)
{
    struct secured *made = sim_alloc(sizeof(*made));

    made->path = sim_alloc(strlen(path) + 1);
    memcpy(made->path, path, strlen(path));
    made->security = *security;
    pthread_mutex_lock(&disk.lock);
    made->next = disk.secured;
    disk.secured = made;
    pthread_mutex_unlock(&disk.lock);
}

NTSTATUS sim_file_secure(HANDLE handle, const struct sim_security *security)
{
    struct file *f = sim_handle_body(handle, SIM_TYPE_FILE);

    if (!f)
        return STATUS_INVALID_HANDLE;
    if (f->path)
        remember_security(f->path, security);
    sim_object_unref(f);
    return STATUS_SUCCESS;
}

bool sim_disk_restricted(const char *path)
{
    char full[2048];
    bool found = false;

    snprintf(full, sizeof(full), "%s/%s", disk.root, path);
    pthread_mutex_lock(&disk.lock);
    for (const struct secured *s = disk.secured; s && !found; s = s->next)
        found = strcmp(s->path, full) == 0 && s->security.restricted && s->security.protected;
    pthread_mutex_unlock(&disk.lock);
    return found;
}

/* --- create and open ------------------------------------------------------------------------- */

static NTSTATUS open_host(struct file *f, bool exists, ULONG disposition, PIO_STATUS_BLOCK status)
{
    struct stat info;
    int flags = O_CLOEXEC | (f->directory ? O_DIRECTORY | O_RDONLY : O_RDWR);

    if (exists && disposition == FILE_CREATE)
        return STATUS_OBJECT_NAME_COLLISION;
    if (!exists && disposition == FILE_OPEN)
        return STATUS_OBJECT_NAME_NOT_FOUND;
    if (exists && stat(f->path, &info) == 0 && S_ISDIR(info.st_mode) != f->directory)
        return f->directory ? NTSTATUS_OF(0xC0000103)  /* STATUS_NOT_A_DIRECTORY */
                            : NTSTATUS_OF(0xC00000BA); /* STATUS_FILE_IS_A_DIRECTORY */
    if (!exists && f->directory && mkdir(f->path, 0777) != 0)
        return status_of(errno);
    if (!exists && !f->directory)
        flags |= O_CREAT | O_EXCL;
    f->fd = open(f->path, flags, 0666);
    if (f->fd < 0)
        return status_of(errno);
    status->Information = exists ? 1 : 2; /* FILE_OPENED, FILE_CREATED */
    return STATUS_SUCCESS;
}

#define SYNCHRONOUS 0x30u /* alertable or not: one of them */
#define NO_BUFFERING 0x8u
#define DELETE_ON_CLOSE 0x1000u
#define WITH_DIRECTORY                                                                             \
    (FILE_DIRECTORY_FILE | SYNCHRONOUS | 0x2u /* write through */ | 0x4000u /* backup */ |         \
     0x2000u /* by id */ | 0x200000u /* the reparse point itself */)

static NTSTATUS create_file(const char *ddi, PHANDLE file, ACCESS_MASK access,
                            POBJECT_ATTRIBUTES attributes, PIO_STATUS_BLOCK io, ULONG share,
                            ULONG disposition, ULONG options)
{
    char path[2048];
    struct sim_security security;
    struct file *f;
    bool exists = false;
    NTSTATUS status;

    if (sim_file_fails(ddi, SIM_FILE_CREATE, &status))
        return status;
    status = sim_file_path(attributes, path, sizeof(path), &exists);
    if (!NT_SUCCESS(status))
        return status;
    f = file_make(sim_str_of(attributes->ObjectName));
    f->path = sim_alloc(strlen(path) + 1);
    memcpy(f->path, path, strlen(path));
    f->access = access == FILE_ALL_ACCESS ? FILE_READ_DATA | FILE_WRITE_DATA | DELETE : access;
    f->share = share;
    f->directory = (options & FILE_DIRECTORY_FILE) != 0;
    f->synchronous = (options & SYNCHRONOUS) != 0;
    pthread_mutex_lock(&disk.lock);
    status = shareable(f) ? open_host(f, exists, disposition, io) : STATUS_SHARING_VIOLATION;
    if (NT_SUCCESS(status)) {
        f->next = disk.open;
        disk.open = f;
    }
    pthread_mutex_unlock(&disk.lock);
    if (NT_SUCCESS(status) && !exists && attributes->SecurityDescriptor) {
        SIM_CHECK(sim_se_read(attributes->SecurityDescriptor, &security), "a bad descriptor");
        remember_security(path, &security);
    }
    if (NT_SUCCESS(status))
        status = sim_handle_open(ddi, f, access, attributes->Attributes, file);
    if (NT_SUCCESS(status))
        status = atomic_exchange(&disk.planned, STATUS_SUCCESS);
    io->Status = status;
    sim_object_unref(f);
    return status;
}

static void check_options(const char *ddi, ACCESS_MASK access, ULONG options)
{
    if ((options & SYNCHRONOUS) == SYNCHRONOUS ||
        ((options & SYNCHRONOUS) && !(access & SYNCHRONIZE)))
        sim_violation("ZW-002", ddi, "synchronous, but without SYNCHRONIZE, or in both ways");
    if ((options & FILE_DIRECTORY_FILE) && (options & ~WITH_DIRECTORY))
        sim_violation("ZW-003", ddi, "options 0x%X do not go with a directory", options);
    if ((options & NO_BUFFERING) && (access & FILE_APPEND_DATA))
        sim_violation("ZW-003", ddi, "unbuffered, and for appending");
    if ((options & DELETE_ON_CLOSE) && !(access & DELETE))
        sim_violation("ZW-003", ddi, "to be deleted, but without DELETE");
}

NTSTATUS ZwCreateFile(PHANDLE file, ACCESS_MASK access, POBJECT_ATTRIBUTES attributes,
                      PIO_STATUS_BLOCK io, PLARGE_INTEGER allocation, ULONG fileAttributes,
                      ULONG share, ULONG disposition, ULONG options, PVOID ea, ULONG eaLength)
{
    NTSTATUS status;

    sim_ddi_io(__func__, "ZW-001");
    (void)allocation;
    (void)fileAttributes;
    check_options(__func__, access, options);
    SIM_CHECK(!ea && !eaLength, "extended attributes are not simulated");
    SIM_CHECK(disposition >= FILE_OPEN && disposition <= FILE_OPEN_IF,
              "disposition %u is not simulated", disposition);
    status = create_file(__func__, file, access, attributes, io, share, disposition, options);
    if (!NT_SUCCESS(status) && disposition != FILE_OPEN)
        note_result(status);
    return status;
}

NTSTATUS ZwDeleteFile(POBJECT_ATTRIBUTES attributes)
{
    char path[2048];
    struct stat info;
    bool exists;
    NTSTATUS status;

    sim_ddi_io(__func__, "ZW-001");
    if (sim_file_fails(__func__, SIM_FILE_DELETE, &status))
        return status;
    status = sim_file_path(attributes, path, sizeof(path), &exists);
    if (!NT_SUCCESS(status))
        return status;
    if (!exists)
        return STATUS_OBJECT_NAME_NOT_FOUND;
    pthread_mutex_lock(&disk.lock);
    for (const struct file *o = disk.open; o && NT_SUCCESS(status); o = o->next) {
        if (strcmp(o->path, path) == 0 && !(o->share & FILE_SHARE_DELETE))
            status = STATUS_SHARING_VIOLATION;
    }
    if (NT_SUCCESS(status) && lstat(path, &info) == 0 && !(info.st_mode & 0222))
        status = NTSTATUS_OF(0xC0000121); /* STATUS_CANNOT_DELETE: read-only */
    if (NT_SUCCESS(status) && remove(path) != 0)
        status = status_of(errno);
    pthread_mutex_unlock(&disk.lock);
    return status;
}

/* --- data ------------------------------------------------------------------------------------ */

struct file *sim_file_data(const char *ddi, HANDLE handle, HANDLE event, PIO_APC_ROUTINE apc)
{
    struct file *f = sim_handle_body(handle, SIM_TYPE_FILE);

    if (event || apc)
        sim_bugcheck(ddi, "only synchronous files are simulated");
    if (f && !f->synchronous)
        sim_violation("ZW-010", ddi,
                      "the file is not open for synchronous use: the buffer may still be read");
    if (f && f->fd < 0) {
        sim_object_unref(f);
        return NULL;
    }
    return f;
}

static NTSTATUS write_all(struct file *f, const uint8_t *buffer, ULONG length, int64_t offset)
{
    ULONG done = 0;

    if (offset >= 0 ? lseek(f->fd, offset, SEEK_SET) < 0 : lseek(f->fd, 0, SEEK_END) < 0)
        return status_of(errno);
    while (done < length) {
        ssize_t wrote = write(f->fd, buffer + done, length - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return status_of(errno);
        done += (ULONG)wrote;
    }
    return STATUS_SUCCESS;
}

NTSTATUS ZwWriteFile(HANDLE file, HANDLE event, PIO_APC_ROUTINE apc, PVOID apcContext,
                     PIO_STATUS_BLOCK io, PVOID buffer, ULONG length, PLARGE_INTEGER offset,
                     PULONG key)
{
    struct file *f;
    int64_t at;
    NTSTATUS status;
    uint32_t slow;

    sim_ddi_io(__func__, "ZW-001");
    (void)apcContext;
    (void)key;
    if (sim_file_fails(__func__, SIM_FILE_WRITE, &status)) {
        note_result(status);
        return status;
    }
    f = sim_file_data(__func__, file, event, apc);
    if (!f)
        return STATUS_INVALID_HANDLE;
    pthread_mutex_lock(&disk.lock);
    if (disk.short_write && disk.short_write < length)
        length = disk.short_write;
    disk.short_write = 0;
    at = offset && offset->QuadPart >= 0 && (f->access & FILE_WRITE_DATA) ? offset->QuadPart
         : offset                                                         ? -1
                  : (int64_t)lseek(f->fd, 0, SEEK_CUR);
    if (!(f->access & (FILE_WRITE_DATA | FILE_APPEND_DATA)))
        status = STATUS_ACCESS_DENIED;
    else if (length > disk.bytes_free)
        status = STATUS_DISK_FULL;
    else
        status = write_all(f, buffer, length, f->access & FILE_WRITE_DATA ? at : -1);
    if (NT_SUCCESS(status)) {
        disk.writes++;
        disk.written += length;
        if (disk.bytes_free != UINT64_MAX)
            disk.bytes_free -= length;
    }
    disk.refuses = !NT_SUCCESS(status);
    slow = disk.slow_us;
    pthread_mutex_unlock(&disk.lock);
    if (slow)
        usleep(slow);
    io->Status = status;
    io->Information = NT_SUCCESS(status) ? length : 0;
    sim_object_unref(f);
    return status;
}

NTSTATUS ZwFlushBuffersFile(HANDLE file, PIO_STATUS_BLOCK io)
{
    struct file *f;
    NTSTATUS status;

    sim_ddi_io(__func__, "ZW-001");
    if (sim_file_fails(__func__, SIM_FILE_FLUSH, &status))
        return status;
    f = sim_handle_body_for(file, SIM_TYPE_FILE, 0, &status);
    if (!f)
        return status;
    io->Status = STATUS_SUCCESS;
    io->Information = 0;
    sim_object_unref(f);
    return STATUS_SUCCESS;
}
