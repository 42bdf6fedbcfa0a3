/*
 * fwp.c - the filter engine's management side: sessions, transactions, objects, callouts, state.
 */
#include "fwp.h"

#include <unistd.h>

#define FWP_CALLOUT_NOT_FOUND NTSTATUS_OF(0xC0220001)
#define FWP_PROVIDER_NOT_FOUND NTSTATUS_OF(0xC0220005)
#define FWP_SUBLAYER_NOT_FOUND NTSTATUS_OF(0xC0220007)
#define FWP_ALREADY_EXISTS NTSTATUS_OF(0xC0220009)
#define FWP_NO_TXN_IN_PROGRESS NTSTATUS_OF(0xC022000D)
#define TRANSACTION_WAIT_MS 15000u
#define FWP_TIMEOUT NTSTATUS_OF(0xC0220012)
#define FWP_TXN_IN_PROGRESS NTSTATUS_OF(0xC022000E)
#define FWP_SESSION_ABORTED NTSTATUS_OF(0xC0220010)
#define FWP_INCOMPATIBLE_TXN NTSTATUS_OF(0xC0220011)
#define FWP_INCOMPATIBLE_LAYER NTSTATUS_OF(0xC0220014)
#define FWP_LIFETIME_MISMATCH NTSTATUS_OF(0xC0220016)
#define FWP_LAYER_NOT_FOUND NTSTATUS_OF(0xC0220004)
#define FWP_NULL_DISPLAY_NAME NTSTATUS_OF(0xC0220023)
#define FWP_INVALID_ACTION_TYPE NTSTATUS_OF(0xC0220024)
#define FWP_INVALID_WEIGHT NTSTATUS_OF(0xC0220025)
#define FWP_RESERVED NTSTATUS_OF(0xC0220029)
#define FWP_CALLOUT_NOTIFICATION_FAILED NTSTATUS_OF(0xC0220037)
#define RPC_SERVER_UNAVAILABLE NTSTATUS_OF(0xC0020017)

enum object_kind { PROVIDER, SUBLAYER, CALLOUT, FILTER };
static const char *const object_names[] = {"provider", "sublayer", "callout", "filter"};

struct session {
    struct sim_item item;
    struct session *next;
    bool dynamic;
    bool read_only;
    bool failed;      /* an addition of the transaction */
    uint32_t wait_ms; /* for the transactions of others */
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
    UINT32 flags;
    UINT64 id;
    UINT64 context;
    bool dynamic;
    bool committed;
    bool told;
};

enum { ADD_FILTER, DELETE_FILTER };
#define FWPM_CALLOUT_REGISTERED 0x40000u
#define FILTER_PERSISTENT_BOOT 0x3u
#define FILTER_DISABLED 0x20u
#define TRANSACTION_READ_ONLY 0x1u
enum { ACTION_TERMINATING = 0x5003, ACTION_UNKNOWN = 0x4005 };

static struct session *sessions;
static struct object *objects;
static _Atomic int state;
static bool subscribed; /* asked for since the boot */
static UINT64 next_filter;
static struct sim_notify_list subscribers =
    SIM_NOTIFY_LIST(STATUS_INSUFFICIENT_RESOURCES, "WFP-004", "WFP-003", true);

static bool same(const GUID *a, const GUID *b)
{
    return memcmp(a, b, sizeof(*a)) == 0;
}

void sim_fwp_boot(void)
{
    state = (int)sim.options.bfe;
    next_filter = 70000;
    subscribed = false;
}

/* --- objects --------------------------------------------------------------------------------- */

unsigned sim_wfp_filters(void)
{
    unsigned count = 0;

    sim_fwp_lock();
    for (const struct object *o = objects; o; o = o->next)
        count += o->kind == FILTER && o->committed;
    sim_fwp_unlock();
    return count;
}

static struct sim_fwps_filter filter_of(const struct object *o, const struct sim_callout *c)
{
    struct sim_fwps_filter filter = {
        .filterId = o->id, .actionType = o->action, .calloutId = c ? c->id : 0};

    filter.context = o->context;
    return filter;
}

size_t sim_fwp_collect(const GUID *layer, struct sim_hit *hits, size_t room)
{
    size_t count = 0;

    sim_fwp_lock();
    for (const struct object *o = objects; o && count < room; o = o->next) {
        struct sim_callout *c;
        if (o->kind != FILTER || !o->committed || !same(&o->layer, layer))
            continue;
        c = sim_callout_find(&o->callout);
        /* No flow has a context, so who wants only those with one is not asked. */
        if (c && (c->as.flags & CALLOUT_CONDITIONAL_ON_FLOW))
            continue;
        /* A filter without its callout: an inspection is ignored, others block. */
        if (!c && (o->action == FWP_ACTION_CALLOUT_INSPECTION ||
                   (o->flags & FWPM_FILTER_FLAG_PERMIT_IF_CALLOUT_UNREGISTERED)))
            continue;
        if (c)
            c->in_flight++;
        hits[count].callout = c;
        hits[count++].filter = filter_of(o, c);
    }
    sim_fwp_unlock();
    return count;
}

/* The callout hears about filters that lead to it, at the highest level that its page allows; its
 * function runs without a lock. */
static NTSTATUS tell_filter(struct object *o, ULONG type)
{
    struct sim_ctx *self = sim_self();
    struct sim_fwps_filter filter;
    struct sim_callout *c;
    struct sim_call call;
    uint8_t irql = self->irql;
    NTSTATUS status;

    if (o->kind != FILTER)
        return STATUS_SUCCESS;
    sim_fwp_lock();
    c = sim_callout_find(&o->callout);
    /* Of an addition it hears at once, or after the commit if it asked for that. */
    if (c && type == ADD_FILTER && (c->as.flags & CALLOUT_COMMIT_ADD_NOTIFY) && !o->committed)
        c = NULL;
    if (o->told && type == ADD_FILTER)
        c = NULL;
    if (c)
        c->in_flight++;
    sim_fwp_unlock();
    if (!c)
        return STATUS_SUCCESS;
    filter = filter_of(o, c);
    o->told = true;
    self->irql = DISPATCH_LEVEL;
    sim_call_enter(&call, "callout notification", (const void *)(uintptr_t)c->as.notify, "WFP-107",
                   DISPATCH_LEVEL);
    status = c->as.notify(type, type == ADD_FILTER ? &o->key : NULL, &filter);
    sim_call_leave(&call);
    self->irql = irql;
    sim_fwp_release(c);
    return type == ADD_FILTER ? status : STATUS_SUCCESS;
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
        sim_fwp_lock();
        at = &objects;
        while (*at && !goes(*at, session, all))
            at = &(*at)->next;
        o = *at;
        if (o) {
            *at = o->next;
            sim_item_remove(&o->item);
        }
        sim_fwp_unlock();
        if (!o)
            return;
        if (sim.driver_state != SIM_NO_DRIVER)
            tell_filter(o, DELETE_FILTER);
        free(o);
    }
}

/* Takes one object out; NULL: there is none like it. */
static struct object *object_take(const struct object *wanted, unsigned n)
{
    struct object **at;
    struct object *o;

    sim_fwp_lock();
    at = &objects;
    while (*at && (wanted ? *at != wanted : (*at)->kind != FILTER || !(*at)->committed || n-- > 0))
        at = &(*at)->next;
    o = *at;
    if (o) {
        *at = o->next;
        sim_item_remove(&o->item);
    }
    sim_fwp_unlock();
    return o;
}

bool sim_wfp_delete_filter(unsigned n)
{
    struct object *o = object_take(NULL, n);

    if (!o)
        return false;
    tell_filter(o, DELETE_FILTER);
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

    sim_fwp_lock();
    s = sessions;
    while (s && s != engine)
        s = s->next;
    sim_fwp_unlock();
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

/* What the engine says about an object that is to come; with the lock. */
static NTSTATUS add_check(const struct object *made, const GUID *provider, const GUID *sublayer)
{
    const struct object *callout =
        made->kind == FILTER ? object_find(CALLOUT, &made->callout) : NULL;
    const struct object *of_provider = provider ? object_find(PROVIDER, provider) : NULL;

    if (!zero_guid(&made->key) && object_find(made->kind, &made->key))
        return FWP_ALREADY_EXISTS;
    if (provider && !of_provider)
        return FWP_PROVIDER_NOT_FOUND;
    if (sublayer && !zero_guid(sublayer) && !object_find(SUBLAYER, sublayer))
        return FWP_SUBLAYER_NOT_FOUND;
    if (made->kind == FILTER && !callout)
        return FWP_CALLOUT_NOT_FOUND;
    if (callout && !zero_guid(&callout->layer) && !same(&callout->layer, &made->layer))
        return FWP_INCOMPATIBLE_LAYER;
    /* What stays must not need what goes with a session. */
    if (!made->dynamic && ((callout && callout->dynamic) || (of_provider && of_provider->dynamic)))
        return FWP_LIFETIME_MISMATCH;
    return STATUS_SUCCESS;
}

/* `wrong` is what is wrong with the object itself. */
static NTSTATUS add(const char *ddi, HANDLE engine, const struct object *like, const GUID *provider,
                    const GUID *sublayer, NTSTATUS wrong)
{
    NTSTATUS status;
    struct session *s = session_of(ddi, engine, &status);
    struct object *made;
    bool failed;

    sim_ddi(ddi, like->kind == CALLOUT ? "WFP-030" : "WFP-019", PASSIVE_LEVEL);
    if (!NT_SUCCESS(status))
        return status;
    failed = s->failed;
    s->failed = s->in_transaction; /* until it has been added */
    if (sim_fails(ddi, SIM_ANY_CLASS, STATUS_INSUFFICIENT_RESOURCES, &status))
        return status;
    if (s->in_transaction && s->read_only)
        return FWP_INCOMPATIBLE_TXN;
    if (!NT_SUCCESS(wrong))
        return wrong;
    made = sim_alloc(sizeof(*made));
    *made = *like;
    made->session = s;
    made->dynamic = s->dynamic;
    made->committed = !s->in_transaction;
    sim_fwp_lock();
    if (made->kind == FILTER && zero_guid(&made->key))
        made->key.Data1 = (ULONG)made->id; /* a generated one */
    status = add_check(made, provider, sublayer);
    if (NT_SUCCESS(status)) {
        made->next = objects;
        objects = made;
        sim_item_add(&made->item, SIM_FILTER, made, object_names[made->kind], 0, NULL);
    }
    sim_fwp_unlock();
    if (!NT_SUCCESS(status)) {
        free(made);
        return status;
    }
    if (!NT_SUCCESS(tell_filter(made, ADD_FILTER))) {
        free(object_take(made, 0));
        return FWP_CALLOUT_NOTIFICATION_FAILED;
    }
    s->failed = failed;
    return STATUS_SUCCESS;
}

static NTSTATUS named(const FWPM_DISPLAY_DATA0 *display)
{
    return display->name ? STATUS_SUCCESS : FWP_NULL_DISPLAY_NAME;
}

NTSTATUS FwpmProviderAdd0(HANDLE engine, const FWPM_PROVIDER0 *provider, PVOID sd)
{
    struct object o = {.kind = PROVIDER, .key = provider->providerKey};

    (void)sd;
    return add(__func__, engine, &o, NULL, NULL, named(&provider->displayData));
}

NTSTATUS FwpmSubLayerAdd0(HANDLE engine, const FWPM_SUBLAYER0 *subLayer, PVOID sd)
{
    struct object o = {.kind = SUBLAYER, .key = subLayer->subLayerKey};

    (void)sd;
    return add(__func__, engine, &o, subLayer->providerKey, NULL, named(&subLayer->displayData));
}

NTSTATUS FwpmCalloutAdd0(HANDLE engine, const FWPM_CALLOUT0 *callout, PVOID sd, UINT32 *id)
{
    struct object o = {.kind = CALLOUT, .key = callout->calloutKey};

    (void)sd;
    SIM_RULE("WFP-033", !(callout->flags & FWPM_CALLOUT_REGISTERED), "flags 0x%X", callout->flags);
    o.layer = callout->applicableLayer;
    if (id)
        *id = 0;
    return add(__func__, engine, &o, callout->providerKey, NULL, named(&callout->displayData));
}

static NTSTATUS filter_wrong(const FWPM_FILTER0 *filter)
{
    const FWP_VALUE0 *weight = &filter->weight;

    if (filter->reserved)
        return FWP_RESERVED;
    if (filter->action.type != FWP_ACTION_CALLOUT_INSPECTION &&
        filter->action.type != ACTION_TERMINATING && filter->action.type != ACTION_UNKNOWN)
        return FWP_INVALID_ACTION_TYPE;
    if (weight->type != FWP_EMPTY && weight->type != FWP_UINT64 &&
        (weight->type != FWP_UINT8 || weight->uint8 > 15))
        return FWP_INVALID_WEIGHT;
    if (!sim_layer_known(&filter->layerKey))
        return FWP_LAYER_NOT_FOUND;
    return named(&filter->displayData);
}

NTSTATUS FwpmFilterAdd0(HANDLE engine, const FWPM_FILTER0 *filter, PVOID sd, UINT64 *id)
{
    struct object o = {.kind = FILTER, .key = filter->filterKey};

    (void)sd;
    SIM_RULE("WFP-038",
             !(filter->flags & FWPM_FILTER_FLAG_PERMIT_IF_CALLOUT_UNREGISTERED) ||
                 filter->action.type != FWP_ACTION_CALLOUT_INSPECTION,
             "an inspection is not for permit-if-unregistered");
    SIM_RULE("WFP-039",
             (filter->flags & FILTER_PERSISTENT_BOOT) != FILTER_PERSISTENT_BOOT &&
                 !(filter->flags & FILTER_DISABLED),
             "flags 0x%X", filter->flags);
    SIM_CHECK(!filter->numFilterConditions, "conditions are not simulated");
    o.layer = filter->layerKey;
    o.callout = filter->action.calloutKey;
    o.action = filter->action.type;
    o.flags = filter->flags;
    o.context = filter->rawContext[0];
    sim_fwp_lock();
    o.id = next_filter++;
    sim_fwp_unlock();
    if (id)
        *id = o.id;
    return add(__func__, engine, &o, filter->providerKey, &filter->subLayerKey,
               filter_wrong(filter));
}

/* --- sessions and transactions --------------------------------------------------------------- */

NTSTATUS FwpmEngineOpen0(const WCHAR *serverName, UINT32 authnService, PVOID authIdentity,
                         const FWPM_SESSION0 *session, HANDLE *engine)
{
    struct session *made;

    SIM_DDI(PASSIVE_LEVEL, "WFP-010");
    SIM_RULE("WFP-011",
             !serverName && !authIdentity &&
                 (authnService == RPC_C_AUTHN_WINNT || authnService == 0xFFFFFFFFu),
             "a server, an identity or service %u", authnService);
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (state != SIM_BFE_RUNNING)
        return RPC_SERVER_UNAVAILABLE;
    made = sim_alloc(sizeof(*made));
    made->dynamic = session && (session->flags & FWPM_SESSION_FLAG_DYNAMIC);
    made->wait_ms = session && session->txnWaitTimeoutInMSec ? session->txnWaitTimeoutInMSec
                                                             : TRANSACTION_WAIT_MS;
    sim_fwp_lock();
    made->next = sessions;
    sessions = made;
    sim_item_add(&made->item, SIM_ENGINE, made, "", 0, __builtin_return_address(0));
    sim_fwp_unlock();
    *engine = made;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmEngineClose0(HANDLE engine)
{
    NTSTATUS status;
    struct session *s = session_of(__func__, engine, &status);

    SIM_DDI(PASSIVE_LEVEL, "WFP-014");
    SIM_MAY_FAIL_PLANNED();
    remove_objects(s, s->dynamic);
    sim_fwp_lock();
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
    sim_fwp_unlock();
    free(s);
    return STATUS_SUCCESS;
}

/* One transaction that writes, or many that read. */
static bool others_hold(const struct session *s, bool read_only)
{
    bool held = false;

    sim_fwp_lock();
    for (const struct session *o = sessions; o; o = o->next)
        held = held || (o != s && o->in_transaction && !(read_only && o->read_only));
    sim_fwp_unlock();
    return held;
}

static bool wait_for_others(const struct session *s, bool read_only)
{
    const LARGE_INTEGER whole = {.QuadPart = -(LONGLONG)s->wait_ms * 10000};
    struct timespec deadline;

    sim_real_deadline(&deadline, (uint64_t)s->wait_ms * 10000);
    while (others_hold(s, read_only)) {
        if (sim_clock_passes(&whole) || sim_real_passed(&deadline))
            return false;
        usleep(1000);
    }
    return true;
}

NTSTATUS FwpmTransactionBegin0(HANDLE engine, UINT32 flags)
{
    NTSTATUS status;
    struct session *s = session_of(__func__, engine, &status);

    SIM_DDI(PASSIVE_LEVEL, "WFP-019");
    SIM_RULE("WFP-018", !(flags & ~TRANSACTION_READ_ONLY), "flags 0x%X", flags);
    if (!NT_SUCCESS(status))
        return status;
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    if (s->in_transaction)
        return FWP_TXN_IN_PROGRESS;
    if (!wait_for_others(s, (flags & TRANSACTION_READ_ONLY) != 0))
        return FWP_TIMEOUT;
    s->read_only = (flags & TRANSACTION_READ_ONLY) != 0;
    s->failed = false;
    s->in_transaction = true;
    return STATUS_SUCCESS;
}

/* The session; the status says whether its transaction can be ended. */
static struct session *transaction_of(const char *ddi, HANDLE engine, NTSTATUS *status)
{
    struct session *s = session_of(ddi, engine, status);

    sim_ddi(ddi, "WFP-019", PASSIVE_LEVEL);
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
    SIM_RULE("WFP-021", !s->failed, "an addition failed: what went before it would stay");
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    for (;;) {
        struct object *o;
        sim_fwp_lock();
        o = objects;
        while (o && (o->session != s || o->committed))
            o = o->next;
        if (o)
            o->committed = true;
        sim_fwp_unlock();
        if (!o)
            break;
        tell_filter(o, ADD_FILTER);
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
    SIM_MAY_FAIL_PLANNED();
    remove_objects(s, false);
    s->in_transaction = false;
    return STATUS_SUCCESS;
}

/* --- state of the service -------------------------------------------------------------------- */

static ULONG service_state(int bfe)
{
    return bfe == SIM_BFE_RUNNING    ? FWPM_SERVICE_RUNNING
           : bfe == SIM_BFE_STARTING ? FWPM_SERVICE_START_PENDING
           : bfe == SIM_BFE_STOPPING ? FWPM_SERVICE_STOP_PENDING
                                     : FWPM_SERVICE_STOPPED;
}

ULONG FwpmBfeStateGet0(VOID)
{
    SIM_DDI(DISPATCH_LEVEL, "WFP-009");
    SIM_RULE("WFP-002", subscribed, "a change before the subscription would be lost");
    return service_state(state);
}

NTSTATUS FwpmBfeStateSubscribeChanges0(PVOID deviceObject,
                                       FWPM_SERVICE_STATE_CHANGE_CALLBACK0 callback, PVOID context,
                                       HANDLE *changeHandle)
{
    struct sim_notify *made = NULL;

    SIM_DDI(PASSIVE_LEVEL, "WFP-001");
    subscribed = true;
    SIM_RULE("WFP-001", sim_device_is(deviceObject), "%p is no device of the driver", deviceObject);
    SIM_MAY_FAIL(STATUS_INSUFFICIENT_RESOURCES);
    sim_notify_add(&subscribers, __func__, (void *)(uintptr_t)callback, context, 0, 64, &made);
    *changeHandle = made;
    return STATUS_SUCCESS;
}

NTSTATUS FwpmBfeStateUnsubscribeChanges0(HANDLE changeHandle)
{
    SIM_DDI(PASSIVE_LEVEL, "WFP-007");
    SIM_MAY_FAIL_PLANNED();
    SIM_CHECK(sim_notify_remove_node(&subscribers, __func__, changeHandle), "%p is no subscription",
              changeHandle);
    return STATUS_SUCCESS;
}

void sim_bfe_set(enum sim_bfe wanted)
{
    struct sim_notify *n = NULL;
    struct sim_call call;

    sim_fwp_lock();
    state = (int)wanted;
    for (struct session *s = sessions; s && wanted == SIM_BFE_STOPPED; s = s->next) {
        s->dead = true;
        s->in_transaction = false;
    }
    sim_fwp_unlock();
    /* Handles do not go while their owner may close them: only their objects do. */
    remove_objects(NULL, true);
    while ((n = sim_notify_next(&subscribers, n)) != NULL) {
        FWPM_SERVICE_STATE_CHANGE_CALLBACK0 callback =
            (FWPM_SERVICE_STATE_CHANGE_CALLBACK0)(uintptr_t)n->routine;
        sim_call_enter(&call, "filter engine state", n->routine, "WFP-006", PASSIVE_LEVEL);
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
    sim_callouts_end();
    sim_flows_end();
}
