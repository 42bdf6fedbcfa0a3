#define _GNU_SOURCE
#include "plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef BENCH_JANSSON
#include <jansson.h>
#endif

#define TEXT_BYTES 4096u

/* UTF-16 to UTF-8, unit by unit, without escapes. */
static size_t utf8_of(struct kda_bytes text, char *out)
{
    size_t n = 0;
    for (size_t i = 0; i + 1 < text.size; i += 2) {
        unsigned c = text.at[i] | (unsigned)text.at[i + 1] << 8;
        if (c < 0x80) {
            out[n++] = (char)c;
        } else if (c < 0x800) {
            out[n++] = (char)(0xC0 | c >> 6);
            out[n++] = (char)(0x80 | (c & 63));
        } else {
            out[n++] = (char)(0xE0 | c >> 12);
            out[n++] = (char)(0x80 | (c >> 6 & 63));
            out[n++] = (char)(0x80 | (c & 63));
        }
    }
    out[n] = '\0';
    return n;
}

static void time_of(uint64_t utc, char *out, size_t room)
{
    time_t seconds = (time_t)(utc / 10000000u) - 11644473600;
    struct tm tm;
    char date[32];
    gmtime_r(&seconds, &tm);
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, room, "%s.%07uZ", date, (unsigned)(utc % 10000000u));
}

static void sid_of(struct kda_bytes sid, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "S-%u-%u", sid.at[0], sid.at[7]);
    for (size_t i = 8; i + 3 < sid.size; i += 4) {
        uint32_t part;
        memcpy(&part, sid.at + i, 4);
        n += (size_t)snprintf(out + n, room - n, "-%u", part);
    }
}

/* The value as text; *number is set where it stands without quotes. */
static void value_of(const struct kda_event *event, unsigned slot, char *out, bool *number)
{
    uint64_t value = kda_event_slots(event)[slot];
    struct kda_bytes bytes = {(const uint8_t *)event + (uint32_t)value, (size_t)(value >> 32)};
    enum kda_type type = (enum kda_type)kda_kinds[event->kind].fields[slot].type;
    const struct kda_name *name = kda_value_name(type, value);
    uint32_t dword;
    *number = false;
    if (name) {
        snprintf(out, TEXT_BYTES, "%s", name->text);
    } else if (type == KDA_TYPE_NUMBER) {
        *number = true;
        snprintf(out, TEXT_BYTES, "%llu", (unsigned long long)value);
    } else if (type == KDA_TYPE_HEX) {
        snprintf(out, TEXT_BYTES, "0x%llx", (unsigned long long)value);
    } else if (type == KDA_TYPE_STATUS) {
        snprintf(out, TEXT_BYTES, "0x%08llx", (unsigned long long)value);
    } else if (type == KDA_TYPE_BOOL) {
        *number = true;
        snprintf(out, TEXT_BYTES, "%s", value ? "true" : "false");
    } else if (type == KDA_TYPE_TIME) {
        time_of(value, out, TEXT_BYTES);
    } else if (type == KDA_TYPE_SID) {
        sid_of(bytes, out, TEXT_BYTES);
    } else if (type == KDA_TYPE_IP) {
        snprintf(out, TEXT_BYTES, "%u.%u.%u.%u", bytes.at[0], bytes.at[1], bytes.at[2],
                 bytes.at[3]);
    } else if (type == KDA_TYPE_DATA && kda_event_slots(event)[KDA_SLOT_VALUE_VALUE_TYPE] == 4) {
        *number = true;
        memcpy(&dword, bytes.at, 4);
        snprintf(out, TEXT_BYTES, "%u", dword);
    } else {
        utf8_of(bytes, out);
    }
}

/* A text with its escapes, character by character. */
static size_t put_escaped(char *out, size_t room, const char *text)
{
    size_t n = 0;
    for (; *text != '\0' && n + 8 < room; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            n += (size_t)snprintf(out + n, room - n, "\\%c", c);
        else if (c < 0x20)
            n += (size_t)snprintf(out + n, room - n, "\\u%04x", c);
        else
            out[n++] = (char)c;
    }
    return n;
}

size_t plain_encode(const struct kda_event *event, struct kda_clock *clock, char *out, size_t room)
{
    char text[TEXT_BYTES];
    time_of(kda_clock_utc(clock, event->time), text, sizeof text);
    size_t n = (size_t)snprintf(
        out, room,
        "{\"v\":%d,\"id\":%llu,\"time\":\"%s\",\"kind\":\"%s\",\"source\":\"%s\",\"cpu\":%u,"
        "\"pid\":%u,\"tid\":%u",
        KDA_SCHEMA_VERSION, (unsigned long long)event->id, text, kda_kinds[event->kind].name,
        kda_source_name(event->source), event->cpu, event->pid, event->tid);
    for (unsigned slot = 0; slot < event->slots; slot++) {
        bool number;
        if (!(event->present >> slot & 1))
            continue;
        value_of(event, slot, text, &number);
        n += (size_t)snprintf(out + n, room - n, ",\"%s\":%s",
                              kda_kinds[event->kind].fields[slot].name, number ? "" : "\"");
        n += put_escaped(out + n, room - n, text);
        if (!number)
            n += (size_t)snprintf(out + n, room - n, "\"");
    }
    return n + (size_t)snprintf(out + n, room - n, "}\n");
}

#ifdef BENCH_JANSSON
size_t jansson_encode(const struct kda_event *event, struct kda_clock *clock)
{
    char text[TEXT_BYTES];
    json_t *root = json_object();
    time_of(kda_clock_utc(clock, event->time), text, sizeof text);
    json_object_set_new(root, "v", json_integer(KDA_SCHEMA_VERSION));
    json_object_set_new(root, "id", json_integer((json_int_t)event->id));
    json_object_set_new(root, "time", json_string(text));
    json_object_set_new(root, "kind", json_string(kda_kinds[event->kind].name));
    json_object_set_new(root, "source", json_string(kda_source_name(event->source)));
    json_object_set_new(root, "cpu", json_integer(event->cpu));
    json_object_set_new(root, "pid", json_integer(event->pid));
    json_object_set_new(root, "tid", json_integer(event->tid));
    for (unsigned slot = 0; slot < event->slots; slot++) {
        const struct kda_field_info *field = &kda_kinds[event->kind].fields[slot];
        bool number;
        if (!(event->present >> slot & 1))
            continue;
        if (field->type == KDA_TYPE_NUMBER) {
            json_object_set_new(root, field->name,
                                json_integer((json_int_t)kda_event_slots(event)[slot]));
            continue;
        }
        value_of(event, slot, text, &number);
        json_object_set_new(root, field->name, json_string(text));
    }
    char *line = json_dumps(root, JSON_COMPACT);
    size_t bytes = line ? strlen(line) + 1 : 0;
    free(line);
    json_decref(root);
    return bytes;
}
#else
size_t jansson_encode(const struct kda_event *event, struct kda_clock *clock)
{
    (void)event;
    (void)clock;
    return 0;
}
#endif
