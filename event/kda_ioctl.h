/*
 * kda_ioctl.h - the control protocol of the device `\Device\KDAMonitor`, frozen by assertions.
 *
 * All requests are METHOD_BUFFERED. Every buffer begins with struct kda_control; a request whose
 * version or size is not exactly what its code says is refused, so that a field never has two
 * meanings. Only SYSTEM and Administrators can open the device. The log itself is read with
 * ordinary reads on the same handle: JSON lines, the same bytes as in the file, from the handle's
 * first read on. Opening alone does not begin it: a handle that only makes requests costs no buffer
 * and no place among the readers. A read of no bytes begins it and returns at once; every line that
 * is made after that comes. A reader that is too slow finds `sensor.loss` lines with scope `reader`
 * that count what it missed.
 */
#ifndef KDA_IOCTL_H
#define KDA_IOCTL_H

#include "kda_event.h"

#define KDA_CONTROL_VERSION 1u
#define KDA_CONTROL_KINDS 64u /* room for kinds to come */

/* CTL_CODE(FILE_DEVICE_UNKNOWN, function, METHOD_BUFFERED, access): access 1 reads, 2 writes. */
#define KDA_CONTROL_CODE(function, access) (0x22u << 16 | (access) << 14 | (function) << 2)

/* out: struct kda_control_version */
#define KDA_IOCTL_VERSION KDA_CONTROL_CODE(0x800u, 1u)
/* out: struct kda_control_status */
#define KDA_IOCTL_STATUS KDA_CONTROL_CODE(0x801u, 1u)
/* in: struct kda_control_kinds; out: the same with the kinds that are on now */
#define KDA_IOCTL_KINDS KDA_CONTROL_CODE(0x802u, 2u)
/* in: struct kda_control; returns when all that was recorded before is on the disk */
#define KDA_IOCTL_FLUSH KDA_CONTROL_CODE(0x803u, 2u)
/* out: struct kda_control_troubles */
#define KDA_IOCTL_TROUBLES KDA_CONTROL_CODE(0x804u, 1u)

struct kda_control {
    uint32_t version; /* KDA_CONTROL_VERSION */
    uint32_t size;    /* bytes of the whole structure */
};

struct kda_control_version {
    struct kda_control head;
    uint32_t schema;     /* KDA_SCHEMA_VERSION */
    uint32_t kind_count; /* KDA_KIND_COUNT */
    uint32_t major;
    uint32_t minor;
    uint32_t patch;
    uint32_t reserved;
};

/* Totals since the log began. offered = written + lost + filtered + what is on its way. */
struct kda_control_status {
    struct kda_control head;
    uint64_t log[2]; /* id of the log, a GUID in memory order */
    uint64_t next_id;
    uint64_t queued;      /* events in the queue */
    uint64_t file_bytes;  /* of the current file */
    uint64_t kinds;       /* bit of each kind that is on */
    int32_t write_status; /* NTSTATUS of the last write */
    uint32_t writing;     /* 1: lines reach the disk */
    uint32_t readers;     /* open live readers */
    uint32_t file_number;
    uint64_t offered[KDA_CONTROL_KINDS];
    uint64_t written[KDA_CONTROL_KINDS];
    uint64_t lost[KDA_CONTROL_KINDS];
    uint64_t filtered[KDA_CONTROL_KINDS];
};

struct kda_control_kinds {
    struct kda_control head;
    uint64_t enable;  /* bit of each kind to switch on */
    uint64_t disable; /* wins where a bit is in both */
};

#define KDA_CONTROL_SENSORS 8u   /* room for sensors to come */
#define KDA_CONTROL_FAILURES 64u /* calls that failed: the last ones */
#define KDA_CONTROL_PLACE 32u    /* characters, with NUL; longer ones are cut */
#define KDA_CONTROL_CALL 40u

enum kda_sensor_state {
    KDA_SENSOR_OFF = 0,     /* not started, or its start was refused */
    KDA_SENSOR_ARMED = 1,   /* sees all that it is made to see */
    KDA_SENSOR_DEGRADED = 2 /* started; what `call` refused is missing, and is asked for again */
};

struct kda_control_sensor {
    char name[16];
    uint32_t state; /* enum kda_sensor_state */
    int32_t status; /* NTSTATUS of the call that led to it; 0 where `call` is empty */
    uint64_t since; /* system time, 100 ns since 1601 UTC; 0: not started yet */
    char place[KDA_CONTROL_PLACE]; /* function of the driver that made the call */
    char call[KDA_CONTROL_CALL];
};

/* Calls that failed in the same place with the same status are one entry. */
struct kda_control_failure {
    char place[KDA_CONTROL_PLACE];
    char call[KDA_CONTROL_CALL];
    int32_t status;
    uint32_t reserved;
    uint64_t count;
    uint64_t first; /* system time */
    uint64_t last;
};

struct kda_control_troubles {
    struct kda_control head;
    uint64_t total; /* calls that failed since the start, also those that have left the list */
    uint32_t sensor_count;
    uint32_t failure_count;
    struct kda_control_sensor sensors[KDA_CONTROL_SENSORS];
    struct kda_control_failure failures[KDA_CONTROL_FAILURES]; /* the latest first */
};

_Static_assert(KDA_IOCTL_VERSION == 0x226000u && KDA_IOCTL_STATUS == 0x226004u, "codes");
_Static_assert(KDA_IOCTL_KINDS == 0x22A008u && KDA_IOCTL_FLUSH == 0x22A00Cu, "codes");
_Static_assert(KDA_IOCTL_TROUBLES == 0x226010u, "codes");
_Static_assert(sizeof(struct kda_control) == 8, "layout");
_Static_assert(sizeof(struct kda_control_sensor) == 104, "layout");
_Static_assert(sizeof(struct kda_control_failure) == 104, "layout");
_Static_assert(sizeof(struct kda_control_troubles) == 24 + 72 * 104, "layout");
_Static_assert(sizeof(struct kda_control_version) == 32, "layout");
_Static_assert(sizeof(struct kda_control_kinds) == 24, "layout");
_Static_assert(offsetof(struct kda_control_status, write_status) == 56, "layout");
_Static_assert(offsetof(struct kda_control_status, offered) == 72, "layout");
_Static_assert(sizeof(struct kda_control_status) == 72 + 4 * 8 * KDA_CONTROL_KINDS, "layout");
_Static_assert((int)KDA_KIND_COUNT <= (int)KDA_CONTROL_KINDS, "a place for each kind");

#endif
