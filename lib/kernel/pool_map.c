/*
 * pool_map.c - the virtual addresses of pool blocks: one walk over the kernel half of the page
 * tables, looking up which blocks each page holds.
 *
 * A page that no table maps is free memory with old content: nothing in it lives.
 */
#include "internal.h"

#define ENTRIES 512u
#define LARGE 0x80u
#define VALID 1u
#define TABLES_BASE 4096u
#define PAGES_PER_TABLE 16u /* real machines have one table for some forty pages */

struct mapper {
    struct kda_kernel *kernel;
    struct kda_pool_block *blocks;
    size_t count;
    uint64_t tables_left;
    uint64_t missing_at;     /* first table that cannot be read */
    enum kda_status missing; /* why; KDA_OK = all were read */
    bool stopped;
};

static size_t first_at(const struct mapper *m, uint64_t pa)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->blocks[middle].pa < pa)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void miss(struct mapper *m, uint64_t pa, enum kda_status status)
{
    if (m->missing == KDA_OK)
        m->missing_at = pa;
    m->missing = status;
}

static void on_leaf(struct mapper *m, uint64_t va, uint64_t pa, uint64_t span)
{
    for (size_t i = first_at(m, pa); i < m->count && m->blocks[i].pa - pa < span; i++) {
        struct kda_pool_block *block = &m->blocks[i];
        uint64_t at = va + (block->pa - pa), back;
        /* The address counts only if the same translation that reads use leads back. */
        enum kda_status status = kda_translate(m->kernel, m->kernel->info.dtb, at, &back, NULL);
        if (status != KDA_OK)
            miss(m, pa, status);
        if (status != KDA_OK || back != block->pa)
            continue;
        if (block->va == 0)
            block->va = at;
        else if (block->alias == 0)
            block->alias = at;
    }
}

static bool take_table(struct mapper *m, uint64_t pa, uint8_t *table)
{
    if (m->stopped)
        return false;
    if (m->tables_left == 0) {
        m->stopped = true;
        return false;
    }
    m->tables_left--;
    enum kda_status status = kda_image_read_page(m->kernel->image, pa / KDA_PAGE_SIZE, table, NULL);
    if (status != KDA_OK)
        miss(m, pa, status);
    return status == KDA_OK;
}

/* The tables nest at most five deep. */
static void walk_table(struct mapper *m, uint64_t table_pa, unsigned level, uint64_t va)
{
    uint8_t table[KDA_PAGE_SIZE];
    unsigned shift = 12 + 9 * level, top = m->kernel->info.la57 ? 4 : 3;
    uint64_t root = m->kernel->info.dtb;
    if (!take_table(m, table_pa, table))
        return;
    for (unsigned i = level == top ? ENTRIES / 2 : 0; i < ENTRIES && !m->stopped; i++) {
        uint64_t entry = kda_le64(table + (size_t)i * 8), pa;
        if (entry == 0 || !kda_pte_present(m->kernel, entry, &pa))
            continue;
        uint64_t at = va | (uint64_t)i << shift;
        if (level == top && i >= ENTRIES / 2)
            at |= UINT64_MAX << (shift + 8);
        if (level == 0 || (level <= 2 && entry & LARGE && entry & VALID)) {
            uint64_t span = (uint64_t)1 << shift;
            on_leaf(m, at, pa & ~(span - 1), span);
        } else if (pa != root) { /* else the tables themselves, seen through their own entry */
            walk_table(m, pa, level - 1, at);
        }
    }
}

void kda_pool_map(struct kda_kernel *kernel)
{
    struct kda_pool *pool = kernel->pool;
    struct mapper m = {.kernel = kernel, .blocks = pool->blocks, .count = pool->count};
    size_t unmapped = 0;
    m.tables_left = TABLES_BASE + kda_image_info(kernel->image)->page_count / PAGES_PER_TABLE;
    if (m.count == 0)
        return;
    walk_table(&m, kernel->info.dtb, kernel->info.la57 ? 4 : 3, 0);
    for (size_t i = 0; i < m.count; i++)
        unmapped += m.blocks[i].va == 0;
    if (unmapped > 0 && m.stopped)
        kda_gaps_add(&kernel->gaps, "pool", kernel->info.dtb, KDA_LIMIT,
                     "the page tables lead round and round: the addresses of %zu blocks are not "
                     "known",
                     unmapped);
    else if (unmapped > 0 && m.missing != KDA_OK)
        kda_gaps_add(&kernel->gaps, "pool", m.missing_at, m.missing,
                     "page tables cannot be read (the first at physical 0x%llx): the "
                     "addresses of %zu blocks are not known",
                     (unsigned long long)m.missing_at, unmapped);
}
