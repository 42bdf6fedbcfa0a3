/*
 * user.c - modules of a process and what they export, from its own memory.
 *
 * Everything here was written by the process itself: nothing of it is trusted, and what is missing
 * is only "not known".
 *
 * Source: _PEB.Ldr at 0x18 and _PEB_LDR_DATA.InLoadOrderModuleList at 0x10 in every x64 Windows
 * (winternl.h gives the same order); loader entries by the layout, else at the offsets that all of
 * these builds share.
 */
#include <string.h>

#include "internal.h"

#include "base/text.h"

#define PEB_LDR 0x18u
#define LDR_MODULES 0x10u
#define ENTRY_BASE 0x30u
#define ENTRY_SIZE 0x40u
#define ENTRY_NAME 0x58u
#define ENTRY_BYTES 0x68u
#define MAX_USER_MODULES 512u
#define MAX_NAME_BYTES 256u
#define USER_TOP 0x00007fffffff0000u

static enum kda_status read_user(struct kda_kernel *kernel, const struct kda_process *process,
                                 uint64_t va, void *buf, size_t size, struct kda_error *err)
{
    if (va < 0x10000 || va > USER_TOP)
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", va, "0x%016llx is no user address",
                           (unsigned long long)va);
    return kda_read_in(kernel, process->dtb, va, buf, size, err);
}

static bool same_name(struct kda_kernel *kernel, const struct kda_process *process,
                      const uint8_t *entry, const char *name)
{
    uint8_t bytes[MAX_NAME_BYTES];
    char text[KDA_UTF8_MAX(MAX_NAME_BYTES / 2) + 1];
    uint16_t size = kda_le16(entry + ENTRY_NAME);
    if (size > sizeof(bytes) || size % 2 != 0 ||
        read_user(kernel, process, kda_le64(entry + ENTRY_NAME + 8), bytes, size, NULL) != KDA_OK)
        return false;
    kda_utf16_to_utf8(bytes, size / 2u, false, text, sizeof(text));
    return kda_same_nocase(text, name);
}

enum kda_status kda_process_module(struct kda_kernel *kernel, const struct kda_process *process,
                                   const char *name, uint64_t *base, uint32_t *size,
                                   struct kda_error *err)
{
    uint64_t peb;
    uint8_t pointer[8];
    if (process->dtb == 0)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "the process's page tables are not known");
    enum kda_status status = kda_read_field(kernel, process->va, KDA_F_EPROCESS_Peb, &peb, err);
    if (status == KDA_OK && peb == 0)
        return kda_fail(err, KDA_ABSENT, "kernel", "the process has no user memory");
    if (status == KDA_OK)
        status = read_user(kernel, process, peb + PEB_LDR, pointer, sizeof(pointer), err);
    if (status != KDA_OK)
        return status;
    uint64_t head = kda_le64(pointer) + LDR_MODULES;
    status = read_user(kernel, process, head, pointer, sizeof(pointer), err);
    for (unsigned i = 0; status == KDA_OK && i < MAX_USER_MODULES; i++) {
        uint8_t entry[ENTRY_BYTES];
        uint64_t link = kda_le64(pointer);
        if (link == head)
            return kda_fail(err, KDA_ABSENT, "kernel", "the process has no module %s", name);
        status = read_user(kernel, process, link, entry, sizeof(entry), err);
        if (status != KDA_OK)
            break;
        if (same_name(kernel, process, entry, name)) {
            *base = kda_le64(entry + ENTRY_BASE);
            *size = kda_le32(entry + ENTRY_SIZE);
            return KDA_OK;
        }
        memcpy(pointer, entry, sizeof(pointer));
    }
    return status != KDA_OK ? status
                            : kda_fail(err, KDA_BAD_DATA, "kernel",
                                       "the process's list of modules does not end");
}

enum kda_status kda_process_export(struct kda_kernel *kernel, const struct kda_process *process,
                                   uint64_t base, const char *name, uint64_t *va,
                                   struct kda_error *err)
{
    struct kda_pe pe;
    enum kda_status status = kda_pe_read_in(kernel, process->dtb, base, &pe, err);
    return status == KDA_OK ? kda_pe_export(kernel, base, &pe, name, va, err) : status;
}
