#include "json_scan.h"

#include <string.h>

static void skip_space(struct kda_json_scan *scan)
{
    while (scan->pos < scan->end &&
           (*scan->pos == ' ' || *scan->pos == '\n' || *scan->pos == '\r' || *scan->pos == '\t'))
        scan->pos++;
}

static bool fail(struct kda_json_scan *scan)
{
    scan->failed = true;
    return false;
}

static bool take_char(struct kda_json_scan *scan, char want)
{
    skip_space(scan);
    if (scan->pos == scan->end || *scan->pos != want)
        return false;
    scan->pos++;
    return true;
}

/* Behind the closing quote; pos stands behind the opening one. */
static bool skip_string(struct kda_json_scan *scan)
{
    while (scan->pos < scan->end) {
        char c = *scan->pos++;
        if (c == '"')
            return true;
        if (c == '\\' && scan->pos < scan->end)
            scan->pos++;
    }
    return fail(scan);
}

/* An object or array, by counting brackets: no recursion, so depth costs nothing. */
static bool skip_nested(struct kda_json_scan *scan)
{
    size_t depth = 0;
    while (scan->pos < scan->end) {
        char c = *scan->pos++;
        if (c == '"') {
            if (!skip_string(scan))
                return false;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == '}' || c == ']') && --depth == 0) {
            return true;
        }
    }
    return fail(scan);
}

static bool skip_value(struct kda_json_scan *scan)
{
    if (scan->pos == scan->end)
        return fail(scan);
    if (*scan->pos == '{' || *scan->pos == '[')
        return skip_nested(scan);
    if (*scan->pos == '"') {
        scan->pos++;
        return skip_string(scan);
    }
    const char *start = scan->pos;
    while (scan->pos < scan->end && !strchr(",}] \n\r\t", *scan->pos))
        scan->pos++;
    return scan->pos > start || fail(scan);
}

struct kda_json_scan kda_json_object(struct kda_json_slice text)
{
    struct kda_json_scan scan = {text.text, text.text + text.size, false};
    if (!take_char(&scan, '{'))
        scan.failed = true;
    return scan;
}

bool kda_json_next(struct kda_json_scan *scan, struct kda_json_slice *key,
                   struct kda_json_slice *value)
{
    if (scan->failed || take_char(scan, '}'))
        return false;
    (void)take_char(scan, ',');
    if (!take_char(scan, '"'))
        return fail(scan);
    const char *start = scan->pos;
    if (!skip_string(scan))
        return false;
    *key = (struct kda_json_slice){start, (size_t)(scan->pos - start) - 1};
    if (!take_char(scan, ':'))
        return fail(scan);
    skip_space(scan);
    start = scan->pos;
    if (!skip_value(scan))
        return false;
    *value = (struct kda_json_slice){start, (size_t)(scan->pos - start)};
    return true;
}

bool kda_json_is(struct kda_json_slice key, const char *name)
{
    return key.size == strlen(name) && memcmp(key.text, name, key.size) == 0;
}
