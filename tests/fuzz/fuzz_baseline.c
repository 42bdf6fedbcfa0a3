/*
 * A saved map: any bytes are refused or read; a map does not differ from itself, and what one
 * direction calls appeared the other calls vanished. A NUL byte parts two maps.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kda/baseline.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct told {
    size_t appeared, vanished, changed;
};

static void tell(void *context, const struct kda_change *change)
{
    struct told *told = context;
    if (!change->object || !change->name || (change->change[0] == 'c') != (change->field != NULL))
        abort();
    told->appeared += change->change[0] == 'a';
    told->vanished += change->change[0] == 'v';
    told->changed += change->change[0] == 'c';
}

static struct kda_baseline *map_of(const uint8_t *data, size_t size)
{
    struct kda_baseline *map;
    struct kda_error err;
    if (kda_baseline_create(&map, &err) != KDA_OK)
        abort();
    if (kda_baseline_read(map, (const char *)data, size, &err) != KDA_OK && !err.text[0])
        abort();
    return map; /* with what came before a bad line */
}

static struct told compare(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    struct told told = {0, 0, 0};
    struct kda_baseline *before = map_of(a, a_size), *after = map_of(b, b_size);
    kda_baseline_compare(before, after, tell, &told);
    kda_baseline_destroy(before);
    kda_baseline_destroy(after);
    return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *cut = size ? memchr(data, 0, size) : NULL;
    size_t first = cut ? (size_t)(cut - data) : size;
    const uint8_t *second = cut ? cut + 1 : data;
    size_t rest = cut ? size - first - 1 : size;
    struct told there = compare(data, first, second, rest);
    struct told back = compare(second, rest, data, first);
    struct told same = compare(data, first, data, first);
    if (there.appeared != back.vanished || there.vanished != back.appeared ||
        there.changed != back.changed || same.appeared || same.vanished || same.changed)
        abort();
    return 0;
}
