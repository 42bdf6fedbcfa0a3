/*
 * kda/decode.h - what a trace record means: records of kda/etl.h become events of the schema
 * (docs/events.md).
 *
 * Records of the kernel become process.*, thread.*, image.*, network.* and registry.*, everything
 * else etw.event with its fields by name. Descriptions come, in this order, from manifests that the
 * user gives, from the trace itself (TraceLogging metadata, TRACE_EVENT_INFO, manifests of
 * EventSources) and from the built-in table. What has no description keeps its payload and says
 * why.
 *
 * A decoder is used in two passes over the same records: kda_etl_decoder_learn over all of them in
 * any order, because descriptions often stand at the end of a file, then kda_etl_decoder_decode in
 * the order of time. Records may come from several files or from memory, as long as they are of one
 * machine.
 *
 * Ownership: the caller's to destroy; events and lines are the decoder's, valid until the next call
 * with it. Memory: about 1 MiB, and what was learned, at most 200 MiB. Threads: one at a time per
 * decoder.
 */
#ifndef KDA_DECODE_H
#define KDA_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"
#include "kda/etl.h"

#ifdef __cplusplus
extern "C" {
#endif

struct kda_etl_decoder;
struct kda_event; /* event/kda_event.h */

/* Numbers of the schema. */
enum kda_decode_source { KDA_DECODE_ETL = 2, KDA_DECODE_MEMORY = 3 };

struct kda_decode_options {
    /* Name of a provider that no description names; NULL where there is none. Nullable. */
    const char *(*provider_name)(const uint8_t guid[16]);
    bool raw; /* nothing is decoded: every record is an etw.event with its payload */
};

/* Errors: KDA_NO_MEMORY. `options` is nullable. */
KDA_MUST_CHECK enum kda_status kda_etl_decoder_create(const struct kda_decode_options *options,
                                                      struct kda_etl_decoder **ret,
                                                      struct kda_error *err);
void kda_etl_decoder_destroy(struct kda_etl_decoder *decoder); /* NULL is allowed */

/* Reads an instrumentation manifest, or every .xml and .man file of a folder. Errors: KDA_IO,
 * KDA_ABSENT, KDA_BAD_DATA, KDA_UNSUPPORTED (built without an XML parser), KDA_LIMIT,
 * KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_etl_decoder_add_manifest(struct kda_etl_decoder *decoder,
                                                            const char *path,
                                                            struct kda_error *err);

/* First pass: takes what the record says about others. A description that is damaged is counted
 * and left out. Errors: KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_etl_decoder_learn(struct kda_etl_decoder *decoder,
                                                     const struct kda_etl_record *record,
                                                     struct kda_error *err);

/* What kda_etl_decoder_learn could not use. */
struct kda_decode_learned {
    uint64_t descriptions; /* templates kept */
    uint64_t damaged;      /* descriptions that are not well formed, or over a limit */
    char first_problem[200];
};
void kda_etl_decoder_learned(const struct kda_etl_decoder *decoder, struct kda_decode_learned *ret);

/* Which events are handed out. Strings are borrowed as long as the filter is in use. */
struct kda_decode_filter {
    uint64_t kinds; /* bit per kind of the schema; 0 = all */
    bool has_pid;
    uint64_t pid;          /* the event's own, or target, parent or creator */
    const char *provider;  /* GUID, or name, ASCII case ignored; of the kernel's own events the
                              class ("TcpIp") or "Windows Kernel" */
    const char *image;     /* part of `image`, `module` or `command_line`, ASCII case ignored */
    uint64_t since, until; /* FILETIME, 0 = open end; until is not included */
};
void kda_etl_decoder_filter(struct kda_etl_decoder *decoder,
                            const struct kda_decode_filter *filter); /* copied */

/* When a record was made, and where it was found. */
struct kda_decode_place {
    enum kda_decode_source source;
    bool has_time;
    uint64_t time; /* FILETIME */
    /* Memory: the record stands in a buffer that was given back; nullable, shown as
     * extended.buffer. */
    const char *state;
};

/* Second pass: the event of a record, NULL if the filter takes it. Never fails: what cannot be
 * decoded is an etw.event that says why. */
const struct kda_event *kda_etl_decoder_decode(struct kda_etl_decoder *decoder,
                                               const struct kda_etl_record *record,
                                               const struct kda_decode_place *place);

/* Something that is missing from a trace, as sensor.loss. */
struct kda_decode_loss {
    enum kda_decode_source source;
    bool damaged;             /* reason `damaged`, else `buffer_lost` */
    uint64_t events, buffers; /* 0 = not known */
    uint64_t bytes, off;      /* damaged: bytes that were skipped, and where */
    const char *why;          /* nullable */
    const char *file;         /* nullable */
    uint64_t time;            /* FILETIME of the line; 0 = not known */
};
/* NULL if the filter takes it. */
const struct kda_event *kda_etl_decoder_loss(struct kda_etl_decoder *decoder,
                                             const struct kda_decode_loss *loss);

/* The JSON line of an event, with its line end; NULL if memory ran out. `id` becomes the id of the
 * line, UINT64_MAX for none. */
const char *kda_etl_decoder_line(struct kda_etl_decoder *decoder, const struct kda_event *event,
                                 uint64_t id, size_t *size);

/* Ids of the events that the built-in table knows of a provider, one by one: false past the last.
 * An id comes once for each of its versions. `context` is not used (kda_audit_options.known_event).
 */
bool kda_etl_known_event(void *context, const uint8_t guid[16], size_t index, uint16_t *id);

#ifdef __cplusplus
}
#endif

#endif
