/*
 * space.c - physical pages through a cache, x64 page tables of four and five levels, virtual reads.
 *
 * Source: Intel SDM vol. 3, "Paging" (4-level and 5-level); MMPTE_HARDWARE, MMPTE_TRANSITION and
 * MMPTE_SOFTWARE of the Windows PDBs for entries that are not valid.
 */
#include <string.h>

#include "internal.h"

#define PTE_VALID 1u
#define PTE_LARGE 0x80u
#define PTE_PROTOTYPE 0x400u
#define PTE_TRANSITION 0x800u
#define PTE_SWIZZLE 0x10u
#define PTE_PFN_VALID 0x000ffffffffff000u
#define PTE_PFN_TRANSITION 0x0000fffffffff000u

static uint8_t *slot_page(struct kda_cache *cache, uint32_t slot)
{
    return cache->pages + (size_t)slot * KDA_PAGE_SIZE;
}

static uint32_t bucket_of(uint64_t pfn)
{
    return (uint32_t)((pfn * 0x9e3779b97f4a7c15u) >> 40) % KDA_CACHE_BUCKETS;
}

static void unchain(struct kda_cache *cache, uint32_t slot)
{
    uint16_t *link = &cache->bucket[bucket_of(cache->pfn[slot])];
    while (*link != slot + 1)
        link = &cache->next[*link - 1];
    *link = cache->next[slot];
}

/* A free slot: a new one until the cap, then the first that was not used since the hand passed. */
static uint32_t take_slot(struct kda_cache *cache)
{
    if (cache->count < KDA_CACHE_PAGES)
        return cache->count;
    while (cache->used[cache->hand]) {
        cache->used[cache->hand] = 0;
        cache->hand = (cache->hand + 1) % KDA_CACHE_PAGES;
    }
    uint32_t slot = cache->hand;
    cache->hand = (cache->hand + 1) % KDA_CACHE_PAGES;
    return slot;
}

void kda_work_reset(struct kda_kernel *kernel)
{
    uint64_t pages = kda_image_info(kernel->image)->page_count;
    uint64_t most = (KDA_WORK_MAX - KDA_WORK_BASE) / KDA_WORK_PER_PAGE;
    kernel->work = KDA_WORK_BASE + (pages < most ? pages : most) * KDA_WORK_PER_PAGE;
    kernel->exhausted = false;
}

bool kda_work_spend(struct kda_kernel *kernel, uint64_t units)
{
    if (kernel->work >= units) {
        kernel->work -= units;
        return true;
    }
    kernel->work = 0;
    kernel->exhausted = true;
    return false;
}

enum kda_status kda_space_page(struct kda_kernel *kernel, uint64_t pfn, const uint8_t **page,
                               struct kda_error *err)
{
    struct kda_cache *cache = kernel->cache;
    uint32_t bucket = bucket_of(pfn);
    for (uint32_t link = cache->bucket[bucket]; link != 0; link = cache->next[link - 1]) {
        if (cache->pfn[link - 1] == pfn) {
            cache->used[link - 1] = 1;
            *page = slot_page(cache, link - 1);
            return KDA_OK;
        }
    }
    uint32_t slot = take_slot(cache);
    (void)kda_work_spend(kernel, KDA_WORK_PER_MISS); /* kda_read_in stops when nothing is left */
    bool fresh = slot == cache->count;
    if (!fresh && cache->pfn[slot] != UINT64_MAX)
        unchain(cache, slot);
    if (!fresh)
        cache->pfn[slot] = UINT64_MAX; /* stays free if the read fails */
    enum kda_status status = kda_image_read_page(kernel->image, pfn, slot_page(cache, slot), err);
    if (status != KDA_OK)
        return status;
    if (fresh)
        cache->count++;
    cache->misses++;
    cache->pfn[slot] = pfn;
    cache->used[slot] = 1;
    cache->uniform[slot] =
        memcmp(slot_page(cache, slot), slot_page(cache, slot) + 1, KDA_PAGE_SIZE - 1) == 0;
    cache->next[slot] = cache->bucket[bucket];
    cache->bucket[bucket] = (uint16_t)(slot + 1);
    *page = slot_page(cache, slot);
    return KDA_OK;
}

void kda_space_flush(struct kda_kernel *kernel)
{
    memset(kernel->tlb, 0, KDA_TLB_ENTRIES * sizeof(*kernel->tlb));
}

enum kda_status kda_space_entry(struct kda_kernel *kernel, uint64_t table_pa, unsigned index,
                                uint64_t *entry, struct kda_error *err)
{
    const uint8_t *page;
    enum kda_status status = kda_space_page(kernel, table_pa / KDA_PAGE_SIZE, &page, err);
    if (status != KDA_OK)
        return status;
    *entry = kda_le64(page + (size_t)index * 8);
    return KDA_OK;
}

/* Transition pages are still in RAM at the frame in the entry. Since the 2018 mitigations Windows
 * may set high frame bits of entries that are not valid, unless the swizzle bit says it did not;
 * those bits lie beyond the installed memory and are cleared here. */
static uint64_t transition_pa(const struct kda_kernel *kernel, uint64_t entry)
{
    uint64_t pa = entry & PTE_PFN_TRANSITION;
    uint64_t max = kda_image_info(kernel->image)->max_pa;
    if (pa < max || (entry & PTE_SWIZZLE))
        return pa;
    uint64_t mask = KDA_PAGE_MASK;
    while (mask < max - 1 && mask < PTE_PFN_TRANSITION)
        mask = mask << 1 | 1;
    return max == 0 ? pa : pa & mask;
}

bool kda_pte_present(const struct kda_kernel *kernel, uint64_t entry, uint64_t *pa)
{
    if (entry & PTE_VALID) {
        *pa = entry & PTE_PFN_VALID;
        return true;
    }
    if ((entry & (PTE_TRANSITION | PTE_PROTOTYPE)) == PTE_TRANSITION) {
        *pa = transition_pa(kernel, entry);
        return true;
    }
    return false;
}

static enum kda_status not_there(uint64_t va, uint64_t entry, struct kda_error *err)
{
    if (entry == 0)
        return err ? kda_fail_at(err, KDA_UNMAPPED, "kernel", va, "address 0x%016llx is not mapped",
                                 (unsigned long long)va)
                   : KDA_UNMAPPED;
    return err ? kda_fail_at(err, KDA_PAGED_OUT, "kernel", va,
                             "address 0x%016llx is paged out (entry 0x%llx)",
                             (unsigned long long)va, (unsigned long long)entry)
               : KDA_PAGED_OUT;
}

static enum kda_status walk(struct kda_kernel *kernel, uint64_t root, uint64_t va, uint64_t *pa,
                            struct kda_error *err)
{
    uint64_t table = root;
    for (int level = kernel->info.la57 ? 4 : 3; level >= 0; level--) {
        unsigned shift = 12 + 9 * (unsigned)level;
        uint64_t entry;
        enum kda_status status =
            kda_space_entry(kernel, table, (unsigned)(va >> shift) & 511u, &entry, NULL);
        if (status != KDA_OK) {
            if (!kda_status_is_gap(status))
                return kda_fail_at(err, status, "kernel", va, "reading page tables for 0x%016llx",
                                   (unsigned long long)va);
            return kda_fail_at(err, status, "kernel", va,
                               "the page table for 0x%016llx (at physical 0x%llx) is not in the "
                               "image",
                               (unsigned long long)va, (unsigned long long)table);
        }
        if (!kda_pte_present(kernel, entry, &table))
            return not_there(va, entry, err);
        if (level == 0 || ((entry & PTE_LARGE) && (entry & PTE_VALID) && level <= 2)) {
            uint64_t inside = ((uint64_t)1 << shift) - 1;
            *pa = (table & ~inside) | (va & inside);
            return KDA_OK;
        }
    }
    return kda_fail_at(err, KDA_UNMAPPED, "kernel", va, "address 0x%016llx is not mapped",
                       (unsigned long long)va);
}

static bool canonical(const struct kda_kernel *kernel, uint64_t va)
{
    unsigned bits = kernel->info.la57 ? 57 : 48;
    uint64_t high = va >> (bits - 1);
    return high == 0 || high == (UINT64_MAX >> (bits - 1));
}

bool kda_is_kernel_va(const struct kda_kernel *kernel, uint64_t va)
{
    return va >> 63 && canonical(kernel, va);
}

enum kda_status kda_translate(struct kda_kernel *kernel, uint64_t dtb, uint64_t va, uint64_t *pa,
                              struct kda_error *err)
{
    if (!canonical(kernel, va))
        return kda_fail_at(err, KDA_UNMAPPED, "kernel", va, "0x%016llx is not a canonical address",
                           (unsigned long long)va);
    uint64_t root = dtb & PTE_PFN_VALID;
    uint64_t page = va & ~(uint64_t)KDA_PAGE_MASK;
    size_t slot = (size_t)((page >> 12) ^ (root >> 12) * 31u) % KDA_TLB_ENTRIES;
    struct kda_tlb_entry *entry = &kernel->tlb[slot];
    /* root | 1: a free entry (0) can never match, not even for a root at physical 0. */
    if (entry->root == (root | 1) && entry->page == page) {
        *pa = entry->pa | (va & KDA_PAGE_MASK);
        return KDA_OK;
    }
    uint64_t found = 0;
    enum kda_status status = walk(kernel, root, va, &found, err);
    if (status != KDA_OK)
        return status;
    entry->root = root | 1;
    entry->page = page;
    entry->pa = found & ~(uint64_t)KDA_PAGE_MASK;
    *pa = found;
    return KDA_OK;
}

static bool is_uniform(const struct kda_kernel *kernel, const uint8_t *page)
{
    return kernel->cache->uniform[(size_t)(page - kernel->cache->pages) / KDA_PAGE_SIZE];
}

bool kda_page_is_blank(struct kda_kernel *kernel, uint64_t va)
{
    uint64_t pa;
    const uint8_t *page;
    return kda_translate(kernel, kernel->info.dtb, va, &pa, NULL) == KDA_OK &&
           kda_space_page(kernel, pa / KDA_PAGE_SIZE, &page, NULL) == KDA_OK &&
           is_uniform(kernel, page);
}

/* No object stands on a page whose bytes are all the same. Tools that acquire memory write zeros
 * for pages they cannot read, and rubbish that overwrote an object reads as values. The kernel
 * image has pages of zeros: globals that were never set. */
static enum kda_status blank(struct kda_kernel *kernel, const uint8_t *page, uint64_t va,
                             struct kda_error *err)
{
    if (!is_uniform(kernel, page) ||
        (page[0] == 0 && va - kernel->info.base < kernel->info.id.pe_size))
        return KDA_OK;
    return err ? kda_fail_at(err, KDA_ABSENT, "kernel", va,
                             "the page of 0x%016llx holds nothing but 0x%02x",
                             (unsigned long long)va, page[0])
               : KDA_ABSENT;
}

/* `objects`: the bytes are a part of something that the kernel keeps, not just any memory. */
static enum kda_status read_pages(struct kda_kernel *kernel, uint64_t dtb, uint64_t va, void *buf,
                                  size_t size, bool objects, struct kda_error *err)
{
    uint8_t *out = buf;
    if (size != 0 && va > UINT64_MAX - (size - 1))
        return kda_fail_at(err, KDA_UNMAPPED, "kernel", va, "0x%016llx + 0x%zx wraps around",
                           (unsigned long long)va, size);
    if (!kda_work_spend(kernel, 1 + size / KDA_WORK_BYTES))
        return kda_fail_at(err, KDA_LIMIT, "kernel", va,
                           "reading stopped: this image leads round and round");
    while (size > 0) {
        size_t in_page = KDA_PAGE_SIZE - (size_t)(va & KDA_PAGE_MASK);
        size_t chunk = size < in_page ? size : in_page;
        uint64_t pa;
        enum kda_status status = kda_translate(kernel, dtb, va, &pa, err);
        if (status != KDA_OK) {
            (void)kda_work_spend(kernel, KDA_WORK_PER_FAILURE);
            return status;
        }
        const uint8_t *page;
        status = kda_space_page(kernel, pa / KDA_PAGE_SIZE, &page, NULL);
        if (status == KDA_ABSENT)
            return err ? kda_fail_at(err, status, "kernel", va,
                                     "the page of 0x%016llx (physical 0x%llx) is not in the image",
                                     (unsigned long long)va, (unsigned long long)pa)
                       : status;
        if (status != KDA_OK)
            return kda_fail_at(err, status, "kernel", va, "reading 0x%016llx (physical 0x%llx)",
                               (unsigned long long)va, (unsigned long long)pa);
        if (objects && (status = blank(kernel, page, va, err)) != KDA_OK)
            return status;
        memcpy(out, page + (pa & KDA_PAGE_MASK), chunk);
        out += chunk;
        va += chunk;
        size -= chunk;
    }
    return KDA_OK;
}

enum kda_status kda_read_in(struct kda_kernel *kernel, uint64_t dtb, uint64_t va, void *buf,
                            size_t size, struct kda_error *err)
{
    return read_pages(kernel, dtb, va, buf, size, false, err);
}

enum kda_status kda_read(struct kda_kernel *kernel, uint64_t va, void *buf, size_t size,
                         struct kda_error *err)
{
    return read_pages(kernel, kernel->info.dtb, va, buf, size, true, err);
}
