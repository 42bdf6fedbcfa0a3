#include "forge_int.h"

/* Crash dumps. Source: docs/formats.md, "PAGEDU64". */

#define HEADER 0x2000u
#define HEADER_RUNS 42u
#define NOT_SET 0x45474150u /* "PAGE": fields nobody filled in */

static void fill_header(struct forge *f, uint8_t *h, uint32_t type, uint64_t size)
{
    for (uint32_t i = 0; i < HEADER; i += 4)
        kda_put_le32(h + i, NOT_SET);
    memcpy(h, "PAGEDU64", 8);
    kda_put_le32(h + 0x08, 15);
    kda_put_le32(h + 0x0c, f->build);
    kda_put_le64(h + 0x10, f->root | (f->opt.pcid ? 2 : 0));
    kda_put_le64(h + 0x18, 0xffffe80000000000u);
    kda_put_le64(h + 0x20, symbol(f, S(PsLoadedModuleList)));
    kda_put_le64(h + 0x28, symbol(f, S(PsActiveProcessHead)));
    kda_put_le32(h + 0x30, 0x8664);
    kda_put_le32(h + 0x34, f->opt.cpus);
    kda_put_le32(h + 0x38, type == 6 ? 0x161 : 0xe2);
    memset(h + 0x40, 0, 32);
    kda_put_le64(h + 0x80, symbol(f, S(KdDebuggerDataBlock)));
    memset(h + 0x348, 0, 0xf98 - 0x348);
    kda_put_le32(h + 0xf98, type);
    kda_put_le64(h + 0xfa0, size);
    kda_put_le64(h + 0xfa8, f->truth.system_time);
    kda_put_le64(h + 0x1030, 36000000000u);
}

static void put_runs(struct forge *f, uint8_t *h, const struct ram_range *runs, size_t count)
{
    uint64_t pages = 0;
    for (size_t i = 0; i < count; i++) {
        kda_put_le64(h + 0x98 + 16 * i, runs[i].first);
        kda_put_le64(h + 0xa0 + 16 * i, runs[i].count);
        pages += runs[i].count;
    }
    kda_put_le32(h + 0x88, (uint32_t)(f->lie_runs ? f->lie_runs : count));
    kda_put_le64(h + 0x90, f->lie_pages ? f->lie_pages : pages);
}

/* The memory of a full dump is all RAM but what a hole took out. */
static bool full_runs(struct forge *f, struct ram_range *runs, size_t *count, uint64_t *pages)
{
    *count = 0;
    *pages = 0;
    for (size_t i = 0; i < f->ram_count; i++) {
        uint64_t end = f->ram[i].first + f->ram[i].count;
        for (uint64_t pfn = f->ram[i].first; pfn < end;) {
            if (phys_state(f, pfn) == PAGE_GONE) {
                pfn++;
                continue;
            }
            uint64_t first = pfn;
            while (pfn < end && phys_state(f, pfn) != PAGE_GONE)
                pfn++;
            if (*count == HEADER_RUNS)
                return false;
            runs[*count] = (struct ram_range){first, pfn - first};
            *pages += pfn - first;
            (*count)++;
        }
    }
    return true;
}

static void write_full(struct forge *f, struct sink *s, uint8_t *h)
{
    struct ram_range runs[HEADER_RUNS] = {{0, 0}};
    size_t count = 0;
    uint64_t pages = 0, off = HEADER;
    if (!full_runs(f, runs, &count, &pages)) {
        s->status = kda_fail(s->err, KDA_UNSUPPORTED, "forge",
                             "more holes than a full dump can describe: use dmp-bitmap");
        return;
    }
    sink_resize(s, HEADER + pages * PAGE);
    fill_header(f, h, 1, s->size);
    put_runs(f, h, runs, count);
    sink_put(s, 0, h, HEADER);
    for (size_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < runs[i].count; k++, off += PAGE)
            sink_page(f, s, off, runs[i].first + k);
}

static uint64_t count_pages(struct forge *f, size_t *runs)
{
    struct ram_range run;
    uint64_t total = 0;
    *runs = 0;
    for (uint64_t pfn = 0; next_run(f, pfn, &run); pfn = run.first + run.count) {
        total += run.count;
        (*runs)++;
    }
    return total;
}

static void write_pages(struct forge *f, struct sink *s, uint64_t off)
{
    struct ram_range run;
    for (uint64_t pfn = 0; next_run(f, pfn, &run); pfn = run.first + run.count)
        for (uint64_t k = 0; k < run.count; k++, off += PAGE)
            sink_page(f, s, off, run.first + k);
}

static void write_bitmap(struct forge *f, struct sink *s, uint8_t *h, uint32_t type)
{
    size_t runs = 0;
    struct ram_range run;
    uint64_t pages = count_pages(f, &runs), bits = f->pages;
    uint64_t first = (HEADER + 0x38 + bits / 8 + 1 + PAGE - 1) / PAGE * PAGE;
    size_t room = (size_t)(first - HEADER);
    uint8_t *b = kda_calloc(room, 1);
    if (!b) {
        s->status = kda_fail(s->err, KDA_NO_MEMORY, "forge", "out of memory");
        return;
    }
    memcpy(b, type == 5 ? "FDMPDUMP" : "SDMPDUMP", 8);
    kda_put_le64(b + 0x20, first);
    kda_put_le64(b + 0x28, f->lie_pages ? f->lie_pages : pages);
    kda_put_le64(b + 0x30, f->lie_bits ? f->lie_bits : bits);
    for (uint64_t pfn = 0; next_run(f, pfn, &run); pfn = run.first + run.count)
        for (uint64_t k = run.first; k < run.first + run.count; k++)
            b[0x38 + k / 8] = (uint8_t)(b[0x38 + k / 8] | 1u << k % 8);
    sink_resize(s, first + pages * PAGE);
    fill_header(f, h, type, s->size);
    put_runs(f, h, f->ram, f->ram_count);
    sink_put(s, 0, h, HEADER);
    sink_put(s, HEADER, b, room);
    kda_free(b);
    write_pages(f, s, first);
}

static void write_rdmp(struct forge *f, struct sink *s, uint8_t *h, uint32_t type)
{
    size_t runs = 0, i = 0;
    struct ram_range run;
    uint64_t pages = count_pages(f, &runs);
    /* Ranges, and for the kinds without a count a pair of zeros as end. */
    uint64_t metadata = 0x30 + 16 * ((uint64_t)runs + 1);
    metadata = (metadata + PAGE - 1) / PAGE * PAGE - 0x20;
    uint64_t first = 0x2040 + metadata - 0x20;
    size_t room = (size_t)(first - HEADER);
    uint8_t *b = kda_calloc(room, 1);
    if (!b) {
        s->status = kda_fail(s->err, KDA_NO_MEMORY, "forge", "out of memory");
        return;
    }
    kda_put_le32(b, 0x40);
    memcpy(b + 4, "RDMPDUMP", 8);
    kda_put_le64(b + 0x10, metadata);
    kda_put_le64(b + 0x18, first);
    if (type == 10) {
        kda_put_le32(b + 0x20, (uint32_t)(f->lie_runs ? f->lie_runs : runs));
        kda_put_le64(b + 0x28, f->lie_pages ? f->lie_pages : pages);
    }
    for (uint64_t pfn = 0; next_run(f, pfn, &run); pfn = run.first + run.count, i++) {
        kda_put_le64(b + 0x30 + 16 * i, run.first);
        kda_put_le64(b + 0x38 + 16 * i, run.count);
    }
    sink_resize(s, first + pages * PAGE);
    fill_header(f, h, type, s->size);
    put_runs(f, h, f->ram, f->ram_count);
    sink_put(s, 0, h, HEADER);
    sink_put(s, HEADER, b, room);
    kda_free(b);
    write_pages(f, s, first);
}

void container_dmp(struct forge *f, struct sink *s, enum forge_format format)
{
    uint8_t h[HEADER];
    switch (format) {
    case FORGE_DMP_FULL:
        write_full(f, s, h);
        return;
    case FORGE_DMP_KERNEL:
        write_bitmap(f, s, h, 2);
        return;
    case FORGE_DMP_BITMAP:
        write_bitmap(f, s, h, 5);
        return;
    case FORGE_DMP_LIVE:
        write_bitmap(f, s, h, 6);
        return;
    case FORGE_DMP_RDMP:
        write_rdmp(f, s, h, 8);
        return;
    case FORGE_DMP_RDMP_ACTIVE:
        write_rdmp(f, s, h, 9);
        return;
    default:
        write_rdmp(f, s, h, 10);
        return;
    }
}
