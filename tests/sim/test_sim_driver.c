/*
 * test_sim_driver.c - what the driver records of single happenings, and its whole life.
 */
#include "world.h"

#include <pthread.h>

static void load_and_unload(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    world_unload();
    world_read(&log);
    assert_true(log.count >= 2);
    assert_int_equal(log.lines[0].id, 0);
    assert_non_null(strstr(log.lines[0].text, "\"kind\":\"sensor.start\""));
    assert_non_null(strstr(log.lines[0].text, "\"host\":\"SIM\""));
    assert_non_null(strstr(log.lines[log.count - 1].text, "\"kind\":\"sensor.stop\""));
    /* What runs already is told before anything else happens. */
    world_line(&log, "process.existing", "\"pid\":2000,", "explorer.exe /x", "\"parent_pid\":4,",
               NULL);
    world_line(&log, "process.existing", "\"pid\":2400,", "T\u00e9st", "\u4e2d\u6587",
               "S-1-5-21-1-2-3-1001", "\"integrity\":\"medium\"", NULL);
    world_line(&log, "process.existing", "\"pid\":4,", NULL);
    world_free(&log);
    assert_true(sim_disk_restricted("Windows/KDAMonitor"));
    world_end();
}

static void process_life(void **state)
{
    struct sim_process process = {.pid = 3000,
                                  .first_tid = 3004,
                                  .parent_pid = WORLD_USER,
                                  .image = STR("\\Device\\HarddiskVolume3\\a\\child.exe"),
                                  .command_line = STR("child \"x\\y\" \t"),
                                  .session = 3,
                                  .elevated = true,
                                  .integrity = 0x3000,
                                  .protection = 0x72,
                                  .signature_level = 8};
    struct world_log log;
    const char *line;
    size_t created = 0;
    size_t exited = 0;

    (void)state;
    world_begin(NULL);
    world_load();
    assert_true(sim_enter(WORLD_SHELL, 0));
    assert_int_equal(sim_process_create(&process, NULL), 0);
    assert_true(sim_enter(3000, 0));
    assert_true(sim_enter(4, 0));
    assert_true(sim_process_exit(3000, 0xC0000005));
    world_unload();
    world_read(&log);
    line = world_line(&log, "process.create", "\"pid\":3000,", NULL);
    assert_non_null(strstr(line, "\"command_line\":\"child \\\"x\\\\y\\\" \\t\""));
    assert_non_null(strstr(line, "\"parent_pid\":2400,"));
    assert_non_null(strstr(line, "\"creator_pid\":2000,\"creator_tid\":2004,"));
    assert_non_null(strstr(line, "\"session\":3,\"user_sid\":\"S-1-5-18\""));
    assert_non_null(strstr(line, "\"integrity\":\"high\",\"elevated\":true"));
    world_line(&log, "process.exit", "\"pid\":3000,", "\"exit_code\":3221225477", "child.exe",
               NULL);
    world_line(&log, "thread.exit", "\"tid\":3004", NULL);
    for (size_t i = 0; i < log.count; i++) {
        if (strstr(log.lines[i].text, "\"process.create\"") && log.lines[i].pid == 3000)
            created = i;
        if (log.lines[i].pid == 3000 && !created)
            fail_msg("before its creation: %s", log.lines[i].text);
        if (strstr(log.lines[i].text, "\"process.exit\"") && log.lines[i].pid == 3000)
            exited = i;
    }
    assert_true(created < exited);
    world_free(&log);
    world_end();
}

/* The name that the notification has is only used if it is complete. */
static void process_without_names(void **state)
{
    struct sim_process process = {.pid = 3000,
                                  .image = STR("\\Device\\HarddiskVolume3\\a\\child.exe"),
                                  .command_line = STR("child"),
                                  .no_image_name = true,
                                  .no_command_line = true,
                                  .no_open_name = true};
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    assert_int_equal(sim_process_create(&process, NULL), 0);
    process.pid = 3100;
    process.wsl = true;
    assert_int_equal(sim_process_create(&process, NULL), 0);
    world_unload();
    world_read(&log);
    world_line(&log, "process.create", "\"pid\":3000,", "\"command_line\":\"unsupported\"", NULL);
    world_line(&log, "process.create", "\"pid\":3100,", "\"subsystem\":\"wsl\"", NULL);
    world_free(&log);
    world_end();
}

/* One that no notification told is told when it does something. */
static void process_never_told(void **state)
{
    const struct sim_process process = {.pid = 7000,
                                        .image = STR("\\Device\\HarddiskVolume3\\late.exe"),
                                        .command_line = STR("late")};
    const uint32_t number = 1;
    struct world_log log;
    uint64_t told = UINT64_MAX;

    (void)state;
    world_begin(NULL);
    world_load();
    assert_int_equal(sim_process_existing(&process, NULL), 0);
    sim_enter(7000, 0);
    sim_registry_set_value(&(struct sim_registry){.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\L"),
                                                  .name = STR("v"),
                                                  .type = REG_DWORD,
                                                  .data = &number,
                                                  .size = 4});
    sim_enter(4, 0);
    world_unload();
    world_read(&log);
    world_line(&log, "process.existing", "\"pid\":7000,", "late.exe", NULL);
    world_line(&log, "registry.value_set", "\"pid\":7000,", "late.exe", NULL);
    for (size_t i = 0; i < log.count; i++) {
        if (log.lines[i].pid == 7000 && told == UINT64_MAX) {
            told = log.lines[i].id;
            assert_non_null(strstr(log.lines[i].text, "\"process.existing\""));
        }
    }
    world_free(&log);
    world_end();
}

static void *end_of_process(void *context)
{
    sim_enter(4, 0);
    sim_clock_advance(1); /* what happens later has a later time */
    assert_true(sim_process_exit(*(const uint32_t *)context, 7));
    sim_clock_advance(1);
    return NULL;
}

/* In a thread of the host that is not inside the driver. */
static void end_process(void *context)
{
    pthread_t other;

    assert_int_equal(pthread_create(&other, NULL, end_of_process, context), 0);
    pthread_join(other, NULL);
}

/* One line tells of the process and one, behind it, of its end; or none where it ended before there
 * was anybody to see it. True if there are some. */
static bool told_first(const char *kind, const char *pid)
{
    const char *told = NULL, *ended = NULL;
    struct world_log log;

    world_read(&log);
    if (world_count(&log, kind, pid, NULL) + world_count(&log, "process.exit", pid, NULL) > 0) {
        told = world_line(&log, kind, pid, NULL);
        ended = world_line(&log, "process.exit", pid, "\"exit_code\":7", NULL);
    }
    for (size_t i = 0; told && i < log.count && log.lines[i].text != told; i++)
        assert_ptr_not_equal(log.lines[i].text, ended);
    world_free(&log);
    return told != NULL;
}

/* A process ends at any moment of the rundown that is about to tell of it: process.existing comes
 * first all the same. */
static void process_ends_while_told(void **state)
{
    static const char *const moments[] = {"SeLocateProcessImageName", "ZwOpenProcessTokenEx",
                                          "ZwQueryInformationProcess", "ZwQueryInformationToken",
                                          "ObOpenObjectByPointer"};
    const struct sim_process process = {
        .pid = 7000, .parent_pid = 4, .image = STR("\\a\\late.exe")};
    uint32_t pid = process.pid;
    unsigned meanwhile = 0;
    bool alive;

    (void)state;
    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        for (uint32_t n = 1; n <= 24; n++) {
            world_begin(NULL);
            assert_int_equal(sim_process_existing(&process, NULL), 0);
            sim_meanwhile(moments[i], n, end_process, &pid);
            world_load();
            sim_meanwhile(NULL, 0, NULL, NULL);
            alive = sim_process_alive(pid);
            if (alive)
                end_process(&pid);
            world_unload();
            if (told_first("process.existing", "\"pid\":7000,") && !alive)
                meanwhile++;
            world_end();
        }
    }
    assert_true(meanwhile >= 10);
}

static void old_kernel(void **state)
{
    const struct sim_options options = {.build = 9600};
    struct world_log log;

    (void)state;
    world_begin(&options);
    world_load();
    world_activity(1);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "process.create", "cmd.exe", NULL), 1);
    assert_int_equal(world_count(&log, "process.create", "\"process_key\"", NULL), 0);
    assert_true(world_count(&log, "thread.create", NULL) >= 1);
    world_free(&log);
    world_end();
}

static void threads(void **state)
{
    const struct sim_image module = {.pid = WORLD_USER,
                                     .path = STR("\\Device\\HarddiskVolume3\\evil.dll"),
                                     .base = 0x10000000,
                                     .size = 0x1000};
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    sim_image_load(&module);
    sim_enter(WORLD_SHELL, 0);
    sim_thread_create(
        &(struct sim_thread){.pid = WORLD_USER, .tid = 5000, .start_address = 0x10000123}, NULL);
    sim_enter(WORLD_USER, 0);
    sim_thread_create(&(struct sim_thread){.tid = 5004, .start_address = 0x20}, NULL);
    sim_thread_create(&(struct sim_thread){.tid = 5008, .no_start_address = true}, NULL);
    sim_enter(4, 0);
    world_unload();
    world_read(&log);
    world_line(&log, "thread.create", "\"new_tid\":5000,", "\"pid\":2000,", "\"target_pid\":2400,",
               "\"start_address\":\"0x10000123\"", "evil.dll", "\"remote\":true", NULL);
    world_line(&log, "thread.create", "\"new_tid\":5004,", "\"remote\":false", NULL);
    world_line(&log, "thread.create", "\"new_tid\":5008,", "\"omitted\":{\"start_address\"", NULL);
    world_free(&log);
    world_end();
}

static void images(void **state)
{
    static uint16_t path[32767];
    struct sim_image image = {.pid = WORLD_USER,
                              .path = STR("\\Device\\HarddiskVolume3\\one.dll"),
                              .base = 0x7FF812340000,
                              .size = 8192,
                              .signature_level = 6,
                              .signature_type = 2};
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    sim_image_load(&image);
    image.kernel = true;
    image.path = STR("\\SystemRoot\\System32\\drivers\\evil.sys");
    sim_image_load(&image);
    image.kernel = false;
    image.path = SIM_NO_STR;
    image.file = STR("\\Windows\\nameless.dll");
    image.partial = true;
    sim_image_load(&image);
    for (size_t i = 0; i < 32767; i++)
        path[i] = (uint16_t)(i % 100 == 0 ? '\\' : 0x4E00 + i % 500);
    image.path = image.file = (struct sim_str){path, 32767};
    sim_image_load(&image);
    image.path = SIM_NO_STR;
    image.no_file = true;
    sim_image_load(&image);
    world_unload();
    world_read(&log);
    world_line(&log, "image.load", "one.dll", "\"base\":\"0x7ff812340000\"", "\"size\":8192",
               "\"target_pid\":2400", NULL);
    world_line(&log, "image.load", "evil.sys", "\"kernel\":true", NULL);
    world_line(&log, "image.load", "nameless.dll", "\"mapped_partially\":true", NULL);
    assert_int_equal(world_count(&log, "image.load", NULL), 5);
    {
        /* All of the longest path is there, nothing marked as cut. */
        bool found = false;
        for (size_t i = 0; i < log.count; i++)
            found = found || (strlen(log.lines[i].text) > 32767u * 3 - 1000 &&
                              !strstr(log.lines[i].text, "\"truncated\""));
        assert_true(found);
    }
    world_free(&log);
    world_end();
}

static void check_values(void)
{
    struct world_log log;

    world_read(&log);
    world_line(&log, "registry.value_set", "\"value\":\"number\"", "\"data\":4294967295",
               "\"value_type\":\"REG_DWORD\"", "\"status\":\"0x0", "\"pid\":2400,", NULL);
    world_line(&log, "registry.value_set", "\"value\":\"wide\"", "\"data\":\"0xffffffffffffffff\"",
               NULL);
    world_line(&log, "registry.value_set", "\"value\":\"binary\"", "\"data\":\"0001feff\"", NULL);
    world_line(&log, "registry.value_set", "\"value\":\"multi\"", "\"data\":[\"one\",\"two\"]",
               NULL);
    world_line(&log, "registry.value_set", "\"value\":\"\"", "lone \xEF\xBF\xBD end", NULL);
    world_line(&log, "registry.value_set", "\"value\":\"empty\"", "\"data_size\":0", NULL);
    world_line(&log, "registry.value_set", "\"value\":\"big\"", "\"data_size\":60000",
               "\"truncated\":[\"data\"]", NULL);
    world_line(&log, "registry.value_set", "\"value\":\"faulting\"", "\"data_size\":100",
               "\"omitted\":{\"data\":", NULL);
    world_line(&log, "registry.value_delete", "\"value\":\"number\"", "\"status\":\"0x0", NULL);
    world_line(&log, "registry.value_delete", "\"value\":\"missing\"", "\"status\":\"0xc0000034\"",
               NULL);
    world_free(&log);
}

static void registry_values(void **state)
{
    static const uint8_t binary[] = {0, 1, 0xFE, 0xFF};
    static uint8_t big[60000];
    const uint32_t number = 4294967295u;
    const uint64_t wide = UINT64_MAX;
    struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Demo")};

    (void)state;
    world_begin(NULL);
    world_load();
    sim_enter(WORLD_USER, 0);
    op.name = STR("number");
    op.type = REG_DWORD;
    op.data = &number;
    op.size = 4;
    sim_registry_set_value(&op);
    op.name = STR("wide");
    op.type = REG_QWORD;
    op.data = &wide;
    op.size = 8;
    sim_registry_set_value(&op);
    op.name = STR("binary");
    op.type = REG_BINARY;
    op.data = binary;
    op.size = sizeof(binary);
    sim_registry_set_value(&op);
    op.name = STR("multi");
    op.type = REG_MULTI_SZ;
    op.data = u"one\0two\0";
    op.size = 18;
    sim_registry_set_value(&op);
    op.name = SIM_NO_STR; /* the default value */
    op.type = REG_SZ;
    op.data = u"lone \xD800 end";
    op.size = 22;
    sim_registry_set_value(&op);
    op.name = STR("empty");
    op.data = NULL;
    op.size = 0;
    sim_registry_set_value(&op);
    op.name = STR("big");
    op.type = REG_BINARY;
    op.data = big;
    op.size = sizeof(big);
    sim_registry_set_value(&op);
    op.name = STR("faulting");
    op.size = 100;
    op.bad_data = true;
    sim_registry_set_value(&op);
    op.bad_data = false;
    op.name = STR("number");
    sim_registry_delete_value(&op);
    op.name = STR("missing");
    sim_registry_delete_value(&op);
    sim_enter(4, 0);
    world_unload();
    check_values();
    world_end();
}

static void registry_keys(void **state)
{
    struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Demo\\New")};
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("KeyOpens"), 1);
    world_load();
    sim_registry_create_key(&op);
    sim_registry_create_key(&op);
    op.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Demo\\Relative");
    op.relative = true;
    sim_registry_create_key(&op);
    op.relative = false;
    op.name = STR("Renamed");
    sim_registry_rename_key(&op);
    op.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Demo\\Renamed");
    sim_registry_delete_key(&op);
    op.bad_name = true;
    sim_registry_delete_key(&op);
    world_unload();
    world_read(&log);
    world_line(&log, "registry.key_create", "Demo\\\\New\"", "\"disposition\":\"created\"", NULL);
    world_line(&log, "registry.key_create", "Demo\\\\New\"", "\"disposition\":\"opened\"", NULL);
    world_line(&log, "registry.key_create", "Demo\\\\Relative\"", NULL);
    world_line(&log, "registry.key_rename", "Demo\\\\Relative\"", "\"new_name\":\"Renamed\"", NULL);
    world_line(&log, "registry.key_delete", "Demo\\\\Renamed\"", "\"status\":\"0x0", NULL);
    assert_int_equal(world_count(&log, "registry.key_delete", NULL), 2);
    world_free(&log);
    world_end();
}

/* Refused before the driver: nothing. Refused behind it: told, with the status if it is known. */
static void registry_refusals(void **state)
{
    const uint32_t number = 1;
    struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Demo"),
                              .type = REG_DWORD,
                              .data = &number,
                              .size = 4};
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    op.name = STR("before");
    op.refusal = SIM_REFUSE_BEFORE;
    assert_int_equal(sim_registry_set_value(&op), STATUS_ACCESS_DENIED);
    op.name = STR("after");
    op.refusal = SIM_REFUSE_AFTER;
    assert_int_equal(sim_registry_set_value(&op), STATUS_ACCESS_DENIED);
    op.name = STR("post");
    op.refusal = SIM_REFUSE_AFTER_POST;
    assert_int_equal(sim_registry_set_value(&op), STATUS_ACCESS_DENIED);
    op.name = STR("lost");
    op.refusal = SIM_REFUSE_NO_POST;
    assert_int_equal(sim_registry_set_value(&op), STATUS_SUCCESS);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", "\"before\"", NULL), 0);
    assert_null(strstr(world_line(&log, "registry.value_set", "\"after\"", NULL), "\"status\""));
    assert_null(strstr(world_line(&log, "registry.value_set", "\"lost\"", NULL), "\"status\""));
    world_line(&log, "registry.value_set", "\"post\"", "\"status\":\"0xc0000022\"", NULL);
    world_free(&log);
    world_end();
}

static void registry_old_data(void **state)
{
    const uint32_t before = 7;
    const uint32_t after = 8;
    struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Demo\\Run"),
                              .name = STR("value"),
                              .type = REG_DWORD,
                              .data = &before,
                              .size = 4};
    static const uint16_t keys[] = u"\\REGISTRY\\MACHINE\\SOFTWARE\\Demo\\Run\0";
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_set(STR("OldDataKeys"), REG_MULTI_SZ, keys, sizeof(keys));
    sim_registry_preset(&op);
    world_load();
    op.data = &after;
    sim_registry_set_value(&op);
    sim_set_irql(APC_LEVEL);
    sim_registry_set_value(&op);
    sim_set_irql(PASSIVE_LEVEL);
    world_unload();
    world_read(&log);
    world_line(&log, "registry.value_set", "\"data\":8", "\"old_data\":7", "\"old_size\":4", NULL);
    world_line(&log, "registry.value_set", "\"data\":8", "\"old_data\":\"irql\"", NULL);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 2);
    world_free(&log);
    world_end();
}

static void network(void **state)
{
    struct sim_flow flow = {.version = 4,
                            .protocol = 6,
                            .local = {10, 1, 2, 3},
                            .remote = {93, 184, 216, 34},
                            .local_port = 50123,
                            .remote_port = 443,
                            .pid = WORLD_USER};
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    sim_net_connect(&flow, NULL);
    flow.protocol = 17;
    sim_net_accept(&flow, NULL);
    flow.protocol = 132; /* SCTP: a number without a name */
    flow.version = 6;
    memset(flow.remote, 0, 16);
    flow.remote[15] = 1;
    sim_net_connect(&flow, NULL);
    flow.protocol = 6;
    flow.local_port = 8080;
    sim_net_listen(&flow);
    flow.no_pid = flow.no_image = true;
    flow.local_port = 9999;
    sim_net_connect(&flow, NULL);
    world_unload();
    world_read(&log);
    world_line(&log, "network.connect", "\"local_ip\":\"10.1.2.3\"", "\"local_port\":50123",
               "\"remote_ip\":\"93.184.216.34\"", "\"remote_port\":443", "\"transport\":\"tcp\"",
               "\"pid\":2400,", "\"direction\":\"outbound\"", NULL);
    world_line(&log, "network.accept", "\"transport\":\"udp\"", "\"direction\":\"inbound\"", NULL);
    world_line(&log, "network.connect", "\"protocol\":132", "\"remote_ip\":\"::1\"",
               "\"ip_version\":6", NULL);
    world_line(&log, "network.listen", "\"local_port\":8080", NULL);
    assert_null(strstr(world_line(&log, "network.connect", "\"local_port\":9999", NULL),
                       "\"pid\":4008636142"));
    assert_int_equal(world_count(&log, "network.attempt", NULL), 0);
    world_free(&log);
    world_end();
}

/* The first re-authorization of a flow that was open before tells it, later ones do not. */
static void network_existing(void **state)
{
    struct sim_flow flow = {.version = 4,
                            .protocol = 6,
                            .local = {10, 1, 2, 3},
                            .remote = {192, 0, 2, 1},
                            .local_port = 50000,
                            .remote_port = 22,
                            .pid = WORLD_USER};
    uint64_t old = 0;
    uint64_t fresh = 0;
    struct world_log log;

    (void)state;
    world_begin(NULL);
    old = sim_net_existing(&flow, false);
    world_load();
    for (int i = 0; i < 3; i++)
        sim_net_authorize(&flow, false, true, false, old);
    flow.remote_port = 23;
    sim_net_connect(&flow, &fresh);
    for (int i = 0; i < 3; i++)
        sim_net_authorize(&flow, false, true, false, fresh);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "network.existing", "\"remote_port\":22", NULL), 1);
    assert_int_equal(world_count(&log, "network.existing", "\"remote_port\":23", NULL), 0);
    assert_int_equal(world_count(&log, "network.connect", "\"remote_port\":23", NULL), 1);
    world_free(&log);
    world_end();
}

static void settings_in_force(void **state)
{
    struct world_log log;
    const char *line;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("FileMegabytes"), 0);
    sim_settings_set_string(STR("IdleMilliseconds"), STR("soon"));
    sim_settings_set_string(STR("LogDirectory"), STR("\\??\\C:\\Logs"));
    world_load();
    world_activity(0);
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    world_read(&log); /* nothing at the default place */
    assert_int_equal(log.count, 0);
    world_free(&log);
    sim_settings_set_string(STR("LogDirectory"), STR("\\??\\C:\\Windows\\KDAMonitor"));
    world_load();
    world_unload();
    world_read(&log);
    line = world_line(&log, "sensor.start", NULL);
    assert_non_null(strstr(line, "\"rejected\":{"));
    assert_non_null(strstr(line, "\"FileMegabytes\""));
    assert_non_null(strstr(line, "\"IdleMilliseconds\""));
    /* The log before this one is known, although it was elsewhere. */
    assert_non_null(strstr(line, "\"previous_log\""));
    world_free(&log);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(load_and_unload),
        cmocka_unit_test(process_life),
        cmocka_unit_test(process_without_names),
        cmocka_unit_test(process_never_told),
        cmocka_unit_test(process_ends_while_told),
        cmocka_unit_test(old_kernel),
        cmocka_unit_test(threads),
        cmocka_unit_test(images),
        cmocka_unit_test(registry_values),
        cmocka_unit_test(registry_keys),
        cmocka_unit_test(registry_refusals),
        cmocka_unit_test(registry_old_data),
        cmocka_unit_test(network),
        cmocka_unit_test(network_existing),
        cmocka_unit_test(settings_in_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
