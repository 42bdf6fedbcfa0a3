/*
 * fwp.h - the filter engine; private to sim/.
 */
#ifndef SIM_FWP_H
#define SIM_FWP_H

#include "machine.h"
#include "wfp.h"

/* FWPS_CALLOUT1 and its newer sisters: one layout, so that drivers of any of them can be run. */
struct sim_callout_registration {
    GUID key;
    UINT32 flags;
    VOID(*classify)
    (const FWPS_INCOMING_VALUES0 *values, const FWPS_INCOMING_METADATA_VALUES0 *metadata,
     PVOID layerData, const VOID *classifyContext, const VOID *filter, UINT64 flowContext,
     FWPS_CLASSIFY_OUT0 *out);
    NTSTATUS (*notify)(ULONG type, const GUID *filterKey, VOID *filter);
    VOID (*flow_deleted)(UINT16 layerId, UINT32 calloutId, UINT64 flowContext);
};
struct FWPS_CALLOUT1_;
struct FWPS_CALLOUT2_;
NTSTATUS FwpsCalloutRegister1(PVOID deviceObject, const struct FWPS_CALLOUT1_ *callout,
                              UINT32 *calloutId);
NTSTATUS FwpsCalloutRegister2(PVOID deviceObject, const struct FWPS_CALLOUT2_ *callout,
                              UINT32 *calloutId);

/* FWPS_FILTER up to the context. */
struct sim_fwps_filter {
    UINT64 filterId;
    FWP_VALUE0 weight;
    UINT16 subLayerWeight;
    UINT16 flags;
    UINT32 numFilterConditions;
    PVOID filterCondition;
    UINT32 actionType;
    UINT32 calloutId;
    UINT64 context;
};

enum {
    CALLOUT_CONDITIONAL_ON_FLOW = 0x1,
    CALLOUT_ALLOW_OFFLOAD = 0x2,
    CALLOUT_COMMIT_ADD_NOTIFY = 0x4,
    CALLOUT_ALLOW_RSC = 0x40,
    CALLOUT_ALLOW_USO = 0x100,
    CALLOUT_ALLOW_URO = 0x200
};

/* One callout of the driver, in flight while it is classifying or being notified. */
struct sim_callout {
    struct sim_item item;
    struct sim_callout *next;
    struct sim_callout_registration as;
    const void *device;
    UINT32 id;
    unsigned in_flight;
};

/* What a committed filter of a layer leads to. */
struct sim_hit {
    struct sim_callout *callout; /* NULL: it is not registered */
    struct sim_fwps_filter filter;
};
/* In flight until released; at most `room`. */
size_t sim_fwp_collect(const GUID *layer, struct sim_hit *hits, size_t room);
void sim_fwp_release(struct sim_callout *callout);
struct sim_callout *sim_callout_find(const GUID *key); /* under the lock */
void sim_fwp_lock(void);
void sim_fwp_unlock(void);
void sim_callouts_end(void);
bool sim_layer_known(const GUID *layer);
void sim_flows_end(void);

#endif
