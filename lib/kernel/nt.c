/*
 * nt.c - what the kernel's own PE image tells without symbols: sections, exports, debugger block.
 */
#include <string.h>

#include "internal.h"

#define SECTION_HEADER 40u
#define SCN_EXECUTE 0x20000000u
#define SCN_DISCARDABLE 0x02000000u
#define SCN_WRITE 0x80000000u

/* Sizes of the debugger data block over all builds. Source: docs/kernel.md. */
#define KDBG_MIN 0x300u
#define KDBG_MAX 0x1000u

static void read_section(const uint8_t *h, struct kda_section *section)
{
    uint32_t flags = kda_le32(h + 36);
    memcpy(section->name, h, 8);
    section->name[8] = '\0';
    section->size = kda_le32(h + 8);
    section->rva = kda_le32(h + 12);
    section->writable = (flags & SCN_WRITE) != 0;
    section->executable = (flags & SCN_EXECUTE) != 0;
    section->discardable = (flags & SCN_DISCARDABLE) != 0;
}

enum kda_status kda_kernel_sections(struct kda_kernel *kernel, struct kda_section *sections,
                                    size_t max, size_t *count, struct kda_error *err)
{
    uint64_t base = kernel->info.base;
    struct kda_pe pe;
    uint8_t word[4], head[24];
    enum kda_status status = kda_pe_read(kernel, base, &pe, err);
    if (status == KDA_OK)
        status = kda_read(kernel, base + 0x3c, word, sizeof(word), err);
    uint64_t nt = status == KDA_OK ? base + kda_le32(word) : 0;
    if (status == KDA_OK)
        status = kda_read(kernel, nt, head, sizeof(head), err);
    if (status != KDA_OK)
        return status;
    uint16_t number = kda_le16(head + 6), optional = kda_le16(head + 20);
    if (number == 0 || number > KDA_MAX_SECTIONS)
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", nt, "the kernel says it has %u sections",
                           number);
    uint64_t at = nt + sizeof(head) + optional;
    size_t used = 0;
    for (uint16_t i = 0; i < number && used < max; i++, at += SECTION_HEADER) {
        uint8_t h[SECTION_HEADER];
        status = kda_read(kernel, at, h, sizeof(h), err);
        if (status != KDA_OK)
            return status;
        read_section(h, &sections[used]);
        if (sections[used].rva < pe.size && sections[used].size <= pe.size - sections[used].rva)
            used++;
    }
    *count = used;
    return KDA_OK;
}

enum kda_status kda_kernel_export(struct kda_kernel *kernel, const char *name, uint64_t *va,
                                  struct kda_error *err)
{
    struct kda_pe pe;
    enum kda_status status = kda_pe_read(kernel, kernel->info.base, &pe, err);
    return status == KDA_OK ? kda_pe_export(kernel, kernel->info.base, &pe, name, va, err) : status;
}

enum kda_status kda_kernel_kdbg_field(struct kda_kernel *kernel, uint32_t offset, uint64_t *value,
                                      struct kda_error *err)
{
    uint64_t block = kernel->info.kdbg_va;
    uint8_t head[16], bytes[8];
    if (block == 0)
        return kda_fail(err, KDA_ABSENT, "kernel", "no debugger data block is known");
    enum kda_status status = kda_read(kernel, block + 0x10, head, sizeof(head), err);
    if (status != KDA_OK)
        return status;
    uint32_t size = kda_le32(head + 4);
    if (memcmp(head, "KDBG", 4) != 0 || kda_le64(head + 8) != kernel->info.base ||
        size < KDBG_MIN || size > KDBG_MAX)
        return kda_fail_at(err, KDA_ABSENT, "kernel", block, "the debugger data block is encoded");
    if (offset > size - sizeof(bytes))
        return kda_fail_at(err, KDA_ABSENT, "kernel", block,
                           "the debugger data block has 0x%x bytes", (unsigned)size);
    status = kda_read(kernel, block + offset, bytes, sizeof(bytes), err);
    if (status == KDA_OK)
        *value = kda_le64(bytes);
    return status;
}
