/*
 * compare.h - private to the comparison of two witnesses.
 */
#ifndef KDA_LOG_COMPARE_H
#define KDA_LOG_COMPARE_H

#include "kda/compare.h"

#include "alloc.h"

/* One event as it is matched. */
struct kda_observed {
    struct kda_compare_event event;
    uint64_t identity;    /* hash of what both witnesses must agree on */
    uint64_t process_key; /* 0 = unknown */
    uint64_t create_time; /* of the process it is about; 0 = unknown */
    const char *path;     /* normalised: module, image or key; "" = unknown */
    uint8_t protocol;     /* network kinds */
    bool network;
    bool matched;
    size_t next; /* once matched: events of its run to step over to the next free one */
    struct kda_window *window; /* of the other witness, that counts this one as missing */
};

/* A time in which a witness says that it missed events. */
struct kda_window {
    uint64_t from, to;
    unsigned kind;  /* 0 = every kind */
    uint64_t count; /* 0 = not known how many */
    enum kda_compare_reason reason;
    uint64_t missing; /* events of the other that fall into it */
};

/* A memory image holds what its buffers hold: the newest of each processor. */
struct kda_oldest {
    uint64_t time[64][256]; /* by kind and processor; 0 = none */
    uint64_t from[64];      /* the kind is whole from here on */
};

struct kda_side {
    struct kda_compare_witness seen;
    struct kda_oldest *oldest; /* memory images only */
    struct kda_observed **items;
    size_t count, capacity;
    struct kda_window *windows; /* in the end ordered, and disjoint within a kind and reason */
    size_t window_count, window_capacity;
    uint64_t last_line, last_filtered; /* times */
    /* A source may record one protocol and not another: kernel traces tell of TCP only. */
    bool protocols[256];
};

struct kda_compare {
    uint64_t tolerance;
    struct kda_arena arena;
    struct kda_side sides[2];
    struct kda_compare_group *groups;
    size_t group_count, group_capacity;
    const struct kda_compare_event **only;
    size_t only_count, only_capacity;
};

/* compare_key.c: identity, path and words of a line. False: its kind is not compared, or it lacks
 * what would identify it. */
enum kda_status kda_compare_observe(struct kda_arena *arena, const struct kda_log_line *line,
                                    struct kda_observed *ret, bool *usable);
/* Could these two be one event? Identities are equal already. */
bool kda_compare_same(const struct kda_observed *a, const struct kda_observed *b);

#endif
