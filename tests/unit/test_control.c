/*
 * What the commands for Windows are made of: rules, kinds, lines of a stream, the block of a live
 * dump and its estimate, advice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "advice.h"
#include "control.h"
#include "lines.h"
#include "live_dump.h"

static void test_join_rule(void **state)
{
    (void)state;
    static const struct {
        const char *words[4];
        const char *rule;
    } rows[] = {
        {{"exclude kind=registry.* pid=4", NULL}, "exclude kind=registry.* pid=4"},
        {{"exclude", "kind=registry.*", "pid=4", NULL}, "exclude kind=registry.* pid=4"},
        {{"exclude", "image=\\a b\\c.exe", NULL}, "exclude image=\"\\a b\\c.exe\""},
        {{"exclude", "image=\"\\a b\\c.exe\"", NULL}, "exclude image=\"\\a b\\c.exe\""},
        {{"include", NULL}, "include"},
        {{"ex clude", "x", NULL}, "ex clude x"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char *words[4];
        size_t count = 0;
        for (; rows[i].words[count]; count++)
            words[count] = (char *)(uintptr_t)rows[i].words[count];
        char *rule = control_join_rule(words, count);
        assert_non_null(rule);
        assert_string_equal(rule, rows[i].rule);
        free(rule);
    }
}

static void test_rule_length(void **state)
{
    (void)state;
    static const char head[] = "exclude image=";
    size_t most = CONTROL_RULE_MAX;
    char *rule = malloc(most + 2);
    assert_non_null(rule);
    memset(rule, 'x', most + 1);
    memcpy(rule, head, sizeof(head) - 1);
    rule[most] = '\0';
    assert_null(control_rule_problem(rule));
    rule[most] = 'x';
    rule[most + 1] = '\0';
    assert_string_equal(control_rule_problem(rule), "longer than a string can be");
    free(rule);
}

static void test_default_rules(void **state)
{
    (void)state;
    size_t count = 0;
    for (; control_default_rule(count); count++)
        assert_null(control_rule_problem(control_default_rule(count)));
    assert_in_range(count, 5, CONTROL_MAX_RULES - 1);
}

/* The same lines come out wherever the stream is cut. */
static void test_lines_cut_anywhere(void **state)
{
    (void)state;
    static const char stream[] = "one\n\ntwo two\nthree\nrest";
    static const char *const expected[] = {"one", "", "two two", "three"};
    for (size_t cut = 0; cut < sizeof(stream); cut++) {
        struct lines lines;
        size_t seen = 0, size;
        const char *text;
        lines_init(&lines, 7);
        for (size_t from = 0; from < sizeof(stream) - 1;) {
            size_t piece = from == 0 && cut > 0 ? cut : sizeof(stream) - 1 - from;
            piece = piece > sizeof(stream) - 1 - from ? sizeof(stream) - 1 - from : piece;
            char *room = lines_room(&lines, piece);
            assert_non_null(room);
            memcpy(room, stream + from, piece);
            lines_put(&lines, piece);
            from += piece;
            while (lines_next(&lines, &text, &size)) {
                assert_true(seen < 4);
                assert_int_equal(size, strlen(expected[seen]));
                assert_memory_equal(text, expected[seen], size);
                seen++;
            }
        }
        assert_int_equal(seen, 4);
        assert_int_equal(lines.too_long, 0);
        lines_deinit(&lines);
    }
}

static void test_lines_too_long(void **state)
{
    (void)state;
    struct lines lines;
    const char *text;
    size_t size;
    lines_init(&lines, 4);
    static const char *const pieces[] = {"abcde", "fgh", "i\nok\nlonger\nab", "c\n"};
    static const char *const expected[] = {"ok", "abc"};
    size_t seen = 0;
    for (size_t i = 0; i < 4; i++) {
        char *room = lines_room(&lines, strlen(pieces[i]));
        assert_non_null(room);
        memcpy(room, pieces[i], strlen(pieces[i]));
        lines_put(&lines, strlen(pieces[i]));
        while (lines_next(&lines, &text, &size)) {
            assert_int_equal(size, strlen(expected[seen]));
            assert_memory_equal(text, expected[seen], size);
            seen++;
        }
        assert_true(lines.used - lines.start <= 4); /* what is left out is not kept */
    }
    assert_int_equal(seen, 2);
    assert_int_equal(lines.too_long, 2);
    lines_deinit(&lines);
}

static void test_dump_control(void **state)
{
    (void)state;
    uint8_t control[LIVE_DUMP_CONTROL_SIZE],
        expected[LIVE_DUMP_CONTROL_SIZE] = {1, 0, 0, 0, 0x61, 1, 0, 0, 'k', 'd', 'a'};
    assert_int_equal(LIVE_DUMP_CONTROL_SIZE, 64);
    live_dump_control(false, false, control);
    assert_memory_equal(control, expected, sizeof(control));
    expected[0x38] = 4;
    live_dump_control(true, false, control);
    assert_memory_equal(control, expected, sizeof(control));
    expected[0x3c] = 1;
    live_dump_control(true, true, control);
    assert_memory_equal(control, expected, sizeof(control));
    expected[0x38] = 0;
    live_dump_control(false, true, control);
    assert_memory_equal(control, expected, sizeof(control));
}

static void test_dump_estimate(void **state)
{
    (void)state;
    const uint64_t gib = (uint64_t)1 << 30;
    for (uint64_t physical = gib; physical <= 4096 * gib; physical *= 2) {
        for (uint64_t part = 2; part <= 64; part *= 2) {
            const struct host_memory memory = {physical, physical / part};
            uint64_t plain = live_dump_estimate(&memory, false, false);
            uint64_t hypervisor = live_dump_estimate(&memory, false, true);
            uint64_t all = live_dump_estimate(&memory, true, false);
            assert_true(plain > memory.pools);
            assert_true(plain <= hypervisor && hypervisor <= all);
            assert_true(all > physical && all < physical + gib);
        }
    }
    const struct host_memory usual = {16 * gib, 2 * gib};
    assert_true(live_dump_estimate(&usual, false, false) == 3 * gib + gib / 2);
}

/* Advice is for what it is about, and for nothing else. */
static void test_advice(void **state)
{
    (void)state;
    assert_ptr_not_equal(advice_for_error(ADVICE_START, HOST_NOT_FOUND),
                         advice_for_error(ADVICE_DEVICE, HOST_NOT_FOUND));
    assert_null(advice_for_error(ADVICE_STOP, 577));
    assert_non_null(advice_for_error(ADVICE_START, 577));
    assert_null(advice_for_error(ADVICE_START, 0));
    assert_null(advice_for_error(ADVICE_START, 123456));
    for (unsigned about = ADVICE_INSTALL; about <= ADVICE_DUMP; about *= 2)
        assert_non_null(advice_for_error((enum advice_about)about, HOST_ACCESS_DENIED));
    assert_null(advice_for_dump(0));
    assert_non_null(advice_for_dump(0xc0000061u));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_join_rule),      cmocka_unit_test(test_rule_length),
        cmocka_unit_test(test_default_rules),  cmocka_unit_test(test_lines_cut_anywhere),
        cmocka_unit_test(test_lines_too_long), cmocka_unit_test(test_dump_control),
        cmocka_unit_test(test_dump_estimate),  cmocka_unit_test(test_advice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
