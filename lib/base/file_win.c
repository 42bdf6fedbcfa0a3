/*
 * file_win.c - files on Windows: UTF-8 paths of any length, positioned reads, exclusive writers.
 *
 * Images are read, not mapped: a page of a mapped file that cannot be brought in (a network share
 * that goes away, a bad sector) is an exception in the middle of a parser, a failed read is a
 * status.
 */
#include <windows.h>
#include <winioctl.h>

#include "file_os.h"

#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "alloc.h"
#include "text_win.h"

#define PIECE_MAX ((size_t)1 << 30)

struct reason {
    char text[256];
};

static const char *words_of(DWORD error, struct reason *reason)
{
    return kda_win_error_text(error, reason->text, sizeof(reason->text));
}

static const char *last_words(struct reason *reason)
{
    return words_of(GetLastError(), reason);
}

static DWORD attributes_of(const char *path)
{
    WCHAR *wide = kda_win_path(path);
    DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    kda_free(wide);
    return attributes;
}

static bool is_folder(const char *path)
{
    DWORD attributes = attributes_of(path);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

enum kda_path_kind kda_path_kind(const char *path)
{
    DWORD attributes = attributes_of(path);
    if (attributes == INVALID_FILE_ATTRIBUTES)
        return KDA_PATH_NONE;
    if (attributes & FILE_ATTRIBUTE_DIRECTORY)
        return KDA_PATH_FOLDER;
    return attributes & FILE_ATTRIBUTE_DEVICE ? KDA_PATH_OTHER : KDA_PATH_FILE;
}

/* ---- reading ---- */

static HANDLE open_handle(const char *path, DWORD access, DWORD share, DWORD how, DWORD flags)
{
    WCHAR *wide = kda_win_path(path);
    if (!wide)
        return INVALID_HANDLE_VALUE;
    /* A pipe whose name is given by mistake must not get to act for this user. */
    HANDLE handle = CreateFileW(wide, access, share, NULL, how,
                                flags | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION, NULL);
    DWORD error = GetLastError();
    kda_free(wide);
    SetLastError(error);
    return handle;
}

enum kda_status kda_os_open(const char *path, struct kda_opened *opened, struct kda_error *err)
{
    struct reason reason;
    HANDLE handle =
        open_handle(path, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                    OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL);
    opened->handle = (intptr_t)handle;
    if (handle == INVALID_HANDLE_VALUE) {
        DWORD error = GetLastError();
        if (error == ERROR_ACCESS_DENIED && is_folder(path))
            return kda_fail(err, KDA_IO, "file", "\"%s\" is a directory, not a file", path);
        return kda_fail(err, KDA_IO, "file", "cannot open \"%s\": %s", path,
                        words_of(error, &reason));
    }
    DWORD type = GetFileType(handle);
    LARGE_INTEGER size;
    FILETIME written;
    if (type == FILE_TYPE_PIPE)
        return kda_fail(err, KDA_IO, "file", "\"%s\" is a pipe, not a file", path);
    if (type != FILE_TYPE_DISK)
        return kda_fail(err, KDA_IO, "file", "\"%s\" is a character device, not a file", path);
    /* A disk is read in whole sectors only, and has no size of this kind. */
    if (kda_fault() || !GetFileSizeEx(handle, &size))
        return kda_fail(err, KDA_IO, "file",
                        "cannot measure \"%s\": %s; a disk has to be copied "
                        "to a file",
                        path, last_words(&reason));
    opened->size = (uint64_t)size.QuadPart;
    if (GetFileTime(handle, NULL, NULL, &written))
        opened->time_100ns = (uint64_t)written.dwHighDateTime << 32 | written.dwLowDateTime;
    return KDA_OK;
}

void kda_os_close(intptr_t handle)
{
    (void)CloseHandle((HANDLE)handle);
}

enum kda_status kda_os_measure(intptr_t handle, const char *name, uint64_t *size,
                               struct kda_error *err)
{
    struct reason reason;
    LARGE_INTEGER now;
    if (kda_fault() || !GetFileSizeEx((HANDLE)handle, &now))
        return kda_fail(err, KDA_IO, "file", "cannot examine \"%s\": %s", name,
                        last_words(&reason));
    *size = (uint64_t)now.QuadPart;
    return KDA_OK;
}

enum kda_status kda_os_read(intptr_t handle, const char *name, uint64_t off, void *buf, size_t size,
                            struct kda_error *err)
{
    uint8_t *bytes = buf;
    size_t done = 0;
    struct reason reason;
    while (done < size) {
        uint64_t at = off + done;
        DWORD got = 0, piece = (DWORD)(size - done < PIECE_MAX ? size - done : PIECE_MAX);
        OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
        BOOL good = ReadFile((HANDLE)handle, bytes + done, piece, &got, &place);
        if (!good && GetLastError() != ERROR_HANDLE_EOF)
            return kda_fail_at(err, KDA_IO, "file", at, "reading \"%s\" at offset 0x%llx: %s", name,
                               (unsigned long long)at, last_words(&reason));
        if (!good || got == 0)
            return kda_fail_at(err, KDA_IO, "file", at,
                               "\"%s\" became shorter while it was read (offset 0x%llx)", name,
                               (unsigned long long)at);
        done += got;
    }
    return KDA_OK;
}

uint64_t kda_os_next_data(intptr_t handle, uint64_t off, uint64_t size)
{
    FILE_ALLOCATED_RANGE_BUFFER asked, found;
    DWORD returned = 0;
    asked.FileOffset.QuadPart = (LONGLONG)off;
    asked.Length.QuadPart = (LONGLONG)(size - off);
    if (!DeviceIoControl((HANDLE)handle, FSCTL_QUERY_ALLOCATED_RANGES, &asked, sizeof(asked),
                         &found, sizeof(found), &returned, NULL) &&
        GetLastError() != ERROR_MORE_DATA)
        return off;
    if (returned < sizeof(found))
        return size;
    uint64_t start = (uint64_t)found.FileOffset.QuadPart;
    return start > off && start <= size ? start : off;
}

/* ---- folders ---- */

/* UTF-8 takes at most three bytes per unit. */
static bool give_name(const WCHAR *wide, kda_dir_fn add, void *context)
{
    char name[MAX_PATH * 3 + 1];
    if (wcscmp(wide, L".") == 0 || wcscmp(wide, L"..") == 0)
        return true;
    if (WideCharToMultiByte(CP_UTF8, 0, wide, -1, name, sizeof(name), NULL, NULL) <= 0)
        return true;
    return add(context, name);
}

enum kda_status kda_os_list(const char *path, kda_dir_fn add, void *context, struct kda_error *err)
{
    static const char all[] = "/*";
    struct reason reason;
    size_t size = strlen(path) + sizeof(all);
    char *pattern = kda_calloc(size, 1);
    if (!pattern)
        return kda_fail(err, KDA_NO_MEMORY, "file", "out of memory reading folder \"%s\"", path);
    (void)snprintf(pattern, size, "%s%s", path, all);
    WCHAR *wide = kda_win_path(pattern);
    kda_free(pattern);
    WIN32_FIND_DATAW found;
    HANDLE search = wide ? FindFirstFileW(wide, &found) : INVALID_HANDLE_VALUE;
    DWORD error = GetLastError();
    kda_free(wide);
    if (search == INVALID_HANDLE_VALUE) {
        if (error == ERROR_NOT_ENOUGH_MEMORY)
            return kda_fail(err, KDA_NO_MEMORY, "file", "out of memory reading folder \"%s\"",
                            path);
        bool absent = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
        return kda_fail(err, absent ? KDA_ABSENT : KDA_IO, "file", "cannot open folder \"%s\": %s",
                        path, words_of(error, &reason));
    }
    while (give_name(found.cFileName, add, context) && FindNextFileW(search, &found))
        continue;
    (void)FindClose(search);
    return KDA_OK;
}

char *kda_cache_folder(bool *named)
{
    WCHAR wide[MAX_PATH * 4];
    const DWORD units = sizeof(wide) / sizeof(wide[0]);
    DWORD count = GetEnvironmentVariableW(L"LOCALAPPDATA", wide, units);
    *named = count > 0 && count < units;
    if (!*named)
        return NULL;
    size_t size = (size_t)count * 3 + 1;
    char *path = kda_calloc(size, 1);
    if (path && WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, (int)size, NULL, NULL) <= 0) {
        kda_free(path);
        return NULL;
    }
    return path;
}

static bool is_separator(char c)
{
    return c == '/' || c == '\\';
}

const char *kda_path_name(const char *path)
{
    const char *name = path;
    for (const char *p = path; *p; p++)
        if (is_separator(*p) || *p == ':')
            name = p + 1;
    return name;
}

bool kda_path_is_foreign(const char *path)
{
    (void)path; /* an absolute path of POSIX is one of Windows too, of the current drive */
    return false;
}

void kda_file_remove(const char *path)
{
    WCHAR *wide = kda_win_path(path);
    if (wide)
        (void)DeleteFileW(wide);
    kda_free(wide);
}

void kda_dir_remove(const char *path)
{
    WCHAR *wide = kda_win_path(path);
    if (wide)
        (void)RemoveDirectoryW(wide);
    kda_free(wide);
}

static enum kda_status make_dir(const char *path, struct kda_error *err)
{
    struct reason reason;
    if (kda_fault())
        return kda_fail(err, KDA_IO, "file", "cannot create folder \"%s\": injected fault", path);
    WCHAR *wide = kda_win_path(path);
    bool made = wide && CreateDirectoryW(wide, NULL);
    DWORD error = GetLastError();
    kda_free(wide);
    if (made || is_folder(path))
        return KDA_OK;
    return kda_fail(err, KDA_IO, "file", "cannot create folder \"%s\": %s", path,
                    words_of(error, &reason));
}

enum kda_status kda_dirs_create(const char *path, struct kda_error *err)
{
    if (is_folder(path))
        return KDA_OK;
    char *copy = kda_strdup(path);
    if (!copy)
        return kda_fail(err, KDA_NO_MEMORY, "file", "out of memory creating \"%s\"", path);
    for (char *p = copy + 1; *copy && *p; p++) {
        if (!is_separator(*p) || is_separator(p[-1]) || p[-1] == ':')
            continue;
        char separator = *p;
        *p = '\0';
        /* "\\server" cannot be made and is there: what is missing shows at the last one. */
        if (!is_folder(copy))
            (void)make_dir(copy, NULL);
        *p = separator;
    }
    enum kda_status status = make_dir(copy, err);
    kda_free(copy);
    return status;
}

/* ---- writing ---- */

struct kda_outfile {
    HANDLE handle;
    uint64_t size;
    bool committed;
    char *path;
};

/* Nobody else may open it for writing: that is the lock. */
static enum kda_status open_out(struct kda_outfile *out, struct kda_error *err)
{
    struct reason reason;
    BY_HANDLE_FILE_INFORMATION info;
    if (kda_fault())
        return kda_fail(err, KDA_IO, "file", "cannot write \"%s\": injected fault", out->path);
    out->handle = open_handle(out->path, GENERIC_READ | GENERIC_WRITE | DELETE,
                              FILE_SHARE_READ | FILE_SHARE_DELETE, OPEN_ALWAYS,
                              FILE_ATTRIBUTE_NORMAL | FILE_FLAG_OPEN_REPARSE_POINT);
    if (out->handle == INVALID_HANDLE_VALUE && GetLastError() == ERROR_SHARING_VIOLATION)
        return kda_fail(err, KDA_IO, "file", "\"%s\" is being written by another process",
                        out->path);
    if (out->handle == INVALID_HANDLE_VALUE)
        return kda_fail(err, KDA_IO, "file", "cannot write \"%s\": %s", out->path,
                        last_words(&reason));
    LARGE_INTEGER end = {.QuadPart = 0};
    if (GetFileType(out->handle) != FILE_TYPE_DISK ||
        !GetFileInformationByHandle(out->handle, &info) ||
        (info.dwFileAttributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT)) != 0 ||
        !SetFilePointerEx(out->handle, end, &end, FILE_END))
        return kda_fail(err, KDA_IO, "file", "\"%s\" is not a file that can be written", out->path);
    out->size = (uint64_t)end.QuadPart;
    return KDA_OK;
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
    out->handle = INVALID_HANDLE_VALUE;
    out->path = name;
    enum kda_status status = open_out(out, err);
    if (status != KDA_OK) {
        kda_outfile_close(out, true); /* what was there is not ours to remove */
        return status;
    }
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
    struct reason reason;
    if (kda_fault())
        return kda_fail(err, KDA_IO, "file", "cannot write \"%s\": injected fault", out->path);
    for (size_t done = 0; done < size;) {
        DWORD put = 0, piece = (DWORD)(size - done < PIECE_MAX ? size - done : PIECE_MAX);
        if (!WriteFile(out->handle, p + done, piece, &put, NULL))
            return kda_fail(err, KDA_IO, "file", "cannot write \"%s\": %s", out->path,
                            last_words(&reason));
        if (put == 0)
            return kda_fail(err, KDA_IO, "file", "cannot write \"%s\": the system took no bytes",
                            out->path);
        done += put;
        out->size += put;
    }
    return KDA_OK;
}

enum kda_status kda_outfile_reset(struct kda_outfile *out, struct kda_error *err)
{
    struct reason reason;
    const LARGE_INTEGER start = {.QuadPart = 0};
    if (kda_fault() || !SetFilePointerEx(out->handle, start, NULL, FILE_BEGIN) ||
        !SetEndOfFile(out->handle))
        return kda_fail(err, KDA_IO, "file", "cannot empty \"%s\": %s", out->path,
                        last_words(&reason));
    out->size = 0;
    return KDA_OK;
}

enum kda_status kda_outfile_commit(struct kda_outfile *out, const char *target,
                                   struct kda_error *err)
{
    struct reason reason;
    if (kda_fault() || !FlushFileBuffers(out->handle))
        return kda_fail(err, KDA_IO, "file", "cannot flush \"%s\": %s", out->path,
                        last_words(&reason));
    WCHAR *from = kda_win_path(out->path), *to = kda_win_path(target);
    bool moved = from && to && !kda_fault() && MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING);
    DWORD error = GetLastError();
    kda_free(from);
    kda_free(to);
    if (!moved)
        return kda_fail(err, KDA_IO, "file", "cannot move \"%s\" to \"%s\": %s", out->path, target,
                        words_of(error, &reason));
    out->committed = true;
    return KDA_OK;
}

void kda_outfile_close(struct kda_outfile *out, bool keep)
{
    if (!out)
        return;
    FILE_DISPOSITION_INFO gone = {TRUE};
    /* By the handle, so that no one else's new file is hit. */
    if (!keep && !out->committed && out->handle != INVALID_HANDLE_VALUE)
        (void)SetFileInformationByHandle(out->handle, FileDispositionInfo, &gone, sizeof(gone));
    if (out->handle != INVALID_HANDLE_VALUE)
        (void)CloseHandle(out->handle);
    kda_free(out->path);
    kda_free(out);
}
