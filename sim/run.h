/*
 * run.h - what the commands of kda-sim share: a machine with the driver on it, and options.
 */
#ifndef SIM_RUN_H
#define SIM_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim.h"

#define RUN_MAX_SETTINGS 32u
#define RUN_MAX_THREADS 64u

struct run_options {
    const char *command;
    const char **files;
    size_t file_count;
    const char *output; /* folder */
    const char *host;
    double speed; /* 0: as fast as possible; else times the recorded speed */
    uint32_t threads;
    bool running_clock; /* the machine's clock runs with that of the host */
    uint64_t events;
    const char *settings[RUN_MAX_SETTINGS]; /* NAME=VALUE */
    size_t setting_count;
};

/* Exit codes of the command. */
enum run_exit { RUN_DONE = 0, RUN_USAGE = 2, RUN_INPUT = 3, RUN_INTERNAL = 6 };

/* Boots a machine whose C:\ is `folder` (created), hands the settings over and loads the driver;
 * with `before` what is to run already is made first. The log goes to C:\log. False after a
 * message. */
bool run_begin(const struct run_options *options, const char *folder, const char *host,
               uint64_t utc, void (*before)(void *context), void *context);
/* Only boots: settings and the load follow. */
bool run_boot(const struct run_options *options, const char *folder, const char *host,
              uint64_t utc);
bool run_load(const struct run_options *options);
/* Unloads the driver, checks the ledger, ends the machine. */
bool run_end(void);

bool run_make_folder(const char *path);
/* Waits in real time. */
void run_sleep(double seconds);
double run_seconds(void);

/* UTF-16 of a text; malloc, freed by the caller. {x*N} stands for x N times, {u+XXXX} for one
 * unit. False if that is malformed or memory ran out. */
bool run_text(const char *text, size_t size, uint16_t **units, size_t *count);

int run_replay(const struct run_options *options);
int run_storm(const struct run_options *options);
int run_script(const struct run_options *options);

#endif
