/*
 * host_run.h - the tool run on a made-up host, with what it said. Included by one test program
 * each, which names its files in HOST_RUN.
 */
#ifndef KDA_TESTS_HOST_RUN_H
#define KDA_TESTS_HOST_RUN_H

#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "control.h"
#include "fake_host.h"

#define OUT KDA_BUILD_DIR "/" HOST_RUN ".out"
#define ERR KDA_BUILD_DIR "/" HOST_RUN ".err"
#define DUMP KDA_BUILD_DIR "/" HOST_RUN ".dmp"
#define PARTIAL DUMP ".partial"
#define TEXT_MAX 65536

static struct fake_host fake;
static char out_text[TEXT_MAX], err_text[TEXT_MAX];

static int setup(void **state)
{
    (void)state;
    fake_host_init(&fake);
    (void)remove(DUMP);
    (void)remove(PARTIAL);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_false(fake.open); /* a handle that stays open keeps the driver from being stopped */
    fake_host_deinit(&fake);
    return 0;
}

static void installed(enum host_state state)
{
    fake.installed = fake.kernel_driver = fake.file_there = true;
    fake.state = state;
}

static void slurp(const char *path, char *text)
{
    FILE *file = fopen(path, "rb");
    size_t size = file ? fread(text, 1, TEXT_MAX - 1, file) : 0;
    text[size] = '\0';
    if (file)
        (void)fclose(file);
}

static int redirect(FILE *stream, const char *path)
{
    (void)fflush(stream);
    int saved = dup(fileno(stream));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_true(dup2(fileno(file), fileno(stream)) >= 0);
    (void)fclose(file);
    return saved;
}

static void restore(FILE *stream, int saved)
{
    (void)fflush(stream);
    assert_true(dup2(saved, fileno(stream)) >= 0);
    (void)close(saved);
}

static int run(const char *const *words)
{
    char *argv[32] = {(char *)(uintptr_t) "kda"};
    int argc = 1;
    for (; words[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    int out = redirect(stdout, OUT), err = redirect(stderr, ERR);
    int code = cli_main_on(&fake.ops, argc, argv);
    restore(stdout, out);
    restore(stderr, err);
    slurp(OUT, out_text);
    slurp(ERR, err_text);
    return code;
}
#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void says(const char *text)
{
    if (!strstr(err_text, text))
        fail_msg("'%s' is not in: %s", text, err_text);
}

static void prints(const char *text)
{
    if (!strstr(out_text, text))
        fail_msg("'%s' is not in: %s", text, out_text);
}

#endif
