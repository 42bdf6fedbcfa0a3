#include "forge_int.h"

#include <stdlib.h>

/* Physical memory is a table of 2 MiB chunks; only pages with content cost anything, so that a
 * 16 GiB machine is as quick to build as a small one. Pages are handed out at random places, as a
 * machine that has run for a while does: neighbours in virtual memory are strangers here. */

#define LOW_PAGES 0x200u /* firmware, loader and early boot tables: not given to random users */
#define PTE_TABLE 0x63u  /* present, writable, accessed, dirty */
#define PTE_LARGE 0x1e3u /* the same, global, large */
#define PTE_USER 0x4u
#define PTE_NX ((uint64_t)1 << 63)
#define PA_MASK 0x000ffffffffff000u

static void add_ram(struct forge *f, uint64_t first, uint64_t end)
{
    f->ram[f->ram_count].first = first;
    f->ram[f->ram_count].count = end - first;
    f->ram_count++;
    if (end > f->pages)
        f->pages = end;
}

/* PC memory map: a hole under 1 MiB, and one for devices under 4 GiB (moved with `mmio`). */
static bool plan_ram(struct forge *f)
{
    uint64_t size = f->opt.size;
    uint64_t hole = f->opt.mmio_start, end = f->opt.mmio_end;
    if (hole == 0 && size > 3 * GIB) {
        hole = 3 * GIB;
        end = 4 * GIB;
    }
    add_ram(f, 1, 0x9f);
    if (hole != 0 && hole < size) {
        if (hole % PAGE != 0 || end % PAGE != 0 || end <= hole || hole < 4 * MIB) {
            forge_fail(f, KDA_USAGE, "mmio: wrong bounds");
            return false;
        }
        add_ram(f, 0x100, hole / PAGE);
        add_ram(f, end / PAGE, (size + end - hole) / PAGE);
    } else {
        add_ram(f, 0x100, size / PAGE);
    }
    return true;
}

bool memory_init(struct forge *f)
{
    if (f->opt.size < 2 * MIB || f->opt.size > FORGE_MAX_RAM || f->opt.size % PAGE != 0) {
        forge_fail(f, KDA_USAGE, "size must be whole pages from 2M to 64G");
        return false;
    }
    if (!plan_ram(f))
        return false;
    f->chunks = calloc(f->pages / CHUNK_PAGES + 1, sizeof(*f->chunks));
    if (!f->chunks) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return false;
    }
    f->levels = f->opt.la57 ? 5 : 4;
    uint64_t root = phys_page_near(f, 0x1a0 + forge_random(f, 0x20));
    f->root = root * PAGE;
    /* The table maps itself: a fixed slot up to Windows 10 1511, a random one since. */
    f->self_index = 0x1ed;
    if (f->layout.size[ST(ESERVERSILO_GLOBALS)] != KDA_NONE)
        f->self_index = 0x1c0 + (unsigned)forge_random(f, 0x2c);
    uint8_t *page = phys_bytes(f, root);
    if (page)
        kda_put_le64(page + (size_t)f->self_index * 8, f->root | PTE_TABLE | PTE_NX);
    return forge_ok(f);
}

void memory_free(struct forge *f)
{
    if (!f->chunks)
        return;
    for (uint64_t c = 0; c <= f->pages / CHUNK_PAGES; c++) {
        if (!f->chunks[c])
            continue;
        for (size_t i = 0; i < CHUNK_PAGES; i++)
            free(f->chunks[c]->bytes[i]);
        free(f->chunks[c]);
    }
    free(f->chunks);
}

bool phys_is_ram(const struct forge *f, uint64_t pfn)
{
    for (size_t i = 0; i < f->ram_count; i++)
        if (pfn >= f->ram[i].first && pfn - f->ram[i].first < f->ram[i].count)
            return true;
    return false;
}

static struct chunk *chunk_of(struct forge *f, uint64_t pfn)
{
    struct chunk **place = &f->chunks[pfn / CHUNK_PAGES];
    if (!*place)
        *place = calloc(1, sizeof(**place));
    if (!*place)
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
    return *place;
}

enum page_state phys_state(const struct forge *f, uint64_t pfn)
{
    const struct chunk *chunk = pfn < f->pages ? f->chunks[pfn / CHUNK_PAGES] : NULL;
    return chunk ? (enum page_state)chunk->state[pfn % CHUNK_PAGES] : PAGE_FILLER;
}

void phys_set_state(struct forge *f, uint64_t pfn, enum page_state state)
{
    struct chunk *chunk = pfn < f->pages ? chunk_of(f, pfn) : NULL;
    if (chunk)
        chunk->state[pfn % CHUNK_PAGES] = (uint8_t)state;
}

static bool is_free(const struct forge *f, uint64_t pfn)
{
    return phys_is_ram(f, pfn) && phys_state(f, pfn) == PAGE_FILLER;
}

/* First free page at or after `pfn`, wrapping once. */
uint64_t phys_page_near(struct forge *f, uint64_t pfn)
{
    if (!forge_ok(f))
        return 0;
    for (uint64_t i = 0; i < f->pages; i++) {
        uint64_t candidate = (pfn + i) % f->pages;
        if (candidate >= 0x100 && is_free(f, candidate)) {
            phys_set_state(f, candidate, PAGE_USED);
            f->truth.pages_used++;
            return candidate;
        }
    }
    forge_fail(f, KDA_LIMIT, "the machine's memory (size) is too small for this scenario");
    return 0;
}

uint64_t phys_page(struct forge *f)
{
    uint64_t low = f->pages > 4 * LOW_PAGES ? LOW_PAGES : 0x100;
    return phys_page_near(f, low + forge_random(f, f->pages - low));
}

/* A run of free pages, for large pages. */
uint64_t phys_block(struct forge *f, uint64_t align, uint64_t count)
{
    for (uint64_t pfn = align; forge_ok(f) && pfn + count <= f->pages; pfn += align) {
        uint64_t i = 0;
        while (i < count && is_free(f, pfn + i))
            i++;
        if (i < count)
            continue;
        for (i = 0; i < count; i++)
            phys_set_state(f, pfn + i, PAGE_USED);
        f->truth.pages_used += count;
        return pfn;
    }
    forge_fail(f, KDA_LIMIT,
               "no room for %llu contiguous pages: raise `size` or use kernel pages=4k",
               (unsigned long long)count);
    return 0;
}

uint8_t *phys_bytes(struct forge *f, uint64_t pfn)
{
    if (!forge_ok(f))
        return NULL;
    if (pfn >= f->pages) {
        forge_fail(f, KDA_BAD_DATA, "page 0x%llx is outside the machine", (unsigned long long)pfn);
        return NULL;
    }
    struct chunk *chunk = chunk_of(f, pfn);
    if (!chunk)
        return NULL;
    uint8_t **bytes = &chunk->bytes[pfn % CHUNK_PAGES];
    if (!*bytes)
        *bytes = calloc(1, PAGE);
    if (!*bytes)
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
    return *bytes;
}

const uint8_t *phys_peek(const struct forge *f, uint64_t pfn)
{
    const struct chunk *chunk = pfn < f->pages ? f->chunks[pfn / CHUNK_PAGES] : NULL;
    return chunk ? chunk->bytes[pfn % CHUNK_PAGES] : NULL;
}

static unsigned index_of(uint64_t va, unsigned level)
{
    return (unsigned)(va >> (12 + 9 * (level - 1)) & 511);
}

/* Creates the tables down to `leaf` (1: 4 KiB, 2: 2 MiB, 3: 1 GiB) and gives the entry. */
static uint8_t *make_entry(struct forge *f, uint64_t root, uint64_t va, unsigned leaf)
{
    uint64_t user = va >> 63 ? 0 : PTE_USER;
    uint64_t table = root / PAGE;
    for (unsigned level = f->levels;; level--) {
        uint8_t *page = phys_bytes(f, table);
        if (!page)
            return NULL;
        uint8_t *entry = page + (size_t)index_of(va, level) * 8;
        if (level == leaf)
            return entry;
        uint64_t value = kda_le64(entry);
        if (!(value & 1)) {
            value = phys_page(f) * PAGE | PTE_TABLE | user;
            if (!forge_ok(f))
                return NULL;
            kda_put_le64(entry, value);
        } else if (level <= 3 && value & 0x80) {
            forge_fail(f, KDA_BAD_DATA, "0x%llx is part of a large page already",
                       (unsigned long long)va);
            return NULL;
        }
        table = (value & PA_MASK) / PAGE;
    }
}

void map_page(struct forge *f, uint64_t root, uint64_t va, uint64_t pfn)
{
    uint8_t *entry = make_entry(f, root, va, 1);
    if (entry)
        kda_put_le64(entry, pfn * PAGE | PTE_TABLE | PTE_NX | (va >> 63 ? 0 : PTE_USER));
}

void map_large(struct forge *f, uint64_t va, uint64_t pa, unsigned level)
{
    uint8_t *entry = make_entry(f, f->root, va, level);
    if (entry)
        kda_put_le64(entry, pa | PTE_LARGE);
}

/* Any value at any level: for page tables that lead nowhere good. */
void map_raw(struct forge *f, uint64_t va, unsigned level, uint64_t value)
{
    uint8_t *entry = make_entry(f, f->root, va, level);
    if (entry)
        kda_put_le64(entry, value);
}

/* The entry that maps `va`, whatever it says; NULL if a table above it is missing. */
uint8_t *find_entry(struct forge *f, uint64_t root, uint64_t va, unsigned *level)
{
    uint64_t table = root / PAGE;
    for (unsigned at_level = f->levels; at_level >= 1; at_level--) {
        uint8_t *page = phys_bytes(f, table);
        if (!page)
            return NULL;
        uint8_t *entry = page + (size_t)index_of(va, at_level) * 8;
        uint64_t value = kda_le64(entry);
        if (at_level == 1 || (at_level <= 3 && (value & 0x81) == 0x81)) {
            *level = at_level;
            return entry;
        }
        if (!(value & 1))
            return NULL;
        table = (value & PA_MASK) / PAGE;
    }
    return NULL;
}

bool translate(struct forge *f, uint64_t va, uint64_t *pa)
{
    return translate_in(f, f->root, va, pa);
}

bool translate_in(struct forge *f, uint64_t root, uint64_t va, uint64_t *pa)
{
    unsigned level = 0;
    const uint8_t *entry = find_entry(f, root, va, &level);
    if (!entry)
        return false;
    uint64_t value = kda_le64(entry);
    bool transition = (value >> 11 & 1) && !(value >> 10 & 1);
    if (!(value & 1) && !transition)
        return false;
    uint64_t mask = ((uint64_t)1 << (12 + 9 * (level - 1))) - 1;
    *pa = (value & PA_MASK & ~mask) | (va & mask);
    return true;
}
