/*
 * test_etl_decode.c - events that describe themselves, or are described in the trace: TraceLogging,
 * TRACE_EVENT_INFO, manifests of EventSources; what no description fits; filters, losses, faults.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc.h"
#include "bytes.h"
#include "decode_rig.h"

#define PROVIDER "11223344-5566-7788-99aa-bbccddeeff00"
#define METADATA "bbccf6c1-6cd1-48c4-80ff-839482e37671"

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
    struct etl_record record = logged(&l);
    assert_line(
        &rig, &record,
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

/* ---- TRACE_EVENT_INFO ---- */

struct property {
    uint32_t flags;
    const char *name;
    uint16_t in, out;
    const char *map;
    uint16_t count, length;
};

static uint32_t put_text(struct blob *out, const char *text)
{
    uint32_t at = (uint32_t)out->size;
    etl_put_wide(out, text);
    return at;
}

static void put_info(struct blob *out, unsigned id, unsigned version,
                     const struct property *properties, unsigned count, unsigned top)
{
    struct blob info = {0};
    uint8_t guid[16];
    etl_guid(PROVIDER, guid);
    blob_put(&info, guid, 16);
    blob_put(&info, NULL, 16);
    blob_put16(&info, (uint16_t)id);
    blob_put(&info, NULL, 14);
    info.data[34] = (uint8_t)version;
    blob_pad(&info, 112 + 24 * (size_t)count);
    blob_set32(&info, 100, count);
    blob_set32(&info, 104, top);
    blob_set32(&info, 52, put_text(&info, "Own-Provider"));
    blob_set32(&info, 68, put_text(&info, "Task "));
    blob_set32(&info, 72, put_text(&info, "win:Start"));
    for (unsigned i = 0; i < count; i++) {
        size_t at = 112 + 24 * (size_t)i;
        const struct property *p = &properties[i];
        blob_set32(&info, at, p->flags);
        blob_set32(&info, at + 4, put_text(&info, p->name));
        kda_put_le16(info.data + at + 8, p->in);
        kda_put_le16(info.data + at + 10, p->out);
        if (p->map)
            blob_set32(&info, at + 12, put_text(&info, p->map));
        kda_put_le16(info.data + at + 16, p->count);
        kda_put_le16(info.data + at + 18, p->length);
    }
    blob_put(out, info.data, info.size);
    blob_free(&info);
}

static void put_map(struct blob *out, const char *name, uint32_t flag, const uint32_t *values,
                    const char *const *names, unsigned count)
{
    struct blob map = {0};
    uint8_t guid[16];
    etl_guid(PROVIDER, guid);
    blob_put(out, guid, 16);
    blob_pad(&map, 16 + 8 * (size_t)count);
    blob_set32(&map, 0, put_text(&map, name));
    blob_set32(&map, 4, flag);
    blob_set32(&map, 8, count);
    for (unsigned i = 0; i < count; i++) {
        blob_set32(&map, 16 + 8 * (size_t)i, put_text(&map, names[i]));
        blob_set32(&map, 20 + 8 * (size_t)i, values[i]);
    }
    blob_put(out, map.data, map.size);
    blob_free(&map);
}

static struct etl_record metadata(unsigned type, const struct blob *payload)
{
    struct etl_record record = {.kind = ETL_FULL,
                                .type = (uint8_t)type,
                                .payload = payload->data,
                                .payload_size = payload->size};
    etl_guid(METADATA, record.guid);
    return record;
}

static void learn_description(struct decode_rig *rig)
{
    static const struct property properties[] = {
        {0, "Count", 6, 0, NULL, 1, 2},   {0, "Size", 8, 0, NULL, 1, 4},
        {5, "Items", 6, 2, NULL, 0, 0},   {2, "Blob", 14, 15, NULL, 1, 1},
        {0, "Kind", 8, 0, "Kinds", 1, 4}, {0, "Bits", 8, 0, "Flags", 1, 4},
        {0, "A", 4, 0, NULL, 1, 1},       {0, "Name", 1, 0, NULL, 1, 0},
    };
    static const uint32_t kinds[] = {1, 2}, bits[] = {1, 2};
    static const char *const kind_names[] = {"First ", "Second "}, *const bit_names[] = {"R", "W"};
    struct blob payload = {0};
    put_info(&payload, 9, 1, properties, 8, 6);
    struct etl_record record = metadata(32, &payload);
    rig_learn(rig, &record);
    blob_free(&payload);
    memset(&payload, 0, sizeof(payload));
    put_map(&payload, "Kinds", 1, kinds, kind_names, 2);
    record = metadata(33, &payload);
    rig_learn(rig, &record);
    blob_free(&payload);
    memset(&payload, 0, sizeof(payload));
    put_map(&payload, "Flags", 2, bits, bit_names, 2);
    record = metadata(33, &payload);
    rig_learn(rig, &record);
    blob_free(&payload);
}

static void put_described(struct blob *payload)
{
    blob_put16(payload, 2);
    blob_put32(payload, 3);
    blob_put(payload, "\x05", 1);
    etl_put_wide(payload, "x");
    blob_put(payload, "\x06", 1);
    etl_put_wide(payload, "y");
    blob_put(payload, "\xAA\xBB\xCC", 3);
    blob_put32(payload, 2);
    blob_put32(payload, 7);
}

#define DESCRIBED                                                                                  \
    "{\"Count\":2,\"Size\":3,\"Items\":[{\"A\":5,\"Name\":\"x\"},{\"A\":6,\"Name\":\"y\"}],"       \
    "\"Blob\":\"aabbcc\",\"Kind\":\"Second\",\"Bits\":\"R|W|0x4\"}"

static void test_event_info(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    learn_description(&rig);
    put_described(&payload);
    struct etl_record record = event(9, 1, &payload);
    assert_line(&rig, &record,
                "etw.event\",\"source\":\"etl\",\"cpu\":3,\"pid\":40,\"tid\":41,"
                "\"provider\":\"{" PROVIDER "}\",\"provider_name\":\"Own-Provider\","
                "\"event_id\":9,\"version\":1,\"opcode\":0,\"level\":4,\"keyword\":\"0x10\","
                "\"event_name\":\"Task/Start\",\"fields\":" DESCRIBED);
    /* A later version has more behind it; an earlier one is not described. */
    blob_put16(&payload, 0x1234);
    record = event(9, 2, &payload);
    assert_fields(&rig, &record,
                  DESCRIBED ",\"payload\":\"0200030000000578000000067900"
                            "0000aabbcc02000000070000003412\",\"why\":\"2 bytes behind the last "
                            "field (described by the file)\"");
    record = event(9, 0, &payload);
    assert_non_null(strstr(rig_line(&rig, &record), "\"why\":\"no description of this event\""));
    /* Cut anywhere: what was before is shown, and why it ends. */
    record = event(9, 1, &payload);
    for (size_t size = 0; size < payload.size - 2; size++) {
        record.payload_size = size;
        assert_non_null(strstr(rig_line(&rig, &record), "\"why\":\"field "));
    }
    blob_free(&payload);
    rig_close(&rig);
}

/* Properties that lead into themselves, forward references, counts beyond the bytes. */
static void test_event_info_hostile(void **state)
{
    static const struct property loop[] = {{1, "S", 0, 1, NULL, 1, 0}, {0, "B", 8, 0, NULL, 1, 4}};
    static const struct property forward[] = {{4, "A", 8, 0, NULL, 1, 4},
                                              {0, "B", 8, 0, NULL, 1, 4}};
    static const struct property outside[] = {{1, "S", 7, 2, NULL, 1, 0},
                                              {0, "B", 8, 0, NULL, 1, 4}};
    static const struct property *const all[] = {loop, forward, outside};
    (void)state;
    struct decode_rig rig;
    struct kda_decode_learned learned;
    rig_open(&rig, NULL);
    for (unsigned i = 0; i < 3; i++) {
        struct blob payload = {0};
        put_info(&payload, 9, 0, all[i], 2, 2);
        struct etl_record record = metadata(32, &payload);
        rig_learn(&rig, &record);
        blob_set32(&payload, 100, 0xFFFFFFFF);
        rig_learn(&rig, &record);
        for (record.payload_size = 0; record.payload_size < payload.size; record.payload_size++)
            rig_learn(&rig, &record);
        blob_free(&payload);
    }
    kda_etl_decoder_learned(rig.decoder, &learned);
    assert_int_equal(learned.descriptions, 0);
    assert_true(learned.damaged > 6);
    assert_true(strlen(learned.first_problem) > 0);
    rig_close(&rig);
}

/* ---- manifests of EventSources ---- */

static const char xml[] =
    "<instrumentationManifest xmlns='http://schemas.microsoft.com/win/2004/08/events'>"
    "<instrumentation><events><provider name='My-Source' guid='{" PROVIDER "}'>"
    "<tasks><task name='Work' value='7'/></tasks>"
    "<maps><bitMap name='Modes'><map value='0x1' message='$(string.m1)'/></bitMap></maps>"
    "<events><event value='3' version='0' task='Work' opcode='win:Stop' template='WorkArgs'/>"
    "<event value='4' version='0' task='Empty'/></events>"
    "<templates><template tid='WorkArgs'><data name='size' inType='win:UInt32'/>"
    "<data name='bytes' inType='win:Binary' length='size'/>"
    "<data name='mode' inType='win:UInt32' map='Modes'/>"
    "<struct name='pairs' count='2'><data name='k' inType='win:Int32'/></struct>"
    "<data name='ok' inType='win:Boolean'/></template></templates>"
    "</provider></events></instrumentation><localization><resources><stringTable>"
    "<string id='m1' value='Fast'/></stringTable></resources></localization>"
    "</instrumentationManifest>";

/* Piece `chunk` of `total` of the XML. */
static struct etl_record manifest_piece(struct blob *payload, unsigned chunk, unsigned total)
{
    size_t size = sizeof(xml) - 1, from = size * chunk / total, to = size * (chunk + 1) / total;
    blob_free(payload);
    memset(payload, 0, sizeof(*payload));
    blob_put(payload, "\x01\x01\x00\x5B", 4);
    blob_put16(payload, (uint16_t)total);
    blob_put16(payload, (uint16_t)chunk);
    blob_put(payload, xml + from, to - from);
    struct etl_record record = event(0xFFFE, 1, payload);
    return record;
}

static void put_work(struct blob *payload)
{
    blob_put32(payload, 2);
    blob_put(payload, "\x01\x02", 2);
    blob_put32(payload, 1);
    blob_put32(payload, 5);
    blob_put32(payload, 6);
    blob_put32(payload, 1);
}

#define WORK                                                                                       \
    "{\"size\":2,\"bytes\":\"0102\",\"mode\":\"Fast\",\"pairs\":[{\"k\":5},{\"k\":6}],\"ok\":"     \
    "true}"

static void test_eventsource(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob piece = {0}, payload = {0};
    put_work(&payload);
    for (unsigned total = 1; total <= 5; total += 2) {
        rig_open(&rig, NULL);
        for (unsigned chunk = 0; chunk < total; chunk++) {
            struct etl_record record = manifest_piece(&piece, chunk, total);
            rig_learn(&rig, &record);
        }
        struct etl_record record = event(3, 0, &payload);
        assert_fields(&rig, &record, WORK);
        assert_non_null(strstr(rig_line(&rig, &record), "\"event_name\":\"Work/Stop\""));
        assert_non_null(strstr(rig_line(&rig, &record), "\"provider_name\":\"My-Source\""));
        record = event(4, 0, &payload);
        record.payload_size = 0;
        assert_fields(&rig, &record, "{}");
        record = manifest_piece(&piece, 0, total);
        assert_non_null(strstr(rig_line(&rig, &record),
                               "\"event_name\":\"ManifestData\",\"fields\":"
                               "{\"Format\":1,\"MajorVersion\":1"));
        rig_close(&rig);
    }
    /* A piece is missing: nothing is learned, nothing is joined wrongly. */
    rig_open(&rig, NULL);
    for (unsigned chunk = 0; chunk < 3; chunk += 2) {
        struct etl_record record = manifest_piece(&piece, chunk, 3);
        rig_learn(&rig, &record);
    }
    struct etl_record record = event(3, 0, &payload);
    assert_non_null(strstr(rig_line(&rig, &record), "no description"));
    rig_close(&rig);
    blob_free(&piece);
    blob_free(&payload);
}

/* ---- records without a description ---- */

static void test_builtin(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    uint8_t guid[16];
    rig_open(&rig, NULL);
    etl_guid("2f07e2ee-15db-40f1-90ef-9d7ba282188a", guid);
    blob_put64(&payload, 0x1000);
    blob_put32(&payload, 16);
    blob_put(&payload, "\x02\0\x01\xBB\x0A\0\0\x01\0\0\0\0\0\0\0\0", 16);
    blob_put32(&payload, 0);
    blob_put32(&payload, 1);
    blob_put32(&payload, 2);
    struct etl_record record = event(1002, 0, &payload);
    memcpy(record.guid, guid, 16);
    assert_line(&rig, &record,
                "etw.event\",\"source\":\"etl\",\"cpu\":3,\"pid\":40,\"tid\":41,"
                "\"provider\":\"{2f07e2ee-15db-40f1-90ef-9d7ba282188a}\","
                "\"provider_name\":\"Microsoft-Windows-TCPIP\",\"event_id\":1002,\"version\":0,"
                "\"opcode\":0,\"level\":4,\"keyword\":\"0x10\","
                "\"event_name\":\"TcpRequestConnect\",\"fields\":{\"Tcb\":\"0x1000\","
                "\"LocalAddressLength\":16,\"LocalAddress\":\"020001bb0a0000010000000000000000\","
                "\"RemoteAddressLength\":0,\"RemoteAddress\":\"\",\"NewState\":1,"
                "\"RexmitCount\":2}");
    /* The table knows no counts: bytes left over prove it wrong, and nothing is shown. */
    blob_put(&payload, "\x01", 1);
    record.payload = payload.data;
    record.payload_size = payload.size;
    const char *line = rig_line(&rig, &record);
    assert_null(strstr(line, "\"fields\""));
    assert_non_null(strstr(line, "\"why\":\"1 bytes behind the last field (described by the "
                                 "built-in table)\""));
    blob_free(&payload);
    rig_close(&rig);
}

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

/* ---- filters and losses ---- */

static void test_filters(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    learn_description(&rig);
    put_described(&payload);
    struct etl_record record = event(9, 1, &payload);
    const struct {
        struct kda_decode_filter filter;
        bool wanted;
    } cases[] = {
        {{.kinds = 0}, true},
        {{.kinds = 1u << 19}, true},
        {{.kinds = 1u << 1}, false},
        {{.has_pid = true, .pid = 40}, true},
        {{.has_pid = true, .pid = 41}, false},
        {{.provider = "own-PROVIDER"}, true},
        {{.provider = "Own"}, false},
        {{.provider = "{" PROVIDER "}"}, true},
        {{.provider = METADATA}, false},
        {{.since = RIG_TIME}, true},
        {{.since = RIG_TIME + 1}, false},
        {{.until = RIG_TIME + 1}, true},
        {{.until = RIG_TIME}, false},
        {{.image = "a"}, false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        kda_etl_decoder_filter(rig.decoder, &cases[i].filter);
        assert_int_equal(*rig_line(&rig, &record) != '\0', cases[i].wanted);
    }
    blob_free(&payload);
    rig_close(&rig);
}

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

/* ---- faults ---- */

/* Everything that learns and decodes; KDA_OK when nothing failed. */
static enum kda_status everything(struct decode_rig *rig, bool *whole)
{
    struct blob piece = {0}, info = {0}, map = {0}, described_payload = {0}, work = {0};
    static const struct property properties[] = {{0, "A", 8, 0, "Kinds", 1, 4}};
    static const uint32_t values[] = {1};
    static const char *const names[] = {"One"};
    struct kda_error err;
    enum kda_status status = kda_etl_decoder_create(NULL, &rig->decoder, &err);
    put_info(&info, 20, 0, properties, 1, 1);
    put_map(&map, "Kinds", 1, values, names, 1);
    blob_put32(&described_payload, 1);
    put_work(&work);
    struct etl_record records[] = {metadata(32, &info), metadata(33, &map)};
    for (unsigned i = 0; i < 2 && status == KDA_OK; i++)
        status = kda_etl_decoder_learn(rig->decoder, rig_frame(rig, &records[i]), &err);
    for (unsigned i = 0; i < 2 && status == KDA_OK; i++) {
        struct etl_record record = manifest_piece(&piece, i, 2);
        status = kda_etl_decoder_learn(rig->decoder, rig_frame(rig, &record), &err);
    }
    if (status == KDA_OK) {
        struct etl_record record = event(20, 0, &described_payload);
        *whole = strcmp(rig_fields(rig, &record), "{\"A\":\"One\"}") == 0;
        record = event(3, 0, &work);
        *whole = *whole && strcmp(rig_fields(rig, &record), WORK) == 0;
    } else {
        assert_true(strlen(err.text) > 0);
    }
    blob_free(&piece);
    blob_free(&info);
    blob_free(&map);
    blob_free(&described_payload);
    blob_free(&work);
    return status;
}

static void test_faults(void **state)
{
    (void)state;
#ifdef KDA_FAULT_INJECTION
    bool fired = true;
    unsigned failed = 0;
    for (uint64_t n = 1; fired; n++) {
        struct decode_rig rig = {0};
        bool whole = false;
        kda_fault_arm(n);
        enum kda_status status = everything(&rig, &whole);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        if (!fired)
            assert_true(status == KDA_OK && whole);
        if (status != KDA_OK) {
            assert_int_equal(status, KDA_NO_MEMORY);
            failed++;
        }
        rig_close(&rig);
    }
    assert_true(failed > 20);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tracelogging_types),
        cmocka_unit_test(test_tracelogging_arrays),
        cmocka_unit_test(test_tracelogging_damaged),
        cmocka_unit_test(test_event_info),
        cmocka_unit_test(test_event_info_hostile),
        cmocka_unit_test(test_eventsource),
        cmocka_unit_test(test_builtin),
        cmocka_unit_test(test_not_described),
        cmocka_unit_test(test_extended_items),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_losses),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
