#include "forge_int.h"

#include "text.h"

/* GUID entries, their enable slots and filters, and the registrations that hang on them. */

#define FILTER_PID 0x4u
#define FILTER_EXE 0x8u
#define FILTER_EVENT_ID 0x200u
#define REG_KERNEL 0x1u
#define REG_USER 0x2u
#define REG_MODERN 0x20u
#define REG_INSERTED 0x80u

static void write_enable(struct forge *f, uint64_t va, const struct forge_enable *e)
{
    put(f, va, F(TRACE_ENABLE_INFO, IsEnabled), 4, e->enabled);
    put(f, va, F(TRACE_ENABLE_INFO, Level), 1, e->level);
    put(f, va, F(TRACE_ENABLE_INFO, LoggerId), 2, e->session);
    put(f, va, F(TRACE_ENABLE_INFO, EnableProperty), 4, e->property);
    put(f, va, F(TRACE_ENABLE_INFO, MatchAnyKeyword), 8, e->any);
    put(f, va, F(TRACE_ENABLE_INFO, MatchAllKeyword), 8, e->all);
}

/* What a registration is told: everything that any session wants. */
static void combine(struct forge_provider *p)
{
    struct forge_enable *c = &p->combined;
    for (size_t i = 0; i < FORGE_ENABLE_SLOTS; i++) {
        const struct forge_enable *e = &p->enables[i];
        if (!e->enabled)
            continue;
        if (!c->enabled)
            c->session = e->session;
        c->all = c->enabled ? c->all & e->all : e->all;
        c->enabled = 1;
        c->used = true;
        c->level = e->level > c->level ? e->level : c->level;
        c->any |= e->any ? e->any : UINT64_MAX; /* 0 asks for every keyword */
    }
}

static uint64_t write_numbers(struct forge *f, const struct forge_filter *filter, bool pids)
{
    uint8_t b[16 + 2 * FORGE_MAX_FILTER_EVENTS] = {0};
    size_t size;
    if (pids) {
        kda_put_le32(b, (uint32_t)filter->pid_count);
        for (size_t i = 0; i < filter->pid_count; i++)
            kda_put_le32(b + 4 + 4 * i, filter->pids[i]);
        size = 4 + 4 * FORGE_MAX_FILTER_PIDS;
    } else {
        kda_put_le32(b, (uint32_t)filter->event_count);
        kda_put_le32(b + 4, filter->events_in);
        for (size_t i = 0; i < filter->event_count; i++)
            kda_put_le16(b + 16 + 2 * i, filter->events[i]);
        size = 16 + 2 * filter->event_count;
    }
    uint64_t va = pool_alloc(f, POOL_NONPAGED, size, "EtwF", false);
    put_bytes(f, va, b, size);
    return va;
}

/* ETW_FILTER_STRING_TOKEN: a count, then {bytes, pointer} for each name. */
static uint64_t write_names(struct forge *f, const char *list)
{
    char *copy = kda_arena_strdup(&f->arena, list);
    uint16_t count = 1;
    for (char *c = copy; copy && *c; c++)
        count = (uint16_t)(count + (*c == ';'));
    if (!copy || count > 64) {
        forge_fail(f, KDA_USAGE, "a filter holds at most 64 executables");
        return 0;
    }
    uint64_t va = pool_alloc(f, POOL_NONPAGED, 8 + 16 * (uint64_t)count, "EtwF", false);
    put16(f, va, count);
    for (uint16_t i = 0; i < count && forge_ok(f); i++) {
        char *end = strchr(copy, ';');
        uint8_t *bytes = NULL;
        if (end)
            *end = '\0';
        size_t units = text_to_utf16(f, copy, &bytes);
        uint64_t text = pool_alloc(f, POOL_NONPAGED, 2 * units + 2, "EtwF", false);
        if (!forge_ok(f))
            return va;
        put_bytes(f, text, bytes, 2 * units + 2);
        put16(f, va + 8 + 16 * (uint64_t)i, (uint16_t)(2 * units));
        put64(f, va + 8 + 16 * (uint64_t)i + 8, text);
        copy = end ? end + 1 : copy;
    }
    return va;
}

static void write_filter(struct forge *f, struct forge_filter *filter, uint64_t va)
{
    filter->va = va;
    if (filter->pid_count) {
        filter->flags |= FILTER_PID;
        put(f, va, F(ETW_FILTER_HEADER, PidFilter), 8, write_numbers(f, filter, true));
    }
    if (filter->event_count && has(f, F(ETW_FILTER_HEADER, EventIdFilter))) {
        filter->flags |= FILTER_EVENT_ID;
        put(f, va, F(ETW_FILTER_HEADER, EventIdFilter), 8, write_numbers(f, filter, false));
    }
    if (filter->executables && has(f, F(ETW_FILTER_HEADER, ExeFilter))) {
        filter->flags |= FILTER_EXE;
        put(f, va, F(ETW_FILTER_HEADER, ExeFilter), 8, write_names(f, filter->executables));
    }
    put(f, va, F(ETW_FILTER_HEADER, FilterFlags), 4, filter->flags);
}

/* One header for each enable slot in one block. Windows 7 has eight pointers to something that no
 * symbol describes: there filters are left out. */
static void write_filters(struct forge *f, struct forge_provider *p)
{
    uint32_t size = size_of(f, ST(ETW_FILTER_HEADER), 0);
    const struct kda_field *place = &f->layout.field[F(ETW_GUID_ENTRY, FilterData)];
    bool any = false;
    for (size_t i = 0; i < FORGE_ENABLE_SLOTS; i++) {
        if (!size || !has(f, F(ETW_FILTER_HEADER, FilterFlags)) || place->size > 8)
            p->filters[i].used = false;
        any = any || p->filters[i].used;
    }
    if (!any)
        return;
    uint64_t block =
        pool_alloc(f, POOL_NONPAGED, FORGE_ENABLE_SLOTS * (uint64_t)size, "EtwF", false);
    put(f, p->va, F(ETW_GUID_ENTRY, FilterData), 8, block);
    for (size_t i = 0; i < FORGE_ENABLE_SLOTS; i++)
        if (p->filters[i].used)
            write_filter(f, &p->filters[i], block + i * size);
}

static unsigned bucket_of(const uint8_t guid[16])
{
    return (kda_le32(guid) ^ kda_le32(guid + 4) ^ kda_le32(guid + 8) ^ kda_le32(guid + 12)) & 0x3f;
}

static void link_provider(struct forge *f, struct forge_provider *p, const struct forge_silo *silo)
{
    uint64_t link = at(f, p->va, F(ETW_GUID_ENTRY, GuidList));
    uint64_t bucket = size_of(f, ST(ETW_HASH_BUCKET), 0x38);
    list_init(f, at(f, p->va, F(ETW_GUID_ENTRY, RegListHead)));
    put(f, p->va, F(ETW_GUID_ENTRY, RefCount), 8, 2);
    put_field_bytes(f, p->va, F(ETW_GUID_ENTRY, Guid), p->guid, 16);
    put(f, p->va, F(ETW_GUID_ENTRY, SiloState), 8, silo->state);
    list_init(f, at(f, p->va, F(ETW_GUID_ENTRY, SiloGuidList)));
    if (p->unlinked || forge_away(f, p->in))
        list_init(f, link);
    else
        list_append(f, silo->table + p->bucket * bucket + (uint64_t)p->type * 16, link);
}

static void build_provider(struct forge *f, struct forge_provider *p)
{
    const struct forge_silo *silo = &f->truth.silos[p->silo];
    char text[KDA_GUID_TEXT];
    kda_guid_text(p->guid, text);
    p->bucket = bucket_of(p->guid);
    if (p->embedded) {
        p->va = silo->embedded_guid;
        if (!p->va) {
            forge_fail(f, KDA_USAGE, "build %s has no embedded entry", f->truth.version);
            return;
        }
    } else {
        p->va = pool_alloc(f, POOL_NONPAGED, size_of(f, ST(ETW_GUID_ENTRY), 0x1a8), "EtwG",
                           forge_planned_text(f, "provider", text));
        link_provider(f, p, silo);
    }
    combine(p);
    write_enable(f, at(f, p->va, F(ETW_GUID_ENTRY, ProviderEnableInfo)), &p->combined);
    uint64_t slots = at(f, p->va, F(ETW_GUID_ENTRY, EnableInfo));
    uint64_t step = size_of(f, ST(TRACE_ENABLE_INFO), 0x20);
    for (size_t i = 0; i < FORGE_ENABLE_SLOTS && slots; i++)
        if (p->enables[i].used)
            write_enable(f, slots + i * step, &p->enables[i]);
    write_filters(f, p);
    if (p->sddl) {
        p->sd_va = security_build(f, p->sddl, false);
        put(f, p->va, F(ETW_GUID_ENTRY, SecurityDescriptor), 8, p->sd_va);
    }
}

static uint8_t mask_of(const struct forge_provider *p)
{
    unsigned mask = 0;
    for (unsigned i = 0; i < FORGE_ENABLE_SLOTS; i++)
        if (p->enables[i].enabled)
            mask |= 1u << i;
    return (uint8_t)mask;
}

/* u16 total size, name, then one trait: u16 size, u8 type 1 (group), GUID. */
static void write_traits(struct forge *f, struct forge_reg *r)
{
    uint8_t b[512] = {0};
    size_t name = strlen(r->traits) + 1, size = 2 + name;
    if (!has(f, F(ETW_REG_ENTRY, Traits))) {
        r->traits = NULL;
        return;
    }
    if (name > 256) {
        forge_fail(f, KDA_USAGE, "a traits name has at most 255 bytes");
        return;
    }
    memcpy(b + 2, r->traits, name);
    if (r->group) {
        kda_put_le16(b + size, 19);
        b[size + 2] = 1;
        memcpy(b + size + 3, f->truth.providers[r->group - 1].guid, 16);
        size += 19;
    }
    kda_put_le16(b, (uint16_t)size);
    uint64_t head = has(f, F(ETW_PROVIDER_TRAITS, Traits))
                        ? f->layout.field[F(ETW_PROVIDER_TRAITS, Traits)].offset
                        : 0x1c;
    uint64_t va = pool_alloc(f, POOL_NONPAGED, head + size, "EtwT", false);
    put(f, va, F(ETW_PROVIDER_TRAITS, ReferenceCount), 4, 1);
    put_bytes(f, va + head, b, size);
    put(f, r->va, F(ETW_REG_ENTRY, Traits), 8, va);
}

static void write_source(struct forge *f, struct forge_reg *r)
{
    if (!r->kernel) {
        const struct forge_process *p = forge_process_by_pid(f, r->pid);
        put(f, r->va, F(ETW_REG_ENTRY, Process), 8, p->va);
        if (!r->no_handle)
            r->handle =
                handle_add(f, (size_t)(p - f->truth.processes), r->va, 0x804, forge_away(f, r->in));
        return;
    }
    const struct forge_module *m = forge_module_by_name(f, r->driver);
    if (!m) {
        forge_fail(f, KDA_USAGE, "driver \"%s\" of a registration is not loaded", r->driver);
        return;
    }
    /* The context of a callback stands where a user registration has its process. */
    put(f, r->va, F(ETW_REG_ENTRY, CallbackContext), 8, m->va);
    r->callback = module_code(f, m);
    put(f, r->va, F(ETW_REG_ENTRY, Callback), 8, r->callback);
    put(f, r->va, F(ETW_REG_ENTRY, Caller), 8, r->callback + 0x10);
}

static void name_global(struct forge *f, const struct forge_reg *r, enum kda_symbol_id id,
                        const char *guid)
{
    uint8_t wanted[16];
    uint64_t va = symbol(f, id);
    if (va && r->kernel && kda_guid_parse(guid, wanted) &&
        memcmp(wanted, f->truth.providers[r->provider].guid, 16) == 0)
        put64(f, va, r->va);
}

static void build_reg(struct forge *f, struct forge_reg *r, size_t number)
{
    struct forge_provider *p = &f->truth.providers[r->provider];
    struct forge_provider *group = r->group ? &f->truth.providers[r->group - 1] : NULL;
    bool groups = has(f, F(ETW_REG_ENTRY, GroupEntry));
    r->va = object_alloc(f, "EtwRegistration", size_of(f, ST(ETW_REG_ENTRY), 0x70), "EtwR",
                         forge_planned(f, "reg", number));
    uint64_t link = at(f, r->va, F(ETW_REG_ENTRY, RegList));
    uint64_t group_link = at(f, r->va, F(ETW_REG_ENTRY, GroupRegList));
    r->flags = (uint16_t)((r->kernel ? REG_KERNEL : REG_USER) | REG_MODERN | REG_INSERTED |
                          r->extra_flags);
    if (!r->has_mask)
        r->enable_mask = mask_of(p);
    put(f, r->va, F(ETW_REG_ENTRY, GuidEntry), 8, p->va);
    put(f, r->va, F(ETW_REG_ENTRY, Index), 2, number);
    put(f, r->va, F(ETW_REG_ENTRY, Flags), 2, r->flags);
    put(f, r->va, F(ETW_REG_ENTRY, EnableMask), 1, r->enable_mask);
    list_init(f, link);
    list_init(f, group_link);
    if (!r->unlinked && !forge_away(f, r->in))
        list_append(f, at(f, p->va, F(ETW_GUID_ENTRY, RegListHead)), link);
    if (!groups)
        r->group = 0;
    if (group && groups) {
        r->group_mask = mask_of(group);
        put(f, r->va, F(ETW_REG_ENTRY, GroupEntry), 8, group->va);
        put(f, r->va, F(ETW_REG_ENTRY, GroupEnableMask), 1, r->group_mask);
        list_append(f, at(f, group->va, F(ETW_GUID_ENTRY, RegListHead)), group_link);
    }
    if (r->traits)
        write_traits(f, r);
    write_source(f, r);
    name_global(f, r, S(EtwThreatIntProvRegHandle), "{f4e1897c-bb5d-5668-f1d8-040f4d8dd344}");
    name_global(f, r, S(EtwpPsProvRegHandle), "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}");
}

/* The entries that are part of the states are there whether a scenario mentions them or not. */
static void add_embedded(struct forge *f, unsigned silo)
{
    static const uint8_t guid[16] = SECURITY_AUDITING;
    struct forge_truth *t = &f->truth;
    void *items = t->providers;
    for (size_t i = 0; i < t->provider_count; i++)
        if (t->providers[i].silo == silo && t->providers[i].embedded)
            return;
    if (!kda_grow(&items, &f->provider_cap, t->provider_count + 1, sizeof(*t->providers),
                  FORGE_MAX_ENTITIES)) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return;
    }
    t->providers = items;
    struct forge_provider *p = &t->providers[t->provider_count++];
    memset(p, 0, sizeof(*p));
    memcpy(p->guid, guid, sizeof(guid));
    p->silo = silo;
    p->embedded = true;
}

void providers_build(struct forge *f)
{
    for (size_t i = 0; i < f->truth.silo_count && forge_ok(f); i++)
        if (f->truth.silos[i].embedded_guid)
            add_embedded(f, (unsigned)i);
    for (size_t i = 0; i < f->truth.provider_count && forge_ok(f); i++) {
        f->line = f->truth.providers[i].line;
        build_provider(f, &f->truth.providers[i]);
    }
    for (size_t i = 0; i < f->truth.reg_count && forge_ok(f); i++) {
        f->line = f->truth.regs[i].line;
        build_reg(f, &f->truth.regs[i], i);
    }
    f->line = 0;
}
