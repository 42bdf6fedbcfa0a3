/*
 * kda/etw.h - the ETW model: silos, sessions, consumers, providers, registrations.
 *
 * kda_etw_map reads everything once and joins it. The model owns its storage (kda_etw_free) but
 * borrows strings of processes and modules from the kernel: free it before closing the kernel.
 * Threads: immutable once returned.
 */
#ifndef KDA_ETW_H
#define KDA_ETW_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Named limits: counts found in an image are checked against these before anything is allocated.
 * Source: 64 slots up to 20348, 80 on 22000 (etw state MaxLoggers); the cap leaves room. */
#define KDA_ETW_MAX_LOGGERS 1024u
#define KDA_ETW_MAX_SILOS 1024u
#define KDA_ETW_MAX_CONSUMERS 8192u
#define KDA_ETW_MAX_GUIDS 65536u
#define KDA_ETW_MAX_REGS 262144u
#define KDA_ETW_ENABLE_SLOTS 8u

struct kda_etw;
struct kda_etw_session;
struct kda_etw_provider;

/* Each field of a row that may be missing has a bit in `have`; a field whose bit is off was not
 * readable or does not exist in this build, and is left out of reports. */

struct kda_etw_silo {
    bool host;
    uint64_t state; /* ETW_SILODRIVERSTATE, 0 on builds without silos */
    uint64_t job;   /* EJOB, 0 for the host */
    uint64_t array; /* logger pointer array */
    uint32_t slots; /* length of that array */
    uint64_t table; /* GUID hash table */
    char label[24]; /* "host" or the hex address of the state */
};

/* Presence bits of struct kda_etw_session. */
#define KDA_ETW_SESSION_FIELDS(X)                                                                  \
    X(LOGGER_ID)                                                                                   \
    X(NAME)                                                                                        \
    X(MODE)                                                                                        \
    X(COLLECTING)                                                                                  \
    X(ACCEPT)                                                                                      \
    X(CLOCK)                                                                                       \
    X(GET_CPU_CLOCK)                                                                               \
    X(BUFFER_SIZE)                                                                                 \
    X(BUFFERS)                                                                                     \
    X(MAX_BUFFERS)                                                                                 \
    X(EVENTS_LOST)                                                                                 \
    X(BUFFERS_LOST)                                                                                \
    X(RT_BUFFERS_LOST)                                                                             \
    X(BUFFERS_WRITTEN)                                                                             \
    X(LOG_FILE)                                                                                    \
    X(START_TIME)                                                                                  \
    X(INSTANCE_GUID)                                                                               \
    X(SECURITY)                                                                                    \
    X(NUM_CONSUMERS)
#define KDA_X(id) KDA_ETW_S_##id##_BIT,
enum { KDA_ETW_SESSION_FIELDS(KDA_X) KDA_ETW_S_BITS };
#undef KDA_X
#define KDA_ETW_HAS(row, group, id) (((row)->have >> KDA_ETW_##group##_##id##_BIT) & 1u)

/* Ways a consumer was found; bits. LINK, here and below: a list that its head no longer leads to,
 * by the links of another object on it. */
enum {
    KDA_CONSUMER_LIST = 1,
    KDA_CONSUMER_HANDLE = 2,
    KDA_CONSUMER_POOL = 4,
    KDA_CONSUMER_LINK = 8,
};

struct kda_etw_consumer {
    const struct kda_etw_silo *silo;       /* owner state as the consumer says, else its list's */
    const struct kda_etw_session *session; /* NULL: names no session that exists */
    uint64_t va;
    unsigned found_by;
    bool readable;
    bool unnamed; /* as in kda_etw_enable */
    bool has_session_id, has_pid, has_flags, has_buffers_lost, has_handle;
    uint16_t session_id;
    uint64_t process_va; /* EPROCESS, 0 = unknown */
    uint64_t pid;
    const char *process; /* name, "" = unknown */
    const char *image;   /* NULL = unknown */
    uint64_t handle;     /* value in the owner's table */
    uint64_t handle_pid; /* owner of that table */
    uint64_t handle_va;  /* entry in that table */
    uint32_t flags;
    uint64_t buffers_lost;
};

/* Ways a session was found. */
enum { KDA_SESSION_SLOT = 1, KDA_SESSION_POOL = 2 };

struct kda_etw_session {
    const struct kda_etw_silo *silo;
    uint32_t id; /* slot in the array */
    uint64_t va;
    uint64_t slot_va; /* where the pointer stands; 0 = no slot holds it */
    unsigned found_by;
    uint32_t have; /* KDA_ETW_S_..._BIT */
    uint32_t logger_id;
    const char *name;
    uint32_t mode;
    uint32_t collecting;
    int32_t accept_new_events;
    uint32_t clock;         /* 1 QPC, 2 system time, 3 CPU cycles */
    uint64_t get_cpu_clock; /* function address up to 18362, index from 19041 on */
    uint32_t buffer_size;   /* bytes */
    uint32_t buffers, max_buffers;
    uint32_t events_lost, buffers_lost, realtime_buffers_lost, buffers_written;
    const char *log_file;
    uint64_t start_time_100ns;
    uint8_t instance_guid[16];
    const char *security; /* SDDL */
    uint64_t security_va;
    uint32_t num_consumers; /* the kernel's count */
    const struct kda_etw_consumer **consumers;
    size_t consumer_count;
};

/* ETW_GUID_TYPE. Source: enum of the PDBs from 14393 on. */
enum kda_etw_guid_type { KDA_ETW_TRACE, KDA_ETW_NOTIFICATION, KDA_ETW_GROUP, KDA_ETW_GUID_TYPES };

/* TRACE_ENABLE_INFO. */
struct kda_etw_enable {
    bool readable;
    uint32_t enabled; /* IsEnabled as stored */
    uint8_t level;
    uint16_t logger_id;
    uint32_t property;
    uint64_t match_any, match_all;
    const struct kda_etw_session *session; /* NULL: no such session */
    bool unnamed; /* rows leave the name of the session out: names were repeated too often */
};

/* What one slot's FilterData restricts. */
struct kda_etw_filter {
    uint32_t slot;
    uint64_t va;
    bool has_flags;
    uint32_t flags; /* FilterFlags */
    const uint32_t *pids;
    size_t pid_count;
    bool has_pids;
    const uint16_t *event_ids;
    size_t event_id_count;
    bool has_event_ids;
    const char *executables; /* names separated by ';', NULL = none */
    unsigned others;         /* bits of enum kda_etw_filter_kind that are set but not decoded */
};
enum kda_etw_filter_kind {
    KDA_FILTER_PACKAGE_ID = 1,
    KDA_FILTER_PACKAGE_APP = 2,
    KDA_FILTER_CONTAINER = 4,
    KDA_FILTER_PAYLOAD = 8,
    KDA_FILTER_PROVIDER_SIDE = 16,
    KDA_FILTER_EVENT_NAME = 32,
    KDA_FILTER_STACKWALK = 64,
    KDA_FILTER_STACKWALK_ID = 128,
    KDA_FILTER_STACKWALK_NAME = 256,
    KDA_FILTER_STACKWALK_LEVEL_KW = 512,
    KDA_FILTER_EVENT_ID = 1024, /* present, in a form that is not decoded */
};

/* Ways a registration was found; bits. */
enum {
    KDA_REG_LIST = 1,
    KDA_REG_GROUP_LIST = 2,
    KDA_REG_HANDLE = 4,
    KDA_REG_SYMBOL = 8,
    KDA_REG_POOL = 16,
    KDA_REG_LINK = 32,
};

struct kda_etw_registration {
    uint64_t va;
    unsigned found_by;
    bool readable;
    bool has_kind, kernel;
    bool has_flags, has_enable_mask, has_group_enable_mask, has_handle, has_pid;
    uint32_t flags; /* bits as etw REG_ENTRY Dbg* names */
    uint8_t enable_mask, group_enable_mask;
    uint64_t guid_entry, group_entry; /* back pointers, 0 = none */
    uint64_t process_va;
    uint64_t pid;
    const char *process;                    /* "" = unknown */
    uint64_t callback;                      /* 0 = none */
    const char *module;                     /* driver that holds the callback, or NULL */
    uint64_t handle, handle_pid, handle_va; /* value, owner and place of the handle */
    const char *traits_name;                /* from the registration's traits, or NULL */
    const uint8_t *traits_group;            /* group GUID from the traits, or NULL */
};

/* Ways a provider entry was found; bits. */
enum {
    KDA_PROVIDER_TABLE = 1,        /* hash bucket */
    KDA_PROVIDER_REGISTRATION = 2, /* back pointer of a registration */
    KDA_PROVIDER_EMBEDDED = 4,     /* inside the silo state (Security-Auditing) */
    KDA_PROVIDER_SYMBOL = 8,       /* a kernel global's registration handle (Threat-Intelligence) */
    KDA_PROVIDER_POOL = 16,        /* nothing but a pool block (option carve) */
    KDA_PROVIDER_LINK = 32,        /* the links of another entry */
};

struct kda_etw_provider {
    const struct kda_etw_silo *silo;
    enum kda_etw_guid_type type;
    bool has_type;
    uint64_t va;
    unsigned found_by;
    bool readable;
    bool has_guid;
    uint8_t guid[16];
    const char *name; /* traits, else built-in table, else NULL */
    bool has_group;
    uint8_t group[16];
    struct kda_etw_enable combined; /* ProviderEnableInfo */
    struct kda_etw_enable enables[KDA_ETW_ENABLE_SLOTS];
    const struct kda_etw_filter *filters;
    size_t filter_count;
    const char *security; /* SDDL, or NULL */
    uint64_t security_va;
    const struct kda_etw_registration **registrations;
    size_t registration_count;
};

/* Reads the whole ETW state. Missing memory becomes gaps of the kernel (kda_kernel_gaps). Errors:
 * KDA_NO_SYMBOL (symbols not loaded, or the layout lacks what nothing can replace), KDA_ABSENT and
 * friends (the root itself is not in the image), KDA_BAD_DATA, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_etw_map(struct kda_kernel *kernel, struct kda_etw **ret,
                                           struct kda_error *err);
/* Finds the silos only: a model without sessions, consumers and providers, for callers that list
 * processes. Same errors. */
KDA_MUST_CHECK enum kda_status kda_etw_map_silos(struct kda_kernel *kernel, struct kda_etw **ret,
                                                 struct kda_error *err);
void kda_etw_free(struct kda_etw *etw); /* NULL is allowed */

const struct kda_etw_silo *kda_etw_silos(const struct kda_etw *etw, size_t *count);
/* By silo (host first), then slot. */
const struct kda_etw_session *const *kda_etw_sessions(const struct kda_etw *etw, size_t *count);
/* By silo, session id, pid. */
const struct kda_etw_consumer *const *kda_etw_consumers(const struct kda_etw *etw, size_t *count);
/* By silo, type, GUID text. */
const struct kda_etw_provider *const *kda_etw_providers(const struct kda_etw *etw, size_t *count);

/* Distinct pages that hold the objects shown (logger contexts, consumers, GUID entries,
 * registrations, EPROCESSes): a floor for the pages that any reader must read. 0 = out of memory.
 */
uint64_t kda_etw_footprint(const struct kda_etw *etw);

/* The silo a process runs in; NULL when its object was not readable or names an unknown job. */
const struct kda_etw_silo *kda_etw_silo_of_process(const struct kda_etw *etw,
                                                   const struct kda_process *process);

/* The bucket of the hash table that an entry with this GUID (16 bytes, memory order) belongs to:
 * its four words, exclusive or, modulo the number of buckets. Source: docs/etw.md; all entries of
 * all sample images, 7601 to 22631. */
#define KDA_ETW_BUCKETS 64u
uint32_t kda_etw_bucket_of(const uint8_t *guid);

/* Names of the LoggerMode bits that are set; at most `max`. Source: evntrace.h, "Logging Mode
 * Constants". */
size_t kda_etw_mode_names(uint32_t mode, const char **names, size_t max);
/* Names of registration flag bits. */
size_t kda_etw_reg_flag_names(uint32_t flags, const char **names, size_t max);
const char *kda_etw_guid_type_name(enum kda_etw_guid_type type);
const char *kda_etw_clock_name(uint32_t clock); /* "qpc", "system_time", "cpu_cycles", NULL */

#ifdef __cplusplus
}
#endif

#endif
