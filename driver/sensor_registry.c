/*
 * sensor_registry.c - registry.*: keys created, deleted, renamed; values set and deleted.
 *
 * The record is built before the operation, when names and data are there, and told after it, with
 * its result. In between it is parked (registry_pending.c). Records that wait longer than
 * KDA_PENDING_MS, or at the stop, are told without `status`.
 *
 * Callbacks come at PASSIVE_LEVEL or APC_LEVEL. Asking for the old data of a value makes the system
 * call this callback again on the same thread: queries are not looked at, and nothing is held.
 */
#include "driver.h"

#define KDA_ALTITUDE KDA_W("385217.4")
#define KDA_PENDING_MS 10000u

typedef struct _KDA_REGISTRY_SENSOR {
    EX_RUNDOWN_REF Running;
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
    PCUNICODE_STRING Name; /* of the key, from the system; NULL: not known */
    UNICODE_STRING NameCopy;
} KDA_REGISTRY_CALL;

_IRQL_requires_max_(APC_LEVEL) static BOOLEAN
    KdapEnter(KDA_REGISTRY_CALL *call, ULONG kind, PVOID object)
{
    ULONG pid;

    if (!KdaKindOn(kind))
        return FALSE;
    pid = KdaPid(PsGetCurrentProcessId());
    RtlZeroMemory(call, sizeof *call);
    call->Subject.Kind = kind;
    call->Subject.Pid = pid;
    call->Subject.Process = KdaProcessKnow(pid);
    call->Tid = KdaPid(PsGetCurrentThreadId());
    if (object != NULL &&
        NT_SUCCESS(CmCallbackGetKeyObjectIDEx(&KdapSensor.Cookie, object, NULL, &call->Name, 0)) &&
        call->Name != NULL)
        call->Subject.Key = call->Name;
    else
        call->Name = NULL;
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
    KdaRecordActor(record, call->Subject.Pid, call->Tid, call->Subject.Process);
    return TRUE;
}

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapKey(KDA_RECORD *record, const KDA_REGISTRY_CALL *call, enum kda_field field)
{
    if (call->Subject.Key != NULL)
        KdaRecordString(record, field, call->Subject.Key);
    else
        kda_event_omit(&record->Builder, field, KDA_OMIT_FAILED);
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

_IRQL_requires_max_(APC_LEVEL) static BOOLEAN KdapOldDataAsked(const KDA_REGISTRY_CALL *call)
{
    const KDA_SETTINGS *settings = &KdaDriver->Settings;

    if (call->Subject.Key == NULL)
        return FALSE;
    for (ULONG i = 0; i < settings->PrefixCount; i++) {
        if (KdaHasPrefix(call->Subject.Key, &settings->OldDataKeys[i]))
            return TRUE;
    }
    return FALSE;
}

/* The value before the operation: best effort, somebody else may write it in between. */
_IRQL_requires_max_(PASSIVE_LEVEL) static KEY_VALUE_PARTIAL_INFORMATION *KdapAskOld(
    PVOID object, PUNICODE_STRING name, ULONG *kept, enum kda_omit_reason *reason)
{
    ULONG bytes = FIELD_OFFSET(KEY_VALUE_PARTIAL_INFORMATION, Data) + KdaDriver->Settings.DataBytes;
    KEY_VALUE_PARTIAL_INFORMATION *old;
    ULONG returned = 0;
    NTSTATUS status;
    HANDLE key;

    *reason = KDA_OMIT_FAILED;
    if (!NT_SUCCESS(ObOpenObjectByPointer(object, OBJ_KERNEL_HANDLE, NULL, KEY_QUERY_VALUE, NULL,
                                          KernelMode, &key)))
        return NULL;
    old = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_SCRATCH);
    if (old == NULL) {
        *reason = KDA_OMIT_MEMORY;
        ZwClose(key);
        return NULL;
    }
    status = ZwQueryValueKey(key, name, KeyValuePartialInformation, old, bytes, &returned);
    ZwClose(key);
    if (NT_SUCCESS(status) || status == STATUS_BUFFER_OVERFLOW) {
        *kept = old->DataLength < KdaDriver->Settings.DataBytes ? old->DataLength
                                                                : KdaDriver->Settings.DataBytes;
        return old;
    }
    if (status == STATUS_OBJECT_NAME_NOT_FOUND)
        *reason = KDA_OMIT_NONE; /* a new value */
    ExFreePoolWithTag(old, KDA_TAG_SCRATCH);
    return NULL;
}

typedef struct _KDA_OLD_VALUE {
    KEY_VALUE_PARTIAL_INFORMATION *Information;
    ULONG Kept;
    enum kda_omit_reason Reason;
} KDA_OLD_VALUE;

_IRQL_requires_max_(APC_LEVEL) static VOID KdapOldFirst(const KDA_REGISTRY_CALL *call, PVOID object,
                                                        PUNICODE_STRING name, KDA_OLD_VALUE *old)
{
    old->Information = NULL;
    old->Kept = 0;
    old->Reason = KDA_OMIT_NONE;
    if (!KdapOldDataAsked(call))
        return;
    if (KeGetCurrentIrql() > PASSIVE_LEVEL)
        old->Reason = KDA_OMIT_IRQL;
    else
        old->Information = KdapAskOld(object, name, &old->Kept, &old->Reason);
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapOldThen(KDA_RECORD *record, KDA_OLD_VALUE *old)
{
    struct kda_event_builder *builder = &record->Builder;

    if (old->Information != NULL) {
        kda_event_set(builder, KDA_FIELD_VALUE_OLD_TYPE, old->Information->Type);
        kda_event_set(builder, KDA_FIELD_VALUE_OLD_SIZE, old->Information->DataLength);
        if (old->Kept != 0 || old->Information->DataLength == 0)
            kda_event_bytes(builder, KDA_FIELD_VALUE_OLD_DATA, old->Information->Data, old->Kept,
                            old->Kept);
        else
            kda_event_omit(builder, KDA_FIELD_VALUE_OLD_DATA, KDA_OMIT_LIMIT);
        if (old->Kept != 0 && old->Kept != old->Information->DataLength)
            kda_event_cut(builder, KDA_FIELD_VALUE_OLD_DATA);
    } else if (old->Reason != KDA_OMIT_NONE) {
        kda_event_omit(builder, KDA_FIELD_VALUE_OLD_DATA, old->Reason);
    }
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapOldFree(KDA_OLD_VALUE *old)
{
    if (old->Information != NULL)
        ExFreePoolWithTag(old->Information, KDA_TAG_SCRATCH);
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
    KDA_OLD_VALUE old;
    KDA_RECORD record;

    if (!KdaFilterPass(&call->Subject))
        return NULL;
    KdapOldFirst(call, object, name, &old);
    if (bytes > KdaDriver->Settings.DataBytes)
        bytes = KdaDriver->Settings.DataBytes;
    if (KdapBegin(&record, call, KdapLength(name) + bytes + old.Kept)) {
        KdapKey(&record, call, KDA_FIELD_VALUE_KEY);
        KdapValueName(&record, name);
        if (set != NULL) {
            kda_event_set(&record.Builder, KDA_FIELD_VALUE_VALUE_TYPE, set->Type);
            KdapData(&record, set->Data, set->DataSize);
        }
        KdapOldThen(&record, &old);
        context = KdapWait(&record, KDA_FIELD_VALUE_STATUS);
    }
    KdapOldFree(&old);
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
 * again with it. FALSE: the one that was made before is used. */
_IRQL_requires_max_(APC_LEVEL) static BOOLEAN KdapWithTrueName(PVOID object, KDA_RECORD *record)
{
    KDA_REGISTRY_CALL call;
    KDA_RECORD better;
    BOOLEAN made = FALSE;

    if (object == NULL || !KdapEnter(&call, KDA_KIND_REGISTRY_KEY_CREATE, object))
        return FALSE;
    if (call.Name != NULL && KdapBegin(&better, &call, 0)) {
        KdapKey(&better, &call, KDA_FIELD_KEY_KEY);
        KdaRecordDiscard(record);
        *record = better;
        made = TRUE;
    }
    KdapLeave(&call);
    return made;
}

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapPostCreateKey(const REG_POST_OPERATION_INFORMATION *post, KDA_RECORD *record)
{
    const REG_CREATE_KEY_INFORMATION *created = post->PreInformation;
    ULONG disposition = 0;

    if (NT_SUCCESS(post->Status)) {
        if (created == NULL || created->Disposition == NULL ||
            !KdaGuardedCopy(&disposition, created->Disposition, sizeof disposition))
            disposition = 0;
        if (disposition == REG_OPENED_EXISTING_KEY && !KdaDriver->Settings.KeyOpens &&
            !KdaDriver->Settings.RecordEverything) {
            KdaRecordDiscard(record);
            return;
        }
        KdapWithTrueName(post->Object, record);
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
        !ExAcquireRundownProtection(&KdapSensor.Running))
        return STATUS_SUCCESS;
    KdapDispatch((ULONG)(ULONG_PTR)notifyClass, information);
    ExReleaseRundownProtection(&KdapSensor.Running);
    return STATUS_SUCCESS;
}

/* --- start and stop -------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapStart(KDA_DRIVER *driver)
{
    UNICODE_STRING altitude;
    NTSTATUS status;

    PAGED_CODE();
    RtlZeroMemory(&KdapSensor, sizeof KdapSensor);
    ExInitializeRundownProtection(&KdapSensor.Running);
    status = KdaPendingStart();
    if (!NT_SUCCESS(status))
        return status;
    RtlInitUnicodeString(&altitude, KDA_ALTITUDE);
    status = CmRegisterCallbackEx(KdapCallback, &altitude, driver->DriverObject, NULL,
                                  &KdapSensor.Cookie, NULL);
    if (!NT_SUCCESS(status)) {
        KdaPendingStop();
        return status;
    }
    WriteRelease(&KdapSensor.Ready, 1);
    return STATUS_SUCCESS;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    UNREFERENCED_PARAMETER(driver);
    CmUnRegisterCallback(KdapSensor.Cookie);
    ExWaitForRundownProtectionRelease(&KdapSensor.Running);
    KdapTellOverdue(0);
    KdaPendingStop();
}

const KDA_SENSOR KdaRegistrySensor = {"registry", KdapStart, KdapStop, KdapTick};
