/*
 * The commands that need Windows, on one that is made up: what they ask, what they say, how they
 * end.
 */
#define HOST_RUN "test_host"
#include "host_run.h"

static unsigned kind(const char *name)
{
    unsigned number = kda_log_kind_find(name, strlen(name));
    assert_true(number > 0);
    return number;
}

static uint64_t bit(const char *name)
{
    return (uint64_t)1 << kind(name);
}

static bool there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- elsewhere ---- */

static void test_not_windows(void **state)
{
    (void)state;
    fake_host_deinit(&fake);
    static const char *const lines[][5] = {{"driver", "status", NULL},
                                           {"watch", NULL},
                                           {"live-dump", "x", NULL},
                                           {"map", "--live", "--dump", "x", NULL}};
    for (size_t i = 0; i < 4; i++) {
        char *argv[8] = {(char *)(uintptr_t) "kda"};
        int argc = 1;
        for (; lines[i][argc - 1]; argc++)
            argv[argc] = (char *)(uintptr_t)lines[i][argc - 1];
        int err = redirect(stderr, ERR);
        int code = cli_main_on(NULL, argc, argv);
        restore(stderr, err);
        slurp(ERR, err_text);
        assert_int_equal(code, CLI_USAGE);
        says("needs Windows");
    }
    assert_null(host_system());
}

/* ---- the service ---- */

static void test_install(void **state)
{
    (void)state;
    assert_int_equal(RUN("driver", "install"), CLI_DONE);
    assert_string_equal(fake.copied_from, "D:\\tools\\kdamonitor.sys");
    assert_true(fake.installed);
    assert_int_equal(RUN("driver", "install", "E:\\x.sys"), CLI_INPUT);
    says("a driver is installed already");
    fake.state = HOST_RUNNING;
    assert_int_equal(RUN("driver", "install"), CLI_INPUT);
    says("driver 0.1.0 is installed and runs");
    fake.kernel_driver = false;
    assert_int_equal(RUN("driver", "install"), CLI_INPUT);
    says("that is no driver");
}

static void test_install_fails(void **state)
{
    (void)state;
    fake.query_error = HOST_ACCESS_DENIED;
    assert_int_equal(RUN("driver", "install"), CLI_INPUT);
    says("elevated");
    fake.query_error = 0;
    fake.copy_error = HOST_NOT_FOUND;
    assert_int_equal(RUN("driver", "install", "E:\\x.sys"), CLI_INPUT);
    says("E:\\x.sys");
    says("name the driver's file");
    fake.copy_error = 0;
    fake.create_error = 1072;
    assert_int_equal(RUN("driver", "install", "E:\\x.sys"), CLI_INPUT);
    says("an old version is being removed");
    assert_false(fake.file_there); /* what was copied is gone again */
}

static void test_start(void **state)
{
    (void)state;
    static const struct {
        uint32_t error;
        const char *text;
    } rows[] = {{577, "test mode"},
                {1275, "blocks this driver"},
                {654, "old version"},
                {4551, "App Control"},
                {127, "1809"},
                {1060, "not installed"},
                {5, "an administrator"},
                {2, "its file is not"},
                {216, "another processor"},
                {1058, "is disabled"}};
    assert_int_equal(RUN("driver", "start"), CLI_INPUT);
    says("kda driver install");
    installed(HOST_STOPPED);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fake.start_error = rows[i].error;
        assert_int_equal(RUN("driver", "start"), CLI_INPUT);
        says("cannot start the driver: error ");
        says(rows[i].text);
    }
    fake.start_error = 0;
    assert_int_equal(RUN("driver", "start"), CLI_DONE);
    assert_int_equal(fake.state, HOST_RUNNING);
    assert_int_equal(RUN("driver", "start"), CLI_DONE);
    says("runs already");
    installed(HOST_STOPPED);
    fake.start_fails_silently = true;
    assert_int_equal(RUN("driver", "start"), CLI_INPUT);
    says("does not run");
    /* Windows has one answer for what runs, what starts and what stops. */
    installed(HOST_STOPPING);
    assert_int_equal(RUN("driver", "start"), CLI_INPUT);
    says("the driver is stopping");
    installed(HOST_STARTING);
    fake.start_fails_silently = false;
    fake.pending = 2;
    assert_int_equal(RUN("driver", "start"), CLI_DONE);
    says("runs already");
}

static void test_stop_and_remove(void **state)
{
    (void)state;
    assert_int_equal(RUN("driver", "stop"), CLI_INPUT);
    installed(HOST_STOPPED);
    assert_int_equal(RUN("driver", "stop"), CLI_DONE);
    says("does not run");
    fake.state = HOST_RUNNING;
    fake.stop_error = 1061;
    assert_int_equal(RUN("driver", "stop"), CLI_INPUT);
    says("still in use");
    assert_int_equal(RUN("driver", "remove"), CLI_INPUT);
    assert_true(fake.installed);
    fake.stop_error = 0;
    assert_int_equal(RUN("driver", "remove"), CLI_DONE);
    assert_false(fake.installed || fake.file_there);
    assert_string_equal(fake.deleted, "C:\\Windows\\System32\\drivers\\kdamonitor.sys");
    assert_int_equal(RUN("driver", "remove"), CLI_INPUT);
    installed(HOST_STOPPED);
    fake.file_delete_error = HOST_ACCESS_DENIED;
    assert_int_equal(RUN("driver", "remove"), CLI_INPUT);
    assert_false(fake.installed);
    says("kdamonitor.sys' is left: error 5");
    fake.file_delete_error = 0;
    fake.deleted[0] = '\0';
    installed(HOST_STOPPED);
    fake.image = "\\??\\C:\\temp\\kdamonitor.sys";
    assert_int_equal(RUN("driver", "remove"), CLI_DONE);
    says("its file is left: it is '\\??\\C:\\temp\\kdamonitor.sys'");
    assert_string_equal(fake.deleted, "");
    installed(HOST_STOPPED);
    fake.image = "\\SystemRoot\\System32\\DriverStore\\FileRepository\\kdamonitor.inf_1\\k.sys";
    assert_int_equal(RUN("driver", "remove"), CLI_INPUT);
    says("pnputil");
    assert_true(fake.installed);
    fake.kernel_driver = false;
    assert_int_equal(RUN("driver", "remove"), CLI_INPUT);
    says("is no driver");
    assert_true(fake.installed);
}

static void test_arguments(void **state)
{
    (void)state;
    installed(HOST_RUNNING);
    assert_int_equal(RUN("driver"), CLI_USAGE);
    assert_int_equal(RUN("driver", "instal"), CLI_USAGE);
    says("did you mean 'install'?");
    assert_int_equal(RUN("driver", "start", "now"), CLI_USAGE);
    assert_int_equal(RUN("driver", "set", "process"), CLI_USAGE);
    assert_int_equal(RUN("driver", "set", "process", "maybe"), CLI_USAGE);
    assert_int_equal(RUN("driver", "set", "proces.create", "on"), CLI_USAGE);
    says("did you mean 'process.create'?");
    assert_int_equal(RUN("driver", "set", "etw.event", "on"), CLI_USAGE);
    assert_int_equal(RUN("driver", "filter"), CLI_USAGE);
    assert_int_equal(RUN("driver", "filter", "list", "1"), CLI_USAGE);
    assert_int_equal(RUN("driver", "filter", "add"), CLI_USAGE);
    assert_int_equal(RUN("driver", "filter", "remove", "0"), CLI_USAGE);
    assert_int_equal(RUN("driver", "status", "-f", "csv"), CLI_USAGE);
    assert_int_equal(RUN("driver", "status", "--limit", "1"), CLI_USAGE);
    assert_int_equal(RUN("driver", "status", "-f", "tsv"), CLI_USAGE);
    says("kda driver does not write tsv");
    assert_int_equal(RUN("driver", "filter", "list", "-f", "json"), CLI_USAGE);
    assert_int_equal(RUN("driver", "status", "-o", ""), CLI_USAGE);
    assert_int_equal(RUN("driver", "status", "-o", KDA_BUILD_DIR "/none/x"), CLI_INTERNAL);
    says("/none/x': No such file");
    assert_int_equal(RUN("watch", "-f", "csv"), CLI_USAGE);
    assert_int_equal(RUN("watch", "--grep", "x"), CLI_USAGE); /* would hide losses */
    assert_int_equal(RUN("watch", "--pid", "x"), CLI_USAGE);
    assert_int_equal(RUN("watch", "--kind", "x"), CLI_USAGE);
    assert_int_equal(RUN("watch", "--since", "x"), CLI_USAGE);
    assert_int_equal(RUN("live-dump"), CLI_USAGE);
    assert_int_equal(RUN("map", "--live"), CLI_USAGE);
    says("where you say");
    assert_int_equal(RUN("map", "--live", "--dump", DUMP, "image"), CLI_USAGE);
    assert_int_equal(RUN("map", "--dump", DUMP, "image"), CLI_USAGE);
    assert_int_equal(RUN("map"), CLI_USAGE);
    assert_false(there(DUMP) || there(PARTIAL));
}

/* ---- settings ---- */

static bool has_text(const struct host_texts *texts, const char *text)
{
    for (size_t i = 0; i < texts->count; i++)
        if (strcmp(texts->items[i], text) == 0)
            return true;
    return false;
}

static void test_set(void **state)
{
    (void)state;
    assert_int_equal(RUN("driver", "set", "registry", "off"), CLI_INPUT);
    says("not installed");
    installed(HOST_STOPPED);
    assert_int_equal(RUN("driver", "set", "registry", "off"), CLI_DONE);
    says("when it starts");
    assert_true(fake.has_kinds && has_text(&fake.kinds, "process.create"));
    assert_false(has_text(&fake.kinds, "registry.value_set"));
    assert_false(has_text(&fake.kinds, "network.attempt"));
    fake.state = HOST_RUNNING;
    fake.kinds_on = bit("process.create") | bit("image.load");
    assert_int_equal(RUN("driver", "set", "network.attempt", "on"), CLI_DONE);
    assert_true(fake.enable == bit("network.attempt") && !fake.disable);
    assert_true(has_text(&fake.kinds, "network.attempt"));
    assert_int_equal(RUN("driver", "set", "image.load", "off"), CLI_DONE);
    assert_true(fake.disable == bit("image.load") && !fake.enable);
    assert_true(fake.kinds_on == (bit("process.create") | bit("network.attempt")));
    assert_false(has_text(&fake.kinds, "image.load"));
    fake.control_error = 1306;
    assert_int_equal(RUN("driver", "set", "image.load", "on"), CLI_INPUT);
    says("different versions");
    /* Names that are none: the driver has its default, and so has the change. */
    fake.control_error = 0;
    fake.state = HOST_STOPPED;
    while (fake.kinds.count > 1)
        free(fake.kinds.items[--fake.kinds.count]);
    fake.kinds.items[0][0] = '?';
    assert_int_equal(RUN("driver", "set", "thread", "off"), CLI_DONE);
    assert_true(has_text(&fake.kinds, "process.create"));
    assert_false(has_text(&fake.kinds, "thread.create"));
    fake.write_error = HOST_ACCESS_DENIED;
    assert_int_equal(RUN("driver", "set", "image.load", "on"), CLI_INPUT);
    says("elevated");
}

static void test_filter(void **state)
{
    (void)state;
    assert_int_equal(RUN("driver", "filter", "list"), CLI_INPUT);
    says("not installed");
    installed(HOST_STOPPED);
    assert_int_equal(RUN("driver", "filter", "list"), CLI_DONE);
    prints("  1  exclude kind=registry.* key=\\REGISTRY\\A\\\n");
    says("driver's own");
    assert_int_equal(RUN("driver", "filter", "list", "-o", DUMP), CLI_DONE);
    assert_string_equal(out_text, "");
    slurp(DUMP, out_text);
    prints("  1  exclude kind=registry.* key=\\REGISTRY\\A\\\n");
    /* The first change keeps what was in force. */
    assert_int_equal(RUN("driver", "filter", "add", "exclude", "image=\\a b\\c.exe"), CLI_DONE);
    assert_string_equal(fake.rules.items[0], "exclude image=\"\\a b\\c.exe\"");
    assert_string_equal(fake.rules.items[1], control_default_rule(0));
    size_t count = fake.rules.count;
    assert_int_equal(RUN("driver", "filter", "add", "exclude kind=nothing"), CLI_USAGE);
    says("unknown kind");
    assert_int_equal(fake.rules.count, count);
    assert_int_equal(RUN("driver", "filter", "remove", "2"), CLI_DONE);
    assert_int_equal(fake.rules.count, count - 1);
    assert_string_equal(fake.rules.items[1], control_default_rule(1));
    while (fake.rules.count > 1)
        assert_int_equal(RUN("driver", "filter", "remove", "1"), CLI_DONE);
    fake.rules.items[0][0] = '?';
    assert_int_equal(RUN("driver", "filter", "list"), CLI_DONE);
    says("will not take rule 1");
    says("the driver has its own instead");
    assert_int_equal(RUN("driver", "filter", "remove", "1"), CLI_DONE);
    assert_int_equal(RUN("driver", "filter", "list"), CLI_DONE);
    says("everything is recorded");
    assert_string_equal(out_text, "");
    for (unsigned i = 0; i < CONTROL_MAX_RULES; i++)
        assert_int_equal(RUN("driver", "filter", "add", "include pid=4"), CLI_DONE);
    assert_int_equal(RUN("driver", "filter", "add", "include pid=4"), CLI_USAGE);
    assert_int_equal(fake.rules.count, CONTROL_MAX_RULES);
    fake.state = HOST_RUNNING;
    assert_int_equal(RUN("driver", "filter", "remove", "1"), CLI_DONE);
    says("starts the next time");
}

static void test_status(void **state)
{
    (void)state;
    assert_int_equal(RUN("driver", "status"), CLI_INPUT);
    prints("not installed");
    installed(HOST_STOPPED);
    assert_int_equal(RUN("driver", "status"), CLI_INPUT);
    prints("stopped, start: demand");
    fake.state = HOST_RUNNING;
    for (size_t i = 0; i < 16; i++)
        fake.log[i] = (uint8_t)(i + 1);
    fake.kinds_on = bit("process.create");
    fake.offered[kind("process.create")] = 12;
    fake.written[kind("process.create")] = 11;
    fake.filtered[kind("process.create")] = 1;
    assert_int_equal(RUN("driver", "status"), CLI_DONE);
    prints("{04030201-0605-0807-090a-0b0c0d0e0f10}");
    prints("process.create           on              12           11            0            1\n");
    prints("process.exit             off ");
    assert_int_equal(RUN("driver", "status", "-f", "json"), CLI_DONE);
    prints("\"file\":\"\\\\SystemRoot\\\\System32");
    prints(
        "\"process.create\":{\"on\":true,\"offered\":12,\"written\":11,\"lost\":0,\"filtered\":1}");
    fake.lost[kind("image.load")] = 3;
    assert_int_equal(RUN("driver", "status"), CLI_INCOMPLETE);
    says("3 events were lost");
    fake.writing = 0;
    fake.write_status = (int32_t)0xc000007fu;
    assert_int_equal(RUN("driver", "status"), CLI_INCOMPLETE);
    prints("0xc000007f");
    says("do not reach the disk");
    fake.open_error = HOST_ACCESS_DENIED;
    assert_int_equal(RUN("driver", "status"), CLI_INPUT);
    says("elevated");
}

/* An answer of another size or version is not looked at. */
static void test_bad_answers(void **state)
{
    (void)state;
    installed(HOST_RUNNING);
    fake.answer_short = 1;
    assert_int_equal(RUN("driver", "status"), CLI_INPUT);
    says("different versions");
    fake.answer_short = 0;
    fake.protocol++;
    assert_int_equal(RUN("driver", "status"), CLI_INPUT);
    assert_int_equal(RUN("watch"), CLI_INPUT);
    says("different versions");
    fake.protocol--;
    fake.schema++;
    assert_int_equal(RUN("watch"), CLI_INPUT);
    says("different versions");
}

/* ---- watch ---- */

#define CREATE(id, pid)                                                                            \
    "{\"v\":1,\"id\":" id ",\"time\":\"2026-11-29T21:04:05.1234567Z\",\"kind\":\"process.create\"" \
    ",\"source\":\"driver\",\"cpu\":0,\"pid\":" pid ",\"tid\":8,\"image\":\"\\\\a.exe\"}"
#define LOSS(scope)                                                                                \
    "{\"v\":1,\"time\":\"2026-11-29T21:04:06.1234567Z\",\"kind\":\"sensor.loss\","                 \
    "\"source\":\"driver\",\"cpu\":0,\"pid\":4,\"tid\":8,\"lost\":{\"image.load\":7},"             \
    "\"reason\":\"buffer_lost\"" scope "}"

static void test_watch(void **state)
{
    (void)state;
    assert_int_equal(RUN("watch"), CLI_INPUT);
    says("does not run");
    installed(HOST_RUNNING);
    /* Lines do not end where reads do. */
    fake.reads[0] = CREATE("1", "100") "\n{\"v\":1,\"id\":2,\"ti";
    fake.reads[1] = "me\":\"2026-11-29T21:04:05.2Z\",\"kind\":\"process.create\",\"source\":"
                    "\"driver\",\"cpu\":0,\"pid\":200,\"tid\":1}\n";
    assert_int_equal(RUN("watch", "-f", "jsonl"), CLI_DONE);
    prints(CREATE("1", "100") "\n{\"v\":1,\"id\":2,\"time\":");
    assert_string_equal(err_text, "");
    fake.read_at = 0;
    assert_int_equal(RUN("watch", "-f", "jsonl", "--pid", "200"), CLI_DONE);
    assert_null(strstr(out_text, "\"id\":1"));
    prints("\"id\":2");
    fake.read_at = 0;
    assert_int_equal(RUN("watch", "-f", "jsonl", "--since", "2026-11-29T21:04:05.15"), CLI_DONE);
    assert_null(strstr(out_text, "\"id\":1"));
    prints("\"id\":2");
    fake.read_at = 0;
    assert_int_equal(RUN("watch"), CLI_DONE);
    prints("process.create");
}

static void test_watch_losses(void **state)
{
    (void)state;
    installed(HOST_RUNNING);
    fake.reads[0] = CREATE("1", "100") "\n" LOSS(",\"scope\":\"reader\"") "\n" LOSS("") "\n";
    assert_int_equal(RUN("watch", "-f", "jsonl", "--kind", "network"), CLI_INCOMPLETE);
    assert_null(strstr(out_text, "process.create"));
    prints(LOSS(",\"scope\":\"reader\"") "\n" LOSS("") "\n");
    says("7 events passed that this reader was too slow for");
    says("7 events were lost by the sensor");
    fake.read_at = 0;
    fake.reads[0] = "nonsense\n" CREATE("1", "100") "\n";
    assert_int_equal(RUN("watch", "-f", "jsonl"), CLI_INCOMPLETE);
    says("1 line of the driver could not be read");
    prints("process.create");
}

static void test_watch_ends(void **state)
{
    (void)state;
    installed(HOST_RUNNING);
    fake.last_read = HOST_ABORTED;
    fake.reads[0] = CREATE("1", "100") "\n";
    assert_int_equal(RUN("watch"), CLI_INPUT);
    says("the driver was stopped");
    prints("process.create"); /* what came before is shown */
    fake.read_at = 0;
    fake.reads[1] =
        "{\"v\":1,\"id\":2,\"time\":\"2026-11-29T21:04:07.2Z\",\"kind\":\"sensor.stop\","
        "\"source\":\"driver\",\"cpu\":0,\"pid\":4,\"tid\":1}\n";
    assert_int_equal(RUN("watch"), CLI_DONE);
    prints("sensor.stop");
    fake.read_at = 0;
    fake.last_read = 4;
    fake.reads[0] = NULL;
    assert_int_equal(RUN("watch"), CLI_INPUT);
    says("as many programs read");
}

/* ---- live dumps ---- */

static void test_dump(void **state)
{
    (void)state;
    assert_int_equal(RUN("live-dump", DUMP, "--user-pages"), CLI_DONE);
    assert_true(there(DUMP) && !there(PARTIAL) && fake.dump_ended);
    assert_string_equal(fake.dump_path, PARTIAL);
    assert_int_equal(fake.control[0], 1);
    assert_int_equal(fake.control[0x38], 4);
    assert_int_equal(fake.control[0x3c], 0);
    says("(an estimate)");
    assert_int_equal(RUN("live-dump", DUMP), CLI_USAGE);
    says("exists already");
}

static void test_dump_room(void **state)
{
    (void)state;
    fake.room = (uint64_t)1 << 30;
    assert_int_equal(RUN("live-dump", DUMP), CLI_INPUT);
    says("--force");
    assert_false(there(DUMP) || there(PARTIAL));
    assert_int_equal(RUN("live-dump", DUMP, "--force", "--hypervisor"), CLI_DONE);
    assert_int_equal(fake.control[0x3c], 1);
}

static void test_dump_fails(void **state)
{
    (void)state;
    fake.dump_error = 1300;
    assert_int_equal(RUN("live-dump", DUMP), CLI_INPUT);
    says("SeDebugPrivilege");
    fake.dump_error = 0;
    fake.dump_status = 0xc0000354u;
    assert_int_equal(RUN("live-dump", DUMP), CLI_INPUT);
    says("status 0xc0000354");
    says("22H2");
    assert_false(there(DUMP) || there(PARTIAL));
    assert_true(fake.dump_ended);
    assert_int_equal(RUN("live-dump", DUMP, "--keep"), CLI_INPUT);
    assert_true(there(PARTIAL) && !there(DUMP));
    assert_int_equal(RUN("live-dump", DUMP), CLI_INPUT);
    says("a partial dump of an earlier run");
    assert_true(there(PARTIAL));
}

/* Not even a file that was not there at the start is replaced. */
static void test_dump_name_taken(void **state)
{
    (void)state;
    fake.appears = DUMP;
    assert_int_equal(RUN("live-dump", DUMP), CLI_INTERNAL);
    says("is complete and cannot be named");
    slurp(DUMP, out_text);
    assert_string_equal(out_text, "");
    slurp(PARTIAL, out_text);
    assert_string_equal(out_text, "PAGEDU64");
}

static void test_dump_cancelled(void **state)
{
    (void)state;
    fake.dump_polls = 1000;
    fake.interrupt_after = 2;
    assert_int_equal(RUN("live-dump", DUMP), CLI_INTERNAL);
    assert_true(fake.dump_cancelled && fake.dump_ended);
    says("cancelled");
    assert_false(there(DUMP) || there(PARTIAL));
}

static void test_map_live(void **state)
{
    (void)state;
    /* The made-up dump is none: what matters is that it is opened, and kept. */
    assert_int_equal(RUN("map", "--live", "--dump", DUMP), CLI_INPUT);
    assert_true(there(DUMP));
    says("wrote '");
    (void)remove(DUMP);
    fake.dump_status = 0xc0000061u;
    assert_int_equal(RUN("map", "--live", "--dump", DUMP), CLI_INPUT);
    says("SeDebugPrivilege");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_not_windows),
        TEST(test_install),
        TEST(test_install_fails),
        TEST(test_start),
        TEST(test_stop_and_remove),
        TEST(test_arguments),
        TEST(test_set),
        TEST(test_filter),
        TEST(test_status),
        TEST(test_bad_answers),
        TEST(test_watch),
        TEST(test_watch_losses),
        TEST(test_watch_ends),
        TEST(test_dump),
        TEST(test_dump_room),
        TEST(test_dump_fails),
        TEST(test_dump_cancelled),
        TEST(test_dump_name_taken),
        TEST(test_map_live),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
