/*
 * harness.c - runs the tests of the rule book, each in a child process.
 *
 * With an id as its argument it runs those tests only.
 */
#include "rules.h"

#include <signal.h>
#include <sys/wait.h>

struct fixture fx;
static struct rule_test *tests;

void rule_test_add(struct rule_test *test)
{
    test->next = tests;
    tests = test;
}

_Noreturn void rules_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    fflush(NULL);
    _exit(1);
}

/* --- the machine of most tests --------------------------------------------------------------- */

static VOID small_unload(PDRIVER_OBJECT driver)
{
    (void)driver;
}

static NTSTATUS small_entry(PDRIVER_OBJECT driver, PUNICODE_STRING path)
{
    (void)path;
    fx.driver = driver;
    driver->DriverUnload = small_unload;
    return STATUS_SUCCESS;
}

void rules_boot(const struct sim_options *options)
{
    const struct sim_options usual = {.hang_ms = 300};

    EXPECT(sim_boot(options ? options : &usual));
    EXPECT_STATUS(0, sim_driver_load(small_entry));
}

UNICODE_STRING rules_string(const uint16_t *text)
{
    UNICODE_STRING string;

    RtlInitUnicodeString(&string, text);
    return string;
}

OBJECT_ATTRIBUTES rules_attributes(UNICODE_STRING *name, ULONG flags)
{
    OBJECT_ATTRIBUTES attributes;

    InitializeObjectAttributes(&attributes, name, flags | OBJ_KERNEL_HANDLE, NULL, NULL);
    return attributes;
}

PVOID rules_export(const uint16_t *name)
{
    UNICODE_STRING string = rules_string(name);

    return MmGetSystemRoutineAddress(&string);
}

static NTSTATUS on_registry(PVOID context, PVOID class_, PVOID information)
{
    (void)context;
    (void)class_;
    (void)information;
    return STATUS_SUCCESS;
}

static void open_files(void)
{
    UNICODE_STRING name = rules_string(u"\\??\\C:\\Windows\\Temp\\rules.txt");
    UNICODE_STRING folder = rules_string(u"\\??\\C:\\Windows\\Temp");
    UNICODE_STRING key = rules_string(u"\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services");
    OBJECT_ATTRIBUTES attributes = rules_attributes(&name, 0);
    IO_STATUS_BLOCK io;

    EXPECT_STATUS(0, ZwCreateFile(&fx.file, FILE_APPEND_DATA | SYNCHRONIZE | WRITE_DAC, &attributes,
                                  &io, NULL, 0, FILE_SHARE_READ, FILE_OPEN_IF,
                                  FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0));
    attributes = rules_attributes(&folder, 0);
    EXPECT_STATUS(0, ZwCreateFile(&fx.folder, FILE_LIST_DIRECTORY | SYNCHRONIZE, &attributes, &io,
                                  NULL, 0, FILE_SHARE_READ | FILE_SHARE_WRITE, FILE_OPEN,
                                  FILE_DIRECTORY_FILE | FILE_SYNCHRONOUS_IO_NONALERT, NULL, 0));
    attributes = rules_attributes(&key, 0);
    EXPECT_STATUS(0, ZwOpenKey(&fx.key, KEY_QUERY_VALUE | KEY_SET_VALUE, &attributes));
}

static void fill_fixture(void)
{
    const struct sim_process user = {.image = SIM_STR(u"\\Device\\HarddiskVolume1\\user.exe"),
                                     .parent_pid = 4};
    const struct sim_thread thread = {.start_address = 0x1000};
    UNICODE_STRING name = rules_string(u"\\Device\\Rules");
    UNICODE_STRING altitude = rules_string(u"300000");
    struct sim_thread at;

    EXPECT_STATUS(0, sim_process_existing(&user, &fx.pid));
    at = thread;
    at.pid = fx.pid;
    EXPECT_STATUS(0, sim_thread_create(&at, &fx.tid));
    EXPECT_STATUS(0, PsLookupProcessByProcessId(PID(fx.pid), &fx.process));
    EXPECT_STATUS(0, PsLookupThreadByThreadId(PID(fx.tid), &fx.thread));
    EXPECT_STATUS(0, ObOpenObjectByPointer(fx.process, OBJ_KERNEL_HANDLE, NULL,
                                           PROCESS_QUERY_INFORMATION, NULL, KernelMode,
                                           &fx.process_handle));
    EXPECT_STATUS(0, ObOpenObjectByPointer(fx.thread, OBJ_KERNEL_HANDLE, NULL,
                                           THREAD_QUERY_INFORMATION, NULL, KernelMode,
                                           &fx.thread_handle));
    EXPECT_STATUS(
        0, ZwOpenProcessTokenEx(fx.process_handle, TOKEN_QUERY, OBJ_KERNEL_HANDLE, &fx.token));
    EXPECT_STATUS(0, IoCreateDevice(fx.driver, 16, &name, FILE_DEVICE_UNKNOWN,
                                    FILE_DEVICE_SECURE_OPEN, FALSE, &fx.device));
    EXPECT_STATUS(0,
                  CmRegisterCallbackEx(on_registry, &altitude, fx.driver, NULL, &fx.cookie, NULL));
    fx.block = ExAllocatePoolWithTag(NonPagedPoolNx, 64, TAG);
    fx.item = IoAllocateWorkItem(fx.device);
    KeInitializeEvent(&fx.event, NotificationEvent, TRUE);
    ExInitializeFastMutex(&fx.mutex);
    KeInitializeSpinLock(&fx.lock);
    ExInitializeRundownProtection(&fx.rundown);
    open_files();
}

/* --- running --------------------------------------------------------------------------------- */

static void child(const struct rule_test *test, bool above)
{
    KIRQL old;
    unsigned level = !above                         ? test->level
                     : test->level < DISPATCH_LEVEL ? test->level + 1
                                                    : HIGH_LEVEL;

    alarm(30);
    if (!test->cold)
        rules_boot(NULL);
    if (test->furnished)
        fill_fixture();
    if (level > PASSIVE_LEVEL)
        KeRaiseIrql((KIRQL)level, &old);
    test->run();
    fflush(NULL);
    _exit(0);
}

/* Status of the child, and what it said. */
static int run_child(const struct rule_test *test, bool above, char *output, size_t room)
{
    size_t used = 0;
    int ends[2];
    int status = -1;
    pid_t pid;

    fflush(NULL);
    if (pipe(ends))
        return -1;
    pid = fork();
    if (pid == 0) {
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        child(test, above);
    }
    close(ends[1]);
    while (pid > 0 && used + 1 < room) {
        ssize_t got = read(ends[0], output + used, room - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    output[used] = 0;
    close(ends[0]);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return -1;
    return status;
}

static bool stopped(const struct rule_test *test, bool above, bool expected)
{
    char output[16384];
    char text[64];
    int status = run_child(test, above, output, sizeof(output));
    bool right;

    snprintf(text, sizeof(text), "sim: %s: ", test->rules);
    if (expected)
        right = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(output, text);
    else
        right = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!right)
        fprintf(stderr, "FAILED %s %s (%s): %s, status 0x%X:\n%s", test->rules, test->name,
                test->file, expected ? "is not stopped by its rule" : "does not end well", status,
                output);
    return right;
}

static bool run(const struct rule_test *test)
{
    bool right;

    if (!test->has_level)
        return stopped(test, false, test->violates);
    right = stopped(test, false, false);
    /* Above the highest level there is none to be stopped at. */
    return (test->level >= HIGH_LEVEL || stopped(test, true, true)) && right;
}

int main(int count, char **arguments)
{
    unsigned failed = 0;
    unsigned ran = 0;

    for (const struct rule_test *t = tests; t; t = t->next) {
        if (count > 1 && !strstr(t->rules, arguments[1]))
            continue;
        bool right = run(t);
        ran++;
        failed += !right;
        /* TAP, as the other test programs give it to tests/run.py. */
        printf("%s %u - %s %s\n", right ? "ok" : "not ok", ran, t->rules, t->name);
        fflush(stdout);
    }
    printf("# %u tests of the rule book, %u failed\n", ran, failed);
    return failed || !ran;
}
