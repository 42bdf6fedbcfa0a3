/*
 * ke.c - IRQL, spin locks, events and waits.
 *
 * One lock (the dispatcher's) and one condition serve all waits of the machine: a driver has few
 * threads that wait, and nothing here is on the path of an event.
 */
#include "machine.h"
#include "ps.h"

#include <sched.h>
#include <time.h>

/* Object types as kernels number them, in the first word of the header. */
enum { NOTIFICATION = 0, SYNCHRONIZATION = 1 };

/* --- IRQL ------------------------------------------------------------------------------------ */

KIRQL KeGetCurrentIrql(void)
{
    SIM_DDI(HIGH_LEVEL);
    return sim_self()->irql;
}

void KeRaiseIrql(KIRQL newIrql, PKIRQL oldIrql)
{
    struct sim_ctx *self = sim_self();

    SIM_DDI(DISPATCH_LEVEL);
    SIM_CHECK(newIrql >= self->irql, "raises from %u to %u", self->irql, newIrql);
    *oldIrql = self->irql;
    self->irql = newIrql;
}

void KeLowerIrql(KIRQL newIrql)
{
    struct sim_ctx *self = sim_self();

    SIM_DDI(HIGH_LEVEL);
    SIM_CHECK(newIrql <= self->irql, "lowers from %u to %u", self->irql, newIrql);
    SIM_CHECK(newIrql >= DISPATCH_LEVEL || self->held_count == 0, "lowers with a lock held");
    self->irql = newIrql;
}

ULONG KeGetCurrentProcessorNumberEx(PVOID processorNumber)
{
    SIM_DDI(HIGH_LEVEL);
    SIM_CHECK(!processorNumber, "the processor number is not simulated");
    return sim_self()->cpu;
}

ULONG KeQueryActiveProcessorCountEx(USHORT group)
{
    SIM_DDI(HIGH_LEVEL);
    SIM_CHECK(group == ALL_PROCESSOR_GROUPS || group == 0, "there is one group");
    return sim.options.cpus;
}

/* --- spin locks ------------------------------------------------------------------------------ */

static void spin(const char *ddi, KSPIN_LOCK *lock)
{
    uintptr_t self = (uintptr_t)sim_self();
    struct timespec deadline = {0, 0};

    for (unsigned tries = 1;; tries++) {
        KSPIN_LOCK free_lock = 0;
        if (__atomic_compare_exchange_n(lock, &free_lock, self, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return;
        if (free_lock == self)
            sim_bugcheck(ddi, "this thread already holds the lock");
        if (tries % 64 == 0)
            sched_yield();
        if (tries % 65536 == 0) {
            if (deadline.tv_sec == 0)
                sim_real_deadline(&deadline, sim.hang_ms * 10000);
            else if (sim_real_passed(&deadline))
                sim_bugcheck(ddi, "hang: the lock is never given back");
        }
    }
}

static void lock_held(const char *ddi, const void *lock, KIRQL old)
{
    struct sim_ctx *self = sim_self();

    if (self->held_count == SIM_MAX_HELD)
        sim_bugcheck(ddi, "more locks than %u", SIM_MAX_HELD);
    self->held[self->held_count].lock = lock;
    self->held[self->held_count++].old_irql = old;
}

/* Locks are given back in any order, but the last one restores the level. */
static uint8_t lock_released(const char *ddi, const void *lock)
{
    struct sim_ctx *self = sim_self();

    for (uint32_t i = self->held_count; i > 0; i--) {
        if (self->held[i - 1].lock == lock) {
            uint8_t old = self->held[i - 1].old_irql;
            for (uint32_t j = i; j < self->held_count; j++)
                self->held[j - 1] = self->held[j];
            self->held_count--;
            return old;
        }
    }
    sim_bugcheck(ddi, "this thread does not hold the lock");
}

static void unspin(const char *ddi, KSPIN_LOCK *lock)
{
    if (__atomic_load_n(lock, __ATOMIC_RELAXED) != (uintptr_t)sim_self())
        sim_bugcheck(ddi, "this thread does not hold the lock");
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

void KeInitializeSpinLock(PKSPIN_LOCK lock)
{
    SIM_DDI(HIGH_LEVEL);
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

KIRQL KeAcquireSpinLockRaiseToDpc(PKSPIN_LOCK lock)
{
    struct sim_ctx *self = sim_self();
    KIRQL old = self->irql;

    SIM_DDI(DISPATCH_LEVEL);
    self->irql = DISPATCH_LEVEL;
    spin(__func__, lock);
    lock_held(__func__, lock, old);
    return old;
}

void KeReleaseSpinLock(PKSPIN_LOCK lock, KIRQL newIrql)
{
    struct sim_ctx *self = sim_self();
    uint8_t old;

    SIM_DDI(DISPATCH_LEVEL);
    SIM_CHECK(self->irql == DISPATCH_LEVEL, "called at IRQL %u", self->irql);
    old = lock_released(__func__, lock);
    SIM_CHECK(old == newIrql, "restores IRQL %u, was taken at %u", newIrql, old);
    unspin(__func__, lock);
    self->irql = newIrql;
}

void KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK lock)
{
    SIM_DDI(DISPATCH_LEVEL);
    SIM_CHECK(sim_self()->irql == DISPATCH_LEVEL, "called at IRQL %u", sim_self()->irql);
    spin(__func__, lock);
    lock_held(__func__, lock, DISPATCH_LEVEL);
}

void KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK lock)
{
    SIM_DDI(DISPATCH_LEVEL);
    SIM_CHECK(sim_self()->irql == DISPATCH_LEVEL, "called at IRQL %u", sim_self()->irql);
    lock_released(__func__, lock);
    unspin(__func__, lock);
}

/* --- dispatcher ------------------------------------------------------------------------------ */

pthread_mutex_t sim_dispatcher = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t changed_once = PTHREAD_ONCE_INIT;
/* Earliest end of a timed wait: a clock that moves to before it disturbs nobody. */
static _Atomic uint64_t nearest = UINT64_MAX;

static void make_condition(void)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void sim_ke_boot(void)
{
    pthread_once(&changed_once, make_condition);
    atomic_store(&nearest, UINT64_MAX);
}

void sim_dispatcher_lock(void)
{
    pthread_mutex_lock(&sim_dispatcher);
}

void sim_dispatcher_unlock(void)
{
    pthread_mutex_unlock(&sim_dispatcher);
}

void sim_dispatcher_wake(void)
{
    pthread_cond_broadcast(&changed);
}

bool sim_dispatcher_wait(const struct timespec *deadline)
{
    if (!deadline) {
        pthread_cond_wait(&changed, &sim_dispatcher);
        return true;
    }
    return pthread_cond_timedwait(&changed, &sim_dispatcher, deadline) == 0;
}

void sim_dispatcher_due(uint64_t units)
{
    uint64_t seen = atomic_load(&nearest);

    while (units < seen && !atomic_compare_exchange_weak(&nearest, &seen, units))
        ;
}

void sim_ke_clock_moved(uint64_t now)
{
    if (now < atomic_load(&nearest))
        return;
    sim_dispatcher_lock();
    atomic_store(&nearest, UINT64_MAX);
    sim_dispatcher_wake();
    sim_dispatcher_unlock();
}

void sim_wait_until(const char *ddi, bool (*done)(const void *context), const void *context)
{
    struct timespec deadline;

    sim_real_deadline(&deadline, sim.hang_ms * 10000);
    sim_dispatcher_lock();
    while (!done(context)) {
        if (!sim_dispatcher_wait(&deadline) && sim_real_passed(&deadline))
            sim_bugcheck(ddi, "hang: what it waits for does not come");
    }
    sim_dispatcher_unlock();
}

static DISPATCHER_HEADER *header_of(const char *ddi, PVOID object)
{
    DISPATCHER_HEADER *header = object;

    /* No waiter is ever linked, so an object that was initialized, and not copied or overwritten,
     * has a list that points to itself. */
    if (header->WaitListHead.Flink != &header->WaitListHead)
        sim_bugcheck(ddi, "%p is no initialized dispatcher object", object);
    return header;
}

void sim_header_init(DISPATCHER_HEADER *header, LONG type, bool signalled)
{
    memset(header, 0, sizeof(*header));
    header->Lock = type;
    header->SignalState = signalled;
    header->WaitListHead.Flink = header->WaitListHead.Blink = &header->WaitListHead;
}

static void consume(DISPATCHER_HEADER *header)
{
    if (header->Lock == SYNCHRONIZATION)
        header->SignalState = 0;
}

/* Index of an object that ends the wait, -1 for none. */
static int satisfied(const char *ddi, ULONG count, PVOID *objects, bool all)
{
    ULONG ready = 0;

    for (ULONG i = 0; i < count; i++) {
        DISPATCHER_HEADER *header = header_of(ddi, objects[i]);
        if (header->SignalState == 0)
            continue;
        ready++;
        if (!all) {
            consume(header);
            return (int)i;
        }
    }
    if (!all || ready < count)
        return -1;
    for (ULONG i = 0; i < count; i++)
        consume(header_of(ddi, objects[i]));
    return 0;
}

struct timeout {
    uint64_t due; /* on the simulated clock */
    struct timespec real;
    bool finite;
};

static void timeout_begin(struct timeout *t, const LARGE_INTEGER *timeout)
{
    uint64_t units = sim.hang_ms * 10000;

    t->finite = timeout != NULL;
    t->due = UINT64_MAX;
    if (timeout) {
        uint64_t utc = sim_clock_utc();
        if (timeout->QuadPart <= 0)
            units = (uint64_t)-timeout->QuadPart;
        else
            units = (uint64_t)timeout->QuadPart > utc ? (uint64_t)timeout->QuadPart - utc : 0;
        t->due = sim_now() + units;
    }
    sim_real_deadline(&t->real, units);
}

/* With the lock. False: time is up. */
static bool timeout_wait(const char *ddi, struct timeout *t)
{
    const struct sim_ctx *self = sim_self();

    if (!t->finite) {
        /* A driver's own thread may wait for ever; who called the driver may not. */
        if (self->driver_thread)
            return sim_dispatcher_wait(NULL);
        if (!sim_dispatcher_wait(&t->real) && sim_real_passed(&t->real))
            sim_bugcheck(ddi, "hang: what it waits for does not come");
        return true;
    }
    sim_dispatcher_due(t->due);
    if (sim_now() >= t->due)
        return false;
    return sim_dispatcher_wait(&t->real) || !sim_real_passed(&t->real);
}

static NTSTATUS wait_for(const char *ddi, ULONG count, PVOID *objects, bool all,
                         PLARGE_INTEGER timeout)
{
    struct timeout t;
    int index;

    sim_ddi(ddi, timeout && timeout->QuadPart == 0 ? DISPATCH_LEVEL : APC_LEVEL);
    sim_dispatcher_lock();
    timeout_begin(&t, timeout);
    index = satisfied(ddi, count, objects, all);
    while (index < 0) {
        bool goes_on = (!t.finite || timeout->QuadPart != 0) && timeout_wait(ddi, &t);
        index = satisfied(ddi, count, objects, all);
        if (index < 0 && !goes_on)
            break;
    }
    sim_dispatcher_unlock();
    return index < 0 ? STATUS_TIMEOUT : STATUS_SUCCESS + index;
}

NTSTATUS KeWaitForSingleObject(PVOID object, KWAIT_REASON reason, KPROCESSOR_MODE mode,
                               BOOLEAN alertable, PLARGE_INTEGER timeout)
{
    (void)reason;
    SIM_CHECK(mode == KernelMode && !alertable, "the stack could go, or the wait end early");
    return wait_for(__func__, 1, &object, false, timeout);
}

NTSTATUS KeDelayExecutionThread(KPROCESSOR_MODE mode, BOOLEAN alertable, PLARGE_INTEGER interval)
{
    struct timeout t;

    SIM_DDI(APC_LEVEL);
    SIM_CHECK(mode == KernelMode && !alertable, "the stack could go, or the wait end early");
    if (sim_clock_passes(interval))
        return STATUS_SUCCESS;
    sim_dispatcher_lock();
    timeout_begin(&t, interval);
    while (timeout_wait(__func__, &t))
        ;
    sim_dispatcher_unlock();
    return STATUS_SUCCESS;
}

/* --- events ---------------------------------------------------------------------------------- */

void KeInitializeEvent(PKEVENT event, EVENT_TYPE type, BOOLEAN state)
{
    SIM_DDI(HIGH_LEVEL);
    sim_dispatcher_lock();
    sim_header_init(&event->Header, type == NotificationEvent ? NOTIFICATION : SYNCHRONIZATION,
                    state != 0);
    sim_dispatcher_unlock();
}

static LONG event_change(const char *ddi, PKEVENT event, LONG state)
{
    LONG old;

    sim_dispatcher_lock();
    old = header_of(ddi, event)->SignalState;
    event->Header.SignalState = state;
    if (state && !old)
        sim_dispatcher_wake();
    sim_dispatcher_unlock();
    return old;
}

LONG KeSetEvent(PKEVENT event, KPRIORITY increment, BOOLEAN wait)
{
    (void)increment;
    SIM_DDI(DISPATCH_LEVEL);
    SIM_CHECK(!wait, "the caller would go on at a raised level");
    return event_change(__func__, event, 1);
}

void KeClearEvent(PKEVENT event)
{
    SIM_DDI(DISPATCH_LEVEL);
    event_change(__func__, event, 0);
}

void sim_header_signal(DISPATCHER_HEADER *header)
{
    header->SignalState = 1;
    sim_dispatcher_wake();
}

/* --- fast mutexes ---------------------------------------------------------------------------- */

VOID ExInitializeFastMutex(PFAST_MUTEX mutex)
{
    SIM_DDI(DISPATCH_LEVEL);
    memset(mutex, 0, sizeof(*mutex));
    mutex->Count = 1;
    KeInitializeEvent(&mutex->Event, SynchronizationEvent, FALSE);
}

static bool mutex_is_free(const void *context)
{
    return ((const FAST_MUTEX *)context)->Count == 1;
}

VOID ExAcquireFastMutex(PFAST_MUTEX mutex)
{
    struct sim_ctx *self = sim_self();
    struct timespec deadline;
    KIRQL old = self->irql;

    SIM_DDI(APC_LEVEL);
    self->irql = APC_LEVEL;
    sim_real_deadline(&deadline, sim.hang_ms * 10000);
    sim_dispatcher_lock();
    header_of(__func__, &mutex->Event);
    SIM_CHECK(mutex->Owner != self, "this thread already holds the mutex");
    while (!mutex_is_free(mutex)) {
        if (!sim_dispatcher_wait(&deadline) && sim_real_passed(&deadline))
            sim_bugcheck(__func__, "hang: the mutex is never given back");
    }
    mutex->Count = 0;
    mutex->Owner = self;
    mutex->OldIrql = old;
    sim_dispatcher_unlock();
    lock_held(__func__, mutex, old);
}

VOID ExReleaseFastMutex(PFAST_MUTEX mutex)
{
    struct sim_ctx *self = sim_self();

    SIM_DDI(APC_LEVEL);
    SIM_CHECK(self->irql == APC_LEVEL, "called at IRQL %u", self->irql);
    self->irql = lock_released(__func__, mutex);
    sim_dispatcher_lock();
    mutex->Owner = NULL;
    mutex->Count = 1;
    sim_dispatcher_wake();
    sim_dispatcher_unlock();
}

/* --- rundown protection ---------------------------------------------------------------------- */

/* As in kernels, bit 0 says that the end has begun, and the count is above it. */

VOID ExInitializeRundownProtection(PEX_RUNDOWN_REF reference)
{
    SIM_DDI(HIGH_LEVEL);
    __atomic_store_n(&reference->Count, 0, __ATOMIC_RELEASE);
}

BOOLEAN ExAcquireRundownProtection(PEX_RUNDOWN_REF reference)
{
    ULONG_PTR count = __atomic_load_n(&reference->Count, __ATOMIC_RELAXED);

    SIM_DDI(DISPATCH_LEVEL);
    do {
        if (count & 1)
            return FALSE;
    } while (!__atomic_compare_exchange_n(&reference->Count, &count, count + 2, true,
                                          __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
    return TRUE;
}

VOID ExReleaseRundownProtection(PEX_RUNDOWN_REF reference)
{
    ULONG_PTR old;

    SIM_DDI(DISPATCH_LEVEL);
    old = __atomic_fetch_sub(&reference->Count, 2, __ATOMIC_ACQ_REL);
    SIM_CHECK(old >= 2, "released more often than acquired");
    if (old == 3) {
        sim_dispatcher_lock();
        sim_dispatcher_wake();
        sim_dispatcher_unlock();
    }
}

static bool rundown_over(const void *context)
{
    const EX_RUNDOWN_REF *reference = context;

    return __atomic_load_n(&reference->Count, __ATOMIC_ACQUIRE) == 1;
}

VOID ExWaitForRundownProtectionRelease(PEX_RUNDOWN_REF reference)
{
    SIM_DDI(APC_LEVEL);
    __atomic_fetch_or(&reference->Count, 1, __ATOMIC_ACQ_REL);
    sim_wait_until(__func__, rundown_over, reference);
}
