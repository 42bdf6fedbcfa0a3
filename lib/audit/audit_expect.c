/*
 * audit_expect.c - a user's list of sessions that have to exist.
 */
#include "kda/audit.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/text.h"

#define MAX_BYTES ((size_t)1 << 20)
#define MAX_ITEMS 4096u

struct kda_expectations {
    struct kda_expectation *items;
    size_t count, capacity;
    char *text; /* names point into it */
};

/* The next word of a line, "…" may hold blanks; NULL at its end or a comment. Cuts the line up. */
static char *next_word(char **at, bool *unclosed)
{
    char *word = *at + strspn(*at, " \t\r");
    if (*word == '\0' || *word == '#')
        return NULL;
    char *end;
    if (*word == '"') {
        end = strchr(++word, '"');
        *unclosed = !end;
        if (!end)
            return NULL;
    } else {
        end = word + strcspn(word, " \t\r");
    }
    *at = end + (*end != '\0');
    *end = '\0';
    return word;
}

static bool parse_build(const char *text, char **end, uint32_t *ret)
{
    unsigned long value = strtoul(text, end, 10);
    if (*end == text || text[0] < '0' || text[0] > '9' || value > UINT32_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

/* "17763", "10240-19045", "22000-" */
static bool parse_builds(const char *text, struct kda_expectation *item)
{
    char *end;
    if (!parse_build(text, &end, &item->first_build))
        return false;
    item->last_build = item->first_build;
    if (*end == '\0')
        return true;
    item->last_build = 0;
    if (*end != '-' || end[1] == '\0')
        return *end == '-';
    return parse_build(end + 1, &end, &item->last_build) && *end == '\0';
}

static enum kda_status parse_line(struct kda_expectations *list, char *line, const char *path,
                                  unsigned number, struct kda_error *err)
{
    struct kda_expectation item = {.severity = KDA_SEVERITY_HIGH, .why = "is on the list given"};
    bool unclosed = false;
    void *items = list->items;
    item.session = next_word(&line, &unclosed);
    for (char *word; item.session && (word = next_word(&line, &unclosed));)
        if (!kda_severity_parse(word, &item.severity) && !parse_builds(word, &item))
            return kda_fail(err, KDA_USAGE, "audit",
                            "%s:%u: '%s' is neither a severity nor a build (19041, 10240-19045)",
                            path, number, word);
    if (unclosed)
        return kda_fail(err, KDA_USAGE, "audit", "%s:%u: a quote is not closed", path, number);
    if (!item.session)
        return KDA_OK;
    if (!item.session[0])
        return kda_fail(err, KDA_USAGE, "audit", "%s:%u: a session without a name", path, number);
    if (list->count >= MAX_ITEMS)
        return kda_fail(err, KDA_LIMIT, "audit", "%s: more than %u sessions", path, MAX_ITEMS);
    if (!kda_grow(&items, &list->capacity, list->count + 1, sizeof(*list->items), MAX_ITEMS))
        return kda_fail(err, KDA_NO_MEMORY, "audit", "out of memory for expected sessions");
    list->items = items;
    list->items[list->count++] = item;
    return KDA_OK;
}

static enum kda_status read_text(const char *path, char **ret, struct kda_error *err)
{
    struct kda_file *file;
    void *bytes;
    size_t size;
    enum kda_status status = kda_file_open(path, &file, err);
    if (status != KDA_OK)
        return status;
    status = kda_file_read_all(file, MAX_BYTES, &bytes, &size, err);
    kda_file_close(file);
    if (status != KDA_OK)
        return status;
    char *text = kda_calloc(size + 1, 1);
    if (text)
        memcpy(text, bytes, size);
    bool whole = text && (size == 0 || !memchr(text, '\0', size)) &&
                 kda_utf8_valid_prefix(text, size) == size;
    kda_free(bytes);
    if (text && whole) {
        *ret = text;
        return KDA_OK;
    }
    status = text ? KDA_BAD_DATA : KDA_NO_MEMORY;
    kda_free(text);
    return kda_fail(err, status, "audit", text ? "'%s' is no UTF-8 text" : "out of memory for '%s'",
                    path);
}

enum kda_status kda_expectations_load(const char *path, struct kda_expectations **ret,
                                      struct kda_error *err)
{
    struct kda_expectations *list = kda_calloc(1, sizeof(*list));
    if (!list)
        return kda_fail(err, KDA_NO_MEMORY, "audit", "out of memory for expected sessions");
    enum kda_status status = read_text(path, &list->text, err);
    unsigned number = 0;
    for (char *line = list->text, *next; status == KDA_OK && line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        status = parse_line(list, line, path, ++number, err);
    }
    if (status == KDA_OK && list->count == 0)
        status = kda_fail(err, KDA_USAGE, "audit", "'%s' names no session", path);
    if (status != KDA_OK) {
        kda_expectations_free(list);
        return status;
    }
    *ret = list;
    return KDA_OK;
}

void kda_expectations_free(struct kda_expectations *list)
{
    if (!list)
        return;
    kda_free(list->items);
    kda_free(list->text);
    kda_free(list);
}

const struct kda_expectation *kda_expectations_items(const struct kda_expectations *list,
                                                     size_t *count)
{
    *count = list->count;
    return list->items;
}
