/*
 * test_etl_writer.c - the encoder of .etl files that the other tests rely on: offsets of the format
 * spelled out once more, and a decompressor of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "etl_writer.h"

/* MS-XCA 2.4.4, written straight from the text; aborts on what no compressor writes. */
static size_t unpack(const uint8_t *in, size_t size, uint8_t *out, size_t want)
{
    size_t at = 0, done = 0, nibble = 0;
    uint32_t flags = 0;
    unsigned left = 0;
    while (done < want) {
        if (left == 0) {
            flags = kda_le32(in + at);
            at += 4;
            left = 32;
        }
        left--;
        if (!(flags >> left & 1)) {
            out[done++] = in[at++];
            continue;
        }
        unsigned word = kda_le16(in + at);
        at += 2;
        size_t distance = (word >> 3) + 1, length = word & 7;
        if (length == 7) {
            if (nibble == 0) {
                nibble = at;
                length = in[at++] & 15u;
            } else {
                length = in[nibble] >> 4;
                nibble = 0;
            }
            if (length == 15) {
                length = in[at++];
                if (length == 255) {
                    length = kda_le16(in + at);
                    at += 2;
                    if (length == 0) {
                        length = kda_le32(in + at);
                        at += 4;
                    }
                    length -= 15 + 7;
                }
                length += 15;
            }
            length += 7;
        }
        length += 3;
        assert_true(distance <= done && length <= want - done);
        for (; length > 0; length--, done++)
            out[done] = out[done - distance];
    }
    assert_true(at <= size);
    return done;
}

static void check_round(const uint8_t *bytes, size_t size)
{
    struct blob packed = {0};
    etl_compress(bytes, size, &packed);
    /* Bounded reads past the end are part of the decompressor's loop: give it slack. */
    size_t packed_size = packed.size;
    blob_pad(&packed, packed.size + 16);
    uint8_t *out = malloc(size + 1);
    assert_non_null(out);
    assert_int_equal(unpack(packed.data, packed_size, out, size), size);
    assert_memory_equal(out, bytes, size);
    free(out);
    blob_free(&packed);
}

static void test_compression(void **state)
{
    (void)state;
    enum { SIZE = 200000 };
    uint8_t *bytes = malloc(SIZE);
    assert_non_null(bytes);
    uint32_t seed = 7;
    for (size_t i = 0; i < SIZE; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24 & (i % 700 < 350 ? 0x03 : 0xff));
    }
    static const size_t sizes[] = {1, 2, 3, 31, 32, 33, 64, 1000, 8191, 8200, SIZE};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        check_round(bytes, sizes[i]);
    memset(bytes, 0xff, SIZE); /* one match longer than 16 bits say */
    check_round(bytes, SIZE);
    check_round(bytes, 66000);
    for (size_t length = 3; length < 400; length++) /* each step of the length's encoding */
        check_round(bytes, 1 + length);
    free(bytes);
}

static void test_records(void **state)
{
    (void)state;
    static const struct {
        enum etl_kind kind;
        unsigned pointer_size, type;
        size_t header, size_at, time_at;
    } rows[] = {
        {ETL_SYSTEM, 4, 1, 0x20, 4, 0x10},    {ETL_SYSTEM, 8, 2, 0x20, 4, 0x10},
        {ETL_COMPACT, 4, 3, 0x18, 4, 0x10},   {ETL_COMPACT, 8, 4, 0x18, 4, 0x10},
        {ETL_PERFINFO, 4, 16, 0x10, 4, 8},    {ETL_PERFINFO, 8, 17, 0x10, 4, 8},
        {ETL_FULL, 4, 10, 0x30, 0, 0x10},     {ETL_FULL, 8, 20, 0x30, 0, 0x10},
        {ETL_INSTANCE, 4, 11, 0x48, 0, 0x10}, {ETL_INSTANCE, 8, 21, 0x48, 0, 0x10},
        {ETL_EVENT, 4, 18, 0x50, 0, 0x10},    {ETL_EVENT, 8, 19, 0x50, 0, 0x10},
        {ETL_ERROR, 8, 13, 0x50, 0, 0x10},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct etl_record r = {.kind = rows[i].kind,
                               .pointer_size = rows[i].pointer_size,
                               .time = 0x1122334455667788u,
                               .pid = 4,
                               .tid = 8,
                               .payload = "abcde",
                               .payload_size = 5};
        struct blob out = {0};
        assert_int_equal(etl_put_record(&out, &r), rows[i].header + 5);
        assert_int_equal(out.size, (rows[i].header + 5 + 7) & ~(size_t)7);
        assert_int_equal(out.data[2], rows[i].type);
        assert_int_equal(out.data[3], 0xc0);
        assert_int_equal(kda_le16(out.data + rows[i].size_at), rows[i].header + 5);
        assert_true(kda_le64(out.data + rows[i].time_at) == r.time);
        if (r.kind != ETL_PERFINFO) {
            assert_int_equal(kda_le32(out.data + 8), 8); /* thread before process */
            assert_int_equal(kda_le32(out.data + 12), 4);
        }
        assert_memory_equal(out.data + rows[i].header, "abcde", 5);
        blob_free(&out);
    }
}

static void test_items_and_message(void **state)
{
    (void)state;
    uint8_t related[16] = {1};
    const struct etl_ext ext[] = {{ETL_EXT_RELATED, related, 16}, {ETL_EXT_SESSION, "\5\0\0", 4}};
    struct etl_record r = {.kind = ETL_EVENT, .ext = ext, .ext_count = 2, .payload_size = 0};
    struct blob out = {0};
    assert_int_equal(etl_put_record(&out, &r), 0x50 + 24 + 16);
    assert_int_equal(kda_le16(out.data + 4), 1);
    assert_int_equal(kda_le16(out.data + 0x50), 24);
    assert_int_equal(kda_le16(out.data + 0x54), 1); /* another follows */
    assert_int_equal(kda_le16(out.data + 0x68), 16);
    assert_int_equal(kda_le16(out.data + 0x6a), 3);
    assert_int_equal(kda_le16(out.data + 0x6c), 0);
    assert_int_equal(kda_le16(out.data + 0x6e), 4);
    out.size = 0;
    r = (struct etl_record){.kind = ETL_MESSAGE,
                            .id = 10,
                            .flags =
                                ETL_MSG_SEQUENCE | ETL_MSG_GUID | ETL_MSG_TIME | ETL_MSG_SYSTEMINFO,
                            .sequence = 9,
                            .time = 77,
                            .pid = 4,
                            .tid = 8};
    etl_guid("3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c", r.guid);
    assert_int_equal(etl_put_record(&out, &r), 8 + 4 + 16 + 8 + 8);
    assert_int_equal(out.data[3], 0x90);
    assert_int_equal(kda_le32(out.data + 8), 9);
    assert_memory_equal(out.data + 12, "\xd0\xa8\x6f\x3d\x05\xfe\xd0\x11\x9d\xda", 10);
    assert_int_equal(kda_le64(out.data + 28), 77);
    assert_int_equal(kda_le32(out.data + 36), 8);
    assert_int_equal(kda_le32(out.data + 40), 4);
    blob_free(&out);
}

static void test_schema(void **state)
{
    (void)state;
    struct blob out = {0};
    etl_schema_begin(&out, "E", 0x1);
    etl_schema_field(&out, "a", 8, 0, 0);
    etl_schema_field(&out, "b", 8 | 0x20, 4, 0x0fe00000);
    etl_schema_count(&out, 3);
    etl_schema_end(&out);
    static const uint8_t want[] = {0, 0, 0x80, 0x80, 0x80, 0x01, 'E',  0, 'a',
                                   0, 8, 'b',  0,    0xa8, 0x84, 0x7f, 3, 0};
    assert_int_equal(out.size, sizeof(want));
    assert_int_equal(kda_le16(out.data), sizeof(want));
    assert_memory_equal(out.data + 2, want + 2, sizeof(want) - 2);
    blob_free(&out);
}

/* Header chain of a file: sizes lead from buffer to buffer to its end. */
static uint32_t count_buffers(const struct blob *file)
{
    uint32_t count = 0;
    size_t at = 0;
    while (at + ETL_BUFFER_HEADER <= file->size) {
        at += kda_le32(file->data + at);
        count++;
    }
    assert_int_equal(at, file->size);
    return count;
}

static void fill(struct etl_writer *w, uint32_t records)
{
    for (uint32_t i = 0; i < records; i++) {
        uint64_t time = w->params.start_raw + i;
        struct etl_record r = {.kind = ETL_SYSTEM, .group = 3, .type = 1, .time = time, .pid = i};
        etl_add(w, i % 2, &r);
    }
}

static void test_files(void **state)
{
    (void)state;
    for (unsigned variant = 0; variant < 4; variant++) {
        struct etl_params params = etl_defaults();
        params.buffer_size = 1024;
        params.windows7 = variant == 1;
        params.merged = variant == 2;
        if (variant == 3)
            params.mode |= ETL_MODE_COMPRESSED;
        struct etl_writer w;
        etl_begin(&w, &params);
        fill(&w, 100); /* 29 of 32 bytes fit a buffer */
        etl_append_session(&w, 9);
        fill(&w, 2);
        etl_finish(&w);
        assert_int_equal(count_buffers(&w.file), 7);
        const uint8_t *d = w.file.data;
        assert_int_equal(kda_le16(d + 0x36), 4);
        assert_int_equal(kda_le32(d + 72 + 32), 1024);
        assert_int_equal(kda_le32(d + 72 + 32 + 36), 7);
        assert_true(kda_le64(d + 72 + 32 + 248 + 8) == params.frequency);
        assert_true(kda_le64(d + 72 + 32 + 248 + 16) == params.start_100ns);
        assert_int_equal(kda_le32(d + 72 + 32 + 248 + 24), 1);
        const uint8_t *second = d + kda_le32(d);
        assert_int_equal(kda_le64(second + 0x18), 1);
        assert_int_equal(kda_le16(second + 0x34), variant == 1 ? 0 : variant == 3 ? 0x60 : 0x20);
        assert_int_equal(kda_le16(second + 0x28) >> 8, variant == 1 ? 8 : 0);
        etl_writer_free(&w);
    }
}

static void test_circular(void **state)
{
    (void)state;
    struct etl_params params = etl_defaults();
    params.buffer_size = 1024;
    params.mode = ETL_MODE_CIRCULAR;
    params.circular_buffers = 3;
    struct etl_writer w;
    etl_begin(&w, &params);
    fill(&w, 58 * 4);
    etl_finish(&w);
    assert_int_equal(count_buffers(&w.file), 4);
    assert_int_equal(w.written, 9);
    /* Sequences 1..8 in three places: 7, 8, 6. */
    static const unsigned want[] = {7, 8, 6};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(kda_le64(w.file.data + 1024 * (i + 1) + 0x18), want[i]);
    etl_writer_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_compression),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_items_and_message),
        cmocka_unit_test(test_schema),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_circular),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
