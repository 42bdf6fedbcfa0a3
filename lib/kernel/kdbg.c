/*
 * kdbg.c - the debugger data block of the image: finding it and reading its fields.
 *
 * Every address is a hypothesis; the block itself proves it (tag, size, kernel base, and for an
 * encoded one the list links). Source: docs/kernel.md; layout of _KDDEBUGGER_DATA64 as in
 * the debugger header wdbgexts.h.
 */
#include "kdbg.h"

#include <string.h>

#include "internal.h"

#define MAX_SCAN ((uint64_t)0x8000000) /* bytes of an image searched for the list */
#define MAX_CANDIDATES 262144u         /* pairs of equal qwords looked at closer */
#define KPCR_PRCB 0x180u               /* KPCR.Prcb, 213 of 213 surveyed builds */
#define KPCR_VERSION_BLOCK 0x108u      /* KPCR.KdVersionBlock, the same */
#define VERSION_DATA_LIST 0x20u        /* DBGKD_GET_VERSION64.DebuggerDataList, the same */

/* Reads what the image has of the block and keeps it decoded. */
static bool keep(struct kda_kernel *kernel, uint64_t va, uint32_t size,
                 const struct kda_kdbg_cipher *cipher)
{
    uint8_t *bytes = kda_arena_alloc(&kernel->arena, size);
    kernel->kdbg.no_memory = !bytes;
    if (!bytes)
        return false;
    size_t have = 0;
    enum kda_status rest = KDA_OK;
    while (have < size && rest == KDA_OK) {
        size_t page = KDA_PAGE_SIZE - (size_t)((va + have) & KDA_PAGE_MASK);
        size_t take = page < size - have ? page : size - have;
        rest = kda_read(kernel, va + have, bytes + have, take, NULL);
        if (rest == KDA_OK)
            have += take;
    }
    if (cipher)
        kda_kdbg_apply(cipher, bytes, have, bytes);
    kernel->kdbg.bytes = bytes;
    kernel->kdbg.have = have;
    kernel->kdbg.rest = rest;
    return true;
}

static bool keys_of(struct kda_kernel *kernel, struct kda_kdbg_cipher *ret)
{
    uint64_t never, always;
    uint64_t flag_va = kda_symbol_va(kernel, KDA_SYM_KdpDataBlockEncoded);
    if (flag_va == 0 || !kda_read_u64(kernel, kda_symbol_va(kernel, KDA_SYM_KiWaitNever), &never) ||
        !kda_read_u64(kernel, kda_symbol_va(kernel, KDA_SYM_KiWaitAlways), &always))
        return false;
    *ret = kda_kdbg_cipher(never, always, flag_va);
    return true;
}

/* Plain, with keys, without keys: the data decide, not the version. */
static bool try_block(struct kda_kernel *kernel, uint64_t va, uint64_t head_va,
                      enum kda_kdbg_source source)
{
    uint8_t head[KDA_KDBG_HEAD], plain[KDA_KDBG_HEAD];
    uint64_t base = kernel->info.base;
    struct kda_kdbg_cipher cipher = {0, 0};
    if (va % 8 != 0 || !kda_is_kernel_va(kernel, va) ||
        kda_read(kernel, va, head, sizeof(head), NULL) != KDA_OK)
        return false;
    enum kda_kdbg_form form = KDA_KDBG_PLAIN;
    uint32_t size = kda_kdbg_size(head, base);
    if (size == 0 && keys_of(kernel, &cipher)) {
        form = KDA_KDBG_KEYS;
        kda_kdbg_apply(&cipher, head, sizeof(head), plain);
        size = kda_kdbg_size(plain, base);
    }
    if (size == 0 && kda_kdbg_solve(head, base, head_va, &cipher)) {
        form = KDA_KDBG_KEYLESS;
        kda_kdbg_apply(&cipher, head, sizeof(head), plain);
        size = kda_kdbg_size(plain, base);
    }
    if (size == 0 || !keep(kernel, va, size, form == KDA_KDBG_PLAIN ? NULL : &cipher))
        return false;
    kernel->info.kdbg_va = va;
    kernel->info.kdbg_size = size;
    kernel->info.kdbg_source = source;
    kernel->info.kdbg_form = form;
    return true;
}

/* The first entry of the list at `head_va`. */
static bool try_list(struct kda_kernel *kernel, uint64_t head_va, enum kda_kdbg_source source)
{
    uint64_t va;
    return kda_read_u64(kernel, head_va, &va) && try_block(kernel, va, head_va, source);
}

static bool try_version(struct kda_kernel *kernel, uint64_t version_va)
{
    uint64_t head_va;
    return version_va != 0 && kda_read_u64(kernel, version_va + VERSION_DATA_LIST, &head_va) &&
           try_list(kernel, head_va, KDA_KDBG_VERSION);
}

/* KPCR.KdVersionBlock of the first processor. */
static bool try_processor(struct kda_kernel *kernel)
{
    uint64_t prcb, version_va;
    return kda_read_u64(kernel, kda_symbol_va(kernel, KDA_SYM_KiProcessorBlock), &prcb) &&
           kda_read_u64(kernel, prcb - KPCR_PRCB + KPCR_VERSION_BLOCK, &version_va) &&
           try_version(kernel, version_va);
}

void kda_kdbg_facts(struct kda_kernel *kernel)
{
    if (kernel->kdbg.bytes ||
        try_block(kernel, kda_image_info(kernel->image)->kd_debugger_data_block, 0,
                  KDA_KDBG_HEADER) ||
        !kernel->layout)
        return;
    uint64_t head_va = kda_symbol_va(kernel, KDA_SYM_KdpDebuggerDataListHead);
    (void)(try_block(kernel, kda_symbol_va(kernel, KDA_SYM_KdDebuggerDataBlock), head_va,
                     KDA_KDBG_SYMBOL) ||
           try_list(kernel, head_va, KDA_KDBG_SYMBOL) ||
           try_version(kernel, kda_symbol_va(kernel, KDA_SYM_KdVersionBlock)) ||
           try_processor(kernel));
}

/* ---- search of the kernel's data ---- */

struct data_search {
    struct kda_kernel *kernel;
    uint64_t base, size;
    struct kda_section sections[KDA_MAX_SECTIONS];
    size_t section_count;
    uint64_t last; /* the qword before the one looked at */
    uint32_t candidates;
    uint64_t block_va; /* first place that reads as a block */
    size_t blocks;
};

/* Is the whole page code or constants by a section header? What no header speaks of is searched:
 * headers may be missing from the image. */
static bool is_code(const struct data_search *search, uint64_t rva)
{
    for (size_t i = 0; i < search->section_count; i++) {
        const struct kda_section *section = &search->sections[i];
        if ((!section->writable || section->executable) && rva >= section->rva &&
            rva - section->rva < section->size &&
            section->size - (rva - section->rva) >= KDA_PAGE_SIZE)
            return true;
    }
    return false;
}

/* A list head whose two links name one place inside the kernel, which itself starts with two equal
 * qwords: equal in plain are equal encoded. */
static bool try_head(struct data_search *search, uint64_t head_va, uint64_t va)
{
    struct kda_kernel *kernel = search->kernel;
    uint64_t flink, blink;
    return va - search->base < search->size && va % 8 == 0 && va != head_va &&
           kda_read_u64(kernel, va, &flink) && kda_read_u64(kernel, va + 8, &blink) &&
           flink == blink && try_block(kernel, va, head_va, KDA_KDBG_LIST);
}

/* Does it read as a block by itself? The head of its list may be in a page that is missing. */
static void note_block(struct data_search *search, uint64_t va)
{
    uint8_t head[KDA_KDBG_HEAD];
    struct kda_kdbg_cipher cipher;
    if (kda_read(search->kernel, va, head, sizeof(head), NULL) != KDA_OK ||
        kda_le64(head + 0x10) == kda_le64(head + 0x18) ||
        (kda_kdbg_size(head, search->base) == 0 && !kda_kdbg_solve(head, search->base, 0, &cipher)))
        return;
    if (search->blocks++ == 0)
        search->block_va = va;
}

static bool search_page(struct data_search *search, uint64_t rva, const uint8_t *page)
{
    for (size_t off = 0; off < KDA_PAGE_SIZE; off += 8) {
        uint64_t link = kda_le64(page + off), before = search->last;
        search->last = link;
        if (link != before || link == 0)
            continue;
        if (search->candidates++ >= MAX_CANDIDATES)
            return false;
        uint64_t va = search->base + rva + off - 8;
        if (try_head(search, va, link))
            return true;
        note_block(search, va);
    }
    return false;
}

static bool search_data(struct data_search *search)
{
    uint8_t page[KDA_PAGE_SIZE];
    for (uint64_t rva = 0; rva < search->size; rva += KDA_PAGE_SIZE) {
        if (is_code(search, rva) ||
            kda_read(search->kernel, search->base + rva, page, sizeof(page), NULL) != KDA_OK) {
            search->last = 0;
            continue;
        }
        if (search_page(search, rva, page))
            return true;
    }
    return false;
}

static bool find_in_data(struct kda_kernel *kernel)
{
    struct kda_pe pe;
    struct data_search *search = kda_calloc(1, sizeof(*search));
    kernel->kdbg.no_memory = !search;
    if (!search)
        return false;
    search->kernel = kernel;
    search->base = kernel->info.base;
    search->size = kernel->info.id.pe_size < MAX_SCAN ? kernel->info.id.pe_size : MAX_SCAN;
    if (kda_pe_read(kernel, search->base, &pe, NULL) != KDA_OK ||
        kda_pe_sections(kernel, search->base, &pe, search->sections, &search->section_count,
                        NULL) != KDA_OK)
        search->section_count = 0;
    /* Two places that read as a block contradict each other: neither is believed. */
    bool found = search_data(search) ||
                 (search->blocks == 1 && try_block(kernel, search->block_va, 0, KDA_KDBG_CONTENT));
    kda_free(search);
    return found;
}

enum kda_status kda_kernel_find_kdbg(struct kda_kernel *kernel, struct kda_error *err)
{
    struct kda_kdbg *kdbg = &kernel->kdbg;
    kdbg->no_memory = false;
    kda_kdbg_facts(kernel);
    if (kdbg->bytes || (!kdbg->data_searched && find_in_data(kernel)))
        return KDA_OK;
    kdbg->data_searched = !kdbg->no_memory; /* lack of memory is no answer to keep */
    if (kdbg->no_memory)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory finding the debugger block");
    return kda_fail(err, KDA_ABSENT, "kernel",
                    "no debugger data block: neither the dump header%s nor a search of its data "
                    "leads to one of the kernel at 0x%016llx",
                    kernel->layout ? ", the symbols" : "", (unsigned long long)kernel->info.base);
}

enum kda_status kda_kernel_kdbg_field(struct kda_kernel *kernel, uint32_t offset, uint64_t *ret,
                                      struct kda_error *err)
{
    const struct kda_kdbg *kdbg = &kernel->kdbg;
    if (offset % 8 != 0)
        return kda_fail(err, KDA_USAGE, "kernel", "the debugger block is read in qwords, not at %u",
                        (unsigned)offset);
    enum kda_status status = kdbg->bytes ? KDA_OK : kda_kernel_find_kdbg(kernel, err);
    if (status != KDA_OK)
        return status;
    uint64_t va = kernel->info.kdbg_va + offset;
    if (offset >= kernel->info.kdbg_size)
        return kda_fail_at(err, KDA_NO_SYMBOL, "kernel", va,
                           "this build's debugger block has 0x%x bytes and no field at 0x%x",
                           (unsigned)kernel->info.kdbg_size, (unsigned)offset);
    if (offset >= kdbg->have)
        return kda_fail_at(err, kdbg->rest, "kernel", va,
                           "the debugger block's page at 0x%016llx is not in the image",
                           (unsigned long long)va);
    *ret = kda_le64(kdbg->bytes + offset);
    return KDA_OK;
}
