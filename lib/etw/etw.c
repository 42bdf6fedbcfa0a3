/*
 * etw.c - the map: order of the walks, joins, sorting. Its storage is in ground.c.
 */
#include "kda/etw.h"

#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MAX_ROUNDS 256u /* of handles that lead to processes whose handles lead on */

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
    kda_arena_init(&etw->arena, KDA_ETW_ARENA_LIMIT + KDA_ETW_JOIN_RESERVE);
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
