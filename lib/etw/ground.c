/*
 * ground.c - the map's storage: what all walks add to it and ask of it, and its getters.
 */
#include "internal.h"

#include <stdarg.h>
#include <string.h>

#define REPEATED_MAX ((uint64_t)32 << 20) /* real machines: some hundred KiB for each silo */

void kda_etw_gap(struct kda_etw *etw, const char *what, uint64_t va, enum kda_status status,
                 const char *fmt, ...)
{
    if (status == KDA_NO_MEMORY)
        etw->out_of_memory = true;
    if (kda_etw_stop(etw))
        return;
    va_list args;
    va_start(args, fmt);
    kda_gaps_addv(kda_etw_gaps(etw), what, va, status, fmt, args);
    va_end(args);
}

enum kda_step kda_etw_refuse(struct kda_etw *etw, const char *what, uint64_t va, const char *fmt,
                             ...)
{
    va_list args;
    va_start(args, fmt);
    if (!kda_etw_stop(etw))
        kda_gaps_addv(kda_etw_gaps(etw), what, va, KDA_BAD_DATA, fmt, args);
    va_end(args);
    etw->out_of_memory |= !kda_map_put(&etw->refused, va, 1);
    return kda_etw_stop(etw) ? KDA_STEP_STOP : KDA_STEP_REFUSE;
}

void kda_etw_walk(struct kda_etw *etw, uint64_t head, size_t max, const char *what, kda_list_fn fn,
                  void *context)
{
    /* The walker has recorded a gap for anything but memory. */
    if (kda_list_walk(etw->kernel, head, max, what, fn, context, NULL, NULL) == KDA_NO_MEMORY)
        etw->out_of_memory = true;
}

void *kda_etw_alloc(struct kda_etw *etw, size_t size)
{
    size_t most = etw->arena.limit - KDA_ETW_JOIN_RESERVE;
    if (etw->arena.used > most || size + 16 > most - etw->arena.used || size > SIZE_MAX - 16) {
        kda_gaps_add(kda_etw_gaps(etw), "etw", 0, KDA_LIMIT,
                     "the ETW state has more than %zu MiB; the rest was left out", most >> 20);
        return NULL;
    }
    void *object = kda_arena_alloc(&etw->arena, size);
    if (!object)
        etw->out_of_memory = true;
    return object;
}

bool kda_etw_repeat(struct kda_etw *etw, const char *name)
{
    size_t size = name ? strlen(name) : 0;
    if (size <= REPEATED_MAX - etw->repeated_bytes) {
        etw->repeated_bytes += size;
        return true;
    }
    kda_gaps_add(kda_etw_gaps(etw), "names", 0, KDA_LIMIT,
                 "few long names or descriptors belong to many objects; rows after the first %llu "
                 "MiB of them leave them out",
                 (unsigned long long)(REPEATED_MAX >> 20));
    return false;
}

void *kda_etw_keep(struct kda_etw *etw, const void *bytes, size_t size)
{
    void *kept = kda_etw_alloc(etw, size);
    if (kept)
        memcpy(kept, bytes, size);
    return kept;
}

void *kda_etw_add(struct kda_etw *etw, struct kda_ptrs *list, struct kda_map *map, uint64_t va,
                  size_t size, size_t max, const char *what)
{
    if (list->count >= max) {
        kda_gaps_add(kda_etw_gaps(etw), what, 0, KDA_LIMIT, "more than %zu of them", max);
        return NULL;
    }
    void *object = kda_etw_alloc(etw, size);
    void *items = list->items;
    if (!object)
        return NULL;
    if (!kda_grow(&items, &list->capacity, list->count + 1, sizeof(void *), max)) {
        etw->out_of_memory = true;
        return NULL;
    }
    list->items = items;
    if (map && !kda_map_put(map, va, list->count)) {
        etw->out_of_memory = true;
        return NULL;
    }
    list->items[list->count++] = object;
    return object;
}

void *kda_etw_lookup(const struct kda_ptrs *list, const struct kda_map *map, uint64_t va)
{
    uint64_t index;
    return kda_map_get(map, va, &index) ? list->items[index] : NULL;
}

bool kda_etw_field(struct kda_etw *etw, const char *what, uint64_t object, enum kda_field_id field,
                   uint64_t *ret)
{
    struct kda_error why;
    if (!kda_has_field(etw->kernel, field))
        return false;
    enum kda_status status = kda_read_field(etw->kernel, object, field, ret, &why);
    if (status == KDA_OK)
        return true;
    kda_etw_gap(etw, what, object, status, "%s: %s", kda_field_name(field), why.text);
    return false;
}

uint64_t kda_etw_member(struct kda_etw *etw, uint64_t object, enum kda_field_id field)
{
    uint32_t offset = kda_field_offset(etw->kernel, field);
    return offset == KDA_NONE ? 0 : object + offset;
}

bool kda_etw_process(struct kda_etw *etw, uint64_t process_va, uint64_t *pid, const char **name,
                     const char **image)
{
    const struct kda_process *process = kda_process_at(etw->kernel, process_va);
    if (!process || !process->has_pid)
        return false;
    *pid = process->pid;
    *name = process->name;
    if (image)
        *image = process->image;
    return true;
}

const struct kda_etw_silo *kda_etw_silos(const struct kda_etw *etw, size_t *count)
{
    *count = etw->silo_count;
    return etw->silos;
}

const struct kda_etw_session *const *kda_etw_sessions(const struct kda_etw *etw, size_t *count)
{
    *count = etw->sessions.count;
    return (const struct kda_etw_session *const *)etw->sessions.items;
}

const struct kda_etw_consumer *const *kda_etw_consumers(const struct kda_etw *etw, size_t *count)
{
    *count = etw->consumers.count;
    return (const struct kda_etw_consumer *const *)etw->consumers.items;
}

const struct kda_etw_provider *const *kda_etw_providers(const struct kda_etw *etw, size_t *count)
{
    *count = etw->providers.count;
    return (const struct kda_etw_provider *const *)etw->providers.items;
}
