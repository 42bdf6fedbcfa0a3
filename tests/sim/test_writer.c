/*
 * test_writer.c - the writer and its files: folders, full disks, rotation, flush, shutdown, sleep,
 * clocks that jump, records at every limit.
 */
#include "world.h"

#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <unistd.h>

#include "kda_ioctl.h"

static void flush(int32_t expected)
{
    struct kda_control request = {KDA_CONTROL_VERSION, sizeof(request)};
    struct sim_reader *reader = NULL;

    assert_int_equal(sim_reader_open(STR("\\??\\KDAMonitor"), SIM_CALLER_ADMIN, 3, &reader), 0);
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_FLUSH, &request, sizeof(request), NULL, 0, NULL),
        expected);
    sim_reader_close(reader);
}

static void get_status(struct kda_control_status *status)
{
    struct sim_reader *reader = NULL;

    assert_int_equal(sim_reader_open(STR("\\??\\KDAMonitor"), SIM_CALLER_ADMIN, 3, &reader), 0);
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_STATUS, NULL, 0, status, sizeof(*status), NULL), 0);
    sim_reader_close(reader);
}

static void set_bytes(const void *data, size_t size)
{
    const struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"),
                                    .name = STR("Bytes"),
                                    .type = REG_BINARY,
                                    .data = data,
                                    .size = size};
    assert_int_equal(sim_registry_set_value(&op), 0);
}

static void set_values(unsigned count)
{
    static uint8_t bytes[1000];

    for (unsigned n = 0; n < count; n++) {
        memcpy(bytes, &n, sizeof(n));
        set_bytes(bytes, sizeof(bytes));
    }
}

/* In steps that the ring holds. */
static void set_values_calmly(unsigned count)
{
    for (unsigned n = 0; n < count; n += 250) {
        set_values(250);
        flush(STATUS_SUCCESS);
    }
}

static unsigned files_in(const char *below)
{
    char path[4096];
    struct dirent *entry;
    unsigned count = 0;
    DIR *folder;

    snprintf(path, sizeof(path), "%s/%s", sim_disk(), below);
    folder = opendir(path);
    while (folder && (entry = readdir(folder)) != NULL)
        count += strstr(entry->d_name, ".jsonl") != NULL;
    if (folder)
        closedir(folder);
    return count;
}

/* --- folders --------------------------------------------------------------------------------- */

static void makes_its_folder(void **state)
{
    (void)state;
    world_begin(NULL);
    sim_settings_set_string(STR("LogDirectory"), STR("\\??\\C:\\one\\two\\three\\"));
    world_load();
    world_unload();
    assert_int_equal(files_in("one/two/three"), 1);
    assert_true(sim_disk_restricted("one/two/three"));
    world_end();
}

/* No folder can be made: everything is kept, and written when it can be. */
static void folder_comes_late(void **state)
{
    struct kda_control_status status;
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_file_fail(SIM_FILE_CREATE, STATUS_OBJECT_PATH_NOT_FOUND, UINT32_MAX);
    world_load();
    set_values(10);
    flush(STATUS_OBJECT_PATH_NOT_FOUND);
    get_status(&status);
    assert_int_equal(status.writing, 0);
    assert_int_equal(status.write_status, STATUS_OBJECT_PATH_NOT_FOUND);
    assert_int_equal(files_in("Windows/KDAMonitor"), 0);
    sim_file_fail(SIM_FILE_CREATE, 0, 0);
    sim_clock_advance(2 * WORLD_SECOND);
    assert_true(world_wait("registry.value_set", ""));
    world_unload();
    world_read(&log);
    assert_int_equal(log.lines[0].id, 0);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 10);
    assert_int_equal(world_count(&log, "sensor.loss", NULL), 0);
    world_free(&log);
    world_end();
}

/* --- disks that refuse ----------------------------------------------------------------------- */

static void small_ring(void)
{
    world_begin(NULL);
    sim_settings_set_dword(STR("RingShards"), 1);
    sim_settings_set_dword(STR("RingShardBytes"), 65536);
}

/* The account after a refusal: dense ids, losses that count everything, a reason that tells. The
 * ring may also have been too small for a moment. */
static void check_refusal(unsigned events)
{
    struct world_log log;
    unsigned long long lost = 0;
    bool told = false;
    size_t written;

    world_read(&log);
    written = world_count(&log, "registry.value_set", NULL);
    for (size_t i = 0; i < log.count; i++) {
        const char *text = log.lines[i].text;
        assert_int_equal(log.lines[i].id, i);
        if (!strstr(text, "\"kind\":\"sensor.loss\""))
            continue;
        told = told || strstr(text, "\"reason\":\"disk_full\"") != NULL;
        lost += strtoull(strstr(text, "\"registry.value_set\":") + 21, NULL, 10);
    }
    assert_true(lost > 0 && told);
    assert_int_equal(written + lost, events);
    world_free(&log);
}

static void disk_full(void **state)
{
    enum { EVENTS = 2000 };
    uint64_t writes;

    (void)state;
    small_ring();
    world_load();
    set_values(10);
    flush(STATUS_SUCCESS);
    sim_disk_free(100);
    set_values(EVENTS / 2 - 10);
    flush(STATUS_DISK_FULL);
    set_values(EVENTS / 2 - 10);
    flush(STATUS_DISK_FULL);
    writes = sim_disk_writes();
    /* It does not try all the time. */
    usleep(200000);
    assert_true(sim_disk_writes() - writes <= 1);
    sim_disk_free(UINT64_MAX);
    sim_clock_advance(2 * WORLD_SECOND);
    assert_true(world_wait("sensor.loss", "disk_full"));
    set_values(10);
    world_unload();
    check_refusal(EVENTS);
    world_end();
}

static void write_errors(void **state)
{
    enum { EVENTS = 1000 };

    (void)state;
    small_ring();
    world_load();
    sim_file_fail(SIM_FILE_WRITE, STATUS_IO_DEVICE_ERROR, UINT32_MAX);
    set_values(EVENTS / 2);
    flush(STATUS_IO_DEVICE_ERROR);
    set_values(EVENTS / 2);
    flush(STATUS_IO_DEVICE_ERROR);
    sim_file_fail(SIM_FILE_WRITE, 0, 0);
    world_unload();
    check_refusal(EVENTS);
    world_end();
}

/* The unload ends; what could not be written is not there, and nothing else is wrong. */
static void disk_full_to_the_end(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    set_values(10);
    flush(STATUS_SUCCESS);
    sim_disk_free(0);
    set_values(10);
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    assert_int_equal(sim_ledger_count(), 0);
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 10);
    assert_int_equal(world_count(&log, "sensor.stop", NULL), 0);
    world_free(&log);
    sim_shutdown_machine();
}

/* --- files ----------------------------------------------------------------------------------- */

static void rotation(void **state)
{
    struct world_log log;
    unsigned starts = 0;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("FileMegabytes"), 1);
    world_load();
    set_values_calmly(3000);
    world_unload();
    assert_true(files_in("Windows/KDAMonitor") >= 3);
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 3000);
    for (size_t i = 0; i < log.count; i++) {
        const char *text = log.lines[i].text;
        if (!strstr(text, "\"kind\":\"sensor.file\""))
            continue;
        starts++;
        assert_int_equal(strtoull(strstr(text, "\"next_id\":") + 10, NULL, 10),
                         log.lines[i].id + 1);
    }
    assert_int_equal(starts, files_in("Windows/KDAMonitor") - 1);
    world_free(&log);
    world_end();
}

static uint64_t file_bytes(void)
{
    struct kda_control_status status;

    flush(STATUS_SUCCESS);
    get_status(&status);
    return status.file_bytes;
}

/* sensor.stop is the last line, also where it fills the file: no further file is begun. */
static void no_file_behind_the_stop(void **state)
{
    static const uint8_t bytes[30000];
    const uint64_t target = (1u << 20) - 100; /* sensor.stop is longer than what is left */
    uint64_t before, line;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("FileMegabytes"), 1);
    sim_settings_set_dword(STR("DataBytes"), 32768);
    world_load();
    before = file_bytes();
    set_bytes(bytes, 100);
    line = file_bytes() - before - 200;
    while (target - file_bytes() > sizeof(bytes) * 2 + 2000)
        set_bytes(bytes, sizeof(bytes));
    while (target - file_bytes() > 1500)
        set_bytes(bytes, 300);
    set_bytes(bytes, (size_t)(target - file_bytes() - line) / 2);
    assert_in_range(file_bytes(), target - 20, target + 20);
    world_unload();
    assert_int_equal(files_in("Windows/KDAMonitor"), 1);
    world_end();
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *walk)
{
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

/* Gives the only log on the disk the name that the next machine, which begins at the same time,
 * would give to its first file. */
static void take_next_name(void)
{
    char folder[600], from[1200], to[1200];
    const struct dirent *entry;
    DIR *listing;
    char *id;

    snprintf(folder, sizeof(folder), "%s/Windows/KDAMonitor", sim_disk());
    listing = opendir(folder);
    assert_non_null(listing);
    do {
        entry = readdir(listing);
        assert_non_null(entry);
    } while (!strstr(entry->d_name, ".jsonl"));
    snprintf(from, sizeof(from), "%s/%s", folder, entry->d_name);
    closedir(listing);
    snprintf(to, sizeof(to), "%s", from);
    id = strrchr(to, '-') - 8;
    snprintf(id, sizeof(to) - (size_t)(id - to), "%08lx-000001.jsonl", strtoul(id, NULL, 16) + 1);
    assert_int_equal(rename(from, to), 0);
}

/* A file of that name is there already: the next number is taken. */
static void name_is_taken(void **state)
{
    const char *temporary = getenv("TMPDIR");
    char folder[512];
    struct sim_options options = {0};

    (void)state;
    snprintf(folder, sizeof(folder), "%s/kda-writer-XXXXXX", temporary ? temporary : "/tmp");
    options.disk = mkdtemp(folder);
    assert_non_null(options.disk);
    for (unsigned n = 1; n <= 2; n++) {
        world_begin(&options);
        world_load();
        set_values(10);
        flush(STATUS_SUCCESS);
        assert_false(sim_disk_refuses());
        assert_int_equal(files_in("Windows/KDAMonitor"), n);
        world_unload();
        if (n == 1)
            take_next_name();
        world_end();
    }
    assert_int_equal(nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* The next file cannot be opened: the old one goes on. */
static void rotation_refused(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("FileMegabytes"), 1);
    world_load();
    flush(STATUS_SUCCESS);
    sim_file_fail(SIM_FILE_CREATE, STATUS_ACCESS_DENIED, UINT32_MAX);
    set_values_calmly(1500);
    world_unload();
    assert_int_equal(files_in("Windows/KDAMonitor"), 1);
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 1500);
    world_free(&log);
    world_end();
}

/* Files of earlier logs count, and go first. */
static void old_files_go(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("FileCount"), 3);
    for (unsigned n = 0; n < 6; n++) {
        sim_clock_advance(5 * WORLD_SECOND);
        world_load();
        set_bytes(&n, sizeof(n));
        world_unload();
        assert_int_equal(files_in("Windows/KDAMonitor"), n < 3 ? n + 1 : 3);
    }
    world_read(&log);
    world_line(&log, "registry.value_set", "\"data\":\"05000000\"", NULL);
    world_line(&log, "registry.value_set", "\"data\":\"03000000\"", NULL);
    assert_int_equal(world_count(&log, "registry.value_set", "\"data\":\"02000000\"", NULL), 0);
    assert_int_equal(world_count(&log, "sensor.start", "\"previous_log\":", NULL), 3);
    world_free(&log);
    world_end();
}

/* Lines reach the file within a second, process events at once where that is asked for. */
static void latency(void **state)
{
    struct sim_process process = {.pid = 4000, .image = STR("\\Device\\HarddiskVolume3\\p.exe")};
    struct world_log log;
    bool there = false;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("ProcessAtOnce"), 1);
    world_load();
    assert_int_equal(sim_process_create(&process, NULL), 0);
    for (unsigned tries = 0; tries < 500 && !there; tries++) {
        usleep(2000);
        world_read(&log);
        there = world_count(&log, "process.create", NULL) == 1;
        world_free(&log);
    }
    assert_true(there);
    set_values(1);
    usleep(50000);
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 0);
    world_free(&log);
    sim_clock_advance(WORLD_SECOND);
    there = false;
    for (unsigned tries = 0; tries < 500 && !there; tries++) {
        usleep(2000);
        world_read(&log);
        there = world_count(&log, "registry.value_set", NULL) == 1;
        world_free(&log);
    }
    assert_true(there);
    world_end();
}

static void periodic_status(void **state)
{
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("StatusSeconds"), 30);
    world_load();
    set_values(3);
    sim_clock_advance(31 * WORLD_SECOND);
    assert_true(world_wait("sensor.status", "\"written\":{"));
    world_unload();
    world_read(&log);
    assert_true(
        world_count(&log, "sensor.status", "\"offered\":{", "\"registry.value_set\":3", NULL) >= 1);
    world_free(&log);
    world_end();
}

/* --- shutdown, sleep, clocks ----------------------------------------------------------------- */

static void shutdown_line(void **state)
{
    struct world_log log;
    size_t at = 0;

    (void)state;
    world_begin(NULL);
    world_load();
    set_values(5);
    sim_system_shutdown();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 5);
    world_line(&log, "sensor.shutdown", "\"registry.value_set\":5", NULL);
    world_free(&log);
    set_values(2);
    world_unload();
    world_read(&log);
    while (!strstr(log.lines[at].text, "\"kind\":\"sensor.shutdown\""))
        at++;
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 7);
    assert_true(at < log.count - 3);
    world_free(&log);
    world_end();
}

static void check_times(const struct world_log *log)
{
    for (size_t i = 1; i < log->count; i++)
        assert_true(log->lines[i].time >= log->lines[i - 1].time);
}

static void sleep_with(bool counter_stops)
{
    struct world_log log;
    uint64_t before, after;
    unsigned seen = 0;

    world_begin(NULL);
    world_load();
    set_values(3);
    before = sim_clock_utc();
    sim_clock_advance(1000);
    sim_power_suspend();
    sim_power_resume(3600 * WORLD_SECOND, counter_stops);
    after = sim_clock_utc();
    assert_true(after >= before + 3600 * WORLD_SECOND);
    set_values(3);
    world_unload();
    world_read(&log);
    check_times(&log);
    for (size_t i = 0; i < log.count; i++) {
        uint64_t time = log.lines[i].time;
        if (!strstr(log.lines[i].text, "\"kind\":\"registry.value_set\""))
            continue;
        if (seen++ < 3)
            assert_true(time <= before);
        else
            assert_true(time >= after && time < after + WORLD_SECOND);
    }
    assert_int_equal(seen, 6);
    world_free(&log);
    world_end();
}

static void sleep_counter_goes_on(void **state)
{
    (void)state;
    sleep_with(false);
}

static void sleep_counter_stops(void **state)
{
    (void)state;
    sleep_with(true);
}

/* Somebody sets the clock back by an hour: the log goes on by the counter. */
static void clock_set_back(void **state)
{
    struct world_log log;
    uint64_t start, last;

    (void)state;
    world_begin(NULL);
    world_load();
    start = sim_clock_utc();
    set_values(1);
    sim_clock_correct(-3600 * (int64_t)WORLD_SECOND);
    for (unsigned n = 0; n < 5; n++) {
        sim_clock_advance(15 * WORLD_SECOND);
        flush(STATUS_SUCCESS);
        set_values(1);
    }
    world_unload();
    world_read(&log);
    check_times(&log);
    last = log.lines[log.count - 1].time;
    assert_true(last >= start + 75 * WORLD_SECOND && last < start + 80 * WORLD_SECOND);
    world_free(&log);
    world_end();
}

/* Set forward: the log follows. */
static void clock_set_forward(void **state)
{
    struct world_log log;
    uint64_t start, last;

    (void)state;
    world_begin(NULL);
    world_load();
    start = sim_clock_utc();
    sim_clock_correct(3600 * (int64_t)WORLD_SECOND);
    sim_clock_advance(15 * WORLD_SECOND);
    flush(STATUS_SUCCESS);
    sim_clock_advance(1000);
    set_values(1);
    world_unload();
    world_read(&log);
    check_times(&log);
    last = log.lines[log.count - 1].time;
    assert_true(last >= start + 3600 * WORLD_SECOND);
    world_free(&log);
    world_end();
}

/* --- limits ---------------------------------------------------------------------------------- */

static void big_records(void **state)
{
    static uint16_t units[32767];
    static uint8_t data[70000];
    struct sim_process process = {
        .pid = 4000, .image = {units, 32767}, .command_line = {units, 32767}};
    struct sim_registry op = {.key = {units, 32767},
                              .name = {units, 16383},
                              .type = REG_BINARY,
                              .data = data,
                              .size = sizeof(data)};
    struct world_log log;
    const char *line;

    (void)state;
    for (size_t i = 0; i < 32767; i++)
        units[i] = 1; /* six bytes each in JSON */
    memcpy(units, u"\\REGISTRY\\MACHINE\\", 18 * 2);
    world_begin(NULL);
    sim_settings_set_dword(STR("DataBytes"), 32768);
    world_load();
    assert_int_equal(sim_process_create(&process, NULL), 0);
    assert_true(sim_enter(4000, 0));
    sim_registry_set_value(&op);
    assert_true(sim_enter(4, 0));
    world_unload();
    world_read(&log);
    line = world_line(&log, "process.create", "\"pid\":4000,", NULL);
    assert_true(strlen(line) > 2 * 6 * 32700);
    assert_null(strstr(line, "\"truncated\""));
    line = world_line(&log, "registry.value_set", "\"data_size\":70000,", NULL);
    assert_non_null(strstr(line, "\"truncated\":[\"data\"]"));
    assert_true(strlen(line) > 6 * (32700 * 2 + 16383) + 2 * 32768);
    world_free(&log);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_its_folder),
        cmocka_unit_test(folder_comes_late),
        cmocka_unit_test(disk_full),
        cmocka_unit_test(write_errors),
        cmocka_unit_test(disk_full_to_the_end),
        cmocka_unit_test(rotation),
        cmocka_unit_test(no_file_behind_the_stop),
        cmocka_unit_test(name_is_taken),
        cmocka_unit_test(rotation_refused),
        cmocka_unit_test(old_files_go),
        cmocka_unit_test(latency),
        cmocka_unit_test(periodic_status),
        cmocka_unit_test(shutdown_line),
        cmocka_unit_test(sleep_counter_goes_on),
        cmocka_unit_test(sleep_counter_stops),
        cmocka_unit_test(clock_set_back),
        cmocka_unit_test(clock_set_forward),
        cmocka_unit_test(big_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
