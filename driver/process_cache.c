/*
 * process_cache.c - what is known of each process: start key, image, rate limits.
 *
 * Callbacks of all sensors look here, at up to DISPATCH_LEVEL, for the image of the process that
 * acts; only the process sensor, at PASSIVE_LEVEL, asks the system. Entries are immutable but for
 * counters, have a reference count, and stay for some seconds after the exit of their process,
 * because the ends of its threads and its handles are seen then.
 */
#include "driver.h"

#define KDA_PROCESS_BUCKETS 256u /* power of two */
#define KDA_KEEP_EXITED_MS 10000u

typedef struct _KDA_PROCESS_BUCKET {
    KSPIN_LOCK Lock;
    KDA_PROCESS *First;
} KDA_PROCESS_BUCKET;

static KDA_PROCESS_BUCKET *KdapBuckets;

_IRQL_requires_max_(DISPATCH_LEVEL) static KDA_PROCESS_BUCKET *KdapBucketOf(ULONG pid)
{
    /* Process ids are multiples of 4. */
    return &KdapBuckets[(pid >> 2) & (KDA_PROCESS_BUCKETS - 1)];
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaProcessCacheStart(KDA_DRIVER *driver)
{
    SIZE_T bytes = KDA_PROCESS_BUCKETS * sizeof(KDA_PROCESS_BUCKET);

    UNREFERENCED_PARAMETER(driver);
    KdapBuckets = ExAllocatePoolWithTag(NonPagedPoolNx, bytes, KDA_TAG_PROCESS);
    if (KdapBuckets == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    for (ULONG i = 0; i < KDA_PROCESS_BUCKETS; i++) {
        KeInitializeSpinLock(&KdapBuckets[i].Lock);
        KdapBuckets[i].First = NULL;
    }
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ VOID KdaProcessCacheStop(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    for (ULONG i = 0; i < KDA_PROCESS_BUCKETS; i++) {
        while (KdapBuckets[i].First != NULL) {
            KDA_PROCESS *process = KdapBuckets[i].First;
            KdapBuckets[i].First = process->Next;
            KdaProcessRelease(process);
        }
    }
    ExFreePoolWithTag(KdapBuckets, KDA_TAG_PROCESS);
    KdapBuckets = NULL;
}

/* An entry that is alive is preferred to one of the same pid that has ended. */
_IRQL_requires_max_(DISPATCH_LEVEL) static KDA_PROCESS *KdapSearch(KDA_PROCESS_BUCKET *bucket,
                                                                   ULONG pid)
{
    KDA_PROCESS *process;

    for (process = bucket->First; process != NULL; process = process->Next) {
        if (process->Pid == pid)
            return process;
    }
    return NULL;
}

_Use_decl_annotations_ KDA_PROCESS *KdaProcessFind(ULONG pid)
{
    KDA_PROCESS_BUCKET *bucket = KdapBucketOf(pid);
    KDA_PROCESS *process;
    KIRQL irql;

    irql = KeAcquireSpinLockRaiseToDpc(&bucket->Lock);
    process = KdapSearch(bucket, pid);
    if (process != NULL)
        InterlockedIncrement(&process->References);
    KeReleaseSpinLock(&bucket->Lock, irql);
    return process;
}

_Use_decl_annotations_ VOID KdaProcessRelease(KDA_PROCESS *process)
{
    if (process != NULL && InterlockedDecrement(&process->References) == 0)
        ExFreePoolWithTag(process, KDA_TAG_PROCESS);
}

_Use_decl_annotations_ KDA_PROCESS *KdaProcessMake(ULONG pid, ULONGLONG startKey,
                                                   LONGLONG createTime, PCUNICODE_STRING image)
{
    SIZE_T units = image ? image->Length / sizeof(WCHAR) : 0;
    SIZE_T text = (units * sizeof(WCHAR) + 7) & ~(SIZE_T)7;
    SIZE_T bytes = sizeof(KDA_PROCESS) + text + KdaFilterBuckets() * sizeof(LONG64);
    KDA_PROCESS *process = ExAllocatePoolWithTag(NonPagedPoolNx, bytes, KDA_TAG_PROCESS);

    if (process == NULL)
        return NULL;
    RtlZeroMemory(process, bytes);
    process->References = 2; /* the cache's and the caller's */
    process->Pid = pid;
    process->StartKey = startKey;
    process->CreateTime = createTime;
    process->Image.Buffer = (PWSTR)(PVOID)(process + 1);
    process->Image.Length = process->Image.MaximumLength = (USHORT)(units * sizeof(WCHAR));
    if (units != 0)
        RtlCopyMemory(process->Image.Buffer, image->Buffer, units * sizeof(WCHAR));
    process->Buckets = (volatile LONG64 *)(PVOID)((PUCHAR)(process + 1) + text);
    return process;
}

/* Referenced; the lock of the bucket is held. */
_IRQL_requires_max_(DISPATCH_LEVEL) static KDA_PROCESS *KdapSame(KDA_PROCESS_BUCKET *bucket,
                                                                 ULONG pid, LONGLONG createTime)
{
    KDA_PROCESS *known = KdapSearch(bucket, pid);

    if (known == NULL ||
        (known->CreateTime != createTime && known->CreateTime != 0 && createTime != 0))
        return NULL;
    InterlockedIncrement(&known->References);
    return known;
}

_Use_decl_annotations_ KDA_PROCESS *KdaProcessSame(ULONG pid, LONGLONG createTime)
{
    KDA_PROCESS_BUCKET *bucket = KdapBucketOf(pid);
    KDA_PROCESS *known;
    KIRQL irql;

    irql = KeAcquireSpinLockRaiseToDpc(&bucket->Lock);
    known = KdapSame(bucket, pid, createTime);
    KeReleaseSpinLock(&bucket->Lock, irql);
    return known;
}

_Use_decl_annotations_ KDA_PROCESS *KdaProcessAdd(KDA_PROCESS *fresh, KDA_RECORD *told)
{
    KDA_PROCESS_BUCKET *bucket = KdapBucketOf(fresh->Pid);
    KDA_PROCESS *known;
    KIRQL irql;

    irql = KeAcquireSpinLockRaiseToDpc(&bucket->Lock);
    known = KdapSame(bucket, fresh->Pid, fresh->CreateTime);
    if (known == NULL) {
        /* In front of an entry of a process that had the same pid before. */
        fresh->Next = bucket->First;
        bucket->First = fresh;
        if (told != NULL)
            KdaRecordPush(told);
    }
    KeReleaseSpinLock(&bucket->Lock, irql);
    if (known == NULL)
        return fresh;
    ExFreePoolWithTag(fresh, KDA_TAG_PROCESS);
    if (told != NULL)
        KdaRecordDiscard(told);
    return known;
}

_Use_decl_annotations_ VOID KdaProcessExited(KDA_PROCESS *process)
{
    ULONGLONG now = KdaMilliseconds();
    InterlockedExchange64((volatile LONG64 *)&process->ExitedAt, (LONG64)(now ? now : 1));
}

_Use_decl_annotations_ VOID KdaProcessSweep(VOID)
{
    ULONGLONG now = KdaMilliseconds();
    KIRQL irql;

    for (ULONG i = 0; i < KDA_PROCESS_BUCKETS; i++) {
        KDA_PROCESS *gone = NULL;
        KDA_PROCESS **link = &KdapBuckets[i].First;

        irql = KeAcquireSpinLockRaiseToDpc(&KdapBuckets[i].Lock);
        while (*link != NULL) {
            KDA_PROCESS *process = *link;
            ULONGLONG exited = (ULONGLONG)ReadNoFence64((volatile LONG64 *)&process->ExitedAt);
            if (exited != 0 && now - exited > KDA_KEEP_EXITED_MS) {
                *link = process->Next;
                process->Next = gone;
                gone = process;
            } else {
                link = &process->Next;
            }
        }
        KeReleaseSpinLock(&KdapBuckets[i].Lock, irql);
        while (gone != NULL) {
            KDA_PROCESS *process = gone;
            gone = process->Next;
            KdaProcessRelease(process);
        }
    }
}
