/*
 * test_log_verify.c - each way in which an account can be broken is found, and nothing else is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "kda/log.h"

#define T(n) "\"time\":\"2026-11-29T21:04:0" #n ".1234567Z\""
#define HEAD(id, kind, t)                                                                          \
    "{\"v\":1,\"id\":" #id "," T(t) ",\"kind\":\"" kind "\",\"source\":\"driver\""
#define LINE(id, kind, t) HEAD(id, kind, t) "}\n"
#define ID "\"log\":\"{aaaaaaaa-0000-0000-0000-000000000000}\""
#define START HEAD(0, "sensor.start", 0) "," ID "}\n"
#define TOTALS(id, kind, t, offered, written, lost, filtered)                                      \
    HEAD(id, kind, t)                                                                              \
    ",\"offered\":{" offered "},\"written\":{" written "},\"lost\":{" lost                         \
    "},\"filtered\":{" filtered "}}\n"
#define STOP(id, t, offered, written, lost, filtered)                                              \
    TOTALS(id, "sensor.stop", t, offered, written, lost, filtered)
#define STATUS(id, kind, t, offered, written)                                                      \
    HEAD(id, kind, t) ",\"offered\":{" offered "},\"written\":{" written "}}\n"
#define LOSS(id, t, lost)                                                                          \
    HEAD(id, "sensor.loss", t) ",\"lost\":{" lost "},\"lost_bytes\":1,\"reason\":\"ring_full\"}\n"
#define READER_LOSS(t, lost)                                                                       \
    "{\"v\":1," T(t) ",\"kind\":\"sensor.loss\",\"source\":\"driver\",\"lost\":{" lost             \
                     "},\"scope\":\"reader\"}\n"
#define FILTERED(id, t, counts) HEAD(id, "sensor.filtered", t) ",\"filtered\":{" counts "}}\n"
#define FILE_LINE(id, t, next) HEAD(id, "sensor.file", t) "," ID ",\"next_id\":" #next "}\n"
#define A "\"image.load\":"
#define B "\"process.create\":"
#define S_START "\"sensor.start\":"
#define S_LOSS "\"sensor.loss\":"
#define S_STATUS "\"sensor.status\":"
#define S_STOP "\"sensor.stop\":"

struct seen {
    struct kda_log_verdict verdict;
    unsigned verdicts;
    char checks[256]; /* names of the findings, with lines */
    char last[400];
};

static void take_finding(void *context, const struct kda_log_finding *finding)
{
    struct seen *seen = context;
    size_t used = strlen(seen->checks);
    (void)snprintf(seen->checks + used, sizeof(seen->checks) - used, "%s%s:%u", used ? " " : "",
                   finding->check, (unsigned)finding->line);
    (void)snprintf(seen->last, sizeof(seen->last), "%s", finding->text);
}

static void take_verdict(void *context, const struct kda_log_verdict *verdict)
{
    struct seen *seen = context;
    seen->verdict = *verdict;
    seen->verdicts++;
}

static enum kda_status verify(const char *text, struct seen *seen)
{
    struct kda_error err;
    struct kda_log *log = NULL;
    const struct kda_log_listener listener = {take_finding, take_verdict, NULL, seen};
    memset(seen, 0, sizeof(*seen));
    enum kda_status status = kda_log_open_memory(text, strlen(text), "memory", &log, &err);
    if (status == KDA_OK)
        status = kda_log_verify(log, &listener, &err);
    kda_log_close(log);
    return status;
}

struct fault {
    const char *name, *text, *checks;
};

static const struct fault cases[] = {
    {"all is well",
     START LINE(1, "image.load", 1) LINE(2, "process.create", 1) LOSS(3, 2, A "2") FILTERED(
         4, 2, A "5") TOTALS(5, "sensor.status", 3, A "9," B "1", A "1," B "1", A "3", A "5")
         LOSS(6, 4, A "1") STOP(7, 4, A "9," B "1", A "1," B "1", A "3", A "5"),
     ""},
    {"nothing but the frame", START STOP(1, 1, "", "", "", ""), ""},
    {"a total that falls",
     START LINE(1, "image.load", 1) STATUS(2, "sensor.status", 1, A "3", A "1")
         STOP(3, 2, A "1", A "1", "", ""),
     "account:4"},
    {"a missing line", START LINE(2, "image.load", 1) STOP(3, 2, A "1", A "1", "", ""), "id:2"},
    {"a line told as written that is not there",
     START LINE(1, "image.load", 1) STOP(2, 2, A "2", A "2", "", ""), "account:3"},
    {"a line that was not told as written",
     START LINE(1, "image.load", 1) LINE(2, "image.load", 1) STOP(3, 2, A "1", A "1", "", ""),
     "account:4"},
    {"offered, and nothing known of it",
     START LINE(1, "image.load", 1) STOP(2, 2, A "2", A "1", "", ""), "account:3"},
    {"lost, and no loss line", START LINE(1, "image.load", 1) STOP(2, 2, A "2", A "1", A "1", ""),
     "account:3"},
    {"a loss line that the totals do not know",
     START LINE(1, "image.load", 1) LOSS(2, 1, A "1") STOP(3, 2, A "1", A "1", "", ""),
     "account:4"},
    {"filtered, and no line that tells",
     START LINE(1, "image.load", 1) STOP(2, 2, A "2", A "1", "", A "1"), "account:3"},
    {"more accounted for than offered",
     START LINE(1, "image.load", 1) STATUS(2, "sensor.status", 1, A "0", A "1")
         STOP(3, 2, A "1", A "1", "", ""),
     "account:3"},
    {"a status ahead of the lines",
     START LINE(1, "image.load", 1) STATUS(2, "sensor.status", 1, A "2", A "2")
         LINE(3, "image.load", 1) STOP(4, 2, A "2", A "2", "", ""),
     "account:3"},
    {"an id twice",
     START LINE(1, "image.load", 1) LINE(1, "image.load", 1) STOP(2, 2, A "2", A "2", "", ""),
     "id:3"},
    {"no id",
     START "{\"v\":1," T(1) ",\"kind\":\"image.load\",\"source\":\"driver\"}\n" STOP(1, 2, A "1",
                                                                                     A "1", "", ""),
     "id:2"},
    {"a time that goes back",
     START LINE(1, "image.load", 3) LINE(2, "image.load", 2) STOP(3, 3, A "2", A "2", "", ""),
     "time:3"},
    {"no time",
     START "{\"v\":1,\"id\":1,\"kind\":\"image.load\",\"source\":\"driver\"}\n" STOP(2, 3, A "1",
                                                                                     A "1", "", ""),
     "time:2"},
    {"no source",
     START "{\"v\":1,\"id\":1," T(1) ",\"kind\":\"image.load\"}\n" STOP(2, 3, A "1", A "1", "", ""),
     "line:2"},
    {"no JSON", START "rubbish\n" STOP(1, 2, "", "", "", ""), "line:2"},
    {"an unknown kind", START LINE(1, "image.fold", 1) STOP(2, 2, "", "", "", ""), "line:2"},
    {"a second start", START HEAD(0, "sensor.start", 1) "," ID "}\n" STOP(1, 2, "", "", "", ""),
     "start:2 id:2"},
    {"lines after the stop",
     START STOP(1, 1, "", "", "", "") LINE(2, "image.load", 2) LINE(3, "image.load", 2), "end:3"},
    {"a gap smaller than the reader's loss",
     START READER_LOSS(1, A "2") LINE(2, "image.load", 1) STOP(3, 2, A "3", A "3", "", ""), "id:3"},
    {"a gap that comes later than the reader's loss",
     START READER_LOSS(1, A "1") LINE(1, "image.load", 1) LINE(3, "image.load", 1)
         STOP(4, 2, A "3", A "3", "", ""),
     "id:3 id:4"},
    {"a loss that wraps round to nothing within a line",
     START LOSS(1, 1, A "18446744073709551615," A "1") STOP(2, 2, "", "", "", ""),
     "line:2 account:3"},
    {"losses that wrap round to nothing",
     START LOSS(1, 1, A "18446744073709551615") LOSS(2, 1, A "1") STOP(3, 2, "", "", "", ""),
     "line:3 account:4"},
    {"a total that wraps round to the right one",
     START LINE(1, "image.load", 1) STOP(2, 2, A "18446744073709551615," A "2", A "1", "", ""),
     "account:3"},
    {"a loss of an unknown kind", START LOSS(1, 1, "\"image.fold\":5") STOP(2, 2, "", "", "", ""),
     "line:2"},
    {"totals of an unknown kind", START STOP(1, 1, "\"image.fold\":5", "", "", ""), "account:2"},
    {"something offered of the sensor itself, and nothing known of it",
     START STOP(1, 1, S_START "1," S_STOP "1,\"sensor.file\":5", S_START "1," S_STOP "1", "", ""),
     "account:2"},
    {"a member twice", START HEAD(1, "image.load", 1) ",\"id\":7}\n" STOP(2, 2, "", "", "", ""),
     "line:2 id:3"},
    {"a member with an escaped name",
     START HEAD(1, "image.load", 1) ",\"i\\u0064\":7}\n" STOP(2, 2, "", "", "", ""), "line:2 id:3"},
    {"bytes after the stop", START STOP(1, 1, "", "", "", "") "rest", "end:3"},
    {"an id that has no next one",
     LINE(18446744073709551615, "image.load", 1) LINE(0, "image.load", 1), "id:1"},
    {"a loss without counts", START HEAD(1, "sensor.loss", 1) "}\n" STOP(2, 2, "", "", "", ""),
     "line:2"},
    {"totals without offered", START HEAD(1, "sensor.stop", 1) ",\"written\":{}}\n", "account:2"},
    {"a file line in the middle", START FILE_LINE(1, 1, 2) STOP(2, 2, "", "", "", ""), "file:2"},
    {"a file line that says the wrong id", START FILE_LINE(1, 1, 9) STOP(2, 2, "", "", "", ""),
     "file:2 file:2"},
    {"an id 0 that is no start", LINE(0, "image.load", 1) STOP(1, 2, A "1", A "1", "", ""),
     "start:1"},
    {"nothing", "", "start:0"},
    {"a reader's own loss explains its gap",
     START READER_LOSS(1, A "2") LINE(3, "image.load", 1) STOP(4, 2, A "3", A "3", "", ""), ""},
    {"a gap larger than the reader's loss",
     START READER_LOSS(1, A "1") LINE(3, "image.load", 1) STOP(4, 2, A "2", A "2", "", ""), "id:3"},
    {"a shutdown and a tail",
     START LINE(1, "image.load", 1) STATUS(2, "sensor.shutdown", 1, A "2", A "1")
         LINE(3, "image.load", 2),
     ""},
    {"cut off without a word", START LINE(1, "image.load", 1), ""},
    {"a beginning that is gone",
     FILE_LINE(10, 1, 11) LINE(11, "image.load", 1) STATUS(12, "sensor.status", 1, A "9", A "8")
         LINE(13, "image.load", 1) STOP(14, 2, A "9", A "9", "", ""),
     ""},
    {"a beginning that is gone, and a line too",
     FILE_LINE(10, 1, 11) LINE(11, "image.load", 1) STATUS(12, "sensor.status", 1, A "9", A "8")
         STOP(13, 2, A "9", A "9", "", ""),
     "account:4"},
    {"the sensor's own lines are counted",
     START LINE(1, "image.load", 1) LOSS(2, 1, A "1")
         TOTALS(3, "sensor.status", 1, A "2," S_START "1," S_LOSS "1," S_STATUS "1",
                A "1," S_START "1," S_LOSS "1," S_STATUS "1", A "1", "")
             STOP(4, 2, A "2," S_START "1," S_LOSS "1," S_STATUS "1," S_STOP "1",
                  A "1," S_START "1," S_LOSS "1," S_STATUS "1," S_STOP "1", A "1", ""),
     ""},
    {"totals that leave one of the sensor's own lines out",
     START LOSS(1, 1, A "1")
         STOP(2, 2, A "1," S_START "1," S_STOP "1", S_START "1," S_STOP "1", A "1", ""),
     "account:3"},
    {"totals that do not count themselves", START STOP(1, 2, S_START "1", S_START "1", "", ""),
     "account:2"},
    {"one of the sensor's own lines that was lost",
     START STOP(1, 2, S_START "1," S_LOSS "1," S_STOP "1", S_START "1," S_STOP "1", S_LOSS "1", ""),
     "account:2"},
    {"a reader's own loss is no line of the log",
     START READER_LOSS(1, A "1")
         STOP(2, 2, A "1," S_START "1," S_STOP "1", A "1," S_START "1," S_STOP "1", "", ""),
     ""},
    {"a line of the sensor's own that a reader lost",
     START READER_LOSS(1, S_STATUS "1") STOP(2, 2, S_START "1," S_STATUS "1," S_STOP "1",
                                             S_START "1," S_STATUS "1," S_STOP "1", "", ""),
     ""},
    {"a beginning that is gone, with the sensor's own lines",
     FILE_LINE(10, 1, 11)
         STATUS(11, "sensor.status", 1, S_START "1,\"sensor.file\":1," S_STATUS "3",
                S_START "1,\"sensor.file\":1," S_STATUS "3")
             STOP(12, 2, S_START "1,\"sensor.file\":1," S_STATUS "3," S_STOP "1",
                  S_START "1,\"sensor.file\":1," S_STATUS "3," S_STOP "1", "", ""),
     ""},
};

static void test_each_fault(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct seen seen;
        assert_int_equal(verify(cases[i].text, &seen), KDA_OK);
        assert_int_equal(seen.verdicts, 1);
        if (strcmp(seen.checks, cases[i].checks) != 0)
            fail_msg("%s: \"%s\" instead of \"%s\" (%s)", cases[i].name, seen.checks,
                     cases[i].checks, seen.last);
    }
}

static void test_verdict(void **state)
{
    (void)state;
    struct seen seen;
    assert_int_equal(verify(START LINE(1, "image.load", 1) LOSS(2, 2, A "2") FILTERED(3, 2, A "5")
                                STOP(4, 4, A "8", A "1", A "2", A "5"),
                            &seen),
                     KDA_OK);
    const struct kda_log_verdict *v = &seen.verdict;
    unsigned kind = kda_log_kind_find("image.load", 10);
    assert_int_equal(v->findings, 0);
    assert_int_equal(v->ending, KDA_LOG_STOPPED);
    assert_true(v->has_start && v->has_totals && v->totals_are_last && !v->cut_line);
    assert_int_equal(v->lines, 5);
    assert_int_equal(v->last_id, 4);
    assert_int_equal(v->account[kind].offered, 8);
    assert_int_equal(v->account[kind].lost_lines, 2);
    assert_int_equal(v->account[kind].filtered, 5);
    assert_int_equal(v->account[kind].lines, 1);

    assert_int_equal(verify(START LINE(1, "image.load", 1) "{\"v\":1,\"id\":2,", &seen), KDA_OK);
    assert_int_equal(seen.verdict.findings, 0);
    assert_int_equal(seen.verdict.ending, KDA_LOG_CUT_OFF);
    assert_true(seen.verdict.cut_line);
    assert_int_equal(seen.verdict.last_id, 1);

    assert_int_equal(verify(START STATUS(1, "sensor.shutdown", 1, "", "") LINE(2, "image.load", 2)
                                LINE(3, "image.load", 2),
                            &seen),
                     KDA_OK);
    assert_int_equal(seen.verdict.ending, KDA_LOG_SHUTDOWN);
    assert_int_equal(seen.verdict.tail, 2);
}

static void test_many_findings(void **state)
{
    (void)state;
    struct seen seen;
    size_t size = 3000 * 2;
    char *text = malloc(strlen(START) + size + 1);
    assert_non_null(text);
    memcpy(text, START, strlen(START));
    for (size_t i = 0; i < 3000; i++)
        memcpy(text + strlen(START) + 2 * i, "x\n", 3);
    assert_int_equal(verify(text, &seen), KDA_OK);
    assert_int_equal(seen.verdict.findings, 3000);
    free(text);
}

static bool stop_at_once(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    assert_true(done <= total);
    return false;
}

static void test_cancel(void **state)
{
    (void)state;
    struct kda_error err;
    struct kda_log *log = NULL;
    const struct kda_log_listener listener = {NULL, NULL, stop_at_once, NULL};
    size_t size = 5000 * 2;
    char *text = malloc(size + 1);
    assert_non_null(text);
    for (size_t i = 0; i < 5000; i++)
        memcpy(text + 2 * i, "{\n", 3);
    assert_int_equal(kda_log_open_memory(text, size, "memory", &log, &err), KDA_OK);
    assert_int_equal(kda_log_verify(log, &listener, &err), KDA_CANCELLED);
    kda_log_close(log);
    free(text);
}

static void test_faults(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    for (uint64_t n = 1;; n++) {
        struct seen seen;
        kda_fault_arm(n);
        enum kda_status status = verify(START STOP(1, 1, "", "", "", ""), &seen);
        bool fired = kda_fault_fired();
        kda_fault_arm(0);
        if (!fired) {
            assert_int_equal(status, KDA_OK);
            assert_true(n > 3);
            break;
        }
        assert_true(status == KDA_NO_MEMORY || status == KDA_IO);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_fault),    cmocka_unit_test(test_verdict),
        cmocka_unit_test(test_many_findings), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
