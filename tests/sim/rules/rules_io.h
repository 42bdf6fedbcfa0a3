/*
 * rules_io.h - a driver with a device, whose routines do what a test wants. Included by the tests
 * of one area.
 */
#ifndef KDA_TESTS_RULES_IO_H
#define KDA_TESTS_RULES_IO_H

#include "rules.h"

/* A driver with a device whose dispatch routine does what a test wants. */
static PDRIVER_OBJECT driver;
static PDEVICE_OBJECT device;
static NTSTATUS (*on_request)(PIRP irp, PIO_STACK_LOCATION stack);
static void (*on_unload)(void);
static void (*on_entry)(void);
static NTSTATUS entry_status;
static unsigned unloads;
static struct {
    unsigned creates;
    unsigned cleanups;
    unsigned closes;
    unsigned shutdowns;
    KIRQL irql;
    HANDLE create_pid;
    HANDLE cleanup_pid;
    HANDLE close_pid;
    USHORT name_length;
    ULONG options;
    char order[16];
} seen;

static inline NTSTATUS finish(PIRP irp, NTSTATUS status, ULONG_PTR bytes)
{
    irp->IoStatus.Status = status;
    irp->IoStatus.Information = bytes;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return status;
}

static inline void note(char what)
{
    size_t used = strlen(seen.order);

    if (used + 1 < sizeof(seen.order))
        seen.order[used] = what;
}

static inline NTSTATUS dispatch(PDEVICE_OBJECT object, PIRP irp)
{
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);

    (void)object;
    seen.irql = KeGetCurrentIrql();
    switch (stack->MajorFunction) {
    case IRP_MJ_CREATE:
        seen.creates++;
        seen.create_pid = PsGetCurrentProcessId();
        seen.name_length = stack->FileObject->FileName.Length;
        seen.options = (ULONG)(uintptr_t)stack->Parameters.Others.Argument[1];
        note('C');
        break;
    case IRP_MJ_CLEANUP:
        seen.cleanups++;
        seen.cleanup_pid = PsGetCurrentProcessId();
        note('u');
        break;
    case IRP_MJ_CLOSE:
        seen.closes++;
        seen.close_pid = PsGetCurrentProcessId();
        note('c');
        break;
    case IRP_MJ_SHUTDOWN:
        seen.shutdowns++;
        break;
    default:
        break;
    }
    if (on_request)
        return on_request(irp, stack);
    return finish(irp, STATUS_SUCCESS, 0);
}

static inline VOID unload(PDRIVER_OBJECT object)
{
    UNICODE_STRING link = rules_string(u"\\??\\Rules");

    (void)object;
    unloads++;
    EXPECT(KeGetCurrentIrql() == PASSIVE_LEVEL && PsGetCurrentProcessId() == PID(4));
    if (on_unload)
        on_unload();
    IoDeleteSymbolicLink(&link);
    if (device)
        IoDeleteDevice(device);
}

static UNICODE_STRING kept_path;
static uint16_t first_unit;

static inline NTSTATUS entry(PDRIVER_OBJECT object, PUNICODE_STRING path)
{
    UNICODE_STRING name = rules_string(u"\\Device\\Rules");
    UNICODE_STRING link = rules_string(u"\\??\\Rules");

    EXPECT(KeGetCurrentIrql() == PASSIVE_LEVEL && PsGetCurrentProcessId() == PID(4));
    driver = fx.driver = object;
    kept_path = *path;
    first_unit = path->Buffer[0];
    object->DriverUnload = unload;
    for (int i = 0; i <= IRP_MJ_MAXIMUM_FUNCTION; i++)
        object->MajorFunction[i] = dispatch;
    if (!NT_SUCCESS(entry_status))
        return entry_status;
    EXPECT_STATUS(0, IoCreateDevice(object, 64, &name, FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN,
                                    FALSE, &device));
    device->Flags |= DO_BUFFERED_IO;
    EXPECT_STATUS(0, IoCreateSymbolicLink(&link, &name));
    if (on_entry)
        on_entry();
    return STATUS_SUCCESS;
}

static inline void boot(void)
{
    const struct sim_options options = {.hang_ms = 300};

    EXPECT(sim_boot(&options));
    EXPECT_STATUS(0, sim_driver_load(entry));
}

static inline struct sim_reader *open_device(void)
{
    struct sim_reader *reader = NULL;

    EXPECT_STATUS(0,
                  sim_reader_open(SIM_STR(u"\\??\\Rules"), SIM_CALLER_ADMIN, 0xC0000000u, &reader));
    return reader;
}

#endif
