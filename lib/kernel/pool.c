/*
 * pool.c - blocks with the tags of ETW and of processes: a scan of physical memory, and the table
 * of big pages.
 */
#include <string.h>

#include "internal.h"

#define CHUNK ((size_t)1 << 20)
#define UNIT 16u      /* sizes in headers count in these; a header is as long */
#define BIG_FREE 1u   /* bit of an entry's address */
#define BIG_BAD_MAX 8 /* pages of the big table in a row that are not in the image */
#define BIG_PAGES_MAX 8192u
#define BIG_BYTES_MAX 0x1000000u

/* _POOL_HEADER. PoolType: bit 0 paged, 1 allocated, 2 aligned to a cache line, 3 quota charged.
 * Source: PDBs of every surveyed build; the bits as public pool research names them. */
#define AT_PREVIOUS 0u
#define AT_SIZE 2u
#define AT_TYPE 3u
#define AT_TAG 4u
#define TYPE_ALLOCATED 2u
#define TYPE_ALIGNED 4u
#define TAG_PROTECTED 0x80000000u /* set in tags whose blocks must be freed by that tag */

#define TAG_ETW 0x777445u /* "Etw" */
#define TAG_PROC 0x636f7250u

static const struct {
    uint32_t tag;
    enum kda_pool_kind kind;
} tags[] = {
    {0x4c777445u, KDA_POOL_LOGGER},       /* EtwL */
    {0x43777445u, KDA_POOL_CONSUMER},     /* EtwC */
    {0x47777445u, KDA_POOL_GUID_ENTRY},   /* EtwG */
    {0x52777445u, KDA_POOL_REGISTRATION}, /* EtwR */
    {TAG_PROC, KDA_POOL_PROCESS},         /* Proc */
};

static bool kind_of(uint32_t tag, enum kda_pool_kind *ret)
{
    for (size_t i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
        if ((tag & ~TAG_PROTECTED) != tags[i].tag)
            continue;
        *ret = tags[i].kind;
        return true;
    }
    return false;
}

/* Where blocks say how long the one before them is, both neighbours must agree. The segment heap
 * leaves that byte 0, and then nothing is known about them. */
static bool neighbours_agree(const uint8_t *page, size_t off, size_t size)
{
    const uint8_t *header = page + off;
    size_t before = (size_t)header[AT_PREVIOUS] * UNIT, next = off + size;
    if (before == 0 || header[AT_TYPE] & TYPE_ALIGNED)
        return true;
    if (before > off || (size_t)page[off - before + AT_SIZE] * UNIT != before)
        return false;
    return next == KDA_PAGE_SIZE || page[next + AT_TYPE] & TYPE_ALIGNED ||
           (size_t)page[next + AT_PREVIOUS] * UNIT == size;
}

bool kda_pool_parse(const uint8_t page[KDA_PAGE_SIZE], size_t off, struct kda_pool_block *ret)
{
    const uint8_t *header = page + off;
    size_t size = (size_t)header[AT_SIZE] * UNIT;
    enum kda_pool_kind kind;
    if (!kind_of(kda_le32(header + AT_TAG), &kind))
        return false;
    if (!(header[AT_TYPE] & TYPE_ALLOCATED) || size <= UNIT || size > KDA_PAGE_SIZE - off ||
        !neighbours_agree(page, off, size))
        return false;
    memset(ret, 0, sizeof(*ret));
    ret->kind = kind;
    ret->size = (uint32_t)size;
    return true;
}

static bool keep(struct kda_kernel *kernel, const struct kda_pool_block *block)
{
    struct kda_pool *pool = kernel->pool;
    void *items = pool->blocks;
    if (pool->count >= KDA_POOL_MAX_BLOCKS) {
        if (!pool->full)
            kda_gaps_add(&kernel->gaps, "pool", 0, KDA_LIMIT, "more than %u blocks",
                         KDA_POOL_MAX_BLOCKS);
        pool->full = true;
        return true;
    }
    if (!kda_grow(&items, &pool->capacity, pool->count + 1, sizeof(*pool->blocks),
                  KDA_POOL_MAX_BLOCKS))
        return false;
    pool->blocks = items;
    pool->blocks[pool->count++] = *block;
    return true;
}

static bool scan_page(struct kda_kernel *kernel, uint64_t pa, const uint8_t *page)
{
    struct kda_pool_block block;
    for (size_t off = 0; off < KDA_PAGE_SIZE; off += UNIT) {
        uint32_t tag = kda_le32(page + off + AT_TAG) & ~TAG_PROTECTED;
        if (((tag & 0xffffffu) != TAG_ETW && tag != TAG_PROC) || !kda_pool_parse(page, off, &block))
            continue;
        block.pa = pa + off;
        if (!keep(kernel, &block))
            return false;
    }
    return true;
}

static enum kda_status scan_run(struct kda_kernel *kernel, uint8_t *buf, uint64_t start,
                                uint64_t end)
{
    uint64_t total = kda_image_info(kernel->image)->max_pa;
    for (uint64_t pa = kda_image_next_data(kernel->image, start); pa < end;) {
        uint64_t left = end - pa;
        size_t take = left < CHUNK ? (size_t)left : CHUNK;
        struct kda_error why;
        enum kda_status status = kda_image_read(kernel->image, pa, buf, take, &why);
        if (status != KDA_OK)
            kda_gaps_add(&kernel->gaps, "pool", pa, status, "not scanned: %s", why.text);
        for (size_t off = 0; status == KDA_OK && off + KDA_PAGE_SIZE <= take; off += KDA_PAGE_SIZE)
            if (!scan_page(kernel, pa + off, buf + off))
                return KDA_NO_MEMORY;
        if (kernel->options.progress &&
            !kernel->options.progress(kernel->options.context, pa, total))
            return KDA_CANCELLED;
        pa = kda_image_next_data(kernel->image, pa + take);
    }
    return KDA_OK;
}

static enum kda_status scan_memory(struct kda_kernel *kernel)
{
    enum kda_status status = KDA_OK;
    uint64_t start, size;
    uint8_t *buf = kda_calloc(CHUNK, 1);
    if (!buf)
        return KDA_NO_MEMORY;
    for (uint64_t pa = 0;
         status == KDA_OK && kda_image_next_run(kernel->image, pa, &start, &size) && size != 0;
         pa = start + size)
        status = scan_run(kernel, buf, start, start + size);
    kda_free(buf);
    return status;
}

/* ---- big pages ---- */

struct big_table {
    uint32_t entry, va_at, key_at, bytes_at;
};

static bool big_entry(struct kda_kernel *kernel, const struct big_table *table,
                      const uint8_t *entry)
{
    struct kda_pool_block block = {.big = true};
    uint64_t va = kda_le64(entry + table->va_at), bytes = kda_le64(entry + table->bytes_at);
    if (va & BIG_FREE || (va & KDA_PAGE_MASK) != 0 || !kda_is_kernel_va(kernel, va) ||
        !kind_of(kda_le32(entry + table->key_at), &block.kind) || bytes < UNIT ||
        bytes > BIG_BYTES_MAX || kda_translate(kernel, kernel->info.dtb, va, &block.pa, NULL))
        return true;
    block.va = va;
    block.size = (uint32_t)bytes;
    return keep(kernel, &block);
}

static bool big_layout(const struct kda_kernel *kernel, struct big_table *table)
{
    table->entry = kernel->layout->size[KDA_STRUCT_POOL_TRACKER_BIG_PAGES];
    table->va_at = kda_field_offset(kernel, KDA_F_POOL_TRACKER_BIG_PAGES_Va);
    table->key_at = kda_field_offset(kernel, KDA_F_POOL_TRACKER_BIG_PAGES_Key);
    table->bytes_at = kda_field_offset(kernel, KDA_F_POOL_TRACKER_BIG_PAGES_NumberOfBytes);
    return table->entry != KDA_NONE && table->entry >= 16 && table->entry <= 64 &&
           table->va_at <= table->entry - 8 && table->key_at <= table->entry - 4 &&
           table->bytes_at <= table->entry - 8;
}

/* No symbol of the layouts says how long the table is: it ends where nothing is mapped any more. */
static enum kda_status scan_big(struct kda_kernel *kernel)
{
    uint8_t page[KDA_PAGE_SIZE + 64];
    struct big_table table;
    uint64_t va, at = kda_symbol_va(kernel, KDA_SYM_PoolBigPageTable);
    size_t carried = 0; /* bytes of an entry that began in the page before */
    unsigned bad = 0;
    if (!big_layout(kernel, &table) || !kda_read_u64(kernel, at, &va) ||
        !kda_is_kernel_va(kernel, va) || (va & KDA_PAGE_MASK) != 0)
        return KDA_OK;
    for (size_t i = 0; i < BIG_PAGES_MAX && bad < BIG_BAD_MAX; i++, va += KDA_PAGE_SIZE) {
        enum kda_status status = kda_read(kernel, va, page + carried, KDA_PAGE_SIZE, NULL);
        if (status == KDA_UNMAPPED || status == KDA_LIMIT)
            break;
        /* What was carried over from a page that could not be read is no half of an entry. */
        size_t used = bad > 0 && carried > 0 ? table.entry : 0, have = carried + KDA_PAGE_SIZE;
        bad = status == KDA_OK ? 0 : bad + 1;
        for (; used + table.entry <= have; used += table.entry)
            if (status == KDA_OK && !big_entry(kernel, &table, page + used))
                return KDA_NO_MEMORY;
        carried = have - used;
        memmove(page, page + used, carried);
    }
    return KDA_OK;
}

/* ---- the blocks ---- */

bool kda_pool_carving(const struct kda_kernel *kernel)
{
    return kernel->options.carve;
}

static enum kda_status carve(struct kda_kernel *kernel)
{
    enum kda_status status = scan_memory(kernel);
    if (status != KDA_OK)
        return status;
    kda_pool_map(kernel);
    return scan_big(kernel);
}

enum kda_status kda_pool_blocks(struct kda_kernel *kernel, const struct kda_pool_block **ret,
                                size_t *count, struct kda_error *err)
{
    *ret = NULL;
    *count = 0;
    if (!kernel->options.carve)
        return KDA_OK;
    if (!kernel->layout)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "symbols are not loaded");
    if (!kernel->pool) {
        kernel->pool = kda_calloc(1, sizeof(*kernel->pool));
        enum kda_status status = kernel->pool ? carve(kernel) : KDA_NO_MEMORY;
        if (status != KDA_OK) {
            kda_pool_free(kernel);
            return kda_fail(err, status, "kernel", "%s",
                            status == KDA_CANCELLED ? "cancelled while scanning for pool blocks"
                                                    : "out of memory for pool blocks");
        }
    }
    *ret = kernel->pool->blocks;
    *count = kernel->pool->count;
    return KDA_OK;
}

void kda_pool_free(struct kda_kernel *kernel)
{
    if (!kernel->pool)
        return;
    kda_free(kernel->pool->blocks);
    kda_free(kernel->pool);
    kernel->pool = NULL;
}

const char *kda_pool_lacks(const struct kda_kernel *kernel, enum kda_pool_kind kind)
{
    return kernel->pool ? kernel->pool->lacks[kind] : "the ETW state, from which the scan begins,";
}

void kda_pool_set_lacks(struct kda_kernel *kernel, enum kda_pool_kind kind, const char *what)
{
    if (kernel->pool)
        kernel->pool->lacks[kind] = what;
}
