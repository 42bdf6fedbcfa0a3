/*
 * manifest.c - instrumentation manifests: elements become templates. Those that people write and
 * those that EventSources send with their events are of the same form.
 *
 * What stands in a manifest may be named before it is defined, so elements are collected first and
 * joined when the document has ended.
 *
 * Source: EventManifest schema (eventman.xsd) on learn.microsoft.com.
 */
#include "describe.h"
#include "manifest_types.h"
#include "text.h"

#define ARENA_LIMIT ((size_t)64 << 20)
#define MAX_ITEMS 262144u
/* Comparisons of names while joining. The largest manifest of Windows needs a tenth of it. */
#define MAX_WORK (UINT64_C(1) << 25)

struct event {
    const char *task, *opcode, *symbol, *template;
    uint32_t provider;
    uint32_t id, version;
};

struct data {
    const char *name, *in, *out, *length, *count, *map;
    uint32_t members; /* struct: how many of the following are in it, at any depth */
    bool is_struct;
};

struct layout {
    const char *id;
    uint32_t provider, first, count;
};

struct map {
    const char *name;
    uint32_t provider, first, count;
    bool bits;
};

struct map_value {
    const char *value, *message;
};

struct string {
    const char *id, *value;
};

struct provider {
    const char *name;
    uint8_t guid[16];
};

#define LIST(type)                                                                                 \
    struct {                                                                                       \
        struct type *items;                                                                        \
        size_t count, capacity;                                                                    \
    }

struct manifest {
    struct kda_arena arena;
    LIST(provider) providers;
    LIST(event) events;
    LIST(layout) layouts;
    LIST(data) datas;
    LIST(map) maps;
    LIST(map_value) values;
    LIST(string) strings;
    uint32_t open_structs[KDA_TEMPLATE_MAX_DEPTH];
    unsigned depth;
    bool in_provider, in_layout, in_map;
    enum kda_status status;
};

/* ---- collecting ---- */

static void set_failed(struct manifest *m, enum kda_status status)
{
    if (m->status == KDA_OK)
        m->status = status;
}

static bool has_failed(const struct manifest *m)
{
    return m->status != KDA_OK;
}

/* Room for one item more; NULL after a failure. */
static void *add(struct manifest *m, void *list, size_t size)
{
    LIST(event) *any = list;
    if (any->count >= MAX_ITEMS) {
        set_failed(m, KDA_LIMIT);
        return NULL;
    }
    if (!kda_grow((void **)&any->items, &any->capacity, any->count + 1, size, MAX_ITEMS)) {
        set_failed(m, KDA_NO_MEMORY);
        return NULL;
    }
    void *item = (char *)any->items + any->count++ * size;
    memset(item, 0, size);
    return item;
}

static const char *attribute(struct manifest *m, const char *const *attributes, const char *name)
{
    for (size_t i = 0; attributes[i] && attributes[i + 1]; i += 2) {
        if (strcmp(attributes[i], name) != 0)
            continue;
        const char *kept = kda_arena_strdup(&m->arena, attributes[i + 1]);
        if (!kept)
            set_failed(m, m->arena.used > ARENA_LIMIT / 2 ? KDA_LIMIT : KDA_NO_MEMORY);
        return kept;
    }
    return NULL;
}

static void begin_provider(struct manifest *m, const char *const *attributes)
{
    const char *guid = attribute(m, attributes, "guid");
    uint8_t bytes[16];
    m->in_provider = guid && kda_guid_parse(guid, bytes);
    if (!m->in_provider)
        return;
    struct provider *provider = add(m, &m->providers, sizeof(*provider));
    if (!provider)
        return;
    memcpy(provider->guid, bytes, 16);
    provider->name = attribute(m, attributes, "name");
}

static uint32_t current_provider(const struct manifest *m)
{
    return (uint32_t)m->providers.count - 1;
}

static bool number(const char *text, uint32_t *ret)
{
    uint32_t value = 0, base = 10;
    if (!text || !*text)
        return false;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X') && text[2]) {
        base = 16;
        text += 2;
    }
    for (; *text; text++) {
        char c = (char)(*text | 0x20);
        uint32_t digit = *text >= '0' && *text <= '9' ? (uint32_t)(*text - '0')
                         : c >= 'a' && c <= 'f'       ? (uint32_t)(c - 'a' + 10)
                                                      : 16;
        if (digit >= base || value > (UINT32_MAX - digit) / base)
            return false;
        value = value * base + digit;
    }
    *ret = value;
    return true;
}

static void begin_event(struct manifest *m, const char *const *attributes)
{
    uint32_t id, version = 0;
    const char *text = attribute(m, attributes, "version");
    if (!number(attribute(m, attributes, "value"), &id) || id > UINT16_MAX ||
        (text && (!number(text, &version) || version > UINT8_MAX)))
        return;
    struct event *event = add(m, &m->events, sizeof(*event));
    if (!event)
        return;
    event->id = id;
    event->version = version;
    event->provider = current_provider(m);
    event->task = attribute(m, attributes, "task");
    event->opcode = attribute(m, attributes, "opcode");
    event->symbol = attribute(m, attributes, "symbol");
    event->template = attribute(m, attributes, "template");
}

static void begin_layout(struct manifest *m, const char *const *attributes)
{
    struct layout *layout = add(m, &m->layouts, sizeof(*layout));
    if (!layout)
        return;
    layout->id = attribute(m, attributes, "tid");
    layout->provider = current_provider(m);
    layout->first = (uint32_t)m->datas.count;
    m->in_layout = true;
    m->depth = 0;
}

static void begin_data(struct manifest *m, const char *const *attributes, bool is_struct)
{
    if (is_struct && m->depth == KDA_TEMPLATE_MAX_DEPTH) {
        set_failed(m, KDA_LIMIT);
        return;
    }
    struct data *data = add(m, &m->datas, sizeof(*data));
    if (!data)
        return;
    data->is_struct = is_struct;
    data->name = attribute(m, attributes, "name");
    data->in = attribute(m, attributes, "inType");
    data->out = attribute(m, attributes, "outType");
    data->length = attribute(m, attributes, "length");
    data->count = attribute(m, attributes, "count");
    data->map = attribute(m, attributes, "map");
    if (is_struct)
        m->open_structs[m->depth++] = (uint32_t)m->datas.count - 1;
}

static void begin_map(struct manifest *m, const char *const *attributes, bool bits)
{
    struct map *map = add(m, &m->maps, sizeof(*map));
    if (!map)
        return;
    map->name = attribute(m, attributes, "name");
    map->provider = current_provider(m);
    map->first = (uint32_t)m->values.count;
    map->bits = bits;
    m->in_map = true;
}

static void begin_value(struct manifest *m, const char *const *attributes)
{
    struct map_value *value = add(m, &m->values, sizeof(*value));
    if (!value)
        return;
    value->value = attribute(m, attributes, "value");
    value->message = attribute(m, attributes, "message");
    m->maps.items[m->maps.count - 1].count++;
}

static void begin_string(struct manifest *m, const char *const *attributes)
{
    struct string *string = add(m, &m->strings, sizeof(*string));
    if (!string)
        return;
    string->id = attribute(m, attributes, "id");
    string->value = attribute(m, attributes, "value");
}

static void begin_element(struct manifest *m, const char *element, const char *const *attributes)
{
    if (strcmp(element, "provider") == 0)
        begin_provider(m, attributes);
    else if (strcmp(element, "string") == 0)
        begin_string(m, attributes);
    else if (!m->in_provider)
        return;
    else if (m->in_layout && (strcmp(element, "data") == 0 || strcmp(element, "struct") == 0))
        begin_data(m, attributes, element[0] == 's');
    else if (m->in_map && strcmp(element, "map") == 0)
        begin_value(m, attributes);
    else if (strcmp(element, "event") == 0)
        begin_event(m, attributes);
    else if (strcmp(element, "template") == 0)
        begin_layout(m, attributes);
    else if (strcmp(element, "valueMap") == 0 || strcmp(element, "bitMap") == 0)
        begin_map(m, attributes, element[0] == 'b');
}

static void end_element(struct manifest *m, const char *element)
{
    if (strcmp(element, "provider") == 0) {
        m->in_provider = false;
    } else if (strcmp(element, "template") == 0 && m->in_layout) {
        struct layout *layout = &m->layouts.items[m->layouts.count - 1];
        layout->count = (uint32_t)m->datas.count - layout->first;
        m->in_layout = false;
    } else if (strcmp(element, "struct") == 0 && m->in_layout && m->depth > 0) {
        uint32_t at = m->open_structs[--m->depth];
        m->datas.items[at].members = (uint32_t)m->datas.count - at - 1;
    } else if (strcmp(element, "valueMap") == 0 || strcmp(element, "bitMap") == 0) {
        m->in_map = false;
    }
}

/* ---- joining ---- */

struct joiner {
    const struct manifest *m;
    struct kda_templates *store;
    struct kda_draft *draft;
    struct kda_map_list *maps;
    enum kda_origin origin;
    const struct provider *provider;
    uint64_t *work;
};

/* "$(string.Id)" is the text of the first string table that has it. */
static const char *message(const struct joiner *j, const char *text)
{
    const struct manifest *m = j->m;
    static const char head[] = "$(string.";
    size_t size = text ? strlen(text) : 0;
    if (size < sizeof(head) || strncmp(text, head, sizeof(head) - 1) != 0 || text[size - 1] != ')')
        return text;
    const char *id = text + sizeof(head) - 1;
    size_t length = size - sizeof(head);
    *j->work += m->strings.count;
    for (size_t i = 0; i < m->strings.count && *j->work < MAX_WORK; i++) {
        const struct string *s = &m->strings.items[i];
        if (s->id && s->value && strlen(s->id) == length && strncmp(s->id, id, length) == 0)
            return s->value;
    }
    return text;
}

static enum kda_status join_map(const struct joiner *j, const struct map *map,
                                struct kda_error *err)
{
    struct kda_etl_map made = {.name = map->name, .bits = map->bits};
    if (!map->name || map->count > KDA_TEMPLATE_MAX_MAP)
        return KDA_OK;
    struct kda_etl_map_entry *entries = kda_calloc(map->count ? map->count : 1, sizeof(*entries));
    if (!entries)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for a map");
    for (uint32_t i = 0; i < map->count; i++) {
        const struct map_value *value = &j->m->values.items[map->first + i];
        struct kda_etl_map_entry *entry = &entries[made.count];
        entry->name = message(j, value->message);
        if (entry->name && number(value->value, &entry->value))
            made.count++;
    }
    made.entries = entries;
    enum kda_status status =
        kda_maps_set(j->maps, j->store, j->m->providers.items[map->provider].guid, &made, err);
    kda_free(entries);
    return status;
}

/* A number, or the name of a field before `index`. 0: neither; 1: number; 2: field. */
static unsigned reference(const struct joiner *j, const char *text, unsigned index, uint16_t *ret)
{
    uint32_t value;
    if (!text)
        return 0;
    if (number(text, &value) && value <= UINT16_MAX) {
        *ret = (uint16_t)value;
        return 1;
    }
    *j->work += index;
    for (unsigned i = 0; i < index && *j->work < MAX_WORK; i++)
        if (strcmp(j->draft->fields[i].name, text) == 0) {
            *ret = (uint16_t)i;
            return 2;
        }
    return 0;
}

static bool join_field(const struct joiner *j, const struct data *data, unsigned index)
{
    struct kda_etl_field *f = &j->draft->fields[index];
    memset(f, 0, sizeof(*f));
    f->name = data->name;
    f->next = (uint16_t)(index + 1 + data->members);
    f->in = data->is_struct ? (uint16_t)KDA_IN_STRUCT : (uint16_t)kda_manifest_in_type(data->in);
    f->out = (uint16_t)kda_manifest_out_type(data->out);
    f->first = (uint16_t)(index + 1);
    if (!data->name || f->in == KDA_IN_NULL)
        return false;
    unsigned length = reference(j, data->length, index, &f->length);
    unsigned count = reference(j, data->count, index, &f->count);
    if ((data->length && !length) || (data->count && !count))
        return false;
    if (length)
        f->flags |= length == 1 ? KDA_FIELD_LENGTH_FIXED : KDA_FIELD_LENGTH_FIELD;
    if (count)
        f->flags |= count == 1 ? KDA_FIELD_COUNT_FIXED : KDA_FIELD_COUNT_FIELD;
    if (data->map)
        f->map = kda_maps_want(j->maps, j->provider->guid, data->map);
    return true;
}

/* Members on the next level of a structure, or of the whole. */
static uint16_t direct_members(const struct data *datas, uint32_t count)
{
    uint16_t members = 0;
    for (uint32_t i = 0; i < count; i += 1 + datas[i].members)
        members++;
    return members;
}

static bool join_layout(const struct joiner *j, const struct layout *layout,
                        struct kda_etl_template *t)
{
    if (layout->count == 0)
        return true;
    if (layout->count > KDA_TEMPLATE_MAX_FIELDS)
        return false;
    const struct data *datas = &j->m->datas.items[layout->first];
    for (uint32_t i = 0; i < layout->count; i++) {
        if (!join_field(j, &datas[i], i))
            return false;
        j->draft->fields[i].members = direct_members(&datas[i] + 1, datas[i].members);
        t->has_refs |=
            (j->draft->fields[i].flags & (KDA_FIELD_LENGTH_FIELD | KDA_FIELD_COUNT_FIELD)) != 0;
    }
    t->count = (uint16_t)layout->count;
    t->top = direct_members(datas, layout->count);
    return true;
}

static const struct layout *find_layout(const struct joiner *j, const struct event *event)
{
    const struct manifest *m = j->m;
    for (size_t i = 0; event->template && i < m->layouts.count; i++, ++*j->work) {
        const struct layout *layout = &m->layouts.items[i];
        if (layout->provider == event->provider && layout->id &&
            strcmp(layout->id, event->template) == 0)
            return layout;
    }
    return NULL;
}

/* An event whose description cannot be used is left out: its payload stays hex. */
static enum kda_status join_event(struct joiner *j, const struct event *event,
                                  struct kda_error *err)
{
    struct kda_etl_template t = {.fields = j->draft->fields, .origin = "a manifest"};
    const struct layout *layout = find_layout(j, event);
    j->provider = &j->m->providers.items[event->provider];
    j->draft->text_used = 0;
    if ((event->template && !layout) || (layout && !join_layout(j, layout, &t)) ||
        !kda_template_valid(&t))
        return KDA_OK;
    t.provider_name = j->provider->name;
    t.event_name = kda_draft_event_name(j->draft, event->task, event->opcode);
    if (!t.event_name)
        t.event_name = event->symbol;
    t.version = (uint8_t)event->version;
    struct kda_template_key key = {
        .id = (uint16_t)event->id, .version = t.version, .origin = (uint8_t)j->origin};
    memcpy(key.guid, j->provider->guid, 16);
    return kda_templates_add(j->store, &key, &t, NULL, err);
}

static enum kda_status join(struct joiner *j, struct kda_error *err)
{
    const struct manifest *m = j->m;
    enum kda_status status = KDA_OK;
    if (m->providers.count == 0)
        return kda_fail(err, KDA_BAD_DATA, "etl", "names no provider with a GUID");
    for (size_t i = 0; i < m->maps.count && status == KDA_OK && *j->work < MAX_WORK; i++)
        status = join_map(j, &m->maps.items[i], err);
    for (size_t i = 0; i < m->events.count && status == KDA_OK && *j->work < MAX_WORK; i++)
        status = join_event(j, &m->events.items[i], err);
    if (status == KDA_OK && *j->work >= MAX_WORK)
        return kda_fail(err, KDA_LIMIT, "etl", "takes too long to join");
    return status;
}

static bool on_begin(void *context, const char *element, const char *const *attributes)
{
    if (!has_failed(context))
        begin_element(context, element, attributes);
    return !has_failed(context);
}

static bool on_end(void *context, const char *element)
{
    end_element(context, element);
    return !has_failed(context);
}

enum kda_status kda_manifest_learn(struct kda_templates *store, struct kda_draft *draft,
                                   struct kda_map_list *maps, enum kda_origin origin,
                                   const char *xml, size_t size, const char *what,
                                   struct kda_error *err)
{
    struct manifest *m = kda_calloc(1, sizeof(*m));
    if (!m)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for a manifest");
    kda_arena_init(&m->arena, ARENA_LIMIT);
    uint64_t work = 0;
    struct joiner j = {
        .m = m, .store = store, .draft = draft, .maps = maps, .origin = origin, .work = &work};
    const struct kda_xml_reader reader = {.context = m, .begin = on_begin, .end = on_end};
    enum kda_status status = kda_xml_read(&reader, xml, size, err);
    if (status == KDA_OK && m->status != KDA_OK)
        status = kda_fail(err, m->status, "etl",
                          m->status == KDA_LIMIT ? "is too large" : "out of memory");
    if (status == KDA_OK)
        status = join(&j, err);
    if (status != KDA_OK)
        kda_error_prepend(err, "manifest %s", what);
    kda_free(m->providers.items);
    kda_free(m->events.items);
    kda_free(m->layouts.items);
    kda_free(m->datas.items);
    kda_free(m->maps.items);
    kda_free(m->values.items);
    kda_free(m->strings.items);
    kda_arena_deinit(&m->arena);
    kda_free(m);
    return status;
}
