/*
 * alloc.h - checked allocation, an arena, and the switch of the fault-injection tests.
 *
 * All heap memory of the library comes from here, so that a test can make the n-th fallible
 * call fail and prove that every path cleans up.
 */
#ifndef KDA_BASE_ALLOC_H
#define KDA_BASE_ALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"

/* NULL on overflow of count * size, on failure and when a fault is injected. Zeroed. */
void *kda_calloc(size_t count, size_t size);
/* Array growth with overflow check; old block stays valid on failure. */
void *kda_realloc_array(void *old, size_t count, size_t size);
void kda_free(void *p);
char *kda_strdup(const char *text);

/* Grows *items (array of `size`-byte elements) so that at least `need` fit; doubles. Returns
 * false on failure or when need > max. */
bool kda_grow(void **items, size_t *capacity, size_t need, size_t size, size_t max);

/* Fault injection (compiled only with KDA_FAULT_INJECTION; otherwise kda_fault is constant
 * false). Each fallible primitive asks kda_fault() once; the armed countdown makes exactly one
 * of them fail. */
#ifdef KDA_FAULT_INJECTION
void kda_fault_arm(uint64_t nth); /* 1 = next call fails; 0 = off */
bool kda_fault_fired(void);
bool kda_fault(void);
#else
static inline bool kda_fault(void)
{
    return false;
}
#endif

/* Bump allocator: freed as a whole. For models made of many small pieces. */
struct kda_arena {
    struct kda_arena_block *head;
    size_t used;  /* bytes handed out */
    size_t limit; /* kda_arena_alloc fails beyond this; 0 = 1 GiB */
};

void kda_arena_init(struct kda_arena *arena, size_t limit);
void kda_arena_deinit(struct kda_arena *arena);
/* Zeroed, 16-byte aligned, NULL on failure. */
void *kda_arena_alloc(struct kda_arena *arena, size_t size);
char *kda_arena_strdup(struct kda_arena *arena, const char *text);
char *kda_arena_strndup(struct kda_arena *arena, const char *text, size_t size);

#endif
