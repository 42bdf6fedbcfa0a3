#include "forge_int.h"

#include <stdio.h>
#include <stdlib.h>

/* The nt image: where it lies, its PE headers, exports and debug record. Only what readers look
 * at is there; code is a few bytes where an address must lead somewhere. */

#define LARGE_PAGES 512u
#define SECTIONS_MAX 14u
#define OPTIONAL_HEADER 0xf0u
#define PE_OFFSET 0xf8u

static uint64_t random_va(struct forge *f, uint64_t start, uint64_t slots)
{
    return start + forge_random(f, slots) * 2 * MIB;
}

static void place_pools(struct forge *f)
{
    uint64_t np, paged;
    if (f->opt.compact) {
        /* One page table serves both pools. */
        np = (f->truth.base + f->truth.id.pe_size + 2 * MIB - 1) & ~(2 * MIB - 1);
        paged = np + MIB;
    } else if (f->major < 10) {
        np = random_va(f, 0xfffffa8000000000u, 0x1000);
        paged = random_va(f, 0xfffff8a000000000u, 0x1000);
    } else {
        np = random_va(f, 0xffff800000000000u + ((0x10 + forge_random(f, 0x60)) << 39), 0x10000);
        paged = random_va(f, 0xffff800000000000u + ((0x80 + forge_random(f, 0x20)) << 39), 0x10000);
        /* Addresses that only exist with five levels. Objects stay in the upper half of the 48-bit
         * space, because a handle entry has no more than 44 bits for them. */
        if (f->opt.la57)
            paged = random_va(f, 0xffa0000000000000u, 0x10000);
    }
    f->pool[POOL_NONPAGED] = (struct pool_state){np, np, np};
    f->pool[POOL_PAGED] = (struct pool_state){paged, paged, paged};
}

static void map_kernel(struct forge *f)
{
    uint64_t base = f->truth.base;
    uint64_t pages = f->truth.id.pe_size / PAGE;
    switch (f->opt.pages) {
    case KERNEL_2M:
        for (uint64_t i = 0; i < pages && forge_ok(f); i += LARGE_PAGES)
            map_large(f, base + i * PAGE, phys_block(f, LARGE_PAGES, LARGE_PAGES) * PAGE, 2);
        break;
    case KERNEL_1G:
        map_large(f, base, phys_block(f, GIB / PAGE, pages) * PAGE, 3);
        break;
    case KERNEL_4K:
        for (uint64_t i = 0; i < pages && forge_ok(f); i++)
            map_page(f, f->root, base + i * PAGE, phys_page(f));
        break;
    case KERNEL_SPARSE:
        break;
    }
}

void kernel_place(struct forge *f)
{
    uint64_t slots = f->opt.pages == KERNEL_1G ? 0x100 : 0x8000;
    uint64_t step = f->opt.pages == KERNEL_1G ? GIB : 2 * MIB;
    f->truth.base = 0xfffff80000000000u + (1 + forge_random(f, slots)) * step;
    f->nt_next = 0x1000;
    place_pools(f);
    map_kernel(f);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* A place for `size` bytes of our own, a page's distance away from every known global. */
uint32_t nt_reserve(struct forge *f, uint32_t size)
{
    uint32_t rva = (f->nt_next + 15) & ~15u;
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < KDA_SYM_COUNT; i++) {
            uint32_t s = f->layout.rva[i];
            if (s == KDA_NONE || s >= rva + size || s + 0x1000 <= rva)
                continue;
            rva = (s + 0x1000 + 15) & ~15u;
            again = true;
        }
    }
    if (rva + size > f->truth.id.pe_size)
        forge_fail(f, KDA_LIMIT, "no room left inside the nt image");
    f->nt_next = rva + size;
    return rva;
}

/* The globals say where data is: stretches of them become writable sections, the rest is code. */
static size_t plan_sections(struct forge *f, uint32_t bounds[SECTIONS_MAX], bool data[SECTIONS_MAX])
{
    uint32_t rvas[KDA_SYM_COUNT];
    size_t count = 0, used = 0;
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        if (f->layout.rva[i] != KDA_NONE && i != S(PsGetServerSiloServiceSessionId))
            rvas[count++] = f->layout.rva[i];
    qsort(rvas, count, sizeof(rvas[0]), by_value);
    bounds[used] = 0x1000;
    data[used++] = false;
    for (size_t i = 0; i < count && used + 2 < SECTIONS_MAX; i++) {
        uint32_t start = rvas[i] & ~0xfffu;
        if (data[used - 1] && start < bounds[used])
            start = bounds[used - 1];
        while (i + 1 < count && rvas[i + 1] - rvas[i] < 0x40000)
            i++;
        uint32_t end = ((rvas[i] + 0xfff) & ~0xfffu) + 0x2000;
        if (start > bounds[used - 1])
            bounds[used] = start, data[used++] = true;
        else
            data[used - 1] = true;
        if (end >= f->truth.id.pe_size)
            return used;
        bounds[used] = end;
        data[used++] = false;
    }
    return used;
}

static uint16_t write_sections(struct forge *f, uint8_t *table)
{
    static const char code_names[][8] = {".text", "PAGE", "PAGELK", "INIT", "PAGEKD"};
    static const char data_names[][8] = {".data", "ALMOSTRO", "PAGEDATA", "CACHEALI", "INITDATA"};
    uint32_t bounds[SECTIONS_MAX + 1];
    bool data[SECTIONS_MAX];
    size_t count = plan_sections(f, bounds, data);
    size_t codes = 0, datas = 0;
    bounds[count] = f->truth.id.pe_size;
    for (size_t i = 0; i < count; i++) {
        uint8_t *s = table + 40 * i;
        size_t n = data[i] ? datas++ : codes++;
        memcpy(s, data[i] ? data_names[n % 5] : code_names[n % 5], 8);
        kda_put_le32(s + 8, bounds[i + 1] - bounds[i]);
        kda_put_le32(s + 12, bounds[i]);
        kda_put_le32(s + 16, bounds[i + 1] - bounds[i]);
        kda_put_le32(s + 20, bounds[i]);
        kda_put_le32(s + 36, data[i] ? 0xc8000040u : 0x68000020u);
    }
    return (uint16_t)count;
}

/* RSDS record and the debug directory that leads to it; gives the directory's RVA. */
static uint32_t write_debug(struct forge *f)
{
    const struct kda_kernel_id *id = &f->truth.id;
    size_t name = strlen(id->pdb_name) + 1;
    uint32_t record = nt_reserve(f, (uint32_t)(24 + name));
    uint8_t bytes[24 + KDA_PDB_NAME_MAX] = "RSDS";
    memcpy(bytes + 4, id->pdb_guid, 16);
    kda_put_le32(bytes + 20, id->pdb_age);
    memcpy(bytes + 24, id->pdb_name, name);
    put_bytes(f, f->truth.base + record, bytes, 24 + name);
    uint32_t directory = nt_reserve(f, 28);
    uint8_t entry[28] = {0};
    kda_put_le32(entry + 4, id->pe_timestamp);
    kda_put_le32(entry + 12, 2); /* CodeView */
    kda_put_le32(entry + 16, (uint32_t)(24 + name));
    kda_put_le32(entry + 20, record);
    kda_put_le32(entry + 24, record);
    put_bytes(f, f->truth.base + directory, entry, sizeof(entry));
    return directory;
}

void kernel_headers(struct forge *f)
{
    uint8_t h[PAGE] = "MZ";
    const struct kda_kernel_id *id = &f->truth.id;
    uint32_t export_size = 0;
    uint32_t debug = write_debug(f), exports = exports_build(f, &export_size);
    uint8_t *pe = h + PE_OFFSET, *opt = pe + 24;
    kda_put_le32(h + 0x3c, PE_OFFSET);
    memcpy(pe, "PE\0", 4);
    kda_put_le16(pe + 4, 0x8664);
    kda_put_le16(pe + 6, write_sections(f, opt + OPTIONAL_HEADER));
    kda_put_le32(pe + 8, id->pe_timestamp);
    kda_put_le16(pe + 20, OPTIONAL_HEADER);
    kda_put_le16(pe + 22, 0x22);
    kda_put_le16(opt, 0x20b);
    kda_put_le32(opt + 16, 0x1000);
    kda_put_le64(opt + 24, f->truth.base);
    kda_put_le32(opt + 32, PAGE);
    kda_put_le32(opt + 36, 0x200);
    kda_put_le16(opt + 40, (uint16_t)f->major);
    kda_put_le16(opt + 42, (uint16_t)f->minor);
    kda_put_le16(opt + 48, (uint16_t)f->major);
    kda_put_le16(opt + 50, (uint16_t)f->minor);
    kda_put_le32(opt + 56, id->pe_size);
    kda_put_le32(opt + 60, 0x600);
    kda_put_le16(opt + 68, 1);
    kda_put_le32(opt + 108, 16);
    kda_put_le32(opt + 112, exports);
    kda_put_le32(opt + 116, export_size);
    kda_put_le32(opt + 112 + 6 * 8, debug);
    kda_put_le32(opt + 116 + 6 * 8, 28);
    put_bytes(f, f->truth.base, h, 0x600);
}
