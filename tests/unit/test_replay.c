/*
 * test_replay.c - recordings: fields, records, and the order in which they are fired.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#ifdef KDA_HAVE_REPLAY

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define MS UINT64_C(10000)
#define NOT_TAKEN 0

static bool same(struct sim_str text, const char *ascii)
{
    if (text.count != strlen(ascii))
        return false;
    for (size_t i = 0; i < text.count; i++)
        if (text.units[i] != (unsigned char)ascii[i])
            return false;
    return true;
}

/* ---- fields ---- */

static void test_times(void **state)
{
    (void)state;
    uint64_t value, later;
    assert_true(recording_time("1601-01-01 00:00:00", &value));
    assert_int_equal(value, 0);
    assert_true(recording_time("2020-09-17 21:45:41.433", &value));
    assert_int_equal(value, UINT64_C(132448527414330000));
    assert_true(recording_time("2020-09-17T21:45:41.4330001Z", &later));
    assert_int_equal(later, value + 1);
    assert_true(recording_time("2000-02-29 12:00:00", &value));
    static const char *const wrong[] = {"",
                                        "-",
                                        "2020-13-01 00:00:00",
                                        "2020-01-01 24:00:00",
                                        "2020-01-01",
                                        "2020-01-01 00:00:00 x"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(recording_time(wrong[i], &value));
    assert_int_equal(recording_guid_time("{564ff025-2350-62fe-4300-000000000600}"),
                     (UINT64_C(0x62fe2350) + UINT64_C(11644473600)) * 10000000);
    assert_int_equal(recording_guid_time("{564ff025}"), 0);
}

static void test_addresses(void **state)
{
    (void)state;
    uint8_t out[16], version;
    static const uint8_t six[16] = {0xfe, 0x80, 0,    0,    0,    0,    0,    0,
                                    0x95, 0x82, 0x39, 0xe0, 0x35, 0x6b, 0xef, 0x4e};
    assert_true(recording_address("172.18.39.5", out, &version));
    assert_int_equal(version, 4);
    assert_memory_equal(out, "\xac\x12\x27\x05", 4);
    assert_true(recording_address("fe80:0:0:0:9582:39e0:356b:ef4e", out, &version));
    assert_int_equal(version, 6);
    assert_memory_equal(out, six, 16);
    assert_true(recording_address("fe80::9582:39e0:356b:ef4e%3", out, &version));
    assert_memory_equal(out, six, 16);
    assert_true(recording_address("::1", out, &version));
    assert_int_equal(out[15], 1);
    assert_true(recording_address("::", out, &version));
    static const char *const wrong[] = {
        "", "1.2.3", "1.2.3.256", "1:2:3", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "x", ":1"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_false(recording_address(wrong[i], out, &version));
}

static void test_registry_names(void **state)
{
    (void)state;
    struct recording r;
    struct sim_str key, value;
    recording_init(&r, NULL);
    assert_true(same(recording_key(&r, "HKLM\\System\\X"), "\\REGISTRY\\MACHINE\\System\\X"));
    assert_true(same(recording_key(&r, "HKU\\.DEFAULT"), "\\REGISTRY\\USER\\.DEFAULT"));
    assert_true(same(recording_key(&r, "HKCR"), "\\REGISTRY\\MACHINE\\SOFTWARE\\Classes"));
    assert_true(same(recording_key(&r, "\\REGISTRY\\A\\{x}"), "\\REGISTRY\\A\\{x}"));
    assert_int_equal(recording_key(&r, "HKLMX\\a").count, 0);
    assert_true(recording_value(&r, "HKLM\\a\\b", &key, &value));
    assert_true(same(key, "\\REGISTRY\\MACHINE\\a") && same(value, "b"));
    assert_true(recording_value(&r, "HKLM\\a\\(Default)", &key, &value));
    assert_true(same(key, "\\REGISTRY\\MACHINE\\a") && value.count == 0);
    assert_true(recording_value(&r, "HKLM\\a\\\\Device\\V\\x.exe", &key, &value));
    assert_true(same(key, "\\REGISTRY\\MACHINE\\a") && same(value, "\\Device\\V\\x.exe"));
    assert_true(recording_value(&r, "HKU\\a\\C:\\x\\y.exe", &key, &value));
    assert_true(same(key, "\\REGISTRY\\USER\\a") && same(value, "C:\\x\\y.exe"));
    assert_false(recording_value(&r, "HKLM", &key, &value));
    assert_true(
        same(recording_path(&r, "C:\\Windows\\x"), "\\Device\\HarddiskVolume3\\Windows\\x"));
    assert_true(same(recording_path(&r, "System"), "System"));
    recording_deinit(&r);
}

static void test_registry_data(void **state)
{
    (void)state;
    struct recording r;
    uint32_t type;
    const void *data;
    size_t size;
    recording_init(&r, NULL);
    assert_true(recording_data(&r, "DWORD (0x00000a05)", &type, &data, &size));
    assert_int_equal(type, 4);
    assert_int_equal(size, 4);
    assert_memory_equal(data, "\x05\x0a\0\0", 4);
    assert_true(recording_data(&r, "QWORD (0x01d8b30a-0x3f46c50c)", &type, &data, &size));
    assert_int_equal(type, 11);
    assert_memory_equal(data, "\x0c\xc5\x46\x3f\x0a\xb3\xd8\x01", 8);
    assert_true(recording_data(&r, "Binary Data", &type, &data, &size));
    assert_int_equal(type, 3);
    assert_int_equal(size, 0);
    assert_true(recording_data(&r, "(Empty)", &type, &data, &size));
    assert_int_equal(type, 1);
    assert_int_equal(size, 2);
    assert_true(recording_data(&r, "DWORD (x)", &type, &data, &size));
    assert_int_equal(type, 1);
    assert_int_equal(size, 20);
    /* a pair beyond the BMP: two units and the terminator */
    assert_true(recording_data(&r, "\xf0\x9f\x92\xbe", &type, &data, &size));
    assert_int_equal(size, 6);
    assert_memory_equal(data, "\x3d\xd8\xbe\xdc\0\0", 6);
    recording_deinit(&r);
}

/* ---- lines ---- */

#define G(n) "{564ff025-2350-62fe-000" #n "-000000000600}"
#define HEAD(id, time)                                                                             \
    "{\"SourceName\":\"Microsoft-Windows-Sysmon\",\"Hostname\":\"h\",\"EventID\":" #id             \
    ",\"UtcTime\":\"2022-08-18 13:00:" time "\","
#define WHO(n, pid)                                                                                \
    "\"ProcessGuid\":\"" G(n) "\",\"ProcessId\":\"" #pid "\",\"Image\":\"C:\\\\" #n ".exe\""

static void feed(struct recording *r, const char *line)
{
    recording_line(r, line, strlen(line), r->read + 1);
}

static void test_every_event(void **state)
{
    (void)state;
    struct recording r;
    recording_init(&r, NULL);
    feed(&r,
         HEAD(1, "01.000") WHO(1, 100) ",\"CommandLine\":\"\\\"a\\\" -b\",\"TerminalSessionId\":"
                                       "\"2\",\"IntegrityLevel\":\"High\",\"User\":\"D\\\\u\","
                                       "\"ParentProcessGuid\":\"" G(2) "\",\"ParentProcessId\":"
                                                                       "\"200\"}");
    feed(&r, HEAD(3, "02.000") WHO(1, 100) ",\"Protocol\":\"tcp\",\"Initiated\":\"true\","
                                           "\"SourceIp\":\"10.0.0.1\",\"SourcePort\":\"1\","
                                           "\"DestinationIp\":\"10.0.0.2\",\"DestinationPort\":"
                                           "\"443\"}");
    feed(&r, HEAD(6, "02.001") "\"ImageLoaded\":\"C:\\\\Windows\\\\d.sys\"}");
    feed(&r, HEAD(7, "02.002") WHO(1, 100) ",\"ImageLoaded\":\"C:\\\\x.dll\"}");
    feed(&r, HEAD(8, "02.003") "\"SourceProcessGuid\":\"" G(
                 1) "\",\"SourceProcessId\":\"100\","
                    "\"TargetProcessGuid\":\"" G(
                        2) "\",\"TargetProcessId\":\"200\","
                           "\"NewThreadId\":\"300\",\"StartAddress\":\"0xFFFFEF60CA462460\"}");
    feed(&r, HEAD(12, "02.004") WHO(1, 100) ",\"EventType\":\"CreateKey\",\"TargetObject\":\"HKLM"
                                            "\\\\a\"}");
    feed(&r, HEAD(12, "02.005") WHO(1, 100) ",\"EventType\":\"DeleteKey\",\"TargetObject\":\"HKLM"
                                            "\\\\a\"}");
    feed(&r, HEAD(12, "02.006") WHO(1, 100) ",\"EventType\":\"DeleteValue\",\"TargetObject\":\"HKLM"
                                            "\\\\a\\\\v\"}");
    feed(&r, HEAD(13, "02.007") WHO(1, 100) ",\"TargetObject\":\"HKLM\\\\a\\\\v\",\"Details\":"
                                            "\"DWORD (0x00000001)\"}");
    feed(&r, HEAD(14, "02.008") WHO(1, 100) ",\"EventType\":\"RenameKey\",\"TargetObject\":\"HKLM"
                                            "\\\\a\",\"NewName\":\"HKLM\\\\b\"}");
    feed(&r, HEAD(5, "03.000") WHO(1, 100) "}");
    assert_int_equal(r.taken, 11);
    assert_int_equal(r.count, 1);
    const struct replay_machine *m = &r.machines[0];
    assert_int_equal(m->process_count, 2);
    const struct replay_process *p = &m->processes[0];
    assert_int_equal(p->pid, 100);
    assert_int_equal(p->session, 2);
    assert_int_equal(p->integrity, 0x3000);
    assert_int_equal(p->sid_size, 28);
    assert_true(same(p->command_line, "\"a\" -b"));
    assert_true(same(p->image, "\\Device\\HarddiskVolume3\\1.exe"));
    assert_int_equal(p->parent, 1);
    assert_int_equal(m->records[1].destination.port, 443);
    assert_true(same(m->records[2].path, "\\Device\\HarddiskVolume3\\Windows\\d.sys"));
    assert_int_equal(m->records[4].address, UINT64_C(0xFFFFEF60CA462460));
    assert_int_equal(m->records[7].type, REPLAY_VALUE_DELETE);
    assert_true(same(m->records[9].path, "\\REGISTRY\\MACHINE\\a"));
    assert_true(same(m->records[9].name, "b"));
    recording_deinit(&r);
}

static void test_every_skip(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum replay_skip reason;
    } cases[] = {
        {"{", REPLAY_SKIP_NOT_JSON},
        {"[1]", REPLAY_SKIP_NOT_JSON},
        {"{\"SourceName\":\"Other\",\"EventID\":1}", REPLAY_SKIP_CHANNEL},
        {"{\"SourceName\":\"Microsoft-Windows-Sysmon\"}", REPLAY_SKIP_FIELD},
        {HEAD(10, "00.000") WHO(1, 100) "}", REPLAY_SKIP_EVENT},
        {HEAD(5, "99.000") WHO(1, 100) "}", REPLAY_SKIP_FIELD},
        {HEAD(5, "00.000") "\"Image\":\"C:\\\\a\"}", REPLAY_SKIP_PROCESS},
        {HEAD(5, "00.000") "\"ProcessGuid\":\"{00000000-0000-0000-0000-000000000000}\"}",
         REPLAY_SKIP_PROCESS},
        {HEAD(12, "00.000") WHO(1, 100) ",\"TargetObject\":\"HKLM\\\\a\"}", REPLAY_SKIP_OPERATION},
        {HEAD(12, "00.000") WHO(1, 100) ",\"EventType\":\"INFO\",\"TargetObject\":\"HKLM\\\\a\"}",
         REPLAY_SKIP_OPERATION},
        {HEAD(13, "00.000") WHO(1, 100) ",\"TargetObject\":\"HKLM\\\\a\\\\b\"}", REPLAY_SKIP_FIELD},
        {HEAD(3, "00.000") WHO(1, 100) ",\"Protocol\":\"tcp\"}", REPLAY_SKIP_FIELD},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct recording r;
        recording_init(&r, NULL);
        feed(&r, cases[i].line);
        assert_int_equal(r.taken, NOT_TAKEN);
        if (r.skipped[cases[i].reason] != 1)
            fail_msg("case %zu was not skipped as \"%s\"", i, replay_skip_names[cases[i].reason]);
        recording_deinit(&r);
    }
    struct recording r;
    recording_init(&r, "other");
    feed(&r, HEAD(5, "00.000") WHO(1, 100) "}");
    assert_int_equal(r.skipped[REPLAY_SKIP_HOST], 1);
    recording_deinit(&r);
}

/* ---- plan ---- */

static size_t place_of(const struct replay_machine *m, const struct replay_plan *plan,
                       enum replay_op op, size_t index)
{
    (void)m;
    for (size_t i = 0; i < plan->count; i++)
        if (plan->steps[i].op == op && plan->steps[i].index == index)
            return i;
    return REPLAY_NONE;
}

static void test_plan_keeps_lives(void **state)
{
    (void)state;
    struct recording r;
    struct replay_plan plan;
    recording_init(&r, NULL);
    /* 0: dated before its own creation; 3: after its end */
    feed(&r, HEAD(7, "00.990") WHO(1, 100) ",\"ImageLoaded\":\"C:\\\\x.dll\"}");
    feed(&r, HEAD(1, "01.000") WHO(1, 100) ",\"ParentProcessGuid\":\"" G(2) "\"}");
    feed(&r, HEAD(5, "02.000") WHO(1, 100) "}");
    feed(&r, HEAD(7, "02.500") WHO(1, 100) ",\"ImageLoaded\":\"C:\\\\y.dll\"}");
    struct replay_machine *m = &r.machines[0];
    assert_true(replay_plan(m, &plan));
    assert_int_equal(plan.count, 4);
    assert_int_equal(plan.steps[0].index, 1);
    assert_int_equal(plan.steps[1].index, 0);
    assert_int_equal(plan.steps[2].index, 3);
    assert_int_equal(plan.steps[3].index, 2);
    assert_int_equal(m->moved, 2);
    assert_int_equal(m->records[0].at, m->records[1].time);
    assert_int_equal(m->records[3].at, m->records[2].time);
    assert_true(m->processes[1].existing);
    assert_int_equal(m->processes[1].pid % 4, 0);
    assert_int_not_equal(m->processes[1].pid, 100);
    assert_true(replay_is_structural(m, &plan.steps[0]));
    assert_false(replay_is_structural(m, &plan.steps[1]));
    replay_plan_free(&plan);
    recording_deinit(&r);
}

static void test_plan_parts_pids(void **state)
{
    (void)state;
    struct recording r;
    struct replay_plan plan;
    recording_init(&r, NULL);
    feed(&r,
         HEAD(13, "01.000") WHO(1, 100) ",\"TargetObject\":\"HKLM\\\\a\\\\b\",\"Details\":\"x\"}");
    feed(&r,
         HEAD(13, "02.000") WHO(2, 100) ",\"TargetObject\":\"HKLM\\\\a\\\\b\",\"Details\":\"y\"}");
    struct replay_machine *m = &r.machines[0];
    assert_int_equal(m->process_count, 2);
    assert_true(replay_plan(m, &plan));
    assert_int_equal(plan.count, 4);
    assert_true(m->processes[0].existing);
    assert_false(m->processes[1].existing);
    assert_true(place_of(m, &plan, REPLAY_FIRE, 0) < place_of(m, &plan, REPLAY_END, 0));
    assert_true(place_of(m, &plan, REPLAY_END, 0) < place_of(m, &plan, REPLAY_START, 1));
    assert_true(place_of(m, &plan, REPLAY_START, 1) < place_of(m, &plan, REPLAY_FIRE, 1));
    replay_plan_free(&plan);
    recording_deinit(&r);
}

static void test_plan_orders_a_moment(void **state)
{
    (void)state;
    struct recording r;
    struct replay_plan plan;
    recording_init(&r, NULL);
    /* grandchild, child, parent and the end of the parent in one moment, in the worst order */
    feed(&r, HEAD(5, "01.000") WHO(1, 100) "}");
    feed(&r, HEAD(1, "01.000") WHO(3, 300) ",\"ParentProcessGuid\":\"" G(2) "\"}");
    feed(&r, HEAD(1, "01.000") WHO(2, 200) ",\"ParentProcessGuid\":\"" G(1) "\"}");
    feed(&r, HEAD(1, "01.000") WHO(1, 100) "}");
    assert_true(replay_plan(&r.machines[0], &plan));
    assert_int_equal(plan.count, 4);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(plan.steps[i].index, 3 - i);
    replay_plan_free(&plan);
    recording_deinit(&r);
}

static void test_plan_far_times(void **state)
{
    (void)state;
    struct recording r;
    struct replay_plan plan;
    recording_init(&r, NULL);
    feed(&r, HEAD(7, "01.000") WHO(1, 100) ",\"ImageLoaded\":\"C:\\\\x.dll\"}");
    feed(&r,
         "{\"SourceName\":\"Microsoft-Windows-Sysmon\",\"Hostname\":\"h\",\"EventID\":7,"
         "\"UtcTime\":\"2022-08-14 13:00:00.000\"," WHO(1, 100) ",\"ImageLoaded\":\"C:\\\\y\"}");
    struct replay_machine *m = &r.machines[0];
    assert_true(replay_plan(m, &plan));
    assert_int_equal(m->records[1].at, m->records[0].at);
    assert_int_equal(m->moved, 1);
    replay_plan_free(&plan);
    recording_deinit(&r);
}

static void test_ends(void **state)
{
    (void)state;
    struct recording r;
    struct replay_plan plan;
    const struct replay_endpoint *local, *remote;
    recording_init(&r, NULL);
    feed(&r, HEAD(3, "01.000") WHO(1, 100) ",\"Protocol\":\"tcp\",\"Initiated\":\"true\","
                                           "\"SourceIp\":\"10.0.0.1\",\"SourcePort\":\"1\","
                                           "\"DestinationIp\":\"10.0.0.2\",\"DestinationPort\":"
                                           "\"443\"}");
    feed(&r, HEAD(3, "02.000") WHO(1, 100) ",\"Protocol\":\"udp\",\"Initiated\":\"false\","
                                           "\"SourceIp\":\"10.0.0.1\",\"SourcePort\":\"53\","
                                           "\"DestinationIp\":\"10.0.0.9\",\"DestinationPort\":"
                                           "\"99\"}");
    struct replay_machine *m = &r.machines[0];
    assert_true(replay_plan(m, &plan));
    replay_ends(m, &m->records[0], &local, &remote);
    assert_int_equal(local->port, 1);
    assert_int_equal(remote->port, 443);
    /* not initiated, yet the source is ours */
    replay_ends(m, &m->records[1], &local, &remote);
    assert_int_equal(local->port, 53);
    assert_int_equal(remote->port, 99);
    replay_plan_free(&plan);
    recording_deinit(&r);
}

/* ---- real recordings ---- */

struct expected {
    const char *name;
    size_t machines;
    uint64_t read, taken;
    uint64_t create, flow, end, image, thread, key, value;
    uint64_t no_operation, no_process;
};
static const struct expected recordings[] = {
    {"auditpol_system_user_auditpolicy_modification", 1, 13645, 1688, 19, 2, 14, 842, 0, 636, 175,
     0, 0},
    {"cmd_wevtutil_modify_security_eventlog_path", 1, 25208, 11831, 31, 112, 34, 1745, 0, 5772,
     4137, 0, 0},
    {"covenant_dcom_executeexcel4macro_allowed", 3, 8121, 5559, 17, 77, 22, 1034, 0, 2177, 2232, 0,
     0},
    {"empire_dllinjection_LoadLibrary_CreateRemoteThread", 3, 12200, 4750, 8, 206, 12, 570, 1, 3706,
     247, 0, 0},
    {"rdp_interactive_taskmanager_lsass_dump", 2, 5489, 1339, 17, 14, 15, 846, 1, 0, 446, 1269, 1},
};

/* Life rules on a whole plan: who is not there acts not, and no pid is given twice at a time. */
static void check_plan(struct replay_machine *m, const struct replay_plan *plan)
{
    uint64_t last = 0;
    size_t fired = 0;
    bool *alive = calloc(m->process_count, sizeof(*alive));
    assert_non_null(alive);
    for (size_t i = 0; i < m->process_count; i++)
        alive[i] = m->processes[i].existing || m->processes[i].pid == 4;
    for (size_t i = 0; i < plan->count; i++) {
        const struct replay_step *step = &plan->steps[i];
        assert_true(step->at >= last);
        last = step->at;
        const struct replay_record *record =
            step->op == REPLAY_FIRE ? &m->records[step->index] : NULL;
        fired += record != NULL;
        if (step->op == REPLAY_START || (record && record->type == REPLAY_PROCESS_CREATE)) {
            size_t index = record ? record->process : step->index;
            assert_false(alive[index]);
            for (size_t p = 0; p < m->process_count; p++)
                assert_false(alive[p] && m->processes[p].pid == m->processes[index].pid);
            alive[index] = true;
        } else if (step->op == REPLAY_END || (record && record->type == REPLAY_PROCESS_EXIT)) {
            size_t index = record ? record->process : step->index;
            assert_true(alive[index]);
            alive[index] = false;
        } else if (record && record->process != REPLAY_NONE) {
            assert_true(alive[record->process]);
        }
    }
    assert_int_equal(fired, m->count);
    free(alive);
}

static void test_recordings(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(recordings) / sizeof(recordings[0]); i++) {
        const struct expected *e = &recordings[i];
        char path[1024];
        struct recording r;
        (void)snprintf(path, sizeof(path), "%s/../shared/data/activity/%s.zip", KDA_SOURCE_DIR,
                       e->name);
        FILE *file = fopen(path, "rb");
        if (!file)
            skip();
        (void)fclose(file);
        recording_init(&r, NULL);
        assert_true(recording_read(&r, path, stderr));
        assert_int_equal(r.read, e->read);
        assert_int_equal(r.count, e->machines);
        assert_int_equal(r.taken, e->taken);
        assert_int_equal(r.by_event[1], e->create);
        assert_int_equal(r.by_event[3], e->flow);
        assert_int_equal(r.by_event[5], e->end);
        assert_int_equal(r.by_event[7], e->image);
        assert_int_equal(r.by_event[8], e->thread);
        assert_int_equal(r.by_event[12], e->key);
        assert_int_equal(r.by_event[13], e->value);
        assert_int_equal(r.skipped[REPLAY_SKIP_OPERATION], e->no_operation);
        assert_int_equal(r.skipped[REPLAY_SKIP_PROCESS], e->no_process);
        assert_int_equal(r.skipped[REPLAY_SKIP_FIELD], 0);
        assert_int_equal(r.skipped[REPLAY_SKIP_NOT_JSON], 0);
        for (size_t h = 0; h < r.count; h++) {
            struct replay_plan plan;
            assert_true(replay_plan(&r.machines[h], &plan));
            check_plan(&r.machines[h], &plan);
            replay_plan_free(&plan);
        }
        recording_deinit(&r);
    }
}

static void test_files(void **state)
{
    (void)state;
    struct recording r;
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/test_replay_lines.json", KDA_BUILD_DIR);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    (void)fputs(HEAD(5, "00.000") WHO(1, 100) "}\n\n{\n" HEAD(5, "00.000") WHO(2, 104) "}", file);
    (void)fclose(file);
    recording_init(&r, NULL);
    assert_true(recording_read(&r, path, stderr));
    assert_int_equal(r.read, 3); /* the empty line is none */
    assert_int_equal(r.taken, 2);
    assert_int_equal(r.machines[0].records[1].line, 4);
    recording_deinit(&r);
    (void)remove(path);
    FILE *quiet = tmpfile();
    assert_non_null(quiet);
    assert_false(recording_read(&r, path, quiet));
    assert_true(ftell(quiet) > 0);
    (void)fclose(quiet);
    recording_deinit(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_registry_names),
        cmocka_unit_test(test_registry_data),
        cmocka_unit_test(test_every_event),
        cmocka_unit_test(test_every_skip),
        cmocka_unit_test(test_plan_keeps_lives),
        cmocka_unit_test(test_plan_parts_pids),
        cmocka_unit_test(test_plan_orders_a_moment),
        cmocka_unit_test(test_plan_far_times),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_recordings),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void test_without_libraries(void **state)
{
    (void)state;
    skip(); /* built without jansson or libarchive */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_without_libraries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
