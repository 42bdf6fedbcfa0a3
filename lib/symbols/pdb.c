/* Identity and globals of a PDB. */
#include "pdb.h"

#include <string.h>

#include "alloc.h"
#include "bytes.h"
#include "handle.h"
#include "lookup.h"

enum { STREAM_PDB = 1, STREAM_DBI = 3 };

#define PDB_VC70 20000404u /* first version with a GUID */
#define DBI_HEADER 64u
#define DBI_VC70 19990903u
/* Places in the list of optional streams. */
enum { DEBUG_OMAP_FROM_SOURCE = 4, DEBUG_SECTIONS = 5, DEBUG_SECTIONS_ORIGINAL = 10, DEBUG_USED };

#define SECTION_HEADER 40u
#define MAX_SECTIONS 65535u

enum { S_LDATA32 = 0x110c, S_GDATA32 = 0x110d, S_PUB32 = 0x110e };

static enum kda_status read_info(struct kda_msf *msf, uint8_t guid[16], uint32_t *age,
                                 struct kda_error *err)
{
    uint8_t info[28];
    enum kda_status status = kda_msf_read(msf, STREAM_PDB, 0, info, sizeof(info), err);
    if (status != KDA_OK)
        return status;
    if (kda_le32(info) < PDB_VC70)
        return kda_fail(err, KDA_UNSUPPORTED, "symbols", "\"%s\": PDB version %u has no GUID",
                        kda_file_name(msf->file), kda_le32(info));
    *age = kda_le32(info + 8);
    memcpy(guid, info + 12, 16);
    return KDA_OK;
}

/* The list of optional streams is the last piece of the DBI stream; the sizes of the pieces before
 * it say where it starts. */
static enum kda_status read_debug_list(struct kda_msf *msf, const uint8_t *header,
                                       struct kda_pdb_dbi *dbi, struct kda_error *err)
{
    static const uint8_t sizes_before[] = {24, 28, 32, 36, 40, 52};
    uint64_t off = DBI_HEADER;
    for (size_t i = 0; i < sizeof(sizes_before); i++)
        off += kda_le32(header + sizes_before[i]);
    uint32_t bytes = kda_le32(header + 48);
    uint8_t list[DEBUG_USED * 2];
    memset(list, 0xff, sizeof(list));
    if (bytes > sizeof(list))
        bytes = sizeof(list);
    if (off > UINT32_MAX)
        return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\": pieces of the DBI stream overflow",
                        kda_file_name(msf->file));
    enum kda_status status = kda_msf_read(msf, STREAM_DBI, (uint32_t)off, list, bytes & ~1u, err);
    if (status != KDA_OK)
        return status;
    dbi->omap = kda_le16(list + (size_t)2 * DEBUG_OMAP_FROM_SOURCE);
    dbi->sections = kda_le16(list + (size_t)2 * DEBUG_SECTIONS);
    dbi->original_sections = kda_le16(list + (size_t)2 * DEBUG_SECTIONS_ORIGINAL);
    return KDA_OK;
}

/* *age starts as the PDB stream's and stays that when there is no DBI stream (types only). */
static enum kda_status read_dbi(struct kda_msf *msf, struct kda_pdb_dbi *dbi, struct kda_error *err)
{
    dbi->symbols = dbi->sections = dbi->original_sections = dbi->omap = KDA_MSF_NO_STREAM;
    if (kda_msf_size(msf, STREAM_DBI) == 0)
        return KDA_OK;
    uint8_t header[DBI_HEADER];
    enum kda_status status = kda_msf_read(msf, STREAM_DBI, 0, header, sizeof(header), err);
    if (status != KDA_OK)
        return status;
    if (kda_le32(header) != UINT32_MAX || kda_le32(header + 4) < DBI_VC70)
        return kda_fail(err, KDA_UNSUPPORTED, "symbols", "\"%s\": DBI stream of version %u",
                        kda_file_name(msf->file), kda_le32(header + 4));
    dbi->age = kda_le32(header + 8);
    dbi->symbols = kda_le16(header + 20);
    return read_debug_list(msf, header, dbi, err);
}

enum kda_status kda_pdb_identity(struct kda_file *file, uint8_t guid[16], uint32_t *age,
                                 struct kda_error *err)
{
    struct kda_msf msf;
    enum kda_status status = kda_msf_init(&msf, file, err);
    if (status != KDA_OK)
        return status;
    uint8_t found[16] = {0};
    struct kda_pdb_dbi dbi;
    status = read_info(&msf, found, &dbi.age, err);
    if (status == KDA_OK)
        status = read_dbi(&msf, &dbi, err);
    if (status == KDA_OK) {
        memcpy(guid, found, 16);
        *age = dbi.age;
    }
    kda_msf_deinit(&msf);
    return status;
}

enum kda_status kda_check_identity(const char *file, const uint8_t guid[16], uint32_t age,
                                   const struct kda_kernel_id *id, struct kda_error *err)
{
    if (!id || !id->has_pdb || (age == id->pdb_age && memcmp(guid, id->pdb_guid, 16) == 0))
        return KDA_OK;
    char has[KDA_KEY_TEXT], wants[KDA_KEY_TEXT];
    kda_key_text(guid, age, has);
    kda_key_text(id->pdb_guid, id->pdb_age, wants);
    return kda_fail(err, KDA_BAD_DATA, "symbols",
                    "\"%s\" is for another kernel: it has GUID and age %s, this image needs %s",
                    file, has, wants);
}

/* What turns section and offset into an RVA. */
struct address_map {
    uint8_t *sections, *omap;
    size_t section_count, omap_count;
};

static void map_free(struct address_map *map)
{
    kda_free(map->sections);
    kda_free(map->omap);
}

/* Symbols of a rearranged image are given in sections of the image as it was linked; the OMAP
 * leads on to where the bytes are now. */
static enum kda_status map_load(struct kda_msf *msf, const struct kda_pdb_dbi *dbi,
                                struct address_map *map, struct kda_error *err)
{
    *map = (struct address_map){0};
    bool moved = kda_msf_size(msf, dbi->omap) > 0 && kda_msf_size(msf, dbi->original_sections) > 0;
    size_t size = 0;
    enum kda_status status = kda_msf_read_all(msf, moved ? dbi->original_sections : dbi->sections,
                                              &map->sections, &size, err);
    if (status != KDA_OK)
        return status;
    map->section_count = size / SECTION_HEADER;
    if (map->section_count > MAX_SECTIONS)
        map->section_count = MAX_SECTIONS;
    if (!moved)
        return KDA_OK;
    status = kda_msf_read_all(msf, dbi->omap, &map->omap, &size, err);
    map->omap_count = status == KDA_OK ? size / 8 : 0;
    return status;
}

/* Last entry at or before `rva` says where that piece went; 0 = it was dropped. */
static uint32_t map_moved(const struct address_map *map, uint32_t rva)
{
    size_t low = 0, high = map->omap_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (kda_le32(map->omap + mid * 8) <= rva)
            low = mid + 1;
        else
            high = mid;
    }
    if (low == 0)
        return KDA_NONE;
    const uint8_t *entry = map->omap + (low - 1) * 8;
    uint32_t to = kda_le32(entry + 4), delta = rva - kda_le32(entry);
    return to == 0 || delta >= KDA_NONE - to ? KDA_NONE : to + delta;
}

static uint32_t map_rva(const struct address_map *map, uint16_t segment, uint32_t off)
{
    if (segment == 0 || segment > map->section_count)
        return KDA_NONE; /* absolute symbols have a segment past the last */
    uint32_t base = kda_le32(map->sections + (size_t)(segment - 1) * SECTION_HEADER + 12);
    if (off >= KDA_NONE - base)
        return KDA_NONE;
    return map->omap ? map_moved(map, base + off) : base + off;
}

/* Public symbols and records of global data have one shape: a word, offset, segment, name. Publics
 * win; data records serve files that have no publics. */
static void take_symbols(const struct kda_lookup *lookup, const struct address_map *map,
                         struct kda_cursor *c, struct kda_layout *ret)
{
    bool is_public[KDA_SYM_COUNT] = {false};
    while (kda_cursor_left(c) >= 4) {
        uint16_t length = kda_take16(c);
        struct kda_cursor r = kda_cursor_make(kda_take(c, length), length);
        if (c->failed || length < 2)
            return;
        uint16_t kind = kda_take16(&r);
        if (kind != S_PUB32 && kind != S_GDATA32 && kind != S_LDATA32)
            continue;
        (void)kda_take32(&r);
        uint32_t off = kda_take32(&r);
        uint16_t segment = kda_take16(&r);
        const char *name = kda_take_cstr(&r);
        unsigned id;
        if (!name || !kda_lookup_find(lookup, name, strlen(name), &id))
            continue;
        uint32_t rva = map_rva(map, segment, off);
        if (rva == KDA_NONE || is_public[id] || (kind != S_PUB32 && ret->rva[id] != KDA_NONE))
            continue;
        ret->rva[id] = rva;
        is_public[id] = kind == S_PUB32;
    }
}

enum kda_status kda_pdb_globals(struct kda_msf *msf, const struct kda_pdb_dbi *dbi,
                                struct kda_layout *ret, struct kda_error *err)
{
    struct address_map map;
    uint8_t *records = NULL;
    size_t size = 0;
    enum kda_status status = map_load(msf, dbi, &map, err);
    if (status == KDA_OK)
        status = kda_msf_read_all(msf, dbi->symbols, &records, &size, err);
    if (status == KDA_OK) {
        struct kda_lookup lookup;
        kda_lookup_symbols(&lookup);
        struct kda_cursor c = kda_cursor_make(records, size);
        take_symbols(&lookup, &map, &c, ret);
    }
    kda_free(records);
    map_free(&map);
    return status;
}

static enum kda_status fill(struct kda_msf *msf, const struct kda_kernel_id *id,
                            struct kda_layout *layout, struct kda_error *err)
{
    uint8_t guid[16];
    struct kda_pdb_dbi dbi;
    enum kda_status status = read_info(msf, guid, &dbi.age, err);
    if (status == KDA_OK)
        status = read_dbi(msf, &dbi, err);
    if (status == KDA_OK)
        status = kda_check_identity(kda_file_name(msf->file), guid, dbi.age, id, err);
    if (status == KDA_OK)
        status = kda_pdb_types(msf, layout, err);
    if (status == KDA_OK)
        status = kda_pdb_globals(msf, &dbi, layout, err);
    return status;
}

enum kda_status kda_pdb_layout(struct kda_file *file, const struct kda_kernel_id *id,
                               struct kda_layout *ret, struct kda_error *err)
{
    struct kda_msf msf;
    enum kda_status status = kda_msf_init(&msf, file, err);
    if (status != KDA_OK)
        return status;
    struct kda_layout layout;
    kda_layout_clear(&layout);
    status = fill(&msf, id, &layout, err);
    if (status == KDA_OK)
        *ret = layout;
    kda_msf_deinit(&msf);
    return status;
}
