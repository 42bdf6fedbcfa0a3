/*
 * storm.c - more than any log can take: registry writes and threads from all sides, and between
 * them processes, of which none may get lost.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "run.h"

#define FIRST_PID 1000u
#define PROCESS_EVERY 1000u /* events */
#define THREAD_EVERY 16u
#define UTC_START UINT64_C(134090208000000000) /* 2025-12-01 */

struct stormer {
    const struct run_options *options;
    uint32_t index;
    uint64_t events, processes, threads;
    pthread_t thread;
    bool running, failed;
};

static bool make_process(struct stormer *stormer)
{
    struct sim_process process = {
        .parent_pid = FIRST_PID + stormer->index * 4,
        .image = SIM_STR(u"\\Device\\HarddiskVolume3\\Windows\\System32\\storm-child.exe"),
        .command_line = SIM_STR(u"storm-child.exe --once"),
    };
    uint32_t pid = 0;
    stormer->processes++;
    return sim_process_create(&process, &pid) == 0 && sim_process_exit(pid, 0) &&
           sim_enter(FIRST_PID + stormer->index * 4, 0);
}

static bool make_thread(struct stormer *stormer)
{
    struct sim_thread thread = {.start_address = 0x7ff812340000u};
    uint32_t tid = 0;
    stormer->threads++;
    return sim_thread_create(&thread, &tid) == 0 && sim_thread_exit(tid, 0);
}

static void *storm(void *context)
{
    struct stormer *stormer = context;
    struct sim_registry op = {
        .key = SIM_STR(u"\\REGISTRY\\MACHINE\\SOFTWARE\\Storm"),
        .name = SIM_STR(u"Counter"),
        .type = 4,
        .size = sizeof(uint32_t),
    };
    sim_set_cpu(stormer->index);
    bool good = sim_enter(FIRST_PID + stormer->index * 4, 0);
    for (uint64_t i = 0; good && i < stormer->events; i++) {
        uint32_t data = (uint32_t)i;
        op.data = &data;
        (void)sim_registry_set_value(&op);
        if (i % THREAD_EVERY == 0)
            good = make_thread(stormer);
        if (good && i % PROCESS_EVERY == 0)
            good = make_process(stormer);
    }
    stormer->failed = !good;
    return NULL;
}

static void make_parents(void *context)
{
    const struct run_options *options = context;
    for (uint32_t i = 0; i < options->threads; i++) {
        struct sim_process process = {
            .pid = FIRST_PID + i * 4,
            .parent_pid = 4,
            .image = SIM_STR(u"\\Device\\HarddiskVolume3\\Windows\\System32\\storm.exe"),
            .first_tid = 0x100000u + i * 4,
        };
        uint32_t pid = 0;
        (void)sim_process_existing(&process, &pid);
    }
}

int run_storm(const struct run_options *options)
{
    static struct stormer stormers[RUN_MAX_THREADS];
    struct run_options copy = *options;
    copy.running_clock = true;
    memset(stormers, 0, sizeof(stormers));
    if (!run_begin(&copy, options->output, "storm", UTC_START, make_parents, &copy))
        return RUN_INTERNAL;
    double start = run_seconds();
    bool good = true;
    uint64_t each = options->events / options->threads;
    for (uint32_t i = 0; i < options->threads; i++) {
        stormers[i].options = options;
        stormers[i].index = i;
        stormers[i].events = each + (i < options->events % options->threads);
        stormers[i].running = pthread_create(&stormers[i].thread, NULL, storm, &stormers[i]) == 0;
        good &= stormers[i].running;
    }
    uint64_t processes = 0, threads = 0;
    for (uint32_t i = 0; i < options->threads; i++) {
        if (stormers[i].running)
            (void)pthread_join(stormers[i].thread, NULL);
        good &= !stormers[i].failed;
        processes += stormers[i].processes;
        threads += stormers[i].threads;
    }
    double seconds = run_seconds() - start;
    good = run_end() && good;
    (void)printf("stormed %" PRIu64 " registry writes, %" PRIu64 " threads, %" PRIu64
                 " processes in %.3f s (%.0f writes/s); log in %s/log\n",
                 options->events, threads, processes, seconds,
                 seconds > 0 ? (double)options->events / seconds : 0.0, options->output);
    return good ? RUN_DONE : RUN_INTERNAL;
}
