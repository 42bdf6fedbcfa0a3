/*
 * eventsource.c - putting manifests of EventSources together.
 *
 * Event 0xFFFE holds: u8 format (1), u8 major, u8 minor, u8 magic (0x5B), u16 chunks, u16 chunk,
 * then a piece of UTF-8 XML. Source: ManifestEnvelope of .NET's EventSource; seen in real files.
 */
#include "eventsource.h"

#define HEAD 8u
#define FORMAT 1u
#define MAGIC 0x5Bu

struct kda_eventsource_part {
    uint8_t guid[16];
    uint32_t pid; /* two processes may send the same manifest at once */
    uint16_t total, next;
    char *bytes;
    size_t size, capacity;
};

bool kda_eventsource_is_chunk(const struct kda_etl_record *record)
{
    const uint8_t *at = record->payload;
    return record->shape == KDA_ETL_SHAPE_EVENT && record->id == KDA_EVENTSOURCE_ID &&
           record->payload_size > HEAD && at[0] == FORMAT && at[3] == MAGIC &&
           kda_le16(at + 6) < kda_le16(at + 4);
}

static void drop(struct kda_eventsource *es, size_t index)
{
    es->bytes -= es->parts[index].size;
    kda_free(es->parts[index].bytes);
    es->parts[index] = es->parts[--es->count];
}

void kda_eventsource_deinit(struct kda_eventsource *es)
{
    while (es->count > 0)
        drop(es, es->count - 1);
    kda_free(es->parts);
    memset(es, 0, sizeof(*es));
}

/* Index of the manifest that the piece goes on with, or of a new one; SIZE_MAX: none, the piece is
 * of a manifest whose beginning was not seen. */
static enum kda_status find(struct kda_eventsource *es, const struct kda_etl_record *record,
                            size_t *ret, struct kda_error *err)
{
    uint16_t total = kda_le16(record->payload + 4), chunk = kda_le16(record->payload + 6);
    size_t at = 0;
    while (at < es->count &&
           (es->parts[at].pid != record->pid || memcmp(es->parts[at].guid, record->guid, 16) != 0))
        at++;
    *ret = SIZE_MAX;
    if (at < es->count && (es->parts[at].next != chunk || es->parts[at].total != total)) {
        drop(es, at);
        at = es->count;
    }
    if (at < es->count) {
        *ret = at;
        return KDA_OK;
    }
    if (chunk != 0)
        return KDA_OK;
    if (!kda_grow((void **)&es->parts, &es->capacity, es->count + 1, sizeof(*es->parts),
                  KDA_EVENTSOURCE_MAX))
        return kda_fail(err, es->count >= KDA_EVENTSOURCE_MAX ? KDA_LIMIT : KDA_NO_MEMORY, "etl",
                        "no room for an EventSource manifest");
    at = es->count++;
    memset(&es->parts[at], 0, sizeof(es->parts[at]));
    memcpy(es->parts[at].guid, record->guid, 16);
    es->parts[at].pid = record->pid;
    es->parts[at].total = total;
    *ret = at;
    return KDA_OK;
}

enum kda_status kda_eventsource_take(struct kda_eventsource *es,
                                     const struct kda_etl_record *record, char **xml, size_t *size,
                                     struct kda_error *err)
{
    size_t at, piece = record->payload_size - HEAD;
    *xml = NULL;
    enum kda_status status = find(es, record, &at, err);
    if (status != KDA_OK || at == SIZE_MAX)
        return status;
    struct kda_eventsource_part *part = &es->parts[at];
    if (es->bytes + piece > KDA_EVENTSOURCE_MAX_ALL ||
        !kda_grow((void **)&part->bytes, &part->capacity, part->size + piece, 1,
                  KDA_EVENTSOURCE_MAX_BYTES)) {
        bool large = es->bytes + piece > KDA_EVENTSOURCE_MAX_ALL ||
                     part->size + piece > KDA_EVENTSOURCE_MAX_BYTES;
        drop(es, at);
        return kda_fail(err, large ? KDA_LIMIT : KDA_NO_MEMORY, "etl",
                        "no room for an EventSource manifest");
    }
    memcpy(part->bytes + part->size, record->payload + HEAD, piece);
    part->size += piece;
    es->bytes += piece;
    part->next++;
    if (part->next < part->total)
        return KDA_OK;
    *xml = part->bytes;
    *size = part->size;
    part->bytes = NULL;
    drop(es, at);
    return KDA_OK;
}
