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
    SIM_DDI(HIGH_LEVEL, NULL);
    return sim_self()->irql;
}

void KeRaiseIrql(KIRQL newIrql, PKIRQL oldIrql)
{
    struct sim_ctx *self = sim_self();

    SIM_DDI(DISPATCH_LEVEL, "KE-023");
    SIM_RULE("KE-023", newIrql >= self->irql, "raises from %u to %u", self->irql, newIrql);
    *oldIrql = self->irql;
    self->irql = newIrql;
}

void KeLowerIrql(KIRQL newIrql)
{
    struct sim_ctx *self = sim_self();

    SIM_DDI(HIGH_LEVEL, "KE-023");
    SIM_RULE("KE-023", newIrql <= self->irql, "lowers from %u to %u", self->irql, newIrql);
    SIM_RULE(self->irql == APC_LEVEL ? "EX-010" : "KE-004",
             newIrql >= DISPATCH_LEVEL || self->held_count == 0, "lowers with a lock held");
    self->irql = newIrql;
}

BOOLEAN KeAreAllApcsDisabled(void)
{
    const struct sim_ctx *self = sim_self();

    SIM_DDI(DISPATCH_LEVEL, "KE-025");
    return self->guarded || self->irql >= APC_LEVEL;
}

BOOLEAN KeAreApcsDisabled(void)
{
    const struct sim_ctx *self = sim_self();

    SIM_DDI(DISPATCH_LEVEL, "KE-025");
    return self->critical || self->guarded || self->irql >= APC_LEVEL;
}

VOID KeEnterCriticalRegion(void)
{
    SIM_DDI(APC_LEVEL, "KE-028");
    sim_self()->critical++;
}

VOID KeLeaveCriticalRegion(void)
{
    SIM_DDI(APC_LEVEL, "KE-028");
    SIM_RULE("KE-028", sim_self()->critical > 0, "leaves a region that it is not in");
    sim_self()->critical--;
}

VOID KeEnterGuardedRegion(void)
{
    SIM_DDI(APC_LEVEL, "KE-028");
    sim_self()->guarded++;
}

VOID KeLeaveGuardedRegion(void)
{
    SIM_DDI(APC_LEVEL, "KE-028");
    SIM_RULE("KE-028", sim_self()->guarded > 0, "leaves a region that it is not in");
    sim_self()->guarded--;
}

PIRP IoGetTopLevelIrp(void)
{
    static IRP request;

    SIM_DDI(DISPATCH_LEVEL, "NX-064");
    return sim_self()->top_level_irp ? &request : NULL;
}

ULONG KeGetCurrentProcessorNumberEx(PVOID processorNumber)
{
    SIM_DDI(HIGH_LEVEL, "KE-016");
    SIM_CHECK(!processorNumber, "the processor number is not simulated");
    /* Below DISPATCH_LEVEL the thread may have moved before the answer is used. */
    return sim_self()->cpu;
}

ULONG KeQueryActiveProcessorCountEx(USHORT group)
{
    SIM_DDI(HIGH_LEVEL, "KE-018");
    return group == ALL_PROCESSOR_GROUPS || group == 0 ? sim.options.cpus : 0;
}

/* --- spin locks ------------------------------------------------------------------------------ */

static void spin(const char *ddi, KSPIN_LOCK *lock)
{
    uintptr_t self = (uintptr_t)sim_self();
    struct timespec deadline = {0, 0};

    for (unsigned tries = 1;; tries++) {
        KSPIN_LOCK free_lock = 0;
        if (__atomic_compare_exchange_n(lock, &free_lock, self, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED)) {
            sim_crossing(lock);
            return;
        }
        if (free_lock == self)
            sim_violation(sim_self()->lock_rule ? sim_self()->lock_rule : "KE-002", ddi,
                          "this thread already holds the lock");
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

/* Pairs of spin locks in the order in which they were once taken. What another machine of this
 * process did does not count. */
#define PAIRS 256u
static struct {
    pthread_mutex_t lock;
    uint64_t boot;
    unsigned count;
    struct {
        const void *outer;
        const void *inner;
    } pair[PAIRS];
} orders = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void check_order(const char *ddi, const void *inner)
{
    const struct sim_ctx *self = sim_self();

    if (self->held_count == 0)
        return;
    pthread_mutex_lock(&orders.lock);
    if (orders.boot != sim.boot)
        orders.count = 0;
    orders.boot = sim.boot;
    for (uint32_t h = 0; h < self->held_count; h++) {
        const void *outer = self->held[h].lock;
        bool known = false;
        for (unsigned i = 0; i < orders.count; i++) {
            known = known || (orders.pair[i].outer == outer && orders.pair[i].inner == inner);
            if (orders.pair[i].outer == inner && orders.pair[i].inner == outer)
                sim_violation("KE-005", ddi, "locks are nested the other way round than before");
        }
        if (!known && orders.count < PAIRS) {
            orders.pair[orders.count].outer = outer;
            orders.pair[orders.count++].inner = inner;
        }
    }
    pthread_mutex_unlock(&orders.lock);
}

/* A lock whose memory is given back is another lock the next time. */
void sim_locks_forget(const void *block, size_t size)
{
    unsigned kept = 0;

    pthread_mutex_lock(&orders.lock);
    for (unsigned i = 0; i < orders.count; i++) {
        if ((uintptr_t)orders.pair[i].outer - (uintptr_t)block >= size &&
            (uintptr_t)orders.pair[i].inner - (uintptr_t)block >= size)
            orders.pair[kept++] = orders.pair[i];
    }
    orders.count = kept;
    pthread_mutex_unlock(&orders.lock);
}

static void lock_held(const char *ddi, const void *lock, KIRQL old)
{
    struct sim_ctx *self = sim_self();

    if (self->held_count == SIM_MAX_HELD)
        sim_bugcheck(ddi, "more locks than %u", SIM_MAX_HELD);
    if (self->irql >= DISPATCH_LEVEL)
        check_order(ddi, lock);
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
    SIM_DDI(HIGH_LEVEL, NULL);
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

KIRQL KeAcquireSpinLockRaiseToDpc(PKSPIN_LOCK lock)
{
    struct sim_ctx *self = sim_self();
    KIRQL old = self->irql;

    SIM_DDI(DISPATCH_LEVEL, "KE-001");
    self->irql = DISPATCH_LEVEL;
    spin(__func__, lock);
    lock_held(__func__, lock, old);
    return old;
}

void KeReleaseSpinLock(PKSPIN_LOCK lock, KIRQL newIrql)
{
    struct sim_ctx *self = sim_self();
    uint8_t old;

    SIM_DDI(DISPATCH_LEVEL, "KE-004");
    SIM_RULE("KE-004", self->irql == DISPATCH_LEVEL, "called at IRQL %u", self->irql);
    old = lock_released(__func__, lock);
    SIM_RULE("KE-004", old == newIrql, "restores IRQL %u, was taken at %u", newIrql, old);
    unspin(__func__, lock);
    self->irql = newIrql;
}

void KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK lock)
{
    SIM_DDI(DISPATCH_LEVEL, NULL);
    SIM_CHECK(sim_self()->irql == DISPATCH_LEVEL, "called at IRQL %u", sim_self()->irql);
    spin(__func__, lock);
    lock_held(__func__, lock, DISPATCH_LEVEL);
}

void KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK lock)
{
    SIM_DDI(DISPATCH_LEVEL, NULL);
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

void sim_wait_until(const char *ddi, const char *rule, bool (*done)(const void *context),
                    const void *context)
{
    struct timespec deadline;

    sim_real_deadline(&deadline, sim.hang_ms * 10000);
    sim_dispatcher_lock();
    while (!done(context)) {
        if (!sim_dispatcher_wait(&deadline) && sim_real_passed(&deadline))
            sim_violation(rule, ddi, "hang: what it waits for does not come");
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

    sim_ddi(ddi, sim_self()->held_count && sim_self()->irql >= DISPATCH_LEVEL ? "KE-002" : "KE-009",
            timeout && timeout->QuadPart == 0 ? DISPATCH_LEVEL : APC_LEVEL);
    if (!timeout || timeout->QuadPart != 0)
        sim_ddi_not_in_notification(ddi);
    for (ULONG i = 0; i < count; i++) {
        if (sim_pool_is_paged(objects[i]))
            sim_violation("KE-011", ddi, "%p lies in memory that may be paged out", objects[i]);
    }
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
    SIM_RULE("KE-011", mode == KernelMode, "the stack that the object may be on could go");
    SIM_RULE("KE-012", !alertable, "the wait could end early");
    return wait_for(__func__, 1, &object, false, timeout);
}

NTSTATUS KeDelayExecutionThread(KPROCESSOR_MODE mode, BOOLEAN alertable, PLARGE_INTEGER interval)
{
    struct timeout t;

    SIM_DDI(APC_LEVEL, "KE-006");
    sim_ddi_not_in_notification(__func__);
    SIM_RULE("KE-007", mode == KernelMode && !alertable, "the delay could end early");
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
    SIM_DDI(HIGH_LEVEL, NULL);
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
    SIM_DDI(DISPATCH_LEVEL, "KE-014");
    SIM_RULE("KE-014", !wait, "the caller would go on at a raised level");
    return event_change(__func__, event, 1);
}

void KeClearEvent(PKEVENT event)
{
    SIM_DDI(DISPATCH_LEVEL, NULL);
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
    SIM_DDI(DISPATCH_LEVEL, NULL);
    SIM_RULE("EX-013", (uintptr_t)mutex % 8 == 0 && !sim_pool_is_paged(mutex),
             "%p is not aligned, or may be paged out", (void *)mutex);
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

    SIM_DDI(APC_LEVEL, "EX-010");
    self->irql = APC_LEVEL;
    sim_real_deadline(&deadline, sim.hang_ms * 10000);
    sim_dispatcher_lock();
    SIM_RULE("EX-013", mutex->Event.Header.WaitListHead.Flink == &mutex->Event.Header.WaitListHead,
             "%p is no initialized mutex", (void *)mutex);
    SIM_RULE("EX-011", mutex->Owner != self, "this thread already holds the mutex");
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

    SIM_DDI(APC_LEVEL, "EX-012");
    SIM_RULE("EX-012", self->irql == APC_LEVEL, "called at IRQL %u", self->irql);
    SIM_RULE("EX-012", mutex->Owner == self, "another thread holds the mutex");
    self->irql = lock_released(__func__, mutex);
    sim_dispatcher_lock();
    mutex->Owner = NULL;
    mutex->Count = 1;
    sim_dispatcher_wake();
    sim_dispatcher_unlock();
}
