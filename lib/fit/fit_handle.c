/*
 * fit_handle.c - handle tables and the table of ids, without symbols.
 */
#include <string.h>

#include "fit_int.h"

#define ENTRY_SIZE 16u
#define ENTRIES 256u
#define POINTERS 512u
#define POINTER_BIT 20u /* _HANDLE_TABLE_ENTRY.ObjectPointerBits, since 8.1 */
#define MAX_TABLE_PAGES 65536u
#define MAX_ID_PAGES 256u

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
                         walk->cid ? object : object + FIT_OBJECT_HEADER);
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
