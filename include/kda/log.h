/*
 * kda/log.h - logs of the sensor: JSON lines, one event a line, in one or several files.
 *
 * A reader hands out the lines of all files in the order of the log, whatever order the files
 * were named in. `kda_log_verify` proves the account of a log: everything that was offered is
 * written, lost and counted, or taken by a rule and counted. docs/events.md is the schema.
 *
 * Ownership: handles from kda_log_open are the caller's to close; a line is borrowed and valid
 * until the next call with its reader. Threads: one thread per reader.
 */
#ifndef KDA_LOG_H
#define KDA_LOG_H

#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* No line of the schema is longer: six times the largest record, and its head. */
#define KDA_LOG_MAX_LINE 1577984u
#define KDA_LOG_MAX_FILES 65536u
#define KDA_LOG_ID_TEXT 39

/* ---- kinds ---- */

/* Kinds are numbered 1 .. kda_log_kind_count() - 1 as in the schema; 0 is an unknown kind. */
unsigned kda_log_kind_count(void);
/* "process.create"; NULL for numbers that are no kind. */
const char *kda_log_kind_name(unsigned kind);
/* 0 if there is no such kind. */
unsigned kda_log_kind_find(const char *name, size_t size);
/* Is it one of sensor.*, which the sensor writes about itself? */
bool kda_log_kind_is_sensor(unsigned kind);

/* ---- reading ---- */

struct kda_log;

enum kda_log_what {
    KDA_LOG_LINE, /* a line of the schema */
    KDA_LOG_BAD,  /* a line that is none; `problem` says why */
    KDA_LOG_CUT,  /* the file ends within this line */
    KDA_LOG_END   /* no more lines in any file */
};

#define KDA_LOG_MAX_MEMBERS 64u

struct kda_log_member {
    const char *key; /* not terminated */
    size_t key_size;
    const char *value; /* JSON as it stands; strings without their quotes */
    size_t size;
    char type;    /* first character of the JSON: '"', '0' for numbers, 't', 'f', 'n', '{', '[' */
    bool escaped; /* a string that holds escapes */
};

struct kda_log_line {
    enum kda_log_what what;
    const char *problem; /* BAD */
    size_t file;         /* index in the order of the log; see kda_log_file_name */
    uint64_t number;     /* line in its file, from 1 */
    uint64_t off;        /* bytes before it in its file */
    const char *text;    /* without line end, not terminated */
    size_t size;
    /* Only for KDA_LOG_LINE. */
    unsigned kind; /* 0 if unknown */
    bool has_id, has_pid, has_tid;
    uint64_t id, pid, tid;
    bool has_time;
    uint64_t time; /* 100 ns units since 1601 UTC */
    size_t member_count;
    struct kda_log_member members[KDA_LOG_MAX_MEMBERS];
};

/* Files of one log, or of several: files of each log come out one behind the other. `paths` are
 * copied. Errors: KDA_IO, KDA_UNSUPPORTED (a file is no log), KDA_USAGE (no files), KDA_LIMIT,
 * KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_log_open(const char *const *paths, size_t count,
                                            struct kda_log **ret, struct kda_error *err);
/* Same over one file in memory, borrowed until close. */
KDA_MUST_CHECK enum kda_status kda_log_open_memory(const void *bytes, size_t size, const char *name,
                                                   struct kda_log **ret, struct kda_error *err);
void kda_log_close(struct kda_log *log); /* NULL is allowed */

/* Next line; `line->what` tells what it is. After KDA_LOG_END the call may be repeated: it goes on
 * where the last file has grown. Errors: KDA_IO, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_log_next(struct kda_log *log, struct kda_log_line *line,
                                            struct kda_error *err);

/* After KDA_LOG_END: looks beside the last file for the one in which its log goes on, and adds it;
 * kda_log_next then hands out what the last file still has, and goes on there. It is the file whose
 * name differs in the number at its end, which is the next greater one, if its first line says
 * that it belongs to the same log. Files with smaller numbers that are gone by then are skipped:
 * ids tell. Texts from kda_log_file_log end here. Errors: KDA_IO, KDA_UNSUPPORTED (it is no log),
 * KDA_LIMIT, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_log_find_next_file(struct kda_log *log, bool *found,
                                                      struct kda_error *err);

size_t kda_log_file_count(const struct kda_log *log);
const char *kda_log_file_name(const struct kda_log *log, size_t file);
/* Id of the log that a file belongs to, as its first line says; "" if it does not. */
const char *kda_log_file_log(const struct kda_log *log, size_t file);
/* Is this file the first of its log? */
bool kda_log_starts_at(const struct kda_log *log, size_t file);
uint64_t kda_log_file_size(const struct kda_log *log, size_t file); /* bytes, when opened */

/* One line that the caller has, without a reader: fills *line, and `what` with LINE or BAD. */
void kda_log_parse(const char *text, size_t size, struct kda_log_line *line);

/* Member by name, NULL if the line does not have it. */
const struct kda_log_member *kda_log_find(const struct kda_log_line *line, const char *key);
/* Text of a string member, cut to fit, with a NUL; the whole size is returned. */
size_t kda_log_text(const struct kda_log_member *member, char *out, size_t cap);
/* A whole number that is not negative; also "0x..." texts. */
bool kda_log_number(const struct kda_log_member *member, uint64_t *ret);
/* Walks {"kind":count}; unknown kinds come with kind 0. False: it is no such object. */
bool kda_log_counts(const struct kda_log_member *member,
                    void (*put)(void *context, unsigned kind, uint64_t count), void *context);

/* "2026-11-29T21:04:05.1234567Z", and shorter forms: a date, a time without fraction or seconds,
 * a space for the T, no Z. False if it is none. */
bool kda_log_time_parse(const char *text, size_t size, uint64_t *ret);

/* ---- filters ---- */

struct kda_log_filter {
    uint64_t kinds; /* bit per kind; 0 = all */
    bool has_pid;
    uint64_t pid;          /* the line's own, or target, parent or creator */
    const char *image;     /* part of `image`, `module` or `command_line`, ASCII case ignored */
    uint64_t since, until; /* 0 = open end; until is not included */
};

/* "process.create,registry.*,network": sets bits. Errors: KDA_USAGE with the names there are. */
KDA_MUST_CHECK enum kda_status kda_log_filter_kinds(const char *list, uint64_t *kinds,
                                                    struct kda_error *err);
bool kda_log_matches(const struct kda_log_filter *filter, const struct kda_log_line *line);

/* ---- statistics ---- */

#define KDA_LOG_MAX_IMAGES 65536u /* different images counted; more share one entry */

struct kda_log_count {
    const char *by;   /* "kind" or "image" */
    const char *name; /* of the kind; the image's path */
    uint64_t lines, bytes;
    uint64_t first_time, last_time;
};

struct kda_log_stats;
KDA_MUST_CHECK enum kda_status kda_log_stats_create(struct kda_log_stats **ret,
                                                    struct kda_error *err);
void kda_log_stats_destroy(struct kda_log_stats *stats); /* NULL is allowed */
/* Errors: KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_log_stats_add(struct kda_log_stats *stats,
                                                 const struct kda_log_line *line,
                                                 struct kda_error *err);
/* Counts of kinds in their order, then those of images, most lines first. Ends the counting:
 * nothing may be added after it. */
void kda_log_stats_walk(struct kda_log_stats *stats,
                        void (*put)(void *context, const struct kda_log_count *count),
                        void *context);

/* ---- the account ---- */

#define KDA_LOG_MAX_KINDS 64u
#define KDA_LOG_MAX_FINDINGS 1000u /* reported per log; the rest is counted */

enum kda_log_ending {
    KDA_LOG_STOPPED,  /* ends with sensor.stop */
    KDA_LOG_SHUTDOWN, /* a tail behind sensor.shutdown */
    KDA_LOG_CUT_OFF   /* neither: the system crashed, or the log is still being written */
};

struct kda_log_account {
    uint64_t lines; /* lines of the kind in the files, without a live reader's own losses */
    uint64_t offered, written, lost, filtered; /* as the last totals say */
    uint64_t lost_lines, filtered_lines;       /* sums over sensor.loss and sensor.filtered */
    uint64_t reader_lost; /* sums over losses of the live reader that made this copy */
};

/* What was found about one log. */
struct kda_log_verdict {
    const char *id; /* "" if no line says */
    size_t files;
    uint64_t lines, bytes;
    bool has_start; /* the log begins with sensor.start */
    enum kda_log_ending ending;
    bool cut_line;          /* the last file ends within a line */
    bool has_totals;        /* `account` has totals */
    bool totals_are_last;   /* they are those of sensor.stop */
    uint64_t first_id, ids; /* ids seen are first_id .. first_id + ids - 1 when dense */
    uint64_t last_id;       /* of the last whole line */
    uint64_t tail;          /* lines behind sensor.shutdown */
    uint64_t first_time, last_time;
    uint64_t findings; /* also those that were not reported */
    struct kda_log_account account[KDA_LOG_MAX_KINDS];
};

struct kda_log_finding {
    const char *check; /* stable word: "line", "id", "time", "file", "account", "start", "end" */
    const char *file;
    uint64_t line; /* 0: the file as a whole */
    const char *text;
};

struct kda_log_listener {
    void (*finding)(void *context, const struct kda_log_finding *finding); /* nullable */
    void (*verdict)(void *context, const struct kda_log_verdict *verdict); /* nullable */
    bool (*progress)(void *context, uint64_t done, uint64_t total);        /* nullable */
    void *context;
};

/* Reads everything and reports each log when it is complete. Returns KDA_OK also when the account
 * does not hold: that is what findings say. Errors: those of kda_log_next, KDA_CANCELLED (progress
 * returned false). */
KDA_MUST_CHECK enum kda_status kda_log_verify(struct kda_log *log,
                                              const struct kda_log_listener *listener,
                                              struct kda_error *err);

#ifdef __cplusplus
}
#endif

#endif
