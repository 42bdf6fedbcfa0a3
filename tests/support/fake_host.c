#include "fake_host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kda_ioctl.h"

static uint32_t give_path(char **path, const char *text)
{
    *path = malloc(strlen(text) + 1);
    if (!*path)
        return HOST_NO_MEMORY;
    memcpy(*path, text, strlen(text) + 1);
    return HOST_OK;
}

static uint32_t service_query(void *context, struct host_service *service)
{
    struct fake_host *fake = context;
    if (fake->query_error)
        return fake->query_error;
    if (!fake->installed)
        return HOST_NOT_INSTALLED;
    service->state = fake->state;
    if (fake->pending > 0 && --fake->pending == 0)
        fake->state = fake->state == HOST_STARTING && !fake->start_fails_silently ? HOST_RUNNING
                                                                                  : HOST_STOPPED;
    service->kernel_driver = fake->kernel_driver;
    service->start = 3;
    return give_path(&service->image, fake->image);
}

static uint32_t service_create(void *context, const char *image)
{
    struct fake_host *fake = context;
    (void)image;
    if (fake->create_error)
        return fake->create_error;
    fake->installed = fake->kernel_driver = true;
    return HOST_OK;
}

static uint32_t service_start(void *context)
{
    struct fake_host *fake = context;
    if (fake->start_error)
        return fake->start_error;
    if (!fake->installed)
        return HOST_NOT_INSTALLED;
    if (fake->state != HOST_STOPPED)
        return HOST_RUNNING_ALREADY;
    fake->state = HOST_STARTING;
    fake->pending = 2;
    return HOST_OK;
}

static uint32_t service_stop(void *context)
{
    struct fake_host *fake = context;
    if (fake->stop_error)
        return fake->stop_error;
    if (!fake->installed)
        return HOST_NOT_INSTALLED;
    fake->state = HOST_STOPPING;
    fake->pending = 2;
    return HOST_OK;
}

static uint32_t service_delete(void *context)
{
    struct fake_host *fake = context;
    if (fake->delete_error)
        return fake->delete_error;
    fake->installed = false;
    return HOST_OK;
}

static uint32_t driver_path(void *context, char **path)
{
    (void)context;
    return give_path(path, "C:\\Windows\\System32\\drivers\\kdamonitor.sys");
}

static uint32_t own_folder(void *context, char **path)
{
    (void)context;
    return give_path(path, "D:\\tools");
}

static uint32_t file_copy(void *context, const char *from, const char *to)
{
    struct fake_host *fake = context;
    (void)to;
    if (fake->copy_error)
        return fake->copy_error;
    (void)snprintf(fake->copied_from, sizeof(fake->copied_from), "%s", from);
    fake->file_there = true;
    return HOST_OK;
}

/* The dump's file is a real one: the tool renames it. */
static uint32_t file_delete(void *context, const char *path)
{
    struct fake_host *fake = context;
    if (fake->file_delete_error)
        return fake->file_delete_error;
    (void)snprintf(fake->deleted, sizeof(fake->deleted), "%s", path);
    (void)remove(path);
    if (!fake->file_there && path[1] == ':')
        return HOST_NOT_FOUND;
    fake->file_there = false;
    return HOST_OK;
}

static uint32_t file_rename(void *context, const char *from, const char *to)
{
    (void)context;
    FILE *file = fopen(to, "rb");
    if (file) {
        (void)fclose(file);
        return HOST_FILE_EXISTS;
    }
    return rename(from, to) == 0 ? HOST_OK : HOST_NOT_FOUND;
}

static bool copy_texts(struct host_texts *to, const struct host_texts *from)
{
    host_texts_free(to);
    to->items = calloc(from->count + 1, sizeof(*to->items));
    for (size_t i = 0; to->items && i < from->count; i++) {
        char *copy = NULL;
        if (give_path(&copy, from->items[i]) != HOST_OK)
            return false;
        to->items[to->count++] = copy;
    }
    return to->items != NULL;
}

static uint32_t texts_read(void *context, const char *name, struct host_texts *texts)
{
    struct fake_host *fake = context;
    const bool kinds = strcmp(name, "Kinds") == 0;
    if (!(kinds ? fake->has_kinds : fake->has_rules))
        return HOST_NOT_FOUND;
    return copy_texts(texts, kinds ? &fake->kinds : &fake->rules) ? HOST_OK : HOST_NO_MEMORY;
}

static uint32_t texts_write(void *context, const char *name, const struct host_texts *texts)
{
    struct fake_host *fake = context;
    const bool kinds = strcmp(name, "Kinds") == 0;
    if (fake->write_error)
        return fake->write_error;
    *(kinds ? &fake->has_kinds : &fake->has_rules) = true;
    return copy_texts(kinds ? &fake->kinds : &fake->rules, texts) ? HOST_OK : HOST_NO_MEMORY;
}

static uint32_t device_open(void *context, bool write)
{
    struct fake_host *fake = context;
    if (fake->open_error)
        return fake->open_error;
    if (fake->state != HOST_RUNNING)
        return HOST_NOT_FOUND;
    fake->open = true;
    fake->opened_to_write = write;
    return HOST_OK;
}

static void device_close(void *context)
{
    struct fake_host *fake = context;
    fake->open = false;
}

static uint32_t answer(const struct fake_host *fake, const void *from, size_t size, void *out,
                       size_t out_size, size_t *returned)
{
    if (out_size != size)
        return 1784;
    memcpy(out, from, size);
    *returned = size - fake->answer_short;
    return HOST_OK;
}

static uint32_t answer_version(const struct fake_host *fake, void *out, size_t out_size,
                               size_t *returned)
{
    const struct kda_control_version version = {
        .head = {fake->protocol, sizeof(version)},
        .schema = fake->schema,
        .kind_count = KDA_KIND_COUNT,
        .minor = 1,
    };
    return answer(fake, &version, sizeof(version), out, out_size, returned);
}

static uint32_t answer_status(const struct fake_host *fake, void *out, size_t out_size,
                              size_t *returned)
{
    struct kda_control_status status = {
        .head = {fake->protocol, sizeof(status)},
        .kinds = fake->kinds_on,
        .writing = fake->writing,
        .write_status = fake->write_status,
    };
    memcpy(status.log, fake->log, sizeof(status.log));
    memcpy(status.offered, fake->offered, sizeof(status.offered));
    memcpy(status.written, fake->written, sizeof(status.written));
    memcpy(status.lost, fake->lost, sizeof(status.lost));
    memcpy(status.filtered, fake->filtered, sizeof(status.filtered));
    return answer(fake, &status, sizeof(status), out, out_size, returned);
}

static uint32_t answer_troubles(const struct fake_host *fake, void *out, size_t out_size,
                                size_t *returned)
{
    static const char open[] = "FwpmEngineOpen0", arm[] = "KdapArm";
    static struct kda_control_troubles troubles;
    if (fake->old_driver)
        return 1; /* ERROR_INVALID_FUNCTION */
    memset(&troubles, 0, sizeof(troubles));
    troubles.head = (struct kda_control){fake->protocol, sizeof(troubles)};
    troubles.total = 42;
    troubles.sensor_count = 1;
    memcpy(troubles.sensors[0].name, "network", 8);
    troubles.sensors[0].state = fake->sensor_state;
    troubles.sensors[0].since = UINT64_C(0x1DC7A2C5F4C8000);
    troubles.failure_count = fake->failure_count;
    if (fake->sensor_status) {
        troubles.sensors[0].status = fake->sensor_status;
        memcpy(troubles.sensors[0].call, open, sizeof(open));
        memcpy(troubles.sensors[0].place, arm, sizeof(arm));
    }
    memcpy(troubles.failures[0].call, open, sizeof(open));
    memcpy(troubles.failures[0].place, arm, sizeof(arm));
    troubles.failures[0].status = (int32_t)0xC0020017u;
    troubles.failures[0].count = 41;
    troubles.failures[0].last = UINT64_C(0x1DC7A2C5F4C8000);
    return answer(fake, &troubles, sizeof(troubles), out, out_size, returned);
}

static uint32_t answer_kinds(struct fake_host *fake, const void *in, size_t in_size, void *out,
                             size_t out_size, size_t *returned)
{
    struct kda_control_kinds kinds;
    if (in_size != sizeof(kinds) || !fake->opened_to_write)
        return HOST_ACCESS_DENIED;
    memcpy(&kinds, in, in_size);
    if (kinds.head.version != KDA_CONTROL_VERSION || kinds.head.size != in_size)
        return 1306;
    fake->enable = kinds.enable;
    fake->disable = kinds.disable;
    fake->kinds_on = kinds.enable = (fake->kinds_on | kinds.enable) & ~kinds.disable;
    return answer(fake, &kinds, sizeof(kinds), out, out_size, returned);
}

static uint32_t device_control(void *context, uint32_t code, const void *in, size_t in_size,
                               void *out, size_t out_size, size_t *returned)
{
    struct fake_host *fake = context;
    if (!fake->open)
        return 6; /* ERROR_INVALID_HANDLE */
    if (fake->control_error)
        return fake->control_error;
    switch (code) {
    case KDA_IOCTL_VERSION:
        return answer_version(fake, out, out_size, returned);
    case KDA_IOCTL_STATUS:
        return answer_status(fake, out, out_size, returned);
    case KDA_IOCTL_TROUBLES:
        return answer_troubles(fake, out, out_size, returned);
    case KDA_IOCTL_KINDS:
        return answer_kinds(fake, in, in_size, out, out_size, returned);
    default:
        return 1; /* ERROR_INVALID_FUNCTION */
    }
}

static uint32_t device_read(void *context, void *buffer, size_t capacity, size_t *size)
{
    struct fake_host *fake = context;
    const char *text = fake->read_at < FAKE_READS ? fake->reads[fake->read_at] : NULL;
    *size = text ? strlen(text) : 0;
    if (!text || *size > capacity)
        return fake->last_read;
    fake->read_at++;
    memcpy(buffer, text, *size);
    return HOST_OK;
}

static void interrupt_catch(void *context)
{
    (void)context;
}

static bool interrupted(void *context)
{
    const struct fake_host *fake = context;
    return fake->was_interrupted;
}

static uint32_t memory(void *context, struct host_memory *out)
{
    const struct fake_host *fake = context;
    *out = fake->memory;
    return HOST_OK;
}

static uint32_t disk_free(void *context, const char *path, uint64_t *bytes)
{
    const struct fake_host *fake = context;
    (void)path;
    *bytes = fake->room;
    return HOST_OK;
}

static uint32_t dump_start(void *context, const struct host_dump *dump)
{
    struct fake_host *fake = context;
    if (fake->dump_error)
        return fake->dump_error;
    (void)snprintf(fake->dump_path, sizeof(fake->dump_path), "%s", dump->path);
    memcpy(fake->control, dump->control, dump->size);
    FILE *file = fopen(dump->path, "wbx");
    if (!file)
        return HOST_FILE_EXISTS;
    (void)fputs("PAGEDU64", file);
    (void)fclose(file);
    return HOST_OK;
}

static void dump_poll(void *context, uint64_t *size, bool *done, uint32_t *ntstatus)
{
    struct fake_host *fake = context;
    fake->dump_polls--;
    if (fake->appears) {
        FILE *file = fopen(fake->appears, "wb");
        if (file)
            (void)fclose(file);
    }
    if (fake->interrupt_after > 0 && --fake->interrupt_after == 0)
        fake->was_interrupted = true;
    *size = 8;
    *done = fake->dump_cancelled || fake->dump_polls <= 0;
    *ntstatus = fake->dump_cancelled ? 0xc0000120u : fake->dump_status;
}

static void dump_cancel(void *context)
{
    struct fake_host *fake = context;
    fake->dump_cancelled = true;
}

static void dump_end(void *context)
{
    struct fake_host *fake = context;
    fake->dump_ended = true;
}

static const char *error_text(uint32_t error, char *text, size_t cap)
{
    (void)snprintf(text, cap, "error %u", error);
    return text;
}

void fake_host_init(struct fake_host *fake)
{
    memset(fake, 0, sizeof(*fake));
    fake->ops = (struct host_ops){
        .context = fake,
        .service_query = service_query,
        .service_create = service_create,
        .service_start = service_start,
        .service_stop = service_stop,
        .service_delete = service_delete,
        .driver_path = driver_path,
        .own_folder = own_folder,
        .file_copy = file_copy,
        .file_delete = file_delete,
        .file_rename = file_rename,
        .texts_read = texts_read,
        .texts_write = texts_write,
        .device_open = device_open,
        .device_close = device_close,
        .device_control = device_control,
        .device_read = device_read,
        .interrupt_catch = interrupt_catch,
        .interrupted = interrupted,
        .memory = memory,
        .disk_free = disk_free,
        .dump_start = dump_start,
        .dump_poll = dump_poll,
        .dump_cancel = dump_cancel,
        .dump_end = dump_end,
        .error_text = error_text,
    };
    fake->image = "\\SystemRoot\\System32\\drivers\\kdamonitor.sys";
    fake->protocol = KDA_CONTROL_VERSION;
    fake->schema = KDA_SCHEMA_VERSION;
    fake->writing = 1;
    fake->last_read = HOST_CANCELLED;
    fake->memory = (struct host_memory){(uint64_t)16 << 30, (uint64_t)2 << 30};
    fake->room = (uint64_t)100 << 30;
    fake->dump_polls = 3;
}

void fake_host_deinit(struct fake_host *fake)
{
    host_texts_free(&fake->kinds);
    host_texts_free(&fake->rules);
}
