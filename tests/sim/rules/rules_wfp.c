/*
 * rules_wfp.c - the filter engine: its state, sessions, objects and callouts.
 */
#include "rules_wfp.h"

#include <pthread.h>

/* --- levels ---------------------------------------------------------------------------------- */

static VOID state_changed(PVOID context, ULONG state);

static NTSTATUS subscribe(HANDLE *handle)
{
    return FwpmBfeStateSubscribeChanges0(fx.device, state_changed, NULL, handle);
}

static void subscribe_only(void)
{
    HANDLE handle;

    subscribe(&handle);
}

static void open_only(void)
{
    HANDLE engine;

    FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, NULL, &engine);
}

LEVEL_VOID("WFP-001", PASSIVE_LEVEL, subscribe_only());
LEVEL_VOID("WFP-010", PASSIVE_LEVEL, open_only());
LEVEL("WFP-050", PASSIVE_LEVEL, register_callout(false, 0, NULL));
LEVEL("WFP-063", PASSIVE_LEVEL, FwpsCalloutUnregisterById0(7));

static void raise_and(void (*call)(HANDLE engine))
{
    HANDLE engine = open_engine(0);
    KIRQL old;

    KeRaiseIrql(APC_LEVEL, &old);
    call(engine);
}

static void begin_at_apc(HANDLE engine)
{
    FwpmTransactionBegin0(engine, 0);
}

static void add_at_apc(HANDLE engine)
{
    add_callout(engine);
}

static void close_at_apc(HANDLE engine)
{
    FwpmEngineClose0(engine);
}

VIOLATION("WFP-019", transaction_at_apc)
{
    raise_and(begin_at_apc);
}

VIOLATION("WFP-030", callout_at_apc)
{
    raise_and(add_at_apc);
}

VIOLATION("WFP-014", close_engine_at_apc)
{
    raise_and(close_at_apc);
}

static HANDLE subscription;

VIOLATION("WFP-007", unsubscribe_at_apc)
{
    KIRQL old;

    make_device();
    subscribe(&subscription);
    KeRaiseIrql(APC_LEVEL, &old);
    FwpmBfeStateUnsubscribeChanges0(subscription);
}

VIOLATION("WFP-009", state_above_dispatch)
{
    KIRQL old;

    make_device();
    subscribe(&subscription);
    KeRaiseIrql(HIGH_LEVEL, &old);
    FwpmBfeStateGet0();
}

/* --- state of the service -------------------------------------------------------------------- */

static ULONG states[8];
static unsigned state_count;
static bool unsubscribes;

static VOID state_changed(PVOID context, ULONG state)
{
    (void)context;
    EXPECT(KeGetCurrentIrql() == PASSIVE_LEVEL);
    states[state_count++] = state;
    if (unsubscribes)
        FwpmBfeStateUnsubscribeChanges0(subscription);
}

VIOLATION("WFP-001", subscription_without_a_device)
{
    subscribe(&subscription);
}

VIOLATION("WFP-002", state_before_the_subscription)
{
    FwpmBfeStateGet0();
}

VIOLATION("WFP-003", unsubscribes_from_the_callback)
{
    make_device();
    EXPECT_STATUS(0, subscribe(&subscription));
    unsubscribes = true;
    sim_bfe_set(SIM_BFE_STOPPED);
}

VIOLATION("WFP-004", subscription_kept)
{
    make_device();
    subscribe(&subscription);
    IoDeleteDevice(fx.device);
    sim_driver_unload();
}

OUTCOME("WFP-005 WFP-006 WFP-009 WFP-012", states_of_the_service)
{
    HANDLE engine;
    KIRQL old;

    make_device();
    EXPECT_STATUS(0, subscribe(&subscription));
    sim_bfe_set(SIM_BFE_STOPPING);
    sim_bfe_set(SIM_BFE_STOPPED);
    EXPECT(!NT_SUCCESS(FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, NULL, &engine)));
    sim_bfe_set(SIM_BFE_STARTING);
    sim_bfe_set(SIM_BFE_RUNNING);
    EXPECT(states[0] == FWPM_SERVICE_STOP_PENDING && states[1] == FWPM_SERVICE_STOPPED &&
           states[2] == FWPM_SERVICE_START_PENDING && states[3] == FWPM_SERVICE_RUNNING);
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    EXPECT(FwpmBfeStateGet0() == FWPM_SERVICE_RUNNING);
}

/* --- sessions and transactions --------------------------------------------------------------- */

VIOLATION("WFP-011", engine_of_another_machine)
{
    HANDLE engine;

    FwpmEngineOpen0(u"other", RPC_C_AUTHN_WINNT, NULL, NULL, &engine);
}

VIOLATION("WFP-013", engine_handle_kept)
{
    open_engine(0);
    sim_driver_unload();
}

OUTCOME("WFP-013 WFP-046", aborted_session_is_closed)
{
    HANDLE engine = open_engine(FWPM_SESSION_FLAG_DYNAMIC);

    sim_bfe_set(SIM_BFE_STOPPED);
    EXPECT_STATUS(0xC0220010, FwpmTransactionBegin0(engine, 0));
    EXPECT(sim_ledger_count() == 1);
    EXPECT_STATUS(0, FwpmEngineClose0(engine));
    EXPECT(sim_ledger_count() == 0);
}

OUTCOME("WFP-015 WFP-022", what_goes_with_a_session)
{
    HANDLE engine = armed(FWP_ACTION_CALLOUT_INSPECTION);
    HANDLE second = open_engine(0);

    EXPECT(sim_wfp_filters() == 2);
    EXPECT_STATUS(0, FwpmEngineClose0(engine));
    EXPECT(sim_wfp_filters() == 0);
    EXPECT_STATUS(0, FwpmTransactionBegin0(second, 0));
    EXPECT_STATUS(0, add_callout(second));
    EXPECT_STATUS(0, FwpmEngineClose0(second));
    engine = open_engine(0);
    EXPECT_STATUS(0, add_callout(engine)); /* the one of the transaction is not there */
}

OUTCOME("WFP-017 WFP-020 WFP-024 WFP-025", transactions)
{
    HANDLE engine = open_engine(0);

    EXPECT_STATUS(0xC022000D, FwpmTransactionCommit0(engine));
    EXPECT_STATUS(0xC022000D, FwpmTransactionAbort0(engine));
    sim_status_next("FwpmTransactionBegin0", STATUS(0xC0220012), 1);
    EXPECT_STATUS(0xC0220012, FwpmTransactionBegin0(engine, 0));
    EXPECT_STATUS(0, FwpmTransactionBegin0(engine, 0));
    EXPECT_STATUS(0xC022000E, FwpmTransactionBegin0(engine, 0));
    EXPECT_STATUS(0, FwpmTransactionAbort0(engine));
}

/* Another session has the transaction: as long as the session says, or 15 seconds. */
OUTCOME("WFP-016 WFP-020 WFP-023", transaction_of_another_session)
{
    const uint32_t waits[] = {0, 200, 60000};
    HANDLE first = open_engine(0);

    sim_clock_delays(true);
    EXPECT_STATUS(0, FwpmTransactionBegin0(first, 0));
    for (size_t i = 0; i < 3; i++) {
        FWPM_SESSION0 session = {.txnWaitTimeoutInMSec = waits[i]};
        uint64_t before = sim_clock_utc();
        HANDLE second;
        EXPECT_STATUS(0, FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, &session, &second));
        EXPECT_STATUS(0xC0220012, FwpmTransactionBegin0(second, 0));
        EXPECT(sim_clock_utc() - before == (waits[i] ? waits[i] : 15000) * UINT64_C(10000));
        EXPECT_STATUS(0xC0220012, FwpmTransactionBegin0(second, 1));
        EXPECT_STATUS(0, FwpmEngineClose0(second));
    }
    sim_clock_advance(UINT64_C(3) * 3600 * 10000000); /* ends a user's, not a kernel's */
    EXPECT_STATUS(0, FwpmTransactionCommit0(first));
    EXPECT_STATUS(0, FwpmTransactionBegin0(first, 1));
    EXPECT_STATUS(0, FwpmTransactionBegin0(open_engine(0), 1)); /* readers disturb none */
}

VIOLATION("WFP-018", transaction_flags)
{
    FwpmTransactionBegin0(open_engine(0), 2);
}

OUTCOME("WFP-018 WFP-026 WFP-027 WFP-036", read_only_transaction)
{
    HANDLE engine = open_engine(0);
    FWPM_PROVIDER0 provider = {.displayData = {display, NULL}, .providerKey = provider_key};
    FWPM_SUBLAYER0 sublayer = {.displayData = {display, NULL}, .subLayerKey = sublayer_key};

    EXPECT_STATUS(0, FwpmTransactionBegin0(engine, 1));
    EXPECT_STATUS(0xC0220011, FwpmProviderAdd0(engine, &provider, NULL));
    EXPECT_STATUS(0xC0220011, FwpmSubLayerAdd0(engine, &sublayer, NULL));
    EXPECT_STATUS(0xC0220011, add_filter(engine, &connect_v4, FWP_ACTION_CALLOUT_INSPECTION));
}

VIOLATION("WFP-021", half_a_transaction_committed)
{
    HANDLE engine = open_engine(0);

    FwpmTransactionBegin0(engine, 0);
    add_callout(engine);
    add_callout(engine); /* fails */
    FwpmTransactionCommit0(engine);
}

OUTCOME("WFP-026 WFP-027 WFP-028 WFP-031 WFP-037 WFP-040", objects)
{
    HANDLE engine = open_engine(0);
    FWPM_PROVIDER0 provider = {.displayData = {display, NULL}, .providerKey = provider_key};
    FWPM_SUBLAYER0 sublayer = {.displayData = {display, NULL}, .subLayerKey = sublayer_key};
    FWPM_FILTER0 filter = filter_of(&connect_v4, FWP_ACTION_CALLOUT_INSPECTION);

    sublayer.weight = 0xFFFF;
    EXPECT_STATUS(0, FwpmProviderAdd0(engine, &provider, NULL));
    EXPECT_STATUS(0xC0220009, FwpmProviderAdd0(engine, &provider, NULL));
    EXPECT_STATUS(0, FwpmSubLayerAdd0(engine, &sublayer, NULL));
    EXPECT_STATUS(0xC0220009, FwpmSubLayerAdd0(engine, &sublayer, NULL));
    provider.providerKey.Data1++;
    provider.displayData.name = NULL;
    EXPECT_STATUS(0xC0220023, FwpmProviderAdd0(engine, &provider, NULL));
    sublayer.subLayerKey.Data1++;
    sublayer.displayData.name = NULL;
    EXPECT_STATUS(0xC0220023, FwpmSubLayerAdd0(engine, &sublayer, NULL));
    EXPECT_STATUS(0, add_callout(engine));
    EXPECT_STATUS(0xC0220009, add_callout(engine));
    EXPECT_STATUS(0, FwpmFilterAdd0(engine, &filter, NULL, NULL)); /* zero keys: its own */
    EXPECT_STATUS(0, FwpmFilterAdd0(engine, &filter, NULL, NULL));
    filter.displayData.name = NULL;
    EXPECT_STATUS(0xC0220023, FwpmFilterAdd0(engine, &filter, NULL, NULL));
}

VIOLATION("WFP-033", callout_flagged_as_registered)
{
    FWPM_CALLOUT0 callout = {
        .displayData = {display, NULL}, .calloutKey = callout_key, .flags = 0x40000};

    FwpmCalloutAdd0(open_engine(0), &callout, NULL, NULL);
}

OUTCOME("WFP-033 WFP-041 WFP-044 WFP-045", what_is_wrong_with_a_filter)
{
    HANDLE engine = open_engine(0);
    HANDLE dynamic = open_engine(FWPM_SESSION_FLAG_DYNAMIC);
    FWPM_CALLOUT0 callout = {
        .displayData = {display, NULL}, .calloutKey = callout_key, .applicableLayer = connect_v4};
    FWPM_FILTER0 good = filter_of(&connect_v4, FWP_ACTION_CALLOUT_INSPECTION);
    FWPM_FILTER0 filter = good;
    GUID none = {9, 9, 9, {9}};

    EXPECT_STATUS(0xC0220001, FwpmFilterAdd0(dynamic, &good, NULL, NULL));
    EXPECT_STATUS(0, FwpmCalloutAdd0(dynamic, &callout, NULL, NULL));
    EXPECT_STATUS(0xC0220016, FwpmFilterAdd0(engine, &good, NULL, NULL));
    filter.weight.type = FWP_UINT16;
    EXPECT_STATUS(0xC0220025, FwpmFilterAdd0(dynamic, &filter, NULL, NULL));
    filter.weight = (FWP_VALUE0){.type = FWP_UINT8, .uint8 = 16};
    EXPECT_STATUS(0xC0220025, FwpmFilterAdd0(dynamic, &filter, NULL, NULL));
    filter = good;
    filter.action.type = FWP_ACTION_CONTINUE;
    EXPECT_STATUS(0xC0220024, FwpmFilterAdd0(dynamic, &filter, NULL, NULL));
    filter = good;
    filter.reserved = &none;
    EXPECT_STATUS(0xC0220029, FwpmFilterAdd0(dynamic, &filter, NULL, NULL));
    filter = good;
    filter.layerKey = none;
    EXPECT_STATUS(0xC0220004, FwpmFilterAdd0(dynamic, &filter, NULL, NULL));
    filter = good;
    filter.subLayerKey = none;
    EXPECT_STATUS(0xC0220007, FwpmFilterAdd0(dynamic, &filter, NULL, NULL));
    filter = good;
    filter.providerKey = &none;
    EXPECT_STATUS(0xC0220005, FwpmFilterAdd0(dynamic, &filter, NULL, NULL));
    filter = good;
    filter.layerKey = established_v4;
    EXPECT_STATUS(0xC0220014, FwpmFilterAdd0(dynamic, &filter, NULL, NULL));
    EXPECT_STATUS(0, FwpmFilterAdd0(dynamic, &good, NULL, NULL));
}

VIOLATION("WFP-038", inspection_permits_if_unregistered)
{
    FWPM_FILTER0 filter = filter_of(&connect_v4, FWP_ACTION_CALLOUT_INSPECTION);

    filter.flags = FWPM_FILTER_FLAG_PERMIT_IF_CALLOUT_UNREGISTERED;
    FwpmFilterAdd0(open_engine(0), &filter, NULL, NULL);
}

VIOLATION("WFP-039", persistent_and_boot_time)
{
    FWPM_FILTER0 filter = filter_of(&connect_v4, FWP_ACTION_CALLOUT_INSPECTION);

    filter.flags = 3;
    FwpmFilterAdd0(open_engine(0), &filter, NULL, NULL);
}

/* --- callouts -------------------------------------------------------------------------------- */

VIOLATION("WFP-050", callout_without_a_device)
{
    const struct sim_callout_registration callout = {.classify = classify, .notify = notify};

    FwpsCalloutRegister1(&fx, (const void *)&callout, NULL);
}

OUTCOME("WFP-032 WFP-051 WFP-052 WFP-055 WFP-066", registration)
{
    UINT32 id;

    sim_bfe_set(SIM_BFE_STOPPED);
    EXPECT_STATUS(0, register_callout(false, 0, &id)); /* without an engine, and before the add */
    EXPECT_STATUS(0xC0220009, register_callout(true, 0, NULL));
    sim_bfe_set(SIM_BFE_RUNNING);
    EXPECT_STATUS(0, add_callout(open_engine(0)));
    EXPECT_STATUS(0, FwpsCalloutUnregisterById0(id));
    EXPECT_STATUS(0xC0220001, FwpsCalloutUnregisterById0(id));
    EXPECT_STATUS(0, register_callout(true, 0, &id));
}

OUTCOME("WFP-032", added_before_it_is_registered)
{
    EXPECT_STATUS(0, add_callout(open_engine(0)));
    EXPECT_STATUS(0, register_callout(false, 0, NULL));
}

static void connect_now(void *unused)
{
    (void)unused;
    sim_net_connect(&tcp, NULL);
}

OUTCOME("WFP-053", classified_before_the_registration_returns)
{
    HANDLE engine = open_engine(0);

    EXPECT_STATUS(0, add_callout(engine));
    EXPECT_STATUS(0, add_filter(engine, &connect_v4, FWP_ACTION_CALLOUT_INSPECTION));
    sim_meanwhile_after("FwpsCalloutRegister1", 1, connect_now, NULL);
    EXPECT_STATUS(0, register_callout(false, 0, NULL));
    EXPECT(seen.classified == 1);
}

VIOLATION("WFP-054", device_deleted_before_its_callout)
{
    register_callout(false, 0, NULL);
    IoDeleteDevice(fx.device);
}

VIOLATION("WFP-069", unloads_with_a_callout)
{
    register_callout(false, 0, NULL);
    sim_driver_unload();
}

VIOLATION("WFP-056", flags_of_a_newer_callout)
{
    register_callout(false, 0x40, NULL);
}

VIOLATION("WFP-061", reserved_flag)
{
    register_callout(true, 0x20, NULL);
}

OUTCOME("WFP-062", flag_that_the_system_does_not_know)
{
    EXPECT_STATUS(0xC022001E, register_callout(true, 0x102, NULL));
    EXPECT_STATUS(0, register_callout(true, 0x2, NULL));
}

OUTCOME_COLD("WFP-058 WFP-060 WFP-062", offloads)
{
    const struct sim_options options = {.build = 26100};
    UINT32 id;

    rules_boot(&options);
    EXPECT_STATUS(0, register_callout(false, 0, &id));
    EXPECT(sim_wfp_switched_off() == (SIM_OFF_OFFLOAD | SIM_OFF_RSC | SIM_OFF_USO | SIM_OFF_URO));
    FwpsCalloutUnregisterById0(id);
    EXPECT_STATUS(0, register_callout(true, 0x2 | 0x40, &id));
    EXPECT(sim_wfp_switched_off() == (SIM_OFF_USO | SIM_OFF_URO));
    FwpsCalloutUnregisterById0(id);
    EXPECT_STATUS(0, register_callout(true, 0x2 | 0x40 | 0x100 | 0x200, &id));
    EXPECT(sim_wfp_switched_off() == 0);
}

OUTCOME("WFP-057 WFP-059", conditional_and_late)
{
    HANDLE engine = open_engine(0);

    EXPECT_STATUS(0, register_callout(false, 0x1 | 0x4, NULL));
    EXPECT_STATUS(0, FwpmTransactionBegin0(engine, 0));
    EXPECT_STATUS(0, add_callout(engine));
    EXPECT_STATUS(0, add_filter(engine, &connect_v4, FWP_ACTION_CALLOUT_INSPECTION));
    EXPECT(seen.notified == 0);
    EXPECT_STATUS(0, FwpmTransactionCommit0(engine));
    EXPECT(seen.notified == 1);
    sim_net_connect(&tcp, NULL);
    EXPECT(seen.classified == 0); /* no flow has a context */
}

static void *connect_thread(void *unused)
{
    sim_net_connect(&tcp, NULL);
    return unused;
}

OUTCOME("WFP-064 WFP-065 WFP-067 WFP-068", unregistration)
{
    HANDLE engine = open_engine(0);
    pthread_t host;
    UINT32 id;

    EXPECT_STATUS(0, register_callout(false, 0, &id));
    EXPECT_STATUS(0, add_callout(engine));
    EXPECT_STATUS(0, add_filter(engine, &connect_v4, FWP_ACTION_CALLOUT_INSPECTION));
    sim_wfp_busy(1);
    EXPECT_STATUS(0x80000011, FwpsCalloutUnregisterById0(id));
    sim_refuse_removal(STATUS(0xC022000A), 1);
    EXPECT_STATUS(0xC022000A, FwpsCalloutUnregisterById0(id));
    stays = true;
    pthread_create(&host, NULL, connect_thread, NULL);
    while (!entered)
        usleep(1000);
    EXPECT_STATUS(0, FwpsCalloutUnregisterById0(id));
    EXPECT(left && sim_wfp_filters() == 1);
    pthread_join(host, NULL);
    sim_net_connect(&tcp, NULL);
    EXPECT(seen.classified == 1);
}

OUTCOME("WFP-048 WFP-049", filters_without_their_callout)
{
    HANDLE engine = open_engine(FWPM_SESSION_FLAG_DYNAMIC);

    EXPECT_STATUS(0, add_callout(engine));
    EXPECT_STATUS(0, add_filter(engine, &connect_v4, FWP_ACTION_CALLOUT_INSPECTION));
    sim_net_connect(&tcp, NULL);
    EXPECT(sim_net_blocked() == 0);
    EXPECT_STATUS(0, add_filter(engine, &connect_v4, 0x5003)); /* terminating */
    sim_net_connect(&tcp, NULL);
    EXPECT(sim_net_blocked() == 1);
    EXPECT_STATUS(0, add_filter(engine, &connect_v4, 0x4005)); /* unknown */
    sim_net_connect(&tcp, NULL);
    EXPECT(sim_net_blocked() == 3);
}
