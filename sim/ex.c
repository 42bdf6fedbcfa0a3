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
/* No kernel gives so much in one piece. */
#define MOST (UINT64_C(1) << 32)

struct block {
    struct block *next_paged;
    uint64_t magic;
    size_t size;
    uint32_t tag;
    bool paged;
    struct sim_item item;
};
#define HEAD_BYTES ((sizeof(struct block) + 15u) & ~(size_t)15u)

#define RESTING 256u
static pthread_mutex_t resting_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *resting[RESTING];
static unsigned resting_next;

static struct block *block_of(void *memory)
{
    return (struct block *)(void *)((uint8_t *)memory - HEAD_BYTES);
}

/* Paged blocks, for who asks whether an address may be paged out. */
static pthread_mutex_t paged_lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *paged_blocks;

static void paged_remember(struct block *block)
{
    pthread_mutex_lock(&paged_lock);
    block->next_paged = paged_blocks;
    paged_blocks = block;
    pthread_mutex_unlock(&paged_lock);
}

static void paged_forget(struct block *block)
{
    if (!block->paged)
        return;
    pthread_mutex_lock(&paged_lock);
    for (struct block **at = &paged_blocks; *at; at = &(*at)->next_paged) {
        if (*at == block) {
            *at = block->next_paged;
            break;
        }
    }
    pthread_mutex_unlock(&paged_lock);
}

bool sim_pool_is_paged(const void *at)
{
    bool found = false;

    pthread_mutex_lock(&paged_lock);
    for (const struct block *b = paged_blocks; b && !found; b = b->next_paged)
        found = (uintptr_t)at - ((uintptr_t)b + HEAD_BYTES) < b->size;
    pthread_mutex_unlock(&paged_lock);
    return found;
}

static bool tag_is_valid(uint32_t tag)
{
    bool ended = false;

    for (int i = 0; i < 4; i++) {
        uint8_t c = (uint8_t)(tag >> i * 8);
        if (c ? ended || c < 0x20 || c > 0x7E : i == 0)
            return false;
        ended = c == 0;
    }
    return true;
}

void *sim_pool_alloc(const char *ddi, bool paged, size_t bytes, uint32_t tag, bool zero,
                     const void *caller)
{
    struct block *made;
    uint8_t *memory;

    sim_ddi(ddi, "EX-001", paged ? APC_LEVEL : DISPATCH_LEVEL);
    if (!tag_is_valid(tag))
        sim_violation("EX-002", ddi, "a pool tag of 0, or not of printable characters");
    if (bytes == 0)
        sim_violation("EX-002", ddi, "a block of 0 bytes");
    if (sim_fault(ddi) || bytes > MOST)
        return NULL;
    made = aligned_alloc(16, (HEAD_BYTES + bytes + GUARD_BYTES + 15) & ~(size_t)15);
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
    if (paged)
        paged_remember(made);
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

    sim_ddi(ddi, "EX-008", DISPATCH_LEVEL);
    if (!memory)
        sim_bugcheck(ddi, "frees NULL");
    block = block_of(memory);
    if (block->magic == DEAD)
        sim_bugcheck(ddi, "frees the block a second time");
    if (block->magic != LIVE)
        sim_bugcheck(ddi, "frees what is no block");
    if (block->paged)
        sim_ddi(ddi, "EX-008", APC_LEVEL);
    if (tag && tag != block->tag)
        sim_violation("EX-009", ddi, "tag %.4s, was allocated with %.4s", (const char *)&tag,
                      (const char *)&block->tag);
    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (((uint8_t *)memory + block->size)[i] != GUARD)
            sim_bugcheck(ddi, "the block was written %zu bytes behind its end", i + 1);
    }
    held = sim_held_within(memory, block->size);
    if (held)
        sim_bugcheck(ddi, "the block still holds a %s that is in use", held);
    sim_locks_forget(memory, block->size);
    paged_forget(block);
    sim_item_remove(&block->item);
    block->magic = DEAD;
    memset(memory, FREED, block->size);
    rest(block);
}

void sim_pool_forget(const void *memory)
{
    struct block *block = block_of((void *)(uintptr_t)memory);

    sim_item_remove(&block->item);
    free(block);
}

void sim_ex_end(void)
{
    paged_blocks = NULL;
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

PVOID ExAllocatePool2(ULONGLONG flags, SIZE_T bytes, ULONG tag)
{
    const ULONGLONG paged = 0x100;
    const ULONGLONG non_paged = 0x40;
    const ULONGLONG uninitialized = 0x2;

    if (tag == 0 || !(flags & (paged | non_paged)) || (flags & paged && flags & non_paged))
        return NULL;
    return sim_pool_alloc(__func__, (flags & paged) != 0, bytes, tag, !(flags & uninitialized),
                          __builtin_return_address(0));
}

VOID ExFreePoolWithTag(PVOID at, ULONG tag)
{
    SIM_RULE("EX-009", tag, "a pool tag of 0");
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
    SIM_DDI(DISPATCH_LEVEL, "EX-026");
    SIM_CHECK(!allocate && !release, "own allocators are not simulated");
    SIM_RULE("EX-027", depth == 0, "the depth is reserved");
    SIM_RULE("EX-027", !(flags & ~0x210u), "flags 0x%X", flags);
    SIM_RULE("EX-027", size >= sizeof(SLIST_ENTRY), "an entry of %zu bytes", size);
    SIM_RULE("EX-027", !sim_pool_is_paged(list), "%p may be paged out", (void *)list);
    SIM_RULE("EX-031", (uintptr_t)list % 16 == 0, "%p is not aligned as the list must be",
             (void *)list);
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
    SIM_DDI(DISPATCH_LEVEL, "EX-026");
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

VOID SimPagedCode(const char *function)
{
    if (sim_self()->irql > APC_LEVEL)
        sim_violation("KE-002", function, "paged code at IRQL %u", sim_self()->irql);
}
