/*
 * test_etl_file.c - whole files of every kind: order, compression, clocks, sessions, losses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bytes.h"
#include "etl_sample.h"
#include "etl_writer.h"
#include "kda/etl.h"

/* Reads to the end in time order: all of `count` numbers once, times never going back. The first
 * record of a file is its header and has no number. */
static void check_sorted(struct kda_etl *etl, uint32_t count)
{
    const struct kda_etl_record *r;
    uint8_t *seen = calloc(count + 1, 1);
    uint64_t last = 0;
    uint32_t got = 0;
    assert_non_null(seen);
    assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
    assert_non_null(r);
    assert_int_equal(r->shape, KDA_ETL_SHAPE_SYSTEM);
    assert_int_equal(r->type, 0);
    while (kda_etl_next(etl, &r, NULL) == KDA_OK && r) {
        assert_true(r->raw_time >= last);
        last = r->raw_time;
        assert_true(r->pid < count);
        assert_int_equal(seen[r->pid], 0);
        seen[r->pid] = 1;
        got++;
    }
    assert_int_equal(got, count);
    /* After the end it stays at the end. */
    assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
    assert_null(r);
    free(seen);
}

static void check_whole(struct kda_etl *etl)
{
    if (kda_etl_damage_count(etl) > 0)
        fail_msg("damage: %s", kda_etl_damage_at(etl, 0)->why);
}

static void test_order(void **state)
{
    (void)state;
    for (uint32_t cpus = 1; cpus < 70; cpus += 17) {
        for (int compressed = 0; compressed < 2; compressed++) {
            struct etl_params p = etl_defaults();
            struct etl_writer w;
            p.cpus = cpus;
            p.buffer_size = 4096;
            p.mode = compressed ? 1 | ETL_MODE_COMPRESSED : 1;
            etl_begin(&w, &p);
            uint32_t count = etl_fill(&w, cpus, 5000, ETL_T0 + 5);
            etl_finish(&w);
            struct kda_etl *etl = etl_open_blob(&w.file);
            check_sorted(etl, count);
            check_whole(etl);
            const struct kda_etl_info *info = kda_etl_info(etl);
            assert_int_equal(info->buffers, w.written);
            assert_int_equal(info->buffers_written, w.written);
            assert_int_equal(info->compressed_buffers, compressed ? w.written - 1 : 0);
            assert_int_equal(info->compression, compressed ? KDA_ETL_COMPRESSION_XPRESS : 0);
            assert_int_equal(kda_etl_cpu_count(etl), cpus);
            assert_int_equal(kda_etl_session_count(etl), 1);
            assert_true(kda_etl_session_at(etl, 0)->closed);
            /* The other order, then the first again. */
            const struct kda_etl_record *r;
            uint64_t off = 0, seen = 0;
            kda_etl_rewind(etl, KDA_ETL_FILE_ORDER);
            while (kda_etl_next(etl, &r, NULL) == KDA_OK && r) {
                assert_true(seen++ == 0 || compressed || r->off > off);
                off = r->off;
            }
            assert_int_equal(seen, count + 1);
            kda_etl_rewind(etl, KDA_ETL_TIME_ORDER);
            check_sorted(etl, count);
            kda_etl_close(etl);
            etl_writer_free(&w);
        }
    }
}

/* Equal times: by sequence of the buffer, then by place in it. */
static void test_ties(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    etl_begin(&w, &p);
    for (uint32_t i = 0; i < 6; i++) {
        struct etl_record r = etl_sample_event(ETL_T0 + 9, i);
        etl_add(&w, 2 - i / 2, &r);
        if (i & 1)
            etl_flush(&w, 2 - i / 2, false);
    }
    etl_finish(&w);
    struct kda_etl *etl = etl_open_blob(&w.file);
    const struct kda_etl_record *r;
    assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
        assert_int_equal(r->pid, i);
        assert_int_equal(r->cpu, 2 - i / 2);
        assert_int_equal(r->buffer, 1 + i / 2);
    }
    kda_etl_close(etl);
    etl_writer_free(&w);
}

static void test_header(void **state)
{
    (void)state;
    for (unsigned pointer = 4; pointer <= 8; pointer += 4) {
        for (uint32_t clock = 0; clock < 5; clock++) {
            struct etl_params p = etl_defaults();
            struct etl_writer w;
            p.pointer_size = pointer;
            p.clock = clock;
            p.frequency = 2337949;
            p.cpu_mhz = 2600;
            p.events_lost = 11;
            p.buffers_lost = 12;
            p.layout_major = 1;
            p.layout_minor = 5;
            p.os_major = 6;
            p.os_minor = 1;
            p.build = 7601;
            if (clock == 2)
                p.start_raw = p.start_100ns;
            etl_begin(&w, &p);
            etl_fill(&w, 4, 10, p.start_raw + 1);
            etl_finish(&w);
            struct kda_etl *etl = etl_open_blob(&w.file);
            const struct kda_etl_info *info = kda_etl_info(etl);
            assert_true(info->has_header);
            assert_int_equal(info->pointer_size, pointer);
            assert_int_equal(info->buffer_size, p.buffer_size);
            assert_int_equal(info->os_major, 6);
            assert_int_equal(info->os_minor, 1);
            assert_int_equal(info->os_build, 7601);
            assert_int_equal(info->layout_major, 1);
            assert_int_equal(info->layout_minor, 5);
            assert_int_equal(info->processors, 4);
            assert_true(info->start_time == p.start_100ns);
            assert_true(info->end_time == p.end_100ns);
            assert_true(info->boot_time == p.boot_100ns);
            assert_int_equal(info->timer_resolution, 156250);
            assert_int_equal(info->mode, 1);
            assert_int_equal(info->events_lost, 11);
            assert_int_equal(info->buffers_lost, 12);
            assert_int_equal(info->cpu_mhz, 2600);
            assert_string_equal(info->session_name, "Sample");
            assert_string_equal(info->file_name, "C:\\sample.etl");
            assert_false(info->unfinished);
            uint64_t time, raw = p.start_raw + 2600000000u;
            assert_true(kda_etl_time(etl, raw, &time));
            /* 0 and 4 are no clocks: taken for QPC. */
            uint64_t after = clock == 2   ? 2600000000u
                             : clock == 3 ? 10000000u
                                          : UINT64_C(2600000000) * 10000000 / 2337949;
            assert_true(time == p.start_100ns + after);
            assert_int_equal(info->clock_guessed, clock == 0 || clock == 4);
            kda_etl_close(etl);
            etl_writer_free(&w);
        }
    }
}

static void test_no_frequency(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    p.frequency = 0;
    etl_begin(&w, &p);
    etl_finish(&w);
    struct kda_etl *etl = etl_open_blob(&w.file);
    assert_true(kda_etl_info(etl)->clock_guessed);
    uint64_t time;
    assert_true(kda_etl_time(etl, ETL_T0 + 7, &time));
    assert_true(time == p.start_100ns + 7);
    kda_etl_close(etl);
    etl_writer_free(&w);
}

/* Windows 7 headers, merged header buffers with records beyond SavedOffset. */
static void test_old_and_merged(void **state)
{
    (void)state;
    for (int merged = 0; merged < 2; merged++) {
        struct etl_params p = etl_defaults();
        struct etl_writer w;
        struct blob more = {0};
        struct etl_record extra = etl_sample_event(ETL_T0, 0);
        extra.kind = ETL_FULL;
        for (int i = 0; i < 3; i++)
            etl_put_record(&more, &extra);
        p.windows7 = !merged;
        p.merged = merged;
        p.header_records = merged ? &more : NULL;
        p.mode = merged ? ETL_MODE_RELOG : 1;
        etl_begin(&w, &p);
        uint32_t count = etl_fill(&w, 3, 3000, ETL_T0 + 1);
        etl_finish(&w);
        struct kda_etl *etl = etl_open_blob(&w.file);
        const struct kda_etl_record *r;
        assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
        for (int i = 0; i < (merged ? 3 : 0); i++) {
            assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
            assert_int_equal(r->header, KDA_ETL_FULL64);
            assert_int_equal(r->buffer, 0);
        }
        uint32_t got = 0;
        while (kda_etl_next(etl, &r, NULL) == KDA_OK && r) {
            assert_true(r->cpu < 3);
            got++;
        }
        assert_int_equal(got, count);
        check_whole(etl);
        assert_int_equal(kda_etl_cpu_count(etl), 3);
        kda_etl_close(etl);
        etl_writer_free(&w);
        blob_free(&more);
    }
}

static void test_appended(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    p.clock = 2;
    p.start_raw = p.start_100ns;
    p.mode = ETL_MODE_APPEND;
    p.buffer_size = 2048;
    etl_begin(&w, &p);
    uint32_t number = 0;
    for (uint16_t session = 0; session < 5; session++) {
        for (uint32_t i = 0; i < 200; i++) {
            struct etl_record r = etl_sample_event(p.start_raw + number + 1, number);
            etl_add(&w, i % 3, &r);
            number++;
        }
        /* The same id twice: then only the sequence tells the sessions apart. */
        if (session < 4)
            etl_append_session(&w, session == 1 ? 7 : 8 + session);
    }
    etl_finish(&w);
    struct kda_etl *etl = etl_open_blob(&w.file);
    check_sorted(etl, number);
    check_whole(etl);
    assert_int_equal(kda_etl_session_count(etl), 5);
    uint32_t first = 0;
    for (size_t i = 0; i < 5; i++) {
        const struct kda_etl_session *s = kda_etl_session_at(etl, i);
        assert_int_equal(s->first_buffer, first);
        assert_int_equal(s->first_sequence, i == 0 ? 0 : 1);
        assert_true(s->closed);
        first += s->buffers;
    }
    assert_int_equal(first, kda_etl_info(etl)->buffers);
    assert_null(kda_etl_session_at(etl, 5));
    kda_etl_close(etl);
    etl_writer_free(&w);
}

static void test_circular(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    p.mode = ETL_MODE_CIRCULAR;
    p.buffer_size = 2048;
    p.circular_buffers = 20;
    etl_begin(&w, &p);
    (void)etl_fill(&w, 3, 2000, ETL_T0 + 1);
    etl_finish(&w);
    struct kda_etl *etl = etl_open_blob(&w.file);
    const struct kda_etl_info *info = kda_etl_info(etl);
    assert_int_equal(info->buffers, 21);
    assert_true(info->buffers_written > 21);
    assert_true(info->wrapped);
    const struct kda_etl_record *r;
    uint64_t last = 0;
    uint32_t got = 0;
    assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
    while (kda_etl_next(etl, &r, NULL) == KDA_OK && r) {
        assert_true(r->raw_time >= last);
        last = r->raw_time;
        got++;
    }
    assert_true(got > 100);
    check_whole(etl);
    assert_int_equal(kda_etl_session_count(etl), 1);
    kda_etl_close(etl);
    etl_writer_free(&w);
}

/* Never closed: no end time, no count of buffers, room that was not filled. */
static void test_unfinished(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    p.end_100ns = 0;
    etl_begin(&w, &p);
    uint32_t count = etl_fill(&w, 2, 3000, ETL_T0 + 1);
    etl_finish(&w);
    blob_put(&w.file, NULL, 3 * p.buffer_size + 100);
    struct kda_etl *etl = etl_open_blob(&w.file);
    assert_true(kda_etl_info(etl)->unfinished);
    assert_int_equal(kda_etl_info(etl)->tail_zeros, 3 * p.buffer_size + 100);
    check_sorted(etl, count);
    check_whole(etl);
    kda_etl_close(etl);
    /* Behind zeros that are not the end it goes on, and the zeros are reported. */
    struct etl_buffer more = {.size = p.buffer_size, .sequence = 99, .state = 3, .flags = 0x20};
    struct etl_record r = etl_sample_event(ETL_T0 + 1000000, count);
    struct blob record = {0};
    etl_put_record(&record, &r);
    blob_pad(&w.file, (w.file.size + p.buffer_size - 1) / p.buffer_size * p.buffer_size);
    etl_put_buffer(&w.file, &more, record.data, record.size);
    etl = etl_open_blob(&w.file);
    check_sorted(etl, count + 1);
    assert_int_equal(kda_etl_damage_count(etl), 1);
    assert_true(kda_etl_damage_at(etl, 0)->lost);
    assert_int_equal(kda_etl_damage_at(etl, 0)->bytes, 4 * p.buffer_size);
    kda_etl_close(etl);
    blob_free(&record);
    etl_writer_free(&w);
}

static void test_losses(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    p.mode = 1 | ETL_MODE_COMPRESSED;
    etl_begin(&w, &p);
    static const uint16_t flags[] = {2, 4, 6, 8, 2};
    for (uint32_t i = 0; i < 5; i++) {
        struct etl_record r = etl_sample_event(ETL_T0 + i, i);
        etl_add(&w, 0, &r);
        w.next_flags = flags[i];
        etl_flush(&w, 0, false);
    }
    etl_flush(&w, 1, true); /* a buffer without records */
    etl_finish(&w);
    struct kda_etl *etl = etl_open_blob(&w.file);
    const struct kda_etl_info *info = kda_etl_info(etl);
    assert_int_equal(info->events_lost_buffers, 3);
    assert_int_equal(info->buffer_lost_buffers, 2);
    assert_int_equal(info->rtbackup_corrupt_buffers, 1);
    check_sorted(etl, 5);
    check_whole(etl);
    kda_etl_close(etl);
    etl_writer_free(&w);
}

/* Buffers that did not get shorter may stand uncompressed among compressed ones, of any size. */
static void test_mixed(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    p.mode = 1 | ETL_MODE_COMPRESSED;
    etl_begin(&w, &p);
    etl_finish(&w);
    for (uint32_t i = 0; i < 20; i++) {
        struct blob records = {0};
        struct etl_buffer b = {.cpu = (uint16_t)(i % 2), .sequence = i + 1, .state = 3};
        for (uint32_t k = 0; k < 3; k++) {
            struct etl_record r = etl_sample_event(ETL_T0 + 3 * i + k, 3 * i + k);
            etl_put_record(&records, &r);
        }
        b.flags = ETL_FLAG_PROC_INDEX | (i % 3 ? ETL_FLAG_COMPRESSED : 0);
        b.size = ETL_BUFFER_HEADER + (uint32_t)records.size + 8 * (i % 5);
        etl_put_buffer(&w.file, &b, records.data, records.size);
        blob_free(&records);
    }
    struct kda_etl *etl = etl_open_blob(&w.file);
    check_sorted(etl, 60);
    check_whole(etl);
    assert_int_equal(kda_etl_info(etl)->buffers, 21);
    assert_int_equal(kda_etl_info(etl)->compressed_buffers, 13);
    kda_etl_close(etl);
    etl_writer_free(&w);
}

/* Formats that are known by name: the buffers are counted, each is reported, nothing is guessed. */
static void test_unsupported(void **state)
{
    (void)state;
    for (uint16_t format = 2; format <= 4; format += 2) {
        struct etl_params p = etl_defaults();
        struct etl_writer w;
        p.mode = 1 | ETL_MODE_COMPRESSED;
        p.compression = format;
        p.buffer_size = 2048;
        etl_begin(&w, &p);
        (void)etl_fill(&w, 2, 100, ETL_T0 + 1);
        etl_finish(&w);
        struct kda_etl *etl = etl_open_blob(&w.file);
        assert_int_equal(kda_etl_info(etl)->compression, format);
        assert_int_equal(kda_etl_info(etl)->unread_buffers, w.written - 1);
        const struct kda_etl_record *r;
        assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
        assert_non_null(r);
        assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
        assert_null(r);
        uint64_t bytes = 0;
        for (size_t i = 0; i < kda_etl_damage_count(etl); i++) {
            const struct kda_etl_damage *damage = kda_etl_damage_at(etl, i);
            assert_int_equal(damage->kind, KDA_ETL_DAMAGE_UNSUPPORTED);
            assert_non_null(strstr(damage->why, format == 2 ? "LZNT1" : "Huffman"));
            bytes += damage->bytes;
        }
        assert_int_equal(bytes, w.file.size - 512);
        assert_int_equal(kda_etl_damage_count(etl), w.written - 1);
        kda_etl_close(etl);
        etl_writer_free(&w);
    }
}

/* A time far in the future does not hold up the other records of its CPU. */
static void test_wild_time(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    etl_begin(&w, &p);
    for (uint32_t i = 0; i < 1000; i++) {
        struct etl_record r = etl_sample_event(i == 100   ? UINT64_MAX
                                               : i == 103 ? 0
                                                          : ETL_T0 + i,
                                               i);
        etl_add(&w, i % 2, &r);
    }
    etl_finish(&w);
    struct kda_etl *etl = etl_open_blob(&w.file);
    const struct kda_etl_record *r;
    assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(kda_etl_next(etl, &r, NULL), KDA_OK);
        assert_non_null(r);
        if (i < 98 || i > 106) /* only near the two is the order another */
            assert_int_equal(r->pid, i);
    }
    kda_etl_close(etl);
    etl_writer_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order),          cmocka_unit_test(test_ties),
        cmocka_unit_test(test_header),         cmocka_unit_test(test_no_frequency),
        cmocka_unit_test(test_old_and_merged), cmocka_unit_test(test_appended),
        cmocka_unit_test(test_circular),       cmocka_unit_test(test_unfinished),
        cmocka_unit_test(test_losses),         cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_unsupported),    cmocka_unit_test(test_wild_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
