/*
 * etl_writer.h - writes .etl files of every kind for the tests and the bench: all record headers,
 * 32- and 64-bit, extended items, TraceLogging, compressed buffers, Windows 7 headers, appended,
 * circular, merged and unfinished files, loss flags.
 *
 * It shares no code with the readers in lib/etl: what it writes comes from the published layouts
 * (docs/etl.md), so that a reader is held against the format and not against itself. Errors of
 * memory or of a caller's numbers end the program.
 */
#ifndef KDA_TESTS_ETL_WRITER_H
#define KDA_TESTS_ETL_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "blob.h"

#define ETL_BUFFER_HEADER 72u
#define ETL_MAX_CPUS 256u

/* ---- records ---- */

enum etl_kind {
    ETL_SYSTEM,   /* 1, 2 */
    ETL_COMPACT,  /* 3, 4 */
    ETL_PERFINFO, /* 16, 17 */
    ETL_FULL,     /* 10, 20 */
    ETL_INSTANCE, /* 11, 21 */
    ETL_EVENT,    /* 18, 19 */
    ETL_ERROR,    /* 13 */
    ETL_MESSAGE,  /* WPP: flag byte 0x90 */
};

/* Types of extended items. */
enum {
    ETL_EXT_RELATED = 1,
    ETL_EXT_SID = 2,
    ETL_EXT_SESSION = 3,
    ETL_EXT_STACK32 = 5,
    ETL_EXT_STACK64 = 6,
    ETL_EXT_SCHEMA = 11,
    ETL_EXT_TRAITS = 12,
    ETL_EXT_START_KEY = 13,
};
struct etl_ext {
    uint16_t type;
    const void *data;
    uint16_t size; /* without head and padding */
};

/* Flags of a WPP message. */
enum {
    ETL_MSG_SEQUENCE = 0x01,
    ETL_MSG_GUID = 0x02,
    ETL_MSG_COMPONENT = 0x04,
    ETL_MSG_TIME = 0x08,
    ETL_MSG_PERF_TIME = 0x10,  /* beside ETL_MSG_TIME: of the performance counter */
    ETL_MSG_SYSTEMINFO = 0x20, /* thread and process */
    ETL_MSG_POINTER32 = 0x40,
    ETL_MSG_POINTER64 = 0x80,
};

/* One record; what its header does not have is ignored. */
struct etl_record {
    enum etl_kind kind;
    unsigned pointer_size; /* 4, or 8 (also when 0) */
    uint8_t group, type;   /* hook of the short headers; type is the opcode of the others */
    uint16_t version;      /* whole word of the short headers, PMC bits excepted */
    uint8_t level, channel;
    uint16_t id; /* event, or number of a message */
    uint16_t task;
    uint64_t keyword;
    uint32_t pid, tid;
    uint64_t time; /* raw */
    uint32_t kernel_time, user_time;
    uint8_t guid[16];     /* provider, class, or of the message */
    uint8_t activity[16]; /* ETL_EVENT */
    uint16_t flags;       /* of ETL_EVENT (bit 0 is set when there are items); of ETL_MESSAGE */
    uint16_t property;
    uint32_t sequence; /* of a message; component id with ETL_MSG_COMPONENT in `instance` */
    uint32_t instance, parent_instance;
    uint8_t parent_guid[16];
    bool pebs; /* short headers: 8 bytes of PEBS index before the payload */
    uint64_t pebs_index;
    const uint64_t *counters; /* short headers: at most 7 */
    size_t counter_count;
    const struct etl_ext *ext;
    size_t ext_count;
    const void *payload;
    size_t payload_size;
};

/* Appends the record, padded to 8 bytes (the padding is 0xCC, which means nothing). Returns its
 * size without padding. */
size_t etl_put_record(struct blob *out, const struct etl_record *record);
/* The number in the third byte of a record of this kind; 0 for a message. */
unsigned etl_header_type(enum etl_kind kind, unsigned pointer_size);

/* "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c" as it stands in a record. */
void etl_guid(const char *text, uint8_t guid[16]);

/* Strings as UTF-16 (ASCII only) or bytes, with their NUL. */
void etl_put_wide(struct blob *out, const char *text);
void etl_put_narrow(struct blob *out, const char *text);

/* ---- TraceLogging ---- */

/* Data of an ETL_EXT_SCHEMA item: begin, fields in order, end. `tag` takes 28 bits. */
void etl_schema_begin(struct blob *out, const char *event, uint32_t tag);
/* `in` and `out_type` as in the format (0x40 variable count, 0x20 constant count); out_type 0 with
 * tag 0 leaves the byte out. For a struct (24), out_type is the number of its members. */
void etl_schema_field(struct blob *out, const char *name, uint8_t in, uint8_t out_type,
                      uint32_t tag);
void etl_schema_count(struct blob *out, uint16_t count); /* behind a 0x20 field */
void etl_schema_end(struct blob *out);
/* Data of an ETL_EXT_TRAITS item; group nullable. */
void etl_put_traits(struct blob *out, const char *provider, const uint8_t *group);

/* ---- files ---- */

enum {
    ETL_FLAG_FLUSH_MARKER = 0x01,
    ETL_FLAG_EVENTS_LOST = 0x02,
    ETL_FLAG_BUFFER_LOST = 0x04,
    ETL_FLAG_PROC_INDEX = 0x20,
    ETL_FLAG_COMPRESSED = 0x40,
};
enum {
    ETL_MODE_CIRCULAR = 0x2,
    ETL_MODE_APPEND = 0x4,
    ETL_MODE_RELOG = 0x10000,
    ETL_MODE_COMPRESSED = 0x4000000,
    ETL_MODE_NO_PER_CPU = 0x10000000,
};

struct etl_params {
    unsigned pointer_size; /* of the logger */
    uint8_t os_major, os_minor, layout_major, layout_minor;
    uint32_t build;
    uint32_t buffer_size; /* at least 1024, a multiple of 8 */
    uint32_t cpus;
    uint32_t clock;     /* 1 QPC, 2 system time, 3 CPU cycles */
    uint64_t frequency; /* PerfFreq */
    uint32_t cpu_mhz;
    uint64_t start_100ns, start_raw; /* the pair that gives the raw clock its meaning */
    uint64_t boot_100ns, end_100ns;  /* end 0: never closed */
    uint32_t timer_resolution;
    uint32_t mode;
    uint32_t events_lost, buffers_lost;
    uint16_t logger_id;
    const char *name, *file;
    uint16_t
        compression; /* with ETL_MODE_COMPRESSED: the number in the header buffer, 3 = XPRESS */
    bool windows7;   /* buffer headers as Windows 7 wrote them */
    bool merged;     /* header buffer as merging leaves it: Offset beyond SavedOffset */
    const struct blob *header_records; /* more records of the header buffer, nullable */
    uint32_t circular_buffers; /* with ETL_MODE_CIRCULAR: data buffers before it wraps, 0 = never */
    FILE *stream;              /* finished buffers go here instead of `file`; nullable */
};

struct etl_writer {
    struct etl_params params;
    struct blob file;
    struct blob open[ETL_MAX_CPUS]; /* records of each CPU's buffer */
    uint64_t last_time[ETL_MAX_CPUS];
    uint64_t sequence;   /* of the next buffer */
    uint32_t written;    /* buffers so far, with the header buffer */
    uint16_t next_flags; /* for the next buffer only: ETL_FLAG_EVENTS_LOST ... */
    uint64_t records;
    size_t header_record; /* file offset of the first record */
};

/* A 64-bit file of Windows 11: QPC at 10 MHz, 64 KiB buffers, four CPUs, closed. */
struct etl_params etl_defaults(void);
void etl_begin(struct etl_writer *writer, const struct etl_params *params);
/* Into the buffer of `cpu`, which is written first if the record does not fit. */
void etl_add(struct etl_writer *writer, uint32_t cpu, const struct etl_record *record);
/* Bytes that are no record, or a damaged one. */
void etl_add_bytes(struct etl_writer *writer, uint32_t cpu, const void *bytes, size_t size);
/* Writes the CPU's buffer if it holds anything (`even_empty`: in any case). Returns the file offset
 * of the buffer. */
size_t etl_flush(struct etl_writer *writer, uint32_t cpu, bool even_empty);
/* The next session of an appended file: buffers are flushed, sequences start again. */
void etl_append_session(struct etl_writer *writer, uint16_t logger_id);
/* Flushes, marks the last buffer, sets the header's count of buffers. The file is in
 * writer->file. */
void etl_finish(struct etl_writer *writer);
void etl_writer_free(struct etl_writer *writer);

/* One buffer as it stands in a file: header and `records`, 0xFF behind them up to `size`. */
struct etl_buffer {
    uint32_t size; /* with header */
    uint16_t cpu;
    uint16_t logger_id;
    uint64_t time, sequence;
    uint32_t state;
    uint16_t flags, type;
    bool windows7;
};
void etl_put_buffer(struct blob *out, const struct etl_buffer *buffer, const void *records,
                    size_t size);

/* Plain LZ77 of MS-XCA, as compressed buffers hold it. */
void etl_compress(const uint8_t *bytes, size_t size, struct blob *out);

#endif
