/* Typed reads: integers, bit fields, strings. */
#include "mini.h"

#define OBJECT 0xffff900000000100u
#define ANY KDA_F_WMI_LOGGER_CONTEXT_BufferSize

static struct mini *with_field(uint32_t offset, unsigned size, unsigned bit, unsigned bits)
{
    struct mini *m = mini_create(NULL, false, 0);
    m->layout.field[ANY] = (struct kda_field){offset, (uint16_t)size, (uint8_t)bit, (uint8_t)bits};
    for (unsigned i = 0; i < 16; i++)
        mini_put(m, OBJECT + i, 0x81 + 0x11 * i, 1);
    mini_kernel(m);
    return m;
}

static void test_integers(void **state)
{
    static const struct {
        unsigned offset, size, bit, bits;
        uint64_t want;
    } cases[] = {
        {0, 1, 0, 0, 0x81},
        {1, 2, 0, 0, 0xa392},
        {0, 4, 0, 0, 0xb4a39281},
        {0, 8, 0, 0, 0xf8e7d6c5b4a39281u},
        {0, 1, 0, 1, 1},
        {0, 1, 7, 1, 1},
        {0, 1, 1, 6, 0},
        {1, 2, 4, 8, 0x39},
        {0, 8, 20, 44, 0xf8e7d6c5b4a},
        {0, 8, 0, 64, 0xf8e7d6c5b4a39281u},
        {0, 8, 63, 1, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mini *m = with_field(cases[i].offset, cases[i].size, cases[i].bit, cases[i].bits);
        uint64_t value = 0;
        assert_int_equal(kda_read_field(m->kernel, OBJECT, ANY, &value, NULL), KDA_OK);
        assert_true(value == cases[i].want);
        mini_free(m);
    }
}

static void test_no_integer(void **state)
{
    struct mini *m = with_field(0, 16, 0, 0);
    uint64_t value = 5;
    (void)state;
    assert_int_equal(kda_read_field(m->kernel, OBJECT, ANY, &value, NULL), KDA_USAGE);
    assert_int_equal(value, 5);
    mini_free(m);
}

static void test_absent_field(void **state)
{
    struct mini *m = with_field(KDA_NONE, 4, 0, 0);
    uint64_t value = 5;
    struct kda_error err;
    (void)state;
    assert_false(kda_has_field(m->kernel, ANY));
    assert_int_equal(kda_read_field(m->kernel, OBJECT, ANY, &value, &err), KDA_NO_SYMBOL);
    assert_non_null(strstr(err.text, "_WMI_LOGGER_CONTEXT.BufferSize"));
    assert_int_equal(value, 5);
    m->kernel->layout = NULL;
    assert_int_equal(kda_read_field(m->kernel, OBJECT, ANY, &value, NULL), KDA_NO_SYMBOL);
    assert_int_equal(kda_symbol_va(m->kernel, KDA_SYM_PspCidTable), 0);
    assert_true(kda_field_offset(m->kernel, ANY) == KDA_NONE);
    mini_free(m);
}

static void test_missing_memory(void **state)
{
    struct mini *m = with_field(0x20, 4, 0, 0);
    uint64_t value = 5;
    (void)state;
    mini_paged(m, OBJECT);
    mini_kernel(m);
    assert_int_equal(kda_read_field(m->kernel, OBJECT, ANY, &value, NULL), KDA_PAGED_OUT);
    /* An address that wraps round must not read from the other end of memory. */
    assert_int_equal(kda_read_field(m->kernel, UINT64_MAX - 2, ANY, &value, NULL), KDA_UNMAPPED);
    assert_int_equal(value, 5);
    mini_free(m);
}

/* ---- strings ---- */

#define STRING 0xffff900000010000u
#define TEXT 0xffff900000020000u

static struct mini *with_string(unsigned length, unsigned maximum, uint64_t buffer)
{
    struct mini *m = mini_create(NULL, false, 0);
    mini_put(m, STRING, length, 2);
    mini_put(m, STRING + 2, maximum, 2);
    mini_put64(m, STRING + 8, buffer);
    for (unsigned i = 0; i < 16; i++)
        mini_put(m, TEXT + 2 * i, 'a' + i, 2);
    mini_kernel(m);
    return m;
}

static void test_strings(void **state)
{
    static const struct {
        unsigned length, maximum;
        uint64_t buffer;
        size_t max_bytes;
        enum kda_status want;
        const char *text;
    } cases[] = {
        {6, 6, TEXT, 0, KDA_OK, "abc"},
        {6, 8, TEXT, 6, KDA_OK, "abc"},
        {0, 0, 0, 0, KDA_OK, ""},
        {0, 0, 0x4141, 0, KDA_OK, ""},
        {5, 8, TEXT, 0, KDA_BAD_DATA, NULL},  /* odd */
        {10, 8, TEXT, 0, KDA_BAD_DATA, NULL}, /* over its maximum */
        {6, 8, TEXT, 4, KDA_BAD_DATA, NULL},  /* over the caller's limit */
        {6, 8, 0, 0, KDA_BAD_DATA, NULL},
        {6, 8, 0x7ff700001000u, 0, KDA_BAD_DATA, NULL}, /* user memory */
        {6, 8, 0x8000000000000000u, 0, KDA_BAD_DATA, NULL},
        {6, 8, 0xffffa00000000000u, 0, KDA_UNMAPPED, NULL},
        {6, 8, UINT64_MAX - 3, 0, KDA_UNMAPPED, NULL}, /* wraps */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct mini *m = with_string(cases[i].length, cases[i].maximum, cases[i].buffer);
        const char *text = "untouched";
        assert_int_equal(kda_read_string(m->kernel, STRING, cases[i].max_bytes, &text, NULL),
                         cases[i].want);
        assert_string_equal(text, cases[i].text ? cases[i].text : "untouched");
        mini_free(m);
    }
}

static void test_embedded_nul(void **state)
{
    struct mini *m = with_string(12, 12, TEXT);
    const char *text;
    (void)state;
    mini_put(m, TEXT + 4, 0, 2);
    mini_put(m, TEXT + 10, 0, 2); /* a counted terminator */
    mini_kernel(m);
    assert_int_equal(kda_read_string(m->kernel, STRING, 0, &text, NULL), KDA_OK);
    assert_string_equal(text, "ab\xef\xbf\xbd"
                              "de");
    mini_free(m);
}

static void test_longest_string(void **state)
{
    struct mini *m = with_string(65534, 65535, TEXT);
    const char *text = NULL;
    struct kda_error err;
    (void)state;
    for (unsigned i = 0; i < 32767; i++)
        mini_put(m, TEXT + 2 * i, 0x20ac, 2);
    mini_kernel(m);
    assert_int_equal(kda_read_string(m->kernel, STRING, 0, &text, NULL), KDA_OK);
    assert_int_equal(strlen(text), 32767 * 3);
    mini_absent(m, TEXT + 0x8000);
    mini_kernel(m);
    text = NULL;
    assert_int_equal(kda_read_string(m->kernel, STRING, 0, &text, &err), KDA_ABSENT);
    assert_true(err.where == TEXT + 0x8000);
    assert_null(text);
    mini_free(m);
}

static void test_header_crosses_a_hole(void **state)
{
    struct mini *m = mini_create(NULL, false, 0);
    const char *text = NULL;
    uint64_t at = STRING + KDA_PAGE_SIZE - 8;
    (void)state;
    mini_put64(m, at, 0x00080006);
    mini_put64(m, at + 8, TEXT);
    mini_absent(m, STRING + KDA_PAGE_SIZE);
    mini_kernel(m);
    assert_int_equal(kda_read_string(m->kernel, at, 0, &text, NULL), KDA_ABSENT);
    assert_null(text);
    mini_free(m);
}

static void test_too_much_text(void **state)
{
    struct mini *m = with_string(16, 16, TEXT);
    const char *text = NULL;
    (void)state;
    m->kernel->arena.limit = KDA_SHORT_NAMES + 64;
    enum kda_status status = KDA_OK;
    for (unsigned i = 0; i < 5 && status == KDA_OK; i++)
        status = kda_read_string(m->kernel, STRING, 0, &text, NULL);
    assert_int_equal(status, KDA_LIMIT); /* not "out of memory": the image's fault */
    assert_string_equal(text, "abcdefgh");
    /* The short names of processes still find room: without them there is no process list. */
    assert_non_null(kda_arena_alloc(&m->kernel->arena, 32));
    mini_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_integers),       cmocka_unit_test(test_no_integer),
        cmocka_unit_test(test_absent_field),   cmocka_unit_test(test_missing_memory),
        cmocka_unit_test(test_strings),        cmocka_unit_test(test_embedded_nul),
        cmocka_unit_test(test_longest_string), cmocka_unit_test(test_header_crosses_a_hole),
        cmocka_unit_test(test_too_much_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
