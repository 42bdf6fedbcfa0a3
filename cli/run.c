/*
 * run.c - one run of the program: parse, answer help, hand over to the command.
 */
#include "cli.h"

#include <string.h>

#include "term.h"

int cli_main_on(const struct host_ops *host, int argc, char **argv)
{
    struct cli cli;
    memset(&cli, 0, sizeof(cli));
    cli.start = cli.phase_start = term_seconds();
    int code = cli_parse(argc, argv, &cli.options, &cli.command);
    if (code != CLI_DONE)
        return code;
    if (cli.options.version) {
        (void)printf("kda %s\n", KDA_VERSION);
        return cli_end_printing();
    }
    if (cli.options.help) {
        cli_help(stdout, cli.command);
        return cli_end_printing();
    }
    if (!cli.command) {
        cli_help(stderr, NULL);
        return CLI_USAGE;
    }
    cli.host = host;
    cli.several = (cli.command->groups & CLI_GROUP_TABLES) != 0;
    code = cli.command->run(&cli);
    cli_close(&cli);
    return code;
}

int cli_main(int argc, char **argv)
{
    return cli_main_on(host_system(), argc, argv);
}
