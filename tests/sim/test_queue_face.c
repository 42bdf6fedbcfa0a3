/*
 * test_queue_face.c - the queue as the driver sees it, without the rest of the driver.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "event_queue.h"
#include "sim.h"

static const KDAMON_QUEUE_OPTIONS small = {1, 4096, 0, NULL};
static const KDAMON_QUEUE_OPTIONS *options;

static void unload(PDRIVER_OBJECT driver)
{
    UNREFERENCED_PARAMETER(driver);
    KdaMonEventQueueDestroy();
}

static int32_t entry(struct _DRIVER_OBJECT *driver, struct _UNICODE_STRING *path)
{
    UNREFERENCED_PARAMETER(path);
    if (!KdaMonEventQueueInitialize(options))
        return STATUS_INSUFFICIENT_RESOURCES;
    driver->DriverUnload = unload;
    return STATUS_SUCCESS;
}

static int begin_with(const KDAMON_QUEUE_OPTIONS *wanted)
{
    options = wanted;
    assert_true(sim_boot(NULL));
    assert_int_equal(sim_driver_load(entry), STATUS_SUCCESS);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_with(NULL);
}

static int begin_small(void **state)
{
    (void)state;
    return begin_with(&small);
}

static int end(void **state)
{
    (void)state;
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    sim_shutdown_machine();
    return 0;
}

/* An event of a kind with a number in it. */
static KDAMON_EVENT make(uint64_t *buffer, size_t bytes, unsigned kind, unsigned pid)
{
    KDAMON_EVENT event = {.Type = KdaMonEventOther};
    struct kda_event_builder b;

    assert_true(kda_event_begin(&b, buffer, bytes, kind, KDA_SOURCE_DRIVER));
    b.event->pid = pid;
    assert_true(kda_event_end(&b) > 0);
    event.Data = b.event;
    return event;
}

static bool push(unsigned kind, unsigned pid)
{
    uint64_t buffer[64];
    KDAMON_EVENT event = make(buffer, sizeof(buffer), kind, pid);
    return KdaMonEventQueuePush(&event);
}

static void two_pushes_two_pops(void **state)
{
    KDAMON_EVENT event;

    (void)state;
    assert_int_equal(KdaMonEventQueueCount(), 0);
    assert_false(KdaMonEventQueuePop(&event));
    assert_true(push(KDA_KIND_PROCESS_CREATE, 10));
    sim_clock_advance(5);
    assert_true(push(KDA_KIND_REGISTRY_VALUE_SET, 11));
    assert_int_equal(KdaMonEventQueueCount(), 2);
    assert_true(KdaMonEventQueuePop(&event));
    assert_int_equal(event.Id, 0);
    assert_int_equal(event.Type, KdaMonEventProcess);
    assert_int_equal(event.Data->pid, 10);
    assert_true(event.Timestamp.QuadPart > 0);
    assert_true(KdaMonEventQueuePop(&event));
    assert_int_equal(event.Id, 1);
    assert_int_equal(event.Type, KdaMonEventRegistry);
    assert_int_equal(event.Data->pid, 11);
    assert_false(KdaMonEventQueuePop(&event));
    assert_int_equal(KdaMonEventQueueDropped(0), 0);
}

static void null_is_refused(void **state)
{
    KDAMON_EVENT event = {.Data = NULL};

    (void)state;
    assert_false(KdaMonEventQueuePush(NULL));
    assert_false(KdaMonEventQueuePush(&event));
    assert_false(KdaMonEventQueuePop(NULL));
    assert_int_equal(KdaMonEventQueueCount(), 0);
    assert_int_equal(KdaMonEventQueueDropped(0), 0);
}

static void not_there(void **state)
{
    KDAMON_EVENT event;

    (void)state;
    begin_with(NULL);
    end(NULL);
    assert_false(push(KDA_KIND_PROCESS_CREATE, 1));
    assert_false(KdaMonEventQueuePop(&event));
    assert_int_equal(KdaMonEventQueueCount(), 0);
    assert_int_equal(KdaMonEventQueueDropped(0), 0);
    KdaMonEventQueueLose(KDA_KIND_PROCESS_CREATE, 1);
    KdaMonEventQueueWake();
}

/* A full queue refuses and counts, by kind; processes get in where the registry does not. */
static void full_queue(void **state)
{
    unsigned registry = 0, process = 0, refused = 3;
    KDAMON_EVENT event;
    uint64_t next = 0;

    (void)state;
    while (push(KDA_KIND_REGISTRY_VALUE_SET, registry))
        registry++;
    for (unsigned i = 1; i < refused; i++)
        assert_false(push(KDA_KIND_REGISTRY_VALUE_SET, 0));
    while (push(KDA_KIND_PROCESS_CREATE, process))
        process++;
    assert_true(registry > 10 && process > 1);
    assert_int_equal(KdaMonEventQueueCount(), registry + process);
    assert_int_equal(KdaMonEventQueueDropped(KDA_KIND_REGISTRY_VALUE_SET), refused);
    assert_int_equal(KdaMonEventQueueDropped(KDA_KIND_PROCESS_CREATE), 1);
    assert_int_equal(KdaMonEventQueueDropped(KDA_KIND_THREAD_CREATE), 0);
    assert_int_equal(KdaMonEventQueueDropped(0), refused + 1);
    assert_int_equal(KdaMonEventQueueDropped(KDA_KIND_COUNT), 0);
    KdaMonEventQueueLose(KDA_KIND_THREAD_CREATE, 100);
    assert_int_equal(KdaMonEventQueueDropped(KDA_KIND_THREAD_CREATE), 1);
    while (KdaMonEventQueuePop(&event))
        assert_int_equal(event.Id, next++);
    assert_int_equal(next, registry + process);
    assert_true(push(KDA_KIND_REGISTRY_VALUE_SET, 0));
}

static void every_level(void **state)
{
    KDAMON_EVENT event;

    (void)state;
    for (uint8_t irql = PASSIVE_LEVEL; irql <= DISPATCH_LEVEL; irql++) {
        sim_set_irql(irql);
        assert_true(push(KDA_KIND_THREAD_CREATE, irql));
        assert_int_equal(sim_irql(), irql);
        assert_int_equal(KdaMonEventQueueCount(), 1);
        assert_true(KdaMonEventQueuePop(&event));
        assert_int_equal(event.Data->pid, irql);
        assert_int_equal(event.Type, KdaMonEventThread);
    }
    sim_set_irql(PASSIVE_LEVEL);
}

static void types(void **state)
{
    static const KDAMON_EVENT_TYPE expected[KDA_KIND_COUNT] = {
        [0] = KdaMonEventOther,
        [KDA_KIND_PROCESS_CREATE] = KdaMonEventProcess,
        [KDA_KIND_PROCESS_EXIT] = KdaMonEventProcess,
        [KDA_KIND_PROCESS_EXISTING] = KdaMonEventProcess,
        [KDA_KIND_THREAD_CREATE] = KdaMonEventThread,
        [KDA_KIND_THREAD_EXIT] = KdaMonEventThread,
        [KDA_KIND_IMAGE_LOAD] = KdaMonEventImageLoad,
        [KDA_KIND_IMAGE_UNLOAD] = KdaMonEventImageLoad,
        [KDA_KIND_NETWORK_CONNECT] = KdaMonEventNetwork,
        [KDA_KIND_NETWORK_ACCEPT] = KdaMonEventNetwork,
        [KDA_KIND_NETWORK_ATTEMPT] = KdaMonEventNetwork,
        [KDA_KIND_NETWORK_LISTEN] = KdaMonEventNetwork,
        [KDA_KIND_NETWORK_EXISTING] = KdaMonEventNetwork,
        [KDA_KIND_NETWORK_DISCONNECT] = KdaMonEventNetwork,
        [KDA_KIND_REGISTRY_KEY_CREATE] = KdaMonEventRegistry,
        [KDA_KIND_REGISTRY_KEY_DELETE] = KdaMonEventRegistry,
        [KDA_KIND_REGISTRY_KEY_RENAME] = KdaMonEventRegistry,
        [KDA_KIND_REGISTRY_VALUE_SET] = KdaMonEventRegistry,
        [KDA_KIND_REGISTRY_VALUE_DELETE] = KdaMonEventRegistry,
    };

    (void)state;
    for (unsigned kind = 0; kind < KDA_KIND_COUNT; kind++) {
        if (kind == 0 || kind >= KDA_KIND_ETW_EVENT)
            assert_int_equal(KdaMonEventTypeOf(kind), KdaMonEventOther);
        else
            assert_int_equal(KdaMonEventTypeOf(kind), expected[kind]);
    }
}

static void wrong_options(void **state)
{
    const KDAMON_QUEUE_OPTIONS wrong[] = {
        {3, 65536, 0, NULL}, {1, 65537, 0, NULL}, {1024, 65536, 0, NULL}};

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        options = &wrong[i];
        assert_true(sim_boot(NULL));
        assert_int_equal(sim_driver_load(entry), STATUS_INSUFFICIENT_RESOURCES);
        sim_shutdown_machine();
    }
    options = NULL;
    assert_true(sim_boot(NULL));
    sim_fault_arm(1);
    assert_int_equal(sim_driver_load(entry), STATUS_INSUFFICIENT_RESOURCES);
    assert_true(sim_fault_fired());
    sim_fault_arm(0);
    sim_shutdown_machine();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_pushes_two_pops, begin, end),
        cmocka_unit_test_setup_teardown(null_is_refused, begin, end),
        cmocka_unit_test(not_there),
        cmocka_unit_test_setup_teardown(full_queue, begin_small, end),
        cmocka_unit_test_setup_teardown(every_level, begin, end),
        cmocka_unit_test(types),
        cmocka_unit_test(wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
