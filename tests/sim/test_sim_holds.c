/*
 * test_sim_holds.c - the simulator tells right from wrong: objects, callbacks, requests.
 *
 * As in test_sim_self.c, each rule is broken once, in a child process.
 */
#include "breaks.h"

/* --- objects --------------------------------------------------------------------------------- */

BREAKS(reference_kept, "left: 1 references to process")
{
    PEPROCESS process;
    (void)unused;
    load();
    PsLookupProcessByProcessId((HANDLE)4, &process);
    sim_driver_unload();
}

BREAKS(reference_given_back_twice, "more references given back")
{
    PEPROCESS process;
    (void)unused;
    load();
    PsLookupProcessByProcessId((HANDLE)4, &process);
    ObDereferenceObject(process);
    ObDereferenceObject(process);
}

BREAKS(lookup_at_dispatch, "IRQL 2, at most 1")
{
    PEPROCESS process;
    KIRQL old;
    (void)unused;
    load();
    KeRaiseIrql(DISPATCH_LEVEL, &old);
    PsLookupProcessByProcessId((HANDLE)4, &process);
}

BREAKS(handle_closed_twice, "no open handle")
{
    PEPROCESS process;
    HANDLE handle;
    (void)unused;
    load();
    PsLookupProcessByProcessId((HANDLE)4, &process);
    ObOpenObjectByPointer(process, OBJ_KERNEL_HANDLE, NULL, 0, NULL, KernelMode, &handle);
    ZwClose(handle);
    ZwClose(handle);
}

BREAKS(handle_of_the_process, "in the reach of the current process")
{
    PEPROCESS process;
    HANDLE handle;
    (void)unused;
    load();
    PsLookupProcessByProcessId((HANDLE)4, &process);
    ObOpenObjectByPointer(process, 0, NULL, 0, NULL, KernelMode, &handle);
}

BREAKS(file_at_apc, "IRQL 1, at most 0")
{
    IO_STATUS_BLOCK io;
    KIRQL old;
    (void)unused;
    load();
    KeRaiseIrql(APC_LEVEL, &old);
    ZwFlushBuffersFile(NULL, &io);
}

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reference_kept),        cmocka_unit_test(reference_given_back_twice),
        cmocka_unit_test(lookup_at_dispatch),    cmocka_unit_test(handle_closed_twice),
        cmocka_unit_test(handle_of_the_process), cmocka_unit_test(file_at_apc),
        cmocka_unit_test(callback_kept),         cmocka_unit_test(level_not_restored),
        cmocka_unit_test(lock_not_released),     cmocka_unit_test(callback_removes_itself),
        cmocka_unit_test(registry_at_dispatch),  cmocka_unit_test(use_after_unload),
        cmocka_unit_test(thread_kept),           cmocka_unit_test(request_not_completed),
        cmocka_unit_test(pending_not_marked),    cmocka_unit_test(request_completed_twice),
        cmocka_unit_test(too_many_bytes),        cmocka_unit_test(marked_but_not_pending),
        cmocka_unit_test(device_kept),           cmocka_unit_test(failed_load_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
