/*
 * fwp_callout.c - the filter engine's kernel side: callouts that the driver registers.
 */
#include "fwp.h"

#include <time.h>

#define FWP_CALLOUT_NOT_FOUND NTSTATUS_OF(0xC0220001)
#define FWP_ALREADY_EXISTS NTSTATUS_OF(0xC0220009)
#define FLAGS_OF_1 0x1Fu
#define FLAGS_OF_2 0x3DFu /* without 0x20, which is reserved */
#define USO_SINCE 25876u
#define NEWER_FLAGS (CALLOUT_ALLOW_USO | CALLOUT_ALLOW_URO)
#define FWP_INVALID_FLAGS NTSTATUS_OF(0xC022001E)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;
static struct sim_callout *callouts;
static unsigned busy;
static UINT32 next_id;

void sim_fwp_lock(void)
{
    pthread_mutex_lock(&lock);
}

void sim_fwp_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void sim_callouts_end(void)
{
    while (callouts) {
        struct sim_callout *next = callouts->next;
        sim_item_remove(&callouts->item);
        free(callouts);
        callouts = next;
    }
    busy = 0;
}

struct sim_callout *sim_callout_find(const GUID *key)
{
    struct sim_callout *c = callouts;

    while (c && memcmp(&c->as.key, key, sizeof(*key)) != 0)
        c = c->next;
    return c;
}

bool sim_fwp_device_in_use(const void *device)
{
    bool found = false;

    sim_fwp_lock();
    for (const struct sim_callout *c = callouts; c && !found; c = c->next)
        found = c->device == device;
    sim_fwp_unlock();
    return found;
}

static NTSTATUS callout_register(const char *ddi, PVOID device, const VOID *callout, UINT32 *id,
                                 UINT32 flags)
{
    struct sim_callout *made;
    NTSTATUS status;

    sim_ddi(ddi, "WFP-050", PASSIVE_LEVEL);
    if (!sim_device_is(device))
        sim_violation("WFP-050", ddi, "%p is no device of the driver", device);
    made = sim_alloc(sizeof(*made));
    memcpy(&made->as, callout, sizeof(made->as));
    if (made->as.flags & ~flags)
        sim_violation(flags == FLAGS_OF_1 ? "WFP-056" : "WFP-061", ddi, "flags 0x%X",
                      made->as.flags);
    SIM_CHECK(made->as.classify && made->as.notify, "classify and notify are needed");
    status = STATUS_SUCCESS;
    if ((made->as.flags & NEWER_FLAGS) && sim.options.build < USO_SINCE)
        status = FWP_INVALID_FLAGS;
    if (sim_fails(ddi, SIM_ANY_CLASS, STATUS_INSUFFICIENT_RESOURCES, &status) ||
        !NT_SUCCESS(status)) {
        free(made);
        return status;
    }
    made->device = device;
    sim_fwp_lock();
    if (sim_callout_find(&made->as.key)) {
        sim_fwp_unlock();
        free(made);
        return FWP_ALREADY_EXISTS;
    }
    made->id = next_id++ + 256;
    made->next = callouts;
    callouts = made;
    if (id)
        *id = made->id;
    sim_item_add(&made->item, SIM_CALLOUT, made, "", made->id, __builtin_return_address(0));
    sim_fwp_unlock();
    sim_ddi_leaves(ddi);
    return STATUS_SUCCESS;
}

NTSTATUS FwpsCalloutRegister1(PVOID deviceObject, const struct FWPS_CALLOUT1_ *callout,
                              UINT32 *calloutId)
{
    return callout_register(__func__, deviceObject, callout, calloutId, FLAGS_OF_1);
}

NTSTATUS FwpsCalloutRegister2(PVOID deviceObject, const struct FWPS_CALLOUT2_ *callout,
                              UINT32 *calloutId)
{
    return callout_register(__func__, deviceObject, callout, calloutId, FLAGS_OF_2);
}

/* With the lock: until nobody runs the callout's functions any more. */
static void wait_idle(const struct sim_callout *callout)
{
    struct timespec deadline;

    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += (time_t)(sim.hang_ms / 1000 + 1);
    while (callout->in_flight) {
        if (pthread_cond_timedwait(&idle, &lock, &deadline) && callout->in_flight)
            sim_bugcheck("FwpsCalloutUnregisterById0", "hang: a call in flight does not end");
    }
}

NTSTATUS FwpsCalloutUnregisterById0(UINT32 calloutId)
{
    struct sim_callout **at;
    struct sim_callout *found;
    NTSTATUS status = STATUS_SUCCESS;

    SIM_DDI(PASSIVE_LEVEL, "WFP-063");
    if (sim_removal_refused(&status))
        return status;
    SIM_MAY_FAIL_PLANNED();
    sim_fwp_lock();
    at = &callouts;
    while (*at && (*at)->id != calloutId)
        at = &(*at)->next;
    found = *at;
    if (!found) {
        status = FWP_CALLOUT_NOT_FOUND;
    } else if (busy) {
        status = STATUS_DEVICE_BUSY;
        busy -= busy != UINT32_MAX;
    } else {
        *at = found->next;
        wait_idle(found);
        sim_item_remove(&found->item);
        free(found);
    }
    sim_fwp_unlock();
    return status;
}

void sim_fwp_release(struct sim_callout *callout)
{
    sim_fwp_lock();
    if (--callout->in_flight == 0)
        pthread_cond_broadcast(&idle);
    sim_fwp_unlock();
}

void sim_wfp_busy(unsigned times)
{
    sim_fwp_lock();
    busy = times;
    sim_fwp_unlock();
}

unsigned sim_wfp_callouts(void)
{
    unsigned count = 0;

    sim_fwp_lock();
    for (const struct sim_callout *c = callouts; c; c = c->next)
        count++;
    sim_fwp_unlock();
    return count;
}

unsigned sim_wfp_switched_off(void)
{
    bool udp = sim.options.build >= USO_SINCE;
    unsigned off = 0;

    sim_fwp_lock();
    for (const struct sim_callout *c = callouts; c; c = c->next) {
        off |= c->as.flags & CALLOUT_ALLOW_OFFLOAD ? 0 : SIM_OFF_OFFLOAD;
        off |= c->as.flags & CALLOUT_ALLOW_RSC ? 0 : SIM_OFF_RSC;
        off |= !udp || c->as.flags & CALLOUT_ALLOW_USO ? 0 : SIM_OFF_USO;
        off |= !udp || c->as.flags & CALLOUT_ALLOW_URO ? 0 : SIM_OFF_URO;
    }
    sim_fwp_unlock();
    return off;
}

void sim_wfp_notify_unknown(void)
{
    for (unsigned n = 0;; n++) {
        struct sim_callout *c;
        struct sim_call call;
        NTSTATUS status;
        unsigned at = 0;
        sim_fwp_lock();
        for (c = callouts; c && at < n; c = c->next)
            at++;
        if (c)
            c->in_flight++;
        sim_fwp_unlock();
        if (!c)
            return;
        sim_call_enter(&call, "callout notification", (const void *)(uintptr_t)c->as.notify,
                       "WFP-107", DISPATCH_LEVEL);
        status = c->as.notify(77, NULL, NULL);
        sim_call_leave(&call);
        SIM_RULE("WFP-109", status == STATUS_SUCCESS, "answers a type that it does not know");
        sim_fwp_release(c);
    }
}
