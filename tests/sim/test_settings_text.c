/*
 * test_settings_text.c - lists of kinds, rules and rate limits as text.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver.h"

#define UNITS(text) u##text, sizeof(u##text) / 2 - 1
#define BIT(kind) (1u << KDA_KIND_##kind)

static void kinds(void **state)
{
    ULONG found = 0;

    (void)state;
    assert_true(KdaParseKinds(UNITS("process.create"), &found));
    assert_int_equal(found, BIT(PROCESS_CREATE));
    assert_true(KdaParseKinds(UNITS("process.*,network.attempt"), &found));
    assert_int_equal(found, BIT(PROCESS_CREATE) | BIT(PROCESS_EXIT) | BIT(PROCESS_EXISTING) |
                                BIT(NETWORK_ATTEMPT));
    assert_true(KdaParseKinds(UNITS("*"), &found));
    assert_int_equal(found, KdaDriverKinds);
    assert_true(KdaParseKinds(UNITS("registry.value_*"), &found));
    assert_int_equal(found, BIT(REGISTRY_VALUE_SET) | BIT(REGISTRY_VALUE_DELETE));
    /* Other sources', unknown, parts of names, empty. */
    found = 7;
    assert_false(KdaParseKinds(UNITS("image.unload"), &found));
    assert_false(KdaParseKinds(UNITS("sensor.start"), &found));
    assert_false(KdaParseKinds(UNITS("process"), &found));
    assert_false(KdaParseKinds(UNITS("process.create "), &found));
    assert_false(KdaParseKinds(UNITS("process.createx"), &found));
    assert_false(KdaParseKinds(UNITS("process.*,"), &found) && found == 0);
    assert_false(KdaParseKinds(UNITS(",process.*"), &found));
    assert_false(KdaParseKinds(UNITS(""), &found));
}

static bool is(const UNICODE_STRING *string, const uint16_t *text, size_t units)
{
    return string->Length == units * 2 && memcmp(string->Buffer, text, units * 2) == 0;
}

static void rules(void **state)
{
    const CHAR *why = NULL;
    KDA_RULE rule;

    (void)state;
    assert_true(KdaParseRule(UNITS("exclude"), &rule, &why));
    assert_false(rule.Include);
    assert_int_equal(rule.Kinds, KdaDriverKinds);
    assert_int_equal(rule.Pid, KDA_NO_PID);
    assert_int_equal(rule.Image.Length + rule.Key.Length + rule.Module.Length, 0);
    assert_true(KdaParseRule(UNITS("  include \t kind=thread.exit pid=0 image=\"\\a b.exe\" "
                                   "key=\\R\\x=y module=\\m.dll "),
                             &rule, &why));
    assert_true(rule.Include);
    assert_int_equal(rule.Kinds, BIT(THREAD_EXIT));
    assert_int_equal(rule.Pid, 0);
    assert_true(is(&rule.Image, UNITS("\\a b.exe")));
    assert_true(is(&rule.Key, UNITS("\\R\\x=y")));
    assert_true(is(&rule.Module, UNITS("\\m.dll")));
    assert_true(KdaParseRule(UNITS("exclude pid=4294967294"), &rule, &why));
    assert_int_equal(rule.Pid, 4294967294u);
}

static void wrong_rules(void **state)
{
    static const struct {
        const uint16_t *text;
        size_t units;
        const char *why;
    } wrong[] = {
        {UNITS(""), "begins with neither include nor exclude"},
        {UNITS("deny"), "begins with neither include nor exclude"},
        {UNITS("excludekind=*"), "begins with neither include nor exclude"},
        {UNITS("\"exclude"), "begins with neither include nor exclude"},
        {UNITS("exclude kind=none"), "unknown kind"},
        {UNITS("exclude kind="), "unknown kind"},
        {UNITS("exclude pid="), "pid is no number"},
        {UNITS("exclude pid=-1"), "pid is no number"},
        {UNITS("exclude pid=4294967295"), "pid is no number"},
        {UNITS("exclude pid=99999999999999999999999"), "pid is no number"},
        {UNITS("exclude image="), "an empty condition"},
        {UNITS("exclude image=\"\""), "an empty condition"},
        {UNITS("exclude key=\"a b"), "a quote does not end"},
        {UNITS("exclude colour=red"), "unknown condition"},
        {UNITS("exclude image"), "unknown condition"},
        {UNITS("exclude images=x"), "unknown condition"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const CHAR *why = NULL;
        KDA_RULE rule;
        assert_false(KdaParseRule(wrong[i].text, wrong[i].units, &rule, &why));
        assert_string_equal(why, wrong[i].why);
    }
}

static void rates(void **state)
{
    const CHAR *why = NULL;
    KDA_RATE rate;

    (void)state;
    assert_true(KdaParseRate(UNITS("kind=image.load rate=100 burst=500"), &rate, &why));
    assert_int_equal(rate.Kinds, BIT(IMAGE_LOAD));
    assert_int_equal(rate.PerSecond, 100);
    assert_int_equal(rate.Burst, 500);
    assert_false(KdaParseRate(UNITS("kind=image.load rate=100"), &rate, &why));
    assert_false(KdaParseRate(UNITS("kind=image.load rate=0 burst=1"), &rate, &why));
    assert_false(KdaParseRate(UNITS("rate=1 burst=1"), &rate, &why));
    assert_false(KdaParseRate(UNITS("kind=image.load rate=1000001 burst=1"), &rate, &why));
    assert_false(KdaParseRate(UNITS("kind=image.load rate=1 burst=1 more"), &rate, &why));
    assert_false(KdaParseRate(UNITS(""), &rate, &why));
    assert_string_equal(why, "not of the form kind=K rate=N burst=N");
}

static UNICODE_STRING string_of(const uint16_t *text, size_t units)
{
    UNICODE_STRING string = {(USHORT)(units * 2), (USHORT)(units * 2), (PWSTR)(uintptr_t)text};
    return string;
}

static void comparisons(void **state)
{
    const UNICODE_STRING path = string_of(UNITS("\\Device\\A\\Te\u00c9st.EXE"));
    UNICODE_STRING part;

    (void)state;
#define SUFFIX(text) (part = string_of(UNITS(text)), KdaHasSuffix(&path, &part))
#define PREFIX(text) (part = string_of(UNITS(text)), KdaHasPrefix(&path, &part))
    assert_true(SUFFIX("te\u00c9st.exe"));
    assert_true(SUFFIX("\\DEVICE\\a\\TE\u00c9ST.exe"));
    assert_true(SUFFIX(""));
    /* Only ASCII letters are compared without case. */
    assert_false(SUFFIX("te\u00e9st.exe"));
    assert_false(SUFFIX("x\\Device\\A\\Te\u00c9st.EXE"));
    assert_false(SUFFIX("st.exe "));
    assert_true(PREFIX("\\dEVICE\\"));
    assert_false(PREFIX("\\Device\\B"));
    assert_false(PREFIX("\\Device\\A\\Te\u00c9st.EXEx"));
    /* '[' and '{' differ by the same bit as letters do. */
    part = string_of(UNITS("["));
    const UNICODE_STRING brace = string_of(UNITS("{"));
    assert_false(KdaHasPrefix(&brace, &part));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds), cmocka_unit_test(rules),       cmocka_unit_test(wrong_rules),
        cmocka_unit_test(rates), cmocka_unit_test(comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
