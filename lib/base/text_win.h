/*
 * text_win.h - UTF-8 and the UTF-16 of Windows, paths of any length, the system's words for errors.
 * Built for Windows only; the files of the tool that talk to Windows use it too.
 */
#ifndef KDA_BASE_TEXT_WIN_H
#define KDA_BASE_TEXT_WIN_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* Fresh memory of the C library (free, kda_free). NULL when there is none or the text is not valid;
 * GetLastError tells which. */
wchar_t *kda_win_wide(const char *text);
char *kda_win_utf8(const wchar_t *wide);
/* The same, but NULL with ERROR_NO_UNICODE_TRANSLATION for half of a surrogate pair, in place of
 * U+FFFD. */
char *kda_win_utf8_exact(const wchar_t *wide);

/* A path as the system wants it: absolute and in the form that has no limit of length where it is
 * long, as it is otherwise. Memory and NULL as above. */
wchar_t *kda_win_path(const char *path);

/* The system's words for an error of GetLastError, in English where it has them, and the number.
 * Returns `text`. */
const char *kda_win_error_text(uint32_t error, char *text, size_t cap);

#endif
