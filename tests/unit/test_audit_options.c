/*
 * What a caller may choose for the audit, what a build or an image lacks as a whole, and how much
 * is kept. The checks one by one are in test_audit.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audited.h"

#define OTHER "{99999999-0000-0000-0000-000000000001}"

/* What a build lacks is not checked, and says so. */
static void test_what_a_build_lacks(void **state)
{
    static const struct {
        const char *build, *check, *reason;
    } rows[] = {
        {"6.1.7601.24540", "registration.flags", "does not name the flag bits"},
        {"6.1.7601.24540", "system.loggers", "form that is not known"},
        {"6.1.7601.24540", "system.security_provider", "keeps no"},
        {"6.3.9600.19913", "system.security_provider", "keeps no"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct audited run;
        size_t count, matching = 0;
        char add[64];
        (void)snprintf(add, sizeof(add), "build %s", rows[i].build);
        audited_start(&run, "poke silo", add, NULL);
        const struct kda_unchecked *open = kda_audit_unchecked(run.audit, &count);
        for (size_t k = 0; k < count; k++)
            matching += strcmp(open[k].check->id, rows[i].check) == 0 &&
                        strstr(open[k].reason, rows[i].reason);
        if (matching != 1 ||
            audited_result(&run, rows[i].check)->outcome != KDA_CHECK_NOT_CHECKED) {
            audited_print(&run);
            fail_msg("%s: %s", rows[i].build, rows[i].check);
        }
        audited_stop(&run);
    }
}

/* Without a model only what needs none is checked. */
static void test_without_a_model(void **state)
{
    struct forged forged;
    struct kda_audit *audit;
    struct kda_error err;
    size_t count;
    char *text = forged_text("audit", NULL, NULL);
    (void)state;
    forged_open(&forged, text, false);
    free(text);
    assert_int_equal(kda_audit_run(forged.kernel, NULL, NULL, &audit, &err), KDA_OK);
    const struct kda_check_result *results = kda_audit_results(audit, &count);
    for (size_t i = 0; i < count; i++) {
        const char *id = results[i].check->id;
        bool alone = strncmp(id, "callback.", 9) == 0 || strncmp(id, "process.", 8) == 0 ||
                     strncmp(id, "code.", 5) == 0;
        assert_int_equal(results[i].outcome, alone ? KDA_CHECK_PASSED : KDA_CHECK_NOT_CHECKED);
    }
    kda_audit_free(audit);
    forged_close(&forged);
}

static void test_lost_threshold(void **state)
{
    struct kda_audit_options options = {.lost_threshold = 5};
    struct audited run;
    size_t count;
    (void)state;
    audited_start(&run, NULL,
                  "session 10 name=Five mode=0x400 bufferslost=5\n"
                  "session 11 name=Four mode=0x400 bufferslost=4",
                  &options);
    const struct kda_audit_finding *const *findings = kda_audit_findings(run.audit, &count);
    assert_int_equal(count, 2);
    assert_int_equal(findings[0]->severity, KDA_SEVERITY_LOW);
    assert_string_equal(findings[0]->name, "Five");
    assert_int_equal(findings[1]->severity, KDA_SEVERITY_INFO);
    audited_stop(&run);
}

static void test_expectations_of_the_caller(void **state)
{
    static const struct kda_expectation list[] = {
        {"edr", KDA_SEVERITY_CRITICAL, 0, 0, "is ours"},
        {"Missing", KDA_SEVERITY_CRITICAL, 22000, 22000, "is ours"},
        {"Later", KDA_SEVERITY_HIGH, 22001, 0, "is ours"},
        {"Earlier", KDA_SEVERITY_HIGH, 0, 21999, "is ours"},
    };
    struct kda_audit_options options = {.expected = list, .expected_count = 4};
    struct audited run;
    size_t count;
    (void)state;
    audited_start(&run, NULL, NULL, &options);
    const struct kda_audit_finding *const *findings = kda_audit_findings(run.audit, &count);
    assert_int_equal(count, 1);
    assert_string_equal(findings[0]->name, "Missing");
    assert_int_equal(findings[0]->severity, KDA_SEVERITY_CRITICAL);
    audited_stop(&run);
}

static bool two_events(void *context, const uint8_t guid[16], size_t index, uint16_t *id)
{
    (void)context;
    if (guid[15] != 0x01 || index > 1)
        return false;
    *id = (uint16_t)(10 + index);
    return true;
}

static void test_known_events(void **state)
{
    struct kda_audit_options options = {.known_event = two_events};
    static const struct {
        const char *ids;
        size_t findings;
    } rows[] = {{"10,900", 0}, {"11", 0}, {"12,13", 1}};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct audited run;
        size_t count;
        char add[128];
        (void)snprintf(add, sizeof(add), "provider " OTHER " enable=9 filter=events:%s",
                       rows[i].ids);
        audited_start(&run, NULL, add, &options);
        const struct kda_audit_finding *const *findings = kda_audit_findings(run.audit, &count);
        assert_int_equal(count, rows[i].findings);
        if (count)
            assert_string_equal(findings[0]->check->id, "provider.filtered");
        audited_stop(&run);
    }
}

/* A flood of findings in one check takes no room from the others. */
static void test_a_flood_hides_nothing(void **state)
{
    size_t count, kept = 0, extra = KDA_AUDIT_MAX_FINDINGS + 7;
    char *add = calloc(extra + 1, 80);
    bool later = false;
    struct audited run;
    (void)state;
    assert_non_null(add);
    size_t used = (size_t)snprintf(add, 80, "size 32M\ncode EtwWrite c3\n");
    for (size_t i = 0; i < extra; i++)
        used += (size_t)snprintf(add + used, 80,
                                 "provider {%08zx-0000-0000-0000-000000000000} enable=30\n", i + 1);
    audited_start(&run, NULL, add, NULL);
    free(add);
    const struct kda_audit_finding *const *findings = kda_audit_findings(run.audit, &count);
    for (size_t i = 0; i < count; i++) {
        kept += strcmp(findings[i]->check->id, "provider.dead_session") == 0;
        later = later || strcmp(findings[i]->check->id, "code.kernel") == 0;
    }
    assert_int_equal(kept, KDA_AUDIT_MAX_FINDINGS);
    assert_int_equal(kda_audit_dropped(run.audit), 7);
    assert_int_equal(audited_result(&run, "provider.dead_session")->findings, extra);
    assert_true(later);
    audited_stop(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_build_lacks),
        cmocka_unit_test(test_without_a_model),
        cmocka_unit_test(test_lost_threshold),
        cmocka_unit_test(test_expectations_of_the_caller),
        cmocka_unit_test(test_known_events),
        cmocka_unit_test(test_a_flood_hides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
