/*
 * help.c - help and shell completions, from the tables.
 */
#include "cli.h"

#include <string.h>

/* "text (default), json or jsonl" */
static void put_formats(FILE *to, const char *formats)
{
    const char *last = strrchr(formats, ' ');
    for (const char *at = formats; *at; at += strcspn(at, " ")) {
        const char *before = at == formats ? "" : at == last ? " or " : ", ";
        at += *at == ' ';
        (void)fprintf(to, "%s%.*s%s", before, (int)strcspn(at, " "), at,
                      *before ? "" : " (default)");
    }
}

static void put_options(FILE *to, unsigned groups, const char *formats)
{
    for (size_t i = 0; i < cli_option_count; i++) {
        const struct cli_option *option = &cli_option_table[i];
        char left[48];
        if (!(option->group & groups))
            continue;
        (void)snprintf(left, sizeof(left), "%c%c%s--%s%s%s", option->letter ? '-' : ' ',
                       option->letter ? option->letter : ' ', option->letter ? ", " : "  ",
                       option->name, option->argument ? " " : "",
                       option->argument ? option->argument : "");
        (void)fprintf(to, "  %-28s ", left);
        if (formats && strcmp(option->name, "format") == 0)
            put_formats(to, formats);
        else
            (void)fputs(option->help, to);
        (void)fputc('\n', to);
    }
}

static void put_program(FILE *to)
{
    (void)fputs("kda - who listens and who speaks: Windows tracing (ETW) in a memory image\n\n"
                "usage: kda COMMAND [OPTIONS] IMAGE\n\n",
                to);
    for (size_t i = 0; i < cli_command_count; i++) {
        char left[48];
        (void)snprintf(left, sizeof(left), "%s %s", cli_commands[i].name,
                       cli_commands[i].arguments);
        (void)fprintf(to, "  %-28s %s\n", left, cli_commands[i].summary);
    }
    (void)fputs("\noptions (each command takes those that make sense for it):\n", to);
    put_options(to, ~0u, NULL);
    (void)fputs("\nexit codes:\n", to);
    for (size_t i = 0; i < cli_exit_code_count; i++)
        (void)fprintf(to, "  %s  %s\n", cli_exit_codes[i].number, cli_exit_codes[i].meaning);
    (void)fputs("\nenvironment: _NT_SYMBOL_PATH and KDA_SYMBOLS (folders, ';' between them) are "
                "searched for\nsymbols; NO_COLOR turns colours off.\n",
                to);
}

void cli_help(FILE *to, const struct cli_command *command)
{
    if (!command) {
        put_program(to);
        return;
    }
    (void)fprintf(to, "kda %s - %s\n\nusage: kda %s [OPTIONS]%s%s\n", command->name,
                  command->summary, command->name, *command->arguments ? " " : "",
                  command->arguments);
    if (command->details)
        (void)fprintf(to, "\n%s\n", command->details);
    (void)fputs("\noptions:\n", to);
    put_options(to, command->groups | CLI_GROUP_COMMON, command->formats);
}

int cli_run_help(struct cli *cli)
{
    const struct cli_command *command = NULL;
    if (cli->options.positional_count > 0) {
        command = cli_find_command(cli->options.positional[0]);
        if (!command)
            return cli_unknown_command(cli->options.positional[0]);
    }
    cli_help(stdout, command);
    return cli_end_printing();
}

static void put_bash(FILE *to)
{
    (void)fputs(
        "_kda()\n{\n"
        "    local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
        "    case $previous in\n"
        "    -f|-r|--format) COMPREPLY=($(compgen -W 'text csv tsv json jsonl' -- \"$word\")); "
        "return ;;\n"
        "    esac\n"
        "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
        "        COMPREPLY=($(compgen -W '",
        to);
    for (size_t i = 0; i < cli_command_count; i++)
        (void)fprintf(to, "%s%s", i ? " " : "", cli_commands[i].name);
    (void)fputs("' -- \"$word\"))\n        return\n    fi\n"
                "    case $word in\n    -*)\n        case ${COMP_WORDS[1]} in\n",
                to);
    for (size_t i = 0; i < cli_command_count; i++) {
        (void)fprintf(to, "        %s) COMPREPLY=($(compgen -W '", cli_commands[i].name);
        for (size_t k = 0; k < cli_option_count; k++)
            if (cli_option_table[k].group & (cli_commands[i].groups | CLI_GROUP_COMMON))
                (void)fprintf(to, "--%s ", cli_option_table[k].name);
        (void)fputs("' -- \"$word\")) ;;\n", to);
    }
    (void)fputs("        esac ;;\n    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n    esac\n}\n"
                "complete -o filenames -F _kda kda\n",
                to);
}

static void put_zsh_command(FILE *to, const struct cli_command *command)
{
    (void)fprintf(to, "    %s) _arguments", command->name);
    for (size_t k = 0; k < cli_option_count; k++) {
        const struct cli_option *option = &cli_option_table[k];
        if (!(option->group & (command->groups | CLI_GROUP_COMMON)))
            continue;
        (void)fprintf(to, " \\\n        '--%s[%s]", option->name, option->help);
        if (strcmp(option->name, "format") == 0)
            (void)fprintf(to, ":format:(%s)",
                          command->formats ? command->formats : "text csv tsv json jsonl");
        else if (option->argument)
            (void)fprintf(to, ":%s:_files", option->name);
        (void)fputs("'", to);
    }
    (void)fputs(" '*:file:_files' ;;\n", to);
}

static void put_zsh(FILE *to)
{
    (void)fputs("#compdef kda\n\n_kda()\n{\n    if (( CURRENT == 2 )); then\n"
                "        local -a commands=(\n",
                to);
    for (size_t i = 0; i < cli_command_count; i++)
        (void)fprintf(to, "            '%s:%s'\n", cli_commands[i].name,
                      strcmp(cli_commands[i].name, "info") == 0 ? "what the image is"
                                                                : cli_commands[i].summary);
    (void)fputs("        )\n        _describe command commands\n        return\n    fi\n"
                "    local command=$words[2]\n    shift words\n    (( CURRENT-- ))\n"
                "    case $command in\n",
                to);
    for (size_t i = 0; i < cli_command_count; i++)
        put_zsh_command(to, &cli_commands[i]);
    (void)fputs("    esac\n}\n\n_kda \"$@\"\n", to);
}

int cli_run_completions(struct cli *cli)
{
    const char *shell = cli->options.positional[0];
    if (strcmp(shell, "bash") == 0) {
        put_bash(stdout);
    } else if (strcmp(shell, "zsh") == 0) {
        put_zsh(stdout);
    } else {
        cli_error("no completions for '%s'; there are some for bash and zsh", shell);
        return CLI_USAGE;
    }
    return cli_end_printing();
}
