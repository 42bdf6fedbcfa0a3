/*
 * mini.h - a tiny machine for unit tests: RAM in memory, page tables made on demand, and a kernel
 * handle over it that skips the search for a kernel.
 *
 * Writes go to virtual addresses and map what they touch. mini_kernel gives a fresh handle (no page
 * is cached), so memory is changed first and read after.
 */
#ifndef KDA_TESTS_MINI_H
#define KDA_TESTS_MINI_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/internal.h"

#define MINI_RAM ((size_t)8 << 20)
#define MINI_BASE 0xfffff80012200000u /* kernel image */
#define MINI_POOL 0xffffb00000000000u /* mini_alloc */

struct mini {
    uint8_t *ram;
    size_t size;
    uint64_t root, next_pa, next_va;
    bool la57;
    struct kda_layout layout;
    struct kda_image *image;
    struct kda_kernel *kernel;
};

/* Levels of an entry: 0 = page table (4 KiB), 1 = 2 MiB, 2 = 1 GiB, 3 = PML4, 4 = PML5. */
struct mini *mini_create(const char *version, bool la57, size_t size);
void mini_free(struct mini *m);
struct kda_kernel *mini_kernel(struct mini *m);

uint64_t mini_page(struct mini *m); /* physical address of a fresh page */
/* Address in RAM of the entry for `va` at `level`; tables above are made as needed. */
uint8_t *mini_entry(struct mini *m, uint64_t va, int level);
void mini_map(struct mini *m, uint64_t va, uint64_t pa, int level);
/* Kinds of missing memory. */
void mini_absent(struct mini *m, uint64_t va);   /* valid, frame past the end of the RAM */
void mini_paged(struct mini *m, uint64_t va);    /* in a page file */
void mini_unmapped(struct mini *m, uint64_t va); /* entry 0 */

uint64_t mini_alloc(struct mini *m, size_t size);      /* 16-byte aligned, zeroed */
uint64_t mini_alloc_page(struct mini *m, size_t size); /* starts a page */
void mini_write(struct mini *m, uint64_t va, const void *bytes, size_t size);
void mini_read(struct mini *m, uint64_t va, void *bytes, size_t size);
void mini_put(struct mini *m, uint64_t va, uint64_t value, size_t size);
void mini_put64(struct mini *m, uint64_t va, uint64_t value);
/* A field by id, bit fields included; fails the test if the layout lacks it. */
void mini_set(struct mini *m, uint64_t object, enum kda_field_id field, uint64_t value);
uint64_t mini_at(struct mini *m, uint64_t object, enum kda_field_id field);
uint64_t mini_symbol(struct mini *m, enum kda_symbol_id symbol);
/* UNICODE_STRING at `va` with its text in fresh memory. */
void mini_string(struct mini *m, uint64_t va, const char *ascii);
void mini_list(struct mini *m, uint64_t head);                  /* empty ring */
void mini_list_add(struct mini *m, uint64_t head, uint64_t at); /* at the end */

/* Number of gaps named `what` (NULL = all); with the reason if it is not KDA_OK. */
size_t mini_gaps(struct mini *m, const char *what, enum kda_status reason);

/* ---- kernel objects ---- */

uint64_t mini_handle_table(struct mini *m); /* empty, one level */
/* Entry `index` of the page at `page`, in the form of the layout. */
void mini_handle(struct mini *m, uint64_t page, unsigned index, uint64_t object,
                 unsigned attributes);
void mini_type(struct mini *m, uint64_t body, uint8_t index); /* header in front of `body` */
/* A process in the active list, with name and pid. */
uint64_t mini_process(struct mini *m, uint64_t pid, const char *name);
/* Empty lists, an empty type table with Process, EtwConsumer and EtwRegistration (types 7, 40, 41),
 * a CID table, host silo state with `slots` free logger slots. Returns the state (0 on builds
 * without silos). */
uint64_t mini_system(struct mini *m, unsigned slots);
uint64_t mini_cid_page(struct mini *m);
uint64_t mini_array(struct mini *m); /* logger array of the host */
uint64_t mini_table(struct mini *m); /* GUID table of the host */
/* A silo state with its arrays; globals of its own. */
uint64_t mini_silo(struct mini *m, unsigned slots, uint64_t *globals);
uint64_t mini_session(struct mini *m, unsigned slot, const char *name);
uint64_t mini_consumer(struct mini *m, uint64_t session, uint64_t process, unsigned slot);
uint64_t mini_guid_entry(struct mini *m, uint64_t list_head, uint8_t tag); /* 0 = on no list */
uint64_t mini_registration(struct mini *m, uint64_t entry, uint64_t process, bool linked);

#define MINI_TYPE_PROCESS 7u
#define MINI_TYPE_CONSUMER 40u
#define MINI_TYPE_REGISTRATION 41u
#define MINI_COOKIE 0x5au

#endif
