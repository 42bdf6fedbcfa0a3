/*
 * ps_query.c - what a driver asks about processes and threads, tokens, and the driver's own
 * threads.
 */
#include "ps.h"

/* --- objects --------------------------------------------------------------------------------- */

static struct sim_proc *proc_of(const char *ddi, PEPROCESS process)
{
    const struct sim_object *object = sim_object_of(process);

    if (!object || object->type != SIM_TYPE_PROCESS)
        sim_bugcheck(ddi, "%p is no process", (void *)process);
    return (struct sim_proc *)(void *)process;
}

void *sim_current_process(void)
{
    return sim_self()->thread->process;
}

bool sim_object_is_going(const void *body)
{
    const struct sim_object *head = sim_object_of(body);

    if (head && head->type == SIM_TYPE_THREAD)
        return ((const struct sim_thr *)body)->ended;
    return head && head->type == SIM_TYPE_PROCESS &&
           (((const struct sim_proc *)body)->info.going || ((const struct sim_proc *)body)->ended);
}

NTSTATUS PsLookupProcessByProcessId(HANDLE processId, PEPROCESS *process)
{
    struct sim_proc *found;
    bool dying;

    SIM_DDI(APC_LEVEL, "PS-079");
    SIM_MAY_FAIL(STATUS_INVALID_CID);
    found = sim_proc_find((uint32_t)(uintptr_t)processId);
    if (!found)
        return STATUS_INVALID_CID;
    dying = found->info.dying;
    if (!dying) {
        sim_driver_ref(found);
        *process = (PEPROCESS)(void *)found;
    }
    sim_object_unref(found);
    return dying ? STATUS_INVALID_CID : STATUS_SUCCESS;
}

NTSTATUS PsLookupThreadByThreadId(HANDLE threadId, PETHREAD *thread)
{
    struct sim_thr *found;

    SIM_DDI(APC_LEVEL, "PS-083");
    SIM_MAY_FAIL(STATUS_INVALID_PARAMETER);
    found = sim_thr_find((uint32_t)(uintptr_t)threadId);
    if (!found)
        return STATUS_INVALID_PARAMETER;
    sim_driver_ref(found);
    *thread = (PETHREAD)(void *)found;
    sim_object_unref(found);
    return STATUS_SUCCESS;
}

HANDLE PsGetCurrentProcessId(VOID)
{
    SIM_DDI(HIGH_LEVEL, "PS-086");
    return (HANDLE)(uintptr_t)sim_self()->thread->process->pid;
}

HANDLE PsGetCurrentThreadId(VOID)
{
    SIM_DDI(HIGH_LEVEL, "PS-087");
    return (HANDLE)(uintptr_t)sim_self()->thread->tid;
}

HANDLE PsGetProcessId(PEPROCESS process)
{
    SIM_DDI(HIGH_LEVEL, "PS-088");
    return (HANDLE)(uintptr_t)proc_of(__func__, process)->pid;
}

LONGLONG PsGetProcessCreateTimeQuadPart(PEPROCESS process)
{
    SIM_DDI(HIGH_LEVEL, "PS-089");
    return (LONGLONG)proc_of(__func__, process)->create_time;
}

NTSTATUS PsGetProcessExitStatus(PEPROCESS process)
{
    SIM_DDI(APC_LEVEL, "PS-095");
    return proc_of(__func__, process)->exit_status;
}

LARGE_INTEGER PsGetProcessExitTime(VOID)
{
    LARGE_INTEGER time;

    SIM_DDI(DISPATCH_LEVEL, "PS-092");
    time.QuadPart = (LONGLONG)sim_self()->thread->process->exit_time;
    return time;
}

NTSTATUS PsGetThreadExitStatus(PETHREAD thread)
{
    const struct sim_object *object = sim_object_of(thread);

    SIM_DDI(APC_LEVEL, "PS-098");
    SIM_CHECK(object && object->type == SIM_TYPE_THREAD, "%p is no thread", (void *)thread);
    return ((struct sim_thr *)(void *)thread)->exit_status;
}

ULONGLONG PsGetProcessStartKey(PEPROCESS process)
{
    SIM_DDI(DISPATCH_LEVEL, NULL);
    return proc_of(__func__, process)->info.start_key;
}

UCHAR PsGetProcessSignatureLevel(PEPROCESS process, PUCHAR sectionLevel)
{
    SIM_DDI(DISPATCH_LEVEL, NULL);
    *sectionLevel = 0;
    return proc_of(__func__, process)->info.signature_level;
}

NTSTATUS SeLocateProcessImageName(PEPROCESS process, PUNICODE_STRING *name)
{
    const struct sim_proc *p;
    PUNICODE_STRING made;
    size_t bytes;

    SIM_DDI(PASSIVE_LEVEL, "PS-103");
    p = proc_of(__func__, process);
    SIM_MAY_FAIL_PLANNED();
    bytes = p->image.count * 2;
    made = sim_pool_alloc(__func__, true, sizeof(*made) + bytes + 2, 0x6D6E6553 /* Senm */, true,
                          __builtin_return_address(0));
    if (!made)
        return STATUS_INSUFFICIENT_RESOURCES;
    made->Length = (USHORT)bytes;
    made->MaximumLength = (USHORT)(bytes + 2);
    made->Buffer = (PWSTR)(made + 1);
    if (bytes)
        memcpy(made->Buffer, p->image.units, bytes);
    *name = made;
    return STATUS_SUCCESS;
}

/* --- queries by handle ----------------------------------------------------------------------- */

/* Not in nt.h, because the driver does not look at them. */
#define PROCESS_WOW64 26u
#define PROCESS_IMAGE_FILE_NAME 27u
#define INVALID_INFO_CLASS NTSTATUS_OF(0xC0000003)

/* Services that answer about a process or thread complete by special kernel APCs. */
#define SIM_DDI_QUERY(usual, class_)                                                               \
    do {                                                                                           \
        NTSTATUS planned_;                                                                         \
        sim_ddi_apcs(__func__, "PS-123");                                                          \
        if (sim_fails(__func__, (class_), (usual), &planned_))                                     \
            return planned_;                                                                       \
    } while (0)

/* Text behind a UNICODE_STRING that points to it, as several classes answer. */
static NTSTATUS answer_string(struct sim_str text, PVOID information, ULONG length, PULONG returned)
{
    ULONG bytes = (ULONG)(sizeof(UNICODE_STRING) + text.count * 2);
    UNICODE_STRING *string = information;

    if (returned)
        *returned = bytes;
    if (length < bytes)
        return STATUS_INFO_LENGTH_MISMATCH;
    string->Length = string->MaximumLength = (USHORT)(text.count * 2);
    string->Buffer = (PWSTR)(string + 1);
    if (text.count)
        memcpy(string->Buffer, text.units, text.count * 2);
    return STATUS_SUCCESS;
}

static NTSTATUS answer(const void *value, ULONG bytes, PVOID information, ULONG length,
                       PULONG returned)
{
    if (returned)
        *returned = bytes;
    if (length != bytes)
        return STATUS_INFO_LENGTH_MISMATCH;
    memcpy(information, value, bytes);
    return STATUS_SUCCESS;
}

static NTSTATUS query_process(const struct sim_proc *p, ULONG class_, PVOID information,
                              ULONG length, PULONG returned)
{
    struct sim_str command = {p->command_line.units, p->command_line.count};
    PROCESS_BASIC_INFORMATION basic;
    struct sim_str image = {p->image.units, p->image.count};
    ULONG subsystem = p->info.wsl;
    uint64_t wow64 = p->info.wow64 ? 0x7FFD0000u : 0;

    switch (class_) {
    case ProcessBasicInformation:
        memset(&basic, 0, sizeof(basic));
        basic.ExitStatus = p->exit_status;
        basic.UniqueProcessId = p->pid;
        basic.InheritedFromUniqueProcessId = p->parent_pid;
        return answer(&basic, sizeof(basic), information, length, returned);
    case ProcessCommandLineInformation:
        return answer_string(command, information, length, returned);
    case ProcessProtectionInformation:
        return answer(&p->info.protection, 1, information, length, returned);
    case ProcessSubsystemInformation:
        return answer(&subsystem, 4, information, length, returned);
    case PROCESS_WOW64:
        return answer(&wow64, sizeof(wow64), information, length, returned);
    case PROCESS_IMAGE_FILE_NAME:
        return answer_string(image, information, length, returned);
    default:
        return INVALID_INFO_CLASS;
    }
}

NTSTATUS ZwQueryInformationProcess(HANDLE process, ULONG class_, PVOID information, ULONG length,
                                   PULONG returned)
{
    struct sim_proc *p;
    NTSTATUS status;

    SIM_DDI_QUERY(STATUS_INSUFFICIENT_RESOURCES, class_);
    p = sim_handle_body_for(process, SIM_TYPE_PROCESS, 0, &status);
    if (!p)
        return status;
    status = query_process(p, class_, information, length, returned);
    sim_object_unref(p);
    return status;
}

NTSTATUS ZwQueryInformationThread(HANDLE thread, ULONG class_, PVOID information, ULONG length,
                                  PULONG returned)
{
    struct sim_thr *t;
    NTSTATUS status;

    SIM_DDI_QUERY(STATUS_INSUFFICIENT_RESOURCES, class_);
    if (class_ != ThreadQuerySetWin32StartAddress)
        return INVALID_INFO_CLASS;
    t = sim_handle_body_for(thread, SIM_TYPE_THREAD, 0, &status);
    if (!t)
        return status;
    if (t->no_start_address)
        status = STATUS_ACCESS_DENIED;
    else
        status = answer(&t->start_address, 8, information, length, returned);
    sim_object_unref(t);
    return status;
}

#define MEMORY_BASIC 0u
#define USER_LIMIT UINT64_C(0x7FFFFFFF0000)
struct memory_basic_information {
    PVOID BaseAddress;
    PVOID AllocationBase;
    ULONG AllocationProtect;
    USHORT PartitionId;
    SIZE_T RegionSize;
    ULONG State;
    ULONG Protect;
    ULONG Type;
};

static NTSTATUS query_memory(struct sim_proc *p, uint64_t base, PVOID information, SIZE_T length,
                             PSIZE_T returned)
{
    struct memory_basic_information basic;
    struct sim_memory found;

    if (base >= USER_LIMIT)
        return STATUS_INVALID_PARAMETER;
    if (length < sizeof(basic))
        return STATUS_INFO_LENGTH_MISMATCH;
    base &= ~UINT64_C(0xFFF);
    /* What means nothing for a free range is rubbish. */
    memset(&basic, 0xEE, sizeof(basic));
    basic.BaseAddress = (PVOID)(uintptr_t)base;
    basic.RegionSize = 0x1000;
    basic.State = 0x10000; /* MEM_FREE */
    if (sim_memory_at(p->pid, base, &found)) {
        basic.AllocationBase = (PVOID)(uintptr_t)found.base;
        basic.AllocationProtect = basic.Protect = found.protect;
        basic.RegionSize = found.base + found.size - base;
        basic.State = 0x1000; /* MEM_COMMIT */
        basic.Type = found.type;
    }
    memcpy(information, &basic, sizeof(basic));
    if (returned)
        *returned = sizeof(basic);
    return STATUS_SUCCESS;
}

NTSTATUS ZwQueryVirtualMemory(HANDLE process, PVOID base, ULONG class_, PVOID information,
                              SIZE_T length, PSIZE_T returned)
{
    struct sim_proc *p;
    struct sim_wide name = {NULL, 0};
    struct sim_str text;
    ULONG bytes = 0;
    NTSTATUS status;

    SIM_DDI_QUERY(STATUS_INSUFFICIENT_RESOURCES, class_);
    if (class_ != MemoryMappedFilenameInformation && class_ != MEMORY_BASIC)
        return INVALID_INFO_CLASS;
    p = sim_handle_body_for(process, SIM_TYPE_PROCESS, 0, &status);
    if (!p)
        return status;
    /* Only the file system knows the name. */
    if (class_ == MemoryMappedFilenameInformation)
        sim_ddi_io(__func__, "OB-017");
    if (class_ == MEMORY_BASIC) {
        status = query_memory(p, (uint64_t)(uintptr_t)base, information, length, returned);
        sim_object_unref(p);
        return status;
    }
    if (!sim_module_at(p->pid, (uint64_t)(uintptr_t)base, &name)) {
        sim_object_unref(p);
        return STATUS_INVALID_PARAMETER;
    }
    text.units = name.units;
    text.count = name.count;
    status = answer_string(text, information, (ULONG)length, &bytes);
    if (returned)
        *returned = bytes;
    if (status == STATUS_INFO_LENGTH_MISMATCH && length >= sizeof(UNICODE_STRING))
        status = STATUS_BUFFER_OVERFLOW;
    sim_wide_free(&name);
    sim_object_unref(p);
    return status;
}

/* --- the list of processes ------------------------------------------------------------------- */

struct listing {
    uint8_t *at;
    size_t left;
    size_t needed;
    ULONG *last_next;
};

static void list_process(struct sim_proc *p, void *context)
{
    struct listing *l = context;
    size_t name_units = p->image.count;
    size_t begin = p->image.count;
    size_t bytes;
    SYSTEM_PROCESS_INFORMATION *entry = (void *)l->at;

    /* The list has the last part of the path only. */
    while (begin > 0 && p->image.units[begin - 1] != '\\')
        begin--;
    name_units -= begin;
    bytes = (sizeof(*entry) + 64 + name_units * 2 + 15) & ~(size_t)15;
    l->needed += bytes;
    if (l->left < bytes) {
        l->left = 0;
        return;
    }
    memset(entry, 0, bytes);
    entry->NextEntryOffset = (ULONG)bytes;
    entry->CreateTime.QuadPart = (LONGLONG)p->create_time;
    entry->UniqueProcessId = (HANDLE)(uintptr_t)p->pid;
    entry->InheritedFromUniqueProcessId = (HANDLE)(uintptr_t)p->parent_pid;
    entry->SessionId = p->info.session;
    for (const struct sim_thr *t = p->threads; t; t = t->sibling)
        entry->NumberOfThreads++;
    entry->ImageName.Length = entry->ImageName.MaximumLength = (USHORT)(name_units * 2);
    entry->ImageName.Buffer = (PWSTR)(void *)(l->at + sizeof(*entry) + 64);
    if (name_units)
        memcpy(entry->ImageName.Buffer, p->image.units + begin, name_units * 2);
    l->last_next = &entry->NextEntryOffset;
    l->at += bytes;
    l->left -= bytes;
}

NTSTATUS ZwQuerySystemInformation(ULONG class_, PVOID information, ULONG length, PULONG returned)
{
    static struct sim_proc idle; /* pid 0 comes first and can never be looked up */
    struct listing l = {information, length, 0, NULL};

    SIM_DDI_QUERY(STATUS_INSUFFICIENT_RESOURCES, class_);
    if (class_ != SystemProcessInformation)
        return INVALID_INFO_CLASS;
    list_process(&idle, &l);
    sim_proc_walk(list_process, &l);
    if (returned)
        *returned = (ULONG)l.needed;
    if (l.needed > length)
        return STATUS_INFO_LENGTH_MISMATCH;
    *l.last_next = 0;
    return STATUS_SUCCESS;
}

/* --- tokens ---------------------------------------------------------------------------------- */

/* A token is a view of its process. */
struct token {
    struct sim_proc *process;
};

static void token_destroy(void *body)
{
    if (!sim.ending)
        sim_object_unref(((struct token *)body)->process);
}

NTSTATUS ZwOpenProcessTokenEx(HANDLE process, ACCESS_MASK access, ULONG attributes, PHANDLE token)
{
    struct sim_proc *p;
    struct token *made;
    NTSTATUS status;

    SIM_DDI(PASSIVE_LEVEL, "ZW-028");
    SIM_RULE("ZW-029", !(attributes & ~OBJ_KERNEL_HANDLE), "attributes 0x%X", attributes);
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    p = sim_handle_body_for(process, SIM_TYPE_PROCESS, PROCESS_QUERY_INFORMATION, &status);
    if (!p)
        return status;
    made = sim_object_create(SIM_TYPE_TOKEN, sizeof(*made), token_destroy);
    made->process = p;
    status = sim_handle_open(__func__, made, access, attributes, token);
    sim_object_unref(made);
    return status;
}

static NTSTATUS answer_sid(const uint8_t *sid, size_t bytes, PVOID information, ULONG length,
                           PULONG returned)
{
    SID_AND_ATTRIBUTES *out = information;

    *returned = (ULONG)(sizeof(*out) + bytes);
    if (length < *returned)
        return STATUS_BUFFER_TOO_SMALL;
    memset(out, 0, sizeof(*out));
    out->Sid = out + 1;
    memcpy(out + 1, sid, bytes);
    return STATUS_SUCCESS;
}

NTSTATUS ZwQueryInformationToken(HANDLE token, ULONG class_, PVOID information, ULONG length,
                                 PULONG returned)
{
    uint8_t level[12] = {1, 1, 0, 0, 0, 0, 0, 16};
    const struct sim_process *info;
    struct token *t;
    ULONG value;
    NTSTATUS status;

    SIM_DDI(PASSIVE_LEVEL, "ZW-032");
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    t = sim_handle_body_for(token, SIM_TYPE_TOKEN, TOKEN_QUERY, &status);
    if (!t)
        return status;
    info = &t->process->info;
    switch (class_) {
    case TokenUser:
        status = answer_sid(info->sid, info->sid_size, information, length, returned);
        break;
    case TokenIntegrityLevel:
        memcpy(level + 8, &info->integrity, 4);
        status = answer_sid(level, sizeof(level), information, length, returned);
        break;
    case TokenSessionId:
        value = info->session;
        status = answer(&value, 4, information, length, returned);
        break;
    case TokenElevation:
        value = info->elevated;
        status = answer(&value, 4, information, length, returned);
        break;
    default:
        status = INVALID_INFO_CLASS;
    }
    sim_object_unref(t);
    return status;
}

/* --- the driver's threads -------------------------------------------------------------------- */

static unsigned threads_running; /* under the dispatcher lock */

static _Noreturn void thread_end(NTSTATUS status)
{
    struct sim_ctx *self = sim_self();
    struct sim_thr *t = self->thread;

    SIM_CHECK(self->irql == PASSIVE_LEVEL, "a thread ends at IRQL %u", self->irql);
    SIM_CHECK(self->held_count == 0, "a thread ends with %u locks held", self->held_count);
    t->exit_status = status;
    self->inside = 0;
    sim_item_remove(&t->item);
    self->thread = sim_system_thread();
    /* Waiters are let go as the last thing; then nothing of the driver is touched any more. */
    sim_thr_remove(t);
    sim_object_unref(t);
    sim_dispatcher_lock();
    threads_running--;
    sim_dispatcher_wake();
    sim_dispatcher_unlock();
    pthread_exit(NULL);
}

static void *thread_main(void *context)
{
    struct sim_thr *t = context;
    struct sim_ctx *self = sim_self();
    struct sim_call call;

    self->thread = t;
    self->driver_thread = true;
    self->critical = 1;
    sim_call_enter(&call, "system thread", (const void *)(uintptr_t)t->routine, "PS-111",
                   PASSIVE_LEVEL);
    t->routine(t->context);
    thread_end(STATUS_SUCCESS);
}

NTSTATUS PsCreateSystemThread(PHANDLE thread, ULONG access, POBJECT_ATTRIBUTES attributes,
                              HANDLE process, PCLIENT_ID clientId, PKSTART_ROUTINE routine,
                              PVOID context)
{
    pthread_attr_t host;
    pthread_t id;
    struct sim_thr *made;
    NTSTATUS status;

    SIM_DDI(PASSIVE_LEVEL, "PS-107");
    SIM_RULE("PS-109", !process && !clientId, "threads are made in the System process only");
    SIM_RULE("PS-108", !attributes || !(attributes->Attributes & 0xB0u),
             "attributes 0x%X are not for threads", attributes ? attributes->Attributes : 0);
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    made = sim_thr_make(sim_system_thread()->process, 0);
    made->routine = routine;
    made->context = context;
    status =
        sim_handle_open(__func__, made, access, attributes ? attributes->Attributes : 0, thread);
    sim_item_add(&made->item, SIM_THREAD, made, "", 0, __builtin_return_address(0));
    sim_object_ref(made);
    sim_dispatcher_lock();
    threads_running++;
    sim_dispatcher_unlock();
    pthread_attr_init(&host);
    pthread_attr_setdetachstate(&host, PTHREAD_CREATE_DETACHED);
    SIM_CHECK(!pthread_create(&id, &host, thread_main, made), "the host makes no thread");
    pthread_attr_destroy(&host);
    return status;
}

NTSTATUS PsTerminateSystemThread(NTSTATUS status)
{
    SIM_DDI(PASSIVE_LEVEL, "PS-114");
    if (sim_self()->thread->process->pid != 4)
        return STATUS_INVALID_PARAMETER;
    SIM_RULE("PS-114", sim_self()->driver_thread, "not called by a system thread of the driver");
    thread_end(status);
}

static bool threads_gone(const void *context)
{
    (void)context;
    return threads_running == 0;
}

void sim_threads_end(void)
{
    sim_wait_until("simulator", NULL, threads_gone, NULL);
}
