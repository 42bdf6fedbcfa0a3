/*
 * win_device.c - the driver's device: requests and overlapped reads.
 */
#include "win_host.h"

#include <stdlib.h>

#include "control.h"
#include "base/text_win.h"

uint32_t win_device_open(void *context, bool write)
{
    struct win_host *host = context;
    wchar_t *path = kda_win_wide(control_device);
    host->device_event = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (!path || !host->device_event) {
        free(path);
        return HOST_NO_MEMORY;
    }
    host->device =
        CreateFileW(path, GENERIC_READ | (write ? GENERIC_WRITE : 0),
                    FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING,
                    FILE_FLAG_OVERLAPPED | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION, NULL);
    uint32_t error = host->device == INVALID_HANDLE_VALUE ? GetLastError() : HOST_OK;
    free(path);
    if (error != HOST_OK) {
        (void)CloseHandle(host->device_event);
        host->device_event = NULL;
        host->device = NULL;
    }
    return error;
}

void win_device_close(void *context)
{
    struct win_host *host = context;
    (void)CloseHandle(host->device);
    (void)CloseHandle(host->device_event);
    host->device = host->device_event = NULL;
}

uint32_t win_device_control(void *context, uint32_t code, const void *in, size_t in_size, void *out,
                            size_t out_size, size_t *returned)
{
    const struct win_host *host = context;
    OVERLAPPED place = {.hEvent = host->device_event};
    DWORD got = 0;
    BOOL good = DeviceIoControl(host->device, code, (void *)(uintptr_t)in, (DWORD)in_size, out,
                                (DWORD)out_size, &got, &place);
    if (!good && GetLastError() == ERROR_IO_PENDING)
        good = GetOverlappedResult(host->device, &place, &got, TRUE);
    *returned = got;
    return good ? HOST_OK : GetLastError();
}

/* The buffer belongs to the driver until the read is over, also when it is cancelled; what came at
 * the last moment is not thrown away. */
static uint32_t wait_for_read(const struct win_host *host, OVERLAPPED *place, DWORD *got)
{
    const HANDLE either[] = {place->hEvent, host->interrupt};
    const DWORD count = host->interrupt ? 2 : 1;
    bool cancelled = WaitForMultipleObjects(count, either, FALSE, INFINITE) != WAIT_OBJECT_0;
    if (cancelled)
        (void)CancelIoEx(host->device, place);
    if (GetOverlappedResult(host->device, place, got, TRUE))
        return HOST_OK;
    return cancelled && GetLastError() == ERROR_OPERATION_ABORTED ? HOST_CANCELLED : GetLastError();
}

uint32_t win_device_read(void *context, void *buffer, size_t capacity, size_t *size)
{
    const struct win_host *host = context;
    OVERLAPPED place = {.hEvent = host->device_event};
    DWORD got = 0;
    uint32_t error = HOST_OK;
    if (host->interrupt && WaitForSingleObject(host->interrupt, 0) == WAIT_OBJECT_0)
        return HOST_CANCELLED;
    if (!ReadFile(host->device, buffer, (DWORD)capacity, &got, &place))
        error = GetLastError();
    if (error == HOST_OK && got == 0) /* done at once: the count is in the block */
        error = GetOverlappedResult(host->device, &place, &got, TRUE) ? HOST_OK : GetLastError();
    if (error == ERROR_IO_PENDING)
        error = wait_for_read(host, &place, &got);
    *size = got;
    return error;
}
