#include "forge_int.h"

/* Handle tables. Handles are collected first and the tables written at the end, when the number of
 * levels is known. Source: docs/forge.md, "Handle tables". */

#define LEAF_ENTRIES 256u
#define NODE_ENTRIES 512u
#define LEAF_HANDLES                                                                               \
    204u /* used entries of a leaf: entry 0 is reserved, every fifth stays free                    \
          */

static bool append(struct forge *f, struct handle_builder *b, uint32_t index, uint64_t pointer,
                   uint32_t access)
{
    void *items = b->entries;
    if (!kda_grow(&items, &b->capacity, b->count + 1, sizeof(*b->entries), 1u << 20)) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory, or too many handles");
        return false;
    }
    b->entries = items;
    b->entries[b->count++] = (struct table_entry){index, access, pointer};
    return true;
}

/* Where the n-th handle goes. A table with more levels has its leaves far apart, some of them
 * behind the second middle page, so that a reader that computes positions wrongly is caught. */
static uint32_t place(unsigned levels, size_t n)
{
    static const uint32_t spread[3][4] = {{0, 0, 0, 0}, {0, 1, 3, 0}, {0, 2, 512, 515}};
    static const size_t leaves[3] = {1, 3, 4};
    size_t count = leaves[levels - 1];
    size_t slot = n / count;
    uint32_t leaf = spread[levels - 1][n % count];
    if (slot >= LEAF_HANDLES) {
        size_t rest = n - count * LEAF_HANDLES;
        leaf = spread[levels - 1][count - 1] + 1 + (uint32_t)(rest / LEAF_HANDLES);
        slot = rest % LEAF_HANDLES;
    }
    return leaf * LEAF_ENTRIES + 1 + (uint32_t)(slot + slot / 4);
}

uint64_t handle_add(struct forge *f, size_t process, uint64_t body, uint32_t access, bool away)
{
    const struct forge_process *p = &f->truth.processes[process];
    if (!forge_ok(f) || p->levels == 0 || !body)
        return 0;
    uint64_t header = body - 0x30;
    if (has(f, F(OBJECT_HEADER, Body)))
        header = body - f->layout.field[F(OBJECT_HEADER, Body)].offset;
    uint32_t index = place(p->levels, f->tables[process].count);
    if (!append(f, &f->tables[process], index, away ? 0 : header, access))
        return 0;
    return (uint64_t)index * 4;
}

void cid_add(struct forge *f, uint64_t id, uint64_t body)
{
    (void)append(f, &f->cid, (uint32_t)(id / 4), body, 0);
}

static void write_entry(struct forge *f, uint64_t va, const struct table_entry *e, bool cid)
{
    if (!e->pointer)
        return;
    uint8_t attributes = !cid && e->index % 7 == 3 ? 1 : 0; /* inheritable */
    if (has(f, F(HANDLE_TABLE_ENTRY, ObjectPointerBits))) {
        put(f, va, F(HANDLE_TABLE_ENTRY, ObjectPointerBits), 8, e->pointer >> 4);
        put(f, va, F(HANDLE_TABLE_ENTRY, Attributes), 8, attributes);
        put(f, va, F(HANDLE_TABLE_ENTRY, RefCnt), 8, 0x7fff);
        put(f, va, F(HANDLE_TABLE_ENTRY, Unlocked), 8, 1);
    } else {
        put(f, va, F(HANDLE_TABLE_ENTRY, Object), 8, e->pointer | 1u | (unsigned)attributes << 1);
    }
    if (has(f, F(HANDLE_TABLE_ENTRY, GrantedAccessBits)))
        put(f, va, F(HANDLE_TABLE_ENTRY, GrantedAccessBits), 4, e->access);
    else
        put(f, va, F(HANDLE_TABLE_ENTRY, GrantedAccess), 4, e->access);
}

struct table {
    uint64_t root;
    unsigned levels;
};

static uint64_t table_page(struct forge *f)
{
    return pool_alloc(f, POOL_PAGED, PAGE, "Obtb", true);
}

static uint64_t child(struct forge *f, uint64_t slot)
{
    uint64_t va = get64(f, slot);
    if (va == 0) {
        va = table_page(f);
        put64(f, slot, va);
    }
    return va;
}

static uint64_t leaf_of(struct forge *f, const struct table *t, uint32_t leaf)
{
    uint64_t va = t->root;
    if (t->levels == 3)
        va = child(f, va + (uint64_t)(leaf / NODE_ENTRIES) * 8);
    if (t->levels >= 2)
        va = child(f, va + (uint64_t)(leaf % NODE_ENTRIES) * 8);
    return va;
}

static void write_table(struct forge *f, uint64_t object, const struct handle_builder *b,
                        unsigned levels, bool cid)
{
    uint32_t last = 0;
    for (size_t i = 0; i < b->count; i++)
        if (b->entries[i].index / LEAF_ENTRIES > last)
            last = b->entries[i].index / LEAF_ENTRIES;
    unsigned needed = last >= NODE_ENTRIES ? 3 : last >= 1 ? 2 : 1;
    struct table t = {table_page(f), levels > needed ? levels : needed};
    /* The kernel adds leaves one after another: there are none missing in between. */
    for (uint32_t leaf = 0; leaf <= last && forge_ok(f); leaf++)
        (void)leaf_of(f, &t, leaf);
    for (size_t i = 0; i < b->count && forge_ok(f); i++) {
        uint64_t leaf = leaf_of(f, &t, b->entries[i].index / LEAF_ENTRIES);
        write_entry(f, leaf + (uint64_t)(b->entries[i].index % LEAF_ENTRIES) * 16, &b->entries[i],
                    cid);
    }
    put(f, object, F(HANDLE_TABLE, TableCode), 8, t.root | (t.levels - 1));
    put(f, object, F(HANDLE_TABLE, NextHandleNeedingPool), 4, (last + 1) * LEAF_ENTRIES * 4);
    put(f, object, F(HANDLE_TABLE, HandleCount), 4, b->count);
}

void handles_finish(struct forge *f)
{
    struct forge_truth *t = &f->truth;
    for (size_t i = 0; i < t->process_count && forge_ok(f); i++) {
        struct forge_process *p = &t->processes[i];
        if (!p->table_va)
            continue;
        write_table(f, p->table_va, &f->tables[i], p->levels, false);
        p->handles = f->tables[i].count;
    }
    uint64_t global = symbol(f, S(PspCidTable));
    if (!global)
        return;
    f->cid_va = pool_alloc(f, POOL_NONPAGED, size_of(f, ST(HANDLE_TABLE), 0x80), "Obtb",
                           forge_planned(f, "cid", 0));
    list_init(f, at(f, f->cid_va, F(HANDLE_TABLE, HandleTableList)));
    write_table(f, f->cid_va, &f->cid, 1, true);
    put64(f, global, f->cid_va);
}
