/*
 * rundown.c - callbacks in flight: counted per processor, waited for at the stop.
 */
#include "driver.h"

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaRundownStart(KDA_RUNDOWN *rundown,
                                                             const CHAR **call)
{
    *call = "ExAllocateCacheAwareRundownProtection";
    rundown->Reference = ExAllocateCacheAwareRundownProtection(NonPagedPoolNx, KDA_TAG_RUNDOWN);
    return rundown->Reference ? STATUS_SUCCESS : STATUS_INSUFFICIENT_RESOURCES;
}

_Use_decl_annotations_ VOID KdaRundownFree(KDA_RUNDOWN *rundown)
{
    ExFreeCacheAwareRundownProtection(rundown->Reference);
    rundown->Reference = NULL;
}

_Use_decl_annotations_ BOOLEAN KdaRundownEnter(KDA_RUNDOWN *rundown)
{
    /* Above APC_LEVEL no thread is suspended. */
    BOOLEAN region = KeGetCurrentIrql() <= APC_LEVEL;

    if (region)
        KeEnterCriticalRegion();
    if (ExAcquireRundownProtectionCacheAware(rundown->Reference))
        return TRUE;
    if (region)
        KeLeaveCriticalRegion();
    return FALSE;
}

_Use_decl_annotations_ VOID KdaRundownLeave(KDA_RUNDOWN *rundown)
{
    ExReleaseRundownProtectionCacheAware(rundown->Reference);
    if (KeGetCurrentIrql() <= APC_LEVEL)
        KeLeaveCriticalRegion();
}

_Use_decl_annotations_ VOID KdaRundownStop(KDA_DRIVER *driver, KDA_RUNDOWN *rundown,
                                           NTSTATUS removed)
{
    ExWaitForRundownProtectionReleaseCacheAware(rundown->Reference);
    if (removed == STATUS_SUCCESS)
        KdaRundownFree(rundown);
    else
        KdaKeepImage(driver);
}
