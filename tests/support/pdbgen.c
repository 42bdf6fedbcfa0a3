#include "pdbgen.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

void bytes_put8(struct bytes *b, unsigned v)
{
    if (b->size == b->capacity) {
        b->capacity = b->capacity ? b->capacity * 2 : 256;
        b->data = realloc(b->data, b->capacity);
        if (!b->data)
            abort();
    }
    b->data[b->size++] = (uint8_t)v;
}

void bytes_put16(struct bytes *b, unsigned v)
{
    bytes_put8(b, v & 0xff);
    bytes_put8(b, v >> 8 & 0xff);
}

void bytes_put32(struct bytes *b, uint32_t v)
{
    bytes_put16(b, v & 0xffff);
    bytes_put16(b, v >> 16);
}

void put_text(struct bytes *b, const char *text)
{
    do
        bytes_put8(b, (unsigned char)*text);
    while (*text++);
}

void put_zeros(struct bytes *b, size_t count)
{
    while (count-- > 0)
        bytes_put8(b, 0);
}

void put_all(struct bytes *b, const struct bytes *other)
{
    for (size_t i = 0; i < other->size; i++)
        bytes_put8(b, other->data[i]);
}

void bytes_free(struct bytes *b)
{
    free(b->data);
    *b = (struct bytes){0};
}

/* ---- container ---- */

struct layout {
    uint32_t block_size, next, last;
    int backwards;
    uint8_t *file;
};

static uint32_t take_block(struct layout *l)
{
    return l->backwards ? l->last-- : l->next++;
}

/* Copies bytes into fresh blocks and notes their numbers. */
static void place(struct layout *l, const struct bytes *from, struct bytes *numbers)
{
    for (size_t off = 0; off < from->size; off += l->block_size) {
        size_t size = from->size - off < l->block_size ? from->size - off : l->block_size;
        uint32_t block = take_block(l);
        memcpy(l->file + (size_t)block * l->block_size, from->data + off, size);
        bytes_put32(numbers, block);
    }
}

void pdbgen_container(const struct bytes *streams, size_t count, uint32_t block_size, int backwards,
                      struct bytes *ret)
{
    struct bytes directory = {0}, numbers = {0}, map = {0}, map_numbers = {0};
    size_t blocks = 3; /* header and two free maps */
    bytes_put32(&directory, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        bytes_put32(&directory, (uint32_t)streams[i].size);
        blocks += (streams[i].size + block_size - 1) / block_size;
    }
    size_t directory_size = directory.size + (blocks - 3) * 4;
    size_t directory_blocks = (directory_size + block_size - 1) / block_size;
    blocks += directory_blocks + (directory_blocks * 4 + block_size - 1) / block_size;
    struct layout l = {block_size, 3, (uint32_t)blocks - 1, backwards, NULL};
    l.file = calloc(blocks, block_size);
    if (!l.file)
        abort();
    for (size_t i = 0; i < count; i++)
        place(&l, &streams[i], &numbers);
    put_all(&directory, &numbers);
    place(&l, &directory, &map);
    place(&l, &map, &map_numbers);
    memcpy(l.file,
           "Microsoft C/C++ MSF 7.00\r\n\x1a"
           "DS\0\0",
           32);
    kda_put_le32(l.file + 0x20, block_size);
    kda_put_le32(l.file + 0x24, 1);
    kda_put_le32(l.file + 0x28, (uint32_t)blocks);
    kda_put_le32(l.file + 0x2c, (uint32_t)directory.size);
    memcpy(l.file + 0x34, map_numbers.data, map_numbers.size);
    *ret = (struct bytes){l.file, blocks * block_size, blocks * block_size};
    bytes_free(&directory);
    bytes_free(&numbers);
    bytes_free(&map);
    bytes_free(&map_numbers);
}

/* ---- types ---- */

uint32_t tpi_add(struct tpi *tpi, unsigned kind, const struct bytes *body)
{
    if (tpi->next == 0)
        tpi->next = 0x1000;
    size_t size = 2 + body->size, padding = (4 - (size + 2) % 4) % 4;
    bytes_put16(&tpi->records, (unsigned)(size + padding));
    bytes_put16(&tpi->records, kind);
    put_all(&tpi->records, body);
    for (; padding > 0; padding--)
        bytes_put8(&tpi->records, 0xf0 + (unsigned)padding);
    return tpi->next++;
}

void tpi_finish(struct tpi *tpi, struct bytes *ret)
{
    bytes_put32(ret, 20040203);
    bytes_put32(ret, 56);
    bytes_put32(ret, 0x1000);
    bytes_put32(ret, tpi->next ? tpi->next : 0x1000);
    bytes_put32(ret, (uint32_t)tpi->records.size);
    put_zeros(ret, 36);
    put_all(ret, &tpi->records);
    bytes_free(&tpi->records);
}

static void put_number(struct bytes *b, uint32_t v)
{
    if (v >= 0x8000) {
        bytes_put16(b, 0x8004);
        bytes_put32(b, v);
    } else {
        bytes_put16(b, v);
    }
}

void put_member(struct bytes *list, uint32_t type, uint32_t offset, const char *name)
{
    bytes_put16(list, 0x150d);
    bytes_put16(list, 3);
    bytes_put32(list, type);
    put_number(list, offset);
    put_text(list, name);
    for (size_t padding = (4 - (list->size + 2) % 4) % 4; padding > 0; padding--)
        bytes_put8(list, 0xf0 + (unsigned)padding);
}

uint32_t tpi_struct(struct tpi *tpi, unsigned kind, uint32_t fields, uint32_t size,
                    const char *name, unsigned properties)
{
    struct bytes body = {0};
    bytes_put16(&body, 1);
    bytes_put16(&body, properties);
    bytes_put32(&body, fields);
    if (kind != 0x1506)
        put_zeros(&body, 8);
    put_number(&body, size);
    put_text(&body, name);
    uint32_t index = tpi_add(tpi, kind, &body);
    bytes_free(&body);
    return index;
}

uint32_t tpi_array(struct tpi *tpi, uint32_t element, uint32_t size)
{
    struct bytes body = {0};
    bytes_put32(&body, element);
    bytes_put32(&body, 0x23);
    put_number(&body, size);
    put_text(&body, "");
    uint32_t index = tpi_add(tpi, 0x1503, &body);
    bytes_free(&body);
    return index;
}

uint32_t tpi_bits(struct tpi *tpi, uint32_t base, unsigned bit, unsigned bits)
{
    struct bytes body = {0};
    bytes_put32(&body, base);
    bytes_put8(&body, bits);
    bytes_put8(&body, bit);
    uint32_t index = tpi_add(tpi, 0x1205, &body);
    bytes_free(&body);
    return index;
}

/* ---- other streams ---- */

void pdbgen_info(struct bytes *ret, const uint8_t guid[16], uint32_t age)
{
    bytes_put32(ret, 20000404);
    bytes_put32(ret, 0x12345678);
    bytes_put32(ret, age);
    for (size_t i = 0; i < 16; i++)
        bytes_put8(ret, guid[i]);
}

void pdbgen_dbi(struct bytes *ret, const struct pdbgen_dbi *dbi)
{
    unsigned list[11];
    for (size_t i = 0; i < 11; i++)
        list[i] = 0xffff;
    list[4] = dbi->omap;
    list[5] = dbi->sections;
    list[10] = dbi->original_sections;
    bytes_put32(ret, UINT32_MAX);
    bytes_put32(ret, 19990903);
    bytes_put32(ret, dbi->age);
    bytes_put16(ret, 0xffff);
    bytes_put16(ret, 0);
    bytes_put16(ret, 0xffff);
    bytes_put16(ret, 0);
    bytes_put16(ret, dbi->symbols);
    bytes_put16(ret, 0);
    bytes_put32(ret, 8); /* one piece before the list, so that its size counts */
    put_zeros(ret, 20);
    bytes_put32(ret, sizeof(list) / sizeof(list[0]) * 2);
    put_zeros(ret, 12);
    put_zeros(ret, 8);
    for (size_t i = 0; i < 11; i++)
        bytes_put16(ret, list[i]);
}

void put_section(struct bytes *ret, uint32_t rva)
{
    put_zeros(ret, 12);
    bytes_put32(ret, rva);
    put_zeros(ret, 24);
}

void put_symbol(struct bytes *ret, unsigned kind, unsigned segment, uint32_t offset,
                const char *name)
{
    size_t size = 2 + 4 + 4 + 2 + strlen(name) + 1, padding = (4 - (size + 2) % 4) % 4;
    bytes_put16(ret, (unsigned)(size + padding));
    bytes_put16(ret, kind);
    bytes_put32(ret, 0);
    bytes_put32(ret, offset);
    bytes_put16(ret, segment);
    put_text(ret, name);
    put_zeros(ret, padding);
}
