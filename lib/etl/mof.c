/*
 * mof.c - the table of the kernel's events as templates, and finding the one of a record.
 */
#include "mof.h"

#include "bytes.h"
#include "text.h"

struct type_row {
    const char *name;
    uint16_t in, out;
};

static const struct type_row types[] = {
    {"u8", KDA_IN_UINT8, 0},
    {"u16", KDA_IN_UINT16, 0},
    {"u32", KDA_IN_UINT32, 0},
    {"u64", KDA_IN_UINT64, 0},
    {"i8", KDA_IN_INT8, 0},
    {"i16", KDA_IN_INT16, 0},
    {"i32", KDA_IN_INT32, 0},
    {"i64", KDA_IN_INT64, 0},
    {"x32", KDA_IN_HEX32, 0},
    {"x64", KDA_IN_HEX64, 0},
    {"ptr", KDA_IN_POINTER, 0},
    {"size", KDA_IN_POINTER, KDA_OUT_UNSIGNED},
    {"xptr", KDA_IN_POINTER, 0},
    {"time", KDA_IN_FILETIME, 0},
    {"guid", KDA_IN_GUID, 0},
    {"sid", KDA_IN_WBEM_SID, 0},
    {"bsid", KDA_IN_SID, 0},
    {"str", KDA_IN_ANSI, 0},
    {"wstr", KDA_IN_UNICODE, 0},
    {"ip4", KDA_IN_UINT32, KDA_OUT_IPV4},
    {"ip6", KDA_IN_BINARY, KDA_OUT_IPV6},
    {"port", KDA_IN_UINT16, KDA_OUT_PORT},
    {"status", KDA_IN_UINT32, KDA_OUT_STATUS},
    {"bytes", KDA_IN_BINARY, 0},
    {"bool", KDA_IN_BOOLEAN, 0},
    {"struct", KDA_IN_STRUCT, 0},
};

static const struct {
    const char *name;
    uint16_t target;
} heads[] = {
    {"pid", KDA_TARGET_PID},          {"tid", KDA_TARGET_TID},
    {"kcb", KDA_TARGET_KCB},          {"object", KDA_TARGET_OBJECT},
    {"base_object", KDA_TARGET_BASE}, {"base_name", KDA_TARGET_BASE_NAME},
    {"name", KDA_TARGET_NAME},
};

static const struct {
    const char *guid, *provider, *name;
    uint8_t group;
} classes[] = {
#define KERNEL "Windows Kernel"
#define TRACE_CONTROL "KernelTraceControl"
#define KERNEL_PROCESS "Microsoft-Windows-Kernel-Process"
#define KERNEL_NETWORK "Microsoft-Windows-Kernel-Network"
#define KERNEL_REGISTRY "Microsoft-Windows-Kernel-Registry"
#define CLR "Microsoft-Windows-DotNETRuntime"
#define CLR_PRIVATE "Microsoft-Windows-DotNETRuntimePrivate"
#define C(name, group, guid, provider, text) {guid, provider, text, group},
    KDA_MOF_CLASSES(C)
#undef C
};

/* ---- layouts ---- */

/* A word of `size` characters is this one? */
static bool is(const char *word, size_t size, const char *name)
{
    return size > 0 && name[0] == word[0] && strlen(name) == size && memcmp(word, name, size) == 0;
}

static bool take_type(const char *text, size_t size, const struct kda_etl_field *before,
                      unsigned index, struct kda_etl_field *f)
{
    size_t name = 0;
    while (name < size && text[name] != '(' && text[name] != '[')
        name++;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (!is(text, name, types[i].name))
            continue;
        f->in = types[i].in;
        f->out = types[i].out;
    }
    if (f->out == KDA_OUT_IPV6) {
        f->flags |= KDA_FIELD_LENGTH_FIXED;
        f->length = 16;
    } else if (name < size && text[name] == '[') {
        f->flags |= KDA_FIELD_COUNT_REST;
    } else if (name < size) { /* "bytes(172)", "bytes(Field)" */
        const char *inner = text + name + 1;
        size_t length = size - name - 2;
        for (size_t i = 0; i < length && inner[i] >= '0' && inner[i] <= '9'; i++) {
            f->flags |= KDA_FIELD_LENGTH_FIXED;
            f->length = (uint16_t)(f->length * 10 + (inner[i] - '0'));
        }
        for (unsigned i = 0; i < index; i++)
            if (is(inner, length, before[i].name)) {
                f->flags |= f->in == KDA_IN_STRUCT ? KDA_FIELD_COUNT_FIELD : KDA_FIELD_LENGTH_FIELD;
                f->length = f->count = (uint16_t)i;
            }
    } else if (f->in == KDA_IN_BINARY) {
        f->flags |= KDA_FIELD_LENGTH_REST;
    }
    return f->in != KDA_IN_NULL;
}

/* Target by name: one of the heads, or a field of the kind. */
static bool take_target(const char *text, size_t size, unsigned kind, struct kda_etl_field *f)
{
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
        if (is(text, size, heads[i].name))
            f->target = heads[i].target;
    for (unsigned slot = 0; slot < kda_kinds[kind].slots && !f->target; slot++)
        if (is(text, size, kda_kinds[kind].fields[slot].name))
            f->target = (uint16_t)(KDA_TARGET_SLOT + slot);
    if (f->target && f->target < KDA_TARGET_KCB)
        f->flags |= KDA_FIELD_PLACED;
    return f->target != KDA_TARGET_NONE;
}

/* "?type:Name>target!" */
static bool take_field(struct kda_mof *mof, const char *word, size_t size, unsigned kind,
                       struct kda_etl_field *fields, unsigned index)
{
    struct kda_etl_field *f = &fields[index];
    memset(f, 0, sizeof(*f));
    f->next = (uint16_t)(index + 1);
    if (size > 0 && word[0] == '?') {
        f->flags |= KDA_FIELD_OPTIONAL;
        word++;
        size--;
    }
    if (size > 0 && word[size - 1] == '!') {
        f->flags |= KDA_FIELD_HIDDEN;
        size--;
    }
    const char *colon = memchr(word, ':', size);
    if (!colon)
        return false;
    const char *name = colon + 1, *end = word + size;
    const char *arrow = memchr(name, '>', (size_t)(end - name));
    f->name = kda_arena_strndup(&mof->arena, name, (size_t)((arrow ? arrow : end) - name));
    mof->no_memory = !f->name;
    return f->name && take_type(word, (size_t)(colon - word), fields, index, f) &&
           (!arrow || take_target(arrow + 1, (size_t)(end - arrow - 1), kind, f));
}

static unsigned count_words(const char *text)
{
    unsigned words = 0;
    for (size_t i = 0; text[i]; i++)
        words += text[i] != ' ' && (i == 0 || text[i - 1] == ' ');
    return words;
}

static enum kda_status bad_row(const struct kda_mof *mof, const struct kda_mof_row *row,
                               const char *word, size_t size, struct kda_error *err)
{
    return kda_fail(err, mof->no_memory ? KDA_NO_MEMORY : KDA_BAD_DATA, "etl",
                    "row of event %s: '%.*s'", row->name, (int)size, word);
}

/* Fields of one row into event->t, whose array has room for all words. */
static enum kda_status take_fields(struct kda_mof *mof, const struct kda_mof_row *row,
                                   struct kda_mof_event *event, struct kda_etl_field *fields,
                                   struct kda_error *err)
{
    struct kda_etl_field *open = NULL;
    unsigned index = 0, top = 0;
    for (const char *at = row->layout; *at;) {
        size_t size = strcspn(at, " ");
        if (is(at, size, ";") && open) {
            open->next = (uint16_t)index;
            open = NULL;
        } else if (size > 0) {
            struct kda_etl_field *f = &fields[index];
            if (!take_field(mof, at, size, row->kind, fields, index))
                return bad_row(mof, row, at, size, err);
            index++;
            event->t.has_refs |= (f->flags & (KDA_FIELD_LENGTH_FIELD | KDA_FIELD_COUNT_FIELD)) != 0;
            if (f->target >= KDA_TARGET_PID)
                event->place_of[f->target - KDA_TARGET_PID] = (uint8_t)index;
            if (open)
                open->members++;
            else
                top++;
            if (f->in == KDA_IN_STRUCT) {
                f->first = (uint16_t)index;
                open = f;
            }
        }
        at += size + (at[size] == ' ');
    }
    event->t.count = (uint16_t)index;
    event->t.top = (uint16_t)top;
    event->t.flat = true;
    for (unsigned i = 0; i < index; i++)
        event->t.flat &= !(fields[i].flags & KDA_FIELD_IS_ARRAY) && fields[i].in != KDA_IN_STRUCT;
    return KDA_OK;
}

/* "Class/Name"; of manifest events the name alone. */
static const char *full_name(struct kda_mof *mof, const struct kda_mof_row *row)
{
    const char *class_name = classes[row->class_].name;
    size_t head = class_name ? strlen(class_name) : 0, size = strlen(row->name);
    if (!class_name)
        return row->name;
    char *name = kda_arena_alloc(&mof->arena, head + size + 2);
    if (!name)
        return NULL;
    memcpy(name, class_name, head);
    if (size > 0)
        name[head++] = '/';
    memcpy(name + head, row->name, size);
    return name;
}

static enum kda_status make_event(struct kda_mof *mof, const struct kda_mof_row *row,
                                  struct kda_mof_event *event, struct kda_error *err)
{
    unsigned count = count_words(row->layout);
    struct kda_etl_field *fields = kda_arena_alloc(&mof->arena, (count + 1) * sizeof(*fields));
    event->row = row;
    event->t.event_name = full_name(mof, row);
    if (!fields || !event->t.event_name)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for the kernel's events");
    event->t.fields = fields;
    event->t.origin = "the kernel's table";
    enum kda_status status = take_fields(mof, row, event, fields, err);
    if (status == KDA_OK && !kda_template_valid(&event->t))
        status = bad_row(mof, row, "", 0, err);
    return status;
}

static enum kda_status make_table(struct kda_mof *mof, const struct kda_mof_row *rows, size_t count,
                                  struct kda_error *err)
{
    for (size_t i = 0; i < count; i++) {
        struct kda_mof_event *event = &mof->events[mof->count];
        enum kda_status status = make_event(mof, &rows[i], event, err);
        if (status != KDA_OK)
            return status;
        if (rows[i].type >= KDA_MOF_TYPES)
            return bad_row(mof, &rows[i], "", 0, err);
        uint16_t *first = &mof->first[rows[i].class_][rows[i].type];
        event->next = *first;
        *first = (uint16_t)++mof->count;
    }
    return KDA_OK;
}

enum kda_status kda_mof_init(struct kda_mof *mof, struct kda_error *err)
{
    memset(mof, 0, sizeof(*mof));
    kda_arena_init(&mof->arena, 0);
    for (unsigned i = 0; i < KDA_MOF_CLASS_COUNT; i++) {
        if (!kda_guid_parse(classes[i].guid, mof->guids[i]))
            return kda_fail(err, KDA_BAD_DATA, "etl", "class %u has no GUID", i);
        if (classes[i].group != KDA_MOF_NO_GROUP)
            mof->class_of_group[classes[i].group] = (uint8_t)(i + 1);
    }
    mof->events = kda_arena_alloc(&mof->arena,
                                  (kda_mof_row_count + kda_clr_row_count) * sizeof(*mof->events));
    if (!mof->events)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for the kernel's events");
    enum kda_status status = make_table(mof, kda_mof_rows, kda_mof_row_count, err);
    if (status == KDA_OK)
        status = make_table(mof, kda_clr_rows, kda_clr_row_count, err);
    return status;
}

void kda_mof_deinit(struct kda_mof *mof)
{
    kda_arena_deinit(&mof->arena);
    memset(mof, 0, sizeof(*mof));
}

/* ---- finding ---- */

static unsigned class_of_guid(const struct kda_mof *mof, const uint8_t *guid, bool manifest)
{
    /* Manifest providers are the last of the list. */
    for (unsigned i = manifest ? KDA_MOF_M_PROCESS : 0; i < KDA_MOF_CLASS_COUNT; i++)
        if (kda_mof_is_manifest(i) == manifest && memcmp(mof->guids[i], guid, 16) == 0)
            return i;
    return KDA_MOF_CLASS_COUNT;
}

unsigned kda_mof_class_of(const struct kda_mof *mof, const struct kda_etl_record *record)
{
    switch (record->shape) {
    case KDA_ETL_SHAPE_SYSTEM:
        /* Image loads come with the group of Process. */
        if (record->group == 0x03 && record->type == 10)
            return KDA_MOF_IMAGE;
        if (mof->class_of_group[record->group] == 0)
            return KDA_MOF_CLASS_COUNT;
        return mof->class_of_group[record->group] - 1u;
    case KDA_ETL_SHAPE_CLASSIC:
        return class_of_guid(mof, record->guid, false);
    case KDA_ETL_SHAPE_EVENT:
        return class_of_guid(mof, record->guid, true);
    default:
        return KDA_MOF_CLASS_COUNT;
    }
}

const char *kda_mof_provider_name(unsigned class_)
{
    return classes[class_].provider;
}

const char *kda_mof_class_name(unsigned class_)
{
    return classes[class_].name;
}

bool kda_mof_is_manifest(unsigned class_)
{
    return classes[class_].name == NULL;
}

bool kda_mof_is_stand_in(unsigned class_)
{
    return class_ == KDA_MOF_M_CLR || class_ == KDA_MOF_M_CLR_PRIVATE;
}

unsigned kda_mof_type_of(const struct kda_etl_record *record, unsigned class_)
{
    return kda_mof_is_manifest(class_) ? record->id : record->type;
}

const struct kda_mof_event *kda_mof_find(const struct kda_mof *mof, unsigned class_, unsigned type,
                                         unsigned version)
{
    const struct kda_mof_event *best = NULL;
    if (type >= KDA_MOF_TYPES)
        return NULL;
    for (unsigned i = mof->first[class_][type]; i != 0; i = mof->events[i - 1].next) {
        const struct kda_mof_row *row = mof->events[i - 1].row;
        if (row->first_version <= version &&
            (!best || row->first_version > best->row->first_version))
            best = &mof->events[i - 1];
    }
    return best;
}
