/*
 * network.h - between the network sensor and what keeps its filters in the engine.
 */
#ifndef KDA_NETWORK_H
#define KDA_NETWORK_H

#include "driver.h"
#include "wfp.h"

/* The classify function of all callouts; returns at once when the sensor has been stopped. */
_IRQL_requires_max_(DISPATCH_LEVEL) VOID
    KdaNetworkClassify(_In_ const FWPS_INCOMING_VALUES0 *values,
                       _In_ const FWPS_INCOMING_METADATA_VALUES0 *metadata,
                       _Inout_opt_ PVOID layerData, _In_opt_ const VOID *classifyContext,
                       _In_ const FWPS_FILTER2 *filter, _In_ UINT64 flowContext,
                       _Inout_ FWPS_CLASSIFY_OUT0 *out);

/* Registers the callouts and arms as soon as the engine runs. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS
    KdaFiltersStart(_Inout_ KDA_DRIVER *driver, _Out_ const CHAR **call);
/* STATUS_SUCCESS: nothing of ours is called any more. Also after a start that failed. */
_IRQL_requires_max_(PASSIVE_LEVEL) NTSTATUS KdaFiltersStop(_Inout_ KDA_DRIVER *driver);
/* Arming that failed is tried again. */
_IRQL_requires_max_(PASSIVE_LEVEL) VOID KdaFiltersTick(VOID);

#endif
