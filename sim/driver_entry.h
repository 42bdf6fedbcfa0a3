/*
 * driver_entry.h - the driver's entry point, for those who load it into the simulator.
 */
#ifndef SIM_DRIVER_ENTRY_H
#define SIM_DRIVER_ENTRY_H

#include <stdint.h>

struct _DRIVER_OBJECT;
struct _UNICODE_STRING;

int32_t DriverEntry(struct _DRIVER_OBJECT *driver, struct _UNICODE_STRING *path);

#endif
