#include "forge_int.h"

/* Flat files, LiME, ELF cores as QEMU writes them, and VMware's state file beside a flat file.
 * Source: docs/formats.md. */

#define ELF_HEADER 64u
#define ELF_SEGMENT 56u
#define ELF_SEGMENTS_MAX 60000u
#define QEMU_STATE 0x1b8u
#define CORE_STATUS 0x150u

/* Where a page stands in a flat file. VMware leaves the device hole out; others do not. */
static uint64_t flat_page(const struct forge *f, uint64_t pfn, bool squeeze)
{
    if (squeeze && f->ram_count == 3 && pfn >= f->ram[2].first)
        return pfn - (f->ram[2].first - (f->ram[1].first + f->ram[1].count));
    return pfn;
}

void container_raw(struct forge *f, struct sink *s, bool squeeze)
{
    sink_resize(s, flat_page(f, f->pages - 1, squeeze) * PAGE + PAGE);
    for (uint64_t c = 0; c <= f->pages / CHUNK_PAGES; c++) {
        if (!f->chunks[c])
            continue;
        for (uint64_t i = 0; i < CHUNK_PAGES; i++)
            if (f->chunks[c]->state[i] == PAGE_USED && f->chunks[c]->bytes[i])
                sink_page(f, s, flat_page(f, c * CHUNK_PAGES + i, squeeze) * PAGE,
                          c * CHUNK_PAGES + i);
    }
}

/* Stretches of RAM that no hole interrupts; unused pages belong to them. */
static bool ram_run(const struct forge *f, uint64_t pfn, struct ram_range *run)
{
    for (size_t i = 0; i < f->ram_count; i++) {
        uint64_t end = f->ram[i].first + f->ram[i].count;
        uint64_t first = pfn > f->ram[i].first ? pfn : f->ram[i].first;
        while (first < end && phys_state(f, first) == PAGE_GONE)
            first++;
        uint64_t last = first;
        while (last < end && phys_state(f, last) != PAGE_GONE)
            last++;
        if (first >= end)
            continue;
        *run = (struct ram_range){first, last - first};
        return true;
    }
    return false;
}

static size_t count_runs(const struct forge *f, uint64_t *pages)
{
    struct ram_range run;
    size_t count = 0;
    *pages = 0;
    for (uint64_t pfn = 0; ram_run(f, pfn, &run); pfn = run.first + run.count) {
        count++;
        *pages += run.count;
    }
    return count;
}

static void put_run(struct forge *f, struct sink *s, uint64_t off, const struct ram_range *run)
{
    for (uint64_t k = 0; k < run->count; k++)
        sink_page(f, s, off + k * PAGE, run->first + k);
}

void container_lime(struct forge *f, struct sink *s)
{
    uint64_t pages = 0, off = 0;
    size_t count = count_runs(f, &pages);
    struct ram_range run;
    sink_resize(s, 32 * (uint64_t)count + pages * PAGE);
    for (uint64_t pfn = 0; ram_run(f, pfn, &run); pfn = run.first + run.count) {
        uint8_t h[32] = {0};
        kda_put_le32(h, 0x4c694d45);
        kda_put_le32(h + 4, 1);
        kda_put_le64(h + 8, run.first * PAGE);
        kda_put_le64(h + 16, (run.first + run.count) * PAGE - 1);
        sink_put(s, off, h, sizeof(h));
        put_run(f, s, off + sizeof(h), &run);
        off += sizeof(h) + run.count * PAGE;
    }
}

static size_t put_note(uint8_t *b, const char *name, uint32_t type, size_t size)
{
    kda_put_le32(b, 5);
    kda_put_le32(b + 4, (uint32_t)size);
    kda_put_le32(b + 8, type);
    memcpy(b + 12, name, 5);
    return 20 + size;
}

/* One pair of notes for each processor. The first of several was stopped in user mode: it has the
 * table of the last process, which maps the same kernel. */
static size_t put_notes(struct forge *f, uint8_t *notes)
{
    size_t used = 0;
    for (uint32_t i = 0; i < f->opt.cpus; i++) {
        size_t status = put_note(notes + used, "CORE", 1, CORE_STATUS);
        used += status;
    }
    for (uint32_t i = 0; i < f->opt.cpus; i++) {
        uint8_t *d = notes + used + 20;
        bool user = i == 0 && f->opt.cpus > 1;
        uint64_t cr3 = f->root;
        if (user)
            cr3 = f->truth.processes[f->truth.process_count - 1].dtb;
        used += put_note(notes + used, "QEMU", 0, QEMU_STATE);
        kda_put_le32(d, 1);
        kda_put_le32(d + 4, QEMU_STATE);
        kda_put_le32(d + 0x98, user ? 0x33 : 0x10); /* code segment */
        kda_put_le64(d + 0x188, 0x80050033);
        kda_put_le64(d + 0x1a0, cr3);
        kda_put_le64(d + 0x1a8, f->opt.la57 ? 0x1506f8 : 0x1506f8 & ~0x1000);
        kda_put_le64(d + 0x1b0, 0xfffff80000000000u);
    }
    return used;
}

static void put_segment(uint8_t *b, uint32_t type, uint64_t off, uint64_t pa, uint64_t size)
{
    memset(b, 0, ELF_SEGMENT);
    kda_put_le32(b, type);
    kda_put_le64(b + 8, off);
    kda_put_le64(b + 24, pa);
    kda_put_le64(b + 32, size);
    kda_put_le64(b + 40, size);
}

static void put_elf_header(uint8_t *b, uint16_t segments)
{
    static const uint8_t ident[8] = {0x7f, 'E', 'L', 'F', 2, 1, 1, 0};
    memset(b, 0, ELF_HEADER);
    memcpy(b, ident, sizeof(ident));
    kda_put_le16(b + 16, 4);
    kda_put_le16(b + 18, 62);
    kda_put_le32(b + 20, 1);
    kda_put_le64(b + 32, ELF_HEADER);
    kda_put_le16(b + 52, ELF_HEADER);
    kda_put_le16(b + 54, ELF_SEGMENT);
    kda_put_le16(b + 56, segments);
}

void container_elf(struct forge *f, struct sink *s)
{
    uint64_t pages = 0;
    size_t count = count_runs(f, &pages), i = 0;
    size_t notes = f->opt.cpus * (size_t)(40 + CORE_STATUS + QEMU_STATE);
    size_t head = ELF_HEADER + ELF_SEGMENT * (count + 1);
    struct ram_range run;
    if (count > ELF_SEGMENTS_MAX) {
        s->status = kda_fail(s->err, KDA_UNSUPPORTED, "forge", "too many holes for an ELF core");
        return;
    }
    uint8_t *b = kda_calloc(head + notes, 1);
    if (!b) {
        s->status = kda_fail(s->err, KDA_NO_MEMORY, "forge", "out of memory");
        return;
    }
    put_elf_header(b, (uint16_t)(count + 1));
    put_segment(b + ELF_HEADER, 4, head, 0, put_notes(f, b + head));
    sink_resize(s, head + notes + pages * PAGE);
    uint64_t off = head + notes; /* not on a page border, as QEMU does it */
    for (uint64_t pfn = 0; ram_run(f, pfn, &run); pfn = run.first + run.count) {
        put_segment(b + ELF_HEADER + ELF_SEGMENT * ++i, 1, off, run.first * PAGE, run.count * PAGE);
        put_run(f, s, off, &run);
        off += run.count * PAGE;
    }
    sink_put(s, 0, b, head + notes);
    kda_free(b);
}

static size_t put_tag(uint8_t *b, const char *name, const uint32_t *index, uint32_t value)
{
    size_t length = strlen(name), used = 2 + length;
    b[0] = (uint8_t)(4u | (index ? 1u << 6 : 0u));
    b[1] = (uint8_t)length;
    memcpy(b + 2, name, length);
    if (index) {
        kda_put_le32(b + used, *index);
        used += 4;
    }
    kda_put_le32(b + used, value);
    return used + 4;
}

/* Only the memory group, with the regions on both sides of the device hole. */
void container_vmss(struct forge *f, struct sink *s)
{
    uint8_t b[1024] = {0};
    uint64_t first_pages = f->ram[1].first + f->ram[1].count;
    uint32_t regions = f->ram_count == 3 ? 2 : 0;
    size_t used = 12 + 80;
    kda_put_le32(b, 0xbed2bed2);
    kda_put_le32(b + 4, 8);
    kda_put_le32(b + 8, 1);
    memcpy(b + 12, "memory", 6);
    kda_put_le64(b + 12 + 64, used);
    used += put_tag(b + used, "regionsCount", NULL, regions);
    for (uint32_t i = 0; i < regions; i++) {
        uint64_t first = i == 0 ? 0 : f->ram[2].first;
        uint64_t pages = i == 0 ? first_pages : f->ram[2].count;
        used += put_tag(b + used, "regionPPN", &i, (uint32_t)first);
        used += put_tag(b + used, "regionPageNum", &i, (uint32_t)(i == 0 ? 0 : first_pages));
        used += put_tag(b + used, "regionSize", &i, (uint32_t)pages);
    }
    used += 2;
    kda_put_le64(b + 12 + 72, used - (12 + 80));
    sink_resize(s, used);
    sink_put(s, 0, b, used);
}
