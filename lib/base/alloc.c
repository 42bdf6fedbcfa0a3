#include "alloc.h"

#include <stdlib.h>
#include <string.h>

#ifdef KDA_FAULT_INJECTION
/* Test builds only: the one piece of global state, so that the n-th call can be counted across
 * every layer. Tests that arm it run one thread. */
static uint64_t fault_countdown;
static bool fault_fired;

void kda_fault_arm(uint64_t nth)
{
    fault_countdown = nth;
    fault_fired = false;
}

bool kda_fault_fired(void)
{
    return fault_fired;
}

bool kda_fault(void)
{
    if (fault_countdown == 0 || --fault_countdown != 0)
        return false;
    fault_fired = true;
    return true;
}
#endif

void *kda_calloc(size_t count, size_t size)
{
    if (kda_fault())
        return NULL;
    return calloc(count ? count : 1, size ? size : 1);
}

void *kda_realloc_array(void *old, size_t count, size_t size)
{
    if (kda_fault() || (size != 0 && count > SIZE_MAX / size))
        return NULL;
    size_t bytes = count * size;
    return realloc(old, bytes ? bytes : 1);
}

void kda_free(void *p)
{
    free(p);
}

char *kda_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = kda_calloc(size, 1);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

bool kda_grow(void **items, size_t *capacity, size_t need, size_t size, size_t max)
{
    if (need <= *capacity)
        return true;
    if (need > max)
        return false;
    size_t next = *capacity ? *capacity : 16;
    while (next < need)
        next = next > max / 2 ? max : next * 2;
    if (next > max)
        next = max;
    void *grown = kda_realloc_array(*items, next, size);
    if (!grown)
        return false;
    *items = grown;
    *capacity = next;
    return true;
}

#define ARENA_BLOCK ((size_t)64 * 1024)
#define ARENA_DEFAULT_LIMIT ((size_t)1 << 30)

struct kda_arena_block {
    struct kda_arena_block *next;
    size_t size, used;
    _Alignas(16) unsigned char data[];
};

void kda_arena_init(struct kda_arena *arena, size_t limit)
{
    arena->head = NULL;
    arena->used = 0;
    arena->limit = limit ? limit : ARENA_DEFAULT_LIMIT;
}

void kda_arena_deinit(struct kda_arena *arena)
{
    while (arena->head) {
        struct kda_arena_block *next = arena->head->next;
        kda_free(arena->head);
        arena->head = next;
    }
    arena->used = 0;
}

void *kda_arena_alloc(struct kda_arena *arena, size_t size)
{
    if (size > SIZE_MAX - 15)
        return NULL;
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded > arena->limit - arena->used)
        return NULL;
    struct kda_arena_block *block = arena->head;
    if (!block || rounded > block->size - block->used) {
        size_t room = rounded > ARENA_BLOCK / 4 ? rounded : ARENA_BLOCK;
        block = kda_calloc(1, sizeof(*block) + room);
        if (!block)
            return NULL;
        block->size = room;
        /* A piece with a block of its own goes behind the head, so that the head's rest stays
         * usable. */
        if (arena->head && room != ARENA_BLOCK) {
            block->next = arena->head->next;
            arena->head->next = block;
        } else {
            block->next = arena->head;
            arena->head = block;
        }
    }
    void *p = block->data + block->used;
    block->used += rounded;
    arena->used += rounded;
    return p;
}

char *kda_arena_strndup(struct kda_arena *arena, const char *text, size_t size)
{
    char *copy = kda_arena_alloc(arena, size + 1);
    if (copy)
        memcpy(copy, text, size);
    return copy;
}

char *kda_arena_strdup(struct kda_arena *arena, const char *text)
{
    return kda_arena_strndup(arena, text, strlen(text));
}
