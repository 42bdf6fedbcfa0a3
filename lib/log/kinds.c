/*
 * kinds.c - names of kinds, from the lists of the schema.
 */
#include "internal.h"

#include <string.h>

#include "kda_event.h"

_Static_assert((int)KDA_KIND_COUNT <= (int)KDA_LOG_MAX_KINDS, "a bit and an account for each kind");
_Static_assert(KDA_LOG_MAX_LINE >= 6u * KDA_EVENT_MAX_BYTES + 4096u,
               "the longest line of a record");

#define KDA_SENSOR_PREFIX "sensor."

static const char *const names[KDA_KIND_COUNT] = {
#define K(name, number, text, class_, shape, doc) [number] = text,
    KDA_KINDS(K)
#undef K
};

unsigned kda_log_kind_count(void)
{
    return KDA_KIND_COUNT;
}

const char *kda_log_kind_name(unsigned kind)
{
    return kind < KDA_KIND_COUNT ? names[kind] : NULL;
}

unsigned kda_log_kind_find(const char *name, size_t size)
{
    for (unsigned kind = 1; kind < KDA_KIND_COUNT; kind++)
        if (names[kind] && strlen(names[kind]) == size && memcmp(names[kind], name, size) == 0)
            return kind;
    return 0;
}

bool kda_log_kind_is_sensor(unsigned kind)
{
    const char *name = kda_log_kind_name(kind);
    return name && strncmp(name, KDA_SENSOR_PREFIX, sizeof(KDA_SENSOR_PREFIX) - 1) == 0;
}

/* A name, a group ("registry"), or a group with ".*". */
static bool word_matches(const char *word, size_t size, const char *name)
{
    if (size > 2 && memcmp(word + size - 2, ".*", 2) == 0)
        size -= 2;
    return strncmp(name, word, size) == 0 && (name[size] == '\0' || name[size] == '.');
}

static enum kda_status no_such_kind(const char *word, size_t size, struct kda_error *err)
{
    char list[400];
    size_t used = 0;
    for (unsigned kind = 1; kind < KDA_KIND_COUNT; kind++) {
        size_t length = names[kind] ? strlen(names[kind]) : 0;
        if (length == 0 || used + length + 3 > sizeof(list))
            continue;
        memcpy(list + used, ", ", used ? 2 : 0);
        used += used ? 2 : 0;
        memcpy(list + used, names[kind], length);
        used += length;
    }
    list[used] = '\0';
    return kda_fail(err, KDA_USAGE, "log", "no kind is named '%.*s'; kinds are %s",
                    (int)(size < 40 ? size : 40), word, list);
}

enum kda_status kda_log_filter_kinds(const char *list, uint64_t *kinds, struct kda_error *err)
{
    uint64_t bits = 0;
    while (*list) {
        size_t size = strcspn(list, ",");
        uint64_t found = 0;
        for (unsigned kind = 1; size > 0 && kind < KDA_KIND_COUNT; kind++)
            if (names[kind] && word_matches(list, size, names[kind]))
                found |= (uint64_t)1 << kind;
        if (size > 0 && found == 0)
            return no_such_kind(list, size, err);
        bits |= found;
        list += size + (list[size] == ',');
    }
    if (bits == 0) /* no bits would mean every kind */
        return kda_fail(err, KDA_USAGE, "log", "no kind is named");
    *kinds |= bits;
    return KDA_OK;
}
