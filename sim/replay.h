/*
 * replay.h - recorded activity becomes kernel callbacks: what a recording holds, in what order it
 * is fired, and how.
 *
 *     files -> recording_read (replay.c) -> struct recording: machines with processes and records
 *           -> replay_plan    (replay_plan.c) -> steps in an order that a kernel could show
 *           -> replay_fire    (replay_fire.c) -> simulator, driver, log
 *
 * Recordings are Sysmon events as JSON lines. What they lack is handled openly and counted: a
 * record is fired, or skipped for one named reason.
 */
#ifndef SIM_REPLAY_H
#define SIM_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "sim.h"

#define REPLAY_NONE SIZE_MAX
#define REPLAY_MAX_LINE ((size_t)16 << 20)
#define REPLAY_MAX_RECORDS ((size_t)1 << 24)
#define REPLAY_MAX_SKIP ((uint64_t)4 << 30) /* bytes of a line before the file is given up */
#define REPLAY_MAX_HOSTS 1024u
#define REPLAY_MAX_HOST_BYTES 240u
#define REPLAY_MAX_TID 0x7FFFFFFCu /* the replay's own thread ids lie behind the recorded ones */
#define REPLAY_GUID_TEXT 40

/* S(NAME, text): why a line is not fired. */
#define REPLAY_SKIPS(S)                                                                            \
    S(NOT_JSON, "not JSON")                                                                        \
    S(CHANNEL, "other channel")                                                                    \
    S(EVENT, "other event")                                                                        \
    S(HOST, "other host")                                                                          \
    S(OPERATION, "operation not recorded")                                                         \
    S(PROCESS, "no process")                                                                       \
    S(FIELD, "field missing or malformed")                                                         \
    S(LIMIT, "beyond a limit")                                                                     \
    S(IMPOSSIBLE, "contradicts other records")

enum replay_skip {
#define S(name, text) REPLAY_SKIP_##name,
    REPLAY_SKIPS(S)
#undef S
        REPLAY_SKIP_COUNT
};
extern const char *const replay_skip_names[REPLAY_SKIP_COUNT];

enum replay_type {
    REPLAY_PROCESS_CREATE,
    REPLAY_PROCESS_EXIT,
    REPLAY_THREAD_REMOTE,
    REPLAY_IMAGE_LOAD,
    REPLAY_DRIVER_LOAD,
    REPLAY_FLOW,
    REPLAY_KEY_CREATE,
    REPLAY_KEY_DELETE,
    REPLAY_KEY_RENAME,
    REPLAY_VALUE_SET,
    REPLAY_VALUE_DELETE
};

struct replay_endpoint {
    uint8_t address[16]; /* network order */
    uint16_t port;
};

struct replay_record {
    enum replay_type type;
    uint64_t time;       /* as recorded, 100 ns since 1601 */
    uint64_t at;         /* when it is fired; differs where the recorded time is impossible */
    uint64_t line;       /* in its file */
    size_t process;      /* who acts; the subject of create and exit; REPLAY_NONE for drivers */
    size_t other;        /* parent of a created process, target of a thread; REPLAY_NONE */
    struct sim_str path; /* image, key; command line of a created process */
    struct sim_str name; /* value, new name */
    /* registry data */
    uint32_t value_type;
    const void *data;
    size_t data_size;
    /* thread */
    uint32_t tid;
    uint64_t address;
    /* flow */
    uint8_t ip_version, protocol;
    bool initiated;
    struct replay_endpoint source, destination;
};

struct replay_process {
    char guid[REPLAY_GUID_TEXT]; /* "" where the recording has none */
    uint32_t pid;                /* 0: not recorded; the plan gives one */
    bool pid_recorded;
    struct sim_str image; /* NT form; empty if no record names it */
    struct sim_str command_line;
    size_t parent;
    uint32_t session, integrity;
    bool has_session;
    uint8_t sid[32];
    size_t sid_size;           /* 0: not recorded */
    size_t create, exit;       /* its records; REPLAY_NONE */
    uint64_t created;          /* from its guid, which holds the second of its creation; 0 */
    uint64_t first_at, end_at; /* life as the plan has it */
    bool existing;             /* runs before the sensor starts */
    bool told;                 /* fired: is alive in the simulator */
};

struct replay_address {
    uint8_t address[16];
    uint8_t version;
};

struct replay_machine {
    char name[256];
    char folder[272]; /* its name as that of a folder, unlike those of the others */
    struct replay_record *records;
    size_t count, capacity;
    struct replay_process *processes;
    size_t process_count, process_capacity;
    size_t *by_pid; /* newest process of pid / 4, for small pids */
    size_t by_pid_count;
    char **users; /* names met, in order: a SID is made from the place */
    size_t user_count, user_capacity;
    struct replay_address *own; /* addresses of the machine itself, as far as they show */
    size_t own_count, own_capacity;
    uint64_t moved;   /* records whose time was impossible */
    uint32_t max_tid; /* recorded */
};

struct replay_block;
struct recording {
    struct replay_machine *machines;
    size_t count, capacity;
    struct replay_block *blocks; /* memory of all strings */
    const char *host;            /* only this one; NULL = all */
    bool out_of_memory;
    uint64_t read; /* lines */
    uint64_t taken;
    uint64_t skipped[REPLAY_SKIP_COUNT];
    uint64_t by_event[256]; /* Sysmon records taken, by event id */
};

void recording_init(struct recording *recording, const char *host);
void recording_deinit(struct recording *recording);
/* Adds the records of a file: JSON lines, or a .zip or .gz of them. False after a message. */
bool recording_read(struct recording *recording, const char *path, FILE *messages);
/* One line. */
void recording_line(struct recording *recording, const char *text, size_t size, uint64_t line);

/* ---- replay_record.c: fields of a record in the forms of the kernel ---- */

/* NULL when memory ran out (recording->out_of_memory is set). */
void *recording_alloc(struct recording *recording, size_t size);
struct sim_str recording_utf16(struct recording *recording, const char *text);
/* C:\x -> \Device\HarddiskVolume3\x */
struct sim_str recording_path(struct recording *recording, const char *text);
/* HKLM\x -> \REGISTRY\MACHINE\x. Empty if the root is not known. */
struct sim_str recording_key(struct recording *recording, const char *text);
/* Splits key\value. The recording does not say where; a value name that holds a path is recognised
 * by its drive or double backslash. "(Default)" is the value without a name. */
bool recording_value(struct recording *recording, const char *text, struct sim_str *key,
                     struct sim_str *value);
/* "DWORD (0x00000001)", "QWORD (0x00000000-0x00000001)", "Binary Data", "(Empty)", text. */
bool recording_data(struct recording *recording, const char *details, uint32_t *type,
                    const void **data, size_t *size);
/* "2020-09-17 21:45:41.433". */
bool recording_time(const char *text, uint64_t *ret);
bool recording_address(const char *text, uint8_t out[16], uint8_t *version);
/* Seconds in a Sysmon ProcessGuid as a system time; 0 if it is none. */
uint64_t recording_guid_time(const char *guid);
uint32_t recording_integrity(const char *name); /* 0 if unknown */
/* SID of a user name: the well-known ones, else one made from its place among the users. */
void recording_sid(struct recording *recording, struct replay_machine *machine, const char *user,
                   struct replay_process *process);
bool recording_grow(void **items, size_t *capacity, size_t need, size_t size);

/* ---- replay_plan.c ---- */

enum replay_op {
    REPLAY_START, /* a process that nobody recorded the creation of, while the sensor runs */
    REPLAY_END,   /* a process that nobody recorded the end of, whose pid is needed */
    REPLAY_FIRE   /* a record */
};

struct replay_step {
    uint64_t at;
    uint32_t phase; /* order inside one moment: creations by depth, the rest, ends */
    enum replay_op op;
    size_t index; /* of the record, or of the process */
    size_t order; /* place in the recording */
};

struct replay_plan {
    struct replay_step *steps;
    size_t count, capacity;
    uint64_t begin;      /* before the first step */
    uint64_t impossible; /* records left out */
};

/* Decides who exists at the start, gives pids and orders everything. False: out of memory. */
bool replay_plan(struct replay_machine *machine, struct replay_plan *plan);
void replay_plan_free(struct replay_plan *plan);
/* Can it change who exists? Such steps are fired alone. */
/* Gives each machine a folder of its own, whatever its name holds. */
void replay_name_folders(struct recording *recording);
bool replay_is_structural(const struct replay_machine *machine, const struct replay_step *step);
/* Local and remote end of a flow: by the addresses that the machine's own records show. */
void replay_ends(const struct replay_machine *machine, const struct replay_record *record,
                 const struct replay_endpoint **local, const struct replay_endpoint **remote);

#endif
