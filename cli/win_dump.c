/*
 * win_dump.c - live kernel dumps of NtSystemDebugControl.
 */
#include "win_host.h"

#include <psapi.h>
#include <stdlib.h>
#include <string.h>

#include "base/text_win.h"

#define LIVE_KERNEL_DUMP 37 /* SysDbgGetLiveKernelDump; Source: docs/windows.md */

typedef LONG(NTAPI *system_debug_control_fn)(ULONG command, PVOID in, ULONG in_size, PVOID out,
                                             ULONG out_size, PULONG returned);

static system_debug_control_fn system_debug_control(void)
{
    system_debug_control_fn function = NULL;
    HMODULE ntdll = GetModuleHandleW(L"ntdll.dll");
    FARPROC found = ntdll ? GetProcAddress(ntdll, "NtSystemDebugControl") : NULL;
    memcpy(&function, &found, sizeof(function));
    return function;
}

uint32_t win_memory(void *context, struct host_memory *memory)
{
    PERFORMANCE_INFORMATION info;
    (void)context;
    if (!GetPerformanceInfo(&info, sizeof(info)))
        return GetLastError();
    memory->physical = (uint64_t)info.PhysicalTotal * info.PageSize;
    memory->pools = (uint64_t)info.KernelTotal * info.PageSize;
    return HOST_OK;
}

uint32_t win_disk_free(void *context, const char *path, uint64_t *bytes)
{
    (void)context;
    ULARGE_INTEGER room;
    uint32_t error = HOST_NO_MEMORY;
    wchar_t *wide = kda_win_path(path);
    DWORD units = wide ? GetFullPathNameW(wide, 0, NULL, NULL) : 0;
    if (wide && units == 0) /* "" is no path */
        error = ERROR_INVALID_NAME;
    wchar_t *full = units > 0 ? malloc((size_t)units * sizeof(*full)) : NULL;
    if (full && GetFullPathNameW(wide, units, full, NULL) < units) {
        wchar_t *slash = wcsrchr(full, L'\\');
        if (slash)
            slash[1] = L'\0'; /* of a folder that is there: the file is not yet */
        error = GetDiskFreeSpaceExW(full, &room, NULL, NULL) ? HOST_OK : GetLastError();
    }
    if (error == HOST_OK)
        *bytes = room.QuadPart;
    free(full);
    free(wide);
    return error;
}

static uint32_t enable_privilege(void)
{
    HANDLE token;
    TOKEN_PRIVILEGES wanted = {.PrivilegeCount = 1};
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES, &token))
        return GetLastError();
    wanted.Privileges[0].Attributes = SE_PRIVILEGE_ENABLED;
    BOOL good = LookupPrivilegeValueW(NULL, SE_DEBUG_NAME, &wanted.Privileges[0].Luid) &&
                AdjustTokenPrivileges(token, FALSE, &wanted, 0, NULL, NULL);
    /* Success also where the token does not have it: then this is ERROR_NOT_ALL_ASSIGNED. */
    DWORD error = GetLastError();
    (void)CloseHandle(token);
    return good || error != ERROR_SUCCESS ? error : ERROR_NOT_ALL_ASSIGNED;
}

static DWORD WINAPI take(void *context)
{
    const struct win_host *host = context;
    return (DWORD)system_debug_control()(LIVE_KERNEL_DUMP, host->dump.control, host->dump.size,
                                         NULL, 0, NULL);
}

static void forget(struct win_host *host)
{
    if (host->dump.thread)
        (void)CloseHandle(host->dump.thread);
    if (host->dump.cancel)
        (void)CloseHandle(host->dump.cancel);
    if (host->dump.file)
        (void)CloseHandle(host->dump.file);
    free(host->dump.path);
    memset(&host->dump, 0, sizeof(host->dump));
}

static uint32_t start(struct win_host *host, const struct host_dump *dump)
{
    host->dump.path = kda_win_path(dump->path);
    host->dump.cancel = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (!host->dump.path || !host->dump.cancel)
        return HOST_NO_MEMORY;
    /* Synchronous, with no one else in the file: what the call asks for. */
    HANDLE file =
        CreateFileW(host->dump.path, GENERIC_READ | GENERIC_WRITE, 0, NULL, CREATE_NEW,
                    FILE_ATTRIBUTE_NORMAL | FILE_FLAG_WRITE_THROUGH | FILE_FLAG_NO_BUFFERING, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return GetLastError();
    host->dump.file = file;
    memcpy(dump->control + dump->file_at, &host->dump.file, sizeof(HANDLE));
    memcpy(dump->control + dump->cancel_at, &host->dump.cancel, sizeof(HANDLE));
    host->dump.control = dump->control;
    host->dump.size = (DWORD)dump->size;
    host->dump.thread = CreateThread(NULL, 0, take, host, 0, NULL);
    if (host->dump.thread)
        return HOST_OK;
    uint32_t error = GetLastError();
    (void)CloseHandle(host->dump.file);
    host->dump.file = NULL;
    (void)DeleteFileW(host->dump.path);
    return error;
}

uint32_t win_dump_start(void *context, const struct host_dump *dump)
{
    struct win_host *host = context;
    if (!system_debug_control())
        return ERROR_PROC_NOT_FOUND;
    uint32_t error = enable_privilege();
    if (error == HOST_OK)
        error = start(host, dump);
    if (error != HOST_OK)
        forget(host);
    return error;
}

/* By the path: the handle is in use by the call, which would have to be waited for. */
void win_dump_poll(void *context, uint64_t *size, bool *done, uint32_t *ntstatus)
{
    const struct win_host *host = context;
    WIN32_FILE_ATTRIBUTE_DATA data;
    DWORD code = 0;
    *size = 0;
    if (GetFileAttributesExW(host->dump.path, GetFileExInfoStandard, &data))
        *size = (uint64_t)data.nFileSizeHigh << 32 | data.nFileSizeLow;
    *done = WaitForSingleObject(host->dump.thread, 0) == WAIT_OBJECT_0;
    if (*done && GetExitCodeThread(host->dump.thread, &code))
        *ntstatus = code;
}

void win_dump_cancel(void *context)
{
    const struct win_host *host = context;
    (void)SetEvent(host->dump.cancel);
}

void win_dump_end(void *context)
{
    forget(context);
}
