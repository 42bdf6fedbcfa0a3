/* fake_host.h - a Windows for tests: a service, a registry value or two, a device, a live dump. */
#ifndef KDA_TESTS_FAKE_HOST_H
#define KDA_TESTS_FAKE_HOST_H

#include "host.h"

#define FAKE_READS 16

struct fake_host {
    struct host_ops ops; /* context: this */

    /* The service; `pending`: queries that see it on its way after a start or stop. */
    bool installed, kernel_driver;
    const char *image;
    enum host_state state;
    int pending;
    uint32_t query_error, create_error, start_error, stop_error, delete_error;
    bool start_fails_silently;

    /* Files. */
    bool file_there;
    uint32_t copy_error, file_delete_error;
    char copied_from[300], deleted[300];

    /* Parameters. */
    struct host_texts kinds, rules;
    bool has_kinds, has_rules;
    uint32_t write_error;

    /* The device: there while the service runs. */
    uint32_t open_error;
    bool open, opened_to_write;
    uint32_t protocol, schema; /* as the driver says them */
    uint8_t log[16];
    uint64_t kinds_on, enable, disable; /* the last two as they were asked for */
    uint32_t writing;
    int32_t write_status;
    uint64_t offered[64], written[64], lost[64], filtered[64];
    bool old_driver;       /* knows no request for troubles */
    uint32_t sensor_state; /* of the one sensor that is told */
    int32_t sensor_status;
    uint32_t failure_count; /* as the driver says it; one entry is there */
    uint32_t control_error;
    size_t answer_short; /* bytes that an answer lacks */
    const char *reads[FAKE_READS];
    uint32_t last_read; /* error behind the last of them */
    size_t read_at;
    bool was_interrupted;

    /* A dump. */
    struct host_memory memory;
    uint64_t room;
    uint32_t dump_error, dump_status;
    int dump_polls;
    const char *appears; /* a file that comes while the dump is taken */
    bool dump_cancelled, dump_ended;
    int interrupt_after; /* polls; 0: never */
    char dump_path[300];
    uint8_t control[64];
};

void fake_host_init(struct fake_host *fake);
void fake_host_deinit(struct fake_host *fake);

#endif
