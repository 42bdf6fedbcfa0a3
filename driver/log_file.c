/*
 * log_file.c - the files of a log: names, folder, rotation, old ones. The writer's thread only, at
 * PASSIVE_LEVEL.
 *
 * kdamonitor-<date>-<time>-<part of the log's id>-<number>.jsonl: unique for each start, and names
 * sort by age. The folder and the files are for SYSTEM and Administrators only. Writes name their
 * offset, so that one that failed half-way is overwritten by its repetition.
 *
 * A junction in the path would have SYSTEM write and delete where somebody else wants it. So only
 * the beginning of the name, which is a link of the system itself (\SystemRoot, \??\D:), is opened
 * as others do; all else is opened relative to that, and a link is refused.
 */
#include "driver.h"

#define KDA_NUMBER_DIGITS 6u
#define KDA_NAME_ROOM 64u /* characters behind the folder */
C_ASSERT((KDA_MAX_DIRECTORY + KDA_NAME_ROOM) * sizeof(WCHAR) <= 0xFFFEu);
#define KDA_LIST_BYTES 16384u
#define KDA_MOST_OLD 128u       /* names that are kept of one look at the folder */
#define KDA_MOST_REMOVALS 32u   /* old files in one go */
#define KDA_MOST_REFUSALS 4096u /* those that are tried for it */
#define KDA_MOST_TAKEN 32u      /* names that are tried in one go */

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

/* Where the flag was refused as unknown, names are opened without it from then on. */
static volatile LONG KdapLinksFollowed;

static const WCHAR KdapPrefix[] = KDA_W("\\kdamonitor-");
static const WCHAR KdapPattern[] = KDA_W("kdamonitor-*.jsonl");
static const WCHAR KdapSuffix[] = KDA_W(".jsonl");
/* What a name looks like: 0 is any digit, x any of a hexadecimal number. */
static const CHAR KdapForm[] = "kdamonitor-00000000-000000-xxxxxxxx-000000.jsonl";
#define KDA_FORM_UNITS (sizeof KdapForm - 1)

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
    InterlockedExchange(&KdapLinksFollowed, 0);
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

/* Units of `\SystemRoot\`, `\??\D:\`, `\Device\HarddiskVolume3\`; all of a name that is shorter. */
_IRQL_requires_max_(PASSIVE_LEVEL) static ULONG KdapBaseUnits(const UNICODE_STRING *name)
{
    ULONG units = name->Length / sizeof(WCHAR), parts = 2;
    UNICODE_STRING root;

    RtlInitUnicodeString(&root, KDA_W("\\SystemRoot\\"));
    if (KdaHasPrefix(name, &root))
        parts = 1;
    for (ULONG at = 1; at < units; at++) {
        if (name->Buffer[at] == '\\' && --parts == 0)
            return at + 1;
    }
    return units;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapOpenBase(HANDLE *base)
{
    UNICODE_STRING name = KdaDriver->Settings.Directory;
    OBJECT_ATTRIBUTES attributes;
    IO_STATUS_BLOCK io;

    name.Length = (USHORT)(KdapBaseUnits(&name) * sizeof(WCHAR));
    InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL,
                               NULL);
    return KDA_CALL(ZwCreateFile,
                    (base, FILE_LIST_DIRECTORY | SYNCHRONIZE, &attributes, &io, NULL,
                     FILE_ATTRIBUTE_NORMAL, FILE_SHARE_READ | FILE_SHARE_WRITE, FILE_OPEN,
                     FILE_DIRECTORY_FILE | FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0));
}

/* What follows the base in a name that begins with the folder's. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID
    KdapBelow(HANDLE base, const UNICODE_STRING *name, UNICODE_STRING *rest,
              OBJECT_ATTRIBUTES *attributes)
{
    ULONG units = KdapBaseUnits(&KdaDriver->Settings.Directory);
    ULONG flags = OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE;

    if (!ReadAcquire(&KdapLinksFollowed))
        flags |= OBJ_DONT_REPARSE;
    rest->Buffer = name->Buffer + units;
    rest->Length = (USHORT)(name->Length - units * sizeof(WCHAR));
    if (rest->Length != 0 && rest->Buffer[0] == '\\') {
        rest->Buffer++;
        rest->Length = (USHORT)(rest->Length - sizeof(WCHAR));
    }
    rest->MaximumLength = rest->Length;
    InitializeObjectAttributes(attributes, rest, flags, base,
                               (PVOID)(ULONG_PTR)KdaSecurityDescriptor);
}

/* TRUE: to be tried again, without the flag that this kernel does not know. */
_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN KdapFlagUnknown(NTSTATUS status)
{
    return status == STATUS_INVALID_PARAMETER && InterlockedExchange(&KdapLinksFollowed, 1) == 0;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapOpenBelow(HANDLE base, const UNICODE_STRING *name, BOOLEAN folder, ULONG disposition,
                  HANDLE *handle)
{
    ULONG options = folder ? FILE_DIRECTORY_FILE : FILE_NON_DIRECTORY_FILE | FILE_SEQUENTIAL_ONLY;
    ULONG share = folder ? FILE_SHARE_READ | FILE_SHARE_WRITE : FILE_SHARE_READ;
    ACCESS_MASK access = folder ? FILE_LIST_DIRECTORY : FILE_WRITE_DATA | FILE_READ_ATTRIBUTES;
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING rest;
    IO_STATUS_BLOCK io;
    NTSTATUS status;

    do {
        KdapBelow(base, name, &rest, &attributes);
        status = ZwCreateFile(handle, access | SYNCHRONIZE, &attributes, &io, NULL,
                              FILE_ATTRIBUTE_NORMAL, share, disposition,
                              options | FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0);
        if (status != STATUS_OBJECT_NAME_COLLISION)
            KdaCalled(__func__, "ZwCreateFile", status);
    } while (KdapFlagUnknown(status));
    return status;
}

/* The folder and those above it, from the base on. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapMakeFolders(HANDLE base)
{
    const UNICODE_STRING *whole = &KdaDriver->Settings.Directory;
    ULONG units = whole->Length / sizeof(WCHAR), at = KdapBaseUnits(whole);
    UNICODE_STRING part = *whole;
    NTSTATUS status = STATUS_SUCCESS;
    HANDLE handle;

    while (NT_SUCCESS(status) && at < units) {
        do {
            at++;
        } while (at < units && whole->Buffer[at] != '\\');
        part.Length = (USHORT)(at * sizeof(WCHAR));
        status = KdapOpenBelow(base, &part, TRUE, FILE_OPEN_IF, &handle);
        if (NT_SUCCESS(status))
            ZwClose(handle);
    }
    return status;
}

/* --- old files ------------------------------------------------------------------------------- */

typedef struct _KDA_OLD_FILES {
    HANDLE Base;
    UNICODE_STRING Path;
    ULONG Count;                              /* logs behind `After` */
    ULONG Held;                               /* names below, the oldest first */
    CHAR Open[KDA_FORM_UNITS];                /* counts, and is never chosen */
    CHAR After[KDA_FORM_UNITS];               /* up to here all were tried */
    CHAR Names[KDA_MOST_OLD][KDA_FORM_UNITS]; /* the oldest behind it */
    ULONG64 List[KDA_LIST_BYTES / sizeof(ULONG64)];
} KDA_OLD_FILES;

/* FALSE: no name that this driver gives. */
_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN
    KdapIsLog(const WCHAR *units, SIZE_T count, CHAR *name)
{
    if (count != KDA_FORM_UNITS)
        return FALSE;
    for (SIZE_T i = 0; i < count; i++) {
        BOOLEAN digit = units[i] >= '0' && units[i] <= '9';
        BOOLEAN good = units[i] == (WCHAR)KdapForm[i];
        if (KdapForm[i] == '0')
            good = digit;
        else if (KdapForm[i] == 'x')
            good = digit || (units[i] >= 'a' && units[i] <= 'f');
        if (!good)
            return FALSE;
        name[i] = (CHAR)units[i];
    }
    return TRUE;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static int KdapOrder(const CHAR *one, const CHAR *other)
{
    for (SIZE_T i = 0; i < KDA_FORM_UNITS; i++) {
        if (one[i] != other[i])
            return one[i] < other[i] ? -1 : 1;
    }
    return 0;
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapHold(KDA_OLD_FILES *old, const CHAR *name)
{
    ULONG at = old->Held;

    if (KdapOrder(name, old->After) <= 0)
        return;
    old->Count++;
    if (KdapOrder(name, old->Open) == 0)
        return;
    if (at < KDA_MOST_OLD)
        old->Held++;
    else if (KdapOrder(name, old->Names[--at]) > 0)
        return;
    for (; at != 0 && KdapOrder(name, old->Names[at - 1]) < 0; at--)
        RtlCopyMemory(old->Names[at], old->Names[at - 1], KDA_FORM_UNITS);
    RtlCopyMemory(old->Names[at], name, KDA_FORM_UNITS);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapLook(KDA_OLD_FILES *old, ULONG bytes)
{
    const UCHAR *list = (const UCHAR *)old->List;
    CHAR name[KDA_FORM_UNITS];
    ULONG at = 0;

    while (at < bytes && bytes - at >= FIELD_OFFSET(FILE_DIRECTORY_INFORMATION, FileName)) {
        const FILE_DIRECTORY_INFORMATION *item =
            (const FILE_DIRECTORY_INFORMATION *)(const VOID *)(list + at);
        ULONG length = item->FileNameLength;
        if (length > bytes - at - FIELD_OFFSET(FILE_DIRECTORY_INFORMATION, FileName))
            break;
        if (!(item->FileAttributes & FILE_ATTRIBUTE_DIRECTORY) &&
            KdapIsLog(item->FileName, length / sizeof(WCHAR), name))
            KdapHold(old, name);
        if (item->NextEntryOffset == 0)
            break;
        at += item->NextEntryOffset;
    }
}

/* Counts the logs behind `After` and finds the oldest of them. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS KdapFindOld(KDA_OLD_FILES *old)
{
    UNICODE_STRING pattern;
    IO_STATUS_BLOCK io;
    HANDLE handle;
    NTSTATUS status =
        KdapOpenBelow(old->Base, &KdaDriver->Settings.Directory, TRUE, FILE_OPEN, &handle);

    old->Count = old->Held = 0;
    if (!NT_SUCCESS(status))
        return status;
    RtlInitUnicodeString(&pattern, KdapPattern);
    /* Success without a byte says that the next name finds no room, and would say so for ever. */
    for (BOOLEAN restart = TRUE; NT_SUCCESS(status); restart = FALSE) {
        io.Information = 0;
        status = ZwQueryDirectoryFile(handle, NULL, NULL, NULL, &io, old->List, sizeof old->List,
                                      FileDirectoryInformation, FALSE, &pattern, restart);
        if (NT_SUCCESS(status) && io.Information == 0)
            status = STATUS_BUFFER_TOO_SMALL;
        if (NT_SUCCESS(status))
            KdapLook(old, (ULONG)io.Information);
    }
    ZwClose(handle);
    if (status == STATUS_NO_MORE_FILES || status == STATUS_NO_SUCH_FILE)
        return STATUS_SUCCESS;
    return KdaCalled(__func__, "ZwQueryDirectoryFile", status);
}

_IRQL_requires_max_(PASSIVE_LEVEL) static BOOLEAN KdapDelete(KDA_OLD_FILES *old, const CHAR *name)
{
    OBJECT_ATTRIBUTES attributes;
    UNICODE_STRING rest;

    old->Path.Length = (USHORT)(KdaDriver->Settings.Directory.Length + sizeof(WCHAR));
    for (ULONG i = 0; i < KDA_FORM_UNITS; i++)
        KdapAppend(&old->Path, (WCHAR)name[i]);
    KdapBelow(old->Base, &old->Path, &rest, &attributes);
    return NT_SUCCESS(KDA_CALL(ZwDeleteFile, (&attributes)));
}

/* Keeps the number of files, those of earlier logs with them, within the limit. What cannot be
 * deleted (read-only, held by a program) is passed over and does not count: if it did, it would
 * take the places of logs that can be read. The next file tries it again. The open file counts,
 * wherever a clock that was set back has put its name. */
_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapRemove(KDA_OLD_FILES *old)
{
    ULONG most = KdaDriver->Settings.FileCount, removals = KDA_MOST_REMOVALS, excess;

    if (!NT_SUCCESS(KdapFindOld(old)) || old->Count <= most)
        return;
    excess = old->Count - most;
    if (excess > KDA_MOST_REFUSALS)
        excess = KDA_MOST_REFUSALS;
    for (;;) {
        for (ULONG i = 0; i < old->Held && excess != 0 && removals != 0; i++, excess--) {
            if (KdapDelete(old, old->Names[i]))
                removals--;
        }
        if (excess == 0 || removals == 0 || old->Held < KDA_MOST_OLD)
            return;
        RtlCopyMemory(old->After, old->Names[KDA_MOST_OLD - 1], KDA_FORM_UNITS);
        if (!NT_SUCCESS(KdapFindOld(old)))
            return;
    }
}

_IRQL_requires_max_(PASSIVE_LEVEL) static VOID KdapRemoveOld(const KDA_LOG_FILE *file, HANDLE base)
{
    SIZE_T units = file->Name.Length / sizeof(WCHAR);
    ULONG bytes = (ULONG)sizeof(KDA_OLD_FILES) + file->Name.MaximumLength;
    KDA_OLD_FILES *old = ExAllocatePoolWithTag(PagedPool, bytes, KDA_TAG_WRITER);

    if (old == NULL)
        return;
    RtlZeroMemory(old, sizeof *old);
    old->Base = base;
    old->Path.Buffer = (PWSTR)(PVOID)(old + 1);
    old->Path.MaximumLength = file->Name.MaximumLength;
    RtlCopyMemory(old->Path.Buffer, file->Name.Buffer, file->Name.Length);
    KdapIsLog(file->Name.Buffer + units - KDA_FORM_UNITS, KDA_FORM_UNITS, old->Open);
    KdapRemove(old);
    ExFreePoolWithTag(old, KDA_TAG_WRITER);
}

/* --- the file -------------------------------------------------------------------------------- */

/* A name that is taken (a clock or a disk that was set back, a file put there by somebody) will
 * stay so: the numbers behind it are tried, the rest of them with the next attempt. */
_IRQL_requires_max_(PASSIVE_LEVEL) static NTSTATUS
    KdapCreate(KDA_LOG_FILE *file, HANDLE base, HANDLE *handle)
{
    NTSTATUS status = STATUS_OBJECT_NAME_COLLISION;

    for (ULONG i = 0; status == STATUS_OBJECT_NAME_COLLISION && i < KDA_MOST_TAKEN; i++) {
        KdapSetNumber(file, file->Number + 1);
        status = KdapOpenBelow(base, &file->Name, FALSE, FILE_CREATE, handle);
        if (status == STATUS_OBJECT_NAME_COLLISION)
            file->Number++;
    }
    return status;
}

_Use_decl_annotations_ NTSTATUS KdaLogFileNext(KDA_LOG_FILE *file)
{
    HANDLE base, handle;
    NTSTATUS status = KdapOpenBase(&base);

    if (!NT_SUCCESS(status))
        return status;
    status = KdapMakeFolders(base);
    if (NT_SUCCESS(status))
        status = KdapCreate(file, base, &handle);
    if (NT_SUCCESS(status)) {
        KdaLogFileClose(file);
        file->Handle = handle;
        file->Offset = 0;
        file->Number++;
        KdapRemoveOld(file, base);
    }
    ZwClose(base);
    return status;
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
    return KdaCalled(__func__, "ZwWriteFile", status);
}

_Use_decl_annotations_ NTSTATUS KdaLogFileFlush(KDA_LOG_FILE *file)
{
    IO_STATUS_BLOCK io;

    return file->Handle ? KDA_CALL(ZwFlushBuffersFile, (file->Handle, &io)) : STATUS_INVALID_HANDLE;
}

_Use_decl_annotations_ VOID KdaLogFileClose(KDA_LOG_FILE *file)
{
    if (file->Handle != NULL)
        ZwClose(file->Handle);
    file->Handle = NULL;
}
