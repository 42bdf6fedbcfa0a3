/*
 * driver.c - loading and unloading: the table below, in order and in reverse.
 */
#include "driver.h"

KDA_DRIVER *KdaDriver;

/* --- newer functions ------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static PVOID KdapFind(PCWSTR name)
{
    UNICODE_STRING string;

    RtlInitUnicodeString(&string, name);
    return MmGetSystemRoutineAddress(&string);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapOptionalStart(KDA_DRIVER *driver)
{
    KDA_OPTIONAL *optional = &driver->Optional;
    PVOID secure = KdapFind(KDA_W("IoCreateDeviceSecure"));

    if (secure == NULL)
        secure = KdapFind(KDA_W("WdmlibIoCreateDeviceSecure"));
    optional->CreateDeviceSecure = (KDA_IO_CREATE_DEVICE_SECURE)(ULONG_PTR)secure;
    optional->GetProcessStartKey =
        (KDA_PS_GET_PROCESS_START_KEY)(ULONG_PTR)KdapFind(KDA_W("PsGetProcessStartKey"));
    optional->GetProcessSignatureLevel = (KDA_PS_GET_PROCESS_SIGNATURE_LEVEL)(ULONG_PTR)KdapFind(
        KDA_W("PsGetProcessSignatureLevel"));
    optional->SetCreateProcessNotifyRoutineEx2 =
        (KDA_PS_SET_CREATE_PROCESS_NOTIFY_ROUTINE_EX2)(ULONG_PTR)KdapFind(
            KDA_W("PsSetCreateProcessNotifyRoutineEx2"));
    optional->SetCreateThreadNotifyRoutineEx =
        (KDA_PS_SET_CREATE_THREAD_NOTIFY_ROUTINE_EX)(ULONG_PTR)KdapFind(
            KDA_W("PsSetCreateThreadNotifyRoutineEx"));
    return STATUS_SUCCESS;
}

/* --- the queue ------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapQueueStart(KDA_DRIVER *driver)
{
    KDAMON_QUEUE_OPTIONS options;

    options.Shards = driver->Settings.RingShards;
    options.ShardBytes = driver->Settings.RingShardBytes;
    options.StallMicroseconds = 0;
    options.Time = KdaClockCounter;
    return KdaMonEventQueueInitialize(&options) ? STATUS_SUCCESS : STATUS_INSUFFICIENT_RESOURCES;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapQueueStop(KDA_DRIVER *driver)
{
    UNREFERENCED_PARAMETER(driver);
    KdaMonEventQueueDestroy();
}

/* --- sensors --------------------------------------------------------------------------------- */

/* Processes first, so that each is told before anything it does. */
static const KDA_SENSOR *const KdapSensors[] = {
    &KdaProcessSensor, &KdaThreadSensor, &KdaImageSensor, &KdaRegistrySensor, &KdaNetworkSensor,
};

/* The writer's thread ticks from before the sensors start until after they have stopped. */
static volatile LONG KdapStarted; /* bit of each sensor that has started */
static EX_RUNDOWN_REF KdapTicking;
static volatile LONG KdapTicksOn;

_Use_decl_annotations_ VOID KdaSensorsTick(VOID)
{
    if (!ReadAcquire(&KdapTicksOn) || !ExAcquireRundownProtection(&KdapTicking))
        return;
    for (ULONG i = 0; i < ARRAYSIZE(KdapSensors); i++) {
        if (KdapSensors[i]->Tick != NULL && ((ULONG)ReadAcquire(&KdapStarted) >> i & 1u))
            KdapSensors[i]->Tick();
    }
    ExReleaseRundownProtection(&KdapTicking);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStopSensors(KDA_DRIVER *driver)
{
    ULONG i = ARRAYSIZE(KdapSensors);

    PAGED_CODE();
    while (i-- != 0) {
        if (!((ULONG)ReadAcquire(&KdapStarted) >> i & 1u))
            continue;
        KdapSensors[i]->Stop(driver);
        InterlockedAnd(&KdapStarted, ~(1 << i));
        KdaSensorState(KdapSensors[i]->Number, KDA_SENSOR_OFF, __func__, NULL, STATUS_SUCCESS);
    }
}

/* A sensor that cannot start is off, and the log says so: what the others see is worth having. But
 * nothing is to be recorded without the processes that did it. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS KdapSensorsStart(KDA_DRIVER *driver)
{
    InterlockedExchange(&KdapStarted, 0);
    for (ULONG i = 0; i < ARRAYSIZE(KdapSensors); i++) {
        const KDA_SENSOR *sensor = KdapSensors[i];
        const CHAR *call = "";
        NTSTATUS status;
        KdaSensorState(sensor->Number, KDA_SENSOR_ARMED, __func__, NULL, STATUS_SUCCESS);
        status = sensor->Start(driver, &call);
        if (NT_SUCCESS(status)) {
            InterlockedOr(&KdapStarted, 1 << i);
            continue;
        }
        KdaCalled(__func__, call, status);
        KdaSensorState(sensor->Number, KDA_SENSOR_OFF, __func__, call, status);
        if (sensor->Number == KDA_SENSOR_PROCESS)
            return status;
    }
    InterlockedExchange(&KdapTicksOn, 1);
    return STATUS_SUCCESS;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapSensorsStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    InterlockedExchange(&KdapTicksOn, 0);
    ExWaitForRundownProtectionRelease(&KdapTicking);
    KdapStopSensors(driver);
}

/* --- start and stop -------------------------------------------------------------------------- */

typedef struct _KDA_STEP {
    NTSTATUS (*Start)(KDA_DRIVER *driver);
    VOID (*Stop)(KDA_DRIVER *driver);
} KDA_STEP;

static const KDA_STEP KdapSteps[] = {
    {KdaTroublesStart, NULL},
    {KdapOptionalStart, NULL},
    {KdaSettingsStart, KdaSettingsStop},
    {KdaClockStart, KdaClockStop},
    {KdapQueueStart, KdapQueueStop},
    {KdaFilterStart, KdaFilterStop},
    {KdaProcessCacheStart, KdaProcessCacheStop},
    {KdaRecordStart, KdaRecordStop},
    {KdaDeviceStart, KdaDeviceStop}, /* opens are refused */
    {KdaReadersStart, KdaReadersStop},
    {KdaDeviceServe, KdaDeviceEndServing}, /* requests in flight have ended */
    {KdaWriterStart, KdaWriterStop},       /* stop: drains, writes sensor.stop */
    {KdapSensorsStart, KdapSensorsStop},
    {KdaWriterBegin, NULL}, /* sensor.start */
    {KdaDeviceOpenForUse, KdaDeviceCloseForUse},
};

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID
    KdapStopSteps(KDA_DRIVER *driver, ULONG count)
{
    PAGED_CODE();
    while (count-- != 0) {
        if (KdapSteps[count].Stop != NULL)
            KdapSteps[count].Stop(driver);
    }
    ExFreePoolWithTag(driver, KDA_TAG_DRIVER);
    KdaDriver = NULL;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapUnload(PDRIVER_OBJECT driverObject)
{
    PAGED_CODE();
    UNREFERENCED_PARAMETER(driverObject);
    KdapStopSteps(KdaDriver, ARRAYSIZE(KdapSteps));
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS DriverEntry(PDRIVER_OBJECT driverObject,
                                                         PUNICODE_STRING registryPath)
{
    NTSTATUS status = STATUS_SUCCESS;
    KDA_DRIVER *driver;
    ULONG started = 0;

    ExInitializeRundownProtection(&KdapTicking);
    InterlockedExchange(&KdapTicksOn, 0);
    driver = ExAllocatePoolWithTag(NonPagedPoolNx, sizeof *driver, KDA_TAG_DRIVER);
    if (driver == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    RtlZeroMemory(driver, sizeof *driver);
    driver->DriverObject = driverObject;
    driver->RegistryPath = registryPath;
    KdaDriver = driver;
    while (started < ARRAYSIZE(KdapSteps)) {
        status = KdapSteps[started].Start(driver);
        if (!NT_SUCCESS(status))
            goto Exit;
        started++;
    }
    driver->RegistryPath = NULL;
    driverObject->DriverUnload = KdapUnload;
Exit:
    if (!NT_SUCCESS(status))
        KdapStopSteps(driver, started);
    return status;
}
