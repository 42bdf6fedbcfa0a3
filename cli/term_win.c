/*
 * term_win.c - the platform is Windows: UTF-16 outside, UTF-8 inside, bytes as they are.
 */
#include <windows.h>
#include <psapi.h>
#include <shellapi.h>

#include "term.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_win.h"

#define STREAM_BUFFER 4096
#define CONSOLE_PIECE 4096
#define VARIABLES 8
#define VARIABLE_UNITS_MAX 32767u

static HANDLE handle_of(FILE *file)
{
    return (HANDLE)_get_osfhandle(_fileno(file));
}

/* Only a console that takes escape sequences counts: there is nothing else to know a terminal for.
 */
bool term_is_terminal(FILE *file)
{
    DWORD mode;
    HANDLE handle = handle_of(file);
    if (!GetConsoleMode(handle, &mode))
        return false;
    return (mode & ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0 ||
           SetConsoleMode(handle, mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0;
}

unsigned term_width(FILE *file)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    if (GetConsoleScreenBufferInfo(handle_of(file), &info)) {
        int columns = info.srWindow.Right - info.srWindow.Left + 1;
        if (columns >= 20)
            return (unsigned)columns;
    }
    return 80;
}

/* Bytes of a character that are still to come, at most three; the character's first ones wait. */
static size_t torn_tail(const char *bytes, size_t size)
{
    for (size_t back = 1; back <= 3 && back <= size; back++) {
        unsigned char c = (unsigned char)bytes[size - back];
        if (c >= 0xc0)
            return (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) > back ? back : 0;
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* One piece of whole characters: PIECE bytes give no more units. */
static bool console_write(HANDLE console, const char *bytes, size_t size)
{
    wchar_t wide[CONSOLE_PIECE];
    DWORD done = 0, put;
    int units = MultiByteToWideChar(CP_UTF8, 0, bytes, (int)size, wide, CONSOLE_PIECE);
    while (units > 0 && done < (DWORD)units) {
        if (!WriteConsoleW(console, wide + done, (DWORD)units - done, &put, NULL) || put == 0)
            return false;
        done += put;
    }
    return units > 0 || size == 0;
}

/* The console's own code page takes bytes one write at a time, and a character that lies in two
 * becomes two that are none. */
size_t term_write(FILE *file, const char *bytes, size_t size)
{
    static char piece[CONSOLE_PIECE];
    static size_t kept;
    DWORD mode;
    if (!GetConsoleMode(handle_of(file), &mode))
        return fwrite(bytes, 1, size, file);
    if (fflush(file) != 0)
        return 0;
    for (size_t done = 0; done < size;) {
        size_t more = sizeof(piece) - kept < size - done ? sizeof(piece) - kept : size - done;
        memcpy(piece + kept, bytes + done, more);
        done += more;
        size_t tail = torn_tail(piece, kept + more), whole = kept + more - tail;
        if (!console_write(handle_of(file), piece, whole)) {
            errno = EIO;
            return done - more;
        }
        memmove(piece, piece + whole, tail);
        kept = tail;
    }
    return size;
}

double term_seconds(void)
{
    LARGE_INTEGER now, frequency;
    if (!QueryPerformanceCounter(&now) || !QueryPerformanceFrequency(&frequency))
        return 0.0;
    return (double)now.QuadPart / (double)frequency.QuadPart;
}

void term_sleep_ms(unsigned milliseconds)
{
    Sleep(milliseconds);
}

uint64_t term_peak_kib(void)
{
    PROCESS_MEMORY_COUNTERS counters;
    if (!GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof(counters)))
        return 0;
    return counters.PeakWorkingSetSize / 1024;
}

unsigned term_process_id(void)
{
    return (unsigned)GetCurrentProcessId();
}

/* A pipe that nobody reads any more has three errors. The C library knows one of them, and calls
 * the others, those of a write, an invalid argument. */
int term_last_error(void)
{
    const unsigned long system = _doserrno;
    if (errno == EINVAL && (system == ERROR_NO_DATA || system == ERROR_BROKEN_PIPE ||
                            system == ERROR_PIPE_NOT_CONNECTED))
        return EPIPE;
    return errno ? errno : EIO;
}

const char *term_error_text(int error)
{
    return strerror(error);
}

bool term_error_exists(int error)
{
    return error == EEXIST;
}

/* ---- start ---- */

static UINT console_page;

static void restore_console(void)
{
    (void)SetConsoleOutputCP(console_page);
}

void term_begin(void)
{
    static char out[STREAM_BUFFER], err[STREAM_BUFFER];
    (void)_setmode(_fileno(stdout), _O_BINARY);
    (void)_setmode(_fileno(stderr), _O_BINARY);
    /* Without a buffer each byte of a character would reach the console by itself. */
    (void)setvbuf(stderr, err, _IOFBF, sizeof(err));
    DWORD mode;
    if (GetConsoleMode(handle_of(stdout), &mode))
        (void)setvbuf(stdout, out, _IOFBF, sizeof(out));
    if (!GetConsoleMode(handle_of(stdout), &mode) && !GetConsoleMode(handle_of(stderr), &mode))
        return;
    console_page = GetConsoleOutputCP();
    if (console_page != CP_UTF8 && SetConsoleOutputCP(CP_UTF8))
        (void)atexit(restore_console);
}

void term_arguments(int *argc, char ***argv)
{
    int count = 0;
    LPWSTR *wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **words = wide ? calloc((size_t)count + 1, sizeof(*words)) : NULL;
    for (int i = 0; words && i < count; i++) {
        words[i] = kda_win_utf8(wide[i]);
        if (!words[i])
            words = NULL; /* no memory for a command line: the one of the C library has to do */
    }
    if (words) {
        *argc = count;
        *argv = words;
    }
    (void)LocalFree(wide);
}

/* Few are asked for, and each must stay valid. */
const char *term_variable(const char *name)
{
    static struct {
        const char *name;
        char *value;
    } known[VARIABLES];
    for (size_t i = 0; i < VARIABLES; i++) {
        if (known[i].name && strcmp(known[i].name, name) == 0)
            return known[i].value;
        if (known[i].name)
            continue;
        wchar_t *wide_name = kda_win_wide(name);
        wchar_t *wide = calloc(VARIABLE_UNITS_MAX + 1, sizeof(*wide));
        SetLastError(ERROR_SUCCESS);
        if (wide_name && wide &&
            (GetEnvironmentVariableW(wide_name, wide, VARIABLE_UNITS_MAX) != 0 ||
             GetLastError() == ERROR_SUCCESS))
            known[i].value = kda_win_utf8(wide);
        known[i].name = name;
        free(wide_name);
        free(wide);
        return known[i].value;
    }
    return NULL;
}

/* ---- files ---- */

bool term_is_broken_pipe(int error)
{
    return error == EPIPE;
}

static DWORD attributes_of(const char *path)
{
    wchar_t *wide = kda_win_path(path);
    DWORD attributes = wide ? GetFileAttributesW(wide) : INVALID_FILE_ATTRIBUTES;
    free(wide);
    return attributes;
}

static HANDLE open_to_examine(const char *path, DWORD flags)
{
    wchar_t *wide = kda_win_path(path);
    if (!wide)
        return INVALID_HANDLE_VALUE;
    HANDLE handle = CreateFileW(wide, FILE_READ_ATTRIBUTES,
                                FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                OPEN_EXISTING, flags | FILE_FLAG_BACKUP_SEMANTICS, NULL);
    free(wide);
    return handle;
}

/* The path behind links. */
static char *final_path(HANDLE handle)
{
    DWORD units = GetFinalPathNameByHandleW(handle, NULL, 0, FILE_NAME_NORMALIZED);
    wchar_t *wide = units > 0 ? malloc(((size_t)units + 1) * sizeof(*wide)) : NULL;
    DWORD count =
        wide ? GetFinalPathNameByHandleW(handle, wide, units + 1, FILE_NAME_NORMALIZED) : 0;
    char *path = count > 0 && count <= units ? kda_win_utf8(wide) : NULL;
    free(wide);
    return path;
}

char *term_resolve(const char *path, bool *replaceable)
{
    DWORD attributes = attributes_of(path);
    char *real = NULL;
    if (attributes == INVALID_FILE_ATTRIBUTES) {
        /* Nothing there, or a device ("\\.\pipe\x"); "NUL" has the attributes of a file. */
        *replaceable = strncmp(path, "\\\\.\\", 4) != 0;
        return _strdup(path);
    }
    HANDLE handle = open_to_examine(path, 0);
    *replaceable = (attributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_DEVICE)) == 0 &&
                   handle != INVALID_HANDLE_VALUE && GetFileType(handle) == FILE_TYPE_DISK;
    if (*replaceable && (attributes & FILE_ATTRIBUTE_REPARSE_POINT))
        real = final_path(handle); /* so that the file behind the link is replaced, not the link */
    if (handle != INVALID_HANDLE_VALUE)
        (void)CloseHandle(handle);
    return real ? real : _strdup(path);
}

bool term_same_file(const char *a, const char *b)
{
    BY_HANDLE_FILE_INFORMATION x, y;
    HANDLE one = open_to_examine(a, 0), other = open_to_examine(b, 0);
    bool same = one != INVALID_HANDLE_VALUE && other != INVALID_HANDLE_VALUE &&
                GetFileInformationByHandle(one, &x) && GetFileInformationByHandle(other, &y) &&
                x.dwVolumeSerialNumber == y.dwVolumeSerialNumber &&
                x.nFileIndexHigh == y.nFileIndexHigh && x.nFileIndexLow == y.nFileIndexLow;
    if (one != INVALID_HANDLE_VALUE)
        (void)CloseHandle(one);
    if (other != INVALID_HANDLE_VALUE)
        (void)CloseHandle(other);
    return same;
}

bool term_may_replace(const char *path)
{
    DWORD attributes = attributes_of(path);
    bool may = attributes == INVALID_FILE_ATTRIBUTES || !(attributes & FILE_ATTRIBUTE_READONLY);
    if (!may)
        errno = EACCES;
    return may;
}

void term_take_mode(FILE *file, const char *from)
{
    (void)file; /* rights come from the folder here; a new file has those of its neighbours */
    (void)from;
}

/* What the C library's words are for the failures that matter. */
static int errno_of(DWORD error)
{
    switch (error) {
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS:
        return EEXIST;
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
        return ENOENT;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return EACCES;
    case ERROR_DISK_FULL:
        return ENOSPC;
    case ERROR_NOT_ENOUGH_MEMORY:
        return ENOMEM;
    default:
        return EIO;
    }
}

/* Not _wopen: a file that it opens cannot be removed before it is closed, which an interrupted run
 * has to do. */
static FILE *open_file(const char *path, DWORD how)
{
    wchar_t *wide = kda_win_path(path);
    HANDLE handle = INVALID_HANDLE_VALUE;
    if (wide)
        handle = CreateFileW(wide, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, how,
                             FILE_ATTRIBUTE_NORMAL, NULL);
    DWORD error = GetLastError();
    free(wide);
    if (handle == INVALID_HANDLE_VALUE) {
        errno = errno_of(error);
        return NULL;
    }
    int fd = _open_osfhandle((intptr_t)handle, _O_WRONLY | _O_BINARY);
    FILE *file = fd >= 0 ? _fdopen(fd, "wb") : NULL;
    if (!file && fd >= 0)
        (void)_close(fd);
    else if (!file)
        (void)CloseHandle(handle);
    return file;
}

FILE *term_create(const char *path)
{
    return open_file(path, CREATE_NEW);
}

FILE *term_open_to_write(const char *path)
{
    return open_file(path, OPEN_EXISTING);
}

void term_remove(const char *path)
{
    wchar_t *wide = kda_win_path(path);
    if (wide)
        (void)DeleteFileW(wide);
    free(wide);
}

bool term_rename(const char *from, const char *to)
{
    wchar_t *old = kda_win_path(from), *new = kda_win_path(to);
    bool good = old && new &&MoveFileExW(old, new, MOVEFILE_REPLACE_EXISTING);
    DWORD error = GetLastError();
    free(old);
    free(new);
    if (!good)
        errno = errno_of(error);
    return good;
}

bool term_is_folder(const char *path)
{
    DWORD attributes = attributes_of(path);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY);
}

bool term_make_folder(const char *path)
{
    wchar_t *wide = kda_win_path(path);
    bool made = wide && CreateDirectoryW(wide, NULL);
    DWORD error = GetLastError();
    free(wide);
    if (!made && !term_is_folder(path)) {
        errno = errno_of(error);
        return false;
    }
    return true;
}

bool term_exists(const char *path)
{
    return attributes_of(path) != INVALID_FILE_ATTRIBUTES;
}

/* ---- interruption ---- */

/* The handler runs in a thread of its own and can only reach a global: the one of the tool. */
static wchar_t *volatile remove_path[TERM_TEMPORARIES];

static BOOL WINAPI on_control(DWORD what)
{
    (void)what;
    for (size_t i = 0; i < TERM_TEMPORARIES; i++) {
        const wchar_t *path = remove_path[i];
        if (path)
            (void)DeleteFileW(path);
    }
    return FALSE; /* the next handler ends the process */
}

static void handle_interruption(void)
{
    bool any = false;
    for (size_t i = 0; i < TERM_TEMPORARIES; i++)
        any |= remove_path[i] != NULL;
    (void)SetConsoleCtrlHandler(on_control, any);
}

void term_remove_on_signal(const char *path)
{
    for (size_t i = 0; i < TERM_TEMPORARIES; i++) {
        if (remove_path[i])
            continue;
        remove_path[i] = kda_win_path(path);
        break;
    }
    handle_interruption();
}

void term_keep_on_signal(const char *path)
{
    wchar_t *wide = kda_win_path(path);
    for (size_t i = 0; wide && i < TERM_TEMPORARIES; i++)
        if (remove_path[i] && wcscmp(remove_path[i], wide) == 0)
            remove_path[i] = NULL; /* not freed: the handler may be looking at it */
    free(wide);
    handle_interruption();
}
