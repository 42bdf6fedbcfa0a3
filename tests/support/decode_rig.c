/*
 * decode_rig.c - see decode_rig.h.
 */
#include "decode_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void rig_open(struct decode_rig *rig, const struct kda_decode_options *options)
{
    struct kda_error err;
    memset(rig, 0, sizeof(*rig));
    if (kda_etl_decoder_create(options, &rig->decoder, &err) != KDA_OK)
        fail_msg("%s", err.text);
}

void rig_close(struct decode_rig *rig)
{
    kda_etl_decoder_destroy(rig->decoder);
    blob_free(&rig->buffer);
}

const struct kda_etl_record *rig_frame(struct decode_rig *rig, const struct etl_record *record)
{
    struct kda_etl_framer framer;
    struct kda_etl_hole hole;
    blob_free(&rig->buffer);
    memset(&rig->buffer, 0, sizeof(rig->buffer));
    blob_pad(&rig->buffer, KDA_ETL_BUFFER_HEADER);
    (void)etl_put_record(&rig->buffer, record);
    kda_etl_framer_init(&framer, rig->buffer.data, rig->buffer.size, 0, 0, 3);
    assert_int_equal(kda_etl_frame_next(&framer, &rig->record, &hole), KDA_ETL_FRAME_RECORD);
    return &rig->record;
}

void rig_learn(struct decode_rig *rig, const struct etl_record *record)
{
    struct kda_error err;
    if (kda_etl_decoder_learn(rig->decoder, rig_frame(rig, record), &err) != KDA_OK)
        fail_msg("%s", err.text);
}

const char *rig_line(struct decode_rig *rig, const struct etl_record *record)
{
    static char text[65536];
    size_t size;
    const struct kda_decode_place place = {
        .source = KDA_DECODE_ETL, .has_time = true, .time = RIG_TIME};
    const struct kda_event *event =
        kda_etl_decoder_decode(rig->decoder, rig_frame(rig, record), &place);
    if (!event)
        return "";
    const char *line = kda_etl_decoder_line(rig->decoder, event, UINT64_MAX, &size);
    assert_non_null(line);
    assert_true(size < sizeof(text) && line[size - 1] == '\n' && line[size - 2] == '}');
    memcpy(text, line, size - 2);
    text[size - 2] = '\0';
    char *kind = strstr(text, "\"kind\":\"");
    assert_non_null(kind);
    return kind + 8;
}

const char *rig_fields(struct decode_rig *rig, const struct etl_record *record)
{
    const char *line = rig_line(rig, record);
    const char *fields = strstr(line, "\"fields\":");
    return fields ? fields + 9 : line;
}
