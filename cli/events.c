/*
 * events.c - events of traces: what options pick, and the way from a record to the report.
 */
#include "cli.h"

#include <string.h>

static bool parse_time(const char *name, const char *text, uint64_t *ret)
{
    if (!text || kda_log_time_parse(text, strlen(text), ret))
        return true;
    cli_error("--%s wants a time like 2026-11-29T21:04:05, not '%s'", name, text);
    return false;
}

int cli_pick_events(const struct cli_options *o, struct kda_log_filter *filter)
{
    struct kda_error err;
    memset(filter, 0, sizeof(*filter));
    filter->image = o->image;
    filter->has_pid = o->pid != NULL;
    if (o->pid && !cli_parse_number(o->pid, 0, &filter->pid)) {
        cli_error("--pid wants a number, not '%s'", o->pid);
        return CLI_USAGE;
    }
    if (!parse_time("since", o->since, &filter->since) ||
        !parse_time("until", o->until, &filter->until))
        return CLI_USAGE;
    if (o->kind && kda_log_filter_kinds(o->kind, &filter->kinds, &err) != KDA_OK) {
        cli_error_of(&err);
        return err.status == KDA_USAGE ? CLI_USAGE : CLI_INTERNAL;
    }
    return CLI_DONE;
}

int cli_events_begin(struct cli_events *events, struct cli *cli)
{
    struct kda_error err;
    struct kda_log_filter filter;
    const struct cli_options *o = &cli->options;
    const struct kda_decode_options options = {.provider_name = kda_provider_name, .raw = o->raw};
    memset(events, 0, sizeof(*events));
    events->cli = cli;
    int code = cli_pick_events(o, &filter);
    if (code != CLI_DONE)
        return code;
    enum kda_status status = kda_etl_decoder_create(&options, &events->decoder, &err);
    if (status == KDA_OK && o->manifest)
        status = kda_etl_decoder_add_manifest(events->decoder, o->manifest, &err);
    if (status != KDA_OK) {
        cli_error_of(&err);
        return status == KDA_NO_MEMORY ? CLI_INTERNAL : CLI_INPUT;
    }
    kda_etl_decoder_filter(events->decoder, &(struct kda_decode_filter){
                                                .kinds = filter.kinds,
                                                .has_pid = filter.has_pid,
                                                .pid = filter.pid,
                                                .provider = o->provider,
                                                .image = filter.image,
                                                .since = filter.since,
                                                .until = filter.until,
                                            });
    return CLI_DONE;
}

static bool put(struct cli_events *events, const struct kda_event *event, uint64_t id)
{
    struct cli *cli = events->cli;
    struct kda_log_line line;
    size_t size;
    if (!event)
        return true;
    const char *text = kda_etl_decoder_line(events->decoder, event, id, &size);
    if (!text)
        return false;
    /* The line as it is needs no look at its members. */
    if (cli->tap) {
        kda_log_parse(text, size, &line);
        return cli->tap(cli->tap_context, &line);
    }
    if (cli->options.format && strcmp(cli->options.format, "jsonl") == 0 && !cli->options.grep) {
        line.text = text;
        line.size = size - 1;
    } else {
        kda_log_parse(text, size, &line);
    }
    kda_report_event(cli->report, &line);
    return !kda_report_failed(cli->report);
}

bool cli_events_put(struct cli_events *events, const struct kda_etl_record *record,
                    const struct kda_decode_place *place)
{
    const struct kda_event *event = kda_etl_decoder_decode(events->decoder, record, place);
    events->picked += event != NULL;
    return put(events, event, events->id++);
}

bool cli_events_lose(struct cli_events *events, const struct kda_decode_loss *loss)
{
    events->losses++;
    return put(events, kda_etl_decoder_loss(events->decoder, loss), events->id++);
}

void cli_events_note(const struct cli_events *events)
{
    const uint64_t seen = events->id - events->losses;
    if (seen > 0 && events->picked == 0)
        cli_note(events->cli, "none of %llu event%s is what the options pick",
                 (unsigned long long)seen, seen == 1 ? "" : "s");
    if (events->losses > 0)
        cli_note(events->cli, "incomplete: %llu sensor.loss line%s",
                 (unsigned long long)events->losses,
                 events->losses == 1 ? " tells what is missing" : "s tell what is missing");
}

void cli_events_end(struct cli_events *events)
{
    struct kda_decode_learned learned;
    if (!events->decoder)
        return;
    kda_etl_decoder_learned(events->decoder, &learned);
    if (learned.damaged > 0)
        cli_note(events->cli, "%llu description%s of events could not be used; the first: %s",
                 (unsigned long long)learned.damaged, learned.damaged == 1 ? "" : "s",
                 learned.first_problem);
    kda_etl_decoder_destroy(events->decoder);
    events->decoder = NULL;
}
