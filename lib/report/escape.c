/*
 * escape.c - text that is safe on a terminal, and how wide it is there.
 */
#include "writer.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "text.h"

#define TEXT_MAX ((size_t)1 << 30)

void kda_text_deinit(struct kda_text *text)
{
    kda_free(text->bytes);
    memset(text, 0, sizeof(*text));
}

void kda_text_add(struct kda_text *text, const char *bytes, size_t size)
{
    if (text->failed)
        return;
    void *items = text->bytes;
    if (size >= TEXT_MAX ||
        !kda_grow(&items, &text->capacity, text->size + size + 1, 1, TEXT_MAX)) {
        text->failed = true;
        return;
    }
    text->bytes = items;
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
}

void kda_text_adds(struct kda_text *text, const char *string)
{
    kda_text_add(text, string, strlen(string));
}

void kda_text_addf(struct kda_text *text, const char *fmt, ...)
{
    char line[256];
    va_list args;
    va_start(args, fmt);
    int size = vsnprintf(line, sizeof(line), fmt, args);
    va_end(args);
    if (size > 0)
        kda_text_add(text, line, (size_t)size < sizeof(line) ? (size_t)size : sizeof(line) - 1);
}

/* Decodes the character at `p`; returns its size, 0 if it is no UTF-8. */
static size_t decode(const char *p, size_t left, uint32_t *cp)
{
    const unsigned char *b = (const unsigned char *)p;
    size_t size = b[0] < 0x80 ? 1 : b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (size > left || kda_utf8_valid_prefix(p, size) != size)
        return 0;
    static const unsigned char masks[5] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t value = b[0] & masks[size];
    for (size_t i = 1; i < size; i++)
        value = value << 6 | (b[i] & 0x3fu);
    *cp = value;
    return size;
}

struct range {
    uint32_t first, last;
};

static bool in_ranges(uint32_t cp, const struct range *ranges, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (cp >= ranges[i].first && cp <= ranges[i].last)
            return true;
    return false;
}
#define IN(cp, table) in_ranges(cp, table, sizeof(table) / sizeof(table[0]))

/* Characters that move the cursor, change text direction or are invisible: a name made of them
 * could hide or rewrite its neighbours. */
static const struct range unsafe[] = {
    {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},       {0x61c, 0x61c},
    {0x180e, 0x180e}, {0x200b, 0x200f}, {0x2028, 0x202e},   {0x2060, 0x206f},
    {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe007f},
};

/* Source: Unicode EastAsianWidth.txt, the blocks that are wide as a whole. */
static const struct range wide[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xa960, 0xa97f},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff00, 0xff60},
    {0xffe0, 0xffe6},   {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff},
    {0x20000, 0x3fffd},
};

static const struct range zero_width[] = {
    {0x300, 0x36f}, {0x1ab0, 0x1aff}, {0x20d0, 0x20ff}, {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
};

void kda_text_add_escaped(struct kda_text *text, const char *bytes, size_t size)
{
    size_t start = 0;
    for (size_t i = 0; i < size;) {
        uint32_t cp = 0;
        size_t step = decode(bytes + i, size - i, &cp);
        if (step > 0 && !(cp < 0x20 || cp >= 0x7f)) {
            i += step;
            continue;
        }
        if (step > 0 && !IN(cp, unsafe)) {
            i += step;
            continue;
        }
        kda_text_add(text, bytes + start, i - start);
        if (step == 0)
            kda_text_addf(text, "\\x%02x", (unsigned char)bytes[i]);
        else if (cp < 0x80)
            kda_text_addf(text, "\\x%02x", cp);
        else
            kda_text_addf(text, "\\u%04x", cp);
        i += step ? step : 1;
        start = i;
    }
    kda_text_add(text, bytes + start, size - start);
}

size_t kda_next_char(const char *text, size_t left, unsigned *columns)
{
    uint32_t cp = 0;
    size_t size = decode(text, left, &cp);
    *columns = 1;
    if (size == 0)
        return 1;
    if (cp >= 0x300)
        *columns = IN(cp, zero_width) ? 0 : IN(cp, wide) ? 2 : 1;
    return size;
}

size_t kda_columns(const char *text, size_t size)
{
    size_t total = 0;
    for (size_t i = 0; i < size;) {
        unsigned columns;
        i += kda_next_char(text + i, size - i, &columns);
        total += columns;
    }
    return total;
}

const char *kda_printable(const char *text, char *out, size_t cap)
{
    size_t used = 0;
    for (size_t i = 0, size = strlen(text); i < size && cap > 0;) {
        uint32_t cp = 0;
        size_t step = decode(text + i, size - i, &cp);
        char shown[16];
        if (step == 0)
            (void)snprintf(shown, sizeof(shown), "\\x%02x", (unsigned char)text[i]);
        else if (IN(cp, unsafe))
            (void)snprintf(shown, sizeof(shown), cp < 0x80 ? "\\x%02x" : "\\u%04x", cp);
        else
            (void)snprintf(shown, sizeof(shown), "%.*s", (int)step, text + i);
        size_t need = strlen(shown);
        if (need >= cap - used)
            break;
        memcpy(out + used, shown, need);
        used += need;
        i += step ? step : 1;
    }
    if (cap > 0)
        out[used] = '\0';
    return out;
}

static const char *const styles[] = {
    [KDA_STYLE_NONE] = "",       [KDA_STYLE_HEAD] = "\x1b[1m",  [KDA_STYLE_NAME] = "\x1b[1;36m",
    [KDA_STYLE_DIM] = "\x1b[2m", [KDA_STYLE_WARN] = "\x1b[33m",
};

void kda_out_line(struct kda_report *report, const char *text, size_t size, enum kda_style style)
{
    while (size > 0 && text[size - 1] == ' ')
        size--;
    bool color = report->options.color && style != KDA_STYLE_NONE;
    if (color)
        kda_out_text(report, styles[style]);
    unsigned width = report->options.width;
    if (width > 0 && kda_columns(text, size) > width) {
        size_t end = 0, used = 0;
        while (end < size) {
            unsigned columns;
            size_t step = kda_next_char(text + end, size - end, &columns);
            if (used + columns > width - 1u)
                break;
            used += columns;
            end += step;
        }
        kda_out(report, text, end);
        kda_out_text(report, "\xe2\x80\xa6");
    } else {
        kda_out(report, text, size);
    }
    if (color)
        kda_out_text(report, "\x1b[0m");
    kda_out(report, "\n", 1);
}
