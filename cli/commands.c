/*
 * commands.c - the table of commands and of exit codes.
 */
#include "cli.h"

#include <string.h>

enum {
    IMAGE = CLI_GROUP_OUTPUT | CLI_GROUP_IMAGE,
    ETW = IMAGE | CLI_GROUP_SILO | CLI_GROUP_SESSION,
};

/* clang-format off */
const struct cli_command cli_commands[] = {
    {"info", "IMAGE", "what the image is: format, Windows build, kernel, symbols, gaps",
     "-v lists the drivers that a triage dump names.",
     IMAGE, 1, 1, cli_run_info, NULL},
    {"sessions", "IMAGE [SESSION]", "tracing sessions: id, mode, buffers, losses, log file",
     "SESSION is an id or a name; where several silos have it, all are shown.",
     ETW | CLI_GROUP_CARVE, 1, 2, cli_run_sessions, NULL},
    {"consumers", "IMAGE", "which process listens to which session",
     NULL,
     ETW | CLI_GROUP_CARVE, 1, 1, cli_run_consumers, NULL},
    {"providers", "IMAGE [GUID|NAME]", "providers: who registered them, who enabled them and how",
     "Without --all only providers that are enabled or registered are listed; --session shows\n"
     "those enabled for that session.",
     ETW | CLI_GROUP_ALL | CLI_GROUP_CARVE, 1, 2, cli_run_providers, NULL},
    {"buffers", "IMAGE [SESSION]", "trace buffers of sessions: what they hold, and as an .etl file",
     "Lists every buffer that is found in memory. With SESSION and -o FILE.etl the events of that\n"
     "session are written as a trace file; --free adds what free buffers still hold.",
     ETW | CLI_GROUP_MEMORY, 1, 2, cli_run_buffers, NULL},
    {"processes", "IMAGE", "processes of the image",
     NULL,
     IMAGE | CLI_GROUP_SILO | CLI_GROUP_CARVE, 1, 1, cli_run_processes, NULL},
    {"map", "IMAGE|--live", "all of it joined: session by session, who listens and who speaks",
     "The text format is the view for people. json and jsonl carry the rows of every kind: info,\n"
     "sessions, consumers, providers, processes, callbacks and gaps; csv and tsv with -o FOLDER,\n"
     "a file for each kind.\n"
     "kda map --live --dump FILE takes a live dump of this machine first (kda live-dump, on\n"
     "Windows) and keeps it.",
     ETW | CLI_GROUP_ALL | CLI_GROUP_CARVE | CLI_GROUP_LIVE | CLI_GROUP_DUMP | CLI_GROUP_TABLES,
     0, 1, cli_run_map, NULL},
    {"callbacks", "IMAGE", "what drivers asked the kernel to call: notify routines and others",
     NULL,
     IMAGE, 1, 1, cli_run_callbacks, NULL},
    {"audit", "IMAGE", "is somebody blinding the sensors? Findings with their evidence",
     "Every check ends as findings, as passed, or as not checked with the reason; docs/checks.md\n"
     "describes each. text lists what was not checked with -v, the other formats always.",
     IMAGE | CLI_GROUP_AUDIT | CLI_GROUP_CARVE | CLI_GROUP_TABLES, 1, 1, cli_run_audit, NULL},
    {"symbols", "[VERB] [IMAGE]", "which symbols the kernel needs, and profiles of one's own",
     "kda symbols IMAGE              what the kernel needs and where it was found\n"
     "kda symbols get IMAGE          fetch the PDB into the cache (--cache DIR), from servers of\n"
     "                               --symbols or _NT_SYMBOL_PATH (srv*cache*url), else from\n"
     "                               Microsoft's public server; keep it as a profile\n"
     "kda symbols add FILE [IMAGE]   keep a .pdb, .json or .json.xz as a profile of one's own\n"
     "kda symbols list               the built-in table and the profiles of one's own\n"
     "kda symbols export [IMAGE|GUIDAGE]   a row for the built-in table (-o FILE)",
     IMAGE, 1, 3, cli_run_symbols, NULL},
    {"log", "show|stats FILE...", "what the sensor recorded",
     "show    the events; with -f jsonl the very lines of the log\n"
     "stats   how many events of which kind and of which image\n"
     "The files of a log may be named in any order.",
     CLI_GROUP_OUTPUT | CLI_GROUP_EVENTS | CLI_GROUP_FOLLOW, 2, CLI_MANY, cli_run_log, NULL},
    {"events", "FILE.etl...|IMAGE", "events of trace files (.etl), or of an image's trace buffers",
     "Records of the kernel become process, thread, image, network and registry events, all\n"
     "others etw.event with fields by name: as the trace describes them, a manifest of --manifest\n"
     "or the built-in table. What is not described keeps its payload in hex and says why. Several\n"
     "files (of one machine) are merged. Losses and damage are sensor.loss lines; exit code 4.\n"
     "Of a memory image: what the buffers of all sessions, or of --session, hold; --free adds\n"
     "old events that free buffers still hold, marked as such.",
     ETW | CLI_GROUP_MEMORY | CLI_GROUP_EVENTS | CLI_GROUP_TRACE, 1, CLI_MANY, cli_run_events,
     NULL},
    {"verify", "FILE...", "whether a log of the sensor is complete: its account, ids and times",
     "Name all files of the log. Exit code 1: something is missing or wrong, and is listed; 4:\n"
     "the log has no end or no beginning, and what is there holds. -v lists totals of each kind.",
     CLI_GROUP_OUTPUT | CLI_GROUP_TABLES, 1, CLI_MANY, cli_run_verify, NULL},
    {"compare", "A B", "two witnesses of one machine and time: what did only one of them see?",
     "A and B are logs of the sensor, trace files (.etl) or memory images. Events are matched by\n"
     "process, object and time; what a witness could not have seen (its start and end, kinds it\n"
     "does not record, losses and filters it declares) is left out and counted. -v and the other\n"
     "formats list each event.",
     CLI_GROUP_OUTPUT | CLI_GROUP_COMPARE | CLI_GROUP_TABLES, 2, 2, cli_run_compare, NULL},
    {"etl", "info|stats FILE...", "what a trace file (.etl) is, and how many records of which kind",
     "info    header, clock, sessions, losses, buffers of each CPU, damage\n"
     "stats   records by header type, group or provider, type or id, and version\n"
     "Exit code 4: a part of a file is damaged, or compressed in a way that is not read; info\n"
     "lists each place, and the rest was read.",
     CLI_GROUP_OUTPUT, 2, CLI_MANY, cli_run_etl, NULL},
    {"driver", "VERB ...", "the sensor on this machine: install, start, stop, settings (Windows)",
     "kda driver install [FILE]     FILE, or kdamonitor.sys beside this program, becomes a driver\n"
     "                              that is started on demand\n"
     "kda driver start|stop|remove  remove stops it first, and leaves the logs\n"
     "kda driver status             also as json; exit code 0: it runs and its lines reach the\n"
     "                              disk; 3: it does not run; 4: events were lost, or lines do\n"
     "                              not reach the disk\n"
     "kda driver set KIND on|off    kinds that are recorded, at once and after the next start\n"
     "kda driver filter list|add RULE|remove NUMBER\n"
     "                              rules, in force at the next start; a new one comes first:\n"
     "                              exclude kind=registry.* image=\\System32\\svchost.exe",
     CLI_GROUP_FORMAT, 1, CLI_MANY, cli_run_driver, "text json jsonl"},
    {"watch", "", "events of the sensor as they happen, until Ctrl-C (Windows)",
     "Events that this reader was too slow for, and events that the sensor lost, appear as lines\n"
     "of kind sensor.loss whatever is picked; the exit code is then 4.",
     CLI_GROUP_FORMAT | CLI_GROUP_EVENTS, 0, 0, cli_run_watch, "text jsonl"},
    {"live-dump", "FILE", "a dump of the kernel memory of this machine (Windows)",
     "Made by Windows itself, without a driver; needs an elevated prompt. FILE must not exist.\n"
     "Ctrl-C cancels it.",
     CLI_GROUP_DUMP, 1, 1, cli_run_live_dump, NULL},
    {"formats", "", "every table of the program: formats, symbol sources, builds, exit codes",
     NULL,
     CLI_GROUP_OUTPUT, 0, 0, cli_run_formats, NULL},
    {"help", "[COMMAND]", "this text, or that of a command",
     NULL,
     0, 0, 1, cli_run_help, NULL},
    {"completions", "bash|zsh", "completion script for a shell",
     NULL,
     0, 1, 1, cli_run_completions, NULL},
};
const size_t cli_command_count = sizeof(cli_commands) / sizeof(cli_commands[0]);

const struct cli_exit_code cli_exit_codes[] = {
    {CLI_DONE, "0", "done and complete"},
    {CLI_FINDINGS, "1", "kda verify: the account of the log does not hold"},
    {CLI_USAGE, "2", "the command line is wrong"},
    {CLI_INPUT, "3",
     "the file cannot be opened, its format is not supported, or it holds no Windows kernel; the "
     "driver is not there or refuses"},
    {CLI_INCOMPLETE, "4",
     "done but incomplete: memory is missing in the image, or a part of the log or trace; gaps "
     "are listed"},
    {CLI_SYMBOLS, "5", "kernel found, symbols missing; the file that is wanted is named"},
    {CLI_INTERNAL, "6", "the output could not be written, or an internal error"},
};
/* clang-format on */
const size_t cli_exit_code_count = sizeof(cli_exit_codes) / sizeof(cli_exit_codes[0]);

const struct cli_command *cli_find_command(const char *name)
{
    for (size_t i = 0; i < cli_command_count; i++)
        if (strcmp(cli_commands[i].name, name) == 0)
            return &cli_commands[i];
    return NULL;
}

bool cli_writes_format(const struct cli_command *command, const char *format)
{
    const size_t size = strlen(format);
    for (const char *at = command->formats; at; at = strchr(at, ' ')) {
        at += *at == ' ';
        if (strcspn(at, " ") == size && memcmp(at, format, size) == 0)
            return true;
    }
    return !command->formats;
}
