#include "etl_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct etl_record etl_sample_event(uint64_t time, uint32_t number)
{
    static const char filler[200];
    struct etl_record r = {.kind = ETL_EVENT,
                           .pid = number,
                           .tid = 4,
                           .time = time,
                           .payload = filler,
                           .payload_size = 24 + number % 150};
    return r;
}

uint32_t etl_fill(struct etl_writer *w, uint32_t cpus, uint32_t count, uint64_t time)
{
    uint32_t seed = 5;
    for (uint32_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        time += seed >> 30;
        uint32_t cpu = (seed >> 12) % (i % 1000 < 300 ? 2 : cpus);
        struct etl_record r = etl_sample_event(time, i);
        etl_add(w, cpu % cpus, &r);
    }
    return count;
}

struct kda_etl *etl_open_blob(const struct blob *file)
{
    struct kda_etl *etl = NULL;
    struct kda_error err;
    assert_int_equal(kda_etl_open_memory(file->data, file->size, "sample.etl", &etl, &err), KDA_OK);
    return etl;
}
