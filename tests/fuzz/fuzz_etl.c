/*
 * Any bytes as a trace file: walked, framed in both orders, counted. Every record lies in its
 * buffer, both orders give the same records, and whatever is damaged is listed.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kda/etl.h"

static void need(int condition)
{
    if (!condition)
        abort();
}

static volatile uint8_t sink; /* reads that must not be optimised away */

static void touch(const uint8_t *p, size_t size)
{
    if (size > 0)
        sink = (uint8_t)(p[0] ^ p[size - 1]);
}

static void look_at(struct kda_etl *etl, const struct kda_etl_record *r)
{
    struct kda_etl_ext item;
    uint64_t time;
    need(r->size > 0 && r->payload >= r->bytes);
    need(r->payload + r->payload_size == r->bytes + r->size);
    touch(r->bytes, r->size);
    for (uint32_t at = 0; kda_etl_ext_next(r, &at, &item);)
        need(item.data >= r->bytes && item.data + item.size <= r->payload);
    const uint8_t *guids[] = {r->guid, r->activity, r->related, r->parent_guid};
    for (size_t i = 0; i < 4; i++)
        need(!guids[i] || (guids[i] >= r->bytes && guids[i] + 16 <= r->payload));
    need(r->counters_size == 0 || r->counters + r->counters_size == r->payload);
    need(kda_etl_time(etl, r->raw_time, &time) == kda_etl_info(etl)->has_header);
    need(r->buffer < kda_etl_info(etl)->buffers);
    need(kda_etl_header_name(r->header)[0] != '?');
}

static uint64_t read_all(struct kda_etl *etl, enum kda_etl_order order)
{
    const struct kda_etl_record *r;
    struct kda_etl_stats *stats = NULL;
    uint64_t records = 0;
    need(kda_etl_stats_create(&stats, NULL) == KDA_OK);
    kda_etl_rewind(etl, order);
    for (;;) {
        need(kda_etl_next(etl, &r, NULL) == KDA_OK);
        if (!r)
            break;
        look_at(etl, r);
        need(kda_etl_stats_add(stats, r, NULL) == KDA_OK);
        records++;
    }
    kda_etl_stats_destroy(stats);
    return records;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kda_etl *etl = NULL;
    struct kda_error err = {0};
    enum kda_status status = kda_etl_open_memory(data, size, "fuzz", &etl, &err);
    if (status != KDA_OK) {
        need(status == KDA_BAD_DATA && err.text[0] != '\0');
        return 0;
    }
    uint64_t merged = read_all(etl, KDA_ETL_TIME_ORDER);
    size_t damages = kda_etl_damage_count(etl);
    bool limited =
        damages > KDA_ETL_MAX_DAMAGE; /* which buffers a limit hits depends on the order */
    for (size_t i = 0; i < damages && i < KDA_ETL_MAX_DAMAGE; i++) {
        const struct kda_etl_damage *damage = kda_etl_damage_at(etl, i);
        need(damage != NULL && damage->why != NULL);
        limited |= strstr(damage->why, "memory") != NULL || strstr(damage->why, "expands") != NULL;
    }
    uint64_t serial = read_all(etl, KDA_ETL_FILE_ORDER);
    need(limited || merged == serial);
    kda_etl_close(etl);
    return 0;
}
