#include "forge_int.h"

#include <stdio.h>
#include <stdlib.h>

/* Export directories, and a few bytes of code behind each exported function of nt. */

#define FUNCTION_ROOM 32u
#define LONG_ROOM 96u /* of a function that is there for its code only */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct export *)a)->name, ((const struct export *)b)->name);
}

/* "c3", "4831c0c3": the number of bytes. */
size_t code_bytes(struct forge *f, const char *hex, uint8_t *bytes, size_t cap)
{
    size_t size = 0;
    for (; hex[0] && hex[1] && size < cap; hex += 2) {
        char digits[3] = {hex[0], hex[1], 0}, *end = NULL;
        bytes[size] = (uint8_t)strtoul(digits, &end, 16);
        if (*end)
            break;
        size++;
    }
    if (*hex || size == 0)
        forge_fail(f, KDA_USAGE, "code is 1 to %zu bytes in hex", cap);
    return size;
}

static uint32_t rva_of(struct forge *f, const char *name, size_t size)
{
    for (size_t i = 0; i < KDA_SYM_COUNT; i++)
        if (strlen(kda_symbol_name((enum kda_symbol_id)i)) == size &&
            memcmp(kda_symbol_name((enum kda_symbol_id)i), name, size) == 0)
            return f->layout.rva[i];
    for (size_t i = 0; i < f->export_count; i++)
        if (strlen(f->exports[i].name) == size && memcmp(f->exports[i].name, name, size) == 0)
            return f->exports[i].rva;
    return KDA_NONE;
}

/* Bytes in hex; {NAME} is the distance from the four bytes it takes to a global or function. */
static void scenario_code(struct forge *f, const char *hex, uint32_t rva, uint8_t *code, size_t cap)
{
    size_t size = 0;
    while (*hex && size + 4 <= cap) {
        const char *end = *hex == '{' ? strchr(hex, '}') : NULL;
        char digits[3] = {hex[0], hex[1], 0};
        if (!end) {
            size += code_bytes(f, digits, code + size, 1);
            hex += hex[1] ? 2 : 1;
            continue;
        }
        uint32_t to = rva_of(f, hex + 1, (size_t)(end - hex - 1));
        if (to == KDA_NONE)
            forge_fail(f, KDA_USAGE, "nt has no global or function \"%.*s\"", (int)(end - hex - 1),
                       hex + 1);
        kda_put_le32(code + size, to - (rva + (uint32_t)size + 4));
        size += 4;
        hex = end + 1;
    }
    if (*hex || size == 0)
        forge_fail(f, KDA_USAGE, "code is 1 to %zu bytes in hex", cap - 3);
}

/* The start of an ordinary function, or what the scenario wants there. */
static void write_code(struct forge *f, const struct export *function, size_t room)
{
    /* mov [rsp+8], rbx; push rdi; sub rsp, 48; mov rbx, rcx; xor edi, edi; nop */
    static const uint8_t plain[16] = {0x48, 0x89, 0x5c, 0x24, 0x08, 0x57, 0x48, 0x83,
                                      0xec, 0x30, 0x48, 0x8b, 0xd9, 0x33, 0xff, 0x90};
    uint8_t code[LONG_ROOM + 3];
    memcpy(code, plain, sizeof(plain));
    memset(code + sizeof(plain), 0xcc, sizeof(code) - sizeof(plain));
    for (size_t i = 0; i < f->code_count; i++) {
        if (strcmp(f->codes[i].name, function->name) != 0)
            continue;
        f->line = f->codes[i].line;
        scenario_code(f, f->codes[i].hex, function->rva, code, room + 3);
        f->line = 0;
    }
    put_bytes(f, f->truth.base + function->rva, code, room);
}

static uint32_t place_code(struct forge *f, const char *name, uint32_t room)
{
    if (!forge_planned_text(f, "code", name))
        return nt_reserve(f, room);
    /* A page of its own, so that a hole takes nothing else along. */
    uint32_t rva = (nt_reserve(f, 2 * PAGE) + PAGE - 1) & ~(PAGE - 1);
    f->nt_next = rva + PAGE;
    return rva;
}

static bool has_code(const struct forge *f, const char *name)
{
    for (size_t i = 0; i < f->code_count; i++)
        if (strcmp(f->codes[i].name, name) == 0)
            return true;
    return false;
}

/* Functions; those without a room of their own are exported only if the scenario gives their
 * code. */
static const struct {
    const char *name;
    bool code_only;
} functions[] = {
    {"EtwRegister", false},
    {"EtwUnregister", false},
    {"EtwWrite", false},
    {"EtwWriteEx", false},
    {"EtwWriteString", false},
    {"EtwWriteTransfer", false},
    {"IoCreateDevice", false},
    {"KeBugCheckEx", false},
    {"MmGetSystemRoutineAddress", false},
    {"NtTraceEvent", false},
    {"ObRegisterCallbacks", false},
    {"PsLookupProcessByProcessId", false},
    {"CmRegisterCallbackEx", true},
    {"CmUnRegisterCallback", true},
    {"PsRemoveCreateThreadNotifyRoutine", true},
    {"PsRemoveLoadImageNotifyRoutine", true},
    {"PsSetCreateProcessNotifyRoutine", true},
    {"PsSetCreateThreadNotifyRoutine", true},
    {"PsSetLoadImageNotifyRoutine", true},
};

static void collect(struct forge *f)
{
    static const enum kda_symbol_id data[] = {
        S(KeNumberProcessors), S(NtBuildLab),
        S(NtBuildNumber),      S(PsInitialSystemProcess),
        S(PsLoadedModuleList), S(PsProcessType),
        S(PsThreadType),       S(PsGetServerSiloServiceSessionId)};
    uint32_t room[FORGE_MAX_EXPORTS] = {0};
    for (size_t i = 0; i < sizeof(data) / sizeof(data[0]); i++)
        if (f->layout.rva[data[i]] != KDA_NONE)
            f->exports[f->export_count++] =
                (struct export){kda_symbol_name(data[i]), f->layout.rva[data[i]]};
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        const char *name = functions[i].name;
        if (functions[i].code_only && !has_code(f, name))
            continue;
        room[f->export_count] = functions[i].code_only ? LONG_ROOM : FUNCTION_ROOM;
        f->exports[f->export_count] =
            (struct export){name, place_code(f, name, room[f->export_count])};
        f->export_count++;
    }
    for (size_t i = 0; i < f->export_count; i++)
        if (room[i])
            write_code(f, &f->exports[i], room[i]);
    for (size_t i = 0; i < f->code_count; i++) {
        bool known = false;
        for (size_t k = 0; k < f->export_count; k++)
            known = known || strcmp(f->exports[k].name, f->codes[i].name) == 0;
        f->line = known ? 0 : f->codes[i].line;
        if (!known)
            forge_fail(f, KDA_USAGE, "nt does not export \"%s\"", f->codes[i].name);
    }
}

/* The directory of `list`, which is sorted on the way; its size. */
size_t export_directory(struct forge *f, struct export *list, size_t count, const char *image,
                        uint32_t rva, uint8_t *bytes, size_t cap)
{
    size_t used = 40 + 10 * count, total = used + strlen(image) + 1;
    for (size_t i = 0; i < count; i++)
        total += strlen(list[i].name) + 1;
    if (total > cap) {
        forge_fail(f, KDA_LIMIT, "too many exports");
        return 0;
    }
    qsort(list, count, sizeof(*list), by_name);
    memset(bytes, 0, cap);
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(list[i].name) + 1;
        kda_put_le32(bytes + 40 + 4 * i, list[i].rva);
        kda_put_le32(bytes + 40 + 4 * count + 4 * i, rva + (uint32_t)used);
        kda_put_le16(bytes + 40 + 8 * count + 2 * i, (uint16_t)i);
        memcpy(bytes + used, list[i].name, length);
        used += length;
    }
    memcpy(bytes + used, image, strlen(image) + 1);
    kda_put_le32(bytes + 12, rva + (uint32_t)used);
    kda_put_le32(bytes + 16, 1);
    kda_put_le32(bytes + 20, (uint32_t)count);
    kda_put_le32(bytes + 24, (uint32_t)count);
    kda_put_le32(bytes + 28, rva + 40);
    kda_put_le32(bytes + 32, rva + 40 + 4 * (uint32_t)count);
    kda_put_le32(bytes + 36, rva + 40 + 8 * (uint32_t)count);
    return total;
}

uint32_t exports_build(struct forge *f, uint32_t *size)
{
    uint8_t bytes[2048];
    collect(f);
    uint32_t rva = nt_reserve(f, sizeof(bytes));
    *size = (uint32_t)export_directory(f, f->exports, f->export_count, "ntoskrnl.exe", rva, bytes,
                                       sizeof(bytes));
    put_bytes(f, f->truth.base + rva, bytes, *size);
    return rva;
}
