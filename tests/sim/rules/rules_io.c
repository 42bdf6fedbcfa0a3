/*
 * rules_io.c - devices, work items, load and unload.
 */
#include "rules_io.h"

/* --- load and unload ------------------------------------------------------------------------- */

OUTCOME_COLD("IO-001 IO-004 IO-013", load_and_unload)
{
    const struct sim_process user = {.pid = 100};

    boot();
    sim_process_existing(&user, NULL);
    EXPECT(sim_enter(100, 0)); /* whoever asks for the unload: `unload` looks where it runs */
    EXPECT_STATUS(0, sim_driver_unload());
    EXPECT(unloads == 1 && sim_ledger_count() == 0);
}

OUTCOME_COLD("IO-002", registry_path_is_lent)
{
    boot();
    EXPECT(first_unit == '\\');
    EXPECT(kept_path.Buffer[0] == 0xDDDD); /* its text has gone */
}

static NTSTATUS failing_entry(PDRIVER_OBJECT object, PUNICODE_STRING path)
{
    (void)path;
    object->DriverUnload = unload;
    ExAllocatePoolWithTag(NonPagedPoolNx, 16, TAG);
    return STATUS_UNSUCCESSFUL;
}

VIOLATION_COLD("IO-003", failed_entry_leaves_something)
{
    EXPECT(sim_boot(NULL));
    sim_driver_load(failing_entry);
}

OUTCOME_COLD("IO-003", failed_entry_is_not_unloaded)
{
    EXPECT(sim_boot(NULL));
    entry_status = STATUS_UNSUCCESSFUL;
    EXPECT_STATUS(0xC0000001, sim_driver_load(entry));
    EXPECT(unloads == 0 && !sim_driver_loaded());
}

OUTCOME_COLD("IO-005 IO-017", unload_waits_for_handles)
{
    struct sim_reader *reader;

    boot();
    reader = open_device();
    EXPECT_STATUS(0x103, sim_driver_unload());
    EXPECT(unloads == 0);
    sim_reader_close(reader);
    EXPECT(unloads == 1 && !sim_driver_loaded());
}

OUTCOME_COLD("IO-006 IO-023 IO-024 IO-026", shutdown)
{
    boot();
    EXPECT_STATUS(0, IoRegisterShutdownNotification(device));
    sim_set_irql(APC_LEVEL);
    sim_system_shutdown();
    sim_set_irql(PASSIVE_LEVEL);
    EXPECT(seen.shutdowns == 1 && seen.irql == APC_LEVEL && unloads == 0);
    sim_reader_close(open_device()); /* life goes on */
    EXPECT(seen.creates == 1);
}

static NTSTATUS write_at_shutdown(PIRP irp, PIO_STACK_LOCATION stack)
{
    UNICODE_STRING name = rules_string(u"\\??\\C:\\Windows\\Temp\\last.txt");
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    IO_STATUS_BLOCK io;
    HANDLE file;

    if (stack->MajorFunction == IRP_MJ_SHUTDOWN) {
        EXPECT_STATUS(0, ZwCreateFile(&file, FILE_APPEND_DATA | SYNCHRONIZE, &attributes, &io, NULL,
                                      0, 0, FILE_OPEN_IF, FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0));
        EXPECT_STATUS(0, ZwWriteFile(file, NULL, NULL, NULL, &io, "x", 1, NULL, NULL));
        ZwClose(file);
    }
    return finish(irp, STATUS_SUCCESS, 0);
}

OUTCOME_COLD("IO-023", files_at_shutdown)
{
    boot();
    on_request = write_at_shutdown;
    EXPECT_STATUS(0, IoRegisterShutdownNotification(device));
    sim_system_shutdown();
}

static void leak_link(void)
{
    UNICODE_STRING name = rules_string(u"\\??\\Left");
    UNICODE_STRING target = rules_string(u"\\Device\\Rules");

    IoCreateSymbolicLink(&name, &target);
}

VIOLATION_COLD("IO-007", link_left_behind)
{
    on_entry = leak_link;
    boot();
    sim_driver_unload();
}

static void forget_device(void)
{
    device = NULL;
}

VIOLATION_COLD("IO-013", device_left_behind)
{
    on_unload = forget_device;
    boot();
    sim_driver_unload();
}

/* --- devices --------------------------------------------------------------------------------- */

static NTSTATUS create(const uint16_t *text, ULONG type, ULONG characteristics)
{
    UNICODE_STRING name = rules_string(text);

    return IoCreateDevice(fx.driver, 32, &name, type, characteristics, FALSE, &device);
}

LEVEL("IO-008", APC_LEVEL, create(u"\\Device\\More", FILE_DEVICE_UNKNOWN, 0));
LEVEL_VOID("IO-015", APC_LEVEL, IoDeleteDevice(fx.device));

static UNICODE_STRING *link_name(void)
{
    static UNICODE_STRING name;

    name = rules_string(u"\\??\\Link");
    return &name;
}

LEVEL("IO-018", PASSIVE_LEVEL, IoCreateSymbolicLink(link_name(), link_name()));
LEVEL("IO-020", PASSIVE_LEVEL, IoDeleteSymbolicLink(link_name()));

static void register_shutdown(void)
{
    fx.driver->MajorFunction[IRP_MJ_SHUTDOWN] = dispatch;
    IoRegisterShutdownNotification(fx.device);
}

LEVEL_VOID("IO-022", PASSIVE_LEVEL, register_shutdown());

VIOLATION_FX("IO-025", unregister_above_passive)
{
    KIRQL old;

    register_shutdown();
    KeRaiseIrql(APC_LEVEL, &old);
    IoUnregisterShutdownNotification(fx.device);
}

VIOLATION_FX("IO-025", unregister_what_is_not_registered)
{
    IoUnregisterShutdownNotification(fx.device);
}

OUTCOME("IO-009 IO-012 IO-014", a_new_device)
{
    static const uint8_t zeros[32];

    EXPECT_STATUS(0, create(u"\\Device\\More", FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN));
    EXPECT(memcmp(device->DeviceExtension, zeros, 32) == 0 && device->StackSize == 1);
    /* Made after DriverEntry, so nobody clears it but the driver. */
    EXPECT(device->Flags & DO_DEVICE_INITIALIZING);
    EXPECT_STATUS(0xC0000035, create(u"\\Device\\More", FILE_DEVICE_UNKNOWN, 0));
}

OUTCOME_COLD("IO-014", initializing_is_cleared_after_the_entry)
{
    boot();
    EXPECT(!(device->Flags & DO_DEVICE_INITIALIZING));
}

VIOLATION_COLD("IO-010", device_open_to_everybody)
{
    struct sim_reader *reader;

    boot();
    sim_reader_open(SIM_STR(u"\\??\\Rules"), SIM_CALLER_USER, 0x80000000u, &reader);
}

VIOLATION("IO-011", type_and_characteristics_confused)
{
    create(u"\\Device\\More", FILE_DEVICE_SECURE_OPEN, FILE_DEVICE_UNKNOWN);
}

OUTCOME("IO-011", names_below_a_device)
{
    UNICODE_STRING name = rules_string(u"\\Device\\More");
    UNICODE_STRING sddl = rules_string(u"D:P(A;;GA;;;SY)");
    UNICODE_STRING link = rules_string(u"\\??\\More");
    struct sim_reader *reader;
    PDEVICE_OBJECT made;

    EXPECT_STATUS(0, IoCreateDeviceSecure(fx.driver, 0, &name, FILE_DEVICE_UNKNOWN,
                                          FILE_DEVICE_SECURE_OPEN, FALSE, &sddl, NULL, &made));
    made->Flags &= ~DO_DEVICE_INITIALIZING;
    IoCreateSymbolicLink(&link, &name);
    EXPECT_STATUS(0xC0000022, sim_reader_open(SIM_STR(u"\\??\\More\\below"), SIM_CALLER_USER,
                                              0x80000000u, &reader));
}

VIOLATION_FX("IO-016", device_deleted_twice)
{
    IoDeleteDevice(fx.device);
    IoDeleteDevice(fx.device);
}

OUTCOME_FX("IO-019 IO-021", links)
{
    UNICODE_STRING name = rules_string(u"\\??\\Link");
    UNICODE_STRING target = rules_string(u"\\Device\\Rules");

    EXPECT_STATUS(0xC0000034, IoDeleteSymbolicLink(&name));
    EXPECT_STATUS(0, IoCreateSymbolicLink(&name, &target));
    EXPECT_STATUS(0xC0000035, IoCreateSymbolicLink(&name, &target));
}

/* --- work items ------------------------------------------------------------------------------ */

static _Atomic unsigned worked;
static _Atomic bool may_end = true;

static VOID work(PDEVICE_OBJECT object, PVOID context)
{
    (void)object;
    EXPECT(KeGetCurrentIrql() == PASSIVE_LEVEL && PsGetCurrentProcessId() == PID(4));
    while (!may_end)
        usleep(1000);
    if (context)
        IoFreeWorkItem(context);
    worked++;
}

LEVEL("IO-066", DISPATCH_LEVEL, IoAllocateWorkItem(fx.device));
LEVEL_VOID("IO-067", DISPATCH_LEVEL, IoQueueWorkItem(fx.item, work, DelayedWorkQueue, NULL));
LEVEL_VOID("IO-071", DISPATCH_LEVEL, IoFreeWorkItem(fx.item));

OUTCOME_FX("IO-066 IO-069 IO-070 IO-072 IO-073", work_items)
{
    sim_fault_arm(1);
    EXPECT(!IoAllocateWorkItem(fx.device));
    may_end = false;
    IoQueueWorkItem(fx.item, work, DelayedWorkQueue, fx.item); /* frees itself */
    IoDeleteDevice(fx.device); /* stays until the routine has returned */
    EXPECT(fx.device->StackSize == 1);
    may_end = true;
    sim_settle();
    EXPECT(worked == 1);
}

VIOLATION_FX("IO-068", work_in_another_queue)
{
    IoQueueWorkItem(fx.item, work, 0, NULL);
}

static PIO_WORKITEM fill_workers(void)
{
    may_end = false;
    for (int i = 0; i < 2; i++) /* as many as there are threads */
        IoQueueWorkItem(IoAllocateWorkItem(fx.device), work, DelayedWorkQueue, NULL);
    usleep(50000);
    IoQueueWorkItem(fx.item, work, DelayedWorkQueue, NULL);
    return fx.item;
}

VIOLATION_FX("IO-069", queued_twice)
{
    IoQueueWorkItem(fill_workers(), work, DelayedWorkQueue, NULL);
}

VIOLATION_FX("IO-072", freed_while_queued)
{
    IoFreeWorkItem(fill_workers());
}

VIOLATION_FX("IO-070", unload_before_the_work)
{
    fill_workers();
    sim_driver_unload();
}
