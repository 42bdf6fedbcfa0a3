#include "targets.h"

#include <stdio.h>

static int meets(const struct target *target, double measured, double value)
{
    return target->sense == TARGET_AT_LEAST ? measured >= value : measured <= value;
}

void targets_head(void)
{
    printf("\n  %-54s %9s %9s %9s  %s\n", "target", "must", "ambitious", "measured", "");
}

static void print_limits(const struct target *t)
{
    printf("  %-44s %-7s %c %*.*f %9.*f ", t->name, t->unit,
           t->sense == TARGET_AT_LEAST ? '>' : '<', 7, t->decimals, t->must, t->decimals,
           t->ambitious);
}

void targets_row(const struct target *target, double measured)
{
    const char *verdict = !meets(target, measured, target->must)       ? "MISSED"
                          : meets(target, measured, target->ambitious) ? "met, ambitious too"
                                                                       : "met";
    print_limits(target);
    printf("%9.*f  %s\n", target->decimals, measured, verdict);
}

void targets_missing(const struct target *target, const char *why)
{
    print_limits(target);
    printf("%9s  %s\n", "-", why);
}
