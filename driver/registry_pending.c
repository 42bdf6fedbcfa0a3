/*
 * registry_pending.c - records of registry operations that are under way.
 *
 * What is handed to the system as context of an operation is a slot's number and use count, never
 * an address: an operation that another driver refuses may have no post call at all, and a late one
 * must not find freed memory.
 */
#include "driver.h"

#define KDA_PENDING_SLOTS 2048u
#define KDA_NO_SLOT 0xFFFFFFFFu
#define KDA_USE_MASK 0xFFFFFFFFFFFFu

typedef struct _KDA_PENDING {
    ULONG64 Use; /* raised at each use, so that an old context is recognised */
    ULONG NextFree;
    BOOLEAN InUse;
    ULONGLONG Since;
    KDA_RECORD Record;
} KDA_PENDING;

typedef struct _KDA_PENDING_TABLE {
    KSPIN_LOCK Lock;
    ULONG FirstFree;
    KDA_PENDING Slots[KDA_PENDING_SLOTS];
} KDA_PENDING_TABLE;

static KDA_PENDING_TABLE *KdapTable;

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaPendingStart(VOID)
{
    KdapTable = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *KdapTable, KDA_TAG_REGISTRY);
    if (KdapTable == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    RtlZeroMemory(KdapTable, sizeof *KdapTable);
    KeInitializeSpinLock(&KdapTable->Lock);
    for (ULONG slot = 0; slot < KDA_PENDING_SLOTS; slot++)
        KdapTable->Slots[slot].NextFree = slot + 1 < KDA_PENDING_SLOTS ? slot + 1 : KDA_NO_SLOT;
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ VOID KdaPendingStop(VOID)
{
    ExFreePoolWithTag(KdapTable, KDA_TAG_REGISTRY);
    KdapTable = NULL;
}

_Use_decl_annotations_ PVOID KdaPendingPark(const KDA_RECORD *record)
{
    PVOID context = NULL;
    KIRQL irql;

    irql = KeAcquireSpinLockRaiseToDpc(&KdapTable->Lock);
    if (KdapTable->FirstFree != KDA_NO_SLOT) {
        ULONG slot = KdapTable->FirstFree;
        KDA_PENDING *pending = &KdapTable->Slots[slot];
        KdapTable->FirstFree = pending->NextFree;
        pending->Use++;
        pending->InUse = TRUE;
        pending->Since = KdaMilliseconds();
        pending->Record = *record;
        context = (PVOID)(ULONG_PTR)(pending->Use << 16 | (slot + 1));
    }
    KeReleaseSpinLock(&KdapTable->Lock, irql);
    return context;
}

/* The lock is held. */
_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapTakeOut(ULONG slot, KDA_RECORD *record)
{
    KDA_PENDING *pending = &KdapTable->Slots[slot];

    *record = pending->Record;
    pending->InUse = FALSE;
    pending->NextFree = KdapTable->FirstFree;
    KdapTable->FirstFree = slot;
}

_Use_decl_annotations_ BOOLEAN KdaPendingTake(PVOID context, KDA_RECORD *record)
{
    ULONG64 value = (ULONG_PTR)context;
    ULONG slot = (ULONG)(value & 0xFFFFu) - 1;
    BOOLEAN found = FALSE;
    KIRQL irql;

    if (slot >= KDA_PENDING_SLOTS)
        return FALSE;
    irql = KeAcquireSpinLockRaiseToDpc(&KdapTable->Lock);
    if (KdapTable->Slots[slot].InUse &&
        (KdapTable->Slots[slot].Use & KDA_USE_MASK) == value >> 16) {
        KdapTakeOut(slot, record);
        found = TRUE;
    }
    KeReleaseSpinLock(&KdapTable->Lock, irql);
    return found;
}

_Use_decl_annotations_ BOOLEAN KdaPendingOverdue(ULONG milliseconds, ULONG *next,
                                                 KDA_RECORD *record)
{
    ULONGLONG now = KdaMilliseconds();
    BOOLEAN found = FALSE;
    KIRQL irql;

    while (!found && *next < KDA_PENDING_SLOTS) {
        ULONG slot = (*next)++;
        KDA_PENDING *pending = &KdapTable->Slots[slot];
        irql = KeAcquireSpinLockRaiseToDpc(&KdapTable->Lock);
        found = pending->InUse && now - pending->Since >= milliseconds;
        if (found)
            KdapTakeOut(slot, record);
        KeReleaseSpinLock(&KdapTable->Lock, irql);
    }
    return found;
}
