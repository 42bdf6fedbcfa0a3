/*
 * kda/report.h - model -> bytes.
 *
 * A report is opened for one output format and given rows; every row kind is built once and
 * rendered by whichever writer the format names. A report never reads an image. docs/rows.md
 * lists every key.
 *
 * Ownership: kda_report_open gives the caller a handle to kda_report_close. Model objects passed
 * in are borrowed for the call, except in text reports, which copy what they keep. Failures of
 * the sink or of memory stick and are returned by kda_report_close. Threads: one thread per report.
 */
#ifndef KDA_REPORT_H
#define KDA_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "kda/audit.h"
#include "kda/baseline.h"
#include "kda/buffers.h"
#include "kda/compare.h"
#include "kda/error.h"
#include "kda/etl.h"
#include "kda/etw.h"
#include "kda/fit.h"
#include "kda/gap.h"
#include "kda/image.h"
#include "kda/kernel.h"
#include "kda/log.h"
#include "kda/recall.h"
#include "kda/symbols.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kda_report;

/* Of docs/rows.md; one more when a key has to go or to change its type. */
#define KDA_ROWS_VERSION 1

/* K(ID, name): kinds of rows; `name` is the value of the key "row". lib/report/keys_*.h has the
 * keys of each. */
#define KDA_ROW_KIND_LIST(K)                                                                       \
    K(INFO, info)                                                                                  \
    K(SESSION, session)                                                                            \
    K(CONSUMER, consumer)                                                                          \
    K(PROVIDER, provider)                                                                          \
    K(PROCESS, process)                                                                            \
    K(SYMBOLS, symbols)                                                                            \
    K(FORMAT, format)                                                                              \
    K(PROFILE, profile)                                                                            \
    K(EVENT, event)                                                                                \
    K(LOG, log)                                                                                    \
    K(ACCOUNT, account)                                                                            \
    K(FINDING, finding)                                                                            \
    K(COUNT, count)                                                                                \
    K(WITNESS, witness)                                                                            \
    K(DIFFERENCE, difference)                                                                      \
    K(UNMATCHED, unmatched)                                                                        \
    K(TRACE, trace)                                                                                \
    K(TRACE_SESSION, trace_session)                                                                \
    K(TRACE_CPU, trace_cpu)                                                                        \
    K(TRACE_DAMAGE, trace_damage)                                                                  \
    K(TRACE_COUNT, trace_count)                                                                    \
    K(BUFFER, buffer)                                                                              \
    K(CALLBACK, callback)                                                                          \
    K(AUDIT, audit)                                                                                \
    K(UNCHECKED, unchecked)                                                                        \
    K(CHECK, check)                                                                                \
    K(CHANGE, change)                                                                              \
    K(GAP, gap)

enum kda_row_kind {
#define K(ID, name) KDA_ROW_##ID,
    KDA_ROW_KIND_LIST(K)
#undef K
        KDA_ROW_KINDS
};

/* Stable word of a kind, the value of the key "row" ("session"). */
const char *kda_row_kind_name(enum kda_row_kind kind);

/* Takes all of `size` bytes or returns false, which ends the report. */
typedef bool (*kda_write_fn)(void *context, const char *bytes, size_t size);

struct kda_report_options {
    const char *format; /* name of a row of kda_report_format_at; NULL = "text" */
    const char *image;  /* path of the image, for the head of json; nullable */
    const char *grep;   /* keep only rows whose text contains this, ASCII case ignored; nullable */
    uint64_t limit;     /* rows of one kind, gaps excepted; 0 = no limit */
    unsigned width;     /* columns of the terminal; 0 = no terminal, nothing is cut */
    bool color;         /* text only */
    bool verbose;       /* text only: drivers in info, every registration in map */
    bool fitted;        /* the layout was fitted: rows of the model say so */
    /* csv and tsv: rows of kind `kind` follow, and the sink may put them elsewhere. False: it could
     * not. NULL: there is one table, and rows of a second kind are refused. */
    bool (*table)(void *context, const char *kind);
};

struct kda_report_format {
    const char *name;
    const char *title;
};

/* Row `index` of the table of output formats, NULL past its end. Static storage. */
const struct kda_report_format *kda_report_format_at(size_t index);

/* Strings of `options` are borrowed until close. Errors: KDA_USAGE (no such format),
 * KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_report_open(const struct kda_report_options *options,
                                               kda_write_fn write, void *context,
                                               struct kda_report **ret, struct kda_error *err);

/* Writes what is left and frees the report, also after a failure. Errors: KDA_IO (the sink
 * refused), KDA_USAGE (csv of several kinds without options.table), KDA_NO_MEMORY (also a row
 * larger than the row limit). NULL is allowed. */
KDA_MUST_CHECK enum kda_status kda_report_close(struct kda_report *report, struct kda_error *err);

/* True once the sink or memory has failed: a caller with much left to emit may stop. */
bool kda_report_failed(const struct kda_report *report);

/* Hands everything to the sink that need not wait for later rows. */
void kda_report_flush(struct kda_report *report);

/* Rows that `limit` kept back so far. */
uint64_t kda_report_skipped(const struct kda_report *report);

/* ---- what to show ---- */

/* All fields off = everything that is shown by default. Arrays are borrowed. */
struct kda_selection {
    const struct kda_etw_silo *silo;               /* NULL = every silo */
    const struct kda_etw_session *const *sessions; /* only these; NULL = no restriction */
    size_t session_count;
    const struct kda_etw_provider *const *providers; /* only these; NULL = no restriction */
    size_t provider_count;
    bool all; /* providers neither enabled nor registered too */
};

bool kda_selects_session(const struct kda_selection *selection,
                         const struct kda_etw_session *session);
bool kda_selects_consumer(const struct kda_selection *selection,
                          const struct kda_etw_consumer *consumer);
bool kda_selects_provider(const struct kda_selection *selection,
                          const struct kda_etw_provider *provider);

/* Does an enable slot of `provider` name `session` and is it on? Returns the slot, or NULL. */
const struct kda_etw_enable *kda_provider_enabled_for(const struct kda_etw_provider *provider,
                                                      const struct kda_etw_session *session);

/* ---- rows ---- */

/* What `kda info` knows; a NULL part is not known and left out. */
struct kda_report_facts {
    const struct kda_image_info *image;
    const struct kda_fit *fit; /* where the layout was fitted */
    const struct kda_kernel_info *kernel;
    const struct kda_symbols_info *symbols;
    const char *kernel_missing;  /* why there is no kernel */
    const char *symbols_missing; /* why there are no symbols, and what gets them */
    size_t gaps;
    const struct kda_recall *recall; /* how complete the picture is; NULL = not asked */
};

void kda_report_info(struct kda_report *report, const struct kda_report_facts *facts);
void kda_report_session(struct kda_report *report, const struct kda_etw_session *session);
void kda_report_consumer(struct kda_report *report, const struct kda_etw_consumer *consumer);
void kda_report_provider(struct kda_report *report, const struct kda_etw_provider *provider);
/* `silo` is "host", the hex address of the silo's ETW state, or NULL for unknown. */
void kda_report_process(struct kda_report *report, const struct kda_process *process,
                        const char *silo);
void kda_report_gap(struct kda_report *report, const struct kda_gap *gap);

/* What `kda symbols` knows. NULL strings are left out. */
struct kda_report_symbols {
    const struct kda_kernel_id *id;
    const struct kda_symbols_info *found;
    const char *missing; /* why not, where it was looked for */
    const char *fetched; /* where a download was put */
    /* The built-in table's row of this kernel, by PE time stamp and size; its PDB is shown where
     * `id` has none. NULL: not asked, or not known. */
    const struct kda_profile_info *row;
};
void kda_report_symbols(struct kda_report *report, const struct kda_report_symbols *symbols);

/* What the built-in table holds, as one row; then a profile of the user's own (`kda symbols list`).
 */
void kda_report_builtin_profiles(struct kda_report *report);
void kda_report_own_profile(struct kda_report *report, const struct kda_own_profile *profile);

/* One row of one of the program's tables (`kda formats`). `usable` false: known and refused. */
void kda_report_format_row(struct kda_report *report, const char *table, const char *name,
                           const char *title, bool usable, const char *advice);

/* What going over the records of a trace buffer found. */
struct kda_trace_facts {
    bool framed;                 /* its bytes were looked at; the rest is 0 otherwise */
    uint64_t records;            /* whole ones */
    uint64_t unwritten, damaged; /* places reserved but not written; places that hold no record */
    uint64_t cut;                /* records that reach into missing memory */
    uint64_t missing;            /* bytes that are not in the image */
    uint32_t packed;             /* bytes of the whole records, padded to 8 each */
    bool has_time;
    uint64_t first, oldest, newest; /* raw: of the first record, and over all */
    bool has_utc;                   /* the session's clock is known */
    uint64_t oldest_100ns, newest_100ns;
};
void kda_report_buffer(struct kda_report *report, const struct kda_etw_session *session,
                       const struct kda_trace_buffer *buffer, const struct kda_trace_facts *facts);

/* ---- the sensor's logs ---- */

/* A line of what KDA_LOG_LINE, with all its members. */
void kda_report_event(struct kda_report *report, const struct kda_log_line *line);
void kda_report_log(struct kda_report *report, const struct kda_log_verdict *verdict);
/* A row for each kind that the log knows of. */
void kda_report_accounts(struct kda_report *report, const struct kda_log_verdict *verdict);
void kda_report_finding(struct kda_report *report, const struct kda_log_finding *finding);
void kda_report_count(struct kda_report *report, const struct kda_log_count *count);

/* ---- two witnesses ---- */

/* `source` says what the witness is ("log", "etl", "memory"). */
void kda_report_witness(struct kda_report *report, unsigned witness, const char *path,
                        const char *source, const struct kda_compare_witness *seen);
void kda_report_difference(struct kda_report *report, const struct kda_compare_group *group);
void kda_report_unmatched(struct kda_report *report, const struct kda_compare_event *event);
/* ---- trace files ---- */

/* What was seen while all records were read. Times are FILETIME, 0 = none. */
struct kda_report_trace_totals {
    uint64_t records, first_time, last_time;
};

/* `file` is the name that each row carries. */
void kda_report_trace(struct kda_report *report, const char *file, const struct kda_etl *etl,
                      const struct kda_report_trace_totals *totals);
void kda_report_trace_sessions(struct kda_report *report, const char *file,
                               const struct kda_etl *etl);
void kda_report_trace_cpus(struct kda_report *report, const char *file, const struct kda_etl *etl);
void kda_report_trace_damages(struct kda_report *report, const char *file,
                              const struct kda_etl *etl);
void kda_report_trace_count(struct kda_report *report, const char *file,
                            const struct kda_etl_count *count);
void kda_report_trace_total(struct kda_report *report, const char *file, uint64_t records);

/* ---- callbacks and the audit ---- */

void kda_report_callback(struct kda_report *report, const struct kda_callback *callback);
void kda_report_audit_finding(struct kda_report *report, const struct kda_audit_finding *finding);
void kda_report_unchecked(struct kda_report *report, const struct kda_unchecked *unchecked);
void kda_report_check_result(struct kda_report *report, const struct kda_check_result *result);
void kda_report_change(struct kda_report *report, const struct kda_change *change);

/* ---- everything of a kind ---- */

void kda_report_sessions(struct kda_report *report, const struct kda_etw *etw,
                         const struct kda_selection *selection);
void kda_report_consumers(struct kda_report *report, const struct kda_etw *etw,
                          const struct kda_selection *selection);
void kda_report_providers(struct kda_report *report, const struct kda_etw *etw,
                          const struct kda_selection *selection);
/* `etw` (nullable) names the silos. */
void kda_report_processes(struct kda_report *report, const struct kda_process *processes,
                          size_t count, const struct kda_etw *etw,
                          const struct kda_selection *selection);
/* Every gap, then one row that says how many more there were. */
void kda_report_gaps(struct kda_report *report, const struct kda_gaps *gaps);

/* The view for people that joins sessions, consumers, providers and registrations; text reports
 * only (nothing is written in other formats). `gaps` (nullable) are summed up at the end. */
void kda_report_map(struct kda_report *report, const struct kda_etw *etw,
                    const struct kda_selection *selection, const struct kda_gaps *gaps);

/* ---- for messages on a terminal ---- */

/* Copies `text` with control characters, terminal escapes, text-direction marks and bytes that
 * are no UTF-8 made visible (\x1b, \u202e, \xff), cut to fit `cap`. Returns `out`. */
const char *kda_printable(const char *text, char *out, size_t cap);

#ifdef __cplusplus
}
#endif

#endif
