/* Object type indexes: the cookie, stored zeros, the globals and the table. */
#include "mini.h"

static void check(const char *version)
{
    struct mini *m = mini_create(version, false, 0);
    uint8_t type = 0;
    mini_system(m, 64);
    uint64_t process = mini_process(m, 4, "System");
    mini_kernel(m);
    assert_int_equal(kda_object_type(m->kernel, process - 0x30, &type, NULL), KDA_OK);
    assert_int_equal(type, MINI_TYPE_PROCESS);
    assert_int_equal(kda_object_type_index(m->kernel, "EtwConsumer", &type, NULL), KDA_OK);
    assert_int_equal(type, MINI_TYPE_CONSUMER);
    assert_int_equal(kda_object_type_index(m->kernel, "Process", &type, NULL), KDA_OK);
    assert_int_equal(type, MINI_TYPE_PROCESS);
    assert_int_equal(kda_object_type_index(m->kernel, "NoSuchType", &type, NULL), KDA_ABSENT);
    mini_free(m);
}

static void test_with_and_without_cookie(void **state)
{
    (void)state;
    check("10.0.22000.795");
    check("6.3.9600.19913");
    check("6.1.7601.24540");
}

static void test_stored_zero(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t type = 0;
    (void)state;
    mini_system(m, 64);
    /* A header whose address makes the stored byte 0. */
    uint64_t header = 0xffffb10000000000u | (uint64_t)(MINI_COOKIE ^ MINI_TYPE_CONSUMER) << 8;
    mini_type(m, header + 0x30, MINI_TYPE_CONSUMER);
    uint8_t stored = 9;
    mini_read(m, mini_at(m, header, KDA_F_OBJECT_HEADER_TypeIndex), &stored, 1);
    assert_int_equal(stored, 0);
    mini_kernel(m);
    assert_int_equal(kda_object_type(m->kernel, header, &type, NULL), KDA_OK);
    assert_int_equal(type, MINI_TYPE_CONSUMER);
    mini_free(m);
}

static void test_global_gone_table_stays(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t type = 0;
    (void)state;
    mini_system(m, 64);
    mini_put64(m, mini_symbol(m, KDA_SYM_EtwpRealTimeConnectionObjectType), 0x4141);
    mini_kernel(m);
    assert_int_equal(kda_object_type_index(m->kernel, "EtwConsumer", &type, NULL), KDA_OK);
    assert_int_equal(type, MINI_TYPE_CONSUMER);
    m->layout.rva[KDA_SYM_EtwpRealTimeConnectionObjectType] = KDA_NONE;
    mini_kernel(m);
    assert_int_equal(kda_object_type_index(m->kernel, "EtwConsumer", &type, NULL), KDA_OK);
    assert_int_equal(type, MINI_TYPE_CONSUMER);
    m->layout.rva[KDA_SYM_ObTypeIndexTable] = KDA_NONE;
    mini_kernel(m);
    assert_int_equal(kda_object_type_index(m->kernel, "EtwConsumer", &type, NULL), KDA_NO_SYMBOL);
    mini_free(m);
}

static void test_table_gone_global_stays(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t type = 0;
    (void)state;
    mini_system(m, 64);
    m->layout.rva[KDA_SYM_ObTypeIndexTable] = KDA_NONE;
    mini_kernel(m);
    assert_int_equal(kda_object_type_index(m->kernel, "EtwRegistration", &type, NULL), KDA_OK);
    assert_int_equal(type, MINI_TYPE_REGISTRATION);
    mini_free(m);
}

static void test_impossible_index(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t type = 77, pointer[8];
    (void)state;
    mini_system(m, 64);
    mini_read(m, mini_symbol(m, KDA_SYM_EtwpRealTimeConnectionObjectType), pointer, 8);
    mini_set(m, kda_le64(pointer), KDA_F_OBJECT_TYPE_Index, 1);
    mini_kernel(m);
    assert_int_equal(kda_object_type_index(m->kernel, "EtwConsumer", &type, NULL), KDA_BAD_DATA);
    assert_int_equal(type, 77);
    mini_free(m);
}

static void test_cookie_page_missing(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    uint8_t type = 0;
    const struct kda_process *processes;
    size_t count;
    (void)state;
    mini_system(m, 64);
    uint64_t cookie = mini_symbol(m, KDA_SYM_ObHeaderCookie);
    uint64_t process = mini_process(m, 4, "System");
    mini_process(m, 8, "second.exe");
    mini_process(m, 12, "third.exe");
    /* Only that byte's page, and only if nothing else of the set-up stands in it. */
    m->layout.rva[KDA_SYM_ObHeaderCookie] = (uint32_t)(0x3000000u + (cookie & 0xfff));
    mini_absent(m, mini_symbol(m, KDA_SYM_ObHeaderCookie));
    mini_kernel(m);
    assert_int_equal(kda_object_type(m->kernel, process - 0x30, &type, NULL), KDA_ABSENT);
    mini_kernel(m); /* no process known, as above: nothing is guessed */
    assert_int_equal(kda_processes(m->kernel, &processes, &count, NULL), KDA_OK);
    assert_int_equal(kda_object_type(m->kernel, process - 0x30, &type, NULL), KDA_OK);
    assert_int_equal(type, MINI_TYPE_PROCESS);
    mini_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_with_and_without_cookie),
        cmocka_unit_test(test_stored_zero),
        cmocka_unit_test(test_global_gone_table_stays),
        cmocka_unit_test(test_table_gone_global_stays),
        cmocka_unit_test(test_impossible_index),
        cmocka_unit_test(test_cookie_page_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
