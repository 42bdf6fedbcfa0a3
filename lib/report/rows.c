/*
 * rows.c - rows of the ETW model, of processes and of gaps: what the lines of keys_model.h need.
 */
#include "writer.h"

#include <stdio.h>
#include <string.h>

#define HAS(s, id) KDA_ETW_HAS(s, S, id)

static const char *const session_ways[] = {"slot", "pool"};
static const char *const consumer_ways[] = {"list", "handle", "pool", "link"};
static const char *const provider_ways[] = {"table",  "registration", "embedded",
                                            "symbol", "pool",         "link"};
static const char *const registration_ways[] = {"list",   "group_list", "handle",
                                                "symbol", "pool",       "link"};
static const char *const process_ways[] = {"list", "handle_table", "cid", "back_pointer", "pool"};
static const char *const filter_kinds[] = {
    "package_id",     "package_app",        "container", "payload",
    "provider_side",  "event_name",         "stackwalk", "stackwalk_id",
    "stackwalk_name", "stackwalk_level_kw", "event_id",
};

struct enable_slot {
    unsigned slot;
    const struct kda_etw_enable *at;
};

struct process_row {
    const struct kda_process *at;
    const char *silo;
};

struct buffer_row {
    const struct kda_etw_session *session;
    const struct kda_trace_buffer *at;
    const struct kda_trace_facts *facts;
    const struct kda_etw_consumer *consumer;
};

struct gap_row {
    const char *what, *text;
    uint64_t va;
    enum kda_status reason;
    bool has_va;
};

/* "" means unknown in the model. */
static const char *known(const char *text)
{
    return text && *text ? text : NULL;
}

static const char *clock_text(uint32_t clock)
{
    static const char *const digits[] = {"0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                         "8", "9", "10", "11", "12", "13", "14", "15"};
    const char *name = kda_etw_clock_name(clock);
    if (!name && clock < sizeof(digits) / sizeof(digits[0]))
        name = digits[clock];
    return name ? name : "unknown";
}

static void each_session_consumer(struct kda_row *row, const struct kda_etw_session *session);
static void each_enable(struct kda_row *row, const struct kda_etw_provider *provider);
static void each_filter(struct kda_row *row, const struct kda_etw_provider *provider);
static void each_registration(struct kda_row *row, const struct kda_etw_provider *provider);

static void each_pid(struct kda_row *row, const struct kda_etw_filter *filter)
{
    for (size_t i = 0; i < filter->pid_count; i++)
        kda_put_uint(row, NULL, filter->pids[i]);
}

static void each_event_id(struct kda_row *row, const struct kda_etw_filter *filter)
{
    for (size_t i = 0; i < filter->event_id_count; i++)
        kda_put_uint(row, NULL, filter->event_ids[i]);
}

static void each_executable(struct kda_row *row, const struct kda_etw_filter *filter)
{
    const char *names = filter->executables;
    while (*names) {
        size_t size = strcspn(names, ";");
        if (size > 0)
            kda_put_text_n(row, NULL, names, size);
        names += size;
        names += *names == ';';
    }
}

static void each_place(struct kda_row *row, const struct kda_trace_buffer *buffer)
{
    for (unsigned i = 0; i < KDA_BUFFER_PLACES; i++)
        if (buffer->found_by >> i & 1u)
            kda_put_text(row, NULL, kda_buffer_place_name(i));
}

#include "keys_build.h"

#include "keys_model.h"

#include "keys_table.h"

#include "keys_model.h"

static void each_session_consumer(struct kda_row *row, const struct kda_etw_session *session)
{
    for (size_t i = 0; i < session->consumer_count; i++)
        put_session_consumer(row, session->consumers[i]);
}

/* A slot that is off but still holds values is evidence of what was on before. */
static bool slot_used(const struct kda_etw_enable *e)
{
    return e->readable &&
           (e->enabled || e->level || e->match_any || e->match_all || e->property || e->logger_id);
}

static void each_enable(struct kda_row *row, const struct kda_etw_provider *provider)
{
    for (unsigned i = 0; i < KDA_ETW_ENABLE_SLOTS; i++)
        if (slot_used(&provider->enables[i]))
            put_enable(row, &(struct enable_slot){i, &provider->enables[i]});
}

static void each_filter(struct kda_row *row, const struct kda_etw_provider *provider)
{
    for (size_t i = 0; i < provider->filter_count; i++)
        put_filter(row, &provider->filters[i]);
}

static void each_registration(struct kda_row *row, const struct kda_etw_provider *provider)
{
    for (size_t i = 0; i < provider->registration_count; i++)
        put_registration(row, provider->registrations[i]);
}

void kda_build_session(struct kda_row *row, const struct kda_etw_session *session)
{
    build_session(row, session);
}

void kda_build_provider(struct kda_row *row, const struct kda_etw_provider *provider)
{
    build_provider(row, provider);
}

void kda_report_session(struct kda_report *report, const struct kda_etw_session *session)
{
    emit_session(report, session);
}

void kda_report_consumer(struct kda_report *report, const struct kda_etw_consumer *consumer)
{
    emit_consumer(report, consumer);
}

void kda_report_provider(struct kda_report *report, const struct kda_etw_provider *provider)
{
    emit_provider(report, provider);
}

void kda_report_process(struct kda_report *report, const struct kda_process *p, const char *silo)
{
    const struct process_row process = {p, silo};
    emit_process(report, &process);
}

void kda_report_buffer(struct kda_report *report, const struct kda_etw_session *session,
                       const struct kda_trace_buffer *buffer, const struct kda_trace_facts *facts)
{
    const struct buffer_row all = {session, buffer, facts, buffer->consumer};
    emit_buffer(report, &all);
}

void kda_report_gap(struct kda_report *report, const struct kda_gap *gap)
{
    emit_gap(report, &(struct gap_row){gap->what, gap->text, gap->va, gap->reason, true});
}

void kda_report_gaps(struct kda_report *report, const struct kda_gaps *gaps)
{
    char text[96];
    for (size_t i = 0; i < gaps->count; i++)
        kda_report_gap(report, &gaps->items[i]);
    (void)snprintf(text, sizeof(text), "%zu more gaps were counted but not kept", gaps->dropped);
    if (gaps->dropped > 0)
        emit_gap(report, &(struct gap_row){"gap_list", text, 0, KDA_LIMIT, false});
}
