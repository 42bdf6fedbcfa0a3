/*
 * payload_emit.c - one value of a payload as an entry of a record's object.
 */
#include <stdio.h>

#include "bytes.h"
#include "payload.h"
#include "text.h"

#define UNITS_PER_MS 10000u
#define MS_PER_DAY 86400000u
#define ANSI_CHUNK 2048u

/* ---- bytes ---- */

uint64_t kda_payload_integer(unsigned in, const uint8_t *bytes, uint32_t size)
{
    bool is_signed = in == KDA_IN_INT8 || in == KDA_IN_INT16 || in == KDA_IN_INT32;
    switch (size) {
    case 1:
        return is_signed ? (uint64_t)(int64_t)(int8_t)bytes[0] : bytes[0];
    case 2:
        return is_signed ? (uint64_t)(int64_t)(int16_t)kda_le16(bytes) : kda_le16(bytes);
    case 4:
        return is_signed ? (uint64_t)(int64_t)(int32_t)kda_le32(bytes) : kda_le32(bytes);
    default:
        return kda_le64(bytes);
    }
}

uint32_t kda_payload_sid(const uint8_t *bytes, uint32_t rest)
{
    if (rest < 8 || bytes[0] != 1 || bytes[1] > 15)
        return 0;
    uint32_t size = 8u + 4u * bytes[1];
    return size <= rest ? size : 0;
}

/* ---- text ---- */

void kda_payload_ansi(struct kda_event_builder *out, const char *name, const uint8_t *bytes,
                      uint32_t size)
{
    char text[2 * ANSI_CHUNK];
    size_t used = 0;
    if (kda_utf8_valid_prefix((const char *)bytes, size) == size) {
        kda_event_object_bytes(out, name, KDA_TYPE_UTF8, bytes, size);
        return;
    }
    /* The code page of the system is not known. Long texts of that kind are cut. */
    for (uint32_t i = 0; i < size && used + 2 <= sizeof(text); i++) {
        if (bytes[i] >= 0x80)
            text[used++] = (char)(0xC0 | bytes[i] >> 6);
        text[used++] = (char)(bytes[i] >= 0x80 ? 0x80 | (bytes[i] & 0x3F) : bytes[i]);
    }
    kda_event_object_bytes(out, name, KDA_TYPE_UTF8, text, used);
}

/* NULs at the end are padding of fixed-length texts. */
static void emit_unicode(struct kda_event_builder *out, const char *name, const uint8_t *bytes,
                         uint32_t size)
{
    size &= ~1u;
    while (size >= 2 && (bytes[size - 2] | bytes[size - 1]) == 0)
        size -= 2;
    kda_event_object_bytes(out, name, KDA_TYPE_STRING, bytes, size);
}

static void emit_ansi(struct kda_event_builder *out, const char *name, const uint8_t *bytes,
                      uint32_t size)
{
    while (size >= 1 && bytes[size - 1] == 0)
        size--;
    kda_payload_ansi(out, name, bytes, size);
}

static void emit_text(struct kda_event_builder *out, const char *name, const char *text)
{
    kda_event_object_bytes(out, name, KDA_TYPE_UTF8, text, strlen(text));
}

/* ---- maps ---- */

static const char *map_name(const struct kda_etl_map *map, uint32_t value)
{
    uint32_t low = 0, high = map->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (map->entries[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    return low < map->count && map->entries[low].value == value ? map->entries[low].name : NULL;
}

/* "Read|Write|0x100": bits without a name as a number. False: none has one. */
static bool bit_names(const struct kda_etl_map *map, uint32_t value, char *text, size_t cap)
{
    uint32_t rest = value;
    size_t used = 0;
    for (uint32_t i = 0; i < map->count && i < KDA_TEMPLATE_MAX_BITS; i++) {
        const struct kda_etl_map_entry *e = &map->entries[i];
        if (e->value == 0 || (value & e->value) != e->value || !(rest & e->value))
            continue;
        size_t size = strlen(e->name);
        if (used + size + 16 > cap)
            return false;
        if (used)
            text[used++] = '|';
        memcpy(text + used, e->name, size);
        used += size;
        rest &= ~e->value;
    }
    if (used == 0)
        return false;
    if (rest)
        used += (size_t)snprintf(text + used, cap - used, "|0x%x", (unsigned)rest);
    text[used] = '\0';
    return true;
}

static bool emit_mapped(struct kda_event_builder *out, const struct kda_etl_map *map,
                        const char *name, uint64_t value)
{
    char text[1024];
    uint32_t low = (uint32_t)value;
    const char *one = map_name(map, low);
    if (value >> 32 && value >> 31 != UINT64_C(0x1FFFFFFFF))
        return false;
    if (!one && map->bits && bit_names(map, low, text, sizeof(text)))
        one = text;
    if (!one)
        return false;
    emit_text(out, name, one);
    return true;
}

/* ---- numbers ---- */

static void emit_double(struct kda_event_builder *out, const char *name, const uint8_t *bytes,
                        uint32_t size)
{
    char text[40];
    int used;
    if (size == 4) {
        uint32_t raw = kda_le32(bytes);
        float value;
        memcpy(&value, &raw, sizeof(value));
        used = snprintf(text, sizeof(text), "%.9g", (double)value);
    } else {
        uint64_t raw = kda_le64(bytes);
        double value;
        memcpy(&value, &raw, sizeof(value));
        used = snprintf(text, sizeof(text), "%.17g", value);
    }
    /* The caller's locale may have another decimal point. */
    for (int i = 0; i < used; i++)
        if (text[i] == ',')
            text[i] = '.';
    kda_event_object_bytes(out, name, KDA_TYPE_NUMBER_TEXT, text, (size_t)used);
}

static enum kda_type number_type(unsigned in)
{
    switch (in) {
    case KDA_IN_INT8:
    case KDA_IN_INT16:
    case KDA_IN_INT32:
    case KDA_IN_INT64:
        return KDA_TYPE_SIGNED;
    case KDA_IN_HEX32:
    case KDA_IN_HEX64:
    case KDA_IN_POINTER:
    case KDA_IN_SIZE:
        return KDA_TYPE_HEX;
    default:
        return KDA_TYPE_NUMBER;
    }
}

static void emit_character(struct kda_event_builder *out, const char *name, const uint8_t *bytes,
                           uint32_t size)
{
    if (size == 2)
        emit_unicode(out, name, bytes, size);
    else
        emit_ansi(out, name, bytes, size);
}

static uint64_t sign_extend(uint64_t value, uint32_t size)
{
    unsigned shift = 64 - 8 * size;
    return size < 8 ? (uint64_t)((int64_t)(value << shift) >> shift) : value;
}

static uint64_t mask(uint64_t value, uint32_t size)
{
    return size < 8 ? value & ((UINT64_C(1) << 8 * size) - 1) : value;
}

static void emit_integer(struct kda_event_builder *out, const struct kda_etl_field *f,
                         const char *name, const uint8_t *bytes, uint32_t size)
{
    uint64_t value = kda_payload_integer(f->in, bytes, size);
    if (f->map && emit_mapped(out, f->map, name, value))
        return;
    switch (f->out) {
    case KDA_OUT_STRING:
        if (size > 2)
            break;
        emit_character(out, name, bytes, size);
        return;
    case KDA_OUT_BOOL:
        kda_event_object_number(out, name, KDA_TYPE_BOOL, mask(value, size) != 0);
        return;
    case KDA_OUT_HEX:
        kda_event_object_number(out, name, KDA_TYPE_HEX, mask(value, size));
        return;
    case KDA_OUT_PORT:
        if (size != 2)
            break;
        kda_event_object_number(out, name, KDA_TYPE_NUMBER, (uint64_t)bytes[0] << 8 | bytes[1]);
        return;
    case KDA_OUT_IPV4:
        if (size != 4)
            break;
        kda_event_object_bytes(out, name, KDA_TYPE_IP, bytes, size);
        return;
    case KDA_OUT_STATUS:
        if (size != 4)
            break;
        kda_event_object_number(out, name, KDA_TYPE_STATUS, mask(value, size));
        return;
    case KDA_OUT_TIME:
        if (size != 8)
            break;
        kda_event_object_number(out, name, KDA_TYPE_TIME, value);
        return;
    case KDA_OUT_SIGNED:
        kda_event_object_number(out, name, KDA_TYPE_SIGNED, sign_extend(value, size));
        return;
    case KDA_OUT_UNSIGNED:
        kda_event_object_number(out, name, KDA_TYPE_NUMBER, mask(value, size));
        return;
    default:
        break;
    }
    enum kda_type type = number_type(f->in);
    kda_event_object_number(out, name, type, type == KDA_TYPE_HEX ? mask(value, size) : value);
}

/* ---- times, addresses ---- */

bool kda_payload_systemtime(const uint8_t *bytes, uint64_t *ret)
{
    static const uint16_t before[12] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    static const uint8_t lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned year = kda_le16(bytes), month = kda_le16(bytes + 2), day = kda_le16(bytes + 6);
    unsigned hour = kda_le16(bytes + 8), minute = kda_le16(bytes + 10);
    unsigned second = kda_le16(bytes + 12), ms = kda_le16(bytes + 14);
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (year < 1601 || year > 9999 || month < 1 || month > 12 || day < 1 || hour > 23 ||
        minute > 59 || second > 59 || ms > 999 ||
        day > lengths[month - 1] + (month == 2 && leap ? 1u : 0u))
        return false;
    uint64_t years = year - 1601;
    uint64_t days = years * 365 + years / 4 - years / 100 + years / 400 + before[month - 1] +
                    (month > 2 && leap ? 1u : 0u) + day - 1;
    uint64_t in_day = ((hour * 60u + minute) * 60u + second) * 1000u + ms;
    *ret = (days * MS_PER_DAY + in_day) * UNITS_PER_MS;
    return true;
}

static void emit_blob(struct kda_event_builder *out, const char *name, enum kda_type type,
                      const uint8_t *bytes, uint32_t size)
{
    kda_event_object_bytes(out, name, type, bytes, size);
}

/* SOCKADDR_IN and SOCKADDR_IN6; other families stay bytes. */
static void emit_sockaddr(struct kda_event_builder *out, const char *name, const uint8_t *bytes,
                          uint32_t size)
{
    unsigned family = size >= 2 ? kda_le16(bytes) : 0;
    bool v4 = family == 2 && size >= 8, v6 = family == 23 && size >= 24;
    if ((!v4 && !v6) || !kda_event_object_open(out, name, KDA_TYPE_OBJECT)) {
        emit_blob(out, name, KDA_TYPE_BINARY, bytes, size);
        return;
    }
    emit_blob(out, "ip", KDA_TYPE_IP, bytes + (v4 ? 4 : 8), v4 ? 4 : 16);
    kda_event_object_number(out, "port", KDA_TYPE_NUMBER, (uint64_t)bytes[2] << 8 | bytes[3]);
    kda_event_object_close(out);
}

static void emit_binary(struct kda_event_builder *out, const struct kda_etl_field *f,
                        const char *name, const uint8_t *bytes, uint32_t size)
{
    if (f->out == KDA_OUT_SOCKADDR)
        emit_sockaddr(out, name, bytes, size);
    else if ((f->out == KDA_OUT_IPV6 && size == 16) || (f->out == KDA_OUT_IPV4 && size == 4))
        emit_blob(out, name, KDA_TYPE_IP, bytes, size);
    else if (f->out == KDA_OUT_UTF8)
        emit_ansi(out, name, bytes, size);
    else
        emit_blob(out, name, KDA_TYPE_BINARY, bytes, size);
}

static void emit_time(struct kda_event_builder *out, const char *name, const uint8_t *bytes,
                      uint32_t size)
{
    uint64_t time;
    if (size == 8)
        kda_event_object_number(out, name, KDA_TYPE_TIME, kda_le64(bytes));
    else if (kda_payload_systemtime(bytes, &time))
        kda_event_object_number(out, name, KDA_TYPE_TIME, time);
    else
        emit_blob(out, name, KDA_TYPE_BINARY, bytes, size);
}

void kda_payload_emit(struct kda_event_builder *out, const struct kda_etl_field *f,
                      const char *name, const uint8_t *bytes, uint32_t size)
{
    switch (f->in) {
    case KDA_IN_UNICODE:
    case KDA_IN_COUNTED_UNICODE:
    case KDA_IN_WBEM_COUNTED_UNICODE:
    case KDA_IN_REVERSED_UNICODE:
    case KDA_IN_REST_UNICODE:
    case KDA_IN_UNICODE_CHAR:
        emit_unicode(out, name, bytes, size);
        return;
    case KDA_IN_ANSI:
    case KDA_IN_COUNTED_ANSI:
    case KDA_IN_WBEM_COUNTED_ANSI:
    case KDA_IN_REVERSED_ANSI:
    case KDA_IN_REST_ANSI:
    case KDA_IN_ANSI_CHAR:
        emit_ansi(out, name, bytes, size);
        return;
    case KDA_IN_FLOAT:
    case KDA_IN_DOUBLE:
        emit_double(out, name, bytes, size);
        return;
    case KDA_IN_BOOLEAN:
        kda_event_object_number(out, name, KDA_TYPE_BOOL,
                                kda_payload_integer(KDA_IN_UINT32, bytes, size) != 0);
        return;
    case KDA_IN_GUID:
        emit_blob(out, name, KDA_TYPE_GUID, bytes, size);
        return;
    case KDA_IN_FILETIME:
    case KDA_IN_SYSTEMTIME:
        emit_time(out, name, bytes, size);
        return;
    case KDA_IN_SID:
    case KDA_IN_WBEM_SID:
        if (size != 0)
            emit_blob(out, name, KDA_TYPE_SID, bytes, size);
        return;
    case KDA_IN_BINARY:
    case KDA_IN_COUNTED_BINARY:
    case KDA_IN_HEX_DUMP:
        emit_binary(out, f, name, bytes, size);
        return;
    case KDA_IN_NULL:
        return;
    default:
        emit_integer(out, f, name, bytes, size);
        return;
    }
}

bool kda_payload_emit_whole(struct kda_event_builder *out, const struct kda_etl_field *f,
                            const char *name, const uint8_t *bytes, uint32_t size)
{
    switch (f->in) {
    case KDA_IN_UNICODE_CHAR:
        emit_unicode(out, name, bytes, size);
        return true;
    case KDA_IN_ANSI_CHAR:
        emit_ansi(out, name, bytes, size);
        return true;
    case KDA_IN_UINT16:
        if (f->out != KDA_OUT_STRING)
            return false;
        emit_unicode(out, name, bytes, size);
        return true;
    case KDA_IN_INT8:
    case KDA_IN_UINT8:
        if (f->out == KDA_OUT_STRING || f->out == KDA_OUT_UTF8)
            emit_ansi(out, name, bytes, size);
        else if (f->in == KDA_IN_UINT8 && (f->out == KDA_OUT_DEFAULT || f->out == KDA_OUT_HEX))
            emit_blob(out, name, KDA_TYPE_BINARY, bytes, size);
        else
            return false;
        return true;
    default:
        return false;
    }
}
