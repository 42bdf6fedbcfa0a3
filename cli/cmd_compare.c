/*
 * cmd_compare.c - kda compare: what did only one of two witnesses see?
 */
#include "cli.h"

#include <string.h>

/* What a witness can be read from. To add one: a function that hands its events to the comparison
 * as lines of the schema, and a row. */
struct witness_source {
    const char *name;
    /* KDA_NOT_MINE: another kind of file. */
    enum kda_status (*read)(struct cli *cli, struct kda_compare *compare, unsigned witness,
                            const char *path, uint64_t *unread, struct kda_error *err);
    bool tells; /* KDA_BAD_DATA: the reason was printed already */
};

static enum kda_status read_log(struct cli *cli, struct kda_compare *compare, unsigned witness,
                                const char *path, uint64_t *unread, struct kda_error *err)
{
    static struct kda_log_line line; /* large; one comparison at a time */
    struct kda_log *log;
    uint64_t done = 0;
    enum kda_status status = kda_log_open(&path, 1, &log, err);
    if (status != KDA_OK)
        return status == KDA_UNSUPPORTED ? KDA_NOT_MINE : status;
    uint64_t total = kda_log_file_size(log, 0);
    do {
        status = kda_log_next(log, &line, err);
        if (status == KDA_OK && line.what == KDA_LOG_BAD)
            ++*unread;
        if (status == KDA_OK && line.what == KDA_LOG_LINE)
            status = kda_compare_add(compare, witness, &line, err);
        if (status == KDA_OK && (++done & 0xfff) == 0 &&
            !cli_progress(&cli->progress, line.off, total))
            status = kda_fail(err, KDA_CANCELLED, "compare", "cancelled");
    } while (status == KDA_OK && line.what != KDA_LOG_END);
    kda_log_close(log);
    return status;
}

/* ---- trace files and memory images: what `kda events` decodes ---- */

struct trace_witness {
    struct kda_compare *compare;
    unsigned witness;
    enum kda_status status;
    struct kda_error err;
};

static bool take_event(void *context, const struct kda_log_line *line)
{
    struct trace_witness *taker = context;
    taker->status = kda_compare_add(taker->compare, taker->witness, line, &taker->err);
    return taker->status == KDA_OK;
}

static enum kda_status read_trace(struct cli *cli, struct kda_compare *compare, unsigned witness,
                                  const char *path, uint64_t *unread, struct kda_error *err)
{
    (void)unread; /* what is damaged is declared as lost */
    struct trace_witness taker = {.compare = compare, .witness = witness, .status = KDA_OK};
    char *words[] = {(char *)path, NULL};
    struct cli other = {
        .options = cli->options,
        .command = cli_find_command("events"),
        .tap = take_event,
        .tap_context = &taker,
        .start = cli->start,
    };
    other.options.format = other.options.output = other.options.grep = NULL;
    other.options.verbose = false;
    other.options.quiet = true;
    other.options.words = words;
    other.options.positional[0] = path;
    other.options.positional_count = 1;
    int code = cli_run_events(&other);
    cli_close(&other);
    if (taker.status != KDA_OK) {
        *err = taker.err;
        return taker.status;
    }
    /* What `kda events` could not do it has said. */
    return code == CLI_DONE || code == CLI_INCOMPLETE ? KDA_OK : KDA_BAD_DATA;
}

static const struct witness_source sources[] = {
    {"log", read_log, false},
    {"trace", read_trace, true},
};

static int read_witness(struct cli *cli, struct kda_compare *compare, unsigned witness,
                        const char **source, bool *whole)
{
    struct kda_error err;
    uint64_t unread = 0;
    const char *path = cli->options.positional[witness];
    enum kda_status status = KDA_NOT_MINE;
    bool told = false;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]) && status == KDA_NOT_MINE; i++) {
        *source = sources[i].name;
        status = sources[i].read(cli, compare, witness, path, &unread, &err);
        told = sources[i].tells && status == KDA_BAD_DATA;
    }
    if (status == KDA_OK && unread > 0)
        cli_note(cli, "incomplete: %llu line%s of \"%s\" cannot be read (kda verify lists them)",
                 (unsigned long long)unread, unread == 1 ? "" : "s", path);
    *whole = *whole && unread == 0;
    if (status == KDA_OK)
        return CLI_DONE;
    if (!told)
        cli_error_of(&err);
    return status == KDA_NO_MEMORY || status == KDA_CANCELLED || status == KDA_LIMIT ? CLI_INTERNAL
                                                                                     : CLI_INPUT;
}

/* Two witnesses that agree on nothing at all are not in agreement. */
static bool saw_something(struct cli *cli, const struct kda_compare *compare)
{
    bool both = true;
    for (unsigned i = 0; i < 2; i++) {
        if (kda_compare_witness(compare, i)->events > 0)
            continue;
        cli_note(cli, "incomplete: \"%s\" has no event that can be compared",
                 cli->options.positional[i]);
        both = false;
    }
    return both;
}

static int report(struct cli *cli, const struct kda_compare *compare, const char *const names[2],
                  bool whole)
{
    size_t count;
    const struct kda_compare_group *groups = kda_compare_groups(compare, &count);
    bool each = !cli_is_text(cli) || cli->options.verbose;
    int code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    for (unsigned i = 0; i < 2; i++)
        kda_report_witness(cli->report, i, cli->options.positional[i], names[i],
                           kda_compare_witness(compare, i));
    for (size_t i = 0; i < count; i++)
        kda_report_difference(cli->report, &groups[i]);
    for (size_t i = 0; each && i < count; i++)
        for (uint64_t n = 0; n < groups[i].count; n++)
            kda_report_unmatched(cli->report, groups[i].events[n]);
    whole = saw_something(cli, compare) && whole;
    if (cli->options.exit_code && count)
        return cli_finish(cli, CLI_FINDINGS);
    return cli_finish(cli, whole ? CLI_DONE : CLI_INCOMPLETE);
}

int cli_run_compare(struct cli *cli)
{
    const char *names[2] = {NULL, NULL};
    bool whole = true;
    struct kda_compare *compare;
    struct kda_error err;
    if (cli->options.tolerance > 86400000) {
        cli_error("--tolerance wants at most 86400000 milliseconds, one day");
        return CLI_USAGE;
    }
    struct kda_compare_options options = {cli->options.tolerance * 10000};
    if (kda_compare_create(&options, &compare, &err) != KDA_OK) {
        cli_error_of(&err);
        return CLI_INTERNAL;
    }
    int code = CLI_DONE;
    cli_progress_begin(cli, "comparing");
    for (unsigned i = 0; i < 2 && code == CLI_DONE; i++)
        code = read_witness(cli, compare, i, &names[i], &whole);
    if (code == CLI_DONE && kda_compare_run(compare, &err) != KDA_OK) {
        cli_error_of(&err);
        code = CLI_INTERNAL;
    }
    cli_progress_end(cli);
    if (code == CLI_DONE)
        code = report(cli, compare, names, whole);
    kda_compare_destroy(compare);
    return code;
}
