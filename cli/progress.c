/*
 * progress.c - one line on stderr, only on a terminal, at most ten times a second, and nothing in
 * the first half second.
 */
#include "cli.h"

#include "term.h"

#define QUIET_SECONDS 0.5
#define STEP_SECONDS 0.1

void cli_progress_begin(struct cli *cli, const char *phase)
{
    struct cli_progress *progress = &cli->progress;
    progress->on = !cli->options.quiet && term_is_terminal(stderr);
    progress->phase = phase;
    progress->start = progress->last = term_seconds();
}

bool cli_progress(void *context, uint64_t done, uint64_t total)
{
    struct cli_progress *progress = context;
    if (!progress->on)
        return true;
    double now = term_seconds();
    if (now - progress->start < QUIET_SECONDS || now - progress->last < STEP_SECONDS)
        return true;
    progress->last = now;
    progress->shown = true;
    double rate = (double)done / (now - progress->start) / 1048576.0;
    if (total > 0 && done <= total)
        (void)fprintf(stderr, "\r\x1b[Kkda: %s %3.0f%%, %.1f MB/s", progress->phase,
                      (double)done * 100.0 / (double)total, rate);
    else
        (void)fprintf(stderr, "\r\x1b[Kkda: %s %.1f MB, %.1f MB/s", progress->phase,
                      (double)done / 1048576.0, rate);
    (void)fflush(stderr);
    return true;
}

void cli_progress_end(struct cli *cli)
{
    struct cli_progress *progress = &cli->progress;
    if (progress->shown)
        (void)fputs("\r\x1b[K", stderr);
    progress->shown = false;
    progress->on = false;
}
