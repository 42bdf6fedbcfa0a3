/*
 * keys.h - the tables of row kinds: what each key is called, means and looks like.
 *
 * A key is one line of a keys_*.h. That file is included twice: with keys_build.h its lines become
 * the code that reads the value from the model, with keys_table.h the table that csv, text,
 * docs/rows.md and the list of promised keys (tests/golden/keys.txt) are made from.
 *
 *     KIND(ID, name, type, flags, doc)     begins a kind; `o` is the object that a row is about
 *     KEY(name, type, place, heading, flags, doc, when, value...)
 *     BOOL(name, place, heading, flags, words, doc, when, value)    words: "yes|no", in text
 *     OBJECT(name, doc, when) ... CLOSE    an object; its members are
 *     IN(parent, name, type, place, heading, flags, doc, when, value...)
 *     IN_BOOL(parent, name, place, heading, flags, words, doc, when, value)
 *     ITEMS(name, item, place, heading, flags, words, doc, when, each, object)   a list of objects:
 *                                          each(row, object) puts them; words: one of them in text
 *     IN_ITEMS(parent, ...)                a list of objects in an object
 *     SHOW(name, place, heading, flags)    one more column of text
 *     END                                  ends the kind
 *     ITEM(name, type) ... END_ITEM        members of the objects of a list
 *
 * The order of the lines is the order of json. Columns of csv and text stand by `place`, those of
 * one place in the order of the lines. A new key comes last, with the highest place of its kind; it
 * keeps its name and its type for ever. A heading of NULL: no column of text. `when` says whether
 * the value is known; `value` is what kda_put_<type> (row.h) takes.
 */
#ifndef KDA_REPORT_KEYS_H
#define KDA_REPORT_KEYS_H

#include <stddef.h>

/* K(type, words): types of values and what docs/rows.md calls them. */
#define KDA_KEY_TYPES(K)                                                                           \
    K(text, "string")                                                                              \
    K(uint, "number")                                                                              \
    K(int, "number, may be negative")                                                              \
    K(hex, "hex")                                                                                  \
    K(address, "hex")                                                                              \
    K(clock, "hex or number")                                                                      \
    K(flag, "true/false")                                                                          \
    K(time, "time")                                                                                \
    K(guid, "GUID")                                                                                \
    K(bits, "list of strings")                                                                     \
    K(names, "list of strings")                                                                    \
    K(texts, "list of strings")                                                                    \
    K(uints, "list of numbers")                                                                    \
    K(hexes, "list of hex")                                                                        \
    K(items, "list of objects")                                                                    \
    K(object, "object")                                                                            \
    K(member, "as the event schema says")

enum kda_key_type {
#define K(type, words) KDA_KEY_##type,
    KDA_KEY_TYPES(K)
#undef K
};

enum {
    KDA_COLUMN_RIGHT = 1,     /* text: a number */
    KDA_COLUMN_JSON_ONLY = 2, /* neither in csv nor in text */
    KDA_COLUMN_TEXT_ONLY = 4, /* not in csv */
    KDA_COLUMN_HIDE_HOST = 8, /* text: left out when every cell is "host" */
    KDA_COLUMN_KIB = 16,      /* text: bytes shown as KiB */
    KDA_COLUMN_OPTIONAL = 32, /* text: left out when every cell is empty */
    KDA_COLUMN_COUNT = 64,    /* text: number of items */
    KDA_COLUMN_VERBOSE = 128, /* text: only when options.verbose */
    KDA_COLUMN_TOTAL = 256,   /* text: "of N" behind the column before */
    KDA_COLUMN_LINES = 512,   /* text: a line per item */
    KDA_COLUMN_HEX = 1024,    /* text: a number in hex */
    KDA_COLUMN_SIZE = 2048,   /* text: bytes, with the size in MiB behind */
    KDA_COLUMN_ON = 4096,     /* text: only items whose "enabled" is true */
};

struct kda_key {
    const char *path;    /* "provider_enable.level"; the heading of csv; NULL ends a table */
    const char *meaning; /* for docs/rows.md; NULL: a column, and no key of its own */
    const char *heading; /* of text; NULL: not in text */
    const char *words;   /* text: "yes|no" of a bool, template of an object of a list */
    const struct kda_key *items; /* members of the objects of a list */
    unsigned flags;              /* KDA_COLUMN_... */
    unsigned char type;          /* enum kda_key_type */
    unsigned char place;
};

enum {
    KDA_KIND_VERTICAL = 1, /* text: one "Name: value" line per cell */
    KDA_KIND_STREAM = 2,   /* text: rows do not wait for the last of their kind */
    KDA_KIND_NO_ROW = 4,   /* csv: no column "row" */
};

struct kda_row_table {
    const char *name;
    const char *meaning; /* for docs/rows.md */
    const struct kda_key *keys;
    unsigned flags; /* KDA_KIND_... */
};

const char *kda_key_type_words(const struct kda_key *key);

/* Keys of events that text has beside the members of a line. */
#define KDA_EVENT_PROCESS "process" /* name of the program */
#define KDA_EVENT_WHAT "what"       /* what happened, in one line */

#define KDA_COLUMNS_MAX 192u
struct kda_columns {
    const struct kda_key *items[KDA_COLUMNS_MAX];
    size_t count;
};

/* The keys that are columns of csv or text, by their place. */
void kda_columns_order(const struct kda_key *keys, struct kda_columns *ret);

#endif
