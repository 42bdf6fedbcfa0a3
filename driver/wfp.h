/*
 * wfp.h - the part of the Windows Filtering Platform that the network sensor uses.
 *
 * Declared from the pages of fwpsk.h, fwpmk.h and fwptypes.h; each type and function has the name
 * of its page. Structures that the engine hands out and may grow are declared up to the last
 * member that is read.
 */
#ifndef KDA_WFP_H
#define KDA_WFP_H

#include "nt.h"

#ifdef KDA_USE_WDK

#include <fwpsk.h>
#include <fwpmk.h>

#else

typedef uint8_t UINT8;
typedef uint16_t UINT16;
typedef uint32_t UINT32;
typedef uint64_t UINT64;

/* --- common types (fwptypes.h) ---------------------------------------------------------------- */

typedef struct FWP_BYTE_BLOB_ {
    UINT32 size;
    UINT8 *data;
} FWP_BYTE_BLOB;

typedef struct FWP_BYTE_ARRAY16_ {
    UINT8 byteArray16[16];
} FWP_BYTE_ARRAY16;

#define FWP_EMPTY 0u
#define FWP_UINT8 1u
#define FWP_UINT16 2u
#define FWP_UINT32 3u
#define FWP_UINT64 4u
#define FWP_BYTE_ARRAY16_TYPE 11u
#define FWP_BYTE_BLOB_TYPE 12u

typedef struct FWP_VALUE0_ {
    UINT32 type;
    union {
        UINT8 uint8;
        UINT16 uint16;
        UINT32 uint32;
        UINT64 *uint64;
        FWP_BYTE_ARRAY16 *byteArray16;
        FWP_BYTE_BLOB *byteBlob;
        PVOID any;
    };
} FWP_VALUE0;
C_ASSERT(sizeof(FWP_VALUE0) == 16 && FIELD_OFFSET(FWP_VALUE0, any) == 8);

#define FWP_ACTION_PERMIT 0x1002u
#define FWP_ACTION_BLOCK 0x1001u
#define FWP_ACTION_CALLOUT_INSPECTION 0x6004u
#define FWP_ACTION_CONTINUE 0x2006u

#define FWP_DIRECTION_OUTBOUND 0u
#define FWP_DIRECTION_INBOUND 1u
#define FWP_CONDITION_FLAG_IS_REAUTHORIZE 0x4u

/* --- callouts (fwpsk.h) ----------------------------------------------------------------------- */

#define FWPS_LAYER_ALE_AUTH_LISTEN_V4 40u
#define FWPS_LAYER_ALE_AUTH_LISTEN_V6 42u
#define FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V4 44u
#define FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V6 46u
#define FWPS_LAYER_ALE_AUTH_CONNECT_V4 48u
#define FWPS_LAYER_ALE_AUTH_CONNECT_V6 50u
#define FWPS_LAYER_ALE_FLOW_ESTABLISHED_V4 52u
#define FWPS_LAYER_ALE_FLOW_ESTABLISHED_V6 54u

typedef struct FWPS_INCOMING_VALUE0_ {
    FWP_VALUE0 value;
} FWPS_INCOMING_VALUE0;

typedef struct FWPS_INCOMING_VALUES0_ {
    UINT16 layerId;
    UINT32 valueCount;
    FWPS_INCOMING_VALUE0 *incomingValue;
} FWPS_INCOMING_VALUES0;
C_ASSERT(sizeof(FWPS_INCOMING_VALUES0) == 16);

#define FWPS_METADATA_FIELD_FLOW_HANDLE 0x02u
#define FWPS_METADATA_FIELD_PROCESS_PATH 0x08u
#define FWPS_METADATA_FIELD_PROCESS_ID 0x20u

typedef struct FWPS_INCOMING_METADATA_VALUES0_ {
    UINT32 currentMetadataValues; /* which of the following are there */
    UINT32 flags;
    UINT64 reserved;
    UINT64 discardMetadata[2];
    UINT64 flowHandle;
    UINT32 ipHeaderSize;
    UINT32 transportHeaderSize;
    FWP_BYTE_BLOB *processPath;
    UINT64 token;
    UINT64 processId;
} FWPS_INCOMING_METADATA_VALUES0;
C_ASSERT(FIELD_OFFSET(FWPS_INCOMING_METADATA_VALUES0, flowHandle) == 32);
C_ASSERT(FIELD_OFFSET(FWPS_INCOMING_METADATA_VALUES0, processId) == 64);

#define FWPS_RIGHT_ACTION_WRITE 0x1u
typedef struct FWPS_CLASSIFY_OUT0_ {
    UINT32 actionType;
    UINT64 outContext;
    UINT64 filterId;
    UINT32 rights;
    UINT32 flags;
    UINT32 reserved;
} FWPS_CLASSIFY_OUT0;
C_ASSERT(sizeof(FWPS_CLASSIFY_OUT0) == 40);

/* Up to the number that FwpmFilterAdd0 gave. */
typedef struct FWPS_FILTER2_ {
    UINT64 filterId;
} FWPS_FILTER2;
typedef VOID (*FWPS_CALLOUT_CLASSIFY_FN2)(const FWPS_INCOMING_VALUES0 *values,
                                          const FWPS_INCOMING_METADATA_VALUES0 *metadata,
                                          PVOID layerData, const VOID *classifyContext,
                                          const FWPS_FILTER2 *filter, UINT64 flowContext,
                                          FWPS_CLASSIFY_OUT0 *out);
typedef NTSTATUS (*FWPS_CALLOUT_NOTIFY_FN2)(ULONG type, const GUID *filterKey,
                                            FWPS_FILTER2 *filter);
typedef VOID (*FWPS_CALLOUT_FLOW_DELETE_NOTIFY_FN0)(UINT16 layerId, UINT32 calloutId,
                                                    UINT64 flowContext);
/* Without these the engine takes from all traffic of the callout's filters what network cards and
 * the stack do to save work: offloads, coalescing of received segments, the same for UDP. The last
 * two are newer than the function that takes them. */
#define FWP_CALLOUT_FLAG_ALLOW_OFFLOAD 0x2u
#define FWP_CALLOUT_FLAG_ALLOW_RSC 0x40u
#define FWP_CALLOUT_FLAG_ALLOW_USO 0x100u
#define FWP_CALLOUT_FLAG_ALLOW_URO 0x200u
#define FWPS_CALLOUT_NOTIFY_ADD_FILTER 0u
#define FWPS_CALLOUT_NOTIFY_DELETE_FILTER 1u
typedef struct FWPS_CALLOUT2_ {
    GUID calloutKey;
    UINT32 flags;
    FWPS_CALLOUT_CLASSIFY_FN2 classifyFn;
    FWPS_CALLOUT_NOTIFY_FN2 notifyFn;
    FWPS_CALLOUT_FLOW_DELETE_NOTIFY_FN0 flowDeleteFn;
} FWPS_CALLOUT2;
C_ASSERT(sizeof(FWPS_CALLOUT2) == 48);

NTSTATUS FwpsCalloutRegister2(PVOID deviceObject, const FWPS_CALLOUT2 *callout, UINT32 *calloutId);
/* STATUS_DEVICE_BUSY while flows hold a context of the callout, STATUS_FWP_IN_USE while another
 * thread registers or unregisters it: both are asked again. */
#define STATUS_FWP_IN_USE NTSTATUS_OF(0xC022000A)
#define STATUS_FWP_CALLOUT_NOT_FOUND NTSTATUS_OF(0xC0220001)
NTSTATUS FwpsCalloutUnregisterById0(UINT32 calloutId);

/* --- management (fwpmk.h) --------------------------------------------------------------------- */

typedef struct FWPM_DISPLAY_DATA0_ {
    PWSTR name;
    PWSTR description;
} FWPM_DISPLAY_DATA0;

#define FWPM_SESSION_FLAG_DYNAMIC 0x1u
typedef struct FWPM_SESSION0_ {
    GUID sessionKey;
    FWPM_DISPLAY_DATA0 displayData;
    UINT32 flags;
    UINT32 txnWaitTimeoutInMSec;
    ULONG processId;
    PVOID sid;
    PWSTR username;
    LONG kernelMode;
} FWPM_SESSION0;
C_ASSERT(sizeof(FWPM_SESSION0) == 72);

typedef struct FWPM_PROVIDER0_ {
    GUID providerKey;
    FWPM_DISPLAY_DATA0 displayData;
    UINT32 flags;
    FWP_BYTE_BLOB providerData;
    PWSTR serviceName;
} FWPM_PROVIDER0;
C_ASSERT(sizeof(FWPM_PROVIDER0) == 64);

typedef struct FWPM_SUBLAYER0_ {
    GUID subLayerKey;
    FWPM_DISPLAY_DATA0 displayData;
    UINT32 flags;
    GUID *providerKey;
    FWP_BYTE_BLOB providerData;
    UINT16 weight;
} FWPM_SUBLAYER0;
C_ASSERT(sizeof(FWPM_SUBLAYER0) == 72);

typedef struct FWPM_CALLOUT0_ {
    GUID calloutKey;
    FWPM_DISPLAY_DATA0 displayData;
    UINT32 flags;
    GUID *providerKey;
    FWP_BYTE_BLOB providerData;
    GUID applicableLayer;
    UINT32 calloutId;
} FWPM_CALLOUT0;
C_ASSERT(sizeof(FWPM_CALLOUT0) == 88);

typedef struct FWPM_ACTION0_ {
    UINT32 type;
    GUID calloutKey;
} FWPM_ACTION0;

typedef struct FWPM_FILTER_CONDITION0_ FWPM_FILTER_CONDITION0;

/* For filters whose callout may block; refused, or without meaning, for an inspection: that one is
 * ignored while its callout is not registered. */
#define FWPM_FILTER_FLAG_PERMIT_IF_CALLOUT_UNREGISTERED 0x10u
typedef struct FWPM_FILTER0_ {
    GUID filterKey;
    FWPM_DISPLAY_DATA0 displayData;
    UINT32 flags;
    GUID *providerKey;
    FWP_BYTE_BLOB providerData;
    GUID layerKey;
    GUID subLayerKey;
    FWP_VALUE0 weight;
    UINT32 numFilterConditions;
    FWPM_FILTER_CONDITION0 *filterCondition;
    FWPM_ACTION0 action;
    UINT64 rawContext[2]; /* a union with a GUID */
    GUID *reserved;
    UINT64 filterId;
    FWP_VALUE0 effectiveWeight;
} FWPM_FILTER0;
C_ASSERT(FIELD_OFFSET(FWPM_FILTER0, layerKey) == 64);
C_ASSERT(FIELD_OFFSET(FWPM_FILTER0, action) == 128);
C_ASSERT(FIELD_OFFSET(FWPM_FILTER0, rawContext) == 152);
C_ASSERT(sizeof(FWPM_FILTER0) == 200);

#define RPC_C_AUTHN_WINNT 10u
NTSTATUS FwpmEngineOpen0(const WCHAR *serverName, UINT32 authnService, PVOID authIdentity,
                         const FWPM_SESSION0 *session, HANDLE *engine);
NTSTATUS FwpmEngineClose0(HANDLE engine);
NTSTATUS FwpmTransactionBegin0(HANDLE engine, UINT32 flags);
NTSTATUS FwpmTransactionCommit0(HANDLE engine);
NTSTATUS FwpmTransactionAbort0(HANDLE engine);
NTSTATUS FwpmProviderAdd0(HANDLE engine, const FWPM_PROVIDER0 *provider, PVOID sd);
NTSTATUS FwpmSubLayerAdd0(HANDLE engine, const FWPM_SUBLAYER0 *subLayer, PVOID sd);
NTSTATUS FwpmCalloutAdd0(HANDLE engine, const FWPM_CALLOUT0 *callout, PVOID sd, UINT32 *id);
NTSTATUS FwpmFilterAdd0(HANDLE engine, const FWPM_FILTER0 *filter, PVOID sd, UINT64 *id);

#define FWPM_SERVICE_STOPPED 0u
#define FWPM_SERVICE_START_PENDING 1u
#define FWPM_SERVICE_STOP_PENDING 2u
#define FWPM_SERVICE_RUNNING 3u
typedef VOID (*FWPM_SERVICE_STATE_CHANGE_CALLBACK0)(PVOID context, ULONG newState);
ULONG FwpmBfeStateGet0(VOID);
NTSTATUS FwpmBfeStateSubscribeChanges0(PVOID deviceObject,
                                       FWPM_SERVICE_STATE_CHANGE_CALLBACK0 callback, PVOID context,
                                       HANDLE *changeHandle);
NTSTATUS FwpmBfeStateUnsubscribeChanges0(HANDLE changeHandle);

#endif /* KDA_USE_WDK */

/* Places of the values of a layer. Pages FWPS_FIELDS_ALE_AUTH_CONNECT_V4, _RECV_ACCEPT_V4,
 * _FLOW_ESTABLISHED_V4, _AUTH_LISTEN_V4; the V6 enumerations have the same order. The first eight
 * are common to the three layers of flows; then the layers part, and the flags are at different
 * places. */
enum {
    KDA_WFP_LOCAL_ADDRESS = 2,
    KDA_WFP_LOCAL_PORT = 4, /* type, for ICMP */
    KDA_WFP_PROTOCOL = 5,
    KDA_WFP_REMOTE_ADDRESS = 6,
    KDA_WFP_REMOTE_PORT = 7, /* code, for ICMP */
    KDA_WFP_FLOW_DIRECTION = 12,
    KDA_WFP_CONNECT_FLAGS = 12,
    KDA_WFP_RECV_ACCEPT_FLAGS = 11,
    KDA_WFP_LISTEN_LOCAL_ADDRESS = 2,
    KDA_WFP_LISTEN_LOCAL_PORT = 4,
    KDA_WFP_LISTEN_FLAGS = 6
};

/* Management filtering layer identifiers. */
#define KDA_LAYER_ALE_AUTH_LISTEN_V4                                                               \
    {                                                                                              \
        0x88bb5dad, 0x76d7, 0x4227,                                                                \
        {                                                                                          \
            0x9c, 0x71, 0xdf, 0x0a, 0x3e, 0xd7, 0xbe, 0x7e                                         \
        }                                                                                          \
    }
#define KDA_LAYER_ALE_AUTH_LISTEN_V6                                                               \
    {                                                                                              \
        0x7ac9de24, 0x17dd, 0x4814,                                                                \
        {                                                                                          \
            0xb4, 0xbd, 0xa9, 0xfb, 0xc9, 0x5a, 0x32, 0x1b                                         \
        }                                                                                          \
    }
#define KDA_LAYER_ALE_AUTH_RECV_ACCEPT_V4                                                          \
    {                                                                                              \
        0xe1cd9fe7, 0xf4b5, 0x4273,                                                                \
        {                                                                                          \
            0x96, 0xc0, 0x59, 0x2e, 0x48, 0x7b, 0x86, 0x50                                         \
        }                                                                                          \
    }
#define KDA_LAYER_ALE_AUTH_RECV_ACCEPT_V6                                                          \
    {                                                                                              \
        0xa3b42c97, 0x9f04, 0x4672,                                                                \
        {                                                                                          \
            0xb8, 0x7e, 0xce, 0xe9, 0xc4, 0x83, 0x25, 0x7f                                         \
        }                                                                                          \
    }
#define KDA_LAYER_ALE_AUTH_CONNECT_V4                                                              \
    {                                                                                              \
        0xc38d57d1, 0x05a7, 0x4c33,                                                                \
        {                                                                                          \
            0x90, 0x4f, 0x7f, 0xbc, 0xee, 0xe6, 0x0e, 0x82                                         \
        }                                                                                          \
    }
#define KDA_LAYER_ALE_AUTH_CONNECT_V6                                                              \
    {                                                                                              \
        0x4a72393b, 0x319f, 0x44bc,                                                                \
        {                                                                                          \
            0x84, 0xc3, 0xba, 0x54, 0xdc, 0xb3, 0xb6, 0xb4                                         \
        }                                                                                          \
    }
#define KDA_LAYER_ALE_FLOW_ESTABLISHED_V4                                                          \
    {                                                                                              \
        0xaf80470a, 0x5596, 0x4c13,                                                                \
        {                                                                                          \
            0x99, 0x92, 0x53, 0x9e, 0x6f, 0xe5, 0x79, 0x67                                         \
        }                                                                                          \
    }
#define KDA_LAYER_ALE_FLOW_ESTABLISHED_V6                                                          \
    {                                                                                              \
        0x7021d2b3, 0xdfa4, 0x406e,                                                                \
        {                                                                                          \
            0xaf, 0xeb, 0x6a, 0xfa, 0xf7, 0xe7, 0x0e, 0xfd                                         \
        }                                                                                          \
    }

#endif
