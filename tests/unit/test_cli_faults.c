/*
 * The tool as a whole over a generated image while the n-th fallible call fails, for every n: an
 * exit code that says so, a sentence, and no half-written output.
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
#include "forge.h"

#define IMAGE KDA_BUILD_DIR "/test_cli_faults.raw"
#define OUT KDA_BUILD_DIR "/test_cli_faults.out"
#define ERR KDA_BUILD_DIR "/test_cli_faults.err"
#define TEXT_MAX 262144
#define WORDS_MAX 12

static char out_text[TEXT_MAX], err_text[TEXT_MAX];

static size_t slurp(const char *path, char *text)
{
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(text, 1, TEXT_MAX - 1, file) : 0;
    text[size] = '\0';
    if (file)
        (void)fclose(file);
    return size;
}

/* Runs `kda WORDS... -o OUT` with stderr in a file; the test's own messages still get through. */
static int run(const char *words)
{
    char copy[512], *argv[WORDS_MAX + 4], *rest = copy;
    int argc = 0;
    (void)remove(OUT);
    (void)snprintf(copy, sizeof(copy), "kda %s", words);
    for (char *word; argc < WORDS_MAX && (word = strtok_r(rest, " ", &rest)) != NULL;)
        argv[argc++] = word;
    argv[argc++] = (char *)"-o";
    argv[argc++] = (char *)OUT;
    argv[argc] = NULL;
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
    (void)slurp(OUT, out_text);
    (void)slurp(ERR, err_text);
    return code;
}

static void make_image(void)
{
    static const char scenario[] =
        "build 10.0.22000.795\nsize 64M\nseed 7\n"
        "process 4 ppid=0 name=System handles=4\n"
        "process 1264 ppid=4 name=svchost.exe path=\\Device\\x\\svchost.exe handles=6\n"
        "session 3 name=Eventlog-Security mode=0x19800180\n"
        "consumer session=3 pid=1264\n"
        "buffer session=3 state=logging events=4\nbuffer session=3 state=free events=2\n"
        "buffer session=3 state=flush user=1264 events=3\n"
        "provider {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} enable=3,level=5,any=0x50\n"
        "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} kernel driver=nt\n";
    struct forge *forge = NULL;
    struct kda_error err = {0};
    if (forge_build(scenario, &forge, &err) != KDA_OK ||
        forge_write(forge, FORGE_RAW, IMAGE, &err) != KDA_OK)
        fail_msg("%s", err.text);
    forge_free(forge);
}

#ifdef KDA_FAULT_INJECTION
/* What a run may say in which a call failed. `whole`: the output of one in which none did. */
static void check_failed(const char *words, uint64_t n, int code, const char *whole)
{
    bool good = false;
    switch (code) {
    case CLI_DONE: /* what failed was not needed */
        good = strcmp(out_text, whole) == 0;
        break;
    case CLI_INCOMPLETE: /* a part of the image could not be read */
        good = strstr(err_text, "kda: incomplete: ") != NULL;
        break;
    case CLI_INPUT:
    case CLI_INTERNAL:
        good = out_text[0] == '\0' && strstr(err_text, "kda: ") != NULL;
        break;
    default:
        break;
    }
    if (!good)
        fail_msg("kda %s, call %llu: exit code %d, \"%s\"", words, (unsigned long long)n, code,
                 err_text);
}
#endif

static void test_every_failure(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    static const char *const lines[] = {
        "map " IMAGE " -v",          "map " IMAGE " --grep svchost",  "sessions " IMAGE " -f json",
        "sessions " IMAGE,           "consumers " IMAGE " -f jsonl",  "providers " IMAGE " -f csv",
        "providers " IMAGE " --all", "processes " IMAGE " --limit 1", "buffers " IMAGE " -f csv",
        "events " IMAGE " --free",
    };
    static char whole[TEXT_MAX];
    make_image();
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        unsigned seen[CLI_INTERNAL + 1] = {0};
        bool fired = true;
        assert_int_equal(run(lines[i]), CLI_DONE);
        assert_true(out_text[0] != '\0');
        memcpy(whole, out_text, sizeof(whole));
        for (uint64_t n = 1; fired; n++) {
            kda_fault_arm(n);
            int code = run(lines[i]);
            fired = kda_fault_fired();
            kda_fault_arm(0);
            check_failed(lines[i], n, code, whole);
            seen[code]++;
            assert_true(fired || code == CLI_DONE);
        }
        assert_true(seen[CLI_INTERNAL] > 10 && seen[CLI_INPUT] > 0 && seen[CLI_INCOMPLETE] > 0);
    }
    (void)remove(IMAGE);
#else
    (void)make_image;
    (void)run;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
