/*
 * rows_log.c - rows about the sensor's logs, but for their events: what the lines of keys_log.h
 * need.
 */
#include "writer.h"

struct account_row {
    const char *log, *kind;
    const struct kda_log_account *at;
    bool counted; /* the sensor's totals are there */
};

static const char *ending_name(enum kda_log_ending ending)
{
    return ending == KDA_LOG_STOPPED    ? "stopped"
           : ending == KDA_LOG_SHUTDOWN ? "shutdown"
                                        : "cut_off";
}

static const char *totals_name(const struct kda_log_verdict *verdict)
{
    return verdict->totals_are_last ? "final" : verdict->has_totals ? "earlier" : "none";
}

#include "keys_build.h"

#include "keys_log.h"

#include "keys_table.h"

#include "keys_log.h"

void kda_report_log(struct kda_report *report, const struct kda_log_verdict *verdict)
{
    emit_log(report, verdict);
}

void kda_report_accounts(struct kda_report *report, const struct kda_log_verdict *verdict)
{
    for (unsigned kind = 0; kind < kda_log_kind_count(); kind++) {
        const struct kda_log_account *account = &verdict->account[kind];
        if (!account->lines && !account->offered && !account->lost_lines &&
            !account->filtered_lines && !account->reader_lost)
            continue;
        const struct account_row all = {
            .log = verdict->id,
            .kind = kind ? kda_log_kind_name(kind) : "unknown",
            .at = account,
            .counted = verdict->has_totals && !kda_log_kind_is_sensor(kind),
        };
        emit_account(report, &all);
    }
}

void kda_report_finding(struct kda_report *report, const struct kda_log_finding *finding)
{
    emit_finding(report, finding);
}

void kda_report_count(struct kda_report *report, const struct kda_log_count *count)
{
    emit_count(report, count);
}
