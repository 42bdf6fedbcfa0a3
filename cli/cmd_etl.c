/*
 * cmd_etl.c - trace files: kda etl info, kda etl stats.
 */
#include "cli.h"

#include <string.h>

static int code_of_etl(enum kda_status status)
{
    return status == KDA_NO_MEMORY ? CLI_INTERNAL : CLI_INPUT;
}

static int fail(const struct kda_error *err)
{
    cli_error_of(err);
    return code_of_etl(err->status);
}

struct etl_run {
    struct cli *cli;
    const char *path, *name;
    struct kda_etl *etl;
    struct kda_etl_stats *stats; /* NULL: info */
    struct kda_report_trace_totals totals;
    uint64_t damages;
};

static void note_time(struct etl_run *run, const struct kda_etl_record *record)
{
    uint64_t time;
    if (!record->has_time || !kda_etl_time(run->etl, record->raw_time, &time))
        return;
    if (run->totals.first_time == 0 || time < run->totals.first_time)
        run->totals.first_time = time;
    if (time > run->totals.last_time)
        run->totals.last_time = time;
}

/* All records once, in the order of the file: counts do not ask for the order of time. */
static enum kda_status read_records(struct etl_run *run, struct kda_error *err)
{
    struct cli *cli = run->cli;
    const struct kda_etl_record *record;
    uint64_t size = kda_etl_info(run->etl)->file_size;
    enum kda_status status;
    kda_etl_rewind(run->etl, KDA_ETL_FILE_ORDER);
    cli_progress_begin(cli, "reading records");
    while ((status = kda_etl_next(run->etl, &record, err)) == KDA_OK && record) {
        run->totals.records++;
        note_time(run, record);
        if (run->stats)
            status = kda_etl_stats_add(run->stats, record, err);
        if (status != KDA_OK)
            break;
        if (run->totals.records % 65536 == 0)
            (void)cli_progress(&cli->progress, record->off < size ? record->off : size, size);
    }
    cli_progress_end(cli);
    return status;
}

static void put_count(void *context, const struct kda_etl_count *count)
{
    struct etl_run *run = context;
    kda_report_trace_count(run->cli->report, run->name, count);
}

static void put_info(struct etl_run *run)
{
    struct kda_report *report = run->cli->report;
    bool text = cli_is_text(run->cli);
    kda_report_trace(report, run->name, run->etl, &run->totals);
    if (!text || kda_etl_session_count(run->etl) > 1)
        kda_report_trace_sessions(report, run->name, run->etl);
    kda_report_trace_cpus(report, run->name, run->etl);
    kda_report_trace_damages(report, run->name, run->etl);
}

static void note_damage(struct etl_run *run)
{
    size_t count = kda_etl_damage_count(run->etl);
    run->damages += count;
    if (count > 0)
        cli_note(run->cli, "%s: %zu damaged place%s; %s", run->name, count, count == 1 ? "" : "s",
                 run->stats                   ? "'kda etl info' lists them"
                 : count > KDA_ETL_MAX_DAMAGE ? "the first are listed"
                                              : "each is listed");
    if (!kda_etl_info(run->etl)->has_header)
        cli_note(run->cli, "%s: the first record is damaged: there is no clock", run->name);
}

static enum kda_status run_file(struct etl_run *run, struct kda_error *err)
{
    memset(&run->totals, 0, sizeof(run->totals));
    enum kda_status status = kda_etl_open(run->path, &run->etl, err);
    if (status == KDA_OK)
        status = read_records(run, err);
    if (status != KDA_OK)
        return status;
    run->name = kda_etl_name(run->etl);
    if (run->stats) {
        kda_report_trace_total(run->cli->report, run->name, run->totals.records);
        kda_etl_stats_walk(run->stats, put_count, run);
    } else {
        put_info(run);
    }
    note_damage(run);
    return KDA_OK;
}

static int run_files(struct cli *cli, bool stats)
{
    struct kda_error err;
    struct etl_run run = {.cli = cli};
    enum kda_status status = KDA_OK;
    for (size_t i = 1; i < cli->options.positional_count && status == KDA_OK; i++) {
        run.path = cli->options.words[i];
        if (stats)
            status = kda_etl_stats_create(&run.stats, &err);
        if (status == KDA_OK)
            status = run_file(&run, &err);
        kda_etl_stats_destroy(run.stats);
        kda_etl_close(run.etl);
        run.stats = NULL;
        run.etl = NULL;
    }
    if (status != KDA_OK)
        return fail(&err); /* an output file stays as it was */
    return cli_finish(cli, run.damages > 0 ? CLI_INCOMPLETE : CLI_DONE);
}

int cli_run_etl(struct cli *cli)
{
    const char *verb = cli->options.positional[0];
    bool stats = strcmp(verb, "stats") == 0;
    if (!stats && strcmp(verb, "info") != 0) {
        cli_error("kda etl wants 'info' or 'stats', not '%s'", verb);
        return CLI_USAGE;
    }
    cli->several = !stats;
    int code = stats ? CLI_DONE : cli_want_folder(&cli->options, "etl info");
    if (code == CLI_DONE)
        code = cli_open_report(cli);
    return code != CLI_DONE ? code : run_files(cli, stats);
}
