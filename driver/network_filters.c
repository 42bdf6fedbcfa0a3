/*
 * network_filters.c - our callouts and filters in the filter engine.
 *
 * The engine's service may come late, stop and come again, and somebody may delete our filters: a
 * work item (arm) adds them in a dynamic session whenever the service runs. The filters inspect,
 * and are ignored by the engine while their callout is not there.
 */
#include "network.h"

#define KDA_CALLOUTS 8u
#define KDA_BUSY_WAIT_MS 10u
#define KDA_BUSY_TRIES 3000u /* of KDA_BUSY_WAIT_MS, for all callouts together */

typedef struct _KDA_LAYER {
    GUID Layer;
    GUID Callout;
    UINT16 Id;
    UCHAR Version;
} KDA_LAYER;

#define KDA_CALLOUT_GUID(n)                                                                        \
    {                                                                                              \
        0x5b0c6a10 + (n), 0x6f1e, 0x4c52,                                                          \
        {                                                                                          \
            0x9b, 0x3f, 0x0e, 0x6d, 0x3a, 0x51, 0x7c, 0x21                                         \
        }                                                                                          \
    }

static const KDA_LAYER KdapLayers[KDA_CALLOUTS] = {
    {KDA_LAYER_ALE_FLOW_ESTABLISHED_V4, KDA_CALLOUT_GUID(0), FWPS_LAYER_ALE_FLOW_ESTABLISHED_V4, 4},
    {KDA_LAYER_ALE_FLOW_ESTABLISHED_V6, KDA_CALLOUT_GUID(1), FWPS_LAYER_ALE_FLOW_ESTABLISHED_V6, 6},
    {KDA_LAYER_ALE_AUTH_LISTEN_V4, KDA_CALLOUT_GUID(2), FWPS_LAYER_ALE_AUTH_LISTEN_V4, 4},
    {KDA_LAYER_ALE_AUTH_LISTEN_V6, KDA_CALLOUT_GUID(3), FWPS_LAYER_ALE_AUTH_LISTEN_V6, 6},
    {KDA_LAYER_ALE_AUTH_CONNECT_V4, KDA_CALLOUT_GUID(4), FWPS_LAYER_ALE_AUTH_CONNECT_V4, 4},
    {KDA_LAYER_ALE_AUTH_CONNECT_V6, KDA_CALLOUT_GUID(5), FWPS_LAYER_ALE_AUTH_CONNECT_V6, 6},
    {KDA_LAYER_ALE_AUTH_RECV_ACCEPT_V4, KDA_CALLOUT_GUID(6), FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V4, 4},
    {KDA_LAYER_ALE_AUTH_RECV_ACCEPT_V6, KDA_CALLOUT_GUID(7), FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V6, 6},
};

static const GUID KdapProvider = KDA_CALLOUT_GUID(16);
static const GUID KdapSubLayer = KDA_CALLOUT_GUID(17);

typedef struct _KDA_FILTERS {
    UINT32 Ids[KDA_CALLOUTS];
    HANDLE Changes; /* subscription to the engine's state */
    EX_RUNDOWN_REF Arming;
    PIO_WORKITEM Work;
    volatile LONG Requests;
    volatile LONG Lost; /* our session is worthless: the engine has stopped, or a filter has gone */
    volatile LONG Armed;
    HANDLE Engine;                         /* NULL: not armed; the work item's alone */
    volatile LONG64 Filters[KDA_CALLOUTS]; /* numbers of those that are armed; 0: none */
} KDA_FILTERS;

static KDA_FILTERS KdapFilters;

/* --- arming ---------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static FWPM_DISPLAY_DATA0 KdapDisplay(VOID)
{
    FWPM_DISPLAY_DATA0 display = {(PWSTR)(ULONG_PTR)KDA_W("KDAMonitor"),
                                  (PWSTR)(ULONG_PTR)KDA_W("Records connections, blocks none")};
    return display;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapAddFilter(HANDLE engine, ULONG at, const CHAR **call)
{
    const KDA_LAYER *layer = &KdapLayers[at];
    FWPM_CALLOUT0 callout;
    FWPM_FILTER0 filter;
    NTSTATUS status;
    UINT64 id = 0;

    RtlZeroMemory(&callout, sizeof callout);
    callout.calloutKey = layer->Callout;
    callout.displayData = KdapDisplay();
    callout.providerKey = (GUID *)(ULONG_PTR)&KdapProvider;
    callout.applicableLayer = layer->Layer;
    *call = "FwpmCalloutAdd0";
    status = FwpmCalloutAdd0(engine, &callout, NULL, NULL);
    if (!NT_SUCCESS(status))
        return status;
    RtlZeroMemory(&filter, sizeof filter);
    filter.displayData = callout.displayData;
    filter.providerKey = callout.providerKey;
    filter.layerKey = layer->Layer;
    filter.subLayerKey = KdapSubLayer;
    filter.weight.type = FWP_EMPTY;
    filter.action.type = FWP_ACTION_CALLOUT_INSPECTION;
    filter.action.calloutKey = layer->Callout;
    *call = "FwpmFilterAdd0";
    status = FwpmFilterAdd0(engine, &filter, NULL, &id);
    if (NT_SUCCESS(status))
        WriteRelease64(&KdapFilters.Filters[at], (LONG64)id);
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapAddObjects(HANDLE engine, const CHAR **call)
{
    FWPM_PROVIDER0 provider;
    FWPM_SUBLAYER0 subLayer;
    NTSTATUS status;

    RtlZeroMemory(&provider, sizeof provider);
    provider.providerKey = KdapProvider;
    provider.displayData = KdapDisplay();
    *call = "FwpmProviderAdd0";
    status = FwpmProviderAdd0(engine, &provider, NULL);
    if (!NT_SUCCESS(status))
        return status;
    RtlZeroMemory(&subLayer, sizeof subLayer);
    subLayer.subLayerKey = KdapSubLayer;
    subLayer.displayData = KdapDisplay();
    subLayer.providerKey = (GUID *)(ULONG_PTR)&KdapProvider;
    *call = "FwpmSubLayerAdd0";
    status = FwpmSubLayerAdd0(engine, &subLayer, NULL);
    for (ULONG i = 0; i < KDA_CALLOUTS && NT_SUCCESS(status); i++)
        status = KdapAddFilter(engine, i, call);
    return status;
}

/* The end of the session takes our filters away: that is none of which we need to be told. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapCloseEngine(HANDLE engine)
{
    for (ULONG i = 0; i < KDA_CALLOUTS; i++)
        WriteRelease64(&KdapFilters.Filters[i], 0);
    KDA_CALL(FwpmEngineClose0, (engine));
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapDisarm(VOID)
{
    WriteRelease(&KdapFilters.Armed, 0);
    if (KdapFilters.Engine != NULL)
        KdapCloseEngine(KdapFilters.Engine);
    KdapFilters.Engine = NULL;
}

/* A dynamic session: whatever happens to us, the engine takes our objects away with it. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapOpenSession(const CHAR **call)
{
    FWPM_SESSION0 session;
    NTSTATUS status;
    HANDLE engine;

    RtlZeroMemory(&session, sizeof session);
    session.displayData = KdapDisplay();
    session.flags = FWPM_SESSION_FLAG_DYNAMIC;
    *call = "FwpmEngineOpen0";
    status = FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, &session, &engine);
    if (!NT_SUCCESS(status))
        return status;
    *call = "FwpmTransactionBegin0";
    status = FwpmTransactionBegin0(engine, 0);
    if (NT_SUCCESS(status)) {
        status = KdapAddObjects(engine, call);
        if (NT_SUCCESS(status)) {
            *call = "FwpmTransactionCommit0";
            status = FwpmTransactionCommit0(engine);
        } else {
            KDA_CALL(FwpmTransactionAbort0, (engine));
        }
    }
    if (!NT_SUCCESS(status)) {
        KdapCloseEngine(engine);
        return status;
    }
    KdapFilters.Engine = engine;
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapArm(VOID)
{
    const CHAR *call = "";
    NTSTATUS status = KdapOpenSession(&call);

    if (NT_SUCCESS(status)) {
        WriteRelease(&KdapFilters.Armed, 1);
        KdaSensorState(KDA_SENSOR_NETWORK, KDA_SENSOR_ARMED, __func__, NULL, STATUS_SUCCESS);
    } else {
        KdaCalled(__func__, call, status);
        KdaSensorState(KDA_SENSOR_NETWORK, KDA_SENSOR_DEGRADED, __func__, call, status);
    }
}

/* One at a time, here or in DriverEntry: requests that come while it runs make it go round again.
 */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapArmWork(PDEVICE_OBJECT device, PVOID context)
{
    BOOLEAN runs;
    LONG served;

    UNREFERENCED_PARAMETER(device);
    UNREFERENCED_PARAMETER(context);
    do {
        served = ReadAcquire(&KdapFilters.Requests);
        runs = FwpmBfeStateGet0() == FWPM_SERVICE_RUNNING;
        if (InterlockedExchange(&KdapFilters.Lost, 0) || !runs)
            KdapDisarm();
        if (!runs)
            KdaSensorState(KDA_SENSOR_NETWORK, KDA_SENSOR_DEGRADED, __func__, "FwpmBfeStateGet0",
                           STATUS_DEVICE_NOT_READY);
        else if (KdapFilters.Engine == NULL)
            KdapArm();
    } while (InterlockedCompareExchange(&KdapFilters.Requests, 0, served) != served);
    ExReleaseRundownProtection(&KdapFilters.Arming);
}

/* TRUE: the first of those that are to be served, with the protection that the work gives back. */
_IRQL_requires_max_(DISPATCH_LEVEL) static BOOLEAN KdapWantArm(VOID)
{
    if (!ExAcquireRundownProtection(&KdapFilters.Arming))
        return FALSE;
    if (InterlockedIncrement(&KdapFilters.Requests) == 1)
        return TRUE;
    ExReleaseRundownProtection(&KdapFilters.Arming);
    return FALSE;
}

/* In whatever thread: one that is suspended in here would keep the stop waiting. */
_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapRequestArm(VOID)
{
    BOOLEAN region = KeGetCurrentIrql() <= APC_LEVEL;

    if (region)
        KeEnterCriticalRegion();
    if (KdapWantArm())
        IoQueueWorkItem(KdapFilters.Work, KdapArmWork, DelayedWorkQueue, NULL);
    if (region)
        KeLeaveCriticalRegion();
}

/* Called by the engine's service, at up to DISPATCH_LEVEL. A stop makes the session worthless: it
 * is closed by the work item, which sees every state in order or only the last one. */
_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapStateChanged(PVOID context, ULONG newState)
{
    UNREFERENCED_PARAMETER(context);
    if (newState != FWPM_SERVICE_RUNNING)
        InterlockedExchange(&KdapFilters.Lost, 1);
    KdapRequestArm();
}

_Use_decl_annotations_ VOID KdaFiltersTick(VOID)
{
    if (!ReadAcquire(&KdapFilters.Armed))
        KdapRequestArm();
}

/* Up to DISPATCH_LEVEL. A filter of ours that goes while its session lives was deleted by somebody:
 * that is told, and all are added again. */
_IRQL_requires_max_(DISPATCH_LEVEL) static NTSTATUS
    KdapNotify(ULONG type, const GUID *filterKey, FWPS_FILTER2 *filter)
{
    BOOLEAN ours = FALSE;

    UNREFERENCED_PARAMETER(filterKey);
    if (type != FWPS_CALLOUT_NOTIFY_DELETE_FILTER || filter == NULL ||
        !ReadAcquire(&KdapFilters.Armed))
        return STATUS_SUCCESS;
    for (ULONG i = 0; i < KDA_CALLOUTS; i++)
        ours = ours || (UINT64)ReadAcquire64(&KdapFilters.Filters[i]) == filter->filterId;
    if (!ours || filter->filterId == 0)
        return STATUS_SUCCESS;
    KdaCalled(__func__, "filter deleted by others", STATUS_NOT_FOUND);
    KdaSensorState(KDA_SENSOR_NETWORK, KDA_SENSOR_DEGRADED, __func__, "filter deleted by others",
                   STATUS_NOT_FOUND);
    InterlockedExchange(&KdapFilters.Lost, 1);
    KdapRequestArm();
    return STATUS_SUCCESS;
}

/* --- start and stop -------------------------------------------------------------------------- */

/* One callout. Busy and in use are no answers: they are asked again. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static BOOLEAN KdapUnregister(ULONG at, NTSTATUS *all)
{
    NTSTATUS status;

    PAGED_CODE();
    if (KdapFilters.Ids[at] == 0)
        return TRUE;
    status = FwpsCalloutUnregisterById0(KdapFilters.Ids[at]);
    if (status == STATUS_DEVICE_BUSY || status == STATUS_FWP_IN_USE)
        return FALSE;
    KdapFilters.Ids[at] = 0;
    if (status != STATUS_SUCCESS)
        *all = KdaCalled(__func__, "FwpsCalloutUnregisterById0", status);
    return TRUE;
}

/* All that are busy are waited for together: the wait has one end, however many there are. A
 * callout that stays is called for ever; its function then does nothing, but it has to be there. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static NTSTATUS KdapUnregisterAll(VOID)
{
    NTSTATUS all = STATUS_SUCCESS;
    LARGE_INTEGER wait;
    BOOLEAN none;

    PAGED_CODE();
    wait.QuadPart = -(LONGLONG)KDA_BUSY_WAIT_MS * KDA_100NS_PER_MS;
    for (ULONG tries = 0; tries < KDA_BUSY_TRIES; tries++) {
        none = TRUE;
        for (ULONG i = 0; i < KDA_CALLOUTS; i++)
            none = KdapUnregister(i, &all) && none;
        if (none)
            return all;
        KeDelayExecutionThread(KernelMode, FALSE, &wait);
    }
    return KdaCalled(__func__, "FwpsCalloutUnregisterById0", STATUS_DEVICE_BUSY);
}

/* The newest flags are refused by an engine that does not know them. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapRegister(KDA_DRIVER *driver, ULONG at)
{
    static const UINT32 flags[] = {FWP_CALLOUT_FLAG_ALLOW_OFFLOAD | FWP_CALLOUT_FLAG_ALLOW_RSC |
                                       FWP_CALLOUT_FLAG_ALLOW_USO | FWP_CALLOUT_FLAG_ALLOW_URO,
                                   FWP_CALLOUT_FLAG_ALLOW_OFFLOAD | FWP_CALLOUT_FLAG_ALLOW_RSC};
    NTSTATUS status = STATUS_UNSUCCESSFUL;
    FWPS_CALLOUT2 callout;

    for (ULONG i = 0; i < ARRAYSIZE(flags) && !NT_SUCCESS(status); i++) {
        RtlZeroMemory(&callout, sizeof callout);
        callout.calloutKey = KdapLayers[at].Callout;
        callout.flags = flags[i];
        callout.classifyFn = KdaNetworkClassify;
        callout.notifyFn = KdapNotify;
        status = FwpsCalloutRegister2(driver->Device, &callout, &KdapFilters.Ids[at]);
    }
    if (!NT_SUCCESS(status))
        KdapFilters.Ids[at] = 0;
    return status;
}

_Use_decl_annotations_ KDA_PAGED NTSTATUS KdaFiltersStop(KDA_DRIVER *driver)
{
    NTSTATUS status = STATUS_SUCCESS, callouts;

    PAGED_CODE();
    UNREFERENCED_PARAMETER(driver);
    if (KdapFilters.Changes != NULL)
        status = KDA_CALL(FwpmBfeStateUnsubscribeChanges0, (KdapFilters.Changes));
    KdapFilters.Changes = NULL;
    ExWaitForRundownProtectionRelease(&KdapFilters.Arming);
    KdapDisarm();
    callouts = KdapUnregisterAll();
    if (KdapFilters.Work != NULL)
        IoFreeWorkItem(KdapFilters.Work);
    KdapFilters.Work = NULL;
    return status == STATUS_SUCCESS ? callouts : status;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaFiltersStart(KDA_DRIVER *driver, const CHAR **call)
{
    NTSTATUS status = STATUS_SUCCESS;

    PAGED_CODE();
    RtlZeroMemory(&KdapFilters, sizeof KdapFilters);
    ExInitializeRundownProtection(&KdapFilters.Arming);
    *call = "IoAllocateWorkItem";
    KdapFilters.Work = IoAllocateWorkItem(driver->Device);
    if (KdapFilters.Work == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    *call = "FwpsCalloutRegister2";
    for (ULONG i = 0; i < KDA_CALLOUTS && NT_SUCCESS(status); i++)
        status = KdapRegister(driver, i);
    if (!NT_SUCCESS(status))
        return status;
    *call = "FwpmBfeStateSubscribeChanges0";
    status =
        FwpmBfeStateSubscribeChanges0(driver->Device, KdapStateChanged, NULL, &KdapFilters.Changes);
    if (!NT_SUCCESS(status)) {
        KdapFilters.Changes = NULL;
        return status;
    }
    /* Subscribed first, asked then: no change is missed. Whether it runs or not, we have started.
     */
    if (KdapWantArm())
        KdapArmWork(NULL, NULL);
    return status;
}
