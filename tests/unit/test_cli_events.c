/*
 * test_cli_events.c - kda events from the command line to the output file: all or nothing, whatever
 * call fails. test_events.py has what it prints of real traces.
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
#include "cli.h"
#include "etl_sample.h"

#define TRACE KDA_BUILD_DIR "/test_cli_events.etl"
#define OUT KDA_BUILD_DIR "/test_cli_events.out"
#define OUT_MAX ((size_t)1 << 16)

/* One record for each way to a description. */
static void add_records(struct etl_writer *w)
{
    struct blob process = {0}, connect = {0}, schema = {0};
    struct etl_record r = {.kind = ETL_SYSTEM, .group = 3, .type = 1, .version = 2};
    blob_pad(&process, 24);
    blob_put32(&process, 0);
    etl_put_narrow(&process, "a.exe");
    etl_put_wide(&process, "a -b");
    r.time = ETL_T0 + 10;
    r.payload = process.data;
    r.payload_size = process.size;
    etl_add(w, 0, &r);
    blob_pad(&connect, 24);
    r = (struct etl_record){.kind = ETL_EVENT, .id = 1002, .time = ETL_T0 + 20};
    etl_guid("2f07e2ee-15db-40f1-90ef-9d7ba282188a", r.guid);
    r.payload = connect.data;
    r.payload_size = connect.size;
    etl_add(w, 1, &r);
    etl_schema_begin(&schema, "Logged", 0);
    etl_schema_field(&schema, "value", 8, 0, 0);
    etl_schema_end(&schema);
    const struct etl_ext ext = {ETL_EXT_SCHEMA, schema.data, (uint16_t)schema.size};
    r = (struct etl_record){.kind = ETL_EVENT, .time = ETL_T0 + 30, .ext = &ext, .ext_count = 1};
    r.payload = "\x07\0\0\0";
    r.payload_size = 4;
    etl_add(w, 0, &r);
    blob_free(&process);
    blob_free(&connect);
    blob_free(&schema);
}

static int set_up(void **state)
{
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    (void)state;
    p.buffer_size = 2048;
    etl_begin(&w, &p);
    add_records(&w);
    etl_finish(&w);
    FILE *file = fopen(TRACE, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(w.file.data, 1, w.file.size, file), w.file.size);
    assert_int_equal(fclose(file), 0);
    etl_writer_free(&w);
    /* Messages belong to the test, not to its output. */
    return freopen(KDA_BUILD_DIR "/test_cli_events.err", "wb", stderr) ? 0 : -1;
}

/* Runs `kda events -f FORMAT TRACE -o OUT`; *out receives what was written, NULL if nothing. */
static int run(const char *format, char **out)
{
    char *argv[] = {(char *)"kda", (char *)"events", (char *)"-f",  (char *)format,
                    (char *)"-o",  (char *)OUT,      (char *)TRACE, NULL};
    (void)remove(OUT);
    int code = cli_main(7, argv);
    FILE *file = fopen(OUT, "rb");
    *out = NULL;
    if (!file)
        return code;
    *out = calloc(OUT_MAX, 1);
    assert_non_null(*out);
    assert_true(fread(*out, 1, OUT_MAX - 1, file) < OUT_MAX - 1);
    (void)fclose(file);
    return code;
}

static void test_events(void **state)
{
    (void)state;
    char *out;
    assert_int_equal(run("jsonl", &out), CLI_DONE);
    assert_non_null(out);
    assert_non_null(strstr(out, "\"kind\":\"process.create\""));
    assert_non_null(strstr(out, "\"command_line\":\"a -b\""));
    assert_non_null(strstr(out, "\"event_name\":\"TcpRequestConnect\",\"fields\":{\"Tcb\":"));
    assert_non_null(strstr(out, "\"event_name\":\"Logged\",\"fields\":{\"value\":7}"));
    free(out);
}

static void test_faults(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    static const char *const formats[] = {"text", "csv", "json", "jsonl"};
    for (size_t i = 0; i < 4; i++) {
        char *whole, *out;
        assert_int_equal(run(formats[i], &whole), CLI_DONE);
        for (uint64_t n = 1;; n++) {
            kda_fault_arm(n);
            int code = run(formats[i], &out);
            bool fired = kda_fault_fired();
            kda_fault_arm(0);
            /* Memory that only a cache wanted costs nothing but time. */
            if (code == CLI_DONE)
                assert_string_equal(out, whole);
            else
                assert_true(fired && !out && (code == CLI_INTERNAL || code == CLI_INPUT));
            free(out);
            if (!fired)
                break;
        }
        free(whole);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
