/*
 * registry_old_data.c - the data of a value before it is written or deleted, for configured keys.
 *
 * Asking for it makes the system call the registry callback again on the same thread: queries are
 * not looked at there, and nothing is held.
 */
#include "driver.h"

_IRQL_requires_max_(APC_LEVEL) static BOOLEAN KdapAsked(PCUNICODE_STRING key)
{
    const KDA_SETTINGS *settings = &KdaDriver->Settings;

    if (key == NULL)
        return FALSE;
    for (ULONG i = 0; i < settings->PrefixCount; i++) {
        if (KdaHasPrefix(key, &settings->OldDataKeys[i]))
            return TRUE;
    }
    return FALSE;
}

/* Best effort: somebody else may write the value in between. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapAsk(PVOID object, PUNICODE_STRING name, KDA_OLD_DATA *old)
{
    ULONG bytes = FIELD_OFFSET(KEY_VALUE_PARTIAL_INFORMATION, Data) + KdaDriver->Settings.DataBytes;
    KEY_VALUE_PARTIAL_INFORMATION *value;
    ULONG returned = 0;
    NTSTATUS status;
    HANDLE key;

    status = KDA_CALL(ObOpenObjectByPointer,
                      (object, OBJ_KERNEL_HANDLE, NULL, KEY_QUERY_VALUE, NULL, KernelMode, &key));
    if (!NT_SUCCESS(status))
        return status;
    value = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_SCRATCH);
    if (value == NULL) {
        ZwClose(key);
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    status = ZwQueryValueKey(key, name, KeyValuePartialInformation, value, bytes, &returned);
    ZwClose(key);
    if (NT_SUCCESS(status) || status == STATUS_BUFFER_OVERFLOW) {
        old->Kept = value->DataLength < KdaDriver->Settings.DataBytes
                        ? value->DataLength
                        : KdaDriver->Settings.DataBytes;
        old->Information = value;
        return STATUS_SUCCESS;
    }
    ExFreePoolWithTag(value, KDA_TAG_SCRATCH);
    if (status != STATUS_OBJECT_NAME_NOT_FOUND)
        KdaCalled(__func__, "ZwQueryValueKey", status);
    return status;
}

_Use_decl_annotations_ VOID KdaOldDataAsk(const KDA_SUBJECT *subject, enum kda_omit_reason noKey,
                                          PVOID object, PUNICODE_STRING name, KDA_OLD_DATA *old)
{
    NTSTATUS status;

    RtlZeroMemory(old, sizeof *old);
    /* Whether a key without a name is one of those nobody knows. */
    if (subject->Key == NULL && KdaDriver->Settings.PrefixCount != 0)
        old->Reason = noKey;
    if (!KdapAsked(subject->Key))
        return;
    old->Reason = KDA_OMIT_IRQL;
    if (!KdaMayAsk())
        return;
    status = KdapAsk(object, name, old);
    /* A new value has no old data: nothing is omitted. */
    old->Reason = NT_SUCCESS(status) || status == STATUS_OBJECT_NAME_NOT_FOUND
                      ? KDA_OMIT_NONE
                      : KdaOmitReason(status);
}

_Use_decl_annotations_ VOID KdaOldDataPut(KDA_RECORD *record, const KDA_OLD_DATA *old)
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

_Use_decl_annotations_ VOID KdaOldDataFree(KDA_OLD_DATA *old)
{
    if (old->Information != NULL)
        ExFreePoolWithTag(old->Information, KDA_TAG_SCRATCH);
}
