/*
 * test_settings.c - values that are wrong: what is in force in their place, and what the log says.
 */
#include "world.h"

#include <stdio.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void begin(void)
{
    world_begin(NULL);
    sim_settings_clear();
}

/* Strings that end with one NUL, the last of them with two. */
#define SET_LIST(name, texts)                                                                      \
    sim_settings_set(STR(name), REG_MULTI_SZ, u"" texts, sizeof(u"" texts))

/* The copy of an object of sensor.start, `"name":{...}`; empty if it is not there. */
static void start_object(const char *name, char *object, size_t room)
{
    struct world_log log;
    const char *at;
    size_t size = 0;

    world_load();
    world_unload();
    world_read(&log);
    at = strstr(world_line(&log, "sensor.start", NULL), name);
    if (at)
        size = (size_t)(strchr(at, '}') - at);
    assert_true(size < room);
    memcpy(object, at ? at : "", size);
    object[size] = '\0';
    world_free(&log);
}

static unsigned times(const char *text, const char *name)
{
    char key[64];
    unsigned count = 0;

    snprintf(key, sizeof(key), "\"%s\":", name);
    for (; (text = strstr(text, key)) != NULL; text++)
        count++;
    return count;
}

/* --- rejected -------------------------------------------------------------------------------- */

static const struct {
    struct sim_str name;
    const char *text;
} numbers[] = {
#define NAME(name)                                                                                 \
    {                                                                                              \
        SIM_STR(u##name), name                                                                     \
    }
    NAME("RecordEverything"), NAME("FileMegabytes"),     NAME("FileCount"),
    NAME("IdleMilliseconds"), NAME("FlushMilliseconds"), NAME("ProcessAtOnce"),
    NAME("StatusSeconds"),    NAME("DataBytes"),         NAME("KeyOpens"),
    NAME("RingShards"),       NAME("RingShardBytes"),    NAME("Readers"),
    NAME("ReaderBytes"),      NAME("RepeatMilliseconds")};

/* However many entries of a list are wrong, and however many other values. */
static void each_is_named_once(void **state)
{
    static const char *const lists[] = {"Kinds", "LogDirectory", "Rules", "Rates", "OldDataKeys"};
    char rejected[4096];
    uint16_t wrong[200];

    (void)state;
    for (size_t i = 0; i < COUNT(wrong); i++)
        wrong[i] = i % 2 ? 0 : 'w';
    begin();
    for (size_t i = 0; i < COUNT(numbers); i++)
        sim_settings_set_string(numbers[i].name, STR("many"));
    sim_settings_set_string(STR("LogDirectory"), STR("C:\\logs"));
    sim_settings_set(STR("Kinds"), REG_MULTI_SZ, wrong, sizeof(wrong));
    sim_settings_set(STR("Rules"), REG_MULTI_SZ, wrong, sizeof(wrong));
    sim_settings_set(STR("Rates"), REG_MULTI_SZ, wrong, sizeof(wrong));
    sim_settings_set(STR("OldDataKeys"), REG_MULTI_SZ, wrong, sizeof(wrong));
    start_object("\"rejected\":", rejected, sizeof(rejected));
    for (size_t i = 0; i < COUNT(numbers); i++) {
        if (times(rejected, numbers[i].text) != 1)
            fail_msg("%s: %s", numbers[i].text, rejected);
    }
    for (size_t i = 0; i < COUNT(lists); i++) {
        if (times(rejected, lists[i]) != 1)
            fail_msg("%s: %s", lists[i], rejected);
    }
    assert_non_null(strstr(rejected, "\"OldDataKeys\":\"entry 33: too many\""));
    world_end();
}

static void first_problem_is_named(void **state)
{
    char rejected[1024];

    (void)state;
    begin();
    SET_LIST("Rules", "exclude\0\0include\0exclude pid=me\0permit\0");
    SET_LIST("Rates", "kind=image.load rate=1 burst=1\0often\0");
    sim_settings_set_dword(STR("LogDirectory"), 5);
    start_object("\"rejected\":", rejected, sizeof(rejected));
    assert_non_null(strstr(rejected, "\"Rules\":\"entry 3: pid is no number\""));
    assert_non_null(strstr(rejected, "\"Rates\":\"entry 2: not of the form"));
    assert_non_null(strstr(rejected, "\"LogDirectory\":\"neither REG_MULTI_SZ nor REG_SZ\""));
    world_end();
}

/* Texts that are longer than sensor.start can be leave room for what was wrong. */
static void named_beside_long_texts(void **state)
{
    static uint16_t units[30000];
    static const uint16_t rule[] = u"exclude key=";
    char rejected[1024];
    struct world_log log;

    (void)state;
    for (size_t i = 0; i < COUNT(units); i++)
        units[i] = 'k';
    memcpy(units, rule, sizeof(rule) - 2);
    begin();
    sim_settings_set(STR("OldDataKeys"), REG_MULTI_SZ, units, sizeof(units));
    sim_settings_set(STR("Rules"), REG_MULTI_SZ, units, sizeof(units));
    sim_settings_set(STR("Rates"), REG_DWORD, units, 4);
    sim_settings_set_dword(STR("FileCount"), 0);
    start_object("\"rejected\":", rejected, sizeof(rejected));
    assert_int_equal(times(rejected, "FileCount"), 1);
    assert_int_equal(times(rejected, "Rates"), 1);
    world_read(&log);
    world_line(&log, "sensor.start", "\"truncated\":[\"settings\"]", NULL);
    world_free(&log);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_named_once),
        cmocka_unit_test(first_problem_is_named),
        cmocka_unit_test(named_beside_long_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
