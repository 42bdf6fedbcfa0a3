/*
 * callbacks.c - kdatestk.sys, second half: processes, threads, and the callbacks of which Wine says
 * that they are registered and which it never calls.
 */
#include "shim.h"

static TEST_GATE ProcessGate, ThreadGate, ImageGate, RegistryGate;

static KSPIN_LOCK ListLock;
static LIST_ENTRY Processes = {&Processes, &Processes};
static LIST_ENTRY Threads = {&Threads, &Threads};

/* --- made up objects ------------------------------------------------------------------------- */

static VOID Link(LIST_ENTRY *list, LIST_ENTRY *entry)
{
    KIRQL irql = KeAcquireSpinLockRaiseToDpc(&ListLock);

    InsertTailList(list, entry);
    KeReleaseSpinLock(&ListLock, irql);
}

static VOID Unlink(LIST_ENTRY *entry)
{
    KIRQL irql = KeAcquireSpinLockRaiseToDpc(&ListLock);

    RemoveEntryList(entry);
    KeReleaseSpinLock(&ListLock, irql);
}

VOID TestAddProcess(TEST_PROCESS *process)
{
    Link(&Processes, &process->Entry);
}

VOID TestRemoveProcess(TEST_PROCESS *process)
{
    Unlink(&process->Entry);
}

VOID TestAddThread(TEST_THREAD *thread)
{
    Link(&Threads, &thread->Entry);
}

VOID TestRemoveThread(TEST_THREAD *thread)
{
    Unlink(&thread->Entry);
}

NTSTATUS SHIM(PsLookupProcessByProcessId)(HANDLE processId, PEPROCESS *process)
{
    TEST_PROCESS *found = NULL;
    KIRQL irql = KeAcquireSpinLockRaiseToDpc(&ListLock);
    NTSTATUS status;

    for (LIST_ENTRY *at = Processes.Flink; at != &Processes; at = at->Flink) {
        TEST_PROCESS *own = CONTAINING_RECORD(at, TEST_PROCESS, Entry);
        if (own->Pid == (ULONG)(ULONG_PTR)processId) {
            found = own;
            InterlockedIncrement(&own->Object.References);
            break;
        }
    }
    KeReleaseSpinLock(&ListLock, irql);
    *process = (PEPROCESS)(PVOID)found;
    if (found != NULL)
        return STATUS_SUCCESS;
    status = PsLookupProcessByProcessId(processId, process);
    if (NT_SUCCESS(status))
        InterlockedIncrement(&TestLedger()->Objects);
    return status;
}

NTSTATUS SHIM(PsLookupThreadByThreadId)(HANDLE threadId, PETHREAD *thread)
{
    TEST_THREAD *found = NULL;
    KIRQL irql = KeAcquireSpinLockRaiseToDpc(&ListLock);
    NTSTATUS status;

    for (LIST_ENTRY *at = Threads.Flink; at != &Threads; at = at->Flink) {
        TEST_THREAD *own = CONTAINING_RECORD(at, TEST_THREAD, Entry);
        if (own->Tid == (ULONG)(ULONG_PTR)threadId) {
            found = own;
            InterlockedIncrement(&own->Object.References);
            break;
        }
    }
    KeReleaseSpinLock(&ListLock, irql);
    *thread = (PETHREAD)(PVOID)found;
    if (found != NULL)
        return STATUS_SUCCESS;
    status = PsLookupThreadByThreadId(threadId, thread);
    if (NT_SUCCESS(status))
        InterlockedIncrement(&TestLedger()->Objects);
    return status;
}

static TEST_PROCESS *Own(PEPROCESS process)
{
    return *(ULONG *)(PVOID)process == TEST_MAGIC ? (TEST_PROCESS *)(PVOID)process : NULL;
}

/* --- what is asked of processes -------------------------------------------------------------- */

#define ProcessTimes 4u
#define ProcessImageFileName 27u

typedef struct _KERNEL_USER_TIMES {
    LARGE_INTEGER CreateTime;
    LARGE_INTEGER ExitTime;
    LARGE_INTEGER KernelTime;
    LARGE_INTEGER UserTime;
} KERNEL_USER_TIMES;

static NTSTATUS Query(PEPROCESS process, ULONG class_, PVOID to, ULONG bytes, ULONG *returned)
{
    HANDLE handle;
    NTSTATUS status = ObOpenObjectByPointer(process, OBJ_KERNEL_HANDLE, NULL,
                                            PROCESS_QUERY_INFORMATION, NULL, KernelMode, &handle);

    if (!NT_SUCCESS(status))
        return status;
    status = ZwQueryInformationProcess(handle, class_, to, bytes, returned);
    ZwClose(handle);
    return status;
}

LONGLONG SHIM(PsGetProcessCreateTimeQuadPart)(PEPROCESS process)
{
    TEST_PROCESS *own = Own(process);
    KERNEL_USER_TIMES times;
    ULONG returned;

    if (own != NULL)
        return own->CreateTime;
    if (!NT_SUCCESS(Query(process, ProcessTimes, &times, sizeof times, &returned)))
        return 0;
    return times.CreateTime.QuadPart;
}

NTSTATUS SHIM(PsGetProcessExitStatus)(PEPROCESS process)
{
    TEST_PROCESS *own = Own(process);
    PROCESS_BASIC_INFORMATION basic;
    ULONG returned;

    if (own != NULL)
        return own->ExitStatus;
    if (!NT_SUCCESS(Query(process, ProcessBasicInformation, &basic, sizeof basic, &returned)))
        return STATUS_PENDING;
    return basic.ExitStatus;
}

NTSTATUS NtQuerySystemTime(PLARGE_INTEGER time);

LARGE_INTEGER SHIM(PsGetProcessExitTime)(VOID)
{
    LARGE_INTEGER now;

    NtQuerySystemTime(&now);
    return now;
}

NTSTATUS SHIM(PsGetThreadExitStatus)(PETHREAD thread)
{
    TEST_THREAD *own = (TEST_THREAD *)(PVOID)thread;
    return own->Object.Magic == TEST_MAGIC ? own->ExitStatus : STATUS_PENDING;
}

PVOID ShimExAllocatePoolWithTag(POOL_TYPE poolType, SIZE_T bytes, ULONG tag);
VOID ShimExFreePool(PVOID at);

NTSTATUS SHIM(SeLocateProcessImageName)(PEPROCESS process, PUNICODE_STRING *name)
{
    ULONG bytes = 2048, returned;
    NTSTATUS status;

    *name = NULL;
    if (Own(process) != NULL)
        return STATUS_NOT_FOUND;
    *name = ShimExAllocatePoolWithTag(PagedPool, bytes, 0x6E614D49u);
    if (*name == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    status = Query(process, ProcessImageFileName, *name, bytes, &returned);
    if (!NT_SUCCESS(status)) {
        ShimExFreePool(*name);
        *name = NULL;
    }
    return status;
}

/* --- notify routines ------------------------------------------------------------------------- */

static NTSTATUS Register(TEST_GATE *gate, PVOID routine)
{
    if (!TestMayRegister())
        return STATUS_INSUFFICIENT_RESOURCES;
    if (InterlockedCompareExchange64(&gate->Routine, (LONG64)(ULONG_PTR)routine, 0) != 0)
        return STATUS_INVALID_PARAMETER;
    InterlockedIncrement(&TestLedger()->Routines);
    return STATUS_SUCCESS;
}

/* Returns when the routine does not run and will not run. */
static NTSTATUS Remove(TEST_GATE *gate, PVOID routine)
{
    if ((PVOID)(ULONG_PTR)ReadAcquire64(&gate->Routine) != routine || routine == NULL)
        return STATUS_PROCEDURE_NOT_FOUND;
    TestClose(gate);
    InterlockedDecrement(&TestLedger()->Routines);
    return STATUS_SUCCESS;
}

NTSTATUS SHIM(PsSetCreateProcessNotifyRoutineEx)(PCREATE_PROCESS_NOTIFY_ROUTINE_EX routine,
                                                 BOOLEAN remove)
{
    PVOID at = (PVOID)(ULONG_PTR)routine;
    return remove ? Remove(&ProcessGate, at) : Register(&ProcessGate, at);
}

static NTSTATUS SetCreateProcessEx2(ULONG type, PVOID routine, BOOLEAN remove)
{
    if (type != 0)
        return STATUS_INVALID_PARAMETER;
    return remove ? Remove(&ProcessGate, routine) : Register(&ProcessGate, routine);
}

NTSTATUS SHIM(PsSetCreateThreadNotifyRoutine)(PCREATE_THREAD_NOTIFY_ROUTINE routine)
{
    return Register(&ThreadGate, (PVOID)(ULONG_PTR)routine);
}

static NTSTATUS SetCreateThreadEx(ULONG type, PVOID routine)
{
    return type == 1 ? Register(&ThreadGate, routine) : STATUS_INVALID_PARAMETER;
}

NTSTATUS SHIM(PsRemoveCreateThreadNotifyRoutine)(PCREATE_THREAD_NOTIFY_ROUTINE routine)
{
    return Remove(&ThreadGate, (PVOID)(ULONG_PTR)routine);
}

NTSTATUS SHIM(PsSetLoadImageNotifyRoutine)(PLOAD_IMAGE_NOTIFY_ROUTINE routine)
{
    return Register(&ImageGate, (PVOID)(ULONG_PTR)routine);
}

NTSTATUS SHIM(PsRemoveLoadImageNotifyRoutine)(PLOAD_IMAGE_NOTIFY_ROUTINE routine)
{
    return Remove(&ImageGate, (PVOID)(ULONG_PTR)routine);
}

BOOLEAN TestFireProcess(TEST_PROCESS *process, PPS_CREATE_NOTIFY_INFO info)
{
    PVOID routine = TestEnter(&ProcessGate);

    if (routine == NULL)
        return FALSE;
    ((PCREATE_PROCESS_NOTIFY_ROUTINE_EX)(ULONG_PTR)routine)((PEPROCESS)(PVOID)process,
                                                            (HANDLE)(ULONG_PTR)process->Pid, info);
    TestLeave(&ProcessGate);
    return TRUE;
}

BOOLEAN TestFireThread(ULONG pid, ULONG tid, BOOLEAN create)
{
    PVOID routine = TestEnter(&ThreadGate);

    if (routine == NULL)
        return FALSE;
    ((PCREATE_THREAD_NOTIFY_ROUTINE)(ULONG_PTR)routine)((HANDLE)(ULONG_PTR)pid,
                                                        (HANDLE)(ULONG_PTR)tid, create);
    TestLeave(&ThreadGate);
    return TRUE;
}

BOOLEAN TestFireImage(UNICODE_STRING *name, ULONG pid, IMAGE_INFO *info)
{
    PVOID routine = TestEnter(&ImageGate);

    if (routine == NULL)
        return FALSE;
    ((PLOAD_IMAGE_NOTIFY_ROUTINE)(ULONG_PTR)routine)(name, (HANDLE)(ULONG_PTR)pid, info);
    TestLeave(&ImageGate);
    return TRUE;
}

/* --- registry -------------------------------------------------------------------------------- */

#define COOKIE 0x4B44410000000001ll

NTSTATUS SHIM(CmRegisterCallbackEx)(PEX_CALLBACK_FUNCTION function, PCUNICODE_STRING altitude,
                                    PVOID driver, PVOID context, PLARGE_INTEGER cookie,
                                    PVOID reserved)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(reserved);
    if (altitude->Length == 0 || driver == NULL)
        return STATUS_INVALID_PARAMETER;
    cookie->QuadPart = COOKIE;
    return Register(&RegistryGate, (PVOID)(ULONG_PTR)function);
}

NTSTATUS SHIM(CmUnRegisterCallback)(LARGE_INTEGER cookie)
{
    if (cookie.QuadPart != COOKIE)
        return STATUS_INVALID_PARAMETER;
    return Remove(&RegistryGate, (PVOID)(ULONG_PTR)ReadAcquire64(&RegistryGate.Routine));
}

NTSTATUS SHIM(CmCallbackGetKeyObjectIDEx)(PLARGE_INTEGER cookie, PVOID object, PULONG_PTR objectId,
                                          PCUNICODE_STRING *objectName, ULONG flags)
{
    TEST_KEY *key = object;

    if (cookie->QuadPart != COOKIE || flags != 0 || key == NULL || key->Object.Magic != TEST_MAGIC)
        return STATUS_INVALID_PARAMETER;
    if (objectId != NULL)
        *objectId = (ULONG_PTR)key;
    if (objectName != NULL) {
        InterlockedIncrement(&TestLedger()->Names);
        *objectName = &key->Name;
    }
    return STATUS_SUCCESS;
}

PVOID SHIM(CmGetBoundTransaction)(PLARGE_INTEGER cookie, PVOID object)
{
    UNREFERENCED_PARAMETER(cookie);
    UNREFERENCED_PARAMETER(object);
    return NULL;
}

VOID SHIM(CmCallbackReleaseKeyObjectIDEx)(PCUNICODE_STRING objectName)
{
    UNREFERENCED_PARAMETER(objectName);
    InterlockedDecrement(&TestLedger()->Names);
}

BOOLEAN TestFireRegistry(ULONG class_, PVOID information)
{
    PVOID routine = TestEnter(&RegistryGate);

    if (routine == NULL)
        return FALSE;
    ((PEX_CALLBACK_FUNCTION)(ULONG_PTR)routine)(NULL, (PVOID)(ULONG_PTR)class_, information);
    TestLeave(&RegistryGate);
    return TRUE;
}

/* --- newer functions ------------------------------------------------------------------------- */

static ULONGLONG GetProcessStartKey(PEPROCESS process)
{
    TEST_PROCESS *own = Own(process);
    return own != NULL ? 0x1000000000000ull + own->Pid : 0x2000000000000ull;
}

static UCHAR GetProcessSignatureLevel(PEPROCESS process, PUCHAR sectionLevel)
{
    UNREFERENCED_PARAMETER(process);
    *sectionLevel = 8;
    return 6;
}

static BOOLEAN Same(PCUNICODE_STRING name, const CHAR *text)
{
    ULONG units = name->Length / sizeof(WCHAR), i;

    for (i = 0; i < units && text[i] != '\0'; i++) {
        if (name->Buffer[i] != (WCHAR)text[i])
            return FALSE;
    }
    return i == units && text[i] == '\0';
}

/* Wine has stubs of some of these, which have an address and end the process when they are called:
 * only what is known to work is found. */
PVOID SHIM(MmGetSystemRoutineAddress)(PUNICODE_STRING name)
{
    static const struct {
        const CHAR *Name;
        ULONG_PTR At;
    } newer[] = {
        {"PsGetProcessStartKey", (ULONG_PTR)GetProcessStartKey},
        {"PsGetProcessSignatureLevel", (ULONG_PTR)GetProcessSignatureLevel},
        {"PsSetCreateProcessNotifyRoutineEx2", (ULONG_PTR)SetCreateProcessEx2},
        {"PsSetCreateThreadNotifyRoutineEx", (ULONG_PTR)SetCreateThreadEx},
    };

    if (Same(name, "WdmlibIoCreateDeviceSecure"))
        return TestSwitches()->Plain ? NULL : MmGetSystemRoutineAddress(name);
    for (ULONG i = 0; i < ARRAYSIZE(newer); i++) {
        if (TestSwitches()->Newer && Same(name, newer[i].Name))
            return (PVOID)newer[i].At;
    }
    return NULL;
}
