/*
 * keys_build.h - for the next keys_*.h: its lines become functions that build rows. Functions
 * named by ITEMS are declared before.
 */
#undef KIND
#undef KEY
#undef BOOL
#undef OBJECT
#undef CLOSE
#undef IN
#undef IN_BOOL
#undef ITEMS
#undef IN_ITEMS
#undef SHOW
#undef END
#undef ITEM
#undef END_ITEM

/* clang-format off */
#define KIND(ID, name, kind_type, flags, doc)                                                      \
    static void build_##name(struct kda_row *row, const kind_type *o);                             \
    static void emit_##name(struct kda_report *report, const kind_type *object)                    \
    {                                                                                              \
        build_##name(kda_report_row(report, KDA_ROW_##ID), object);                                \
        kda_report_emit(report);                                                                   \
    }                                                                                              \
    static void build_##name(struct kda_row *row, const kind_type *o) {
#define END }
#define ITEM(name, item_type)                                                                      \
    static void put_##name(struct kda_row *row, const item_type *o) { kda_put_object(row, NULL);
#define END_ITEM kda_put_end(row); }

#define KEY(name, type, place, heading, flags, doc, when, ...)                                     \
    if (when) kda_put_##type(row, #name, __VA_ARGS__);
#define BOOL(name, place, heading, flags, words, doc, when, value)                                 \
    if (when) kda_put_bool(row, #name, value);
#define OBJECT(name, doc, when) if (when) { kda_put_object(row, #name);
#define CLOSE kda_put_end(row); }
#define IN(parent, name, type, place, heading, flags, doc, when, ...)                              \
    KEY(name, type, place, heading, flags, doc, when, __VA_ARGS__)
#define IN_BOOL(parent, name, place, heading, flags, words, doc, when, value)                      \
    BOOL(name, place, heading, flags, words, doc, when, value)
#define ITEMS(name, item, place, heading, flags, words, doc, when, each, object)                   \
    if (when) { kda_put_array(row, #name); each(row, object); kda_put_end(row); }
#define IN_ITEMS(parent, name, item, place, heading, flags, words, doc, when, each, object)        \
    ITEMS(name, item, place, heading, flags, words, doc, when, each, object)
#define SHOW(name, place, heading, flags)

#define kda_put_flag kda_put_bool
#define kda_put_bits(row, key, bits, names)                                                        \
    kda_put_set(row, key, bits, names, sizeof(names) / sizeof((names)[0]))
#define kda_put_texts(row, key, each, object)                                                      \
    (kda_put_array(row, key), each(row, object), kda_put_end(row))
#define kda_put_uints kda_put_texts
#define kda_put_hexes kda_put_texts
/* clang-format on */
