/*
 * kda/buffers.h - the trace buffers of a session in a memory image: where they hang, what their
 * headers say, and their bytes.
 *
 * A buffer holds a session's events before (and often long after) they reach a file or a consumer.
 * This part hands out bytes; kda/etl.h turns bytes into records.
 *
 * Ownership: kda_etw_buffers_read gives the caller a handle to free; it borrows the kernel and the
 * model. Threads: one thread per kernel at a time.
 *
 * Source: WMI_BUFFER_HEADER, WMI_LOGGER_CONTEXT, ETW_BUFFER_QUEUE, ETW_SILO_TRACING_BLOCK,
 * ETW_REALTIME_CONSUMER of the kernels' PDBs (6.1.7601 .. 10.0.22000); docs/buffers.md says what
 * was checked and what is not known.
 */
#ifndef KDA_BUFFERS_H
#define KDA_BUFFERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/etw.h"
#include "kda/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Named limits. ETW refuses buffers over 16 MiB (evntrace.h, BufferSize). */
#define KDA_BUFFER_HEADER 72u
#define KDA_BUFFER_MAX_SIZE 0x1000000u
#define KDA_ETW_MAX_BUFFERS 65536u    /* of one session */
#define KDA_ETW_MAX_USER_PAGES 65536u /* of a consumer's buffer space that are looked at */

/* Where a buffer was found; bits. */
enum {
    KDA_BUFFER_GLOBAL = 1,        /* the session's list of all its buffers */
    KDA_BUFFER_FREE = 2,          /* queue of free buffers */
    KDA_BUFFER_OVERFLOW = 4,      /* queue of free buffers for the overflow */
    KDA_BUFFER_CPU = 8,           /* a CPU logs into it */
    KDA_BUFFER_CURRENT = 16,      /* the session logs into it, or the head of its batch */
    KDA_BUFFER_COMPRESSION = 32,  /* target of the compression */
    KDA_BUFFER_PLACEHOLDER = 64,  /* list of placeholders for compressed buffers */
    KDA_BUFFER_UNDELIVERED = 128, /* the first that a consumer has not got yet */
    KDA_BUFFER_CONSUMER = 256,    /* copy on a consumer's list, in the memory of its process */
    KDA_BUFFER_SPACE = 512,       /* copy in the space a consumer keeps for buffers */
};
#define KDA_BUFFER_PLACES 10u
/* "global", "free", ...: name of the bit with this number; NULL past the last. */
const char *kda_buffer_place_name(unsigned bit);

/* BufferState. Source: ETW_BUFFER_STATE (4 to 6 from 10.0.14393 on). */
enum {
    KDA_BUFFER_STATE_FREE,
    KDA_BUFFER_STATE_LOGGING,
    KDA_BUFFER_STATE_CSWITCH,
    KDA_BUFFER_STATE_FLUSH,
    KDA_BUFFER_STATE_PENDING_COMPRESSION,
    KDA_BUFFER_STATE_COMPRESSED,
    KDA_BUFFER_STATE_PLACEHOLDER,
};
/* "free", "logging", ...; NULL for a number that is no state. */
const char *kda_buffer_state_name(uint32_t state);

#define KDA_BUFFER_FLAG_PROC_INDEX 0x20u
#define KDA_BUFFER_FLAG_COMPRESSED 0x40u

struct kda_trace_buffer {
    uint64_t va;       /* of its header; a user address when `consumer` is set and !kernel */
    bool kernel;       /* in kernel memory; false: in the memory of the consumer's process */
    unsigned found_by; /* KDA_BUFFER_... */
    bool readable;     /* the header was read; all below is 0 otherwise */
    bool old;          /* free: what it holds was delivered before, and is there still */
    bool copy;         /* a kernel buffer of this session holds the same */
    bool overfull;     /* the last reservation did not fit: CurrentOffset lies beyond the end */
    bool has_slot_cpu; /* a CPU's slot names it */
    uint32_t slot_cpu; /* that CPU */
    const struct kda_etw_consumer *consumer; /* owner of a copy; who waits for it; or NULL */
    uint32_t size;                           /* BufferSize: bytes, header included */
    uint32_t saved_offset, current_offset, offset;
    uint32_t used;   /* bytes that may hold records, header included; at most `size` */
    bool used_known; /* an offset of the header says so; false: all of it may */
    int32_t references;
    uint64_t time; /* TimeStamp, raw clock of the session */
    uint64_t sequence;
    uint16_t cpu, logger_id;
    uint32_t state;
    uint16_t flags, type; /* BufferFlag, BufferType */
};

struct kda_etw_buffers;

/* Walks every list of the session's buffers that this build has. Memory that is missing becomes
 * gaps of the kernel ("buffers", "buffer", "consumer_buffers"); links that lead astray too. Errors:
 * KDA_NO_SYMBOL (the layout lacks the list of buffers), KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_etw_buffers_read(struct kda_kernel *kernel,
                                                    const struct kda_etw_session *session,
                                                    struct kda_etw_buffers **ret,
                                                    struct kda_error *err);
void kda_etw_buffers_free(struct kda_etw_buffers *buffers); /* NULL is allowed */

/* In the order of the list of all buffers, then the others as found. */
const struct kda_trace_buffer *kda_etw_buffers_list(const struct kda_etw_buffers *buffers,
                                                    size_t *count);

/* A part of a buffer whose page is not in the image. */
struct kda_buffer_hole {
    uint32_t off, size; /* bytes, from the buffer's header */
    enum kda_status reason;
};
struct kda_buffer_content {
    const uint8_t *bytes; /* `size` of them, header first; zeros in holes */
    uint32_t size;        /* the buffer's `used`; of a compressed one, what it unpacks to */
    const struct kda_buffer_hole *holes; /* in order, not touching */
    size_t hole_count;
};
/* The used bytes of a buffer of this handle, decompressed; *ret lives until the next call. Each
 * hole becomes a gap "buffer". Errors: KDA_USAGE (the header was not readable), KDA_LIMIT (the work
 * allowed for the image is used up), KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_etw_buffer_bytes(struct kda_etw_buffers *buffers,
                                                    const struct kda_trace_buffer *buffer,
                                                    struct kda_buffer_content *ret,
                                                    struct kda_error *err);

/* The clock that gives the session's raw times their meaning, as far as the image tells. */
struct kda_etw_clock {
    uint32_t type;          /* 1 QPC, 2 system time, 3 CPU cycles; 0 = unknown */
    uint64_t raw;           /* ReferenceTime: raw time ... */
    uint64_t time_100ns;    /* ... at this FILETIME; 0 = unknown */
    uint64_t frequency;     /* raw ticks per second; 0 = unknown */
    uint32_t cpu_mhz;       /* 0 = unknown */
    uint64_t qpc_frequency; /* of the performance counter; 0 = unknown */
};
/* Never fails: what cannot be read is unknown, and a gap "clock". */
void kda_etw_session_clock(struct kda_kernel *kernel, const struct kda_etw_session *session,
                           struct kda_etw_clock *ret);

#ifdef __cplusplus
}
#endif

#endif
