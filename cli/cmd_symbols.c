/*
 * cmd_symbols.c - which symbols the kernel needs, where they were found, and how to get them.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define NO_IDENTITY                                                                                \
    "a triage dump does not hold the kernel's PDB identity; its PE time stamp and size are shown"

static int fetch(struct cli *cli, char **path, struct kda_error *err)
{
    const struct cli_options *o = &cli->options;
    struct kda_download_options options = {
        .symbol_path = o->symbols ? o->symbols : getenv("_NT_SYMBOL_PATH"),
        .cache = o->cache,
        .progress = cli_progress,
        .context = &cli->progress,
    };
    cli_progress_begin(cli, "fetching symbols");
    enum kda_status status =
        kda_symbols_download(&kda_kernel_info(cli->kernel)->id, &options, path, err);
    cli_progress_end(cli);
    cli_phase(cli, "download_us");
    return status == KDA_OK ? CLI_DONE : status == KDA_USAGE ? CLI_USAGE : CLI_SYMBOLS;
}

/* The kernel's own PE identity, as a triage dump's driver list gives it. */
static struct kda_kernel_id triage_id(const struct kda_image_info *image)
{
    struct kda_kernel_id id = {0};
    for (size_t i = 0; i < image->driver_count && !id.has_pe; i++) {
        if (image->kernel_base == 0 || image->drivers[i].base != image->kernel_base)
            continue;
        id.has_pe = true;
        id.pe_timestamp = image->drivers[i].timestamp;
        id.pe_size = image->drivers[i].size;
    }
    return id;
}

static int report(struct cli *cli, const struct kda_report_symbols *symbols, int code)
{
    int opened = cli_open_report(cli);
    if (opened != CLI_DONE)
        return opened;
    kda_report_symbols(cli->report, symbols);
    return cli_finish(cli, code);
}

/* "symbols get IMAGE": the word goes, the image stays in the first place. */
static bool take_get(struct cli_options *options)
{
    if (options->positional_count != 2)
        return false;
    options->positional[0] = options->positional[1];
    options->positional[1] = NULL;
    options->positional_count = 1;
    return true;
}

int cli_run_symbols(struct cli *cli)
{
    struct kda_error err = {0};
    struct kda_report_symbols symbols = {0};
    struct kda_kernel_id id;
    if (cli->options.positional_count == 2 && strcmp(cli->options.positional[0], "get") != 0) {
        cli_error("unknown subcommand '%s'; usage: kda symbols [get] IMAGE",
                  cli->options.positional[0]);
        return CLI_USAGE;
    }
    bool get = take_get(&cli->options) || cli->options.download;
    cli->options.download = false; /* asked for here, not on the way */
    int code = cli_open_image(cli);
    if (code != CLI_DONE)
        return code;
    if (cli_is_triage(cli)) {
        id = triage_id(kda_image_info(cli->image));
        symbols.id = &id;
        symbols.missing = NO_IDENTITY;
        cli_error("%s", NO_IDENTITY);
        return report(cli, &symbols, CLI_SYMBOLS);
    }
    code = cli_open_kernel(cli, &err);
    if (code != CLI_DONE) {
        cli_error_of(&err);
        return code;
    }
    symbols.id = &kda_kernel_info(cli->kernel)->id;
    char *path = NULL;
    if (get) {
        code = fetch(cli, &path, &err);
        symbols.fetched = path;
    } else {
        code = cli_load_symbols(cli, &err);
        const struct kda_symbols *found = kda_kernel_symbols(cli->kernel);
        symbols.found = found ? kda_symbols_info(found) : NULL;
    }
    if (code != CLI_DONE) {
        symbols.missing = err.text;
        cli_error_of(&err);
    }
    code = report(cli, &symbols, code);
    kda_symbols_free_path(path);
    return code;
}
