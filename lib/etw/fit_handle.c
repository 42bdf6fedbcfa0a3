/*
 * fit_handle.c - handle tables, object types and the header cookie, without symbols.
 */
#include <string.h>

#include "fit_int.h"

#define ENTRY_SIZE 16u
#define ENTRIES 256u
#define POINTERS 512u
#define HEADER_SIZE 0x30u /* all surveyed builds */
#define POINTER_BIT 20u   /* _HANDLE_TABLE_ENTRY.ObjectPointerBits, since 8.1 */
#define MAX_TABLE_PAGES 65536u
#define MAX_TYPES 256u
#define MAX_ID_PAGES 256u
#define MIN_TYPES 16u /* Windows has 40 and more */

struct table_walk {
    fit_handle_fn fn;
    void *context;
    bool cid;
    uint32_t pages;
};

/* Both forms of an entry tell themselves apart: a plain pointer has its top 16 bits set, a packed
 * one has the reference count at its bottom and its own high bits at the top. */
static uint64_t entry_object(const struct kda_fit *fit, uint64_t low)
{
    uint64_t object = low >> 47 == 0x1ffff ? low & ~(uint64_t)7 : low >> POINTER_BIT << 4;
    if (low >> 47 != 0x1ffff && (object >> 47 & 1))
        object |= 0xffff000000000000u;
    return kda_fit_is_pool(fit, object) ? object : 0;
}

static void walk_page(struct kda_fit *fit, struct table_walk *walk, uint64_t page_va,
                      unsigned level)
{
    uint8_t page[KDA_PAGE_SIZE];
    if (walk->pages++ >= MAX_TABLE_PAGES ||
        kda_fit_read(fit, page_va, page, sizeof(page)) != FIT_YES)
        return;
    if (level == 0) {
        for (unsigned i = 0; i < ENTRIES; i++) {
            uint64_t object = entry_object(fit, kda_le64(page + i * ENTRY_SIZE));
            if (object != 0)
                walk->fn(fit, walk->context, walk->cid ? 0 : object,
                         walk->cid ? object : object + HEADER_SIZE);
        }
        return;
    }
    for (unsigned i = 0; i < POINTERS; i++) {
        uint64_t next = kda_le64(page + i * 8u);
        if (next == 0 || !kda_fit_is_pool(fit, next) || (next & KDA_PAGE_MASK) != 0)
            break;
        walk_page(fit, walk, next, level - 1);
    }
}

void kda_fit_handles(struct kda_fit *fit, uint64_t table, bool cid, fit_handle_fn fn, void *context)
{
    struct table_walk walk = {fn, context, cid, 0};
    struct fit_votes *votes = &fit->votes[F(HANDLE_TABLE, TableCode)];
    for (size_t i = 0; i < votes->count; i++) {
        uint64_t code;
        if (kda_fit_u64(fit, table + votes->place[i].offset, &code) != FIT_YES || code == 0)
            continue;
        bool good = (code & 3) < 3 && (code & 0xffc) == 0 &&
                    kda_fit_is_pool(fit, code & ~(uint64_t)KDA_PAGE_MASK);
        kda_fit_vote(&votes->place[i], good ? FIT_YES : FIT_NO);
        if (good)
            walk_page(fit, &walk, code & ~(uint64_t)KDA_PAGE_MASK, (unsigned)(code & 3));
    }
}

/* Address of entry `index` of a table, through the pointer pages; 0 = not there. */
static uint64_t entry_va(const struct kda_fit *fit, uint64_t code, uint64_t index)
{
    uint64_t at = code & ~(uint64_t)KDA_PAGE_MASK, span = ENTRIES;
    unsigned level = (unsigned)(code & 3);
    for (unsigned i = 1; i < level; i++)
        span *= POINTERS;
    if (level == 0 ? index >= ENTRIES : index / span >= POINTERS)
        return 0;
    for (; level > 0; level--, span /= POINTERS) {
        if (kda_fit_u64(fit, at + index / span * 8, &at) != FIT_YES || at == 0)
            return 0;
        index %= span;
    }
    return at + index * ENTRY_SIZE;
}

struct first_ids {
    uint64_t *ret;
    size_t count, max;
};

static void keep_id(struct kda_fit *fit, void *context, uint64_t header, uint64_t body)
{
    struct first_ids *ids = context;
    (void)fit;
    (void)header;
    if (ids->count < ids->max)
        ids->ret[ids->count++] = body;
}

size_t kda_fit_first_ids(struct kda_fit *fit, uint64_t code_va, uint64_t *ret, size_t max)
{
    struct first_ids ids = {ret, 0, max};
    struct table_walk walk = {keep_id, &ids, true, MAX_TABLE_PAGES - MAX_ID_PAGES};
    uint64_t code;
    if (kda_fit_u64(fit, code_va, &code) == FIT_YES && (code & 3) < 3 && (code & 0xffc) == 0 &&
        kda_fit_is_pool(fit, code & ~(uint64_t)KDA_PAGE_MASK))
        walk_page(fit, &walk, code & ~(uint64_t)KDA_PAGE_MASK, (unsigned)(code & 3));
    return ids.count;
}

struct id_walk {
    unsigned pages, found;
    bool add;
};

/* Entries that lead to processes which know that this is their id. */
static void walk_ids(struct kda_fit *fit, struct id_walk *walk, uint64_t page_va, unsigned level,
                     uint64_t first)
{
    uint8_t page[KDA_PAGE_SIZE];
    if (walk->pages++ >= MAX_ID_PAGES || kda_fit_read(fit, page_va, page, sizeof(page)) != FIT_YES)
        return;
    uint64_t span = level == 2 ? (uint64_t)ENTRIES * POINTERS : ENTRIES;
    for (unsigned i = 0; level > 0 && i < POINTERS; i++) {
        uint64_t next = kda_le64(page + i * 8u);
        if (!kda_fit_is_pool(fit, next) || (next & KDA_PAGE_MASK) != 0)
            return;
        walk_ids(fit, walk, next, level - 1, first + i * span);
    }
    for (unsigned i = 0; level == 0 && i < ENTRIES; i++) {
        uint64_t object = entry_object(fit, kda_le64(page + i * ENTRY_SIZE)), pid;
        if (object == 0 || kda_fit_u64(fit, object + fit->start.pid_at, &pid) != FIT_YES ||
            pid == 0 || pid != (first + i) * 4 || !kda_fit_named_process(fit, object))
            continue;
        walk->found++;
        if (walk->add)
            kda_fit_add_process(fit, object);
    }
}

static unsigned count_ids(struct kda_fit *fit, uint64_t code, bool add)
{
    struct id_walk walk = {.add = add};
    if ((code & 3) == 3 || !kda_fit_is_pool(fit, code & ~(uint64_t)KDA_PAGE_MASK))
        return 0;
    walk_ids(fit, &walk, code & ~(uint64_t)KDA_PAGE_MASK, (unsigned)(code & 3), 0);
    return walk.found;
}

void kda_fit_add_ids(struct kda_fit *fit)
{
    const struct fit_votes *votes = &fit->votes[F(HANDLE_TABLE, TableCode)];
    uint64_t table, code;
    for (size_t i = 0; fit->cid_global != 0 && i < votes->count; i++)
        if (kda_fit_u64(fit, fit->cid_global, &table) == FIT_YES &&
            kda_fit_u64(fit, table + votes->place[i].offset, &code) == FIT_YES)
            (void)count_ids(fit, code, true);
}

/* Entry n of the table of ids is the process or thread with id 4n. */
bool kda_fit_is_cid(struct kda_fit *fit, uint64_t table)
{
    const struct fit_votes *votes = &fit->votes[F(HANDLE_TABLE, TableCode)];
    for (size_t i = 0; i < votes->count; i++) {
        uint64_t code, low;
        unsigned yes = 0, no = 0;
        if (kda_fit_u64(fit, table + votes->place[i].offset, &code) != FIT_YES || (code & 3) == 3)
            continue;
        for (size_t p = 0; p < fit->process_count && no < 8; p++) {
            uint64_t pid = fit->processes[p].pid;
            uint64_t at = pid > 0 && pid != UINT64_MAX ? entry_va(fit, code, pid / 4) : 0;
            if (at == 0 || kda_fit_u64(fit, at, &low) != FIT_YES)
                continue;
            yes += entry_object(fit, low) == fit->processes[p].va;
            no += entry_object(fit, low) != fit->processes[p].va;
        }
        if (yes > 0 && yes >= no)
            return true;
        /* Where the known processes stand is missing: others may be known from here alone. */
        if (yes + no == 0 && count_ids(fit, code, false) >= 3)
            return true;
    }
    return false;
}

/* ---- types ---- */

/* The object type that stands at `at`, if its own index says so. */
static enum fit_answer is_type(struct kda_fit *fit, uint64_t type, unsigned index)
{
    const struct fit_votes *votes = &fit->votes[F(OBJECT_TYPE, Index)];
    uint8_t stored;
    if (votes->count == 0)
        return FIT_NO;
    enum fit_answer answer = kda_fit_read(fit, type + votes->place[0].offset, &stored, 1);
    return answer != FIT_YES ? answer : stored == index ? FIT_YES : FIT_NO;
}

/* ObTypeIndexTable: 0, one more value, then the types; 0 ends it. The type named "Type" is first.
 * `slot` is the place of that first type. */
static bool is_type_table(struct kda_fit *fit, uint64_t slot)
{
    unsigned yes = 0, no = 0;
    uint64_t first = 0;
    if (kda_fit_u64(fit, slot - 16, &first) != FIT_YES || first != 0)
        return false;
    unsigned i = 2;
    for (; i < MAX_TYPES; i++) {
        uint64_t type;
        if (kda_fit_u64(fit, slot + (i - 2) * 8u, &type) != FIT_YES || type == 0)
            break;
        if (!kda_fit_is_pool(fit, type))
            return false;
        enum fit_answer answer = is_type(fit, type, i);
        yes += answer == FIT_YES;
        no += answer == FIT_NO;
        if (i == 5 && yes == 0 && no > 0)
            return false;
    }
    if (i - 2 < MIN_TYPES || yes * 4 < i - 2 || no * 8 > yes)
        return false;
    fit->types = i;
    return true;
}

static void find_type_table(struct kda_fit *fit)
{
    for (size_t p = 0; p < fit->data.pages && fit->type_table == 0; p++) {
        const uint8_t *page = fit->data.bytes + p * KDA_PAGE_SIZE;
        for (size_t off = 16; off + 24 <= KDA_PAGE_SIZE && fit->type_table == 0; off += 8) {
            if (kda_le64(page + off - 16) == 0 && kda_fit_is_pool(fit, kda_le64(page + off)) &&
                kda_fit_is_pool(fit, kda_le64(page + off + 8)) &&
                kda_fit_is_pool(fit, kda_le64(page + off + 16)) &&
                is_type_table(fit, fit->base + fit->data.rva[p] + off))
                fit->type_table = fit->base + fit->data.rva[p] + off - 16;
        }
    }
}

static void vote_types(struct kda_fit *fit)
{
    struct fit_votes *index = &fit->votes[F(OBJECT_TYPE, Index)];
    struct fit_votes *name = &fit->votes[F(OBJECT_TYPE, Name)];
    struct fit_votes *list = &fit->votes[F(OBJECT_TYPE, CallbackList)];
    for (unsigned i = 2; i < fit->types; i++) {
        uint64_t type;
        if (kda_fit_u64(fit, fit->type_table + i * 8u, &type) != FIT_YES)
            continue;
        for (size_t k = 0; k < index->count; k++) {
            uint8_t stored;
            if (kda_fit_read(fit, type + index->place[k].offset, &stored, 1) == FIT_YES)
                kda_fit_vote(&index->place[k], stored == i ? FIT_YES : FIT_NO);
        }
        for (size_t k = 0; k < name->count; k++)
            kda_fit_vote(&name->place[k], kda_fit_string(fit, type + name->place[k].offset, false));
        for (size_t k = 0; k < list->count; k++)
            kda_fit_vote(&list->place[k], kda_fit_ring(fit, type + list->place[k].offset));
    }
}

/* Index of the type that the exported global `name` points at; 0 = unknown. */
static unsigned exported_type(struct kda_fit *fit, const char *name)
{
    uint64_t type = kda_fit_export_pointer(fit, name, NULL);
    const struct fit_votes *index = &fit->votes[F(OBJECT_TYPE, Index)];
    uint8_t stored = 0;
    for (unsigned i = 2; type != 0 && i < fit->types; i++) {
        uint64_t slot;
        if (kda_fit_u64(fit, fit->type_table + i * 8u, &slot) == FIT_YES && slot == type)
            return i;
    }
    if (type == 0 || index->count == 0 ||
        kda_fit_read(fit, type + index->place[0].offset, &stored, 1) != FIT_YES)
        return 0;
    return stored;
}

/* Index of the type by its name in the table; 0 = unknown. */
static unsigned named_type(struct kda_fit *fit, const char *name)
{
    uint32_t name_at = kda_fit_best(fit, F(OBJECT_TYPE, Name));
    for (unsigned i = 2; name_at != KDA_NONE && i < fit->types; i++) {
        uint64_t type;
        uint8_t head[16], text[32];
        size_t size = strlen(name) * 2;
        if (kda_fit_u64(fit, fit->type_table + i * 8u, &type) != FIT_YES ||
            kda_fit_read(fit, type + name_at, head, sizeof(head)) != FIT_YES ||
            kda_le16(head) != size || size > sizeof(text) ||
            kda_fit_read(fit, kda_le64(head + 8), text, size) != FIT_YES)
            continue;
        size_t k = 0;
        while (k < size && text[k] == (k % 2 ? 0 : (uint8_t)name[k / 2]))
            k++;
        if (k == size)
            return i;
    }
    return 0;
}

uint64_t kda_fit_named_type(struct kda_fit *fit, const char *name)
{
    unsigned index = named_type(fit, name);
    uint64_t type = 0;
    if (index != 0 && kda_fit_u64(fit, fit->type_table + index * 8u, &type) != FIT_YES)
        return 0;
    return type;
}

struct cookie_count {
    unsigned by_value[256], plain, total;
};

static void count_cookies(const struct kda_fit *fit, uint32_t type_at, unsigned process_type,
                          struct cookie_count *count)
{
    memset(count, 0, sizeof(*count));
    for (size_t i = 0; i < fit->process_count; i++) {
        uint64_t header = fit->processes[i].va - HEADER_SIZE;
        uint8_t stored;
        if (kda_fit_read(fit, header + type_at, &stored, 1) != FIT_YES)
            continue;
        count->total++;
        count->plain += stored == process_type;
        count->by_value[(stored ^ (header >> 8) ^ process_type) & 0xff]++;
    }
}

struct type_check {
    uint32_t type_at;
    unsigned yes, no;
};

static unsigned type_of(const struct kda_fit *fit, uint64_t header, uint8_t stored)
{
    return fit->has_cookie ? (unsigned)(stored ^ (header >> 8) ^ fit->cookie) & 0xff : stored;
}

/* Every object behind a handle must have a type of the table. */
static void on_handle(struct kda_fit *fit, void *context, uint64_t header, uint64_t body)
{
    struct type_check *check = context;
    uint8_t stored;
    (void)body;
    if (kda_fit_read(fit, header + check->type_at, &stored, 1) != FIT_YES)
        return;
    unsigned type = type_of(fit, header, stored);
    check->yes += type >= 2 && (fit->types == 0 || type < fit->types);
    check->no += !(type >= 2 && (fit->types == 0 || type < fit->types));
}

/* The cookie: the value under which the headers of the processes have the type "Process", and all
 * other handles some type. */
static void find_cookie(struct kda_fit *fit)
{
    struct fit_votes *at = &fit->votes[F(OBJECT_HEADER, TypeIndex)];
    struct fit_votes *packed = &fit->votes[F(HANDLE_TABLE_ENTRY, ObjectPointerBits)];
    unsigned process_type = exported_type(fit, "PsProcessType");
    struct cookie_count count;
    if (process_type == 0)
        process_type = named_type(fit, "Process");
    if (process_type == 0 || at->count == 0)
        return;
    count_cookies(fit, at->place[0].offset, process_type, &count);
    unsigned best = 0;
    for (unsigned i = 1; i < 256; i++)
        if (count.by_value[i] > count.by_value[best])
            best = i;
    /* One process cannot tell the two forms apart, several cannot agree by chance. */
    if (count.total < 3 || count.plain * 8 >= count.total * 7)
        fit->has_cookie = false;
    else if (count.by_value[best] * 8 >= count.total * 7)
        fit->has_cookie = true;
    else
        return;
    fit->cookie = (uint8_t)best;
    struct type_check check = {at->place[0].offset, 0, 0};
    for (size_t i = 0; i < fit->process_count && check.yes + check.no < 4096; i++)
        if (fit->processes[i].table != 0)
            kda_fit_handles(fit, fit->processes[i].table, false, on_handle, &check);
    if (check.no * 8 > check.yes) {
        fit->has_cookie = false;
        return;
    }
    fit->types_known = true;
    at->place[0].yes += count.total + check.yes;
    at->place[0].no += check.no;
    for (size_t i = 0; i < packed->count; i++)
        packed->place[i].yes += check.yes;
}

void kda_fit_objects(struct kda_fit *fit)
{
    find_type_table(fit);
    if (fit->type_table != 0)
        vote_types(fit);
    find_cookie(fit);
}
