/*
 * rows_compare.c - rows of a comparison of two witnesses.
 */
#include "writer.h"

#include "kda/compare.h"

static const char *side(unsigned witness)
{
    return witness ? "B" : "A";
}

void kda_report_witness(struct kda_report *report, unsigned witness, const char *path,
                        const char *source, const struct kda_compare_witness *seen)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_WITNESS);
    kda_put_text(row, "witness", side(witness));
    kda_put_text(row, "path", path);
    kda_put_text(row, "source", source);
    kda_put_time(row, "first_time", seen->first_time);
    kda_put_time(row, "last_time", seen->last_time);
    kda_put_uint(row, "events", seen->events);
    kda_put_uint(row, "matched", seen->matched);
    kda_put_uint(row, "only", seen->only);
    kda_put_object(row, "left_out");
    for (unsigned i = 0; i < KDA_COMPARE_REASONS; i++)
        if (seen->left_out[i])
            kda_put_uint(row, kda_compare_reason_name(i), seen->left_out[i]);
    kda_put_end(row);
    kda_put_array(row, "kinds");
    for (unsigned kind = 1; kind < kda_log_kind_count() && kind < 64; kind++)
        if ((seen->kinds >> kind & 1u) && kda_compare_kind(kind))
            kda_put_text(row, NULL, kda_log_kind_name(kind));
    kda_put_end(row);
    kda_put_uint(row, "other", seen->other);
    kda_report_emit(report);
}

static void put_event(struct kda_row *row, const struct kda_compare_event *event)
{
    kda_put_text(row, "seen_by", side(event->seen_by));
    kda_put_text(row, "missing_in", side(1 - event->seen_by));
    kda_put_text(row, "kind", kda_log_kind_name(event->kind));
    kda_put_uint(row, "pid", event->pid);
    if (event->image[0])
        kda_put_text(row, "image", event->image);
}

void kda_report_difference(struct kda_report *report, const struct kda_compare_group *group)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_DIFFERENCE);
    put_event(row, group->events[0]);
    kda_put_uint(row, "count", group->count);
    kda_put_time(row, "first_time", group->first_time);
    kda_put_time(row, "last_time", group->last_time);
    if (group->declared)
        kda_put_uint(row, "declared", group->declared);
    if (group->events[0]->what[0])
        kda_put_text(row, "example", group->events[0]->what);
    kda_report_emit(report);
}

void kda_report_unmatched(struct kda_report *report, const struct kda_compare_event *event)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_UNMATCHED);
    put_event(row, event);
    if (event->has_id)
        kda_put_uint(row, "id", event->id);
    kda_put_time(row, "time", event->time);
    if (event->what[0])
        kda_put_text(row, "what", event->what);
    kda_report_emit(report);
}
