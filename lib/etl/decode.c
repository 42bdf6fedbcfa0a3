/*
 * decode.c - the decoder: making it, learning what a trace says about its events, lines.
 */
#include "decode.h"

#include "file.h"
#include "text.h"

#define FIRST_LINE ((size_t)64 << 10)
#define MAX_MANIFESTS 4096u
#define UNITS_PER_SECOND 10000000u

enum { METADATA_EVENT_INFO = 32, METADATA_MAP_INFO = 33 };

enum kda_status kda_etl_decoder_create(const struct kda_decode_options *options,
                                       struct kda_etl_decoder **ret, struct kda_error *err)
{
    struct kda_etl_decoder *d = kda_calloc(1, sizeof(*d));
    if (!d)
        return kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for a decoder");
    if (options)
        d->options = *options;
    d->clock.frequency = UNITS_PER_SECOND;
    for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++) {
        d->slots[kind].fields = (uint8_t)kda_decode_slot(kind, "fields");
        d->slots[kind].extended = (uint8_t)kda_decode_slot(kind, "extended");
        d->slots[kind].key = (uint8_t)kda_decode_slot(kind, "key");
    }
    kda_templates_init(&d->store);
    kda_maps_init(&d->maps, &d->store);
    kda_map_init(&d->processes);
    enum kda_status status = kda_mof_init(&d->mof, err);
    if (status == KDA_OK)
        status = kda_registry_init(&d->registry, err);
    d->line_capacity = FIRST_LINE;
    d->line = status == KDA_OK ? kda_calloc(FIRST_LINE, 1) : NULL;
    if (status == KDA_OK && !d->line)
        status = kda_fail(err, KDA_NO_MEMORY, "etl", "out of memory for a decoder");
    if (status != KDA_OK) {
        kda_etl_decoder_destroy(d);
        return status;
    }
    *ret = d;
    return KDA_OK;
}

void kda_etl_decoder_destroy(struct kda_etl_decoder *d)
{
    if (!d)
        return;
    kda_mof_deinit(&d->mof);
    kda_maps_deinit(&d->maps);
    kda_templates_deinit(&d->store);
    kda_eventsource_deinit(&d->eventsource);
    kda_registry_deinit(&d->registry);
    kda_map_deinit(&d->processes);
    kda_free(d->line);
    kda_free(d);
}

/* ---- manifests of the user ---- */

static enum kda_status add_manifest_file(struct kda_etl_decoder *d, const char *path,
                                         struct kda_error *err)
{
    struct kda_file *file = NULL;
    void *bytes = NULL;
    size_t size;
    enum kda_status status = kda_file_open(path, &file, err);
    if (status != KDA_OK)
        return status;
    status = kda_file_read_all(file, KDA_MANIFEST_MAX_BYTES, &bytes, &size, err);
    if (status == KDA_OK)
        status = kda_manifest_learn(&d->store, &d->draft, &d->maps, KDA_ORIGIN_USER, bytes, size,
                                    path, err);
    kda_free(bytes);
    kda_file_close(file);
    return status;
}

struct folder {
    struct kda_etl_decoder *d;
    const char *path;
    enum kda_status status;
    size_t found;
    struct kda_error *err;
};

static bool ends_with(const char *name, const char *ending)
{
    size_t size = strlen(name), end = strlen(ending);
    return size > end && strcmp(name + size - end, ending) == 0;
}

static bool take_entry(void *context, const char *name)
{
    struct folder *folder = context;
    if (!ends_with(name, ".xml") && !ends_with(name, ".man"))
        return true;
    size_t size = strlen(folder->path) + strlen(name) + 2;
    char *path = kda_calloc(size, 1);
    if (!path) {
        folder->status = kda_fail(folder->err, KDA_NO_MEMORY, "etl", "out of memory");
        return false;
    }
    memcpy(path, folder->path, strlen(folder->path));
    path[strlen(folder->path)] = '/';
    memcpy(path + strlen(folder->path) + 1, name, strlen(name));
    folder->found++;
    folder->status = add_manifest_file(folder->d, path, folder->err);
    kda_free(path);
    return folder->status == KDA_OK;
}

enum kda_status kda_etl_decoder_add_manifest(struct kda_etl_decoder *d, const char *path,
                                             struct kda_error *err)
{
    if (kda_path_kind(path) != KDA_PATH_FOLDER)
        return add_manifest_file(d, path, err);
    struct folder folder = {.d = d, .path = path, .status = KDA_OK, .err = err};
    enum kda_status status = kda_dir_walk(path, MAX_MANIFESTS, take_entry, &folder, err);
    if (status == KDA_OK)
        status = folder.status;
    if (status == KDA_OK && folder.found == 0)
        return kda_fail(err, KDA_ABSENT, "etl", "\"%s\" has no .xml or .man file", path);
    return status;
}

/* ---- learning ---- */

/* A description that cannot be used is no reason to stop: its events stay hex. */
static enum kda_status learned(struct kda_etl_decoder *d, enum kda_status status,
                               const struct kda_error *problem, struct kda_error *err)
{
    if (status == KDA_OK) {
        d->learned.descriptions++;
        if (d->cached) /* what was looked up before may be described now */
            memset(d->cache, 0, sizeof(d->cache));
        d->cached = false;
        return KDA_OK;
    }
    if (status == KDA_NO_MEMORY) {
        if (err)
            *err = *problem;
        return status;
    }
    if (d->learned.damaged++ == 0) {
        size_t size = strlen(problem->text), max = sizeof(d->learned.first_problem) - 1;
        size = size < max ? size : kda_utf8_valid_prefix(problem->text, max);
        memcpy(d->learned.first_problem, problem->text, size);
        d->learned.first_problem[size] = '\0';
    }
    return KDA_OK;
}

static enum kda_status learn_chunk(struct kda_etl_decoder *d, const struct kda_etl_record *record,
                                   struct kda_error *err)
{
    struct kda_error problem;
    char *xml;
    size_t size;
    enum kda_status status = kda_eventsource_take(&d->eventsource, record, &xml, &size, &problem);
    if (status == KDA_OK && !xml)
        return KDA_OK;
    if (status == KDA_OK)
        status = kda_manifest_learn(&d->store, &d->draft, &d->maps, KDA_ORIGIN_FILE, xml, size,
                                    "of an EventSource", &problem);
    kda_free(xml);
    return learned(d, status, &problem, err);
}

static enum kda_status learn_metadata(struct kda_etl_decoder *d,
                                      const struct kda_etl_record *record, struct kda_error *err)
{
    struct kda_error problem;
    enum kda_status status;
    if (record->type == METADATA_EVENT_INFO)
        status = kda_event_info_learn(&d->store, &d->draft, &d->maps, record->payload,
                                      record->payload_size, &problem);
    else if (record->type == METADATA_MAP_INFO)
        status = kda_map_info_learn(&d->store, &d->draft, &d->maps, record->payload,
                                    record->payload_size, &problem);
    else
        return KDA_OK;
    return learned(d, status, &problem, err);
}

static void learn_registry(struct kda_etl_decoder *d, const struct kda_etl_record *record)
{
    struct kda_payload walk;
    const struct kda_mof_event *event =
        kda_mof_find(&d->mof, KDA_MOF_REGISTRY, record->type, record->version);
    if (!event || !kda_decode_kernel_fit(d, record, event, &walk))
        return;
    kda_registry_learn(&d->registry,
                       &(struct kda_registry_record){event, d->places, record->payload,
                                                     walk.pointer_size, record->raw_time});
}

enum kda_status kda_etl_decoder_learn(struct kda_etl_decoder *d,
                                      const struct kda_etl_record *record, struct kda_error *err)
{
    if (d->options.raw)
        return KDA_OK;
    if (kda_eventsource_is_chunk(record))
        return learn_chunk(d, record, err);
    if (record->shape != KDA_ETL_SHAPE_SYSTEM && record->shape != KDA_ETL_SHAPE_CLASSIC)
        return KDA_OK;
    unsigned class_ = kda_mof_class_of(&d->mof, record);
    if (class_ == KDA_MOF_METADATA)
        return learn_metadata(d, record, err);
    if (class_ == KDA_MOF_REGISTRY)
        learn_registry(d, record);
    return KDA_OK;
}

void kda_etl_decoder_learned(const struct kda_etl_decoder *d, struct kda_decode_learned *ret)
{
    *ret = d->learned;
}

/* ---- decoding ---- */

const struct kda_event *kda_etl_decoder_decode(struct kda_etl_decoder *d,
                                               const struct kda_etl_record *record,
                                               const struct kda_decode_place *place)
{
    struct kda_decoding x = {
        .d = d,
        .record = record,
        .place = place,
        .class_ = kda_mof_class_of(&d->mof, record),
    };
    if (!kda_decode_wants_record(&x))
        return NULL;
    kda_decode_record(&x);
    (void)kda_event_end(&d->b);
    const struct kda_event *event = (const void *)d->event;
    return kda_decode_wants_event(d, event, x.class_) ? event : NULL;
}

const char *kda_etl_decoder_line(struct kda_etl_decoder *d, const struct kda_event *event,
                                 uint64_t id, size_t *size)
{
    ((struct kda_event *)(void *)d->event)->id = id;
    size_t used = kda_jsonl_encode(event, &d->clock, d->line, d->line_capacity);
    if (used > d->line_capacity) {
        char *line = kda_realloc_array(d->line, used, 1);
        if (!line)
            return NULL;
        d->line = line;
        d->line_capacity = used;
        used = kda_jsonl_encode(event, &d->clock, d->line, d->line_capacity);
    }
    *size = used;
    return d->line;
}
