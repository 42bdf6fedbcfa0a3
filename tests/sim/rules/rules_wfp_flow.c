/*
 * rules_wfp_flow.c - the filter engine: classification and notifications.
 */
#include "rules_wfp.h"

/* --- classification -------------------------------------------------------------------------- */

OUTCOME("WFP-043 WFP-070 WFP-071 WFP-077 WFP-085 WFP-112", classified_at_dispatch)
{
    armed(FWP_ACTION_CALLOUT_INSPECTION);
    sim_set_irql(DISPATCH_LEVEL);
    sim_net_connect(&tcp, NULL);
    EXPECT(seen.classified == 2 && seen.irql == DISPATCH_LEVEL && seen.context == 0x77);
    EXPECT(!seen.had_layer_data && seen.flow_context == 0);
    EXPECT(seen.layer == FWPS_LAYER_ALE_FLOW_ESTABLISHED_V4); /* after the authorization */
}

OUTCOME("WFP-042", no_conditions_match_everything)
{
    struct sim_flow flow = tcp;

    armed(FWP_ACTION_CALLOUT_INSPECTION);
    for (unsigned i = 0; i < 64; i++) {
        flow.protocol = (uint8_t)(i * 7);
        flow.remote_port = (uint16_t)(i * 1021);
        flow.local_port = (uint16_t)(i * 997);
        flow.remote[0] = (uint8_t)(i * 5);
        sim_net_connect(&flow, NULL);
        EXPECT(seen.classified == 2 * (i + 1));
    }
}

VIOLATION("WFP-072", block_that_can_be_overruled)
{
    armed(0x5003);
    action = FWP_ACTION_BLOCK;
    sim_net_connect(&tcp, NULL);
}

OUTCOME("WFP-072", block_that_cannot)
{
    armed(0x5003);
    action = FWP_ACTION_BLOCK;
    gives_right_back = true;
    sim_net_connect(&tcp, NULL);
    EXPECT(sim_net_blocked() == 2);
}

VIOLATION("WFP-073", inspection_permits)
{
    armed(FWP_ACTION_CALLOUT_INSPECTION);
    action = FWP_ACTION_PERMIT;
    sim_net_connect(&tcp, NULL);
}

VIOLATION("WFP-073", inspection_does_not_answer)
{
    armed(FWP_ACTION_CALLOUT_INSPECTION);
    action = UINT32_MAX;
    sim_net_connect(&tcp, NULL);
}

VIOLATION("WFP-074", answers_without_the_right)
{
    armed(FWP_ACTION_CALLOUT_INSPECTION);
    sim_net_authorize(&tcp, false, false, true, 0);
}

VIOLATION("WFP-075", writes_what_is_the_engines)
{
    armed(FWP_ACTION_CALLOUT_INSPECTION);
    writes_engine_fields = true;
    sim_net_connect(&tcp, NULL);
}

VIOLATION("WFP-076", established_flow_blocked)
{
    HANDLE engine = open_engine(0);

    register_callout(false, 0, NULL);
    add_callout(engine);
    add_filter(engine, &established_v4, FWP_ACTION_CALLOUT_INSPECTION);
    action = FWP_ACTION_BLOCK;
    sim_net_connect(&tcp, NULL);
}

OUTCOME("WFP-078 WFP-079", metadata)
{
    struct sim_flow flow = tcp;

    armed(FWP_ACTION_CALLOUT_INSPECTION);
    flow.no_pid = flow.no_image = flow.no_flow_handle = true;
    sim_net_connect(&flow, NULL);
    EXPECT(seen.metadata == 0 && seen.values.processId == 0xEEEEEEEEEEEEEEEE);
    flow.no_pid = flow.no_flow_handle = false;
    sim_net_connect(&flow, NULL);
    EXPECT(seen.metadata == (FWPS_METADATA_FIELD_PROCESS_ID | FWPS_METADATA_FIELD_FLOW_HANDLE));
}

OUTCOME("WFP-082 WFP-083 WFP-084 WFP-086", authorized_again)
{
    struct sim_flow flow = {.version = 4, .protocol = 17, .no_remote = true};
    uint64_t id;

    armed(FWP_ACTION_CALLOUT_INSPECTION);
    sim_net_connect(&flow, &id);
    EXPECT(seen.remote.type == FWP_EMPTY);
    seen.classified = 0;
    sim_net_authorize(&flow, false, true, false, id);
    EXPECT(seen.classified == 1 && (seen.flags.uint32 & FWP_CONDITION_FLAG_IS_REAUTHORIZE));
    sim_wfp_foreign_filter();
    EXPECT(seen.classified == 2 && (seen.flags.uint32 & FWP_CONDITION_FLAG_IS_REAUTHORIZE));
}

/* --- notifications --------------------------------------------------------------------------- */

OUTCOME("WFP-035 WFP-107 WFP-108 WFP-109", notifications)
{
    HANDLE engine = armed(FWP_ACTION_CALLOUT_INSPECTION);

    EXPECT(seen.notified == 2 && seen.type == 0 && seen.had_key && seen.irql == DISPATCH_LEVEL);
    EXPECT(sim_wfp_delete_filter(0));
    EXPECT(seen.notified == 3 && seen.type == 1 && !seen.had_key);
    notify_status = STATUS_ACCESS_DENIED;
    EXPECT_STATUS(0xC0220037, add_filter(engine, &connect_v4, FWP_ACTION_CALLOUT_INSPECTION));
    EXPECT(sim_wfp_filters() == 1);
    EXPECT(sim_wfp_delete_filter(0)); /* cannot be refused */
    EXPECT(sim_wfp_filters() == 0);
}

VIOLATION("WFP-109", unknown_notification_refused)
{
    armed(FWP_ACTION_CALLOUT_INSPECTION);
    notify_status = STATUS_NOT_SUPPORTED;
    sim_wfp_notify_unknown();
}

OUTCOME("WFP-110", filters_from_before_the_registration)
{
    HANDLE engine = open_engine(0);

    EXPECT_STATUS(0, add_callout(engine));
    EXPECT_STATUS(0, add_filter(engine, &connect_v4, FWP_ACTION_CALLOUT_INSPECTION));
    EXPECT_STATUS(0, register_callout(false, 0, NULL));
    EXPECT(seen.notified == 0);
    EXPECT(sim_wfp_delete_filter(0));
    EXPECT(seen.notified == 1 && seen.type == 1);
}
