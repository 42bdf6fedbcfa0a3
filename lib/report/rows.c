/*
 * rows.c - the rows of the ETW model and of processes, key by key in the order of docs/rows.md.
 * Other tools parse these: keys are added at the end of an object, never renamed.
 */
#include "writer.h"

#include <string.h>

#define NAMES_MAX 64u
#define HAS(s, id) KDA_ETW_HAS(s, S, id)

/* Names of the bits of `found_by`, lowest first. */
static void put_bits(struct kda_row *row, const char *key, unsigned bits, const char *const *names,
                     size_t count)
{
    kda_put_array(row, key);
    for (size_t i = 0; i < count; i++)
        if (bits >> i & 1u)
            kda_put_text(row, NULL, names[i]);
    kda_put_end(row);
}
#define PUT_BITS(row, key, bits, names)                                                            \
    put_bits(row, key, bits, names, sizeof(names) / sizeof((names)[0]))

static void put_names(struct kda_row *row, const char *key, const char *const *names, size_t count)
{
    kda_put_array(row, key);
    for (size_t i = 0; i < count; i++)
        kda_put_text(row, NULL, names[i]);
    kda_put_end(row);
}

/* "" means unknown in the model. */
static void put_known(struct kda_row *row, const char *key, const char *text)
{
    if (text && *text)
        kda_put_text(row, key, text);
}

static void put_u32(struct kda_row *row, const char *key, bool have, uint32_t value)
{
    if (have)
        kda_put_uint(row, key, value);
}

/* Function address up to build 18362, a small index since: a number stays a number. */
static void put_get_cpu_clock(struct kda_row *row, uint64_t value)
{
    if (value < 0x10000)
        kda_put_uint(row, "get_cpu_clock", value);
    else
        kda_put_hex(row, "get_cpu_clock", value);
}

static void put_clock(struct kda_row *row, uint32_t clock)
{
    static const char *const digits[] = {"0", "1", "2",  "3",  "4",  "5",  "6",  "7",
                                         "8", "9", "10", "11", "12", "13", "14", "15"};
    const char *name = kda_etw_clock_name(clock);
    if (!name && clock < sizeof(digits) / sizeof(digits[0]))
        name = digits[clock];
    kda_put_text(row, "clock", name ? name : "unknown");
}

static void put_session_consumers(struct kda_row *row, const struct kda_etw_session *session)
{
    kda_put_array(row, "consumers");
    for (size_t i = 0; i < session->consumer_count; i++) {
        const struct kda_etw_consumer *consumer = session->consumers[i];
        kda_put_object(row, NULL);
        if (consumer->has_pid)
            kda_put_uint(row, "pid", consumer->pid);
        put_known(row, "process", consumer->process);
        kda_put_hex(row, "va", consumer->va);
        kda_put_end(row);
    }
    kda_put_end(row);
}

void kda_build_session(struct kda_row *row, const struct kda_etw_session *s)
{
    static const char *const ways[] = {"slot", "pool"};
    if (s->silo)
        kda_put_text(row, "silo", s->silo->label);
    kda_put_uint(row, "id", s->id);
    put_u32(row, "logger_id", HAS(s, LOGGER_ID), s->logger_id);
    if (HAS(s, NAME))
        kda_put_text(row, "name", s->name);
    kda_put_hex(row, "va", s->va);
    if (HAS(s, MODE)) {
        const char *names[NAMES_MAX];
        kda_put_hex(row, "mode", s->mode);
        put_names(row, "mode_flags", names, kda_etw_mode_names(s->mode, names, NAMES_MAX));
    }
    if (HAS(s, COLLECTING))
        kda_put_bool(row, "collecting", s->collecting != 0);
    if (HAS(s, ACCEPT))
        kda_put_int(row, "accept_new_events", s->accept_new_events);
    if (HAS(s, CLOCK))
        put_clock(row, s->clock);
    if (HAS(s, GET_CPU_CLOCK))
        put_get_cpu_clock(row, s->get_cpu_clock);
    put_u32(row, "buffer_size", HAS(s, BUFFER_SIZE), s->buffer_size);
    put_u32(row, "buffers", HAS(s, BUFFERS), s->buffers);
    put_u32(row, "max_buffers", HAS(s, MAX_BUFFERS), s->max_buffers);
    put_u32(row, "events_lost", HAS(s, EVENTS_LOST), s->events_lost);
    put_u32(row, "buffers_lost", HAS(s, BUFFERS_LOST), s->buffers_lost);
    put_u32(row, "realtime_buffers_lost", HAS(s, RT_BUFFERS_LOST), s->realtime_buffers_lost);
    put_u32(row, "buffers_written", HAS(s, BUFFERS_WRITTEN), s->buffers_written);
    if (HAS(s, LOG_FILE))
        put_known(row, "log_file", s->log_file);
    if (HAS(s, START_TIME))
        kda_put_time(row, "start_time", s->start_time_100ns);
    if (HAS(s, INSTANCE_GUID))
        kda_put_guid(row, "instance_guid", s->instance_guid);
    if (HAS(s, SECURITY))
        put_known(row, "security", s->security);
    put_u32(row, "num_consumers", HAS(s, NUM_CONSUMERS), s->num_consumers);
    put_session_consumers(row, s);
    if (s->found_by == KDA_SESSION_POOL) /* all others have a slot */
        PUT_BITS(row, "found_by", s->found_by, ways);
}

void kda_build_consumer(struct kda_row *row, const struct kda_etw_consumer *c)
{
    static const char *const ways[] = {"list", "handle", "pool", "link"};
    if (c->silo)
        kda_put_text(row, "silo", c->silo->label);
    if (c->session)
        kda_put_uint(row, "session_id", c->session->id);
    else if (c->has_session_id)
        kda_put_uint(row, "session_id", c->session_id);
    if (c->session && !c->unnamed && HAS(c->session, NAME))
        kda_put_text(row, "session", c->session->name);
    if (c->has_pid)
        kda_put_uint(row, "pid", c->pid);
    put_known(row, "process", c->process);
    put_known(row, "image", c->image);
    kda_put_hex(row, "va", c->va);
    PUT_BITS(row, "found_by", c->found_by, ways);
    if (c->has_handle)
        kda_put_hex(row, "handle", c->handle);
    if (c->has_flags)
        kda_put_uint(row, "flags", c->flags);
    if (c->has_buffers_lost)
        kda_put_uint(row, "buffers_lost", c->buffers_lost);
}

/* A slot that is off but still holds values is evidence of what was on before. */
static bool slot_used(const struct kda_etw_enable *e)
{
    return e->readable &&
           (e->enabled || e->level || e->match_any || e->match_all || e->property || e->logger_id);
}

static void put_enables(struct kda_row *row, const struct kda_etw_provider *p)
{
    kda_put_array(row, "enables");
    for (unsigned i = 0; i < KDA_ETW_ENABLE_SLOTS; i++) {
        const struct kda_etw_enable *e = &p->enables[i];
        if (!slot_used(e))
            continue;
        kda_put_object(row, NULL);
        kda_put_uint(row, "slot", i);
        kda_put_bool(row, "enabled", e->enabled != 0);
        kda_put_uint(row, "session_id", e->session ? e->session->id : e->logger_id);
        if (e->session && !e->unnamed && HAS(e->session, NAME))
            kda_put_text(row, "session", e->session->name);
        kda_put_uint(row, "level", e->level);
        kda_put_hex(row, "match_any", e->match_any);
        kda_put_hex(row, "match_all", e->match_all);
        kda_put_uint(row, "property", e->property);
        kda_put_end(row);
    }
    kda_put_end(row);
}

static void put_executables(struct kda_row *row, const char *names)
{
    kda_put_array(row, "executables");
    while (*names) {
        size_t size = strcspn(names, ";");
        if (size > 0)
            kda_put_text_n(row, NULL, names, size);
        names += size;
        names += *names == ';';
    }
    kda_put_end(row);
}

static void put_filter(struct kda_row *row, const struct kda_etw_filter *f)
{
    static const char *const kinds[] = {
        "package_id",     "package_app",        "container", "payload",
        "provider_side",  "event_name",         "stackwalk", "stackwalk_id",
        "stackwalk_name", "stackwalk_level_kw", "event_id",
    };
    kda_put_object(row, NULL);
    kda_put_uint(row, "slot", f->slot);
    kda_put_hex(row, "va", f->va);
    put_u32(row, "flags", f->has_flags, f->flags);
    if (f->has_pids) {
        kda_put_array(row, "pids");
        for (size_t i = 0; i < f->pid_count; i++)
            kda_put_uint(row, NULL, f->pids[i]);
        kda_put_end(row);
    }
    if (f->has_event_ids) {
        kda_put_array(row, "event_ids");
        for (size_t i = 0; i < f->event_id_count; i++)
            kda_put_uint(row, NULL, f->event_ids[i]);
        kda_put_end(row);
    }
    if (f->executables)
        put_executables(row, f->executables);
    if (f->others)
        PUT_BITS(row, "others", f->others, kinds);
    kda_put_end(row);
}

static void put_registration(struct kda_row *row, const struct kda_etw_registration *r)
{
    static const char *const ways[] = {"list", "group_list", "handle", "symbol", "pool", "link"};
    kda_put_object(row, NULL);
    kda_put_hex(row, "va", r->va);
    if (r->has_kind)
        kda_put_text(row, "kind", r->kernel ? "kernel" : "user");
    if (r->has_pid)
        kda_put_uint(row, "pid", r->pid);
    put_known(row, "process", r->process);
    put_known(row, "module", r->module);
    kda_put_address(row, "callback", r->callback);
    if (r->has_enable_mask)
        kda_put_uint(row, "enable_mask", r->enable_mask);
    if (r->has_group_enable_mask)
        kda_put_uint(row, "group_enable_mask", r->group_enable_mask);
    if (r->has_flags) {
        const char *names[NAMES_MAX];
        put_names(row, "flags", names, kda_etw_reg_flag_names(r->flags, names, NAMES_MAX));
    }
    PUT_BITS(row, "found_by", r->found_by, ways);
    if (r->has_handle)
        kda_put_hex(row, "handle", r->handle);
    kda_put_end(row);
}

void kda_build_provider(struct kda_row *row, const struct kda_etw_provider *p)
{
    static const char *const ways[] = {"table",  "registration", "embedded",
                                       "symbol", "pool",         "link"};
    if (p->silo)
        kda_put_text(row, "silo", p->silo->label);
    if (p->has_type)
        kda_put_text(row, "type", kda_etw_guid_type_name(p->type));
    if (p->has_guid)
        kda_put_guid(row, "guid", p->guid);
    put_known(row, "name", p->name);
    if (p->has_group)
        kda_put_guid(row, "group", p->group);
    kda_put_hex(row, "va", p->va);
    PUT_BITS(row, "found_by", p->found_by, ways);
    if (p->combined.readable) {
        kda_put_object(row, "provider_enable");
        kda_put_bool(row, "enabled", p->combined.enabled != 0);
        kda_put_uint(row, "level", p->combined.level);
        kda_put_hex(row, "match_any", p->combined.match_any);
        kda_put_hex(row, "match_all", p->combined.match_all);
        kda_put_end(row);
    }
    put_enables(row, p);
    kda_put_array(row, "filters");
    for (size_t i = 0; i < p->filter_count; i++)
        put_filter(row, &p->filters[i]);
    kda_put_end(row);
    put_known(row, "security", p->security);
    kda_put_array(row, "registrations");
    for (size_t i = 0; i < p->registration_count; i++)
        put_registration(row, p->registrations[i]);
    kda_put_end(row);
}

void kda_report_session(struct kda_report *report, const struct kda_etw_session *session)
{
    kda_build_session(kda_report_row(report, KDA_ROW_SESSION), session);
    kda_report_emit(report);
}

void kda_report_consumer(struct kda_report *report, const struct kda_etw_consumer *consumer)
{
    kda_build_consumer(kda_report_row(report, KDA_ROW_CONSUMER), consumer);
    kda_report_emit(report);
}

void kda_report_provider(struct kda_report *report, const struct kda_etw_provider *provider)
{
    kda_build_provider(kda_report_row(report, KDA_ROW_PROVIDER), provider);
    kda_report_emit(report);
}

void kda_report_process(struct kda_report *report, const struct kda_process *p, const char *silo)
{
    static const char *const ways[] = {"list", "handle_table", "cid", "back_pointer", "pool"};
    struct kda_row *row = kda_report_row(report, KDA_ROW_PROCESS);
    if (p->has_pid)
        kda_put_uint(row, "pid", p->pid);
    if (p->has_ppid)
        kda_put_uint(row, "ppid", p->ppid);
    put_known(row, "name", p->name);
    put_known(row, "image", p->image);
    kda_put_hex(row, "va", p->va);
    kda_put_address(row, "dtb", p->dtb);
    kda_put_time(row, "create_time", p->create_time_100ns);
    kda_put_time(row, "exit_time", p->exit_time_100ns);
    if (p->has_protection)
        kda_put_uint(row, "protection", p->protection);
    kda_put_text(row, "silo", silo);
    PUT_BITS(row, "found_by", p->found_by, ways);
    kda_report_emit(report);
}
