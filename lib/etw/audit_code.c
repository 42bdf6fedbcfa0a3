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
enum verdict { CLEAN, BLANK, RETURNS, JUMPS, BREAKS, NOT_A_STUB };

static const char *const verdict_text[] = {
    [CLEAN] = "",
    [BLANK] = "is blank",
    [RETURNS] = "returns at once",
    [JUMPS] = "jumps out of its module",
    [BREAKS] = "begins with a breakpoint",
    [NOT_A_STUB] = "does not begin as a system call does",
};

/* Where a jump at the start of a function leads. False: no jump, or one whose target would have to
 * be read first. */
static bool jump_target(const uint8_t *code, uint64_t va, uint64_t *target)
{
    if (code[0] == 0xe9) { /* jmp rel32 */
        *target = va + 5 + (uint64_t)(int64_t)(int32_t)kda_le32(code + 1);
        return true;
    }
    if (code[0] == 0xeb) { /* jmp rel8 */
        *target = va + 2 + (uint64_t)(int64_t)(int8_t)code[1];
        return true;
    }
    if (code[0] == 0x48 && (code[1] & 0xf8) == 0xb8 && code[10] == 0xff &&
        (code[11] & 0xf8) == 0xe0) { /* mov r64, imm64; jmp r64 */
        *target = kda_le64(code + 2);
        return true;
    }
    if (code[0] == 0x49 && (code[1] & 0xf8) == 0xb8 && code[10] == 0x41 && code[11] == 0xff) {
        *target = kda_le64(code + 2);
        return true;
    }
    if (code[0] == 0x68 && code[5] == 0xc3) { /* push imm32; ret */
        *target = (uint64_t)(int64_t)(int32_t)kda_le32(code + 1);
        return true;
    }
    return false;
}

static bool returns_at_once(const uint8_t *code)
{
    size_t at = 0;
    /* A result first: xor eax,eax; sub eax,eax; mov eax,imm32; and the 64-bit forms. */
    if (code[0] == 0x48 && (code[1] == 0x33 || code[1] == 0x31 || code[1] == 0x2b))
        at = 3;
    else if ((code[0] == 0x33 || code[0] == 0x31 || code[0] == 0x2b) && code[1] == 0xc0)
        at = 2;
    else if (code[0] == 0xb8)
        at = 5;
    else if (code[0] == 0x48 && code[1] == 0xc7 && code[2] == 0xc0)
        at = 7;
    return code[at] == 0xc3 || code[at] == 0xc2;
}

static enum verdict judge(const uint8_t *code, uint64_t va, uint64_t base, uint32_t size, bool stub)
{
    static const uint8_t blank[HEAD];
    static const uint8_t syscall_stub[] = {0x4c, 0x8b, 0xd1, 0xb8}; /* mov r10,rcx; mov eax,imm32 */
    uint64_t target;
    if (memcmp(code, blank, sizeof(blank)) == 0)
        return BLANK;
    if (code[0] == 0xcc)
        return BREAKS;
    if (jump_target(code, va, &target))
        return target - base < size ? CLEAN : JUMPS;
    if (code[0] == 0xff && code[1] == 0x25 && stub)
        return JUMPS;
    if (returns_at_once(code))
        return RETURNS;
    if (stub && memcmp(code, syscall_stub, sizeof(syscall_stub)) != 0)
        return NOT_A_STUB;
    return CLEAN;
}

static void bytes_text(const uint8_t *code, char *text, size_t cap)
{
    size_t used = 0;
    for (size_t i = 0; i < HEAD && used + 4 < cap; i++)
        used += (size_t)snprintf(text + used, cap - used, "%s%02x", i ? " " : "", code[i]);
}

static void tell(struct kda_audit *audit, enum kda_severity severity,
                 const struct kda_subject *subject, const char *function, enum verdict verdict,
                 const uint8_t *code, uint64_t va)
{
    char text[HEAD * 3 + 8];
    uint64_t target;
    if (verdict == BREAKS) /* a debugger's, and it lets events through */
        severity = KDA_SEVERITY_INFO;
    kda_audit_finding(audit, severity, subject, "%s %s", function, verdict_text[verdict]);
    bytes_text(code, text, sizeof(text));
    kda_audit_evidence(audit, function, va, text, "the function's own code");
    if (verdict == JUMPS && jump_target(code, va, &target))
        kda_audit_hex(audit, "leads to", va, target, "an address in the module");
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
        struct kda_error why;
        uint8_t code[HEAD];
        kda_audit_examined(audit);
        enum kda_status status = kda_kernel_export(audit->kernel, function, &subject.va, &why);
        if (status == KDA_OK)
            status = kda_read(audit->kernel, subject.va, code, sizeof(code), &why);
        if (status == KDA_NO_MEMORY)
            audit->no_memory = true;
        if (status != KDA_OK) {
            kda_audit_open(audit, &subject, "%s", why.text);
            continue;
        }
        enum verdict verdict = judge(code, subject.va, info->base, info->id.pe_size, false);
        if (verdict == BLANK)
            kda_audit_open(audit, &subject, "its code is all zero in this image");
        else if (verdict != CLEAN)
            tell(audit, KDA_SEVERITY_CRITICAL, &subject, function, verdict, code, subject.va);
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
    uint64_t base;
    uint32_t size;
    enum kda_status status =
        kda_process_module(audit->kernel, process, "ntdll.dll", &base, &size, &why);
    if (status != KDA_OK) {
        kda_audit_open(audit, &subject, "ntdll.dll: %s", why.text);
        return;
    }
    for (size_t i = 0; i < sizeof(user_functions) / sizeof(user_functions[0]); i++) {
        uint64_t va;
        uint8_t code[HEAD];
        status =
            kda_process_export(audit->kernel, process, base, user_functions[i].name, &va, &why);
        if (status == KDA_OK)
            status = kda_read_in(audit->kernel, process->dtb, va, code, sizeof(code), &why);
        if (status != KDA_OK) {
            kda_audit_open(audit, &subject, "%s: %s", user_functions[i].name, why.text);
            continue;
        }
        enum verdict verdict = judge(code, va, base, size, user_functions[i].stub);
        if (verdict == BLANK)
            kda_audit_open(audit, &subject, "%s is all zero in this image", user_functions[i].name);
        else if (verdict != CLEAN)
            tell(audit, KDA_SEVERITY_HIGH, &subject, user_functions[i].name, verdict, code, va);
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
    size_t live = 0;
    for (size_t i = 0; i < audit->process_count; i++) {
        const struct kda_process *process = &audit->processes[i];
        uint64_t peb = 1;
        if (!process->readable || process->exit_time_100ns)
            continue;
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
     "hypervisor products that patch the kernel",
     "T1562.006", check_kernel},
    {"code.user", KDA_SEVERITY_HIGH,
     "a process's event functions were patched",
     "Two bytes at the start of EtwEventWrite silence every provider of the process (AMSI, .NET, "
     "PowerShell).",
     "user memory of the processes: loader list, ntdll.dll",
     "security products and compatibility layers that hook ntdll.dll",
     "T1562.006", check_user},
    {0},
};
/* clang-format on */
