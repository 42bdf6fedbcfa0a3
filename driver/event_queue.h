/*
 * event_queue.h - the NT face of event/kda_ring: one queue between all callbacks and the writer.
 *
 * Push and the counters may be called at any IRQL up to DISPATCH_LEVEL and never wait. One thread
 * pops. docs/queue.md says what is guaranteed.
 */
#ifndef KDA_EVENT_QUEUE_H
#define KDA_EVENT_QUEUE_H

#include "nt.h"
#include "kda_ring.h"

typedef enum _KDAMON_EVENT_TYPE {
    KdaMonEventImageLoad,
    KdaMonEventNetwork,
    KdaMonEventProcess,
    KdaMonEventRegistry,
    KdaMonEventThread,
    KdaMonEventOther /* etw.event, sensor.*: never pushed by a callback */
} KDAMON_EVENT_TYPE;

typedef struct _KDAMON_EVENT {
    KDAMON_EVENT_TYPE Type;  /* group of Data->kind */
    LARGE_INTEGER Timestamp; /* performance counter at the push; set by Pop */
    ULONGLONG Id;            /* dense, in output order; set by Pop */
    /* Push: complete, in memory that is never paged out. Pop: in place, until the next Pop. */
    struct kda_event *Data;
} KDAMON_EVENT, *PKDAMON_EVENT;

typedef struct _KDAMON_QUEUE_OPTIONS {
    ULONG Shards;     /* power of two; 0: one per processor, at most 16 */
    ULONG ShardBytes; /* power of two; 0: KDA_RING_DEFAULT_SHARD_BYTES */
    ULONG StallMicroseconds;
    ULONGLONG (*Time)(VOID); /* NULL: KeQueryPerformanceCounter */
} KDAMON_QUEUE_OPTIONS;

_Must_inspect_result_ _IRQL_requires_max_(APC_LEVEL)
BOOLEAN
KdaMonEventQueueInitialize(_In_opt_ const KDAMON_QUEUE_OPTIONS *options);
/* No push, pop or count may be under way or follow. */
_IRQL_requires_max_(APC_LEVEL) VOID KdaMonEventQueueDestroy(VOID);

/* FALSE: refused. A refusal for lack of room is counted; NULL or no record is refused uncounted. */
_IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN
    KdaMonEventQueuePush(_In_opt_ const KDAMON_EVENT *event);
/* FALSE: none, or one is still being written. */
_Success_(return != FALSE) _IRQL_requires_max_(DISPATCH_LEVEL) BOOLEAN
    KdaMonEventQueuePop(_Out_ KDAMON_EVENT *event);
_IRQL_requires_max_(DISPATCH_LEVEL) ULONGLONG KdaMonEventQueueCount(VOID);
/* Refused events of a kind since the start; kind 0: of all kinds. */
_IRQL_requires_max_(DISPATCH_LEVEL) ULONGLONG KdaMonEventQueueDropped(_In_ ULONG kind);

/* Counts an event that never became a record, for lack of memory. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaMonEventQueueLose(_In_ ULONG kind, _In_ SIZE_T bytes);

KDAMON_EVENT_TYPE KdaMonEventTypeOf(_In_ ULONG kind);

/* --- for the writer, the only consumer ---------------------------------------------------------
 */

struct kda_ring *KdaMonEventQueueRing(VOID);
/* Waits until a producer asks for the consumer, KdaMonEventQueueWake is called, or the time is
 * over. `always`: also if events wait (their consumer cannot take them now). FALSE: so many wait
 * that they should be taken. */
_IRQL_requires_max_(APC_LEVEL) BOOLEAN
    KdaMonEventQueueWait(_In_ ULONG milliseconds, _In_ BOOLEAN always);
/* The same, but the first event that comes wakes the consumer, whatever its kind. For a consumer
 * that has found nothing for some milliseconds: a push that began before is seen by then. */
_IRQL_requires_max_(APC_LEVEL) VOID KdaMonEventQueueWaitIdle(_In_ ULONG milliseconds);
_IRQL_requires_max_(DISPATCH_LEVEL) VOID KdaMonEventQueueWake(VOID);

#endif
