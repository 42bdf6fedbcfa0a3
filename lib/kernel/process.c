/*
 * process.c - processes, from three witnesses: the active list, the ring of handle tables, the CID
 * table. What one of them lost, another still has.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#include "base/text.h"

#define MAX_IMAGE_PATH_BYTES 65534u
#define OBJECT_HEADER_SIZE 0x30u

struct process_scan {
    struct kda_kernel *kernel;
    size_t capacity;
    enum kda_status status; /* NO_MEMORY ends everything */
    uint32_t links_at;
    uint64_t table_list_at;
    uint8_t process_type;
    enum kda_status type_status; /* KDA_OK: process_type is known */
    struct kda_error type_error;
};

static struct kda_process *record(struct process_scan *scan, uint64_t va, unsigned found_by)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t index;
    if (!kda_is_kernel_va(kernel, va) || (va & 7) != 0)
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
    if (!kda_grow(&items, &scan->capacity, kernel->process_count + 1, sizeof(*kernel->processes),
                  KDA_MAX_PROCESSES)) {
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

static bool on_link(void *context, uint64_t link_va, bool readable)
{
    struct process_scan *scan = context;
    (void)readable; /* a node known only by address is a process all the same */
    (void)record(scan, link_va - scan->links_at, KDA_FOUND_LIST);
    return scan->status == KDA_OK;
}

/* A lying table must not invent a process: one that no other witness named has to name the table,
 * or to be an object of the process type. */
static bool owner_agrees(struct process_scan *scan, uint64_t owner, uint64_t table)
{
    struct kda_kernel *kernel = scan->kernel;
    uint64_t named;
    uint8_t type;
    if (kda_map_get(&kernel->process_by_va, owner, NULL))
        return true;
    if (!kda_is_kernel_va(kernel, owner))
        return false;
    enum kda_status status =
        kda_read_field(kernel, owner, KDA_F_EPROCESS_ObjectTable, &named, NULL);
    if (status != KDA_OK)
        return status != KDA_UNMAPPED;
    return named == table ||
           (scan->type_status == KDA_OK &&
            kda_object_type(kernel, owner - OBJECT_HEADER_SIZE, &type, NULL) == KDA_OK &&
            type == scan->process_type);
}

/* A node of HandleTableListHead: the table names its process and, from Windows 8 on, its pid. */
static bool on_table(void *context, uint64_t link_va, bool readable)
{
    struct process_scan *scan = context;
    struct kda_kernel *kernel = scan->kernel;
    uint64_t owner, table = link_va - scan->table_list_at, pid;
    if (!readable)
        return true;
    enum kda_status status =
        kda_read_field(kernel, table, KDA_F_HANDLE_TABLE_QuotaProcess, &owner, NULL);
    if (status != KDA_OK) {
        kda_gaps_add(&kernel->gaps, "handle_table", table, status, "its owner cannot be read");
        return true;
    }
    if (owner == 0)
        return true;
    if (!owner_agrees(scan, owner, table)) {
        kda_gaps_add(&kernel->gaps, "handle_table", table, KDA_BAD_DATA,
                     "names 0x%016llx as its process, which does not name the table",
                     (unsigned long long)owner);
        return true;
    }
    struct kda_process *process = record(scan, owner, KDA_FOUND_HANDLE_TABLE);
    if (!process)
        return scan->status == KDA_OK;
    process->handle_table = table;
    if (!process->has_pid &&
        kda_read_field(kernel, table, KDA_F_HANDLE_TABLE_UniqueProcessId, &pid, NULL) == KDA_OK) {
        process->pid = pid;
        process->has_pid = pid != 0;
    }
    return true;
}

static bool on_cid(void *context, const struct kda_handle *handle)
{
    struct process_scan *scan = context;
    struct kda_kernel *kernel = scan->kernel;
    uint8_t type;
    bool known = kda_map_get(&kernel->process_by_va, handle->object, NULL);
    enum kda_status status =
        kda_object_type(kernel, handle->object - OBJECT_HEADER_SIZE, &type, NULL);
    if (!known && status != KDA_OK) {
        /* Process or thread: nobody can tell. Said, not guessed. */
        kda_gaps_add(&kernel->gaps, "cid_entry", handle->object, status,
                     "id %llu in the CID table: its object header cannot be read",
                     (unsigned long long)handle->value);
        return true;
    }
    if (!known && type != scan->process_type)
        return true;
    struct kda_process *process = record(scan, handle->object, KDA_FOUND_CID);
    if (process)
        process->cid_va = handle->entry_va;
    if (process && !process->has_pid) {
        process->pid = handle->value;
        process->has_pid = true;
    }
    return scan->status == KDA_OK;
}

static bool on_pool(void *context, uint64_t va)
{
    struct process_scan *scan = context;
    (void)record(scan, va, KDA_FOUND_POOL);
    return scan->status == KDA_OK;
}

/* What no list names any more; nothing without the option. */
static enum kda_status scan_pool(struct process_scan *scan, struct kda_error *err)
{
    if (scan->type_status == KDA_OK)
        return kda_pool_processes(scan->kernel, scan->process_type, on_pool, scan, err);
    const struct kda_pool_block *blocks;
    size_t count;
    enum kda_status status = kda_pool_blocks(scan->kernel, &blocks, &count, err);
    kda_pool_set_lacks(scan->kernel, KDA_POOL_PROCESS, "the object type Process");
    return status;
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
    uint8_t pointer[8];
    struct kda_error why;
    if (global == 0)
        return;
    enum kda_status status = scan->type_status;
    if (status != KDA_OK)
        why = scan->type_error;
    else
        status = kda_read(kernel, global, pointer, sizeof(pointer), &why);
    if (status == KDA_OK)
        status = kda_handles_walk(kernel, kda_le64(pointer), true, on_cid, scan, &why);
    if (status == KDA_NO_MEMORY)
        scan->status = status;
    else if (status != KDA_OK)
        kda_gaps_add(&kernel->gaps, "cid_table", global, status, "%s", why.text);
}

static enum kda_status read_image_path(struct kda_kernel *kernel, struct kda_process *process,
                                       struct kda_error *err)
{
    /* SE_AUDIT_PROCESS_CREATION_INFO is one pointer to an OBJECT_NAME_INFORMATION; null for System
     * and for minimal processes. */
    uint64_t info = 0;
    const char *path = NULL;
    struct kda_error why;
    enum kda_status status =
        kda_read_field(kernel, process->va, KDA_F_EPROCESS_SeAuditProcessCreationInfo, &info, &why);
    if (status == KDA_NO_SYMBOL || (status == KDA_OK && info == 0))
        return KDA_OK;
    if (status == KDA_OK && !kda_is_kernel_va(kernel, info))
        status = kda_fail_at(&why, KDA_BAD_DATA, "kernel", info, "0x%016llx is no kernel address",
                             (unsigned long long)info);
    if (status == KDA_OK)
        status = kda_read_string(kernel, info, MAX_IMAGE_PATH_BYTES, &path, &why);
    if (status == KDA_NO_MEMORY)
        return kda_fail(err, status, "kernel", "out of memory for the process list");
    if (status != KDA_OK)
        kda_gaps_add(&kernel->gaps, "image_path", info ? info : process->va, status,
                     "path of process %llu: %s", (unsigned long long)process->pid, why.text);
    else if (path[0])
        process->image = path;
    return KDA_OK;
}

/* The object spans pages: each field is taken for itself, and one gap says that some are missing.
 * A field that this build lacks is no gap. */
static uint64_t take(struct kda_kernel *kernel, uint64_t va, enum kda_field_id field, bool *has)
{
    uint64_t value = 0;
    struct kda_error why;
    *has = false;
    if (!kda_has_field(kernel, field))
        return 0;
    enum kda_status status = kda_read_field(kernel, va, field, &value, &why);
    *has = status == KDA_OK;
    if (!*has)
        kda_gaps_add(&kernel->gaps, "process", va, status, "%s: %s", kda_field_name(field),
                     why.text);
    return *has ? value : 0;
}

static enum kda_status read_name(struct kda_kernel *kernel, struct kda_process *process, bool *has,
                                 struct kda_error *err)
{
    uint8_t name[15];
    char text[sizeof(name) * 2 + 1];
    uint32_t at = kda_field_offset(kernel, KDA_F_EPROCESS_ImageFileName);
    struct kda_error why;
    *has = true;
    if (at == KDA_NONE)
        return KDA_OK;
    enum kda_status status = kda_read(kernel, process->va + at, name, sizeof(name), &why);
    *has = status == KDA_OK;
    if (!*has) {
        kda_gaps_add(&kernel->gaps, "process", process->va, status, "_EPROCESS.ImageFileName: %s",
                     why.text);
        return KDA_OK;
    }
    size_t size = kda_latin1_to_utf8(name, sizeof(name), text, sizeof(text));
    char *kept = size ? kda_arena_strndup(&kernel->arena, text, size) : NULL;
    if (size && !kept)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory for the process list");
    if (kept)
        process->name = kept;
    return KDA_OK;
}

static bool known(const struct kda_kernel *kernel, enum kda_field_id field, bool has)
{
    return has || !kda_has_field(kernel, field);
}

static enum kda_status read_process(struct kda_kernel *kernel, struct kda_process *process,
                                    struct kda_error *err)
{
    uint64_t va = process->va;
    bool has_pid, has_name, has_job, has_silo, ignored;
    uint64_t pid = take(kernel, va, KDA_F_EPROCESS_UniqueProcessId, &has_pid);
    if (has_pid) {
        process->pid = pid;
        process->has_pid = true;
    }
    enum kda_status status = read_name(kernel, process, &has_name, err);
    if (status != KDA_OK)
        return status;
    process->readable = has_pid && has_name;
    process->ppid =
        take(kernel, va, KDA_F_EPROCESS_InheritedFromUniqueProcessId, &process->has_ppid);
    process->create_time_100ns = take(kernel, va, KDA_F_EPROCESS_CreateTime, &ignored);
    process->exit_time_100ns = take(kernel, va, KDA_F_EPROCESS_ExitTime, &ignored);
    process->protection =
        (uint8_t)take(kernel, va, KDA_F_EPROCESS_Protection, &process->has_protection);
    process->dtb = take(kernel, va, KDA_F_KPROCESS_DirectoryTableBase, &ignored) &
                   ~(uint64_t)KDA_PAGE_MASK & 0x000fffffffffffffu;
    uint64_t table = take(kernel, va, KDA_F_EPROCESS_ObjectTable, &ignored);
    if (table)
        process->handle_table = table;
    process->job = take(kernel, va, KDA_F_EPROCESS_Job, &has_job);
    process->server_silo = take(kernel, va, KDA_F_EPROCESS_ServerSilo, &has_silo);
    process->has_silo = known(kernel, KDA_F_EPROCESS_Job, has_job) &&
                        known(kernel, KDA_F_EPROCESS_ServerSilo, has_silo);
    return read_image_path(kernel, process, err);
}

static int by_pid(const void *a, const void *b)
{
    const struct kda_process *x = a, *y = b;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    return x->va < y->va ? -1 : x->va > y->va;
}

static enum kda_status find_processes(struct kda_kernel *kernel, struct kda_error *err)
{
    struct process_scan scan;
    memset(&scan, 0, sizeof(scan));
    scan.kernel = kernel;
    scan.type_status =
        kda_object_type_index(kernel, "Process", &scan.process_type, &scan.type_error);
    enum kda_status status = scan_active_list(&scan, err);
    /* A witness that cannot be read leaves a gap; the others still speak. */
    if (status != KDA_NO_MEMORY && status != KDA_NO_SYMBOL)
        status = scan_handle_tables(&scan, err);
    if (status == KDA_NO_MEMORY || status == KDA_NO_SYMBOL)
        return status;
    scan_cid_table(&scan);
    if (scan.status == KDA_OK && kernel->options.carve) {
        status = scan_pool(&scan, err);
        if (status != KDA_OK)
            return status;
    }
    if (scan.status != KDA_OK)
        return kda_fail(err, scan.status, "kernel", "out of memory for the process list");
    return KDA_OK;
}

static enum kda_status read_processes(struct kda_kernel *kernel, struct kda_error *err)
{
    enum kda_status status = find_processes(kernel, err);
    for (size_t i = 0; i < kernel->process_count && status == KDA_OK; i++)
        status = read_process(kernel, &kernel->processes[i], err);
    if (kernel->process_count > 1)
        qsort(kernel->processes, kernel->process_count, sizeof(*kernel->processes), by_pid);
    for (size_t i = 0; i < kernel->process_count && status == KDA_OK; i++)
        if (!kda_map_put(&kernel->process_by_va, kernel->processes[i].va, i))
            status = kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory for the process list");
    return status;
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
            kernel->process_count = 0;
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
