#include "kda/gap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "text.h"

void kda_gaps_init(struct kda_gaps *gaps)
{
    memset(gaps, 0, sizeof(*gaps));
}

void kda_gaps_deinit(struct kda_gaps *gaps)
{
    kda_free(gaps->items);
    memset(gaps, 0, sizeof(*gaps));
}

/* Linear from the newest: duplicates come from walks that meet the same hole twice in a row, and
 * a healthy image has none at all. The window bounds the cost on hostile images. */
static bool known(const struct kda_gaps *gaps, const char *what, uint64_t va)
{
    size_t window = gaps->count < 512 ? gaps->count : 512;
    for (size_t i = 0; i < window; i++) {
        const struct kda_gap *gap = &gaps->items[gaps->count - 1 - i];
        if (gap->va == va && strcmp(gap->what, what) == 0)
            return true;
    }
    return false;
}

void kda_gaps_addv(struct kda_gaps *gaps, const char *what, uint64_t va, enum kda_status reason,
                   const char *fmt, va_list args)
{
    if (!gaps || known(gaps, what, va))
        return;
    void *items = gaps->items;
    if (!kda_grow(&items, &gaps->capacity, gaps->count + 1, sizeof(*gaps->items), KDA_MAX_GAPS)) {
        gaps->dropped++;
        return;
    }
    gaps->items = items;
    struct kda_gap *gap = &gaps->items[gaps->count++];
    memset(gap, 0, sizeof(*gap));
    gap->what = what;
    gap->va = va;
    gap->reason = reason;
    (void)vsnprintf(gap->text, sizeof(gap->text), fmt, args);
    gap->text[kda_utf8_valid_prefix(gap->text, strlen(gap->text))] = '\0';
    for (char *c = gap->text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
}

void kda_gaps_add(struct kda_gaps *gaps, const char *what, uint64_t va, enum kda_status reason,
                  const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    kda_gaps_addv(gaps, what, va, reason, fmt, args);
    va_end(args);
}
