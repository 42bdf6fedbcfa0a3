/*
 * Every check of the audit: found when the trick is there, passed on a healthy machine, not checked
 * when what it needs is missing. The tables below are the tests; a check without all three fails.
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

#define TI "{f4e1897c-bb5d-5668-f1d8-040f4d8dd344}"
#define PROCESS "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}"
#define GROUP "{11111111-2222-3333-4444-555555555555}"
#define OTHER "{99999999-0000-0000-0000-000000000001}"
#define NEIGHBOUR "{a9999999-0000-0000-0000-000000000001}" /* in the same bucket */
#define SYSTEM_SD "sd=O:SYG:SYD:(A;;0x120fff;;;SY)"
#define SLOT "EnableInfo/TRACE_ENABLE_INFO."
#define COMBINED "ProviderEnableInfo/TRACE_ENABLE_INFO."
#define SETTINGS "SystemLoggerSettings/ETW_SYSTEM_LOGGER_SETTINGS."

/* A trick: lines taken from the healthy scenario and lines added, and what has to be found. */
struct trick {
    const char *check, *drop, *add;
    const char *object, *name; /* of one of the findings; name: a part of it */
    enum kda_severity severity;
};

#define INFO KDA_SEVERITY_INFO
#define LOW KDA_SEVERITY_LOW
#define MEDIUM KDA_SEVERITY_MEDIUM
#define HIGH KDA_SEVERITY_HIGH
#define CRITICAL KDA_SEVERITY_CRITICAL

static const struct trick tricks[] = {
    {"session.stopped", NULL, "poke session:4 CollectionOn 0", "session", "EventLog-System", HIGH},
    {"session.rejecting", NULL, "poke session:3 AcceptNewEvents 0xffffffff", "session",
     "EventLog-Security", CRITICAL},
    {"session.logger_id", NULL, "poke session:5 LoggerId 9", "session", "EventLog-Application",
     HIGH},
    {"session.clock", NULL, "poke session:9 GetCpuClock 4", "session", "Edr", CRITICAL},
    {"session.clock", NULL, "poke session:9 GetCpuClock @image:exampleedr.sys", "session", "Edr",
     CRITICAL},
    {"session.clock", NULL,
     "build 10.0.17763.379\npoke session:9 GetCpuClock @image:exampleedr.sys", "session", "Edr",
     CRITICAL},
    {"session.clock", NULL, "build 10.0.17763.379\npoke session:9 GetCpuClock 0xffff90000000b000",
     "session", "Edr", CRITICAL},
    {"session.lost", NULL, "session 10 name=Loser mode=0x400 eventslost=5", "session", "Loser",
     INFO},
    {"session.lost", NULL, "session 10 name=Loser mode=0x400 rtlost=1", "session", "Loser", INFO},
    {"session.consumer_count", NULL, "poke session:9 NumConsumers 3", "session", "Edr", MEDIUM},
    {"session.consumer_count", "consumer session=9",
     "consumer session=9 pid=900 unlinked\npoke session:9 NumConsumers 1", "session", "Edr", HIGH},
    {"session.no_consumer", NULL, "session 10 name=Alone mode=0x100", "session", "Alone", LOW},
    {"session.expected", "session 4|consumer session=4", NULL, "session", "EventLog-System", HIGH},
    {"session.expected", "session 8|consumer session=8|provider {11111111|reg {66666666", NULL,
     "session", "Diagtrack-Listener", LOW},
    {"session.security", NULL, "session 10 name=Open mode=0x400 sd=O:SYG:SYD:(A;;0x120fff;;;WD)",
     "session", "Open", HIGH},
    {"session.security", NULL, "session 10 name=Open mode=0x400 sd=O:SYG:SYD:NO_ACCESS_CONTROL",
     "session", "Open", HIGH},
    {"consumer.unlinked", NULL, "consumer session=9 pid=800 unlinked", "consumer",
     "lsass.exe (800) of Edr", CRITICAL},
    {"consumer.unlinked", NULL, "consumer session=40 pid=800 unlinked", "consumer",
     "lsass.exe (800)", HIGH},
    {"consumer.no_handle", NULL, "consumer session=9 pid=800 nohandle", "consumer",
     "lsass.exe (800) of Edr", MEDIUM},
    {"consumer.no_process", NULL, "process 904 name=hid.exe unlinked\nconsumer session=9 pid=904",
     "consumer", "hid.exe (904) of Edr", CRITICAL},
    {"consumer.no_process", NULL, "poke consumer:900 ProcessObject 0xffff9000deadb000", "consumer",
     "of Edr", HIGH},
    {"consumer.no_process", NULL, "poke process:900 ExitTime 133543740960000000", "consumer",
     "of Edr", MEDIUM},
    {"consumer.other_silo", NULL, "silo 1\npoke consumer:900 SiloState @silo:1", "consumer",
     "edr.exe (900) of Edr", MEDIUM},
    {"consumer.disconnected", NULL, "poke consumer:900 Flags 4", "consumer", "edr.exe (900) of Edr",
     MEDIUM},
    {"provider.combined", NULL, "poke provider:" PROCESS " " COMBINED "IsEnabled 0", "provider",
     PROCESS, CRITICAL},
    {"provider.combined", NULL, "poke provider:" PROCESS " " SLOT "IsEnabled 0", "provider",
     PROCESS, HIGH},
    {"provider.combined", NULL, "poke provider:" PROCESS " " COMBINED "Level 1", "provider",
     PROCESS, HIGH},
    {"provider.combined", NULL, "poke provider:" PROCESS " " COMBINED "MatchAnyKeyword 0x20",
     "provider", PROCESS, HIGH},
    {"provider.dead_session", NULL, "provider " OTHER " enable=30", "provider", OTHER, MEDIUM},
    {"provider.filtered", NULL, "provider " OTHER " enable=9 filter=pids:7777,7778", "provider",
     OTHER, MEDIUM},
    {"provider.filtered", NULL, "provider " OTHER " enable=9 filter=exes:none.exe;no.exe",
     "provider", OTHER, MEDIUM},
    {"provider.unlinked", NULL, "provider " OTHER " unlinked\nreg " OTHER " user pid=412",
     "provider", OTHER, CRITICAL},
    {"provider.silent", NULL,
     "poke provider:" TI " " SLOT "IsEnabled 0\npoke provider:" TI " " SLOT "IsEnabled+0x20 0",
     "provider", TI, MEDIUM},
    {"provider.silent", NULL, "poke symbol:EtwThreatIntProvRegHandle +0 0", "provider",
     "Threat-Intelligence", HIGH},
    {"provider.silent", NULL, "poke symbol:EtwThreatIntProvRegHandle +0 @reg:2", "provider",
     "Threat-Intelligence", HIGH},
    {"registration.unlinked", NULL, "reg " PROCESS " user pid=412 unlinked", "registration",
     "by svchost.exe (412)", CRITICAL},
    {"registration.mask", NULL, "reg " PROCESS " user pid=412 mask=0", "registration",
     "by svchost.exe (412)", HIGH},
    {"registration.mask", NULL, "reg " PROCESS " user pid=412 mask=0x81", "registration",
     "by svchost.exe (412)", HIGH},
    {"registration.mask", NULL, "poke reg:5 GroupEnableMask 0", "registration",
     "by svchost.exe (412)", HIGH},
    {"registration.callback", NULL, "poke reg:6 Callback 0xffff90000000b000", "registration", "by",
     HIGH},
    {"registration.flags", NULL, "poke reg:3 Flags 0x22", "registration", "by svchost.exe (412)",
     MEDIUM},
    {"registration.flags", NULL, "poke reg:3 Flags 0xe2", "registration", "by svchost.exe (412)",
     MEDIUM},
    {"callback.outside", NULL, "callback process outside", "callback", "process slot 3", CRITICAL},
    {"callback.outside", NULL, "callback registry outside altitude=1", "callback", "registry",
     CRITICAL},
    {"callback.outside", NULL, "callback object_process outside altitude=1", "callback",
     "object_process", CRITICAL},
    {"callback.outside", NULL, "poke callback:8 +0x30 0xffff90000000b000", "callback",
     "object_thread", CRITICAL}, /* post-operation */
    {"callback.count", NULL, "callback thread driver=WdFilter.sys emptied", "callback", "thread",
     MEDIUM},
    {"callback.count", NULL, "callback registry driver=WdFilter.sys altitude=7 emptied", "callback",
     "registry", MEDIUM},
    {"callback.count", NULL, "poke symbol:PspCreateProcessNotifyRoutineCount +0 0 width=4",
     "callback", "process", HIGH},
    {"callback.missing", NULL, "driver other.sys size=0x20000 imports=PsSetLoadImageNotifyRoutine",
     "driver", "other.sys", INFO},
    {"callback.missing", NULL,
     "driver SysmonDrv.sys size=0x20000 imports=CmRegisterCallback\n"
     "callback process driver=SysmonDrv.sys",
     "driver", "SysmonDrv.sys", HIGH},
    {"callback.security_driver", NULL, "driver SysmonDrv.sys size=0x20000", "driver",
     "SysmonDrv.sys", HIGH},
    {"callback.altitude", NULL, "callback registry driver=exampleedr.sys altitude=328010",
     "callback", "registry of exampleedr.sys", MEDIUM},
    {"callback.altitude", NULL, "callback object_process driver=exampleedr.sys altitude=328010",
     "callback", "object_process of exampleedr.sys", MEDIUM},
    {"process.unlinked", NULL, "process 904 name=evil.exe unlinked", "process", "evil.exe (904)",
     CRITICAL},
    {"process.no_cid", NULL, "process 904 name=evil.exe nocid", "process", "evil.exe (904)", HIGH},
    {"system.loggers", NULL, "session 10 name=Kernel mode=0x02000100", "session", "Kernel", HIGH},
    {"system.loggers", NULL, "poke silo:0 " SETTINGS "EtwpActiveSystemLoggers 3", "system_logger",
     "index 1", HIGH},
    {"system.loggers", NULL, "poke session:2 LoggerMode 0x00800480", "system_logger", "index 0",
     HIGH},
    {"system.group_masks", NULL, "poke silo:0 " SETTINGS "SiloGlobalGroupMask 1 width=4", "silo",
     "host", HIGH},
    {"system.group_masks", NULL, "poke silo:0 " SETTINGS "SiloGlobalGroupMask 7 width=4", "silo",
     "host", LOW},
    {"system.group_masks", NULL, "poke silo:0 " SETTINGS "EtwpGroupMasks 0 width=4", "silo", "host",
     MEDIUM},
    {"system.security_provider", NULL, "poke silo:0 EtwpSecurityProviderPID 9996", "silo", "host",
     HIGH},
    {"system.security_provider", NULL, "poke silo:0 EtwpSecurityLoggers 40 width=2", "silo", "host",
     HIGH},
    {"code.kernel", NULL, "code EtwWrite c3", "function", "EtwWrite", CRITICAL},
    {"code.kernel", NULL, "code EtwWriteTransfer 33c0c3", "function", "EtwWriteTransfer", CRITICAL},
    {"code.kernel", NULL, "code NtTraceEvent e9ffffff7f9090", "function", "NtTraceEvent", CRITICAL},
    {"code.kernel", NULL, "code EtwWriteEx 48b8000000009000ffffffe0", "function", "EtwWriteEx",
     CRITICAL},
    {"code.user", NULL, "process 904 name=amsi.exe\nuser 904 patch=EtwEventWrite:33c0c3", "process",
     "amsi.exe (904)", HIGH},
    {"code.user", NULL, "process 904 name=amsi.exe\nuser 904 patch=EtwEventWriteFull:c21400",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL, "process 904 name=amsi.exe\nuser 904 patch=NtTraceEvent:b800000000c3",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL, "process 904 name=amsi.exe\nuser 904 patch=NtTraceEvent:90909090",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL, "process 904 name=amsi.exe\nuser 904 patch=EtwEventWrite:e900000080",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL, "process 904 name=amsi.exe\nuser 904 patch=EtwEventWrite:90906a0058c3",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL,
     "process 904 name=amsi.exe\nuser 904 patch=EtwEventWrite:ff25000000000000000000900000",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL, "process 904 name=amsi.exe\nuser 904 patch=EtwEventWrite:6800000090c3",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL,
     "process 904 name=amsi.exe\n"
     "user 904 patch=EtwEventWrite:6800000000c744240490000000c3",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL,
     "process 904 name=amsi.exe\n"
     "user 904 patch=EtwEventWrite:49bb000000900000000041ffe3",
     "process", "amsi.exe (904)", HIGH},
    {"code.user", NULL, "process 904 name=amsi.exe\nuser 904 patch=EtwEventWrite:cc", "process",
     "amsi.exe (904)", INFO},
    {"pool.session", NULL, "session 12 name=Hidden mode=0x400 hidden", "session", "Hidden",
     CRITICAL},
    {"pool.consumer", NULL, "consumer session=9 pid=800 unlinked nohandle", "consumer",
     "lsass.exe (800) of Edr", CRITICAL},
    {"pool.provider", NULL, "provider " OTHER " unlinked", "provider", OTHER, CRITICAL},
    {"pool.registration", NULL, "reg " PROCESS " user pid=800 unlinked nohandle", "registration",
     "by lsass.exe (800)", CRITICAL},
    {"pool.process", NULL, "process 1200 name=ghost.exe unlinked nocid notablelink", "process",
     "ghost.exe (1200)", CRITICAL},
};
#define TRICKS (sizeof(tricks) / sizeof(tricks[0]))

/* Memory that is missing, and what is then left open. */
struct hole {
    const char *check, *add;
    const char *object, *name; /* NULL: the check as a whole */
    const char *reason;        /* a part of it */
};

#define NO_SESSION "hole what=session:9"
#define NO_CONSUMER "hole what=consumer:900"
#define NO_PROVIDER "hole what=provider:" PROCESS
#define NO_REG "hole what=reg:3"

static const struct hole holes[] = {
    {"session.stopped", NO_SESSION, "session", NULL, "slot 9"},
    {"session.rejecting", NO_SESSION, "session", NULL, "slot 9"},
    {"session.logger_id", NO_SESSION, "session", NULL, "slot 9"},
    {"session.clock", NO_SESSION, "session", NULL, "slot 9"},
    {"session.lost", NO_SESSION, "session", NULL, "slot 9"},
    {"session.consumer_count", NO_SESSION, "session", NULL, "slot 9"},
    {"session.no_consumer", NO_SESSION, "session", NULL, "slot 9"},
    {"session.stopped", "hole what=array:0", NULL, NULL, "sessions may be missing"},
    {"session.expected", "hole what=name:4", "session", NULL, "name cannot be read"},
    {"session.expected", "hole what=array:0", NULL, NULL, "logger array is not whole"},
    {"session.security", "hole what=sd:4", "session", "EventLog-System", "cannot be read"},
    {"session.security", "session 10 name=Bare mode=0x400", "session", "Bare", "null in the image"},
    {"consumer.unlinked", NO_CONSUMER, "consumer", NULL, "not in the image"},
    {"consumer.no_handle", NO_CONSUMER, "consumer", NULL, "not in the image"},
    {"consumer.no_process", NO_CONSUMER, "consumer", NULL, "not in the image"},
    {"consumer.no_process", "hole what=process:900", "consumer", NULL, "process is not in"},
    {"consumer.other_silo", NO_CONSUMER, "consumer", NULL, "not in the image"},
    {"consumer.disconnected", NO_CONSUMER, "consumer", NULL, "not in the image"},
    {"provider.combined", NO_PROVIDER, "provider", NULL, "not in the image"},
    {"provider.dead_session", NO_PROVIDER, "provider", NULL, "not in the image"},
    {"provider.dead_session", "hole what=array:0", "provider", NULL, "array is not whole"},
    {"provider.filtered", NO_PROVIDER, "provider", NULL, "not in the image"},
    {"provider.unlinked", NO_PROVIDER, "provider", NULL, "not in the image"},
    {"provider.silent", NO_PROVIDER, "provider", NULL, "not in the image"},
    {"provider.silent", "hole what=symbol:EtwThreatIntProvRegHandle", "provider",
     "Threat-Intelligence", "EtwThreatIntProvRegHandle"},
    {"consumer.unlinked", "hole what=array:0", "consumer", NULL, "logger array"},
    {"registration.unlinked", NO_REG, "registration", NULL, "not in the image"},
    {"registration.mask", NO_REG, "registration", NULL, "not in the image"},
    {"registration.callback", NO_REG, "registration", NULL, "not in the image"},
    {"registration.flags", NO_REG, "registration", NULL, "not in the image"},
    {"callback.outside", "hole what=callback:2", "callback", "process slot 2", "record is not in"},
    {"callback.outside", "hole what=callback:6", "callback", "registry", "to its end"},
    {"callback.count", "hole what=symbol:PspCreateProcessNotifyRoutine", "callback", "process",
     "cannot be read"},
    {"callback.count", "hole what=symbol:CmpCallBackCount", "callback", "registry", "count"},
    {"callback.missing", "hole what=imports:exampleedr.sys", "driver", "exampleedr.sys",
     "import table"},
    {"callback.missing", "hole what=module:exampleedr.sys", NULL, NULL, "drivers may be missing"},
    {"callback.security_driver", "hole what=module:exampleedr.sys", NULL, NULL,
     "drivers may be missing"},
    {"callback.altitude", "hole what=altitude:5", "callback", "registry of WdFilter.sys",
     "altitude cannot be read"},
    {"process.unlinked", "hole what=process:900", NULL, NULL, "processes may be missing"},
    {"process.no_cid", "hole what=cid:0", NULL, NULL, ""},
    {"process.no_cid", "hole what=process:900", NULL, NULL, ""},
    {"system.loggers", "hole what=settings:0", "silo", "host", "not in the image"},
    {"system.group_masks", "hole what=settings:0", "silo", "host", "not in the image"},
    {"system.loggers",
     "poke silo:0 " SETTINGS "EtwpSystemLogger 0 width=8\n"
     "poke silo:0 " SETTINGS "EtwpActiveSystemLoggers 0 width=4\n"
     "poke silo:0 " SETTINGS "SiloGlobalGroupMask 0 width=4\n"
     "poke silo:0 " SETTINGS "EtwpGroupMasks 0 width=4\n"
     "poke silo:0 " SETTINGS "EtwpGroupMasks+0x110 1", /* behind them: the page is not blank */
     "silo", "host", "all zero"},
    {"system.security_provider", "poke silo:0 EtwpSecurityLoggers 0 width=8", "silo", "host",
     "all zero"},
    {"system.security_provider", "hole what=state:0", "silo", "host", "not in the image"},
    {"code.kernel", "hole what=code:EtwWrite", "function", "EtwWrite", "0x"},
    {"code.user", "hole what=ntdllcode:900", "process", "edr.exe (900)", "EtwEventWrite"},
    {"code.user", "hole what=process:412", "process", NULL, "not in the image"},
    {"code.user", "hole what=ntdllexports:900", "process", "edr.exe (900)", "EtwEventWrite"},
    {"code.user", "hole what=peb:900", "process", "edr.exe (900)", "ntdll.dll"},
    {"code.user", "hole what=ldr:900", "process", "edr.exe (900)", "ntdll.dll"},
    {"code.user", "process 904 name=no.exe\nuser 904 patch=EtwEventWrite:ff2500001000", "process",
     "no.exe (904)", "through a pointer"},
    {"code.user",
     "process 904 name=no.exe\nuser 904 patch=EtwEventWrite:"
     "0000000000000000000000000000000000",
     "process", "no.exe (904)", "all zero"},
    {"code.user", "process 904 name=no.exe\nuser 904 nontdll", "process", "no.exe (904)",
     "no module ntdll.dll"},
    {"pool.session", "session 12 name=Hidden mode=0x400 hidden\nhole what=array:0", "session",
     "Hidden", "slot of the logger array"},
    {"pool.consumer", "consumer session=3 pid=800 unlinked nohandle\nhole what=consumer:412",
     "consumer", "lsass.exe (800)", "list of consumers"},
    {"pool.provider",
     "provider " OTHER " unlinked\nprovider " NEIGHBOUR "\nhole what=provider:" NEIGHBOUR,
     "provider", OTHER, "hash bucket"},
    {"pool.registration",
     "reg {2a576b87-09a7-520e-c21a-4942f0271d67} user pid=800 unlinked nohandle\n" NO_REG,
     "registration", "by lsass.exe (800)", "list of registrations"},
    {"pool.process",
     "process 1200 name=ghost.exe unlinked nocid notablelink\nhole what=process:412", "process",
     "ghost.exe", "active process list"},
};
#define HOLES (sizeof(holes) / sizeof(holes[0]))

static bool part_of(const char *part, const char *text)
{
    return !part || (text && strstr(text, part));
}

/* ---- the tests ---- */

/* Those checks need the scan; all others are tested as they run without it. */
static bool of_pool(const char *check)
{
    return strncmp(check, "pool.", 5) == 0;
}

static unsigned failed; /* rows of a table; all are shown */

static void check_trick(const struct trick *trick, size_t number)
{
    struct audited run;
    size_t count, matching = 0;
    audited_carve(&run, trick->drop, trick->add, NULL, of_pool(trick->check));
    const struct kda_audit_finding *const *findings = kda_audit_findings(run.audit, &count);
    for (size_t i = 0; i < count; i++) {
        const struct kda_audit_finding *f = findings[i];
        bool same = strcmp(f->check->id, trick->check) == 0 &&
                    strcmp(f->object, trick->object) == 0 && part_of(trick->name, f->name) &&
                    f->severity == trick->severity;
        matching += same;
        assert_true(f->severity <= f->check->severity);
        assert_true(f->text[0] != '\0');
        assert_true(f->evidence_count > 0);
        assert_true(i == 0 || findings[i - 1]->severity >= f->severity);
    }
    bool outcome = audited_result(&run, trick->check)->outcome == KDA_CHECK_FOUND;
    if (matching != 1 || !outcome) {
        audited_print(&run);
        print_message("trick %zu (%s): %zu findings fit\n", number, trick->check, matching);
        failed++;
    }
    audited_stop(&run);
}

static void test_tricks_are_found(void **state)
{
    failed = 0;
    (void)state;
    for (size_t i = 0; i < TRICKS; i++)
        check_trick(&tricks[i], i);
    assert_int_equal(failed, 0);
}

static void check_hole(const struct hole *hole, size_t number)
{
    struct audited run;
    size_t count, matching = 0;
    audited_carve(&run, NULL, hole->add, NULL, of_pool(hole->check));
    const struct kda_unchecked *open = kda_audit_unchecked(run.audit, &count);
    for (size_t i = 0; i < count; i++) {
        const struct kda_unchecked *u = &open[i];
        matching += strcmp(u->check->id, hole->check) == 0 &&
                    (hole->object ? u->object && strcmp(u->object, hole->object) == 0
                                  : !u->object || !hole->reason[0]) &&
                    part_of(hole->name, u->name) && strstr(u->reason, hole->reason);
    }
    const struct kda_check_result *result = audited_result(&run, hole->check);
    if (matching == 0 || result->outcome != KDA_CHECK_NOT_CHECKED) {
        audited_print(&run);
        print_message("hole %zu (%s): %zu reasons fit, outcome %s\n", number, hole->check, matching,
                      kda_outcome_name(result->outcome));
        failed++;
    }
    audited_stop(&run);
}

static void test_holes_are_not_called_clean(void **state)
{
    failed = 0;
    (void)state;
    for (size_t i = 0; i < HOLES; i++)
        check_hole(&holes[i], i);
    assert_int_equal(failed, 0);
}

/* A hole in one object is no reason for findings about others. */
static void test_holes_make_no_findings(void **state)
{
    failed = 0;
    (void)state;
    for (size_t i = 0; i < HOLES; i++) {
        struct audited run;
        size_t count;
        if (strncmp(holes[i].add, "hole", 4) != 0)
            continue;
        audited_start(&run, NULL, holes[i].add, NULL);
        const struct kda_audit_finding *const *findings = kda_audit_findings(run.audit, &count);
        for (size_t k = 0; k < count; k++)
            if (findings[k]->severity > KDA_SEVERITY_INFO) {
                print_message("hole %zu (%s): %s '%s': %s\n", i, holes[i].add,
                              findings[k]->check->id, findings[k]->name ? findings[k]->name : "",
                              findings[k]->text);
                failed++;
            }
        audited_stop(&run);
    }
    assert_int_equal(failed, 0);
}

static void test_healthy_machine_passes(void **state)
{
    struct audited run;
    size_t count;
    (void)state;
    audited_carve(&run, NULL, NULL, NULL, true);
    const struct kda_check_result *results = kda_audit_results(run.audit, &count);
    for (size_t i = 0; i < count; i++)
        if (results[i].outcome != KDA_CHECK_PASSED || results[i].examined == 0) {
            audited_print(&run);
            fail_msg("%s: %s, %zu objects", results[i].check->id,
                     kda_outcome_name(results[i].outcome), results[i].examined);
        }
    assert_int_equal(kda_kernel_gaps(run.forged.kernel)->count, 0);
    assert_int_equal(kda_audit_dropped(run.audit), 0);
    audited_stop(&run);
}

/* The same machine as other builds of Windows: they lack fields, and nothing is found. */
static void test_healthy_on_other_builds(void **state)
{
    static const char *const builds[] = {"6.1.7601.24540", "6.3.9600.19913", "10.0.14393.4583",
                                         "10.0.17763.379", "10.0.18362.30",  "10.0.19041.1466",
                                         "10.0.20348.825"};
    (void)state;
    failed = 0;
    for (size_t i = 0; i < sizeof(builds) / sizeof(builds[0]); i++) {
        struct audited run;
        size_t count;
        char add[64];
        (void)snprintf(add, sizeof(add), "build %s", builds[i]);
        audited_start(&run, i < 2 ? "poke silo" : NULL, add, NULL);
        (void)kda_audit_findings(run.audit, &count);
        if (count > 0) {
            audited_print(&run);
            print_message("%s: %zu findings\n", builds[i], count);
            failed++;
        }
        audited_stop(&run);
    }
    assert_int_equal(failed, 0);
}

static void test_every_check_is_tested(void **state)
{
    const struct kda_check *check;
    (void)state;
    for (size_t i = 0; (check = kda_check_at(i)) != NULL; i++) {
        size_t found = 0, open = 0;
        for (size_t k = 0; k < TRICKS; k++)
            found += strcmp(tricks[k].check, check->id) == 0;
        for (size_t k = 0; k < HOLES; k++)
            open += strcmp(holes[k].check, check->id) == 0;
        if (found == 0 || open == 0)
            fail_msg("%s has %zu positive and %zu missing-page tests", check->id, found, open);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(kda_check_at(k)->id, check->id);
        assert_true(check->title[0] && check->meaning[0] && check->needs[0]);
        assert_true(check->false_positives[0] && check->attack[0] == 'T');
    }
}

/* What the audit reads again is not a second gap. */
static void test_gaps_are_recorded_once(void **state)
{
    failed = 0;
    (void)state;
    for (size_t i = 0; i < HOLES; i++) {
        struct audited run;
        audited_start(&run, NULL, holes[i].add, NULL);
        const struct kda_gaps *gaps = kda_kernel_gaps(run.forged.kernel);
        for (size_t a = 0; a < gaps->count; a++)
            for (size_t b = 0; b < a; b++)
                if (gaps->items[a].va == gaps->items[b].va && gaps->items[a].va &&
                    strcmp(gaps->items[a].text, gaps->items[b].text) == 0) {
                    print_message("hole %zu (%s): twice '%s' (%s, %s)\n", i, holes[i].add,
                                  gaps->items[a].text, gaps->items[a].what, gaps->items[b].what);
                    failed++;
                }
        audited_stop(&run);
    }
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_check_is_tested),
        cmocka_unit_test(test_healthy_machine_passes),
        cmocka_unit_test(test_healthy_on_other_builds),
        cmocka_unit_test(test_tricks_are_found),
        cmocka_unit_test(test_holes_are_not_called_clean),
        cmocka_unit_test(test_holes_make_no_findings),
        cmocka_unit_test(test_gaps_are_recorded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
