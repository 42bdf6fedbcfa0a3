/*
 * test_sim_faults.c - every call that can fail fails once: at load, in use, at shutdown and unload.
 *
 * Whatever fails, the driver loads completely or not at all, gives everything back, and its log
 * accounts for every event.
 */
#include "world.h"

static void begin(void)
{
    static const uint16_t keys[] = u"\\REGISTRY\\MACHINE\\SOFTWARE\\Test\0";

    world_begin(&(struct sim_options){.hang_ms = 20000});
    sim_settings_set_dword(STR("RingShards"), 1);
    sim_settings_set_dword(STR("RingShardBytes"), 65536);
    sim_settings_set(STR("OldDataKeys"), REG_MULTI_SZ, keys, sizeof(keys));
}

static unsigned sweep_load(enum sim_fault_scope scope)
{
    unsigned n;
    bool fired = true;

    for (n = 1; n < 5000 && fired; n++) {
        int32_t status;
        begin();
        sim_fault_scope(scope);
        sim_fault_arm(n);
        status = sim_driver_load(DriverEntry);
        fired = sim_fault_fired();
        sim_fault_arm(0);
        if (status >= 0) {
            world_activity(n);
            world_unload();
        } else {
            assert_true(fired);
            assert_int_equal(sim_ledger_count(), 0);
            /* The next attempt finds nothing in its way. */
            world_load();
            world_unload();
        }
        world_end();
    }
    assert_false(fired);
    return n;
}

static void faults_at_load(void **state)
{
    (void)state;
    assert_true(sweep_load(SIM_FAULT_THIS_THREAD) > 20);
    sweep_load(SIM_FAULT_OTHERS); /* the writer's thread, and work items */
}

static void use(void)
{
    struct sim_reader *reader = NULL;
    char buffer[512];
    struct sim_request *request = NULL;
    struct kda_control_status status = {.head = {KDA_CONTROL_VERSION, sizeof(status)}};
    struct kda_control flush = {KDA_CONTROL_VERSION, sizeof(flush)};

    if (sim_reader_open(STR("\\??\\KDAMonitor"), SIM_CALLER_ADMIN, 3, &reader) >= 0)
        request = sim_reader_read(reader, buffer, sizeof(buffer));
    world_activity(1);
    sim_set_irql(APC_LEVEL);
    sim_thread_create(&(struct sim_thread){.pid = WORLD_USER}, NULL);
    sim_registry_set_value(&(struct sim_registry){.key = STR("\\REGISTRY\\MACHINE\\Test"),
                                                  .name = STR("v"),
                                                  .type = REG_DWORD,
                                                  .data = &flush,
                                                  .size = 4});
    sim_set_irql(PASSIVE_LEVEL);
    sim_power_suspend();
    sim_power_resume(WORLD_SECOND * 3600, true);
    sim_bfe_set(SIM_BFE_STOPPED);
    sim_bfe_set(SIM_BFE_RUNNING);
    sim_settle();
    sim_clock_advance(2 * WORLD_SECOND);
    if (reader) {
        sim_reader_control(reader, KDA_IOCTL_STATUS, &status, sizeof(status), &status,
                           sizeof(status), NULL);
        sim_reader_control(reader, KDA_IOCTL_FLUSH, &flush, sizeof(flush), NULL, 0, NULL);
        sim_reader_kill(reader);
        sim_request_free(request);
    }
}

static unsigned sweep_use(enum sim_fault_scope scope)
{
    unsigned n;
    bool fired = true;

    for (n = 1; n < 5000 && fired; n++) {
        begin();
        world_load();
        sim_fault_scope(scope);
        sim_fault_arm(n);
        use();
        fired = sim_fault_fired();
        sim_fault_arm(0);
        world_unload();
        world_end();
    }
    assert_false(fired);
    return n;
}

static void faults_in_use(void **state)
{
    (void)state;
    assert_true(sweep_use(SIM_FAULT_THIS_THREAD) > 20);
    sweep_use(SIM_FAULT_OTHERS);
}

static unsigned sweep_end(enum sim_fault_scope scope)
{
    unsigned n;
    bool fired = true;

    for (n = 1; n < 2000 && fired; n++) {
        begin();
        world_load();
        world_activity(n);
        sim_fault_scope(scope);
        sim_fault_arm(n);
        sim_system_shutdown();
        world_activity(n + 1);
        assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
        fired = sim_fault_fired();
        sim_fault_arm(0);
        assert_int_equal(sim_ledger_count(), 0);
        world_end();
    }
    assert_false(fired);
    return n;
}

static void faults_at_the_end(void **state)
{
    (void)state;
    assert_true(sweep_end(SIM_FAULT_THIS_THREAD) > 2);
    assert_true(sweep_end(SIM_FAULT_OTHERS) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_at_load),
        cmocka_unit_test(faults_in_use),
        cmocka_unit_test(faults_at_the_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
