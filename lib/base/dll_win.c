#include <windows.h>

#include "dll_win.h"

#include <string.h>

bool kda_dll_functions(const wchar_t *dll, const char *const *names, size_t count, void *table)
{
    HMODULE module = LoadLibraryExW(dll, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
    for (size_t i = 0; i < count; i++) {
        FARPROC function = module ? GetProcAddress(module, names[i]) : NULL;
        if (!function)
            return false;
        memcpy((char *)table + i * sizeof(function), &function, sizeof(function));
    }
    return true;
}
