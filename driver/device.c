/*
 * device.c - `\Device\KDAMonitor`: who may open it, the control requests, reads, shutdown.
 *
 * Only SYSTEM and Administrators can open it: by IoCreateDeviceSecure where the kernel has it, else
 * by a descriptor that is set while there is no link and opens are refused. All routines are called
 * at PASSIVE_LEVEL.
 */
#include "driver.h"

static volatile LONG KdapAccepting;

static const PCWSTR KdapDeviceName = KDA_W("\\Device\\KDAMonitor");
static const PCWSTR KdapLinkName = KDA_W("\\DosDevices\\KDAMonitor");
/* An own class: settings of a class in the registry override the SDDL. */
static const GUID KdapClass = {
    0x5b0c6a30, 0x6f1e, 0x4c52, {0x9b, 0x3f, 0x0e, 0x6d, 0x3a, 0x51, 0x7c, 0x21}};
static const PCWSTR KdapSddl = KDA_W("D:P(A;;GA;;;SY)(A;;GA;;;BA)");

/* --- control requests ------------------------------------------------------------------------ */

/* The buffer holds what came in, and takes what goes out. */
typedef NTSTATUS KDA_CONTROL_HANDLER(PVOID buffer);

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapHead(struct kda_control *head, ULONG size)
{
    RtlZeroMemory(head, size);
    head->version = KDA_CONTROL_VERSION;
    head->size = size;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static NTSTATUS KdapVersion(PVOID buffer)
{
    struct kda_control_version *version = buffer;

    PAGED_CODE();
    KdapHead(&version->head, sizeof *version);
    version->schema = KDA_SCHEMA_VERSION;
    version->kind_count = KDA_KIND_COUNT;
    version->major = KDA_VERSION_MAJOR;
    version->minor = KDA_VERSION_MINOR;
    version->patch = KDA_VERSION_PATCH;
    return STATUS_SUCCESS;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapStatus(PVOID buffer)
{
    struct kda_control_status *status = buffer;

    KdapHead(&status->head, sizeof *status);
    KdaWriterStatus(status);
    return STATUS_SUCCESS;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapTroubles(PVOID buffer)
{
    struct kda_control_troubles *troubles = buffer;

    KdapHead(&troubles->head, sizeof *troubles);
    KdaTroubles(troubles);
    return STATUS_SUCCESS;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static NTSTATUS KdapKinds(PVOID buffer)
{
    struct kda_control_kinds *kinds = buffer;
    LONG before, after;

    PAGED_CODE();
    if ((kinds->enable | kinds->disable) & ~(uint64_t)KdaDriverKinds)
        return STATUS_INVALID_PARAMETER;
    do {
        before = ReadAcquire(&KdaDriver->Kinds);
        after = (LONG)(((ULONG)before | (ULONG)kinds->enable) & ~(ULONG)kinds->disable);
    } while (InterlockedCompareExchange(&KdaDriver->Kinds, after, before) != before);
    kinds->enable = (ULONG)after;
    kinds->disable = KdaDriverKinds & ~(ULONG)after;
    return STATUS_SUCCESS;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapFlush(PVOID buffer)
{
    UNREFERENCED_PARAMETER(buffer);
    return KdaWriterFlush();
}

typedef struct _KDA_CONTROL_ROW {
    ULONG Code;
    ULONG InBytes;
    ULONG OutBytes;
    KDA_CONTROL_HANDLER *Handler;
} KDA_CONTROL_ROW;

static const KDA_CONTROL_ROW KdapControls[] = {
    {KDA_IOCTL_VERSION, 0, sizeof(struct kda_control_version), KdapVersion},
    {KDA_IOCTL_STATUS, 0, sizeof(struct kda_control_status), KdapStatus},
    {KDA_IOCTL_KINDS, sizeof(struct kda_control_kinds), sizeof(struct kda_control_kinds),
     KdapKinds},
    {KDA_IOCTL_FLUSH, sizeof(struct kda_control), 0, KdapFlush},
    {KDA_IOCTL_TROUBLES, 0, sizeof(struct kda_control_troubles), KdapTroubles},
};

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static NTSTATUS KdapControl(PIRP irp, ULONG *returned)
{
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    const struct kda_control *head = irp->AssociatedIrp.SystemBuffer;
    const KDA_CONTROL_ROW *row = NULL;
    NTSTATUS status;

    PAGED_CODE();
    if (!ReadAcquire(&KdapAccepting)) /* what would answer is being stopped */
        return STATUS_DEVICE_NOT_READY;
    for (ULONG i = 0; i < ARRAYSIZE(KdapControls); i++) {
        if (KdapControls[i].Code == stack->Parameters.DeviceIoControl.IoControlCode)
            row = &KdapControls[i];
    }
    if (row == NULL)
        return STATUS_INVALID_DEVICE_REQUEST;
    if (stack->Parameters.DeviceIoControl.InputBufferLength != row->InBytes ||
        stack->Parameters.DeviceIoControl.OutputBufferLength != row->OutBytes)
        return STATUS_INVALID_BUFFER_SIZE;
    if (row->InBytes != 0 && (head->version != KDA_CONTROL_VERSION || head->size != row->InBytes))
        return STATUS_REVISION_MISMATCH;
    status = row->Handler(irp->AssociatedIrp.SystemBuffer);
    if (NT_SUCCESS(status))
        *returned = row->OutBytes;
    return status;
}

/* --- dispatch -------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static NTSTATUS KdapCreate(PIRP irp)
{
    PFILE_OBJECT file = IoGetCurrentIrpStackLocation(irp)->FileObject;

    PAGED_CODE();
    if (!ReadAcquire(&KdapAccepting))
        return STATUS_DEVICE_NOT_READY;
    /* There is nothing below the device. */
    return file->FileName.Length == 0 ? STATUS_SUCCESS : STATUS_OBJECT_NAME_NOT_FOUND;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapServe(PIRP irp)
{
    PIO_STACK_LOCATION stack = IoGetCurrentIrpStackLocation(irp);
    NTSTATUS status = STATUS_SUCCESS;
    ULONG returned = 0;

    switch (stack->MajorFunction) {
    case IRP_MJ_CREATE:
        status = KdapCreate(irp);
        break;
    case IRP_MJ_READ:
        return KdaReaderRead(irp);
    case IRP_MJ_DEVICE_CONTROL:
        status = KdapControl(irp, &returned);
        break;
    case IRP_MJ_CLEANUP:
        KdaReaderCleanup(stack->FileObject);
        break;
    case IRP_MJ_CLOSE:
        KdaReaderClose(stack->FileObject);
        break;
    case IRP_MJ_SHUTDOWN:
        status = KdaWriterShutdown();
        break;
    default:
        status = STATUS_INVALID_DEVICE_REQUEST;
        break;
    }
    irp->IoStatus.Status = status;
    irp->IoStatus.Information = returned;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return status;
}

/* Requests that are being served. A system that unloads a driver although handles of its device are
 * open closes them while the rest of the stop runs, or later: nothing is left to look at then. */
static EX_RUNDOWN_REF KdapServed;

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapDispatch(PDEVICE_OBJECT device, PIRP irp)
{
    UCHAR major = IoGetCurrentIrpStackLocation(irp)->MajorFunction;
    NTSTATUS status = STATUS_DEVICE_NOT_READY;

    UNREFERENCED_PARAMETER(device);
    /* A client's thread that is suspended in here would keep the stop waiting. */
    KeEnterCriticalRegion();
    if (ExAcquireRundownProtection(&KdapServed)) {
        status = KdapServe(irp);
        ExReleaseRundownProtection(&KdapServed);
        KeLeaveCriticalRegion();
        return status;
    }
    KeLeaveCriticalRegion();
    if (major == IRP_MJ_CLEANUP || major == IRP_MJ_CLOSE)
        status = STATUS_SUCCESS;
    else if (major == IRP_MJ_READ) /* as one that was parked: a reader has come to the end */
        status = STATUS_CANCELLED;
    irp->IoStatus.Status = status;
    irp->IoStatus.Information = 0;
    IoCompleteRequest(irp, IO_NO_INCREMENT);
    return status;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaDeviceServe(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    ExInitializeRundownProtection(&KdapServed);
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ VOID KdaDeviceEndServing(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    ExWaitForRundownProtectionRelease(&KdapServed);
}

/* --- start and stop -------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapSecure(PDEVICE_OBJECT device)
{
    HANDLE handle;
    NTSTATUS status = KDA_CALL(ObOpenObjectByPointer, (device, OBJ_KERNEL_HANDLE, NULL, WRITE_DAC,
                                                       NULL, KernelMode, &handle));

    if (!NT_SUCCESS(status))
        return status;
    status = ZwSetSecurityObject(handle, DACL_SECURITY_INFORMATION,
                                 (PVOID)(ULONG_PTR)KdaSecurityDescriptor);
    ZwClose(handle);
    return status;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaDeviceStart(KDA_DRIVER *driver)
{
    UNICODE_STRING name, sddl;
    NTSTATUS status;

    PAGED_CODE();
    InterlockedExchange(&KdapAccepting, 0);
    RtlInitUnicodeString(&name, KdapDeviceName);
    if (driver->Optional.CreateDeviceSecure != NULL) {
        RtlInitUnicodeString(&sddl, KdapSddl);
        status = driver->Optional.CreateDeviceSecure(driver->DriverObject, 0, &name,
                                                     FILE_DEVICE_UNKNOWN, FILE_DEVICE_SECURE_OPEN,
                                                     FALSE, &sddl, &KdapClass, &driver->Device);
    } else {
        status = IoCreateDevice(driver->DriverObject, 0, &name, FILE_DEVICE_UNKNOWN,
                                FILE_DEVICE_SECURE_OPEN, FALSE, &driver->Device);
        if (NT_SUCCESS(status)) {
            status = KdapSecure(driver->Device);
            if (!NT_SUCCESS(status))
                IoDeleteDevice(driver->Device);
        }
    }
    if (!NT_SUCCESS(status)) {
        driver->Device = NULL;
        return status;
    }
    driver->Device->Flags |= DO_BUFFERED_IO;
    for (ULONG i = 0; i <= IRP_MJ_MAXIMUM_FUNCTION; i++)
        driver->DriverObject->MajorFunction[i] = KdapDispatch;
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ KDA_PAGED VOID KdaDeviceStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    /* A callout that stays registered was registered with the device: it stays, too. What is still
     * asked of it is refused (KdapDispatch). */
    if (!KdaImageIsKept())
        IoDeleteDevice(driver->Device);
    driver->Device = NULL;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaDeviceOpenForUse(KDA_DRIVER *driver)
{
    UNICODE_STRING name, link;
    NTSTATUS status;

    PAGED_CODE();
    status = IoRegisterShutdownNotification(driver->Device);
    if (!NT_SUCCESS(status))
        return status;
    RtlInitUnicodeString(&name, KdapDeviceName);
    RtlInitUnicodeString(&link, KdapLinkName);
    InterlockedExchange(&KdapAccepting, 1);
    status = IoCreateSymbolicLink(&link, &name);
    if (!NT_SUCCESS(status)) {
        InterlockedExchange(&KdapAccepting, 0);
        IoUnregisterShutdownNotification(driver->Device);
    }
    return status;
}

_Use_decl_annotations_ KDA_PAGED VOID KdaDeviceCloseForUse(KDA_DRIVER *driver)
{
    UNICODE_STRING link;

    PAGED_CODE();
    RtlInitUnicodeString(&link, KdapLinkName);
    KDA_CALL(IoDeleteSymbolicLink, (&link));
    InterlockedExchange(&KdapAccepting, 0);
    IoUnregisterShutdownNotification(driver->Device);
}
