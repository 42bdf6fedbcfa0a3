/*
 * fuzz_jsonl.c - any bytes as a record: refused, or encoded to one line of valid JSON, the same by
 * both string paths and in any buffer.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef KDA_TEST_JANSSON
#include <jansson.h>
#endif

#include "kda_jsonl.h"

static void check_json(const char *line, size_t bytes)
{
    if (bytes == 0 || line[bytes - 1] != '\n' || memchr(line, '\n', bytes) != line + bytes - 1)
        abort();
#ifdef KDA_TEST_JANSSON
    json_t *root = json_loadb(line, bytes, JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, NULL);
    if (!json_is_object(root))
        abort();
    json_decref(root);
#endif
}

/* Most inputs are not valid as they are: sizes and slots are set to what the kind wants, so that
 * the places and values are what is tried. */
static void repair(struct kda_event *event, size_t size)
{
    event->size = (uint32_t)size;
    event->kind = (uint16_t)(1 + event->kind % (KDA_KIND_COUNT - 1));
    event->source = (uint8_t)(1 + event->source % 4);
    event->slots = kda_kinds[event->kind].slots;
    uint32_t all = (uint32_t)(((uint64_t)1 << event->slots) - 1);
    event->present &= all;
    event->omitted &= all & ~event->present;
    event->truncated &= event->present;
    uint32_t start = KDA_EVENT_HEAD_BYTES + 8u * event->slots;
    if (size < start)
        return;
    uint64_t *slots = (uint64_t *)(void *)(event + 1);
    uint32_t room = (uint32_t)size - start;
    for (unsigned i = 0; i < event->slots; i++) {
        if (event->omitted >> i & 1)
            slots[i] = 1 + slots[i] % (KDA_OMIT_COUNT - 1);
        if (!(event->present >> i & 1) ||
            !kda_type_is_variable(kda_kinds[event->kind].fields[i].type))
            continue;
        uint32_t bytes = room ? (uint32_t)(slots[i] >> 32) % (room + 1) : 0;
        bytes &= kda_kinds[event->kind].fields[i].type == KDA_TYPE_COUNTS ? ~15u : ~1u;
        slots[i] = (uint64_t)bytes << 32 | (uint32_t)(size - room);
        room -= bytes;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 16384)
        return 0;
    uint8_t mode = data[0];
    size_t bytes = (size - 1) & ~(size_t)7;
    uint64_t *record = malloc(bytes + 8);
    char *line = NULL, *other = NULL;
    if (!record)
        return 0;
    memcpy(record, data + 1, bytes);
    struct kda_event *event = (struct kda_event *)record;
    if (mode & 1 && bytes >= KDA_EVENT_HEAD_BYTES)
        repair(event, bytes);
    if (kda_event_valid(record, bytes)) {
        struct kda_clock clock = {.counter = mode,
                                  .utc = (uint64_t)mode << 56,
                                  .frequency = 1u + mode,
                                  .in_order = (mode & 2) != 0};
        struct kda_clock same = clock, again = clock;
        size_t need = kda_jsonl_encode(event, &clock, NULL, 0);
        line = malloc(need);
        other = malloc(need);
        if (!line || !other || need > KDA_JSONL_MAX(event->size))
            abort();
        if (kda_jsonl_encode(event, &same, line, need) != need ||
            kda_jsonl_encode_portable(event, &again, other, need) != need ||
            memcmp(line, other, need) != 0)
            abort();
        check_json(line, need);
    }
    free(line);
    free(other);
    free(record);
    return 0;
}
