/*
 * test_log_file.c - the folder of the log: which files of it go, which stay, how it is made, and
 * who may use it.
 */
#include "world.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "Windows/KDAMonitor"

static void path_of(char path[1024], const char *name)
{
    snprintf(path, 1024, "%s/%s/%s", sim_disk(), FOLDER, name);
}

static void make_folder(const char *name)
{
    char path[1024];

    path_of(path, name);
    assert_int_equal(mkdir(path, 0777), 0);
}

static void make_file(const char *name, unsigned mode)
{
    char path[1024];
    FILE *file;

    path_of(path, name);
    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    assert_int_equal(chmod(path, mode), 0);
}

/* Log number `n` of a year. */
static void make_log(unsigned year, unsigned n, unsigned mode)
{
    char name[64];

    snprintf(name, sizeof(name), "kdamonitor-%04u0101-000000-0123abcd-%06u.jsonl", year, n);
    make_file(name, mode);
}

static bool is_there(const char *name)
{
    char path[1024];

    path_of(path, name);
    return access(path, F_OK) == 0;
}

/* Files that can be deleted, or that cannot, whose names begin so. */
static unsigned count_files(const char *begin, bool deletable)
{
    unsigned count = 0;
    const struct dirent *entry;
    struct stat info;
    char path[1024];
    DIR *folder;

    path_of(path, "");
    folder = opendir(path);
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        path_of(path, entry->d_name);
        if (strncmp(entry->d_name, begin, strlen(begin)) == 0 && stat(path, &info) == 0 &&
            S_ISREG(info.st_mode))
            count += ((info.st_mode & 0222) != 0) == deletable;
    }
    closedir(folder);
    return count;
}

static void begin(unsigned file_count)
{
    world_begin(NULL);
    sim_settings_set_dword(STR("FileCount"), file_count);
    make_folder("");
}

/* A log of its own, which makes one file. The other files of the folder are no logs to verify. */
static void run_once(void)
{
    sim_clock_advance(5 * WORLD_SECOND);
    world_load();
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
}

/* --- old files ------------------------------------------------------------------------------- */

/* More of them than are kept of one look at the folder, and than are removed in one go. */
static void read_only_logs_are_passed_over(void **state)
{
    (void)state;
    begin(3);
    for (unsigned n = 0; n < 300; n++)
        make_log(2001, n, 0444);
    for (unsigned n = 0; n < 5; n++)
        make_log(2002, n, 0666);
    for (unsigned n = 0; n < 6; n++) {
        run_once();
        assert_int_equal(count_files("kdamonitor-", true), 3);
        assert_int_equal(count_files("kdamonitor-", false), 300);
        assert_int_equal(count_files("kdamonitor-2002", true), n < 2 ? 2 - n : 0);
    }
    world_end();
}

/* Neither removed nor counted: folders, and names that no log has. */
static void others_stay(void **state)
{
    static const char *const folders[] = {"kdamonitor-20010101-000000-0123abcd-000001.jsonl",
                                          "kdamonitor-20010101-000000-0123abcd-000002.jsonl",
                                          "kdamonitor-20990101-000000-0123abcd-000001.jsonl"};
    static const char *const files[] = {
        "kdamonitor-.jsonl",
        "kdamonitor-20010101-000000-0123abcd-000001-copy.jsonl",
        "kdamonitor-20010101-000000-0123ABCD-000003.jsonl",
        "kdamonitor-20010101-000000-0123abcg-000003.jsonl",
        "kdamonitor-2001o101-000000-0123abcd-000003.jsonl",
        "kdamonitor-20010101-000000-0123abcd-000003.jsonl.gz",
        "kdamonitor-a-name-of-more-than-sixty-four-characters-that-no-driver-gives-000001.jsonl"};

    (void)state;
    begin(3);
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        make_folder(folders[i]);
    make_file("kdamonitor-20010101-000000-0123abcd-000002.jsonl/kept", 0666);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        make_file(files[i], 0666);
    for (unsigned n = 1; n < 6; n++) {
        run_once();
        assert_int_equal(count_files("kdamonitor-", true),
                         sizeof(files) / sizeof(files[0]) + (n < 3 ? n : 3));
    }
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        assert_true(is_there(folders[i]));
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        assert_true(is_there(files[i]));
    world_end();
}

/* A program that holds the oldest: the next goes in its place, it goes when it is let go. */
static void held_log_goes_later(void **state)
{
    (void)state;
    begin(3);
    for (unsigned n = 0; n < 4; n++)
        make_log(2001, n, 0666);
    sim_file_fail(SIM_FILE_DELETE, STATUS_SHARING_VIOLATION, 1);
    run_once();
    assert_true(is_there("kdamonitor-20010101-000000-0123abcd-000000.jsonl"));
    assert_false(is_there("kdamonitor-20010101-000000-0123abcd-000001.jsonl"));
    assert_int_equal(count_files("kdamonitor-", true), 4);
    run_once();
    assert_false(is_there("kdamonitor-20010101-000000-0123abcd-000000.jsonl"));
    assert_int_equal(count_files("kdamonitor-", true), 3);
    world_end();
}

/* The clock was set back: all files are newer than the one that is open. */
static void open_file_counts(void **state)
{
    (void)state;
    begin(2);
    for (unsigned n = 0; n < 4; n++)
        make_log(9000, n, 0666);
    world_load();
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    assert_int_equal(count_files("kdamonitor-9000", true), 1);
    assert_int_equal(count_files("kdamonitor-", true), 2);
    world_end();
}

/* Many at once hold the writer up: a part of them goes with each file. */
static void many_go_in_turn(void **state)
{
    unsigned left = 101, before;

    (void)state;
    begin(2);
    for (unsigned n = 0; n < 100; n++)
        make_log(2001, n, 0666);
    do {
        before = left;
        run_once();
        left = count_files("kdamonitor-", true);
        assert_true(left < before && left + 32 >= before);
    } while (left > 2);
    assert_int_equal(left, 2);
    world_end();
}

/* --- folders --------------------------------------------------------------------------------- */

static void set_directory(const char *text)
{
    uint16_t units[2048];
    size_t count = strlen(text);

    for (size_t i = 0; i <= count; i++)
        units[i] = (uint16_t)text[i];
    sim_settings_set(STR("LogDirectory"), REG_SZ, units, (count + 1) * sizeof(units[0]));
}

static void note(void *context)
{
    *(bool *)context = true;
}

/* Each of many levels is looked for once and made once. */
static void deep_folder(void **state)
{
    enum { LEVELS = 200 };
    char text[1024] = "\\??\\C:\\there", path[1024];
    bool too_many = false;
    struct stat info;

    (void)state;
    world_begin(NULL);
    snprintf(path, sizeof(path), "%s/there", sim_disk());
    assert_int_equal(mkdir(path, 0777), 0);
    for (unsigned n = 0; n < LEVELS; n++) {
        size_t end = strlen(text);
        snprintf(text + end, sizeof(text) - end, "\\d");
        end = strlen(path);
        snprintf(path + end, sizeof(path) - end, "/d");
    }
    set_directory(text);
    sim_meanwhile("ZwCreateFile", 2 * LEVELS + 10, note, &too_many);
    world_load();
    world_unload();
    sim_meanwhile(NULL, 0, NULL, NULL);
    assert_false(too_many);
    assert_int_equal(stat(path, &info), 0);
    assert_false(sim_disk_refuses());
    world_end();
}

/* What is in the way is no folder: all is kept, and nothing hangs. */
static void file_in_the_way(void **state)
{
    char path[1024];
    FILE *file;

    (void)state;
    world_begin(NULL);
    snprintf(path, sizeof(path), "%s/way", sim_disk());
    file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    set_directory("\\??\\C:\\way\\one\\two");
    world_load();
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    assert_true(sim_disk_refuses());
    world_end();
}

/* One character too many, and it is the default folder. */
static void longest_folder(void **state)
{
    const size_t head = strlen("\\??\\C:");
    char text[1200];

    (void)state;
    for (size_t count = 1024; count <= 1025; count++) {
        struct world_log log;
        memcpy(text, "\\??\\C:", head);
        for (size_t i = head; i < count; i++)
            text[i] = (i - head) % 200 == 0 ? '\\' : 'd';
        text[count] = '\0';
        world_begin(NULL);
        set_directory(text);
        world_load();
        world_unload();
        world_read(&log);
        assert_int_equal(log.count > 0, count == 1025);
        if (log.count > 0)
            world_line(&log, "sensor.start", "\"LogDirectory\":\"\\\\SystemRoot\\\\KDAMonitor\"",
                       "\"rejected\":{\"LogDirectory\":\"more than 1024 characters\"}", NULL);
        world_free(&log);
        assert_false(sim_disk_refuses());
        world_end();
    }
}

/* --- access ---------------------------------------------------------------------------------- */

/* The folder, each one above it that was made, and each file, whatever its number. */
static void folder_and_files_are_secured(void **state)
{
    static const char *const folders[] = {"one", "one/two", "one/two/three"};
    static uint8_t bytes[4096];
    const struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"),
                                    .name = STR("Bytes"),
                                    .type = REG_BINARY,
                                    .data = bytes,
                                    .size = sizeof(bytes)};
    const struct dirent *entry;
    unsigned files = 0;
    char path[1024];
    DIR *folder;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("FileMegabytes"), 1);
    set_directory("\\??\\C:\\one\\two\\three");
    world_load();
    for (unsigned n = 0; n < 400; n++)
        assert_int_equal(sim_registry_set_value(&op), 0);
    world_unload();
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
        assert_true(sim_disk_restricted(folders[i]));
    snprintf(path, sizeof(path), "%s/one/two/three", sim_disk());
    folder = opendir(path);
    assert_non_null(folder);
    while ((entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "one/two/three/%s", entry->d_name);
        if (!sim_disk_restricted(path))
            fail_msg("%s", path);
        files++;
    }
    closedir(folder);
    assert_in_range(files, 2, 16);
    world_end();
}

/* --- links ----------------------------------------------------------------------------------- */

/* Nothing is written behind a link that somebody put into the path, nor deleted there; with the
 * link gone the log begins. */
static void links_are_not_followed(void **state)
{
    static const char *const links[] = {"one", "one/two"};
    char link[1024], target[1024], other[1100];

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct kda_control_troubles troubles;
        const struct dirent *entry;
        DIR *folder;
        world_begin(NULL);
        sim_settings_set_dword(STR("FileCount"), 1);
        snprintf(target, sizeof(target), "%s/elsewhere", sim_disk());
        snprintf(other, sizeof(other), "%s/kdamonitor-20010101-000000-0123abcd-000001.jsonl",
                 target);
        assert_int_equal(mkdir(target, 0777), 0);
        fclose(fopen(other, "w"));
        snprintf(link, sizeof(link), "%s/one", sim_disk());
        assert_true(i == 0 || mkdir(link, 0777) == 0);
        snprintf(link, sizeof(link), "%s/%s", sim_disk(), links[i]);
        assert_int_equal(symlink(target, link), 0);
        set_directory("\\??\\C:\\one\\two");
        world_load();
        for (unsigned tries = 0; tries < 5000 && !sim_disk_refuses(); tries++)
            usleep(1000);
        assert_true(sim_disk_refuses());
        KdaTroubles(&troubles);
        assert_string_equal(troubles.failures[0].call, "ZwCreateFile");
        assert_int_equal((uint32_t)troubles.failures[0].status, 0xC000050B);
        folder = opendir(target);
        while ((entry = readdir(folder)) != NULL)
            assert_true(entry->d_name[0] == '.' || strstr(other, entry->d_name));
        closedir(folder);
        assert_int_equal(access(other, F_OK), 0);
        assert_int_equal(unlink(link), 0);
        world_unload();
        assert_false(sim_disk_refuses());
        world_end();
    }
}

/* A kernel that does not know the flag: written all the same, and told. */
static void flag_is_not_known(void **state)
{
    struct kda_control_troubles troubles;
    struct world_log log;

    (void)state;
    world_begin(NULL);
    sim_disk_follows_links(true);
    world_load();
    assert_true(world_wait("sensor.start", "KDAMonitor"));
    KdaTroubles(&troubles);
    assert_int_equal(troubles.failures[0].status, STATUS_INVALID_PARAMETER);
    assert_int_equal(troubles.failures[0].count, 1);
    world_unload();
    world_read(&log);
    assert_true(log.count > 0);
    world_free(&log);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(read_only_logs_are_passed_over),
        cmocka_unit_test(others_stay),
        cmocka_unit_test(held_log_goes_later),
        cmocka_unit_test(open_file_counts),
        cmocka_unit_test(many_go_in_turn),
        cmocka_unit_test(deep_folder),
        cmocka_unit_test(file_in_the_way),
        cmocka_unit_test(longest_folder),
        cmocka_unit_test(folder_and_files_are_secured),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(flag_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
