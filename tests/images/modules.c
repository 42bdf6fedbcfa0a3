#define _POSIX_C_SOURCE 200809L

#include "forge_int.h"

#include <stdio.h>

struct stock {
    const char *name;
    uint32_t pages;
};

static const struct stock stock_drivers[] = {
    {"hal.dll", 0x90},   {"CLFS.SYS", 0x6a},     {"tm.sys", 0x29},      {"CI.dll", 0xd3},
    {"cng.sys", 0xb2},   {"Wdf01000.sys", 0xd2}, {"ACPI.sys", 0xcb},    {"FLTMGR.SYS", 0x6f},
    {"ndis.sys", 0x17c}, {"NETIO.SYS", 0x99},    {"tcpip.sys", 0x2f9},  {"Ntfs.sys", 0x2d8},
    {"afd.sys", 0xa3},   {"WdFilter.sys", 0x72}, {"dxgkrnl.sys", 0x3f}, {"win32kbase.sys", 0x2e7},
};

static bool add(struct forge *f, size_t place, const char *name, uint32_t size)
{
    struct forge_truth *t = &f->truth;
    void *items = t->modules;
    if (!kda_grow(&items, &f->module_cap, t->module_count + 1, sizeof(*t->modules), 4096)) {
        forge_fail(f, KDA_NO_MEMORY, "out of memory");
        return false;
    }
    t->modules = items;
    memmove(t->modules + place + 1, t->modules + place,
            (t->module_count - place) * sizeof(*t->modules));
    memset(&t->modules[place], 0, sizeof(*t->modules));
    t->modules[place].name = name;
    t->modules[place].size = size;
    t->modules[place].header = true;
    t->modules[place].timestamp = 0x5c000000u + (uint32_t)forge_random(f, 0x4000000);
    t->module_count++;
    return true;
}

static const char *default_path(struct forge *f, const char *name)
{
    char path[300];
    (void)snprintf(path, sizeof(path), "\\SystemRoot\\System32\\%s%.200s",
                   strstr(name, ".sys") || strstr(name, ".SYS") ? "drivers\\" : "", name);
    char *copy = kda_arena_strdup(&f->arena, path);
    return copy ? copy : "";
}

/* One descriptor, its names one behind the other, in a page of its own. */
static void write_imports(struct forge *f, const struct forge_module *m)
{
    uint8_t page[PAGE] = {0};
    char *copy = kda_arena_strdup(&f->arena, m->imports), *save = NULL;
    uint32_t thunks = 40, text = 0x400, used = 0;
    if (m->size < IMPORTS_RVA + PAGE) {
        forge_fail(f, KDA_USAGE, "driver \"%s\" is too small for imports", m->name);
        return;
    }
    for (char *name = copy ? strtok_r(copy, ",", &save) : NULL; name;
         name = strtok_r(NULL, ",", &save)) {
        size_t size = strlen(name) + 1;
        if (text + 3 + size > PAGE - 32 || thunks + 8 * (used + 2) > 0x400) {
            forge_fail(f, KDA_USAGE, "too many imports of \"%s\"", m->name);
            return;
        }
        kda_put_le64(page + thunks + (size_t)8 * used++, IMPORTS_RVA + text);
        memcpy(page + text + 2, name, size); /* a hint comes first */
        text = (uint32_t)(text + 2 + size + 1) & ~1u;
    }
    kda_put_le32(page, IMPORTS_RVA + thunks);
    kda_put_le32(page + 12, IMPORTS_RVA + text);
    kda_put_le32(page + 16, IMPORTS_RVA + thunks);
    memcpy(page + text, "ntoskrnl.exe", 13);
    map_page(f, f->root, m->base + IMPORTS_RVA, phys_page(f));
    put_bytes(f, m->base + IMPORTS_RVA, page, sizeof(page));
}

/* The header page, and imports if the scenario wants them, are all there is of a driver. */
static void write_header(struct forge *f, const struct forge_module *m)
{
    uint8_t h[0x1a0] = "MZ";
    kda_put_le32(h + 0x3c, 0x80);
    memcpy(h + 0x80, "PE\0", 4);
    kda_put_le16(h + 0x84, 0x8664);
    kda_put_le32(h + 0x88, m->timestamp);
    kda_put_le16(h + 0x94, 0xf0);
    kda_put_le16(h + 0x96, 0x22);
    kda_put_le16(h + 0x98, 0x20b);
    kda_put_le64(h + 0xb0, m->base);
    kda_put_le32(h + 0xd0, m->size);
    if (m->imports) {
        kda_put_le32(h + 0x104, 16);
        kda_put_le32(h + 0x110, IMPORTS_RVA);
        kda_put_le32(h + 0x114, 40);
        write_imports(f, m);
    }
    map_page(f, f->root, m->base, phys_page(f));
    put_bytes(f, m->base, h, sizeof(h));
}

static void write_entry(struct forge *f, struct forge_module *m)
{
    bool kldr = has(f, F(KLDR_DATA_TABLE_ENTRY, DllBase));
    uint64_t size = kldr ? size_of(f, ST(KLDR_DATA_TABLE_ENTRY), 0xa0)
                         : size_of(f, ST(LDR_DATA_TABLE_ENTRY), 0xe0);
    uint64_t va =
        pool_alloc(f, POOL_NONPAGED, size, "MmLd", forge_planned_text(f, "module", m->name));
    enum kda_field_id base =
        kldr ? F(KLDR_DATA_TABLE_ENTRY, DllBase) : F(LDR_DATA_TABLE_ENTRY, DllBase);
    enum kda_field_id entry =
        kldr ? F(KLDR_DATA_TABLE_ENTRY, EntryPoint) : F(LDR_DATA_TABLE_ENTRY, EntryPoint);
    enum kda_field_id image =
        kldr ? F(KLDR_DATA_TABLE_ENTRY, SizeOfImage) : F(LDR_DATA_TABLE_ENTRY, SizeOfImage);
    enum kda_field_id stamp =
        kldr ? F(KLDR_DATA_TABLE_ENTRY, TimeDateStamp) : F(LDR_DATA_TABLE_ENTRY, TimeDateStamp);
    enum kda_field_id full =
        kldr ? F(KLDR_DATA_TABLE_ENTRY, FullDllName) : F(LDR_DATA_TABLE_ENTRY, FullDllName);
    enum kda_field_id name =
        kldr ? F(KLDR_DATA_TABLE_ENTRY, BaseDllName) : F(LDR_DATA_TABLE_ENTRY, BaseDllName);
    put(f, va, base, 8, m->base);
    put(f, va, entry, 8, m->base + 0x1000);
    put(f, va, image, 4, m->size);
    put(f, va, stamp, 4, m->timestamp);
    (void)put_string(f, at(f, va, full), m->path, false);
    (void)put_string(f, at(f, va, name), m->name, false);
    m->va = va;
    if (!m->unlinked)
        list_append(f, symbol(f, S(PsLoadedModuleList)), va);
    else
        list_init(f, va);
}

void modules_build(struct forge *f)
{
    struct forge_truth *t = &f->truth;
    if (!add(f, 0, "ntoskrnl.exe", t->id.pe_size))
        return;
    t->modules[0].timestamp = t->id.pe_timestamp;
    t->modules[0].path = "\\SystemRoot\\system32\\ntoskrnl.exe";
    size_t stock = f->opt.drivers ? sizeof(stock_drivers) / sizeof(stock_drivers[0]) : 0;
    for (size_t i = 0; i < stock; i++)
        if (!forge_module_by_name(f, stock_drivers[i].name) &&
            !add(f, 1 + i, stock_drivers[i].name, stock_drivers[i].pages * PAGE))
            return;
    list_init(f, symbol(f, S(PsLoadedModuleList)));
    uint64_t align = f->opt.pages == KERNEL_1G ? GIB : 2 * MIB;
    uint64_t next = (t->base + t->id.pe_size + 32 * MIB + align) & ~(align - 1);
    for (size_t i = 0; i < t->module_count && forge_ok(f); i++) {
        struct forge_module *m = &t->modules[i];
        m->base = i == 0 ? t->base : next;
        if (i > 0)
            next += (m->size + PAGE + forge_random(f, 64) * PAGE + 0xffff) & ~(uint64_t)0xffff;
        if (!m->path)
            m->path = default_path(f, m->name);
        if (i > 0 && m->header && (!f->opt.compact || m->imports))
            write_header(f, m);
        write_entry(f, m);
    }
}

uint64_t module_code(struct forge *f, const struct forge_module *m)
{
    if (m == f->truth.modules)
        return nt_code(f);
    return m->base + 0x1000 + (forge_random(f, m->size - 0x1000) & ~(uint64_t)15);
}
