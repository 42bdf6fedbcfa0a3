/*
 * win_registry.c - lists of texts among the driver's parameters.
 */
#include "win_host.h"

#include <stdlib.h>
#include <string.h>

#include "base/text_win.h"

#define SERVICE_KEY L"SYSTEM\\CurrentControlSet\\Services\\kdamonitor"
#define PARAMETERS L"Parameters"
#define VALUE_MAX_BYTES 65536u
/* The driver reads 64 KiB with the 12 bytes in front of the data. Source:
 * KEY_VALUE_PARTIAL_INFORMATION. */
#define WRITTEN_MAX_BYTES (VALUE_MAX_BYTES - 12)

/* What is no text is refused: it would be another one when it is written back. */
static uint32_t add(struct host_texts *texts, const wchar_t *wide)
{
    char **items = realloc(texts->items, (texts->count + 1) * sizeof(*items));
    char *text = items ? kda_win_utf8_exact(wide) : NULL;
    uint32_t error = items ? HOST_OK : HOST_NO_MEMORY;
    if (items)
        texts->items = items;
    if (items && !text)
        error = GetLastError();
    if (error == HOST_OK)
        items[texts->count++] = text;
    return error;
}

/* Whatever the value ends with: the buffer ends with two more zeros. */
static uint32_t split(const wchar_t *value, size_t units, struct host_texts *texts)
{
    uint32_t error = HOST_OK;
    for (size_t at = 0; error == HOST_OK && at < units; at += wcslen(value + at) + 1)
        if (value[at] != L'\0')
            error = add(texts, value + at);
    if (error != HOST_OK)
        host_texts_free(texts);
    return error;
}

uint32_t win_texts_read(void *context, const char *name, struct host_texts *texts)
{
    (void)context;
    HKEY key;
    LSTATUS error =
        RegOpenKeyExW(HKEY_LOCAL_MACHINE, SERVICE_KEY L"\\" PARAMETERS, 0, KEY_QUERY_VALUE, &key);
    if (error != ERROR_SUCCESS)
        return (uint32_t)error;
    wchar_t *wide = kda_win_wide(name), *value = calloc(1, VALUE_MAX_BYTES + 2 * sizeof(*value));
    DWORD type = 0, size = VALUE_MAX_BYTES;
    error = ERROR_NOT_ENOUGH_MEMORY;
    if (wide && value)
        error = RegQueryValueExW(key, wide, NULL, &type, (BYTE *)value, &size);
    uint32_t result = (uint32_t)error;
    if (error == ERROR_SUCCESS && type != REG_MULTI_SZ && type != REG_SZ)
        result = ERROR_INVALID_DATATYPE;
    if (result == HOST_OK)
        result = split(value, size / sizeof(*value), texts);
    free(wide);
    free(value);
    (void)RegCloseKey(key);
    return result;
}

/* The texts one behind the other, each with a NUL, and one more. */
static uint32_t join(const struct host_texts *texts, wchar_t **ret, DWORD *bytes)
{
    wchar_t *value = calloc(1, VALUE_MAX_BYTES);
    size_t units = 0, most = WRITTEN_MAX_BYTES / sizeof(*value) - 1;
    uint32_t error = value ? HOST_OK : HOST_NO_MEMORY;
    for (size_t i = 0; error == HOST_OK && i < texts->count; i++) {
        wchar_t *wide = kda_win_wide(texts->items[i]);
        size_t length = wide ? wcslen(wide) + 1 : 0;
        if (!wide)
            error = ERROR_NO_UNICODE_TRANSLATION;
        else if (length > most - units)
            error = ERROR_BUFFER_OVERFLOW;
        else
            memcpy(value + units, wide, length * sizeof(*value));
        units += length;
        free(wide);
    }
    if (error != HOST_OK) {
        free(value);
        return error;
    }
    *ret = value;
    *bytes = (DWORD)((units + 1) * sizeof(*value));
    return HOST_OK;
}

uint32_t win_texts_write(void *context, const char *name, const struct host_texts *texts)
{
    (void)context;
    HKEY service = NULL, key = NULL;
    wchar_t *value = NULL, *wide = kda_win_wide(name);
    DWORD bytes = 0;
    uint32_t error = wide ? join(texts, &value, &bytes) : HOST_NO_MEMORY;
    /* The key of the service must be there: it would not be made one by its parameters. */
    if (error == HOST_OK)
        error = (uint32_t)RegOpenKeyExW(HKEY_LOCAL_MACHINE, SERVICE_KEY, 0, KEY_CREATE_SUB_KEY,
                                        &service);
    if (error == HOST_OK)
        error = (uint32_t)RegCreateKeyExW(service, PARAMETERS, 0, NULL, 0, KEY_SET_VALUE, NULL,
                                          &key, NULL);
    if (error == HOST_OK)
        error = (uint32_t)RegSetValueExW(key, wide, 0, REG_MULTI_SZ, (const BYTE *)value, bytes);
    if (key)
        (void)RegCloseKey(key);
    if (service)
        (void)RegCloseKey(service);
    free(value);
    free(wide);
    return error;
}
