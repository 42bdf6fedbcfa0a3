/*
 * fit_module.c - drivers (for the callbacks of kernel registrations) and jobs (for containers).
 */
#include <string.h>

#include "fit_int.h"

#define KDBG_MODULE_HEAD 0x48u
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

void kda_fit_modules(struct kda_fit *fit)
{
    const struct kda_image_info *image = kda_image_info(kda_kernel_image(fit->kernel));
    uint64_t head = 0;
    if (kda_kernel_export(fit->kernel, "PsLoadedModuleList", &head, NULL) != KDA_OK ||
        kda_fit_ring(fit, head) == FIT_NO)
        head = image->has_roots ? image->ps_loaded_module_list : 0;
    if (head == 0 && kda_kernel_kdbg_field(fit->kernel, KDBG_MODULE_HEAD, &head, NULL) != KDA_OK)
        head = 0;
    if (head == 0 || !kda_fit_in_nt(fit, head) || kda_fit_ring(fit, head) == FIT_NO)
        return;
    fit->module_head = head;
    (void)kda_fit_walk(fit, head, KDA_MAX_MODULES, on_module, NULL);
}

const struct kda_module *kda_fit_module_at(const struct kda_fit *fit, uint64_t va)
{
    for (size_t i = 0; i < fit->module_count; i++)
        if (va >= fit->modules[i].base && va - fit->modules[i].base < fit->modules[i].size)
            return &fit->modules[i];
    return NULL;
}

/* ---- jobs ---- */

/* The globals of a container lead to its state, and the state names globals and job back. What
 * proves the job proves where globals of any silo keep the state. */
static enum fit_answer is_silo(struct kda_fit *fit, uint64_t job, uint64_t globals)
{
    struct fit_votes *member = &fit->votes[F(ESERVERSILO_GLOBALS, EtwSiloState)];
    enum fit_answer answer = FIT_NO;
    if (!kda_fit_is_pool(fit, globals))
        return FIT_NO;
    for (size_t i = 0; i < member->count; i++) {
        uint64_t state, value;
        if (kda_fit_u64(fit, globals + member->place[i].offset, &state) != FIT_YES ||
            fit->form.globals == KDA_NONE || fit->form.silo == KDA_NONE)
            answer = FIT_UNKNOWN;
        else if (kda_fit_is_pool(fit, state) &&
                 kda_fit_u64(fit, state + fit->form.globals, &value) == FIT_YES &&
                 value == globals && kda_fit_u64(fit, state + fit->form.silo, &value) == FIT_YES &&
                 value == job) {
            member->place[i].yes++;
            return FIT_YES;
        }
    }
    return answer;
}

static void on_job_link(struct kda_fit *fit, void *context, uint64_t link)
{
    (void)context;
    uint64_t head = kda_fit_in_nt(fit, link) ? kda_fit_met_head(fit, link) : 0;
    fit->job_head = head != 0 ? head : fit->job_head;
}

/* Votes of one job; true if it is a container's. */
static bool vote_job(struct kda_fit *fit, uint64_t job)
{
    struct fit_votes *globals_at = &fit->votes[F(EJOB, ServerSiloGlobals)];
    struct fit_votes *links = &fit->votes[F(EJOB, JobLinks)];
    bool silo = false;
    for (size_t i = 0; i < globals_at->count; i++) {
        uint64_t globals;
        if (kda_fit_u64(fit, job + globals_at->place[i].offset, &globals) != FIT_YES ||
            globals == 0)
            continue;
        enum fit_answer answer = is_silo(fit, job, globals);
        /* At a wrong place anything may stand: it contradicts nothing, it only fails to prove. */
        if (answer == FIT_YES) {
            globals_at->place[i].yes++;
            silo = true;
        }
    }
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
    return silo;
}

static void jobs_of(struct kda_fit *fit, enum kda_field_id field, struct kda_map *seen)
{
    struct fit_votes *at = &fit->votes[field];
    uint32_t proven = KDA_NONE;
    for (size_t r = 0; r < fit->rows.count; r++) {
        const struct kda_field *f = fit->rows.items[r].layout.field;
        if (f[F(EPROCESS, UniqueProcessId)].offset == fit->start.pid_at &&
            f[F(EPROCESS, ImageFileName)].offset == fit->start.name_at)
            proven = f[field].offset; /* rows that share these two share the rest up to here */
    }
    for (size_t p = 0; proven != KDA_NONE && p < fit->process_count; p++) {
        uint64_t job, known = 0;
        if (kda_fit_u64(fit, fit->processes[p].va + proven, &job) != FIT_YES ||
            !kda_fit_is_pool(fit, job) || seen->count >= MAX_JOBS)
            continue;
        if (!kda_map_get(seen, job, &known)) {
            known = vote_job(fit, job);
            if (!kda_map_put(seen, job, known))
                fit->out_of_memory = true;
        }
        for (size_t i = 0; known && i < at->count; i++)
            if (at->place[i].offset == proven)
                at->place[i].yes++;
    }
}

void kda_fit_jobs(struct kda_fit *fit)
{
    struct kda_map seen;
    kda_map_init(&seen);
    jobs_of(fit, F(EPROCESS, Job), &seen);
    jobs_of(fit, F(EPROCESS, ServerSilo), &seen);
    kda_map_deinit(&seen);
}
