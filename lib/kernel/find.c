/*
 * find.c - the page-table root and the kernel base. Every root is a hypothesis; the proof is a
 * Windows kernel image that it maps.
 *
 * Source of the anchors: docs/kernel.md (crash dump header, QEMU CPU note, low stub of the
 * processor start-up code, PML4 page with an entry that names itself).
 */
#include <stdio.h>
#include <string.h>

#include "internal.h"

#define KERNEL_SLOT 0x1f0u /* PML4 slot of 0xfffff80000000000: every x64 kernel is loaded there */
#define LOW_STUB_START 0x1000u
#define LOW_STUB_END 0x100000u
#define SCAN_CHUNK 0x100000u
#define MAX_ROOTS_TRIED 64u /* by each way of finding candidates */
#define TABLE_COST 16u      /* work of going through one page table */
#define PROBE_COST 4u       /* of looking for "MZ", which asks the file each time */

/* What was tried, for the message when nothing is found. */
struct trail {
    char text[360];
    size_t used;
};

static void note(struct trail *trail, const char *what, uint64_t pa, const char *why)
{
    if (trail->used >= sizeof(trail->text) - 1)
        return;
    int n = snprintf(trail->text + trail->used, sizeof(trail->text) - trail->used,
                     "%s%s 0x%llx: %s", trail->used ? "; " : "", what, (unsigned long long)pa, why);
    if (n > 0)
        trail->used += (size_t)n;
}

/* How sure it is that an image of a kernel is the one that runs; better is higher. */
enum standing { COPY, UNKNOWN, RUNNING };

struct candidate {
    bool found;
    enum standing standing;
    uint64_t base;
    struct kda_kernel_id id;
    uint32_t machine;
};

struct search {
    struct kda_kernel *kernel;
    struct candidate best; /* of the page tables under one root */
    struct trail trail;
    struct kda_error last; /* why the last base was refused */
    uint64_t entry_hint;   /* an address inside the kernel, 0 = none */
    unsigned tried;
    uint64_t scan_left;    /* bytes */
    enum kda_status fatal; /* UNSUPPORTED machine, I/O: ends the search */
};

static bool examine(struct search *s, uint64_t base, struct kda_kernel_id *id, struct kda_pe *pe)
{
    enum kda_status status = kda_pe_kernel_id(s->kernel, base, id, pe, &s->last);
    if (status == KDA_UNSUPPORTED || status == KDA_IO || status == KDA_NO_MEMORY)
        s->fatal = status;
    return status == KDA_OK;
}

static void adopt(struct kda_kernel *kernel, uint64_t base, const struct kda_kernel_id *id,
                  uint32_t machine)
{
    kernel->info.base = base;
    kernel->info.id = *id;
    kernel->info.machine = machine;
}

static bool accept_base(struct search *s, uint64_t base)
{
    struct kda_kernel_id id;
    struct kda_pe pe;
    if (!examine(s, base, &id, &pe))
        return false;
    adopt(s->kernel, base, &id, pe.machine);
    return true;
}

/* A second kernel may be mapped: a clean copy that a rootkit reads, a file in the cache. The
 * running one's PsLoadedModuleList leads to an entry that names its base (DllBase at 0x30). */
static enum standing judge(struct kda_kernel *kernel, uint64_t base, const struct kda_pe *pe)
{
    uint8_t bytes[8];
    uint64_t list;
    if (kda_pe_export(kernel, base, pe, "PsLoadedModuleList", &list, NULL) != KDA_OK ||
        kda_read(kernel, list, bytes, sizeof(bytes), NULL) != KDA_OK)
        return UNKNOWN;
    uint64_t entry = kda_le64(bytes);
    if (!kda_is_kernel_va(kernel, entry))
        return COPY;
    enum kda_status status = kda_read(kernel, entry + 0x30, bytes, sizeof(bytes), NULL);
    if (status != KDA_OK)
        return status == KDA_UNMAPPED ? COPY : UNKNOWN;
    return kda_le64(bytes) == base ? RUNNING : COPY;
}

/* Keeps the best image met; true when nothing better can come. */
static bool consider(struct search *s, uint64_t base)
{
    struct candidate c = {true, UNKNOWN, base, {0}, 0};
    struct kda_pe pe;
    if (!examine(s, base, &c.id, &pe))
        return false;
    c.machine = pe.machine;
    c.standing = judge(s->kernel, base, &pe);
    if (!s->best.found || c.standing > s->best.standing)
        s->best = c;
    return s->best.standing == RUNNING;
}

/* The kernel's header page is missing: its loader entry still names it. DllBase 0x30, SizeOfImage
 * 0x40, BaseDllName 0x58, TimeDateStamp 0x9c. Source: _KLDR_DATA_TABLE_ENTRY, all surveyed builds
 * with silos; older ones keep the stamp elsewhere and then match no known build. */
static bool accept_loader_entry(struct search *s, uint64_t entry)
{
    struct kda_kernel *kernel = s->kernel;
    uint8_t bytes[0xa0];
    const char *name;
    if (!kda_status_is_gap(s->last.status) ||
        kda_read(kernel, entry, bytes, sizeof(bytes), NULL) != KDA_OK ||
        kda_read_string(kernel, entry + 0x58, 64, &name, NULL) != KDA_OK ||
        strcmp(name, "ntoskrnl.exe") != 0)
        return false;
    memset(&kernel->info.id, 0, sizeof(kernel->info.id));
    kernel->info.base = kda_le64(bytes + 0x30);
    kernel->info.id.has_pe = true;
    kernel->info.id.pe_size = kda_le32(bytes + 0x40);
    kernel->info.id.pe_timestamp = kda_le32(bytes + 0x9c);
    kernel->info.machine = kda_image_info(kernel->image)->machine;
    kda_gaps_add(&kernel->gaps, "kernel_header", kernel->info.base, s->last.status,
                 "the kernel's PE header is missing; identified by its loader entry");
    return true;
}

/* First loader entry of PsLoadedModuleList is the kernel. DllBase stands at 0x30 on every x64
 * build. Source: _KLDR_DATA_TABLE_ENTRY / _LDR_DATA_TABLE_ENTRY, 213 of 213 surveyed builds. */
static bool base_from_header(struct search *s)
{
    const struct kda_image_info *image = kda_image_info(s->kernel->image);
    uint8_t link[8], base[8];
    if (image->kernel_base && accept_base(s, image->kernel_base))
        return true;
    if (!image->has_roots)
        return false;
    if (kda_read(s->kernel, image->ps_loaded_module_list, link, 8, &s->last) == KDA_OK &&
        kda_read(s->kernel, kda_le64(link) + 0x30, base, 8, &s->last) == KDA_OK &&
        (accept_base(s, kda_le64(base)) || accept_loader_entry(s, kda_le64(link))))
        return true;
    /* The list may be damaged; the debugger block names the base at +0x18 when it is plain. */
    if (image->kd_debugger_data_block &&
        kda_read(s->kernel, image->kd_debugger_data_block + 0x18, base, 8, &s->last) == KDA_OK &&
        accept_base(s, kda_le64(base)))
        return true;
    return false;
}

static bool is_mz(struct kda_kernel *kernel, uint64_t pa)
{
    uint8_t mz[2];
    return kda_image_read(kernel->image, pa, mz, sizeof(mz), NULL) == KDA_OK && mz[0] == 'M' &&
           mz[1] == 'Z';
}

static bool try_va(struct search *s, uint64_t va)
{
    uint64_t pa;
    return kda_work_spend(s->kernel, 1) &&
           kda_translate(s->kernel, s->kernel->info.dtb, va, &pa, NULL) == KDA_OK &&
           kda_work_spend(s->kernel, PROBE_COST) && is_mz(s->kernel, pa) && accept_base(s, va) &&
           s->entry_hint - va < s->kernel->info.id.pe_size;
}

/* From an address inside the kernel down to its "MZ": near pages, then the alignments that loaders
 * use, then every page. */
static bool base_from_entry(struct search *s)
{
    if (!s->entry_hint)
        return false;
    static const struct {
        uint64_t step;
        unsigned count;
    } rounds[] = {{0x1000, 16}, {0x200000, 32}, {0x10000, 512}, {0x1000, 8192}};
    for (size_t r = 0; r < sizeof(rounds) / sizeof(rounds[0]); r++) {
        uint64_t va = s->entry_hint & ~(rounds[r].step - 1);
        for (unsigned i = 0; i < rounds[r].count; i++, va -= rounds[r].step) {
            if (try_va(s, va))
                return true;
            if (s->fatal)
                return false;
        }
    }
    return false;
}

static uint64_t slot_va(uint64_t base, unsigned level, unsigned index)
{
    return base + ((uint64_t)index << (12 + 9 * level));
}

struct table_scan {
    struct search *search;
    bool large_only; /* first round: the kernel is mapped with large pages on most machines */
};

static bool scan_table(struct table_scan *scan, uint64_t table, unsigned level, uint64_t base)
{
    struct kda_kernel *kernel = scan->search->kernel;
    const uint8_t *page;
    uint8_t copy[KDA_PAGE_SIZE];
    if (!kda_work_spend(kernel, TABLE_COST) ||
        kda_space_page(kernel, table / KDA_PAGE_SIZE, &page, NULL) != KDA_OK)
        return false;
    memcpy(copy, page, sizeof(copy)); /* the cache may drop the page below */
    for (unsigned i = 0; i < 512; i++) {
        uint64_t entry = kda_le64(copy + (size_t)i * 8), pa;
        uint64_t va = slot_va(base, level, i);
        if (!kda_pte_present(kernel, entry, &pa))
            continue;
        bool leaf = level == 0 || ((entry & 0x81) == 0x81 && level <= 2);
        if (!leaf) {
            if (level == 1 && scan->large_only)
                continue;
            if (scan_table(scan, pa, level - 1, va))
                return true;
        } else if (kda_work_spend(kernel, PROBE_COST)) {
            uint64_t inside = ((uint64_t)1 << (12 + 9 * level)) - 1;
            if (is_mz(kernel, pa & ~inside) && consider(scan->search, va))
                return true;
        }
        if (scan->search->fatal || kernel->exhausted)
            return false;
    }
    return false;
}

/* Every present page of the kernel's slot. */
static bool base_from_tables(struct search *s)
{
    struct kda_kernel *kernel = s->kernel;
    uint64_t table = kernel->info.dtb, entry;
    if (kernel->info.la57 && (kda_space_entry(kernel, table, 511, &entry, NULL) != KDA_OK ||
                              !kda_pte_present(kernel, entry, &table)))
        return false;
    if (kda_space_entry(kernel, table, KERNEL_SLOT, &entry, NULL) != KDA_OK ||
        !kda_pte_present(kernel, entry, &table))
        return false;
    memset(&s->best, 0, sizeof(s->best));
    for (int round = 0; round < 2; round++) {
        struct table_scan scan = {s, round == 0};
        if (scan_table(&scan, table, 2, 0xfffff80000000000u) || s->fatal)
            break;
    }
    if (!s->best.found || s->fatal)
        return false;
    adopt(kernel, s->best.base, &s->best.id, s->best.machine);
    if (s->best.standing == COPY)
        kda_gaps_add(&kernel->gaps, "kernel_base", s->best.base, KDA_BAD_DATA,
                     "the only kernel found here is not the one that its driver list names");
    return true;
}

static bool try_root(struct search *s, uint64_t dtb, enum kda_dtb_source source, const char *what)
{
    struct kda_kernel *kernel = s->kernel;
    dtb &= ~(uint64_t)KDA_PAGE_MASK;
    if (s->fatal || kernel->exhausted || s->tried++ >= MAX_ROOTS_TRIED)
        return false;
    bool header_says = kda_image_info(kernel->image)->la57;
    memset(&s->last, 0, sizeof(s->last));
    for (int round = 0; round < 2; round++) {
        kernel->info.la57 = round == 0 ? header_says : !header_says;
        kernel->info.dtb = dtb;
        kernel->info.dtb_source = source;
        kda_space_flush(kernel);
        if (base_from_header(s) || (!s->fatal && base_from_entry(s)) ||
            (!s->fatal && base_from_tables(s)))
            return true;
    }
    note(&s->trail, what, dtb, s->last.text[0] ? s->last.text : "maps no kernel");
    return false;
}

/* The start-up code for application processors keeps CR3 and a kernel address in a page below
 * 1 MiB: e9 ?? 06 00 01 00 00 00, a kernel address at +0x70, CR3 at +0xa0. */
static bool from_low_stub(struct search *s)
{
    for (uint64_t pa = LOW_STUB_START; pa < LOW_STUB_END; pa += KDA_PAGE_SIZE) {
        uint8_t head[0xa8];
        if (kda_image_read(s->kernel->image, pa, head, sizeof(head), NULL) != KDA_OK)
            continue;
        uint64_t entry = kda_le64(head + 0x70), cr3 = kda_le64(head + 0xa0);
        if ((kda_le64(head) & 0xffffffffffff00ffu) != 0x00000001000600e9u ||
            entry >> 39 != 0xfffff80000000000u >> 39 || cr3 == 0 ||
            (cr3 & 0xffffff0000000000u) != 0)
            continue;
        s->entry_hint = entry;
        if (try_root(s, cr3, KDA_DTB_LOW_STUB, "low stub root"))
            return true;
        s->entry_hint = 0;
    }
    return false;
}

/* A table of the top level: one entry in the upper half names the page itself, the kernel's slot is
 * in use, no entry is a large page. Dummy tables with a couple of entries fail the last test:
 * whatever passes must still map a kernel. */
static bool looks_like_root(const uint8_t *page, uint64_t pa)
{
    bool self = false;
    for (unsigned i = 0x100; i < 0x200 && !self; i++) {
        uint64_t entry = kda_le64(page + (size_t)i * 8);
        self = (entry & 0x81) == 1 && (entry & 0x000ffffffffff000u) == pa;
    }
    if (!self)
        return false;
    uint64_t kernel4 = kda_le64(page + KERNEL_SLOT * 8u), kernel5 = kda_le64(page + 511 * 8u);
    if (!(kernel4 & 1) && !(kernel5 & 1))
        return false;
    for (unsigned i = 0; i < 512; i++)
        if ((kda_le64(page + (size_t)i * 8) & 0x81) == 0x81)
            return false;
    return true;
}

static enum kda_status scan_range(struct search *s, uint64_t from, uint64_t to, bool *found,
                                  uint8_t *buf, uint64_t total)
{
    struct kda_kernel *kernel = s->kernel;
    uint64_t start, size;
    for (uint64_t pa = from; pa < to && kda_image_next_run(kernel->image, pa, &start, &size);) {
        if (start >= to)
            break;
        uint64_t end = size < to - start ? start + size : to;
        for (pa = start; pa < end;) {
            uint64_t data = kda_image_next_data(kernel->image, pa);
            if (data > pa) { /* zeros are no page table */
                pa = data;
                continue;
            }
            size_t take = end - pa < SCAN_CHUNK ? (size_t)(end - pa) : SCAN_CHUNK;
            take &= ~(size_t)KDA_PAGE_MASK;
            if (take == 0) {
                pa = end;
                break;
            }
            if (take > s->scan_left) /* ranges that share their bytes: all of them were seen */
                return KDA_OK;
            s->scan_left -= take;
            enum kda_status status = kda_image_read(kernel->image, pa, buf, take, &s->last);
            if (status == KDA_IO)
                s->fatal = status;
            if (status == KDA_OK)
                for (size_t off = 0; off < take; off += KDA_PAGE_SIZE)
                    if (looks_like_root(buf + off, pa + off) &&
                        try_root(s, pa + off, KDA_DTB_SCAN, "table at")) {
                        *found = true;
                        return KDA_OK;
                    }
            pa += take;
            if (s->fatal || kernel->exhausted || s->tried >= MAX_ROOTS_TRIED)
                return KDA_OK;
            if (kernel->options.progress &&
                !kernel->options.progress(kernel->options.context, pa, total))
                return KDA_CANCELLED;
        }
    }
    return KDA_OK;
}

/* Ranges where Windows puts the System process's table, then everything. */
static enum kda_status from_scan(struct search *s, bool *found, struct kda_error *err)
{
    static const uint64_t ranges[][2] = {{0x150000, 0x2a0000}, {0x650000, 0x6f0000}};
    uint8_t *buf = kda_calloc(SCAN_CHUNK, 1);
    if (!buf)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory for the page-table scan");
    uint64_t total = kda_image_info(s->kernel->image)->max_pa;
    s->tried = 0;
    /* Twice: the first ranges are met again. */
    uint64_t data = kda_image_info(s->kernel->image)->data_size;
    s->scan_left = data < UINT64_MAX / 2 ? data * 2 : UINT64_MAX;
    enum kda_status status = KDA_OK;
    for (size_t i = 0; i < 2 && status == KDA_OK && !*found && !s->fatal; i++)
        status = scan_range(s, ranges[i][0], ranges[i][1], found, buf, total);
    if (status == KDA_OK && !*found && !s->fatal)
        status = scan_range(s, 0, UINT64_MAX, found, buf, total);
    kda_free(buf);
    if (status == KDA_CANCELLED)
        return kda_fail(err, status, "kernel", "the page-table scan was cancelled");
    return status;
}

static bool from_hints(struct search *s)
{
    struct kda_kernel *kernel = s->kernel;
    const struct kda_image_info *image = kda_image_info(kernel->image);
    bool header = strncmp(image->format, "dmp", 3) == 0;
    for (size_t i = 0; i < image->dtb_count; i++)
        if (try_root(s, image->dtb[i], header ? KDA_DTB_HEADER : KDA_DTB_CPU,
                     header ? "root of the dump header" : "CR3 of a processor"))
            return true;
    s->tried = 0;
    return !s->fatal && from_low_stub(s);
}

enum kda_status kda_find_kernel(struct kda_kernel *kernel, struct kda_error *err)
{
    struct search s;
    memset(&s, 0, sizeof(s));
    s.kernel = kernel;
    bool found = false;
    if (kernel->options.dtb) {
        found = try_root(&s, kernel->options.dtb, KDA_DTB_OPTION, "--dtb");
    } else {
        found = from_hints(&s);
        if (!found && !s.fatal) {
            enum kda_status status = from_scan(&s, &found, err);
            if (status != KDA_OK)
                return status;
        }
    }
    if (found)
        return KDA_OK;
    if (s.fatal) {
        if (err)
            *err = s.last;
        return s.fatal;
    }
    if (kernel->exhausted)
        note(&s.trail, "search ended at root", kernel->info.dtb, "page tables without end");
    return kda_fail(err, KDA_ABSENT, "kernel", "no Windows x64 kernel found in the image (%s)",
                    s.trail.used ? s.trail.text : "no page-table root in it");
}

/* A processor was stopped in some process, and a scan meets the tables of processes: they map the
 * kernel, but the System process's table is the one that lasts. Kept only if it maps the kernel
 * too. */
void kda_adopt_system_root(struct kda_kernel *kernel)
{
    struct kda_kernel_info *info = &kernel->info;
    uint64_t at = kda_symbol_va(kernel, KDA_SYM_PsInitialSystemProcess), dtb, old = info->dtb;
    uint8_t process[8];
    struct kda_pe pe;
    if ((info->dtb_source != KDA_DTB_CPU && info->dtb_source != KDA_DTB_SCAN) || at == 0 ||
        kda_read(kernel, at, process, sizeof(process), NULL) != KDA_OK ||
        kda_read_field(kernel, kda_le64(process), KDA_F_KPROCESS_DirectoryTableBase, &dtb, NULL) !=
            KDA_OK)
        return;
    dtb &= 0x000ffffffffff000u;
    if (dtb == 0 || dtb == old)
        return;
    info->dtb = dtb;
    if (kda_pe_read(kernel, info->base, &pe, NULL) == KDA_OK && pe.size == info->id.pe_size)
        info->dtb_source = KDA_DTB_SYSTEM;
    else
        info->dtb = old;
}
