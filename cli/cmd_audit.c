/*
 * cmd_audit.c - kernel callbacks and the audit.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static void note_source(const struct cli *cli, const char *kind,
                        const struct kda_callback_source *source)
{
    if (source->status == KDA_NO_SYMBOL)
        cli_note(cli, "%s callbacks: where they are is not known for this build%s%s", kind,
                 source->why.text[0] ? ": " : "", source->why.text);
    else if (source->by_code)
        cli_note(cli, "%s callbacks: 0x%llx was found by the code that registers them", kind,
                 (unsigned long long)source->va);
}

int cli_run_callbacks(struct cli *cli)
{
    struct kda_callbacks *callbacks;
    struct kda_error err;
    int code = cli_open_all(cli);
    if (code != CLI_DONE)
        return code;
    if (kda_callbacks_read(cli->kernel, &callbacks, &err) != KDA_OK) {
        cli_error_of(&err);
        return CLI_INTERNAL;
    }
    code = cli_open_report(cli);
    for (size_t i = 0; code == CLI_DONE && i < callbacks->count; i++)
        kda_report_callback(cli->report, &callbacks->rows[i]);
    for (unsigned kind = 0; code == CLI_DONE && kind < KDA_CALLBACK_KINDS; kind++)
        note_source(cli, kda_callback_kind_name(kind), &callbacks->sources[kind]);
    if (code == CLI_DONE)
        code = cli_finish(cli, CLI_DONE);
    kda_callbacks_free(callbacks);
    return code;
}

/* ---- audit ---- */

/* A text view keeps what could not be checked for -v: it can be one line per object. */
static bool lists_unchecked(const struct cli *cli)
{
    return !cli_is_text(cli) || cli->options.verbose;
}

static size_t report_audit(struct cli *cli, const struct kda_audit *audit, enum kda_severity shown,
                           enum kda_severity counted)
{
    size_t count, alarming = 0;
    const struct kda_audit_finding *const *findings = kda_audit_findings(audit, &count);
    for (size_t i = 0; i < count; i++) {
        alarming += findings[i]->severity >= counted;
        /* People read it once, where it is told with the others. */
        if (findings[i]->severity >= shown && !(findings[i]->joined_to && cli_is_text(cli)))
            kda_report_audit_finding(cli->report, findings[i]);
    }
    const struct kda_unchecked *unchecked = kda_audit_unchecked(audit, &count);
    for (size_t i = 0; lists_unchecked(cli) && i < count; i++)
        kda_report_unchecked(cli->report, &unchecked[i]);
    const struct kda_check_result *results = kda_audit_results(audit, &count);
    for (size_t i = 0; i < count; i++)
        kda_report_check_result(cli->report, &results[i]);
    return alarming;
}

static void sum_up(const struct cli *cli, const struct kda_audit *audit)
{
    size_t checks, found = 0, open = 0, passed = 0;
    const struct kda_check_result *results = kda_audit_results(audit, &checks);
    for (size_t i = 0; i < checks; i++) {
        found += results[i].outcome == KDA_CHECK_FOUND;
        open += results[i].outcome == KDA_CHECK_NOT_CHECKED;
        passed += results[i].outcome == KDA_CHECK_PASSED;
    }
    cli_note(cli, "%zu checks: %zu with findings, %zu passed, %zu could not be decided%s", checks,
             found, passed, open,
             open && !lists_unchecked(cli) ? " (-v lists what was not checked)" : "");
    if (kda_audit_dropped(audit))
        cli_note(cli, "%zu more findings or open objects were not kept", kda_audit_dropped(audit));
}

static int parse_severity(const char *text, enum kda_severity *ret)
{
    if (!text || kda_severity_parse(text, ret))
        return CLI_DONE;
    cli_error("--min-severity wants info, low, medium, high or critical, not '%s'", text);
    return CLI_USAGE;
}

/* ---- baseline ---- */

/* Rows of a map on their way into a baseline: whole lines are handed on. */
struct map_rows {
    struct kda_baseline *baseline;
    char *bytes;
    size_t used, capacity;
    enum kda_status status;
    struct kda_error err;
};

static bool take_rows(void *context, const char *bytes, size_t size)
{
    struct map_rows *rows = context;
    if (size > rows->capacity - rows->used) {
        size_t wanted = (rows->used + size) * 2;
        char *more = wanted > rows->used ? realloc(rows->bytes, wanted) : NULL;
        if (!more)
            return false;
        rows->bytes = more;
        rows->capacity = wanted;
    }
    memcpy(rows->bytes + rows->used, bytes, size);
    rows->used += size;
    size_t whole = rows->used;
    while (whole > 0 && rows->bytes[whole - 1] != '\n')
        whole--;
    rows->status = kda_baseline_read(rows->baseline, rows->bytes, whole, &rows->err);
    memmove(rows->bytes, rows->bytes + whole, rows->used - whole);
    rows->used -= whole;
    return rows->status == KDA_OK;
}

static bool callbacks_are_whole(struct cli *cli)
{
    struct kda_callbacks *callbacks;
    bool whole = true;
    if (kda_callbacks_read(cli->kernel, &callbacks, NULL) != KDA_OK)
        return false;
    for (size_t i = 0; i < KDA_CALLBACK_KINDS; i++)
        whole = whole && callbacks->sources[i].status == KDA_OK && callbacks->sources[i].complete;
    kda_callbacks_free(callbacks);
    return whole;
}

/* The map of an open image as a baseline. */
static int map_of(struct cli *cli, struct kda_baseline *baseline)
{
    struct map_rows rows = {.baseline = baseline};
    struct kda_report_options options = {.format = "jsonl"};
    struct kda_selection everything = {.all = true};
    struct kda_report *own = cli->report;
    struct kda_error err;
    if (kda_report_open(&options, take_rows, &rows, &cli->report, &err) != KDA_OK) {
        cli->report = own;
        cli_error_of(&err);
        return CLI_INTERNAL;
    }
    cli_emit_map(cli, &everything);
    enum kda_status status = kda_report_close(cli->report, &err);
    cli->report = own;
    free(rows.bytes);
    if (status != KDA_OK) {
        cli_error_of(rows.status != KDA_OK ? &rows.err : &err);
        return CLI_INTERNAL;
    }
    const struct kda_gaps *gaps = kda_kernel_gaps(cli->kernel);
    kda_baseline_add_gaps(baseline, gaps->count + gaps->dropped);
    if (callbacks_are_whole(cli))
        kda_baseline_cover_callbacks(baseline);
    return CLI_DONE;
}

/* OTHER is a saved map or an image. */
static int read_other(struct cli *cli, struct kda_baseline *baseline)
{
    struct kda_error err;
    enum kda_status status = kda_baseline_load(baseline, cli->options.baseline, &err);
    if (status == KDA_OK)
        return CLI_DONE;
    if (status != KDA_NOT_MINE) {
        cli_error_of(&err);
        return status == KDA_NO_MEMORY || status == KDA_LIMIT ? CLI_INTERNAL : CLI_INPUT;
    }
    struct cli other = {.options = cli->options, .command = cli->command, .start = cli->start};
    other.options.positional[0] = cli->options.baseline;
    other.options.output = NULL;
    int code = cli_open_etw(&other);
    if (code == CLI_DONE)
        code = map_of(&other, baseline);
    cli_close(&other);
    return code;
}

static void put_change(void *context, const struct kda_change *change)
{
    struct cli *cli = context;
    kda_report_change(cli->report, change);
}

/* Kinds of callbacks that one side does not know are left out, and that is said. */
static void note_callbacks(const struct cli *cli, const struct kda_baseline *before,
                           const struct kda_baseline *after)
{
    for (unsigned kind = 0; kind < KDA_CALLBACK_KINDS; kind++) {
        const char *name = kda_callback_kind_name(kind);
        if (!kda_baseline_covers(before, name) || !kda_baseline_covers(after, name))
            cli_note(cli, "%s callbacks are not compared: %s says nothing about them", name,
                     kda_baseline_covers(after, name) ? "the baseline" : "the image");
    }
}

/* The two sides of --baseline. */
struct sides {
    struct kda_baseline *before, *after;
    bool saved; /* the image named on the command line is a saved map */
};

static void close_sides(struct sides *sides)
{
    kda_baseline_destroy(sides->before);
    kda_baseline_destroy(sides->after);
}

/* Reads OTHER, and the other side if that is a saved map too: mistakes are told before the work. */
static int open_sides(struct cli *cli, struct sides *sides)
{
    struct kda_error err;
    if (!cli->options.baseline)
        return CLI_DONE;
    if (kda_baseline_create(&sides->before, &err) != KDA_OK ||
        kda_baseline_create(&sides->after, &err) != KDA_OK) {
        cli_error_of(&err);
        return CLI_INTERNAL;
    }
    enum kda_status status = kda_baseline_load(sides->after, cli->options.positional[0], &err);
    sides->saved = status == KDA_OK;
    if (status != KDA_OK && status != KDA_NOT_MINE) {
        cli_error_of(&err);
        return status == KDA_NO_MEMORY || status == KDA_LIMIT ? CLI_INTERNAL : CLI_INPUT;
    }
    return read_other(cli, sides->before);
}

/* Rows of what differs; after the report was opened. */
static void report_changes(struct cli *cli, const struct sides *sides)
{
    size_t before = kda_baseline_gaps(sides->before), after = kda_baseline_gaps(sides->after);
    note_callbacks(cli, sides->before, sides->after);
    if (before + after > 0)
        cli_note(cli,
                 "%zu gaps in the baseline, %zu in the image: what they hide looks as if it had "
                 "vanished or appeared",
                 before, after);
    kda_baseline_compare(sides->before, sides->after, put_change, cli);
}

/* Two saved maps: there is no memory to check. */
static int run_saved(struct cli *cli, const struct sides *sides)
{
    int code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    cli_note(cli, "'%s' is a saved map: it is compared; the checks need an image",
             cli->options.positional[0]);
    report_changes(cli, sides);
    return cli_finish(cli, CLI_DONE);
}

/* ---- the command ---- */

struct audit_run {
    enum kda_severity shown, counted;
    struct kda_audit_options options;
    struct kda_expectations *expected;
};

static int parse_options(const struct cli *cli, struct audit_run *run)
{
    const struct cli_options *o = &cli->options;
    struct kda_error err;
    int code = parse_severity(o->min_severity, &run->shown);
    if (code != CLI_DONE)
        return code;
    run->counted = o->min_severity ? run->shown : KDA_SEVERITY_LOW;
    if (o->lost > UINT32_MAX) {
        cli_error("--lost wants a number up to %u", UINT32_MAX);
        return CLI_USAGE;
    }
    run->options.lost_threshold = (uint32_t)o->lost;
    run->options.known_event = kda_etl_known_event;
    if (!o->expect)
        return CLI_DONE;
    if (kda_expectations_load(o->expect, &run->expected, &err) != KDA_OK) {
        cli_error_of(&err);
        return err.status == KDA_NO_MEMORY ? CLI_INTERNAL : CLI_USAGE;
    }
    run->options.expected = kda_expectations_items(run->expected, &run->options.expected_count);
    return CLI_DONE;
}

static int run_audit(struct cli *cli, const struct audit_run *run, const struct sides *sides)
{
    struct kda_audit *audit;
    struct kda_error err;
    int code = cli_open_etw(cli);
    if (code != CLI_DONE)
        return code;
    if (kda_audit_run(cli->kernel, cli->etw, &run->options, &audit, &err) != KDA_OK) {
        cli_error_of(&err);
        return CLI_INTERNAL;
    }
    cli_phase(cli, "audit_us");
    code = cli_open_report(cli);
    if (code == CLI_DONE) {
        size_t alarming = report_audit(cli, audit, run->shown, run->counted);
        if (sides->after)
            code = map_of(cli, sides->after);
        if (sides->after && code == CLI_DONE)
            report_changes(cli, sides);
        if (code == CLI_DONE)
            code = cli_finish(cli, cli->options.exit_code && alarming ? CLI_FINDINGS : CLI_DONE);
        if (code == CLI_DONE || code == CLI_FINDINGS || code == CLI_INCOMPLETE)
            sum_up(cli, audit);
    }
    kda_audit_free(audit);
    return code;
}

int cli_run_audit(struct cli *cli)
{
    struct audit_run run = {.shown = KDA_SEVERITY_INFO};
    struct sides sides = {NULL, NULL, false};
    int code = parse_options(cli, &run);
    if (code == CLI_DONE)
        code = open_sides(cli, &sides);
    if (code == CLI_DONE)
        code = sides.saved ? run_saved(cli, &sides) : run_audit(cli, &run, &sides);
    close_sides(&sides);
    kda_expectations_free(run.expected);
    return code;
}
