/*
 * The row contract, key by key, and what hostile strings become in JSON.
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
#include "kda/report.h"
#include "sink.h"

#define ALL_FIELDS ((1u << KDA_ETW_S_BITS) - 1u)

static const struct kda_etw_silo host = {.host = true, .label = "host"};

static struct kda_report *begin(struct sink *sink, const char *format)
{
    struct kda_report_options options = {.format = format, .image = "a\"b.raw"};
    struct kda_report *report = NULL;
    memset(sink, 0, sizeof(*sink));
    assert_int_equal(kda_report_open(&options, sink_write, sink, &report, NULL), KDA_OK);
    return report;
}

static void end(struct kda_report *report, struct sink *sink, const char *want)
{
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_string_equal(sink->text ? sink->text : "", want);
    sink_free(sink);
}

static void test_session(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_etw_consumer consumer = {
        .va = 0xffffa40000000010, .has_pid = true, .pid = 712, .process = "lsass.exe"};
    const struct kda_etw_consumer *consumers[] = {&consumer};
    struct kda_etw_session session = {
        .silo = &host,
        .id = 3,
        .va = 0xffffa41640fd3010,
        .have = ALL_FIELDS,
        .logger_id = 4,
        .name = "Eventlog-Security",
        .mode = 0x180,
        .collecting = 1,
        .accept_new_events = -1,
        .clock = 1,
        .get_cpu_clock = 0xfffff80012345678,
        .buffer_size = 65536,
        .buffers = 1,
        .max_buffers = 2,
        .events_lost = 3,
        .buffers_lost = 4,
        .realtime_buffers_lost = 5,
        .buffers_written = 6,
        .log_file = "\\SystemRoot\\x.etl",
        .start_time_100ns = 133403823250000001,
        .instance_guid = {0x72, 0xee, 0x72},
        .security = "O:SY",
        .num_consumers = 1,
        .consumers = consumers,
        .consumer_count = 1,
    };
    struct kda_report *report = begin(&sink, "jsonl");
    kda_report_session(report, &session);
    end(report, &sink,
        "{\"row\":\"session\",\"silo\":\"host\",\"id\":3,\"logger_id\":4,\"name\":\"Eventlog-"
        "Security\",\"va\":\"0xffffa41640fd3010\",\"mode\":\"0x180\",\"mode_flags\":[\"secure\","
        "\"real_time\"],\"collecting\":true,\"accept_new_events\":-1,\"clock\":\"qpc\","
        "\"get_cpu_clock\":\"0xfffff80012345678\",\"buffer_size\":65536,\"buffers\":1,"
        "\"max_buffers\":2,\"events_lost\":3,\"buffers_lost\":4,\"realtime_buffers_lost\":5,"
        "\"buffers_written\":6,\"log_file\":\"\\\\SystemRoot\\\\x.etl\","
        "\"start_time\":\"2023-09-28T13:45:25.0000001Z\","
        "\"instance_guid\":\"{0072ee72-0000-0000-0000-000000000000}\",\"security\":\"O:SY\","
        "\"num_consumers\":1,\"consumers\":[{\"pid\":712,\"process\":\"lsass.exe\","
        "\"va\":\"0xffffa40000000010\"}]}\n");
}

static void test_absent_keys_are_left_out(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_etw_session session = {.silo = &host, .id = 9, .va = 0xffffa41640fd3010};
    struct kda_etw_consumer consumer = {.va = 16, .found_by = KDA_CONSUMER_LIST};
    struct kda_etw_provider provider = {.va = 32};
    struct kda_process process = {.va = 48};
    struct kda_report *report = begin(&sink, "jsonl");
    kda_report_session(report, &session);
    kda_report_consumer(report, &consumer);
    kda_report_provider(report, &provider);
    kda_report_process(report, &process, NULL);
    end(report, &sink,
        "{\"row\":\"session\",\"silo\":\"host\",\"id\":9,\"va\":\"0xffffa41640fd3010\","
        "\"consumers\":[]}\n"
        "{\"row\":\"consumer\",\"va\":\"0x10\",\"found_by\":[\"list\"]}\n"
        "{\"row\":\"provider\",\"va\":\"0x20\",\"found_by\":[],\"enables\":[],\"filters\":[],"
        "\"registrations\":[]}\n"
        "{\"row\":\"process\",\"va\":\"0x30\",\"found_by\":[]}\n");
}

static void test_consumer_and_process(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_etw_session session = {
        .id = 3, .have = 1u << KDA_ETW_S_NAME_BIT, .name = "Sitzung \xe2\x98\x83"};
    struct kda_etw_consumer consumer = {
        .silo = &host,
        .session = &session,
        .va = 0xffffa40000000010,
        .found_by = KDA_CONSUMER_LIST | KDA_CONSUMER_HANDLE,
        .has_pid = true,
        .has_flags = true,
        .has_buffers_lost = true,
        .has_handle = true,
        .pid = 712,
        .process = "lsass.exe",
        .image = "\\Device\\lsass.exe",
        .handle = 0x2c,
        .flags = 5,
        .buffers_lost = 7,
    };
    struct kda_process process = {
        .va = 0xffff900000000100,
        .found_by = KDA_FOUND_LIST | KDA_FOUND_HANDLE_TABLE | KDA_FOUND_CID,
        .has_pid = true,
        .has_ppid = true,
        .has_protection = true,
        .pid = 712,
        .ppid = 4,
        .name = "lsass.exe",
        .image = "\\Device\\lsass.exe",
        .dtb = 0x1ad000,
        .create_time_100ns = 133403823250000000,
        .exit_time_100ns = 133403823250000009,
        .protection = 0x41,
    };
    struct kda_report *report = begin(&sink, "jsonl");
    kda_report_consumer(report, &consumer);
    kda_report_process(report, &process, "host");
    end(report, &sink,
        "{\"row\":\"consumer\",\"silo\":\"host\",\"session_id\":3,\"session\":\"Sitzung "
        "\xe2\x98\x83\",\"pid\":712,\"process\":\"lsass.exe\",\"image\":\"\\\\Device\\\\lsass."
        "exe\","
        "\"va\":\"0xffffa40000000010\",\"found_by\":[\"list\",\"handle\"],\"handle\":\"0x2c\","
        "\"flags\":5,\"buffers_lost\":7}\n"
        "{\"row\":\"process\",\"pid\":712,\"ppid\":4,\"name\":\"lsass.exe\",\"image\":\"\\\\Device"
        "\\\\lsass.exe\",\"va\":\"0xffff900000000100\",\"dtb\":\"0x1ad000\",\"create_time\":\"2023-"
        "09-28T13:45:25.0000000Z\",\"exit_time\":\"2023-09-28T13:45:25.0000009Z\",\"protection\":"
        "65,"
        "\"silo\":\"host\",\"found_by\":[\"list\",\"handle_table\",\"cid\"]}\n");
}

static const uint32_t pids[] = {4, 712};
static const uint16_t ids[] = {1, 65535};
static const struct kda_etw_filter filter = {
    .slot = 1,
    .va = 0x50,
    .has_flags = true,
    .flags = 6,
    .pids = pids,
    .pid_count = 2,
    .has_pids = true,
    .event_ids = ids,
    .event_id_count = 2,
    .has_event_ids = true,
    .executables = "a.exe;;b.exe",
    .others = KDA_FILTER_PAYLOAD,
};
static const struct kda_etw_registration user = {
    .va = 0x60,
    .found_by = KDA_REG_LIST | KDA_REG_HANDLE,
    .has_kind = true,
    .has_flags = true,
    .has_enable_mask = true,
    .has_group_enable_mask = true,
    .has_handle = true,
    .has_pid = true,
    .flags = 2,
    .enable_mask = 3,
    .group_enable_mask = 1,
    .pid = 712,
    .process = "lsass.exe",
    .handle = 0x1c,
};
static const struct kda_etw_registration driver = {
    .va = 0x70,
    .found_by = KDA_REG_GROUP_LIST | KDA_REG_SYMBOL,
    .has_kind = true,
    .kernel = true,
    .process = "",
    .callback = 0xfffff80000001000,
    .module = "tcpip.sys",
};
static const struct kda_etw_registration *regs[] = {&user, &driver};

static void test_provider(void **state)
{
    (void)state;
    struct sink sink;
    const struct kda_etw_provider provider = {
        .silo = &host,
        .type = KDA_ETW_NOTIFICATION,
        .has_type = true,
        .va = 0x40,
        .found_by = KDA_PROVIDER_TABLE | KDA_PROVIDER_EMBEDDED,
        .readable = true,
        .has_guid = true,
        .guid = {0xd6, 0x2c, 0xfb, 0x22},
        .name = "N",
        .has_group = true,
        .group = {1},
        .combined = {.readable = true, .enabled = 1, .level = 255, .match_any = UINT64_MAX},
        .enables = {{.readable = true, .enabled = 1, .logger_id = 7, .property = 64},
                    {.readable = true},
                    {.readable = false, .enabled = 1, .logger_id = 8}},
        .filters = &filter,
        .filter_count = 1,
        .security = "D:",
        .registrations = regs,
        .registration_count = 2,
    };
    struct kda_report *report = begin(&sink, "jsonl");
    kda_report_provider(report, &provider);
    end(report, &sink,
        "{\"row\":\"provider\",\"silo\":\"host\",\"type\":\"notification\",\"guid\":\"{22fb2cd6-"
        "0000-0000-0000-000000000000}\",\"name\":\"N\",\"group\":\"{00000001-0000-0000-0000-"
        "000000000000}\",\"va\":\"0x40\",\"found_by\":[\"table\",\"embedded\"],"
        "\"provider_enable\":{\"enabled\":true,\"level\":255,\"match_any\":\"0xffffffffffffffff\","
        "\"match_all\":\"0x0\"},\"enables\":[{\"slot\":0,\"enabled\":true,\"session_id\":7,"
        "\"level\":0,\"match_any\":\"0x0\",\"match_all\":\"0x0\",\"property\":64}],\"filters\":[{"
        "\"slot\":1,\"va\":\"0x50\",\"flags\":6,\"pids\":[4,712],\"event_ids\":[1,65535],"
        "\"executables\":[\"a.exe\",\"b.exe\"],\"others\":[\"payload\"]}],\"security\":\"D:\","
        "\"registrations\":[{\"va\":\"0x60\",\"kind\":\"user\",\"pid\":712,\"process\":\"lsass."
        "exe\",\"enable_mask\":3,\"group_enable_mask\":1,\"flags\":[\"user\"],\"found_by\":["
        "\"list\",\"handle\"],\"handle\":\"0x1c\"},{\"va\":\"0x70\",\"kind\":\"kernel\","
        "\"module\":\"tcpip.sys\",\"callback\":\"0xfffff80000001000\",\"found_by\":["
        "\"group_list\",\"symbol\"]}]}\n");
}

static void test_json_frame(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_report *report = begin(&sink, "json");
    end(report, &sink,
        "{\"tool\":\"kda\",\"version\":\"" KDA_VERSION
        "\",\"schema\":1,\"image\":\"a\\\"b.raw\",\"rows\":[],"
        "\"gaps\":[]}\n");
    struct kda_process process = {.va = 1};
    struct kda_gaps gaps;
    kda_gaps_init(&gaps);
    kda_gaps_add(&gaps, "session", 0xffffa40000000000, KDA_PAGED_OUT, "logger %d", 3);
    gaps.dropped = 2;
    report = begin(&sink, "json");
    kda_report_process(report, &process, NULL);
    kda_report_process(report, &process, NULL);
    kda_report_gaps(report, &gaps);
    end(report, &sink,
        "{\"tool\":\"kda\",\"version\":\"" KDA_VERSION
        "\",\"schema\":1,\"image\":\"a\\\"b.raw\",\"rows\":[\n"
        "{\"row\":\"process\",\"va\":\"0x1\",\"found_by\":[]},\n"
        "{\"row\":\"process\",\"va\":\"0x1\",\"found_by\":[]}\n],\"gaps\":[\n"
        "{\"row\":\"gap\",\"what\":\"session\",\"va\":\"0xffffa40000000000\",\"reason\":\"paged_"
        "out\",\"text\":\"logger 3\"},\n"
        "{\"row\":\"gap\",\"what\":\"gap_list\",\"reason\":\"limit\",\"text\":\"2 more gaps were "
        "counted but not kept\"}\n]}\n");
    report = begin(&sink, "json");
    kda_report_gaps(report, &gaps);
    kda_gaps_deinit(&gaps);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_non_null(strstr(sink.text, "\"rows\":[],\"gaps\":[\n{\"row\":\"gap\""));
    sink_free(&sink);
}

static void test_hostile_strings(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"\x1b[2J\x01\x7f", "\\u001b[2J\\u0001\\u007f"},
        {"</script><!--", "\\u003c/script>\\u003c!--"},
        {"a\"b\\c\n\r\t", "a\\\"b\\\\c\\n\\r\\t"},
        {"\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029"},
        {"\xc2\x9b"
         "31m",
         "\\u009b31m"},
        {"\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},       /* lone surrogate */
        {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                       /* overlong */
        {"end\xf0\x9f\x98", "end\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"}, /* cut short */
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sink sink;
        char want[256];
        struct kda_process process = {.va = 1, .name = cases[i].in};
        struct kda_report *report = begin(&sink, "jsonl");
        kda_report_process(report, &process, NULL);
        (void)snprintf(want, sizeof(want),
                       "{\"row\":\"process\",\"name\":\"%s\",\"va\":\"0x1\",\"found_by\":[]}\n",
                       cases[i].out);
        end(report, &sink, want);
    }
}

static void test_long_name_crosses_the_buffer(void **state)
{
    (void)state;
    struct sink sink;
    size_t size = 65535;
    char *name = malloc(size + 1);
    assert_non_null(name);
    memset(name, 'x', size);
    name[size] = '\0';
    struct kda_process process = {.va = 1, .name = name};
    struct kda_report *report = begin(&sink, "jsonl");
    kda_report_process(report, &process, NULL);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_int_equal(sink.size, size + strlen("{\"row\":\"process\",\"name\":\"\",\"va\":\"0x1\","
                                              "\"found_by\":[]}\n"));
    assert_non_null(strstr(sink.text, name));
    sink_free(&sink);
    free(name);
}

static void test_grep_and_limit(void **state)
{
    (void)state;
    struct sink sink = {0};
    struct kda_report_options options = {.format = "jsonl", .grep = "LSASS", .limit = 1};
    struct kda_report *report = NULL;
    assert_int_equal(kda_report_open(&options, sink_write, &sink, &report, NULL), KDA_OK);
    struct kda_process other = {.va = 1, .name = "smss.exe"};
    struct kda_process hit = {.va = 2, .name = "lsass.exe"};
    struct kda_gap gap = {.what = "x", .reason = KDA_ABSENT, .text = "t"};
    kda_report_process(report, &other, NULL);
    kda_report_process(report, &hit, NULL);
    kda_report_process(report, &hit, NULL);
    kda_report_gap(report, &gap); /* never filtered */
    assert_int_equal(kda_report_skipped(report), 1);
    end(report, &sink,
        "{\"row\":\"process\",\"name\":\"lsass.exe\",\"va\":\"0x2\",\"found_by\":[]}\n"
        "{\"row\":\"gap\",\"what\":\"x\",\"va\":\"0x0\",\"reason\":\"absent\",\"text\":\"t\"}\n");
}

static void test_failures(void **state)
{
    (void)state;
    struct kda_error err;
    struct kda_report_options options = {.format = "yaml"};
    struct sink sink = {.fail_at = 1};
    struct kda_report *report = NULL;
    assert_int_equal(kda_report_open(&options, sink_write, &sink, &report, &err), KDA_USAGE);
    assert_null(report);
    options.format = "jsonl";
    assert_int_equal(kda_report_open(&options, sink_write, &sink, &report, &err), KDA_OK);
    struct kda_process process = {.va = 1};
    for (unsigned i = 0; i < 1000; i++)
        kda_report_process(report, &process, NULL);
    assert_true(kda_report_failed(report));
    assert_int_equal(kda_report_close(report, &err), KDA_IO);
    assert_int_equal(kda_report_close(NULL, NULL), KDA_OK);
    sink_free(&sink);
}

#ifdef KDA_FAULT_INJECTION
static void test_memory_failures(void **state)
{
    (void)state;
    static const char *const formats[] = {"text", "csv", "json", "jsonl"};
    for (size_t f = 0; f < 4; f++) {
        for (uint64_t n = 1;; n++) {
            struct sink sink = {0};
            struct kda_report_options options = {.format = formats[f]};
            struct kda_report *report = NULL;
            struct kda_process process = {.va = 1, .name = "x"};
            struct kda_etw_session session = {.va = 2, .silo = &host};
            kda_fault_arm(n);
            enum kda_status status = kda_report_open(&options, sink_write, &sink, &report, NULL);
            if (status == KDA_OK) {
                for (unsigned i = 0; i < 100; i++)
                    kda_report_process(report, &process, NULL);
                if (strcmp(formats[f], "csv") != 0) /* a csv file holds one kind */
                    kda_report_session(report, &session);
                status = kda_report_close(report, NULL);
            }
            bool fired = kda_fault_fired();
            kda_fault_arm(0);
            sink_free(&sink);
            assert_int_equal(status, fired ? KDA_NO_MEMORY : KDA_OK);
            if (!fired)
                break;
        }
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session),
        cmocka_unit_test(test_absent_keys_are_left_out),
        cmocka_unit_test(test_consumer_and_process),
        cmocka_unit_test(test_provider),
        cmocka_unit_test(test_json_frame),
        cmocka_unit_test(test_hostile_strings),
        cmocka_unit_test(test_long_name_crosses_the_buffer),
        cmocka_unit_test(test_grep_and_limit),
        cmocka_unit_test(test_failures),
#ifdef KDA_FAULT_INJECTION
        cmocka_unit_test(test_memory_failures),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
