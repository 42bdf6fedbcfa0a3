/*
 * template.h - what an event's payload looks like: fields in order, with types. One shape for all
 * descriptions (kernel tables, TraceLogging, TRACE_EVENT_INFO, manifests), so that one decoder
 * reads them all. Internal to lib/etl.
 */
#ifndef KDA_ETL_TEMPLATE_H
#define KDA_ETL_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fields of one event, members of structures included. The real ones stay below 200. */
#define KDA_TEMPLATE_MAX_FIELDS 1024u
/* Structures in structures. */
#define KDA_TEMPLATE_MAX_DEPTH 8u
/* Entries of a value map; of a bit map 64 can be shown at most. */
#define KDA_TEMPLATE_MAX_MAP 65536u
#define KDA_TEMPLATE_MAX_BITS 64u

/* Numbers of TDH_INTYPE (tdh.h); TraceLogging uses the same up to COUNTED_BINARY. */
enum kda_in_type {
    KDA_IN_NULL = 0,
    KDA_IN_UNICODE = 1,
    KDA_IN_ANSI = 2,
    KDA_IN_INT8 = 3,
    KDA_IN_UINT8 = 4,
    KDA_IN_INT16 = 5,
    KDA_IN_UINT16 = 6,
    KDA_IN_INT32 = 7,
    KDA_IN_UINT32 = 8,
    KDA_IN_INT64 = 9,
    KDA_IN_UINT64 = 10,
    KDA_IN_FLOAT = 11,
    KDA_IN_DOUBLE = 12,
    KDA_IN_BOOLEAN = 13,
    KDA_IN_BINARY = 14,
    KDA_IN_GUID = 15,
    KDA_IN_POINTER = 16,
    KDA_IN_FILETIME = 17,
    KDA_IN_SYSTEMTIME = 18,
    KDA_IN_SID = 19,
    KDA_IN_HEX32 = 20,
    KDA_IN_HEX64 = 21,
    KDA_IN_COUNTED_UNICODE = 22, /* u16 bytes, then the text */
    KDA_IN_COUNTED_ANSI = 23,
    KDA_IN_STRUCT = 24,
    KDA_IN_COUNTED_BINARY = 25,
    KDA_IN_WBEM_COUNTED_UNICODE = 300,
    KDA_IN_WBEM_COUNTED_ANSI = 301,
    KDA_IN_REVERSED_UNICODE = 302, /* the count is big-endian */
    KDA_IN_REVERSED_ANSI = 303,
    KDA_IN_REST_UNICODE = 304, /* without a NUL, to the end of the payload */
    KDA_IN_REST_ANSI = 305,
    KDA_IN_UNICODE_CHAR = 306,
    KDA_IN_ANSI_CHAR = 307,
    KDA_IN_SIZE = 308,
    KDA_IN_HEX_DUMP = 309, /* u32 bytes, then the data */
    KDA_IN_WBEM_SID = 310, /* TOKEN_USER and SID, or a null pointer */
};

/* How a value is shown; own numbers, made from TDH_OUTTYPE and TraceLogging's. */
enum kda_out_type {
    KDA_OUT_DEFAULT,
    KDA_OUT_STRING, /* 8- and 16-bit integers: characters */
    KDA_OUT_BOOL,
    KDA_OUT_HEX,
    KDA_OUT_PORT, /* network order */
    KDA_OUT_IPV4,
    KDA_OUT_IPV6,
    KDA_OUT_SOCKADDR,
    KDA_OUT_STATUS, /* NTSTATUS, HRESULT: eight hex digits */
    KDA_OUT_TIME,
    KDA_OUT_SIGNED,
    KDA_OUT_UNSIGNED,
    KDA_OUT_UTF8,
};

enum kda_out_type kda_out_type_of_tdh(unsigned out);
enum kda_out_type kda_out_type_of_tracelogging(unsigned out);

/* Name of a value, or of the bits of one. */
struct kda_etl_map_entry {
    uint32_t value;
    const char *name;
};
struct kda_etl_map {
    const char *name;
    bool bits;
    uint32_t count;
    const struct kda_etl_map_entry *entries; /* by value */
};

enum {
    KDA_FIELD_LENGTH_FIXED = 1,  /* `length` bytes or characters */
    KDA_FIELD_LENGTH_FIELD = 2,  /* `length` is the index of the field that says it */
    KDA_FIELD_COUNT_FIXED = 4,   /* an array of `count` items */
    KDA_FIELD_COUNT_FIELD = 8,   /* `count` is the index of the field that says it */
    KDA_FIELD_COUNT_PREFIX = 16, /* an array behind a u16 with its count */
    KDA_FIELD_COUNT_REST = 32,   /* an array to the end of the payload */
    KDA_FIELD_OPTIONAL = 64,     /* the payload may end before it */
    KDA_FIELD_LENGTH_REST = 128, /* the length is what the fields behind it leave */
    KDA_FIELD_HIDDEN = 256,      /* read and not shown */
    KDA_FIELD_PLACED = 512,      /* has a place of its own in the record */
};
#define KDA_FIELD_IS_ARRAY                                                                         \
    (KDA_FIELD_COUNT_FIXED | KDA_FIELD_COUNT_FIELD | KDA_FIELD_COUNT_PREFIX | KDA_FIELD_COUNT_REST)

struct kda_etl_field {
    const char *name; /* UTF-8 */
    const struct kda_etl_map *map;
    uint16_t in;  /* enum kda_in_type */
    uint16_t out; /* enum kda_out_type */
    uint16_t flags;
    uint16_t length, count;
    uint16_t next;           /* index of the field behind this one on the same level */
    uint16_t first, members; /* STRUCT */
    uint16_t target;         /* kernel tables: enum kda_mof_target */
};

struct kda_etl_template {
    const char *provider_name; /* nullable */
    const char *event_name;    /* nullable */
    const struct kda_etl_field *fields;
    uint16_t count;     /* of all fields */
    uint16_t top;       /* of those on the first level, which begins with field 0 */
    uint8_t version;    /* that the description is for */
    bool has_refs;      /* lengths or counts from other fields */
    bool flat;          /* kernel tables: each field is one value, no array, no structure */
    bool exact;         /* says nothing about counts: bytes left over prove it wrong */
    const char *origin; /* string constant, for messages */
};

/* True when the fields make a tree of bounded depth, references lead backwards to integers, and
 * every index is inside. Everything that came from a file passes here before it is used. */
bool kda_template_valid(const struct kda_etl_template *t);

/* True for types that hold an integer which may be a length or a count. */
bool kda_in_type_is_integer(unsigned in);

#endif
