/*
 * rows_audit.c - rows of kernel callbacks and of the audit.
 */
#include "writer.h"

#include "kda/audit.h"
#include "kda/callbacks.h"

static void put_module(struct kda_row *row, const char *key, const struct kda_module *module)
{
    if (module && module->name[0])
        kda_put_text(row, key, module->name);
}

void kda_report_callback(struct kda_report *report, const struct kda_callback *callback)
{
    static const char *const operations[] = {"create", "duplicate"};
    struct kda_row *row = kda_report_row(report, KDA_ROW_CALLBACK);
    kda_put_text(row, "kind", kda_callback_kind_name(callback->kind));
    if (callback->has_slot)
        kda_put_uint(row, "slot", callback->slot);
    kda_put_hex(row, "slot_va", callback->slot_va);
    kda_put_hex(row, "va", callback->va);
    if (callback->readable) {
        kda_put_hex(row, "function", callback->function);
        put_module(row, "module", callback->module);
        kda_put_text(row, "altitude", callback->altitude);
        kda_put_hex(row, "context", callback->context);
        kda_put_address(row, "post", callback->post);
        put_module(row, "post_module", callback->post_module);
    }
    if (callback->readable && callback->kind >= KDA_CALLBACK_OBJECT_PROCESS) {
        kda_put_bool(row, "enabled", callback->enabled);
        kda_put_array(row, "operations");
        for (unsigned i = 0; i < 2; i++)
            if (callback->operations >> i & 1u)
                kda_put_text(row, NULL, operations[i]);
        kda_put_end(row);
    }
    if (callback->readable && callback->kind == KDA_CALLBACK_REGISTRY)
        kda_put_hex(row, "cookie", callback->cookie);
    kda_report_emit(report);
}

void kda_report_change(struct kda_report *report, const struct kda_change *change)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_CHANGE);
    kda_put_text(row, "change", change->change);
    kda_put_text(row, "object", change->object);
    kda_put_text(row, "name", change->name);
    kda_put_text(row, "field", change->field);
    kda_put_text(row, "before", change->before);
    kda_put_text(row, "after", change->after);
    kda_put_address(row, "va", change->va);
    kda_report_emit(report);
}

void kda_report_check_result(struct kda_report *report, const struct kda_check_result *result)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_CHECK);
    kda_put_text(row, "check", result->check->id);
    kda_put_text(row, "outcome", kda_outcome_name(result->outcome));
    kda_put_uint(row, "examined", result->examined);
    kda_put_uint(row, "findings", result->findings);
    kda_put_uint(row, "not_checked", result->unchecked);
    kda_put_text(row, "severity", kda_severity_name(result->check->severity));
    kda_put_text(row, "attack", result->check->attack);
    kda_put_text(row, "title", result->check->title);
    kda_report_emit(report);
}

/* Findings that say the same, and the one that this one is told with. */
static void put_joined(struct kda_row *row, const struct kda_audit_finding *finding)
{
    if (finding->corroborating_count > 0) {
        kda_put_array(row, "corroborated_by");
        for (size_t i = 0; i < finding->corroborating_count; i++) {
            const struct kda_audit_finding *other = finding->corroborating[i];
            kda_put_object(row, NULL);
            kda_put_text(row, "check", other->check->id);
            kda_put_text(row, "severity", kda_severity_name(other->severity));
            kda_put_text(row, "name", other->name);
            kda_put_address(row, "va", other->va);
            kda_put_text(row, "text", other->text);
            kda_put_end(row);
        }
        kda_put_end(row);
    }
    if (finding->joined_to) {
        kda_put_object(row, "joined_to");
        kda_put_text(row, "check", finding->joined_to->check->id);
        kda_put_text(row, "name", finding->joined_to->name);
        kda_put_address(row, "va", finding->joined_to->va);
        kda_put_end(row);
    }
}

void kda_report_audit_finding(struct kda_report *report, const struct kda_audit_finding *finding)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_AUDIT);
    kda_put_text(row, "severity", kda_severity_name(finding->severity));
    kda_put_text(row, "check", finding->check->id);
    kda_put_text(row, "silo", finding->silo);
    kda_put_text(row, "object", finding->object);
    kda_put_text(row, "name", finding->name);
    kda_put_address(row, "va", finding->va);
    kda_put_text(row, "text", finding->text);
    kda_put_array(row, "evidence");
    for (size_t i = 0; i < finding->evidence_count; i++) {
        const struct kda_evidence *evidence = &finding->evidence[i];
        kda_put_object(row, NULL);
        kda_put_text(row, "name", evidence->name);
        kda_put_address(row, "va", evidence->va);
        kda_put_text(row, "found", evidence->found);
        kda_put_text(row, "expected", evidence->expected);
        kda_put_end(row);
    }
    kda_put_end(row);
    kda_put_text(row, "attack", finding->check->attack);
    kda_put_text(row, "false_positives", finding->check->false_positives);
    put_joined(row, finding);
    kda_report_emit(report);
}

void kda_report_unchecked(struct kda_report *report, const struct kda_unchecked *unchecked)
{
    struct kda_row *row = kda_report_row(report, KDA_ROW_UNCHECKED);
    kda_put_text(row, "check", unchecked->check->id);
    kda_put_text(row, "object", unchecked->object);
    kda_put_text(row, "name", unchecked->name);
    kda_put_address(row, "va", unchecked->va);
    kda_put_text(row, "reason", unchecked->reason);
    kda_report_emit(report);
}
