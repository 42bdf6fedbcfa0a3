/*
 * test_device.c - the device: who may open it, every control request with every wrong length, live
 * readers that are fast, slow, cancelled, killed.
 */
#include "world.h"

#include "kda_ioctl.h"

#define DEVICE STR("\\??\\KDAMonitor")
#define ACCESS 3u /* read and write */

static int begin(void **state)
{
    (void)state;
    world_begin(NULL);
    world_load();
    return 0;
}

static int end(void **state)
{
    (void)state;
    world_end();
    return 0;
}

static struct sim_reader *open_device(void)
{
    struct sim_reader *reader = NULL;
    assert_int_equal(sim_reader_open(DEVICE, SIM_CALLER_ADMIN, ACCESS, &reader), STATUS_SUCCESS);
    return reader;
}

static void flush(struct sim_reader *reader)
{
    struct kda_control request = {KDA_CONTROL_VERSION, sizeof(request)};
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_FLUSH, &request, sizeof(request), NULL, 0, NULL),
        STATUS_SUCCESS);
}

static void set_value(unsigned n)
{
    const struct sim_registry op = {.key = STR("\\REGISTRY\\MACHINE\\SOFTWARE\\Test"),
                                    .name = STR("Count"),
                                    .type = REG_DWORD,
                                    .data = &n,
                                    .size = 4};
    assert_int_equal(sim_registry_set_value(&op), 0);
}

/* --- opening --------------------------------------------------------------------------------- */

static void who_may_open(void **state)
{
    struct sim_reader *reader = NULL;

    (void)state;
    assert_int_equal(sim_reader_open(DEVICE, SIM_CALLER_USER, ACCESS, &reader),
                     STATUS_ACCESS_DENIED);
    assert_int_equal(sim_reader_open(DEVICE, SIM_CALLER_USER, FILE_READ_ATTRIBUTES, &reader),
                     STATUS_ACCESS_DENIED);
    assert_int_equal(
        sim_reader_open(STR("\\??\\KDAMonitor\\below"), SIM_CALLER_USER, ACCESS, &reader),
        STATUS_ACCESS_DENIED);
    assert_int_not_equal(
        sim_reader_open(STR("\\??\\KDAMonitor\\below"), SIM_CALLER_ADMIN, ACCESS, &reader),
        STATUS_SUCCESS);
    assert_int_equal(sim_reader_open(DEVICE, SIM_CALLER_SYSTEM, ACCESS, &reader), STATUS_SUCCESS);
    sim_reader_close(reader);
}

/* Where the kernel makes the device secure itself. */
static void who_may_open_new_kernel(void **state)
{
    const struct sim_options options = {.build = 22631};

    (void)state;
    world_begin(&options);
    world_load();
    who_may_open(NULL);
    world_end();
}

static void unload_waits_for_handles(void **state)
{
    struct sim_reader *reader = open_device();

    (void)state;
    assert_int_equal(sim_driver_unload(), STATUS_PENDING);
    assert_true(sim_driver_loaded());
    set_value(1);
    sim_reader_close(reader);
    assert_false(sim_driver_loaded());
    world_verify();
}

/* --- control requests ------------------------------------------------------------------------ */

struct request {
    uint32_t code;
    uint32_t in;
    uint32_t out;
};

static const struct request requests[] = {
    {KDA_IOCTL_VERSION, 0, sizeof(struct kda_control_version)},
    {KDA_IOCTL_STATUS, 0, sizeof(struct kda_control_status)},
    {KDA_IOCTL_KINDS, sizeof(struct kda_control_kinds), sizeof(struct kda_control_kinds)},
    {KDA_IOCTL_FLUSH, sizeof(struct kda_control), 0},
    {KDA_IOCTL_TROUBLES, 0, sizeof(struct kda_control_troubles)},
};

static void wrong_lengths(void **state)
{
    struct sim_reader *reader = open_device();
    static uint8_t in[8192], out[8192];
    size_t returned;

    (void)state;
    for (size_t r = 0; r < sizeof(requests) / sizeof(requests[0]); r++) {
        const struct request *q = &requests[r];
        struct kda_control head = {KDA_CONTROL_VERSION, q->in};
        for (size_t size = 0; size <= q->in + 70u; size++) {
            memset(in, 0, sizeof(in));
            memcpy(in, &head, sizeof(head));
            returned = 1;
            if (size != q->in)
                assert_int_equal(
                    sim_reader_control(reader, q->code, in, size, out, q->out, &returned),
                    STATUS_INVALID_BUFFER_SIZE);
        }
        for (size_t size = 0; size <= q->out + 70u; size++) {
            if (size != q->out)
                assert_int_equal(
                    sim_reader_control(reader, q->code, in, q->in, out, size, &returned),
                    STATUS_INVALID_BUFFER_SIZE);
        }
        head.version++;
        memcpy(in, &head, sizeof(head));
        if (q->in)
            assert_int_equal(sim_reader_control(reader, q->code, in, q->in, out, q->out, &returned),
                             STATUS_REVISION_MISMATCH);
        head.version--;
        head.size--;
        memcpy(in, &head, sizeof(head));
        if (q->in)
            assert_int_equal(sim_reader_control(reader, q->code, in, q->in, out, q->out, &returned),
                             STATUS_REVISION_MISMATCH);
    }
    sim_reader_close(reader);
}

static void unknown_requests(void **state)
{
    struct sim_reader *reader = open_device();
    uint8_t buffer[64] = {0};

    (void)state;
    for (uint32_t function = 0x7F0; function < 0x820; function++) {
        for (uint32_t method = 0; method < 4; method++) {
            uint32_t code = KDA_CONTROL_CODE(function, 1u) | method;
            if (code == KDA_IOCTL_VERSION || code == KDA_IOCTL_STATUS || code == KDA_IOCTL_TROUBLES)
                continue;
            assert_int_equal(sim_reader_control(reader, code, buffer, sizeof(buffer), buffer,
                                                sizeof(buffer), NULL),
                             STATUS_INVALID_DEVICE_REQUEST);
        }
    }
    for (uint8_t major = 0; major <= IRP_MJ_MAXIMUM_FUNCTION; major++) {
        if (major == IRP_MJ_CREATE || major == IRP_MJ_CLOSE || major == IRP_MJ_READ ||
            major == IRP_MJ_DEVICE_CONTROL || major == IRP_MJ_CLEANUP || major == IRP_MJ_SHUTDOWN)
            continue;
        assert_int_equal(sim_reader_other(reader, major), STATUS_INVALID_DEVICE_REQUEST);
    }
    sim_reader_close(reader);
}

static void version(void **state)
{
    struct sim_reader *reader = open_device();
    struct kda_control_version v;
    size_t returned = 0;

    (void)state;
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_VERSION, NULL, 0, &v, sizeof(v), &returned),
        STATUS_SUCCESS);
    assert_int_equal(returned, sizeof(v));
    assert_int_equal(v.head.version, KDA_CONTROL_VERSION);
    assert_int_equal(v.head.size, sizeof(v));
    assert_int_equal(v.schema, KDA_SCHEMA_VERSION);
    assert_int_equal(v.kind_count, KDA_KIND_COUNT);
    sim_reader_close(reader);
}

static void read_status(struct sim_reader *reader, struct kda_control_status *s)
{
    assert_int_equal(sim_reader_control(reader, KDA_IOCTL_STATUS, NULL, 0, s, sizeof(*s), NULL),
                     STATUS_SUCCESS);
}

/* A client is a process of a user, whose threads can be suspended (EX-024). */
static void requests_of_a_user(void **state)
{
    struct kda_control_status s;
    struct sim_reader *reader;

    (void)state;
    assert_true(sim_enter(WORLD_USER, 0));
    reader = open_device();
    read_status(reader, &s);
    flush(reader);
    sim_reader_close(reader);
    assert_true(sim_enter(4, 0));
}

static void status(void **state)
{
    struct sim_reader *reader = open_device();
    struct kda_control_status s;

    (void)state;
    for (unsigned n = 0; n < 10; n++)
        set_value(n);
    flush(reader);
    read_status(reader, &s);
    assert_int_equal(s.offered[KDA_KIND_REGISTRY_VALUE_SET], 10);
    assert_int_equal(s.written[KDA_KIND_REGISTRY_VALUE_SET], 10);
    assert_int_equal(s.lost[KDA_KIND_REGISTRY_VALUE_SET], 0);
    assert_int_equal(s.offered[KDA_KIND_SENSOR_START], 1);
    assert_int_equal(s.written[KDA_KIND_SENSOR_START], 1);
    assert_int_equal(s.queued, 0);
    assert_int_equal(s.writing, 1);
    assert_int_equal(s.readers, 0);
    assert_int_equal(s.file_number, 1);
    assert_true(s.file_bytes > 1000);
    assert_int_equal(s.next_id, 1 + 3 + 10);
    assert_true(s.log[0] != 0);
    sim_reader_close(reader);
}

static void kinds(void **state)
{
    struct sim_reader *reader = open_device();
    struct kda_control_kinds k = {{KDA_CONTROL_VERSION, sizeof(k)}, 0, 0};
    const uint64_t value_set = UINT64_C(1) << KDA_KIND_REGISTRY_VALUE_SET;
    struct kda_control_status s;
    struct world_log log;

    (void)state;
    set_value(1);
    k.disable = value_set;
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_KINDS, &k, sizeof(k), &k, sizeof(k), NULL),
        STATUS_SUCCESS);
    assert_int_equal(k.head.size, sizeof(k));
    assert_false(k.enable & value_set);
    assert_true(k.disable & value_set);
    set_value(2);
    k.enable = value_set;
    k.disable = 0;
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_KINDS, &k, sizeof(k), &k, sizeof(k), NULL),
        STATUS_SUCCESS);
    assert_true(k.enable & value_set);
    set_value(3);
    read_status(reader, &s);
    assert_int_equal(s.offered[KDA_KIND_REGISTRY_VALUE_SET], 2);
    /* What the driver cannot record cannot be switched on. */
    k.enable = UINT64_C(1) << KDA_KIND_ETW_EVENT;
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_KINDS, &k, sizeof(k), &k, sizeof(k), NULL),
        STATUS_INVALID_PARAMETER);
    k.enable = UINT64_C(1) << 40;
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_KINDS, &k, sizeof(k), &k, sizeof(k), NULL),
        STATUS_INVALID_PARAMETER);
    sim_reader_close(reader);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 2);
    assert_int_equal(world_count(&log, "registry.value_set", "\"data\":2,", NULL), 0);
    world_free(&log);
}

/* --- readers --------------------------------------------------------------------------------- */

/* Reads until the text has been seen, or `most` bytes; NUL-terminated. */
static size_t read_until(struct sim_reader *reader, const char *text, char *to, size_t most,
                         size_t step)
{
    size_t all = 0;

    to[0] = '\0';
    while (!strstr(to, text)) {
        size_t got = 0;
        assert_true(all + step < most);
        assert_int_equal(sim_reader_read_wait(reader, to + all, step, &got), STATUS_SUCCESS);
        assert_true(got > 0 && got <= step);
        all += got;
        to[all] = '\0';
    }
    return all;
}

/* A reader sees the bytes of the file, from its first read on, however small its buffer is. */
static void same_bytes_as_the_file(void **state)
{
    struct sim_reader *reader = open_device();
    struct sim_request *first;
    static char text[65536];
    struct world_log log;
    char start;
    size_t all;

    (void)state;
    flush(reader); /* what the start has told is gone by */
    first = sim_reader_read(reader, &start, 1);
    for (unsigned n = 0; n < 20; n++)
        set_value(n);
    assert_true(sim_request_wait(first, 5000));
    assert_int_equal(sim_request_status(first), STATUS_SUCCESS);
    assert_int_equal(sim_request_bytes(first), 1);
    text[0] = start;
    all = 1 + read_until(reader, "\"data\":19,", text + 1, sizeof(text) - 1, 7);
    while (text[all - 1] != '\n') {
        size_t got;
        assert_int_equal(sim_reader_read_wait(reader, text + all, 1, &got), STATUS_SUCCESS);
        all += got;
    }
    sim_request_free(first);
    sim_reader_close(reader);
    world_unload();
    world_read(&log);
    text[all] = '\0';
    for (size_t i = 0, at = 0; i < log.count; i++) {
        const char *line = log.lines[i].text;
        if (!strstr(line, "\"kind\":\"registry.value_set\""))
            continue;
        assert_memory_equal(text + at, line, strlen(line));
        at += strlen(line) + 1;
        if (strstr(line, "\"data\":19,"))
            assert_int_equal(at, all);
    }
    world_free(&log);
}

static void parked_reads_in_order(void **state)
{
    struct sim_reader *reader = open_device();
    struct sim_request *r[3];
    char buffers[3][32];

    (void)state;
    flush(reader);
    for (size_t i = 0; i < 3; i++)
        r[i] = sim_reader_read(reader, buffers[i], sizeof(buffers[i]));
    assert_false(sim_request_wait(r[0], 30));
    set_value(1);
    for (size_t i = 0; i < 3; i++) {
        assert_true(sim_request_wait(r[i], 5000));
        assert_int_equal(sim_request_status(r[i]), STATUS_SUCCESS);
        assert_int_equal(sim_request_bytes(r[i]), sizeof(buffers[i]));
    }
    assert_memory_equal(buffers[0], "{\"v\":1,\"id\":", 12);
    assert_memory_not_equal(buffers[1], "{\"v\":1", 6);
    for (size_t i = 0; i < 3; i++)
        sim_request_free(r[i]);
    sim_reader_close(reader);
}

static void empty_read(void **state)
{
    struct sim_reader *reader = open_device();
    char buffer[1];
    size_t got = 1;

    (void)state;
    assert_int_equal(sim_reader_read_wait(reader, buffer, 0, &got), STATUS_SUCCESS);
    assert_int_equal(got, 0);
    sim_reader_close(reader);
}

/* Opening alone begins nothing and costs nothing; a read of no bytes begins the reading. */
static void reading_begins_with_the_first_read(void **state)
{
    struct sim_reader *reader = open_device();
    struct kda_control_status s;
    size_t before = sim_pool_bytes(), got = 1;
    char text[4096];

    (void)state;
    set_value(111);
    flush(reader);
    read_status(reader, &s);
    assert_int_equal(s.readers, 0);
    assert_true(sim_pool_bytes() < before + 65536);
    assert_int_equal(sim_reader_read_wait(reader, text, 0, &got), STATUS_SUCCESS);
    assert_int_equal(got, 0);
    read_status(reader, &s);
    assert_int_equal(s.readers, 1);
    set_value(222);
    flush(reader);
    assert_int_equal(sim_reader_read_wait(reader, text, sizeof(text) - 1, &got), STATUS_SUCCESS);
    text[got] = '\0';
    assert_null(strstr(text, "\"data\":111,"));
    assert_non_null(strstr(text, "\"data\":222,"));
    assert_int_equal(text[got - 1], '\n');
    sim_reader_close(reader);
}

static void cancelled_reads(void **state)
{
    struct sim_reader *reader = open_device();
    struct sim_request *r[2];
    char buffers[2][64];

    (void)state;
    flush(reader);
    r[0] = sim_reader_read(reader, buffers[0], sizeof(buffers[0]));
    r[1] = sim_reader_read(reader, buffers[1], sizeof(buffers[1]));
    sim_request_cancel(r[0]);
    assert_true(sim_request_wait(r[0], 5000));
    assert_int_equal(sim_request_status(r[0]), STATUS_CANCELLED);
    assert_false(sim_request_wait(r[1], 30));
    set_value(1);
    assert_true(sim_request_wait(r[1], 5000));
    assert_int_equal(sim_request_status(r[1]), STATUS_SUCCESS);
    sim_request_free(r[0]);
    sim_request_free(r[1]);
    r[0] = sim_reader_read(reader, buffers[0], 1);
    sim_reader_close(reader);
    assert_true(sim_request_wait(r[0], 5000));
    sim_request_free(r[0]);
}

static void killed_reader(void **state)
{
    struct sim_reader *readers[2] = {open_device(), open_device()};
    struct sim_request *r[2];
    char buffers[2][64];

    (void)state;
    flush(readers[0]);
    r[0] = sim_reader_read(readers[0], buffers[0], sizeof(buffers[0]));
    r[1] = sim_reader_read(readers[1], buffers[1], sizeof(buffers[1]));
    sim_reader_kill(readers[0]);
    assert_true(sim_request_wait(r[0], 5000));
    assert_int_equal(sim_request_status(r[0]), STATUS_CANCELLED);
    set_value(1);
    assert_true(sim_request_wait(r[1], 5000));
    assert_int_equal(sim_request_status(r[1]), STATUS_SUCCESS);
    sim_request_free(r[0]);
    sim_request_free(r[1]);
    sim_reader_close(readers[1]);
}

/* Eight handles may read; more may only control. A reader that goes makes room. */
static void reader_limit(void **state)
{
    struct sim_reader *readers[9];
    struct sim_request *r[9];
    struct kda_control_status s;
    char buffers[9][16];

    (void)state;
    for (size_t i = 0; i < 9; i++) {
        readers[i] = open_device();
        r[i] = sim_reader_read(readers[i], buffers[i], sizeof(buffers[i]));
    }
    assert_true(sim_request_wait(r[8], 5000));
    assert_int_equal(sim_request_status(r[8]), STATUS_TOO_MANY_OPENED_FILES);
    sim_request_free(r[8]);
    read_status(readers[8], &s);
    assert_int_equal(s.readers, 8);
    sim_reader_kill(readers[0]);
    sim_request_free(r[0]);
    r[8] = sim_reader_read(readers[8], buffers[8], sizeof(buffers[8]));
    set_value(1);
    for (size_t i = 1; i < 9; i++) {
        assert_true(sim_request_wait(r[i], 5000));
        assert_int_equal(sim_request_status(r[i]), STATUS_SUCCESS);
        sim_request_free(r[i]);
        sim_reader_close(readers[i]);
    }
}

/* A reader that does not read loses only its own; the account it gets is exact, and the log has
 * everything. */
static void slow_reader(void **state)
{
    enum { EVENTS = 3000 };
    struct sim_reader *slow, *control;
    struct sim_request *first;
    static char text[4 << 20];
    struct world_log log;
    const char *loss;
    unsigned long long counted = 0;
    unsigned seen = 0;
    char byte;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("ReaderBytes"), 65536);
    world_load();
    slow = open_device();
    control = open_device();
    first = sim_reader_read(slow, &byte, 1);
    for (unsigned n = 0; n < EVENTS; n++) {
        set_value(n);
        if (n % 500 == 0)
            flush(control);
    }
    flush(control);
    assert_true(sim_request_wait(first, 5000));
    sim_request_free(first);
    text[0] = byte;
    read_until(slow, "\"scope\":\"reader\"}\n", text + 1, sizeof(text) - 1, 4096);
    loss = strstr(text, "\"kind\":\"sensor.loss\"");
    assert_non_null(loss);
    assert_null(strstr(strstr(text, "{\"v\":1,\"time\""), "\"id\":"));
    counted = strtoull(strstr(loss, "\"registry.value_set\":") + 21, NULL, 10);
    for (const char *at = text; (at = strstr(at, "\"kind\":\"registry.value_set\"")); at++)
        seen++;
    assert_int_equal(counted + seen, EVENTS);
    sim_reader_close(slow);
    sim_reader_close(control);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), EVENTS);
    assert_int_equal(world_count(&log, "sensor.loss", NULL), 0);
    world_free(&log);
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(who_may_open, begin, end),
        cmocka_unit_test(who_may_open_new_kernel),
        cmocka_unit_test_setup_teardown(unload_waits_for_handles, begin, end),
        cmocka_unit_test_setup_teardown(wrong_lengths, begin, end),
        cmocka_unit_test_setup_teardown(unknown_requests, begin, end),
        cmocka_unit_test_setup_teardown(version, begin, end),
        cmocka_unit_test_setup_teardown(requests_of_a_user, begin, end),
        cmocka_unit_test_setup_teardown(status, begin, end),
        cmocka_unit_test_setup_teardown(kinds, begin, end),
        cmocka_unit_test_setup_teardown(same_bytes_as_the_file, begin, end),
        cmocka_unit_test_setup_teardown(parked_reads_in_order, begin, end),
        cmocka_unit_test_setup_teardown(empty_read, begin, end),
        cmocka_unit_test_setup_teardown(reading_begins_with_the_first_read, begin, end),
        cmocka_unit_test_setup_teardown(cancelled_reads, begin, end),
        cmocka_unit_test_setup_teardown(killed_reader, begin, end),
        cmocka_unit_test_setup_teardown(reader_limit, begin, end),
        cmocka_unit_test(slow_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
