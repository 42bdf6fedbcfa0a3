/* Finding the page-table root and the kernel, in images that help and images that do not. */
#include <stdio.h>

#include "mini.h"

#include "forge.h"

#define SELF 0x1edu
#define SIZE_OF_IMAGE 0x1046000u

/* The header page of a kernel: PE header, debug directory and CodeView record. */
static void put_kernel(struct mini *m, uint64_t base, uint16_t machine, const char *pdb)
{
    uint8_t page[KDA_PAGE_SIZE] = {0};
    uint8_t *nt = page + 0x80, *debug = page + 0x400, *rsds = page + 0x500;
    size_t length = 24 + strlen(pdb) + 1;
    memcpy(page, "MZ", 2);
    kda_put_le32(page + 0x3c, 0x80);
    memcpy(nt, "PE\0\0", 4);
    kda_put_le16(nt + 4, machine);
    kda_put_le32(nt + 8, 0x12345678);
    kda_put_le16(nt + 24, 0x20b);
    kda_put_le32(nt + 24 + 56, SIZE_OF_IMAGE);
    kda_put_le32(nt + 24 + 108, 16);
    kda_put_le32(nt + 24 + 112 + 48, 0x400);
    kda_put_le32(nt + 24 + 112 + 52, 28);
    kda_put_le32(debug + 12, 2);
    kda_put_le32(debug + 16, (uint32_t)length);
    kda_put_le32(debug + 20, 0x500);
    memcpy(rsds, "RSDS", 4);
    memset(rsds + 4, 0xab, 16);
    kda_put_le32(rsds + 20, 3);
    memcpy(rsds + 24, pdb, length - 24);
    mini_write(m, base, page, sizeof(page));
}

/* Export directory with PsLoadedModuleList, and that list's first entry naming `named` as its
 * base. */
static void put_driver_list(struct mini *m, uint64_t base, uint64_t named)
{
    uint8_t dir[0x100] = {0};
    uint64_t entry = mini_alloc(m, 0x100);
    kda_put_le32(dir + 20, 1);
    kda_put_le32(dir + 24, 1);
    kda_put_le32(dir + 28, 0x640);
    kda_put_le32(dir + 32, 0x650);
    kda_put_le32(dir + 36, 0x660);
    kda_put_le32(dir + 0x40, 0x700); /* the function: data in this page */
    kda_put_le32(dir + 0x50, 0x670); /* its name */
    memcpy(dir + 0x70, "PsLoadedModuleList", 19);
    mini_write(m, base + 0x600, dir, sizeof(dir));
    mini_put(m, base + 0x80 + 24 + 112, 0x600, 4);
    mini_put(m, base + 0x80 + 24 + 116, sizeof(dir), 4);
    mini_put64(m, base + 0x700, entry);
    mini_put64(m, entry + 0x30, named);
}

static void self_map(struct mini *m)
{
    kda_put_le64(m->ram + m->root + SELF * 8, m->root | 0x63);
}

static struct mini *machine(bool la57)
{
    struct mini *m = mini_create(NULL, la57, 0);
    put_kernel(m, MINI_BASE, 0x8664, "ntkrnlmp.pdb");
    self_map(m);
    return m;
}

static enum kda_status open(struct mini *m, uint64_t dtb, struct kda_kernel_info *info,
                            struct kda_error *err)
{
    struct kda_image *image;
    struct kda_kernel *kernel = NULL;
    struct kda_kernel_options options;
    memset(&options, 0, sizeof(options));
    options.dtb = dtb;
    assert_int_equal(kda_image_open_memory(m->ram, m->size, "find.raw", &image, NULL), KDA_OK);
    enum kda_status status = kda_kernel_open(image, &options, &kernel, err);
    if (status == KDA_OK)
        *info = *kda_kernel_info(kernel);
    else
        assert_null(kernel);
    kda_kernel_close(kernel);
    kda_image_close(image);
    return status;
}

static void check_found(struct mini *m, uint64_t dtb, enum kda_dtb_source source)
{
    struct kda_kernel_info info;
    struct kda_error err;
    if (open(m, dtb, &info, &err) != KDA_OK)
        fail_msg("%s", err.text);
    assert_true(info.dtb == m->root);
    assert_int_equal(info.dtb_source, source);
    assert_true(info.base == MINI_BASE);
    assert_int_equal(info.la57, m->la57);
    assert_int_equal(info.machine, 0x8664);
    assert_string_equal(info.id.pdb_name, "ntkrnlmp.pdb");
    assert_int_equal(info.id.pdb_age, 3);
    assert_int_equal(info.id.pe_size, SIZE_OF_IMAGE);
    assert_int_equal(info.id.pe_timestamp, 0x12345678);
}

static void test_scan(void **state)
{
    (void)state;
    for (unsigned la57 = 0; la57 < 2; la57++) {
        struct mini *m = machine(la57 != 0);
        check_found(m, 0, KDA_DTB_SCAN);
        mini_free(m);
    }
}

static void test_option(void **state)
{
    (void)state;
    for (unsigned la57 = 0; la57 < 2; la57++) {
        struct mini *m = machine(la57 != 0);
        kda_put_le64(m->ram + m->root + SELF * 8, 0); /* a scan would find nothing */
        check_found(m, m->root | 2, KDA_DTB_OPTION);  /* PCID bits do not matter */
        mini_free(m);
    }
}

static void test_low_stub(void **state)
{
    struct mini *m = machine(false);
    (void)state;
    kda_put_le64(m->ram + m->root + SELF * 8, 0);
    uint8_t *stub = m->ram + mini_page(m);
    kda_put_le64(stub, 0x0000000100064de9u);
    kda_put_le64(stub + 0x70, MINI_BASE + 0x1a3f0);
    kda_put_le64(stub + 0xa0, m->root);
    check_found(m, 0, KDA_DTB_LOW_STUB);
    mini_free(m);
}

static void test_low_stub_lies(void **state)
{
    struct mini *m = machine(false);
    (void)state;
    for (unsigned i = 0; i < 100; i++) { /* more than are tried: the scan still gets its turn */
        uint8_t *stub = m->ram + mini_page(m);
        kda_put_le64(stub, 0x0000000100064de9u);
        kda_put_le64(stub + 0x70, MINI_BASE + 0x1a3f0);
        kda_put_le64(stub + 0xa0, 0x700000);
    }
    check_found(m, 0, KDA_DTB_SCAN);
    mini_free(m);
}

static void test_header(void **state)
{
    static const char scenario[] = "build 10.0.22000.795\nsize 4M\nseed 3\nkernel pages=sparse\n"
                                   "compact on\nusers off\ndrivers none\nprocess 4 handles=2\n";
    struct kda_image *image;
    struct kda_kernel *kernel;
    struct kda_error err;
    uint8_t *bytes;
    size_t size;
    (void)state;
    if (forge_build_memory(scenario, FORGE_DMP_FULL, &bytes, &size, &err) != KDA_OK)
        fail_msg("%s", err.text);
    assert_int_equal(kda_image_open_memory(bytes, size, "x.dmp", &image, NULL), KDA_OK);
    assert_int_equal(kda_kernel_open(image, NULL, &kernel, &err), KDA_OK);
    assert_int_equal(kda_kernel_info(kernel)->dtb_source, KDA_DTB_HEADER);
    kda_kernel_close(kernel);
    kda_image_close(image);
    free(bytes);
}

/* A table that names itself and the kernel's slot but maps no kernel, before the real one. */
static void test_dummy_tables(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        uint64_t pa = mini_page(m);
        kda_put_le64(m->ram + pa + SELF * 8, pa | 0x63);
        kda_put_le64(m->ram + pa + 0x1f0 * 8, mini_page(m) | 0x63);
    }
    m->root = mini_page(m);
    put_kernel(m, MINI_BASE, 0x8664, "ntkrnlmp.pdb");
    self_map(m);
    check_found(m, 0, KDA_DTB_SCAN);
    mini_free(m);
}

static void test_other_images_first(void **state)
{
    struct mini *m = machine(false);
    (void)state;
    /* A driver and a kernel's copy of the wrong kind stand at lower addresses. */
    put_kernel(m, MINI_BASE - 0x1000000, 0x8664, "driver.pdb");
    mini_write(m, MINI_BASE - 0x2000000, "MZ no image at all", 18);
    check_found(m, 0, KDA_DTB_SCAN);
    mini_free(m);
}

static void test_two_candidates(void **state)
{
    struct mini *m = machine(false);
    (void)state;
    /* A process's table maps the same kernel: the lower one is taken, either would do. */
    uint64_t other = mini_page(m);
    memcpy(m->ram + other, m->ram + m->root, KDA_PAGE_SIZE);
    kda_put_le64(m->ram + other + SELF * 8, other | 0x63);
    check_found(m, 0, KDA_DTB_SCAN);
    mini_free(m);
}

/* Copies of the kernel are mapped below and above the running one: one whose data say so, one
 * without data. */
static void test_copies_of_the_kernel(void **state)
{
    struct mini *m = machine(false);
    (void)state;
    put_driver_list(m, MINI_BASE, MINI_BASE);
    put_kernel(m, MINI_BASE - 0x4000000, 0x8664, "ntkrnlmp.pdb");
    put_driver_list(m, MINI_BASE - 0x4000000, MINI_BASE);
    put_kernel(m, MINI_BASE - 0x8000000, 0x8664, "ntkrnlmp.pdb");
    put_kernel(m, MINI_BASE + 0x8000000, 0x8664, "ntkrnlmp.pdb");
    check_found(m, 0, KDA_DTB_SCAN);
    mini_free(m);
}

static void test_only_a_copy(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    struct kda_image *image;
    struct kda_kernel *kernel;
    (void)state;
    put_kernel(m, MINI_BASE, 0x8664, "ntkrnlmp.pdb");
    put_driver_list(m, MINI_BASE, MINI_BASE + 0x10000000);
    self_map(m);
    assert_int_equal(kda_image_open_memory(m->ram, m->size, "find.raw", &image, NULL), KDA_OK);
    assert_int_equal(kda_kernel_open(image, NULL, &kernel, NULL), KDA_OK);
    assert_true(kda_kernel_info(kernel)->base == MINI_BASE);
    assert_int_equal(kda_kernel_gaps(kernel)->count, 1);
    assert_string_equal(kda_kernel_gaps(kernel)->items[0].what, "kernel_base");
    kda_kernel_close(kernel);
    kda_image_close(image);
    mini_free(m);
}

static void test_large_pages(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    put_kernel(m, 0xfffff80099999000u, 0x8664, "ntkrnlmp.pdb"); /* writes a page somewhere */
    uint64_t pa = kda_le64(mini_entry(m, 0xfffff80099999000u, 0)) & 0x000ffffffffff000u;
    memcpy(m->ram + 0x400000, m->ram + pa, KDA_PAGE_SIZE);
    memset(m->ram + pa, 0, KDA_PAGE_SIZE);
    mini_map(m, MINI_BASE, 0x400000, 1);
    self_map(m);
    check_found(m, 0, KDA_DTB_SCAN);
    mini_free(m);
}

static void check_not_found(struct mini *m, uint64_t dtb, enum kda_status want, const char *text)
{
    struct kda_kernel_info info;
    struct kda_error err;
    assert_int_equal(open(m, dtb, &info, &err), want);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void test_nothing_there(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    check_not_found(m, 0, KDA_ABSENT, "no page-table root in it");
    check_not_found(m, 0x5000, KDA_ABSENT, "--dtb 0x5000: maps no kernel");
    self_map(m);
    kda_put_le64(m->ram + m->root + 0x1f0 * 8, mini_page(m) | 0x63);
    check_not_found(m, 0, KDA_ABSENT, "table at 0x1000: maps no kernel");
    mini_free(m);
}

static void test_why_it_was_refused(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    put_kernel(m, MINI_BASE, 0x8664, "win32k.pdb");
    self_map(m);
    check_not_found(m, 0, KDA_ABSENT, "win32k.pdb");
    mini_free(m);
}

static void test_other_machine(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    put_kernel(m, MINI_BASE, 0xaa64, "ntkrnlmp.pdb");
    self_map(m);
    check_not_found(m, 0, KDA_UNSUPPORTED, "0xaa64");
    mini_free(m);
}

static void test_tables_in_a_circle(void **state)
{
    (void)state;
    for (unsigned level = 0; level < 3; level++) {
        struct mini *m = mini_create(NULL, false, 0);
        uint64_t circle = mini_page(m), mz = mini_page(m);
        memcpy(m->ram + mz, "MZ", 2);
        self_map(m);
        kda_put_le64(m->ram + m->root + 0x1f0 * 8, circle | 0x63);
        for (unsigned i = 0; i < 512; i++) /* every entry: itself, a page of "MZ", or the root */
            kda_put_le64(m->ram + circle + i * 8, (level == 0            ? circle
                                                   : level == 1 && i % 2 ? mz
                                                                         : m->root) |
                                                      0x63);
        if (level == 1)
            for (unsigned i = 0; i < 512; i += 2)
                kda_put_le64(m->ram + circle + i * 8, circle | 0x63);
        check_not_found(m, 0, KDA_ABSENT, "table at 0x1000");
        mini_free(m);
    }
}

/* Every page a root in a circle: the work is bounded over all of them. */
static void test_many_roots(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    (void)state;
    uint64_t circle = mini_page(m);
    for (unsigned i = 0; i < 512; i++)
        kda_put_le64(m->ram + circle + i * 8, circle | 0x63);
    while (m->next_pa + 2 * KDA_PAGE_SIZE < m->size) {
        uint64_t pa = mini_page(m);
        kda_put_le64(m->ram + pa + SELF * 8, pa | 0x63);
        kda_put_le64(m->ram + pa + 0x1f0 * 8, circle | 0x63);
    }
    check_not_found(m, 0, KDA_ABSENT, "page tables without end");
    mini_free(m);
}

static void test_wrong_size(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t size[4];
    (void)state;
    put_kernel(m, MINI_BASE, 0x8664, "ntkrnlmp.pdb");
    self_map(m);
    kda_put_le32(size, 0x2000);
    mini_write(m, MINI_BASE + 0x80 + 24 + 56, size, 4);
    check_not_found(m, 0, KDA_ABSENT, "has not the size of a kernel");
    mini_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scan),
        cmocka_unit_test(test_option),
        cmocka_unit_test(test_low_stub),
        cmocka_unit_test(test_low_stub_lies),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_dummy_tables),
        cmocka_unit_test(test_other_images_first),
        cmocka_unit_test(test_two_candidates),
        cmocka_unit_test(test_copies_of_the_kernel),
        cmocka_unit_test(test_only_a_copy),
        cmocka_unit_test(test_large_pages),
        cmocka_unit_test(test_nothing_there),
        cmocka_unit_test(test_why_it_was_refused),
        cmocka_unit_test(test_other_machine),
        cmocka_unit_test(test_tables_in_a_circle),
        cmocka_unit_test(test_many_roots),
        cmocka_unit_test(test_wrong_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
