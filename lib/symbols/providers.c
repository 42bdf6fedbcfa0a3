#include "providers.h"

#include <string.h>

#include "kda/symbols.h"

static const struct kda_provider_row *find(const uint8_t guid[16])
{
    size_t low = 0, high = kda_provider_row_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int order = memcmp(guid, kda_provider_rows[mid].guid, 16);
        if (order == 0)
            return &kda_provider_rows[mid];
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

const char *kda_provider_name(const uint8_t guid[16])
{
    const struct kda_provider_row *row = find(guid);
    return row ? kda_provider_names + row->name : NULL;
}

bool kda_provider_group(const uint8_t guid[16], uint8_t group[16])
{
    const struct kda_provider_row *row = find(guid);
    if (!row || row->group == 0)
        return false;
    memcpy(group, kda_provider_groups[row->group], 16);
    return true;
}
