/*
 * The tool refuses the rules that the driver would refuse, and no others: both read the same texts,
 * well-formed ones and ones that were damaged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control.h"
#include "driver.h"

#define TEXT_MAX 256
#define ROUNDS 200000u

static uint32_t random_state = 1;

static uint32_t next_random(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % below;
}

/* ASCII only: what lies above it is the same to both, since neither looks into it. */
static SIZE_T widen(const char *text, WCHAR *wide)
{
    SIZE_T count = strlen(text);
    for (SIZE_T i = 0; i < count; i++)
        wide[i] = (WCHAR)(unsigned char)text[i];
    return count;
}

static void compare(const char *text)
{
    WCHAR wide[TEXT_MAX];
    KDA_RULE rule;
    ULONG kinds = 0;
    const CHAR *why = NULL;
    SIZE_T count = widen(text, wide);
    const BOOLEAN good = KdaParseRule(wide, count, &rule, &why);
    const char *problem = control_rule_problem(text);
    if (good ? problem != NULL : problem == NULL || strcmp(problem, why) != 0)
        fail_msg("'%s': the driver says '%s', the tool '%s'", text, good ? "good" : why,
                 problem ? problem : "good");
    if (!KdaParseKinds(wide, count, &kinds))
        kinds = 0;
    if (control_parse_kinds(text, strlen(text)) != kinds)
        fail_msg("kinds '%s': 0x%x and 0x%llx", text, (unsigned)kinds,
                 (unsigned long long)control_parse_kinds(text, strlen(text)));
}

static const char *const seeds[] = {
    "exclude",
    "include kind=process.* pid=4",
    "exclude kind=registry.value_set,image.load key=\\REGISTRY\\A\\",
    "exclude image=\"\\Program Files\\x.exe\" module=\\System32\\ntdll.dll",
    "exclude pid=4294967294",
    "exclude pid=4294967295",
    "exclude pid=99999999999999999999999",
    "exclude kind=etw.event",
    "exclude kind=*",
    "exclude kind=",
    "exclude kind=,",
    "exclude kind=image.load,",
    "exclude image=\"\"",
    "exclude image=\"a\"b\"",
    "  include\tkey=x ",
    "",
    "\"",
    "process.create,thread.*",
};

static void test_seeds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++)
        compare(seeds[i]);
    for (size_t i = 0; control_default_rule(i); i++)
        compare(control_default_rule(i));
}

static void test_damaged(void **state)
{
    (void)state;
    static const char alphabet[] = "\"=,* .\tkpi4x\\";
    unsigned good = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        char text[TEXT_MAX];
        (void)snprintf(text, sizeof(text), "%s",
                       seeds[next_random((uint32_t)(sizeof(seeds) / sizeof(seeds[0])))]);
        for (uint32_t change = next_random(4); change > 0; change--) {
            size_t size = strlen(text), at = next_random((uint32_t)size + 1);
            char c = alphabet[next_random(sizeof(alphabet) - 1)];
            if (next_random(2) == 0 && size + 1 < sizeof(text)) {
                memmove(text + at + 1, text + at, size + 1 - at);
                text[at] = c;
            } else if (at < size) {
                text[at] = c;
            }
        }
        compare(text);
        good += control_rule_problem(text) == NULL;
    }
    assert_in_range(good, ROUNDS / 20, ROUNDS - ROUNDS / 20); /* both kinds were among them */
}

static void test_kinds(void **state)
{
    (void)state;
    assert_true(control_kinds() == KdaDriverKinds);
    assert_true(control_default_kinds() == KDA_SETTINGS_DEFAULT_KINDS);
    assert_true(control_default_kinds() != control_kinds());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_kinds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
