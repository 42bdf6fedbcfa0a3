/*
 * cmd_events_memory.c - kda events IMAGE: the events that the trace buffers in memory hold.
 *
 * The buffers of each session become a trace file in memory, so that order, clock and decoding are
 * those of files; the sessions are merged by time.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "trace.h"

/* One session and where its reading stands. */
struct source {
    struct trace trace;
    uint8_t *bytes; /* the file */
    size_t size, capacity;
    struct kda_etl *etl;
    const struct kda_etl_record *record; /* next; NULL: at the end */
    struct kda_decode_place place;
};

struct memory_run {
    struct cli_events events;
    struct kda_selection selection;
    struct source *sources;
    size_t count;
    uint64_t room; /* left for the sessions that come */
};

bool cli_is_trace_file(const char *path)
{
    size_t size = strlen(path);
    return (size > 4 && cli_same_text(path + size - 4, ".etl")) || kda_etl_is_trace(path);
}

static bool keep_bytes(void *context, const uint8_t *bytes, size_t size)
{
    struct source *source = context;
    if (source->capacity - source->size < size) {
        size_t capacity = (source->size + size) * 2;
        uint8_t *grown = realloc(source->bytes, capacity);
        if (!grown)
            return false;
        source->bytes = grown;
        source->capacity = capacity;
    }
    memcpy(source->bytes + source->size, bytes, size);
    source->size += size;
    return true;
}

static int fail(const struct kda_error *err)
{
    cli_error_of(err);
    return CLI_INTERNAL;
}

static int open_source(struct memory_run *run, const struct kda_etw_session *session)
{
    struct cli *cli = run->events.cli;
    struct source *source = &run->sources[run->count];
    struct kda_error err;
    int code = trace_open(cli, session, &source->trace);
    if (code != CLI_DONE)
        return code;
    run->count++;
    code = trace_select(&source->trace, cli->options.free, true, &run->room);
    if (code == CLI_DONE && source->trace.part_count > 0)
        code = trace_write(&source->trace, keep_bytes, source);
    if (code == CLI_DONE && source->trace.part_count > 0 &&
        kda_etl_open_memory(source->bytes, source->size, "memory", &source->etl, &err) != KDA_OK)
        code = fail(&err);
    if (code == CLI_INTERNAL && source->capacity > 0 && source->size == 0)
        cli_error("out of memory");
    source->place.source = KDA_DECODE_MEMORY;
    return code;
}

/* The buffer that a record comes from; the file's first buffer is the header we made. */
static const struct trace_part *part_of(const struct source *source)
{
    uint32_t index = source->record->buffer;
    return index > 0 && index <= source->trace.part_count ? &source->trace.parts[index - 1] : NULL;
}

static enum kda_status advance(struct source *source, struct kda_error *err)
{
    uint64_t time;
    do {
        enum kda_status status = kda_etl_next(source->etl, &source->record, err);
        if (status != KDA_OK)
            return status;
    } while (source->record && !part_of(source));
    if (!source->record)
        return KDA_OK;
    source->place.has_time = kda_etl_time(source->etl, source->record->raw_time, &time);
    if (source->place.has_time)
        source->place.time = time;
    const struct kda_trace_buffer *buffer = part_of(source)->buffer;
    source->place.state = !buffer->old ? NULL : buffer->kernel ? "free" : "read";
    return KDA_OK;
}

static enum kda_status learn(struct memory_run *run, struct kda_error *err)
{
    enum kda_status status = KDA_OK;
    for (size_t i = 0; i < run->count && status == KDA_OK; i++) {
        struct source *source = &run->sources[i];
        const struct kda_etl_record *record = NULL;
        if (!source->etl)
            continue;
        kda_etl_rewind(source->etl, KDA_ETL_FILE_ORDER);
        while ((status = kda_etl_next(source->etl, &record, err)) == KDA_OK && record) {
            status = kda_etl_decoder_learn(run->events.decoder, record, err);
            if (status != KDA_OK)
                break;
        }
        kda_etl_rewind(source->etl, KDA_ETL_TIME_ORDER);
    }
    return status;
}

static struct source *oldest(struct memory_run *run)
{
    struct source *best = NULL;
    for (size_t i = 0; i < run->count; i++) {
        struct source *source = &run->sources[i];
        if (source->record && (!best || source->place.time < best->place.time))
            best = source;
    }
    return best;
}

/* What the session itself counts as lost, and places in its buffers that hold no record. */
static bool tell_losses(struct memory_run *run, const struct source *source)
{
    const struct kda_etw_session *s = source->trace.session;
    uint64_t now = kda_kernel_info(run->events.cli->kernel)->system_time_100ns;
    const char *name = KDA_ETW_HAS(s, S, NAME) ? s->name : NULL;
    char why[96];
    bool fine = true;
    if (s->events_lost || s->buffers_lost)
        fine = cli_events_lose(&run->events,
                               &(struct kda_decode_loss){.source = KDA_DECODE_MEMORY,
                                                         .events = s->events_lost,
                                                         .buffers = s->buffers_lost,
                                                         .why = "the session's counters say so",
                                                         .file = name,
                                                         .time = now});
    if (!fine || source->trace.damaged == 0)
        return fine;
    (void)snprintf(why, sizeof(why), "%llu places in the buffers hold no record",
                   (unsigned long long)source->trace.damaged);
    return cli_events_lose(
        &run->events,
        &(struct kda_decode_loss){
            .source = KDA_DECODE_MEMORY, .damaged = true, .why = why, .file = name, .time = now});
}

static enum kda_status put_all(struct memory_run *run, struct kda_error *err)
{
    enum kda_status status = KDA_OK;
    struct source *source;
    bool fine = true;
    for (size_t i = 0; i < run->count && status == KDA_OK; i++)
        if (run->sources[i].etl)
            status = advance(&run->sources[i], err);
    while (status == KDA_OK && fine && (source = oldest(run)) != NULL) {
        fine = cli_events_put(&run->events, source->record, &source->place);
        status = advance(source, err);
    }
    for (size_t i = 0; i < run->count && status == KDA_OK && fine; i++)
        fine = tell_losses(run, &run->sources[i]);
    if (status == KDA_OK && !fine && !kda_report_failed(run->events.cli->report)) {
        cli_error("out of memory");
        return KDA_CANCELLED; /* said already */
    }
    return status;
}

static void note_rest(const struct memory_run *run)
{
    const struct cli *cli = run->events.cli;
    uint64_t unwritten = 0;
    size_t old = 0;
    for (size_t i = 0; i < run->count; i++) {
        unwritten += run->sources[i].trace.unwritten;
        old += run->sources[i].trace.old_left_out;
    }
    if (unwritten)
        cli_note(cli, "%llu places were reserved and not written yet",
                 (unsigned long long)unwritten);
    if (old)
        cli_note(cli, "%zu more buffer%s events that were delivered before; --free adds them", old,
                 old == 1 ? " holds" : "s hold");
    cli_events_note(&run->events);
}

static int decode(struct memory_run *run)
{
    struct cli *cli = run->events.cli;
    struct kda_error err = {.status = KDA_OK};
    size_t count;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(cli->etw, &count);
    run->sources = calloc(count ? count : 1, sizeof(*run->sources));
    if (!run->sources) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    int code = CLI_DONE;
    for (size_t i = 0; i < count && code == CLI_DONE; i++)
        if (kda_selects_session(&run->selection, sessions[i]))
            code = open_source(run, sessions[i]);
    cli_phase(cli, "buffers_us");
    if (code == CLI_DONE)
        code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    enum kda_status status = cli->options.raw ? KDA_OK : learn(run, &err);
    if (status == KDA_OK)
        status = put_all(run, &err);
    cli_phase(cli, "events_us");
    if (status == KDA_CANCELLED)
        code = CLI_INTERNAL;
    else if (status != KDA_OK)
        code = fail(&err);
    else if (run->events.losses > 0)
        code = CLI_INCOMPLETE;
    if (code == CLI_INTERNAL)
        return code; /* half of the events is no answer: the output is thrown away */
    note_rest(run);
    return cli_finish(cli, code);
}

int cli_run_memory_events(struct cli *cli)
{
    struct memory_run run = {.room = TRACE_MAX_HELD};
    cli->events_only = true;
    if (cli->options.positional_count > 1) {
        cli_error("'%s' is a memory image: name it alone", cli->options.positional[0]);
        return CLI_USAGE;
    }
    int code = cli_events_begin(&run.events, cli);
    if (code == CLI_DONE)
        code = cli_open_etw(cli);
    if (code == CLI_DONE)
        code = cli_pick(cli, cli->options.session, NULL, &run.selection);
    if (code == CLI_DONE) {
        code = decode(&run);
        cli_unpick(&run.selection);
    }
    for (size_t i = 0; i < run.count; i++) {
        kda_etl_close(run.sources[i].etl);
        free(run.sources[i].bytes);
        trace_close(&run.sources[i].trace);
    }
    free(run.sources);
    cli_events_end(&run.events);
    return code;
}
