/*
 * fuzz_replay.c - any lines as a recording: records, processes, and a plan in which nobody acts who
 * is not there.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef KDA_HAVE_REPLAY

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "fuzz_replay: %s\n", what);
    abort();
}

static void check_step(const struct replay_machine *machine, const struct replay_step *step,
                       bool *alive)
{
    const struct replay_record *record =
        step->op == REPLAY_FIRE ? &machine->records[step->index] : NULL;
    size_t index = record ? record->process : step->index;
    if (step->op == REPLAY_START || (record && record->type == REPLAY_PROCESS_CREATE)) {
        check(machine->processes[index].pid == 4 || !alive[index], "created twice");
        alive[index] = true;
    } else if (step->op == REPLAY_END || (record && record->type == REPLAY_PROCESS_EXIT)) {
        check(alive[index], "ended twice");
        alive[index] = false;
    } else if (index != REPLAY_NONE) {
        check(alive[index], "acts while it is not there");
    }
    if (record && record->type == REPLAY_FLOW) {
        const struct replay_endpoint *local, *remote;
        replay_ends(machine, record, &local, &remote);
        check(local != remote, "both ends are one");
    }
}

static void check_machine(struct replay_machine *machine)
{
    struct replay_plan plan;
    bool *alive = calloc(machine->process_count + 1, sizeof(*alive));
    check(alive && replay_plan(machine, &plan), "no memory");
    for (size_t i = 0; i < machine->process_count; i++) {
        check(machine->processes[i].pid != 0, "a process without a pid");
        alive[i] = machine->processes[i].existing || machine->processes[i].pid == 4;
    }
    for (size_t i = 0; i < plan.count; i++) {
        check(i == 0 || plan.steps[i].at >= plan.steps[i - 1].at, "time goes back");
        check_step(machine, &plan.steps[i], alive);
    }
    replay_plan_free(&plan);
    free(alive);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct recording recording;
    const char *text = (const char *)data;
    recording_init(&recording, NULL);
    while (size > 0) {
        const char *end = memchr(text, '\n', size);
        size_t part = end ? (size_t)(end - text) : size;
        recording_line(&recording, text, part, recording.read + 1);
        part += end != NULL;
        text += part;
        size -= part;
    }
    for (size_t i = 0; i < recording.count; i++)
        check_machine(&recording.machines[i]);
    recording_deinit(&recording);
    return 0;
}

#else

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)data;
    (void)size;
    return 0;
}

#endif
