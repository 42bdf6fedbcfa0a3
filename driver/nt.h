/*
 * nt.h - the part of the NT kernel interface that the driver uses, declared by ourselves.
 *
 * Names are those of the WDK; each item is described on the page of that name in the Windows
 * driver documentation (wdm.h, ntddk.h or ntifs.h). Where an item has no page, the line says where
 * its shape is known from. Base types have a fixed width, because `long` has 64 bits on the hosts
 * that run the driver's code in tests. The layouts are asserted; they are those of x64 Windows 10
 * and 11.
 *
 * Three ways to compile the driver:
 *   KDA_USE_WDK  with the real headers;
 *   KDA_SIM      on a host, linked with the simulated kernel of sim/;
 *   neither      clang --target=x86_64-pc-windows-msvc -ffreestanding -fms-extensions.
 *
 * What is a macro or inline on Windows is an extern function for the simulator, so that it can
 * check every call.
 */
#ifndef KDA_NT_H
#define KDA_NT_H

#ifdef KDA_USE_WDK

#include <ntifs.h>
#include <ntddk.h>
#include <stdint.h>
#include <stddef.h>
#define KDA_W(text) L##text
#define KDA_ALIGNED(bytes) __declspec(align(bytes))

#else

#include <stddef.h>
#include <stdint.h>

#define KDA_W(text) u##text
#define KDA_ALIGNED(bytes) __attribute__((aligned(bytes)))

/* --- annotations: read by Microsoft's analyser, empty for others ------------------------------ */

#define _In_
#define _In_opt_
#define _Out_
#define _Out_opt_
#define _Inout_
#define _Inout_opt_
#define _Outptr_
#define _Outptr_opt_
#define _In_reads_(n)
#define _In_reads_bytes_(n)
#define _In_reads_bytes_opt_(n)
#define _Out_writes_(n)
#define _Out_writes_bytes_(n)
#define _Inout_updates_bytes_(n)
#define _Must_inspect_result_
#define _Function_class_(name)
#define _IRQL_requires_(irql)
#define _IRQL_requires_max_(irql)
#define _IRQL_requires_min_(irql)
#define _IRQL_requires_same_
#define _IRQL_saves_
#define _IRQL_restores_
#define _IRQL_raises_(irql)
#define _Use_decl_annotations_
#define _Success_(expression)

#define NTAPI
#define VOID void
#define CONST const
#define FASTCALL
#define UNREFERENCED_PARAMETER(p) ((void)(p))
#define FIELD_OFFSET(type, field) offsetof(type, field)
#define CONTAINING_RECORD(at, type, field) ((type *)(void *)((char *)(at)-offsetof(type, field)))
#define ARRAYSIZE(array) (sizeof(array) / sizeof((array)[0]))
#define C_ASSERT(expression) _Static_assert(expression, #expression)

/* --- base types ------------------------------------------------------------------------------- */

typedef char CHAR, *PCHAR;
typedef signed char CCHAR;
typedef unsigned char UCHAR, *PUCHAR;
typedef unsigned char BOOLEAN;
typedef int16_t SHORT, CSHORT;
typedef uint16_t USHORT, *PUSHORT;
typedef int32_t LONG, *PLONG;
typedef uint32_t ULONG, *PULONG;
typedef int64_t LONGLONG, LONG64, *PLONG64;
typedef uint64_t ULONGLONG, ULONG64, *PULONG64;
typedef uint64_t ULONG_PTR, *PULONG_PTR;
typedef size_t SIZE_T, *PSIZE_T;
typedef uint16_t WCHAR, *PWCH, *PWSTR;
typedef const uint16_t *PCWCH, *PCWSTR;
typedef void *PVOID;
typedef void *HANDLE, **PHANDLE;
typedef LONG NTSTATUS;
typedef UCHAR KIRQL, *PKIRQL;
typedef CCHAR KPROCESSOR_MODE;
typedef ULONG ACCESS_MASK;
typedef ULONG DEVICE_TYPE;
typedef LONG KPRIORITY;
typedef ULONG_PTR KAFFINITY;

#define TRUE 1
#define FALSE 0
#define KernelMode 0
#define UserMode 1

typedef union _LARGE_INTEGER {
    struct {
        ULONG LowPart;
        LONG HighPart;
    } u;
    LONGLONG QuadPart;
} LARGE_INTEGER, *PLARGE_INTEGER;

typedef struct _UNICODE_STRING {
    USHORT Length;        /* bytes, without terminator */
    USHORT MaximumLength; /* bytes */
    PWSTR Buffer;
} UNICODE_STRING, *PUNICODE_STRING;
typedef const UNICODE_STRING *PCUNICODE_STRING;

typedef struct _LIST_ENTRY {
    struct _LIST_ENTRY *Flink;
    struct _LIST_ENTRY *Blink;
} LIST_ENTRY, *PLIST_ENTRY;

typedef struct _CLIENT_ID {
    HANDLE UniqueProcess;
    HANDLE UniqueThread;
} CLIENT_ID, *PCLIENT_ID;

typedef struct _GUID {
    ULONG Data1;
    USHORT Data2;
    USHORT Data3;
    UCHAR Data4[8];
} GUID, UUID;

C_ASSERT(sizeof(WCHAR) == 2 && sizeof(ULONG) == 4 && sizeof(PVOID) == 8);
C_ASSERT(sizeof(LARGE_INTEGER) == 8 && sizeof(UNICODE_STRING) == 16 && sizeof(GUID) == 16);

/* --- status values (ntstatus.h) --------------------------------------------------------------- */

#define NT_SUCCESS(status) ((NTSTATUS)(status) >= 0)
#define NTSTATUS_OF(value) ((NTSTATUS)(value##u))
#define STATUS_SUCCESS ((NTSTATUS)0)
#define STATUS_TIMEOUT NTSTATUS_OF(0x00000102)
#define STATUS_PENDING NTSTATUS_OF(0x00000103)
#define STATUS_BUFFER_OVERFLOW NTSTATUS_OF(0x80000005)
#define STATUS_NO_MORE_FILES NTSTATUS_OF(0x80000006)
#define STATUS_UNSUCCESSFUL NTSTATUS_OF(0xC0000001)
#define STATUS_NOT_IMPLEMENTED NTSTATUS_OF(0xC0000002)
#define STATUS_INVALID_INFO_CLASS NTSTATUS_OF(0xC0000003)
#define STATUS_INFO_LENGTH_MISMATCH NTSTATUS_OF(0xC0000004)
#define STATUS_ACCESS_VIOLATION NTSTATUS_OF(0xC0000005)
#define STATUS_INVALID_HANDLE NTSTATUS_OF(0xC0000008)
#define STATUS_INVALID_CID NTSTATUS_OF(0xC000000B)
#define STATUS_INVALID_PARAMETER NTSTATUS_OF(0xC000000D)
#define STATUS_NO_MEMORY NTSTATUS_OF(0xC0000017)
#define STATUS_QUOTA_EXCEEDED NTSTATUS_OF(0xC0000044)
#define STATUS_THREAD_IS_TERMINATING NTSTATUS_OF(0xC000004B)
#define STATUS_INVALID_ADDRESS NTSTATUS_OF(0xC0000141)
#define STATUS_FILE_INVALID NTSTATUS_OF(0xC0000098)
#define STATUS_RETRY NTSTATUS_OF(0xC000022D)
#define STATUS_REPARSE NTSTATUS_OF(0x00000104)
#define STATUS_NO_SUCH_DEVICE NTSTATUS_OF(0xC000000E)
#define STATUS_NO_SUCH_FILE NTSTATUS_OF(0xC000000F)
#define STATUS_INVALID_DEVICE_REQUEST NTSTATUS_OF(0xC0000010)
#define STATUS_ACCESS_DENIED NTSTATUS_OF(0xC0000022)
#define STATUS_BUFFER_TOO_SMALL NTSTATUS_OF(0xC0000023)
#define STATUS_OBJECT_TYPE_MISMATCH NTSTATUS_OF(0xC0000024)
#define STATUS_OBJECT_NAME_INVALID NTSTATUS_OF(0xC0000033)
#define STATUS_OBJECT_NAME_NOT_FOUND NTSTATUS_OF(0xC0000034)
#define STATUS_OBJECT_NAME_COLLISION NTSTATUS_OF(0xC0000035)
#define STATUS_OBJECT_PATH_NOT_FOUND NTSTATUS_OF(0xC000003A)
#define STATUS_SHARING_VIOLATION NTSTATUS_OF(0xC0000043)
#define STATUS_PROCEDURE_NOT_FOUND NTSTATUS_OF(0xC000007A)
#define STATUS_DISK_FULL NTSTATUS_OF(0xC000007F)
#define STATUS_INSUFFICIENT_RESOURCES NTSTATUS_OF(0xC000009A)
#define STATUS_DEVICE_NOT_READY NTSTATUS_OF(0xC00000A3)
#define STATUS_NOT_SUPPORTED NTSTATUS_OF(0xC00000BB)
#define STATUS_CANCELLED NTSTATUS_OF(0xC0000120)
#define STATUS_TOO_MANY_OPENED_FILES NTSTATUS_OF(0xC000011F)
#define STATUS_FLT_INSTANCE_ALTITUDE_COLLISION NTSTATUS_OF(0xC01C0011)
#define STATUS_DEVICE_BUSY NTSTATUS_OF(0x80000011)
#define STATUS_REVISION_MISMATCH NTSTATUS_OF(0xC0000059)
#define STATUS_INVALID_BUFFER_SIZE NTSTATUS_OF(0xC0000206)
#define STATUS_PROCESS_IS_TERMINATING NTSTATUS_OF(0xC000010A)
#define STATUS_NOT_FOUND NTSTATUS_OF(0xC0000225)
#define STATUS_IO_DEVICE_ERROR NTSTATUS_OF(0xC0000185)
#define STATUS_IO_TIMEOUT NTSTATUS_OF(0xC00000B5)
#define STATUS_DEVICE_REMOVED NTSTATUS_OF(0xC00002B6)
#define STATUS_SHUTDOWN_IN_PROGRESS NTSTATUS_OF(0xC00002FE)

/* --- interrupt levels ------------------------------------------------------------------------- */

#define PASSIVE_LEVEL 0
#define APC_LEVEL 1
#define DISPATCH_LEVEL 2
#define HIGH_LEVEL 15

/* TRUE in a guarded region and at APC_LEVEL and above: not even special kernel APCs are delivered,
 * by which file I/O completes. */
BOOLEAN KeAreAllApcsDisabled(VOID);

#ifdef KDA_SIM
/* KDA_ASSERT: ends the run. */
VOID SimAssertionFailed(const char *expression, const char *file, int line);
KIRQL KeGetCurrentIrql(VOID);
VOID KeRaiseIrql(KIRQL newIrql, PKIRQL oldIrql);
VOID KeLowerIrql(KIRQL newIrql);
/* Stops the run if the level is above APC_LEVEL: the code that says PAGED_CODE() may fault. */
VOID SimPagedCode(const char *function);
#define PAGED_CODE() SimPagedCode(__func__)
#else
#ifdef __aarch64__
KIRQL KeGetCurrentIrql(VOID);
/* KeLowerIrql is a macro there. */
VOID KfLowerIrql(KIRQL newIrql);
KIRQL KfRaiseIrql(KIRQL newIrql);
static inline VOID KeLowerIrql(KIRQL newIrql)
{
    KfLowerIrql(newIrql);
}
static inline VOID KeRaiseIrql(KIRQL newIrql, PKIRQL oldIrql)
{
    *oldIrql = KfRaiseIrql(newIrql);
}
#else
static inline KIRQL KeGetCurrentIrql(VOID)
{
    ULONG64 level;
    __asm__ volatile("movq %%cr8, %0" : "=r"(level));
    return (KIRQL)level;
}
static inline VOID KeLowerIrql(KIRQL newIrql)
{
    __asm__ volatile("movq %0, %%cr8" : : "r"((ULONG64)newIrql) : "memory");
}
static inline VOID KeRaiseIrql(KIRQL newIrql, PKIRQL oldIrql)
{
    *oldIrql = KeGetCurrentIrql();
    KeLowerIrql(newIrql);
}
#endif
#define PAGED_CODE() ((void)0)
#endif

/* --- memory ----------------------------------------------------------------------------------- */

typedef LONG POOL_TYPE;
#define PagedPool 1
#define NonPagedPoolNx 512
#define POOL_NX_ALLOCATION 512u /* flag of lookaside lists */

PVOID ExAllocatePoolWithTag(POOL_TYPE poolType, SIZE_T bytes, ULONG tag);
VOID ExFreePoolWithTag(PVOID at, ULONG tag);
/* For what the system allocated and gave away. */
VOID ExFreePool(PVOID at);

#define RtlCopyMemory(to, from, bytes) __builtin_memcpy(to, from, bytes)
#define RtlMoveMemory(to, from, bytes) __builtin_memmove(to, from, bytes)
#define RtlZeroMemory(at, bytes) __builtin_memset(at, 0, bytes)

/* GENERAL_LOOKASIDE: the documentation calls it opaque; its size is checked against the symbols of
 * released kernels (128 bytes with its alignment). */
typedef union KDA_ALIGNED(16) _SLIST_HEADER {
    ULONGLONG Parts[2];
} SLIST_HEADER, *PSLIST_HEADER;
typedef struct KDA_ALIGNED(16) _SLIST_ENTRY {
    struct _SLIST_ENTRY *Next;
} SLIST_ENTRY, *PSLIST_ENTRY;

typedef PVOID (*PALLOCATE_FUNCTION)(POOL_TYPE poolType, SIZE_T bytes, ULONG tag);
typedef VOID (*PFREE_FUNCTION)(PVOID at);

/* Declared with the alignment of a cache line there, which pool does not give; 16 is needed. */
typedef struct KDA_ALIGNED(16) _NPAGED_LOOKASIDE_LIST {
    SLIST_HEADER ListHead;
    USHORT Depth;
    USHORT MaximumDepth;
    ULONG TotalAllocates;
    ULONG AllocateMisses;
    ULONG TotalFrees;
    ULONG FreeMisses;
    POOL_TYPE Type;
    ULONG Tag;
    ULONG Size;
    PALLOCATE_FUNCTION Allocate;
    PFREE_FUNCTION Free;
    LIST_ENTRY ListEntry;
    ULONG LastTotalAllocates;
    ULONG LastAllocateMisses;
    ULONG Future[2];
#ifdef __aarch64__
    /* An obsolete lock follows, and a line of the cache may have 128 bytes: 256 hold all of it. */
    UCHAR Rest[160];
} NPAGED_LOOKASIDE_LIST, *PNPAGED_LOOKASIDE_LIST;
C_ASSERT(sizeof(NPAGED_LOOKASIDE_LIST) == 256);
#else
    UCHAR Rest[32]; /* up to the end of the line */
} NPAGED_LOOKASIDE_LIST, *PNPAGED_LOOKASIDE_LIST;
C_ASSERT(sizeof(NPAGED_LOOKASIDE_LIST) == 128);
#endif
C_ASSERT(FIELD_OFFSET(NPAGED_LOOKASIDE_LIST, Future) == 88);

VOID ExInitializeNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list, PALLOCATE_FUNCTION allocate,
                                     PFREE_FUNCTION release, ULONG flags, SIZE_T size, ULONG tag,
                                     USHORT depth);
VOID ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list);
#ifdef KDA_SIM
PVOID ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list);
VOID ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list, PVOID entry);
#else
PSLIST_ENTRY ExpInterlockedPopEntrySList(PSLIST_HEADER head);
PSLIST_ENTRY ExpInterlockedPushEntrySList(PSLIST_HEADER head, PSLIST_ENTRY entry);
USHORT ExQueryDepthSList(PSLIST_HEADER head);
static inline PVOID ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list)
{
    PVOID entry;
    list->TotalAllocates++;
    entry = ExpInterlockedPopEntrySList(&list->ListHead);
    if (entry == NULL) {
        list->AllocateMisses++;
        entry = list->Allocate(list->Type, list->Size, list->Tag);
    }
    return entry;
}
static inline VOID ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list, PVOID entry)
{
    list->TotalFrees++;
    if (ExQueryDepthSList(&list->ListHead) >= list->Depth) {
        list->FreeMisses++;
        list->Free(entry);
    } else {
        ExpInterlockedPushEntrySList(&list->ListHead, (PSLIST_ENTRY)entry);
    }
}
#endif

/* --- interlocked operations (intrinsics on Windows) ------------------------------------------- */

static inline LONG InterlockedIncrement(volatile LONG *at)
{
    return __atomic_add_fetch(at, 1, __ATOMIC_SEQ_CST);
}
static inline LONG InterlockedDecrement(volatile LONG *at)
{
    return __atomic_sub_fetch(at, 1, __ATOMIC_SEQ_CST);
}
static inline LONG InterlockedExchange(volatile LONG *at, LONG value)
{
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);
}
static inline LONG InterlockedOr(volatile LONG *at, LONG bits)
{
    return __atomic_fetch_or(at, bits, __ATOMIC_SEQ_CST);
}
static inline LONG InterlockedAnd(volatile LONG *at, LONG bits)
{
    return __atomic_fetch_and(at, bits, __ATOMIC_SEQ_CST);
}
static inline LONG InterlockedCompareExchange(volatile LONG *at, LONG value, LONG expected)
{
    __atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static inline LONG64 InterlockedIncrement64(volatile LONG64 *at)
{
    return __atomic_add_fetch(at, 1, __ATOMIC_SEQ_CST);
}
static inline LONG64 InterlockedExchange64(volatile LONG64 *at, LONG64 value)
{
    return __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);
}
static inline LONG64 InterlockedExchangeAdd64(volatile LONG64 *at, LONG64 value)
{
    return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
static inline LONG64 InterlockedCompareExchange64(volatile LONG64 *at, LONG64 value,
                                                  LONG64 expected)
{
    __atomic_compare_exchange_n(at, &expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
static inline LONG ReadAcquire(const volatile LONG *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
static inline LONG ReadNoFence(const volatile LONG *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}
static inline LONG64 ReadAcquire64(const volatile LONG64 *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
static inline LONG64 ReadNoFence64(const volatile LONG64 *at)
{
    return __atomic_load_n(at, __ATOMIC_RELAXED);
}
static inline VOID WriteRelease(volatile LONG *at, LONG value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}
static inline VOID WriteRelease64(volatile LONG64 *at, LONG64 value)
{
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}

/* --- lists (inline on Windows too) ------------------------------------------------------------ */

static inline VOID InitializeListHead(PLIST_ENTRY head)
{
    head->Flink = head->Blink = head;
}
static inline BOOLEAN IsListEmpty(const LIST_ENTRY *head)
{
    return head->Flink == head;
}
static inline VOID InsertTailList(PLIST_ENTRY head, PLIST_ENTRY entry)
{
    entry->Flink = head;
    entry->Blink = head->Blink;
    head->Blink->Flink = entry;
    head->Blink = entry;
}
static inline BOOLEAN RemoveEntryList(PLIST_ENTRY entry)
{
    entry->Blink->Flink = entry->Flink;
    entry->Flink->Blink = entry->Blink;
    return entry->Flink == entry->Blink;
}

/* --- locks, events, waiting ------------------------------------------------------------------- */

typedef ULONG_PTR KSPIN_LOCK, *PKSPIN_LOCK;

typedef struct _DISPATCHER_HEADER {
    LONG Lock;
    LONG SignalState;
    LIST_ENTRY WaitListHead;
} DISPATCHER_HEADER;
typedef struct _KEVENT {
    DISPATCHER_HEADER Header;
} KEVENT, *PKEVENT;
C_ASSERT(sizeof(KEVENT) == 24);

typedef struct _FAST_MUTEX {
    LONG Count;
    PVOID Owner;
    ULONG Contention;
    KEVENT Event;
    ULONG OldIrql;
} FAST_MUTEX, *PFAST_MUTEX;
C_ASSERT(sizeof(FAST_MUTEX) == 56);

typedef struct _EX_RUNDOWN_REF {
    ULONG_PTR Count;
} EX_RUNDOWN_REF, *PEX_RUNDOWN_REF;

typedef enum _EVENT_TYPE { NotificationEvent, SynchronizationEvent } EVENT_TYPE;
typedef enum _WAIT_TYPE { WaitAll, WaitAny } WAIT_TYPE;
typedef enum _KWAIT_REASON { Executive = 0, UserRequest = 6 } KWAIT_REASON;

#ifdef KDA_SIM
VOID KeInitializeSpinLock(PKSPIN_LOCK lock);
VOID ExInitializeFastMutex(PFAST_MUTEX mutex);
#else
static inline VOID KeInitializeSpinLock(PKSPIN_LOCK lock)
{
    *lock = 0;
}
#endif
KIRQL KeAcquireSpinLockRaiseToDpc(PKSPIN_LOCK lock);
VOID KeReleaseSpinLock(PKSPIN_LOCK lock, KIRQL oldIrql);
VOID KeAcquireSpinLockAtDpcLevel(PKSPIN_LOCK lock);
VOID KeReleaseSpinLockFromDpcLevel(PKSPIN_LOCK lock);

VOID KeInitializeEvent(PKEVENT event, EVENT_TYPE type, BOOLEAN state);
LONG KeSetEvent(PKEVENT event, KPRIORITY increment, BOOLEAN wait);
VOID KeClearEvent(PKEVENT event);
NTSTATUS KeWaitForSingleObject(PVOID object, KWAIT_REASON reason, KPROCESSOR_MODE mode,
                               BOOLEAN alertable, PLARGE_INTEGER timeout);
NTSTATUS KeDelayExecutionThread(KPROCESSOR_MODE mode, BOOLEAN alertable, PLARGE_INTEGER interval);

#ifndef KDA_SIM
static inline VOID ExInitializeFastMutex(PFAST_MUTEX mutex)
{
    mutex->Count = 1;
    mutex->Owner = NULL;
    mutex->Contention = 0;
    KeInitializeEvent(&mutex->Event, SynchronizationEvent, FALSE);
}
#endif
VOID ExAcquireFastMutex(PFAST_MUTEX mutex);
VOID ExReleaseFastMutex(PFAST_MUTEX mutex);

/* In between the thread cannot be suspended (no normal kernel APC is delivered). */
VOID KeEnterCriticalRegion(VOID);
VOID KeLeaveCriticalRegion(VOID);

VOID ExInitializeRundownProtection(PEX_RUNDOWN_REF reference);
BOOLEAN ExAcquireRundownProtection(PEX_RUNDOWN_REF reference);
VOID ExReleaseRundownProtection(PEX_RUNDOWN_REF reference);
VOID ExWaitForRundownProtectionRelease(PEX_RUNDOWN_REF reference);

/* One counter per processor. */
typedef struct _EX_RUNDOWN_REF_CACHE_AWARE *PEX_RUNDOWN_REF_CACHE_AWARE;
PEX_RUNDOWN_REF_CACHE_AWARE ExAllocateCacheAwareRundownProtection(POOL_TYPE poolType, ULONG tag);
VOID ExFreeCacheAwareRundownProtection(PEX_RUNDOWN_REF_CACHE_AWARE reference);
BOOLEAN ExAcquireRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference);
VOID ExReleaseRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference);
VOID ExWaitForRundownProtectionReleaseCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference);

/* --- time and processors ---------------------------------------------------------------------- */

LARGE_INTEGER KeQueryPerformanceCounter(PLARGE_INTEGER frequency);
VOID KeQuerySystemTimePrecise(PLARGE_INTEGER time);
/* The documented parameter is a PROCESSOR_NUMBER; the driver passes NULL. */
ULONG KeGetCurrentProcessorNumberEx(PVOID processorNumber);
ULONG KeQueryActiveProcessorCountEx(USHORT group);
#define ALL_PROCESSOR_GROUPS 0xFFFF

#include "nt_ps.h"

/* --- run-time library ------------------------------------------------------------------------- */

VOID RtlInitUnicodeString(PUNICODE_STRING string, PCWSTR text);
/* Address of an exported function, NULL if this kernel has none of that name. */
PVOID MmGetSystemRoutineAddress(PUNICODE_STRING name);
NTSTATUS ExUuidCreate(UUID *uuid);

#include "nt_io.h"

#endif /* KDA_USE_WDK */

/* --- where code lives -------------------------------------------------------------------------
 */

/* Before the return type of a function that
 *   KDA_PAGED     runs below DISPATCH_LEVEL only: its code may be paged out. It raises no level and
 *                 takes no spin lock, not even in what is inlined into it;
 *   KDA_INITCODE  runs before DriverEntry returns and never again: its code is discarded then. No
 *                 other function calls it.
 * Both are checked in the finished driver by tools/check_driver.py. The simulator has one kind of
 * code. */
#ifdef KDA_SIM
#define KDA_PAGED
#define KDA_INITCODE
#else
#define KDA_PAGED __declspec(code_seg("PAGE"))
#define KDA_INITCODE __declspec(code_seg("INIT"))
#endif

/* --- what no header of the WDK has -------------------------------------------------------------
 */

/* Bits that the documentation gives as bit fields. */
#define KDA_NOTIFY_FILE_OPEN_NAME_AVAILABLE 0x1u
#define KDA_NOTIFY_IS_SUBSYSTEM_PROCESS 0x2u
#define KDA_IMAGE_SYSTEM_MODE (1u << 8)
#define KDA_IMAGE_EXTENDED_INFO (1u << 10)
#define KDA_IMAGE_SIGNATURE_LEVEL(properties) ((properties) >> 12 & 0xFu)
#define KDA_IMAGE_SIGNATURE_TYPE(properties) ((properties) >> 16 & 0x7u)
#define KDA_IMAGE_PARTIAL_MAP (1u << 19)

/* Found by name at run time: newer than the oldest kernel that the driver loads on. */
typedef ULONGLONG (*KDA_PS_GET_PROCESS_START_KEY)(PEPROCESS process);
/* No page; shape known from the public System Informer headers (phnt). */
typedef UCHAR (*KDA_PS_GET_PROCESS_SIGNATURE_LEVEL)(PEPROCESS process, PUCHAR sectionLevel);

/* 0: PsCreateProcessNotifySubsystems */
typedef NTSTATUS (*KDA_PS_SET_CREATE_PROCESS_NOTIFY_ROUTINE_EX2)(ULONG type, PVOID routine,
                                                                 BOOLEAN remove);

/* 1: PsCreateThreadNotifySubsystems, called in the creator's context like the older routine. Type 0
 * is called in the new thread, where the creator is not known any more. */
typedef NTSTATUS (*KDA_PS_SET_CREATE_THREAD_NOTIFY_ROUTINE_EX)(ULONG type, PVOID routine);

/* In newer kernels only, by that name or as WdmlibIoCreateDeviceSecure: found at run time. */
typedef NTSTATUS (*KDA_IO_CREATE_DEVICE_SECURE)(PDRIVER_OBJECT driver, ULONG extensionSize,
                                                PUNICODE_STRING name, DEVICE_TYPE type,
                                                ULONG characteristics, BOOLEAN exclusive,
                                                PCUNICODE_STRING sddl, const GUID *classGuid,
                                                PDEVICE_OBJECT *device);

#define SystemProcessInformation 5u
/* Head of each entry; threads follow. The page of NtQuerySystemInformation shows part of it, the
 * rest is known from the public System Informer headers (phnt). */
typedef struct _SYSTEM_PROCESS_INFORMATION {
    ULONG NextEntryOffset;
    ULONG NumberOfThreads;
    UCHAR Reserved1[24];
    LARGE_INTEGER CreateTime;
    LARGE_INTEGER UserTime;
    LARGE_INTEGER KernelTime;
    UNICODE_STRING ImageName;
    KPRIORITY BasePriority;
    HANDLE UniqueProcessId;
    HANDLE InheritedFromUniqueProcessId;
    ULONG HandleCount;
    ULONG SessionId;
} SYSTEM_PROCESS_INFORMATION, *PSYSTEM_PROCESS_INFORMATION;
C_ASSERT(FIELD_OFFSET(SYSTEM_PROCESS_INFORMATION, ImageName) == 56);
C_ASSERT(FIELD_OFFSET(SYSTEM_PROCESS_INFORMATION, UniqueProcessId) == 80);
NTSTATUS ZwQuerySystemInformation(ULONG class_, PVOID information, ULONG length, PULONG returned);

/* Classes of queries without a page of their own; known from phnt. */
#define ProcessCommandLineInformation 60u  /* UNICODE_STRING with its characters behind it */
#define ProcessProtectionInformation 61u   /* one byte: type, audit, signer */
#define ProcessSubsystemInformation 75u    /* ULONG: 0 Win32, 1 WSL */
#define MemoryMappedFilenameInformation 2u /* UNICODE_STRING with its characters behind it */

#endif
