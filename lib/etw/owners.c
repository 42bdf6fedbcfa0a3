/*
 * owners.c - processes that no list of processes names: consumers, registrations, handles and jobs
 * point at theirs.
 */
#include <string.h>

#include "internal.h"

static void name(struct kda_etw *etw, uint64_t process)
{
    uint64_t count = 0;
    if (process == 0 || kda_process_at(etw->kernel, process))
        return;
    (void)kda_map_get(&etw->named_process, process, &count);
    etw->out_of_memory |= !kda_map_put(&etw->named_process, process, count + 1);
}

/* A process that is there proves itself. Of one whose memory is missing two have to speak: a single
 * pointer may have been overwritten. */
static bool believed(struct kda_etw *etw, uint64_t process, uint64_t count)
{
    if (kda_process_at(etw->kernel, process))
        return false;
    enum kda_status status = kda_process_check(etw->kernel, process);
    return status == KDA_OK || (status != KDA_BAD_DATA && count > 1);
}

struct job_walk {
    struct kda_etw *etw;
    uint32_t at;
};

static enum kda_step on_process(void *context, uint64_t link_va, enum kda_link how)
{
    struct job_walk *walk = context;
    if (how == KDA_LINK_TORN)
        return KDA_STEP_REFUSE;
    name(walk->etw, link_va - walk->at);
    return kda_etw_stop(walk->etw) ? KDA_STEP_STOP : KDA_STEP_TAKE;
}

/* The processes of the jobs that processes are known to be in. */
static void read_jobs(struct kda_etw *etw)
{
    const struct kda_process *processes;
    struct job_walk walk = {etw, kda_field_offset(etw->kernel, KDA_F_EPROCESS_JobLinks)};
    size_t count;
    uint64_t previous = 0;
    if (walk.at == KDA_NONE || !kda_has_field(etw->kernel, KDA_F_EJOB_ProcessListHead) ||
        kda_processes(etw->kernel, &processes, &count, NULL) != KDA_OK)
        return;
    for (size_t i = 0; i < count && !kda_etw_stop(etw); i++) {
        uint64_t job = processes[i].job;
        if (job == previous || !kda_is_kernel_va(etw->kernel, job) ||
            kda_map_get(&etw->looked_at, job, NULL))
            continue;
        previous = job;
        etw->out_of_memory |= !kda_map_put(&etw->looked_at, job, 1);
        kda_etw_walk(etw, kda_etw_member(etw, job, KDA_F_EJOB_ProcessListHead), KDA_MAX_PROCESSES,
                     NULL, on_process, &walk);
    }
}

static void read_objects(struct kda_etw *etw)
{
    for (size_t i = 0; i < etw->consumers.count; i++)
        name(etw, ((const struct kda_etw_consumer *)etw->consumers.items[i])->process_va);
    for (size_t i = 0; i < etw->registrations.count; i++) {
        const struct kda_etw_registration *reg = etw->registrations.items[i];
        if (reg->has_kind && !reg->kernel)
            name(etw, reg->process_va);
    }
}

bool kda_etw_read_owners(struct kda_etw *etw)
{
    struct kda_map *named = &etw->named_process;
    struct kda_error why;
    size_t count = 0, added = 0;
    if (kda_etw_stop(etw))
        return false;
    read_objects(etw);
    read_jobs(etw);
    uint64_t *vas = named->count ? kda_calloc(named->count, sizeof(*vas)) : NULL;
    if (named->count && !vas)
        etw->out_of_memory = true;
    for (size_t i = 0; vas && i < named->capacity; i++)
        if (named->keys[i] != 0 && believed(etw, named->keys[i], named->values[i]))
            vas[count++] = named->keys[i];
    kda_map_deinit(named);
    kda_map_init(named);
    enum kda_status status =
        count ? kda_processes_add(etw->kernel, vas, count, &added, &why) : KDA_OK;
    kda_free(vas);
    etw->out_of_memory |= status == KDA_NO_MEMORY;
    return added > 0 && !kda_etw_stop(etw);
}
