/*
 * self.c - what the log says of itself: the sensor.* records, and the log's identity.
 *
 * The account in these records is of all kinds, these lines included.
 */
#include "driver.h"

#define KDA_ID_TRIES 10u
#define KDA_ID_WAIT_MS 20u

#ifdef __aarch64__
#define KDA_BUILD_TEXT "kernel driver, ARM64"
#else
#define KDA_BUILD_TEXT "kernel driver, x64"
#endif

/* --- identity -------------------------------------------------------------------------------- */

/* A small value: its bytes are at information->Data. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static BOOLEAN
    KdapReadValue(HANDLE key, PCWSTR name, PVOID buffer, ULONG bytes)
{
    UNICODE_STRING string;
    ULONG returned;

    RtlInitUnicodeString(&string, name);
    return NT_SUCCESS(
        ZwQueryValueKey(key, &string, KeyValuePartialInformation, buffer, bytes, &returned));
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID KdapPreviousLog(KDA_DRIVER *driver)
{
    ULONG64 buffer[8];
    const KEY_VALUE_PARTIAL_INFORMATION *value = (const KEY_VALUE_PARTIAL_INFORMATION *)buffer;
    UNICODE_STRING name;
    NTSTATUS status;
    HANDLE key;

    status = KdaSettingsOpenKey(driver->RegistryPath, KEY_QUERY_VALUE | KEY_SET_VALUE, &key);
    if (status != STATUS_OBJECT_NAME_NOT_FOUND)
        KdaCalled(__func__, "ZwOpenKey", status);
    if (!NT_SUCCESS(status))
        return;
    if (KdapReadValue(key, KDA_W("LastLog"), buffer, sizeof buffer) && value->Type == REG_BINARY &&
        value->DataLength == sizeof driver->PreviousLog) {
        RtlCopyMemory(&driver->PreviousLog, value->Data, sizeof driver->PreviousLog);
        driver->HasPreviousLog = TRUE;
    }
    RtlInitUnicodeString(&name, KDA_W("LastLog"));
    KDA_CALL(ZwSetValueKey, (key, &name, 0, REG_BINARY, &driver->LogId, sizeof driver->LogId));
    ZwClose(key);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID KdapHost(KDA_DRIVER *driver)
{
    ULONG64 buffer[(sizeof driver->HostBuffer + 16) / 8];
    const KEY_VALUE_PARTIAL_INFORMATION *value = (const KEY_VALUE_PARTIAL_INFORMATION *)buffer;
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING name;
    HANDLE key;
    ULONG bytes;

    RtlInitUnicodeString(&name, KDA_W("\\Registry\\Machine\\SYSTEM\\CurrentControlSet\\Control\\"
                                      "ComputerName\\ComputerName"));
    InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL,
                               NULL);
    driver->Host.Length = 0;
    driver->Host.Buffer = driver->HostBuffer;
    driver->Host.MaximumLength = sizeof driver->HostBuffer;
    if (!NT_SUCCESS(KDA_CALL(ZwOpenKey, (&key, KEY_QUERY_VALUE, &attributes))))
        return;
    if (KdapReadValue(key, KDA_W("ComputerName"), buffer, sizeof buffer) && value->Type == REG_SZ &&
        value->DataLength <= sizeof driver->HostBuffer) {
        bytes = value->DataLength & ~1u;
        RtlCopyMemory(driver->HostBuffer, value->Data, bytes);
        while (bytes != 0 && driver->HostBuffer[bytes / sizeof(WCHAR) - 1] == 0)
            bytes -= (ULONG)sizeof(WCHAR);
        driver->Host.Length = (USHORT)bytes;
    }
    ZwClose(key);
}

/* Early in the boot the system has no ids to give yet (STATUS_RETRY). It is asked for a while; then
 * the id is made of what no other start has: the time, and the counter. Version and variant are
 * those of an id that is made of random bits. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID KdapMakeId(GUID *id)
{
    ULONG64 hash = 0x9E3779B97F4A7C15u, parts[2];
    ULONGLONG counter, utc;

    KdaClockPair(&counter, &utc);
    for (ULONG i = 0; i < 2; i++) {
        hash = (hash ^ utc) * 0xD6E8FEB86659FD93u;
        hash = (hash ^ hash >> 32 ^ counter) * 0xFF51AFD7ED558CCDu;
        parts[i] = hash ^ hash >> 29;
    }
    RtlCopyMemory(id, parts, sizeof *id);
    id->Data3 = (USHORT)((id->Data3 & 0x0FFFu) | 0x4000u);
    id->Data4[0] = (UCHAR)((id->Data4[0] & 0x3Fu) | 0x80u);
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID KdapLogId(GUID *id)
{
    LARGE_INTEGER wait;
    NTSTATUS status = STATUS_RETRY;

    wait.QuadPart = -(LONGLONG)KDA_ID_WAIT_MS * KDA_100NS_PER_MS;
    for (ULONG tries = 0; status == STATUS_RETRY && tries < KDA_ID_TRIES; tries++) {
        if (tries != 0)
            KeDelayExecutionThread(KernelMode, FALSE, &wait);
        status = KDA_CALL(ExUuidCreate, (id));
    }
    if (!NT_SUCCESS(status))
        KdapMakeId(id);
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaSelfIdentify(KDA_DRIVER *driver)
{
    KdapLogId(&driver->LogId);
    driver->HasPreviousLog = FALSE;
    KdapPreviousLog(driver);
    KdapHost(driver);
    return STATUS_SUCCESS;
}

/* --- records --------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static struct kda_event *KdapDone(
    struct kda_event_builder *builder)
{
    return kda_event_end(builder) != 0 ? builder->event : NULL;
}

_Use_decl_annotations_ struct kda_event *KdaSelfStart(PVOID buffer, SIZE_T bytes)
{
    struct kda_event_builder builder;

    kda_event_begin(&builder, buffer, bytes, KDA_KIND_SENSOR_START, KDA_SOURCE_DRIVER);
    kda_event_bytes(&builder, KDA_FIELD_START_LOG, &KdaDriver->LogId, sizeof(GUID), 0);
    kda_event_text(&builder, KDA_FIELD_START_VERSION, KDA_VERSION_TEXT);
    kda_event_text(&builder, KDA_FIELD_START_BUILD, KDA_BUILD_TEXT);
    if (KdaDriver->Host.Length != 0)
        kda_event_string(&builder, KDA_FIELD_START_HOST, KdaDriver->Host.Buffer,
                         KdaDriver->Host.Length / sizeof(WCHAR));
    if (KdaDriver->HasPreviousLog)
        kda_event_bytes(&builder, KDA_FIELD_START_PREVIOUS_LOG, &KdaDriver->PreviousLog,
                        sizeof(GUID), 0);
    KdaSensorsDescribe(&builder, KDA_FIELD_START_SENSORS);
    KdaSettingsDescribe(&KdaDriver->Settings, &builder);
    return KdapDone(&builder);
}

_Use_decl_annotations_ struct kda_event *KdaSelfFile(PVOID buffer, SIZE_T bytes, ULONGLONG nextId)
{
    struct kda_event_builder builder;

    kda_event_begin(&builder, buffer, bytes, KDA_KIND_SENSOR_FILE, KDA_SOURCE_DRIVER);
    kda_event_bytes(&builder, KDA_FIELD_FILE_LOG, &KdaDriver->LogId, sizeof(GUID), 0);
    kda_event_set(&builder, KDA_FIELD_FILE_NEXT_ID, nextId);
    return KdapDone(&builder);
}

_Use_decl_annotations_ struct kda_event *KdaSelfLoss(PVOID buffer, SIZE_T bytes,
                                                     const struct kda_ring_loss *loss,
                                                     enum kda_loss_reason reason, BOOLEAN reader)
{
    struct kda_event_builder builder;

    kda_event_begin(&builder, buffer, bytes, KDA_KIND_SENSOR_LOSS, KDA_SOURCE_DRIVER);
    kda_event_counts(&builder, KDA_FIELD_LOSS_LOST, loss->counts);
    kda_event_set(&builder, KDA_FIELD_LOSS_LOST_BYTES, loss->bytes);
    kda_event_set(&builder, KDA_FIELD_LOSS_FIRST_TIME, loss->first_time);
    kda_event_set(&builder, KDA_FIELD_LOSS_LAST_TIME, loss->last_time);
    kda_event_set(&builder, KDA_FIELD_LOSS_REASON, (uint64_t)reason);
    if (reader)
        kda_event_set(&builder, KDA_FIELD_LOSS_SCOPE, KDA_SCOPE_READER);
    return KdapDone(&builder);
}

_Use_decl_annotations_ struct kda_event *KdaSelfStatus(PVOID buffer, SIZE_T bytes, ULONG kind,
                                                       const KDA_ACCOUNT *account)
{
    struct kda_event_builder builder;

    kda_event_begin(&builder, buffer, bytes, kind, KDA_SOURCE_DRIVER);
    kda_event_counts(&builder, KDA_FIELD_STATUS_OFFERED, account->Offered);
    kda_event_counts(&builder, KDA_FIELD_STATUS_WRITTEN, account->Written);
    kda_event_counts(&builder, KDA_FIELD_STATUS_LOST, account->Lost);
    kda_event_counts(&builder, KDA_FIELD_STATUS_FILTERED, account->Filtered.Kinds);
    KdaTroublesDescribe(&builder);
    return KdapDone(&builder);
}

/* Rules are named by their text, in UTF-8: ASCII as it is, anything else as a question mark, which
 * is enough to find the rule in sensor.start. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapRuleCount(struct kda_event_builder *builder, PCUNICODE_STRING text, ULONGLONG count)
{
    CHAR name[128];
    ULONG units = text->Length / sizeof(WCHAR), i;

    for (i = 0; i < units && i + 1 < sizeof name; i++)
        name[i] = text->Buffer[i] >= ' ' && text->Buffer[i] < 0x7F ? (CHAR)text->Buffer[i] : '?';
    name[i] = '\0';
    kda_event_object_number(builder, name, KDA_TYPE_NUMBER, count);
}

_Use_decl_annotations_ struct kda_event *KdaSelfFiltered(PVOID buffer, SIZE_T bytes,
                                                         const KDA_FILTER_COUNTS *now,
                                                         const KDA_FILTER_COUNTS *before)
{
    struct kda_event_builder builder;
    uint64_t kinds[KDA_KIND_COUNT];
    BOOLEAN any = FALSE;

    for (ULONG i = 0; i < KDA_KIND_COUNT; i++) {
        kinds[i] = now->Kinds[i] - before->Kinds[i];
        any = any || kinds[i] != 0;
    }
    if (!any)
        return NULL;
    kda_event_begin(&builder, buffer, bytes, KDA_KIND_SENSOR_FILTERED, KDA_SOURCE_DRIVER);
    kda_event_counts(&builder, KDA_FIELD_FILTERED_FILTERED, kinds);
    kda_event_object_begin(&builder, KDA_FIELD_FILTERED_RULES);
    for (ULONG i = 0; i < KDA_MAX_RULES + 2; i++) {
        uint64_t count = now->Rules[i] - before->Rules[i];
        if (count == 0)
            continue;
        if (i < KdaDriver->Settings.RuleCount)
            KdapRuleCount(&builder, &KdaDriver->Settings.Rules[i].Text, count);
        else
            kda_event_object_number(&builder, i == KDA_MAX_RULES ? "rate" : "repeat",
                                    KDA_TYPE_NUMBER, count);
    }
    kda_event_object_end(&builder);
    return KdapDone(&builder);
}
