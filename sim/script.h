/*
 * script.h - a script while it runs, and its words; private to script.c and script_words.c.
 */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include "replay.h"
#include "run.h"

#define SCRIPT_MAX_WORDS 32u
#define SCRIPT_MAX_LINE 65536u
#define SCRIPT_MAX_PID 0xFFFFFFFCu
#define SCRIPT_MAX_SECONDS 100000000u                 /* of one wait: three years */
#define SCRIPT_UTC_START UINT64_C(134090208000000000) /* 2025-12-01 */

struct script_word {
    char *text; /* UTF-8, in the line */
    uint16_t *units;
    size_t count;
};

struct script {
    struct recording memory; /* its allocator, for what has to stay */
    struct run_options load; /* settings of the script come behind those of the command line */
    struct script_word words[SCRIPT_MAX_WORDS];
    size_t word_count;
    const char *file;
    unsigned line;
    bool loaded, stopped;
    uint32_t actor; /* pid */
    uint64_t actions;
};

/* Prints where and what; always false. */
bool script_wrong(const struct script *script, const char *what);

/* Splits a line, in place, into the script's words. */
bool script_split(struct script *script, char *line);
void script_free_words(struct script *script);

/* All of these are false after a message. Strings stay as long as the script; numbers are at most
 * `most`. */
bool script_string_at(struct script *script, size_t index, struct sim_str *ret);
bool script_number_at(struct script *script, size_t index, uint64_t most, uint64_t *ret);
bool script_option_number(struct script *script, const char *name, uint64_t most, uint64_t *ret);
bool script_option_string(struct script *script, const char *name, struct sim_str *ret);
/* C:\x and HKLM\x become what the kernel has; other names stay. */
bool script_real_name(struct script *script, struct sim_str *name, bool key);

/* The whole text as a number, decimal or with 0x; no message. */
bool script_number(const char *text, uint64_t *ret);

#endif
