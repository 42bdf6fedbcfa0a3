/* The image generator's containers, holes, lies and complaints. */
#define _POSIX_C_SOURCE 200809L
#define _FILE_OFFSET_BITS 64

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "bytes.h"
#include "forge.h"

#define SCENARIOS KDA_SOURCE_DIR "/tests/images/scenarios/"
#define PAGE 4096u

static const char *const scenario_names[] = {
    "win7",           "win81",       "win10-1607",    "win10-17763",    "win10-17763-new",
    "win10-18362",    "win10-19041", "server2022",    "win11",          "encoded",
    "la57",           "silo",        "levels",        "holes",          "holes-transition",
    "new-24h2",       "tiny",        "hostile-lists", "hostile-counts", "hostile-pointers",
    "hostile-strings"};
#define SCENARIO_COUNT (sizeof(scenario_names) / sizeof(scenario_names[0]))

static char *scenario(const char *name, const char *extra)
{
    char path[512];
    (void)snprintf(path, sizeof(path), SCENARIOS "%s.txt", name);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    char *text = calloc(1, 256 * 1024);
    assert_non_null(text);
    size_t size = fread(text, 1, 200 * 1024, in);
    (void)fclose(in);
    (void)snprintf(text + size, 4096, "\n%s\n", extra);
    return text;
}

static struct forge *build(const char *name, const char *extra)
{
    struct forge *forge = NULL;
    struct kda_error err = {0};
    char *text = scenario(name, extra);
    if (forge_build(text, &forge, &err) != KDA_OK)
        fail_msg("%s: %s", name, err.text);
    free(text);
    return forge;
}

static uint8_t *write_bytes(struct forge *forge, enum forge_format format, size_t *size)
{
    struct kda_error err = {0};
    uint8_t *bytes = NULL;
    if (forge_write_memory(forge, format, &bytes, size, &err) != KDA_OK)
        fail_msg("%s: %s", forge_format_name(format), err.text);
    return bytes;
}

/* ---- a page of an image, found the plain way ---- */

static const uint8_t *page_full(const uint8_t *b, uint64_t pfn)
{
    uint64_t off = 0x2000;
    for (uint32_t i = 0; i < kda_le32(b + 0x88); i++) {
        uint64_t first = kda_le64(b + 0x98 + 16 * (size_t)i);
        uint64_t count = kda_le64(b + 0xa0 + 16 * (size_t)i);
        if (pfn >= first && pfn - first < count)
            return b + off + (pfn - first) * PAGE;
        off += count * PAGE;
    }
    return NULL;
}

static const uint8_t *page_bitmap(const uint8_t *b, uint64_t pfn)
{
    uint64_t off = kda_le64(b + 0x2020);
    if (pfn >= kda_le64(b + 0x2030) || !(b[0x2038 + pfn / 8] >> pfn % 8 & 1))
        return NULL;
    for (uint64_t i = 0; i < pfn; i++)
        off += (b[0x2038 + i / 8] >> i % 8 & 1u) * PAGE;
    return b + off;
}

static const uint8_t *page_rdmp(const uint8_t *b, uint64_t pfn)
{
    uint64_t off = kda_le64(b + 0x2018);
    for (size_t at = 0x2030;; at += 16) {
        uint64_t first = kda_le64(b + at), count = kda_le64(b + at + 8);
        if (count == 0)
            return NULL;
        if (pfn >= first && pfn - first < count)
            return b + off + (pfn - first) * PAGE;
        off += count * PAGE;
    }
}

static const uint8_t *page_elf(const uint8_t *b, uint64_t pfn)
{
    for (size_t i = 0; i < kda_le16(b + 56); i++) {
        const uint8_t *segment = b + 64 + 56 * i;
        uint64_t pa = kda_le64(segment + 24), size = kda_le64(segment + 32);
        if (kda_le32(segment) == 1 && pfn * PAGE >= pa && pfn * PAGE - pa < size)
            return b + kda_le64(segment + 8) + (pfn * PAGE - pa);
    }
    return NULL;
}

static const uint8_t *page_lime(const uint8_t *b, uint64_t pfn, size_t size)
{
    for (size_t at = 0; at < size;) {
        uint64_t first = kda_le64(b + at + 8), last = kda_le64(b + at + 16);
        if (pfn * PAGE >= first && pfn * PAGE < last)
            return b + at + 32 + (pfn * PAGE - first);
        at += 32 + (size_t)(last + 1 - first);
    }
    return NULL;
}

static const uint8_t *page_of(enum forge_format format, const uint8_t *b, size_t size, uint64_t pfn)
{
    switch (format) {
    case FORGE_DMP_FULL:
        return page_full(b, pfn);
    case FORGE_DMP_KERNEL:
    case FORGE_DMP_BITMAP:
    case FORGE_DMP_LIVE:
        return page_bitmap(b, pfn);
    case FORGE_DMP_RDMP:
    case FORGE_DMP_RDMP_ACTIVE:
    case FORGE_DMP_RDMP_FULL:
        return page_rdmp(b, pfn);
    case FORGE_ELF:
        return page_elf(b, pfn);
    case FORGE_LIME:
        return page_lime(b, pfn, size);
    default:
        /* server2022: devices from 24M to 32M, squeezed out of the flat file */
        if (format == FORGE_VMEM && pfn >= 24 * 256)
            return pfn < 32 * 256 ? NULL : b + (pfn - 8 * 256) * PAGE;
        return b + pfn * PAGE;
    }
}

static void test_formats_hold_the_same_pages(void **state)
{
    (void)state;
    struct forge *forge = build("server2022", "");
    size_t raw_size = 0;
    uint8_t *raw = write_bytes(forge, FORGE_RAW, &raw_size);
    static const uint8_t zeros[PAGE];
    for (int format = FORGE_DMP_FULL; format < FORGE_FORMATS; format++) {
        size_t size = 0, found = 0, content = 0;
        uint8_t *bytes = write_bytes(forge, (enum forge_format)format, &size);
        for (uint64_t pfn = 0; pfn < raw_size / PAGE; pfn++) {
            const uint8_t *page = page_of((enum forge_format)format, bytes, size, pfn);
            bool empty = memcmp(raw + pfn * PAGE, zeros, PAGE) == 0;
            content += !empty;
            if (!page && !empty)
                fail_msg("%s lacks page 0x%llx", forge_format_name((enum forge_format)format),
                         (unsigned long long)pfn);
            if (!page)
                continue;
            assert_memory_equal(page, raw + pfn * PAGE, PAGE);
            found += !empty;
        }
        assert_int_equal(found, content);
        assert_true(content > 150);
        free(bytes);
    }
    free(raw);
    forge_free(forge);
}

static void test_dump_header(void **state)
{
    static const uint32_t types[] = {1, 2, 5, 6, 8, 9, 10};
    (void)state;
    struct forge *forge = build("win10-17763-new", "");
    const struct forge_truth *t = forge_truth(forge);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        size_t size = 0;
        uint8_t *b = write_bytes(forge, (enum forge_format)(FORGE_DMP_FULL + (int)i), &size);
        assert_memory_equal(b, "PAGEDU64", 8);
        assert_int_equal(kda_le32(b + 0xc), t->build);
        assert_int_equal(kda_le64(b + 0x10), t->dtb | 2); /* pcid on */
        assert_int_equal(kda_le32(b + 0x30), 0x8664);
        assert_int_equal(kda_le64(b + 0x80), t->kdbg_va);
        assert_int_equal(kda_le32(b + 0xf98), types[i]);
        assert_int_equal(kda_le64(b + 0xfa8), t->system_time);
        free(b);
    }
    forge_free(forge);
}

static void test_same_scenario_same_bytes(void **state)
{
    (void)state;
    char *text = scenario("tiny", "");
    uint8_t *a = NULL, *b = NULL, *c = NULL;
    size_t a_size = 0, b_size = 0, c_size = 0;
    assert_int_equal(forge_build_memory(text, FORGE_DMP_BITMAP, &a, &a_size, NULL), KDA_OK);
    assert_int_equal(forge_build_memory(text, FORGE_DMP_BITMAP, &b, &b_size, NULL), KDA_OK);
    assert_int_equal(a_size, b_size);
    assert_memory_equal(a, b, a_size);
    assert_true(a_size < 300 * 1024);
    free(text);
    text = scenario("tiny", "seed 99");
    assert_int_equal(forge_build_memory(text, FORGE_DMP_BITMAP, &c, &c_size, NULL), KDA_OK);
    assert_true(c_size != a_size || memcmp(a, c, a_size) != 0);
    free(text);
    free(a);
    free(b);
    free(c);
}

/* Balanced outside of texts, no raw control characters inside. */
static void check_json(const char *text)
{
    long depth = 0;
    bool inside = false;
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (inside && *p == '\\')
            p++;
        else if (*p == '"')
            inside = !inside;
        else if (inside)
            assert_true(*p >= 0x20);
        else if (*p == '{' || *p == '[')
            depth++;
        else if (*p == '}' || *p == ']')
            depth--;
        assert_true(depth >= 0);
    }
    assert_int_equal(depth, 0);
    assert_false(inside);
}

static void test_every_scenario_builds(void **state)
{
    (void)state;
    for (size_t i = 0; i < SCENARIO_COUNT; i++) {
        struct forge *forge = build(scenario_names[i], "");
        char *text = NULL;
        size_t size = 0;
        FILE *out = open_memstream(&text, &size);
        assert_non_null(out);
        assert_true(forge_truth_json(forge, out));
        assert_int_equal(fclose(out), 0);
        check_json(text);
        assert_non_null(strstr(text, "\"sessions\":["));
        free(text);
        assert_true(forge_truth(forge)->session_count > 0);
        bool hostile = strncmp(scenario_names[i], "hostile", 7) == 0;
        assert_int_equal(forge_truth(forge)->hostile_count > 0, hostile);
        forge_free(forge);
    }
}

static const struct forge_process *by_pid(const struct forge *forge, uint64_t pid)
{
    const struct forge_truth *t = forge_truth(forge);
    for (size_t i = 0; i < t->process_count; i++)
        if (t->processes[i].pid == pid)
            return &t->processes[i];
    fail_msg("no process %llu", (unsigned long long)pid);
    return NULL;
}

static void test_holes(void **state)
{
    (void)state;
    struct forge *forge = build("holes", "");
    const struct forge_truth *t = forge_truth(forge);
    size_t size = 0, absent = 0, kinds[3] = {0, 0, 0};
    uint8_t *bytes = write_bytes(forge, FORGE_DMP_BITMAP, &size);
    for (size_t i = 0; i < t->hole_count; i++) {
        const struct forge_hole_page *h = &t->holes[i];
        bool there = page_bitmap(bytes, h->pfn) != NULL;
        bool transition = strcmp(h->kind, "transition") == 0;
        kinds[transition ? 2 : strcmp(h->kind, "paged") == 0]++;
        assert_int_equal(there, transition);
        absent += !there;
    }
    assert_true(kinds[0] >= 5 && kinds[1] >= 6 && kinds[2] >= 1);
    assert_true(absent > 10);
    assert_false(by_pid(forge, 772)->readable);
    assert_true(by_pid(forge, 4)->readable);
    assert_false(by_pid(forge, 792)->path_readable);
    assert_false(by_pid(forge, 3000)->table_readable);
    for (size_t i = 0; i < t->session_count; i++)
        if (t->sessions[i].silo == 0 && t->sessions[i].id == 14)
            assert_false(t->sessions[i].readable);
    free(bytes);
    struct kda_error err = {0};
    bytes = NULL;
    assert_int_equal(forge_write_memory(forge, FORGE_RAW, &bytes, &size, &err), KDA_UNSUPPORTED);
    assert_null(bytes);
    assert_non_null(strstr(err.text, "kind=paged"));
    forge_free(forge);
}

/* One page out of a large one: the entry stays, the page is not in the file. */
static void test_hole_in_a_large_page(void **state)
{
    (void)state;
    struct forge *forge = build("win11", "hole what=symbol:PsActiveProcessHead kind=absent");
    size_t size = 0;
    uint8_t *bytes = write_bytes(forge, FORGE_DMP_LIVE, &size);
    assert_int_equal(forge_truth(forge)->hole_count, 1);
    uint64_t pfn = forge_truth(forge)->holes[0].pfn;
    assert_null(page_bitmap(bytes, pfn));
    assert_non_null(page_bitmap(bytes, pfn ^ 1));
    free(bytes);
    forge_free(forge);
}

static void test_big_machines_are_sparse(void **state)
{
    static const enum forge_format formats[] = {FORGE_RAW, FORGE_DMP_FULL, FORGE_DMP_BITMAP};
    (void)state;
    struct forge *forge = build("win11", "size 16G");
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const char *path = KDA_BUILD_DIR "/forge-big.img";
        struct kda_error err = {0};
        struct stat st;
        if (forge_write(forge, formats[i], path, &err) != KDA_OK)
            fail_msg("%s", err.text);
        assert_int_equal(stat(path, &st), 0);
        (void)remove(path);
        assert_true((uint64_t)st.st_size > (uint64_t)16000 << 20);
        assert_true((uint64_t)st.st_blocks * 512 < (uint64_t)64 << 20);
    }
    assert_true(forge_truth(forge)->pages_used < 20000);
    forge_free(forge);
}

static void test_vmware_pair(void **state)
{
    (void)state;
    struct forge *forge = build("server2022", "");
    struct kda_error err = {0};
    struct stat st;
    uint8_t head[12] = {0};
    if (forge_write(forge, FORGE_VMEM, KDA_BUILD_DIR "/forge-pair.vmem", &err) != KDA_OK)
        fail_msg("%s", err.text);
    assert_int_equal(stat(KDA_BUILD_DIR "/forge-pair.vmem", &st), 0);
    assert_int_equal(st.st_size, 64 << 20);
    FILE *in = fopen(KDA_BUILD_DIR "/forge-pair.vmss", "rb");
    assert_non_null(in);
    assert_int_equal(fread(head, 1, sizeof(head), in), sizeof(head));
    (void)fclose(in);
    assert_int_equal(kda_le32(head), 0xbed2bed2);
    (void)remove(KDA_BUILD_DIR "/forge-pair.vmem");
    (void)remove(KDA_BUILD_DIR "/forge-pair.vmss");
    forge_free(forge);
}

/* Lines that cannot be right; each must be refused, and the text must name its line. */
static const char *const bad_lines[] = {
    "build 1.2.3",
    "build",
    "size 1M",
    "size 70G",
    "size 4097",
    "proces 4",
    "=x",
    "process 5",
    "process 412 name=again.exe",
    "process 9996 levels=4",
    "process 9996 name=\"\\u4e2d\"",
    "process 9996 name=a name=b",
    "session",
    "session 3 name=taken",
    "session 99 name=x",
    "session 33 mode=zz",
    "session 33 mode=0x1ffffffff",
    "session 33 name=\"abc",
    "session 33 name=\"\\q\"",
    "session 33 name=\"\\u0000\"",
    "session 33 sd=O:XX",
    "session 33 sd=D:(A;;0x1;;;SY",
    "session 33 started=2024-13-01T00:00:00Z",
    "session 33 bad=1",
    "consumer session=1 pid=999999",
    "consumer session=3 pid=1264 silo=9",
    "provider {abc}",
    "provider {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}",
    "provider {33fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} enable=1,slot=9",
    "provider {33fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} filter=pids:1",
    "provider {33fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} enable=1 filter=pids:1,2,3,4,5,6,7,8,9",
    "reg {33fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} kernel",
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716}",
    "reg {22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716} kernel driver=none.sys",
    "hole what=process:777",
    "hole what=nothing",
    "hole what=symbol:PsActiveProcessHead kind=paged",
    "hole what=symbol:Nothing kind=absent",
    "hole kind=absent",
    "hole va=0x1000",
    "hostile cycle=nothing",
    "hostile count=maxloggers",
    "hostile self=consumers:2",
    "hostile",
    "mmio 1 2",
    "mmio 32M 16M",
    "kernel pages=1g",
    "kernel pages=8k",
    "driver a.sys size=5",
    "la57 maybe",
    "kdbg clear",
    "rvas real",
    "silo 1",
    "callback",
    "callback file",
    "callback process driver=none.sys",
    "callback process slot=64",
    "callback process altitude=1",
    "callback registry slot=1",
    "code EtwWrite",
    "code EtwWrite c",
    "code EtwWrite zz",
    "code NoSuchFunction c3",
    "user 4",
    "user 413",
    "user 412 patch=EtwEventWrite:x",
    "poke session:2 CollectionOn",
    "poke session:2 NoSuchField 1",
    "poke session:2 CollectionOn+x 1",
    "poke session:2 CollectionOn one",
    "poke session:99 CollectionOn 1",
    "poke nothing CollectionOn 1",
    "poke silo:0 +0 @session:99",
    "poke va:0x1000 +0 1",
    "hole what=callback:77",
    "hole what=code:NoSuchFunction",
    "hole what=peb:412",
    "\xff\xfe",
};

static void test_bad_scenarios(void **state)
{
    (void)state;
    char *good = scenario("win11", "");
    unsigned lines = 1;
    for (const char *p = good; *p; p++)
        lines += *p == '\n';
    free(good);
    for (size_t i = 0; i < sizeof(bad_lines) / sizeof(bad_lines[0]); i++) {
        struct forge *forge = NULL;
        struct kda_error err = {0};
        char wanted[32];
        char *text = scenario("win11", bad_lines[i]);
        enum kda_status status = forge_build(text, &forge, &err);
        free(text);
        if (status == KDA_OK)
            fail_msg("accepted: %s", bad_lines[i]);
        assert_null(forge);
        (void)snprintf(wanted, sizeof(wanted), "line %u: ", lines - 1);
        if (strncmp(err.text, wanted, strlen(wanted)) != 0)
            fail_msg("\"%s\" gives \"%s\", not %s", bad_lines[i], err.text, wanted);
    }
}

static void test_format_names(void **state)
{
    (void)state;
    for (int i = 0; i < FORGE_FORMATS; i++) {
        enum forge_format format = FORGE_FORMATS;
        assert_true(forge_format_parse(forge_format_name((enum forge_format)i), &format));
        assert_int_equal(format, i);
    }
    enum forge_format untouched = FORGE_ELF;
    assert_false(forge_format_parse("zip", &untouched));
    assert_int_equal(untouched, FORGE_ELF);
    assert_null(forge_format_name(FORGE_FORMATS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats_hold_the_same_pages),
        cmocka_unit_test(test_dump_header),
        cmocka_unit_test(test_same_scenario_same_bytes),
        cmocka_unit_test(test_every_scenario_builds),
        cmocka_unit_test(test_holes),
        cmocka_unit_test(test_hole_in_a_large_page),
        cmocka_unit_test(test_big_machines_are_sparse),
        cmocka_unit_test(test_vmware_pair),
        cmocka_unit_test(test_bad_scenarios),
        cmocka_unit_test(test_format_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
