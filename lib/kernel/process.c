/*
 * process.c - processes, from three witnesses: the active list, the ring of handle tables, the CID
 * table. What one of them lost, another still has. Objects that point at their process (consumers,
 * registrations, handles, jobs) are read later and add those that only they name.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define OBJECT_HEADER_SIZE 0x30u

struct process_scan {
    struct kda_kernel *kernel;
    enum kda_status status; /* NO_MEMORY ends everything */
    uint32_t links_at;
    uint64_t table_list_at;
    struct kda_map tables; /* those whose owner was looked at */
    struct kda_map owners; /* handle tables that processes name, of the first `owners_read` */
    size_t owners_read;
    bool around; /* the walk began at a table, not at the head of the list */
    size_t read; /* so many processes were read and have their ids */
};

enum kda_status kda_process_type(struct kda_kernel *kernel, uint8_t *index, struct kda_error *err)
{
    struct kda_error *why = &kernel->process_type_error;
    if (!kernel->process_type_read)
        why->status = kda_object_type_index(kernel, "Process", &kernel->process_type, why);
    kernel->process_type_read = why->status != KDA_NO_MEMORY;
    if (why->status == KDA_OK)
        *index = kernel->process_type;
    else if (err)
        *err = *why;
    return why->status;
}

/* A process that one more witness names; NULL when it is none, or memory ran out (scan->status). */
static struct kda_process *record(struct process_scan *scan, uint64_t va, unsigned found_by)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t index;
    /* Those on lists are allocated; what the kernel image has is a list's head. */
    if (!kda_is_kernel_va(kernel, va) || (va & 7) != 0 ||
        va - kernel->info.base < kernel->info.id.pe_size)
        return NULL;
    if (kda_map_get(&kernel->process_by_va, va, &index)) {
        kernel->processes[index].found_by |= found_by;
        return &kernel->processes[index];
    }
    if (kernel->process_count >= KDA_MAX_PROCESSES) {
        kda_gaps_add(&kernel->gaps, "processes", va, KDA_LIMIT, "more than %u processes",
                     KDA_MAX_PROCESSES);
        return NULL;
    }
    void *items = kernel->processes;
    if (!kda_grow(&items, &kernel->process_capacity, kernel->process_count + 1,
                  sizeof(*kernel->processes), KDA_MAX_PROCESSES)) {
        scan->status = KDA_NO_MEMORY;
        return NULL;
    }
    kernel->processes = items;
    if (!kda_map_put(&kernel->process_by_va, va, kernel->process_count)) {
        scan->status = KDA_NO_MEMORY;
        return NULL;
    }
    struct kda_process *process = &kernel->processes[kernel->process_count++];
    memset(process, 0, sizeof(*process));
    process->va = va;
    process->name = "";
    process->found_by = found_by;
    return process;
}

static bool known(const struct kda_kernel *kernel, uint64_t va)
{
    return kda_map_get(&kernel->process_by_va, va, NULL);
}

static enum kda_step refuse(struct kda_kernel *kernel, uint64_t va, const char *who)
{
    kda_gaps_add(&kernel->gaps, "process", va, KDA_BAD_DATA,
                 "%s leads here, where no process is (or its page was overwritten)", who);
    return KDA_STEP_REFUSE;
}

static enum kda_step on_link(void *context, uint64_t link_va, enum kda_link how)
{
    struct process_scan *scan = context;
    struct kda_proof proof;
    uint64_t va = link_va - scan->links_at;
    kda_process_prove(scan->kernel, va, &proof);
    if (!kda_proof_allows(&proof) || (how == KDA_LINK_TORN && !kda_proof_convinces(&proof)))
        return refuse(scan->kernel, va, "the active list");
    if (!record(scan, va, KDA_FOUND_LIST) && (va & 7) != 0)
        return refuse(scan->kernel, va, "the active list");
    return scan->status == KDA_OK ? KDA_STEP_TAKE : KDA_STEP_STOP;
}

/* A node behind one that the list did not reach; those that are known end the way. */
static enum kda_step on_neighbour(void *context, uint64_t link_va, enum kda_link how)
{
    struct process_scan *scan = context;
    struct kda_proof proof;
    uint64_t va = link_va - scan->links_at;
    if (known(scan->kernel, va))
        return KDA_STEP_REFUSE;
    kda_process_prove(scan->kernel, va, &proof);
    if (how == KDA_LINK_MISSING ? !kda_proof_allows(&proof) : !kda_proof_convinces(&proof))
        return KDA_STEP_REFUSE;
    if (!record(scan, va, KDA_FOUND_BACK_POINTER) && scan->status == KDA_OK)
        return KDA_STEP_REFUSE;
    return scan->status == KDA_OK ? KDA_STEP_TAKE : KDA_STEP_STOP;
}

/* Does a process that is known name this table as its own? */
static bool is_anothers(struct process_scan *scan, uint64_t table)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t named;
    for (; scan->owners_read < kernel->process_count; scan->owners_read++)
        if (kda_read_field(kernel, kernel->processes[scan->owners_read].va,
                           KDA_F_EPROCESS_ObjectTable, &named, NULL) == KDA_OK &&
            named != 0 && !kda_map_put(&scan->owners, named, 1))
            scan->status = KDA_NO_MEMORY;
    return kda_map_get(&scan->owners, table, NULL);
}

/* A lying table must not invent a process: the one it names has to name the table, or to be one on
 * other grounds. A process whose memory is missing is believed, unless another names the table. */
static bool owner_agrees(struct process_scan *scan, uint64_t owner, uint64_t table)
{
    struct kda_kernel *kernel = scan->kernel;
    struct kda_proof proof;
    uint64_t named;
    if (!kda_is_kernel_va(kernel, owner) || (owner & 7) != 0)
        return false;
    enum kda_status status =
        kda_read_field(kernel, owner, KDA_F_EPROCESS_ObjectTable, &named, NULL);
    if (status == KDA_UNMAPPED)
        return false;
    kda_process_prove(kernel, owner, &proof);
    return status == KDA_OK && named == table ? kda_proof_allows(&proof)
           : status != KDA_OK ? kda_proof_allows(&proof) && !is_anothers(scan, table)
                              : kda_proof_convinces(&proof);
}

/* Does a handle table stand there? Its code is a page and a level. */
static bool table_allows(struct kda_kernel *kernel, uint64_t table)
{
    uint64_t code;
    enum kda_status status =
        kda_read_field(kernel, table, KDA_F_HANDLE_TABLE_TableCode, &code, NULL);
    if (status != KDA_OK)
        return status != KDA_UNMAPPED;
    return (code & KDA_PAGE_MASK) <= 2 && kda_is_kernel_va(kernel, code);
}

static void note_table(struct process_scan *scan, struct kda_process *process, uint64_t table)
{
    struct kda_kernel *kernel = scan->kernel;
    bool read = (size_t)(process - kernel->processes) < scan->read;
    process->handle_table = table;
    if (read && !process->has_pid)
        kda_process_settle(kernel, process);
}

/* A node of HandleTableListHead: the table names its process and, from Windows 8 on, its pid. */
static enum kda_step on_table(void *context, uint64_t link_va, enum kda_link how)
{
    struct process_scan *scan = context;
    struct kda_kernel *kernel = scan->kernel;
    uint64_t owner, table = link_va - scan->table_list_at;
    if (how == KDA_LINK_MISSING)
        return scan->around ? KDA_STEP_REFUSE : KDA_STEP_TAKE;
    if (scan->around && (kda_map_get(&scan->tables, table, NULL) || !table_allows(kernel, table)))
        return KDA_STEP_REFUSE;
    if (!kda_map_put(&scan->tables, table, 1))
        scan->status = KDA_NO_MEMORY;
    if (!table_allows(kernel, table)) {
        kda_gaps_add(&kernel->gaps, "handle_table", table, KDA_BAD_DATA,
                     "the list of handle tables leads here, where none is");
        return KDA_STEP_REFUSE;
    }
    enum kda_status status =
        kda_read_field(kernel, table, KDA_F_HANDLE_TABLE_QuotaProcess, &owner, NULL);
    if (status != KDA_OK) {
        kda_gaps_add(&kernel->gaps, "handle_table", table, status, "its owner cannot be read");
        return KDA_STEP_TAKE;
    }
    if (owner == 0)
        return KDA_STEP_TAKE;
    if (!owner_agrees(scan, owner, table)) {
        kda_gaps_add(&kernel->gaps, "handle_table", table, KDA_BAD_DATA,
                     "names 0x%016llx as its process, which does not name the table",
                     (unsigned long long)owner);
        return KDA_STEP_TAKE;
    }
    unsigned found_by = !scan->around          ? KDA_FOUND_HANDLE_TABLE
                        : known(kernel, owner) ? 0u
                                               : KDA_FOUND_BACK_POINTER;
    struct kda_process *process = record(scan, owner, found_by);
    if (process)
        note_table(scan, process, table);
    return scan->status == KDA_OK ? KDA_STEP_TAKE : KDA_STEP_STOP;
}

static bool on_cid(void *context, const struct kda_handle *handle)
{
    struct process_scan *scan = context;
    struct kda_kernel *kernel = scan->kernel;
    uint8_t type, wanted;
    struct kda_error why;
    struct kda_proof proof;
    bool found = known(kernel, handle->object);
    enum kda_status status =
        kda_object_type(kernel, handle->object - OBJECT_HEADER_SIZE, &type, &why);
    if (!found && status != KDA_OK) {
        /* Process or thread: nobody can tell. Said, not guessed. */
        kda_gaps_add(&kernel->gaps, "cid_entry", handle->object, status,
                     "id %llu in the CID table: %s", (unsigned long long)handle->value, why.text);
        return true;
    }
    if (!found && (kda_process_type(kernel, &wanted, NULL) != KDA_OK || type != wanted))
        return true;
    kda_process_prove(kernel, handle->object, &proof);
    if (!found && !kda_proof_convinces(&proof)) {
        (void)refuse(kernel, handle->object, "the CID table");
        return true;
    }
    struct kda_process *process = record(scan, handle->object, KDA_FOUND_CID);
    if (process) {
        process->cid_va = handle->entry_va;
        process->cid = handle->value;
    }
    return scan->status == KDA_OK;
}

static enum kda_status scan_active_list(struct process_scan *scan, struct kda_error *err)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t head = kda_symbol_va(kernel, KDA_SYM_PsActiveProcessHead);
    if (head == 0 && kda_image_info(kernel->image)->has_roots)
        head = kda_image_info(kernel->image)->ps_active_process_head;
    scan->links_at = kda_field_offset(kernel, KDA_F_EPROCESS_ActiveProcessLinks);
    if (head == 0 || scan->links_at == KDA_NONE)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel",
                        "PsActiveProcessHead or _EPROCESS.ActiveProcessLinks is not known");
    return kda_list_walk(kernel, head, KDA_MAX_PROCESSES, "processes", on_link, scan, NULL, err);
}

static enum kda_status scan_handle_tables(struct process_scan *scan, struct kda_error *err)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t head = kda_symbol_va(kernel, KDA_SYM_HandleTableListHead);
    uint32_t at = kda_field_offset(kernel, KDA_F_HANDLE_TABLE_HandleTableList);
    if (head == 0 || at == KDA_NONE || !kda_has_field(kernel, KDA_F_HANDLE_TABLE_QuotaProcess))
        return KDA_OK;
    scan->table_list_at = at;
    return kda_list_walk(kernel, head, KDA_MAX_PROCESSES, "handle_tables", on_table, scan, NULL,
                         err);
}

static void scan_cid_table(struct process_scan *scan)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t global = kda_symbol_va(kernel, KDA_SYM_PspCidTable);
    uint8_t pointer[8], type;
    struct kda_error why;
    if (global == 0)
        return;
    enum kda_status status = kda_process_type(kernel, &type, &why);
    if (status == KDA_OK)
        status = kda_read(kernel, global, pointer, sizeof(pointer), &why);
    if (status == KDA_OK)
        status = kda_handles_walk(kernel, kda_le64(pointer), true, on_cid, scan, &why);
    if (status == KDA_NO_MEMORY)
        scan->status = status;
    else if (status != KDA_OK)
        kda_gaps_add(&kernel->gaps, "cid_table", global, status, "%s", why.text);
}

/* Between two holes of the active list stand processes that it does not reach. Those that another
 * witness named lead to their neighbours, which perhaps nothing else names. */
static void scan_neighbours(struct process_scan *scan, size_t from)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t head = kda_symbol_va(kernel, KDA_SYM_PsActiveProcessHead);
    for (size_t i = from; i < kernel->process_count && scan->status == KDA_OK; i++) {
        uint64_t va = kernel->processes[i].va;
        if (kernel->processes[i].found_by & KDA_FOUND_LIST || scan->links_at == KDA_NONE)
            continue;
        if (kda_list_around(kernel, va + scan->links_at, head, KDA_MAX_PROCESSES, on_neighbour,
                            scan, NULL) == KDA_NO_MEMORY)
            scan->status = KDA_NO_MEMORY;
    }
}

static int by_pid(const void *a, const void *b)
{
    const struct kda_process *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->va < y->va ? -1 : x->va > y->va;
}

static int by_va(const void *a, const void *b)
{
    const struct kda_process *x = a, *y = b;
    return (x->va > y->va) - (x->va < y->va);
}

/* How much speaks for a process before it is read. */
static unsigned weight(struct kda_kernel *kernel, const struct kda_process *process)
{
    struct kda_proof proof;
    unsigned weight = (process->handle_table ? 1u : 0u) + (process->cid_va ? 1u : 0u);
    for (unsigned ways = process->found_by; ways != 0; ways &= ways - 1)
        weight++;
    kda_process_prove(kernel, process->va, &proof);
    return weight + (kda_proof_convinces(&proof) ? 8 : 0);
}

/* No process stands inside another: where two pointers say so, one of them is wrong, and of equal
 * ones nobody can tell which. Leaves the processes sorted by address. */
static bool drop_overlaps(struct kda_kernel *kernel)
{
    uint32_t size = kda_kernel_layout(kernel)->size[KDA_STRUCT_EPROCESS];
    size_t kept = 0;
    if (kernel->process_count > 1)
        qsort(kernel->processes, kernel->process_count, sizeof(*kernel->processes), by_va);
    for (size_t i = 0; i < kernel->process_count; i++) {
        struct kda_process *one = kernel->processes + i;
        struct kda_process *before = kept > 0 ? kernel->processes + kept - 1 : NULL;
        if (!before || size == KDA_NONE || one->va - before->va >= size) {
            kernel->processes[kept++] = *one;
            continue;
        }
        unsigned first = weight(kernel, before), second = weight(kernel, one);
        if (second >= first)
            (void)refuse(kernel, before->va, "a pointer into another process");
        if (second <= first)
            (void)refuse(kernel, one->va, "a pointer into another process");
        if (second > first)
            *before = *one;
        kept -= first == second;
    }
    kernel->process_count = kept;
    kda_map_deinit(&kernel->process_by_va);
    kda_map_init(&kernel->process_by_va);
    for (size_t i = 0; i < kept; i++)
        if (!kda_map_put(&kernel->process_by_va, kernel->processes[i].va, i))
            return false;
    return true;
}

static enum kda_status find_processes(struct process_scan *scan, struct kda_error *err)
{
    struct kda_kernel *kernel = scan->kernel;
    enum kda_status status = scan_active_list(scan, err);
    /* A witness that cannot be read leaves a gap; the others still speak. */
    if (status != KDA_NO_MEMORY && status != KDA_NO_SYMBOL)
        status = scan_handle_tables(scan, err);
    if (status == KDA_NO_MEMORY || status == KDA_NO_SYMBOL)
        return status;
    scan_cid_table(scan);
    scan_neighbours(scan, 0);
    if (scan->status == KDA_OK && !drop_overlaps(kernel))
        scan->status = KDA_NO_MEMORY;
    scan->owners_read = 0; /* the order is another now */
    if (scan->status != KDA_OK)
        return kda_fail(err, scan->status, "kernel", "out of memory for the process list");
    return KDA_OK;
}

static enum kda_status sort_processes(struct kda_kernel *kernel, struct kda_error *err)
{
    if (kernel->process_count > 1)
        qsort(kernel->processes, kernel->process_count, sizeof(*kernel->processes), by_pid);
    for (size_t i = 0; i < kernel->process_count; i++)
        if (!kda_map_put(&kernel->process_by_va, kernel->processes[i].va, i))
            return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory for the process list");
    return KDA_OK;
}

/* Handle tables that the list of tables does not reach, by those that processes name. */
static void scan_table_neighbours(struct process_scan *scan, size_t from)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t head = kda_symbol_va(kernel, KDA_SYM_HandleTableListHead);
    uint32_t at = kda_field_offset(kernel, KDA_F_HANDLE_TABLE_HandleTableList);
    if (at == KDA_NONE || !kda_has_field(kernel, KDA_F_HANDLE_TABLE_QuotaProcess))
        return;
    scan->table_list_at = at;
    scan->around = true;
    for (size_t i = from; i < kernel->process_count && scan->status == KDA_OK; i++) {
        uint64_t table = kernel->processes[i].handle_table;
        if (table == 0 || kda_map_get(&scan->tables, table, NULL))
            continue;
        if (!kda_map_put(&scan->tables, table, 1) ||
            kda_list_around(kernel, table + at, head, KDA_MAX_PROCESSES, on_table, scan, NULL) ==
                KDA_NO_MEMORY)
            scan->status = KDA_NO_MEMORY;
    }
}

/* Reads the processes from `from` on; what they lead to is read as well. */
static enum kda_status read_from(struct process_scan *scan, size_t from, struct kda_error *err)
{
    struct kda_kernel *kernel = scan->kernel;
    enum kda_status status = KDA_OK;
    scan->read = from;
    while (from < kernel->process_count && status == KDA_OK) {
        size_t count = kernel->process_count;
        for (size_t i = from; i < count && status == KDA_OK; i++)
            status = kda_process_read(kernel, &kernel->processes[i], err);
        scan->read = count;
        scan_table_neighbours(scan, from);
        scan_neighbours(scan, count);
        if (scan->status != KDA_OK)
            status = kda_fail(err, scan->status, "kernel", "out of memory for the process list");
        from = count;
    }
    return status;
}

static enum kda_status read_processes(struct kda_kernel *kernel, struct kda_error *err)
{
    struct process_scan scan = {.kernel = kernel};
    kda_map_init(&scan.tables);
    kda_map_init(&scan.owners);
    enum kda_status status = find_processes(&scan, err);
    if (status == KDA_OK)
        status = read_from(&scan, 0, err);
    kda_map_deinit(&scan.tables);
    kda_map_deinit(&scan.owners);
    return status == KDA_OK ? sort_processes(kernel, err) : status;
}

enum kda_status kda_process_check(struct kda_kernel *kernel, uint64_t va)
{
    struct kda_proof proof;
    uint64_t pa;
    if (!kda_is_kernel_va(kernel, va) || (va & 7) != 0 ||
        kda_translate(kernel, kernel->info.dtb, va, &pa, NULL) == KDA_UNMAPPED)
        return KDA_BAD_DATA;
    kda_process_prove(kernel, va, &proof);
    if (proof.good + proof.bad == 0)
        return KDA_ABSENT;
    return kda_proof_convinces(&proof) ? KDA_OK : KDA_BAD_DATA;
}

/* Ends what adds processes to those that are known, `before` of them. */
static enum kda_status read_added(struct process_scan *scan, size_t before, size_t *added,
                                  struct kda_error *err)
{
    struct kda_kernel *kernel = scan->kernel;
    enum kda_status status =
        scan->status == KDA_OK
            ? read_from(scan, before, err)
            : kda_fail(err, scan->status, "kernel", "out of memory for the process list");
    kda_map_deinit(&scan->tables);
    kda_map_deinit(&scan->owners);
    if (status == KDA_OK && kernel->process_count > before)
        status = sort_processes(kernel, err);
    if (status == KDA_OK)
        *added = kernel->process_count - before;
    return status;
}

enum kda_status kda_processes_add(struct kda_kernel *kernel, const uint64_t *vas, size_t count,
                                  size_t *added, struct kda_error *err)
{
    const struct kda_process *ignored;
    size_t before = 0;
    enum kda_status status = kda_processes(kernel, &ignored, &before, err);
    *added = 0;
    if (status != KDA_OK)
        return status;
    struct process_scan scan = {
        .kernel = kernel, .links_at = kda_field_offset(kernel, KDA_F_EPROCESS_ActiveProcessLinks)};
    for (size_t i = 0; i < count && scan.status == KDA_OK; i++) {
        if (!known(kernel, vas[i]) && kda_process_check(kernel, vas[i]) != KDA_BAD_DATA)
            (void)record(&scan, vas[i], KDA_FOUND_BACK_POINTER);
    }
    scan_neighbours(&scan, before);
    return read_added(&scan, before, added, err);
}

static bool on_pool(void *context, uint64_t va)
{
    struct process_scan *scan = context;
    (void)record(scan, va, KDA_FOUND_POOL);
    return scan->status == KDA_OK;
}

enum kda_status kda_processes_carve(struct kda_kernel *kernel, size_t *added, struct kda_error *err)
{
    const struct kda_process *ignored;
    size_t before = 0;
    enum kda_status status = kda_processes(kernel, &ignored, &before, err);
    struct process_scan scan = {
        .kernel = kernel, .links_at = kda_field_offset(kernel, KDA_F_EPROCESS_ActiveProcessLinks)};
    *added = 0;
    if (status == KDA_OK)
        status = kda_pool_processes(kernel, on_pool, &scan, err);
    return status == KDA_OK ? read_added(&scan, before, added, err) : status;
}

enum kda_status kda_processes(struct kda_kernel *kernel, const struct kda_process **ret,
                              size_t *count, struct kda_error *err)
{
    if (!kernel->layout)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "symbols are not loaded");
    if (!kernel->processes_read) {
        enum kda_status status = read_processes(kernel, err);
        if (status != KDA_OK) { /* all or nothing: the next call starts afresh */
            kda_free(kernel->processes);
            kernel->processes = NULL;
            kernel->process_count = kernel->process_capacity = 0;
            kda_map_deinit(&kernel->process_by_va);
            return status;
        }
        kernel->processes_read = true;
    }
    *ret = kernel->processes;
    *count = kernel->process_count;
    return KDA_OK;
}

const struct kda_process *kda_process_at(struct kda_kernel *kernel, uint64_t va)
{
    uint64_t index;
    if (!kernel->processes_read || !kda_map_get(&kernel->process_by_va, va, &index))
        return NULL;
    return &kernel->processes[index];
}
