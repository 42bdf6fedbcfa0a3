/*
 * cmd_symbols.c - which symbols the kernel needs, where they were found, and how to get them.
 */
#include "cli.h"

#include "term.h"

#include <stdlib.h>
#include <string.h>

#define NO_IDENTITY                                                                                \
    "a triage dump does not hold the kernel's PDB identity; its PE time stamp and size are shown"
#define BY_TABLE                                                                                   \
    "the built-in table names the PDB by PE time stamp and size; 'kda symbols get' fetches it"

static int fetch(struct cli *cli, const struct kda_kernel_id *id, char **path,
                 struct kda_error *err)
{
    const struct cli_options *o = &cli->options;
    struct kda_download_options options = {
        .symbol_path = o->symbols ? o->symbols : term_variable("_NT_SYMBOL_PATH"),
        .cache = o->cache,
        .progress = cli_progress,
        .context = &cli->progress,
    };
    cli_progress_begin(cli, "fetching symbols");
    enum kda_status status = kda_symbols_download(id, &options, path, err);
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

/* The first word of `kda symbols VERB ...`; without one the word is an image. */
static const struct verb {
    const char *name, *usage;
    size_t min, max; /* words behind it */
    int (*run)(struct cli *cli);
} verbs[] = {
    {"get", "get IMAGE", 1, 1, NULL},
    {"add", "add FILE [IMAGE]", 1, 2, cli_run_symbols_add},
    {"list", "list", 0, 0, cli_run_symbols_list},
    {"export", "export [IMAGE|GUIDAGE]", 0, 1, cli_run_symbols_export},
};
#define VERB_COUNT (sizeof(verbs) / sizeof(verbs[0]))

/* The verb goes, the other words move up. *ret is NULL when there is none. */
static int take_verb(struct cli_options *options, const struct verb **ret)
{
    struct cli_suggestion suggestion = {0};
    const char *word = options->positional[0];
    *ret = NULL;
    for (size_t i = 0; i < VERB_COUNT; i++) {
        cli_suggest(&suggestion, word, verbs[i].name);
        if (strcmp(word, verbs[i].name) != 0)
            continue;
        size_t words = options->positional_count - 1;
        if (words < verbs[i].min || words > verbs[i].max) {
            cli_error("too %s arguments; usage: kda symbols %s",
                      words < verbs[i].min ? "few" : "many", verbs[i].usage);
            return CLI_USAGE;
        }
        for (size_t w = 0; w < words; w++)
            options->positional[w] = options->positional[w + 1];
        options->positional[words] = NULL;
        options->positional_count = words;
        *ret = &verbs[i];
        return CLI_DONE;
    }
    if (options->positional_count == 1)
        return CLI_DONE;
    if (suggestion.best)
        cli_error("unknown subcommand '%s'; did you mean '%s'?", word, suggestion.best);
    else
        cli_error("unknown subcommand '%s'; usage: kda symbols [get|add|list|export] ...", word);
    return CLI_USAGE;
}

/* What was fetched becomes a profile, so that the PDB is not needed again. */
static void keep(const struct cli *cli, const struct kda_kernel_id *id, const char *path)
{
    struct kda_error err;
    if (kda_symbols_add(path, id, NULL, &err) != KDA_OK)
        cli_note(cli, "note: symbols not kept as a profile: %s", err.text);
}

/* Fetches the PDB that the image or the table names. */
static int get(struct cli *cli, struct kda_report_symbols *symbols, char **path,
               struct kda_error *err)
{
    struct kda_kernel_id id = *symbols->id;
    if (!id.has_pdb && symbols->row && symbols->row->id.has_pdb)
        id = symbols->row->id;
    int code = fetch(cli, &id, path, err);
    symbols->fetched = *path;
    if (code == CLI_DONE)
        keep(cli, &id, *path);
    return code;
}

/* A triage dump holds no memory to read with symbols: what is known about its kernel is shown. */
static int run_triage(struct cli *cli, bool wanted)
{
    struct kda_kernel_id id = triage_id(kda_image_info(cli->image));
    struct kda_report_symbols symbols = {.id = &id};
    struct kda_symbols_options options = {.path = "profile"};
    struct kda_symbols *found = NULL;
    struct kda_profile_info row;
    struct kda_error err = {0};
    char *path = NULL;
    if (kda_profile_identify(&id, &row))
        symbols.row = &row;
    bool named = symbols.row && row.id.has_pdb;
    int code = CLI_SYMBOLS;
    if (wanted && named) {
        code = get(cli, &symbols, &path, &err);
        symbols.missing = code == CLI_DONE ? NULL : err.text;
    } else if (!wanted && kda_symbols_find(&id, &options, &found, NULL) == KDA_OK) {
        symbols.found = kda_symbols_info(found);
        code = CLI_DONE;
    } else {
        symbols.missing = named ? BY_TABLE : NO_IDENTITY;
    }
    if (symbols.missing)
        cli_error("%s", symbols.missing);
    code = report(cli, &symbols, code);
    kda_symbols_free(found);
    kda_symbols_free_path(path);
    return code;
}

int cli_run_symbols(struct cli *cli)
{
    struct kda_error err = {0};
    struct kda_report_symbols symbols = {0};
    struct kda_profile_info row;
    const struct verb *verb;
    int code = take_verb(&cli->options, &verb);
    if (code != CLI_DONE)
        return code;
    if (verb && verb->run)
        return verb->run(cli);
    bool wanted = verb || cli->options.download;
    cli->options.download = false; /* asked for here, not on the way */
    code = cli_open_image(cli);
    if (code != CLI_DONE)
        return code;
    if (cli_is_triage(cli))
        return run_triage(cli, wanted);
    code = cli_open_kernel(cli, &err);
    if (code != CLI_DONE) {
        cli_error_of(&err);
        return code;
    }
    symbols.id = &kda_kernel_info(cli->kernel)->id;
    if (kda_profile_identify(symbols.id, &row))
        symbols.row = &row;
    char *path = NULL;
    if (wanted) {
        code = get(cli, &symbols, &path, &err);
    } else {
        cli->no_fit = true;
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
