/*
 * audit_code.c - checks of the code that events pass through: the first bytes of the functions that
 * write them, in the kernel and in every process.
 */
#include "audit.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

#define HEAD 16u

/* What the first bytes of a function say. */
enum verdict { CLEAN, BLANK, UNREADABLE, RETURNS, JUMPS, BREAKS, NOT_A_STUB };

static const char *const verdict_text[] = {
    [CLEAN] = "",
    [BLANK] = "is all zero in this image",
    [UNREADABLE] = "jumps through a pointer that cannot be read",
    [RETURNS] = "returns at once",
    [JUMPS] = "jumps out of its module",
    [BREAKS] = "begins with a breakpoint",
    [NOT_A_STUB] = "does not begin as a system call does",
};

/* Code to look at, and whose. */
struct code {
    struct kda_kernel *kernel;
    uint64_t dtb, va;
    uint64_t base; /* of its module */
    uint32_t size;
    uint8_t bytes[HEAD];
    size_t skip; /* bytes of padding in front */
};

/* The n-th byte behind the padding. */
static uint8_t byte_at(const struct code *code, size_t n)
{
    return code->skip + n < HEAD ? code->bytes[code->skip + n] : 0;
}

static bool starts(const struct code *code, const char *bytes, size_t size)
{
    return code->skip + size <= HEAD && memcmp(code->bytes + code->skip, bytes, size) == 0;
}

static bool number_at(const struct code *code, size_t n, size_t size, uint64_t *ret)
{
    uint8_t bytes[8] = {0};
    if (code->skip + n + size > HEAD)
        return false;
    memcpy(bytes, code->bytes + code->skip + n, size);
    *ret = kda_le64(bytes);
    return true;
}

/* mov r64, imm64, then a jump there: through the register, or pushed and returned to. */
static bool far_jump(const struct code *code, uint64_t *target)
{
    uint8_t prefix = byte_at(code, 0), reg = byte_at(code, 1) & 7;
    if ((prefix != 0x48 && prefix != 0x49) || (byte_at(code, 1) & 0xf8) != 0xb8)
        return false;
    size_t at = 10;
    if (prefix == 0x49 && byte_at(code, at++) != 0x41)
        return false;
    bool jumps = byte_at(code, at) == 0xff && byte_at(code, at + 1) == (0xe0 | reg);
    bool returns = byte_at(code, at) == (0x50 | reg) && byte_at(code, at + 1) == 0xc3;
    return (jumps || returns) && number_at(code, 2, 8, target);
}

/* Where a jump at the start of a function leads. *status is not KDA_OK when the target has to be
 * read and is not there. False: no jump. */
static bool jump_target(const struct code *code, uint64_t *target, enum kda_status *status,
                        struct kda_error *why)
{
    uint64_t at = code->va + code->skip, value, high;
    *status = KDA_OK;
    if (byte_at(code, 0) == 0xe9 && number_at(code, 1, 4, &value)) { /* jmp rel32 */
        *target = at + 5 + (uint64_t)(int64_t)(int32_t)value;
        return true;
    }
    if (byte_at(code, 0) == 0xeb && number_at(code, 1, 1, &value)) { /* jmp rel8 */
        *target = at + 2 + (uint64_t)(int64_t)(int8_t)value;
        return true;
    }
    if (starts(code, "\xff\x25", 2) && number_at(code, 2, 4, &value)) { /* jmp [rip + n] */
        uint8_t bytes[8] = {0};
        *status = kda_read_in(code->kernel, code->dtb, at + 6 + (uint64_t)(int64_t)(int32_t)value,
                              bytes, 8, why);
        *target = kda_le64(bytes);
        return true;
    }
    if (far_jump(code, target))
        return true;
    if (byte_at(code, 0) != 0x68 || !number_at(code, 1, 4, &value))
        return false;
    *target = (uint64_t)(int64_t)(int32_t)value;
    if (byte_at(code, 5) == 0xc3) /* push imm32; ret */
        return true;
    if (code->skip + 14 > HEAD ||
        memcmp(code->bytes + code->skip + 5, "\xc7\x44\x24\x04", 4) != 0 ||
        byte_at(code, 13) != 0xc3 || !number_at(code, 9, 4, &high))
        return false;
    *target = high << 32 | (value & UINT32_MAX); /* push; mov [rsp+4], imm32; ret */
    return true;
}

/* A result first: xor eax,eax; sub eax,eax; mov eax,imm32; push imm8, pop rax; 64-bit forms. */
static bool returns_at_once(const struct code *code)
{
    static const struct {
        const char *bytes;
        size_t size, skip;
    } results[] = {{"\x33\xc0", 2, 2},     {"\x31\xc0", 2, 2},     {"\x2b\xc0", 2, 2},
                   {"\x29\xc0", 2, 2},     {"\x48\x33\xc0", 3, 3}, {"\x48\x31\xc0", 3, 3},
                   {"\x48\x2b\xc0", 3, 3}, {"\x48\x29\xc0", 3, 3}, {"\xb8", 1, 5},
                   {"\x48\xc7\xc0", 3, 7}, {"\x83\xc8", 2, 3}};
    size_t at = 0;
    for (size_t i = 0; at == 0 && i < sizeof(results) / sizeof(results[0]); i++)
        if (starts(code, results[i].bytes, results[i].size))
            at = results[i].skip;
    if (byte_at(code, 0) == 0x6a && byte_at(code, 2) == 0x58)
        at = 3;
    return byte_at(code, at) == 0xc3 || byte_at(code, at) == 0xc2 ||
           (byte_at(code, at) == 0xf3 && byte_at(code, at + 1) == 0xc3);
}

static enum verdict judge(struct code *code, bool stub, uint64_t *target, struct kda_error *why)
{
    static const uint8_t blank[HEAD];
    static const uint8_t syscall_stub[] = {0x4c, 0x8b, 0xd1, 0xb8}; /* mov r10,rcx; mov eax,imm32 */
    enum kda_status status;
    if (memcmp(code->bytes, blank, sizeof(blank)) == 0)
        return BLANK;
    code->skip = 0;
    while (code->skip < HEAD / 2 && code->bytes[code->skip] == 0x90)
        code->skip++;
    *target = 0;
    if (byte_at(code, 0) == 0xcc)
        return BREAKS;
    if (jump_target(code, target, &status, why))
        return status != KDA_OK ? UNREADABLE : *target - code->base < code->size ? CLEAN : JUMPS;
    if (returns_at_once(code))
        return RETURNS;
    if (stub && memcmp(code->bytes, syscall_stub, sizeof(syscall_stub)) != 0)
        return NOT_A_STUB;
    return CLEAN;
}

static void bytes_text(const uint8_t *code, char *text, size_t cap)
{
    size_t used = 0;
    for (size_t i = 0; i < HEAD && used + 4 < cap; i++)
        used += (size_t)snprintf(text + used, cap - used, "%s%02x", i ? " " : "", code[i]);
}

/* Reads and judges the function at code->va. */
static void check_code(struct kda_audit *audit, enum kda_severity severity,
                       const struct kda_subject *subject, const char *function, struct code *code,
                       bool stub)
{
    char text[HEAD * 3 + 8];
    struct kda_error why;
    uint64_t target;
    if (kda_read_in(code->kernel, code->dtb, code->va, code->bytes, HEAD, &why) != KDA_OK) {
        kda_audit_open(audit, subject, "%s: %s", function, why.text);
        return;
    }
    enum verdict verdict = judge(code, stub, &target, &why);
    if (verdict == CLEAN)
        return;
    if (verdict == BLANK || verdict == UNREADABLE) {
        kda_audit_open(audit, subject, "%s %s", function, verdict_text[verdict]);
        return;
    }
    if (verdict == BREAKS) /* a debugger's, and it lets events through */
        severity = KDA_SEVERITY_INFO;
    kda_audit_finding(audit, severity, subject, "%s %s", function, verdict_text[verdict]);
    bytes_text(code->bytes, text, sizeof(text));
    kda_audit_evidence(audit, function, code->va, text, "the function's own code");
    if (verdict == JUMPS)
        kda_audit_hex(audit,
                      kda_audit_text(audit, "leads to code %s", kda_audit_place(audit, target)),
                      code->va, target, "an address in the module");
}

/* ---- the kernel ---- */

static const char *const kernel_functions[] = {"EtwWrite", "EtwWriteEx", "EtwWriteTransfer",
                                               "NtTraceEvent", "EtwWriteString"};

static void check_kernel(struct kda_audit *audit)
{
    const struct kda_kernel_info *info = kda_kernel_info(audit->kernel);
    for (size_t i = 0; i < sizeof(kernel_functions) / sizeof(kernel_functions[0]); i++) {
        const char *function = kernel_functions[i];
        struct kda_subject subject = kda_subject_of("function", function, 0, NULL);
        struct code code = {.kernel = audit->kernel,
                            .dtb = info->dtb,
                            .base = info->base,
                            .size = info->id.pe_size};
        struct kda_error why;
        kda_audit_examined(audit);
        enum kda_status status = kda_kernel_export(audit->kernel, function, &code.va, &why);
        subject.va = code.va;
        if (status == KDA_NO_MEMORY)
            audit->no_memory = true;
        if (status != KDA_OK)
            kda_audit_open(audit, &subject, "%s", why.text);
        else
            check_code(audit, KDA_SEVERITY_CRITICAL, &subject, function, &code, false);
    }
}

/* ---- processes ---- */

static const struct {
    const char *name;
    bool stub; /* a system call */
} user_functions[] = {
    {"EtwEventWrite", false}, {"EtwEventWriteFull", false}, {"NtTraceEvent", true}};

static void check_process(struct kda_audit *audit, const struct kda_process *process)
{
    struct kda_subject subject = kda_subject_process(process);
    struct kda_error why;
    struct code code = {.kernel = audit->kernel, .dtb = process->dtb};
    enum kda_status status =
        kda_process_module(audit->kernel, process, "ntdll.dll", &code.base, &code.size, &why);
    if (status != KDA_OK) {
        kda_audit_open(audit, &subject, "ntdll.dll: %s", why.text);
        return;
    }
    for (size_t i = 0; i < sizeof(user_functions) / sizeof(user_functions[0]); i++) {
        status = kda_process_export(audit->kernel, process, code.base, user_functions[i].name,
                                    &code.va, &why);
        if (status != KDA_OK)
            kda_audit_open(audit, &subject, "%s: %s", user_functions[i].name, why.text);
        else
            check_code(audit, KDA_SEVERITY_HIGH, &subject, user_functions[i].name, &code,
                       user_functions[i].stub);
    }
}

static void check_user(struct kda_audit *audit)
{
    if (audit->processes_status != KDA_OK) {
        kda_audit_open(audit, NULL, "the processes of the image cannot be read");
        return;
    }
    if (!kda_has_field(audit->kernel, KDA_F_EPROCESS_Peb)) {
        kda_audit_open(audit, NULL, "this build's layout lacks _EPROCESS.Peb");
        return;
    }
    static const char *const kinds[] = {"processes", "handle_tables", "cid_table", "cid_entry",
                                        NULL};
    size_t live = 0;
    kda_audit_open_gaps(audit, "processes", kinds);
    for (size_t i = 0; i < audit->process_count; i++) {
        const struct kda_process *process = &audit->processes[i];
        uint64_t peb = 1;
        if (process->exit_time_100ns)
            continue;
        if (!process->readable) {
            struct kda_subject subject = kda_subject_process(process);
            kda_audit_open(audit, &subject, "its memory is not in the image");
            continue;
        }
        live++;
        if (kda_read_field(audit->kernel, process->va, KDA_F_EPROCESS_Peb, &peb, NULL) == KDA_OK &&
            peb == 0)
            continue; /* System, Registry and their like have no user code */
        kda_audit_examined(audit);
        check_process(audit, process);
    }
    if (audit->now->examined == 0 && live > 0)
        kda_audit_open(audit, NULL, "no process of this image has user memory");
}

/* clang-format off */
const struct kda_check kda_checks_code[] = {
    {"code.kernel", KDA_SEVERITY_CRITICAL,
     "a kernel function that writes events was patched",
     "A return or a jump at its start drops events of all drivers, or lets somebody choose.",
     "the kernel's export table and code",
     "hot patches, which jump into a patch image; products that patch the kernel",
     "T1562.006", check_kernel},
    {"code.user", KDA_SEVERITY_HIGH,
     "a process's event functions were patched",
     "Two bytes at the start of EtwEventWrite silence every provider of the process (AMSI, .NET, "
     "PowerShell).",
     "user memory of the processes: loader list, ntdll.dll",
     "security products, compatibility layers and hot patches that hook ntdll.dll",
     "T1562.006", check_user},
    {0},
};
/* clang-format on */
