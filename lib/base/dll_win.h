/*
 * dll_win.h - functions of DLLs that are looked for in Windows' own folder only.
 *
 * What a program is linked to is looked for beside it first, unless it is one of the few DLLs that
 * Windows protects from that: a file planted in a download folder would run in an elevated tool.
 * Built for Windows only.
 */
#ifndef KDA_BASE_DLL_WIN_H
#define KDA_BASE_DLL_WIN_H

#include <stdbool.h>
#include <stddef.h>

/* Fills `table`, an array of `count` function pointers, with the functions of these names; false
 * when one is missing, with some filled in. The DLL stays loaded. */
bool kda_dll_functions(const wchar_t *dll, const char *const *names, size_t count, void *table);

#endif
