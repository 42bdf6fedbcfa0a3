#include "audited.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void audited_start(struct audited *run, const char *drop, const char *add,
                   const struct kda_audit_options *options)
{
    audited_carve(run, drop, add, options, false);
}

void audited_carve(struct audited *run, const char *drop, const char *add,
                   const struct kda_audit_options *options, bool carve)
{
    struct kda_error err;
    char *text = forged_text("audit", drop, add);
    forged_carve(&run->forged, text, true, carve);
    free(text);
    if (kda_audit_run(run->forged.kernel, run->forged.etw, options, &run->audit, &err) != KDA_OK)
        fail_msg("%s", err.text);
}

void audited_stop(struct audited *run)
{
    kda_audit_free(run->audit);
    forged_close(&run->forged);
}

const struct kda_check_result *audited_result(const struct audited *run, const char *check)
{
    size_t count;
    const struct kda_check_result *results = kda_audit_results(run->audit, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(results[i].check->id, check) == 0)
            return &results[i];
    fail_msg("no check %s", check);
    return NULL;
}

void audited_print(const struct audited *run)
{
    size_t count;
    const struct kda_audit_finding *const *findings = kda_audit_findings(run->audit, &count);
    for (size_t i = 0; i < count; i++)
        print_message("  found %s %s %s '%s': %s\n", kda_severity_name(findings[i]->severity),
                      findings[i]->check->id, findings[i]->object,
                      findings[i]->name ? findings[i]->name : "", findings[i]->text);
    const struct kda_unchecked *open = kda_audit_unchecked(run->audit, &count);
    for (size_t i = 0; i < count; i++)
        print_message("  open %s %s '%s': %s\n", open[i].check->id,
                      open[i].object ? open[i].object : "", open[i].name ? open[i].name : "",
                      open[i].reason);
}
