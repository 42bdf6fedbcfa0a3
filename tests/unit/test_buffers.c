/*
 * test_buffers.c - trace buffers in memory: chains that lead round, copies of 32-bit consumers, the
 * clock; the writer of trace files; and every fallible call of both failing once.
 */
#include <stdio.h>

#include "mini.h"

#include "forge.h"
#include "kda/buffers.h"
#include "kda/etl.h"
#include "kda/etl_write.h"

static const char scenario[] =
    "build 10.0.22000.795\nsize 4M\nseed 3\nkernel pages=sparse\ndrivers none\ncpus 2\n"
    "process 4 handles=2\n"
    "process 412 ppid=4 name=svchost.exe path=\\x\\svchost.exe handles=2\n"
    "session 1 name=One mode=0x180 buffer=4K\n"
    "consumer session=1 pid=412\n"
    "buffer session=1 cpu=0 state=logging slot current events=5 undelivered=412\n"
    "buffer session=1 cpu=1 state=free events=3\n"
    "buffer session=1 cpu=0 state=free events=2\n"
    "buffer session=1 cpu=1 state=free events=4\n"
    "buffer session=1 cpu=1 state=compressed compression events=9\n"
    "buffer session=1 cpu=1 state=flush user=412 events=6\n"
    "buffer session=1 cpu=0 state=flush user=412 events=7\n";

struct machine {
    struct forge *forge;
    uint8_t *bytes;
    size_t size;
    struct kda_image *image;
    struct kda_kernel *kernel;
    struct kda_etw *etw;
    const struct kda_etw_session *session;
};

static void forge_it(struct machine *m, const char *extra)
{
    char text[sizeof(scenario) + 200];
    struct kda_error err;
    memset(m, 0, sizeof(*m));
    (void)snprintf(text, sizeof(text), "%s%s", scenario, extra);
    if (forge_build(text, &m->forge, &err) != KDA_OK ||
        forge_write_memory(m->forge, FORGE_RAW, &m->bytes, &m->size, &err) != KDA_OK)
        fail_msg("%s", err.text);
}

static enum kda_status look(struct machine *m, struct kda_error *err)
{
    struct kda_kernel_options options;
    size_t count;
    memset(&options, 0, sizeof(options));
    options.symbols.path = "profile";
    enum kda_status status = kda_image_open_memory(m->bytes, m->size, "test", &m->image, err);
    if (status == KDA_OK)
        status = kda_kernel_open(m->image, &options, &m->kernel, err);
    if (status == KDA_OK)
        status = kda_kernel_load_symbols(m->kernel, err);
    if (status == KDA_OK)
        status = kda_etw_map(m->kernel, &m->etw, err);
    if (status == KDA_OK) {
        const struct kda_etw_session *const *sessions = kda_etw_sessions(m->etw, &count);
        m->session = count > 0 ? sessions[0] : NULL;
    }
    return status;
}

static void look_away(struct machine *m)
{
    kda_etw_free(m->etw);
    kda_kernel_close(m->kernel);
    kda_image_close(m->image);
    m->etw = NULL;
    m->kernel = NULL;
    m->image = NULL;
    m->session = NULL;
}

static void end(struct machine *m)
{
    look_away(m);
    free(m->bytes);
    forge_free(m->forge);
}

/* Changes memory of the image; the machine must be looked at. */
static void poke(struct machine *m, uint64_t root, uint64_t va, uint64_t value, unsigned bytes)
{
    uint64_t pa;
    assert_int_equal(
        kda_translate(m->kernel, root ? root : kda_kernel_info(m->kernel)->dtb, va, &pa, NULL),
        KDA_OK);
    for (unsigned i = 0; i < bytes; i++)
        m->bytes[pa + i] = (uint8_t)(value >> (8 * i));
}

static struct kda_etw_buffers *buffers_of(struct machine *m)
{
    struct kda_etw_buffers *buffers = NULL;
    struct kda_error err;
    assert_int_equal(look(m, &err), KDA_OK);
    assert_non_null(m->session);
    assert_int_equal(kda_etw_buffers_read(m->kernel, m->session, &buffers, &err), KDA_OK);
    return buffers;
}

static const struct kda_trace_buffer *at(const struct kda_etw_buffers *buffers, uint64_t va)
{
    size_t count;
    const struct kda_trace_buffer *rows = kda_etw_buffers_list(buffers, &count);
    for (size_t i = 0; i < count; i++)
        if (rows[i].va == va)
            return &rows[i];
    return NULL;
}

static size_t records_of(struct kda_etw_buffers *buffers, const struct kda_trace_buffer *row)
{
    struct kda_buffer_content content;
    struct kda_etl_framer framer;
    struct kda_etl_record record;
    struct kda_etl_hole hole;
    size_t records = 0;
    assert_int_equal(kda_etw_buffer_bytes(buffers, row, &content, NULL), KDA_OK);
    kda_etl_framer_init(&framer, content.bytes, content.size, 0, 0, 0);
    framer.exact = row->used_known;
    for (enum kda_etl_frame got; (got = kda_etl_frame_next(&framer, &record, &hole));)
        records += got == KDA_ETL_FRAME_RECORD;
    return records;
}

/* Gaps of the buffers themselves: the sparse kernel of these images has others. */
static size_t buffer_gaps(struct machine *m)
{
    const struct kda_gaps *gaps = kda_kernel_gaps(m->kernel);
    size_t count = gaps->dropped;
    for (size_t i = 0; i < gaps->count; i++)
        count += strstr(gaps->items[i].what, "buffer") != NULL;
    return count;
}

static void test_all_found(void **state)
{
    (void)state;
    struct machine m;
    forge_it(&m, "");
    struct kda_etw_buffers *buffers = buffers_of(&m);
    const struct forge_truth *t = forge_truth(m.forge);
    static const unsigned places[] = {
        KDA_BUFFER_GLOBAL | KDA_BUFFER_CPU | KDA_BUFFER_CURRENT | KDA_BUFFER_UNDELIVERED,
        KDA_BUFFER_GLOBAL | KDA_BUFFER_FREE,
        KDA_BUFFER_GLOBAL | KDA_BUFFER_FREE,
        KDA_BUFFER_GLOBAL | KDA_BUFFER_FREE,
        KDA_BUFFER_GLOBAL | KDA_BUFFER_COMPRESSION,
        KDA_BUFFER_CONSUMER | KDA_BUFFER_SPACE,
        KDA_BUFFER_CONSUMER | KDA_BUFFER_SPACE,
    };
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        const struct kda_trace_buffer *row = at(buffers, t->buffers[i].va);
        assert_non_null(row);
        assert_int_equal(row->found_by, places[i]);
        assert_int_equal(records_of(buffers, row), t->buffers[i].event_count);
        assert_int_equal(row->kernel, i < 5);
        assert_int_equal(row->consumer != NULL, i == 0 || i >= 5);
    }
    assert_int_equal(buffer_gaps(&m), 0);
    kda_etw_buffers_free(buffers);
    end(&m);
}

static bool has_gap(struct machine *m, const char *part)
{
    const struct kda_gaps *gaps = kda_kernel_gaps(m->kernel);
    for (size_t i = 0; i < gaps->count; i++)
        if (strstr(gaps->items[i].text, part))
            return true;
    return false;
}

static void test_chain_in_a_circle(void **state)
{
    (void)state;
    struct machine m;
    struct kda_error err;
    forge_it(&m, "");
    const struct forge_truth *t = forge_truth(m.forge);
    assert_int_equal(look(&m, &err), KDA_OK);
    poke(&m, 0, t->buffers[3].va + 0x20, t->buffers[1].va + 0x20, 8);
    look_away(&m);
    struct kda_etw_buffers *buffers = buffers_of(&m);
    size_t count;
    (void)kda_etw_buffers_list(buffers, &count);
    assert_int_equal(count, t->buffer_count);
    assert_true(has_gap(&m, "chain of free buffers runs in a circle"));
    kda_etw_buffers_free(buffers);
    look_away(&m);
    /* ... and in the consumer's memory. */
    assert_int_equal(look(&m, &err), KDA_OK);
    poke(&m, t->processes[1].dtb, t->buffers[6].va + 0x20, t->buffers[5].va + 0x20, 8);
    look_away(&m);
    buffers = buffers_of(&m);
    (void)kda_etw_buffers_list(buffers, &count);
    assert_int_equal(count, t->buffer_count);
    assert_true(has_gap(&m, "list of buffers in the consumer's process is circular"));
    kda_etw_buffers_free(buffers);
    end(&m);
}

/* A 32-bit process links its copies with 32-bit pointers: what stands behind is not read. */
static void test_wow64_consumer(void **state)
{
    (void)state;
    struct machine m;
    struct kda_error err;
    forge_it(&m, "");
    const struct forge_truth *t = forge_truth(m.forge);
    uint64_t root = t->processes[1].dtb, count_va, list;
    assert_int_equal(t->processes[1].pid, 412);
    assert_int_equal(look(&m, &err), KDA_OK);
    uint32_t off = kda_field_offset(m.kernel, KDA_F_ETW_REALTIME_CONSUMER_UserBufferCount);
    uint32_t flags = kda_field_offset(m.kernel, KDA_F_ETW_REALTIME_CONSUMER_Flags);
    count_va = t->consumers[0].va + off;
    assert_int_equal(kda_read(m.kernel, count_va + 8, &list, 8, &err), KDA_OK);
    poke(&m, 0, t->consumers[0].va + flags, 0x10, 1);
    poke(&m, root, list, 0xdeadbeef00000000u, 8); /* an empty list for 32 bits */
    look_away(&m);
    struct kda_etw_buffers *buffers = buffers_of(&m);
    const struct kda_trace_buffer *row = at(buffers, t->buffers[5].va);
    assert_non_null(row);
    assert_int_equal(row->found_by, KDA_BUFFER_SPACE);
    assert_true(row->old);
    assert_int_equal(buffer_gaps(&m), 0);
    kda_etw_buffers_free(buffers);
    end(&m);
}

static void test_damaged_compression(void **state)
{
    (void)state;
    struct machine m;
    struct kda_error err;
    forge_it(&m, "");
    const struct forge_truth *t = forge_truth(m.forge);
    assert_int_equal(look(&m, &err), KDA_OK);
    /* All matches, to the first of which nothing stands before. */
    poke(&m, 0, t->buffers[4].va + 72, UINT64_MAX, 8);
    look_away(&m);
    struct kda_etw_buffers *buffers = buffers_of(&m);
    struct kda_buffer_content content;
    assert_int_equal(kda_etw_buffer_bytes(buffers, at(buffers, t->buffers[4].va), &content, &err),
                     KDA_OK);
    assert_int_equal(content.size, t->buffers[4].used);
    assert_int_equal(content.hole_count, 1);
    assert_int_equal(content.holes[0].off, KDA_BUFFER_HEADER);
    assert_int_equal(content.holes[0].reason, KDA_BAD_DATA);
    assert_true(has_gap(&m, "a compressed buffer is damaged"));
    kda_etw_buffers_free(buffers);
    end(&m);
}

/* An image that has used up its work: what was read is there, and a gap says that more was not. */
static void test_work_runs_out(void **state)
{
    (void)state;
    struct machine m;
    struct kda_error err;
    forge_it(&m, "");
    size_t fewest = SIZE_MAX, most = 0;
    for (uint64_t work = 1; work < 4000; work += 97) {
        struct kda_etw_buffers *buffers = NULL;
        struct kda_buffer_content content;
        size_t count;
        assert_int_equal(look(&m, &err), KDA_OK);
        m.kernel->work = work;
        assert_int_equal(kda_etw_buffers_read(m.kernel, m.session, &buffers, &err), KDA_OK);
        const struct kda_trace_buffer *rows = kda_etw_buffers_list(buffers, &count);
        assert_true(kda_kernel_exhausted(m.kernel) || count == forge_truth(m.forge)->buffer_count);
        for (size_t i = 0; i < count; i++)
            if (rows[i].readable) {
                enum kda_status status = kda_etw_buffer_bytes(buffers, &rows[i], &content, &err);
                assert_true(status == KDA_OK || status == KDA_LIMIT);
            }
        assert_int_equal(kda_kernel_exhausted(m.kernel), has_gap(&m, "reading was stopped"));
        fewest = count < fewest ? count : fewest;
        most = count > most ? count : most;
        kda_etw_buffers_free(buffers);
        look_away(&m);
    }
    assert_true(fewest == 0 && most == forge_truth(m.forge)->buffer_count);
    end(&m);
}

static void test_clock(void **state)
{
    (void)state;
    static const struct {
        const char *build;
        unsigned clock;
        uint64_t frequency;
    } rows[] = {{"10.0.22000.795", 1, 10000000},    {"10.0.22000.795", 2, 10000000},
                {"10.0.22000.795", 3, 2600000000u}, {"6.1.7601.24540", 3, 2600000000u},
                {"6.1.7601.24540", 1, 10000000},    {"10.0.14393.4583", 3, 2600000000u}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct machine m;
        char text[300];
        struct kda_error err;
        struct kda_etw_clock clock;
        memset(&m, 0, sizeof(m));
        (void)snprintf(text, sizeof(text),
                       "build %s\nsize 8M\nkernel pages=sparse\ndrivers none\n"
                       "process 4 handles=1\nsession 1 name=One clock=%u\n",
                       rows[i].build, rows[i].clock);
        if (forge_build(text, &m.forge, &err) != KDA_OK ||
            forge_write_memory(m.forge, FORGE_RAW, &m.bytes, &m.size, &err) != KDA_OK)
            fail_msg("%s", err.text);
        assert_int_equal(look(&m, &err), KDA_OK);
        kda_etw_session_clock(m.kernel, m.session, &clock);
        const struct forge_session *s = &forge_truth(m.forge)->sessions[0];
        assert_int_equal(clock.type, rows[i].clock);
        assert_true(clock.frequency == rows[i].frequency);
        assert_true(clock.raw == s->reference_raw && clock.time_100ns == s->start_time);
        assert_int_equal(clock.cpu_mhz, 2600);
        assert_int_equal(clock.qpc_frequency, 10000000);
        end(&m);
    }
}

/* ---- the writer ---- */

struct room {
    uint8_t bytes[16384];
    size_t size, most;
};

static bool take(void *context, const uint8_t *bytes, size_t size)
{
    struct room *room = context;
    if (size > room->most - room->size)
        return false;
    memcpy(room->bytes + room->size, bytes, size);
    room->size += size;
    return true;
}

static struct kda_etl_write_options options_of_file(void)
{
    return (struct kda_etl_write_options){.os_major = 10,
                                          .os_build = 22000,
                                          .processors = 4,
                                          .buffer_size = 4096,
                                          .buffers = 2,
                                          .mode = 1,
                                          .logger_id = 7,
                                          .clock = 1,
                                          .start_raw = 5000,
                                          .start_100ns = 133403823250000000u,
                                          .frequency = 10000000,
                                          .end_100ns = 133403823260000000u,
                                          .events_lost = 9,
                                          .session_name = "N\xc3\xa4me \xf0\x9f\x98\x80 \xff!",
                                          .file_name = "C:\\x.etl"};
}

static size_t two_records(uint8_t *bytes, uint64_t time)
{
    struct blob out = {0};
    for (unsigned i = 0; i < 2; i++) {
        struct etl_record r = {.kind = ETL_SYSTEM, .group = 3, .type = 1, .time = time + i};
        (void)etl_put_record(&out, &r);
    }
    size_t size = out.size;
    memcpy(bytes, out.data, size);
    blob_free(&out);
    return size;
}

static enum kda_status write_file(struct room *room, const struct kda_etl_write_options *options,
                                  unsigned buffers, struct kda_error *err)
{
    struct kda_etl_writer *writer = NULL;
    uint8_t records[128];
    enum kda_status status = kda_etl_writer_create(options, take, room, &writer, err);
    for (unsigned i = 0; i < buffers && status == KDA_OK; i++) {
        struct kda_etl_write_buffer buffer = {
            .cpu = i, .time = 6000 + i, .flags = i ? 4 : 0, .records = records};
        buffer.size = two_records(records, 5500 + 10 * i);
        status = kda_etl_writer_buffer(writer, &buffer, err);
    }
    if (status != KDA_OK) {
        (void)!kda_etl_writer_close(writer, NULL);
        return status;
    }
    return kda_etl_writer_close(writer, err);
}

static void test_written_file(void **state)
{
    (void)state;
    static struct room room;
    struct kda_etl_write_options options = options_of_file();
    struct kda_etl *etl;
    struct kda_error err;
    const struct kda_etl_record *record;
    size_t records = 0;
    room = (struct room){.most = sizeof(room.bytes)};
    assert_int_equal(write_file(&room, &options, 2, &err), KDA_OK);
    assert_int_equal(room.size, 3 * 4096);
    assert_int_equal(kda_etl_open_memory(room.bytes, room.size, "x", &etl, &err), KDA_OK);
    const struct kda_etl_info *info = kda_etl_info(etl);
    assert_true(info->has_header && info->clock.raw == 5000 && info->clock.frequency == 10000000);
    assert_true(info->clock.filetime == options.start_100ns && info->end_time == options.end_100ns);
    assert_string_equal(info->session_name, "N\xc3\xa4me \xf0\x9f\x98\x80 \xef\xbf\xbd!");
    assert_string_equal(info->file_name, "C:\\x.etl");
    assert_int_equal(info->buffers_written, 3);
    assert_int_equal(info->events_lost, 9);
    assert_int_equal(info->buffer_lost_buffers, 1);
    do {
        assert_int_equal(kda_etl_next(etl, &record, &err), KDA_OK);
        records += record != NULL;
    } while (record);
    assert_int_equal(records, 5);
    assert_int_equal(kda_etl_damage_count(etl), 0);
    assert_int_equal(kda_etl_session_count(etl), 1);
    assert_true(kda_etl_session_at(etl, 0)->closed);
    kda_etl_close(etl);
}

static void test_writer_refuses(void **state)
{
    (void)state;
    static struct room room;
    struct kda_error err;
    static const uint32_t sizes[] = {0, 72, 1000, 1028, 0x1000008};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct kda_etl_write_options options = options_of_file();
        room = (struct room){.most = sizeof(room.bytes)};
        options.buffer_size = sizes[i];
        assert_int_equal(write_file(&room, &options, 2, &err), KDA_USAGE);
        assert_int_equal(room.size, 0);
    }
    struct kda_etl_write_options options = options_of_file();
    room = (struct room){.most = sizeof(room.bytes)};
    assert_int_equal(write_file(&room, &options, 1, &err), KDA_USAGE);
    assert_non_null(strstr(err.text, "1 of the announced"));
    room = (struct room){.most = sizeof(room.bytes)};
    assert_int_equal(write_file(&room, &options, 3, &err), KDA_USAGE);
    assert_non_null(strstr(err.text, "more trace buffers"));
    for (size_t most = 0; most < 3; most++) {
        room = (struct room){.most = most * 4096 + 100};
        assert_int_equal(write_file(&room, &options, 2, &err), KDA_IO);
        assert_int_equal(room.size, most * 4096);
    }
}

/* A file of small buffers cannot hold long names; it is a file all the same. */
static void test_long_names(void **state)
{
    (void)state;
    static struct room room;
    static char name[5000];
    struct kda_etl_write_options options = options_of_file();
    struct kda_etl *etl;
    struct kda_error err;
    memset(name, 'n', sizeof(name) - 1);
    options.session_name = options.file_name = name;
    for (uint32_t size = 1024; size <= 4096; size *= 4) {
        room = (struct room){.most = sizeof(room.bytes)};
        options.buffer_size = size;
        assert_int_equal(write_file(&room, &options, 2, &err), KDA_OK);
        assert_int_equal(kda_etl_open_memory(room.bytes, room.size, "x", &etl, &err), KDA_OK);
        assert_true(kda_etl_info(etl)->has_header);
        assert_int_equal(kda_etl_info(etl)->buffers, 3);
        assert_int_equal(strspn(kda_etl_info(etl)->session_name, "n"),
                         strlen(kda_etl_info(etl)->session_name));
        assert_true(strlen(kda_etl_info(etl)->session_name) > 200);
        assert_int_equal(kda_etl_damage_count(etl), 0);
        kda_etl_close(etl);
    }
}

/* ---- faults ---- */

#ifdef KDA_FAULT_INJECTION

static bool fired;

struct result {
    enum kda_status status;
    size_t rows, records, gaps;
};

static struct result read_all(struct machine *m)
{
    struct kda_etw_buffers *buffers = NULL;
    struct kda_error err;
    struct result r = {0};
    size_t count = 0;
    r.status = kda_etw_buffers_read(m->kernel, m->session, &buffers, &err);
    const struct kda_trace_buffer *rows =
        r.status == KDA_OK ? kda_etw_buffers_list(buffers, &count) : NULL;
    for (size_t i = 0; i < count && r.status == KDA_OK; i++) {
        struct kda_buffer_content content;
        if (!rows[i].readable)
            continue;
        r.status = kda_etw_buffer_bytes(buffers, &rows[i], &content, &err);
        r.records += r.status == KDA_OK ? content.size : 0;
    }
    r.rows = count;
    r.gaps = buffer_gaps(m);
    fired = kda_fault_fired();
    kda_fault_arm(0);
    if (r.status != KDA_OK)
        assert_true(err.text[0] != '\0');
    kda_etw_buffers_free(buffers);
    return r;
}

static void test_buffer_faults(void **state)
{
    (void)state;
    struct machine m;
    struct kda_error err;
    size_t survived = 0, failed = 0;
    kda_fault_arm(0);
    forge_it(&m, "");
    assert_int_equal(look(&m, &err), KDA_OK);
    struct result good = read_all(&m);
    assert_int_equal(good.status, KDA_OK);
    assert_int_equal(good.gaps, 0);
    look_away(&m);
    fired = true;
    for (uint64_t n = 1; fired; n++) {
        assert_true(n < 100000);
        assert_int_equal(look(&m, &err), KDA_OK);
        kda_fault_arm(n);
        struct result r = read_all(&m);
        look_away(&m);
        if (r.status == KDA_OK && r.gaps == 0 && memcmp(&r, &good, sizeof(r)) != 0)
            fail_msg("fault %llu changed the result without a word", (unsigned long long)n);
        survived += r.status == KDA_OK;
        failed += r.status == KDA_NO_MEMORY;
    }
    assert_true(survived > 0 && failed > 5);
    end(&m);
}

static void test_writer_faults(void **state)
{
    (void)state;
    static struct room room;
    struct kda_etl_write_options options = options_of_file();
    struct kda_error err;
    size_t failed = 0;
    fired = true;
    for (uint64_t n = 1; fired; n++) {
        room = (struct room){.most = sizeof(room.bytes)};
        kda_fault_arm(n);
        enum kda_status status = write_file(&room, &options, 2, &err);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        assert_int_equal(status, fired ? KDA_NO_MEMORY : KDA_OK);
        failed += fired;
    }
    assert_int_equal(failed, 2);
}

#else

static void test_buffer_faults(void **state)
{
    (void)state;
    skip();
}

static void test_writer_faults(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_found),      cmocka_unit_test(test_chain_in_a_circle),
        cmocka_unit_test(test_wow64_consumer), cmocka_unit_test(test_damaged_compression),
        cmocka_unit_test(test_work_runs_out),  cmocka_unit_test(test_clock),
        cmocka_unit_test(test_written_file),   cmocka_unit_test(test_writer_refuses),
        cmocka_unit_test(test_long_names),     cmocka_unit_test(test_buffer_faults),
        cmocka_unit_test(test_writer_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
