#include "scenario.h"

#include <stdio.h>

#include "text.h"

/* Directives about the machine, its kernel, processes and drivers. */

static void *grow(struct line *l, void *items, size_t *capacity, size_t count, size_t size)
{
    void *grown = items;
    if (kda_grow(&grown, capacity, count + 1, size, FORGE_MAX_ENTITIES)) {
        memset((char *)grown + count * size, 0, size);
        return grown;
    }
    line_fail(l, "too many of these, or out of memory");
    return NULL;
}

#define NEW(l, array, count, cap)                                                                  \
    do {                                                                                           \
        void *grown = grow(l, array, &(cap), count, sizeof(*(array)));                             \
        if (!grown)                                                                                \
            return;                                                                                \
        (array) = grown;                                                                           \
        (count)++;                                                                                 \
    } while (0)

static const char *need(struct line *l, size_t n)
{
    const char *word = line_word(l, n);
    if (!word)
        line_fail(l, "something is missing after \"%s\"", l->words[0].value);
    return word ? word : "";
}

static void on_build(struct line *l)
{
    l->f->opt.version = need(l, 0);
    l->f->opt.build_line = l->number;
}

static void on_size(struct line *l)
{
    l->f->opt.size = parse_number(l, need(l, 0), FORGE_MAX_RAM);
    l->f->opt.size_line = l->number;
}

static void on_seed(struct line *l)
{
    l->f->opt.seed = parse_number(l, need(l, 0), UINT64_MAX);
}

static void on_cpus(struct line *l)
{
    l->f->opt.cpus = (uint32_t)parse_number(l, need(l, 0), 64);
    if (l->f->opt.cpus == 0)
        line_fail(l, "at least one processor");
}

static void on_time(struct line *l)
{
    l->f->opt.system_time = parse_time(l, need(l, 0));
}

static void on_max(struct line *l)
{
    l->f->opt.max_loggers = (uint32_t)parse_number(l, need(l, 0), 1024);
    if (l->f->opt.max_loggers == 0)
        line_fail(l, "at least one slot");
}

static void on_la57(struct line *l)
{
    l->f->opt.la57 = line_onoff(l, need(l, 0));
}

static void on_users(struct line *l)
{
    l->f->opt.users = line_onoff(l, need(l, 0));
}

static void on_lowstub(struct line *l)
{
    l->f->opt.lowstub = line_onoff(l, need(l, 0));
}

static void on_compact(struct line *l)
{
    l->f->opt.compact = line_onoff(l, need(l, 0));
}

static void on_pcid(struct line *l)
{
    l->f->opt.pcid = line_onoff(l, need(l, 0));
}

static void on_filler(struct line *l)
{
    l->f->opt.filler = line_onoff(l, need(l, 0));
    l->f->opt.filler_set = true;
}

static void on_mmio(struct line *l)
{
    l->f->opt.mmio_start = parse_number(l, need(l, 0), FORGE_MAX_RAM);
    l->f->opt.mmio_end = parse_number(l, need(l, 1), FORGE_MAX_RAM);
    l->f->opt.size_line = l->number;
}

static void on_kdbg(struct line *l)
{
    const char *word = need(l, 0);
    l->f->opt.kdbg_encoded = strcmp(word, "encoded") == 0;
    if (!l->f->opt.kdbg_encoded && strcmp(word, "plain") != 0)
        line_fail(l, "kdbg is \"plain\" or \"encoded\"");
}

static void on_rvas(struct line *l)
{
    l->f->opt.rvas_invented = strcmp(need(l, 0), "invented") == 0;
    if (!l->f->opt.rvas_invented)
        line_fail(l, "only \"rvas invented\" is known");
}

static void on_kernel(struct line *l)
{
    static const char *const names[] = {"2m", "4k", "1g", "sparse"};
    const char *pages = line_text(l, "pages", "2m");
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(pages, names[i]) == 0) {
            l->f->opt.pages = (enum kernel_pages)i;
            l->f->opt.kernel_line = l->number;
            return;
        }
    }
    line_fail(l, "pages is 2m, 4k, 1g or sparse");
}

static void on_drivers(struct line *l)
{
    const char *word = need(l, 0);
    l->f->opt.drivers = strcmp(word, "default") == 0;
    if (!l->f->opt.drivers && strcmp(word, "none") != 0)
        line_fail(l, "drivers is \"default\" or \"none\"");
}

static void on_driver(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    const char *name = need(l, 0);
    NEW(l, t->modules, t->module_count, l->f->module_cap);
    struct forge_module *m = &t->modules[t->module_count - 1];
    m->name = name;
    m->path = line_text(l, "path", NULL);
    m->size = (uint32_t)line_number(l, "size", 0x40000, 64 * MIB);
    m->timestamp = (uint32_t)line_number(l, "timestamp", 0x5f000000 + t->module_count, UINT32_MAX);
    m->imports = line_text(l, "imports", NULL);
    m->unlinked = line_flag(l, "unlinked");
    m->header = !line_flag(l, "noheader");
    if (m->size % PAGE != 0 || m->size == 0)
        line_fail(l, "size of a driver is whole pages");
}

/* Only what fits one byte a character can stand in ImageFileName. */
static const char *short_name(struct line *l, const char *name)
{
    char *out = kda_arena_alloc(&l->f->arena, 64);
    uint8_t one_byte[15] = {0};
    size_t used = 0;
    for (const uint8_t *p = (const uint8_t *)name; *p && used < 14; p++) {
        if (*p < 0x80) {
            one_byte[used++] = *p;
        } else if (*p == 0xc2 || *p == 0xc3) {
            one_byte[used++] = (uint8_t)((*p & 3) << 6 | (p[1] & 0x3f));
            p++;
        } else {
            line_fail(l, "a process name holds Latin-1 characters only");
            return "";
        }
    }
    if (!out) {
        forge_fail(l->f, KDA_NO_MEMORY, "out of memory");
        return "";
    }
    (void)kda_latin1_to_utf8(one_byte, 15, out, 64);
    return out;
}

static void on_process(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    uint64_t pid = parse_number(l, need(l, 0), 0xfffffc);
    if (pid % 4 != 0 || pid == 0 || forge_process_by_pid(l->f, pid)) {
        line_fail(l, "a process id is a new multiple of 4");
        return;
    }
    NEW(l, t->processes, t->process_count, l->f->process_cap);
    struct forge_process *p = &t->processes[t->process_count - 1];
    p->line = l->number;
    p->pid = pid;
    p->ppid = line_number(l, "ppid", pid == 4 ? 0 : 4, UINT32_MAX);
    p->name = short_name(l, line_text(l, "name", pid == 4 ? "System" : "process.exe"));
    p->path = line_text(l, "path", "");
    p->levels = (unsigned)line_number(l, "levels", 1, 3);
    p->fill = (unsigned)line_number(l, "handles", 8, 20000);
    p->silo = line_silo(l);
    p->job = (unsigned)line_number(l, "job", 0, 15);
    const char *created = line_text(l, "created", NULL), *exited = line_text(l, "exited", NULL);
    p->create_time = created ? parse_time(l, created) : 0;
    p->exit_time = exited ? parse_time(l, exited) : 0;
    p->protection = (uint8_t)line_number(l, "protection", pid == 4 ? 0x72 : 0, 0xff);
    p->unlinked = line_flag(l, "unlinked");
    p->no_cid = line_flag(l, "nocid");
    p->no_table_link = line_flag(l, "notablelink");
    p->in = line_moment(l);
}

static void on_silo(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    uint64_t number = parse_number(l, need(l, 0), 1000);
    for (size_t i = 0; i < t->silo_count; i++)
        if (t->silos[i].number == number)
            line_fail(l, "silo %llu exists already", (unsigned long long)number);
    NEW(l, t->silos, t->silo_count, l->f->silo_cap);
    t->silos[t->silo_count - 1].number = (unsigned)number;
    t->silos[t->silo_count - 1].max = (uint32_t)line_number(l, "max", 0, 1024);
}

static bool hole_kind(const char *kind)
{
    static const char *const kinds[] = {"absent", "paged", "transition", "zeros", "0x41", "page"};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i], kind) == 0)
            return true;
    return false;
}

static void on_hole(struct line *l)
{
    struct forge *f = l->f;
    struct hole hole = {.what = line_text(l, "what", NULL), .line = l->number};
    const char *key[] = {"va", "percent", "page-of"};
    for (size_t i = 0; !hole.what && i < sizeof(key) / sizeof(key[0]); i++) {
        const char *value = line_text(l, key[i], NULL);
        char text[64];
        if (!value)
            continue;
        (void)snprintf(text, sizeof(text), "%s:%.50s", key[i], value);
        hole.what = kda_arena_strdup(&f->arena, text);
    }
    hole.kind = line_text(l, "kind", "paged");
    const char *pool = line_text(l, "pool", "both");
    hole.run = (unsigned)line_number(l, "run", 1, 4096);
    hole.paged = strcmp(pool, "nonpaged") != 0;
    hole.nonpaged = strcmp(pool, "paged") != 0;
    bool known = strcmp(pool, "both") == 0 || hole.paged != hole.nonpaged;
    if (!hole.what || !hole_kind(hole.kind) || !known || hole.run == 0) {
        line_fail(l, "hole needs what=, page-of=, va= or percent= (with run=, pool=), and "
                     "kind=absent|paged|transition|zeros|0x41|page");
        return;
    }
    NEW(l, f->hole_plans, f->hole_plan_count, f->hole_plan_cap);
    f->hole_plans[f->hole_plan_count - 1] = hole;
}

static void on_smear(struct line *l)
{
    struct forge_truth *t = &l->f->truth;
    t->smeared = true;
    t->smear_percent = (uint32_t)line_number(l, "percent", 50, 100);
    t->smear_seed = line_number(l, "seed", 1, UINT64_MAX);
}

static void on_hostile(struct line *l)
{
    struct forge *f = l->f;
    static const char *const verbs[] = {"cycle",  "self",      "wild", "count",
                                        "string", "pagetable", "table"};
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        const char *what = line_text(l, verbs[i], NULL);
        if (!what)
            continue;
        NEW(l, f->hostiles, f->hostile_count, f->hostile_cap);
        f->hostiles[f->hostile_count - 1] = (struct hostile){verbs[i], what, l->number};
        f->truth.hostile_count++;
        return;
    }
    line_fail(l, "hostile needs cycle=, self=, wild=, count=, string=, table= or pagetable=");
}

const struct directive machine_directives[] = {
    {"build", on_build},     {"size", on_size},     {"seed", on_seed},
    {"cpus", on_cpus},       {"time", on_time},     {"max", on_max},
    {"la57", on_la57},       {"users", on_users},   {"lowstub", on_lowstub},
    {"compact", on_compact}, {"filler", on_filler}, {"mmio", on_mmio},
    {"kdbg", on_kdbg},       {"rvas", on_rvas},     {"kernel", on_kernel},
    {"drivers", on_drivers}, {"driver", on_driver}, {"process", on_process},
    {"silo", on_silo},       {"hole", on_hole},     {"hostile", on_hostile},
    {"pcid", on_pcid},       {"smear", on_smear},   {NULL, NULL},
};
