/*
 * rules_wfp.h - a callout that notes what it is asked, and filters for it. Included by the tests of
 * one area.
 */
#ifndef KDA_TESTS_RULES_WFP_H
#define KDA_TESTS_RULES_WFP_H

#include "rules.h"

static const GUID callout_key = {0x11, 1, 1, {1}};
static const GUID provider_key = {0x22, 1, 1, {1}};
static const GUID sublayer_key = {0x33, 1, 1, {1}};
static const GUID connect_v4 = KDA_LAYER_ALE_AUTH_CONNECT_V4;
static const GUID established_v4 = KDA_LAYER_ALE_FLOW_ESTABLISHED_V4;
static WCHAR display[] = u"Rules";

static struct {
    unsigned classified;
    unsigned notified;
    ULONG type;
    bool had_key;
    KIRQL irql;
    UINT64 context;
    UINT32 metadata;
    FWPS_INCOMING_METADATA_VALUES0 values;
    FWP_VALUE0 remote;
    FWP_VALUE0 flags;
    UINT16 layer;
    bool had_layer_data;
    UINT64 flow_context;
} seen;
static UINT32 action = FWP_ACTION_CONTINUE;
static bool writes_engine_fields;
static bool gives_right_back;
static NTSTATUS notify_status;
static _Atomic bool entered;
static _Atomic bool left;
static bool stays;

static inline VOID classify(const FWPS_INCOMING_VALUES0 *values,
                            const FWPS_INCOMING_METADATA_VALUES0 *metadata, PVOID layerData,
                            const VOID *context, const VOID *filter, UINT64 flowContext,
                            FWPS_CLASSIFY_OUT0 *out)
{
    seen.classified++;
    seen.irql = KeGetCurrentIrql();
    seen.context = ((const struct sim_fwps_filter *)filter)->context;
    seen.metadata = metadata->currentMetadataValues;
    seen.values = *metadata;
    seen.layer = values->layerId;
    seen.remote = values->incomingValue[KDA_WFP_REMOTE_ADDRESS].value;
    seen.flags = values->incomingValue[KDA_WFP_CONNECT_FLAGS].value;
    seen.had_layer_data = layerData || context;
    seen.flow_context = flowContext;
    if (stays) {
        entered = true;
        usleep(50000);
        left = true;
    }
    if (writes_engine_fields)
        out->filterId = 1;
    if (action != UINT32_MAX)
        out->actionType = action;
    if (gives_right_back)
        out->rights = 0;
}

static inline NTSTATUS notify(ULONG type, const GUID *key, VOID *filter)
{
    (void)filter;
    seen.notified++;
    seen.type = type;
    seen.had_key = key != NULL;
    seen.irql = KeGetCurrentIrql();
    return notify_status;
}

static inline void make_device(void)
{
    UNICODE_STRING name = rules_string(u"\\Device\\Rules");

    EXPECT_STATUS(0, IoCreateDevice(fx.driver, 0, &name, FILE_DEVICE_UNKNOWN,
                                    FILE_DEVICE_SECURE_OPEN, FALSE, &fx.device));
}

static inline NTSTATUS register_callout(bool second, UINT32 flags, UINT32 *id)
{
    const struct sim_callout_registration callout = {
        .key = callout_key, .flags = flags, .classify = classify, .notify = notify};

    if (!fx.device)
        make_device();
    return second ? FwpsCalloutRegister2(fx.device, (const void *)&callout, id)
                  : FwpsCalloutRegister1(fx.device, (const void *)&callout, id);
}

static inline HANDLE open_engine(UINT32 flags)
{
    FWPM_SESSION0 session = {.flags = flags};
    HANDLE engine = NULL;

    EXPECT_STATUS(0, FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, &session, &engine));
    return engine;
}

static inline FWPM_FILTER0 filter_of(const GUID *layer, UINT32 type)
{
    FWPM_FILTER0 filter = {.displayData = {display, NULL},
                           .layerKey = *layer,
                           .action = {type, callout_key},
                           .rawContext = {0x77, 0}};

    return filter;
}

static inline NTSTATUS add_callout(HANDLE engine)
{
    FWPM_CALLOUT0 callout = {.displayData = {display, NULL}, .calloutKey = callout_key};

    return FwpmCalloutAdd0(engine, &callout, NULL, NULL);
}

static inline NTSTATUS add_filter(HANDLE engine, const GUID *layer, UINT32 type)
{
    FWPM_FILTER0 filter = filter_of(layer, type);

    return FwpmFilterAdd0(engine, &filter, NULL, NULL);
}

static inline HANDLE armed(UINT32 type)
{
    HANDLE engine = open_engine(FWPM_SESSION_FLAG_DYNAMIC);

    EXPECT_STATUS(0, register_callout(false, 0, NULL));
    EXPECT_STATUS(0, add_callout(engine));
    EXPECT_STATUS(0, add_filter(engine, &connect_v4, type));
    EXPECT_STATUS(0, add_filter(engine, &established_v4, type));
    return engine;
}

static const struct sim_flow tcp = {.version = 4, .protocol = 6, .remote_port = 443};

#endif
