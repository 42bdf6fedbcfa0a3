/*
 * world.h - what the tests of the driver in the simulator share: a machine with some processes,
 * activity from several threads, and the log that came out of it.
 */
#ifndef WORLD_H
#define WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "driver.h"
#include "kda/log.h"
#include "sim.h"

#define WORLD_SHELL 2000u /* a process that runs before the driver is loaded */
#define WORLD_USER 2400u

/* ThreadSanitizer looks at each access, which takes its time. */
#ifdef __SANITIZE_THREAD__
#define WORLD_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WORLD_THREADS 1
#endif
#endif
#ifndef WORLD_THREADS
#define WORLD_THREADS 0
#endif

#define STR(text) SIM_STR(u##text)
#define WORLD_SECOND UINT64_C(10000000)

/* Boots with the processes above; everything is recorded unless a test asks for the rules. */
void world_begin(const struct sim_options *options);
void world_load(void);
/* Unloads, and proves the account of all logs on the disk. */
void world_unload(void);
/* Ends the machine; the driver is unloaded (as above) if it is loaded. */
void world_end(void);

/* One of everything that a sensor sees, by the calling thread. `n` makes names different. */
void world_activity(unsigned n);
/* `threads` host threads do world_activity until world_stop. */
void world_start(unsigned threads);
void world_stop(void);

/* --- the log --------------------------------------------------------------------------------- */

struct world_line {
    unsigned kind;
    uint64_t id;
    uint64_t pid;
    uint64_t time;
    char *text;
};

struct world_log {
    struct world_line *lines;
    size_t count;
};

/* All lines of all files on the disk, each log in the order of its files. */
void world_read(struct world_log *log);
void world_free(struct world_log *log);
/* Lines of this kind that hold all of the texts (NULL ends them). */
size_t world_count(const struct world_log *log, const char *kind, ...);
/* The only such line; fails if there are none or more. */
const char *world_line(const struct world_log *log, const char *kind, ...);
/* Fails unless every log on the disk has a clean account; returns the number of logs. */
unsigned world_verify(void);
/* Sum over the logs of what was written, lost. */
void world_totals(uint64_t *written, uint64_t *lost);
/* Waits (real time) until the log on the disk has such a line; lets the clock pass meanwhile. */
bool world_wait(const char *kind, const char *text);

#endif
