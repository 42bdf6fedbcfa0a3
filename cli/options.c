/*
 * options.c - the table of options and its parser. Help and completions read the same rows.
 */
#include "cli.h"

#include <string.h>

#define AT(member) offsetof(struct cli_options, member)

/* clang-format off */
const struct cli_option cli_option_table[] = {
    {"format", 'f', 'r', CLI_TEXT, CLI_GROUP_OUTPUT | CLI_GROUP_FORMAT, AT(format), "FORMAT",
     "text (default), csv, tsv, json or jsonl"},
    {"output", 'o', 0, CLI_TEXT, CLI_GROUP_OUTPUT | CLI_GROUP_FORMAT, AT(output), "FILE",
     "write to FILE; it is replaced only when all went well. csv and tsv: a folder gets a file for "
     "each kind of row"},
    {"grep", 0, 0, CLI_TEXT, CLI_GROUP_OUTPUT, AT(grep), "TEXT",
     "only rows that contain TEXT in any value, case ignored"},
    {"limit", 0, 0, CLI_NUMBER, CLI_GROUP_OUTPUT, AT(limit), "N",
     "at most N rows of each kind"},
    {"no-color", 0, 0, CLI_FLAG, CLI_GROUP_OUTPUT | CLI_GROUP_FORMAT, AT(no_color), NULL,
     "no colours (NO_COLOR in the environment does the same)"},
    {"symbols", 0, 0, CLI_TEXT, CLI_GROUP_IMAGE, AT(symbols), "PATH",
     "a .pdb, .json, .json.xz, .kdaprof file, a store or folder; profile, cache, pdb, isf, none"},
    {"download", 0, 0, CLI_FLAG, CLI_GROUP_IMAGE, AT(download), NULL,
     "fetch the kernel's PDB from the symbol server if nothing local fits"},
    {"cache", 0, 0, CLI_TEXT, CLI_GROUP_IMAGE, AT(cache), "DIR",
     "folder that downloads are stored in"},
    {"dtb", 0, 0, CLI_NUMBER, CLI_GROUP_IMAGE, AT(dtb), "ADDRESS",
     "physical address of the kernel's page-table root"},
    {"session", 0, 0, CLI_TEXT, CLI_GROUP_SESSION, AT(session), "ID|NAME",
     "only this session"},
    {"silo", 0, 0, CLI_TEXT, CLI_GROUP_SILO, AT(silo), "host|ADDR",
     "only this silo"},
    {"all", 'a', 0, CLI_FLAG, CLI_GROUP_ALL, AT(all), NULL,
     "also providers that are neither enabled nor registered"},
    {"carve", 0, 0, CLI_FLAG, CLI_GROUP_CARVE, AT(carve), NULL,
     "also scan physical memory for objects that no list names"},
    {"free", 0, 0, CLI_FLAG, CLI_GROUP_MEMORY, AT(free), NULL,
     "also the old events that free buffers still hold"},
    {"kind", 0, 0, CLI_TEXT, CLI_GROUP_EVENTS, AT(kind), "KIND,...",
     "only these kinds (registry.value_set) or groups of kinds (registry)"},
    {"pid", 0, 0, CLI_TEXT, CLI_GROUP_EVENTS, AT(pid), "PID",
     "only events of, or about, this process"},
    {"image", 0, 0, CLI_TEXT, CLI_GROUP_EVENTS, AT(image), "TEXT",
     "only events whose image, module or command line contains TEXT"},
    {"since", 0, 0, CLI_TEXT, CLI_GROUP_EVENTS, AT(since), "TIME",
     "only events from TIME on (2026-11-29T21:04:05.1234567Z, or the first part of it)"},
    {"until", 0, 0, CLI_TEXT, CLI_GROUP_EVENTS, AT(until), "TIME",
     "only events before TIME"},
    {"tolerance", 0, 0, CLI_NUMBER, CLI_GROUP_COMPARE, AT(tolerance), "MS",
     "time by which two witnesses may differ, in milliseconds (1000)"},
    {"provider", 0, 0, CLI_TEXT, CLI_GROUP_TRACE, AT(provider), "GUID|NAME",
     "only events of this provider; of the kernel's events also by class (TcpIp)"},
    {"manifest", 0, 0, CLI_TEXT, CLI_GROUP_TRACE, AT(manifest), "FILE|DIR",
     "instrumentation manifest, or a folder of them, that describes events"},
    {"raw", 0, 0, CLI_FLAG, CLI_GROUP_TRACE, AT(raw), NULL,
     "decode nothing: every record as etw.event with its payload in hex"},
    {"follow", 'F', 0, CLI_FLAG, CLI_GROUP_FOLLOW, AT(follow), NULL,
     "go on as the log grows, in its further files too, until sensor.stop"},
    {"live", 0, 0, CLI_FLAG, CLI_GROUP_LIVE, AT(live), NULL,
     "take a dump of this machine first (Windows)"},
    {"dump", 0, 0, CLI_TEXT, CLI_GROUP_LIVE, AT(dump), "FILE",
     "where that dump goes; it must not exist"},
    {"hypervisor", 0, 0, CLI_FLAG, CLI_GROUP_DUMP, AT(hypervisor), NULL,
     "a dump with the hypervisor's pages"},
    {"user-pages", 0, 0, CLI_FLAG, CLI_GROUP_DUMP, AT(user_pages), NULL,
     "a dump with the memory of processes (Windows 11 22H2)"},
    {"keep", 0, 0, CLI_FLAG, CLI_GROUP_DUMP, AT(keep), NULL,
     "keep what there is of a dump that failed, as FILE.partial"},
    {"force", 0, 0, CLI_FLAG, CLI_GROUP_DUMP, AT(force), NULL,
     "take the dump although the disk seems too small"},
    {"min-severity", 0, 0, CLI_TEXT, CLI_GROUP_AUDIT, AT(min_severity), "SEVERITY",
     "only findings from info (default), low, medium, high or critical on"},
    {"exit-code", 0, 0, CLI_FLAG, CLI_GROUP_AUDIT | CLI_GROUP_COMPARE, AT(exit_code), NULL,
     "exit code 1 when something was found (audit: from low, or --min-severity, on)"},
    {"lost", 0, 0, CLI_NUMBER, CLI_GROUP_AUDIT, AT(lost), "N",
     "events or buffers lost from which a session is more than informational"},
    {"expect", 0, 0, CLI_TEXT, CLI_GROUP_AUDIT, AT(expect), "FILE",
     "sessions that have to exist, instead of the built-in list"},
    {"baseline", 0, 0, CLI_TEXT, CLI_GROUP_AUDIT, AT(baseline), "OTHER",
     "what differs from OTHER, an image or a file that kda map -f jsonl wrote"},
    {"quiet", 'q', 0, CLI_FLAG, CLI_GROUP_COMMON, AT(quiet), NULL,
     "no progress and no notes; errors are still shown"},
    {"verbose", 'v', 0, CLI_FLAG, CLI_GROUP_COMMON, AT(verbose), NULL,
     "list gaps and details; statistics on standard error"},
    {"help", 'h', 0, CLI_FLAG, CLI_GROUP_COMMON, AT(help), NULL,
     "this text"},
    {"version", 0, 0, CLI_FLAG, CLI_GROUP_COMMON, AT(version), NULL,
     "the version"},
};
/* clang-format on */
const size_t cli_option_count = sizeof(cli_option_table) / sizeof(cli_option_table[0]);

struct parser {
    int argc, at;
    char **argv;
    struct cli_options *options;
    const struct cli_command *command;
    uint64_t given; /* bit per row of the table */
};

static void *member(struct cli_options *options, const struct cli_option *option)
{
    return (char *)options + option->offset;
}

static int store(struct parser *parser, const struct cli_option *option, const char *value)
{
    parser->given |= (uint64_t)1 << (option - cli_option_table);
    if (option->kind == CLI_FLAG) {
        *(bool *)member(parser->options, option) = true;
        return CLI_DONE;
    }
    if (option->kind == CLI_TEXT) {
        *(const char **)member(parser->options, option) = value;
        return CLI_DONE;
    }
    uint64_t number;
    if (!cli_parse_number(value, 0, &number)) {
        cli_error("--%s wants a number (decimal, or hex with 0x), not '%s'", option->name, value);
        return CLI_USAGE;
    }
    if (number == 0) { /* would read as "not given" */
        cli_error("--%s wants a number above 0", option->name);
        return CLI_USAGE;
    }
    *(uint64_t *)member(parser->options, option) = number;
    return CLI_DONE;
}

/* The value after `--name` or `-x`; NULL after a message when there is none. */
static const char *next_value(struct parser *parser, const char *shown)
{
    if (parser->at + 1 < parser->argc)
        return parser->argv[++parser->at];
    cli_error("%s wants a value", shown);
    return NULL;
}

static int unknown_option(const char *word, size_t size)
{
    char name[64];
    struct cli_suggestion suggestion = {0};
    (void)snprintf(name, sizeof(name), "%.*s", (int)(size < 63 ? size : 63), word);
    for (size_t i = 0; i < cli_option_count; i++)
        cli_suggest(&suggestion, name, cli_option_table[i].name);
    if (suggestion.best)
        cli_error("unknown option '--%s'; did you mean '--%s'?", name, suggestion.best);
    else
        cli_error("unknown option '--%s'; see 'kda --help'", name);
    return CLI_USAGE;
}

static int parse_long(struct parser *parser, const char *word)
{
    size_t size = strcspn(word, "=");
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct cli_option *option = &cli_option_table[i];
        if (strlen(option->name) != size || memcmp(option->name, word, size) != 0)
            continue;
        const char *value = word[size] == '=' ? word + size + 1 : NULL;
        if (option->kind == CLI_FLAG) {
            if (!value)
                return store(parser, option, NULL);
            cli_error("--%s takes no value", option->name);
            return CLI_USAGE;
        }
        if (!value)
            value = next_value(parser, parser->argv[parser->at]);
        return value ? store(parser, option, value) : CLI_USAGE;
    }
    return unknown_option(word, size);
}

/* "-qv", "-f json", "-fjson" */
static int parse_short(struct parser *parser, const char *letters)
{
    for (; *letters; letters++) {
        const struct cli_option *option = NULL;
        for (size_t i = 0; i < cli_option_count && !option; i++)
            if (cli_option_table[i].letter == *letters || cli_option_table[i].alias == *letters)
                option = &cli_option_table[i];
        if (!option) {
            cli_error("unknown option '-%c'; see 'kda --help'", *letters);
            return CLI_USAGE;
        }
        if (option->kind == CLI_FLAG) {
            (void)store(parser, option, NULL);
            continue;
        }
        char shown[3] = {'-', *letters, '\0'};
        const char *value = letters[1] ? letters + 1 : next_value(parser, shown);
        return value ? store(parser, option, value) : CLI_USAGE;
    }
    return CLI_DONE;
}

int cli_unknown_command(const char *word)
{
    struct cli_suggestion suggestion = {0};
    for (size_t i = 0; i < cli_command_count; i++)
        cli_suggest(&suggestion, word, cli_commands[i].name);
    if (suggestion.best)
        cli_error("unknown command '%s'; did you mean '%s'?", word, suggestion.best);
    else
        cli_error("unknown command '%s'; see 'kda --help'", word);
    return CLI_USAGE;
}

static int parse_word(struct parser *parser, const char *word)
{
    struct cli_options *options = parser->options;
    if (!parser->command) {
        parser->command = cli_find_command(word);
        return parser->command ? CLI_DONE : cli_unknown_command(word);
    }
    if (options->positional_count == parser->command->max_positionals) {
        cli_error("too many arguments: '%s'; see 'kda %s --help'", word, parser->command->name);
        return CLI_USAGE;
    }
    /* The command was a word too, so what is overwritten here has been read already. */
    if (options->positional_count < CLI_POSITIONALS)
        options->positional[options->positional_count] = word;
    options->words[options->positional_count++] = parser->argv[parser->at];
    return CLI_DONE;
}

static int check_format(const struct cli_command *command, const struct cli_options *options)
{
    if (cli_writes_format(command, options->format))
        return command->groups & CLI_GROUP_TABLES ? cli_want_folder(options, command->name)
                                                  : CLI_DONE;
    cli_error("kda %s does not write %s; it has: %s", command->name, options->format,
              command->formats);
    return CLI_USAGE;
}

/* What can be said only once the command is known. */
static int check(const struct parser *parser)
{
    const struct cli_command *command = parser->command;
    const struct cli_options *options = parser->options;
    if (!command || options->help || options->version)
        return CLI_DONE;
    for (size_t i = 0; i < cli_option_count; i++) {
        if (!(parser->given >> i & 1) ||
            (cli_option_table[i].group & (command->groups | CLI_GROUP_COMMON)))
            continue;
        cli_error("--%s does not apply to 'kda %s'; see 'kda %s --help'", cli_option_table[i].name,
                  command->name, command->name);
        return CLI_USAGE;
    }
    if (options->output && options->output[0] == '\0') {
        cli_error("--output wants the name of a file");
        return CLI_USAGE;
    }
    size_t count = options->positional_count;
    if (count < command->min_positionals || count > command->max_positionals) {
        cli_error("too %s arguments; usage: kda %s %s",
                  count < command->min_positionals ? "few" : "many", command->name,
                  command->arguments);
        return CLI_USAGE;
    }
    struct cli_suggestion suggestion = {0};
    const struct kda_report_format *format;
    for (size_t i = 0; options->format && (format = kda_report_format_at(i)) != NULL; i++) {
        if (strcmp(format->name, options->format) == 0)
            return check_format(command, options);
        cli_suggest(&suggestion, options->format, format->name);
    }
    if (!options->format)
        return CLI_DONE;
    cli_error("unknown format '%s'%s%s%s; formats are text, csv, tsv, json, jsonl", options->format,
              suggestion.best ? "; did you mean '" : "", suggestion.best ? suggestion.best : "",
              suggestion.best ? "'?" : "");
    return CLI_USAGE;
}

int cli_parse(int argc, char **argv, struct cli_options *options,
              const struct cli_command **command)
{
    memset(options, 0, sizeof(*options));
    options->words = argv + 1;
    struct parser parser = {.argc = argc, .argv = argv, .options = options};
    bool words_only = false;
    int code = CLI_DONE;
    for (parser.at = 1; parser.at < argc && code == CLI_DONE; parser.at++) {
        const char *word = argv[parser.at];
        if (words_only || word[0] != '-' || word[1] == '\0')
            code = parse_word(&parser, word);
        else if (strcmp(word, "--") == 0)
            words_only = true;
        else if (word[1] == '-')
            code = parse_long(&parser, word + 2);
        else
            code = parse_short(&parser, word + 1);
    }
    if (code == CLI_DONE)
        code = check(&parser);
    *command = parser.command;
    return code;
}
