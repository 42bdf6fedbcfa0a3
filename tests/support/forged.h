/*
 * forged.h - a scenario as an open image: kernel, symbols and ETW model, for tests that vary one
 * line at a time.
 */
#ifndef KDA_TESTS_FORGED_H
#define KDA_TESTS_FORGED_H

#include <stddef.h>
#include <stdint.h>

#include "kda/etw.h"

struct forged {
    uint8_t *bytes;
    size_t size;
    struct kda_image *image;
    struct kda_kernel *kernel;
    struct kda_etw *etw; /* NULL: the image has none that can be read */
};

/* Text of tests/images/scenarios/NAME.txt without the lines that begin with one of the parts of
 * `drop` ("session 4|consumer session=4", nullable), then `add` (nullable). Free with free(). */
char *forged_text(const char *name, const char *drop, const char *add);

/* Builds and opens; fails the test when that is not possible. A model that cannot be read is NULL
 * if `etw_may_fail`. */
void forged_open(struct forged *forged, const char *text, bool etw_may_fail);
/* The same, looking for objects in pool memory too if `carve`. */
void forged_carve(struct forged *forged, const char *text, bool etw_may_fail, bool carve);
void forged_close(struct forged *forged);

#endif
