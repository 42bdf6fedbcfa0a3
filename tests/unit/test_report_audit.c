/* Rows of callbacks and of the audit: keys, their order, and what is left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kda/report.h"
#include "sink.h"

static struct sink sink;

static struct kda_report *open_report(const char *format)
{
    struct kda_report_options options = {.format = format, .image = "a.raw"};
    struct kda_report *report;
    memset(&sink, 0, sizeof(sink));
    assert_int_equal(kda_report_open(&options, sink_write, &sink, &report, NULL), KDA_OK);
    return report;
}

#define IS(report, expected)                                                                       \
    do {                                                                                           \
        assert_int_equal(kda_report_close(report, NULL), KDA_OK);                                  \
        assert_string_equal(sink.text, expected);                                                  \
        sink_free(&sink);                                                                          \
    } while (0)

static void test_callbacks(void **state)
{
    static const struct kda_module module = {.name = "edr.sys"};
    struct kda_callback process = {.kind = KDA_CALLBACK_PROCESS,
                                   .has_slot = true,
                                   .slot = 3,
                                   .slot_va = 0xfffff80000001018,
                                   .va = 0xffff800000001000,
                                   .readable = true,
                                   .enabled = true,
                                   .function = 0xfffff80000002000,
                                   .module = &module,
                                   .context = 6};
    struct kda_callback registry = {.kind = KDA_CALLBACK_REGISTRY,
                                    .slot_va = 0xffff800000002000,
                                    .va = 0xffff800000002000,
                                    .readable = true,
                                    .enabled = true,
                                    .function = 0xffff900000000000,
                                    .altitude = "328010",
                                    .cookie = 0x1d9};
    struct kda_callback object = {.kind = KDA_CALLBACK_OBJECT_THREAD,
                                  .slot_va = 0xffff800000003000,
                                  .va = 0xffff800000003000,
                                  .readable = true,
                                  .post = 0xfffff80000002010,
                                  .post_module = &module,
                                  .operations = 3};
    struct kda_callback missing = {.kind = KDA_CALLBACK_IMAGE,
                                   .has_slot = true,
                                   .slot_va = 0xfffff80000001100,
                                   .va = 0xffff800000004000};
    (void)state;
    struct kda_report *report = open_report("jsonl");
    kda_report_callback(report, &process);
    kda_report_callback(report, &registry);
    kda_report_callback(report, &object);
    kda_report_callback(report, &missing);
    IS(report,
       "{\"row\":\"callback\",\"kind\":\"process\",\"slot\":3,\"slot_va\":\"0xfffff80000001018\","
       "\"va\":\"0xffff800000001000\",\"function\":\"0xfffff80000002000\",\"module\":\"edr.sys\","
       "\"context\":\"0x6\"}\n"
       "{\"row\":\"callback\",\"kind\":\"registry\",\"slot_va\":\"0xffff800000002000\","
       "\"va\":\"0xffff800000002000\",\"function\":\"0xffff900000000000\","
       "\"altitude\":\"328010\",\"context\":\"0x0\",\"cookie\":\"0x1d9\"}\n"
       "{\"row\":\"callback\",\"kind\":\"object_thread\",\"slot_va\":\"0xffff800000003000\","
       "\"va\":\"0xffff800000003000\",\"function\":\"0x0\",\"context\":\"0x0\","
       "\"post\":\"0xfffff80000002010\",\"post_module\":\"edr.sys\",\"enabled\":false,"
       "\"operations\":[\"create\",\"duplicate\"]}\n"
       "{\"row\":\"callback\",\"kind\":\"image\",\"slot\":0,\"slot_va\":\"0xfffff80000001100\","
       "\"va\":\"0xffff800000004000\"}\n");
}

static const struct kda_check check = {.id = "session.stopped",
                                       .severity = KDA_SEVERITY_HIGH,
                                       .title = "a session does not collect",
                                       .false_positives = "none known",
                                       .attack = "T1562.006"};
static const struct kda_evidence evidence[] = {{"CollectionOn", 0xffff800000001010, "0", "not 0"},
                                               {"found by", 0, "handle", NULL}};

static void test_audit(void **state)
{
    struct kda_audit_finding finding = {.check = &check,
                                        .severity = KDA_SEVERITY_HIGH,
                                        .object = "session",
                                        .name = "\x1b[2J</script>",
                                        .va = 0xffff800000001000,
                                        .silo = "host",
                                        .text = "it does not collect",
                                        .evidence = evidence,
                                        .evidence_count = 2};
    struct kda_audit_finding bare = {.check = &check, .object = "session", .text = "gone"};
    struct kda_unchecked open = {.check = &check, .reason = "no page"};
    struct kda_check_result result = {&check, KDA_CHECK_FOUND, 9, 2, 1};
    (void)state;
    struct kda_report *report = open_report("jsonl");
    kda_report_audit_finding(report, &finding);
    kda_report_audit_finding(report, &bare);
    kda_report_unchecked(report, &open);
    kda_report_check_result(report, &result);
    IS(report,
       "{\"row\":\"audit\",\"severity\":\"high\",\"check\":\"session.stopped\",\"silo\":\"host\","
       "\"object\":\"session\",\"name\":\"\\u001b[2J\\u003c/script>\","
       "\"va\":\"0xffff800000001000\",\"text\":\"it does not collect\",\"evidence\":["
       "{\"name\":\"CollectionOn\",\"va\":\"0xffff800000001010\",\"found\":\"0\","
       "\"expected\":\"not 0\"},{\"name\":\"found by\",\"found\":\"handle\"}],"
       "\"attack\":\"T1562.006\",\"false_positives\":\"none known\"}\n"
       "{\"row\":\"audit\",\"severity\":\"info\",\"check\":\"session.stopped\","
       "\"object\":\"session\",\"text\":\"gone\",\"evidence\":[],\"attack\":\"T1562.006\","
       "\"false_positives\":\"none known\"}\n"
       "{\"row\":\"unchecked\",\"check\":\"session.stopped\",\"reason\":\"no page\"}\n"
       "{\"row\":\"check\",\"check\":\"session.stopped\",\"outcome\":\"findings\","
       "\"examined\":9,\"findings\":2,\"not_checked\":1,\"severity\":\"high\","
       "\"attack\":\"T1562.006\",\"title\":\"a session does not collect\"}\n");
}

static void test_changes(void **state)
{
    struct kda_change changed = {"changed", "slot", "host trace {1} Edr", "level",
                                 "5",       NULL,   0xffff800000001000};
    struct kda_change gone = {"vanished", "session", "host Edr", NULL, NULL, NULL, 0};
    (void)state;
    struct kda_report *report = open_report("jsonl");
    kda_report_change(report, &changed);
    kda_report_change(report, &gone);
    IS(report, "{\"row\":\"change\",\"change\":\"changed\",\"object\":\"slot\","
               "\"name\":\"host trace {1} Edr\",\"field\":\"level\",\"before\":\"5\","
               "\"va\":\"0xffff800000001000\"}\n"
               "{\"row\":\"change\",\"change\":\"vanished\",\"object\":\"session\","
               "\"name\":\"host Edr\"}\n");
}

/* A table cell from an image drives no terminal and no spreadsheet. */
static void test_tables(void **state)
{
    struct kda_audit_finding finding = {.check = &check,
                                        .severity = KDA_SEVERITY_HIGH,
                                        .object = "session",
                                        .name = "=cmd\x1b[2J",
                                        .text = "it does not collect",
                                        .evidence = evidence,
                                        .evidence_count = 2};
    (void)state;
    struct kda_report *report = open_report("text");
    kda_report_audit_finding(report, &finding);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_null(strchr(sink.text, 0x1b));
    assert_non_null(strstr(sink.text, "high"));
    assert_non_null(strstr(sink.text, "session.stopped"));
    assert_non_null(strstr(sink.text, "it does not collect"));
    assert_non_null(strstr(sink.text, "CollectionOn = 0 at 0xffff800000001010 (expected: not 0)"));
    assert_non_null(strstr(sink.text, ", found by = handle\n"));
    sink_free(&sink);
    report = open_report("csv");
    kda_report_audit_finding(report, &finding);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_int_equal(strncmp(sink.text, "row,severity,check,", 19), 0);
    assert_non_null(strstr(sink.text, "'=cmd\\x1b[2J"));
    assert_non_null(strstr(sink.text, "CollectionOn:0xffff800000001010:0:not 0;"
                                      "found by::handle:,"));
    sink_free(&sink);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_callbacks),
        cmocka_unit_test(test_audit),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
