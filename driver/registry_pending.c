/*
 * registry_pending.c - records of registry operations that are under way.
 *
 * What is handed to the system as context of an operation is a slot's number and use count, never
 * an address: an operation that another driver refuses may have no post call at all, and a late one
 * must not find freed memory. The slots lie in stripes with a lock each; a processor begins with
 * its own, so that two of them seldom meet.
 */
#include "driver.h"

#define KDA_PENDING_SLOTS 2048u
#define KDA_PENDING_STRIPES 32u /* power of two */
#define KDA_STRIPE_SLOTS (KDA_PENDING_SLOTS / KDA_PENDING_STRIPES)
#define KDA_NO_SLOT 0xFFFFFFFFu
#define KDA_USE_MASK 0xFFFFFFFFFFFFu

typedef struct _KDA_PENDING {
    ULONG64 Use; /* raised at each use, so that an old context is recognised */
    ULONG NextFree;
    BOOLEAN InUse;
    ULONGLONG Since;
    KDA_RECORD Record;
} KDA_PENDING;

typedef struct _KDA_PENDING_STRIPE {
    KSPIN_LOCK Lock;
    ULONG FirstFree; /* slot of the whole table */
    KDA_PENDING Slots[KDA_STRIPE_SLOTS];
} KDA_PENDING_STRIPE;

static KDA_PENDING_STRIPE *KdapTable;

_IRQL_requires_max_(DISPATCH_LEVEL) static KDA_PENDING_STRIPE *KdapStripeOf(ULONG slot)
{
    return &KdapTable[slot / KDA_STRIPE_SLOTS];
}

_IRQL_requires_max_(DISPATCH_LEVEL) static KDA_PENDING *KdapSlot(ULONG slot)
{
    return &KdapStripeOf(slot)->Slots[slot % KDA_STRIPE_SLOTS];
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaPendingStart(VOID)
{
    SIZE_T bytes = KDA_PENDING_STRIPES * sizeof(KDA_PENDING_STRIPE);

    KdapTable = ExAllocatePoolWithTag(NonPagedPoolNx, bytes, KDA_TAG_REGISTRY);
    if (KdapTable == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    RtlZeroMemory(KdapTable, bytes);
    for (ULONG i = 0; i < KDA_PENDING_STRIPES; i++) {
        KeInitializeSpinLock(&KdapTable[i].Lock);
        KdapTable[i].FirstFree = i * KDA_STRIPE_SLOTS;
    }
    for (ULONG slot = 0; slot < KDA_PENDING_SLOTS; slot++)
        KdapSlot(slot)->NextFree = (slot + 1) % KDA_STRIPE_SLOTS != 0 ? slot + 1 : KDA_NO_SLOT;
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ VOID KdaPendingStop(VOID)
{
    for (ULONG slot = 0; slot < KDA_PENDING_SLOTS; slot++)
        KDA_ASSERT(!KdapSlot(slot)->InUse);
    ExFreePoolWithTag(KdapTable, KDA_TAG_REGISTRY);
    KdapTable = NULL;
}

_IRQL_requires_max_(DISPATCH_LEVEL) static PVOID
    KdapParkIn(KDA_PENDING_STRIPE *stripe, const KDA_RECORD *record)
{
    PVOID context = NULL;
    KIRQL irql;

    irql = KeAcquireSpinLockRaiseToDpc(&stripe->Lock);
    if (stripe->FirstFree != KDA_NO_SLOT) {
        ULONG slot = stripe->FirstFree;
        KDA_PENDING *pending = KdapSlot(slot);
        KDA_ASSERT(!pending->InUse);
        stripe->FirstFree = pending->NextFree;
        pending->Use++;
        pending->InUse = TRUE;
        pending->Since = KdaMilliseconds();
        pending->Record = *record;
        context = (PVOID)(ULONG_PTR)(pending->Use << 16 | (slot + 1));
    }
    KeReleaseSpinLock(&stripe->Lock, irql);
    return context;
}

_Use_decl_annotations_ PVOID KdaPendingPark(const KDA_RECORD *record)
{
    ULONG first = KeGetCurrentProcessorNumberEx(NULL);
    PVOID context = NULL;

    for (ULONG i = 0; context == NULL && i < KDA_PENDING_STRIPES; i++)
        context = KdapParkIn(&KdapTable[(first + i) & (KDA_PENDING_STRIPES - 1)], record);
    return context;
}

/* The lock is held. */
_IRQL_requires_max_(DISPATCH_LEVEL) static VOID KdapTakeOut(ULONG slot, KDA_RECORD *record)
{
    KDA_PENDING_STRIPE *stripe = KdapStripeOf(slot);
    KDA_PENDING *pending = KdapSlot(slot);

    KDA_ASSERT(pending->InUse);
    *record = pending->Record;
    pending->InUse = FALSE;
    pending->NextFree = stripe->FirstFree;
    stripe->FirstFree = slot;
}

_Use_decl_annotations_ BOOLEAN KdaPendingTake(PVOID context, KDA_RECORD *record)
{
    ULONG64 value = (ULONG_PTR)context;
    ULONG slot = (ULONG)(value & 0xFFFFu) - 1;
    BOOLEAN found = FALSE;
    KIRQL irql;

    if (slot >= KDA_PENDING_SLOTS)
        return FALSE;
    irql = KeAcquireSpinLockRaiseToDpc(&KdapStripeOf(slot)->Lock);
    if (KdapSlot(slot)->InUse && (KdapSlot(slot)->Use & KDA_USE_MASK) == value >> 16) {
        KdapTakeOut(slot, record);
        found = TRUE;
    }
    KeReleaseSpinLock(&KdapStripeOf(slot)->Lock, irql);
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
        KDA_PENDING *pending = KdapSlot(slot);
        irql = KeAcquireSpinLockRaiseToDpc(&KdapStripeOf(slot)->Lock);
        found = pending->InUse && now - pending->Since >= milliseconds;
        if (found)
            KdapTakeOut(slot, record);
        KeReleaseSpinLock(&KdapStripeOf(slot)->Lock, irql);
    }
    return found;
}
