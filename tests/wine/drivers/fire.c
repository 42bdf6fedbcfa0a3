/*
 * fire.c - kdainject.sys: what one number means, as arguments of callbacks. tests/wine/injected.py
 * says the same as lines of the log.
 */
#include "inject.h"

#define NAME_UNITS 96u

typedef struct _NAME {
    UNICODE_STRING String;
    WCHAR Units[NAME_UNITS];
} NAME;

static VOID Text(NAME *name, PCWSTR text)
{
    while (*text != 0 && name->String.Length / sizeof(WCHAR) < NAME_UNITS) {
        name->Units[name->String.Length / sizeof(WCHAR)] = *text++;
        name->String.Length = (USHORT)(name->String.Length + sizeof(WCHAR));
    }
    name->String.MaximumLength = name->String.Length;
}

/* `before`, the number, `after`. */
static PUNICODE_STRING Make(NAME *name, PCWSTR before, ULONG n, PCWSTR after)
{
    WCHAR digits[11];
    ULONG at = ARRAYSIZE(digits) - 1;

    name->String.Length = 0;
    name->String.Buffer = name->Units;
    Text(name, before);
    digits[at] = 0;
    do {
        digits[--at] = (WCHAR)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    Text(name, digits + at);
    Text(name, after);
    return &name->String;
}

static VOID Count(INJECT_WORK *work, BOOLEAN called)
{
    if (called)
        work->Fired++;
    else
        work->Refused++;
}

/* --- registry -------------------------------------------------------------------------------- */

/* Every third operation is refused. */
static NTSTATUS Result(ULONG n)
{
    return n % 3 == 0 ? STATUS_ACCESS_DENIED : STATUS_SUCCESS;
}

/* The context of the announcement goes to the report, as the configuration manager does it. */
static BOOLEAN Report(ULONG class_, PVOID object, PVOID before, PVOID context, ULONG n)
{
    REG_POST_OPERATION_INFORMATION post;

    RtlZeroMemory(&post, sizeof post);
    post.Object = object;
    post.Status = post.ReturnStatus = Result(n);
    post.PreInformation = before;
    post.CallContext = context;
    return TestFireRegistry(class_, &post);
}

static VOID SetValue(INJECT_WORK *work, TEST_KEY *key, ULONG n)
{
    REG_SET_VALUE_KEY_INFORMATION info;
    NAME value;

    RtlZeroMemory(&info, sizeof info);
    info.Object = key;
    info.ValueName = Make(&value, KDA_W("v"), n, KDA_W(""));
    info.Type = REG_DWORD;
    info.Data = &n;
    info.DataSize = sizeof n;
    Count(work, TestFireRegistry(RegNtPreSetValueKey, &info));
    Report(RegNtPostSetValueKey, key, &info, info.CallContext, n);
}

static VOID DeleteValue(INJECT_WORK *work, TEST_KEY *key, ULONG n)
{
    REG_DELETE_VALUE_KEY_INFORMATION info;
    NAME value;

    RtlZeroMemory(&info, sizeof info);
    info.Object = key;
    info.ValueName = Make(&value, KDA_W("v"), n, KDA_W(""));
    Count(work, TestFireRegistry(RegNtPreDeleteValueKey, &info));
    Report(RegNtPostDeleteValueKey, key, &info, info.CallContext, n);
}

static VOID CreateKey(INJECT_WORK *work, TEST_KEY *key, ULONG n)
{
    REG_CREATE_KEY_INFORMATION info;
    ULONG disposition = REG_CREATED_NEW_KEY;
    PVOID result = key;

    RtlZeroMemory(&info, sizeof info);
    info.CompleteName = &key->Name;
    info.Disposition = &disposition;
    info.ResultObject = &result;
    Count(work, TestFireRegistry(RegNtPreCreateKeyEx, &info));
    Report(RegNtPostCreateKeyEx, NT_SUCCESS(Result(n)) ? key : NULL, &info, info.CallContext, n);
}

static VOID Registry(INJECT_WORK *work, ULONG n)
{
    TEST_KEY key;
    NAME name;

    RtlZeroMemory(&key, sizeof key);
    key.Object.Magic = TEST_MAGIC;
    key.Name = *Make(&name, KDA_W("\\REGISTRY\\MACHINE\\SOFTWARE\\Inject\\k"), n, KDA_W(""));
    CreateKey(work, &key, n);
    SetValue(work, &key, n);
    DeleteValue(work, &key, n);
    work->Kept += key.Object.References;
}

BOOLEAN InjectBadData(VOID)
{
    REG_SET_VALUE_KEY_INFORMATION info;
    BOOLEAN called;
    TEST_KEY key;
    NAME name, value;

    RtlZeroMemory(&key, sizeof key);
    key.Object.Magic = TEST_MAGIC;
    key.Name = *Make(&name, KDA_W("\\REGISTRY\\MACHINE\\SOFTWARE\\Inject\\bad"), 0, KDA_W(""));
    RtlZeroMemory(&info, sizeof info);
    info.Object = &key;
    info.ValueName = Make(&value, KDA_W("bad"), 0, KDA_W(""));
    info.Type = REG_BINARY;
    info.Data = (PVOID)(ULONG_PTR)0x10; /* the first page is never mapped */
    info.DataSize = 64;
    called = TestFireRegistry(RegNtPreSetValueKey, &info);
    Report(RegNtPostSetValueKey, &key, &info, info.CallContext, 1);
    return called;
}

BOOLEAN InjectPreOnly(ULONG n)
{
    REG_DELETE_KEY_INFORMATION info;
    BOOLEAN called;
    TEST_KEY key;
    NAME name;

    RtlZeroMemory(&key, sizeof key);
    key.Object.Magic = TEST_MAGIC;
    key.Name = *Make(&name, KDA_W("\\REGISTRY\\MACHINE\\SOFTWARE\\Inject\\gone"), n, KDA_W(""));
    RtlZeroMemory(&info, sizeof info);
    info.Object = &key;
    called = TestFireRegistry(RegNtPreDeleteKey, &info);
    return called;
}

/* --- network --------------------------------------------------------------------------------- */

BOOLEAN InjectFlow(ULONG n, BOOLEAN anyway)
{
    FWP_BYTE_ARRAY16 local = {{0xfd}}, remote = {{0xfd, 1}};
    FWPS_INCOMING_METADATA_VALUES0 metadata;
    FWPS_INCOMING_VALUE0 value[16];
    FWPS_INCOMING_VALUES0 values = {0, ARRAYSIZE(value), value};

    RtlZeroMemory(value, sizeof value);
    RtlZeroMemory(&metadata, sizeof metadata);
    metadata.currentMetadataValues = FWPS_METADATA_FIELD_PROCESS_ID;
    metadata.processId = 0x100000u + 4 * n;
    if (n % 2 == 0) {
        values.layerId = FWPS_LAYER_ALE_FLOW_ESTABLISHED_V4;
        value[KDA_WFP_LOCAL_ADDRESS].value.type = FWP_UINT32;
        value[KDA_WFP_LOCAL_ADDRESS].value.uint32 = 0xC0A80001u;
        value[KDA_WFP_REMOTE_ADDRESS].value.type = FWP_UINT32;
        value[KDA_WFP_REMOTE_ADDRESS].value.uint32 = 0x0A000000u + n;
    } else {
        values.layerId = FWPS_LAYER_ALE_FLOW_ESTABLISHED_V6;
        local.byteArray16[15] = 1;
        for (ULONG i = 0; i < 4; i++)
            remote.byteArray16[12 + i] = (UINT8)(n >> (24 - 8 * i));
        value[KDA_WFP_LOCAL_ADDRESS].value.type = FWP_BYTE_ARRAY16_TYPE;
        value[KDA_WFP_LOCAL_ADDRESS].value.byteArray16 = &local;
        value[KDA_WFP_REMOTE_ADDRESS].value.type = FWP_BYTE_ARRAY16_TYPE;
        value[KDA_WFP_REMOTE_ADDRESS].value.byteArray16 = &remote;
    }
    value[KDA_WFP_LOCAL_PORT].value.type = FWP_UINT16;
    value[KDA_WFP_LOCAL_PORT].value.uint16 = (UINT16)(1024 + n % 60000);
    value[KDA_WFP_PROTOCOL].value.type = FWP_UINT8;
    value[KDA_WFP_PROTOCOL].value.uint8 = 6;
    value[KDA_WFP_REMOTE_PORT].value.type = FWP_UINT16;
    value[KDA_WFP_REMOTE_PORT].value.uint16 = 443;
    value[KDA_WFP_FLOW_DIRECTION].value.type = FWP_UINT32;
    value[KDA_WFP_FLOW_DIRECTION].value.uint32 = FWP_DIRECTION_OUTBOUND;
    return TestClassify(&values, &metadata, anyway);
}

/* --- one number ------------------------------------------------------------------------------ */

static VOID Create(INJECT_WORK *work, TEST_PROCESS *process, TEST_THREAD *thread, ULONG n)
{
    PS_CREATE_NOTIFY_INFO info;
    NAME image, line;

    RtlZeroMemory(&info, sizeof info);
    info.Size = sizeof info;
    info.Flags = KDA_NOTIFY_FILE_OPEN_NAME_AVAILABLE;
    info.ParentProcessId = (HANDLE)(ULONG_PTR)4;
    info.ImageFileName =
        Make(&image, KDA_W("\\Device\\HarddiskVolume3\\Inject\\p"), n, KDA_W(".exe"));
    info.CommandLine = Make(&line, KDA_W("p"), n, KDA_W(" --run \x00E4\x4E2D"));
    Count(work, TestFireProcess(process, &info));
    Count(work, TestFireThread(process->Pid, thread->Tid, TRUE));
}

static VOID Load(INJECT_WORK *work, ULONG pid, ULONG n)
{
    IMAGE_INFO info;
    NAME name;

    RtlZeroMemory(&info, sizeof info);
    info.ImageBase = (PVOID)(ULONG_PTR)(0x7FF600000000ull + 0x10000ull * n);
    info.ImageSize = 0x8000;
    Count(work, TestFireImage(
                    Make(&name, KDA_W("\\Device\\HarddiskVolume3\\Inject\\m"), n, KDA_W(".dll")),
                    pid, &info));
}

VOID InjectRound(INJECT_WORK *work, ULONG n)
{
    TEST_PROCESS process;
    TEST_THREAD thread;

    RtlZeroMemory(&process, sizeof process);
    RtlZeroMemory(&thread, sizeof thread);
    process.Object.Magic = thread.Object.Magic = TEST_MAGIC;
    process.Pid = 0x100000u + 4 * n;
    process.CreateTime = 132000000000000000ll + n;
    process.ExitStatus = STATUS_PENDING;
    thread.Tid = 0x40000000u + 4 * n;
    thread.StartAddress = 0x7FF600001000ull + 0x10000ull * n;
    TestAddProcess(&process);
    TestAddThread(&thread);
    Create(work, &process, &thread, n);
    Load(work, process.Pid, n);
    Registry(work, n);
    Count(work, InjectFlow(n, FALSE));
    thread.ExitStatus = process.ExitStatus = (NTSTATUS)n;
    Count(work, TestFireThread(process.Pid, thread.Tid, FALSE));
    Count(work, TestFireProcess(&process, NULL));
    TestRemoveThread(&thread);
    TestRemoveProcess(&process);
    work->Kept += process.Object.References + thread.Object.References;
}
