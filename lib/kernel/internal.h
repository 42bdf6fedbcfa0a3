/*
 * internal.h - private to lib/kernel: the kernel handle and what its files share.
 */
#ifndef KDA_KERNEL_INTERNAL_H
#define KDA_KERNEL_INTERNAL_H

#include "kda/kernel.h"
#include "kda/pool.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/map.h"

/* Page cache: at most 16 MiB of pages, so that a run on any image stays small. */
#define KDA_CACHE_PAGES 4096u
#define KDA_CACHE_BUCKETS 4096u
#define KDA_TLB_ENTRIES 2048u

/* Work allowed per kernel handle, in reads: enough for any machine whose memory holds this many
 * pages, and an end for structures that send the walkers round and round. A page that had to be
 * fetched costs more than one that is at hand. */
#define KDA_WORK_BASE 2000000u
#define KDA_WORK_PER_PAGE 128u
#define KDA_WORK_MAX 67108864u /* some seconds */
#define KDA_WORK_PER_MISS 16u
#define KDA_WORK_PER_FAILURE 16u /* finding that memory is missing, and writing down why */
#define KDA_WORK_BYTES 256u      /* bytes of a long read that count as one more read */

/* Handle pages read in one run, over all tables: bounds the work that lying tables can cause. */
#define KDA_MAX_HANDLE_PAGES 262144u

/* Part of the arena that strings of any length leave to the short names of processes, so that long
 * ones cannot make the process list fail: KDA_MAX_PROCESSES pieces of 32 bytes, and the rests of
 * blocks. */
#define KDA_SHORT_NAMES ((size_t)4 << 20)

struct kda_cache {
    uint8_t *pages; /* one block: memory that is never touched is never taken */
    uint64_t pfn[KDA_CACHE_PAGES];
    uint16_t next[KDA_CACHE_PAGES]; /* chain in a bucket, slot + 1 */
    uint16_t bucket[KDA_CACHE_BUCKETS];
    uint8_t used[KDA_CACHE_PAGES];    /* second chance */
    uint8_t uniform[KDA_CACHE_PAGES]; /* all its bytes are the same */
    uint32_t count, hand;
    uint64_t misses;
};

struct kda_tlb_entry {
    uint64_t root, page; /* va without offset; root 0 = free */
    uint64_t pa;
};

/* The debugger data block, decoded. */
struct kda_kdbg {
    uint8_t *bytes;       /* arena; NULL = not found */
    size_t have;          /* of the info's kdbg_size: the rest is not in the image */
    enum kda_status rest; /* why */
    bool data_searched;
    bool no_memory; /* in the last attempt */
};

/* Blocks that were carved out of physical memory. */
struct kda_pool {
    struct kda_pool_block *blocks;
    size_t count, capacity;
    bool full;
    const char *lacks[KDA_POOL_KINDS];
    uint64_t regions[8]; /* bit per entry of a top table: listed objects stand there */
};

struct kda_kernel {
    struct kda_image *image;
    struct kda_kernel_info info;
    struct kda_kernel_options options;
    struct kda_symbols *symbols;
    const struct kda_layout *layout;
    struct kda_gaps gaps;
    struct kda_arena arena;
    struct kda_cache *cache;
    struct kda_tlb_entry *tlb;
    uint64_t work; /* left */
    bool exhausted;

    bool modules_read;
    struct kda_module *modules;
    size_t module_count;

    bool processes_read;
    struct kda_process *processes;
    size_t process_count, process_capacity;
    struct kda_map process_by_va; /* va -> index */
    bool process_type_read;
    uint8_t process_type;
    struct kda_error process_type_error; /* status KDA_OK: process_type is known */

    struct kda_kdbg kdbg;
    struct kda_pool *pool; /* NULL until it was asked for */

    uint32_t handle_pages; /* read so far, against KDA_MAX_HANDLE_PAGES */
    bool cookie_read;      /* or given; else the processes are asked, again when there are more */
    uint8_t cookie;
    enum kda_status cookie_status;
    size_t cookie_processes; /* known when they were asked last */
};

/* A page of the image through the cache; the pointer is good until the next call. */
enum kda_status kda_space_page(struct kda_kernel *kernel, uint64_t pfn, const uint8_t **page,
                               struct kda_error *err);
/* All bytes of the page of `va` are the same; false when it cannot be read. */
bool kda_page_is_blank(struct kda_kernel *kernel, uint64_t va);
/* Drops translations (after the root was chosen). */
void kda_space_flush(struct kda_kernel *kernel);
/* Sets the work allowed to what this image deserves. */
void kda_work_reset(struct kda_kernel *kernel);
/* Takes `units` of work; false when none is left. */
bool kda_work_spend(struct kda_kernel *kernel, uint64_t units);

/* One entry of the page table at `table_pa`, as it stands there. */
enum kda_status kda_space_entry(struct kda_kernel *kernel, uint64_t table_pa, unsigned index,
                                uint64_t *entry, struct kda_error *err);
/* True when the entry leads to a page in memory (valid, or in transition). */
bool kda_pte_present(const struct kda_kernel *kernel, uint64_t entry, uint64_t *pa);

/* A PE image in memory, of the kernel or of a process. */
struct kda_pe {
    uint64_t dtb; /* page-table root that it is read through */
    uint32_t timestamp, size, checksum;
    uint16_t machine;
    uint32_t export_rva, export_size, import_rva, debug_rva, debug_size;
    uint32_t sections_rva, section_count;
};
enum kda_status kda_pe_read(struct kda_kernel *kernel, uint64_t base, struct kda_pe *pe,
                            struct kda_error *err);
/* The same in the address space of another root. */
enum kda_status kda_pe_read_in(struct kda_kernel *kernel, uint64_t dtb, uint64_t base,
                               struct kda_pe *pe, struct kda_error *err);

/* At most KDA_MAX_SECTIONS headers; those that do not lie inside the image are left out. */
enum kda_status kda_pe_sections(struct kda_kernel *kernel, uint64_t base, const struct kda_pe *pe,
                                struct kda_section *ret, size_t *count, struct kda_error *err);
enum kda_status kda_pe_kernel_id(struct kda_kernel *kernel, uint64_t base, struct kda_kernel_id *id,
                                 struct kda_pe *pe, struct kda_error *err);
/* Address of a named export, KDA_ABSENT if there is none. */
enum kda_status kda_pe_export(struct kda_kernel *kernel, uint64_t base, const struct kda_pe *pe,
                              const char *name, uint64_t *va, struct kda_error *err);

/* Finds root and base: fills info.dtb, dtb_source, la57, base, id, machine. */
enum kda_status kda_find_kernel(struct kda_kernel *kernel, struct kda_error *err);

/* Changes from a process's root to the System process's, once symbols tell where that is. */
void kda_adopt_system_root(struct kda_kernel *kernel);

/* Facts that need symbols: debugger block, build number, processors. Never fails. */
void kda_kernel_facts(struct kda_kernel *kernel);

/* What speaks for and against a process at an address, in all and for each page it stands on: an
 * overwritten page must not lend its bytes to an object that the others prove. */
#define KDA_PROOF_PIECES 3u /* the header may be on a page of its own */
/* Index of the type "Process", looked up once. */
enum kda_status kda_process_type(struct kda_kernel *kernel, uint8_t *index, struct kda_error *err);
struct kda_proof {
    uint64_t first_page;
    unsigned good, bad;
    struct {
        unsigned good, bad;
    } piece[KDA_PROOF_PIECES];
};
/* Fills a process whose address and witnesses are known; gaps for what cannot be read. */
enum kda_status kda_process_read(struct kda_kernel *kernel, struct kda_process *process,
                                 struct kda_error *err);
void kda_process_prove(struct kda_kernel *kernel, uint64_t va, struct kda_proof *proof);
/* More speaks against what stands on the page of `va` than for it. */
/* Could a process or thread have this id? */
bool kda_pid_possible(uint64_t pid);
/* Asks the witnesses of the id once more, of a process whose handle table was found later. */
void kda_process_settle(struct kda_kernel *kernel, struct kda_process *process);
bool kda_proof_doubts(const struct kda_proof *proof, uint64_t va);
/* Nothing contradicts the process, or less than speaks for it. Memory that is missing says nothing.
 */
static inline bool kda_proof_allows(const struct kda_proof *proof)
{
    return proof->bad == 0 || proof->good > proof->bad;
}
/* Enough for an object that only a torn link or another object's pointer names. */
static inline bool kda_proof_convinces(const struct kda_proof *proof)
{
    return proof->good >= 2 && proof->good > proof->bad;
}

/* Addresses of the blocks found so far, by the page tables. */
void kda_pool_map(struct kda_kernel *kernel);
void kda_pool_free(struct kda_kernel *kernel);
/* Gives each process that stands in a pool block, lives and is not known to `found`; false from
 * there ends it. */
enum kda_status kda_pool_processes(struct kda_kernel *kernel,
                                   bool (*found)(void *context, uint64_t va), void *context,
                                   struct kda_error *err);

/* Reads of one qword, for facts that may be missing; false for va 0. */
bool kda_read_u64(struct kda_kernel *kernel, uint64_t va, uint64_t *ret);

/* The debugger block from the places that cost nothing: header, and symbols once they are there. */
void kda_kdbg_facts(struct kda_kernel *kernel);

#endif
