#include "forge_int.h"

#include <stdarg.h>

#include "text.h"

/* The truth as JSON: one object, one line per record. Addresses are hex strings, because a JSON
 * number does not hold 64 bits everywhere. */

struct out {
    FILE *file;
    bool first;
};

static void raw(struct out *o, const char *fmt, ...) KDA_PRINTF(2, 3);
static void raw(struct out *o, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)vfprintf(o->file, fmt, args);
    va_end(args);
}

static void quoted(struct out *o, const char *text)
{
    (void)fputc('"', o->file);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p < 0x20 || *p == 0x7f || *p == '"' || *p == '\\')
            raw(o, "\\u%04x", *p);
        else
            (void)fputc(*p, o->file);
    }
    (void)fputc('"', o->file);
}

static void key(struct out *o, const char *name)
{
    raw(o, "%s\"%s\":", o->first ? "" : ",", name);
    o->first = false;
}

static void text(struct out *o, const char *name, const char *value)
{
    key(o, name);
    if (value)
        quoted(o, value);
    else
        raw(o, "null");
}

static void number(struct out *o, const char *name, uint64_t value)
{
    key(o, name);
    raw(o, "%llu", (unsigned long long)value);
}

static void hex(struct out *o, const char *name, uint64_t value)
{
    key(o, name);
    raw(o, "\"0x%llx\"", (unsigned long long)value);
}

static void flag(struct out *o, const char *name, bool value)
{
    key(o, name);
    raw(o, value ? "true" : "false");
}

static void guid(struct out *o, const char *name, const uint8_t value[16])
{
    char buffer[KDA_GUID_TEXT];
    kda_guid_text(value, buffer);
    text(o, name, buffer);
}

/* Something that exists in one of two states only. */
static void states(struct out *o, enum forge_moment in)
{
    if (in == FORGE_BOTH)
        return;
    key(o, "states");
    raw(o, "[\"%s\"]", in == FORGE_FIRST ? "first" : "later");
}

static void open_list(struct out *o, const char *name)
{
    raw(o, ",\n\"%s\":[", name);
}

static void open_row(struct out *o, size_t index)
{
    raw(o, "%s\n{", index ? "," : "");
    o->first = true;
}

static void close_list(struct out *o)
{
    raw(o, "]");
    o->first = false;
}

static void put_kernel(struct out *o, const struct forge_truth *t)
{
    text(o, "version", t->version);
    number(o, "build", t->build);
    hex(o, "base", t->base);
    hex(o, "dtb", t->dtb);
    hex(o, "kdbg", t->kdbg_va);
    flag(o, "kdbg_encoded", t->kdbg_encoded);
    flag(o, "la57", t->la57);
    number(o, "cpus", t->cpus);
    number(o, "system_time", t->system_time);
    number(o, "memory_size", t->memory_size);
    number(o, "pages_used", t->pages_used);
    text(o, "pdb_name", t->id.pdb_name);
    guid(o, "pdb_guid", t->id.pdb_guid);
    number(o, "pdb_age", t->id.pdb_age);
    number(o, "pe_timestamp", t->id.pe_timestamp);
    number(o, "pe_size", t->id.pe_size);
    number(o, "hostile", t->hostile_count);
}

static void put_modules(struct out *o, const struct forge_truth *t)
{
    open_list(o, "modules");
    for (size_t i = 0; i < t->module_count; i++) {
        const struct forge_module *m = &t->modules[i];
        open_row(o, i);
        text(o, "name", m->name);
        text(o, "path", m->path);
        hex(o, "va", m->va);
        hex(o, "base", m->base);
        number(o, "size", m->size);
        number(o, "timestamp", m->timestamp);
        flag(o, "linked", !m->unlinked);
        flag(o, "readable", m->readable);
        raw(o, "}");
    }
    close_list(o);
}

static void put_processes(struct out *o, const struct forge_truth *t)
{
    open_list(o, "processes");
    for (size_t i = 0; i < t->process_count; i++) {
        const struct forge_process *p = &t->processes[i];
        open_row(o, i);
        number(o, "pid", p->pid);
        number(o, "ppid", p->ppid);
        text(o, "name", p->name);
        text(o, "path", p->path);
        hex(o, "va", p->va);
        hex(o, "dtb", p->dtb);
        hex(o, "table", p->table_va);
        number(o, "levels", p->levels);
        number(o, "handles", p->handles);
        number(o, "create_time", p->create_time);
        number(o, "exit_time", p->exit_time);
        number(o, "protection", p->protection);
        number(o, "silo", t->silos[p->silo].number);
        flag(o, "linked", !p->unlinked);
        flag(o, "in_cid", !p->no_cid);
        flag(o, "in_table_list", p->table_va && !p->no_table_link);
        flag(o, "readable", p->readable);
        flag(o, "path_readable", p->path_readable);
        flag(o, "table_readable", p->table_readable);
        states(o, p->in);
        raw(o, "}");
    }
    close_list(o);
}

static void put_silos(struct out *o, const struct forge_truth *t)
{
    open_list(o, "silos");
    for (size_t i = 0; i < t->silo_count; i++) {
        open_row(o, i);
        number(o, "number", t->silos[i].number);
        number(o, "max", t->silos[i].max);
        hex(o, "state", t->silos[i].state);
        hex(o, "array", t->silos[i].array);
        hex(o, "table", t->silos[i].table);
        hex(o, "job", t->silos[i].job);
        hex(o, "globals", t->silos[i].globals);
        raw(o, "}");
    }
    close_list(o);
}

static void put_session(struct out *o, const struct forge_truth *t, const struct forge_session *s)
{
    number(o, "silo", t->silos[s->silo].number);
    number(o, "id", s->id);
    number(o, "logger_id", s->logger_id);
    hex(o, "va", s->va);
    text(o, "name", s->name);
    text(o, "file", s->file);
    text(o, "sddl", s->sddl);
    hex(o, "sd", s->sd_va);
    number(o, "mode", s->mode);
    number(o, "clock", s->clock);
    hex(o, "get_cpu_clock", s->get_cpu_clock);
    number(o, "collecting", s->collecting);
    key(o, "accept");
    raw(o, "%d", s->accept);
    number(o, "buffer_size", s->buffer_size);
    number(o, "buffers", s->buffers);
    number(o, "max_buffers", s->max_buffers);
    number(o, "events_lost", s->events_lost);
    number(o, "buffers_lost", s->buffers_lost);
    number(o, "realtime_lost", s->realtime_lost);
    number(o, "written", s->written);
    number(o, "start_time", s->start_time);
    guid(o, "instance", s->instance);
    number(o, "num_consumers", s->num_consumers);
    flag(o, "linked", !s->hidden);
    flag(o, "readable", s->readable);
    flag(o, "name_readable", s->name_readable);
    flag(o, "sd_readable", s->sd_readable);
    states(o, s->in);
}

static void put_sessions(struct out *o, const struct forge_truth *t)
{
    open_list(o, "sessions");
    for (size_t i = 0; i < t->session_count; i++) {
        open_row(o, i);
        put_session(o, t, &t->sessions[i]);
        raw(o, "}");
    }
    close_list(o);
    open_list(o, "consumers");
    for (size_t i = 0; i < t->consumer_count; i++) {
        const struct forge_consumer *c = &t->consumers[i];
        open_row(o, i);
        number(o, "silo", t->silos[c->silo].number);
        number(o, "session", c->session);
        number(o, "pid", c->pid);
        hex(o, "va", c->va);
        hex(o, "handle", c->handle);
        number(o, "flags", c->flags);
        number(o, "buffers_lost", c->buffers_lost);
        flag(o, "linked", !c->unlinked);
        flag(o, "readable", c->readable);
        flag(o, "header_readable", c->header_readable);
        states(o, c->in);
        raw(o, "}");
    }
    close_list(o);
}

static void put_event(struct out *o, const struct forge_event *e)
{
    number(o, "header", etl_header_type(e->kind, e->pointer_size));
    bool ids = e->kind != ETL_PERFINFO, hook = e->kind <= ETL_PERFINFO;
    if (ids) {
        number(o, "pid", e->pid);
        number(o, "tid", e->tid);
    }
    if (hook)
        number(o, "hook", e->hook);
    else
        guid(o, "guid", e->guid);
    number(o, "time", e->time);
    number(o, "size", e->size);
    flag(o, "readable", e->readable);
}

static void put_buffers(struct out *o, const struct forge_truth *t)
{
    open_list(o, "buffers");
    for (size_t i = 0; i < t->buffer_count; i++) {
        const struct forge_buffer *b = &t->buffers[i];
        open_row(o, i);
        number(o, "silo", t->silos[b->silo].number);
        number(o, "session", b->session);
        hex(o, "va", b->va);
        number(o, "cpu", b->cpu);
        number(o, "state", b->state);
        number(o, "used", b->used);
        number(o, "sequence", b->sequence);
        number(o, "user", b->user);
        flag(o, "space", b->space);
        flag(o, "copy", b->copy_of != 0);
        flag(o, "linked", !b->unlinked);
        flag(o, "unwritten", b->unwritten);
        flag(o, "leftover", b->leftover);
        flag(o, "readable", b->readable);
        open_list(o, "events");
        for (size_t k = 0; k < b->event_count; k++) {
            open_row(o, k);
            put_event(o, &b->events[k]);
            raw(o, "}");
        }
        close_list(o);
        raw(o, "}");
    }
    close_list(o);
}

static void put_enable(struct out *o, const struct forge_enable *e)
{
    number(o, "enabled", e->enabled);
    number(o, "session", e->session);
    number(o, "level", e->level);
    number(o, "property", e->property);
    hex(o, "any", e->any);
    hex(o, "all", e->all);
}

static void put_filter(struct out *o, const struct forge_filter *f, size_t slot)
{
    number(o, "slot", slot);
    hex(o, "va", f->va);
    number(o, "flags", f->flags);
    key(o, "pids");
    raw(o, "[");
    for (size_t i = 0; i < f->pid_count; i++)
        raw(o, "%s%u", i ? "," : "", f->pids[i]);
    raw(o, "]");
    key(o, "events");
    raw(o, "[");
    for (size_t i = 0; i < f->event_count; i++)
        raw(o, "%s%u", i ? "," : "", f->events[i]);
    raw(o, "]");
    flag(o, "events_in", f->events_in);
    text(o, "executables", f->executables);
}

static void put_slots(struct out *o, const struct forge_provider *p)
{
    bool first = true;
    key(o, "enables");
    raw(o, "[");
    for (size_t i = 0; i < FORGE_ENABLE_SLOTS; i++) {
        if (!p->enables[i].used)
            continue;
        raw(o, "%s{", first ? "" : ",");
        o->first = true;
        number(o, "slot", i);
        put_enable(o, &p->enables[i]);
        raw(o, "}");
        first = false;
    }
    raw(o, "]");
    o->first = false;
    key(o, "filters");
    raw(o, "[");
    first = true;
    for (size_t i = 0; i < FORGE_ENABLE_SLOTS; i++) {
        if (!p->filters[i].used)
            continue;
        raw(o, "%s{", first ? "" : ",");
        o->first = true;
        put_filter(o, &p->filters[i], i);
        raw(o, "}");
        first = false;
    }
    raw(o, "]");
    o->first = false;
}

static void put_providers(struct out *o, const struct forge_truth *t)
{
    static const char *const types[] = {"trace", "notification", "group"};
    open_list(o, "providers");
    for (size_t i = 0; i < t->provider_count; i++) {
        const struct forge_provider *p = &t->providers[i];
        open_row(o, i);
        number(o, "silo", t->silos[p->silo].number);
        text(o, "type", types[p->type]);
        guid(o, "guid", p->guid);
        text(o, "name", kda_provider_name(p->guid));
        hex(o, "va", p->va);
        number(o, "bucket", p->bucket);
        text(o, "sddl", p->sddl);
        flag(o, "linked", !p->unlinked && !p->embedded);
        flag(o, "embedded", p->embedded);
        flag(o, "readable", p->readable);
        states(o, p->in);
        key(o, "combined");
        raw(o, "{");
        o->first = true;
        put_enable(o, &p->combined);
        raw(o, "}");
        o->first = false;
        put_slots(o, p);
        raw(o, "}");
    }
    close_list(o);
}

static void put_regs(struct out *o, const struct forge_truth *t)
{
    open_list(o, "registrations");
    for (size_t i = 0; i < t->reg_count; i++) {
        const struct forge_reg *r = &t->regs[i];
        open_row(o, i);
        number(o, "provider", r->provider);
        if (r->group)
            number(o, "group", r->group - 1);
        hex(o, "va", r->va);
        text(o, "kind", r->kernel ? "kernel" : "user");
        if (r->kernel) {
            text(o, "driver", r->driver);
            hex(o, "callback", r->callback);
        } else {
            number(o, "pid", r->pid);
        }
        hex(o, "handle", r->handle);
        number(o, "flags", r->flags);
        number(o, "enable_mask", r->enable_mask);
        number(o, "group_mask", r->group_mask);
        text(o, "traits", r->traits);
        flag(o, "linked", !r->unlinked);
        flag(o, "readable", r->readable);
        flag(o, "header_readable", r->header_readable);
        states(o, r->in);
        raw(o, "}");
    }
    close_list(o);
}

static void put_callbacks(struct out *o, const struct forge_truth *t)
{
    open_list(o, "callbacks");
    for (size_t i = 0; i < t->callback_count; i++) {
        const struct forge_callback *c = &t->callbacks[i];
        open_row(o, i);
        text(o, "kind", c->kind);
        text(o, "driver", c->outside ? NULL : c->driver);
        if (c->kind[0] != 'r' && c->kind[0] != 'o')
            number(o, "slot", c->slot);
        hex(o, "slot_va", c->slot_va);
        hex(o, "va", c->va);
        hex(o, "function", c->function);
        hex(o, "post", c->post);
        hex(o, "context", c->context);
        hex(o, "cookie", c->cookie);
        text(o, "altitude", c->altitude);
        flag(o, "linked", !c->emptied);
        flag(o, "readable", c->readable);
        raw(o, "}");
    }
    close_list(o);
}

static void put_holes(struct out *o, const struct forge_truth *t)
{
    open_list(o, "holes");
    for (size_t i = 0; i < t->hole_count; i++) {
        open_row(o, i);
        hex(o, "va", t->holes[i].va);
        hex(o, "pfn", t->holes[i].pfn);
        text(o, "kind", t->holes[i].kind);
        raw(o, "}");
    }
    close_list(o);
}

static const char *moment_name(enum forge_moment moment)
{
    return moment == FORGE_LATER ? "later" : "first";
}

static void put_smear(struct out *o, const struct forge_truth *t)
{
    if (!t->smeared)
        return;
    key(o, "smear");
    raw(o, "{");
    o->first = true;
    number(o, "percent", t->smear_percent);
    number(o, "seed", t->smear_seed);
    open_list(o, "pages");
    for (size_t i = 0; i < t->smear_page_count; i++) {
        open_row(o, i);
        hex(o, "pfn", t->smear_pages[i].pfn);
        hex(o, "va", t->smear_pages[i].va);
        text(o, "state", moment_name(t->smear_pages[i].state));
        raw(o, "}");
    }
    close_list(o);
    open_list(o, "changes");
    for (size_t i = 0; i < t->change_count; i++) {
        open_row(o, i);
        hex(o, "at", t->changes[i].va);
        hex(o, "first", t->changes[i].first);
        hex(o, "later", t->changes[i].later);
        text(o, "in_image", moment_name(t->changes[i].in_image));
        raw(o, "}");
    }
    close_list(o);
    raw(o, "}");
}

bool forge_truth_json(const struct forge *f, FILE *file)
{
    const struct forge_truth *t = &f->truth;
    struct out o = {file, true};
    raw(&o, "{");
    put_kernel(&o, t);
    key(&o, "rvas");
    raw(&o, "{");
    o.first = true;
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        if (f->layout.rva[i] != KDA_NONE)
            hex(&o, kda_symbol_name((enum kda_symbol_id)i), f->layout.rva[i]);
    raw(&o, "}");
    put_modules(&o, t);
    put_processes(&o, t);
    put_silos(&o, t);
    put_sessions(&o, t);
    put_buffers(&o, t);
    put_providers(&o, t);
    put_regs(&o, t);
    put_callbacks(&o, t);
    put_holes(&o, t);
    put_smear(&o, t);
    open_list(&o, "wild_slots");
    for (size_t i = 0; i < t->wild_slot_count; i++)
        raw(&o, "%s\"0x%llx\"", i ? "," : "", (unsigned long long)t->wild_slots[i]);
    close_list(&o);
    raw(&o, "}\n");
    return !ferror(file);
}
