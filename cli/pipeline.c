/*
 * pipeline.c - image -> kernel -> symbols -> model -> report, and how a run ends.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "term.h"

#define TRIAGE_ADVICE                                                                              \
    "this is a triage dump (DumpType 4): it holds no tracing memory; take a live kernel dump "     \
    "(Task Manager, Details, System, Create live kernel memory dump file)"

bool cli_is_text(const struct cli *cli)
{
    return !cli->options.format || strcmp(cli->options.format, "text") == 0;
}

static bool is_json(const struct cli *cli)
{
    return cli->options.format && strncmp(cli->options.format, "json", 4) == 0;
}

bool cli_is_triage(const struct cli *cli)
{
    return kda_image_info(cli->image)->kind == KDA_IMAGE_TRIAGE;
}

void cli_phase(struct cli *cli, const char *name)
{
    double now = term_seconds();
    if (cli->phase_count < CLI_PHASES) {
        cli->phases[cli->phase_count].name = name;
        cli->phases[cli->phase_count++].seconds = now - cli->phase_start;
    }
    cli->phase_start = now;
}

/* Exit code of a failure before there was anything to report. */
static int code_of(enum kda_status status)
{
    switch (status) {
    case KDA_USAGE:
        return CLI_USAGE;
    case KDA_NO_MEMORY:
    case KDA_CANCELLED:
        return CLI_INTERNAL;
    case KDA_NO_SYMBOL:
        return CLI_SYMBOLS;
    default:
        return CLI_INPUT;
    }
}

int cli_open_image(struct cli *cli)
{
    struct kda_error err;
    const char *path = cli->options.positional[0];
    enum kda_status status = kda_image_open(path, &cli->image, &err);
    if (status != KDA_OK) {
        cli_error_of(&err);
        return code_of(status);
    }
    cli_phase(cli, "image_us");
    return CLI_DONE;
}

int cli_open_kernel(struct cli *cli, struct kda_error *err)
{
    struct kda_kernel_options options = {
        .dtb = cli->options.dtb,
        .symbols =
            {
                .path = cli->fetched ? cli->fetched : cli->options.symbols,
                .nt_symbol_path = term_variable("_NT_SYMBOL_PATH"),
                .kda_symbols = term_variable("KDA_SYMBOLS"),
                .keep = true,
            },
        .progress = cli_progress,
        .context = &cli->progress,
        .carve = cli->options.carve,
    };
    cli_progress_begin(cli, "finding the kernel");
    enum kda_status status = kda_kernel_open(cli->image, &options, &cli->kernel, err);
    cli_progress_end(cli);
    cli_phase(cli, "kernel_us");
    return status == KDA_OK ? CLI_DONE : code_of(status);
}

/* --download: fetches the PDB and opens the kernel again with it. */
static int fetch_symbols(struct cli *cli, struct kda_error *err)
{
    /* A server named on the command line is the one to ask; a plain folder was only to look in. */
    const char *named = cli->options.symbols;
    struct kda_download_options options = {
        .symbol_path = named && strchr(named, '*') ? named : term_variable("_NT_SYMBOL_PATH"),
        .cache = cli->options.cache,
        .progress = cli_progress,
        .context = &cli->progress,
    };
    cli_progress_begin(cli, "fetching symbols");
    enum kda_status status =
        kda_symbols_download(&kda_kernel_info(cli->kernel)->id, &options, &cli->fetched, err);
    cli_progress_end(cli);
    if (status != KDA_OK)
        return CLI_SYMBOLS;
    kda_kernel_close(cli->kernel);
    cli->kernel = NULL;
    int code = cli_open_kernel(cli, err);
    if (code != CLI_DONE)
        return code;
    return kda_kernel_load_symbols(cli->kernel, err) == KDA_OK ? CLI_DONE : CLI_SYMBOLS;
}

/* No symbols anywhere: the layout is worked out from the image itself, unless one source was asked
 * for by name. */
static int fit_layout(struct cli *cli, struct kda_error *err)
{
    const char *path = cli->options.symbols;
    struct kda_fit_options options = {.no_profile = path && strcmp(path, "none") == 0};
    static const char *const sources[] = {"profile", "cache", "pdb", "isf"};
    struct kda_error why;
    if (cli->no_fit)
        return CLI_SYMBOLS;
    for (size_t i = 0; path && i < sizeof(sources) / sizeof(sources[0]); i++)
        if (strcmp(path, sources[i]) == 0)
            return CLI_SYMBOLS;
    enum kda_status status = kda_etw_fit(cli->kernel, &options, &cli->fit, &why);
    if (status == KDA_OK)
        status = kda_fit_install(cli->fit, cli->kernel, &why);
    if (status == KDA_OK)
        return CLI_DONE;
    if (status != KDA_NO_SYMBOL) {
        *err = why;
        return code_of(status);
    }
    cli_error("%s", why.text);
    return CLI_SYMBOLS;
}

int cli_load_symbols(struct cli *cli, struct kda_error *err)
{
    enum kda_status status = kda_kernel_load_symbols(cli->kernel, err);
    int code = CLI_DONE;
    if (status == KDA_NO_SYMBOL)
        code = cli->options.download ? fetch_symbols(cli, err) : fit_layout(cli, err);
    else if (status != KDA_OK)
        code = status == KDA_NO_MEMORY || status == KDA_USAGE ? code_of(status) : CLI_SYMBOLS;
    const struct kda_symbols *found = code == CLI_DONE ? kda_kernel_symbols(cli->kernel) : NULL;
    if (found && kda_symbols_info(found)->note)
        cli_note(cli, "note: %s", kda_symbols_info(found)->note);
    cli_phase(cli, "symbols_us");
    return code;
}

/* The answer for programs when there is nothing to show but the reason. */
static int only_a_gap(struct cli *cli, uint64_t va, enum kda_status reason, const char *text)
{
    cli_error("%s", text);
    if (!is_json(cli))
        return CLI_INCOMPLETE;
    int code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    struct kda_gaps gaps;
    kda_gaps_init(&gaps);
    kda_gaps_add(&gaps, "image", va, reason, "%s", text);
    kda_report_gaps(cli->report, &gaps);
    kda_gaps_deinit(&gaps);
    return cli_finish(cli, CLI_INCOMPLETE);
}

/* What a file may lack. That a raw image has no signature is worth a word only when no kernel is
 * found in it. */
static void show_warnings(struct cli *cli, bool found)
{
    const struct kda_image_info *info = kda_image_info(cli->image);
    bool raw = strcmp(info->format, "raw") == 0;
    if (raw == found)
        return;
    for (size_t i = 0; i < info->warning_count; i++)
        cli_note(cli, "note: %s", info->warnings[i]);
}

int cli_open_all(struct cli *cli)
{
    struct kda_error err;
    int code = cli_open_image(cli);
    if (code != CLI_DONE)
        return code;
    show_warnings(cli, true);
    if (cli_is_triage(cli))
        return only_a_gap(cli, 0, KDA_UNSUPPORTED, TRIAGE_ADVICE);
    code = cli_open_kernel(cli, &err);
    if (code == CLI_DONE)
        code = cli_load_symbols(cli, &err);
    else
        show_warnings(cli, false);
    if (code != CLI_DONE)
        cli_error_of(&err);
    return code;
}

int cli_open_etw(struct cli *cli)
{
    struct kda_error err;
    int code = cli_open_all(cli);
    if (code != CLI_DONE)
        return code;
    if (cli->options.carve)
        cli_progress_begin(cli, "scanning memory");
    enum kda_status status = kda_etw_map(cli->kernel, &cli->etw, &err);
    cli_progress_end(cli);
    cli_phase(cli, "etw_us");
    if (status == KDA_OK)
        return CLI_DONE;
    if (kda_status_is_gap(status) || status == KDA_BAD_DATA || status == KDA_LIMIT)
        return only_a_gap(cli, err.has_where ? err.where : 0, status, err.text);
    cli_error_of(&err);
    return code_of(status);
}

/* What goes in is evidence: no slip of the hand may replace it. */
const char *cli_overwrites(const struct cli *cli, const char *path)
{
    const struct cli_options *o = &cli->options;
    if (o->baseline &&
        (term_same_file(path, o->baseline) || term_same_file(path, o->positional[0])))
        return "one of the two that are compared";
    if (o->expect && term_same_file(path, o->expect))
        return "the list of expected sessions";
    /* With an image the other words are names; without one (files, two witnesses) all are read. */
    bool files = cli->command->max_positionals == CLI_MANY || !cli->image;
    for (size_t i = 0; files && i < o->positional_count; i++)
        if (term_same_file(path, o->words[i]))
            return "a file that is read";
    if (o->manifest && term_same_file(path, o->manifest))
        return "the manifest";
    if (!cli->image)
        return NULL;
    const char *companion = kda_image_info(cli->image)->companion;
    if (term_same_file(path, o->positional[0]))
        return "the image itself";
    if (companion && term_same_file(path, companion))
        return "a part of the image: the file beside it";
    if (o->symbols && term_same_file(path, o->symbols))
        return "the symbol file";
    return NULL;
}

int cli_open_bytes(struct cli *cli)
{
    const struct cli_options *o = &cli->options;
    const char *input = o->output ? cli_overwrites(cli, o->output) : NULL;
    if (input) {
        cli_error("the output '%s' is %s", o->output, input);
        return CLI_USAGE;
    }
    if (cli_output_open(&cli->output, o->output))
        return CLI_DONE;
    cli_error("cannot write '%s': %s", o->output, term_error_text(cli->output.error));
    return CLI_INTERNAL;
}

/* A folder, where the rows are tables and go into one. */
static int open_output(struct cli *cli)
{
    const char *output = cli->options.output;
    if (!cli_is_table(&cli->options) || !output ||
        (!cli->several && !term_is_folder(output) && !cli_ends_in_slash(output)))
        return cli_open_bytes(cli);
    return cli_tables_open(cli);
}

static bool close_output(struct cli *cli, bool keep)
{
    return cli->tables ? cli_tables_close(cli, keep) : cli_output_close(&cli->output, keep);
}

int cli_open_report(struct cli *cli)
{
    struct kda_error err;
    const struct cli_options *o = &cli->options;
    int code = open_output(cli);
    if (code != CLI_DONE)
        return code;
    bool terminal = cli->output.file == stdout && term_is_terminal(stdout);
    const char *no_color = term_variable("NO_COLOR");
    struct kda_report_options options = {
        .format = o->format,
        .image = cli->image ? o->positional[0] : NULL,
        .grep = o->grep,
        .limit = o->limit,
        .width = terminal ? term_width(stdout) : 0,
        .color = terminal && !o->no_color && !(no_color && *no_color),
        .verbose = o->verbose,
        .fitted = cli->fit != NULL,
        .table = cli->tables ? cli_tables_kind : NULL,
    };
    enum kda_status status =
        cli->tables ? kda_report_open(&options, cli_tables_write, cli->tables, &cli->report, &err)
                    : kda_report_open(&options, cli_output_write, &cli->output, &cli->report, &err);
    if (status == KDA_OK)
        return CLI_DONE;
    cli_error_of(&err);
    (void)close_output(cli, false);
    return err.status == KDA_USAGE ? CLI_USAGE : CLI_INTERNAL;
}

static void show_statistics(const struct cli *cli)
{
    for (size_t i = 0; i < cli->phase_count; i++)
        (void)fprintf(stderr, "stat %s %.0f\n", cli->phases[i].name, cli->phases[i].seconds * 1e6);
    (void)fprintf(stderr, "stat total_us %.0f\n", (term_seconds() - cli->start) * 1e6);
    if (cli->image) {
        const struct kda_image_stats *stats = kda_image_stats(cli->image);
        (void)fprintf(stderr, "stat file_reads %llu\n", (unsigned long long)stats->reads);
        (void)fprintf(stderr, "stat file_bytes %llu\n", (unsigned long long)stats->bytes);
        (void)fprintf(stderr, "stat pages_read %llu\n", (unsigned long long)stats->pages_read);
    }
    if (cli->kernel)
        (void)fprintf(stderr, "stat pages_touched %llu\n",
                      (unsigned long long)kda_kernel_pages_touched(cli->kernel));
    if (cli->etw)
        (void)fprintf(stderr, "stat pages_floor %llu\n",
                      (unsigned long long)kda_etw_footprint(cli->etw));
    (void)fprintf(stderr, "stat peak_kib %llu\n", (unsigned long long)term_peak_kib());
}

/* A broken pipe is how `| head` ends a run: no message, only the code. */
static void output_failed(const struct cli *cli)
{
    if (!term_is_broken_pipe(cli->output.error))
        cli_error("cannot write '%s': %s",
                  cli->options.output ? cli->options.output : "standard output",
                  term_error_text(cli->output.error));
}

static int end_output(struct cli *cli)
{
    struct kda_error err = {0};
    enum kda_status status = kda_report_close(cli->report, &err);
    cli->report = NULL;
    bool told = cli->tables && status == KDA_IO; /* by the file that failed */
    bool written = close_output(cli, status == KDA_OK) || told;
    if (status == KDA_OK && written)
        return CLI_DONE;
    if (cli->output.error)
        output_failed(cli);
    else if (status != KDA_OK && !told)
        cli_error_of(&err);
    return status == KDA_USAGE ? CLI_USAGE : CLI_INTERNAL;
}

static void note_gaps(const struct cli *cli, const struct kda_gaps *gaps, bool listed)
{
    size_t count = gaps->count + gaps->dropped;
    cli_note(cli, "incomplete: %zu gap%s%s", count,
             count == 1 ? " where memory is missing or damaged"
                        : "s where memory is missing or damaged",
             listed ? "" : " (-v lists them)");
}

static void list_gaps(const struct cli *cli, const struct kda_gaps *gaps)
{
    for (size_t i = 0; i < gaps->count; i++)
        cli_note(cli, "gap: %s at 0x%llx: %s", gaps->items[i].what,
                 (unsigned long long)gaps->items[i].va, gaps->items[i].text);
}

int cli_finish_bytes(struct cli *cli, int code)
{
    const struct kda_gaps *gaps = cli->kernel ? kda_kernel_gaps(cli->kernel) : NULL;
    if (!cli_output_close(&cli->output, code == CLI_DONE) && code == CLI_DONE)
        code = CLI_INTERNAL;
    cli_phase(cli, "write_us");
    if (cli->output.error)
        output_failed(cli);
    if (gaps && cli->options.verbose)
        list_gaps(cli, gaps);
    if (gaps && code == CLI_DONE && kda_gaps_any(gaps)) {
        note_gaps(cli, gaps, cli->options.verbose);
        code = CLI_INCOMPLETE;
    }
    if (cli->options.verbose)
        show_statistics(cli);
    return code;
}

int cli_finish(struct cli *cli, int code)
{
    const struct kda_gaps *gaps = cli->kernel ? kda_kernel_gaps(cli->kernel) : NULL;
    bool incomplete = gaps && kda_gaps_any(gaps);
    /* A table of text or csv holds one kind; -v asks for the gaps as well. */
    bool listed = cli->options.verbose || (is_json(cli) && !cli->events_only) || cli->tables;
    bool apart = cli_is_table(&cli->options) && !cli->tables;
    if (incomplete && listed && apart)
        list_gaps(cli, gaps);
    else if (incomplete && listed)
        kda_report_gaps(cli->report, gaps);
    uint64_t skipped = kda_report_skipped(cli->report);
    int output = end_output(cli);
    cli_phase(cli, "report_us");
    if (output == CLI_DONE && skipped > 0)
        cli_note(cli, "%llu more rows were kept back by --limit", (unsigned long long)skipped);
    if (output == CLI_DONE && incomplete)
        note_gaps(cli, gaps, listed);
    if (cli->options.verbose)
        show_statistics(cli);
    if (output != CLI_DONE)
        return output;
    return code == CLI_DONE && incomplete ? CLI_INCOMPLETE : code;
}

void cli_close(struct cli *cli)
{
    if (cli->report) {
        (void)!kda_report_close(cli->report, NULL);
        (void)close_output(cli, false);
    }
    kda_etw_free(cli->etw);
    kda_fit_free(cli->fit);
    kda_kernel_close(cli->kernel);
    kda_image_close(cli->image);
    kda_symbols_free_path(cli->fetched);
}
