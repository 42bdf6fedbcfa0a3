#define _GNU_SOURCE
#include "mix.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t random_state = 20240601;

static uint32_t next_random(uint32_t below)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)random_state * below) >> 32);
}

/* A path of `units` units with a backslash every nine or so and now and then an umlaut. */
static size_t make_path(uint16_t *out, const char *start, size_t units)
{
    size_t n = 0;
    for (; start[n] != '\0'; n++)
        out[n] = (uint8_t)start[n];
    for (; n < units; n++)
        out[n] = (uint16_t)(n % 9 == 0              ? '\\'
                            : next_random(200) == 0 ? 0xE4
                                                    : 'a' + (int)next_random(26));
    return n;
}

static void fill_registry(struct kda_event_builder *b, uint16_t *text)
{
    size_t n = make_path(text, "\\REGISTRY\\MACHINE\\SOFTWARE\\", 50 + next_random(60));
    kda_event_string(b, KDA_FIELD_VALUE_KEY, text, n);
    n = make_path(text, "Val", 8 + next_random(12));
    kda_event_string(b, KDA_FIELD_VALUE_VALUE, text, n);
    if (next_random(2)) {
        kda_event_set(b, KDA_FIELD_VALUE_VALUE_TYPE, 4);
        kda_event_bytes(b, KDA_FIELD_VALUE_DATA, "\1\2\3\4", 4, SIZE_MAX);
        kda_event_set(b, KDA_FIELD_VALUE_DATA_SIZE, 4);
    } else {
        n = make_path(text, "C:\\", 20 + next_random(40));
        kda_event_set(b, KDA_FIELD_VALUE_VALUE_TYPE, 1);
        kda_event_bytes(b, KDA_FIELD_VALUE_DATA, text, 2 * n, SIZE_MAX);
        kda_event_set(b, KDA_FIELD_VALUE_DATA_SIZE, 2 * n);
    }
    kda_event_set(b, KDA_FIELD_VALUE_STATUS, 0);
}

static void fill_image(struct kda_event_builder *b, uint16_t *text)
{
    size_t n =
        make_path(text, "\\Device\\HarddiskVolume3\\Windows\\System32\\", 48 + next_random(30));
    kda_event_set(b, KDA_FIELD_IMAGE_TARGET_PID, 4000 + next_random(4000));
    kda_event_string(b, KDA_FIELD_IMAGE_MODULE, text, n);
    kda_event_set(b, KDA_FIELD_IMAGE_BASE, 0x7FF800000000u + next_random(1 << 30));
    kda_event_set(b, KDA_FIELD_IMAGE_SIZE, 4096u * next_random(500));
    kda_event_set(b, KDA_FIELD_IMAGE_KERNEL, 0);
    kda_event_set(b, KDA_FIELD_IMAGE_SIGNATURE_LEVEL, 0);
}

static void fill_thread(struct kda_event_builder *b)
{
    kda_event_set(b, KDA_FIELD_THREAD_NEW_TID, next_random(30000));
    kda_event_set(b, KDA_FIELD_THREAD_TARGET_PID, next_random(30000));
    kda_event_set(b, KDA_FIELD_THREAD_START_ADDRESS, 0x7FF800000000u + next_random(1 << 30));
    kda_event_set(b, KDA_FIELD_THREAD_REMOTE, 0);
}

static void fill_network(struct kda_event_builder *b)
{
    uint8_t local[4] = {10, 0, 0, (uint8_t)next_random(255)};
    uint8_t remote[4] = {93, (uint8_t)next_random(255), 12, (uint8_t)next_random(255)};
    kda_event_flow(b, 6, 4, local, 1024 + next_random(60000), remote, 443);
    kda_event_set(b, KDA_FIELD_NETWORK_DIRECTION, KDA_OUTBOUND);
}

static void fill_process(struct kda_event_builder *b, uint16_t *text)
{
    static const uint8_t sid[] = {1, 5, 0, 0, 0, 0, 0, 5, 21, 0, 0,    0, 1, 2,
                                  3, 4, 5, 6, 7, 8, 9, 1, 2,  3, 0xF4, 1, 0, 0};
    size_t n = make_path(text, "\"C:\\Program Files\\", 60 + next_random(200));
    kda_event_string(b, KDA_FIELD_PROCESS_COMMAND_LINE, text, n);
    kda_event_set(b, KDA_FIELD_PROCESS_PARENT_PID, next_random(20000));
    kda_event_set(b, KDA_FIELD_PROCESS_CREATOR_PID, next_random(20000));
    kda_event_bytes(b, KDA_FIELD_PROCESS_USER_SID, sid, sizeof sid, SIZE_MAX);
    kda_event_set(b, KDA_FIELD_PROCESS_INTEGRITY, 0x3000);
    kda_event_set(b, KDA_FIELD_PROCESS_CREATE_TIME, 134404598451234567u);
}

static const struct kda_event *make_event(void)
{
    static uint64_t buffer[1024];
    uint16_t text[512];
    struct kda_event_builder b;
    uint32_t dice = next_random(100);
    unsigned kind = dice < 45   ? KDA_KIND_REGISTRY_VALUE_SET
                    : dice < 70 ? KDA_KIND_IMAGE_LOAD
                    : dice < 85 ? KDA_KIND_THREAD_CREATE
                    : dice < 95 ? KDA_KIND_NETWORK_CONNECT
                                : KDA_KIND_PROCESS_CREATE;
    kda_event_begin(&b, buffer, sizeof buffer, kind, KDA_SOURCE_DRIVER);
    b.event->pid = next_random(30000);
    b.event->tid = next_random(30000);
    b.event->id = next_random(100000000);
    b.event->cpu = (uint16_t)next_random(16);
    b.event->time = 134404598451234567u;
    kda_event_set(&b, KDA_FIELD_PROCESS_KEY, 0x1F00000000u + next_random(1 << 30));
    size_t n = make_path(text, "\\Device\\HarddiskVolume3\\", 35 + next_random(35));
    kda_event_string(&b, KDA_FIELD_IMAGE, text, n);
    if (kind == KDA_KIND_REGISTRY_VALUE_SET)
        fill_registry(&b, text);
    else if (kind == KDA_KIND_IMAGE_LOAD)
        fill_image(&b, text);
    else if (kind == KDA_KIND_THREAD_CREATE)
        fill_thread(&b);
    else if (kind == KDA_KIND_NETWORK_CONNECT)
        fill_network(&b);
    else
        fill_process(&b, text);
    size_t bytes = kda_event_end(&b);
    void *copy = malloc(bytes);
    if (!copy || b.misused)
        abort();
    return memcpy(copy, buffer, bytes);
}

const struct mix *mix_get(void)
{
    static struct mix mix;
    double sum = 0;
    if (mix.mean_bytes > 0)
        return &mix;
    for (size_t i = 0; i < MIX_EVENTS; i++) {
        mix.event[i] = make_event();
        sum += mix.event[i]->size;
    }
    mix.mean_bytes = sum / MIX_EVENTS;
    return &mix;
}

/* --- clock and threads ----------------------------------------------------------------------- */

uint64_t bench_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return bench_ns();
#endif
}

double bench_ns_per_tick(void)
{
    static double rate;
    if (rate == 0) {
        uint64_t ns = bench_ns(), ticks = bench_ticks();
        while (bench_ns() - ns < 20000000)
            continue;
        rate = (double)(bench_ns() - ns) / (double)(bench_ticks() - ticks);
    }
    return rate;
}

void bench_pin(unsigned cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
}

bool bench_real_time(void)
{
    struct sched_param param = {.sched_priority = 10};
    return pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0;
}

void bench_idle(void)
{
    uint64_t until = bench_ticks() + (uint64_t)(3000.0 / bench_ns_per_tick());
    while (bench_ticks() < until)
        sched_yield();
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_median(double *values, size_t count)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare_double);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

double bench_percentile(uint32_t *values, size_t count, double percent)
{
    if (count == 0)
        return 0;
    qsort(values, count, sizeof *values, compare_u32);
    return values[(size_t)((double)(count - 1) * percent / 100.0)];
}

/* --- distance -------------------------------------------------------------------------------- */

#define TRIPS 8000u

static _Alignas(128) atomic_uint ball;
static _Alignas(128) atomic_uint players;
static uint64_t kick_off;

static void *player(void *argument)
{
    unsigned me = argument ? 1 : 0;
    bench_pin(me);
    atomic_fetch_add(&players, 1);
    while (atomic_load(&players) < 2)
        sched_yield();
    if (me == 0)
        kick_off = bench_ns();
    for (unsigned i = 0; i < TRIPS; i++) {
        uint64_t since = bench_ticks();
        while ((atomic_load_explicit(&ball, memory_order_acquire) & 1) != me) {
            if (bench_ticks() - since > 10000000) {
                sched_yield();
                since = bench_ticks();
            }
        }
        atomic_fetch_add_explicit(&ball, 1, memory_order_acq_rel);
    }
    return NULL;
}

double bench_round_trip(void)
{
    pthread_t other;
    atomic_store(&ball, 0);
    atomic_store(&players, 0);
    pthread_create(&other, NULL, player, &ball);
    player(NULL);
    pthread_join(other, NULL);
    return (double)(bench_ns() - kick_off) / TRIPS;
}
