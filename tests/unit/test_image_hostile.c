/*
 * Files that lie: each case is one lie and the answer it must get.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bytes.h"
#include "image_writer.h"
#include "kda/image.h"
#include "image/runs.h"

static struct kda_error last;

static enum kda_status try_open(const struct blob *blob, struct kda_image **image)
{
    memset(&last, 0, sizeof(last));
    *image = NULL;
    return kda_image_open_memory(blob->data, blob->size, "hostile", image, &last);
}

static void expect(struct blob *blob, enum kda_status want, const char *words)
{
    struct kda_image *image;
    enum kda_status got = try_open(blob, &image);
    if (got != want || !strstr(last.text, words))
        fail_msg("wanted %s \"%s\", got %s \"%s\"", kda_status_name(want), words,
                 kda_status_name(got), last.text);
    blob_free(blob);
}

static bool has_warning(const struct kda_image *image, const char *words)
{
    const struct kda_image_info *info = kda_image_info(image);
    for (size_t i = 0; i < info->warning_count; i++)
        if (strstr(info->warnings[i], words))
            return true;
    return false;
}

static struct kda_image *must_open(const struct blob *blob)
{
    struct kda_image *image;
    if (try_open(blob, &image) != KDA_OK)
        fail_msg("%s", last.text);
    return image;
}

static uint64_t page_word(struct kda_image *image, uint64_t pfn)
{
    uint8_t page[4096];
    assert_int_equal(kda_image_read_page(image, pfn, page, NULL), KDA_OK);
    return kda_le64(page);
}

static uint64_t pattern_word(uint64_t pfn)
{
    uint8_t page[4096];
    page_pattern(pfn, page);
    return kda_le64(page);
}

static void test_small_files(void **state)
{
    (void)state;
    struct blob blob = {0};
    expect(&blob, KDA_BAD_DATA, "the file is empty");
    blob_put(&blob, "hello", 5);
    expect(&blob, KDA_BAD_DATA, "smaller than one page");
    struct kda_image *image;
    struct kda_error err;
    assert_int_equal(kda_image_open("/nonexistent/file", &image, &err), KDA_IO);
    assert_int_equal(kda_image_open("/", &image, &err), KDA_IO);
    assert_non_null(strstr(err.text, "directory"));
}

static void test_raw_tail(void **state)
{
    (void)state;
    struct blob blob = {0};
    struct range two = {0, 2};
    write_raw(&blob, &two, 1);
    blob_put(&blob, NULL, 100);
    struct kda_image *image = must_open(&blob);
    uint8_t page[4096];
    assert_true(has_warning(image, "last 100 bytes"));
    assert_int_equal(kda_image_info(image)->page_count, 2);
    assert_int_equal(kda_image_read_page(image, 2, page, NULL), KDA_ABSENT);
    assert_int_equal(kda_image_read(image, 4096, page, 4096, NULL), KDA_OK);
    assert_int_equal(kda_image_read(image, 8192, page, 10, NULL), KDA_ABSENT);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_dump_types(void **state)
{
    (void)state;
    const struct range *r = sample_ranges;
    struct blob blob = {0};
    write_dmp_full(&blob, r, 2);
    blob_set32(&blob, 0xF98, 3);
    expect(&blob, KDA_UNSUPPORTED, "header-only");
    write_dmp_full(&blob, r, 2);
    blob_set32(&blob, 0xF98, 77);
    expect(&blob, KDA_UNSUPPORTED, "unknown DumpType 0x4d");
    write_dmp_full(&blob, r, 2);
    blob_set32(&blob, 0xF98, 5);
    expect(&blob, KDA_BAD_DATA, "without its page bitmap");
    write_dmp_full(&blob, r, 2);
    blob_set32(&blob, 0xF98, 8);
    expect(&blob, KDA_BAD_DATA, "without its page ranges");
    write_dmp_header(&blob, 5);
    blob.size = 100;
    expect(&blob, KDA_BAD_DATA, "header is cut: 100 of 8192");
    write_dmp_header(&blob, 1);
    blob.size = 0x1500;
    expect(&blob, KDA_BAD_DATA, "header is cut: 5376 of 8192");
    write_dmp_header(&blob, 4);
    expect(&blob, KDA_BAD_DATA, "before its directory");
}

static void test_full_runs(void **state)
{
    (void)state;
    struct blob blob = {0};
    write_dmp_full(&blob, sample_ranges, 2);
    blob_set32(&blob, 0x88, 0x45474150);
    expect(&blob, KDA_BAD_DATA, "0 memory runs");
    write_dmp_full(&blob, sample_ranges, 2);
    blob_set32(&blob, 0x88, 0xFFFFFFFF);
    expect(&blob, KDA_BAD_DATA, "4294967295 memory runs");
    write_dmp_full(&blob, sample_ranges, 2);
    blob_set64(&blob, 0x98, UINT64_MAX / 4096);
    expect(&blob, KDA_BAD_DATA, "52-bit");
    write_dmp_full(&blob, sample_ranges, 2);
    blob_set64(&blob, 0xA0, UINT64_MAX);
    expect(&blob, KDA_BAD_DATA, "52-bit");
    write_dmp_full(&blob, sample_ranges, 2);
    blob_set64(&blob, 0xA0, 0);
    blob_set64(&blob, 0xB0, 0);
    expect(&blob, KDA_BAD_DATA, "not one whole page");

    /* A run that promises more than the file has. */
    write_dmp_full(&blob, sample_ranges, 2);
    blob_set64(&blob, 0xB0, 1000);
    struct kda_image *image = must_open(&blob);
    assert_true(has_warning(image, "998 pages"));
    assert_true(has_warning(image, "counts 5 pages"));
    assert_int_equal(kda_image_info(image)->page_count, 5);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_overlap(void **state)
{
    (void)state;
    struct blob blob = {0};
    /* Pages 4..7 first, then 2..9 over them: the second run keeps only what is left. */
    const struct range ranges[] = {{4, 4}, {2, 8}};
    write_dmp_full(&blob, ranges, 2);
    for (size_t i = 0; i < 8; i++)
        blob_set64(&blob, 0x2000 + (4 + i) * 4096, 0xB000 + i);
    struct kda_image *image = must_open(&blob);
    assert_true(has_warning(image, "overlap (0x4000 bytes"));
    assert_int_equal(kda_image_info(image)->page_count, 8);
    assert_int_equal(page_word(image, 2), 0xB000);
    assert_int_equal(page_word(image, 3), 0xB001);
    for (uint64_t pfn = 4; pfn < 8; pfn++)
        assert_int_equal(page_word(image, pfn), pattern_word(pfn));
    assert_int_equal(page_word(image, 8), 0xB006);
    assert_int_equal(page_word(image, 9), 0xB007);
    kda_image_close(image);
    blob_free(&blob);
}

/* Random runs against an obvious model: an array of bytes painted in reverse order. */
static void test_runs_model(void **state)
{
    (void)state;
    srand(1);
    for (int round = 0; round < 300; round++) {
        struct kda_runs runs = {0};
        uint32_t model[256];
        memset(model, 0xFF, sizeof(model));
        uint64_t start[12], size[12];
        int n = 1 + rand() % 12;
        for (int i = 0; i < n; i++) {
            start[i] = (uint64_t)(rand() % 200);
            size[i] = (uint64_t)(rand() % 40);
            assert_int_equal(kda_runs_add(&runs, start[i], size[i], (uint64_t)i * 1000 + 7, NULL),
                             KDA_OK);
        }
        for (int i = n - 1; i >= 0; i--)
            for (uint64_t k = 0; k < size[i]; k++)
                model[start[i] + k] = (uint32_t)i * 1000 + 7 + (uint32_t)k;
        assert_int_equal(kda_runs_finish(&runs, 1 << 20, NULL), KDA_OK);
        uint32_t got[256];
        memset(got, 0xFF, sizeof(got));
        for (size_t i = 0; i < runs.count; i++) {
            assert_true(i == 0 ||
                        runs.items[i - 1].start + runs.items[i - 1].size <= runs.items[i].start);
            for (uint64_t k = 0; k < runs.items[i].size; k++)
                got[runs.items[i].start + k] = (uint32_t)(runs.items[i].off + k);
        }
        assert_memory_equal(got, model, sizeof(model));
        kda_runs_deinit(&runs);
    }
}

static void test_many_overlaps_are_quick(void **state)
{
    (void)state;
    struct kda_runs runs = {0};
    const uint64_t n = 200000;
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(kda_runs_add(&runs, (n - i) * 10, n * 20, i * 3, NULL), KDA_OK);
    assert_int_equal(kda_runs_finish(&runs, UINT64_MAX, NULL), KDA_OK);
    assert_true(runs.overlap > 0);
    kda_runs_deinit(&runs);
}

/* Pages put together from ranges that are not page multiples. */
static void test_unaligned_ranges(void **state)
{
    (void)state;
    struct blob blob = {0};
    const uint64_t bounds[][2] = {{0x1000, 0x17FF}, {0x1800, 0x2BFF}, {0x3000, 0x3FFE}};
    for (size_t i = 0; i < 3; i++) {
        blob_put32(&blob, 0x4C694D45);
        blob_put32(&blob, 1);
        blob_put64(&blob, bounds[i][0]);
        blob_put64(&blob, bounds[i][1]);
        blob_put64(&blob, 0);
        for (uint64_t at = bounds[i][0]; at <= bounds[i][1]; at++) {
            uint8_t byte = (uint8_t)(at >> 8);
            blob_put(&blob, &byte, 1);
        }
    }
    struct kda_image *image = must_open(&blob);
    uint8_t page[4096];
    uint64_t start, size;
    assert_int_equal(kda_image_info(image)->page_count, 1);
    assert_int_equal(kda_image_read_page(image, 1, page, NULL), KDA_OK);
    for (size_t i = 0; i < 4096; i++)
        assert_int_equal(page[i], (0x1000 + i) >> 8);
    assert_int_equal(kda_image_read_page(image, 2, page, NULL), KDA_ABSENT);
    assert_int_equal(kda_image_read_page(image, 3, page, NULL), KDA_ABSENT);
    assert_true(kda_image_next_run(image, 0, &start, &size));
    assert_int_equal(start, 0x1000);
    assert_int_equal(size, 0x1000);
    assert_false(kda_image_next_run(image, 0x2000, &start, &size));
    kda_image_close(image);
    blob_free(&blob);
}

static void test_bitmap_bounds(void **state)
{
    (void)state;
    const struct range *r = sample_ranges;
    struct blob blob = {0};
    write_dmp_bitmap(&blob, 5, "SDMP", r, 2);
    blob_set64(&blob, 0x2030, (uint64_t)1 << 31);
    expect(&blob, KDA_BAD_DATA, "page bitmap ends at");
    write_dmp_bitmap(&blob, 5, "SDMP", r, 2);
    blob_set64(&blob, 0x2030, UINT64_MAX);
    expect(&blob, KDA_LIMIT, "at most");
    write_dmp_bitmap(&blob, 5, "SDMP", r, 2);
    blob_set64(&blob, 0x2020, 0x2038);
    expect(&blob, KDA_BAD_DATA, "inside the page bitmap");
    write_dmp_bitmap(&blob, 5, "SDMP", r, 2);
    blob_set64(&blob, 0x2020, UINT64_MAX - 8);
    expect(&blob, KDA_BAD_DATA, "before its first page");
    write_dmp_bitmap(&blob, 5, "SDMP", r, 2);
    memset(blob.data + 0x2038, 0, 3);
    expect(&blob, KDA_BAD_DATA, "no page is in this dump");
    write_dmp_bitmap(&blob, 5, "SDMP", r, 2);
    blob_set64(&blob, 0x2030, 0);
    expect(&blob, KDA_BAD_DATA, "no page is in this dump");

    /* Bits behind the stated end are no pages; the count is checked against the bitmap. */
    write_dmp_bitmap(&blob, 5, "SDMP", r, 2);
    blob.data[0x203A] |= 0xFC;
    blob_set64(&blob, 0x2028, 6);
    struct kda_image *image = must_open(&blob);
    uint8_t page[4096];
    assert_int_equal(kda_image_info(image)->page_count, 5);
    assert_true(has_warning(image, "counts 6 pages, the page bitmap 5"));
    assert_int_equal(kda_image_read_page(image, 18, page, NULL), KDA_ABSENT);
    assert_int_equal(kda_image_info(image)->max_pa, 18 * 4096);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_cut_bitmap_dump(void **state)
{
    (void)state;
    struct blob blob = {0};
    const struct range wide[] = {{1, 700}, {2000, 600}, {5000, 3}};
    write_dmp_bitmap(&blob, 5, "SDMP", wide, 3);
    uint8_t page[4096];
    /* 1,000 pages and a half are left. */
    blob.size = 0x2038 + 5003 / 8 + 1 + 1000 * 4096 + 2048;
    struct kda_image *image = must_open(&blob);
    assert_int_equal(kda_image_info(image)->page_count, 1000);
    assert_true(has_warning(image, "303 of its 1303 pages are missing"));
    assert_int_equal(page_word(image, 700), pattern_word(700));
    assert_int_equal(page_word(image, 2299), pattern_word(2299));
    assert_int_equal(kda_image_read_page(image, 2300, page, NULL), KDA_ABSENT);
    assert_int_equal(kda_image_read_page(image, 5000, page, NULL), KDA_ABSENT);
    assert_int_equal(kda_image_info(image)->max_pa, 2300 * 4096);
    uint64_t start, size, pages = 0;
    for (uint64_t pa = 0; kda_image_next_run(image, pa, &start, &size); pa = start + size)
        pages += size / 4096;
    assert_int_equal(pages, 1000);
    kda_image_close(image);
    blob_free(&blob);
}

/* Live dump, too short, root page 0x1AD stored: whether it is a page table decides. */
static void test_compressed_live_dump(void **state)
{
    (void)state;
    struct blob blob = {0};
    const struct range ranges[] = {{0x1AD, 1}, {0x200, 40}};
    write_dmp_bitmap(&blob, 6, "SDMP", ranges, 2);
    blob.size -= 20 * 4096;
    expect(&blob, KDA_UNSUPPORTED, "compressed pages");
    write_dmp_bitmap(&blob, 6, "SDMP", ranges, 2);
    blob.size -= 20 * 4096;
    memset(blob.data + 0x2038 + 0x228 / 8, 0, 4096);
    blob_set64(&blob, 0x2038 + 0x228 / 8 + 0x1ED * 8, 0x80000000001AD063u);
    struct kda_image *image = must_open(&blob);
    assert_true(has_warning(image, "20 of its 41 pages are missing"));
    kda_image_close(image);
    blob_free(&blob);
    /* Complete: nobody looks at the root page. */
    write_dmp_bitmap(&blob, 6, "SDMP", ranges, 2);
    image = must_open(&blob);
    assert_int_equal(kda_image_info(image)->warning_count, 0);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_rdmp(void **state)
{
    (void)state;
    struct blob blob = {0};
    /* A real range at page 0 does not end the list of type 8. */
    const struct range zero[] = {{0, 2}, {16, 2}};
    write_dmp_rdmp(&blob, 8, zero, 2, 32);
    struct kda_image *image = must_open(&blob);
    assert_int_equal(kda_image_info(image)->page_count, 4);
    assert_int_equal(page_word(image, 0), pattern_word(0));
    assert_int_equal(page_word(image, 17), pattern_word(17));
    kda_image_close(image);
    blob_free(&blob);
    /* Type 10: metadata behind the page total is not a range. */
    write_dmp_rdmp(&blob, 0xA, sample_ranges, 2, 32);
    blob_set64(&blob, 0x2050, 0x999);
    blob_set64(&blob, 0x2058, 0x999);
    image = must_open(&blob);
    assert_int_equal(kda_image_info(image)->page_count, 5);
    assert_int_equal(kda_image_info(image)->warning_count, 0);
    kda_image_close(image);
    blob_free(&blob);

    write_dmp_rdmp(&blob, 8, sample_ranges, 2, 0);
    blob_set64(&blob, 0x2018, UINT64_MAX);
    expect(&blob, KDA_BAD_DATA, "first page at");
    write_dmp_rdmp(&blob, 8, sample_ranges, 2, 0);
    blob_set64(&blob, 0x2018, 0x2000);
    expect(&blob, KDA_BAD_DATA, "first page at");
    write_dmp_rdmp(&blob, 8, sample_ranges, 2, 0);
    blob_set64(&blob, 0x2038, UINT64_MAX);
    expect(&blob, KDA_BAD_DATA, "52-bit");
    write_dmp_rdmp(&blob, 0xA, sample_ranges, 2, 0);
    blob_set64(&blob, 0x2028, 9);
    image = must_open(&blob);
    assert_true(has_warning(image, "4 pages before the stated total"));
    kda_image_close(image);
    blob_free(&blob);
    write_dmp_rdmp(&blob, 9, sample_ranges, 2, 0);
    blob_set64(&blob, 0x2010, 0x20);
    image = must_open(&blob);
    assert_true(has_warning(image, "does not lead to the first page"));
    assert_int_equal(kda_image_info(image)->page_count, 3);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_elf(void **state)
{
    (void)state;
    struct blob blob = {0};
    write_elf(&blob, ELF_QEMU, sample_ranges, 2);
    blob.data[4] = 1;
    expect(&blob, KDA_UNSUPPORTED, "32-bit");
    write_elf(&blob, ELF_QEMU, sample_ranges, 2);
    blob.data[16] = 2;
    expect(&blob, KDA_UNSUPPORTED, "ELF program");
    write_elf(&blob, ELF_QEMU, sample_ranges, 2);
    blob.data[54] = 32;
    expect(&blob, KDA_BAD_DATA, "program headers of 32 bytes");
    write_elf(&blob, ELF_XNUM, sample_ranges, 2);
    blob_set32(&blob, 64 + 44, 0xFFFFFFFF);
    expect(&blob, KDA_BAD_DATA, "4294967295 ELF program headers");
    write_elf(&blob, ELF_XNUM, sample_ranges, 2);
    blob_set64(&blob, 40, UINT64_MAX - 4);
    expect(&blob, KDA_BAD_DATA, "section 0");
    write_elf(&blob, ELF_XNUM, sample_ranges, 2);
    blob_set64(&blob, 40, UINT64_MAX - 400);
    expect(&blob, KDA_BAD_DATA, "ends at");
    write_elf(&blob, ELF_XNUM, sample_ranges, 2);
    blob_set64(&blob, 40, 0);
    expect(&blob, KDA_BAD_DATA, "section 0");
    /* Physical addresses left out: the core of a process. */
    write_elf(&blob, ELF_QEMU, sample_ranges, 2);
    for (size_t i = 1; i <= 2; i++)
        blob_set64(&blob, 64 + 56 * i + 24, 0);
    expect(&blob, KDA_UNSUPPORTED, "core of a process");
    write_elf(&blob, ELF_QEMU, sample_ranges, 2);
    blob_set64(&blob, 64 + 56 + 32, UINT64_MAX);
    expect(&blob, KDA_BAD_DATA, "52-bit");
    write_elf(&blob, ELF_QEMU, sample_ranges, 2);
    blob_set64(&blob, 64 + 56 + 8, UINT64_MAX);
    expect(&blob, KDA_BAD_DATA, "past the last address");
    /* Damaged notes cost the registers, not the memory. */
    write_elf(&blob, ELF_QEMU, sample_ranges, 2);
    blob_set64(&blob, 64 + 32, UINT64_MAX);
    struct kda_image *image = must_open(&blob);
    assert_true(has_warning(image, "notes"));
    assert_int_equal(kda_image_info(image)->page_count, 5);
    assert_int_equal(kda_image_info(image)->dtb_count, 0);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_lime(void **state)
{
    (void)state;
    struct blob blob = {0};
    write_lime(&blob, sample_ranges, 2);
    blob_set32(&blob, 4, 2);
    expect(&blob, KDA_UNSUPPORTED, "version 2");
    write_lime(&blob, sample_ranges, 2);
    blob_set64(&blob, 16, 0xFFF);
    expect(&blob, KDA_BAD_DATA, "damaged");
    write_lime(&blob, sample_ranges, 2);
    blob_set64(&blob, 16, UINT64_MAX);
    expect(&blob, KDA_BAD_DATA, "damaged");
    /* Something else behind the first range. */
    write_lime(&blob, sample_ranges, 2);
    blob_set32(&blob, 32 + 3 * 4096, 0);
    struct kda_image *image = must_open(&blob);
    assert_true(has_warning(image, "0x3020 is damaged"));
    assert_int_equal(kda_image_info(image)->page_count, 3);
    kda_image_close(image);
    /* An empty header ends the file without a word. */
    memset(blob.data + 32 + 3 * 4096, 0, 32);
    image = must_open(&blob);
    assert_int_equal(kda_image_info(image)->warning_count, 0);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_triage(void **state)
{
    (void)state;
    struct blob blob = {0};
    struct kda_image *image;
    write_dmp_triage(&blob);
    uint32_t blocks = kda_le32(blob.data + 0x2078), process = kda_le32(blob.data + 0x2020);
    blob_set32(&blob, 0x2034, 0xFFFFFFFF);
    blob_set32(&blob, 0x207C, 0xFFFFFFFF);
    image = must_open(&blob);
    assert_true(has_warning(image, "4294967295 drivers"));
    assert_true(has_warning(image, "4294967295 data blocks"));
    kda_image_close(image);
    blob_free(&blob);

    write_dmp_triage(&blob);
    blob_set32(&blob, blocks + 8, 0xFFFFFF00);  /* outside of the file */
    blob_set64(&blob, blocks + 16, UINT64_MAX); /* past the last address */
    blob_set32(&blob, 0x2008, 0);               /* no end mark */
    image = must_open(&blob);
    assert_true(has_warning(image, "2 data blocks lie outside"));
    assert_true(has_warning(image, "end mark is missing"));
    assert_int_equal(kda_image_info(image)->block_count, 1);
    kda_image_close(image);
    blob_free(&blob);

    /* What does not verify is not named. */
    write_dmp_triage(&blob);
    blob_set64(&blob, process + 0x1D0, 3);
    image = must_open(&blob);
    assert_null(kda_image_info(image)->process_name);
    assert_false(kda_image_info(image)->has_process_pid);
    assert_true(has_warning(image, "unknown form"));
    kda_image_close(image);
    blob_set64(&blob, process + 0x1D0, 4);
    blob.data[process + 0x338] = 0x1B;
    image = must_open(&blob);
    assert_null(kda_image_info(image)->process_name);
    kda_image_close(image);
    /* One witness of the address alone is not believed. */
    memcpy(blob.data + process + 0x338, "S", 1);
    blob_set64(&blob, process + 0x18, 0xFFFFBF8200000018u);
    blob_set64(&blob, process + 0x20, 0xFFFFBF8200000018u);
    blob_set64(&blob, kda_le32(blob.data + 0x2024) + 0xB8, 0);
    image = must_open(&blob);
    assert_string_equal(kda_image_info(image)->process_name, "System");
    assert_int_equal(kda_image_info(image)->process_va, 0);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_warnings_are_capped(void **state)
{
    (void)state;
    struct blob blob = {0};
    write_elf(&blob, ELF_XNUM, sample_ranges, 2);
    struct blob many = {0};
    blob_put(&many, blob.data, 128);
    blob_set64(&many, 32, 128);
    blob_set32(&many, 64 + 44, 102);
    for (size_t i = 0; i < 100; i++) { /* notes that lie behind the end */
        blob_put32(&many, 4);
        blob_put(&many, NULL, 4);
        blob_put64(&many, UINT64_MAX);
        blob_put(&many, NULL, 40);
    }
    blob_put(&many, blob.data + 128 + 56, 112);
    blob_put(&many, NULL, 32 * 4096);
    struct kda_image *image = must_open(&many);
    assert_int_equal(kda_image_info(image)->warning_count, KDA_IMAGE_MAX_WARNINGS);
    assert_string_equal(kda_image_info(image)->warnings[KDA_IMAGE_MAX_WARNINGS - 1],
                        "further warnings were left out");
    kda_image_close(image);
    blob_free(&many);
    blob_free(&blob);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_files),
        cmocka_unit_test(test_raw_tail),
        cmocka_unit_test(test_dump_types),
        cmocka_unit_test(test_full_runs),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_runs_model),
        cmocka_unit_test(test_many_overlaps_are_quick),
        cmocka_unit_test(test_unaligned_ranges),
        cmocka_unit_test(test_bitmap_bounds),
        cmocka_unit_test(test_cut_bitmap_dump),
        cmocka_unit_test(test_compressed_live_dump),
        cmocka_unit_test(test_rdmp),
        cmocka_unit_test(test_elf),
        cmocka_unit_test(test_lime),
        cmocka_unit_test(test_triage),
        cmocka_unit_test(test_warnings_are_capped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
