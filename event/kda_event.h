/*
 * kda_event.h - the contract: kinds, fields and the record that every event is, in the kernel and
 * in user mode.
 *
 * One record serves the driver's queue, the decoder of .etl files and the decoder of trace buffers
 * in memory images; docs/events.md, the JSON encoder and the tests are made from the lists below.
 *
 * A record is one block of memory, at most KDA_EVENT_MAX_BYTES:
 *
 *     struct kda_event | uint64_t slot[event.slots] | strings and byte blobs
 *
 * A kind has a shape; a shape is a list of fields; the n-th field of a shape owns slot n. A slot
 * holds a number, or the place of a string or blob (offset in the low, bytes in the high half),
 * or, for a field that could not be read, the reason. Strings are UTF-16 in machine order without
 * terminator. A record never leaves the machine that made it: what is stored is its JSON line.
 *
 * This header needs no operating system and no C library.
 */
#ifndef KDA_EVENT_H
#define KDA_EVENT_H

#include <stddef.h>
#include <stdint.h>

#include "kda_schema.h"

/* --- limits ---------------------------------------------------------------------------------- */

/* Longest UNICODE_STRING: its byte count is 16 bits and even. */
#define KDA_STRING_MAX_UNITS 32767u
/* Longest name of a registry value. */
#define KDA_VALUE_NAME_MAX_UNITS 16383u
/* Upper bound of the configured size of registry data kept per event. */
#define KDA_DATA_MAX_BYTES 32768u
#define KDA_DATA_DEFAULT_BYTES 4096u
#define KDA_EVENT_MAX_BYTES 262144u
#define KDA_EVENT_MAX_SLOTS 32u
#define KDA_EVENT_HEAD_BYTES 48u
/* A buffer of this size can hold the head and all slots of every kind. */
#define KDA_EVENT_MIN_BYTES (KDA_EVENT_HEAD_BYTES + 8u * KDA_EVENT_MAX_SLOTS)
/* Nesting of objects and arrays in a field of type OBJECT. */
#define KDA_OBJECT_MAX_DEPTH 4u

/* The largest registry event fits whole: image, key, value name, old and new data. */
_Static_assert(KDA_EVENT_MIN_BYTES + 2u * 2u * KDA_STRING_MAX_UNITS +
                       2u * KDA_VALUE_NAME_MAX_UNITS + 2u * KDA_DATA_MAX_BYTES + 64u <=
                   KDA_EVENT_MAX_BYTES,
               "a registry event with everything at its limit fits");

/* Values of head fields that are not known; the encoder leaves the field out. */
#define KDA_NO_ID UINT64_MAX
#define KDA_NO_PID UINT32_MAX
#define KDA_NO_TID UINT32_MAX
#define KDA_NO_CPU UINT16_MAX

#define H(shape)                                                                                   \
    _Static_assert(KDA_SLOTS_##shape <= (int)KDA_EVENT_MAX_SLOTS, "a bit for each field");         \
    _Static_assert(KDA_SLOT_##shape##_IMAGE == 1, "the common fields come first");
KDA_SHAPES(H)
#undef H

/* --- the record ------------------------------------------------------------------------------ */

/* In `flags`. */
#define KDA_EVENT_RELAXED 0x01u /* order across CPUs could not be guaranteed */
#define KDA_EVENT_NO_TIME 0x02u /* `time` is not known (memory decoder) */
#define KDA_EVENT_SPILLED 0x04u /* went through the ring of another CPU */

struct kda_event {
    /* Bytes of the whole record, a multiple of 8. Inside the ring this word is the ring's. */
    uint32_t size;
    uint16_t kind; /* enum kda_kind */
    uint8_t source;
    uint8_t flags;
    uint64_t time; /* performance counter, set by the push; see struct kda_clock */
    uint64_t id;   /* set by the consumer; KDA_NO_ID before */
    /* process.*: the subject. Everywhere else: who acts. */
    uint32_t pid;
    uint32_t tid;
    uint16_t cpu; /* set by the push */
    uint16_t slots;
    uint32_t present;   /* bit n: slot n holds a value */
    uint32_t omitted;   /* bit n: could not be read, slot n holds the reason; never also present */
    uint32_t truncated; /* bit n: present, but cut */
};

_Static_assert(sizeof(struct kda_event) == KDA_EVENT_HEAD_BYTES, "record head");
_Static_assert(offsetof(struct kda_event, size) == 0, "the ring's word is the first");
_Static_assert(offsetof(struct kda_event, kind) == 4, "record head");
_Static_assert(offsetof(struct kda_event, source) == 6, "record head");
_Static_assert(offsetof(struct kda_event, flags) == 7, "record head");
_Static_assert(offsetof(struct kda_event, time) == 8, "record head");
_Static_assert(offsetof(struct kda_event, id) == 16, "record head");
_Static_assert(offsetof(struct kda_event, pid) == 24, "record head");
_Static_assert(offsetof(struct kda_event, tid) == 28, "record head");
_Static_assert(offsetof(struct kda_event, cpu) == 32, "record head");
_Static_assert(offsetof(struct kda_event, slots) == 34, "record head");
_Static_assert(offsetof(struct kda_event, present) == 36, "record head");
_Static_assert(offsetof(struct kda_event, omitted) == 40, "record head");
_Static_assert(offsetof(struct kda_event, truncated) == 44, "record head");

/* One entry of a field of type COUNTS; kinds with count 0 are left out. */
struct kda_kind_count {
    uint32_t kind;
    uint32_t reserved;
    uint64_t count;
};
_Static_assert(sizeof(struct kda_kind_count) == 16, "entry of COUNTS");

/* A field of type OBJECT or ARRAY is a list of entries without padding: type (1 byte), 0 (1 byte),
 * bytes of the name (2), bytes of the value (4), name in UTF-8, value. Numbers are 8 bytes; the
 * value of a nested OBJECT or ARRAY is a list again; entries of an ARRAY have empty names. DATA
 * and COUNTS do not occur in it. */
#define KDA_OBJECT_ENTRY_BYTES 8u

/* --- description of kinds and fields --------------------------------------------------------- */

#define KDA_FIELD_KEY_BYTES 24u

struct kda_field_info {
    const char *name;
    char json[KDA_FIELD_KEY_BYTES]; /* ,"name": without NUL, so that it is copied whole */
    uint8_t json_size;
    uint8_t type; /* enum kda_type */
};

struct kda_kind_info {
    const char *name; /* "process.create"; NULL for numbers that are no kind */
    uint8_t class_;   /* enum kda_class */
    uint8_t shape;
    uint8_t slots;
    uint8_t name_size;
    const struct kda_field_info *fields;
};

extern const struct kda_kind_info kda_kinds[KDA_KIND_COUNT];
extern const uint8_t kda_class_percent[KDA_CLASS_COUNT];
/* Name of a value of an ENUMERATED type, padded so that it can be copied whole; NULL where it has
 * none. PROTECTION is made of two names and has no entry here. */
#define KDA_NAME_BYTES 32u
struct kda_name {
    char text[KDA_NAME_BYTES]; /* with NUL */
    uint8_t size;
};
const struct kda_name *kda_value_name(unsigned type, uint64_t value);

/* Texts by number; NULL where a number has none. */
const char *kda_source_name(unsigned source);
const char *kda_class_name(unsigned class_);
const char *kda_omit_reason_name(unsigned reason);
/* The slot is a place. `type` may be anything. */
static inline _Bool kda_type_is_variable(unsigned type)
{
#define T(name, variable, doc) | (uint32_t)(variable) << KDA_TYPE_##name
    return type < KDA_TYPE_COUNT && (((uint32_t)0 KDA_TYPES(T)) >> type & 1);
#undef T
}

static inline enum kda_class kda_class_of(unsigned kind)
{
    return kind < KDA_KIND_COUNT ? (enum kda_class)kda_kinds[kind].class_ : KDA_CLASS_REGISTRY;
}

/* --- building a record ----------------------------------------------------------------------- */

/* Writes into the caller's buffer and never past it. A string or blob that finds too little room
 * or is over its limit is cut and marked; one that finds no room at all is omitted with reason
 * `limit`. A call with a field of another kind, or of another type than the call is for, changes
 * nothing and sets `misused`, which tests assert never to be set. No call blocks, allocates or
 * looks at IRQL; strings are copied with plain loads, so memory that can fault has to be read
 * under the caller's guard (see kda_event_room). */
struct kda_event_builder {
    struct kda_event *event; /* NULL: the buffer was too small or the kind unknown */
    uint32_t capacity;
    uint32_t used;
    uint32_t list[KDA_OBJECT_MAX_DEPTH]; /* offsets of the size words of open lists */
    uint16_t object_slot;
    uint8_t depth;
    uint8_t misused;
};

/* `buffer` is aligned to 8 bytes and stays the caller's. False (and a builder whose calls do
 * nothing) if it has less than KDA_EVENT_MIN_BYTES or `kind` is none. Bytes over
 * KDA_EVENT_MAX_BYTES are not used. Head fields other than kind and source begin as unknown; the
 * caller sets event->pid and event->tid. */
_Bool kda_event_begin(struct kda_event_builder *b, void *buffer, size_t bytes, unsigned kind,
                      unsigned source);
/* Goes on with a complete record, a copy of which begins `buffer`: fields that it does not have can
 * be added. False if `buffer` is too small for the copy. */
_Bool kda_event_resume(struct kda_event_builder *b, void *buffer, size_t bytes,
                       const struct kda_event *event);
/* Numbers, hex, bool, status, times, enumerated. */
void kda_event_set(struct kda_event_builder *b, enum kda_field field, uint64_t value);
void kda_event_string(struct kda_event_builder *b, enum kda_field field, const uint16_t *units,
                      size_t count);
/* UTF8, BINARY, SID, IP (4 or 16 bytes, network order), GUID (16, memory order), DATA. `limit` is
 * the configured size for DATA and BINARY, 0 for none; SID, IP and GUID are never cut: a wrong
 * size is omitted as `failed`. */
void kda_event_bytes(struct kda_event_builder *b, enum kda_field field, const void *bytes,
                     size_t count, size_t limit);
/* UTF-8 text up to its NUL. */
void kda_event_text(struct kda_event_builder *b, enum kda_field field, const char *text);
void kda_event_omit(struct kda_event_builder *b, enum kda_field field, enum kda_omit_reason reason);
/* Marks a field that is present as cut by the caller. */
void kda_event_cut(struct kda_event_builder *b, enum kda_field field);
/* `counts` is indexed by kind, KDA_KIND_COUNT long; zeros are left out. */
void kda_event_counts(struct kda_event_builder *b, enum kda_field field, const uint64_t *counts);
/* protocol, transport, ip_version, addresses and ports of one flow; `version` is 4 or 6, an
 * address is NULL where it is not known. Ports are in host order. */
void kda_event_flow(struct kda_event_builder *b, unsigned protocol, unsigned version,
                    const void *local_ip, unsigned local_port, const void *remote_ip,
                    unsigned remote_port);

/* Free bytes where the next string or blob will go, for callers that read straight into the
 * record; at most `*bytes` are free. NULL if there is no room. Nothing is taken until
 * kda_event_take, which makes the first `bytes` of it the value of `field`. */
void *kda_event_room(struct kda_event_builder *b, size_t *bytes);
void kda_event_take(struct kda_event_builder *b, enum kda_field field, size_t bytes);

/* A field of type OBJECT: begin, entries, end; no string or blob of another field in between. An
 * entry that finds no room is left out and the field is marked as cut. `name` is UTF-8 with NUL,
 * NULL inside an array. */
void kda_event_object_begin(struct kda_event_builder *b, enum kda_field field);
void kda_event_object_number(struct kda_event_builder *b, const char *name, enum kda_type type,
                             uint64_t value);
void kda_event_object_bytes(struct kda_event_builder *b, const char *name, enum kda_type type,
                            const void *bytes, size_t count);
/* type: KDA_TYPE_OBJECT or KDA_TYPE_ARRAY. False if too deep or no room: then no close. */
_Bool kda_event_object_open(struct kda_event_builder *b, const char *name, enum kda_type type);
void kda_event_object_close(struct kda_event_builder *b);
void kda_event_object_end(struct kda_event_builder *b);

/* Completes the record and returns its bytes; 0 if begin had failed. */
size_t kda_event_end(struct kda_event_builder *b);

/* --- reading a record ------------------------------------------------------------------------ */

/* A place of a string or blob inside a record. */
struct kda_bytes {
    const uint8_t *at;
    size_t size;
};

/* True if `bytes` bytes at `record` (aligned to 8) begin with a record that is consistent: known
 * kind, size within `bytes`, masks and slots as the kind has them, every place inside. The
 * functions below, and the encoder, may be called on any record for which this was true, whoever
 * wrote it. */
_Bool kda_event_valid(const void *record, size_t bytes);
/* False if the field is not present, or not of this kind. Outputs untouched then. */
_Bool kda_event_get(const struct kda_event *event, enum kda_field field, uint64_t *value);
_Bool kda_event_get_bytes(const struct kda_event *event, enum kda_field field,
                          struct kda_bytes *value);
/* Reason of an omitted field; KDA_OMIT_NONE if it was not omitted. */
enum kda_omit_reason kda_event_omitted(const struct kda_event *event, enum kda_field field);

/* Walks a list of entries (value of OBJECT or ARRAY). Start with `rest` = the value; false at its
 * end, or where it is malformed (then rest->size is not 0). */
struct kda_object_entry {
    struct kda_bytes name;
    struct kda_bytes value;
    unsigned type;
};
_Bool kda_object_next(struct kda_bytes *rest, struct kda_object_entry *entry);

static inline const uint64_t *kda_event_slots(const struct kda_event *event)
{
    return (const uint64_t *)(const void *)(event + 1);
}

#endif
