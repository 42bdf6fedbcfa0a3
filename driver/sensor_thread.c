/*
 * sensor_thread.c - thread.create, thread.exit.
 *
 * The notification of a creation comes in the creator's context, that of an end in the thread that
 * ends, at PASSIVE_LEVEL or APC_LEVEL. The start address is asked at once. The module at it is
 * asked at once where it lies in the process that acts; the memory of another process is looked
 * into by the writer's thread, when it writes the line (KdaThreadComplete): the creator holds locks
 * of which nobody knows here, and waits for no other process.
 */
#include "driver.h"

#define KDA_MAPPED_NAME_BYTES 1040u /* UNICODE_STRING and 512 characters */
#define KDA_MAPPED_NAME_MOST (sizeof(UNICODE_STRING) + 0x10000u)

typedef struct _KDA_THREAD_SENSOR {
    KDA_RUNDOWN Running;
} KDA_THREAD_SENSOR;

static KDA_THREAD_SENSOR KdapSensor;

/* --- what the system knows of a thread ------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapStartAddress(PETHREAD thread, ULONGLONG *address)
{
    NTSTATUS status;
    ULONG returned;
    HANDLE handle;

    status = KDA_CALL(ObOpenObjectByPointer, (thread, OBJ_KERNEL_HANDLE, NULL,
                                              THREAD_QUERY_INFORMATION, NULL, KernelMode, &handle));
    if (!NT_SUCCESS(status))
        return status;
    status = KDA_CALL(ZwQueryInformationThread, (handle, ThreadQuerySetWin32StartAddress, address,
                                                 sizeof *address, &returned));
    ZwClose(handle);
    return status;
}

typedef struct _KDA_MODULE {
    UNICODE_STRING *Name;        /* in pool; NULL: none */
    enum kda_omit_reason Reason; /* why there is none; NONE: the memory belongs to no file */
} KDA_MODULE;

/* Name of what is mapped at `address`. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapMappedName(HANDLE process, ULONGLONG address, UNICODE_STRING **name)
{
    SIZE_T bytes = KDA_MAPPED_NAME_BYTES, returned = 0;
    NTSTATUS status = STATUS_UNSUCCESSFUL;

    for (ULONG tries = 0; tries < 2; tries++) {
        *name = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_SCRATCH);
        if (*name == NULL)
            return STATUS_INSUFFICIENT_RESOURCES;
        status = ZwQueryVirtualMemory(process, (PVOID)(ULONG_PTR)address,
                                      MemoryMappedFilenameInformation, *name, bytes, &returned);
        if (NT_SUCCESS(status))
            return status;
        ExFreePoolWithTag(*name, KDA_TAG_SCRATCH);
        *name = NULL;
        if (returned <= bytes || returned > KDA_MAPPED_NAME_MOST)
            break;
        bytes = returned;
    }
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapAskModule(PEPROCESS process, ULONGLONG address, KDA_MODULE *module)
{
    NTSTATUS status;
    HANDLE handle;

    module->Name = NULL;
    module->Reason = KDA_OMIT_NONE;
    status =
        KDA_CALL(ObOpenObjectByPointer, (process, OBJ_KERNEL_HANDLE, NULL,
                                         PROCESS_QUERY_INFORMATION, NULL, KernelMode, &handle));
    if (NT_SUCCESS(status)) {
        status = KdapMappedName(handle, address, &module->Name);
        ZwClose(handle);
        /* Memory of no file, or none at all: that is an answer. */
        if (status == STATUS_INVALID_ADDRESS || status == STATUS_FILE_INVALID ||
            status == STATUS_INVALID_PARAMETER)
            return;
        KdaCalled(__func__, "ZwQueryVirtualMemory", status);
    }
    if (!NT_SUCCESS(status))
        module->Reason = KdaOmitReason(status);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapPutModule(struct kda_event_builder *builder, KDA_MODULE *module)
{
    if (module->Name != NULL) {
        kda_event_string(builder, KDA_FIELD_THREAD_START_MODULE, module->Name->Buffer,
                         module->Name->Length / sizeof(WCHAR));
        ExFreePoolWithTag(module->Name, KDA_TAG_SCRATCH);
    } else if (module->Reason != KDA_OMIT_NONE) {
        kda_event_omit(builder, KDA_FIELD_THREAD_START_MODULE, module->Reason);
    }
}

/* The process that the record means, referenced. Its pid may be that of another one meanwhile. */
_IRQL_requires_max_(PASSIVE_LEVEL) static enum kda_omit_reason
    KdapTarget(const struct kda_event *event, PEPROCESS *process)
{
    uint64_t pid, key;

    if (KdaDriver->Optional.GetProcessStartKey == NULL ||
        !kda_event_get(event, KDA_FIELD_THREAD_TARGET_PID, &pid) ||
        !kda_event_get(event, KDA_FIELD_THREAD_TARGET_KEY, &key))
        return KDA_OMIT_UNSUPPORTED;
    if (!NT_SUCCESS(PsLookupProcessByProcessId((HANDLE)(ULONG_PTR)pid, process)))
        return KDA_OMIT_GONE;
    if (KdaDriver->Optional.GetProcessStartKey(*process) == key)
        return KDA_OMIT_NONE;
    ObDereferenceObject(*process);
    return KDA_OMIT_GONE;
}

_Use_decl_annotations_ const struct kda_event *KdaThreadComplete(const struct kda_event *event,
                                                                 PVOID buffer, SIZE_T bytes)
{
    KDA_MODULE module = {NULL, KDA_OMIT_NONE};
    struct kda_event_builder builder;
    PEPROCESS process;
    uint64_t address, pid;

    if (event->kind != KDA_KIND_THREAD_CREATE ||
        !kda_event_get(event, KDA_FIELD_THREAD_START_ADDRESS, &address) ||
        !kda_event_get(event, KDA_FIELD_THREAD_TARGET_PID, &pid) || pid == event->pid ||
        !kda_event_resume(&builder, buffer, bytes, event))
        return event;
    module.Reason = KdapTarget(event, &process);
    if (module.Reason == KDA_OMIT_NONE) {
        KdapAskModule(process, address, &module);
        ObDereferenceObject(process);
    }
    KdapPutModule(&builder, &module);
    kda_event_end(&builder);
    return builder.event;
}

/* --- records --------------------------------------------------------------------------------- */

typedef struct _KDA_THREAD_START {
    ULONGLONG Address; /* 0: not known */
    enum kda_omit_reason Reason;
    KDA_MODULE Module;
} KDA_THREAD_START;

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapAskStart(HANDLE threadId, BOOLEAN own, KDA_THREAD_START *start)
{
    PEPROCESS process;
    NTSTATUS status;
    PETHREAD thread;

    RtlZeroMemory(start, sizeof *start);
    start->Reason = KDA_OMIT_IRQL;
    if (!KdaMayAsk())
        return;
    start->Reason = KDA_OMIT_GONE;
    if (!NT_SUCCESS(PsLookupThreadByThreadId(threadId, &thread)))
        return;
    status = KdapStartAddress(thread, &start->Address);
    start->Reason = NT_SUCCESS(status) ? KDA_OMIT_FAILED : KdaOmitReason(status);
    if (!NT_SUCCESS(status))
        start->Address = 0;
    ObDereferenceObject(thread);
    if (start->Address == 0 || !own)
        return;
    start->Module.Reason = KDA_OMIT_GONE;
    if (!NT_SUCCESS(PsLookupProcessByProcessId(PsGetCurrentProcessId(), &process)))
        return;
    KdapAskModule(process, start->Address, &start->Module);
    ObDereferenceObject(process);
}

typedef struct _KDA_KNOWN {
    KDA_PROCESS *Process;
    enum kda_omit_reason Why; /* it is not known */
} KDA_KNOWN;

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapTellCreate(ULONG pid, HANDLE threadId, const KDA_KNOWN *actor, const KDA_KNOWN *target,
                   BOOLEAN first)
{
    ULONG creator = KdaPid(PsGetCurrentProcessId());
    struct kda_event_builder *builder;
    KDA_THREAD_START start;
    KDA_RECORD record;

    KdapAskStart(threadId, creator == pid, &start);
    if (!KdaRecordBegin(&record, KDA_KIND_THREAD_CREATE,
                        KdaActorBytes(actor->Process) +
                            (start.Module.Name ? start.Module.Name->Length : 0u))) {
        if (start.Module.Name != NULL)
            ExFreePoolWithTag(start.Module.Name, KDA_TAG_SCRATCH);
        return;
    }
    builder = &record.Builder;
    KdaRecordActor(&record, creator, KdaPid(PsGetCurrentThreadId()), actor->Process, actor->Why);
    kda_event_set(builder, KDA_FIELD_THREAD_NEW_TID, KdaPid(threadId));
    kda_event_set(builder, KDA_FIELD_THREAD_TARGET_PID, pid);
    if (target->Process != NULL && target->Process->StartKey != 0)
        kda_event_set(builder, KDA_FIELD_THREAD_TARGET_KEY, target->Process->StartKey);
    if (start.Address != 0) {
        kda_event_set(builder, KDA_FIELD_THREAD_START_ADDRESS, start.Address);
        KdapPutModule(builder, &start.Module);
    } else {
        kda_event_omit(builder, KDA_FIELD_THREAD_START_ADDRESS, start.Reason);
        kda_event_omit(builder, KDA_FIELD_THREAD_START_MODULE, start.Reason);
    }
    /* Whether it is the first thread is only known of a known process. */
    if (target->Process != NULL || creator == pid)
        kda_event_set(builder, KDA_FIELD_THREAD_REMOTE, creator != pid && !first);
    else
        kda_event_omit(builder, KDA_FIELD_THREAD_REMOTE, target->Why);
    KdaRecordPush(&record);
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapCreated(ULONG pid, HANDLE threadId)
{
    ULONG creator = KdaPid(PsGetCurrentProcessId());
    KDA_SUBJECT subject = {KDA_KIND_THREAD_CREATE, creator, NULL, NULL, NULL};
    KDA_KNOWN actor, target;
    BOOLEAN first;

    target.Process = KdaProcessKnow(pid, &target.Why);
    actor.Process = subject.Process = KdaProcessKnow(creator, &actor.Why);
    first =
        target.Process != NULL && InterlockedCompareExchange(&target.Process->Threads, 1, 0) == 0;
    if (KdaKindOn(KDA_KIND_THREAD_CREATE) && KdaFilterPass(&subject))
        KdapTellCreate(pid, threadId, &actor, &target, first);
    KdaProcessRelease(actor.Process);
    KdaProcessRelease(target.Process);
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapEnded(ULONG pid, HANDLE threadId)
{
    enum kda_omit_reason why;
    KDA_PROCESS *actor = KdaProcessKnow(pid, &why);
    KDA_SUBJECT subject = {KDA_KIND_THREAD_EXIT, pid, actor, NULL, NULL};
    KDA_RECORD record;
    PETHREAD thread;

    if (KdaKindOn(KDA_KIND_THREAD_EXIT) && KdaFilterPass(&subject) &&
        KdaRecordBegin(&record, KDA_KIND_THREAD_EXIT, KdaActorBytes(actor))) {
        KdaRecordActor(&record, pid, KdaPid(threadId), actor, why);
        if (NT_SUCCESS(PsLookupThreadByThreadId(threadId, &thread))) {
            kda_event_set(&record.Builder, KDA_FIELD_THREAD_EXIT_EXIT_CODE,
                          (ULONG)PsGetThreadExitStatus(thread));
            ObDereferenceObject(thread);
        } else {
            kda_event_omit(&record.Builder, KDA_FIELD_THREAD_EXIT_EXIT_CODE, KDA_OMIT_GONE);
        }
        KdaRecordPush(&record);
    }
    KdaProcessRelease(actor);
}

/* --- start and stop -------------------------------------------------------------------------- */

/* PASSIVE_LEVEL or APC_LEVEL. */
_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapNotify(HANDLE processId, HANDLE threadId, BOOLEAN create)
{
    if (!KdaRundownEnter(&KdapSensor.Running))
        return;
    if (create)
        KdapCreated(KdaPid(processId), threadId);
    else
        KdapEnded(KdaPid(processId), threadId);
    KdaRundownLeave(&KdapSensor.Running);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapStart(KDA_DRIVER *driver, const CHAR **call)
{
    NTSTATUS status;

    PAGED_CODE();
    status = KdaRundownStart(&KdapSensor.Running, call);
    if (!NT_SUCCESS(status))
        return status;
    if (driver->Optional.SetCreateThreadNotifyRoutineEx != NULL) {
        *call = "PsSetCreateThreadNotifyRoutineEx";
        status = driver->Optional.SetCreateThreadNotifyRoutineEx(1, (PVOID)(ULONG_PTR)KdapNotify);
    } else {
        *call = "PsSetCreateThreadNotifyRoutine";
        status = PsSetCreateThreadNotifyRoutine(KdapNotify);
    }
    if (NT_SUCCESS(status))
        InterlockedExchange(&driver->ThreadsWatched, 1);
    else
        KdaRundownFree(&KdapSensor.Running);
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStop(KDA_DRIVER *driver)
{
    NTSTATUS status;

    PAGED_CODE();
    InterlockedExchange(&driver->ThreadsWatched, 0);
    status = KDA_CALL(PsRemoveCreateThreadNotifyRoutine, (KdapNotify));
    KdaRundownStop(driver, &KdapSensor.Running, status);
}

const KDA_SENSOR KdaThreadSensor = {KDA_SENSOR_THREAD, KdapStart, KdapStop, NULL};
