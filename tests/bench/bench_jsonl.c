/*
 * bench_jsonl.c - the encoder against snprintf per field and jansson; all must give the same lines.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/plain.h"
#include "common/targets.h"

#define REPEATS 9u
#define LINE_BYTES 16384u

static char line[LINE_BYTES];
static char other[LINE_BYTES];

typedef size_t encoder(const struct kda_event *event, struct kda_clock *clock);

static size_t with_ours(const struct kda_event *event, struct kda_clock *clock)
{
    return kda_jsonl_encode(event, clock, line, sizeof line);
}

static size_t with_portable(const struct kda_event *event, struct kda_clock *clock)
{
    return kda_jsonl_encode_portable(event, clock, line, sizeof line);
}

static size_t with_plain(const struct kda_event *event, struct kda_clock *clock)
{
    return plain_encode(event, clock, line, sizeof line);
}

static const struct {
    const char *name;
    encoder *encode;
} encoders[] = {{"snprintf per field", with_plain},
                {"jansson", jansson_encode},
                {"kda_jsonl, portable", with_portable},
                {"kda_jsonl", with_ours}};
#define ENCODERS (sizeof encoders / sizeof encoders[0])

static void check_equal(void)
{
    struct kda_clock clock = {.frequency = 10000000};
    for (size_t i = 0; i < MIX_EVENTS; i++) {
        size_t a = kda_jsonl_encode(mix_get()->event[i], &clock, line, sizeof line);
        size_t b = plain_encode(mix_get()->event[i], &clock, other, sizeof other);
        if (a != b || memcmp(line, other, a) != 0) {
            fprintf(stderr, "lines differ:\n%.*s%.*s", (int)a, line, (int)b, other);
            exit(1);
        }
    }
}

static void bench_encoders(void)
{
    struct kda_clock clock = {.frequency = 10000000};
    double values[ENCODERS][REPEATS];
    uint64_t bytes = 0;
    for (size_t repeat = 0; repeat < REPEATS; repeat++) {
        for (size_t e = 0; e < ENCODERS; e++) {
            uint64_t start = bench_ns();
            bytes = 0;
            for (unsigned round = 0; round < 40; round++) {
                for (size_t i = 0; i < MIX_EVENTS; i++)
                    bytes += encoders[e].encode(mix_get()->event[i], &clock);
            }
            values[e][repeat] = (double)(bench_ns() - start) / (40.0 * MIX_EVENTS);
        }
    }
    printf("encoder, %.0f bytes in, %.0f out\n", mix_get()->mean_bytes,
           (double)bytes / (40.0 * MIX_EVENTS));
    double first = bench_median(values[0], REPEATS);
    for (size_t e = 0; e < ENCODERS; e++) {
        double ns = bench_median(values[e], REPEATS);
        printf("  %-28s %8.0f ns/event %7.1f x %7.2f M events/s\n", encoders[e].name, ns,
               first / ns, 1000 / ns);
    }
    const struct target target = {"encoder to snprintf per field", 6, 12, TARGET_AT_LEAST, 1, "x"};
    targets_head();
    targets_row(&target, first / bench_median(values[ENCODERS - 1], REPEATS));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    bench_real_time();
    check_equal();
    bench_encoders();
    return 0;
}
