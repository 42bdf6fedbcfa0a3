/*
 * text.h - text from hostile memory: UTF-16 and one-byte strings to valid UTF-8, GUIDs, FILETIME.
 */
#ifndef KDA_BASE_TEXT_H
#define KDA_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KDA_GUID_TEXT 39 /* "{xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx}" and NUL */
/* "2026-11-29T22:51:05.1234567Z", NUL, and room the compiler can prove. */
#define KDA_TIME_TEXT 48

/* Bytes of UTF-8 that `units` UTF-16 units can need, without NUL. */
#define KDA_UTF8_MAX(units) ((size_t)(units)*3)

/* Little-endian UTF-16 bytes to UTF-8. Lone surrogates become U+FFFD. Stops at `units`; a NUL
 * ends the text, unless keep_nul: then those at the end are dropped and those inside become U+FFFD,
 * so that a name cannot hide its second half from a reader of C strings. Always NUL-terminates;
 * returns the length without NUL. `cap` must be at least KDA_UTF8_MAX(units) + 1. */
size_t kda_utf16_to_utf8(const void *utf16le, size_t units, bool keep_nul, char *out, size_t cap);

/* One-byte kernel strings (ImageFileName): ends at NUL; bytes >= 0x80 are taken as Latin-1. */
size_t kda_latin1_to_utf8(const void *bytes, size_t size, char *out, size_t cap);

/* Length of the longest valid UTF-8 prefix of `text`. */
size_t kda_utf8_valid_prefix(const char *text, size_t size);

/* Same text when ASCII letters of either case are equal, whatever the locale. */
bool kda_same_nocase(const char *a, const char *b);
int kda_compare_nocase(const char *a, const char *b); /* as strcmp */
bool kda_starts_nocase(const char *text, const char *start);

/* 16 bytes in memory order (little-endian Data1..3) to lower-case text with braces. */
void kda_guid_text(const uint8_t guid[16], char out[KDA_GUID_TEXT]);
/* Accepts with or without braces or dashes, any case; returns false on anything else. */
bool kda_guid_parse(const char *text, uint8_t guid[16]);

/* FILETIME (100 ns since 1601, UTC) to ISO 8601 with 7 digits. Times past year 9999 return false.
 */
bool kda_time_text(uint64_t filetime_100ns, char out[KDA_TIME_TEXT]);

#endif
