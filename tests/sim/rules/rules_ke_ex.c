/*
 * rules_ke_ex.c - levels, locks, waits, pool, lists, run-down protection, power callbacks, names.
 */
#include "rules.h"

#include <pthread.h>

/* --- spin locks ------------------------------------------------------------------------------ */

LEVEL("KE-001", DISPATCH_LEVEL, KeAcquireSpinLockRaiseToDpc(&fx.lock));

OUTCOME_FX("KE-001 KE-004", spin_lock_raises)
{
    KIRQL old = KeAcquireSpinLockRaiseToDpc(&fx.lock);

    EXPECT(old == PASSIVE_LEVEL && KeGetCurrentIrql() == DISPATCH_LEVEL);
    KeReleaseSpinLock(&fx.lock, old);
    EXPECT(KeGetCurrentIrql() == PASSIVE_LEVEL);
}

VIOLATION_FX("KE-002", recursive_spin_lock)
{
    KeAcquireSpinLockRaiseToDpc(&fx.lock);
    KeAcquireSpinLockRaiseToDpc(&fx.lock);
}

VIOLATION_FX("KE-002", wait_with_a_spin_lock)
{
    KeAcquireSpinLockRaiseToDpc(&fx.lock);
    KeWaitForSingleObject(&fx.event, Executive, KernelMode, FALSE, NULL);
}

VIOLATION_FX("KE-002", paged_code_with_a_spin_lock)
{
    KeAcquireSpinLockRaiseToDpc(&fx.lock);
    PAGED_CODE();
}

VIOLATION_FX("KE-004", released_below_dispatch)
{
    KeReleaseSpinLock(&fx.lock, PASSIVE_LEVEL);
}

VIOLATION_FX("KE-004", released_to_another_level)
{
    KeAcquireSpinLockRaiseToDpc(&fx.lock);
    KeReleaseSpinLock(&fx.lock, APC_LEVEL);
}

VIOLATION_FX("KE-005", nested_the_other_way_round)
{
    static KSPIN_LOCK inner;
    KIRQL old = KeAcquireSpinLockRaiseToDpc(&fx.lock);

    KeInitializeSpinLock(&inner);
    KeAcquireSpinLockAtDpcLevel(&inner);
    KeReleaseSpinLockFromDpcLevel(&inner);
    KeReleaseSpinLock(&fx.lock, old);
    old = KeAcquireSpinLockRaiseToDpc(&inner);
    KeAcquireSpinLockAtDpcLevel(&fx.lock);
}

/* --- waits ----------------------------------------------------------------------------------- */

static LARGE_INTEGER short_time = {.QuadPart = -10000};
static LARGE_INTEGER no_time = {.QuadPart = 0};

LEVEL("KE-006", APC_LEVEL, KeDelayExecutionThread(KernelMode, FALSE, &short_time));
LEVEL("KE-009", APC_LEVEL,
      KeWaitForSingleObject(&fx.event, Executive, KernelMode, FALSE, &short_time));
LEVEL("KE-009", DISPATCH_LEVEL,
      KeWaitForSingleObject(&fx.event, Executive, KernelMode, FALSE, &no_time));
LEVEL("KE-014", DISPATCH_LEVEL, KeSetEvent(&fx.event, 0, FALSE));

VIOLATION_FX("KE-007", alertable_delay)
{
    KeDelayExecutionThread(KernelMode, TRUE, &short_time);
}

OUTCOME_FX("KE-007 KE-008", delays)
{
    LARGE_INTEGER hour = {.QuadPart = -36000000000};
    LARGE_INTEGER past = {.QuadPart = 1};
    uint64_t before = sim_clock_utc();

    sim_clock_delays(true);
    EXPECT_STATUS(0, KeDelayExecutionThread(KernelMode, FALSE, &hour));
    EXPECT(sim_clock_utc() - before >= 36000000000u);
    EXPECT_STATUS(0, KeDelayExecutionThread(KernelMode, FALSE, &past)); /* absolute */
}

OUTCOME_FX("KE-010 KE-013", waits_and_events)
{
    KEVENT one;

    EXPECT_STATUS(0, KeWaitForSingleObject(&fx.event, Executive, KernelMode, FALSE, &no_time));
    EXPECT_STATUS(0, KeWaitForSingleObject(&fx.event, Executive, KernelMode, FALSE, &no_time));
    KeInitializeEvent(&one, SynchronizationEvent, TRUE);
    EXPECT_STATUS(0, KeWaitForSingleObject(&one, Executive, KernelMode, FALSE, &no_time));
    EXPECT_STATUS(0x102, KeWaitForSingleObject(&one, Executive, KernelMode, FALSE, &no_time));
}

VIOLATION_FX("KE-011", wait_on_paged_memory)
{
    KEVENT *event = ExAllocatePoolWithTag(PagedPool, sizeof(*event), TAG);

    KeInitializeEvent(event, NotificationEvent, TRUE);
    KeWaitForSingleObject(event, Executive, KernelMode, FALSE, NULL);
}

VIOLATION_FX("KE-011", wait_whose_stack_can_go)
{
    KeWaitForSingleObject(&fx.event, Executive, UserMode, FALSE, NULL);
}

VIOLATION_FX("KE-012", wait_that_can_be_broken)
{
    KeWaitForSingleObject(&fx.event, Executive, KernelMode, TRUE, NULL);
}

VIOLATION_FX("KE-014", event_set_with_a_wait)
{
    KeSetEvent(&fx.event, 0, TRUE);
}

/* --- processors and time --------------------------------------------------------------------- */

LEVEL("KE-016", HIGH_LEVEL, KeGetCurrentProcessorNumberEx(NULL));
LEVEL("KE-018", HIGH_LEVEL, KeQueryActiveProcessorCountEx(ALL_PROCESSOR_GROUPS));

static LARGE_INTEGER now;
LEVEL_VOID("KE-020", HIGH_LEVEL, KeQuerySystemTimePrecise(&now));
LEVEL_VOID("KE-021", HIGH_LEVEL, KeQueryPerformanceCounter(NULL));
LEVEL("KE-025", DISPATCH_LEVEL, KeAreAllApcsDisabled());

OUTCOME_COLD("KE-017 KE-019", processors)
{
    const struct sim_options options = {.cpus = 64};

    rules_boot(&options);
    sim_set_cpu(63);
    EXPECT(KeGetCurrentProcessorNumberEx(NULL) == 63);
    EXPECT(KeQueryActiveProcessorCountEx(ALL_PROCESSOR_GROUPS) == 64);
    EXPECT(KeQueryActiveProcessorCountEx(7) == 0);
}

OUTCOME("KE-020 KE-021", clocks)
{
    LARGE_INTEGER before;
    LARGE_INTEGER frequency;
    LARGE_INTEGER counter = KeQueryPerformanceCounter(&frequency);

    KeQuerySystemTimePrecise(&before);
    sim_clock_correct(-1000);
    KeQuerySystemTimePrecise(&now);
    EXPECT(now.QuadPart < before.QuadPart);
    EXPECT(KeQueryPerformanceCounter(NULL).QuadPart >= counter.QuadPart);
    EXPECT(frequency.QuadPart == 10000000);
}

VIOLATION("KE-023", raised_downwards)
{
    KIRQL old;

    KeRaiseIrql(DISPATCH_LEVEL, &old);
    KeRaiseIrql(APC_LEVEL, &old);
}

VIOLATION("KE-023", lowered_upwards)
{
    KeLowerIrql(APC_LEVEL);
}

OUTCOME("KE-026 KE-027 KE-028", regions)
{
    KIRQL old;

    EXPECT(!KeAreApcsDisabled() && !KeAreAllApcsDisabled());
    KeEnterCriticalRegion();
    EXPECT(KeAreApcsDisabled() && !KeAreAllApcsDisabled());
    KeLeaveCriticalRegion();
    KeEnterGuardedRegion();
    EXPECT(KeAreApcsDisabled() && KeAreAllApcsDisabled());
    KeLeaveGuardedRegion();
    KeRaiseIrql(APC_LEVEL, &old);
    EXPECT(KeAreApcsDisabled() && KeAreAllApcsDisabled());
}

VIOLATION("KE-028", left_without_entering)
{
    KeLeaveCriticalRegion();
}

LEVEL("NX-064", DISPATCH_LEVEL, IoGetTopLevelIrp());

OUTCOME("NX-065", inside_a_file_system)
{
    EXPECT(!IoGetTopLevelIrp());
    sim_set_top_level_irp(true);
    EXPECT(IoGetTopLevelIrp());
}

/* --- pool ------------------------------------------------------------------------------------ */

LEVEL("EX-001", DISPATCH_LEVEL, ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG));
LEVEL("EX-001", APC_LEVEL, ExAllocatePoolWithTag(PagedPool, 16, TAG));
LEVEL_VOID("EX-008", DISPATCH_LEVEL, ExFreePoolWithTag(fx.block, TAG));

VIOLATION("EX-008", paged_block_at_dispatch)
{
    PVOID block = ExAllocatePoolWithTag(PagedPool, 16, TAG);
    KIRQL old;

    KeRaiseIrql(DISPATCH_LEVEL, &old);
    ExFreePoolWithTag(block, TAG);
}

VIOLATION("EX-002", no_bytes)
{
    ExAllocatePoolWithTag(NonPagedPoolNx, 0, TAG);
}

VIOLATION("EX-002", no_tag)
{
    ExAllocatePoolWithTag(NonPagedPoolNx, 16, 0);
}

VIOLATION("EX-002", tag_that_cannot_be_printed)
{
    ExAllocatePoolWithTag(NonPagedPoolNx, 16, 0x01020304);
}

OUTCOME("EX-003 EX-004", pool)
{
    uint8_t *block = ExAllocatePoolWithTag(NonPagedPoolNx, 64, TAG);

    EXPECT((uintptr_t)block % 16 == 0 && block[0] != 0 && block[63] != 0);
    sim_fault_arm(1);
    EXPECT(!ExAllocatePoolWithTag(NonPagedPoolNx, 64, TAG));
}

OUTCOME("EX-007", pool_of_newer_systems)
{
    uint8_t *block = ExAllocatePool2(0x40, 64, TAG);

    EXPECT(block && block[0] == 0 && block[63] == 0);
    block = ExAllocatePool2(0x42, 64, TAG);
    EXPECT(block && block[0] != 0);
    EXPECT(!ExAllocatePool2(0x40, 64, 0) && !ExAllocatePool2(0x1000, 64, TAG));
}

VIOLATION_FX("EX-009", another_tag)
{
    ExFreePoolWithTag(fx.block, TAG + 1);
}

/* --- fast mutexes ---------------------------------------------------------------------------- */

LEVEL_VOID("EX-010", APC_LEVEL, ExAcquireFastMutex(&fx.mutex));

OUTCOME_FX("EX-010", mutex_raises)
{
    ExAcquireFastMutex(&fx.mutex);
    EXPECT(KeGetCurrentIrql() == APC_LEVEL);
    ExReleaseFastMutex(&fx.mutex);
    EXPECT(KeGetCurrentIrql() == PASSIVE_LEVEL);
}

VIOLATION_FX("EX-011", mutex_twice)
{
    ExAcquireFastMutex(&fx.mutex);
    ExAcquireFastMutex(&fx.mutex);
}

VIOLATION_FX("ZW-001", file_with_a_mutex)
{
    IO_STATUS_BLOCK io;

    ExAcquireFastMutex(&fx.mutex);
    ZwFlushBuffersFile(fx.file, &io);
}

VIOLATION_FX("EX-012", mutex_released_at_another_level)
{
    KIRQL old;

    ExAcquireFastMutex(&fx.mutex);
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    ExReleaseFastMutex(&fx.mutex);
}

VIOLATION_FX("EX-010", level_of_the_owner_lowered)
{
    ExAcquireFastMutex(&fx.mutex);
    KeLowerIrql(PASSIVE_LEVEL);
}

static void *take_mutex(void *unused)
{
    ExAcquireFastMutex(&fx.mutex);
    usleep(200000);
    return unused;
}

VIOLATION_FX("EX-012", mutex_of_another_thread)
{
    pthread_t host;
    KIRQL old;

    pthread_create(&host, NULL, take_mutex, NULL);
    usleep(50000);
    KeRaiseIrql(APC_LEVEL, &old);
    ExReleaseFastMutex(&fx.mutex);
}

VIOLATION("EX-013", mutex_never_initialized)
{
    static FAST_MUTEX mutex;

    ExAcquireFastMutex(&mutex);
}

VIOLATION("EX-013", mutex_in_paged_memory)
{
    ExInitializeFastMutex(ExAllocatePoolWithTag(PagedPool, sizeof(FAST_MUTEX), TAG));
}

/* --- run-down protection --------------------------------------------------------------------- */

LEVEL_VOID("EX-018", APC_LEVEL, ExInitializeRundownProtection(&fx.rundown));
LEVEL("EX-019", DISPATCH_LEVEL, ExAcquireRundownProtection(&fx.rundown));
LEVEL_VOID("EX-021", DISPATCH_LEVEL,
           (fx.rundown.Count = 2, ExReleaseRundownProtection(&fx.rundown)));
LEVEL_VOID("EX-022", APC_LEVEL, ExWaitForRundownProtectionRelease(&fx.rundown));

static void *release_later(void *unused)
{
    usleep(50000);
    ExReleaseRundownProtection(&fx.rundown);
    return unused;
}

OUTCOME_FX("EX-020 EX-022 EX-025", run_down)
{
    pthread_t host;

    EXPECT(ExAcquireRundownProtection(&fx.rundown));
    pthread_create(&host, NULL, release_later, NULL);
    ExWaitForRundownProtectionRelease(&fx.rundown);
    pthread_join(host, NULL);
    ExWaitForRundownProtectionRelease(&fx.rundown); /* at once */
    EXPECT(!ExAcquireRundownProtection(&fx.rundown));
    ExReInitializeRundownProtection(&fx.rundown);
    EXPECT(ExAcquireRundownProtection(&fx.rundown));
}

OUTCOME("EX-019 EX-020", run_down_for_each_processor)
{
    PEX_RUNDOWN_REF_CACHE_AWARE r = ExAllocateCacheAwareRundownProtection(NonPagedPoolNx, TAG);

    EXPECT(ExAcquireRundownProtectionCacheAware(r));
    ExReleaseRundownProtectionCacheAware(r);
    ExWaitForRundownProtectionReleaseCacheAware(r);
    EXPECT(!ExAcquireRundownProtectionCacheAware(r));
    ExReInitializeRundownProtectionCacheAware(r);
    EXPECT(ExAcquireRundownProtectionCacheAware(r));
    ExFreeCacheAwareRundownProtection(r);
}

VIOLATION_FX("EX-021", released_too_often)
{
    ExReleaseRundownProtection(&fx.rundown);
}

VIOLATION_FX("EX-022", never_released)
{
    fx.rundown.Count = 2; /* held by another thread */
    ExWaitForRundownProtectionRelease(&fx.rundown);
}

VIOLATION_FX("EX-023", waits_for_itself)
{
    ExAcquireRundownProtection(&fx.rundown);
    ExWaitForRundownProtectionRelease(&fx.rundown);
}

VIOLATION_FX("EX-024", held_by_a_thread_that_can_be_suspended)
{
    EXPECT(sim_enter(fx.pid, 0));
    ExAcquireRundownProtection(&fx.rundown);
}

OUTCOME_FX("EX-024", held_in_a_region)
{
    EXPECT(sim_enter(fx.pid, 0));
    KeEnterCriticalRegion();
    EXPECT(ExAcquireRundownProtection(&fx.rundown));
    ExReleaseRundownProtection(&fx.rundown);
    KeLeaveCriticalRegion();
}

VIOLATION_FX("EX-025", initialized_again_too_early)
{
    ExReInitializeRundownProtection(&fx.rundown);
}

/* --- lists of blocks ------------------------------------------------------------------------- */

static NPAGED_LOOKASIDE_LIST list;

static void init_list(PNPAGED_LOOKASIDE_LIST at, ULONG flags, SIZE_T size, USHORT depth)
{
    ExInitializeNPagedLookasideList(at, NULL, NULL, flags, size, TAG, depth);
}

LEVEL_VOID("EX-026", DISPATCH_LEVEL, init_list(&list, POOL_NX_ALLOCATION, 64, 0));

VIOLATION("EX-027", list_with_a_depth)
{
    init_list(&list, 0, 64, 4);
}

VIOLATION("EX-027", list_with_unknown_flags)
{
    init_list(&list, 1, 64, 0);
}

VIOLATION("EX-027", list_of_too_small_blocks)
{
    init_list(&list, 0, 4, 0);
}

VIOLATION("EX-027", list_in_paged_memory)
{
    init_list(ExAllocatePoolWithTag(PagedPool, sizeof(list), TAG), 0, 64, 0);
}

OUTCOME("EX-028", blocks_of_a_list)
{
    uint8_t *block;

    init_list(&list, 0, 64, 0);
    block = ExAllocateFromNPagedLookasideList(&list);
    EXPECT(block && block[0] != 0);
    sim_fault_arm(1);
    EXPECT(!ExAllocateFromNPagedLookasideList(&list));
}

VIOLATION("EX-030", list_kept)
{
    init_list(&list, 0, 64, 0);
    sim_driver_unload();
}

VIOLATION("EX-031", list_at_an_odd_place)
{
    uint8_t *room = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof(list) + 16, TAG);

    init_list((void *)(room + 8), 0, 64, 0);
}

/* --- callback objects ------------------------------------------------------------------------ */

static PVOID registration;
static unsigned power_calls;
static KIRQL power_irql;
static bool removes_itself;

static VOID on_power(PVOID context, PVOID what, PVOID awake)
{
    (void)context;
    (void)what;
    (void)awake;
    power_calls++;
    power_irql = KeGetCurrentIrql();
    if (removes_itself)
        ExUnregisterCallback(registration);
}

static NTSTATUS power_object(const uint16_t *text, PCALLBACK_OBJECT *object)
{
    UNICODE_STRING name = rules_string(text);
    OBJECT_ATTRIBUTES attributes = rules_attributes(text ? &name : NULL, 0);

    return ExCreateCallback(object, &attributes, FALSE, TRUE);
}

static PCALLBACK_OBJECT power_callback;

LEVEL("EX-035", APC_LEVEL, power_object(u"\\Callback\\PowerState", &power_callback));

static PCALLBACK_OBJECT watched_power(void)
{
    EXPECT_STATUS(0, power_object(u"\\Callback\\PowerState", &power_callback));
    registration = ExRegisterCallback(power_callback, on_power, NULL);
    EXPECT(registration);
    return power_callback;
}

VIOLATION("EX-038", registered_above_apc)
{
    PCALLBACK_OBJECT object = watched_power();
    KIRQL old;

    KeRaiseIrql(DISPATCH_LEVEL, &old);
    ExRegisterCallback(object, on_power, NULL);
}

VIOLATION("EX-041", unregistered_above_apc)
{
    KIRQL old;

    watched_power();
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    ExUnregisterCallback(registration);
}

OUTCOME("EX-036 EX-038 EX-039 EX-040", power)
{
    EXPECT_STATUS(0xC0000001, power_object(NULL, &power_callback));
    watched_power();
    sim_set_irql(DISPATCH_LEVEL);
    sim_power_suspend();
    EXPECT(power_calls == 1 && power_irql == DISPATCH_LEVEL);
    sim_set_irql(PASSIVE_LEVEL);
    sim_fault_arm(1);
    EXPECT(!ExRegisterCallback(power_callback, on_power, NULL));
}

VIOLATION("EX-037", callback_object_kept)
{
    watched_power();
    ExUnregisterCallback(registration);
    sim_driver_unload();
}

VIOLATION("EX-041", power_callback_kept)
{
    ObDereferenceObject(watched_power());
    sim_driver_unload();
}

VIOLATION("EX-041", power_callback_removed_twice)
{
    watched_power();
    ExUnregisterCallback(registration);
    ExUnregisterCallback(registration);
}

VIOLATION("EX-042", power_callback_removes_itself)
{
    watched_power();
    removes_itself = true;
    sim_power_suspend();
}

/* --- ids and names --------------------------------------------------------------------------- */

static UUID uuid;
LEVEL("EX-043", PASSIVE_LEVEL, ExUuidCreate(&uuid));

OUTCOME("EX-044", temporary_and_local_ids)
{
    sim_status_next("ExUuidCreate", STATUS(0xC000022D), 1);
    EXPECT_STATUS(0xC000022D, ExUuidCreate(&uuid));
    sim_status_next("ExUuidCreate", STATUS(0x40020056), 1);
    EXPECT_STATUS(0x40020056, ExUuidCreate(&uuid));
    EXPECT(uuid.Data1 != 0);
}

static UNICODE_STRING export_name;
LEVEL("EX-045", PASSIVE_LEVEL, MmGetSystemRoutineAddress(&export_name));

OUTCOME("EX-047", strings)
{
    static uint16_t text[40000];
    UNICODE_STRING string;

    RtlInitUnicodeString(&string, NULL);
    EXPECT(string.Length == 0 && !string.Buffer);
    for (size_t i = 0; i + 1 < sizeof(text) / 2; i++)
        text[i] = 'x';
    RtlInitUnicodeString(&string, text);
    EXPECT(string.Length == 65532 && string.MaximumLength == 65534);
}
