/*
 * kda/kernel.h - the Windows kernel inside an image: address spaces, identity, processes,
 * drivers, handle tables.
 *
 * Ownership: kda_kernel_open borrows the image (close it after the kernel). Everything a getter
 * returns lives as long as the kernel handle. Threads: one thread per handle at a time.
 */
#ifndef KDA_KERNEL_H
#define KDA_KERNEL_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/gap.h"
#include "kda/image.h"
#include "kda/symbols.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KDA_MAX_PROCESSES 65536u
#define KDA_MAX_MODULES 4096u

struct kda_kernel;

struct kda_kernel_options {
    uint64_t dtb; /* 0 = find it */
    struct kda_symbols_options symbols;
    kda_progress_fn progress; /* nullable; called in long scans; false cancels */
    void *context;
    bool carve; /* scan physical memory for objects that no list names (kda/pool.h) */
};

/* How the page-table root was found. */
enum kda_dtb_source {
    KDA_DTB_OPTION,
    KDA_DTB_HEADER,
    KDA_DTB_CPU,
    KDA_DTB_LOW_STUB,
    KDA_DTB_SCAN,
    KDA_DTB_SYSTEM, /* a CPU's or a scan's root led to the System process, whose root is used */
};

/* How the debugger data block was found, and what it took to read it. */
enum kda_kdbg_source {
    KDA_KDBG_NOT_FOUND,
    KDA_KDBG_HEADER,  /* address in the dump header */
    KDA_KDBG_SYMBOL,  /* KdDebuggerDataBlock, or the list that KdpDebuggerDataListHead starts */
    KDA_KDBG_VERSION, /* DebuggerDataList of KdVersionBlock, by symbol or through a processor */
    KDA_KDBG_LIST,    /* its one-element list, found in the kernel's data */
    KDA_KDBG_CONTENT, /* the only place in the kernel's data that reads as one */
};
enum kda_kdbg_form { KDA_KDBG_UNKNOWN, KDA_KDBG_PLAIN, KDA_KDBG_KEYS, KDA_KDBG_KEYLESS };

struct kda_kernel_info {
    uint64_t dtb; /* page-table root used, low 12 bits clear */
    enum kda_dtb_source dtb_source;
    bool la57;     /* five-level paging */
    uint64_t base; /* kernel image */
    struct kda_kernel_id id;
    uint32_t build;    /* 0 = unknown; from the header, the version block or NtBuildNumber */
    uint64_t build_va; /* where it was read from; 0 = file header */
    uint32_t machine;  /* PE machine */
    uint32_t cpus;     /* 0 = unknown */
    uint64_t system_time_100ns; /* capture time, UTC; 0 = unknown */
    bool system_time_from_header;
    uint64_t kdbg_va;   /* debugger data block, verified; 0 = not found (so far) */
    uint32_t kdbg_size; /* bytes, as the block says */
    enum kda_kdbg_source kdbg_source;
    enum kda_kdbg_form kdbg_form; /* plain, or how it was decoded */
};

/* Finds and verifies the kernel in `image`, without symbols. Errors: KDA_ABSENT (no kernel found:
 * the text lists what was tried and why each candidate failed), KDA_UNSUPPORTED (triage dump, or
 * not x64), KDA_IO, KDA_NO_MEMORY, KDA_CANCELLED. */
KDA_MUST_CHECK enum kda_status kda_kernel_open(struct kda_image *image,
                                               const struct kda_kernel_options *options,
                                               struct kda_kernel **ret, struct kda_error *err);
void kda_kernel_close(struct kda_kernel *kernel); /* NULL is allowed */

const struct kda_kernel_info *kda_kernel_info(const struct kda_kernel *kernel);
/* Gaps met so far by everything that used this kernel. */
struct kda_gaps *kda_kernel_gaps(struct kda_kernel *kernel);

/* Finds symbols for the kernel's identity and keeps them. KDA_NO_SYMBOL as kda_symbols_find.
 * Until it succeeded, everything below except raw reads answers KDA_NO_SYMBOL. */
KDA_MUST_CHECK enum kda_status kda_kernel_load_symbols(struct kda_kernel *kernel,
                                                       struct kda_error *err);
/* Installs a layout that was worked out from the image itself (kda/fit.h); `symbols` becomes the
 * kernel's own, also on failure. `cookie` (nullable) is the byte that object headers' type indexes
 * are mixed with, where it is known without its global. KDA_USAGE when symbols are loaded already.
 */
KDA_MUST_CHECK enum kda_status kda_kernel_use_layout(struct kda_kernel *kernel,
                                                     struct kda_symbols *symbols,
                                                     const uint8_t *cookie, struct kda_error *err);
const struct kda_symbols *kda_kernel_symbols(const struct kda_kernel *kernel); /* NULL = none */
const struct kda_layout *kda_kernel_layout(const struct kda_kernel *kernel);   /* NULL = none */

/* ---- the kernel's own PE image; none of this needs symbols ---- */

#define KDA_MAX_SECTIONS 96u

struct kda_section {
    char name[9];
    uint32_t rva, size; /* bytes in memory; inside the image */
    bool writable, executable, discardable;
};

/* Section headers of the kernel image, those that lie inside it, into room for KDA_MAX_SECTIONS.
 * Source: PE/COFF specification. KDA_BAD_DATA, or why the header page cannot be read. */
KDA_MUST_CHECK enum kda_status kda_kernel_sections(struct kda_kernel *kernel,
                                                   struct kda_section *sections, size_t *count,
                                                   struct kda_error *err);
/* Address of a named export; KDA_ABSENT if there is none. */
KDA_MUST_CHECK enum kda_status kda_kernel_export(struct kda_kernel *kernel, const char *name,
                                                 uint64_t *va, struct kda_error *err);
/* What the file says, for callers that have only the kernel. */
struct kda_image *kda_kernel_image(const struct kda_kernel *kernel);

/* ---- reads ---- */

/* Reads kernel virtual memory; all or nothing (after a failure the content of buf means nothing).
 * KDA_ABSENT, KDA_PAGED_OUT, KDA_UNMAPPED; KDA_LIMIT once the work allowed for this image is used
 * up (kda_kernel_exhausted); err (nullable) gets the address of the page that could not be read. */
KDA_MUST_CHECK enum kda_status kda_read(struct kda_kernel *kernel, uint64_t va, void *buf,
                                        size_t size, struct kda_error *err);
/* Same in the address space of another page-table root (a process). */
KDA_MUST_CHECK enum kda_status kda_read_in(struct kda_kernel *kernel, uint64_t dtb, uint64_t va,
                                           void *buf, size_t size, struct kda_error *err);
/* Translates; *pa receives the physical address. */
KDA_MUST_CHECK enum kda_status kda_translate(struct kda_kernel *kernel, uint64_t dtb, uint64_t va,
                                             uint64_t *pa, struct kda_error *err);

/* Is the field known in this layout? */
bool kda_has_field(const struct kda_kernel *kernel, enum kda_field_id field);
bool kda_has_symbol(const struct kda_kernel *kernel, enum kda_symbol_id symbol);
/* Address of a global, or 0. */
uint64_t kda_symbol_va(const struct kda_kernel *kernel, enum kda_symbol_id symbol);
/* Offset of a field, or KDA_NONE. */
uint32_t kda_field_offset(const struct kda_kernel *kernel, enum kda_field_id field);

/* An integer field (1..8 bytes, bit fields included) of the object at `object`, zero-extended.
 * KDA_NO_SYMBOL if the layout lacks it or does not know its size. */
KDA_MUST_CHECK enum kda_status kda_read_field(struct kda_kernel *kernel, uint64_t object,
                                              enum kda_field_id field, uint64_t *ret,
                                              struct kda_error *err);
/* A UNICODE_STRING field as UTF-8 in the kernel's storage; "" for an empty one. KDA_BAD_DATA for a
 * length that is odd, over its maximum or over max_bytes. `max_bytes` 0 = 65,534. */
KDA_MUST_CHECK enum kda_status kda_read_string(struct kda_kernel *kernel, uint64_t string_va,
                                               size_t max_bytes, const char **ret,
                                               struct kda_error *err);

/* Canonical address in the kernel half, for sanity checks on pointers. */
bool kda_is_kernel_va(const struct kda_kernel *kernel, uint64_t va);

/* ---- debugger data block ---- */

/* Finds the debugger data block (_KDDEBUGGER_DATA64), plain or encoded, and fills the kdbg_ part of
 * the info. Needs no symbols; uses them when they are loaded. The places that cost nothing are
 * tried by kda_kernel_open and kda_kernel_load_symbols; this also searches the kernel's data, once.
 * KDA_ABSENT: no such block (text says what was tried).
 * Source: docs/kernel.md (layout, encoding, and the proof of the decoding without keys). */
KDA_MUST_CHECK enum kda_status kda_kernel_find_kdbg(struct kda_kernel *kernel,
                                                    struct kda_error *err);
/* The decoded qword at `offset` (a multiple of 8) of the block, finding it first if need be. Never
 * reads past the size that the block states: KDA_NO_SYMBOL for a field that this build lacks. A gap
 * status when that part of the block is not in the image; KDA_ABSENT as above; KDA_USAGE. */
KDA_MUST_CHECK enum kda_status kda_kernel_kdbg_field(struct kda_kernel *kernel, uint32_t offset,
                                                     uint64_t *ret, struct kda_error *err);

/* ---- lists ---- */

/* Why a list walk ended. */
enum kda_list_end {
    KDA_LIST_CLOSED,   /* came back to the head */
    KDA_LIST_BROKEN,   /* a link could not be read or is no kernel address */
    KDA_LIST_CYCLE,    /* came back to a node that is not the head */
    KDA_LIST_MISMATCH, /* a node's Blink does not name its predecessor */
    KDA_LIST_REFUSED,  /* the callback found no object of this list at a link */
    KDA_LIST_LIMIT,
    KDA_LIST_STOPPED, /* the callback said so */
};

struct kda_list_result {
    enum kda_list_end forward, backward; /* backward is KDA_LIST_CLOSED if not needed */
    size_t nodes;                        /* distinct nodes that the callback took */
    uint64_t broken_va[2];               /* link that failed, forward and backward; 0 = none */
    enum kda_status reason[2];
};

/* What the walker knows of a node. */
enum kda_link {
    KDA_LINK_SOUND,   /* read, and names the node that led to it */
    KDA_LINK_BEHIND,  /* the same, but the way to it leads over a torn one */
    KDA_LINK_TORN,    /* read, and names another: moved meanwhile, or no node of this list */
    KDA_LINK_MISSING, /* only its neighbours' links name it: its memory is missing */
};

/* What the callback makes of a node. A sound link is no proof: two words that name each other
 * stand in many places. The callback looks at the object itself. */
enum kda_step {
    KDA_STEP_TAKE,   /* it is one: go on behind it */
    KDA_STEP_REFUSE, /* it is none; the callback records the gap. A torn one ends the way */
    KDA_STEP_STOP,   /* the whole walk ends */
};

/* Called once per node with the address of its LIST_ENTRY, missing nodes last; one that was refused
 * as torn comes again if the walk from the other end finds its link sound. A missing
 * node is given out unless the walk from the other end leads past its place; an address that
 * nothing maps is a wild pointer, not a node. */
typedef enum kda_step (*kda_list_fn)(void *context, uint64_t link_va, enum kda_link how);

/* Walks the doubly linked list at `head` forward; if that does not close, or meets a torn node,
 * walks it backward as well. At most `max` nodes. Records a gap named `what` (NULL: none, the list
 * was walked before) for a list that does not close. Returns KDA_OK unless the head itself cannot
 * be read, or memory ran out (KDA_NO_MEMORY). */
KDA_MUST_CHECK enum kda_status kda_list_walk(struct kda_kernel *kernel, uint64_t head, size_t max,
                                             const char *what, kda_list_fn fn, void *context,
                                             struct kda_list_result *result, struct kda_error *err);
/* The same from a node that another witness named, in both directions, until the head, a broken
 * link or a node that the callback does not take. The node itself is not given out; `head` 0 when
 * it is not known. No gaps: the walk from the head has told them. */
KDA_MUST_CHECK enum kda_status kda_list_around(struct kda_kernel *kernel, uint64_t link_va,
                                               uint64_t head, size_t max, kda_list_fn fn,
                                               void *context, struct kda_error *err);

/* ---- drivers ---- */

struct kda_module {
    const char *name; /* base name, UTF-8; never NULL */
    const char *path; /* full name, or NULL */
    uint64_t va;      /* loader entry */
    uint64_t base;
    uint32_t size; /* bytes */
    uint32_t timestamp;
};

/* Loaded drivers, sorted by base. Read once, on first use. */
KDA_MUST_CHECK enum kda_status kda_modules(struct kda_kernel *kernel, const struct kda_module **ret,
                                           size_t *count, struct kda_error *err);
/* The driver that holds `va`, or NULL. */
const struct kda_module *kda_module_at(struct kda_kernel *kernel, uint64_t va);

/* ---- processes ---- */

/* Ways a process was found; bits. */
enum {
    KDA_FOUND_LIST = 1,
    KDA_FOUND_HANDLE_TABLE = 2,
    KDA_FOUND_CID = 4,
    KDA_FOUND_BACK_POINTER = 8, /* a consumer, registration, handle, job or process names it */
    KDA_FOUND_POOL = 16,        /* nothing but a pool block (option carve) */
};

struct kda_process {
    uint64_t va; /* EPROCESS */
    unsigned found_by;
    bool readable; /* false: only va and what the witnesses say is known */
    bool has_pid, has_ppid, has_protection;
    uint64_t pid, ppid;
    const char *name;  /* ImageFileName (at most 14 characters), "" = unknown */
    const char *image; /* NT path of the image, NULL = unknown */
    uint64_t dtb;      /* low 12 bits clear, 0 = unknown */
    uint64_t create_time_100ns, exit_time_100ns; /* 0 = unknown / running */
    uint8_t protection;                          /* PS_PROTECTION.Level */
    uint64_t handle_table;                       /* 0 = none or unknown */
    uint64_t cid_va;                             /* entry in the CID table, 0 = none */
    uint64_t cid;                                /* the id of that entry */

    uint64_t job;         /* EJOB, 0 = none */
    uint64_t server_silo; /* EJOB of the server silo, 0 = host or unknown */
    bool has_silo;        /* job and server_silo were read (or do not exist in this build) */
};

/* All processes that any witness names: the active list, the handle-table list, the CID table; with
 * the option `carve` also those that only a pool block shows.
 * Sorted by pid. Read once, on first use. */
KDA_MUST_CHECK enum kda_status kda_processes(struct kda_kernel *kernel,
                                             const struct kda_process **ret, size_t *count,
                                             struct kda_error *err);
/* Adds the processes at `vas` that no witness named but other objects point at; addresses that are
 * known or where no process stands are passed over. *added: how many were
 * new. Pointers to processes that were handed out before are no longer good. */
KDA_MUST_CHECK enum kda_status kda_processes_add(struct kda_kernel *kernel, const uint64_t *vas,
                                                 size_t count, size_t *added,
                                                 struct kda_error *err);
/* Does a process stand at `va`, by its object header, links and handle table? KDA_OK, KDA_BAD_DATA,
 * or KDA_ABSENT when nothing of it can be read. */
KDA_MUST_CHECK enum kda_status kda_process_check(struct kda_kernel *kernel, uint64_t va);
/* By EPROCESS address, or NULL. */
const struct kda_process *kda_process_at(struct kda_kernel *kernel, uint64_t va);

/* The module named `name` ("ntdll.dll", case ignored) in the memory of a process, as its own list
 * tells, which the process itself can change. KDA_ABSENT (no such module, or no user memory), a gap
 * status, KDA_BAD_DATA, KDA_NO_SYMBOL (page tables or PEB not known). */
KDA_MUST_CHECK enum kda_status kda_process_module(struct kda_kernel *kernel,
                                                  const struct kda_process *process,
                                                  const char *name, uint64_t *base, uint32_t *size,
                                                  struct kda_error *err);
/* Address of a named export of the module at `base` in that memory. Errors as above. */
KDA_MUST_CHECK enum kda_status kda_process_export(struct kda_kernel *kernel,
                                                  const struct kda_process *process, uint64_t base,
                                                  const char *name, uint64_t *va,
                                                  struct kda_error *err);

/* ---- handles ---- */

struct kda_handle {
    uint64_t value;     /* handle value, a multiple of 4 */
    uint64_t object;    /* body address */
    uint64_t header;    /* OBJECT_HEADER address (0 in the CID table) */
    uint32_t access;    /* granted access */
    uint8_t attributes; /* OBJ_* bits kept in the entry */
    uint64_t entry_va;  /* where the entry stands */
};

typedef bool (*kda_handle_fn)(void *context, const struct kda_handle *handle);

/* Walks every used entry of a handle table (all levels). Missing pages become gaps. `cid` true for
 * PspCidTable, whose entries point at object bodies. Returns KDA_OK unless the table itself cannot
 * be read. */
KDA_MUST_CHECK enum kda_status kda_handles_walk(struct kda_kernel *kernel, uint64_t table_va,
                                                bool cid, kda_handle_fn fn, void *context,
                                                struct kda_error *err);

/* Type index of the living object whose header is at `header_va`, cookie removed where the build
 * uses one. KDA_BAD_DATA: its counts are those of no object. */
KDA_MUST_CHECK enum kda_status kda_object_type(struct kda_kernel *kernel, uint64_t header_va,
                                               uint8_t *type_index, struct kda_error *err);
/* Index of the object type named `name` ("EtwConsumer"); KDA_ABSENT when there is none. */
KDA_MUST_CHECK enum kda_status kda_object_type_index(struct kda_kernel *kernel, const char *name,
                                                     uint8_t *type_index, struct kda_error *err);

/* True when structures of the image led to so much reading that it was stopped: every read answers
 * KDA_LIMIT from then on. The allowance grows with the image and is far above what a real machine
 * of its size can need. */
bool kda_kernel_exhausted(const struct kda_kernel *kernel);

/* Pages of the image that were read through this kernel (distinct), for `make bench`. */
uint64_t kda_kernel_pages_touched(const struct kda_kernel *kernel);

#ifdef __cplusplus
}
#endif

#endif
