/*
 * main.c - kda-sim: real recordings, storms and scripts through the driver's own code.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

struct command {
    const char *name;
    size_t min_files, max_files;
    int (*run)(const struct run_options *options);
    const char *help;
};

static const struct command commands[] = {
    {"replay", 1, SIZE_MAX, run_replay,
     "replay FILE... -o DIR [--host NAME] [--speed max|recorded|N] [--threads N]\n"
     "    fires the Sysmon records of JSON lines (also in .zip and .gz) as kernel callbacks; one\n"
     "    machine and one log for each host, in DIR/HOST/log. N is a multiple of the recorded\n"
     "    speed."},
    {"storm", 0, 0, run_storm,
     "storm -o DIR [--events N] [--threads N]\n"
     "    registry writes, threads and processes as fast as they go; log in DIR/log"},
    {"script", 1, 1, run_script,
     "script FILE -o DIR\n"
     "    activity by script (sim/script.c says how it is written); log in DIR/log"},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void put_help(FILE *to)
{
    (void)fputs("kda-sim - the sensor's driver on a simulated kernel\n\n", to);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        (void)fprintf(to, "kda-sim %s\n", commands[i].help);
    (void)fputs(
        "\nAll commands take --set NAME=VALUE for a setting of the driver (docs/settings.md),"
        "\nfor example --set RecordEverything=1.\n",
        to);
}

static bool number_of(const char *text, uint64_t most, uint64_t *ret)
{
    char *end;
    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *ret = strtoull(text, &end, 0);
    return *end == '\0' && errno == 0 && *ret >= 1 && *ret <= most;
}

static bool set_speed(struct run_options *options, const char *text)
{
    char *end;
    if (strcmp(text, "max") == 0) {
        options->speed = 0;
        return true;
    }
    if (strcmp(text, "recorded") == 0) {
        options->speed = 1;
        return true;
    }
    options->speed = strtod(text, &end);
    return end != text && *end == '\0' && options->speed >= 0.001 && options->speed <= 1e6;
}

/* False if the value is none for the option. */
static bool take_option(struct run_options *options, const char *name, const char *value)
{
    uint64_t number;
    if (strcmp(name, "-o") == 0) {
        options->output = value;
        return value[0] != '\0';
    } else if (strcmp(name, "--host") == 0) {
        options->host = value;
    } else if (strcmp(name, "--speed") == 0) {
        return set_speed(options, value);
    } else if (strcmp(name, "--threads") == 0) {
        if (!number_of(value, RUN_MAX_THREADS, &number))
            return false;
        options->threads = (uint32_t)number;
    } else if (strcmp(name, "--events") == 0) {
        return number_of(value, UINT64_MAX, &options->events);
    } else if (strcmp(name, "--set") == 0 && options->setting_count < RUN_MAX_SETTINGS) {
        options->settings[options->setting_count++] = value;
    } else {
        return false;
    }
    return true;
}

static bool parse(int argc, char **argv, struct run_options *options)
{
    for (int i = 2; i < argc; i++) {
        if (argv[i][0] != '-' || argv[i][1] == '\0') {
            options->files[options->file_count++] = argv[i];
            continue;
        }
        if (i + 1 == argc || !take_option(options, argv[i], argv[i + 1])) {
            (void)fprintf(stderr, "kda-sim: '%s%s%s' is not understood; see 'kda-sim --help'\n",
                          argv[i], i + 1 < argc ? " " : "", i + 1 < argc ? argv[i + 1] : "");
            return false;
        }
        i++;
    }
    return true;
}

static int run(int argc, char **argv, struct run_options *options)
{
    const struct command *command = NULL;
    for (size_t i = 0; argc > 1 && i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, argv[1]) == 0)
            command = &commands[i];
    if (!command) {
        put_help(stderr);
        return RUN_USAGE;
    }
    if (!parse(argc, argv, options))
        return RUN_USAGE;
    if (options->file_count < command->min_files || options->file_count > command->max_files ||
        !options->output) {
        (void)fprintf(stderr, "usage: kda-sim %s\n", command->help);
        return RUN_USAGE;
    }
    options->command = command->name;
    return command->run(options);
}

int main(int argc, char **argv)
{
    if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        put_help(stdout);
        return fflush(stdout) == 0 ? RUN_DONE : RUN_INTERNAL;
    }
    struct run_options options = {.threads = 4, .events = 100000};
    options.files = calloc((size_t)argc + 1, sizeof(*options.files));
    if (!options.files)
        return RUN_INTERNAL;
    int code = run(argc, argv, &options);
    free(options.files);
    if ((fflush(stdout) != 0 || ferror(stdout)) && code == RUN_DONE) {
        (void)fputs("kda-sim: cannot write to standard output\n", stderr);
        code = RUN_INTERNAL;
    }
    return code;
}
