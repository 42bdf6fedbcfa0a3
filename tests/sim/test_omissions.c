/*
 * test_omissions.c - whatever call fails, each field of the record is there, or omitted with the
 * reason that the failure gives.
 *
 * The fields stand here as docs/events.md names them, not as the driver's table has them: a row
 * that is deleted there fails here.
 */
#include "world.h"

#include <stdio.h>

#define FOLDER u"\\Device\\HarddiskVolume3\\Windows\\System32\\"
#define NEW_PID 3000u

/* What the status that the simulator gives for a call means for a field. */
static const struct {
    const char *ddi;
    const char *reason;
} meanings[] = {
    {"ObOpenObjectByPointer", "memory"},
    {"ZwOpenProcessTokenEx", "memory"},
    {"ZwQueryInformationProcess", "memory"},
    {"ZwQueryInformationToken", "memory"},
    {"ZwQueryInformationThread", "memory"},
    {"ZwQueryVirtualMemory", "memory"},
    {"ZwQueryValueKey", "memory"},
    {"SeLocateProcessImageName", "memory"},
    {"ExAllocatePoolWithTag", "memory"},
    {"ObQueryNameString", "memory"},
    {"PsLookupProcessByProcessId", "gone"},
    {"PsLookupThreadByThreadId", "gone"},
    {"CmCallbackGetKeyObjectIDEx", "memory"},
    {"ExAllocateFromNPagedLookasideList", "memory"},
};

struct scenario {
    const char *kind;
    const char *mark; /* of the one line that is looked at */
    void (*before)(void);
    void (*act)(void);
    const char *fields[20];
};

static const char *reason_of(const char *ddi)
{
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (strcmp(meanings[i].ddi, ddi) == 0)
            return meanings[i].reason;
    }
    return NULL;
}

/* `"field":value` between two places. */
static bool has(const char *from, const char *end, const char *field, const char *value)
{
    char wanted[80];
    const char *at;

    (void)snprintf(wanted, sizeof(wanted), "\"%s\":%s", field, value);
    at = strstr(from, wanted);
    return at && at < end;
}

/* `reason` NULL: nothing failed, all is there. */
static void check_line(const struct scenario *s, const char *line, const char *ddi,
                       const char *reason)
{
    const char *end = line + strlen(line);
    const char *omitted = strstr(line, "\"omitted\":{");
    const char *behind = omitted ? strchr(omitted, '}') : line;
    char quoted[32];

    omitted = omitted ? omitted : line;
    (void)snprintf(quoted, sizeof(quoted), "\"%s\"", reason ? reason : "");
    for (size_t i = 0; s->fields[i]; i++) {
        const char *field = s->fields[i];
        if (has(line, omitted, field, "") || has(behind, end, field, ""))
            continue;
        if (!reason || !has(omitted, behind, field, quoted))
            fail_msg("%s: %s is neither there nor omitted as %s after %s: %s", s->kind, field,
                     reason ? reason : "-", ddi ? ddi : "nothing", line);
    }
}

/* The whole event can be lost for lack of memory: then that is told. A process that could not be
 * looked at is told when it acts the next time; what it did now says why it is not known. */
static void check_missing(const struct scenario *s, const struct world_log *log, const char *reason)
{
    char image[64];

    assert_non_null(reason);
    (void)snprintf(image, sizeof(image), "\"omitted\":{\"image\":\"%s\"", reason);
    if (strcmp(s->kind, "process.existing") == 0 &&
        world_count(log, "registry.value_set", image, NULL) == 1)
        return;
    assert_int_equal(world_count(log, "sensor.loss", NULL), 1);
}

/* TRUE: there was a call to fail. */
static bool once(const struct scenario *s, uint64_t n, enum sim_fault_scope scope)
{
    struct world_log log;
    char ddi[80] = "";
    bool fired;
    size_t lines = 0;

    world_begin(NULL);
    if (s->before)
        s->before();
    world_load();
    sim_fault_scope(scope);
    sim_fault_arm(n);
    s->act();
    if (scope == SIM_FAULT_OTHERS)
        world_wait(s->kind, s->mark);
    fired = sim_fault_fired();
    if (fired)
        (void)snprintf(ddi, sizeof(ddi), "%s", sim_fault_name());
    sim_fault_arm(0);
    world_unload();
    world_read(&log);
    for (size_t i = 0; i < log.count; i++) {
        char kind[64];
        (void)snprintf(kind, sizeof(kind), "\"kind\":\"%s\"", s->kind);
        if (!strstr(log.lines[i].text, kind) || !strstr(log.lines[i].text, s->mark))
            continue;
        lines++;
        check_line(s, log.lines[i].text, ddi, fired ? reason_of(ddi) : NULL);
    }
    if (lines == 0)
        check_missing(s, &log, fired ? reason_of(ddi) : NULL);
    else
        assert_int_equal(lines, 1);
    world_free(&log);
    world_end();
    return fired;
}

static void sweep(const struct scenario *s, enum sim_fault_scope scope, unsigned least)
{
    unsigned n = 0;

    assert_false(once(s, 0, scope));
    while (once(s, n + 1, scope))
        n++;
    assert_true(n >= least);
}

/* --- scenarios ------------------------------------------------------------------------------- */

static const struct sim_process new_process = {.pid = NEW_PID,
                                               .parent_pid = WORLD_SHELL,
                                               .first_tid = NEW_PID + 4,
                                               .image = SIM_STR(FOLDER "new.exe"),
                                               .command_line = STR("new.exe /a"),
                                               .start_address = 0x7FF600001000};

static void create_process(void)
{
    assert_true(sim_enter(WORLD_SHELL, 0));
    sim_process_create(&new_process, NULL);
    sim_enter(4, 0);
}

static void value_of_unknown(void)
{
    static const uint32_t data = 7;

    sim_fault_scope(SIM_FAULT_OTHERS);
    sim_process_existing(&new_process, NULL);
    sim_fault_scope(SIM_FAULT_THIS_THREAD);
    assert_true(sim_enter(NEW_PID, 0));
    sim_registry_set_value(&(struct sim_registry){.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"),
                                                  .name = STR("v"),
                                                  .type = REG_DWORD,
                                                  .data = &data,
                                                  .size = 4});
    sim_enter(4, 0);
}

static void old_data(void)
{
    static const uint16_t keys[] = u"\\REGISTRY\\MACHINE\\SOFTWARE\\Test\0";
    static const uint32_t data = 6;

    sim_settings_set(STR("OldDataKeys"), REG_MULTI_SZ, keys, sizeof(keys));
    sim_registry_preset(&(struct sim_registry){.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"),
                                               .name = STR("v"),
                                               .type = REG_DWORD,
                                               .data = &data,
                                               .size = 4});
}

static void map_module(void)
{
    sim_image_load(&(struct sim_image){.pid = WORLD_USER,
                                       .path = SIM_STR(FOLDER "m.dll"),
                                       .base = 0x7FF600000000,
                                       .size = 0x10000});
}

static void own_thread(void)
{
    assert_true(sim_enter(WORLD_USER, 0));
    sim_fault_scope(SIM_FAULT_OTHERS);
    map_module();
    sim_fault_scope(SIM_FAULT_THIS_THREAD);
    sim_thread_create(&(struct sim_thread){.tid = 7000, .start_address = 0x7FF600001000}, NULL);
    sim_enter(4, 0);
}

static void foreign_thread(void)
{
    map_module();
    assert_true(sim_enter(WORLD_SHELL, 0));
    sim_thread_create(
        &(struct sim_thread){.pid = WORLD_USER, .tid = 7000, .start_address = 0x7FF600001000},
        NULL);
    sim_enter(4, 0);
}

static void nameless_image(void)
{
    assert_true(sim_enter(WORLD_USER, 0));
    sim_image_load(&(struct sim_image){
        .file = SIM_STR(FOLDER "n.dll"), .base = 0x7FF600000000, .size = 0x10000});
    sim_enter(4, 0);
}

static const struct scenario created = {"process.create",
                                        "new.exe",
                                        NULL,
                                        create_process,
                                        {"process_key", "image", "command_line", "parent_pid",
                                         "creator_pid", "creator_tid", "session", "user_sid",
                                         "integrity", "elevated", "protection", "signature_level",
                                         "create_time", "subsystem", NULL}};
static const struct scenario existing = {
    "process.existing",
    "\"pid\":3000",
    NULL,
    value_of_unknown,
    {"process_key", "image", "command_line", "parent_pid", "session", "user_sid", "integrity",
     "elevated", "protection", "signature_level", "create_time", "subsystem", NULL}};
static const struct scenario own = {
    "thread.create",
    "\"new_tid\":7000",
    NULL,
    own_thread,
    {"image", "new_tid", "target_pid", "start_address", "start_module", "remote", NULL}};
static const struct scenario foreign = {"thread.create",
                                        "\"new_tid\":7000",
                                        NULL,
                                        foreign_thread,
                                        {"image", "new_tid", "target_pid", "target_key",
                                         "start_address", "start_module", "remote", NULL}};
static const struct scenario nameless = {"image.load",
                                         "\"size\":65536",
                                         NULL,
                                         nameless_image,
                                         {"image", "target_pid", "module", "base", "size", "kernel",
                                          "signature_level", "signature_type", "mapped_partially",
                                          NULL}};
static const struct scenario written = {
    "registry.value_set",
    "\"value\":\"v\"",
    old_data,
    value_of_unknown,
    {"image", "key", "value", "value_type", "data", "data_size", "old_data", "status", NULL}};

/* --- tests ----------------------------------------------------------------------------------- */

static void a_process_is_created(void **state)
{
    (void)state;
    sweep(&created, SIM_FAULT_THIS_THREAD, 8);
}

static void a_process_runs_already(void **state)
{
    (void)state;
    sweep(&existing, SIM_FAULT_THIS_THREAD, 12);
}

static void a_thread(void **state)
{
    (void)state;
    sweep(&own, SIM_FAULT_THIS_THREAD, 5);
    sweep(&foreign, SIM_FAULT_THIS_THREAD, 3);
}

/* The module is asked for by the writer. */
static void a_module_of_another_process(void **state)
{
    (void)state;
    sweep(&foreign, SIM_FAULT_OTHERS, 3);
}

static void an_image_without_name(void **state)
{
    (void)state;
    sweep(&nameless, SIM_FAULT_THIS_THREAD, 2);
}

static void a_value(void **state)
{
    (void)state;
    sweep(&written, SIM_FAULT_THIS_THREAD, 5);
}

/* Where the system may not be asked everything else is there, and that is omitted. */
static void nobody_may_be_asked(void **state)
{
    static const struct scenario *const all[] = {&created, &existing, &own, &nameless, &written};
    struct world_log log;

    (void)state;
    for (unsigned round = 0; round < 2 * sizeof(all) / sizeof(all[0]); round++) {
        const struct scenario *s = all[round / 2];
        if (s == &existing) /* it is not told at all: nobody could be asked for it */
            continue;
        if (s == &created && round % 2) /* comes with special kernel APCs, always (PS-018) */
            continue;
        world_begin(NULL);
        if (s->before)
            s->before();
        world_load();
        (round % 2 ? sim_set_apcs_disabled : sim_set_top_level_irp)(true);
        s->act();
        sim_set_apcs_disabled(false);
        sim_set_top_level_irp(false);
        world_unload();
        world_read(&log);
        check_line(s, world_line(&log, s->kind, s->mark, "\":\"irql\"", NULL), "that", "irql");
        world_free(&log);
        world_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_is_created),
        cmocka_unit_test(a_process_runs_already),
        cmocka_unit_test(a_thread),
        cmocka_unit_test(a_module_of_another_process),
        cmocka_unit_test(an_image_without_name),
        cmocka_unit_test(a_value),
        cmocka_unit_test(nobody_may_be_asked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
