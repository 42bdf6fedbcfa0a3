/*
 * test_compare.c - two witnesses: what integration tests cannot reach, memory that runs out above
 * all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "kda/compare.h"

#define LOAD(id, second, module)                                                                   \
    "{\"v\":1,\"id\":" #id ",\"time\":\"2026-11-29T21:04:" #second                                 \
    ".0000000Z\",\"kind\":\"image.load\",\"source\":\"memory\",\"cpu\":1,\"pid\":7,"               \
    "\"target_pid\":7,\"base\":\"0x10000\",\"module\":\"" module "\"}"
#define LOSS(second)                                                                               \
    "{\"v\":1,\"id\":90,\"time\":\"2026-11-29T21:04:" #second                                      \
    ".0000000Z\",\"kind\":\"sensor.loss\",\"source\":\"driver\",\"lost\":{\"image.load\":1}}"
#define START                                                                                      \
    "{\"v\":1,\"id\":0,\"time\":\"2026-11-29T21:04:00.0000000Z\",\"kind\":\"sensor.start\","       \
    "\"source\":\"driver\",\"settings\":{\"Kinds\":[\"image.load\",\"process.exit\"]}}"

static const struct {
    unsigned witness;
    const char *text;
} lines[] = {
    {0, START},
    {0, LOAD(1, 10, "C:\\\\Windows\\\\a.dll")},
    {0, LOAD(2, 20, "C:\\\\Windows\\\\b.dll")},
    {0, LOAD(3, 30, "C:\\\\Windows\\\\c.dll")},
    {0, LOAD(4, 40, "C:\\\\Windows\\\\d.dll")},
    {1, START},
    {1, LOAD(1, 10, "\\\\Device\\\\HarddiskVolume12\\\\windows\\\\A.DLL")},
    {1, LOAD(2, 21, "\\\\SystemRoot\\\\b.dll")},
    {1, LOSS(30)},
    {1, LOAD(4, 50, "\\\\SystemRoot\\\\e.dll")},
};

static enum kda_status add_all(struct kda_compare *compare, struct kda_error *err)
{
    struct kda_log_line line;
    enum kda_status status = KDA_OK;
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]) && status == KDA_OK; i++) {
        kda_log_parse(lines[i].text, strlen(lines[i].text), &line);
        assert_int_equal(line.what, KDA_LOG_LINE);
        status = kda_compare_add(compare, lines[i].witness, &line, err);
    }
    return status == KDA_OK ? kda_compare_run(compare, err) : status;
}

static void check(const struct kda_compare *compare)
{
    size_t count;
    const struct kda_compare_group *groups = kda_compare_groups(compare, &count);
    const struct kda_compare_witness *a = kda_compare_witness(compare, 0);
    assert_int_equal(a->events, 4);
    assert_int_equal(a->matched, 2);
    assert_int_equal(a->left_out[KDA_COMPARE_LOST], 1);
    assert_int_equal(a->only, 1);
    assert_int_equal(count, 1);
    assert_int_equal(groups[0].seen_by, 0);
    assert_int_equal(groups[0].events[0]->id, 4);
    assert_non_null(strstr(groups[0].events[0]->what, "d.dll"));
}

static void test_matching(void **state)
{
    struct kda_compare *compare;
    struct kda_error err;
    (void)state;
    assert_int_equal(kda_compare_create(NULL, &compare, &err), KDA_OK);
    assert_int_equal(add_all(compare, &err), KDA_OK);
    check(compare);
    kda_compare_destroy(compare);
}

static void test_reasons_have_names(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KDA_COMPARE_REASONS; i++)
        for (unsigned j = 0; j < i; j++)
            assert_string_not_equal(kda_compare_reason_name(i), kda_compare_reason_name(j));
    assert_string_equal(kda_compare_reason_name(KDA_COMPARE_REASONS), "unknown");
}

static void test_kinds(void **state)
{
    (void)state;
    assert_true(kda_compare_kind(kda_log_kind_find("process.create", 14)));
    assert_false(kda_compare_kind(kda_log_kind_find("process.existing", 16)));
    assert_false(kda_compare_kind(kda_log_kind_find("sensor.loss", 11)));
    assert_false(kda_compare_kind(0));
}

#ifdef KDA_FAULT_INJECTION
static void test_memory_runs_out(void **state)
{
    (void)state;
    for (uint64_t n = 1;; n++) {
        struct kda_compare *compare = NULL;
        struct kda_error err = {0};
        kda_fault_arm(n);
        enum kda_status status = kda_compare_create(NULL, &compare, &err);
        if (status == KDA_OK)
            status = add_all(compare, &err);
        bool fired = kda_fault_fired();
        kda_fault_arm(0);
        if (!fired) {
            assert_int_equal(status, KDA_OK);
            check(compare);
            kda_compare_destroy(compare);
            assert_true(n > 3);
            return;
        }
        assert_true(status == KDA_NO_MEMORY || status == KDA_LIMIT);
        assert_true(err.text[0] != '\0');
        kda_compare_destroy(compare);
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matching),
        cmocka_unit_test(test_reasons_have_names),
        cmocka_unit_test(test_kinds),
#ifdef KDA_FAULT_INJECTION
        cmocka_unit_test(test_memory_runs_out),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
