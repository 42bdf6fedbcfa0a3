/*
 * The record: lists that agree with each other, a builder that never writes past its buffer and
 * marks what it cuts, a reader that is safe on anything.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "event_json.h"
#include "kda_jsonl.h"

static uint64_t words[KDA_EVENT_MAX_BYTES / 8 + 2];
static char line[KDA_JSONL_MAX(KDA_EVENT_MAX_BYTES)];

static void lists_agree(void **state)
{
    (void)state;
    for (unsigned kind = 1; kind < KDA_KIND_COUNT; kind++) {
        const struct kda_kind_info *info = &kda_kinds[kind];
        assert_non_null(info->name);
        assert_int_equal(strlen(info->name), info->name_size);
        assert_non_null(strchr(info->name, '.'));
        assert_string_equal(info->fields[0].name, "process_key");
        assert_string_equal(info->fields[1].name, "image");
        for (unsigned other = 1; other < kind; other++)
            assert_string_not_equal(info->name, kda_kinds[other].name);
        for (unsigned i = 0; i < info->slots; i++) {
            char key[64];
            snprintf(key, sizeof key, ",\"%s\":", info->fields[i].name);
            assert_int_equal(strlen(key), info->fields[i].json_size);
            assert_memory_equal(key, info->fields[i].json, info->fields[i].json_size);
            for (unsigned j = 0; j < i; j++)
                assert_string_not_equal(info->fields[i].name, info->fields[j].name);
        }
        assert_int_equal(kda_class_of(kind), info->class_);
    }
    assert_null(kda_kinds[0].name);
    assert_int_equal(kda_class_of(60000), KDA_CLASS_REGISTRY);
}

/* One meaning per name: a reader of JSON lines need not know the kind to read a field. */
static void same_name_same_type(void **state)
{
    (void)state;
    for (unsigned a = 1; a < KDA_KIND_COUNT; a++) {
        for (unsigned i = 0; i < kda_kinds[a].slots; i++) {
            const struct kda_field_info *field = &kda_kinds[a].fields[i];
            /* The version of an event is a number, that of the sensor a text. */
            if (strcmp(field->name, "version") == 0)
                continue;
            for (unsigned b = 1; b < a; b++) {
                for (unsigned j = 0; j < kda_kinds[b].slots; j++) {
                    if (strcmp(field->name, kda_kinds[b].fields[j].name) == 0)
                        assert_int_equal(field->type, kda_kinds[b].fields[j].type);
                }
            }
        }
    }
}

static void class_thresholds(void **state)
{
    (void)state;
    assert_int_equal(kda_class_percent[KDA_CLASS_REGISTRY], 75);
    assert_int_equal(kda_class_percent[KDA_CLASS_NETWORK], 85);
    assert_int_equal(kda_class_percent[KDA_CLASS_IMAGE], 95);
    assert_int_equal(kda_class_percent[KDA_CLASS_PROCESS], 100);
    assert_int_equal(kda_class_percent[KDA_CLASS_SENSOR], 100);
}

/* A value of the right form for every field. */
static void set_any(struct kda_event_builder *b, unsigned slot, const uint8_t *filler, size_t bytes)
{
    static const uint8_t sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18};
    const struct kda_kind_info *info = &kda_kinds[b->event->kind];
    enum kda_field field = (enum kda_field)KDA_FIELD_ID(info->shape, slot);
    uint64_t counts[KDA_KIND_COUNT] = {[1] = 1, [KDA_KIND_COUNT - 1] = 2};
    switch (info->fields[slot].type) {
    case KDA_TYPE_STRING:
        kda_event_string(b, field, (const uint16_t *)(const void *)filler, bytes / 2);
        break;
    case KDA_TYPE_SID:
        kda_event_bytes(b, field, sid, sizeof sid, 0);
        break;
    case KDA_TYPE_IP:
    case KDA_TYPE_GUID:
        kda_event_bytes(b, field, filler, 16, 0);
        break;
    case KDA_TYPE_COUNTS:
        kda_event_counts(b, field, counts);
        break;
    case KDA_TYPE_OBJECT:
        kda_event_object_begin(b, field);
        kda_event_object_bytes(b, "binary", KDA_TYPE_BINARY, filler, bytes);
        if (kda_event_object_open(b, "list", KDA_TYPE_ARRAY)) {
            for (unsigned i = 0; i < 5; i++)
                kda_event_object_number(b, NULL, KDA_TYPE_HEX, i);
            kda_event_object_close(b);
        }
        kda_event_object_end(b);
        break;
    default:
        if (kda_type_is_variable(info->fields[slot].type))
            kda_event_bytes(b, field, filler, bytes, SIZE_MAX);
        else
            kda_event_set(b, field, slot);
    }
}

/* Every field of every kind, in buffers of every size: never past the end, always valid, cut and
 * left-out fields marked. */
static void every_room(void **state)
{
    (void)state;
    static uint8_t filler[256];
    for (size_t i = 0; i < sizeof filler; i++)
        filler[i] = (uint8_t)(i * 7);
    struct kda_clock clock = {.frequency = 10000000};
    for (unsigned kind = 1; kind < KDA_KIND_COUNT; kind++) {
        for (size_t room = KDA_EVENT_MIN_BYTES; room < 2600; room += 1 + room % 5) {
            struct kda_event_builder b;
            memset(words, 0x5A, room + 64);
            assert_true(kda_event_begin(&b, words, room, kind, KDA_SOURCE_ETL));
            for (unsigned slot = 0; slot < kda_kinds[kind].slots; slot++)
                set_any(&b, slot, filler, 160);
            size_t size = kda_event_end(&b);
            assert_false(b.misused);
            assert_true(size <= room);
            for (size_t i = room; i < room + 64; i++)
                assert_int_equal(((uint8_t *)words)[i], 0x5A);
            assert_true(kda_event_valid(words, size));
            assert_false(kda_event_valid(words, size - 1));
            uint32_t all = (uint32_t)(((uint64_t)1 << kda_kinds[kind].slots) - 1);
            assert_int_equal(b.event->present | b.event->omitted, all);
            if (room > 2500)
                assert_int_equal(b.event->truncated | b.event->omitted, 0);
            size_t bytes = kda_jsonl_encode(b.event, &clock, line, sizeof line);
            assert_true(is_json_object(line, bytes));
        }
    }
}

static void cuts_and_marks(void **state)
{
    (void)state;
    static uint16_t units[40000];
    struct kda_event_builder b;
    struct kda_bytes value;
    for (size_t i = 0; i < 40000; i++)
        units[i] = 'a';
    assert_true(kda_event_begin(&b, words, KDA_EVENT_MAX_BYTES, KDA_KIND_REGISTRY_VALUE_SET,
                                KDA_SOURCE_DRIVER));
    kda_event_string(&b, KDA_FIELD_VALUE_KEY, units, 40000);
    kda_event_bytes(&b, KDA_FIELD_VALUE_DATA, units, 5000, 4096);
    kda_event_bytes(&b, KDA_FIELD_VALUE_OLD_DATA, units, 5000, 0);
    assert_true(kda_event_end(&b) > 0);
    assert_true(kda_event_get_bytes(b.event, KDA_FIELD_VALUE_KEY, &value));
    assert_int_equal(value.size, 2 * KDA_STRING_MAX_UNITS);
    assert_true(kda_event_get_bytes(b.event, KDA_FIELD_VALUE_DATA, &value));
    assert_int_equal(value.size, 4096);
    assert_true(kda_event_get_bytes(b.event, KDA_FIELD_VALUE_OLD_DATA, &value));
    assert_int_equal(value.size, 0);
    assert_int_equal(b.event->truncated, 1u << KDA_SLOT_VALUE_KEY | 1u << KDA_SLOT_VALUE_DATA |
                                             1u << KDA_SLOT_VALUE_OLD_DATA);
    /* No room at all: omitted, with the reason. */
    assert_true(kda_event_begin(&b, words, KDA_EVENT_MIN_BYTES, KDA_KIND_REGISTRY_VALUE_SET, 1));
    kda_event_string(&b, KDA_FIELD_IMAGE, units, 1000);
    kda_event_string(&b, KDA_FIELD_VALUE_KEY, units, 10);
    kda_event_string(&b, KDA_FIELD_VALUE_VALUE, units, 0);
    kda_event_end(&b);
    assert_int_equal(b.event->truncated, 1u << 1);
    assert_int_equal(kda_event_omitted(b.event, KDA_FIELD_VALUE_KEY), KDA_OMIT_LIMIT);
    assert_int_equal(kda_event_omitted(b.event, KDA_FIELD_IMAGE), KDA_OMIT_NONE);
    assert_true(kda_event_get_bytes(b.event, KDA_FIELD_VALUE_VALUE, &value));
    assert_int_equal(value.size, 0);
    /* A SID is whole or not there. */
    assert_true(kda_event_begin(&b, words, sizeof words, KDA_KIND_PROCESS_CREATE, 1));
    kda_event_bytes(&b, KDA_FIELD_PROCESS_USER_SID, "\1\2\0\0\0\0\0\5", 8, 0);
    assert_int_equal(kda_event_omitted(b.event, KDA_FIELD_PROCESS_USER_SID), KDA_OMIT_FAILED);
    assert_false(b.misused);
}

static void misuse_is_noticed(void **state)
{
    (void)state;
    struct kda_event_builder b;
    assert_false(kda_event_begin(&b, words, KDA_EVENT_MIN_BYTES - 1, KDA_KIND_THREAD_EXIT, 1));
    kda_event_set(&b, KDA_FIELD_THREAD_EXIT_EXIT_CODE, 1);
    kda_event_string(&b, KDA_FIELD_IMAGE, u"x", 1);
    assert_int_equal(kda_event_end(&b), 0);
    assert_false(kda_event_begin(&b, words, sizeof words, 0, 1));
    assert_false(kda_event_begin(&b, words, sizeof words, KDA_KIND_COUNT, 1));
    assert_false(kda_event_begin(&b, NULL, sizeof words, KDA_KIND_THREAD_EXIT, 1));
#define MISUSE(call)                                                                               \
    do {                                                                                           \
        assert_true(kda_event_begin(&b, words, sizeof words, KDA_KIND_THREAD_EXIT, 1));            \
        call;                                                                                      \
        assert_true(b.misused);                                                                    \
        assert_int_equal(b.event->present | b.event->omitted, 0);                                  \
    } while (0)
    MISUSE(kda_event_set(&b, KDA_FIELD_PROCESS_EXIT_EXIT_CODE, 1)); /* of another kind */
    MISUSE(kda_event_set(&b, KDA_FIELD_IMAGE, 1));
    MISUSE(kda_event_string(&b, KDA_FIELD_PROCESS_KEY, u"x", 1));
    MISUSE(kda_event_string(&b, KDA_FIELD_IMAGE, NULL, 1));
    MISUSE(kda_event_bytes(&b, KDA_FIELD_IMAGE, "x", 1, 1));
    MISUSE(kda_event_omit(&b, KDA_FIELD_IMAGE, (enum kda_omit_reason)77));
    MISUSE(kda_event_cut(&b, KDA_FIELD_IMAGE));
    MISUSE(kda_event_take(&b, KDA_FIELD_IMAGE, 3));
    MISUSE(kda_event_take(&b, KDA_FIELD_IMAGE, sizeof words));
    MISUSE(kda_event_object_begin(&b, KDA_FIELD_IMAGE));
    MISUSE(kda_event_object_number(&b, "x", KDA_TYPE_NUMBER, 1));
    MISUSE(kda_event_object_close(&b));
    MISUSE(kda_event_object_end(&b));
#undef MISUSE
    /* Nothing else is placed while an object is open. */
    assert_true(kda_event_begin(&b, words, sizeof words, KDA_KIND_ETW_EVENT, 1));
    kda_event_object_begin(&b, KDA_FIELD_ETW_FIELDS);
    kda_event_text(&b, KDA_FIELD_ETW_WHY, "text");
    assert_true(b.misused);
    assert_true(kda_event_end(&b) > 0);
    assert_true(kda_event_valid(words, sizeof words));
}

static void room_and_take(void **state)
{
    (void)state;
    struct kda_event_builder b;
    struct kda_bytes value;
    size_t room = 0;
    assert_true(kda_event_begin(&b, words, 1024, KDA_KIND_REGISTRY_VALUE_SET, 1));
    uint8_t *at = kda_event_room(&b, &room);
    assert_non_null(at);
    assert_int_equal(room, 1024 - 48 - 8 * KDA_SLOTS_VALUE);
    memcpy(at, "odd", 3);
    kda_event_take(&b, KDA_FIELD_VALUE_DATA, 3);
    kda_event_cut(&b, KDA_FIELD_VALUE_DATA);
    kda_event_string(&b, KDA_FIELD_VALUE_KEY, u"key", 3);
    assert_true(kda_event_end(&b) > 0);
    assert_true(kda_event_valid(words, 1024));
    assert_true(kda_event_get_bytes(b.event, KDA_FIELD_VALUE_DATA, &value));
    assert_int_equal(value.size, 3);
    assert_memory_equal(value.at, "odd", 3);
    assert_true(kda_event_get_bytes(b.event, KDA_FIELD_VALUE_KEY, &value));
    assert_memory_equal(value.at, u"key", 6);
    uint64_t number = 5;
    assert_false(kda_event_get(b.event, KDA_FIELD_VALUE_DATA, &number));
    assert_false(kda_event_get(b.event, KDA_FIELD_THREAD_NEW_TID, &number));
    assert_false(kda_event_get_bytes(b.event, KDA_FIELD_VALUE_DATA_SIZE, &value));
    assert_int_equal(number, 5);
}

/* Damaged records are refused, or read without leaving their bytes (the sanitizers look). */
static void damaged_records(void **state)
{
    (void)state;
    static uint8_t filler[128];
    struct kda_clock clock = {.frequency = 10000000};
    uint32_t random = 1;
    unsigned valid = 0, refused = 0;
    for (unsigned round = 0; round < 60000; round++) {
        struct kda_event_builder b;
        unsigned kind = 1 + round % (KDA_KIND_COUNT - 1);
        assert_true(kda_event_begin(&b, words, 2048, kind, 1));
        for (unsigned slot = 0; slot < kda_kinds[kind].slots; slot++)
            set_any(&b, slot, filler, 40);
        size_t size = kda_event_end(&b);
        uint64_t *copy = malloc(size);
        assert_non_null(copy);
        memcpy(copy, words, size);
        for (unsigned n = 0; n <= round % 3; n++) {
            random = random * 1664525u + 1013904223u;
            size_t head = 48 + 8 * (size_t)kda_kinds[kind].slots;
            size_t at = (random >> 8) % (round & 1 ? head : size);
            ((uint8_t *)copy)[at] ^= (uint8_t)(1u << (random & 7));
        }
        if (kda_event_valid(copy, size)) {
            const struct kda_event *event = (const struct kda_event *)copy;
            valid++;
            size_t bytes = kda_jsonl_encode(event, &clock, line, sizeof line);
            assert_true(bytes <= KDA_JSONL_MAX(event->size));
            assert_true(is_json_object(line, bytes));
        } else {
            refused++;
        }
        free(copy);
    }
    assert_true(valid > 10000 && refused > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_agree),      cmocka_unit_test(same_name_same_type),
        cmocka_unit_test(class_thresholds), cmocka_unit_test(every_room),
        cmocka_unit_test(cuts_and_marks),   cmocka_unit_test(misuse_is_noticed),
        cmocka_unit_test(room_and_take),    cmocka_unit_test(damaged_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
