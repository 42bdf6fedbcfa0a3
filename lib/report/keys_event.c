/*
 * keys_event.c - keys of the rows of events: the members of a line, which event/kda_schema.h lists.
 */
#include "keys.h"

#include "kda_event.h"

/* What text shows of the members that every line has: place, heading, flags. */
#define LOOK_time 1, "Time", 0
#define LOOK_id 2, "Id", KDA_COLUMN_RIGHT
#define LOOK_kind 3, "Kind", 0
#define LOOK_source 4, NULL, 0
#define LOOK_cpu 4, "CPU", KDA_COLUMN_RIGHT | KDA_COLUMN_VERBOSE
#define LOOK_pid 4, "PID", KDA_COLUMN_RIGHT
#define LOOK_tid 4, "TID", KDA_COLUMN_RIGHT | KDA_COLUMN_VERBOSE
#define LOOK_v 6, NULL, 0
#define LOOK_truncated 6, NULL, 0
#define LOOK_omitted 6, NULL, 0
#define LOOK_relaxed 6, NULL, 0

/* clang-format off */
#define MEMBER(name, doc, at, head, bits)                                                          \
    {.path = name, .meaning = doc, .heading = head, .flags = bits, .type = KDA_KEY_member,         \
     .place = at},
#define WITH_LOOK(name, doc, ...) MEMBER(name, doc, __VA_ARGS__)
#define LINE(name, form, doc) WITH_LOOK(#name, doc, LOOK_##name)
#define FIELD(shape, NAME, name, type, doc) MEMBER(#name, doc, 5, NULL, 0)
#define SHAPE(shape) KDA_FIELDS_OF(FIELD, shape)
static const struct kda_key keys[] = {
    {.path = "row"},
    KDA_HEAD_FIELDS(LINE)
    KDA_MARK_FIELDS(LINE)
    {.path = KDA_EVENT_PROCESS, .heading = "Process", .flags = KDA_COLUMN_TEXT_ONLY, .place = 4},
    KDA_SHAPES(SHAPE)
    {.path = KDA_EVENT_WHAT, .heading = "What", .flags = KDA_COLUMN_TEXT_ONLY, .place = 7},
    {.path = NULL},
};
/* clang-format on */
_Static_assert(sizeof(keys) / sizeof(keys[0]) <= KDA_COLUMNS_MAX, "each may be a column");

const struct kda_row_table kda_rows_event = {
    .name = "event",
    .meaning =
        "A line of a log (`kda log show`) or an event of a trace or of trace buffers (`kda "
        "events`,\n"
        "[decoding.md](decoding.md)), with all its members in their order; [events.md](events.md) "
        "lists\n"
        "them. `json` puts `\"row\":\"event\"` in front; `jsonl` has the very line of a log, so "
        "that the\n"
        "output is a log again. csv has a column for each member of any kind; lists in it are\n"
        "joined, objects are cells with their JSON.",
    .keys = keys,
    .flags = KDA_KIND_STREAM,
};
