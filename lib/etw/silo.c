/*
 * silo.c - the ETW states of the host and of every server silo (container).
 *
 * Source: docs/etw.md. 14393 and later: PspHostSiloGlobals (embedded) -> EtwSiloState; server silos
 * through PspJobList -> EJOB.ServerSiloGlobals. Before: globals WmipLoggerContext and
 * EtwpGuidHashTable. The presence of symbols and fields decides.
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define FIXED_SLOTS 64u /* builds without _ETW_SILODRIVERSTATE.MaxLoggers */

static bool read_pointer(struct kda_etw *etw, uint64_t va, uint64_t *ret, enum kda_status *status)
{
    uint8_t bytes[8];
    *status = kda_read(etw->kernel, va, bytes, sizeof(bytes), NULL);
    if (*status == KDA_OK)
        *ret = kda_le64(bytes);
    return *status == KDA_OK;
}

static void read_slots(struct kda_etw *etw, struct kda_etw_silo *silo)
{
    uint64_t slots;
    silo->slots = FIXED_SLOTS;
    if (!kda_etw_field(etw, "silo", silo->state, KDA_F_ETW_SILODRIVERSTATE_MaxLoggers, &slots))
        return;
    if (slots == 0 || slots > KDA_ETW_MAX_LOGGERS) {
        kda_gaps_add(kda_etw_gaps(etw), "silo", silo->state, KDA_BAD_DATA,
                     "MaxLoggers is %llu; only the first %u slots are read",
                     (unsigned long long)slots, FIXED_SLOTS);
        return;
    }
    silo->slots = (uint32_t)slots;
}

static struct kda_etw_silo *add_silo(struct kda_etw *etw, uint64_t state, uint64_t job)
{
    if (etw->silo_count >= KDA_ETW_MAX_SILOS) {
        kda_gaps_add(kda_etw_gaps(etw), "silos", state, KDA_LIMIT, "more than %u silos",
                     KDA_ETW_MAX_SILOS);
        return NULL;
    }
    struct kda_etw_silo *silo = &etw->silos[etw->silo_count++];
    silo->host = silo == etw->silos;
    silo->state = state;
    silo->job = job;
    if (silo->host)
        (void)snprintf(silo->label, sizeof(silo->label), "host");
    else
        (void)snprintf(silo->label, sizeof(silo->label), "0x%016llx", (unsigned long long)state);
    silo->table = kda_etw_member(etw, state, KDA_F_ETW_SILODRIVERSTATE_EtwpGuidHashTable);
    read_slots(etw, silo);
    if (kda_has_field(etw->kernel, KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext)) {
        uint64_t array;
        if (kda_etw_field(etw, "sessions", state, KDA_F_ETW_SILODRIVERSTATE_EtwpLoggerContext,
                          &array))
            silo->array = array;
    } else {
        silo->array = kda_etw_member(etw, state, KDA_F_ETW_SILODRIVERSTATE_WmipLoggerContext);
    }
    return silo;
}

static enum kda_status host_without_silos(struct kda_etw *etw, struct kda_error *err)
{
    uint64_t array = kda_symbol_va(etw->kernel, KDA_SYM_WmipLoggerContext);
    uint64_t table = kda_symbol_va(etw->kernel, KDA_SYM_EtwpGuidHashTable);
    if (array == 0)
        return kda_fail(err, KDA_NO_SYMBOL, "etw",
                        "neither PspHostSiloGlobals nor WmipLoggerContext is known in this build");
    struct kda_etw_silo *silo = &etw->silos[etw->silo_count++];
    silo->host = true;
    silo->array = array;
    silo->slots = FIXED_SLOTS;
    silo->table = table;
    (void)snprintf(silo->label, sizeof(silo->label), "host");
    return KDA_OK;
}

/* Two globals name the host's state; they must agree. */
static enum kda_status find_host(struct kda_etw *etw, struct kda_error *err)
{
    struct kda_kernel *kernel = etw->kernel;
    uint64_t globals = kda_symbol_va(kernel, KDA_SYM_PspHostSiloGlobals);
    uint64_t direct = kda_symbol_va(kernel, KDA_SYM_EtwpHostSiloState);
    uint64_t member =
        globals ? kda_etw_member(etw, globals, KDA_F_ESERVERSILO_GLOBALS_EtwSiloState) : 0;
    if (member == 0 && direct == 0)
        return host_without_silos(etw, err);
    uint64_t first = 0, second = 0;
    enum kda_status status[2] = {KDA_NO_SYMBOL, KDA_NO_SYMBOL};
    if (member)
        (void)read_pointer(etw, member, &first, &status[0]);
    if (direct)
        (void)read_pointer(etw, direct, &second, &status[1]);
    bool good[2] = {status[0] == KDA_OK && kda_is_kernel_va(kernel, first),
                    status[1] == KDA_OK && kda_is_kernel_va(kernel, second)};
    if (good[0] && good[1] && first != second)
        kda_gaps_add(kda_etw_gaps(etw), "silo", direct, KDA_BAD_DATA,
                     "EtwpHostSiloState names 0x%016llx, PspHostSiloGlobals names 0x%016llx",
                     (unsigned long long)second, (unsigned long long)first);
    if (!good[0] && !good[1]) {
        enum kda_status why = status[0] != KDA_OK ? status[0] : KDA_BAD_DATA;
        return kda_fail_at(err, why, "etw", member ? member : direct,
                           "the host's ETW state is not in the image (pointer at 0x%016llx)",
                           (unsigned long long)(member ? member : direct));
    }
    (void)add_silo(etw, good[0] ? first : second, 0);
    return KDA_OK;
}

/* A state names its job and its globals back, where the build has the members. */
static bool names_back(struct kda_etw *etw, uint64_t state, enum kda_field_id field,
                       uint64_t expected)
{
    uint64_t value;
    return !kda_has_field(etw->kernel, field) ||
           kda_read_field(etw->kernel, state, field, &value, NULL) != KDA_OK || value == expected;
}

/* A server silo's globals, if this job has any. */
static void add_job(struct kda_etw *etw, uint64_t job)
{
    uint64_t globals, state;
    if (!kda_is_kernel_va(etw->kernel, job) ||
        !kda_etw_field(etw, "job", job, KDA_F_EJOB_ServerSiloGlobals, &globals) || globals == 0)
        return;
    if (!kda_etw_field(etw, "silo_globals", globals, KDA_F_ESERVERSILO_GLOBALS_EtwSiloState,
                       &state) ||
        !kda_is_kernel_va(etw->kernel, state))
        return;
    for (size_t i = 0; i < etw->silo_count; i++) {
        if (etw->silos[i].state == state) {
            if (!etw->silos[i].host)
                etw->silos[i].job = job;
            return;
        }
    }
    if (names_back(etw, state, KDA_F_ETW_SILODRIVERSTATE_SiloGlobals, globals))
        (void)add_silo(etw, state, job);
    else
        kda_gaps_add(kda_etw_gaps(etw), "job", job, KDA_BAD_DATA,
                     "names a container's globals whose ETW state does not name them back");
}

static enum kda_step on_job(void *context, uint64_t link_va, enum kda_link how)
{
    struct kda_etw *etw = context;
    uint32_t at = kda_field_offset(etw->kernel, KDA_F_EJOB_JobLinks);
    /* A job that is no server silo's is not asked for; one that is leads to a state that names the
     * job's globals back. */
    if (how != KDA_LINK_MISSING)
        add_job(etw, link_va - at);
    return KDA_STEP_TAKE;
}

static bool is_fitted(const struct kda_etw *etw)
{
    const struct kda_symbols *symbols = kda_kernel_symbols(etw->kernel);
    return symbols && strcmp(kda_symbols_info(symbols)->source, "fitted") == 0;
}

/* A fitted layout may lack the way from a job to its globals: containers that processes name are
 * then known to exist and nothing more, unless an object's back pointer leads to them. */
static void say_unresolved(struct kda_etw *etw)
{
    const struct kda_process *processes;
    size_t count;
    if (kda_processes(etw->kernel, &processes, &count, NULL) != KDA_OK)
        return;
    for (size_t i = 0; i < count; i++)
        if (processes[i].server_silo)
            kda_gaps_add(kda_etw_gaps(etw), "silo", processes[i].server_silo, KDA_NO_SYMBOL,
                         "a container's job; where it keeps its globals is not known");
}

enum kda_status kda_etw_find_silos(struct kda_etw *etw, struct kda_error *err)
{
    struct kda_kernel *kernel = etw->kernel;
    enum kda_status status = find_host(etw, err);
    if (status != KDA_OK)
        return status;
    if (etw->silos[0].state == 0)
        return KDA_OK;
    if (!kda_has_field(kernel, KDA_F_EJOB_ServerSiloGlobals)) {
        say_unresolved(etw);
        return KDA_OK;
    }
    uint64_t head = kda_symbol_va(kernel, KDA_SYM_PspJobList);
    if (head && kda_has_field(kernel, KDA_F_EJOB_JobLinks))
        kda_etw_walk(etw, head, KDA_MAX_PROCESSES, "jobs", on_job, etw);
    /* Second witness: the jobs that processes name. */
    const struct kda_process *processes;
    size_t count;
    if (kda_processes(kernel, &processes, &count, NULL) == KDA_OK) {
        for (size_t i = 0; i < count; i++) {
            if (processes[i].server_silo)
                add_job(etw, processes[i].server_silo);
            else if (processes[i].job && !kda_has_field(kernel, KDA_F_EPROCESS_ServerSilo))
                add_job(etw, processes[i].job);
        }
    }
    return KDA_OK;
}

struct kda_etw_silo *kda_etw_known_state(struct kda_etw *etw, uint64_t state)
{
    if (state == 0)
        return &etw->silos[0];
    for (size_t i = 0; i < etw->silo_count; i++)
        if (etw->silos[i].state == state)
            return &etw->silos[i];
    return NULL;
}

enum kda_status kda_etw_check_state(struct kda_etw *etw, uint64_t state)
{
    uint64_t globals, back;
    if (!kda_is_kernel_va(etw->kernel, state) || (state & 7) != 0)
        return KDA_BAD_DATA;
    enum kda_status status =
        kda_read_field(etw->kernel, state, KDA_F_ETW_SILODRIVERSTATE_SiloGlobals, &globals, NULL);
    if (status == KDA_OK)
        status = kda_read_field(etw->kernel, globals, KDA_F_ESERVERSILO_GLOBALS_EtwSiloState, &back,
                                NULL);
    if (status == KDA_UNMAPPED || (status == KDA_OK && back != state))
        return KDA_BAD_DATA;
    return status;
}

struct kda_etw_silo *kda_etw_silo_of(struct kda_etw *etw, uint64_t state)
{
    struct kda_etw_silo *silo = kda_etw_known_state(etw, state);
    if (silo)
        return silo;
    enum kda_status status = kda_etw_check_state(etw, state);
    /* Memory that is missing contradicts nothing: the object names a state that is not the host's,
     * and calling it the host's would be wrong. */
    if (status == KDA_ABSENT || status == KDA_PAGED_OUT)
        kda_gaps_add(kda_etw_gaps(etw), "silo", state, status,
                     "only objects that belong to this ETW state name it");
    else if (status != KDA_OK)
        return NULL;
    return add_silo(etw, state, 0); /* read_found reads it: no recursion through back pointers */
}

struct kda_etw_silo *kda_etw_default_silo(struct kda_etw *etw, bool readable,
                                          enum kda_field_id member)
{
    /* Builds before containers have the host alone. Later an object that was read and has no such
     * member is the host's as well, unless the layout was worked out and may just not know it. */
    if (etw->silos[0].state == 0)
        return &etw->silos[0];
    bool host = readable && !kda_has_field(etw->kernel, member) && !is_fitted(etw);
    return host ? &etw->silos[0] : NULL;
}

const struct kda_etw_silo *kda_etw_silo_of_process(const struct kda_etw *etw,
                                                   const struct kda_process *process)
{
    uint64_t job = process->server_silo ? process->server_silo : process->job;
    if (!process->has_silo)
        return NULL;
    if (job != 0)
        for (size_t i = 0; i < etw->silo_count; i++)
            if (etw->silos[i].job == job)
                return &etw->silos[i];
    /* A job is the host's once it is known that it has no globals of its own. */
    uint64_t globals = 0;
    bool host = !process->server_silo &&
                (job == 0 || etw->silos[0].state == 0 /* before containers */ ||
                 (kda_read_field(etw->kernel, job, KDA_F_EJOB_ServerSiloGlobals, &globals, NULL) ==
                      KDA_OK &&
                  globals == 0));
    return host ? &etw->silos[0] : NULL;
}
