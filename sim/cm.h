/*
 * cm.h - the registry's store; private to sim/.
 */
#ifndef SIM_CM_H
#define SIM_CM_H

#include "machine.h"

struct sim_node;

/* The driver has a handle of this key, or of one below it. */
bool sim_handle_to_key_below(struct sim_str path);

/* Body of a key object. */
struct sim_key {
    struct sim_node *node; /* NULL: not yet asked for, or there is none */
    struct sim_wide path;
    bool transaction; /* it is bound to one */
    bool nameless;
};

struct sim_value {
    struct sim_value *next;
    struct sim_wide name;
    uint8_t *data;
    size_t size;
    uint32_t type;
};

/* All of them take the store's lock; statuses are those of the operation. */
struct sim_node *sim_cm_find(struct sim_str path);
struct sim_node *sim_cm_make(struct sim_str path, bool *is_new);
int32_t sim_cm_delete(struct sim_node *node);
int32_t sim_cm_rename(struct sim_node *node, struct sim_str name);
void sim_cm_set(struct sim_node *node, struct sim_str name, uint32_t type, const void *data,
                size_t size);
int32_t sim_cm_remove(struct sim_node *node, struct sim_str name);
/* Copies at most `room` bytes; *size is the whole size. False: no such value. */
bool sim_cm_get(struct sim_node *node, struct sim_str name, uint32_t *type, void *data, size_t room,
                size_t *size);
void sim_cm_clear(void);

/* With one reference. */
struct sim_node *sim_key_node(struct sim_key *key);
struct sim_key *sim_key_object(struct sim_str path, bool nameless);

/* A key that was deleted, which has no name any more. */
bool sim_node_deleted(const struct sim_node *node);
/* The path without its links; false: there is none in it. */
bool sim_cm_resolve(struct sim_str path, struct sim_wide *target);

/* --- callbacks ------------------------------------------------------------------------------- */

#define SIM_CALLBACKS_MAX 8u
#define SIM_CM_CLASSES 51 /* all that are documented are below */

struct sim_cm_told {
    struct sim_notify *notify[SIM_CALLBACKS_MAX];
    PVOID context[SIM_CALLBACKS_MAX];
    unsigned count;
};
/* Tells all of them before the operation. `context` is the CallContext member of `information`. */
NTSTATUS sim_cm_tell_pre(struct sim_cm_told *told, int class_, void *information, PVOID *context);
/* Those that were told before; returns what the caller of the operation gets. */
NTSTATUS sim_cm_tell_post(struct sim_cm_told *told, int class_, void *object, void *pre,
                          NTSTATUS status);
/* Stands for the transaction of a key object. */
PVOID sim_transaction_object(bool bound);
bool sim_cm_cookie(PLARGE_INTEGER cookie);
bool sim_cm_watched(void);

/* --- operations ------------------------------------------------------------------------------ */

/* Carried out with the calls before and after it, on this key. */
int32_t sim_cm_told_on(enum sim_registry_kind kind, const struct sim_registry *op,
                       struct sim_key *key);

#endif
