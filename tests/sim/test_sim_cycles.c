/*
 * test_sim_cycles.c - loaded and unloaded a thousand times while the machine is busy.
 */
#include "world.h"

#define CYCLES (WORLD_THREADS ? 40u : 1000u)
#define STORMS (WORLD_THREADS ? 3u : 20u)

/* KDA_SIM_CYCLES in the environment asks for fewer. */
static unsigned cycles(void)
{
    const char *wanted = getenv("KDA_SIM_CYCLES");
    unsigned long number = wanted ? strtoul(wanted, NULL, 10) : 0;

    return number > 0 && number < CYCLES ? (unsigned)number : CYCLES;
}

static void thousand_cycles(void **state)
{
    const unsigned count = cycles();
    uint64_t written;
    uint64_t lost;

    (void)state;
    world_begin(&(struct sim_options){.clock = SIM_CLOCK_HOST});
    sim_settings_set_dword(STR("RingShardBytes"), 65536);
    world_start(2);
    for (unsigned i = 0; i < count; i++) {
        world_load();
        if (i % 50 == 0)
            world_activity(i);
        assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
        assert_int_equal(sim_ledger_count(), 0);
        if (i % 100 == 0)
            world_verify();
    }
    world_stop();
    world_verify();
    world_totals(&written, &lost);
    assert_true(written > 0);
    world_end();
}

static void unload_in_the_storm(void **state)
{
    (void)state;
    world_begin(&(struct sim_options){.clock = SIM_CLOCK_HOST});
    world_start(4);
    for (unsigned i = 0; i < STORMS && i < cycles() / 10; i++) {
        world_load();
        for (unsigned j = 0; j < 50; j++)
            world_activity(j);
        world_unload();
    }
    world_stop();
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thousand_cycles),
        cmocka_unit_test(unload_in_the_storm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
