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
#define C(name, group, guid, provider, text) {guid, provider, text, group},
    KDA_MOF_CLASSES(C)
#undef C
};

/* ---- layouts ---- */

/* A word of `size` characters is this one? */
static bool is(const char *word, size_t size, const char *name)
{
    return strlen(name) == size && memcmp(word, name, size) == 0;
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
                f->flags |= KDA_FIELD_LENGTH_FIELD;
                f->length = (uint16_t)i;
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

static enum kda_status make_event(struct kda_mof *mof, const struct kda_mof_row *row,
                                  struct kda_mof_event *event, struct kda_error *err)
{
    unsigned count = count_words(row->layout), index = 0;
    struct kda_etl_field *fields = kda_arena_alloc(&mof->arena, (count + 1) * sizeof(*fields));
    if (!fields)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for the kernel's events");
    for (const char *at = row->layout; *at;) {
        size_t size = strcspn(at, " ");
        if (size > 0 && !take_field(mof, at, size, row->kind, fields, index))
            return kda_fail(err, mof->arena.used ? KDA_BAD_DATA : KDA_NO_MEMORY, "etl",
                            "row of event %s: '%.*s'", row->name, (int)size, at);
        if (size > 0) {
            struct kda_etl_field *f = &fields[index++];
            event->t.has_refs |= (f->flags & KDA_FIELD_LENGTH_FIELD) != 0;
            if (f->target >= KDA_TARGET_PID)
                event->place_of[f->target - KDA_TARGET_PID] = (uint8_t)index;
        }
        at += size + (at[size] == ' ');
    }
    event->row = row;
    event->t.event_name = row->name;
    event->t.fields = fields;
    event->t.count = event->t.top = (uint16_t)index;
    event->t.origin = "the kernel's table";
    if (!kda_template_valid(&event->t))
        return kda_fail(err, KDA_BAD_DATA, "etl", "row of event %s", row->name);
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
    mof->events = kda_arena_alloc(&mof->arena, kda_mof_row_count * sizeof(*mof->events));
    if (!mof->events)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for the kernel's events");
    for (size_t i = 0; i < kda_mof_row_count; i++) {
        enum kda_status status = make_event(mof, &kda_mof_rows[i], &mof->events[i], err);
        if (status != KDA_OK)
            return status;
    }
    for (size_t i = kda_mof_row_count; i-- > 0;) {
        const struct kda_mof_row *row = &kda_mof_rows[i];
        if (row->type >= KDA_MOF_TYPES)
            return kda_fail(err, KDA_BAD_DATA, "etl", "row of event %s: type %u", row->name,
                            row->type);
        mof->events[i].next = mof->first[row->class_][row->type];
        mof->first[row->class_][row->type] = (uint16_t)(i + 1);
    }
    return KDA_OK;
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
        const struct kda_mof_row *row = &kda_mof_rows[i - 1];
        if (row->first_version <= version &&
            (!best || row->first_version > best->row->first_version))
            best = &mof->events[i - 1];
    }
    return best;
}
