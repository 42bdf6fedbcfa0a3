/*
 * replay_fire.c - a plan becomes activity of a simulated machine, and its driver writes the log.
 *
 * All records of one moment are fired at that moment of the simulated clock, by several threads
 * where they are of several processes; what changes who exists is fired alone, and the clock goes
 * on by its smallest step around it, as the counter of a machine does. So times in the log are the
 * recorded ones, to the millisecond that recordings have, and nothing of a process can overtake
 * its creation.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"
#include "run.h"

/* Apart from every recorded pid, which share one table with thread ids. */
#define FIRST_OWN_TID 0x100000u
#define SYSTEM_PID 4u
#define UNITS_PER_SECOND 1e7

struct fire {
    struct replay_machine *machine;
    struct replay_plan plan;
    const struct run_options *options;
    uint32_t next_tid;
    uint64_t fired, failed;
    /* workers */
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    size_t from, to; /* steps of the batch */
    uint64_t batch;
    uint32_t busy;
    bool ending;
    uint64_t worker_failed[RUN_MAX_THREADS];
};

struct worker {
    struct fire *fire;
    uint32_t index;
    pthread_t thread;
    bool running;
};

/* ---- one step ---- */

static const struct replay_process *process_at(const struct fire *fire, size_t index)
{
    return &fire->machine->processes[index];
}

static uint32_t new_tid(struct fire *fire)
{
    fire->next_tid += 4;
    return fire->next_tid - 4;
}

static struct sim_process describe(struct fire *fire, const struct replay_process *process)
{
    struct sim_process made = {
        .pid = process->pid,
        .parent_pid = SYSTEM_PID,
        .first_tid = new_tid(fire),
        .image = process->image,
        .command_line = process->command_line,
        .session = process->session,
        .sid = process->sid_size ? process->sid : NULL,
        .sid_size = process->sid_size,
        .integrity = process->integrity,
        .elevated = process->integrity >= 0x3000,
        .no_command_line = process->command_line.count == 0,
    };
    if (process->parent != REPLAY_NONE)
        made.parent_pid = process_at(fire, process->parent)->pid;
    return made;
}

/* Created by its parent, or by the system where that is not there. */
static bool start_process(struct fire *fire, size_t index)
{
    struct replay_process *process = &fire->machine->processes[index];
    struct sim_process made = describe(fire, process);
    bool by_parent = process->parent != REPLAY_NONE && sim_enter(made.parent_pid, 0);
    if (!by_parent && !sim_enter(SYSTEM_PID, 0))
        return false;
    uint32_t pid = 0;
    process->told = sim_process_create(&made, &pid) == 0;
    (void)sim_enter(SYSTEM_PID, 0);
    return process->told;
}

static bool end_process(struct fire *fire, size_t index)
{
    struct replay_process *process = &fire->machine->processes[index];
    (void)sim_enter(SYSTEM_PID, 0);
    process->told = false;
    return sim_process_exit(process->pid, 0);
}

static void fire_flow(const struct fire *fire, const struct replay_record *record)
{
    const struct replay_endpoint *local, *remote;
    replay_ends(fire->machine, record, &local, &remote);
    struct sim_flow flow = {
        .version = record->ip_version,
        .protocol = record->protocol,
        .local_port = local->port,
        .remote_port = remote->port,
    };
    memcpy(flow.local, local->address, sizeof(flow.local));
    memcpy(flow.remote, remote->address, sizeof(flow.remote));
    uint64_t id = 0;
    if (record->initiated)
        sim_net_connect(&flow, &id);
    else
        sim_net_accept(&flow, &id);
    if (id != 0)
        sim_net_close(id);
}

static void fire_registry(const struct replay_record *record)
{
    struct sim_registry op = {
        .key = record->path,
        .name = record->name,
        .type = record->value_type,
        .data = record->data,
        .size = record->data_size,
    };
    switch (record->type) {
    case REPLAY_KEY_CREATE:
        (void)sim_registry_create_key(&op);
        break;
    case REPLAY_KEY_DELETE:
        (void)sim_registry_delete_key(&op);
        break;
    case REPLAY_KEY_RENAME:
        (void)sim_registry_rename_key(&op);
        break;
    case REPLAY_VALUE_SET:
        (void)sim_registry_set_value(&op);
        break;
    default:
        (void)sim_registry_delete_value(&op);
        break;
    }
}

/* Was a thread of this id fired before? */
static bool was_fired(const struct fire *fire, const struct replay_record *record)
{
    for (size_t i = 0; i < fire->plan.count; i++) {
        const struct replay_step *step = &fire->plan.steps[i];
        const struct replay_record *other = &fire->machine->records[step->index];
        if (step->op != REPLAY_FIRE)
            continue;
        if (other == record)
            return false;
        if (other->type == REPLAY_THREAD_REMOTE && other->tid == record->tid)
            return true;
    }
    return false;
}

/* Ends of threads are not recorded: one whose id comes back has ended. */
static bool fire_thread(const struct fire *fire, const struct replay_record *record)
{
    struct sim_thread thread = {
        .pid = process_at(fire, record->other)->pid,
        .tid = record->tid,
        .start_address = record->address,
    };
    uint32_t tid = 0;
    if (sim_thread_create(&thread, &tid) == 0)
        return true;
    return was_fired(fire, record) && sim_thread_exit(record->tid, 0) &&
           sim_thread_create(&thread, &tid) == 0;
}

static bool fire_record(struct fire *fire, const struct replay_record *record)
{
    uint32_t pid =
        record->process == REPLAY_NONE ? SYSTEM_PID : process_at(fire, record->process)->pid;
    struct sim_image image = {.path = record->path, .size = 0x10000, .base = 0x7ff800000000u};
    if (record->type == REPLAY_PROCESS_CREATE)
        return start_process(fire, record->process);
    if (record->type == REPLAY_PROCESS_EXIT)
        return end_process(fire, record->process);
    if (!sim_enter(pid, 0))
        return false;
    switch (record->type) {
    case REPLAY_THREAD_REMOTE:
        return fire_thread(fire, record);
    case REPLAY_DRIVER_LOAD:
        image.kernel = true;
        image.base = 0xfffff80000000000u;
        sim_image_load(&image);
        return true;
    case REPLAY_IMAGE_LOAD:
        sim_image_load(&image);
        return true;
    case REPLAY_FLOW:
        fire_flow(fire, record);
        return true;
    default:
        fire_registry(record);
        return true;
    }
}

static bool fire_step(struct fire *fire, const struct replay_step *step)
{
    if (step->op == REPLAY_START)
        return start_process(fire, step->index);
    if (step->op == REPLAY_END)
        return end_process(fire, step->index);
    return fire_record(fire, &fire->machine->records[step->index]);
}

/* ---- batches ---- */

/* Everything of one process is fired by one worker, in its order. */
static void fire_share(struct fire *fire, uint32_t worker, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct replay_step *step = &fire->plan.steps[i];
        size_t process = fire->machine->records[step->index].process;
        uint32_t owner = process == REPLAY_NONE ? 0 : (uint32_t)(process % fire->options->threads);
        if (owner == worker && !fire_step(fire, step))
            fire->worker_failed[worker]++;
    }
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct fire *fire = worker->fire;
    uint64_t seen = 0;
    sim_set_cpu(worker->index);
    (void)pthread_mutex_lock(&fire->lock);
    while (!fire->ending) {
        if (fire->batch == seen) {
            (void)pthread_cond_wait(&fire->work, &fire->lock);
            continue;
        }
        seen = fire->batch;
        size_t from = fire->from, to = fire->to;
        (void)pthread_mutex_unlock(&fire->lock);
        fire_share(fire, worker->index, from, to);
        (void)pthread_mutex_lock(&fire->lock);
        if (--fire->busy == 0)
            (void)pthread_cond_signal(&fire->done);
    }
    (void)pthread_mutex_unlock(&fire->lock);
    return NULL;
}

static void fire_batch(struct fire *fire, size_t from, size_t to)
{
    uint32_t others = fire->options->threads - 1;
    if (others > 0 && to - from > 1) {
        (void)pthread_mutex_lock(&fire->lock);
        fire->from = from;
        fire->to = to;
        fire->busy = others;
        fire->batch++;
        (void)pthread_cond_broadcast(&fire->work);
        (void)pthread_mutex_unlock(&fire->lock);
        fire_share(fire, 0, from, to);
        (void)pthread_mutex_lock(&fire->lock);
        while (fire->busy > 0)
            (void)pthread_cond_wait(&fire->done, &fire->lock);
        (void)pthread_mutex_unlock(&fire->lock);
        return;
    }
    for (uint32_t worker = 0; worker < fire->options->threads; worker++)
        fire_share(fire, worker, from, to);
}

static void fire_all(struct fire *fire)
{
    const struct replay_plan *plan = &fire->plan;
    uint64_t now = plan->begin;
    for (size_t i = 0; i < plan->count;) {
        const struct replay_step *step = &plan->steps[i];
        if (step->at > now) {
            if (fire->options->speed > 0)
                run_sleep((double)(step->at - now) / UNITS_PER_SECOND / fire->options->speed);
            now = step->at;
            sim_clock_set(now);
        }
        size_t end = i + 1;
        if (replay_is_structural(fire->machine, step)) {
            fire->worker_failed[0] += !fire_step(fire, step);
        } else {
            while (end < plan->count && plan->steps[end].at == step->at &&
                   !replay_is_structural(fire->machine, &plan->steps[end]))
                end++;
            fire_batch(fire, i, end);
        }
        i = end;
        now++;
        sim_clock_advance(1);
    }
}

/* ---- one machine ---- */

static void start_existing(void *context)
{
    struct fire *fire = context;
    for (size_t i = 0; i < fire->machine->process_count; i++) {
        struct replay_process *process = &fire->machine->processes[i];
        if (!process->existing || process->told)
            continue;
        struct sim_process made = describe(fire, process);
        uint32_t pid = 0;
        if (process->created && process->created <= fire->plan.begin)
            made.create_time = process->created;
        else
            made.create_time = fire->plan.begin;
        process->told = sim_process_existing(&made, &pid) == 0;
    }
}

static bool start_workers(struct fire *fire, struct worker *workers)
{
    bool good = pthread_mutex_init(&fire->lock, NULL) == 0 &&
                pthread_cond_init(&fire->work, NULL) == 0 &&
                pthread_cond_init(&fire->done, NULL) == 0;
    for (uint32_t i = 1; good && i < fire->options->threads; i++) {
        workers[i].fire = fire;
        workers[i].index = i;
        good = pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0;
        workers[i].running = good;
    }
    return good;
}

static void stop_workers(struct fire *fire, struct worker *workers)
{
    (void)pthread_mutex_lock(&fire->lock);
    fire->ending = true;
    (void)pthread_cond_broadcast(&fire->work);
    (void)pthread_mutex_unlock(&fire->lock);
    for (uint32_t i = 1; i < fire->options->threads; i++)
        if (workers[i].running)
            (void)pthread_join(workers[i].thread, NULL);
    (void)pthread_cond_destroy(&fire->done);
    (void)pthread_cond_destroy(&fire->work);
    (void)pthread_mutex_destroy(&fire->lock);
}

static bool folder_of(const struct run_options *options, const struct replay_machine *machine,
                      char out[1024])
{
    int size = snprintf(out, 1024, "%s/%s", options->output, machine->folder);
    return size > 0 && size < 1024;
}

static bool fire_machine(const struct run_options *options, struct replay_machine *machine,
                         uint64_t *fired, uint64_t *impossible)
{
    struct worker workers[RUN_MAX_THREADS];
    char folder[1024];
    struct fire *fire = calloc(1, sizeof(*fire));
    memset(workers, 0, sizeof(workers));
    if (!fire || !replay_plan(machine, &fire->plan)) {
        (void)fprintf(stderr, "kda-sim: out of memory\n");
        free(fire);
        return false;
    }
    fire->machine = machine;
    fire->options = options;
    fire->next_tid = machine->max_tid < FIRST_OWN_TID ? FIRST_OWN_TID : (machine->max_tid | 3) + 1;
    if (!folder_of(options, machine, folder)) {
        (void)fprintf(stderr, "kda-sim: the path of the output folder is too long\n");
        replay_plan_free(&fire->plan);
        free(fire);
        return false;
    }
    bool good = run_begin(options, folder, machine->name, fire->plan.begin, start_existing, fire);
    double start = run_seconds();
    if (good) {
        good = start_workers(fire, workers);
        if (good)
            fire_all(fire);
        stop_workers(fire, workers);
        sim_clock_advance(10000000);
        good = run_end() && good;
    }
    uint64_t failed = 0;
    for (uint32_t i = 0; i < RUN_MAX_THREADS; i++)
        failed += fire->worker_failed[i];
    if (good) {
        uint64_t count = machine->count - fire->plan.impossible;
        *fired += count;
        *impossible += fire->plan.impossible;
        (void)printf("%s: %" PRIu64 " records fired in %.3f s, %" PRIu64
                     " of them not at the recorded time, %zu processes; log in %s/log\n",
                     machine->folder, count, run_seconds() - start, machine->moved,
                     machine->process_count, folder);
    }
    if (failed > 0)
        (void)fprintf(stderr, "kda-sim: %s: %" PRIu64 " steps were refused by the machine\n",
                      machine->folder, failed);
    replay_plan_free(&fire->plan);
    free(fire);
    return good && failed == 0;
}

static void print_summary(const struct recording *recording, uint64_t fired)
{
    uint64_t skipped = 0;
    for (size_t i = 0; i < REPLAY_SKIP_COUNT; i++)
        skipped += recording->skipped[i];
    (void)printf("read %" PRIu64 ", fired %" PRIu64 ", skipped %" PRIu64, recording->read, fired,
                 skipped);
    const char *between = ": ";
    for (size_t i = 0; i < REPLAY_SKIP_COUNT; i++) {
        if (recording->skipped[i] == 0)
            continue;
        (void)printf("%s%s %" PRIu64, between, replay_skip_names[i], recording->skipped[i]);
        between = ", ";
    }
    (void)printf("\n");
}

int run_replay(const struct run_options *options)
{
    struct recording recording;
    int code = RUN_DONE;
    uint64_t fired = 0;
    recording_init(&recording, options->host);
    for (size_t i = 0; i < options->file_count && code == RUN_DONE; i++)
        if (!recording_read(&recording, options->files[i], stderr))
            code = RUN_INPUT;
    if (code == RUN_DONE && recording.out_of_memory) {
        (void)fprintf(stderr, "kda-sim: out of memory\n");
        code = RUN_INTERNAL;
    }
    if (code == RUN_DONE)
        replay_name_folders(&recording);
    for (size_t i = 0; i < recording.count && code == RUN_DONE; i++)
        if (recording.machines[i].count > 0 &&
            !fire_machine(options, &recording.machines[i], &fired,
                          &recording.skipped[REPLAY_SKIP_IMPOSSIBLE]))
            code = RUN_INTERNAL;
    if (code == RUN_DONE)
        print_summary(&recording, fired);
    if (code == RUN_DONE && recording.taken == 0) {
        (void)fprintf(stderr, "kda-sim: there is nothing in it that can be fired\n");
        code = RUN_INPUT;
    }
    recording_deinit(&recording);
    return code;
}
