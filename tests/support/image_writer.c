#include "image_writer.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

void page_pattern(uint64_t pfn, uint8_t page[4096])
{
    for (size_t i = 0; i < 512; i++)
        kda_put_le64(page + 8 * i, (pfn << 16 | i) * 0x9E3779B97F4A7C15u);
}

void blob_put_pages(struct blob *blob, const struct range *ranges, size_t n)
{
    uint8_t page[4096];
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = 0; k < ranges[i].count; k++) {
            page_pattern(ranges[i].pfn + k, page);
            blob_put(blob, page, sizeof(page));
        }
}

static uint64_t page_total(const struct range *ranges, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += ranges[i].count;
    return sum;
}

void write_dmp_header(struct blob *blob, uint32_t type)
{
    size_t base = blob->size;
    for (size_t i = 0; i < 0x2000 / 4; i++)
        blob_put(blob, "PAGE", 4);
    memcpy(blob->data + base, "PAGEDU64", 8);
    blob_set32(blob, base + 0x08, 15);
    blob_set32(blob, base + 0x0C, 19041);
    blob_set64(blob, base + 0x10, TEST_DTB | 2);
    blob_set64(blob, base + 0x20, 0xFFFFF80000001000u);
    blob_set64(blob, base + 0x28, 0xFFFFF80000002000u);
    blob_set32(blob, base + 0x30, 0x8664);
    blob_set32(blob, base + 0x34, 4);
    blob_set32(blob, base + 0x38, 0xD1);
    for (size_t i = 0; i < 4; i++)
        blob_set64(blob, base + 0x40 + 8 * i, 0x1111u * (i + 1));
    blob_set64(blob, base + 0x80, 0xFFFFF80000003000u);
    blob_set32(blob, base + 0xF98, type);
    blob_set64(blob, base + 0xFA8, TEST_TIME);
}

void write_raw(struct blob *blob, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        blob_pad(blob, (size_t)ranges[i].pfn * 4096);
        blob_put_pages(blob, &ranges[i], 1);
    }
}

void write_dmp_full(struct blob *blob, const struct range *ranges, size_t n)
{
    write_dmp_header(blob, 1);
    blob_set32(blob, 0x88, (uint32_t)n);
    blob_set64(blob, 0x90, page_total(ranges, n));
    for (size_t i = 0; i < n; i++) {
        blob_set64(blob, 0x98 + 16 * i, ranges[i].pfn);
        blob_set64(blob, 0xA0 + 16 * i, ranges[i].count);
    }
    blob_put_pages(blob, ranges, n);
}

void write_dmp_bitmap(struct blob *blob, uint32_t type, const char *tag, const struct range *ranges,
                      size_t n)
{
    uint64_t bits = ranges[n - 1].pfn + ranges[n - 1].count;
    size_t length = (size_t)(bits + 7) / 8;
    write_dmp_header(blob, type);
    blob_put(blob, tag, 4);
    blob_put(blob, "DUMP", 4);
    blob_pad(blob, 0x2020);
    blob_put64(blob, 0x2038 + length);
    blob_put64(blob, page_total(ranges, n));
    blob_put64(blob, bits);
    size_t base = blob->size;
    blob_put(blob, NULL, length);
    for (size_t i = 0; i < n; i++)
        for (uint64_t k = ranges[i].pfn; k < ranges[i].pfn + ranges[i].count; k++)
            blob->data[base + k / 8] |= (uint8_t)(1u << k % 8);
    blob_put_pages(blob, ranges, n);
}

void write_dmp_rdmp(struct blob *blob, uint32_t type, const struct range *ranges, size_t n,
                    size_t slack)
{
    write_dmp_header(blob, type);
    uint64_t metadata = 0x10 + 16 * n + slack;
    blob_put32(blob, 0x40);
    blob_put(blob, "RDMPDUMP", 8);
    blob_put32(blob, 0);
    blob_put64(blob, metadata);
    blob_put64(blob, 0x2020 + metadata);
    blob_put32(blob, (uint32_t)n);
    blob_put32(blob, 0);
    blob_put64(blob, type == 0xA ? page_total(ranges, n) : 0);
    for (size_t i = 0; i < n; i++) {
        blob_put64(blob, ranges[i].pfn);
        blob_put64(blob, ranges[i].count);
    }
    blob_pad(blob, (size_t)(0x2020 + metadata));
    blob_put_pages(blob, ranges, n);
}

/* A driver entry of x64 whose name stands at `name_off`. */
static void put_driver(struct blob *blob, uint32_t name_off, uint64_t base, uint32_t size,
                       uint32_t stamp)
{
    size_t at = blob->size;
    blob_put(blob, NULL, 0x90);
    blob_set32(blob, at, name_off);
    blob_set64(blob, at + 0x38, base);
    blob_set32(blob, at + 0x48, size);
    blob_set32(blob, at + 0x80, 0x1234);
    blob_set32(blob, at + 0x88, stamp);
}

static uint32_t put_string(struct blob *blob, const char *text)
{
    uint32_t at = (uint32_t)blob->size;
    blob_put32(blob, (uint32_t)strlen(text));
    for (; *text; text++)
        blob_put16(blob, (uint8_t)*text);
    blob_put16(blob, 0);
    return at;
}

/* Everything that the reader looks at, with the EPROCESS form of 26100. */
void write_dmp_triage(struct blob *blob)
{
    const uint64_t process_va = 0xFFFFBF82E8692040u;
    write_dmp_header(blob, 4);
    blob_pad(blob, 0x2080);
    uint32_t names[2] = {put_string(blob, "ntoskrnl.exe"), put_string(blob, "hal.dll")};
    uint32_t drivers = (uint32_t)blob->size;
    put_driver(blob, names[0], 0xFFFFF80000000000u, 0x1450000, 0x4473D78D);
    put_driver(blob, names[1], 0xFFFFF80002000000u, 0x6000, 0x11223344);
    uint32_t process = (uint32_t)blob->size;
    blob_put(blob, NULL, 0x360);
    for (size_t list = 8; list <= 0x18; list += 0x10) {
        blob_set64(blob, process + list, process_va + list);
        blob_set64(blob, process + list + 8, process_va + list);
    }
    blob_set64(blob, process + 0x1D0, 4);
    blob_set64(blob, process + 0x1D8, 0xFFFFF80000002000u);
    blob_set64(blob, process + 0x1E0, 0xFFFFF80000002000u);
    memcpy(blob->data + process + 0x338, "System", 6);
    uint32_t thread = (uint32_t)blob->size;
    blob_put(blob, NULL, 0xC0);
    blob_set64(blob, thread + 0xB8, process_va);
    uint32_t kdbg = (uint32_t)blob->size;
    blob_put(blob, NULL, 0x2C0);
    memcpy(blob->data + kdbg + 0x10, "KDBG", 4);
    blob_set32(blob, kdbg + 0x14, 0x2C0);
    blob_set64(blob, kdbg + 0x18, 0xFFFFF80000000000u);
    blob_set32(blob, kdbg + 0x2A8, 0x360);
    blob_set32(blob, kdbg + 0x2AC, 0x2D0);
    uint32_t data = (uint32_t)blob->size;
    blob_put(blob, "abcdefghijklmnopqrstuvwxyz", 26);
    uint32_t blocks = (uint32_t)blob->size;
    const uint32_t pieces[][3] = {{0, 0, 10}, {10, 10, 16}, {100, 0, 1}};
    for (size_t i = 0; i < 3; i++) {
        blob_put64(blob, 0xFFFFF80000400000u + pieces[i][0]);
        blob_put32(blob, data + pieces[i][1]);
        blob_put32(blob, pieces[i][2]);
    }
    uint32_t end = (uint32_t)blob->size;
    blob_put(blob, "TRGD", 4);
    const uint32_t directory[][2] = {
        {0x2004, end + 4}, {0x2008, end},  {0x2020, process}, {0x2024, thread}, {0x2030, drivers},
        {0x2034, 2},       {0x2070, kdbg}, {0x2074, 0x2C0},   {0x2078, blocks}, {0x207C, 3}};
    for (size_t i = 0; i < sizeof(directory) / sizeof(directory[0]); i++)
        blob_set32(blob, directory[i][0], directory[i][1]);
}

static void put_note(struct blob *blob, const char *owner, const uint8_t *desc, uint32_t size)
{
    uint32_t length = (uint32_t)strlen(owner) + 1;
    blob_put32(blob, length);
    blob_put32(blob, size);
    blob_put32(blob, 0);
    blob_put(blob, owner, length);
    blob_put(blob, NULL, (4 - length % 4) % 4);
    blob_put(blob, desc, size);
    blob_put(blob, NULL, (4 - size % 4) % 4);
}

static void put_notes(struct blob *blob, enum elf_flavour flavour)
{
    uint8_t cpu[0x1B8] = {0};
    if (flavour == ELF_VBOX) {
        kda_put_le16(cpu + 0xA0, 0x10);
        kda_put_le64(cpu + 0x120, 0x80050033u);
        kda_put_le64(cpu + 0x130, TEST_DTB);
        put_note(blob, "VBCORE", cpu, 24);
        put_note(blob, "VBCPU", cpu, 0x1A0);
        return;
    }
    put_note(blob, "CORE", cpu, 0x90);
    kda_put_le32(cpu, 1);
    kda_put_le32(cpu + 4, sizeof(cpu));
    kda_put_le32(cpu + 0x98, 0x33);
    kda_put_le64(cpu + 0x188, 0x80050033u);
    kda_put_le64(cpu + 0x1A0, 0x5001);
    put_note(blob, "QEMU", cpu, sizeof(cpu));
    kda_put_le32(cpu + 0x98, 0x10);
    kda_put_le64(cpu + 0x1A0, TEST_DTB | 2);
    kda_put_le64(cpu + 0x1A8, 0x1000);
    put_note(blob, "QEMU", cpu, sizeof(cpu));
}

void write_elf(struct blob *blob, enum elf_flavour flavour, const struct range *ranges, size_t n)
{
    size_t sections = flavour == ELF_XNUM ? 64 : 0;
    struct blob notes = {0};
    put_notes(&notes, flavour);
    size_t headers = 64 + sections, data = headers + 56 * (n + 1);
    static const uint8_t ident[16] = {0x7F, 'E', 'L', 'F', 2, 1, 1};
    blob_put(blob, ident, sizeof(ident));
    blob_put16(blob, 4);
    blob_put16(blob, 62);
    blob_put32(blob, flavour == ELF_VBOX ? 0 : 1);
    blob_put64(blob, 0);
    blob_put64(blob, headers);
    blob_put64(blob, sections ? 64 : 0);
    blob_put32(blob, 0);
    blob_put16(blob, 64);
    blob_put16(blob, 56);
    blob_put16(blob, sections ? 0xFFFF : (uint16_t)(n + 1));
    blob_put16(blob, 64);
    blob_put16(blob, sections ? 1 : 0);
    blob_put16(blob, 0);
    if (sections) {
        blob_put(blob, NULL, sections);
        blob_set32(blob, 64 + 44, (uint32_t)(n + 1));
    }
    uint64_t off = data + notes.size;
    for (size_t i = 0; i <= n; i++) {
        uint64_t size = i == 0 ? notes.size : ranges[i - 1].count * 4096;
        blob_put32(blob, i == 0 ? 4 : 1);
        blob_put32(blob, 0);
        blob_put64(blob, i == 0 ? data : off);
        blob_put64(blob, 0);
        blob_put64(blob, i == 0 ? 0 : ranges[i - 1].pfn * 4096);
        blob_put64(blob, size);
        blob_put64(blob, i == 0 ? size : size + 4096); /* memory beyond the file: absent */
        blob_put64(blob, 0);
        off += i == 0 ? 0 : size;
    }
    blob_put(blob, notes.data, notes.size);
    blob_free(&notes);
    blob_put_pages(blob, ranges, n);
}

void write_lime(struct blob *blob, const struct range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        blob_put32(blob, 0x4C694D45);
        blob_put32(blob, 1);
        blob_put64(blob, ranges[i].pfn * 4096);
        blob_put64(blob, (ranges[i].pfn + ranges[i].count) * 4096 - 1);
        blob_put64(blob, 0);
        blob_put_pages(blob, &ranges[i], 1);
    }
}

static void put_tag(struct blob *blob, const char *name, unsigned indices, uint32_t a, uint32_t b,
                    unsigned size, uint64_t value)
{
    uint8_t head[2] = {(uint8_t)(indices << 6 | size), (uint8_t)strlen(name)};
    uint8_t bytes[8];
    blob_put(blob, head, 2);
    blob_put(blob, name, strlen(name));
    if (indices > 0)
        blob_put32(blob, a);
    if (indices > 1)
        blob_put32(blob, b);
    if (size > 8)
        return;
    kda_put_le64(bytes, value);
    blob_put(blob, bytes, size);
}

static void put_group(struct blob *blob, const char *name)
{
    char padded[64] = {0};
    memcpy(padded, name, strlen(name));
    blob_put(blob, padded, sizeof(padded));
    blob_put64(blob, 0);
    blob_put64(blob, 0);
}

void write_vmss(struct blob *blob, unsigned version, const struct range *ranges, size_t n,
                int with_memory)
{
    blob_put32(blob, version == 0 ? 0xBED2BED0u : 0xBED2BED2u);
    blob_put32(blob, 8);
    blob_put32(blob, 2);
    put_group(blob, "cpu");
    put_group(blob, "memory");
    blob_set64(blob, 12 + 64, blob->size);
    put_tag(blob, "CR64", 2, 0, 0, 8, 0x80050033u);
    put_tag(blob, "CR64", 2, 0, 3, 8, TEST_DTB);
    blob_put16(blob, 0);
    blob_set64(blob, 12 + 80 + 64, blob->size);
    put_tag(blob, "hotSet", 1, 0, 0, 4, 0);
    put_tag(blob, "regionsCount", 0, 0, 0, 4, n);
    uint64_t page = 0;
    for (uint32_t i = 0; i < n; i++) {
        put_tag(blob, "regionPPN", 1, i, 0, 4, ranges[i].pfn);
        put_tag(blob, "regionPageNum", 1, i, 0, 4, page);
        put_tag(blob, "regionSize", 1, i, 0, 4, ranges[i].count);
        page += ranges[i].count;
    }
    if (with_memory) {
        put_tag(blob, "Memory", 2, 0, 0, 63, 0);
        for (int i = 0; i < 2; i++) {
            if (version == 0)
                blob_put32(blob, (uint32_t)(page * 4096));
            else
                blob_put64(blob, page * 4096);
        }
        blob_put16(blob, 5); /* length of the padding that follows */
        blob_put(blob, "\xCC\xCC\xCC\xCC\xCC", 5);
        blob_put_pages(blob, ranges, n);
    }
    blob_put16(blob, 0);
}

/* ---- the samples ---- */

const struct range sample_ranges[2] = {{1, 3}, {16, 2}};

static void build_raw(struct blob *blob, const struct range *ranges, size_t n)
{
    struct range all = {0, ranges[n - 1].pfn + ranges[n - 1].count};
    write_raw(blob, &all, 1);
}

static void build_summary(struct blob *blob, const struct range *ranges, size_t n)
{
    write_dmp_bitmap(blob, 2, "SDMP", ranges, n);
}

static void build_bitmap(struct blob *blob, const struct range *ranges, size_t n)
{
    write_dmp_bitmap(blob, 5, "FDMP", ranges, n);
}

static void build_live(struct blob *blob, const struct range *ranges, size_t n)
{
    write_dmp_bitmap(blob, 6, "SDMP", ranges, n);
}

static void build_rdmp8(struct blob *blob, const struct range *ranges, size_t n)
{
    write_dmp_rdmp(blob, 8, ranges, n, 32);
}

static void build_rdmp9(struct blob *blob, const struct range *ranges, size_t n)
{
    write_dmp_rdmp(blob, 9, ranges, n, 0);
}

static void build_rdmp_full(struct blob *blob, const struct range *ranges, size_t n)
{
    write_dmp_rdmp(blob, 0xA, ranges, n, 48);
}

static void build_triage(struct blob *blob, const struct range *ranges, size_t n)
{
    (void)ranges;
    (void)n;
    write_dmp_triage(blob);
}

static void build_qemu(struct blob *blob, const struct range *ranges, size_t n)
{
    write_elf(blob, ELF_QEMU, ranges, n);
}

static void build_xnum(struct blob *blob, const struct range *ranges, size_t n)
{
    write_elf(blob, ELF_XNUM, ranges, n);
}

static void build_vbox(struct blob *blob, const struct range *ranges, size_t n)
{
    write_elf(blob, ELF_VBOX, ranges, n);
}

static void build_vmsn0(struct blob *blob, const struct range *ranges, size_t n)
{
    write_vmss(blob, 0, ranges, n, 1);
}

static void build_vmsn2(struct blob *blob, const struct range *ranges, size_t n)
{
    write_vmss(blob, 2, ranges, n, 1);
}

const struct sample samples[] = {
    {"raw", "raw", 1, build_raw},
    {"dmp-full", "dmp-full", 1, write_dmp_full},
    {"dmp-summary", "dmp-bitmap", 0, build_summary},
    {"dmp-bitmap", "dmp-bitmap", 1, build_bitmap},
    {"dmp-live", "dmp-bitmap", 0, build_live},
    {"dmp-rdmp-8", "dmp-rdmp", 1, build_rdmp8},
    {"dmp-rdmp-9", "dmp-rdmp", 0, build_rdmp9},
    {"dmp-rdmp-a", "dmp-rdmp", 1, build_rdmp_full},
    {"dmp-triage", "dmp-triage", 1, build_triage},
    {"elf-qemu", "elf-core", 1, build_qemu},
    {"elf-xnum", "elf-core", 1, build_xnum},
    {"elf-vbox", "elf-core", 1, build_vbox},
    {"lime", "lime", 1, write_lime},
    {"vmsn-0", "vmware-state", 1, build_vmsn0},
    {"vmsn-2", "vmware-state", 1, build_vmsn2},
};
const size_t sample_count = sizeof(samples) / sizeof(samples[0]);
