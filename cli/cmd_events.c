/*
 * cmd_events.c - kda events: the events of trace files in the order of time.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define CLI_MAX_TRACES 1024u

/* One file: its next record waits here until it is the oldest of all. */
struct trace {
    const char *name; /* of the file, without folders */
    struct kda_etl *etl;
    const struct kda_etl_record *record; /* NULL: at its end */
    struct kda_decode_place place;
    size_t damages; /* told so far */
};

struct events_run {
    struct cli_events events;
    struct trace *traces;
    size_t count;
    uint64_t done, total; /* bytes, for the progress */
};

static int fail(const struct kda_error *err)
{
    cli_error_of(err);
    return err->status == KDA_NO_MEMORY ? CLI_INTERNAL : CLI_INPUT;
}

/* ---- losses ---- */

/* Damage that came to light since the last call. What was repaired is no loss. */
static bool tell_damage(struct events_run *run, struct trace *trace)
{
    size_t count = kda_etl_damage_count(trace->etl);
    bool fine = true;
    for (; trace->damages < count && fine; trace->damages++) {
        const struct kda_etl_damage *damage = kda_etl_damage_at(trace->etl, trace->damages);
        if (!damage)
            break; /* more than are kept one by one: tell_rest counts them */
        if (damage->lost)
            fine = cli_events_lose(&run->events, &(struct kda_decode_loss){
                                                     .source = KDA_DECODE_ETL,
                                                     .damaged = true,
                                                     .bytes = damage->bytes,
                                                     .off = damage->off,
                                                     .why = damage->why,
                                                     .file = trace->name,
                                                     .time = trace->place.time,
                                                 });
    }
    return fine;
}

/* What the system itself says it has lost, and damage beyond the list. */
static bool tell_rest(struct events_run *run, struct trace *trace)
{
    const struct kda_etl_info *info = kda_etl_info(trace->etl);
    struct kda_decode_loss loss = {
        .source = KDA_DECODE_ETL, .file = trace->name, .time = info->end_time};
    size_t count = kda_etl_damage_count(trace->etl);
    bool fine = true;
    if (info->events_lost || info->buffers_lost) {
        loss.events = info->events_lost;
        loss.buffers = info->buffers_lost;
        loss.why = "the trace header says so";
        fine = cli_events_lose(&run->events, &loss);
    }
    if (fine && (info->events_lost_buffers || info->buffer_lost_buffers) && !info->events_lost &&
        !info->buffers_lost) {
        loss.why = "trace buffers are marked as following on lost ones";
        fine = cli_events_lose(&run->events, &loss);
    }
    if (fine && count > trace->damages) {
        char why[80];
        (void)snprintf(why, sizeof(why), "%zu more damaged places", count - trace->damages);
        loss = (struct kda_decode_loss){.source = KDA_DECODE_ETL,
                                        .damaged = true,
                                        .file = trace->name,
                                        .why = why,
                                        .time = info->end_time};
        fine = cli_events_lose(&run->events, &loss);
    }
    return fine;
}

/* ---- records ---- */

static enum kda_status advance(struct trace *trace, struct kda_error *err)
{
    enum kda_status status = kda_etl_next(trace->etl, &trace->record, err);
    if (status != KDA_OK || !trace->record)
        return status;
    uint64_t time;
    trace->place.has_time = kda_etl_time(trace->etl, trace->record->raw_time, &time);
    /* A record without a time stamp keeps its place behind the one before. */
    if (trace->place.has_time)
        trace->place.time = time;
    return KDA_OK;
}

static enum kda_status learn(struct events_run *run, struct kda_error *err)
{
    struct cli *cli = run->events.cli;
    enum kda_status status = KDA_OK;
    uint64_t records = 0;
    cli_progress_begin(cli, "reading descriptions");
    for (size_t i = 0; i < run->count && status == KDA_OK; i++) {
        const struct kda_etl_record *record = NULL;
        struct kda_etl *etl = run->traces[i].etl;
        uint64_t size = kda_etl_info(etl)->file_size;
        kda_etl_rewind(etl, KDA_ETL_FILE_ORDER);
        while ((status = kda_etl_next(etl, &record, err)) == KDA_OK && record) {
            status = kda_etl_decoder_learn(run->events.decoder, record, err);
            if (status != KDA_OK)
                break;
            if (++records % 65536 == 0)
                (void)cli_progress(&cli->progress,
                                   run->done + (record->off < size ? record->off : size),
                                   run->total);
        }
        run->done += size;
        kda_etl_rewind(etl, KDA_ETL_TIME_ORDER);
    }
    cli_progress_end(cli);
    return status;
}

/* The trace whose record is the oldest; NULL: all are at their end. */
static struct trace *oldest(struct events_run *run)
{
    struct trace *best = NULL;
    for (size_t i = 0; i < run->count; i++) {
        struct trace *trace = &run->traces[i];
        if (trace->record && (!best || trace->place.time < best->place.time))
            best = trace;
    }
    return best;
}

static enum kda_status put_all(struct events_run *run, struct kda_error *err)
{
    enum kda_status status = KDA_OK;
    bool fine = true;
    for (size_t i = 0; i < run->count && status == KDA_OK; i++)
        status = advance(&run->traces[i], err);
    struct trace *trace;
    while (status == KDA_OK && fine && (trace = oldest(run)) != NULL) {
        fine =
            tell_damage(run, trace) && cli_events_put(&run->events, trace->record, &trace->place);
        status = advance(trace, err);
    }
    for (size_t i = 0; i < run->count && status == KDA_OK && fine; i++)
        fine = tell_damage(run, &run->traces[i]) && tell_rest(run, &run->traces[i]);
    if (status == KDA_OK && !fine && !kda_report_failed(run->events.cli->report)) {
        cli_error("out of memory");
        err->status = KDA_NO_MEMORY;
        return KDA_CANCELLED; /* said already */
    }
    return status;
}

/* ---- the command ---- */

static enum kda_status open_traces(struct events_run *run, struct kda_error *err)
{
    const struct cli_options *o = &run->events.cli->options;
    for (size_t i = 0; i < o->positional_count; i++) {
        struct trace *trace = &run->traces[i];
        trace->place.source = KDA_DECODE_ETL;
        enum kda_status status = kda_etl_open(o->words[i], &trace->etl, err);
        if (status != KDA_OK)
            return status;
        run->count++;
        trace->name = kda_etl_name(trace->etl);
        run->total += kda_etl_info(trace->etl)->file_size;
        if (!kda_etl_info(trace->etl)->has_header)
            cli_note(run->events.cli, "%s: the first record is damaged: there is no clock",
                     trace->name);
    }
    return KDA_OK;
}

static int run_events(struct events_run *run)
{
    struct cli *cli = run->events.cli;
    struct kda_error err = {.status = KDA_OK};
    enum kda_status status = open_traces(run, &err);
    if (status != KDA_OK)
        return fail(&err);
    int code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    if (!cli->options.raw)
        status = learn(run, &err);
    cli_phase(cli, "learn_us");
    if (status == KDA_OK)
        status = put_all(run, &err);
    cli_phase(cli, "events_us");
    if (status != KDA_OK) /* an output file stays as it was */
        return status == KDA_CANCELLED ? CLI_INTERNAL : fail(&err);
    cli_events_note(&run->events);
    return cli_finish(cli, run->events.losses > 0 ? CLI_INCOMPLETE : CLI_DONE);
}

/* Options that say something about a memory image only; NULL = none was given. */
static const char *image_option(const struct cli_options *o)
{
    return o->session    ? "--session"
           : o->silo     ? "--silo"
           : o->free     ? "--free"
           : o->symbols  ? "--symbols"
           : o->download ? "--download"
           : o->dtb      ? "--dtb"
                         : NULL;
}

int cli_run_events(struct cli *cli)
{
    struct events_run run = {.count = 0};
    if (!cli_is_trace_file(cli->options.words[0]))
        return cli_run_memory_events(cli);
    const char *misplaced = image_option(&cli->options);
    if (misplaced) {
        cli_error("%s is for memory images; '%s' is a trace file", misplaced,
                  cli->options.words[0]);
        return CLI_USAGE;
    }
    int code = cli_events_begin(&run.events, cli);
    if (code == CLI_DONE && cli->options.positional_count > CLI_MAX_TRACES) {
        cli_error("more than %u files", CLI_MAX_TRACES);
        code = CLI_USAGE;
    }
    run.traces = calloc(cli->options.positional_count, sizeof(*run.traces));
    if (code == CLI_DONE && !run.traces) {
        cli_error("out of memory");
        code = CLI_INTERNAL;
    }
    if (code == CLI_DONE)
        code = run_events(&run);
    for (size_t i = 0; i < run.count; i++)
        kda_etl_close(run.traces[i].etl);
    free(run.traces);
    cli_events_end(&run.events);
    return code;
}
