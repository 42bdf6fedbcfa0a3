/*
 * fit.c - the order of the fitting, and what comes out of it.
 */
#include <stdio.h>
#include <string.h>

#include "fit_int.h"

#define GLOBALS_SIZE 0x430u /* _ESERVERSILO_GLOBALS, the smallest of all builds */

static const char *const anchor_names[KDA_ANCHOR_COUNT] = {
    [KDA_ANCHOR_DEBUGGER_DATA] = "debugger_data",
    [KDA_ANCHOR_SELF_NAMING] = "self_naming",
    [KDA_ANCHOR_EXPORTED_CODE] = "exported_code",
    [KDA_ANCHOR_THREAT_INT] = "threat_intelligence",
    [KDA_ANCHOR_HANDLES] = "handles",
    [KDA_ANCHOR_POOL_TAGS] = "pool_tags",
};

static const char *const verdict_names[] = {
    [KDA_FIT_NOT_TRIED] = "not_tried",
    [KDA_FIT_NOT_FOUND] = "not_found",
    [KDA_FIT_REJECTED] = "rejected",
    [KDA_FIT_ACCEPTED] = "accepted",
};

static const char *const state_names[] = {
    [KDA_FIT_ABSENT] = "absent",
    [KDA_FIT_FITTED] = "fitted",
    [KDA_FIT_PROVEN] = "proven",
};

const char *kda_fit_anchor_name(enum kda_fit_anchor anchor)
{
    return (unsigned)anchor < KDA_ANCHOR_COUNT ? anchor_names[anchor] : "unknown";
}

const char *kda_fit_verdict_name(enum kda_fit_verdict verdict)
{
    return (unsigned)verdict <= KDA_FIT_ACCEPTED ? verdict_names[verdict] : "unknown";
}

const char *kda_fit_state_name(enum kda_fit_state state)
{
    return (unsigned)state <= KDA_FIT_PROVEN ? state_names[state] : "unknown";
}

/* ---- addresses of globals ---- */

static void set_rva(struct kda_fit *fit, enum kda_symbol_id id, uint64_t va)
{
    if (va != 0 && kda_fit_in_nt(fit, va))
        fit->layout.rva[id] = (uint32_t)(va - fit->base);
}

/* The global that holds `value`, when there is exactly one such place outside `except`. */
static uint64_t holder(const struct kda_fit *fit, uint64_t value, uint64_t except, uint64_t size)
{
    uint64_t found = 0;
    for (uint64_t at = kda_fit_find_qword(fit, value, 0); at != 0;
         at = kda_fit_find_qword(fit, value, at)) {
        if (at - except < size)
            continue;
        if (found != 0)
            return 0;
        found = at;
    }
    return found;
}

/* An export is a claim as any other: where it should lead is tested, where that can be read. */
static bool believed(struct kda_fit *fit, enum kda_symbol_id id)
{
    switch (id) {
    case KDA_SYM_PsInitialSystemProcess:
        return fit->system != 0 &&
               kda_fit_export_pointer(fit, kda_symbol_name(id), NULL) == fit->system;
    case KDA_SYM_PsProcessType:
        return kda_fit_exported_type(fit, kda_symbol_name(id), "Process");
    case KDA_SYM_PsThreadType:
        return kda_fit_exported_type(fit, kda_symbol_name(id), "Thread");
    default:
        return true;
    }
}

static void set_exports(struct kda_fit *fit)
{
    static const enum kda_symbol_id exports[] = {
        KDA_SYM_PsInitialSystemProcess,
        KDA_SYM_NtBuildNumber,
        KDA_SYM_NtBuildLab,
        KDA_SYM_KeNumberProcessors,
        KDA_SYM_PsProcessType,
        KDA_SYM_PsThreadType,
        KDA_SYM_PsGetServerSiloServiceSessionId,
    };
    for (size_t i = 0; i < sizeof(exports) / sizeof(exports[0]); i++) {
        uint64_t va;
        if (kda_kernel_export(fit->kernel, kda_symbol_name(exports[i]), &va, NULL) == KDA_OK &&
            believed(fit, exports[i]))
            set_rva(fit, exports[i], va);
    }
}

static void set_globals(struct kda_fit *fit)
{
    set_exports(fit);
    set_rva(fit, KDA_SYM_PsLoadedModuleList, fit->module_head);
    set_rva(fit, KDA_SYM_PsActiveProcessHead, fit->process_head);
    set_rva(fit, KDA_SYM_HandleTableListHead, fit->table_head);
    set_rva(fit, KDA_SYM_PspCidTable, fit->cid_global);
    set_rva(fit, KDA_SYM_PspJobList, fit->job_head);
    set_rva(fit, KDA_SYM_EtwpDebuggerData, fit->debugger_data);
    set_rva(fit, KDA_SYM_EtwThreatIntProvRegHandle, fit->reg_handle[0]);
    set_rva(fit, KDA_SYM_EtwpPsProvRegHandle, fit->reg_handle[1]);
    if (fit->types_known)
        set_rva(fit, KDA_SYM_ObTypeIndexTable, fit->type_table);
    uint32_t member = fit->layout.field[F(ESERVERSILO_GLOBALS, EtwSiloState)].offset;
    uint64_t held = fit->info.state;
    if (member != KDA_NONE && fit->globals != 0)
        (void)kda_fit_u64(fit, fit->globals + member, &held);
    if (held == fit->info.state)
        set_rva(fit, KDA_SYM_PspHostSiloGlobals, fit->globals);
    /* EtwpDebuggerData and the globals hold the state as well. */
    uint64_t direct = kda_fit_find_qword(fit, fit->info.state, 0);
    while (direct != 0 && ((fit->globals != 0 && direct - fit->globals < GLOBALS_SIZE) ||
                           direct - fit->debugger_data < 32))
        direct = kda_fit_find_qword(fit, fit->info.state, direct);
    set_rva(fit, KDA_SYM_EtwpHostSiloState, direct);
    if (fit->layout.rva[KDA_SYM_PspHostSiloGlobals] == KDA_NONE &&
        fit->layout.rva[KDA_SYM_EtwpHostSiloState] == KDA_NONE && fit->debugger_data != 0)
        set_rva(fit, KDA_SYM_EtwpHostSiloState, fit->debugger_data + 0x18);
}

/* Types of consumers and registrations by name; the global that holds such a type saves the name
 * from being needed again. */
static void set_types(struct kda_fit *fit)
{
    static const struct {
        const char *name;
        enum kda_symbol_id symbol;
    } types[] = {
        {"EtwConsumer", KDA_SYM_EtwpRealTimeConnectionObjectType},
        {"EtwRegistration", KDA_SYM_EtwpRegistrationObjectType},
    };
    for (size_t i = 0; fit->types_known && i < sizeof(types) / sizeof(types[0]); i++) {
        uint64_t type = kda_fit_named_type(fit, types[i].name);
        if (type != 0)
            set_rva(fit, types[i].symbol, holder(fit, type, fit->type_table, fit->types * 8u));
    }
}

/* ---- the run ---- */

/* Do all rows that describe the processes found come from builds without an ETW silo state? */
static bool before_silos(const struct kda_fit *fit)
{
    for (size_t r = 0; r < fit->rows.count; r++) {
        const struct kda_field *f = fit->rows.items[r].layout.field;
        if (f[F(EPROCESS, UniqueProcessId)].offset == fit->start.pid_at &&
            f[F(EPROCESS, ImageFileName)].offset == fit->start.name_at &&
            f[F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)].offset != KDA_NONE)
            return false;
    }
    return true;
}

static enum kda_status missing(const struct kda_fit *fit, struct kda_error *err)
{
    if (fit->process_count == 0)
        return kda_fail(err, KDA_NO_SYMBOL, "fit",
                        "no System process was found that any known layout describes");
    if (before_silos(fit))
        return kda_fail(err, KDA_NO_SYMBOL, "fit",
                        "this build has no silo state: its sessions and providers hang on the "
                        "globals WmipLoggerContext and EtwpGuidHashTable, which need symbols");
    char tried[200];
    size_t used = 0;
    tried[0] = '\0';
    for (size_t i = 0; i < KDA_ANCHOR_COUNT; i++) {
        int n = snprintf(tried + used, sizeof(tried) - used, "%s%s %s", used ? ", " : "",
                         kda_fit_anchor_name((enum kda_fit_anchor)i),
                         kda_fit_verdict_name(fit->info.anchor[i].verdict));
        if (n > 0 && used + (size_t)n < sizeof(tried))
            used += (size_t)n;
    }
    return kda_fail(err, KDA_NO_SYMBOL, "fit", "no ETW state was found that passes the checks (%s)",
                    tried);
}

/* Without these the rows could not be made; that they are absent means that this is a build whose
 * layout is too far from all known ones. */
static enum kda_status check_needed(const struct kda_fit *fit, struct kda_error *err)
{
    static const enum kda_field_id needed[] = {
        F(EPROCESS, ActiveProcessLinks),
        F(EPROCESS, UniqueProcessId),
        F(ETW_GUID_ENTRY, Guid),
        F(ETW_GUID_ENTRY, RegListHead),
        F(ETW_SILODRIVERSTATE, EtwpGuidHashTable),
    };
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        /* Where all of the state is missing nothing hangs on the place of its table. */
        if (!(fit->form.ambiguous && needed[i] == F(ETW_SILODRIVERSTATE, EtwpGuidHashTable)) &&
            fit->layout.field[needed[i]].offset == KDA_NONE)
            return kda_fail(err, KDA_NO_SYMBOL, "fit",
                            "the layouts known do not fit this kernel: no place of %s passes the "
                            "checks",
                            kda_field_name(needed[i]));
    return KDA_OK;
}

static enum kda_status run(struct kda_fit *fit, struct kda_error *err)
{
    const struct kda_kernel_info *info = kda_kernel_info(fit->kernel);
    fit->base = info->base;
    fit->end = info->base + info->id.pe_size;
    fit->max_pa = kda_image_info(kda_kernel_image(fit->kernel))->max_pa;
    fit->start = (struct fit_start){KDA_NONE, KDA_NONE, KDA_NONE, KDA_NONE, KDA_NONE, KDA_NONE};
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        fit->layout.rva[i] = KDA_NONE;
    if (!kda_fit_rows(fit) || !kda_fit_load_data(fit))
        return KDA_NO_MEMORY;
    kda_fit_modules(fit);
    if (fit->module_head == 0)
        kda_gaps_add(kda_kernel_gaps(fit->kernel), "modules", 0, KDA_BAD_DATA,
                     "no list with the kernel on it was found: callbacks have no driver");
    if (!kda_fit_processes(fit))
        return fit->out_of_memory ? KDA_NO_MEMORY : missing(fit, err);
    kda_fit_survey(fit);
    kda_fit_add_ids(fit);
    kda_fit_vote_processes(fit);
    kda_fit_objects(fit);
    bool found = kda_fit_find_state(fit);
    if (fit->out_of_memory)
        return KDA_NO_MEMORY;
    if (!found)
        return missing(fit, err);
    kda_fit_vote_state(fit);
    kda_fit_sessions(fit);
    kda_fit_providers(fit);
    kda_fit_jobs(fit);
    if (fit->out_of_memory)
        return KDA_NO_MEMORY;
    kda_fit_decide(fit);
    set_globals(fit);
    set_types(fit);
    return check_needed(fit, err);
}

static void describe(struct kda_fit *fit)
{
    size_t used = 0;
    int n = snprintf(fit->origin, sizeof(fit->origin), "%s %s; found by",
                     fit->info.whole ? "layout of" : "nearest layout", fit->info.nearest);
    used = n > 0 ? (size_t)n : 0;
    for (size_t i = 0; i < KDA_ANCHOR_COUNT && used < sizeof(fit->origin); i++) {
        if (fit->info.anchor[i].verdict != KDA_FIT_ACCEPTED)
            continue;
        n = snprintf(fit->origin + used, sizeof(fit->origin) - used, " %s",
                     kda_fit_anchor_name((enum kda_fit_anchor)i));
        used += n > 0 ? (size_t)n : 0;
    }
}

/* What only the run needed. */
static void drop_work(struct kda_fit *fit)
{
    kda_free(fit->data.bytes);
    kda_free(fit->data.rva);
    kda_free(fit->processes);
    kda_free(fit->modules);
    kda_free(fit->loggers);
    kda_free(fit->entries);
    kda_map_deinit(&fit->process_by_va);
    kda_map_deinit(&fit->named);
    kda_map_deinit(&fit->voices);
    for (size_t i = 0; i < FIT_KINDS; i++)
        kda_map_deinit(&fit->met[i].bodies);
    memset(&fit->data, 0, sizeof(fit->data));
    fit->processes = NULL;
    fit->modules = NULL;
    fit->loggers = NULL;
    fit->entries = NULL;
}

enum kda_status kda_etw_fit(struct kda_kernel *kernel, const struct kda_fit_options *options,
                            struct kda_fit **ret, struct kda_error *err)
{
    struct kda_fit *fit = kda_calloc(1, sizeof(*fit));
    if (!fit)
        return kda_fail(err, KDA_NO_MEMORY, "fit", "out of memory fitting a layout");
    fit->kernel = kernel;
    if (options)
        fit->options = *options;
    kda_map_init(&fit->process_by_va);
    kda_map_init(&fit->named);
    kda_map_init(&fit->voices);
    for (size_t i = 0; i < FIT_KINDS; i++)
        kda_map_init(&fit->met[i].bodies);
    enum kda_status status = run(fit, err);
    drop_work(fit);
    if (status == KDA_OK) {
        describe(fit);
        *ret = fit;
        return KDA_OK;
    }
    kda_fit_free(fit);
    if (status == KDA_NO_MEMORY)
        return kda_fail(err, status, "fit", "out of memory fitting a layout");
    return status;
}

void kda_fit_free(struct kda_fit *fit)
{
    if (!fit)
        return;
    kda_free(fit->rows.items);
    kda_free(fit);
}

enum kda_status kda_fit_install(const struct kda_fit *fit, struct kda_kernel *kernel,
                                struct kda_error *err)
{
    struct kda_symbols *symbols;
    const char *version = NULL;
    size_t row =
        fit->options.no_profile ? SIZE_MAX : kda_profile_match(&kda_kernel_info(kernel)->id);
    struct kda_profile_info info;
    if (row != SIZE_MAX) {
        kda_profile_get(row, &info);
        version = info.version;
    }
    enum kda_status status =
        kda_symbols_create(&fit->layout, "fitted", fit->origin, version, &symbols, err);
    if (status != KDA_OK)
        return status;
    return kda_kernel_use_layout(kernel, symbols, fit->has_cookie ? &fit->cookie : NULL, err);
}

const struct kda_fit_info *kda_fit_info(const struct kda_fit *fit)
{
    return &fit->info;
}

const struct kda_layout *kda_fit_layout(const struct kda_fit *fit)
{
    return &fit->layout;
}

enum kda_fit_state kda_fit_field_state(const struct kda_fit *fit, enum kda_field_id field)
{
    return (enum kda_fit_state)fit->state[field];
}
