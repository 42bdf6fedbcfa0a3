/*
 * pe.c - PE images as they stand in memory: identity and exports.
 *
 * Source: Microsoft PE/COFF specification. RSDS record: debug directory entry of type 2
 * (CodeView): "RSDS", GUID, age, file name.
 */
#include <string.h>

#include "internal.h"

#define PE_MACHINE_X64 0x8664u
#define PE_MIN_KERNEL_SIZE 0x100000u /* the smallest surveyed kernel has 5.4 MiB */
#define PE_MAX_KERNEL_SIZE 0x8000000u
#define PE_MAX_DEBUG_ENTRIES 32u
#define PE_MAX_EXPORTS 65536u
#define PE_SECTION_HEADER 40u
#define SCN_DISCARDABLE 0x02000000u
#define SCN_EXECUTE 0x20000000u
#define SCN_WRITE 0x80000000u

/* PDB names of kernels. Source: docs/symbols.md (ntkrla57 from 24H2 on five-level machines). */
static const char *const kernel_pdbs[] = {"ntkrnlmp.pdb", "ntoskrnl.pdb", "ntkrla57.pdb",
                                          "ntkrnlpa.pdb", "ntkrpamp.pdb"};

enum kda_status kda_pe_read_in(struct kda_kernel *kernel, uint64_t dtb, uint64_t base,
                               struct kda_pe *pe, struct kda_error *err)
{
    uint8_t head[64];
    enum kda_status status = kda_read_in(kernel, dtb, base, head, sizeof(head), err);
    if (status != KDA_OK)
        return status;
    uint32_t nt = kda_le32(head + 0x3c);
    if (head[0] != 'M' || head[1] != 'Z' || nt < 0x40 || nt > 0x800)
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", base, "no PE image at 0x%016llx",
                           (unsigned long long)base);
    uint8_t h[0x108]; /* signature, file header, optional header up to the last directory */
    status = kda_read_in(kernel, dtb, base + nt, h, sizeof(h), err);
    if (status != KDA_OK)
        return status;
    if (memcmp(h, "PE\0\0", 4) != 0 || kda_le16(h + 24) != 0x20b)
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", base, "no 64-bit PE image at 0x%016llx",
                           (unsigned long long)base);
    memset(pe, 0, sizeof(*pe));
    pe->dtb = dtb;
    pe->machine = kda_le16(h + 4);
    pe->timestamp = kda_le32(h + 8);
    pe->size = kda_le32(h + 24 + 56);
    pe->checksum = kda_le32(h + 24 + 64);
    pe->section_count = kda_le16(h + 6);
    pe->sections_rva = nt + 24 + kda_le16(h + 20);
    uint32_t directories = kda_le32(h + 24 + 108);
    const uint8_t *dir = h + 24 + 112;
    if (directories > 0) {
        pe->export_rva = kda_le32(dir);
        pe->export_size = kda_le32(dir + 4);
    }
    if (directories > 1)
        pe->import_rva = kda_le32(dir + 8);
    if (directories > 6) {
        pe->debug_rva = kda_le32(dir + 6 * 8);
        pe->debug_size = kda_le32(dir + 6 * 8 + 4);
    }
    return KDA_OK;
}

enum kda_status kda_pe_read(struct kda_kernel *kernel, uint64_t base, struct kda_pe *pe,
                            struct kda_error *err)
{
    return kda_pe_read_in(kernel, kernel->info.dtb, base, pe, err);
}

static bool inside(const struct kda_pe *pe, uint32_t rva, uint32_t size)
{
    return rva != 0 && rva < pe->size && size <= pe->size - rva;
}

enum kda_status kda_pe_sections(struct kda_kernel *kernel, uint64_t base, const struct kda_pe *pe,
                                struct kda_section *ret, size_t *count, struct kda_error *err)
{
    size_t used = 0;
    uint32_t total = pe->section_count < KDA_MAX_SECTIONS ? pe->section_count : KDA_MAX_SECTIONS;
    for (uint32_t i = 0; i < total; i++) {
        uint8_t h[PE_SECTION_HEADER];
        enum kda_status status = kda_read_in(
            kernel, pe->dtb, base + pe->sections_rva + i * sizeof(h), h, sizeof(h), err);
        if (status != KDA_OK)
            return status;
        uint32_t size = kda_le32(h + 8), rva = kda_le32(h + 12), flags = kda_le32(h + 36);
        if (size == 0)
            size = kda_le32(h + 16);
        if (!inside(pe, rva, size))
            continue;
        struct kda_section *section = &ret[used++];
        memset(section, 0, sizeof(*section));
        memcpy(section->name, h, 8);
        section->rva = rva;
        section->size = size;
        section->writable = (flags & SCN_WRITE) != 0;
        section->executable = (flags & SCN_EXECUTE) != 0;
        section->discardable = (flags & SCN_DISCARDABLE) != 0;
    }
    *count = used;
    return KDA_OK;
}

static bool kernel_pdb_name(const char *name)
{
    for (size_t i = 0; i < sizeof(kernel_pdbs) / sizeof(kernel_pdbs[0]); i++)
        if (strcmp(name, kernel_pdbs[i]) == 0)
            return true;
    return false;
}

/* Copies the RSDS record's file name; folders are cut off (LLVM linkers store whole paths). */
static void copy_pdb_name(const uint8_t *bytes, size_t size, char out[KDA_PDB_NAME_MAX])
{
    size_t start = 0, end = 0;
    while (end < size && bytes[end] != 0) {
        if (bytes[end] == '\\' || bytes[end] == '/')
            start = end + 1;
        end++;
    }
    size_t used = 0;
    for (size_t i = start; i < end && used + 1 < KDA_PDB_NAME_MAX; i++) {
        uint8_t c = bytes[i];
        if (c < 0x20 || c >= 0x7f)
            break;
        out[used++] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c);
    }
    out[used] = '\0';
}

static enum kda_status read_rsds(struct kda_kernel *kernel, uint64_t base, const struct kda_pe *pe,
                                 struct kda_kernel_id *id, struct kda_error *err)
{
    uint32_t count = pe->debug_size / 28;
    if (!inside(pe, pe->debug_rva, pe->debug_size) || count > PE_MAX_DEBUG_ENTRIES)
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", base, "the image has no debug directory");
    for (uint32_t i = 0; i < count; i++) {
        uint8_t entry[28];
        enum kda_status status =
            kda_read_in(kernel, pe->dtb, base + pe->debug_rva + i * 28u, entry, sizeof(entry), err);
        if (status != KDA_OK)
            return status;
        uint32_t size = kda_le32(entry + 16), rva = kda_le32(entry + 20);
        if (kda_le32(entry + 12) != 2 || !inside(pe, rva, size) || size < 26)
            continue;
        uint8_t rsds[24 + KDA_PDB_NAME_MAX * 4];
        size_t take = size < sizeof(rsds) ? size : sizeof(rsds);
        status = kda_read_in(kernel, pe->dtb, base + rva, rsds, take, err);
        if (status != KDA_OK)
            return status;
        if (memcmp(rsds, "RSDS", 4) != 0)
            continue;
        memcpy(id->pdb_guid, rsds + 4, 16);
        id->pdb_age = kda_le32(rsds + 20);
        copy_pdb_name(rsds + 24, take - 24, id->pdb_name);
        id->has_pdb = true;
        return KDA_OK;
    }
    return kda_fail_at(err, KDA_BAD_DATA, "kernel", base, "the image has no CodeView record");
}

static bool export_says_kernel(struct kda_kernel *kernel, uint64_t base, const struct kda_pe *pe)
{
    uint8_t dir[40];
    char name[16];
    if (!inside(pe, pe->export_rva, sizeof(dir)) ||
        kda_read_in(kernel, pe->dtb, base + pe->export_rva, dir, sizeof(dir), NULL) != KDA_OK)
        return false;
    uint32_t rva = kda_le32(dir + 12);
    if (!inside(pe, rva, sizeof(name)) ||
        kda_read_in(kernel, pe->dtb, base + rva, name, sizeof(name), NULL) != KDA_OK)
        return false;
    return memcmp(name, "ntoskrnl.exe", 13) == 0 || memcmp(name, "ntkrnlmp.exe", 13) == 0 ||
           memcmp(name, "ntkrla57.exe", 13) == 0;
}

enum kda_status kda_pe_kernel_id(struct kda_kernel *kernel, uint64_t base, struct kda_kernel_id *id,
                                 struct kda_pe *pe, struct kda_error *err)
{
    struct kda_pe found;
    enum kda_status status = kda_pe_read(kernel, base, &found, err);
    if (status != KDA_OK)
        return status;
    if (found.size < PE_MIN_KERNEL_SIZE || found.size > PE_MAX_KERNEL_SIZE)
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", base,
                           "the image at 0x%016llx (0x%x bytes) has not the size of a kernel",
                           (unsigned long long)base, (unsigned)found.size);
    struct kda_kernel_id got;
    memset(&got, 0, sizeof(got));
    got.has_pe = true;
    got.pe_timestamp = found.timestamp;
    got.pe_size = found.size;
    struct kda_error rsds;
    enum kda_status named = read_rsds(kernel, base, &found, &got, &rsds);
    /* The CodeView page may be paged out; the export directory then names the image, and the
     * stamp and size identify the build. */
    if (!(named == KDA_OK && kernel_pdb_name(got.pdb_name)) &&
        !export_says_kernel(kernel, base, &found))
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", base,
                           "the image at 0x%016llx is not a Windows kernel (%s)",
                           (unsigned long long)base, named == KDA_OK ? got.pdb_name : rsds.text);
    if (found.machine != PE_MACHINE_X64)
        return kda_fail_at(err, KDA_UNSUPPORTED, "kernel", base,
                           "the kernel at 0x%016llx is for machine 0x%x; only x64 (0x8664) is read",
                           (unsigned long long)base, (unsigned)found.machine);
    *id = got;
    *pe = found;
    return KDA_OK;
}

enum kda_status kda_pe_export(struct kda_kernel *kernel, uint64_t base, const struct kda_pe *pe,
                              const char *name, uint64_t *va, struct kda_error *err)
{
    uint8_t dir[40];
    if (!inside(pe, pe->export_rva, sizeof(dir)))
        return kda_fail_at(err, KDA_ABSENT, "kernel", base, "the image has no export directory");
    enum kda_status status =
        kda_read_in(kernel, pe->dtb, base + pe->export_rva, dir, sizeof(dir), err);
    if (status != KDA_OK)
        return status;
    uint32_t functions = kda_le32(dir + 20), names = kda_le32(dir + 24);
    uint32_t function_rva = kda_le32(dir + 28), name_rva = kda_le32(dir + 32);
    uint32_t ordinal_rva = kda_le32(dir + 36);
    if (functions > PE_MAX_EXPORTS || names > PE_MAX_EXPORTS ||
        !inside(pe, function_rva, functions * 4) || !inside(pe, name_rva, names * 4) ||
        !inside(pe, ordinal_rva, names * 2))
        return kda_fail_at(err, KDA_BAD_DATA, "kernel", base, "the export directory is damaged");
    /* The name table is sorted: a search reads a handful of pages instead of all names. */
    size_t wanted = strlen(name) + 1;
    uint32_t low = 0, high = names;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint8_t word[4];
        char text[64] = {0};
        status = kda_read_in(kernel, pe->dtb, base + name_rva + middle * 4u, word, 4, err);
        if (status == KDA_OK && inside(pe, kda_le32(word), (uint32_t)wanted))
            status = kda_read_in(kernel, pe->dtb, base + kda_le32(word), text,
                                 wanted < sizeof(text) ? wanted : sizeof(text) - 1, err);
        if (status != KDA_OK)
            return status;
        int order = strncmp(text, name, sizeof(text) - 1);
        if (order == 0) {
            uint8_t ordinal[2];
            status =
                kda_read_in(kernel, pe->dtb, base + ordinal_rva + middle * 2u, ordinal, 2, err);
            if (status != KDA_OK)
                return status;
            if (kda_le16(ordinal) >= functions)
                break;
            status = kda_read_in(kernel, pe->dtb, base + function_rva + kda_le16(ordinal) * 4u,
                                 word, 4, err);
            if (status != KDA_OK)
                return status;
            if (!inside(pe, kda_le32(word), 1))
                break;
            *va = base + kda_le32(word);
            return KDA_OK;
        }
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return kda_fail_at(err, KDA_ABSENT, "kernel", base, "the kernel does not export %s", name);
}
