/*
 * cm.h - the registry's store; private to sim/.
 */
#ifndef SIM_CM_H
#define SIM_CM_H

#include "machine.h"

struct sim_node;

/* Body of a key object. */
struct sim_key {
    struct sim_node *node; /* NULL: not yet asked for, or there is none */
    struct sim_wide path;
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

/* Operations with the calls before and after them. */
int32_t sim_cm_set_told(const struct sim_registry *op, struct sim_key *key);
int32_t sim_cm_query_told(const struct sim_registry *op, struct sim_key *key);
int32_t sim_cm_create_told(const struct sim_registry *op, bool open, struct sim_key *key);

#endif
