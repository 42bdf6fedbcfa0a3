/*
 * test_etl_seeds.c - the fuzzer's seeds are small files of every kind and streams of plain LZ77,
 * written by the encoder of the tests. KDA_WRITE_SEEDS=1 writes them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "etl_sample.h"

static void check_seed(const char *folder, const char *name, const struct blob *blob)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), KDA_SOURCE_DIR "/tests/fuzz/corpus/%s/%s", folder, name);
    if (getenv("KDA_WRITE_SEEDS")) {
        FILE *out = fopen(path, "wb");
        assert_non_null(out);
        assert_int_equal(fwrite(blob->data, 1, blob->size, out), blob->size);
        assert_int_equal(fclose(out), 0);
    }
    uint8_t *bytes = malloc(blob->size + 1);
    assert_non_null(bytes);
    FILE *in = fopen(path, "rb");
    assert_non_null(in);
    assert_int_equal(fread(bytes, 1, blob->size + 1, in), blob->size);
    (void)fclose(in);
    assert_memory_equal(bytes, blob->data, blob->size);
    free(bytes);
}

static const struct {
    const char *name;
    unsigned pointer_size;
    uint32_t mode, clock;
    bool windows7, merged, unfinished;
    uint16_t compression;
} files[] = {
    {"plain64", 8, 1, 1, false, false, false, 3},
    {"plain32", 4, 1, 3, false, false, false, 3},
    {"windows7", 8, 1, 1, true, false, false, 3},
    {"merged", 8, ETL_MODE_RELOG, 1, false, true, false, 3},
    {"packed", 8, 1 | ETL_MODE_COMPRESSED, 1, false, false, false, 3},
    {"lznt1", 8, 1 | ETL_MODE_COMPRESSED, 1, false, false, false, 2},
    {"appended", 8, ETL_MODE_APPEND, 2, false, false, false, 3},
    {"circular", 8, ETL_MODE_CIRCULAR, 1, false, false, false, 3},
    {"unfinished", 8, 1, 1, false, false, true, 3},
};

/* One record of each kind, with everything that it can have. */
static void put_kinds(struct etl_writer *w, unsigned pointer_size, uint64_t time)
{
    static const uint64_t counters[] = {1, 2};
    const struct etl_ext items[] = {{ETL_EXT_STACK64, "0123456789abcdef", 16},
                                    {ETL_EXT_RELATED, "0123456789abcdef", 16},
                                    {ETL_EXT_SCHEMA,
                                     "\x08\x00\x00n\x00"
                                     "f\x00\x03",
                                     8}};
    for (unsigned kind = ETL_SYSTEM; kind <= ETL_MESSAGE; kind++) {
        struct etl_record r = etl_sample_event(time + kind, kind);
        r.kind = (enum etl_kind)kind;
        r.pointer_size = pointer_size;
        r.payload_size = 5;
        r.ext = items;
        r.ext_count = kind == ETL_EVENT ? 3 : 0;
        r.counters = counters;
        r.counter_count = kind == ETL_PERFINFO ? 2 : 0;
        r.flags = kind == ETL_MESSAGE ? ETL_MSG_GUID | ETL_MSG_TIME | ETL_MSG_SYSTEMINFO : 0;
        etl_add(w, kind % 3, &r);
    }
}

static void test_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct etl_params p = etl_defaults();
        struct etl_writer w;
        p.buffer_size = 1024;
        p.pointer_size = files[i].pointer_size;
        p.mode = files[i].mode;
        p.clock = files[i].clock;
        p.windows7 = files[i].windows7;
        p.merged = files[i].merged;
        p.compression = files[i].compression;
        p.circular_buffers = 4;
        if (files[i].unfinished)
            p.end_100ns = 0;
        etl_begin(&w, &p);
        put_kinds(&w, p.pointer_size, ETL_T0);
        if (p.mode & ETL_MODE_APPEND)
            etl_append_session(&w, 9);
        if (p.mode & (ETL_MODE_APPEND | ETL_MODE_CIRCULAR))
            etl_fill(&w, 2, 12, ETL_T0 + 100);
        etl_finish(&w);
        if (files[i].unfinished)
            blob_put(&w.file, NULL, 600);
        check_seed("etl", files[i].name, &w.file);
        struct kda_etl *etl = etl_open_blob(&w.file);
        const struct kda_etl_record *r;
        size_t records = 0;
        while (kda_etl_next(etl, &r, NULL) == KDA_OK && r)
            records++;
        assert_true(records > 1 || p.compression != 3);
        assert_int_equal(kda_etl_damage_count(etl) > 0, p.compression != 3);
        kda_etl_close(etl);
        etl_writer_free(&w);
    }
}

static void test_streams(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t run, distance, tail;
    } streams[] = {{"literals", 0, 1, 60}, {"short", 8, 3, 9},    {"nibble", 20, 2, 9},
                   {"byte", 200, 5, 40},   {"word", 3000, 7, 40}, {"long", 70000, 4, 1}};
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        size_t size = streams[i].distance + streams[i].run + streams[i].tail;
        struct blob packed = {0};
        uint8_t *plain = malloc(size);
        assert_non_null(plain);
        for (size_t k = 0; k < size; k++)
            plain[k] = (uint8_t)(k < size - streams[i].tail ? k % streams[i].distance : k * 37);
        etl_compress(plain, size, &packed);
        check_seed("xpress", streams[i].name, &packed);
        blob_free(&packed);
        free(plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
