/*
 * template.c - out types, and whether a template from a file may be used.
 */
#include "template.h"

/* Source: TDH_OUTTYPE in tdh.h. */
enum kda_out_type kda_out_type_of_tdh(unsigned out)
{
    switch (out) {
    case 1:   /* STRING */
    case 28:  /* XML */
    case 300: /* REDUCEDSTRING */
        return KDA_OUT_STRING;
    case 2:  /* DATETIME */
    case 27: /* ETWTIME */
    case 33: /* CULTURE_INSENSITIVE_DATETIME */
    case 38: /* DATETIME_UTC */
        return KDA_OUT_TIME;
    case 3: /* BYTE, SHORT, INT, LONG */
    case 5:
    case 7:
    case 9:
        return KDA_OUT_SIGNED;
    case 4: /* UNSIGNEDBYTE, ... */
    case 6:
    case 8:
    case 10:
        return KDA_OUT_UNSIGNED;
    case 13:
        return KDA_OUT_BOOL;
    case 16: /* HEXINT8 .. HEXINT64 */
    case 17:
    case 18:
    case 19:
    case 37: /* CODE_POINTER */
        return KDA_OUT_HEX;
    case 20: /* PID, TID: numbers whatever the in type */
    case 21:
        return KDA_OUT_UNSIGNED;
    case 22:
        return KDA_OUT_PORT;
    case 23:
        return KDA_OUT_IPV4;
    case 24:
        return KDA_OUT_IPV6;
    case 25:
        return KDA_OUT_SOCKADDR;
    case 31: /* NTSTATUS, HRESULT */
    case 32:
        return KDA_OUT_STATUS;
    case 34: /* JSON, UTF8 */
    case 35:
        return KDA_OUT_UTF8;
    default:
        return KDA_OUT_DEFAULT;
    }
}

/* Source: enum OutType of TraceLoggingDynamic.h (microsoft/tracelogging). */
enum kda_out_type kda_out_type_of_tracelogging(unsigned out)
{
    static const uint8_t types[] = {
        [2] = KDA_OUT_STRING,    [3] = KDA_OUT_BOOL,     [4] = KDA_OUT_HEX,
        [5] = KDA_OUT_UNSIGNED,  [6] = KDA_OUT_UNSIGNED, [7] = KDA_OUT_PORT,
        [8] = KDA_OUT_IPV4,      [9] = KDA_OUT_IPV6,     [10] = KDA_OUT_SOCKADDR,
        [11] = KDA_OUT_UTF8,     [12] = KDA_OUT_UTF8,    [14] = KDA_OUT_STATUS,
        [15] = KDA_OUT_STATUS,   [16] = KDA_OUT_TIME,    [17] = KDA_OUT_SIGNED,
        [18] = KDA_OUT_UNSIGNED, [33] = KDA_OUT_TIME,    [35] = KDA_OUT_UTF8,
        [37] = KDA_OUT_HEX,      [38] = KDA_OUT_TIME,
    };
    return out < sizeof(types) ? (enum kda_out_type)types[out] : KDA_OUT_DEFAULT;
}

bool kda_in_type_is_integer(unsigned in)
{
    return (in >= KDA_IN_INT8 && in <= KDA_IN_UINT64) || in == KDA_IN_HEX32 || in == KDA_IN_HEX64 ||
           in == KDA_IN_POINTER || in == KDA_IN_SIZE || in == KDA_IN_BOOLEAN;
}

/* A length or count comes from an integer that was read before. */
static bool reference_valid(const struct kda_etl_template *t, unsigned from, unsigned to)
{
    const struct kda_etl_field *field = &t->fields[to < t->count ? to : 0];
    return to < from && kda_in_type_is_integer(field->in) && !(field->flags & KDA_FIELD_IS_ARRAY);
}

static bool group_valid(const struct kda_etl_template *t, unsigned first, unsigned members,
                        unsigned depth, unsigned *budget)
{
    unsigned at = first;
    if (depth > KDA_TEMPLATE_MAX_DEPTH)
        return false;
    for (unsigned n = 0; n < members; n++) {
        /* Each field may be in the tree once: this also ends cycles. */
        if (at >= t->count || (*budget)-- == 0)
            return false;
        const struct kda_etl_field *f = &t->fields[at];
        if (!f->name || (f->next <= at && n + 1 < members))
            return false;
        if ((f->flags & KDA_FIELD_LENGTH_FIELD && !reference_valid(t, at, f->length)) ||
            (f->flags & KDA_FIELD_COUNT_FIELD && !reference_valid(t, at, f->count)))
            return false;
        if (f->in == KDA_IN_STRUCT &&
            (f->first <= at || !group_valid(t, f->first, f->members, depth + 1, budget)))
            return false;
        at = f->next;
    }
    return true;
}

bool kda_template_valid(const struct kda_etl_template *t)
{
    unsigned budget = t->count;
    return t->count <= KDA_TEMPLATE_MAX_FIELDS && group_valid(t, 0, t->top, 1, &budget);
}
