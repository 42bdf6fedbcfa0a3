/*
 * test_etl_limits.c - trace files that claim too much, are none, or meet a system that fails.
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
#include "etl_sample.h"
#include "etl_writer.h"
#include "kda/etl.h"

/* A compressed buffer of a few bytes that says it is `used` bytes long when unpacked. */
static void put_claim(struct blob *file, uint32_t cpu, uint32_t used, const struct blob *packed)
{
    size_t at = file->size;
    struct blob header = {0};
    struct etl_buffer b = {.size = 4096, .cpu = (uint16_t)cpu, .sequence = cpu + 1, .state = 3};
    b.flags = KDA_ETL_FLAG_PROC_INDEX;
    etl_put_buffer(&header, &b, NULL, 0);
    blob_put(file, header.data, 72);
    blob_put(file, packed->data, packed->size);
    blob_set32(file, at, 72 + (uint32_t)packed->size);
    blob_set32(file, at + 4, used);
    blob_set32(file, at + 0x30, used);
    file->data[at + 0x34] |= KDA_ETL_FLAG_COMPRESSED;
    blob_free(&header);
}

static size_t count_why(const struct kda_etl *etl, const char *part)
{
    size_t found = 0;
    for (size_t i = 0; i < kda_etl_damage_count(etl); i++)
        found += strstr(kda_etl_damage_at(etl, i)->why, part) != NULL;
    return found;
}

/* Neither memory nor time grows with what a file claims. */
static void test_claims(void **state)
{
    (void)state;
    for (int bomb = 0; bomb < 2; bomb++) {
        struct etl_params p = etl_defaults();
        struct etl_writer w;
        struct blob packed = {0};
        uint32_t used = bomb ? 16u << 20 : KDA_ETL_MAX_BUFFER, count = 24;
        uint8_t *zeros = calloc(used, 1);
        assert_non_null(zeros);
        p.mode = 1 | ETL_MODE_COMPRESSED;
        p.buffer_size = 1024;
        etl_begin(&w, &p);
        etl_finish(&w);
        struct blob record = {0};
        struct etl_record one = etl_sample_event(ETL_T0, 1);
        etl_put_record(&record, &one);
        etl_compress(bomb ? zeros : record.data, bomb ? used - 72 : record.size, &packed);
        blob_free(&record);
        for (uint32_t i = 0; i < count; i++)
            put_claim(&w.file, bomb ? 0 : i, used, &packed);
        struct kda_etl *etl = etl_open_blob(&w.file);
        const struct kda_etl_record *r;
        assert_int_equal(kda_etl_info(etl)->buffers, 1 + count);
        assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
        assert_non_null(r);
        uint32_t got = 0;
        while (kda_etl_next(etl, &r, NULL) == KDA_OK && r)
            got++;
        assert_int_equal(got, bomb ? 0 : KDA_ETL_MAX_MEMORY / KDA_ETL_MAX_BUFFER - 1);
        size_t lost = count_why(etl, bomb ? "expands more" : "too much memory");
        assert_true(lost > 0 && lost < count);
        kda_etl_close(etl);
        blob_free(&packed);
        etl_writer_free(&w);
        free(zeros);
    }
}

static void test_refused(void **state)
{
    (void)state;
    struct kda_etl *etl = NULL;
    struct kda_error err;
    uint8_t *bytes = calloc(300000, 1);
    assert_non_null(bytes);
    assert_int_equal(kda_etl_open("/no/such/file.etl", &etl, &err), KDA_IO);
    for (size_t size = 0; size < 300000; size = size * 5 + 1)
        assert_int_equal(kda_etl_open_memory(bytes, size, "zeros", &etl, &err), KDA_BAD_DATA);
    memset(bytes, 0xff, 300000);
    assert_int_equal(kda_etl_open_memory(bytes, 300000, "ones", &etl, &err), KDA_BAD_DATA);
    uint32_t seed = 3;
    for (size_t i = 0; i < 300000; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
    assert_int_equal(kda_etl_open_memory(bytes, 300000, "noise", &etl, &err), KDA_BAD_DATA);
    assert_non_null(strstr(err.text, "noise"));
    assert_null(etl);
    free(bytes);
}

struct counted {
    uint64_t count;
    size_t rows;
    uint64_t last;
};

static void take_count(void *context, const struct kda_etl_count *count)
{
    struct counted *c = context;
    assert_true(c->rows == 0 || count->others || count->count <= c->last);
    c->last = count->count;
    c->count += count->count;
    c->rows++;
    assert_false(count->others && c->rows != KDA_ETL_MAX_COUNTS + 1);
}

/* More kinds than are kept apart: the rest is one entry, and nothing is left out of the sum. */
static void test_statistics(void **state)
{
    (void)state;
    struct kda_etl_stats *stats;
    assert_int_equal(kda_etl_stats_create(&stats, NULL), KDA_OK);
    uint8_t guid[16] = {0};
    struct kda_etl_record r = {
        .header = KDA_ETL_EVENT64, .shape = KDA_ETL_SHAPE_EVENT, .guid = guid, .size = 80};
    for (uint32_t i = 0; i < 3 * KDA_ETL_MAX_COUNTS; i++) {
        uint32_t kind = i % (KDA_ETL_MAX_COUNTS + 100);
        r.id = (uint16_t)kind;
        guid[0] = (uint8_t)(kind >> 16);
        assert_int_equal(kda_etl_stats_add(stats, &r, NULL), KDA_OK);
    }
    struct counted c = {0};
    kda_etl_stats_walk(stats, take_count, &c);
    assert_int_equal(c.count, 3 * KDA_ETL_MAX_COUNTS);
    assert_int_equal(c.rows, KDA_ETL_MAX_COUNTS + 1);
    kda_etl_stats_destroy(stats);
    kda_etl_stats_destroy(NULL);
}

#ifdef KDA_FAULT_INJECTION
static enum kda_status read_all(const struct blob *file, uint64_t *records, struct kda_error *err)
{
    struct kda_etl *etl = NULL;
    struct kda_etl_stats *stats = NULL;
    const struct kda_etl_record *r;
    enum kda_status status = kda_etl_open_memory(file->data, file->size, "faults", &etl, err);
    if (status == KDA_OK)
        status = kda_etl_stats_create(&stats, err);
    *records = 0;
    for (int pass = 0; status == KDA_OK && pass < 2; pass++) {
        kda_etl_rewind(etl, pass ? KDA_ETL_FILE_ORDER : KDA_ETL_TIME_ORDER);
        while (status == KDA_OK && (status = kda_etl_next(etl, &r, err)) == KDA_OK && r) {
            (*records)++;
            status = kda_etl_stats_add(stats, r, err);
        }
    }
    kda_etl_stats_destroy(stats);
    kda_etl_close(etl);
    return status;
}
#endif

static void test_faults(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    for (int compressed = 0; compressed < 2; compressed++) {
        struct etl_params p = etl_defaults();
        struct etl_writer w;
        p.mode = ETL_MODE_CIRCULAR | (compressed ? ETL_MODE_COMPRESSED : 0);
        p.buffer_size = 2048;
        etl_begin(&w, &p);
        (void)etl_fill(&w, 3, 60, ETL_T0 + 1);
        etl_finish(&w);
        w.file.data[w.file.size / 2] ^= 0x55; /* the ways of damage as well */
        memset(w.file.data + (compressed ? 512 : 4096), 0, 72);
        uint64_t whole, records;
        struct kda_error err;
        assert_int_equal(read_all(&w.file, &whole, &err), KDA_OK);
        for (uint64_t n = 1;; n++) {
            kda_fault_arm(n);
            enum kda_status status = read_all(&w.file, &records, &err);
            bool fired = kda_fault_fired();
            kda_fault_arm(0);
            if (!fired) {
                assert_int_equal(status, KDA_OK);
                assert_int_equal(records, whole);
                assert_true(n > 20);
                break;
            }
            /* A damage that could not be kept is counted all the same. */
            if (status == KDA_OK)
                assert_int_equal(records, whole);
            else
                assert_true(status == KDA_NO_MEMORY || status == KDA_IO);
        }
        etl_writer_free(&w);
    }
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_statistics),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
