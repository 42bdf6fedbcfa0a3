/*
 * log_file.c - the files of a log: names, folder, rotation, old ones. The writer's thread only, at
 * PASSIVE_LEVEL.
 *
 * kdamonitor-<date>-<time>-<part of the log's id>-<number>.jsonl: unique for each start, and names
 * sort by age. The folder and the files are for SYSTEM and Administrators only. Writes name their
 * offset, so that one that failed half-way is overwritten by its repetition.
 */
#include "driver.h"

#define KDA_NUMBER_DIGITS 6u
#define KDA_NAME_ROOM 64u /* characters behind the folder */
#define KDA_LIST_BYTES 16384u
#define KDA_MOST_REMOVALS 32u /* old files in one go */
#define KDA_MOST_TAKEN 32u    /* names that are tried in one go */

/* O:BAG:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA), self-relative. */
const UCHAR KdaSecurityDescriptor[] = {
    /* revision, -, control: self-relative, DACL protected and present */
    1,
    0,
    0x04,
    0x90,
    /* offsets of owner, group, SACL, DACL */
    20,
    0,
    0,
    0,
    36,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    52,
    0,
    0,
    0,
    /* owner and group: S-1-5-32-544 */
    1,
    2,
    0,
    0,
    0,
    0,
    0,
    5,
    32,
    0,
    0,
    0,
    0x20,
    0x02,
    0,
    0,
    1,
    2,
    0,
    0,
    0,
    0,
    0,
    5,
    32,
    0,
    0,
    0,
    0x20,
    0x02,
    0,
    0,
    /* DACL: revision 2, 52 bytes, 2 entries */
    2,
    0,
    52,
    0,
    2,
    0,
    0,
    0,
    /* allow, object and container inherit, 20 bytes, all access, S-1-5-18 */
    0,
    3,
    20,
    0,
    0xFF,
    0x01,
    0x1F,
    0x00,
    1,
    1,
    0,
    0,
    0,
    0,
    0,
    5,
    18,
    0,
    0,
    0,
    /* allow, inherit, 24 bytes, all access, S-1-5-32-544 */
    0,
    3,
    24,
    0,
    0xFF,
    0x01,
    0x1F,
    0x00,
    1,
    2,
    0,
    0,
    0,
    0,
    0,
    5,
    32,
    0,
    0,
    0,
    0x20,
    0x02,
    0,
    0,
};
C_ASSERT(sizeof KdaSecurityDescriptor == 104);

static const WCHAR KdapPrefix[] = KDA_W("\\kdamonitor-");
static const WCHAR KdapPattern[] = KDA_W("kdamonitor-*.jsonl");
static const WCHAR KdapSuffix[] = KDA_W(".jsonl");

/* --- names ----------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapAppend(UNICODE_STRING *name, WCHAR unit)
{
    if ((ULONG)name->Length + sizeof(WCHAR) <= name->MaximumLength) {
        name->Buffer[name->Length / sizeof(WCHAR)] = unit;
        name->Length = (USHORT)(name->Length + sizeof(WCHAR));
    }
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapAppendText(UNICODE_STRING *name, const WCHAR *text)
{
    while (*text != 0)
        KdapAppend(name, *text++);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapAppendHex(UNICODE_STRING *name, ULONG value)
{
    for (ULONG shift = 32; shift != 0; shift -= 4)
        KdapAppend(name, (WCHAR) "0123456789abcdef"[value >> (shift - 4) & 0xFu]);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapSetNumber(KDA_LOG_FILE *file, ULONG number)
{
    ULONG divisor = 1;

    file->Name.Length = (USHORT)(file->NameUnits * sizeof(WCHAR));
    for (ULONG i = 1; i < KDA_NUMBER_DIGITS; i++)
        divisor *= 10;
    for (; divisor != 0; divisor /= 10)
        KdapAppend(&file->Name, (WCHAR)('0' + number / divisor % 10));
    KdapAppendText(&file->Name, KdapSuffix);
}

_Use_decl_annotations_ NTSTATUS KdaLogFileInit(KDA_LOG_FILE *file, ULONGLONG utc)
{
    const UNICODE_STRING *directory = &KdaDriver->Settings.Directory;
    char time[KDA_TIME_BYTES];
    ULONG bytes = directory->Length + KDA_NAME_ROOM * sizeof(WCHAR);

    RtlZeroMemory(file, sizeof *file);
    if (bytes > 0xFFFEu)
        return STATUS_OBJECT_NAME_INVALID;
    file->Name.Buffer = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_WRITER);
    if (file->Name.Buffer == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    file->Name.MaximumLength = (USHORT)bytes;
    RtlCopyMemory(file->Name.Buffer, directory->Buffer, directory->Length);
    file->Name.Length = directory->Length;
    KdapAppendText(&file->Name, KdapPrefix);
    /* 2026-11-29T21:04:05.1234567Z -> 20261129-210405- */
    kda_jsonl_time(utc, time);
    for (ULONG i = 0; i < 19; i++) {
        if (time[i] == 'T')
            KdapAppend(&file->Name, '-');
        else if (time[i] >= '0' && time[i] <= '9')
            KdapAppend(&file->Name, (WCHAR)time[i]);
    }
    KdapAppend(&file->Name, '-');
    KdapAppendHex(&file->Name, KdaDriver->LogId.Data1);
    KdapAppend(&file->Name, '-');
    file->NameUnits = file->Name.Length / sizeof(WCHAR);
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ VOID KdaLogFileFree(KDA_LOG_FILE *file)
{
    KdaLogFileClose(file);
    if (file->Name.Buffer != NULL)
        ExFreePoolWithTag(file->Name.Buffer, KDA_TAG_WRITER);
    file->Name.Buffer = NULL;
}

/* --- the folder ------------------------------------------------------------------------------ */

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapOpenFolder(UNICODE_STRING *name, ULONG disposition, HANDLE *handle)
{
    OBJECT_ATTRIBUTES attributes;
    IO_STATUS_BLOCK io;

    InitializeObjectAttributes(&attributes, name, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL,
                               (PVOID)(ULONG_PTR)KdaSecurityDescriptor);
    return ZwCreateFile(handle, FILE_LIST_DIRECTORY | SYNCHRONIZE, &attributes, &io, NULL,
                        FILE_ATTRIBUTE_NORMAL, FILE_SHARE_READ | FILE_SHARE_WRITE, disposition,
                        FILE_DIRECTORY_FILE | FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapMakeFolder(UNICODE_STRING *name)
{
    HANDLE handle;
    NTSTATUS status = KdapOpenFolder(name, FILE_OPEN_IF, &handle);

    if (NT_SUCCESS(status))
        ZwClose(handle);
    return status;
}

/* The folder and those above it, from the deepest that is there. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapMakeFolders(VOID)
{
    UNICODE_STRING whole = KdaDriver->Settings.Directory;
    UNICODE_STRING part = whole;
    NTSTATUS status = KdapMakeFolder(&whole);

    while (status == STATUS_OBJECT_PATH_NOT_FOUND) {
        USHORT length = part.Length;
        while (length != 0 && part.Buffer[length / sizeof(WCHAR) - 1] != '\\')
            length = (USHORT)(length - sizeof(WCHAR));
        if (length <= sizeof(WCHAR))
            return status;
        part.Length = (USHORT)(length - sizeof(WCHAR));
        status = KdapMakeFolder(&part);
        if (NT_SUCCESS(status)) {
            /* One level is there: from the top again. It ends because each round makes one. */
            part = whole;
            status = KdapMakeFolder(&whole);
        }
    }
    return status;
}

/* --- old files ------------------------------------------------------------------------------- */

typedef struct _KDA_OLDEST {
    ULONG Count;
    USHORT Length; /* bytes of the oldest name; 0: none */
    WCHAR Name[KDA_NAME_ROOM];
} KDA_OLDEST;

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapOlder(const WCHAR *name, ULONG bytes, const KDA_OLDEST *oldest)
{
    ULONG units = bytes / sizeof(WCHAR), other = oldest->Length / sizeof(WCHAR);

    if (other == 0)
        return TRUE;
    for (ULONG i = 0; i < units && i < other; i++) {
        if (name[i] != oldest->Name[i])
            return name[i] < oldest->Name[i];
    }
    return units < other;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapLook(const UCHAR *list, ULONG bytes, KDA_OLDEST *oldest)
{
    ULONG at = 0;

    while (at < bytes && bytes - at >= FIELD_OFFSET(FILE_NAMES_INFORMATION, FileName)) {
        const FILE_NAMES_INFORMATION *item =
            (const FILE_NAMES_INFORMATION *)(const VOID *)(list + at);
        ULONG length = item->FileNameLength;
        if (length > bytes - at - FIELD_OFFSET(FILE_NAMES_INFORMATION, FileName))
            break;
        oldest->Count++;
        if (length <= sizeof oldest->Name && KdapOlder(item->FileName, length, oldest)) {
            RtlCopyMemory(oldest->Name, item->FileName, length);
            oldest->Length = (USHORT)length;
        }
        if (item->NextEntryOffset == 0)
            break;
        at += item->NextEntryOffset;
    }
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapFindOldest(KDA_OLDEST *oldest)
{
    UNICODE_STRING pattern, directory = KdaDriver->Settings.Directory;
    IO_STATUS_BLOCK io;
    NTSTATUS status;
    HANDLE handle;
    PVOID list;

    RtlZeroMemory(oldest, sizeof *oldest);
    list = ExAllocatePoolWithTag(PagedPool, KDA_LIST_BYTES, KDA_TAG_WRITER);
    if (list == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    status = KdapOpenFolder(&directory, FILE_OPEN, &handle);
    if (!NT_SUCCESS(status)) {
        ExFreePoolWithTag(list, KDA_TAG_WRITER);
        return status;
    }
    RtlInitUnicodeString(&pattern, KdapPattern);
    for (BOOLEAN restart = TRUE; NT_SUCCESS(status); restart = FALSE) {
        status = ZwQueryDirectoryFile(handle, NULL, NULL, NULL, &io, list, KDA_LIST_BYTES,
                                      FileNamesInformation, FALSE, &pattern, restart);
        if (NT_SUCCESS(status))
            KdapLook(list, (ULONG)io.Information, oldest);
    }
    ZwClose(handle);
    ExFreePoolWithTag(list, KDA_TAG_WRITER);
    return status == STATUS_NO_MORE_FILES || status == STATUS_NO_SUCH_FILE ? STATUS_SUCCESS
                                                                           : status;
}

/* Keeps the number of files, those of earlier logs with them, within the limit. What cannot be
 * deleted now is tried again with the next file; the open file cannot, wherever a clock that was
 * set back has put its name. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapRemoveOld(VOID)
{
    OBJECT_ATTRIBUTES attributes;
    KDA_OLDEST oldest;
    UNICODE_STRING name;
    KDA_LOG_FILE path;

    for (ULONG i = 0; i < KDA_MOST_REMOVALS; i++) {
        if (!NT_SUCCESS(KdapFindOldest(&oldest)) || oldest.Length == 0 ||
            oldest.Count <= KdaDriver->Settings.FileCount)
            return;
        if (!NT_SUCCESS(KdaLogFileInit(&path, 0)))
            return;
        path.Name.Length = KdaDriver->Settings.Directory.Length;
        KdapAppend(&path.Name, '\\');
        for (ULONG unit = 0; unit < oldest.Length / sizeof(WCHAR); unit++)
            KdapAppend(&path.Name, oldest.Name[unit]);
        name = path.Name;
        InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE,
                                   NULL, NULL);
        if (!NT_SUCCESS(ZwDeleteFile(&attributes))) {
            KdaLogFileFree(&path);
            return;
        }
        KdaLogFileFree(&path);
    }
}

/* --- the file -------------------------------------------------------------------------------- */

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapCreate(KDA_LOG_FILE *file, ULONG number, HANDLE *handle)
{
    OBJECT_ATTRIBUTES attributes;
    IO_STATUS_BLOCK io;

    KdapSetNumber(file, number);
    InitializeObjectAttributes(&attributes, &file->Name, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE,
                               NULL, (PVOID)(ULONG_PTR)KdaSecurityDescriptor);
    return ZwCreateFile(
        handle, FILE_WRITE_DATA | FILE_READ_ATTRIBUTES | SYNCHRONIZE, &attributes, &io, NULL,
        FILE_ATTRIBUTE_NORMAL, FILE_SHARE_READ, FILE_CREATE,
        FILE_NON_DIRECTORY_FILE | FILE_SEQUENTIAL_ONLY | FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0);
}

_Use_decl_annotations_ NTSTATUS KdaLogFileNext(KDA_LOG_FILE *file)
{
    NTSTATUS status = KdapMakeFolders();
    HANDLE handle;

    if (!NT_SUCCESS(status))
        return status;
    /* A name that is taken (a clock or a disk that was set back, a file put there by somebody) will
     * stay so: the numbers behind it are tried, the rest of them with the next attempt. */
    for (ULONG i = 0; i < KDA_MOST_TAKEN; i++) {
        status = KdapCreate(file, file->Number + 1, &handle);
        if (status != STATUS_OBJECT_NAME_COLLISION)
            break;
        file->Number++;
    }
    if (!NT_SUCCESS(status))
        return status;
    KdaLogFileClose(file);
    file->Handle = handle;
    file->Offset = 0;
    file->Number++;
    KdapRemoveOld();
    return STATUS_SUCCESS;
}

_Use_decl_annotations_ NTSTATUS KdaLogFileWrite(KDA_LOG_FILE *file, PVOID data, ULONG bytes)
{
    LARGE_INTEGER offset;
    IO_STATUS_BLOCK io;
    NTSTATUS status;

    if (file->Handle == NULL)
        return STATUS_INVALID_HANDLE;
    offset.QuadPart = (LONGLONG)file->Offset;
    io.Information = 0;
    status = ZwWriteFile(file->Handle, NULL, NULL, NULL, &io, data, bytes, &offset, NULL);
    if (NT_SUCCESS(status) && io.Information != bytes)
        status = STATUS_DISK_FULL;
    if (NT_SUCCESS(status))
        file->Offset += bytes;
    return status;
}

_Use_decl_annotations_ NTSTATUS KdaLogFileFlush(KDA_LOG_FILE *file)
{
    IO_STATUS_BLOCK io;

    return file->Handle ? ZwFlushBuffersFile(file->Handle, &io) : STATUS_INVALID_HANDLE;
}

_Use_decl_annotations_ VOID KdaLogFileClose(KDA_LOG_FILE *file)
{
    if (file->Handle != NULL)
        ZwClose(file->Handle);
    file->Handle = NULL;
}
