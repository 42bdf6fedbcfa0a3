/*
 * test_sim_self.c - the simulator tells right from wrong.
 *
 * A kernel that forgives proves nothing about a driver, so each rule it enforces is broken here
 * once, in a child process that has to end with the right bug check.
 */
#include "breaks.h"

#include "wfp.h"

#define TAG 0x74736554u /* Test */

/* --- pool ------------------------------------------------------------------------------------ */

BREAKS(paged_pool_at_dispatch, "IRQL 2, at most 1")
{
    KIRQL old;
    (void)unused;
    load();
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    ExAllocatePoolWithTag(PagedPool, 16, TAG);
}

BREAKS(double_free, "a second time")
{
    void *block;
    (void)unused;
    load();
    block = ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG);
    ExFreePoolWithTag(block, TAG);
    ExFreePoolWithTag(block, TAG);
}

BREAKS(tag_mismatch, "was allocated with Test")
{
    (void)unused;
    load();
    ExFreePoolWithTag(ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG), TAG + 1);
}

BREAKS(write_behind_the_end, "written 1 bytes behind its end")
{
    volatile char *block;
    (void)unused;
    load();
    block = ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG);
    block[16] = 1;
    ExFreePoolWithTag((void *)(uintptr_t)block, TAG);
}

BREAKS(free_of_null, "frees NULL")
{
    (void)unused;
    load();
    ExFreePoolWithTag(NULL, TAG);
}

BREAKS(empty_block, "0 bytes")
{
    (void)unused;
    load();
    ExAllocatePoolWithTag(NonPagedPoolNx, 0, TAG);
}

BREAKS(leak, "1 things left after the unload")
{
    (void)unused;
    load();
    ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG);
    sim_driver_unload();
}

BREAKS(lookaside_list_kept, "left: lookaside list")
{
    static NPAGED_LOOKASIDE_LIST list;
    (void)unused;
    load();
    ExInitializeNPagedLookasideList(&list, NULL, NULL, 0, 64, TAG, 0);
    sim_driver_unload();
}

BREAKS(block_freed_with_list, "still holds a lookaside list")
{
    uint8_t *block;
    (void)unused;
    load();
    block = ExAllocatePoolWithTag(NonPagedPoolNx, 256, TAG);
    ExInitializeNPagedLookasideList((void *)(block + (64 - (uintptr_t)block % 64) % 64), NULL, NULL,
                                    0, 64, TAG, 0);
    ExFreePoolWithTag(block, TAG);
}

BREAKS(allocation_from_deleted_list, "no lookaside list")
{
    static NPAGED_LOOKASIDE_LIST list;
    (void)unused;
    load();
    ExInitializeNPagedLookasideList(&list, NULL, NULL, 0, 64, TAG, 0);
    ExDeleteNPagedLookasideList(&list);
    ExAllocateFromNPagedLookasideList(&list);
}

/* --- levels and locks ------------------------------------------------------------------------ */

BREAKS(wait_at_dispatch, "IRQL 2, at most 1")
{
    KEVENT event;
    KIRQL old;
    (void)unused;
    load();
    KeInitializeEvent(&event, NotificationEvent, TRUE);
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);
}

BREAKS(raise_downwards, "raises from 1 to 0")
{
    KIRQL old;
    (void)unused;
    load();
    KeRaiseIrql(APC_LEVEL, &old);
    KeRaiseIrql(PASSIVE_LEVEL, &old);
}

BREAKS(unlock_to_wrong_level, "restores IRQL 1, was taken at 0")
{
    KSPIN_LOCK lock;
    (void)unused;
    load();
    KeInitializeSpinLock(&lock);
    KeAcquireSpinLockRaiseToDpc(&lock);
    KeReleaseSpinLock(&lock, APC_LEVEL);
}

BREAKS(unlock_twice, "does not hold the lock")
{
    KSPIN_LOCK lock;
    KIRQL old;
    (void)unused;
    load();
    KeInitializeSpinLock(&lock);
    old = KeAcquireSpinLockRaiseToDpc(&lock);
    KeReleaseSpinLock(&lock, old);
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    KeReleaseSpinLock(&lock, old);
}

BREAKS(lock_twice, "already holds the lock")
{
    KSPIN_LOCK lock;
    (void)unused;
    load();
    KeInitializeSpinLock(&lock);
    KeAcquireSpinLockRaiseToDpc(&lock);
    KeAcquireSpinLockRaiseToDpc(&lock);
}

BREAKS(dpc_lock_at_passive, "called at IRQL 0")
{
    KSPIN_LOCK lock;
    (void)unused;
    load();
    KeInitializeSpinLock(&lock);
    KeAcquireSpinLockAtDpcLevel(&lock);
}

BREAKS(lower_with_lock, "lowers with a lock held")
{
    KSPIN_LOCK lock;
    (void)unused;
    load();
    KeInitializeSpinLock(&lock);
    KeAcquireSpinLockRaiseToDpc(&lock);
    KeLowerIrql(PASSIVE_LEVEL);
}

BREAKS(paged_code_at_dispatch, "paged code at IRQL 2")
{
    KIRQL old;
    (void)unused;
    load();
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    PAGED_CODE();
}

BREAKS(event_never_initialized, "no initialized dispatcher object")
{
    static KEVENT event;
    (void)unused;
    load();
    KeSetEvent(&event, 0, FALSE);
}

BREAKS(wait_without_end, "hang")
{
    KEVENT event;
    (void)unused;
    load();
    KeInitializeEvent(&event, NotificationEvent, FALSE);
    KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);
}

BREAKS(mutex_twice, "already holds the mutex")
{
    FAST_MUTEX mutex;
    (void)unused;
    load();
    ExInitializeFastMutex(&mutex);
    ExAcquireFastMutex(&mutex);
    ExAcquireFastMutex(&mutex);
}

BREAKS(rundown_released_too_often, "more often than acquired")
{
    EX_RUNDOWN_REF rundown;
    (void)unused;
    load();
    ExInitializeRundownProtection(&rundown);
    ExReleaseRundownProtection(&rundown);
}

BREAKS(rundown_never_released, "hang")
{
    EX_RUNDOWN_REF rundown;
    (void)unused;
    load();
    ExInitializeRundownProtection(&rundown);
    ExAcquireRundownProtection(&rundown);
    ExWaitForRundownProtectionRelease(&rundown);
}

/* --- what must work -------------------------------------------------------------------------- */

static void clean_cycle(void **state)
{
    (void)state;
    assert_true(sim_boot(NULL));
    for (int i = 0; i < 100; i++) {
        assert_int_equal(sim_driver_load(small_entry), STATUS_SUCCESS);
        assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
        assert_int_equal(sim_ledger_count(), 0);
    }
    sim_shutdown_machine();
}

static void timed_waits_end_with_the_clock(void **state)
{
    LARGE_INTEGER hour = {.QuadPart = -36000000000};
    LARGE_INTEGER now = {.QuadPart = 0};
    KEVENT event;

    (void)state;
    assert_true(sim_boot(NULL));
    assert_int_equal(sim_driver_load(small_entry), STATUS_SUCCESS);
    KeInitializeEvent(&event, SynchronizationEvent, FALSE);
    assert_int_equal(KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, &now),
                     STATUS_TIMEOUT);
    KeSetEvent(&event, 0, FALSE);
    assert_int_equal(KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, &hour),
                     STATUS_SUCCESS);
    /* A synchronization event lets one waiter go. */
    assert_int_equal(KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, &now),
                     STATUS_TIMEOUT);
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    sim_shutdown_machine();
}

static void clocks(void **state)
{
    const struct sim_options options = {.frequency = 3579545};
    uint64_t utc;
    uint64_t counter;

    (void)state;
    assert_true(sim_boot(&options));
    utc = sim_clock_utc();
    counter = sim_clock_counter();
    sim_clock_advance(10000000);
    assert_int_equal(sim_clock_utc() - utc, 10000000);
    assert_in_range(sim_clock_counter() - counter, 3579544, 3579546);
    sim_clock_correct(-50000000);
    assert_int_equal(utc + 10000000 - sim_clock_utc(), 50000000);
    sim_clock_set(utc); /* forward again from the corrected time */
    assert_int_equal(sim_clock_utc(), utc);
    sim_clock_set(utc - 1);
    assert_int_equal(sim_clock_utc(), utc);
    sim_clock_thread(utc + 77);
    assert_int_equal(sim_clock_utc(), utc + 77);
    sim_clock_thread(0);
    assert_int_equal(sim_clock_utc(), utc);
    sim_shutdown_machine();
}

static void faults_fire_once(void **state)
{
    void *first;
    void *second;

    (void)state;
    assert_true(sim_boot(NULL));
    assert_int_equal(sim_driver_load(small_entry), STATUS_SUCCESS);
    sim_fault_arm(2);
    first = ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG);
    assert_false(sim_fault_fired());
    second = ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG);
    assert_non_null(first);
    assert_null(second);
    assert_true(sim_fault_fired());
    assert_string_equal(sim_fault_name(), "ExAllocatePoolWithTag");
    second = ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG);
    assert_non_null(second);
    assert_int_equal(sim_fault_calls(), 3);
    sim_fault_arm(0);
    ExFreePoolWithTag(first, TAG);
    ExFreePoolWithTag(second, TAG);
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    sim_shutdown_machine();
}

/* Transactions of the filter engine: one at a time, and each is ended once. */
static void filter_transactions(void **state)
{
    FWPM_SESSION0 session = {.flags = FWPM_SESSION_FLAG_DYNAMIC};
    HANDLE engine;

    (void)state;
    assert_true(sim_boot(NULL));
    assert_int_equal(sim_driver_load(small_entry), STATUS_SUCCESS);
    assert_int_equal(FwpmEngineOpen0(NULL, RPC_C_AUTHN_WINNT, NULL, &session, &engine), 0);
    assert_int_equal((uint32_t)FwpmTransactionCommit0(engine), 0xC022000Du);
    assert_int_equal((uint32_t)FwpmTransactionAbort0(engine), 0xC022000Du);
    assert_int_equal(FwpmTransactionBegin0(engine, 0), 0);
    assert_int_equal((uint32_t)FwpmTransactionBegin0(engine, 0), 0xC022000Eu);
    assert_int_equal(FwpmTransactionCommit0(engine), 0);
    assert_int_equal((uint32_t)FwpmTransactionAbort0(engine), 0xC022000Du);
    assert_int_equal(FwpmTransactionBegin0(engine, 0), 0);
    sim_bfe_set(SIM_BFE_STOPPED); /* takes the session with it */
    assert_int_equal((uint32_t)FwpmTransactionCommit0(engine), 0xC0220010u);
    assert_int_equal((uint32_t)FwpmTransactionAbort0(engine), 0xC0220010u);
    assert_int_equal(FwpmEngineClose0(engine), 0);
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    sim_shutdown_machine();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paged_pool_at_dispatch),
        cmocka_unit_test(double_free),
        cmocka_unit_test(tag_mismatch),
        cmocka_unit_test(write_behind_the_end),
        cmocka_unit_test(free_of_null),
        cmocka_unit_test(empty_block),
        cmocka_unit_test(leak),
        cmocka_unit_test(lookaside_list_kept),
        cmocka_unit_test(block_freed_with_list),
        cmocka_unit_test(allocation_from_deleted_list),
        cmocka_unit_test(wait_at_dispatch),
        cmocka_unit_test(raise_downwards),
        cmocka_unit_test(unlock_to_wrong_level),
        cmocka_unit_test(unlock_twice),
        cmocka_unit_test(lock_twice),
        cmocka_unit_test(dpc_lock_at_passive),
        cmocka_unit_test(lower_with_lock),
        cmocka_unit_test(paged_code_at_dispatch),
        cmocka_unit_test(event_never_initialized),
        cmocka_unit_test(wait_without_end),
        cmocka_unit_test(mutex_twice),
        cmocka_unit_test(rundown_released_too_often),
        cmocka_unit_test(rundown_never_released),
        cmocka_unit_test(clean_cycle),
        cmocka_unit_test(timed_waits_end_with_the_clock),
        cmocka_unit_test(clocks),
        cmocka_unit_test(faults_fire_once),
        cmocka_unit_test(filter_transactions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
