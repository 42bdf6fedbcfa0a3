/*
 * Text tables and csv: alignment, cutting, escapes, formulas, stable headings.
 */
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
#include "report/writer.h"

static const struct kda_etw_silo host = {.host = true, .label = "host"};
static const struct kda_etw_silo server = {.label = "0xffffa40000002000"};

static struct kda_report *begin(struct sink *sink, const char *format, unsigned width, bool color)
{
    struct kda_report_options options = {.format = format, .width = width, .color = color};
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

static const struct kda_etw_consumer consumers[] = {
    {.silo = &host,
     .va = 0xffffa40000000010,
     .found_by = KDA_CONSUMER_LIST,
     .has_session_id = true,
     .has_pid = true,
     .session_id = 3,
     .pid = 712,
     .process = "lsass.exe"},
    {.silo = &host,
     .va = 0x10,
     .found_by = KDA_CONSUMER_LIST | KDA_CONSUMER_HANDLE,
     .has_session_id = true,
     .has_pid = true,
     .has_handle = true,
     .session_id = 12,
     .pid = 4,
     .handle = 0x2c,
     .process = "\xe6\x97\xa5\xe6\x9c\xac\x1b[31m"},
};

static void test_columns_line_up(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_report *report = begin(&sink, "text", 0, false);
    kda_report_consumer(report, &consumers[0]);
    kda_report_consumer(report, &consumers[1]);
    end(report, &sink,
        "Session  PID             Address  Handle  Found By      Process       Session Name\n"
        "      3  712  0xffffa40000000010          list          lsass.exe\n"
        "     12    4                0x10    0x2c  list, handle  \xe6\x97\xa5\xe6\x9c\xac\\x1b[31m"
        "\n");
}

static void test_silo_shows_when_there_is_another(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_process process = {.va = 1, .has_pid = true, .pid = 4, .name = "System"};
    struct kda_report *report = begin(&sink, "text", 0, false);
    kda_report_process(report, &process, "host");
    kda_report_process(report, &process, server.label);
    end(report, &sink,
        "Silo                PID  PPID  EPROCESS  DTB  Created  Found By  Name\n"
        "host                  4             0x1                          System\n"
        "0xffffa40000002000    4             0x1                          System\n");
}

static void test_terminal_cuts_and_colours(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_report *report = begin(&sink, "text", 20, true);
    kda_report_consumer(report, &consumers[0]);
    end(report, &sink,
        "\x1b[1mSession  PID       \xe2\x80\xa6\x1b[0m\n"
        "      3  712  0xfff\xe2\x80\xa6\n");
}

static void test_kinds_are_separate_tables(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_process process = {.va = 1, .name = "System"};
    struct kda_gap gap = {.what = "session", .va = 16, .reason = KDA_ABSENT, .text = "not there"};
    struct kda_report *report = begin(&sink, "text", 0, false);
    kda_report_process(report, &process, NULL);
    kda_report_gap(report, &gap);
    end(report, &sink,
        "PID  PPID  EPROCESS  DTB  Created  Found By  Name\n"
        "                0x1                          System\n"
        "\n"
        "Gap      Address  Reason  Text\n"
        "session     0x10  absent  not there\n");
}

static void test_hostile_name_costs_one_line(void **state)
{
    (void)state;
    struct sink sink;
    char *name = malloc(65536);
    assert_non_null(name);
    memset(name, 'x', 65535);
    name[65535] = '\0';
    struct kda_process bad = {.va = 1, .name = name, .image = "i"};
    struct kda_process good = {.va = 2, .name = "System", .image = "i"};
    struct kda_report *report = begin(&sink, "text", 0, false);
    for (unsigned i = 0; i < 20; i++)
        kda_report_process(report, &good, NULL);
    kda_report_process(report, &bad, NULL);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_in_range(sink.size, 65535, 65535 + 22 * 160);
    sink_free(&sink);
    free(name);
}

static void test_escapes(void **state)
{
    (void)state;
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"plain \\Device\\x", "plain \\Device\\x"},
        {"\x1b]0;owned\x07", "\\x1b]0;owned\\x07"},
        {"a\nb\tc\x7f", "a\\x0ab\\x09c\\x7f"},
        {"\xc2\x9b", "\\u009b"},
        {"\xe2\x80\xae"
         "fdp.exe",
         "\\u202efdp.exe"},
        {"\xe2\x80\x8b\xef\xbb\xbf", "\\u200b\\ufeff"},
        {"\xff\xc0\xaf", "\\xff\\xc0\\xaf"},
        {"caf\xc3\xa9 \xf0\x9f\x98\x80", "caf\xc3\xa9 \xf0\x9f\x98\x80"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kda_text text = {0};
        char small[128];
        kda_text_add_escaped(&text, cases[i].in, strlen(cases[i].in));
        assert_string_equal(text.bytes, cases[i].out);
        kda_text_deinit(&text);
        assert_string_equal(kda_printable(cases[i].in, small, sizeof(small)), cases[i].out);
    }
    char small[6];
    assert_string_equal(kda_printable("abc\x1b", small, sizeof(small)), "abc"); /* never half */
    assert_int_equal(kda_columns("\xe6\x97\xa5"
                                 "a",
                                 4),
                     3);
    assert_int_equal(kda_columns("e\xcc\x81", 3), 1);
}

static const char *cell_name(struct sink *sink, const char *format, const char *name)
{
    struct kda_process process = {.va = 1, .has_pid = true, .pid = 4, .name = name};
    struct kda_report *report = begin(sink, format, 0, false);
    kda_report_process(report, &process, "host");
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    const char *line = strchr(sink->text, '\n');
    assert_non_null(line);
    return line + 1;
}

static void test_csv_cells(void **state)
{
    (void)state;
    static const struct {
        const char *name, *cell;
    } cases[] = {
        {"plain.exe", "plain.exe"},
        {"a,b", "\"a,b\""},
        {"say \"hi\"", "\"say \"\"hi\"\"\""},
        {"=cmd|'/c calc'!A1", "'=cmd|'/c calc'!A1"},
        {"+1", "'+1"},
        {"-1", "'-1"},
        {"@SUM(A1)", "'@SUM(A1)"},
        {"=1,2", "\"'=1,2\""},
        {"\t=1", "\\x09=1"},
        {"two\nlines", "two\\x0alines"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sink sink;
        char want[160];
        (void)snprintf(want, sizeof(want), "process,host,4,,0x1,,,,,,%s,\r\n", cases[i].cell);
        assert_string_equal(cell_name(&sink, "csv", cases[i].name), want);
        sink_free(&sink);
    }
}

/* No quotes, but no cell can break out of its column, and none is a formula. */
static void test_tsv(void **state)
{
    (void)state;
    static const struct {
        const char *name, *cell;
    } cases[] = {
        {"a,b", "a,b"},      {"say \"hi\"", "say \"hi\""},    {"=1", "'=1"},
        {"a\tb", "a\\x09b"}, {"two\nlines", "two\\x0alines"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct sink sink;
        char want[160];
        (void)snprintf(want, sizeof(want), "process\thost\t4\t\t0x1\t\t\t\t\t\t%s\t\n",
                       cases[i].cell);
        assert_string_equal(cell_name(&sink, "tsv", cases[i].name), want);
        sink_free(&sink);
    }
    struct sink sink;
    struct kda_report *report = begin(&sink, "tsv", 0, false);
    kda_report_consumer(report, &consumers[0]);
    end(report, &sink,
        "row\tsilo\tsession_id\tpid\tva\thandle\tfound_by\tbuffers_lost\tflags\tprocess\tsession\t"
        "image\n"
        "consumer\thost\t3\t712\t0xffffa40000000010\t\tlist\t\t\tlsass.exe\t\t\n");
}

static void test_csv_headings_are_fixed(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_etw_session session = {.silo = &host, .id = 1, .va = 2};
    session.have = 1u << KDA_ETW_S_ACCEPT_BIT;
    session.accept_new_events = -5;
    struct kda_report *report = begin(&sink, "csv", 0, false);
    kda_report_session(report, &session);
    end(report, &sink,
        "row,silo,id,logger_id,collecting,mode,buffer_size,buffers,max_buffers,buffers_written,"
        "events_lost,buffers_lost,realtime_buffers_lost,name,va,mode_flags,accept_new_events,clock,"
        "get_cpu_clock,start_time,instance_guid,security,num_consumers,consumers,log_file,"
        "found_by\r\n"
        "session,host,1,,,,,,,,,,,,0x2,,-5,,,,,,,,,\r\n");
}

/* Tables of several widths in one file are what csv readers fail on. */
static void test_csv_is_one_table(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_error err;
    struct kda_report *report = begin(&sink, "csv", 0, false);
    kda_report_consumer(report, &consumers[0]);
    kda_report_format_row(report, "image", "raw", NULL, true, NULL);
    assert_true(kda_report_failed(report));
    assert_int_equal(kda_report_close(report, &err), KDA_USAGE);
    assert_null(strstr(sink.text ? sink.text : "", "raw"));
    sink_free(&sink);
}

struct two_tables {
    struct sink sinks[2], *now;
};

static bool choose(void *context, const char *kind)
{
    struct two_tables *tables = context;
    tables->now = &tables->sinks[strcmp(kind, "consumer") == 0];
    return strcmp(kind, "gap") != 0;
}

static bool write_chosen(void *context, const char *bytes, size_t size)
{
    struct two_tables *tables = context;
    return sink_write(tables->now, bytes, size);
}

static void test_csv_of_several_kinds(void **state)
{
    (void)state;
    struct two_tables tables = {0};
    struct kda_report_options options = {.format = "csv", .table = choose};
    struct kda_gap gap = {.what = "session"};
    struct kda_report *report;
    assert_int_equal(kda_report_open(&options, write_chosen, &tables, &report, NULL), KDA_OK);
    kda_report_format_row(report, "image", "raw", NULL, true, NULL);
    kda_report_consumer(report, &consumers[0]);
    kda_report_format_row(report, "exit", "0", NULL, true, NULL);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_string_equal(tables.sinks[0].text, "row,table,name,usable,title,advice\r\n"
                                              "format,image,raw,true,,\r\n"
                                              "format,exit,0,true,,\r\n");
    assert_string_equal(
        tables.sinks[1].text,
        "row,silo,session_id,pid,va,handle,found_by,buffers_lost,flags,process,session,image\r\n"
        "consumer,host,3,712,0xffffa40000000010,,list,,,lsass.exe,,\r\n");
    assert_int_equal(kda_report_open(&options, write_chosen, &tables, &report, NULL), KDA_OK);
    kda_report_gap(report, &gap);
    assert_int_equal(kda_report_close(report, NULL), KDA_IO);
    sink_free(&tables.sinks[0]);
    sink_free(&tables.sinks[1]);
}

static void test_csv_nested(void **state)
{
    (void)state;
    struct sink sink;
    const struct kda_etw_consumer *both[] = {&consumers[0], &consumers[1]};
    struct kda_etw_session session = {.id = 1, .va = 2, .consumers = both, .consumer_count = 2};
    struct kda_report *report = begin(&sink, "csv", 0, false);
    kda_report_session(report, &session);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_non_null(strstr(sink.text, ",712:lsass.exe;4:\xe6\x97\xa5\xe6\x9c\xac\\x1b[31m,"));
    sink_free(&sink);
}

static void test_info_is_vertical(void **state)
{
    (void)state;
    struct sink sink;
    struct kda_image_info image = {
        .format = "raw", .title = "raw memory", .file_size = 3145728, .page_count = 768};
    image.warnings[0] = "first";
    image.warnings[1] = "second";
    image.warning_count = 2;
    struct kda_report_facts facts = {.image = &image, .kernel_missing = "nothing looks like one"};
    struct kda_report *report = begin(&sink, "text", 0, false);
    kda_report_info(report, &facts);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    assert_non_null(strstr(sink.text, "Format              raw memory\n"));
    assert_non_null(strstr(sink.text, "File size           3145728 (3.0 MiB)\n"));
    assert_non_null(strstr(sink.text, "No kernel           nothing looks like one\n"));
    assert_non_null(strstr(sink.text, "Warning             first\n                    second\n"));
    sink_free(&sink);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_line_up),
        cmocka_unit_test(test_silo_shows_when_there_is_another),
        cmocka_unit_test(test_terminal_cuts_and_colours),
        cmocka_unit_test(test_kinds_are_separate_tables),
        cmocka_unit_test(test_hostile_name_costs_one_line),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_csv_cells),
        cmocka_unit_test(test_tsv),
        cmocka_unit_test(test_csv_headings_are_fixed),
        cmocka_unit_test(test_csv_is_one_table),
        cmocka_unit_test(test_csv_of_several_kinds),
        cmocka_unit_test(test_csv_nested),
        cmocka_unit_test(test_info_is_vertical),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
