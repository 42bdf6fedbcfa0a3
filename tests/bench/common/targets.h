/*
 * targets.h - what was measured beside what must be and what would be better.
 */
#ifndef BENCH_TARGETS_H
#define BENCH_TARGETS_H

enum target_sense { TARGET_AT_LEAST, TARGET_AT_MOST };

struct target {
    const char *name;
    double must;
    double ambitious; /* equal to `must` where there is nothing beyond it */
    enum target_sense sense;
    int decimals;
    const char *unit;
};

void targets_head(void);
void targets_row(const struct target *target, double measured);
/* The machine did not let it be measured; `why` in a few words. */
void targets_missing(const struct target *target, const char *why);

#endif
