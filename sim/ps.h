/*
 * ps.h - process and thread objects; private to sim/.
 */
#ifndef SIM_PS_H
#define SIM_PS_H

#include "machine.h"

struct sim_module;

struct sim_thr {
    DISPATCHER_HEADER header; /* threads can be waited for */
    struct sim_thr *next;     /* with the same hash */
    struct sim_thr *sibling;  /* of the same process */
    struct sim_proc *process;
    uint64_t start_address;
    uint32_t tid;
    _Atomic int32_t exit_status; /* asked for while the process or thread ends */
    bool no_start_address;
    atomic_bool ended; /* set under the dispatcher lock, asked without it */
    /* Of system threads that the driver made. */
    struct sim_item item;
    PKSTART_ROUTINE routine;
    PVOID context;
};

struct sim_proc {
    DISPATCHER_HEADER header;
    struct sim_proc *next;
    struct sim_proc *newer;
    struct sim_thr *threads;
    struct sim_module *modules;
    struct sim_process info; /* strings point into the members below */
    struct sim_wide image;
    struct sim_wide command_line;
    uint8_t sid[68];
    uint64_t create_time;
    uint64_t exit_time;
    uint32_t pid;
    uint32_t parent_pid;
    _Atomic int32_t exit_status; /* asked for while the process or thread ends */
    atomic_bool ended;
    void *token;
    void *file; /* file object of the image */
};

/* With a reference; NULL if there is none alive. */
struct sim_proc *sim_proc_find(uint32_t pid);
struct sim_thr *sim_thr_find(uint32_t tid);
/* Calls `visit` for each process, oldest first, under the lock. */
void sim_proc_walk(void (*visit)(struct sim_proc *process, void *context), void *context);
struct sim_thr *sim_thr_make(struct sim_proc *process, uint32_t tid);
/* Takes it out of the tables and signals it; a reference of the tables goes. */
void sim_thr_remove(struct sim_thr *thread);
void sim_threads_end(void);
/* What lies at this address, by the loads that were told and sim_memory_add; its path. */
bool sim_memory_at(uint32_t pid, uint64_t address, struct sim_memory *memory);
bool sim_module_at(uint32_t pid, uint64_t address, struct sim_wide *path);

void sim_modules_free(struct sim_module *first);
void sim_image_end(void);
void sim_image_routines_taken(unsigned count);
NTSTATUS sim_set_routine(struct sim_notify_list *list, const char *ddi, const char *rule,
                         void *routine, uint8_t flavour);
NTSTATUS sim_remove_routine(struct sim_notify_list *list, const char *ddi, const char *rule,
                            void *routine, unsigned irql);

void sim_header_init(DISPATCHER_HEADER *header, LONG type, bool signalled);
void sim_header_signal(DISPATCHER_HEADER *header);
void sim_dispatcher_due(uint64_t units);

#endif
