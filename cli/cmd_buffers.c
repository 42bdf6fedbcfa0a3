/*
 * cmd_buffers.c - trace buffers: the list, and a session's events as an .etl file.
 */
#include "cli.h"

#include <string.h>

#include "trace.h"

static bool write_bytes(void *context, const uint8_t *bytes, size_t size)
{
    return cli_output_write(context, (const char *)bytes, size);
}

/* "-o trace.etl" asks for a trace file, any other name for the list. */
static bool wants_trace(const struct cli *cli)
{
    const char *output = cli->options.output;
    size_t size = output ? strlen(output) : 0;
    return size > 4 && cli_same_text(output + size - 4, ".etl");
}

static void note_written(const struct cli *cli, const struct trace *trace)
{
    cli_note(cli, "%llu events of %zu buffers written", (unsigned long long)trace->records,
             trace->part_count);
    if (trace->unwritten)
        cli_note(cli, "%llu places were reserved and not written yet",
                 (unsigned long long)trace->unwritten);
    if (trace->damaged)
        cli_note(cli, "%llu places in the buffers hold no record; they were left out",
                 (unsigned long long)trace->damaged);
    if (trace->old_left_out)
        cli_note(cli, "%zu more buffer%s events that were delivered before; --free adds them",
                 trace->old_left_out, trace->old_left_out == 1 ? " holds" : "s hold");
}

static int write_trace(struct cli *cli, const struct kda_selection *selection)
{
    struct trace trace;
    if (selection->session_count != 1) {
        cli_error("a trace file holds one session; %s",
                  selection->session_count == 0 ? "name it behind the image"
                                                : "several silos have it: choose with --silo");
        return CLI_USAGE;
    }
    if (cli->options.format) {
        cli_error("-f is for the list; '%s' will be a trace file", cli->options.output);
        return CLI_USAGE;
    }
    int code = trace_open(cli, selection->sessions[0], &trace);
    if (code != CLI_DONE)
        return code;
    uint64_t room = TRACE_MAX_FILE;
    code = trace_select(&trace, cli->options.free, false, &room);
    cli_phase(cli, "buffers_us");
    if (code == CLI_DONE)
        code = cli_open_bytes(cli);
    if (code == CLI_DONE) {
        code = cli_finish_bytes(cli, trace_write(&trace, write_bytes, &cli->output));
        if (code == CLI_DONE || code == CLI_INCOMPLETE)
            note_written(cli, &trace);
    }
    if (code == CLI_DONE && trace.damaged)
        code = CLI_INCOMPLETE;
    trace_close(&trace);
    return code;
}

static int list(struct cli *cli, const struct kda_selection *selection)
{
    size_t count;
    const struct kda_etw_session *const *sessions = kda_etw_sessions(cli->etw, &count);
    int code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    for (size_t i = 0; i < count && code == CLI_DONE && !kda_report_failed(cli->report); i++) {
        struct trace trace;
        if (!kda_selects_session(selection, sessions[i]))
            continue;
        code = trace_open(cli, sessions[i], &trace);
        if (code != CLI_DONE)
            break;
        for (size_t k = 0; k < trace.row_count; k++)
            kda_report_buffer(cli->report, sessions[i], &trace.rows[k], &trace.facts[k]);
        trace_close(&trace);
    }
    return cli_finish(cli, code);
}

int cli_run_buffers(struct cli *cli)
{
    const struct cli_options *o = &cli->options;
    struct kda_selection selection;
    if (o->session && o->positional[1]) {
        cli_error("the session is named twice: '%s' and --session %s", o->positional[1],
                  o->session);
        return CLI_USAGE;
    }
    if (cli_is_trace_file(o->positional[0])) {
        cli_error("'%s' is a trace file: kda events shows its events, kda etl info its buffers",
                  o->positional[0]);
        return CLI_INPUT;
    }
    int code = cli_open_etw(cli);
    if (code != CLI_DONE)
        return code;
    code = cli_pick(cli, o->session ? o->session : o->positional[1], NULL, &selection);
    if (code != CLI_DONE)
        return code;
    code = wants_trace(cli) ? write_trace(cli, &selection) : list(cli, &selection);
    cli_unpick(&selection);
    return code;
}
