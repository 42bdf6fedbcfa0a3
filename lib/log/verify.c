/*
 * verify.c - the account of a log: lines in order, ids dense, times that never go back, and every
 * event that was offered either written, or lost and counted, or taken by a rule and counted.
 *
 * Kinds sensor.* are what the sensor says about itself. They are part of the account: never lost,
 * never filtered, and a line with totals counts itself.
 */
#include "verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "alloc.h"
#include "bytes.h"
#include "kda_event.h"

void kda_log_say(struct kda_log_check *check, const char *what, const struct kda_log_line *line,
                 const char *fmt, ...)
{
    char text[400];
    check->verdict.findings++;
    if (!check->listener->finding || check->verdict.findings > KDA_LOG_MAX_FINDINGS)
        return;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    const struct kda_log_finding finding = {
        .check = what,
        .file = kda_log_file_name(check->log, line ? line->file : check->file),
        .line = line ? line->number : 0,
        .text = text,
    };
    check->listener->finding(check->listener->context, &finding);
}

/* ---- the frame: files, ids, times ---- */

static void check_file_line(struct kda_log_check *check, const struct kda_log_line *line)
{
    const struct kda_log_member *next = kda_log_find(line, "next_id");
    uint64_t id;
    if (line->number != 1)
        kda_log_say(check, "file", line, "sensor.file is not the first line of its file");
    if (!next || !kda_log_number(next, &id))
        kda_log_say(check, "file", line, "sensor.file without next_id");
    else if (line->has_id && id != line->id + 1)
        kda_log_say(check, "file", line,
                    "sensor.file has id %" PRIu64 " but says that the next is %" PRIu64, line->id,
                    id);
}

static void check_first_line(struct kda_log_check *check, const struct kda_log_line *line)
{
    bool first_of_log = check->verdict.lines == 0;
    if (line->kind == KDA_KIND_SENSOR_START) {
        if (!first_of_log || line->number != 1)
            kda_log_say(check, "start", line, "sensor.start inside a log");
        else
            check->verdict.has_start = true;
        if (line->has_id && line->id != 0)
            kda_log_say(check, "start", line, "sensor.start has id %" PRIu64 ", not 0", line->id);
    } else if (line->kind == KDA_KIND_SENSOR_FILE) {
        check_file_line(check, line);
    } else if (line->number == 1 && !first_of_log) {
        kda_log_say(check, "file", line, "the file does not begin with sensor.file");
    }
}

static bool is_reader_loss(const struct kda_log_line *line)
{
    return line->kind == KDA_KIND_SENSOR_LOSS &&
           kda_log_member_is(kda_log_find(line, "scope"), "reader");
}

/* A copy made by a live reader has holes exactly as large as its own loss lines say. */
static void check_gap(struct kda_log_check *check, const struct kda_log_line *line)
{
    uint64_t missing = line->id - check->next_id;
    if (missing == check->reader_gap)
        return;
    if (missing < check->reader_gap) {
        kda_log_say(check, "id", line,
                    "%" PRIu64 " lines are missing where the reader's loss counts %" PRIu64,
                    missing, check->reader_gap);
        return;
    }
    kda_log_say(check, "id", line,
                "%" PRIu64 " lines are missing: id %" PRIu64 " follows %" PRIu64 "%s", missing,
                line->id, check->next_id - 1,
                line->number == 1 ? "; is a file of the log missing?" : "");
}

static void check_id(struct kda_log_check *check, const struct kda_log_line *line)
{
    struct kda_log_verdict *verdict = &check->verdict;
    if (!line->has_id) {
        if (!is_reader_loss(line))
            kda_log_say(check, "id", line, "no id");
        return;
    }
    if (line->id == UINT64_MAX)
        kda_log_say(check, "id", line, "id %" PRIu64 " has no next one", line->id);
    if (verdict->ids == 0) {
        verdict->first_id = line->id;
        if (line->kind != KDA_KIND_SENSOR_START && line->id == 0)
            kda_log_say(check, "start", line, "id 0 is not sensor.start");
    } else if (line->id < check->next_id) {
        kda_log_say(check, "id", line, "id %" PRIu64 " follows %" PRIu64, line->id,
                    check->next_id - 1);
    } else {
        check_gap(check, line);
    }
    check->reader_gap = 0;
    verdict->ids++;
    verdict->last_id = line->id;
    check->next_id = line->id + 1;
}

static void check_time(struct kda_log_check *check, const struct kda_log_line *line)
{
    struct kda_log_verdict *verdict = &check->verdict;
    if (!line->has_time) {
        kda_log_say(check, "time", line, "no time");
        return;
    }
    if (verdict->first_time == 0)
        verdict->first_time = line->time;
    if (line->time < verdict->last_time)
        kda_log_say(check, "time", line, "the time goes back by %" PRIu64 ".%07u s",
                    (verdict->last_time - line->time) / 10000000u,
                    (unsigned)((verdict->last_time - line->time) % 10000000u));
    else
        verdict->last_time = line->time;
}

/* ---- one line ---- */

/* Counts of a kind that nobody knows, or beyond what can be counted, belong to no account. */
static void add_count(struct kda_log_check *check, unsigned kind, uint64_t count, uint64_t *sum)
{
    if (kind == 0 || !kda_add64(*sum, count, sum))
        check->strange = true;
}

static void add_lost(void *context, unsigned kind, uint64_t count)
{
    struct kda_log_check *check = context;
    add_count(check, kind, count, &check->verdict.account[kind].lost_lines);
}

static void add_reader_lost(void *context, unsigned kind, uint64_t count)
{
    struct kda_log_check *check = context;
    add_count(check, kind, count, &check->verdict.account[kind].reader_lost);
    add_count(check, kind, count, &check->reader_gap);
}

static void add_filtered(void *context, unsigned kind, uint64_t count)
{
    struct kda_log_check *check = context;
    add_count(check, kind, count, &check->verdict.account[kind].filtered_lines);
}

static void take_counts(struct kda_log_check *check, const struct kda_log_line *line,
                        const char *key, void (*put)(void *context, unsigned kind, uint64_t count))
{
    const struct kda_log_member *member = kda_log_find(line, key);
    check->strange = false;
    if (!member || !kda_log_counts(member, put, check))
        kda_log_say(check, "line", line, "%s without a usable \"%s\"",
                    kda_log_kind_name(line->kind), key);
    else if (check->strange)
        kda_log_say(check, "line", line,
                    "\"%s\" counts a kind that is not known, or more than can be counted", key);
}

static void take_kind(struct kda_log_check *check, const struct kda_log_line *line)
{
    struct kda_log_verdict *verdict = &check->verdict;
    switch (line->kind) {
    case KDA_KIND_SENSOR_LOSS:
        take_counts(check, line, "lost", is_reader_loss(line) ? add_reader_lost : add_lost);
        break;
    case KDA_KIND_SENSOR_FILTERED:
        take_counts(check, line, "filtered", add_filtered);
        break;
    case KDA_KIND_SENSOR_STATUS:
        kda_log_check_totals(check, line, false);
        break;
    case KDA_KIND_SENSOR_SHUTDOWN:
        kda_log_check_totals(check, line, false);
        check->shutdown = true;
        verdict->tail = 0;
        break;
    case KDA_KIND_SENSOR_STOP:
        kda_log_check_totals(check, line, true);
        check->stopped = true;
        break;
    default:
        break;
    }
}

static void take_line(struct kda_log_check *check, const struct kda_log_line *line)
{
    struct kda_log_verdict *verdict = &check->verdict;
    if (check->stopped && !check->told_end) {
        check->told_end = true;
        kda_log_say(check, "end", line, "lines follow sensor.stop");
    }
    check_first_line(check, line);
    check_id(check, line);
    check_time(check, line);
    const struct kda_log_member *source = kda_log_find(line, "source");
    if (!source || source->type != '"')
        kda_log_say(check, "line", line, "no source");
    if (line->kind == 0)
        kda_log_say(check, "line", line, "of a kind that is not known");
    verdict->lines++;
    verdict->tail++;
    /* A line that a live reader got for itself is not one of the log. */
    if (!is_reader_loss(line))
        verdict->account[line->kind].lines++;
    take_kind(check, line);
}

/* ---- logs ---- */

static void begin_log(struct kda_log_check *check, size_t file)
{
    memset(&check->verdict, 0, sizeof(check->verdict));
    memset(&check->before, 0, sizeof(check->before));
    check->verdict.id = kda_log_file_log(check->log, file);
    check->file = file;
    check->next_id = check->reader_gap = 0;
    check->shutdown = check->stopped = check->told_end = check->based = false;
}

static void end_log(struct kda_log_check *check)
{
    struct kda_log_verdict *verdict = &check->verdict;
    if (verdict->lines == 0 && !verdict->cut_line)
        kda_log_say(check, "start", NULL, "there is no line in it");
    verdict->ending = check->stopped                          ? KDA_LOG_STOPPED
                      : check->shutdown && !verdict->cut_line ? KDA_LOG_SHUTDOWN
                                                              : KDA_LOG_CUT_OFF;
    verdict->totals_are_last = check->stopped;
    if (!check->shutdown)
        verdict->tail = 0;
    if (check->listener->verdict)
        check->listener->verdict(check->listener->context, verdict);
}

static void enter_file(struct kda_log_check *check, size_t file)
{
    if (kda_log_starts_at(check->log, file)) {
        if (check->entered)
            end_log(check);
        begin_log(check, file);
    }
    check->entered = true;
    check->file = file;
    check->verdict.files++;
    check->verdict.bytes += kda_log_file_size(check->log, file);
}

static void take_cut(struct kda_log_check *check, const struct kda_log_line *line)
{
    size_t next = line->file + 1;
    bool last = next == kda_log_file_count(check->log) || kda_log_starts_at(check->log, next);
    if (check->stopped)
        kda_log_say(check, "end", line, "bytes that are no line follow sensor.stop");
    if (last)
        check->verdict.cut_line = true;
    else
        kda_log_say(check, "file", line, "the file ends within a line, but the log goes on");
}

static bool go_on(const struct kda_log_check *check, uint64_t round)
{
    const struct kda_log_listener *listener = check->listener;
    return round % 4096 != 0 || !listener->progress ||
           listener->progress(listener->context, kda_log_bytes_done(check->log),
                              kda_log_bytes_total(check->log));
}

static enum kda_status run(struct kda_log_check *check, struct kda_log_line *line,
                           struct kda_error *err)
{
    for (uint64_t round = 1;; round++) {
        enum kda_status status = kda_log_next(check->log, line, err);
        if (status != KDA_OK)
            return status;
        /* Empty files have no line that could tell of them. */
        while (!check->entered || check->file < line->file)
            enter_file(check, check->entered ? check->file + 1 : 0);
        if (line->what == KDA_LOG_END)
            break;
        if (line->what == KDA_LOG_BAD)
            kda_log_say(check, "line", line, "not a line of the schema: %s", line->problem);
        else if (line->what == KDA_LOG_CUT)
            take_cut(check, line);
        else
            take_line(check, line);
        if (!go_on(check, round))
            return kda_fail(err, KDA_CANCELLED, "log", "verification was stopped");
    }
    end_log(check);
    return KDA_OK;
}

enum kda_status kda_log_verify(struct kda_log *log, const struct kda_log_listener *listener,
                               struct kda_error *err)
{
    struct kda_log_check *check = kda_calloc(1, sizeof(*check));
    struct kda_log_line *line = kda_calloc(1, sizeof(*line));
    enum kda_status status = KDA_NO_MEMORY;
    if (check && line) {
        check->log = log;
        check->listener = listener;
        status = run(check, line, err);
    } else {
        (void)kda_fail(err, KDA_NO_MEMORY, "log", "out of memory");
    }
    kda_free(line);
    kda_free(check);
    return status;
}
