/*
 * rules_query.c - what is asked about processes and threads, the driver's own threads, tokens.
 */
#include "rules.h"

LEVEL("PS-079", APC_LEVEL, PsLookupProcessByProcessId(PID(4), &fx.process));
LEVEL("PS-083", APC_LEVEL, PsLookupThreadByThreadId(PID(fx.tid), &fx.thread));
LEVEL("PS-086", HIGH_LEVEL, PsGetCurrentProcessId());
LEVEL("PS-087", HIGH_LEVEL, PsGetCurrentThreadId());
LEVEL("PS-088", HIGH_LEVEL, PsGetProcessId(fx.process));
LEVEL("PS-089", HIGH_LEVEL, PsGetProcessCreateTimeQuadPart(fx.process));
LEVEL("PS-092", DISPATCH_LEVEL, PsGetProcessExitTime().QuadPart);
LEVEL("PS-095", APC_LEVEL, PsGetProcessExitStatus(fx.process));
LEVEL("PS-098", APC_LEVEL, PsGetThreadExitStatus(fx.thread));

static void locate_name(void)
{
    PUNICODE_STRING name;

    SeLocateProcessImageName(fx.process, &name);
}

LEVEL_VOID("PS-103", PASSIVE_LEVEL, locate_name());

static void query_class(ULONG class_)
{
    uint8_t buffer[256];
    ULONG returned;

    ZwQueryInformationProcess(fx.process_handle, class_, buffer, sizeof(buffer), &returned);
}

LEVEL_VOID("PS-123", PASSIVE_LEVEL, query_class(ProcessCommandLineInformation));

static NTSTATUS open_user(ULONG access, PEPROCESS *process, HANDLE *handle)
{
    const struct sim_process user = {.image = SIM_STR(u"\\Device\\user.exe"),
                                     .command_line = SIM_STR(u"user.exe -x"),
                                     .protection = 0x72,
                                     .wow64 = true,
                                     .sid_size = 0};

    EXPECT_STATUS(0, sim_process_existing(&user, &fx.pid));
    EXPECT_STATUS(0, PsLookupProcessByProcessId(PID(fx.pid), process));
    return ObOpenObjectByPointer(*process, OBJ_KERNEL_HANDLE, NULL, access, NULL, KernelMode,
                                 handle);
}

VIOLATION("PS-123", query_without_apcs)
{
    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    sim_set_apcs_disabled(true);
    query_class(ProcessBasicInformation);
}

OUTCOME("PS-080 PS-082 PS-084", look_ups_that_fail)
{
    PEPROCESS process = (PEPROCESS)(uintptr_t)0x1234;
    PETHREAD thread = (PETHREAD)(uintptr_t)0x1234;

    EXPECT_STATUS(0xC000000B, PsLookupProcessByProcessId(PID(99999), &process));
    EXPECT(process == (PEPROCESS)(uintptr_t)0x1234);
    EXPECT_STATUS(0xC000000D, PsLookupThreadByThreadId(PID(99999), &thread));
    EXPECT(thread == (PETHREAD)(uintptr_t)0x1234);
}

VIOLATION("PS-081", process_reference_kept)
{
    PsLookupProcessByProcessId(PID(4), &fx.process);
    sim_driver_unload();
}

VIOLATION("PS-085", thread_reference_kept)
{
    PsLookupThreadByThreadId(PID(8), &fx.thread);
    sim_driver_unload();
}

OUTCOME("PS-090", create_time_stays)
{
    LONGLONG before;

    PsLookupProcessByProcessId(PID(4), &fx.process);
    before = PsGetProcessCreateTimeQuadPart(fx.process);
    sim_clock_correct(-36000000000);
    EXPECT(PsGetProcessCreateTimeQuadPart(fx.process) == before);
}

OUTCOME("PS-093 PS-094 PS-097 PS-099", exit_of_the_current_process)
{
    struct sim_thread thread = {.tid = 0};
    const struct sim_process user = {.pid = 100};

    sim_process_existing(&user, NULL);
    thread.pid = 100;
    sim_thread_create(&thread, &fx.tid);
    PsLookupProcessByProcessId(PID(100), &fx.process);
    PsLookupThreadByThreadId(PID(fx.tid), &fx.thread);
    EXPECT_STATUS(0x103, PsGetProcessExitStatus(fx.process));
    EXPECT_STATUS(0x103, PsGetThreadExitStatus(fx.thread));
    EXPECT(sim_process_exit(100, 7));
    /* This thread's process lives: the function has no other answer. */
    EXPECT(PsGetProcessExitTime().QuadPart == 0);
    EXPECT_STATUS(7, PsGetProcessExitStatus(fx.process));
    EXPECT_STATUS(7, PsGetThreadExitStatus(fx.thread));
}

OUTCOME("PS-101", thread_ids_come_again)
{
    const struct sim_thread thread = {.pid = 4, .tid = 500};
    PETHREAD first;
    PETHREAD second;

    sim_thread_create(&thread, NULL);
    PsLookupThreadByThreadId(PID(500), &first);
    sim_thread_exit(500, 0);
    EXPECT_STATUS(0, sim_thread_create(&thread, NULL));
    PsLookupThreadByThreadId(PID(500), &second);
    EXPECT(first != second);
}

VIOLATION("PS-104", image_name_kept)
{
    PUNICODE_STRING name;

    PsLookupProcessByProcessId(PID(4), &fx.process);
    SeLocateProcessImageName(fx.process, &name);
    ObDereferenceObject(fx.process);
    sim_driver_unload();
}

OUTCOME("PS-104 PS-105 PS-106", image_names)
{
    PUNICODE_STRING name;

    PsLookupProcessByProcessId(PID(4), &fx.process);
    EXPECT_STATUS(0, SeLocateProcessImageName(fx.process, &name));
    EXPECT(name->Length == 0);
    ExFreePool(name);
    sim_status_next("SeLocateProcessImageName", STATUS_NOT_FOUND, 1);
    EXPECT_STATUS(0xC0000225, SeLocateProcessImageName(fx.process, &name));
}

/* --- the driver's threads -------------------------------------------------------------------- */

static _Atomic bool thread_ran;
static _Atomic bool thread_waits;

static VOID thread_routine(PVOID context)
{
    (void)context;
    EXPECT(KeGetCurrentIrql() == PASSIVE_LEVEL && KeAreApcsDisabled() && !KeAreAllApcsDisabled());
    EXPECT(PsGetCurrentProcessId() == PID(4));
    thread_ran = true;
    while (thread_waits)
        usleep(1000);
}

static NTSTATUS make_thread(ULONG attributes, HANDLE process, HANDLE *handle)
{
    OBJECT_ATTRIBUTES with = rules_attributes(NULL, attributes);

    return PsCreateSystemThread(handle, THREAD_ALL_ACCESS, &with, process, NULL, thread_routine,
                                NULL);
}

static void make_any_thread(void)
{
    HANDLE handle;

    make_thread(0, NULL, &handle);
}

LEVEL_VOID("PS-107", PASSIVE_LEVEL, make_any_thread());

VIOLATION("PS-108", thread_attributes)
{
    HANDLE handle;

    make_thread(0x80, NULL, &handle); /* OBJ_OPENIF */
}

VIOLATION("PS-109", thread_of_another_process)
{
    HANDLE handle;

    make_thread(0, (HANDLE)(uintptr_t)-1, &handle);
}

static void join(HANDLE handle)
{
    PVOID thread;

    EXPECT_STATUS(0, ObReferenceObjectByHandle(handle, 0, NULL, KernelMode, &thread, NULL));
    KeWaitForSingleObject(thread, Executive, KernelMode, FALSE, NULL);
    ObDereferenceObject(thread);
}

VIOLATION("PS-110", thread_handle_kept)
{
    HANDLE handle;

    make_thread(0, NULL, &handle);
    join(handle);
    sim_driver_unload();
}

OUTCOME("PS-109 PS-110 PS-111", thread_begins)
{
    HANDLE handle;

    thread_waits = true;
    EXPECT_STATUS(0, make_thread(0, NULL, &handle));
    while (!thread_ran)
        usleep(1000);
    ZwClose(handle); /* and the thread goes on */
    thread_waits = false;
}

VIOLATION("PS-112", thread_outlives_the_driver)
{
    HANDLE handle;

    thread_waits = true;
    make_thread(0, NULL, &handle);
    ZwClose(handle);
    sim_driver_unload();
}

static void terminate(void)
{
    const struct sim_process user = {.pid = 100};

    sim_process_existing(&user, NULL);
    sim_enter(100, 0);
    EXPECT_STATUS(0xC000000D, PsTerminateSystemThread(0));
}

OUTCOME("PS-115", only_system_threads_end_so)
{
    terminate();
}

VIOLATION("PS-114", terminates_another_thread)
{
    PsTerminateSystemThread(0);
}

/* --- queries --------------------------------------------------------------------------------- */

OUTCOME("PS-116 PS-117 PS-118 PS-119", strings_of_a_process)
{
    const ULONG classes[] = {27, ProcessCommandLineInformation};
    uint8_t buffer[256];

    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    for (size_t i = 0; i < 2; i++) {
        ULONG returned = 0;
        UNICODE_STRING *string = (void *)buffer;
        EXPECT_STATUS(0xC0000004, ZwQueryInformationProcess(fx.process_handle, classes[i], buffer,
                                                            4, &returned));
        EXPECT(returned > sizeof(UNICODE_STRING) && returned < sizeof(buffer));
        EXPECT_STATUS(
            0, ZwQueryInformationProcess(fx.process_handle, classes[i], buffer, returned, NULL));
        EXPECT((uint8_t *)string->Buffer > buffer && (uint8_t *)string->Buffer < buffer + returned);
    }
    ObOpenObjectByPointer(fx.process, OBJ_KERNEL_HANDLE, NULL, 0, NULL, KernelMode, &fx.token);
}

OUTCOME("PS-120 PS-121 PS-122 PS-124", numbers_of_a_process)
{
    ULONG_PTR wow64 = 0;
    UCHAR protection = 0;
    ULONG subsystem = 7;
    ULONG returned;

    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    EXPECT_STATUS(0, ZwQueryInformationProcess(fx.process_handle, 26, &wow64, 8, &returned));
    EXPECT(wow64 != 0 && returned == 8);
    EXPECT_STATUS(0, ZwQueryInformationProcess(fx.process_handle, ProcessProtectionInformation,
                                               &protection, 1, &returned));
    EXPECT(protection == 0x72);
    EXPECT_STATUS(0, ZwQueryInformationProcess(fx.process_handle, ProcessSubsystemInformation,
                                               &subsystem, 4, &returned));
    EXPECT(subsystem == 0);
    EXPECT_STATUS(0xC0000003,
                  ZwQueryInformationProcess(fx.process_handle, 999, &subsystem, 4, &returned));
    sim_status_class("ZwQueryInformationProcess", ProcessProtectionInformation, STATUS(0xC0000003),
                     1);
    EXPECT_STATUS(0, ZwQueryInformationProcess(fx.process_handle, 26, &wow64, 8, &returned));
    EXPECT_STATUS(0xC0000003,
                  ZwQueryInformationProcess(fx.process_handle, ProcessProtectionInformation,
                                            &protection, 1, &returned));
}

OUTCOME("PS-125 PS-126", start_of_a_thread)
{
    const struct sim_thread thread = {.pid = 4, .tid = 500, .start_address = 0x7FF612345678};
    uint64_t start = 0;
    ULONG returned = 0;

    sim_thread_create(&thread, NULL);
    PsLookupThreadByThreadId(PID(500), &fx.thread);
    ObOpenObjectByPointer(fx.thread, OBJ_KERNEL_HANDLE, NULL, THREAD_QUERY_INFORMATION, NULL,
                          KernelMode, &fx.thread_handle);
    EXPECT_STATUS(0xC0000004,
                  ZwQueryInformationThread(fx.thread_handle, ThreadQuerySetWin32StartAddress,
                                           &start, 4, &returned));
    EXPECT(returned == 8);
    EXPECT_STATUS(0, ZwQueryInformationThread(fx.thread_handle, ThreadQuerySetWin32StartAddress,
                                              &start, 8, &returned));
    EXPECT(start == 0x7FF612345678 && returned == 8);
}

static void one_more(void *unused)
{
    const struct sim_process user = {.image = SIM_STR(u"\\more.exe")};

    (void)unused;
    sim_process_existing(&user, NULL);
}

OUTCOME("PS-127 PS-128", list_of_processes)
{
    static uint8_t buffer[8192];
    SYSTEM_PROCESS_INFORMATION *entry = (void *)buffer;
    ULONG needed = 0;
    ULONG count = 1;

    EXPECT_STATUS(0xC0000004,
                  ZwQuerySystemInformation(SystemProcessInformation, buffer, 8, &needed));
    /* What fitted a moment ago does not any more. */
    sim_meanwhile("ZwQuerySystemInformation", 1, one_more, NULL);
    EXPECT_STATUS(0xC0000004,
                  ZwQuerySystemInformation(SystemProcessInformation, buffer, needed, &needed));
    EXPECT_STATUS(
        0, ZwQuerySystemInformation(SystemProcessInformation, buffer, sizeof(buffer), &needed));
    EXPECT(entry->ImageName.Length == 0 && entry->UniqueProcessId == NULL);
    for (; entry->NextEntryOffset; count++)
        entry = (void *)((uint8_t *)entry + entry->NextEntryOffset);
    EXPECT(count == 3);
}

OUTCOME("PS-129 PS-130 PS-131 PS-133 PS-134", ranges_of_memory)
{
    const struct sim_memory heap = {0x20000, 0x3000, 0x20000, 4};
    const struct sim_image image = {.path = SIM_STR(u"\\x.dll"), .base = 0x50000, .size = 0x4000};
    struct sim_image load = image;
    ULONG64 basic[6];
    SIZE_T returned;

    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    load.pid = fx.pid;
    sim_image_load(&load);
    EXPECT(sim_memory_add(fx.pid, &heap));
    EXPECT_STATUS(0, ZwQueryVirtualMemory(fx.process_handle, (PVOID)(uintptr_t)0x21234, 0, basic,
                                          sizeof(basic), &returned));
    EXPECT(basic[0] == 0x21000 && basic[1] == 0x20000 && basic[3] == 0x2000);
    EXPECT((ULONG)basic[5] == 0x20000 && (ULONG)basic[4] == 0x1000);
    EXPECT_STATUS(0, ZwQueryVirtualMemory(fx.process_handle, (PVOID)(uintptr_t)0x50000, 0, basic,
                                          sizeof(basic), &returned));
    EXPECT((ULONG)basic[5] == 0x1000000);
    EXPECT_STATUS(0, ZwQueryVirtualMemory(fx.process_handle, (PVOID)(uintptr_t)0x90000, 0, basic,
                                          sizeof(basic), &returned));
    EXPECT((ULONG)basic[4] == 0x10000 && basic[1] == 0xEEEEEEEEEEEEEEEE);
    EXPECT_STATUS(0xC000000D, ZwQueryVirtualMemory(fx.process_handle, (PVOID)(uintptr_t)-4096, 0,
                                                   basic, sizeof(basic), &returned));
    EXPECT_STATUS(0xC0000004, ZwQueryVirtualMemory(fx.process_handle, NULL, 0, basic, 8, NULL));
    EXPECT_STATUS(0xC0000003, ZwQueryVirtualMemory(fx.process_handle, NULL, 77, basic, 48, NULL));
    sim_status_class("ZwQueryVirtualMemory", MemoryMappedFilenameInformation, STATUS(0xC0000003),
                     1);
    EXPECT_STATUS(0xC0000003,
                  ZwQueryVirtualMemory(fx.process_handle, (PVOID)(uintptr_t)0x50000,
                                       MemoryMappedFilenameInformation, basic, 48, &returned));
}

VIOLATION("OB-017", mapped_file_name_inside_a_file_system)
{
    ULONG64 buffer[32];

    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    sim_set_top_level_irp(true);
    ZwQueryVirtualMemory(fx.process_handle, NULL, MemoryMappedFilenameInformation, buffer,
                         sizeof(buffer), NULL);
}

/* --- tokens ---------------------------------------------------------------------------------- */

static void open_token(ULONG attributes)
{
    ZwOpenProcessTokenEx(fx.process_handle, TOKEN_QUERY, attributes, &fx.token);
}

LEVEL_VOID("ZW-028", PASSIVE_LEVEL, open_token(OBJ_KERNEL_HANDLE));

static NTSTATUS query_token(ULONG class_, PVOID buffer, ULONG length)
{
    ULONG returned;

    return ZwQueryInformationToken(fx.token, class_, buffer, length, &returned);
}

LEVEL("ZW-032", PASSIVE_LEVEL, query_token(TokenSessionId, &fx.pid, 4));

VIOLATION("ZW-029", token_attributes)
{
    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    open_token(OBJ_KERNEL_HANDLE | OBJ_CASE_INSENSITIVE);
}

VIOLATION("ZW-029", token_handle_of_the_process)
{
    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    open_token(0);
}

OUTCOME("ZW-029 ZW-030", token_of_a_handle_that_may_not)
{
    EXPECT_STATUS(0, open_user(PROCESS_QUERY_LIMITED_INFORMATION, &fx.process, &fx.process_handle));
    EXPECT_STATUS(0xC0000022, ZwOpenProcessTokenEx(fx.process_handle, TOKEN_QUERY,
                                                   OBJ_KERNEL_HANDLE, &fx.token));
    EXPECT_STATUS(0xC0000008, ZwOpenProcessTokenEx((HANDLE)(uintptr_t)0x44, TOKEN_QUERY,
                                                   OBJ_KERNEL_HANDLE, &fx.token));
}

VIOLATION("ZW-031", token_kept)
{
    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    open_token(OBJ_KERNEL_HANDLE);
    ZwClose(fx.process_handle);
    ObDereferenceObject(fx.process);
    sim_driver_unload();
}

OUTCOME("ZW-033 ZW-034", user_of_a_token)
{
    uint8_t buffer[128];
    SID_AND_ATTRIBUTES *user = (void *)buffer;
    ULONG returned = 0;

    EXPECT_STATUS(0, open_user(PROCESS_QUERY_INFORMATION, &fx.process, &fx.process_handle));
    open_token(OBJ_KERNEL_HANDLE);
    EXPECT_STATUS(0xC0000023, ZwQueryInformationToken(fx.token, TokenUser, buffer, 4, &returned));
    EXPECT(returned == sizeof(*user) + 12);
    EXPECT_STATUS(0, ZwQueryInformationToken(fx.token, TokenUser, buffer, returned, &returned));
    EXPECT((uint8_t *)user->Sid == buffer + sizeof(*user));
    ZwClose(fx.token);
    ZwOpenProcessTokenEx(fx.process_handle, 0, OBJ_KERNEL_HANDLE, &fx.token);
    EXPECT_STATUS(0xC0000022, query_token(TokenSessionId, buffer, 4));
}
