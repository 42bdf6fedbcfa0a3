#include "forge_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "text.h"

/* Pages that are missing from the image, and what that makes unreadable. */

#define PTE_TRANSITION 0x880u /* transition, read-write */
#define PTE_SOFTWARE 0x80u    /* in page file 0, read-write */
#define PA_BITS 0x000ffffffffff000u

struct extent {
    uint64_t va, size;
    uint64_t root; /* page tables; 0 = the kernel's */
};

bool forge_planned_text(const struct forge *f, const char *kind, const char *id)
{
    size_t length = strlen(kind);
    for (size_t i = 0; i < f->hole_plan_count; i++) {
        const char *what = f->hole_plans[i].what;
        if (strncmp(what, kind, length) == 0 && what[length] == ':' &&
            strcmp(what + length + 1, id) == 0)
            return true;
    }
    return false;
}

bool forge_planned(const struct forge *f, const char *kind, uint64_t id)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)id);
    return forge_planned_text(f, kind, text);
}

static struct extent process_part(struct forge *f, const char *kind, uint64_t pid)
{
    const struct forge_process *p = forge_process_by_pid(f, pid);
    struct extent none = {0, 0, 0};
    if (!p)
        return none;
    if (strcmp(kind, "process") == 0)
        return (struct extent){p->va, size_of(f, ST(EPROCESS), 0xb80), 0};
    if (strcmp(kind, "path") == 0)
        return (struct extent){p->path_va, 16, 0};
    if (!p->table_va)
        return none;
    if (strcmp(kind, "table") == 0)
        return (struct extent){p->table_va, size_of(f, ST(HANDLE_TABLE), 0x80), 0};
    return (struct extent){get64(f, at(f, p->table_va, F(HANDLE_TABLE, TableCode))) & ~(uint64_t)7,
                           PAGE, 0};
}

static struct extent session_part(struct forge *f, const char *kind, uint64_t id)
{
    for (size_t i = 0; i < f->truth.session_count; i++) {
        const struct forge_session *s = &f->truth.sessions[i];
        if (s->silo != 0 || s->id != id)
            continue;
        if (strcmp(kind, "session") == 0)
            return (struct extent){s->va, size_of(f, ST(WMI_LOGGER_CONTEXT), 0x560), 0};
        return (struct extent){strcmp(kind, "name") == 0 ? s->name_va : s->sd_va, 2, 0};
    }
    return (struct extent){0, 0, 0};
}

static struct extent etw_part(struct forge *f, const char *kind, const char *id)
{
    const struct forge_truth *t = &f->truth;
    uint64_t number = strtoull(id, NULL, 0);
    uint8_t guid[16];
    for (size_t i = 0; strcmp(kind, "consumer") == 0 && i < t->consumer_count; i++)
        if (t->consumers[i].pid == number)
            return (struct extent){t->consumers[i].va, 0x58, 0};
    if (strcmp(kind, "buffer") == 0 && number < t->buffer_count)
        return (struct extent){t->buffers[number].va, 72, 0};
    if (strcmp(kind, "buffertail") == 0 && number < t->buffer_count)
        return (struct extent){t->buffers[number].va + PAGE, 72, 0};
    if (strcmp(kind, "reg") == 0 && number < t->reg_count)
        return (struct extent){t->regs[number].va, 0x40, 0};
    for (size_t i = 0; strcmp(kind, "provider") == 0 && i < t->provider_count; i++)
        if (kda_guid_parse(id, guid) && memcmp(guid, t->providers[i].guid, 16) == 0)
            return (struct extent){t->providers[i].va, 0x100, 0};
    for (size_t i = 0; i < t->silo_count; i++)
        if (t->silos[i].number == number && strcmp(kind, "state") == 0)
            return (struct extent){t->silos[i].state, size_of(f, ST(ETW_SILODRIVERSTATE), 8), 0};
        else if (t->silos[i].number == number && strcmp(kind, "array") == 0)
            return (struct extent){t->silos[i].array, 8 * (uint64_t)t->silos[i].max, 0};
    const struct forge_module *m = strcmp(kind, "module") == 0 ? forge_module_by_name(f, id) : NULL;
    if (m)
        return (struct extent){m->va, 0x60, 0};
    if (strcmp(kind, "cid") == 0)
        return (struct extent){f->cid_va, 0x40, 0};
    return (struct extent){0, 0, 0};
}

/* What the audit reads beside the objects of ETW. */
static struct extent audit_part(struct forge *f, const char *kind, const char *id)
{
    uint64_t number = strtoull(id, NULL, 0), va = user_part(f, kind, number);
    const struct forge_callback *callback =
        number < f->truth.callback_count ? &f->truth.callbacks[number] : NULL;
    if (va)
        return (struct extent){va, 1, forge_process_by_pid(f, number)->dtb};
    if (strcmp(kind, "callback") == 0 && callback)
        return (struct extent){callback->va, 0x38, 0};
    if (strcmp(kind, "altitude") == 0 && callback)
        return (struct extent){callback->altitude_va, 2, 0};
    for (size_t i = 0; i < f->truth.silo_count; i++)
        if (f->truth.silos[i].number == number && strcmp(kind, "settings") == 0)
            return (struct extent){
                at(f, f->truth.silos[i].state, F(ETW_SILODRIVERSTATE, SystemLoggerSettings)),
                size_of(f, ST(ETW_SYSTEM_LOGGER_SETTINGS), 1), 0};
    const struct forge_module *m =
        strcmp(kind, "imports") == 0 ? forge_module_by_name(f, id) : NULL;
    if (m)
        return (struct extent){m->base + IMPORTS_RVA, 1, 0};
    for (size_t i = 0; strcmp(kind, "code") == 0 && i < f->export_count; i++)
        if (strcmp(f->exports[i].name, id) == 0)
            return (struct extent){f->truth.base + f->exports[i].rva, 1, 0};
    return (struct extent){0, 0, 0};
}

static uint64_t symbol_named(const struct forge *f, const char *name)
{
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        if (strcmp(kda_symbol_name((enum kda_symbol_id)i), name) == 0)
            return symbol(f, (enum kda_symbol_id)i);
    return 0;
}

/* The page on which the named thing begins, with all that it shares the page with. */
static struct extent page_of(struct forge *f, const char *object)
{
    const char *type = NULL;
    char named[80];
    (void)snprintf(named, sizeof(named), "%s%.60s", strchr(object, ':') ? "" : "symbol:", object);
    return (struct extent){object_named(f, named, &type), 1, 0};
}

static struct extent resolve(struct forge *f, const struct hole *h)
{
    char kind[16];
    const char *id = strchr(h->what, ':');
    size_t length = id ? (size_t)(id - h->what) : sizeof(kind);
    if (length >= sizeof(kind))
        return (struct extent){0, 0, 0};
    memcpy(kind, h->what, length);
    kind[length] = '\0';
    id++;
    uint64_t number = strtoull(id, NULL, 0);
    if (strcmp(kind, "va") == 0)
        return (struct extent){number, 1, 0};
    if (strcmp(kind, "page-of") == 0)
        return page_of(f, id);
    if (strcmp(kind, "symbol") == 0)
        return (struct extent){symbol_named(f, id), 1, 0};
    if (strcmp(kind, "process") == 0 || strcmp(kind, "path") == 0 || strcmp(kind, "table") == 0 ||
        strcmp(kind, "leaf") == 0)
        return process_part(f, kind, number);
    if (strcmp(kind, "session") == 0 || strcmp(kind, "name") == 0 || strcmp(kind, "sd") == 0)
        return session_part(f, kind, number);
    struct extent part = etw_part(f, kind, id);
    return part.va ? part : audit_part(f, kind, id);
}

static void record(struct forge *f, uint64_t va, uint64_t pfn, const char *kind)
{
    struct forge_truth *t = &f->truth;
    void *items = t->holes;
    if (!kda_grow(&items, &f->hole_cap, t->hole_count + 1, sizeof(*t->holes), 1u << 20)) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return;
    }
    t->holes = items;
    t->holes[t->hole_count++] = (struct forge_hole_page){va, pfn, kind};
}

static bool overwrites(const char *kind)
{
    return strcmp(kind, "zeros") == 0 || strcmp(kind, "0x41") == 0 || strcmp(kind, "page") == 0;
}

/* The bytes of another page of the pools. */
static const uint8_t *other_page(struct forge *f, uint64_t pfn)
{
    for (unsigned tries = 0; tries < 1000; tries++) {
        const struct pool_state *pool = &f->pool[forge_random(f, POOL_COUNT)];
        uint64_t va = pool->start + forge_random(f, (pool->mapped - pool->start) / PAGE) * PAGE;
        uint64_t pa = 0;
        if (translate(f, va, &pa) && pa / PAGE != pfn && phys_peek(f, pa / PAGE))
            return phys_peek(f, pa / PAGE);
    }
    forge_fail(f, KDA_LIMIT, "there is no other page");
    return NULL;
}

static void overwrite(struct forge *f, uint64_t pfn, const char *kind)
{
    const uint8_t *other = strcmp(kind, "page") == 0 ? other_page(f, pfn) : NULL;
    uint8_t *page = phys_bytes(f, pfn);
    if (!page || !forge_ok(f))
        return;
    if (other)
        memcpy(page, other, PAGE);
    else
        memset(page, strcmp(kind, "0x41") == 0 ? 0x41 : 0, PAGE);
}

static bool overwritten(const struct forge *f, uint64_t pfn)
{
    for (size_t i = 0; i < f->truth.hole_count; i++)
        if (f->truth.holes[i].pfn == pfn && overwrites(f->truth.holes[i].kind))
            return true;
    return false;
}

static void take_out(struct forge *f, uint64_t root, uint64_t va, const struct hole *h)
{
    unsigned level = 0;
    uint8_t *entry = find_entry(f, root, va, &level);
    uint64_t pa = 0;
    if (!entry || !translate_in(f, root, va, &pa)) {
        forge_fail(f, KDA_USAGE, "0x%llx is not mapped", (unsigned long long)va);
        return;
    }
    if (!(kda_le64(entry) & 1))
        return; /* a page is taken once */
    if (overwrites(h->kind)) {
        overwrite(f, pa / PAGE, h->kind);
        record(f, va & ~(uint64_t)(PAGE - 1), pa / PAGE, h->kind);
        return;
    }
    record(f, va & ~(uint64_t)(PAGE - 1), pa / PAGE, h->kind);
    if (strcmp(h->kind, "absent") == 0) {
        phys_set_state(f, pa / PAGE, PAGE_GONE);
        return;
    }
    if (level != 1) {
        forge_fail(f, KDA_USAGE, "part of a large page can only be absent");
        return;
    }
    if (strcmp(h->kind, "transition") == 0) {
        kda_put_le64(entry, (kda_le64(entry) & PA_BITS) | PTE_TRANSITION);
        return;
    }
    kda_put_le64(entry, (0x1000 + forge_random(f, 0x100000)) << 32 | PTE_SOFTWARE);
    uint8_t *page = phys_bytes(f, pa / PAGE);
    if (page)
        memset(page, 0, PAGE);
    phys_set_state(f, pa / PAGE, PAGE_FILLER);
}

/* Runs of neighbouring pages, as many as take the share in all. */
static void take_percent(struct forge *f, const struct hole *h)
{
    uint64_t percent = strtoull(h->what + strlen("percent:"), NULL, 0);
    for (size_t pool = 0; pool < POOL_COUNT; pool++) {
        unsigned left = 0;
        if (!(pool == POOL_PAGED ? h->paged : h->nonpaged))
            continue;
        for (uint64_t va = f->pool[pool].start; va < f->pool[pool].mapped && forge_ok(f);
             va += PAGE) {
            if (left == 0 && forge_random(f, 100 * (uint64_t)h->run) < percent)
                left = h->run;
            if (left == 0)
                continue;
            take_out(f, f->root, va, h);
            left--;
        }
    }
}

void holes_apply(struct forge *f)
{
    for (size_t i = 0; i < f->hole_plan_count && forge_ok(f); i++) {
        const struct hole *h = &f->hole_plans[i];
        f->line = h->line;
        if (strncmp(h->what, "percent:", 8) == 0) {
            take_percent(f, h);
            continue;
        }
        struct extent e = resolve(f, h);
        if (e.va == 0) {
            forge_fail(f, KDA_USAGE, "no \"%s\" in this image", h->what);
            return;
        }
        uint64_t last = (e.va + e.size - 1) & ~(uint64_t)(PAGE - 1);
        for (uint64_t va = e.va & ~(uint64_t)(PAGE - 1); va <= last && forge_ok(f); va += PAGE)
            take_out(f, e.root ? e.root : f->root, va, h);
    }
    f->line = 0;
}

bool range_readable(struct forge *f, uint64_t va, uint64_t size)
{
    if (va == 0)
        return false;
    uint64_t last = (va + (size ? size - 1 : 0)) & ~(uint64_t)(PAGE - 1);
    for (uint64_t page = va & ~(uint64_t)(PAGE - 1); page <= last; page += PAGE) {
        uint64_t pa = 0;
        if (!translate(f, page, &pa) || phys_state(f, pa / PAGE) == PAGE_GONE ||
            overwritten(f, pa / PAGE))
            return false;
    }
    return true;
}

/* The pages of the two things behind a session that are optional. */
static void session_readable(struct forge *f, struct forge_session *s)
{
    s->readable = range_readable(f, s->va, size_of(f, ST(WMI_LOGGER_CONTEXT), 0x560));
    s->name_readable = range_readable(f, s->name_va, 2);
    s->sd_readable = range_readable(f, s->sd_va, 20);
}

void readable_finish(struct forge *f)
{
    struct forge_truth *t = &f->truth;
    for (size_t i = 0; i < t->module_count; i++)
        t->modules[i].readable = range_readable(f, t->modules[i].va, 0xa0);
    for (size_t i = 0; i < t->process_count; i++) {
        struct forge_process *p = &t->processes[i];
        p->readable = range_readable(f, p->va, size_of(f, ST(EPROCESS), 0xb80));
        p->path_readable = range_readable(f, p->path_va, 16 + 2 * strlen(p->path));
        p->table_readable = range_readable(f, p->table_va, size_of(f, ST(HANDLE_TABLE), 0x80));
    }
    for (size_t i = 0; i < t->session_count; i++)
        session_readable(f, &t->sessions[i]);
    for (size_t i = 0; i < t->consumer_count; i++) {
        t->consumers[i].readable =
            range_readable(f, t->consumers[i].va, size_of(f, ST(ETW_REALTIME_CONSUMER), 0xa0));
        t->consumers[i].header_readable = range_readable(f, t->consumers[i].va - 0x30, 0x30);
    }
    buffers_readable(f);
    for (size_t i = 0; i < t->provider_count; i++) {
        t->providers[i].readable =
            range_readable(f, t->providers[i].va, size_of(f, ST(ETW_GUID_ENTRY), 0x1a8));
        t->providers[i].sd_readable = range_readable(f, t->providers[i].sd_va, 20);
    }
    for (size_t i = 0; i < t->reg_count; i++) {
        t->regs[i].readable = range_readable(f, t->regs[i].va, size_of(f, ST(ETW_REG_ENTRY), 0x70));
        t->regs[i].header_readable = range_readable(f, t->regs[i].va - 0x30, 0x30);
    }
    for (size_t i = 0; i < t->callback_count; i++)
        t->callbacks[i].readable = range_readable(f, t->callbacks[i].va, 0x18);
}
