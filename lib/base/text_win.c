/*
 * text_win.c - what every file that talks to Windows needs: its texts, its paths, its errors.
 */
#include <windows.h>

#include "text_win.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"

/* Longer paths need the form that Windows does not look into; folders may have 12 less than files,
 * for a name of DOS. */
#define PLAIN_PATH_MAX 240u
#define PATH_UNITS_MAX 32767u

wchar_t *kda_win_wide(const char *text)
{
    int units = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = units > 0 ? kda_calloc((size_t)units, sizeof(*wide)) : NULL;
    if (wide)
        (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, units);
    else if (units > 0)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    return wide;
}

static char *to_utf8(const wchar_t *wide, DWORD flags)
{
    int size = WideCharToMultiByte(CP_UTF8, flags, wide, -1, NULL, 0, NULL, NULL);
    char *text = size > 0 ? kda_calloc((size_t)size, 1) : NULL;
    if (text)
        (void)WideCharToMultiByte(CP_UTF8, flags, wide, -1, text, size, NULL, NULL);
    else if (size > 0)
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    return text;
}

char *kda_win_utf8(const wchar_t *wide)
{
    return to_utf8(wide, 0);
}

char *kda_win_utf8_exact(const wchar_t *wide)
{
    return to_utf8(wide, WC_ERR_INVALID_CHARS);
}

/* The absolute path behind "\\?\", which lifts the limit of 260. */
static wchar_t *extended(const wchar_t *path, DWORD units)
{
    static const wchar_t plain[] = L"\\\\?\\", share[] = L"\\\\?\\UNC\\";
    const size_t room = sizeof(share) / sizeof(share[0]) - 1;
    wchar_t *full = kda_calloc((size_t)units + room + 1, sizeof(*full));
    if (!full) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return NULL;
    }
    DWORD count = GetFullPathNameW(path, units, full + room, NULL);
    if (count == 0 || count >= units) {
        kda_free(full);
        return NULL;
    }
    wchar_t *body = full + room;
    const bool unc = body[0] == L'\\' && body[1] == L'\\';
    /* "//?/" has become what it means. */
    const bool done = unc && (body[2] == L'?' || body[2] == L'.') && body[3] == L'\\';
    /* Two of "\\server" are part of the prefix. */
    const wchar_t *from = unc && !done ? body + 2 : body;
    const wchar_t *prefix = done ? L"" : unc ? share : plain;
    size_t length = wcslen(prefix);
    memmove(full + length, from, (wcslen(from) + 1) * sizeof(*full));
    memcpy(full, prefix, length * sizeof(*full));
    return full;
}

/* Behind "\\?\" the system looks at nothing, and does not take '/' for what separates folders. No
 * name holds one, so that it is meant as everywhere else. */
static bool is_extended(wchar_t *wide)
{
    if (wcsncmp(wide, L"\\\\?\\", 4) != 0)
        return false;
    for (wchar_t *p = wide; *p; p++)
        if (*p == L'/')
            *p = L'\\';
    return true;
}

wchar_t *kda_win_path(const char *path)
{
    wchar_t *wide = kda_win_wide(path);
    if (!wide)
        return NULL;
    const bool done = is_extended(wide) || wcsncmp(wide, L"\\\\.\\", 4) == 0;
    DWORD units = done ? 0 : GetFullPathNameW(wide, 0, NULL, NULL);
    if (done || units < PLAIN_PATH_MAX || units > PATH_UNITS_MAX)
        return wide;
    wchar_t *full = extended(wide, units + 1);
    kda_free(wide);
    return full;
}

const char *kda_win_error_text(uint32_t error, char *text, size_t cap)
{
    wchar_t wide[256];
    const DWORD flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
    const DWORD units = sizeof(wide) / sizeof(wide[0]);
    DWORD count = FormatMessageW(flags, NULL, error, MAKELANGID(LANG_ENGLISH, SUBLANG_ENGLISH_US),
                                 wide, units, NULL);
    if (count == 0)
        count = FormatMessageW(flags, NULL, error, 0, wide, units, NULL);
    while (count > 0 && (wide[count - 1] <= L' ' || wide[count - 1] == L'.'))
        count--;
    wide[count < units ? count : units - 1] = L'\0';
    char *words = count > 0 ? kda_win_utf8(wide) : NULL;
    if (words)
        (void)snprintf(text, cap, "%s (error %lu)", words, (unsigned long)error);
    else
        (void)snprintf(text, cap, "error %lu", (unsigned long)error);
    kda_free(words);
    return text;
}
