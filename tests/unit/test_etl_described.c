/*
 * test_etl_described.c - descriptions that a trace carries for its events: TRACE_EVENT_INFO, maps,
 * manifests of EventSources; the built-in table; filters; faults.
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

/* Arrays of structures without bytes in each other: no payload bounds how often they are gone
 * through. */
static void test_arrays_of_nothing(void **state)
{
    struct property properties[8];
    (void)state;
    struct decode_rig rig;
    struct blob info = {0}, payload = {0};
    rig_open(&rig, NULL);
    for (unsigned i = 0; i < 7; i++)
        properties[i] = (struct property){1 | 0x20, "S", (uint16_t)(i + 1), 1, NULL, 60000, 0};
    properties[7] = (struct property){0, "N", 0, 0, NULL, 1, 0};
    put_info(&info, 9, 0, properties, 8, 1);
    struct etl_record record = metadata(32, &info);
    rig_learn(&rig, &record);
    blob_pad(&payload, 1000);
    record = event(9, 0, &payload);
    assert_non_null(strstr(rig_line(&rig, &record),
                           "has more items than the payload can hold (described by the file)"));
    blob_free(&info);
    blob_free(&payload);
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

/* ---- manifests of the user ---- */

static const char *write_manifest(void)
{
    static const char path[] = KDA_BUILD_DIR "/test-etl-described.man";
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(xml, 1, sizeof(xml) - 1, file), sizeof(xml) - 1);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* What the user gives is better than what the trace says. */
static void test_manifest_file(void **state)
{
    static const struct property other[] = {{0, "Other", 8, 0, NULL, 1, 4}};
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0}, info = {0};
    struct kda_error err;
    rig_open(&rig, NULL);
    assert_int_equal(kda_etl_decoder_add_manifest(rig.decoder, write_manifest(), &err), KDA_OK);
    put_info(&info, 3, 0, other, 1, 1);
    struct etl_record record = metadata(32, &info);
    rig_learn(&rig, &record);
    put_work(&payload);
    record = event(3, 0, &payload);
    assert_fields(&rig, &record, WORK);
    assert_int_equal(kda_etl_decoder_add_manifest(rig.decoder, KDA_BUILD_DIR "/no-such.man", &err),
                     KDA_IO);
    blob_free(&payload);
    blob_free(&info);
    rig_close(&rig);
}

/* ---- the built-in table ---- */

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

/* ---- filters ---- */

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

/* ---- faults ---- */

#ifdef KDA_FAULT_INJECTION

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
}

static void test_manifest_faults(void **state)
{
    (void)state;
    const char *path = write_manifest();
    bool fired = true;
    unsigned failed = 0;
    for (uint64_t n = 1; fired; n++) {
        struct decode_rig rig;
        struct kda_error err = {.text = ""};
        rig_open(&rig, NULL);
        kda_fault_arm(n);
        enum kda_status status = kda_etl_decoder_add_manifest(rig.decoder, path, &err);
        fired = kda_fault_fired();
        kda_fault_arm(0);
        assert_true(status == KDA_OK || strlen(err.text) > 0);
        assert_true(fired || status == KDA_OK);
        failed += status != KDA_OK;
        rig_close(&rig);
    }
    assert_true(failed > 20);
}

#else

static void test_faults(void **state)
{
    (void)state;
    skip();
}

static void test_manifest_faults(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_info),
        cmocka_unit_test(test_event_info_hostile),
        cmocka_unit_test(test_arrays_of_nothing),
        cmocka_unit_test(test_eventsource),
        cmocka_unit_test(test_builtin),
        cmocka_unit_test(test_filters),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_manifest_file),
        cmocka_unit_test(test_manifest_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
