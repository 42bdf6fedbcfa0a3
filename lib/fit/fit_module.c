/*
 * fit_module.c - drivers (for the callbacks of kernel registrations) and jobs (for containers).
 */
#include <string.h>

#include "fit_int.h"

#define KDBG_MODULE_HEAD 0x48u
#define MIN_MODULES 3u /* of a list whose entry of nt is missing */
#define MAX_JOBS 4096u

static void on_module(struct kda_fit *fit, void *context, uint64_t link)
{
    struct fit_votes *base = &fit->votes[F(KLDR_DATA_TABLE_ENTRY, DllBase)];
    struct fit_votes *size = &fit->votes[F(KLDR_DATA_TABLE_ENTRY, SizeOfImage)];
    struct fit_votes *names[] = {&fit->votes[F(KLDR_DATA_TABLE_ENTRY, BaseDllName)],
                                 &fit->votes[F(KLDR_DATA_TABLE_ENTRY, FullDllName)]};
    struct fit_votes *links = &fit->votes[F(KLDR_DATA_TABLE_ENTRY, InLoadOrderLinks)];
    (void)context;
    if (kda_fit_in_nt(fit, link))
        return;
    for (size_t i = 0; i < links->count; i++)
        kda_fit_vote(&links->place[i], kda_fit_ring(fit, link + links->place[i].offset));
    for (size_t n = 0; n < 2; n++)
        for (size_t i = 0; i < names[n]->count; i++)
            kda_fit_vote(&names[n]->place[i],
                         kda_fit_string(fit, link + names[n]->place[i].offset, true));
    for (size_t b = 0; b < base->count; b++) {
        uint64_t va;
        uint32_t bytes;
        if (kda_fit_u64(fit, link + base->place[b].offset, &va) != FIT_YES)
            continue;
        bool aligned = kda_is_kernel_va(fit->kernel, va) && (va & KDA_PAGE_MASK) == 0;
        kda_fit_vote(&base->place[b], !aligned ? FIT_NO : va == fit->base ? FIT_YES : FIT_UNKNOWN);
        if (!aligned || size->count == 0 ||
            kda_fit_u32(fit, link + size->place[0].offset, &bytes) != FIT_YES)
            continue;
        /* Only nt's size is known from elsewhere. */
        kda_fit_vote(&size->place[0], va != fit->base                 ? FIT_UNKNOWN
                                      : bytes == fit->end - fit->base ? FIT_YES
                                                                      : FIT_NO);
        void *items = fit->modules;
        if (!kda_grow(&items, &fit->module_capacity, fit->module_count + 1, sizeof(*fit->modules),
                      KDA_MAX_MODULES))
            return;
        fit->modules = items;
        memset(&fit->modules[fit->module_count], 0, sizeof(*fit->modules));
        fit->modules[fit->module_count].base = va;
        fit->modules[fit->module_count++].size = bytes;
    }
}

struct module_check {
    unsigned good, bad;
    bool nt;
};

/* A loaded image begins with its header, and the kernel is one of them. */
static void check_module(struct kda_fit *fit, void *context, uint64_t link)
{
    const struct fit_votes *base = &fit->votes[F(KLDR_DATA_TABLE_ENTRY, DllBase)];
    struct module_check *check = context;
    uint8_t magic[2];
    for (size_t i = 0; i < base->count && !kda_fit_in_nt(fit, link); i++) {
        uint64_t va;
        if (kda_fit_u64(fit, link + base->place[i].offset, &va) != FIT_YES)
            continue;
        bool aligned = kda_is_kernel_va(fit->kernel, va) && (va & KDA_PAGE_MASK) == 0;
        enum fit_answer read = aligned ? kda_fit_read(fit, va, magic, sizeof(magic)) : FIT_NO;
        check->nt = check->nt || va == fit->base;
        check->good += read == FIT_YES && magic[0] == 'M' && magic[1] == 'Z';
        check->bad += !aligned;
    }
}

/* Is it the head of the list of loaded drivers? Other lists have their heads in nt as well. */
static bool is_module_head(struct kda_fit *fit, uint64_t head)
{
    struct module_check check = {0, 0, false};
    if (!kda_fit_in_nt(fit, head))
        return false;
    (void)kda_fit_walk(fit, head, KDA_MAX_MODULES, check_module, &check);
    return (check.nt || check.good >= MIN_MODULES) && check.bad * 8 <= check.good + check.nt;
}

void kda_fit_modules(struct kda_fit *fit)
{
    const struct kda_image_info *image = kda_image_info(kda_kernel_image(fit->kernel));
    uint64_t heads[3] = {0};
    if (kda_kernel_export(fit->kernel, "PsLoadedModuleList", &heads[0], NULL) != KDA_OK)
        heads[0] = 0;
    heads[1] = image->has_roots ? image->ps_loaded_module_list : 0;
    if (kda_kernel_kdbg_field(fit->kernel, KDBG_MODULE_HEAD, &heads[2], NULL) != KDA_OK)
        heads[2] = 0;
    for (size_t i = 0; i < 3 && fit->module_head == 0; i++)
        if (is_module_head(fit, heads[i]))
            fit->module_head = heads[i];
    if (fit->module_head != 0)
        (void)kda_fit_walk(fit, fit->module_head, KDA_MAX_MODULES, on_module, NULL);
}

const struct kda_module *kda_fit_module_at(const struct kda_fit *fit, uint64_t va)
{
    for (size_t i = 0; i < fit->module_count; i++)
        if (va >= fit->modules[i].base && va - fit->modules[i].base < fit->modules[i].size)
            return &fit->modules[i];
    return NULL;
}

/* ---- jobs ---- */

/* Does the container's state at `state` name its globals and its job under this form? */
static bool closes(const struct kda_fit *fit, const struct fit_form *form, uint64_t state,
                   uint64_t job, uint64_t globals)
{
    uint64_t value;
    return form->globals != KDA_NONE && form->silo != KDA_NONE && kda_fit_is_pool(fit, state) &&
           kda_fit_u64(fit, state + form->globals, &value) == FIT_YES && value == globals &&
           kda_fit_u64(fit, state + form->silo, &value) == FIT_YES && value == job;
}

/* The globals of a container lead to its state, and the state names globals and job back. What
 * proves the job proves where globals of any silo keep the state. Where the host's state told no
 * form, each is tried: the three pointers close under the right one alone. */
static bool is_silo(struct kda_fit *fit, uint64_t job, uint64_t globals)
{
    struct fit_votes *member = &fit->votes[F(ESERVERSILO_GLOBALS, EtwSiloState)];
    struct fit_form forms[FIT_MAX_ROWS];
    size_t count = 1;
    forms[0] = fit->form;
    if (fit->form.ambiguous)
        count = kda_fit_forms(fit, forms, FIT_MAX_ROWS);
    for (size_t i = 0; kda_fit_is_pool(fit, globals) && i < member->count * count; i++) {
        struct fit_place *place = &member->place[i / count];
        uint64_t state;
        if (kda_fit_u64(fit, globals + place->offset, &state) == FIT_YES &&
            closes(fit, &forms[i % count], state, job, globals)) {
            place->yes++;
            return true;
        }
    }
    return false;
}

static void on_job_link(struct kda_fit *fit, void *context, uint64_t link)
{
    (void)context;
    uint64_t head = kda_fit_in_nt(fit, link) ? kda_fit_met_head(fit, link) : 0;
    fit->job_head = head != 0 ? head : fit->job_head;
}

enum { IS_NO_JOB = 1, IS_JOB = 2, IS_SILO = 4 };

/* At a wrong place of a job anything may stand: it contradicts nothing, it only fails to prove. */
static bool vote_globals(struct kda_fit *fit, uint64_t job)
{
    struct fit_votes *at = &fit->votes[F(EJOB, ServerSiloGlobals)];
    bool silo = false;
    for (size_t i = 0; i < at->count; i++) {
        uint64_t globals;
        if (kda_fit_u64(fit, job + at->place[i].offset, &globals) != FIT_YES || globals == 0 ||
            !is_silo(fit, job, globals))
            continue;
        at->place[i].yes++;
        silo = true;
    }
    return silo;
}

/* Votes of what may be a job, and what it is. Its header says so, or a container's state. */
static uint64_t vote_job(struct kda_fit *fit, uint64_t job)
{
    struct fit_votes *links = &fit->votes[F(EJOB, JobLinks)];
    enum fit_answer type = kda_fit_has_type(fit, job, "Job");
    if (type == FIT_NO)
        return IS_NO_JOB;
    bool silo = vote_globals(fit, job);
    if (type != FIT_YES && !silo)
        return 0;
    for (size_t i = 0; i < links->count; i++) {
        uint64_t first = 0;
        enum fit_answer answer = kda_fit_ring(fit, job + links->place[i].offset);
        if (kda_fit_u64(fit, job + links->place[i].offset, &first) == FIT_YES && first == 0)
            answer = FIT_UNKNOWN; /* not on the list */
        kda_fit_vote(&links->place[i], answer);
        if (answer == FIT_YES && fit->job_head == 0)
            (void)kda_fit_walk(fit, job + links->place[i].offset, KDA_MAX_PROCESSES, on_job_link,
                               NULL);
    }
    return silo ? IS_JOB | IS_SILO : IS_JOB;
}

static void jobs_of(struct kda_fit *fit, enum kda_field_id field, uint64_t right,
                    struct kda_map *seen)
{
    struct fit_votes *at = &fit->votes[field];
    for (size_t p = 0; p < fit->process_count; p++)
        for (size_t i = 0; i < at->count; i++) {
            uint64_t job, is = 0;
            if (kda_fit_u64(fit, fit->processes[p].va + at->place[i].offset, &job) != FIT_YES ||
                !kda_fit_is_pool(fit, job))
                continue;
            if (!kda_map_get(seen, job, &is)) {
                if (seen->count >= MAX_JOBS)
                    return;
                is = vote_job(fit, job);
                if (!kda_map_put(seen, job, is))
                    fit->out_of_memory = true;
                at->place[i].no += is == IS_NO_JOB; /* once: many processes share a job */
            }
            at->place[i].yes += (is & right) != 0;
        }
}

void kda_fit_jobs(struct kda_fit *fit)
{
    struct kda_map seen;
    kda_map_init(&seen);
    jobs_of(fit, F(EPROCESS, Job), IS_JOB, &seen);
    jobs_of(fit, F(EPROCESS, ServerSilo), IS_SILO, &seen);
    kda_map_deinit(&seen);
}
