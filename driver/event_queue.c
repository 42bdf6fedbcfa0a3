#include "event_queue.h"

#define KDA_TAG_QUEUE 0x5161644Bu /* "KdaQ" */
#define KDA_MAX_DEFAULT_SHARDS 16u
#define KDA_DEFAULT_STALL_MICROSECONDS 2000u
#define KDA_SETTLE_MILLISECONDS 10u

typedef struct _KDA_QUEUE {
    struct kda_ring *Ring;
    PVOID Memory;
    KEVENT Wake;
    volatile LONG Idle; /* the consumer sleeps until an event comes: the first push clears it */
    ULONGLONG (*Time)(VOID);
} KDA_QUEUE;

static KDA_QUEUE KdapQueue;

_IRQL_requires_max_(DISPATCH_LEVEL) static uint64_t KdapTime(void *context)
{
    UNREFERENCED_PARAMETER(context);
    return KdapQueue.Time();
}

_IRQL_requires_max_(DISPATCH_LEVEL) static uint32_t KdapCpu(void *context)
{
    UNREFERENCED_PARAMETER(context);
    return KeGetCurrentProcessorNumberEx(NULL);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static ULONGLONG KdapCounter(VOID)
{
    return (ULONGLONG)KeQueryPerformanceCounter(NULL).QuadPart;
}

_IRQL_requires_max_(APC_LEVEL) static ULONG KdapDefaultShards(VOID)
{
    ULONG cpus = KeQueryActiveProcessorCountEx(ALL_PROCESSOR_GROUPS);
    ULONG shards = 1;
    while (shards < cpus && shards < KDA_MAX_DEFAULT_SHARDS)
        shards *= 2;
    return shards;
}

_IRQL_requires_max_(APC_LEVEL) static VOID
    KdapConfigure(const KDAMON_QUEUE_OPTIONS *options, struct kda_ring_config *config)
{
    LARGE_INTEGER frequency;
    ULONG stall = KDA_DEFAULT_STALL_MICROSECONDS;

    RtlZeroMemory(config, sizeof *config);
    KeQueryPerformanceCounter(&frequency);
    config->shards = options && options->Shards ? options->Shards : KdapDefaultShards();
    config->shard_bytes =
        options && options->ShardBytes ? options->ShardBytes : KDA_RING_DEFAULT_SHARD_BYTES;
    if (options && options->StallMicroseconds)
        stall = options->StallMicroseconds;
    config->stall_ticks = (uint64_t)frequency.QuadPart * stall / 1000000u;
    config->urgent_classes = 1u << KDA_CLASS_PROCESS;
    config->ops.time = KdapTime;
    config->ops.cpu = KdapCpu;
    KdapQueue.Time = options && options->Time ? options->Time : KdapCounter;
}

_Use_decl_annotations_ BOOLEAN KdaMonEventQueueInitialize(const KDAMON_QUEUE_OPTIONS *options)
{
    struct kda_ring_config config;
    size_t bytes;
    PUCHAR aligned;

    RtlZeroMemory(&KdapQueue, sizeof KdapQueue);
    KdapConfigure(options, &config);
    bytes = kda_ring_bytes(&config);
    if (bytes == 0)
        return FALSE;
    KdapQueue.Memory =
        ExAllocatePoolWithTag(NonPagedPoolNx, bytes + KDA_RING_ALIGNMENT, KDA_TAG_QUEUE);
    if (KdapQueue.Memory == NULL)
        return FALSE;
    aligned = KdapQueue.Memory;
    aligned += (KDA_RING_ALIGNMENT - (ULONG_PTR)aligned % KDA_RING_ALIGNMENT) % KDA_RING_ALIGNMENT;
    KeInitializeEvent(&KdapQueue.Wake, SynchronizationEvent, FALSE);
    KdapQueue.Ring = kda_ring_init(aligned, bytes, &config);
    if (KdapQueue.Ring == NULL) {
        ExFreePoolWithTag(KdapQueue.Memory, KDA_TAG_QUEUE);
        KdapQueue.Memory = NULL;
        return FALSE;
    }
    return TRUE;
}

_Use_decl_annotations_ VOID KdaMonEventQueueDestroy(VOID)
{
    if (KdapQueue.Memory != NULL)
        ExFreePoolWithTag(KdapQueue.Memory, KDA_TAG_QUEUE);
    KdapQueue.Memory = NULL;
    KdapQueue.Ring = NULL;
}

_Use_decl_annotations_ BOOLEAN KdaMonEventQueuePush(const KDAMON_EVENT *event)
{
    KIRQL irql;
    unsigned result;

    if (event == NULL || event->Data == NULL || KdapQueue.Ring == NULL)
        return FALSE;
    /* The thread must keep its CPU between reserve and commit: a producer that is descheduled
     * there holds back the consumer. */
    KeRaiseIrql(DISPATCH_LEVEL, &irql);
    result = kda_ring_push(KdapQueue.Ring, event->Data);
    KeLowerIrql(irql);
    /* The flag is read, not swapped, while the consumer is awake: its line stays in all caches. */
    if ((result & KDA_PUSH_WAKE) ||
        (ReadAcquire(&KdapQueue.Idle) != 0 && InterlockedExchange(&KdapQueue.Idle, 0) != 0))
        KeSetEvent(&KdapQueue.Wake, IO_NO_INCREMENT, FALSE);
    return (result & ~KDA_PUSH_WAKE) == KDA_PUSH_QUEUED;
}

_Use_decl_annotations_ BOOLEAN KdaMonEventQueuePop(KDAMON_EVENT *event)
{
    struct kda_event *data;

    if (event == NULL || KdapQueue.Ring == NULL ||
        kda_ring_next(KdapQueue.Ring, &data) != KDA_NEXT_EVENT)
        return FALSE;
    event->Type = KdaMonEventTypeOf(data->kind);
    event->Timestamp.QuadPart = (LONGLONG)data->time;
    event->Id = data->id;
    event->Data = data;
    return TRUE;
}

_Use_decl_annotations_ ULONGLONG KdaMonEventQueueCount(VOID)
{
    return KdapQueue.Ring ? kda_ring_count(KdapQueue.Ring) : 0;
}

_Use_decl_annotations_ ULONGLONG KdaMonEventQueueDropped(ULONG kind)
{
    uint64_t counts[KDA_KIND_COUNT];
    ULONGLONG total = 0;

    if (KdapQueue.Ring == NULL || kind >= KDA_KIND_COUNT)
        return 0;
    kda_ring_lost(KdapQueue.Ring, counts);
    if (kind != 0)
        return counts[kind];
    for (ULONG i = 0; i < KDA_KIND_COUNT; i++)
        total += counts[i];
    return total;
}

_Use_decl_annotations_ VOID KdaMonEventQueueLose(ULONG kind, SIZE_T bytes)
{
    if (KdapQueue.Ring != NULL)
        kda_ring_lose(KdapQueue.Ring, kind, bytes, KDA_LOSS_BUFFER_LOST);
}

KDAMON_EVENT_TYPE KdaMonEventTypeOf(ULONG kind)
{
    if (kind >= KDA_KIND_PROCESS_CREATE && kind <= KDA_KIND_PROCESS_EXISTING)
        return KdaMonEventProcess;
    if (kind == KDA_KIND_THREAD_CREATE || kind == KDA_KIND_THREAD_EXIT)
        return KdaMonEventThread;
    if (kind == KDA_KIND_IMAGE_LOAD || kind == KDA_KIND_IMAGE_UNLOAD)
        return KdaMonEventImageLoad;
    if (kind >= KDA_KIND_NETWORK_CONNECT && kind <= KDA_KIND_NETWORK_DISCONNECT)
        return KdaMonEventNetwork;
    if (kind >= KDA_KIND_REGISTRY_KEY_CREATE && kind <= KDA_KIND_REGISTRY_VALUE_DELETE)
        return KdaMonEventRegistry;
    return KdaMonEventOther;
}

struct kda_ring *KdaMonEventQueueRing(VOID)
{
    return KdapQueue.Ring;
}

_IRQL_requires_max_(APC_LEVEL) static BOOLEAN KdapWait(ULONG milliseconds, BOOLEAN always)
{
    LARGE_INTEGER timeout;
    BOOLEAN few;

    timeout.QuadPart = -(LONGLONG)milliseconds * 10000;
    few = kda_ring_sleep(KdapQueue.Ring) != 0;
    if (few || always)
        KeWaitForSingleObject(&KdapQueue.Wake, Executive, KernelMode, FALSE, &timeout);
    kda_ring_awake(KdapQueue.Ring);
    return few;
}

_Use_decl_annotations_ BOOLEAN KdaMonEventQueueWait(ULONG milliseconds, BOOLEAN always)
{
    InterlockedExchange(&KdapQueue.Idle, 0);
    return KdapWait(milliseconds, always);
}

_Use_decl_annotations_ VOID KdaMonEventQueueWaitIdle(ULONG milliseconds)
{
    /* The first wait is short: a push that did not see the flag is in the ring when it ends, or
     * under way, and the consumer looks before it waits longer. */
    if (InterlockedExchange(&KdapQueue.Idle, 1) == 0 || !kda_ring_idle(KdapQueue.Ring))
        milliseconds = KDA_SETTLE_MILLISECONDS;
    KdapWait(milliseconds, FALSE);
}

_Use_decl_annotations_ VOID KdaMonEventQueueWake(VOID)
{
    if (KdapQueue.Ring != NULL)
        KeSetEvent(&KdapQueue.Wake, IO_NO_INCREMENT, FALSE);
}
