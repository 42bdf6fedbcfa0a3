/*
 * machine.h - what the files of the simulator share; private to sim/.
 *
 * Locks, outermost first: a list's own lock (processes, registry, devices, filter engine), the
 * handle table, the dispatcher lock. No lock of the simulator is held while driver code runs.
 */
#ifndef SIM_MACHINE_H
#define SIM_MACHINE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nt.h"
#include "ddi_more.h"
#include "sim.h"

#define SIM_MAX_CPUS 64u
#define SIM_MAX_HELD 16u
#define SIM_MAX_NESTED 8u
#define SIM_UNITS_PER_SECOND 10000000u

/* --- bug checks and assertions --------------------------------------------------------------- */

_Noreturn void sim_bugcheck(const char *where, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for what a rule of the documentation forbids: its id comes first in the line. A NULL
 * rule is one that no page states. */
_Noreturn void sim_violation(const char *rule, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* First line of every DDI: a driver is loaded, the thread is at `irql` or below. */
void sim_ddi(const char *ddi, const char *rule, unsigned irql);
#define SIM_DDI(irql, rule) sim_ddi(__func__, (rule), (irql))
/* Of services that complete through special kernel APCs: PASSIVE_LEVEL, and APCs are delivered. */
void sim_ddi_apcs(const char *ddi, const char *rule);
/* Those of file systems moreover: not from inside one. */
void sim_ddi_io(const char *ddi, const char *rule);
/* Of services that a notification of processes, threads or images must not ask for. */
void sim_ddi_not_in_notification(const char *ddi);
/* The last line of a DDI whose effect others may see before it returns (sim_meanwhile_after). */
void sim_ddi_leaves(const char *ddi);
#define SIM_CHECK(condition, ...)                                                                  \
    do {                                                                                           \
        if (!(condition))                                                                          \
            sim_bugcheck(__func__, __VA_ARGS__);                                                   \
    } while (0)
#define SIM_RULE(rule, condition, ...)                                                             \
    do {                                                                                           \
        if (!(condition))                                                                          \
            sim_violation((rule), __func__, __VA_ARGS__);                                          \
    } while (0)

/* True: this call has to fail now, as the sweep's n-th. */
bool sim_fault(const char *ddi);
#define SIM_FAULT() sim_fault(__func__)
/* True: this call has to end with *status, planned by sim_status_next or as the sweep's n-th
 * (`usual`). `class_` is that of a query, SIM_ANY_CLASS of others. */
bool sim_fails(const char *ddi, uint32_t class_, NTSTATUS usual, NTSTATUS *status);
bool sim_planned(const char *ddi, uint32_t class_, NTSTATUS *status);
/* Of routines, callbacks and callouts. */
bool sim_removal_refused(NTSTATUS *status);
/* Only a planned status: of calls that the sweep leaves alone. */
#define SIM_MAY_FAIL_PLANNED()                                                                     \
    do {                                                                                           \
        NTSTATUS planned_;                                                                         \
        if (sim_planned(__func__, SIM_ANY_CLASS, &planned_))                                       \
            return planned_;                                                                       \
    } while (0)
/* Returns that status from a DDI. */
#define SIM_MAY_FAIL(usual)                                                                        \
    do {                                                                                           \
        NTSTATUS planned_;                                                                         \
        if (sim_fails(__func__, SIM_ANY_CLASS, (usual), &planned_))                                \
            return planned_;                                                                       \
    } while (0)

void *sim_alloc(size_t bytes); /* zeroed; ends the process when there is none */

/* --- ledger ---------------------------------------------------------------------------------- */

enum sim_kind {
    SIM_POOL,
    SIM_HANDLE,
    SIM_REFERENCE,
    SIM_THREAD,
    SIM_CALLBACK,
    SIM_CALLOUT,
    SIM_ENGINE,
    SIM_FILTER,
    SIM_FLOW_CONTEXT,
    SIM_IRP,
    SIM_DEVICE,
    SIM_LINK,
    SIM_WORK_ITEM,
    SIM_LIST,
    SIM_KEY_NAME,
    SIM_KINDS
};

struct sim_item {
    struct sim_item *next;
    struct sim_item *previous;
    const void *object;
    const char *what;
    const char *rule; /* that demands it back; NULL: the kind's */
    const void *caller;
    size_t size;
    uint32_t tag;
    uint16_t kind;
    uint16_t shard;
};

void sim_item_add(struct sim_item *item, enum sim_kind kind, const void *object, const char *what,
                  size_t size, const void *caller);
void sim_item_remove(struct sim_item *item);
/* For objects in the driver's memory: a node of our own, found by address. */
bool sim_held_add(enum sim_kind kind, const void *object, const char *what, const void *caller);
bool sim_held_remove(enum sim_kind kind, const void *object);
bool sim_held(enum sim_kind kind, const void *object);
/* Name of something held inside this block; NULL: none. */
const char *sim_held_within(const void *block, size_t size);
void sim_ledger_clear(void);

/* --- objects and handles --------------------------------------------------------------------- */

enum sim_type {
    SIM_TYPE_ANY,
    SIM_TYPE_PROCESS,
    SIM_TYPE_THREAD,
    SIM_TYPE_FILE,
    SIM_TYPE_KEY,
    SIM_TYPE_TOKEN,
    SIM_TYPE_CALLBACK,
    SIM_TYPE_DRIVER,
    SIM_TYPE_DEVICE
};

/* Precedes every object's body. */
struct sim_object {
    uint64_t magic;
    struct sim_object *next;
    struct sim_object *previous;
    void (*destroy)(void *body);
    _Atomic int64_t references;
    _Atomic int64_t driver_references; /* of those, the driver's own */
    uint32_t type;
    uint32_t bytes; /* of the body */
    uint32_t reserved[2];
};

void *sim_object_create(enum sim_type type, size_t bytes, void (*destroy)(void *body));
struct sim_object *sim_object_of(const void *body); /* NULL if it is none */
void sim_object_ref(void *body);
void sim_object_unref(void *body);
/* The same, on the driver's account. */
void sim_driver_ref(void *body);
void sim_objects_clear(void);
/* Objects that the driver holds references to. */
size_t sim_object_ledger(bool print);

/* A handle for the driver; takes a reference. `attributes` need OBJ_KERNEL_HANDLE. */
NTSTATUS sim_handle_open(const char *ddi, void *body, uint32_t access, ULONG attributes,
                         HANDLE *handle);
/* Body with a reference for the caller (sim_object_unref); NULL: no such handle of this type. */
void *sim_handle_body(HANDLE handle, enum sim_type type);
/* The same with what is wrong: the handle, its type, or that it lacks `access`. */
void *sim_handle_body_for(HANDLE handle, enum sim_type type, uint32_t access, NTSTATUS *status);
void sim_handles_clear(void);
/* A process or thread that cannot be opened any more. */
bool sim_object_is_going(const void *body);
void *sim_current_process(void);
/* The name of a key is asked for, which callbacks are told. */
void sim_cm_name_asked(void *key);

/* --- context of a host thread ---------------------------------------------------------------- */

struct sim_proc;
struct sim_thr;

struct sim_held_lock {
    const void *lock;
    uint8_t old_irql;
};

struct sim_ctx {
    uint64_t boot; /* the machine this context belongs to */
    struct sim_thr *thread;
    struct sim_thr *entered; /* with a reference */
    uint64_t utc;            /* own time, 0: the machine's */
    const char *callback;
    uint32_t cpu;
    uint32_t inside;                     /* depth of calls into the driver */
    const void *running[SIM_MAX_NESTED]; /* the routines they called */
    int32_t critical;                    /* depth of regions without normal kernel APCs */
    int32_t guarded;                     /* of those without any */
    uint32_t held_count;
    struct sim_held_lock held[SIM_MAX_HELD];
    const char *lock_rule;  /* of a spin lock that is taken a second time; NULL: the usual one */
    const void *dying_key;  /* object of a key-handle close that is being told */
    const void *opened_key; /* object of a create or open that is being told as done */
    uint8_t irql;
    bool driver_thread;
    bool top_level_irp;
    bool transaction;
    bool notified; /* in a notification of processes, threads or images */
    bool closed;   /* in the notification after a key-handle close */
};

struct sim_ctx *sim_self(void);
/* A lock or count is written by this processor. */
void sim_crossing(const void *at);
/* Around every call into the driver. `leave` checks that IRQL, locks and regions are as before. */
struct sim_call {
    const char *callback;
    uint32_t held_count;
    int32_t critical;
    int32_t guarded;
    uint8_t irql;
};
/* `rule` names the level at which the callback may come. */
void sim_call_enter(struct sim_call *call, const char *callback, const void *routine,
                    const char *rule, unsigned irql_max);
void sim_call_leave(struct sim_call *call);

/* Acts as another thread for a while. */
struct sim_as {
    struct sim_thr *thread;
};
void sim_as_begin(struct sim_as *as, struct sim_thr *thread);
void sim_as_end(struct sim_as *as);

/* --- the machine ----------------------------------------------------------------------------- */

enum sim_driver_state {
    SIM_NO_DRIVER,
    SIM_LOADING,
    SIM_LOADED,
    SIM_UNLOADING,
    SIM_REFUSED /* DriverUnload kept the image: until the machine ends */
};

struct sim_machine {
    uint64_t boot;
    _Atomic bool up;
    bool ending; /* objects go in any order now */
    struct sim_options options;
    _Atomic int driver_state;
    uint64_t hang_ms;
};
extern struct sim_machine sim;

/* Each part begins and ends with the machine. */
void sim_clock_boot(void);
void sim_ke_boot(void);
void sim_ke_end(void);
void sim_ex_end(void);
void sim_ps_boot(void);
void sim_ps_end(void);
void sim_cm_boot(void);
void sim_cm_end(void);
bool sim_zw_boot(void);
void sim_zw_end(void);
void sim_io_boot(void);
void sim_io_end(void);
void sim_fwp_boot(void);
void sim_fwp_end(void);

/* --- time ------------------------------------------------------------------------------------ */

/* Units of 100 ns since boot, monotonic: what the counter counts and what waits use. */
uint64_t sim_now(void);
uint64_t sim_counter_of(uint64_t units);
/* TRUE: sim_clock_delays is on and the clock has passed the (relative) interval. */
bool sim_clock_passes(const LARGE_INTEGER *interval);
/* Real time that a timeout of so many units may take at most. */
void sim_real_deadline(struct timespec *deadline, uint64_t units);
bool sim_real_passed(const struct timespec *deadline);
/* Called by the clock after it moved. */
void sim_ke_clock_moved(uint64_t now);

/* --- dispatcher ------------------------------------------------------------------------------ */

extern pthread_mutex_t sim_dispatcher;
void sim_dispatcher_lock(void);
void sim_dispatcher_unlock(void);
/* Something was signalled or changed; with the lock. */
void sim_dispatcher_wake(void);
/* Waits for a change, with the lock; false after the deadline (NULL: none). */
bool sim_dispatcher_wait(const struct timespec *deadline);
/* A wait inside the simulator for something only the driver can do; ends the process as a hang
 * when nothing comes in time. `done` is asked with the lock. */
void sim_wait_until(const char *ddi, const char *rule, bool (*done)(const void *context),
                    const void *context);
void sim_defer(void (*function)(void *context), void *context);

/* --- pool ------------------------------------------------------------------------------------ */

void *sim_pool_alloc(const char *ddi, bool paged, size_t bytes, uint32_t tag, bool zero,
                     const void *caller);
bool sim_pool_is_paged(const void *at);
/* Frees what a driver keeps whose image stays; the machine ends. */
void sim_pool_forget(const void *memory);
void sim_locks_forget(const void *block, size_t size);
/* Tag 0: any. */
void sim_pool_free(const char *ddi, void *block, uint32_t tag);
/* Memory that faults when it is touched, and the run ends with the rule's id and `what` it is. The
 * pointer is good for nothing else; sim_poison_free gives it back. */
void *sim_poison(size_t size, const char *rule, const char *what);
void sim_poison_free(void *at);
/* One that looks like an object, for as long as the process lives. */
void *sim_poison_object(const char *rule, const char *what);
bool sim_is_poison(const void *at);
/* The same as memory of a user: a guarded copy reads `shadow`, or fails where that is NULL. Each
 * read changes it, as the user may: what is needed twice has to be captured once. */
void *sim_user_memory(void *shadow, size_t size, const char *rule);
bool sim_user_copy(const void *from, void *to, size_t bytes, NTSTATUS *status);
/* Freed later, so that a second release is told apart from a wild one. What is behind the first
 * `keep` bytes must not be touched any more, and sanitizers know it. */
void sim_rest(void *block, size_t keep, size_t size);
void sim_rest_end(void);

/* --- strings --------------------------------------------------------------------------------- */

struct sim_wide {
    uint16_t *units;
    size_t count;
};
void sim_wide_set(struct sim_wide *to, struct sim_str from);
void sim_wide_free(struct sim_wide *wide);
uint16_t sim_upper(uint16_t unit);
bool sim_wide_equal(const uint16_t *a, size_t a_count, const uint16_t *b, size_t b_count);
uint32_t sim_wide_hash(const uint16_t *units, size_t count);
UNICODE_STRING sim_unicode(const struct sim_wide *wide);
struct sim_str sim_str_of(const UNICODE_STRING *string);
/* UTF-8 with NUL, from malloc. */
char *sim_utf8(const uint16_t *units, size_t count);

/* --- between the parts ----------------------------------------------------------------------- */

/* A registered routine, with its calls in flight. */
struct sim_notify {
    struct sim_item item;
    struct sim_notify *next;
    void *routine;
    void *context;
    const char *what;
    struct sim_wide text; /* altitude */
    int in_flight;
    bool removed;
    uint8_t flavour;
};
/* The lists of routines share their behaviour: removal waits for calls in flight. */
struct sim_notify_list {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    struct sim_notify *first;
    unsigned count;
    unsigned foreign; /* places that other drivers have taken */
    NTSTATUS full;
    const char *left;   /* rule: a routine is left behind */
    const char *itself; /* rule: a routine removes itself */
    bool many;          /* the same routine may be there more than once */
};
/* Duplicate (unless `made` is asked for): STATUS_INVALID_PARAMETER; no room: `full`. */
NTSTATUS sim_notify_add(struct sim_notify_list *list, const char *ddi, void *routine, void *context,
                        uint8_t flavour, unsigned most, struct sim_notify **made);
/* Not there: STATUS_PROCEDURE_NOT_FOUND. From inside itself: a bug check. */
NTSTATUS sim_notify_remove(struct sim_notify_list *list, const char *ddi, void *routine);
bool sim_notify_remove_node(struct sim_notify_list *list, const char *ddi,
                            struct sim_notify *wanted);
struct sim_notify *sim_notify_next(struct sim_notify_list *list, struct sim_notify *after);
/* Counts as a call in flight until released; false: it has been removed. */
bool sim_notify_hold(struct sim_notify_list *list, struct sim_notify *wanted);
/* Gives it its altitude, and its place by that: the highest comes first. */
void sim_notify_place(struct sim_notify_list *list, struct sim_notify *notify,
                      struct sim_str altitude);
bool sim_notify_has_text(struct sim_notify_list *list, struct sim_str text);
void sim_notify_release(struct sim_notify_list *list, struct sim_notify *notify);
void sim_notify_clear(struct sim_notify_list *list);
#define SIM_NOTIFY_LIST(status_full, rule_left, rule_itself, twice)                                \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER,                       \
        .full = (status_full), .left = (rule_left), .itself = (rule_itself), .many = (twice)       \
    }

void sim_io_driver_loading(void);
void sim_io_driver_loaded(void);
/* Handles to a device are open: the unload comes with the last close. */
bool sim_io_unload_must_wait(void);
PDRIVER_OBJECT sim_driver_object(void);
/* File object with this name and one reference. */
PFILE_OBJECT sim_file_object(struct sim_str name);
struct sim_str sim_key_name(const void *key);
struct sim_thr *sim_system_thread(void);
int32_t sim_unload_now(void);
/* A callout of this device is registered. */
bool sim_fwp_device_in_use(const void *device);
/* A queued work item holds its device (+1) until its routine has returned (-1). */
bool sim_device_hold(PDEVICE_OBJECT object, int change);
/* Work items that are queued and have not begun. */
unsigned sim_work_queued(void);
/* A device of the driver that is not deleted. */
bool sim_device_is(const void *object);

#endif
