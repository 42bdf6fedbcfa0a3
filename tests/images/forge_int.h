/*
 * forge_int.h - the generator's own state and the calls between its files.
 *
 * Failures are sticky: the first one is kept in the handle, every later call does nothing, and the
 * entry points look once at the end. A generator is a long line of small writes of which none can
 * be undone; testing each would hide the layout that this code is about.
 */
#ifndef KDA_FORGE_INT_H
#define KDA_FORGE_INT_H

#include "forge.h"

#include <string.h>

#include "alloc.h"
#include "bytes.h"

#define PAGE 4096u
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

#define FORGE_MAX_RAM (64 * GIB)
#define FORGE_MAX_ENTITIES 100000u
#define CHUNK_PAGES 512u

enum page_state { PAGE_FILLER, PAGE_USED, PAGE_GONE };

struct chunk {
    uint8_t *bytes[CHUNK_PAGES]; /* NULL = zeros */
    uint8_t state[CHUNK_PAGES];  /* enum page_state */
};

struct ram_range {
    uint64_t first, count; /* pages */
};

enum pool { POOL_NONPAGED, POOL_PAGED, POOL_COUNT };

struct pool_state {
    uint64_t start, next, mapped; /* [start, mapped) is mapped */
};

enum kernel_pages { KERNEL_2M, KERNEL_4K, KERNEL_1G, KERNEL_SPARSE };

/* A handle that was given out; tables are written when all are known. */
struct table_entry {
    uint32_t index;
    uint32_t access;
    uint64_t pointer; /* object header, or body in the CID table */
};

struct handle_builder {
    struct table_entry *entries;
    size_t count, capacity;
};

struct hole {
    const char *what; /* "process:412", "va:0x...", "percent:10", "page-of:session:3" */
    const char *kind;
    unsigned line;
    unsigned run;         /* pages that go together, of a percentage */
    bool paged, nonpaged; /* pools, of a percentage */
};

/* What is done to the pool block of an object. */
struct block_plan {
    const char *object;      /* as poke names it */
    const char *tag, *copy;  /* nullable */
    uint64_t size, previous; /* 0 = as built */
    bool freed, unlink;
    unsigned line;
};

#define FORGE_MAX_BIGS 512u
struct big_block {
    uint64_t va, size;
    char tag[4];
};

struct hostile {
    const char *verb, *what;
    unsigned line;
};

struct poke {
    const char *object, *field, *value;
    unsigned width; /* 0 = the field's */
    unsigned line;
    enum forge_moment in;
};

/* Memory of one process: loader list and ntdll. */
struct user_plan {
    uint64_t pid;
    const char *patches[8]; /* "NtTraceEvent:c3" */
    size_t patch_count;
    const char *lacks; /* an export that is not there */
    bool no_ntdll, no_loader;
    unsigned line;
};

#define IMPORTS_RVA 0x2000u /* of a driver that has any */
#define FORGE_MAX_CODES 16u
#define FORGE_MAX_EXPORTS 32u

/* A function of nt with code of the scenario's choice. */
struct code_plan {
    const char *name, *hex;
    unsigned line;
};

struct export
{
    const char *name;
    uint32_t rva;
};

struct scenario_options {
    const char *version;
    unsigned build_line, size_line, kernel_line;
    uint64_t size, seed, mmio_start, mmio_end;
    bool la57, kdbg_encoded, rvas_invented, users, lowstub, compact, drivers, pcid;
    bool filler_set, filler;
    enum kernel_pages pages;
    uint32_t cpus, max_loggers;
    uint64_t system_time;
    const char *big_tag; /* blocks of this tag get pages of their own and no header; NULL = none */
};

struct forge {
    struct forge_truth truth;
    struct scenario_options opt;
    struct kda_arena arena;
    enum kda_status status;
    struct kda_error err;
    unsigned line;            /* of the record that is being built; 0 = none */
    const char *text;         /* the scenario, while it is built */
    enum forge_moment moment; /* the state that is built */
    struct kda_layout layout;
    uint32_t major, minor, build, ubr;
    uint64_t rng;

    /* memory */
    struct chunk **chunks;
    uint64_t pages; /* one past the highest page number */
    struct ram_range ram[3];
    size_t ram_count;
    uint64_t root; /* physical address of the kernel's top table */
    unsigned levels;
    unsigned self_index;
    struct pool_state pool[POOL_COUNT];
    uint32_t nt_next;       /* next free RVA for things of our own in the nt image */
    uint64_t user_pfn;      /* shared user page */
    uint64_t debugger_list; /* head that the version block names */

    /* objects */
    uint64_t type_va[64]; /* by number; 0 = not there */
    uint32_t cookie;
    struct handle_builder *tables; /* one per process */
    struct handle_builder cid;
    uint64_t fillers[16]; /* bodies of unrelated objects */
    size_t filler_count;
    uint64_t handle_list; /* head used when the symbol is missing */
    uint64_t jobs[16];
    size_t job_count;
    uint64_t cid_va;

    struct export exports[FORGE_MAX_EXPORTS]; /* of nt */
    size_t export_count;
    struct code_plan codes[FORGE_MAX_CODES];
    size_t code_count;
    struct poke *pokes;
    size_t poke_count, poke_cap;
    struct block_plan *blocks;
    size_t block_count, block_cap;
    struct big_block bigs[FORGE_MAX_BIGS]; /* blocks without header */
    size_t big_count;
    struct user_plan *users;
    size_t user_count, user_cap;
    struct hole *hole_plans;
    size_t hole_plan_count, hole_plan_cap;
    /* lies for the headers of the containers; 0 = tell the truth */
    uint64_t lie_runs, lie_pages, lie_bits;
    struct hostile *hostiles;
    size_t hostile_count, hostile_cap;
    size_t module_cap, process_cap, silo_cap, session_cap, consumer_cap, buffer_cap, provider_cap,
        reg_cap, callback_cap, hole_cap, smear_cap, change_cap;
};

/* forge.c */
void forge_fail(struct forge *f, enum kda_status status, const char *fmt, ...) KDA_PRINTF(3, 4);
static inline bool forge_ok(const struct forge *f)
{
    return f->status == KDA_OK;
}
uint64_t forge_random(struct forge *f, uint64_t below);
/* Does something that is `in` a state not exist in the one that is built? */
static inline bool forge_away(const struct forge *f, enum forge_moment in)
{
    return in != FORGE_BOTH && in != f->moment;
}
enum kda_status forge_build_state(const char *scenario, enum forge_moment moment,
                                  struct forge **ret, struct kda_error *err);
bool forge_planned(const struct forge *f, const char *kind, uint64_t id); /* a hole is wanted */
bool forge_planned_text(const struct forge *f, const char *kind, const char *id);

/* scenario.c, directives.c: text to records */
bool scenario_parse(struct forge *f, const char *text);
struct forge_process *forge_process_by_pid(struct forge *f, uint64_t pid);
struct forge_module *forge_module_by_name(struct forge *f, const char *name);

/* memory.c: physical pages and page tables */
bool memory_init(struct forge *f);
void memory_free(struct forge *f);
uint64_t phys_page(struct forge *f); /* page number, 0 = none left */
uint64_t phys_page_near(struct forge *f, uint64_t pfn);
uint64_t phys_block(struct forge *f, uint64_t align, uint64_t count);
uint8_t *phys_bytes(struct forge *f, uint64_t pfn);            /* creates */
const uint8_t *phys_peek(const struct forge *f, uint64_t pfn); /* NULL = zeros */
enum page_state phys_state(const struct forge *f, uint64_t pfn);
bool phys_is_ram(const struct forge *f, uint64_t pfn);
void phys_set_state(struct forge *f, uint64_t pfn, enum page_state state);
void map_page(struct forge *f, uint64_t root, uint64_t va, uint64_t pfn);
void map_large(struct forge *f, uint64_t va, uint64_t pa, unsigned level);
void map_raw(struct forge *f, uint64_t va, unsigned level, uint64_t value);
uint8_t *find_entry(struct forge *f, uint64_t root, uint64_t va, unsigned *level);
bool translate(struct forge *f, uint64_t va, uint64_t *pa);
bool translate_in(struct forge *f, uint64_t root, uint64_t va, uint64_t *pa);

/* write.c: virtual memory by address, by field, pool blocks */
void put_bytes(struct forge *f, uint64_t va, const void *bytes, size_t size);
void put_bytes_in(struct forge *f, uint64_t root, uint64_t va, const void *bytes, size_t size);
bool get_bytes(struct forge *f, uint64_t va, void *bytes, size_t size);
void put8(struct forge *f, uint64_t va, uint8_t v);
void put16(struct forge *f, uint64_t va, uint16_t v);
void put32(struct forge *f, uint64_t va, uint32_t v);
void put64(struct forge *f, uint64_t va, uint64_t v);
uint64_t get64(struct forge *f, uint64_t va);
bool has(const struct forge *f, enum kda_field_id field);
uint64_t at(const struct forge *f, uint64_t object, enum kda_field_id field); /* 0 = absent */
uint32_t size_of(const struct forge *f, enum kda_struct_id id, uint32_t other);
/* `width` is used where the profile row does not know the field's size. Absent: nothing. */
void put(struct forge *f, uint64_t object, enum kda_field_id field, unsigned width, uint64_t v);
void put_field_bytes(struct forge *f, uint64_t object, enum kda_field_id field, const void *bytes,
                     size_t size);
uint64_t symbol(const struct forge *f, enum kda_symbol_id id); /* address, 0 = absent */
uint64_t pool_alloc(struct forge *f, enum pool pool, uint64_t size, const char tag[4], bool alone);
/* UNICODE_STRING at `va` with its buffer in the paged pool; buffer address returned. */
uint64_t put_string(struct forge *f, uint64_t va, const char *text, bool alone);
size_t text_to_utf16(struct forge *f, const char *text, uint8_t **ret);
void list_init(struct forge *f, uint64_t head);
void list_append(struct forge *f, uint64_t head, uint64_t node);

/* kernel.c, nt.c: the nt image, drivers, debugger block, shared page, processors */
void kernel_place(struct forge *f);
void kernel_headers(struct forge *f);
void kernel_finish(struct forge *f);
uint32_t nt_reserve(struct forge *f, uint32_t size);
uint64_t nt_code(struct forge *f); /* address of a function inside nt */
void nt_version(struct forge *f);
void nt_debugger(struct forge *f);
/* exports.c: export directories, and the code behind nt's */
uint32_t exports_build(struct forge *f, uint32_t *size);
size_t export_directory(struct forge *f, struct export *list, size_t count, const char *image,
                        uint32_t rva, uint8_t *bytes, size_t cap);
size_t code_bytes(struct forge *f, const char *hex, uint8_t *bytes, size_t cap);
void modules_build(struct forge *f);
uint64_t module_code(struct forge *f, const struct forge_module *m);

/* objects.c, handles.c */
void types_build(struct forge *f);
uint64_t object_alloc(struct forge *f, const char *type, uint64_t size, const char tag[4],
                      bool alone);
void processes_build(struct forge *f);
void processes_finish(struct forge *f);
/* In a state in which the object is `away` its handle is a free entry. */
uint64_t handle_add(struct forge *f, size_t process, uint64_t body, uint32_t access, bool away);
void handles_finish(struct forge *f);
void cid_add(struct forge *f, uint64_t id, uint64_t body);
uint64_t job_build(struct forge *f);

/* buffers.c: trace buffers; the clocks are there without any */
void buffers_clock(struct forge *f, struct forge_session *s);
void buffers_build(struct forge *f);
void buffers_readable(struct forge *f);

/* callbacks.c, user.c, poke.c */
void callbacks_build(struct forge *f);
void users_build(struct forge *f);
void pokes_apply(struct forge *f);
/* Address and structure of an object as poke names it; fails the build when there is none. */
uint64_t object_named(struct forge *f, const char *object, const char **type);
/* blocks.c */
void blocks_apply(struct forge *f);
uint64_t user_part(const struct forge *f, const char *part, uint64_t pid); /* 0 = none */

/* story.c: the n-th record of a short story, with its payload. */
void story_record(size_t n, struct etl_record *r, struct blob *payload);

/* silos.c, sessions.c, providers.c, security.c */
void silos_build(struct forge *f);
void sessions_build(struct forge *f);
void providers_build(struct forge *f);
uint64_t security_build(struct forge *f, const char *sddl, bool alone);

/* smear.c: the pages of the other state, where it is asked for */
void smear_apply(struct forge *f);

/* holes.c, hostile.c */
void hostile_apply(struct forge *f);
void holes_apply(struct forge *f);
void readable_finish(struct forge *f);
bool range_readable(struct forge *f, uint64_t va, uint64_t size);

/* sinks of the containers */
struct sink {
    int fd;         /* -1: memory */
    uint8_t *bytes; /* memory: whole image */
    uint64_t size;
    struct kda_error *err;
    enum kda_status status;
};
void sink_resize(struct sink *s, uint64_t size);
void sink_put(struct sink *s, uint64_t off, const void *bytes, size_t size);
void sink_page(struct forge *f, struct sink *s, uint64_t off, uint64_t pfn);

/* container_*.c */
void container_raw(struct forge *f, struct sink *s, bool squeeze);
void container_dmp(struct forge *f, struct sink *s, enum forge_format format);
void container_elf(struct forge *f, struct sink *s);
void container_lime(struct forge *f, struct sink *s);
void container_vmss(struct forge *f, struct sink *s);
/* Next stretch of pages that the image holds, at or after `pfn`. */
bool next_run(const struct forge *f, uint64_t pfn, struct ram_range *run);
bool filler_wanted(const struct forge *f);

/* {54849625-5478-4994-a5ba-3e3b0328c30d} in memory order. */
#define SECURITY_AUDITING                                                                          \
    {                                                                                              \
        0x25, 0x96, 0x84, 0x54, 0x78, 0x54, 0x94, 0x49, 0xa5, 0xba, 0x3e, 0x3b, 0x03, 0x28, 0xc3,  \
            0x0d                                                                                   \
    }

/* symbols whose rows share a prefix are frequent enough for a short name */
#define F(type, name) KDA_F_##type##_##name
#define S(name) KDA_SYM_##name
#define ST(name) KDA_STRUCT_##name

#endif
