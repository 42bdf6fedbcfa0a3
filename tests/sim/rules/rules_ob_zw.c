/*
 * rules_ob_zw.c - objects and handles, files, keys, descriptors.
 */
#include "rules.h"

static IO_STATUS_BLOCK io;
static uint8_t buffer[1024];
static ULONG returned;

/* --- objects --------------------------------------------------------------------------------- */

static PVOID object;

LEVEL("OB-001", PASSIVE_LEVEL,
      ObReferenceObjectByHandle(fx.key, 0, NULL, KernelMode, &object, NULL));
LEVEL("OB-005", DISPATCH_LEVEL, ObfReferenceObject(fx.process));
LEVEL("OB-005", DISPATCH_LEVEL, ObfDereferenceObject(fx.process));
LEVEL("OB-008", APC_LEVEL,
      ObOpenObjectByPointer(fx.process, OBJ_KERNEL_HANDLE, NULL, 0, NULL, KernelMode, &fx.token));
LEVEL("OB-014", APC_LEVEL, ObQueryNameString(fx.process, (void *)buffer, 512, &returned));

OUTCOME_FX("OB-002 OB-004", references_by_handle)
{
    size_t before = sim_ledger_count();

    EXPECT_STATUS(0, ObReferenceObjectByHandle(fx.key, 0, NULL, KernelMode, &object, NULL));
    EXPECT(sim_ledger_count() == before + 1);
    ObDereferenceObject(object);
    EXPECT_STATUS(0xC0000008, ObReferenceObjectByHandle((HANDLE)(uintptr_t)0xFFFFFFFF80001000u, 0,
                                                        NULL, KernelMode, &object, NULL));
}

VIOLATION_FX("OB-003", generic_rights)
{
    ObReferenceObjectByHandle(fx.key, 0x80000000u, NULL, KernelMode, &object, NULL);
}

VIOLATION_FX("OB-003", handle_of_a_user)
{
    ObReferenceObjectByHandle((HANDLE)(uintptr_t)0x44, 0, NULL, KernelMode, &object, NULL);
}

VIOLATION_FX("OB-004", reference_kept)
{
    ObReferenceObjectByHandle(fx.key, 0, NULL, KernelMode, &object, NULL);
    sim_driver_unload();
}

OUTCOME_FX("OB-007", last_reference_deletes)
{
    PEPROCESS process;
    const struct sim_process user = {.pid = 100};

    sim_process_existing(&user, NULL);
    PsLookupProcessByProcessId(PID(100), &process);
    sim_process_exit(100, 0);
    EXPECT(PsGetProcessId(process) == PID(100)); /* until here, by our reference */
    EXPECT(ObfDereferenceObject(process) == 0);
}

VIOLATION_FX("OB-006", dead_object)
{
    PEPROCESS process;
    const struct sim_process user = {.pid = 100};

    sim_process_existing(&user, NULL);
    PsLookupProcessByProcessId(PID(100), &process);
    sim_process_exit(100, 0);
    ObDereferenceObject(process);
    ObReferenceObject(process);
}

VIOLATION_FX("OB-009", handle_in_the_process)
{
    ObOpenObjectByPointer(fx.process, 0, NULL, 0, NULL, KernelMode, &fx.token);
}

VIOLATION_FX("OB-010", user_open_without_a_type)
{
    ObOpenObjectByPointer(fx.process, OBJ_KERNEL_HANDLE, NULL, 0, NULL, UserMode, &fx.token);
}

OUTCOME_FX("OB-012", process_that_is_going)
{
    const struct sim_process user = {.pid = 100, .going = true};
    PEPROCESS process;

    sim_process_existing(&user, NULL);
    PsLookupProcessByProcessId(PID(100), &process);
    EXPECT_STATUS(0xC000010A, ObOpenObjectByPointer(process, OBJ_KERNEL_HANDLE, NULL, 0, NULL,
                                                    KernelMode, &fx.token));
}

VIOLATION_FX("OB-013", handle_kept)
{
    sim_driver_unload();
}

OUTCOME_FX("OB-015 OB-016", names_of_objects)
{
    PVOID file;
    OBJECT_NAME_INFORMATION *name = (void *)buffer;

    EXPECT_STATUS(0, ObReferenceObjectByHandle(fx.file, 0, NULL, KernelMode, &file, NULL));
    EXPECT_STATUS(0xC0000004, ObQueryNameString(file, name, 0, &returned));
    EXPECT(returned > sizeof(*name));
    EXPECT_STATUS(0, ObQueryNameString(file, name, returned, &returned));
    EXPECT(name->Name.Length > 0);
    EXPECT_STATUS(0, ObQueryNameString(fx.process, name, sizeof(buffer), &returned));
    EXPECT(!name->Name.Buffer && name->Name.Length == 0 && name->Name.MaximumLength == 0);
}

static void file_name(void)
{
    PVOID file;

    ObReferenceObjectByHandle(fx.file, 0, NULL, KernelMode, &file, NULL);
    sim_set_apcs_disabled(true);
    ObQueryNameString(file, (void *)buffer, sizeof(buffer), &returned);
}

VIOLATION_FX("OB-017", file_name_without_apcs)
{
    file_name();
}

VIOLATION_FX("OB-017", file_name_inside_a_file_system)
{
    PVOID file;

    ObReferenceObjectByHandle(fx.file, 0, NULL, KernelMode, &file, NULL);
    sim_set_top_level_irp(true);
    ObQueryNameString(file, (void *)buffer, sizeof(buffer), &returned);
}

/* --- files ----------------------------------------------------------------------------------- */

static NTSTATUS open_as(const uint16_t *text, ULONG access, ULONG share, ULONG disposition,
                        ULONG options, HANDLE *file)
{
    UNICODE_STRING name = rules_string(text);
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);

    return ZwCreateFile(file, access, &attributes, &io, NULL, 0, share, disposition, options, NULL,
                        0);
}

#define NEW u"\\??\\C:\\Windows\\Temp\\new.txt"
#define APPEND (FILE_APPEND_DATA | SYNCHRONIZE)
#define SYNC FILE_SYNCHRONOUS_IO_NONALERT

static void any_open(void)
{
    HANDLE file;

    open_as(NEW, APPEND, 0, FILE_OPEN_IF, SYNC, &file);
}

static NTSTATUS write_some(HANDLE file, ULONG bytes)
{
    return ZwWriteFile(file, NULL, NULL, NULL, &io, buffer, bytes, NULL, NULL);
}

static NTSTATUS list_some(ULONG bytes)
{
    return ZwQueryDirectoryFile(fx.folder, NULL, NULL, NULL, &io, buffer, bytes,
                                FileDirectoryInformation, FALSE, NULL, FALSE);
}

static void delete_some(void)
{
    UNICODE_STRING name = rules_string(u"\\??\\C:\\Windows\\Temp\\none");
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);

    ZwDeleteFile(&attributes);
}

LEVEL_VOID("ZW-001", PASSIVE_LEVEL, any_open());
LEVEL("ZW-001", PASSIVE_LEVEL, write_some(fx.file, 1));
LEVEL("ZW-001", PASSIVE_LEVEL, list_some(512));
LEVEL("ZW-001", PASSIVE_LEVEL, ZwFlushBuffersFile(fx.file, &io));
LEVEL_VOID("ZW-001", PASSIVE_LEVEL, delete_some());
LEVEL("ZW-001", PASSIVE_LEVEL, ZwSetSecurityObject(fx.file, DACL_SECURITY_INFORMATION, NULL));
LEVEL("ZW-019", PASSIVE_LEVEL, ZwClose(fx.token));

VIOLATION_FX("ZW-001", write_without_apcs)
{
    sim_set_apcs_disabled(true);
    write_some(fx.file, 1);
}

VIOLATION_FX("ZW-001", write_inside_a_file_system)
{
    sim_set_top_level_irp(true);
    write_some(fx.file, 1);
}

VIOLATION("ZW-002", synchronous_without_the_right)
{
    HANDLE file;

    open_as(NEW, FILE_APPEND_DATA, 0, FILE_OPEN_IF, SYNC, &file);
}

VIOLATION("ZW-002", synchronous_in_both_ways)
{
    HANDLE file;

    open_as(NEW, APPEND, 0, FILE_OPEN_IF, 0x30, &file);
}

VIOLATION("ZW-003", directory_with_other_options)
{
    HANDLE file;

    open_as(NEW, APPEND, 0, FILE_OPEN_IF, SYNC | FILE_DIRECTORY_FILE | FILE_SEQUENTIAL_ONLY, &file);
}

VIOLATION("ZW-003", unbuffered_append)
{
    HANDLE file;

    open_as(NEW, APPEND, 0, FILE_OPEN_IF, SYNC | 0x8, &file);
}

VIOLATION("ZW-003", delete_on_close_without_the_right)
{
    HANDLE file;

    open_as(NEW, APPEND, 0, FILE_OPEN_IF, SYNC | 0x1000, &file);
}

VIOLATION("ZW-004", file_handle_of_the_process)
{
    UNICODE_STRING name = rules_string(NEW);
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    HANDLE file;

    attributes.Attributes = 0;
    ZwCreateFile(&file, APPEND, &attributes, &io, NULL, 0, 0, FILE_OPEN_IF, SYNC, NULL, 0);
}

OUTCOME("ZW-005 ZW-006 ZW-007", opens)
{
    HANDLE file;
    HANDLE second;

    EXPECT_STATUS(0, open_as(NEW, APPEND, 0, FILE_OPEN_IF, SYNC, &file));
    EXPECT(io.Information == 2); /* created */
    EXPECT_STATUS(0xC0000043, open_as(NEW, APPEND, 3, FILE_OPEN_IF, SYNC, &second));
    ZwClose(file);
    EXPECT_STATUS(0, open_as(NEW, APPEND, FILE_SHARE_READ, FILE_OPEN_IF, SYNC, &file));
    EXPECT(io.Information == 1); /* opened */
    EXPECT_STATUS(0, open_as(NEW, FILE_READ_DATA | SYNCHRONIZE, 3, FILE_OPEN, SYNC, &second));
    ZwClose(second);
    sim_status_next("ZwCreateFile", STATUS(0x00000108), 1);
    second = NULL;
    EXPECT_STATUS(0x108, open_as(NEW, FILE_READ_DATA | SYNCHRONIZE, 3, FILE_OPEN, SYNC, &second));
    EXPECT(second != NULL); /* a success */
}

OUTCOME_FX("ZW-008 ZW-009", writes)
{
    LARGE_INTEGER zero = {.QuadPart = 0};
    HANDLE reader;

    EXPECT_STATUS(0, write_some(fx.file, 10));
    EXPECT(io.Information == 10);
    /* For appending only: the place that is named does not count. */
    EXPECT_STATUS(0, ZwWriteFile(fx.file, NULL, NULL, NULL, &io, buffer, 10, &zero, NULL));
    EXPECT(sim_disk_written() == 20);
    sim_disk_short_write(3);
    EXPECT_STATUS(0, write_some(fx.file, 10));
    EXPECT(io.Information == 3);
    EXPECT_STATUS(0xC0000043, open_as(u"\\??\\C:\\Windows\\Temp\\rules.txt",
                                      FILE_WRITE_DATA | SYNCHRONIZE, 3, FILE_OPEN, SYNC, &reader));
}

VIOLATION("ZW-010", asynchronous_write)
{
    HANDLE file;

    open_as(NEW, FILE_APPEND_DATA, 0, FILE_OPEN_IF, 0, &file);
    write_some(file, 4);
}

OUTCOME("ZW-012 ZW-013 ZW-014 ZW-015 ZW-016 ZW-017", listings)
{
    FILE_DIRECTORY_INFORMATION *entry = (void *)buffer;
    UNICODE_STRING none = rules_string(u"nothing*");
    UNICODE_STRING all = rules_string(u"*");
    unsigned count = 1;
    HANDLE file;

    EXPECT_STATUS(0, open_as(NEW, APPEND, 0, FILE_OPEN_IF, SYNC, &file));
    EXPECT_STATUS(0, open_as(u"\\??\\C:\\Windows\\Temp", FILE_LIST_DIRECTORY | SYNCHRONIZE, 3,
                             FILE_OPEN, SYNC | FILE_DIRECTORY_FILE, &fx.folder));
    EXPECT_STATUS(0xC000000F, ZwQueryDirectoryFile(fx.folder, NULL, NULL, NULL, &io, buffer, 512, 1,
                                                   FALSE, &none, FALSE));
    /* What is looked for was said by the first call. */
    EXPECT_STATUS(0x80000006, ZwQueryDirectoryFile(fx.folder, NULL, NULL, NULL, &io, buffer, 512, 1,
                                                   FALSE, &all, TRUE));
    ZwClose(fx.folder);
    EXPECT_STATUS(0, open_as(u"\\??\\C:\\Windows\\Temp", FILE_LIST_DIRECTORY | SYNCHRONIZE, 3,
                             FILE_OPEN, SYNC | FILE_DIRECTORY_FILE, &fx.folder));
    EXPECT_STATUS(0xC0000023, list_some(8));
    ZwClose(fx.folder);
    EXPECT_STATUS(0, open_as(u"\\??\\C:\\Windows\\Temp", FILE_LIST_DIRECTORY | SYNCHRONIZE, 3,
                             FILE_OPEN, SYNC | FILE_DIRECTORY_FILE, &fx.folder));
    EXPECT_STATUS(0x80000005, list_some(64));
    EXPECT(io.Information == 64 && entry->FileNameLength == 2); /* "." */
    EXPECT_STATUS(0, list_some(64));
    EXPECT(io.Information == 0); /* nothing, and a success */
    EXPECT_STATUS(0, list_some(512));
    for (; entry->NextEntryOffset; count++)
        entry = (void *)((uint8_t *)entry + entry->NextEntryOffset);
    EXPECT(count == 3 && entry->FileNameLength == 14);
    EXPECT_STATUS(0x80000006, list_some(512));
}

OUTCOME("ZW-018", deletes)
{
    UNICODE_STRING name = rules_string(NEW);
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    HANDLE file;

    EXPECT_STATUS(0xC0000034, ZwDeleteFile(&attributes));
    EXPECT_STATUS(0, open_as(NEW, APPEND, 0, FILE_OPEN_IF, SYNC, &file));
    EXPECT_STATUS(0xC0000043, ZwDeleteFile(&attributes));
    ZwClose(file);
    EXPECT_STATUS(0, ZwDeleteFile(&attributes));
}

VIOLATION("ZW-020", closes_nothing)
{
    ZwClose((HANDLE)(uintptr_t)0xFFFFFFFF80001000u);
}

/* --- keys ------------------------------------------------------------------------------------ */

#define SERVICES u"\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services"

static NTSTATUS open_key(ULONG access, ULONG flags, HANDLE *key)
{
    UNICODE_STRING name = rules_string(SERVICES);
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);

    attributes.Attributes = flags;
    return ZwOpenKey(key, access, &attributes);
}

LEVEL("ZW-021", PASSIVE_LEVEL, open_key(KEY_QUERY_VALUE, OBJ_KERNEL_HANDLE, &fx.token));

VIOLATION("ZW-021", key_without_apcs)
{
    HANDLE key;

    sim_set_apcs_disabled(true);
    open_key(KEY_QUERY_VALUE, OBJ_KERNEL_HANDLE, &key);
}

OUTCOME("ZW-022", key_that_is_not_there)
{
    UNICODE_STRING name = rules_string(u"\\REGISTRY\\MACHINE\\none");
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    HANDLE key = (HANDLE)(uintptr_t)0x1234;

    EXPECT_STATUS(0xC0000034, ZwOpenKey(&key, KEY_QUERY_VALUE, &attributes));
    EXPECT(key == (HANDLE)(uintptr_t)0x1234);
    attributes.RootDirectory = (HANDLE)(uintptr_t)0xFFFFFFFF80001000u;
    EXPECT_STATUS(0xC0000008, ZwOpenKey(&key, KEY_QUERY_VALUE, &attributes));
}

VIOLATION("ZW-023", key_handle_of_the_process)
{
    HANDLE key;

    open_key(KEY_QUERY_VALUE, 0, &key);
}

static NTSTATUS query(HANDLE key, ULONG room)
{
    UNICODE_STRING name = rules_string(u"v");

    return ZwQueryValueKey(key, &name, KeyValuePartialInformation, buffer, room, &returned);
}

OUTCOME_FX("ZW-024 ZW-025 ZW-026", values)
{
    const struct sim_registry odd = {
        .key = SIM_STR(SERVICES), .name = SIM_STR(u"v"), .type = REG_SZ, .data = "abc", .size = 3};
    KEY_VALUE_PARTIAL_INFORMATION *value = (void *)buffer;
    HANDLE key;

    EXPECT_STATUS(0xC0000034, query(fx.key, 64));
    sim_registry_preset(&odd);
    EXPECT_STATUS(0xC0000023, query(fx.key, 4));
    EXPECT(returned == 15);
    EXPECT_STATUS(0x80000005, query(fx.key, 13));
    EXPECT(returned == 15 && value->DataLength == 3 && value->Data[0] == 'a');
    EXPECT_STATUS(0, query(fx.key, 15)); /* odd, and without an end */
    EXPECT(value->Type == REG_SZ && value->DataLength == 3);
    EXPECT_STATUS(0, open_key(KEY_SET_VALUE, OBJ_KERNEL_HANDLE, &key));
    EXPECT_STATUS(0xC0000022, query(key, 64));
}

static NTSTATUS set(HANDLE key, ULONG title, ULONG type, ULONG size)
{
    UNICODE_STRING name = rules_string(u"v");

    return ZwSetValueKey(key, &name, title, type, (PVOID)(uintptr_t)u"ab", size);
}

OUTCOME_FX("ZW-027", set_value)
{
    HANDLE key;

    EXPECT_STATUS(0, set(fx.key, 0, REG_SZ, 6));
    EXPECT_STATUS(0, open_key(KEY_QUERY_VALUE, OBJ_KERNEL_HANDLE, &key));
    EXPECT_STATUS(0xC0000022, set(key, 0, REG_SZ, 6));
}

VIOLATION_FX("ZW-027", string_without_its_end)
{
    set(fx.key, 0, REG_SZ, 4);
}

VIOLATION_FX("ZW-027", title_index)
{
    set(fx.key, 1, REG_SZ, 6);
}

/* --- descriptors ----------------------------------------------------------------------------- */

OUTCOME_FX("ZW-035 ZW-036", descriptors)
{
    uint8_t malformed[20] = {9};
    uint8_t empty[20] = {1, 0, 0, 0x80};
    HANDLE file;

    EXPECT_STATUS(0xC0000005, ZwSetSecurityObject(fx.file, DACL_SECURITY_INFORMATION, NULL));
    EXPECT_STATUS(0xC0000079, ZwSetSecurityObject(fx.file, DACL_SECURITY_INFORMATION, malformed));
    EXPECT_STATUS(0, ZwSetSecurityObject(fx.file, DACL_SECURITY_INFORMATION, empty));
    EXPECT_STATUS(0, open_as(NEW, APPEND, 0, FILE_OPEN_IF, SYNC, &file));
    EXPECT_STATUS(0xC0000022, ZwSetSecurityObject(file, DACL_SECURITY_INFORMATION, empty));
}
