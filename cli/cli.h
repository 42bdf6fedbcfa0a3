/*
 * cli.h - the tool's own pieces: what was asked (options), what is open (struct cli), and how a
 * run ends (exit codes). The tool uses public headers only.
 */
#ifndef KDA_CLI_H
#define KDA_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kda/compare.h"
#include "kda/decode.h"
#include "kda/audit.h"
#include "kda/error.h"
#include "kda/etl.h"
#include "kda/etw.h"
#include "kda/fit.h"
#include "kda/image.h"
#include "kda/kernel.h"
#include "kda/log.h"
#include "kda/recall.h"
#include "kda/report.h"
#include "kda/symbols.h"

#include "host.h"

/* How a run ends; cli_exit_codes says it in words. */
enum cli_exit {
    CLI_DONE = 0,
    CLI_FINDINGS = 1,
    CLI_USAGE = 2,
    CLI_INPUT = 3,
    CLI_INCOMPLETE = 4,
    CLI_SYMBOLS = 5,
    CLI_INTERNAL = 6,
};

struct cli_exit_code {
    enum cli_exit code;
    const char *number, *meaning;
};
extern const struct cli_exit_code cli_exit_codes[];
extern const size_t cli_exit_code_count;

#define CLI_POSITIONALS 3
#define CLI_MANY SIZE_MAX /* max_positionals of commands that take files */

struct cli_options {
    const char *format, *output, *symbols, *session, *silo, *grep, *cache;
    const char *kind, *pid, *image, *since, *until, *provider, *manifest;
    const char *dump, *min_severity, *baseline, *expect;
    uint64_t dtb, limit, tolerance, lost;
    bool exit_code, all, download, follow, raw, free, quiet, verbose, no_color, help, version;
    bool carve, live, hypervisor, user_pages, keep, force;
    const char *positional[CLI_POSITIONALS]; /* after the command */
    char **words;                            /* all of them, in the caller's argv */
    size_t positional_count;
};

/* Options come in groups; a command says which groups it takes. */
enum {
    CLI_GROUP_COMMON = 1, /* every command */
    CLI_GROUP_OUTPUT = 2, /* commands that print rows */
    CLI_GROUP_IMAGE = 4,  /* commands that open an image */
    CLI_GROUP_SILO = 8,
    CLI_GROUP_SESSION = 16,
    CLI_GROUP_ALL = 32,
    CLI_GROUP_FETCH = 64,
    CLI_GROUP_EVENTS = 128,   /* commands that pick events */
    CLI_GROUP_FOLLOW = 256,   /* commands that read a log that is being written */
    CLI_GROUP_TRACE = 512,    /* commands that decode trace records */
    CLI_GROUP_MEMORY = 1024,  /* commands that take events from trace buffers */
    CLI_GROUP_COMPARE = 2048, /* commands that compare */
    CLI_GROUP_AUDIT = 4096,
    CLI_GROUP_FORMAT = 8192,   /* commands that print, and leave nothing out by its text */
    CLI_GROUP_LIVE = 16384,    /* commands that may take a dump first */
    CLI_GROUP_DUMP = 32768,    /* commands that take one */
    CLI_GROUP_CARVE = 65536,   /* commands that may scan memory for objects on no list */
    CLI_GROUP_TABLES = 131072, /* commands that always print rows of several kinds */
};

enum cli_option_kind { CLI_FLAG, CLI_TEXT, CLI_NUMBER };

/* One option. To add one: a row in options.c and a member of struct cli_options; help and
 * completions follow. */
struct cli_option {
    const char *name; /* without "--" */
    char letter;      /* 0 = none */
    char alias;       /* second letter, not shown in help; 0 = none */
    enum cli_option_kind kind;
    unsigned group;
    size_t offset;        /* of the member in struct cli_options */
    const char *argument; /* NULL for flags */
    const char *help;
};
extern const struct cli_option cli_option_table[];
extern const size_t cli_option_count;

struct cli;

/* One command. To add one: a file cmd_<group>.c and a row in commands.c. */
struct cli_command {
    const char *name;
    const char *arguments; /* as shown in help */
    const char *summary;
    const char *details; /* shown by --help; nullable */
    unsigned groups;
    size_t min_positionals, max_positionals;
    int (*run)(struct cli *cli);
    const char *formats; /* that it writes, separated by blanks; NULL: all of them */
};
extern const struct cli_command cli_commands[];
extern const size_t cli_command_count;
const struct cli_command *cli_find_command(const char *name);
bool cli_writes_format(const struct cli_command *command, const char *format);

/* Where bytes go: standard output, or a temporary file that is renamed on success. */
struct cli_output {
    FILE *file;
    char *target; /* file to rename to; NULL = `file` is written in place */
    char *temporary;
    int error; /* errno of the first failure, 0 = none */
};

struct cli_tables; /* files of a folder: tables.c */

struct cli_progress {
    bool on, shown;
    double start, last;
    const char *phase;
};

/* Takes an event instead of the report; false ends the run. */
typedef bool (*cli_tap_fn)(void *context, const struct kda_log_line *line);

#define CLI_PHASES 8
struct cli {
    cli_tap_fn tap; /* NULL: events go to the report */
    void *tap_context;
    struct cli_options options;
    const struct cli_command *command;
    const struct host_ops *host; /* NULL: not Windows */
    struct kda_image *image;
    struct kda_kernel *kernel;
    struct kda_etw *etw;
    struct kda_fit *fit; /* NULL where symbols were found */
    bool events_only;    /* the output is a log: gaps are told beside it */
    bool several;        /* rows of several kinds follow: csv needs a folder */
    bool no_fit;         /* the command is about symbols: a fitted layout is no answer */
    struct kda_report *report;
    struct cli_output output;
    struct cli_tables *tables; /* NULL: all goes to `output` */
    struct cli_progress progress;
    double start, phase_start;
    struct {
        const char *name;
        double seconds;
    } phases[CLI_PHASES];
    size_t phase_count;
    char *fetched; /* file that --download brought; kda_symbols_free_path */
};

/* ---- options.c ---- */

/* Parses everything after the program's name. Prints what is wrong and returns CLI_USAGE, or
 * returns CLI_DONE. *command is NULL when none was named. */
int cli_parse(int argc, char **argv, struct cli_options *options,
              const struct cli_command **command);

/* Says that there is no such command, and which one may be meant. Returns CLI_USAGE. */
int cli_unknown_command(const char *word);

/* ---- help.c ---- */
void cli_help(FILE *to, const struct cli_command *command); /* NULL: the program */
int cli_run_help(struct cli *cli);
int cli_run_completions(struct cli *cli);

/* ---- words.c ---- */

int cli_hex_digit(char c); /* -1 = none */
/* The whole text as a number; base 10, 16 (0x allowed) or 0 (hex if it starts with 0x). */
bool cli_parse_number(const char *text, unsigned base, uint64_t *ret);

/* Best of `names` so far for a mistyped `word`: call once per candidate. */
struct cli_suggestion {
    const char *best;
    size_t distance;
};
void cli_suggest(struct cli_suggestion *suggestion, const char *word, const char *candidate);
bool cli_same_text(const char *a, const char *b); /* ASCII case ignored */

/* ---- messages (message.c) ---- */

/* One line on stderr: "kda: ...", with control characters made visible. */
void cli_error(const char *fmt, ...) KDA_PRINTF(1, 2);
/* Same, unless -q. */
void cli_note(const struct cli *cli, const char *fmt, ...) KDA_PRINTF(2, 3);
/* Says that `command` is for Windows and what it does there; returns CLI_USAGE. */
int cli_needs_windows(const char *command, const char *does);
/* The error of the library, with the place it is about. */
void cli_error_of(const struct kda_error *err);

/* ---- output.c ---- */
bool cli_output_open(struct cli_output *output, const char *path);
bool cli_output_write(void *output, const char *bytes, size_t size);
/* Ends the output; `keep` false throws the temporary file away. False if a write failed. */
bool cli_output_close(struct cli_output *output, bool keep);
/* After printing to standard output: CLI_INTERNAL if any of it failed, also what went out before.
 */
int cli_end_printing(void);

/* ---- tables.c: csv and tsv as a folder with a file for each kind of row ---- */
bool cli_is_table(const struct cli_options *options);
bool cli_ends_in_slash(const char *path);
/* For commands that print several kinds: is there a folder for their tables? CLI_DONE, also for
 * other formats, or CLI_USAGE after saying how to name one. */
int cli_want_folder(const struct cli_options *options, const char *command);
int cli_tables_open(struct cli *cli);
bool cli_tables_kind(void *tables, const char *kind); /* as kda_report_options.table */
bool cli_tables_write(void *tables, const char *bytes, size_t size);
/* Ends the files; false after what failed was printed. */
bool cli_tables_close(struct cli *cli, bool keep);

/* ---- progress.c ---- */
void cli_progress_begin(struct cli *cli, const char *phase);
bool cli_progress(void *progress, uint64_t done, uint64_t total); /* kda_progress_fn */
void cli_progress_end(struct cli *cli);

/* ---- pipeline.c: image -> kernel -> symbols -> model -> report ---- */

/* Each returns CLI_DONE, or the exit code after the reason was printed. */
int cli_open_image(struct cli *cli);
int cli_open_kernel(struct cli *cli, struct kda_error *err);  /* prints nothing */
int cli_load_symbols(struct cli *cli, struct kda_error *err); /* prints nothing */
int cli_open_all(struct cli *cli);                            /* up to symbols */
int cli_open_etw(struct cli *cli);                            /* up to the model */
int cli_open_report(struct cli *cli);
/* Which input of the run writing to `path` would destroy; NULL: none. */
const char *cli_overwrites(const struct cli *cli, const char *path);
/* The same output for bytes that are no report: opened, then ended by cli_finish_bytes. */
int cli_open_bytes(struct cli *cli);
int cli_finish_bytes(struct cli *cli, int code);
/* Emits gaps, closes the report, prints notes and statistics; returns the exit code of the run,
 * at least `code`. */
int cli_finish(struct cli *cli, int code);
void cli_close(struct cli *cli);
void cli_phase(struct cli *cli, const char *name); /* time since the last phase goes to `name` */
bool cli_is_text(const struct cli *cli);
bool cli_is_triage(const struct cli *cli);

/* ---- pick.c: names on the command line -> objects of the model ---- */

/* Fills `selection` from --silo, --session and positionals; frees with cli_unpick. */
int cli_pick(struct cli *cli, const char *session, const char *provider,
             struct kda_selection *selection);
void cli_unpick(struct kda_selection *selection);

/* ---- events.c: events of traces, wherever their records come from ---- */

struct cli_events {
    struct cli *cli;
    struct kda_etl_decoder *decoder;
    uint64_t id;     /* of the next event, counted before filters; unique in one output */
    uint64_t losses; /* sensor.loss lines, also those that a filter took */
    uint64_t picked; /* events that went on to the report */
};

/* What the options pick: of logs and of traces alike. Prints what is wrong with them. */
int cli_pick_events(const struct cli_options *options, struct kda_log_filter *filter);
/* A decoder as the options ask for it. Returns CLI_DONE or the exit code after a message. */
int cli_events_begin(struct cli_events *events, struct cli *cli);
/* Writes the event of a record, or a loss. False: memory ran out, or the output failed. */
bool cli_events_put(struct cli_events *events, const struct kda_etl_record *record,
                    const struct kda_decode_place *place);
bool cli_events_lose(struct cli_events *events, const struct kda_decode_loss *loss);
/* What a reader of the output has to know of it: losses, options that picked nothing. */
void cli_events_note(const struct cli_events *events);
/* Prints notes about descriptions and frees the decoder. */
void cli_events_end(struct cli_events *events);

/* ---- cmd_etw.c ---- */

/* Rows of every kind into the report, as `kda map` shows them to programs. */
void cli_emit_map(struct cli *cli, const struct kda_selection *selection);

/* ---- commands ---- */
int cli_run_info(struct cli *cli);
int cli_run_sessions(struct cli *cli);
int cli_run_consumers(struct cli *cli);
int cli_run_providers(struct cli *cli);
int cli_run_processes(struct cli *cli);
int cli_run_map(struct cli *cli);
int cli_run_callbacks(struct cli *cli);
int cli_run_audit(struct cli *cli);
int cli_run_symbols(struct cli *cli);
int cli_run_symbols_add(struct cli *cli);
int cli_run_symbols_list(struct cli *cli);
int cli_run_symbols_export(struct cli *cli);
int cli_run_formats(struct cli *cli);
int cli_run_buffers(struct cli *cli);
int cli_run_log(struct cli *cli);
int cli_run_events(struct cli *cli);
int cli_run_memory_events(struct cli *cli); /* of an image: `kda events` hands over */
/* By its name or its first bytes; what is none is taken for a memory image. */
bool cli_is_trace_file(const char *path);
int cli_run_verify(struct cli *cli);
int cli_run_compare(struct cli *cli);
int cli_run_etl(struct cli *cli);
int cli_run_driver(struct cli *cli);
int cli_run_watch(struct cli *cli);
int cli_run_live_dump(struct cli *cli);

/* kda map --live: takes the dump and makes it the image of the run. */
int cli_take_live_image(struct cli *cli);

/* The whole program without process-wide state, for main and for tests. */
int cli_main(int argc, char **argv);
/* Same on another host than this system's. */
int cli_main_on(const struct host_ops *host, int argc, char **argv);

#endif
