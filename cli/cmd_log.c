/*
 * cmd_log.c - the sensor's logs: kda log show, kda log stats, kda verify.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "term.h"

#define FOLLOW_MS 200u

static int code_of_log(enum kda_status status)
{
    return status == KDA_USAGE                                  ? CLI_USAGE
           : status == KDA_NO_MEMORY || status == KDA_CANCELLED ? CLI_INTERNAL
                                                                : CLI_INPUT;
}

static int fail(const struct kda_error *err)
{
    cli_error_of(err);
    return code_of_log(err->status);
}

/* What a run over lines needs. */
struct log_run {
    struct cli *cli;
    struct kda_log *log;
    struct kda_log_filter filter;
    struct kda_log_line line;
    struct kda_log_stats *stats; /* NULL: show */
    uint64_t bad, cut;
    bool stopped;     /* sensor.stop was seen last */
    uint64_t next_id; /* of the line that follows; 0: none was seen */
    uint64_t missing; /* lines in files that were gone before they could be followed */
};

static enum kda_status take_line(struct log_run *run, struct kda_error *err)
{
    const struct kda_log_line *line = &run->line;
    run->stopped = line->kind == kda_log_kind_find("sensor.stop", 11);
    if (run->cli->options.follow && line->has_id) {
        if (line->number == 1 && line->file > 0 && run->next_id > 0 && line->id > run->next_id &&
            !kda_log_starts_at(run->log, line->file))
            run->missing += line->id - run->next_id;
        run->next_id = line->id + 1;
    }
    if (!kda_log_matches(&run->filter, line))
        return KDA_OK;
    if (run->stats)
        return kda_log_stats_add(run->stats, line, err);
    kda_report_event(run->cli->report, line);
    return KDA_OK;
}

/* The end of what is there: a log that is being written goes on, in this file or in the next one.
 * *more false: this is the end. */
static enum kda_status wait_for_more(struct log_run *run, bool *more, struct kda_error *err)
{
    const struct cli *cli = run->cli;
    bool found = false;
    *more = cli->options.follow && !run->stopped;
    if (!*more)
        return KDA_OK;
    kda_report_flush(cli->report);
    (void)fflush(cli->output.file);
    enum kda_status status = kda_log_find_next_file(run->log, &found, err);
    if (status == KDA_OK && !found)
        term_sleep_ms(FOLLOW_MS);
    return status;
}

static enum kda_status run_lines(struct log_run *run, struct kda_error *err)
{
    enum kda_status status = KDA_OK;
    bool more = true;
    while (status == KDA_OK && more && !kda_report_failed(run->cli->report)) {
        status = kda_log_next(run->log, &run->line, err);
        if (status != KDA_OK)
            break;
        if (run->line.what == KDA_LOG_LINE)
            status = take_line(run, err);
        else if (run->line.what == KDA_LOG_BAD)
            run->bad++;
        else if (run->line.what == KDA_LOG_CUT)
            run->cut++;
        else
            status = wait_for_more(run, &more, err);
    }
    return status;
}

static void put_count(void *context, const struct kda_log_count *count)
{
    kda_report_count(context, count);
}

static int finish_lines(struct log_run *run, int code)
{
    struct cli *cli = run->cli;
    if (run->stats && code == CLI_DONE)
        kda_log_stats_walk(run->stats, put_count, cli->report);
    if (run->bad > 0)
        cli_note(cli, "%llu line%s skipped that %s no events; 'kda verify' tells which",
                 (unsigned long long)run->bad, run->bad == 1 ? "" : "s",
                 run->bad == 1 ? "is" : "are");
    if (run->missing > 0)
        cli_note(cli, "%llu line%s missing: a file was removed before it could be followed",
                 (unsigned long long)run->missing, run->missing == 1 ? " is" : "s are");
    bool cut = run->cut > 0 && !cli->options.follow;
    if (cut)
        cli_note(cli, "the log ends within a line: it is still being written, or was cut off");
    return code == CLI_DONE && (run->bad > 0 || run->missing > 0 || cut) ? CLI_INCOMPLETE : code;
}

static int run_log(struct log_run *run, bool stats)
{
    struct cli *cli = run->cli;
    struct kda_error err;
    const struct cli_options *o = &cli->options;
    int code = cli_pick_events(o, &run->filter);
    if (code != CLI_DONE)
        return code;
    if (kda_log_open((const char *const *)(o->words + 1), o->positional_count - 1, &run->log,
                     &err) != KDA_OK)
        return fail(&err);
    if (stats && kda_log_stats_create(&run->stats, &err) != KDA_OK)
        return fail(&err);
    code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    if (run_lines(run, &err) != KDA_OK)
        code = fail(&err);
    return cli_finish(cli, finish_lines(run, code));
}

int cli_run_log(struct cli *cli)
{
    const char *verb = cli->options.positional[0];
    bool stats = strcmp(verb, "stats") == 0;
    if (!stats && strcmp(verb, "show") != 0) {
        cli_error("kda log wants 'show' or 'stats', not '%s'", verb);
        return CLI_USAGE;
    }
    if (stats && cli->options.follow) {
        cli_error("--follow does not apply to 'kda log stats'");
        return CLI_USAGE;
    }
    struct log_run *run = calloc(1, sizeof(*run));
    if (!run) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    run->cli = cli;
    int code = run_log(run, stats);
    kda_log_stats_destroy(run->stats);
    kda_log_close(run->log);
    free(run);
    return code;
}

/* ---- verify ---- */

struct verify_run {
    struct cli *cli;
    uint64_t findings;
    uint64_t shown; /* of the log that is being read */
    size_t logs, incomplete;
};

static void take_finding(void *context, const struct kda_log_finding *finding)
{
    struct verify_run *run = context;
    run->shown++;
    kda_report_finding(run->cli->report, finding);
}

static void take_verdict(void *context, const struct kda_log_verdict *verdict)
{
    struct verify_run *run = context;
    struct cli *cli = run->cli;
    run->logs++;
    run->findings += verdict->findings;
    if (verdict->findings > run->shown)
        cli_note(cli, "%llu more findings are not listed",
                 (unsigned long long)(verdict->findings - run->shown));
    run->shown = 0;
    if (verdict->ending == KDA_LOG_CUT_OFF || !verdict->has_start)
        run->incomplete++;
    if (verdict->ending == KDA_LOG_CUT_OFF && verdict->lines > 0)
        cli_note(cli, "the log is cut off: its last whole line has id %llu%s",
                 (unsigned long long)verdict->last_id,
                 verdict->cut_line ? ", half a line follows" : "");
    if (!verdict->has_start && verdict->lines > 0)
        cli_note(cli, "the log begins with id %llu: older files are missing",
                 (unsigned long long)verdict->first_id);
    kda_report_log(cli->report, verdict);
    if (cli->options.verbose || (cli->options.format && strcmp(cli->options.format, "text") != 0))
        kda_report_accounts(cli->report, verdict);
}

static bool take_progress(void *context, uint64_t done, uint64_t total)
{
    struct verify_run *run = context;
    return cli_progress(&run->cli->progress, done, total);
}

int cli_run_verify(struct cli *cli)
{
    struct kda_error err;
    struct kda_log *log = NULL;
    struct verify_run run = {.cli = cli};
    const struct cli_options *o = &cli->options;
    if (kda_log_open((const char *const *)o->words, o->positional_count, &log, &err) != KDA_OK)
        return fail(&err);
    int code = cli_open_report(cli);
    if (code != CLI_DONE) {
        kda_log_close(log);
        return code;
    }
    const struct kda_log_listener listener = {
        .finding = take_finding,
        .verdict = take_verdict,
        .progress = take_progress,
        .context = &run,
    };
    cli_progress_begin(cli, "verifying");
    if (kda_log_verify(log, &listener, &err) != KDA_OK)
        code = fail(&err);
    cli_progress_end(cli);
    kda_log_close(log);
    if (code == CLI_DONE)
        code = run.findings > 0 ? CLI_FINDINGS : run.incomplete > 0 ? CLI_INCOMPLETE : CLI_DONE;
    return cli_finish(cli, code);
}
