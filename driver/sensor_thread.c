/*
 * sensor_thread.c - thread.create, thread.exit.
 *
 * The notification of a creation comes in the creator's context, that of an end in the thread that
 * ends, at PASSIVE_LEVEL or APC_LEVEL. Start address and module need PASSIVE_LEVEL.
 */
#include "driver.h"

#define KDA_MAPPED_NAME_BYTES 1040u /* UNICODE_STRING and 512 characters */
#define KDA_MAPPED_NAME_MOST (sizeof(UNICODE_STRING) + 0x10000u)

typedef struct _KDA_THREAD_SENSOR {
    EX_RUNDOWN_REF Running;
} KDA_THREAD_SENSOR;

static KDA_THREAD_SENSOR KdapSensor;

_IRQL_requires_max_(PASSIVE_LEVEL) static ULONGLONG KdapStartAddress(PETHREAD thread)
{
    ULONGLONG address = 0;
    ULONG returned;
    HANDLE handle;

    if (!NT_SUCCESS(ObOpenObjectByPointer(thread, OBJ_KERNEL_HANDLE, NULL, THREAD_QUERY_INFORMATION,
                                          NULL, KernelMode, &handle)))
        return 0;
    if (!NT_SUCCESS(ZwQueryInformationThread(handle, ThreadQuerySetWin32StartAddress, &address,
                                             sizeof address, &returned)))
        address = 0;
    ZwClose(handle);
    return address;
}

/* Name of what is mapped at `address` of a process; freed by the caller. */
_IRQL_requires_max_(PASSIVE_LEVEL) static UNICODE_STRING *KdapMappedName(ULONG pid,
                                                                         ULONGLONG address)
{
    UNICODE_STRING *name = NULL;
    SIZE_T bytes = KDA_MAPPED_NAME_BYTES, returned = 0;
    PEPROCESS process;
    HANDLE handle;
    NTSTATUS status;

    if (!NT_SUCCESS(PsLookupProcessByProcessId((HANDLE)(ULONG_PTR)pid, &process)))
        return NULL;
    status = ObOpenObjectByPointer(process, OBJ_KERNEL_HANDLE, NULL, PROCESS_QUERY_INFORMATION,
                                   NULL, KernelMode, &handle);
    ObDereferenceObject(process);
    if (!NT_SUCCESS(status))
        return NULL;
    for (ULONG tries = 0; tries < 2; tries++) {
        name = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_SCRATCH);
        if (name == NULL)
            break;
        status = ZwQueryVirtualMemory(handle, (PVOID)(ULONG_PTR)address,
                                      MemoryMappedFilenameInformation, name, bytes, &returned);
        if (NT_SUCCESS(status))
            break;
        ExFreePoolWithTag(name, KDA_TAG_SCRATCH);
        name = NULL;
        if (returned <= bytes || returned > KDA_MAPPED_NAME_MOST)
            break;
        bytes = returned;
    }
    ZwClose(handle);
    return name;
}

typedef struct _KDA_THREAD_START {
    ULONGLONG Address; /* 0: not known */
    UNICODE_STRING *Module;
    enum kda_omit_reason Reason;
} KDA_THREAD_START;

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapAskStart(ULONG pid, HANDLE threadId, KDA_THREAD_START *start)
{
    PETHREAD thread;

    start->Address = 0;
    start->Module = NULL;
    start->Reason = KDA_OMIT_IRQL;
    if (KeGetCurrentIrql() > PASSIVE_LEVEL)
        return;
    start->Reason = KDA_OMIT_FAILED;
    if (!NT_SUCCESS(PsLookupThreadByThreadId(threadId, &thread)))
        return;
    start->Address = KdapStartAddress(thread);
    ObDereferenceObject(thread);
    if (start->Address != 0)
        start->Module = KdapMappedName(pid, start->Address);
}

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapTellCreate(ULONG pid, HANDLE threadId, KDA_PROCESS *actor, KDA_PROCESS *target,
                   BOOLEAN first)
{
    ULONG creator = KdaPid(PsGetCurrentProcessId());
    struct kda_event_builder *builder;
    KDA_THREAD_START start;
    KDA_RECORD record;

    KdapAskStart(pid, threadId, &start);
    if (KdaRecordBegin(&record, KDA_KIND_THREAD_CREATE,
                       KdaActorBytes(actor) + (start.Module ? start.Module->Length : 0u))) {
        builder = &record.Builder;
        KdaRecordActor(&record, creator, KdaPid(PsGetCurrentThreadId()), actor);
        kda_event_set(builder, KDA_FIELD_THREAD_NEW_TID, KdaPid(threadId));
        kda_event_set(builder, KDA_FIELD_THREAD_TARGET_PID, pid);
        if (target != NULL && target->StartKey != 0)
            kda_event_set(builder, KDA_FIELD_THREAD_TARGET_KEY, target->StartKey);
        if (start.Address != 0)
            kda_event_set(builder, KDA_FIELD_THREAD_START_ADDRESS, start.Address);
        else
            kda_event_omit(builder, KDA_FIELD_THREAD_START_ADDRESS, start.Reason);
        if (start.Module != NULL)
            KdaRecordString(&record, KDA_FIELD_THREAD_START_MODULE, start.Module);
        else if (start.Address == 0)
            kda_event_omit(builder, KDA_FIELD_THREAD_START_MODULE, start.Reason);
        /* Whether it is the first thread is only known of a known process. */
        if (target != NULL || creator == pid)
            kda_event_set(builder, KDA_FIELD_THREAD_REMOTE, creator != pid && !first);
        else
            kda_event_omit(builder, KDA_FIELD_THREAD_REMOTE, KDA_OMIT_GONE);
        KdaRecordPush(&record);
    }
    if (start.Module != NULL)
        ExFreePoolWithTag(start.Module, KDA_TAG_SCRATCH);
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapCreated(ULONG pid, HANDLE threadId)
{
    KDA_PROCESS *target = KdaProcessKnow(pid);
    KDA_PROCESS *actor = KdaProcessKnow(KdaPid(PsGetCurrentProcessId()));
    KDA_SUBJECT subject = {KDA_KIND_THREAD_CREATE, KdaPid(PsGetCurrentProcessId()), actor, NULL,
                           NULL};
    BOOLEAN first = target != NULL && InterlockedCompareExchange(&target->Threads, 1, 0) == 0;

    if (KdaKindOn(KDA_KIND_THREAD_CREATE) && KdaFilterPass(&subject))
        KdapTellCreate(pid, threadId, actor, target, first);
    KdaProcessRelease(actor);
    KdaProcessRelease(target);
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapEnded(ULONG pid, HANDLE threadId)
{
    KDA_PROCESS *actor = KdaProcessKnow(pid);
    KDA_SUBJECT subject = {KDA_KIND_THREAD_EXIT, pid, actor, NULL, NULL};
    KDA_RECORD record;
    PETHREAD thread;

    if (KdaKindOn(KDA_KIND_THREAD_EXIT) && KdaFilterPass(&subject) &&
        KdaRecordBegin(&record, KDA_KIND_THREAD_EXIT, KdaActorBytes(actor))) {
        KdaRecordActor(&record, pid, KdaPid(threadId), actor);
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

/* PASSIVE_LEVEL or APC_LEVEL. */
_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapNotify(HANDLE processId, HANDLE threadId, BOOLEAN create)
{
    if (!ExAcquireRundownProtection(&KdapSensor.Running))
        return;
    if (create)
        KdapCreated(KdaPid(processId), threadId);
    else
        KdapEnded(KdaPid(processId), threadId);
    ExReleaseRundownProtection(&KdapSensor.Running);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapStart(KDA_DRIVER *driver)
{
    NTSTATUS status;

    PAGED_CODE();
    ExInitializeRundownProtection(&KdapSensor.Running);
    if (driver->Optional.SetCreateThreadNotifyRoutineEx != NULL)
        status = driver->Optional.SetCreateThreadNotifyRoutineEx(1, (PVOID)(ULONG_PTR)KdapNotify);
    else
        status = PsSetCreateThreadNotifyRoutine(KdapNotify);
    if (NT_SUCCESS(status))
        InterlockedExchange(&driver->ThreadsWatched, 1);
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    InterlockedExchange(&driver->ThreadsWatched, 0);
    PsRemoveCreateThreadNotifyRoutine(KdapNotify);
    ExWaitForRundownProtectionRelease(&KdapSensor.Running);
}

const KDA_SENSOR KdaThreadSensor = {"thread", KdapStart, KdapStop, NULL};
