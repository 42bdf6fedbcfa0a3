#include "mini.h"

#include <stdio.h>

static void find_layout(const char *version, struct kda_layout *ret)
{
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        kda_profile_get(i, &info);
        if (info.has_rvas && strcmp(info.version, version) == 0) {
            kda_profile_layout(i, ret);
            return;
        }
    }
    fail_msg("no profile %s", version);
}

struct mini *mini_create(const char *version, bool la57, size_t size)
{
    struct mini *m = calloc(1, sizeof(*m));
    assert_non_null(m);
    m->size = size ? size : MINI_RAM;
    m->ram = calloc(m->size, 1);
    assert_non_null(m->ram);
    m->la57 = la57;
    m->next_pa = 0x1000; /* page 0 stays empty: no signature of a file format */
    m->next_va = MINI_POOL;
    find_layout(version ? version : "10.0.22000.795", &m->layout);
    m->root = mini_page(m);
    return m;
}

static void close_kernel(struct mini *m)
{
    if (m->kernel)
        m->kernel->layout = NULL;
    kda_kernel_close(m->kernel);
    kda_image_close(m->image);
    m->kernel = NULL;
    m->image = NULL;
}

void mini_free(struct mini *m)
{
    close_kernel(m);
    free(m->ram);
    free(m);
}

struct kda_kernel *mini_kernel(struct mini *m)
{
    close_kernel(m);
    assert_int_equal(kda_image_open_memory(m->ram, m->size, "mini", &m->image, NULL), KDA_OK);
    struct kda_kernel *kernel = kda_calloc(1, sizeof(*kernel));
    assert_non_null(kernel);
    kernel->image = m->image;
    kernel->cache = kda_calloc(1, sizeof(*kernel->cache));
    assert_non_null(kernel->cache);
    kernel->cache->pages = kda_calloc(KDA_CACHE_PAGES, KDA_PAGE_SIZE);
    kernel->tlb = kda_calloc(KDA_TLB_ENTRIES, sizeof(*kernel->tlb));
    assert_true(kernel->cache->pages && kernel->tlb);
    kda_gaps_init(&kernel->gaps);
    kda_arena_init(&kernel->arena, 0);
    kda_map_init(&kernel->process_by_va);
    kernel->info.dtb = m->root;
    kernel->info.la57 = m->la57;
    kernel->info.base = MINI_BASE;
    kernel->info.id.pe_size = 0x1046000; /* 22000.795 */
    kernel->layout = &m->layout;
    kda_work_reset(kernel);
    m->kernel = kernel;
    return kernel;
}

uint64_t mini_page(struct mini *m)
{
    uint64_t pa = m->next_pa;
    assert_true(pa + KDA_PAGE_SIZE <= m->size);
    m->next_pa += KDA_PAGE_SIZE;
    return pa;
}

uint8_t *mini_entry(struct mini *m, uint64_t va, int level)
{
    uint64_t table = m->root;
    for (int at = m->la57 ? 4 : 3;; at--) {
        uint8_t *entry = m->ram + table + (va >> (12 + 9 * at) & 511) * 8;
        if (at == level)
            return entry;
        if (kda_le64(entry) == 0)
            kda_put_le64(entry, mini_page(m) | 0x63);
        table = kda_le64(entry) & 0x000ffffffffff000u;
    }
}

void mini_map(struct mini *m, uint64_t va, uint64_t pa, int level)
{
    kda_put_le64(mini_entry(m, va, level), pa | (level > 0 ? 0xe3u : 0x63u));
}

void mini_absent(struct mini *m, uint64_t va)
{
    mini_map(m, va, m->size + 0x10000, 0);
}

void mini_paged(struct mini *m, uint64_t va)
{
    kda_put_le64(mini_entry(m, va, 0), 0x0000123400000080u);
}

void mini_unmapped(struct mini *m, uint64_t va)
{
    kda_put_le64(mini_entry(m, va, 0), 0);
}

static uint8_t *byte_at(struct mini *m, uint64_t va)
{
    uint8_t *entry = mini_entry(m, va, 0);
    if (kda_le64(entry) == 0) {
        uint64_t pa = mini_page(m);
        kda_put_le64(entry, pa | 0x63);
        m->ram[pa + KDA_PAGE_SIZE - 1] = 0x5a; /* no page of a real machine holds nothing at all */
    }
    return m->ram + (kda_le64(entry) & 0x000ffffffffff000u) + (va & KDA_PAGE_MASK);
}

uint64_t mini_alloc(struct mini *m, size_t size)
{
    uint64_t va = (m->next_va + 15) & ~(uint64_t)15;
    m->next_va = va + size;
    for (uint64_t page = va & ~(uint64_t)KDA_PAGE_MASK; page < va + size; page += KDA_PAGE_SIZE)
        (void)byte_at(m, page);
    return va;
}

uint64_t mini_alloc_page(struct mini *m, size_t size)
{
    m->next_va = (m->next_va + KDA_PAGE_MASK) & ~(uint64_t)KDA_PAGE_MASK;
    return mini_alloc(m, size);
}

void mini_write(struct mini *m, uint64_t va, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        *byte_at(m, va + i) = ((const uint8_t *)bytes)[i];
}

void mini_read(struct mini *m, uint64_t va, void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)bytes)[i] = *byte_at(m, va + i);
}

void mini_put(struct mini *m, uint64_t va, uint64_t value, size_t size)
{
    uint8_t bytes[8];
    kda_put_le64(bytes, value);
    mini_write(m, va, bytes, size);
}

void mini_put64(struct mini *m, uint64_t va, uint64_t value)
{
    mini_put(m, va, value, 8);
}

uint64_t mini_at(struct mini *m, uint64_t object, enum kda_field_id field)
{
    if (m->layout.field[field].offset == KDA_NONE)
        fail_msg("the layout lacks %s", kda_field_name(field));
    return object + m->layout.field[field].offset;
}

void mini_set(struct mini *m, uint64_t object, enum kda_field_id field, uint64_t value)
{
    const struct kda_field *f = &m->layout.field[field];
    uint64_t va = mini_at(m, object, field), old = 0;
    uint8_t bytes[8] = {0};
    if (f->bits != 0) {
        uint64_t mask = (f->bits < 64 ? ((uint64_t)1 << f->bits) - 1 : UINT64_MAX) << f->bit;
        mini_read(m, va, bytes, f->size);
        old = kda_le64(bytes);
        value = (old & ~mask) | (value << f->bit & mask);
    }
    mini_put(m, va, value, f->size);
}

uint64_t mini_symbol(struct mini *m, enum kda_symbol_id symbol)
{
    if (m->layout.rva[symbol] == KDA_NONE)
        fail_msg("the layout lacks %s", kda_symbol_name(symbol));
    return MINI_BASE + m->layout.rva[symbol];
}

void mini_string(struct mini *m, uint64_t va, const char *ascii)
{
    size_t length = strlen(ascii);
    uint64_t text = mini_alloc(m, length * 2 + 2);
    for (size_t i = 0; i < length; i++)
        mini_put(m, text + 2 * i, (uint8_t)ascii[i], 2);
    mini_put(m, va, length * 2, 2);
    mini_put(m, va + 2, length * 2 + 2, 2);
    mini_put64(m, va + 8, text);
}

void mini_list(struct mini *m, uint64_t head)
{
    mini_put64(m, head, head);
    mini_put64(m, head + 8, head);
}

void mini_list_add(struct mini *m, uint64_t head, uint64_t at)
{
    uint8_t bytes[8];
    mini_read(m, head + 8, bytes, 8);
    uint64_t last = kda_le64(bytes);
    mini_put64(m, at, head);
    mini_put64(m, at + 8, last);
    mini_put64(m, last, at);
    mini_put64(m, head + 8, at);
}

size_t mini_gaps(struct mini *m, const char *what, enum kda_status reason)
{
    size_t found = 0;
    const struct kda_gaps *gaps = kda_kernel_gaps(m->kernel);
    for (size_t i = 0; i < gaps->count; i++)
        if ((!what || strcmp(gaps->items[i].what, what) == 0) &&
            (reason == KDA_OK || gaps->items[i].reason == reason))
            found++;
    return found;
}
