/*
 * win_host.h - what the files of the Windows host share. One host a process.
 */
#ifndef KDA_CLI_WIN_HOST_H
#define KDA_CLI_WIN_HOST_H

#include <windows.h>

#include "host.h"

struct win_host {
    HANDLE interrupt; /* set by Ctrl-C; NULL until it is caught */
    HANDLE device, device_event;
    struct {
        HANDLE file, cancel, thread;
        wchar_t *path;
        void *control;
        DWORD size;
    } dump;
};

/* win_service.c */
uint32_t win_service_query(void *context, struct host_service *service);
uint32_t win_service_create(void *context, const char *image);
uint32_t win_service_start(void *context);
uint32_t win_service_stop(void *context);
uint32_t win_service_delete(void *context);

/* win_registry.c */
uint32_t win_texts_read(void *context, const char *name, struct host_texts *texts);
uint32_t win_texts_write(void *context, const char *name, const struct host_texts *texts);

/* win_device.c */
uint32_t win_device_open(void *context, bool write);
void win_device_close(void *context);
uint32_t win_device_control(void *context, uint32_t code, const void *in, size_t in_size, void *out,
                            size_t out_size, size_t *returned);
uint32_t win_device_read(void *context, void *buffer, size_t capacity, size_t *size);

/* win_dump.c */
uint32_t win_memory(void *context, struct host_memory *memory);
uint32_t win_disk_free(void *context, const char *path, uint64_t *bytes);
uint32_t win_dump_start(void *context, const struct host_dump *dump);
void win_dump_poll(void *context, uint64_t *size, bool *done, uint32_t *ntstatus);
void win_dump_cancel(void *context);
void win_dump_end(void *context);

#endif
