/*
 * Any bytes as a stream of plain LZ77: stays inside, tells how much it wrote, and a shorter output
 * is a prefix of a longer one.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "xpress.h"

#define ROOM 65536u

static void need(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t whole[ROOM];
    size_t got, part;
    if (size > ROOM)
        return 0;
    enum kda_xpress end = kda_xpress_decompress(data, size, whole, ROOM, &got);
    need(got <= ROOM && (end != KDA_XPRESS_WHOLE || got == ROOM));
    size_t room = got / 2;
    uint8_t *out = malloc(room + 1); /* exact: a sanitizer sees the first byte too many */
    need(out != NULL);
    need(kda_xpress_decompress(data, size, out, room, &part) == KDA_XPRESS_WHOLE);
    need(part == room && memcmp(out, whole, room) == 0);
    free(out);
    return 0;
}
