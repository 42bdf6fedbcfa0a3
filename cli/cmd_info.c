/*
 * cmd_info.c - what the image is. Prints everything that is known, however far it got.
 */
#include "cli.h"

/* Walks everything once, so that the number of gaps is the one a map would have. What fails here
 * as a whole is itself a gap or the business of the command that needs it. */
static void meet_gaps(struct cli *cli)
{
    const struct kda_module *modules;
    const struct kda_process *processes;
    size_t count;
    struct kda_error err;
    struct kda_gaps *gaps = kda_kernel_gaps(cli->kernel);
    enum kda_status status = kda_modules(cli->kernel, &modules, &count, &err);
    if (status != KDA_OK)
        kda_gaps_add(gaps, "drivers", err.has_where ? err.where : 0, status, "%s", err.text);
    status = kda_processes(cli->kernel, &processes, &count, &err);
    if (status != KDA_OK)
        kda_gaps_add(gaps, "processes", err.has_where ? err.where : 0, status, "%s", err.text);
    status = kda_etw_map(cli->kernel, &cli->etw, &err);
    if (status != KDA_OK)
        kda_gaps_add(gaps, "etw", err.has_where ? err.where : 0, status, "%s", err.text);
    cli_phase(cli, "etw_us");
}

/* The text view shows the reason as a line of its own; saying it twice would not help. */
static void say(const struct cli *cli, const struct kda_error *err)
{
    if (!cli_is_text(cli) || cli->options.output)
        cli_error_of(err);
}

int cli_run_info(struct cli *cli)
{
    struct kda_error kernel_err, symbols_err;
    struct kda_report_facts facts = {0};
    struct kda_recall *recall = NULL;
    int code = cli_open_image(cli);
    if (code != CLI_DONE)
        return code;
    facts.image = kda_image_info(cli->image);
    if (!cli_is_triage(cli)) {
        code = cli_open_kernel(cli, &kernel_err);
        if (code != CLI_DONE) {
            facts.kernel_missing = kernel_err.text;
            say(cli, &kernel_err);
        }
    }
    if (cli->kernel) {
        code = cli_load_symbols(cli, &symbols_err);
        if (code != CLI_DONE) {
            facts.symbols_missing = symbols_err.text;
            say(cli, &symbols_err);
        } else {
            meet_gaps(cli);
            if (kda_recall_read(cli->kernel, cli->etw, &recall, &kernel_err) != KDA_OK)
                cli_error_of(&kernel_err);
            cli_phase(cli, "recall_us");
            facts.recall = recall;
        }
    }
    /* Searched only here: the rows of the other commands do not need it. */
    if (cli->kernel && kda_kernel_find_kdbg(cli->kernel, &kernel_err) != KDA_OK)
        cli_note(cli, "note: %s", kernel_err.text);
    if (cli->kernel) { /* opened again by --download, or closed by its failure */
        const struct kda_symbols *symbols = kda_kernel_symbols(cli->kernel);
        const struct kda_gaps *gaps = kda_kernel_gaps(cli->kernel);
        facts.kernel = kda_kernel_info(cli->kernel);
        facts.symbols = symbols ? kda_symbols_info(symbols) : NULL;
        facts.fit = cli->fit;
        facts.gaps = gaps->count + gaps->dropped;
    }
    int opened = cli_open_report(cli);
    if (opened == CLI_DONE) {
        kda_report_info(cli->report, &facts);
        opened = cli_finish(cli, code);
    }
    kda_recall_free(recall);
    return opened;
}
