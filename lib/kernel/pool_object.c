/*
 * pool_object.c - objects inside pool blocks, and the processes among them.
 */
#include <string.h>

#include "internal.h"

#define UNIT 16u
#define HEADER 0x30u       /* _OBJECT_HEADER.Body */
#define PADDING_MASK 0x80u /* a header whose size it says itself; it stands in front of all */
#define PADDING_MAX 0x40u
#define OPTIONAL_MAX 0xe0u
#define COUNT_MAX 0x1000000u /* handles of one object */
#define REFERENCES_MAX                                                                             \
    (1ull << 40) /* each handle counts up to 2^15 of them from Windows 8.1 on                      \
                  */
#define PID_MAX 0x4000000u
#define YEAR_2000 125911584000000000u
#define DAY 864000000000u

/* Sizes of the headers that the bits of InfoMask stand for. Source: _OBJECT_HEADER_CREATOR_INFO,
 * NAME, HANDLE, QUOTA, PROCESS, AUDIT (on later builds EXTENDED before it) of the PDBs. */
static const uint8_t optional[] = {0x20, 0x20, 0x10, 0x20, 0x10, 0x10, 0x10};

static size_t optional_size(uint8_t mask)
{
    size_t size = 0;
    for (size_t i = 0; i < sizeof(optional); i++)
        if (((unsigned)mask >> i & 1u) != 0)
            size += optional[i];
    return size;
}

uint64_t kda_pool_content(const struct kda_pool_block *block, uint64_t va, size_t *room)
{
    size_t skip = block->big ? 0 : UNIT;
    *room = block->size - skip;
    return va + skip;
}

bool kda_pool_known(const struct kda_pool_block *block,
                    bool (*known)(const void *context, uint64_t va), const void *context)
{
    const uint64_t places[] = {block->va, block->alias};
    for (size_t i = 0; i < 2; i++) {
        size_t room;
        uint64_t content = kda_pool_content(block, places[i], &room);
        if (places[i] == 0)
            continue;
        if (known(context, content))
            return true;
        for (size_t before = 0; before <= OPTIONAL_MAX && before + HEADER < room; before += UNIT)
            if (known(context, content + before + HEADER))
                return true;
    }
    return false;
}

/* A field of something in a block that was seen: what cannot be read now is a gap. */
static bool take(struct kda_kernel *kernel, uint64_t va, enum kda_field_id field, uint64_t *ret)
{
    struct kda_error why;
    enum kda_status status = kda_read_field(kernel, va, field, ret, &why);
    if (status != KDA_OK && status != KDA_UNMAPPED)
        kda_gaps_add(&kernel->gaps, "pool", va, status, "%s: %s", kda_field_name(field), why.text);
    return status == KDA_OK;
}

static bool header_agrees(struct kda_kernel *kernel, uint64_t header, uint8_t type, size_t before)
{
    uint64_t mask, references, handles;
    uint8_t index;
    if (!take(kernel, header, KDA_F_OBJECT_HEADER_InfoMask, &mask) ||
        !take(kernel, header, KDA_F_OBJECT_HEADER_PointerCount, &references) ||
        !take(kernel, header, KDA_F_OBJECT_HEADER_HandleCount, &handles))
        return false;
    size_t stated = optional_size((uint8_t)mask);
    size_t padding = mask & PADDING_MASK ? PADDING_MAX : 0;
    return before >= stated && before - stated <= padding && references > 0 &&
           references < REFERENCES_MAX && handles < COUNT_MAX &&
           kda_object_type(kernel, header, &index, NULL) == KDA_OK && index == type;
}

bool kda_pool_object(struct kda_kernel *kernel, const struct kda_pool_block *block, uint8_t type,
                     size_t size, uint64_t *body)
{
    size_t room;
    uint64_t content = kda_pool_content(block, block->va, &room);
    if (!kda_pool_in_region(kernel, block))
        return false;
    for (size_t before = 0; before <= OPTIONAL_MAX; before += UNIT) {
        if (room < before + HEADER || room - before - HEADER < size)
            return false;
        if (!header_agrees(kernel, content + before, type, before))
            continue;
        *body = content + before + HEADER;
        return true;
    }
    return false;
}

/* ---- processes ---- */

static const enum kda_field_id needed[] = {
    KDA_F_OBJECT_HEADER_InfoMask,      KDA_F_OBJECT_HEADER_PointerCount,
    KDA_F_OBJECT_HEADER_HandleCount,   KDA_F_EPROCESS_UniqueProcessId,
    KDA_F_EPROCESS_ImageFileName,      KDA_F_EPROCESS_CreateTime,
    KDA_F_EPROCESS_ExitTime,           KDA_F_EPROCESS_ActiveProcessLinks,
    KDA_F_KPROCESS_DirectoryTableBase,
};

static bool is_process(const void *context, uint64_t va)
{
    const struct kda_kernel *kernel = context;
    return kda_map_get(&kernel->process_by_va, va, NULL);
}

/* A read that failed for no reason of the image. */
static enum kda_status said(struct kda_kernel *kernel, uint64_t va, enum kda_status status)
{
    if (status != KDA_OK && status != KDA_NO_SYMBOL && !kda_status_is_gap(status))
        kda_gaps_add(&kernel->gaps, "pool", va, status, "a block could not be judged");
    return status;
}

/* Its own table, if it can be read, maps the kernel where System's does. */
static bool maps_the_kernel(struct kda_kernel *kernel, uint64_t root)
{
    uint64_t own, system, base = kernel->info.base;
    root &= ~(uint64_t)KDA_PAGE_MASK & 0x000fffffffffffffu;
    if (root == 0 ||
        said(kernel, base, kda_translate(kernel, kernel->info.dtb, base, &system, NULL)) != KDA_OK)
        return root != 0;
    enum kda_status status = said(kernel, base, kda_translate(kernel, root, base, &own, NULL));
    return status == KDA_OK ? own == system : status == KDA_ABSENT;
}

static bool is_name(struct kda_kernel *kernel, uint64_t va)
{
    uint8_t name[15];
    size_t size = 0;
    if (said(kernel, va, kda_read(kernel, va, name, sizeof(name), NULL)) != KDA_OK)
        return false;
    while (size < sizeof(name) && name[size] >= ' ' && name[size] != 0x7f)
        size++;
    return size > 0 && (size == sizeof(name) || name[size] == 0);
}

/* Its handle table names it back; where that is not in the image, links that lead to themselves, as
 * careful unlinking leaves them. Links to other processes prove nothing: a copy of the page has
 * them too. */
static bool is_tied(struct kda_kernel *kernel, uint64_t va)
{
    uint64_t link = va + kda_field_offset(kernel, KDA_F_EPROCESS_ActiveProcessLinks);
    uint64_t table = 0, owner = 0;
    uint8_t links[16];
    enum kda_status status = kda_read_field(kernel, va, KDA_F_EPROCESS_ObjectTable, &table, NULL);
    if (status == KDA_OK && table != 0)
        status = kda_read_field(kernel, table, KDA_F_HANDLE_TABLE_QuotaProcess, &owner, NULL);
    (void)said(kernel, va, status);
    if (status == KDA_UNMAPPED || (status == KDA_OK && table != 0))
        return status == KDA_OK && owner == va;
    return said(kernel, link, kda_read(kernel, link, links, sizeof(links), NULL)) == KDA_OK &&
           kda_le64(links) == link && kda_le64(links + 8) == link;
}

/* A process that ended keeps its block while somebody holds a handle; its exit time tells. */
static bool lives(struct kda_kernel *kernel, uint64_t va)
{
    uint64_t pid, created, exited, root, now = kernel->info.system_time_100ns;
    return take(kernel, va, KDA_F_EPROCESS_UniqueProcessId, &pid) &&
           take(kernel, va, KDA_F_EPROCESS_CreateTime, &created) &&
           take(kernel, va, KDA_F_EPROCESS_ExitTime, &exited) &&
           take(kernel, va, KDA_F_KPROCESS_DirectoryTableBase, &root) && pid != 0 && pid % 4 == 0 &&
           pid < PID_MAX && exited == 0 && created > YEAR_2000 &&
           (now == 0 || created < now + DAY) && maps_the_kernel(kernel, root) &&
           is_name(kernel, va + kda_field_offset(kernel, KDA_F_EPROCESS_ImageFileName)) &&
           is_tied(kernel, va);
}

static bool all_known(struct kda_kernel *kernel, uint8_t *type)
{
    if (kda_process_type(kernel, type, NULL) != KDA_OK) {
        kda_pool_set_lacks(kernel, KDA_POOL_PROCESS, "the object type Process");
        return false;
    }
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++)
        if (!kda_has_field(kernel, needed[i])) {
            kda_pool_set_lacks(kernel, KDA_POOL_PROCESS, kda_field_name(needed[i]));
            return false;
        }
    return true;
}

enum kda_status kda_pool_processes(struct kda_kernel *kernel,
                                   bool (*found)(void *context, uint64_t va), void *context,
                                   struct kda_error *err)
{
    const struct kda_pool_block *blocks;
    size_t count;
    uint8_t type;
    enum kda_status status = kda_pool_blocks(kernel, &blocks, &count, err);
    if (status != KDA_OK || !kernel->pool || !all_known(kernel, &type))
        return status;
    uint32_t size = kernel->layout->size[KDA_STRUCT_EPROCESS];
    for (size_t i = 0; i < kernel->process_count; i++)
        kda_pool_add_region(kernel, kernel->processes[i].va);
    for (size_t i = 0; i < count; i++) {
        uint64_t va;
        if (blocks[i].kind != KDA_POOL_PROCESS || kda_pool_known(&blocks[i], is_process, kernel) ||
            !kda_pool_object(kernel, &blocks[i], type, size == KDA_NONE ? UNIT : size, &va) ||
            !lives(kernel, va))
            continue;
        if (blocks[i].alias != 0)
            kda_pool_ambiguous(kernel, &blocks[i]);
        else if (!found(context, va))
            break;
    }
    return KDA_OK;
}

/* Windows gives each pool, the file cache and the rest ranges of their own, whole entries of the
 * top table: bits 39 to 47. */
static unsigned region_of(uint64_t va)
{
    return (unsigned)(va >> 39) & 0x1ffu;
}

void kda_pool_add_region(struct kda_kernel *kernel, uint64_t va)
{
    if (kernel->pool && kda_is_kernel_va(kernel, va))
        kernel->pool->regions[region_of(va) / 64] |= (uint64_t)1 << region_of(va) % 64;
}

bool kda_pool_in_region(const struct kda_kernel *kernel, const struct kda_pool_block *block)
{
    unsigned region = region_of(block->va);
    return block->va != 0 && kernel->pool && kernel->pool->regions[region / 64] >> region % 64 & 1;
}

void kda_pool_ambiguous(struct kda_kernel *kernel, const struct kda_pool_block *block)
{
    kda_gaps_add(&kernel->gaps, "pool", block->va, KDA_BAD_DATA,
                 "an object at physical 0x%llx is mapped here and at 0x%016llx: which address it "
                 "has is not known",
                 (unsigned long long)block->pa, (unsigned long long)block->alias);
}
