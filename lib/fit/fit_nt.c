/*
 * fit_nt.c - the kernel's data sections: read once, page by page, then searched in memory.
 */
#include <string.h>

#include "fit_int.h"

#define PAGE KDA_PAGE_SIZE
#define PEEK 0x70u         /* bytes looked at behind every pointer: a registration's size */
#define SURVEY_MAX 262144u /* distinct pointers followed */

static bool load_page(struct kda_fit *fit, uint32_t rva, size_t *capacity)
{
    struct fit_data *data = &fit->data;
    uint8_t page[PAGE];
    if (kda_fit_read(fit, fit->base + rva, page, PAGE) != FIT_YES)
        return true;
    if (data->pages == FIT_MAX_PAGES)
        return true;
    size_t room = *capacity;
    void *bytes = data->bytes, *rvas = data->rva;
    if (!kda_grow(&bytes, &room, data->pages + 1, PAGE, FIT_MAX_PAGES))
        return false;
    data->bytes = bytes;
    room = *capacity;
    if (!kda_grow(&rvas, &room, data->pages + 1, sizeof(*data->rva), FIT_MAX_PAGES))
        return false;
    data->rva = rvas;
    *capacity = room;
    memcpy(data->bytes + data->pages * PAGE, page, PAGE);
    data->rva[data->pages++] = rva;
    return true;
}

bool kda_fit_load_data(struct kda_fit *fit)
{
    struct kda_section sections[KDA_MAX_SECTIONS];
    size_t count, capacity = 0;
    if (kda_kernel_sections(fit->kernel, sections, &count, NULL) != KDA_OK) {
        /* The header page is missing: the whole image may be data. */
        memset(&sections[0], 0, sizeof(sections[0]));
        sections[0].size = (uint32_t)(fit->end - fit->base);
        sections[0].writable = true;
        count = 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (!sections[i].writable || (sections[i].discardable && sections[i].executable))
            continue;
        uint32_t first = sections[i].rva & ~(PAGE - 1);
        for (uint64_t rva = first; rva < (uint64_t)sections[i].rva + sections[i].size; rva += PAGE)
            if (!load_page(fit, (uint32_t)rva, &capacity))
                return false;
    }
    return true;
}

uint64_t kda_fit_find_qword(const struct kda_fit *fit, uint64_t value, uint64_t from)
{
    for (size_t p = 0; p < fit->data.pages; p++) {
        const uint8_t *page = fit->data.bytes + p * PAGE;
        uint64_t va = fit->base + fit->data.rva[p];
        for (size_t off = 0; off < PAGE; off += 8)
            if (kda_le64(page + off) == value && va + off > from)
                return va + off;
    }
    return 0;
}

/* State, CurrentOffset, SavedOffset, GlobalEntry and ReferenceCount of _WMI_BUFFER_HEADER: the
 * same in all surveyed builds. They stand two bytes into EtwpDebuggerData, which is aligned. */
size_t kda_fit_find_pattern(const struct kda_fit *fit, uint64_t *ret, size_t max)
{
    static const uint8_t pattern[5] = {0x2c, 0x08, 0x04, 0x38, 0x0c};
    size_t count = 0;
    for (size_t p = 0; p < fit->data.pages && count < max; p++) {
        const uint8_t *page = fit->data.bytes + p * PAGE;
        for (size_t off = 0; off + 8 <= PAGE && count < max; off += 4)
            if (memcmp(page + off + 2, pattern, sizeof(pattern)) == 0)
                ret[count++] = fit->base + fit->data.rva[p] + off;
    }
    return count;
}

uint64_t kda_fit_export_pointer(const struct kda_fit *fit, const char *name, uint64_t *global)
{
    uint64_t at, value;
    if (kda_kernel_export(fit->kernel, name, &at, NULL) != KDA_OK)
        return 0;
    if (global)
        *global = at;
    return kda_fit_u64(fit, at, &value) == FIT_YES && kda_fit_is_pool(fit, value) ? value : 0;
}

/* A pointer at `at` to a state whose globals hold that very pointer. */
static void look_for_state(struct kda_fit *fit, uint64_t at, uint64_t state, const uint8_t *peek)
{
    const struct fit_votes *globals = &fit->votes[F(ETW_SILODRIVERSTATE, SiloGlobals)];
    const struct fit_votes *member = &fit->votes[F(ESERVERSILO_GLOBALS, EtwSiloState)];
    for (size_t g = 0; g < globals->count; g++) {
        uint64_t back = kda_le64(peek + globals->place[g].offset);
        for (size_t m = 0; m < member->count; m++) {
            if (back + member->place[m].offset != at || !kda_fit_in_nt(fit, back))
                continue;
            if (fit->self_named_count < FIT_MAX_STATES)
                fit->self_named[fit->self_named_count++] = state;
            return;
        }
    }
}

/* TableCode stands first on Windows 7 and at 8 since; what it leads to must be ids. */
static void look_for_cid(struct kda_fit *fit, uint64_t at, uint64_t table, const uint8_t *peek)
{
    const struct fit_votes *code = &fit->votes[F(HANDLE_TABLE, TableCode)];
    for (size_t i = 0; i < code->count && fit->cid_global == 0; i++) {
        uint64_t value = kda_le64(peek + code->place[i].offset);
        if ((value & 3) < 3 && (value & 0xffc) == 0 &&
            kda_fit_is_pool(fit, value & ~(uint64_t)0xfff) && kda_fit_is_cid(fit, table))
            fit->cid_global = at;
    }
}

/* Handles that the kernel keeps for its own providers: Threat-Intelligence and Kernel-Process. */
static const uint8_t own_guids[2][16] = {
    {0x7c, 0x89, 0xe1, 0xf4, 0x5d, 0xbb, 0x68, 0x56, 0xf1, 0xd8, 0x04, 0x0f, 0x4d, 0x8d, 0xd3,
     0x44},
    {0xd6, 0x2c, 0xfb, 0x22, 0x7b, 0x0e, 0x2b, 0x42, 0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7,
     0x16},
};

static void look_for_registration(struct kda_fit *fit, uint64_t at, const uint8_t *peek)
{
    const struct fit_votes *guids = &fit->votes[F(ETW_GUID_ENTRY, Guid)];
    uint64_t entry = kda_le64(peek + 0x20);
    uint16_t flags = kda_le16(peek + 0x62);
    uint8_t guid[16];
    if (!kda_fit_is_pool(fit, entry) || !kda_is_kernel_va(fit->kernel, kda_le64(peek)) ||
        !kda_is_kernel_va(fit->kernel, kda_le64(peek + 8)) || (flags & 3) != 1)
        return;
    for (size_t i = 0; i < guids->count; i++) {
        if (kda_fit_read(fit, entry + guids->place[i].offset, guid, sizeof(guid)) != FIT_YES)
            continue;
        for (size_t k = 0; k < 2; k++)
            if (memcmp(guid, own_guids[k], sizeof(guid)) == 0 && fit->reg_handle[k] == 0)
                fit->reg_handle[k] = at;
    }
}

void kda_fit_survey(struct kda_fit *fit)
{
    struct kda_map seen;
    kda_map_init(&seen);
    for (size_t p = 0; p < fit->data.pages && !fit->out_of_memory; p++) {
        for (size_t off = 0; off < PAGE && seen.count < SURVEY_MAX; off += 8) {
            uint64_t at = fit->base + fit->data.rva[p] + off;
            uint64_t value = kda_le64(fit->data.bytes + p * PAGE + off);
            uint8_t peek[PEEK];
            uint64_t readable;
            if (!kda_fit_is_pool(fit, value))
                continue;
            /* Two globals may hold one state, and only one of them is the one that it names. */
            if (kda_map_get(&seen, value, &readable) && !readable)
                continue;
            readable = kda_fit_read(fit, value, peek, sizeof(peek)) == FIT_YES;
            if (!kda_map_put(&seen, value, readable)) {
                fit->out_of_memory = true;
                break;
            }
            if (!readable)
                continue;
            look_for_state(fit, at, value, peek);
            if (fit->cid_global == 0)
                look_for_cid(fit, at, value, peek);
            look_for_registration(fit, at, peek);
        }
    }
    kda_map_deinit(&seen);
}
