/*
 * rtl.c - DDIs found by name, and unique ids.
 */
#include "ps.h"
#include "thread_state.h"

/* Not declared in nt.h: a driver that runs on older kernels has to ask for them. */
NTSTATUS PsSetCreateProcessNotifyRoutineEx2(ULONG type, PVOID routine, BOOLEAN remove);
NTSTATUS PsSetCreateThreadNotifyRoutineEx(ULONG type, PVOID routine);
ULONGLONG PsGetProcessStartKey(PEPROCESS process);
UCHAR PsGetProcessSignatureLevel(PEPROCESS process, PUCHAR sectionLevel);
NTSTATUS IoCreateDeviceSecure(PDRIVER_OBJECT driver, ULONG extensionSize, PUNICODE_STRING name,
                              DEVICE_TYPE type, ULONG characteristics, BOOLEAN exclusive,
                              PCUNICODE_STRING sddl, const GUID *classGuid, PDEVICE_OBJECT *device);

static const struct {
    const char *name;
    uint32_t since; /* build */
} routines[] = {
    {"PsSetCreateProcessNotifyRoutineEx2", 15063},
    {"PsSetCreateThreadNotifyRoutineEx", 10240},
    {"PsGetProcessStartKey", 16299},
    {"PsGetProcessSignatureLevel", 9600},
    {"IoCreateDeviceSecure", 22000},
    {"WdmlibIoCreateDeviceSecure", 22000},
};

static void *routine_at(size_t index)
{
    switch (index) {
    case 0:
        return (void *)(uintptr_t)PsSetCreateProcessNotifyRoutineEx2;
    case 1:
        return (void *)(uintptr_t)PsSetCreateThreadNotifyRoutineEx;
    case 2:
        return (void *)(uintptr_t)PsGetProcessStartKey;
    case 3:
        return (void *)(uintptr_t)PsGetProcessSignatureLevel;
    default:
        return (void *)(uintptr_t)IoCreateDeviceSecure;
    }
}

PVOID MmGetSystemRoutineAddress(PUNICODE_STRING name)
{
    struct sim_str text = sim_str_of(name);
    char *wanted = sim_utf8(text.units, text.count);
    void *found = NULL;

    SIM_DDI(PASSIVE_LEVEL);
    for (size_t i = 0; i < sizeof(routines) / sizeof(routines[0]); i++) {
        if (strcmp(routines[i].name, wanted) == 0 && sim.options.build >= routines[i].since)
            found = routine_at(i);
    }
    free(wanted);
    return found;
}

NTSTATUS ExUuidCreate(UUID *uuid)
{
    static _Atomic uint32_t next;
    uint32_t n = atomic_fetch_add(&next, 1) + 1;
    uint64_t time = sim_clock_utc();

    SIM_DDI(APC_LEVEL);
    if (SIM_FAULT())
        return STATUS_RETRY;
    if (sim_uuid_refused())
        return STATUS_RETRY;
    uuid->Data1 = n;
    uuid->Data2 = (USHORT)time;
    uuid->Data3 = 0x4000;
    memcpy(uuid->Data4, &time, 8);
    uuid->Data4[0] = 0x80;
    return STATUS_SUCCESS;
}
