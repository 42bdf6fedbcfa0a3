/*
 * payload.h - the one decoder of payloads: walks the bytes by a template, and either only measures
 * or writes entries into a record's object. Internal to lib/etl.
 */
#ifndef KDA_ETL_PAYLOAD_H
#define KDA_ETL_PAYLOAD_H

#include "kda_event.h"
#include "template.h"

/* Where the value of a field stands in the payload. */
struct kda_place {
    uint32_t off, size;
    bool present;
};

struct kda_payload {
    /* Set by the caller. */
    const uint8_t *bytes;
    uint32_t size;
    uint8_t pointer_size;
    bool sid_behind_null; /* WBEM_SID: a SID follows even a null TOKEN_USER */
    const struct kda_etl_template *t;
    struct kda_event_builder *out; /* an open object; NULL: measure only */
    bool skip_placed;              /* fields with a place of their own are not written */
    uint64_t *values;              /* KDA_TEMPLATE_MAX_FIELDS: integers read so far, by field */
    struct kda_place *places;      /* nullable: the same for places, first level only */
    /* Results. */
    uint32_t pos;   /* bytes read */
    uint32_t steps; /* fields and items that may still be visited */
    const char *problem;
    const struct kda_etl_field *problem_field;
};

/* False where the bytes do not fit; `problem` says why, and what was before it is written. */
bool kda_payload_walk(struct kda_payload *p);

/* Writes what a walk has found, for flat templates: `out` and `skip_placed` may have been set
 * since, and `places` are those that it filled in. */
void kda_payload_put(const struct kda_payload *p);

/* Writes one value as an entry of the open object. `bytes` are its bytes without a count. */
void kda_payload_emit(struct kda_event_builder *out, const struct kda_etl_field *f,
                      const char *name, const uint8_t *bytes, uint32_t size);
/* Arrays whose items are one text or blob: characters, bytes. */
bool kda_payload_emit_whole(struct kda_event_builder *out, const struct kda_etl_field *f,
                            const char *name, const uint8_t *bytes, uint32_t size);
/* Integer of 1, 2, 4 or 8 bytes, sign-extended for signed types. */
uint64_t kda_payload_integer(unsigned in, const uint8_t *bytes, uint32_t size);
/* Text of one-byte characters as UTF-8: as it is where it is valid, else taken as Latin-1. */
void kda_payload_ansi(struct kda_event_builder *out, const char *name, const uint8_t *bytes,
                      uint32_t size);
/* SYSTEMTIME (16 bytes) to FILETIME; false where it is no date. */
bool kda_payload_systemtime(const uint8_t *bytes, uint64_t *ret);
/* Bytes of the SID at `bytes`, 0 if there is none. */
uint32_t kda_payload_sid(const uint8_t *bytes, uint32_t left);

#endif
