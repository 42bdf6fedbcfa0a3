/*
 * rules_status.c - statuses on demand, and what each version and machine exports.
 */
#include "rules.h"

/* --- statuses -------------------------------------------------------------------------------- */

struct probe {
    const char *ddi;
    NTSTATUS (*call)(void);
};

static VOID routine(void)
{
}

static IO_STATUS_BLOCK io;
static uint8_t buffer[512];
static ULONG returned;
static const GUID some = {0x1234, 0x56, 0x78, {1, 2, 3, 4, 5, 6, 7, 8}};
static WCHAR display[] = u"name";

#define PROBE(name, expression)                                                                    \
    static NTSTATUS probe_##name(void)                                                             \
    {                                                                                              \
        return (NTSTATUS)(expression);                                                             \
    }

static OBJECT_ATTRIBUTES *named(const uint16_t *text)
{
    static UNICODE_STRING name;
    static OBJECT_ATTRIBUTES attributes;

    name = rules_string(text);
    attributes = rules_attributes(&name, 0);
    return &attributes;
}

static UNICODE_STRING *string(const uint16_t *text)
{
    static UNICODE_STRING one;

    one = rules_string(text);
    return &one;
}

static HANDLE engine(void)
{
    static HANDLE handle;
    FWPM_SESSION0 session = {.flags = FWPM_SESSION_FLAG_DYNAMIC};

    if (!handle)
        FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, &session, &handle);
    return handle;
}

static NTSTATUS commit(bool abort)
{
    HANDLE handle = engine();

    FwpmTransactionBegin0(handle, 0);
    return abort ? FwpmTransactionAbort0(handle) : FwpmTransactionCommit0(handle);
}

static NTSTATUS subscribe(bool end)
{
    static HANDLE handle;
    NTSTATUS status = FwpmBfeStateSubscribeChanges0(
        fx.device, (FWPM_SERVICE_STATE_CHANGE_CALLBACK0)(uintptr_t)routine, NULL, &handle);

    return end ? FwpmBfeStateUnsubscribeChanges0(handle) : status;
}

static NTSTATUS add(int kind)
{
    FWPM_DISPLAY_DATA0 data = {display, NULL};
    FWPM_PROVIDER0 provider = {.displayData = data, .providerKey = some};
    FWPM_SUBLAYER0 sublayer = {.displayData = data, .subLayerKey = some};
    FWPM_CALLOUT0 callout = {.displayData = data, .calloutKey = some};
    FWPM_FILTER0 filter = {.displayData = data,
                           .layerKey = KDA_LAYER_ALE_AUTH_CONNECT_V4,
                           .action = {FWP_ACTION_CALLOUT_INSPECTION, some}};

    return kind == 0   ? FwpmProviderAdd0(engine(), &provider, NULL)
           : kind == 1 ? FwpmSubLayerAdd0(engine(), &sublayer, NULL)
           : kind == 2 ? FwpmCalloutAdd0(engine(), &callout, NULL, NULL)
                       : FwpmFilterAdd0(engine(), &filter, NULL, NULL);
}

static NTSTATUS callout_registered(bool second)
{
    const struct sim_callout_registration callout = {
        .key = some, .classify = (void *)(uintptr_t)routine, .notify = (void *)(uintptr_t)routine};

    return second ? FwpsCalloutRegister2(fx.device, (const void *)&callout, NULL)
                  : FwpsCalloutRegister1(fx.device, (const void *)&callout, NULL);
}

static NTSTATUS open_file(void)
{
    HANDLE file;

    return ZwCreateFile(&file, FILE_APPEND_DATA | SYNCHRONIZE,
                        named(u"\\??\\C:\\Windows\\Temp\\more.txt"), &io, NULL, 0, 0, FILE_OPEN_IF,
                        FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0);
}

static NTSTATUS register_altitude(void)
{
    LARGE_INTEGER cookie;

    return CmRegisterCallbackEx((PEX_CALLBACK_FUNCTION)(uintptr_t)routine, string(u"7"), fx.driver,
                                NULL, &cookie, NULL);
}

static NTSTATUS key_name(void)
{
    return CmCallbackGetKeyObjectIDEx(&fx.cookie, fx.process, NULL, NULL, 0);
}

static NTSTATUS new_device(bool secure)
{
    PDEVICE_OBJECT device;
    UNICODE_STRING sddl = rules_string(u"D:P(A;;GA;;;SY)");

    return secure ? IoCreateDeviceSecure(fx.driver, 0, string(u"\\Device\\R2"), FILE_DEVICE_UNKNOWN,
                                         0, FALSE, &sddl, NULL, &device)
                  : IoCreateDevice(fx.driver, 0, string(u"\\Device\\R2"), FILE_DEVICE_UNKNOWN, 0,
                                   FALSE, &device);
}

static NTSTATUS new_link(void)
{
    UNICODE_STRING target = rules_string(u"\\Device\\Rules");

    return IoCreateSymbolicLink(string(u"\\??\\Rules"), &target);
}

static NTSTATUS power(void)
{
    PCALLBACK_OBJECT callback;

    return ExCreateCallback(&callback, named(u"\\Callback\\PowerState"), FALSE, TRUE);
}

static NTSTATUS reference(void)
{
    PVOID object;

    return ObReferenceObjectByHandle(fx.key, 0, NULL, KernelMode, &object, NULL);
}

static NTSTATUS thread(void)
{
    HANDLE handle;
    OBJECT_ATTRIBUTES attributes = rules_attributes(NULL, 0);

    return PsCreateSystemThread(&handle, 0, &attributes, NULL, NULL,
                                (PKSTART_ROUTINE)(uintptr_t)routine, NULL);
}

static NTSTATUS csq(void)
{
    IO_CSQ queue;

    return IoCsqInitialize(&queue, NULL, NULL, NULL, NULL, NULL, NULL);
}

static NTSTATUS uuid(void)
{
    UUID made = {0};
    NTSTATUS status = ExUuidCreate(&made);

    EXPECT(!NT_SUCCESS(status) || made.Data1 != 0); /* each success has an id */
    return status;
}

static NTSTATUS other_callback(int which)
{
    PVOID at = (void *)(uintptr_t)routine;

    switch (which) {
    case 0:
        return PsSetCreateProcessNotifyRoutineEx((PCREATE_PROCESS_NOTIFY_ROUTINE_EX)at, FALSE);
    case 1:
        return PsSetCreateProcessNotifyRoutineEx2(0, at, FALSE);
    case 2:
        return PsSetCreateThreadNotifyRoutine((PCREATE_THREAD_NOTIFY_ROUTINE)at);
    case 3:
        return PsSetCreateThreadNotifyRoutineEx(1, at);
    case 4:
        return PsRemoveCreateThreadNotifyRoutine((PCREATE_THREAD_NOTIFY_ROUTINE)at);
    case 5:
        return PsSetLoadImageNotifyRoutine((PLOAD_IMAGE_NOTIFY_ROUTINE)at);
    case 6:
        return PsSetLoadImageNotifyRoutineEx((PLOAD_IMAGE_NOTIFY_ROUTINE)at, 0);
    default:
        return PsRemoveLoadImageNotifyRoutine((PLOAD_IMAGE_NOTIFY_ROUTINE)at);
    }
}

static NTSTATUS locate(void)
{
    PUNICODE_STRING name;

    return SeLocateProcessImageName(fx.process, &name);
}

PROBE(p0, other_callback(0))
PROBE(p1, other_callback(1))
PROBE(p2, other_callback(2))
PROBE(p3, other_callback(3))
PROBE(p4, other_callback(4))
PROBE(p5, other_callback(5))
PROBE(p6, other_callback(6))
PROBE(p7, other_callback(7))
PROBE(lookup, PsLookupProcessByProcessId(PID(4), &fx.process))
PROBE(lookup_thread, PsLookupThreadByThreadId(PID(8), &fx.thread))
PROBE(query, ZwQueryInformationProcess(fx.process_handle, 0, buffer, 48, &returned))
PROBE(query_thread, ZwQueryInformationThread(fx.thread_handle, 9, buffer, 8, &returned))
PROBE(query_system, ZwQuerySystemInformation(5, buffer, 512, &returned))
PROBE(query_memory, ZwQueryVirtualMemory(fx.process_handle, NULL, 0, buffer, 48, NULL))
PROBE(unregister, CmUnRegisterCallback(fx.cookie))
PROBE(subscribe, subscribe(false))
PROBE(unsubscribe, subscribe(true))
PROBE(engine_close, FwpmEngineClose0(engine()))
PROBE(begin, FwpmTransactionBegin0(engine(), 0))
PROBE(commit, commit(false))
PROBE(abort, commit(true))
PROBE(add0, add(0))
PROBE(add1, add(1))
PROBE(add2, add(2))
PROBE(add3, add(3))
PROBE(register1, callout_registered(false))
PROBE(register2, callout_registered(true))
PROBE(callout_gone, FwpsCalloutUnregisterById0(256))
PROBE(device, new_device(false))
PROBE(device_secure, new_device(true))
PROBE(unlink, IoDeleteSymbolicLink(string(u"\\??\\Rules")))
PROBE(shutdown, (fx.driver->MajorFunction[IRP_MJ_SHUTDOWN] = (DRIVER_DISPATCH *)(uintptr_t)routine,
                 IoRegisterShutdownNotification(fx.device)))
PROBE(open_object,
      ObOpenObjectByPointer(fx.process, OBJ_KERNEL_HANDLE, NULL, 0, NULL, KernelMode, &fx.token))
PROBE(object_name, ObQueryNameString(fx.process, (void *)buffer, 512, &returned))
PROBE(write, ZwWriteFile(fx.file, NULL, NULL, NULL, &io, buffer, 4, NULL, NULL))
PROBE(flush, ZwFlushBuffersFile(fx.file, &io))
PROBE(list,
      ZwQueryDirectoryFile(fx.folder, NULL, NULL, NULL, &io, buffer, 512, 1, FALSE, NULL, FALSE))
PROBE(delete, ZwDeleteFile(named(u"\\??\\C:\\Windows\\Temp\\nothing.txt")))
PROBE(close, ZwClose(fx.token))
PROBE(open_key, ZwOpenKey(&fx.token, 1, named(u"\\REGISTRY\\MACHINE\\SYSTEM")))
PROBE(query_value, ZwQueryValueKey(fx.key, string(u"x"), 2, buffer, 512, &returned))
PROBE(set_value, ZwSetValueKey(fx.key, string(u"x"), 0, REG_DWORD, buffer, 4))
PROBE(open_token, ZwOpenProcessTokenEx(fx.process_handle, 8, OBJ_KERNEL_HANDLE, &fx.token))
PROBE(query_token, ZwQueryInformationToken(fx.token, TokenSessionId, buffer, 4, &returned))
PROBE(security, ZwSetSecurityObject(fx.file, DACL_SECURITY_INFORMATION, NULL))
static NTSTATUS probe_engine_open(void)
{
    HANDLE handle;

    return FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, NULL, &handle);
}

static const struct probe probes[] = {
    {"PsSetCreateProcessNotifyRoutineEx", probe_p0},
    {"PsSetCreateProcessNotifyRoutineEx2", probe_p1},
    {"PsSetCreateThreadNotifyRoutine", probe_p2},
    {"PsSetCreateThreadNotifyRoutineEx", probe_p3},
    {"PsRemoveCreateThreadNotifyRoutine", probe_p4},
    {"PsSetLoadImageNotifyRoutine", probe_p5},
    {"PsSetLoadImageNotifyRoutineEx", probe_p6},
    {"PsRemoveLoadImageNotifyRoutine", probe_p7},
    {"PsLookupProcessByProcessId", probe_lookup},
    {"PsLookupThreadByThreadId", probe_lookup_thread},
    {"SeLocateProcessImageName", locate},
    {"PsCreateSystemThread", thread},
    {"ZwQueryInformationProcess", probe_query},
    {"ZwQueryInformationThread", probe_query_thread},
    {"ZwQuerySystemInformation", probe_query_system},
    {"ZwQueryVirtualMemory", probe_query_memory},
    {"CmRegisterCallbackEx", register_altitude},
    {"CmUnRegisterCallback", probe_unregister},
    {"CmCallbackGetKeyObjectIDEx", key_name},
    {"FwpmBfeStateSubscribeChanges0", probe_subscribe},
    {"FwpmBfeStateUnsubscribeChanges0", probe_unsubscribe},
    {"FwpmEngineOpen0", probe_engine_open},
    {"FwpmEngineClose0", probe_engine_close},
    {"FwpmTransactionBegin0", probe_begin},
    {"FwpmTransactionCommit0", probe_commit},
    {"FwpmTransactionAbort0", probe_abort},
    {"FwpmProviderAdd0", probe_add0},
    {"FwpmSubLayerAdd0", probe_add1},
    {"FwpmCalloutAdd0", probe_add2},
    {"FwpmFilterAdd0", probe_add3},
    {"FwpsCalloutRegister1", probe_register1},
    {"FwpsCalloutRegister2", probe_register2},
    {"FwpsCalloutUnregisterById0", probe_callout_gone},
    {"IoCreateDevice", probe_device},
    {"IoCreateDeviceSecure", probe_device_secure},
    {"IoCreateSymbolicLink", new_link},
    {"IoDeleteSymbolicLink", probe_unlink},
    {"IoRegisterShutdownNotification", probe_shutdown},
    {"IoCsqInitialize", csq},
    {"ExCreateCallback", power},
    {"ExUuidCreate", uuid},
    {"ObReferenceObjectByHandle", reference},
    {"ObOpenObjectByPointer", probe_open_object},
    {"ObQueryNameString", probe_object_name},
    {"ZwCreateFile", open_file},
    {"ZwWriteFile", probe_write},
    {"ZwFlushBuffersFile", probe_flush},
    {"ZwQueryDirectoryFile", probe_list},
    {"ZwDeleteFile", probe_delete},
    {"ZwClose", probe_close},
    {"ZwOpenKey", probe_open_key},
    {"ZwQueryValueKey", probe_query_value},
    {"ZwSetValueKey", probe_set_value},
    {"ZwOpenProcessTokenEx", probe_open_token},
    {"ZwQueryInformationToken", probe_query_token},
    {"ZwSetSecurityObject", probe_security},
};

static void expect_status(const char *ddi, int32_t status)
{
    for (size_t i = 0; i < sizeof(probes) / sizeof(probes[0]); i++) {
        NTSTATUS got;
        if (strcmp(probes[i].ddi, ddi) != 0)
            continue;
        sim_status_clear();
        sim_status_next(ddi, status, 1);
        got = probes[i].call();
        if (got != status)
            fprintf(stderr, "%s: 0x%08X instead of 0x%08X\n", ddi, (unsigned)got, (unsigned)status);
        EXPECT(got == status);
        return;
    }
    fprintf(stderr, "%s: no probe\n", ddi);
    EXPECT(false);
}

/* What the pages list, apart from the simulator's own table. The names of keys have another test:
 * they want a callback. */
static const struct {
    const char *rule;
    const char *ddi;
    uint32_t statuses[12];
    unsigned count;
} listed[] = {
    {"PS-006", "PsSetCreateProcessNotifyRoutineEx", {0xC0000022}, 1},
    {"PS-014", "PsSetCreateProcessNotifyRoutineEx2", {0xC000000D}, 1},
    {"PS-036", "PsSetCreateThreadNotifyRoutine", {0xC000009A}, 1},
    {"PS-042", "PsSetCreateThreadNotifyRoutineEx", {0xC000009A}, 1},
    {"PS-044", "PsRemoveCreateThreadNotifyRoutine", {0xC000007A}, 1},
    {"PS-054", "PsSetLoadImageNotifyRoutine", {0xC000009A}, 1},
    {"PS-059", "PsSetLoadImageNotifyRoutineEx", {0xC00000F0, 0xC000009A}, 2},
    {"PS-061", "PsRemoveLoadImageNotifyRoutine", {0xC000007A}, 1},
    {"PS-080", "PsLookupProcessByProcessId", {0xC000000B}, 1},
    {"PS-084", "PsLookupThreadByThreadId", {0xC000000D}, 1},
    {"PS-105", "SeLocateProcessImageName", {0xC0000225, 0xC000009A}, 2},
    {"PS-122", "ZwQueryInformationProcess", {0xC0000003}, 1},
    {"PS-126", "ZwQueryInformationThread", {0xC0000004}, 1},
    {"PS-127", "ZwQuerySystemInformation", {0xC0000004}, 1},
    {"PS-130", "ZwQueryVirtualMemory", {0xC000000D, 0xC0000022, 0xC0000004}, 3},
    {"CM-004", "CmRegisterCallbackEx", {0xC000009A}, 1},
    {"CM-012", "CmUnRegisterCallback", {0xC000000D}, 1},
    {"WFP-008", "FwpmBfeStateUnsubscribeChanges0", {0xC0000001, 0xC000000D}, 2},
    {"WFP-012", "FwpmEngineOpen0", {0xC0020017}, 1},
    {"WFP-014", "FwpmEngineClose0", {0xC0000001, 0xC0220010}, 2},
    {"WFP-020", "FwpmTransactionBegin0", {0xC0220012}, 1},
    {"WFP-024", "FwpmTransactionCommit0", {0xC022000D, 0xC0220010, 0xC0020017}, 3},
    {"WFP-025", "FwpmTransactionAbort0", {0xC022000D}, 1},
    {"WFP-026", "FwpmProviderAdd0", {0xC0220009, 0xC0220023, 0xC0220011}, 3},
    {"WFP-029", "FwpmSubLayerAdd0", {0xC0220036}, 1},
    {"WFP-034", "FwpmCalloutAdd0", {0xC0220018}, 1},
    {"WFP-035", "FwpmFilterAdd0", {0xC0220037}, 1},
    {"WFP-036", "FwpmFilterAdd0", {0xC0220011, 0xC0020017}, 2},
    {"WFP-044",
     "FwpmFilterAdd0",
     {0xC022001E, 0xC0220024, 0xC0220029, 0xC0220023, 0xC0220001, 0xC0220007, 0xC0220004,
      0xC0220005, 0xC0220002, 0xC0220027, 0xC0220026},
     11},
    {"WFP-051", "FwpsCalloutRegister1", {0xC0220009}, 1},
    {"WFP-051", "FwpsCalloutRegister2", {0xC0220009}, 1},
    {"WFP-065", "FwpsCalloutUnregisterById0", {0xC022000A}, 1},
    {"IO-009", "IoCreateDevice", {0xC000009A, 0xC0000035}, 2},
    {"IO-009", "IoCreateDeviceSecure", {0xC000009A, 0xC0000035}, 2},
    {"IO-019", "IoCreateSymbolicLink", {0xC0000035, 0xC0000022}, 2},
    {"IO-021", "IoDeleteSymbolicLink", {0xC0000034}, 1},
    {"IO-053", "IoCsqInitialize", {0xC0000001}, 1},
    {"EX-036", "ExCreateCallback", {0xC0000001}, 1},
    {"EX-044", "ExUuidCreate", {0x40020056, 0xC000022D}, 2},
    {"OB-002", "ObReferenceObjectByHandle", {0xC0000024, 0xC0000022, 0xC0000008}, 3},
    {"OB-011",
     "ObOpenObjectByPointer",
     {0xC0000022, 0xC000009A, 0xC0000061, 0xC0000044, 0xC0000001},
     5},
    {"OB-015", "ObQueryNameString", {0xC0000004}, 1},
    {"ZW-005", "ZwCreateFile", {0xC0000054, 0x00000108}, 2},
    {"ZW-011", "ZwFlushBuffersFile", {0xC00000A2, 0xC000026E}, 2},
    {"ZW-012", "ZwQueryDirectoryFile", {0x80000006}, 1},
    {"ZW-018",
     "ZwDeleteFile",
     {0xC0000034, 0xC0000033, 0xC000003A, 0xC000003B, 0xC000000D, 0xC000009A, 0xC0000121,
      0xC0000043},
     8},
    {"ZW-020", "ZwClose", {0xC0000008, 0xC0000235}, 2},
    {"ZW-022", "ZwOpenKey", {0xC0000034, 0xC0000022, 0xC0000008}, 3},
    {"ZW-025", "ZwQueryValueKey", {0xC0000034}, 1},
    {"ZW-027", "ZwSetValueKey", {0xC0000022}, 1},
    {"ZW-030",
     "ZwOpenProcessTokenEx",
     {0xC0000022, 0xC0000008, 0xC0000024, 0xC0000061, 0xC0000044, 0xC000009A, 0xC0000001},
     7},
    {"ZW-033", "ZwQueryInformationToken", {0xC0000023}, 1},
    {"ZW-036", "ZwSetSecurityObject", {0xC0000077, 0xC0000079, 0xC0000078, 0xC0000058}, 4},
};

OUTCOME_FX("PS-006 PS-014 PS-036 PS-042 PS-044 PS-054 PS-059 PS-061 PS-080 PS-084 PS-105 PS-122 "
           "PS-126 PS-127 PS-130 CM-004 CM-012 WFP-008 WFP-012 WFP-014 WFP-020 WFP-024 WFP-025 "
           "WFP-026 WFP-029 WFP-034 WFP-035 WFP-036 WFP-044 WFP-051 WFP-065 IO-009 IO-019 IO-021 "
           "IO-053 EX-036 EX-044 OB-002 OB-011 OB-015 ZW-005 ZW-011 ZW-012 ZW-018 ZW-020 "
           "ZW-022 ZW-025 ZW-027 ZW-030 ZW-033 ZW-036",
           every_documented_status)
{
    for (size_t i = 0; i < sizeof(listed) / sizeof(listed[0]); i++) {
        for (unsigned s = 0; s < listed[i].count; s++)
            expect_status(listed[i].ddi, (int32_t)listed[i].statuses[s]);
    }
}

/* What the simulator answers besides: pages that list a class of failures, or none. */
OUTCOME_FX("PS-105 PS-122", every_other_status)
{
    const char *ddi;
    const char *rule;
    int32_t status;
    size_t count = 0;

    for (; sim_status_at(count, &ddi, &rule, &status); count++) {
        if (strcmp(ddi, "CmCallbackGetKeyObjectIDEx") != 0)
            expect_status(ddi, status);
    }
    EXPECT(count > 100);
}

/* --- versions and machines ------------------------------------------------------------------- */

static const uint32_t builds[] = {17763, 22000, 22621, 26100};

struct presence {
    const char *rule;
    const uint16_t *name;
    uint8_t x64;   /* a bit for each build */
    uint8_t arm64; /* the same */
};

static const struct presence presences[] = {
    {"PS-010", u"PsSetCreateProcessNotifyRoutineEx", 15, 15},
    {"PS-013", u"PsSetCreateProcessNotifyRoutineEx2", 15, 15},
    {"PS-038", u"PsSetCreateThreadNotifyRoutineEx", 15, 15},
    {"PS-047", u"PsRemoveCreateThreadNotifyRoutine", 15, 15},
    {"PS-057", u"PsSetLoadImageNotifyRoutineEx", 15, 15},
    {"PS-091", u"PsGetProcessCreateTimeQuadPart", 15, 15},
    {"PS-096", u"PsGetProcessExitStatus", 15, 15},
    {"PS-100", u"PsGetThreadExitStatus", 15, 15},
    {"PS-132", u"ZwQueryVirtualMemory", 15, 15},
    {"CM-008", u"CmRegisterCallbackEx", 15, 15},
    {"CM-022", u"CmCallbackGetKeyObjectIDEx", 15, 15},
    {"IO-037", u"IofCompleteRequest", 15, 15},
    {"IO-037", u"IoCompleteRequest", 0, 0},
    {"IO-055", u"IoCsqInitialize", 15, 15},
    {"EX-005", u"ExAllocatePoolWithTag", 15, 15},
    {"EX-006", u"ExAllocatePool2", 14, 14},
    {"EX-029", u"ExAllocateFromNPagedLookasideList", 12, 12},
    {"EX-034", u"ExpInterlockedPopEntrySList", 15, 15},
    {"EX-034", u"ExpInterlockedPushEntrySList", 15, 15},
    {"EX-014", u"ExInitializeFastMutex", 0, 0},
    {"KE-003", u"KeAcquireSpinLockRaiseToDpc", 15, 15},
    {"KE-003", u"KeAcquireSpinLock", 0, 0},
    {"KE-022", u"KeQueryPerformanceCounter", 15, 15},
    {"KE-016", u"KeGetCurrentProcessorNumberEx", 15, 15},
    {"KE-018", u"KeQueryActiveProcessorCountEx", 15, 15},
    {"KE-020", u"KeQuerySystemTimePrecise", 15, 15},
    {"KE-024", u"KeGetCurrentIrql", 0, 15},
    {"KE-024", u"KfRaiseIrql", 0, 15},
    {"KE-024", u"KfLowerIrql", 0, 15},
    {"KE-024", u"KeLowerIrql", 0, 0},
    {"EX-046", u"IoCreateDeviceSecure", 14, 14},
    {"OB-006", u"ObReferenceObject", 0, 0},
    {"EX-046", u"FwpsCalloutRegister1", 0, 0},
};

/* Cold, since each version is a boot of its own. */
OUTCOME_COLD("PS-010 PS-013 PS-038 PS-047 PS-057 PS-091 PS-096 PS-100 PS-132 CM-008 CM-022 IO-037 "
             "IO-055 KE-003 KE-016 KE-018 KE-020 KE-022 KE-024 EX-005 EX-006 EX-014 EX-029 EX-034 "
             "EX-046 OB-006",
             exports_of_versions_and_machines)
{
    for (unsigned b = 0; b < 4; b++) {
        for (unsigned machine = 0; machine < 2; machine++) {
            const struct sim_options options = {.build = builds[b],
                                                .machine = machine ? SIM_ARM64 : SIM_X64};
            rules_boot(&options);
            for (size_t i = 0; i < sizeof(presences) / sizeof(presences[0]); i++) {
                uint8_t builds_with = machine ? presences[i].arm64 : presences[i].x64;
                EXPECT((rules_export(presences[i].name) != NULL) == ((builds_with >> b & 1) != 0));
            }
            EXPECT_STATUS(0, sim_driver_unload());
            sim_shutdown_machine();
        }
    }
}
