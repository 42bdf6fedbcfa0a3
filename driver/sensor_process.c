/*
 * sensor_process.c - process.create, process.exit, process.existing.
 *
 * The callback is registered first and the processes that run already are told afterwards; the
 * cache decides who came first, so that each process is told once and before anything it does. The
 * other sensors start after that.
 *
 * All of it runs at PASSIVE_LEVEL: the notification is called there, and so is the start.
 */
#include "driver.h"

#define KDA_LIST_FIRST_BYTES 0x40000u
#define KDA_LIST_MOST_BYTES 0x4000000u
#define KDA_COMMAND_LINE_MOST_BYTES (sizeof(UNICODE_STRING) + 0x10000u)

typedef struct _KDA_PROCESS_SENSOR {
    KDA_RUNDOWN Running;
    BOOLEAN Ex2;
} KDA_PROCESS_SENSOR;

static KDA_PROCESS_SENSOR KdapSensor;

/* --- what the system knows of a process ------------------------------------------------------ */

_IRQL_requires_max_(PASSIVE_LEVEL) static ULONGLONG KdapStartKey(PEPROCESS process)
{
    return KdaDriver->Optional.GetProcessStartKey ? KdaDriver->Optional.GetProcessStartKey(process)
                                                  : 0;
}

/* The start key of a parent. The pid may have been used again since: a process younger than its
 * child is not the parent. */
_IRQL_requires_max_(PASSIVE_LEVEL) static ULONGLONG
    KdapParentKey(ULONG parentPid, LONGLONG childTime)
{
    KDA_PROCESS *known = KdaProcessFind(parentPid);
    PEPROCESS parent;
    ULONGLONG key = 0;

    if (known != NULL) {
        if (known->CreateTime <= childTime)
            key = known->StartKey;
        KdaProcessRelease(known);
        return key;
    }
    if (KeGetCurrentIrql() > APC_LEVEL ||
        !NT_SUCCESS(PsLookupProcessByProcessId((HANDLE)(ULONG_PTR)parentPid, &parent)))
        return 0;
    if (PsGetProcessCreateTimeQuadPart(parent) <= childTime)
        key = KdapStartKey(parent);
    ObDereferenceObject(parent);
    return key;
}

/* --- records --------------------------------------------------------------------------------- */

/* What create and existing have in common; the strings and parent are the caller's. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapDescribe(KDA_RECORD *record, PEPROCESS process, const KDA_PROCESS *entry,
                 BOOLEAN subsystemKnown)
{
    KdaRecordActor(record, entry->Pid, KDA_NO_TID, entry, KDA_OMIT_NONE);
    kda_event_set(&record->Builder, KDA_FIELD_PROCESS_CREATE_TIME, (uint64_t)entry->CreateTime);
    KdaProcessFields(record, process, subsystemKnown);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapParent(KDA_RECORD *record, ULONG parentPid, LONGLONG childTime)
{
    ULONGLONG key = KdapParentKey(parentPid, childTime);

    kda_event_set(&record->Builder, KDA_FIELD_PROCESS_PARENT_PID, parentPid);
    if (key != 0)
        kda_event_set(&record->Builder, KDA_FIELD_PROCESS_PARENT_KEY, key);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN KdapWanted(ULONG kind, KDA_PROCESS *entry)
{
    KDA_SUBJECT subject = {kind, entry->Pid, entry, NULL, NULL};

    return KdaKindOn(kind) && KdaFilterPass(&subject);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static SIZE_T KdapStringBytes(PCUNICODE_STRING string)
{
    return string ? string->Length : 0;
}

/* Makes the record of a creation. FALSE: there is none. */
_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapMakeCreate(KDA_RECORD *record, PEPROCESS process, const PS_CREATE_NOTIFY_INFO *info,
                   KDA_PROCESS *entry, BOOLEAN wholeName)
{
    struct kda_event_builder *builder = &record->Builder;

    if (!KdapWanted(KDA_KIND_PROCESS_CREATE, entry) ||
        !KdaRecordBegin(record, KDA_KIND_PROCESS_CREATE,
                        KdaActorBytes(entry) + KDA_SID_MOST_BYTES +
                            KdapStringBytes(info->CommandLine)))
        return FALSE;
    KdapDescribe(record, process, entry, TRUE);
    if (!wholeName && entry->Image.Length != 0)
        kda_event_cut(builder, KDA_FIELD_IMAGE);
    if (info->CommandLine != NULL)
        KdaRecordString(record, KDA_FIELD_PROCESS_COMMAND_LINE, info->CommandLine);
    else
        kda_event_omit(builder, KDA_FIELD_PROCESS_COMMAND_LINE, KDA_OMIT_UNSUPPORTED);
    KdapParent(record, KdaPid(info->ParentProcessId), entry->CreateTime);
    kda_event_set(builder, KDA_FIELD_PROCESS_CREATOR_PID,
                  KdaPid(info->CreatingThreadId.UniqueProcess));
    kda_event_set(builder, KDA_FIELD_PROCESS_CREATOR_TID,
                  KdaPid(info->CreatingThreadId.UniqueThread));
    kda_event_set(builder, KDA_FIELD_PROCESS_SUBSYSTEM,
                  info->Flags & KDA_NOTIFY_IS_SUBSYSTEM_PROCESS ? KDA_SUBSYSTEM_WSL
                                                                : KDA_SUBSYSTEM_WIN32);
    return TRUE;
}

/* What only the process itself can tell when its creation was not seen. */
typedef struct _KDA_EXISTING {
    ULONG ParentPid;
    UNICODE_STRING *Line; /* in pool; NULL: not known */
    enum kda_omit_reason ParentReason;
    enum kda_omit_reason LineReason;
} KDA_EXISTING;

/* The command line is in the process's own memory and is copied out by the system. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapAskLine(HANDLE handle, UNICODE_STRING **line)
{
    ULONG returned = 0;
    NTSTATUS status =
        ZwQueryInformationProcess(handle, ProcessCommandLineInformation, NULL, 0, &returned);

    if (returned < sizeof **line || returned > KDA_COMMAND_LINE_MOST_BYTES)
        return KdaCalled(__func__, "ZwQueryInformationProcess",
                         NT_SUCCESS(status) ? STATUS_UNSUCCESSFUL : status);
    *line = ExAllocatePoolWithTag(PagedPool, returned, KDA_TAG_SCRATCH);
    if (*line == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    status = KDA_CALL(ZwQueryInformationProcess,
                      (handle, ProcessCommandLineInformation, *line, returned, &returned));
    if (!NT_SUCCESS(status)) {
        ExFreePoolWithTag(*line, KDA_TAG_SCRATCH);
        *line = NULL;
    }
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapAsk(PEPROCESS process, KDA_EXISTING *existing)
{
    PROCESS_BASIC_INFORMATION basic;
    ULONG returned = 0;
    NTSTATUS status;
    HANDLE handle;

    RtlZeroMemory(existing, sizeof *existing);
    existing->ParentReason = existing->LineReason = KDA_OMIT_IRQL;
    if (!KdaMayAsk())
        return;
    existing->ParentReason = existing->LineReason = KDA_OMIT_NONE;
    status =
        KDA_CALL(ObOpenObjectByPointer, (process, OBJ_KERNEL_HANDLE, NULL,
                                         PROCESS_QUERY_INFORMATION, NULL, KernelMode, &handle));
    if (!NT_SUCCESS(status)) {
        existing->ParentReason = existing->LineReason = KdaOmitReason(status);
        return;
    }
    status = KDA_CALL(ZwQueryInformationProcess,
                      (handle, ProcessBasicInformation, &basic, sizeof basic, &returned));
    if (NT_SUCCESS(status))
        existing->ParentPid = (ULONG)basic.InheritedFromUniqueProcessId;
    else
        existing->ParentReason = KdaOmitReason(status);
    status = KdapAskLine(handle, &existing->Line);
    if (!NT_SUCCESS(status))
        existing->LineReason = KdaOmitReason(status);
    ZwClose(handle);
}

/* Makes the record of a process that runs. FALSE: there is none. */
_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapMakeExisting(KDA_RECORD *record, PEPROCESS process, KDA_PROCESS *entry)
{
    struct kda_event_builder *builder = &record->Builder;
    KDA_EXISTING existing;
    BOOLEAN made;

    if (!KdapWanted(KDA_KIND_PROCESS_EXISTING, entry))
        return FALSE;
    KdapAsk(process, &existing);
    made =
        KdaRecordBegin(record, KDA_KIND_PROCESS_EXISTING,
                       KdaActorBytes(entry) + KDA_SID_MOST_BYTES + KdapStringBytes(existing.Line));
    if (made) {
        KdapDescribe(record, process, entry, FALSE);
        if (existing.Line != NULL)
            KdaRecordString(record, KDA_FIELD_PROCESS_COMMAND_LINE, existing.Line);
        else
            kda_event_omit(builder, KDA_FIELD_PROCESS_COMMAND_LINE, existing.LineReason);
        if (existing.ParentReason == KDA_OMIT_NONE)
            KdapParent(record, existing.ParentPid, entry->CreateTime);
        else
            kda_event_omit(builder, KDA_FIELD_PROCESS_PARENT_PID, existing.ParentReason);
    }
    if (existing.Line != NULL)
        ExFreePoolWithTag(existing.Line, KDA_TAG_SCRATCH);
    return made;
}

/* --- coming and going ------------------------------------------------------------------------ */

/* An entry that is not in the cache yet. `*located`: its image is the whole path. */
_IRQL_requires_max_(PASSIVE_LEVEL) static KDA_PROCESS *KdapMakeByPointer(PEPROCESS process,
                                                                         ULONG pid,
                                                                         PCUNICODE_STRING fallback,
                                                                         BOOLEAN *located)
{
    enum kda_omit_reason reason = KDA_OMIT_IRQL;
    PUNICODE_STRING image = NULL;
    KDA_PROCESS *entry;

    *located = FALSE;
    if (KdaMayAsk()) {
        NTSTATUS status = KDA_CALL(SeLocateProcessImageName, (process, &image));
        *located = NT_SUCCESS(status) && image != NULL;
        reason = NT_SUCCESS(status) ? KDA_OMIT_NONE : KdaOmitReason(status);
    }
    if (*located && image->Length != 0)
        fallback = image;
    entry = KdaProcessMake(pid, KdapStartKey(process), PsGetProcessCreateTimeQuadPart(process),
                           fallback);
    if (entry != NULL && entry->Image.Length == 0)
        entry->ImageReason = reason;
    if (*located)
        ExFreePool(image);
    return entry;
}

/* A process that nobody has told yet, as far as is known here: others may be about to. */
_IRQL_requires_max_(PASSIVE_LEVEL) static KDA_PROCESS *KdapKnowByPointer(PEPROCESS process,
                                                                         ULONG pid,
                                                                         PCUNICODE_STRING fallback)
{
    KDA_PROCESS *entry = KdaProcessSame(pid, PsGetProcessCreateTimeQuadPart(process));
    KDA_RECORD record;
    BOOLEAN located;

    if (entry != NULL)
        return entry;
    entry = KdapMakeByPointer(process, pid, fallback, &located);
    if (entry == NULL)
        return NULL;
    entry->Threads = -1;
    return KdaProcessAdd(entry, KdapMakeExisting(&record, process, entry) ? &record : NULL);
}

_Use_decl_annotations_ KDA_PROCESS *KdaProcessKnow(ULONG pid, enum kda_omit_reason *why)
{
    KDA_PROCESS *entry = KdaProcessFind(pid);
    PEPROCESS process;

    *why = KDA_OMIT_NONE;
    if (entry != NULL)
        return entry;
    *why = KDA_OMIT_GONE;
    if (pid == 0)
        return NULL;
    *why = KDA_OMIT_IRQL;
    if (!KdaMayAsk())
        return NULL;
    *why = KDA_OMIT_GONE;
    if (!NT_SUCCESS(PsLookupProcessByProcessId((HANDLE)(ULONG_PTR)pid, &process)))
        return NULL;
    *why = KDA_OMIT_MEMORY;
    entry = KdapKnowByPointer(process, pid, NULL);
    ObDereferenceObject(process);
    return entry;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapRefused(PEPROCESS process, ULONG pid)
{
    KDA_PROCESS *entry =
        KdaProcessMake(pid, KdapStartKey(process), PsGetProcessCreateTimeQuadPart(process), NULL);

    if (entry == NULL)
        return;
    entry->Refused = TRUE;
    entry = KdaProcessAdd(entry, NULL);
    KdaProcessExited(entry);
    KdaProcessRelease(entry);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapCreated(PEPROCESS process, ULONG pid, const PS_CREATE_NOTIFY_INFO *info)
{
    KDA_PROCESS *entry;
    KDA_RECORD record;
    BOOLEAN located;

    /* Another callback refused the creation: the process will not run, but an end of it may come.
     */
    if (!NT_SUCCESS(info->CreationStatus)) {
        KdapRefused(process, pid);
        return;
    }
    /* Told by the rundown already? */
    entry = KdaProcessSame(pid, PsGetProcessCreateTimeQuadPart(process));
    if (entry != NULL) {
        KdaProcessRelease(entry);
        return;
    }
    entry = KdapMakeByPointer(process, pid, info->ImageFileName, &located);
    if (entry == NULL) {
        if (KdaKindOn(KDA_KIND_PROCESS_CREATE))
            KdaMonEventQueueLose(KDA_KIND_PROCESS_CREATE, KDA_EVENT_MIN_BYTES);
        return;
    }
    /* Its first thread will not be seen: none that is seen is taken for it. */
    if (!ReadAcquire(&KdaDriver->ThreadsWatched))
        entry->Threads = -1;
    located = located || (info->Flags & KDA_NOTIFY_FILE_OPEN_NAME_AVAILABLE);
    entry = KdaProcessAdd(entry,
                          KdapMakeCreate(&record, process, info, entry, located) ? &record : NULL);
    KdaProcessRelease(entry);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapExited(PEPROCESS process, ULONG pid)
{
    KDA_PROCESS *entry = KdaProcessFind(pid);
    KDA_RECORD record;
    LARGE_INTEGER time;

    if (entry == NULL)
        entry = KdapKnowByPointer(process, pid, NULL);
    if (entry == NULL) {
        if (KdaKindOn(KDA_KIND_PROCESS_EXIT))
            KdaMonEventQueueLose(KDA_KIND_PROCESS_EXIT, KDA_EVENT_MIN_BYTES);
        return;
    }
    KdaProcessExited(entry);
    if (!entry->Refused && KdapWanted(KDA_KIND_PROCESS_EXIT, entry) &&
        KdaRecordBegin(&record, KDA_KIND_PROCESS_EXIT, KdaActorBytes(entry))) {
        KdaRecordActor(&record, pid, KDA_NO_TID, entry, KDA_OMIT_NONE);
        kda_event_set(&record.Builder, KDA_FIELD_PROCESS_EXIT_EXIT_CODE,
                      (ULONG)PsGetProcessExitStatus(process));
        kda_event_set(&record.Builder, KDA_FIELD_PROCESS_EXIT_CREATE_TIME,
                      (uint64_t)PsGetProcessCreateTimeQuadPart(process));
        /* The notification comes before the system has set it, or after, by version. */
        time = PsGetProcessExitTime();
        if (time.QuadPart == 0)
            KeQuerySystemTimePrecise(&time);
        kda_event_set(&record.Builder, KDA_FIELD_PROCESS_EXIT_EXIT_TIME, (uint64_t)time.QuadPart);
        KdaRecordPush(&record);
    }
    KdaProcessRelease(entry);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapNotify(PEPROCESS process, HANDLE processId, PPS_CREATE_NOTIFY_INFO info)
{
    if (!KdaRundownEnter(&KdapSensor.Running))
        return;
    if (info != NULL)
        KdapCreated(process, KdaPid(processId), info);
    else
        KdapExited(process, KdaPid(processId));
    KdaRundownLeave(&KdapSensor.Running);
}

/* --- rundown --------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapTellRunning(const SYSTEM_PROCESS_INFORMATION *item)
{
    ULONG pid = KdaPid(item->UniqueProcessId);
    PEPROCESS process;

    if (pid == 0 || !NT_SUCCESS(PsLookupProcessByProcessId(item->UniqueProcessId, &process)))
        return;
    /* One that ended before the callback was registered may still be looked up. */
    if (PsGetProcessExitStatus(process) == STATUS_PENDING) {
        KDA_PROCESS *entry = KdaProcessFind(pid);
        if (entry == NULL)
            entry =
                KdapKnowByPointer(process, pid, item->ImageName.Buffer ? &item->ImageName : NULL);
        KdaProcessRelease(entry);
    }
    ObDereferenceObject(process);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapReadList(PVOID *list, ULONG *bytes)
{
    ULONG size = KDA_LIST_FIRST_BYTES;
    NTSTATUS status;
    ULONG returned;

    for (;;) {
        *list = ExAllocatePoolWithTag(PagedPool, size, KDA_TAG_SCRATCH);
        if (*list == NULL)
            return STATUS_INSUFFICIENT_RESOURCES;
        returned = 0;
        status = ZwQuerySystemInformation(SystemProcessInformation, *list, size, &returned);
        if (NT_SUCCESS(status)) {
            *bytes = returned < size ? returned : size;
            return status;
        }
        ExFreePoolWithTag(*list, KDA_TAG_SCRATCH);
        *list = NULL;
        if (status != STATUS_INFO_LENGTH_MISMATCH || size >= KDA_LIST_MOST_BYTES)
            return status;
        size *= 2;
    }
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapRundown(VOID)
{
    ULONG bytes, at = 0;
    NTSTATUS status;
    PVOID list;

    status = KdapReadList(&list, &bytes);
    if (!NT_SUCCESS(status))
        return status;
    while (bytes - at >= sizeof(SYSTEM_PROCESS_INFORMATION)) {
        const SYSTEM_PROCESS_INFORMATION *item =
            (const SYSTEM_PROCESS_INFORMATION *)(PVOID)((PUCHAR)list + at);
        KdapTellRunning(item);
        if (item->NextEntryOffset == 0 || item->NextEntryOffset > bytes - at)
            break;
        at += item->NextEntryOffset;
    }
    ExFreePoolWithTag(list, KDA_TAG_SCRATCH);
    return status;
}

/* --- start and stop -------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapRegister(KDA_DRIVER *driver, BOOLEAN remove)
{
    if (KdapSensor.Ex2)
        return driver->Optional.SetCreateProcessNotifyRoutineEx2(0, (PVOID)(ULONG_PTR)KdapNotify,
                                                                 remove);
    return PsSetCreateProcessNotifyRoutineEx(KdapNotify, remove);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStop(KDA_DRIVER *driver)
{
    NTSTATUS status;

    PAGED_CODE();
    status = KDA_CALL(KdapRegister, (driver, TRUE));
    KdaRundownStop(driver, &KdapSensor.Running, status);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapStart(KDA_DRIVER *driver, const CHAR **call)
{
    NTSTATUS status;

    PAGED_CODE();
    RtlZeroMemory(&KdapSensor, sizeof KdapSensor);
    status = KdaRundownStart(&KdapSensor.Running, call);
    if (!NT_SUCCESS(status))
        return status;
    KdapSensor.Ex2 = driver->Optional.SetCreateProcessNotifyRoutineEx2 != NULL;
    *call =
        KdapSensor.Ex2 ? "PsSetCreateProcessNotifyRoutineEx2" : "PsSetCreateProcessNotifyRoutineEx";
    status = KdapRegister(driver, FALSE);
    if (!NT_SUCCESS(status)) {
        KdaRundownFree(&KdapSensor.Running);
        return status;
    }
    *call = "ZwQuerySystemInformation";
    status = KdapRundown();
    if (!NT_SUCCESS(status))
        KdapStop(driver);
    return status;
}

const KDA_SENSOR KdaProcessSensor = {KDA_SENSOR_PROCESS, KdapStart, KdapStop, KdaProcessSweep};
