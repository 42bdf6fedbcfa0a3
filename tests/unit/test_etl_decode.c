/*
 * test_etl_decode.c - events that describe themselves (TraceLogging), what no description fits,
 * extended items, losses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode_rig.h"

#define PROVIDER "11223344-5566-7788-99aa-bbccddeeff00"

static struct etl_record event(unsigned id, unsigned version, const struct blob *payload)
{
    struct etl_record record = {
        .kind = ETL_EVENT,
        .id = (uint16_t)id,
        .version = (uint16_t)version,
        .level = 4,
        .keyword = 0x10,
        .pid = 40,
        .tid = 41,
        .time = 1000,
        .payload = payload->data,
        .payload_size = payload->size,
    };
    etl_guid(PROVIDER, record.guid);
    return record;
}

/* ---- TraceLogging ---- */

struct logged {
    struct blob schema, payload;
    struct etl_ext ext[2];
};

static struct etl_record logged(struct logged *l)
{
    etl_schema_end(&l->schema);
    l->ext[0] = (struct etl_ext){ETL_EXT_SCHEMA, l->schema.data, (uint16_t)l->schema.size};
    struct etl_record record = event(0, 0, &l->payload);
    record.ext = l->ext;
    record.ext_count = 1;
    return record;
}

static void logged_free(struct logged *l)
{
    blob_free(&l->schema);
    blob_free(&l->payload);
    memset(l, 0, sizeof(*l));
}

enum {
    IN_WIDE = 1,
    IN_NARROW = 2,
    IN_I8 = 3,
    IN_U8 = 4,
    IN_I16 = 5,
    IN_U16 = 6,
    IN_I32 = 7,
    IN_U32 = 8,
    IN_I64 = 9,
    IN_U64 = 10,
    IN_FLOAT = 11,
    IN_DOUBLE = 12,
    IN_BOOL = 13,
    IN_BINARY = 14,
    IN_GUID = 15,
    IN_FILETIME = 17,
    IN_SYSTEMTIME = 18,
    IN_SID = 19,
    IN_HEX32 = 20,
    IN_HEX64 = 21,
    IN_COUNTED_WIDE = 22,
    IN_COUNTED_NARROW = 23,
    IN_STRUCT = 24,
    VARIABLE = 0x40,
    CONSTANT = 0x20
};

static void check_types(struct decode_rig *rig, struct logged *l)
{
    struct etl_record record = logged(l);
    assert_line(
        rig, &record,
        "etw.event\",\"source\":\"etl\",\"cpu\":3,\"pid\":40,\"tid\":41,"
        "\"provider\":\"{" PROVIDER "}\",\"event_id\":0,\"version\":0,\"opcode\":0,\"level\":4,"
        "\"keyword\":\"0x10\",\"event_name\":\"Types\",\"fields\":{\"wide\":\"a\\\"b\","
        "\"narrow\":\"text\",\"i8\":-2,\"flag\":true,\"i16\":-2,\"port\":443,"
        "\"status\":\"0xc0000005\",\"ip\":\"10.0.0.1\",\"i64\":-1,\"u64\":18446744073709551615,"
        "\"half\":-0.25,\"number\":1.5,\"yes\":true,\"bytes\":\"010203\","
        "\"id\":\"{00000101-0000-0500-1200-000000000000}\","
        "\"when\":\"2026-11-29T21:04:05.1234567Z\",\"date\":\"2026-11-29T21:04:05.1230000Z\","
        "\"user\":\"S-1-5-18\",\"hex\":\"0xff\",\"pointer\":\"0xffff800000000000\","
        "\"counted\":\"xy\",\"utf8\":\"\xC3\xA9\"}");
}

static void test_tracelogging_types(void **state)
{
    static const uint8_t sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    static const uint16_t systemtime[8] = {2026, 11, 0, 29, 21, 4, 5, 123};
    (void)state;
    struct decode_rig rig;
    struct logged l = {0};
    double number = 1.5;
    float half = -0.25f;
    rig_open(&rig, NULL);
    etl_schema_begin(&l.schema, "Types", 0x1234567);
    etl_schema_field(&l.schema, "wide", IN_WIDE, 0, 0);
    etl_put_wide(&l.payload, "a\"b");
    etl_schema_field(&l.schema, "narrow", IN_NARROW, 0, 0x4321);
    etl_put_narrow(&l.payload, "text");
    etl_schema_field(&l.schema, "i8", IN_I8, 0, 0);
    blob_put(&l.payload, "\xFE", 1);
    etl_schema_field(&l.schema, "flag", IN_U8, 3, 0);
    blob_put(&l.payload, "\x01", 1);
    etl_schema_field(&l.schema, "i16", IN_I16, 0, 0);
    blob_put16(&l.payload, 0xFFFE);
    etl_schema_field(&l.schema, "port", IN_U16, 7, 0);
    blob_put(&l.payload, "\x01\xBB", 2);
    etl_schema_field(&l.schema, "status", IN_I32, 14, 0);
    blob_put32(&l.payload, 0xC0000005);
    etl_schema_field(&l.schema, "ip", IN_U32, 8, 0);
    blob_put(&l.payload, "\x0A\0\0\x01", 4);
    etl_schema_field(&l.schema, "i64", IN_I64, 0, 0);
    blob_put64(&l.payload, UINT64_MAX);
    etl_schema_field(&l.schema, "u64", IN_U64, 0, 0);
    blob_put64(&l.payload, UINT64_MAX);
    etl_schema_field(&l.schema, "half", IN_FLOAT, 0, 0);
    blob_put(&l.payload, &half, 4);
    etl_schema_field(&l.schema, "number", IN_DOUBLE, 0, 0);
    blob_put(&l.payload, &number, 8);
    etl_schema_field(&l.schema, "yes", IN_BOOL, 0, 0);
    blob_put32(&l.payload, 1);
    etl_schema_field(&l.schema, "bytes", IN_BINARY, 0, 0);
    blob_put16(&l.payload, 3);
    blob_put(&l.payload, "\x01\x02\x03", 3);
    etl_schema_field(&l.schema, "id", IN_GUID, 0, 0);
    blob_put(&l.payload, sid, 12);
    blob_put(&l.payload, NULL, 4);
    etl_schema_field(&l.schema, "when", IN_FILETIME, 0, 0);
    blob_put64(&l.payload, RIG_TIME);
    etl_schema_field(&l.schema, "date", IN_SYSTEMTIME, 0, 0);
    blob_put(&l.payload, systemtime, 16);
    etl_schema_field(&l.schema, "user", IN_SID, 0, 0);
    blob_put(&l.payload, sid, sizeof(sid));
    etl_schema_field(&l.schema, "hex", IN_HEX32, 0, 0);
    blob_put32(&l.payload, 255);
    etl_schema_field(&l.schema, "pointer", IN_HEX64, 0, 0);
    blob_put64(&l.payload, 0xFFFF800000000000);
    etl_schema_field(&l.schema, "counted", IN_COUNTED_WIDE, 0, 0);
    blob_put16(&l.payload, 4);
    blob_put(&l.payload, "x\0y\0", 4);
    etl_schema_field(&l.schema, "utf8", IN_COUNTED_NARROW, 35, 0);
    blob_put16(&l.payload, 2);
    blob_put(&l.payload, "\xC3\xA9", 2);
    check_types(&rig, &l);
    logged_free(&l);
    rig_close(&rig);
}
static void test_tracelogging_arrays(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct logged l = {0};
    rig_open(&rig, NULL);
    etl_schema_begin(&l.schema, "Arrays", 0);
    etl_schema_field(&l.schema, "some", VARIABLE | IN_U32, 0, 0);
    blob_put16(&l.payload, 2);
    blob_put32(&l.payload, 7);
    blob_put32(&l.payload, 8);
    etl_schema_field(&l.schema, "two", CONSTANT | IN_I8, 0, 0);
    etl_schema_count(&l.schema, 2);
    blob_put(&l.payload, "\x01\xFF", 2);
    etl_schema_field(&l.schema, "text", VARIABLE | IN_U16, 2, 0);
    blob_put16(&l.payload, 2);
    blob_put(&l.payload, "h\0i\0", 4);
    etl_schema_field(&l.schema, "points", VARIABLE | IN_STRUCT, 2, 0);
    etl_schema_field(&l.schema, "x", IN_U8, 0, 0);
    etl_schema_field(&l.schema, "inner", IN_STRUCT, 1, 0);
    etl_schema_field(&l.schema, "y", IN_U8, 0, 0);
    etl_schema_field(&l.schema, "last", IN_U8, 0, 0);
    blob_put16(&l.payload, 2);
    blob_put(&l.payload, "\x01\x02\x03\x04\x05", 5);
    struct etl_record record = logged(&l);
    /* Below four levels nothing is shown; what was left out is said. */
    const char *line = rig_line(&rig, &record);
    assert_non_null(strstr(line, "\"fields\":{\"some\":[7,8],\"two\":[1,-1],\"text\":\"hi\","
                                 "\"points\":[{\"x\":1,\"inner\":{\"y\":2}},{\"x\":3,\"inner\":"
                                 "{\"y\":4}}],\"last\":5}"));
    /* Again: from the cache. */
    assert_string_equal(rig_fields(&rig, &record),
                        "{\"some\":[7,8],\"two\":[1,-1],\"text\":\"hi\",\"points\":[{\"x\":1,"
                        "\"inner\":{\"y\":2}},{\"x\":3,\"inner\":{\"y\":4}}],\"last\":5}");
    logged_free(&l);
    rig_close(&rig);
}

/* Plain text goes in steps of eight bytes: each character has to be seen at each place of one. */
static void test_text_at_every_place(void **state)
{
    static const char shorts[] = "\b\t\n\f\r\"\\", letters[] = "btnfr\"\\";
    (void)state;
    struct decode_rig rig;
    rig_open(&rig, NULL);
    for (unsigned c = 1; c < 128; c++) {
        const char *found = strchr(shorts, (int)c);
        char special[8], text[20], expected[64];
        if (found)
            (void)snprintf(special, sizeof(special), "\\%c", letters[found - shorts]);
        else
            (void)snprintf(special, sizeof(special), c < 0x20 ? "\\u%04x" : "%c", c);
        for (unsigned place = 0; place < 19; place++) {
            struct logged l = {0};
            memset(text, 'a', 19);
            text[19] = '\0';
            text[place] = (char)c;
            etl_schema_begin(&l.schema, "Text", 0);
            etl_schema_field(&l.schema, "t", IN_NARROW, 0, 0);
            etl_put_narrow(&l.payload, text);
            (void)snprintf(expected, sizeof(expected), "{\"t\":\"%.*s%s%s\"}", (int)place, text,
                           special, text + place + 1);
            struct etl_record record = logged(&l);
            assert_fields(&rig, &record, expected);
            logged_free(&l);
        }
    }
    rig_close(&rig);
}

static void test_tracelogging_damaged(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct logged l = {0};
    rig_open(&rig, NULL);
    etl_schema_begin(&l.schema, "Short", 0);
    etl_schema_field(&l.schema, "a", IN_U32, 0, 0);
    etl_schema_field(&l.schema, "b", IN_U32, 0, 0);
    blob_put32(&l.payload, 1);
    blob_put16(&l.payload, 2);
    struct etl_record record = logged(&l);
    assert_fields(&rig, &record,
                  "{\"a\":1},\"payload\":\"010000000200\",\"why\":\"field b is missing (described "
                  "by TraceLogging metadata)\"");
    logged_free(&l);
    etl_schema_begin(&l.schema, "Struct", 0);
    etl_schema_field(&l.schema, "s", IN_STRUCT, 3, 0);
    etl_schema_field(&l.schema, "a", IN_U32, 0, 0);
    record = logged(&l);
    assert_non_null(
        strstr(rig_line(&rig, &record), "\"why\":\"the metadata ends within a structure\""));
    /* Every cut of metadata and payload is a line. */
    for (uint16_t size = 0; size < l.schema.size; size++) {
        l.ext[0].size = size;
        assert_true(strlen(rig_line(&rig, &record)) > 0);
    }
    logged_free(&l);
    rig_close(&rig);
}

/* ---- records without a description ---- */

static const char *name_of(const uint8_t guid[16])
{
    return guid[0] == 0x44 ? "Registered" : NULL;
}

static void test_not_described(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    const struct kda_decode_options options = {.provider_name = name_of}, raw = {.raw = true};
    rig_open(&rig, &options);
    etl_put_wide(&payload, "hello");
    struct etl_record record = event(77, 3, &payload);
    assert_non_null(strstr(rig_line(&rig, &record),
                           "\"provider_name\":\"Registered\",\"event_id\":77,\"version\":3,"
                           "\"opcode\":0,\"level\":4,\"keyword\":\"0x10\","
                           "\"payload\":\"680065006c006c006f000000\","
                           "\"why\":\"no description of this event\""));
    record.flags = 4; /* STRING_ONLY */
    assert_fields(&rig, &record, "{\"Message\":\"hello\"}");
    record = (struct etl_record){.kind = ETL_MESSAGE,
                                 .id = 12,
                                 .flags = ETL_MSG_GUID | ETL_MSG_TIME | ETL_MSG_SYSTEMINFO,
                                 .time = 5,
                                 .pid = 1,
                                 .tid = 2,
                                 .payload = "\x01\x02",
                                 .payload_size = 2};
    etl_guid(PROVIDER, record.guid);
    assert_non_null(strstr(rig_line(&rig, &record), "\"event_id\":12"));
    assert_non_null(strstr(rig_line(&rig, &record), "\"payload\":\"0102\",\"why\":\"WPP message"));
    record = (struct etl_record){.kind = ETL_SYSTEM,
                                 .group = 0x1F,
                                 .type = 9,
                                 .payload = "\x09",
                                 .payload_size = 1,
                                 .time = 1};
    assert_non_null(strstr(rig_line(&rig, &record), "\"event_id\":7945"));
    rig_close(&rig);
    rig_open(&rig, &raw);
    record = event(77, 3, &payload);
    record.flags = 4;
    assert_non_null(strstr(rig_line(&rig, &record), "\"why\":\"not asked for\""));
    blob_free(&payload);
    rig_close(&rig);
}

/* ---- extended items ---- */

static void test_extended_items(void **state)
{
    static const uint8_t sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    static const uint64_t stack[3] = {9, 0x7FF600001000, 0x7FF600002000};
    static const uint32_t session = 2;
    static const uint64_t key = 0x1000000000042;
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0}, traits = {0};
    uint8_t guid[16];
    rig_open(&rig, NULL);
    etl_guid("4f50731a-89cf-4782-b3e0-dce8c90476ba", guid);
    etl_put_traits(&traits, "Named-By-Traits", guid);
    const struct etl_ext ext[] = {
        {ETL_EXT_STACK64, stack, sizeof(stack)},
        {ETL_EXT_SID, sid, sizeof(sid)},
        {ETL_EXT_SESSION, &session, 4},
        {ETL_EXT_START_KEY, &key, 8},
        {ETL_EXT_RELATED, guid, 16},
        {ETL_EXT_TRAITS, traits.data, (uint16_t)traits.size},
        {99, "\x01", 1},
    };
    struct etl_record record = event(1, 0, &payload);
    record.ext = ext;
    record.ext_count = 7;
    etl_guid(PROVIDER, record.activity);
    const char *line = rig_line(&rig, &record);
    assert_non_null(strstr(line, "\"process_key\":\"0x1000000000042\""));
    assert_non_null(strstr(line, "\"provider_name\":\"Named-By-Traits\""));
    assert_non_null(strstr(line, "\"activity\":\"{" PROVIDER "}\",\"related_activity\":"
                                 "\"{4f50731a-89cf-4782-b3e0-dce8c90476ba}\""));
    assert_non_null(strstr(line, "\"extended\":{\"stack_match\":\"0x9\",\"stack\":"
                                 "[\"0x7ff600001000\",\"0x7ff600002000\"],\"user_sid\":"
                                 "\"S-1-5-18\",\"session\":2,\"provider_group\":"
                                 "\"{4f50731a-89cf-4782-b3e0-dce8c90476ba}\",\"item_99\":\"01\"}"));
    blob_free(&traits);
    rig_close(&rig);
}

/* ---- losses ---- */

static void test_losses(void **state)
{
    (void)state;
    struct decode_rig rig;
    size_t size;
    rig_open(&rig, NULL);
    const struct kda_decode_loss loss = {.source = KDA_DECODE_ETL,
                                         .damaged = true,
                                         .bytes = 96,
                                         .off = 0x10048,
                                         .why = "no record",
                                         .file = "a.etl",
                                         .time = RIG_TIME};
    const struct kda_event *told = kda_etl_decoder_loss(rig.decoder, &loss);
    assert_non_null(told);
    const char *line = kda_etl_decoder_line(rig.decoder, told, 7, &size);
    static const char expected[] =
        "{\"v\":1,\"id\":7,\"time\":\"2026-11-29T21:04:05.1234567Z\",\"kind\":\"sensor.loss\","
        "\"source\":\"etl\",\"lost_bytes\":96,\"reason\":\"damaged\",\"file\":\"a.etl\","
        "\"offset\":\"0x10048\",\"why\":\"no record\"}\n";
    assert_int_equal(size, sizeof(expected) - 1);
    assert_memory_equal(line, expected, size);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tracelogging_types),
        cmocka_unit_test(test_tracelogging_arrays),
        cmocka_unit_test(test_text_at_every_place),
        cmocka_unit_test(test_tracelogging_damaged),
        cmocka_unit_test(test_not_described),
        cmocka_unit_test(test_extended_items),
        cmocka_unit_test(test_losses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
