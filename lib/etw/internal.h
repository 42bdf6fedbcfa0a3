/*
 * internal.h - private to lib/etw: the model under construction.
 */
#ifndef KDA_ETW_INTERNAL_H
#define KDA_ETW_INTERNAL_H

#include "kda/etw.h"
#include "kda/pool.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/map.h"

#define KDA_ETW_ARENA_LIMIT ((size_t)128 << 20)
#define KDA_ETW_JOIN_RESERVE ((size_t)16 << 20) /* arrays of the joins; objects leave it alone */

/* Growing array of pointers into the arena. */
struct kda_ptrs {
    void **items;
    size_t count, capacity;
};

struct kda_etw {
    struct kda_kernel *kernel;
    struct kda_arena arena;
    struct kda_etw_silo *silos; /* KDA_ETW_MAX_SILOS reserved: rows point into it */
    size_t silo_count;
    struct kda_ptrs sessions, consumers, providers, registrations;
    struct kda_map session_by_slot; /* silo index << 16 | slot, + 1 -> index in sessions */
    struct kda_map consumer_by_va;  /* -> index in consumers */
    struct kda_map provider_by_va;  /* -> index in providers */
    struct kda_map registration_by_va;
    size_t silos_read, consumer_lists_read, registration_lists_read; /* how far the work has come */
    size_t around_consumers, around_registrations, around_providers;
    struct kda_map looked_at;     /* handle tables and jobs */
    struct kda_map refused;       /* addresses that the list they stand on did not take */
    struct kda_map named_once;    /* addresses that one object names */
    struct kda_map named_process; /* addresses of processes that objects name */
    struct kda_map sddl_by_va;    /* descriptor -> its text: many objects share one */
    size_t sddl_bytes; /* of security text written so far, against a limit in security.c */
    bool out_of_memory;
    uint64_t repeated_bytes; /* of names and descriptors, over all rows that show them again */
};

/* A row with what only the construction needs; the row comes first, so that a pointer to the row is
 * a pointer to the node. */
struct kda_registration_node {
    struct kda_etw_registration row;
    uint64_t list_of, group_list_of; /* entry whose list holds it, 0 = on none */
};

static inline struct kda_gaps *kda_etw_gaps(struct kda_etw *etw)
{
    return kda_kernel_gaps(etw->kernel);
}

/* ground.c */
/* What a status means for the model: memory that ran out ends the construction, everything else
 * becomes a gap. Once the kernel's work is used up one gap says so for all that follows. */
void kda_etw_gap(struct kda_etw *etw, const char *what, uint64_t va, enum kda_status status,
                 const char *fmt, ...) KDA_PRINTF(5, 6);
static inline bool kda_etw_stop(const struct kda_etw *etw)
{
    return etw->out_of_memory || kda_kernel_exhausted(etw->kernel);
}
/* Walks a list with a gap for a head that cannot be read. */
void kda_etw_walk(struct kda_etw *etw, uint64_t head, size_t max, const char *what, kda_list_fn fn,
                  void *context);
/* May a row show this text, which belongs to another object, once more? False ends what one long
 * name and many rows could do to the output; a gap says so. NULL may always be shown. */
bool kda_etw_repeat(struct kda_etw *etw, const char *name);
/* Copies into the model; NULL sets out_of_memory or, when the model is full, records a gap. */
void *kda_etw_alloc(struct kda_etw *etw, size_t size);
void *kda_etw_keep(struct kda_etw *etw, const void *bytes, size_t size);

/* Zeroed object in the model, appended to `list` and, by `va`, to `map`; NULL sets
 * out_of_memory or, past `max`, records a gap. */
void *kda_etw_add(struct kda_etw *etw, struct kda_ptrs *list, struct kda_map *map, uint64_t va,
                  size_t size, size_t max, const char *what);
void *kda_etw_lookup(const struct kda_ptrs *list, const struct kda_map *map, uint64_t va);

/* An integer field into *ret. A missing page becomes a gap named `what` for the object; a field
 * that this build lacks does not. True when *ret was set. */
bool kda_etw_field(struct kda_etw *etw, const char *what, uint64_t object, enum kda_field_id field,
                   uint64_t *ret);
/* Address of a member, 0 when this build lacks it. */
uint64_t kda_etw_member(struct kda_etw *etw, uint64_t object, enum kda_field_id field);

/* handles.c: the owner that an object names holds its handle. False: another process alone does,
 * and one of the two witnesses was changed. */
bool kda_etw_handle_agrees(struct kda_etw *etw, const char *what, uint64_t va, uint64_t pid,
                           uint64_t holder);

/* silo.c */
enum kda_status kda_etw_find_silos(struct kda_etw *etw, struct kda_error *err);
/* The silo whose ETW state is at `state`; host for 0; adds states that only a back pointer names,
 * once verified. NULL when it is no silo state. */
struct kda_etw_silo *kda_etw_silo_of(struct kda_etw *etw, uint64_t state);

/* The silo whose state is at `state` if it is known already (host for 0), else NULL. */
struct kda_etw_silo *kda_etw_known_state(struct kda_etw *etw, uint64_t state);

/* Is this the ETW state of a container, which its own globals name? KDA_BAD_DATA: no; missing
 * memory speaks for neither. */
enum kda_status kda_etw_check_state(struct kda_etw *etw, uint64_t state);

/* plausible.c: could this be such an object? Missing memory speaks for neither. */
bool kda_etw_plausible_session(struct kda_etw *etw, uint64_t va, uint32_t slot);
bool kda_etw_plausible_consumer(struct kda_etw *etw, uint64_t va);
/* GUID entries are allocated: none stands in a table that leads to them, or in the kernel image. */
bool kda_etw_is_allocated(struct kda_etw *etw, uint64_t va);
/* What leads to a GUID entry: a list that holds together, one that is torn here (more has to speak
 * for it), or another object (then it may be on no list any more). */
enum kda_entry_way { KDA_ENTRY_LISTED, KDA_ENTRY_TORN, KDA_ENTRY_NAMED };
/* KDA_OK, KDA_BAD_DATA, or KDA_ABSENT when nothing of it can be read. */
enum kda_status kda_etw_check_entry(struct kda_etw *etw, uint64_t va, enum kda_entry_way how);
/* A whole ring of registrations goes through `link` (at least two), and this head is not on it. */
bool kda_etw_list_denies(struct kda_etw *etw, uint64_t link, uint64_t head);
/* Asked once for each object that points at `va`: is this the second one at least? */
bool kda_etw_named_twice(struct kda_etw *etw, uint64_t va);
bool kda_etw_plausible_registration(struct kda_etw *etw, uint64_t va);
/* Does the first registration on the entry's list name it back? */
bool kda_etw_entry_is_named(struct kda_etw *etw, uint64_t va);
/* A gap for something that stands on a list and does not belong there; whoever else points at it
 * gets no row either. */
enum kda_step kda_etw_refuse(struct kda_etw *etw, const char *what, uint64_t va, const char *fmt,
                             ...) KDA_PRINTF(4, 5);
static inline bool kda_etw_refused(const struct kda_etw *etw, uint64_t va)
{
    return kda_map_get(&etw->refused, va, NULL);
}

/* The host for an object that has no member to name its state or could not be read; NULL for one
 * that names what is no state. */
struct kda_etw_silo *kda_etw_default_silo(struct kda_etw *etw, bool readable,
                                          enum kda_field_id member);

/* session.c */
void kda_etw_read_sessions(struct kda_etw *etw, struct kda_etw_silo *silo);
/* A context that no slot holds any more. */
void kda_etw_pool_session(struct kda_etw *etw, struct kda_etw_silo *silo, uint32_t slot,
                          uint64_t va);
struct kda_etw_session *kda_etw_session_at(const struct kda_etw *etw,
                                           const struct kda_etw_silo *silo, uint32_t slot);

/* consumer.c */
/* NULL: no consumer stands there (a gap), or the model is full. */
struct kda_etw_consumer *kda_etw_consumer(struct kda_etw *etw, uint64_t va, unsigned found_by,
                                          struct kda_etw_session *session);
void kda_etw_read_consumer_list(struct kda_etw *etw, struct kda_etw_session *session);
void kda_etw_join_consumers(struct kda_etw *etw);

/* provider.c */
struct kda_etw_provider *kda_etw_provider(struct kda_etw *etw, uint64_t va, unsigned found_by);
void kda_etw_read_providers(struct kda_etw *etw, struct kda_etw_silo *silo);
void kda_etw_join_providers(struct kda_etw *etw);

/* registration.c */
struct kda_etw_registration *kda_etw_registration(struct kda_etw *etw, uint64_t va,
                                                  unsigned found_by);
void kda_etw_read_registration_list(struct kda_etw *etw, struct kda_etw_provider *provider);
void kda_etw_read_handle_symbols(struct kda_etw *etw);

void kda_etw_join_registrations(struct kda_etw *etw);

/* handles.c: EtwConsumer, EtwRegistration and Process handles of every process not done yet. */
void kda_etw_read_handles(struct kda_etw *etw);

/* owners.c: processes that nothing but the pointers of other objects names; true if there were
 * new ones. */
bool kda_etw_read_owners(struct kda_etw *etw);

/* neighbours.c: objects that only the links of others name; true if there were new ones. */
bool kda_etw_read_neighbours(struct kda_etw *etw);

/* carve.c: objects of a kind that only pool blocks show; nothing unless the kernel carves. What
 * they belong to must have been carved, and read, before: loggers and GUID entries come first. */
void kda_etw_carve(struct kda_etw *etw, enum kda_pool_kind kind);

/* filter.c */
void kda_etw_read_filters(struct kda_etw *etw, struct kda_etw_provider *provider);

/* security.c: SDDL of the self-relative descriptor behind a fast reference, NULL when there is
 * none or it cannot be read (then a gap). *va receives its address. */
const char *kda_etw_security(struct kda_etw *etw, uint64_t fast_ref, const char *what,
                             uint64_t *va);

/* Pid and names of a process by address; false leaves everything untouched. */
bool kda_etw_process(struct kda_etw *etw, uint64_t process_va, uint64_t *pid, const char **name,
                     const char **image);

#endif
