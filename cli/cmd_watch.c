/*
 * cmd_watch.c - kda watch: the events of the driver as they happen.
 *
 * The driver hands every reader the lines of its log from its first read on, and a
 * sensor.loss line where the reader was too slow; those of the sensor itself come the same way.
 * Neither is ever filtered out here.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "control.h"
#include "lines.h"
#include "term.h"

#define READ_BYTES ((size_t)256 * 1024)

struct watch {
    struct cli *cli;
    const struct host_ops *host;
    struct kda_log_filter filter;
    struct lines lines;
    struct kda_log_line line;
    unsigned loss, stop; /* kinds */
    uint64_t shown, bad, reader_lost, sensor_lost;
    bool stopped; /* sensor.stop has come: the end is no failure */
};

static void add_count(void *context, unsigned kind, uint64_t count)
{
    uint64_t *sum = context;
    (void)kind;
    *sum += count;
}

static void count_loss(struct watch *watch)
{
    const struct kda_log_member *counts = kda_log_find(&watch->line, "lost");
    const struct kda_log_member *scope = kda_log_find(&watch->line, "scope");
    char text[16] = "";
    if (scope)
        (void)kda_log_text(scope, text, sizeof(text));
    if (counts)
        (void)kda_log_counts(counts, add_count,
                             strcmp(text, "reader") == 0 ? &watch->reader_lost
                                                         : &watch->sensor_lost);
}

static void take_line(struct watch *watch, const char *text, size_t size)
{
    struct kda_log_line *line = &watch->line;
    kda_log_parse(text, size, line);
    if (line->what != KDA_LOG_LINE) {
        watch->bad++;
        return;
    }
    if (line->kind == watch->loss)
        count_loss(watch);
    watch->stopped = line->kind == watch->stop;
    if (line->kind != watch->loss && line->kind != watch->stop &&
        !kda_log_matches(&watch->filter, line))
        return;
    watch->shown++;
    kda_report_event(watch->cli->report, line);
}

/* Reads until Ctrl-C (HOST_OK), the end of the driver, or a failure of the output (HOST_OK too: the
 * report remembers). */
static uint32_t read_lines(struct watch *watch)
{
    struct cli *cli = watch->cli;
    const char *text;
    size_t size;
    while (!kda_report_failed(cli->report) && !cli->output.error) {
        char *room = lines_room(&watch->lines, READ_BYTES);
        if (!room)
            return HOST_NO_MEMORY;
        uint32_t error = watch->host->device_read(watch->host->context, room, READ_BYTES, &size);
        if (error == HOST_CANCELLED)
            return HOST_OK;
        if (error != HOST_OK)
            return watch->stopped ? HOST_OK : error;
        lines_put(&watch->lines, size);
        while (lines_next(&watch->lines, &text, &size))
            take_line(watch, text, size);
        kda_report_flush(cli->report);
        if (fflush(cli->output.file) != 0 && !cli->output.error)
            cli->output.error = term_last_error();
    }
    return HOST_OK;
}

static int open_device(const struct watch *watch)
{
    struct control_version version = {0};
    uint32_t error = watch->host->device_open(watch->host->context, false);
    if (error != HOST_OK) {
        advice_say(watch->host, ADVICE_DEVICE, error, "open the driver's device");
        return CLI_INPUT;
    }
    error = control_get_version(watch->host, &version);
    if (error == HOST_OK && !control_schema_known(&version))
        error = CONTROL_BAD_ANSWER;
    if (error == HOST_OK)
        return CLI_DONE;
    watch->host->device_close(watch->host->context);
    advice_say(watch->host, ADVICE_DEVICE, error, "ask the driver for its version");
    return CLI_INPUT;
}

static int finish(struct watch *watch, uint32_t error)
{
    const struct cli *cli = watch->cli;
    int code = CLI_DONE;
    if (error == HOST_NO_MEMORY) {
        cli_error("out of memory");
        code = CLI_INTERNAL;
    } else if (error != HOST_OK) {
        advice_say(watch->host, ADVICE_DEVICE, error, "go on reading");
        code = CLI_INPUT;
    }
    uint64_t bad = watch->bad + watch->lines.too_long;
    if (bad > 0)
        cli_note(cli, "%llu line%s of the driver could not be read", (unsigned long long)bad,
                 bad == 1 ? "" : "s");
    if (watch->reader_lost > 0)
        cli_note(cli, "%llu events passed that this reader was too slow for; the log has them",
                 (unsigned long long)watch->reader_lost);
    if (watch->sensor_lost > 0)
        cli_note(cli, "%llu events were lost by the sensor itself",
                 (unsigned long long)watch->sensor_lost);
    if (code == CLI_DONE && (bad > 0 || watch->reader_lost > 0 || watch->sensor_lost > 0))
        code = CLI_INCOMPLETE;
    return code;
}

static int run(struct watch *watch)
{
    int code = cli_pick_events(&watch->cli->options, &watch->filter);
    if (code == CLI_DONE)
        code = open_device(watch);
    if (code != CLI_DONE)
        return code;
    code = cli_open_report(watch->cli);
    if (code == CLI_DONE) {
        watch->host->interrupt_catch(watch->host->context);
        code = cli_finish(watch->cli, finish(watch, read_lines(watch)));
    }
    watch->host->device_close(watch->host->context);
    return code;
}

int cli_run_watch(struct cli *cli)
{
    if (!cli->host)
        return cli_needs_windows("kda watch", "shows the events of the sensor as they happen");
    struct watch *watch = calloc(1, sizeof(*watch));
    if (!watch) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    watch->cli = cli;
    watch->host = cli->host;
    watch->loss = kda_log_kind_find("sensor.loss", strlen("sensor.loss"));
    watch->stop = kda_log_kind_find("sensor.stop", strlen("sensor.stop"));
    lines_init(&watch->lines, KDA_LOG_MAX_LINE);
    int code = run(watch);
    lines_deinit(&watch->lines);
    free(watch);
    return code;
}
