/*
 * etw.c - the map: order of the walks, joins, sorting, getters.
 */
#include "kda/etw.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define ETW_ARENA_LIMIT ((size_t)128 << 20)
#define JOIN_RESERVE ((size_t)16 << 20) /* arrays of the joins; objects leave it alone */
#define MAX_ROUNDS 256u /* of handles that lead to processes whose handles lead on */
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
    size_t most = etw->arena.limit - JOIN_RESERVE;
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

static int compare(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

static int by_session(const void *a, const void *b)
{
    const struct kda_etw_session *x = *(void *const *)a, *y = *(void *const *)b;
    int order = compare((uintptr_t)x->silo, (uintptr_t)y->silo);
    return order ? order : compare(x->id, y->id);
}

static int by_consumer(const void *a, const void *b)
{
    const struct kda_etw_consumer *x = *(void *const *)a, *y = *(void *const *)b;
    int order = compare((uintptr_t)x->silo, (uintptr_t)y->silo);
    if (order == 0)
        order = compare(x->has_session_id ? x->session_id : UINT32_MAX,
                        y->has_session_id ? y->session_id : UINT32_MAX);
    if (order == 0)
        order = compare(x->pid, y->pid);
    return order ? order : compare(x->va, y->va);
}

/* Order of the GUID's text form, not of its bytes in memory. */
static int by_guid_text(const uint8_t *a, const uint8_t *b)
{
    int order = compare(kda_le32(a), kda_le32(b));
    if (order == 0)
        order = compare(kda_le16(a + 4), kda_le16(b + 4));
    if (order == 0)
        order = compare(kda_le16(a + 6), kda_le16(b + 6));
    return order ? order : memcmp(a + 8, b + 8, 8);
}

static int by_provider(const void *a, const void *b)
{
    const struct kda_etw_provider *x = *(void *const *)a, *y = *(void *const *)b;
    int order = compare((uintptr_t)x->silo, (uintptr_t)y->silo);
    if (order == 0)
        order = compare(x->type, y->type);
    if (order == 0)
        order = by_guid_text(x->guid, y->guid);
    return order ? order : compare(x->va, y->va);
}

static int by_registration(const void *a, const void *b)
{
    const struct kda_etw_registration *x = *(void *const *)a, *y = *(void *const *)b;
    int order = compare(x->pid, y->pid);
    return order ? order : compare(x->va, y->va);
}

static void sort(struct kda_ptrs *list, int (*order)(const void *, const void *))
{
    if (list->count > 1)
        qsort(list->items, list->count, sizeof(void *), order);
}

/* Everything found so far is read, which finds more: a back pointer may name a silo or an entry
 * that no list names. Each object is read once. The tables of a silo come before the lists of its
 * entries, because a table says of which type an entry is. */
static void read_found(struct kda_etw *etw)
{
    bool more = true;
    while (more && !kda_etw_stop(etw)) {
        more = false;
        for (; etw->silos_read < etw->silo_count && !kda_etw_stop(etw); more = true) {
            struct kda_etw_silo *silo = &etw->silos[etw->silos_read++];
            kda_etw_read_sessions(etw, silo);
            kda_etw_read_providers(etw, silo);
        }
        for (; etw->consumer_lists_read < etw->sessions.count && !kda_etw_stop(etw); more = true)
            kda_etw_read_consumer_list(etw, etw->sessions.items[etw->consumer_lists_read++]);
        if (etw->silos_read < etw->silo_count)
            continue;
        for (; etw->registration_lists_read < etw->providers.count && !kda_etw_stop(etw);
             more = true)
            kda_etw_read_registration_list(etw,
                                           etw->providers.items[etw->registration_lists_read++]);
    }
}

static void read_handles(struct kda_etw *etw)
{
    bool more = true;
    for (unsigned round = 0; more; round++) {
        if (round == MAX_ROUNDS) {
            kda_etw_gap(etw, "processes", 0, KDA_LIMIT,
                        "each of %u processes is named by the one before alone; the rest was not "
                        "followed",
                        MAX_ROUNDS);
            return;
        }
        kda_etw_read_handles(etw);
        read_found(etw);
        more = kda_etw_read_neighbours(etw);
        more = kda_etw_read_owners(etw) || more;
    }
}

/* What no list, handle or pointer names: asked last, because blocks of known objects are passed
 * over. */
static void carve(struct kda_etw *etw)
{
    static const enum kda_pool_kind order[] = {KDA_POOL_LOGGER, KDA_POOL_GUID_ENTRY,
                                               KDA_POOL_REGISTRATION, KDA_POOL_CONSUMER};
    struct kda_error why;
    size_t added = 0;
    if (!kda_pool_carving(etw->kernel))
        return;
    enum kda_status status = kda_processes_carve(etw->kernel, &added, &why);
    if (status != KDA_OK)
        kda_etw_gap(etw, "pool", 0, status, "processes on no list were not looked for: %s",
                    why.text);
    if (added > 0)
        read_handles(etw);
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        kda_etw_carve(etw, order[i]);
        read_found(etw);
    }
}

static void read_everything(struct kda_etw *etw)
{
    read_found(etw);
    kda_etw_read_handle_symbols(etw);
    /* Handles last: the lists then say what an object behind a missing header is. An owner that
     * only they and other objects name has handles of its own. */
    read_handles(etw);
    carve(etw);
    if (kda_kernel_exhausted(etw->kernel))
        kda_gaps_add(kda_etw_gaps(etw), "work", 0, KDA_LIMIT,
                     "structures of this image lead round and round; reading was stopped, and what "
                     "is shown is incomplete");
}

static enum kda_status prepare(struct kda_etw *etw, struct kda_error *err)
{
    const struct kda_process *processes;
    const struct kda_module *modules;
    size_t count;
    if (!kda_kernel_layout(etw->kernel))
        return kda_fail(err, KDA_NO_SYMBOL, "etw", "symbols are not loaded");
    etw->silos = kda_calloc(KDA_ETW_MAX_SILOS, sizeof(*etw->silos));
    if (!etw->silos)
        return kda_fail(err, KDA_NO_MEMORY, "etw", "out of memory for the ETW model");
    /* Both are helpers here: what they lack shows as gaps and missing names. */
    enum kda_status status = kda_modules(etw->kernel, &modules, &count, err);
    if (status != KDA_OK && status != KDA_NO_SYMBOL)
        return status;
    status = kda_processes(etw->kernel, &processes, &count, err);
    if (status != KDA_OK && status != KDA_NO_SYMBOL)
        return status;
    return kda_etw_find_silos(etw, err);
}

static enum kda_status create(struct kda_kernel *kernel, struct kda_etw **ret,
                              struct kda_error *err)
{
    struct kda_etw *etw = kda_calloc(1, sizeof(*etw));
    if (!etw)
        return kda_fail(err, KDA_NO_MEMORY, "etw", "out of memory for the ETW model");
    etw->kernel = kernel;
    kda_arena_init(&etw->arena, ETW_ARENA_LIMIT + JOIN_RESERVE);
    enum kda_status status = prepare(etw, err);
    if (status == KDA_OK)
        *ret = etw;
    else
        kda_etw_free(etw);
    return status;
}

enum kda_status kda_etw_map_silos(struct kda_kernel *kernel, struct kda_etw **ret,
                                  struct kda_error *err)
{
    return create(kernel, ret, err);
}

enum kda_status kda_etw_map(struct kda_kernel *kernel, struct kda_etw **ret, struct kda_error *err)
{
    struct kda_etw *etw = NULL;
    enum kda_status status = create(kernel, &etw, err);
    if (status != KDA_OK)
        return status;
    read_everything(etw);
    kda_etw_join_registrations(etw);
    kda_etw_join_consumers(etw);
    kda_etw_join_providers(etw);
    if (etw->out_of_memory) {
        kda_etw_free(etw);
        return kda_fail(err, KDA_NO_MEMORY, "etw", "out of memory for the ETW model");
    }
    sort(&etw->sessions, by_session);
    sort(&etw->consumers, by_consumer);
    sort(&etw->providers, by_provider);
    for (size_t i = 0; i < etw->providers.count; i++) {
        struct kda_etw_provider *p = etw->providers.items[i];
        if (p->registration_count > 1)
            qsort(p->registrations, p->registration_count, sizeof(void *), by_registration);
    }
    *ret = etw;
    return KDA_OK;
}

void kda_etw_free(struct kda_etw *etw)
{
    if (!etw)
        return;
    kda_free(etw->silos);
    kda_free(etw->sessions.items);
    kda_free(etw->consumers.items);
    kda_free(etw->providers.items);
    kda_free(etw->registrations.items);
    kda_map_deinit(&etw->session_by_slot);
    kda_map_deinit(&etw->consumer_by_va);
    kda_map_deinit(&etw->provider_by_va);
    kda_map_deinit(&etw->registration_by_va);
    kda_map_deinit(&etw->looked_at);
    kda_map_deinit(&etw->refused);
    kda_map_deinit(&etw->named_once);
    kda_map_deinit(&etw->named_process);
    kda_map_deinit(&etw->sddl_by_va);
    kda_arena_deinit(&etw->arena);
    kda_free(etw);
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
