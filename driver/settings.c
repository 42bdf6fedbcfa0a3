/*
 * settings.c - the values below `Parameters` become validated settings. A wrong value is replaced
 * by its default and named in sensor.start; nothing in the registry can keep the driver from
 * starting.
 */
#include "driver.h"

#define KDA_VALUE_MAX_BYTES 65536u
#define KDA_DEFAULT_DIRECTORY KDA_W("\\SystemRoot\\KDAMonitor")

/* Numbers (REG_DWORD). */
typedef struct _KDA_NUMBER {
    PCWSTR Name;
    const CHAR *Text;
    ULONG Offset;
    ULONG Least;
    ULONG Most;
    ULONG Default;
    BOOLEAN PowerOfTwo; /* or 0 */
} KDA_NUMBER;

#define N(name, least, most, value, power)                                                         \
    {                                                                                              \
        KDA_W(#name), #name, FIELD_OFFSET(KDA_SETTINGS, name), least, most, value, power           \
    }
static const KDA_NUMBER KdapNumbers[] = {
    N(RecordEverything, 0, 1, 0, FALSE),
    N(RingShards, 0, KDA_RING_MAX_SHARDS, 0, TRUE),
    N(RingShardBytes, KDA_RING_MIN_SHARD_BYTES, KDA_RING_MAX_SHARD_BYTES,
      KDA_RING_DEFAULT_SHARD_BYTES, TRUE),
    N(FileMegabytes, 1, 65536, 256, FALSE),
    N(FileCount, 1, 9999, 16, FALSE),
    N(IdleMilliseconds, 10, 1000, 1000, FALSE),
    N(FlushMilliseconds, 0, 3600000, 5000, FALSE),
    N(ProcessAtOnce, 0, 1, 0, FALSE),
    N(DataBytes, 0, KDA_DATA_MAX_BYTES, KDA_DATA_DEFAULT_BYTES, FALSE),
    N(KeyOpens, 0, 1, 0, FALSE),
    N(StatusSeconds, 1, 86400, 60, FALSE),
    N(RepeatMilliseconds, 0, 3600000, 0, FALSE),
    N(Readers, 0, 8, 8, FALSE),
    N(ReaderBytes, 65536, 16777216, 1048576, FALSE),
};
#undef N

/* Those in the table, Kinds, LogDirectory, Rules, Rates, OldDataKeys, and the key itself. */
C_ASSERT(ARRAYSIZE(KdapNumbers) + 6 <= KDA_MAX_REJECTED);

#define R(text) KDA_W(text),
static const PCWSTR KdapDefaultRules[] = {KDA_SETTINGS_DEFAULT_RULES(R)};
#undef R
static const PCWSTR KdapDefaultRates[] = {
    KDA_W("kind=registry.* rate=2000 burst=20000"),
    KDA_W("kind=image.load rate=1000 burst=5000"),
};

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID KdapSkip(KDA_TEXT *text, SIZE_T units)
{
    text->At += units;
    text->Count -= units;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID
    KdapSetString(UNICODE_STRING *string, const KDA_TEXT *text)
{
    string->Buffer = (PWSTR)(ULONG_PTR)text->At;
    string->Length = string->MaximumLength = (USHORT)(text->Count * sizeof(WCHAR));
}

typedef struct _KDA_BLOCK {
    struct _KDA_BLOCK *Next;
    ULONG64 Data[1];
} KDA_BLOCK;

/* Non-paged and kept until the settings are freed: rules are looked at by callbacks. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static PVOID
    KdapKeep(KDA_SETTINGS *settings, SIZE_T bytes)
{
    KDA_BLOCK *block = ExAllocatePoolWithTag(NonPagedPoolNx, FIELD_OFFSET(KDA_BLOCK, Data) + bytes,
                                             KDA_TAG_SETTINGS);

    if (block == NULL)
        return NULL;
    block->Next = settings->Blocks;
    settings->Blocks = block;
    RtlZeroMemory(block->Data, bytes);
    return block->Data;
}

/* A setting is named once, with its first problem: names of an object are not repeated, and there
 * is room for all settings. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID
    KdapRejectEntry(KDA_SETTINGS *settings, const CHAR *name, ULONG entry, const CHAR *why)
{
    KDA_REJECTED *rejected = settings->Rejected;
    ULONG i, at;

    for (at = 0; at < settings->RejectedCount; at++, rejected++) {
        for (i = 0; name[i] != '\0' && name[i] == rejected->Name[i]; i++)
            ;
        if (name[i] == rejected->Name[i])
            return;
    }
    if (at == KDA_MAX_REJECTED)
        return;
    settings->RejectedCount++;
    for (i = 0; name[i] != '\0' && i + 1 < KDA_SETTING_NAME_MAX; i++)
        rejected->Name[i] = name[i];
    rejected->Name[i] = '\0';
    rejected->Entry = entry;
    rejected->Why = why;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID
    KdapReject(KDA_SETTINGS *settings, const CHAR *name, const CHAR *why)
{
    KdapRejectEntry(settings, name, 0, why);
}

/* One value, in the caller's buffer of KDA_VALUE_MAX_BYTES. NULL: there is none, or it was
 * rejected. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE
    static const KEY_VALUE_PARTIAL_INFORMATION *KdapValue(KDA_SETTINGS *settings, HANDLE key,
                                                          PCWSTR name, const CHAR *text,
                                                          PVOID buffer)
{
    UNICODE_STRING string;
    ULONG returned;
    NTSTATUS status;

    if (key == NULL)
        return NULL;
    RtlInitUnicodeString(&string, name);
    status = ZwQueryValueKey(key, &string, KeyValuePartialInformation, buffer, KDA_VALUE_MAX_BYTES,
                             &returned);
    if (NT_SUCCESS(status))
        return buffer;
    if (status == STATUS_BUFFER_OVERFLOW || status == STATUS_BUFFER_TOO_SMALL)
        KdapReject(settings, text, "too long");
    else if (status != STATUS_OBJECT_NAME_NOT_FOUND)
        KdapReject(settings, text, "cannot be read");
    return NULL;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static VOID
    KdapReadNumbers(KDA_SETTINGS *settings, HANDLE key, PVOID buffer)
{
    for (ULONG i = 0; i < ARRAYSIZE(KdapNumbers); i++) {
        const KDA_NUMBER *number = &KdapNumbers[i];
        ULONG *field = (ULONG *)(PVOID)((PUCHAR)settings + number->Offset);
        const KEY_VALUE_PARTIAL_INFORMATION *value;
        ULONG read;

        *field = number->Default;
        value = KdapValue(settings, key, number->Name, number->Text, buffer);
        if (value == NULL)
            continue;
        if (value->Type != REG_DWORD || value->DataLength != sizeof read) {
            KdapReject(settings, number->Text, "no REG_DWORD");
            continue;
        }
        RtlCopyMemory(&read, value->Data, sizeof read);
        if (read < number->Least || read > number->Most)
            KdapReject(settings, number->Text, "out of range");
        else if (number->PowerOfTwo && (read & (read - 1)) != 0)
            KdapReject(settings, number->Text, "no power of two");
        else
            *field = read;
    }
}

/* Copies the texts of a REG_MULTI_SZ or REG_SZ; FALSE if there are none. An own NUL is put behind
 * them, whatever the value ends with. */
_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static BOOLEAN
    KdapTexts(KDA_SETTINGS *settings, HANDLE key, PCWSTR name, const CHAR *text, PVOID buffer,
              KDA_TEXT *texts, NTSTATUS *status)
{
    const KEY_VALUE_PARTIAL_INFORMATION *value = KdapValue(settings, key, name, text, buffer);
    WCHAR *copy;

    *status = STATUS_SUCCESS;
    if (value == NULL)
        return FALSE;
    if ((value->Type != REG_MULTI_SZ && value->Type != REG_SZ) ||
        value->DataLength % sizeof(WCHAR) != 0) {
        KdapReject(settings, text, "neither REG_MULTI_SZ nor REG_SZ");
        return FALSE;
    }
    copy = KdapKeep(settings, value->DataLength + sizeof(WCHAR));
    if (copy == NULL) {
        *status = STATUS_INSUFFICIENT_RESOURCES;
        return FALSE;
    }
    RtlCopyMemory(copy, value->Data, value->DataLength);
    texts->At = copy;
    texts->Count = value->DataLength / sizeof(WCHAR);
    return TRUE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static BOOLEAN
    KdapNextText(KDA_TEXT *rest, KDA_TEXT *text)
{
    while (rest->Count != 0 && *rest->At == 0)
        KdapSkip(rest, 1);
    text->At = rest->At;
    text->Count = 0;
    while (text->Count < rest->Count && rest->At[text->Count] != 0)
        text->Count++;
    KdapSkip(rest, text->Count);
    return text->Count != 0;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static KDA_TEXT KdapLiteral(PCWSTR literal)
{
    KDA_TEXT text = {literal, 0};

    while (literal[text.Count] != 0)
        text.Count++;
    return text;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static BOOLEAN
    KdapAppendRule(KDA_SETTINGS *settings, const KDA_TEXT *text, ULONG entry)
{
    const CHAR *why = "too many";

    if (settings->RuleCount < KDA_MAX_RULES &&
        KdaParseRule(text->At, text->Count, &settings->Rules[settings->RuleCount], &why)) {
        settings->RuleCount++;
        return TRUE;
    }
    KdapRejectEntry(settings, "Rules", entry, why);
    return FALSE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static BOOLEAN
    KdapAppendRate(KDA_SETTINGS *settings, const KDA_TEXT *text, ULONG entry)
{
    const CHAR *why = "too many";

    if (settings->RateCount < KDA_MAX_RATES &&
        KdaParseRate(text->At, text->Count, &settings->Rates[settings->RateCount], &why)) {
        settings->RateCount++;
        return TRUE;
    }
    KdapRejectEntry(settings, "Rates", entry, why);
    return FALSE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static BOOLEAN
    KdapAppendPrefix(KDA_SETTINGS *settings, const KDA_TEXT *text, ULONG entry)
{
    const CHAR *why = "too many";

    if (text->Count > KDA_STRING_MAX_UNITS)
        why = "longer than a string can be";
    if (text->Count <= KDA_STRING_MAX_UNITS && settings->PrefixCount < KDA_MAX_PREFIXES) {
        KdapSetString(&settings->OldDataKeys[settings->PrefixCount++], text);
        return TRUE;
    }
    KdapRejectEntry(settings, "OldDataKeys", entry, why);
    return FALSE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapReadLists(KDA_SETTINGS *settings, HANDLE key, PVOID buffer)
{
    static const struct {
        PCWSTR Name;
        const CHAR *Text;
        BOOLEAN (*Add)(KDA_SETTINGS *settings, const KDA_TEXT *text, ULONG entry);
        const PCWSTR *Defaults;
        ULONG DefaultCount;
    } lists[] = {
        {KDA_W("Rules"), "Rules", KdapAppendRule, KdapDefaultRules, ARRAYSIZE(KdapDefaultRules)},
        {KDA_W("Rates"), "Rates", KdapAppendRate, KdapDefaultRates, ARRAYSIZE(KdapDefaultRates)},
        {KDA_W("OldDataKeys"), "OldDataKeys", KdapAppendPrefix, NULL, 0},
    };
    NTSTATUS status;

    settings->Rules = KdapKeep(settings, KDA_MAX_RULES * sizeof(KDA_RULE));
    if (settings->Rules == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    for (ULONG i = 0; i < ARRAYSIZE(lists); i++) {
        KDA_TEXT rest, text;
        BOOLEAN there =
            KdapTexts(settings, key, lists[i].Name, lists[i].Text, buffer, &rest, &status);
        ULONG entries = 0, right = 0;
        while (there && KdapNextText(&rest, &text)) {
            if (lists[i].Add(settings, &text, ++entries))
                right++;
        }
        if (!NT_SUCCESS(status))
            return status;
        /* An empty list is an answer: no rules. One in which nothing is right is none. */
        if (there && (entries == 0 || right != 0))
            continue;
        for (ULONG j = 0; j < lists[i].DefaultCount; j++) {
            text = KdapLiteral(lists[i].Defaults[j]);
            lists[i].Add(settings, &text, 0);
        }
    }
    return STATUS_SUCCESS;
}

C_ASSERT(KDA_MAX_DIRECTORY == 1024); /* as it says below */

_IRQL_requires_max_(PASSIVE_LEVEL) KDA_INITCODE static NTSTATUS
    KdapReadTexts(KDA_SETTINGS *settings, HANDLE key, PVOID buffer)
{
    KDA_TEXT rest, text;
    NTSTATUS status;
    ULONG kinds;

    settings->Kinds = KDA_SETTINGS_DEFAULT_KINDS;
    if (KdapTexts(settings, key, KDA_W("Kinds"), "Kinds", buffer, &rest, &status)) {
        ULONG all = 0;
        BOOLEAN understood = TRUE;
        for (ULONG entry = 1; KdapNextText(&rest, &text); entry++) {
            if (KdaParseKinds(text.At, text.Count, &kinds)) {
                all |= kinds;
            } else {
                understood = FALSE;
                KdapRejectEntry(settings, "Kinds", entry, "unknown kind");
            }
        }
        /* An empty list is an answer: all were switched off. One of misspelt names is none. */
        if (all != 0 || understood)
            settings->Kinds = all;
    }
    if (!NT_SUCCESS(status))
        return status;
    text = KdapLiteral(KDA_DEFAULT_DIRECTORY);
    KdapSetString(&settings->Directory, &text);
    if (KdapTexts(settings, key, KDA_W("LogDirectory"), "LogDirectory", buffer, &rest, &status)) {
        BOOLEAN there = KdapNextText(&rest, &text);
        while (there && text.Count > 1 && text.At[text.Count - 1] == '\\')
            text.Count--;
        if (!there || text.At[0] != '\\' || text.Count == 1)
            KdapReject(settings, "LogDirectory", "no absolute NT path");
        else if (text.Count > KDA_MAX_DIRECTORY)
            KdapReject(settings, "LogDirectory", "more than 1024 characters");
        else
            KdapSetString(&settings->Directory, &text);
    }
    return status;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaSettingsOpenKey(PUNICODE_STRING path,
                                                                ACCESS_MASK access, HANDLE *key)
{
    static const WCHAR tail[] = KDA_W("\\Parameters");
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING name;
    NTSTATUS status;

    *key = NULL;
    if (path->Length > 60000)
        return STATUS_OBJECT_NAME_INVALID;
    name.Length = (USHORT)(path->Length + sizeof tail - sizeof(WCHAR));
    name.MaximumLength = (USHORT)(path->Length + sizeof tail);
    name.Buffer = ExAllocatePoolWithTag(PagedPool, name.MaximumLength, KDA_TAG_SETTINGS);
    if (name.Buffer == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    RtlCopyMemory(name.Buffer, path->Buffer, path->Length);
    RtlCopyMemory((PUCHAR)name.Buffer + path->Length, tail, sizeof tail);
    InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL,
                               NULL);
    status = ZwOpenKey(key, access, &attributes);
    ExFreePoolWithTag(name.Buffer, KDA_TAG_SETTINGS);
    return status;
}

_Use_decl_annotations_ KDA_INITCODE NTSTATUS KdaSettingsStart(KDA_DRIVER *driver)
{
    KDA_SETTINGS *settings = &driver->Settings;
    HANDLE key = NULL;
    NTSTATUS status;
    PVOID buffer;

    PAGED_CODE();
    RtlZeroMemory(settings, sizeof *settings);
    status = KdaSettingsOpenKey(driver->RegistryPath, KEY_QUERY_VALUE, &key);
    if (status == STATUS_INSUFFICIENT_RESOURCES)
        return status;
    if (!NT_SUCCESS(status)) {
        key = NULL;
        if (status != STATUS_OBJECT_NAME_NOT_FOUND)
            KdapReject(settings, "Parameters", "cannot be opened");
    }
    buffer = ExAllocatePoolWithTag(PagedPool, KDA_VALUE_MAX_BYTES, KDA_TAG_SETTINGS);
    if (buffer == NULL) {
        status = STATUS_INSUFFICIENT_RESOURCES;
        goto Exit;
    }
    KdapReadNumbers(settings, key, buffer);
    status = KdapReadTexts(settings, key, buffer);
    if (NT_SUCCESS(status))
        status = KdapReadLists(settings, key, buffer);
    driver->Kinds = (LONG)settings->Kinds;
Exit:
    if (buffer != NULL)
        ExFreePoolWithTag(buffer, KDA_TAG_SETTINGS);
    if (key != NULL)
        ZwClose(key);
    if (!NT_SUCCESS(status))
        KdaSettingsStop(driver);
    return status;
}

_Use_decl_annotations_ KDA_PAGED VOID KdaSettingsStop(KDA_DRIVER *driver)
{
    PAGED_CODE();
    while (driver->Settings.Blocks != NULL) {
        KDA_BLOCK *block = driver->Settings.Blocks;
        driver->Settings.Blocks = block->Next;
        ExFreePoolWithTag(block, KDA_TAG_SETTINGS);
    }
}

/* --- telling --------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapDescribeText(struct kda_event_builder *builder, const CHAR *name, PCUNICODE_STRING text)
{
    kda_event_object_bytes(builder, name, KDA_TYPE_STRING, text->Buffer, text->Length);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapDescribeUtf8(struct kda_event_builder *builder, const CHAR *name, const CHAR *text)
{
    SIZE_T count = 0;

    while (text[count] != '\0')
        count++;
    kda_event_object_bytes(builder, name, KDA_TYPE_UTF8, text, count);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapDescribeLists(const KDA_SETTINGS *settings, struct kda_event_builder *builder)
{
    if (kda_event_object_open(builder, "Kinds", KDA_TYPE_ARRAY)) {
        for (ULONG kind = 1; kind < KDA_KIND_COUNT; kind++) {
            if (settings->Kinds >> kind & 1u)
                KdapDescribeUtf8(builder, NULL, kda_kinds[kind].name);
        }
        kda_event_object_close(builder);
    }
    if (!settings->RecordEverything && kda_event_object_open(builder, "Rules", KDA_TYPE_ARRAY)) {
        for (ULONG i = 0; i < settings->RuleCount; i++)
            KdapDescribeText(builder, NULL, &settings->Rules[i].Text);
        kda_event_object_close(builder);
    }
    if (!settings->RecordEverything && kda_event_object_open(builder, "Rates", KDA_TYPE_ARRAY)) {
        for (ULONG i = 0; i < settings->RateCount; i++)
            KdapDescribeText(builder, NULL, &settings->Rates[i].Text);
        kda_event_object_close(builder);
    }
    if (kda_event_object_open(builder, "OldDataKeys", KDA_TYPE_ARRAY)) {
        for (ULONG i = 0; i < settings->PrefixCount; i++)
            KdapDescribeText(builder, NULL, &settings->OldDataKeys[i]);
        kda_event_object_close(builder);
    }
}

/* The reason: `entry 3: unknown condition` where it is one of a list. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapDescribeRejected(const KDA_REJECTED *rejected, struct kda_event_builder *builder)
{
    static const CHAR head[] = "entry ";
    CHAR text[96], digits[10];
    ULONG used = 0, count = 0;

    for (ULONG rest = rejected->Entry; rest != 0; rest /= 10)
        digits[count++] = (CHAR)('0' + rest % 10);
    if (count != 0) {
        for (; head[used] != '\0'; used++)
            text[used] = head[used];
        while (count != 0)
            text[used++] = digits[--count];
        text[used++] = ':';
        text[used++] = ' ';
    }
    for (const CHAR *why = rejected->Why; *why != '\0' && used < sizeof text - 1; why++)
        text[used++] = *why;
    text[used] = '\0';
    KdapDescribeUtf8(builder, rejected->Name, text);
}

/* What was rejected first: rules and keys can be longer than the record, which then is cut. */
_Use_decl_annotations_ VOID KdaSettingsDescribe(const KDA_SETTINGS *settings,
                                                struct kda_event_builder *builder)
{
    if (settings->RejectedCount != 0) {
        kda_event_object_begin(builder, KDA_FIELD_START_REJECTED);
        for (ULONG i = 0; i < settings->RejectedCount; i++)
            KdapDescribeRejected(&settings->Rejected[i], builder);
        kda_event_object_end(builder);
    }
    kda_event_object_begin(builder, KDA_FIELD_START_SETTINGS);
    KdapDescribeText(builder, "LogDirectory", &settings->Directory);
    for (ULONG i = 0; i < ARRAYSIZE(KdapNumbers); i++) {
        const ULONG *field =
            (const ULONG *)(const VOID *)((const UCHAR *)settings + KdapNumbers[i].Offset);
        kda_event_object_number(builder, KdapNumbers[i].Text, KDA_TYPE_NUMBER, *field);
    }
    KdapDescribeLists(settings, builder);
    kda_event_object_end(builder);
}
