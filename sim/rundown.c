/*
 * rundown.c - run-down protection, plain and for each processor.
 *
 * As in kernels, bit 0 says that the end has begun, and the count is above it. Each thread knows
 * what it holds, for who waits for itself.
 */
#include "machine.h"
#include "ps.h"

#define HOLDS 16u

static _Thread_local struct {
    uint64_t boot;
    unsigned count;
    const void *held[HOLDS];
} own;

static void hold(const void *reference)
{
    if (own.boot != sim.boot)
        own.count = 0;
    own.boot = sim.boot;
    if (own.count < HOLDS)
        own.held[own.count++] = reference;
}

/* Another thread may have acquired what this one releases. */
static void let_go(const void *reference)
{
    for (unsigned i = own.boot == sim.boot ? own.count : 0; i > 0; i--) {
        if (own.held[i - 1] == reference) {
            own.held[i - 1] = own.held[--own.count];
            return;
        }
    }
}

/* A thread of a user can be suspended, and with it what it holds; the System's are not. */
static void check_holder(const char *ddi)
{
    const struct sim_ctx *self = sim_self();

    if (!self->critical && !self->guarded && self->irql < APC_LEVEL &&
        self->thread->process->pid != 4)
        sim_violation("EX-024", ddi, "a suspended thread would keep who waits for the protection");
}

static bool acquire(ULONG_PTR *at)
{
    ULONG_PTR count = __atomic_load_n(at, __ATOMIC_RELAXED);

    do {
        if (count & 1)
            return false;
    } while (!__atomic_compare_exchange_n(at, &count, count + 2, true, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED));
    hold(at);
    return true;
}

static void release(const char *ddi, ULONG_PTR *at)
{
    ULONG_PTR old = __atomic_fetch_sub(at, 2, __ATOMIC_ACQ_REL);

    if (old < 2)
        sim_violation("EX-021", ddi, "released more often than acquired");
    let_go(at);
    if (old == 3) {
        sim_dispatcher_lock();
        sim_dispatcher_wake();
        sim_dispatcher_unlock();
    }
}

static bool rundown_over(const void *context)
{
    return __atomic_load_n((const ULONG_PTR *)context, __ATOMIC_ACQUIRE) == 1;
}

static void wait_for_release(const char *ddi, ULONG_PTR *at)
{
    const char *rule = "EX-022";

    /* What another thread released for this one may still stand here, so only a wait that does not
     * end is blamed on it. */
    for (unsigned i = 0; own.boot == sim.boot && i < own.count; i++) {
        if (own.held[i] == at)
            rule = "EX-023";
    }
    __atomic_fetch_or(at, 1, __ATOMIC_ACQ_REL);
    sim_wait_until(ddi, rule, rundown_over, at);
}

VOID ExInitializeRundownProtection(PEX_RUNDOWN_REF reference)
{
    SIM_DDI(APC_LEVEL, "EX-018");
    __atomic_store_n(&reference->Count, 0, __ATOMIC_RELEASE);
}

BOOLEAN ExAcquireRundownProtection(PEX_RUNDOWN_REF reference)
{
    SIM_DDI(DISPATCH_LEVEL, "EX-019");
    check_holder(__func__);
    sim_crossing(reference);
    return acquire(&reference->Count);
}

VOID ExReleaseRundownProtection(PEX_RUNDOWN_REF reference)
{
    SIM_DDI(DISPATCH_LEVEL, "EX-021");
    release(__func__, &reference->Count);
}

VOID ExWaitForRundownProtectionRelease(PEX_RUNDOWN_REF reference)
{
    SIM_DDI(APC_LEVEL, "EX-022");
    wait_for_release(__func__, &reference->Count);
}

VOID ExReInitializeRundownProtection(PEX_RUNDOWN_REF reference)
{
    SIM_DDI(APC_LEVEL, "EX-025");
    SIM_RULE("EX-025", __atomic_load_n(&reference->Count, __ATOMIC_ACQUIRE) == 1,
             "the protection has not been run down");
    __atomic_store_n(&reference->Count, 0, __ATOMIC_RELEASE);
}

/* --- for each processor ---------------------------------------------------------------------- */

/* One count is enough here: what differs on large machines is the cost. */

PEX_RUNDOWN_REF_CACHE_AWARE ExAllocateCacheAwareRundownProtection(POOL_TYPE type, ULONG tag)
{
    SIM_DDI(APC_LEVEL, "EX-018");
    return sim_pool_alloc(__func__, type == PagedPool, 64, tag, true, __builtin_return_address(0));
}

VOID ExFreeCacheAwareRundownProtection(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    SIM_DDI(APC_LEVEL, "EX-018");
    sim_pool_free(__func__, reference, 0);
}

BOOLEAN ExAcquireRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    SIM_DDI(DISPATCH_LEVEL, "EX-019");
    check_holder(__func__);
    return acquire((ULONG_PTR *)(void *)reference);
}

VOID ExReleaseRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    SIM_DDI(DISPATCH_LEVEL, "EX-021");
    release(__func__, (ULONG_PTR *)(void *)reference);
}

VOID ExWaitForRundownProtectionReleaseCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    SIM_DDI(APC_LEVEL, "EX-022");
    wait_for_release(__func__, (ULONG_PTR *)(void *)reference);
}

VOID ExReInitializeRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    SIM_DDI(APC_LEVEL, "EX-025");
    SIM_RULE("EX-025", rundown_over(reference), "the protection has not been run down");
    __atomic_store_n((ULONG_PTR *)(void *)reference, 0, __ATOMIC_RELEASE);
}
