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

/* Runs the driver. The copy of an object of its sensor.start, `"name":{...}`; empty if it is not
 * there. */
static void start_object(const char *name, char *object, size_t room)
{
    struct world_log log;
    const char *line = "";
    const char *at;
    size_t size = 0;

    sim_clock_advance(5 * WORLD_SECOND);
    world_load();
    world_unload();
    world_read(&log);
    for (size_t i = 0; i < log.count; i++) {
        if (log.lines[i].id == 0)
            line = log.lines[i].text;
    }
    at = strstr(line, name);
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

/* --- lists ----------------------------------------------------------------------------------- */

#define DEFAULT_RATES                                                                              \
    "\"Rates\":[\"kind=registry.* rate=2000 burst=20000\",\"kind=image.load rate=1000 "            \
    "burst=5000\"]"
#define DEFAULT_RULE "\"exclude kind=image.load module=\\\\System32\\\\ntdll.dll\""
#define ONE_RATE "kind=image.load rate=1 burst=1"

/* Right entries are kept, an empty list is one, a list with nothing right in it is none. */
static void lists_in_force(void **state)
{
#define TEXTS(texts) u"" texts, sizeof(u"" texts)
    static const struct {
        const void *rules;
        size_t rules_size;
        const void *rates;
        size_t rates_size;
        const char *in_force[2];
        bool wrong;
    } cases[] = {
        {TEXTS("\0"), TEXTS("\0"), {"\"Rules\":[],", "\"Rates\":[],"}, false},
        {NULL, 0, NULL, 0, {"\"Rules\":[],", "\"Rates\":[],"}, false},
        {TEXTS("exclude nothing\0"), TEXTS("often\0"), {DEFAULT_RULE, DEFAULT_RATES}, true},
        {TEXTS("a\0b\0c\0d\0"), TEXTS("a\0b\0c\0d\0"), {DEFAULT_RULE, DEFAULT_RATES}, true},
        {TEXTS("exclude pid=1\0no\0no\0"),
         TEXTS(ONE_RATE "\0no\0no\0"),
         {"\"Rules\":[\"exclude pid=1\"],", "\"Rates\":[\"" ONE_RATE "\"],"},
         true},
        {TEXTS("no\0no\0exclude pid=1\0"),
         TEXTS("no\0no\0" ONE_RATE "\0"),
         {"\"Rules\":[\"exclude pid=1\"],", "\"Rates\":[\"" ONE_RATE "\"],"},
         true},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char settings[4096];
        begin();
        sim_settings_set(STR("Rules"), REG_MULTI_SZ, cases[i].rules, cases[i].rules_size);
        sim_settings_set(STR("Rates"), REG_MULTI_SZ, cases[i].rates, cases[i].rates_size);
        start_object("\"settings\":", settings, sizeof(settings));
        for (size_t j = 0; j < 2; j++) {
            if (!strstr(settings, cases[i].in_force[j]))
                fail_msg("case %zu: no %s in %s", i, cases[i].in_force[j], settings);
        }
        start_object("\"rejected\":", settings, sizeof(settings));
        assert_int_equal(times(settings, "Rules"), cases[i].wrong);
        assert_int_equal(times(settings, "Rates"), cases[i].wrong);
        world_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_is_named_once),
        cmocka_unit_test(first_problem_is_named),
        cmocka_unit_test(named_beside_long_texts),
        cmocka_unit_test(lists_in_force),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
