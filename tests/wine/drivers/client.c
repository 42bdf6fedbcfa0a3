/*
 * client.c - a program that does what tests say: services, devices, control requests, reads.
 *
 * One order a line from standard input, one answer a line: `ok`, `ok DATA` in hexadecimal, or
 * `error N` with the system's number. Handles are numbered by who orders.
 *
 *   create NAME PATH GROUP | group NAME GROUP
 *   start NAME | stop NAME | delete NAME | state NAME
 *   registry KEY NAME TYPE HEX  sets a value below HKEY_LOCAL_MACHINE
 *   open H PATH ACCESS | close H | ioctl H CODE OUT-BYTES IN-HEX | read H BYTES | until H HEX
 *   wait H BYTES  begins a read and answers; `got H` waits for it; `cancel H` takes it back
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define HANDLES 16
#define LINE_BYTES (1 << 17)
#define READ_BYTES (1 << 20)

struct slot {
    HANDLE handle;
    OVERLAPPED pending;
    unsigned char *buffer;
};

static struct slot slots[HANDLES];
static char line[LINE_BYTES];

static void ok(void)
{
    puts("ok");
}

static void failed(DWORD error)
{
    printf("error %lu\n", (unsigned long)error);
}

static void data(const unsigned char *bytes, size_t count)
{
    fputs("ok ", stdout);
    for (size_t i = 0; i < count; i++)
        printf("%02x", bytes[i]);
    putchar('\n');
}

static char *word(char **rest)
{
    char *start = *rest + strspn(*rest, " ");
    char *end = start + strcspn(start, " ");

    *rest = *end ? end + 1 : end;
    *end = '\0';
    return start;
}

static size_t unhex(const char *text, unsigned char *bytes)
{
    size_t count = strlen(text) / 2;

    for (size_t i = 0; i < count; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        bytes[i] = (unsigned char)strtoul(digits, NULL, 16);
    }
    return count;
}

/* --- services -------------------------------------------------------------------------------- */

static void service_create(SC_HANDLE manager, char *rest)
{
    char *name = word(&rest), *path = word(&rest), *group = word(&rest);
    SC_HANDLE service = CreateServiceA(manager, name, name, SERVICE_ALL_ACCESS,
                                       SERVICE_KERNEL_DRIVER, SERVICE_DEMAND_START,
                                       SERVICE_ERROR_NORMAL, path, group, NULL, NULL, NULL, NULL);

    if (!service) {
        failed(GetLastError());
        return;
    }
    CloseServiceHandle(service);
    ok();
}

static void service_order(const char *order, char *rest)
{
    SC_HANDLE manager = OpenSCManagerA(NULL, NULL, SC_MANAGER_ALL_ACCESS), service;
    SERVICE_STATUS status = {0};
    BOOL done;

    if (!manager) {
        failed(GetLastError());
        return;
    }
    if (!strcmp(order, "create")) {
        service_create(manager, rest);
        CloseServiceHandle(manager);
        return;
    }
    service = OpenServiceA(manager, word(&rest), SERVICE_ALL_ACCESS);
    if (!service) {
        failed(GetLastError());
        CloseServiceHandle(manager);
        return;
    }
    if (!strcmp(order, "group"))
        done =
            ChangeServiceConfigA(service, SERVICE_NO_CHANGE, SERVICE_NO_CHANGE, SERVICE_NO_CHANGE,
                                 NULL, word(&rest), NULL, NULL, NULL, NULL, NULL);
    else if (!strcmp(order, "start"))
        done = StartServiceA(service, 0, NULL);
    else if (!strcmp(order, "stop"))
        done = ControlService(service, SERVICE_CONTROL_STOP, &status);
    else if (!strcmp(order, "delete"))
        done = DeleteService(service);
    else
        done = QueryServiceStatus(service, &status);
    if (!done)
        failed(GetLastError());
    else if (!strcmp(order, "state"))
        printf("ok %lu\n", (unsigned long)status.dwCurrentState);
    else
        ok();
    CloseServiceHandle(service);
    CloseServiceHandle(manager);
}

/* --- registry -------------------------------------------------------------------------------- */

static void registry_set(char *rest)
{
    static unsigned char bytes[LINE_BYTES / 2];
    wchar_t key[512], name[256];
    size_t keys = mbstowcs(key, word(&rest), 511), names = mbstowcs(name, word(&rest), 255);
    DWORD type = (DWORD)strtoul(word(&rest), NULL, 0);
    size_t size = unhex(word(&rest), bytes);
    LSTATUS error = ERROR_INVALID_PARAMETER;

    if (keys < 511 && names < 255) {
        key[keys] = name[names] = L'\0';
        error = RegSetKeyValueW(HKEY_LOCAL_MACHINE, key, name, type, bytes, (DWORD)size);
    }
    if (error == ERROR_SUCCESS)
        ok();
    else
        failed((DWORD)error);
}

/* --- devices --------------------------------------------------------------------------------- */

static void device_open(struct slot *slot, char *rest)
{
    char *path = word(&rest);

    slot->handle =
        CreateFileA(path, (DWORD)strtoul(word(&rest), NULL, 0), FILE_SHARE_READ | FILE_SHARE_WRITE,
                    NULL, OPEN_EXISTING, FILE_FLAG_OVERLAPPED, NULL);
    if (slot->handle == INVALID_HANDLE_VALUE) {
        slot->handle = NULL;
        failed(GetLastError());
    } else {
        memset(&slot->pending, 0, sizeof slot->pending);
        slot->pending.hEvent = CreateEventA(NULL, TRUE, FALSE, NULL);
        ok();
    }
}

static BOOL finish(struct slot *slot, BOOL done, DWORD *count)
{
    if (!done && GetLastError() != ERROR_IO_PENDING)
        return FALSE;
    return GetOverlappedResult(slot->handle, &slot->pending, count, TRUE);
}

static void device_ioctl(struct slot *slot, char *rest)
{
    static unsigned char in[LINE_BYTES / 2], out[1 << 16];
    DWORD code = (DWORD)strtoul(word(&rest), NULL, 0), count = 0;
    DWORD out_bytes = (DWORD)strtoul(word(&rest), NULL, 0);
    size_t in_bytes = unhex(word(&rest), in);

    if (out_bytes > sizeof out)
        out_bytes = sizeof out;
    ResetEvent(slot->pending.hEvent);
    if (finish(slot,
               DeviceIoControl(slot->handle, code, in, (DWORD)in_bytes, out, out_bytes, NULL,
                               &slot->pending),
               &count))
        data(out, count);
    else
        failed(GetLastError());
}

static BOOL begin_read(struct slot *slot, DWORD bytes)
{
    if (!slot->buffer)
        slot->buffer = malloc(READ_BYTES);
    ResetEvent(slot->pending.hEvent);
    return ReadFile(slot->handle, slot->buffer, bytes < READ_BYTES ? bytes : READ_BYTES, NULL,
                    &slot->pending);
}

static void device_read(struct slot *slot, DWORD bytes)
{
    DWORD count = 0;

    if (finish(slot, begin_read(slot, bytes), &count))
        data(slot->buffer, count);
    else
        failed(GetLastError());
}

static int contains(const unsigned char *bytes, size_t count, const unsigned char *what,
                    size_t size)
{
    for (size_t i = 0; i + size <= count; i++) {
        if (!memcmp(bytes + i, what, size))
            return 1;
    }
    return 0;
}

/* Everything up to and with what is looked for. */
static void device_until(struct slot *slot, char *rest)
{
    unsigned char *all = NULL, what[256];
    size_t size = unhex(word(&rest), what), count = 0;

    for (;;) {
        DWORD more = 0;
        if (!finish(slot, begin_read(slot, 65536), &more)) {
            failed(GetLastError());
            break;
        }
        all = realloc(all, count + more + 1);
        memcpy(all + count, slot->buffer, more);
        count += more;
        if (contains(all, count, what, size)) {
            data(all, count);
            break;
        }
    }
    free(all);
}

static void device_order(const char *order, char *rest)
{
    unsigned number = (unsigned)strtoul(word(&rest), NULL, 0);
    struct slot *slot = &slots[number % HANDLES];
    DWORD count = 0;

    if (!strcmp(order, "open")) {
        device_open(slot, rest);
    } else if (!strcmp(order, "ioctl")) {
        device_ioctl(slot, rest);
    } else if (!strcmp(order, "read")) {
        device_read(slot, (DWORD)strtoul(word(&rest), NULL, 0));
    } else if (!strcmp(order, "until")) {
        device_until(slot, rest);
    } else if (!strcmp(order, "wait")) {
        if (begin_read(slot, (DWORD)strtoul(word(&rest), NULL, 0)) ||
            GetLastError() == ERROR_IO_PENDING)
            ok();
        else
            failed(GetLastError());
    } else if (!strcmp(order, "got")) {
        if (GetOverlappedResult(slot->handle, &slot->pending, &count, TRUE))
            data(slot->buffer, count);
        else
            failed(GetLastError());
    } else if (!strcmp(order, "cancel")) {
        if (CancelIoEx(slot->handle, &slot->pending))
            ok();
        else
            failed(GetLastError());
    } else {
        CloseHandle(slot->handle);
        CloseHandle(slot->pending.hEvent);
        slot->handle = NULL;
        ok();
    }
}

int wmain(void)
{
    static const char *const services[] = {"create", "group", "start", "stop", "delete", "state"};

    while (fgets(line, sizeof line, stdin)) {
        char *rest = line, *order;
        int service = 0;
        line[strcspn(line, "\r\n")] = '\0';
        order = word(&rest);
        for (size_t i = 0; i < sizeof services / sizeof *services; i++)
            service = service || !strcmp(order, services[i]);
        if (service)
            service_order(order, rest);
        else if (!strcmp(order, "registry"))
            registry_set(rest);
        else
            device_order(order, rest);
        fflush(stdout);
    }
    return 0;
}
