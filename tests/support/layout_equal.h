/* layout_equal.h - compares two layouts and prints what differs. */
#ifndef KDA_TESTS_LAYOUT_EQUAL_H
#define KDA_TESTS_LAYOUT_EQUAL_H

#include <stddef.h>

#include "kda/symbols.h"

/* Number of globals, structures and fields that differ, each printed to stderr behind `what`. */
size_t layout_differences(const struct kda_layout *want, const struct kda_layout *got,
                          const char *what);

#endif
