/*
 * replay_plan.c - in what order a recording is fired.
 *
 * Sysmon's own times are those of its callbacks, but records of one moment arrive in any order, an
 * image load can be dated before the creation of its process, and network events may carry times of
 * another clock. A kernel shows none of that, so:
 *
 *   - a record dated far before its neighbours is fired at their time;
 *   - nothing of a process is fired before its creation or after its end;
 *   - inside one moment creations come first (parents before children) and ends last;
 *   - a pid has one process at a time: the old one ends before the new one begins.
 *
 * Records whose time had to change are counted, and so are those that cannot be true together with
 * the others (two processes with one pid at a time): they are left out.
 */
#include "replay.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Records are written in the order of their arrival, at most this long after they happened. */
#define LATE_MAX (UINT64_C(600) * 10000000)
#define UNITS_PER_SECOND UINT64_C(10000000)
#define PHASE_OTHER 0x10000u
#define PHASE_END 0x20000u
#define FIRST_OWN_PID 40000u
#define SYSTEM_PID 4u

static void set_times(struct replay_machine *machine)
{
    uint64_t newest = 0;
    for (size_t i = 0; i < machine->count; i++) {
        struct replay_record *record = &machine->records[i];
        record->at = record->time + LATE_MAX < newest ? newest : record->time;
        if (record->at > newest)
            newest = record->at;
    }
}

/* ---- lives ---- */

static void set_lives(struct replay_machine *machine)
{
    for (size_t i = 0; i < machine->process_count; i++) {
        struct replay_process *process = &machine->processes[i];
        process->first_at = UINT64_MAX;
        process->end_at = UINT64_MAX;
    }
    for (size_t i = 0; i < machine->count; i++) {
        const struct replay_record *record = &machine->records[i];
        size_t ends[2] = {record->process, record->other};
        for (size_t e = 0; e < 2; e++) {
            if (ends[e] == REPLAY_NONE)
                continue;
            struct replay_process *process = &machine->processes[ends[e]];
            if (record->at < process->first_at)
                process->first_at = record->at;
        }
    }
    for (size_t i = 0; i < machine->process_count; i++) {
        struct replay_process *process = &machine->processes[i];
        if (process->create != REPLAY_NONE)
            process->first_at = machine->records[process->create].at;
        else
            process->existing = true;
        if (process->exit != REPLAY_NONE)
            process->end_at = machine->records[process->exit].at;
        if (process->end_at < process->first_at)
            process->end_at = process->first_at;
    }
}

static int compare_life(const struct replay_machine *machine, size_t a, size_t b)
{
    const struct replay_process *x = &machine->processes[a], *y = &machine->processes[b];
    if (x->existing != y->existing)
        return x->existing ? -1 : 1;
    uint64_t tx = x->existing && x->created ? x->created : x->first_at;
    uint64_t ty = y->existing && y->created ? y->created : y->first_at;
    return tx < ty ? -1 : tx > ty ? 1 : a < b ? -1 : a > b;
}

/* Of two lives with one pid the second begins, and the first has ended, at its first record. */
static void part_lives(struct replay_machine *machine, size_t a, size_t b)
{
    if (compare_life(machine, a, b) > 0) {
        size_t swap = a;
        a = b;
        b = swap;
    }
    struct replay_process *old = &machine->processes[a], *new = &machine->processes[b];
    new->existing = false;
    if (new->first_at <= old->first_at)
        new->first_at = old->first_at + 1;
    if (old->end_at >= new->first_at)
        old->end_at = new->first_at - 1;
    if (new->end_at < new->first_at)
        new->end_at = new->first_at;
}

static void part_pids(struct replay_machine *machine)
{
    for (size_t i = 0; i < machine->process_count; i++)
        for (size_t k = i + 1; machine->processes[i].pid != 0 && k < machine->process_count; k++)
            if (machine->processes[k].pid == machine->processes[i].pid)
                part_lives(machine, i, k);
}

static bool pid_taken(const struct replay_machine *machine, uint32_t pid)
{
    for (size_t i = 0; i < machine->process_count; i++)
        if (machine->processes[i].pid == pid)
            return true;
    return false;
}

static bool is_system(const struct replay_process *process)
{
    static const uint16_t name[] = {'S', 'y', 's', 't', 'e', 'm'};
    return process->image.count == 6 && memcmp(process->image.units, name, sizeof(name)) == 0;
}

static void give_pids(struct replay_machine *machine)
{
    uint32_t next = FIRST_OWN_PID;
    for (size_t i = 0; i < machine->process_count; i++) {
        struct replay_process *process = &machine->processes[i];
        if (process->pid == 0 && is_system(process) && !pid_taken(machine, SYSTEM_PID))
            process->pid = SYSTEM_PID;
        while (process->pid == 0) {
            if (!pid_taken(machine, next))
                process->pid = next;
            next += 4;
        }
        if (process->pid == SYSTEM_PID)
            process->told = true; /* always there */
    }
}

/* ---- records inside the lives ---- */

static void hold_inside(struct replay_record *record, const struct replay_process *process)
{
    if (!process->existing && record->at < process->first_at)
        record->at = process->first_at;
    if (record->at > process->end_at)
        record->at = process->end_at;
}

/* Children after parents: a few rounds are enough, because a chain of creations within one
 * impossible moment is short. */
static void hold_children(struct replay_machine *machine)
{
    for (unsigned round = 0; round < 4; round++) {
        for (size_t i = 0; i < machine->process_count; i++) {
            struct replay_process *child = &machine->processes[i];
            if (child->create == REPLAY_NONE || child->parent == REPLAY_NONE)
                continue;
            struct replay_process *parent = &machine->processes[child->parent];
            if (!parent->existing && child->first_at < parent->first_at)
                child->first_at = parent->first_at;
            if (child->end_at < child->first_at)
                child->end_at = child->first_at;
        }
    }
}

static void hold_records(struct replay_machine *machine)
{
    for (size_t i = 0; i < machine->count; i++) {
        struct replay_record *record = &machine->records[i];
        bool create = record->type == REPLAY_PROCESS_CREATE;
        if (create)
            record->at = machine->processes[record->process].first_at;
        else if (record->type == REPLAY_PROCESS_EXIT)
            record->at = machine->processes[record->process].end_at;
        else if (record->process != REPLAY_NONE)
            hold_inside(record, &machine->processes[record->process]);
        if (!create && record->other != REPLAY_NONE)
            hold_inside(record, &machine->processes[record->other]);
        machine->moved += record->at != record->time;
    }
}

/* ---- steps ---- */

static bool add_step(struct replay_plan *plan, const struct replay_step *step)
{
    void *items = plan->steps;
    bool grown = recording_grow(&items, &plan->capacity, plan->count + 1, sizeof(*plan->steps));
    plan->steps = items;
    if (grown)
        plan->steps[plan->count++] = *step;
    return grown;
}

/* How many creations of the same moment have to come first. */
static uint32_t depth_of(const struct replay_machine *machine, size_t index)
{
    const struct replay_process *process = &machine->processes[index];
    uint64_t at = process->first_at;
    uint32_t depth = 0;
    while (process->parent != REPLAY_NONE && depth < 1000) {
        process = &machine->processes[process->parent];
        if (process->existing || process->first_at != at)
            break;
        depth++;
    }
    return depth;
}

static bool add_records(const struct replay_machine *machine, struct replay_plan *plan)
{
    bool good = true;
    for (size_t i = 0; good && i < machine->count; i++) {
        const struct replay_record *record = &machine->records[i];
        struct replay_step step = {record->at, PHASE_OTHER, REPLAY_FIRE, i, i};
        if (record->type == REPLAY_PROCESS_CREATE)
            step.phase = depth_of(machine, record->process);
        else if (record->type == REPLAY_PROCESS_EXIT)
            step.phase = PHASE_END;
        good = add_step(plan, &step);
    }
    return good;
}

/* Beginnings and ends that nobody recorded. */
static bool add_lives(const struct replay_machine *machine, struct replay_plan *plan)
{
    bool good = true;
    for (size_t i = 0; good && i < machine->process_count; i++) {
        const struct replay_process *process = &machine->processes[i];
        bool starts = !process->existing && process->create == REPLAY_NONE;
        bool ends = process->end_at != UINT64_MAX && process->exit == REPLAY_NONE;
        if (process->pid == SYSTEM_PID)
            continue;
        if (starts) {
            struct replay_step step = {process->first_at, depth_of(machine, i), REPLAY_START, i, 0};
            good = add_step(plan, &step);
        }
        if (good && ends) {
            struct replay_step step = {process->end_at, PHASE_END, REPLAY_END, i, 0};
            good = add_step(plan, &step);
        }
    }
    return good;
}

static int compare_steps(const void *a, const void *b)
{
    const struct replay_step *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->phase != y->phase)
        return x->phase < y->phase ? -1 : 1;
    if (x->order != y->order)
        return x->order < y->order ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* ---- flows ---- */

static bool is_own(const struct replay_machine *machine, const struct replay_record *record,
                   const struct replay_endpoint *end)
{
    for (size_t i = 0; i < machine->own_count; i++)
        if (machine->own[i].version == record->ip_version &&
            memcmp(machine->own[i].address, end->address, sizeof(end->address)) == 0)
            return true;
    return false;
}

/* TCP tells who began, so it tells whose address is which. */
static bool note_own(struct replay_machine *machine)
{
    for (size_t i = 0; i < machine->count; i++) {
        const struct replay_record *record = &machine->records[i];
        const struct replay_endpoint *own =
            record->initiated ? &record->source : &record->destination;
        if (record->type != REPLAY_FLOW || record->protocol != 6 || is_own(machine, record, own))
            continue;
        void *items = machine->own;
        bool grown = recording_grow(&items, &machine->own_capacity, machine->own_count + 1,
                                    sizeof(*machine->own));
        machine->own = items;
        if (!grown)
            return false;
        struct replay_address *address = &machine->own[machine->own_count++];
        memcpy(address->address, own->address, sizeof(address->address));
        address->version = record->ip_version;
    }
    return true;
}

void replay_ends(const struct replay_machine *machine, const struct replay_record *record,
                 const struct replay_endpoint **local, const struct replay_endpoint **remote)
{
    /* For datagrams Sysmon's source is who sent the first one that it saw, or who owns the
     * socket: the direction does not say which end is ours. */
    bool source = record->initiated;
    if (record->protocol != 6) {
        bool own_source = is_own(machine, record, &record->source);
        bool own_destination = is_own(machine, record, &record->destination);
        if (own_source != own_destination)
            source = own_source;
    }
    *local = source ? &record->source : &record->destination;
    *remote = source ? &record->destination : &record->source;
}

/* ---- the plan ---- */

static bool pid_lives(const struct replay_machine *machine, const bool *alive, uint32_t pid)
{
    for (size_t i = 0; i < machine->process_count; i++)
        if (alive[i] && machine->processes[i].pid == pid)
            return true;
    return false;
}

/* Can it happen to those who are alive? Keeps account of them. */
static bool is_possible(const struct replay_machine *machine, const struct replay_step *step,
                        bool *alive)
{
    const struct replay_record *record =
        step->op == REPLAY_FIRE ? &machine->records[step->index] : NULL;
    size_t index = record ? record->process : step->index;
    if (step->op == REPLAY_START || (record && record->type == REPLAY_PROCESS_CREATE)) {
        bool possible = !pid_lives(machine, alive, machine->processes[index].pid);
        alive[index] |= possible;
        return possible;
    }
    if (index != REPLAY_NONE && !alive[index])
        return false;
    if (record && record->other != REPLAY_NONE && !alive[record->other])
        return false;
    if (step->op == REPLAY_END || (record && record->type == REPLAY_PROCESS_EXIT)) {
        if (machine->processes[index].pid == SYSTEM_PID)
            return false;
        alive[index] = false;
    }
    return true;
}

static bool drop_impossible(struct replay_machine *machine, struct replay_plan *plan)
{
    size_t kept = 0;
    bool *alive = calloc(machine->process_count + 1, sizeof(*alive));
    if (!alive)
        return false;
    for (size_t i = 0; i < machine->process_count; i++) {
        struct replay_process *process = &machine->processes[i];
        bool lives = process->existing || process->pid == SYSTEM_PID;
        process->existing = lives && !pid_lives(machine, alive, process->pid);
        alive[i] = process->existing;
    }
    for (size_t i = 0; i < plan->count; i++) {
        if (is_possible(machine, &plan->steps[i], alive))
            plan->steps[kept++] = plan->steps[i];
        else
            plan->impossible += plan->steps[i].op == REPLAY_FIRE;
    }
    plan->count = kept;
    free(alive);
    return true;
}

bool replay_plan(struct replay_machine *machine, struct replay_plan *plan)
{
    memset(plan, 0, sizeof(*plan));
    set_times(machine);
    set_lives(machine);
    part_pids(machine);
    hold_children(machine);
    give_pids(machine);
    hold_records(machine);
    if (!note_own(machine) || !add_records(machine, plan) || !add_lives(machine, plan)) {
        replay_plan_free(plan);
        return false;
    }
    if (plan->count > 0)
        qsort(plan->steps, plan->count, sizeof(*plan->steps), compare_steps);
    if (!drop_impossible(machine, plan)) {
        replay_plan_free(plan);
        return false;
    }
    plan->begin = plan->count > 0 && plan->steps[0].at > UNITS_PER_SECOND
                      ? plan->steps[0].at - UNITS_PER_SECOND
                      : 0;
    return true;
}

void replay_plan_free(struct replay_plan *plan)
{
    free(plan->steps);
    memset(plan, 0, sizeof(*plan));
}

static bool folder_taken(const struct recording *recording, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcasecmp(recording->machines[i].folder, recording->machines[index].folder) == 0)
            return true;
    return false;
}

/* No separators, no hidden folder, nothing that a terminal would act on (it is printed, too). */
static void clean_folder(char *text)
{
    for (char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && (unsigned char)at[1] < 0xa0);
        if (c == 0xc2 && control)
            at[1] = '_';
        if (control || c == '/' || (c == '.' && at == text))
            *at = '_';
    }
}

void replay_name_folders(struct recording *recording)
{
    for (size_t i = 0; i < recording->count; i++) {
        struct replay_machine *machine = &recording->machines[i];
        unsigned number = 1;
        do {
            char suffix[16] = "";
            if (number > 1)
                (void)snprintf(suffix, sizeof(suffix), "_%u", number);
            (void)snprintf(machine->folder, sizeof(machine->folder), "%s%s", machine->name, suffix);
            clean_folder(machine->folder);
            number++;
        } while (folder_taken(recording, i));
    }
}

bool replay_is_structural(const struct replay_machine *machine, const struct replay_step *step)
{
    if (step->op != REPLAY_FIRE)
        return true;
    enum replay_type type = machine->records[step->index].type;
    return type == REPLAY_PROCESS_CREATE || type == REPLAY_PROCESS_EXIT ||
           type == REPLAY_THREAD_REMOTE;
}
