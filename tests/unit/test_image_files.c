/*
 * Images as files: VMware companions beside the image, sparse files of many gigabytes, block reads.
 */
#define _FILE_OFFSET_BITS 64
#define _POSIX_C_SOURCE 200809L

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "alloc.h"
#include "image_writer.h"
#include "kda/image.h"

static char folder[512];

static const char *in_folder(const char *name)
{
    static char path[2][1024];
    static unsigned turn;
    turn ^= 1;
    (void)snprintf(path[turn], sizeof(path[turn]), "%s/%s", folder, name);
    return path[turn];
}

static void put_file(const char *name, const struct blob *blob)
{
    FILE *out = fopen(in_folder(name), "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(blob->data, 1, blob->size, out), blob->size);
    assert_int_equal(fclose(out), 0);
}

static void put_at(const char *name, uint64_t off, const void *bytes, size_t size)
{
    FILE *out = fopen(in_folder(name), "r+b");
    if (!out)
        out = fopen(in_folder(name), "w+b");
    assert_non_null(out);
    assert_int_equal(fseeko(out, (off_t)off, SEEK_SET), 0);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

static void drop(const char *name)
{
    (void)unlink(in_folder(name));
}

static bool has_warning(const struct kda_image *image, const char *words)
{
    const struct kda_image_info *info = kda_image_info(image);
    for (size_t i = 0; i < info->warning_count; i++)
        if (strstr(info->warnings[i], words))
            return true;
    return false;
}

static struct kda_image *must_open(const char *name)
{
    struct kda_image *image = NULL;
    struct kda_error err = {0};
    if (kda_image_open(in_folder(name), &image, &err) != KDA_OK)
        fail_msg("%s", err.text);
    return image;
}

static void check_page(struct kda_image *image, uint64_t pfn)
{
    uint8_t page[4096], want[4096];
    page_pattern(pfn, want);
    assert_int_equal(kda_image_read_page(image, pfn, page, NULL), KDA_OK);
    assert_memory_equal(page, want, sizeof(page));
}

/* Memory with a hole for devices: pages 0..3 and 0x100000.. (4 GiB), packed in the .vmem. */
static const struct range with_hole[] = {{0, 4}, {0x100000, 2}};

static void check_hole(struct kda_image *image)
{
    uint8_t page[4096];
    assert_int_equal(kda_image_info(image)->page_count, 6);
    assert_int_equal(kda_image_info(image)->warning_count, 0);
    assert_int_equal(kda_image_info(image)->dtb[0], TEST_DTB);
    check_page(image, 3);
    check_page(image, 0x100001);
    assert_int_equal(kda_image_read_page(image, 4, page, NULL), KDA_ABSENT);
    kda_image_close(image);
}

static void test_vmware_pairs(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {
        {"a.vmem", "a.vmss"},
        {"b.vmem", "b.vmsn"},
        {"c.VMEM", "c.VMSS"},
        {"win-Snapshot1.vmem", "win-Snapshot1.vmsn"},
    };
    struct blob memory = {0}, map = {0};
    blob_put_pages(&memory, with_hole, 2);
    write_vmss(&map, 2, with_hole, 2, 0);
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        put_file(pairs[i][0], &memory);
        put_file(pairs[i][1], &map);
        struct kda_image *image = must_open(pairs[i][0]);
        assert_string_equal(kda_image_info(image)->format, "vmware-vmem");
        check_hole(image);
        image = must_open(pairs[i][1]);
        assert_string_equal(kda_image_info(image)->format, "vmware-state");
        check_hole(image);
        drop(pairs[i][0]);
        drop(pairs[i][1]);
    }
    blob_free(&memory);
    blob_free(&map);
}

static void test_vmware_alone(void **state)
{
    (void)state;
    struct blob memory = {0}, map = {0};
    struct kda_image *image = NULL;
    struct kda_error err = {0};
    struct range flat = {0, 5};
    blob_put_pages(&memory, &flat, 1);
    put_file("alone.vmem", &memory);
    image = must_open("alone.vmem");
    assert_string_equal(kda_image_info(image)->format, "raw");
    assert_true(has_warning(image, "without its .vmss or .vmsn"));
    check_page(image, 4);
    kda_image_close(image);

    /* Flat by its own state file: nothing to warn of. */
    write_vmss(&map, 2, NULL, 0, 0);
    put_file("alone.vmss", &map);
    image = must_open("alone.vmem");
    assert_int_equal(kda_image_info(image)->warning_count, 0);
    assert_int_equal(kda_image_info(image)->page_count, 5);
    kda_image_close(image);

    drop("alone.vmem");
    assert_int_equal(kda_image_open(in_folder("alone.vmss"), &image, &err), KDA_IO);
    assert_non_null(strstr(err.text, ".vmem file that belongs to it"));

    /* A damaged map is not ignored. */
    put_file("alone.vmem", &memory);
    blob_set32(&map, 8, 100);
    put_file("alone.vmss", &map);
    assert_int_equal(kda_image_open(in_folder("alone.vmem"), &image, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "move it away"));
    drop("alone.vmem");
    drop("alone.vmss");
    blob_free(&memory);
    blob_free(&map);
}

static void test_vmware_hostile(void **state)
{
    (void)state;
    struct blob map = {0};
    struct kda_image *image;
    struct kda_error err;
    write_vmss(&map, 2, with_hole, 2, 1);
    blob_set32(&map, 8, 0xFFFFFFFF);
    assert_int_equal(kda_image_open_memory(map.data, map.size, "x", &image, &err), KDA_LIMIT);
    blob_set32(&map, 8, 1); /* only the group "cpu" is left */
    assert_int_equal(kda_image_open_memory(map.data, map.size, "x", &image, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "no group \"memory\""));
    blob_set32(&map, 8, 2);
    blob_set64(&map, 12 + 80 + 64, UINT64_MAX);
    assert_int_equal(kda_image_open_memory(map.data, map.size, "x", &image, &err), KDA_BAD_DATA);
    blob_free(&map);
    /* More regions promised than described. */
    write_vmss(&map, 2, with_hole, 2, 1);
    for (size_t i = 0; i + 16 < map.size; i++)
        if (memcmp(map.data + i, "regionsCount", 12) == 0) {
            blob_set32(&map, i + 12, 3);
            break;
        }
    assert_int_equal(kda_image_open_memory(map.data, map.size, "x", &image, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "names 3 memory regions, but 2"));
    blob_free(&map);
    /* Compressed memory: the size on disk is not the size in memory. */
    write_vmss(&map, 2, with_hole, 2, 1);
    for (size_t i = 0; i + 40 < map.size; i++)
        if (memcmp(map.data + i, "Memory\0\0\0\0\0\0\0\0", 14) == 0) {
            blob_set64(&map, i + 6 + 8 + 8, 1 << 20);
            break;
        }
    assert_int_equal(kda_image_open_memory(map.data, map.size, "x", &image, &err), KDA_UNSUPPORTED);
    assert_non_null(strstr(err.text, "compressed"));
    blob_free(&map);
}

static void test_vmware_faults(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    struct blob memory = {0}, map = {0};
    blob_put_pages(&memory, with_hole, 2);
    write_vmss(&map, 2, with_hole, 2, 0);
    put_file("f.vmem", &memory);
    put_file("f.vmss", &map);
    static const char *const names[] = {"f.vmem", "f.vmss"};
    for (size_t i = 0; i < 2; i++) {
        bool fired = true;
        for (uint64_t n = 1; fired; n++) {
            struct kda_image *image = NULL;
            uint8_t page[4096];
            kda_fault_arm(n);
            enum kda_status status = kda_image_open(in_folder(names[i]), &image, NULL);
            if (status == KDA_OK)
                status = kda_image_read_page(image, 0x100001, page, NULL);
            fired = kda_fault_fired();
            kda_fault_arm(0);
            /* A companion that cannot be opened counts as missing: the image is raw then. */
            assert_true(status == KDA_OK || status == KDA_IO || status == KDA_NO_MEMORY ||
                        (status == KDA_ABSENT && has_warning(image, "without its .vmss")));
            assert_true(fired || status == KDA_OK);
            kda_image_close(image);
        }
        drop(names[1 - i]);
        put_file(names[1 - i], i == 0 ? &map : &memory);
    }
    drop("f.vmem");
    drop("f.vmss");
    blob_free(&memory);
    blob_free(&map);
#else
    skip();
#endif
}

static void test_big_raw(void **state)
{
    (void)state;
    const char *name = "big.raw";
    uint8_t page[4096];
    page_pattern(0x140000, page);
    drop(name);
    put_at(name, 0x140000ull * 4096, page, sizeof(page)); /* 5 GiB, nearly all holes */
    struct kda_image *image = must_open(name);
    assert_true(has_warning(image, "more than 3 GiB"));
    assert_int_equal(kda_image_info(image)->page_count, 0x140001);
    check_page(image, 0x140000);
    /* A hole of the file is a page of zeros: the file says so. */
    assert_int_equal(kda_image_read_page(image, 0xFFFFF, page, NULL), KDA_OK);
    assert_int_equal(page[0], 0);
    kda_image_close(image);
    drop(name);

    drop("big.vmem");
    put_at("big.vmem", (3ull << 30) + 4096 * 5, page, sizeof(page));
    image = must_open("big.vmem");
    assert_true(has_warning(image, "addresses above 3 GiB are wrong"));
    kda_image_close(image);
    drop("big.vmem");
}

/* A 16 GiB machine, three of four pages present: open must not depend on the size of the file. */
static void test_big_bitmap(void **state)
{
    (void)state;
    const char *name = "big.dmp";
    const uint64_t bits = (uint64_t)4 << 20;
    struct blob blob = {0};
    const struct range last = {bits - 1, 1};
    write_dmp_bitmap(&blob, 5, "SDMP", &last, 1);
    memset(blob.data + 0x2038, 0xEE, bits / 8);
    blob_set64(&blob, 0x2028, bits / 4 * 3);
    uint64_t first = 0x2038 + bits / 8;
    uint8_t page[4096];
    blob.size = (size_t)first;
    put_file(name, &blob);
    page_pattern(bits - 1, page);
    put_at(name, first + (bits / 4 * 3 - 1) * 4096, page, sizeof(page));
    page_pattern(9, page);
    put_at(name, first + 6 * 4096, page, sizeof(page)); /* bits 1 2 3 5 6 7 come before */

    struct timespec begin, end;
    (void)timespec_get(&begin, TIME_UTC);
    struct kda_image *image = must_open(name);
    (void)timespec_get(&end, TIME_UTC);
    double ms =
        (double)(end.tv_sec - begin.tv_sec) * 1e3 + (double)(end.tv_nsec - begin.tv_nsec) / 1e6;
    print_message("open of a 12 GiB bitmap dump: %.2f ms\n", ms);
    assert_true(ms < 500);
    assert_int_equal(kda_image_info(image)->page_count, bits / 4 * 3);
    assert_int_equal(kda_image_info(image)->warning_count, 0);
    check_page(image, bits - 1);
    check_page(image, 9);
    assert_int_equal(kda_image_read_page(image, 8, page, NULL), KDA_ABSENT);
    /* Reading all this took the header, the bitmap and two pages. */
    assert_true(kda_image_stats(image)->bytes < bits / 8 + 64 * 1024);
    uint64_t start, size;
    assert_true(kda_image_next_run(image, (bits - 2) * 4096, &start, &size));
    assert_int_equal(start, (bits - 2) * 4096);
    assert_int_equal(size, 2 * 4096);
    kda_image_close(image);
    drop(name);
    blob_free(&blob);
}

/* A long run is told in parts that join up. */
static void test_long_run(void **state)
{
    (void)state;
    const char *name = "long.dmp";
    const uint64_t bits = (uint64_t)1 << 18;
    struct blob blob = {0};
    const struct range last = {bits - 1, 1};
    write_dmp_bitmap(&blob, 5, "SDMP", &last, 1);
    memset(blob.data + 0x2038, 0xFF, bits / 8);
    blob_set64(&blob, 0x2028, bits);
    uint64_t first = 0x2038 + bits / 8;
    blob.size = (size_t)first;
    put_file(name, &blob);
    uint8_t page[4096];
    page_pattern(bits - 1, page);
    put_at(name, first + (bits - 1) * 4096, page, sizeof(page));
    struct kda_image *image = must_open(name);
    uint64_t start, size, pa = 0;
    for (; kda_image_next_run(image, pa, &start, &size); pa = start + size)
        assert_int_equal(start, pa);
    assert_int_equal(pa, bits * 4096);
    /* A read across the seam of two parts. */
    size_t n = 8 << 20;
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    assert_int_equal(kda_image_read(image, (uint64_t)65536 * 4096 - n / 2, bytes, n, NULL), KDA_OK);
    free(bytes);
    check_page(image, bits - 1);
    kda_image_close(image);
    drop(name);
    blob_free(&blob);
}

int main(void)
{
    (void)snprintf(folder, sizeof(folder), "%s/test_image_files.%ld", KDA_BUILD_DIR,
                   (long)getpid());
    if (mkdir(folder, 0700) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vmware_pairs),   cmocka_unit_test(test_vmware_alone),
        cmocka_unit_test(test_vmware_hostile), cmocka_unit_test(test_vmware_faults),
        cmocka_unit_test(test_big_raw),        cmocka_unit_test(test_big_bitmap),
        cmocka_unit_test(test_long_run),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    return failed;
}
