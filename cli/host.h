/*
 * host.h - what the commands that need Windows ask of it, as a table: the real one is that of
 * win_host.c, tests have one of their own, and there is none where the system is another.
 *
 * Errors are those of GetLastError, 0 = done; paths and texts are UTF-8. Strings that are handed
 * out are the caller's to free.
 */
#ifndef KDA_CLI_HOST_H
#define KDA_CLI_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Errors that commands tell apart. */
enum {
    HOST_OK = 0,
    HOST_NOT_FOUND = 2,
    HOST_PATH_NOT_FOUND = 3,
    HOST_ACCESS_DENIED = 5,
    HOST_NO_MEMORY = 8,
    HOST_FILE_EXISTS = 80,
    HOST_ABORTED = 995,
    HOST_NOT_INSTALLED = 1060,
    HOST_NOT_RUNNING = 1062,
    HOST_RUNNING_ALREADY = 1056,
    HOST_CANCELLED = 1223, /* by Ctrl-C */
};

enum host_state { HOST_STOPPED, HOST_STARTING, HOST_RUNNING, HOST_STOPPING };

struct host_service {
    enum host_state state;
    bool kernel_driver; /* false: a service that has the name by accident */
    unsigned start;     /* 0 boot, 1 system, 2 automatic, 3 on demand, 4 disabled */
    char *image;        /* as registered */
};

struct host_texts {
    char **items;
    size_t count;
};

struct host_memory {
    uint64_t physical; /* bytes of memory of the machine */
    uint64_t pools;    /* bytes of the kernel's paged and non-paged memory */
};

/* A live dump that is being taken. `control` is the block of NtSystemDebugControl; two of its
 * fields are handles that only the host has. */
struct host_dump {
    const char *path; /* must not exist */
    uint8_t *control;
    size_t size, file_at, cancel_at; /* offsets of the handles */
};

struct host_ops {
    void *context;

    /* The service of the driver. */
    uint32_t (*service_query)(void *context, struct host_service *service);
    uint32_t (*service_create)(void *context, const char *image);
    uint32_t (*service_start)(void *context);
    uint32_t (*service_stop)(void *context);
    uint32_t (*service_delete)(void *context);

    /* Files around it. */
    uint32_t (*driver_path)(void *context, char **path); /* where installed drivers are */
    uint32_t (*own_folder)(void *context, char **path);  /* of this program */
    uint32_t (*file_copy)(void *context, const char *from, const char *to);
    uint32_t (*file_delete)(void *context, const char *path);
    uint32_t (*file_rename)(void *context, const char *from, const char *to); /* never replaces */

    /* Lists of texts below the service's `Parameters`. HOST_NOT_FOUND: the value is not set. */
    uint32_t (*texts_read)(void *context, const char *name, struct host_texts *texts);
    uint32_t (*texts_write)(void *context, const char *name, const struct host_texts *texts);

    /* The device. One at a time. A read waits for bytes; Ctrl-C ends it with HOST_CANCELLED. */
    uint32_t (*device_open)(void *context, bool write);
    void (*device_close)(void *context);
    uint32_t (*device_control)(void *context, uint32_t code, const void *in, size_t in_size,
                               void *out, size_t out_size, size_t *returned);
    uint32_t (*device_read)(void *context, void *buffer, size_t capacity, size_t *size);

    /* From here on Ctrl-C is only noted. */
    void (*interrupt_catch)(void *context);
    bool (*interrupted)(void *context);

    /* Live dumps. */
    uint32_t (*memory)(void *context, struct host_memory *memory);
    uint32_t (*disk_free)(void *context, const char *path, uint64_t *bytes);
    uint32_t (*dump_start)(void *context, const struct host_dump *dump);
    /* `size`: bytes in the file so far. When `done`, the NTSTATUS is the outcome. */
    void (*dump_poll)(void *context, uint64_t *size, bool *done, uint32_t *ntstatus);
    void (*dump_cancel)(void *context);
    void (*dump_end)(void *context); /* after it is done; closes the file */

    /* The system's words for an error. Returns `text`. */
    const char *(*error_text)(uint32_t error, char *text, size_t cap);
};

/* NULL where this is not Windows. */
const struct host_ops *host_system(void);

void host_texts_free(struct host_texts *texts);

#endif
