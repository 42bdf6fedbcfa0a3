/*
 * fwp.c - the filter engine's management side: sessions, transactions, objects, callouts, state.
 */
#include "fwp.h"
#include "thread_state.h"

#define FWP_CALLOUT_NOT_FOUND NTSTATUS_OF(0xC0220001)
#define FWP_PROVIDER_NOT_FOUND NTSTATUS_OF(0xC0220005)
#define FWP_SUBLAYER_NOT_FOUND NTSTATUS_OF(0xC0220007)
#define FWP_ALREADY_EXISTS NTSTATUS_OF(0xC0220009)
#define FWP_NO_TXN_IN_PROGRESS NTSTATUS_OF(0xC022000D)
#define FWP_TXN_IN_PROGRESS NTSTATUS_OF(0xC022000E)
#define FWP_SESSION_ABORTED NTSTATUS_OF(0xC0220010)
#define FWP_INVALID_FLAGS NTSTATUS_OF(0xC022001D)
#define RPC_SERVER_UNAVAILABLE NTSTATUS_OF(0xC0020017)

enum object_kind { PROVIDER, SUBLAYER, CALLOUT, FILTER };
static const char *const object_names[] = {"provider", "sublayer", "callout", "filter"};

struct session {
    struct sim_item item;
    struct session *next;
    bool dynamic;
    _Atomic bool in_transaction;
    _Atomic bool dead;
};

struct object {
    struct sim_item item;
    struct object *next;
    struct session *session;
    enum object_kind kind;
    GUID key;
    GUID layer;
    GUID callout;
    UINT32 action;
    UINT64 id;
    bool committed;
};

static pthread_mutex_t fwp_lock = PTHREAD_MUTEX_INITIALIZER;
static struct session *sessions;
static struct object *objects;
static struct sim_callout *callouts;
static _Atomic int state;
static unsigned busy;
static UINT32 known_flags;
static UINT32 next_callout;
static UINT64 next_filter;
static struct sim_notify_list subscribers = SIM_NOTIFY_LIST;

static bool same(const GUID *a, const GUID *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void sim_fwp_boot(void)
{
    state = (int)sim.options.bfe;
    busy = 0;
    known_flags = 0x3FF;
    next_callout = 256;
    next_filter = 70000;
}

/* --- callouts -------------------------------------------------------------------------------- */

static struct sim_callout *callout_find(const GUID *key)
{
    struct sim_callout *c = callouts;

    while (c && !same(&c->key, key))
        c = c->next;
    return c;
}

NTSTATUS FwpsCalloutRegister2(PVOID deviceObject, const FWPS_CALLOUT2 *callout, UINT32 *calloutId)
{
    struct sim_callout *made;

    SIM_DDI(PASSIVE_LEVEL);
    SIM_CHECK(deviceObject, "a callout needs a device");
    SIM_CHECK(callout->classifyFn && callout->notifyFn, "classify and notify are needed");
    if (SIM_FAULT())
        return STATUS_INSUFFICIENT_RESOURCES;
    if (callout->flags & ~known_flags)
        return STATUS_INVALID_PARAMETER;
    made = sim_alloc(sizeof(*made));
    made->flags = callout->flags;
    made->key = callout->calloutKey;
    made->classify = callout->classifyFn;
    made->notify = callout->notifyFn;
    pthread_mutex_lock(&fwp_lock);
    if (callout_find(&made->key)) {
        pthread_mutex_unlock(&fwp_lock);
        free(made);
        return FWP_ALREADY_EXISTS;
    }
    made->id = next_callout++;
    made->next = callouts;
    callouts = made;
    sim_item_add(&made->item, SIM_CALLOUT, made, "", made->id, __builtin_return_address(0));
    pthread_mutex_unlock(&fwp_lock);
    if (calloutId)
        *calloutId = made->id;
    return STATUS_SUCCESS;
}

NTSTATUS FwpsCalloutUnregisterById0(UINT32 calloutId)
{
    struct sim_callout **at;
    struct sim_callout *found;
    NTSTATUS status = STATUS_SUCCESS;

    SIM_DDI(PASSIVE_LEVEL);
    if (sim_removal_refused(&status))
        return status;
    pthread_mutex_lock(&fwp_lock);
    at = &callouts;
    while (*at && (*at)->id != calloutId)
        at = &(*at)->next;
    found = *at;
    if (!found) {
        status = FWP_CALLOUT_NOT_FOUND;
    } else if (busy || found->in_flight) {
        status = STATUS_DEVICE_BUSY;
        busy -= busy > 0 && busy != UINT32_MAX;
    } else {
        *at = found->next;
        sim_item_remove(&found->item);
        free(found);
    }
    pthread_mutex_unlock(&fwp_lock);
    return status;
}

size_t sim_fwp_collect(const GUID *layer, struct sim_callout **found, size_t room)
{
    size_t count = 0;

    pthread_mutex_lock(&fwp_lock);
    for (const struct object *o = objects; o && count < room; o = o->next) {
        struct sim_callout *c;
        if (o->kind != FILTER || !o->committed || !same(&o->layer, layer))
            continue;
        c = callout_find(&o->callout);
        if (c) {
            c->in_flight++;
            found[count++] = c;
        }
    }
    pthread_mutex_unlock(&fwp_lock);
    return count;
}

void sim_fwp_release(struct sim_callout *callout)
{
    pthread_mutex_lock(&fwp_lock);
    callout->in_flight--;
    pthread_mutex_unlock(&fwp_lock);
}

void sim_wfp_busy(unsigned times)
{
    pthread_mutex_lock(&fwp_lock);
    busy = times;
    pthread_mutex_unlock(&fwp_lock);
}

unsigned sim_wfp_callouts(void)
{
    unsigned count = 0;

    pthread_mutex_lock(&fwp_lock);
    for (const struct sim_callout *c = callouts; c; c = c->next)
        count++;
    pthread_mutex_unlock(&fwp_lock);
    return count;
}

void sim_wfp_known_flags(uint32_t flags)
{
    known_flags = flags;
}

uint32_t sim_wfp_flags(void)
{
    uint32_t flags = UINT32_MAX;

    pthread_mutex_lock(&fwp_lock);
    for (const struct sim_callout *c = callouts; c; c = c->next)
        flags &= c->flags;
    pthread_mutex_unlock(&fwp_lock);
    return flags;
}

unsigned sim_wfp_filters(void)
{
    unsigned count = 0;

    pthread_mutex_lock(&fwp_lock);
    for (const struct object *o = objects; o; o = o->next)
        count += o->kind == FILTER && o->committed;
    pthread_mutex_unlock(&fwp_lock);
    return count;
}

/* --- objects --------------------------------------------------------------------------------- */

/* The callout hears about filters that lead to it; its function runs without a lock. */
static void tell_filter(const struct object *o, ULONG type)
{
    FWPS_FILTER2 filter = {.filterId = o->id};
    struct sim_callout *c;
    struct sim_call call;

    if (o->kind != FILTER || !o->committed)
        return;
    pthread_mutex_lock(&fwp_lock);
    c = callout_find(&o->callout);
    if (c)
        c->in_flight++;
    pthread_mutex_unlock(&fwp_lock);
    if (!c)
        return;
    sim_call_enter(&call, "callout notification", (const void *)(uintptr_t)c->notify,
                   PASSIVE_LEVEL);
    c->notify(type, type == 0 ? &o->key : NULL, &filter);
    sim_call_leave(&call);
    sim_fwp_release(c);
}

static bool goes(const struct object *o, const struct session *session, bool all)
{
    if (!session)
        return o->session && o->session->dead && o->session->dynamic;
    return o->session == session && (all || !o->committed);
}

/* Removes what the session has: all, or only what is not committed. NULL: all that dead dynamic
 * sessions have. */
static void remove_objects(const struct session *session, bool all)
{
    for (;;) {
        struct object **at;
        struct object *o;
        pthread_mutex_lock(&fwp_lock);
        at = &objects;
        while (*at && !goes(*at, session, all))
            at = &(*at)->next;
        o = *at;
        if (o) {
            *at = o->next;
            sim_item_remove(&o->item);
        }
        pthread_mutex_unlock(&fwp_lock);
        if (!o)
            return;
        if (sim.driver_state != SIM_NO_DRIVER)
            tell_filter(o, 1);
        free(o);
    }
}

bool sim_wfp_delete_filter(unsigned n)
{
    struct object **at;
    struct object *o;

    pthread_mutex_lock(&fwp_lock);
    at = &objects;
    while (*at && ((*at)->kind != FILTER || !(*at)->committed || n-- > 0))
        at = &(*at)->next;
    o = *at;
    if (o) {
        *at = o->next;
        sim_item_remove(&o->item);
    }
    pthread_mutex_unlock(&fwp_lock);
    if (!o)
        return false;
    tell_filter(o, 1);
    free(o);
    return true;
}

static struct object *object_find(enum object_kind kind, const GUID *key)
{
    struct object *o = objects;

    while (o && (o->kind != kind || !same(&o->key, key)))
        o = o->next;
    return o;
}

static struct session *session_of(const char *ddi, HANDLE engine, NTSTATUS *status)
{
    struct session *s;

    pthread_mutex_lock(&fwp_lock);
    s = sessions;
    while (s && s != engine)
        s = s->next;
    pthread_mutex_unlock(&fwp_lock);
    if (!s)
        sim_bugcheck(ddi, "%p is no open engine", engine);
    *status = s->dead ? FWP_SESSION_ABORTED : STATUS_SUCCESS;
    return s;
}

static bool zero_guid(const GUID *key)
{
    static const GUID zero;

    return same(key, &zero);
}

static NTSTATUS add(const char *ddi, HANDLE engine, const struct object *like, const GUID *provider,
                    const GUID *sublayer)
{
    NTSTATUS status;
    struct session *s = session_of(ddi, engine, &status);
    struct object *made;

    sim_ddi(ddi, PASSIVE_LEVEL);
    if (!NT_SUCCESS(status))
        return status;
    if (sim_fault(ddi))
        return STATUS_INSUFFICIENT_RESOURCES;
    made = sim_alloc(sizeof(*made));
    *made = *like;
    made->session = s;
    made->committed = !s->in_transaction;
    pthread_mutex_lock(&fwp_lock);
    if (!zero_guid(&made->key) && object_find(made->kind, &made->key))
        status = FWP_ALREADY_EXISTS;
    else if (provider && !object_find(PROVIDER, provider))
        status = FWP_PROVIDER_NOT_FOUND;
    else if (sublayer && !zero_guid(sublayer) && !object_find(SUBLAYER, sublayer))
        status = FWP_SUBLAYER_NOT_FOUND;
    else if (made->kind == FILTER && !object_find(CALLOUT, &made->callout))
        status = FWP_CALLOUT_NOT_FOUND;
    if (NT_SUCCESS(status)) {
        made->next = objects;
        objects = made;
        sim_item_add(&made->item, SIM_FILTER, made, object_names[made->kind], 0, NULL);
    }
    pthread_mutex_unlock(&fwp_lock);
    if (!NT_SUCCESS(status)) {
        free(made);
        return status;
    }
    tell_filter(made, 0);
    return STATUS_SUCCESS;
}

NTSTATUS FwpmProviderAdd0(HANDLE engine, const FWPM_PROVIDER0 *provider, PVOID sd)
{
    struct object o = {.kind = PROVIDER, .key = provider->providerKey};

    (void)sd;
    SIM_CHECK(provider->displayData.name, "a display name is needed");
    return add(__func__, engine, &o, NULL, NULL);
}

NTSTATUS FwpmSubLayerAdd0(HANDLE engine, const FWPM_SUBLAYER0 *subLayer, PVOID sd)
{
    struct object o = {.kind = SUBLAYER, .key = subLayer->subLayerKey};

    (void)sd;
    SIM_CHECK(subLayer->displayData.name, "a display name is needed");
    return add(__func__, engine, &o, subLayer->providerKey, NULL);
}

NTSTATUS FwpmCalloutAdd0(HANDLE engine, const FWPM_CALLOUT0 *callout, PVOID sd, UINT32 *id)
{
    struct object o = {.kind = CALLOUT, .key = callout->calloutKey};

    (void)sd;
    SIM_CHECK(callout->displayData.name, "a display name is needed");
    o.layer = callout->applicableLayer;
    if (id)
        *id = 0;
    return add(__func__, engine, &o, callout->providerKey, NULL);
}

NTSTATUS FwpmFilterAdd0(HANDLE engine, const FWPM_FILTER0 *filter, PVOID sd, UINT64 *id)
{
    struct object o = {.kind = FILTER, .key = filter->filterKey};

    (void)sd;
    SIM_CHECK(filter->displayData.name, "a display name is needed");
    SIM_CHECK(filter->action.type == FWP_ACTION_CALLOUT_INSPECTION, "action 0x%X is no inspection",
              filter->action.type);
    SIM_CHECK(!filter->numFilterConditions, "conditions are not simulated");
    o.layer = filter->layerKey;
    o.callout = filter->action.calloutKey;
    o.action = filter->action.type;
    /* Of an inspection the engine takes no flag that is for callouts which block. */
    if (filter->flags & FWPM_FILTER_FLAG_PERMIT_IF_CALLOUT_UNREGISTERED)
        return FWP_INVALID_FLAGS;
    pthread_mutex_lock(&fwp_lock);
    o.id = next_filter++;
    pthread_mutex_unlock(&fwp_lock);
    if (id)
        *id = o.id;
    return add(__func__, engine, &o, filter->providerKey, &filter->subLayerKey);
}

/* --- sessions and transactions --------------------------------------------------------------- */

NTSTATUS FwpmEngineOpen0(const WCHAR *serverName, UINT32 authnService, PVOID authIdentity,
                         const FWPM_SESSION0 *session, HANDLE *engine)
{
    struct session *made;

    SIM_DDI(PASSIVE_LEVEL);
    SIM_CHECK(!serverName && !authIdentity, "only the local engine is simulated");
    SIM_CHECK(authnService == RPC_C_AUTHN_WINNT || authnService == 0xFFFFFFFFu, "service %u",
              authnService);
    if (SIM_FAULT())
        return STATUS_INSUFFICIENT_RESOURCES;
    if (state != SIM_BFE_RUNNING)
        return RPC_SERVER_UNAVAILABLE;
    made = sim_alloc(sizeof(*made));
    made->dynamic = session && (session->flags & FWPM_SESSION_FLAG_DYNAMIC);
    pthread_mutex_lock(&fwp_lock);
    made->next = sessions;
    sessions = made;
    sim_item_add(&made->item, SIM_ENGINE, made, "", 0, __builtin_return_address(0));
    pthread_mutex_unlock(&fwp_lock);
    *engine = made;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmEngineClose0(HANDLE engine)
{
    NTSTATUS status;
    struct session *s = session_of(__func__, engine, &status);

    SIM_DDI(PASSIVE_LEVEL);
    remove_objects(s, s->dynamic);
    pthread_mutex_lock(&fwp_lock);
    for (struct session **at = &sessions; *at; at = &(*at)->next) {
        if (*at == s) {
            *at = s->next;
            break;
        }
    }
    sim_item_remove(&s->item);
    /* What stays behind belongs to no session any more. */
    for (struct object *o = objects; o; o = o->next)
        o->session = o->session == s ? NULL : o->session;
    pthread_mutex_unlock(&fwp_lock);
    free(s);
    return STATUS_SUCCESS;
}

NTSTATUS FwpmTransactionBegin0(HANDLE engine, UINT32 flags)
{
    NTSTATUS status;
    struct session *s = session_of(__func__, engine, &status);

    SIM_DDI(PASSIVE_LEVEL);
    (void)flags;
    if (!NT_SUCCESS(status))
        return status;
    if (SIM_FAULT())
        return STATUS_INSUFFICIENT_RESOURCES;
    if (s->in_transaction)
        return FWP_TXN_IN_PROGRESS;
    s->in_transaction = true;
    return STATUS_SUCCESS;
}

/* The session; the status says whether its transaction can be ended. */
static struct session *transaction_of(const char *ddi, HANDLE engine, NTSTATUS *status)
{
    struct session *s = session_of(ddi, engine, status);

    sim_ddi(ddi, PASSIVE_LEVEL);
    if (NT_SUCCESS(*status) && !s->in_transaction)
        *status = FWP_NO_TXN_IN_PROGRESS;
    return s;
}

NTSTATUS FwpmTransactionCommit0(HANDLE engine)
{
    NTSTATUS status;
    struct session *s = transaction_of(__func__, engine, &status);

    if (!NT_SUCCESS(status))
        return status;
    if (SIM_FAULT())
        return STATUS_INSUFFICIENT_RESOURCES;
    for (;;) {
        struct object *o;
        pthread_mutex_lock(&fwp_lock);
        o = objects;
        while (o && (o->session != s || o->committed))
            o = o->next;
        if (o)
            o->committed = true;
        pthread_mutex_unlock(&fwp_lock);
        if (!o)
            break;
        tell_filter(o, 0);
    }
    s->in_transaction = false;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmTransactionAbort0(HANDLE engine)
{
    NTSTATUS status;
    struct session *s = transaction_of(__func__, engine, &status);

    if (!NT_SUCCESS(status))
        return status;
    remove_objects(s, false);
    s->in_transaction = false;
    return STATUS_SUCCESS;
}

/* --- state of the service -------------------------------------------------------------------- */

static ULONG service_state(int bfe)
{
    return bfe == SIM_BFE_RUNNING    ? FWPM_SERVICE_RUNNING
           : bfe == SIM_BFE_STARTING ? FWPM_SERVICE_START_PENDING
                                     : FWPM_SERVICE_STOPPED;
}

ULONG FwpmBfeStateGet0(VOID)
{
    SIM_DDI(DISPATCH_LEVEL);
    return service_state(state);
}

NTSTATUS FwpmBfeStateSubscribeChanges0(PVOID deviceObject,
                                       FWPM_SERVICE_STATE_CHANGE_CALLBACK0 callback, PVOID context,
                                       HANDLE *changeHandle)
{
    struct sim_notify *made = NULL;

    SIM_DDI(PASSIVE_LEVEL);
    SIM_CHECK(deviceObject, "a subscription needs a device");
    if (SIM_FAULT())
        return STATUS_INSUFFICIENT_RESOURCES;
    sim_notify_add(&subscribers, __func__, (void *)(uintptr_t)callback, context, 0, 64, &made);
    *changeHandle = made;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmBfeStateUnsubscribeChanges0(HANDLE changeHandle)
{
    SIM_DDI(PASSIVE_LEVEL);
    SIM_CHECK(sim_notify_remove_node(&subscribers, __func__, changeHandle), "%p is no subscription",
              changeHandle);
    return STATUS_SUCCESS;
}

void sim_bfe_set(enum sim_bfe wanted)
{
    struct sim_notify *n = NULL;
    struct sim_call call;

    pthread_mutex_lock(&fwp_lock);
    state = (int)wanted;
    for (struct session *s = sessions; s && wanted == SIM_BFE_STOPPED; s = s->next) {
        s->dead = true;
        s->in_transaction = false;
    }
    pthread_mutex_unlock(&fwp_lock);
    /* Handles do not go while their owner may close them: only their objects do. */
    remove_objects(NULL, true);
    while ((n = sim_notify_next(&subscribers, n)) != NULL) {
        FWPM_SERVICE_STATE_CHANGE_CALLBACK0 callback =
            (FWPM_SERVICE_STATE_CHANGE_CALLBACK0)(uintptr_t)n->routine;
        sim_call_enter(&call, "filter engine state", n->routine, PASSIVE_LEVEL);
        callback(n->context, service_state((int)wanted));
        sim_call_leave(&call);
    }
}

void sim_fwp_end(void)
{
    sim_notify_clear(&subscribers);
    while (objects) {
        struct object *next = objects->next;
        sim_item_remove(&objects->item);
        free(objects);
        objects = next;
    }
    while (sessions) {
        struct session *next = sessions->next;
        sim_item_remove(&sessions->item);
        free(sessions);
        sessions = next;
    }
    while (callouts) {
        struct sim_callout *next = callouts->next;
        sim_item_remove(&callouts->item);
        free(callouts);
        callouts = next;
    }
    sim_flows_end();
}
