/*
 * fit_start.c - where a process begins, without symbols.
 *
 * Several rows keep id, links and name at the same distances from each other, so an object taken
 * for a process a constant too far on looks the same under another row. Only what does not move
 * with the guess tells them apart: the page tables that the object's own head names, and the owner
 * that its handle table names. A row counts with such witnesses alone.
 */
#include <string.h>

#include "fit_int.h"

#define MAX_PID 0x4000000u /* ids are indexes into a table: far below this */
#define KDBG_PROCESS_HEAD 0x50u
#define FIRST_IDS 1024u /* of the table of ids that are tried */

bool kda_fit_plausible_pid(uint64_t pid)
{
    return pid % 4 == 0 && pid < MAX_PID;
}

bool kda_fit_plausible_name(const uint8_t name[FIT_NAME_SIZE])
{
    size_t i = 0;
    while (i < FIT_NAME_SIZE && name[i] >= 0x20 && name[i] != 0x7f)
        i++;
    return i > 0 && (i == FIT_NAME_SIZE || name[i] == 0);
}

/* Does the process at `va` look like one under this row? `system`: it must be System. */
static enum fit_answer shape(const struct kda_fit *fit, const struct fit_start *start, uint64_t va,
                             bool system)
{
    uint64_t pid;
    uint8_t name[FIT_NAME_SIZE];
    enum fit_answer first = kda_fit_u64(fit, va + start->pid_at, &pid);
    enum fit_answer second = kda_fit_read(fit, va + start->name_at, name, sizeof(name));
    if (first == FIT_NO || second == FIT_NO)
        return FIT_NO;
    if (first == FIT_YES && (system ? pid != 4 : !kda_fit_plausible_pid(pid)))
        return FIT_NO;
    if (second == FIT_YES &&
        (system ? memcmp(name, "System", 7) != 0 : !kda_fit_plausible_name(name)))
        return FIT_NO;
    /* The object spans pages and one may be missing; what is there must tell. */
    if (first != FIT_YES && second != FIT_YES)
        return FIT_UNKNOWN;
    return kda_fit_ring(fit, va + start->links_at);
}

enum fit_answer kda_fit_check_root(const struct kda_fit *fit, uint64_t root)
{
    uint64_t here, there;
    if (root == 0)
        return FIT_UNKNOWN;
    if ((root & ~(uint64_t)KDA_PAGE_MASK) >= fit->max_pa || (root & KDA_PAGE_MASK) > 2)
        return FIT_NO;
    if (kda_translate(fit->kernel, kda_kernel_info(fit->kernel)->dtb, fit->base, &here, NULL) !=
            KDA_OK ||
        kda_translate(fit->kernel, root, fit->base, &there, NULL) != KDA_OK)
        return FIT_UNKNOWN;
    return here == there ? FIT_YES : FIT_NO;
}

/* The handle table names its process; System's has no owner. */
static enum fit_answer check_owner(const struct kda_fit *fit, const struct fit_start *start,
                                   uint64_t va)
{
    uint64_t table, owner;
    if (start->table_at == KDA_NONE || start->owner_at == KDA_NONE ||
        kda_fit_u64(fit, va + start->table_at, &table) != FIT_YES || !kda_fit_is_pool(fit, table) ||
        kda_fit_u64(fit, table + start->owner_at, &owner) != FIT_YES)
        return FIT_UNKNOWN;
    return owner == va ? FIT_YES : kda_fit_is_pool(fit, owner) ? FIT_NO : FIT_UNKNOWN;
}

/* Witnesses of where the processes found so far begin. */
static struct fit_place count_witnesses(const struct kda_fit *fit, const struct fit_start *start)
{
    struct fit_place tally = {0, 0, 0};
    for (size_t i = 0; i < fit->process_count; i++) {
        uint64_t va = fit->processes[i].va, root;
        kda_fit_vote(&tally, check_owner(fit, start, va));
        if (start->root_at != KDA_NONE && kda_fit_u64(fit, va + start->root_at, &root) == FIT_YES)
            kda_fit_vote(&tally, kda_fit_check_root(fit, root));
    }
    return tally;
}

static struct fit_start start_of(const struct kda_field *f)
{
    return (struct fit_start){
        .pid_at = f[F(EPROCESS, UniqueProcessId)].offset,
        .links_at = f[F(EPROCESS, ActiveProcessLinks)].offset,
        .name_at = f[F(EPROCESS, ImageFileName)].offset,
        .table_at = f[F(EPROCESS, ObjectTable)].offset,
        .root_at = f[F(KPROCESS, DirectoryTableBase)].offset,
        .owner_at = f[F(HANDLE_TABLE, QuotaProcess)].offset,
    };
}

/* The distinct ways in which the rows describe a process. */
static void collect_starts(struct kda_fit *fit)
{
    for (size_t r = 0; r < fit->rows.count; r++) {
        struct fit_start start = start_of(fit->rows.items[r].layout.field);
        size_t i = 0;
        while (i < fit->start_count && memcmp(&fit->starts[i], &start, sizeof(start)) != 0)
            i++;
        if (i == fit->start_count && start.pid_at != KDA_NONE && start.links_at != KDA_NONE &&
            start.name_at != KDA_NONE)
            fit->starts[fit->start_count++] = start;
    }
}

/* The ring that the process at `va` is on, under one description; true if witnesses support it. */
static bool try_start(struct kda_fit *fit, const struct fit_start *start, uint64_t va,
                      struct fit_place *tally)
{
    kda_fit_forget_processes(fit);
    fit->start = *start;
    kda_fit_add_process(fit, va);
    bool closed = kda_fit_walk_processes(fit, va + start->links_at);
    /* The list of processes starts in the kernel. A ring that closes without it is not that list,
     * whatever its members call themselves. */
    if (closed && fit->process_head == 0)
        return false;
    *tally = count_witnesses(fit, start);
    return kda_fit_holds(tally);
}

/* Where a search for the first process begins: a process, or a link of one. */
struct origin {
    uint64_t va;
    bool link;   /* a link: the process begins before it, how far only the rows know */
    bool system; /* it must be System */
};

static uint64_t process_of(const struct origin *origin, const struct fit_start *start)
{
    return origin->link ? origin->va - start->links_at : origin->va;
}

/* Tries every description; the one with most witnesses gives the places for the walk. */
static bool start_from(struct kda_fit *fit, const struct origin *origin)
{
    struct fit_place best = {0, 0, 0};
    size_t chosen = SIZE_MAX;
    bool contested = false;
    for (size_t i = 0; i < fit->start_count; i++) {
        const struct fit_start *start = &fit->starts[i];
        struct fit_place tally;
        uint64_t va = process_of(origin, start);
        if (!kda_fit_is_pool(fit, va) || shape(fit, start, va, origin->system) != FIT_YES ||
            !try_start(fit, start, va, &tally) || tally.yes < best.yes)
            continue;
        if (tally.yes == best.yes) {
            contested = contested || start->links_at != fit->starts[chosen].links_at;
            continue;
        }
        contested = false;
        best = tally;
        chosen = i;
    }
    if (chosen != SIZE_MAX && !contested)
        return try_start(fit, &fit->starts[chosen], process_of(origin, &fit->starts[chosen]),
                         &best);
    kda_fit_forget_processes(fit);
    return false;
}

/* From a list head: its neighbours are processes. */
static bool start_from_head(struct kda_fit *fit, uint64_t head)
{
    for (unsigned side = 0; side < 16; side += 8) {
        struct origin origin = {.link = true};
        if (head != 0 && kda_fit_u64(fit, head + side, &origin.va) == FIT_YES &&
            start_from(fit, &origin))
            return true;
    }
    return false;
}

/* A handle table whose entries are objects themselves: the table of ids. */
static bool start_from_ids(struct kda_fit *fit, uint64_t table)
{
    const struct fit_votes *codes = &fit->votes[F(HANDLE_TABLE, TableCode)];
    uint64_t objects[FIRST_IDS];
    for (size_t i = 0; i < codes->count; i++) {
        size_t count = kda_fit_first_ids(fit, table + codes->place[i].offset, objects, FIRST_IDS);
        for (size_t k = 0; k < count; k++) {
            struct origin origin = {objects[k], false, false};
            if (start_from(fit, &origin))
                return true;
        }
    }
    return false;
}

/* The list of handle tables: its first one names its process. */
static bool start_from_tables(struct kda_fit *fit, uint64_t first)
{
    const struct fit_votes *lists = &fit->votes[F(HANDLE_TABLE, HandleTableList)];
    const struct fit_votes *owners = &fit->votes[F(HANDLE_TABLE, QuotaProcess)];
    for (size_t i = 0; i < lists->count; i++)
        for (size_t k = 0; k < owners->count; k++) {
            struct origin origin = {0};
            if (kda_fit_u64(fit, first - lists->place[i].offset + owners->place[k].offset,
                            &origin.va) == FIT_YES &&
                start_from(fit, &origin))
                return true;
        }
    return false;
}

static bool start_from_system(struct kda_fit *fit, uint64_t va, const uint8_t *at, bool pair)
{
    struct origin origin = {kda_le64(at), false, true};
    (void)va;
    (void)pair;
    return (origin.va & 15) == 0 && start_from(fit, &origin);
}

static bool start_from_ring(struct kda_fit *fit, uint64_t va, const uint8_t *at, bool pair)
{
    return pair && kda_fit_is_pool(fit, kda_le64(at + 8)) && kda_fit_ring(fit, va) == FIT_YES &&
           (start_from_head(fit, va) || start_from_tables(fit, kda_le64(at)) ||
            start_from_tables(fit, kda_le64(at + 8)));
}

static bool start_from_table(struct kda_fit *fit, uint64_t va, const uint8_t *at, bool pair)
{
    (void)va;
    (void)pair;
    return start_from_ids(fit, kda_le64(at));
}

/* What else the kernel's data hold: a pointer to System, then anything that looks like the head of
 * one of the two lists, then the table of ids. */
static bool start_from_data(struct kda_fit *fit)
{
    static bool (*const ways[])(struct kda_fit *, uint64_t, const uint8_t *,
                                bool) = {start_from_system, start_from_ring, start_from_table};
    for (size_t w = 0; w < sizeof(ways) / sizeof(ways[0]); w++)
        for (size_t p = 0; p < fit->data.pages; p++)
            for (size_t off = 0; off < KDA_PAGE_SIZE; off += 8) {
                const uint8_t *at = fit->data.bytes + p * KDA_PAGE_SIZE + off;
                if (kda_fit_is_pool(fit, kda_le64(at)) &&
                    ways[w](fit, fit->base + fit->data.rva[p] + off, at, off < KDA_PAGE_SIZE - 8u))
                    return true;
            }
    return false;
}

/* A witness less: what was to be read is not in the image, whatever else leads to the processes. */
static void tell_missing_export(struct kda_fit *fit, const char *name)
{
    uint64_t at, value;
    struct kda_error why;
    if (kda_kernel_export(fit->kernel, name, &at, NULL) != KDA_OK)
        return;
    enum kda_status status = kda_read(fit->kernel, at, &value, sizeof(value), &why);
    if (kda_status_is_gap(status))
        kda_gaps_add(kda_kernel_gaps(fit->kernel), "processes", at, status, "%s: %s", name,
                     why.text);
}

bool kda_fit_find_start(struct kda_fit *fit)
{
    const struct kda_image_info *image = kda_image_info(kda_kernel_image(fit->kernel));
    uint64_t head = 0;
    struct origin origin = {kda_fit_export_pointer(fit, "PsInitialSystemProcess", NULL), false,
                            true};
    tell_missing_export(fit, "PsInitialSystemProcess");
    collect_starts(fit);
    if (start_from(fit, &origin))
        return true;
    if (image->has_roots && start_from_head(fit, image->ps_active_process_head))
        return true;
    if (kda_kernel_kdbg_field(fit->kernel, KDBG_PROCESS_HEAD, &head, NULL) == KDA_OK &&
        start_from_head(fit, head))
        return true;
    return start_from_data(fit);
}

/* Is one of the two neighbours of this head a process that is known? */
static bool leads_to_process(const struct kda_fit *fit, uint64_t head)
{
    uint64_t next, back;
    return kda_fit_in_nt(fit, head) && ((kda_fit_u64(fit, head, &next) == FIT_YES &&
                                         kda_fit_is_process(fit, next - fit->start.links_at)) ||
                                        (kda_fit_u64(fit, head + 8, &back) == FIT_YES &&
                                         kda_fit_is_process(fit, back - fit->start.links_at)));
}

void kda_fit_name_head(struct kda_fit *fit)
{
    const struct kda_image_info *image = kda_image_info(kda_kernel_image(fit->kernel));
    uint64_t head;
    if (fit->process_head != 0)
        return;
    if (image->has_roots && leads_to_process(fit, image->ps_active_process_head))
        fit->process_head = image->ps_active_process_head;
    else if (kda_kernel_kdbg_field(fit->kernel, KDBG_PROCESS_HEAD, &head, NULL) == KDA_OK &&
             leads_to_process(fit, head))
        fit->process_head = head;
}
