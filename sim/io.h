/*
 * io.h - devices, opens and security; private to sim/.
 */
#ifndef SIM_IO_H
#define SIM_IO_H

#include "machine.h"

/* Who may open: all one needs of a descriptor here. */
struct sim_security {
    bool restricted; /* SYSTEM and Administrators only */
    bool protected;  /* inherits nothing */
    bool set;
};
/* Reads a self-relative descriptor; false: malformed. */
bool sim_se_read(const void *descriptor, struct sim_security *security);
bool sim_se_sddl(struct sim_str sddl, struct sim_security *security);
bool sim_se_allows(const struct sim_security *security, enum sim_caller caller);

/* The device object is the first member: the driver has a pointer to it. */
struct sim_device {
    DEVICE_OBJECT object;
    struct sim_item item;
    struct sim_device *next;
    struct sim_wide name;
    struct sim_security security;
    unsigned opens;
    bool deleted;
    bool shutdown;
    bool exclusive;
    bool loading; /* made in DriverEntry */
};

/* By object name or through a link; *rest is what follows the device's name. Under the lock of
 * devices, which the caller gets with sim_io_lock. */
void sim_io_lock(void);
void sim_io_unlock(void);
struct sim_device *sim_device_find(struct sim_str name, struct sim_str *rest);
void sim_device_opened(struct sim_device *device);
bool sim_io_unload_pending(void);
void sim_device_release(struct sim_device *device);
NTSTATUS sim_file_secure(HANDLE handle, const struct sim_security *security);
/* Sends IRP_MJ_SHUTDOWN and waits. */
void sim_irp_shutdown(struct sim_device *device);

#endif
