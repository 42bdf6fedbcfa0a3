/*
 * test_cli_etl.c - kda etl from the command line to the output file: all or nothing, whatever call
 * fails. test_etl.py has what it prints.
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

#define FILE_A KDA_BUILD_DIR "/test_cli_etl.etl"
#define FILE_B KDA_BUILD_DIR "/test_cli_etl_damaged.etl"
#define OUT KDA_BUILD_DIR "/test_cli_etl.out"

static void write_file(const char *path, bool damage)
{
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    p.buffer_size = 2048;
    etl_begin(&w, &p);
    etl_fill(&w, 2, 60, ETL_T0 + 1);
    etl_finish(&w);
    if (damage)
        memset(w.file.data + 2048 + 72, 0x11, 30);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(w.file.data, 1, w.file.size, file), w.file.size);
    assert_int_equal(fclose(file), 0);
    etl_writer_free(&w);
}

static int set_up(void **state)
{
    (void)state;
    write_file(FILE_A, false);
    write_file(FILE_B, true);
    /* Messages belong to the test, not to its output. */
    return freopen(KDA_BUILD_DIR "/test_cli_etl.err", "wb", stderr) ? 0 : -1;
}

/* Runs `kda etl VERB -f FORMAT FILES -o OUT`; *out receives what was written, NULL if nothing. */
static int run(const char *verb, const char *format, const char *one, const char *two, char **out)
{
    char *argv[] = {(char *)"kda", (char *)"etl", (char *)verb, (char *)"-f", (char *)format,
                    (char *)"-o",  (char *)OUT,   (char *)one,  (char *)two,  NULL};
    (void)remove(OUT);
    int code = cli_main(two ? 9 : 8, argv);
    FILE *file = fopen(OUT, "rb");
    *out = NULL;
    if (!file)
        return code;
    *out = calloc(1 << 16, 1);
    assert_non_null(*out);
    assert_true(fread(*out, 1, (1 << 16) - 1, file) < (1 << 16) - 1);
    (void)fclose(file);
    return code;
}

static void test_codes(void **state)
{
    (void)state;
    static const struct {
        const char *verb, *one, *two;
        int code;
        const char *part;
    } cases[] = {
        {"info", FILE_A, NULL, CLI_DONE, "\"records\":61"},
        {"stats", FILE_A, NULL, CLI_DONE, "\"count\":61,\"header\":\"TOTAL\""},
        {"info", FILE_B, NULL, CLI_INCOMPLETE, "\"row\":\"trace_damage\""},
        {"stats", FILE_A, FILE_B, CLI_INCOMPLETE, "test_cli_etl_damaged.etl"},
        {"info", FILE_A, OUT ".missing", CLI_INPUT, NULL},
        {"show", FILE_A, NULL, CLI_USAGE, NULL},
        {"info", FILE_A, OUT, CLI_INPUT, NULL}, /* not there when it is read */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *out;
        assert_int_equal(run(cases[i].verb, "jsonl", cases[i].one, cases[i].two, &out),
                         cases[i].code);
        assert_int_equal(out != NULL, cases[i].part != NULL);
        if (out)
            assert_non_null(strstr(out, cases[i].part));
        free(out);
    }
}

static void test_faults(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    static const char *const verbs[] = {"info", "stats"};
    static const char *const formats[] = {"text", "tsv", "json"};
    for (size_t i = 0; i < 6; i++) {
        char *whole, *out;
        /* Tables of several kinds want a folder. */
        const char *verb = verbs[i % 2], *format = i == 2 ? "jsonl" : formats[i / 2];
        assert_int_equal(run(verb, format, FILE_B, NULL, &whole), CLI_INCOMPLETE);
        for (uint64_t n = 1;; n++) {
            kda_fault_arm(n);
            int code = run(verb, format, FILE_B, NULL, &out);
            bool fired = kda_fault_fired();
            kda_fault_arm(0);
            if (!fired)
                assert_int_equal(code, CLI_INCOMPLETE);
            /* Only a damage that could not be kept leaves a result: then it is not listed. */
            if (code == CLI_INCOMPLETE)
                assert_true(out && strlen(out) <= strlen(whole));
            else
                assert_true(!out && (code == CLI_INTERNAL || code == CLI_INPUT));
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
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
