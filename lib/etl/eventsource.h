/*
 * eventsource.h - manifests that EventSources send through their own events, in pieces. Internal to
 * lib/etl.
 */
#ifndef KDA_ETL_EVENTSOURCE_H
#define KDA_ETL_EVENTSOURCE_H

#include "describe.h"
#include "kda/etl.h"

#define KDA_EVENTSOURCE_ID 0xFFFEu
#define KDA_EVENTSOURCE_MAX 1024u                    /* manifests under way */
#define KDA_EVENTSOURCE_MAX_BYTES ((size_t)16 << 20) /* of one manifest */
#define KDA_EVENTSOURCE_MAX_ALL ((size_t)64 << 20)   /* of all that are under way */

struct kda_eventsource {
    struct kda_eventsource_part *parts;
    size_t count, capacity, bytes;
};

void kda_eventsource_deinit(struct kda_eventsource *es);

/* Does the payload begin as a piece of a manifest does? */
bool kda_eventsource_is_chunk(const struct kda_etl_record *record);

/* Takes a piece; when it was the last of its manifest, *xml (kda_free) and *size are set, else
 * *xml is NULL. Pieces out of order drop the manifest. Errors: KDA_NO_MEMORY, KDA_LIMIT. */
KDA_MUST_CHECK enum kda_status kda_eventsource_take(struct kda_eventsource *es,
                                                    const struct kda_etl_record *record, char **xml,
                                                    size_t *size, struct kda_error *err);

#endif
