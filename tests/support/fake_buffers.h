/*
 * fake_buffers.h - the trace buffers of the pretended machine; a part of fake_model.h. Every
 * session has a buffer with two events, one that is free and holds an old event, and one whose
 * memory is missing; the session in slot 2 has none of them.
 */
#ifndef KDA_TESTS_FAKE_BUFFERS_H
#define KDA_TESTS_FAKE_BUFFERS_H

#include "kda/buffers.h"

#include "etl_writer.h"

struct kda_etw_buffers {
    struct kda_trace_buffer rows[3];
    size_t count;
    struct blob bytes[3];
};

static void fake_buffer(struct kda_etw_buffers *b, size_t at, bool old, unsigned records)
{
    struct kda_trace_buffer *row = &b->rows[at];
    *row =
        (struct kda_trace_buffer){.va = 0xffffd00000000000u + 0x1000 * at,
                                  .kernel = true,
                                  .found_by = KDA_BUFFER_GLOBAL,
                                  .readable = records > 0,
                                  .old = old,
                                  .size = 4096,
                                  .used_known = true,
                                  .sequence = at + 1,
                                  .cpu = (uint16_t)at,
                                  .state = old ? KDA_BUFFER_STATE_FREE : KDA_BUFFER_STATE_LOGGING};
    blob_put(&b->bytes[at], NULL, KDA_BUFFER_HEADER);
    for (unsigned i = 0; i < records; i++) {
        struct etl_record r = {.kind = ETL_SYSTEM,
                               .group = 3,
                               .type = 1,
                               .pid = 77,
                               .time = 1000000 * (2 - at) + 10 * i};
        (void)etl_put_record(&b->bytes[at], &r);
    }
    row->used = row->current_offset = (uint32_t)b->bytes[at].size;
}

enum kda_status kda_etw_buffers_read(struct kda_kernel *kernel,
                                     const struct kda_etw_session *session,
                                     struct kda_etw_buffers **ret, struct kda_error *err)
{
    (void)kernel;
    (void)err;
    struct kda_etw_buffers *b = calloc(1, sizeof(*b));
    if (session->id != 2) {
        fake_buffer(b, 0, false, 2);
        fake_buffer(b, 1, true, 1);
        fake_buffer(b, 2, false, 0);
        b->count = 3;
    }
    *ret = b;
    return KDA_OK;
}

void kda_etw_buffers_free(struct kda_etw_buffers *buffers)
{
    for (size_t i = 0; buffers && i < 3; i++)
        blob_free(&buffers->bytes[i]);
    free(buffers);
}

const struct kda_trace_buffer *kda_etw_buffers_list(const struct kda_etw_buffers *buffers,
                                                    size_t *count)
{
    *count = buffers->count;
    return buffers->rows;
}

enum kda_status kda_etw_buffer_bytes(struct kda_etw_buffers *buffers,
                                     const struct kda_trace_buffer *buffer,
                                     struct kda_buffer_content *ret, struct kda_error *err)
{
    (void)err;
    const struct blob *bytes = &buffers->bytes[buffer - buffers->rows];
    *ret = (struct kda_buffer_content){bytes->data, (uint32_t)bytes->size, NULL, 0};
    return KDA_OK;
}

void kda_etw_session_clock(struct kda_kernel *kernel, const struct kda_etw_session *session,
                           struct kda_etw_clock *ret)
{
    (void)kernel;
    *ret = (struct kda_etw_clock){.type = 1,
                                  .time_100ns = session->start_time_100ns,
                                  .frequency = 10000000,
                                  .cpu_mhz = 2600,
                                  .qpc_frequency = 10000000};
}

#endif
