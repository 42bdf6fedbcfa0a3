/*
 * test_xpress.c - plain LZ77: streams that Windows compressed, hand-made ones, damaged ones.
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
#include "etl_writer.h"
#include "file.h"
#include "xpress.h"

#define VECTORS KDA_SOURCE_DIR "/../shared/data/xpress/"

static const char *const vectors[] = {
    "27826-8.txt",
    "64k-plus-one-zeros",
    "64k-zeros",
    "abc-times-105",
    "fuzzing-0fc2d461b56cd8103c91",
    "generate-windows-test-vectors.c",
    "midsummer-nights-dream.txt",
};

static bool load(const char *path, void **bytes, size_t *size)
{
    struct kda_file *file;
    if (kda_file_open(path, &file, NULL) != KDA_OK)
        return false;
    assert_int_equal(kda_file_read_all(file, 1 << 20, bytes, size, NULL), KDA_OK);
    kda_file_close(file);
    return true;
}

static void test_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]); i++) {
        char path[512];
        void *in, *plain;
        size_t in_size, plain_size, got;
        (void)snprintf(path, sizeof(path), VECTORS "compressed-plain.%s.lzplain", vectors[i]);
        if (!load(path, &in, &in_size))
            skip();
        (void)snprintf(path, sizeof(path), VECTORS "decompressed.%s.decomp", vectors[i]);
        assert_true(load(path, &plain, &plain_size));
        uint8_t *out = malloc(plain_size);
        assert_non_null(out);
        assert_int_equal(kda_xpress_decompress(in, in_size, out, plain_size, &got),
                         KDA_XPRESS_WHOLE);
        assert_int_equal(got, plain_size);
        assert_memory_equal(out, plain, plain_size);
        /* Every shorter output is a prefix of it: matches are cut where the room ends. */
        for (size_t room = 0; room < plain_size; room += plain_size / 13 + 1) {
            memset(out, 0x55, plain_size);
            assert_int_equal(kda_xpress_decompress(in, in_size, out, room, &got), KDA_XPRESS_WHOLE);
            assert_int_equal(got, room);
            assert_memory_equal(out, plain, room);
            assert_int_equal(out[room], 0x55);
        }
        /* And so is what a shorter input gives. */
        for (size_t size = 0; size < in_size; size += in_size / 13 + 1) {
            enum kda_xpress end = kda_xpress_decompress(in, size, out, plain_size, &got);
            assert_true(end == KDA_XPRESS_SHORT || got == plain_size);
            assert_memory_equal(out, plain, got);
        }
        free(out);
        kda_free(in);
        kda_free(plain);
    }
}

/* The encoder of the tests: all forms of length. */
static void test_lengths(void **state)
{
    (void)state;
    static const size_t runs[] = {3,   9,   10,  11,    24,    25,    26,     279,   280,
                                  281, 282, 300, 65535, 65536, 65560, 100000, 200000};
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        for (size_t distance = 1; distance < 20; distance += 3) {
            size_t size = runs[i] + distance + 5, got;
            uint8_t *plain = malloc(size), *out = malloc(size);
            assert_non_null(plain);
            assert_non_null(out);
            for (size_t k = 0; k < size; k++)
                plain[k] = (uint8_t)(k < distance + runs[i] ? 'a' + k % distance : 'A' + k % 7);
            struct blob packed = {0};
            etl_compress(plain, size, &packed);
            assert_int_equal(kda_xpress_decompress(packed.data, packed.size, out, size, &got),
                             KDA_XPRESS_WHOLE);
            assert_int_equal(got, size);
            assert_memory_equal(out, plain, size);
            blob_free(&packed);
            free(plain);
            free(out);
        }
    }
}

static enum kda_xpress run(const char *bytes, size_t size, size_t room, size_t *got)
{
    /* Copies of exact size: a sanitizer sees the first byte too many. */
    uint8_t *in = malloc(size + !size), *out = malloc(room + !room);
    assert_non_null(in);
    assert_non_null(out);
    memcpy(in, bytes, size);
    enum kda_xpress end = kda_xpress_decompress(in, size, out, room, got);
    free(in);
    free(out);
    return end;
}

static void test_damaged(void **state)
{
    (void)state;
    size_t got;
    /* Flag word: literal, then matches. */
#define FLAGS "\xff\xff\xff\x7f"
    assert_int_equal(run("", 0, 0, &got), KDA_XPRESS_WHOLE);
    uint8_t byte;
    assert_int_equal(kda_xpress_decompress(NULL, 0, &byte, 1, &got), KDA_XPRESS_SHORT);
    assert_int_equal(got, 0);
    assert_int_equal(run("", 0, 5, &got), KDA_XPRESS_SHORT);
    assert_int_equal(run("\xff\xff\xff", 3, 5, &got), KDA_XPRESS_SHORT);
    assert_int_equal(run(FLAGS "a", 5, 5, &got), KDA_XPRESS_SHORT);
    assert_int_equal(got, 1);
    assert_int_equal(run(FLAGS "a\x00", 6, 5, &got), KDA_XPRESS_SHORT);
    assert_int_equal(run(FLAGS "a\x00\x00", 7, 4, &got), KDA_XPRESS_WHOLE);
    /* Two bytes back with one byte there; a match as the first thing. */
    assert_int_equal(run(FLAGS "a\x08\x00", 7, 4, &got), KDA_XPRESS_BAD);
    assert_int_equal(got, 1);
    assert_int_equal(run("\xff\xff\xff\xff\x00\x00", 6, 4, &got), KDA_XPRESS_BAD);
    /* Lengths that end early. */
    assert_int_equal(run(FLAGS "a\x07\x00", 7, 4000, &got), KDA_XPRESS_SHORT);
    assert_int_equal(run(FLAGS "a\x07\x00\x0f", 8, 4000, &got), KDA_XPRESS_SHORT);
    assert_int_equal(run(FLAGS "a\x07\x00\x0f\xff", 9, 4000, &got), KDA_XPRESS_SHORT);
    assert_int_equal(run(FLAGS "a\x07\x00\x0f\xff\x00", 10, 4000, &got), KDA_XPRESS_SHORT);
    assert_int_equal(run(FLAGS "a\x07\x00\x0f\xff\x00\x00", 11, 4000, &got), KDA_XPRESS_SHORT);
    assert_int_equal(got, 1);
    /* The long forms hold the whole length: less than 22 cannot be. */
    assert_int_equal(run(FLAGS "a\x07\x00\x0f\xff\x15\x00", 11, 4000, &got), KDA_XPRESS_BAD);
    assert_int_equal(run(FLAGS "a\x07\x00\x0f\xff\x16\x00", 11, 26, &got), KDA_XPRESS_WHOLE);
    assert_int_equal(run(FLAGS "a\x07\x00\x0f\xff\x00\x00\xff\xff\xff\xff", 15, 70000, &got),
                     KDA_XPRESS_WHOLE);
}

/* Whatever the bytes, it ends and stays inside. */
static void test_random(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        char bytes[96];
        size_t got;
        for (size_t k = 0; k < sizeof(bytes); k++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[k] = (char)(seed >> 24);
        }
        size_t size = seed >> 8 & 63, room = seed >> 16 & 511;
        (void)run(bytes, size, room, &got);
        assert_true(got <= room);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
