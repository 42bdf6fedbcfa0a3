/*
 * kda_out_value.c - times, addresses, identifiers, registry data, objects.
 */
#include "kda_out.h"

/* --- time ------------------------------------------------------------------------------------ */

#define UNITS_PER_SECOND 10000000u
#define SECONDS_PER_DAY 86400u
#define DAYS_400 146097u /* 1601 is the first year of such a cycle */
#define DAYS_100 36524u
#define DAYS_4 1461u

/* ticks * 10,000,000 / frequency, rounded up if `up`; UINT64_MAX if that is too much. */
static uint64_t to_units(uint64_t ticks, uint64_t frequency, _Bool up)
{
    uint64_t whole = ticks / frequency;
    uint64_t rest = ticks % frequency;
    if (frequency == UNITS_PER_SECOND)
        return ticks;
    if (whole > UINT64_MAX / UNITS_PER_SECOND - 1)
        return UINT64_MAX;
    uint64_t part = 0;
    if (frequency <= UINT64_MAX / UNITS_PER_SECOND) {
        part = rest * UNITS_PER_SECOND / frequency;
        rest = rest * UNITS_PER_SECOND % frequency;
    } else {
        /* One decimal digit at a time; `rest` < frequency, so tenfold it is taken by adding. */
        for (unsigned digit = 0; digit < 7; digit++) {
            uint64_t sum = 0;
            unsigned carry = 0;
            for (unsigned i = 0; i < 10; i++) {
                if (sum >= frequency - rest) {
                    sum -= frequency - rest;
                    carry++;
                } else {
                    sum += rest;
                }
            }
            part = part * 10 + carry;
            rest = sum;
        }
    }
    return whole * UNITS_PER_SECOND + part + (up && rest != 0);
}

uint64_t kda_clock_convert(const struct kda_clock *clock, uint64_t counter)
{
    if (clock->frequency == 0)
        return 0;
    if (counter >= clock->counter) {
        uint64_t units = to_units(counter - clock->counter, clock->frequency, 0);
        return units > UINT64_MAX - clock->utc ? UINT64_MAX : clock->utc + units;
    }
    uint64_t units = to_units(clock->counter - counter, clock->frequency, 1);
    return units > clock->utc ? 0 : clock->utc - units;
}

uint64_t kda_clock_utc(struct kda_clock *clock, uint64_t counter)
{
    uint64_t utc = kda_clock_convert(clock, counter);
    if (!clock->in_order)
        return utc;
    if (utc < clock->utc_floor)
        return clock->utc_floor;
    clock->utc_floor = utc;
    return utc;
}

/* `day` becomes the day of the month, from 1. */
static unsigned month_of(unsigned *day, _Bool leap)
{
    static const uint8_t lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned month = 0;
    for (; month < 11; month++) {
        unsigned length = lengths[month] + (month == 1 && leap ? 1u : 0u);
        if (*day < length)
            break;
        *day -= length;
    }
    *day += 1;
    return month + 1;
}

/* `2026-11-29T21:04:05.`; KDA_TIME_BYTES of room are there. */
static void put_second(struct kda_out *o, uint64_t seconds)
{
    unsigned days = (unsigned)(seconds / SECONDS_PER_DAY);
    unsigned second = (unsigned)(seconds % SECONDS_PER_DAY);
    unsigned year = 1601 + 400 * (days / DAYS_400);
    unsigned day = days % DAYS_400;
    unsigned centuries = day / DAYS_100 < 3 ? day / DAYS_100 : 3;
    day -= centuries * DAYS_100;
    unsigned fours = day / DAYS_4;
    day -= fours * DAYS_4;
    unsigned ones = day / 365 < 3 ? day / 365 : 3;
    day -= ones * 365;
    year += 100 * centuries + 4 * fours + ones;
    unsigned month = month_of(&day, ones == 3 && (fours != 24 || centuries == 3));
    if (year > 9999)
        kda_out_char(o, (char)('0' + year / 10000));
    kda_out_two(o, year / 100 % 100);
    kda_out_two(o, year % 100);
    kda_out_char(o, '-');
    kda_out_two(o, month);
    kda_out_char(o, '-');
    kda_out_two(o, day);
    kda_out_char(o, 'T');
    kda_out_two(o, second / 3600);
    kda_out_char(o, ':');
    kda_out_two(o, second / 60 % 60);
    kda_out_char(o, ':');
    kda_out_two(o, second % 60);
    kda_out_char(o, '.');
}

static void put_fraction(struct kda_out *o, unsigned units)
{
    kda_out_two(o, units / 100000);
    kda_out_two(o, units / 1000 % 100);
    kda_out_two(o, units / 10 % 100);
    kda_out_char(o, (char)('0' + units % 10));
    kda_out_char(o, 'Z');
}

size_t kda_jsonl_time(uint64_t utc, char buffer[KDA_TIME_BYTES])
{
    struct kda_out o;
    kda_out_begin(&o, buffer, KDA_TIME_BYTES);
    put_second(&o, utc / UNITS_PER_SECOND);
    put_fraction(&o, (unsigned)(utc % UNITS_PER_SECOND));
    return kda_out_end(&o);
}

#define SECOND_BYTES 20u /* of a year with four digits */

/* Most events are of the second of the one before; its text is kept. */
void kda_out_time(struct kda_out *o, uint64_t utc)
{
    uint64_t seconds = utc / UNITS_PER_SECOND;
    struct kda_clock *clock = o->clock;
    kda_out_need(o, KDA_TIME_BYTES + 8);
    kda_out_char(o, '"');
    if (KDA_LIKELY(clock->second == seconds && seconds != 0)) {
        kda_copy(o->at, clock->second_text, sizeof clock->second_text);
        o->at += SECOND_BYTES;
    } else {
        char *start = o->at;
        put_second(o, seconds);
        if (o->at == start + SECOND_BYTES) {
            clock->second = seconds;
            kda_copy(clock->second_text, start, SECOND_BYTES);
        }
    }
    put_fraction(o, (unsigned)(utc % UNITS_PER_SECOND));
    kda_out_char(o, '"');
}

/* --- addresses and identifiers --------------------------------------------------------------- */

static void put_ip4(struct kda_out *o, const uint8_t *at)
{
    for (unsigned i = 0; i < 4; i++) {
        if (i)
            kda_out_char(o, '.');
        kda_out_decimal(o, at[i]);
    }
}

/* RFC 5952: the longest run of two or more zero groups, the first of equals, becomes `::`; a
 * mapped IPv4 address is written as one. */
static void put_ip6(struct kda_out *o, const uint8_t *at)
{
    unsigned group[8];
    unsigned best = 8, best_length = 1, run = 0;
    for (unsigned i = 0; i < 8; i++) {
        group[i] = (unsigned)at[2 * i] << 8 | at[2 * i + 1];
        run = group[i] == 0 ? run + 1 : 0;
        if (run > best_length) {
            best_length = run;
            best = i + 1 - run;
        }
    }
    _Bool mapped = best == 0 && best_length == 5 && group[5] == 0xFFFF;
    for (unsigned i = 0; i < 8;) {
        if (i == best) {
            kda_out_literal(o, "::");
            i += best_length;
            continue;
        }
        if (i != 0 && i != best + best_length)
            kda_out_char(o, ':');
        if (mapped && i == 6) {
            put_ip4(o, at + 12);
            return;
        }
        kda_out_hex(o, group[i++], 1);
    }
}

void kda_out_ip(struct kda_out *o, const uint8_t *at, size_t bytes)
{
    if (bytes != 4 && bytes != 16) {
        kda_out_binary(o, at, bytes);
        return;
    }
    kda_out_need(o, 64);
    kda_out_char(o, '"');
    if (bytes == 4)
        put_ip4(o, at);
    else
        put_ip6(o, at);
    kda_out_char(o, '"');
}

void kda_out_sid(struct kda_out *o, const uint8_t *at, size_t bytes)
{
    if (bytes < 8 || at[0] != 1 || at[1] > 15 || bytes != 8 + 4 * (size_t)at[1]) {
        kda_out_binary(o, at, bytes);
        return;
    }
    uint64_t authority = 0;
    for (unsigned i = 2; i < 8; i++)
        authority = authority << 8 | at[i];
    kda_out_need(o, 240); /* "S-1-", 14 digits, 15 times '-' and 10 digits, quotes */
    kda_out_literal(o, "\"S-1-");
    if (authority >> 32) {
        kda_out_literal(o, "0x");
        kda_out_hex(o, authority, 12);
    } else {
        kda_out_decimal(o, authority);
    }
    for (size_t i = 8; i < bytes; i += 4) {
        kda_out_char(o, '-');
        kda_out_decimal(o, kda_read32(at + i));
    }
    kda_out_char(o, '"');
}

void kda_out_guid(struct kda_out *o, const uint8_t *at, size_t bytes)
{
    if (bytes != 16) {
        kda_out_binary(o, at, bytes);
        return;
    }
    kda_out_need(o, 64);
    kda_out_literal(o, "\"{");
    kda_out_hex(o, kda_read32(at), 8);
    kda_out_char(o, '-');
    kda_out_hex(o, kda_read16(at + 4), 4);
    kda_out_char(o, '-');
    kda_out_hex(o, kda_read16(at + 6), 4);
    for (unsigned i = 8; i < 16; i++) {
        if (i == 8 || i == 10)
            kda_out_char(o, '-');
        kda_out_hex(o, at[i], 2);
    }
    kda_out_literal(o, "}\"");
}

void kda_out_status(struct kda_out *o, uint64_t value)
{
    kda_out_need(o, 32);
    kda_out_literal(o, "\"0x");
    kda_out_hex(o, value, 8);
    kda_out_char(o, '"');
}

/* --- registry data --------------------------------------------------------------------------- */

enum {
    REG_SZ = 1,
    REG_EXPAND_SZ = 2,
    REG_DWORD = 4,
    REG_DWORD_BIG_ENDIAN = 5,
    REG_LINK = 6,
    REG_MULTI_SZ = 7,
    REG_QWORD = 11
};

/* Bytes of the text at `at` before its NUL or before the end. */
static size_t text_bytes(const uint8_t *at, size_t bytes)
{
    size_t n = 0;
    while (n < bytes && kda_read16(at + n) != 0)
        n += 2;
    return n;
}

/* Texts, each with a NUL, and one NUL more; the last NULs may be missing or more, as they often
 * are. Data behind the end of the list is not hidden: such data is told as hex digits. */
static _Bool put_texts(struct kda_out *o, const uint8_t *at, size_t bytes)
{
    size_t end = 0;
    while (end < bytes) {
        size_t length = text_bytes(at + end, bytes - end);
        if (length == 0)
            break;
        end += length;
        end += end < bytes ? 2 : 0;
    }
    for (size_t i = end; i < bytes; i++) {
        if (at[i] != 0)
            return 0;
    }
    kda_out_need(o, 1);
    kda_out_char(o, '[');
    for (size_t i = 0; i < end; i += 2) {
        size_t length = text_bytes(at + i, end - i);
        kda_out_need(o, 1);
        if (i)
            kda_out_char(o, ',');
        kda_out_utf16(o, at + i, length);
        i += length;
    }
    kda_out_need(o, 1);
    kda_out_char(o, ']');
    return 1;
}

/* Many readers keep JSON numbers as doubles: from here on two values share one, and a value that
 * was written as a number might come back as its neighbour. */
#define NUMBER_LIMIT ((uint64_t)1 << 53)

static void put_number(struct kda_out *o, uint64_t value)
{
    if (value >= NUMBER_LIMIT) {
        kda_out_need(o, 32);
        kda_out_literal(o, "\"0x");
        kda_out_hex(o, value, 1);
        kda_out_char(o, '"');
        return;
    }
    kda_out_need(o, KDA_DECIMAL_BYTES);
    kda_out_decimal(o, value);
}

void kda_out_data(struct kda_out *o, const uint8_t *at, size_t bytes, _Bool has_type, uint64_t type)
{
    switch (has_type ? type : 0) {
    case REG_SZ:
    case REG_EXPAND_SZ:
    case REG_LINK:
        if (bytes % 2 != 0)
            break;
        /* One NUL ends it; what else there is, is told. */
        if (bytes && kda_read16(at + bytes - 2) == 0)
            bytes -= 2;
        kda_out_utf16(o, at, bytes);
        return;
    case REG_MULTI_SZ:
        if (bytes % 2 == 0 && put_texts(o, at, bytes))
            return;
        break;
    case REG_DWORD:
        if (bytes != 4)
            break;
        put_number(o, kda_read32(at));
        return;
    case REG_DWORD_BIG_ENDIAN:
        if (bytes != 4)
            break;
        put_number(o, (uint64_t)at[0] << 24 | (uint64_t)at[1] << 16 | (uint64_t)at[2] << 8 | at[3]);
        return;
    case REG_QWORD:
        if (bytes != 8)
            break;
        put_number(o, kda_read64(at));
        return;
    default:
        break;
    }
    kda_out_binary(o, at, bytes);
}
