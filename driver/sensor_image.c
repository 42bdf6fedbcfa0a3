/*
 * sensor_image.c - image.load: images of processes and drivers.
 *
 * The notification comes at PASSIVE_LEVEL, sometimes with all APCs disabled or inside the file
 * system: the name of the file object is asked for only where neither is so.
 */
#include "driver.h"

#define KDA_FILE_NAME_BYTES 1040u /* UNICODE_STRING and 512 characters */
#define KDA_FILE_NAME_MOST (sizeof(UNICODE_STRING) + 0x10000u)

typedef struct _KDA_IMAGE_SENSOR {
    KDA_RUNDOWN Running;
} KDA_IMAGE_SENSOR;

static KDA_IMAGE_SENSOR KdapSensor;

/* Name of the file an image comes from, of any length; freed by the caller. An unnamed one has an
 * empty name. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapFileName(PFILE_OBJECT file, OBJECT_NAME_INFORMATION **name)
{
    ULONG bytes = KDA_FILE_NAME_BYTES, returned = 0;
    NTSTATUS status = STATUS_UNSUCCESSFUL;

    for (ULONG tries = 0; tries < 2; tries++) {
        *name = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_SCRATCH);
        if (*name == NULL)
            return STATUS_INSUFFICIENT_RESOURCES;
        status = ObQueryNameString(file, *name, bytes, &returned);
        if (NT_SUCCESS(status) && (*name)->Name.Length != 0)
            return status;
        ExFreePoolWithTag(*name, KDA_TAG_SCRATCH);
        *name = NULL;
        if (NT_SUCCESS(status))
            return STATUS_OBJECT_NAME_NOT_FOUND;
        if (returned <= bytes || returned > KDA_FILE_NAME_MOST)
            break;
        bytes = returned;
    }
    return KdaCalled(__func__, "ObQueryNameString", status);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapTell(PCUNICODE_STRING module, enum kda_omit_reason reason, ULONG targetPid,
             const IMAGE_INFO *info, KDA_PROCESS *actor, enum kda_omit_reason unknown)
{
    struct kda_event_builder *builder;
    ULONG properties = info->Properties;
    KDA_RECORD record;

    if (!KdaRecordBegin(&record, KDA_KIND_IMAGE_LOAD,
                        KdaActorBytes(actor) + (module ? module->Length : 0u)))
        return;
    builder = &record.Builder;
    KdaRecordActor(&record, KdaPid(PsGetCurrentProcessId()), KdaPid(PsGetCurrentThreadId()), actor,
                   unknown);
    /* A driver is mapped into no process. */
    if (!(properties & KDA_IMAGE_SYSTEM_MODE))
        kda_event_set(builder, KDA_FIELD_IMAGE_TARGET_PID, targetPid);
    if (module != NULL)
        KdaRecordString(&record, KDA_FIELD_IMAGE_MODULE, module);
    else
        kda_event_omit(builder, KDA_FIELD_IMAGE_MODULE, reason);
    kda_event_set(builder, KDA_FIELD_IMAGE_BASE, (ULONG_PTR)info->ImageBase);
    kda_event_set(builder, KDA_FIELD_IMAGE_SIZE, info->ImageSize);
    kda_event_set(builder, KDA_FIELD_IMAGE_KERNEL, (properties & KDA_IMAGE_SYSTEM_MODE) != 0);
    kda_event_set(builder, KDA_FIELD_IMAGE_SIGNATURE_LEVEL, KDA_IMAGE_SIGNATURE_LEVEL(properties));
    kda_event_set(builder, KDA_FIELD_IMAGE_SIGNATURE_TYPE, KDA_IMAGE_SIGNATURE_TYPE(properties));
    kda_event_set(builder, KDA_FIELD_IMAGE_MAPPED_PARTIALLY,
                  (properties & KDA_IMAGE_PARTIAL_MAP) != 0);
    KdaRecordPush(&record);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapLoaded(PCUNICODE_STRING fullName, ULONG targetPid, const IMAGE_INFO *info)
{
    enum kda_omit_reason unknown, ignored;
    KDA_PROCESS *actor = KdaProcessKnow(KdaPid(PsGetCurrentProcessId()), &unknown);
    KDA_SUBJECT subject = {KDA_KIND_IMAGE_LOAD, KdaPid(PsGetCurrentProcessId()), actor, NULL, NULL};
    enum kda_omit_reason reason = KDA_OMIT_UNSUPPORTED;
    OBJECT_NAME_INFORMATION *own = NULL;

    if (fullName != NULL && fullName->Length != 0)
        subject.Module = fullName;
    if (subject.Module == NULL && (info->Properties & KDA_IMAGE_EXTENDED_INFO)) {
        const IMAGE_INFO_EX *extended =
            (const IMAGE_INFO_EX *)(const VOID *)((const UCHAR *)info -
                                                  FIELD_OFFSET(IMAGE_INFO_EX, ImageInfo));
        reason = extended->FileObject == NULL ? KDA_OMIT_FAILED : KDA_OMIT_IRQL;
        if (extended->FileObject != NULL && KdaMayAsk())
            reason = KdaOmitReason(KdapFileName(extended->FileObject, &own));
        if (own != NULL)
            subject.Module = &own->Name;
    }
    /* The process an image is mapped into is told before what is mapped. */
    if (targetPid != subject.Pid && targetPid != 0)
        KdaProcessRelease(KdaProcessKnow(targetPid, &ignored));
    if (KdaFilterPass(&subject))
        KdapTell(subject.Module, reason, targetPid, info, actor, unknown);
    if (own != NULL)
        ExFreePoolWithTag(own, KDA_TAG_SCRATCH);
    KdaProcessRelease(actor);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapNotify(PUNICODE_STRING fullName, HANDLE processId, PIMAGE_INFO info)
{
    if (!KdaRundownEnter(&KdapSensor.Running))
        return;
    if (KdaKindOn(KDA_KIND_IMAGE_LOAD))
        KdapLoaded(fullName, KdaPid(processId), info);
    KdaRundownLeave(&KdapSensor.Running);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapStart(KDA_DRIVER *driver, const CHAR **call)
{
    NTSTATUS status;

    PAGED_CODE();
    UNREFERENCED_PARAMETER(driver);
    status = KdaRundownStart(&KdapSensor.Running, call);
    if (!NT_SUCCESS(status))
        return status;
    *call = "PsSetLoadImageNotifyRoutine";
    status = PsSetLoadImageNotifyRoutine(KdapNotify);
    if (!NT_SUCCESS(status))
        KdaRundownFree(&KdapSensor.Running);
    return status;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_PAGED static VOID KdapStop(KDA_DRIVER *driver)
{
    NTSTATUS status;

    PAGED_CODE();
    status = KDA_CALL(PsRemoveLoadImageNotifyRoutine, (KdapNotify));
    KdaRundownStop(driver, &KdapSensor.Running, status);
}

const KDA_SENSOR KdaImageSensor = {KDA_SENSOR_IMAGE, KdapStart, KdapStop, NULL};
