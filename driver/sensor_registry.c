/*
 * sensor_registry.c - registry.*: keys created, deleted, renamed; values set and deleted.
 *
 * The record is built before the operation, when names and data are there, and told after it, with
 * its result. In between it is parked (registry_pending.c). Records that wait longer than
 * KDA_PENDING_MS, or at the stop, are told without `status`.
 *
 * Callbacks come at PASSIVE_LEVEL or APC_LEVEL. What is done in a transaction is marked; whether
 * that is committed the system does not tell here.
 */
#include "driver.h"

#define KDA_ALTITUDE KDA_W("385217.4")
#define KDA_PENDING_MS 10000u

typedef struct _KDA_REGISTRY_SENSOR {
    KDA_RUNDOWN Running;
    LARGE_INTEGER Cookie;
    volatile LONG Ready; /* the cookie is there */
} KDA_REGISTRY_SENSOR;

static KDA_REGISTRY_SENSOR KdapSensor;

/* --- records that wait for their result ------------------------------------------------------ */

_IRQL_requires_max_(APC_LEVEL) static VOID KdapTellCreateKey(KDA_RECORD *record);

_IRQL_requires_max_(APC_LEVEL) static VOID KdapTell(KDA_RECORD *record)
{
    if (record->Kind == KDA_KIND_REGISTRY_KEY_CREATE)
        KdapTellCreateKey(record);
    else
        KdaRecordPush(record);
}

/* Tells records that have waited `milliseconds` or longer. */
_IRQL_requires_max_(APC_LEVEL) static VOID KdapTellOverdue(ULONG milliseconds)
{
    KDA_RECORD record;
    ULONG next = 0;

    while (KdaPendingOverdue(milliseconds, &next, &record))
        KdapTell(&record);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapTick(VOID)
{
    KdapTellOverdue(KDA_PENDING_MS);
}

/* --- building -------------------------------------------------------------------------------- */

typedef struct _KDA_REGISTRY_CALL {
    KDA_SUBJECT Subject;
    ULONG Tid;
    enum kda_omit_reason Unknown; /* why the process is not known */
    enum kda_omit_reason NoKey;   /* why the key has no name */
    BOOLEAN Transaction;
    PCUNICODE_STRING Name; /* of the key, from the system; NULL: not known */
    UNICODE_STRING NameCopy;
} KDA_REGISTRY_CALL;

_IRQL_requires_max_(APC_LEVEL) static BOOLEAN
    KdapEnter(KDA_REGISTRY_CALL *call, ULONG kind, PVOID object)
{
    NTSTATUS status;
    ULONG pid;

    if (!KdaKindOn(kind))
        return FALSE;
    pid = KdaPid(PsGetCurrentProcessId());
    RtlZeroMemory(call, sizeof *call);
    call->Subject.Kind = kind;
    call->Subject.Pid = pid;
    call->Subject.Process = KdaProcessKnow(pid, &call->Unknown);
    call->Tid = KdaPid(PsGetCurrentThreadId());
    call->NoKey = KDA_OMIT_FAILED;
    if (object == NULL)
        return TRUE;
    call->Transaction = CmGetBoundTransaction(&KdapSensor.Cookie, object) != NULL;
    status =
        KDA_CALL(CmCallbackGetKeyObjectIDEx, (&KdapSensor.Cookie, object, NULL, &call->Name, 0));
    if (NT_SUCCESS(status) && call->Name != NULL) {
        call->Subject.Key = call->Name;
    } else {
        call->Name = NULL;
        call->NoKey = KdaOmitReason(status);
    }
    return TRUE;
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapLeave(KDA_REGISTRY_CALL *call)
{
    if (call->Name != NULL)
        CmCallbackReleaseKeyObjectIDEx(call->Name);
    KdaProcessRelease(call->Subject.Process);
}

_IRQL_requires_max_(APC_LEVEL) static BOOLEAN
    KdapBegin(KDA_RECORD *record, const KDA_REGISTRY_CALL *call, SIZE_T bytes)
{
    PCUNICODE_STRING key = call->Subject.Key;

    if (!KdaRecordBegin(record, call->Subject.Kind,
                        KdaActorBytes(call->Subject.Process) + (key ? key->Length : 0u) + bytes))
        return FALSE;
    KdaRecordActor(record, call->Subject.Pid, call->Tid, call->Subject.Process, call->Unknown);
    if (call->Transaction)
        kda_event_set(&record->Builder,
                      kda_kinds[record->Kind].shape == KDA_SHAPE_VALUE ? KDA_FIELD_VALUE_TRANSACTION
                                                                       : KDA_FIELD_KEY_TRANSACTION,
                      1);
    return TRUE;
}

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapKey(KDA_RECORD *record, const KDA_REGISTRY_CALL *call, enum kda_field field)
{
    if (call->Subject.Key != NULL)
        KdaRecordString(record, field, call->Subject.Key);
    else
        kda_event_omit(&record->Builder, field, call->NoKey);
}

/* Parks the record for the post call, or tells it at once, without the result. */
_IRQL_requires_max_(APC_LEVEL) static PVOID KdapWait(KDA_RECORD *record, enum kda_field statusField)
{
    PVOID context = KdaPendingPark(record);

    if (context == NULL) {
        kda_event_omit(&record->Builder, statusField, KDA_OMIT_MEMORY);
        KdapTell(record);
    }
    return context;
}

/* --- values ---------------------------------------------------------------------------------- */

/* Data of a write may be in user memory that another thread takes away. */
_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapData(KDA_RECORD *record, const VOID *data, ULONG bytes)
{
    struct kda_event_builder *builder = &record->Builder;
    SIZE_T keep = bytes, room = 0;
    PVOID at;

    kda_event_set(builder, KDA_FIELD_VALUE_DATA_SIZE, bytes);
    if (bytes == 0) {
        kda_event_bytes(builder, KDA_FIELD_VALUE_DATA, NULL, 0, 0);
        return;
    }
    if (keep > KdaDriver->Settings.DataBytes)
        keep = KdaDriver->Settings.DataBytes;
    at = kda_event_room(builder, &room);
    if (keep > room)
        keep = room;
    if (at == NULL || keep == 0) {
        kda_event_omit(builder, KDA_FIELD_VALUE_DATA, KDA_OMIT_LIMIT);
        return;
    }
    if (!KdaGuardedCopy(at, data, keep)) {
        kda_event_omit(builder, KDA_FIELD_VALUE_DATA, KDA_OMIT_FAULT);
        return;
    }
    kda_event_take(builder, KDA_FIELD_VALUE_DATA, keep);
    if (keep != bytes)
        kda_event_cut(builder, KDA_FIELD_VALUE_DATA);
}

_IRQL_requires_max_(APC_LEVEL) static SIZE_T KdapLength(PCUNICODE_STRING string)
{
    return string ? string->Length : 0;
}

/* Value name; the default value has an empty one or none. */
_IRQL_requires_max_(APC_LEVEL) static VOID KdapValueName(KDA_RECORD *record, PCUNICODE_STRING name)
{
    kda_event_string(&record->Builder, KDA_FIELD_VALUE_VALUE, name ? name->Buffer : NULL,
                     KdapLength(name) / sizeof(WCHAR));
}

_IRQL_requires_max_(APC_LEVEL) static PVOID
    KdapValueCall(KDA_REGISTRY_CALL *call, PVOID object, PUNICODE_STRING name,
                  const REG_SET_VALUE_KEY_INFORMATION *set)
{
    ULONG bytes = set ? set->DataSize : 0;
    PVOID context = NULL;
    KDA_OLD_DATA old;
    KDA_RECORD record;

    if (!KdaFilterPass(&call->Subject))
        return NULL;
    KdaOldDataAsk(&call->Subject, call->NoKey, object, name, &old);
    if (bytes > KdaDriver->Settings.DataBytes)
        bytes = KdaDriver->Settings.DataBytes;
    if (KdapBegin(&record, call, KdapLength(name) + bytes + old.Kept)) {
        KdapKey(&record, call, KDA_FIELD_VALUE_KEY);
        KdapValueName(&record, name);
        if (set != NULL) {
            kda_event_set(&record.Builder, KDA_FIELD_VALUE_VALUE_TYPE, set->Type);
            KdapData(&record, set->Data, set->DataSize);
        }
        KdaOldDataPut(&record, &old);
        context = KdapWait(&record, KDA_FIELD_VALUE_STATUS);
    }
    KdaOldDataFree(&old);
    return context;
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapPreSetValue(REG_SET_VALUE_KEY_INFORMATION *set)
{
    KDA_REGISTRY_CALL call;

    if (!KdapEnter(&call, KDA_KIND_REGISTRY_VALUE_SET, set->Object))
        return;
    set->CallContext = KdapValueCall(&call, set->Object, set->ValueName, set);
    KdapLeave(&call);
}

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapPreDeleteValue(REG_DELETE_VALUE_KEY_INFORMATION *deleted)
{
    KDA_REGISTRY_CALL call;

    if (!KdapEnter(&call, KDA_KIND_REGISTRY_VALUE_DELETE, deleted->Object))
        return;
    deleted->CallContext = KdapValueCall(&call, deleted->Object, deleted->ValueName, NULL);
    KdapLeave(&call);
}

/* --- keys ------------------------------------------------------------------------------------ */

_IRQL_requires_max_(APC_LEVEL) static PVOID
    KdapKeyCall(KDA_REGISTRY_CALL *call, PCUNICODE_STRING newName)
{
    KDA_RECORD record;

    if (!KdaFilterPass(&call->Subject) || !KdapBegin(&record, call, KdapLength(newName)))
        return NULL;
    KdapKey(&record, call, KDA_FIELD_KEY_KEY);
    KdaRecordString(&record, KDA_FIELD_KEY_NEW_NAME, newName);
    return KdapWait(&record, KDA_FIELD_KEY_STATUS);
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapPreDeleteKey(REG_DELETE_KEY_INFORMATION *deleted)
{
    KDA_REGISTRY_CALL call;

    if (!KdapEnter(&call, KDA_KIND_REGISTRY_KEY_DELETE, deleted->Object))
        return;
    deleted->CallContext = KdapKeyCall(&call, NULL);
    KdapLeave(&call);
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapPreRenameKey(REG_RENAME_KEY_INFORMATION *renamed)
{
    KDA_REGISTRY_CALL call;

    if (!KdapEnter(&call, KDA_KIND_REGISTRY_KEY_RENAME, renamed->Object))
        return;
    renamed->CallContext = KdapKeyCall(&call, renamed->NewName);
    KdapLeave(&call);
}

/* Puts root and relative name together in pool. FALSE: the complete name, or what there is of it,
 * is in `whole` without a copy. */
_IRQL_requires_max_(APC_LEVEL) static BOOLEAN
    KdapJoin(PCUNICODE_STRING root, PCUNICODE_STRING relative, UNICODE_STRING *whole)
{
    ULONG bytes = (ULONG)root->Length + relative->Length + sizeof(WCHAR);

    *whole = *relative;
    if (bytes > 2 * KDA_STRING_MAX_UNITS)
        return FALSE;
    whole->Buffer = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_SCRATCH);
    if (whole->Buffer == NULL) {
        *whole = *relative;
        return FALSE;
    }
    whole->Length = whole->MaximumLength = (USHORT)bytes;
    RtlCopyMemory(whole->Buffer, root->Buffer, root->Length);
    whole->Buffer[root->Length / sizeof(WCHAR)] = '\\';
    RtlCopyMemory(whole->Buffer + root->Length / sizeof(WCHAR) + 1, relative->Buffer,
                  relative->Length);
    return TRUE;
}

/* Most creations open a key that is there: nothing is filtered or told before the result. */
_IRQL_requires_max_(APC_LEVEL) static VOID KdapPreCreateKey(REG_CREATE_KEY_INFORMATION *created)
{
    PCUNICODE_STRING name = created->CompleteName;
    BOOLEAN absolute, copied = FALSE, whole = TRUE;
    KDA_REGISTRY_CALL call;
    KDA_RECORD record;

    if (name == NULL)
        return;
    absolute = name->Length != 0 && name->Buffer[0] == '\\';
    if (!KdapEnter(&call, KDA_KIND_REGISTRY_KEY_CREATE, absolute ? NULL : created->RootObject))
        return;
    if (absolute) {
        call.Subject.Key = name;
    } else if (call.Name != NULL && name->Length != 0) {
        copied = whole = KdapJoin(call.Name, name, &call.NameCopy);
        call.Subject.Key = &call.NameCopy;
    } else if (call.Name == NULL) {
        whole = FALSE;
        call.Subject.Key = name;
    }
    call.Transaction = call.Transaction || created->Transaction != NULL;
    if (KdapBegin(&record, &call, 0)) {
        KdapKey(&record, &call, KDA_FIELD_KEY_KEY);
        if (!whole && record.Builder.event->present >> KDA_SLOT_KEY_KEY & 1u)
            kda_event_cut(&record.Builder, KDA_FIELD_KEY_KEY);
        created->CallContext = KdapWait(&record, KDA_FIELD_KEY_STATUS);
    }
    if (copied)
        ExFreePoolWithTag(call.NameCopy.Buffer, KDA_TAG_SCRATCH);
    KdapLeave(&call);
}

/* The rules see the name that the record has. */
_IRQL_requires_max_(APC_LEVEL) static VOID KdapTellCreateKey(KDA_RECORD *record)
{
    KDA_SUBJECT subject = {KDA_KIND_REGISTRY_KEY_CREATE, record->Builder.event->pid, NULL, NULL,
                           NULL};
    struct kda_bytes key;
    UNICODE_STRING name;
    BOOLEAN pass;

    subject.Process = KdaProcessFind(subject.Pid);
    kda_event_end(&record->Builder);
    if (kda_event_get_bytes(record->Builder.event, KDA_FIELD_KEY_KEY, &key)) {
        name.Buffer = (PWSTR)(ULONG_PTR)key.at;
        name.Length = name.MaximumLength = (USHORT)key.size;
        subject.Key = &name;
    }
    pass = KdaFilterPass(&subject);
    KdaProcessRelease(subject.Process);
    if (pass)
        KdaRecordPush(record);
    else
        KdaRecordDiscard(record);
}

/* After the creation the key itself knows its name, without symbolic links: the record is made
 * again with it. Where that does not work the one that was made before is used. */
_IRQL_requires_max_(APC_LEVEL) static VOID KdapTakeTrueName(PVOID object, KDA_RECORD *record)
{
    uint64_t transaction;
    KDA_REGISTRY_CALL call;
    KDA_RECORD better;

    if (object == NULL || !KdapEnter(&call, KDA_KIND_REGISTRY_KEY_CREATE, object))
        return;
    if (kda_event_get(record->Builder.event, KDA_FIELD_KEY_TRANSACTION, &transaction))
        call.Transaction = TRUE;
    if (call.Name != NULL && KdapBegin(&better, &call, 0)) {
        KdapKey(&better, &call, KDA_FIELD_KEY_KEY);
        KdaRecordDiscard(record);
        *record = better;
    }
    KdapLeave(&call);
}

/* Where the caller is told what was done: his memory, which he may change meanwhile, so it is read
 * once. 0: it cannot be read, or says what it never should. */
_IRQL_requires_max_(APC_LEVEL) static ULONG
    KdapDisposition(const REG_CREATE_KEY_INFORMATION *created)
{
    ULONG disposition;

    if (created == NULL || created->Disposition == NULL ||
        !KdaGuardedCopy(&disposition, created->Disposition, sizeof disposition) ||
        (disposition != REG_CREATED_NEW_KEY && disposition != REG_OPENED_EXISTING_KEY))
        return 0;
    return disposition;
}

/* Object and disposition are there for STATUS_SUCCESS alone: not for every status that is none of
 * failure. STATUS_REPARSE is one of those, and says that a symbolic link was met; the operation
 * comes again, with the target's name. */
_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapPostCreateKey(const REG_POST_OPERATION_INFORMATION *post, KDA_RECORD *record)
{
    ULONG disposition;

    if (post->Status == STATUS_REPARSE) {
        KdaRecordDiscard(record);
        return;
    }
    if (post->Status == STATUS_SUCCESS) {
        disposition = KdapDisposition(post->PreInformation);
        if (disposition == REG_OPENED_EXISTING_KEY && !KdaDriver->Settings.KeyOpens &&
            !KdaDriver->Settings.RecordEverything) {
            KdaRecordDiscard(record);
            return;
        }
        KdapTakeTrueName(post->Object, record);
        if (disposition != 0)
            kda_event_set(&record->Builder, KDA_FIELD_KEY_DISPOSITION, disposition);
        else
            kda_event_omit(&record->Builder, KDA_FIELD_KEY_DISPOSITION, KDA_OMIT_FAULT);
    }
    kda_event_set(&record->Builder, KDA_FIELD_KEY_STATUS, (ULONG)post->Status);
    KdapTellCreateKey(record);
}

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapPost(ULONG class_, const REG_POST_OPERATION_INFORMATION *post)
{
    KDA_RECORD record;

    if (post->CallContext == NULL || !KdaPendingTake(post->CallContext, &record))
        return;
    if (class_ == RegNtPostCreateKeyEx) {
        KdapPostCreateKey(post, &record);
        return;
    }
    kda_event_set(&record.Builder,
                  kda_kinds[record.Kind].shape == KDA_SHAPE_VALUE ? KDA_FIELD_VALUE_STATUS
                                                                  : KDA_FIELD_KEY_STATUS,
                  (ULONG)post->Status);
    KdaRecordPush(&record);
}

/* --- the callback ---------------------------------------------------------------------------- */

_IRQL_requires_max_(APC_LEVEL) static VOID KdapDispatch(ULONG class_, PVOID information)
{
    switch (class_) {
    case RegNtPreSetValueKey:
        KdapPreSetValue(information);
        break;
    case RegNtPreDeleteValueKey:
        KdapPreDeleteValue(information);
        break;
    case RegNtPreDeleteKey:
        KdapPreDeleteKey(information);
        break;
    case RegNtPreRenameKey:
        KdapPreRenameKey(information);
        break;
    case RegNtPreCreateKeyEx:
        KdapPreCreateKey(information);
        break;
    case RegNtPostSetValueKey:
    case RegNtPostDeleteValueKey:
    case RegNtPostDeleteKey:
    case RegNtPostRenameKey:
    case RegNtPostCreateKeyEx:
        KdapPost(class_, information);
        break;
    default:
        break;
    }
}

_IRQL_requires_max_(APC_LEVEL) static NTSTATUS
    KdapCallback(PVOID context, PVOID notifyClass, PVOID information)
{
    UNREFERENCED_PARAMETER(context);
    if (information == NULL || !ReadAcquire(&KdapSensor.Ready) ||
        !KdaRundownEnter(&KdapSensor.Running))
        return STATUS_SUCCESS;
    KdapDispatch((ULONG)(ULONG_PTR)notifyClass, information);
    KdaRundownLeave(&KdapSensor.Running);
    return STATUS_SUCCESS;
}

/* --- start and stop -------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapStart(KDA_DRIVER *driver, const CHAR **call)
{
    UNICODE_STRING altitude;
    NTSTATUS status;

    PAGED_CODE();
    RtlZeroMemory(&KdapSensor, sizeof KdapSensor);
    status = KdaRundownStart(&KdapSensor.Running, call);
    if (!NT_SUCCESS(status))
        return status;
    *call = "ExAllocatePoolWithTag";
    status = KdaPendingStart();
    if (!NT_SUCCESS(status))
        goto Exit;
    RtlInitUnicodeString(&altitude, KDA_ALTITUDE);
    *call = "CmRegisterCallbackEx";
    status = CmRegisterCallbackEx(KdapCallback, &altitude, driver->DriverObject, NULL,
                                  &KdapSensor.Cookie, NULL);
    if (NT_SUCCESS(status))
        WriteRelease(&KdapSensor.Ready, 1);
    else
        KdaPendingStop();
Exit:
    if (!NT_SUCCESS(status))
        KdaRundownFree(&KdapSensor.Running);
    return status;
}

/* The records that wait are told in any case: none is parked after the rundown. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStop(KDA_DRIVER *driver)
{
    NTSTATUS status;

    PAGED_CODE();
    status = KDA_CALL(CmUnRegisterCallback, (KdapSensor.Cookie));
    KdaRundownStop(driver, &KdapSensor.Running, status);
    KdapTellOverdue(0);
    KdaPendingStop();
}

const KDA_SENSOR KdaRegistrySensor = {KDA_SENSOR_REGISTRY, KdapStart, KdapStop, KdapTick};
