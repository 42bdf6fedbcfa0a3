/*
 * bench_etl.c - reading trace files: the walk over the buffer headers, framing in the order of the
 * file, and framing with the merge of all CPUs into the order of time; on one core.
 *
 * Usage: kda-bench-etl FOLDER [FILE.etl...]
 *
 * FOLDER receives the generated file (1 GiB, 16 CPUs, 64 KiB buffers), which is kept for the next
 * run. Each FILE is measured as well. Best of several runs; rates count processor time, because
 * the machine may be shared.
 */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "etl_writer.h"
#include "kda/etl.h"

#define CPUS 16u
#define GIB ((uint64_t)1 << 30)
#define RUNS 3
#define TARGET 3.5e6
#define SLACK_KIB (16u << 10)

static double seconds(clockid_t clock)
{
    struct timespec now;
    (void)clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static long peak_kib(void)
{
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* ---- the generated file ---- */

/* What a kernel session with context switches holds: most records are short. */
static void make_record(struct etl_record *r, uint32_t pick, uint64_t time)
{
    static const uint8_t bytes[256] = {1, 2, 3, 4};
    static const char process[] = "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716";
    memset(r, 0, sizeof(*r));
    r->time = time;
    r->pid = 4 * (pick % 500);
    r->tid = 4 * (pick % 3000);
    r->payload = bytes;
    if (pick % 20 < 10) { /* context switch */
        r->kind = ETL_PERFINFO;
        r->group = 5;
        r->type = 36;
        r->version = 4;
        r->payload_size = 24;
    } else if (pick % 20 < 14) { /* stack */
        r->kind = ETL_PERFINFO;
        r->group = 0x18;
        r->type = 32;
        r->version = 2;
        r->payload_size = 16 + 8 * (pick % 24);
    } else if (pick % 20 < 17) { /* end of a thread */
        r->kind = ETL_SYSTEM;
        r->group = 5;
        r->type = 2;
        r->version = 3;
        r->payload_size = 72;
    } else { /* Microsoft-Windows-Kernel-Process, thread start */
        r->kind = ETL_EVENT;
        etl_guid(process, r->guid);
        r->id = 3;
        r->version = 1;
        r->level = 4;
        r->keyword = 0x8000000000000020;
        r->payload_size = 68;
    }
}

static bool write_file(const char *path)
{
    FILE *out = fopen(path, "wb");
    if (!out)
        return false;
    struct etl_params p = etl_defaults();
    struct etl_writer w;
    uint32_t seed = 1;
    uint64_t time = p.start_raw;
    p.cpus = CPUS;
    p.stream = out;
    etl_begin(&w, &p);
    while ((uint64_t)w.written * p.buffer_size < GIB) {
        struct etl_record r;
        seed = seed * 1664525u + 1013904223u;
        time += seed >> 29;
        make_record(&r, seed >> 8, time);
        /* A CPU is busy for a while: that is how records of traces come. */
        etl_add(&w, (seed >> 4 & 7) ? (uint32_t)(time >> 7) % CPUS : seed >> 28, &r);
    }
    etl_finish(&w);
    etl_writer_free(&w);
    return fclose(out) == 0;
}

/* In a process of its own: what it needs is not to be counted as memory of the reader. */
static bool generate(const char *path)
{
    struct stat st;
    if (stat(path, &st) == 0 && (uint64_t)st.st_size >= GIB)
        return true;
    (void)printf("writing %s ...\n", path);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(write_file(path) ? 0 : 1);
    int status = 1;
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* ---- measuring ---- */

struct figures {
    double walk, wall, cpu;
    uint64_t records;
};

static uint64_t check_sum; /* keeps the loop from being optimised away */

static bool run_once(const char *path, enum kda_etl_order order, struct figures *f)
{
    struct kda_etl *etl;
    struct kda_error err;
    const struct kda_etl_record *r;
    double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    if (kda_etl_open(path, &etl, &err) != KDA_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return false;
    }
    kda_etl_rewind(etl, order);
    f->walk = seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
    double wall = seconds(CLOCK_MONOTONIC);
    start = seconds(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t last = 0, back = 0;
    f->records = 0;
    while (kda_etl_next(etl, &r, &err) == KDA_OK && r) {
        f->records++;
        check_sum += r->payload_size;
        back += r->raw_time < last;
        last = r->raw_time;
    }
    f->cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - start;
    f->wall = seconds(CLOCK_MONOTONIC) - wall;
    bool fine = kda_etl_damage_count(etl) == 0 && (order == KDA_ETL_FILE_ORDER || back == 0);
    if (!fine)
        (void)fprintf(stderr, "%s: damaged, or not in the order of time\n", path);
    kda_etl_close(etl);
    return fine;
}

static bool measure(const char *path, enum kda_etl_order order, struct figures *best)
{
    for (int i = 0; i < RUNS; i++) {
        struct figures f;
        if (!run_once(path, order, &f))
            return false;
        if (i == 0 || f.cpu < best->cpu)
            *best = f;
    }
    return true;
}

static bool report(const char *path)
{
    struct figures framed, merged;
    struct stat st;
    if (stat(path, &st) != 0 || !measure(path, KDA_ETL_FILE_ORDER, &framed) ||
        !measure(path, KDA_ETL_TIME_ORDER, &merged))
        return false;
    const char *slash = strrchr(path, '/');
    (void)printf("%-40.40s %8.1f %10llu %8.1f %9.2f %9.2f %9.2f\n", slash ? slash + 1 : path,
                 (double)st.st_size / (1 << 20), (unsigned long long)merged.records,
                 merged.walk * 1e3, (double)framed.records / framed.cpu / 1e6,
                 (double)merged.records / merged.cpu / 1e6,
                 (double)merged.records / merged.wall / 1e6);
    return true;
}

int main(int argc, char **argv)
{
    char path[1024];
    if (argc < 2) {
        (void)fprintf(stderr, "usage: kda-bench-etl FOLDER [FILE.etl...]\n");
        return 2;
    }
    (void)snprintf(path, sizeof(path), "%s/generated-1g.etl", argv[1]);
    if (!generate(path)) {
        (void)fprintf(stderr, "cannot write %s\n", path);
        return 1;
    }
    (void)printf("trace files, one core, best of %d; M records/s of processor time\n", RUNS);
    (void)printf("%-40s %8s %10s %8s %9s %9s %9s\n", "file", "MiB", "records", "walk ms", "framed",
                 "merged", "(wall)");
    long before = peak_kib();
    bool fine = report(path);
    long peak = peak_kib() - before;
    for (int i = 2; i < argc; i++)
        fine &= report(argv[i]);
    (void)printf("peak memory of the generated file: %ld KiB more than before; limit %u KiB\n",
                 peak, CPUS * 64 + SLACK_KIB);
    (void)printf("target: framing and merge at least %.1f M records/s\n", TARGET / 1e6);
    return fine ? 0 : 1;
}
