/*
 * test_sim_device.c - the device: who may open it, control requests, live readers.
 */
#include "world.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "kda_ioctl.h"

#define LINK STR("\\??\\KDAMonitor")
#define READ 1u
#define WRITE 2u

static struct sim_reader *open_device(void)
{
    struct sim_reader *reader = NULL;

    assert_int_equal(sim_reader_open(LINK, SIM_CALLER_ADMIN, READ | WRITE, &reader), 0);
    return reader;
}

/* A handle becomes a reader with its first read, which waits here. */
static struct sim_reader *open_reader(struct sim_request **request, char *buffer, size_t size)
{
    struct sim_reader *reader = open_device();

    *request = sim_reader_read(reader, buffer, size);
    return reader;
}

static void who_may_open(void **state)
{
    struct sim_reader *reader = NULL;

    (void)state;
    for (unsigned build = 19045; build <= 22631; build += 22631 - 19045) {
        world_begin(&(struct sim_options){.build = build});
        assert_int_equal(sim_reader_open(LINK, SIM_CALLER_SYSTEM, READ, &reader),
                         STATUS_OBJECT_NAME_NOT_FOUND);
        world_load();
        assert_int_equal(sim_reader_open(LINK, SIM_CALLER_USER, READ, &reader),
                         STATUS_ACCESS_DENIED);
        /* A name below the device is no way around its descriptor. */
        assert_int_equal(
            sim_reader_open(STR("\\??\\KDAMonitor\\x"), SIM_CALLER_USER, READ, &reader),
            STATUS_ACCESS_DENIED);
        assert_int_equal(
            sim_reader_open(STR("\\Device\\KDAMonitor"), SIM_CALLER_USER, READ, &reader),
            STATUS_ACCESS_DENIED);
        assert_int_equal(sim_reader_open(LINK, SIM_CALLER_SYSTEM, READ, &reader), 0);
        sim_reader_close(reader);
        assert_int_equal(sim_reader_open(LINK, SIM_CALLER_ADMIN, READ, &reader), 0);
        sim_reader_close(reader);
        world_unload();
        assert_int_equal(sim_reader_open(LINK, SIM_CALLER_ADMIN, READ, &reader),
                         STATUS_OBJECT_NAME_NOT_FOUND);
        world_end();
    }
}

struct request {
    uint32_t code;
    size_t in; /* the only right sizes */
    size_t out;
};

static const struct request requests[] = {
    {KDA_IOCTL_VERSION, 0, sizeof(struct kda_control_version)},
    {KDA_IOCTL_STATUS, 0, sizeof(struct kda_control_status)},
    {KDA_IOCTL_KINDS, sizeof(struct kda_control_kinds), sizeof(struct kda_control_kinds)},
    {KDA_IOCTL_FLUSH, sizeof(struct kda_control), 0},
};

static void every_wrong_length(void **state)
{
    static uint8_t in[4096];
    static uint8_t out[4096];
    struct sim_reader *reader;
    struct kda_control head = {KDA_CONTROL_VERSION, 0};

    (void)state;
    world_begin(NULL);
    world_load();
    reader = open_device();
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        const struct request *r = &requests[i];
        for (size_t size = 0; size < r->out + 16; size++) {
            size_t returned = 12345;
            int32_t status;
            head.size = (uint32_t)r->in;
            memset(in, 0, sizeof(in));
            memcpy(in, &head, sizeof(head));
            memset(out, 0xEE, sizeof(out));
            status = sim_reader_control(reader, r->code, in, r->in, out, size, &returned);
            if (size >= r->out) {
                if (status >= 0)
                    assert_int_equal(returned, r->out);
                continue;
            }
            assert_true(status < 0);
            for (size_t k = 0; k < sizeof(out); k++)
                assert_int_equal(out[k], 0xEE);
        }
        for (size_t size = 0; r->in && size < r->in + 64; size++) {
            int32_t status;
            head.size = (uint32_t)size;
            memset(in, 0, sizeof(in));
            memcpy(in, &head, sizeof(head));
            status = sim_reader_control(reader, r->code, in, size, out, r->out, NULL);
            assert_true((status >= 0) == (size == r->in));
            head.size = (uint32_t)r->in;
        }
    }
    sim_reader_close(reader);
    world_end();
}

static void versions_and_codes(void **state)
{
    struct kda_control_kinds kinds = {.head = {KDA_CONTROL_VERSION, sizeof(kinds)}};
    struct kda_control_version version;
    struct sim_reader *reader;

    (void)state;
    world_begin(NULL);
    world_load();
    reader = open_device();
    memset(&version, 0xEE, sizeof(version));
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_VERSION, NULL, 0, &version, sizeof(version), NULL), 0);
    assert_int_equal(version.head.version, KDA_CONTROL_VERSION);
    assert_int_equal(version.head.size, sizeof(version));
    assert_int_equal(version.kind_count, KDA_KIND_COUNT);
    assert_int_equal(version.reserved, 0);
    kinds.head.version = 2;
    assert_true(sim_reader_control(reader, KDA_IOCTL_KINDS, &kinds, sizeof(kinds), &kinds,
                                   sizeof(kinds), NULL) < 0);
    /* Codes around ours, and ours with other methods and accesses. */
    for (uint32_t function = 0x7F0; function < 0x820; function++) {
        for (uint32_t low = 0; low < 4; low++) {
            for (uint32_t access = 0; access < 4; access++) {
                uint32_t code = KDA_CONTROL_CODE(function, access) | low;
                bool known = false;
                for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
                    known = known || requests[i].code == code;
                if (!known)
                    assert_true(sim_reader_control(reader, code, &kinds, sizeof(kinds), &kinds,
                                                   sizeof(kinds), NULL) < 0);
            }
        }
    }
    for (uint8_t major = 1; major <= IRP_MJ_MAXIMUM_FUNCTION; major++) {
        if (major != IRP_MJ_CLOSE && major != IRP_MJ_READ && major != IRP_MJ_DEVICE_CONTROL &&
            major != IRP_MJ_SHUTDOWN && major != IRP_MJ_CLEANUP)
            assert_true(sim_reader_other(reader, major) < 0);
    }
    sim_reader_close(reader);
    /* Who may only read may not switch kinds. */
    assert_int_equal(sim_reader_open(LINK, SIM_CALLER_ADMIN, READ, &reader), 0);
    kinds.head.version = KDA_CONTROL_VERSION;
    assert_int_equal(sim_reader_control(reader, KDA_IOCTL_KINDS, &kinds, sizeof(kinds), &kinds,
                                        sizeof(kinds), NULL),
                     STATUS_ACCESS_DENIED);
    sim_reader_close(reader);
    world_end();
}

static void switching_kinds(void **state)
{
    struct kda_control_kinds kinds = {.head = {KDA_CONTROL_VERSION, sizeof(kinds)}};
    struct kda_control_status status;
    struct sim_reader *reader;
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    reader = open_device();
    kinds.disable = UINT64_C(1) << KDA_KIND_REGISTRY_VALUE_SET;
    assert_int_equal(sim_reader_control(reader, KDA_IOCTL_KINDS, &kinds, sizeof(kinds), &kinds,
                                        sizeof(kinds), NULL),
                     0);
    assert_int_equal(kinds.enable & UINT64_C(1) << KDA_KIND_REGISTRY_VALUE_SET, 0);
    world_activity(1);
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_STATUS, NULL, 0, &status, sizeof(status), NULL), 0);
    assert_int_equal(status.offered[KDA_KIND_REGISTRY_VALUE_SET], 0);
    assert_true(status.offered[KDA_KIND_PROCESS_CREATE] >= 1);
    assert_int_equal(status.readers, 0); /* this handle has not read */
    memset(&kinds, 0, sizeof(kinds));
    kinds.head = (struct kda_control){KDA_CONTROL_VERSION, sizeof(kinds)};
    kinds.enable = UINT64_C(1) << KDA_KIND_REGISTRY_VALUE_SET;
    assert_int_equal(sim_reader_control(reader, KDA_IOCTL_KINDS, &kinds, sizeof(kinds), &kinds,
                                        sizeof(kinds), NULL),
                     0);
    world_activity(2);
    sim_reader_close(reader);
    world_unload();
    world_read(&log);
    assert_int_equal(world_count(&log, "registry.value_set", NULL), 2);
    assert_int_equal(world_count(&log, "registry.key_create", NULL), 2);
    world_free(&log);
    world_end();
}

static void flush_writes(void **state)
{
    struct kda_control flush = {KDA_CONTROL_VERSION, sizeof(flush)};
    struct sim_reader *reader;
    struct world_log log;

    (void)state;
    world_begin(NULL);
    world_load();
    reader = open_device();
    world_activity(3);
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_FLUSH, &flush, sizeof(flush), NULL, 0, NULL), 0);
    world_read(&log);
    assert_int_equal(world_count(&log, "process.exit", NULL), 1);
    world_free(&log);
    sim_reader_close(reader);
    world_end();
}

/* --- readers --------------------------------------------------------------------------------- */

/* The same lines come to the reader as to the file, from its opening on. */
static void reader_sees_the_file(void **state)
{
    static char buffer[1 << 20];
    static char own[4096];
    struct sim_reader *reader;
    struct sim_request *first;
    struct world_log log;
    size_t used = 0;
    size_t matched = 0;

    (void)state;
    world_begin(NULL);
    world_load();
    reader = open_reader(&first, buffer, 4096);
    for (unsigned i = 0; i < 20; i++)
        world_activity(i);
    sim_clock_advance(WORLD_SECOND);
    assert_true(sim_request_wait(first, 5000));
    used = sim_request_bytes(first);
    sim_request_free(first);
    while (!strstr(buffer, "\"exit_code\":19,")) {
        size_t got = 0;
        assert_int_equal(sim_reader_read_wait(reader, own, sizeof(own), &got), 0);
        assert_true(got > 0 && used + got < sizeof(buffer));
        memcpy(buffer + used, own, got);
        used += got;
        sim_clock_advance(WORLD_SECOND);
    }
    sim_reader_close(reader);
    world_unload();
    world_read(&log);
    for (size_t i = 0; i < log.count; i++)
        matched += strstr(buffer, log.lines[i].text) != NULL;
    assert_true(matched > 100);
    assert_int_equal(world_count(&log, "process.create", NULL), 20);
    world_free(&log);
    world_end();
}

static void parked_read_is_cancelled(void **state)
{
    struct sim_reader *reader;
    struct sim_request *request;
    char buffer[512];

    (void)state;
    world_begin(NULL);
    world_load();
    reader = open_device();
    /* Take what is there, until a read has to wait. */
    for (;;) {
        request = sim_reader_read(reader, buffer, sizeof(buffer));
        if (!sim_request_wait(request, 200))
            break;
        sim_request_free(request);
    }
    sim_request_cancel(request);
    assert_true(sim_request_wait(request, 5000));
    assert_int_equal(sim_request_status(request), STATUS_CANCELLED);
    sim_request_free(request);
    sim_reader_close(reader);
    world_end();
}

/* Nothing is told meanwhile that could end them in another way. */
static void parked_reads_end_with_the_handle(void **state)
{
    struct kda_control flush = {KDA_CONTROL_VERSION, sizeof(flush)};
    struct sim_reader *reader;
    struct sim_request *parked[8];
    static char buffer[8][256];

    (void)state;
    world_begin(NULL);
    world_load();
    for (int kill = 0; kill < 2; kill++) {
        reader = open_device();
        assert_int_equal(
            sim_reader_control(reader, KDA_IOCTL_FLUSH, &flush, sizeof(flush), NULL, 0, NULL),
            STATUS_SUCCESS);
        for (size_t i = 0; i < 8; i++)
            parked[i] = sim_reader_read(reader, buffer[i], sizeof(buffer[i]));
        if (kill)
            sim_reader_kill(reader);
        else
            sim_reader_close(reader);
        for (size_t i = 0; i < 8; i++)
            sim_request_free(parked[i]);
    }
    world_end();
}

/* One that never reads loses only for itself, and is told how much. */
static void slow_reader(void **state)
{
    static char buffer[65536];
    struct kda_control flush = {KDA_CONTROL_VERSION, sizeof(flush)};
    struct sim_reader *slow;
    struct sim_reader *reader;
    struct sim_request *first;
    uint64_t written;
    uint64_t lost;
    bool told = false;

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("ReaderBytes"), 65536);
    world_load();
    slow = open_reader(&first, buffer, 1);
    reader = open_device();
    for (unsigned i = 0; i < 400; i++) {
        world_activity(i);
        if (i % 20 == 0)
            assert_int_equal(
                sim_reader_control(reader, KDA_IOCTL_FLUSH, &flush, sizeof(flush), NULL, 0, NULL),
                0);
    }
    assert_int_equal(
        sim_reader_control(reader, KDA_IOCTL_FLUSH, &flush, sizeof(flush), NULL, 0, NULL), 0);
    for (unsigned i = 0; i < 20 && !told; i++) {
        size_t got = 0;
        struct sim_request *request = sim_reader_read(slow, buffer, sizeof(buffer) - 1);
        if (!sim_request_wait(request, 500)) {
            world_activity(i); /* the loss is told with what comes next */
            sim_clock_advance(WORLD_SECOND);
            sim_request_wait(request, 5000);
        }
        got = sim_request_bytes(request);
        buffer[got] = 0;
        told = strstr(buffer, "\"scope\":\"reader\"") != NULL;
        sim_request_free(request);
    }
    assert_true(told);
    sim_request_free(first);
    sim_reader_close(slow);
    sim_reader_close(reader);
    world_unload();
    world_totals(&written, &lost);
    assert_int_equal(lost, 0);
    world_end();
}

static void number_of_readers(void **state)
{
    struct sim_reader *readers[4];
    struct sim_request *requests_of[4];
    static char buffer[4][64];

    (void)state;
    world_begin(NULL);
    sim_settings_set_dword(STR("Readers"), 3);
    world_load();
    for (size_t i = 0; i < 4; i++)
        readers[i] = open_reader(&requests_of[i], buffer[i], sizeof(buffer[i]));
    assert_true(sim_request_wait(requests_of[3], 30000));
    assert_true(sim_request_status(requests_of[3]) < 0);
    /* One leaves, the place is free. */
    sim_reader_kill(readers[1]);
    sim_request_free(requests_of[1]);
    sim_request_free(requests_of[3]);
    requests_of[3] = sim_reader_read(readers[3], buffer[3], sizeof(buffer[3]));
    /* It waits, or has got a line meanwhile. */
    if (sim_request_wait(requests_of[3], 0))
        assert_int_equal(sim_request_status(requests_of[3]), 0);
    for (size_t i = 0; i < 4; i++) {
        if (i == 1)
            continue;
        sim_reader_close(readers[i]);
        sim_request_free(requests_of[i]);
    }
    world_end();
}

/* An unload with an open handle waits for its close. */
static void unload_waits_for_handles(void **state)
{
    struct sim_reader *reader;
    struct sim_reader *second = NULL;
    struct sim_request *request;
    char buffer[256];

    (void)state;
    world_begin(NULL);
    world_load();
    reader = open_device();
    request = sim_reader_read(reader, buffer, sizeof(buffer));
    assert_int_equal(sim_driver_unload(), STATUS_PENDING);
    assert_true(sim_driver_loaded());
    assert_true(sim_reader_open(LINK, SIM_CALLER_ADMIN, READ, &second) < 0);
    world_activity(1);
    sim_reader_close(reader);
    sim_request_free(request);
    assert_false(sim_driver_loaded());
    world_verify();
    world_end();
}

struct late {
    struct sim_reader *reader, *idle;
    struct sim_request *parked;
    int32_t read, read_again, version, flush, other;
    size_t got;
    bool came;
};

static void *come_late(void *context)
{
    struct kda_control request = {KDA_CONTROL_VERSION, sizeof(request)};
    struct kda_control_version version;
    struct late *late = context;
    char buffer[64];

    late->came = true;
    late->read = sim_reader_read_wait(late->reader, buffer, sizeof(buffer), &late->got);
    late->read_again = sim_reader_read_wait(late->idle, buffer, 0, &late->got);
    late->version =
        sim_reader_control(late->idle, KDA_IOCTL_VERSION, NULL, 0, &version, sizeof(version), NULL);
    late->flush =
        sim_reader_control(late->idle, KDA_IOCTL_FLUSH, &request, sizeof(request), NULL, 0, NULL);
    late->other = sim_reader_other(late->idle, 4 /* write */);
    sim_request_free(late->parked);
    sim_reader_close(late->reader);
    sim_reader_close(late->idle);
    return NULL;
}

static void meanwhile(void *context)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, come_late, context), 0);
    pthread_join(thread, NULL);
}

/* A system that does not wait for the handles: who comes after the end is told of the end. A read
 * is answered like one that waited; access denied would send its reader for an administrator. */
static void late_requests(void **state)
{
    struct late late = {.came = false};
    static char buffer[1 << 16];

    (void)state;
    world_begin(NULL);
    world_load();
    late.reader = open_reader(&late.parked, buffer, sizeof(buffer));
    late.idle = open_device();
    sim_meanwhile("IoDeleteDevice", 1, meanwhile, &late);
    assert_int_equal(sim_driver_unload_at_once(), STATUS_SUCCESS);
    assert_true(late.came);
    assert_int_equal(late.read, STATUS_CANCELLED);
    assert_int_equal(late.read_again, STATUS_CANCELLED);
    assert_int_equal(late.version, STATUS_DEVICE_NOT_READY);
    assert_int_equal(late.flush, STATUS_DEVICE_NOT_READY);
    assert_int_equal(late.other, STATUS_DEVICE_NOT_READY);
    assert_false(sim_driver_loaded());
    world_verify();
    world_end();
}

static void readers_in_the_storm(void **state)
{
    static char buffer[65536];

    (void)state;
    world_begin(&(struct sim_options){.clock = SIM_CLOCK_HOST});
    world_load();
    world_start(2);
    for (unsigned i = 0; i < 100; i++) {
        struct sim_reader *reader = open_device();
        struct sim_request *a = sim_reader_read(reader, buffer, 1000);
        struct sim_request *b = sim_reader_read(reader, buffer + 1000, 10000);
        if (i % 3 == 0)
            sim_request_cancel(a);
        if (i % 3 == 1)
            sim_request_wait(b, 20);
        if (i % 2)
            sim_reader_kill(reader);
        else
            sim_reader_close(reader);
        sim_request_free(a);
        sim_request_free(b);
    }
    world_stop();
    world_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_may_open),
        cmocka_unit_test(every_wrong_length),
        cmocka_unit_test(versions_and_codes),
        cmocka_unit_test(switching_kinds),
        cmocka_unit_test(flush_writes),
        cmocka_unit_test(reader_sees_the_file),
        cmocka_unit_test(parked_read_is_cancelled),
        cmocka_unit_test(parked_reads_end_with_the_handle),
        cmocka_unit_test(slow_reader),
        cmocka_unit_test(number_of_readers),
        cmocka_unit_test(unload_waits_for_handles),
        cmocka_unit_test(late_requests),
        cmocka_unit_test(readers_in_the_storm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
