/*
 * Every format, from generated files: pages come back byte for byte, a cut or damaged file never
 * crashes or lies, and every failing call leaves things clean.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "alloc.h"
#include "image_writer.h"
#include "kda/image.h"

static bool is_sample(const char *name, const char *other)
{
    return strcmp(name, other) == 0;
}

static bool in_ranges(const struct range *ranges, size_t n, uint64_t pfn)
{
    for (size_t i = 0; i < n; i++)
        if (pfn >= ranges[i].pfn && pfn - ranges[i].pfn < ranges[i].count)
            return true;
    return false;
}

static void check_pages(struct kda_image *image, const struct range *ranges, size_t n)
{
    uint8_t page[4096], want[4096];
    for (uint64_t pfn = 0; pfn < 80; pfn++) {
        enum kda_status status = kda_image_read_page(image, pfn, page, NULL);
        if (!in_ranges(ranges, n, pfn)) {
            assert_int_equal(status, KDA_ABSENT);
            continue;
        }
        assert_int_equal(status, KDA_OK);
        page_pattern(pfn, want);
        assert_memory_equal(page, want, sizeof(page));
    }
}

static void check_runs(struct kda_image *image, const struct range *ranges, size_t n)
{
    uint64_t start, size, pa = 0;
    for (size_t i = 0; i < n; i++) {
        assert_true(kda_image_next_run(image, pa, &start, &size));
        assert_int_equal(start, ranges[i].pfn * 4096);
        assert_int_equal(size, ranges[i].count * 4096);
        pa = start + size;
    }
    assert_false(kda_image_next_run(image, pa, &start, &size));
    assert_int_equal(kda_image_info(image)->max_pa, pa);
}

static void check_byte_reads(struct kda_image *image)
{
    uint8_t got[5000], want[8192];
    page_pattern(16, want);
    page_pattern(17, want + 4096);
    assert_int_equal(kda_image_read(image, 16 * 4096 + 77, got, sizeof(got), NULL), KDA_OK);
    assert_memory_equal(got, want + 77, sizeof(got));
    /* Across the end of what is there: nothing is given. */
    memset(got, 0xEE, sizeof(got));
    assert_int_equal(kda_image_read(image, 17 * 4096 + 1, got, 4096, NULL), KDA_ABSENT);
    assert_int_equal(got[0], 0xEE);
    assert_int_equal(kda_image_read(image, UINT64_MAX - 10, got, 100, NULL), KDA_ABSENT);
    assert_int_equal(kda_image_read(image, 0, got, 0, NULL), KDA_OK);
}

static void test_pages(void **state)
{
    (void)state;
    for (size_t i = 0; i < sample_count; i++) {
        struct blob blob = {0};
        struct kda_image *image;
        struct kda_error err = {0};
        const struct range all = {0, 18};
        bool raw = is_sample(samples[i].name, "raw");
        const struct range *ranges = raw ? &all : sample_ranges;
        size_t n = raw ? 1 : 2;
        if (is_sample(samples[i].name, "dmp-triage"))
            continue;
        samples[i].build(&blob, sample_ranges, 2);
        if (kda_image_open_memory(blob.data, blob.size, samples[i].name, &image, &err) != KDA_OK)
            fail_msg("%s: %s", samples[i].name, err.text);
        const struct kda_image_info *info = kda_image_info(image);
        assert_string_equal(info->format, samples[i].format);
        assert_int_equal(info->file_size, blob.size);
        assert_int_equal(info->page_count, raw ? 18 : 5);
        assert_int_equal(info->warning_count, raw ? 1 : 0);
        check_pages(image, ranges, n);
        check_runs(image, ranges, n);
        check_byte_reads(image);
        assert_int_equal(kda_image_stats(image)->pages_read, info->page_count);
        assert_true(kda_image_stats(image)->bytes >= info->page_count * 4096);
        kda_image_close(image);
        blob_free(&blob);
    }
}

static struct kda_image *open_sample(const char *name, struct blob *blob)
{
    struct kda_image *image = NULL;
    struct kda_error err = {0};
    for (size_t i = 0; i < sample_count; i++) {
        if (!is_sample(samples[i].name, name))
            continue;
        samples[i].build(blob, sample_ranges, 2);
        if (kda_image_open_memory(blob->data, blob->size, name, &image, &err) != KDA_OK)
            fail_msg("%s: %s", name, err.text);
    }
    assert_non_null(image);
    return image;
}

static void test_header_facts(void **state)
{
    (void)state;
    struct blob blob = {0};
    struct kda_image *image = open_sample("dmp-bitmap", &blob);
    const struct kda_image_info *info = kda_image_info(image);
    assert_int_equal(info->dtb_count, 1);
    assert_int_equal(info->dtb[0], TEST_DTB); /* without the PCID bits */
    assert_int_equal(info->major, 15);
    assert_int_equal(info->build, 19041);
    assert_int_equal(info->machine, 0x8664);
    assert_int_equal(info->cpus, 4);
    assert_true(info->has_bugcheck);
    assert_int_equal(info->bugcheck, 0xD1);
    assert_int_equal(info->bugcheck_args[3], 0x4444);
    assert_true(info->has_roots);
    assert_int_equal(info->ps_active_process_head, 0xFFFFF80000002000u);
    assert_int_equal(info->kd_debugger_data_block, 0xFFFFF80000003000u);
    assert_int_equal(info->system_time_100ns, TEST_TIME);
    assert_int_equal(info->dump_type, 5);
    kda_image_close(image);

    /* Fields that were never set stay unknown. */
    static const size_t fields[] = {0x08, 0x0C, 0x10, 0x14, 0x20,  0x24, 0x30,
                                    0x34, 0x38, 0x80, 0x84, 0xFA8, 0xFAC};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        memcpy(blob.data + fields[i], "PAGE", 4);
    assert_int_equal(kda_image_open_memory(blob.data, blob.size, "x", &image, NULL), KDA_OK);
    info = kda_image_info(image);
    assert_int_equal(info->dtb_count, 0);
    assert_int_equal(info->major, 0);
    assert_int_equal(info->build, 0);
    assert_int_equal(info->machine, 0);
    assert_int_equal(info->cpus, 0);
    assert_false(info->has_bugcheck);
    assert_false(info->has_roots);
    assert_int_equal(info->kd_debugger_data_block, 0);
    assert_int_equal(info->system_time_100ns, 0);
    kda_image_close(image);
    blob_free(&blob);
}

static void test_cpu_facts(void **state)
{
    (void)state;
    struct blob blob = {0};
    struct kda_image *image = open_sample("elf-qemu", &blob);
    const struct kda_image_info *info = kda_image_info(image);
    assert_int_equal(info->cpus, 2);
    assert_int_equal(info->dtb_count, 2);
    assert_int_equal(info->dtb[0], TEST_DTB); /* kernel mode first */
    assert_int_equal(info->dtb[1], 0x5000);
    assert_true(info->la57);
    assert_int_equal(info->machine, 0x8664);
    kda_image_close(image);
    blob_free(&blob);

    static const char *const one_cpu[] = {"elf-vbox", "vmsn-0", "vmsn-2"};
    for (size_t i = 0; i < 3; i++) {
        image = open_sample(one_cpu[i], &blob);
        info = kda_image_info(image);
        assert_int_equal(info->cpus, 1);
        assert_int_equal(info->dtb_count, 1);
        assert_int_equal(info->dtb[0], TEST_DTB);
        assert_false(info->la57);
        kda_image_close(image);
        blob_free(&blob);
    }
}

static void test_triage(void **state)
{
    (void)state;
    struct blob blob = {0};
    struct kda_image *image = open_sample("dmp-triage", &blob);
    const struct kda_image_info *info = kda_image_info(image);
    assert_int_equal(info->kind, KDA_IMAGE_TRIAGE);
    assert_int_equal(info->warning_count, 0);
    assert_int_equal(info->driver_count, 2);
    assert_string_equal(info->drivers[0].name, "ntoskrnl.exe");
    assert_int_equal(info->drivers[0].timestamp, 0x4473D78D);
    assert_int_equal(info->drivers[0].size, 0x1450000);
    assert_int_equal(info->drivers[0].checksum, 0x1234);
    assert_int_equal(info->drivers[1].base, 0xFFFFF80002000000u);
    assert_int_equal(info->block_count, 3);
    assert_int_equal(info->kernel_base, 0xFFFFF80000000000u);
    assert_int_equal(info->kdbg_size, 0x2C0);
    assert_string_equal(info->process_name, "System");
    assert_true(info->has_process_pid);
    assert_int_equal(info->process_pid, 4);
    assert_int_equal(info->process_va, 0xFFFFBF82E8692040u);

    uint8_t page[4096];
    char text[27] = {0};
    struct kda_error err;
    assert_int_equal(kda_image_read_page(image, 0, page, &err), KDA_UNSUPPORTED);
    assert_int_equal(kda_image_read(image, 0, page, 1, NULL), KDA_UNSUPPORTED);
    /* Across two pieces. */
    uint64_t va = 0xFFFFF80000400000u;
    assert_int_equal(kda_image_read_virtual(image, va, text, 26, NULL), KDA_OK);
    assert_string_equal(text, "abcdefghijklmnopqrstuvwxyz");
    assert_int_equal(kda_image_read_virtual(image, va + 20, text, 7, &err), KDA_ABSENT);
    assert_int_equal(kda_image_read_virtual(image, va + 100, text, 1, NULL), KDA_OK);
    assert_int_equal(text[0], 'a');
    assert_int_equal(kda_image_read_virtual(image, UINT64_MAX, text, 8, NULL), KDA_ABSENT);
    /* The stored EPROCESS can be read at its own address. */
    assert_int_equal(kda_image_read_virtual(image, info->process_va + 0x338, text, 7, NULL),
                     KDA_OK);
    assert_memory_equal(text, "System", 7);
    kda_image_close(image);
    blob_free(&blob);

    image = open_sample("dmp-full", &blob);
    assert_int_equal(kda_image_read_virtual(image, va, text, 1, NULL), KDA_USAGE);
    kda_image_close(image);
    blob_free(&blob);
}

/* Opens whatever the bytes are and uses all that can be used. Returns the first failure. */
static enum kda_status exercise(const uint8_t *bytes, size_t size)
{
    static uint8_t buffer[3 * 4096];
    struct kda_image *image = NULL;
    struct kda_error err = {0};
    enum kda_status status = kda_image_open_memory(bytes, size, "sample", &image, &err);
    if (status != KDA_OK) {
        assert_null(image);
        assert_int_equal(err.status, status);
        assert_true(err.text[0] != 0);
        assert_int_not_equal(status, KDA_NOT_MINE);
        return status;
    }
    const struct kda_image_info *info = kda_image_info(image);
    uint64_t start, length, pa = 0;
    for (unsigned i = 0; i < 50 && kda_image_next_run(image, pa, &start, &length); i++) {
        assert_true(start >= pa && length > 0 && length % 4096 == 0 && start % 4096 == 0);
        enum kda_status read = kda_image_read_page(image, start / 4096, buffer, &err);
        if (status == KDA_OK)
            status = read;
        if (length > sizeof(buffer))
            length = sizeof(buffer);
        read = kda_image_read(image, start, buffer, (size_t)length, &err);
        if (status == KDA_OK)
            status = read;
        pa = start + length;
    }
    for (size_t i = 0; i < info->block_count && i < 10; i++) {
        size_t n = info->blocks[i].size < sizeof(buffer) ? info->blocks[i].size : sizeof(buffer);
        enum kda_status read = kda_image_read_virtual(image, info->blocks[i].va, buffer, n, &err);
        if (status == KDA_OK)
            status = read;
    }
    kda_image_close(image);
    return status;
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    for (size_t i = 0; i < sample_count; i++) {
        struct blob blob = {0};
        samples[i].build(&blob, sample_ranges, 2);
        size_t bad = 0;
        for (size_t size = 0; size < blob.size; size++) {
            /* Past the headers every 97th length will do. */
            if (size > 0x2200 && size % 97)
                continue;
            enum kda_status status = exercise(blob.data, size);
            assert_true(status == KDA_OK || status == KDA_BAD_DATA || status == KDA_UNSUPPORTED ||
                        status == KDA_IO);
            bad += status != KDA_OK;
        }
        assert_true(bad > 0);
        blob_free(&blob);
    }
}

static void test_damaged_anywhere(void **state)
{
    (void)state;
    static const uint8_t values[] = {0x00, 0x01, 0x7F, 0x80, 0xFF};
    for (size_t i = 0; i < sample_count; i++) {
        struct blob blob = {0};
        samples[i].build(&blob, sample_ranges, 2);
        for (size_t at = 0; at < blob.size && at < 0x3000; at++) {
            uint8_t old = blob.data[at];
            for (size_t k = 0; k < sizeof(values); k++) {
                blob.data[at] = values[k];
                enum kda_status status = exercise(blob.data, blob.size);
                assert_true(status != KDA_NO_MEMORY && status != KDA_ABSENT);
            }
            blob.data[at] = old;
        }
        blob_free(&blob);
    }
}

static void test_faults(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    for (size_t i = 0; i < sample_count; i++) {
        struct blob blob = {0};
        samples[i].build(&blob, sample_ranges, 2);
        for (uint64_t n = 1;; n++) {
            kda_fault_arm(n);
            enum kda_status status = exercise(blob.data, blob.size);
            bool fired = kda_fault_fired();
            kda_fault_arm(0);
            if (!fired) {
                assert_int_equal(status, KDA_OK);
                assert_true(n > 5);
                break;
            }
            assert_true(status == KDA_IO || status == KDA_NO_MEMORY);
        }
        blob_free(&blob);
    }
#else
    skip();
#endif
}

/* The fuzzer's seeds are samples with one page each. KDA_WRITE_SEEDS=1 writes them. */
static void test_seeds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sample_count; i++) {
        struct blob blob = {0};
        char path[1024];
        const struct range one = {is_sample(samples[i].name, "raw") ? 0 : 1, 1};
        if (!samples[i].seed)
            continue;
        samples[i].build(&blob, &one, 1);
        (void)snprintf(path, sizeof(path), "%s/tests/fuzz/corpus/image/%s", KDA_SOURCE_DIR,
                       samples[i].name);
        if (getenv("KDA_WRITE_SEEDS")) {
            FILE *out = fopen(path, "wb");
            assert_non_null(out);
            assert_int_equal(fwrite(blob.data, 1, blob.size, out), blob.size);
            assert_int_equal(fclose(out), 0);
        }
        uint8_t *bytes = malloc(blob.size + 1);
        assert_non_null(bytes);
        FILE *in = fopen(path, "rb");
        assert_non_null(in);
        assert_int_equal(fread(bytes, 1, blob.size + 1, in), blob.size);
        (void)fclose(in);
        assert_memory_equal(bytes, blob.data, blob.size);
        free(bytes);
        assert_int_equal(exercise(blob.data, blob.size), KDA_OK);
        blob_free(&blob);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),        cmocka_unit_test(test_header_facts),
        cmocka_unit_test(test_cpu_facts),    cmocka_unit_test(test_triage),
        cmocka_unit_test(test_cut_anywhere), cmocka_unit_test(test_damaged_anywhere),
        cmocka_unit_test(test_faults),       cmocka_unit_test(test_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
