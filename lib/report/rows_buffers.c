/*
 * rows_buffers.c - the row of a trace buffer, key by key in the order of docs/rows.md.
 */
#include "writer.h"

static void put_places(struct kda_row *row, unsigned found_by)
{
    kda_put_array(row, "found_by");
    for (unsigned i = 0; i < KDA_BUFFER_PLACES; i++)
        if (found_by >> i & 1u)
            kda_put_text(row, NULL, kda_buffer_place_name(i));
    kda_put_end(row);
}

static void put_header(struct kda_row *row, const struct kda_trace_buffer *b)
{
    kda_put_uint(row, "cpu", b->cpu);
    kda_put_text(row, "state", kda_buffer_state_name(b->state));
    kda_put_uint(row, "size", b->size);
    kda_put_uint(row, "used", b->used);
    kda_put_uint(row, "sequence", b->sequence);
    kda_put_int(row, "references", b->references);
    kda_put_uint(row, "flags", b->flags);
    kda_put_uint(row, "type", b->type);
    kda_put_hex(row, "time_raw", b->time);
    kda_put_bool(row, "old", b->old);
    kda_put_bool(row, "copy", b->copy);
    kda_put_bool(row, "overfull", b->overfull);
}

static void put_facts(struct kda_row *row, const struct kda_trace_facts *f)
{
    kda_put_uint(row, "records", f->records);
    if (f->unwritten)
        kda_put_uint(row, "unwritten", f->unwritten);
    if (f->damaged)
        kda_put_uint(row, "damaged", f->damaged);
    if (f->cut)
        kda_put_uint(row, "cut", f->cut);
    if (f->missing)
        kda_put_uint(row, "missing", f->missing);
    if (f->has_utc) {
        kda_put_time(row, "oldest", f->oldest_100ns);
        kda_put_time(row, "newest", f->newest_100ns);
    }
    if (f->has_time) {
        kda_put_hex(row, "oldest_raw", f->oldest);
        kda_put_hex(row, "newest_raw", f->newest);
    }
}

void kda_report_buffer(struct kda_report *report, const struct kda_etw_session *session,
                       const struct kda_trace_buffer *buffer, const struct kda_trace_facts *facts)
{
    const struct kda_etw_consumer *consumer = buffer->consumer;
    struct kda_row *row = kda_report_row(report, KDA_ROW_BUFFER);
    if (session->silo)
        kda_put_text(row, "silo", session->silo->label);
    kda_put_uint(row, "session_id", session->id);
    if (KDA_ETW_HAS(session, S, NAME))
        kda_put_text(row, "session", session->name);
    kda_put_hex(row, "va", buffer->va);
    put_places(row, buffer->found_by);
    if (buffer->readable)
        put_header(row, buffer);
    if (facts->framed)
        put_facts(row, facts);
    if (buffer->has_slot_cpu)
        kda_put_uint(row, "slot_cpu", buffer->slot_cpu);
    if (consumer) {
        kda_put_hex(row, "consumer", consumer->va);
        if (consumer->has_pid)
            kda_put_uint(row, "pid", consumer->pid);
        if (consumer->process && *consumer->process)
            kda_put_text(row, "process", consumer->process);
    }
    kda_report_emit(report);
}
