/* Text, cursor, map, arena, gaps, errors. */
#include <stdio.h>

#include "mini.h"

#include "base/text.h"

static size_t utf16(const uint16_t *units, size_t count, bool keep_nul, char *out, size_t cap)
{
    uint8_t bytes[64];
    for (size_t i = 0; i < count; i++)
        kda_put_le16(bytes + 2 * i, units[i]);
    return kda_utf16_to_utf8(bytes, count, keep_nul, out, cap);
}

static void test_utf16(void **state)
{
    static const struct {
        uint16_t units[4];
        size_t count;
        bool keep_nul;
        const char *want;
    } cases[] = {
        {{'A'}, 1, false, "A"},
        {{0xe9}, 1, false, "\xc3\xa9"},
        {{0x20ac}, 1, false, "\xe2\x82\xac"},
        {{0xd83d, 0xde00}, 2, false, "\xf0\x9f\x98\x80"},
        {{0xd83d}, 1, false, "\xef\xbf\xbd"},
        {{0xde00, 'x'}, 2, false, "\xef\xbf\xbdx"},
        {{0xd83d, 'x'}, 2, false, "\xef\xbf\xbdx"},
        {{0xd83d, 0xd83d, 0xde00}, 3, false, "\xef\xbf\xbd\xf0\x9f\x98\x80"},
        {{'a', 0, 'b'}, 3, false, "a"},
        {{'a', 0, 'b'},
         3,
         true,
         "a\xef\xbf\xbd"
         "b"},
        {{'a', 'b', 0, 0}, 4, true, "ab"},
        {{0, 0}, 2, true, ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char out[KDA_UTF8_MAX(4) + 1];
        memset(out, 'z', sizeof(out));
        size_t cap = KDA_UTF8_MAX(cases[i].count) + 1; /* exactly what the contract asks for */
        size_t size = utf16(cases[i].units, cases[i].count, cases[i].keep_nul, out, cap);
        assert_string_equal(out, cases[i].want);
        assert_int_equal(size, strlen(cases[i].want));
    }
}

static void test_utf16_small_buffer(void **state)
{
    static const uint16_t units[] = {'a', 0x20ac, 'b'};
    (void)state;
    for (size_t cap = 0; cap <= 8; cap++) {
        char out[16];
        memset(out, 'z', sizeof(out));
        size_t size = utf16(units, 3, false, out, cap);
        assert_true(cap == 0 ? size == 0 : size < cap);
        if (cap > 0)
            assert_int_equal(out[size], '\0');
        assert_int_equal(kda_utf8_valid_prefix(out, size), size);
        assert_int_equal(out[cap], 'z');
    }
}

static void test_latin1(void **state)
{
    char out[32];
    (void)state;
    assert_int_equal(kda_latin1_to_utf8("a\xe9z", 4, out, sizeof(out)), 4);
    assert_string_equal(out, "a\xc3\xa9z");
    assert_int_equal(kda_latin1_to_utf8("fifteen letters", 15, out, sizeof(out)), 15);
    for (size_t cap = 1; cap < 8; cap++) {
        size_t size = kda_latin1_to_utf8("\xe9\xe9\xe9\xe9", 4, out, cap);
        assert_true(size < cap);
        assert_int_equal(kda_utf8_valid_prefix(out, size), size);
    }
}

static void test_utf8_prefix(void **state)
{
    static const struct {
        const char *text;
        size_t want;
    } cases[] = {
        {"", 0},
        {"abc", 3},
        {"\xc3\xa9", 2},
        {"\xf0\x9f\x98\x80", 4},
        {"a\xc3", 1},            /* cut */
        {"a\x80", 1},            /* stray continuation */
        {"\xc0\x80", 0},         /* overlong NUL */
        {"\xe0\x9f\xbf", 0},     /* overlong */
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0}, /* past U+10FFFF */
        {"\xf0\x8f\xbf\xbf", 0}, /* overlong */
        {"\xff", 0},
        {"ok\xe2\x82", 2},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(kda_utf8_valid_prefix(cases[i].text, strlen(cases[i].text)),
                         cases[i].want);
}

static void test_guid(void **state)
{
    static const uint8_t bytes[16] = {0xd6, 0x2c, 0xfb, 0x22, 0x7b, 0x0e, 0x2b, 0x42,
                                      0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7, 0x16};
    static const char *const good[] = {"{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}",
                                       "22FB2CD6-0E7B-422B-A0C7-2FAD1FD0E716",
                                       "22fb2cd60e7b422ba0c72fad1fd0e716"};
    static const char *const wrong[] = {"",
                                        "{",
                                        "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716",
                                        "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}",
                                        "{22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}x",
                                        "22fb2cd6--0e7b-422b-a0c7-2fad1fd0e716",
                                        "22fb2cd60-e7b-422b-a0c7-2fad1fd0e716",
                                        "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e71",
                                        "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e7160",
                                        "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e71g"};
    char text[KDA_GUID_TEXT];
    (void)state;
    kda_guid_text(bytes, text);
    assert_string_equal(text, good[0]);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        uint8_t guid[16] = {0};
        assert_true(kda_guid_parse(good[i], guid));
        assert_memory_equal(guid, bytes, 16);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint8_t guid[16] = {7};
        assert_false(kda_guid_parse(wrong[i], guid));
        assert_int_equal(guid[0], 7);
    }
}

static void test_time(void **state)
{
    static const struct {
        uint64_t seconds;
        unsigned fraction;
        const char *want; /* NULL = past year 9999 */
    } cases[] = {
        {0, 0, "1601-01-01T00:00:00.0000000Z"},
        {0, 1, "1601-01-01T00:00:00.0000001Z"},
        {11644473600u, 0, "1970-01-01T00:00:00.0000000Z"},
        {11644473600u + 951782400u, 0, "2000-02-29T00:00:00.0000000Z"},
        {11644473600u + 951868800u, 0, "2000-03-01T00:00:00.0000000Z"},
        {11644473600u + 4107542400u, 0, "2100-03-01T00:00:00.0000000Z"},
        {11644473600u + 4107542399u, 9999999, "2100-02-28T23:59:59.9999999Z"},
        {11644473600u + 1709251199u, 0, "2024-02-29T23:59:59.0000000Z"},
        {11644473600u + 253402300799u, 9999999, "9999-12-31T23:59:59.9999999Z"},
        {11644473600u + 253402300800u, 0, NULL},
        {UINT64_MAX / 10000000u, 0, NULL},
    };
    char text[KDA_TIME_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bool ok = kda_time_text(cases[i].seconds * 10000000u + cases[i].fraction, text);
        assert_int_equal(ok, cases[i].want != NULL);
        if (ok)
            assert_string_equal(text, cases[i].want);
    }
    assert_false(kda_time_text(UINT64_MAX, text));
}

static void test_cursor(void **state)
{
    static const uint8_t bytes[] = {1, 2, 0, 3, 4, 'h', 'i', 0, 'x'};
    struct kda_cursor c = kda_cursor_make(bytes, sizeof(bytes));
    (void)state;
    assert_int_equal(kda_take8(&c), 1);
    assert_int_equal(kda_take16(&c), 2);
    assert_int_equal(kda_take16(&c), 0x403);
    assert_string_equal(kda_take_cstr(&c), "hi");
    assert_null(kda_take_cstr(&c)); /* no NUL left */
    assert_true(c.failed);
    assert_int_equal(kda_take8(&c), 0); /* sticks */
    c = kda_cursor_make(bytes, sizeof(bytes));
    assert_int_equal(kda_take64(&c), kda_le64(bytes));
    assert_int_equal(kda_take32(&c), 0);
    assert_true(c.failed);
    assert_int_equal(c.pos, 8);
    c = kda_cursor_make(bytes, sizeof(bytes));
    assert_null(kda_take(&c, SIZE_MAX));
    c = kda_cursor_make(bytes, sizeof(bytes));
    assert_true(kda_seek(&c, 9));
    assert_int_equal(kda_cursor_left(&c), 0);
    assert_false(kda_seek(&c, 10));
}

static void test_checked_arithmetic(void **state)
{
    uint64_t r = 7;
    (void)state;
    assert_false(kda_add64(UINT64_MAX, 1, &r));
    assert_false(kda_mul64(UINT64_MAX / 2, 3, &r));
    assert_int_equal(r, 7);
    assert_true(kda_add64(UINT64_MAX, 0, &r));
    assert_true(r == UINT64_MAX);
    assert_true(kda_mul64(0, UINT64_MAX, &r));
    assert_int_equal(r, 0);
}

static void test_map(void **state)
{
    struct kda_map map;
    uint64_t value = 0;
    (void)state;
    kda_map_init(&map);
    assert_false(kda_map_get(&map, 1, &value));
    assert_false(kda_map_put(&map, 0, 1));
    for (uint64_t i = 1; i <= 5000; i++)
        assert_true(kda_map_put(&map, i << 12, i));
    assert_true(kda_map_put(&map, 5 << 12, 99));
    assert_int_equal(map.count, 5000);
    for (uint64_t i = 1; i <= 5000; i++) {
        assert_true(kda_map_get(&map, i << 12, &value));
        assert_int_equal(value, i == 5 ? 99 : i);
    }
    assert_false(kda_map_get(&map, 5001 << 12, &value));
    kda_map_deinit(&map);
}

/* Keys chosen so that a fixed multiplicative hash puts all of them into one slot: with one slot
 * this takes minutes. */
static void test_map_chosen_keys(void **state)
{
    const uint64_t inverse = 0xf1de83e19937733du; /* of 0x9e3779b97f4a7c15 modulo 2^64 */
    struct kda_map map;
    (void)state;
    assert_true(inverse * 0x9e3779b97f4a7c15u == 1);
    kda_map_init(&map);
    for (uint64_t i = 1; i <= 200000; i++)
        assert_true(kda_map_put(&map, i * inverse, i));
    assert_int_equal(map.count, 200000);
    kda_map_deinit(&map);
}

static void test_arena(void **state)
{
    struct kda_arena arena;
    (void)state;
    kda_arena_init(&arena, 1000);
    assert_null(kda_arena_alloc(&arena, SIZE_MAX));
    assert_null(kda_arena_alloc(&arena, SIZE_MAX - 15));
    assert_null(kda_arena_alloc(&arena, 1001));
    uint8_t *p = kda_arena_alloc(&arena, 3);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 16, 0);
    uint8_t *q = kda_arena_alloc(&arena, 900);
    assert_non_null(q);
    assert_true(q >= p + 3 || q + 900 <= p);
    for (size_t i = 0; i < 900; i++)
        assert_int_equal(q[i], 0);
    assert_null(kda_arena_alloc(&arena, 100));
    assert_true(arena.used <= arena.limit);
    kda_arena_deinit(&arena);
    kda_arena_init(&arena, 0);
    for (size_t i = 0; i < 100; i++) /* large pieces do not waste the small ones' block */
        assert_non_null(kda_arena_alloc(&arena, i % 2 ? 100000 : 10));
    assert_string_equal(kda_arena_strdup(&arena, "text"), "text");
    kda_arena_deinit(&arena);
}

static void test_grow(void **state)
{
    void *items = NULL;
    size_t capacity = 0;
    (void)state;
    assert_false(kda_grow(&items, &capacity, 11, 8, 10));
    assert_true(kda_grow(&items, &capacity, 1, 8, 10));
    assert_int_equal(capacity, 10);
    assert_true(kda_grow(&items, &capacity, 10, 8, 10));
    assert_false(kda_grow(&items, &capacity, 11, 8, 10));
    assert_false(kda_grow(&items, &capacity, SIZE_MAX / 4, 8, SIZE_MAX));
    assert_int_equal(capacity, 10);
    kda_free(items);
}

static void test_gaps(void **state)
{
    struct kda_gaps gaps;
    (void)state;
    kda_gaps_init(&gaps);
    assert_false(kda_gaps_any(&gaps));
    kda_gaps_add(NULL, "x", 1, KDA_ABSENT, "nothing happens");
    kda_gaps_add(&gaps, "a", 1, KDA_ABSENT, "one");
    kda_gaps_add(&gaps, "a", 1, KDA_PAGED_OUT, "again");
    kda_gaps_add(&gaps, "b", 1, KDA_ABSENT, "other kind");
    kda_gaps_add(&gaps, "a", 2, KDA_ABSENT, "%s", "bell\a, escape\x1b[31m, cut \xe2\x82");
    assert_int_equal(gaps.count, 3);
    assert_int_equal(gaps.items[0].reason, KDA_ABSENT);
    assert_string_equal(gaps.items[2].text, "bell?, escape?[31m, cut ");
    char long_text[400];
    memset(long_text, 'x', sizeof(long_text));
    memcpy(long_text + 158, "\xc3\xa9", 3); /* the cut falls into the letter */
    kda_gaps_add(&gaps, "long", 3, KDA_ABSENT, "%s", long_text);
    assert_int_equal(strlen(gaps.items[3].text), 158);
    for (uint64_t i = 0; i < KDA_MAX_GAPS + 10u; i++)
        kda_gaps_add(&gaps, "many", 0x1000 + i, KDA_ABSENT, "n");
    assert_int_equal(gaps.count, KDA_MAX_GAPS);
    assert_int_equal(gaps.dropped, 14);
    kda_gaps_deinit(&gaps);
    assert_false(kda_gaps_any(&gaps));
}

static void test_errors(void **state)
{
    struct kda_error err;
    (void)state;
    assert_int_equal(kda_fail(NULL, KDA_IO, "x", "%d", 1), KDA_IO);
    kda_error_prepend(NULL, "x");
    assert_int_equal(kda_fail_at(&err, KDA_ABSENT, "test", 0x10, "page %d", 5), KDA_ABSENT);
    assert_true(err.has_where && err.where == 0x10);
    kda_error_prepend(&err, "while reading %s", "it");
    assert_string_equal(err.text, "while reading it: page 5");
    for (int i = 0; i < 60; i++)
        kda_error_prepend(&err, "while going deeper");
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    char phrase[1000];
    memset(phrase, 'p', sizeof(phrase) - 1);
    phrase[sizeof(phrase) - 1] = '\0';
    kda_error_prepend(&err, "%s", phrase);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    assert_int_equal(err.status, KDA_ABSENT);
    for (int i = 0; i < KDA_STATUS_COUNT; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(kda_status_name((enum kda_status)i),
                                    kda_status_name((enum kda_status)j));
    assert_string_equal(kda_status_name((enum kda_status) - 1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf16),  cmocka_unit_test(test_utf16_small_buffer),
        cmocka_unit_test(test_latin1), cmocka_unit_test(test_utf8_prefix),
        cmocka_unit_test(test_guid),   cmocka_unit_test(test_time),
        cmocka_unit_test(test_cursor), cmocka_unit_test(test_checked_arithmetic),
        cmocka_unit_test(test_map),    cmocka_unit_test(test_map_chosen_keys),
        cmocka_unit_test(test_arena),  cmocka_unit_test(test_grow),
        cmocka_unit_test(test_gaps),   cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
