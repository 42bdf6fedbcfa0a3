/*
 * Findings that corroborate each other: one stands for all and says so, the others stay findings of
 * their checks. A removed callback of each kind that the kernel counts names its driver.
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

#define PROCESS "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}"
#define OTHER "{99999999-0000-0000-0000-000000000001}"

/* What one act leaves behind. `with` NULL: `lead` stands alone. */
struct join {
    const char *add;
    const char *lead, *with;
    const char *name; /* a part of the lead's */
    enum kda_severity severity;
};

#define SENSOR(imports)                                                                            \
    "driver sensor.sys size=0x20000 imports=" imports "\n"                                         \
    "callback object_process driver=sensor.sys altitude=7\n"

static const struct join joins[] = {
    {SENSOR("PsSetCreateProcessNotifyRoutineEx") "callback process driver=sensor.sys emptied",
     "callback.missing", "callback.count", "sensor.sys", KDA_SEVERITY_HIGH},
    {SENSOR("PsSetCreateThreadNotifyRoutine") "callback thread driver=sensor.sys emptied",
     "callback.missing", "callback.count", "sensor.sys", KDA_SEVERITY_HIGH},
    {SENSOR("PsSetLoadImageNotifyRoutine") "callback image driver=sensor.sys emptied",
     "callback.missing", "callback.count", "sensor.sys", KDA_SEVERITY_HIGH},
    {SENSOR("CmRegisterCallbackEx") "callback registry driver=sensor.sys altitude=8 emptied",
     "callback.missing", "callback.count", "sensor.sys", KDA_SEVERITY_HIGH},
    /* A driver without any other callback is as sure when nobody else could be meant. */
    {"driver plain.sys size=0x20000 imports=PsSetLoadImageNotifyRoutine\n"
     "callback image driver=plain.sys emptied",
     "callback.missing", "callback.count", "plain.sys", KDA_SEVERITY_HIGH},
    /* Two ask and one is missing: the one that lives on callbacks is likely, not sure. */
    {SENSOR("PsSetLoadImageNotifyRoutine") "driver plain.sys size=0x20000 "
                                           "imports=PsSetLoadImageNotifyRoutine\n"
                                           "callback image driver=sensor.sys emptied",
     "callback.missing", "callback.count", "sensor.sys", KDA_SEVERITY_MEDIUM},
    /* Another driver's imports cannot be read: it may be the one. */
    {SENSOR("PsSetLoadImageNotifyRoutine") "driver plain.sys size=0x20000 imports=EtwWrite\n"
                                           "hole what=imports:plain.sys\n"
                                           "callback image driver=sensor.sys emptied",
     "callback.missing", "callback.count", "sensor.sys", KDA_SEVERITY_MEDIUM},
    /* The kernel does not count object callbacks, and a count that agrees accuses nobody. */
    {"driver plain.sys size=0x20000 imports=ObRegisterCallbacks\n"
     "callback object_process driver=plain.sys altitude=7 emptied",
     "callback.missing", NULL, "plain.sys", KDA_SEVERITY_INFO},
    {"driver plain.sys size=0x20000 imports=PsSetLoadImageNotifyRoutine", "callback.missing", NULL,
     "plain.sys", KDA_SEVERITY_INFO},
    /* A count that is too low is another act. */
    {"driver plain.sys size=0x20000 imports=PsSetLoadImageNotifyRoutine\n"
     "poke symbol:PspLoadImageNotifyRoutineCount +0 0 width=4",
     "callback.missing", NULL, "plain.sys", KDA_SEVERITY_INFO},
    {"driver SysmonDrv.sys size=0x20000 imports=PsSetLoadImageNotifyRoutine\n"
     "callback image driver=SysmonDrv.sys emptied",
     "callback.security_driver", "callback.missing", "SysmonDrv.sys", KDA_SEVERITY_HIGH},

    {"consumer session=9 pid=800 unlinked\npoke session:9 NumConsumers 2", "consumer.unlinked",
     "session.consumer_count", "lsass.exe (800) of Edr", KDA_SEVERITY_CRITICAL},
    {"consumer session=9 pid=800 unlinked", "consumer.unlinked", NULL, "lsass.exe (800) of Edr",
     KDA_SEVERITY_CRITICAL},
    {"process 904 name=hid.exe unlinked\nconsumer session=9 pid=904", "process.unlinked",
     "consumer.no_process", "hid.exe (904)", KDA_SEVERITY_CRITICAL},
    {"poke session:9 AcceptNewEvents 0xffffffff\npoke session:9 CollectionOn 0",
     "session.rejecting", "session.stopped", "Edr", KDA_SEVERITY_CRITICAL},
    {"poke session:9 AcceptNewEvents 0xffffffff\npoke session:4 CollectionOn 0",
     "session.rejecting", NULL, "Edr", KDA_SEVERITY_CRITICAL}, /* two sessions, two findings */
    {"consumer session=30 pid=800 unlinked\nprovider " OTHER " enable=30", "consumer.unlinked",
     "provider.dead_session", "lsass.exe (800)", KDA_SEVERITY_HIGH},
    {"consumer session=31 pid=800 unlinked\nprovider " OTHER " enable=30", "consumer.unlinked",
     NULL, "lsass.exe (800)", KDA_SEVERITY_HIGH},
    {"poke provider:" PROCESS " ProviderEnableInfo/TRACE_ENABLE_INFO.IsEnabled 0\n"
     "reg " PROCESS " user pid=412 mask=0",
     "provider.combined", "registration.mask", PROCESS, KDA_SEVERITY_CRITICAL},
    {"provider " OTHER " unlinked\nreg " OTHER " user pid=412\nreg " OTHER " user pid=800 unlinked",
     "provider.unlinked", "registration.unlinked", OTHER, KDA_SEVERITY_CRITICAL},
};
#define JOINS (sizeof(joins) / sizeof(joins[0]))

static bool stands_for(const struct kda_audit_finding *finding, const struct join *join)
{
    if (!join->with)
        return finding->corroborating_count == 0 && !strstr(finding->text, "corroborated by");
    for (size_t i = 0; i < finding->corroborating_count; i++) {
        const struct kda_audit_finding *other = finding->corroborating[i];
        if (strcmp(other->check->id, join->with) == 0)
            return other->joined_to && strcmp(other->joined_to->check->id, join->lead) == 0 &&
                   strstr(finding->text, other->text) && strstr(finding->text, join->with);
    }
    return false;
}

/* Nothing is lost by joining: every finding is counted for its check, and stands for itself or is
 * told by one that is as severe at least. */
static void nothing_is_lost(const struct audited *run)
{
    size_t count, checks, counted = 0;
    const struct kda_audit_finding *const *findings = kda_audit_findings(run->audit, &count);
    const struct kda_check_result *results = kda_audit_results(run->audit, &checks);
    for (size_t i = 0; i < checks; i++)
        counted += results[i].findings;
    assert_int_equal(counted, count);
    for (size_t i = 0; i < count; i++) {
        const struct kda_audit_finding *finding = findings[i];
        assert_true(finding->evidence_count <= KDA_AUDIT_EVIDENCE);
        assert_false(finding->joined_to && finding->corroborating_count);
        if (!finding->joined_to)
            continue;
        bool told = false;
        for (size_t k = 0; k < finding->joined_to->corroborating_count; k++)
            told = told || finding->joined_to->corroborating[k] == finding;
        assert_true(told && finding->joined_to->severity >= finding->severity);
    }
}

static void test_joins(void **state)
{
    unsigned failed = 0;
    (void)state;
    for (size_t i = 0; i < JOINS; i++) {
        struct audited run;
        size_t count, fit = 0;
        audited_start(&run, NULL, joins[i].add, NULL);
        const struct kda_audit_finding *const *findings = kda_audit_findings(run.audit, &count);
        for (size_t k = 0; k < count; k++)
            fit += strcmp(findings[k]->check->id, joins[i].lead) == 0 && findings[k]->name &&
                   strstr(findings[k]->name, joins[i].name) && !findings[k]->joined_to &&
                   findings[k]->severity == joins[i].severity && stands_for(findings[k], &joins[i]);
        nothing_is_lost(&run);
        if (fit != 1) {
            audited_print(&run);
            print_message("join %zu (%s): %zu findings fit\n", i, joins[i].add, fit);
            failed++;
        }
        audited_stop(&run);
    }
    assert_int_equal(failed, 0);
}

/* A flood in one object becomes one sentence with a number in it. */
static void test_many(void **state)
{
    struct audited run;
    size_t count, joined = 0;
    char add[8192];
    int used = snprintf(add, sizeof(add), "poke provider:%s %s 0\n", PROCESS,
                        "ProviderEnableInfo/TRACE_ENABLE_INFO.IsEnabled");
    (void)state;
    for (unsigned i = 0; i < 40; i++)
        used += snprintf(add + used, sizeof(add) - (size_t)used, "reg %s user pid=412 mask=0\n",
                         PROCESS);
    audited_start(&run, NULL, add, NULL);
    const struct kda_audit_finding *const *findings = kda_audit_findings(run.audit, &count);
    for (size_t i = 0; i < count; i++)
        joined += findings[i]->joined_to != NULL;
    assert_int_equal(joined, 40);
    assert_int_equal(findings[0]->corroborating_count, 40);
    assert_non_null(strstr(findings[0]->text, "; 40 findings)"));
    assert_int_equal(findings[0]->evidence_count, KDA_AUDIT_EVIDENCE);
    nothing_is_lost(&run);
    audited_stop(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
