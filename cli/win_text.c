#include <windows.h>

#include "win_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As in lib/base/file_win.c, which the tool does not see. */
#define PLAIN_PATH_MAX 240u
#define PATH_UNITS_MAX 32767u

wchar_t *win_wide(const char *text)
{
    int units = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, NULL, 0);
    wchar_t *wide = units > 0 ? malloc((size_t)units * sizeof(*wide)) : NULL;
    if (wide)
        (void)MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, text, -1, wide, units);
    return wide;
}

char *win_utf8(const wchar_t *wide)
{
    int size = WideCharToMultiByte(CP_UTF8, 0, wide, -1, NULL, 0, NULL, NULL);
    char *text = size > 0 ? malloc((size_t)size) : NULL;
    if (text)
        (void)WideCharToMultiByte(CP_UTF8, 0, wide, -1, text, size, NULL, NULL);
    return text;
}

static wchar_t *extended(const wchar_t *path, DWORD units)
{
    static const wchar_t plain[] = L"\\\\?\\", share[] = L"\\\\?\\UNC\\";
    const size_t room = wcslen(share);
    wchar_t *full = malloc((units + room + 1) * sizeof(*full));
    DWORD count = full ? GetFullPathNameW(path, units, full + room, NULL) : 0;
    if (count == 0 || count >= units) {
        free(full);
        return NULL;
    }
    const wchar_t *body = full + room;
    const bool unc = body[0] == L'\\' && body[1] == L'\\';
    const bool done = unc && (body[2] == L'?' || body[2] == L'.') && body[3] == L'\\';
    const wchar_t *from = unc && !done ? body + 2 : body;
    const wchar_t *prefix = done ? L"" : unc ? share : plain;
    memmove(full + wcslen(prefix), from, (wcslen(from) + 1) * sizeof(*full));
    memcpy(full, prefix, wcslen(prefix) * sizeof(*full));
    return full;
}

/* Behind "\\?\" the system takes '/' for a character of a name, and no name may hold it. */
static bool is_extended(wchar_t *wide)
{
    if (wcsncmp(wide, L"\\\\?\\", 4) != 0)
        return false;
    for (wchar_t *p = wide; *p; p++)
        if (*p == L'/')
            *p = L'\\';
    return true;
}

wchar_t *win_path(const char *path)
{
    wchar_t *wide = win_wide(path);
    if (!wide)
        return NULL;
    const bool done = is_extended(wide) || wcsncmp(wide, L"\\\\.\\", 4) == 0;
    DWORD units = done ? 0 : GetFullPathNameW(wide, 0, NULL, NULL);
    if (done || units < PLAIN_PATH_MAX || units > PATH_UNITS_MAX)
        return wide;
    wchar_t *full = extended(wide, units + 1);
    free(wide);
    return full;
}

const char *win_error_text(uint32_t error, char *text, size_t cap)
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
    char *words = count > 0 ? win_utf8(wide) : NULL;
    if (words)
        (void)snprintf(text, cap, "%s (error %lu)", words, (unsigned long)error);
    else
        (void)snprintf(text, cap, "error %lu", (unsigned long)error);
    free(words);
    return text;
}
