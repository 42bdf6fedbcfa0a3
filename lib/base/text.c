#include "text.h"

#include <stdio.h>
#include <string.h>

#include "bytes.h"

#define REPLACEMENT 0xfffdu

static size_t put_utf8(uint32_t cp, char *out)
{
    if (cp < 0x80) {
        out[0] = (char)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (char)(0xc0 | cp >> 6);
        out[1] = (char)(0x80 | (cp & 0x3f));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (char)(0xe0 | cp >> 12);
        out[1] = (char)(0x80 | (cp >> 6 & 0x3f));
        out[2] = (char)(0x80 | (cp & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | cp >> 18);
    out[1] = (char)(0x80 | (cp >> 12 & 0x3f));
    out[2] = (char)(0x80 | (cp >> 6 & 0x3f));
    out[3] = (char)(0x80 | (cp & 0x3f));
    return 4;
}

size_t kda_utf16_to_utf8(const void *utf16le, size_t units, bool keep_nul, char *out, size_t cap)
{
    const uint8_t *in = utf16le;
    size_t used = 0;
    while (keep_nul && units > 0 && kda_le16(in + 2 * (units - 1)) == 0)
        units--; /* a length that counts the terminator is common and means nothing */
    for (size_t i = 0; i < units; i++) {
        uint32_t cp = kda_le16(in + 2 * i);
        if (cp == 0 && !keep_nul)
            break;
        if (cp == 0)
            cp = REPLACEMENT;
        if (cp >= 0xd800 && cp < 0xe000) {
            uint32_t low = i + 1 < units ? kda_le16(in + 2 * (i + 1)) : 0;
            if (cp < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
                cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
                i++;
            } else {
                cp = REPLACEMENT;
            }
        }
        char bytes[4];
        size_t size = put_utf8(cp, bytes);
        if (size >= cap - used) /* one byte stays for the NUL; cap 0 takes nothing */
            break;
        memcpy(out + used, bytes, size);
        used += size;
    }
    if (cap > 0)
        out[used] = '\0';
    return used;
}

size_t kda_latin1_to_utf8(const void *bytes, size_t size, char *out, size_t cap)
{
    const uint8_t *in = bytes;
    size_t used = 0;
    for (size_t i = 0; i < size && in[i] != 0 && cap - used >= 3; i++)
        used += put_utf8(in[i], out + used);
    if (cap > 0)
        out[used] = '\0';
    return used;
}

/* Bytes of the sequence that starts at `p`, or 0 if it is no valid UTF-8 (overlong forms,
 * surrogates and values past U+10FFFF included). */
static size_t sequence(const uint8_t *p, size_t left)
{
    if (p[0] < 0x80)
        return 1;
    size_t need = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < need)
        return 0;
    for (size_t i = 1; i < need; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return need;
}

size_t kda_utf8_valid_prefix(const char *text, size_t size)
{
    const uint8_t *p = (const uint8_t *)text;
    size_t pos = 0;
    while (pos < size) {
        size_t step = sequence(p + pos, size - pos);
        if (step == 0)
            break;
        pos += step;
    }
    return pos;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool kda_starts_nocase(const char *text, const char *start)
{
    for (; *start; text++, start++) {
        if (lower(*text) != lower(*start))
            return false;
    }
    return true;
}

int kda_compare_nocase(const char *a, const char *b)
{
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return (unsigned char)lower(*a) - (unsigned char)lower(*b);
}

bool kda_same_nocase(const char *a, const char *b)
{
    return strlen(a) == strlen(b) && kda_starts_nocase(a, b);
}

void kda_guid_text(const uint8_t guid[16], char out[KDA_GUID_TEXT])
{
    (void)snprintf(out, KDA_GUID_TEXT, "{%08x-%04x-%04x-%02x%02x-%02x%02x%02x%02x%02x%02x}",
                   (unsigned)kda_le32(guid), (unsigned)kda_le16(guid + 4),
                   (unsigned)kda_le16(guid + 6), guid[8], guid[9], guid[10], guid[11], guid[12],
                   guid[13], guid[14], guid[15]);
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

bool kda_guid_parse(const char *text, uint8_t guid[16])
{
    /* Memory order of the 16 bytes: Data1..3 are little-endian numbers in the text form. */
    static const uint8_t order[16] = {3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15};
    uint8_t bytes[16];
    size_t digits = 0, dash_at = 0;
    bool brace = *text == '{';
    if (brace)
        text++;
    for (; *text && *text != '}'; text++) {
        if (*text == '-') {
            if ((digits != 8 && digits != 12 && digits != 16 && digits != 20) || dash_at == digits)
                return false;
            dash_at = digits;
            continue;
        }
        int v = hex_digit(*text);
        if (v < 0 || digits >= 32)
            return false;
        if (digits % 2 == 0)
            bytes[digits / 2] = (uint8_t)(v << 4);
        else
            bytes[digits / 2] |= (uint8_t)v;
        digits++;
    }
    if (digits != 32 || brace != (*text == '}') || (brace && text[1] != '\0'))
        return false;
    for (size_t i = 0; i < 16; i++)
        guid[order[i]] = bytes[i];
    return true;
}

bool kda_time_text(uint64_t filetime_100ns, char out[KDA_TIME_TEXT])
{
    uint64_t seconds = filetime_100ns / 10000000u;
    unsigned fraction = (unsigned)(filetime_100ns % 10000000u);
    uint64_t days = seconds / 86400u;
    unsigned rest = (unsigned)(seconds % 86400u);
    if (days > 3067670u) /* 9999-12-31 */
        return false;
    /* Civil date from a day count, era of 400 years starting on 1 March (Gregorian rule). */
    uint64_t z = days + 584694u; /* 1601-01-01 as days since 0000-03-01 */
    uint64_t era = z / 146097u;
    unsigned doe = (unsigned)(z % 146097u);
    unsigned yoe = (doe - doe / 1460u + doe / 36524u - doe / 146096u) / 365u;
    unsigned doy = doe - (365u * yoe + yoe / 4u - yoe / 100u);
    unsigned mp = (5u * doy + 2u) / 153u;
    unsigned day = doy - (153u * mp + 2u) / 5u + 1u;
    unsigned month = mp < 10 ? mp + 3 : mp - 9;
    unsigned year = (unsigned)(era * 400u) + yoe + (month <= 2 ? 1u : 0u);
    (void)snprintf(out, KDA_TIME_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%07uZ", year % 10000u, month,
                   day, rest / 3600u, rest / 60u % 60u, rest % 60u, fraction);
    return true;
}
