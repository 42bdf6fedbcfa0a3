/* Page tables, page cache, virtual reads. */
#include "mini.h"

#define VA 0xffff900000000000u
#define VA57 0xff20000000000000u

static void check_translate(struct mini *m, uint64_t va, enum kda_status want, uint64_t want_pa)
{
    uint64_t pa = 0x77;
    struct kda_error err;
    assert_int_equal(kda_translate(m->kernel, m->root, va, &pa, &err), want);
    if (want == KDA_OK) {
        assert_int_equal(pa, want_pa);
        assert_int_equal(kda_translate(m->kernel, m->root, va, &pa, NULL), KDA_OK); /* cached */
        assert_int_equal(pa, want_pa);
    } else {
        assert_int_equal(pa, 0x77);
        assert_true(err.has_where && err.where == va);
    }
}

static void page_sizes(bool la57, uint64_t va)
{
    struct mini *m = mini_create(NULL, la57, 0);
    mini_map(m, va, 0x5000, 0);
    mini_map(m, va + 0x200000, 0x400000, 1);
    mini_map(m, va + 0x40000000, 0x40000000, 2); /* 1 GiB page, past the end of the RAM */
    mini_kernel(m);
    check_translate(m, va + 0x123, KDA_OK, 0x5123);
    check_translate(m, va + 0x200000 + 0x1ff123, KDA_OK, 0x5ff123);
    check_translate(m, va + 0x40000000 + 0x12345678, KDA_OK, 0x40000000 + 0x12345678);
    check_translate(m, va + 0x1000, KDA_UNMAPPED, 0);
    uint8_t byte;
    assert_int_equal(kda_read(m->kernel, va + 0x40000000, &byte, 1, NULL), KDA_ABSENT);
    mini_free(m);
}

static void test_four_levels(void **state)
{
    (void)state;
    page_sizes(false, VA);
}

static void test_five_levels(void **state)
{
    (void)state;
    page_sizes(true, VA57);
    page_sizes(true, VA);
}

/* Bit 7 of a page-table entry is PAT, of a PML4 entry reserved: neither makes a large page. */
static void test_large_bit_only_where_it_counts(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_map(m, VA, 0x5000, 0);
    *mini_entry(m, VA, 0) |= 0x80;
    *mini_entry(m, VA, 3) |= 0x80;
    mini_kernel(m);
    check_translate(m, VA, KDA_OK, 0x5000);
    mini_free(m);
}

static void test_large_page_ignores_low_frame_bits(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_map(m, VA, 0x400000 | 0x1000, 1); /* bit 12 is PAT there */
    mini_kernel(m);
    check_translate(m, VA + 0x10, KDA_OK, 0x400010);
    mini_free(m);
}

static void test_invalid_entries(void **state)
{
    static const struct {
        uint64_t entry;
        enum kda_status want;
        uint64_t pa;
    } cases[] = {
        {0, KDA_UNMAPPED, 0},
        {0x5000 | 0x800, KDA_OK, 0x5000},                       /* transition */
        {0x5000 | 0x800 | 0x80, KDA_OK, 0x5000},                /* transition is never large */
        {0x5000 | 0xc00, KDA_PAGED_OUT, 0},                     /* prototype and transition */
        {0x0000123400000400u, KDA_PAGED_OUT, 0},                /* prototype */
        {0x0000123400000080u, KDA_PAGED_OUT, 0},                /* page file */
        {0x80, KDA_PAGED_OUT, 0},                               /* demand zero */
        {0x5000 | 0x800 | 0x0000200000000000u, KDA_OK, 0x5000}, /* masked high frame bits */
        {0x8000000000005001u, KDA_OK, 0x5000},                  /* no-execute */
        {0x07f0000000005001u, KDA_OK, 0x5000},                  /* software bits */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mini *m = mini_create(NULL, false, 0);
        kda_put_le64(mini_entry(m, VA, 0), cases[i].entry);
        mini_kernel(m);
        check_translate(m, VA, cases[i].want, cases[i].pa);
        mini_free(m);
    }
}

static void test_transition_unswizzled(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t byte;
    (void)state;
    /* Bit 4 says that the high frame bits are meant: the page is then not in the image. */
    kda_put_le64(mini_entry(m, VA, 0), 0x5000 | 0x800 | 0x10 | 0x0000200000000000u);
    mini_kernel(m);
    assert_int_equal(kda_read(m->kernel, VA, &byte, 1, NULL), KDA_ABSENT);
    mini_free(m);
}

static void test_table_in_transition(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_map(m, VA, 0x5000, 0);
    uint8_t *pde = mini_entry(m, VA, 1);
    kda_put_le64(pde, (kda_le64(pde) & ~(uint64_t)0xfff) | 0x880); /* bit 7 is no size there */
    mini_kernel(m);
    check_translate(m, VA + 8, KDA_OK, 0x5008);
    mini_free(m);
}

static void test_table_missing(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    mini_map(m, VA, 0x5000, 0);
    kda_put_le64(mini_entry(m, VA, 1), (uint64_t)m->size + 0x3000 + 0x63);
    mini_kernel(m);
    check_translate(m, VA, KDA_ABSENT, 0); /* not "unmapped": nobody knows */
    mini_free(m);
}

static void test_self_map(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    kda_put_le64(m->ram + m->root + 0x1ed * 8, m->root | 0x63);
    mini_kernel(m);
    check_translate(m, 0xfffff6fb7dbed000u, KDA_OK, m->root);
    mini_free(m);
}

static void test_canonical(void **state)
{
    static const struct {
        uint64_t va;
        bool four, five;
    } cases[] = {
        {0xffff800000000000u, true, true},   {0xfffffffffffffff8u, true, true},
        {0xffff7fffffffffffu, false, true},  {0xff00000000000000u, false, true},
        {0xfeffffffffffffffu, false, false}, {0x0000800000000000u, false, false},
        {0x00007fffffffffffu, false, false}, {0, false, false},
        {0x8000000000000000u, false, false},
    };
    (void)state;
    for (unsigned la57 = 0; la57 < 2; la57++) {
        struct mini *m = mini_create(NULL, la57 != 0, 0);
        mini_kernel(m);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
            assert_int_equal(kda_is_kernel_va(m->kernel, cases[i].va),
                             la57 ? cases[i].five : cases[i].four);
        check_translate(m, 0x8000000000000000u, KDA_UNMAPPED, 0);
        mini_free(m);
    }
}

static void test_reads_cross_pages(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t want[0x3000], got[0x3000];
    struct kda_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(want); i++)
        want[i] = (uint8_t)(i * 7 + i / 256);
    mini_write(m, VA + 0x800, want, sizeof(want));
    mini_kernel(m);
    assert_int_equal(kda_read(m->kernel, VA + 0x800, got, sizeof(got), NULL), KDA_OK);
    assert_memory_equal(got, want, sizeof(want));
    assert_int_equal(kda_read(m->kernel, VA + 0x5000, got, 0, NULL), KDA_OK);
    mini_absent(m, VA + 0x2000);
    mini_kernel(m);
    assert_int_equal(kda_read(m->kernel, VA + 0x800, got, sizeof(got), &err), KDA_ABSENT);
    assert_true(err.where == VA + 0x2000);
    assert_int_equal(kda_read(m->kernel, UINT64_MAX - 3, got, 8, &err), KDA_UNMAPPED);
    mini_free(m);
}

/* More pages than the cache holds, twice in the same order (the worst one): every byte right. */
static void test_cache_eviction(void **state)
{
    size_t pages = KDA_CACHE_PAGES + 700;
    struct mini *m = mini_create(NULL, false, (pages + 300) * KDA_PAGE_SIZE);
    (void)state;
    for (size_t i = 0; i < pages; i++)
        mini_put64(m, VA + i * KDA_PAGE_SIZE, i * 3 + 1);
    mini_kernel(m);
    for (unsigned round = 0; round < 3; round++)
        for (size_t i = 0; i < pages; i++) {
            uint8_t bytes[8];
            size_t at = round == 2 ? pages - 1 - i : i;
            assert_int_equal(kda_read(m->kernel, VA + at * KDA_PAGE_SIZE, bytes, 8, NULL), KDA_OK);
            assert_true(kda_le64(bytes) == at * 3 + 1);
        }
    mini_free(m);
}

static void test_failed_page_leaves_the_cache_sound(void **state)
{
    struct mini *m = mini_create(NULL, false, (KDA_CACHE_PAGES + 300) * KDA_PAGE_SIZE);
    uint8_t byte;
    (void)state;
    for (size_t i = 0; i < KDA_CACHE_PAGES; i++)
        mini_put64(m, VA + i * KDA_PAGE_SIZE, i);
    mini_absent(m, VA - KDA_PAGE_SIZE);
    mini_kernel(m);
    for (unsigned round = 0; round < 2; round++)
        for (size_t i = 0; i < KDA_CACHE_PAGES; i++) {
            assert_int_equal(kda_read(m->kernel, VA - 1, &byte, 1, NULL), KDA_ABSENT);
            assert_int_equal(kda_read(m->kernel, VA + i * KDA_PAGE_SIZE, &byte, 1, NULL), KDA_OK);
            assert_int_equal(byte, i & 0xff);
        }
    mini_free(m);
}

static void test_other_root(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t byte = 0;
    (void)state;
    mini_put(m, VA, 0xaa, 1);
    uint64_t first = m->root;
    m->root = mini_page(m);
    mini_put(m, VA, 0xbb, 1);
    mini_kernel(m);
    assert_int_equal(kda_read_in(m->kernel, first | 2, VA, &byte, 1, NULL), KDA_OK); /* PCID bits */
    assert_int_equal(byte, 0xaa);
    assert_int_equal(kda_read(m->kernel, VA, &byte, 1, NULL), KDA_OK);
    assert_int_equal(byte, 0xbb);
    mini_free(m);
}

static void test_work_ends(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t byte;
    uint64_t reads = 0;
    (void)state;
    mini_put(m, VA, 1, 1);
    mini_kernel(m);
    while (kda_read(m->kernel, VA, &byte, 1, NULL) == KDA_OK)
        reads++;
    assert_true(kda_kernel_exhausted(m->kernel));
    assert_int_equal(kda_read(m->kernel, VA, &byte, 1, NULL), KDA_LIMIT);
    assert_in_range(reads, KDA_WORK_BASE,
                    KDA_WORK_BASE + MINI_RAM / KDA_PAGE_SIZE * KDA_WORK_PER_PAGE);
    mini_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_levels),
        cmocka_unit_test(test_five_levels),
        cmocka_unit_test(test_large_bit_only_where_it_counts),
        cmocka_unit_test(test_large_page_ignores_low_frame_bits),
        cmocka_unit_test(test_invalid_entries),
        cmocka_unit_test(test_transition_unswizzled),
        cmocka_unit_test(test_table_in_transition),
        cmocka_unit_test(test_table_missing),
        cmocka_unit_test(test_self_map),
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_reads_cross_pages),
        cmocka_unit_test(test_cache_eviction),
        cmocka_unit_test(test_failed_page_leaves_the_cache_sound),
        cmocka_unit_test(test_other_root),
        cmocka_unit_test(test_work_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
