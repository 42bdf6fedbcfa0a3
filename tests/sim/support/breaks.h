/*
 * breaks.h - a rule of the simulator broken in a child process, and the smallest driver to do it
 * with. Included by one test program each.
 */
#ifndef KDA_TESTS_BREAKS_H
#define KDA_TESTS_BREAKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nt.h"
#include "sim.h"

static VOID small_unload(PDRIVER_OBJECT driver)
{
    (void)driver;
}

static PDRIVER_OBJECT loaded_driver;

static NTSTATUS small_entry(PDRIVER_OBJECT driver, PUNICODE_STRING path)
{
    (void)path;
    loaded_driver = driver;
    driver->DriverUnload = small_unload;
    return STATUS_SUCCESS;
}

static void load(void)
{
    const struct sim_options options = {.hang_ms = 300};

    if (!sim_boot(&options) || sim_driver_load(small_entry) != STATUS_SUCCESS)
        abort();
}

static void expect(void (*function)(void *context), const char *text)
{
    assert_true(sim_expect_bugcheck(function, NULL, text));
}

#define BREAKS(name, text)                                                                         \
    static void name##_child(void *unused);                                                        \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        expect(name##_child, text);                                                                \
    }                                                                                              \
    static void name##_child(void *unused)

#endif
