/*
 * The tool as a whole over made-up objects: exit codes, what goes where, names on the command line.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "alloc.h"
#include "cli.h"
#include "fake_model.h"
#include "sink.h"

#define OUT KDA_BUILD_DIR "/test_cli.out"
#define ERR KDA_BUILD_DIR "/test_cli.err"
#define TEXT_MAX 65536

static char out_text[TEXT_MAX], err_text[TEXT_MAX];

static void slurp(const char *path, char *text)
{
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(text, 1, TEXT_MAX - 1, file) : 0;
    text[size] = '\0';
    if (file)
        (void)fclose(file);
}

/* Runs the tool with stderr in a file; the test's own messages still reach the terminal. */
static int run_arguments(int argc, char **argv)
{
    (void)fflush(stderr);
    int saved = dup(STDERR_FILENO);
    FILE *file = fopen(ERR, "wb");
    assert_non_null(file);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    int code = cli_main(argc, argv);
    (void)fflush(stderr);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    (void)fclose(file);
    slurp(ERR, err_text);
    return code;
}

/* Runs `kda WORDS... -o OUT`; leaves what was written in out_text and err_text. */
static int run(const char *words)
{
    char copy[512], *argv[32];
    int argc = 0;
    (void)remove(OUT);
    (void)snprintf(copy, sizeof(copy), "kda %s", words);
    for (char *word = copy; word && argc < 28;) {
        char *space = strchr(word, ' ');
        if (space)
            *space = '\0';
        argv[argc++] = word;
        word = space ? space + 1 : NULL;
    }
    char option[] = "-o", target[] = OUT;
    argv[argc++] = option;
    argv[argc++] = target;
    argv[argc] = NULL;
    int code = run_arguments(argc, argv);
    slurp(OUT, out_text);
    return code;
}

#define HAS(text, part)                                                                            \
    do {                                                                                           \
        if (!strstr(text, part))                                                                   \
            fail_msg("'%s' is not in:\n%s", part, text);                                           \
    } while (0)
#define HAS_NOT(text, part)                                                                        \
    do {                                                                                           \
        if (strstr(text, part))                                                                    \
            fail_msg("'%s' is in:\n%s", part, text);                                               \
    } while (0)

static void test_exit_codes(void **state)
{
    (void)state;
    assert_int_equal(run("sessions good.raw"), CLI_DONE);
    assert_string_equal(err_text, "");
    assert_int_equal(run("sessions missing.raw"), CLI_INPUT);
    HAS(err_text, "kda: cannot open 'missing.raw'");
    assert_int_equal(run("sessions nokernel.raw"), CLI_INPUT);
    HAS(err_text, "tried the low stub");
    assert_int_equal(run("sessions nosymbols.raw"), CLI_SYMBOLS);
    HAS(err_text, "kda symbols get");
    assert_string_equal(out_text, "");
    assert_int_equal(run("sessions holes.raw"), CLI_INCOMPLETE);
    HAS(err_text, "incomplete: 1 gap where memory is missing or damaged (-v lists them)");
    HAS_NOT(out_text, "not in the image");
    assert_int_equal(run("sessions holes.raw -q"), CLI_INCOMPLETE);
    assert_string_equal(err_text, "");
}

static void test_callbacks_and_audit(void **state)
{
    (void)state;
    assert_int_equal(run("callbacks good.raw -f csv"), CLI_DONE);
    HAS(out_text, "edr.sys");
    HAS(err_text, "thread callbacks: where they are is not known");
    assert_int_equal(run("audit good.raw"), CLI_DONE);
    HAS(out_text, "the session does not collect");
    HAS_NOT(out_text, "cannot be read to its end");
    HAS(err_text, "3 checks: 2 with findings, 0 passed, 1 could not be decided (-v lists");
    HAS(err_text, "5 more findings or open objects were not kept");
    assert_int_equal(run("audit good.raw -v"), CLI_DONE);
    HAS(out_text, "cannot be read to its end");
    assert_int_equal(run("audit good.raw --exit-code"), CLI_FINDINGS);
    assert_int_equal(run("audit good.raw --exit-code --min-severity critical"), CLI_DONE);
    HAS_NOT(out_text, "the session does not collect");
    assert_int_equal(run("audit good.raw --min-severity HIGH"), CLI_DONE);
    HAS(out_text, "the session does not collect");
    HAS_NOT(out_text, "the session lost events");
    assert_int_equal(run("audit holes.raw"), CLI_INCOMPLETE);
    assert_int_equal(run("audit holes.raw --exit-code"), CLI_FINDINGS);
    assert_int_equal(run("audit good.raw --min-severity loud"), CLI_USAGE);
    HAS(err_text, "not 'loud'");
    assert_int_equal(run("audit good.raw --lost 5000000000"), CLI_USAGE);
    assert_int_equal(run("audit good.raw --expect no-such-list"), CLI_USAGE);
    assert_int_equal(run("audit good.raw --baseline no-such-map"), CLI_INPUT);
    assert_int_equal(run("audit nosymbols.raw"), CLI_SYMBOLS);
    assert_int_equal(run("sessions good.raw --baseline x"), CLI_USAGE);
}

static void test_gaps_are_listed(void **state)
{
    (void)state;
    assert_int_equal(run("sessions holes.raw -v"), CLI_INCOMPLETE);
    HAS(out_text, "logger context is not in the image");
    HAS(err_text, "stat peak_kib ");
    assert_int_equal(run("sessions holes.raw -f jsonl --grep nothing-has-this"), CLI_INCOMPLETE);
    assert_string_equal(out_text,
                        "{\"row\":\"gap\",\"what\":\"session\",\"va\":\"0xffffc00000000300\","
                        "\"reason\":\"absent\",\"text\":\"logger context is not in the image\"}\n");
    assert_int_equal(run("info holes.raw -f json"), CLI_INCOMPLETE);
    HAS(out_text, "\"gap_count\":1");
    HAS(out_text, "],\"gaps\":[\n{\"row\":\"gap\"");
}

static void test_triage(void **state)
{
    (void)state;
    assert_int_equal(run("info triage.dmp"), CLI_DONE);
    HAS(out_text, "10.0.26100");
    HAS(out_text, "0x1a958142");
    HAS(out_text, "crash.exe");
    HAS_NOT(out_text, "hal.dll");
    assert_int_equal(run("info triage.dmp -v"), CLI_DONE);
    HAS(out_text, "hal.dll");
    static const char *const words[] = {"sessions", "consumers", "providers", "processes", "map"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        char line[64];
        (void)snprintf(line, sizeof(line), "%s triage.dmp", words[i]);
        assert_int_equal(run(line), CLI_INCOMPLETE);
        HAS(err_text, "it holds no tracing memory");
    }
    assert_int_equal(run("sessions triage.dmp -f json"), CLI_INCOMPLETE);
    HAS(out_text, "\"rows\":[],\"gaps\":[\n{\"row\":\"gap\",\"what\":\"image\"");
}

static void test_info_says_what_is_missing(void **state)
{
    (void)state;
    assert_int_equal(run("info nosymbols.raw -f jsonl"), CLI_SYMBOLS);
    HAS(out_text, "\"kernel_base\":\"0xfffff80000000000\"");
    HAS(out_text, "\"symbols_missing\":\"want ntkrnlmp.pdb");
    assert_int_equal(run("info nokernel.raw"), CLI_INPUT);
    HAS(out_text, "No kernel");
    assert_int_equal(run("info good.raw --dtb 0x1ab000"), CLI_DONE);
    HAS(out_text, "0x1ab000");
    HAS(out_text, "40 of 42");
}

static void test_usage(void **state)
{
    (void)state;
    static const struct {
        const char *words, *message;
    } cases[] = {
        {"sesions good.raw", "did you mean 'sessions'"},
        {"xyzzy good.raw", "see 'kda --help'"},
        {"sessions good.raw --sylo host", "did you mean '--silo'"},
        {"sessions", "too few arguments"},
        {"info good.raw other.raw", "too many arguments"},
        {"info good.raw --silo host", "--silo does not apply to 'kda info'"},
        {"sessions good.raw -f yaml", "unknown format 'yaml'"},
        {"sessions good.raw -f jsonk", "did you mean 'json'"},
        {"sessions good.raw --limit many", "wants a number"},
        {"sessions good.raw --limit -1", "wants a number"},
        {"providers good.raw --all=1", "takes no value"},
        {"sessions good.raw --all", "--all does not apply to 'kda sessions'"},
        {"sessions good.raw -Z", "unknown option '-Z'"},
        {"symbols put good.raw", "unknown subcommand 'put'"},
        {"sessions good.raw 2 --session 3", "named twice"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(run(cases[i].words), CLI_USAGE);
        HAS(err_text, cases[i].message);
        assert_string_equal(out_text, "");
    }
}

static void test_sessions_by_name(void **state)
{
    (void)state;
    assert_int_equal(run("sessions good.raw eventlog-SECURITY -f jsonl"), CLI_DONE);
    HAS(out_text, "\"silo\":\"host\",\"id\":3");
    HAS(out_text, "\"silo\":\"0xffffa00000002000\",\"id\":4");
    HAS_NOT(out_text, "Circular");
    assert_int_equal(run("sessions good.raw eventlog-security --silo host -f jsonl"), CLI_DONE);
    HAS_NOT(out_text, "0xffffa00000002000");
    assert_int_equal(run("sessions good.raw --silo 0xffffa00000009000 -f jsonl"), CLI_DONE);
    HAS_NOT(out_text, "\"host\"");
    assert_int_equal(run("sessions good.raw --session 2 -f jsonl"), CLI_DONE);
    HAS(out_text, "Circular Kernel Context Logger");
    assert_int_equal(run("sessions good.raw 3"), CLI_USAGE); /* id 3, and a session named "3" */
    HAS(err_text, "fits more than one session");
    HAS(err_text, "[6] 3");
    assert_int_equal(run("sessions good.raw eventlog-securty"), CLI_USAGE);
    HAS(err_text, "did you mean 'Eventlog-Security'");
    assert_int_equal(run("sessions good.raw circular"), CLI_USAGE);
    HAS(err_text, "did you mean 'Circular Kernel Context Logger'");
    assert_int_equal(run("sessions good.raw eventlog-securty"), CLI_USAGE);
    HAS(err_text, "[5] =cmd|'/c calc'!A1 \\x1b[2J</script>");
    assert_int_equal(run("sessions good.raw --silo 0x1"), CLI_USAGE);
    HAS(err_text, "no silo '0x1'");
}

static void test_providers(void **state)
{
    (void)state;
    assert_int_equal(run("providers good.raw -f jsonl"), CLI_DONE);
    HAS(out_text, "Microsoft-Windows-Kernel-Process");
    HAS_NOT(out_text, "\"type\":\"group\"");
    HAS(out_text, "{\"slot\":1,\"enabled\":false,\"session_id\":9,\"level\":4");
    assert_int_equal(run("providers good.raw --all -f jsonl"), CLI_DONE);
    HAS(out_text, "\"type\":\"group\"");
    assert_int_equal(run("providers good.raw --session eventlog-security -f jsonl"), CLI_DONE);
    HAS(out_text, "Kernel-Process");
    HAS_NOT(out_text, "00000001-");
    assert_int_equal(run("providers good.raw {22FB2CD6-0E7B-422B-A0C7-2FAD1FD0E716} -f jsonl"),
                     CLI_DONE);
    HAS(out_text, "Kernel-Process");
    HAS_NOT(out_text, "00000001-");
    assert_int_equal(run("providers good.raw microsoft-windows-kernel-proces"), CLI_USAGE);
    HAS(err_text, "did you mean 'Microsoft-Windows-Kernel-Process'");
}

static void test_limit_and_grep(void **state)
{
    (void)state;
    assert_int_equal(run("sessions good.raw --limit 2 -f csv"), CLI_DONE);
    HAS(err_text, "3 more rows were kept back by --limit");
    HAS_NOT(out_text, "calc");
    assert_int_equal(run("sessions good.raw --grep CALC -f csv"), CLI_DONE);
    HAS(out_text, "'=cmd|'/c calc'!A1 \\x1b[2J</script>");
    HAS_NOT(out_text, "Circular");
}

static void test_map(void **state)
{
    (void)state;
    assert_int_equal(run("map good.raw"), CLI_DONE);
    HAS(out_text, "[3] Eventlog-Security");
    HAS(out_text, "svchost.exe (712, 1044)");
    HAS(out_text, "tcpip.sys");
    HAS(out_text, "edr.exe (712)  found by its handle only");
    HAS(out_text, "1 counted by the kernel, 2 found");
    HAS(out_text, "Providers enabled for no living session");
    HAS(out_text, "Consumers of no living session");
    HAS_NOT(out_text, "\x1b");
    assert_int_equal(run("map holes.raw"), CLI_INCOMPLETE);
    HAS(out_text, "Incomplete: 1 gap");
    assert_int_equal(run("map good.raw --session 2"), CLI_DONE);
    HAS_NOT(out_text, "no living session");
    assert_int_equal(run("map holes.raw -f jsonl"), CLI_INCOMPLETE);
    static const char *const kinds[] = {"info",     "session", "consumer",
                                        "provider", "process", "gap"};
    const char *at = out_text;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        char head[32];
        (void)snprintf(head, sizeof(head), "{\"row\":\"%s\"", kinds[i]);
        at = strstr(at, head);
        assert_non_null(at);
    }
}

/* On a terminal the map breaks lists behind commas and cuts what cannot be broken. */
static void test_map_fits_a_terminal(void **state)
{
    (void)state;
    struct kda_etw etw = {0};
    struct sink sink = {0};
    struct kda_report *report = NULL;
    struct kda_report_options options = {.width = 62};
    assert_int_equal(kda_report_open(&options, sink_write, &sink, &report, NULL), KDA_OK);
    kda_report_map(report, &etw, NULL, NULL);
    assert_int_equal(kda_report_close(report, NULL), KDA_OK);
    HAS(sink.text, "by tcpip.sys,\n"
                   "                                    svchost.exe (712, 1044)\n");
    for (const char *line = sink.text; *line; line = strchr(line, '\n') + 1) {
        size_t columns = 0; /* names of the made-up objects are ASCII; the ellipsis is 3 bytes */
        for (const char *c = line; *c != '\n'; c++)
            columns += ((unsigned char)*c & 0xc0) != 0x80;
        assert_in_range(columns, 0, 62);
    }
    sink_free(&sink);
}

static void test_processes_and_symbols(void **state)
{
    (void)state;
    assert_int_equal(run("processes good.raw -f jsonl"), CLI_DONE);
    HAS(out_text, "\"name\":\"System\",\"va\":\"0xffff900000000100\",\"dtb\":\"0x1ad000\"");
    HAS(out_text, "\"silo\":\"0xffffa00000002000\""); /* by the job that the process names */
    assert_int_equal(run("processes good.raw --silo host -f jsonl"), CLI_DONE);
    HAS_NOT(out_text, "edr.exe");
    assert_int_equal(run("symbols good.raw -f jsonl"), CLI_DONE);
    HAS(out_text, "windows/ntkrnlmp.pdb/00000033000000000000000000000000-1.json.xz");
    HAS(out_text, "\"found\":true,\"source\":\"profile\"");
    assert_int_equal(run("symbols nosymbols.raw"), CLI_SYMBOLS);
    HAS(out_text, "want ntkrnlmp.pdb");
    assert_int_equal(run("symbols get good.raw"), CLI_SYMBOLS);
    HAS(err_text, "no server has");
    assert_int_equal(run("symbols get good.raw --cache dir"), CLI_DONE);
    HAS(out_text, "x.pdb");
    assert_int_equal(run("formats -f jsonl"), CLI_DONE);
    HAS(out_text, "\"table\":\"exit\",\"name\":\"6\"");
}

static void test_output_is_all_or_nothing(void **state)
{
    (void)state;
    FILE *file = fopen(OUT, "wb");
    assert_non_null(file);
    (void)fputs("old", file);
    (void)fclose(file);
    char *missing[] = {(char *)"kda", (char *)"sessions", (char *)"missing.raw",
                       (char *)"-o",  (char *)OUT,        NULL};
    assert_int_equal(run_arguments(5, missing), CLI_INPUT);
    slurp(OUT, out_text);
    assert_string_equal(out_text, "old");
    char *nowhere[] = {(char *)"kda",
                       (char *)"sessions",
                       (char *)"good.raw",
                       (char *)"-o",
                       (char *)KDA_BUILD_DIR "/no/such/dir/x",
                       NULL};
    assert_int_equal(run_arguments(5, nowhere), CLI_INTERNAL);
    file = fopen("/dev/full", "wb");
    if (!file)
        skip();
    (void)fclose(file);
    char *full[] = {(char *)"kda", (char *)"sessions",  (char *)"good.raw",
                    (char *)"-o",  (char *)"/dev/full", NULL};
    assert_int_equal(run_arguments(5, full), CLI_INTERNAL);
    HAS(err_text, "cannot write '/dev/full'");
}

#ifdef KDA_FAULT_INJECTION
static void test_memory_failures(void **state)
{
    (void)state;
    static const char *const lines[] = {"map good.raw -v", "map good.raw --grep svchost",
                                        "sessions good.raw", "providers good.raw -f csv",
                                        "map good.raw -f json"};
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        for (uint64_t n = 1;; n++) {
            kda_fault_arm(n);
            int code = run(lines[i]);
            bool fired = kda_fault_fired();
            kda_fault_arm(0);
            assert_int_equal(code, fired ? CLI_INTERNAL : CLI_DONE);
            if (!fired)
                break;
            assert_string_equal(out_text, ""); /* nothing half-written is left */
            HAS(err_text, "out of memory");
        }
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_codes),
        cmocka_unit_test(test_callbacks_and_audit),
        cmocka_unit_test(test_gaps_are_listed),
        cmocka_unit_test(test_triage),
        cmocka_unit_test(test_info_says_what_is_missing),
        cmocka_unit_test(test_usage),
        cmocka_unit_test(test_sessions_by_name),
        cmocka_unit_test(test_providers),
        cmocka_unit_test(test_limit_and_grep),
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_map_fits_a_terminal),
        cmocka_unit_test(test_processes_and_symbols),
        cmocka_unit_test(test_output_is_all_or_nothing),
#ifdef KDA_FAULT_INJECTION
        cmocka_unit_test(test_memory_failures),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
