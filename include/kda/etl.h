/*
 * kda/etl.h - trace records: from the bytes of a trace buffer to one record at a time, and from an
 * .etl file to its records in time order.
 *
 * Four pieces, each usable alone. A record (struct kda_etl_record) is a view into the bytes it was
 * framed from. The framer goes over the bytes of one buffer, wherever they come from. The clock
 * turns raw time stamps into FILETIME. The file (struct kda_etl) walks buffers, decompresses and
 * merges. Nothing here knows what a record means.
 *
 * No function here keeps state outside its arguments: separate objects may be used by separate
 * threads, one object by one thread at a time.
 *
 * Source: the record headers of the Windows SDK (evntrace.h, evntcons.h), WMI_BUFFER_HEADER and the
 * SYSTEM_, PERFINFO_ and MESSAGE_ headers as System Informer's ntwmi.h and Geoff Chappell's studies
 * describe them; docs/etl.md says what was checked on files.
 */
#ifndef KDA_ETL_H
#define KDA_ETL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- records ---- */

#define KDA_ETL_BUFFER_HEADER 72u /* bytes before the first record of a buffer */

/* HeaderType as on disk; messages have none there. The number says the size of pointers too. */
enum kda_etl_header {
    KDA_ETL_SYSTEM32 = 1,
    KDA_ETL_SYSTEM64 = 2,
    KDA_ETL_COMPACT32 = 3,
    KDA_ETL_COMPACT64 = 4,
    KDA_ETL_FULL32 = 10,
    KDA_ETL_INSTANCE32 = 11,
    KDA_ETL_TIMED = 12, /* documented as unused: framed, not understood */
    KDA_ETL_ERROR = 13,
    KDA_ETL_WNODE = 14, /* documented as unused: framed, not understood */
    KDA_ETL_PERFINFO32 = 16,
    KDA_ETL_PERFINFO64 = 17,
    KDA_ETL_EVENT32 = 18,
    KDA_ETL_EVENT64 = 19,
    KDA_ETL_FULL64 = 20,
    KDA_ETL_INSTANCE64 = 21,
    KDA_ETL_MESSAGE = 32 /* WPP message; not a number of the format */
};

/* What a record header looks like; kda_etl_shape maps header types to it. */
enum kda_etl_shape {
    KDA_ETL_SHAPE_NONE,
    KDA_ETL_SHAPE_SYSTEM,  /* SYSTEM, COMPACT, PERFINFO: group and type instead of a GUID */
    KDA_ETL_SHAPE_CLASSIC, /* FULL, INSTANCE: class GUID, type, level, version */
    KDA_ETL_SHAPE_EVENT,   /* EVENT, ERROR: provider GUID and descriptor */
    KDA_ETL_SHAPE_MESSAGE  /* WPP */
};

/* ExtType of extended items. */
enum kda_etl_ext_type {
    KDA_ETL_EXT_RELATED_ACTIVITY = 1,
    KDA_ETL_EXT_SID = 2,
    KDA_ETL_EXT_TS_ID = 3,
    KDA_ETL_EXT_INSTANCE = 4,
    KDA_ETL_EXT_STACK32 = 5,
    KDA_ETL_EXT_STACK64 = 6,
    KDA_ETL_EXT_PEBS = 7,
    KDA_ETL_EXT_PMC = 8,
    KDA_ETL_EXT_PSM_KEY = 9,
    KDA_ETL_EXT_EVENT_KEY = 10,
    KDA_ETL_EXT_SCHEMA_TL = 11,
    KDA_ETL_EXT_TRAITS = 12,
    KDA_ETL_EXT_PROCESS_KEY = 13,
    KDA_ETL_EXT_CONTROL_GUID = 14,
    KDA_ETL_EXT_QPC_DELTA = 15,
    KDA_ETL_EXT_CONTAINER_ID = 16
};

#define KDA_ETL_CPU_UNKNOWN UINT32_MAX

/* One framed record. Pointers lead into the bytes it was framed from and live as long as those
 * (records of kda_etl_next: until the next call). Members that a header type does not have are 0,
 * NULL or false; which has what: enum kda_etl_shape. GUIDs are 16 bytes as on disk. */
struct kda_etl_record {
    enum kda_etl_header header;
    enum kda_etl_shape shape;
    uint8_t pointer_size; /* of the payload: 4, 8, or 0 where the header does not say */
    bool has_time;        /* false: raw_time is that of the record before, 0 if none had one */
    bool has_ids;         /* pid and tid are there */
    bool has_cpu_times;   /* kernel_time and user_time are there */
    bool suspect;         /* what stands right behind is no record: `size` may be wrong */
    uint8_t group, type;  /* SYSTEM: hook id = group << 8 | type. type: CLASSIC too */
    uint8_t channel, level, opcode; /* level: CLASSIC too; opcode = type for all but MESSAGE */
    uint16_t version;               /* SYSTEM: low 8 bits of the field */
    uint16_t id;                    /* EVENT; MESSAGE: message number */
    uint16_t task;
    uint16_t flags;    /* EVENT: Flags; MESSAGE: flags; SYSTEM: the field Version unchanged */
    uint16_t property; /* EVENT: EventProperty */
    uint32_t pid, tid;
    uint32_t kernel_time, user_time;          /* clock ticks (TimerResolution each) */
    uint32_t instance_id, parent_instance_id; /* INSTANCE */
    uint32_t sequence;                        /* MESSAGE with a sequence number */
    uint32_t component;                       /* MESSAGE with a component id instead of a GUID */
    uint32_t size;     /* bytes of the record, header included, padding not */
    uint32_t buffer;   /* index of the buffer, as the framer was told */
    uint32_t cpu;      /* KDA_ETL_CPU_UNKNOWN if not known */
    uint64_t off;      /* file offset (compressed: that of the buffer plus the offset in its
                          decompressed bytes) or memory address, as the framer was told */
    uint64_t raw_time; /* in the session's clock */
    uint64_t keyword;
    const uint8_t *guid;        /* provider or class; NULL for SYSTEM */
    const uint8_t *activity;    /* EVENT */
    const uint8_t *related;     /* EVENT with an extended item of type 1 */
    const uint8_t *parent_guid; /* INSTANCE */
    const uint8_t *ext;         /* extended items, NULL if none; see kda_etl_ext_next */
    const uint8_t *counters;    /* SYSTEM: PEBS index and PMC counters before the payload */
    const uint8_t *bytes;       /* the whole record */
    const uint8_t *payload;     /* never NULL */
    uint32_t ext_size, counters_size, payload_size;
};

/* "SYSTEM32", "EVENT64", "MESSAGE", ...; "?" for numbers that are no header type. */
const char *kda_etl_header_name(enum kda_etl_header header);

/* One extended item; `data` lies in the record. */
struct kda_etl_ext {
    uint16_t type; /* enum kda_etl_ext_type, or a number that is not known */
    uint16_t size; /* bytes of data */
    const uint8_t *data;
};

/* Next item from *at (0 at first), which moves on. False after the last. Items were checked when
 * the record was framed, so this cannot fail. */
bool kda_etl_ext_next(const struct kda_etl_record *record, uint32_t *at, struct kda_etl_ext *item);
/* First item of a type; false if there is none. */
bool kda_etl_ext_find(const struct kda_etl_record *record, enum kda_etl_ext_type type,
                      struct kda_etl_ext *item);

/* ---- buffer headers ---- */

/* WMI_BUFFER_HEADER. BufferFlag bits and BufferType. */
enum {
    KDA_ETL_FLAG_FLUSH_MARKER = 0x01,
    KDA_ETL_FLAG_EVENTS_LOST = 0x02,
    KDA_ETL_FLAG_BUFFER_LOST = 0x04,
    KDA_ETL_FLAG_RTBACKUP_CORRUPT = 0x08,
    KDA_ETL_FLAG_RTBACKUP = 0x10,
    KDA_ETL_FLAG_PROC_INDEX = 0x20,
    KDA_ETL_FLAG_COMPRESSED = 0x40
};
enum kda_etl_buffer_type {
    KDA_ETL_BUFFER_GENERIC = 0,
    KDA_ETL_BUFFER_RUNDOWN = 1,
    KDA_ETL_BUFFER_CTX_SWAP = 2,
    KDA_ETL_BUFFER_REFTIME = 3,
    KDA_ETL_BUFFER_HEADER_TYPE = 4,
    KDA_ETL_BUFFER_BATCHED = 5,
    KDA_ETL_BUFFER_EMPTY_MARKER = 6,
    KDA_ETL_BUFFER_DBG_INFO = 7
};

struct kda_etl_buffer {
    uint32_t size; /* BufferSize: bytes in the file, header included */
    uint32_t used; /* bytes with records, header included, after decompression; 0: no field
                      of the header says so credibly */
    uint32_t saved_offset, current_offset, filled; /* the three fields as they stand */
    int32_t reference_count;
    uint64_t time; /* raw clock of the session; FILETIME in files that were merged */
    uint64_t sequence;
    uint32_t cpu;
    uint16_t logger_id;
    uint16_t flags, type; /* BufferFlag, BufferType */
    uint32_t state;
};

/* Reads the 72 bytes of a buffer header; `max_used` limits `used` (size of the session's buffers;
 * 0: none but BufferSize). False: these bytes are no buffer header. */
bool kda_etl_buffer_parse(const uint8_t bytes[KDA_ETL_BUFFER_HEADER], uint32_t max_used,
                          struct kda_etl_buffer *ret);

/* ---- framing ---- */

enum kda_etl_frame {
    KDA_ETL_FRAME_END,       /* end marker, or the end of the bytes */
    KDA_ETL_FRAME_RECORD,    /* *record is filled */
    KDA_ETL_FRAME_UNWRITTEN, /* *hole: room that was reserved and never written (0x00 or 0xFF) */
    KDA_ETL_FRAME_DAMAGED    /* *hole: bytes that are no record; framing goes on behind them */
};

/* Bytes that hold no record. */
struct kda_etl_hole {
    uint64_t off; /* like record.off */
    uint64_t bytes;
    const char *why; /* string constant */
};

/* Goes over the records of one buffer. After init the caller may set `exact`, `cursor` and
 * `last_time`, before the first record; the rest is private. */
struct kda_etl_framer {
    const uint8_t *bytes;
    size_t size;
    size_t cursor;      /* offset of the next record from `bytes` */
    uint64_t last_time; /* given to records without a time */
    bool exact;         /* `size` is what was written: 0xFF up to there is not filler but room that
                           was reserved and not written */
    uint64_t off;
    uint32_t buffer, cpu;
    uint64_t good_time; /* of the last record of these bytes that has one */
    uint32_t next_size;
};

/* `bytes` are borrowed: `size` of them, the buffer header included (records start at 72). `off` is
 * where bytes[0] stands: a file offset or an address. `size` is the used part; more is fine where
 * the rest is 0xFF. */
void kda_etl_framer_init(struct kda_etl_framer *framer, const uint8_t *bytes, size_t size,
                         uint64_t off, uint32_t buffer, uint32_t cpu);

/* Next record or hole. Never fails and always ends: each call moves at least 8 bytes on. After a
 * bad record it goes on at the next place where a chain of records starts. */
enum kda_etl_frame kda_etl_frame_next(struct kda_etl_framer *framer, struct kda_etl_record *record,
                                      struct kda_etl_hole *hole);

/* ---- time ---- */

enum kda_etl_clock_type {
    KDA_ETL_CLOCK_QPC = 1,
    KDA_ETL_CLOCK_SYSTEM = 2, /* raw times are FILETIME */
    KDA_ETL_CLOCK_CYCLES = 3
};

/* One moment in both units, and the speed of the raw clock. */
struct kda_etl_clock {
    enum kda_etl_clock_type type;
    uint64_t frequency; /* raw ticks per second; CYCLES: CpuSpeedInMHz * 10^6. 0: 10^7 */
    uint64_t raw;       /* raw time at `filetime` */
    uint64_t filetime;  /* 100 ns since 1601 UTC */
};

/* FILETIME of a raw time, rounded down to 100 ns; exact for every input, held at 0 and UINT64_MAX
 * where it would leave the range. Do not anchor a clock at BootTime: it is off by up to seconds. */
uint64_t kda_etl_clock_time(const struct kda_etl_clock *clock, uint64_t raw);

/* ---- files ---- */

#define KDA_ETL_MAX_BUFFER (64u << 20)  /* bytes of one buffer, decompressed */
#define KDA_ETL_MAX_MEMORY (1ull << 30) /* bytes of buffers held at a time */
#define KDA_ETL_MAX_DAMAGE 4096u        /* damages kept one by one; the rest is counted */
#define KDA_ETL_MAX_CPUS 2048u

/* LogFileMode bits that change how a file is read. */
enum {
    KDA_ETL_MODE_SEQUENTIAL = 0x1,
    KDA_ETL_MODE_CIRCULAR = 0x2,
    KDA_ETL_MODE_APPEND = 0x4,
    KDA_ETL_MODE_PREALLOCATE = 0x20,
    KDA_ETL_MODE_BUFFERING = 0x400,
    KDA_ETL_MODE_RELOG = 0x10000,
    KDA_ETL_MODE_COMPRESSED = 0x4000000
};

/* RTL COMPRESSION_FORMAT_ numbers. */
enum {
    KDA_ETL_COMPRESSION_LZNT1 = 2,
    KDA_ETL_COMPRESSION_XPRESS = 3, /* plain LZ77: the one that is read */
    KDA_ETL_COMPRESSION_XPRESS_HUFF = 4
};

/* What the first record (TRACE_LOGFILE_HEADER) and the walk over the buffer headers say. Strings
 * are UTF-8 and live as long as the file. */
struct kda_etl_info {
    uint64_t file_size;
    bool has_header;      /* false: the first record is damaged; there is no clock then */
    uint8_t pointer_size; /* of the logger: 4 or 8 */
    uint8_t os_major, os_minor, layout_major, layout_minor;
    uint32_t os_build;
    uint32_t buffer_size; /* of the session, decompressed */
    uint32_t processors;
    uint64_t start_time, end_time, boot_time; /* FILETIME; end 0: never closed */
    uint32_t timer_resolution;                /* 100 ns */
    uint32_t max_file_mib;
    uint32_t mode; /* LogFileMode */
    uint32_t buffers_written;
    uint32_t events_lost, buffers_lost; /* as the header says; UINT32_MAX is kept as it is */
    uint32_t cpu_mhz;
    int32_t bias_minutes; /* UTC = local + bias */
    uint32_t clock_field; /* ReservedFlags as it stands; the clock in use is in `clock` */
    struct kda_etl_clock clock;
    bool clock_guessed;                   /* type or frequency was 0 or unknown: QPC, 10^7 */
    const char *session_name, *file_name; /* "" if none */
    uint32_t compression;                 /* format number, 0 = not compressed */
    uint32_t buffers; /* found in the file, damaged ones that were read included */
    uint32_t compressed_buffers;
    uint32_t unread_buffers;                           /* compressed in a format that is not read */
    uint32_t events_lost_buffers, buffer_lost_buffers; /* with BufferFlag 0x02, 0x04 */
    uint32_t rtbackup_corrupt_buffers;                 /* with BufferFlag 0x08 */
    uint64_t used_bytes;                               /* sum of `used`, headers not included */
    uint64_t tail_zeros;                               /* bytes of zeros behind the last buffer */
    bool unfinished;                                   /* end_time is 0 */
    bool wrapped; /* circular, and the oldest buffers were overwritten */
};

/* One session of an appended file; other files have one. */
struct kda_etl_session {
    uint16_t logger_id;
    uint32_t first_buffer; /* index in the file */
    uint32_t buffers;
    uint64_t first_sequence, last_sequence;
    bool closed; /* its last buffer has the flush marker */
};

/* Buffers of one CPU. */
struct kda_etl_cpu {
    uint32_t cpu; /* KDA_ETL_CPU_UNKNOWN: buffers whose header is damaged */
    uint32_t buffers;
    uint64_t used_bytes;
};

enum kda_etl_damage_kind {
    KDA_ETL_DAMAGE_FILE,       /* bytes between buffers, a buffer cut off by the end of the file */
    KDA_ETL_DAMAGE_BUFFER,     /* a buffer, or its header; `lost` says whether it was read */
    KDA_ETL_DAMAGE_RECORD,     /* bytes inside a buffer that are no record */
    KDA_ETL_DAMAGE_UNWRITTEN,  /* room inside a buffer that was reserved and never written */
    KDA_ETL_DAMAGE_UNSUPPORTED /* a buffer in a compression format that is not read */
};

struct kda_etl_damage {
    enum kda_etl_damage_kind kind;
    bool lost;       /* bytes were skipped; false: repaired, everything there was read */
    uint64_t off;    /* like record.off */
    uint64_t bytes;  /* in the file; RECORD: of decompressed bytes */
    const char *why; /* string constant */
};

struct kda_etl;

/* Does the file begin with the header buffer of a trace? Not one that is damaged there, nor one
 * that cannot be opened. */
bool kda_etl_is_trace(const char *path);

/* Opens a file and walks its buffer headers. What is damaged is skipped and listed; only a file
 * without any trace buffer is refused. Errors: KDA_BAD_DATA (no trace buffer), KDA_IO,
 * KDA_NO_MEMORY, KDA_LIMIT. */
KDA_MUST_CHECK enum kda_status kda_etl_open(const char *path, struct kda_etl **ret,
                                            struct kda_error *err);
/* Same over bytes in memory, borrowed until close. */
KDA_MUST_CHECK enum kda_status kda_etl_open_memory(const void *bytes, size_t size, const char *name,
                                                   struct kda_etl **ret, struct kda_error *err);
void kda_etl_close(struct kda_etl *etl); /* NULL is allowed */

/* Next record in time order: the header buffer's first, then all CPUs merged; equal times by
 * buffer sequence, then offset. *ret is a view that lives until the next call on `etl`, NULL after
 * the last record. Holds one buffer per CPU. Damage that is met is added to the list. Errors:
 * KDA_IO, KDA_NO_MEMORY; the walk is over then. */
KDA_MUST_CHECK enum kda_status kda_etl_next(struct kda_etl *etl, const struct kda_etl_record **ret,
                                            struct kda_error *err);

enum kda_etl_order {
    KDA_ETL_TIME_ORDER,
    KDA_ETL_FILE_ORDER /* buffer by buffer as they stand: holds one buffer; for index passes */
};
/* The next kda_etl_next gives the first record again. Without a call the order is time order. */
void kda_etl_rewind(struct kda_etl *etl, enum kda_etl_order order);

/* FILETIME of a raw time of this file; false without a clock (has_header false). */
bool kda_etl_time(const struct kda_etl *etl, uint64_t raw, uint64_t *ret);

const struct kda_etl_info *kda_etl_info(const struct kda_etl *etl);
/* The file's name without folders; it lives as long as the handle. Rows carry it, so that the same
 * file gives the same rows anywhere. */
const char *kda_etl_name(const struct kda_etl *etl);
size_t kda_etl_session_count(const struct kda_etl *etl);
const struct kda_etl_session *kda_etl_session_at(const struct kda_etl *etl, size_t index);
size_t kda_etl_cpu_count(const struct kda_etl *etl);
const struct kda_etl_cpu *kda_etl_cpu_at(const struct kda_etl *etl, size_t index);

/* What was found so far: by open, and by the records read since the last rewind. */
size_t kda_etl_damage_count(const struct kda_etl *etl); /* all; _at has the first MAX_DAMAGE */
const struct kda_etl_damage *kda_etl_damage_at(const struct kda_etl *etl, size_t index);
/* "file", "buffer", "record", "unwritten", "unsupported". */
const char *kda_etl_damage_name(enum kda_etl_damage_kind kind);

/* ---- statistics ---- */

#define KDA_ETL_MAX_COUNTS 65536u /* different kinds of records counted; more share one entry */
#define KDA_ETL_COUNT_EXT 8u      /* extended items that tell one kind from another */

/* How many records are alike. Members that a header type does not have are 0. */
struct kda_etl_count {
    uint64_t count, bytes;
    enum kda_etl_header header;
    enum kda_etl_shape shape;
    bool has_guid;                         /* MESSAGE with a component id has none */
    bool others;                           /* the sum of all that are beyond the limit */
    bool more_ext;                         /* extended items beyond `ext` */
    uint8_t guid[16];                      /* provider or class */
    uint8_t group, type;                   /* SYSTEM; type: CLASSIC too */
    uint8_t opcode, level;                 /* EVENT */
    uint16_t id, version, flags, property; /* EVENT; id: MESSAGE; version: SYSTEM, CLASSIC */
    uint32_t component;
    size_t ext_count;
    struct {
        uint16_t type, size;
    } ext[KDA_ETL_COUNT_EXT]; /* size: of items that have the same in all records of a kind */
};

struct kda_etl_stats;
KDA_MUST_CHECK enum kda_status kda_etl_stats_create(struct kda_etl_stats **ret,
                                                    struct kda_error *err);
void kda_etl_stats_destroy(struct kda_etl_stats *stats); /* NULL is allowed */
/* Errors: KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_etl_stats_add(struct kda_etl_stats *stats,
                                                 const struct kda_etl_record *record,
                                                 struct kda_error *err);
/* Most records first. Ends the counting: nothing may be added after it. */
void kda_etl_stats_walk(struct kda_etl_stats *stats,
                        void (*put)(void *context, const struct kda_etl_count *count),
                        void *context);

#ifdef __cplusplus
}
#endif

#endif
