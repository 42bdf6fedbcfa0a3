/*
 * record.c - the memory in which callbacks build their records, and the way into the queue.
 *
 * Most records fit a block of a lookaside list. All of it is non-paged: the queue copies the record
 * at DISPATCH_LEVEL. Strings are copied into it before that, at the caller's level.
 */
#include "driver.h"

#define KDA_BLOCK_BYTES 2048u

static NPAGED_LOOKASIDE_LIST KdapBlocks;

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaRecordStart(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    ExInitializeNPagedLookasideList(&KdapBlocks, NULL, NULL, POOL_NX_ALLOCATION, KDA_BLOCK_BYTES,
                                    KDA_TAG_RECORD, 0);
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ VOID KdaRecordStop(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    ExDeleteNPagedLookasideList(&KdapBlocks);
}

_Use_decl_annotations_ BOOLEAN KdaRecordBegin(KDA_RECORD *record, ULONG kind, SIZE_T bytes)
{
    SIZE_T size = KDA_EVENT_HEAD_BYTES + 8u * kda_kinds[kind].slots + bytes + 64u;

    record->Kind = kind;
    record->FromList = FALSE;
    record->Buffer = NULL;
    if (size > KDA_EVENT_MAX_BYTES)
        size = KDA_EVENT_MAX_BYTES;
    if (size > KDA_BLOCK_BYTES)
        record->Buffer = ExAllocatePoolWithTag(NonPagedPoolNx, size, KDA_TAG_RECORD);
    if (record->Buffer == NULL) {
        record->Buffer = ExAllocateFromNPagedLookasideList(&KdapBlocks);
        record->FromList = TRUE;
        size = KDA_BLOCK_BYTES;
    }
    if (record->Buffer == NULL) {
        KdaMonEventQueueLose(kind, size);
        return FALSE;
    }
    kda_event_begin(&record->Builder, record->Buffer, size, kind, KDA_SOURCE_DRIVER);
    return TRUE;
}

_Use_decl_annotations_ VOID KdaRecordActor(KDA_RECORD *record, ULONG pid, ULONG tid,
                                           const KDA_PROCESS *process, enum kda_omit_reason why)
{
    struct kda_event_builder *builder = &record->Builder;

    builder->event->pid = pid;
    builder->event->tid = tid;
    if (process == NULL) {
        KDA_ASSERT(why != KDA_OMIT_NONE);
        kda_event_omit(builder, KDA_FIELD_IMAGE, why);
        return;
    }
    if (process->StartKey != 0)
        kda_event_set(builder, KDA_FIELD_PROCESS_KEY, process->StartKey);
    if (process->Image.Length != 0)
        KdaRecordString(record, KDA_FIELD_IMAGE, &process->Image);
    else if (process->ImageReason != KDA_OMIT_NONE)
        kda_event_omit(builder, KDA_FIELD_IMAGE, process->ImageReason);
}

_Use_decl_annotations_ enum kda_omit_reason KdaOmitReason(NTSTATUS status)
{
    switch (status) {
    case STATUS_INVALID_INFO_CLASS:
    case STATUS_NOT_IMPLEMENTED:
    case STATUS_NOT_SUPPORTED:
        return KDA_OMIT_UNSUPPORTED;
    case STATUS_INSUFFICIENT_RESOURCES:
    case STATUS_NO_MEMORY:
    case STATUS_QUOTA_EXCEEDED:
        return KDA_OMIT_MEMORY;
    case STATUS_PROCESS_IS_TERMINATING:
    case STATUS_THREAD_IS_TERMINATING:
    case STATUS_INVALID_CID:
        return KDA_OMIT_GONE;
    default:
        return KDA_OMIT_FAILED;
    }
}

_Use_decl_annotations_ VOID KdaRecordString(KDA_RECORD *record, enum kda_field field,
                                            PCUNICODE_STRING string)
{
    if (string != NULL)
        kda_event_string(&record->Builder, field, string->Buffer, string->Length / sizeof(WCHAR));
}

_Use_decl_annotations_ VOID KdaRecordPush(KDA_RECORD *record)
{
    KDAMON_EVENT event;

    kda_event_end(&record->Builder);
    event.Data = record->Builder.event;
    event.Type = KdaMonEventTypeOf(record->Kind);
    if (KdaFilterFirst(event.Data))
        KdaMonEventQueuePush(&event);
    KdaRecordDiscard(record);
}

_Use_decl_annotations_ VOID KdaRecordDiscard(KDA_RECORD *record)
{
    if (record->Buffer == NULL)
        return;
    if (record->FromList)
        ExFreeToNPagedLookasideList(&KdapBlocks, record->Buffer);
    else
        ExFreePoolWithTag(record->Buffer, KDA_TAG_RECORD);
    record->Buffer = NULL;
}
