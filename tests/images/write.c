#include "forge_int.h"

#include "text.h"

static bool in_kernel(const struct forge *f, uint64_t va)
{
    return f->truth.base != 0 && va >= f->truth.base && va - f->truth.base < f->truth.id.pe_size;
}

void put_bytes(struct forge *f, uint64_t va, const void *bytes, size_t size)
{
    put_bytes_in(f, f->root, va, bytes, size);
}

void put_bytes_in(struct forge *f, uint64_t root, uint64_t va, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    while (size > 0 && forge_ok(f)) {
        uint64_t pa = 0;
        if (!translate_in(f, root, va, &pa)) {
            /* A sparse kernel has only the pages that something stands in. */
            if (f->opt.pages != KERNEL_SPARSE || !in_kernel(f, va)) {
                forge_fail(f, KDA_BAD_DATA, "writing to unmapped address 0x%llx",
                           (unsigned long long)va);
                return;
            }
            map_page(f, f->root, va & ~(uint64_t)(PAGE - 1), phys_page(f));
            continue;
        }
        size_t room = PAGE - (size_t)(va % PAGE);
        size_t part = size < room ? size : room;
        uint8_t *page = phys_bytes(f, pa / PAGE);
        if (!page)
            return;
        memcpy(page + pa % PAGE, from, part);
        va += part;
        from += part;
        size -= part;
    }
}

bool get_bytes(struct forge *f, uint64_t va, void *bytes, size_t size)
{
    uint8_t *to = bytes;
    while (size > 0) {
        uint64_t pa = 0;
        if (!translate(f, va, &pa))
            return false;
        size_t room = PAGE - (size_t)(va % PAGE);
        size_t part = size < room ? size : room;
        const uint8_t *page = phys_peek(f, pa / PAGE);
        if (page)
            memcpy(to, page + pa % PAGE, part);
        else
            memset(to, 0, part);
        va += part;
        to += part;
        size -= part;
    }
    return true;
}

void put8(struct forge *f, uint64_t va, uint8_t v)
{
    put_bytes(f, va, &v, 1);
}

void put16(struct forge *f, uint64_t va, uint16_t v)
{
    uint8_t b[2];
    kda_put_le16(b, v);
    put_bytes(f, va, b, sizeof(b));
}

void put32(struct forge *f, uint64_t va, uint32_t v)
{
    uint8_t b[4];
    kda_put_le32(b, v);
    put_bytes(f, va, b, sizeof(b));
}

void put64(struct forge *f, uint64_t va, uint64_t v)
{
    uint8_t b[8];
    kda_put_le64(b, v);
    put_bytes(f, va, b, sizeof(b));
}

uint64_t get64(struct forge *f, uint64_t va)
{
    uint8_t b[8] = {0};
    if (!get_bytes(f, va, b, sizeof(b)))
        forge_fail(f, KDA_BAD_DATA, "reading unmapped address 0x%llx", (unsigned long long)va);
    return kda_le64(b);
}

bool has(const struct forge *f, enum kda_field_id field)
{
    return f->layout.field[field].offset != KDA_NONE;
}

uint64_t at(const struct forge *f, uint64_t object, enum kda_field_id field)
{
    return object && has(f, field) ? object + f->layout.field[field].offset : 0;
}

uint32_t size_of(const struct forge *f, enum kda_struct_id id, uint32_t other)
{
    uint32_t size = f->layout.size[id];
    return size == KDA_NONE || size == 0 ? other : size;
}

void put(struct forge *f, uint64_t object, enum kda_field_id field, unsigned width, uint64_t v)
{
    const struct kda_field *place = &f->layout.field[field];
    if (place->offset == KDA_NONE || !forge_ok(f))
        return;
    if (place->size >= 1 && place->size <= 8)
        width = place->size;
    uint8_t b[8] = {0};
    uint64_t va = object + place->offset;
    if (place->bits != 0) {
        if (!get_bytes(f, va, b, width))
            return;
        uint64_t mask = place->bits >= 64 ? UINT64_MAX : ((uint64_t)1 << place->bits) - 1;
        uint64_t old = kda_le64(b) & ~(mask << place->bit);
        v = old | (v & mask) << place->bit;
    }
    kda_put_le64(b, v);
    put_bytes(f, va, b, width);
}

void put_field_bytes(struct forge *f, uint64_t object, enum kda_field_id field, const void *bytes,
                     size_t size)
{
    if (has(f, field))
        put_bytes(f, object + f->layout.field[field].offset, bytes, size);
}

uint64_t symbol(const struct forge *f, enum kda_symbol_id id)
{
    uint32_t rva = f->layout.rva[id];
    return rva == KDA_NONE ? 0 : f->truth.base + rva;
}

static void pool_map_to(struct forge *f, struct pool_state *pool, uint64_t end)
{
    for (; pool->mapped < end && forge_ok(f); pool->mapped += PAGE)
        map_page(f, f->root, pool->mapped, phys_page(f));
}

static void pool_header(struct forge *f, uint64_t va, uint64_t size, const char tag[4])
{
    put(f, va, F(POOL_HEADER, BlockSize), 1, size / 16);
    put(f, va, F(POOL_HEADER, PoolType), 1, 2);
    put_field_bytes(f, va, F(POOL_HEADER, PoolTag), tag, 4);
}

/* Blocks up to a page have a header with the tag in front; bigger ones start on a page and have
 * none, as in the real pool. `alone` gives a block its own pages, so that a hole in it takes
 * nothing else along. */
uint64_t pool_alloc(struct forge *f, enum pool which, uint64_t size, const char tag[4], bool alone)
{
    struct pool_state *pool = &f->pool[which];
    uint64_t block = 16 + ((size + 15) & ~(uint64_t)15);
    bool headless = f->opt.big_tag && memcmp(tag, f->opt.big_tag, 4) == 0;
    bool big = block > PAGE || headless;
    if (!forge_ok(f))
        return 0;
    uint64_t room = PAGE - pool->next % PAGE;
    if ((big || alone || block > room) && pool->next % PAGE != 0)
        pool->next += room;
    uint64_t va = pool->next;
    pool->next += big ? (size + PAGE - 1) / PAGE * PAGE : block;
    if (alone)
        pool->next = (pool->next + PAGE - 1) / PAGE * PAGE;
    pool_map_to(f, pool, pool->next);
    if (big && f->opt.big_tag && f->big_count < FORGE_MAX_BIGS) {
        f->bigs[f->big_count] = (struct big_block){.va = va, .size = size};
        memcpy(f->bigs[f->big_count++].tag, tag, 4);
    }
    if (big)
        return va;
    pool_header(f, va, block, tag);
    return va + 16;
}

static size_t decode(const uint8_t *p, uint32_t *cp)
{
    /* The scenario parser let only valid UTF-8 and three-byte surrogates in. */
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    if (p[0] < 0xe0) {
        *cp = (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3fu);
        return 2;
    }
    if (p[0] < 0xf0) {
        *cp = (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3fu);
        return 3;
    }
    *cp = (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
          (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3fu);
    return 4;
}

/* Number of UTF-16 units; bytes in the arena, with a NUL unit behind them. */
size_t text_to_utf16(struct forge *f, const char *text, uint8_t **ret)
{
    size_t length = strlen(text);
    uint8_t *out = kda_arena_alloc(&f->arena, 2 * length + 2);
    if (!out) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return 0;
    }
    const uint8_t *p = (const uint8_t *)text;
    size_t units = 0;
    while (*p) {
        uint32_t cp = 0;
        p += decode(p, &cp);
        if (cp >= 0x10000) {
            kda_put_le16(out + 2 * units++, (uint16_t)(0xd800 + ((cp - 0x10000) >> 10)));
            cp = 0xdc00 + ((cp - 0x10000) & 0x3ff);
        }
        kda_put_le16(out + 2 * units++, (uint16_t)cp);
    }
    *ret = out;
    return units;
}

uint64_t put_string(struct forge *f, uint64_t va, const char *text, bool alone)
{
    uint8_t *bytes = NULL;
    size_t units = text_to_utf16(f, text, &bytes);
    if (!forge_ok(f) || units == 0)
        return 0;
    uint64_t buffer = pool_alloc(f, POOL_PAGED, 2 * units + 2, "EtwS", alone);
    put_bytes(f, buffer, bytes, 2 * units + 2);
    put(f, va, F(UNICODE_STRING, Length), 2, 2 * units);
    put(f, va, F(UNICODE_STRING, MaximumLength), 2, 2 * units + 2);
    put(f, va, F(UNICODE_STRING, Buffer), 8, buffer);
    return buffer;
}

void list_init(struct forge *f, uint64_t head)
{
    if (!head)
        return;
    put(f, head, F(LIST_ENTRY, Flink), 8, head);
    put(f, head, F(LIST_ENTRY, Blink), 8, head);
}

void list_append(struct forge *f, uint64_t head, uint64_t node)
{
    if (!head || !node || !forge_ok(f))
        return;
    uint64_t last = get64(f, at(f, head, F(LIST_ENTRY, Blink)));
    put(f, node, F(LIST_ENTRY, Flink), 8, head);
    put(f, node, F(LIST_ENTRY, Blink), 8, last);
    put(f, last, F(LIST_ENTRY, Flink), 8, node);
    put(f, head, F(LIST_ENTRY, Blink), 8, node);
}
