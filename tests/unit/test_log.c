/*
 * test_log.c - reading logs: JSON, lines, files in any order, filters, statistics.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "file.h"
#include "json_pull.h"
#include "kda/log.h"

#define T(n) "\"time\":\"2026-11-29T21:04:0" #n ".1234567Z\""
#define LINE(id, kind, t, more)                                                                    \
    "{\"v\":1,\"id\":" #id "," T(t) ",\"kind\":\"" kind "\",\"source\":\"driver\"" more "}\n"
#define LOG_A "{aaaaaaaa-0000-0000-0000-000000000000}"
#define LOG_B "{bbbbbbbb-0000-0000-0000-000000000000}"
#define NAMES(log) ",\"log\":\"" log "\""

/* ---- JSON ---- */

static bool json_is_valid(const char *text, size_t size)
{
    struct kda_json_pull json;
    struct kda_json_token token;
    kda_json_pull_begin(&json, text, size);
    while (kda_json_pull_next(&json, &token))
        if (token.type == KDA_JSON_END)
            return true;
    return false;
}

static void test_json(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{}",
        " { } ",
        "{\"a\":1}",
        "{\"a\":-0.5e+3,\"b\":[1,2,{\"c\":null}],\"d\":true,\"e\":false}",
        "{\"a\":\"\\u00e9\\n\\\\\\\"\\/\"}",
        "{\"\xc3\xa9\":\"\xf0\x9f\x92\xbe\"}",
        "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}",
        "{\"a\":[],\"b\":[[]],\"c\":0}",
    };
    static const char *const bad[] = {
        "",
        "[]",
        "1",
        "{",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{,\"a\":1}",
        "{\"a\":1 \"b\":2}",
        "{a:1}",
        "{\"a\":01}",
        "{\"a\":1.}",
        "{\"a\":.5}",
        "{\"a\":-}",
        "{\"a\":1e}",
        "{\"a\":tru}",
        "{\"a\":\"\\x\"}",
        "{\"a\":\"\\u12\"}",
        "{\"a\":\"\t\"}",
        "{\"a\":\"\xff\"}",
        "{\"a\":\"\xc3\"}",
        "{\"a\":\"x}",
        "{\"a\":[1,]}",
        "{\"a\":[1}",
        "{}x",
        "{}{}",
        "{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{\"a\":{}}}}}}}}}",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!json_is_valid(good[i], strlen(good[i])))
            fail_msg("refused: %s", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (json_is_valid(bad[i], strlen(bad[i])))
            fail_msg("taken: %s", bad[i]);
    /* every shorter piece of a good text is bad */
    for (size_t size = 0; size < strlen(good[3]); size++)
        assert_false(json_is_valid(good[3], size));
}

static void test_unescape(void **state)
{
    (void)state;
    static const char text[] = "a\\n\\u00e9\\ud83d\\udcbe\\ud800x\\udc00\\\\\\u0041";
    static const char want[] = "a\n\xc3\xa9\xf0\x9f\x92\xbe\xef\xbf\xbdx\xef\xbf\xbd\\A";
    char out[sizeof(text)];
    size_t size = kda_json_unescape(text, sizeof(text) - 1, out);
    assert_int_equal(size, sizeof(want) - 1);
    assert_memory_equal(out, want, size);
    uint64_t number;
    assert_true(kda_json_uint("18446744073709551615", 20, &number));
    assert_true(number == UINT64_MAX);
    assert_false(kda_json_uint("18446744073709551616", 20, &number));
    assert_false(kda_json_uint("-1", 2, &number));
    assert_false(kda_json_uint("1.5", 3, &number));
}

/* ---- lines ---- */

static void test_times(void **state)
{
    (void)state;
    uint64_t value, other;
    assert_true(kda_log_time_parse("2026-11-29T21:04:05.1234567Z", 28, &value));
    assert_true(value == UINT64_C(134404598451234567));
    assert_true(kda_log_time_parse("2026-11-29", 10, &other));
    assert_true(value - other == (UINT64_C(75845) * 10000000 + 1234567));
    assert_true(kda_log_time_parse("2026-11-29 21:04", 16, &other));
    assert_true(value - other == UINT64_C(51234567));
    assert_true(kda_log_time_parse("2026-11-29T21:04:05.12", 22, &other));
    assert_true(value - other == 34567);
    assert_true(kda_log_time_parse("2024-02-29", 10, &other));
    static const char *const bad[] = {"",
                                      "2026",
                                      "2026-13-01",
                                      "2025-02-29",
                                      "2026-11-31",
                                      "1600-01-01",
                                      "2026-11-29T24:00",
                                      "2026-11-29x",
                                      "2026-11-29T21:04:05.",
                                      "2026-11-29T"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(kda_log_time_parse(bad[i], strlen(bad[i]), &other));
}

static void test_lines(void **state)
{
    (void)state;
    static struct kda_log_line line;
    static const char text[] = LINE(7, "image.load", 1,
                                    ",\"pid\":4,\"tid\":8,\"image\":\"a\\\\\\u00e9\",\"base\":"
                                    "\"0x10\",\"list\":[1,[2]],\"later\":{\"x\":1}");
    char out[16];
    uint64_t number;
    kda_log_parse(text, strlen(text), &line);
    assert_int_equal(line.what, KDA_LOG_LINE);
    assert_string_equal(kda_log_kind_name(line.kind), "image.load");
    assert_true(line.has_id && line.id == 7 && line.has_pid && line.pid == 4);
    assert_true(line.has_tid && line.tid == 8 && line.has_time);
    assert_int_equal(kda_log_text(kda_log_find(&line, "image"), out, sizeof(out)), 4);
    assert_string_equal(out, "a\\\xc3\xa9");
    assert_int_equal(kda_log_text(kda_log_find(&line, "image"), out, 4), 4);
    assert_string_equal(out, "a\\"); /* cut before the character that does not fit */
    assert_true(kda_log_number(kda_log_find(&line, "base"), &number) && number == 16);
    assert_int_equal(kda_log_find(&line, "list")->type, '[');
    assert_int_equal(kda_log_find(&line, "list")->size, 7);
    assert_null(kda_log_find(&line, "lis"));
    static const char *const bad[] = {
        "{}",
        "{\"v\":1}",
        "{\"v\":2,\"kind\":\"image.load\"}",
        "{\"v\":\"1\",\"kind\":\"image.load\"}",
        "{\"v\":1,\"kind\":5}",
        "{\"v\":1,\"kind\":\"image.load\",\"id\":\"7\"}",
        "{\"v\":1,\"kind\":\"image.load\",\"pid\":-7}",
        "{\"v\":1,\"kind\":\"image.load\",\"time\":\"yesterday\"}",
        "{\"v\":1,\"kind\":\"image.load\"",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        kda_log_parse(bad[i], strlen(bad[i]), &line);
        if (line.what != KDA_LOG_BAD || !line.problem)
            fail_msg("taken: %s", bad[i]);
    }
    kda_log_parse("{\"v\":1,\"kind\":\"image.fold\"}", 27, &line);
    assert_int_equal(line.what, KDA_LOG_LINE);
    assert_int_equal(line.kind, 0);
}

/* ---- files ---- */

static char *write_file(const char *name, const char *text)
{
    static char paths[16][512];
    static size_t next;
    char *path = paths[next++ % 16];
    (void)snprintf(path, 512, "%s/test_log_%s", KDA_BUILD_DIR, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    return path;
}

static const char first_file[] =
    LINE(0, "sensor.start", 0, NAMES(LOG_A)) LINE(1, "process.create", 1, "");
static const char second_file[] =
    LINE(2, "sensor.file", 2, NAMES(LOG_A) ",\"next_id\":3") LINE(3, "process.exit", 2, "");
static const char third_file[] = LINE(4, "sensor.file", 3, NAMES(LOG_A) ",\"next_id\":5");
static const char other_file[] = LINE(0, "sensor.start", 0, NAMES(LOG_B));

static void test_order_of_files(void **state)
{
    (void)state;
    static struct kda_log_line line;
    const char *paths[] = {write_file("3", third_file), write_file("b", other_file),
                           write_file("1", first_file), write_file("2", second_file)};
    static const uint64_t ids[] = {0, 1, 2, 3, 4, 0};
    struct kda_log *log = NULL;
    struct kda_error err;
    assert_int_equal(kda_log_open(paths, 4, &log, &err), KDA_OK);
    assert_int_equal(kda_log_file_count(log), 4);
    assert_string_equal(kda_log_file_name(log, 0), paths[2]);
    assert_string_equal(kda_log_file_log(log, 3), LOG_B);
    assert_true(kda_log_starts_at(log, 0) && !kda_log_starts_at(log, 1));
    assert_true(!kda_log_starts_at(log, 2) && kda_log_starts_at(log, 3));
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
        assert_int_equal(line.what, KDA_LOG_LINE);
        assert_int_equal(line.id, ids[i]);
    }
    assert_int_equal(line.file, 3);
    assert_int_equal(line.number, 1);
    assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
    assert_int_equal(line.what, KDA_LOG_END);
    kda_log_close(log);
    for (size_t i = 0; i < 4; i++)
        (void)remove(paths[i]);
}

static void test_growth_and_cut(void **state)
{
    (void)state;
    static struct kda_log_line line;
    struct kda_log *log = NULL;
    struct kda_error err;
    size_t half = strlen(first_file) - 20;
    char start[sizeof(first_file)];
    memcpy(start, first_file, half);
    start[half] = '\0';
    const char *path = write_file("grow", start);
    assert_int_equal(kda_log_open(&path, 1, &log, &err), KDA_OK);
    assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
    assert_int_equal(line.what, KDA_LOG_LINE);
    assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
    assert_int_equal(line.what, KDA_LOG_CUT);
    assert_int_equal(line.number, 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
        assert_int_equal(line.what, KDA_LOG_END);
    }
    (void)write_file("grow", first_file);
    assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
    assert_int_equal(line.what, KDA_LOG_LINE);
    assert_int_equal(line.id, 1);
    assert_int_equal(line.number, 2);
    assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
    assert_int_equal(line.what, KDA_LOG_END);
    kda_log_close(log);
    (void)remove(path);
}

static void expect_line(struct kda_log *log, uint64_t id, size_t file)
{
    static struct kda_log_line line;
    assert_int_equal(kda_log_next(log, &line, NULL), KDA_OK);
    assert_int_equal(line.what, KDA_LOG_LINE);
    assert_int_equal(line.id, id);
    assert_int_equal(line.file, file);
}

static void expect_end(struct kda_log *log, bool next_file)
{
    static struct kda_log_line line;
    bool found = !next_file;
    assert_int_equal(kda_log_next(log, &line, NULL), KDA_OK);
    assert_int_equal(line.what, KDA_LOG_END);
    assert_int_equal(kda_log_find_next_file(log, &found, NULL), KDA_OK);
    assert_int_equal(found, next_file);
}

/* The log goes on in the file with the next number, if that is one of it; what the old file got
 * last comes first, even if its name has gone. */
static void test_next_file(void **state)
{
    (void)state;
    struct kda_log *log = NULL;
    static const char start[] = LINE(0, "sensor.start", 0, NAMES(LOG_A));
    const char *path = write_file("x-000009.jsonl", "");
    const char *others[] = {
        write_file("x-000008.jsonl", second_file), write_file("x-000009.json", second_file),
        write_file("y-000010.jsonl", second_file), write_file("x-1-000010.jsonl", second_file),
        write_file("x-.jsonl", second_file)};
    assert_int_equal(kda_log_open(&path, 1, &log, NULL), KDA_OK);
    expect_end(log, false);
    (void)write_file("x-000009.jsonl", start);
    expect_line(log, 0, 0);
    expect_end(log, false);
    const char *next = write_file("x-000010.jsonl", "");
    expect_end(log, false);
    (void)write_file("x-000010.jsonl", other_file);
    expect_end(log, false);
    (void)write_file("x-000010.jsonl", first_file); /* begins before the one there is */
    expect_end(log, false);
    (void)write_file("x-000009.jsonl", first_file);
    (void)write_file("x-000010.jsonl", second_file);
    const char *last = write_file("x-000012.jsonl", third_file);
    assert_int_equal(remove(path), 0);
    bool found = false;
    assert_int_equal(kda_log_find_next_file(log, &found, NULL), KDA_OK);
    assert_true(found);
    expect_line(log, 1, 0);
    expect_line(log, 2, 1);
    expect_line(log, 3, 1);
    assert_string_equal(kda_log_file_log(log, 1), LOG_A);
    assert_false(kda_log_starts_at(log, 1));
    expect_end(log, true);
    assert_string_equal(kda_log_file_name(log, 2), last);
    expect_line(log, 4, 2);
    expect_end(log, false);
    kda_log_close(log);
    (void)remove(next);
    (void)remove(last);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        (void)remove(others[i]);
}

static void test_long_lines(void **state)
{
    (void)state;
    static struct kda_log_line line;
    struct kda_log *log = NULL;
    struct kda_error err;
    size_t sizes[] = {300000, KDA_LOG_MAX_LINE - 100, 3u << 20};
    for (size_t i = 0; i < 3; i++) {
        size_t size = sizes[i];
        char *text = malloc(size + 1000);
        assert_non_null(text);
        int head = snprintf(text, 200, "{\"v\":1,\"kind\":\"image.load\",\"x\":\"");
        memset(text + head, 'x', size);
        (void)snprintf(text + head + size, 300, "\"}\n%s", other_file);
        assert_int_equal(kda_log_open_memory(text, strlen(text), "m", &log, &err), KDA_OK);
        assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
        assert_int_equal(line.what, i < 2 ? KDA_LOG_LINE : KDA_LOG_BAD);
        assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
        assert_int_equal(line.what, KDA_LOG_LINE);
        assert_int_equal(line.number, 2);
        assert_int_equal(line.off, (uint64_t)head + size + 3);
        assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
        assert_int_equal(line.what, KDA_LOG_END);
        kda_log_close(log);
        free(text);
    }
}

static void test_no_log(void **state)
{
    (void)state;
    struct kda_log *log = NULL;
    struct kda_error err;
    const char *path = "/nowhere/at/all";
    assert_int_equal(kda_log_open(&path, 1, &log, &err), KDA_IO);
    assert_int_equal(kda_log_open(&path, 0, &log, &err), KDA_USAGE);
    assert_int_equal(kda_log_open_memory("MDMP", 4, "m", &log, &err), KDA_UNSUPPORTED);
    assert_null(log);
    static struct kda_log_line line;
    assert_int_equal(kda_log_open_memory(NULL, 0, "m", &log, &err), KDA_OK);
    assert_int_equal(kda_log_next(log, &line, &err), KDA_OK);
    assert_int_equal(line.what, KDA_LOG_END);
    kda_log_close(log);
}

/* ---- filters and statistics ---- */

static bool passes(const struct kda_log_filter *filter, const char *text)
{
    static struct kda_log_line line;
    kda_log_parse(text, strlen(text), &line);
    assert_int_equal(line.what, KDA_LOG_LINE);
    return kda_log_matches(filter, &line);
}

static void test_filters(void **state)
{
    (void)state;
    static const char text[] =
        LINE(1, "image.load", 5, ",\"pid\":4,\"target_pid\":12,\"image\":\"C:\\\\Win\\\\a.EXE\"");
    struct kda_log_filter filter = {0};
    struct kda_error err;
    assert_true(passes(&filter, text));
    assert_int_equal(kda_log_filter_kinds("registry,image.load", &filter.kinds, &err), KDA_OK);
    assert_true(passes(&filter, text));
    assert_false(passes(&filter, LINE(1, "process.create", 5, "")));
    assert_true(passes(&filter, LINE(1, "registry.key_create", 5, "")));
    memset(&filter, 0, sizeof(filter));
    assert_int_equal(kda_log_filter_kinds("process.*", &filter.kinds, &err), KDA_OK);
    assert_false(passes(&filter, text));
    assert_int_equal(kda_log_filter_kinds("proc", &filter.kinds, &err), KDA_USAGE);
    assert_non_null(strstr(err.text, "process.create"));
    assert_int_equal(kda_log_filter_kinds("", &filter.kinds, &err), KDA_USAGE);
    assert_int_equal(kda_log_filter_kinds(",,", &filter.kinds, &err), KDA_USAGE);
    memset(&filter, 0, sizeof(filter));
    filter.has_pid = true;
    filter.pid = 12;
    assert_true(passes(&filter, text));
    filter.pid = 5;
    assert_false(passes(&filter, text));
    memset(&filter, 0, sizeof(filter));
    filter.image = "win\\A.exe";
    assert_true(passes(&filter, text));
    filter.image = "win\\b";
    assert_false(passes(&filter, text));
    memset(&filter, 0, sizeof(filter));
    assert_true(kda_log_time_parse("2026-11-29T21:04:05.1234567Z", 28, &filter.since));
    assert_true(passes(&filter, text));
    filter.until = filter.since;
    assert_false(passes(&filter, text));
    filter.until++;
    assert_true(passes(&filter, text));
    filter.since = filter.until;
    assert_false(passes(&filter, text));
}

struct counted {
    unsigned calls;
    char names[512];
    uint64_t lines;
};

static void count(void *context, const struct kda_log_count *c)
{
    struct counted *counted = context;
    size_t used = strlen(counted->names);
    counted->calls++;
    counted->lines += c->lines;
    (void)snprintf(counted->names + used, sizeof(counted->names) - used, "%s=%s:%u;", c->by,
                   c->name, (unsigned)c->lines);
}

static void test_statistics(void **state)
{
    (void)state;
    static struct kda_log_line line;
    struct kda_log_stats *stats = NULL;
    struct kda_error err;
    struct counted counted = {0};
    static const char *const texts[] = {
        LINE(1, "image.load", 5, ",\"image\":\"b\""), LINE(2, "image.load", 5, ",\"image\":\"a\""),
        LINE(3, "process.exit", 5, ",\"image\":\"a\""), LINE(4, "process.exit", 5, "")};
    assert_int_equal(kda_log_stats_create(&stats, &err), KDA_OK);
    for (size_t i = 0; i < 4; i++) {
        kda_log_parse(texts[i], strlen(texts[i]), &line);
        assert_int_equal(kda_log_stats_add(stats, &line, &err), KDA_OK);
    }
    kda_log_stats_walk(stats, count, &counted);
    assert_string_equal(counted.names,
                        "kind=process.exit:2;kind=image.load:2;image=a:2;image=b:1;");
    kda_log_stats_destroy(stats);
}

/* ---- no memory ---- */

static enum kda_status read_all(const char *const *paths, struct kda_error *err)
{
    static struct kda_log_line line;
    struct kda_log *log = NULL;
    struct kda_log_stats *stats = NULL;
    enum kda_status status = kda_log_open(paths, 2, &log, err);
    if (status == KDA_OK)
        status = kda_log_stats_create(&stats, err);
    do {
        if (status == KDA_OK)
            status = kda_log_next(log, &line, err);
        if (status == KDA_OK && line.what == KDA_LOG_LINE)
            status = kda_log_stats_add(stats, &line, err);
    } while (status == KDA_OK && line.what != KDA_LOG_END);
    kda_log_stats_destroy(stats);
    kda_log_close(log);
    return status;
}

#ifdef KDA_FAULT_INJECTION
/* Follows with the n-th call failing; false if none failed. A second attempt finds the file. */
static bool faulted_follow(uint64_t n)
{
    struct kda_log *log = NULL;
    struct kda_error err = {0};
    bool found = false;
    /* A folder of their own: each name in it is a call that can fail. */
    assert_int_equal(kda_dirs_create(KDA_BUILD_DIR "/test_log_follow", NULL), KDA_OK);
    const char *path = write_file("follow/f-1.jsonl", first_file);
    const char *next = write_file("follow/f-2.jsonl", second_file);
    assert_int_equal(kda_log_open(&path, 1, &log, NULL), KDA_OK);
    expect_line(log, 0, 0);
    kda_fault_arm(n);
    enum kda_status status = kda_log_find_next_file(log, &found, &err);
    bool fired = kda_fault_fired();
    kda_fault_arm(0);
    if (fired)
        assert_true((status == KDA_NO_MEMORY || status == KDA_IO) && !found && err.text[0]);
    else
        assert_true(status == KDA_OK && found);
    if (fired)
        assert_int_equal(kda_log_find_next_file(log, &found, NULL), KDA_OK);
    assert_true(found);
    assert_int_equal(kda_log_file_count(log), 2);
    expect_line(log, 1, 0);
    expect_line(log, 2, 1);
    kda_log_close(log);
    (void)remove(path);
    (void)remove(next);
    kda_dir_remove(KDA_BUILD_DIR "/test_log_follow");
    return fired;
}
#endif

static void test_faults(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    const char *paths[] = {write_file("1", first_file), write_file("2", second_file)};
    for (uint64_t n = 1;; n++) {
        struct kda_error err;
        kda_fault_arm(n);
        enum kda_status status = read_all(paths, &err);
        bool fired = kda_fault_fired();
        kda_fault_arm(0);
        if (!fired) {
            assert_int_equal(status, KDA_OK);
            assert_true(n > 5);
            break;
        }
        assert_true(status == KDA_NO_MEMORY || status == KDA_IO);
    }
    (void)remove(paths[0]);
    (void)remove(paths[1]);
    for (uint64_t n = 1; faulted_follow(n); n++)
        assert_true(n < 100);
#else
    (void)read_all;
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json),           cmocka_unit_test(test_unescape),
        cmocka_unit_test(test_times),          cmocka_unit_test(test_lines),
        cmocka_unit_test(test_order_of_files), cmocka_unit_test(test_growth_and_cut),
        cmocka_unit_test(test_long_lines),     cmocka_unit_test(test_no_log),
        cmocka_unit_test(test_filters),        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_next_file),      cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
