/*
 * guarded.c - the only place that reads memory which may belong to user mode or may be gone.
 *
 * Structured exceptions catch a fault only in code that the compiler lets throw: the copy is an own
 * function that is never inlined.
 */
#include "driver.h"

#ifdef KDA_SIM

_Use_decl_annotations_ BOOLEAN KdaGuardedCopy(VOID *to, const VOID *from, SIZE_T bytes)
{
    return NT_SUCCESS(sim_guarded_copy(to, from, bytes));
}

#else

#define EXCEPTION_EXECUTE_HANDLER 1

static __attribute__((noinline)) VOID KdapCopy(volatile UCHAR *to, const volatile UCHAR *from,
                                               SIZE_T bytes)
{
    while (bytes >= 8 && (((ULONG_PTR)to | (ULONG_PTR)from) & 7) == 0) {
        *(volatile ULONG64 *)(volatile VOID *)to =
            *(const volatile ULONG64 *)(const volatile VOID *)from;
        to += 8;
        from += 8;
        bytes -= 8;
    }
    /* A number is read in one go, so that nobody can change half of it meanwhile. */
    if (bytes == 4 && (((ULONG_PTR)to | (ULONG_PTR)from) & 3) == 0) {
        *(volatile ULONG *)(volatile VOID *)to =
            *(const volatile ULONG *)(const volatile VOID *)from;
        return;
    }
    while (bytes != 0) {
        *to++ = *from++;
        bytes--;
    }
}

_Use_decl_annotations_ BOOLEAN KdaGuardedCopy(VOID *to, const VOID *from, SIZE_T bytes)
{
    __try {
        KdapCopy(to, from, bytes);
    } __except (EXCEPTION_EXECUTE_HANDLER) {
        return FALSE;
    }
    return TRUE;
}

#endif
