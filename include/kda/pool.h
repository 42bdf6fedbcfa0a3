/*
 * kda/pool.h - pool memory as a witness: blocks that a pool tag says hold an object of the kernel,
 * anywhere in physical memory, whether a list names them or not.
 *
 * Ownership: what a getter returns lives as long as the kernel handle. Threads: one thread per
 * handle at a time.
 *
 * Source: _POOL_HEADER, _POOL_TRACKER_BIG_PAGES and the _OBJECT_HEADER_... structures of the PDBs;
 * docs/kernel.md ("Pool blocks") says what of it images have shown.
 */
#ifndef KDA_POOL_H
#define KDA_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks kept; a busy machine has some ten thousand, most of them registrations. */
#define KDA_POOL_MAX_BLOCKS 524288u

enum kda_pool_kind {
    KDA_POOL_LOGGER,       /* EtwL */
    KDA_POOL_CONSUMER,     /* EtwC */
    KDA_POOL_GUID_ENTRY,   /* EtwG */
    KDA_POOL_REGISTRATION, /* EtwR */
    KDA_POOL_PROCESS,      /* Proc */
    KDA_POOL_KINDS,
};

struct kda_pool_block {
    uint64_t pa;    /* of its header; big blocks have none: of their first byte */
    uint64_t va;    /* the same place by the kernel's page tables; 0 = none of them maps it */
    uint64_t alias; /* another address that maps it; 0 = none */
    uint32_t size;  /* bytes, header included */
    enum kda_pool_kind kind;
    bool big; /* named by the table of big pages */
};

/* The block whose header stands at `off` (a multiple of 16) of a page: false unless its tag is one
 * of the kinds, it is allocated, lies inside the page, and agrees with the block before and behind
 * it where the headers say how long those are. Reads nothing but the page; pa and va are left 0. */
bool kda_pool_parse(const uint8_t page[KDA_PAGE_SIZE], size_t off, struct kda_pool_block *ret);

/* Every such block, by physical address, then those of the table of big pages. Scans physical
 * memory on first use; without the option `carve` there are none. KDA_NO_MEMORY, KDA_CANCELLED. */
KDA_MUST_CHECK enum kda_status kda_pool_blocks(struct kda_kernel *kernel,
                                               const struct kda_pool_block **ret, size_t *count,
                                               struct kda_error *err);
/* Was the option given? */
bool kda_pool_carving(const struct kda_kernel *kernel);

/* Where the content of a block begins, and how many bytes are left for it. */
uint64_t kda_pool_content(const struct kda_pool_block *block, uint64_t va, size_t *room);
/* Adds the processes that stand in pool blocks, live, and are not known: call it when every other
 * witness was asked. Pointers from kda_processes and kda_process_at are void when there were any.
 * *added is 0 without the option. Errors as kda_pool_blocks and kda_processes. */
KDA_MUST_CHECK enum kda_status kda_processes_carve(struct kda_kernel *kernel, size_t *added,
                                                   struct kda_error *err);

/* Is an object `known` where the content of the block would be: right at its start, or
 * (objects) behind object headers of any kind? Asks for every address that maps the block. */
bool kda_pool_known(const struct kda_pool_block *block,
                    bool (*known)(const void *context, uint64_t va), const void *context);
/* Pool memory lies in few ranges of addresses. Objects that a list names tell which; a block
 * anywhere else is a copy, as the file cache and the memory of other programs hold them. */
void kda_pool_add_region(struct kda_kernel *kernel, uint64_t va);
bool kda_pool_in_region(const struct kda_kernel *kernel, const struct kda_pool_block *block);
/* The body of the object of type `type` in the block: its header says which optional headers
 * stand before it, and that is where it must stand; type and counts agree; `size` bytes fit.
 * False when there is none. */
bool kda_pool_object(struct kda_kernel *kernel, const struct kda_pool_block *block, uint8_t type,
                     size_t size, uint64_t *body);

/* The gap for an object that is mapped at more than one address. */
void kda_pool_ambiguous(struct kda_kernel *kernel, const struct kda_pool_block *block);

/* What a block needs to be told from its remains, and this layout or image lacks: blocks of the
 * kind were not judged. NULL = they were. */
const char *kda_pool_lacks(const struct kda_kernel *kernel, enum kda_pool_kind kind);
void kda_pool_set_lacks(struct kda_kernel *kernel, enum kda_pool_kind kind, const char *what);

#ifdef __cplusplus
}
#endif

#endif
