/*
 * tracelogging.c - the metadata that TraceLogging events carry about themselves.
 *
 * Source: TraceLoggingDynamic.h of microsoft/tracelogging; docs/decoding.md.
 */
#include "describe.h"

#define IN_MASK 0x1fu
#define COUNT_MASK 0x60u
#define COUNT_CONST 0x20u
#define COUNT_VARIABLE 0x40u
#define COUNT_CUSTOM 0x60u
#define CHAIN 0x80u
#define STRUCT_MEMBERS 0x7fu

const char *kda_draft_text(struct kda_draft *draft, const char *text, size_t size)
{
    if (size >= sizeof(draft->text) - draft->text_used)
        return NULL;
    char *to = draft->text + draft->text_used;
    memcpy(to, text, size);
    to[size] = '\0';
    draft->text_used += size + 1;
    return to;
}

/* Tags: seven bits a byte, the high bit says that another follows. */
static void skip_tag(struct kda_cursor *c, unsigned max)
{
    while (max-- > 0 && (kda_take8(c) & CHAIN) && !c->failed)
        ;
}

/* Types in which a TraceLogging number means another layout than TDH's. */
static uint16_t in_type(unsigned in)
{
    return in == KDA_IN_BINARY ? KDA_IN_COUNTED_BINARY : (uint16_t)in;
}

/* Name, types, tag, count of one field. */
static const char *take_field(struct kda_cursor *c, struct kda_etl_field *f)
{
    f->name = kda_take_cstr(c);
    unsigned in = kda_take8(c), out = in & CHAIN ? kda_take8(c) : 0;
    if (out & CHAIN)
        skip_tag(c, 4);
    unsigned counting = in & COUNT_MASK;
    if (counting == COUNT_CONST) {
        f->flags |= KDA_FIELD_COUNT_FIXED;
        f->count = kda_take16(c);
    } else if (counting == COUNT_VARIABLE) {
        f->flags |= KDA_FIELD_COUNT_PREFIX;
    } else if (counting == COUNT_CUSTOM) {
        /* A schema of its own kind (protobuf, bond): the value is u16 bytes and those bytes. */
        (void)kda_take(c, kda_take16(c));
        f->in = KDA_IN_COUNTED_BINARY;
        return NULL;
    }
    f->in = in_type(in & IN_MASK);
    if (f->in == KDA_IN_STRUCT)
        f->members = (uint16_t)(out & STRUCT_MEMBERS);
    else
        f->out = (uint16_t)kda_out_type_of_tracelogging(out & ~CHAIN);
    if (f->in == KDA_IN_NULL || f->in > KDA_IN_COUNTED_BINARY)
        return "the metadata has a type that is not known";
    return NULL;
}

/* Structures have their members right behind them, in the one list of fields; `next` of a
 * structure leads over them. */
struct level {
    uint16_t field; /* of the structure */
    uint16_t left;  /* members that are still to come */
};

struct builder {
    struct kda_etl_field *fields;
    unsigned count, top, depth;
    struct level levels[KDA_TEMPLATE_MAX_DEPTH];
};

/* A field is complete: so may be the structures that it ends. */
static void close_levels(struct builder *b)
{
    while (b->depth > 0 && b->levels[b->depth - 1].left == 0) {
        b->depth--;
        b->fields[b->levels[b->depth].field].next = (uint16_t)b->count;
    }
}

static const char *add_field(struct builder *b, struct kda_cursor *c)
{
    if (b->count == KDA_TEMPLATE_MAX_FIELDS)
        return "the metadata has more fields than are read";
    struct kda_etl_field *f = &b->fields[b->count];
    memset(f, 0, sizeof(*f));
    const char *problem = take_field(c, f);
    if (problem || c->failed)
        return problem ? problem : "the metadata ends within a field";
    if (b->depth == 0)
        b->top++;
    else
        b->levels[b->depth - 1].left--;
    b->count++;
    f->next = (uint16_t)b->count;
    f->first = (uint16_t)b->count;
    if (f->in == KDA_IN_STRUCT && f->members > 0) {
        if (b->depth == KDA_TEMPLATE_MAX_DEPTH)
            return "the metadata nests structures too deeply";
        b->levels[b->depth].field = (uint16_t)(b->count - 1);
        b->levels[b->depth].left = f->members;
        b->depth++;
        return NULL;
    }
    close_levels(b);
    return NULL;
}

const char *kda_tracelogging_parse(struct kda_draft *draft, const uint8_t *blob, uint32_t size,
                                   struct kda_etl_template *ret)
{
    struct kda_cursor c = kda_cursor_make(blob, size);
    struct builder b = {.fields = draft->fields};
    unsigned own = kda_take16(&c);
    if (c.failed || own < 4 || own > size)
        return "the metadata has a size that cannot be";
    c.size = own;
    skip_tag(&c, own);
    const char *event_name = kda_take_cstr(&c);
    if (!event_name)
        return "the metadata has no event name";
    while (kda_cursor_left(&c) > 0) {
        const char *problem = add_field(&b, &c);
        if (problem)
            return problem;
    }
    if (b.depth > 0)
        return "the metadata ends within a structure";
    memset(ret, 0, sizeof(*ret));
    ret->event_name = event_name;
    ret->fields = b.fields;
    ret->count = (uint16_t)b.count;
    ret->top = (uint16_t)b.top;
    ret->origin = "TraceLogging metadata";
    return kda_template_valid(ret) ? NULL : "the metadata makes no fields";
}

const char *kda_traits_parse(const uint8_t *blob, uint32_t size, const uint8_t **group)
{
    struct kda_cursor c = kda_cursor_make(blob, size);
    unsigned own = kda_take16(&c);
    if (group)
        *group = NULL;
    if (own > size || own < 3)
        return NULL;
    c.size = own;
    const char *name = kda_take_cstr(&c);
    while (group && kda_cursor_left(&c) >= 3) {
        unsigned trait = kda_take16(&c), type = kda_take8(&c);
        const uint8_t *data = trait >= 3 ? kda_take(&c, trait - 3) : NULL;
        if (!data)
            break;
        if (type == 1 && trait >= 3 + 16)
            *group = data;
    }
    return name && name[0] ? name : NULL;
}
