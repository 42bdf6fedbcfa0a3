/*
 * reader.c - live readers: handles of the device that read the log's lines as they are made.
 *
 * A handle becomes a reader with its first read, not when it is opened: a handle that only makes
 * control requests takes no memory and no place. A read of no bytes is enough. Each reader has a
 * ring of bytes that only takes whole lines; a line that finds no room is counted, and the count is
 * given to that reader, as a line of its own, before the next one that fits. Nobody waits for a
 * reader.
 *
 * Reads are parked in a cancel-safe queue and served in their order. The mutex protects the list of
 * readers and their rings, which are paged; the queue has its spin lock.
 */
#include "driver.h"

#define KDA_LOSS_RECORD_BYTES 4096u
#define KDA_LOSS_LINE_BYTES 8192u

typedef struct _KDA_READER {
    LIST_ENTRY Link;
    PFILE_OBJECT File;
    PUCHAR Data;
    ULONG Size;
    ULONG Start;
    ULONG Used;
    struct kda_ring_loss Loss;
} KDA_READER;

typedef struct _KDA_READERS {
    FAST_MUTEX Mutex;
    LIST_ENTRY List;
    volatile LONG Count;
    PVOID LossRecord;
    PCHAR LossLine;
    IO_CSQ Queue;
    KSPIN_LOCK QueueLock;
    LIST_ENTRY Parked;
} KDA_READERS;

static KDA_READERS *KdapReaders;

/* --- parked reads ---------------------------------------------------------------------------- */

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapInsert(PIO_CSQ queue, PIRP irp)
{
    UNREFERENCED_PARAMETER(queue);
    InsertTailList(&KdapReaders->Parked, &irp->Tail.Overlay.ListEntry);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapRemove(PIO_CSQ queue, PIRP irp)
{
    UNREFERENCED_PARAMETER(queue);
    RemoveEntryList(&irp->Tail.Overlay.ListEntry);
}

/* The next one of a file object; of any, without one. */
_IRQL_requires_max_(DISPATCH_LEVEL) static PIRP KdapPeek(PIO_CSQ queue, PIRP irp, PVOID file)
{
    PLIST_ENTRY entry = irp ? irp->Tail.Overlay.ListEntry.Flink : KdapReaders->Parked.Flink;

    UNREFERENCED_PARAMETER(queue);
    for (; entry != &KdapReaders->Parked; entry = entry->Flink) {
        PIRP next = CONTAINING_RECORD(entry, IRP, Tail.Overlay.ListEntry);
        if (file == NULL || IoGetCurrentIrpStackLocation(next)->FileObject == file)
            return next;
    }
    return NULL;
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapAcquire(PIO_CSQ queue, PKIRQL irql)
{
    UNREFERENCED_PARAMETER(queue);
    *irql = KeAcquireSpinLockRaiseToDpc(&KdapReaders->QueueLock);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapRelease(PIO_CSQ queue, KIRQL irql)
{
    UNREFERENCED_PARAMETER(queue);
    KeReleaseSpinLock(&KdapReaders->QueueLock, irql);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapComplete(PIRP irp, NTSTATUS status, ULONG bytes)
{
    irp->IoStatus.Status = status;
    irp->IoStatus.Information = bytes;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapCanceled(PIO_CSQ queue, PIRP irp)
{
    UNREFERENCED_PARAMETER(queue);
    KdapComplete(irp, STATUS_CANCELLED, 0);
}

/* --- rings of bytes -------------------------------------------------------------------------- */

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapPut(KDA_READER *reader, const CHAR *bytes, ULONG count)
{
    ULONG at = (reader->Start + reader->Used) % reader->Size;
    ULONG first = reader->Size - at < count ? reader->Size - at : count;

    RtlCopyMemory(reader->Data + at, bytes, first);
    RtlCopyMemory(reader->Data, bytes + first, count - first);
    reader->Used += count;
}

_IRQL_requires_max_(APC_LEVEL) static ULONG KdapGet(KDA_READER *reader, PUCHAR to, ULONG most)
{
    ULONG count = reader->Used < most ? reader->Used : most;
    ULONG first = reader->Size - reader->Start < count ? reader->Size - reader->Start : count;

    RtlCopyMemory(to, reader->Data + reader->Start, first);
    RtlCopyMemory(to + first, reader->Data, count - first);
    reader->Start = (reader->Start + count) % reader->Size;
    reader->Used -= count;
    return count;
}

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapCountLoss(KDA_READER *reader, const struct kda_event *event)
{
    struct kda_ring_loss *loss = &reader->Loss;

    if (loss->total == 0)
        loss->first_time = event->time;
    loss->last_time = event->time;
    loss->counts[event->kind]++;
    loss->total++;
    loss->bytes += event->size;
}

/* The reader's own loss line, if it has lost something and there is room for it. FALSE: no room. */
_IRQL_requires_max_(APC_LEVEL) static BOOLEAN
    KdapTellLoss(KDA_READER *reader, ULONGLONG time, const struct kda_clock *clock)
{
    struct kda_clock copy = *clock;
    struct kda_event *event;
    SIZE_T bytes;

    if (reader->Loss.total == 0)
        return TRUE;
    event = KdaSelfLoss(KdapReaders->LossRecord, KDA_LOSS_RECORD_BYTES, &reader->Loss,
                        KDA_LOSS_BUFFER_LOST, TRUE);
    event->time = time;
    bytes = kda_jsonl_encode(event, &copy, KdapReaders->LossLine, KDA_LOSS_LINE_BYTES);
    if (bytes > KDA_LOSS_LINE_BYTES || bytes > reader->Size - reader->Used)
        return FALSE;
    KdapPut(reader, KdapReaders->LossLine, (ULONG)bytes);
    RtlZeroMemory(&reader->Loss, sizeof reader->Loss);
    return TRUE;
}

/* --- readers --------------------------------------------------------------------------------- */

_IRQL_requires_max_(APC_LEVEL) static KDA_READER *KdapAllocate(PFILE_OBJECT file)
{
    KDA_READER *reader = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *reader, KDA_TAG_READER);

    if (reader == NULL)
        return NULL;
    RtlZeroMemory(reader, sizeof *reader);
    reader->File = file;
    reader->Size = KdaDriver->Settings.ReaderBytes;
    reader->Data = ExAllocatePoolWithTag(PagedPool, reader->Size, KDA_TAG_READER);
    if (reader->Data == NULL) {
        ExFreePoolWithTag(reader, KDA_TAG_READER);
        return NULL;
    }
    return reader;
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapFreeReader(KDA_READER *reader)
{
    ExFreePoolWithTag(reader->Data, KDA_TAG_READER);
    ExFreePoolWithTag(reader, KDA_TAG_READER);
}

_IRQL_requires_max_(APC_LEVEL) static NTSTATUS KdapBecomeReader(PFILE_OBJECT file)
{
    KDA_READER *reader;
    NTSTATUS status = STATUS_SUCCESS;

    ExAcquireFastMutex(&KdapReaders->Mutex);
    if (file->FsContext != NULL)
        goto Exit;
    status = STATUS_TOO_MANY_OPENED_FILES;
    if ((ULONG)KdapReaders->Count >= KdaDriver->Settings.Readers)
        goto Exit;
    status = STATUS_INSUFFICIENT_RESOURCES;
    reader = KdapAllocate(file);
    if (reader == NULL)
        goto Exit;
    InsertTailList(&KdapReaders->List, &reader->Link);
    InterlockedIncrement(&KdapReaders->Count);
    file->FsContext = reader;
    status = STATUS_SUCCESS;
Exit:
    ExReleaseFastMutex(&KdapReaders->Mutex);
    return status;
}

_Use_decl_annotations_ NTSTATUS KdaReaderRead(PIRP irp)
{
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    NTSTATUS status = KdapBecomeReader(stack->FileObject);

    if (NT_SUCCESS(status) && stack->Parameters.Read.Length != 0) {
        IoCsqInsertIrp(&KdapReaders->Queue, irp, NULL);
        KdaReadersServe(NULL);
        return STATUS_PENDING;
    }
    KdapComplete(irp, status, 0);
    return status;
}

_IRQL_requires_max_(APC_LEVEL) static VOID KdapEndParked(PFILE_OBJECT file)
{
    PIRP irp;

    while ((irp = IoCsqRemoveNextIrp(&KdapReaders->Queue, file)) != NULL)
        KdapComplete(irp, STATUS_CANCELLED, 0);
}

_Use_decl_annotations_ VOID KdaReaderCleanup(PFILE_OBJECT file)
{
    KdapEndParked(file);
}

_Use_decl_annotations_ VOID KdaReaderClose(PFILE_OBJECT file)
{
    KDA_READER *reader;

    KdapEndParked(file);
    ExAcquireFastMutex(&KdapReaders->Mutex);
    reader = file->FsContext;
    file->FsContext = NULL;
    if (reader != NULL) {
        RemoveEntryList(&reader->Link);
        InterlockedDecrement(&KdapReaders->Count);
    }
    ExReleaseFastMutex(&KdapReaders->Mutex);
    if (reader != NULL)
        KdapFreeReader(reader);
}

_Use_decl_annotations_ ULONG KdaReadersOpen(VOID)
{
    return (ULONG)ReadAcquire(&KdapReaders->Count);
}

_Use_decl_annotations_ VOID KdaReadersLine(const struct kda_event *event, const CHAR *line,
                                           ULONG bytes, const struct kda_clock *clock)
{
    PLIST_ENTRY entry;

    if (ReadAcquire(&KdapReaders->Count) == 0)
        return;
    ExAcquireFastMutex(&KdapReaders->Mutex);
    for (entry = KdapReaders->List.Flink; entry != &KdapReaders->List; entry = entry->Flink) {
        KDA_READER *reader = CONTAINING_RECORD(entry, KDA_READER, Link);
        if (KdapTellLoss(reader, event->time, clock) && bytes <= reader->Size - reader->Used)
            KdapPut(reader, line, bytes);
        else
            KdapCountLoss(reader, event);
    }
    ExReleaseFastMutex(&KdapReaders->Mutex);
}

/* One read that can be completed, with its data in it. */
_IRQL_requires_max_(APC_LEVEL) static PIRP KdapTakeReady(const struct kda_clock *clock)
{
    PIRP irp = NULL;
    PLIST_ENTRY entry;

    ExAcquireFastMutex(&KdapReaders->Mutex);
    for (entry = KdapReaders->List.Flink; entry != &KdapReaders->List; entry = entry->Flink) {
        KDA_READER *reader = CONTAINING_RECORD(entry, KDA_READER, Link);
        if (clock != NULL)
            KdapTellLoss(reader, reader->Loss.last_time, clock);
        if (reader->Used == 0)
            continue;
        irp = IoCsqRemoveNextIrp(&KdapReaders->Queue, reader->File);
        if (irp == NULL)
            continue;
        irp->IoStatus.Information =
            KdapGet(reader, irp->AssociatedIrp.SystemBuffer,
                    IoGetCurrentIrpStackLocation(irp)->Parameters.Read.Length);
        break;
    }
    ExReleaseFastMutex(&KdapReaders->Mutex);
    return irp;
}

_Use_decl_annotations_ VOID KdaReadersServe(const struct kda_clock *clock)
{
    PIRP irp;

    if (ReadAcquire(&KdapReaders->Count) == 0)
        return;
    while ((irp = KdapTakeReady(clock)) != NULL)
        KdapComplete(irp, STATUS_SUCCESS, (ULONG)irp->IoStatus.Information);
}

/* --- start and stop -------------------------------------------------------------------------- */

_IRQL_requires_max_(APC_LEVEL) static VOID KdapFree(VOID)
{
    if (KdapReaders->LossRecord != NULL)
        ExFreePoolWithTag(KdapReaders->LossRecord, KDA_TAG_READER);
    if (KdapReaders->LossLine != NULL)
        ExFreePoolWithTag(KdapReaders->LossLine, KDA_TAG_READER);
    ExFreePoolWithTag(KdapReaders, KDA_TAG_READER);
    KdapReaders = NULL;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaReadersStart(KDA_DRIVER *driver)
{
    NTSTATUS status;

    UNREFERENCED_PARAMETER(driver);
    KdapReaders = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *KdapReaders, KDA_TAG_READER);
    if (KdapReaders == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    RtlZeroMemory(KdapReaders, sizeof *KdapReaders);
    ExInitializeFastMutex(&KdapReaders->Mutex);
    InitializeListHead(&KdapReaders->List);
    InitializeListHead(&KdapReaders->Parked);
    KeInitializeSpinLock(&KdapReaders->QueueLock);
    KdapReaders->LossRecord =
        ExAllocatePoolWithTag(PagedPool, KDA_LOSS_RECORD_BYTES, KDA_TAG_READER);
    KdapReaders->LossLine = ExAllocatePoolWithTag(PagedPool, KDA_LOSS_LINE_BYTES, KDA_TAG_READER);
    status = STATUS_INSUFFICIENT_RESOURCES;
    if (KdapReaders->LossRecord != NULL && KdapReaders->LossLine != NULL)
        status = IoCsqInitialize(&KdapReaders->Queue, KdapInsert, KdapRemove, KdapPeek, KdapAcquire,
                                 KdapRelease, KdapCanceled);
    if (!NT_SUCCESS(status))
        KdapFree();
    return status;
}

/* Handles are closed before a driver is unloaded; where a system does not wait for that, their
 * reads end here. Nothing is written to the file objects: they may have gone meanwhile. */
_Use_decl_annotations_ VOID KdaReadersStop(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    KdapEndParked(NULL);
    while (!IsListEmpty(&KdapReaders->List)) {
        KDA_READER *reader = CONTAINING_RECORD(KdapReaders->List.Flink, KDA_READER, Link);
        RemoveEntryList(&reader->Link);
        KdapFreeReader(reader);
    }
    KdapFree();
}
