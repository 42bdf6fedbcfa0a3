/*
 * fuzz_log.c - any bytes as a log: lines, filters, statistics, the account, and rows in every
 * format.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "kda/log.h"
#include "kda/report.h"

static void check(bool holds, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "fuzz_log: %s\n", what);
    abort();
}

static bool swallow(void *context, const char *bytes, size_t size)
{
    *(uint64_t *)context += size + (bytes == NULL);
    return true;
}

static void put_count(void *context, const struct kda_log_count *count)
{
    kda_report_count(context, count);
}

static void put_finding(void *context, const struct kda_log_finding *finding)
{
    kda_report_finding(context, finding);
}

static void put_verdict(void *context, const struct kda_log_verdict *verdict)
{
    check(verdict->lines == 0 || verdict->files > 0, "lines without a file");
    kda_report_log(context, verdict);
    kda_report_accounts(context, verdict);
}

static void read_fields(const struct kda_log_line *line)
{
    char text[9];
    uint64_t number;
    check(line->member_count <= KDA_LOG_MAX_MEMBERS, "too many members");
    for (size_t i = 0; i < line->member_count; i++) {
        const struct kda_log_member *member = &line->members[i];
        check(member->value >= line->text &&
                  member->value + member->size <= line->text + line->size,
              "a member outside of its line");
        size_t size = kda_log_text(member, text, sizeof(text));
        check(strlen(text) <= size || size == 0, "text longer than it is");
        (void)kda_log_number(member, &number);
    }
}

/* Every line that can be read, through everything that takes lines. */
static uint64_t read_lines(struct kda_log *log, struct kda_report *report)
{
    static struct kda_log_line line;
    struct kda_log_stats *stats = NULL;
    const struct kda_log_filter filter = {.has_pid = true, .pid = 4, .image = "a\\b"};
    uint64_t lines = 0;
    check(kda_log_stats_create(&stats, NULL) == KDA_OK, "no statistics");
    for (;;) {
        check(kda_log_next(log, &line, NULL) == KDA_OK, "reading memory failed");
        if (line.what == KDA_LOG_END)
            break;
        check((line.what == KDA_LOG_BAD) == (line.problem != NULL) || line.what == KDA_LOG_CUT,
              "a problem belongs to a bad line");
        if (line.what != KDA_LOG_LINE)
            continue;
        lines++;
        read_fields(&line);
        (void)kda_log_matches(&filter, &line);
        check(kda_log_stats_add(stats, &line, NULL) == KDA_OK, "counting failed");
        kda_report_event(report, &line);
    }
    kda_log_stats_walk(stats, put_count, report);
    kda_log_stats_destroy(stats);
    return lines;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kda_log *log = NULL;
    struct kda_report *report = NULL;
    uint64_t written = 0;
    if (size == 0)
        return 0;
    const struct kda_report_format *format = kda_report_format_at(data[0] % 4);
    struct kda_report_options options = {.format = format ? format->name : NULL, .verbose = true};
    options.grep = data[0] & 4 ? "a" : NULL;
    if (kda_log_open_memory(data + 1, size - 1, "fuzz", &log, NULL) != KDA_OK)
        return 0;
    check(kda_report_open(&options, swallow, &written, &report, NULL) == KDA_OK, "no report");
    (void)read_lines(log, report);
    kda_log_close(log);
    check(kda_log_open_memory(data + 1, size - 1, "fuzz", &log, NULL) == KDA_OK, "no second open");
    const struct kda_log_listener listener = {put_finding, put_verdict, NULL, report};
    check(kda_log_verify(log, &listener, NULL) == KDA_OK, "verifying memory failed");
    kda_log_close(log);
    enum kda_status status = kda_report_close(report, NULL);
    /* A table, as csv or tsv, holds one kind of row. */
    bool one_kind = format && strcmp(format->name + 1, "sv") == 0;
    check(status == KDA_OK || (one_kind && status == KDA_USAGE), "the report failed");
    return 0;
}
