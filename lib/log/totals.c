/*
 * totals.c - the totals that the sensor writes against each other and against the lines.
 */
#include "verify.h"

#include <inttypes.h>
#include <string.h>

#include "bytes.h"

/* Each kind stands once; kind 0 is one that nobody knows. */
static void put_count(void *context, unsigned kind, uint64_t count)
{
    ((uint64_t *)context)[kind] |= kind ? count : 1;
}

static bool take_totals(struct kda_log_check *check, const struct kda_log_line *line)
{
    struct kda_log_totals *now = &check->now;
    const struct {
        const char *key;
        uint64_t *counts;
    } parts[] = {{"offered", now->offered},
                 {"written", now->written},
                 {"lost", now->lost},
                 {"filtered", now->filtered}};
    memset(now, 0, sizeof(*now));
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const struct kda_log_member *member = kda_log_find(line, parts[i].key);
        /* Where nothing was lost or filtered there may be no such object. */
        if (!member && i >= 2)
            continue;
        bool good = member && kda_log_counts(member, put_count, parts[i].counts);
        if (good && parts[i].counts[0] != 0)
            kda_log_say(check, "account", line, "\"%s\" counts a kind that is not known",
                        parts[i].key);
        if (good)
            continue;
        kda_log_say(check, "account", line, "%s without a usable \"%s\"",
                    kda_log_kind_name(line->kind), parts[i].key);
        return false;
    }
    return true;
}

/* offered = written + lost + filtered; before the end some may still be under way. */
static void check_sum(struct kda_log_check *check, const struct kda_log_line *line, unsigned kind,
                      bool final)
{
    const struct kda_log_totals *now = &check->now;
    uint64_t sum = 0;
    bool fits = kda_add64(now->written[kind], now->lost[kind], &sum) &&
                kda_add64(sum, now->filtered[kind], &sum);
    if (fits && (final ? sum == now->offered[kind] : sum <= now->offered[kind]))
        return;
    kda_log_say(check, "account", line,
                "%s: offered %" PRIu64 " is not written %" PRIu64 " + lost %" PRIu64
                " + filtered %" PRIu64,
                kda_log_kind_name(kind), now->offered[kind], now->written[kind], now->lost[kind],
                now->filtered[kind]);
}

static void check_falling(struct kda_log_check *check, const struct kda_log_line *line,
                          unsigned kind)
{
    const struct kda_log_totals *now = &check->now, *before = &check->before;
    if (now->offered[kind] < before->offered[kind] || now->written[kind] < before->written[kind] ||
        now->lost[kind] < before->lost[kind] || now->filtered[kind] < before->filtered[kind])
        kda_log_say(check, "account", line, "%s: a total is smaller than it was",
                    kda_log_kind_name(kind));
}

/* `exact`: both must be equal; otherwise the total may be ahead of the lines that tell of it. */
static void compare(struct kda_log_check *check, const struct kda_log_line *line, unsigned kind,
                    const char *what, uint64_t total, uint64_t seen, bool exact)
{
    if (exact ? total == seen : total >= seen)
        return;
    kda_log_say(check, "account", line,
                "%s: the total of %s is %" PRIu64 ", the lines before it make %" PRIu64,
                kda_log_kind_name(kind), what, total, seen);
}

static void check_lines(struct kda_log_check *check, const struct kda_log_line *line, unsigned kind,
                        bool final)
{
    const struct kda_log_account *account = &check->verdict.account[kind];
    const struct kda_log_totals *now = &check->now, *base = &check->base;
    compare(check, line, kind, "written", now->written[kind] - base->written[kind],
            account->lines + account->reader_lost, true);
    compare(check, line, kind, "lost", now->lost[kind] - base->lost[kind], account->lost_lines,
            final);
    compare(check, line, kind, "filtered", now->filtered[kind] - base->filtered[kind],
            account->filtered_lines, final);
}

/* What the totals are ahead of the lines where the beginning of the log is missing. Lost and
 * filtered events that no line had told of yet count as missing here. */
static void take_base(struct kda_log_check *check)
{
    struct kda_log_totals *base = &check->base;
    memset(base, 0, sizeof(*base));
    check->based = true;
    if (check->verdict.has_start)
        return;
    for (unsigned kind = 0; kind < KDA_LOG_MAX_KINDS; kind++) {
        const struct kda_log_account *account = &check->verdict.account[kind];
        uint64_t lines = account->lines + account->reader_lost;
        const struct kda_log_totals *now = &check->now;
        base->written[kind] = now->written[kind] > lines ? now->written[kind] - lines : 0;
        base->lost[kind] =
            now->lost[kind] > account->lost_lines ? now->lost[kind] - account->lost_lines : 0;
        base->filtered[kind] = now->filtered[kind] > account->filtered_lines
                                   ? now->filtered[kind] - account->filtered_lines
                                   : 0;
    }
}

/* Totals that name any kind of sensor.* count all of them: those of the sensor always do, because
 * there is a sensor.start. Totals made by others may be of recorded kinds alone. */
static bool counts_sensor(const struct kda_log_totals *now)
{
    for (unsigned kind = 1; kind < kda_log_kind_count(); kind++)
        if (kda_log_kind_is_sensor(kind) && (now->offered[kind] > 0 || now->written[kind] > 0))
            return true;
    return false;
}

void kda_log_check_totals(struct kda_log_check *check, const struct kda_log_line *line, bool final)
{
    if (!take_totals(check, line))
        return;
    bool sensor = counts_sensor(&check->now);
    if (!check->based)
        take_base(check);
    struct kda_log_verdict *verdict = &check->verdict;
    for (unsigned kind = 1; kind < kda_log_kind_count(); kind++) {
        struct kda_log_account *account = &verdict->account[kind];
        account->offered = check->now.offered[kind];
        account->written = check->now.written[kind];
        account->lost = check->now.lost[kind];
        account->filtered = check->now.filtered[kind];
        if (!kda_log_kind_name(kind))
            continue;
        check_sum(check, line, kind, final);
        if (kda_log_kind_is_sensor(kind) && !sensor)
            continue;
        check_falling(check, line, kind);
        /* A log without its beginning cannot tell what its first totals owe to missing lines. */
        check_lines(check, line, kind, final && verdict->has_start);
    }
    check->before = check->now;
    verdict->has_totals = true;
}
