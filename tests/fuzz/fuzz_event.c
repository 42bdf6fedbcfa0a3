/*
 * fuzz_event.c - drives the builder by a script made of the input. Whatever is called in whatever
 * order and room, the result is a valid record that ends inside its buffer and encodes to JSON.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kda_jsonl.h"

struct script {
    const uint8_t *at;
    size_t rest;
};

static uint8_t byte(struct script *s)
{
    if (s->rest == 0)
        return 0;
    s->rest--;
    return *s->at++;
}

static size_t take(struct script *s, size_t want)
{
    return want < s->rest ? want : s->rest;
}

static void text(struct kda_event_builder *b, struct script *s, enum kda_field field)
{
    static uint16_t units[128];
    size_t count = take(s, byte(s) % 128u) / 2;
    memcpy(units, s->at, 2 * count);
    kda_event_string(b, field, units, count);
    s->at += 2 * count;
    s->rest -= 2 * count;
}

static void step(struct kda_event_builder *b, struct script *s)
{
    static const char *const names[4] = {"a", "", "long_name", NULL};
    uint8_t what = byte(s);
    enum kda_field field = (enum kda_field)KDA_FIELD_ID(
        what & 0x80 ? kda_kinds[b->event->kind].shape : byte(s), byte(s) % 34u);
    enum kda_type type = (enum kda_type)(byte(s) % (KDA_TYPE_COUNT + 1u));
    size_t limit = byte(s);
    const char *name = names[limit % 4];
    size_t count = take(s, byte(s));
    switch (what % 13) {
    case 0:
        kda_event_set(b, field, (uint64_t)byte(s) << (byte(s) % 64));
        break;
    case 1:
        text(b, s, field);
        break;
    case 2:
        kda_event_bytes(b, field, s->at, count, limit);
        break;
    case 3:
        kda_event_omit(b, field, (enum kda_omit_reason)byte(s));
        break;
    case 4:
        kda_event_cut(b, field);
        break;
    case 5:
        kda_event_take(b, field, byte(s));
        break;
    case 6:
        kda_event_object_begin(b, field);
        break;
    case 7:
        kda_event_object_number(b, name, type, byte(s));
        break;
    case 8:
        kda_event_object_bytes(b, name, type, s->at, count);
        break;
    case 9:
        (void)kda_event_object_open(b, name, byte(s) & 1 ? KDA_TYPE_ARRAY : KDA_TYPE_OBJECT);
        break;
    case 10:
        kda_event_object_close(b);
        break;
    case 11:
        kda_event_object_end(b);
        break;
    default: {
        uint64_t counts[KDA_KIND_COUNT] = {0};
        counts[byte(s) % KDA_KIND_COUNT] = byte(s);
        kda_event_counts(b, field, counts);
        break;
    }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script s = {data, size};
    struct kda_clock clock = {.frequency = 10000000};
    size_t room = KDA_EVENT_MIN_BYTES + 8u * byte(&s);
    uint64_t *buffer = calloc(1, room);
    struct kda_event_builder b;
    if (!buffer)
        return 0;
    if (kda_event_begin(&b, buffer, room, byte(&s) % (KDA_KIND_COUNT + 1u), 1 + byte(&s) % 4u)) {
        while (s.rest > 0)
            step(&b, &s);
        size_t bytes = kda_event_end(&b);
        if (bytes == 0 || bytes > room || !kda_event_valid(buffer, bytes))
            abort();
        size_t need = kda_jsonl_encode(b.event, &clock, NULL, 0);
        if (need > KDA_JSONL_MAX(bytes))
            abort();
    }
    free(buffer);
    return 0;
}
