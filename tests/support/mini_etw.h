/*
 * mini_etw.h - the ETW map of a tiny machine, for the tests of what the map reads.
 */
#ifndef KDA_TESTS_MINI_ETW_H
#define KDA_TESTS_MINI_ETW_H

#include "mini.h"

#include "kda/etw.h"

/* A list head of the host's GUID table; `m` is the machine. */
#define BUCKET(i, list) (mini_table(m) + (i)*56u + (list)*16u)

static inline struct kda_etw *map(struct mini *m)
{
    struct kda_etw *etw = NULL;
    struct kda_error err;
    mini_kernel(m);
    if (kda_etw_map(m->kernel, &etw, &err) != KDA_OK)
        fail_msg("%s", err.text);
    return etw;
}

static inline void finish(struct mini *m, struct kda_etw *etw)
{
    kda_etw_free(etw);
    mini_free(m);
}

static inline const struct kda_etw_provider *provider(const struct kda_etw *etw, uint64_t va)
{
    size_t count;
    const struct kda_etw_provider *const *all = kda_etw_providers(etw, &count);
    for (size_t i = 0; i < count; i++)
        if (all[i]->va == va)
            return all[i];
    return NULL;
}

static inline size_t providers(const struct kda_etw *etw)
{
    size_t count;
    (void)kda_etw_providers(etw, &count);
    return count;
}

static inline struct mini *machine(const char *version)
{
    struct mini *m = mini_create(version, false, 0);
    (void)mini_system(m, 64);
    return m;
}

static inline void give_handle(struct mini *m, uint64_t process, unsigned index, uint64_t object)
{
    uint64_t table = mini_handle_table(m);
    uint8_t bytes[8];
    mini_set(m, process, KDA_F_EPROCESS_ObjectTable, table);
    mini_read(m, mini_at(m, table, KDA_F_HANDLE_TABLE_TableCode), bytes, 8);
    mini_handle(m, kda_le64(bytes), index, object - 0x30, 0);
}

#endif
