#include "plain_view.h"

#include <string.h>

static uint64_t load(const uint8_t *p, unsigned width)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < width; i++)
        v |= (uint64_t)p[i] << 8 * i;
    return v;
}

bool plain_translate(const struct plain_view *v, uint64_t va, uint64_t *pa)
{
    uint64_t table = v->root;
    for (int shift = v->la57 ? 48 : 39; shift >= 12; shift -= 9) {
        uint64_t at = table + (va >> shift & 511) * 8;
        if (at + 8 > v->size)
            return false;
        uint64_t entry = load(v->bytes + at, 8);
        bool transition = (entry & 0xc01) == 0x800;
        if (!(entry & 1) && !transition)
            return false;
        table = entry & 0x000ffffffffff000u;
        if ((entry & 0x81) == 0x81 && (shift == 30 || shift == 21)) {
            uint64_t mask = ((uint64_t)1 << shift) - 1;
            *pa = (table & ~mask) | (va & mask);
            return true;
        }
    }
    *pa = table | (va & 4095);
    return true;
}

bool plain_read(const struct plain_view *v, uint64_t va, void *out, size_t size)
{
    uint8_t *to = out;
    for (size_t i = 0; i < size; i++) {
        uint64_t pa;
        if (!plain_translate(v, va + i, &pa) || pa >= v->size)
            return false;
        to[i] = v->bytes[pa];
    }
    return true;
}

uint64_t plain_u64(const struct plain_view *v, uint64_t va)
{
    uint8_t b[8];
    return plain_read(v, va, b, 8) ? load(b, 8) : 0;
}

uint64_t plain_field(const struct plain_view *v, uint64_t object, enum kda_field_id field,
                     unsigned width)
{
    const struct kda_field *f = &v->layout.field[field];
    uint8_t b[8];
    if (f->offset == KDA_NONE)
        return 0;
    if (f->size >= 1 && f->size <= 8)
        width = f->size;
    if (!plain_read(v, object + f->offset, b, width))
        return 0;
    uint64_t value = load(b, width);
    if (f->bits)
        value = value >> f->bit & (((uint64_t)1 << f->bits) - 1);
    return value;
}

uint64_t plain_symbol(const struct plain_view *v, enum kda_symbol_id id)
{
    return v->layout.rva[id] == KDA_NONE ? 0 : v->base + v->layout.rva[id];
}

bool plain_string(const struct plain_view *v, uint64_t va, char *out, size_t cap)
{
    uint8_t head[16], unit[2];
    if (!plain_read(v, va, head, sizeof(head)))
        return false;
    size_t units = (size_t)load(head, 2) / 2;
    uint64_t buffer = load(head + 8, 8);
    if (units >= cap)
        return false;
    for (size_t i = 0; i < units; i++) {
        if (!plain_read(v, buffer + 2 * i, unit, 2))
            return false;
        out[i] = unit[1] == 0 && unit[0] < 0x80 ? (char)unit[0] : '?';
    }
    out[units] = '\0';
    return true;
}

long plain_ring(const struct plain_view *v, uint64_t head, uint64_t *nodes, size_t cap)
{
    uint64_t before = head, at = plain_u64(v, head);
    long count = 0;
    while (at != head) {
        if (at == 0 || count >= 100000 || plain_u64(v, at + 8) != before)
            return -1;
        if (nodes && (size_t)count < cap)
            nodes[count] = at;
        before = at;
        at = plain_u64(v, at);
        count++;
    }
    return plain_u64(v, head + 8) == before ? count : -1;
}

uint64_t plain_handle(const struct plain_view *v, uint64_t table, uint64_t handle)
{
    uint64_t code = plain_field(v, table, KDA_F_HANDLE_TABLE_TableCode, 8);
    uint64_t page = code & ~(uint64_t)7, index = handle / 4;
    uint64_t span[3] = {1, 256, 256 * 512};
    for (unsigned level = (unsigned)(code & 3); level > 0; level--) {
        page = plain_u64(v, page + index / span[level] * 8);
        index %= span[level];
    }
    uint8_t entry[16];
    if (page == 0 || index >= 256 || !plain_read(v, page + index * 16, entry, sizeof(entry)))
        return 0;
    uint64_t low = load(entry, 8);
    if (v->layout.field[KDA_F_HANDLE_TABLE_ENTRY_ObjectPointerBits].offset == KDA_NONE)
        return low & ~(uint64_t)7;
    return low >> 20 ? low >> 20 << 4 | 0xffff000000000000u : 0;
}

bool plain_type_name(const struct plain_view *v, uint64_t header, char *out, size_t cap)
{
    uint64_t index = plain_field(v, header, KDA_F_OBJECT_HEADER_TypeIndex, 1);
    uint64_t cookie = plain_symbol(v, KDA_SYM_ObHeaderCookie);
    if (cookie)
        index ^= (plain_u64(v, cookie) & 0xff) ^ (header >> 8 & 0xff);
    uint64_t type = plain_u64(v, plain_symbol(v, KDA_SYM_ObTypeIndexTable) + 8 * index);
    return type && plain_string(v, type + v->layout.field[KDA_F_OBJECT_TYPE_Name].offset, out, cap);
}

uint64_t plain_find_root(const uint8_t *bytes, size_t size)
{
    for (size_t page = 0x1000; page < 0x100000 && page + 4096 <= size; page += 4096)
        if ((load(bytes + page, 8) & 0xffffffffffff00ffu) == 0x00000001000600e9u)
            return load(bytes + page + 0xa0, 8) & ~(uint64_t)4095;
    for (size_t page = 0x100000; page + 4096 <= size; page += 4096)
        for (size_t i = 0x100; i < 0x1ff; i++)
            if ((load(bytes + page + 8 * i, 8) & 0x000ffffffffff0ffu) == (page | 0x63))
                return page;
    return 0;
}
