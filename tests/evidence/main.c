/*
 * kda-evidence IMAGE [--symbols none] [--audit] [--pages]
 *
 * Runs `kda map -f jsonl --all` over damaged copies of one image, in one process. Standard input
 * has a case per line: words of damage, or none for the image as it is.
 *
 *   -PFN        the page is missing
 *   zPFN        the page is zeros
 *   APFN        the page is filled with 0x41
 *   =PFN:OTHER  the page has the bytes of another one
 *   @PA:VALUE   the qword at a physical address has this value
 *
 * All numbers are hex. The first case is the one that others are compared with. For each case:
 *
 *   case N CODE    CODE is the exit code of `kda map`
 *   +{row}         a row that the first case does not have
 *   -NUMBER        a row of the first case that is not there
 *   end PAGES      pages read
 *
 * With --pages the first case is followed by "read PFN" and "scanned PFN" lines: the pages that
 * were read one by one, and those that only long reads took.
 *
 * kda-evidence IMAGE --memory OUT writes physical memory, and a byte per page (1 = present) behind
 * it.
 *
 * Judging is done elsewhere (evidence.py): this program knows no truth.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "kda/callbacks.h"
#include "lines.h"
#include "overlay.h"

#define LINE_MAX_BYTES (1u << 20)
/* A run takes a hundredth of a second; one that takes this long hangs, and ends the program. */
#define CASE_SECONDS 30u

struct options {
    const char *image, *symbols, *memory;
    bool audit, pages;
};

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--symbols") == 0 && i + 1 < argc)
            options->symbols = argv[++i];
        else if (strcmp(argv[i], "--memory") == 0 && i + 1 < argc)
            options->memory = argv[++i];
        else if (strcmp(argv[i], "--audit") == 0)
            options->audit = true;
        else if (strcmp(argv[i], "--pages") == 0)
            options->pages = true;
        else if (argv[i][0] != '-' && !options->image)
            options->image = argv[i];
        else
            return false;
    }
    return options->image != NULL;
}

/* What the commands `processes` and `callbacks` show where there is no model. */
static void emit_without_model(struct cli *cli, const struct kda_error *why)
{
    struct kda_error err;
    struct kda_gaps gaps;
    kda_gaps_init(&gaps);
    kda_gaps_add(&gaps, "image", why->has_where ? why->where : 0, why->status, "%s", why->text);
    kda_report_gaps(cli->report, &gaps);
    kda_gaps_deinit(&gaps);
    const struct kda_process *processes;
    size_t count;
    if (kda_processes(cli->kernel, &processes, &count, &err) == KDA_OK) {
        if (kda_etw_map_silos(cli->kernel, &cli->etw, &err) != KDA_OK)
            cli->etw = NULL;
        kda_report_processes(cli->report, processes, count, cli->etw, NULL);
    }
    struct kda_callbacks *callbacks;
    if (kda_callbacks_read(cli->kernel, &callbacks, &err) == KDA_OK) {
        for (size_t i = 0; i < callbacks->count; i++)
            kda_report_callback(cli->report, &callbacks->rows[i]);
        kda_callbacks_free(callbacks);
    }
}

static void emit_audit(struct cli *cli)
{
    struct kda_audit *audit;
    struct kda_audit_options options = {0};
    if (kda_audit_run(cli->kernel, cli->etw, &options, &audit, NULL) != KDA_OK)
        return;
    size_t count;
    const struct kda_audit_finding *const *findings = kda_audit_findings(audit, &count);
    for (size_t i = 0; i < count; i++)
        kda_report_audit_finding(cli->report, findings[i]);
    const struct kda_unchecked *open = kda_audit_unchecked(audit, &count);
    for (size_t i = 0; i < count; i++)
        kda_report_unchecked(cli->report, &open[i]);
    kda_audit_free(audit);
}

/* As cli_open_etw and cli_run_map, over an image that is open already. */
static int emit_rows(struct cli *cli, const struct options *options, struct lines *lines)
{
    struct kda_error err = {0};
    int code = cli_open_kernel(cli, &err);
    if (code == CLI_DONE)
        code = cli_load_symbols(cli, &err);
    if (code != CLI_DONE)
        return code;
    struct kda_report_options report = {.format = "jsonl", .fitted = cli->fit != NULL};
    if (kda_report_open(&report, lines_write, lines, &cli->report, NULL) != KDA_OK)
        return CLI_INTERNAL;
    enum kda_status status = kda_etw_map(cli->kernel, &cli->etw, &err);
    if (status != KDA_OK) {
        cli->etw = NULL;
        emit_without_model(cli, &err);
        if (status == KDA_NO_SYMBOL)
            return CLI_SYMBOLS;
        return status == KDA_NO_MEMORY ? CLI_INTERNAL : CLI_INCOMPLETE;
    }
    struct kda_selection selection = {.all = true};
    cli_emit_map(cli, &selection);
    if (options->audit)
        emit_audit(cli);
    struct kda_gaps *gaps = kda_kernel_gaps(cli->kernel);
    kda_report_gaps(cli->report, gaps);
    return kda_gaps_any(gaps) ? CLI_INCOMPLETE : CLI_DONE;
}

static int run(struct overlay *overlay, const struct options *options, struct lines *lines)
{
    struct cli cli;
    memset(&cli, 0, sizeof(cli));
    cli.image = overlay_image(overlay);
    cli.options.symbols = options->symbols;
    cli.options.quiet = true;
    int code = emit_rows(&cli, options, lines);
    enum kda_status status = kda_report_close(cli.report, NULL);
    cli.report = NULL;
    cli.image = NULL; /* the overlay's */
    cli_close(&cli);
    return status == KDA_OK ? code : CLI_INTERNAL;
}

static void tell_pages(const struct overlay *overlay)
{
    for (uint64_t pfn = 0; pfn < overlay_frames(overlay); pfn++)
        if (overlay_touched(overlay, pfn) && overlay_has(overlay, pfn))
            (void)printf("%s %" PRIx64 "\n",
                         overlay_touched(overlay, pfn) & OVERLAY_READ ? "read" : "scanned", pfn);
}

static uint64_t count_pages(const struct overlay *overlay)
{
    uint64_t count = 0;
    for (uint64_t pfn = 0; pfn < overlay_frames(overlay); pfn++)
        count += overlay_touched(overlay, pfn) != 0;
    return count;
}

static bool damage(struct overlay *overlay, char *text)
{
    char *rest = text;
    for (char *word; (word = strtok_r(rest, " \n", &rest)) != NULL;)
        if (!overlay_change(overlay, word)) {
            (void)fprintf(stderr, "no such change: %s\n", word);
            return false;
        }
    return true;
}

static int run_cases(struct overlay *overlay, const struct options *options)
{
    struct first_run *first = NULL;
    struct lines lines = {0};
    char *text = malloc(LINE_MAX_BYTES);
    int code = text ? 0 : 1;
    for (uint64_t number = 0; code == 0 && fgets(text, LINE_MAX_BYTES, stdin); number++) {
        if (!damage(overlay, text)) {
            code = 2;
            break;
        }
        overlay_forget(overlay);
        lines.size = 0;
        (void)alarm(CASE_SECONDS);
        int ended = run(overlay, options, &lines);
        (void)alarm(0);
        (void)printf("case %" PRIu64 " %d\n", number, ended);
        lines_tell(&lines, first);
        if (number == 0 && options->pages)
            tell_pages(overlay);
        (void)printf("end %" PRIu64 "\n", count_pages(overlay));
        (void)fflush(stdout);
        overlay_undo(overlay);
        if (number == 0 && !(first = first_run_make(&lines)))
            code = 1;
    }
    first_run_free(first);
    free(lines.bytes);
    free(text);
    return code;
}

int main(int argc, char **argv)
{
    struct options options = {0};
    if (!parse(argc, argv, &options)) {
        (void)fprintf(stderr, "usage: kda-evidence IMAGE [--symbols none] [--audit] [--pages]\n");
        return 2;
    }
    struct overlay *overlay = overlay_open(options.image);
    if (!overlay)
        return 2;
    int code =
        options.memory ? !overlay_write(overlay, options.memory) : run_cases(overlay, &options);
    overlay_close(overlay);
    return code;
}
