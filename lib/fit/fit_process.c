/*
 * fit_process.c - processes without symbols: along their ring and the ring of handle tables, and
 * what they say about the layout.
 */
#include <string.h>

#include "fit_int.h"

#define KDBG_CID_TABLE 0x58u

bool kda_fit_is_process(const struct kda_fit *fit, uint64_t va)
{
    return kda_map_get(&fit->process_by_va, va, NULL);
}

static struct fit_process *add_process(struct kda_fit *fit, uint64_t va)
{
    uint64_t index;
    if (!kda_fit_is_pool(fit, va))
        return NULL;
    if (kda_map_get(&fit->process_by_va, va, &index))
        return &fit->processes[index];
    void *items = fit->processes;
    if (fit->process_count == FIT_MAX_PROCESSES)
        return NULL;
    if (!kda_grow(&items, &fit->process_capacity, fit->process_count + 1, sizeof(*fit->processes),
                  FIT_MAX_PROCESSES) ||
        !kda_map_put(&fit->process_by_va, va, fit->process_count)) {
        fit->processes = items;
        fit->out_of_memory = true;
        return NULL;
    }
    fit->processes = items;
    struct fit_process *process = &fit->processes[fit->process_count++];
    memset(process, 0, sizeof(*process));
    process->va = va;
    if (kda_fit_u64(fit, va + fit->start.pid_at, &process->pid) != FIT_YES)
        process->pid = UINT64_MAX;
    return process;
}

void kda_fit_add_process(struct kda_fit *fit, uint64_t va)
{
    (void)add_process(fit, va);
}

bool kda_fit_named_process(const struct kda_fit *fit, uint64_t va)
{
    uint8_t name[FIT_NAME_SIZE];
    return kda_fit_read(fit, va + fit->start.name_at, name, sizeof(name)) == FIT_YES &&
           kda_fit_plausible_name(name);
}

static void on_process(struct kda_fit *fit, void *context, uint64_t link)
{
    (void)context;
    uint8_t name[FIT_NAME_SIZE];
    uint64_t va = link - fit->start.links_at, pid;
    if (kda_fit_in_nt(fit, link)) {
        /* The one node inside the kernel is the head. */
        uint64_t head = kda_fit_met_head(fit, link);
        fit->process_head = head != 0 ? head : fit->process_head;
        return;
    }
    if ((kda_fit_u64(fit, va + fit->start.pid_at, &pid) == FIT_YES &&
         !kda_fit_plausible_pid(pid)) ||
        (kda_fit_read(fit, va + fit->start.name_at, name, sizeof(name)) == FIT_YES &&
         !kda_fit_plausible_name(name)))
        return;
    (void)add_process(fit, va);
}

bool kda_fit_walk_processes(struct kda_fit *fit, uint64_t link)
{
    return kda_fit_walk(fit, link, FIT_MAX_PROCESSES, on_process, NULL);
}

void kda_fit_forget_processes(struct kda_fit *fit)
{
    fit->process_count = 0;
    fit->process_head = 0;
    kda_map_deinit(&fit->process_by_va);
    kda_map_init(&fit->process_by_va);
}

/* ---- votes ---- */

static struct fit_place *places(struct kda_fit *fit, enum kda_field_id field, size_t *count)
{
    *count = fit->votes[field].count;
    return fit->votes[field].place;
}

/* The table's owner names the process back; System's own table has no owner. */
static void vote_table(struct kda_fit *fit, struct fit_process *process)
{
    size_t count, owners, ids;
    struct fit_place *at = places(fit, F(EPROCESS, ObjectTable), &count);
    struct fit_place *owner_at = places(fit, F(HANDLE_TABLE, QuotaProcess), &owners);
    struct fit_place *id_at = places(fit, F(HANDLE_TABLE, UniqueProcessId), &ids);
    for (size_t i = 0; i < count; i++) {
        uint64_t table, owner;
        uint32_t id; /* the low half of it tells: other members may follow */
        if (kda_fit_u64(fit, process->va + at[i].offset, &table) != FIT_YES || table == 0)
            continue;
        enum fit_answer answer = kda_fit_is_pool(fit, table) ? FIT_UNKNOWN : FIT_NO;
        for (size_t k = 0; k < owners && answer == FIT_UNKNOWN; k++) {
            if (kda_fit_u64(fit, table + owner_at[k].offset, &owner) != FIT_YES ||
                owner != process->va)
                continue;
            answer = FIT_YES;
            process->table = table;
            owner_at[k].yes++;
        }
        for (size_t k = 0; k < ids && answer == FIT_YES; k++)
            if (kda_fit_u32(fit, table + id_at[k].offset, &id) == FIT_YES &&
                process->pid != UINT64_MAX)
                kda_fit_vote(&id_at[k], id == process->pid ? FIT_YES : FIT_NO);
        /* Not proven, but a table that the walk below may use. */
        kda_fit_vote(&at[i], answer);
    }
}

static enum fit_answer check_parent(const struct kda_fit *fit, uint64_t parent)
{
    if (!kda_fit_plausible_pid(parent))
        return FIT_NO;
    for (size_t i = 0; parent != 0 && i < fit->process_count; i++)
        if (fit->processes[i].pid == parent)
            return FIT_YES;
    return FIT_UNKNOWN; /* the parent may be gone */
}

/* PS_PROTECTION: type 0..2, signer 0..8. Source: winternl.h, PS_PROTECTED_TYPE and _SIGNER. System
 * is protected (2) as WinSystem (7) on every build that has the field. */
static enum fit_answer check_protection(uint64_t value, bool system)
{
    uint8_t level = (uint8_t)value;
    if (system)
        return level == 0x72 ? FIT_YES : FIT_NO;
    return (level & 7) <= 2 && level >> 4 <= 8 ? FIT_UNKNOWN : FIT_NO;
}

static enum fit_answer check_number(struct kda_fit *fit, bool system, enum kda_field_id field,
                                    uint64_t value)
{
    switch (field) {
    case F(EPROCESS, InheritedFromUniqueProcessId):
        return check_parent(fit, value);
    case F(EPROCESS, CreateTime):
        return kda_fit_time(value, true);
    case F(EPROCESS, ExitTime):
        return kda_fit_time(value, true) == FIT_NO ? FIT_NO : FIT_UNKNOWN;
    case F(EPROCESS, Protection):
        return check_protection(value, system);
    case F(KPROCESS, DirectoryTableBase):
        return kda_fit_check_root(fit, value);
    case F(EPROCESS, SeAuditProcessCreationInfo):
        return value == 0                     ? FIT_UNKNOWN
               : !kda_fit_is_pool(fit, value) ? FIT_NO
                                              : kda_fit_string(fit, value, true);
    default: /* Job, ServerSilo: a pointer or nothing; what it leads to is tested with the jobs */
        return value == 0 || kda_fit_is_pool(fit, value) ? FIT_UNKNOWN : FIT_NO;
    }
}

/* The next node of the list of processes is its head, or the same place of another process. */
static enum fit_answer check_links(const struct kda_fit *fit, uint64_t va, uint32_t links_at)
{
    uint64_t next;
    if (kda_fit_ring(fit, va + links_at) == FIT_NO)
        return FIT_NO;
    if (kda_fit_u64(fit, va + links_at, &next) != FIT_YES)
        return FIT_UNKNOWN;
    return next == fit->process_head || kda_fit_is_process(fit, next - links_at) ? FIT_YES
                                                                                 : FIT_UNKNOWN;
}

static enum fit_answer check_identity(const struct kda_fit *fit, const struct fit_process *process,
                                      enum kda_field_id field, uint32_t offset)
{
    uint64_t pid;
    uint8_t name[FIT_NAME_SIZE];
    if (field == F(EPROCESS, ActiveProcessLinks))
        return check_links(fit, process->va, offset);
    if (field == F(EPROCESS, ImageFileName)) {
        if (kda_fit_read(fit, process->va + offset, name, sizeof(name)) != FIT_YES)
            return FIT_UNKNOWN;
        return kda_fit_plausible_name(name) ? FIT_YES : FIT_NO;
    }
    if (kda_fit_u64(fit, process->va + offset, &pid) != FIT_YES)
        return FIT_UNKNOWN;
    if (process->va == fit->system)
        return pid == 4 ? FIT_YES : FIT_NO;
    return kda_fit_plausible_pid(pid) ? FIT_YES : FIT_NO;
}

/* Id, name and links at the places where the processes were found with witnesses. There a process
 * that does not agree is damaged; elsewhere it can only contradict. */
static void vote_identity(struct kda_fit *fit, const struct fit_process *process)
{
    static const enum kda_field_id fields[] = {
        F(EPROCESS, UniqueProcessId), F(EPROCESS, ImageFileName), F(EPROCESS, ActiveProcessLinks)};
    const uint32_t known[] = {fit->start.pid_at, fit->start.name_at, fit->start.links_at};
    for (size_t f = 0; f < 3; f++) {
        size_t count;
        struct fit_place *at = places(fit, fields[f], &count);
        for (size_t i = 0; i < count; i++) {
            enum fit_answer answer = check_identity(fit, process, fields[f], at[i].offset);
            bool right = at[i].offset == known[f];
            kda_fit_vote(&at[i], right == (answer == FIT_YES) ? answer : FIT_UNKNOWN);
        }
    }
}

static void vote_process(struct kda_fit *fit, struct fit_process *process)
{
    static const enum kda_field_id numbers[] = {
        F(EPROCESS, InheritedFromUniqueProcessId),
        F(EPROCESS, CreateTime),
        F(EPROCESS, ExitTime),
        F(EPROCESS, Protection),
        F(KPROCESS, DirectoryTableBase),
        F(EPROCESS, SeAuditProcessCreationInfo),
        F(EPROCESS, Job),
        F(EPROCESS, ServerSilo),
    };
    size_t count;
    struct fit_place *at;
    vote_identity(fit, process);
    for (size_t f = 0; f < sizeof(numbers) / sizeof(numbers[0]); f++) {
        at = places(fit, numbers[f], &count);
        for (size_t i = 0; i < count; i++) {
            uint64_t value;
            if (kda_fit_u64(fit, process->va + at[i].offset, &value) == FIT_YES)
                kda_fit_vote(&at[i],
                             check_number(fit, process->va == fit->system, numbers[f], value));
        }
    }
}

/* ---- the ring of handle tables ---- */

static void on_table(struct kda_fit *fit, void *context, uint64_t link)
{
    uint32_t list_at = *(const uint32_t *)context;
    uint32_t owner_at = kda_fit_best(fit, F(HANDLE_TABLE, QuotaProcess));
    uint64_t owner;
    if (kda_fit_in_nt(fit, link)) {
        uint64_t head = kda_fit_met_head(fit, link);
        fit->table_head = head != 0 ? head : fit->table_head;
        return;
    }
    if (owner_at == KDA_NONE || kda_fit_u64(fit, link - list_at + owner_at, &owner) != FIT_YES ||
        owner == 0 || kda_fit_is_process(fit, owner))
        return;
    /* A process that the active list does not have. */
    if (kda_fit_named_process(fit, owner))
        (void)add_process(fit, owner);
}

static void walk_tables(struct kda_fit *fit)
{
    struct fit_votes *lists = &fit->votes[F(HANDLE_TABLE, HandleTableList)];
    size_t known = fit->process_count;
    for (size_t i = 0; i < known; i++) {
        uint64_t table = fit->processes[i].table;
        for (size_t k = 0; table != 0 && k < lists->count; k++)
            kda_fit_vote(&lists->place[k], kda_fit_ring(fit, table + lists->place[k].offset));
    }
    uint32_t list_at =
        kda_fit_beside(fit, F(HANDLE_TABLE, QuotaProcess), F(HANDLE_TABLE, HandleTableList));
    /* From several tables: one missing page must not end the walk. */
    for (size_t i = 0; list_at != KDA_NONE && i < known && fit->table_head == 0; i++)
        if (fit->processes[i].table != 0)
            (void)kda_fit_walk(fit, fit->processes[i].table + list_at, FIT_MAX_PROCESSES, on_table,
                               &list_at);
}

/* System's table has no owner; the place that the others proved gives it. */
static void find_system_table(struct kda_fit *fit)
{
    uint32_t table_at = kda_fit_best(fit, F(EPROCESS, ObjectTable));
    for (size_t i = 0; table_at != KDA_NONE && i < fit->process_count; i++) {
        uint64_t table;
        struct fit_process *process = &fit->processes[i];
        if (process->table == 0 && kda_fit_u64(fit, process->va + table_at, &table) == FIT_YES &&
            kda_fit_is_pool(fit, table))
            process->table = table;
    }
}

/* ---- heads that no walk reached, because nodes on both sides of them are missing ---- */

struct owner {
    uint32_t link_at;
    bool tables;
};

static bool owns(const struct kda_fit *fit, const struct owner *owner, uint64_t link)
{
    uint64_t va = link - owner->link_at;
    if (!owner->tables)
        return kda_fit_is_process(fit, va);
    for (size_t i = 0; i < fit->process_count; i++)
        if (fit->processes[i].table == va)
            return true;
    return false;
}

/* The one place in the kernel's data whose two links lead to links of such objects. */
static uint64_t find_head(const struct kda_fit *fit, const struct owner *owner)
{
    uint64_t found = 0;
    for (size_t p = 0; p < fit->data.pages; p++)
        for (size_t off = 0; off + 16 <= KDA_PAGE_SIZE; off += 8) {
            const uint8_t *at = fit->data.bytes + p * KDA_PAGE_SIZE + off;
            uint64_t flink = kda_le64(at), blink = kda_le64(at + 8);
            uint64_t va = fit->base + fit->data.rva[p] + off;
            if (!kda_fit_is_pool(fit, flink) || !kda_fit_is_pool(fit, blink) ||
                (!owns(fit, owner, flink) && !owns(fit, owner, blink)) ||
                kda_fit_ring(fit, va) != FIT_YES)
                continue;
            if (found != 0)
                return 0;
            found = va;
        }
    return found;
}

static void find_heads(struct kda_fit *fit)
{
    uint32_t list_at =
        kda_fit_beside(fit, F(HANDLE_TABLE, QuotaProcess), F(HANDLE_TABLE, HandleTableList));
    struct owner process = {fit->start.links_at, false}, table = {list_at, true};
    if (fit->process_head == 0)
        fit->process_head = find_head(fit, &process);
    if (fit->table_head == 0 && list_at != KDA_NONE)
        fit->table_head = find_head(fit, &table);
}

bool kda_fit_processes(struct kda_fit *fit)
{
    uint64_t cid;
    if (!kda_fit_find_start(fit))
        return false;
    kda_fit_name_head(fit);
    if (fit->process_head != 0)
        (void)kda_fit_walk_processes(fit, fit->process_head);
    for (size_t i = 0; i < fit->process_count; i++) {
        if (fit->processes[i].pid == 4)
            fit->system = fit->processes[i].va;
        vote_table(fit, &fit->processes[i]);
    }
    find_system_table(fit);
    walk_tables(fit);
    find_heads(fit);
    if (fit->process_head != 0)
        (void)kda_fit_walk_processes(fit, fit->process_head);
    if (kda_kernel_kdbg_field(fit->kernel, KDBG_CID_TABLE, &cid, NULL) == KDA_OK &&
        kda_fit_in_nt(fit, cid)) {
        uint64_t table;
        if (kda_fit_u64(fit, cid, &table) == FIT_YES && kda_fit_is_cid(fit, table))
            fit->cid_global = cid;
    }
    return true;
}

void kda_fit_vote_processes(struct kda_fit *fit)
{
    for (size_t i = 0; i < fit->process_count; i++) {
        if (fit->processes[i].table == 0)
            vote_table(fit, &fit->processes[i]);
        vote_process(fit, &fit->processes[i]);
    }
    find_system_table(fit);
}
