/*
 * machine.c - the machine: boot, bug checks, the context of host threads, calls into the driver,
 * injected faults, load and unload.
 */
#include "machine.h"

#include <unistd.h>
#include <sys/wait.h>

struct sim_machine sim;

static _Thread_local struct sim_ctx context;
static _Atomic uint64_t boots;
static _Atomic uint32_t next_cpu;
static struct {
    pthread_mutex_t lock; /* of all but the first look at `planned` */
    atomic_bool planned;
    const char *ddi;
    uint32_t calls; /* until it is the one */
    void (*routine)(void *context);
    void *context;
    bool leaves;
} meanwhile = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- bug checks ------------------------------------------------------------------------------ */

static _Noreturn void stop(const char *rule, const char *where, const char *format,
                           va_list arguments)
{
    char text[512];

    vsnprintf(text, sizeof(text), format, arguments);
    fprintf(stderr, "sim: %s%s%s: %s", rule ? rule : "", rule ? ": " : "", where, text);
    if (context.inside > 0 && context.callback)
        fprintf(stderr, " (in %s)", context.callback);
    fputc('\n', stderr);
    fflush(NULL);
    abort();
}

_Noreturn void sim_bugcheck(const char *where, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    stop(NULL, where, format, arguments);
}

_Noreturn void sim_violation(const char *rule, const char *where, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    stop(rule, where, format, arguments);
}

/* True for the call that was waited for; the plan is over then. */
static bool take_meeting(const char *ddi, bool leaves, void (**routine)(void *context),
                         void **argument)
{
    bool taken;

    pthread_mutex_lock(&meanwhile.lock);
    taken = atomic_load(&meanwhile.planned) && meanwhile.leaves == leaves &&
            strcmp(meanwhile.ddi, ddi) == 0 && --meanwhile.calls == 0;
    *routine = meanwhile.routine;
    *argument = meanwhile.context;
    if (taken)
        atomic_store(&meanwhile.planned, false);
    pthread_mutex_unlock(&meanwhile.lock);
    return taken;
}

static void meet(const char *ddi, bool leaves)
{
    void (*routine)(void *context);
    void *argument;

    if (atomic_load_explicit(&meanwhile.planned, memory_order_relaxed) &&
        take_meeting(ddi, leaves, &routine, &argument))
        routine(argument);
}

void sim_ddi(const char *ddi, const char *rule, unsigned irql)
{
    struct sim_ctx *self = sim_self();

    if (sim.driver_state == SIM_NO_DRIVER)
        sim_bugcheck(ddi, "called while no driver is loaded");
    if (self->irql > irql)
        sim_violation(rule, ddi, "called at IRQL %u, at most %u is allowed", self->irql, irql);
    meet(ddi, false);
}

void sim_ddi_apcs(const char *ddi, const char *rule)
{
    sim_ddi(ddi, rule, PASSIVE_LEVEL);
    if (sim_self()->guarded)
        sim_violation(rule, ddi, "would hang: no APCs are delivered in a guarded region");
}

void sim_ddi_io(const char *ddi, const char *rule)
{
    sim_ddi_apcs(ddi, rule);
    if (sim_self()->top_level_irp)
        sim_violation(rule, ddi, "may deadlock: the thread is inside a request of a file system");
}

void sim_ddi_not_in_notification(const char *ddi)
{
    if (sim_self()->notified)
        sim_violation("PS-023", ddi, "a notification must not wait, nor use the registry");
}

void sim_ddi_leaves(const char *ddi)
{
    meet(ddi, true);
}

VOID SimAssertionFailed(const char *expression, const char *file, int line)
{
    sim_bugcheck("KDA_ASSERT", "%s does not hold, %s:%d", expression, file, line);
}

static void plan_meeting(const char *ddi, uint32_t n, bool leaves, void (*routine)(void *context),
                         void *argument)
{
    pthread_mutex_lock(&meanwhile.lock);
    meanwhile.ddi = ddi;
    meanwhile.calls = n;
    meanwhile.leaves = leaves;
    meanwhile.routine = routine;
    meanwhile.context = argument;
    atomic_store(&meanwhile.planned, routine != NULL);
    pthread_mutex_unlock(&meanwhile.lock);
}

void sim_meanwhile(const char *ddi, uint32_t n, void (*routine)(void *context), void *argument)
{
    plan_meeting(ddi, n, false, routine, argument);
}

void sim_meanwhile_after(const char *ddi, uint32_t n, void (*routine)(void *context),
                         void *argument)
{
    plan_meeting(ddi, n, true, routine, argument);
}

void *sim_alloc(size_t bytes)
{
    void *block = calloc(1, bytes ? bytes : 1);

    if (!block)
        sim_bugcheck("simulator", "the host has no memory");
    return block;
}

bool sim_expect_bugcheck(void (*function)(void *context), void *argument, const char *text)
{
    char output[8192];
    size_t used = 0;
    int ends[2];
    int status = 0;
    pid_t child;

    fflush(NULL);
    if (pipe(ends))
        return false;
    child = fork();
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        function(argument);
        _exit(0);
    }
    close(ends[1]);
    while (child > 0 && used + 1 < sizeof(output)) {
        ssize_t got = read(ends[0], output + used, sizeof(output) - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    output[used] = 0;
    close(ends[0]);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return false;
    if (WIFSIGNALED(status) && strstr(output, "sim: ") && strstr(output, text))
        return true;
    fprintf(stderr, "expected a bug check with \"%s\", status %d, output:\n%s\n", text, status,
            output);
    return false;
}

/* --- context --------------------------------------------------------------------------------- */

struct sim_ctx *sim_self(void)
{
    uint64_t boot = sim.boot;

    if (context.boot != boot) {
        memset(&context, 0, sizeof(context));
        context.boot = boot;
        context.cpu = atomic_fetch_add(&next_cpu, 1) % (sim.options.cpus ? sim.options.cpus : 1);
        context.thread = sim_system_thread();
    }
    return &context;
}

void sim_set_irql(uint8_t irql)
{
    struct sim_ctx *self = sim_self();

    SIM_CHECK(irql <= DISPATCH_LEVEL, "activity comes at most at DISPATCH_LEVEL");
    SIM_CHECK(self->inside == 0, "the driver's own level is not the test's");
    self->irql = irql;
}

uint8_t sim_irql(void)
{
    return sim_self()->irql;
}

void sim_set_cpu(uint32_t cpu)
{
    sim_self()->cpu = cpu % sim.options.cpus;
}

void sim_set_apcs_disabled(bool disabled)
{
    sim_self()->guarded = disabled;
}

void sim_set_top_level_irp(bool set)
{
    sim_self()->top_level_irp = set;
}

void sim_set_transaction(bool on)
{
    sim_self()->transaction = on;
}

void sim_call_enter(struct sim_call *call, const char *callback, const void *routine,
                    const char *rule, unsigned irql_max)
{
    struct sim_ctx *self = sim_self();

    if (sim.driver_state == SIM_NO_DRIVER)
        sim_bugcheck(callback, "called while no driver is loaded");
    if (self->irql > irql_max)
        sim_violation(rule, callback, "fired at IRQL %u, it never comes above %u", self->irql,
                      irql_max);
    if (self->inside >= SIM_MAX_NESTED)
        sim_bugcheck(callback, "the driver calls itself without end");
    call->callback = self->callback;
    call->irql = self->irql;
    call->critical = self->critical;
    call->guarded = self->guarded;
    call->held_count = self->held_count;
    self->callback = callback;
    self->running[self->inside++] = routine;
}

void sim_call_leave(struct sim_call *call)
{
    struct sim_ctx *self = sim_self();

    SIM_CHECK(self->held_count == call->held_count, "returns with %u locks held",
              self->held_count - call->held_count);
    SIM_CHECK(self->irql == call->irql, "returns at IRQL %u, was called at %u", self->irql,
              call->irql);
    SIM_RULE("KE-028", self->critical == call->critical && self->guarded == call->guarded,
             "returns with critical regions unbalanced");
    self->inside--;
    self->callback = call->callback;
}

/* --- boot ------------------------------------------------------------------------------------ */

bool sim_boot(const struct sim_options *options)
{
    const char *hang = getenv("KDA_SIM_HANG_MS");

    SIM_CHECK(!sim.up, "the machine before this one still runs");
    memset(&sim.options, 0, sizeof(sim.options));
    if (options)
        sim.options = *options;
    if (!sim.options.cpus)
        sim.options.cpus = 4;
    SIM_CHECK(sim.options.cpus <= SIM_MAX_CPUS, "more CPUs than %u", SIM_MAX_CPUS);
    if (!sim.options.build)
        sim.options.build = 19045;
    if (!sim.options.utc)
        sim.options.utc = 134116992000000000u; /* 2026-01-01 */
    if (!sim.options.frequency)
        sim.options.frequency = SIM_UNITS_PER_SECOND;
    sim.hang_ms = sim.options.hang_ms ? sim.options.hang_ms : 30000;
    /* A run over seeded mistakes does not want to wait long for each. */
    if (hang && strtoul(hang, NULL, 10) > 0)
        sim.hang_ms = strtoul(hang, NULL, 10);
    sim.driver_state = SIM_NO_DRIVER;
    sim.ending = false;
    sim.boot = atomic_fetch_add(&boots, 1) + 1;
    sim_fault_arm(0);
    sim_fault_scope(SIM_FAULT_ALL);
    sim_status_clear();
    sim_clock_boot();
    if (!sim_zw_boot())
        return false;
    sim_ke_boot();
    sim_ps_boot();
    sim_cm_boot();
    sim_io_boot();
    sim_fwp_boot();
    sim.up = true;
    return true;
}

void sim_shutdown_machine(void)
{
    if (!sim.up)
        return;
    SIM_CHECK(sim.driver_state == SIM_NO_DRIVER || sim.driver_state == SIM_REFUSED,
              "the driver is still loaded");
    sim_ke_end();
    sim.ending = true;
    sim_fwp_end();
    sim_io_end();
    sim_cm_end();
    sim_handles_clear();
    sim_ps_end();
    sim_objects_clear();
    sim_zw_end();
    sim_ledger_clear();
    sim_rest_end();
    sim_ex_end();
    sim.up = false;
}

/* --- load and unload ------------------------------------------------------------------------- */

static struct {
    PDRIVER_OBJECT object;
} driver;

PDRIVER_OBJECT sim_driver_object(void)
{
    return driver.object;
}

static void check_empty(const char *rule, const char *when)
{
    size_t left;

    sim_settle();
    left = sim_ledger_check();
    if (left)
        sim_violation(rule, "ledger", "%zu things left after %s", left, when);
}

static void driver_gone(void)
{
    sim.driver_state = SIM_NO_DRIVER;
    sim_object_unref(driver.object);
    driver.object = NULL;
}

int32_t sim_driver_load(sim_driver_entry *entry)
{
    static const struct sim_str path =
        SIM_STR(u"\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\kdamonitor");
    struct sim_wide lent;
    UNICODE_STRING name;
    struct sim_as as;
    struct sim_call call;
    int32_t status;

    SIM_CHECK(sim.up, "there is no machine");
    SIM_CHECK(sim.driver_state == SIM_NO_DRIVER, "a driver is already loaded");
    SIM_CHECK(sim_self()->irql == PASSIVE_LEVEL, "drivers are loaded at PASSIVE_LEVEL");
    driver.object = sim_object_create(SIM_TYPE_DRIVER, sizeof(*driver.object), NULL);
    driver.object->Type = 4;
    driver.object->Size = sizeof(*driver.object);
    sim_io_driver_loading();
    sim.driver_state = SIM_LOADING;
    sim_as_begin(&as, sim_system_thread());
    sim_call_enter(&call, "DriverEntry", (const void *)(uintptr_t)entry, "IO-001", PASSIVE_LEVEL);
    /* The path is lent: who keeps the pointer reads what is freed. */
    sim_wide_set(&lent, path);
    name = sim_unicode(&lent);
    status = entry(driver.object, &name);
    memset(lent.units, 0xDD, lent.count * 2);
    sim_rest(lent.units, lent.count * 2, lent.count * 2);
    sim_call_leave(&call);
    sim_as_end(&as);
    if (status < 0) {
        check_empty("IO-003", "a load that failed");
        driver_gone();
        return status;
    }
    sim_io_driver_loaded();
    sim.driver_state = SIM_LOADED;
    return status;
}

int32_t sim_unload_now(void)
{
    struct sim_as as;
    struct sim_call call;

    sim.driver_state = SIM_UNLOADING;
    sim_as_begin(&as, sim_system_thread());
    sim_call_enter(&call, "DriverUnload", NULL, "IO-004", PASSIVE_LEVEL);
    driver.object->DriverUnload(driver.object);
    sim_call_leave(&call);
    sim_as_end(&as);
    SIM_RULE("IO-070", sim_work_queued() == 0, "returns with work items queued");
    /* A driver that still has callouts keeps its image by a reference to itself. */
    if (atomic_load(&sim_object_of(driver.object)->driver_references) > 0) {
        sim_settle();
        sim.driver_state = SIM_REFUSED;
        return STATUS_DEVICE_BUSY;
    }
    SIM_RULE("WFP-069", sim_wfp_callouts() == 0, "returns with callouts that are registered");
    check_empty("IO-007", "the unload");
    driver_gone();
    return STATUS_SUCCESS;
}

static int32_t unload(bool wait)
{
    SIM_CHECK(sim.driver_state == SIM_LOADED, "no driver is loaded");
    SIM_CHECK(sim_self()->irql == PASSIVE_LEVEL, "drivers are unloaded at PASSIVE_LEVEL");
    if (!driver.object->DriverUnload)
        return STATUS_INVALID_DEVICE_REQUEST;
    if (wait && sim_io_unload_must_wait())
        return STATUS_PENDING;
    return sim_unload_now();
}

int32_t sim_driver_unload(void)
{
    return unload(true);
}

int32_t sim_driver_unload_at_once(void)
{
    return unload(false);
}

bool sim_driver_loaded(void)
{
    return sim.driver_state != SIM_NO_DRIVER;
}
