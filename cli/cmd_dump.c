/*
 * cmd_dump.c - kda live-dump, and the dump that kda map --live begins with.
 */
#include "cli.h"

#include "live_dump.h"

int cli_run_live_dump(struct cli *cli)
{
    if (!cli->host)
        return cli_needs_windows("kda live-dump", "asks Windows for a dump of its kernel memory");
    return live_dump_take(cli, cli->options.positional[0]);
}

int cli_take_live_image(struct cli *cli)
{
    struct cli_options *o = &cli->options;
    if (o->positional_count > 0) {
        cli_error("--live takes a dump of this machine: '%s' is not looked at", o->positional[0]);
        return CLI_USAGE;
    }
    if (!cli->host)
        return cli_needs_windows("kda map --live",
                                 "asks Windows for a dump of its kernel memory and maps it");
    if (!o->dump) {
        cli_error("--live needs --dump FILE: a dump has some gigabytes, and is put nowhere but "
                  "where you say");
        return CLI_USAGE;
    }
    int code = live_dump_take(cli, o->dump);
    o->positional[0] = o->dump;
    o->positional_count = 1;
    return code;
}
