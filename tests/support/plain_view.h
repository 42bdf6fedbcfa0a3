/*
 * plain_view.h - the simplest reader of a flat memory image: page tables, fields, rings, handle
 * entries. It shares no code with the library and takes nothing on trust that the library might
 * have got wrong; tests hold images of the generator and of others against it.
 */
#ifndef KDA_TEST_PLAIN_VIEW_H
#define KDA_TEST_PLAIN_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/symbols.h"

struct plain_view {
    const uint8_t *bytes; /* physical memory from address 0 */
    size_t size;
    uint64_t root;
    bool la57;
    uint64_t base; /* of nt */
    struct kda_layout layout;
};

/* False: not mapped, paged out, or outside the bytes. */
bool plain_translate(const struct plain_view *v, uint64_t va, uint64_t *pa);
bool plain_read(const struct plain_view *v, uint64_t va, void *out, size_t size);
/* 0 when it cannot be read. */
uint64_t plain_u64(const struct plain_view *v, uint64_t va);
uint64_t plain_field(const struct plain_view *v, uint64_t object, enum kda_field_id field,
                     unsigned width);
uint64_t plain_symbol(const struct plain_view *v, enum kda_symbol_id id);
/* UNICODE_STRING with ASCII characters only; others become '?'. False if unreadable. */
bool plain_string(const struct plain_view *v, uint64_t va, char *out, size_t cap);

/* Length of the ring at `head` (nodes without the head), checking every back link; -1 if it is
 * broken or longer than 100000. `nodes` (nullable) receives up to `cap` addresses. */
long plain_ring(const struct plain_view *v, uint64_t head, uint64_t *nodes, size_t cap);

/* Object header (or body in the CID table) behind a handle; 0 = free or unreadable. */
uint64_t plain_handle(const struct plain_view *v, uint64_t table, uint64_t handle);
/* Name of an object's type. */
bool plain_type_name(const struct plain_view *v, uint64_t header, char *out, size_t cap);

/* Page-table root from the low stub, else from a page that maps itself. 0 = none. */
uint64_t plain_find_root(const uint8_t *bytes, size_t size);

#endif
