/* Handle tables of every form, true and lying. */
#include "mini.h"

struct seen {
    struct kda_handle items[64];
    size_t count, total, stop_at;
};

static bool note(void *context, const struct kda_handle *handle)
{
    struct seen *seen = context;
    if (seen->count < 64)
        seen->items[seen->count++] = *handle;
    return ++seen->total != seen->stop_at;
}

static struct seen walk(struct mini *m, uint64_t table, bool cid, enum kda_status want)
{
    struct seen seen;
    memset(&seen, 0, sizeof(seen));
    mini_kernel(m);
    assert_int_equal(kda_handles_walk(m->kernel, table, cid, note, &seen, NULL), want);
    return seen;
}

static uint64_t with_code(struct mini *m, uint64_t code)
{
    uint64_t table = mini_alloc(m, 0x100);
    mini_set(m, table, KDA_F_HANDLE_TABLE_TableCode, code);
    return table;
}

#define OBJ(i) (0xffffc00000001000u + 0x100u * (i))

static void form(const char *version)
{
    struct mini *m = mini_create(version, false, 0);
    uint64_t page = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, page);
    (void)page;
    mini_handle(m, page, 0, OBJ(9), 0); /* the table's own entry */
    mini_handle(m, page, 1, OBJ(1), 0);
    mini_handle(m, page, 2, OBJ(2), 7);
    mini_handle(m, page, 255, OBJ(3), 2);
    mini_put64(m, page + 5 * 16, 0);       /* free */
    mini_put64(m, page + 6 * 16, 0x12340); /* free list link: no kernel address */
    struct seen seen = walk(m, table, false, KDA_OK);
    assert_int_equal(seen.count, 3);
    static const unsigned index[] = {1, 2, 255}, attributes[] = {0, 7, 2};
    for (unsigned i = 0; i < 3; i++) {
        assert_true(seen.items[i].header == OBJ(i + 1));
        assert_true(seen.items[i].object == OBJ(i + 1) + 0x30);
        assert_int_equal(seen.items[i].value, index[i] * 4);
        assert_int_equal(seen.items[i].attributes, attributes[i]);
        assert_true(seen.items[i].entry_va == page + index[i] * 16);
    }
    seen = walk(m, table, true, KDA_OK);
    assert_int_equal(seen.count, 3);
    assert_true(seen.items[0].object == OBJ(1) && seen.items[0].header == 0);
    mini_free(m);
}

static void test_packed_form(void **state)
{
    (void)state;
    form("10.0.22000.795");
    form("6.3.9600.19913");
}

static void test_plain_form(void **state)
{
    (void)state;
    form("6.1.7601.24540");
}

static void test_sign_extension(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t page = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, page);
    (void)state;
    mini_handle(m, page, 1, 0xffff800000000010u, 0);
    mini_handle(m, page, 2, 0xfffffffffffffff0u, 0);
    mini_put64(m, page + 3 * 16, (uint64_t)0x7fffffff << 20); /* bit 47 clear: user half */
    struct seen seen = walk(m, table, false, KDA_OK);
    assert_int_equal(seen.count, 2);
    assert_true(seen.items[0].header == 0xffff800000000010u);
    assert_true(seen.items[1].header == 0xfffffffffffffff0u);
    mini_free(m);
}

static void test_two_levels(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t top = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, top | 1);
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t page = mini_alloc_page(m, KDA_PAGE_SIZE);
        mini_put64(m, top + i * 8u, page);
        mini_handle(m, page, 0, OBJ(10 + i), 0);
        mini_handle(m, page, 7, OBJ(i), 0);
    }
    struct seen seen = walk(m, table, false, KDA_OK);
    assert_int_equal(seen.count, 5); /* entry 0 of the first page is the table's own */
    assert_int_equal(seen.items[0].value, 7 * 4);
    assert_int_equal(seen.items[1].value, 256 * 4);
    assert_int_equal(seen.items[2].value, (256 + 7) * 4);
    assert_int_equal(seen.items[4].value, (512 + 7) * 4);
    mini_free(m);
}

static void test_three_levels(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t top = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, top | 2);
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t middle = mini_alloc_page(m, KDA_PAGE_SIZE);
        uint64_t page = mini_alloc_page(m, KDA_PAGE_SIZE);
        mini_put64(m, top + i * 8u, middle);
        mini_put64(m, middle + 8, page);
        mini_handle(m, page, 3, OBJ(i), 0);
    }
    struct seen seen = walk(m, table, false, KDA_OK);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.items[0].value, (256 + 3) * 4);
    assert_int_equal(seen.items[1].value, (512 * 256 + 256 + 3) * 4);
    mini_free(m);
}

/* Neither a cleared pointer, nor a wild one, nor a missing page hides what stands behind. */
static void test_broken_pointers(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t top = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, top | 1);
    uint64_t pages[5];
    (void)state;
    mini_put64(m, top + KDA_PAGE_SIZE - 8, 0);
    for (unsigned i = 0; i < 5; i++) {
        pages[i] = mini_alloc_page(m, KDA_PAGE_SIZE);
        mini_put64(m, top + i * 8u, pages[i]);
        mini_handle(m, pages[i], 1, OBJ(i), 0);
    }
    mini_put64(m, top + 1 * 8, 0);
    mini_put64(m, top + 2 * 8, 0x4141414141414141u);
    mini_absent(m, pages[3]);
    struct seen seen = walk(m, table, false, KDA_OK);
    assert_int_equal(seen.count, 2);
    assert_true(seen.items[1].header == OBJ(4));
    assert_int_equal(mini_gaps(m, "handle_table", KDA_BAD_DATA), 1);
    assert_int_equal(mini_gaps(m, "handle_table", KDA_ABSENT), 1);
    mini_free(m);
}

static void test_lying_next_handle(void **state)
{
    static const uint64_t lies[] = {0, 4, 0x400, 0x800, 0x3ff, UINT32_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct mini *m = mini_create(NULL, false, 0);
        uint64_t top = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, top | 1);
        for (unsigned p = 0; p < 4; p++) {
            uint64_t page = mini_alloc_page(m, KDA_PAGE_SIZE);
            mini_put64(m, top + p * 8u, page);
            mini_handle(m, page, 1, OBJ(p), 0);
        }
        mini_set(m, table, KDA_F_HANDLE_TABLE_NextHandleNeedingPool, lies[i]);
        assert_int_equal(walk(m, table, false, KDA_OK).count, 4);
        mini_free(m);
    }
}

static void test_bad_codes(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t page = mini_alloc_page(m, KDA_PAGE_SIZE);
    const uint64_t codes[] = {0, 3, page | 3, page + 0x10, 0x7ff700001000u, 0x8000000000000000u};
    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        assert_int_equal(walk(m, with_code(m, codes[i]), false, KDA_BAD_DATA).count, 0);
    assert_int_equal(walk(m, 0xffffa00000000000u, false, KDA_UNMAPPED).count, 0);
    mini_free(m);
}

/* Every pointer of a three-level table leads back to the table. */
static void test_cycle(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t top = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, top | 2);
    (void)state;
    for (unsigned i = 0; i < 512; i++)
        mini_put64(m, top + i * 8u, top);
    struct seen seen = walk(m, table, false, KDA_OK);
    assert_int_equal(seen.total, 0);
    assert_int_equal(m->kernel->handle_pages, 1);
    assert_int_equal(mini_gaps(m, "handle_table", KDA_BAD_DATA), 1);
    mini_free(m);
}

/* A page that two pointers name gives its handles once. */
static void test_page_twice(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t top = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, top | 1);
    uint64_t page = mini_alloc_page(m, KDA_PAGE_SIZE);
    (void)state;
    mini_put64(m, top + KDA_PAGE_SIZE - 8, 0);
    mini_handle(m, page, 1, OBJ(1), 0);
    mini_put64(m, top, page);
    mini_put64(m, top + 8, page);
    assert_int_equal(walk(m, table, false, KDA_OK).total, 1);
    assert_int_equal(mini_gaps(m, "handle_table", KDA_BAD_DATA), 1);
    mini_free(m);
}

static void test_stops_when_told(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint64_t top = mini_alloc_page(m, KDA_PAGE_SIZE), table = with_code(m, top | 1);
    struct seen seen;
    (void)state;
    memset(&seen, 0, sizeof(seen));
    for (unsigned p = 0; p < 3; p++) {
        uint64_t page = mini_alloc_page(m, KDA_PAGE_SIZE);
        mini_put64(m, top + p * 8u, page);
        mini_handle(m, page, 1, OBJ(p), 0);
    }
    seen.stop_at = 2;
    mini_kernel(m);
    assert_int_equal(kda_handles_walk(m->kernel, table, false, note, &seen, NULL), KDA_OK);
    assert_int_equal(seen.total, 2);
    mini_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_packed_form),
        cmocka_unit_test(test_plain_form),
        cmocka_unit_test(test_sign_extension),
        cmocka_unit_test(test_two_levels),
        cmocka_unit_test(test_three_levels),
        cmocka_unit_test(test_broken_pointers),
        cmocka_unit_test(test_lying_next_handle),
        cmocka_unit_test(test_bad_codes),
        cmocka_unit_test(test_cycle),
        cmocka_unit_test(test_page_twice),
        cmocka_unit_test(test_stops_when_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
