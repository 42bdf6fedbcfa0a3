/*
 * shim.h - the modules that stand in for what Wine's kernel lacks, and what an injector asks them.
 *
 * kdatestk.sys takes the place of ntoskrnl.exe for the driver under test: it passes on what Wine
 * has and does itself what Wine only pretends to do; callbacks are kept, so that the injector can
 * call them. fwpkclnt.sys does the same for the filtering platform, of which Wine has nothing. All
 * of them run in the process of the driver, so there is one instance of each.
 *
 * Objects that the injector makes up begin with TEST_MAGIC; everything else is Wine's.
 */
#ifndef KDA_SHIM_H
#define KDA_SHIM_H

#include "nt.h"

#define TEST_MAGIC 0x4B544553u

/* In a shim, the function that is exported as `name`. */
#define SHIM(name) Shim##name

typedef struct _TEST_OBJECT {
    ULONG Magic;
    volatile LONG References; /* taken by the driver and not given back */
} TEST_OBJECT;

typedef struct _TEST_PROCESS {
    TEST_OBJECT Object;
    LIST_ENTRY Entry;
    ULONG Pid;
    LONGLONG CreateTime;
    NTSTATUS ExitStatus;
} TEST_PROCESS;

typedef struct _TEST_THREAD {
    TEST_OBJECT Object;
    LIST_ENTRY Entry;
    ULONG Tid;
    ULONGLONG StartAddress;
    NTSTATUS ExitStatus;
} TEST_THREAD;

typedef struct _TEST_KEY {
    TEST_OBJECT Object;
    UNICODE_STRING Name;
} TEST_KEY;

/* What the driver has and has to give back; all 0 when it is gone. */
typedef struct _TEST_LEDGER {
    volatile LONG Blocks;      /* of pool */
    volatile LONG Objects;     /* references to Wine's objects */
    volatile LONG Names;       /* of keys */
    volatile LONG Routines;    /* notify routines, callbacks */
    volatile LONG Callouts;    /* registered with the filtering platform */
    volatile LONG Engines;     /* sessions of the filter engine */
    volatile LONG WrongTags;   /* blocks freed under another tag; never goes down */
    volatile LONG Allocations; /* so far; does not go down */
} TEST_LEDGER;

typedef struct _TEST_SWITCHES {
    volatile LONG FailFrom; /* allocations from this number on fail; 0: none */
    volatile LONG FailOnce; /* only that one */
    volatile LONG Busy;     /* callouts answer so often that they are busy; -1: always */
    volatile LONG Newer;    /* the functions of newer kernels are there */
    volatile LONG Plain;    /* IoCreateDeviceSecure is not */
    volatile LONG Refuse;   /* the n-th registration fails; 0: none */
} TEST_SWITCHES;

/* The descriptor that ZwSetSecurityObject was given for the device. */
typedef struct _TEST_DESCRIPTOR {
    ULONG Bytes;
    UCHAR Data[256];
} TEST_DESCRIPTOR;

/* A place for one routine: while it is called it stays, and who removes it waits. */
typedef struct _TEST_GATE {
    volatile LONG Calls;
    volatile LONG64 Routine;
} TEST_GATE;

static inline PVOID TestEnter(TEST_GATE *gate)
{
    PVOID routine;

    InterlockedIncrement(&gate->Calls);
    routine = (PVOID)(ULONG_PTR)ReadAcquire64(&gate->Routine);
    if (routine == NULL)
        InterlockedDecrement(&gate->Calls);
    return routine;
}
static inline VOID TestLeave(TEST_GATE *gate)
{
    InterlockedDecrement(&gate->Calls);
}
static inline VOID TestClose(TEST_GATE *gate)
{
    LARGE_INTEGER wait;

    wait.QuadPart = -10000;
    InterlockedExchange64(&gate->Routine, 0);
    while (ReadAcquire(&gate->Calls) != 0)
        KeDelayExecutionThread(KernelMode, FALSE, &wait);
}

/* kdatestk.sys, for the injector. A fire function returns FALSE where nobody is registered. */
TEST_LEDGER *TestLedger(VOID);
TEST_SWITCHES *TestSwitches(VOID);
TEST_DESCRIPTOR *TestDescriptor(VOID);
VOID TestAddProcess(TEST_PROCESS *process);
VOID TestRemoveProcess(TEST_PROCESS *process);
VOID TestAddThread(TEST_THREAD *thread);
VOID TestRemoveThread(TEST_THREAD *thread);
BOOLEAN TestFireProcess(TEST_PROCESS *process, PPS_CREATE_NOTIFY_INFO info);
BOOLEAN TestFireThread(ULONG pid, ULONG tid, BOOLEAN create);
BOOLEAN TestFireImage(UNICODE_STRING *name, ULONG pid, IMAGE_INFO *info);
BOOLEAN TestFireRegistry(ULONG class_, PVOID information);
/* FALSE once, when registration number TEST_SWITCHES.Refuse is reached. */
BOOLEAN TestMayRegister(VOID);

#endif
