/*
 * ex.c - pool and lookaside lists.
 *
 * A block is filled with rubbish, has a guard behind it and its tag before it. Freed blocks rest
 * for a while, so that a second free is told apart from a wild one.
 */
#include "machine.h"

#define LIVE 0x4C4F4F5045564931u
#define DEAD 0x4C4F4F5044454144u
#define GUARD 0xB7u
#define GUARD_BYTES 16u
#define FILL 0xA5
#define FREED 0xDD
#define RESTING 256u
/* No kernel gives so much in one piece. */
#define MOST (UINT64_C(1) << 32)

struct block {
    uint64_t magic;
    size_t size;
    uint32_t tag;
    bool paged;
    struct sim_item item;
};
#define HEAD_BYTES ((sizeof(struct block) + 15u) & ~(size_t)15u)

static pthread_mutex_t resting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *resting[RESTING];
static unsigned resting_next;

static struct block *block_of(void *memory)
{
    return (struct block *)(void *)((uint8_t *)memory - HEAD_BYTES);
}

void *sim_pool_alloc(const char *ddi, bool paged, size_t bytes, uint32_t tag, bool zero,
                     const void *caller)
{
    struct block *made;
    uint8_t *memory;

    sim_ddi(ddi, paged ? APC_LEVEL : DISPATCH_LEVEL);
    if (tag == 0)
        sim_bugcheck(ddi, "a pool tag of 0");
    if (bytes == 0)
        sim_bugcheck(ddi, "a block of 0 bytes");
    if (sim_fault(ddi) || bytes > MOST)
        return NULL;
    made = malloc(HEAD_BYTES + bytes + GUARD_BYTES);
    if (!made)
        return NULL;
    memset(made, 0, HEAD_BYTES);
    made->magic = LIVE;
    made->size = bytes;
    made->tag = tag;
    made->paged = paged;
    made->item.tag = tag;
    memory = (uint8_t *)made + HEAD_BYTES;
    memset(memory, zero ? 0 : FILL, bytes);
    memset(memory + bytes, GUARD, GUARD_BYTES);
    sim_item_add(&made->item, SIM_POOL, memory, ddi, bytes, caller);
    return memory;
}

static void rest(struct block *block)
{
    struct block *oldest;

    pthread_mutex_lock(&resting_lock);
    oldest = resting[resting_next];
    resting[resting_next] = block;
    resting_next = (resting_next + 1) % RESTING;
    pthread_mutex_unlock(&resting_lock);
    if (!oldest)
        return;
    /* Nobody may have written into it meanwhile: each byte is like the next. */
    const uint8_t *bytes = (const uint8_t *)oldest + HEAD_BYTES;
    size_t looked_at = oldest->size < 4096 ? oldest->size : 4096;
    SIM_CHECK(bytes[0] == FREED && memcmp(bytes, bytes + 1, looked_at - 1) == 0,
              "a block was written after its free");
    free(oldest);
}

void sim_pool_free(const char *ddi, void *memory, uint32_t tag)
{
    struct block *block;
    const char *held;

    sim_ddi(ddi, DISPATCH_LEVEL);
    if (!memory)
        sim_bugcheck(ddi, "frees NULL");
    block = block_of(memory);
    if (block->magic == DEAD)
        sim_bugcheck(ddi, "frees the block a second time");
    if (block->magic != LIVE)
        sim_bugcheck(ddi, "frees what is no block");
    if (block->paged)
        sim_ddi(ddi, APC_LEVEL);
    if (tag && tag != block->tag)
        sim_bugcheck(ddi, "tag %.4s, was allocated with %.4s", (const char *)&tag,
                     (const char *)&block->tag);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (((uint8_t *)memory + block->size)[i] != GUARD)
            sim_bugcheck(ddi, "the block was written %zu bytes behind its end", i + 1);
    }
    held = sim_held_within(memory, block->size);
    if (held)
        sim_bugcheck(ddi, "the block still holds a %s that is in use", held);
    sim_item_remove(&block->item);
    block->magic = DEAD;
    memset(memory, FREED, block->size);
    rest(block);
}

void sim_pool_forget(const void *memory)
{
    struct block *block = (struct block *)(uintptr_t)((const uint8_t *)memory - HEAD_BYTES);

    sim_item_remove(&block->item);
    free(block);
}

void sim_ex_end(void)
{
    for (unsigned i = 0; i < RESTING; i++) {
        free(resting[i]);
        resting[i] = NULL;
    }
}

PVOID ExAllocatePoolWithTag(POOL_TYPE poolType, SIZE_T bytes, ULONG tag)
{
    SIM_CHECK(poolType == PagedPool || poolType == NonPagedPoolNx, "pool type %d", poolType);
    return sim_pool_alloc(__func__, poolType == PagedPool, bytes, tag, false,
                          __builtin_return_address(0));
}

VOID ExFreePoolWithTag(PVOID at, ULONG tag)
{
    SIM_CHECK(tag, "a pool tag of 0");
    sim_pool_free(__func__, at, tag);
}

VOID ExFreePool(PVOID at)
{
    sim_pool_free(__func__, at, 0);
}

/* --- lookaside lists ------------------------------------------------------------------------- */

/* A list keeps nothing: each block is one of the pool, so that all its checks hold. The list knows
 * its own address, so one that was moved, deleted or never made is seen. */

VOID ExInitializeNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list, PALLOCATE_FUNCTION allocate,
                                     PFREE_FUNCTION release, ULONG flags, SIZE_T size, ULONG tag,
                                     USHORT depth)
{
    SIM_DDI(DISPATCH_LEVEL);
    SIM_CHECK(!allocate && !release, "own allocators are not simulated");
    SIM_CHECK(depth == 0, "the depth is reserved");
    SIM_CHECK((uintptr_t)list % 16 == 0, "%p is not aligned as the list must be", (void *)list);
    (void)flags;
    SIM_CHECK(sim_held_add(SIM_LIST, list, "", __builtin_return_address(0)),
              "the list is already initialized");
    memset(list, 0, sizeof(*list));
    list->Type = NonPagedPoolNx;
    list->Tag = tag;
    list->Size = (ULONG)size;
    list->ListEntry.Flink = list->ListEntry.Blink = &list->ListEntry;
}

static void check_list(const char *ddi, const NPAGED_LOOKASIDE_LIST *list)
{
    if (list->ListEntry.Flink != &list->ListEntry)
        sim_bugcheck(ddi, "%p is no lookaside list", (const void *)list);
}

VOID ExDeleteNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list)
{
    SIM_DDI(DISPATCH_LEVEL);
    SIM_CHECK(sim_held_remove(SIM_LIST, list), "%p is no lookaside list", (void *)list);
    memset(list, FREED, sizeof(*list));
}

PVOID ExAllocateFromNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list)
{
    check_list(__func__, list);
    return sim_pool_alloc(__func__, false, list->Size, list->Tag, false,
                          __builtin_return_address(0));
}

VOID ExFreeToNPagedLookasideList(PNPAGED_LOOKASIDE_LIST list, PVOID entry)
{
    check_list(__func__, list);
    sim_pool_free(__func__, entry, list->Tag);
}

/* --- memory that can fault ------------------------------------------------------------------- */

static _Thread_local uintptr_t bad_at;
static _Thread_local size_t bad_size;

void sim_bad_memory(const void *at, size_t size)
{
    bad_at = (uintptr_t)at;
    bad_size = size;
}

/* What the driver's guarded copy is on the host. */
NTSTATUS sim_guarded_copy(void *to, const void *from, SIZE_T bytes)
{
    SIM_DDI(APC_LEVEL);
    if (bad_size && (uintptr_t)from < bad_at + bad_size && bad_at < (uintptr_t)from + bytes)
        return STATUS_ACCESS_VIOLATION;
    memcpy(to, from, bytes);
    return STATUS_SUCCESS;
}

VOID SimPagedCode(const char *function)
{
    if (sim_self()->irql > APC_LEVEL)
        sim_bugcheck(function, "paged code at IRQL %u", sim_self()->irql);
}
