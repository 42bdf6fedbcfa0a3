#define _POSIX_C_SOURCE 200809L

#include "scenario.h"

#include <stdlib.h>

#include "text.h"

/* Directives about sessions, consumers, providers and registrations. */

static bool more(struct line *l, void **items, size_t *capacity, size_t count, size_t size)
{
    if (!kda_grow(items, capacity, count + 1, size, FORGE_MAX_ENTITIES)) {
        line_fail(l, "too many of these, or out of memory");
        return false;
    }
    memset((char *)*items + count * size, 0, size);
    return true;
}

static bool guid_of(struct line *l, const char *text, uint8_t guid[16])
{
    if (text && kda_guid_parse(text, guid))
        return true;
    line_fail(l, "a GUID like {01234567-89ab-cdef-0123-456789abcdef} is expected");
    return false;
}

static void session_counters(struct line *l, struct forge_session *s)
{
    s->buffers = (uint32_t)line_number(l, "buffers", 4, UINT32_MAX);
    s->min_buffers = (uint32_t)line_number(l, "minbuffers", 2, UINT32_MAX);
    s->max_buffers = (uint32_t)line_number(l, "maxbuffers", 26, UINT32_MAX);
    s->events_lost = (uint32_t)line_number(l, "eventslost", 0, UINT32_MAX);
    s->buffers_lost = (uint32_t)line_number(l, "bufferslost", 0, UINT32_MAX);
    s->realtime_lost = (uint32_t)line_number(l, "rtlost", 0, UINT32_MAX);
    s->written = (uint32_t)line_number(l, "written", 0, UINT32_MAX);
}

static void on_session(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    void *items = t->sessions;
    const char *id = line_word(l, 0);
    if (!id || !more(l, &items, &l->f->session_cap, t->session_count, sizeof(*t->sessions))) {
        line_fail(l, "a session needs its slot number");
        return;
    }
    t->sessions = items;
    struct forge_session *s = &t->sessions[t->session_count++];
    s->line = l->number;
    s->id = (uint32_t)parse_number(l, id, 1023);
    s->silo = line_silo(l);
    s->logger_id = (uint32_t)line_number(l, "loggerid", s->id, UINT32_MAX);
    s->name = line_text(l, "name", "");
    s->file = line_text(l, "file", "");
    s->sddl = line_text(l, "sd", NULL);
    s->mode = (uint32_t)line_number(l, "mode", 0x100, UINT32_MAX);
    s->buffer_size = (uint32_t)line_number(l, "buffer", 64 * 1024, UINT32_MAX);
    session_counters(l, s);
    s->flags = (uint32_t)line_number(l, "flags", 0, UINT32_MAX);
    s->clock = (uint32_t)line_number(l, "clock", 1, 3);
    s->collecting = (uint32_t)line_number(l, "collecting", 1, 1);
    s->accept = (int32_t)(uint32_t)line_number(l, "accept", 0, UINT32_MAX);
    s->get_cpu_clock = line_number(l, "getcpuclock", UINT64_MAX, UINT64_MAX);
    const char *started = line_text(l, "started", NULL);
    s->start_time = started ? parse_time(l, started) : 0;
    const char *instance = line_text(l, "instance", NULL);
    if (instance && !guid_of(l, instance, s->instance))
        return;
    s->groups = (uint32_t)line_number(l, "groups", 0x3, UINT32_MAX);
    s->system = line_flag(l, "system");
    s->hidden = line_flag(l, "hidden");
    s->in = line_moment(l);
    for (size_t i = 0; i + 1 < t->session_count; i++)
        if (t->sessions[i].silo == s->silo && t->sessions[i].id == s->id)
            line_fail(l, "slot %u is taken", s->id);
}

static void on_consumer(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    void *items = t->consumers;
    if (!more(l, &items, &l->f->consumer_cap, t->consumer_count, sizeof(*t->consumers)))
        return;
    t->consumers = items;
    struct forge_consumer *c = &t->consumers[t->consumer_count++];
    c->line = l->number;
    c->silo = line_silo(l);
    c->session = (uint32_t)line_number(l, "session", 0, 0xffff);
    c->pid = line_number(l, "pid", 0, UINT32_MAX);
    c->flags = (uint32_t)line_number(l, "flags", 0, 0x1f);
    c->buffers_lost = (uint32_t)line_number(l, "bufferslost", 0, UINT32_MAX);
    c->unlinked = line_flag(l, "unlinked");
    c->no_handle = line_flag(l, "nohandle");
    c->in = line_moment(l);
    if (!forge_process_by_pid(l->f, c->pid))
        line_fail(l, "process %llu is not declared above", (unsigned long long)c->pid);
}

/* "SESSION,level=5,any=0x..,all=0x..,prop=1,slot=3,off" */
static struct forge_enable *enable_of(struct line *l, struct forge_provider *p, const char *text,
                                      size_t *slot)
{
    char *copy = kda_arena_strdup(&l->f->arena, text);
    char *save = NULL;
    struct forge_enable e = {1, 0, 4, true, 0, UINT64_MAX, 0};
    size_t at_slot = 0;
    while (at_slot < FORGE_ENABLE_SLOTS && p->enables[at_slot].used)
        at_slot++;
    char *part = copy ? strtok_r(copy, ",", &save) : NULL;
    for (bool first = true; part; part = strtok_r(NULL, ",", &save), first = false) {
        char *value = strchr(part, '=');
        if (value)
            *value++ = '\0';
        if (!value && (first || strcmp(part, "off") == 0)) {
            if (first)
                e.session = (uint32_t)parse_number(l, part, 0xffff);
            else
                e.enabled = 0;
        } else if (value && strcmp(part, "level") == 0) {
            e.level = (uint8_t)parse_number(l, value, 255);
        } else if (value && strcmp(part, "any") == 0) {
            e.any = parse_number(l, value, UINT64_MAX);
        } else if (value && strcmp(part, "all") == 0) {
            e.all = parse_number(l, value, UINT64_MAX);
        } else if (value && strcmp(part, "prop") == 0) {
            e.property = (uint32_t)parse_number(l, value, UINT32_MAX);
        } else if (value && strcmp(part, "slot") == 0) {
            at_slot = (size_t)parse_number(l, value, FORGE_ENABLE_SLOTS - 1);
        } else {
            line_fail(l, "enable does not understand \"%s\"", part);
            return NULL;
        }
    }
    if (at_slot >= FORGE_ENABLE_SLOTS || p->enables[at_slot].used) {
        line_fail(l, "no free enable slot, or the slot is taken");
        return NULL;
    }
    p->enables[at_slot] = e;
    *slot = at_slot;
    return &p->enables[at_slot];
}

/* "pids:1,2", "events:1,2", "events-out:3", "exes:a.exe;b.exe" */
static void filter_of(struct line *l, struct forge_filter *f, const char *text)
{
    const char *list = strchr(text, ':');
    if (!list) {
        line_fail(l, "filter is pids:, events:, events-out: or exes:");
        return;
    }
    f->used = true;
    list++;
    if (strncmp(text, "exes:", 5) == 0) {
        f->executables = list;
        return;
    }
    bool pids = strncmp(text, "pids:", 5) == 0;
    bool events = strncmp(text, "events:", 7) == 0;
    if (!pids && !events && strncmp(text, "events-out:", 11) != 0) {
        line_fail(l, "unknown filter \"%s\"", text);
        return;
    }
    if (!pids)
        f->events_in = events;
    char *copy = kda_arena_strdup(&l->f->arena, list);
    char *save = NULL;
    for (char *part = copy ? strtok_r(copy, ",", &save) : NULL; part;
         part = strtok_r(NULL, ",", &save)) {
        uint64_t v = parse_number(l, part, pids ? UINT32_MAX : UINT16_MAX);
        if (pids && f->pid_count < FORGE_MAX_FILTER_PIDS)
            f->pids[f->pid_count++] = (uint32_t)v;
        else if (!pids && f->event_count < FORGE_MAX_FILTER_EVENTS)
            f->events[f->event_count++] = (uint16_t)v;
        else
            line_fail(l, "too many numbers in a filter");
    }
}

static enum forge_guid_type type_of(struct line *l)
{
    const char *type = line_text(l, "type", "trace");
    if (strcmp(type, "notification") == 0)
        return FORGE_NOTIFICATION;
    if (strcmp(type, "group") == 0)
        return FORGE_GROUP;
    if (strcmp(type, "trace") != 0)
        line_fail(l, "type is trace, notification or group");
    return FORGE_TRACE;
}

static size_t find_provider(const struct forge *f, unsigned silo, enum forge_guid_type type,
                            const uint8_t guid[16])
{
    for (size_t i = f->truth.provider_count; i > 0; i--) {
        const struct forge_provider *p = &f->truth.providers[i - 1];
        if (p->silo == silo && p->type == type && memcmp(p->guid, guid, 16) == 0)
            return i;
    }
    return 0;
}

static void on_provider(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    uint8_t guid[16];
    if (!guid_of(l, line_word(l, 0), guid))
        return;
    void *items = t->providers;
    if (!more(l, &items, &l->f->provider_cap, t->provider_count, sizeof(*t->providers)))
        return;
    t->providers = items;
    struct forge_provider *p = &t->providers[t->provider_count];
    memcpy(p->guid, guid, 16);
    p->line = l->number;
    p->silo = line_silo(l);
    p->type = type_of(l);
    p->sddl = line_text(l, "sd", NULL);
    p->unlinked = line_flag(l, "unlinked");
    p->embedded = line_flag(l, "embedded");
    p->in = line_moment(l);
    if (find_provider(l->f, p->silo, p->type, guid))
        line_fail(l, "this provider exists already");
    t->provider_count++;
    size_t slot = FORGE_ENABLE_SLOTS;
    for (size_t i = 1; i < l->count && forge_ok(l->f); i++) {
        struct word *w = &l->words[i];
        if (!w->key || w->used)
            continue;
        if (strcmp(w->key, "enable") == 0) {
            w->used = true;
            (void)enable_of(l, p, w->value, &slot);
        } else if (strcmp(w->key, "filter") == 0 && slot < FORGE_ENABLE_SLOTS) {
            w->used = true;
            filter_of(l, &p->filters[slot], w->value);
        }
    }
}

static void reg_source(struct line *l, struct forge_reg *r)
{
    bool user = line_flag(l, "user");
    r->kernel = line_flag(l, "kernel");
    if (user == r->kernel) {
        line_fail(l, "a registration is either \"user\" or \"kernel\"");
        return;
    }
    if (r->kernel) {
        r->driver = line_text(l, "driver", "nt");
        return;
    }
    r->pid = line_number(l, "pid", 0, UINT32_MAX);
    if (!forge_process_by_pid(l->f, r->pid))
        line_fail(l, "process %llu is not declared above", (unsigned long long)r->pid);
}

static void on_reg(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    uint8_t guid[16], group[16];
    if (!guid_of(l, line_word(l, 0), guid))
        return;
    unsigned silo = line_silo(l);
    size_t provider = find_provider(l->f, silo, type_of(l), guid);
    const char *group_text = line_text(l, "group", NULL);
    size_t group_at = 0;
    if (group_text && guid_of(l, group_text, group))
        group_at = find_provider(l->f, silo, FORGE_GROUP, group);
    if (provider == 0 || (group_text && group_at == 0)) {
        line_fail(l, "the provider or its group is not declared above");
        return;
    }
    void *items = t->regs;
    if (!more(l, &items, &l->f->reg_cap, t->reg_count, sizeof(*t->regs)))
        return;
    t->regs = items;
    struct forge_reg *r = &t->regs[t->reg_count++];
    r->line = l->number;
    r->provider = provider - 1;
    r->group = group_at;
    r->traits = line_text(l, "traits", NULL);
    r->extra_flags = (uint16_t)line_number(l, "flags", 0, 0xffff);
    const char *mask = line_text(l, "mask", NULL);
    r->has_mask = mask != NULL;
    r->enable_mask = mask ? (uint8_t)parse_number(l, mask, 0xff) : 0;
    r->unlinked = line_flag(l, "unlinked");
    r->no_handle = line_flag(l, "nohandle");
    r->in = line_moment(l);
    reg_source(l, r);
}

const struct directive etw_directives[] = {
    {"session", on_session},   {"consumer", on_consumer}, {"buffer", on_buffer},
    {"provider", on_provider}, {"reg", on_reg},           {NULL, NULL},
};
