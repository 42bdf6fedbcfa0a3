/*
 * test_sim_queue.c - the queue wakes its consumer: at once for what is urgent, at the watermark
 * else.
 */
#include "world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static VOID unload(PDRIVER_OBJECT driver)
{
    (void)driver;
}

static NTSTATUS entry(PDRIVER_OBJECT driver, PUNICODE_STRING path)
{
    (void)path;
    driver->DriverUnload = unload;
    return STATUS_SUCCESS;
}

static _Atomic bool awake;

/* Far longer than any test: only a wake-up ends it. */
static void *sleeper(void *unused)
{
    (void)unused;
    KdaMonEventQueueWait(10000, FALSE);
    awake = true;
    return NULL;
}

static bool push(unsigned kind)
{
    static _Alignas(8) uint8_t buffer[1024];
    struct kda_event_builder builder;
    KDAMON_EVENT event = {.Type = KdaMonEventTypeOf(kind)};

    assert_true(kda_event_begin(&builder, buffer, sizeof(buffer), kind, KDA_SOURCE_DRIVER));
    assert_true(kda_event_end(&builder) > 0);
    event.Data = builder.event;
    return KdaMonEventQueuePush(&event);
}

static void wakes(unsigned kind, unsigned pushes)
{
    const KDAMON_QUEUE_OPTIONS options = {.Shards = 1, .ShardBytes = 65536};
    pthread_t thread;

    assert_true(sim_boot(NULL));
    assert_int_equal(sim_driver_load(entry), STATUS_SUCCESS);
    assert_true(KdaMonEventQueueInitialize(&options));
    awake = false;
    assert_int_equal(pthread_create(&thread, NULL, sleeper, NULL), 0);
    usleep(50000);
    for (unsigned i = 0; i < pushes; i++)
        assert_true(push(kind));
    for (int i = 0; i < 400 && !awake; i++)
        usleep(10000);
    assert_true(awake);
    pthread_join(thread, NULL);
    KdaMonEventQueueDestroy();
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    sim_shutdown_machine();
}

static void wakes_for_a_process(void **state)
{
    (void)state;
    wakes(KDA_KIND_PROCESS_CREATE, 1);
}

static void wakes_at_the_watermark(void **state)
{
    (void)state;
    wakes(KDA_KIND_REGISTRY_VALUE_SET, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wakes_for_a_process),
        cmocka_unit_test(wakes_at_the_watermark),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
