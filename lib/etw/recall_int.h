/*
 * recall_int.h - private to recall*.c of lib/etw: the rows under construction.
 */
#ifndef KDA_ETW_RECALL_INT_H
#define KDA_ETW_RECALL_INT_H

#include "kda/recall.h"

#include "base/alloc.h"
#include "base/bytes.h"

struct kda_recall {
    struct kda_kernel *kernel;
    const struct kda_etw *etw;
    struct kda_recall_item *items;
    size_t count, capacity;
    struct kda_recall_item scratch; /* for rows beyond the limit */
    bool no_memory;
};

/* Never NULL; the pointer is good until the next row. */
struct kda_recall_item *kda_recall_add(struct kda_recall *recall, const char *name,
                                       const char *object, uint64_t va);
void kda_recall_found(struct kda_recall_item *item, size_t found);
/* The same where other witnesses name such objects too. */
void kda_recall_witnessed(struct kda_recall_item *item, size_t found, size_t by_others);
/* Sets the state of a row over many lists, once all are counted. */
void kda_recall_group(struct kda_recall_item *item);
/* The count of `size` bytes at `va` (0 = not known), after what was found is set. */
void kda_recall_count(struct kda_recall *recall, struct kda_recall_item *item, uint64_t va,
                      size_t size);
/* Walks a list; the first that does not close gives the row its state. True: it closes. */
bool kda_recall_list(struct kda_recall *recall, struct kda_recall_item *item, uint64_t head,
                     size_t max, size_t *nodes);
/* The object manager's count of a type beside the objects found. */
void kda_recall_objects(struct kda_recall *recall, const char *type, const char *object,
                        size_t found);

/* recall_table.c */
void kda_recall_tables(struct kda_recall *recall);
/* recall_etw.c */
void kda_recall_etw(struct kda_recall *recall);

#endif
