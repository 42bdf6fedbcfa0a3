/*
 * The audit when a call fails: the n-th fallible call fails, for n = 1, 2, … Either the audit says
 * that it failed, or it says what it could not check; a finding is never lost without a word. Also
 * the list of expected sessions, whose mistakes are told with file and line.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc.h"
#include "forged.h"
#include "kda/audit.h"

/* ---- expected sessions ---- */

static enum kda_status load(const char *text, size_t size, struct kda_expectations **ret,
                            struct kda_error *err)
{
    const char *path = KDA_BUILD_DIR "/expected.txt";
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(text, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    return kda_expectations_load(path, ret, err);
}

static const char list[] = "# sessions of our machines\n"
                           "\n"
                           "Edr\r\n"
                           "\"Circular Kernel Context Logger\" medium 19041-22000 # a comment\n"
                           "New info 22000-\n"
                           "\tOld\t10240 Critical\n"
                           "Last low";

static void test_expected_sessions(void **state)
{
    static const struct kda_expectation expected[] = {
        {"Edr", KDA_SEVERITY_HIGH, 0, 0, NULL},
        {"Circular Kernel Context Logger", KDA_SEVERITY_MEDIUM, 19041, 22000, NULL},
        {"New", KDA_SEVERITY_INFO, 22000, 0, NULL},
        {"Old", KDA_SEVERITY_CRITICAL, 10240, 10240, NULL},
        {"Last", KDA_SEVERITY_LOW, 0, 0, NULL},
    };
    struct kda_expectations *read;
    struct kda_error err;
    size_t count;
    (void)state;
    assert_int_equal(load(list, strlen(list), &read, &err), KDA_OK);
    const struct kda_expectation *items = kda_expectations_items(read, &count);
    assert_int_equal(count, 5);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(items[i].session, expected[i].session);
        assert_int_equal(items[i].severity, expected[i].severity);
        assert_int_equal(items[i].first_build, expected[i].first_build);
        assert_int_equal(items[i].last_build, expected[i].last_build);
        assert_true(items[i].why[0] != '\0');
    }
    kda_expectations_free(read);
}

static void test_mistakes_name_their_line(void **state)
{
    static const struct {
        const char *text;
        size_t size;
        enum kda_status status;
        const char *part;
    } rows[] = {
        {"A\nB loud\n", 9, KDA_USAGE, "expected.txt:2: 'loud'"},
        {"A 19041-x\n", 10, KDA_USAGE, "expected.txt:1: '19041-x'"},
        {"A -5\n", 5, KDA_USAGE, ":1: '-5'"},
        {"A 99999999999\n", 14, KDA_USAGE, ":1: '99999999999'"},
        {"\n\n\"A\n", 5, KDA_USAGE, "expected.txt:3: a quote"},
        {"A \"B\n", 5, KDA_USAGE, "expected.txt:1: a quote"},
        {"\"\" high\n", 8, KDA_USAGE, "expected.txt:1: a session without"},
        {"# nothing\n", 10, KDA_USAGE, "names no session"},
        {"", 0, KDA_USAGE, "names no session"},
        {"A\0B\n", 4, KDA_BAD_DATA, "no UTF-8 text"},
        {"\xff\xfe\n", 3, KDA_BAD_DATA, "no UTF-8 text"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kda_expectations *read = NULL;
        struct kda_error err = {0};
        assert_int_equal(load(rows[i].text, rows[i].size, &read, &err), rows[i].status);
        assert_null(read);
        if (!strstr(err.text, rows[i].part))
            fail_msg("'%s' lacks '%s'", err.text, rows[i].part);
    }
}

static void test_limits_of_the_list(void **state)
{
    struct kda_expectations *read = NULL;
    struct kda_error err = {0};
    size_t size = ((size_t)1 << 20) + 16;
    char *text = malloc(size);
    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < size; i++)
        text[i] = i % 2 ? '\n' : 'A';
    assert_int_equal(load(text, 2 * 4096, &read, &err), KDA_OK);
    kda_expectations_free(read);
    read = NULL;
    assert_int_equal(load(text, 2 * 4097, &read, &err), KDA_LIMIT);
    assert_int_equal(load(text, size, &read, &err), KDA_LIMIT);
    assert_null(read);
    assert_int_equal(kda_expectations_load(KDA_BUILD_DIR "/no such list", &read, &err), KDA_IO);
    free(text);
    kda_expectations_free(NULL);
}

/* ---- faults ---- */

#ifdef KDA_FAULT_INJECTION

static void test_faults_of_the_list(void **state)
{
    bool fired = true;
    size_t refused = 0;
    (void)state;
    for (uint64_t n = 1; fired; n++) {
        struct kda_expectations *read = NULL;
        struct kda_error err = {0};
        kda_fault_arm(n);
        enum kda_status status = load(list, strlen(list), &read, &err);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        assert_true(status == KDA_OK ? !fired : !read && err.text[0] != '\0');
        refused += status != KDA_OK;
        kda_expectations_free(read);
    }
    assert_true(refused >= 4);
}

/* One of each kind of finding, and something that is missing. */
static const char tricks[] =
    "process 904 name=evil.exe unlinked\nuser 904 patch=EtwEventWrite:c3\n"
    "consumer session=9 pid=800 unlinked\n"
    "provider {99999999-0000-0000-0000-000000000001} unlinked\n"
    "provider {99999999-0000-0000-0000-000000000002} enable=9 filter=exes:none.exe\n"
    "reg {99999999-0000-0000-0000-000000000001} user pid=412 unlinked\n"
    "callback process outside\n"
    "driver SysmonDrv.sys size=0x20000 imports=CmRegisterCallback\n"
    "poke session:4 CollectionOn 0\n"
    "hole what=altitude:5\n";

struct outcome {
    enum kda_status status;
    size_t findings, unchecked, rows, gaps;
};

static bool fired;

/* The kernel is opened without faults, so that the audit meets all of them. */
static struct outcome run(const char *text, uint64_t nth, bool callbacks_only)
{
    struct forged forged;
    struct kda_audit *audit = NULL;
    struct kda_callbacks *callbacks = NULL;
    struct kda_error err = {0};
    struct outcome r = {KDA_OK, 0, 0, 0, 0};
    forged_open(&forged, text, false);
    kda_fault_arm(nth);
    if (callbacks_only)
        r.status = kda_callbacks_read(forged.kernel, &callbacks, &err);
    else
        r.status = kda_audit_run(forged.kernel, forged.etw, NULL, &audit, &err);
    fired = kda_fault_fired();
    kda_fault_arm(0);
    r.gaps = kda_kernel_gaps(forged.kernel)->count + kda_kernel_gaps(forged.kernel)->dropped;
    if (r.status != KDA_OK) {
        assert_true(err.text[0] != '\0');
        assert_true(!audit && !callbacks);
    } else if (audit) {
        (void)kda_audit_findings(audit, &r.findings);
        (void)kda_audit_unchecked(audit, &r.unchecked);
    } else {
        r.rows = callbacks->count;
        for (size_t i = 0; i < KDA_CALLBACK_KINDS; i++)
            r.unchecked += !callbacks->sources[i].complete;
    }
    kda_audit_free(audit);
    kda_callbacks_free(callbacks);
    forged_close(&forged);
    return r;
}

static void every_fault(bool callbacks_only, size_t least)
{
    char *text = forged_text("audit", NULL, tricks);
    struct outcome good = run(text, 0, callbacks_only);
    size_t refused = 0, survived = 0;
    assert_int_equal(good.status, KDA_OK);
    assert_true(callbacks_only ? good.rows == 10 : good.findings >= 9);
    fired = true;
    for (uint64_t n = 1; fired; n++) {
        struct outcome r = run(text, n, callbacks_only);
        assert_true(n < 100000);
        refused += r.status != KDA_OK;
        survived += r.status == KDA_OK;
        if (r.status != KDA_OK)
            continue;
        bool same =
            r.findings == good.findings && r.unchecked == good.unchecked && r.rows == good.rows;
        if (!same && r.unchecked <= good.unchecked && r.gaps <= good.gaps)
            fail_msg("fault %llu changed the result without a word: findings %zu, open %zu, "
                     "callbacks %zu, gaps %zu",
                     (unsigned long long)n, r.findings, r.unchecked, r.rows, r.gaps);
    }
    free(text);
    if (refused < least || survived == 0)
        fail_msg("%zu refused, %zu survived", refused, survived);
}

static void test_faults_of_the_audit(void **state)
{
    (void)state;
    every_fault(false, 20);
}

static void test_faults_of_callbacks(void **state)
{
    (void)state;
    every_fault(true, 5);
}

#else

static void test_faults_of_the_list(void **state)
{
    (void)state;
    skip();
}

static void test_faults_of_the_audit(void **state)
{
    (void)state;
    skip();
}

static void test_faults_of_callbacks(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expected_sessions),   cmocka_unit_test(test_mistakes_name_their_line),
        cmocka_unit_test(test_limits_of_the_list),  cmocka_unit_test(test_faults_of_the_list),
        cmocka_unit_test(test_faults_of_the_audit), cmocka_unit_test(test_faults_of_callbacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
