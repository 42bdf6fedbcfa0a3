/*
 * test_registry_pending.c - registry operations whose end is not seen: told after a while, or at
 * once when too many wait, and none of them lost.
 */
#include "world.h"

#include <unistd.h>

static void refused(unsigned n)
{
    const struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"),
                                    .name = STR("Count"),
                                    .type = REG_DWORD,
                                    .data = &n,
                                    .size = 4,
                                    .refusal = SIM_REFUSE_AFTER};
    sim_registry_set_value(&op);
}

static void told_after_a_while(void **state)
{
    const struct sim_registry create = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Never"),
                                        .refusal = SIM_REFUSE_AFTER};
    struct world_log log;
    uint64_t begin;

    (void)state;
    world_begin(NULL);
    world_load();
    begin = sim_clock_utc();
    refused(1);
    sim_registry_create_key(&create);
    usleep(30000);
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 0);
    world_free(&log);
    sim_clock_advance(12 * WORLD_SECOND);
    assert_true(world_wait("registry.value_set", "\"data\":1,"));
    assert_true(world_wait("registry.key_create", "Never"));
    world_read(&log);
    assert_null(strstr(world_line(&log, "registry.value_set", NULL), "\"status\""));
    assert_null(strstr(world_line(&log, "registry.key_create", NULL), "\"status\""));
    /* With the time of the telling: times do not go back. */
    for (size_t i = 0; i < log.count; i++) {
        if (strstr(log.lines[i].text, "\"kind\":\"registry."))
            assert_in_range(log.lines[i].time - begin, 12 * WORLD_SECOND, 60 * WORLD_SECOND);
    }
    world_free(&log);
    world_end();
}

static void more_than_can_wait(void **state)
{
    enum { COUNT = 2500, SLOTS = 2048 };
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("RingShardBytes"), 4u << 20);
    world_load();
    for (unsigned n = 0; n < COUNT; n++)
        refused(n);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), COUNT);
    assert_int_equal(
        world_count(&log, "registry.value_set", "\"omitted\":{\"status\":\"memory\"}", NULL),
        COUNT - SLOTS);
    assert_int_equal(world_count(&log, "registry.value_set", "\"status\":\"0x", NULL), 0);
    world_free(&log);
    world_end();
}

/* Slots are used again, and the result of one operation never gets into the record of another. */
static void slots_are_used_again(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("RingShardBytes"), 4u << 20);
    world_load();
    for (unsigned n = 0; n < 3000; n++) {
        const struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"),
                                        .name = STR("Count"),
                                        .type = REG_DWORD,
                                        .data = &n,
                                        .size = 4,
                                        .refusal = n % 3 ? SIM_REFUSE_NOT : SIM_REFUSE_AFTER_POST,
                                        .status = n % 3 ? 0 : STATUS_ACCESS_DENIED};
        sim_registry_set_value(&op);
    }
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 3000);
    assert_int_equal(world_count(&log, "registry.value_set", "\"status\":\"0xc0000022\"", NULL),
                     1000);
    for (size_t i = 0; i < log.count; i++) {
        const char *data = strstr(log.lines[i].text, "\"data\":");
        if (data && strstr(log.lines[i].text, "\"kind\":\"registry.value_set\""))
            assert_int_equal(strtoul(data + 7, NULL, 10) % 3 == 0,
                             strstr(log.lines[i].text, "0xc0000022") != NULL);
    }
    world_free(&log);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(told_after_a_while),
        cmocka_unit_test(more_than_can_wait),
        cmocka_unit_test(slots_are_used_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
