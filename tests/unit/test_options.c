/*
 * The command line: every spelling of an option, numbers, and the nearest word.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cli.h"

/* The parser needs the table of commands, which needs something to run. */
#define STUB(name)                                                                                 \
    int name(struct cli *cli)                                                                      \
    {                                                                                              \
        (void)cli;                                                                                 \
        return CLI_DONE;                                                                           \
    }
STUB(cli_run_info)
STUB(cli_run_sessions)
STUB(cli_run_consumers)
STUB(cli_run_providers)
STUB(cli_run_processes)
STUB(cli_run_map)
STUB(cli_run_callbacks)
STUB(cli_run_audit)
STUB(cli_run_symbols)
STUB(cli_run_formats)

static struct cli_options options;
static const struct cli_command *command;

static int parse(const char *const *words)
{
    char *argv[16] = {(char *)(uintptr_t) "kda"};
    int argc = 1;
    while (words[argc - 1]) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
        argc++;
    }
    return cli_parse(argc, argv, &options, &command);
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void test_spellings(void **state)
{
    (void)state;
    assert_int_equal(PARSE("sessions", "i.raw", "-f", "json"), CLI_DONE);
    assert_string_equal(options.format, "json");
    assert_int_equal(PARSE("sessions", "i.raw", "-fjsonl"), CLI_DONE);
    assert_string_equal(options.format, "jsonl");
    assert_int_equal(PARSE("sessions", "i.raw", "-r", "csv"), CLI_DONE);
    assert_string_equal(options.format, "csv");
    assert_int_equal(PARSE("-qvfcsv", "sessions", "i.raw"), CLI_DONE);
    assert_true(options.quiet && options.verbose);
    assert_string_equal(options.format, "csv");
    assert_int_equal(PARSE("--format=text", "sessions", "--grep=", "i.raw"), CLI_DONE);
    assert_string_equal(options.format, "text");
    assert_string_equal(options.grep, "");
    assert_int_equal(PARSE("sessions", "--", "-i.raw", "--all"), CLI_DONE);
    assert_string_equal(options.positional[0], "-i.raw");
    assert_string_equal(options.positional[1], "--all");
    assert_int_equal(PARSE("sessions", "-", "-o", "-"), CLI_DONE);
    assert_string_equal(options.positional[0], "-");
    assert_string_equal(options.output, "-");
    assert_string_equal(command->name, "sessions");
}

static void test_refused(void **state)
{
    (void)state;
    assert_int_equal(PARSE("sessions", "i.raw", "-f"), CLI_USAGE);
    assert_int_equal(PARSE("sessions", "i.raw", "--format"), CLI_USAGE);
    assert_int_equal(PARSE("sessions", "i.raw", "--quiet=1"), CLI_USAGE);
    assert_int_equal(PARSE("sessions", "i.raw", "-qZ"), CLI_USAGE);
    assert_int_equal(PARSE("sessions", "a", "b", "c"), CLI_USAGE);
    assert_int_equal(PARSE("sessions", "a", "b", "c", "d"), CLI_USAGE);
    assert_int_equal(PARSE("sessions", "i.raw", "-fyaml"), CLI_USAGE);
    assert_int_equal(PARSE("formats", "--dtb", "1"), CLI_USAGE);
    assert_int_equal(PARSE("nothing"), CLI_USAGE);
}

static void test_help_needs_nothing_else(void **state)
{
    (void)state;
    assert_int_equal(PARSE("--help"), CLI_DONE);
    assert_null(command);
    assert_int_equal(PARSE("sessions", "-h"), CLI_DONE);
    assert_true(options.help);
    assert_string_equal(command->name, "sessions");
    assert_int_equal(PARSE("--version"), CLI_DONE);
    assert_true(options.version);
}

static void test_numbers(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_int_equal(PARSE("info", "i.raw", "--dtb", "0x1aa000", "--limit=10"), CLI_DONE);
    assert_int_equal(options.dtb, 0x1aa000);
    assert_int_equal(options.limit, 10);
    assert_true(cli_parse_number("18446744073709551615", 10, &n));
    assert_true(n == UINT64_MAX);
    static const char *const bad[] = {"",
                                      "0x",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1k",
                                      "1a",
                                      "18446744073709551616",
                                      "0x10000000000000000"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(cli_parse_number(bad[i], 0, &n));
    assert_true(cli_parse_number("ffffA416", 16, &n));
    assert_int_equal(n, 0xffffa416);
    assert_true(cli_parse_number("0xffff", 16, &n));
    assert_int_equal(n, 0xffff);
    assert_false(cli_parse_number("0x10", 10, &n));
}

static const char *nearest(const char *word)
{
    struct cli_suggestion suggestion = {0};
    for (size_t i = 0; i < cli_command_count; i++)
        cli_suggest(&suggestion, word, cli_commands[i].name);
    return suggestion.best ? suggestion.best : "";
}

static void test_suggestions(void **state)
{
    (void)state;
    char long_word[200];
    memset(long_word, 'x', sizeof(long_word) - 1);
    long_word[sizeof(long_word) - 1] = '\0';
    assert_string_equal(nearest("sesions"), "sessions");
    assert_string_equal(nearest("provider"), "providers");
    assert_string_equal(nearest("mpa"), "map");
    assert_string_equal(nearest("SESSIONS"), "sessions");
    assert_string_equal(nearest("consumer"), "consumers");
    assert_string_equal(nearest("audti"), "audit");
    assert_string_equal(nearest("bogus"), "");
    assert_string_equal(nearest(long_word), "");
    assert_true(cli_same_text("EventLog", "eVENTlOG"));
    assert_false(cli_same_text("EventLog", "EventLo"));
}

/* Two rows with one letter or one member would shadow each other. */
static void test_table_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct cli_option *a = &cli_option_table[i];
        assert_int_equal(a->kind == CLI_FLAG, a->argument == NULL);
        for (size_t k = i + 1; k < cli_option_count; k++) {
            const struct cli_option *b = &cli_option_table[k];
            assert_string_not_equal(a->name, b->name);
            assert_int_not_equal(a->offset, b->offset);
            assert_false(a->letter && (a->letter == b->letter || a->letter == b->alias));
        }
    }
    assert_in_range(cli_option_count, 1, 64); /* the parser keeps a bit per row */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_help_needs_nothing_else),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_suggestions),
        cmocka_unit_test(test_table_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
