/*
 * fwp.h - the filter engine; private to sim/.
 */
#ifndef SIM_FWP_H
#define SIM_FWP_H

#include "machine.h"
#include "wfp.h"

/* One callout of the driver, in flight while it is classifying or being notified. */
struct sim_callout {
    struct sim_item item;
    struct sim_callout *next;
    GUID key;
    UINT32 id;
    UINT32 flags;
    unsigned in_flight;
    FWPS_CALLOUT_CLASSIFY_FN2 classify;
    FWPS_CALLOUT_NOTIFY_FN2 notify;
};

/* The callouts that committed filters of this layer lead to, in flight until released; at most
 * `room`. */
size_t sim_fwp_collect(const GUID *layer, struct sim_callout **callouts, size_t room);
void sim_fwp_release(struct sim_callout *callout);
void sim_flows_end(void);

#endif
