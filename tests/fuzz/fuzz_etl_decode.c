/*
 * fuzz_etl_decode.c - the input is the records of a trace buffer. They are framed, learned from and
 * decoded, as kda does it; every event must be a valid record and its line JSON of one line.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "json_pull.h"
#include "kda/decode.h"
#include "kda_event.h"

#define MAX_INPUT 65536u
#define HEAD KDA_ETL_BUFFER_HEADER

static void check(struct kda_etl_decoder *decoder, const struct kda_event *event)
{
    struct kda_json_pull json;
    struct kda_json_token token;
    size_t size;
    if (!kda_event_valid(event, event->size))
        abort();
    const char *line = kda_etl_decoder_line(decoder, event, 1, &size);
    if (!line)
        return;
    if (size < 3 || line[size - 1] != '\n' || memchr(line, '\n', size - 1))
        abort();
    kda_json_pull_begin(&json, line, size - 1);
    do {
        if (!kda_json_pull_next(&json, &token))
            abort();
    } while (token.type != KDA_JSON_END);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kda_etl_decoder *decoder;
    struct kda_etl_framer framer;
    struct kda_etl_record record;
    struct kda_etl_hole hole;
    enum kda_etl_frame frame;
    if (size > MAX_INPUT || kda_etl_decoder_create(NULL, &decoder, NULL) != KDA_OK)
        return 0;
    uint8_t *buffer = calloc(1, HEAD + size);
    if (!buffer)
        abort();
    memcpy(buffer + HEAD, data, size);
    for (unsigned pass = 0; pass < 2; pass++) {
        kda_etl_framer_init(&framer, buffer, HEAD + size, 0, 0, 1);
        while ((frame = kda_etl_frame_next(&framer, &record, &hole)) != KDA_ETL_FRAME_END) {
            if (frame != KDA_ETL_FRAME_RECORD)
                continue;
            const struct kda_decode_place place = {
                .source = KDA_DECODE_MEMORY, .has_time = record.has_time, .time = record.raw_time};
            if (pass == 0) {
                if (kda_etl_decoder_learn(decoder, &record, NULL) != KDA_OK)
                    abort();
                continue;
            }
            const struct kda_event *event = kda_etl_decoder_decode(decoder, &record, &place);
            if (!event)
                abort();
            check(decoder, event);
        }
    }
    free(buffer);
    kda_etl_decoder_destroy(decoder);
    return 0;
}
