/*
 * entry.c - what the C run-time library gives other programs: the stack cookie, the image's load
 * configuration with its control flow guard, and the entry point that sets the cookie first.
 *
 * Names with two underscores are those that the compiler and the linker ask for. Only in the image
 * for Windows; the simulator has the checks of its compiler.
 */
#include "driver.h"

#define KDA_COOKIE_DEFAULT 0x00002B992DDFA232ull
/* The upper 16 bits stay 0: a string that runs over the cookie cannot write them and go on. */
#define KDA_COOKIE_MASK 0x0000FFFFFFFFFFFFull

#define KDA_NOT_PROTECTED __attribute__((no_stack_protector))

/* Newer kernels set it when they load the image, by the load configuration below. */
ULONG_PTR __security_cookie = KDA_COOKIE_DEFAULT;

/* --- the check ------------------------------------------------------------------------------- */

_IRQL_requires_max_(HIGH_LEVEL) VOID __security_check_cookie(ULONG_PTR cookie);

/* Fail fast: no code of a stack that was overwritten runs any more. 2 is
 * FAST_FAIL_STACK_COOKIE_CHECK_FAILURE. */
KDA_NOT_PROTECTED _Use_decl_annotations_ VOID __security_check_cookie(ULONG_PTR cookie)
{
    if (cookie == __security_cookie)
        return;
#ifdef __aarch64__
    __asm__ volatile("mov w0, #2\n\tbrk #0xF003" : : : "x0");
#else
    __asm__ volatile("movl $2, %%ecx\n\tint $0x29" : : : "ecx");
#endif
    __builtin_unreachable();
}

/* --- control flow guard ---------------------------------------------------------------------- */

/* A kernel that guards replaces these; one that does not leaves them, and a call goes where it is
 * told. The compiler puts the target into rax (dispatch, x64) or x15 (check, arm64). */
VOID KdaGuardNothing(VOID);
#ifdef __aarch64__
__asm__(".text\n\t.globl KdaGuardNothing\n\t.p2align 2\nKdaGuardNothing:\n\tret\n");
#define KDA_GUARD_POINTER __guard_check_icall_fptr
#define KDA_GUARD_CHECK (ULONG_PTR) & __guard_check_icall_fptr
#define KDA_GUARD_DISPATCH 0
#else
__asm__(".text\n\t.globl KdaGuardNothing\n\t.p2align 4\nKdaGuardNothing:\n\tjmp *%rax\n");
#define KDA_GUARD_POINTER __guard_dispatch_icall_fptr
#define KDA_GUARD_CHECK 0
#define KDA_GUARD_DISPATCH (ULONG_PTR) & __guard_dispatch_icall_fptr
#endif
extern VOID (*const KDA_GUARD_POINTER)(VOID);
__attribute__((section(".00cfg"), used)) VOID (*const KDA_GUARD_POINTER)(VOID) = KdaGuardNothing;

/* Made by the linker; the values are the symbols' addresses. */
extern VOID *__guard_fids_table[];
extern ULONG __guard_fids_count;
extern VOID *__guard_iat_table[];
extern ULONG __guard_iat_count;
extern ULONG __guard_flags;

/* IMAGE_LOAD_CONFIG_DIRECTORY64 (winnt.h) up to the last member that is used. */
struct kda_load_config {
    ULONG Size;
    ULONG TimeDateStamp;
    ULONG Version;
    ULONG GlobalFlags[3]; /* clear, set; critical section timeout */
    ULONG64 Memory[5];    /* of heaps and locks: no matter here */
    ULONG64 ProcessAffinity;
    ULONG ProcessHeapFlags;
    ULONG ServicePack;
    ULONG64 EditList;
    ULONG_PTR SecurityCookie;
    ULONG64 SafeHandlers[2];
    ULONG_PTR GuardCheck;
    ULONG_PTR GuardDispatch;
    VOID *const *GuardTable;
    ULONG_PTR GuardCount;
    ULONG_PTR GuardFlagsAndIntegrity; /* 12 bytes of code integrity begin in its upper half */
    ULONG64 Integrity;
    VOID *const *ImportTable; /* functions of others whose address is taken */
    ULONG_PTR ImportCount;
    ULONG64 LongJumps[2];
};
C_ASSERT(FIELD_OFFSET(struct kda_load_config, SecurityCookie) == 88);
C_ASSERT(FIELD_OFFSET(struct kda_load_config, GuardCheck) == 112);
C_ASSERT(FIELD_OFFSET(struct kda_load_config, GuardFlagsAndIntegrity) == 144);
C_ASSERT(sizeof(struct kda_load_config) == 192);

/* The linker finds the directory by this name. */
extern const struct kda_load_config _load_config_used;
const struct kda_load_config _load_config_used = {
    .Size = sizeof(struct kda_load_config),
    .SecurityCookie = (ULONG_PTR)&__security_cookie,
    .GuardCheck = KDA_GUARD_CHECK,
    .GuardDispatch = KDA_GUARD_DISPATCH,
    .GuardTable = __guard_fids_table,
    .GuardCount = (ULONG_PTR)&__guard_fids_count,
    .GuardFlagsAndIntegrity = (ULONG_PTR)&__guard_flags,
    .ImportTable = __guard_iat_table,
    .ImportCount = (ULONG_PTR)&__guard_iat_count,
};

/* --- entry ----------------------------------------------------------------------------------- */

DRIVER_INITIALIZE GsDriverEntry;

/* The cookie changes here, so nothing on the way in may have been protected by the old one. */
KDA_INITCODE KDA_NOT_PROTECTED NTSTATUS GsDriverEntry(PDRIVER_OBJECT driverObject,
                                                      PUNICODE_STRING registryPath)
{
    if (__security_cookie == KDA_COOKIE_DEFAULT || __security_cookie == 0) {
        ULONG_PTR seed = (ULONG_PTR)KeQueryPerformanceCounter(NULL).QuadPart;
        LARGE_INTEGER now;

        KeQuerySystemTimePrecise(&now);
        seed ^= (ULONG_PTR)now.QuadPart << 16 ^ (ULONG_PTR)&seed ^ (ULONG_PTR)driverObject << 8;
        seed *= 0x9E3779B97F4A7C15ull;
        seed = (seed ^ seed >> 32) & KDA_COOKIE_MASK;
        __security_cookie = seed != 0 ? seed : KDA_COOKIE_DEFAULT;
    }
    return DriverEntry(driverObject, registryPath);
}
