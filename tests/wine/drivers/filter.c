/*
 * filter.c - fwpkclnt.sys: a filter engine that keeps callouts and filters of one client, and
 * classifies what the injector makes up.
 */
#include "shim.h"
#include "filter.h"

#define CALLOUTS 16u

typedef struct _TEST_CALLOUT {
    GUID Key;
    TEST_GATE Gate;
    ULONG Layer; /* of the callout that was added; 0: none, is not called */
    BOOLEAN Filtered;
} TEST_CALLOUT;

static TEST_CALLOUT Callouts[CALLOUTS];
static BOOLEAN InTransaction;

static const struct {
    GUID Key;
    ULONG Layer;
} Layers[] = {
    {KDA_LAYER_ALE_AUTH_LISTEN_V4, FWPS_LAYER_ALE_AUTH_LISTEN_V4},
    {KDA_LAYER_ALE_AUTH_LISTEN_V6, FWPS_LAYER_ALE_AUTH_LISTEN_V6},
    {KDA_LAYER_ALE_AUTH_RECV_ACCEPT_V4, FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V4},
    {KDA_LAYER_ALE_AUTH_RECV_ACCEPT_V6, FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V6},
    {KDA_LAYER_ALE_AUTH_CONNECT_V4, FWPS_LAYER_ALE_AUTH_CONNECT_V4},
    {KDA_LAYER_ALE_AUTH_CONNECT_V6, FWPS_LAYER_ALE_AUTH_CONNECT_V6},
    {KDA_LAYER_ALE_FLOW_ESTABLISHED_V4, FWPS_LAYER_ALE_FLOW_ESTABLISHED_V4},
    {KDA_LAYER_ALE_FLOW_ESTABLISHED_V6, FWPS_LAYER_ALE_FLOW_ESTABLISHED_V6},
};

static BOOLEAN SameKey(const GUID *a, const GUID *b)
{
    const ULONG64 *x = (const ULONG64 *)(const VOID *)a, *y = (const ULONG64 *)(const VOID *)b;
    return x[0] == y[0] && x[1] == y[1];
}

static TEST_CALLOUT *Find(const GUID *key)
{
    for (ULONG i = 0; i < CALLOUTS; i++) {
        if (ReadAcquire64(&Callouts[i].Gate.Routine) != 0 && SameKey(&Callouts[i].Key, key))
            return &Callouts[i];
    }
    return NULL;
}

/* --- callouts -------------------------------------------------------------------------------- */

NTSTATUS FwpsCalloutRegister2(PVOID deviceObject, const FWPS_CALLOUT2 *callout, UINT32 *calloutId)
{
    if (deviceObject == NULL || callout->classifyFn == NULL || callout->notifyFn == NULL)
        return STATUS_INVALID_PARAMETER;
    if (!TestMayRegister())
        return STATUS_INSUFFICIENT_RESOURCES;
    if (Find(&callout->calloutKey) != NULL)
        return NTSTATUS_OF(0xC0220009); /* STATUS_FWP_ALREADY_EXISTS */
    for (ULONG i = 0; i < CALLOUTS; i++) {
        if (Callouts[i].Gate.Routine != 0)
            continue;
        Callouts[i].Key = callout->calloutKey;
        Callouts[i].Layer = 0;
        Callouts[i].Filtered = FALSE;
        InterlockedExchange64(&Callouts[i].Gate.Routine, (LONG64)(ULONG_PTR)callout->classifyFn);
        InterlockedIncrement(&TestLedger()->Callouts);
        *calloutId = 100 + i;
        return STATUS_SUCCESS;
    }
    return STATUS_INSUFFICIENT_RESOURCES;
}

/* Busy while its function runs, and as often as the injector wants. */
NTSTATUS FwpsCalloutUnregisterById0(UINT32 calloutId)
{
    TEST_SWITCHES *switches = TestSwitches();
    TEST_GATE *gate;
    LONG64 routine;

    if (calloutId < 100 || calloutId >= 100 + CALLOUTS)
        return STATUS_INVALID_PARAMETER;
    gate = &Callouts[calloutId - 100].Gate;
    if (switches->Busy < 0)
        return STATUS_DEVICE_BUSY;
    if (switches->Busy > 0) {
        InterlockedDecrement(&switches->Busy);
        return STATUS_DEVICE_BUSY;
    }
    routine = InterlockedExchange64(&gate->Routine, 0);
    if (routine == 0)
        return STATUS_NOT_FOUND;
    if (ReadAcquire(&gate->Calls) != 0) {
        InterlockedExchange64(&gate->Routine, routine);
        return STATUS_DEVICE_BUSY;
    }
    InterlockedDecrement(&TestLedger()->Callouts);
    return STATUS_SUCCESS;
}

BOOLEAN TestClassify(const FWPS_INCOMING_VALUES0 *values,
                     const FWPS_INCOMING_METADATA_VALUES0 *metadata, BOOLEAN anyway)
{
    BOOLEAN called = FALSE;

    for (ULONG i = 0; i < CALLOUTS; i++) {
        FWPS_CLASSIFY_OUT0 out;
        PVOID routine;
        if (Callouts[i].Layer != values->layerId || !(Callouts[i].Filtered || anyway))
            continue;
        routine = TestEnter(&Callouts[i].Gate);
        if (routine == NULL)
            continue;
        RtlZeroMemory(&out, sizeof out);
        out.rights = FWPS_RIGHT_ACTION_WRITE;
        ((FWPS_CALLOUT_CLASSIFY_FN2)(ULONG_PTR)routine)(values, metadata, NULL, NULL, NULL, 0,
                                                        &out);
        TestLeave(&Callouts[i].Gate);
        called = out.actionType == FWP_ACTION_CONTINUE;
    }
    return called;
}

/* --- engine ---------------------------------------------------------------------------------- */

static HANDLE const Engine = (HANDLE)(ULONG_PTR)0x46575031u;

NTSTATUS FwpmEngineOpen0(const WCHAR *serverName, UINT32 authnService, PVOID authIdentity,
                         const FWPM_SESSION0 *session, HANDLE *engine)
{
    UNREFERENCED_PARAMETER(authIdentity);
    if (serverName != NULL || authnService != RPC_C_AUTHN_WINNT ||
        !(session->flags & FWPM_SESSION_FLAG_DYNAMIC))
        return STATUS_INVALID_PARAMETER;
    InterlockedIncrement(&TestLedger()->Engines);
    *engine = Engine;
    return STATUS_SUCCESS;
}

/* The session is dynamic: its filters go with it. */
NTSTATUS FwpmEngineClose0(HANDLE engine)
{
    if (engine != Engine)
        return STATUS_INVALID_HANDLE;
    for (ULONG i = 0; i < CALLOUTS; i++) {
        Callouts[i].Filtered = FALSE;
    }
    InterlockedDecrement(&TestLedger()->Engines);
    return STATUS_SUCCESS;
}

NTSTATUS FwpmTransactionBegin0(HANDLE engine, UINT32 flags)
{
    if (engine != Engine || flags != 0 || InTransaction)
        return STATUS_INVALID_PARAMETER;
    InTransaction = TRUE;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmTransactionCommit0(HANDLE engine)
{
    if (engine != Engine || !InTransaction)
        return STATUS_INVALID_PARAMETER;
    InTransaction = FALSE;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmTransactionAbort0(HANDLE engine)
{
    if (engine != Engine || !InTransaction)
        return STATUS_INVALID_PARAMETER;
    InTransaction = FALSE;
    for (ULONG i = 0; i < CALLOUTS; i++)
        Callouts[i].Filtered = FALSE;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmProviderAdd0(HANDLE engine, const FWPM_PROVIDER0 *provider, PVOID sd)
{
    UNREFERENCED_PARAMETER(sd);
    return engine == Engine && InTransaction && provider->displayData.name != NULL
               ? STATUS_SUCCESS
               : STATUS_INVALID_PARAMETER;
}

NTSTATUS FwpmSubLayerAdd0(HANDLE engine, const FWPM_SUBLAYER0 *subLayer, PVOID sd)
{
    UNREFERENCED_PARAMETER(sd);
    return engine == Engine && InTransaction && subLayer->displayData.name != NULL
               ? STATUS_SUCCESS
               : STATUS_INVALID_PARAMETER;
}

NTSTATUS FwpmCalloutAdd0(HANDLE engine, const FWPM_CALLOUT0 *callout, PVOID sd, UINT32 *id)
{
    TEST_CALLOUT *own = Find(&callout->calloutKey);

    UNREFERENCED_PARAMETER(sd);
    UNREFERENCED_PARAMETER(id);
    if (engine != Engine || !InTransaction || own == NULL)
        return STATUS_INVALID_PARAMETER;
    for (ULONG i = 0; i < ARRAYSIZE(Layers); i++) {
        if (SameKey(&Layers[i].Key, &callout->applicableLayer))
            own->Layer = Layers[i].Layer;
    }
    return own->Layer != 0 ? STATUS_SUCCESS : STATUS_NOT_FOUND;
}

NTSTATUS FwpmFilterAdd0(HANDLE engine, const FWPM_FILTER0 *filter, PVOID sd, UINT64 *id)
{
    TEST_CALLOUT *own = Find(&filter->action.calloutKey);

    UNREFERENCED_PARAMETER(sd);
    if (engine != Engine || !InTransaction || own == NULL || own->Layer == 0 ||
        filter->action.type != FWP_ACTION_CALLOUT_INSPECTION)
        return STATUS_INVALID_PARAMETER;
    own->Filtered = TRUE;
    *id = 1;
    return STATUS_SUCCESS;
}

ULONG FwpmBfeStateGet0(VOID)
{
    return FWPM_SERVICE_RUNNING;
}

NTSTATUS FwpmBfeStateSubscribeChanges0(PVOID deviceObject,
                                       FWPM_SERVICE_STATE_CHANGE_CALLBACK0 callback, PVOID context,
                                       HANDLE *changeHandle)
{
    UNREFERENCED_PARAMETER(callback);
    UNREFERENCED_PARAMETER(context);
    if (deviceObject == NULL || !TestMayRegister())
        return STATUS_INSUFFICIENT_RESOURCES;
    InterlockedIncrement(&TestLedger()->Routines);
    *changeHandle = Engine;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmBfeStateUnsubscribeChanges0(HANDLE changeHandle)
{
    UNREFERENCED_PARAMETER(changeHandle);
    InterlockedDecrement(&TestLedger()->Routines);
    return STATUS_SUCCESS;
}
