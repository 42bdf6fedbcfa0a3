/*
 * rules_ps.c - notifications of processes, threads and images.
 */
#include "rules.h"

#include <pthread.h>

static VOID on_process(PEPROCESS process, HANDLE pid, PPS_CREATE_NOTIFY_INFO info);
static VOID on_thread(HANDLE pid, HANDLE tid, BOOLEAN create);
static VOID on_image(PUNICODE_STRING name, HANDLE pid, PIMAGE_INFO info);

/* What the routines saw last, and what they are to do. */
static struct {
    unsigned calls;
    unsigned creations;
    unsigned exits;
    HANDLE pid;
    HANDLE tid;
    HANDLE current_pid;
    HANDLE current_tid;
    PS_CREATE_NOTIFY_INFO info;
    bool has_info;
    bool has_name;
    IMAGE_INFO image;
    PFILE_OBJECT file;
    SIZE_T image_size;
    KIRQL irql;
    BOOLEAN apcs;
    BOOLEAN all_apcs;
    LARGE_INTEGER exit_time;
    char order[16];
} seen;
static NTSTATUS creation_status;
static void (*inside)(void);

static void note(char what)
{
    size_t used = strlen(seen.order);

    seen.calls++;
    seen.irql = KeGetCurrentIrql();
    seen.apcs = KeAreApcsDisabled();
    seen.all_apcs = KeAreAllApcsDisabled();
    seen.current_pid = PsGetCurrentProcessId();
    seen.current_tid = PsGetCurrentThreadId();
    if (used + 1 < sizeof(seen.order))
        seen.order[used] = what;
    if (inside)
        inside();
}

static VOID on_process(PEPROCESS process, HANDLE pid, PPS_CREATE_NOTIFY_INFO info)
{
    (void)process;
    seen.pid = pid;
    seen.has_info = info != NULL;
    if (info) {
        seen.creations++;
        seen.info = *info;
        if (creation_status)
            info->CreationStatus = creation_status;
    } else {
        seen.exits++;
        seen.exit_time = PsGetProcessExitTime();
    }
    note(info ? 'P' : 'p');
}

static VOID on_thread(HANDLE pid, HANDLE tid, BOOLEAN create)
{
    seen.pid = pid;
    seen.tid = tid;
    note(create ? 'T' : 't');
}

static VOID on_image(PUNICODE_STRING name, HANDLE pid, PIMAGE_INFO info)
{
    seen.pid = pid;
    seen.has_name = name != NULL;
    seen.image = *info;
    seen.file = NULL;
    if (info->Properties & KDA_IMAGE_EXTENDED_INFO) {
        seen.file = CONTAINING_RECORD(info, IMAGE_INFO_EX, ImageInfo)->FileObject;
        seen.image_size = CONTAINING_RECORD(info, IMAGE_INFO_EX, ImageInfo)->Size;
    }
    note('I');
}

static void watch(void)
{
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    EXPECT_STATUS(0, PsSetCreateThreadNotifyRoutine(on_thread));
    EXPECT_STATUS(0, PsSetLoadImageNotifyRoutine(on_image));
}

static uint32_t make_process(void)
{
    const struct sim_process p = {.image = SIM_STR(u"\\??\\C:\\a.exe"),
                                  .command_line = SIM_STR(u"a.exe")};
    uint32_t pid = 0;

    EXPECT_STATUS(0, sim_process_create(&p, &pid));
    return pid;
}

/* --- registration ---------------------------------------------------------------------------- */

LEVEL("PS-001", PASSIVE_LEVEL, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
LEVEL("PS-035", PASSIVE_LEVEL, PsSetCreateThreadNotifyRoutine(on_thread));
LEVEL("PS-043", APC_LEVEL, PsRemoveCreateThreadNotifyRoutine(on_thread));
LEVEL("PS-053", PASSIVE_LEVEL, PsSetLoadImageNotifyRoutine(on_image));
LEVEL("PS-060", APC_LEVEL, PsRemoveLoadImageNotifyRoutine(on_image));

OUTCOME("PS-002 PS-003 PS-004 PS-011", process_routine_is_its_address)
{
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    EXPECT_STATUS(0xC000000D, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    /* By the other function too: the routine is the same. */
    EXPECT_STATUS(0xC000000D, PsSetCreateProcessNotifyRoutineEx2(0, on_process, FALSE));
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, TRUE));
    EXPECT(!NT_SUCCESS(PsSetCreateProcessNotifyRoutineEx(on_process, TRUE)));
}

OUTCOME("PS-005 PS-012 PS-036 PS-042 PS-054 PS-055", tables_are_full)
{
    sim_routines_taken(64, 64, 64);
    EXPECT_STATUS(0xC000000D, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    EXPECT_STATUS(0xC000009A, PsSetCreateThreadNotifyRoutine(on_thread));
    EXPECT_STATUS(0xC000009A, PsSetCreateThreadNotifyRoutineEx(1, on_thread));
    EXPECT_STATUS(0xC000009A, PsSetLoadImageNotifyRoutine(on_image));
    sim_routines_taken(63, 63, 63);
    watch();
    EXPECT_STATUS(0xC000000D, PsSetCreateProcessNotifyRoutineEx2(0, on_thread, FALSE));
    EXPECT_STATUS(0xC000009A, PsSetLoadImageNotifyRoutineEx(
                                  (PLOAD_IMAGE_NOTIFY_ROUTINE)(uintptr_t)on_thread, 0));
}

OUTCOME("PS-006", image_without_integrity_check)
{
    sim_status_next("PsSetCreateProcessNotifyRoutineEx", STATUS_ACCESS_DENIED, 1);
    EXPECT_STATUS(0xC0000022, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
}

VIOLATION("PS-007", process_routine_kept)
{
    PsSetCreateProcessNotifyRoutineEx(on_process, FALSE);
    sim_driver_unload();
}

VIOLATION("PS-037", thread_routine_kept)
{
    PsSetCreateThreadNotifyRoutine(on_thread);
    sim_driver_unload();
}

VIOLATION("PS-056", image_routine_kept)
{
    PsSetLoadImageNotifyRoutine(on_image);
    sim_driver_unload();
}

static void remove_process_routine(void)
{
    PsSetCreateProcessNotifyRoutineEx(on_process, TRUE);
}

VIOLATION("PS-009", process_routine_removes_itself)
{
    watch();
    inside = remove_process_routine;
    make_process();
}

static void remove_thread_routine(void)
{
    PsRemoveCreateThreadNotifyRoutine(on_thread);
}

VIOLATION("PS-046", thread_routine_removes_itself)
{
    const struct sim_thread thread = {.pid = 4};

    watch();
    inside = remove_thread_routine;
    sim_thread_create(&thread, NULL);
}

static void remove_image_routine(void)
{
    PsRemoveLoadImageNotifyRoutine(on_image);
}

VIOLATION("PS-062", image_routine_removes_itself)
{
    const struct sim_image image = {.pid = 4, .no_file = true};

    watch();
    inside = remove_image_routine;
    sim_image_load(&image);
}

/* A call that is under way is waited for. */
static _Atomic bool entered;
static _Atomic bool left;

static void stay(void)
{
    entered = true;
    usleep(100000);
    left = true;
}

static void *create_thread(void *unused)
{
    const struct sim_thread thread = {.pid = 4};

    sim_thread_create(&thread, NULL);
    return unused;
}

static void *create_process(void *unused)
{
    make_process();
    return unused;
}

OUTCOME("PS-008 PS-045", removal_waits_for_calls)
{
    pthread_t host;

    inside = stay;
    EXPECT_STATUS(0, PsSetCreateThreadNotifyRoutine(on_thread));
    pthread_create(&host, NULL, create_thread, NULL);
    while (!entered)
        usleep(1000);
    EXPECT_STATUS(0, PsRemoveCreateThreadNotifyRoutine(on_thread));
    EXPECT(left);
    pthread_join(host, NULL);
    entered = left = false;
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    pthread_create(&host, NULL, create_process, NULL);
    while (!entered)
        usleep(1000);
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, TRUE));
    EXPECT(left);
    pthread_join(host, NULL);
}

OUTCOME("PS-014", subsystems_only)
{
    EXPECT_STATUS(0xC000000D, PsSetCreateProcessNotifyRoutineEx2(1, on_process, FALSE));
}

OUTCOME("PS-044 PS-061", removal_of_what_is_not_there)
{
    EXPECT_STATUS(0xC000007A, PsRemoveCreateThreadNotifyRoutine(on_thread));
    EXPECT_STATUS(0xC000007A, PsRemoveLoadImageNotifyRoutine(on_image));
}

VIOLATION("PS-039", unknown_type_of_thread_notification)
{
    PsSetCreateThreadNotifyRoutineEx(2, on_thread);
}

OUTCOME("PS-040 PS-041", told_in_the_new_thread)
{
    struct sim_thread thread = {.pid = make_process()};
    uint32_t tid;

    EXPECT_STATUS(0, PsSetCreateThreadNotifyRoutineEx(0, on_thread));
    sim_thread_create(&thread, &tid);
    EXPECT(seen.current_tid == PID(tid) && seen.current_pid == PID(thread.pid));
    EXPECT_STATUS(0, PsRemoveCreateThreadNotifyRoutine(on_thread));
    EXPECT_STATUS(0xC000007A, PsRemoveCreateThreadNotifyRoutine(on_thread));
}

OUTCOME("PS-058 PS-059 PS-076", images_of_another_machine)
{
    struct sim_image image = {.pid = 4, .path = SIM_STR(u"\\x.dll"), .foreign_machine = true};

    EXPECT_STATUS(0xC00000F0, PsSetLoadImageNotifyRoutineEx(on_image, 2));
    EXPECT_STATUS(0, PsSetLoadImageNotifyRoutineEx(on_image, 0));
    sim_image_load(&image);
    EXPECT(seen.calls == 0);
    EXPECT_STATUS(0, PsRemoveLoadImageNotifyRoutine(on_image));
    EXPECT_STATUS(0, PsSetLoadImageNotifyRoutineEx(on_image, 1));
    sim_image_load(&image);
    EXPECT(seen.calls == 1 && (seen.image.Properties & 1u << 11));
}

/* --- processes ------------------------------------------------------------------------------- */

OUTCOME("PS-017 PS-018 PS-019 PS-021 PS-031", creation_in_the_creators_thread)
{
    const struct sim_process parent = {.pid = 100, .first_tid = 104};
    uint32_t pid;

    sim_process_existing(&parent, NULL);
    EXPECT(sim_enter(100, 104));
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    sim_set_apcs_disabled(true); /* of the creator; not of the notification */
    pid = make_process();
    EXPECT(seen.irql == PASSIVE_LEVEL && seen.apcs && !seen.all_apcs);
    EXPECT(seen.pid == PID(pid) && seen.has_info);
    EXPECT(seen.current_pid == PID(100) && seen.current_tid == PID(104));
    EXPECT(seen.info.CreatingThreadId.UniqueProcess == PID(100));
    EXPECT(seen.info.CreatingThreadId.UniqueThread == PID(104));
}

VIOLATION("PS-017", process_at_apc_level)
{
    KIRQL old;

    watch();
    KeRaiseIrql(APC_LEVEL, &old);
    sim_process_exit(make_process(), 0);
}

OUTCOME("PS-020 PS-021 PS-022 PS-050", exit_in_the_last_thread)
{
    struct sim_thread second = {.tid = 0};
    uint32_t tid;

    watch();
    second.pid = make_process();
    EXPECT(strcmp(seen.order, "PT") == 0);
    sim_thread_create(&second, &tid);
    EXPECT(sim_process_exit(second.pid, 5));
    EXPECT(!seen.has_info && seen.exits == 1);
    EXPECT(seen.current_pid == PID(second.pid));
    EXPECT(seen.exit_time.QuadPart != 0);
    EXPECT(strcmp(seen.order, "PTTttp") == 0);
}

OUTCOME("PS-015 PS-027 PS-028 PS-033", subsystem_process)
{
    const struct sim_process wsl = {.wsl = true, .no_image_name = true, .no_command_line = true};

    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    sim_process_create(&wsl, NULL);
    EXPECT(seen.calls == 0);
    make_process();
    EXPECT(!(seen.info.Flags & KDA_NOTIFY_IS_SUBSYSTEM_PROCESS));
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, TRUE));
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx2(0, on_process, FALSE));
    sim_process_create(&wsl, NULL);
    EXPECT(seen.info.Flags & KDA_NOTIFY_IS_SUBSYSTEM_PROCESS);
    EXPECT(!seen.info.ImageFileName && !seen.info.FileObject);
}

OUTCOME("PS-016", exit_without_creation)
{
    const struct sim_process old = {.pid = 100};

    sim_process_existing(&old, NULL);
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    EXPECT(sim_process_exit(100, 0));
    EXPECT(seen.creations == 0 && seen.exits == 1);
}

static void wait_for_event(void)
{
    LARGE_INTEGER second = {.QuadPart = -10000000};

    KeWaitForSingleObject(&fx.event, Executive, KernelMode, FALSE, &second);
}

VIOLATION("PS-023", notification_waits)
{
    KeInitializeEvent(&fx.event, NotificationEvent, FALSE);
    watch();
    inside = wait_for_event;
    make_process();
}

static void open_key(void)
{
    UNICODE_STRING name = rules_string(u"\\REGISTRY\\MACHINE");
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    HANDLE key;

    ZwOpenKey(&key, KEY_QUERY_VALUE, &attributes);
}

VIOLATION("PS-023", notification_uses_the_registry)
{
    watch();
    inside = open_key;
    make_process();
}

static void queue_work(void)
{
    inside = NULL;
    IoQueueWorkItem(fx.item, (PIO_WORKITEM_ROUTINE)(uintptr_t)stay, DelayedWorkQueue, NULL);
}

OUTCOME("PS-024", notification_leaves_work_to_others)
{
    UNICODE_STRING name = rules_string(u"\\Device\\Rules");

    EXPECT_STATUS(0, IoCreateDevice(fx.driver, 0, &name, FILE_DEVICE_UNKNOWN,
                                    FILE_DEVICE_SECURE_OPEN, FALSE, &fx.device));
    fx.item = IoAllocateWorkItem(fx.device);
    watch();
    inside = queue_work;
    make_process();
    EXPECT(!left);
    sim_settle();
    EXPECT(left);
}

OUTCOME("PS-025", size_of_the_structure)
{
    struct sim_process p = {.image = SIM_STR(u"\\a.exe"), .info_size = 120};

    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    sim_process_create(&p, NULL);
    EXPECT(seen.info.Size == 120);
}

OUTCOME("PS-026 PS-029 PS-030", what_may_be_missing)
{
    const struct sim_process p = {.image = SIM_STR(u"a.exe"),
                                  .no_open_name = true,
                                  .no_command_line = true,
                                  .parent_pid = 100};
    const struct sim_process parent = {.pid = 100};

    sim_process_existing(&parent, NULL);
    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    sim_process_create(&p, NULL);
    EXPECT(!(seen.info.Flags & KDA_NOTIFY_FILE_OPEN_NAME_AVAILABLE));
    EXPECT(seen.info.ImageFileName && !seen.info.CommandLine);
    EXPECT(seen.info.ParentProcessId == PID(100));
    EXPECT(seen.info.CreatingThreadId.UniqueProcess == PID(4));
}

OUTCOME("PS-032 PS-034", refused_creation_ends_with_an_exit)
{
    const struct sim_process p = {.image = SIM_STR(u"\\a.exe")};
    uint32_t pid;

    EXPECT_STATUS(0, PsSetCreateProcessNotifyRoutineEx(on_process, FALSE));
    creation_status = STATUS_ACCESS_DENIED;
    EXPECT_STATUS(0xC0000022, sim_process_create(&p, &pid));
    EXPECT(!sim_process_alive(pid) && seen.exits == 1);
}

/* --- threads --------------------------------------------------------------------------------- */

OUTCOME("PS-048 PS-052 PS-049 PS-051", thread_creation_at_apc_level)
{
    struct sim_thread thread = {.pid = 0};
    uint32_t tid;

    thread.pid = make_process();
    watch();
    sim_set_irql(APC_LEVEL);
    sim_thread_create(&thread, &tid);
    EXPECT(seen.irql == APC_LEVEL && seen.all_apcs);
    EXPECT(seen.tid == PID(tid) && seen.pid == PID(thread.pid));
    EXPECT(seen.current_pid == PID(4)); /* of the creator: a remote thread */
    EXPECT(strcmp(seen.order, "T") == 0);
    EXPECT(sim_thread_exit(tid, 0));
    EXPECT(seen.current_tid == PID(tid) && strcmp(seen.order, "Tt") == 0);
}

/* --- images ---------------------------------------------------------------------------------- */

OUTCOME("PS-063 PS-064", image_with_all_apcs_disabled)
{
    const struct sim_image image = {.pid = 4, .path = SIM_STR(u"\\x.dll")};

    watch();
    sim_image_load(&image);
    EXPECT(seen.irql == PASSIVE_LEVEL && seen.apcs && !seen.all_apcs);
    sim_set_apcs_disabled(true);
    sim_image_load(&image);
    EXPECT(seen.irql == PASSIVE_LEVEL && seen.all_apcs);
}

VIOLATION("PS-063", image_at_apc_level)
{
    const struct sim_image image = {.pid = 4};

    watch();
    sim_set_irql(APC_LEVEL);
    sim_image_load(&image);
}

OUTCOME("PS-065 PS-066 PS-071", image_of_a_driver_without_a_name)
{
    const struct sim_image image = {.kernel = true, .base = 0xFFFFF80000000000u};

    watch();
    sim_image_load(&image);
    EXPECT(!seen.has_name && seen.pid == NULL);
    EXPECT(seen.image.Properties & KDA_IMAGE_SYSTEM_MODE);
}

OUTCOME("PS-067 PS-068 PS-069 PS-071 PS-075", image_of_a_new_process)
{
    struct sim_image image = {.path = SIM_STR(u"\\a.exe"), .main = true, .base = 0x400000};

    watch();
    image.pid = make_process();
    memset(seen.order, 0, sizeof(seen.order));
    sim_image_load(&image);
    EXPECT(seen.current_pid == PID(image.pid) && strcmp(seen.order, "I") == 0);
    EXPECT((seen.image.Properties & 0xFFu) == 3 && !(seen.image.Properties & 0xA00u));
    EXPECT(!(seen.image.Properties & KDA_IMAGE_SYSTEM_MODE));
    EXPECT(seen.image.ImageSelector == 0 && seen.image.ImageSectionNumber == 0);
    image.no_execute = true;
    sim_image_load(&image);
    EXPECT(strcmp(seen.order, "I") == 0);
}

OUTCOME("PS-072 PS-073 PS-074 PS-077", extended_information)
{
    struct sim_image image = {.pid = 4,
                              .path = SIM_STR(u"\\x.dll"),
                              .signature_level = 8,
                              .signature_type = 3,
                              .partial = true};

    watch();
    sim_image_load(&image);
    EXPECT(seen.file && seen.image_size == sizeof(IMAGE_INFO_EX));
    EXPECT(KDA_IMAGE_SIGNATURE_LEVEL(seen.image.Properties) == 8);
    EXPECT(KDA_IMAGE_SIGNATURE_TYPE(seen.image.Properties) == 3);
    EXPECT(seen.image.Properties & KDA_IMAGE_PARTIAL_MAP);
    image.no_file = true;
    sim_image_load(&image);
    EXPECT(!(seen.image.Properties & KDA_IMAGE_EXTENDED_INFO) && !seen.file);
}

OUTCOME("PS-078", file_object_is_lent)
{
    const struct sim_image image = {.pid = 4, .path = SIM_STR(u"\\x.dll")};

    watch();
    sim_image_load(&image);
    EXPECT(sim_ledger_count() == 3); /* three routines and no reference */
}

VIOLATION("OB-006", file_object_kept_without_a_reference)
{
    const struct sim_image image = {.pid = 4, .path = SIM_STR(u"\\x.dll")};

    watch();
    sim_image_load(&image);
    ObReferenceObject(seen.file);
}
