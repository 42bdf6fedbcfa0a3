/*
 * kda_out.h - bounded output of the encoder.
 *
 * kda_out_need(o, n) promises n bytes at o->at. As long as the buffer has them that is one compare.
 * Near its end the bytes go through `scratch`, which is moved over piece by piece, so that a line
 * that fits exactly is written and the size of one that does not fit is still counted.
 */
#ifndef KDA_OUT_H
#define KDA_OUT_H

#include "kda_jsonl.h"
#include "kda_platform.h"

#define KDA_OUT_SCRATCH 256u

struct kda_out {
    char *at;
    char *end;
    char *buffer;
    size_t capacity;
    size_t done; /* bytes of the line before scratch */
    struct kda_clock *clock;
    _Bool in_scratch;
    _Bool vectors;
    char scratch[KDA_OUT_SCRATCH];
};

void kda_out_begin(struct kda_out *o, char *buffer, size_t capacity);
/* Bytes of the whole line. */
size_t kda_out_end(struct kda_out *o);
void kda_out_more(struct kda_out *o);

static inline void kda_out_need(struct kda_out *o, size_t bytes)
{
    if (KDA_UNLIKELY((size_t)(o->end - o->at) < bytes))
        kda_out_more(o);
}

/* The functions below need the room to be there. A literal is copied with its known size. */
#define kda_out_literal(o, text)                                                                   \
    (kda_copy((o)->at, text, sizeof(text) - 1), (void)((o)->at += sizeof(text) - 1))

static inline void kda_out_char(struct kda_out *o, char c)
{
    *o->at++ = c;
}

static inline void kda_out_name(struct kda_out *o, const char *name)
{
    while (*name != '\0')
        *o->at++ = *name++;
}

static inline void kda_out_named(struct kda_out *o, const struct kda_name *name)
{
    kda_copy(o->at, name->text, KDA_NAME_BYTES);
    o->at += name->size;
}

#define KDA_DECIMAL_BYTES 20u
#define KDA_HEX_BYTES 16u

void kda_out_decimal(struct kda_out *o, uint64_t value);
/* At least `digits` digits, lower case, no prefix. */
void kda_out_hex(struct kda_out *o, uint64_t value, unsigned digits);
/* Two decimal digits; value < 100. */
void kda_out_two(struct kda_out *o, unsigned value);

/* With quotes; they look after their own room. */
void kda_out_utf16(struct kda_out *o, const uint8_t *at, size_t bytes);
void kda_out_utf8(struct kda_out *o, const uint8_t *at, size_t bytes);
/* The same for the key of an entry, and the colon. A key ends at its NUL, if it has one: many
 * readers do not take one in a key. */
void kda_out_key(struct kda_out *o, const uint8_t *at, size_t bytes);
void kda_out_binary(struct kda_out *o, const uint8_t *at, size_t bytes);
void kda_out_time(struct kda_out *o, uint64_t utc);
void kda_out_ip(struct kda_out *o, const uint8_t *at, size_t bytes);
void kda_out_sid(struct kda_out *o, const uint8_t *at, size_t bytes);
void kda_out_guid(struct kda_out *o, const uint8_t *at, size_t bytes);
void kda_out_status(struct kda_out *o, uint64_t value);
/* Registry data by its type; `has_type` is false where the type is not known. */
void kda_out_data(struct kda_out *o, const uint8_t *at, size_t bytes, _Bool has_type,
                  uint64_t type);
/* A number, or the name of one of an enumerated type. `type` is not variable. */
void kda_out_scalar(struct kda_out *o, unsigned type, uint64_t value);
/* The value of a variable type other than DATA. `list` is the whole value. */
void kda_out_blob(struct kda_out *o, unsigned type, struct kda_bytes value);

#endif
