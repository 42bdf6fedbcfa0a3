/*
 * process_proof.c - does a process stand at this address? What leads here may be a link that was
 * torn, moved by a few bytes or overwritten, and the page may hold something else by now.
 */
#include <string.h>

#include "internal.h"

#define OBJECT_HEADER_SIZE 0x30u
#define PROCESS_OBJECT 3u /* KOBJECTS.ProcessObject in DISPATCHER_HEADER.Type; wdm.h */
/* Ids are handles of the CID table, and a handle table ends at 2^24; Windows Internals, "Handle
 * limits". */
#define MAX_PID 0x4000000u

static uint64_t page_of(uint64_t va)
{
    return va / KDA_PAGE_SIZE;
}

static void weigh(struct kda_proof *proof, uint64_t at, bool good)
{
    uint64_t piece = page_of(at) - proof->first_page;
    if (piece >= KDA_PROOF_PIECES)
        return;
    proof->good += good;
    proof->bad += !good;
    proof->piece[piece].good += good;
    proof->piece[piece].bad += !good;
}

static bool get(struct kda_kernel *kernel, uint64_t va, enum kda_field_id field, uint64_t *ret)
{
    return kda_has_field(kernel, field) && kda_read_field(kernel, va, field, ret, NULL) == KDA_OK;
}

static void weigh_header(struct kda_kernel *kernel, uint64_t va, struct kda_proof *proof)
{
    uint8_t type, wanted, dispatcher;
    uint64_t header = va - OBJECT_HEADER_SIZE;
    if (kda_process_type(kernel, &wanted, NULL) == KDA_OK) {
        enum kda_status status = kda_object_type(kernel, header, &type, NULL);
        if (status == KDA_OK || status == KDA_BAD_DATA)
            weigh(proof, header, status == KDA_OK && type == wanted);
    }
    if (kda_read(kernel, va, &dispatcher, 1, NULL) == KDA_OK)
        weigh(proof, va, (dispatcher & 0x7f) == PROCESS_OBJECT);
}

/* A link to itself names the object as its neighbours do. */
static void weigh_links(struct kda_kernel *kernel, uint64_t va, struct kda_proof *proof)
{
    uint32_t offset = kda_field_offset(kernel, KDA_F_EPROCESS_ActiveProcessLinks);
    uint8_t link[16], back[8];
    unsigned named = 0, asked = 0;
    uint64_t at = va + offset;
    if (offset == KDA_NONE || kda_read(kernel, at, link, sizeof(link), NULL) != KDA_OK)
        return;
    for (unsigned side = 0; side < 16; side += 8) {
        uint64_t neighbour = kda_le64(link + side);
        enum kda_status status = kda_is_kernel_va(kernel, neighbour)
                                     ? kda_read(kernel, neighbour + (8 - side), back, 8, NULL)
                                     : KDA_UNMAPPED;
        if (status != KDA_OK && status != KDA_UNMAPPED)
            continue;
        asked++;
        named += status == KDA_OK && kda_le64(back) == at;
    }
    if (asked > 0)
        weigh(proof, at, named > 0);
}

/* The handle table names its process; System's names none. */
static void weigh_table(struct kda_kernel *kernel, uint64_t va, struct kda_proof *proof)
{
    uint64_t table, owner;
    if (!get(kernel, va, KDA_F_EPROCESS_ObjectTable, &table) || table == 0)
        return;
    uint64_t at = va + kda_field_offset(kernel, KDA_F_EPROCESS_ObjectTable);
    if (!kda_is_kernel_va(kernel, table))
        weigh(proof, at, false);
    else if (get(kernel, table, KDA_F_HANDLE_TABLE_QuotaProcess, &owner) && owner != 0)
        weigh(proof, at, owner == va);
}

bool kda_pid_possible(uint64_t pid)
{
    return pid % 4 == 0 && pid < MAX_PID;
}

/* Numbers that no process has speak against it; others do not speak for it. */
static void weigh_numbers(struct kda_kernel *kernel, uint64_t va, struct kda_proof *proof)
{
    uint64_t pid, root;
    if (get(kernel, va, KDA_F_EPROCESS_UniqueProcessId, &pid) && !kda_pid_possible(pid))
        weigh(proof, va + kda_field_offset(kernel, KDA_F_EPROCESS_UniqueProcessId), false);
    if (get(kernel, va, KDA_F_KPROCESS_DirectoryTableBase, &root) &&
        (root & 0x000ffffffffff000u) >= kda_image_info(kernel->image)->max_pa)
        weigh(proof, va + kda_field_offset(kernel, KDA_F_KPROCESS_DirectoryTableBase), false);
}

void kda_process_prove(struct kda_kernel *kernel, uint64_t va, struct kda_proof *proof)
{
    memset(proof, 0, sizeof(*proof));
    proof->first_page = page_of(va - OBJECT_HEADER_SIZE);
    weigh_header(kernel, va, proof);
    weigh_links(kernel, va, proof);
    weigh_table(kernel, va, proof);
    weigh_numbers(kernel, va, proof);
}

bool kda_proof_doubts(const struct kda_proof *proof, uint64_t va)
{
    uint64_t piece = page_of(va) - proof->first_page;
    return piece < KDA_PROOF_PIECES && proof->piece[piece].bad > proof->piece[piece].good;
}
