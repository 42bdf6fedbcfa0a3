/*
 * event_info.c - descriptions that merged and packet-monitor files carry: TRACE_EVENT_INFO blocks
 * and value maps, as TdhGetEventInformation and TdhGetEventMapInformation return them.
 *
 * Source: TRACE_EVENT_INFO, EVENT_PROPERTY_INFO and EVENT_MAP_INFO in tdh.h.
 */
#include "describe.h"
#include "maps.h"
#include "text.h"

#define INFO_SIZE 112u
#define PROPERTY_SIZE 24u
#define MAP_HEAD 16u
#define MAP_ENTRY 8u

/* EVENT_PROPERTY_INFO.Flags */
#define PROPERTY_STRUCT 0x1u
#define PROPERTY_PARAM_LENGTH 0x2u
#define PROPERTY_PARAM_COUNT 0x4u
#define PROPERTY_FIXED_COUNT 0x20u

/* EVENT_MAP_INFO.Flag */
#define MAP_VALUE 0x1u
#define MAP_BITMAP 0x2u
#define MAP_WBEM_VALUE 0x8u
#define MAP_WBEM_BITMAP 0x10u
#define MAP_NO_MAP 0x20u
#define MAP_ENTRIES_ARE_TEXT 1u

#define DECODING_SOURCE_WBEM 1u

const char *kda_draft_utf16(struct kda_draft *draft, const uint8_t *bytes, size_t size)
{
    size_t units = 0;
    while (size - 2 * units >= 2 && (bytes[2 * units] | bytes[2 * units + 1]) != 0)
        units++;
    if (KDA_UTF8_MAX(units) + 1 > sizeof(draft->text) - draft->text_used)
        return NULL;
    char *to = draft->text + draft->text_used;
    size_t used =
        kda_utf16_to_utf8(bytes, units, false, to, sizeof(draft->text) - draft->text_used);
    /* Message strings end with a space or a line break that no one wants in a value. */
    while (used > 0 && (to[used - 1] == ' ' || to[used - 1] == '\r' || to[used - 1] == '\n'))
        to[--used] = '\0';
    draft->text_used += used + 1;
    return to;
}

struct info {
    struct kda_draft *draft;
    const uint8_t *bytes;
    uint32_t size;
};

/* Text at an offset; "" for offset 0, NULL where it is not inside or the draft is full. */
static const char *text_at(const struct info *info, uint32_t off)
{
    if (off == 0)
        return "";
    if (off >= info->size)
        return NULL;
    return kda_draft_utf16(info->draft, info->bytes + off, info->size - off);
}

static bool take_property(const struct info *info, struct kda_map_list *maps, unsigned index,
                          const uint8_t *provider, struct kda_etl_field *f)
{
    const uint8_t *at = info->bytes + INFO_SIZE + (size_t)index * PROPERTY_SIZE;
    uint32_t flags = kda_le32(at);
    uint16_t count = kda_le16(at + 16), length = kda_le16(at + 18);
    memset(f, 0, sizeof(*f));
    f->name = text_at(info, kda_le32(at + 4));
    f->next = (uint16_t)(index + 1);
    if (flags & PROPERTY_STRUCT) {
        f->in = KDA_IN_STRUCT;
        f->first = kda_le16(at + 8);
        f->members = kda_le16(at + 10);
    } else {
        uint32_t map = kda_le32(at + 12);
        f->in = kda_le16(at + 8);
        f->out = (uint16_t)kda_out_type_of_tdh(kda_le16(at + 10));
        const char *map_name = map ? text_at(info, map) : NULL;
        f->map = map_name ? kda_maps_want(maps, provider, map_name) : NULL;
    }
    if (flags & PROPERTY_PARAM_COUNT)
        f->flags |= KDA_FIELD_COUNT_FIELD;
    else if (count > 1 || flags & PROPERTY_FIXED_COUNT)
        f->flags |= KDA_FIELD_COUNT_FIXED;
    f->count = count;
    if (flags & PROPERTY_PARAM_LENGTH)
        f->flags |= KDA_FIELD_LENGTH_FIELD;
    else if (length > 0)
        f->flags |= KDA_FIELD_LENGTH_FIXED;
    f->length = length;
    return f->name != NULL;
}

const char *kda_draft_event_name(struct kda_draft *draft, const char *task, const char *opcode)
{
    char text[256];
    size_t used = 0;
    const char *parts[2] = {task, opcode};
    for (unsigned i = 0; i < 2; i++) {
        if (parts[i] && strncmp(parts[i], "win:", 4) == 0)
            parts[i] += 4;
        size_t size = parts[i] ? strlen(parts[i]) : 0;
        if (size == 0 || used + size + 2 > sizeof(text) ||
            (i == 1 && strcmp(parts[1], "Info") == 0))
            continue;
        if (used)
            text[used++] = '/';
        memcpy(text + used, parts[i], size);
        used += size;
    }
    return used ? kda_draft_text(draft, text, used) : NULL;
}

static enum kda_status bad(struct kda_error *err, const char *what)
{
    return kda_fail(err, KDA_BAD_DATA, "etl", "an event description %s", what);
}

enum kda_status kda_event_info_learn(struct kda_templates *store, struct kda_draft *draft,
                                     struct kda_map_list *maps, const uint8_t *bytes, uint32_t size,
                                     struct kda_error *err)
{
    struct info info = {draft, bytes, size};
    struct kda_etl_template t = {.fields = draft->fields, .origin = "the file"};
    if (size < INFO_SIZE)
        return bad(err, "is shorter than its head");
    uint32_t count = kda_le32(bytes + 100), top = kda_le32(bytes + 104);
    bool classic = kda_le32(bytes + 48) == DECODING_SOURCE_WBEM;
    if (count > KDA_TEMPLATE_MAX_FIELDS || top > count ||
        count > (size - INFO_SIZE) / PROPERTY_SIZE)
        return bad(err, "has more properties than bytes");
    draft->text_used = 0;
    for (unsigned i = 0; i < count; i++)
        if (!take_property(&info, maps, i, bytes, &draft->fields[i]))
            return bad(err, "has a property without a name");
    t.count = (uint16_t)count;
    t.top = (uint16_t)top;
    for (unsigned i = 0; i < count; i++)
        t.has_refs |=
            (draft->fields[i].flags & (KDA_FIELD_LENGTH_FIELD | KDA_FIELD_COUNT_FIELD)) != 0;
    if (!kda_template_valid(&t))
        return bad(err, "has properties that refer to each other in ways that cannot be");
    const char *provider = text_at(&info, kda_le32(bytes + 52));
    t.provider_name = provider && *provider ? provider : NULL;
    t.event_name = kda_draft_event_name(draft, text_at(&info, kda_le32(bytes + 68)),
                                        text_at(&info, kda_le32(bytes + 72)));
    t.version = bytes[34];
    struct kda_template_key key = {
        .id = classic ? bytes[37] : kda_le16(bytes + 32),
        .version = bytes[34],
        .classic = classic,
        .origin = KDA_ORIGIN_FILE,
    };
    memcpy(key.guid, classic ? bytes + 16 : bytes, 16);
    return kda_templates_add(store, &key, &t, NULL, err);
}

enum kda_status kda_map_info_learn(struct kda_templates *store, struct kda_draft *draft,
                                   struct kda_map_list *maps, const uint8_t *bytes, uint32_t size,
                                   struct kda_error *err)
{
    if (size < 16 + MAP_HEAD)
        return bad(err, "of a map is shorter than its head");
    const uint8_t *provider = bytes;
    struct info info = {draft, bytes + 16, size - 16};
    uint32_t flags = kda_le32(info.bytes + 4), count = kda_le32(info.bytes + 8);
    if (flags & MAP_NO_MAP || kda_le32(info.bytes + 12) == MAP_ENTRIES_ARE_TEXT)
        return KDA_OK; /* maps between texts: values are shown as they are */
    if (count > (info.size - MAP_HEAD) / MAP_ENTRY || count > KDA_TEMPLATE_MAX_MAP)
        return bad(err, "of a map has more entries than bytes");
    draft->text_used = 0;
    struct kda_etl_map map = {.bits = (flags & (MAP_BITMAP | MAP_WBEM_BITMAP)) != 0};
    map.name = text_at(&info, kda_le32(info.bytes));
    struct kda_etl_map_entry *entries = kda_calloc(count ? count : 1, sizeof(*entries));
    if (!entries)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for a map");
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *at = info.bytes + MAP_HEAD + (size_t)i * MAP_ENTRY;
        const char *name = text_at(&info, kda_le32(at));
        if (!name) {
            map.name = NULL;
            break;
        }
        if (*name)
            entries[map.count++] = (struct kda_etl_map_entry){kda_le32(at + 4), name};
    }
    map.entries = entries;
    enum kda_status status = map.name ? kda_maps_set(maps, store, provider, &map, err)
                                      : bad(err, "of a map has texts outside of it, or too many");
    kda_free(entries);
    return status;
}
