/*
 * test_filter.c - rules, rate limits, repeats: what they take, what they leave, and that it is
 * counted.
 */
#include "world.h"

#include <uchar.h>

static void begin(const char16_t *rules, size_t units)
{
    world_begin(NULL);
    sim_settings_clear();
    sim_settings_set(STR("Rates"), REG_MULTI_SZ, u"\0", 4);
    sim_settings_set(STR("Rules"), REG_MULTI_SZ, rules, units * 2);
}

#define BEGIN(rules) begin(u"" rules, sizeof(u"" rules) / 2)

static void set_in(struct sim_str key, unsigned n)
{
    const struct sim_registry op = {
        .key = key, .name = STR("Count"), .type = REG_DWORD, .data = &n, .size = 4};
    assert_int_equal(sim_registry_set_value(&op), 0);
}

static unsigned long long number_after(const char *line, const char *name)
{
    const char *at = strstr(line, name);

    if (!at)
        fail_msg("no %s in %s", name, line);
    return strtoull(at + strlen(name), NULL, 10);
}

/* --- rules ----------------------------------------------------------------------------------- */

static void first_match_decides(void **state)
{
    struct world_log log;
    const char *line;

    (void)state;
    BEGIN("include kind=registry.value_set key=\\REGISTRY\\MACHINE\\SOFTWARE\\Noisy\\But\0"
          "exclude kind=registry.* key=\\registry\\machine\\software\\noisy\0");
    world_load();
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Noisy\\But\\Kept"), 1);
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Noisy\\Gone"), 2);
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\NOISY"), 3);
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Nois"), 4);
    world_unload();
    world_read(&log);
    world_line(&log, "registry.value_set", "\"data\":1,", NULL);
    world_line(&log, "registry.value_set", "\"data\":4,", NULL);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 2);
    line = world_line(&log, "sensor.filtered", NULL);
    assert_int_equal(number_after(line, "\"registry.value_set\":"), 2);
    assert_non_null(strstr(line, "\"exclude kind=registry.* key="));
    line = world_line(&log, "sensor.stop", NULL);
    assert_int_equal(number_after(strstr(line, "\"filtered\":"), "\"registry.value_set\":"), 2);
    world_free(&log);
    world_end();
}

static void by_image_and_pid(void **state)
{
    struct world_log log;

    (void)state;
    BEGIN("exclude image=\\user.exe\0exclude pid=2000 kind=registry.value_set\0");
    world_load();
    assert_true(sim_enter(WORLD_USER, 0));
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), 1);
    assert_true(sim_enter(WORLD_SHELL, 0));
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), 2);
    assert_true(sim_enter(4, 0));
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), 3);
    world_unload();
    world_read(&log);
    world_line(&log, "registry.value_set", "\"data\":3,", NULL);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 1);
    /* The process itself is taken by a rule without kind, too. */
    assert_int_equal(world_count(&log, "process.existing", "\"pid\":2400,", NULL), 0);
    assert_int_equal(world_count(&log, "process.existing", "\"pid\":2000,", NULL), 1);
    world_free(&log);
    world_end();
}

static void by_module(void **state)
{
    struct world_log log;
    const struct sim_image images[] = {
        {.pid = WORLD_USER, .path = STR("\\Device\\HarddiskVolume3\\W\\ntdll.dll"), .size = 4096},
        {.pid = WORLD_USER, .path = STR("\\Device\\HarddiskVolume3\\W\\evil.dll"), .size = 4096},
        {.kernel = true, .path = STR("\\SystemRoot\\W\\NTDLL.dll"), .size = 4096},
    };

    (void)state;
    BEGIN("exclude kind=image.load module=\\ntdll.dll\0");
    world_load();
    for (size_t i = 0; i < sizeof(images) / sizeof(images[0]); i++)
        sim_image_load(&images[i]);
    world_unload();
    world_read(&log);
    world_line(&log, "image.load", "evil.dll", NULL);
    assert_int_equal(world_count(&log, "image.load", NULL), 1);
    world_free(&log);
    world_end();
}

/* A key that is created is compared by the name it has in the end. */
static void created_keys(void **state)
{
    struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Noisy\\New"),
                              .relative = true};
    struct world_log log;

    (void)state;
    BEGIN("exclude kind=registry.key_create key=\\REGISTRY\\MACHINE\\SOFTWARE\\Noisy\\\0");
    world_load();
    sim_registry_create_key(&op);
    op.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Other\\New");
    sim_registry_create_key(&op);
    op.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Noisy\\Refused");
    op.refusal = SIM_REFUSE_AFTER;
    sim_registry_create_key(&op);
    world_unload();
    world_read(&log);
    world_line(&log, "registry.key_create", "Other\\\\New", NULL);
    assert_int_equal(world_count(&log, "registry.key_create", NULL), 1);
    assert_int_equal(
        number_after(world_line(&log, "sensor.filtered", NULL), "\"registry.key_create\":"), 2);
    world_free(&log);
    world_end();
}

static void default_rules(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_clear();
    world_load();
    set_in(STR("\\REGISTRY\\A\\{1}\\LocalState"), 1);
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), 2);
    world_unload();
    world_read(&log);
    world_line(&log, "registry.value_set", "\"data\":2,", NULL);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 1);
    world_free(&log);
    world_end();
}

static void everything(void **state)
{
    struct world_log log;

    (void)state;
    BEGIN("exclude kind=registry.*\0");
    sim_settings_set_dword(STR("RecordEverything"), 1);
    sim_settings_set_dword(STR("RepeatMilliseconds"), 1000);
    world_load();
    set_in(STR("\\REGISTRY\\A\\{1}\\LocalState"), 1);
    set_in(STR("\\REGISTRY\\A\\{1}\\LocalState"), 1);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 2);
    assert_int_equal(world_count(&log, "sensor.filtered", NULL), 0);
    world_free(&log);
    world_end();
}

/* --- rates ----------------------------------------------------------------------------------- */

static const char16_t rates[] = u"kind=registry.value_set rate=10 burst=5\0";

static void rate_limit(void **state)
{
    struct world_log log;
    const char *line;

    (void)state;
    BEGIN("\0");
    sim_settings_set(STR("Rates"), REG_MULTI_SZ, rates, sizeof(rates));
    world_load();
    for (unsigned n = 0; n < 20; n++)
        set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), n); /* 5 pass */
    sim_clock_advance(WORLD_SECOND / 5);                    /* two tokens */
    for (unsigned n = 20; n < 30; n++)
        set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), n);
    /* Another process has its own. */
    assert_true(sim_enter(WORLD_SHELL, 0));
    for (unsigned n = 30; n < 40; n++)
        set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), n);
    assert_true(sim_enter(4, 0));
    sim_clock_advance(60 * WORLD_SECOND); /* full again, and not fuller */
    for (unsigned n = 40; n < 60; n++)
        set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), n);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 5 + 2 + 5 + 5);
    line = world_line(&log, "sensor.stop", NULL);
    assert_int_equal(number_after(strstr(line, "\"filtered\":"), "\"registry.value_set\":"),
                     60 - 17);
    assert_true(world_count(&log, "sensor.filtered", "\"rate\":", NULL) >= 1);
    world_free(&log);
    world_end();
}

/* --- repeats --------------------------------------------------------------------------------- */

static void repeats(void **state)
{
    struct world_log log;

    (void)state;
    BEGIN("\0");
    sim_settings_set_dword(STR("RepeatMilliseconds"), 500);
    world_load();
    for (unsigned n = 0; n < 10; n++)
        set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), 1);
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), 2);
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\B"), 1);
    assert_true(sim_enter(WORLD_SHELL, 0));
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), 1);
    assert_true(sim_enter(4, 0));
    sim_clock_advance(WORLD_SECOND);
    set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\A"), 1);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 5);
    assert_int_equal(number_after(world_line(&log, "sensor.filtered", NULL), "\"repeat\":"), 9);
    world_free(&log);
    world_end();
}

/* --- settings -------------------------------------------------------------------------------- */

static void wrong_settings(void **state)
{
    struct world_log log;
    const char *line;

    (void)state;
    BEGIN("permit everything\0exclude kind=registry.nothing\0exclude colour=red\0"
          "exclude image=\"\\a b\0exclude pid=many\0exclude image=\\ok.exe\0");
    sim_settings_set_dword(STR("FileMegabytes"), 0);
    sim_settings_set_dword(STR("RingShardBytes"), 65537);
    sim_settings_set_string(STR("FileCount"), STR("many"));
    sim_settings_set_string(STR("LogDirectory"), STR("C:\\logs"));
    sim_settings_set_string(STR("Kinds"), STR("process.*,weather"));
    world_load();
    world_unload();
    world_read(&log);
    line = world_line(&log, "sensor.start", NULL);
    assert_non_null(strstr(line, "\"FileMegabytes\":256"));
    assert_non_null(strstr(line, "\"RingShardBytes\":1048576"));
    assert_non_null(strstr(line, "\"FileCount\":16"));
    assert_non_null(strstr(line, "\"LogDirectory\":\"\\\\SystemRoot\\\\KDAMonitor\""));
    assert_non_null(strstr(line, "\"Rules\":[\"exclude image=\\\\ok.exe\"]"));
    line = strstr(line, "\"rejected\":");
    assert_non_null(line);
    assert_non_null(strstr(line, "\"FileMegabytes\":\"out of range\""));
    assert_non_null(strstr(line, "\"RingShardBytes\":\"no power of two\""));
    assert_non_null(strstr(line, "\"FileCount\":\"no REG_DWORD\""));
    assert_non_null(strstr(line, "\"LogDirectory\":\"no absolute NT path\""));
    assert_non_null(strstr(line, "\"Kinds\":\"entry 1: unknown kind\""));
    assert_non_null(strstr(line, "\"Rules\":\"entry 1: begins with neither include nor exclude\""));
    world_free(&log);
    world_end();
}

static void odd_values(void **state)
{
    static uint8_t big[65000];

    (void)state;
    world_begin(NULL);
    memset(big, 'x', sizeof(big));
    sim_settings_set(STR("Rules"), REG_MULTI_SZ, big, sizeof(big));
    sim_settings_set(STR("Rates"), REG_MULTI_SZ, big, 1);
    sim_settings_set(STR("Kinds"), REG_MULTI_SZ, NULL, 0);
    sim_settings_set(STR("LogDirectory"), REG_SZ, u"\0\0\0", 6);
    sim_settings_set(STR("DataBytes"), REG_DWORD, big, 3);
    sim_settings_set(STR("OldDataKeys"), REG_SZ, big, sizeof(big));
    world_load();
    world_unload();
    world_end();
}

/* What `kda driver set` leaves when every kind is off; names that are none are no such order. */
static void no_kinds(void **state)
{
    static const struct {
        const char16_t *value;
        uint32_t bytes;
        size_t recorded;
    } cases[] = {{NULL, 0, 0}, {u"\0", 4, 0}, {u"registry.value\0", 32, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world_log log;
        BEGIN("include\0");
        sim_settings_set(STR("Kinds"), REG_MULTI_SZ, cases[i].value, cases[i].bytes);
        world_load();
        set_in(STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"), 4);
        world_unload();
        world_read(&log);
        assert_int_equal(world_count(&log, "registry.value_set", NULL), cases[i].recorded);
        assert_int_equal(world_count(&log, "process.existing", NULL) > 0, cases[i].recorded);
        world_line(&log, "sensor.stop", NULL);
        world_free(&log);
        world_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_match_decides),
        cmocka_unit_test(by_image_and_pid),
        cmocka_unit_test(by_module),
        cmocka_unit_test(created_keys),
        cmocka_unit_test(default_rules),
        cmocka_unit_test(everything),
        cmocka_unit_test(rate_limit),
        cmocka_unit_test(repeats),
        cmocka_unit_test(wrong_settings),
        cmocka_unit_test(odd_values),
        cmocka_unit_test(no_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
