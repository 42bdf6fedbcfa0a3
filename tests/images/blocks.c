#include "forge_int.h"

#include "text.h"

/* Pool blocks as they are seldom found: given back, taken off their list, copied, without header.
 */

#define HEADER 0x10u
#define OBJECT 0x50u /* optional and object header in front of a body, as objects.c lays them */

static const struct {
    const char *type;
    enum kda_field_id link; /* KDA_FIELD_COUNT: no list holds it */
    bool object;
} kinds[] = {
    {"_WMI_LOGGER_CONTEXT", KDA_FIELD_COUNT, false},
    {"_ETW_GUID_ENTRY", F(ETW_GUID_ENTRY, GuidList), false},
    {"_ETW_REG_ENTRY", F(ETW_REG_ENTRY, RegList), true},
    {"_ETW_REALTIME_CONSUMER", F(ETW_REALTIME_CONSUMER, Links), true},
    {"_EPROCESS", F(EPROCESS, ActiveProcessLinks), true},
};

/* Off its list, as RemoveEntryList leaves it: its own links go on to name where it was. */
static void unlink_node(struct forge *f, uint64_t link)
{
    uint64_t next = get64(f, link), last = get64(f, link + 8);
    put64(f, last, next);
    put64(f, next + 8, last);
}

static void mark(struct forge *f, uint64_t va)
{
    struct forge_truth *t = &f->truth;
    for (size_t i = 0; i < t->consumer_count; i++)
        t->consumers[i].unlinked |= t->consumers[i].va == va;
    for (size_t i = 0; i < t->provider_count; i++)
        t->providers[i].unlinked |= t->providers[i].va == va;
    for (size_t i = 0; i < t->reg_count; i++)
        t->regs[i].unlinked |= t->regs[i].va == va;
    for (size_t i = 0; i < t->process_count; i++)
        t->processes[i].unlinked |= t->processes[i].va == va;
}

/* The whole page once more, in pool memory or in a page that nothing maps. */
static void copy_page(struct forge *f, uint64_t va, const char *where)
{
    struct pool_state *pool = &f->pool[POOL_NONPAGED];
    uint64_t pa, pfn = phys_page(f);
    const uint8_t *from = translate(f, va, &pa) ? phys_peek(f, pa / PAGE) : NULL;
    uint8_t *to = phys_bytes(f, pfn);
    if (!from || !to)
        return;
    memcpy(to, from, PAGE);
    if (strcmp(where, "unmapped") == 0)
        return;
    if (strcmp(where, "alias") == 0)
        pfn = pa / PAGE;
    pool->next = (pool->next + PAGE - 1) / PAGE * PAGE;
    map_page(f, f->root, pool->next, pfn);
    pool->next += PAGE;
    pool->mapped = pool->next;
}

static void apply(struct forge *f, const struct block_plan *plan)
{
    const char *type = NULL;
    uint64_t va = object_named(f, plan->object, &type);
    size_t kind = 0, count = sizeof(kinds) / sizeof(kinds[0]);
    while (kind < count && type && strcmp(type, kinds[kind].type) != 0)
        kind++;
    if (!forge_ok(f) || !type || kind == count) {
        forge_fail(f, KDA_USAGE, "\"%s\" has no block", plan->object);
        return;
    }
    uint64_t header = va - HEADER - (kinds[kind].object ? OBJECT : 0);
    if (plan->unlink && kinds[kind].link != KDA_FIELD_COUNT) {
        unlink_node(f, at(f, va, kinds[kind].link));
        mark(f, va);
    }
    if (plan->copy)
        copy_page(f, header, plan->copy);
    if (plan->freed)
        put(f, header, F(POOL_HEADER, PoolType), 1, 0);
    if (plan->tag)
        put_field_bytes(f, header, F(POOL_HEADER, PoolTag), plan->tag, 4);
    if (plan->size)
        put(f, header, F(POOL_HEADER, BlockSize), 1, plan->size / 16);
    if (plan->previous)
        put8(f, header, (uint8_t)(plan->previous / 16));
}

static void write_table(struct forge *f)
{
    uint64_t entry = size_of(f, ST(POOL_TRACKER_BIG_PAGES), 0x18);
    uint64_t global = symbol(f, S(PoolBigPageTable)), size = (f->big_count + 2) * entry;
    if (!global || f->big_count == 0)
        return;
    /* Longer than a page: the table is no small block. */
    uint64_t va = pool_alloc(f, POOL_NONPAGED, size < PAGE ? PAGE : size, "PoTb", false);
    put64(f, global, va);
    put(f, va, F(POOL_TRACKER_BIG_PAGES, Va), 8, f->pool[POOL_NONPAGED].start | 1);
    for (size_t i = 0; i < f->big_count; i++) {
        va += entry;
        put(f, va, F(POOL_TRACKER_BIG_PAGES, Va), 8, f->bigs[i].va);
        put_field_bytes(f, va, F(POOL_TRACKER_BIG_PAGES, Key), f->bigs[i].tag, 4);
        put(f, va, F(POOL_TRACKER_BIG_PAGES, NumberOfBytes), 8, f->bigs[i].size);
    }
}

void blocks_apply(struct forge *f)
{
    write_table(f);
    for (size_t i = 0; i < f->block_count && forge_ok(f); i++) {
        f->line = f->blocks[i].line;
        apply(f, &f->blocks[i]);
    }
    f->line = 0;
}
