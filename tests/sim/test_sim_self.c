/*
 * test_sim_self.c - the simulator tells right from wrong: callbacks, requests; and what must work.
 * As in test_sim_rules.c, each rule is broken once in a child process.
 */
#include "breaks.h"

/* --- callbacks ------------------------------------------------------------------------------- */

static VOID on_thread(HANDLE pid, HANDLE tid, BOOLEAN create)
{
    (void)pid;
    (void)tid;
    (void)create;
}

BREAKS(callback_kept, "left: callback")
{
    (void)unused;
    load();
    PsSetCreateThreadNotifyRoutine(on_thread);
    sim_driver_unload();
}

static VOID on_thread_raising(HANDLE pid, HANDLE tid, BOOLEAN create)
{
    KIRQL old;

    on_thread(pid, tid, create);
    KeRaiseIrql(APC_LEVEL, &old);
}

BREAKS(level_not_restored, "returns at IRQL 1, was called at 0")
{
    const struct sim_thread thread = {.pid = 4};
    (void)unused;
    load();
    PsSetCreateThreadNotifyRoutine(on_thread_raising);
    sim_thread_create(&thread, NULL);
}

static KSPIN_LOCK kept_lock;

static VOID on_thread_locking(HANDLE pid, HANDLE tid, BOOLEAN create)
{
    on_thread(pid, tid, create);
    KeAcquireSpinLockRaiseToDpc(&kept_lock);
}

BREAKS(lock_not_released, "returns with 1 locks held")
{
    const struct sim_thread thread = {.pid = 4};
    (void)unused;
    load();
    KeInitializeSpinLock(&kept_lock);
    PsSetCreateThreadNotifyRoutine(on_thread_locking);
    sim_thread_create(&thread, NULL);
}

static VOID on_thread_removing(HANDLE pid, HANDLE tid, BOOLEAN create)
{
    on_thread(pid, tid, create);
    PsRemoveCreateThreadNotifyRoutine(on_thread_removing);
}

BREAKS(callback_removes_itself, "removes itself")
{
    const struct sim_thread thread = {.pid = 4};
    (void)unused;
    load();
    PsSetCreateThreadNotifyRoutine(on_thread_removing);
    sim_thread_create(&thread, NULL);
}

static NTSTATUS on_registry(PVOID context, PVOID class_, PVOID information)
{
    (void)context;
    (void)class_;
    (void)information;
    return STATUS_SUCCESS;
}

BREAKS(registry_at_dispatch, "it never comes above 1")
{
    const struct sim_registry op = {.key = SIM_STR(u"\\REGISTRY\\MACHINE\\Test")};
    UNICODE_STRING altitude;
    LARGE_INTEGER cookie;
    (void)unused;
    load();
    RtlInitUnicodeString(&altitude, u"385300");
    CmRegisterCallbackEx(on_registry, &altitude, loaded_driver, NULL, &cookie, NULL);
    sim_set_irql(DISPATCH_LEVEL);
    sim_registry_create_key(&op);
}

BREAKS(use_after_unload, "while no driver is loaded")
{
    (void)unused;
    load();
    sim_driver_unload();
    KeGetCurrentIrql();
}

static VOID endless(PVOID context)
{
    KEVENT event;

    (void)context;
    KeInitializeEvent(&event, NotificationEvent, FALSE);
    KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);
}

BREAKS(thread_kept, "left: thread")
{
    OBJECT_ATTRIBUTES attributes;
    HANDLE thread;
    (void)unused;
    load();
    InitializeObjectAttributes(&attributes, NULL, OBJ_KERNEL_HANDLE, NULL, NULL);
    PsCreateSystemThread(&thread, THREAD_ALL_ACCESS, &attributes, NULL, NULL, endless, NULL);
    ZwClose(thread);
    sim_driver_unload();
}

/* --- requests -------------------------------------------------------------------------------- */

static int request_mistake;

static NTSTATUS wrong_dispatch(PDEVICE_OBJECT device, PIRP irp)
{
    (void)device;
    irp->IoStatus.Status = STATUS_SUCCESS;
    irp->IoStatus.Information = 0;
    switch (IoGetCurrentIrpStackLocation(irp)->MajorFunction == IRP_MJ_READ ? request_mistake : 0) {
    case 1:
        return STATUS_SUCCESS; /* not completed */
    case 2:
        return STATUS_PENDING; /* not marked */
    case 3:
        IoCompleteRequest(irp, IO_NO_INCREMENT);
        IoCompleteRequest(irp, IO_NO_INCREMENT);
        return STATUS_SUCCESS;
    case 4:
        irp->IoStatus.Information = 1000; /* more than the buffer has */
        break;
    case 5:
        IoMarkIrpPending(irp);
        IoCompleteRequest(irp, IO_NO_INCREMENT);
        return STATUS_SUCCESS;
    default:
        break;
    }
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return STATUS_SUCCESS;
}

static NTSTATUS device_entry(PDRIVER_OBJECT driver, PUNICODE_STRING path)
{
    UNICODE_STRING name;
    PDEVICE_OBJECT device;

    (void)path;
    RtlInitUnicodeString(&name, u"\\Device\\Small");
    for (unsigned i = 0; i <= IRP_MJ_MAXIMUM_FUNCTION; i++)
        driver->MajorFunction[i] = wrong_dispatch;
    driver->DriverUnload = small_unload;
    return IoCreateDevice(driver, 0, &name, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN, FALSE,
                          &device);
}

static void read_once(int mistake)
{
    const struct sim_options options = {.hang_ms = 300};
    struct sim_reader *reader;
    char buffer[16];
    size_t got;

    request_mistake = mistake;
    if (!sim_boot(&options) || sim_driver_load(device_entry) != STATUS_SUCCESS ||
        sim_reader_open(SIM_STR(u"\\Device\\Small"), SIM_CALLER_ADMIN, 1, &reader) !=
            STATUS_SUCCESS)
        abort();
    sim_reader_read_wait(reader, buffer, sizeof(buffer), &got);
}

BREAKS(request_not_completed, "without having completed the IRP")
{
    (void)unused;
    read_once(1);
}

BREAKS(pending_not_marked, "that is not marked pending")
{
    (void)unused;
    read_once(2);
}

BREAKS(request_completed_twice, "or one that is completed")
{
    (void)unused;
    read_once(3);
}

BREAKS(too_many_bytes, "1000 bytes for a buffer of 16")
{
    (void)unused;
    read_once(4);
}

BREAKS(marked_but_not_pending, "that is marked pending")
{
    (void)unused;
    read_once(5);
}

BREAKS(device_kept, "left: device")
{
    (void)unused;
    if (!sim_boot(NULL) || sim_driver_load(device_entry) != STATUS_SUCCESS)
        abort();
    sim_driver_unload();
}

static NTSTATUS failing_entry(PDRIVER_OBJECT driver, PUNICODE_STRING path)
{
    device_entry(driver, path);
    return STATUS_UNSUCCESSFUL;
}

BREAKS(failed_load_leaves, "things left after a load that failed")
{
    (void)unused;
    if (!sim_boot(NULL))
        abort();
    sim_driver_load(failing_entry);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callback_kept),
        cmocka_unit_test(level_not_restored),
        cmocka_unit_test(lock_not_released),
        cmocka_unit_test(callback_removes_itself),
        cmocka_unit_test(registry_at_dispatch),
        cmocka_unit_test(use_after_unload),
        cmocka_unit_test(thread_kept),
        cmocka_unit_test(request_not_completed),
        cmocka_unit_test(pending_not_marked),
        cmocka_unit_test(request_completed_twice),
        cmocka_unit_test(too_many_bytes),
        cmocka_unit_test(marked_but_not_pending),
        cmocka_unit_test(device_kept),
        cmocka_unit_test(failed_load_leaves),
        cmocka_unit_test(clean_cycle),
        cmocka_unit_test(timed_waits_end_with_the_clock),
        cmocka_unit_test(clocks),
        cmocka_unit_test(faults_fire_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
