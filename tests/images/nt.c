#include "forge_int.h"

#include <stdio.h>

/* Globals of the running kernel that are no lists: version, debugger block, shared user page,
 * processors, and the ways by which a reader without a header finds the page tables. */

#define USER_SHARED 0xfffff78000000000u
#define KDBG_SIZE_MAX 0x3a0u

uint64_t nt_code(struct forge *f)
{
    return f->truth.base + 0x2000 + (forge_random(f, 0x20000) & ~(uint64_t)15);
}

void nt_version(struct forge *f)
{
    uint64_t base = f->truth.base;
    char lab[64];
    uint64_t number = symbol(f, S(NtBuildNumber)), text = symbol(f, S(NtBuildLab));
    uint64_t block = symbol(f, S(KdVersionBlock));
    if (number)
        put32(f, number, f->build | 0xf0000000u);
    (void)snprintf(lab, sizeof(lab), "%u.%u.amd64fre.forge.000000-0000", f->build, f->ubr);
    if (text)
        put_bytes(f, text, lab, strlen(lab) + 1);
    if (!block)
        return;
    put(f, block, F(DBGKD_GET_VERSION64, MajorVersion), 2, 15);
    put(f, block, F(DBGKD_GET_VERSION64, MinorVersion), 2, f->build);
    put8(f, block + 4, 6);
    put16(f, block + 6, 0x47);
    put16(f, block + 8, 0x8664);
    put(f, block, F(DBGKD_GET_VERSION64, KernBase), 8, base);
    put(f, block, F(DBGKD_GET_VERSION64, PsLoadedModuleList), 8, symbol(f, S(PsLoadedModuleList)));
    put(f, block, F(DBGKD_GET_VERSION64, DebuggerDataList), 8, f->debugger_list);
}

static uint32_t debugger_size(const struct forge *f)
{
    if (f->build < 9200)
        return 0x340;
    if (f->build < 14393)
        return 0x360;
    if (f->build < 17763)
        return 0x370;
    return f->build < 26100 ? 0x380 : 0x3a0;
}

static void fill_debugger(struct forge *f, uint8_t *b, uint32_t size)
{
    static const struct {
        uint32_t offset;
        enum kda_symbol_id id;
    } pointers[] = {
        {0x48, S(PsLoadedModuleList)}, {0x50, S(PsActiveProcessHead)},
        {0x58, S(PspCidTable)},        {0x98, S(ObpRootDirectoryObject)},
        {0xa0, S(ObpTypeObjectType)},  {0xc0, S(MmPfnDatabase)},
        {0x208, S(NtBuildLab)},        {0x218, S(KiProcessorBlock)},
        {0x330, S(EtwpDebuggerData)},
    };
    static const struct {
        uint32_t offset;
        enum kda_field_id id;
    } fields[] = {
        {0x2aa, F(EPROCESS, Peb)},
        {0x2ac, F(EPROCESS, InheritedFromUniqueProcessId)},
        {0x2ae, F(KPROCESS, DirectoryTableBase)},
    };
    kda_put_le64(b, f->debugger_list);
    kda_put_le64(b + 8, f->debugger_list);
    memcpy(b + 0x10, "KDBG", 4);
    kda_put_le32(b + 0x14, size);
    kda_put_le64(b + 0x18, f->truth.base);
    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++)
        kda_put_le64(b + pointers[i].offset, symbol(f, pointers[i].id));
    kda_put_le16(b + 0x2a8, (uint16_t)size_of(f, ST(EPROCESS), 0));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (has(f, fields[i].id))
            kda_put_le16(b + fields[i].offset, (uint16_t)f->layout.field[fields[i].id].offset);
    if (size > 0x360)
        kda_put_le64(b + 0x360, 0xffff000000000000u | (uint64_t)f->self_index << 39);
}

static uint64_t swap64(uint64_t v)
{
    uint8_t b[8];
    kda_put_le64(b, v);
    return kda_be64(b);
}

/* The reverse of what a debugger does to read an encoded block (docs/forge.md). */
static void encode_debugger(uint8_t *b, uint32_t size, uint64_t never, uint64_t always,
                            uint64_t flag_va)
{
    unsigned turn = (unsigned)(never & 0xff) & 63;
    for (uint32_t i = 0; i < size; i += 8) {
        uint64_t v = swap64(kda_le64(b + i) ^ always) ^ flag_va;
        if (turn)
            v = v >> turn | v << (64 - turn);
        kda_put_le64(b + i, v ^ never);
    }
}

void nt_debugger(struct forge *f)
{
    uint64_t block = symbol(f, S(KdDebuggerDataBlock));
    uint64_t flag = symbol(f, S(KdpDataBlockEncoded));
    uint64_t never = symbol(f, S(KiWaitNever)), always = symbol(f, S(KiWaitAlways));
    uint8_t b[KDBG_SIZE_MAX] = {0};
    uint32_t size = debugger_size(f);
    f->debugger_list = symbol(f, S(KdpDebuggerDataListHead));
    if (!f->debugger_list)
        f->debugger_list = pool_alloc(f, POOL_NONPAGED, 16, "KdDL", false);
    if (!block)
        return;
    put64(f, f->debugger_list, block);
    put64(f, f->debugger_list + 8, block);
    fill_debugger(f, b, size);
    f->truth.kdbg_va = block;
    f->truth.kdbg_encoded = f->opt.kdbg_encoded && flag && never && always;
    uint64_t key_never = forge_random(f, UINT64_MAX), key_always = forge_random(f, UINT64_MAX);
    if (never)
        put64(f, never, key_never);
    if (always)
        put64(f, always, key_always);
    if (f->truth.kdbg_encoded) {
        put8(f, flag, 1);
        encode_debugger(b, size, key_never, key_always, flag);
    }
    put_bytes(f, block, b, size);
}

/* Offsets of the logger and buffer fields that a debugger needs, then the two pointers.
 * Source: docs/forge.md, "EtwpDebuggerData". */
static void write_etw_debugger(struct forge *f)
{
    static const enum kda_field_id order[] = {
        F(WMI_LOGGER_CONTEXT, NumberOfBuffers), F(WMI_LOGGER_CONTEXT, ClockType),
        F(WMI_LOGGER_CONTEXT, LoggerId),        F(WMI_LOGGER_CONTEXT, DebugIdTrackingList),
        F(WMI_LOGGER_CONTEXT, AcceptNewEvents), F(WMI_LOGGER_CONTEXT, LoggerName),
        F(WMI_LOGGER_CONTEXT, LoggerMode),      F(WMI_LOGGER_CONTEXT, BufferSize),
        F(WMI_LOGGER_CONTEXT, GlobalList),
    };
    uint8_t b[16] = {0, 0, 0x2c, 0x08, 0x04, 0x38, 0x0c};
    uint64_t va = symbol(f, S(EtwpDebuggerData));
    if (!va)
        return;
    for (size_t i = 0; i < 9; i++) {
        enum kda_field_id id = order[i];
        if (!has(f, id))
            id = has(f, F(WMI_LOGGER_CONTEXT, ProviderBinaryList))
                     ? F(WMI_LOGGER_CONTEXT, ProviderBinaryList)
                     : F(WMI_LOGGER_CONTEXT, GlobalList);
        b[7 + i] = (uint8_t)f->layout.field[id].offset;
    }
    put_bytes(f, va, b, sizeof(b));
    put64(f, va + 16, f->truth.silos[0].array);
    if (has(f, F(ETW_SILODRIVERSTATE, MaxLoggers)))
        put64(f, va + 24, f->truth.silos[0].state);
}

static void write_user_shared(struct forge *f)
{
    uint64_t va = USER_SHARED, time = f->truth.system_time;
    static const char root[] = "C:\\Windows";
    f->user_pfn = phys_page(f);
    map_page(f, f->root, va, f->user_pfn);
    for (size_t i = 0; i < sizeof(root) - 1; i++)
        put16(f, va + 0x30 + 2 * i, (uint16_t)root[i]);
    uint64_t system_time = at(f, va, F(KUSER_SHARED_DATA, SystemTime));
    if (!system_time)
        system_time = va + 0x14;
    put32(f, system_time, (uint32_t)time);
    put32(f, system_time + 4, (uint32_t)(time >> 32));
    put32(f, system_time + 8, (uint32_t)(time >> 32));
    if (f->major >= 10)
        put32(f, va + 0x260, f->build);
    put32(f, va + 0x264, 1);
    put32(f, va + 0x26c, f->major);
    put32(f, va + 0x270, f->minor);
    if (f->build >= 9200) /* where ntddk.h has it, also where the layout does not say */
        put64(f, va + 0x300, 10000000);
}

static void write_processors(struct forge *f)
{
    uint64_t count = symbol(f, S(KeNumberProcessors)), blocks = symbol(f, S(KiProcessorBlock));
    uint64_t size = size_of(f, ST(KPCR), 0);
    if (count)
        put32(f, count, f->opt.cpus);
    if (!blocks || !size || !has(f, F(KPCR, Prcb)) || f->opt.compact)
        return;
    for (uint32_t i = 0; i < f->opt.cpus && forge_ok(f); i++) {
        uint64_t pcr = pool_alloc(f, POOL_NONPAGED, size, "Kpcr", true);
        uint64_t prcb = at(f, pcr, F(KPCR, Prcb));
        put64(f, pcr + 0x108, symbol(f, S(KdVersionBlock)));
        put(f, prcb, F(KPRCB, Number), 4, i);
        put32(f, prcb + (has(f, F(ETW_SILODRIVERSTATE, EtwpLoggerContext)) ? 0x44 : 0x5f4),
              f->truth.cpu_mhz);
        put64(f, blocks + 8 * (uint64_t)i, prcb);
    }
}

/* Start-up code of the other processors, left in the first megabyte: jump, page-table root and an
 * address inside nt. Source: docs/forge.md, "low stub". */
static void write_low_stub(struct forge *f)
{
    static const uint8_t head[8] = {0xe9, 0x4d, 0x06, 0x00, 0x01, 0x00, 0x00, 0x00};
    uint8_t *page = phys_bytes(f, 0x13);
    if (!f->opt.lowstub || !page)
        return;
    phys_set_state(f, 0x13, PAGE_USED);
    memcpy(page, head, sizeof(head));
    kda_put_le64(page + 0x70, nt_code(f));
    kda_put_le64(page + 0xa0, f->root);
}

/* PsGetServerSiloServiceSessionId: a null silo leads to PspHostSiloGlobals. */
static void write_silo_code(struct forge *f)
{
    uint64_t code = symbol(f, S(PsGetServerSiloServiceSessionId));
    uint64_t host = symbol(f, S(PspHostSiloGlobals));
    uint8_t b[31] = {0x48, 0x85, 0xc9, 0x74, 0x09, 0x48, 0x8b, 0x81, 0,   0, 0,
                     0,    0xeb, 0x07, 0x48, 0x8d, 0x05, 0,    0,    0,   0, 0x48,
                     0x8b, 0x80, 0,    0,    0,    0,    0x8b, 0x00, 0xc3};
    if (!code || !host || !has(f, F(EJOB, ServerSiloGlobals)) ||
        !has(f, F(ESERVERSILO_GLOBALS, UserSharedData)))
        return;
    kda_put_le32(b + 8, f->layout.field[F(EJOB, ServerSiloGlobals)].offset);
    kda_put_le32(b + 17, (uint32_t)(host - (code + 21)));
    kda_put_le32(b + 24, f->layout.field[F(ESERVERSILO_GLOBALS, UserSharedData)].offset);
    put_bytes(f, code, b, sizeof(b));
}

void kernel_finish(struct forge *f)
{
    uint64_t pfn_database = symbol(f, S(MmPfnDatabase)), frequency = symbol(f, S(EtwPerfFreq));
    if (frequency)
        put64(f, frequency, 10000000);
    nt_debugger(f);
    nt_version(f);
    write_etw_debugger(f);
    write_user_shared(f);
    write_processors(f);
    write_low_stub(f);
    write_silo_code(f);
    if (pfn_database)
        put64(f, pfn_database, 0xffffe80000000000u);
    f->truth.dtb = f->root;
}
