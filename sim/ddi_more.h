/*
 * ddi_more.h - interfaces of the kernel that the simulator has and nt.h does not need to declare:
 * newer than the oldest kernel, or for drivers of tests. Declared from the page of each name.
 */
#ifndef SIM_DDI_MORE_H
#define SIM_DDI_MORE_H

#include "nt.h"

BOOLEAN KeAreAllApcsDisabled(VOID);
BOOLEAN KeAreApcsDisabled(VOID);
VOID KeEnterCriticalRegion(VOID);
VOID KeLeaveCriticalRegion(VOID);
VOID KeEnterGuardedRegion(VOID);
VOID KeLeaveGuardedRegion(VOID);
PIRP IoGetTopLevelIrp(VOID);

typedef struct _EX_RUNDOWN_REF_CACHE_AWARE *PEX_RUNDOWN_REF_CACHE_AWARE;
PEX_RUNDOWN_REF_CACHE_AWARE ExAllocateCacheAwareRundownProtection(POOL_TYPE type, ULONG tag);
VOID ExFreeCacheAwareRundownProtection(PEX_RUNDOWN_REF_CACHE_AWARE reference);
BOOLEAN ExAcquireRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference);
VOID ExReleaseRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference);
VOID ExWaitForRundownProtectionReleaseCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference);
VOID ExReInitializeRundownProtectionCacheAware(PEX_RUNDOWN_REF_CACHE_AWARE reference);
VOID ExReInitializeRundownProtection(PEX_RUNDOWN_REF reference);
PVOID ExAllocatePool2(ULONGLONG flags, SIZE_T bytes, ULONG tag);

NTSTATUS PsSetCreateProcessNotifyRoutineEx2(ULONG type, PVOID routine, BOOLEAN remove);
NTSTATUS PsSetCreateThreadNotifyRoutineEx(ULONG type, PVOID routine);
NTSTATUS PsSetLoadImageNotifyRoutineEx(PLOAD_IMAGE_NOTIFY_ROUTINE routine, ULONG_PTR flags);
ULONGLONG PsGetProcessStartKey(PEPROCESS process);
UCHAR PsGetProcessSignatureLevel(PEPROCESS process, PUCHAR sectionLevel);
NTSTATUS IoCreateDeviceSecure(PDRIVER_OBJECT driver, ULONG extensionSize, PUNICODE_STRING name,
                              DEVICE_TYPE type, ULONG characteristics, BOOLEAN exclusive,
                              PCUNICODE_STRING sddl, const GUID *classGuid, PDEVICE_OBJECT *device);

PVOID CmGetBoundTransaction(PLARGE_INTEGER cookie, PVOID object);
/* KDA_ASSERT of a checked driver. */
VOID SimAssertionFailed(const char *expression, const char *file, int line);

#endif
