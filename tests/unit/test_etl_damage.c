/*
 * test_etl_damage.c - damaged files: what is whole comes out, what is damaged is reported.
 *
 * Each kind of damage is done to several buffers of every sample of ../shared/data and of files of
 * the tests' own; then every record of the other buffers has to come out with the same bytes.
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
#include "bytes.h"
#include "etl_writer.h"
#include "file.h"
#include "kda/etl.h"

#define SAMPLES KDA_SOURCE_DIR "/../shared/data/etl"
#define MAX_BUFFERS 4096u
#define MANY_RECORDS 50000u

/* ---- a file and its records ---- */

struct sum {
    uint64_t hash;
    uint32_t buffer;
};

struct sums {
    struct sum *items;
    size_t count, capacity;
};

static uint64_t hash_of(const uint8_t *p, size_t size)
{
    uint64_t hash = size, word;
    for (; size >= 8; p += 8, size -= 8) {
        memcpy(&word, p, 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    for (; size > 0; p++, size--)
        hash = (hash ^ *p) * UINT64_C(0x100000001b3);
    return hash;
}

static void add_sum(struct sums *s, uint64_t hash, uint32_t buffer)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 1024;
        s->items = realloc(s->items, s->capacity * sizeof(*s->items));
        assert_non_null(s->items);
    }
    s->items[s->count++] = (struct sum){hash, buffer};
}

static int by_hash(const void *a, const void *b)
{
    const struct sum *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

struct subject {
    const char *name;
    uint8_t *bytes;
    size_t size;
    bool compressed;
    uint32_t offs[MAX_BUFFERS + 1]; /* of buffers, then the end */
    uint32_t buffers;
    struct sums whole; /* by hash */
};

/* Reads a file in either order; records are added to `out`. False when it is refused. */
static bool read_sums(const uint8_t *bytes, size_t size, enum kda_etl_order order, struct sums *out,
                      size_t *damages)
{
    struct kda_etl *etl = NULL;
    struct kda_error err;
    const struct kda_etl_record *r;
    out->count = 0;
    enum kda_status status = kda_etl_open_memory(bytes, size, "subject", &etl, &err);
    if (status != KDA_OK) {
        assert_int_equal(status, KDA_BAD_DATA);
        return false;
    }
    kda_etl_rewind(etl, order);
    while ((status = kda_etl_next(etl, &r, &err)) == KDA_OK && r)
        add_sum(out, hash_of(r->bytes, r->size), r->buffer);
    assert_int_equal(status, KDA_OK);
    *damages = kda_etl_damage_count(etl);
    for (size_t i = 0; i < *damages && i < KDA_ETL_MAX_DAMAGE; i++)
        assert_non_null(kda_etl_damage_at(etl, i));
    kda_etl_close(etl);
    qsort(out->items, out->count, sizeof(*out->items), by_hash);
    return true;
}

static void set_up_subject(struct subject *s)
{
    size_t damages;
    s->compressed = false;
    for (uint32_t off = 0; off < s->size; off += kda_le32(s->bytes + off)) {
        assert_true(s->buffers < MAX_BUFFERS);
        s->offs[s->buffers++] = off;
        s->compressed |= (s->bytes[off + 0x34] & 0x40) != 0;
    }
    s->offs[s->buffers] = (uint32_t)s->size;
    assert_true(read_sums(s->bytes, s->size, KDA_ETL_TIME_ORDER, &s->whole, &damages));
    assert_int_equal(damages, 0);
}

/* ---- what is done to it ---- */

static uint32_t seed;
static uint8_t noise(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (uint8_t)(seed >> 24);
}

static void put_noise(uint8_t *p, size_t size)
{
    for (size_t i = 0; i < size; i++)
        p[i] = noise();
}

/* A damage: changes the copy of a buffer (`b`, `size` bytes in the file). Returns whether the
 * reader must notice. */
struct damage {
    const char *name;
    bool (*apply)(uint8_t *b, size_t size);
};

static bool zero_header(uint8_t *b, size_t size)
{
    (void)size;
    memset(b, 0, 72);
    return true;
}
static bool ones_header(uint8_t *b, size_t size)
{
    (void)size;
    memset(b, 0xff, 72);
    return true;
}
static bool noise_header(uint8_t *b, size_t size)
{
    (void)size;
    put_noise(b, 72);
    return true;
}
static bool set_size(uint8_t *b, uint32_t value)
{
    kda_put_le32(b, value);
    return true;
}
static bool size_zero(uint8_t *b, size_t size)
{
    (void)size;
    return set_size(b, 0);
}
static bool size_71(uint8_t *b, size_t size)
{
    (void)size;
    return set_size(b, 71);
}
static bool size_72(uint8_t *b, size_t size)
{
    (void)size;
    return set_size(b, 72);
}
static bool size_more(uint8_t *b, size_t size)
{
    return set_size(b, (uint32_t)size + 8);
}
static bool size_half(uint8_t *b, size_t size)
{
    return set_size(b, (uint32_t)size / 2 + 36);
}
static bool size_megabyte(uint8_t *b, size_t size)
{
    (void)size;
    return set_size(b, 0x123456);
}
static bool size_wild(uint8_t *b, size_t size)
{
    (void)size;
    return set_size(b, 0xfffffff8);
}
static bool wild_used(uint8_t *b, size_t size)
{
    (void)size;
    kda_put_le32(b + 0x30, 0xfffffff0);
    kda_put_le32(b + 0x04, 0x7ffffff0);
    return false; /* the end marker, or CurrentOffset, says it as well */
}
static bool small_used(uint8_t *b, size_t size)
{
    (void)size;
    kda_put_le32(b + 0x30, 80);
    return false;
}
static bool wild_flags(uint8_t *b, size_t size)
{
    (void)size;
    kda_put_le16(b + 0x34, 0xffff);
    return true;
}
static bool wild_type(uint8_t *b, size_t size)
{
    (void)size;
    kda_put_le16(b + 0x36, 0x1000);
    return true;
}
static bool noise_body(uint8_t *b, size_t size)
{
    size_t at = 72 + (size - 72) / 3, most = size - at;
    put_noise(b + at, most < 64 ? most : 64);
    return false; /* a payload, or literals of a compressed one: nothing tells */
}
static bool noise_start(uint8_t *b, size_t size)
{
    put_noise(b + 72, size - 72 < 64 ? size - 72 : 64);
    return false;
}
static bool bad_marker(uint8_t *b, size_t size)
{
    if (size > 76)
        b[75] = 0x11;
    return false;
}
static bool record_size_wild(uint8_t *b, size_t size)
{
    if (size > 80) {
        kda_put_le16(b + 72, 0xffff);
        kda_put_le16(b + 76, 0xffff);
    }
    return false;
}
static bool noise_all(uint8_t *b, size_t size)
{
    put_noise(b, size);
    return true;
}
static bool zero_all(uint8_t *b, size_t size)
{
    memset(b, 0, size);
    return true;
}

static const struct damage damages[] = {
    {"zero header", zero_header},
    {"0xff header", ones_header},
    {"noise in the header", noise_header},
    {"size 0", size_zero},
    {"size 71", size_71},
    {"size 72", size_72},
    {"size + 8", size_more},
    {"half the size", size_half},
    {"size of a megabyte", size_megabyte},
    {"wild size", size_wild},
    {"wild used", wild_used},
    {"small used", small_used},
    {"wild flags", wild_flags},
    {"wild type", wild_type},
    {"noise in the body", noise_body},
    {"noise at the first record", noise_start},
    {"bad marker", bad_marker},
    {"wild record size", record_size_wild},
    {"noise", noise_all},
    {"zeros", zero_all},
};

/* ---- checks ---- */

/* Every record of the buffers `from` to before `to` but `not` is among `got`. */
static void check_rest(const struct subject *s, const struct sums *got, uint32_t not, uint32_t to,
                       const char *what)
{
    size_t at = 0;
    for (size_t i = 0; i < s->whole.count; i++) {
        const struct sum *want = &s->whole.items[i];
        if (want->buffer == not || want->buffer >= to)
            continue;
        while (at < got->count && got->items[at].hash < want->hash)
            at++;
        if (at == got->count || got->items[at].hash != want->hash)
            fail_msg("%s: %s of buffer %u: a record of buffer %u is lost", s->name, what, not,
                     want->buffer);
        at++;
    }
}

static void damage_one(const struct subject *s, uint8_t *copy, uint32_t k, struct sums *got)
{
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        size_t found;
        enum kda_etl_order order = i & 1 ? KDA_ETL_FILE_ORDER : KDA_ETL_TIME_ORDER;
        memcpy(copy, s->bytes, s->size);
        bool noticed = damages[i].apply(copy + s->offs[k], s->offs[k + 1] - s->offs[k]);
        bool opened = read_sums(copy, s->size, order, got, &found);
        /* A file may be refused only if no buffer is left. */
        if (!opened && s->buffers == 1)
            continue;
        if (!opened)
            fail_msg("%s: %s of buffer %u: refused", s->name, damages[i].name, k);
        check_rest(s, got, k, s->buffers, damages[i].name);
        if (noticed && found == 0)
            fail_msg("%s: %s of buffer %u is not reported", s->name, damages[i].name, k);
    }
}

static void cut_at(const struct subject *s, uint32_t k, struct sums *got)
{
    const size_t places[] = {
        1, 40, 71, 72, 75, (s->offs[k + 1] - s->offs[k]) / 2, s->offs[k + 1] - s->offs[k] - 1};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        size_t found;
        uint8_t *copy = malloc(s->offs[k] + places[i]); /* exact, for sanitizers */
        assert_non_null(copy);
        memcpy(copy, s->bytes, s->offs[k] + places[i]);
        bool opened = read_sums(copy, s->offs[k] + places[i], KDA_ETL_TIME_ORDER, got, &found);
        free(copy);
        if (!opened) {
            assert_int_equal(k, 0);
            continue;
        }
        check_rest(s, got, k, k, "cut");
        if (found == 0)
            fail_msg("%s: cut in buffer %u is not reported", s->name, k);
    }
}

/* Bytes are missing or too many: everything behind them stands elsewhere. */
static void shift(const struct subject *s, uint8_t *copy, uint32_t k, struct sums *got)
{
    for (int gone = 0; gone < 2; gone++) {
        size_t at = s->offs[k] + (s->offs[k + 1] - s->offs[k]) / 2, by = 13, found;
        memcpy(copy, s->bytes, at);
        if (gone)
            memcpy(copy + at, s->bytes + at + by, s->size - at - by);
        else
            memcpy(copy + at + by, s->bytes + at, s->size - at);
        if (!gone)
            put_noise(copy + at, by);
        assert_true(
            read_sums(copy, gone ? s->size - by : s->size + by, KDA_ETL_TIME_ORDER, got, &found));
        check_rest(s, got, k, s->buffers, gone ? "bytes missing" : "bytes too many");
        if (found == 0)
            fail_msg("%s: shift in buffer %u is not reported", s->name, k);
    }
}

/* Every field of the first record, and of its header: what it says of the file must not cost the
 * records of other buffers. */
static void wild_fields(const struct subject *s, uint8_t *copy, struct sums *got)
{
    static const uint32_t values[] = {0, 0xffffffff, 0x2000, 0x40000};
    for (size_t at = 72; at < 72 + 0x20 + 0x118 && at + 4 <= s->size; at += 4) {
        size_t found, i = at / 4 % 4;
        memcpy(copy, s->bytes, s->size);
        kda_put_le32(copy + at, values[i]);
        assert_true(read_sums(copy, s->size, KDA_ETL_TIME_ORDER, got, &found));
        check_rest(s, got, 0, s->buffers, "wild field in the first record");
        kda_put_le32(copy + at, values[(i + 1) % 4]);
        assert_true(read_sums(copy, s->size, KDA_ETL_TIME_ORDER, got, &found));
        check_rest(s, got, 0, s->buffers, "wild field in the first record");
    }
}

static void torture(struct subject *s)
{
    set_up_subject(s);
    seed = 1;
    uint8_t *copy = malloc(s->size + 64);
    struct sums got = {0};
    assert_non_null(copy);
    bool large = s->whole.count > MANY_RECORDS;
    const uint32_t which[] = {0, 1, s->buffers / 2, s->buffers - 1};
    for (size_t i = large ? 2 : 0; i < 4; i++) {
        if (which[i] >= s->buffers)
            continue;
        damage_one(s, copy, which[i], &got);
        cut_at(s, which[i], &got);
        if (which[i] + 1 < s->buffers && which[i] > 0)
            shift(s, copy, which[i], &got);
    }
    if (!large)
        wild_fields(s, copy, &got);
    free(copy);
    free(got.items);
    free(s->whole.items);
}

static bool torture_file(void *context, const char *name)
{
    size_t *count = context;
    size_t size = strlen(name);
    if (size < 4 || strcmp(name + size - 4, ".etl") != 0)
        return true;
    struct subject *s = calloc(1, sizeof(*s));
    struct kda_file *file;
    char path[600];
    void *bytes;
    assert_non_null(s);
    (void)snprintf(path, sizeof(path), SAMPLES "/%s", name);
    assert_int_equal(kda_file_open(path, &file, NULL), KDA_OK);
    assert_int_equal(kda_file_read_all(file, 1 << 26, &bytes, &s->size, NULL), KDA_OK);
    kda_file_close(file);
    s->name = name;
    s->bytes = bytes;
    torture(s);
    kda_free(bytes);
    free(s);
    (*count)++;
    return true;
}

static void test_samples(void **state)
{
    (void)state;
    size_t count = 0;
    if (kda_dir_walk(SAMPLES, 1000, torture_file, &count, NULL) != KDA_OK)
        skip();
    assert_true(count >= 20);
}

static void test_own(void **state)
{
    (void)state;
    static const char text[] = "a payload that is like the others but for its number";
    for (unsigned kind = 0; kind < 4; kind++) {
        struct etl_params p = etl_defaults();
        struct etl_writer w;
        struct subject *s = calloc(1, sizeof(*s));
        assert_non_null(s);
        p.buffer_size = 4096;
        p.mode = kind & 1 ? 1 | ETL_MODE_COMPRESSED : 1;
        p.windows7 = kind == 2;
        p.merged = kind == 3;
        etl_begin(&w, &p);
        for (uint32_t i = 0; i < 2000; i++) {
            struct etl_record r = {.kind = i % 5 ? ETL_EVENT : ETL_PERFINFO,
                                   .pid = i,
                                   .time = p.start_raw + i,
                                   .payload = text,
                                   .payload_size = 20 + i % 32};
            r.guid[0] = (uint8_t)i;
            etl_add(&w, i * 7 % 4, &r);
        }
        etl_finish(&w);
        s->name = kind & 1 ? "own, compressed" : "own, plain";
        s->bytes = w.file.data;
        s->size = w.file.size;
        torture(s);
        etl_writer_free(&w);
        free(s);
    }
}

/* Two damaged neighbours, headers of both: the one between others is found all the same. */
static void test_neighbours(void **state)
{
    (void)state;
    for (unsigned compressed = 0; compressed < 2; compressed++) {
        struct etl_params p = etl_defaults();
        struct etl_writer w;
        struct subject *s = calloc(1, sizeof(*s));
        struct sums got = {0};
        size_t found;
        assert_non_null(s);
        p.buffer_size = 4096;
        p.mode = compressed ? 1 | ETL_MODE_COMPRESSED : 1;
        etl_begin(&w, &p);
        for (uint32_t i = 0; i < 1000; i++) {
            struct etl_record r = {.kind = ETL_EVENT,
                                   .pid = i,
                                   .time = p.start_raw + i,
                                   .payload = "x",
                                   .payload_size = 1};
            etl_add(&w, 0, &r);
        }
        etl_finish(&w);
        s->name = "neighbours";
        s->bytes = w.file.data;
        s->size = w.file.size;
        set_up_subject(s);
        assert_true(s->buffers > 8);
        seed = 5;
        put_noise(s->bytes + s->offs[3], s->offs[4] - s->offs[3]);
        put_noise(s->bytes + s->offs[5], s->offs[6] - s->offs[5]);
        assert_true(read_sums(s->bytes, s->size, KDA_ETL_TIME_ORDER, &got, &found));
        assert_true(found >= 2);
        for (size_t i = 0; i < s->whole.count; i++)
            if (s->whole.items[i].buffer == 3)
                s->whole.items[i].buffer = 5;
        check_rest(s, &got, 5, s->buffers, "two damaged ones");
        free(s->whole.items);
        free(got.items);
        free(s);
        etl_writer_free(&w);
    }
}

/* The places that are reported: where, how much, and whether it was lost. */
static void test_report(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    p.buffer_size = 4096;
    etl_begin(&w, &p);
    for (uint32_t i = 0; i < 500; i++) {
        struct etl_record r = {.kind = ETL_SYSTEM, .group = 3, .time = p.start_raw + i};
        etl_add(&w, 0, &r);
    }
    etl_finish(&w);
    uint8_t *b = w.file.data;
    assert_true(w.file.size > 4 * 4096);
    memset(b + 4096, 0, 72);           /* its records are read all the same */
    b[2 * 4096 + 72 + 32 * 3 + 3] = 7; /* one record */
    kda_put_le32(b + 3 * 4096, 4095);  /* repaired */
    struct kda_etl *etl = NULL;
    const struct kda_etl_record *r;
    uint32_t got = 0;
    assert_int_equal(kda_etl_open_memory(b, w.file.size, "report", &etl, NULL), KDA_OK);
    assert_int_equal(kda_etl_damage_count(etl), 2);
    while (kda_etl_next(etl, &r, NULL) == KDA_OK && r)
        got++;
    assert_int_equal(got, 500); /* 501 with the header record, one lost */
    static const struct {
        enum kda_etl_damage_kind kind;
        bool lost;
        uint64_t off, bytes;
    } want[] = {
        {KDA_ETL_DAMAGE_BUFFER, false, 4096, 72},
        {KDA_ETL_DAMAGE_BUFFER, false, 3 * 4096, 4096},
        {KDA_ETL_DAMAGE_RECORD, true, 2 * 4096 + 72 + 96, 32},
    };
    assert_int_equal(kda_etl_damage_count(etl), 3);
    for (size_t i = 0; i < 3; i++) {
        const struct kda_etl_damage *damage = kda_etl_damage_at(etl, i);
        assert_int_equal(damage->kind, want[i].kind);
        assert_int_equal(damage->lost, want[i].lost);
        assert_true(damage->off == want[i].off);
        assert_true(damage->bytes == want[i].bytes);
    }
    assert_null(kda_etl_damage_at(etl, 3));
    assert_int_equal(kda_etl_cpu_count(etl), 2); /* CPU 0 and "not known" */
    assert_true(kda_etl_cpu_at(etl, 1)->cpu == KDA_ETL_CPU_UNKNOWN);
    kda_etl_rewind(etl, KDA_ETL_FILE_ORDER); /* what reading found is found anew */
    assert_int_equal(kda_etl_damage_count(etl), 2);
    kda_etl_close(etl);
    etl_writer_free(&w);
}

/* The first buffer of a merged file: SavedOffset leaves records out, and Offset, which is right, is
 * damaged. */
static void test_used_of_header_buffer(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {0, 72, 80, 0x7fffffff, 0xffffffff};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct etl_params p = etl_defaults();
        struct etl_writer w;
        struct blob more = {0};
        struct etl_record extra = {.kind = ETL_FULL, .time = p.start_raw};
        for (int n = 0; n < 3; n++)
            etl_put_record(&more, &extra);
        p.merged = true;
        p.header_records = &more;
        etl_begin(&w, &p);
        struct etl_record r = {.kind = ETL_SYSTEM, .group = 3, .time = p.start_raw + 1};
        etl_add(&w, 0, &r);
        etl_finish(&w);
        assert_true(kda_le32(w.file.data + 4) < kda_le32(w.file.data + 0x30));
        kda_put_le32(w.file.data + 0x30, wrong[i]);
        struct kda_etl *etl = NULL;
        const struct kda_etl_record *record;
        uint32_t got = 0;
        assert_int_equal(kda_etl_open_memory(w.file.data, w.file.size, "used", &etl, NULL), KDA_OK);
        while (kda_etl_next(etl, &record, NULL) == KDA_OK && record)
            got++;
        assert_int_equal(got, 1 + 3 + 1);
        assert_int_equal(kda_etl_damage_count(etl), 1);
        assert_false(kda_etl_damage_at(etl, 0)->lost);
        kda_etl_close(etl);
        etl_writer_free(&w);
        blob_free(&more);
    }
}

/* More damages than are kept: all are counted. */
static void test_many(void **state)
{
    (void)state;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    uint32_t count = 3 * KDA_ETL_MAX_DAMAGE;
    etl_begin(&w, &p);
    for (uint32_t i = 0; i < count; i++) {
        struct etl_record r = {.kind = ETL_SYSTEM, .group = 3, .time = p.start_raw + 3 * i};
        etl_add(&w, 0, &r);
        r.time++;
        etl_add(&w, 0, &r);
        etl_add_bytes(&w, 0, "no record header", 16);
    }
    etl_finish(&w);
    struct kda_etl *etl = NULL;
    const struct kda_etl_record *r;
    assert_int_equal(kda_etl_open_memory(w.file.data, w.file.size, "many", &etl, NULL), KDA_OK);
    uint64_t got = 0;
    while (kda_etl_next(etl, &r, NULL) == KDA_OK && r)
        got++;
    assert_int_equal(got, 2 * count + 1);
    assert_int_equal(kda_etl_damage_count(etl), count);
    assert_non_null(kda_etl_damage_at(etl, KDA_ETL_MAX_DAMAGE - 1));
    assert_null(kda_etl_damage_at(etl, KDA_ETL_MAX_DAMAGE));
    kda_etl_close(etl);
    etl_writer_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_own),
        cmocka_unit_test(test_neighbours),
        cmocka_unit_test(test_report),
        cmocka_unit_test(test_used_of_header_buffer),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
