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
#define KDA_SID_MOST_BYTES 68u
#define KDA_COMMAND_LINE_MOST_BYTES (sizeof(UNICODE_STRING) + 0x10000u)

typedef struct _KDA_PROCESS_SENSOR {
    EX_RUNDOWN_REF Running;
    BOOLEAN Ex2;
} KDA_PROCESS_SENSOR;

static KDA_PROCESS_SENSOR KdapSensor;

/* --- what the system knows of a process ------------------------------------------------------ */

typedef struct _KDA_TOKEN_BUFFER {
    SID_AND_ATTRIBUTES Head;
    UCHAR Sid[KDA_SID_MOST_BYTES];
} KDA_TOKEN_BUFFER;

_IRQL_requires_max_(PASSIVE_LEVEL) static ULONG
    KdapSidBytes(const UCHAR *sid, const KDA_TOKEN_BUFFER *buffer, ULONG returned)
{
    const UCHAR *end = (const UCHAR *)buffer + returned;

    if (sid < (const UCHAR *)(buffer) || sid + 8 > end || sid + 8 + 4u * sid[1] > end)
        return 0;
    return 8u + 4u * sid[1];
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapTokenSids(KDA_RECORD *record, HANDLE token)
{
    struct kda_event_builder *builder = &record->Builder;
    KDA_TOKEN_BUFFER buffer;
    const UCHAR *sid;
    ULONG returned, bytes;

    bytes = 0;
    if (NT_SUCCESS(ZwQueryInformationToken(token, TokenUser, &buffer, sizeof buffer, &returned)))
        bytes = KdapSidBytes(buffer.Head.Sid, &buffer, returned);
    if (bytes != 0)
        kda_event_bytes(builder, KDA_FIELD_PROCESS_USER_SID, buffer.Head.Sid, bytes, 0);
    else
        kda_event_omit(builder, KDA_FIELD_PROCESS_USER_SID, KDA_OMIT_FAILED);

    bytes = 0;
    if (NT_SUCCESS(
            ZwQueryInformationToken(token, TokenIntegrityLevel, &buffer, sizeof buffer, &returned)))
        bytes = KdapSidBytes(buffer.Head.Sid, &buffer, returned);
    sid = buffer.Head.Sid;
    if (bytes >= 12) {
        ULONG level;
        RtlCopyMemory(&level, sid + bytes - sizeof level, sizeof level);
        kda_event_set(builder, KDA_FIELD_PROCESS_INTEGRITY, level);
    } else {
        kda_event_omit(builder, KDA_FIELD_PROCESS_INTEGRITY, KDA_OMIT_FAILED);
    }
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapTokenNumber(KDA_RECORD *record, HANDLE token, ULONG class_, enum kda_field field)
{
    ULONG value, returned;

    if (!NT_SUCCESS(ZwQueryInformationToken(token, class_, &value, sizeof value, &returned)))
        kda_event_omit(&record->Builder, field, KDA_OMIT_FAILED);
    else
        kda_event_set(&record->Builder, field, class_ == TokenElevation ? value != 0 : value);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapToken(KDA_RECORD *record, HANDLE process)
{
    static const enum kda_field fields[] = {KDA_FIELD_PROCESS_SESSION, KDA_FIELD_PROCESS_USER_SID,
                                            KDA_FIELD_PROCESS_INTEGRITY,
                                            KDA_FIELD_PROCESS_ELEVATED};
    HANDLE token;

    if (!NT_SUCCESS(ZwOpenProcessTokenEx(process, TOKEN_QUERY, OBJ_KERNEL_HANDLE, &token))) {
        for (ULONG i = 0; i < ARRAYSIZE(fields); i++)
            kda_event_omit(&record->Builder, fields[i], KDA_OMIT_FAILED);
        return;
    }
    KdapTokenSids(record, token);
    KdapTokenNumber(record, token, TokenSessionId, KDA_FIELD_PROCESS_SESSION);
    KdapTokenNumber(record, token, TokenElevation, KDA_FIELD_PROCESS_ELEVATED);
    ZwClose(token);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapProcessNumbers(KDA_RECORD *record, HANDLE process, BOOLEAN subsystemKnown)
{
    struct kda_event_builder *builder = &record->Builder;
    UCHAR protection;
    ULONG subsystem;
    ULONG returned;

    if (NT_SUCCESS(ZwQueryInformationProcess(process, ProcessProtectionInformation, &protection,
                                             sizeof protection, &returned)))
        kda_event_set(builder, KDA_FIELD_PROCESS_PROTECTION, protection);
    else
        kda_event_omit(builder, KDA_FIELD_PROCESS_PROTECTION, KDA_OMIT_UNSUPPORTED);
    if (subsystemKnown)
        return;
    if (NT_SUCCESS(ZwQueryInformationProcess(process, ProcessSubsystemInformation, &subsystem,
                                             sizeof subsystem, &returned)))
        kda_event_set(builder, KDA_FIELD_PROCESS_SUBSYSTEM, subsystem);
    else
        kda_event_omit(builder, KDA_FIELD_PROCESS_SUBSYSTEM, KDA_OMIT_UNSUPPORTED);
}

/* Everything that is asked by handle. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapByHandle(KDA_RECORD *record, PEPROCESS process, BOOLEAN subsystemKnown)
{
    static const enum kda_field fields[] = {
        KDA_FIELD_PROCESS_SESSION,  KDA_FIELD_PROCESS_USER_SID,   KDA_FIELD_PROCESS_INTEGRITY,
        KDA_FIELD_PROCESS_ELEVATED, KDA_FIELD_PROCESS_PROTECTION, KDA_FIELD_PROCESS_SUBSYSTEM};
    enum kda_omit_reason reason =
        KeGetCurrentIrql() > PASSIVE_LEVEL ? KDA_OMIT_IRQL : KDA_OMIT_FAILED;
    HANDLE handle;

    if (reason == KDA_OMIT_IRQL ||
        !NT_SUCCESS(ObOpenObjectByPointer(process, OBJ_KERNEL_HANDLE, NULL,
                                          PROCESS_QUERY_INFORMATION, NULL, KernelMode, &handle))) {
        for (ULONG i = 0; i < ARRAYSIZE(fields) - (subsystemKnown ? 1 : 0); i++)
            kda_event_omit(&record->Builder, fields[i], reason);
        return;
    }
    KdapToken(record, handle);
    KdapProcessNumbers(record, handle, subsystemKnown);
    ZwClose(handle);
}

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
    if (KeGetCurrentIrql() > PASSIVE_LEVEL ||
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
    struct kda_event_builder *builder = &record->Builder;
    UCHAR section = 0;

    KdaRecordActor(record, entry->Pid, KDA_NO_TID, entry);
    kda_event_set(builder, KDA_FIELD_PROCESS_CREATE_TIME, (uint64_t)entry->CreateTime);
    if (KdaDriver->Optional.GetProcessSignatureLevel != NULL)
        kda_event_set(builder, KDA_FIELD_PROCESS_SIGNATURE_LEVEL,
                      KdaDriver->Optional.GetProcessSignatureLevel(process, &section) & 0xFu);
    else
        kda_event_omit(builder, KDA_FIELD_PROCESS_SIGNATURE_LEVEL, KDA_OMIT_UNSUPPORTED);
    KdapByHandle(record, process, subsystemKnown);
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
    KdaRecordString(record, KDA_FIELD_PROCESS_COMMAND_LINE, info->CommandLine);
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

/* Command line and parent of a process that runs. The command line is in the process's own memory
 * and is copied out by the system; the caller frees it. */
_IRQL_requires_max_(PASSIVE_LEVEL) static UNICODE_STRING *KdapAsk(HANDLE handle, ULONG *parentPid)
{
    PROCESS_BASIC_INFORMATION basic;
    UNICODE_STRING *line;
    ULONG returned = 0;

    *parentPid = KDA_NO_PID;
    if (NT_SUCCESS(ZwQueryInformationProcess(handle, ProcessBasicInformation, &basic, sizeof basic,
                                             &returned)))
        *parentPid = (ULONG)basic.InheritedFromUniqueProcessId;
    returned = 0;
    ZwQueryInformationProcess(handle, ProcessCommandLineInformation, NULL, 0, &returned);
    if (returned < sizeof *line || returned > KDA_COMMAND_LINE_MOST_BYTES)
        return NULL;
    line = ExAllocatePoolWithTag(PagedPool, returned, KDA_TAG_SCRATCH);
    if (line != NULL && !NT_SUCCESS(ZwQueryInformationProcess(handle, ProcessCommandLineInformation,
                                                              line, returned, &returned))) {
        ExFreePoolWithTag(line, KDA_TAG_SCRATCH);
        line = NULL;
    }
    return line;
}

/* Makes the record of a process that runs. FALSE: there is none. */
_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapMakeExisting(KDA_RECORD *record, PEPROCESS process, KDA_PROCESS *entry)
{
    ULONG parentPid = KDA_NO_PID;
    UNICODE_STRING *line = NULL;
    BOOLEAN made;
    HANDLE handle;

    if (!KdapWanted(KDA_KIND_PROCESS_EXISTING, entry))
        return FALSE;
    if (NT_SUCCESS(ObOpenObjectByPointer(process, OBJ_KERNEL_HANDLE, NULL,
                                         PROCESS_QUERY_INFORMATION, NULL, KernelMode, &handle))) {
        line = KdapAsk(handle, &parentPid);
        ZwClose(handle);
    }
    made = KdaRecordBegin(record, KDA_KIND_PROCESS_EXISTING,
                          KdaActorBytes(entry) + KDA_SID_MOST_BYTES + KdapStringBytes(line));
    if (made) {
        KdapDescribe(record, process, entry, FALSE);
        if (line != NULL)
            KdaRecordString(record, KDA_FIELD_PROCESS_COMMAND_LINE, line);
        else
            kda_event_omit(&record->Builder, KDA_FIELD_PROCESS_COMMAND_LINE, KDA_OMIT_FAILED);
        if (parentPid != KDA_NO_PID)
            KdapParent(record, parentPid, entry->CreateTime);
        else
            kda_event_omit(&record->Builder, KDA_FIELD_PROCESS_PARENT_PID, KDA_OMIT_FAILED);
    }
    if (line != NULL)
        ExFreePoolWithTag(line, KDA_TAG_SCRATCH);
    return made;
}

/* --- coming and going ------------------------------------------------------------------------ */

/* An entry that is not in the cache yet. */
_IRQL_requires_max_(PASSIVE_LEVEL) static KDA_PROCESS *KdapMakeByPointer(PEPROCESS process,
                                                                         ULONG pid,
                                                                         PCUNICODE_STRING fallback,
                                                                         BOOLEAN *located)
{
    PUNICODE_STRING image = NULL;
    KDA_PROCESS *entry;

    *located = KeGetCurrentIrql() == PASSIVE_LEVEL &&
               NT_SUCCESS(SeLocateProcessImageName(process, &image)) && image != NULL;
    entry = KdaProcessMake(pid, KdapStartKey(process), PsGetProcessCreateTimeQuadPart(process),
                           *located && image->Length != 0 ? image : fallback);
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

_Use_decl_annotations_ KDA_PROCESS *KdaProcessKnow(ULONG pid)
{
    KDA_PROCESS *entry = KdaProcessFind(pid);
    PEPROCESS process;

    if (entry != NULL || pid == 0 || KeGetCurrentIrql() > PASSIVE_LEVEL ||
        !NT_SUCCESS(PsLookupProcessByProcessId((HANDLE)(ULONG_PTR)pid, &process)))
        return entry;
    entry = KdapKnowByPointer(process, pid, NULL);
    ObDereferenceObject(process);
    return entry;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapCreated(PEPROCESS process, ULONG pid, const PS_CREATE_NOTIFY_INFO *info)
{
    KDA_PROCESS *entry;
    KDA_RECORD record;
    BOOLEAN located;

    /* Another callback refused the creation: the process will not run. */
    if (!NT_SUCCESS(info->CreationStatus))
        return;
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
    if (KdapWanted(KDA_KIND_PROCESS_EXIT, entry) &&
        KdaRecordBegin(&record, KDA_KIND_PROCESS_EXIT, KdaActorBytes(entry))) {
        KdaRecordActor(&record, pid, KDA_NO_TID, entry);
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
    if (!ExAcquireRundownProtection(&KdapSensor.Running))
        return;
    if (info != NULL)
        KdapCreated(process, KdaPid(processId), info);
    else
        KdapExited(process, KdaPid(processId));
    ExReleaseRundownProtection(&KdapSensor.Running);
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
    PAGED_CODE();
    KdapRegister(driver, TRUE);
    ExWaitForRundownProtectionRelease(&KdapSensor.Running);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapStart(KDA_DRIVER *driver)
{
    NTSTATUS status;

    PAGED_CODE();
    RtlZeroMemory(&KdapSensor, sizeof KdapSensor);
    ExInitializeRundownProtection(&KdapSensor.Running);
    KdapSensor.Ex2 = driver->Optional.SetCreateProcessNotifyRoutineEx2 != NULL;
    status = KdapRegister(driver, FALSE);
    if (!NT_SUCCESS(status))
        return status;
    status = KdapRundown();
    if (!NT_SUCCESS(status))
        KdapStop(driver);
    return status;
}

const KDA_SENSOR KdaProcessSensor = {"process", KdapStart, KdapStop, KdaProcessSweep};
