/*
 * audit_filter.c - providers that are enabled and whose filters let nothing through.
 */
#include "audit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ImageFileName has room for 14 characters. */
#define SHORT_NAME 14u
#define NAME_MAX_BYTES 260u

/* ---- names of running programs ---- */

/* Sorted without regard to case. A process whose path cannot be read has its short name only, and
 * stands for every program whose name begins like that. */
struct kda_names {
    const char **whole, **cut;
    size_t whole_count, cut_count;
};

static int by_name(const void *a, const void *b)
{
    return kda_compare_nocase(*(const char *const *)a, *(const char *const *)b);
}

void kda_names_free(struct kda_names *names)
{
    if (!names)
        return;
    kda_free(names->whole);
    kda_free(names->cut);
    kda_free(names);
}

static struct kda_names *names_of(const struct kda_audit *audit)
{
    struct kda_names *names = kda_calloc(1, sizeof(*names));
    size_t room = audit->process_count ? audit->process_count : 1;
    if (!names)
        return NULL;
    names->whole = kda_calloc(room, sizeof(*names->whole));
    names->cut = kda_calloc(room, sizeof(*names->cut));
    if (!names->whole || !names->cut) {
        kda_names_free(names);
        return NULL;
    }
    for (size_t i = 0; i < audit->process_count; i++) {
        const struct kda_process *process = &audit->processes[i];
        const char *file = process->image ? strrchr(process->image, '\\') : NULL;
        if (process->exit_time_100ns)
            continue;
        if (file)
            names->whole[names->whole_count++] = file + 1;
        else if (process->name && process->name[0])
            names->cut[names->cut_count++] = process->name;
    }
    qsort(names->whole, names->whole_count, sizeof(*names->whole), by_name);
    qsort(names->cut, names->cut_count, sizeof(*names->cut), by_name);
    return names;
}

static bool among(const char *const *list, size_t count, const char *name)
{
    return count > 0 && bsearch(&name, list, count, sizeof(*list), by_name) != NULL;
}

/* Cuts at the n-th character. */
static void shorten(char *text, size_t characters)
{
    for (; *text; text++)
        if (((unsigned char)*text & 0xc0) != 0x80 && characters-- == 0) {
            *text = '\0';
            return;
        }
}

bool kda_audit_runs(struct kda_audit *audit, const char *name, size_t size)
{
    char wanted[NAME_MAX_BYTES];
    if (!audit->running)
        audit->running = names_of(audit);
    if (!audit->running) {
        audit->no_memory = true;
        return true;
    }
    for (size_t i = size; i > 0; i--) /* a path: the last part counts */
        if (name[i - 1] == '\\') {
            name += i;
            size -= i;
            break;
        }
    if (size >= sizeof(wanted))
        return false;
    memcpy(wanted, name, size);
    wanted[size] = '\0';
    if (among(audit->running->whole, audit->running->whole_count, wanted))
        return true;
    shorten(wanted, SHORT_NAME);
    return among(audit->running->cut, audit->running->cut_count, wanted);
}

/* ---- filters ---- */

static bool any_pid_alive(const struct kda_audit *audit, const struct kda_etw_filter *filter)
{
    for (size_t i = 0; i < filter->pid_count; i++)
        if (kda_audit_live_pid(audit, filter->pids[i]))
            return true;
    return false;
}

static bool any_executable_alive(struct kda_audit *audit, const char *names)
{
    while (*names) {
        size_t size = strcspn(names, ";");
        if (size > 0 && kda_audit_runs(audit, names, size))
            return true;
        names += size;
        names += *names == ';';
    }
    return false;
}

static void pid_text(const struct kda_etw_filter *filter, char *text, size_t cap)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < filter->pid_count && used + 16 < cap; i++)
        used += (size_t)snprintf(text + used, cap - used, "%s%u", i ? " " : "", filter->pids[i]);
}

/* A list of ids to let through: does any event that the provider is known to have pass? No table of
 * events is complete, newer builds add some: worth a look, no alarm. */
static void known_events(struct kda_audit *audit, const struct kda_etw_provider *provider,
                         const struct kda_etw_filter *filter, const struct kda_subject *subject)
{
    uint16_t id;
    size_t n = 0;
    for (; audit->options.known_event(audit->options.context, provider->guid, n, &id); n++)
        for (size_t i = 0; i < filter->event_id_count; i++)
            if (filter->event_ids[i] == id)
                return;
    if (n == 0)
        return;
    kda_audit_finding(audit, KDA_SEVERITY_INFO, subject,
                      "slot %u lets through no event that the provider is known to have",
                      filter->slot);
    kda_audit_number(audit, "event ids", filter->va, filter->event_id_count,
                     "a list with one of its events");
}

/* Filters of one sort that let nothing through, as one finding. */
static void tell_silent(struct kda_audit *audit, const struct kda_etw_provider *provider,
                        const struct kda_subject *subject, const char *what,
                        bool (*lets_through)(struct kda_audit *, const struct kda_etw_filter *))
{
    unsigned slots = 0;
    for (size_t i = 0; i < provider->filter_count; i++) {
        const struct kda_etw_filter *filter = &provider->filters[i];
        if (filter->slot < KDA_ETW_ENABLE_SLOTS && provider->enables[filter->slot].enabled &&
            !lets_through(audit, filter))
            slots |= 1u << filter->slot;
    }
    if (slots == 0)
        return;
    if (!kda_audit_processes_whole(audit)) {
        kda_audit_open(audit, subject, "slots 0x%x: not every process of the image can be read",
                       slots);
        return;
    }
    if (kda_audit_has_gap(audit, "filter")) {
        kda_audit_open(audit, subject, "slots 0x%x: not every filter of the image can be read",
                       slots);
        return;
    }
    kda_audit_finding(audit, KDA_SEVERITY_MEDIUM, subject,
                      "slots 0x%x are enabled for %s of which none is alive: no event passes",
                      slots, what);
    for (size_t i = 0; i < provider->filter_count; i++) {
        const struct kda_etw_filter *filter = &provider->filters[i];
        char pids[256];
        if (filter->slot >= KDA_ETW_ENABLE_SLOTS || !(slots >> filter->slot & 1u))
            continue;
        pid_text(filter, pids, sizeof(pids));
        kda_audit_evidence(audit, "filter", filter->va,
                           filter->has_pids ? pids : filter->executables, "a process that runs");
    }
}

static bool pids_alive(struct kda_audit *audit, const struct kda_etw_filter *filter)
{
    return !filter->has_pids || any_pid_alive(audit, filter);
}

static bool executables_alive(struct kda_audit *audit, const struct kda_etw_filter *filter)
{
    return !filter->executables || any_executable_alive(audit, filter->executables);
}

static void filtered(struct kda_audit *audit, const struct kda_etw_provider *provider,
                     const struct kda_subject *subject)
{
    if (!kda_audit_slots_readable(audit, provider, subject))
        return;
    tell_silent(audit, provider, subject, "process ids", pids_alive);
    tell_silent(audit, provider, subject, "executables", executables_alive);
    for (size_t i = 0; i < provider->filter_count; i++) {
        const struct kda_etw_filter *filter = &provider->filters[i];
        if (filter->slot >= KDA_ETW_ENABLE_SLOTS || !provider->enables[filter->slot].enabled)
            continue;
        if (filter->has_event_ids && provider->has_guid && audit->options.known_event)
            known_events(audit, provider, filter, subject);
        if (filter->others & KDA_FILTER_EVENT_ID)
            kda_audit_open(audit, subject,
                           "slot %u: its event-id filter has a form that is not decoded",
                           filter->slot);
    }
}

void kda_check_filtered(struct kda_audit *audit)
{
    static const char *const kinds[] = {"filter", NULL};
    kda_audit_open_gaps(audit, "filters", kinds);
    kda_audit_each_provider(audit, filtered);
}
