/*
 * test_etl_frame.c - records of one buffer: every header type, extended items, and what happens
 * when bytes between them are damaged. Clocks and buffer headers too.
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
#include "kda/etl.h"

#define OFF 0x4000u /* where the buffers of these tests stand */

/* A buffer's bytes under construction: 72 bytes, then records. */
static void begin(struct blob *b)
{
    memset(b, 0, sizeof(*b));
    blob_put(b, NULL, ETL_BUFFER_HEADER);
}

static struct kda_etl_framer frame(const struct blob *b)
{
    struct kda_etl_framer framer;
    kda_etl_framer_init(&framer, b->data, b->size, OFF, 5, 3);
    return framer;
}

static struct kda_etl_record one(const struct blob *b)
{
    struct kda_etl_record record;
    struct kda_etl_hole hole;
    struct kda_etl_framer framer = frame(b);
    assert_int_equal(kda_etl_frame_next(&framer, &record, &hole), KDA_ETL_FRAME_RECORD);
    assert_int_equal(record.off, OFF + 72);
    assert_int_equal(record.buffer, 5);
    assert_int_equal(record.cpu, 3);
    assert_false(record.suspect);
    assert_ptr_equal(record.bytes, b->data + 72);
    struct kda_etl_record after;
    assert_int_equal(kda_etl_frame_next(&framer, &after, &hole), KDA_ETL_FRAME_END);
    return record;
}

static const uint8_t guid_a[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
static const uint8_t guid_b[16] = {0xa1, 0xb2, 0xc3};

static struct etl_record sample(enum etl_kind kind, unsigned pointer_size)
{
    struct etl_record r = {
        .kind = kind,
        .pointer_size = pointer_size,
        .group = 3,
        .type = 39,
        .version = 5,
        .level = 4,
        .channel = 17,
        .id = 0x1234,
        .task = 0x4321,
        .keyword = 0x8000000000000010u,
        .pid = 1111,
        .tid = 2222,
        .time = 0x0123456789abcdefu,
        .kernel_time = 31,
        .user_time = 32,
        .property = 8,
        .instance = 77,
        .parent_instance = 66,
        .payload = "payload",
        .payload_size = 7,
    };
    memcpy(r.guid, guid_a, 16);
    memcpy(r.activity, guid_b, 16);
    memcpy(r.parent_guid, guid_b, 16);
    return r;
}

static const struct {
    enum etl_kind kind;
    unsigned pointer_size;
    enum kda_etl_header header;
    enum kda_etl_shape shape;
    const char *name;
    uint32_t header_size;
    bool ids, cpu_times;
} kinds[] = {
    {ETL_SYSTEM, 4, KDA_ETL_SYSTEM32, KDA_ETL_SHAPE_SYSTEM, "SYSTEM32", 0x20, true, true},
    {ETL_SYSTEM, 8, KDA_ETL_SYSTEM64, KDA_ETL_SHAPE_SYSTEM, "SYSTEM64", 0x20, true, true},
    {ETL_COMPACT, 4, KDA_ETL_COMPACT32, KDA_ETL_SHAPE_SYSTEM, "COMPACT32", 0x18, true, false},
    {ETL_COMPACT, 8, KDA_ETL_COMPACT64, KDA_ETL_SHAPE_SYSTEM, "COMPACT64", 0x18, true, false},
    {ETL_PERFINFO, 4, KDA_ETL_PERFINFO32, KDA_ETL_SHAPE_SYSTEM, "PERFINFO32", 0x10, false, false},
    {ETL_PERFINFO, 8, KDA_ETL_PERFINFO64, KDA_ETL_SHAPE_SYSTEM, "PERFINFO64", 0x10, false, false},
    {ETL_FULL, 4, KDA_ETL_FULL32, KDA_ETL_SHAPE_CLASSIC, "FULL32", 0x30, true, true},
    {ETL_FULL, 8, KDA_ETL_FULL64, KDA_ETL_SHAPE_CLASSIC, "FULL64", 0x30, true, true},
    {ETL_INSTANCE, 4, KDA_ETL_INSTANCE32, KDA_ETL_SHAPE_CLASSIC, "INSTANCE32", 0x48, true, true},
    {ETL_INSTANCE, 8, KDA_ETL_INSTANCE64, KDA_ETL_SHAPE_CLASSIC, "INSTANCE64", 0x48, true, true},
    {ETL_EVENT, 4, KDA_ETL_EVENT32, KDA_ETL_SHAPE_EVENT, "EVENT32", 0x50, true, true},
    {ETL_EVENT, 8, KDA_ETL_EVENT64, KDA_ETL_SHAPE_EVENT, "EVENT64", 0x50, true, true},
    {ETL_ERROR, 8, KDA_ETL_ERROR, KDA_ETL_SHAPE_EVENT, "ERROR", 0x50, true, true},
};

static void check_shape(const struct kda_etl_record *r)
{
    bool system = r->shape == KDA_ETL_SHAPE_SYSTEM, event = r->shape == KDA_ETL_SHAPE_EVENT;
    assert_int_equal(r->version, 5);
    assert_int_equal(r->opcode, 39);
    assert_int_equal(r->type, 39);
    if (system) {
        assert_int_equal(r->group, 3);
        assert_null(r->guid);
        return;
    }
    assert_memory_equal(r->guid, guid_a, 16);
    assert_int_equal(r->level, 4);
    if (event) {
        assert_int_equal(r->id, 0x1234);
        assert_int_equal(r->task, 0x4321);
        assert_int_equal(r->channel, 17);
        assert_int_equal(r->property, 8);
        assert_int_equal(r->flags, 0);
        assert_true(r->keyword == 0x8000000000000010u);
        assert_memory_equal(r->activity, guid_b, 16);
    } else if (r->header == KDA_ETL_INSTANCE32 || r->header == KDA_ETL_INSTANCE64) {
        assert_int_equal(r->instance_id, 77);
        assert_int_equal(r->parent_instance_id, 66);
        assert_memory_equal(r->parent_guid, guid_b, 16);
    } else {
        assert_null(r->parent_guid);
    }
}

static void test_headers(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct blob b;
        struct etl_record in = sample(kinds[i].kind, kinds[i].pointer_size);
        begin(&b);
        etl_put_record(&b, &in);
        struct kda_etl_record r = one(&b);
        assert_int_equal(r.header, kinds[i].header);
        assert_int_equal(r.shape, kinds[i].shape);
        assert_string_equal(kda_etl_header_name(r.header), kinds[i].name);
        if (kinds[i].kind != ETL_ERROR)
            assert_int_equal(r.pointer_size, kinds[i].pointer_size);
        assert_int_equal(r.size, kinds[i].header_size + 7);
        assert_int_equal(r.payload_size, 7);
        assert_memory_equal(r.payload, "payload", 7);
        assert_true(r.has_time);
        assert_true(r.raw_time == in.time);
        assert_int_equal(r.has_ids, kinds[i].ids);
        assert_int_equal(r.pid, kinds[i].ids ? 1111 : 0);
        assert_int_equal(r.tid, kinds[i].ids ? 2222 : 0);
        assert_int_equal(r.has_cpu_times, kinds[i].cpu_times);
        assert_int_equal(r.kernel_time, kinds[i].cpu_times ? 31 : 0);
        assert_int_equal(r.user_time, kinds[i].cpu_times ? 32 : 0);
        assert_null(r.ext);
        check_shape(&r);
        /* One byte too few for the header is no record; so is one more than there are bytes. */
        size_t at = b.data[74] == 1 || b.data[74] == 2 || b.data[74] == 3 || b.data[74] == 4 ||
                            b.data[74] == 16 || b.data[74] == 17
                        ? 76
                        : 72;
        static const uint16_t none = 0;
        struct kda_etl_record damaged;
        struct kda_etl_hole hole;
        const uint16_t wrong[] = {(uint16_t)(kinds[i].header_size - 1), 0xffff, none};
        for (size_t k = 0; k < 3; k++) {
            kda_put_le16(b.data + at, wrong[k]);
            struct kda_etl_framer framer = frame(&b);
            assert_int_equal(kda_etl_frame_next(&framer, &damaged, &hole), KDA_ETL_FRAME_DAMAGED);
            assert_string_equal(hole.why, "a record whose size cannot be");
            assert_int_equal(kda_etl_frame_next(&framer, &damaged, &hole), KDA_ETL_FRAME_END);
        }
        blob_free(&b);
    }
    assert_string_equal(kda_etl_header_name((enum kda_etl_header)5), "?");
    assert_string_equal(kda_etl_header_name((enum kda_etl_header)999), "?");
}

static void test_messages(void **state)
{
    (void)state;
    for (unsigned flags = 0; flags < 0x100; flags++) {
        if ((flags & ETL_MSG_GUID && flags & ETL_MSG_COMPONENT) || flags & ETL_MSG_PERF_TIME)
            continue;
        struct blob b;
        struct etl_record in = sample(ETL_MESSAGE, 8);
        in.flags = (uint16_t)flags;
        in.sequence = 99;
        begin(&b);
        etl_put_record(&b, &in);
        struct kda_etl_record r = one(&b);
        assert_int_equal(r.header, KDA_ETL_MESSAGE);
        assert_int_equal(r.shape, KDA_ETL_SHAPE_MESSAGE);
        assert_int_equal(r.id, 0x1234);
        assert_int_equal(r.flags, flags);
        assert_int_equal(r.payload_size, 7);
        assert_memory_equal(r.payload, "payload", 7);
        assert_int_equal(r.has_time, (flags & ETL_MSG_TIME) != 0);
        assert_true(r.raw_time == (flags & ETL_MSG_TIME ? in.time : 0));
        assert_int_equal(r.has_ids, (flags & ETL_MSG_SYSTEMINFO) != 0);
        assert_int_equal(r.pid, flags & ETL_MSG_SYSTEMINFO ? 1111 : 0);
        assert_int_equal(r.tid, flags & ETL_MSG_SYSTEMINFO ? 2222 : 0);
        assert_int_equal(r.sequence, flags & ETL_MSG_SEQUENCE ? 99 : 0);
        assert_int_equal(r.component, flags & ETL_MSG_COMPONENT ? 77 : 0);
        assert_int_equal(r.guid != NULL, (flags & ETL_MSG_GUID) != 0);
        if (r.guid)
            assert_memory_equal(r.guid, guid_a, 16);
        assert_int_equal(r.pointer_size, flags & 0x80 ? 8 : flags & 0x40 ? 4 : 0);
        blob_free(&b);
    }
}

/* A record without a time gets that of the one before. */
static void test_inferred_time(void **state)
{
    (void)state;
    struct blob b;
    struct etl_record event = sample(ETL_EVENT, 8), message = sample(ETL_MESSAGE, 8);
    message.flags = ETL_MSG_GUID;
    begin(&b);
    etl_put_record(&b, &event);
    etl_put_record(&b, &message);
    struct kda_etl_framer framer = frame(&b);
    struct kda_etl_record r;
    struct kda_etl_hole hole;
    assert_int_equal(kda_etl_frame_next(&framer, &r, &hole), KDA_ETL_FRAME_RECORD);
    assert_int_equal(kda_etl_frame_next(&framer, &r, &hole), KDA_ETL_FRAME_RECORD);
    assert_false(r.has_time);
    assert_true(r.raw_time == event.time);
    blob_free(&b);
}

static void test_counters(void **state)
{
    (void)state;
    static const uint64_t values[] = {10, 20, 30};
    static const enum etl_kind with[] = {ETL_PERFINFO, ETL_SYSTEM, ETL_COMPACT};
    for (size_t i = 0; i < 3; i++) {
        struct blob b;
        struct etl_record in = sample(with[i], 8);
        in.pebs = true;
        in.pebs_index = 0x55;
        in.counters = values;
        in.counter_count = 3;
        begin(&b);
        etl_put_record(&b, &in);
        struct kda_etl_record r = one(&b);
        assert_int_equal(r.version, 5);
        assert_int_equal(r.flags, 0x8305);
        assert_int_equal(r.counters_size, 32);
        assert_int_equal(kda_le64(r.counters), 0x55);
        assert_int_equal(kda_le64(r.counters + 24), 30);
        assert_int_equal(r.payload_size, 7);
        assert_memory_equal(r.payload, "payload", 7);
        blob_free(&b);
        /* Counters that do not fit are payload, and the record is marked. */
        in = sample(with[i], 8);
        in.version = 0x8705;
        begin(&b);
        etl_put_record(&b, &in);
        struct kda_etl_framer framer = frame(&b);
        struct kda_etl_hole hole;
        assert_int_equal(kda_etl_frame_next(&framer, &r, &hole), KDA_ETL_FRAME_RECORD);
        assert_true(r.suspect);
        assert_int_equal(r.payload_size, 7);
        assert_int_equal(r.counters_size, 0);
        blob_free(&b);
    }
}

static void test_extended(void **state)
{
    (void)state;
    uint8_t stack[24] = {1};
    const struct etl_ext items[] = {
        {ETL_EXT_STACK64, stack, sizeof(stack)},
        {ETL_EXT_RELATED, guid_b, 16},
        {ETL_EXT_TRAITS, "\x09\x00prov\0", 7},
        {0x99, "odd", 3},
    };
    struct blob b;
    struct etl_record in = sample(ETL_EVENT, 4);
    in.ext = items;
    in.ext_count = 4;
    begin(&b);
    etl_put_record(&b, &in);
    struct kda_etl_record r = one(&b);
    assert_int_equal(r.flags, 1);
    assert_memory_equal(r.related, guid_b, 16);
    assert_int_equal(r.payload_size, 7);
    assert_memory_equal(r.payload, "payload", 7);
    struct kda_etl_ext item;
    uint32_t at = 0;
    for (size_t i = 0; i < 4; i++) {
        assert_true(kda_etl_ext_next(&r, &at, &item));
        assert_int_equal(item.type, items[i].type);
        assert_int_equal(item.size, items[i].size);
        assert_memory_equal(item.data, items[i].data, item.size);
    }
    assert_false(kda_etl_ext_next(&r, &at, &item));
    assert_true(kda_etl_ext_find(&r, KDA_ETL_EXT_TRAITS, &item));
    assert_int_equal(item.size, 7);
    assert_false(kda_etl_ext_find(&r, KDA_ETL_EXT_SID, &item));

    /* Each field of each item head, every value that can break it: never outside the record. */
    uint32_t end = r.size;
    for (uint32_t pos = 0x50; pos < end - 7; pos++) {
        for (unsigned value = 0; value < 256; value += 5) {
            uint8_t was = b.data[72 + pos];
            b.data[72 + pos] = (uint8_t)value;
            struct kda_etl_framer framer = frame(&b);
            struct kda_etl_hole hole;
            assert_int_equal(kda_etl_frame_next(&framer, &r, &hole), KDA_ETL_FRAME_RECORD);
            assert_true(r.payload + r.payload_size == r.bytes + r.size);
            uint32_t walked = 0;
            while (kda_etl_ext_next(&r, &walked, &item))
                assert_true(item.data + item.size <= r.payload);
            assert_int_equal(walked, r.ext_size);
            b.data[72 + pos] = was;
        }
    }
    blob_free(&b);
}

/* ---- damage inside a buffer ---- */

#define COUNT 12
static size_t starts[COUNT + 1]; /* offsets of the records of `many`, then the end */

static void many(struct blob *b)
{
    begin(b);
    for (unsigned i = 0; i < COUNT; i++) {
        struct etl_record in = sample(i % 3 ? ETL_EVENT : ETL_SYSTEM, 8);
        in.time = 1000 + i;
        in.payload = "0123456789abcdef0123456789abcdef01234567";
        in.payload_size = 8 + 3 * i;
        starts[i] = b->size;
        etl_put_record(b, &in);
    }
    starts[COUNT] = b->size;
}

/* Frames everything; returns a bit for each record of `many` that came out whole. */
static unsigned seen(const struct blob *b, bool exact, struct kda_etl_hole *first, size_t *holes,
                     enum kda_etl_frame *kind)
{
    struct kda_etl_framer framer = frame(b);
    struct kda_etl_record r;
    struct kda_etl_hole hole;
    enum kda_etl_frame next;
    unsigned bits = 0;
    uint64_t at = OFF + 72;
    framer.exact = exact;
    *holes = 0;
    while ((next = kda_etl_frame_next(&framer, &r, &hole)) != KDA_ETL_FRAME_END) {
        if (next != KDA_ETL_FRAME_RECORD) {
            if ((*holes)++ == 0) {
                *first = hole;
                *kind = next;
            }
            assert_true(hole.off == at); /* no byte is passed over in silence */
            at += hole.bytes;
            continue;
        }
        assert_true(r.off == at);
        at += (r.size + 7) & ~7u;
        for (unsigned i = 0; i < COUNT; i++)
            if (r.off == OFF + starts[i] && r.raw_time == 1000 + i)
                bits |= 1u << i;
    }
    return bits;
}

#define ALL ((1u << COUNT) - 1)

static void test_bad_marker(void **state)
{
    (void)state;
    struct kda_etl_hole hole;
    enum kda_etl_frame kind;
    size_t holes;
    for (unsigned i = 0; i < COUNT; i++) {
        for (unsigned byte = 2; byte < 4; byte++) {
            struct blob b;
            many(&b);
            assert_int_equal(seen(&b, true, &hole, &holes, &kind), ALL);
            assert_int_equal(holes, 0);
            b.data[starts[i] + byte] = 0x7e;
            assert_int_equal(seen(&b, true, &hole, &holes, &kind), ALL & ~(1u << i));
            assert_int_equal(holes, 1);
            assert_int_equal(kind, KDA_ETL_FRAME_DAMAGED);
            assert_string_equal(hole.why, "no record header");
            assert_true(hole.off == OFF + starts[i]);
            assert_int_equal(hole.bytes, starts[i + 1] - starts[i]);
            blob_free(&b);
        }
    }
}

static void test_two_damaged(void **state)
{
    (void)state;
    struct kda_etl_hole hole;
    enum kda_etl_frame kind;
    size_t holes;
    struct blob b;
    many(&b);
    b.data[starts[4] + 3] = 0;
    b.data[starts[6] + 3] = 0;
    /* The one between them stands alone, and its time says that it belongs there. */
    assert_int_equal(seen(&b, true, &hole, &holes, &kind), ALL & ~(1u << 4 | 1u << 6));
    assert_int_equal(holes, 2);
    blob_free(&b);
}

static void test_wild_sizes(void **state)
{
    (void)state;
    struct kda_etl_hole hole;
    enum kda_etl_frame kind;
    size_t holes;
    for (unsigned i = 0; i < COUNT; i++) {
        for (unsigned add = 8; add < 0x10000; add = add * 3 + 8) {
            struct blob b;
            many(&b);
            size_t at = starts[i] + (i % 3 ? 0 : 4);
            kda_put_le16(b.data + at, (uint16_t)(kda_le16(b.data + at) + add));
            unsigned bits = seen(&b, true, &hole, &holes, &kind);
            /* All others come out, whatever becomes of this one. Where its wrong size leads
             * exactly to another record nothing can be noticed. */
            size_t end = starts[i] + ((kda_le16(b.data + at) + 7u) & ~7u);
            bool hits = false;
            for (unsigned k = i + 1; k <= COUNT; k++)
                hits |= starts[k] == end;
            if (!hits) {
                assert_int_equal(bits | 1u << i, ALL);
                assert_true(holes > 0 || i + 1 == COUNT);
            }
            blob_free(&b);
        }
    }
}

static void test_unwritten(void **state)
{
    (void)state;
    struct kda_etl_hole hole;
    enum kda_etl_frame kind;
    size_t holes;
    for (int fill = 0; fill < 256; fill += 255) {
        for (unsigned i = 0; i < COUNT; i++) {
            struct blob b;
            many(&b);
            memset(b.data + starts[i], fill, starts[i + 1] - starts[i]);
            assert_int_equal(seen(&b, true, &hole, &holes, &kind), ALL & ~(1u << i));
            assert_int_equal(holes, 1);
            assert_int_equal(kind, KDA_ETL_FRAME_UNWRITTEN);
            assert_int_equal(hole.bytes, starts[i + 1] - starts[i]);
            /* At the end 0xFF is filler, unless the caller knows better. */
            unsigned bits = seen(&b, false, &hole, &holes, &kind);
            assert_int_equal(bits, ALL & ~(1u << i));
            assert_int_equal(holes, i + 1 == COUNT && fill ? 0 : 1);
            blob_free(&b);
        }
    }
}

static void test_filler(void **state)
{
    (void)state;
    struct kda_etl_hole hole;
    enum kda_etl_frame kind;
    size_t holes, size;
    struct blob b;
    many(&b);
    size = b.size;
    blob_put(&b, NULL, 500);
    memset(b.data + size, 0xff, 500);
    assert_int_equal(seen(&b, false, &hole, &holes, &kind), ALL);
    assert_int_equal(holes, 0);
    /* Something behind the filler is not passed over in silence. */
    b.data[size + 400] = 1;
    assert_int_equal(seen(&b, false, &hole, &holes, &kind), ALL);
    assert_int_equal(holes, 1);
    assert_int_equal(kind, KDA_ETL_FRAME_DAMAGED);
    blob_free(&b);
}

/* Random bytes over a buffer: it ends, stays inside, and accounts for every byte. */
static void test_random(void **state)
{
    (void)state;
    uint32_t seed = 99;
    struct kda_etl_hole hole;
    enum kda_etl_frame kind;
    size_t holes;
    for (int round = 0; round < 3000; round++) {
        struct blob b;
        many(&b);
        for (unsigned k = 0; k < 1u + (unsigned)round % 40u; k++) {
            seed = seed * 1664525u + 1013904223u;
            b.data[72 + (seed >> 8) % (b.size - 72)] = (uint8_t)(seed >> 3);
        }
        (void)seen(&b, round & 1, &hole, &holes, &kind);
        blob_free(&b);
    }
}

/* ---- buffer headers ---- */

static void test_buffer_header(void **state)
{
    (void)state;
    struct blob b = {0};
    struct kda_etl_buffer h;
    const struct etl_buffer in = {.size = 4096,
                                  .cpu = 0x5ff,
                                  .logger_id = 9,
                                  .time = 77,
                                  .sequence = 88,
                                  .state = 3,
                                  .flags = KDA_ETL_FLAG_PROC_INDEX | KDA_ETL_FLAG_EVENTS_LOST};
    etl_put_buffer(&b, &in, "12345678", 8);
    assert_true(kda_etl_buffer_parse(b.data, 0, &h));
    assert_int_equal(h.size, 4096);
    assert_int_equal(h.used, 80);
    assert_int_equal(h.cpu, 0x5ff);
    assert_int_equal(h.logger_id, 9);
    assert_int_equal(h.time, 77);
    assert_int_equal(h.sequence, 88);
    assert_int_equal(h.flags, 0x22);
    b.data[0x34] = 0; /* without PROC_INDEX the high byte is an alignment */
    b.data[0x29] = 8;
    b.data[0x28] = 12;
    assert_true(kda_etl_buffer_parse(b.data, 0, &h));
    assert_int_equal(h.cpu, 12);
    static const struct {
        uint32_t filled, saved, current, used;
    } used[] = {
        {80, 80, 80, 80},      {80, 0, 4176, 80},       {0, 80, 0, 80},
        {0, 0, 80, 80},        {704, 440, 0, 704},      {71, 5000, 4096, 4096},
        {0, 0, 0, 0},          {4097, 4097, 4097, 0},   {72, 72, 72, 72},
        {4096, 4096, 0, 4096}, {0xffffffff, 90, 0, 90},
    };
    for (size_t i = 0; i < sizeof(used) / sizeof(used[0]); i++) {
        kda_put_le32(b.data + 0x30, used[i].filled);
        kda_put_le32(b.data + 0x04, used[i].saved);
        kda_put_le32(b.data + 0x08, used[i].current);
        assert_true(kda_etl_buffer_parse(b.data, 0, &h));
        assert_int_equal(h.used, used[i].used);
    }
    static const struct {
        size_t at;
        uint8_t value;
    } bad[] = {{0x34, 0x80}, {0x35, 1}, {0x36, 8}, {0x37, 1}, {0x2c, 7}, {0x2d, 1}, {0x03, 5}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint8_t was = b.data[bad[i].at];
        b.data[bad[i].at] = bad[i].value;
        assert_false(kda_etl_buffer_parse(b.data, 0, &h));
        b.data[bad[i].at] = was;
    }
    kda_put_le32(b.data, 71);
    assert_false(kda_etl_buffer_parse(b.data, 0, &h));
    blob_free(&b);
}

/* ---- clocks ---- */

static void test_clock(void **state)
{
    (void)state;
    const uint64_t start = 133403823250000000u, t0 = 3594954863453u;
    static const struct {
        uint64_t frequency;
        int64_t ticks;
        int64_t units; /* of 100 ns, worked out with integers of any length */
    } cases[] = {
        {10000000, 12345, 12345},
        {2337949, 1, 4},   /* 4.277 */
        {2337949, -1, -5}, /* down, not towards zero */
        {2337949, 2337949, 10000000},
        {2337949, -2337949, -10000000},
        {3117777, 987654321987, 3167815793069},
        {24000000, 9007199254740993, 3752999689475413},
        {24000000, -9007199254740993, -3752999689475414},
        {3579545, 6442450941000000, 17997960469836250},
        {2600000000, 1000000000000001, 3846153846153},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct kda_etl_clock clock = {KDA_ETL_CLOCK_QPC, cases[i].frequency, UINT64_C(1) << 60,
                                      start};
        uint64_t raw = clock.raw + (uint64_t)cases[i].ticks;
        assert_true(kda_etl_clock_time(&clock, raw) == start + (uint64_t)cases[i].units);
        clock.type = KDA_ETL_CLOCK_CYCLES;
        assert_true(kda_etl_clock_time(&clock, raw) == start + (uint64_t)cases[i].units);
    }
    struct kda_etl_clock clock = {KDA_ETL_CLOCK_SYSTEM, 10000000, t0, start};
    assert_true(kda_etl_clock_time(&clock, start + 5) == start + 5);
    clock.type = KDA_ETL_CLOCK_QPC;
    clock.frequency = 0; /* as 10 MHz */
    assert_true(kda_etl_clock_time(&clock, t0 + 5) == start + 5);
    /* Held at the ends of the range. */
    clock.frequency = 1;
    assert_true(kda_etl_clock_time(&clock, UINT64_MAX) == UINT64_MAX);
    clock.raw = UINT64_MAX;
    assert_true(kda_etl_clock_time(&clock, 0) == 0);
    clock.frequency = UINT64_MAX;
    assert_true(kda_etl_clock_time(&clock, UINT64_MAX) == start);
    assert_true(kda_etl_clock_time(&clock, UINT64_MAX - 1) == start - 1);
}

/* Later raw times never give earlier times. */
static void test_clock_order(void **state)
{
    (void)state;
    struct kda_etl_clock clock = {KDA_ETL_CLOCK_QPC, 3117777, 5000, 1000000};
    uint64_t last = 0;
    for (uint64_t raw = 0; raw < 20000; raw++) {
        uint64_t time = kda_etl_clock_time(&clock, raw);
        assert_true(time >= last);
        last = time;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),       cmocka_unit_test(test_messages),
        cmocka_unit_test(test_inferred_time), cmocka_unit_test(test_counters),
        cmocka_unit_test(test_extended),      cmocka_unit_test(test_bad_marker),
        cmocka_unit_test(test_two_damaged),   cmocka_unit_test(test_wild_sizes),
        cmocka_unit_test(test_unwritten),     cmocka_unit_test(test_filler),
        cmocka_unit_test(test_random),        cmocka_unit_test(test_buffer_header),
        cmocka_unit_test(test_clock),         cmocka_unit_test(test_clock_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
