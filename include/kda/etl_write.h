/*
 * kda/etl_write.h - writes an .etl file: one header buffer, then data buffers of records that were
 * framed elsewhere (kda/etl.h).
 *
 * Bytes go to a sink in file order, nothing is read back, so the sink may be a pipe; what the
 * header must know beforehand (the number of buffers) is asked for first. The file is what the
 * kernel writes: 64-bit, uncompressed buffers of one size, unused room 0xFF, no pointers in
 * headers.
 *
 * Ownership: kda_etl_writer_create gives the caller a handle that kda_etl_writer_close frees; the
 * options are borrowed for the call. Threads: one thread per writer.
 *
 * Source: WMI_BUFFER_HEADER and TRACE_LOGFILE_HEADER as files of Windows 7 to 11 have them;
 * docs/etl.md.
 */
#ifndef KDA_ETL_WRITE_H
#define KDA_ETL_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KDA_ETL_WRITE_MIN_BUFFER 1024u      /* bytes */
#define KDA_ETL_WRITE_MAX_BUFFER 0x1000000u /* bytes; ETW's own limit */

struct kda_etl_writer;

/* Takes all of `size` bytes or returns false, which ends the file. */
typedef bool (*kda_etl_write_fn)(void *context, const uint8_t *bytes, size_t size);

struct kda_etl_write_options {
    uint8_t os_major, os_minor;
    uint32_t os_build;
    uint32_t processors;  /* of the machine; at least 1 + the largest CPU number written */
    uint32_t buffer_size; /* bytes of each buffer, header included; a multiple of 8 */
    uint32_t buffers;     /* data buffers that will be written */
    uint32_t mode;        /* LogFileMode */
    uint16_t logger_id;
    uint32_t clock;                  /* 1 QPC, 2 system time, 3 CPU cycles */
    uint64_t start_raw, start_100ns; /* one moment in both clocks */
    uint64_t frequency;              /* of the performance counter */
    uint32_t cpu_mhz;                /* 0 = unknown */
    uint64_t end_100ns;              /* 0 = the file was never closed */
    uint64_t boot_100ns;             /* 0 = unknown */
    uint32_t timer_resolution;       /* 100 ns */
    uint32_t events_lost, buffers_lost;
    const char *session_name, *file_name; /* UTF-8; NULL = none; cut at 1024 UTF-16 units */
};

/* Writes the header buffer. Errors: KDA_USAGE (options that no file can have), KDA_IO (the sink
 * refused), KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_etl_writer_create(const struct kda_etl_write_options *options,
                                                     kda_etl_write_fn write, void *context,
                                                     struct kda_etl_writer **ret,
                                                     struct kda_error *err);

struct kda_etl_write_buffer {
    uint32_t cpu;
    uint64_t time;          /* raw, of the flush */
    uint16_t flags;         /* BufferFlag bits to set besides those of the form: losses */
    const uint8_t *records; /* whole records, each padded to 8 bytes */
    size_t size;
};
/* Appends a data buffer; buffers of one CPU go in the order of their time. Errors: KDA_USAGE (does
 * not fit, or one more than announced), KDA_IO. */
KDA_MUST_CHECK enum kda_status kda_etl_writer_buffer(struct kda_etl_writer *writer,
                                                     const struct kda_etl_write_buffer *buffer,
                                                     struct kda_error *err);

/* Frees the writer. KDA_USAGE when fewer buffers were written than announced. NULL is allowed. */
KDA_MUST_CHECK enum kda_status kda_etl_writer_close(struct kda_etl_writer *writer,
                                                    struct kda_error *err);

#ifdef __cplusplus
}
#endif

#endif
