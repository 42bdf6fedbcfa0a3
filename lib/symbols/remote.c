#include "remote.h"

#include <stdio.h>
#include <string.h>

#include "text.h"

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool starts_with(const char *text, const char *prefix)
{
    for (; *prefix; text++, prefix++) {
        if (lower(*text) != *prefix)
            return false;
    }
    return true;
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

bool kda_remote_is_https(const char *url)
{
    return starts_with(url, "https://") && url[8] != '\0' && url[8] != '/';
}

bool kda_remote_is_http(const char *url)
{
    return kda_remote_is_https(url) ||
           (starts_with(url, "http://") && url[7] != '\0' && url[7] != '/');
}

static bool unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

struct writer {
    char *out;
    size_t used, cap;
    bool full;
};

static void put(struct writer *w, char c)
{
    if (w->cap - w->used < 2) {
        w->full = true;
        return;
    }
    w->out[w->used++] = c;
    w->out[w->used] = '\0';
}

/* `keep`: characters that stay as they are beside the unreserved ones. */
static void put_encoded(struct writer *w, const char *text, size_t size, const char *keep)
{
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        if (unreserved(text[i]) || (c && strchr(keep, text[i]))) {
            put(w, text[i]);
            continue;
        }
        put(w, '%');
        put(w, hex[c >> 4]);
        put(w, hex[c & 15]);
    }
}

bool kda_remote_url(const char *root, const char *const *parts, size_t count, char *out, size_t cap)
{
    struct writer w = {out, 0, cap, false};
    size_t size = strlen(root);
    while (size > 0 && root[size - 1] == '/')
        size--;
    for (size_t i = 0; i < size; i++)
        put(&w, root[i]);
    for (size_t i = 0; i < count; i++) {
        if (!parts[i] || !parts[i][0])
            continue;
        put(&w, '/');
        put_encoded(&w, parts[i], strlen(parts[i]), "");
    }
    return !w.full && w.used > 0;
}

static void put_safe(struct writer *w, const char *text, size_t size)
{
    for (size_t i = 0; i < size; i++)
        put(w, is_control(text[i]) ? '?' : text[i]);
    w->used = kda_utf8_valid_prefix(w->out, w->used);
    w->out[w->used] = '\0';
}

void kda_remote_redact(const char *url, char *out, size_t cap)
{
    struct writer w = {out, 0, cap, false};
    out[0] = '\0';
    const char *host = strstr(url, "://");
    host = host ? host + 3 : url;
    size_t authority = strcspn(host, "/?#");
    const char *rest = host;
    for (size_t i = 0; i < authority; i++) {
        if (host[i] == '@')
            rest = host + i + 1;
    }
    put_safe(&w, url, (size_t)(host - url));
    put_safe(&w, rest, strlen(rest));
}

static bool is_slash(char c)
{
    return c == '/' || c == '\\';
}

static enum kda_pointer_kind place(const char *text, size_t size, struct writer *w)
{
    for (size_t i = 0; i < size; i++) {
        if (is_control(text[i]))
            return KDA_POINTER_NONE;
    }
    char scheme[9] = {0};
    memcpy(scheme, text, size < 8 ? size : 8);
    if (starts_with(scheme, "http://") || starts_with(scheme, "https://")) {
        put_encoded(w, text, size, ":/?#[]@!$&'()*+,;=%");
        return w->full || !kda_remote_is_http(w->out) ? KDA_POINTER_NONE : KDA_POINTER_URL;
    }
    /* Either slash: mixed, too, two of them would name another host once they are URL slashes. */
    bool share = size >= 2 && is_slash(text[0]) && is_slash(text[1]);
    if (share || memchr(text, ':', size)) {
        put_safe(w, text, size);
        return KDA_POINTER_FOREIGN;
    }
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '\\')
            put(w, '/');
        else
            put_encoded(w, text + i, 1, "/%");
    }
    return w->full ? KDA_POINTER_NONE : KDA_POINTER_RELATIVE;
}

enum kda_pointer_kind kda_remote_pointer(const char *text, size_t size, char *out, size_t cap)
{
    struct writer w = {out, 0, cap, false};
    out[0] = '\0';
    if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        size -= 3;
    }
    while (size > 0 && (is_control(text[0]) || text[0] == ' ')) {
        text++;
        size--;
    }
    while (size > 0 && (is_control(text[size - 1]) || text[size - 1] == ' '))
        size--;
    char head[6] = {0};
    memcpy(head, text, size < 5 ? size : 5);
    if (starts_with(head, "msg:")) {
        put_safe(&w, text + 4, size - 4);
        return KDA_POINTER_MESSAGE;
    }
    if (starts_with(head, "path:")) {
        text += 5;
        size -= 5;
        while (size > 0 && text[0] == ' ') {
            text++;
            size--;
        }
    }
    if (size == 0 || text[0] == '<')
        return KDA_POINTER_NONE;
    return place(text, size, &w);
}

static bool take_number(const char **p, uint64_t *ret)
{
    uint64_t value = 0;
    const char *start = *p;
    for (; **p >= '0' && **p <= '9'; (*p)++) {
        uint64_t digit = (uint64_t)(**p - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *ret = value;
    return *p != start;
}

bool kda_remote_content_range(const char *value, uint64_t *first, uint64_t *total)
{
    uint64_t from, last, whole = 0;
    while (*value == ' ')
        value++;
    if (!starts_with(value, "bytes"))
        return false;
    value += 5;
    while (*value == ' ' || *value == ':')
        value++;
    if (!take_number(&value, &from) || *value++ != '-' || !take_number(&value, &last) ||
        *value++ != '/' || last < from)
        return false;
    if (*value != '*' && (!take_number(&value, &whole) || whole <= last))
        return false;
    *first = from;
    *total = whole;
    return true;
}

/* One line into out; returns what follows it, or NULL. */
static const char *take_line(const char *text, const char *end, char *out, size_t cap)
{
    const char *stop = memchr(text, '\n', (size_t)(end - text));
    if (!stop || (size_t)(stop - text) >= cap)
        return NULL;
    for (const char *p = text; p < stop; p++) {
        if (is_control(*p))
            return NULL;
    }
    memcpy(out, text, (size_t)(stop - text));
    out[stop - text] = '\0';
    return stop + 1;
}

bool kda_remote_origin_parse(const char *text, size_t size, struct kda_part_origin *ret)
{
    struct kda_part_origin origin = {.total = 0};
    char number[24];
    const char *end = text + size, *p = text;
    p = take_line(p, end, origin.url, sizeof(origin.url));
    p = p ? take_line(p, end, origin.validator, sizeof(origin.validator)) : NULL;
    p = p ? take_line(p, end, number, sizeof(number)) : NULL;
    const char *digits = number;
    if (!p || p != end || !origin.url[0] || !take_number(&digits, &origin.total) || *digits)
        return false;
    *ret = origin;
    return true;
}
