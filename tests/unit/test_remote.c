/* Text rules of symbol servers, and the symbol path as the downloader reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "symbols/remote.h"
#include "symbols/servers.h"

static void test_url(void **state)
{
    (void)state;
    char out[64];
    const char *parts[] = {"a b.pdb", NULL, "", "1%/\xc3\xa9"};
    assert_true(kda_remote_url("http://h/s///", parts, 4, out, sizeof(out)));
    assert_string_equal(out, "http://h/s/a%20b.pdb/1%25%2F%C3%A9");
    assert_false(kda_remote_url("http://h/s", parts, 4, out, 20));
    assert_false(kda_remote_url("", NULL, 0, out, sizeof(out)));
    assert_true(kda_remote_is_http("HTTP://h"));
    assert_true(kda_remote_is_https("https://h/x"));
    assert_false(kda_remote_is_https("http://h"));
    assert_false(kda_remote_is_http("http://"));
    assert_false(kda_remote_is_http("http:///etc"));
    assert_false(kda_remote_is_http("file:///etc/passwd"));
}

static void test_redact(void **state)
{
    (void)state;
    char out[64];
    kda_remote_redact("https://me:a@b@host:8/x@y", out, sizeof(out));
    assert_string_equal(out, "https://host:8/x@y");
    kda_remote_redact("http://h/\x1b[2J", out, sizeof(out));
    assert_string_equal(out, "http://h/?[2J");
    kda_remote_redact("http://hhhhhhhhhh", out, 10);
    assert_string_equal(out, "http://hh");
}

static void check_pointer(const char *text, enum kda_pointer_kind kind, const char *want)
{
    char out[64];
    assert_int_equal(kda_remote_pointer(text, strlen(text), out, sizeof(out)), kind);
    if (want)
        assert_string_equal(out, want);
}

static void test_pointer(void **state)
{
    (void)state;
    check_pointer("PATH:http://h/a b", KDA_POINTER_URL, "http://h/a%20b");
    check_pointer("\xef\xbb\xbfpath: HTTPS://h/x%20y\r\n", KDA_POINTER_URL, "HTTPS://h/x%20y");
    check_pointer("dir\\x.pdb", KDA_POINTER_RELATIVE, "dir/x.pdb");
    check_pointer("PATH:/etc/passwd", KDA_POINTER_RELATIVE, "/etc/passwd");
    check_pointer("PATH:\\\\srv\\x", KDA_POINTER_FOREIGN, "\\\\srv\\x");
    check_pointer("//srv/x", KDA_POINTER_FOREIGN, NULL);
    check_pointer("/\\srv/x", KDA_POINTER_FOREIGN, NULL);
    check_pointer("PATH:c:\\x.pdb", KDA_POINTER_FOREIGN, NULL);
    check_pointer("PATH:file:///etc/passwd", KDA_POINTER_FOREIGN, NULL);
    check_pointer("MSG: moved\x07 away", KDA_POINTER_MESSAGE, " moved? away");
    check_pointer("", KDA_POINTER_NONE, "");
    check_pointer("PATH:", KDA_POINTER_NONE, "");
    check_pointer(" <html>", KDA_POINTER_NONE, NULL);
    check_pointer("a\nb", KDA_POINTER_NONE, NULL);
    check_pointer("http://", KDA_POINTER_NONE, NULL);
    check_pointer("a23456789a23456789a23456789a23456789a23456789a23456789a23456789a",
                  KDA_POINTER_NONE, NULL);
}

static void test_content_range(void **state)
{
    (void)state;
    uint64_t first = 7, total = 7;
    assert_true(kda_remote_content_range("bytes 5-9/10", &first, &total));
    assert_int_equal(first, 5);
    assert_int_equal(total, 10);
    assert_true(kda_remote_content_range(" Bytes: 0-0/*", &first, &total));
    assert_int_equal(first, 0);
    assert_int_equal(total, 0);
    static const char *const bad[] = {"",
                                      "bytes",
                                      "bytes 5-9",
                                      "bytes 9-5/10",
                                      "bytes 5-9/9",
                                      "bytes */10",
                                      "items 5-9/10",
                                      "bytes -9/10",
                                      "bytes 99999999999999999999-1/2"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(kda_remote_content_range(bad[i], &first, &total));
}

static bool parse_origin(const char *text, struct kda_part_origin *ret)
{
    return kda_remote_origin_parse(text, strlen(text), ret);
}

static void test_origin(void **state)
{
    (void)state;
    struct kda_part_origin origin = {.total = 1};
    assert_true(parse_origin("http://h/x\n\"tag\"\n123\n", &origin));
    assert_string_equal(origin.url, "http://h/x");
    assert_string_equal(origin.validator, "\"tag\"");
    assert_int_equal(origin.total, 123);
    assert_false(parse_origin("", &origin));
    assert_false(parse_origin("http://h/x\n\"tag\"\n", &origin));
    assert_false(parse_origin("http://h/x\n\"tag\"\n12x\n", &origin));
    assert_false(parse_origin("http://h/x\n\"tag\"\n12\nmore", &origin));
    assert_false(parse_origin("http://h/x\n\"t\rag\"\n12\n", &origin));
    assert_false(parse_origin("\n\"tag\"\n12\n", &origin));
    assert_int_equal(origin.total, 123);
}

static void test_servers(void **state)
{
    (void)state;
    struct kda_servers servers;
    struct kda_error err;
    const char *text = "c:\\sym;srv*a*b*https://h/s;cache*x;srv**http://i;cache*;srv*http://j";
    assert_int_equal(kda_servers_init(&servers, text, "own", &err), KDA_OK);
    assert_int_equal(servers.count, 3);
    assert_int_equal(servers.items[0].cache_count, 2);
    assert_string_equal(servers.items[0].cache[0], "a");
    assert_string_equal(servers.items[0].cache[1], "b");
    assert_string_equal(servers.items[0].url, "https://h/s");
    assert_int_equal(servers.items[1].cache_count, 2);
    assert_string_equal(servers.items[1].cache[0], "x");
    assert_string_equal(servers.items[1].cache[1], "own");
    assert_int_equal(servers.items[2].cache_count, 2);
    assert_string_equal(servers.items[2].url, "http://j");
    kda_servers_deinit(&servers);

    assert_int_equal(kda_servers_init(&servers, "srv*http://k", "own", &err), KDA_OK);
    assert_int_equal(servers.items[0].cache_count, 1);
    assert_string_equal(servers.items[0].cache[0], "own");
    kda_servers_deinit(&servers);

    static const char *const windows[] = {"srv*C:\\sym*http://k", "srv*\\\\s\\t*http://k",
                                          "cache*d:/x;srv*http://k"};
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++) {
        assert_int_equal(kda_servers_init(&servers, windows[i], "own", &err), KDA_USAGE);
        assert_non_null(strstr(err.text, "Windows"));
        kda_servers_deinit(&servers);
    }

    char many[256] = "";
    for (size_t i = 0; i < 17; i++)
        memcpy(many + i * 8, "cache*d;", 9);
    assert_int_equal(kda_servers_init(&servers, many, "own", &err), KDA_USAGE);
    kda_servers_deinit(&servers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_url),     cmocka_unit_test(test_redact),
        cmocka_unit_test(test_pointer), cmocka_unit_test(test_content_range),
        cmocka_unit_test(test_origin),  cmocka_unit_test(test_servers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
