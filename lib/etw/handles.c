/*
 * handles.c - the second witness: EtwConsumer and EtwRegistration objects in all handle tables, and
 * the processes that handles name.
 */
#include <string.h>

#include "internal.h"

struct handle_scan {
    struct kda_etw *etw;
    const struct kda_process *owner;
    uint8_t consumer_type, registration_type, process_type;
    bool has_consumer_type, has_registration_type, has_process_type;
};

static void note_handle(const struct handle_scan *scan, const struct kda_handle *handle,
                        uint64_t object_process, bool *has, uint64_t *value, uint64_t *pid,
                        uint64_t *entry_va)
{
    /* A duplicated handle shows up in several tables; the owner's own wins. */
    if (*has && scan->owner->va != object_process)
        return;
    *has = true;
    *value = handle->value;
    *pid = scan->owner->pid;
    *entry_va = handle->entry_va;
}

bool kda_etw_handle_agrees(struct kda_etw *etw, const char *what, uint64_t va, uint64_t pid,
                           uint64_t holder)
{
    if (holder == 0 || holder == pid)
        return true;
    kda_etw_gap(etw, what, va, KDA_BAD_DATA,
                "names process %llu as its own, and its handle is in the table of process %llu",
                (unsigned long long)pid, (unsigned long long)holder);
    return false;
}

static void on_consumer(struct handle_scan *scan, const struct kda_handle *handle)
{
    struct kda_etw_consumer *consumer =
        kda_etw_consumer(scan->etw, handle->object, KDA_CONSUMER_HANDLE, NULL);
    if (consumer)
        note_handle(scan, handle, consumer->process_va, &consumer->has_handle, &consumer->handle,
                    &consumer->handle_pid, &consumer->handle_va);
}

static void on_registration(struct handle_scan *scan, const struct kda_handle *handle)
{
    struct kda_etw_registration *reg =
        kda_etw_registration(scan->etw, handle->object, KDA_REG_HANDLE);
    if (reg)
        note_handle(scan, handle, reg->process_va, &reg->has_handle, &reg->handle, &reg->handle_pid,
                    &reg->handle_va);
}

static bool on_handle(void *context, const struct kda_handle *handle)
{
    struct handle_scan *scan = context;
    struct kda_etw *etw = scan->etw;
    uint8_t type;
    enum kda_status status = kda_object_type(etw->kernel, handle->header, &type, NULL);
    if (status != KDA_OK) {
        /* The lists may know what stands behind the missing header. */
        if (kda_map_get(&etw->consumer_by_va, handle->object, NULL))
            on_consumer(scan, handle);
        else if (kda_map_get(&etw->registration_by_va, handle->object, NULL))
            on_registration(scan, handle);
        else
            kda_etw_gap(etw, "object", handle->header, status,
                        "handle 0x%llx of process %llu: its object header cannot be read",
                        (unsigned long long)handle->value, (unsigned long long)scan->owner->pid);
        return !etw->out_of_memory;
    }
    if (scan->has_process_type && type == scan->process_type)
        etw->out_of_memory |= !kda_map_put(&etw->named_process, handle->object, 1);
    else if (scan->has_consumer_type && type == scan->consumer_type)
        on_consumer(scan, handle);
    else if (scan->has_registration_type && type == scan->registration_type)
        on_registration(scan, handle);
    return !etw->out_of_memory;
}

static bool find_type(struct kda_etw *etw, const char *name, uint8_t *index)
{
    struct kda_error why;
    enum kda_status status = kda_object_type_index(etw->kernel, name, index, &why);
    if (status == KDA_OK)
        return true;
    kda_etw_gap(etw, name, 0, status, "handles of this type not checked: %s", why.text);
    return false;
}

void kda_etw_read_handles(struct kda_etw *etw)
{
    struct handle_scan scan;
    const struct kda_process *processes;
    size_t count;
    memset(&scan, 0, sizeof(scan));
    scan.etw = etw;
    scan.has_consumer_type = find_type(etw, "EtwConsumer", &scan.consumer_type);
    scan.has_registration_type = find_type(etw, "EtwRegistration", &scan.registration_type);
    scan.has_process_type =
        kda_object_type_index(etw->kernel, "Process", &scan.process_type, NULL) == KDA_OK;
    enum kda_status found = kda_processes(etw->kernel, &processes, &count, NULL);
    if (found != KDA_OK) {
        kda_etw_gap(etw, "handle_table", 0, found,
                    "no process is known whose handles could be read");
        return;
    }
    for (size_t i = 0; i < count && !kda_etw_stop(etw); i++) {
        struct kda_error why;
        scan.owner = &processes[i];
        if (processes[i].handle_table == 0 ||
            kda_map_get(&etw->looked_at, processes[i].handle_table, NULL))
            continue;
        if (!kda_map_put(&etw->looked_at, processes[i].handle_table, 1)) {
            etw->out_of_memory = true;
            return;
        }
        enum kda_status status =
            kda_handles_walk(etw->kernel, processes[i].handle_table, false, on_handle, &scan, &why);
        if (status != KDA_OK)
            kda_etw_gap(etw, "handle_table", processes[i].handle_table, status, "process %llu: %s",
                        (unsigned long long)processes[i].pid, why.text);
    }
}
