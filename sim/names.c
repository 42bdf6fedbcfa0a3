/*
 * names.c - names of files: wildcards, and the way from the host's UTF-8 to UTF-16.
 */
#include "io.h"

#include <strings.h>

bool sim_name_matches(const char *pattern, const char *name)
{
    for (; *pattern && *pattern != '*'; pattern++, name++) {
        if (!*name || (*pattern != '?' && strncasecmp(pattern, name, 1) != 0))
            return false;
    }
    if (!*pattern)
        return !*name;
    for (pattern++;; name++) {
        if (sim_name_matches(pattern, name))
            return true;
        if (!*name)
            return false;
    }
}

size_t sim_name_to_utf16(const char *text, uint16_t *out)
{
    const uint8_t *at = (const uint8_t *)text;
    size_t used = 0;

    while (*at) {
        uint32_t c = *at++;
        int more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : c >= 0xC0 ? 1 : 0;
        c &= more == 3 ? 7u : more == 2 ? 15u : more == 1 ? 31u : 127u;
        for (; more > 0 && (*at & 0xC0) == 0x80; more--)
            c = c << 6 | (*at++ & 63u);
        if (c >= 0x10000) {
            out[used++] = (uint16_t)(0xD800 + ((c - 0x10000) >> 10));
            c = 0xDC00 + ((c - 0x10000) & 0x3FF);
        }
        out[used++] = (uint16_t)c;
    }
    return used;
}
