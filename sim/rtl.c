/*
 * rtl.c - exports by version and machine, and unique ids.
 */
#include "ps.h"

/* What MmGetSystemRoutineAddress finds: the kernel's and the HAL's own names, not those of other
 * modules. `since` is a build; 0: older than all that the driver runs on. Address 0: the driver
 * links it, or has no use for it, so only its presence is simulated. NOWHERE: a macro or inline
 * function of the headers, which a driver that imports it by name would not load with. */
enum { ALL, X64_ONLY, ARM64_ONLY, NOWHERE };
static const struct {
    const char *name;
    uint32_t since;
    int machine;
    void (*at)(void);
} exports[] = {
    {"PsSetCreateProcessNotifyRoutineEx", 0, ALL,
     (void (*)(void))PsSetCreateProcessNotifyRoutineEx},
    {"PsSetCreateProcessNotifyRoutineEx2", 15063, ALL,
     (void (*)(void))PsSetCreateProcessNotifyRoutineEx2},
    {"PsSetCreateThreadNotifyRoutineEx", 10240, ALL,
     (void (*)(void))PsSetCreateThreadNotifyRoutineEx},
    {"PsRemoveCreateThreadNotifyRoutine", 0, ALL,
     (void (*)(void))PsRemoveCreateThreadNotifyRoutine},
    {"PsSetLoadImageNotifyRoutineEx", 16299, ALL, (void (*)(void))PsSetLoadImageNotifyRoutineEx},
    {"PsGetProcessCreateTimeQuadPart", 0, ALL, (void (*)(void))PsGetProcessCreateTimeQuadPart},
    {"PsGetProcessExitStatus", 0, ALL, (void (*)(void))PsGetProcessExitStatus},
    {"PsGetThreadExitStatus", 0, ALL, (void (*)(void))PsGetThreadExitStatus},
    {"PsGetProcessStartKey", 16299, ALL, (void (*)(void))PsGetProcessStartKey},
    {"PsGetProcessSignatureLevel", 9600, ALL, (void (*)(void))PsGetProcessSignatureLevel},
    {"ZwQueryVirtualMemory", 0, ALL, (void (*)(void))ZwQueryVirtualMemory},
    {"CmRegisterCallbackEx", 0, ALL, (void (*)(void))CmRegisterCallbackEx},
    {"CmCallbackGetKeyObjectIDEx", 0, ALL, (void (*)(void))CmCallbackGetKeyObjectIDEx},
    {"IoCsqInitialize", 0, ALL, (void (*)(void))IoCsqInitialize},
    {"IofCompleteRequest", 0, ALL, (void (*)(void))IoCompleteRequest},
    {"IoCreateDeviceSecure", 22000, ALL, (void (*)(void))IoCreateDeviceSecure},
    {"WdmlibIoCreateDeviceSecure", 22000, ALL, (void (*)(void))IoCreateDeviceSecure},
    {"ExAllocatePoolWithTag", 0, ALL, (void (*)(void))ExAllocatePoolWithTag},
    {"ExAllocatePool2", 19041, ALL, (void (*)(void))ExAllocatePool2},
    {"ExInitializeNPagedLookasideList", 0, ALL, (void (*)(void))ExInitializeNPagedLookasideList},
    /* Inline for older kits; exported for drivers of the newer ones. */
    {"ExAllocateFromNPagedLookasideList", 22621, ALL,
     (void (*)(void))ExAllocateFromNPagedLookasideList},
    {"ExFreeToNPagedLookasideList", 22621, ALL, (void (*)(void))ExFreeToNPagedLookasideList},
    {"ExpInterlockedPopEntrySList", 0, ALL, NULL},
    {"ExpInterlockedPushEntrySList", 0, ALL, NULL},
    {"KeAcquireSpinLockRaiseToDpc", 0, ALL, (void (*)(void))KeAcquireSpinLockRaiseToDpc},
    {"KeQueryPerformanceCounter", 0, ALL, (void (*)(void))KeQueryPerformanceCounter},
    {"KeGetCurrentProcessorNumberEx", 0, ALL, (void (*)(void))KeGetCurrentProcessorNumberEx},
    {"KeQueryActiveProcessorCountEx", 0, ALL, (void (*)(void))KeQueryActiveProcessorCountEx},
    {"KeQuerySystemTimePrecise", 0, ALL, (void (*)(void))KeQuerySystemTimePrecise},
    /* Inline on x64. KeLowerIrql is a macro over KfLowerIrql on ARM64, and no export there. */
    {"KeGetCurrentIrql", 0, ARM64_ONLY, NULL},
    {"KfRaiseIrql", 0, ARM64_ONLY, NULL},
    {"KfLowerIrql", 0, ARM64_ONLY, NULL},
    {"KeLowerIrql", 0, NOWHERE, NULL},
    {"KeRaiseIrql", 0, NOWHERE, NULL},
    {"KeAcquireSpinLock", 0, NOWHERE, NULL},
    {"IoCompleteRequest", 0, NOWHERE, NULL},
    {"IoGetCurrentIrpStackLocation", 0, NOWHERE, NULL},
    {"IoMarkIrpPending", 0, NOWHERE, NULL},
    {"ExInitializeFastMutex", 0, NOWHERE, NULL},
    {"ObReferenceObject", 0, NOWHERE, NULL},
    {"ObDereferenceObject", 0, NOWHERE, NULL},
};

static bool is_here(size_t i)
{
    int other = sim.options.machine == SIM_ARM64 ? X64_ONLY : ARM64_ONLY;

    return sim.options.build >= exports[i].since && exports[i].machine != other &&
           exports[i].machine != NOWHERE;
}

PVOID MmGetSystemRoutineAddress(PUNICODE_STRING name)
{
    struct sim_str text = sim_str_of(name);
    char *wanted = sim_utf8(text.units, text.count);
    void *found = NULL;

    SIM_DDI(PASSIVE_LEVEL, "EX-045");
    for (size_t i = 0; i < sizeof(exports) / sizeof(exports[0]) && !found; i++) {
        if (strcmp(exports[i].name, wanted) != 0 || !is_here(i))
            continue;
        found = exports[i].at ? (void *)(uintptr_t)exports[i].at
                              : (void *)(uintptr_t)MmGetSystemRoutineAddress;
    }
    free(wanted);
    return found;
}

bool sim_lacks(const char *name)
{
    for (size_t i = 0; i < sizeof(exports) / sizeof(exports[0]); i++) {
        if (strcmp(exports[i].name, name) == 0)
            return !is_here(i);
    }
    return false;
}

NTSTATUS ExUuidCreate(UUID *uuid)
{
    static _Atomic uint32_t next;
    uint32_t n = atomic_fetch_add(&next, 1) + 1;
    uint64_t time = sim_clock_utc();
    NTSTATUS status = STATUS_SUCCESS;

    SIM_DDI(PASSIVE_LEVEL, "EX-043");
    /* RPC_NT_UUID_LOCAL_ONLY is a success: the id is there. */
    if (sim_fails(__func__, SIM_ANY_CLASS, NTSTATUS_OF(0xC000022D) /* STATUS_RETRY */, &status) &&
        !NT_SUCCESS(status))
        return status;
    uuid->Data1 = n;
    uuid->Data2 = (USHORT)time;
    uuid->Data3 = 0x4000;
    memcpy(uuid->Data4, &time, 8);
    uuid->Data4[0] = 0x80;
    return status;
}
