/*
 * handle.c - handle tables and object types.
 *
 * Source: _HANDLE_TABLE.TableCode low bits = levels; pages of 256 entries of 16 bytes or 512
 * pointers. Entries: Windows 7 keeps the header address with flags in the low three bits; later
 * builds pack it into _HANDLE_TABLE_ENTRY.ObjectPointerBits (address >> 4, sign-extended from bit
 * 47). docs/kernel.md has the details.
 */
#include <string.h>

#include "internal.h"

#define ENTRY_SIZE 16u
#define ENTRIES_PER_PAGE 256u
#define POINTERS_PER_PAGE 512u
#define HEADER_SIZE 0x30u /* _OBJECT_HEADER.Body, 213 of 213 surveyed builds */
#define MAX_TYPES 256u
#define COOKIE_WITNESSES 64u
#define MAX_POINTERS ((uint64_t)1 << 40)
#define MAX_HANDLES ((uint64_t)1 << 24) /* handles of one process: 2^24, ntoskrnl */

struct table_walk {
    struct kda_kernel *kernel;
    uint64_t table;
    bool cid;
    kda_handle_fn fn;
    void *context;
    struct kda_map pages; /* read so far: no page of a table comes twice */
    bool stopped, exhausted, no_memory;
    bool single;    /* the table is one page */
    uint64_t used;  /* entries with an object */
    uint64_t blank; /* a page without any, 0 = none so far */
};

/* A process has handles, so the one page of its table is not blank. Of large tables pages of zeros
 * stand in images (seen); there the table's own count tells whether they held something. A page of
 * any other one value is none of a handle table. */
static enum kda_status read_page(struct table_walk *walk, uint64_t page_va, uint8_t *page)
{
    struct kda_kernel *kernel = walk->kernel;
    enum kda_status status =
        kda_read_in(kernel, kernel->info.dtb, page_va, page, KDA_PAGE_SIZE, NULL);
    if (status != KDA_OK || memcmp(page, page + 1, KDA_PAGE_SIZE - 1) != 0)
        return status;
    if (page[0] != 0 || (walk->single && !walk->cid))
        return KDA_ABSENT;
    walk->blank = page_va;
    return KDA_OK;
}

static void check_count(struct table_walk *walk)
{
    uint64_t count;
    if (walk->blank == 0 || walk->stopped || walk->exhausted ||
        !kda_has_field(walk->kernel, KDA_F_HANDLE_TABLE_HandleCount) ||
        kda_read_field(walk->kernel, walk->table, KDA_F_HANDLE_TABLE_HandleCount, &count, NULL) !=
            KDA_OK ||
        walk->used >= count)
        return;
    kda_gaps_add(&walk->kernel->gaps, "handle_table", walk->blank, KDA_ABSENT,
                 "the table at 0x%016llx counts %llu handles, %llu are there, and this page of it "
                 "holds nothing but zeros",
                 (unsigned long long)walk->table, (unsigned long long)count,
                 (unsigned long long)walk->used);
}

static bool decode(const struct table_walk *walk, const uint8_t *entry, struct kda_handle *handle)
{
    const struct kda_layout *layout = walk->kernel->layout;
    const struct kda_field *packed = &layout->field[KDA_F_HANDLE_TABLE_ENTRY_ObjectPointerBits];
    uint64_t low = kda_le64(entry), object;
    if (packed->offset != KDA_NONE && packed->bits != 0) {
        object = low >> packed->bit;
        if (packed->bits < 64)
            object &= ((uint64_t)1 << packed->bits) - 1;
        object <<= 4;
        if (object == 0)
            return false;
        unsigned top = packed->bits + 4u;
        if (top < 64 && (object >> (top - 1) & 1))
            object |= UINT64_MAX << top;
        const struct kda_field *attr = &layout->field[KDA_F_HANDLE_TABLE_ENTRY_Attributes];
        if (attr->offset != KDA_NONE && attr->bits != 0 && attr->bits < 8)
            handle->attributes = (uint8_t)(low >> attr->bit & ((1u << attr->bits) - 1));
        const struct kda_field *access = &layout->field[KDA_F_HANDLE_TABLE_ENTRY_GrantedAccessBits];
        uint32_t mask = access->bits && access->bits < 32 ? (1u << access->bits) - 1 : UINT32_MAX;
        handle->access = kda_le32(entry + 8) & mask;
    } else {
        object = low & ~(uint64_t)7;
        if (object == 0)
            return false;
        handle->attributes = (uint8_t)(low & 7);
        handle->access = kda_le32(entry + 8);
    }
    if (!kda_is_kernel_va(walk->kernel, object))
        return false;
    handle->header = walk->cid ? 0 : object;
    handle->object = walk->cid ? object : object + HEADER_SIZE;
    return true;
}

/* True if the page may be read: it is new and the allowance is not used up. */
static bool spend_page(struct table_walk *walk, uint64_t page_va)
{
    if (walk->kernel->exhausted) {
        walk->exhausted = true;
        return false;
    }
    if (kda_map_get(&walk->pages, page_va, NULL)) {
        kda_gaps_add(&walk->kernel->gaps, "handle_table", page_va, KDA_BAD_DATA,
                     "this page comes twice in the table at 0x%016llx",
                     (unsigned long long)walk->table);
        return false;
    }
    if (!kda_map_put(&walk->pages, page_va, 1)) {
        walk->no_memory = walk->stopped = true;
        return false;
    }
    if (walk->kernel->handle_pages < KDA_MAX_HANDLE_PAGES) {
        walk->kernel->handle_pages++;
        return true;
    }
    walk->exhausted = true;
    kda_gaps_add(&walk->kernel->gaps, "handle_table", walk->table, KDA_LIMIT,
                 "more than %u handle pages in the image; the rest was not read",
                 KDA_MAX_HANDLE_PAGES);
    return false;
}

static void walk_entries(struct table_walk *walk, uint64_t page_va, uint64_t first)
{
    uint8_t page[KDA_PAGE_SIZE];
    if (!spend_page(walk, page_va))
        return;
    enum kda_status status = read_page(walk, page_va, page);
    if (status != KDA_OK) {
        kda_gaps_add(&walk->kernel->gaps, "handle_table", page_va, status,
                     "handles 0x%llx to 0x%llx of the table at 0x%016llx",
                     (unsigned long long)(first * 4),
                     (unsigned long long)((first + ENTRIES_PER_PAGE - 1) * 4),
                     (unsigned long long)walk->table);
        return;
    }
    /* Handle 0 is the table's own entry. The first entry of a later page is used like any other;
     * what is not a handle there decodes to no kernel address or to no object. */
    for (unsigned i = first == 0; i < ENTRIES_PER_PAGE; i++) {
        struct kda_handle handle;
        memset(&handle, 0, sizeof(handle));
        if (!decode(walk, page + (size_t)i * ENTRY_SIZE, &handle))
            continue;
        walk->used++;
        handle.value = (first + i) * 4;
        handle.entry_va = page_va + (uint64_t)i * ENTRY_SIZE;
        if (!walk->fn(walk->context, &handle) || walk->kernel->exhausted) {
            walk->stopped = true;
            return;
        }
    }
}

static void walk_level(struct table_walk *walk, uint64_t page_va, unsigned level, uint64_t first)
{
    if (level == 0) {
        walk_entries(walk, page_va, first);
        return;
    }
    uint8_t page[KDA_PAGE_SIZE];
    if (!spend_page(walk, page_va))
        return;
    enum kda_status status = read_page(walk, page_va, page);
    if (status != KDA_OK) {
        kda_gaps_add(&walk->kernel->gaps, "handle_table", page_va, status,
                     "a pointer page of the table at 0x%016llx", (unsigned long long)walk->table);
        return;
    }
    uint64_t span = level == 1 ? ENTRIES_PER_PAGE : ENTRIES_PER_PAGE * POINTERS_PER_PAGE;
    for (unsigned i = 0; i < POINTERS_PER_PAGE && !walk->stopped && !walk->exhausted; i++) {
        uint64_t next = kda_le64(page + (size_t)i * 8);
        if (next == 0)
            continue; /* unused; one cleared pointer must not hide what stands behind it */
        if (!kda_is_kernel_va(walk->kernel, next) || (next & KDA_PAGE_MASK) != 0) {
            kda_gaps_add(&walk->kernel->gaps, "handle_table", page_va + i * 8u, KDA_BAD_DATA,
                         "0x%016llx is no page of a handle table", (unsigned long long)next);
            continue;
        }
        walk_level(walk, next, level - 1, first + i * span);
    }
}

enum kda_status kda_handles_walk(struct kda_kernel *kernel, uint64_t table_va, bool cid,
                                 kda_handle_fn fn, void *context, struct kda_error *err)
{
    uint64_t code;
    enum kda_status status =
        kda_read_field(kernel, table_va, KDA_F_HANDLE_TABLE_TableCode, &code, err);
    if (status != KDA_OK)
        return status;
    unsigned level = (unsigned)(code & 3);
    uint64_t page = code & ~(uint64_t)7;
    if (level > 2 || !kda_is_kernel_va(kernel, page) || (page & KDA_PAGE_MASK) != 0)
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", table_va,
                           "the handle table at 0x%016llx has table code 0x%llx",
                           (unsigned long long)table_va, (unsigned long long)code);
    /* NextHandleNeedingPool, the first handle value without a page, is no bound here: the pointers
     * say which pages exist, and a lying value would hide handles. */
    struct table_walk walk = {
        .kernel = kernel, .table = table_va, .cid = cid, .single = level == 0};
    walk.fn = fn;
    walk.context = context;
    walk_level(&walk, page, level, 0);
    check_count(&walk);
    kda_map_deinit(&walk.pages);
    if (walk.no_memory)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory walking a handle table");
    return KDA_OK;
}

/* The cookie's page is missing: objects that are processes for sure (the active list names them)
 * give it away, as the type of processes is known. Nearly all must agree. */
static bool cookie_from_processes(struct kda_kernel *kernel, uint8_t *cookie)
{
    uint8_t type;
    unsigned votes[256] = {0}, total = 0, best = 0;
    if (kda_process_type(kernel, &type, NULL) != KDA_OK)
        return false;
    for (size_t i = 0; i < kernel->process_count && total < COOKIE_WITNESSES; i++) {
        uint64_t header = kernel->processes[i].va - HEADER_SIZE, stored;
        if (!(kernel->processes[i].found_by & KDA_FOUND_LIST) ||
            kda_read_field(kernel, header, KDA_F_OBJECT_HEADER_TypeIndex, &stored, NULL) != KDA_OK)
            continue;
        unsigned found = (uint8_t)(stored ^ header >> 8 ^ type);
        votes[found]++;
        total++;
        best = votes[found] > votes[best] ? found : best;
    }
    if (votes[best] < 2 || votes[best] * 8 < total * 7)
        return false;
    *cookie = (uint8_t)best;
    return true;
}

/* ObHeaderCookie exists from Windows 10 on; earlier builds store the index plainly. */
static enum kda_status read_cookie(struct kda_kernel *kernel, struct kda_error *err)
{
    uint64_t va = kda_symbol_va(kernel, KDA_SYM_ObHeaderCookie);
    if (!kernel->cookie_read) {
        kernel->cookie_status = kda_read(kernel, va, &kernel->cookie, 1, NULL);
        kernel->cookie_read = true;
    }
    if (kernel->cookie_status != KDA_OK && kernel->cookie_processes != kernel->process_count) {
        kernel->cookie_processes = kernel->process_count;
        if (cookie_from_processes(kernel, &kernel->cookie))
            kernel->cookie_status = KDA_OK;
    }
    if (kernel->cookie_status == KDA_OK)
        return KDA_OK;
    return kda_fail_at(err, kernel->cookie_status, "kernel", va, "ObHeaderCookie cannot be read");
}

/* A header that a handle, an id or a list leads to belongs to a living object: somebody holds it.
 * Counts that no object has tell an overwritten page, where the one byte of the type may well
 * decode to the type that is looked for. PointerCount is biased by up to 32,768 for each handle
 * from Windows 8.1 on. Source: _OBJECT_HEADER of the PDBs; docs/kernel.md. */
static enum kda_status check_counts(struct kda_kernel *kernel, uint64_t header_va,
                                    struct kda_error *err)
{
    uint64_t pointers = 1, handles = 0;
    enum kda_status status = KDA_OK;
    if (kda_has_field(kernel, KDA_F_OBJECT_HEADER_PointerCount))
        status =
            kda_read_field(kernel, header_va, KDA_F_OBJECT_HEADER_PointerCount, &pointers, err);
    if (status == KDA_OK && kda_has_field(kernel, KDA_F_OBJECT_HEADER_HandleCount))
        status = kda_read_field(kernel, header_va, KDA_F_OBJECT_HEADER_HandleCount, &handles, err);
    if (status != KDA_OK || (pointers != 0 && pointers <= MAX_POINTERS && handles <= MAX_HANDLES))
        return status;
    return kda_fail_at(err, KDA_BAD_DATA, "kernel", header_va,
                       "the header at 0x%016llx counts 0x%llx references and 0x%llx handles",
                       (unsigned long long)header_va, (unsigned long long)pointers,
                       (unsigned long long)handles);
}

enum kda_status kda_object_type(struct kda_kernel *kernel, uint64_t header_va, uint8_t *type_index,
                                struct kda_error *err)
{
    uint64_t stored;
    enum kda_status status =
        kda_read_field(kernel, header_va, KDA_F_OBJECT_HEADER_TypeIndex, &stored, err);
    if (status == KDA_OK)
        status = check_counts(kernel, header_va, err);
    if (status != KDA_OK)
        return status;
    uint8_t index = (uint8_t)stored;
    if (kernel->cookie_read || kda_has_symbol(kernel, KDA_SYM_ObHeaderCookie)) {
        status = read_cookie(kernel, err);
        if (status != KDA_OK)
            return status;
        index = (uint8_t)(index ^ (uint8_t)(header_va >> 8) ^ kernel->cookie);
    }
    *type_index = index;
    return KDA_OK;
}

/* Types that a global points at; the others are found by name in ObTypeIndexTable. */
static const struct {
    const char *name;
    enum kda_symbol_id symbol;
} type_globals[] = {
    {"Process", KDA_SYM_PsProcessType},
    {"Thread", KDA_SYM_PsThreadType},
    {"EtwRegistration", KDA_SYM_EtwpRegistrationObjectType},
    {"EtwConsumer", KDA_SYM_EtwpRealTimeConnectionObjectType},
};

static enum kda_status type_by_global(struct kda_kernel *kernel, const char *name, uint64_t *index,
                                      struct kda_error *err)
{
    for (size_t i = 0; i < sizeof(type_globals) / sizeof(type_globals[0]); i++) {
        uint8_t pointer[8];
        uint64_t at = kda_symbol_va(kernel, type_globals[i].symbol);
        if (strcmp(type_globals[i].name, name) != 0 || at == 0)
            continue;
        enum kda_status status = kda_read(kernel, at, pointer, sizeof(pointer), err);
        if (status != KDA_OK)
            return status;
        return kda_read_field(kernel, kda_le64(pointer), KDA_F_OBJECT_TYPE_Index, index, err);
    }
    return KDA_ABSENT;
}

static enum kda_status type_by_name(struct kda_kernel *kernel, const char *name, uint64_t *index,
                                    struct kda_error *err)
{
    uint64_t table = kda_symbol_va(kernel, KDA_SYM_ObTypeIndexTable);
    uint32_t name_at = kda_field_offset(kernel, KDA_F_OBJECT_TYPE_Name);
    if (table == 0 || name_at == KDA_NONE)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "ObTypeIndexTable is not known");
    enum kda_status missing = KDA_ABSENT;
    for (unsigned i = 2; i < MAX_TYPES; i++) {
        uint8_t pointer[8];
        const char *text;
        enum kda_status status = kda_read(kernel, table + i * 8u, pointer, sizeof(pointer), err);
        if (status != KDA_OK)
            return status;
        uint64_t type = kda_le64(pointer);
        if (type == 0)
            break;
        status = kda_read_string(kernel, type + name_at, 256, &text, NULL);
        if (status != KDA_OK)
            missing = status; /* the wanted one may be behind this hole */
        else if (strcmp(text, name) == 0)
            return kda_read_field(kernel, type, KDA_F_OBJECT_TYPE_Index, index, err);
    }
    return kda_fail(err, missing, "kernel", "there is no object type \"%s\"", name);
}

enum kda_status kda_object_type_index(struct kda_kernel *kernel, const char *name,
                                      uint8_t *type_index, struct kda_error *err)
{
    if (!kernel->layout)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "symbols are not loaded");
    uint64_t index = 0;
    enum kda_status status = type_by_global(kernel, name, &index, err);
    if (status != KDA_OK)
        status = type_by_name(kernel, name, &index, err);
    if (status != KDA_OK)
        return status;
    if (index < 2 || index > UINT8_MAX)
        return kda_fail(err, KDA_BAD_DATA, "kernel", "object type \"%s\" has index %llu", name,
                        (unsigned long long)index);
    *type_index = (uint8_t)index;
    return KDA_OK;
}
