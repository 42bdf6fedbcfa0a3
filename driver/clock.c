/*
 * clock.c - the counter that orders events, and its relation to the system time.
 *
 * Windows keeps the performance counter going over sleep and hibernation; firmware and hypervisors
 * have not always managed to. If the counter is found behind its last reading after a resume, the
 * difference is added to all readings from then on: a log never runs backwards, and the queue,
 * which clamps times, does not stand still until the counter has caught up.
 */
#include "driver.h"

#define KDA_PAIR_TRIES 8u

typedef struct _KDA_CLOCK {
    PVOID Registration;
    volatile LONG64 Offset; /* added to each reading */
    volatile LONG64 Asleep; /* reading at the last suspend */
    volatile LONG Moved;
    volatile LONG64 ResumeCounter; /* a pair taken at the resume, before Moved is set */
    volatile LONG64 ResumeUtc;
    LONG64 Frequency;
} KDA_CLOCK;

static KDA_CLOCK KdapClock;

/* Called at up to DISPATCH_LEVEL. */
_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapPowerState(PVOID context, PVOID argument1, PVOID argument2)
{
    ULONGLONG counter, utc;
    LONG64 now, before;

    UNREFERENCED_PARAMETER(context);
    if ((ULONG_PTR)argument1 != PO_CB_SYSTEM_STATE_LOCK)
        return;
    now = (LONG64)KdaClockCounter();
    if (argument2 == NULL) {
        InterlockedExchange64(&KdapClock.Asleep, now);
        return;
    }
    before = ReadAcquire64(&KdapClock.Asleep);
    if (before > now)
        InterlockedExchangeAdd64(&KdapClock.Offset, before - now);
    KdaClockPair(&counter, &utc);
    WriteRelease64(&KdapClock.ResumeUtc, (LONG64)utc);
    WriteRelease64(&KdapClock.ResumeCounter, (LONG64)counter);
    InterlockedExchange(&KdapClock.Moved, 1);
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaClockStart(KDA_DRIVER *driver)
{
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING name;
    PCALLBACK_OBJECT callback;
    LARGE_INTEGER frequency;
    NTSTATUS status;

    RtlZeroMemory(&KdapClock, sizeof KdapClock);
    KeQueryPerformanceCounter(&frequency);
    KdapClock.Frequency = frequency.QuadPart;
    driver->Frequency = (ULONGLONG)frequency.QuadPart;
    RtlInitUnicodeString(&name, KDA_W("\\Callback\\PowerState"));
    InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL,
                               NULL);
    status = ExCreateCallback(&callback, &attributes, FALSE, TRUE);
    if (!NT_SUCCESS(status))
        return status;
    KdapClock.Registration = ExRegisterCallback(callback, KdapPowerState, NULL);
    /* The registration has its own reference. */
    ObDereferenceObject(callback);
    return KdapClock.Registration ? STATUS_SUCCESS : STATUS_INSUFFICIENT_RESOURCES;
}

_Use_decl_annotations_ KDA_PAGED VOID KdaClockStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    UNREFERENCED_PARAMETER(driver);
    ExUnregisterCallback(KdapClock.Registration);
    KdapClock.Registration = NULL;
}

_Use_decl_annotations_ ULONGLONG KdaClockCounter(VOID)
{
    LARGE_INTEGER counter = KeQueryPerformanceCounter(NULL);
    return (ULONGLONG)(counter.QuadPart + ReadNoFence64(&KdapClock.Offset));
}

_Use_decl_annotations_ BOOLEAN KdaClockMoved(ULONGLONG *counter, ULONGLONG *utc)
{
    if (ReadAcquire(&KdapClock.Moved) == 0 || InterlockedExchange(&KdapClock.Moved, 0) == 0)
        return FALSE;
    *counter = (ULONGLONG)ReadAcquire64(&KdapClock.ResumeCounter);
    *utc = (ULONGLONG)ReadAcquire64(&KdapClock.ResumeUtc);
    return TRUE;
}

/* One reading of the system time between two of the counter. A processor that is taken away in
 * between (by an interrupt, or by a hypervisor for minutes) shows, and the reading is made again.
 */
_IRQL_requires_max_(DISPATCH_LEVEL) static ULONGLONG
    KdapReadPair(ULONGLONG *counter, ULONGLONG *utc)
{
    LARGE_INTEGER time;
    KIRQL irql;
    ULONGLONG after;

    KeRaiseIrql(DISPATCH_LEVEL, &irql);
    *counter = KdaClockCounter();
    KeQuerySystemTimePrecise(&time);
    after = KdaClockCounter();
    KeLowerIrql(irql);
    *utc = (ULONGLONG)time.QuadPart;
    return after - *counter;
}

_Use_decl_annotations_ VOID KdaClockPair(ULONGLONG *counter, ULONGLONG *utc)
{
    ULONGLONG most = (ULONGLONG)KdapClock.Frequency / 10000;
    ULONGLONG best = KdapReadPair(counter, utc);

    for (ULONG tries = 1; best > most && tries < KDA_PAIR_TRIES; tries++) {
        ULONGLONG otherCounter, otherUtc;
        ULONGLONG other = KdapReadPair(&otherCounter, &otherUtc);
        if (other >= best)
            continue;
        best = other;
        *counter = otherCounter;
        *utc = otherUtc;
    }
}

_Use_decl_annotations_ ULONGLONG KdaMilliseconds(VOID)
{
    ULONGLONG frequency = (ULONGLONG)KdapClock.Frequency;
    ULONGLONG counter = KdaClockCounter();

    if (frequency == 0)
        return 0;
    /* Split, so that the product does not overflow after years. */
    return counter / frequency * 1000 + counter % frequency * 1000 / frequency;
}
