/*
 * rows_audit.c - rows of kernel callbacks, of the audit and of comparisons: what the lines of
 * keys_audit.h need.
 */
#include "writer.h"

static const char *const operations[] = {"create", "duplicate"};

struct witness_row {
    unsigned witness;
    const char *path, *source;
    const struct kda_compare_witness *seen;
};

static const char *module_name(const struct kda_module *module)
{
    return module && module->name[0] ? module->name : NULL;
}

static bool is_object(const struct kda_callback *callback)
{
    return callback->readable && callback->kind >= KDA_CALLBACK_OBJECT_PROCESS;
}

static const char *side(unsigned witness)
{
    return witness ? "B" : "A";
}

static void each_kind(struct kda_row *row, const struct kda_compare_witness *seen)
{
    for (unsigned kind = 1; kind < kda_log_kind_count() && kind < 64; kind++)
        if ((seen->kinds >> kind & 1u) && kda_compare_kind(kind))
            kda_put_text(row, NULL, kda_log_kind_name(kind));
}

static void each_evidence(struct kda_row *row, const struct kda_audit_finding *finding);
static void each_corroborating(struct kda_row *row, const struct kda_audit_finding *finding);

#include "keys_build.h"

#include "keys_audit.h"

#include "keys_table.h"

#include "keys_audit.h"

static void each_evidence(struct kda_row *row, const struct kda_audit_finding *finding)
{
    for (size_t i = 0; i < finding->evidence_count; i++)
        put_evidence(row, &finding->evidence[i]);
}

static void each_corroborating(struct kda_row *row, const struct kda_audit_finding *finding)
{
    for (size_t i = 0; i < finding->corroborating_count; i++)
        put_corroborating(row, finding->corroborating[i]);
}

void kda_report_callback(struct kda_report *report, const struct kda_callback *callback)
{
    emit_callback(report, callback);
}

void kda_report_change(struct kda_report *report, const struct kda_change *change)
{
    emit_change(report, change);
}

void kda_report_check_result(struct kda_report *report, const struct kda_check_result *result)
{
    emit_check(report, result);
}

void kda_report_audit_finding(struct kda_report *report, const struct kda_audit_finding *finding)
{
    emit_audit(report, finding);
}

void kda_report_unchecked(struct kda_report *report, const struct kda_unchecked *unchecked)
{
    emit_unchecked(report, unchecked);
}

void kda_report_witness(struct kda_report *report, unsigned witness, const char *path,
                        const char *source, const struct kda_compare_witness *seen)
{
    const struct witness_row all = {witness, path, source, seen};
    emit_witness(report, &all);
}

void kda_report_difference(struct kda_report *report, const struct kda_compare_group *group)
{
    emit_difference(report, group);
}

void kda_report_unmatched(struct kda_report *report, const struct kda_compare_event *event)
{
    emit_unmatched(report, event);
}
