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

_Use_decl_annotations_ VOID KdaRundownStop(KDA_DRIVER *driver, KDA_RUNDOWN *rundown,
                                           NTSTATUS removed)
{
    ExWaitForRundownProtectionReleaseCacheAware(rundown->Reference);
    if (removed == STATUS_SUCCESS)
        KdaRundownFree(rundown);
    else
        KdaKeepImage(driver);
}
