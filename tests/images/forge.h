/*
 * forge.h - scenario text to Windows memory image, for the tests of this project.
 *
 * forge_build lays out a kernel with processes, handle tables, drivers and the whole ETW state in a
 * small physical memory of its own, with the structure offsets of one real build from the built-in
 * profile table. forge_write puts that memory into a file of any supported format. Everything that
 * was built, and where, can be read back from forge_truth.
 *
 * The scenario language is documented in docs/forge.md. Same scenario, same bytes.
 * Ownership: the handle owns everything it gives out. Threads: one thread per handle.
 */
#ifndef KDA_FORGE_H
#define KDA_FORGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "kda/error.h"
#include "kda/symbols.h"

#include "etl_writer.h"

#define FORGE_ENABLE_SLOTS 8u
#define FORGE_MAX_FILTER_PIDS 8u
#define FORGE_MAX_FILTER_EVENTS 32u

enum forge_format {
    FORGE_RAW,
    FORGE_DMP_FULL,        /* DumpType 1 */
    FORGE_DMP_KERNEL,      /* DumpType 2, bitmap body */
    FORGE_DMP_BITMAP,      /* DumpType 5 */
    FORGE_DMP_LIVE,        /* DumpType 6 */
    FORGE_DMP_RDMP,        /* DumpType 8, RDMP body */
    FORGE_DMP_RDMP_ACTIVE, /* DumpType 9 */
    FORGE_DMP_RDMP_FULL,   /* DumpType 0xA */
    FORGE_ELF,             /* QEMU-style core */
    FORGE_VMEM,            /* with a .vmss beside it when written to a path */
    FORGE_LIME,
    FORGE_FORMATS
};

/* Of a machine in two states: where an object or a changed value belongs to. */
enum forge_moment { FORGE_BOTH, FORGE_FIRST, FORGE_LATER };

/* The records: what the scenario asked for, then (from the first address on) what the build made
 * of it. An address of 0 = does not exist in this build or scenario. `readable`: all pages of the
 * object itself are in the image. Texts are as a reader must show them. */
struct forge_module {
    const char *name, *path;
    const char *imports; /* names separated by ','; NULL = no import table */
    uint32_t size, timestamp;
    bool unlinked, header;
    uint64_t va, base;
    bool readable;
};

struct forge_process {
    unsigned line; /* of the scenario; 0 = added by the generator */
    enum forge_moment in;
    uint64_t pid, ppid;
    const char *name; /* as a reader must show it: ImageFileName, at most 14 characters */
    const char *path; /* NT path, "" = none */
    unsigned levels;  /* of its handle table, 1..3; 0 = no table */
    unsigned fill;    /* handles to things that have nothing to do with ETW */
    unsigned silo;    /* index into silos */
    unsigned job;     /* index + 1 of a plain job; 0 = none */
    uint64_t create_time, exit_time;
    uint8_t protection;
    bool unlinked, no_cid, no_table_link;
    uint64_t va, header_va, dtb, table_va, path_va;
    size_t handles;
    bool readable, path_readable, table_readable;
};

struct forge_silo {
    unsigned number; /* 0 = host */
    uint32_t max;    /* slots of the logger array */
    uint64_t state, array, table, job, globals;
    uint64_t embedded_guid; /* address of the Security-Auditing entry inside the state */
};

struct forge_session {
    unsigned line;
    enum forge_moment in;
    unsigned silo;
    uint32_t id, logger_id;
    const char *name, *file, *sddl; /* sddl NULL = no descriptor */
    uint32_t mode, buffer_size, buffers, min_buffers, max_buffers, flags;
    uint32_t events_lost, buffers_lost, realtime_lost, written, collecting, clock;
    int32_t accept;
    uint64_t get_cpu_clock, start_time;
    uint32_t groups; /* first word of the kernel event groups of a system logger */
    uint8_t instance[16];
    bool system, hidden; /* hidden: its slot in the array is emptied afterwards */
    uint64_t va, slot_va, sd_va, name_va, list_va;
    uint32_t num_consumers; /* as stored */
    uint64_t reference_raw; /* raw time at start_time */
    bool readable, name_readable, sd_readable;
};

struct forge_consumer {
    unsigned line;
    enum forge_moment in;
    unsigned silo;
    uint32_t session;
    uint64_t pid;
    uint32_t flags, buffers_lost;
    bool unlinked, no_handle;
    uint64_t va, handle;
    bool readable, header_readable;
};

/* One record in a trace buffer. */
struct forge_event {
    enum etl_kind kind;
    unsigned pointer_size;
    uint32_t pid, tid;
    uint64_t time; /* raw */
    uint16_t hook; /* group << 8 | type of the short headers */
    uint16_t id;   /* event, or number of a message */
    uint8_t guid[16];
    uint32_t size, offset; /* offset in the buffer, decompressed */
    bool readable;
};

struct forge_buffer {
    unsigned line;
    unsigned silo;
    uint32_t session, cpu, state;
    unsigned count; /* of events */
    bool overflow, slot, current, compression, placeholder, unlinked;
    bool unwritten, leftover; /* reserved room of zeros; of an older record */
    bool overfull;            /* the last reservation did not fit */
    bool reset;               /* CurrentOffset at the start again */
    bool space;               /* of a user's: in the space, not on the list */
    bool lost;                /* BufferFlag: events were lost */
    bool story;               /* records with a meaning: story.c */
    uint64_t undelivered;     /* pid of a consumer that goes on here; 0 = none */
    uint64_t user;            /* pid of the process that holds it; 0 = the kernel */
    size_t copy_of;           /* index + 1; 0 = none */
    uint64_t va, sequence, time;
    uint32_t size, used;
    struct forge_event *events;
    size_t event_count;
    bool readable; /* its header */
};

struct forge_enable {
    uint32_t enabled;
    uint32_t session;
    uint8_t level;
    bool used; /* something stands in the slot */
    uint32_t property;
    uint64_t any, all;
};

struct forge_filter {
    bool used, events_in;
    uint32_t pids[FORGE_MAX_FILTER_PIDS];
    uint16_t events[FORGE_MAX_FILTER_EVENTS];
    size_t pid_count, event_count;
    const char *executables; /* names separated by ';' */
    uint32_t flags;
    uint64_t va;
};

/* Types as ETW_GUID_TYPE. */
enum forge_guid_type { FORGE_TRACE, FORGE_NOTIFICATION, FORGE_GROUP };

struct forge_provider {
    unsigned line;
    enum forge_moment in;
    unsigned silo;
    enum forge_guid_type type;
    uint8_t guid[16];
    const char *sddl;
    bool unlinked, embedded;
    struct forge_enable enables[FORGE_ENABLE_SLOTS];
    struct forge_filter filters[FORGE_ENABLE_SLOTS];
    uint64_t va, sd_va;
    unsigned bucket;
    struct forge_enable combined;
    bool readable, sd_readable;
};

struct forge_reg {
    unsigned line;
    enum forge_moment in;
    size_t provider; /* index into providers */
    size_t group;    /* index + 1 of the group's entry; 0 = none */
    bool kernel, unlinked, no_handle, has_mask;
    uint64_t pid;       /* user registrations */
    const char *driver; /* kernel registrations */
    const char *traits; /* name, or NULL */
    uint16_t extra_flags;
    uint8_t enable_mask, group_mask;
    uint64_t va, handle, callback;
    uint16_t flags;
    bool readable, header_readable;
};

/* What a driver asked the kernel to call. */
struct forge_callback {
    unsigned line;
    const char *kind; /* "process", "thread", "image", "registry", "object_process", … */
    const char *driver, *altitude; /* altitude: lists only */
    bool outside;                  /* the code lies in no driver */
    bool emptied;                  /* registered and counted, then taken out of the array or list */
    bool has_slot, has_post;
    uint32_t slot;
    uint64_t context;
    uint64_t va, slot_va, function, post, altitude_va, cookie;
    bool readable;
};

/* A page that was taken out of the image, or overwritten in it. */
struct forge_hole_page {
    uint64_t va, pfn;
    const char
        *kind; /* "absent", "paged", "transition" (still readable); "zeros", "0x41", "page" */
};

/* A page that differs between the two states, and which of them the image holds. */
struct forge_smear_page {
    uint64_t va, pfn; /* va 0: at no kernel address */
    enum forge_moment state;
};

/* Eight aligned bytes that differ. */
struct forge_change {
    uint64_t va, first, later;
    enum forge_moment in_image;
};

struct forge_truth {
    const char *version; /* "10.0.22000.795" */
    struct kda_kernel_id id;
    uint32_t build;
    uint64_t base, dtb, system_time, kdbg_va;
    uint32_t cpu_mhz;
    bool kdbg_encoded, la57;
    uint32_t cpus;
    uint64_t memory_size; /* bytes of RAM */
    size_t pages_used;    /* pages with content */
    struct forge_module *modules;
    size_t module_count;
    struct forge_process *processes;
    size_t process_count;
    struct forge_silo *silos;
    size_t silo_count;
    struct forge_session *sessions;
    size_t session_count;
    struct forge_consumer *consumers;
    size_t consumer_count;
    struct forge_buffer *buffers;
    size_t buffer_count;
    struct forge_provider *providers;
    size_t provider_count;
    struct forge_reg *regs;
    size_t reg_count;
    struct forge_callback *callbacks;
    size_t callback_count;
    struct forge_hole_page *holes;
    size_t hole_count;
    bool smeared;
    uint32_t smear_percent;
    uint64_t smear_seed;
    struct forge_smear_page *smear_pages;
    size_t smear_page_count;
    struct forge_change *changes;
    size_t change_count;
    /* What hostile lines put into logger slots: a reader cannot tell these from sessions whose
     * memory is missing. */
    uint64_t wild_slots[16];
    size_t wild_slot_count;
    size_t hostile_count; /* lies told on purpose: facts above are what was there before */
};

struct forge;

/* Parses and builds. Errors: KDA_USAGE (the text names the line), KDA_NO_SYMBOL (build not in the
 * profile table), KDA_LIMIT (memory too small), KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status forge_build(const char *scenario, struct forge **ret,
                                           struct kda_error *err);
void forge_free(struct forge *forge); /* NULL is allowed */

const struct forge_truth *forge_truth(const struct forge *forge);
/* The layout the image was built with (RVAs included, also invented ones). */
const struct kda_layout *forge_layout(const struct forge *forge);

/* Writes the image; a sparse file where the memory is empty. KDA_UNSUPPORTED if pages were taken
 * out (kind=absent) and the format cannot say so. After a failure there is no file. */
KDA_MUST_CHECK enum kda_status forge_write(struct forge *forge, enum forge_format format,
                                           const char *path, struct kda_error *err);
/* Same into fresh memory; the caller frees *bytes with free(). At most 1 GiB. */
KDA_MUST_CHECK enum kda_status forge_write_memory(struct forge *forge, enum forge_format format,
                                                  uint8_t **bytes, size_t *size,
                                                  struct kda_error *err);
/* Build and write in one step. */
KDA_MUST_CHECK enum kda_status forge_build_memory(const char *scenario, enum forge_format format,
                                                  uint8_t **bytes, size_t *size,
                                                  struct kda_error *err);

/* What the image contains, as JSON. False if the stream failed. */
bool forge_truth_json(const struct forge *forge, FILE *out);

/* "raw", "dmp-full", ...; NULL past the end. */
const char *forge_format_name(enum forge_format format);
bool forge_format_parse(const char *name, enum forge_format *ret);

#endif
