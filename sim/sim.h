/*
 * sim.h - an NT kernel on the host: the driver's own sources run on it, unchanged.
 *
 * One machine at a time exists in a process: sim_boot, sim_driver_load, activity,
 * sim_driver_unload, sim_shutdown_machine. The DDIs of driver/nt.h and driver/wfp.h are the
 * simulator's other side; this header is the tests' side: it makes things happen (processes,
 * registry operations, flows, clock steps, disk faults, readers) and asks what the driver has not
 * given back.
 *
 * What a kernel would answer with a bug check ends the process with abort() and one line
 * "sim: <DDI>: <what is wrong>" on stderr; sim_expect_bugcheck() makes that testable.
 *
 * Context: every host thread acts as one thread of one simulated process, at one IRQL, on one CPU.
 * A host thread that says nothing is a system thread of pid 4 at PASSIVE_LEVEL. Activity runs its
 * callbacks in the caller's context and at the caller's IRQL, so a test sets both before it fires;
 * firing at a level that a callback can never have is a mistake of the test and ends the process.
 *
 * Strings are UTF-16 without terminator and may hold anything. Statuses are NTSTATUS values.
 * All functions may be called from any thread unless they say otherwise.
 */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct _DRIVER_OBJECT;
struct _UNICODE_STRING;

#define SIM_MAX_UNITS 32767u /* of a string of the kernel */

struct sim_str {
    const uint16_t *units;
    size_t count; /* at most SIM_MAX_UNITS */
};
/* SIM_STR(u"text"): of a literal. */
#define SIM_STR(literal) ((struct sim_str){(literal), sizeof(literal) / sizeof((literal)[0]) - 1u})
#define SIM_NO_STR ((struct sim_str){NULL, 0})

/* --- the machine ----------------------------------------------------------------------------- */

enum sim_clock_mode {
    SIM_CLOCK_MANUAL, /* stands still until sim_clock_set or sim_clock_advance */
    SIM_CLOCK_HOST    /* runs with the host's monotonic clock */
};

enum sim_bfe {
    SIM_BFE_RUNNING,
    SIM_BFE_STARTING, /* not up yet; sim_bfe_set(SIM_BFE_RUNNING) tells subscribers */
    SIM_BFE_STOPPING, /* the moment to clean up */
    SIM_BFE_STOPPED
};

enum sim_machine_type { SIM_X64, SIM_ARM64 };

struct sim_options {
    uint32_t cpus;  /* 0: 4 */
    uint32_t build; /* 0: 19045; with `machine` it decides which exports there are */
    enum sim_machine_type machine;
    uint64_t utc;       /* system time at boot, 100 ns since 1601; 0: 2026-01-01T00:00:00Z */
    uint64_t frequency; /* of the performance counter; 0: 10,000,000 */
    enum sim_clock_mode clock;
    struct sim_str host; /* name of the computer; count 0: SIM */
    enum sim_bfe bfe;
    const char *disk;    /* host folder that is C:\; NULL: an own one, removed at the end */
    uint64_t disk_bytes; /* free space; 0: without limit */
    uint32_t hang_ms;    /* real time after which a wait that must end is a hang; 0: 30 s */
};

/* KDA_SIM_HANG_MS in the environment goes before hang_ms. `options` may be NULL. The machine has
 * the System process (pid 4) and nothing else. Returns false where the host has no folder or memory
 * for it. */
bool sim_boot(const struct sim_options *options);
/* Ends the machine. The driver is unloaded before; everything else is given back here. */
void sim_shutdown_machine(void);
/* Host path of the folder that is C:\. */
const char *sim_disk(void);

/* --- the driver ------------------------------------------------------------------------------ */

typedef int32_t sim_driver_entry(struct _DRIVER_OBJECT *driver, struct _UNICODE_STRING *path);

/* Calls the entry at PASSIVE_LEVEL in a system thread. On failure everything the driver took must
 * have been given back: what has not been is printed and ends the process. */
int32_t sim_driver_load(sim_driver_entry *entry);
/* Calls DriverUnload. If handles to its device are open the call waits for the last close, as
 * Windows does: STATUS_PENDING is returned and the unload happens then (sim_driver_loaded tells).
 * A driver that keeps a reference to its driver object refuses: STATUS_DEVICE_BUSY, its code stays
 * until the machine ends. After any other unload the ledger must be empty: what is left is printed
 * and ends the process. */
int32_t sim_driver_unload(void);
/* As a system that does not wait for the handles of a device: they have to be closed before the
 * driver has gone, by another thread or by sim_meanwhile. */
int32_t sim_driver_unload_at_once(void);
bool sim_driver_loaded(void);
/* The kernel of this build and machine is known not to export the name. */
bool sim_lacks(const char *name);

/* A value of the driver's key HKLM\...\Services\kdamonitor\Parameters, kept until the machine ends.
 * `type` is a REG_ number. Set them before the load. */
void sim_settings_set(struct sim_str name, uint32_t type, const void *data, size_t size);
void sim_settings_set_dword(struct sim_str name, uint32_t value);
void sim_settings_set_string(struct sim_str name, struct sim_str value);
void sim_settings_clear(void);

/* --- context of the calling host thread ------------------------------------------------------ */

/* Acts as thread `tid` of `pid` until the next call; tid 0: the first thread of the process.
 * False (context unchanged) if there is none. pid 4 tid 0 is the state at the beginning. */
bool sim_enter(uint32_t pid, uint32_t tid);
/* The level at which activity is fired; not below or above what it was raised to by others. */
void sim_set_irql(uint8_t irql);
uint8_t sim_irql(void);
void sim_set_cpu(uint32_t cpu);
/* How often, from the watch to the question, the lock or rundown count that is worst in this went
 * from one processor to another. */
void sim_crossings_watch(void);
uint64_t sim_crossings_most(void);
/* States of the calling host thread, until told otherwise: in a guarded region, where file and
 * registry services would hang; inside a request of a file system (IoGetTopLevelIrp); its registry
 * operations are part of a transaction. */
void sim_set_apcs_disabled(bool disabled);
void sim_set_top_level_irp(bool set);
void sim_set_transaction(bool on);

/* --- time ------------------------------------------------------------------------------------ */

/* Counter and system time move together. Timed waits and timers end when the simulated clock
 * reaches them, or after as much real time: a clock that stands still hangs nobody. */
void sim_clock_advance(uint64_t units_100ns);
/* A delay (KeDelayExecutionThread) lets the clock pass by as much and does not wait: long ones are
 * tested in no time, and how long they were is what the clock says. Off at boot. */
void sim_clock_delays(bool pass);
/* Sets the system time, and the counter with it where that is forward; never moves back. */
void sim_clock_set(uint64_t utc);
/* Somebody corrects the system clock, maybe backwards; the counter does not notice. */
void sim_clock_correct(int64_t units_100ns);
uint64_t sim_clock_utc(void);
uint64_t sim_clock_counter(void);
/* The calling host thread sees this system time, and the counter that goes with it, until it calls
 * again; 0: the machine's clock. For replays in which each thread brings its own recorded times. */
void sim_clock_thread(uint64_t utc);

/* --- processes and threads ------------------------------------------------------------------- */

struct sim_process {
    uint32_t pid;        /* 0: the next free one, told in *pid */
    uint32_t parent_pid; /* 0: the process that calls */
    uint32_t first_tid;  /* 0: the next free one */
    struct sim_str image;
    struct sim_str command_line;
    uint64_t create_time; /* 0: now */
    uint64_t start_key;   /* 0: the next one */
    uint32_t session;
    const void *sid; /* NULL: S-1-5-18 */
    size_t sid_size;
    uint32_t integrity; /* 0: 0x4000 (System) */
    bool elevated;
    uint8_t protection;
    uint8_t signature_level;
    bool wsl;
    bool no_image_name; /* the notification has no image name (IsSubsystemProcess style) */
    bool no_command_line;
    bool no_open_name;   /* FileOpenNameAvailable is 0: the name is not complete */
    bool no_thread_told; /* the first thread is made, but thread callbacks are not called */
    bool dying;          /* exists in the process list, but lookups fail (exiting) */
    bool going;          /* lookups work, but no handle can be opened any more */
    bool wow64;
    size_t info_size; /* of the notification's structure; 0: that of the headers */
    uint64_t start_address;
};

/* Other drivers hold so many of the 64 places for notifications. */
void sim_routines_taken(unsigned process, unsigned thread, unsigned image);

/* Creation by the calling context, with notifications; returns what a callback made of
 * CreationStatus (0: created). */
int32_t sim_process_create(const struct sim_process *process, uint32_t *pid);
/* A process that runs already: no notifications. */
int32_t sim_process_existing(const struct sim_process *process, uint32_t *pid);
/* Ends all of its threads (with notifications), then the process. False if there is none. */
bool sim_process_exit(uint32_t pid, uint32_t exit_code);
bool sim_process_alive(uint32_t pid);

struct sim_thread {
    uint32_t pid; /* 0: the process that calls */
    uint32_t tid; /* 0: the next free one */
    uint64_t start_address;
    bool no_start_address; /* the query fails */
};
int32_t sim_thread_create(const struct sim_thread *thread, uint32_t *tid);
/* Called in the context of the thread that ends, as Windows does. */
bool sim_thread_exit(uint32_t tid, uint32_t exit_code);

struct sim_image {
    uint32_t pid;        /* 0: the process that calls; ignored for drivers */
    struct sim_str path; /* count 0: the callback gets no name */
    struct sim_str file; /* name of the file object; count 0: the same as path */
    bool no_file;        /* no extended information, so no file object */
    uint64_t base;
    uint64_t size;
    bool kernel;
    uint8_t signature_level;
    uint8_t signature_type;
    bool partial;
    bool foreign_machine; /* told only to who asked for conflicting architectures */
    bool no_execute;      /* SEC_IMAGE_NO_EXECUTE: mapped, and nobody is told */
    bool main;            /* of a new process: told in its context */
};
/* A range of a process's memory that MemoryBasicInformation tells about: type as
 * MEMORY_BASIC_INFORMATION has it (0x20000 private, 0x40000 mapped). */
struct sim_memory {
    uint64_t base;
    uint64_t size;
    uint32_t type;
    uint32_t protect;
};
bool sim_memory_add(uint32_t pid, const struct sim_memory *memory);
void sim_image_load(const struct sim_image *image);

/* --- registry -------------------------------------------------------------------------------- */

enum sim_refusal {
    SIM_REFUSE_NOT,
    SIM_REFUSE_BEFORE,     /* a callback called before the driver's: it sees nothing */
    SIM_REFUSE_AFTER,      /* one called after it: pre without post */
    SIM_REFUSE_AFTER_POST, /* one called after it: the post call has the refusal's status */
    SIM_REFUSE_NO_POST     /* carried out, but the post call does not come */
};

/* How a path with a link in it (CurrentControlSet) is created or opened. Off: the name is taken as
 * it is, as in recordings that name keys so. */
enum sim_link {
    SIM_LINK_NONE,
    SIM_LINK_RESTART, /* STATUS_REPARSE for the link's name, then the target's */
    SIM_LINK_CACHED   /* one pair with the link's name, whose object is the target */
};

struct sim_registry {
    struct sim_str key;  /* full NT path, \REGISTRY\... */
    struct sim_str name; /* value, or the new name of a rename */
    uint32_t type;
    const void *data;
    size_t size;
    enum sim_refusal refusal;
    int32_t status; /* result of the operation (or of the refusal) where it is not 0 */
    bool bad_data;  /* reading `data` faults (memory of a user that went away) */
    bool bad_name;  /* the key object has no name any more (CmCallbackGetKeyObjectIDEx fails) */
    bool relative;  /* create: RootObject and a relative name in place of a complete one */
    bool open_only; /* create: the disposition is "opened existing" even where it is new */
    bool kernel;    /* made by a driver: previous mode is kernel, no capture of data */
    bool itself;    /* create, open: an empty name, of the root object itself */
    bool version_0; /* create, open: the structure of Vista, without what came later */
    enum sim_link link;
    uint32_t access;      /* create, open: that is asked for; 0: KEY_READ */
    uint32_t wow64_flags; /* create, open */
};

/* All operations that callbacks are told about. SIM_REG_NEWER is one that no driver knows yet. */
enum sim_registry_kind {
    SIM_REG_DELETE_KEY,
    SIM_REG_SET_VALUE,
    SIM_REG_DELETE_VALUE,
    SIM_REG_RENAME,
    SIM_REG_QUERY_VALUE,
    SIM_REG_CREATE,
    SIM_REG_OPEN,
    SIM_REG_CLOSE,
    SIM_REG_FLUSH,
    SIM_REG_LOAD,
    SIM_REG_UNLOAD,
    SIM_REG_QUERY_SECURITY,
    SIM_REG_SET_SECURITY,
    SIM_REG_RESTORE,
    SIM_REG_SAVE,
    SIM_REG_REPLACE,
    SIM_REG_QUERY_NAME,
    SIM_REG_SAVE_MERGED,
    SIM_REG_NEWER
};

/* The simulated registry keeps keys and values: sets create them, so that old data can be asked
 * for. Keys above the one that is named come into being without notifications. All return the
 * status the caller of the operation would get. */
int32_t sim_registry_do(enum sim_registry_kind kind, const struct sim_registry *op);
int32_t sim_registry_create_key(const struct sim_registry *op);
int32_t sim_registry_open_key(const struct sim_registry *op);
int32_t sim_registry_delete_key(const struct sim_registry *op);
int32_t sim_registry_rename_key(const struct sim_registry *op);
int32_t sim_registry_set_value(const struct sim_registry *op);
int32_t sim_registry_delete_value(const struct sim_registry *op);
/* Reads only; the driver has nothing to record. */
int32_t sim_registry_query_value(const struct sim_registry *op);
/* Puts a value there without notifications. */
void sim_registry_preset(const struct sim_registry *op);
/* Another driver has a callback at this altitude. */
void sim_registry_altitude_taken(struct sim_str altitude);

/* --- network --------------------------------------------------------------------------------- */

struct sim_flow {
    uint8_t version; /* 4 or 6 */
    uint8_t protocol;
    uint8_t local[16]; /* network order; first 4 bytes for version 4 */
    uint8_t remote[16];
    uint16_t local_port;
    uint16_t remote_port;
    uint32_t pid;         /* 0: the process that calls */
    struct sim_str image; /* the path of the metadata; count 0: that of the process */
    bool no_pid;          /* presence bit not set, the value is rubbish */
    bool no_image;
    bool no_flow_handle;
    bool no_remote; /* the remote address is unknown (FWP_EMPTY) */
    bool no_local;  /* the local one is */
};

/* Authorization and, in succession, the established flow. `flow` (nullable) names it until
 * sim_net_close. Fired at the caller's IRQL: PASSIVE_LEVEL or DISPATCH_LEVEL. */
void sim_net_connect(const struct sim_flow *f, uint64_t *flow);
void sim_net_accept(const struct sim_flow *f, uint64_t *flow);
void sim_net_listen(const struct sim_flow *f);
/* Only the authorization: `inbound` is receive-accept. `again`: a re-authorization (flag set) of
 * `flow` (0: of a flow that no classify ever told about). `blocked`: another filter blocks. */
void sim_net_authorize(const struct sim_flow *f, bool inbound, bool again, bool blocked,
                       uint64_t flow);
/* A flow that was there before any callout: nothing is fired now. */
uint64_t sim_net_existing(const struct sim_flow *f, bool inbound);
void sim_net_close(uint64_t flow);

/* Changes the state of the filter engine; subscribers are told. A stop ends dynamic sessions and
 * takes their objects away. */
void sim_bfe_set(enum sim_bfe state);
/* The next `times` calls that unregister a callout answer STATUS_DEVICE_BUSY. */
void sim_wfp_busy(unsigned times);
/* Registered callouts, filters and engine handles. */
unsigned sim_wfp_callouts(void);
unsigned sim_wfp_filters(void);
/* Somebody deletes the n-th committed filter (0: the newest); false: there is none. */
bool sim_wfp_delete_filter(unsigned n);
/* Somebody adds a filter to every layer: all flows are authorized again. */
void sim_wfp_foreign_filter(void);
/* Notifications of a type that no driver knows yet. */
void sim_wfp_notify_unknown(void);
/* What the registered callouts take from the traffic of the machine. */
enum { SIM_OFF_OFFLOAD = 1, SIM_OFF_RSC = 2, SIM_OFF_USO = 4, SIM_OFF_URO = 8 };
unsigned sim_wfp_switched_off(void);
/* Classifications that ended in a block since boot. */
uint64_t sim_net_blocked(void);

/* --- power and shutdown ---------------------------------------------------------------------- */

/* Suspend tells the driver what it asked to be told; resume lets `asleep_100ns` pass on the system
 * clock, and `counter_stops` decides whether the counter saw it. */
void sim_power_suspend(void);
void sim_power_resume(uint64_t asleep_100ns, bool counter_stops);
/* IRP_MJ_SHUTDOWN to the devices that registered for it. The machine goes on afterwards. */
void sim_system_shutdown(void);

/* --- files ----------------------------------------------------------------------------------- */

enum sim_file_op {
    SIM_FILE_CREATE = 1,
    SIM_FILE_WRITE = 2,
    SIM_FILE_FLUSH = 4,
    SIM_FILE_RENAME = 8,
    SIM_FILE_DELETE = 16,
    SIM_FILE_QUERY = 32,
    SIM_FILE_ALL = 63
};
/* Operations of the set fail with `status` from now on, `times` times; 0 times: no more faults;
 * UINT32_MAX: until told otherwise. */
void sim_file_fail(unsigned ops, int32_t status, uint32_t times);
/* Free bytes on the disk from now on; UINT64_MAX: without limit. A write that does not fit ends
 * with STATUS_DISK_FULL and writes nothing. */
void sim_disk_free(uint64_t bytes);
/* Makes every write take this long in real time. */
void sim_disk_slow(uint32_t microseconds);
/* As a kernel that is older than OBJ_DONT_REPARSE: the flag is refused. Links are those of the
 * host. */
void sim_disk_follows_links(bool all);
/* The next write takes only so many bytes, and succeeds. */
void sim_disk_short_write(uint32_t bytes);
/* True if the object at this path below sim_disk() was made for SYSTEM and Administrators only and
 * inherits nothing. */
bool sim_disk_restricted(const char *path);
/* Calls of ZwWriteFile and bytes written since boot. */
uint64_t sim_disk_writes(void);
uint64_t sim_disk_written(void);
/* True if the driver could not write, or not make a file, since its last write that succeeded. */
bool sim_disk_refuses(void);

/* --- clients of the device ------------------------------------------------------------------- */

enum sim_caller { SIM_CALLER_SYSTEM, SIM_CALLER_ADMIN, SIM_CALLER_USER };

struct sim_reader;
struct sim_request;

/* Opens a device through its link (u"\\??\\KDAMonitor" or below it); access check first, then
 * IRP_MJ_CREATE. */
int32_t sim_reader_open(struct sim_str name, enum sim_caller caller, uint32_t access,
                        struct sim_reader **reader);
/* Starts a read; the request lives until sim_request_free. `buffer` stays the caller's and is valid
 * until the request has ended. */
struct sim_request *sim_reader_read(struct sim_reader *reader, void *buffer, size_t size);
/* True if it has ended within this real time (0: asks only). */
bool sim_request_wait(struct sim_request *request, uint32_t milliseconds);
/* Valid after the end. */
int32_t sim_request_status(const struct sim_request *request);
size_t sim_request_bytes(const struct sim_request *request);
bool sim_request_cancel(struct sim_request *request);
void sim_request_free(struct sim_request *request); /* waits for the end */
/* Read that waits for its end. */
int32_t sim_reader_read_wait(struct sim_reader *reader, void *buffer, size_t size, size_t *got);
/* DeviceIoControl that waits; buffers may be NULL with size 0. */
int32_t sim_reader_control(struct sim_reader *reader, uint32_t code, const void *in, size_t in_size,
                           void *out, size_t out_size, size_t *returned);
/* Any other major function, to see it refused. */
int32_t sim_reader_other(struct sim_reader *reader, uint8_t major);
/* Last handle closed: cleanup, then close. Parked requests must have been ended by it. */
void sim_reader_close(struct sim_reader *reader);
/* The process was killed: its requests are cancelled, then cleanup and close. */
void sim_reader_kill(struct sim_reader *reader);

/* --- deferred work --------------------------------------------------------------------------- */

/* Waits until DPCs, due timers and work items have run. */
void sim_settle(void);

/* --- faults ---------------------------------------------------------------------------------- */

/* The n-th call from now on (1: the next) of a DDI that can fail, made by the driver, fails with a
 * documented status; 0 disarms. Calls are counted over all threads. */
void sim_fault_arm(uint64_t n);
/* Whose calls are counted: a sweep that has to meet every call of one thread is not led astray by
 * what others do meanwhile. All, until told otherwise. */
enum sim_fault_scope { SIM_FAULT_ALL, SIM_FAULT_THIS_THREAD, SIM_FAULT_OTHERS };
void sim_fault_scope(enum sim_fault_scope scope);
bool sim_fault_fired(void);
/* Fallible calls since sim_fault_arm. */
uint64_t sim_fault_calls(void);
/* Name of the DDI that failed; NULL if none did. */
const char *sim_fault_name(void);

/* The next `times` calls of this function (UINT32_MAX: all) end with this status, which its page
 * has to list (sim/faults.c). A success that is not STATUS_SUCCESS does its work all the same. */
void sim_status_next(const char *ddi, int32_t status, uint32_t times);
/* Only those with this information class. */
#define SIM_ANY_CLASS UINT32_MAX
void sim_status_class(const char *ddi, uint32_t class_, int32_t status, uint32_t times);
void sim_status_clear(void);
/* Lists what sim_status_next takes, with the rule that says so; false behind the end. */
bool sim_status_at(size_t index, const char **ddi, const char **rule, int32_t *status);

/* The next `times` removals of a callback or callout answer this, and do nothing. */
void sim_refuse_removal(int32_t status, uint32_t times);
/* The same, after so many that are carried out. */
void sim_refuse_removal_after(uint32_t removals, int32_t status, uint32_t times);

/* The n-th call of this function by the driver from now on (1: the next) waits at its beginning
 * until `routine` has returned: for what happens just then elsewhere. It is called inside the
 * driver, so it leaves what it does on the machine to another host thread. NULL: nothing is waited
 * for. */
void sim_meanwhile(const char *ddi, uint32_t n, void (*routine)(void *context), void *argument);
/* The same when the call has had its effect and has not returned: what a registration makes
 * possible may come before its caller knows of it. For CmRegisterCallbackEx and
 * FwpsCalloutRegister. */
void sim_meanwhile_after(const char *ddi, uint32_t n, void (*routine)(void *context),
                         void *argument);

/* --- ledger ---------------------------------------------------------------------------------- */

/* Things the driver holds and has to give back: pool, handles, references, threads, callbacks,
 * callouts, IRPs, devices, links, work items, timers, DPCs, lists, flow contexts. */
size_t sim_ledger_count(void);
/* Prints them to stderr, one a line, and returns their number. */
size_t sim_ledger_check(void);
/* Bytes of pool held. */
size_t sim_pool_bytes(void);

/* --- tests of violations --------------------------------------------------------------------- */

/* Runs `function` in a child process; true if it ended by a bug check whose line contains `text`.
 * Call it before threads exist. */
bool sim_expect_bugcheck(void (*function)(void *context), void *context, const char *text);

#endif
