/*
 * term.h - everything the tool asks of the platform: term_posix.c or term_win.c, the build takes
 * one. Texts are UTF-8 everywhere.
 */
#ifndef KDA_CLI_TERM_H
#define KDA_CLI_TERM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

bool term_is_terminal(FILE *file);
unsigned term_width(FILE *file); /* columns; 80 where the terminal does not say */
/* As fwrite; what goes to a console arrives there as whole characters. */
size_t term_write(FILE *file, const char *bytes, size_t size);
double term_seconds(void); /* monotonic */
void term_sleep_ms(unsigned milliseconds);
uint64_t term_peak_kib(void); /* most memory this process ever held */
unsigned term_process_id(void);

/* Number of the last failure of the C library (never 0), its words, and the kinds that matter. */
int term_last_error(void);
const char *term_error_text(int error);
bool term_error_exists(int error);

/* First thing of a run: standard files that are closed are opened as ones that cannot be used (a
 * file of this run would get their number, and messages would be written into it), bytes go out as
 * they are, a closed pipe becomes a failed write instead of a signal. */
void term_begin(void);

/* The command line in UTF-8; as given where that is what the system hands out. The words live until
 * the program ends. */
void term_arguments(int *argc, char ***argv);

/* A variable of the environment, borrowed until the program ends; NULL: not set. */
const char *term_variable(const char *name);

bool term_is_broken_pipe(int error);

/* The file that writing to `path` reaches (links followed); malloc. *replaceable: it is a regular
 * file or does not exist, so a rename may put a new one in its place. */
char *term_resolve(const char *path, bool *replaceable);
/* Do both paths reach the same file? False if either does not exist. */
bool term_same_file(const char *a, const char *b);
/* False for a file that may not be written, although a rename could put another in its place. */
bool term_may_replace(const char *path);
/* Gives `file` the permissions of the file that it will replace, if there is one. */
void term_take_mode(FILE *file, const char *from);
/* A new file, opened for writing bytes; fails if there is one. */
FILE *term_create(const char *path);
/* What is there and is no file: a device, a pipe. */
FILE *term_open_to_write(const char *path);
void term_remove(const char *path);
bool term_rename(const char *from, const char *to);
/* An interrupted run removes this file, until it is kept; so many at a time. */
#define TERM_TEMPORARIES 32u
void term_remove_on_signal(const char *path);
void term_keep_on_signal(const char *path);
bool term_is_folder(const char *path);
/* A new folder; true also where there is one. */
bool term_make_folder(const char *path);
bool term_exists(const char *path);

#endif
