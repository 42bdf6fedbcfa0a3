/*
 * map_providers.c - the provider half of the map: each with its level and keywords and the
 * processes and drivers that registered it, grouped and counted.
 */
#include "map.h"

#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "text.h"

/* Names shown per provider unless -v asks for all; json always carries them. */
#define GROUPS_SHOWN 6u
#define PIDS_SHOWN 5u
#define FILTER_ITEMS_SHOWN 16u

/* Where the provider's name stands; what belongs to it stands below. */
#define NAME_COLUMN 33u

static int compare_providers(const void *left, const void *right)
{
    const struct kda_etw_provider *a = *(const struct kda_etw_provider *const *)left;
    const struct kda_etw_provider *b = *(const struct kda_etw_provider *const *)right;
    if (!a->name != !b->name)
        return a->name ? -1 : 1;
    int order = a->name ? strcmp(a->name, b->name) : 0;
    if (order == 0)
        order = memcmp(a->guid, b->guid, sizeof(a->guid));
    if (order == 0)
        order = (int)a->type - (int)b->type;
    return order ? order : (a->va > b->va) - (a->va < b->va);
}

bool kda_map_sort_providers(struct kda_map *map)
{
    size_t count;
    const struct kda_etw_provider *const *all = kda_etw_providers(map->etw, &count);
    map->providers = kda_calloc(count, sizeof(struct kda_etw_provider *));
    if (!map->providers)
        return false;
    for (size_t i = 0; i < count; i++)
        map->providers[i] = all[i];
    map->provider_count = count;
    if (count > 1)
        qsort(map->providers, count, sizeof(*map->providers), compare_providers);
    return true;
}

/* What stands for a registration: the process for user mode, the driver for kernel mode. */
static const char *owner(const struct kda_etw_registration *r)
{
    const char *name = r->kernel ? r->module : r->process;
    return name && *name ? name : NULL;
}

static int compare_owners(const void *left, const void *right)
{
    const struct kda_etw_registration *a = *(const struct kda_etw_registration *const *)left;
    const struct kda_etw_registration *b = *(const struct kda_etw_registration *const *)right;
    if (a->kernel != b->kernel)
        return a->kernel ? -1 : 1;
    const char *x = owner(a), *y = owner(b);
    if (!x != !y)
        return x ? -1 : 1;
    int order = x ? strcmp(x, y) : 0;
    if (order == 0)
        order = (a->pid > b->pid) - (a->pid < b->pid);
    return order ? order : (a->va > b->va) - (a->va < b->va);
}

static bool same_owner(const struct kda_etw_registration *a, const struct kda_etw_registration *b)
{
    const char *x = owner(a), *y = owner(b);
    return a->kernel == b->kernel && !x == !y && (!x || strcmp(x, y) == 0);
}

/* "svchost.exe (712, 1044 x3)" for regs[0..count), which share one owner. */
static void put_group(struct kda_map *map, const struct kda_etw_registration *const *regs,
                      size_t count)
{
    struct kda_text *line = &map->line;
    bool all = map->report->options.verbose;
    if (!owner(regs[0]) && !regs[0]->has_kind)
        kda_text_adds(line, "unreadable");
    else
        kda_map_name(map, owner(regs[0]));
    if (regs[0]->kernel || !regs[0]->has_pid) {
        if (count > 1)
            kda_text_addf(line, " x%zu", count);
        return;
    }
    kda_text_adds(line, " (");
    size_t shown = 0, pids = 0;
    for (size_t i = 0; i < count;) {
        size_t same = 1;
        while (i + same < count && regs[i + same]->pid == regs[i]->pid)
            same++;
        pids++;
        if (all || pids <= PIDS_SHOWN) {
            kda_text_addf(line, "%s%llu", shown ? ", " : "", (unsigned long long)regs[i]->pid);
            if (same > 1)
                kda_text_addf(line, " x%zu", same);
            shown++;
        }
        i += same;
    }
    if (pids > shown)
        kda_text_addf(line, ", %zu more", pids - shown);
    kda_text_adds(line, ")");
}

static void indent_to_name(struct kda_map *map)
{
    kda_text_addf(&map->line, "%*s", (int)NAME_COLUMN, "");
}

static void put_owners(struct kda_map *map, const struct kda_etw_provider *p)
{
    size_t count = p->registration_count;
    if (count == 0) {
        indent_to_name(map);
        kda_text_adds(&map->line, "not registered");
        kda_map_line(map, KDA_STYLE_DIM);
        return;
    }
    const struct kda_etw_registration **regs = kda_calloc(count, sizeof(*regs));
    if (!regs) {
        kda_report_fail(map->report, KDA_NO_MEMORY);
        return;
    }
    memcpy(regs, p->registrations, count * sizeof(*regs));
    qsort(regs, count, sizeof(*regs), compare_owners);
    indent_to_name(map);
    kda_text_adds(&map->line, "by ");
    size_t groups = 0;
    for (size_t i = 0; i < count;) {
        size_t same = 1;
        while (i + same < count && same_owner(regs[i], regs[i + same]))
            same++;
        if (groups == GROUPS_SHOWN && !map->report->options.verbose) {
            kda_text_addf(&map->line, ", %zu more registrations", count - i);
            break;
        }
        if (groups++ > 0)
            kda_text_adds(&map->line, ", ");
        put_group(map, regs + i, same);
        i += same;
    }
    kda_map_wrapped(map, NAME_COLUMN + 3, KDA_STYLE_NONE);
    kda_free(regs);
}

/* Name, and the GUID always: two providers may carry one name, and some have none. */
static void add_identity(struct kda_map *map, const struct kda_etw_provider *p)
{
    char guid[KDA_GUID_TEXT];
    if (p->name && *p->name) {
        kda_map_name(map, p->name);
        kda_text_adds(&map->line, " ");
    }
    if (p->has_guid) {
        kda_guid_text(p->guid, guid);
        kda_text_adds(&map->line, guid);
    } else {
        kda_text_addf(&map->line, "entry at 0x%llx", (unsigned long long)p->va);
    }
    if (p->has_type && p->type != KDA_ETW_TRACE)
        kda_text_addf(&map->line, " [%s]", kda_etw_guid_type_name(p->type));
}

static void add_rest(struct kda_text *line, size_t count)
{
    if (count > FILTER_ITEMS_SHOWN)
        kda_text_addf(line, " and %zu more", count - FILTER_ITEMS_SHOWN);
}

static void add_filter(struct kda_map *map, const struct kda_etw_filter *f)
{
    struct kda_text *line = &map->line;
    indent_to_name(map);
    kda_text_adds(line, "filter:");
    if (f->has_pids) {
        kda_text_adds(line, " pids");
        for (size_t i = 0; i < f->pid_count && i < FILTER_ITEMS_SHOWN; i++)
            kda_text_addf(line, " %u", f->pids[i]);
        add_rest(line, f->pid_count);
    }
    if (f->has_event_ids) {
        kda_text_addf(line, "%s event ids", f->has_pids ? ";" : "");
        for (size_t i = 0; i < f->event_id_count && i < FILTER_ITEMS_SHOWN; i++)
            kda_text_addf(line, " %u", f->event_ids[i]);
        add_rest(line, f->event_id_count);
    }
    if (f->executables) {
        kda_text_adds(line, " executables ");
        kda_map_name(map, f->executables);
    }
    if (f->others)
        kda_text_adds(line, " and kinds that are not decoded");
    kda_map_line(map, KDA_STYLE_DIM);
}

static void put_provider(struct kda_map *map, const struct kda_etw_provider *p,
                         const struct kda_etw_enable *enable)
{
    kda_text_addf(&map->line, "      %5u  0x%-16llx  ", enable->level,
                  (unsigned long long)enable->match_any);
    add_identity(map, p);
    kda_map_line(map, KDA_STYLE_NONE);
    if (enable->match_all) {
        indent_to_name(map);
        kda_text_addf(&map->line, "keywords (all) 0x%llx", (unsigned long long)enable->match_all);
        kda_map_line(map, KDA_STYLE_NONE);
    }
    uint32_t slot = (uint32_t)(enable - p->enables);
    for (size_t i = 0; i < p->filter_count; i++)
        if (p->filters[i].slot == slot)
            add_filter(map, &p->filters[i]);
    put_owners(map, p);
}

static void put_provider_heading(struct kda_map *map)
{
    kda_text_addf(&map->line, "      %5s  %-18s  %s", "level", "keywords (any)",
                  "provider, and who registered it");
    kda_map_line(map, KDA_STYLE_DIM);
}

void kda_map_session_providers(struct kda_map *map, const struct kda_etw_session *session)
{
    size_t count = 0;
    for (size_t i = 0; i < map->provider_count; i++)
        count += kda_provider_enabled_for(map->providers[i], session) != NULL;
    if (count == 0) {
        kda_text_adds(&map->line, "    providers none");
        kda_map_line(map, KDA_STYLE_DIM);
        return;
    }
    kda_text_addf(&map->line, "    providers %zu", count);
    kda_map_line(map, KDA_STYLE_NONE);
    put_provider_heading(map);
    for (size_t i = 0; i < map->provider_count; i++) {
        const struct kda_etw_enable *e = kda_provider_enabled_for(map->providers[i], session);
        if (e)
            put_provider(map, map->providers[i], e);
    }
}

/* A slot that is on for a session that is not there. */
static const struct kda_etw_enable *orphan_slot(const struct kda_etw_provider *p)
{
    for (size_t i = 0; i < KDA_ETW_ENABLE_SLOTS; i++) {
        const struct kda_etw_enable *e = &p->enables[i];
        if (e->readable && e->enabled && !e->session)
            return e;
    }
    return NULL;
}

static bool grep_hits(struct kda_map *map, const struct kda_etw_provider *p)
{
    if (!map->report->options.grep)
        return true;
    kda_build_provider(kda_report_row(map->report, KDA_ROW_PROVIDER), p);
    return kda_report_wants(map->report);
}

void kda_map_orphans(struct kda_map *map)
{
    size_t idle = 0;
    bool first = true;
    for (size_t i = 0; i < map->provider_count; i++) {
        const struct kda_etw_provider *p = map->providers[i];
        if (map->selection && map->selection->silo && p->silo != map->selection->silo)
            continue;
        const struct kda_etw_enable *e = orphan_slot(p);
        bool on = false;
        for (size_t k = 0; k < KDA_ETW_ENABLE_SLOTS; k++)
            on |= p->enables[k].readable && p->enables[k].enabled;
        idle += !on && p->registration_count > 0;
        if (!e || !grep_hits(map, p))
            continue;
        if (first) {
            kda_out(map->report, "\n", 1);
            kda_text_adds(&map->line, "Providers enabled for no living session");
            kda_map_line(map, KDA_STYLE_HEAD);
        }
        first = false;
        kda_text_addf(&map->line, "    session id %u", e->logger_id);
        kda_map_line(map, KDA_STYLE_WARN);
        put_provider(map, p, e);
    }
    if (idle == 0 || map->report->options.grep)
        return;
    kda_out(map->report, "\n", 1);
    kda_text_addf(&map->line,
                  "%zu more provider%s registered and enabled for nobody (kda providers)", idle,
                  idle == 1 ? " is" : "s are");
    kda_map_line(map, KDA_STYLE_DIM);
}
