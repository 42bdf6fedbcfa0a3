/*
 * kda driver status: what the driver says of its sensors, and of the calls that failed.
 */
#define HOST_RUN "test_troubles"
#include "host_run.h"

static void prints_not(const char *text)
{
    if (strstr(out_text, text))
        fail_msg("'%s' is in: %s", text, out_text);
}

static void test_troubles(void **state)
{
    (void)state;
    installed(HOST_RUNNING);
    fake.sensor_state = 1;
    assert_int_equal(RUN("driver", "status"), CLI_DONE);
    prints("network    armed     2025-");
    prints_not("41");
    fake.sensor_state = 2;
    fake.sensor_status = (int32_t)0xC0020017u;
    fake.failure_count = 1;
    assert_int_equal(RUN("driver", "status"), CLI_INCOMPLETE);
    prints("degraded");
    prints("FwpmEngineOpen0 0xc0020017 in KdapArm");
    says("the network sensor is degraded: FwpmEngineOpen0 ended with 0xc0020017");
    assert_int_equal(RUN("driver", "status", "-v"), CLI_INCOMPLETE);
    prints("42 calls of the system failed");
    prints("      41  FwpmEngineOpen0 0xc0020017 in KdapArm\n");
    assert_int_equal(RUN("driver", "status", "-f", "json"), CLI_INCOMPLETE);
    prints("\"sensors\":{\"network\":{\"state\":\"degraded\",\"since\":\"2025-");
    prints("\"failed_calls\":{\"total\":42,\"last\":[{\"call\":\"FwpmEngineOpen0\"");
    /* More than there is room for. */
    fake.failure_count = 65;
    assert_int_equal(RUN("driver", "status"), CLI_INPUT);
    says("different versions");
    fake.old_driver = true;
    assert_int_equal(RUN("driver", "status"), CLI_DONE);
    prints_not("network    ");
}

/* The encoder ends a time with no NUL, and what was in the buffer is no part of it. */
static void test_time_ends(void **state)
{
    char text[CONTROL_TIME_TEXT];
    (void)state;
    memset(text, 0x16, sizeof(text));
    control_time(0, text);
    assert_string_equal(text, "1601-01-01T00:00:00.0000000Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_troubles, setup, teardown),
        cmocka_unit_test(test_time_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
