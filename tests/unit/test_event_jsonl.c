/*
 * The encoder: whole lines to the byte, both string paths against a plain reference, every
 * capacity, exact times, addresses, registry data.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "event_json.h"
#include "kda_jsonl.h"
#include "kda_platform.h"

#define LINE_BYTES (KDA_JSONL_MAX(KDA_EVENT_MAX_BYTES))

static uint64_t words[KDA_EVENT_MAX_BYTES / 8];
static char line[LINE_BYTES];
static char other[LINE_BYTES];
static const struct kda_clock identity = {.frequency = 10000000};
/* 2026-11-29T21:04:05.1234567Z */
#define MOMENT 134404598451234567u

static void begin(struct kda_event_builder *b, unsigned kind)
{
    assert_true(kda_event_begin(b, words, sizeof words, kind, KDA_SOURCE_DRIVER));
    b->event->id = 7;
    b->event->time = MOMENT;
    b->event->cpu = 2;
    b->event->pid = 100;
    b->event->tid = 200;
}

static size_t encode(struct kda_event_builder *b)
{
    struct kda_clock clock = identity;
    assert_int_not_equal(kda_event_end(b), 0);
    assert_false(b->misused);
    assert_true(kda_event_valid(b->event, b->event->size));
    size_t bytes = kda_jsonl_encode(b->event, &clock, line, sizeof line);
    assert_true(bytes <= KDA_JSONL_MAX(b->event->size));
    assert_true(bytes > 0 && line[bytes - 1] == '\n');
    size_t portable = kda_jsonl_encode_portable(b->event, &clock, other, sizeof other);
    assert_int_equal(bytes, portable);
    assert_memory_equal(line, other, bytes);
    assert_json_object(line, bytes);
    line[bytes - 1] = '\0';
    return bytes;
}

static void set_text(struct kda_event_builder *b, enum kda_field field, const char *ascii)
{
    uint16_t units[512];
    size_t n = 0;
    for (; ascii[n] != '\0'; n++)
        units[n] = (uint8_t)ascii[n];
    kda_event_string(b, field, units, n);
}

#define HEAD(kind)                                                                                 \
    "{\"v\":1,\"id\":7,\"time\":\"2026-11-29T21:04:05.1234567Z\",\"kind\":\"" kind                 \
    "\",\"source\":\"driver\",\"cpu\":2,\"pid\":100,\"tid\":200"

static void process_line(void **state)
{
    (void)state;
    struct kda_event_builder b;
    const uint8_t sid[] = {1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0,    0, 1, 0,
                           0, 0, 2, 0, 0, 0, 3, 0, 0,  0, 0xF4, 1, 0, 0};
    begin(&b, KDA_KIND_PROCESS_CREATE);
    kda_event_set(&b, KDA_FIELD_PROCESS_KEY, 0x1F00000000ABCDu);
    set_text(&b, KDA_FIELD_IMAGE, "\\Device\\HarddiskVolume3\\a.exe");
    set_text(&b, KDA_FIELD_PROCESS_COMMAND_LINE, "\"a.exe\"\t-x");
    kda_event_set(&b, KDA_FIELD_PROCESS_PARENT_PID, 4);
    kda_event_omit(&b, KDA_FIELD_PROCESS_PARENT_KEY, KDA_OMIT_GONE);
    kda_event_bytes(&b, KDA_FIELD_PROCESS_USER_SID, sid, sizeof sid, 0);
    kda_event_set(&b, KDA_FIELD_PROCESS_INTEGRITY, 0x2000);
    kda_event_set(&b, KDA_FIELD_PROCESS_ELEVATED, 0);
    kda_event_set(&b, KDA_FIELD_PROCESS_PROTECTION, 0x31);
    kda_event_set(&b, KDA_FIELD_PROCESS_SIGNATURE_LEVEL, 99);
    kda_event_set(&b, KDA_FIELD_PROCESS_CREATE_TIME, MOMENT - 1);
    kda_event_set(&b, KDA_FIELD_PROCESS_SUBSYSTEM, KDA_SUBSYSTEM_WSL);
    kda_event_cut(&b, KDA_FIELD_PROCESS_COMMAND_LINE);
    encode(&b);
    assert_string_equal(
        line, HEAD("process.create") ",\"process_key\":\"0x1f00000000abcd\""
                                     ",\"image\":\"\\\\Device\\\\HarddiskVolume3\\\\a.exe\""
                                     ",\"truncated\":[\"command_line\"]"
                                     ",\"omitted\":{\"parent_key\":\"gone\"}"
                                     ",\"command_line\":\"\\\"a.exe\\\"\\t-x\",\"parent_pid\":4"
                                     ",\"user_sid\":\"S-1-5-21-1-2-3-500\""
                                     ",\"integrity\":\"medium\",\"elevated\":false"
                                     ",\"protection\":\"light:antimalware\",\"signature_level\":99"
                                     ",\"create_time\":\"2026-11-29T21:04:05.1234566Z\""
                                     ",\"subsystem\":\"wsl\"}");
}

static void network_line(void **state)
{
    (void)state;
    struct kda_event_builder b;
    const uint8_t local[16] = {0xFE, 0x80, [15] = 1};
    const uint8_t remote[16] = {0x20, 0x01, 0x0D, 0xB8, [15] = 2};
    begin(&b, KDA_KIND_NETWORK_ACCEPT);
    kda_event_flow(&b, 6, 6, local, 443, remote, 50000);
    kda_event_set(&b, KDA_FIELD_NETWORK_DIRECTION, KDA_INBOUND);
    b.event->flags |= KDA_EVENT_RELAXED;
    encode(&b);
    assert_string_equal(line,
                        HEAD("network.accept") ",\"relaxed\":true,\"protocol\":6"
                                               ",\"transport\":\"tcp\",\"ip_version\":6"
                                               ",\"local_ip\":\"fe80::1\",\"local_port\":443"
                                               ",\"remote_ip\":\"2001:db8::2\""
                                               ",\"remote_port\":50000,\"direction\":\"inbound\"}");
    begin(&b, KDA_KIND_NETWORK_CONNECT);
    kda_event_flow(&b, 253, 4, NULL, 0, "\x0A\x00\x00\xFF", 1);
    encode(&b);
    assert_string_equal(line, HEAD("network.connect") ",\"protocol\":253,\"ip_version\":4"
                                                      ",\"remote_ip\":\"10.0.0.255\""
                                                      ",\"remote_port\":1}");
}

static void unknown_head_fields_are_left_out(void **state)
{
    (void)state;
    struct kda_event_builder b;
    assert_true(kda_event_begin(&b, words, sizeof words, KDA_KIND_THREAD_EXIT, KDA_SOURCE_MEMORY));
    b.event->flags |= KDA_EVENT_NO_TIME;
    kda_event_set(&b, KDA_FIELD_THREAD_EXIT_EXIT_CODE, 0xC0000005u);
    encode(&b);
    assert_string_equal(
        line, "{\"v\":1,\"kind\":\"thread.exit\",\"source\":\"memory\",\"exit_code\":3221225477}");
}

static void sensor_lines(void **state)
{
    (void)state;
    struct kda_event_builder b;
    uint64_t counts[KDA_KIND_COUNT] = {0};
    counts[KDA_KIND_REGISTRY_VALUE_SET] = UINT64_MAX;
    counts[KDA_KIND_PROCESS_CREATE] = 1;
    begin(&b, KDA_KIND_SENSOR_LOSS);
    b.event->id = KDA_NO_ID;
    kda_event_counts(&b, KDA_FIELD_LOSS_LOST, counts);
    kda_event_set(&b, KDA_FIELD_LOSS_LOST_BYTES, 4096);
    kda_event_set(&b, KDA_FIELD_LOSS_FIRST_TIME, MOMENT);
    kda_event_set(&b, KDA_FIELD_LOSS_REASON, KDA_LOSS_RING_FULL);
    kda_event_set(&b, KDA_FIELD_LOSS_SCOPE, KDA_SCOPE_READER);
    encode(&b);
    assert_non_null(strstr(line, "{\"v\":1,\"time\":"));
    assert_non_null(strstr(line, ",\"lost\":{\"process.create\":1,"
                                 "\"registry.value_set\":18446744073709551615},\"lost_bytes\":4096,"
                                 "\"first_time\":\"2026-11-29T21:04:05.1234567Z\","
                                 "\"reason\":\"ring_full\",\"scope\":\"reader\"}"));
    const uint8_t guid[16] = {0x33, 0x22, 0x11, 0,    0x55, 0x44, 0x77, 0x66,
                              0x88, 0x99, 0xAA, 0xBB, 0xCC, 0xDD, 0xEE, 0xFF};
    begin(&b, KDA_KIND_SENSOR_START);
    kda_event_bytes(&b, KDA_FIELD_START_LOG, guid, 16, 0);
    kda_event_text(&b, KDA_FIELD_START_VERSION, "0.1 \xC3\xA4\x01\xFF");
    kda_event_object_begin(&b, KDA_FIELD_START_SETTINGS);
    kda_event_object_number(&b, "ring_bytes", KDA_TYPE_NUMBER, 1048576);
    kda_event_object_number(&b, "delta", KDA_TYPE_SIGNED, (uint64_t)-3);
    assert_true(kda_event_object_open(&b, "kinds", KDA_TYPE_ARRAY));
    kda_event_object_bytes(&b, NULL, KDA_TYPE_UTF8, "a\"b", 3);
    kda_event_object_number(&b, NULL, KDA_TYPE_BOOL, 1);
    kda_event_object_close(&b);
    assert_true(kda_event_object_open(&b, "deep", KDA_TYPE_OBJECT));
    assert_true(kda_event_object_open(&b, "er", KDA_TYPE_OBJECT));
    assert_true(kda_event_object_open(&b, "est", KDA_TYPE_OBJECT));
    assert_false(kda_event_object_open(&b, "no", KDA_TYPE_OBJECT));
    kda_event_object_close(&b);
    kda_event_object_close(&b);
    kda_event_object_close(&b);
    kda_event_object_bytes(&b, "ratio", KDA_TYPE_NUMBER_TEXT, "-1.5e+3", 7);
    kda_event_object_bytes(&b, "text", KDA_TYPE_NUMBER_TEXT, "01", 2);
    kda_event_object_end(&b);
    encode(&b);
    assert_non_null(strstr(
        line, ",\"truncated\":[\"settings\"],\"log\":\"{00112233-4455-6677-8899-aabbccddeeff}\""
              ",\"version\":\"0.1 \xC3\xA4\\u0001\xEF\xBF\xBD\",\"settings\":{"
              "\"ring_bytes\":1048576,\"delta\":-3,\"kinds\":[\"a\\\"b\",true],"
              "\"deep\":{\"er\":{\"est\":{}}},\"ratio\":-1.5e+3,\"text\":\"01\"}}"));
}

/* --- registry data --------------------------------------------------------------------------- */

static void check_data(bool has_type, uint64_t type, const void *data, size_t bytes,
                       const char *expected)
{
    struct kda_event_builder b;
    char want[256];
    begin(&b, KDA_KIND_REGISTRY_VALUE_SET);
    if (has_type)
        kda_event_set(&b, KDA_FIELD_VALUE_VALUE_TYPE, type);
    kda_event_bytes(&b, KDA_FIELD_VALUE_DATA, data, bytes, SIZE_MAX);
    encode(&b);
    snprintf(want, sizeof want, "\"data\":%s}", expected);
    const char *found = strstr(line, "\"data\":");
    assert_non_null(found);
    assert_string_equal(found, want);
    /* The old value is read by the old type. */
    begin(&b, KDA_KIND_REGISTRY_VALUE_SET);
    if (has_type)
        kda_event_set(&b, KDA_FIELD_VALUE_OLD_TYPE, type);
    kda_event_bytes(&b, KDA_FIELD_VALUE_OLD_DATA, data, bytes, SIZE_MAX);
    encode(&b);
    snprintf(want, sizeof want, "\"old_data\":%s}", expected);
    assert_non_null(strstr(line, want));
}

static void registry_data(void **state)
{
    (void)state;
    check_data(true, 1, u"abc", 8, "\"abc\"");
    check_data(true, 1, u"abc", 6, "\"abc\"");
    check_data(true, 2, u"a\0b\0", 10, "\"a\\u0000b\\u0000\"");
    check_data(true, 1, u"", 2, "\"\"");
    check_data(true, 1, "", 0, "\"\"");
    check_data(true, 1, "abc", 3, "\"616263\"");
    check_data(true, 6, u"\\x", 4, "\"\\\\x\"");
    check_data(true, 4, "\x01\x02\x00\x80", 4, "2147484161");
    check_data(true, 4, "\x01\x02\x00", 3, "\"010200\"");
    check_data(true, 5, "\x01\x02\x00\x80", 4, "16908416");
    check_data(true, 11, "\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", 8, "\"0xffffffffffffffff\"");
    /* 2^53 - 1 is the last number that a double tells from its neighbours. */
    check_data(true, 11, "\xFF\xFF\xFF\xFF\xFF\xFF\x1F\x00", 8, "9007199254740991");
    check_data(true, 11, "\x00\x00\x00\x00\x00\x00\x20\x00", 8, "\"0x20000000000000\"");
    check_data(true, 11, "\x01\x00\x00\x00\x00\x00\x20\x00", 8, "\"0x20000000000001\"");
    check_data(true, 11, "\x00\x00\x00\x00\x00\x00\x00\x00", 8, "0");
    check_data(true, 11, "\xFF", 1, "\"ff\"");
    check_data(true, 3, "\x00\xAB", 2, "\"00ab\"");
    check_data(true, 0, "", 0, "\"\"");
    check_data(true, 12345, "\x01", 1, "\"01\"");
    check_data(false, 0, u"abc", 6, "\"610062006300\"");
    check_data(true, 7, u"a\0bc\0", 12, "[\"a\",\"bc\"]");
    check_data(true, 7, u"a\0bc", 10, "[\"a\",\"bc\"]");
    check_data(true, 7, u"a\0bc", 8, "[\"a\",\"bc\"]");
    check_data(true, 7, u"", 2, "[]");
    check_data(true, 7, u"\0", 4, "[]");
    check_data(true, 7, "", 0, "[]");
    check_data(true, 7, u"a\0\0b", 8, "\"6100000000006200\"");
    check_data(true, 7, "abc", 3, "\"616263\"");
}

/* --- strings --------------------------------------------------------------------------------- */

#define snprintf_n(at, bytes, ...) (size_t) snprintf(at, bytes, __VA_ARGS__)

static size_t reference(const uint16_t *units, size_t count, char *out)
{
    char *at = out;
    for (size_t i = 0; i < count; i++) {
        uint32_t c = units[i];
        if (c >= 0xD800 && c < 0xDC00 && i + 1 < count && units[i + 1] >= 0xDC00 &&
            units[i + 1] < 0xE000)
            c = 0x10000 + (c - 0xD800) * 0x400 + (units[++i] - 0xDC00u);
        else if (c >= 0xD800 && c < 0xE000)
            c = 0xFFFD;
        const char *named = c ? strchr("\"\\\b\f\n\r\t", (int)c) : NULL;
        if (c < 0x80 && named)
            at += snprintf_n(at, 3, "\\%c", "\"\\bfnrt"[named - "\"\\\b\f\n\r\t"]);
        else if (c < 0x20)
            at += snprintf_n(at, 7, "\\u%04x", c);
        else if (c < 0x80)
            *at++ = (char)c;
        else if (c < 0x800)
            at += snprintf_n(at, 3, "%c%c", 0xC0 | c >> 6, 0x80 | (c & 63));
        else if (c < 0x10000)
            at +=
                snprintf_n(at, 4, "%c%c%c", 0xE0 | c >> 12, 0x80 | (c >> 6 & 63), 0x80 | (c & 63));
        else
            at += snprintf_n(at, 5, "%c%c%c%c", 0xF0 | c >> 18, 0x80 | (c >> 12 & 63),
                             0x80 | (c >> 6 & 63), 0x80 | (c & 63));
    }
    return (size_t)(at - out);
}

static void check_string(const uint16_t *units, size_t count)
{
    static char want[6 * 512 + 1];
    struct kda_event_builder b;
    begin(&b, KDA_KIND_REGISTRY_KEY_CREATE);
    kda_event_string(&b, KDA_FIELD_KEY_KEY, units, count);
    size_t bytes = encode(&b);
    size_t expected = reference(units, count, want);
    const char prefix[] = HEAD("registry.key_create") ",\"key\":\"";
    size_t head = sizeof prefix - 1;
    assert_memory_equal(line, prefix, head);
    assert_int_equal(bytes, head + expected + 3);
    assert_memory_equal(line + head, want, expected);
}

static uint32_t next_random(uint32_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

static uint16_t hostile_unit(uint32_t *random)
{
    static const uint16_t units[] = {0,      0x1F,   0x20,   0x22,   0x5C,   0x7E,
                                     0x7F,   0x80,   0x9F,   0x7FF,  0x800,  0xD7FF,
                                     0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0xE000, 0xFFFD,
                                     0xFFFF, 0x2028, 0x0A,   0x08,   0x8000, 0x8022};
    uint32_t r = next_random(random);
    switch (r >> 28) {
    case 0:
    case 1:
    case 2:
        return units[(r & 0xFFFF) % (sizeof units / sizeof units[0])];
    case 3:
        return (uint16_t)r;
    case 4:
        return (uint16_t)(0xD800 | (r & 0x7FF));
    default:
        return (uint16_t)('a' + (r & 15));
    }
}

static void strings_of_all_kinds(void **state)
{
    (void)state;
    uint16_t units[512];
    uint32_t random = 12345;
    for (uint32_t c = 0; c<0x10000; c += c> 0x100 && c < 0xFF00 ? 14 : 1) {
        /* Each unit at each place of a vector of eight. */
        for (size_t i = 0; i < 9; i++)
            units[i] = 'x';
        units[c % 9] = (uint16_t)c;
        check_string(units, 9);
    }
    for (unsigned round = 0; round < 20000; round++) {
        size_t count = next_random(&random) % 70;
        for (size_t i = 0; i < count; i++)
            units[i] = hostile_unit(&random);
        check_string(units, count);
    }
    for (size_t count = 0; count < 40; count++) {
        for (size_t i = 0; i < count; i++)
            units[i] = i % 2 ? 0xDC00 : 0xD83D;
        check_string(units, count);
        for (size_t i = 0; i < count; i++)
            units[i] = '\\';
        check_string(units, count);
    }
}

/* A key of `count` characters x, one of them, at `place`, another. */
static void check_key(size_t count, size_t place, char other_one, const char *shown)
{
    struct kda_event_builder b;
    char name[300], want[320];
    memset(name, 'x', count);
    name[count] = '\0';
    begin(&b, KDA_KIND_SENSOR_START);
    kda_event_object_begin(&b, KDA_FIELD_START_SETTINGS);
    uint8_t *at = (uint8_t *)b.event + b.used + KDA_OBJECT_ENTRY_BYTES;
    kda_event_object_number(&b, name, KDA_TYPE_NUMBER, 1);
    /* A record from elsewhere may have anything in its names, NULs too. */
    if (place < count)
        at[place] = (uint8_t)other_one;
    kda_event_object_end(&b);
    encode(&b);
    size_t used = (size_t)snprintf(want, sizeof want, "\"settings\":{\"");
    for (size_t i = 0; i < count && !(i == place && other_one == '\0'); i++)
        used += (size_t)snprintf(want + used, sizeof want - used, "%s", i == place ? shown : "x");
    (void)snprintf(want + used, sizeof want - used, "\":1}");
    assert_non_null(strstr(line, want));
}

static void keys_of_all_kinds(void **state)
{
    (void)state;
    for (size_t count = 0; count < 150; count++) {
        check_key(count, count, 'x', "x");
        for (size_t place = 0; place<count; place += count> 40 ? 7 : 1) {
            check_key(count, place, '"', "\\\"");
            check_key(count, place, '\\', "\\\\");
            check_key(count, place, '\x1f', "\\u001f");
            check_key(count, place, '\x7f', "\x7f");
            check_key(count, place, '\xe9', "\xEF\xBF\xBD");
            check_key(count, place, '\0', "");
        }
    }
}

static void hexadecimal_numbers(void **state)
{
    (void)state;
    char want[40];
    for (unsigned bits = 0; bits <= 64; bits++) {
        struct kda_event_builder b;
        uint64_t value = bits ? UINT64_C(0xfedcba9876543210) >> (64 - bits) : 0;
        begin(&b, KDA_KIND_SENSOR_START);
        kda_event_object_begin(&b, KDA_FIELD_START_SETTINGS);
        kda_event_object_number(&b, "n", KDA_TYPE_HEX, value);
        kda_event_object_bytes(&b, "b", KDA_TYPE_BINARY, &value, 8);
        kda_event_object_end(&b);
        encode(&b);
        snprintf(want, sizeof want, "{\"n\":\"0x%llx\",", (unsigned long long)value);
        assert_non_null(strstr(line, want));
        snprintf(want, sizeof want, "\"b\":\"%016llx\"}",
                 (unsigned long long)__builtin_bswap64(value));
        assert_non_null(strstr(line, want));
    }
}

/* For every capacity: same size told, right bytes if it fits, nothing written behind the end. */
static void every_capacity(void **state)
{
    (void)state;
    struct kda_event_builder b;
    struct kda_clock clock = identity;
    uint16_t units[300];
    uint32_t random = 99;
    for (size_t i = 0; i < 300; i++)
        units[i] = hostile_unit(&random);
    begin(&b, KDA_KIND_REGISTRY_VALUE_SET);
    kda_event_string(&b, KDA_FIELD_IMAGE, units, 300);
    kda_event_string(&b, KDA_FIELD_VALUE_KEY, units, 200);
    kda_event_set(&b, KDA_FIELD_VALUE_VALUE_TYPE, 3);
    kda_event_bytes(&b, KDA_FIELD_VALUE_DATA, units, 300, SIZE_MAX);
    kda_event_set(&b, KDA_FIELD_VALUE_STATUS, 0xC0000022u);
    size_t bytes = encode(&b);
    line[bytes - 1] = '\n';
    char *small = malloc(bytes + 16);
    assert_non_null(small);
    for (size_t capacity = 0; capacity <= bytes + 8; capacity++) {
        memset(small, 0x5A, bytes + 16);
        size_t told = kda_jsonl_encode(b.event, &clock, small, capacity);
        assert_int_equal(told, bytes);
        for (size_t i = capacity; i < bytes + 16; i++)
            assert_int_equal(small[i], 0x5A);
        if (capacity >= bytes)
            assert_memory_equal(small, line, bytes);
    }
    free(small);
}

static void longest_line_fits(void **state)
{
    (void)state;
    static uint8_t control[KDA_EVENT_MAX_BYTES];
    struct kda_event_builder b;
    memset(control, 1, sizeof control);
    begin(&b, KDA_KIND_ETW_EVENT);
    kda_event_bytes(&b, KDA_FIELD_ETW_WHY, control, sizeof control, SIZE_MAX);
    size_t bytes = encode(&b);
    assert_true(bytes > 5 * KDA_EVENT_MAX_BYTES);
    assert_int_equal(b.event->size, KDA_EVENT_MAX_BYTES);
    assert_non_null(strstr(line, "\"truncated\":[\"why\"]"));
}

/* --- times and addresses --------------------------------------------------------------------- */

static void times_are_exact(void **state)
{
    (void)state;
    static const uint64_t frequencies[] = {
        1, 3, 14318180, 3579545, 10000000, 24000000, 2999999999, 0x7FFFFFFFFFFFu, UINT64_MAX};
    uint32_t random = 7;
    for (size_t f = 0; f < sizeof frequencies / sizeof frequencies[0]; f++) {
        for (unsigned i = 0; i < 20000; i++) {
            uint64_t r = (uint64_t)next_random(&random) << 32 | next_random(&random);
            struct kda_clock clock = {
                .counter = r >> (i % 40), .utc = MOMENT, .frequency = frequencies[f]};
            uint64_t other_r = (uint64_t)next_random(&random) << 32 | next_random(&random);
            uint64_t counter = clock.counter + (other_r >> (i % 64)) * (i & 1 ? 1 : (uint64_t)-1);
            __extension__ __int128 units = (__int128)counter - (__int128)clock.counter;
            units *= 10000000;
            __extension__ __int128 whole = units / (__int128)clock.frequency;
            whole -= units < 0 && whole * (__int128)clock.frequency != units;
            whole += MOMENT;
            uint64_t want = whole < 0 ? 0 : whole > UINT64_MAX ? UINT64_MAX : (uint64_t)whole;
            uint64_t got = kda_clock_convert(&clock, counter);
            assert_int_equal(got, want);
        }
    }
    struct kda_clock none = {0};
    assert_int_equal(kda_clock_convert(&none, 5), 0);
}

static void log_time_never_goes_back(void **state)
{
    (void)state;
    struct kda_clock clock = {.frequency = 10000000, .in_order = true};
    assert_int_equal(kda_clock_utc(&clock, 100), 100);
    assert_int_equal(kda_clock_utc(&clock, 90), 100);
    /* The system clock was set back by 50 units. */
    clock.counter = 200;
    clock.utc = 150;
    assert_int_equal(kda_clock_utc(&clock, 120), 100);
    assert_int_equal(kda_clock_utc(&clock, 151), 101);
    clock.in_order = false;
    assert_int_equal(kda_clock_utc(&clock, 0), 0);
}

static void dates(void **state)
{
    (void)state;
    uint32_t random = 5;
    char text[KDA_TIME_BYTES + 1];
    for (unsigned i = 0; i < 200000; i++) {
        uint64_t r = (uint64_t)next_random(&random) << 32 | next_random(&random);
        uint64_t utc = i < 3000 ? (uint64_t)i * 864000000000u * 49 : r % 2650467744000000000u;
        time_t seconds = (time_t)(utc / 10000000) - 11644473600;
        struct tm tm;
        char want[64];
        gmtime_r(&seconds, &tm);
        snprintf(want, sizeof want, "%04d-%02d-%02dT%02d:%02d:%02d.%07uZ", tm.tm_year + 1900,
                 tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
                 (unsigned)(utc % 10000000));
        size_t bytes = kda_jsonl_time(utc, text);
        text[bytes] = '\0';
        assert_string_equal(text, want);
    }
    size_t bytes = kda_jsonl_time(UINT64_MAX, text);
    text[bytes] = '\0';
    assert_string_equal(text, "60056-05-28T05:36:10.9551615Z");
}

static void addresses(void **state)
{
    (void)state;
    uint32_t random = 3;
    for (unsigned i = 0; i < 20000; i++) {
        uint8_t ip[16];
        struct kda_event_builder b;
        char want[128], text[INET6_ADDRSTRLEN];
        for (unsigned k = 0; k < 16; k += 2) {
            uint32_t r = next_random(&random);
            ip[k] = r & 0x300 ? 0 : (uint8_t)r;
            ip[k + 1] = r & 0xC000 ? 0 : (uint8_t)(r >> 24);
        }
        if (i % 16 == 0)
            memcpy(ip, "\0\0\0\0\0\0\0\0\0\0\xFF\xFF", 12);
        /* glibc still writes the IPv4-compatible form, which RFC 4291 gave up. */
        if (memcmp(ip, "\0\0\0\0\0\0\0\0\0\0\0\0", 12) == 0)
            ip[0] = 1;
        begin(&b, KDA_KIND_NETWORK_LISTEN);
        kda_event_flow(&b, 17, 6, ip, 53, NULL, 0);
        encode(&b);
        inet_ntop(AF_INET6, ip, text, sizeof text);
        snprintf(want, sizeof want, "\"local_ip\":\"%s\",", text);
        assert_non_null(strstr(line, want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_line),
        cmocka_unit_test(network_line),
        cmocka_unit_test(unknown_head_fields_are_left_out),
        cmocka_unit_test(sensor_lines),
        cmocka_unit_test(registry_data),
        cmocka_unit_test(strings_of_all_kinds),
        cmocka_unit_test(keys_of_all_kinds),
        cmocka_unit_test(hexadecimal_numbers),
        cmocka_unit_test(every_capacity),
        cmocka_unit_test(longest_line_fits),
        cmocka_unit_test(times_are_exact),
        cmocka_unit_test(log_time_never_goes_back),
        cmocka_unit_test(dates),
        cmocka_unit_test(addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
