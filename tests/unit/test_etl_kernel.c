/*
 * test_etl_kernel.c - the kernel's records: every version of process, thread, image, network and
 * registry, as the documented layouts have them. No public trace has registry records; the bytes
 * here are made from the layouts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "decode_rig.h"

enum { PROCESS = 3, THREAD = 5, TCP = 6, UDP = 8, REGISTRY = 9, IMAGE = 0x14 };

static const uint8_t system_sid[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};

static void put_pointer(struct blob *out, unsigned size, uint64_t value)
{
    if (size == 4)
        blob_put32(out, (uint32_t)value);
    else
        blob_put64(out, value);
}

/* A record of the kernel logger with this payload; pid 40, tid 41. */
static struct etl_record kernel(unsigned group, unsigned type, unsigned version, unsigned pointer,
                                const struct blob *payload)
{
    return (struct etl_record){
        .kind = ETL_SYSTEM,
        .pointer_size = pointer,
        .group = (uint8_t)group,
        .type = (uint8_t)type,
        .version = (uint16_t)version,
        .pid = 40,
        .tid = 41,
        .time = 1000,
        .payload = payload->data,
        .payload_size = payload->size,
    };
}

static struct etl_record manifest(const char *provider, unsigned id, unsigned version,
                                  unsigned pointer, const struct blob *payload)
{
    struct etl_record record = {
        .kind = ETL_EVENT,
        .pointer_size = pointer,
        .id = (uint16_t)id,
        .version = (uint16_t)version,
        .pid = 40,
        .tid = 41,
        .time = 1000,
        .payload = payload->data,
        .payload_size = payload->size,
    };
    etl_guid(provider, record.guid);
    return record;
}

/* ---- processes ---- */

static void put_process(struct blob *out, unsigned version, unsigned pointer, bool null_sid)
{
    put_pointer(out, version == 0 ? pointer : pointer, version == 0 ? 5000 : 0x8800);
    if (version == 0) {
        put_pointer(out, pointer, 4);
    } else {
        blob_put32(out, 5000);
        blob_put32(out, 4);
        blob_put32(out, 1);
        blob_put32(out, 259);
    }
    if (version >= 3)
        put_pointer(out, pointer, 0x187000);
    if (version >= 4)
        blob_put32(out, 2);
    if (null_sid) {
        blob_put32(out, 0);
    } else {
        put_pointer(out, pointer, 0xA0B0C0D0);
        put_pointer(out, pointer, 0);
        blob_put(out, system_sid, sizeof(system_sid));
    }
    etl_put_narrow(out, "a.exe");
    if (version >= 2)
        etl_put_wide(out, "a.exe -x");
    if (version >= 4) {
        etl_put_wide(out, "Pack");
        etl_put_wide(out, "");
    }
}

static void test_process_versions(void **state)
{
    static const char *const fields[5] = {
        "",
        ",\"fields\":{\"PageDirectoryBase\":\"0x8800\",\"ExitStatus\":\"0x00000103\"}",
        ",\"fields\":{\"UniqueProcessKey\":\"0x8800\",\"ExitStatus\":\"0x00000103\"}",
        ",\"fields\":{\"UniqueProcessKey\":\"0x8800\",\"ExitStatus\":\"0x00000103\","
        "\"DirectoryTableBase\":\"0x187000\"}",
        ",\"fields\":{\"UniqueProcessKey\":\"0x8800\",\"ExitStatus\":\"0x00000103\","
        "\"DirectoryTableBase\":\"0x187000\",\"Flags\":\"0x2\",\"PackageFullName\":\"Pack\","
        "\"ApplicationId\":\"\"}",
    };
    (void)state;
    struct decode_rig rig;
    rig_open(&rig, NULL);
    for (unsigned version = 0; version <= 4; version++) {
        for (unsigned way = 0; way < 8; way++) {
            unsigned pointer = way & 1 ? 4 : 8;
            bool null_sid = way & 2, other_header = way & 4;
            struct blob payload = {0};
            char expected[1024];
            put_process(&payload, version, pointer, null_sid);
            /* Some traces hold payloads of the other pointer size. */
            struct etl_record record =
                kernel(PROCESS, 1, version, other_header ? 12 - pointer : pointer, &payload);
            (void)snprintf(expected, sizeof(expected),
                           "process.create\",\"source\":\"etl\",\"cpu\":3,\"pid\":5000,"
                           "\"image\":\"a.exe\"%s,\"parent_pid\":4,\"creator_pid\":40,"
                           "\"creator_tid\":41%s%s%s",
                           version >= 2 ? ",\"command_line\":\"a.exe -x\"" : "",
                           version >= 1 ? ",\"session\":1" : "",
                           null_sid ? "" : ",\"user_sid\":\"S-1-5-18\"", fields[version]);
            assert_line(&rig, &record, expected);
            blob_free(&payload);
        }
    }
    rig_close(&rig);
}

/* Hand-made traces: a null TOKEN_USER, and a SID behind it all the same. */
static void test_sid_behind_null(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    blob_put64(&payload, 0x8800);
    for (unsigned i = 0; i < 4; i++)
        blob_put32(&payload, 7);
    blob_put64(&payload, 0);
    blob_put(&payload, NULL, 16);
    blob_put(&payload, system_sid, sizeof(system_sid));
    etl_put_narrow(&payload, "a.exe");
    etl_put_wide(&payload, "b");
    struct etl_record record = kernel(PROCESS, 3, 3, 4, &payload);
    assert_line(&rig, &record,
                "process.existing\",\"source\":\"etl\",\"cpu\":3,\"pid\":7,\"image\":\"a.exe\","
                "\"command_line\":\"b\",\"parent_pid\":7,\"session\":7,\"user_sid\":\"S-1-5-18\","
                "\"fields\":{\"UniqueProcessKey\":\"0x8800\",\"ExitStatus\":\"0x00000007\","
                "\"DirectoryTableBase\":\"0x0\"}");
    blob_free(&payload);
    rig_close(&rig);
}

static void test_process_end(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    put_process(&payload, 4, 8, false);
    struct etl_record record = kernel(PROCESS, 2, 4, 8, &payload);
    assert_line(&rig, &record,
                "process.exit\",\"source\":\"etl\",\"cpu\":3,\"pid\":5000,\"image\":\"a.exe\","
                "\"exit_code\":259,\"fields\":{\"UniqueProcessKey\":\"0x8800\",\"ParentId\":4,"
                "\"SessionId\":1,\"DirectoryTableBase\":\"0x187000\",\"Flags\":\"0x2\","
                "\"UserSID\":\"S-1-5-18\",\"CommandLine\":\"a.exe -x\","
                "\"PackageFullName\":\"Pack\",\"ApplicationId\":\"\"}");
    /* Later versions only add: what is behind the known fields is kept. */
    blob_put32(&payload, 0x01020304);
    record = kernel(PROCESS, 2, 9, 8, &payload);
    assert_non_null(strstr(rig_line(&rig, &record), "\"Rest\":\"04030201\"}"));
    /* Cut in the middle: nothing is made up. */
    record = kernel(PROCESS, 2, 4, 8, &payload);
    record.payload_size = 30;
    assert_non_null(strstr(rig_line(&rig, &record), "etw.event"));
    assert_non_null(strstr(rig_line(&rig, &record), "\"payload\":\"0088"));
    blob_free(&payload);
    rig_close(&rig);
}

static void test_manifest_processes(void **state)
{
    static const char provider[] = "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716";
    static const uint8_t medium[12] = {1, 1, 0, 0, 0, 0, 0, 16, 0, 0x20, 0, 0};
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    blob_put32(&payload, 5000);
    blob_put64(&payload, 77);
    blob_put64(&payload, RIG_TIME);
    blob_put32(&payload, 4);
    blob_put64(&payload, 2);
    blob_put32(&payload, 1);
    blob_put32(&payload, 0);
    blob_put32(&payload, 2);
    blob_put32(&payload, 1);
    blob_put(&payload, medium, sizeof(medium));
    etl_put_wide(&payload, "\\Device\\a.exe");
    blob_put32(&payload, 0xAB);
    blob_put32(&payload, 5);
    etl_put_wide(&payload, "");
    etl_put_wide(&payload, "");
    struct etl_record record = manifest(provider, 1, 3, 8, &payload);
    assert_line(&rig, &record,
                "process.create\",\"source\":\"etl\",\"cpu\":3,\"pid\":5000,"
                "\"image\":\"\\\\Device\\\\a.exe\",\"parent_pid\":4,\"creator_pid\":40,"
                "\"creator_tid\":41,\"session\":1,\"integrity\":\"medium\",\"elevated\":true,"
                "\"create_time\":\"2026-11-29T21:04:05.1234567Z\",\"fields\":{"
                "\"ProcessSequenceNumber\":77,\"ParentProcessSequenceNumber\":2,\"Flags\":\"0x0\","
                "\"ProcessTokenElevationType\":2,\"ImageChecksum\":\"0xab\",\"TimeDateStamp\":5,"
                "\"PackageFullName\":\"\",\"PackageRelativeAppId\":\"\"}");
    blob_free(&payload);
    rig_close(&rig);
}

/* ---- threads, images ---- */

static void put_thread(struct blob *out, uint32_t pid, uint32_t tid)
{
    blob_put32(out, pid);
    blob_put32(out, tid);
    for (unsigned i = 1; i <= 7; i++)
        blob_put64(out, 0x1000 * i);
    blob_put32(out, 9);
}

static void test_threads(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob process = {0}, payload = {0};
    rig_open(&rig, NULL);
    put_thread(&payload, 5000, 77);
    struct etl_record record = kernel(THREAD, 1, 2, 8, &payload);
    /* A process that was never seen: whether it is the first thread is not known. */
    assert_null(strstr(rig_line(&rig, &record), "remote"));
    put_process(&process, 4, 8, false);
    struct etl_record create = kernel(PROCESS, 1, 4, 8, &process);
    (void)rig_line(&rig, &create);
    assert_line(
        &rig, &record,
        "thread.create\",\"source\":\"etl\",\"cpu\":3,\"pid\":40,\"tid\":41,\"new_tid\":77,"
        "\"target_pid\":5000,\"start_address\":\"0x6000\",\"remote\":false,"
        "\"fields\":{\"StackBase\":\"0x1000\",\"StackLimit\":\"0x2000\","
        "\"UserStackBase\":\"0x3000\",\"UserStackLimit\":\"0x4000\",\"StartAddr\":\"0x5000\","
        "\"TebBase\":\"0x7000\",\"SubProcessTag\":9}");
    /* The second one, by the same other process. */
    assert_non_null(strstr(rig_line(&rig, &record), "\"remote\":true"));
    record.pid = 5000;
    assert_non_null(strstr(rig_line(&rig, &record), "\"remote\":false"));
    record = kernel(THREAD, 2, 2, 8, &payload);
    assert_non_null(strstr(rig_line(&rig, &record),
                           "thread.exit\",\"source\":\"etl\",\"cpu\":3,\"pid\":5000,\"tid\":77,"));
    blob_free(&payload);
    blob_free(&process);
    rig_close(&rig);
}

static void test_images(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    blob_put64(&payload, 0xFFFFF80000400000);
    blob_put64(&payload, 0x5000);
    blob_put32(&payload, 0);
    blob_put32(&payload, 0x1234);
    blob_put32(&payload, 99);
    blob_put(&payload, "\x0C\x03\0\0", 4);
    blob_put64(&payload, 0x140000000);
    blob_put(&payload, NULL, 16);
    etl_put_wide(&payload, "\\SystemRoot\\a.sys");
    struct etl_record record = kernel(PROCESS, 10, 3, 8, &payload);
    assert_line(&rig, &record,
                "image.load\",\"source\":\"etl\",\"cpu\":3,\"pid\":40,\"tid\":41,\"target_pid\":0,"
                "\"module\":\"\\\\SystemRoot\\\\a.sys\",\"base\":\"0xfffff80000400000\","
                "\"size\":20480,\"kernel\":true,\"signature_level\":\"windows\","
                "\"signature_type\":\"catalog_cached\",\"fields\":{\"ImageCheckSum\":\"0x1234\","
                "\"TimeDateStamp\":99,\"DefaultBase\":\"0x140000000\"}");
    record = kernel(IMAGE, 2, 3, 8, &payload);
    assert_non_null(strstr(rig_line(&rig, &record), "image.unload"));
    record = kernel(IMAGE, 3, 3, 8, &payload);
    assert_non_null(strstr(rig_line(&rig, &record), "\"event_name\":\"Image/DCStart\""));
    blob_free(&payload);
    rig_close(&rig);
}

/* ---- network ---- */

static const uint8_t near6[16] = {0xFE, 0x80, [15] = 1}, far6[16] = {0x20, 0x01, [15] = 2};

static void put_flow(struct blob *out, bool six)
{
    blob_put32(out, 5000);
    blob_put32(out, 0);
    blob_put(out, six ? (const void *)far6 : "\x0A\0\0\x02", six ? 16 : 4);
    blob_put(out, six ? (const void *)near6 : "\x0A\0\0\x01", six ? 16 : 4);
    blob_put(out, "\x01\xBB\xC0\x01", 4);
}

static void put_options(struct blob *out, unsigned pointer)
{
    for (unsigned i = 1; i <= 4; i++)
        blob_put16(out, (uint16_t)i);
    blob_put32(out, 65535);
    blob_put16(out, 8);
    blob_put16(out, 0xFFFF);
    blob_put32(out, 3);
    put_pointer(out, pointer, 0);
}

static void test_network(void **state)
{
    static const char tail[] = ",\"fields\":{\"size\":0,\"mss\":1,\"sackopt\":2,\"tsopt\":3,"
                               "\"wsopt\":4,\"rcvwin\":65535,\"rcvwinscale\":8,"
                               "\"sndwinscale\":-1,\"seqnum\":3,\"connid\":\"0x0\"}";
    (void)state;
    struct decode_rig rig;
    char expected[1024];
    rig_open(&rig, NULL);
    for (unsigned way = 0; way < 8; way++) {
        bool six = way & 1, accept = way & 4;
        unsigned pointer = way & 2 ? 4 : 8, type = (accept ? 15u : 12u) + (six ? 16u : 0u);
        struct blob payload = {0};
        put_flow(&payload, six);
        put_options(&payload, pointer);
        (void)snprintf(expected, sizeof(expected),
                       "network.%s\",\"source\":\"etl\",\"cpu\":3,\"pid\":5000,\"protocol\":6,"
                       "\"transport\":\"tcp\",\"ip_version\":%u,\"local_ip\":\"%s\","
                       "\"local_port\":49153,\"remote_ip\":\"%s\",\"remote_port\":443,"
                       "\"direction\":\"%s\"%s",
                       accept ? "accept" : "connect", six ? 6 : 4, six ? "fe80::1" : "10.0.0.1",
                       six ? "2001::2" : "10.0.0.2", accept ? "inbound" : "outbound", tail);
        struct etl_record record = kernel(TCP, type, 2, pointer, &payload);
        assert_line(&rig, &record, expected);
        record = manifest("7dd42a49-5329-4832-8dfd-43d979153a88", type, 0, pointer, &payload);
        assert_line(&rig, &record, expected);
        blob_free(&payload);
    }
    rig_close(&rig);
}

static void test_network_old_and_data(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    put_flow(&payload, false);
    struct etl_record record = kernel(TCP, 13, 1, 4, &payload);
    assert_line(&rig, &record,
                "network.disconnect\",\"source\":\"etl\",\"cpu\":3,\"pid\":5000,\"protocol\":6,"
                "\"transport\":\"tcp\",\"ip_version\":4,\"local_ip\":\"10.0.0.1\","
                "\"local_port\":49153,\"remote_ip\":\"10.0.0.2\",\"remote_port\":443,"
                "\"fields\":{\"size\":0}");
    blob_put32(&payload, 1);
    put_pointer(&payload, 8, 0);
    record = kernel(UDP, 11, 2, 8, &payload);
    assert_line(&rig, &record,
                "etw.event\",\"source\":\"etl\",\"cpu\":3,\"pid\":5000,\"tid\":41,"
                "\"provider\":\"{bf3a50c5-a9c9-4988-a005-2df0b7c80f80}\","
                "\"provider_name\":\"Windows Kernel\",\"version\":2,\"opcode\":11,"
                "\"event_name\":\"UdpIp/Recv\",\"fields\":{\"size\":0,\"daddr\":\"10.0.0.2\","
                "\"saddr\":\"10.0.0.1\",\"dport\":443,\"sport\":49153,\"seqnum\":1,"
                "\"connid\":\"0x0\"}");
    blob_free(&payload);
    blob_put(&payload, "\x0A\0\0\x02\x0A\0\0\x01\x01\xBB\xC0\x01", 12);
    blob_put32(&payload, 0);
    blob_put32(&payload, 5000);
    record = kernel(TCP, 12, 0, 4, &payload);
    assert_non_null(strstr(rig_line(&rig, &record),
                           "\"pid\":5000,\"protocol\":6,\"transport\":\"tcp\",\"ip_version\":4,"
                           "\"local_ip\":\"10.0.0.1\",\"local_port\":49153"));
    blob_free(&payload);
    rig_close(&rig);
}

/* ---- registry ---- */

static struct etl_record registry(struct blob *payload, unsigned type, unsigned version,
                                  unsigned pointer, uint64_t kcb, const char *name, uint64_t time)
{
    blob_free(payload);
    memset(payload, 0, sizeof(*payload));
    if (version < 2) {
        put_pointer(payload, pointer, 0);
        put_pointer(payload, pointer, kcb);
        blob_put64(payload, 5);
        if (version == 1)
            blob_put32(payload, 6);
    } else {
        blob_put64(payload, 5);
        blob_put32(payload, 0);
        blob_put32(payload, 6);
        put_pointer(payload, pointer, kcb);
    }
    etl_put_wide(payload, name);
    struct etl_record record = kernel(REGISTRY, type, version, pointer, payload);
    record.time = time;
    return record;
}

static void test_registry_versions(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    struct etl_record record;
    for (unsigned version = 0; version <= 2; version++) {
        for (unsigned pointer = 4; pointer <= 8; pointer += 4) {
            rig_open(&rig, NULL);
            record = registry(&payload, 22, version, pointer, 0xA000, "\\REGISTRY\\MACHINE\\A", 1);
            assert_non_null(
                strstr(rig_line(&rig, &record), "\"event_name\":\"Registry/KCBCreate\""));
            record = registry(&payload, 14, version, pointer, 0xA000, "Run", 2);
            const char *line = rig_line(&rig, &record);
            assert_non_null(strstr(line, "registry.value_set\",\"source\":\"etl\",\"cpu\":3,"
                                         "\"pid\":40,\"tid\":41,"
                                         "\"key\":\"\\\\REGISTRY\\\\MACHINE\\\\A\","
                                         "\"value\":\"Run\",\"status\":\"0x00000000\""));
            record = registry(&payload, 10, version, pointer, 0xA000, "B\\C", 3);
            assert_non_null(strstr(rig_line(&rig, &record),
                                   "registry.key_create\",\"source\":\"etl\",\"cpu\":3,"
                                   "\"pid\":40,\"tid\":41,"
                                   "\"key\":\"\\\\REGISTRY\\\\MACHINE\\\\A\\\\B\\\\C\""));
            record = registry(&payload, 12, version, pointer, 0xA000, "", 4);
            assert_non_null(
                strstr(rig_line(&rig, &record), "\"key\":\"\\\\REGISTRY\\\\MACHINE\\\\A\""));
            record = registry(&payload, 15, version, pointer, 0xA000, "Old", 5);
            assert_non_null(strstr(rig_line(&rig, &record), "registry.value_delete"));
            /* A key that has no name now: none is made up, its address stays. */
            record = registry(&payload, 23, version, pointer, 0xA000, "\\REGISTRY\\MACHINE\\A", 6);
            (void)rig_line(&rig, &record);
            record = registry(&payload, 14, version, pointer, 0xA000, "Run", 7);
            line = rig_line(&rig, &record);
            assert_null(strstr(line, "\"key\":"));
            assert_non_null(strstr(line, "\"KeyHandle\":\"0xa000\""));
            record = registry(&payload, 10, version, pointer, 0, "\\REGISTRY\\USER", 8);
            assert_non_null(strstr(rig_line(&rig, &record), "\"key\":\"\\\\REGISTRY\\\\USER\""));
            rig_close(&rig);
        }
    }
    blob_free(&payload);
}

/* Names often come at the end of a trace. What was made within it had no name before. */
static void test_registry_names_from_the_end(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    struct etl_record record;
    rig_open(&rig, NULL);
    record = registry(&payload, 25, 2, 8, 0xA000, "\\REGISTRY\\A", 100);
    rig_learn(&rig, &record);
    record = registry(&payload, 25, 2, 8, 0xB000, "\\REGISTRY\\B", 101);
    rig_learn(&rig, &record);
    record = registry(&payload, 22, 2, 8, 0xB000, "\\REGISTRY\\B", 50);
    rig_learn(&rig, &record);
    record = registry(&payload, 11, 2, 8, 0xA000, "X", 10);
    assert_non_null(strstr(rig_fields(&rig, &record), "\"Key\":\"\\\\REGISTRY\\\\A\\\\X\""));
    record = registry(&payload, 11, 2, 8, 0xB000, "X", 11);
    assert_null(strstr(rig_fields(&rig, &record), "\"Key\":"));
    record = registry(&payload, 22, 2, 8, 0xB000, "\\REGISTRY\\B", 50);
    (void)rig_line(&rig, &record);
    record = registry(&payload, 16, 2, 8, 0xB000, "Value", 60);
    assert_non_null(strstr(rig_fields(&rig, &record), "\"Key\":\"\\\\REGISTRY\\\\B\"}"));
    blob_free(&payload);
    rig_close(&rig);
}

static void test_manifest_registry(void **state)
{
    static const char provider[] = "70eb4f03-c1de-4f73-a051-33d13d5413bd";
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    blob_put64(&payload, 0x10);
    blob_put64(&payload, 0x20);
    blob_put32(&payload, 0);
    blob_put32(&payload, 1);
    etl_put_wide(&payload, "\\REGISTRY\\MACHINE");
    etl_put_wide(&payload, "Software\\X");
    struct etl_record record = manifest(provider, 1, 0, 8, &payload);
    assert_non_null(strstr(rig_line(&rig, &record),
                           "registry.key_create\",\"source\":\"etl\",\"cpu\":3,\"pid\":40,"
                           "\"tid\":41,\"key\":\"\\\\REGISTRY\\\\MACHINE\\\\Software\\\\X\","
                           "\"disposition\":\"created\",\"status\":\"0x00000000\""));
    blob_free(&payload);
    memset(&payload, 0, sizeof(payload));
    blob_put64(&payload, 0x20);
    blob_put32(&payload, 0xC0000022);
    blob_put32(&payload, 4);
    blob_put32(&payload, 4);
    etl_put_wide(&payload, "");
    etl_put_wide(&payload, "Start");
    blob_put16(&payload, 4);
    blob_put32(&payload, 7);
    blob_put32(&payload, 1);
    blob_put32(&payload, 6);
    blob_put16(&payload, 6);
    etl_put_wide(&payload, "ab");
    record = manifest(provider, 5, 0, 8, &payload);
    assert_line(&rig, &record,
                "registry.value_set\",\"source\":\"etl\",\"cpu\":3,\"pid\":40,\"tid\":41,"
                "\"key\":\"\\\\REGISTRY\\\\MACHINE\\\\Software\\\\X\",\"value\":\"Start\","
                "\"value_type\":\"REG_DWORD\",\"data\":7,\"data_size\":4,\"old_type\":\"REG_SZ\","
                "\"old_data\":\"ab\",\"old_size\":6,\"status\":\"0xc0000022\","
                "\"fields\":{\"KeyObject\":\"0x20\",\"KeyName\":\"\"}");
    blob_free(&payload);
    rig_close(&rig);
}

/* ---- files ---- */

static void test_files(void **state)
{
    (void)state;
    struct decode_rig rig;
    struct blob payload = {0};
    rig_open(&rig, NULL);
    for (unsigned i = 1; i <= 3; i++)
        blob_put64(&payload, 0x1000 * i);
    for (unsigned i = 1; i <= 3; i++)
        blob_put32(&payload, i);
    etl_put_wide(&payload, "\\a");
    struct etl_record record = kernel(4, 64, 2, 8, &payload);
    assert_fields(&rig, &record,
                  "{\"IrpPtr\":\"0x1000\",\"TTID\":\"0x2000\",\"FileObject\":\"0x3000\","
                  "\"CreateOptions\":\"0x1\",\"FileAttributes\":\"0x2\",\"ShareAccess\":\"0x3\","
                  "\"OpenPath\":\"\\\\a\"}");
    blob_free(&payload);
    memset(&payload, 0, sizeof(payload));
    for (unsigned i = 1; i <= 4; i++)
        blob_put64(&payload, 0x1000 * i);
    for (unsigned i = 1; i <= 3; i++)
        blob_put32(&payload, i);
    record = kernel(4, 68, 3, 8, &payload);
    assert_non_null(strstr(rig_line(&rig, &record), "\"tid\":1,"));
    assert_fields(&rig, &record,
                  "{\"Offset\":4096,\"IrpPtr\":\"0x2000\",\"FileObject\":\"0x3000\","
                  "\"FileKey\":\"0x4000\",\"IoSize\":2,\"IoFlags\":\"0x3\"}");
    blob_free(&payload);
    rig_close(&rig);
}

/* ---- every row, cut everywhere ---- */

/* Whatever a payload holds and wherever it ends, the result is a line of JSON. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    struct decode_rig rig;
    rig_open(&rig, NULL);
    uint8_t bytes[200];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i % 7 ? i * 37 : 0);
    for (unsigned group = 0; group < 0x20; group++)
        for (unsigned type = 0; type < 80; type++) {
            struct blob payload = {bytes, (group * 80 + type) % sizeof(bytes), sizeof(bytes)};
            struct etl_record record = kernel(group, type, type % 6, type & 1 ? 4 : 8, &payload);
            assert_true(strlen(rig_line(&rig, &record)) > 0);
        }
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process_versions),
        cmocka_unit_test(test_sid_behind_null),
        cmocka_unit_test(test_process_end),
        cmocka_unit_test(test_manifest_processes),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_network_old_and_data),
        cmocka_unit_test(test_registry_versions),
        cmocka_unit_test(test_registry_names_from_the_end),
        cmocka_unit_test(test_manifest_registry),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_cut_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
