/*
 * internal.h - what the files of lib/etl share.
 */
#ifndef KDA_ETL_INTERNAL_H
#define KDA_ETL_INTERNAL_H

#include "kda/etl.h"

#include "file.h"

#define END_MARKER 0xffffffffu /* first word behind the last record of a buffer */

/* Records are padded to 8 bytes. */
static inline uint32_t kda_etl_align8(uint32_t size)
{
    return (size + 7u) & ~7u;
}

/* ---- record.c ---- */

/* Bytes of the record at `p`, padding not included; 0 if no record header stands there or the
 * record does not fit into the `left` bytes. */
uint32_t kda_etl_record_size(const uint8_t *p, size_t left);
/* Fills what the header at `p` says. `size` is what kda_etl_record_size gave. */
void kda_etl_record_fill(const uint8_t *p, uint32_t size, struct kda_etl_record *record);
/* Raw time in the header of a record whose size is known; false if it has none. */
bool kda_etl_record_time(const uint8_t *p, uint64_t *ret);

/* ---- frame.c ---- */

/* Do records start at `at`? Wants `wanted` of them in a row, or fewer up to the end. */
bool kda_etl_chain(const uint8_t *bytes, size_t size, size_t at, unsigned wanted);

/* ---- header.c ---- */

#define LOGFILE_HEADER_MAX 0x10000u /* the first record is no longer than a record can be */

/* TRACE_LOGFILE_HEADER: the record at `p`, which stands behind the first buffer header. False if it
 * is none; *info is untouched then. Names are allocated. */
KDA_MUST_CHECK enum kda_status kda_etl_header_read(const uint8_t *p, size_t left,
                                                   struct kda_etl_info *info, char **session_name,
                                                   char **file_name, bool *found,
                                                   struct kda_error *err);

/* ---- the file ---- */

enum { /* struct kda_etl_entry.what */
       ENTRY_COMPRESSED = 1,
       ENTRY_EXACT = 2,     /* `used` is what the header says, not a guess */
       ENTRY_FIRST = 4,     /* the header buffer: its records come before all others */
       ENTRY_NO_HEADER = 8, /* the buffer header is damaged: CPU and sequence are not known */
       ENTRY_CUT = 16       /* the file ends before the buffer does */
};

#define NO_ENTRY UINT32_MAX
#define MAX_ENTRIES (1u << 22)            /* a quarter TiB of the usual 64 KiB */
#define CPU_SLOTS (KDA_ETL_MAX_CPUS + 1u) /* the last: buffers whose CPU is not known */

/* One buffer of the file. There can be hundreds of thousands, so it is small. */
struct kda_etl_entry {
    uint64_t off;
    uint64_t sequence;
    uint32_t size; /* bytes in the file */
    uint32_t used; /* after decompression, header included */
    uint32_t next; /* of the same lane; NO_ENTRY ends it */
    uint16_t cpu;  /* KDA_ETL_MAX_CPUS: not known */
    uint8_t what;
};

/* The buffers of one CPU in their order, and the one that is being read. */
struct kda_etl_lane {
    uint32_t cpu;
    uint32_t first, last; /* entries */
    uint32_t entry;       /* being read; NO_ENTRY: at the end */
    bool loaded;          /* `framer` is over the bytes of `entry` */
    uint8_t *bytes;
    size_t capacity;
    uint64_t key; /* time by which the lane is merged */
    uint64_t sequence;
    struct kda_etl_framer framer;
    struct kda_etl_record record;
};

struct kda_etl {
    struct kda_file *file;
    struct kda_etl_info info;
    char *session_name, *file_name;
    struct kda_etl_entry *entries;
    size_t entry_count, entry_capacity;
    struct kda_etl_lane *lanes;
    size_t lane_count, lane_capacity;
    struct kda_etl_cpu *cpus; /* one per lane */
    struct kda_etl_session *sessions;
    size_t session_count, session_capacity;
    struct kda_etl_damage *damage;
    size_t damage_kept, damage_capacity;
    size_t damage_count;
    size_t damage_at_open; /* kept, count: what a rewind leaves */
    size_t damage_kept_at_open;
    bool out_of_memory; /* while walking */
    bool damage_failed; /* memory ran out: later ones are only counted */
    /* Reading. */
    enum kda_etl_order order;
    bool started, ended;
    struct kda_etl_lane *current; /* gave the last record; NULL at the start */
    struct kda_etl_lane serial;   /* header buffer, and everything in file order */
    struct kda_etl_lane **heap;
    size_t heap_count;
    uint8_t *packed; /* compressed bytes of the buffer that is being read */
    size_t packed_capacity;
    uint64_t memory;   /* bytes of lanes */
    uint64_t unpacked; /* bytes that were decompressed since the last rewind */
};

/* damage.c */
void kda_etl_damage_add(struct kda_etl *etl, enum kda_etl_damage_kind kind, bool lost, uint64_t off,
                        uint64_t bytes, const char *why);

/* walk.c: finds the buffers. */
KDA_MUST_CHECK enum kda_status kda_etl_walk(struct kda_etl *etl, struct kda_error *err);

/* resync.c: looks at the file for the walk, and finds where it goes on behind damage. */
struct kda_etl_scan {
    struct kda_etl *etl;
    uint64_t file_size;
    uint32_t plain_size; /* of every buffer that is not compressed; 0: not known */
    uint32_t probes;     /* candidates that were looked at closely */
    /* The header looked at last. */
    bool cached, cached_found;
    uint64_t cached_off;
    struct kda_etl_buffer cached_buffer;
};

/* Does a buffer header stand at `off`? Not found at the end of the file. */
KDA_MUST_CHECK enum kda_status kda_etl_header_at(struct kda_etl_scan *scan, uint64_t off,
                                                 struct kda_etl_buffer *ret, bool *found,
                                                 struct kda_error *err);
/* Is *b, which was read at `off`, a buffer? Looks for records behind it, plain or compressed. */
KDA_MUST_CHECK enum kda_status kda_etl_verify(struct kda_etl_scan *scan, uint64_t off,
                                              const struct kda_etl_buffer *b, bool *found,
                                              struct kda_error *err);
/* Does a record stand at `off`, in a buffer with `left` bytes from there on? */
KDA_MUST_CHECK enum kda_status kda_etl_record_at(struct kda_etl_scan *scan, uint64_t off,
                                                 uint64_t left, bool *found, struct kda_error *err);
/* First offset in [from, to) where a buffer stands that can be told from other bytes; `to` if there
 * is none. */
KDA_MUST_CHECK enum kda_status kda_etl_find_buffer(struct kda_etl_scan *scan, uint64_t from,
                                                   uint64_t to, uint64_t *ret,
                                                   struct kda_error *err);
/* Is everything from `from` to the end of the file zero? */
KDA_MUST_CHECK enum kda_status kda_etl_only_zeros(struct kda_etl_scan *scan, uint64_t from,
                                                  bool *ret, struct kda_error *err);

/* lane.c */
/* Links entries into lanes and counts CPUs; once, after the walk. */
KDA_MUST_CHECK enum kda_status kda_etl_lanes_make(struct kda_etl *etl, struct kda_error *err);
/* Reads the next record of a lane; lane->entry is NO_ENTRY when there is none. */
KDA_MUST_CHECK enum kda_status kda_etl_lane_next(struct kda_etl *etl, struct kda_etl_lane *lane,
                                                 struct kda_error *err);
/* Starts a lane at an entry; nothing is read yet. */
void kda_etl_lane_start(struct kda_etl_lane *lane, uint32_t entry);
void kda_etl_lane_free(struct kda_etl *etl, struct kda_etl_lane *lane);

#endif
