/*
 * own.c - the bytes of a profile file.
 *
 * Offsets of neighbouring fields follow each other and most sizes are 1, 2, 4, 8 or 16, so that a
 * field mostly takes one byte: three bits for the size, five for the distance from the end of the
 * field before it. Ids are positions in the lists of kda/fields.h; a checksum over the names of
 * those lists says whether writer and reader mean the same.
 */
#include "own.h"

#include <stdio.h>
#include <string.h>

#include "bytes.h"
#include "store.h"

#define MAGIC "KDAPROF"
#define VERSION 1u
#define CHECKED_FROM 20u /* what the checksum in front of it covers */
#define MAX_STRUCT 0x1000000u
#define MAX_RVA 0x8000000u /* no kernel is larger */
#define FLAG_PE 1u

enum tag { ABSENT, SIZE_1, SIZE_2, SIZE_4, SIZE_8, SIZE_16, SIZE_OTHER, BITS };
static const uint8_t tag_sizes[] = {0, 1, 2, 4, 8, 16};
#define NEAR 31u /* distances below it are in the tag */

/* CRC-32 as in zlib and PNG, four bits at a time. */
static uint32_t crc32_of(uint32_t crc, const void *bytes, size_t size)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac,
                                       0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                       0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    const uint8_t *p = bytes;
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static uint32_t names_crc(void)
{
    uint32_t crc = 0;
    for (unsigned i = 0; i < KDA_SYM_COUNT; i++) {
        const char *name = kda_symbol_name((enum kda_symbol_id)i);
        crc = crc32_of(crc, name, strlen(name) + 1);
    }
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
        const char *name = kda_field_name((enum kda_field_id)i);
        crc = crc32_of(crc, name, strlen(name) + 1);
    }
    return crc;
}

/* ---- what a layout must fulfil to be stored or believed ---- */

static bool field_ok(const struct kda_field *field, uint32_t end)
{
    if (field->offset == KDA_NONE)
        return field->size == 0 && field->bit == 0 && field->bits == 0;
    uint32_t limit = end == KDA_NONE ? MAX_STRUCT : end;
    if (field->offset > limit || field->size > limit - field->offset)
        return false;
    return field->bits == 0 ? field->bit == 0
                            : field->size == kda_bit_unit(field->bit, field->bits);
}

static bool layout_ok(const struct kda_layout *layout, const struct kda_kernel_id *id)
{
    uint32_t end = id->has_pe && id->pe_size < MAX_RVA ? id->pe_size : MAX_RVA;
    for (unsigned i = 0; i < KDA_SYM_COUNT; i++)
        if (layout->rva[i] != KDA_NONE && layout->rva[i] >= end)
            return false;
    for (unsigned i = 0; i < KDA_STRUCT_COUNT; i++)
        if (layout->size[i] != KDA_NONE && layout->size[i] > MAX_STRUCT)
            return false;
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++)
        if (!field_ok(&layout->field[i], layout->size[kda_field_struct((enum kda_field_id)i)]))
            return false;
    return true;
}

/* ---- writing ---- */

struct sink {
    uint8_t *bytes;
    size_t size, cap;
    bool full;
};

static void put_bytes(struct sink *s, const void *bytes, size_t size)
{
    if (size > s->cap - s->size) {
        s->full = true;
        return;
    }
    memcpy(s->bytes + s->size, bytes, size);
    s->size += size;
}

static void put8(struct sink *s, unsigned value)
{
    uint8_t byte = (uint8_t)value;
    put_bytes(s, &byte, 1);
}

static void put32(struct sink *s, uint32_t value)
{
    uint8_t word[4];
    kda_put_le32(word, value);
    put_bytes(s, word, sizeof(word));
}

/* Seven bits a byte, the lowest first. */
static void put_number(struct sink *s, uint32_t value)
{
    for (; value >= 0x80; value >>= 7)
        put8(s, (value & 0x7f) | 0x80);
    put8(s, value);
}

static void put_text(struct sink *s, const char *text)
{
    size_t size = strlen(text);
    put8(s, (unsigned)size);
    put_bytes(s, text, size);
}

/* KDA_NONE becomes 0. */
static void put_places(struct sink *s, const uint32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_number(s, values[i] == KDA_NONE ? 0 : values[i] + 1);
}

static enum tag tag_of(const struct kda_field *field)
{
    if (field->offset == KDA_NONE)
        return ABSENT;
    if (field->bits != 0)
        return BITS;
    for (unsigned tag = SIZE_1; tag <= SIZE_16; tag++)
        if (tag_sizes[tag] == field->size)
            return (enum tag)tag;
    return SIZE_OTHER;
}

/* Distances go both ways: 0, -1, 1, -2, ... as 0, 1, 2, 3, ... */
static void put_field(struct sink *s, const struct kda_field *field, uint32_t *at)
{
    enum tag tag = tag_of(field);
    if (tag == ABSENT) {
        put8(s, ABSENT);
        return;
    }
    uint32_t off = field->offset;
    uint32_t distance = off >= *at ? (off - *at) * 2 : (*at - off) * 2 - 1;
    put8(s, (unsigned)tag | (distance < NEAR ? distance : NEAR) << 3);
    if (distance >= NEAR)
        put_number(s, distance - NEAR);
    if (tag == SIZE_OTHER)
        put_number(s, field->size);
    if (tag == BITS) {
        put8(s, field->bit);
        put8(s, field->bits);
    }
    *at = off + (tag == BITS ? 0u : field->size);
}

static void put_fields(struct sink *s, const struct kda_layout *layout)
{
    uint32_t at = 0;
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
        enum kda_struct_id type = kda_field_struct((enum kda_field_id)i);
        if (i == 0 || type != kda_field_struct((enum kda_field_id)(i - 1)))
            at = 0;
        put_field(s, &layout->field[i], &at);
    }
}

enum kda_status kda_own_encode(const struct kda_own *own, uint8_t *out, size_t cap, size_t *size,
                               struct kda_error *err)
{
    const struct kda_kernel_id *id = &own->id;
    if (!id->has_pdb || !kda_store_name_ok(id->pdb_name))
        return kda_fail(err, KDA_BAD_DATA, "symbols", "a profile needs the name of its PDB");
    if (!layout_ok(&own->layout, id))
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "the layout of %s contradicts itself; it is not kept", id->pdb_name);
    struct sink s = {.bytes = out, .cap = cap};
    put_bytes(&s, MAGIC, 8);
    put32(&s, VERSION);
    put32(&s, 0); /* size and checksum follow at the end */
    put32(&s, 0);
    put32(&s, names_crc());
    put_bytes(&s, id->pdb_guid, 16);
    put32(&s, id->pdb_age);
    put8(&s, id->has_pe ? FLAG_PE : 0);
    if (id->has_pe) {
        put32(&s, id->pe_timestamp);
        put32(&s, id->pe_size);
    }
    put_text(&s, id->pdb_name);
    put_text(&s, own->source);
    put_places(&s, own->layout.rva, KDA_SYM_COUNT);
    put_places(&s, own->layout.size, KDA_STRUCT_COUNT);
    put_fields(&s, &own->layout);
    if (s.full)
        return kda_fail(err, KDA_LIMIT, "symbols", "a profile has more than %zu bytes", cap);
    kda_put_le32(out + 12, (uint32_t)s.size);
    kda_put_le32(out + 16, crc32_of(0, out + CHECKED_FROM, s.size - CHECKED_FROM));
    *size = s.size;
    return KDA_OK;
}

/* ---- reading ---- */

static uint32_t take_number(struct kda_cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        uint8_t byte = kda_take8(c);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            c->failed = c->failed || value > UINT32_MAX;
            return (uint32_t)value;
        }
    }
    c->failed = true;
    return 0;
}

static void take_text(struct kda_cursor *c, char *out, size_t cap)
{
    size_t size = kda_take8(c);
    const uint8_t *text = kda_take(c, size);
    if (!text || size >= cap || memchr(text, 0, size)) {
        c->failed = true;
        return;
    }
    memcpy(out, text, size);
    out[size] = '\0';
}

static void take_places(struct kda_cursor *c, uint32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t value = take_number(c);
        values[i] = value ? value - 1 : KDA_NONE;
    }
}

static void take_field(struct kda_cursor *c, struct kda_field *field, uint32_t *at)
{
    unsigned byte = kda_take8(c), tag = byte & 7;
    if (tag == ABSENT) {
        c->failed = c->failed || byte != ABSENT;
        return;
    }
    uint32_t distance = byte >> 3;
    if (distance == NEAR) {
        uint32_t more = take_number(c);
        c->failed = c->failed || more > MAX_STRUCT * 4;
        distance += more;
    }
    if (c->failed)
        return;
    uint32_t off = distance & 1 ? *at - (distance / 2 + 1) : *at + distance / 2;
    uint32_t size = tag == SIZE_OTHER ? take_number(c) : tag < SIZE_OTHER ? tag_sizes[tag] : 0;
    if (off > MAX_STRUCT || size > UINT16_MAX) { /* also below 0, which wraps */
        c->failed = true;
        return;
    }
    *field = (struct kda_field){off, (uint16_t)size, 0, 0};
    if (tag == BITS) {
        field->bit = kda_take8(c);
        field->bits = kda_take8(c);
        field->size = kda_bit_unit(field->bit, field->bits);
        c->failed = c->failed || field->size == 0;
    }
    *at = off + size;
}

static void take_fields(struct kda_cursor *c, struct kda_layout *layout)
{
    uint32_t at = 0;
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
        enum kda_struct_id type = kda_field_struct((enum kda_field_id)i);
        if (i == 0 || type != kda_field_struct((enum kda_field_id)(i - 1)))
            at = 0;
        take_field(c, &layout->field[i], &at);
    }
}

static void take_id(struct kda_cursor *c, struct kda_kernel_id *id)
{
    const uint8_t *guid = kda_take(c, 16);
    if (guid)
        memcpy(id->pdb_guid, guid, 16);
    id->has_pdb = true;
    id->pdb_age = kda_take32(c);
    unsigned flags = kda_take8(c);
    c->failed = c->failed || flags > FLAG_PE;
    if (flags & FLAG_PE) {
        id->has_pe = true;
        id->pe_timestamp = kda_take32(c);
        id->pe_size = kda_take32(c);
    }
    take_text(c, id->pdb_name, sizeof(id->pdb_name));
}

/* Magic, version, size, checksum, list of names: in the order in which each explains the next. */
static enum kda_status check_head(const uint8_t *bytes, size_t size, const char *name,
                                  struct kda_error *err)
{
    if (size < CHECKED_FROM + 4 || memcmp(bytes, MAGIC, 8) != 0)
        return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\" is not a profile", name);
    uint32_t version = kda_le32(bytes + 8), length = kda_le32(bytes + 12);
    if (version != VERSION)
        return kda_fail(err, KDA_UNSUPPORTED, "symbols",
                        "\"%s\" has version %u of the format, this kda reads %u; add its PDB again",
                        name, (unsigned)version, VERSION);
    if (length != size)
        return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\" is cut: %zu of %u bytes", name, size,
                        (unsigned)length);
    if (kda_le32(bytes + 16) != crc32_of(0, bytes + CHECKED_FROM, size - CHECKED_FROM))
        return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\" is damaged: its checksum differs",
                        name);
    if (kda_le32(bytes + CHECKED_FROM) != names_crc())
        return kda_fail(err, KDA_UNSUPPORTED, "symbols",
                        "\"%s\" was made by a kda with another list of fields; add its PDB again",
                        name);
    return KDA_OK;
}

enum kda_status kda_own_decode(const uint8_t *bytes, size_t size, const char *name,
                               struct kda_own *ret, struct kda_error *err)
{
    struct kda_own own = {.source = ""};
    enum kda_status status = check_head(bytes, size, name, err);
    if (status != KDA_OK)
        return status;
    kda_layout_clear(&own.layout);
    struct kda_cursor c = kda_cursor_make(bytes, size);
    (void)kda_seek(&c, CHECKED_FROM + 4);
    take_id(&c, &own.id);
    take_text(&c, own.source, sizeof(own.source));
    take_places(&c, own.layout.rva, KDA_SYM_COUNT);
    take_places(&c, own.layout.size, KDA_STRUCT_COUNT);
    take_fields(&c, &own.layout);
    bool source_ok = strcmp(own.source, "pdb") == 0 || strcmp(own.source, "isf") == 0;
    if (c.failed || kda_cursor_left(&c) != 0 || !source_ok || !kda_store_name_ok(own.id.pdb_name) ||
        !layout_ok(&own.layout, &own.id))
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "\"%s\" is damaged: its content contradicts itself", name);
    *ret = own;
    return KDA_OK;
}
