/*
 * win_text.h - UTF-8 and the UTF-16 of Windows, and its words for errors. Built for Windows only.
 */
#ifndef KDA_CLI_WIN_TEXT_H
#define KDA_CLI_WIN_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

/* Both return fresh memory (free), NULL when there is none or the text is not valid. */
wchar_t *win_wide(const char *text);
char *win_utf8(const wchar_t *wide);

/* The absolute path in the form that has no limit of length where it is needed; malloc. */
wchar_t *win_path(const char *path);

/* The system's words for an error of GetLastError, in English where it has them. Returns `text`. */
const char *win_error_text(uint32_t error, char *text, size_t cap);

#endif
