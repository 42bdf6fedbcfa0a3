/* The ISF reader on the real tables, on small ones written here, and on hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <lzma.h>

#include "alloc.h"
#include "file.h"
#include "layout_equal.h"
#include "symbols/isf.h"
#include "symbols/json_scan.h"

#define DATA KDA_SOURCE_DIR "/../shared/data/isf/"

static const char small[] =
    "{\"base_types\": {\"pointer\": {\"size\": 8}, \"unsigned char\": {\"size\": 1},"
    " \"unsigned long\": {\"size\": 4}},"
    "\"enums\": {\"_E\": {\"base\": \"int\", \"constants\": {\"a\": 0}, \"size\": 4}},"
    "\"metadata\": {\"format\": \"6.1.0\", \"windows\": {\"pdb\": {"
    "\"GUID\": \"0403020106050807090A0B0C0D0E0F10\", \"age\": 12, \"database\": \"x.pdb\"}}},"
    "\"symbols\": {\"a \\\" }b\": {\"address\": 1}, \"PspCidTable\": {\"address\": 4660},"
    " \"KiWaitNever\": {\"address\": 99999999999}, \"NtBuildLab\": {\"address\": -1}},"
    "\"user_types\": {"
    "\"_EPROCESS\": {\"kind\": \"struct\", \"size\": 512, \"fields\": {"
    " \"UniqueProcessId\": {\"offset\": 8, \"type\": {\"kind\": \"pointer\", \"subtype\": null}},"
    " \"ActiveProcessLinks\": {\"offset\": 16, \"type\": {\"kind\": \"struct\","
    "   \"name\": \"_LIST_ENTRY\"}},"
    " \"ImageFileName\": {\"offset\": 32, \"type\": {\"kind\": \"array\", \"count\": 3,"
    "   \"subtype\": {\"kind\": \"array\", \"count\": 5, \"subtype\": {\"kind\": \"base\","
    "   \"name\": \"unsigned char\"}}}},"
    " \"Flags\": {\"offset\": 48, \"type\": {\"kind\": \"enum\", \"name\": \"_E\"}},"
    " \"Job\": {\"offset\": -8, \"type\": {\"kind\": \"base\", \"name\": \"unsigned long\"}},"
    " \"Token\": {\"offset\": 56, \"type\": {\"kind\": \"base\", \"name\": \"no such\"}},"
    " \"SignatureLevel\": {\"offset\": 52, \"type\": {\"kind\": \"bitfield\","
    "   \"bit_position\": 6, \"bit_length\": 4, \"type\": {\"kind\": \"base\","
    "   \"name\": \"unsigned long\"}}}}},"
    "\"_LIST_ENTRY\": {\"fields\": {}, \"size\": 16, \"kind\": \"struct\"}}}";

static enum kda_status read_bytes(const void *bytes, size_t size, const struct kda_kernel_id *id,
                                  struct kda_layout *ret, struct kda_error *err)
{
    struct kda_file *file;
    enum kda_status status = kda_file_open_memory(bytes, size, "test.json", &file, err);
    if (status != KDA_OK)
        return status;
    status = kda_isf_layout(file, id, ret, err);
    kda_file_close(file);
    return status;
}

static uint8_t *compress(const void *bytes, size_t size, size_t *ret)
{
    size_t room = lzma_stream_buffer_bound(size);
    uint8_t *out = malloc(room);
    *ret = 0;
    assert_non_null(out);
    assert_int_equal(
        lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, NULL, bytes, size, out, ret, room), LZMA_OK);
    return out;
}

static void check_small(const struct kda_layout *l)
{
    static const struct {
        enum kda_field_id id;
        struct kda_field want;
    } fields[] = {
        {KDA_F_EPROCESS_UniqueProcessId, {8, 8, 0, 0}},
        {KDA_F_EPROCESS_ActiveProcessLinks, {16, 16, 0, 0}},
        {KDA_F_EPROCESS_ImageFileName, {32, 15, 0, 0}},
        {KDA_F_EPROCESS_Flags, {48, 4, 0, 0}},
        {KDA_F_EPROCESS_SignatureLevel, {52, 2, 6, 4}},
        {KDA_F_EPROCESS_Token, {56, 0, 0, 0}},
        {KDA_F_EPROCESS_Job, {KDA_NONE, 0, 0, 0}},
        {KDA_F_LIST_ENTRY_Flink, {KDA_NONE, 0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        const struct kda_field *f = &l->field[fields[i].id], *w = &fields[i].want;
        if (f->offset != w->offset || f->size != w->size || f->bit != w->bit || f->bits != w->bits)
            fail_msg("%s: 0x%x/%u %u:%u", kda_field_name(fields[i].id), f->offset, f->size, f->bit,
                     f->bits);
    }
    assert_int_equal(l->size[KDA_STRUCT_EPROCESS], 512);
    assert_int_equal(l->size[KDA_STRUCT_EJOB], KDA_NONE);
    assert_int_equal(l->rva[KDA_SYM_PspCidTable], 4660);
    assert_int_equal(l->rva[KDA_SYM_KiWaitNever], KDA_NONE);
    assert_int_equal(l->rva[KDA_SYM_NtBuildLab], KDA_NONE);
}

static void small_table_reads_plain_and_packed(void **state)
{
    (void)state;
    struct kda_layout l;
    struct kda_error err;
    if (!kda_symbols_have_isf()) {
        assert_int_equal(read_bytes(small, sizeof(small) - 1, NULL, &l, &err), KDA_UNSUPPORTED);
        skip();
    }
    if (read_bytes(small, sizeof(small) - 1, NULL, &l, &err) != KDA_OK)
        fail_msg("%s", err.text);
    check_small(&l);
    size_t size;
    uint8_t *packed = compress(small, sizeof(small) - 1, &size);
    if (read_bytes(packed, size, NULL, &l, &err) != KDA_OK)
        fail_msg("%s", err.text);
    check_small(&l);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(read_bytes(packed, cut, NULL, &l, &err), KDA_BAD_DATA);
    packed[size / 2] ^= 0x40;
    assert_int_equal(read_bytes(packed, size, NULL, &l, &err), KDA_BAD_DATA);
    free(packed);
}

static void every_cut_is_an_error(void **state)
{
    (void)state;
    if (!kda_symbols_have_isf())
        skip();
    struct kda_layout l;
    for (size_t size = 0; size < sizeof(small) - 1; size++)
        assert_int_equal(read_bytes(small, size, NULL, &l, NULL), KDA_BAD_DATA);
}

static void identity_is_checked(void **state)
{
    (void)state;
    if (!kda_symbols_have_isf())
        skip();
    struct kda_layout l;
    struct kda_error err;
    struct kda_kernel_id id = {.has_pdb = true, .pdb_age = 12};
    for (size_t i = 0; i < 16; i++)
        id.pdb_guid[i] = (uint8_t)(i + 1);
    assert_int_equal(read_bytes(small, sizeof(small) - 1, &id, &l, &err), KDA_OK);
    id.pdb_age = 1;
    assert_int_equal(read_bytes(small, sizeof(small) - 1, &id, &l, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "0403020106050807090A0B0C0D0E0F10C"));
    assert_non_null(strstr(err.text, "0403020106050807090A0B0C0D0E0F101"));
}

static void what_is_no_table_is_refused(void **state)
{
    (void)state;
    if (!kda_symbols_have_isf())
        skip();
    static const char *const texts[] = {
        "",
        "[]",
        "{}",
        "not json",
        "{\"metadata\": {}, \"user_types\": {}, \"base_types\": {}}",
        "{\"metadata\": {\"linux\": {}}, \"user_types\": {}, \"base_types\": {}}",
        "{\"metadata\": {\"windows\": {\"pdb\": {\"GUID\": \"xyz\", \"age\": 1}}},"
        " \"user_types\": {}, \"base_types\": {}}",
        "{\"metadata\": {\"windows\": {\"pdb\": {\"GUID\": \"0403020106050807090A0B0C0D0E0F10\","
        " \"age\": 1}}}, \"user_types\": {\"_EPROCESS\": {\"fields\" 1}}, \"base_types\": {}}",
        "{\"metadata\": {\"windows\": {\"pdb\": {\"GUID\": \"0403020106050807090A0B0C0D0E0F10\","
        " \"age\": 1}}}, \"user_types\": [1], \"base_types\": {}}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct kda_layout l;
        struct kda_error err;
        assert_int_equal(read_bytes(texts[i], strlen(texts[i]), NULL, &l, &err), KDA_BAD_DATA);
        assert_non_null(strstr(err.text, "test.json"));
    }
}

/* A few kilobytes that unpack to more than is allowed. */
static void bomb_stops_at_the_limit(void **state)
{
    (void)state;
    if (!kda_symbols_have_isf())
        skip();
    size_t size = (size_t)65 << 20, packed_size;
    char *zeros = calloc(size, 1);
    assert_non_null(zeros);
    uint8_t *packed = compress(zeros, size, &packed_size);
    struct kda_layout l;
    assert_true(packed_size < 100000);
    assert_int_equal(read_bytes(packed, packed_size, NULL, &l, NULL), KDA_LIMIT);
    assert_int_equal(read_bytes(zeros, size, NULL, &l, NULL), KDA_LIMIT);
    free(packed);
    free(zeros);
}

static void scan_steps_over_anything_balanced(void **state)
{
    (void)state;
    static const char text[] =
        " { \"a\" : [1, {\"x\": \"]}\\\"\"}] , \"b\\\"c\":-1.5e3,\"d\" :null } ";
    struct kda_json_scan scan = kda_json_object((struct kda_json_slice){text, sizeof(text) - 1});
    struct kda_json_slice key, value;
    assert_true(kda_json_next(&scan, &key, &value));
    assert_true(kda_json_is(key, "a") && value.size == 18 && value.text[17] == ']');
    assert_true(kda_json_next(&scan, &key, &value));
    assert_true(kda_json_is(key, "b\\\"c") && kda_json_is(value, "-1.5e3"));
    assert_true(kda_json_next(&scan, &key, &value));
    assert_true(kda_json_is(key, "d") && kda_json_is(value, "null"));
    assert_false(kda_json_next(&scan, &key, &value));
    assert_false(scan.failed);
}

/* The table whose file name holds the GUID, as the profile table has it. */
static bool profile_of(const char *name, struct kda_layout *layout, struct kda_kernel_id *id)
{
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        char path[160];
        kda_profile_get(i, &info);
        kda_symbols_store_path(&info.id, path, sizeof(path));
        if (!info.id.has_pdb || strncmp(path + strlen("ntkrnlmp.pdb/"), name, 32) != 0)
            continue;
        kda_profile_layout(i, layout);
        *id = info.id;
        return true;
    }
    return false;
}

static void real_tables_equal_the_profile(void **state)
{
    (void)state;
    static const char *const names[] = {
        "22597D0B40394E23936F6A24C6C52D5B", "32C1A669D5FFEFD41091F636CFDB6E99",
        "339E74133576439CBCDF7E0229DA3773", "35A038B1F6E2E8CAF642111E6EC66F57",
        "517E128F7B7C4EA79491DE6B9B9CE190", "66546C893F1136BF8732FF5773F69265",
        "733830ECAFA1A3073FFA9CC3A38FE93C", "76133B7D5E53E8EF3783A68665142583",
        "89284D0CA6ACC8274B9A44BD5AF9290B", "8B11040A5928757B11390AC78F6B6925",
        "8E3373D6124E747F0E72EF8E02E676B3", "A211952831047280C099CAEBA1F59EDA",
        "BBED7C2955FBE4522AAA23F4B8677AD9", "C2EADB24A615E9472CE47C8ADD31F130",
    };
    if (!kda_symbols_have_isf())
        skip();
    double worst_ms = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct kda_layout want, got;
        struct kda_kernel_id id;
        struct kda_file *file;
        struct kda_error err;
        char path[512];
        (void)snprintf(path, sizeof(path), "%s%s-1.json.xz", DATA, names[i]);
        if (kda_path_kind(path) != KDA_PATH_FILE)
            skip();
        assert_true(profile_of(names[i], &want, &id));
        assert_int_equal(kda_file_open(path, &file, &err), KDA_OK);
        clock_t start = clock();
        if (kda_isf_layout(file, &id, &got, &err) != KDA_OK)
            fail_msg("%s", err.text);
        double ms = (double)(clock() - start) * 1000 / CLOCKS_PER_SEC;
        worst_ms = ms > worst_ms ? ms : worst_ms;
        kda_file_close(file);
        assert_int_equal(layout_differences(&want, &got, names[i]), 0);
    }
    print_message("           slowest of 14 tables: %.0f ms\n", worst_ms);
}

static void failing_calls_leave_nothing(void **state)
{
    (void)state;
#if defined(KDA_FAULT_INJECTION)
    if (!kda_symbols_have_isf())
        skip();
    size_t size;
    uint8_t *packed = compress(small, sizeof(small) - 1, &size);
    bool fired = true;
    uint64_t n = 1;
    for (; fired; n++) {
        struct kda_layout l;
        memset(&l, 0x5a, sizeof(l));
        struct kda_layout before = l;
        kda_fault_arm(n);
        enum kda_status status = read_bytes(packed, size, NULL, &l, NULL);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        if (!fired) {
            assert_int_equal(status, KDA_OK);
            check_small(&l);
        } else {
            assert_true(status == KDA_NO_MEMORY || status == KDA_IO);
            assert_memory_equal(&l, &before, sizeof(l));
        }
    }
    assert_true(n > 10);
    free(packed);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_table_reads_plain_and_packed),
        cmocka_unit_test(every_cut_is_an_error),
        cmocka_unit_test(identity_is_checked),
        cmocka_unit_test(what_is_no_table_is_refused),
        cmocka_unit_test(bomb_stops_at_the_limit),
        cmocka_unit_test(scan_steps_over_anything_balanced),
        cmocka_unit_test(real_tables_equal_the_profile),
        cmocka_unit_test(failing_calls_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
