/*
 * test_sim_versions.c - the driver on the exports of each version and machine, and with every
 * status that the page of a call lists.
 */
#include "world.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void activity(void)
{
    static const uint32_t data = 7;
    const struct sim_process process = {
        .pid = 7000, .image = STR("\\??\\C:\\Windows\\new.exe"), .command_line = STR("new.exe")};
    const struct sim_registry value = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"),
                                       .name = STR("v"),
                                       .type = REG_DWORD,
                                       .data = &data,
                                       .size = 4};
    const struct sim_flow flow = {
        .version = 4, .protocol = 6, .remote = {192, 0, 2, 7}, .remote_port = 443};

    sim_process_create(&process, NULL);
    sim_image_load(&(struct sim_image){.pid = 7000,
                                       .path = STR("\\Device\\HarddiskVolume1\\x.dll"),
                                       .base = 0x10000,
                                       .size = 4096});
    sim_thread_create(&(struct sim_thread){.pid = 7000, .start_address = 0x10010}, NULL);
    sim_registry_create_key(&value);
    sim_registry_set_value(&value);
    sim_net_connect(&flow, NULL);
    sim_process_exit(7000, 3);
    sim_system_shutdown();
    sim_power_suspend();
    sim_power_resume(10, false);
}

static void versions_and_machines(void **state)
{
    static const uint32_t builds[] = {17763, 22000, 22621, 26100};
    static const char *const kinds[] = {"process.create", "process.exit",    "image.load",
                                        "thread.create",  "network.connect", "registry.value_set"};

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        struct world_log log;
        world_begin(
            &(struct sim_options){.build = builds[i / 2], .machine = i % 2 ? SIM_ARM64 : SIM_X64});
        world_load();
        activity();
        assert_int_equal(sim_wfp_switched_off(), 0);
        world_unload();
        world_read(&log);
        for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
            assert_true(world_count(&log, kinds[k], NULL) >= 1);
        world_free(&log);
        world_end();
    }
}

/* What the driver for Windows is linked to is exported by the oldest system that it runs on. */
static unsigned look_at_imports(bool arm64)
{
    FILE *f = fopen(KDA_SOURCE_DIR "/driver/imports.txt", "r");
    unsigned looked = 0;
    char line[256];

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        char *rest = line;
        const char *module = strtok_r(rest, " \n", &rest);
        const char *name = strtok_r(NULL, " \n", &rest);
        if (!name || *module == '#' || strstr(module, "fwpkclnt") ||
            (strstr(rest, "arm64") && !arm64))
            continue;
        looked++;
        if (sim_lacks(name))
            fail_msg("%s is no export of %s on %s", name, module, arm64 ? "ARM64" : "x64");
    }
    fclose(f);
    return looked;
}

static void what_is_linked_is_exported(void **state)
{
    (void)state;
    for (unsigned arm64 = 0; arm64 < 2; arm64++) {
        world_begin(&(struct sim_options){.build = 17763, .machine = arm64 ? SIM_ARM64 : SIM_X64});
        assert_true(look_at_imports(arm64) > 75);
        assert_true(sim_lacks("KeLowerIrql"));
        world_end();
    }
}

/* What these leave behind when they fail nobody can take away. */
static bool leaves_something(const char *ddi)
{
    return strcmp(ddi, "ZwClose") == 0 || strcmp(ddi, "FwpmEngineClose0") == 0 ||
           strcmp(ddi, "IoDeleteSymbolicLink") == 0;
}

static void run_with(const char *ddi, int32_t status)
{
    world_begin(&(struct sim_options){.hang_ms = 5000});
    sim_clock_delays(true);
    sim_status_next(ddi, status, 3);
    if (NT_SUCCESS(sim_driver_load(DriverEntry))) {
        activity();
        sim_driver_unload();
    }
    sim_shutdown_machine();
}

/* The calls fail three times each; the driver lives on, or refuses to start, and breaks no rule. */
static void every_documented_status(void **state)
{
    const char *ddi;
    const char *rule;
    int32_t status;
    unsigned failed = 0;

    (void)state;
    for (size_t i = 0; sim_status_at(i, &ddi, &rule, &status); i++) {
        int ended = 0;
        pid_t child;
        if (leaves_something(ddi))
            continue;
        fflush(NULL);
        child = fork();
        if (child == 0) {
            alarm(60);
            run_with(ddi, status);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &ended, 0), child);
        if (ended != 0) {
            fprintf(stderr, "%s: %s with 0x%08X: ended with 0x%X\n", rule, ddi, (unsigned)status,
                    ended);
            failed++;
        }
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions_and_machines),
        cmocka_unit_test(what_is_linked_is_exported),
        cmocka_unit_test(every_documented_status),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
