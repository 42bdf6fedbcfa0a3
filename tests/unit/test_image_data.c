/*
 * The image layer on the shared real and generated data. Skipped where that is missing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "process.h"
#include "kda/image.h"

#define DATA KDA_SOURCE_DIR "/../shared/data/"

static bool exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && st.st_size > 0;
}

static struct kda_image *open_path(const char *path)
{
    struct kda_image *image = NULL;
    struct kda_error err = {0};
    if (kda_image_open(path, &image, &err) != KDA_OK)
        fail_msg("%s", err.text);
    return image;
}

static const char *dump_path(const char *name)
{
    static char path[1024];
    (void)snprintf(path, sizeof(path), DATA "dumps/%s", name);
    return path;
}

/* Unpacks `source` (.xz) into the build folder once; the path of the unpacked file. */
static const char *unpack(const char *source, const char *name)
{
    static char path[1024];
    char part[1100];
    const char *const command[] = {"xz", "-dkc", source, NULL};
    (void)snprintf(path, sizeof(path), "%s/%s", KDA_BUILD_DIR, name);
    (void)snprintf(part, sizeof(part), "%s.part", path);
    if (exists(path))
        return path;
    return run_program(NULL, command, part) && rename(part, path) == 0 ? path : NULL;
}

/* Pages of the small dumps hold the text "PFN=<hex> " and zeros, over and over. */
static void check_text_page(struct kda_image *image, uint64_t pfn, bool here)
{
    uint8_t page[4096];
    char text[16] = {0};
    enum kda_status status = kda_image_read_page(image, pfn, page, NULL);
    assert_int_equal(status, here ? KDA_OK : KDA_ABSENT);
    if (!here)
        return;
    (void)snprintf(text, sizeof(text), "PFN=%llx ", (unsigned long long)pfn);
    for (size_t i = 0; i < sizeof(page); i += sizeof(text))
        assert_memory_equal(page + i, text, sizeof(text));
}

static void test_small_dumps(void **state)
{
    (void)state;
    static const struct {
        const char *name, *format;
        uint32_t type;
        bool last;
    } files[] = {
        {"bmp.dmp", "dmp-bitmap", 5, true},
        {"live.dmp", "dmp-bitmap", 6, true},
        {"full.dmp", "dmp-full", 1, false},
        {"two_ranges.lime", "lime", 0, false},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const char *path = dump_path(files[i].name);
        if (!exists(path))
            skip();
        struct kda_image *image = open_path(path);
        const struct kda_image_info *info = kda_image_info(image);
        assert_string_equal(info->format, files[i].format);
        assert_int_equal(info->dump_type, files[i].type);
        assert_int_equal(info->page_count, files[i].last ? 6 : 5);
        assert_int_equal(info->warning_count, 0);
        for (uint64_t pfn = 0; pfn < 0x50; pfn++) {
            bool here = (pfn >= 1 && pfn <= 3) || pfn == 0x10 || pfn == 0x11;
            /* The 71st bit is in the last, partial byte of the bitmap. */
            check_text_page(image, pfn, here || (files[i].last && pfn == 0x46));
        }
        if (files[i].type != 0) {
            assert_int_equal(info->dtb[0], 0x1AE000);
            assert_int_equal(info->build, 26100);
            assert_int_equal(info->system_time_100ns, 0x1DD1FB941B30AD2);
        }
        kda_image_close(image);
    }
}

static void test_qemu(void **state)
{
    (void)state;
    if (!exists(dump_path("qemu-elf.dump.xz")))
        skip();
    const char *path = unpack(dump_path("qemu-elf.dump.xz"), "qemu-elf.dump");
    assert_non_null(path);
    struct kda_image *image = open_path(path);
    const struct kda_image_info *info = kda_image_info(image);
    assert_string_equal(info->format, "elf-core");
    assert_int_equal(info->cpus, 1);
    assert_int_equal(info->dtb_count, 0); /* the guest had not begun to run */
    assert_int_equal(info->page_count, (0x1000000 + 0x40000) / 4096);
    assert_int_equal(info->max_pa, (uint64_t)1 << 32);

    static uint8_t mark[32768], got[32768];
    FILE *in = fopen(dump_path("mark.bin"), "rb");
    assert_non_null(in);
    size_t size = fread(mark, 1, sizeof(mark), in);
    (void)fclose(in);
    assert_true(size > 4096);
    assert_int_equal(kda_image_read(image, 0x100000, got, size, NULL), KDA_OK);
    assert_memory_equal(got, mark, size);
    for (size_t i = 0; i < size / 4096; i++) {
        assert_int_equal(kda_image_read_page(image, 0x100 + i, got, NULL), KDA_OK);
        assert_memory_equal(got, mark + i * 4096, 4096);
    }
    assert_int_equal(kda_image_read_page(image, 0x2000, got, NULL), KDA_ABSENT);
    assert_int_equal(kda_image_read_page(image, 0xFFFC0, got, NULL), KDA_OK);
    kda_image_close(image);
}

static void test_kdump_is_refused(void **state)
{
    (void)state;
    struct kda_image *image = NULL;
    struct kda_error err = {0};
    const char *path = dump_path("qemu-kdump-zlib.dump");
    if (!exists(path))
        skip();
    assert_int_equal(kda_image_open(path, &image, &err), KDA_UNSUPPORTED);
    assert_non_null(strstr(err.text, "kdump"));
    assert_non_null(strstr(err.text, "ELF"));
}

static void test_triage(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t base, process;
        size_t blocks;
        uint32_t bugcheck;
    } files[] = {
        {"1_IRQL_NOT_LESS_OR_EQUAL.dmp", 0xFFFFF807CDA00000u, 0xFFFFBF82E8692040u, 46, 0xA},
        {"2_PAGE_FAULT_IN_NONPAGED_AREA.dmp", 0xFFFFF80279A00000u, 0xFFFFC00C836B3040u, 46, 0x50},
        {"3_SYSTEM_THREAD_EXCEPTION_NOT_HANDLED.dmp", 0xFFFFF80286200000u, 0xFFFF8082376AB040u, 49,
         0x1000007E},
    };
    for (size_t i = 0; i < 3; i++) {
        const char *path = dump_path(files[i].name);
        if (!exists(path))
            skip();
        struct kda_image *image = open_path(path);
        const struct kda_image_info *info = kda_image_info(image);
        assert_int_equal(info->kind, KDA_IMAGE_TRIAGE);
        assert_int_equal(info->warning_count, 0);
        assert_int_equal(info->build, 26100);
        assert_int_equal(info->cpus, 2);
        assert_int_equal(info->bugcheck, files[i].bugcheck);
        assert_int_equal(info->dtb[0], 0x1AE000);
        assert_int_equal(info->kernel_base, files[i].base);
        assert_int_equal(info->kdbg_size, 0x3A0);
        assert_int_equal(info->driver_count, 195);
        assert_string_equal(info->drivers[0].name, "ntoskrnl.exe");
        assert_int_equal(info->drivers[0].base, files[i].base);
        assert_int_equal(info->drivers[0].size, 0x1450000);
        assert_int_equal(info->drivers[0].timestamp, 0x4473D78D);
        for (size_t k = 0; k < info->driver_count; k++)
            assert_true(info->drivers[k].name[0] != 0 && info->drivers[k].base != 0);
        assert_int_equal(info->block_count, files[i].blocks);
        assert_string_equal(info->process_name, "System");
        assert_true(info->has_process_pid);
        assert_int_equal(info->process_pid, 4);
        assert_int_equal(info->process_va, files[i].process);
        /* The shared user page is one of the pieces. */
        uint8_t bytes[16];
        assert_int_equal(kda_image_read_virtual(image, 0xFFFFF78000000000u, bytes, 16, NULL),
                         KDA_OK);
        assert_int_equal(kda_image_read_virtual(image, 0xFFFFF78000000FF0u, bytes, 16, NULL),
                         KDA_ABSENT);
        kda_image_close(image);
    }
}

static void test_big_images(void **state)
{
    (void)state;
    static const struct {
        const char *name, *format;
        uint64_t dtb; /* of dumps; raw images say nothing */
        uint32_t build;
        uint64_t time;
    } files[] = {
        {"server2016-14393.4583.raw", "raw", 0, 0, 0},
        {"server2019-17763.379.dmp", "dmp-bitmap", 0x1AD000, 17763, 133406160670000000},
        {"server2022-20348.825.dmp", "dmp-full", 0x1AD000, 20348, 133402341330000000},
        {"tampered-win10-18362.30.dmp", "dmp-bitmap", 0x6D5000, 18362, 133405979900000000},
        {"tampered-win11-22000.795.raw", "raw", 0, 0, 0},
        {"win10-19041.1466-encoded-kdbg.raw", "raw", 0, 0, 0},
        {"win11-22000.318-holes.dmp", "dmp-bitmap", 0x1AB000, 22000, 133409763760000000},
        {"win11-22000.795.raw", "raw", 0, 0, 0},
        {"win7-7601.24540.dmp", "dmp-full", 0x187000, 7601, 133407362080000000},
        {"win8.1-9600.19913.raw", "raw", 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char source[1024];
        (void)snprintf(source, sizeof(source), DATA "images/%s.xz", files[i].name);
        if (!exists(source))
            skip();
        const char *path = unpack(source, files[i].name);
        assert_non_null(path);
        struct kda_image *image = open_path(path);
        const struct kda_image_info *info = kda_image_info(image);
        bool raw = files[i].dtb == 0;
        assert_string_equal(info->format, files[i].format);
        assert_int_equal(info->warning_count, raw ? 1 : 0);
        assert_int_equal(info->dtb_count, raw ? 0 : 1);
        assert_int_equal(info->dtb[0], files[i].dtb);
        assert_int_equal(info->build, files[i].build);
        assert_int_equal(info->cpus, raw ? 0 : 4);
        assert_int_equal(info->machine, raw ? 0 : 0x8664);
        assert_int_equal(info->system_time_100ns, files[i].time);
        assert_true(info->has_roots == !raw);
        /* Every page that is promised can be read, and no more than that. */
        uint64_t pages = 0, start, size;
        uint8_t page[4096];
        for (uint64_t pa = 0; kda_image_next_run(image, pa, &start, &size); pa = start + size)
            for (uint64_t at = start; at < start + size; at += 4096, pages++)
                assert_int_equal(kda_image_read_page(image, at / 4096, page, NULL), KDA_OK);
        assert_int_equal(pages, info->page_count);
        assert_int_equal(kda_image_stats(image)->pages_read, pages);
        assert_true(kda_image_stats(image)->bytes < pages * 4096 + 64 * 1024);
        kda_image_close(image);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_dumps),      cmocka_unit_test(test_qemu),
        cmocka_unit_test(test_kdump_is_refused), cmocka_unit_test(test_triage),
        cmocka_unit_test(test_big_images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
