/*
 * decode.h - the decoder's own pieces. Internal to lib/etl.
 */
#ifndef KDA_ETL_DECODE_H
#define KDA_ETL_DECODE_H

#include "builtin.h"
#include "describe.h"
#include "eventsource.h"
#include "kda/decode.h"
#include "kda_jsonl.h"
#include "mof.h"
#include "payload.h"
#include "registry.h"

#define KDA_DECODE_CACHE 1024u /* power of two */
#define KDA_DECODE_MAX_PROCESSES 1048576u
#define KDA_DECODE_MAX_STACK 1024u

/* The last events that were looked up: what describes them, and their provider's name. */
struct kda_decode_cached {
    uint8_t guid[16];
    uint16_t id;
    uint8_t version;
    bool classic, used;
    const struct kda_etl_template *t; /* NULL: not described */
    const char *provider_name;        /* nullable */
};

/* What is known of a process while the trace goes by. */
enum { KDA_PROCESS_SEEN = 1, KDA_PROCESS_WAITS_FOR_THREAD = 2 };

struct kda_etl_decoder {
    struct kda_decode_options options;
    struct kda_decode_filter filter;
    uint8_t filter_guid[16];
    bool filter_has_guid;
    /* Slots of fields that several kinds have, KDA_DECODE_NO_SLOT where one does not. */
    struct {
        uint8_t fields, extended, key;
    } slots[KDA_KIND_COUNT];
    struct kda_mof mof;
    struct kda_templates store;
    struct kda_map_list maps;
    struct kda_eventsource eventsource;
    struct kda_registry registry;
    struct kda_map processes; /* pid + 1 -> bits */
    struct kda_decode_learned learned;
    struct kda_clock clock; /* event times are FILETIME: it changes nothing */
    char *line;
    size_t line_capacity;
    struct kda_event_builder b;
    bool cached; /* the cache holds something */
    struct kda_decode_cached cache[KDA_DECODE_CACHE];
    uint64_t values[KDA_TEMPLATE_MAX_FIELDS];
    struct kda_place places[KDA_TEMPLATE_MAX_FIELDS];
    struct kda_etl_field builtin_fields[256];
    struct kda_etl_template builtin; /* the last one, over builtin_fields */
    struct kda_draft draft;
    char text[8 * 1024];
    uint64_t event[KDA_EVENT_MAX_BYTES / 8];
};

/* One call of kda_etl_decoder_decode. */
struct kda_decoding {
    struct kda_etl_decoder *d;
    const struct kda_etl_record *record;
    const struct kda_decode_place *place;
    unsigned class_; /* KDA_MOF_CLASS_COUNT: none of the kernel's */
};

/* ---- decode_write.c ---- */

/* Field of this name in the kind of an event. */
#define KDA_DECODE_NO_SLOT KDA_EVENT_MAX_SLOTS
unsigned kda_decode_slot(unsigned kind, const char *name);
enum kda_field kda_decode_field(unsigned kind, unsigned slot);

/* Begins the record's event: kind, source, time, CPU; pid and tid of the record's header. */
void kda_decode_begin(const struct kda_decoding *x, unsigned kind);
/* Begins an etw.event with provider, descriptor and names. Names are nullable. */
void kda_decode_begin_etw(const struct kda_decoding *x, const char *provider_name,
                          const char *event_name);
/* Adds the payload, and why it stands there. */
void kda_decode_put_payload(const struct kda_decoding *x, const char *why);
/* Walks a template of an event that is none of the kernel's. */
void kda_decode_template(const struct kda_decoding *x, const struct kda_etl_template *t,
                         const char *provider_name);

/* ---- decode_record.c ---- */

void kda_decode_record(const struct kda_decoding *x);

/* ---- decode_kernel.c ---- */

/* False where the table has no row for the record, or its payload fits none. */
bool kda_decode_kernel(const struct kda_decoding *x);
/* Finds the fields of a kernel record; false where they do not fit. `walk` keeps the choice of
 * pointer size. */
bool kda_decode_kernel_fit(struct kda_etl_decoder *d, const struct kda_etl_record *record,
                           const struct kda_mof_event *event, struct kda_payload *walk);

/* ---- decode_ext.c ---- */

/* Adds extended items, activities and counters. The event must be complete but for them. */
void kda_decode_ext(const struct kda_decoding *x);

/* ---- decode_filter.c ---- */

/* What can be said before decoding. */
bool kda_decode_wants_record(const struct kda_decoding *x);
bool kda_decode_wants_event(const struct kda_etl_decoder *d, const struct kda_event *event,
                            unsigned class_);

#endif
