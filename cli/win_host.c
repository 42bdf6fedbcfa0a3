/*
 * win_host.c - the table of the Windows host, its files and Ctrl-C.
 */
#include "win_host.h"

#include <stdlib.h>
#include <string.h>

#include "control.h"
#include "base/text_win.h"

/* Windows ends the process when the handler of a closed window returns; the run needs a moment. */
#define CLOSE_MS 4000u
#define DIRECTORY_NOT_SUPPORTED 336u /* ERROR_DIRECTORY_NOT_SUPPORTED, which mingw lacks */

static struct win_host the_host;

static BOOL WINAPI on_control(DWORD what)
{
    (void)SetEvent(the_host.interrupt);
    if (what != CTRL_C_EVENT && what != CTRL_BREAK_EVENT)
        Sleep(CLOSE_MS);
    return TRUE;
}

static void interrupt_catch(void *context)
{
    struct win_host *host = context;
    if (host->interrupt)
        return;
    host->interrupt = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (!host->interrupt)
        return; /* then Ctrl-C ends the run as ever */
    /* A program that was started with Ctrl-C ignored gets it back: it is how this run ends. */
    (void)SetConsoleCtrlHandler(NULL, FALSE);
    (void)SetConsoleCtrlHandler(on_control, TRUE);
}

static bool interrupted(void *context)
{
    const struct win_host *host = context;
    return host->interrupt && WaitForSingleObject(host->interrupt, 0) == WAIT_OBJECT_0;
}

static uint32_t driver_path(void *context, char **path)
{
    wchar_t wide[MAX_PATH + 64];
    static const wchar_t below[] = L"\\drivers\\";
    (void)context;
    UINT count = GetSystemDirectoryW(wide, MAX_PATH);
    wchar_t *name = kda_win_wide(control_service);
    if (count == 0 || count >= MAX_PATH || !name || wcslen(name) > 40) {
        free(name);
        return HOST_PATH_NOT_FOUND;
    }
    memcpy(wide + count, below, sizeof(below));
    (void)wcscat(wide, name);
    (void)wcscat(wide, L".sys");
    free(name);
    *path = kda_win_utf8(wide);
    return *path ? HOST_OK : HOST_NO_MEMORY;
}

static uint32_t own_folder(void *context, char **path)
{
    (void)context;
    const DWORD units = 32768;
    wchar_t *wide = malloc(units * sizeof(*wide));
    DWORD count = wide ? GetModuleFileNameW(NULL, wide, units) : 0;
    wchar_t *slash = count > 0 && count < units ? wcsrchr(wide, L'\\') : NULL;
    if (slash)
        *slash = L'\0';
    *path = slash ? kda_win_utf8(wide) : NULL;
    free(wide);
    return *path ? HOST_OK : HOST_PATH_NOT_FOUND;
}

static uint32_t file_copy(void *context, const char *from, const char *to)
{
    (void)context;
    wchar_t *source = kda_win_path(from), *target = kda_win_path(to);
    uint32_t error = HOST_NO_MEMORY;
    DWORD attributes = source ? GetFileAttributesW(source) : INVALID_FILE_ATTRIBUTES;
    if (attributes != INVALID_FILE_ATTRIBUTES && attributes & FILE_ATTRIBUTE_DIRECTORY) {
        error = DIRECTORY_NOT_SUPPORTED; /* copying one says that access is denied */
    } else if (source && target) {
        /* What is marked read-only, as all is on a disc, could be neither replaced nor deleted. */
        (void)SetFileAttributesW(target, FILE_ATTRIBUTE_NORMAL);
        error =
            CopyFileW(source, target, FALSE) && SetFileAttributesW(target, FILE_ATTRIBUTE_NORMAL)
                ? HOST_OK
                : GetLastError();
    }
    free(source);
    free(target);
    return error;
}

static uint32_t file_delete(void *context, const char *path)
{
    (void)context;
    wchar_t *wide = kda_win_path(path);
    uint32_t error = HOST_NO_MEMORY;
    if (wide) {
        /* What is marked read-only cannot be deleted. */
        (void)SetFileAttributesW(wide, FILE_ATTRIBUTE_NORMAL);
        error = DeleteFileW(wide) ? HOST_OK : GetLastError();
    }
    free(wide);
    return error;
}

static uint32_t file_rename(void *context, const char *from, const char *to)
{
    (void)context;
    wchar_t *source = kda_win_path(from), *target = kda_win_path(to);
    uint32_t error = HOST_NO_MEMORY;
    if (source && target)
        error = MoveFileExW(source, target, 0) ? HOST_OK : GetLastError();
    free(source);
    free(target);
    return error;
}

static const struct host_ops ops = {
    .context = &the_host,
    .service_query = win_service_query,
    .service_create = win_service_create,
    .service_start = win_service_start,
    .service_stop = win_service_stop,
    .service_delete = win_service_delete,
    .driver_path = driver_path,
    .own_folder = own_folder,
    .file_copy = file_copy,
    .file_delete = file_delete,
    .file_rename = file_rename,
    .texts_read = win_texts_read,
    .texts_write = win_texts_write,
    .device_open = win_device_open,
    .device_close = win_device_close,
    .device_control = win_device_control,
    .device_read = win_device_read,
    .interrupt_catch = interrupt_catch,
    .interrupted = interrupted,
    .memory = win_memory,
    .disk_free = win_disk_free,
    .dump_start = win_dump_start,
    .dump_poll = win_dump_poll,
    .dump_cancel = win_dump_cancel,
    .dump_end = win_dump_end,
    .error_text = kda_win_error_text,
};

const struct host_ops *host_system(void)
{
    return &ops;
}
