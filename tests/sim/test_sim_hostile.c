/*
 * test_sim_hostile.c - what nobody would do on purpose, by chance: settings of any type and bytes,
 * activity at every level with strings and data of any kind, requests of any code and length,
 * clocks that jump, disks that fill up. Every run ends with a clean unload and, where the disk took
 * it, an account that holds.
 *
 * The seed of a run that fails is printed; KDA_HOSTILE_SEED=N repeats it alone.
 */
#include "world.h"

#include <stdio.h>

#include "kda_ioctl.h"

#define RUNS (WORLD_THREADS ? 8u : 40u)
#define ACTIONS 150u
#define BIG 40000u

static uint64_t seed;

static uint32_t below(uint32_t limit)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)((seed >> 16) % limit);
}

static bool chance(uint32_t one_in)
{
    return below(one_in) == 0;
}

/* --- bytes and strings ----------------------------------------------------------------------- */

static uint8_t bytes[BIG * 2 + 2];

static void scramble(size_t size)
{
    static const uint8_t path[] = {'a', 0, '\\', 0};
    uint32_t how = below(3);

    for (size_t i = 0; i < size; i++)
        bytes[i] = how == 0 ? 0 : how == 1 ? (uint8_t)below(256) : path[i % 4];
}

/* Surrogates without their other half, NULs, control characters; sometimes as long as can be. */
static struct sim_str any_string(uint16_t *units)
{
    static const uint16_t odd[] = {0, 0xD800, 0xDC00, 0xFFFF, '\\', '"', 0x7F, 0x0A, 0x4E2D, 'x'};
    size_t count = chance(20) ? SIM_MAX_UNITS - below(3) : below(300);

    for (size_t i = 0; i < count; i++)
        units[i] = odd[below(sizeof(odd) / sizeof(odd[0]))];
    return (struct sim_str){units, count};
}

static struct sim_str any_key(uint16_t *units)
{
    static const uint16_t root[] = u"\\REGISTRY\\MACHINE\\SOFTWARE\\";
    const size_t size = sizeof(root) / 2 - 1;
    struct sim_str rest = any_string(units + size);

    memcpy(units, root, size * 2);
    if (chance(8))
        return rest;
    if (rest.count > SIM_MAX_UNITS - size)
        rest.count = SIM_MAX_UNITS - size;
    return (struct sim_str){units, size + rest.count};
}

/* --- settings -------------------------------------------------------------------------------- */

static void any_text_setting(struct sim_str name)
{
    static const uint16_t *const texts[] = {
        u"*",
        u"process.*,registry.*",
        u"exclude",
        u"include kind=registry.* key=\\REGISTRY\\MACHINE\\SOFTWARE\\a",
        u"exclude kind=* pid=4294967294 image=\"",
        u"exclude image=x module=x key=\\",
        u"kind=* rate=1 burst=1",
        u"kind=registry.* rate=1000000 burst=10000000",
        u"\\REGISTRY\\MACHINE\\",
        u"\\??\\C:\\a\\\\b",
        u"\\??\\C:\\logs\\\\\\",
        u"\\",
        u"\\??\\C:\\..\\x",
        u"relative\\x",
    };
    const uint16_t *text = texts[below(sizeof(texts) / sizeof(texts[0]))];
    size_t size = 0;

    while (text[size / 2])
        size += 2;
    memcpy(bytes, text, size);
    memset(bytes + size, 0, 4);
    /* With no terminator, with one, with two; now and then half a unit. */
    size += 2 * below(3) + chance(6);
    sim_settings_set(name, chance(4) ? REG_SZ : REG_MULTI_SZ, bytes, size);
}

static void any_settings(void)
{
    static const struct sim_str names[] = {
        SIM_STR(u"Kinds"),
        SIM_STR(u"RecordEverything"),
        SIM_STR(u"LogDirectory"),
        SIM_STR(u"FileMegabytes"),
        SIM_STR(u"FileCount"),
        SIM_STR(u"IdleMilliseconds"),
        SIM_STR(u"ProcessAtOnce"),
        SIM_STR(u"FlushMilliseconds"),
        SIM_STR(u"StatusSeconds"),
        SIM_STR(u"DataBytes"),
        SIM_STR(u"KeyOpens"),
        SIM_STR(u"OldDataKeys"),
        SIM_STR(u"Rules"),
        SIM_STR(u"Rates"),
        SIM_STR(u"RepeatMilliseconds"),
        SIM_STR(u"RingShards"),
        SIM_STR(u"RingShardBytes"),
        SIM_STR(u"Readers"),
        SIM_STR(u"ReaderBytes"),
        SIM_STR(u"LastLog"),
        SIM_STR(u""),
    };
    static const uint32_t numbers[] = {0, 1, 2, 3, 8, 1000, 4096, 65536, 0x7FFFFFFF, 0xFFFFFFFF};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        uint32_t size = chance(10) ? 65000 + below(1000) : below(12);
        switch (below(6)) {
        case 0:
            sim_settings_set_dword(names[i], numbers[below(10)]);
            break;
        case 1:
        case 2:
            any_text_setting(names[i]);
            break;
        case 3:
            scramble(size);
            sim_settings_set(names[i], below(13), bytes, size);
            break;
        default:
            break;
        }
    }
}

/* --- activity -------------------------------------------------------------------------------- */

static void any_registry(void)
{
    static uint16_t key[BIG], name[BIG];
    static int32_t (*const calls[])(const struct sim_registry *) = {
        sim_registry_create_key, sim_registry_open_key,    sim_registry_delete_key,
        sim_registry_rename_key, sim_registry_set_value,   sim_registry_set_value,
        sim_registry_set_value,  sim_registry_delete_value};
    struct sim_registry op = {
        .key = any_key(key),
        .name = any_string(name),
        .type = chance(5) ? below(UINT32_MAX) : below(13),
        .size = chance(8) ? below(70000) : below(64),
        .refusal = chance(3) ? (enum sim_refusal)below(5) : SIM_REFUSE_NOT,
        .bad_data = chance(8),
        .bad_name = chance(8),
        .relative = chance(4),
        .open_only = chance(4),
        .kernel = chance(4),
    };

    scramble(op.size);
    op.data = op.size ? bytes : NULL;
    sim_set_irql(chance(2) ? APC_LEVEL : PASSIVE_LEVEL);
    (void)calls[below(8)](&op);
    sim_set_irql(PASSIVE_LEVEL);
}

static void any_flow(void)
{
    static uint16_t image[BIG];
    struct sim_flow flow = {
        .version = chance(2) ? 4 : 6,
        .protocol = (uint8_t)below(256),
        .local_port = (uint16_t)below(65536),
        .remote_port = (uint16_t)below(65536),
        .image = any_string(image),
        .no_pid = chance(4),
        .no_image = chance(4),
        .no_flow_handle = chance(4),
    };
    uint64_t id = 0;

    scramble(16);
    memcpy(flow.remote, bytes, 16);
    sim_set_irql(chance(2) ? DISPATCH_LEVEL : PASSIVE_LEVEL);
    if (chance(3))
        sim_net_listen(&flow);
    else if (chance(2))
        sim_net_connect(&flow, &id);
    else
        sim_net_accept(&flow, &id);
    sim_net_authorize(&flow, chance(2), chance(2), chance(4), chance(2) ? id : 0);
    sim_set_irql(PASSIVE_LEVEL);
    if (id)
        sim_net_close(id);
}

static void any_image(void)
{
    static uint16_t path[BIG], file[BIG];
    const struct sim_image image = {
        .path = chance(4) ? SIM_NO_STR : any_string(path),
        .file = chance(2) ? SIM_NO_STR : any_string(file),
        .no_file = chance(4),
        .base = (uint64_t)below(UINT32_MAX) << 32,
        .size = chance(4) ? UINT64_MAX : below(UINT32_MAX),
        .kernel = chance(4),
        .signature_level = (uint8_t)below(256),
        .signature_type = (uint8_t)below(256),
        .partial = chance(2),
    };

    sim_image_load(&image);
}

static void any_process(void)
{
    static uint16_t image[BIG], line[BIG];
    struct sim_process process = {
        .image = any_string(image),
        .command_line = any_string(line),
        .session = below(UINT32_MAX),
        .integrity = below(0x8000),
        .protection = (uint8_t)below(256),
        .signature_level = (uint8_t)below(256),
        .wsl = chance(8),
        .no_image_name = chance(4),
        .no_command_line = chance(4),
        .no_open_name = chance(4),
        .no_thread_told = chance(4),
    };
    uint32_t pid = 0, tid = 0;

    if (sim_process_create(&process, &pid) != 0)
        return;
    const struct sim_thread thread = {.pid = pid, .no_start_address = chance(4)};
    sim_set_irql(chance(2) ? APC_LEVEL : PASSIVE_LEVEL);
    (void)sim_thread_create(&thread, &tid);
    sim_set_irql(PASSIVE_LEVEL);
    sim_enter(pid, 0);
    if (chance(2))
        any_registry();
    sim_enter(WORLD_SHELL, 0);
    if (chance(2))
        sim_process_exit(pid, below(UINT32_MAX));
}

/* --- the machine, and clients ---------------------------------------------------------------- */

static void any_clock(void)
{
    switch (below(4)) {
    case 0:
        sim_clock_advance(below(UINT32_MAX));
        break;
    case 1:
        sim_clock_correct((int64_t)below(UINT32_MAX) * 10 - UINT32_MAX * INT64_C(5));
        break;
    case 2:
        sim_power_suspend();
        sim_power_resume(below(UINT32_MAX), chance(2));
        break;
    default:
        sim_bfe_set((enum sim_bfe)below(3));
        break;
    }
}

static void any_control(struct sim_reader *reader)
{
    static const uint32_t codes[] = {
        KDA_IOCTL_VERSION, KDA_IOCTL_STATUS, KDA_IOCTL_KINDS, KDA_IOCTL_FLUSH, 0, UINT32_MAX};
    static const size_t sizes[] = {0, 1, 7, 8, 24, 32, sizeof(struct kda_control_status), 70000};
    struct kda_control head = {chance(4) ? below(5) : KDA_CONTROL_VERSION, 0};
    size_t in = sizes[below(8)], out = sizes[below(8)], returned = 0;
    static uint8_t answer[70000];

    scramble(in);
    head.size = chance(4) ? below(100) : (uint32_t)in;
    memcpy(bytes, &head, sizeof(head));
    memset(answer, 0xA5, sizeof(answer));
    (void)sim_reader_control(reader, codes[below(6)] | (chance(6) ? below(4) : 0), bytes, in,
                             answer, out, &returned);
    assert_true(returned <= out);
    for (size_t i = returned; i < sizeof(answer); i++)
        assert_int_equal(answer[i], 0xA5);
}

static void any_client(void)
{
    static char text[4096];
    struct sim_reader *reader = NULL;
    struct sim_request *request;

    if (sim_reader_open(chance(6) ? STR("\\??\\KDAMonitor\\x") : STR("\\??\\KDAMonitor"),
                        (enum sim_caller)below(3), 3, &reader) < 0)
        return;
    any_control(reader);
    (void)sim_reader_other(reader, (uint8_t)(4 + below(8)));
    request = sim_reader_read(reader, text, below(sizeof(text)));
    if (chance(2))
        any_registry();
    if (chance(2))
        sim_request_cancel(request);
    if (chance(2)) {
        sim_reader_kill(reader);
        sim_request_free(request);
        return;
    }
    sim_request_cancel(request);
    sim_request_free(request);
    sim_reader_close(reader);
}

static void any_disk(void)
{
    if (chance(2))
        sim_disk_free(chance(2) ? UINT64_MAX : below(200000));
    else
        sim_file_fail(1u << below(6), STATUS_ACCESS_DENIED, below(4));
}

static void any_action(void)
{
    static void (*const actions[])(void) = {any_registry, any_registry, any_registry, any_flow,
                                            any_image,    any_process,  any_clock,    any_client};

    if (chance(30))
        any_disk();
    else
        actions[below(sizeof(actions) / sizeof(actions[0]))]();
}

/* --- the test -------------------------------------------------------------------------------- */

static void one_run(uint64_t number)
{
    printf("[ seed ] %llu\n", (unsigned long long)number);
    seed = (number + 1) * UINT64_C(0x9E3779B97F4A7C15);
    world_begin(NULL);
    any_settings();
    world_load();
    if (chance(3))
        world_start(2);
    sim_enter(WORLD_SHELL, 0);
    for (uint32_t i = 0; i < ACTIONS; i++)
        any_action();
    sim_enter(4, 0);
    world_stop();
    sim_disk_free(UINT64_MAX);
    sim_file_fail(SIM_FILE_ALL, 0, 0);
    assert_int_equal(sim_driver_unload(), STATUS_SUCCESS);
    assert_int_equal(sim_ledger_count(), 0);
    if (!sim_disk_refuses())
        world_verify();
    sim_shutdown_machine();
}

static void anything_goes(void **state)
{
    const char *one = getenv("KDA_HOSTILE_SEED");

    (void)state;
    if (one) {
        one_run(strtoull(one, NULL, 10));
        return;
    }
    for (uint64_t number = 0; number < RUNS; number++)
        one_run(number);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(anything_goes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
