/*
 * bench_sensor.c - what the sensor costs those whom it watches: a registry set, a process start and
 * a connection in the simulated kernel, paced to 50,000 events a second, without the driver and
 * with it, alternated, medians; and a registry storm at ten times the capacity of the ring, of
 * which the driver's own log has to give account.
 *
 * Without: the simulator's own cost. With less without: the driver's, in the caller's thread. The
 * machine keeps what it runs on to one CPU and the writer's thread to the other.
 *
 * Usage: kda-bench-sensor [ROUNDS]
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/mix.h"
#include "common/targets.h"
#include "driver_entry.h"
#include "event_queue.h"
#include "sim.h"

#define MAX_ROUNDS 32u
#define EVENTS 20000u /* of a run */
#define EVENT_NS 20000u
#define SHELL_PID 2000u

enum { OP_REGISTRY, OP_PROCESS, OP_CONNECTION, OPS };

struct op {
    const char *name;
    const char *kind;              /* of the line that each call must leave */
    unsigned events;               /* that one call and what belongs to it make */
    void (*call)(uint32_t number); /* measured */
    void (*tidy_up)(void);         /* not measured */
};

static uint32_t last_pid;
static uint64_t last_flow;

static void set_value(uint32_t number)
{
    const struct sim_registry op = {
        .key = SIM_STR(u"\\REGISTRY\\MACHINE\\SOFTWARE\\Vendor\\Product\\Settings"),
        .name = SIM_STR(u"LastWindowPosition"),
        .type = 4,
        .data = &number,
        .size = sizeof number};
    (void)sim_registry_set_value(&op);
}

static void start_process(uint32_t number)
{
    const struct sim_process process = {
        .parent_pid = SHELL_PID,
        .image = SIM_STR(u"\\Device\\HarddiskVolume3\\Windows\\System32\\conhost.exe"),
        .command_line = SIM_STR(u"\\??\\C:\\Windows\\system32\\conhost.exe 0xffffffff -ForceV1")};
    (void)number;
    (void)sim_process_create(&process, &last_pid);
}

static void end_process(void)
{
    (void)sim_process_exit(last_pid, 0);
    (void)sim_enter(SHELL_PID, 0);
}

static void connect_out(uint32_t number)
{
    const struct sim_flow flow = {.version = 4,
                                  .protocol = 6,
                                  .local = {10, 0, 0, 1},
                                  .remote = {192, 0, 2, (uint8_t)number},
                                  .local_port = (uint16_t)(1024 + number % 60000),
                                  .remote_port = 443,
                                  .pid = SHELL_PID};
    sim_net_connect(&flow, &last_flow);
}

static void close_flow(void)
{
    sim_net_close(last_flow);
}

static const struct op ops[OPS] = {
    {"registry set", "registry.value_set", 1, set_value, NULL},
    {"process start", "process.create", 4, start_process, end_process},
    {"connection", "network.connect", 1, connect_out, close_flow}};

/* --- machine ---------------------------------------------------------------------------------- */

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

static void boot(void)
{
    const struct sim_process shell = {
        .pid = SHELL_PID,
        .parent_pid = 4,
        .image = SIM_STR(u"\\Device\\HarddiskVolume3\\Windows\\explorer.exe"),
        .command_line = SIM_STR(u"explorer.exe")};
    if (!sim_boot(&(struct sim_options){.cpus = 2, .clock = SIM_CLOCK_HOST}) ||
        sim_process_existing(&shell, NULL) != 0)
        fail("no machine");
    sim_settings_set_dword(SIM_STR(u"RecordEverything"), 1);
}

/* The writer's thread stays on CPU 1. */
static void load(void)
{
    bench_pin(1);
    if (sim_driver_load(DriverEntry) != 0)
        fail("the driver did not load");
    sim_settle();
    bench_pin(0);
}

/* What all lines of the log say. */
struct log_counts {
    uint64_t lines;
    uint64_t wanted; /* of one kind */
    uint64_t lost;   /* sum of what the sensor.loss lines tell */
    bool dense;      /* ids without a gap */
};

/* Of the numbers in {"kind":number,...}. */
static uint64_t sum_of(const char *object)
{
    uint64_t sum = 0;
    for (const char *at = object; *at != '\0' && *at != '}'; at++) {
        if (at[0] == '"' && at[1] == ':')
            sum += strtoull(at + 2, NULL, 10);
    }
    return sum;
}

static void count_file(const char *path, const char *kind, struct log_counts *counts)
{
    static char line[1 << 20];
    char wanted[64];
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path);
    snprintf(wanted, sizeof wanted, "\"kind\":\"%s\"", kind);
    while (fgets(line, sizeof line, file)) {
        const char *id = strstr(line, "\"id\":"), *lost = strstr(line, "\"lost\":{");
        counts->dense = counts->dense && id && strtoull(id + 5, NULL, 10) == counts->lines;
        counts->lines++;
        counts->wanted += strstr(line, wanted) != NULL;
        if (lost && strstr(line, "\"kind\":\"sensor.loss\""))
            counts->lost += sum_of(strchr(lost, '{'));
    }
    fclose(file);
}

static int is_log(const struct dirent *entry)
{
    return strstr(entry->d_name, ".jsonl") != NULL;
}

/* Of the log of one load; it is removed. */
static struct log_counts read_log(const char *kind)
{
    struct log_counts counts = {.dense = true};
    char folder[2048], path[4096];
    struct dirent **names;
    snprintf(folder, sizeof folder, "%s/Windows/KDAMonitor", sim_disk());
    int n = scandir(folder, &names, is_log, alphasort);
    if (n <= 0)
        fail("no log");
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        count_file(path, kind, &counts);
        unlink(path);
        free(names[i]);
    }
    free(names);
    return counts;
}

/* --- runs ------------------------------------------------------------------------------------- */

struct cost {
    double p50[MAX_ROUNDS], p999[MAX_ROUNDS], rate[MAX_ROUNDS];
};

static void measure(const struct op *op, struct cost *cost, unsigned round)
{
    static uint32_t ticks[EVENTS];
    double rate = bench_ns_per_tick();
    uint32_t calls = EVENTS / op->events;
    uint64_t interval = (uint64_t)((double)EVENT_NS * op->events / rate);
    sim_set_cpu(0);
    (void)sim_enter(SHELL_PID, 0);
    uint64_t start = bench_ticks(), due = start;
    for (uint32_t i = 0; i < calls; i++) {
        while (bench_ticks() < due)
            sched_yield();
        due += interval;
        uint64_t from = bench_ticks();
        op->call(i);
        ticks[i] = (uint32_t)(bench_ticks() - from);
        if (op->tidy_up)
            op->tidy_up();
    }
    double seconds = (double)(bench_ticks() - start) * rate / 1e9;
    cost->rate[round] = calls * op->events / seconds;
    cost->p50[round] = bench_percentile(ticks, calls, 50) * rate;
    cost->p999[round] = bench_percentile(ticks, calls, 99.9) * rate;
    (void)sim_enter(4, 0);
}

/* A line for every call, or a loss that was told. */
static void check_log(const struct op *op)
{
    uint64_t dropped = KdaMonEventQueueDropped(0);
    if (sim_driver_unload() != 0)
        fail("the driver did not unload");
    struct log_counts log = read_log(op->kind);
    if (!log.dense || log.lost != dropped || log.wanted + log.lost < EVENTS / op->events ||
        log.wanted > EVENTS / op->events)
        fail("the log does not account for all calls");
}

static void costs(unsigned rounds)
{
    static struct cost without[OPS], with[OPS];
    boot();
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned o = 0; o < OPS; o++) {
            bench_pin(0);
            measure(&ops[o], &without[o], round);
            load();
            measure(&ops[o], &with[o], round);
            check_log(&ops[o]);
        }
    }
    sim_shutdown_machine();
    printf("nanoseconds of the caller at 50,000 events/s, %u rounds, medians\n", rounds);
    printf("  %-16s %21s %21s %21s %11s\n", "", "without: p50   p99.9", "with: p50   p99.9",
           "sensor: p50   p99.9", "events/s");
    for (unsigned o = 0; o < OPS; o++) {
        double a = bench_median(without[o].p50, rounds), b = bench_median(without[o].p999, rounds);
        double c = bench_median(with[o].p50, rounds), d = bench_median(with[o].p999, rounds);
        printf("  %-16s %12.0f %8.0f %12.0f %8.0f %12.0f %8.0f %11.0f\n", ops[o].name, a, b, c, d,
               c - a, d - b, bench_median(with[o].rate, rounds));
    }
}

/* --- storm ------------------------------------------------------------------------------------ */

#define STORM_SHARD_BYTES 262144u
#define STORM_RECORD_BYTES 300u /* about; the true number is told */
#define STORM_PROCESS_EVERY 500u

static void storm(void)
{
    const uint32_t calls = 10 * 2 * STORM_SHARD_BYTES / STORM_RECORD_BYTES;
    uint64_t processes = 0;
    boot();
    sim_settings_set_dword(SIM_STR(u"RingShards"), 2);
    sim_settings_set_dword(SIM_STR(u"RingShardBytes"), STORM_SHARD_BYTES);
    load();
    sim_disk_slow(20000); /* each write takes as long as a tired disk's */
    (void)sim_enter(SHELL_PID, 0);
    for (uint32_t i = 0; i < calls; i++) {
        sim_set_cpu(i & 1);
        set_value(i);
        if (i % STORM_PROCESS_EVERY == 0) {
            start_process(i);
            end_process();
            processes++;
        }
    }
    (void)sim_enter(4, 0);
    uint64_t lost = KdaMonEventQueueDropped(0);
    uint64_t lost_set = KdaMonEventQueueDropped(KDA_KIND_REGISTRY_VALUE_SET);
    uint64_t lost_processes = KdaMonEventQueueDropped(KDA_KIND_PROCESS_CREATE) +
                              KdaMonEventQueueDropped(KDA_KIND_PROCESS_EXIT);
    sim_disk_slow(0);
    if (sim_driver_unload() != 0)
        fail("the driver did not unload");
    struct log_counts log = read_log("process.create");
    sim_shutdown_machine();
    printf("\nregistry storm into a ring of 2 x %u KiB: %u sets, %llu processes started and ended; "
           "lost %llu sets, %llu of processes\n",
           STORM_SHARD_BYTES / 1024, calls, (unsigned long long)processes,
           (unsigned long long)lost_set, (unsigned long long)lost_processes);
    const struct target none = {
        "storm through the driver: processes lost", 0, 0, TARGET_AT_MOST, 0, ""};
    const struct target told = {"losses that the log does not tell", 0, 0, TARGET_AT_MOST, 0, ""};
    targets_head();
    targets_row(&none, (double)lost_processes + (double)processes - (double)log.wanted);
    targets_row(&told, (double)lost - (double)log.lost);
    if (lost_processes != 0 || log.wanted != processes || log.lost != lost || !log.dense)
        fail("the storm lost what it must not");
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 7;
    if (rounds < 1 || rounds > MAX_ROUNDS)
        rounds = 7;
    setvbuf(stdout, NULL, _IOLBF, 0);
    (void)bench_real_time();
    costs((unsigned)rounds);
    storm();
    return 0;
}
