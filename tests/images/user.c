#include "forge_int.h"

/* User memory of chosen processes: the loader's list of modules, and an ntdll.dll of three pages
 * with the functions that write events. Source: docs/kernel.md, "Modules of a process". */

#define PEB 0x7ff000000000u
#define LOADER 0x7ff000001000u
#define NTDLL 0x7ffc12340000u
#define NTDLL_SIZE 0x10000u
#define EXPORTS_RVA 0x1000u
#define CODE_RVA 0x2000u
#define FUNCTION_ROOM 64u

static const struct {
    const char *name;
    uint8_t code[16];
} functions[] = {
    /* mov r11, rsp; sub rsp, 88; mov [r11-24], r9; xor eax, eax */
    {"EtwEventWrite",
     {0x4c, 0x8b, 0xdc, 0x48, 0x83, 0xec, 0x58, 0x4d, 0x89, 0x4b, 0xe8, 0x33, 0xc0}},
    {"EtwEventWriteFull",
     {0x4c, 0x8b, 0xdc, 0x48, 0x83, 0xec, 0x58, 0x4d, 0x89, 0x4b, 0xe8, 0x33, 0xc0}},
    /* mov r10, rcx; mov eax, number; test byte [7ffe0308], 1 */
    {"NtTraceEvent",
     {0x4c, 0x8b, 0xd1, 0xb8, 0x5e, 0, 0, 0, 0xf6, 0x04, 0x25, 0x08, 0x03, 0xfe, 0x7f, 0x01}},
};
#define FUNCTIONS (sizeof(functions) / sizeof(functions[0]))

/* Part of a process's user memory by the name a hole gives it; 0 = none. */
uint64_t user_part(const struct forge *f, const char *part, uint64_t pid)
{
    static const struct {
        const char *name;
        uint64_t va;
    } parts[] = {{"peb", PEB},
                 {"ldr", LOADER},
                 {"ntdll", NTDLL},
                 {"ntdllexports", NTDLL + EXPORTS_RVA},
                 {"ntdllcode", NTDLL + CODE_RVA}};
    bool there = false;
    for (size_t i = 0; i < f->user_count; i++)
        there = there || f->users[i].pid == pid;
    for (size_t i = 0; there && i < sizeof(parts) / sizeof(parts[0]); i++)
        if (strcmp(parts[i].name, part) == 0)
            return parts[i].va;
    return 0;
}

static void entry(struct forge *f, uint8_t *page, size_t place, const char *name, uint64_t base,
                  uint32_t size)
{
    uint8_t *text = NULL, *e = page + place;
    size_t units = text_to_utf16(f, name, &text);
    if (!forge_ok(f))
        return;
    kda_put_le64(e + 0x30, base);
    kda_put_le32(e + 0x40, size);
    kda_put_le16(e + 0x58, (uint16_t)(2 * units));
    kda_put_le16(e + 0x5a, (uint16_t)(2 * units + 2));
    kda_put_le64(e + 0x60, LOADER + place + 0x80);
    memcpy(e + 0x80, text, 2 * units);
}

static void link_nodes(uint8_t *page, size_t from, size_t to)
{
    kda_put_le64(page + from, LOADER + to);
    kda_put_le64(page + to + 8, LOADER + from);
}

static void write_loader(struct forge *f, const struct user_plan *plan,
                         const struct forge_process *p)
{
    uint8_t page[PAGE] = {0}, pointer[8];
    kda_put_le64(pointer, LOADER);
    put_bytes_in(f, p->dtb, PEB + 0x18, pointer, sizeof(pointer));
    entry(f, page, 0x200, p->name, 0x7ff600000000u, 0x40000);
    entry(f, page, 0x400, "ntdll.dll", NTDLL, NTDLL_SIZE);
    link_nodes(page, 0x10, 0x200); /* list head, program, ntdll */
    link_nodes(page, 0x200, plan->no_ntdll ? 0x10 : 0x400);
    if (!plan->no_ntdll)
        link_nodes(page, 0x400, 0x10);
    map_page(f, p->dtb, LOADER, phys_page(f));
    put_bytes_in(f, p->dtb, LOADER, page, sizeof(page));
}

static void write_code(struct forge *f, const struct user_plan *plan, const struct forge_process *p)
{
    uint8_t page[PAGE] = {0};
    for (size_t i = 0; i < FUNCTIONS; i++) {
        uint8_t *code = page + FUNCTION_ROOM * i;
        size_t length = strlen(functions[i].name);
        memset(code, 0xcc, FUNCTION_ROOM);
        memcpy(code, functions[i].code, sizeof(functions[i].code));
        for (size_t k = 0; k < plan->patch_count; k++)
            if (strncmp(plan->patches[k], functions[i].name, length) == 0 &&
                plan->patches[k][length] == ':')
                (void)code_bytes(f, plan->patches[k] + length + 1, code, FUNCTION_ROOM);
    }
    map_page(f, p->dtb, NTDLL + CODE_RVA, phys_page(f));
    put_bytes_in(f, p->dtb, NTDLL + CODE_RVA, page, sizeof(page));
}

static void write_ntdll(struct forge *f, const struct user_plan *plan,
                        const struct forge_process *p)
{
    uint8_t h[PAGE] = "MZ", exports[PAGE];
    struct export list[FUNCTIONS];
    size_t count = 0;
    for (size_t i = 0; i < FUNCTIONS; i++)
        if (!plan->lacks || strcmp(plan->lacks, functions[i].name) != 0)
            list[count++] =
                (struct export){functions[i].name, CODE_RVA + FUNCTION_ROOM * (uint32_t)i};
    size_t size = export_directory(f, list, count, "ntdll.dll", EXPORTS_RVA, exports, PAGE);
    kda_put_le32(h + 0x3c, 0x80);
    memcpy(h + 0x80, "PE\0", 4);
    kda_put_le16(h + 0x84, 0x8664);
    kda_put_le16(h + 0x94, 0xf0);
    kda_put_le16(h + 0x98, 0x20b);
    kda_put_le64(h + 0xb0, NTDLL);
    kda_put_le32(h + 0xd0, NTDLL_SIZE);
    kda_put_le32(h + 0x104, 16);
    kda_put_le32(h + 0x108, EXPORTS_RVA);
    kda_put_le32(h + 0x10c, (uint32_t)size);
    map_page(f, p->dtb, NTDLL, phys_page(f));
    put_bytes_in(f, p->dtb, NTDLL, h, sizeof(h));
    map_page(f, p->dtb, NTDLL + EXPORTS_RVA, phys_page(f));
    put_bytes_in(f, p->dtb, NTDLL + EXPORTS_RVA, exports, sizeof(exports));
    write_code(f, plan, p);
}

void users_build(struct forge *f)
{
    for (size_t i = 0; i < f->user_count && forge_ok(f); i++) {
        const struct user_plan *plan = &f->users[i];
        const struct forge_process *p = forge_process_by_pid(f, plan->pid);
        f->line = plan->line;
        if (!p || p->dtb == f->root) {
            forge_fail(f, KDA_USAGE, "System has no user memory");
            return;
        }
        if (!f->opt.users)
            map_page(f, p->dtb, PEB, phys_page(f));
        if (!plan->no_loader)
            write_loader(f, plan, p);
        write_ntdll(f, plan, p);
    }
    f->line = 0;
}
