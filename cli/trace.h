/*
 * trace.h - a session's buffers in memory as records: what `kda buffers` and `kda events IMAGE`
 * share. This is where the model of the kernel (kda/buffers.h) and the reader of records
 * (kda/etl.h) meet.
 */
#ifndef KDA_CLI_TRACE_H
#define KDA_CLI_TRACE_H

#include "cli.h"

#include "kda/buffers.h"
#include "kda/etl.h"
#include "kda/etl_write.h"

/* Bytes that are written of a session's buffers, or held of those of all sessions: far above what a
 * machine keeps in them, and an end for headers that lie. */
#define TRACE_MAX_FILE ((uint64_t)4 << 30)
#define TRACE_MAX_HELD ((uint64_t)1 << 30)

/* One buffer that goes into a file, in the order of the file. */
struct trace_part {
    const struct kda_trace_buffer *buffer;
    const struct kda_trace_facts *facts;
};

/* A session's buffers, framed. Borrows the session; trace_close frees. */
struct trace {
    struct cli *cli;
    const struct kda_etw_session *session;
    struct kda_etw_buffers *buffers;
    const struct kda_trace_buffer *rows;
    struct kda_trace_facts *facts; /* one per row */
    size_t row_count;
    struct kda_etw_clock clock;
    uint8_t *packed; /* whole records of the buffer framed last */
    size_t packed_size, packed_capacity;
    struct trace_part *parts; /* trace_select */
    size_t part_count;
    uint32_t file_buffer_size;
    uint64_t records, unwritten, damaged; /* of the parts */
    size_t old_left_out;                  /* free buffers with records that were not asked for */
};

/* Reads and frames every buffer of the session. CLI_DONE, or the exit code after a message. */
int trace_open(struct cli *cli, const struct kda_etw_session *session, struct trace *ret);
void trace_close(struct trace *trace);

/* Chooses what a file or a decoder gets: buffers with records, copies left out, free ones only when
 * `old`; sorted by their first record. `compact`: buffers as large as needed, not as the session's.
 * Takes from *room what the file will have; what does not fit is left out with a gap. */
int trace_select(struct trace *trace, bool old, bool compact, uint64_t *room);
/* The selected buffers as an .etl file. CLI_DONE, or the exit code after a message (a sink that
 * refuses gives CLI_INTERNAL without one). */
int trace_write(struct trace *trace, kda_etl_write_fn write, void *context);

#endif
