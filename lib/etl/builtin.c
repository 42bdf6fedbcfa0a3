/*
 * builtin.c - the table of manifest events that comes with the library.
 */
#include "builtin.h"

#include "kda/decode.h"

#include <string.h>

const struct kda_builtin_provider *kda_builtin_find(const uint8_t *guid)
{
    size_t low = 0, high = kda_builtin_provider_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = memcmp(kda_builtin_providers[middle].guid, guid, 16);
        if (order == 0)
            return &kda_builtin_providers[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct kda_builtin_event *kda_builtin_event(const struct kda_builtin_provider *provider,
                                                  uint16_t id, uint8_t version)
{
    const struct kda_builtin_event *rows = kda_builtin_events + provider->first;
    uint32_t wanted = (uint32_t)id << 8 | version;
    size_t low = 0, high = provider->count; /* the first row behind the wanted one */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (((uint32_t)rows[middle].id << 8 | rows[middle].version) <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && rows[low - 1].id == id ? &rows[low - 1] : NULL;
}

bool kda_etl_known_event(void *context, const uint8_t guid[16], size_t index, uint16_t *id)
{
    const struct kda_builtin_provider *provider = kda_builtin_find(guid);
    (void)context;
    if (!provider || index >= provider->count)
        return false;
    *id = kda_builtin_events[provider->first + index].id;
    return true;
}

void kda_builtin_template(const struct kda_builtin_provider *provider,
                          const struct kda_builtin_event *event, struct kda_etl_field *fields,
                          struct kda_etl_template *ret)
{
    memset(ret, 0, sizeof(*ret));
    for (unsigned i = 0; i < event->count; i++) {
        const struct kda_builtin_field *row = &kda_builtin_fields[event->first + i];
        struct kda_etl_field *f = &fields[i];
        memset(f, 0, sizeof(*f));
        f->name = kda_builtin_text + row->name;
        f->in = row->in;
        f->next = (uint16_t)(i + 1);
        if (row->length == KDA_BUILTIN_REST) {
            f->flags = KDA_FIELD_LENGTH_REST;
        } else if (row->length != KDA_BUILTIN_NO_LENGTH) {
            f->flags = KDA_FIELD_LENGTH_FIELD;
            f->length = row->length;
            ret->has_refs = true;
        }
    }
    ret->provider_name = kda_builtin_text + provider->name;
    ret->event_name = kda_builtin_text[event->name] ? kda_builtin_text + event->name : NULL;
    ret->fields = fields;
    ret->count = ret->top = event->count;
    ret->version = event->version;
    ret->exact = true;
    ret->origin = "the built-in table";
}
