/*
 * audit.h - private to lib/audit: what they see and how they speak.
 */
#ifndef KDA_AUDIT_AUDIT_H
#define KDA_AUDIT_AUDIT_H

#include "kda/audit.h"
#include "kda/pool.h"

#include "base/alloc.h"
#include "base/map.h"

/* What a check is about, for findings and for "not checked". Names of rows are made up only when
 * something is said about them. */
struct kda_subject {
    const char *object; /* string constant */
    const char *name;   /* kept by the model, the kernel or the audit; nullable */
    uint64_t va;
    const char *silo;
    const char *(*name_row)(struct kda_audit *audit, const void *row, const void *of);
    const void *row, *of;
};

static inline struct kda_subject kda_subject_of(const char *object, const char *name, uint64_t va,
                                                const char *silo)
{
    struct kda_subject subject = {.object = object, .name = name, .va = va, .silo = silo};
    return subject;
}

/* Lists that were walked again. A node has one predecessor and is on one list: all of them share a
 * map, so that memory grows with the nodes of the image and not with lists times nodes. */
struct kda_audited_lists {
    enum kda_status *status; /* of each list */
    size_t count, capacity;
    struct kda_map heads; /* head -> its index */
    struct kda_map nodes; /* link -> index of its list */
};

struct kda_audit {
    struct kda_kernel *kernel;
    const struct kda_etw *etw;
    struct kda_audit_options options;
    struct kda_arena arena;

    struct kda_callbacks *callbacks;
    const struct kda_process *processes;
    size_t process_count;
    enum kda_status processes_status;
    struct kda_map live_pids; /* pid + 1 -> index in processes */
    struct kda_map providers; /* va -> index in the model's */
    struct kda_audited_lists lists;
    struct kda_names *running; /* names of running programs, made when first asked for */
    size_t imports_left;
    size_t gaps_seen; /* of the kernel's, in gap_kinds already */
    const char *gap_kinds[64];
    size_t gap_kind_count;
    bool pointer_clocks; /* how this build stores GetCpuClock */

    struct kda_check_result *results;
    size_t result_count;
    struct kda_check_result *now; /* of the check that runs */

    struct kda_audit_finding **findings;
    size_t finding_count, finding_capacity;
    struct kda_audit_finding *open; /* the last one, takes evidence */
    struct kda_evidence *open_evidence;
    struct kda_unchecked *unchecked;
    size_t unchecked_count, unchecked_capacity;
    size_t dropped;
    bool no_memory;
};

/* Names imported by all drivers together that are looked at; a machine has some ten thousand. */
#define KDA_AUDIT_MAX_IMPORTS 1048576u

/* Names of running programs, for filters that name some. */
struct kda_names;
void kda_names_free(struct kda_names *names); /* NULL is allowed */
/* Does a process run whose file is called this (the first `size` bytes)? *known false: memory ran
 * out. ASCII case is ignored. */
bool kda_audit_runs(struct kda_audit *audit, const char *name, size_t size);

/* Tables of checks, each ending with a row without id; audit.c names them in order. */
extern const struct kda_check kda_checks_session[], kda_checks_consumer[], kda_checks_provider[],
    kda_checks_registration[], kda_checks_callback[], kda_checks_process[], kda_checks_system[],
    kda_checks_code[], kda_checks_pool[];

/* Another object was looked at. */
static inline void kda_audit_examined(struct kda_audit *audit)
{
    audit->now->examined++;
}

/* Texts are copied. Evidence that follows belongs to the last finding. */
void kda_audit_finding(struct kda_audit *audit, enum kda_severity severity,
                       const struct kda_subject *subject, const char *fmt, ...) KDA_PRINTF(4, 5);
void kda_audit_evidence(struct kda_audit *audit, const char *name, uint64_t va, const char *found,
                        const char *expected);
/* The same with a number for what was found, decimal or hex. */
void kda_audit_number(struct kda_audit *audit, const char *name, uint64_t va, uint64_t found,
                      const char *expected);
void kda_audit_hex(struct kda_audit *audit, const char *name, uint64_t va, uint64_t found,
                   const char *expected);
/* The last finding is also about the object at `va` (0 = none): findings about one object that have
 * one cause are joined. */
void kda_audit_about(struct kda_audit *audit, uint64_t va);
/* The same with the place of a session in its silo's logger array (silo NULL: none). */
void kda_audit_about_slot(struct kda_audit *audit, const struct kda_etw_silo *silo, uint32_t slot);
/* Joins the findings that corroborate each other (audit_join.c), once all checks have run; false
 * when memory ran out. */
bool kda_audit_join(struct kda_audit *audit);
/* `subject` NULL: the check as a whole. */
void kda_audit_open(struct kda_audit *audit, const struct kda_subject *subject, const char *fmt,
                    ...) KDA_PRINTF(3, 4);
/* A text that lives as long as the audit; "" when memory ran out (the audit then fails). */
const char *kda_audit_text(struct kda_audit *audit, const char *fmt, ...) KDA_PRINTF(2, 3);

/* "in example.sys", "in no loaded driver". */
const char *kda_audit_place(struct kda_audit *audit, uint64_t va);

/* Where a member of an object stands; 0 when this build lacks it. */
uint64_t kda_audit_member(const struct kda_audit *audit, uint64_t object, enum kda_field_id field);

/* Is the list at `head` whole, so that an object that is not on it was taken off it? Walks it
 * again; answers KDA_OK, KDA_BAD_DATA (damaged), or why it cannot be read. *found says whether
 * `link_va` is on it. */
enum kda_status kda_audit_on_list(struct kda_audit *audit, uint64_t head, size_t max,
                                  uint64_t link_va, bool *found);

struct kda_subject kda_subject_session(const struct kda_etw_session *session);
struct kda_subject kda_subject_process(const struct kda_process *process);
struct kda_subject kda_subject_consumer(const struct kda_etw_consumer *consumer);
struct kda_subject kda_subject_provider(const struct kda_etw_provider *provider);
struct kda_subject kda_subject_registration(const struct kda_etw_provider *provider,
                                            const struct kda_etw_registration *reg);

typedef void (*kda_provider_fn)(struct kda_audit *audit, const struct kda_etw_provider *provider,
                                const struct kda_subject *subject);
/* Runs `fn` for each entry that is readable; the others are left open. */
void kda_audit_each_provider(struct kda_audit *audit, kda_provider_fn fn);
/* Are all eight slots and the combined view readable? If not, the subject is left open. */
bool kda_audit_slots_readable(struct kda_audit *audit, const struct kda_etw_provider *provider,
                              const struct kda_subject *subject);
void kda_check_filtered(struct kda_audit *audit);

/* The entry at `va`, or NULL. */
const struct kda_etw_provider *kda_audit_provider_at(const struct kda_audit *audit, uint64_t va);
/* Rights to stop, change or take over a session or provider. Source: evntrace.h, "WMIGUID" rights
 * (TRACELOG_CREATE_REALTIME 0x20, CREATE_ONDISK 0x40, GUID_ENABLE 0x80, ACCESS_KERNEL_LOGGER 0x100)
 * and the standard and generic rights that include them. */
#define KDA_CONTROL_RIGHTS (0x20u | 0x40u | 0x80u | 0x100u | 0x40000u | 0x80000u | 0x50000000u)
/* Does the access list give one of `rights` to everybody, by whatever name? `who` receives it. */
bool kda_audit_sddl_grants(const char *sddl, uint32_t rights, char *who, size_t cap);

/* The process a pid names and that still runs; NULL = none. */
const struct kda_process *kda_audit_live_pid(const struct kda_audit *audit, uint64_t pid);

/* Leaves the check open when the image has gaps of these kinds (NULL-terminated): objects may be
 * missing that no row shows. */
void kda_audit_open_gaps(struct kda_audit *audit, const char *objects, const char *const *kinds);
/* Is there a gap of this kind ("modules")? */
bool kda_audit_has_gap(struct kda_audit *audit, const char *what);
/* A driver whose sensors are kernel callbacks, by its file name. */
bool kda_audit_is_security_driver(const char *name);
/* Is a process that the active list should name really not on it? KDA_OK: the list is whole and
 * does not hold it. KDA_ABSENT: it is on the list. Else why the list cannot be read. */
enum kda_status kda_audit_process_unlinked(struct kda_audit *audit,
                                           const struct kda_process *process);
/* Was every process of the image read? */
bool kda_audit_processes_whole(struct kda_audit *audit);
/* And every driver? */
bool kda_audit_modules_whole(struct kda_audit *audit);
/* True, after "not checked" was recorded, when there is no model to look at. */
bool kda_audit_no_model(struct kda_audit *audit);

#endif
