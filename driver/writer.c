/*
 * writer.c - the only consumer of the queue: one system thread that turns records into lines, in
 * batches, for the file and for live readers.
 *
 * A batch that cannot be written stays and is offered again; while it does the queue is not
 * drained, fills, and counts what it refuses. So no line is lost after it has its id, and a full
 * disk shows as one counted loss when writing works again.
 *
 * The thread runs at PASSIVE_LEVEL. Requests from others (flush, shutdown, stop) are numbers that
 * it looks at.
 */
#include "driver.h"

#define KDA_BATCH_BYTES 262144u /* no further line is added from here on */
#define KDA_WRITE_BYTES 65536u  /* written without waiting for more time to pass */
#define KDA_SELF_BYTES 65536u
#define KDA_WAIT_MS 10u /* while events come: they need not wake the thread */
#define KDA_RETRY_MS 1000u
#define KDA_TICK_MS 1000u
#define KDA_LOSS_MS 1000u
#define KDA_CHANGED_MS 1000u
#define KDA_FILTERED_MS 10000u
#define KDA_CLOCK_MS 10000u
#define KDA_REQUEST_WAITS 400u /* of KDA_REQUEST_MS */
#define KDA_REQUEST_MS 50u
#define KDA_LAST_TRIES 20u /* of writing at the stop, KDA_LAST_MS apart */
#define KDA_LAST_MS 50u

typedef struct _KDA_WRITER {
    PVOID Thread;
    volatile LONG Begun; /* the sensors have started: sensor.start can say how */
    volatile LONG Stop;
    volatile LONG64 FlushWanted;
    volatile LONG64 FlushDone;
    volatile LONG64 ShutdownWanted;
    volatile LONG64 ShutdownDone;
    KEVENT Done;

    KDA_LOG_FILE File;
    struct kda_clock Clock;
    struct kda_clock NextClock; /* for events from NextClock.counter on */
    BOOLEAN ClockChanges;

    uint64_t FirstId; /* of sensor.start, given before the first event */
    uint64_t FirstTime;

    PCHAR Batch;
    ULONG BatchBytes;
    BOOLEAN Urgent;
    BOOLEAN Held;            /* an event in the queue is begun and not finished */
    BOOLEAN Drained;         /* there were events since the last wait */
    LONG ChangesTold;        /* of the sensors' states */
    LONG ChangesBegun;       /* those that sensor.start tells; of `Begun` */
    struct kda_event *Start; /* sensor.start in `StartRoom`; of `Begun` */
    BOOLEAN Ended;           /* sensor.stop was told: nothing follows it, no further file either */
    ULONGLONG BatchSince;
    uint64_t BatchCounts[KDA_KIND_COUNT];
    PVOID Self, StartRoom;
    KDA_ACCOUNT Account;
    KDA_FILTER_COUNTS FilteredBefore;

    BOOLEAN DiskFailed; /* since the last loss line */
    ULONGLONG RetryAt;
    ULONGLONG TickAt, LossAt, FilteredAt, StatusAt, ClockAt, FlushAt, ChangedAt;

    /* For others to read. */
    volatile LONG WriteStatus;
    volatile LONG FileNumber;
    volatile LONG64 FileBytes;
    volatile LONG64 NextId;
    volatile LONG64 Written[KDA_KIND_COUNT];
    volatile LONG64 Own[KDA_KIND_COUNT]; /* lines that the writer has made itself */
} KDA_WRITER;

static KDA_WRITER *KdapWriter;

/* --- clock ----------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapNextClock(KDA_WRITER *writer, ULONGLONG counter, ULONGLONG utc)
{
    writer->NextClock = (struct kda_clock){
        .counter = counter, .utc = utc, .frequency = KdaDriver->Frequency, .in_order = 1};
    writer->ClockChanges = TRUE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapTakeClock(KDA_WRITER *writer, ULONGLONG now)
{
    ULONGLONG expected, counter, utc;

    if (!KdaClockMoved(&counter, &utc)) {
        if (now < writer->ClockAt)
            return;
        KdaClockPair(&counter, &utc);
        /* Somebody has set the system clock back: the log goes on by the counter, instead of giving
         * one time to all events until the clock has caught up. */
        expected = kda_clock_convert(&writer->Clock, counter);
        if (utc < expected && expected - utc > KDA_100NS_PER_S) {
            writer->ClockAt = now + KDA_CLOCK_MS;
            return;
        }
    }
    writer->ClockAt = now + KDA_CLOCK_MS;
    KdapNextClock(writer, counter, utc);
}

/* Events from before the new pair was taken keep the old one. A resume is asked for with each: the
 * machine may have slept since the pass began. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapUseClock(KDA_WRITER *writer, ULONGLONG time)
{
    ULONGLONG counter, utc;

    if (KdaClockMoved(&counter, &utc))
        KdapNextClock(writer, counter, utc);
    if (!writer->ClockChanges || time < writer->NextClock.counter)
        return;
    writer->NextClock.utc_floor = writer->Clock.utc_floor;
    writer->Clock = writer->NextClock;
    writer->ClockChanges = FALSE;
}

/* --- lines ----------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN KdapRoom(const KDA_WRITER *writer)
{
    return writer->BatchBytes < KDA_BATCH_BYTES;
}

/* The caller has asked KdapRoom: behind KDA_BATCH_BYTES is room for one line of any event. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapLine(KDA_WRITER *writer, const struct kda_event *event)
{
    PCHAR at = writer->Batch + writer->BatchBytes;
    SIZE_T bytes;

    KdapUseClock(writer, event->time);
    bytes = kda_jsonl_encode(event, &writer->Clock, at, KDA_JSONL_MAX(KDA_EVENT_MAX_BYTES));
    if (writer->BatchBytes == 0)
        writer->BatchSince = KdaMilliseconds();
    writer->BatchBytes += (ULONG)bytes;
    writer->BatchCounts[event->kind]++;
    KdaReadersLine(event, at, (ULONG)bytes, &writer->Clock);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapOwnLine(KDA_WRITER *writer, struct kda_event *event)
{
    if (event == NULL)
        return;
    kda_ring_stamp(KdaMonEventQueueRing(), event);
    InterlockedExchangeAdd64(&writer->Own[event->kind], 1);
    KdapLine(writer, event);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapDrain(KDA_WRITER *writer)
{
    struct kda_ring *ring = KdaMonEventQueueRing();
    enum kda_next next = KDA_NEXT_EMPTY;
    struct kda_event *event;

    while (KdapRoom(writer)) {
        next = kda_ring_next(ring, &event);
        if (next != KDA_NEXT_EVENT)
            break;
        KdapLine(writer, KdaThreadComplete(event, writer->Self, KDA_SELF_BYTES));
        writer->Drained = TRUE;
        if (KdaDriver->Settings.ProcessAtOnce && kda_class_of(event->kind) == KDA_CLASS_PROCESS)
            writer->Urgent = TRUE;
    }
    kda_ring_release(ring);
    writer->Held = next == KDA_NEXT_HELD;
}

/* --- the file -------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapPublish(KDA_WRITER *writer, NTSTATUS status)
{
    InterlockedExchange(&writer->WriteStatus, status);
    InterlockedExchange(&writer->FileNumber, (LONG)writer->File.Number);
    WriteRelease64(&writer->FileBytes, (LONG64)writer->File.Offset);
    WriteRelease64(&writer->NextId, (LONG64)kda_ring_next_id(KdaMonEventQueueRing()));
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapAcknowledge(KDA_WRITER *writer)
{
    for (ULONG kind = 0; kind < KDA_KIND_COUNT; kind++) {
        if (writer->BatchCounts[kind] == 0)
            continue;
        InterlockedExchangeAdd64(&writer->Written[kind], (LONG64)writer->BatchCounts[kind]);
        writer->BatchCounts[kind] = 0;
    }
    writer->BatchBytes = 0;
    writer->Urgent = FALSE;
}

/* The next file begins with a line of its own: it is opened when nothing waits that already has an
 * id. Where it cannot be opened the old file goes on. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapRotate(KDA_WRITER *writer)
{
    if (writer->Ended || writer->File.Offset < (ULONGLONG)KdaDriver->Settings.FileMegabytes << 20 ||
        !NT_SUCCESS(KdaLogFileNext(&writer->File)))
        return;
    KdapOwnLine(writer, KdaSelfFile(writer->Self, KDA_SELF_BYTES,
                                    kda_ring_next_id(KdaMonEventQueueRing()) + 1));
}

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN KdapWrite(KDA_WRITER *writer)
{
    NTSTATUS status = STATUS_SUCCESS;

    if (writer->File.Handle == NULL)
        status = KdaLogFileNext(&writer->File);
    if (NT_SUCCESS(status))
        status = KdaLogFileWrite(&writer->File, writer->Batch, writer->BatchBytes);
    if (NT_SUCCESS(status)) {
        KdapAcknowledge(writer);
        writer->RetryAt = 0;
        KdapRotate(writer);
    } else {
        writer->DiskFailed = TRUE;
        writer->RetryAt = KdaMilliseconds() + KDA_RETRY_MS;
    }
    KdapPublish(writer, status);
    return NT_SUCCESS(status);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapDue(const KDA_WRITER *writer, ULONGLONG now, BOOLEAN force)
{
    if (writer->BatchBytes == 0)
        return FALSE;
    if (force)
        return TRUE;
    if (writer->RetryAt != 0)
        return now >= writer->RetryAt;
    return writer->BatchBytes >= KDA_WRITE_BYTES || writer->Urgent ||
           now - writer->BatchSince >= KdaDriver->Settings.IdleMilliseconds;
}

/* --- what the log says of itself ------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapTellLosses(KDA_WRITER *writer, ULONGLONG now, BOOLEAN force)
{
    struct kda_ring *ring = KdaMonEventQueueRing();
    struct kda_ring_loss loss;

    if (!force && now < writer->LossAt)
        return;
    writer->LossAt = now + KDA_LOSS_MS;
    for (unsigned reason = KDA_LOSS_RING_FULL; reason < KDA_LOSS_REASONS; reason++) {
        enum kda_loss_reason told = (enum kda_loss_reason)reason;
        if (!KdapRoom(writer))
            return;
        if (!kda_ring_take_loss(ring, told, &loss))
            continue;
        if (told == KDA_LOSS_RING_FULL && writer->DiskFailed)
            told = KDA_LOSS_DISK_FULL;
        KdapOwnLine(writer, KdaSelfLoss(writer->Self, KDA_SELF_BYTES, &loss, told, FALSE));
    }
    if (writer->RetryAt == 0)
        writer->DiskFailed = FALSE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapTellFiltered(KDA_WRITER *writer, ULONGLONG now, BOOLEAN force)
{
    struct kda_event *event;

    if ((!force && now < writer->FilteredAt) || !KdapRoom(writer))
        return;
    writer->FilteredAt = now + KDA_FILTERED_MS;
    KdaFilterTotals(&writer->Account.Filtered);
    event = KdaSelfFiltered(writer->Self, KDA_SELF_BYTES, &writer->Account.Filtered,
                            &writer->FilteredBefore);
    if (event == NULL)
        return;
    KdapOwnLine(writer, event);
    writer->FilteredBefore = writer->Account.Filtered;
}

/* Totals as they are when the line that is added next, which is of kind `next`, has been written.
 * The writer's own lines do not go through the queue; the one with the totals counts itself. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapAccount(KDA_WRITER *writer, ULONG next)
{
    struct kda_ring *ring = KdaMonEventQueueRing();
    KDA_ACCOUNT *account = &writer->Account;

    kda_ring_accepted(ring, account->Offered);
    kda_ring_lost(ring, account->Lost);
    KdaFilterTotals(&account->Filtered);
    for (ULONG kind = 0; kind < KDA_KIND_COUNT; kind++) {
        ULONG itself = kind == next ? 1u : 0u;
        account->Written[kind] =
            (uint64_t)writer->Written[kind] + writer->BatchCounts[kind] + itself;
        account->Offered[kind] += account->Lost[kind] + account->Filtered.Kinds[kind] +
                                  (uint64_t)writer->Own[kind] + itself;
    }
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapTellStatus(KDA_WRITER *writer, ULONG kind)
{
    if (!KdapRoom(writer))
        return;
    KdapAccount(writer, kind);
    KdapOwnLine(writer, KdaSelfStatus(writer->Self, KDA_SELF_BYTES, kind, &writer->Account));
}

/* A sensor is in another state than the log says, since the start or the last status. */
_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapChanged(const KDA_WRITER *writer, ULONGLONG now)
{
    return KdaSensorChanges() != writer->ChangesTold && now >= writer->ChangedAt;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapTellPeriodic(KDA_WRITER *writer, ULONGLONG now)
{
    KdapTellLosses(writer, now, FALSE);
    KdapTellFiltered(writer, now, FALSE);
    if (now < writer->StatusAt && !KdapChanged(writer, now))
        return;
    writer->ChangesTold = KdaSensorChanges();
    writer->ChangedAt = now + KDA_CHANGED_MS;
    writer->StatusAt = now + (ULONGLONG)KdaDriver->Settings.StatusSeconds * 1000;
    KdapTellStatus(writer, KDA_KIND_SENSOR_STATUS);
}

/* --- the thread ------------------------------------------------------------------------------ */

/* Drains and writes until the queue is empty, or the disk refuses. FALSE: it refused. */
_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN KdapPass(KDA_WRITER *writer, BOOLEAN force)
{
    ULONGLONG now = KdaMilliseconds();
    BOOLEAN full;

    do {
        KdapTakeClock(writer, now);
        KdapDrain(writer);
        KdapTellPeriodic(writer, now);
        full = !KdapRoom(writer);
        if (KdapDue(writer, now, force) && !KdapWrite(writer))
            return FALSE;
        now = KdaMilliseconds();
    } while (full && KdapRoom(writer));
    return KdapRoom(writer);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapFlushFile(KDA_WRITER *writer, ULONGLONG now)
{
    ULONG period = KdaDriver->Settings.FlushMilliseconds;

    if (period == 0 || now < writer->FlushAt)
        return;
    writer->FlushAt = now + period;
    KdaLogFileFlush(&writer->File);
}

/* Everything that was there when the request was made, then the file's own buffers. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapServe(KDA_WRITER *writer, volatile LONG64 *wanted, volatile LONG64 *done, ULONG kind)
{
    LONG64 request = ReadAcquire64(wanted);
    ULONGLONG now = KdaMilliseconds();

    if (request == ReadAcquire64(done))
        return;
    KdapPass(writer, TRUE);
    if (kind != 0) {
        KdapTellLosses(writer, now, TRUE);
        KdapTellFiltered(writer, now, TRUE);
        KdapTellStatus(writer, kind);
    }
    if (KdapPass(writer, TRUE)) {
        NTSTATUS status = KdaLogFileFlush(&writer->File);
        if (!NT_SUCCESS(status))
            InterlockedExchange(&writer->WriteStatus, status);
    }
    WriteRelease64(done, request);
    KeSetEvent(&writer->Done, IO_NO_INCREMENT, FALSE);
}

/* No sensor runs any more. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapFinish(KDA_WRITER *writer)
{
    struct kda_ring *ring = KdaMonEventQueueRing();
    LARGE_INTEGER wait;
    ULONG tries = 0;

    wait.QuadPart = -(LONGLONG)KDA_LAST_MS * KDA_100NS_PER_MS;
    while (!KdapPass(writer, TRUE) || !kda_ring_idle(ring)) {
        if (++tries == KDA_LAST_TRIES)
            break;
        KeDelayExecutionThread(KernelMode, FALSE, &wait);
    }
    KdapTellLosses(writer, KdaMilliseconds(), TRUE);
    KdapTellFiltered(writer, KdaMilliseconds(), TRUE);
    KdapTellStatus(writer, KDA_KIND_SENSOR_STOP);
    writer->Ended = TRUE;
    while (!KdapPass(writer, TRUE) && ++tries < 2 * KDA_LAST_TRIES)
        KeDelayExecutionThread(KernelMode, FALSE, &wait);
    KdaLogFileFlush(&writer->File);
    KdaReadersServe(&writer->Clock);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapSooner(ULONGLONG *milliseconds, ULONGLONG at, ULONGLONG now)
{
    if (at < now + *milliseconds)
        *milliseconds = at > now ? at - now : 0;
}

/* When events come the thread looks every few milliseconds. When none have come since it last
 * looked it sleeps until one does, or until something is due: at most for a second, for the ticks.
 */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapSleep(KDA_WRITER *writer, BOOLEAN good)
{
    ULONGLONG now = KdaMilliseconds(), most = KDA_TICK_MS;
    BOOLEAN idle = good && !writer->Held && !writer->Drained;

    writer->Drained = FALSE;
    if (!idle) {
        KdaMonEventQueueWait(writer->Held ? 1 : KDA_WAIT_MS, !good || writer->Held);
        return;
    }
    KdapSooner(&most, writer->TickAt, now);
    if (writer->BatchBytes != 0)
        KdapSooner(&most, writer->BatchSince + KdaDriver->Settings.IdleMilliseconds, now);
    KdaMonEventQueueWaitIdle(most != 0 ? (ULONG)most : 1);
}

/* sensor.start says how each sensor has started. Until that is known the ring keeps what they see;
 * if it fills meanwhile the line says what is known, and sensor.status the rest. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapBegin(KDA_WRITER *writer)
{
    struct kda_event *event;

    while (!ReadAcquire(&writer->Begun) && !ReadAcquire(&writer->Stop) &&
           KdaMonEventQueueWait(KDA_WAIT_MS, FALSE))
        continue;
    if (ReadAcquire(&writer->Begun)) {
        writer->ChangesTold = writer->ChangesBegun;
        event = writer->Start;
    } else {
        event = KdaSelfStart(writer->Self, KDA_SELF_BYTES);
    }
    if (event == NULL)
        return;
    event->id = writer->FirstId;
    event->time = writer->FirstTime;
    InterlockedExchangeAdd64(&writer->Own[event->kind], 1);
    KdapLine(writer, event);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapThread(PVOID context)
{
    KDA_WRITER *writer = context;
    BOOLEAN good = TRUE;

    KdapBegin(writer);
    /* The first file is opened at once, not when the first batch is due. */
    KdapPass(writer, TRUE);
    while (!ReadAcquire(&writer->Stop)) {
        ULONGLONG now;
        KdapSleep(writer, good);
        good = KdapPass(writer, FALSE);
        KdapServe(writer, &writer->FlushWanted, &writer->FlushDone, 0);
        KdapServe(writer, &writer->ShutdownWanted, &writer->ShutdownDone, KDA_KIND_SENSOR_SHUTDOWN);
        KdaReadersServe(&writer->Clock);
        now = KdaMilliseconds();
        KdapFlushFile(writer, now);
        if (now >= writer->TickAt) {
            writer->TickAt = now + KDA_TICK_MS;
            KdaSensorsTick();
        }
    }
    KdapFinish(writer);
    PsTerminateSystemThread(STATUS_SUCCESS);
}

/* --- start, stop, requests ------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapFree(KDA_WRITER *writer)
{
    KdaLogFileFree(&writer->File);
    if (writer->Batch != NULL)
        ExFreePoolWithTag(writer->Batch, KDA_TAG_WRITER);
    if (writer->Self != NULL)
        ExFreePoolWithTag(writer->Self, KDA_TAG_WRITER);
    if (writer->StartRoom != NULL)
        ExFreePoolWithTag(writer->StartRoom, KDA_TAG_WRITER);
    ExFreePoolWithTag(writer, KDA_TAG_WRITER);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapPrepare(KDA_WRITER *writer)
{
    SIZE_T bytes = KDA_BATCH_BYTES + KDA_JSONL_MAX(KDA_EVENT_MAX_BYTES);
    ULONGLONG now = KdaMilliseconds();

    KeInitializeEvent(&writer->Done, SynchronizationEvent, FALSE);
    KdaClockPair(&writer->Clock.counter, &writer->Clock.utc);
    writer->Clock.frequency = KdaDriver->Frequency;
    writer->Clock.in_order = 1;
    writer->TickAt = now + KDA_TICK_MS;
    writer->ClockAt = now + KDA_CLOCK_MS;
    writer->FilteredAt = now + KDA_FILTERED_MS;
    writer->FlushAt = now + KdaDriver->Settings.FlushMilliseconds;
    writer->StatusAt = now + (ULONGLONG)KdaDriver->Settings.StatusSeconds * 1000;
    writer->Batch = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_WRITER);
    writer->Self = ExAllocatePoolWithTag(PagedPool, KDA_SELF_BYTES, KDA_TAG_WRITER);
    writer->StartRoom = ExAllocatePoolWithTag(PagedPool, KDA_SELF_BYTES, KDA_TAG_WRITER);
    if (writer->Batch == NULL || writer->Self == NULL || writer->StartRoom == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    /* Of the first line: before any event. What it says of the sensors is known later. */
    kda_ring_stamp(KdaMonEventQueueRing(), writer->Self);
    writer->FirstId = ((const struct kda_event *)writer->Self)->id;
    writer->FirstTime = ((const struct kda_event *)writer->Self)->time;
    return KdaLogFileInit(&writer->File, writer->Clock.utc);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapJoin(KDA_WRITER *writer)
{
    PAGED_CODE();
    InterlockedExchange(&writer->Stop, 1);
    KdaMonEventQueueWake();
    KeWaitForSingleObject(writer->Thread, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(writer->Thread);
}

/* The thread is waited for through its object. Where that cannot be had at once the thread is told
 * to end, and it is had later: the driver must not go away under a running thread. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapSpawn(KDA_WRITER *writer)
{
    OBJECT_ATTRIBUTES attributes;
    LARGE_INTEGER wait;
    NTSTATUS status, first;
    HANDLE handle;

    InitializeObjectAttributes(&attributes, NULL, OBJ_KERNEL_HANDLE, NULL, NULL);
    status = KDA_CALL(PsCreateSystemThread,
                      (&handle, THREAD_ALL_ACCESS, &attributes, NULL, NULL, KdapThread, writer));
    if (!NT_SUCCESS(status))
        return status;
    first = status = ObReferenceObjectByHandle(handle, THREAD_ALL_ACCESS, NULL, KernelMode,
                                               &writer->Thread, NULL);
    wait.QuadPart = -(LONGLONG)KDA_LAST_MS * KDA_100NS_PER_MS;
    while (!NT_SUCCESS(status)) {
        KeDelayExecutionThread(KernelMode, FALSE, &wait);
        status = ObReferenceObjectByHandle(handle, THREAD_ALL_ACCESS, NULL, KernelMode,
                                           &writer->Thread, NULL);
    }
    ZwClose(handle);
    if (!NT_SUCCESS(first))
        KdapJoin(writer);
    return first;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaWriterStart(KDA_DRIVER *driver)
{
    KDA_WRITER *writer;
    NTSTATUS status;

    PAGED_CODE();
    status = KdaSelfIdentify(driver);
    if (!NT_SUCCESS(status))
        return status;
    writer = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *writer, KDA_TAG_WRITER);
    if (writer == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    RtlZeroMemory(writer, sizeof *writer);
    status = KdapPrepare(writer);
    if (NT_SUCCESS(status))
        status = KdapSpawn(writer);
    if (NT_SUCCESS(status))
        KdapWriter = writer;
    else
        KdapFree(writer);
    return status;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaWriterBegin(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    /* As the states are now: the thread may come to it when the sensors stop again. */
    KdapWriter->ChangesBegun = KdaSensorChanges();
    KdapWriter->Start = KdaSelfStart(KdapWriter->StartRoom, KDA_SELF_BYTES);
    InterlockedExchange(&KdapWriter->Begun, 1);
    KdaMonEventQueueWake();
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ KDA_PAGED VOID KdaWriterStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    UNREFERENCED_PARAMETER(driver);
    KdapJoin(KdapWriter);
    KdapFree(KdapWriter);
    KdapWriter = NULL;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapRequest(volatile LONG64 *wanted, volatile LONG64 *done)
{
    LONG64 request = InterlockedIncrement64(wanted);
    LARGE_INTEGER wait;

    for (ULONG i = 0; i < KDA_REQUEST_WAITS; i++) {
        KdaMonEventQueueWake();
        wait.QuadPart = -(LONGLONG)KDA_REQUEST_MS * KDA_100NS_PER_MS;
        KeWaitForSingleObject(&KdapWriter->Done, Executive, KernelMode, FALSE, &wait);
        if (ReadAcquire64(done) >= request)
            return (NTSTATUS)ReadAcquire(&KdapWriter->WriteStatus);
    }
    return STATUS_IO_TIMEOUT;
}

_Use_decl_annotations_ NTSTATUS KdaWriterFlush(VOID)
{
    return KdapRequest(&KdapWriter->FlushWanted, &KdapWriter->FlushDone);
}

_Use_decl_annotations_ NTSTATUS KdaWriterShutdown(VOID)
{
    return KdapRequest(&KdapWriter->ShutdownWanted, &KdapWriter->ShutdownDone);
}

_Use_decl_annotations_ VOID KdaWriterStatus(struct kda_control_status *status)
{
    const KDA_WRITER *writer = KdapWriter;
    struct kda_ring *ring = KdaMonEventQueueRing();
    uint64_t counts[KDA_KIND_COUNT];

    RtlCopyMemory(status->log, &KdaDriver->LogId, sizeof status->log);
    status->next_id = (uint64_t)ReadAcquire64(&writer->NextId);
    status->queued = KdaMonEventQueueCount();
    status->file_bytes = (uint64_t)ReadAcquire64(&writer->FileBytes);
    status->kinds = (ULONG)ReadAcquire(&KdaDriver->Kinds);
    status->write_status = ReadAcquire(&writer->WriteStatus);
    status->writing = NT_SUCCESS(status->write_status) && ReadAcquire(&writer->FileNumber) != 0;
    status->readers = KdaReadersOpen();
    status->file_number = (uint32_t)ReadAcquire(&writer->FileNumber);
    for (ULONG kind = 0; kind < KDA_KIND_COUNT; kind++)
        status->written[kind] = (uint64_t)ReadAcquire64(&writer->Written[kind]);
    kda_ring_accepted(ring, counts);
    kda_ring_lost(ring, status->lost);
    KdaFilterKinds(status->filtered);
    for (ULONG kind = 0; kind < KDA_KIND_COUNT; kind++)
        status->offered[kind] = counts[kind] + status->lost[kind] + status->filtered[kind] +
                                (uint64_t)ReadAcquire64(&writer->Own[kind]);
}
