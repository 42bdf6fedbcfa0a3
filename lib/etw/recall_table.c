/*
 * recall_table.c - pages of handle tables: a table says up to which handle it has them.
 *
 * Source: NextHandleNeedingPool is the first handle value for which a table would need another
 * page; a page has 256 entries, and handle values count in fours.
 */
#include <string.h>

#include "recall_int.h"

#define PAGE_BYTES 4096u
#define PER_PAGE (PAGE_BYTES / 8u) /* pointers */
#define HANDLES_PER_PAGE 0x400u    /* values */
#define MAX_PAGES 65536u           /* of one table: 16 million handles */

struct pages {
    struct kda_kernel *kernel;
    bool ids;                  /* a page of zeros stands in tables of ids all the same (seen) */
    size_t wanted, met, there; /* entry pages: as the table says, come by, in the image */
    uint64_t missing;          /* the first that is not */
    enum kda_status reason;
};

static bool readable(struct pages *pages, uint64_t page, uint8_t bytes[PAGE_BYTES])
{
    enum kda_status status = KDA_BAD_DATA;
    if (kda_is_kernel_va(pages->kernel, page) && page % PAGE_BYTES == 0)
        status = pages->ids ? kda_read_in(pages->kernel, kda_kernel_info(pages->kernel)->dtb, page,
                                          bytes, PAGE_BYTES, NULL)
                            : kda_read(pages->kernel, page, bytes, PAGE_BYTES, NULL);
    if (status != KDA_OK && pages->reason == KDA_OK) {
        pages->reason = status;
        pages->missing = page;
    }
    return status == KDA_OK;
}

/* At most three levels; a page of pointers covers `span` entry pages. */
static void descend(struct pages *pages, uint64_t page, unsigned level)
{
    uint8_t bytes[PAGE_BYTES];
    size_t span = level == 2 ? PER_PAGE * PER_PAGE : level == 1 ? PER_PAGE : 1;
    if (!readable(pages, page, bytes)) {
        pages->met += span;
        return;
    }
    if (level == 0) {
        pages->met++;
        pages->there++;
        return;
    }
    for (size_t i = 0; i < PER_PAGE && pages->met < pages->wanted; i++)
        descend(pages, kda_le64(bytes + i * 8), level - 1);
}

/* True when the table says how many pages it has. */
static bool count_table(struct kda_kernel *kernel, uint64_t table, bool cid, struct pages *pages)
{
    uint64_t code, next;
    *pages = (struct pages){.kernel = kernel, .ids = cid};
    if (kda_read_field(kernel, table, KDA_F_HANDLE_TABLE_TableCode, &code, NULL) != KDA_OK ||
        kda_read_field(kernel, table, KDA_F_HANDLE_TABLE_NextHandleNeedingPool, &next, NULL) !=
            KDA_OK ||
        next == 0 || next % HANDLES_PER_PAGE != 0 || next / HANDLES_PER_PAGE > MAX_PAGES ||
        (code & 3) > 2)
        return false;
    pages->wanted = next / HANDLES_PER_PAGE;
    descend(pages, code & ~(uint64_t)3, (unsigned)(code & 3));
    return true;
}

static void add(struct kda_recall_item *item, const struct pages *pages)
{
    item->lists++;
    item->whole += pages->there >= pages->wanted;
    item->counted += pages->wanted;
    item->found += pages->there < pages->wanted ? pages->there : pages->wanted;
    if (pages->there >= pages->wanted || item->state != KDA_RECALL_COMPLETE)
        return;
    item->state = KDA_RECALL_BROKEN;
    item->reason = pages->reason;
    item->broken_va[0] = pages->missing;
}

static void ids(struct kda_recall *recall)
{
    struct kda_kernel *kernel = recall->kernel;
    uint64_t global = kda_symbol_va(kernel, KDA_SYM_PspCidTable), table;
    struct kda_recall_item *item = kda_recall_add(recall, "PspCidTable", "table page", global);
    uint8_t bytes[8];
    struct pages pages;
    if (global == 0)
        return;
    item->reason = kda_read(kernel, global, bytes, sizeof(bytes), NULL);
    if (item->reason != KDA_OK) {
        item->state = KDA_RECALL_MISSING;
        item->uncounted = "the table is not in the image";
        return;
    }
    item->va = table = kda_le64(bytes);
    if (!count_table(kernel, table, true, &pages)) {
        item->state = KDA_RECALL_UNKNOWN;
        item->uncounted = "the table does not say how many pages it has";
        return;
    }
    add(item, &pages);
    item->lists = item->whole = 0; /* it is one */
    item->has_found = item->has_count = true;
    item->count_va = table + kda_field_offset(kernel, KDA_F_HANDLE_TABLE_NextHandleNeedingPool);
}

void kda_recall_tables(struct kda_recall *recall)
{
    const struct kda_process *processes;
    size_t count, silent = 0;
    ids(recall);
    if (kda_processes(recall->kernel, &processes, &count, NULL) != KDA_OK)
        return;
    struct kda_recall_item *item = kda_recall_add(recall, "EPROCESS.ObjectTable", "table page", 0);
    if (!kda_has_field(recall->kernel, KDA_F_HANDLE_TABLE_NextHandleNeedingPool)) {
        item->uncounted = "this build's layout does not say how many pages a table has";
        return;
    }
    item->state = KDA_RECALL_COMPLETE;
    for (size_t i = 0; i < count; i++) {
        struct pages pages;
        if (processes[i].handle_table == 0)
            continue;
        if (count_table(recall->kernel, processes[i].handle_table, false, &pages))
            add(item, &pages);
        else if (silent++ == 0 && item->broken_va[0] == 0)
            item->broken_va[0] = processes[i].handle_table;
    }
    item->has_found = item->lists > 0;
    item->has_count = item->lists > 0;
    item->lists += silent;
    kda_recall_group(item);
    if (silent > 0)
        item->uncounted = "tables that cannot be read do not say how many pages they have";
}
