/*
 * sensor_network.c - network.*: what the filtering platform says of flows, listeners and attempts.
 *
 * The callouts inspect: they never block, and their filters permit when the callout is not there.
 * Classification comes at up to DISPATCH_LEVEL and in any process; the process is the one that the
 * metadata names. The filter engine's service may come late, stop and come again: a work item (arm)
 * adds our filters in a dynamic session whenever it runs.
 *
 * A flow that was open before is seen when it is authorized again. Flows that were told are
 * remembered by a hash of addresses, ports and process, so that a later re-authorization is not
 * told; the memory is of fixed size, and where it has forgotten something it stays silent.
 */
#include "driver.h"
#include "wfp.h"

#define KDA_CALLOUTS 8u
#define KDA_BUSY_WAIT_MS 10u
#define KDA_BUSY_TRIES 3000u /* of KDA_BUSY_WAIT_MS, for all callouts together */
#define KDA_SEEN_SETS 4096u  /* power of two */
#define KDA_SEEN_WAYS 4u
#define KDA_PROTOCOL_TCP 6u

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

typedef struct _KDA_SEEN {
    KSPIN_LOCK Lock;
    UCHAR Next[KDA_SEEN_SETS]; /* way that is used next; KDA_SEEN_WAYS and more: it has forgotten */
    ULONG64 Hash[KDA_SEEN_SETS][KDA_SEEN_WAYS]; /* 0: free */
} KDA_SEEN;

typedef struct _KDA_NETWORK_SENSOR {
    /* Both outlive the sensor: a callout that cannot be unregistered is still called. */
    EX_RUNDOWN_REF Running;
    UINT32 Ids[KDA_CALLOUTS];
    KDA_SEEN *Seen;
    HANDLE Changes; /* subscription to the engine's state */
    /* Arming. */
    EX_RUNDOWN_REF Arming;
    PIO_WORKITEM Work;
    volatile LONG Requests;
    volatile LONG Lost; /* the engine has stopped since: our session is worthless */
    volatile LONG Armed;
    HANDLE Engine; /* NULL: not armed; the work item's alone */
} KDA_NETWORK_SENSOR;

static KDA_NETWORK_SENSOR KdapSensor;

/* --- flows that were told -------------------------------------------------------------------- */

typedef struct _KDA_FLOW {
    UCHAR Version;
    UCHAR Protocol;
    USHORT LocalPort;
    USHORT RemotePort;
    UCHAR Local[16];
    UCHAR Remote[16];
    BOOLEAN HasLocal;
    BOOLEAN HasRemote;
    ULONG Pid;
} KDA_FLOW;

_IRQL_requires_max_(DISPATCH_LEVEL) static ULONG64 KdapFlowHash(const KDA_FLOW *flow)
{
    ULONG64 hash = 0xCBF29CE484222325u ^ flow->Pid;
    ULONG64 words[6];

    RtlCopyMemory(&words[0], flow->Local, 16);
    RtlCopyMemory(&words[2], flow->Remote, 16);
    words[4] = (ULONG64)flow->LocalPort << 32 | flow->RemotePort;
    words[5] = (ULONG64)flow->Version << 8 | flow->Protocol;
    for (ULONG i = 0; i < ARRAYSIZE(words); i++) {
        hash = (hash ^ words[i]) * 0xD6E8FEB86659FD93u;
        hash ^= hash >> 31;
    }
    return hash ? hash : 1;
}

/* Remembers a flow; TRUE if it was surely not there before. */
_IRQL_requires_max_(DISPATCH_LEVEL) static BOOLEAN KdapRemember(const KDA_FLOW *flow)
{
    ULONG64 hash = KdapFlowHash(flow);
    ULONG set = (ULONG)(hash & (KDA_SEEN_SETS - 1));
    KDA_SEEN *seen = KdapSensor.Seen;
    ULONG64 *ways = seen->Hash[set];
    BOOLEAN known = FALSE, forgot;
    KIRQL irql;

    irql = KeAcquireSpinLockRaiseToDpc(&seen->Lock);
    for (ULONG i = 0; i < KDA_SEEN_WAYS; i++)
        known = known || ways[i] == hash;
    forgot = seen->Next[set] >= KDA_SEEN_WAYS;
    if (!known) {
        ULONG way = seen->Next[set] % KDA_SEEN_WAYS;
        if (ways[way] != 0)
            forgot = TRUE;
        ways[way] = hash;
        seen->Next[set] = (UCHAR)((way + 1) % KDA_SEEN_WAYS + (forgot ? KDA_SEEN_WAYS : 0));
    }
    KeReleaseSpinLock(&seen->Lock, irql);
    return !known && !forgot;
}

/* --- classification -------------------------------------------------------------------------- */

/* A value, if the layer has so many and it is of this type. */
_IRQL_requires_max_(DISPATCH_LEVEL) static const FWP_VALUE0 *KdapValue(
    const FWPS_INCOMING_VALUES0 *values, ULONG index, ULONG type)
{
    const FWP_VALUE0 *value;

    if (index >= values->valueCount)
        return NULL;
    value = &values->incomingValue[index].value;
    return value->type == type ? value : NULL;
}

/* Network order. */
_IRQL_requires_max_(DISPATCH_LEVEL) static BOOLEAN
    KdapAddress(const FWPS_INCOMING_VALUES0 *values, ULONG index, ULONG version, UCHAR address[16])
{
    const FWP_VALUE0 *value =
        KdapValue(values, index, version == 4 ? FWP_UINT32 : FWP_BYTE_ARRAY16_TYPE);

    if (value == NULL)
        return FALSE;
    if (version == 4) {
        for (ULONG i = 0; i < 4; i++)
            address[i] = (UCHAR)(value->uint32 >> (24 - 8 * i));
        return TRUE;
    }
    if (value->byteArray16 == NULL)
        return FALSE;
    RtlCopyMemory(address, value->byteArray16->byteArray16, 16);
    return TRUE;
}

_IRQL_requires_max_(DISPATCH_LEVEL) static USHORT
    KdapPort(const FWPS_INCOMING_VALUES0 *values, ULONG index)
{
    const FWP_VALUE0 *value = KdapValue(values, index, FWP_UINT16);
    return value ? value->uint16 : 0;
}

_IRQL_requires_max_(DISPATCH_LEVEL) static ULONG
    KdapNumber(const FWPS_INCOMING_VALUES0 *values, ULONG index)
{
    const FWP_VALUE0 *value = KdapValue(values, index, FWP_UINT32);
    return value ? value->uint32 : 0;
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapReadFlow(const FWPS_INCOMING_VALUES0 *values,
                 const FWPS_INCOMING_METADATA_VALUES0 *metadata, ULONG version, BOOLEAN listen,
                 KDA_FLOW *flow)
{
    RtlZeroMemory(flow, sizeof *flow);
    flow->Version = (UCHAR)version;
    flow->Pid = metadata->currentMetadataValues & FWPS_METADATA_FIELD_PROCESS_ID
                    ? (ULONG)metadata->processId
                    : KDA_NO_PID;
    flow->HasLocal = KdapAddress(values, KDA_WFP_LOCAL_ADDRESS, version, flow->Local);
    flow->LocalPort = KdapPort(values, KDA_WFP_LOCAL_PORT);
    if (listen) {
        flow->Protocol = KDA_PROTOCOL_TCP; /* the layer is asked for TCP only */
    } else {
        const FWP_VALUE0 *protocol = KdapValue(values, KDA_WFP_PROTOCOL, FWP_UINT8);
        flow->Protocol = protocol ? protocol->uint8 : 0;
        flow->HasRemote = KdapAddress(values, KDA_WFP_REMOTE_ADDRESS, version, flow->Remote);
        flow->RemotePort = KdapPort(values, KDA_WFP_REMOTE_PORT);
    }
}

/* Image of a process that was not told: the metadata may have its path, with a NUL. */
_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapMetadataImage(const FWPS_INCOMING_METADATA_VALUES0 *metadata, UNICODE_STRING *image)
{
    const FWP_BYTE_BLOB *path = metadata->processPath;
    SIZE_T units;

    RtlZeroMemory(image, sizeof *image);
    if (!(metadata->currentMetadataValues & FWPS_METADATA_FIELD_PROCESS_PATH) || path == NULL ||
        path->data == NULL || path->size > 2 * KDA_STRING_MAX_UNITS)
        return;
    image->Buffer = (PWSTR)(PVOID)path->data;
    units = path->size / sizeof(WCHAR);
    while (units != 0 && image->Buffer[units - 1] == 0)
        units--;
    image->Length = image->MaximumLength = (USHORT)(units * sizeof(WCHAR));
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapTell(ULONG kind, const KDA_FLOW *flow, const FWPS_INCOMING_METADATA_VALUES0 *metadata,
             ULONG direction)
{
    KDA_PROCESS *process = flow->Pid != KDA_NO_PID ? KdaProcessFind(flow->Pid) : NULL;
    KDA_SUBJECT subject = {kind, flow->Pid, process, NULL, NULL};
    struct kda_event_builder *builder;
    UNICODE_STRING image;
    KDA_RECORD record;

    if (KdaFilterPass(&subject)) {
        KdapMetadataImage(metadata, &image);
        if (KdaRecordBegin(&record, kind, KdaActorBytes(process) + image.Length + 40u)) {
            builder = &record.Builder;
            KdaRecordActor(&record, flow->Pid, KDA_NO_TID, process);
            if (process == NULL && image.Length != 0)
                KdaRecordString(&record, KDA_FIELD_IMAGE, &image);
            kda_event_flow(builder, flow->Protocol, flow->Version,
                           flow->HasLocal ? flow->Local : NULL, flow->LocalPort,
                           flow->HasRemote ? flow->Remote : NULL, flow->RemotePort);
            if (kind != KDA_KIND_NETWORK_LISTEN)
                kda_event_set(builder, KDA_FIELD_NETWORK_DIRECTION, direction);
            KdaRecordPush(&record);
        }
    }
    KdaProcessRelease(process);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapEstablished(const FWPS_INCOMING_VALUES0 *values,
                    const FWPS_INCOMING_METADATA_VALUES0 *metadata, ULONG version)
{
    ULONG direction = KdapNumber(values, KDA_WFP_FLOW_DIRECTION);
    ULONG kind =
        direction == FWP_DIRECTION_INBOUND ? KDA_KIND_NETWORK_ACCEPT : KDA_KIND_NETWORK_CONNECT;
    KDA_FLOW flow;

    KdapReadFlow(values, metadata, version, FALSE, &flow);
    KdapRemember(&flow);
    if (KdaKindOn(kind))
        KdapTell(kind, &flow, metadata,
                 direction == FWP_DIRECTION_INBOUND ? KDA_INBOUND : KDA_OUTBOUND);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapListen(const FWPS_INCOMING_VALUES0 *values, const FWPS_INCOMING_METADATA_VALUES0 *metadata,
               ULONG version)
{
    KDA_FLOW flow;

    if (!KdaKindOn(KDA_KIND_NETWORK_LISTEN) ||
        (KdapNumber(values, KDA_WFP_LISTEN_FLAGS) & FWP_CONDITION_FLAG_IS_REAUTHORIZE))
        return;
    KdapReadFlow(values, metadata, version, TRUE, &flow);
    KdapTell(KDA_KIND_NETWORK_LISTEN, &flow, metadata, KDA_INBOUND);
}

/* An attempt is told without a verdict: the decision falls after the filters of all sub-layers have
 * been asked, ours among them, and what `out` says now may be overridden.
 * Source: https://learn.microsoft.com/windows/win32/fwp/filter-arbitration */
_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapAuthorize(const FWPS_INCOMING_VALUES0 *values,
                  const FWPS_INCOMING_METADATA_VALUES0 *metadata, ULONG version, ULONG direction)
{
    ULONG flags = KdapNumber(values, direction == KDA_OUTBOUND ? KDA_WFP_CONNECT_FLAGS
                                                               : KDA_WFP_RECV_ACCEPT_FLAGS);
    BOOLEAN again = (flags & FWP_CONDITION_FLAG_IS_REAUTHORIZE) != 0;
    KDA_FLOW flow;

    if (!KdaKindOn(again ? KDA_KIND_NETWORK_EXISTING : KDA_KIND_NETWORK_ATTEMPT))
        return;
    KdapReadFlow(values, metadata, version, FALSE, &flow);
    if (!again)
        KdapTell(KDA_KIND_NETWORK_ATTEMPT, &flow, metadata, direction);
    else if (KdapRemember(&flow))
        KdapTell(KDA_KIND_NETWORK_EXISTING, &flow, metadata, direction);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID
    KdapClassify(const FWPS_INCOMING_VALUES0 *values,
                 const FWPS_INCOMING_METADATA_VALUES0 *metadata, PVOID layerData,
                 const VOID *classifyContext, const FWPS_FILTER1 *filter, UINT64 flowContext,
                 FWPS_CLASSIFY_OUT0 *out)
{
    UNREFERENCED_PARAMETER(layerData);
    UNREFERENCED_PARAMETER(classifyContext);
    UNREFERENCED_PARAMETER(filter);
    UNREFERENCED_PARAMETER(flowContext);
    if (out->rights & FWPS_RIGHT_ACTION_WRITE)
        out->actionType = FWP_ACTION_CONTINUE;
    if (!ExAcquireRundownProtection(&KdapSensor.Running))
        return;
    switch (values->layerId) {
    case FWPS_LAYER_ALE_FLOW_ESTABLISHED_V4:
    case FWPS_LAYER_ALE_FLOW_ESTABLISHED_V6:
        KdapEstablished(values, metadata,
                        values->layerId == FWPS_LAYER_ALE_FLOW_ESTABLISHED_V4 ? 4 : 6);
        break;
    case FWPS_LAYER_ALE_AUTH_LISTEN_V4:
    case FWPS_LAYER_ALE_AUTH_LISTEN_V6:
        KdapListen(values, metadata, values->layerId == FWPS_LAYER_ALE_AUTH_LISTEN_V4 ? 4 : 6);
        break;
    case FWPS_LAYER_ALE_AUTH_CONNECT_V4:
    case FWPS_LAYER_ALE_AUTH_CONNECT_V6:
        KdapAuthorize(values, metadata, values->layerId == FWPS_LAYER_ALE_AUTH_CONNECT_V4 ? 4 : 6,
                      KDA_OUTBOUND);
        break;
    case FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V4:
    case FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V6:
        KdapAuthorize(values, metadata,
                      values->layerId == FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V4 ? 4 : 6, KDA_INBOUND);
        break;
    default:
        break;
    }
    ExReleaseRundownProtection(&KdapSensor.Running);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapNotify(ULONG type, const GUID *filterKey, FWPS_FILTER1 *filter)
{
    UNREFERENCED_PARAMETER(type);
    UNREFERENCED_PARAMETER(filterKey);
    UNREFERENCED_PARAMETER(filter);
    return STATUS_SUCCESS;
}

/* --- the filter engine ----------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static FWPM_DISPLAY_DATA0 KdapDisplay(VOID)
{
    FWPM_DISPLAY_DATA0 display = {(PWSTR)(ULONG_PTR)KDA_W("KDAMonitor"),
                                  (PWSTR)(ULONG_PTR)KDA_W("Records connections, blocks none")};
    return display;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapAddFilter(HANDLE engine, const KDA_LAYER *layer)
{
    FWPM_CALLOUT0 callout;
    FWPM_FILTER0 filter;
    NTSTATUS status;
    UINT64 id;

    RtlZeroMemory(&callout, sizeof callout);
    callout.calloutKey = layer->Callout;
    callout.displayData = KdapDisplay();
    callout.providerKey = (GUID *)(ULONG_PTR)&KdapProvider;
    callout.applicableLayer = layer->Layer;
    status = FwpmCalloutAdd0(engine, &callout, NULL, NULL);
    if (!NT_SUCCESS(status))
        return status;
    RtlZeroMemory(&filter, sizeof filter);
    filter.displayData = callout.displayData;
    filter.flags = FWPM_FILTER_FLAG_PERMIT_IF_CALLOUT_UNREGISTERED;
    filter.providerKey = callout.providerKey;
    filter.layerKey = layer->Layer;
    filter.subLayerKey = KdapSubLayer;
    filter.weight.type = FWP_EMPTY;
    filter.action.type = FWP_ACTION_CALLOUT_INSPECTION;
    filter.action.calloutKey = layer->Callout;
    return FwpmFilterAdd0(engine, &filter, NULL, &id);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapAddObjects(HANDLE engine)
{
    FWPM_PROVIDER0 provider;
    FWPM_SUBLAYER0 subLayer;
    NTSTATUS status;

    RtlZeroMemory(&provider, sizeof provider);
    provider.providerKey = KdapProvider;
    provider.displayData = KdapDisplay();
    status = FwpmProviderAdd0(engine, &provider, NULL);
    if (!NT_SUCCESS(status))
        return status;
    RtlZeroMemory(&subLayer, sizeof subLayer);
    subLayer.subLayerKey = KdapSubLayer;
    subLayer.displayData = KdapDisplay();
    subLayer.providerKey = (GUID *)(ULONG_PTR)&KdapProvider;
    status = FwpmSubLayerAdd0(engine, &subLayer, NULL);
    for (ULONG i = 0; i < KDA_CALLOUTS && NT_SUCCESS(status); i++)
        status = KdapAddFilter(engine, &KdapLayers[i]);
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapDisarm(VOID)
{
    if (KdapSensor.Engine != NULL)
        FwpmEngineClose0(KdapSensor.Engine);
    KdapSensor.Engine = NULL;
    WriteRelease(&KdapSensor.Armed, 0);
}

/* A dynamic session: whatever happens to us, the engine takes our objects away with it. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapArm(VOID)
{
    FWPM_SESSION0 session;
    NTSTATUS status;
    HANDLE engine;

    RtlZeroMemory(&session, sizeof session);
    session.displayData = KdapDisplay();
    session.flags = FWPM_SESSION_FLAG_DYNAMIC;
    status = FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, &session, &engine);
    if (!NT_SUCCESS(status))
        return status;
    status = FwpmTransactionBegin0(engine, 0);
    if (NT_SUCCESS(status)) {
        status = KdapAddObjects(engine);
        if (NT_SUCCESS(status))
            status = FwpmTransactionCommit0(engine);
        else
            FwpmTransactionAbort0(engine);
    }
    if (!NT_SUCCESS(status)) {
        FwpmEngineClose0(engine);
        return status;
    }
    KdapSensor.Engine = engine;
    WriteRelease(&KdapSensor.Armed, 1);
    return status;
}

/* One at a time, here or in DriverEntry: requests that come while it runs make it go round again.
 */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapArmWork(PDEVICE_OBJECT device, PVOID context)
{
    LONG served;

    UNREFERENCED_PARAMETER(device);
    UNREFERENCED_PARAMETER(context);
    do {
        served = ReadAcquire(&KdapSensor.Requests);
        if (InterlockedExchange(&KdapSensor.Lost, 0) || FwpmBfeStateGet0() != FWPM_SERVICE_RUNNING)
            KdapDisarm();
        if (KdapSensor.Engine == NULL && FwpmBfeStateGet0() == FWPM_SERVICE_RUNNING)
            KdapArm();
    } while (InterlockedCompareExchange(&KdapSensor.Requests, 0, served) != served);
    ExReleaseRundownProtection(&KdapSensor.Arming);
}

_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapRequestArm(BOOLEAN now)
{
    if (!ExAcquireRundownProtection(&KdapSensor.Arming))
        return;
    if (InterlockedIncrement(&KdapSensor.Requests) != 1)
        ExReleaseRundownProtection(&KdapSensor.Arming);
    else if (now)
        KdapArmWork(NULL, NULL);
    else
        IoQueueWorkItem(KdapSensor.Work, KdapArmWork, DelayedWorkQueue, NULL);
}

/* Called by the engine's service, at up to DISPATCH_LEVEL. A stop makes the session worthless: it
 * is closed by the work item, which sees every state in order or only the last one. */
_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapStateChanged(PVOID context, ULONG newState)
{
    UNREFERENCED_PARAMETER(context);
    if (newState != FWPM_SERVICE_RUNNING)
        InterlockedExchange(&KdapSensor.Lost, 1);
    KdapRequestArm(FALSE);
}

/* An attempt to arm that failed is made again. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapTick(VOID)
{
    if (!ReadAcquire(&KdapSensor.Armed))
        KdapRequestArm(FALSE);
}

/* --- start and stop -------------------------------------------------------------------------- */

/* TRUE: none is left. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static BOOLEAN KdapUnregister(VOID)
{
    BOOLEAN none = TRUE;

    PAGED_CODE();
    for (ULONG i = 0; i < KDA_CALLOUTS; i++) {
        if (KdapSensor.Ids[i] == 0)
            continue;
        if (FwpsCalloutUnregisterById0(KdapSensor.Ids[i]) == STATUS_DEVICE_BUSY)
            none = FALSE;
        else
            KdapSensor.Ids[i] = 0;
    }
    return none;
}

/* All that are busy are waited for together: the wait has one end, however many there are. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapUnregisterAll(KDA_DRIVER *driver)
{
    LARGE_INTEGER wait;

    PAGED_CODE();
    wait.QuadPart = -(LONGLONG)KDA_BUSY_WAIT_MS * KDA_100NS_PER_MS;
    for (ULONG tries = 0; tries < KDA_BUSY_TRIES; tries++) {
        if (KdapUnregister())
            return;
        KeDelayExecutionThread(KernelMode, FALSE, &wait);
    }
    /* A callout that stays is called for ever. Its function then does nothing, but it has to be
     * there: a reference to the driver object keeps the image in memory after the unload. */
    ObReferenceObject(driver->DriverObject);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapRegisterAll(KDA_DRIVER *driver)
{
    FWPS_CALLOUT1 callout;
    NTSTATUS status = STATUS_SUCCESS;

    for (ULONG i = 0; i < KDA_CALLOUTS && NT_SUCCESS(status); i++) {
        RtlZeroMemory(&callout, sizeof callout);
        callout.calloutKey = KdapLayers[i].Callout;
        callout.classifyFn = KdapClassify;
        callout.notifyFn = KdapNotify;
        status = FwpsCalloutRegister1(driver->Device, &callout, &KdapSensor.Ids[i]);
        if (!NT_SUCCESS(status))
            KdapSensor.Ids[i] = 0;
    }
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    if (KdapSensor.Changes != NULL)
        FwpmBfeStateUnsubscribeChanges0(KdapSensor.Changes);
    KdapSensor.Changes = NULL;
    ExWaitForRundownProtectionRelease(&KdapSensor.Arming);
    KdapDisarm();
    KdapUnregisterAll(driver);
    ExWaitForRundownProtectionRelease(&KdapSensor.Running);
    if (KdapSensor.Work != NULL)
        IoFreeWorkItem(KdapSensor.Work);
    KdapSensor.Work = NULL;
    if (KdapSensor.Seen != NULL)
        ExFreePoolWithTag(KdapSensor.Seen, KDA_TAG_NETWORK);
    KdapSensor.Seen = NULL;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapStart(KDA_DRIVER *driver)
{
    NTSTATUS status;

    PAGED_CODE();
    RtlZeroMemory(&KdapSensor, sizeof KdapSensor);
    ExInitializeRundownProtection(&KdapSensor.Running);
    ExInitializeRundownProtection(&KdapSensor.Arming);
    status = STATUS_INSUFFICIENT_RESOURCES;
    KdapSensor.Seen =
        ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *KdapSensor.Seen, KDA_TAG_NETWORK);
    if (KdapSensor.Seen == NULL)
        goto Exit;
    RtlZeroMemory(KdapSensor.Seen, sizeof *KdapSensor.Seen);
    KeInitializeSpinLock(&KdapSensor.Seen->Lock);
    KdapSensor.Work = IoAllocateWorkItem(driver->Device);
    if (KdapSensor.Work == NULL)
        goto Exit;
    status = KdapRegisterAll(driver);
    if (!NT_SUCCESS(status))
        goto Exit;
    status =
        FwpmBfeStateSubscribeChanges0(driver->Device, KdapStateChanged, NULL, &KdapSensor.Changes);
    if (!NT_SUCCESS(status))
        KdapSensor.Changes = NULL;
    /* Subscribed first, asked then: no change is missed. Whether it runs or not, we have started.
     */
    if (NT_SUCCESS(status))
        KdapRequestArm(TRUE);
Exit:
    if (!NT_SUCCESS(status))
        KdapStop(driver);
    return status;
}

const KDA_SENSOR KdaNetworkSensor = {"network", KdapStart, KdapStop, KdapTick};
