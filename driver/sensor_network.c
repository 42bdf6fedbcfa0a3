/*
 * sensor_network.c - network.*: what the filtering platform says of flows, listeners and attempts.
 *
 * The callouts inspect: they never block. Classification comes at up to DISPATCH_LEVEL and in any
 * process; the process is the one that the metadata names. network_filters.c registers the callouts
 * and keeps our filters in the engine.
 *
 * A flow that was open before is seen when it is authorized again. Flows that were told are
 * remembered by a hash of addresses, ports and process, so that a later re-authorization is not
 * told; the memory is of fixed size, and where it has forgotten something it stays silent.
 */
#include "network.h"

#define KDA_SEEN_SETS 4096u /* power of two */
#define KDA_SEEN_WAYS 4u
#define KDA_SEEN_LOCKS 64u /* power of two */
#define KDA_PROTOCOL_TCP 6u

typedef struct _KDA_SEEN {
    KSPIN_LOCK Locks[KDA_SEEN_LOCKS]; /* of every 64th set */
    UCHAR Next[KDA_SEEN_SETS]; /* way that is used next; KDA_SEEN_WAYS and more: it has forgotten */
    ULONG64 Hash[KDA_SEEN_SETS][KDA_SEEN_WAYS]; /* 0: free */
} KDA_SEEN;

typedef struct _KDA_NETWORK_SENSOR {
    KDA_RUNDOWN Running; /* outlives the sensor where a callout cannot be unregistered */
    KDA_SEEN *Seen;
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

    irql = KeAcquireSpinLockRaiseToDpc(&seen->Locks[set & (KDA_SEEN_LOCKS - 1)]);
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
    KeReleaseSpinLock(&seen->Locks[set & (KDA_SEEN_LOCKS - 1)], irql);
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
            /* A flow can be told in any process: an unknown one is not asked for here. */
            KdaRecordActor(&record, flow->Pid, KDA_NO_TID, process,
                           flow->Pid == KDA_NO_PID || KeGetCurrentIrql() == PASSIVE_LEVEL
                               ? KDA_OMIT_GONE
                               : KDA_OMIT_IRQL);
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

_Use_decl_annotations_ VOID KdaNetworkClassify(const FWPS_INCOMING_VALUES0 *values,
                                               const FWPS_INCOMING_METADATA_VALUES0 *metadata,
                                               PVOID layerData, const VOID *classifyContext,
                                               const FWPS_FILTER2 *filter, UINT64 flowContext,
                                               FWPS_CLASSIFY_OUT0 *out)
{
    UNREFERENCED_PARAMETER(layerData);
    UNREFERENCED_PARAMETER(classifyContext);
    UNREFERENCED_PARAMETER(filter);
    UNREFERENCED_PARAMETER(flowContext);
    if (out->rights & FWPS_RIGHT_ACTION_WRITE)
        out->actionType = FWP_ACTION_CONTINUE;
    if (!KdaRundownEnter(&KdapSensor.Running))
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
    KdaRundownLeave(&KdapSensor.Running);
}

/* --- start and stop -------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStop(KDA_DRIVER *driver)
{
    NTSTATUS status;

    PAGED_CODE();
    status = KdaFiltersStop(driver);
    KdaRundownStop(driver, &KdapSensor.Running, status);
    ExFreePoolWithTag(KdapSensor.Seen, KDA_TAG_NETWORK);
    KdapSensor.Seen = NULL;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapStart(KDA_DRIVER *driver, const CHAR **call)
{
    NTSTATUS status;

    PAGED_CODE();
    RtlZeroMemory(&KdapSensor, sizeof KdapSensor);
    status = KdaRundownStart(&KdapSensor.Running, call);
    if (!NT_SUCCESS(status))
        return status;
    *call = "ExAllocatePoolWithTag";
    KdapSensor.Seen =
        ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *KdapSensor.Seen, KDA_TAG_NETWORK);
    if (KdapSensor.Seen == NULL) {
        KdaRundownFree(&KdapSensor.Running);
        return STATUS_INSUFFICIENT_RESOURCES;
    }
    RtlZeroMemory(KdapSensor.Seen, sizeof *KdapSensor.Seen);
    for (ULONG i = 0; i < KDA_SEEN_LOCKS; i++)
        KeInitializeSpinLock(&KdapSensor.Seen->Locks[i]);
    status = KdaFiltersStart(driver, call);
    if (!NT_SUCCESS(status))
        KdapStop(driver);
    return status;
}

const KDA_SENSOR KdaNetworkSensor = {KDA_SENSOR_NETWORK, KdapStart, KdapStop, KdaFiltersTick};
