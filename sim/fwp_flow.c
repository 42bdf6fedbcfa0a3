/*
 * fwp_flow.c - network activity: flows and their classification at the ALE layers.
 */
#include "fwp.h"
#include "ps.h"

#include <arpa/inet.h>

#define CALLOUTS_MAX 16u
#define VALUES 24u

struct flow {
    struct flow *next;
    struct sim_flow of; /* without its strings */
    uint64_t id;
    bool inbound;
};

static pthread_mutex_t flows_lock = PTHREAD_MUTEX_INITIALIZER;
static struct flow *flows;
static uint64_t next_flow = 0x1000;
static _Atomic uint64_t blocks;

/* --- flows ----------------------------------------------------------------------------------- */

static uint64_t flow_make(const struct sim_flow *of, bool inbound, bool keep)
{
    struct flow *made = keep ? sim_alloc(sizeof(*made)) : NULL;
    uint64_t id;

    pthread_mutex_lock(&flows_lock);
    id = ++next_flow;
    if (made) {
        made->id = id;
        made->of = *of;
        made->of.image = SIM_NO_STR;
        made->inbound = inbound;
        made->next = flows;
        flows = made;
    }
    pthread_mutex_unlock(&flows_lock);
    return id;
}

void sim_net_close(uint64_t id)
{
    struct flow *found = NULL;

    pthread_mutex_lock(&flows_lock);
    for (struct flow **at = &flows; *at; at = &(*at)->next) {
        if ((*at)->id == id) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&flows_lock);
    free(found);
}

void sim_flows_end(void)
{
    while (flows) {
        struct flow *next = flows->next;
        free(flows);
        flows = next;
    }
    atomic_store(&blocks, 0);
}

uint64_t sim_net_blocked(void)
{
    return atomic_load(&blocks);
}

/* --- classification -------------------------------------------------------------------------- */

enum layer { LISTEN, ACCEPT, CONNECT, ESTABLISHED, LAYERS };

static const GUID layer_keys[LAYERS][2] = {
    [LISTEN] = {KDA_LAYER_ALE_AUTH_LISTEN_V4, KDA_LAYER_ALE_AUTH_LISTEN_V6},
    [ACCEPT] = {KDA_LAYER_ALE_AUTH_RECV_ACCEPT_V4, KDA_LAYER_ALE_AUTH_RECV_ACCEPT_V6},
    [CONNECT] = {KDA_LAYER_ALE_AUTH_CONNECT_V4, KDA_LAYER_ALE_AUTH_CONNECT_V6},
    [ESTABLISHED] = {KDA_LAYER_ALE_FLOW_ESTABLISHED_V4, KDA_LAYER_ALE_FLOW_ESTABLISHED_V6},
};
static const UINT16 layer_ids[LAYERS][2] = {
    [LISTEN] = {FWPS_LAYER_ALE_AUTH_LISTEN_V4, FWPS_LAYER_ALE_AUTH_LISTEN_V6},
    [ACCEPT] = {FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V4, FWPS_LAYER_ALE_AUTH_RECV_ACCEPT_V6},
    [CONNECT] = {FWPS_LAYER_ALE_AUTH_CONNECT_V4, FWPS_LAYER_ALE_AUTH_CONNECT_V6},
    [ESTABLISHED] = {FWPS_LAYER_ALE_FLOW_ESTABLISHED_V4, FWPS_LAYER_ALE_FLOW_ESTABLISHED_V6},
};

bool sim_layer_known(const GUID *layer)
{
    for (unsigned i = 0; i < LAYERS * 2u; i++) {
        if (memcmp(&layer_keys[i / 2][i % 2], layer, sizeof(*layer)) == 0)
            return true;
    }
    return false;
}

struct classification {
    FWPS_INCOMING_VALUE0 values[VALUES];
    FWPS_INCOMING_METADATA_VALUES0 metadata;
    FWP_BYTE_ARRAY16 local;
    FWP_BYTE_ARRAY16 remote;
    FWP_BYTE_BLOB path;
    struct sim_wide image; /* with its terminator, as the engine hands it out */
};

static void put_address(FWP_VALUE0 *value, const struct sim_flow *f, const uint8_t *address,
                        FWP_BYTE_ARRAY16 *room)
{
    uint32_t v4;

    if (f->version == 4) {
        memcpy(&v4, address, 4);
        value->type = FWP_UINT32;
        value->uint32 = ntohl(v4);
        return;
    }
    memcpy(room->byteArray16, address, 16);
    value->type = FWP_BYTE_ARRAY16_TYPE;
    value->byteArray16 = room;
}

static void put_port(FWP_VALUE0 *value, uint16_t port)
{
    value->type = FWP_UINT16;
    value->uint16 = port;
}

static void fill_values(struct classification *c, enum layer layer, const struct sim_flow *f,
                        bool inbound, bool again)
{
    FWPS_INCOMING_VALUE0 *v = c->values;
    unsigned flags = layer == CONNECT  ? KDA_WFP_CONNECT_FLAGS
                     : layer == ACCEPT ? KDA_WFP_RECV_ACCEPT_FLAGS
                                       : KDA_WFP_LISTEN_FLAGS;

    /* What the layer has none of is rubbish, also in its type. */
    memset(c->values, 0xEE, sizeof(c->values));
    put_address(&v[KDA_WFP_LOCAL_ADDRESS].value, f, f->local, &c->local);
    if (f->no_local)
        v[KDA_WFP_LOCAL_ADDRESS].value.type = FWP_EMPTY;
    put_port(&v[KDA_WFP_LOCAL_PORT].value, f->local_port);
    if (layer != LISTEN) {
        v[KDA_WFP_PROTOCOL].value.type = FWP_UINT8;
        v[KDA_WFP_PROTOCOL].value.uint8 = f->protocol;
        put_address(&v[KDA_WFP_REMOTE_ADDRESS].value, f, f->remote, &c->remote);
        put_port(&v[KDA_WFP_REMOTE_PORT].value, f->remote_port);
        if (f->no_remote) {
            v[KDA_WFP_REMOTE_ADDRESS].value.type = FWP_EMPTY;
            v[KDA_WFP_REMOTE_ADDRESS].value.any = (PVOID)(uintptr_t)0xEEEEEEEEEEEEEEEEu;
        }
    }
    if (layer == ESTABLISHED) {
        v[KDA_WFP_FLOW_DIRECTION].value.type = FWP_UINT32;
        v[KDA_WFP_FLOW_DIRECTION].value.uint32 =
            inbound ? FWP_DIRECTION_INBOUND : FWP_DIRECTION_OUTBOUND;
    } else {
        v[flags].value.type = FWP_UINT32;
        v[flags].value.uint32 = again ? FWP_CONDITION_FLAG_IS_REAUTHORIZE : 0;
    }
}

static void fill_metadata(struct classification *c, const struct sim_flow *f, uint64_t flow)
{
    FWPS_INCOMING_METADATA_VALUES0 *m = &c->metadata;
    uint32_t pid = f->pid ? f->pid : sim_self()->thread->process->pid;
    struct sim_proc *process = sim_proc_find(pid);
    struct sim_str image = f->image;

    /* What is not marked as present is rubbish. */
    memset(m, 0xEE, sizeof(*m));
    m->currentMetadataValues = 0;
    if (!f->no_pid) {
        m->currentMetadataValues |= FWPS_METADATA_FIELD_PROCESS_ID;
        m->processId = pid;
    }
    if (!image.count && process)
        image = (struct sim_str){process->image.units, process->image.count};
    if (!f->no_image && image.count) {
        c->image.count = image.count + 1;
        c->image.units = sim_alloc(c->image.count * 2);
        memcpy(c->image.units, image.units, image.count * 2);
        c->path.size = (UINT32)(c->image.count * 2);
        c->path.data = (UINT8 *)c->image.units;
        m->processPath = &c->path;
        m->currentMetadataValues |= FWPS_METADATA_FIELD_PROCESS_PATH;
    }
    if (flow && !f->no_flow_handle) {
        m->currentMetadataValues |= FWPS_METADATA_FIELD_FLOW_HANDLE;
        m->flowHandle = flow;
    }
    if (process)
        sim_object_unref(process);
}

/* What an inspection may do with the answer: nothing but to say that the others go on. */
static void check_answer(const FWPS_CLASSIFY_OUT0 *before, const FWPS_CLASSIFY_OUT0 *out,
                         enum layer layer)
{
    SIM_RULE("WFP-074",
             (before->rights & FWPS_RIGHT_ACTION_WRITE) || out->actionType == before->actionType ||
                 out->actionType == FWP_ACTION_BLOCK,
             "an action is set without the right to");
    SIM_RULE("WFP-076",
             layer != ESTABLISHED || out->actionType != FWP_ACTION_BLOCK ||
                 before->actionType == FWP_ACTION_BLOCK,
             "a flow that is established is blocked");
    SIM_RULE("WFP-073",
             !(before->rights & FWPS_RIGHT_ACTION_WRITE) || out->actionType == FWP_ACTION_CONTINUE,
             "an inspection blocks, permits or does not answer: 0x%X", out->actionType);
    SIM_RULE("WFP-073",
             (before->rights & FWPS_RIGHT_ACTION_WRITE) || out->actionType == before->actionType,
             "an inspection vetoes");
    SIM_RULE("WFP-075",
             out->outContext == before->outContext && out->filterId == before->filterId &&
                 out->reserved == before->reserved,
             "what is the engine's is written");
}

static void ask(const struct sim_hit *hit, const FWPS_INCOMING_VALUES0 *values,
                struct classification *c, enum layer layer, bool blocked)
{
    FWPS_CLASSIFY_OUT0 out = {.actionType = blocked ? FWP_ACTION_BLOCK : 0,
                              .rights = blocked ? 0 : FWPS_RIGHT_ACTION_WRITE,
                              .outContext = 0xC0FFEE,
                              .filterId = hit->filter.filterId,
                              .reserved = 0xEE};
    const FWPS_CLASSIFY_OUT0 before = out;
    struct sim_call call;

    sim_call_enter(&call, "classify", (const void *)(uintptr_t)hit->callout->as.classify, "WFP-070",
                   DISPATCH_LEVEL);
    hit->callout->as.classify(values, &c->metadata, NULL, NULL, &hit->filter, 0, &out);
    sim_call_leave(&call);
    if (hit->filter.actionType == FWP_ACTION_CALLOUT_INSPECTION)
        check_answer(&before, &out, layer);
    SIM_RULE("WFP-072", out.actionType != FWP_ACTION_BLOCK || !(out.rights & 1u) || blocked,
             "blocks and leaves others the right to permit");
    sim_fwp_release(hit->callout);
    atomic_fetch_add(&blocks, out.actionType == FWP_ACTION_BLOCK);
}

static void classify(enum layer layer, const struct sim_flow *f, bool inbound, bool again,
                     bool blocked, uint64_t flow)
{
    unsigned six = f->version == 6;
    struct sim_hit hits[CALLOUTS_MAX];
    size_t count = sim_fwp_collect(&layer_keys[layer][six], hits, CALLOUTS_MAX);
    struct classification *c;
    FWPS_INCOMING_VALUES0 values;

    SIM_CHECK(f->version == 4 || f->version == 6, "IP version %u", f->version);
    if (count == 0)
        return;
    c = sim_alloc(sizeof(*c));
    fill_values(c, layer, f, inbound, again);
    fill_metadata(c, f, flow);
    values.layerId = layer_ids[layer][six];
    values.valueCount = VALUES;
    values.incomingValue = c->values;
    for (size_t i = 0; i < count; i++) {
        if (hits[i].callout)
            ask(&hits[i], &values, c, layer, blocked);
        else
            atomic_fetch_add(&blocks, 1);
    }
    sim_wide_free(&c->image);
    free(c);
}

void sim_net_connect(const struct sim_flow *f, uint64_t *flow)
{
    uint64_t id = flow_make(f, false, flow != NULL);

    classify(CONNECT, f, false, false, false, 0);
    classify(ESTABLISHED, f, false, false, false, id);
    if (flow)
        *flow = id;
}

void sim_net_accept(const struct sim_flow *f, uint64_t *flow)
{
    uint64_t id = flow_make(f, true, flow != NULL);

    classify(ACCEPT, f, true, false, false, 0);
    classify(ESTABLISHED, f, true, false, false, id);
    if (flow)
        *flow = id;
}

void sim_net_listen(const struct sim_flow *f)
{
    classify(LISTEN, f, true, false, false, 0);
}

void sim_net_authorize(const struct sim_flow *f, bool inbound, bool again, bool blocked,
                       uint64_t flow)
{
    uint64_t id = again ? (flow ? flow : flow_make(f, inbound, false)) : 0;

    classify(inbound ? ACCEPT : CONNECT, f, inbound, again, blocked, id);
}

uint64_t sim_net_existing(const struct sim_flow *f, bool inbound)
{
    return flow_make(f, inbound, true);
}

void sim_wfp_foreign_filter(void)
{
    for (unsigned n = 0;; n++) {
        const struct flow *at;
        struct flow copy;
        unsigned i = 0;
        pthread_mutex_lock(&flows_lock);
        for (at = flows; at && i < n; at = at->next)
            i++;
        if (at)
            copy = *at;
        pthread_mutex_unlock(&flows_lock);
        if (!at)
            return;
        classify(copy.inbound ? ACCEPT : CONNECT, &copy.of, copy.inbound, true, false, copy.id);
    }
}
