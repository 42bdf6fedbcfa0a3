/*
 * keys_table.h - for the next keys_*.h: its lines become tables. The letters are the flags of a
 * column, as short as the lines need them.
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
enum {
    R = KDA_COLUMN_RIGHT, J = KDA_COLUMN_JSON_ONLY, H = KDA_COLUMN_HIDE_HOST, K = KDA_COLUMN_KIB,
    O = KDA_COLUMN_OPTIONAL, N = KDA_COLUMN_COUNT, V = KDA_COLUMN_VERBOSE, S = KDA_COLUMN_TOTAL,
    L = KDA_COLUMN_LINES, X = KDA_COLUMN_HEX, B = KDA_COLUMN_SIZE, E = KDA_COLUMN_ON,
};

#define KIND(ID, name, kind_type, kind_flags, doc)                                                 \
    extern const struct kda_key kda_keys_##name[];                                                 \
    const struct kda_row_table kda_rows_##name = {#name, doc, kda_keys_##name, kind_flags};        \
    const struct kda_key kda_keys_##name[] = {                                                     \
        {.path = "row", .type = KDA_KEY_text,                                                      \
         .flags = (kind_flags) & KDA_KIND_NO_ROW ? KDA_COLUMN_JSON_ONLY : 0},
#define END {.path = NULL}};
#define ITEM(name, item_type)      static const struct kda_key name##_items[] = {
#define END_ITEM {.path = NULL}};

#define ROW(text, kind, at, head, bits, say, doc, members)                                         \
    {.path = text, .meaning = doc, .heading = head, .words = say, .items = members,                \
     .flags = bits, .type = KDA_KEY_##kind, .place = at},
#define KEY(name, type, place, heading, flags, doc, when, ...)                                     \
    ROW(#name, type, place, heading, flags, NULL, doc, NULL)
#define BOOL(name, place, heading, flags, words, doc, when, value)                                 \
    ROW(#name, flag, place, heading, flags, words, doc, NULL)
#define OBJECT(name, doc, when) ROW(#name, object, 0, NULL, J, NULL, doc, NULL)
#define CLOSE
#define IN(parent, name, type, place, heading, flags, doc, when, ...)                              \
    ROW(#parent "." #name, type, place, heading, flags, NULL, doc, NULL)
#define IN_BOOL(parent, name, place, heading, flags, words, doc, when, value)                      \
    ROW(#parent "." #name, flag, place, heading, flags, words, doc, NULL)
#define ITEMS(name, item, place, heading, flags, words, doc, when, each, object)                   \
    ROW(#name, items, place, heading, flags, words, doc, item##_items)
#define IN_ITEMS(parent, name, item, place, heading, flags, words, doc, when, each, object)        \
    ROW(#parent "." #name, items, place, heading, flags, words, doc, item##_items)
#define SHOW(name, place, heading, flags)                                                          \
    ROW(#name, items, place, heading, (flags) | KDA_COLUMN_TEXT_ONLY, NULL, NULL, NULL)
/* clang-format on */
