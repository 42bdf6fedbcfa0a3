/*
 * cmd_etw.c - sessions, consumers, providers, processes and map.
 */
#include "cli.h"

#include <string.h>

enum { SESSIONS = 1, CONSUMERS = 2, PROVIDERS = 4 };

/* Opens, picks, emits the kinds of rows asked for and ends: the shape of every list command. */
static int run_list(struct cli *cli, const char *session, const char *provider, unsigned kinds)
{
    struct kda_selection selection;
    int code = cli_open_etw(cli);
    if (code != CLI_DONE)
        return code;
    code = cli_pick(cli, session, provider, &selection);
    if (code != CLI_DONE)
        return code;
    code = cli_open_report(cli);
    if (code == CLI_DONE) {
        if (kinds & SESSIONS)
            kda_report_sessions(cli->report, cli->etw, &selection);
        if (kinds & CONSUMERS)
            kda_report_consumers(cli->report, cli->etw, &selection);
        if (kinds & PROVIDERS)
            kda_report_providers(cli->report, cli->etw, &selection);
        code = cli_finish(cli, CLI_DONE);
    }
    cli_unpick(&selection);
    return code;
}

int cli_run_sessions(struct cli *cli)
{
    const struct cli_options *o = &cli->options;
    if (o->session && o->positional[1]) {
        cli_error("the session is named twice: '%s' and --session %s", o->positional[1],
                  o->session);
        return CLI_USAGE;
    }
    return run_list(cli, o->session ? o->session : o->positional[1], NULL, SESSIONS);
}

int cli_run_consumers(struct cli *cli)
{
    return run_list(cli, cli->options.session, NULL, CONSUMERS);
}

int cli_run_providers(struct cli *cli)
{
    return run_list(cli, cli->options.session, cli->options.positional[1], PROVIDERS);
}

/* The processes; *failed is the status of a list that could not be read at all. */
static const struct kda_process *processes_of(struct cli *cli, size_t *count, struct kda_error *err)
{
    const struct kda_process *processes = NULL;
    *count = 0;
    err->status = kda_processes(cli->kernel, &processes, count, err);
    return err->status == KDA_OK ? processes : NULL;
}

int cli_run_processes(struct cli *cli)
{
    struct kda_error err;
    struct kda_selection selection;
    int code = cli_open_all(cli);
    if (code != CLI_DONE)
        return code;
    size_t count;
    /* The rows name a silo by its ETW state, and consumers, registrations and handles name
     * processes that no list has. Where there is no ETW state the lists speak alone. */
    enum kda_status mapped = kda_etw_map(cli->kernel, &cli->etw, &err);
    if (mapped != KDA_OK)
        mapped = kda_etw_map_silos(cli->kernel, &cli->etw, &err);
    if (mapped != KDA_OK && cli->options.silo) {
        cli_error_of(&err);
        return CLI_INCOMPLETE;
    }
    const struct kda_process *processes = processes_of(cli, &count, &err);
    if (err.status != KDA_OK) {
        cli_error_of(&err);
        return kda_status_is_gap(err.status) || err.status == KDA_BAD_DATA ? CLI_INCOMPLETE
               : err.status == KDA_NO_SYMBOL                               ? CLI_SYMBOLS
                                                                           : CLI_INTERNAL;
    }
    cli_phase(cli, "processes_us");
    code = cli_pick(cli, NULL, NULL, &selection);
    if (code == CLI_DONE)
        code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    kda_report_processes(cli->report, processes, count, cli->etw, &selection);
    return cli_finish(cli, CLI_DONE);
}

void cli_emit_map(struct cli *cli, const struct kda_selection *selection)
{
    struct kda_error err;
    size_t count;
    const struct kda_process *processes = processes_of(cli, &count, &err);
    const struct kda_symbols *symbols = kda_kernel_symbols(cli->kernel);
    const struct kda_gaps *gaps = kda_kernel_gaps(cli->kernel);
    struct kda_report_facts facts = {
        .image = kda_image_info(cli->image),
        .fit = cli->fit,
        .kernel = kda_kernel_info(cli->kernel),
        .symbols = symbols ? kda_symbols_info(symbols) : NULL,
        .gaps = gaps->count + gaps->dropped,
    };
    kda_report_info(cli->report, &facts);
    kda_report_sessions(cli->report, cli->etw, selection);
    kda_report_consumers(cli->report, cli->etw, selection);
    kda_report_providers(cli->report, cli->etw, selection);
    kda_report_processes(cli->report, processes, count, cli->etw, selection);
    struct kda_callbacks *callbacks;
    if (kda_callbacks_read(cli->kernel, &callbacks, &err) != KDA_OK) {
        cli_note(cli, "callbacks are left out: %s", err.text);
        return;
    }
    for (size_t i = 0; i < callbacks->count; i++)
        kda_report_callback(cli->report, &callbacks->rows[i]);
    kda_callbacks_free(callbacks);
}

static int image_of_map(struct cli *cli)
{
    const struct cli_options *o = &cli->options;
    if (o->live)
        return cli_take_live_image(cli);
    if (o->dump || o->hypervisor || o->user_pages || o->keep || o->force) {
        cli_error("--dump, --hypervisor, --user-pages, --keep and --force go with --live");
        return CLI_USAGE;
    }
    if (o->positional_count == 1)
        return CLI_DONE;
    cli_error("too few arguments; usage: kda map %s", cli->command->arguments);
    return CLI_USAGE;
}

int cli_run_map(struct cli *cli)
{
    struct kda_selection selection;
    int code = image_of_map(cli);
    if (code == CLI_DONE)
        code = cli_open_etw(cli);
    if (code != CLI_DONE)
        return code;
    code = cli_pick(cli, cli->options.session, NULL, &selection);
    if (code != CLI_DONE)
        return code;
    code = cli_open_report(cli);
    if (code == CLI_DONE) {
        if (cli_is_text(cli))
            kda_report_map(cli->report, cli->etw, &selection,
                           cli->options.verbose ? NULL : kda_kernel_gaps(cli->kernel));
        else
            cli_emit_map(cli, &selection);
        code = cli_finish(cli, CLI_DONE);
    }
    cli_unpick(&selection);
    return code;
}
