/*
 * kernel.c - kdatestk.sys, first half: memory, objects, rundown, queues of requests, time.
 *
 * Each function does what the page of its name says, as far as the driver under test uses it.
 */
#include "shim.h"

static TEST_LEDGER Ledger;
static TEST_SWITCHES Switches;
static TEST_DESCRIPTOR Descriptor;

TEST_LEDGER *TestLedger(VOID)
{
    return &Ledger;
}

TEST_SWITCHES *TestSwitches(VOID)
{
    return &Switches;
}

TEST_DESCRIPTOR *TestDescriptor(VOID)
{
    return &Descriptor;
}

BOOLEAN TestMayRegister(VOID)
{
    return Switches.Refuse == 0 || InterlockedDecrement(&Switches.Refuse) != 0;
}

/* --- pool ------------------------------------------------------------------------------------ */

/* In front of each block, so that a wrong tag and a block that stays are seen. */
typedef struct KDA_ALIGNED(16) _TEST_BLOCK {
    ULONG Magic;
    ULONG Tag;
    SIZE_T Bytes;
} TEST_BLOCK;

#define TEST_TAG 0x74736554u

PVOID SHIM(ExAllocatePoolWithTag)(POOL_TYPE poolType, SIZE_T bytes, ULONG tag)
{
    LONG number = InterlockedIncrement(&Ledger.Allocations);
    LONG from = ReadAcquire(&Switches.FailFrom);
    TEST_BLOCK *block;

    if (from != 0 && (ReadAcquire(&Switches.FailOnce) ? number == from : number >= from))
        return NULL;
    block = ExAllocatePoolWithTag(poolType, bytes + sizeof *block, TEST_TAG);
    if (block == NULL)
        return NULL;
    block->Magic = TEST_MAGIC;
    block->Tag = tag;
    block->Bytes = bytes;
    __builtin_memset(block + 1, 0xA5, bytes);
    InterlockedIncrement(&Ledger.Blocks);
    return block + 1;
}

static VOID Release(PVOID at, ULONG tag)
{
    TEST_BLOCK *block = (TEST_BLOCK *)at - 1;

    if (block->Magic != TEST_MAGIC || (tag != 0 && block->Tag != tag)) {
        InterlockedIncrement(&Ledger.WrongTags);
        return;
    }
    __builtin_memset(at, 0xDD, block->Bytes);
    block->Magic = 0;
    InterlockedDecrement(&Ledger.Blocks);
    ExFreePoolWithTag(block, TEST_TAG);
}

VOID SHIM(ExFreePoolWithTag)(PVOID at, ULONG tag)
{
    Release(at, tag);
}

VOID SHIM(ExFreePool)(PVOID at)
{
    Release(at, 0);
}

/* --- rundown --------------------------------------------------------------------------------- */

/* Bit 0: no new references; the rest counts them. */
VOID SHIM(ExInitializeRundownProtection)(PEX_RUNDOWN_REF reference)
{
    reference->Count = 0;
}

BOOLEAN SHIM(ExAcquireRundownProtection)(PEX_RUNDOWN_REF reference)
{
    volatile LONG64 *count = (volatile LONG64 *)(PVOID)&reference->Count;
    LONG64 now;

    do {
        now = ReadAcquire64(count);
        if (now & 1)
            return FALSE;
    } while (InterlockedCompareExchange64(count, now + 2, now) != now);
    return TRUE;
}

VOID SHIM(ExReleaseRundownProtection)(PEX_RUNDOWN_REF reference)
{
    InterlockedExchangeAdd64((volatile LONG64 *)(PVOID)&reference->Count, -2);
}

VOID SHIM(ExWaitForRundownProtectionRelease)(PEX_RUNDOWN_REF reference)
{
    volatile LONG64 *count = (volatile LONG64 *)(PVOID)&reference->Count;
    LARGE_INTEGER wait;
    LONG64 now;

    wait.QuadPart = -10000;
    do {
        now = ReadAcquire64(count);
    } while (InterlockedCompareExchange64(count, now | 1, now) != now);
    while (ReadAcquire64(count) != 1)
        KeDelayExecutionThread(KernelMode, FALSE, &wait);
}

/* One counter is enough here. */
struct _EX_RUNDOWN_REF_CACHE_AWARE {
    EX_RUNDOWN_REF One;
    ULONG Tag;
};

PEX_RUNDOWN_REF_CACHE_AWARE SHIM(ExAllocateCacheAwareRundownProtection)(POOL_TYPE poolType,
                                                                        ULONG tag)
{
    PEX_RUNDOWN_REF_CACHE_AWARE made = SHIM(ExAllocatePoolWithTag)(poolType, sizeof *made, tag);

    if (made == NULL)
        return NULL;
    made->Tag = tag;
    SHIM(ExInitializeRundownProtection)(&made->One);
    return made;
}

VOID SHIM(ExFreeCacheAwareRundownProtection)(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    Release(reference, reference->Tag);
}

BOOLEAN SHIM(ExAcquireRundownProtectionCacheAware)(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    return SHIM(ExAcquireRundownProtection)(&reference->One);
}

VOID SHIM(ExReleaseRundownProtectionCacheAware)(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    SHIM(ExReleaseRundownProtection)(&reference->One);
}

VOID SHIM(ExWaitForRundownProtectionReleaseCacheAware)(PEX_RUNDOWN_REF_CACHE_AWARE reference)
{
    SHIM(ExWaitForRundownProtectionRelease)(&reference->One);
}

/* --- states of a thread ---------------------------------------------------------------------- */

BOOLEAN SHIM(KeAreAllApcsDisabled)(VOID)
{
    return FALSE;
}

PIRP SHIM(IoGetTopLevelIrp)(VOID)
{
    return NULL;
}

VOID SHIM(KeEnterCriticalRegion)(VOID)
{
}

VOID SHIM(KeLeaveCriticalRegion)(VOID)
{
}

/* --- objects --------------------------------------------------------------------------------- */

static TEST_OBJECT Callback = {TEST_MAGIC, 0};
/* Handles that stand for an object of the injector, or for the device. */
#define HANDLE_FIRST 0x7A000000ull
#define HANDLE_DEVICE 0x79000000ull
#define HANDLES 256u
static volatile LONG64 Handles[HANDLES];

static TEST_OBJECT *OwnObject(PVOID object)
{
    return *(ULONG *)object == TEST_MAGIC ? object : NULL;
}

static TEST_OBJECT *OwnHandle(HANDLE handle)
{
    ULONG_PTR value = (ULONG_PTR)handle;

    if (value < HANDLE_FIRST || value >= HANDLE_FIRST + 4 * HANDLES)
        return NULL;
    return (TEST_OBJECT *)(ULONG_PTR)ReadAcquire64(&Handles[(value - HANDLE_FIRST) / 4]);
}

LONG64 SHIM(ObfReferenceObject)(PVOID object)
{
    TEST_OBJECT *own = OwnObject(object);

    if (own != NULL)
        return InterlockedIncrement(&own->References);
    InterlockedIncrement(&Ledger.Objects);
    return ObfReferenceObject(object);
}

LONG64 SHIM(ObfDereferenceObject)(PVOID object)
{
    TEST_OBJECT *own = OwnObject(object);

    if (own != NULL)
        return InterlockedDecrement(&own->References);
    InterlockedDecrement(&Ledger.Objects);
    return ObfDereferenceObject(object);
}

NTSTATUS SHIM(ObReferenceObjectByHandle)(HANDLE handle, ACCESS_MASK access, POBJECT_TYPE type,
                                         KPROCESSOR_MODE mode, PVOID *object, PVOID information)
{
    NTSTATUS status = ObReferenceObjectByHandle(handle, access, type, mode, object, information);

    if (NT_SUCCESS(status))
        InterlockedIncrement(&Ledger.Objects);
    return status;
}

/* Processes and threads of the injector have handles; the device has one, for its descriptor. */
NTSTATUS SHIM(ObOpenObjectByPointer)(PVOID object, ULONG attributes, PACCESS_STATE state,
                                     ACCESS_MASK access, POBJECT_TYPE type, KPROCESSOR_MODE mode,
                                     PHANDLE handle)
{
    if (access == WRITE_DAC) {
        *handle = (HANDLE)(ULONG_PTR)HANDLE_DEVICE;
        return STATUS_SUCCESS;
    }
    if (OwnObject(object) == NULL)
        return ObOpenObjectByPointer(object, attributes, state, access, type, mode, handle);
    for (ULONG i = 0; i < HANDLES; i++) {
        if (InterlockedCompareExchange64(&Handles[i], (LONG64)(ULONG_PTR)object, 0) == 0) {
            *handle = (HANDLE)(ULONG_PTR)(HANDLE_FIRST + 4 * i);
            return STATUS_SUCCESS;
        }
    }
    return STATUS_INSUFFICIENT_RESOURCES;
}

NTSTATUS SHIM(ZwClose)(HANDLE handle)
{
    if ((ULONG_PTR)handle == HANDLE_DEVICE)
        return STATUS_SUCCESS;
    if (OwnHandle(handle) == NULL)
        return ZwClose(handle);
    InterlockedExchange64(&Handles[((ULONG_PTR)handle - HANDLE_FIRST) / 4], 0);
    return STATUS_SUCCESS;
}

NTSTATUS SHIM(ZwSetSecurityObject)(HANDLE handle, ULONG information, PVOID descriptor)
{
    if ((ULONG_PTR)handle != HANDLE_DEVICE)
        return ZwSetSecurityObject(handle, information, descriptor);
    /* Self-relative; that of the driver has this many bytes. */
    Descriptor.Bytes = 104;
    RtlCopyMemory(Descriptor.Data, descriptor, Descriptor.Bytes);
    return STATUS_SUCCESS;
}

NTSTATUS SHIM(ObQueryNameString)(PVOID object, POBJECT_NAME_INFORMATION name, ULONG length,
                                 PULONG returned)
{
    UNREFERENCED_PARAMETER(object);
    UNREFERENCED_PARAMETER(name);
    UNREFERENCED_PARAMETER(length);
    *returned = 0;
    return STATUS_NOT_IMPLEMENTED;
}

/* Of the injector's objects only the start address of a thread is known. */
NTSTATUS SHIM(ZwQueryInformationThread)(HANDLE thread, ULONG class_, PVOID information,
                                        ULONG length, PULONG returned)
{
    TEST_OBJECT *own = OwnHandle(thread);

    if (own == NULL)
        return ZwQueryInformationThread(thread, class_, information, length, returned);
    if (class_ != ThreadQuerySetWin32StartAddress || length != sizeof(ULONGLONG))
        return STATUS_NOT_SUPPORTED;
    *(ULONGLONG *)information = ((TEST_THREAD *)(PVOID)own)->StartAddress;
    *returned = sizeof(ULONGLONG);
    return STATUS_SUCCESS;
}

NTSTATUS SHIM(ZwQueryInformationProcess)(HANDLE process, ULONG class_, PVOID information,
                                         ULONG length, PULONG returned)
{
    if (OwnHandle(process) == NULL)
        return ZwQueryInformationProcess(process, class_, information, length, returned);
    *returned = 0;
    return STATUS_NOT_SUPPORTED;
}

NTSTATUS SHIM(ZwQueryVirtualMemory)(HANDLE process, PVOID base, ULONG class_, PVOID information,
                                    SIZE_T length, PSIZE_T returned)
{
    if (OwnHandle(process) == NULL)
        return ZwQueryVirtualMemory(process, base, class_, information, length, returned);
    *returned = 0;
    return STATUS_NOT_SUPPORTED;
}

NTSTATUS SHIM(ZwOpenProcessTokenEx)(HANDLE process, ACCESS_MASK access, ULONG attributes,
                                    PHANDLE token)
{
    if (OwnHandle(process) == NULL)
        return ZwOpenProcessTokenEx(process, access, attributes, token);
    return STATUS_ACCESS_DENIED;
}

/* --- cancel-safe queue ----------------------------------------------------------------------- */

VOID IoReleaseCancelSpinLock(KIRQL irql);

static DRIVER_CANCEL *SetCancel(PIRP irp, DRIVER_CANCEL *routine)
{
    volatile LONG64 *at = (volatile LONG64 *)(PVOID)&irp->CancelRoutine;
    return (DRIVER_CANCEL *)(ULONG_PTR)InterlockedExchange64(at, (LONG64)(ULONG_PTR)routine);
}

static VOID TakeOut(PIO_CSQ csq, PIRP irp)
{
    KIRQL irql;

    csq->CsqAcquireLock(csq, &irql);
    csq->CsqRemoveIrp(csq, irp);
    irp->Tail.Overlay.DriverContext[3] = NULL;
    csq->CsqReleaseLock(csq, irql);
    csq->CsqCompleteCanceledIrp(csq, irp);
}

static VOID Cancelled(PDEVICE_OBJECT device, PIRP irp)
{
    UNREFERENCED_PARAMETER(device);
    IoReleaseCancelSpinLock(irp->CancelIrql);
    TakeOut(irp->Tail.Overlay.DriverContext[3], irp);
}

NTSTATUS SHIM(IoCsqInitialize)(PIO_CSQ csq, PIO_CSQ_INSERT_IRP insert, PIO_CSQ_REMOVE_IRP remove,
                               PIO_CSQ_PEEK_NEXT_IRP peek, PIO_CSQ_ACQUIRE_LOCK acquire,
                               PIO_CSQ_RELEASE_LOCK release, PIO_CSQ_COMPLETE_CANCELED_IRP complete)
{
    RtlZeroMemory(csq, sizeof *csq);
    csq->Type = 1;
    csq->CsqInsertIrp = insert;
    csq->CsqRemoveIrp = remove;
    csq->CsqPeekNextIrp = peek;
    csq->CsqAcquireLock = acquire;
    csq->CsqReleaseLock = release;
    csq->CsqCompleteCanceledIrp = complete;
    return STATUS_SUCCESS;
}

VOID SHIM(IoCsqInsertIrp)(PIO_CSQ csq, PIRP irp, PVOID context)
{
    KIRQL irql;

    UNREFERENCED_PARAMETER(context);
    csq->CsqAcquireLock(csq, &irql);
    IoMarkIrpPending(irp);
    irp->Tail.Overlay.DriverContext[3] = csq;
    csq->CsqInsertIrp(csq, irp);
    SetCancel(irp, Cancelled);
    if (irp->Cancel && SetCancel(irp, NULL) != NULL) {
        csq->CsqRemoveIrp(csq, irp);
        irp->Tail.Overlay.DriverContext[3] = NULL;
        csq->CsqReleaseLock(csq, irql);
        csq->CsqCompleteCanceledIrp(csq, irp);
        return;
    }
    csq->CsqReleaseLock(csq, irql);
}

PIRP SHIM(IoCsqRemoveNextIrp)(PIO_CSQ csq, PVOID peekContext)
{
    PIRP irp = NULL;
    KIRQL irql;

    csq->CsqAcquireLock(csq, &irql);
    while ((irp = csq->CsqPeekNextIrp(csq, irp, peekContext)) != NULL) {
        /* NULL: its cancel routine is on the way and takes it out. */
        if (SetCancel(irp, NULL) == NULL)
            continue;
        csq->CsqRemoveIrp(csq, irp);
        irp->Tail.Overlay.DriverContext[3] = NULL;
        break;
    }
    csq->CsqReleaseLock(csq, irql);
    return irp;
}

/* --- time and power -------------------------------------------------------------------------- */

NTSTATUS NtQuerySystemTime(PLARGE_INTEGER time);

VOID SHIM(KeQuerySystemTimePrecise)(PLARGE_INTEGER time)
{
    NtQuerySystemTime(time);
}

NTSTATUS SHIM(ExCreateCallback)(PCALLBACK_OBJECT *callback, POBJECT_ATTRIBUTES attributes,
                                BOOLEAN create, BOOLEAN allowMultiple)
{
    UNREFERENCED_PARAMETER(attributes);
    UNREFERENCED_PARAMETER(create);
    UNREFERENCED_PARAMETER(allowMultiple);
    InterlockedIncrement(&Callback.References);
    *callback = (PCALLBACK_OBJECT)(PVOID)&Callback;
    return STATUS_SUCCESS;
}

PVOID SHIM(ExRegisterCallback)(PCALLBACK_OBJECT callback, PCALLBACK_FUNCTION function,
                               PVOID context)
{
    UNREFERENCED_PARAMETER(function);
    UNREFERENCED_PARAMETER(context);
    if (!TestMayRegister())
        return NULL;
    InterlockedIncrement(&Ledger.Routines);
    return callback;
}

VOID SHIM(ExUnregisterCallback)(PVOID registration)
{
    UNREFERENCED_PARAMETER(registration);
    InterlockedDecrement(&Ledger.Routines);
}
