#include "xpress.h"

#include <stdbool.h>
#include <string.h>

#include "bytes.h"

#define SHORT_MATCH 3u /* added to every length */
#define IN_TOKEN 7u    /* largest length in the token itself */
#define IN_NIBBLE 15u  /* largest length in a nibble */
#define IN_BYTE 255u   /* largest length in a byte */
#define COPY_STEP 8u   /* bytes that one step of the fast copy moves */

struct stream {
    const uint8_t *at, *end;
    const uint8_t *nibble; /* byte whose high half is the next nibble; NULL: take a new byte */
};

/* Length of a match beyond the token. False: the input ends, or the length cannot be. */
static bool long_length(struct stream *in, size_t *length, bool *bad)
{
    uint8_t nibble;
    if (in->nibble) {
        nibble = *in->nibble >> 4;
        in->nibble = NULL;
    } else {
        if (in->at == in->end)
            return false;
        in->nibble = in->at++;
        nibble = *in->nibble & 15;
    }
    if (nibble < IN_NIBBLE) {
        *length = IN_TOKEN + nibble + SHORT_MATCH;
        return true;
    }
    if (in->at == in->end)
        return false;
    size_t value = *in->at++;
    if (value == IN_BYTE) { /* the larger forms hold the whole length */
        if (in->end - in->at < 2)
            return false;
        value = kda_le16(in->at);
        in->at += 2;
        if (value == 0) {
            if (in->end - in->at < 4)
                return false;
            value = kda_le32(in->at);
            in->at += 4;
        }
        *bad = value < IN_NIBBLE + IN_TOKEN;
        *length = value + SHORT_MATCH;
        return !*bad;
    }
    *length = value + IN_NIBBLE + IN_TOKEN + SHORT_MATCH;
    return true;
}

/* Copies from `distance` bytes back; the two ranges may overlap, which repeats the pattern. */
static uint8_t *copy_match(uint8_t *out, const uint8_t *end, size_t distance, size_t length)
{
    const uint8_t *from = out - distance;
    uint8_t *stop = out + length;
    if (distance >= COPY_STEP && (size_t)(end - stop) >= COPY_STEP) {
        for (; out < stop; out += COPY_STEP, from += COPY_STEP)
            memcpy(out, from, COPY_STEP);
        return stop;
    }
    if (distance == 1) {
        memset(out, *from, length);
        return stop;
    }
    while (out < stop)
        *out++ = *from++;
    return stop;
}

enum kda_xpress kda_xpress_decompress(const void *in, size_t in_size, void *out, size_t out_size,
                                      size_t *written)
{
    const uint8_t *bytes = in_size > 0 ? in : (const uint8_t *)""; /* no bytes: `in` may be NULL */
    struct stream s = {bytes, bytes + in_size, NULL};
    uint8_t *start = out, *to = out, *end = start + out_size;
    enum kda_xpress result = KDA_XPRESS_SHORT;
    uint32_t flags = 0;
    unsigned left = 0;
    bool bad = false;
    while (to < end) {
        if (left == 0) {
            if (s.end - s.at < 4)
                break;
            flags = kda_le32(s.at);
            s.at += 4;
            left = 32;
        }
        left--;
        if (!(flags >> left & 1)) {
            if (s.at == s.end)
                break;
            *to++ = *s.at++;
            continue;
        }
        if (s.end - s.at < 2)
            break;
        unsigned token = kda_le16(s.at);
        s.at += 2;
        size_t distance = (token >> 3) + 1, length = (token & 7) + SHORT_MATCH;
        if ((token & 7) == IN_TOKEN && !long_length(&s, &length, &bad)) {
            result = bad ? KDA_XPRESS_BAD : result;
            break;
        }
        if (distance > (size_t)(to - start)) {
            result = KDA_XPRESS_BAD;
            break;
        }
        to = copy_match(to, end, distance,
                        length < (size_t)(end - to) ? length : (size_t)(end - to));
    }
    *written = (size_t)(to - start);
    return to == end ? KDA_XPRESS_WHOLE : result;
}
