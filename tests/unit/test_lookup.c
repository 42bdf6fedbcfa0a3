/*
 * test_lookup.c - names of symbol files: those that are wanted, and those that only look so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kda/symbols.h"
#include "symbols/lookup.h"

#define TAILS 512u /* twice the slots: some tail leads to each name's slot */

/* The text in memory of its own size, so that a sanitizer sees what reads past it. */
static bool found(const struct kda_lookup *lookup, const char *text, size_t size, unsigned *id)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    bool is = kda_lookup_find(lookup, copy, size, id);
    free(copy);
    return is;
}

static void check_name(const struct kda_lookup *lookup, const char *name, unsigned expected)
{
    char text[256];
    size_t size = strlen(name);
    unsigned id = UINT32_MAX;
    assert_true(size + 4 < sizeof(text));
    memcpy(text, name, size + 1);
    assert_true(found(lookup, text, size, &id));
    assert_int_equal(id, expected);
    assert_false(found(lookup, text, size - 1, &id) && id == expected);
    for (unsigned tail = 0; tail < TAILS; tail++) {
        text[size] = '\0';
        text[size + 1] = (char)(tail & 0xFF);
        text[size + 2] = (char)(tail >> 8);
        assert_false(found(lookup, text, size + 1, &id));
        assert_false(found(lookup, text, size + 3, &id));
    }
}

static void test_symbols(void **state)
{
    struct kda_lookup lookup;
    (void)state;
    kda_lookup_symbols(&lookup);
    for (unsigned i = 0; i < KDA_SYM_COUNT; i++)
        check_name(&lookup, kda_symbol_name((enum kda_symbol_id)i), i);
}

static void test_structs(void **state)
{
    struct kda_lookup lookup;
    (void)state;
    kda_lookup_structs(&lookup);
    for (unsigned i = 0; i < KDA_STRUCT_COUNT; i++)
        check_name(&lookup, kda_struct_name((enum kda_struct_id)i), i);
}

static void test_fields(void **state)
{
    (void)state;
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
        struct kda_lookup_fields fields;
        enum kda_field_id field;
        char text[128];
        kda_lookup_fields(&fields, kda_field_struct((enum kda_field_id)i));
        const char *name = kda_field_name((enum kda_field_id)i) + fields.prefix;
        size_t size = strlen(name);
        assert_true(size + 2 < sizeof(text));
        memcpy(text, name, size + 1);
        text[size + 1] = 'x';
        assert_true(kda_lookup_field(&fields, text, size, &field));
        assert_int_equal(field, i);
        assert_false(kda_lookup_field(&fields, text, size + 1, &field));
        assert_false(kda_lookup_field(&fields, text, size + 2, &field));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbols),
        cmocka_unit_test(test_structs),
        cmocka_unit_test(test_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
