#include "forge_int.h"

/* A machine whose memory is copied while it runs: some pages are of one moment, some of another.
 *
 * The same scenario is built twice. What is only in the other state is built there as well, at the
 * same place, but nothing leads to it. So both states differ in nothing but the pages that a change
 * of the machine writes, and for each of these the dice say which is in the image. */

static void grow(struct forge *f, void **items, size_t *cap, size_t count, size_t size)
{
    if (!kda_grow(items, cap, count + 1, size, 1u << 22))
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
}

static void add_change(struct forge *f, const struct forge_change *change)
{
    struct forge_truth *t = &f->truth;
    void *items = t->changes;
    grow(f, &items, &f->change_cap, t->change_count, sizeof(*t->changes));
    if (!forge_ok(f))
        return;
    t->changes = items;
    t->changes[t->change_count++] = *change;
}

static void add_page(struct forge *f, const struct forge_smear_page *page)
{
    struct forge_truth *t = &f->truth;
    void *items = t->smear_pages;
    grow(f, &items, &f->smear_cap, t->smear_page_count, sizeof(*t->smear_pages));
    if (!forge_ok(f))
        return;
    t->smear_pages = items;
    t->smear_pages[t->smear_page_count++] = *page;
}

/* Kernel address of a page, 0 = none: the pools, then nt. */
static uint64_t address_of(struct forge *f, uint64_t pfn)
{
    const struct pool_state nt = {.start = f->truth.base,
                                  .mapped = f->truth.base + f->truth.id.pe_size};
    const struct pool_state *const ranges[] = {&f->pool[0], &f->pool[1], &nt};
    uint64_t pa = 0;
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        for (uint64_t va = ranges[i]->start; va < ranges[i]->mapped; va += PAGE)
            if (translate(f, va, &pa) && pa / PAGE == pfn)
                return va;
    return 0;
}

static void mix_page(struct forge *f, uint64_t pfn, const uint8_t *first, const uint8_t *later)
{
    static const uint8_t zeros[PAGE];
    first = first ? first : zeros;
    later = later ? later : zeros;
    if (memcmp(first, later, PAGE) == 0)
        return;
    bool is_later = forge_random(f, 100) < f->truth.smear_percent;
    struct forge_smear_page page = {address_of(f, pfn), pfn, is_later ? FORGE_LATER : FORGE_FIRST};
    add_page(f, &page);
    for (size_t at = 0; page.va && at < PAGE; at += 8) {
        struct forge_change change = {page.va + at, kda_le64(first + at), kda_le64(later + at),
                                      page.state};
        if (change.first != change.later)
            add_change(f, &change);
    }
    uint8_t *bytes = is_later ? phys_bytes(f, pfn) : NULL;
    if (!bytes)
        return;
    memcpy(bytes, later, PAGE);
    phys_set_state(f, pfn, PAGE_USED);
}

void smear_apply(struct forge *f)
{
    struct forge *other = NULL;
    uint64_t rng = f->rng;
    if (!f->truth.smeared || f->moment != FORGE_FIRST || !forge_ok(f))
        return;
    enum kda_status status = forge_build_state(f->text, FORGE_LATER, &other, &f->err);
    if (status != KDA_OK) {
        f->status = status;
        return;
    }
    f->rng = f->truth.smear_seed;
    for (uint64_t pfn = 0; pfn < f->pages && forge_ok(f); pfn++)
        if (phys_peek(f, pfn) || phys_peek(other, pfn))
            mix_page(f, pfn, phys_peek(f, pfn), phys_peek(other, pfn));
    f->rng = rng;
    forge_free(other);
}
