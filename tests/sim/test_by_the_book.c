/*
 * test_by_the_book.c - what the documentation says and a system seldom shows: links in the
 * registry, transactions, removals that are refused, ids that are not there yet, filters that
 * somebody deletes; and how the driver tells what does not work.
 */
#include "world.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#define KEY STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test")

static void set_value(void)
{
    static const uint32_t data = 7;

    sim_registry_set_value(&(struct sim_registry){
        .key = KEY, .name = STR("v"), .type = REG_DWORD, .data = &data, .size = 4});
}

static void connect_from(uint32_t pid, uint16_t port)
{
    const struct sim_flow flow = {.version = 4,
                                  .protocol = 6,
                                  .local = {10, 0, 0, 1},
                                  .remote = {192, 0, 2, 7},
                                  .local_port = 50000,
                                  .remote_port = port,
                                  .pid = pid};
    uint64_t id;

    sim_net_connect(&flow, &id);
    sim_net_close(id);
}

static void connect_to(uint16_t port)
{
    connect_from(WORLD_USER, port);
}

static struct kda_control_troubles troubles;

static void ask_troubles(void)
{
    struct sim_reader *reader = NULL;
    size_t returned = 0;

    assert_int_equal(sim_reader_open(STR("\\??\\KDAMonitor"), SIM_CALLER_ADMIN, 1, &reader), 0);
    assert_int_equal(sim_reader_control(reader, KDA_IOCTL_TROUBLES, NULL, 0, &troubles,
                                        sizeof(troubles), &returned),
                     0);
    assert_int_equal(returned, sizeof(troubles));
    sim_reader_close(reader);
}

static const struct kda_control_sensor *sensor(const char *name)
{
    for (uint32_t i = 0; i < troubles.sensor_count; i++) {
        if (strcmp(troubles.sensors[i].name, name) == 0)
            return &troubles.sensors[i];
    }
    fail_msg("no sensor %s", name);
    return NULL;
}

/* --- registry -------------------------------------------------------------------------------- */

/* A link was met: nothing was made, and the object of the post call is no object. */
static void link_in_the_registry(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    assert_int_equal(sim_registry_create_key(&(struct sim_registry){
                         .key = STR("\\REGISTRY\\MACHINE\\SYSTEM\\CurrentControlSet\\New"),
                         .link = SIM_LINK_RESTART}),
                     STATUS_SUCCESS);
    world_unload();
    world_read(&log);
    world_line(&log, "registry.key_create", "ControlSet001", "\"disposition\":\"created\"", NULL);
    assert_int_equal(world_count(&log, "registry.key_create", NULL), 1);
    world_free(&log);
    world_end();
}

static void transactions_are_marked(void **state)
{
    struct world_log log;
    struct sim_registry op = {.key = KEY, .name = STR("v")};

    (void)state;
    world_begin(NULL);
    world_load();
    sim_set_transaction(true);
    sim_registry_create_key(&op);
    set_value();
    sim_registry_delete_value(&op);
    op.name = STR("n");
    sim_registry_rename_key(&op);
    /* The object of a creation that fails says nothing. */
    op.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Refused");
    op.refusal = SIM_REFUSE_AFTER_POST;
    sim_registry_create_key(&op);
    op.refusal = SIM_REFUSE_NOT;
    sim_set_transaction(false);
    op.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\n");
    sim_registry_delete_key(&op);
    world_unload();
    world_read(&log);
    world_line(&log, "registry.key_create", "Test", "\"transaction\":true", NULL);
    world_line(&log, "registry.key_create", "Refused", "\"transaction\":true", NULL);
    world_line(&log, "registry.value_set", "\"transaction\":true", NULL);
    world_line(&log, "registry.value_delete", "\"transaction\":true", NULL);
    world_line(&log, "registry.key_rename", "\"transaction\":true", NULL);
    assert_int_equal(world_count(&log, "registry.key_delete", "transaction", NULL), 0);
    assert_int_equal(world_count(&log, "registry.key_delete", NULL), 1);
    world_free(&log);
    world_end();
}

/* --- start and stop -------------------------------------------------------------------------- */

/* Whatever a removal answers but success: the code stays, and what still comes finds it whole. */
static void removals_are_refused(void **state)
{
    /* In the order of the stop: eight callouts, registry, image, thread, process. */
    static const unsigned refused[] = {0, 7, 8, 9, 10, 11};

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        world_begin(NULL);
        world_load();
        sim_refuse_removal_after(refused[i], STATUS_UNSUCCESSFUL, 1);
        assert_int_equal(sim_driver_unload(), STATUS_DEVICE_BUSY);
        world_verify();
        connect_to(1);
        set_value();
        sim_shutdown_machine();
    }
    /* In use is asked again. */
    world_begin(NULL);
    world_load();
    sim_refuse_removal((int32_t)0xC022000A, 5);
    world_unload();
    world_end();
}

static void id_of(char id[40])
{
    struct world_log log;

    world_begin(NULL);
    sim_clock_delays(true);
    sim_status_next("ExUuidCreate", STATUS_RETRY, 1000);
    world_load();
    world_unload();
    world_read(&log);
    memcpy(id, strstr(log.lines[0].text, "\"log\":\"") + 7, 38);
    id[38] = '\0';
    world_free(&log);
    world_end();
}

static void ids_come_later(void **state)
{
    char id[40];

    (void)state;
    world_begin(NULL);
    sim_clock_delays(true);
    sim_status_next("ExUuidCreate", STATUS_RETRY, 3);
    world_load();
    ask_troubles();
    assert_string_equal(troubles.failures[0].call, "ExUuidCreate");
    assert_int_equal(troubles.failures[0].status, STATUS_RETRY);
    assert_int_equal(troubles.failures[0].count, 3);
    world_unload();
    world_end();
    /* Or never: one is made, with the version of a random one. */
    id_of(id);
    assert_int_equal(id[15], '4');
    assert_non_null(strchr("89ab", id[20]));
}

/* A sensor that cannot be started is off, and the log and the request say so; the others record. */
static void a_sensor_is_off(void **state)
{
    struct world_log log;
    bool met = false;

    (void)state;
    for (uint64_t n = 1; !met; n++) {
        world_begin(NULL);
        sim_fault_scope(SIM_FAULT_THIS_THREAD);
        sim_fault_arm(n);
        int32_t status = sim_driver_load(DriverEntry);
        assert_true(sim_fault_fired());
        met = strcmp(sim_fault_name(), "CmRegisterCallbackEx") == 0;
        sim_fault_arm(0);
        if (met) {
            assert_int_equal(status, STATUS_SUCCESS);
            ask_troubles();
            assert_int_equal(sensor("registry")->state, KDA_SENSOR_OFF);
            assert_string_equal(sensor("registry")->call, "CmRegisterCallbackEx");
            assert_int_equal(sensor("registry")->status, STATUS_INSUFFICIENT_RESOURCES);
            assert_true(sensor("registry")->since != 0);
            assert_int_equal(sensor("process")->state, KDA_SENSOR_ARMED);
            set_value();
            assert_true(world_wait("sensor.start", "\"registry\":{\"state\":\"off\",\"since\":\""));
            assert_true(world_wait("sensor.start", "\"process\":{\"state\":\"armed\""));
            assert_true(
                world_wait("sensor.start", "\"call\":\"CmRegisterCallbackEx\",\"place\":\""));
            connect_to(9);
            world_unload();
            world_read(&log);
            assert_int_equal(world_count(&log, "registry.value_set", NULL), 0);
            assert_int_equal(world_count(&log, "network.connect", NULL), 1);
            world_line(&log, "sensor.stop", "\"call\":\"CmRegisterCallbackEx\"",
                       "\"status\":\"0xc000009a\"", NULL);
            world_free(&log);
        }
        world_end();
    }
}

/* --- network --------------------------------------------------------------------------------- */

/* On each system the flags that it knows. */
static void offloads_stay_on(void **state)
{
    static const uint32_t builds[] = {17763, 22621, 26100};

    (void)state;
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
        world_begin(&(struct sim_options){.build = builds[i]});
        world_load();
        assert_int_equal(sim_wfp_callouts(), 8);
        assert_int_equal(sim_wfp_switched_off(), 0);
        world_unload();
        world_end();
    }
}

static void somebody_deletes_a_filter(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    for (unsigned n = 0; n < 8; n++) {
        assert_true(sim_wfp_delete_filter(n));
        sim_settle();
        assert_int_equal(sim_wfp_filters(), 8);
        connect_to((uint16_t)(100 + n));
    }
    ask_troubles();
    assert_string_equal(troubles.failures[0].call, "filter deleted by others");
    assert_int_equal(troubles.failures[0].count, 8);
    assert_int_equal(sensor("network")->state, KDA_SENSOR_ARMED);
    assert_true(world_wait("sensor.status", "filter deleted by others"));
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "network.connect", NULL), 8);
    world_free(&log);
    world_end();
}

/* The engine runs and refuses: that is told, with the call, and asked again. */
static void the_engine_refuses(void **state)
{
    static const struct {
        const char *call;
        uint32_t status;
    } refusals[] = {{"FwpmEngineOpen0", 0xC0020017},
                    {"FwpmTransactionBegin0", 0xC0220012},
                    {"FwpmCalloutAdd0", 0xC0220018},
                    {"FwpmFilterAdd0", 0xC0220024},
                    {"FwpmTransactionCommit0", 0xC0220010}};

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        world_begin(NULL);
        sim_status_next(refusals[i].call, (int32_t)refusals[i].status, 1);
        world_load();
        ask_troubles();
        assert_int_equal(sensor("network")->state, KDA_SENSOR_DEGRADED);
        assert_string_equal(sensor("network")->call, refusals[i].call);
        assert_int_equal((uint32_t)sensor("network")->status, refusals[i].status);
        assert_string_equal(troubles.failures[0].call, refusals[i].call);
        assert_int_equal((uint32_t)troubles.failures[0].status, refusals[i].status);
        assert_true(world_wait("sensor.start", refusals[i].call));
        for (unsigned tries = 0; tries < 100 && sim_wfp_filters() != 8; tries++) {
            sim_clock_advance(WORLD_SECOND);
            usleep(20000);
            sim_settle();
        }
        assert_int_equal(sim_wfp_filters(), 8);
        ask_troubles();
        assert_int_equal(sensor("network")->state, KDA_SENSOR_ARMED);
        world_unload();
        world_end();
    }
}

static void the_engine_is_away(void **state)
{
    uint64_t since;

    (void)state;
    world_begin(&(struct sim_options){.bfe = SIM_BFE_STOPPED});
    world_load();
    ask_troubles();
    assert_int_equal(sensor("network")->state, KDA_SENSOR_DEGRADED);
    assert_string_equal(sensor("network")->call, "FwpmBfeStateGet0");
    since = sensor("network")->since;
    assert_true(since != 0);
    assert_true(world_wait("sensor.start", "\"network\":{\"state\":\"degraded\""));
    ask_troubles();
    assert_int_equal(sensor("network")->since, since);
    sim_bfe_set(SIM_BFE_RUNNING);
    sim_settle();
    ask_troubles();
    assert_int_equal(sensor("network")->state, KDA_SENSOR_ARMED);
    assert_int_equal(sensor("network")->call[0], 0);
    assert_true(world_wait("sensor.status", "\"network\":{\"state\":\"armed\""));
    world_unload();
    world_end();
}

/* --- failed calls ---------------------------------------------------------------------------- */

static void the_last_failures(void **state)
{
    (void)state;
    world_begin(NULL);
    world_load();
    for (int32_t i = 0; i < 70; i++)
        KdaCalled("place", "call", (NTSTATUS)(int32_t)(0xC0000100 + (uint32_t)i));
    for (int32_t i = 0; i < 5; i++)
        KdaCalled("place", "call", (NTSTATUS)0xC0000110);
    assert_int_equal(KdaCalled("place", "call", STATUS_PENDING), STATUS_PENDING);
    ask_troubles();
    assert_int_equal(troubles.total, 75);
    assert_int_equal(troubles.failure_count, 64);
    assert_int_equal((uint32_t)troubles.failures[0].status, 0xC0000110);
    assert_int_equal(troubles.failures[0].count, 6);
    assert_true(troubles.failures[0].last >= troubles.failures[0].first);
    assert_int_equal((uint32_t)troubles.failures[1].status, 0xC0000145);
    assert_int_equal((uint32_t)troubles.failures[63].status, 0xC0000106);
    assert_string_equal(troubles.failures[63].place, "place");
    assert_string_equal(troubles.failures[63].call, "call");
    world_unload();
    world_end();
}

/* --- the writer ------------------------------------------------------------------------------ */

static pthread_t asked_by;
static _Atomic unsigned asked;

static void note_thread(void *context)
{
    (void)context;
    asked_by = pthread_self();
    asked++;
}

/* The creator of a thread elsewhere does not wait until that memory was looked at. */
static void foreign_memory(void **state)
{
    (void)state;
    world_begin(NULL);
    world_load();
    asked = 0;
    sim_meanwhile("ZwQueryVirtualMemory", 1, note_thread, NULL);
    sim_thread_create(&(struct sim_thread){.pid = WORLD_USER, .start_address = 0x7FF600001000},
                      NULL);
    assert_true(world_wait("thread.create", "\"start_address\":\"0x7ff600001000\""));
    assert_int_equal(asked, 1);
    assert_false(pthread_equal(asked_by, pthread_self()));
    sim_meanwhile("ZwQueryVirtualMemory", 0, NULL, NULL);
    world_unload();
    world_end();
}

/* Nothing happens: the writer sleeps. Something happens: it does not wait for its second. */
static void idle(void **state)
{
    (void)state;
    world_begin(&(struct sim_options){.clock = SIM_CLOCK_HOST});
    sim_settings_set_dword(STR("IdleMilliseconds"), 10);
    world_load();
    usleep(300000);
    asked = 0;
    sim_meanwhile("KeWaitForSingleObject", 5, note_thread, NULL);
    usleep(2200000);
    assert_int_equal(asked, 0);
    sim_meanwhile("KeWaitForSingleObject", 0, NULL, NULL);
    set_value();
    usleep(200000);
    {
        struct world_log log;
        world_read(&log);
        assert_int_equal(world_count(&log, "registry.value_set", NULL), 1);
        world_free(&log);
    }
    world_unload();
    world_end();
}

/* --- many processors ------------------------------------------------------------------------- */

#define CPUS 8u
#define TURNS 100u

/* One processor after the other, each with a process of its own: no lock and no count of run-down
 * protection is handed on with each event. */
static void processors_meet_seldom(void **state)
{
    (void)state;
    world_begin(&(struct sim_options){.cpus = CPUS});
    for (uint32_t cpu = 0; cpu < CPUS; cpu++)
        assert_int_equal(sim_process_existing(&(struct sim_process){.pid = 3000 + 4 * cpu}, NULL),
                         0);
    world_load();
    sim_crossings_watch();
    for (uint32_t i = 0; i < CPUS * TURNS; i++) {
        sim_set_cpu(i % CPUS);
        assert_true(sim_enter(3000 + 4 * (i % CPUS), 0));
        set_value();
        connect_from(3000 + 4 * (i % CPUS), (uint16_t)(1000 + i));
    }
    /* Each would be 800; the locks of the flows are met by chance. */
    assert_in_range(sim_crossings_most(), 0, TURNS);
    sim_set_cpu(0);
    sim_enter(4, 0);
    world_unload();
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(link_in_the_registry),
        cmocka_unit_test(transactions_are_marked),
        cmocka_unit_test(removals_are_refused),
        cmocka_unit_test(ids_come_later),
        cmocka_unit_test(a_sensor_is_off),
        cmocka_unit_test(offloads_stay_on),
        cmocka_unit_test(somebody_deletes_a_filter),
        cmocka_unit_test(the_engine_refuses),
        cmocka_unit_test(the_engine_is_away),
        cmocka_unit_test(the_last_failures),
        cmocka_unit_test(foreign_memory),
        cmocka_unit_test(idle),
        cmocka_unit_test(processors_meet_seldom),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
