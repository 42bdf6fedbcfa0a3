/*
 * test_sim_world.c - the machine misbehaves: clock, power, shutdown, disk, filter engine, levels.
 */
#include "world.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static void one_value(const uint16_t *name, size_t count)
{
    static const uint32_t number = 1;

    sim_registry_set_value(&(struct sim_registry){.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\W"),
                                                  .name = {name, count},
                                                  .type = REG_DWORD,
                                                  .data = &number,
                                                  .size = 4});
}
#define VALUE(text) one_value(u##text, sizeof(u##text) / 2 - 1)

/* --- levels ---------------------------------------------------------------------------------- */

static void every_level(void **state)
{
    struct sim_flow flow = {
        .version = 6, .protocol = 6, .local_port = 1, .remote_port = 2, .pid = WORLD_USER};
    static uint16_t path[3000];
    const uint32_t number = 9;
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    for (uint8_t irql = PASSIVE_LEVEL; irql <= APC_LEVEL; irql++) {
        struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Levels"),
                                  .name = STR("v"),
                                  .type = REG_DWORD,
                                  .data = &number,
                                  .size = 4};
        uint32_t tid;
        sim_set_irql(irql);
        assert_int_equal(sim_thread_create(&(struct sim_thread){.pid = WORLD_USER}, &tid), 0);
        sim_thread_exit(tid, 1);
        sim_registry_create_key(&op);
        sim_registry_set_value(&op);
        sim_registry_delete_value(&op);
        op.name = STR("Other");
        sim_registry_rename_key(&op);
        op.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Other");
        sim_registry_delete_key(&op);
    }
    for (uint8_t irql = PASSIVE_LEVEL; irql <= DISPATCH_LEVEL; irql += DISPATCH_LEVEL) {
        uint64_t id;
        sim_set_irql(irql);
        for (flow.version = 4; flow.version <= 6; flow.version += 2) {
            sim_net_connect(&flow, &id);
            sim_net_authorize(&flow, false, true, false, id);
            sim_net_accept(&flow, NULL);
            sim_net_listen(&flow);
            sim_net_authorize(&flow, true, false, true, 0);
        }
    }
    sim_set_irql(DISPATCH_LEVEL);
    sim_power_suspend();
    sim_power_resume(WORLD_SECOND, false);
    /* Of a process that nobody knows, with a path that needs more than a block of the list. */
    for (size_t i = 0; i < 3000; i++)
        path[i] = (uint16_t)('a' + i % 26);
    flow.pid = 99996;
    flow.image = (struct sim_str){path, 3000};
    flow.version = 4;
    flow.remote_port = 777;
    sim_net_connect(&flow, NULL);
    sim_set_irql(PASSIVE_LEVEL);
    world_unload();
    world_read(&log);
    /* Who could not ask says so. */
    assert_int_equal(world_count(&log, "thread.create", "\"start_address\":\"irql\"", NULL), 1);
    assert_int_equal(world_count(&log, "registry.value_set", "\"data\":9", NULL), 2);
    assert_int_equal(world_count(&log, "registry.key_rename", "\"new_name\":\"Other\"", NULL), 2);
    assert_int_equal(world_count(&log, "network.connect", NULL), 5);
    world_line(&log, "network.connect", "\"remote_port\":777", "\"image\":\"abcdef", NULL);
    assert_int_equal(world_count(&log, "network.accept", NULL), 4);
    assert_int_equal(world_count(&log, "network.listen", NULL), 4);
    world_free(&log);
    world_end();
}

/* --- time ------------------------------------------------------------------------------------ */

static void clock_goes_back(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    for (int i = 0; i < 10; i++) {
        VALUE("tick");
        sim_clock_advance(2 * WORLD_SECOND);
        sim_clock_correct(i % 2 ? (int64_t)(3600 * WORLD_SECOND) : -(int64_t)(7200 * WORLD_SECOND));
        usleep(2000);
    }
    world_unload();
    world_read(&log);
    for (size_t i = 1; i < log.count; i++)
        assert_true(log.lines[i].time >= log.lines[i - 1].time);
    world_free(&log);
    world_end();
}

static void sleep_and_wake(void **state)
{
    struct world_log log;
    uint64_t before = 0;
    uint64_t after = 0;

    (void)state;
    for (int stops = 0; stops < 2; stops++) {
        world_begin(NULL);
        world_load();
        VALUE("before");
        assert_true(world_wait("registry.value_set", "\"before\""));
        sim_power_suspend();
        sim_power_resume(8 * 3600 * WORLD_SECOND, stops);
        sim_clock_advance(10); /* what comes at the very moment of the resume is still before it */
        VALUE("after");
        world_unload();
        world_read(&log);
        for (size_t i = 1; i < log.count; i++) {
            assert_true(log.lines[i].time >= log.lines[i - 1].time);
            if (strstr(log.lines[i].text, "\"value\":\"before\""))
                before = log.lines[i].time;
            if (strstr(log.lines[i].text, "\"value\":\"after\""))
                after = log.lines[i].time;
        }
        /* The night is in the log's times, whatever the counter saw of it. */
        assert_true(after - before >= 8 * 3600 * WORLD_SECOND);
        assert_true(after - before < 9 * 3600 * WORLD_SECOND);
        world_free(&log);
        world_end();
    }
}

static void shutdown_and_on(void **state)
{
    struct world_log log;
    const char *line;

    (void)state;
    world_begin(NULL);
    world_load();
    VALUE("first");
    sim_system_shutdown();
    /* All of it is on the disk when the notification returns. */
    world_read(&log);
    world_line(&log, "registry.value_set", "\"first\"", NULL);
    line = world_line(&log, "sensor.shutdown", NULL);
    assert_string_equal(log.lines[log.count - 1].text, line);
    world_free(&log);
    world_verify();
    VALUE("second");
    assert_true(world_wait("registry.value_set", "\"second\""));
    world_unload();
    world_end();
}

/* --- disk ------------------------------------------------------------------------------------ */

static void disk_full(void **state)
{
    struct world_log log;
    uint64_t writes;
    bool late = false;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("RingShards"), 1);
    sim_settings_set_dword(STR("RingShardBytes"), 65536);
    world_load();
    VALUE("early");
    assert_true(world_wait("registry.value_set", "\"early\""));
    sim_disk_free(0);
    for (unsigned i = 0; i < 2000; i++) {
        world_activity(i);
        if (i % 100 == 0) {
            sim_clock_advance(WORLD_SECOND);
            usleep(1000);
        }
    }
    writes = sim_disk_writes();
    sim_disk_free(UINT64_MAX);
    for (int i = 0; i < 2000 && sim_disk_writes() == writes; i++) {
        sim_clock_advance(WORLD_SECOND);
        usleep(1000);
    }
    /* The ring may be full for a while yet. */
    for (int i = 0; i < 20 && !late; i++) {
        VALUE("late");
        late = world_wait("registry.value_set", "\"late\"");
    }
    assert_true(late);
    assert_true(world_wait("sensor.loss", "\"lost\""));
    world_unload();
    world_read(&log);
    assert_true(world_count(&log, "sensor.loss", NULL) >= 1);
    world_free(&log);
    world_end();
}

static void write_errors(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    for (unsigned i = 0; i < 30; i++) {
        sim_file_fail(SIM_FILE_WRITE | SIM_FILE_FLUSH, STATUS_IO_DEVICE_ERROR, i % 5);
        world_activity(i);
        sim_clock_advance(2 * WORLD_SECOND);
        usleep(2000);
    }
    sim_file_fail(0, 0, 0);
    world_unload();
    world_read(&log);
    assert_true(world_count(&log, "process.create", NULL) + world_count(&log, "sensor.loss", NULL) >
                0);
    world_free(&log);
    world_end();
}

/* The folder cannot be made at first: the driver loads and writes when it can. */
static void folder_missing(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_file_fail(SIM_FILE_CREATE, STATUS_OBJECT_PATH_NOT_FOUND, UINT32_MAX);
    if (sim_driver_load(DriverEntry) >= 0) {
        VALUE("early");
        sim_clock_advance(WORLD_SECOND);
        usleep(2000);
        sim_file_fail(0, 0, 0);
        VALUE("late");
        assert_true(world_wait("registry.value_set", "\"late\""));
        world_unload();
        world_read(&log);
        world_line(&log, "sensor.start", NULL);
        world_free(&log);
    } else {
        assert_int_equal(sim_ledger_count(), 0);
    }
    world_end();
}

static void folder_on_missing_path(void **state)
{
    (void)state;
    world_begin(NULL);
    sim_settings_set_string(STR("LogDirectory"), STR("\\??\\C:\\No\\Such\\Folder"));
    if (sim_driver_load(DriverEntry) >= 0) {
        char path[1200];
        VALUE("v");
        sim_clock_advance(WORLD_SECOND);
        /* Somebody makes it. */
        snprintf(path, sizeof(path), "%s/No", sim_disk());
        mkdir(path, 0777);
        snprintf(path, sizeof(path), "%s/No/Such", sim_disk());
        mkdir(path, 0777);
        for (int i = 0; i < 200 && sim_disk_writes() == 0; i++) {
            sim_clock_advance(WORLD_SECOND);
            usleep(2000);
        }
        assert_true(sim_disk_writes() > 0);
        assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    }
    assert_int_equal(sim_ledger_count(), 0);
    world_end();
}

/* The disk stays full to the end: the stop does not wait for it. */
static void stop_with_full_disk(void **state)
{
    (void)state;
    world_begin(NULL);
    world_load();
    sim_disk_free(0);
    for (unsigned i = 0; i < 100; i++)
        world_activity(i);
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    assert_int_equal(sim_ledger_count(), 0);
    world_end();
}

/* What is queued while the writer is busy is written at the stop. */
static void stop_drains(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    sim_disk_slow(200000);
    VALUE("first");
    sim_clock_advance(2 * WORLD_SECOND);
    usleep(50000); /* it is writing now */
    for (int i = 0; i < 50; i++)
        VALUE("queued");
    world_unload();
    sim_disk_slow(0);
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", "\"queued\"", NULL), 50);
    assert_non_null(strstr(log.lines[log.count - 1].text, "\"sensor.stop\""));
    world_free(&log);
    world_end();
}

static void slow_disk_storm(void **state)
{
    struct world_log log;
    uint64_t written;
    uint64_t lost;

    (void)state;
    world_begin(&(struct sim_options){.clock = SIM_CLOCK_HOST});
    sim_settings_set_dword(STR("RingShards"), 1);
    sim_settings_set_dword(STR("RingShardBytes"), 65536);
    world_load();
    sim_disk_slow(20000);
    sim_enter(WORLD_USER, 0);
    for (unsigned i = 0; i < 20000; i++) {
        VALUE("storm");
        if (i % 1000 == 0) {
            sim_enter(4, 0);
            assert_int_equal(sim_process_create(
                                 &(struct sim_process){.image = STR("\\in\\the\\storm.exe")}, NULL),
                             0);
            sim_enter(WORLD_USER, 0);
        }
    }
    sim_enter(4, 0);
    sim_disk_slow(0);
    world_unload();
    world_totals(&written, &lost);
    assert_true(lost > 0);
    world_read(&log);
    /* Registry events are lost in the storm, no process is. */
    assert_int_equal(world_count(&log, "process.create", "storm.exe", NULL), 20);
    world_free(&log);
    world_end();
}

/* --- filter engine --------------------------------------------------------------------------- */

static void connect_to(uint16_t port)
{
    sim_net_connect(&(struct sim_flow){.version = 4,
                                       .protocol = 6,
                                       .local = {10, 0, 0, 1},
                                       .remote = {192, 0, 2, 1},
                                       .remote_port = port,
                                       .pid = WORLD_USER},
                    NULL);
}

static void engine_comes_later(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(&(struct sim_options){.bfe = SIM_BFE_STARTING});
    world_load();
    assert_int_equal(sim_wfp_filters(), 0);
    connect_to(1);
    VALUE("anyway");
    sim_bfe_set(SIM_BFE_RUNNING);
    sim_settle();
    assert_true(sim_wfp_filters() > 0);
    connect_to(2);
    world_unload();
    assert_int_equal(sim_wfp_filters(), 0);
    assert_int_equal(sim_wfp_callouts(), 0);
    world_read(&log);
    world_line(&log, "registry.value_set", "\"anyway\"", NULL);
    assert_int_equal(world_count(&log, "network.connect", NULL), 1);
    world_free(&log);
    world_end();
}

static void engine_never_comes(void **state)
{
    (void)state;
    world_begin(&(struct sim_options){.bfe = SIM_BFE_STOPPED});
    world_load();
    connect_to(1);
    VALUE("v");
    world_unload();
    world_end();
}

static void engine_restarts(void **state)
{
    struct world_log log;
    unsigned filters;

    (void)state;
    world_begin(NULL);
    world_load();
    filters = sim_wfp_filters();
    assert_true(filters > 0);
    for (uint16_t i = 0; i < 5; i++) {
        connect_to((uint16_t)(100 + i));
        sim_bfe_set(SIM_BFE_STOPPED);
        sim_settle();
        assert_int_equal(sim_wfp_filters(), 0);
        connect_to((uint16_t)(200 + i));
        sim_bfe_set(SIM_BFE_STARTING);
        sim_bfe_set(SIM_BFE_RUNNING);
        sim_settle();
        assert_int_equal(sim_wfp_filters(), filters);
    }
    connect_to(300);
    /* It stops, and is not up again when the driver goes. */
    sim_bfe_set(SIM_BFE_STOPPED);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "network.connect", "\"remote_port\":10", NULL), 5);
    assert_int_equal(world_count(&log, "network.connect", "\"remote_port\":20", NULL), 0);
    assert_int_equal(world_count(&log, "network.connect", "\"remote_port\":300", NULL), 1);
    world_free(&log);
    world_end();
}

static void engine_busy_for_a_while(void **state)
{
    (void)state;
    world_begin(NULL);
    world_load();
    sim_wfp_busy(5);
    world_unload();
    assert_int_equal(sim_wfp_callouts(), 0);
    world_end();
}

/* It never lets the callouts go: they are waited for together, then the code stays, and what still
 * comes finds it whole. */
static void engine_busy_for_ever(void **state)
{
    struct world_log log;
    uint64_t begin;

    (void)state;
    world_begin(NULL);
    world_load();
    assert_int_equal(sim_wfp_callouts(), 8);
    sim_wfp_busy(UINT32_MAX);
    sim_clock_delays(true);
    begin = sim_clock_counter();
    assert_int_equal(sim_driver_unload(), STATUS_DEVICE_BUSY);
    assert_in_range((sim_clock_counter() - begin) / WORLD_SECOND, 30, 35);
    assert_int_equal(sim_wfp_callouts(), 8);
    world_verify();
    world_read(&log);
    assert_int_equal(world_count(&log, "sensor.stop", NULL), 1);
    world_free(&log);
    connect_to(1);
    VALUE("v");
    sim_shutdown_machine();
}

/* Whether it will be authorized is not known at that moment: nothing in the line says so. */
static void network_attempt(void **state)
{
    struct sim_flow flow = {.version = 4,
                            .protocol = 6,
                            .local = {10, 1, 2, 3},
                            .remote = {192, 0, 2, 1},
                            .local_port = 50000,
                            .remote_port = 22,
                            .pid = WORLD_USER};
    const char *first, *second;
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_set_string(STR("Kinds"), STR("*"));
    world_load();
    sim_net_authorize(&flow, false, false, false, 0);
    sim_net_authorize(&flow, true, false, true, 0);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "network.attempt", NULL), 2);
    first = strstr(world_line(&log, "network.attempt", "\"outbound\"", NULL), "\"pid\"");
    second = strstr(world_line(&log, "network.attempt", "\"inbound\"", NULL), "\"pid\"");
    assert_memory_equal(first, second, (size_t)(strstr(first, "\"outbound\"") - first));
    assert_string_equal(strstr(first, "\"outbound\"") + 10, "}");
    assert_string_equal(strstr(second, "\"inbound\"") + 9, "}");
    world_free(&log);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level),
        cmocka_unit_test(clock_goes_back),
        cmocka_unit_test(sleep_and_wake),
        cmocka_unit_test(shutdown_and_on),
        cmocka_unit_test(disk_full),
        cmocka_unit_test(write_errors),
        cmocka_unit_test(folder_missing),
        cmocka_unit_test(folder_on_missing_path),
        cmocka_unit_test(stop_with_full_disk),
        cmocka_unit_test(stop_drains),
        cmocka_unit_test(slow_disk_storm),
        cmocka_unit_test(engine_comes_later),
        cmocka_unit_test(engine_never_comes),
        cmocka_unit_test(engine_restarts),
        cmocka_unit_test(engine_busy_for_a_while),
        cmocka_unit_test(engine_busy_for_ever),
        cmocka_unit_test(network_attempt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
