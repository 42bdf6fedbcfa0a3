/*
 * fit_int.h - private to the fitting of layouts (fit*.c): hypotheses, votes, what was found.
 *
 * Hypotheses are the rows of the table of known layouts. A check looks at one object and says for
 * each place that any row gives a field: yes, no, or cannot tell. These votes eliminate rows.
 */
#ifndef KDA_FIT_FIT_INT_H
#define KDA_FIT_FIT_INT_H

#include "kda/etw.h"
#include "kda/fit.h"

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/map.h"

#define FIT_MAX_ROWS 64u    /* one bit each; the table has 41 */
#define FIT_MAX_PLACES 24u  /* distinct offsets of one field over all rows; 20 occur */
#define FIT_MAX_PAGES 8192u /* of the kernel image held at once */
#define FIT_MAX_PROCESSES 4096u
#define FIT_MAX_LOGGERS 1024u
#define FIT_MAX_ENTRIES 4096u
#define FIT_MAX_REGS 16384u
#define FIT_MAX_STATES 64u /* candidates an anchor may offer */

#define FIT_NO_BUCKET UINT32_MAX
#define FIT_OBJECT_HEADER 0x30u /* before an object, in all surveyed builds */

#define F(type, name) KDA_F_##type##_##name

enum fit_answer { FIT_NO = -1, FIT_UNKNOWN = 0, FIT_YES = 1 };

struct fit_place {
    uint32_t offset;
    uint32_t yes, no;
};

struct fit_votes {
    struct fit_place place[FIT_MAX_PLACES];
    size_t count;
};

struct fit_row {
    struct kda_layout layout; /* without addresses */
    char version[24];         /* first build that has it */
    bool full;                /* from symbols: a field that is not there is absent in the build */
    bool
        lent[KDA_FIELD_COUNT]; /* its place is another row's: no evidence for or against this one */
};

struct fit_rows {
    struct fit_row *items;
    size_t count;
};

/* Parts of the layout that are tested on their own. */
enum fit_group {
    FIT_SILO,
    FIT_LOGGER,      /* the front of the logger context */
    FIT_LOGGER_TAIL, /* what servicing moved */
    FIT_CONSUMER,
    FIT_GUID,
    FIT_REG,
    FIT_PROCESS,
    FIT_JOB,
    FIT_HANDLE,
    FIT_OBJECT,
    FIT_MODULE,
    FIT_OTHER,
    FIT_GROUPS
};

/* Data pages of the kernel image. */
struct fit_data {
    uint8_t *bytes; /* pages one after the other */
    uint32_t *rva;  /* of each page */
    size_t pages;
};

#define FIT_NAME_SIZE 15u /* _EPROCESS.ImageFileName */

/* How a row describes a process: what finding the first one needs. */
struct fit_start {
    uint32_t pid_at, links_at, name_at, table_at; /* EPROCESS */
    uint32_t root_at;                             /* KPROCESS */
    uint32_t owner_at;                            /* HANDLE_TABLE */
};

struct fit_process {
    uint64_t va, table;
    uint64_t pid;
};

struct fit_logger {
    uint64_t va;
    uint32_t slot;
};

struct fit_entry {
    uint64_t va;
    uint32_t bucket;
};

/* Objects whose start is known from elsewhere (handles), against the nodes that walks met. Rows
 * have the links of these at their start, and a build that moved one would look the same a constant
 * off. */
enum fit_kind { FIT_KIND_REGISTRATION, FIT_KIND_CONSUMER, FIT_KINDS };

struct fit_met {
    struct kda_map bodies;     /* address -> 1, 2 once it was met */
    unsigned known, met, seen; /* bodies, those met, nodes */
};

/* Shape of a silo state: what the walk to loggers and providers needs. */
struct fit_form {
    uint32_t silo, globals, max_loggers, array, inline_array, table, security;
    uint32_t silo_member; /* EtwSiloState in the globals */
    uint32_t ambiguous;   /* 1: several forms fit equally, none of them is proven */
};

struct kda_fit {
    struct kda_kernel *kernel;
    struct kda_fit_options options;
    struct kda_fit_info info;
    struct kda_layout layout;
    uint8_t state[KDA_FIELD_COUNT];
    bool has_cookie;
    uint8_t cookie;
    char origin[160];

    /* work */
    uint64_t base, end; /* the kernel image */
    uint64_t max_pa;
    struct fit_rows rows;
    struct fit_votes votes[KDA_FIELD_COUNT];
    struct fit_data data;
    bool out_of_memory;

    uint64_t system; /* EPROCESS of System */
    uint64_t process_head, table_head, job_head, module_head, cid_global, type_table;
    uint64_t head_met; /* in nt, but missing: a head once a walk from the other side meets it */
    struct fit_process *processes;
    size_t process_count, process_capacity;
    struct kda_map process_by_va;
    struct fit_start starts[FIT_MAX_ROWS], start; /* the hypotheses; the one with witnesses */
    size_t start_count;
    struct kda_module *modules; /* ranges only */
    size_t module_count, module_capacity;
    uint32_t types;   /* object types in the table */
    bool types_known; /* it is settled how headers store their type */
    struct fit_met met[FIT_KINDS];
    struct kda_map named, voices; /* state -> objects that name it; where -> which object */
    bool asked;
    bool left_out[FIT_GROUPS]; /* the start of these structures is contradicted */

    struct fit_form form; /* of the accepted state */
    uint64_t globals;     /* PspHostSiloGlobals, 0 = unknown */
    uint64_t debugger_data;
    uint64_t self_named[FIT_MAX_STATES]; /* candidates met by the pointer survey */
    size_t self_named_count;
    uint64_t reg_handle[2]; /* addresses of the globals with the two known handles */
    uint64_t
        array_hint; /* logger array by EtwpDebuggerData, for a state whose own page is missing */
    uint32_t slots; /* of the logger array */
    struct fit_logger *loggers;
    size_t logger_count, logger_capacity;
    struct fit_entry *entries;
    size_t entry_count, entry_capacity;
};

/* ---- fit_rows.c ---- */
bool kda_fit_rows(struct kda_fit *fit); /* false: out of memory */
bool kda_fit_same_family(const struct fit_row *a, const struct fit_row *b);
/* Completes a row of a published header from the rows from symbols, where nothing that it knows
 * itself contradicts. */
void kda_fit_lend(struct fit_rows *rows, size_t row);
enum fit_group kda_fit_group(enum kda_field_id field);
bool kda_fit_specific(enum kda_field_id field);
bool kda_fit_strong(enum kda_field_id field);
static inline void kda_fit_vote(struct fit_place *place, enum fit_answer answer)
{
    place->yes += answer == FIT_YES;
    place->no += answer == FIT_NO;
}
/* The place of a field that the votes single out, or KDA_NONE. */
uint32_t kda_fit_best(const struct kda_fit *fit, enum kda_field_id field);
/* The place of `field` in the rows that have `key` where the votes put it and that its own votes
 * do not contradict; KDA_NONE if they differ. */
uint32_t kda_fit_beside(const struct kda_fit *fit, enum kda_field_id key, enum kda_field_id field);
static inline bool kda_fit_holds(const struct fit_place *place)
{
    return place->yes > 0 && place->no * 8 <= place->yes;
}
/* One damaged object contradicts nothing. */
static inline bool kda_fit_broken(const struct fit_place *place)
{
    return place->no > 1 && place->no * 8 > place->yes;
}

/* ---- fit_check.c: reads that never record gaps, and checks of one value ---- */
enum fit_answer kda_fit_read(const struct kda_fit *fit, uint64_t va, void *buf, size_t size);
enum fit_answer kda_fit_u64(const struct kda_fit *fit, uint64_t va, uint64_t *ret);
enum fit_answer kda_fit_u32(const struct kda_fit *fit, uint64_t va, uint32_t *ret);
bool kda_fit_in_nt(const struct kda_fit *fit, uint64_t va);
/* Kernel address outside the kernel image, aligned to 8. */
bool kda_fit_is_pool(const struct kda_fit *fit, uint64_t va);
/* Both neighbours of a list link name it. */
enum fit_answer kda_fit_ring(const struct kda_fit *fit, uint64_t link);
enum fit_answer kda_fit_string(const struct kda_fit *fit, uint64_t va, bool may_be_empty);
enum fit_answer kda_fit_security(const struct kda_fit *fit, uint64_t va);
enum fit_answer kda_fit_time(uint64_t time, bool may_be_zero);
typedef void (*fit_link_fn)(struct kda_fit *fit, void *context, uint64_t link);
/* A walk met `link` inside the kernel image: its head, or 0 if that rests on this one link. */
uint64_t kda_fit_met_head(struct kda_fit *fit, uint64_t link);
/* Calls fn for every node of the ring at `head` but not for the head; from both ends when it is
 * broken. True if it closed. */
bool kda_fit_walk(struct kda_fit *fit, uint64_t head, size_t max, fit_link_fn fn, void *context);

/* ---- fit_nt.c ---- */
bool kda_fit_load_data(struct kda_fit *fit);
/* Address of the next aligned qword equal to `value` after `from` (0 = start), or 0. */
uint64_t kda_fit_find_qword(const struct kda_fit *fit, uint64_t value, uint64_t from);
/* Up to `max` addresses of EtwpDebuggerData by its bytes. */
size_t kda_fit_find_pattern(const struct kda_fit *fit, uint64_t *ret, size_t max);
/* Looks at what every pointer in the kernel's data leads to. */
void kda_fit_survey(struct kda_fit *fit);
uint64_t kda_fit_export_pointer(const struct kda_fit *fit, const char *name, uint64_t *global);

/* ---- fit_code.c ---- */
/* Targets of RIP-relative LEA and MOV instructions that load 64 bits, in `size` bytes of code at
 * `va`; stops at what it cannot decode. */
size_t kda_fit_code_targets(const uint8_t *code, size_t size, uint64_t va, uint64_t *ret,
                            size_t max);

/* ---- fit_start.c ---- */
bool kda_fit_plausible_pid(uint64_t pid);
bool kda_fit_plausible_name(const uint8_t name[FIT_NAME_SIZE]);
/* Do these page tables map the kernel where it is? */
enum fit_answer kda_fit_check_root(const struct kda_fit *fit, uint64_t root);
/* Finds the list of processes and how far a process begins before its link; fills fit->start. */
bool kda_fit_find_start(struct kda_fit *fit);
/* The file and the debugger block name the head of the list where the walk did not. */
void kda_fit_name_head(struct kda_fit *fit);

/* ---- fit_process.c, fit_handle.c, fit_type.c ---- */
/* Adds what is on the ring at `link`; true if it closed. */
bool kda_fit_walk_processes(struct kda_fit *fit, uint64_t link);
void kda_fit_forget_processes(struct kda_fit *fit);
bool kda_fit_processes(struct kda_fit *fit);
/* Once all processes are known that any witness names. */
void kda_fit_vote_processes(struct kda_fit *fit);
bool kda_fit_is_process(const struct kda_fit *fit, uint64_t va);
bool kda_fit_named_process(const struct kda_fit *fit, uint64_t va);
void kda_fit_add_process(struct kda_fit *fit, uint64_t va);
void kda_fit_objects(struct kda_fit *fit);
/* Address of the object type of that name, or 0. */
uint64_t kda_fit_named_type(struct kda_fit *fit, const char *name);
/* A walk met a node of this kind that would begin at `va`. */
void kda_fit_meet(struct kda_fit *fit, enum fit_kind kind, uint64_t va);
/* Do the nodes met begin elsewhere than the objects known? */
bool kda_fit_astray(const struct kda_fit *fit, enum fit_kind kind);
/* Has the object at `body` the type of that name, by its header? */
enum fit_answer kda_fit_has_type(struct kda_fit *fit, uint64_t body, const char *name);
/* Does this export lead to the type of that name? */
bool kda_fit_exported_type(struct kda_fit *fit, const char *symbol, const char *name);
typedef void (*fit_handle_fn)(struct kda_fit *fit, void *context, uint64_t header, uint64_t body);
void kda_fit_handles(struct kda_fit *fit, uint64_t table, bool cid, fit_handle_fn fn,
                     void *context);
/* Is it a handle table of process ids? */
bool kda_fit_is_cid(struct kda_fit *fit, uint64_t table);
/* The first objects of such a table, whose TableCode stands at `code_va`. */
size_t kda_fit_first_ids(struct kda_fit *fit, uint64_t code_va, uint64_t *ret, size_t max);
/* Adds the processes that only the table of ids names. */
void kda_fit_add_ids(struct kda_fit *fit);
void kda_fit_modules(struct kda_fit *fit);
const struct kda_module *kda_fit_module_at(const struct kda_fit *fit, uint64_t va);
void kda_fit_jobs(struct kda_fit *fit);

/* ---- fit_state.c, fit_anchor.c ---- */
/* Is `state` the ETW state of the host? Fills *form with the shape that fits. */
bool kda_fit_check_state(struct kda_fit *fit, uint64_t state, struct fit_form *form);
/* The state that the loggers of an array name: one value at one place in most of them; or 0. */
uint64_t kda_fit_state_of_array(const struct kda_fit *fit, uint64_t array);
bool kda_fit_find_state(struct kda_fit *fit);
void kda_fit_vote_state(struct kda_fit *fit);
size_t kda_fit_forms(const struct kda_fit *fit, struct fit_form *ret, size_t max);
/* States named by pool blocks, best first. */
size_t kda_fit_pool_states(struct kda_fit *fit, uint64_t *ret, size_t max);

/* ---- fit_witness.c ---- */
/* The keys with the highest values, highest first. */
size_t kda_fit_ranked(const struct kda_map *votes, uint64_t *ret, size_t max);
/* States that objects behind handles name, and how many of them. */
const struct kda_map *kda_fit_named_states(struct kda_fit *fit);
unsigned kda_fit_namers(struct kda_fit *fit, uint64_t state);
/* Votes for the place of the hash table, and gives the entries known their buckets, where links of
 * entries lead to heads. */
void kda_fit_place_table(struct kda_fit *fit);

/* ---- fit_session.c, fit_provider.c ---- */
enum fit_answer kda_fit_check_guid(const struct kda_fit *fit, uint64_t at, uint32_t bucket);
void kda_fit_sessions(struct kda_fit *fit);
void kda_fit_providers(struct kda_fit *fit);

/* ---- fit_decide.c ---- */
void kda_fit_decide(struct kda_fit *fit);

#endif
