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
    uint64_t id;
};

static pthread_mutex_t flows_lock = PTHREAD_MUTEX_INITIALIZER;
static struct flow *flows;
static uint64_t next_flow = 0x1000;

/* --- flows ----------------------------------------------------------------------------------- */

static uint64_t flow_make(bool keep)
{
    struct flow *made = keep ? sim_alloc(sizeof(*made)) : NULL;
    uint64_t id;

    pthread_mutex_lock(&flows_lock);
    id = ++next_flow;
    if (made) {
        made->id = id;
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

    put_address(&v[KDA_WFP_LOCAL_ADDRESS].value, f, f->local, &c->local);
    put_port(&v[KDA_WFP_LOCAL_PORT].value, f->local_port);
    if (layer != LISTEN) {
        v[KDA_WFP_PROTOCOL].value.type = FWP_UINT8;
        v[KDA_WFP_PROTOCOL].value.uint8 = f->protocol;
        put_address(&v[KDA_WFP_REMOTE_ADDRESS].value, f, f->remote, &c->remote);
        put_port(&v[KDA_WFP_REMOTE_PORT].value, f->remote_port);
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

static void classify(enum layer layer, const struct sim_flow *f, bool inbound, bool again,
                     bool blocked, uint64_t flow)
{
    unsigned six = f->version == 6;
    struct sim_callout *found[CALLOUTS_MAX];
    size_t count = sim_fwp_collect(&layer_keys[layer][six], found, CALLOUTS_MAX);
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
        FWPS_CLASSIFY_OUT0 out = {.actionType = blocked ? FWP_ACTION_BLOCK : FWP_ACTION_CONTINUE,
                                  .rights = blocked ? 0 : FWPS_RIGHT_ACTION_WRITE};
        UINT32 before = out.actionType;
        struct sim_call call;
        sim_call_enter(&call, "classify", (const void *)(uintptr_t)found[i]->classify,
                       DISPATCH_LEVEL);
        found[i]->classify(&values, &c->metadata, NULL, NULL, NULL, 0, &out);
        sim_call_leave(&call);
        SIM_CHECK(!blocked || out.actionType == before, "an action is set without the right to");
        SIM_CHECK(out.actionType != FWP_ACTION_BLOCK || blocked, "an inspection blocks");
        sim_fwp_release(found[i]);
    }
    sim_wide_free(&c->image);
    free(c);
}

void sim_net_connect(const struct sim_flow *f, uint64_t *flow)
{
    uint64_t id = flow_make(flow != NULL);

    classify(CONNECT, f, false, false, false, 0);
    classify(ESTABLISHED, f, false, false, false, id);
    if (flow)
        *flow = id;
}

void sim_net_accept(const struct sim_flow *f, uint64_t *flow)
{
    uint64_t id = flow_make(flow != NULL);

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
    uint64_t id = again ? (flow ? flow : flow_make(false)) : 0;

    classify(inbound ? ACCEPT : CONNECT, f, inbound, again, blocked, id);
}

uint64_t sim_net_existing(const struct sim_flow *f, bool inbound)
{
    (void)f;
    (void)inbound;
    return flow_make(true);
}
