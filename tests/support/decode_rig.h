/*
 * decode_rig.h - one record at a time through encoder, framer and decoder.
 */
#ifndef KDA_TESTS_DECODE_RIG_H
#define KDA_TESTS_DECODE_RIG_H

#include "etl_writer.h"
#include "kda/decode.h"

struct decode_rig {
    struct kda_etl_decoder *decoder;
    struct blob buffer; /* head of a trace buffer, then the record */
    struct kda_etl_record record;
};

/* 2026-11-29T21:04:05.1234567Z */
#define RIG_TIME UINT64_C(134404598451234567)

void rig_open(struct decode_rig *rig, const struct kda_decode_options *options);
void rig_close(struct decode_rig *rig);
/* Frames the record; it lives until the next call. */
const struct kda_etl_record *rig_frame(struct decode_rig *rig, const struct etl_record *record);
/* First pass over it. */
void rig_learn(struct decode_rig *rig, const struct etl_record *record);
/* Its line from `"kind":"` on, without the line end and the closing brace; "" if the filter took
 * it. */
const char *rig_line(struct decode_rig *rig, const struct etl_record *record);

#define assert_line(rig, record, text) assert_string_equal(rig_line(rig, record), text)
/* Compares what stands behind `"fields":`; the fields are the last member of the line. */
const char *rig_fields(struct decode_rig *rig, const struct etl_record *record);
#define assert_fields(rig, record, text) assert_string_equal(rig_fields(rig, record), text)

#endif
