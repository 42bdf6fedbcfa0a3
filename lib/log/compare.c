/*
 * compare.c - collects the events of two witnesses, matches them, and says what is left.
 */
#include "compare.h"

#include <stdlib.h>
#include <string.h>

#include "json_pull.h"

static const char *const reason_names[] = {"outside", "kind_not_recorded", "declared_lost",
                                           "filtered"};

const char *kda_compare_reason_name(enum kda_compare_reason reason)
{
    return (unsigned)reason < KDA_COMPARE_REASONS ? reason_names[reason] : "unknown";
}

enum kda_status kda_compare_create(const struct kda_compare_options *options,
                                   struct kda_compare **ret, struct kda_error *err)
{
    struct kda_compare *compare = kda_calloc(1, sizeof(*compare));
    if (!compare)
        return kda_fail(err, KDA_NO_MEMORY, "compare", "out of memory");
    compare->tolerance = options && options->tolerance_100ns ? options->tolerance_100ns
                                                             : KDA_COMPARE_TOLERANCE_100NS;
    kda_arena_init(&compare->arena, (size_t)16 << 30);
    *ret = compare;
    return KDA_OK;
}

void kda_compare_destroy(struct kda_compare *compare)
{
    if (!compare)
        return;
    for (unsigned i = 0; i < 2; i++) {
        kda_free(compare->sides[i].items);
        kda_free(compare->sides[i].windows);
        kda_free(compare->sides[i].oldest);
    }
    kda_free(compare->groups);
    kda_free(compare->only);
    kda_arena_deinit(&compare->arena);
    kda_free(compare);
}

static enum kda_status no_memory(struct kda_error *err)
{
    return kda_fail(err, KDA_NO_MEMORY, "compare", "out of memory for the events of a witness");
}

/* ---- what a witness says about itself ---- */

struct losses {
    struct kda_side *side;
    uint64_t from, to;
    enum kda_compare_reason reason;
    bool any, full;
};

static void add_window(void *context, unsigned kind, uint64_t count)
{
    struct losses *losses = context;
    struct kda_side *side = losses->side;
    void *items = side->windows;
    losses->any = true;
    if (!kda_grow(&items, &side->window_capacity, side->window_count + 1, sizeof(*side->windows),
                  KDA_COMPARE_MAX_WINDOWS)) {
        losses->full = true;
        return;
    }
    side->windows = items;
    side->windows[side->window_count++] =
        (struct kda_window){losses->from, losses->to, kind, count, losses->reason, 0};
}

static uint64_t member_time(const struct kda_log_line *line, const char *key, uint64_t otherwise)
{
    uint64_t time;
    const struct kda_log_member *member = kda_log_find(line, key);
    return member && member->type == '"' && kda_log_time_parse(member->value, member->size, &time)
               ? time
               : otherwise;
}

static bool is_kind(const struct kda_log_line *line, const char *name)
{
    return line->kind == kda_log_kind_find(name, strlen(name));
}

static enum kda_status full(struct kda_error *err)
{
    return kda_fail(err, KDA_LIMIT, "compare", "more than %u losses and filters, or out of memory",
                    KDA_COMPARE_MAX_WINDOWS);
}

/* A loss without times happened since the line before; one without counts may be of any kind. */
static enum kda_status add_losses(struct kda_compare *compare, struct kda_side *side,
                                  const struct kda_log_line *line, struct kda_error *err)
{
    bool filtered = is_kind(line, "sensor.filtered");
    uint64_t since = filtered ? side->last_filtered : side->last_line;
    uint64_t from = member_time(line, "first_time", since);
    uint64_t to = member_time(line, "last_time", line->time);
    struct losses losses = {side,
                            from > compare->tolerance ? from - compare->tolerance : 0,
                            to + compare->tolerance,
                            filtered ? KDA_COMPARE_FILTERED : KDA_COMPARE_LOST,
                            false,
                            false};
    const struct kda_log_member *counts = kda_log_find(line, filtered ? "filtered" : "lost");
    const struct kda_log_member *events = kda_log_find(line, "lost_events");
    const struct kda_log_member *buffers = kda_log_find(line, "lost_buffers");
    uint64_t number = 0;
    if (!filtered && (events || buffers)) {
        /* The header of a trace counts what was lost, and does not know when, nor what. */
        losses.from = 0;
        losses.to = UINT64_MAX;
        if (buffers || !kda_log_number(events, &number))
            number = 0; /* a buffer holds any number of events */
        add_window(&losses, 0, number);
    } else if (!counts || !kda_log_counts(counts, add_window, &losses) || !losses.any) {
        add_window(&losses, 0, 0);
    }
    if (filtered)
        side->last_filtered = line->time;
    return losses.full ? full(err) : KDA_OK;
}

/* What the sensor says that it records: a kind of which it then has nothing is missing, not left
 * out. */
static void add_kinds(struct kda_side *side, const struct kda_log_line *line)
{
    struct kda_json_pull json;
    struct kda_json_token token;
    const struct kda_log_member *settings = kda_log_find(line, "settings");
    bool kinds = false;
    if (!settings || settings->type != '{')
        return;
    kda_json_pull_begin(&json, settings->value, settings->size);
    memset(side->protocols, true, sizeof(side->protocols));
    while (kda_json_pull_next(&json, &token) && token.type != KDA_JSON_END) {
        if (token.type == KDA_JSON_ARRAY)
            kinds = token.key && token.key_size == 5 && memcmp(token.key, "Kinds", 5) == 0;
        else if (token.type == KDA_JSON_CLOSE)
            kinds = false;
        else if (kinds && token.type == KDA_JSON_STRING)
            side->seen.kinds |= (uint64_t)1 << (kda_log_kind_find(token.value, token.size) & 63u);
    }
}

/* A log that begins again: nobody watched since the end of the one before. */
static enum kda_status add_start(struct kda_side *side, const struct kda_log_line *line,
                                 struct kda_error *err)
{
    struct losses losses = {side, side->last_line, line->time, KDA_COMPARE_BEFORE, false, false};
    add_kinds(side, line);
    side->last_filtered = line->time;
    if (side->last_line)
        add_window(&losses, 0, 0);
    return losses.full ? full(err) : KDA_OK;
}

static void see_time(struct kda_side *side, uint64_t time)
{
    if (side->seen.first_time == 0 || time < side->seen.first_time)
        side->seen.first_time = time;
    if (time > side->seen.last_time)
        side->seen.last_time = time;
}

/* False: memory ran out. */
static bool see_processor(struct kda_side *side, const struct kda_log_line *line)
{
    uint64_t cpu;
    const struct kda_log_member *source = kda_log_find(line, "source");
    const struct kda_log_member *member = kda_log_find(line, "cpu");
    if (!source || source->size != 6 || memcmp(source->value, "memory", 6) != 0)
        return true;
    if (!side->oldest)
        side->oldest = kda_calloc(1, sizeof(*side->oldest));
    if (!side->oldest)
        return false;
    if (!member || !kda_log_number(member, &cpu))
        return true;
    uint64_t *time = &side->oldest->time[line->kind & 63u][cpu & 255u];
    if (*time == 0 || line->time < *time)
        *time = line->time;
    return true;
}

static void find_wholes(struct kda_side *side)
{
    for (unsigned kind = 0; side->oldest && kind < 64; kind++)
        for (unsigned cpu = 0; cpu < 256; cpu++)
            if (side->oldest->time[kind][cpu] > side->oldest->from[kind])
                side->oldest->from[kind] = side->oldest->time[kind][cpu];
}

enum kda_status kda_compare_add(struct kda_compare *compare, unsigned witness,
                                const struct kda_log_line *line, struct kda_error *err)
{
    struct kda_side *side = &compare->sides[witness & 1];
    enum kda_status status = KDA_OK;
    bool usable = false;
    if (line->what != KDA_LOG_LINE || !line->has_time)
        return KDA_OK;
    if (is_kind(line, "sensor.loss") || is_kind(line, "sensor.filtered"))
        status = add_losses(compare, side, line, err);
    else if (is_kind(line, "sensor.start"))
        status = add_start(side, line, err);
    see_time(side, line->time);
    side->last_line = line->time;
    if (status != KDA_OK)
        return status;
    struct kda_observed *seen = kda_arena_alloc(&compare->arena, sizeof(*seen));
    if (!seen || kda_compare_observe(&compare->arena, line, seen, &usable) != KDA_OK)
        return no_memory(err);
    if (!usable) {
        side->seen.other += !kda_log_kind_is_sensor(line->kind);
        return KDA_OK;
    }
    if (!see_processor(side, line))
        return no_memory(err);
    if (side->count >= KDA_COMPARE_MAX_EVENTS)
        return kda_fail(err, KDA_LIMIT, "compare", "more than %u events; choose a shorter time",
                        KDA_COMPARE_MAX_EVENTS);
    void *items = side->items;
    if (!kda_grow(&items, &side->capacity, side->count + 1, sizeof(*side->items),
                  KDA_COMPARE_MAX_EVENTS))
        return no_memory(err);
    side->items = items;
    seen->event.seen_by = witness & 1;
    side->items[side->count++] = seen;
    side->seen.events++;
    side->seen.kinds |= (uint64_t)1 << (line->kind & 63u);
    if (seen->network)
        side->protocols[seen->protocol] = true;
    return KDA_OK;
}

/* ---- matching ---- */

static int by_identity(const void *a, const void *b)
{
    const struct kda_observed *x = *(const struct kda_observed *const *)a;
    const struct kda_observed *y = *(const struct kda_observed *const *)b;
    if (x->identity != y->identity)
        return x->identity < y->identity ? -1 : 1;
    if (x->event.time != y->event.time)
        return x->event.time < y->event.time ? -1 : 1;
    return x->event.id < y->event.id ? -1 : x->event.id > y->event.id;
}

static size_t run_end(const struct kda_side *side, size_t from)
{
    size_t to = from;
    while (to < side->count && side->items[to]->identity == side->items[from]->identity)
        to++;
    return to;
}

/* The first event from `from` on that is still free; `count`: none. What is stepped over once is
 * stepped over in one go the next time. */
static size_t next_free(struct kda_observed **b, size_t count, size_t from)
{
    size_t at = from;
    while (at < count && b[at]->matched)
        at += b[at]->next;
    while (from < at) {
        size_t step = b[from]->next;
        b[from]->next = at - from;
        from += step;
    }
    return at;
}

/* Both runs are in time order: each event takes the earliest that is still free and agrees. What
 * lies before the tolerance is never looked at again and what is taken is stepped over, so that
 * this is linear but for events that differ in their paths alone; of those the looks are limited.
 */
static void match_within(uint64_t tolerance, struct kda_observed **a, size_t a_count,
                         struct kda_observed **b, size_t b_count)
{
    size_t first = 0;
    for (size_t i = 0; i < a_count; i++) {
        uint64_t time = a[i]->event.time;
        if (a[i]->matched)
            continue;
        while (first < b_count && b[first]->event.time + tolerance < time)
            first++;
        unsigned looks = 0;
        for (size_t j = next_free(b, b_count, first);
             !a[i]->matched && j < b_count && b[j]->event.time <= time + tolerance &&
             looks++ < KDA_COMPARE_MAX_LOOKS;
             j = next_free(b, b_count, j + 1))
            if (kda_compare_same(a[i], b[j])) {
                a[i]->matched = b[j]->matched = true;
                b[j]->next = 1;
            }
    }
}

/* A program that does the same thing over and over: the nearest in time belong together, or the
 * one that is missing would be named wrongly. */
static void match_runs(const struct kda_compare *compare, struct kda_observed **a, size_t a_count,
                       struct kda_observed **b, size_t b_count)
{
    static const uint64_t steps[] = {0, 100, 10000, 1000000}; /* 100 ns: to 0.1 s */
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (steps[i] < compare->tolerance)
            match_within(steps[i], a, a_count, b, b_count);
    match_within(compare->tolerance, a, a_count, b, b_count);
}

static void match(struct kda_compare *compare)
{
    struct kda_side *a = &compare->sides[0], *b = &compare->sides[1];
    size_t i = 0, j = 0;
    while (i < a->count && j < b->count) {
        uint64_t left = a->items[i]->identity, right = b->items[j]->identity;
        if (left < right) {
            i++;
        } else if (right < left) {
            j++;
        } else {
            size_t i_end = run_end(a, i), j_end = run_end(b, j);
            match_runs(compare, a->items + i, i_end - i, b->items + j, j_end - j);
            i = i_end;
            j = j_end;
        }
    }
}

/* ---- what the other could not have seen ---- */

/* Order of the windows: by kind, reason and whether they count, then by time. */
static int compare_class(const struct kda_window *x, const struct kda_window *y)
{
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->reason != y->reason)
        return x->reason < y->reason ? -1 : 1;
    return (x->count != 0) - (y->count != 0);
}

static int by_start(const void *a, const void *b)
{
    const struct kda_window *x = a, *y = b;
    int order = compare_class(x, y);
    return order ? order : x->from < y->from ? -1 : x->from > y->from;
}

/* Declarations that overlap become one with the sum of their counts: which of them a missing event
 * belongs to nobody can say. */
static void order_windows(struct kda_side *side)
{
    size_t kept = 0;
    if (side->window_count > 1)
        qsort(side->windows, side->window_count, sizeof(*side->windows), by_start);
    for (size_t i = 1; i < side->window_count; i++) {
        struct kda_window *last = &side->windows[kept], *window = &side->windows[i];
        if (compare_class(last, window) != 0 || window->from > last->to) {
            side->windows[++kept] = *window;
            continue;
        }
        if (window->to > last->to)
            last->to = window->to;
        last->count =
            window->count > UINT64_MAX - last->count ? UINT64_MAX : last->count + window->count;
    }
    if (side->window_count > 0)
        side->window_count = kept + 1;
}

/* The window of the class of `like` that `time` lies in; NULL = none. */
static struct kda_window *find_window(struct kda_side *side, struct kda_window like, uint64_t time)
{
    size_t low = 0, high = side->window_count;
    like.from = time;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (by_start(&side->windows[middle], &like) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    struct kda_window *window = low > 0 ? &side->windows[low - 1] : NULL;
    return window && compare_class(window, &like) == 0 && window->to >= time ? window : NULL;
}

/* The window that `seen` falls into: one without a count, or one with room, before a full one. */
static struct kda_window *window_of(struct kda_side *other, const struct kda_observed *seen)
{
    static const enum kda_compare_reason reasons[] = {KDA_COMPARE_BEFORE, KDA_COMPARE_LOST,
                                                      KDA_COMPARE_FILTERED};
    struct kda_window *full = NULL, *room = NULL;
    for (size_t i = 0; i < 4 * sizeof(reasons) / sizeof(reasons[0]); i++) {
        struct kda_window like = {
            .kind = i & 1 ? 0 : seen->event.kind, .count = i & 2 ? 1 : 0, .reason = reasons[i / 4]};
        struct kda_window *window = find_window(other, like, seen->event.time);
        if (window && window->count == 0)
            return window;
        if (window && !room && window->missing < window->count)
            room = window;
        else if (window && !full)
            full = window;
    }
    return room ? room : full;
}

static bool outside(const struct kda_compare *compare, const struct kda_side *other,
                    const struct kda_observed *seen)
{
    uint64_t time = seen->event.time;
    if (other->oldest && time < other->oldest->from[seen->event.kind & 63u] + compare->tolerance)
        return true;
    return time < other->seen.first_time || time > other->seen.last_time;
}

/* A window that declares fewer than are missing excuses none: which of them were lost nobody can
 * say, and that some were not is what matters. */
static bool excused(const struct kda_window *window)
{
    return window && (window->count == 0 || window->missing <= window->count);
}

static bool records(const struct kda_side *other, const struct kda_observed *seen)
{
    return (other->seen.kinds >> (seen->event.kind & 63u) & 1u) &&
           (!seen->network || other->protocols[seen->protocol]);
}

static void count_missing(struct kda_compare *compare, unsigned witness)
{
    struct kda_side *side = &compare->sides[witness];
    struct kda_side *other = &compare->sides[1 - witness];
    for (size_t i = 0; i < side->count; i++) {
        struct kda_observed *seen = side->items[i];
        if (seen->matched || outside(compare, other, seen) || !records(other, seen))
            continue;
        seen->window = window_of(other, seen);
        if (seen->window)
            seen->window->missing++;
    }
}

static enum kda_status keep_only(struct kda_compare *compare, const struct kda_observed *seen,
                                 struct kda_error *err)
{
    void *items = compare->only;
    if (!kda_grow(&items, &compare->only_capacity, compare->only_count + 1, sizeof(*compare->only),
                  2u * KDA_COMPARE_MAX_EVENTS))
        return no_memory(err);
    compare->only = items;
    compare->only[compare->only_count++] = &seen->event;
    return KDA_OK;
}

static enum kda_status sift(struct kda_compare *compare, unsigned witness, struct kda_error *err)
{
    struct kda_side *side = &compare->sides[witness], *other = &compare->sides[1 - witness];
    enum kda_status status = KDA_OK;
    for (size_t i = 0; i < side->count && status == KDA_OK; i++) {
        const struct kda_observed *seen = side->items[i];
        if (seen->matched) {
            side->seen.matched++;
        } else if (outside(compare, other, seen)) {
            side->seen.left_out[KDA_COMPARE_BEFORE]++;
        } else if (!records(other, seen)) {
            side->seen.left_out[KDA_COMPARE_KIND]++;
        } else if (excused(seen->window)) {
            side->seen.left_out[seen->window->reason]++;
        } else {
            side->seen.only++;
            status = keep_only(compare, seen, err);
        }
    }
    return status;
}

/* ---- groups ---- */

static int by_group(const void *a, const void *b)
{
    const struct kda_compare_event *x = *(const struct kda_compare_event *const *)a;
    const struct kda_compare_event *y = *(const struct kda_compare_event *const *)b;
    if (x->seen_by != y->seen_by)
        return x->seen_by < y->seen_by ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->pid != y->pid)
        return x->pid < y->pid ? -1 : 1;
    int image = strcmp(x->image, y->image);
    if (image != 0)
        return image;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool same_group(const struct kda_compare_event *a, const struct kda_compare_event *b)
{
    return a->seen_by == b->seen_by && a->kind == b->kind && a->pid == b->pid &&
           strcmp(a->image, b->image) == 0;
}

static uint64_t declared_for(const struct kda_compare_event *event)
{
    /* The event is the first member of what was observed. */
    const struct kda_window *window = ((const struct kda_observed *)event)->window;
    return window ? window->count : 0;
}

static enum kda_status make_groups(struct kda_compare *compare, struct kda_error *err)
{
    if (compare->only_count > 1)
        qsort(compare->only, compare->only_count, sizeof(*compare->only), by_group);
    for (size_t i = 0, next; i < compare->only_count; i = next) {
        const struct kda_compare_event *first = compare->only[i];
        void *items = compare->groups;
        if (!kda_grow(&items, &compare->group_capacity, compare->group_count + 1,
                      sizeof(*compare->groups), 2u * KDA_COMPARE_MAX_EVENTS))
            return no_memory(err);
        compare->groups = items;
        for (next = i + 1; next < compare->only_count && same_group(first, compare->only[next]);)
            next++;
        struct kda_compare_group *group = &compare->groups[compare->group_count++];
        *group = (struct kda_compare_group){.seen_by = first->seen_by,
                                            .kind = first->kind,
                                            .pid = first->pid,
                                            .image = first->image,
                                            .count = next - i,
                                            .first_time = first->time,
                                            .last_time = compare->only[next - 1]->time,
                                            .declared = declared_for(first),
                                            .events = compare->only + i};
    }
    return KDA_OK;
}

enum kda_status kda_compare_run(struct kda_compare *compare, struct kda_error *err)
{
    for (unsigned i = 0; i < 2; i++)
        if (compare->sides[i].count > 1)
            qsort(compare->sides[i].items, compare->sides[i].count,
                  sizeof(*compare->sides[i].items), by_identity);
    match(compare);
    find_wholes(&compare->sides[0]);
    find_wholes(&compare->sides[1]);
    order_windows(&compare->sides[0]);
    order_windows(&compare->sides[1]);
    count_missing(compare, 0);
    count_missing(compare, 1);
    enum kda_status status = sift(compare, 0, err);
    if (status == KDA_OK)
        status = sift(compare, 1, err);
    return status == KDA_OK ? make_groups(compare, err) : status;
}

const struct kda_compare_witness *kda_compare_witness(const struct kda_compare *compare,
                                                      unsigned witness)
{
    return &compare->sides[witness & 1].seen;
}

const struct kda_compare_group *kda_compare_groups(const struct kda_compare *compare, size_t *count)
{
    *count = compare->group_count;
    return compare->groups;
}
