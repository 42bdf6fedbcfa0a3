/* Downloads end to end, against a local server that serves, redirects, breaks off and lies. */
#define _XOPEN_SOURCE 700

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "alloc.h"
#include "file.h"
#include "process.h"
#include "symbol_server.h"
#include "symbols/download.h"

#define KEY                                                                                        \
    "01EFCDAB0302050406070809"                                                                     \
    "0A0B0CFE2B"

static struct symbol_server server;
static bool server_up;
static struct kda_download_limits limits = {
    .connect_ms = 5000, .stall_s = 10, .stall_bytes = 1, .attempts = 3, .max_bytes = 64u << 20};

/* One download: folders, what came out. */
struct got {
    char cache[300]; /* removed before each test */
    char path[512];  /* expected place */
    char *found;
    enum kda_status status;
    struct kda_error err;
    unsigned requests; /* made by this download */
    bool ranged;       /* the last of them */
};

static int setup(void **state)
{
    struct got *got = calloc(1, sizeof(*got));
    (void)snprintf(got->cache, sizeof(got->cache), "%s/cache", server.root);
    (void)snprintf(got->path, sizeof(got->path), "%s/NtTest.pdb/" KEY "/NtTest.pdb", got->cache);
    (void)remove_tree(got->cache);
    *state = got;
    return 0;
}

static int teardown(void **state)
{
    struct got *got = *state;
    kda_symbols_free_path(got->found);
    (void)remove_tree(got->cache);
    free(got);
    return 0;
}

static void need_server(void)
{
    if (!server_up || !kda_symbols_have_download())
        skip();
}

static void run(struct got *got, const char *symbol_path, kda_progress_fn progress, void *context)
{
    struct kda_download_options options = {
        .symbol_path = symbol_path, .cache = got->cache, .progress = progress, .context = context};
    unsigned before = symbol_server_requests(&server, NULL);
    kda_symbols_free_path(got->found);
    got->found = NULL;
    got->status =
        kda_symbols_download_limited(&server.id, &options, &limits, &got->found, &got->err);
    got->requests = symbol_server_requests(&server, &got->ranged) - before;
    if (got->status != KDA_OK)
        assert_null(got->found);
}

static void get(struct got *got, const char *mode)
{
    char text[1024];
    (void)snprintf(text, sizeof(text), "srv*%s*http://127.0.0.1:%d/%s", got->cache, server.port,
                   mode);
    run(got, text, NULL, NULL);
}

static void assert_good_file(const char *path)
{
    struct kda_file *file;
    void *bytes;
    size_t size;
    struct kda_error err;
    assert_int_equal(kda_file_open(path, &file, &err), KDA_OK);
    assert_int_equal(kda_file_read_all(file, 1u << 30, &bytes, &size, &err), KDA_OK);
    kda_file_close(file);
    assert_int_equal(size, server.good_size);
    assert_memory_equal(bytes, server.good, size);
    kda_free(bytes);
}

static void assert_got(const struct got *got)
{
    if (got->status != KDA_OK)
        fail_msg("%s: %s", kda_status_name(got->status), got->err.text);
    assert_string_equal(got->found, got->path);
    assert_good_file(got->found);
    assert_int_equal(count_files(got->cache), 1); /* no part, no temporary file stays */
}

static void assert_refused(const struct got *got, enum kda_status status, const char *words)
{
    if (got->status != status || !strstr(got->err.text, words))
        fail_msg("%s: %s", kda_status_name(got->status), got->err.text);
    assert_int_equal(got->err.status, status);
    assert_int_equal(count_files(got->cache), 0);
}

static void put(const char *path, const void *bytes, size_t size)
{
    char folder[512];
    struct kda_outfile *out;
    (void)snprintf(folder, sizeof(folder), "%s", path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(kda_dirs_create(folder, NULL), KDA_OK);
    assert_int_equal(kda_outfile_open(path, &out, NULL), KDA_OK);
    assert_int_equal(kda_outfile_reset(out, NULL), KDA_OK);
    assert_int_equal(kda_outfile_write(out, bytes, size, NULL), KDA_OK);
    kda_outfile_close(out, true);
}

/* --- honest servers --- */

static void test_store(void **state)
{
    struct got *got = *state;
    need_server();
    get(got, "store");
    assert_got(got);
    assert_int_equal(got->requests, 1);
    get(got, "store");
    assert_got(got);
    assert_int_equal(got->requests, 0); /* the cached file is enough */
}

static void test_layouts(void **state)
{
    struct got *got = *state;
    static const char *const modes[] = {"cab", "index2", "case", "ptrrel", "ptrurl", "redirect"};
    need_server();
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        get(got, modes[i]);
        assert_got(got);
        (void)remove_tree(got->cache);
    }
}

static void test_slash_at_end_of_url(void **state)
{
    struct got *got = *state;
    need_server();
    get(got, "store/");
    assert_got(got);
    assert_int_equal(got->requests, 1);
}

static void test_second_server(void **state)
{
    struct got *got = *state;
    char text[1024];
    need_server();
    (void)snprintf(text, sizeof(text),
                   "/no/such/folder;srv*http://127.0.0.1:%d/none;;SRV*http://127.0.0.1:%d/store",
                   server.port, server.port);
    run(got, text, NULL, NULL);
    assert_got(got);
}

static bool count_progress(void *context, uint64_t done, uint64_t total)
{
    uint64_t *last = context;
    assert_true(total == 0 || done <= total);
    *last = done;
    return true;
}

static void test_progress(void **state)
{
    struct got *got = *state;
    char text[1024];
    uint64_t last = 0;
    need_server();
    (void)snprintf(text, sizeof(text), "srv*http://127.0.0.1:%d/slow", server.port);
    run(got, text, count_progress, &last);
    assert_got(got);
    assert_int_equal(last, server.good_size);
}

static void test_proxy(void **state)
{
    struct got *got = *state;
    char proxy[64], text[512];
    need_server();
    (void)snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", server.port);
    (void)snprintf(text, sizeof(text), "srv*http://symbols.invalid/store");
    assert_int_equal(setenv("http_proxy", proxy, 1), 0);
    run(got, text, NULL, NULL);
    assert_int_equal(unsetenv("http_proxy"), 0);
    assert_got(got);
}

/* --- caches --- */

static void test_tiers(void **state)
{
    struct got *got = *state;
    char text[1024], far[400];
    need_server();
    (void)snprintf(text, sizeof(text), "srv*%s/near*%s/far*http://127.0.0.1:%d/store", got->cache,
                   got->cache, server.port);
    (void)snprintf(got->path, sizeof(got->path), "%s/near/NtTest.pdb/" KEY "/NtTest.pdb",
                   got->cache);
    (void)snprintf(far, sizeof(far), "%s/far/NtTest.pdb/" KEY "/NtTest.pdb", got->cache);
    run(got, text, NULL, NULL);
    assert_int_equal(got->status, KDA_OK);
    assert_string_equal(got->found, got->path);
    assert_good_file(got->path);
    assert_good_file(far);
    assert_int_equal(count_files(got->cache), 2);

    kda_file_remove(got->path);
    run(got, text, NULL, NULL);
    assert_int_equal(got->status, KDA_OK);
    assert_int_equal(got->requests, 0);
    assert_string_equal(got->found, got->path);
    assert_good_file(got->path);
}

static void test_near_cache_unwritable(void **state)
{
    struct got *got = *state;
    char text[1024], blocked[400];
    need_server();
    (void)snprintf(blocked, sizeof(blocked), "%s/good.pdb/x", server.root); /* below a file */
    (void)snprintf(text, sizeof(text), "srv*%s*%s*http://127.0.0.1:%d/store", blocked, got->cache,
                   server.port);
    run(got, text, NULL, NULL);
    assert_got(got);
    (void)snprintf(text, sizeof(text), "srv*%s*http://127.0.0.1:%d/store", blocked, server.port);
    (void)remove_tree(got->cache);
    run(got, text, NULL, NULL);
    assert_refused(got, KDA_IO, "cannot create folder");
}

static void test_cache_element(void **state)
{
    struct got *got = *state;
    char text[1024];
    need_server();
    (void)snprintf(text, sizeof(text), "cache*%s/c;srv*http://127.0.0.1:%d/store", got->cache,
                   server.port);
    (void)snprintf(got->path, sizeof(got->path), "%s/c/NtTest.pdb/" KEY "/NtTest.pdb", got->cache);
    run(got, text, NULL, NULL);
    assert_got(got);
}

static void test_two_level_cache(void **state)
{
    struct got *got = *state;
    char mark[400];
    need_server();
    (void)snprintf(mark, sizeof(mark), "%s/index2.txt", got->cache);
    put(mark, ".", 1);
    (void)snprintf(got->path, sizeof(got->path), "%s/Nt/NtTest.pdb/" KEY "/NtTest.pdb", got->cache);
    get(got, "store");
    assert_int_equal(got->status, KDA_OK);
    assert_string_equal(got->found, got->path);
    get(got, "store");
    assert_int_equal(got->status, KDA_OK);
    assert_int_equal(got->requests, 0);
}

static void test_damaged_file_in_cache_is_replaced(void **state)
{
    struct got *got = *state;
    need_server();
    put(got->path, server.good, server.good_size / 2);
    get(got, "store");
    assert_got(got);
}

static void test_good_file_stays(void **state)
{
    struct got *got = *state;
    need_server();
    put(got->path, server.good, server.good_size);
    get(got, "other");
    assert_got(got);
    assert_int_equal(got->requests, 0);
}

static void test_disk_full(void **state)
{
    struct got *got = *state;
    struct rlimit old, tight;
    need_server();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    tight = old;
    tight.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
    get(got, "cab"); /* a part without a tag: nothing to keep */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    (void)signal(SIGXFSZ, handler);
    assert_refused(got, KDA_IO, "cannot write");
}

static void test_two_at_once(void **state)
{
    struct got *got = *state;
    char part[600];
    struct kda_outfile *out;
    need_server();
    (void)snprintf(part, sizeof(part), "%s.part", got->path);
    put(part, "x", 1);
    assert_int_equal(kda_outfile_open(part, &out, NULL), KDA_OK);
    get(got, "store");
    assert_int_equal(got->status, KDA_IO);
    assert_non_null(strstr(got->err.text, "being written by another"));
    kda_outfile_close(out, true);
    get(got, "store");
    assert_got(got);
}

/* --- breakdowns --- */

static void test_resume_in_one_run(void **state)
{
    struct got *got = *state;
    need_server();
    get(got, "resume");
    assert_got(got);
    assert_int_equal(got->requests, 2);
    assert_true(got->ranged);
}

static void test_restart(void **state)
{
    struct got *got = *state;
    static const char *const modes[] = {"norange", "changed", "badrange"};
    need_server();
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        get(got, modes[i]);
        assert_got(got);
        assert_in_range(got->requests, 2, 3);
        (void)remove_tree(got->cache);
    }
}

static bool cancel_late(void *context, uint64_t done, uint64_t total)
{
    (void)context;
    (void)total;
    return done < 50000;
}

static void test_cancel_then_go_on(void **state)
{
    struct got *got = *state;
    char text[1024], part[600];
    struct kda_file *file;
    void *origin;
    size_t size;
    need_server();
    (void)snprintf(text, sizeof(text), "srv*http://me:secret@127.0.0.1:%d/slow", server.port);
    (void)snprintf(part, sizeof(part), "%s.part", got->path);
    run(got, text, cancel_late, NULL);
    assert_int_equal(got->status, KDA_CANCELLED);
    assert_int_equal(kda_path_kind(part), KDA_PATH_FILE);
    assert_int_equal(kda_path_kind(got->path), KDA_PATH_NONE);
    (void)snprintf(part + strlen(part), sizeof(part) - strlen(part), ".from");
    assert_int_equal(kda_file_open(part, &file, NULL), KDA_OK);
    assert_int_equal(kda_file_read_all(file, 4096, &origin, &size, NULL), KDA_OK);
    kda_file_close(file);
    assert_non_null(strstr(origin, "http://127.0.0.1")); /* the password stays out of the cache */
    kda_free(origin);
    run(got, text, NULL, NULL);
    assert_got(got);
    assert_int_equal(got->requests, 1);
    assert_true(got->ranged);
}

static void test_part_of_unknown_origin_is_not_used(void **state)
{
    struct got *got = *state;
    char part[600];
    need_server();
    (void)snprintf(part, sizeof(part), "%s.part", got->path);
    put(part, "Microsoft C/C++ MSF 7.00\r\n\x1a nonsense", 35);
    get(got, "store");
    assert_got(got);
    assert_false(got->ranged);
}

static void test_breakdowns(void **state)
{
    struct got *got = *state;
    need_server();
    get(got, "truncate");
    assert_refused(got, KDA_IO, "after 131072 bytes");
    get(got, "busy");
    assert_refused(got, KDA_IO, "HTTP 503");
    assert_int_equal(got->requests, 1);
    struct kda_download_limits usual = limits;
    limits.stall_s = 1;
    limits.stall_bytes = 1 << 20;
    limits.attempts = 1;
    get(got, "stall");
    limits = usual;
    assert_refused(got, KDA_IO, "stalled");
}

static void test_offline(void **state)
{
    struct got *got = *state;
    need_server();
    run(got, "srv*http://symbols.invalid/store", NULL, NULL);
    assert_refused(got, KDA_IO, "offline?");
    run(got, "srv*http://127.0.0.1:1/store", NULL, NULL);
    assert_refused(got, KDA_IO, "cannot connect");
}

/* --- lies and dead ends --- */

static void test_not_there(void **state)
{
    struct got *got = *state;
    char text[1024];
    need_server();
    (void)snprintf(text, sizeof(text),
                   "srv*http://me:secret@127.0.0.1:%d/none;srv*http://127.0.0.1:%d/nothing",
                   server.port, server.port);
    run(got, text, NULL, NULL);
    assert_refused(got, KDA_ABSENT, "NtTest.pdb/" KEY "/NtTest.pdb");
    assert_non_null(strstr(got->err.text, "/none "));
    assert_non_null(strstr(got->err.text, "/nothing "));
    assert_non_null(strstr(got->err.text, "404"));
    assert_null(strstr(got->err.text, "secret"));
    assert_int_equal(kda_path_kind(got->cache), KDA_PATH_FOLDER);
}

static void test_lies(void **state)
{
    struct got *got = *state;
    need_server();
    get(got, "html");
    assert_refused(got, KDA_BAD_DATA, "a web page instead of a PDB");
    get(got, "other");
    assert_refused(got, KDA_BAD_DATA, "is for another kernel");
    assert_int_equal(got->requests, 1);
    get(got, "cutclean");
    assert_refused(got, KDA_BAD_DATA, "truncated");
    get(got, "badcab");
    assert_refused(got, KDA_BAD_DATA, "cannot be unpacked");
    get(got, "empty");
    assert_refused(got, KDA_BAD_DATA, "nothing");
    get(got, "loop");
    assert_refused(got, KDA_BAD_DATA, "redirects more than 10");
    get(got, "tofile");
    assert_refused(got, KDA_BAD_DATA, "may not be followed");
    limits.max_bytes = 1u << 20;
    get(got, "endless");
    limits.max_bytes = 64u << 20;
    assert_refused(got, KDA_LIMIT, "larger than");
}

static void test_pointers_not_followed(void **state)
{
    struct got *got = *state;
    need_server();
    get(got, "ptrlocal");
    assert_refused(got, KDA_ABSENT, "not followed");
    get(got, "ptrabs"); /* a path of this machine is taken as a path of the server */
    assert_refused(got, KDA_ABSENT, "404");
    get(got, "ptrshare");
    assert_refused(got, KDA_ABSENT, "not followed");
    get(got, "ptrmsg");
    assert_refused(got, KDA_ABSENT, "ask the ?[31mbuild team");
}

static void test_hostile_names(void **state)
{
    struct got *got = *state;
    static const char *const names[] = {"../x.pdb", "a/b.pdb", "a\\b.pdb", "",       ".",
                                        "..",       "a..b",    "x\n.pdb",  "c:x.pdb"};
    need_server();
    struct kda_kernel_id good = server.id;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        (void)snprintf(server.id.pdb_name, sizeof(server.id.pdb_name), "%s", names[i]);
        get(got, "store");
        assert_int_equal(got->requests, 0);
        assert_refused(got, KDA_BAD_DATA, "not a file name");
    }
    memset(server.id.pdb_name, 'a', sizeof(server.id.pdb_name));
    get(got, "store");
    assert_refused(got, KDA_BAD_DATA, "not a file name");
    server.id = good;
}

static void test_wrong_use(void **state)
{
    struct got *got = *state;
    need_server();
    run(got, "/some/folder;cache*/nowhere;srv*/some/store", NULL, NULL);
    assert_refused(got, KDA_USAGE, "names no server");
    server.id.has_pdb = false;
    get(got, "store");
    server.id.has_pdb = true;
    assert_refused(got, KDA_USAGE, "not known");
}

static void test_built_without(void **state)
{
    struct got *got = *state;
    if (kda_symbols_have_download())
        skip();
    struct kda_download_options options = {.cache = got->cache};
    struct kda_kernel_id id = {.has_pdb = true, .pdb_name = "a.pdb"};
    char *path = NULL;
    assert_int_equal(kda_symbols_download(&id, &options, &path, &got->err), KDA_UNSUPPORTED);
    assert_non_null(strstr(got->err.text, "without libcurl"));
}

static void test_every_fault(void **state)
{
#ifdef KDA_FAULT_INJECTION
    struct got *got = *state;
    char text[1024];
    need_server();
    (void)snprintf(text, sizeof(text), "srv*%s/near*%s/far*http://127.0.0.1:%d/cab", got->cache,
                   got->cache, server.port);
    for (uint64_t n = 1;; n++) {
        kda_fault_arm(n);
        run(got, text, NULL, NULL);
        bool fired = kda_fault_fired();
        kda_fault_arm(0);
        if (got->status == KDA_OK)
            assert_good_file(got->found);
        else if (got->status != KDA_NO_MEMORY && got->status != KDA_IO &&
                 got->status != KDA_BAD_DATA && got->status != KDA_ABSENT)
            fail_msg("fault %d: %s", (int)n, got->err.text);
        /* What stays is whole files only. */
        unsigned files = count_files(got->cache);
        assert_in_range(files, 0, 2);
        assert_true(got->status != KDA_OK || files > 0);
        (void)remove_tree(got->cache);
        if (!fired) {
            assert_int_equal(got->status, KDA_OK);
            assert_int_equal(files, 2);
            assert_true(n > 50);
            break;
        }
    }
#else
    (void)state;
    skip();
#endif
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    static const char *const variables[] = {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"};
    const struct CMUnitTest tests[] = {
        TEST(test_store),
        TEST(test_layouts),
        TEST(test_slash_at_end_of_url),
        TEST(test_second_server),
        TEST(test_progress),
        TEST(test_proxy),
        TEST(test_tiers),
        TEST(test_near_cache_unwritable),
        TEST(test_cache_element),
        TEST(test_two_level_cache),
        TEST(test_damaged_file_in_cache_is_replaced),
        TEST(test_good_file_stays),
        TEST(test_disk_full),
        TEST(test_two_at_once),
        TEST(test_resume_in_one_run),
        TEST(test_restart),
        TEST(test_cancel_then_go_on),
        TEST(test_part_of_unknown_origin_is_not_used),
        TEST(test_breakdowns),
        TEST(test_offline),
        TEST(test_not_there),
        TEST(test_lies),
        TEST(test_pointers_not_followed),
        TEST(test_hostile_names),
        TEST(test_wrong_use),
        TEST(test_built_without),
        TEST(test_every_fault),
    };
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        (void)unsetenv(variables[i]);
    server_up = symbol_server_start(&server);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    symbol_server_stop(&server);
    return failed;
}
