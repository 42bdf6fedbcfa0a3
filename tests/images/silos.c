#include "forge_int.h"

/* The ETW root of the host and of every server silo: silo globals, driver state, logger array and
 * GUID hash table. On builds without silos the host's are globals of nt. */

#define BUCKETS 64u
#define BUCKET_SIZE 0x38u
#define HOST_SHARED 0xfffff78000000000u

static void init_table(struct forge *f, uint64_t table)
{
    uint64_t size = size_of(f, ST(ETW_HASH_BUCKET), BUCKET_SIZE);
    for (uint64_t b = 0; table && b < BUCKETS; b++)
        for (uint64_t type = 0; type < 3; type++)
            list_init(f, table + b * size + type * 16);
}

static void init_array(struct forge *f, const struct forge_silo *silo)
{
    for (uint32_t i = 0; i < silo->max && forge_ok(f); i++)
        put64(f, silo->array + 8 * (uint64_t)i, 1);
}

/* The entry of Security-Auditing is part of the state, not of the hash table. */
static void init_embedded(struct forge *f, const struct forge_silo *silo)
{
    static const uint8_t guid[16] = SECURITY_AUDITING;
    uint64_t va = silo->embedded_guid;
    if (!va)
        return;
    list_init(f, at(f, va, F(ETW_GUID_ENTRY, GuidList)));
    list_init(f, at(f, va, F(ETW_GUID_ENTRY, RegListHead)));
    put(f, va, F(ETW_GUID_ENTRY, RefCount), 8, 2);
    put_field_bytes(f, va, F(ETW_GUID_ENTRY, Guid), guid, sizeof(guid));
    put(f, va, F(ETW_GUID_ENTRY, SiloState), 8, silo->state);
}

static uint32_t default_slots(const struct forge *f)
{
    if (!has(f, F(ETW_SILODRIVERSTATE, MaxLoggers)))
        return 64;
    if (f->opt.max_loggers)
        return f->opt.max_loggers;
    return f->build >= 22000 ? 80 : 64;
}

static void build_state(struct forge *f, struct forge_silo *silo)
{
    uint64_t state = pool_alloc(f, POOL_NONPAGED, size_of(f, ST(ETW_SILODRIVERSTATE), 0x1400),
                                "EtwS", forge_planned(f, "state", silo->number));
    silo->state = state;
    put(f, state, F(ETW_SILODRIVERSTATE, Silo), 8, silo->job);
    put(f, state, F(ETW_SILODRIVERSTATE, SiloGlobals), 8, silo->globals);
    put(f, state, F(ETW_SILODRIVERSTATE, MaxLoggers), 4, silo->max);
    if (has(f, F(ETW_SILODRIVERSTATE, EtwpLoggerContext))) {
        silo->array = pool_alloc(f, POOL_NONPAGED, 8 * (uint64_t)silo->max, "EtwA",
                                 forge_planned(f, "array", silo->number));
        put(f, state, F(ETW_SILODRIVERSTATE, EtwpLoggerContext), 8, silo->array);
    } else {
        silo->array = at(f, state, F(ETW_SILODRIVERSTATE, WmipLoggerContext));
    }
    put(f, state, F(ETW_SILODRIVERSTATE, EtwpLoggerRundown), 8,
        pool_alloc(f, POOL_NONPAGED, 8 * (uint64_t)silo->max, "EtwA", false));
    silo->table = at(f, state, F(ETW_SILODRIVERSTATE, EtwpGuidHashTable));
    silo->embedded_guid = at(f, state, F(ETW_SILODRIVERSTATE, EtwpSecurityProviderGuidEntry));
}

static void build_globals(struct forge *f, struct forge_silo *silo)
{
    uint64_t shared = HOST_SHARED;
    if (silo->number == 0) {
        silo->globals = symbol(f, S(PspHostSiloGlobals));
    } else {
        silo->job = job_build(f);
        silo->globals =
            pool_alloc(f, POOL_NONPAGED, size_of(f, ST(ESERVERSILO_GLOBALS), 0x560), "PsSi", false);
        shared = pool_alloc(f, POOL_NONPAGED, 0x40, "PsSh", false);
        put(f, silo->job, F(EJOB, ServerSiloGlobals), 8, silo->globals);
    }
    put(f, silo->globals, F(ESERVERSILO_GLOBALS, UserSharedData), 8, shared);
    put(f, silo->globals, F(ESERVERSILO_GLOBALS, State), 4, 1);
}

void silos_build(struct forge *f)
{
    struct forge_truth *t = &f->truth;
    bool silos = f->layout.size[ST(ETW_SILODRIVERSTATE)] != KDA_NONE &&
                 has(f, F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)) &&
                 symbol(f, S(PspHostSiloGlobals)) != 0;
    list_init(f, symbol(f, S(PspJobList)));
    if (!silos && t->silo_count > 1)
        forge_fail(f, KDA_USAGE, "build %s has no server silos", t->version);
    for (size_t i = 0; i < t->silo_count && forge_ok(f); i++) {
        struct forge_silo *silo = &t->silos[i];
        if (silo->max == 0 || !has(f, F(ETW_SILODRIVERSTATE, MaxLoggers)))
            silo->max = default_slots(f);
        if (silos) {
            build_globals(f, silo);
            build_state(f, silo);
            put(f, silo->globals, F(ESERVERSILO_GLOBALS, EtwSiloState), 8, silo->state);
        } else {
            silo->array = symbol(f, S(WmipLoggerContext));
            silo->table = symbol(f, S(EtwpGuidHashTable));
            silo->embedded_guid = symbol(f, S(EtwpSecurityProviderGuidEntry));
        }
        if (!silo->array || !silo->table)
            forge_fail(f, KDA_NO_SYMBOL, "the profile of %s lacks the logger array or hash table",
                       t->version);
        init_array(f, silo);
        init_table(f, silo->table);
        init_embedded(f, silo);
    }
    uint64_t host = symbol(f, S(EtwpHostSiloState));
    if (host && forge_ok(f))
        put64(f, host, t->silos[0].state);
}
