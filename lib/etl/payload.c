/*
 * payload.c - walking a payload by its template. Every read is inside the payload, every loop moves
 * on or ends.
 */
#include "payload.h"

#include "bytes.h"

static bool fail(struct kda_payload *p, const struct kda_etl_field *f, const char *problem)
{
    p->problem = problem;
    p->problem_field = f;
    return false;
}

/* Fields and items are bounded by the payload, but for those that take no bytes of it: arrays of
 * nothing in arrays of nothing would never end. */
#define STEPS_PER_BYTE 8u
#define FREE_STEPS 64u

static bool step(struct kda_payload *p, const struct kda_etl_field *f)
{
    if (p->steps == 0)
        return fail(p, f, "has more items than the payload can hold");
    p->steps--;
    return true;
}

static uint32_t left(const struct kda_payload *p)
{
    return p->size - p->pos;
}

/* ---- sizes ---- */

/* Bytes of types whose size does not depend on the payload; 0 for others. */
static uint32_t fixed_size(const struct kda_payload *p, const struct kda_etl_field *f)
{
    static const uint8_t sizes[] = {
        [KDA_IN_INT8] = 1,        [KDA_IN_UINT8] = 1,  [KDA_IN_INT16] = 2, [KDA_IN_UINT16] = 2,
        [KDA_IN_INT32] = 4,       [KDA_IN_UINT32] = 4, [KDA_IN_INT64] = 8, [KDA_IN_UINT64] = 8,
        [KDA_IN_FLOAT] = 4,       [KDA_IN_DOUBLE] = 8, [KDA_IN_GUID] = 16, [KDA_IN_FILETIME] = 8,
        [KDA_IN_SYSTEMTIME] = 16, [KDA_IN_HEX32] = 4,  [KDA_IN_HEX64] = 8,
    };
    if (f->in < sizeof(sizes) && sizes[f->in] != 0)
        return sizes[f->in];
    switch (f->in) {
    case KDA_IN_POINTER:
    case KDA_IN_SIZE:
        return p->pointer_size;
    case KDA_IN_BOOLEAN:
        return f->flags & KDA_FIELD_LENGTH_FIXED && f->length == 1 ? 1 : 4;
    case KDA_IN_UNICODE_CHAR:
        return 2;
    case KDA_IN_ANSI_CHAR:
        return 1;
    default:
        return 0;
    }
}

static bool given_length(const struct kda_payload *p, const struct kda_etl_field *f, uint64_t *ret)
{
    if (f->flags & KDA_FIELD_LENGTH_FIELD)
        *ret = p->values[f->length];
    else if (f->flags & KDA_FIELD_LENGTH_FIXED)
        *ret = f->length;
    else
        return false;
    return true;
}

static uint32_t unicode_to_nul(const uint8_t *bytes, uint32_t rest)
{
    uint32_t n = 0;
    while (rest - n >= 2 && (bytes[n] | bytes[n + 1]) != 0)
        n += 2;
    return n;
}

/* What the fields behind `f` on its level need, if that does not depend on the payload. */
static bool size_behind(const struct kda_payload *p, const struct kda_etl_field *f, uint64_t *ret)
{
    const struct kda_etl_template *t = p->t;
    uint64_t sum = 0;
    for (unsigned at = f->next; at < t->count; at = t->fields[at].next) {
        const struct kda_etl_field *behind = &t->fields[at];
        uint64_t size = fixed_size(p, behind);
        if (size == 0 && behind->in == KDA_IN_BINARY && behind->flags & KDA_FIELD_LENGTH_FIXED)
            size = behind->length;
        if (size == 0 || behind->flags & KDA_FIELD_IS_ARRAY)
            return false;
        sum += size;
    }
    *ret = sum;
    return true;
}

/* One value: its bytes without counts and terminators, at p->pos + *skip; p->pos is not moved.
 * *whole is what it takes of the payload. */
struct extent {
    uint32_t skip, size, whole;
};

static bool text_extent(struct kda_payload *p, const struct kda_etl_field *f, bool wide,
                        struct extent *e)
{
    const uint8_t *at = p->bytes + p->pos;
    uint64_t length;
    uint32_t unit = wide ? 2 : 1;
    if (given_length(p, f, &length)) {
        if (length > left(p) / unit)
            return fail(p, f, "is longer than the payload");
        e->whole = (uint32_t)length * unit;
        e->size = wide ? unicode_to_nul(at, e->whole) : e->whole;
        for (uint32_t i = 0; !wide && i < e->size; i++)
            if (at[i] == 0)
                e->size = i;
        return true;
    }
    if (wide) {
        e->size = unicode_to_nul(at, left(p));
    } else {
        const uint8_t *nul = memchr(at, 0, left(p));
        e->size = nul ? (uint32_t)(nul - at) : left(p);
    }
    /* The last string of a payload may come without its NUL. */
    e->whole = left(p) - e->size < unit ? left(p) : e->size + unit;
    return true;
}

/* Values behind their own count of bytes. */
static bool counted_extent(struct kda_payload *p, const struct kda_etl_field *f, struct extent *e)
{
    const uint8_t *at = p->bytes + p->pos;
    uint32_t head = f->in == KDA_IN_HEX_DUMP ? 4 : 2;
    if (left(p) < head)
        return fail(p, f, "is missing");
    e->skip = head;
    if (head == 4)
        e->size = kda_le32(at);
    else if (f->in == KDA_IN_REVERSED_UNICODE || f->in == KDA_IN_REVERSED_ANSI)
        e->size = (uint32_t)at[0] << 8 | at[1];
    else
        e->size = kda_le16(at);
    if (e->size > left(p) - head)
        return fail(p, f, "is longer than the payload");
    e->whole = head + e->size;
    return true;
}

/* TOKEN_USER (pointer, attributes, padding) and the SID behind it. */
static bool wbem_sid_extent(struct kda_payload *p, const struct kda_etl_field *f, struct extent *e)
{
    const uint8_t *at = p->bytes + p->pos;
    if (left(p) < 4)
        return fail(p, f, "is missing");
    if (kda_le32(at) == 0 && !p->sid_behind_null) {
        e->whole = 4;
        return true;
    }
    e->skip = 2u * p->pointer_size;
    if (left(p) < e->skip)
        return fail(p, f, "is missing");
    e->size = kda_payload_sid(at + e->skip, left(p) - e->skip);
    if (e->size == 0)
        return fail(p, f, "is no SID");
    /* A null TOKEN_USER proves nothing: only a SID that looks like one does. */
    static const uint8_t zeros[4];
    if (p->sid_behind_null && kda_le32(at) == 0 && memcmp(at + e->skip + 2, zeros, 4) != 0)
        return fail(p, f, "is no SID");
    e->whole = e->skip + e->size;
    return true;
}

static bool binary_extent(struct kda_payload *p, const struct kda_etl_field *f, struct extent *e)
{
    uint64_t length, behind;
    if (given_length(p, f, &length) && !(length == 0 && f->out == KDA_OUT_IPV6)) {
        if (length > left(p))
            return fail(p, f, "is longer than the payload");
    } else if (f->out == KDA_OUT_IPV6) {
        if (left(p) < 16)
            return fail(p, f, "is missing");
        length = 16;
    } else {
        if (!(f->flags & KDA_FIELD_LENGTH_REST) || !size_behind(p, f, &behind))
            return fail(p, f, "has a length that its description does not say");
        if (behind > left(p))
            return fail(p, f, "is missing");
        length = left(p) - behind;
    }
    e->size = e->whole = (uint32_t)length;
    return true;
}

/* For what has no fixed size. */
static bool extent_of(struct kda_payload *p, const struct kda_etl_field *f, struct extent *e)
{
    *e = (struct extent){0, 0, 0};
    switch (f->in) {
    case KDA_IN_UNICODE:
    case KDA_IN_ANSI:
        return text_extent(p, f, f->in == KDA_IN_UNICODE, e);
    case KDA_IN_REST_UNICODE:
    case KDA_IN_REST_ANSI:
        e->size = e->whole = left(p);
        return true;
    case KDA_IN_COUNTED_UNICODE:
    case KDA_IN_COUNTED_ANSI:
    case KDA_IN_COUNTED_BINARY:
    case KDA_IN_WBEM_COUNTED_UNICODE:
    case KDA_IN_WBEM_COUNTED_ANSI:
    case KDA_IN_REVERSED_UNICODE:
    case KDA_IN_REVERSED_ANSI:
    case KDA_IN_HEX_DUMP:
        return counted_extent(p, f, e);
    case KDA_IN_BINARY:
        return binary_extent(p, f, e);
    case KDA_IN_SID:
        e->size = e->whole = kda_payload_sid(p->bytes + p->pos, left(p));
        return e->size != 0 || fail(p, f, "is no SID");
    case KDA_IN_WBEM_SID:
        return wbem_sid_extent(p, f, e);
    case KDA_IN_NULL:
        return true;
    default:
        return fail(p, f, "is of a type that is not known");
    }
}

/* ---- the walk ---- */

static bool group(struct kda_payload *p, unsigned first, unsigned members);

static bool shown(const struct kda_payload *p, const struct kda_etl_field *f)
{
    return p->out && !(f->flags & KDA_FIELD_HIDDEN) &&
           !(p->skip_placed && f->flags & KDA_FIELD_PLACED);
}

/* A value whose bytes are at p->pos + skip. `name` is NULL for items of an array. */
static inline void value(struct kda_payload *p, unsigned index, const char *name, uint32_t skip,
                         uint32_t size)
{
    const struct kda_etl_field *f = &p->t->fields[index];
    const uint8_t *at = p->bytes + p->pos + skip;
    if (p->t->has_refs && kda_in_type_is_integer(f->in))
        p->values[index] = kda_payload_integer(f->in, at, size);
    if (p->places && name)
        p->places[index] = (struct kda_place){p->pos + skip, size, true};
    if (shown(p, f))
        kda_payload_emit(p->out, f, name, at, size);
}

static bool item(struct kda_payload *p, unsigned index, const char *name)
{
    const struct kda_etl_field *f = &p->t->fields[index];
    uint32_t size = fixed_size(p, f);
    struct extent e;
    if (size != 0) {
        if (left(p) < size)
            return fail(p, f, "is missing");
        value(p, index, name, 0, size);
        p->pos += size;
        return true;
    }
    if (!extent_of(p, f, &e))
        return false;
    value(p, index, name, e.skip, e.size);
    p->pos += e.whole;
    return true;
}

/* Members of one structure; without output where the object has no more levels. */
static bool structure(struct kda_payload *p, const struct kda_etl_field *f, const char *name)
{
    struct kda_event_builder *out = p->out;
    struct kda_place *places = p->places;
    bool open = out && kda_event_object_open(out, name, KDA_TYPE_OBJECT);
    p->places = NULL;
    if (!open)
        p->out = NULL;
    bool fits = group(p, f->first, f->members);
    p->out = out;
    p->places = places;
    if (open)
        kda_event_object_close(out);
    return fits;
}

static bool count_of(struct kda_payload *p, const struct kda_etl_field *f, uint64_t *ret)
{
    if (f->flags & KDA_FIELD_COUNT_FIELD) {
        *ret = p->values[f->count];
    } else if (f->flags & KDA_FIELD_COUNT_FIXED) {
        *ret = f->count;
    } else if (f->flags & KDA_FIELD_COUNT_REST) {
        *ret = UINT64_MAX;
    } else {
        if (left(p) < 2)
            return fail(p, f, "is missing");
        *ret = kda_le16(p->bytes + p->pos);
        p->pos += 2;
    }
    return true;
}

static bool items(struct kda_payload *p, unsigned index, uint64_t count)
{
    const struct kda_etl_field *f = &p->t->fields[index];
    bool to_end = count == UINT64_MAX;
    for (uint64_t i = 0; i < count && !(to_end && left(p) == 0); i++) {
        if (!step(p, f))
            return false;
        bool fits = f->in == KDA_IN_STRUCT ? structure(p, f, NULL) : item(p, index, NULL);
        if (!fits)
            return false;
    }
    return true;
}

/* Items of one size, which are all there; without a step each, since each takes bytes. Those that
 * are not written are passed at once: stacks make up most of a trace. */
static void fixed_items(struct kda_payload *p, unsigned index, uint32_t count, uint32_t size)
{
    if (!p->out && !p->t->has_refs) {
        p->pos += count * size;
        return;
    }
    for (uint32_t i = 0; i < count; i++, p->pos += size)
        value(p, index, NULL, 0, size);
}

static bool array(struct kda_payload *p, unsigned index)
{
    const struct kda_etl_field *f = &p->t->fields[index];
    struct kda_event_builder *out = p->out;
    struct kda_place *places = p->places;
    uint64_t count;
    if (!count_of(p, f, &count))
        return false;
    uint32_t size = f->in == KDA_IN_STRUCT ? 0 : fixed_size(p, f);
    if (size != 0 && count != UINT64_MAX && count > left(p) / size)
        return fail(p, f, "has more items than the payload");
    if (shown(p, f) && size != 0) {
        uint32_t bytes = count == UINT64_MAX ? left(p) : (uint32_t)count * size;
        if (kda_payload_emit_whole(out, f, f->name, p->bytes + p->pos, bytes)) {
            p->pos += bytes;
            return true;
        }
    }
    if (size != 0 && count == UINT64_MAX && left(p) % size == 0)
        count = left(p) / size;
    bool open = shown(p, f) && kda_event_object_open(out, f->name, KDA_TYPE_ARRAY);
    bool fits = true;
    p->places = NULL;
    if (!open)
        p->out = NULL;
    if (size != 0 && count != UINT64_MAX)
        fixed_items(p, index, (uint32_t)count, size);
    else
        fits = items(p, index, count);
    p->out = out;
    p->places = places;
    if (open)
        kda_event_object_close(out);
    return fits;
}

static bool group(struct kda_payload *p, unsigned first, unsigned members)
{
    unsigned at = first;
    for (unsigned n = 0; n < members; n++) {
        const struct kda_etl_field *f = &p->t->fields[at];
        bool fits = true;
        if (f->flags & KDA_FIELD_OPTIONAL && left(p) == 0)
            return true;
        if (!step(p, f))
            return false;
        if (f->flags & KDA_FIELD_IS_ARRAY)
            fits = array(p, at);
        else if (f->in == KDA_IN_STRUCT)
            fits = structure(p, f, f->name);
        else
            fits = item(p, at, f->name);
        if (!fits)
            return false;
        at = f->next;
    }
    return true;
}

bool kda_payload_walk(struct kda_payload *p)
{
    p->pos = 0;
    p->steps = p->t->count + STEPS_PER_BYTE * p->size + FREE_STEPS;
    p->problem = NULL;
    p->problem_field = NULL;
    if (p->t->has_refs)
        memset(p->values, 0, p->t->count * sizeof(*p->values));
    if (p->places)
        memset(p->places, 0, p->t->count * sizeof(*p->places));
    return group(p, 0, p->t->top);
}

void kda_payload_put(const struct kda_payload *p)
{
    for (unsigned i = 0; i < p->t->count; i++) {
        const struct kda_etl_field *f = &p->t->fields[i];
        const struct kda_place *place = &p->places[i];
        if (place->present && shown(p, f))
            kda_payload_emit(p->out, f, f->name, p->bytes + place->off, place->size);
    }
}
