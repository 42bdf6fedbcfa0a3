/*
 * process_read.c - the fields of one process, each taken for itself: the object spans pages, some
 * of which may be missing or hold something else by now.
 */
#include <string.h>

#include "internal.h"

#include "base/text.h"

#define MAX_IMAGE_PATH_BYTES 65534u

/* A process being read: fields on a page that does not look like a part of it are left out. */
struct reading {
    struct kda_kernel *kernel;
    struct kda_process *process;
    struct kda_proof proof;
};

/* The object spans pages: each field is taken for itself, and one gap says that some are missing.
 * A field that this build lacks is no gap. */
static enum kda_status doubted(const struct reading *r, enum kda_field_id field,
                               struct kda_error *why)
{
    uint64_t at = r->process->va + kda_field_offset(r->kernel, field);
    if (!kda_proof_doubts(&r->proof, at))
        return KDA_OK;
    return kda_fail_at(why, KDA_BAD_DATA, "kernel", at,
                       "what stands at 0x%016llx is no part of a process", (unsigned long long)at);
}

static uint64_t take(struct reading *r, enum kda_field_id field, bool *has)
{
    uint64_t value = 0;
    struct kda_error why;
    *has = false;
    if (!kda_has_field(r->kernel, field))
        return 0;
    enum kda_status status = doubted(r, field, &why);
    if (status == KDA_OK)
        status = kda_read_field(r->kernel, r->process->va, field, &value, &why);
    *has = status == KDA_OK;
    if (!*has)
        kda_gaps_add(&r->kernel->gaps, "process", r->process->va, status, "%s: %s",
                     kda_field_name(field), why.text);
    return *has ? value : 0;
}

static enum kda_status read_name(struct reading *r, bool *has, struct kda_error *err)
{
    struct kda_kernel *kernel = r->kernel;
    uint8_t name[15];
    char text[sizeof(name) * 2 + 1];
    uint32_t at = kda_field_offset(kernel, KDA_F_EPROCESS_ImageFileName);
    struct kda_error why;
    *has = true;
    if (at == KDA_NONE)
        return KDA_OK;
    enum kda_status status = doubted(r, KDA_F_EPROCESS_ImageFileName, &why);
    if (status == KDA_OK)
        status = kda_read(kernel, r->process->va + at, name, sizeof(name), &why);
    *has = status == KDA_OK;
    if (!*has) {
        kda_gaps_add(&kernel->gaps, "process", r->process->va, status,
                     "_EPROCESS.ImageFileName: %s", why.text);
        return KDA_OK;
    }
    size_t size = kda_latin1_to_utf8(name, sizeof(name), text, sizeof(text));
    char *kept = size ? kda_arena_strndup(&kernel->arena, text, size) : NULL;
    if (size && !kept)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory for the process list");
    if (kept)
        r->process->name = kept;
    return KDA_OK;
}

/* SE_AUDIT_PROCESS_CREATION_INFO is one pointer to an OBJECT_NAME_INFORMATION; null for System and
 * for minimal processes. */
static enum kda_status read_image_path(struct reading *r, struct kda_error *err)
{
    struct kda_kernel *kernel = r->kernel;
    struct kda_process *process = r->process;
    const char *path = NULL;
    struct kda_error why;
    bool has;
    uint64_t info = take(r, KDA_F_EPROCESS_SeAuditProcessCreationInfo, &has);
    enum kda_status status = KDA_OK;
    if (!has || info == 0)
        return KDA_OK;
    if (!kda_is_kernel_va(kernel, info))
        status = kda_fail_at(&why, KDA_BAD_DATA, "kernel", info, "0x%016llx is no kernel address",
                             (unsigned long long)info);
    if (status == KDA_OK)
        status = kda_read_string(kernel, info, MAX_IMAGE_PATH_BYTES, &path, &why);
    if (status == KDA_NO_MEMORY)
        return kda_fail(err, status, "kernel", "out of memory for the process list");
    if (status != KDA_OK)
        kda_gaps_add(&kernel->gaps, "image_path", info, status, "path of process %llu: %s",
                     (unsigned long long)process->pid, why.text);
    else if (path[0])
        process->image = path;
    return KDA_OK;
}

struct ids {
    uint64_t of[3];
    size_t count;
};

static void add_id(struct ids *ids, uint64_t id)
{
    if (kda_pid_possible(id))
        ids->of[ids->count++] = id;
}

/* The id stands in the process, in its handle table and in the index of its entry in the CID table.
 * Two that agree are believed, and one that is alone; of several that all differ none. */
static void settle(struct kda_kernel *kernel, struct kda_process *process, struct ids *ids)
{
    uint64_t table_pid;
    size_t pick = 0, agree = 0;
    if (process->handle_table && kda_has_field(kernel, KDA_F_HANDLE_TABLE_UniqueProcessId) &&
        kda_read_field(kernel, process->handle_table, KDA_F_HANDLE_TABLE_UniqueProcessId,
                       &table_pid, NULL) == KDA_OK &&
        table_pid != 0)
        add_id(ids, table_pid);
    if (process->cid_va)
        add_id(ids, process->cid);
    for (size_t i = 0; i < ids->count; i++) {
        size_t same = 0;
        for (size_t k = 0; k < ids->count; k++)
            same += ids->of[k] == ids->of[i];
        pick = same > agree ? i : pick;
        agree = same > agree ? same : agree;
    }
    process->has_pid = ids->count == 1 || agree > 1;
    process->pid = process->has_pid ? ids->of[pick] : 0;
    if (agree < ids->count)
        kda_gaps_add(&kernel->gaps, "process", process->va, KDA_BAD_DATA,
                     "the process, its handle table and the CID table name several ids, %llu and "
                     "%llu among them",
                     (unsigned long long)ids->of[0], (unsigned long long)ids->of[ids->count - 1]);
}

void kda_process_settle(struct kda_kernel *kernel, struct kda_process *process)
{
    struct kda_proof proof;
    struct ids ids = {.count = 0};
    uint64_t own;
    kda_process_prove(kernel, process->va, &proof);
    if (!kda_proof_doubts(&proof,
                          process->va + kda_field_offset(kernel, KDA_F_EPROCESS_UniqueProcessId)) &&
        kda_read_field(kernel, process->va, KDA_F_EPROCESS_UniqueProcessId, &own, NULL) == KDA_OK)
        add_id(&ids, own);
    settle(kernel, process, &ids);
}

/* The handle table that the process names: it has to name the process, as all but System's do. */
static void read_table(struct reading *r)
{
    bool has;
    uint64_t owner, table = take(r, KDA_F_EPROCESS_ObjectTable, &has);
    if (!has || table == 0 || table == r->process->handle_table)
        return;
    enum kda_status status =
        kda_has_field(r->kernel, KDA_F_HANDLE_TABLE_QuotaProcess)
            ? kda_read_field(r->kernel, table, KDA_F_HANDLE_TABLE_QuotaProcess, &owner, NULL)
            : KDA_NO_SYMBOL;
    if (status == KDA_OK && owner != 0 && owner != r->process->va) {
        kda_gaps_add(&r->kernel->gaps, "handle_table", table, KDA_BAD_DATA,
                     "process 0x%016llx names this table, which names 0x%016llx",
                     (unsigned long long)r->process->va, (unsigned long long)owner);
        return;
    }
    r->process->handle_table = table;
}

static bool settled(const struct kda_kernel *kernel, enum kda_field_id field, bool has)
{
    return has || !kda_has_field(kernel, field);
}

enum kda_status kda_process_read(struct kda_kernel *kernel, struct kda_process *process,
                                 struct kda_error *err)
{
    struct reading r = {.kernel = kernel, .process = process};
    bool has_pid, has_name, has_job, has_silo, ignored;
    kda_process_prove(kernel, process->va, &r.proof);
    uint64_t pid = take(&r, KDA_F_EPROCESS_UniqueProcessId, &has_pid);
    read_table(&r);
    struct ids ids = {.count = 0};
    if (has_pid)
        add_id(&ids, pid);
    settle(kernel, process, &ids);
    enum kda_status status = read_name(&r, &has_name, err);
    if (status != KDA_OK)
        return status;
    process->readable = has_pid && has_name;
    process->ppid = take(&r, KDA_F_EPROCESS_InheritedFromUniqueProcessId, &process->has_ppid);
    process->create_time_100ns = take(&r, KDA_F_EPROCESS_CreateTime, &ignored);
    process->exit_time_100ns = take(&r, KDA_F_EPROCESS_ExitTime, &ignored);
    process->protection = (uint8_t)take(&r, KDA_F_EPROCESS_Protection, &process->has_protection);
    process->dtb = take(&r, KDA_F_KPROCESS_DirectoryTableBase, &ignored) &
                   ~(uint64_t)KDA_PAGE_MASK & 0x000fffffffffffffu;
    process->job = take(&r, KDA_F_EPROCESS_Job, &has_job);
    process->server_silo = take(&r, KDA_F_EPROCESS_ServerSilo, &has_silo);
    process->has_silo = settled(kernel, KDA_F_EPROCESS_Job, has_job) &&
                        settled(kernel, KDA_F_EPROCESS_ServerSilo, has_silo);
    return read_image_path(&r, err);
}
