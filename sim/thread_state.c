/*
 * thread_state.c - states of a thread that the driver asks for, cache-aware rundown protection,
 * assertions of the driver.
 */
#include "thread_state.h"
#include "machine.h"

static _Thread_local bool apcs_disabled;
static _Thread_local bool top_level;
static _Thread_local bool transaction;

VOID SimAssertionFailed(const char *expression, const char *file, int line)
{
    sim_bugcheck("KDA_ASSERT", "%s does not hold, %s:%d", expression, file, line);
}

void sim_set_apcs_disabled(bool disabled)
{
    apcs_disabled = disabled;
}

void sim_set_top_level_irp(bool set)
{
    top_level = set;
}

void sim_set_transaction(bool on)
{
    transaction = on;
}

BOOLEAN KeAreAllApcsDisabled(VOID)
{
    SIM_DDI(DISPATCH_LEVEL);
    return apcs_disabled || sim_self()->irql >= APC_LEVEL;
}

PIRP IoGetTopLevelIrp(VOID)
{
    static IRP request;

    SIM_DDI(DISPATCH_LEVEL);
    return top_level ? &request : NULL;
}

PVOID CmGetBoundTransaction(PLARGE_INTEGER cookie, PVOID object)
{
    static int object_of_transaction;

    SIM_DDI(APC_LEVEL);
    SIM_CHECK(cookie && object, "cookie and object are needed");
    return transaction ? &object_of_transaction : NULL;
}

/* --- refusals -------------------------------------------------------------------------------- */

static _Atomic int32_t refusal;
static _Atomic unsigned refusals;

void sim_refuse_removal(int32_t status, unsigned times)
{
    refusal = status;
    refusals = times;
}

bool sim_removal_refused(int32_t *status)
{
    if (refusals == 0)
        return false;
    refusals--;
    *status = refusal;
    return true;
}

static _Atomic unsigned uuid_refusals;

void sim_uuid_retry(unsigned times)
{
    uuid_refusals = times;
}

bool sim_uuid_refused(void)
{
    if (uuid_refusals == 0)
        return false;
    uuid_refusals--;
    return true;
}

void sim_thread_state_boot(void)
{
    apcs_disabled = top_level = transaction = false;
    refusals = uuid_refusals = 0;
}

/* --- rundown protection ---------------------------------------------------------------------- */

struct _EX_RUNDOWN_REF_CACHE_AWARE {
    EX_RUNDOWN_REF one;
    ULONG tag;
};

PEX_RUNDOWN_REF_CACHE_AWARE ExAllocateCacheAwareRundownProtection(POOL_TYPE poolType, ULONG tag)
{
    PEX_RUNDOWN_REF_CACHE_AWARE made;

    SIM_DDI(APC_LEVEL);
    SIM_CHECK(poolType == NonPagedPoolNx, "the counters have to be resident");
    made = ExAllocatePoolWithTag(poolType, sizeof(*made), tag);
    if (!made)
        return NULL;
    made->tag = tag;
    ExInitializeRundownProtection(&made->one);
    return made;
}

VOID ExFreeCacheAwareRundownProtection(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    SIM_DDI(APC_LEVEL);
    ExFreePoolWithTag(reference, reference->tag);
}

BOOLEAN ExAcquireRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    return ExAcquireRundownProtection(&reference->one);
}

VOID ExReleaseRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    ExReleaseRundownProtection(&reference->one);
}

VOID ExWaitForRundownProtectionReleaseCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    ExWaitForRundownProtectionRelease(&reference->one);
}
