#include "forge_int.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "text.h"

void forge_fail(struct forge *f, enum kda_status status, const char *fmt, ...)
{
    if (f->status != KDA_OK)
        return;
    f->status = status;
    f->err.status = status;
    f->err.layer = "forge";
    int used = 0;
    if (f->line)
        used = snprintf(f->err.text, sizeof(f->err.text), "line %u: ", f->line);
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(f->err.text + used, sizeof(f->err.text) - (size_t)used, fmt, args);
    va_end(args);
}

/* SplitMix64: the whole image depends on the seed and on nothing else. */
uint64_t forge_random(struct forge *f, uint64_t below)
{
    uint64_t z = f->rng += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return below ? z % below : 0;
}

/* Globals that take the place of the silo state exist only where the state does not hold them. */
static bool invented(const struct forge *f, size_t id)
{
    switch (id) {
    case S(WmipLoggerContext):
    case S(EtwpGuidHashTable):
    case S(EtwpSecurityProviderGuidEntry):
        return !has(f, F(ETW_SILODRIVERSTATE, EtwpGuidHashTable));
    case S(EtwpLoggerRundown):
    case S(EtwpSystemLogger):
    case S(EtwpActiveSystemLoggers):
    case S(EtwpGroupMasks):
        return false;
    default:
        return true;
    }
}

/* Room behind every global for the biggest of them, the hash table. */
#define INVENTED_STEP 0x1000u

static uint32_t free_rva(const struct forge *f, uint32_t rva)
{
    for (size_t i = 0; i < KDA_SYM_COUNT; i++) {
        uint32_t taken = f->layout.rva[i];
        if (taken == KDA_NONE || taken >= rva + INVENTED_STEP || taken + INVENTED_STEP <= rva)
            continue;
        rva = ((taken + INVENTED_STEP) | 0xff) + 0x41;
        i = SIZE_MAX; /* look at all of them again */
    }
    return rva;
}

static void invent_rvas(struct forge *f)
{
    uint32_t next = 0xc00000;
    for (size_t i = 0; i < KDA_SYM_COUNT; i++) {
        if (f->layout.rva[i] != KDA_NONE || !invented(f, i))
            continue;
        if (i == S(PsGetServerSiloServiceSessionId)) {
            f->layout.rva[i] = free_rva(f, 0x300000);
            continue;
        }
        next = free_rva(f, next);
        f->layout.rva[i] = next;
    }
}

/* Rows from header listings know where a unit of bit fields stands, not which bits. They have not
 * moved in any build of which the bits are known (8.1 to 22000). */
static void complete_bits(struct forge *f)
{
    static const struct {
        enum kda_field_id id;
        uint8_t size, bit, bits;
    } rows[] = {
        {F(HANDLE_TABLE_ENTRY, Unlocked), 8, 0, 1},
        {F(HANDLE_TABLE_ENTRY, RefCnt), 8, 1, 16},
        {F(HANDLE_TABLE_ENTRY, Attributes), 8, 17, 3},
        {F(HANDLE_TABLE_ENTRY, ObjectPointerBits), 8, 20, 44},
        {F(HANDLE_TABLE_ENTRY, GrantedAccessBits), 4, 0, 25},
        {F(POOL_HEADER, BlockSize), 2, 0, 8},
        {F(POOL_HEADER, PoolType), 2, 8, 8},
        {F(WMI_LOGGER_CONTEXT, SystemLoggerIndex), 4, 16, 8},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kda_field *field = &f->layout.field[rows[i].id];
        if (field->offset == KDA_NONE || field->bits != 0)
            continue;
        field->size = rows[i].size;
        field->bit = rows[i].bit;
        field->bits = rows[i].bits;
    }
    /* The same in all 212 builds of which it is known (8.1 to 22000). */
    struct kda_field *callbacks = &f->layout.field[F(OBJECT_TYPE, CallbackList)];
    if (callbacks->offset == KDA_NONE && f->build >= 9600) {
        callbacks->offset = 0xc8;
        callbacks->size = 16;
    }
}

/* Rows from Windows 7 and 8.1 have no PE facts: any will do, as long as the globals fit. */
static void complete_id(struct forge *f)
{
    struct kda_kernel_id *id = &f->truth.id;
    uint32_t last = 0;
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        if (f->layout.rva[i] != KDA_NONE && f->layout.rva[i] > last)
            last = f->layout.rva[i];
    if (!id->has_pdb) {
        id->has_pdb = true;
        id->pdb_age = 1;
        (void)snprintf(id->pdb_name, sizeof(id->pdb_name), "ntkrnlmp.pdb");
        for (size_t i = 0; i < sizeof(id->pdb_guid); i++)
            id->pdb_guid[i] = (uint8_t)forge_random(f, 256);
    }
    if (!id->has_pe || id->pe_size < last + 0x2000 || id->pe_size % PAGE != 0) {
        id->has_pe = true;
        id->pe_timestamp = 0x5b000000u + (uint32_t)forge_random(f, 0x1000000);
        id->pe_size = (last + 0x100000) & ~0xfffu;
    }
    if (f->opt.la57)
        (void)snprintf(id->pdb_name, sizeof(id->pdb_name), "ntkrla57.pdb");
}

/* "10.0.22000.795"; a part that is no number ("x") counts as 0. */
static void parse_version(struct forge *f, const char *version)
{
    uint32_t parts[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < 4; i++) {
        char *end = NULL;
        parts[i] = (uint32_t)strtoul(version, &end, 10);
        if (*end != '.')
            break;
        version = end + 1;
    }
    f->major = parts[0];
    f->minor = parts[1];
    f->build = parts[2];
    f->ubr = parts[3];
    f->truth.build = f->build;
}

/* A version may have several rows, from sources of different depth: the one with most globals. */
static size_t find_profile(const char *wanted)
{
    struct kda_profile_info info;
    struct kda_layout layout;
    size_t best = SIZE_MAX, best_count = 0;
    for (size_t i = 0; i < kda_profile_count(); i++) {
        size_t count = 1;
        kda_profile_get(i, &info);
        if (!info.version || strcmp(info.version, wanted) != 0)
            continue;
        kda_profile_layout(i, &layout);
        for (size_t k = 0; k < KDA_SYM_COUNT; k++)
            count += layout.rva[k] != KDA_NONE;
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    return best;
}

static void require(struct forge *f, enum kda_symbol_id id)
{
    if (f->layout.rva[id] == KDA_NONE)
        forge_fail(f, KDA_NO_SYMBOL, "the profile of %s has no RVA of %s: add \"rvas invented\"",
                   f->truth.version, kda_symbol_name(id));
}

static void require_field(struct forge *f, enum kda_field_id id)
{
    if (!has(f, id))
        forge_fail(f, KDA_NO_SYMBOL, "the profile of %s lacks %s: no image can be made from it",
                   f->truth.version, kda_field_name(id));
}

static void choose_profile(struct forge *f)
{
    const char *wanted = f->opt.version ? f->opt.version : "10.0.22000.795";
    struct kda_profile_info info;
    size_t row = find_profile(wanted);
    if (row == SIZE_MAX) {
        forge_fail(f, KDA_NO_SYMBOL, "build %s is not in the profile table", wanted);
        return;
    }
    kda_profile_get(row, &info);
    kda_profile_layout(row, &f->layout);
    f->truth.version = info.version;
    f->truth.id = info.id;
    parse_version(f, info.version);
    if (f->opt.rvas_invented)
        invent_rvas(f);
    require_field(f, F(LIST_ENTRY, Flink));
    require_field(f, F(EPROCESS, ActiveProcessLinks));
    require_field(f, F(WMI_LOGGER_CONTEXT, LoggerName));
    require_field(f, F(ETW_GUID_ENTRY, RegListHead));
    require(f, S(PsActiveProcessHead));
    require(f, S(PsLoadedModuleList));
    require(f, S(ObTypeIndexTable));
    require(f, has(f, F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)) ? S(PspHostSiloGlobals)
                                                                 : S(EtwpGuidHashTable));
    complete_bits(f);
    complete_id(f);
}

static bool insert_system(struct forge *f)
{
    struct forge_truth *t = &f->truth;
    struct forge_process *system = forge_process_by_pid(f, 4);
    struct forge_process first = {
        .pid = 4, .name = "System", .path = "", .levels = 1, .fill = 8, .protection = 0x72};
    if (system) {
        first = *system;
        memmove(t->processes + 1, t->processes,
                (size_t)(system - t->processes) * sizeof(*t->processes));
    } else {
        void *items = t->processes;
        if (!kda_grow(&items, &f->process_cap, t->process_count + 1, sizeof(*t->processes),
                      FORGE_MAX_ENTITIES)) {
            forge_fail(f, KDA_NO_MEMORY, "out of memory");
            return false;
        }
        t->processes = items;
        memmove(t->processes + 1, t->processes, t->process_count * sizeof(*t->processes));
        t->process_count++;
    }
    t->processes[0] = first;
    return true;
}

static void set_defaults(struct forge *f)
{
    f->opt = (struct scenario_options){.size = 64 * MIB,
                                       .seed = 1,
                                       .users = true,
                                       .lowstub = true,
                                       .drivers = true,
                                       .cpus = 4,
                                       .system_time = 133543740960000000u};
    kda_arena_init(&f->arena, 0);
}

/* The host is there before the first line that names a silo. */
static bool add_host(struct forge *f)
{
    f->truth.silos = kda_calloc(1, sizeof(*f->truth.silos));
    if (!f->truth.silos) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return false;
    }
    f->silo_cap = 1;
    f->truth.silo_count = 1;
    return true;
}

/* Texts as a reader must show them: lone surrogates become U+FFFD, pairs one character. */
static const char *shown(struct forge *f, const char *text)
{
    uint8_t *bytes = NULL;
    if (!text)
        return NULL;
    size_t units = text_to_utf16(f, text, &bytes);
    size_t room = KDA_UTF8_MAX(units) + 5;
    char *out = kda_arena_alloc(&f->arena, room);
    if (!out || !forge_ok(f)) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return text;
    }
    (void)kda_utf16_to_utf8(bytes, units, false, out, room);
    return out;
}

static void show_texts(struct forge *f)
{
    struct forge_truth *t = &f->truth;
    for (size_t i = 0; i < t->session_count; i++) {
        t->sessions[i].name = shown(f, t->sessions[i].name);
        t->sessions[i].file = shown(f, t->sessions[i].file);
    }
    for (size_t i = 0; i < t->process_count; i++)
        t->processes[i].path = shown(f, t->processes[i].path);
    for (size_t i = 0; i < t->provider_count; i++)
        for (size_t k = 0; k < FORGE_ENABLE_SLOTS; k++)
            t->providers[i].filters[k].executables =
                shown(f, t->providers[i].filters[k].executables);
}

static void build_all(struct forge *f)
{
    f->rng = f->opt.seed * 0x2545f4914f6cdd1du + 1;
    f->line = f->opt.build_line;
    choose_profile(f);
    f->line = f->opt.size_line;
    if (!forge_ok(f) || !memory_init(f) || !insert_system(f))
        return;
    f->truth.system_time = f->opt.system_time;
    f->truth.memory_size = f->opt.size;
    f->truth.la57 = f->opt.la57;
    f->truth.cpus = f->opt.cpus;
    f->truth.cpu_mhz = 2600;
    f->line = f->opt.kernel_line;
    kernel_place(f);
    f->line = 0;
    kernel_headers(f);
    types_build(f);
    modules_build(f);
    silos_build(f);
    processes_build(f);
    sessions_build(f);
    buffers_build(f);
    providers_build(f);
    callbacks_build(f);
    handles_finish(f);
    kernel_finish(f);
    processes_finish(f);
    users_build(f);
    blocks_apply(f);
    pokes_apply(f);
    hostile_apply(f);
    smear_apply(f);
    if (f->moment == FORGE_FIRST)
        holes_apply(f);
    readable_finish(f);
    show_texts(f);
}

enum kda_status forge_build(const char *scenario, struct forge **ret, struct kda_error *err)
{
    return forge_build_state(scenario, FORGE_FIRST, ret, err);
}

enum kda_status forge_build_state(const char *scenario, enum forge_moment moment,
                                  struct forge **ret, struct kda_error *err)
{
    struct forge *f = kda_calloc(1, sizeof(*f));
    if (!f)
        return kda_fail(err, KDA_NO_MEMORY, "forge", "out of memory");
    set_defaults(f);
    f->text = scenario;
    f->moment = moment;
    if (add_host(f) && scenario_parse(f, scenario))
        build_all(f);
    if (!forge_ok(f)) {
        enum kda_status status = f->status;
        if (err)
            *err = f->err;
        forge_free(f);
        return status;
    }
    f->text = NULL;
    *ret = f;
    return KDA_OK;
}

void forge_free(struct forge *f)
{
    if (!f)
        return;
    memory_free(f);
    for (size_t i = 0; f->tables && i < f->truth.process_count; i++)
        kda_free(f->tables[i].entries);
    kda_free(f->tables);
    kda_free(f->cid.entries);
    kda_free(f->hole_plans);
    kda_free(f->pokes);
    kda_free(f->blocks);
    kda_free(f->users);
    kda_free(f->hostiles);
    kda_free(f->truth.modules);
    kda_free(f->truth.processes);
    kda_free(f->truth.silos);
    kda_free(f->truth.sessions);
    kda_free(f->truth.consumers);
    kda_free(f->truth.buffers);
    kda_free(f->truth.providers);
    kda_free(f->truth.regs);
    kda_free(f->truth.callbacks);
    kda_free(f->truth.holes);
    kda_free(f->truth.smear_pages);
    kda_free(f->truth.changes);
    kda_arena_deinit(&f->arena);
    kda_free(f);
}

const struct forge_truth *forge_truth(const struct forge *f)
{
    return &f->truth;
}

const struct kda_layout *forge_layout(const struct forge *f)
{
    return &f->layout;
}
