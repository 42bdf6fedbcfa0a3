/*
 * kda_out.c - output buffer, numbers and strings. The vector path and the portable path of a
 * string give the same bytes.
 */
#include "kda_out.h"

#ifdef KDA_HAVE_SSE2
#include <emmintrin.h>
#endif

void kda_out_begin(struct kda_out *o, char *buffer, size_t capacity)
{
    o->buffer = buffer;
    o->capacity = capacity;
    o->done = 0;
    o->in_scratch = capacity == 0; /* there may be no buffer to point into */
    o->at = capacity ? buffer : o->scratch;
    o->end = capacity ? buffer + capacity : o->scratch + sizeof o->scratch;
}

static void move_scratch(struct kda_out *o)
{
    size_t bytes = (size_t)(o->at - o->scratch);
    if (o->done <= o->capacity && bytes <= o->capacity - o->done && bytes)
        kda_copy(o->buffer + o->done, o->scratch, bytes);
    o->done += bytes;
}

void kda_out_more(struct kda_out *o)
{
    if (o->in_scratch)
        move_scratch(o);
    else
        o->done = (size_t)(o->at - o->buffer);
    o->in_scratch = 1;
    o->at = o->scratch;
    o->end = o->scratch + sizeof o->scratch;
}

size_t kda_out_end(struct kda_out *o)
{
    if (!o->in_scratch)
        return (size_t)(o->at - o->buffer);
    move_scratch(o);
    return o->done;
}

/* --- numbers --------------------------------------------------------------------------------- */

static const char two_digits[200] = "00010203040506070809101112131415161718192021222324252627282930"
                                    "31323334353637383940414243444546474849505152535455565758596061"
                                    "62636465666768697071727374757677787980818283848586878889909192"
                                    "93949596979899";
static const char hex_digits[16] = "0123456789abcdef";
#define P(a)                                                                                       \
    a "0" a "1" a "2" a "3" a "4" a "5" a "6" a "7" a "8" a "9" a "a" a "b" a "c" a "d" a "e" a "f"
static const char two_hex_digits[512] = P("0") P("1") P("2") P("3") P("4") P("5") P("6") P("7")
    P("8") P("9") P("a") P("b") P("c") P("d") P("e") P("f");
#undef P

void kda_out_two(struct kda_out *o, unsigned value)
{
    kda_copy(o->at, &two_digits[2 * value], 2);
    o->at += 2;
}

static unsigned decimal_digits(uint64_t value)
{
    unsigned digits = 1;
    for (;;) {
        if (value < 10)
            return digits;
        if (value < 100)
            return digits + 1;
        if (value < 1000)
            return digits + 2;
        if (value < 10000)
            return digits + 3;
        value /= 10000;
        digits += 4;
    }
}

void kda_out_decimal(struct kda_out *o, uint64_t value)
{
    unsigned digits = decimal_digits(value);
    char *at = o->at + digits;
    o->at = at;
    while (value >= 100) {
        at -= 2;
        kda_copy(at, &two_digits[2 * (value % 100)], 2);
        value /= 100;
    }
    if (value >= 10)
        kda_copy(at - 2, &two_digits[2 * value], 2);
    else
        at[-1] = (char)('0' + value);
}

void kda_out_hex(struct kda_out *o, uint64_t value, unsigned digits)
{
    unsigned needed = value ? (67u - (unsigned)__builtin_clzll(value)) / 4 : 1;
    if (needed < digits)
        needed = digits;
    char *at = o->at + needed;
    for (; at - o->at >= 2; value >>= 8)
        kda_copy(at -= 2, &two_hex_digits[2 * (value & 0xFF)], 2);
    if (at > o->at)
        *o->at = hex_digits[value & 0xF];
    o->at += needed;
}

void kda_out_binary(struct kda_out *o, const uint8_t *at, size_t bytes)
{
    kda_out_need(o, 2);
    kda_out_char(o, '"');
    for (size_t i = 0; i < bytes; i++) {
        kda_out_need(o, 2);
        kda_copy(o->at, &two_hex_digits[2u * at[i]], 2);
        o->at += 2;
    }
    kda_out_need(o, 1);
    kda_out_char(o, '"');
}

/* --- strings --------------------------------------------------------------------------------- */

#define REPLACEMENT "\xEF\xBF\xBD"
#define PLAIN_BYTES 64u    /* characters that go as they are, copied in one piece */
#define CHARACTER_BYTES 6u /* longest output of one character: \u00XX */

/* Second character of a two-character escape; 0: none. */
static const char escapes[128] = {['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f',
                                  ['\r'] = 'r', ['"'] = '"',  ['\\'] = '\\'};

static void put_ascii(struct kda_out *o, unsigned c)
{
    if (escapes[c] != 0) {
        kda_out_char(o, '\\');
        kda_out_char(o, escapes[c]);
    } else if (c < 0x20) {
        kda_out_literal(o, "\\u00");
        kda_out_char(o, hex_digits[c >> 4]);
        kda_out_char(o, hex_digits[c & 0xF]);
    } else {
        kda_out_char(o, (char)c);
    }
}

static void put_code_point(struct kda_out *o, uint32_t c)
{
    if (c < 0x800) {
        kda_out_char(o, (char)(0xC0 | c >> 6));
    } else {
        if (c < 0x10000) {
            kda_out_char(o, (char)(0xE0 | c >> 12));
        } else {
            kda_out_char(o, (char)(0xF0 | c >> 18));
            kda_out_char(o, (char)(0x80 | (c >> 12 & 0x3F)));
        }
        kda_out_char(o, (char)(0x80 | (c >> 6 & 0x3F)));
    }
    kda_out_char(o, (char)(0x80 | (c & 0x3F)));
}

/* The character at `at`, which is not plain; returns its bytes. */
static size_t put_special(struct kda_out *o, const uint8_t *at, const uint8_t *end)
{
    uint32_t c = kda_read16(at);
    kda_out_need(o, CHARACTER_BYTES);
    if (c < 0x80) {
        put_ascii(o, c);
        return 2;
    }
    if ((c & 0xF800) != 0xD800) {
        put_code_point(o, c);
        return 2;
    }
    uint32_t low = c < 0xDC00 && end - at >= 4 ? kda_read16(at + 2) : 0;
    if ((low & 0xFC00) != 0xDC00) {
        kda_out_literal(o, REPLACEMENT);
        return 2;
    }
    put_code_point(o, 0x10000 + ((c & 0x3FF) << 10 | (low & 0x3FF)));
    return 4;
}

static inline _Bool is_plain(uint32_t c)
{
    return c - 0x20 < 0x60 && c != '"' && c != '\\';
}

static void put_units(struct kda_out *o, const uint8_t *at, const uint8_t *end)
{
    while (at < end) {
        uint32_t c = kda_read16(at);
        if (is_plain(c)) {
            kda_out_need(o, 1);
            kda_out_char(o, (char)c);
            at += 2;
        } else {
            at += put_special(o, at, end);
        }
    }
}

#ifdef KDA_HAVE_SSE2
/* Bit n is set where unit n of eight is not plain. */
static inline unsigned special_units(__m128i units)
{
    const __m128i space = _mm_set1_epi16(0x20);
    const __m128i span = _mm_set1_epi16(0x7F - 0x20);
    __m128i over = _mm_subs_epu16(_mm_sub_epi16(units, space), span);
    __m128i plain = _mm_cmpeq_epi16(over, _mm_setzero_si128());
    __m128i escape = _mm_or_si128(_mm_cmpeq_epi16(units, _mm_set1_epi16('"')),
                                  _mm_cmpeq_epi16(units, _mm_set1_epi16('\\')));
    plain = _mm_andnot_si128(escape, plain);
    return ~(unsigned)_mm_movemask_epi8(_mm_packs_epi16(plain, plain)) & 0xFFu;
}

/* Eight units at a time up to the next one that is not plain; paths have a backslash every eight
 * to ten units, so wider steps gain nothing. Returns where less than eight units are left. */
static const uint8_t *put_vectors(struct kda_out *o, const uint8_t *at, const uint8_t *end)
{
    while (end - at >= 16) {
        __m128i units = _mm_loadu_si128((const __m128i *)(const void *)at);
        unsigned special = special_units(units);
        kda_out_need(o, 10);
        _mm_storel_epi64((__m128i *)(void *)o->at, _mm_packus_epi16(units, units));
        if (special == 0) {
            o->at += 8;
            at += 16;
            continue;
        }
        unsigned plain = (unsigned)__builtin_ctz(special);
        o->at += plain;
        at += 2 * plain;
        if (KDA_LIKELY(kda_read16(at) == '\\')) {
            kda_out_literal(o, "\\\\");
            at += 2;
            continue;
        }
        do {
            at += put_special(o, at, end);
        } while (at < end && kda_read16(at) >= 0x80);
    }
    return at;
}
#endif

void kda_out_utf16(struct kda_out *o, const uint8_t *at, size_t bytes)
{
    const uint8_t *end = at + (bytes & ~(size_t)1);
    kda_out_need(o, 1);
    kda_out_char(o, '"');
#ifdef KDA_HAVE_SSE2
    if (o->vectors)
        at = put_vectors(o, at, end);
#endif
    put_units(o, at, end);
    kda_out_need(o, 1);
    kda_out_char(o, '"');
}

/* Bytes of the valid character at `at`, 0 if it is not valid UTF-8. */
static size_t utf8_length(const uint8_t *at, size_t rest)
{
    uint8_t first = at[0];
    size_t bytes = first < 0x80 ? 1 : first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
    if (bytes == 0 || first > 0xF4 || bytes > rest)
        return 0;
    for (size_t i = 1; i < bytes; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0;
    }
    /* Overlong forms, surrogates, beyond U+10FFFF. */
    if ((first == 0xE0 && at[1] < 0xA0) || (first == 0xED && at[1] > 0x9F) ||
        (first == 0xF0 && at[1] < 0x90) || (first == 0xF4 && at[1] > 0x8F))
        return 0;
    return bytes;
}

/* is_plain of eight bytes at once. A zero byte of `x` sets the high bit of (x - ones) & ~x. */
static inline _Bool is_plain_8(uint64_t text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    uint64_t quote = text ^ ones * '"', backslash = text ^ ones * '\\';
    uint64_t special =
        (text - ones * 0x20) | ((quote - ones) & ~quote) | ((backslash - ones) & ~backslash) | text;
    return (special & high) == 0;
}

void kda_out_utf8(struct kda_out *o, const uint8_t *at, size_t bytes)
{
    const uint8_t *end = at + bytes;
    kda_out_need(o, 1);
    kda_out_char(o, '"');
    while (at < end) {
        size_t rest = (size_t)(end - at) < PLAIN_BYTES ? (size_t)(end - at) : PLAIN_BYTES;
        size_t plain = 0;
        while (rest - plain >= 8 && is_plain_8(kda_read64(at + plain)))
            plain += 8;
        while (plain < rest && is_plain(at[plain]))
            plain++;
        if (plain > 0) {
            kda_out_need(o, plain);
            kda_copy(o->at, at, plain);
            o->at += plain;
            at += plain;
            continue;
        }
        size_t length = utf8_length(at, (size_t)(end - at));
        kda_out_need(o, CHARACTER_BYTES);
        if (length == 0)
            kda_out_literal(o, REPLACEMENT);
        else if (length == 1)
            put_ascii(o, *at);
        for (size_t i = 0; length > 1 && i < length; i++)
            kda_out_char(o, (char)at[i]);
        at += length == 0 ? 1 : length;
    }
    kda_out_need(o, 1);
    kda_out_char(o, '"');
}

#define KEY_BYTES 128u

static inline _Bool copy_plain_8(char *to, const uint8_t *at)
{
    uint64_t text = kda_read64(at);
    kda_copy(to, &text, sizeof text);
    return is_plain_8(text);
}

/* Copies a key to `to`, where there is room; false where it needs escapes. The last eight bytes may
 * overlap those before. */
static _Bool copy_plain(char *to, const uint8_t *at, size_t bytes)
{
    size_t done = 0;
    if (bytes < 8) {
        for (; done < bytes && is_plain(at[done]); done++)
            to[done] = (char)at[done];
        return done == bytes;
    }
    for (; bytes - done > 8; done += 8) {
        if (!copy_plain_8(to + done, at + done))
            return 0;
    }
    return copy_plain_8(to + bytes - 8, at + bytes - 8);
}

void kda_out_key(struct kda_out *o, const uint8_t *at, size_t bytes)
{
    size_t size = 0;
    if (KDA_LIKELY(bytes <= KEY_BYTES)) {
        kda_out_need(o, bytes + 3);
        if (KDA_LIKELY(copy_plain(o->at + 1, at, bytes))) {
            o->at[0] = '"';
            o->at += bytes + 1;
            kda_out_literal(o, "\":");
            return;
        }
    }
    while (size < bytes && at[size] != 0)
        size++;
    kda_out_utf8(o, at, size);
    kda_out_need(o, 1);
    kda_out_char(o, ':');
}
