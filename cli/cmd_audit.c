/*
 * cmd_audit.c - kernel callbacks and the audit.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

int cli_run_callbacks(struct cli *cli)
{
    struct kda_callbacks *callbacks;
    struct kda_error err;
    int code = cli_open_all(cli);
    if (code != CLI_DONE)
        return code;
    if (kda_callbacks_read(cli->kernel, &callbacks, &err) != KDA_OK) {
        cli_error_of(&err);
        return CLI_INTERNAL;
    }
    code = cli_open_report(cli);
    for (size_t i = 0; code == CLI_DONE && i < callbacks->count; i++)
        kda_report_callback(cli->report, &callbacks->rows[i]);
    for (unsigned kind = 0; code == CLI_DONE && kind < KDA_CALLBACK_KINDS; kind++)
        if (callbacks->sources[kind].status == KDA_NO_SYMBOL)
            cli_note(cli, "%s callbacks: where they are is not known for this build",
                     kda_callback_kind_name(kind));
    if (code == CLI_DONE)
        code = cli_finish(cli, CLI_DONE);
    kda_callbacks_free(callbacks);
    return code;
}

/* ---- audit ---- */

/* A text view keeps what could not be checked for -v: it can be one line per object. */
static bool lists_unchecked(const struct cli *cli)
{
    return !cli_is_text(cli) || cli->options.verbose;
}

static size_t report_audit(struct cli *cli, const struct kda_audit *audit, enum kda_severity shown,
                           enum kda_severity counted)
{
    size_t count, alarming = 0;
    const struct kda_audit_finding *const *findings = kda_audit_findings(audit, &count);
    for (size_t i = 0; i < count; i++) {
        alarming += findings[i]->severity >= counted;
        if (findings[i]->severity >= shown)
            kda_report_audit_finding(cli->report, findings[i]);
    }
    const struct kda_unchecked *unchecked = kda_audit_unchecked(audit, &count);
    for (size_t i = 0; lists_unchecked(cli) && i < count; i++)
        kda_report_unchecked(cli->report, &unchecked[i]);
    const struct kda_check_result *results = kda_audit_results(audit, &count);
    for (size_t i = 0; i < count; i++)
        kda_report_check_result(cli->report, &results[i]);
    return alarming;
}

static void sum_up(const struct cli *cli, const struct kda_audit *audit)
{
    size_t checks, found = 0, open = 0, passed = 0;
    const struct kda_check_result *results = kda_audit_results(audit, &checks);
    for (size_t i = 0; i < checks; i++) {
        found += results[i].outcome == KDA_CHECK_FOUND;
        open += results[i].outcome == KDA_CHECK_NOT_CHECKED;
        passed += results[i].outcome == KDA_CHECK_PASSED;
    }
    cli_note(cli, "%zu checks: %zu with findings, %zu passed, %zu could not be decided%s", checks,
             found, passed, open,
             open && !lists_unchecked(cli) ? " (-v lists what was not checked)" : "");
    if (kda_audit_dropped(audit))
        cli_note(cli, "%zu more findings or open objects were not kept", kda_audit_dropped(audit));
}

static int parse_severity(const char *text, enum kda_severity *ret)
{
    if (!text || kda_severity_parse(text, ret))
        return CLI_DONE;
    cli_error("--min-severity wants info, low, medium, high or critical, not '%s'", text);
    return CLI_USAGE;
}

int cli_run_audit(struct cli *cli)
{
    const struct cli_options *o = &cli->options;
    enum kda_severity shown = KDA_SEVERITY_INFO, counted = KDA_SEVERITY_LOW;
    struct kda_audit_options options = {0};
    struct kda_audit *audit;
    struct kda_error err;
    int code = parse_severity(o->min_severity, &shown);
    if (code != CLI_DONE)
        return code;
    if (o->min_severity)
        counted = shown;
    if (o->lost > UINT32_MAX) {
        cli_error("--lost wants a number up to %u", UINT32_MAX);
        return CLI_USAGE;
    }
    options.lost_threshold = (uint32_t)o->lost;
    code = cli_open_etw(cli);
    if (code != CLI_DONE)
        return code;
    if (kda_audit_run(cli->kernel, cli->etw, &options, &audit, &err) != KDA_OK) {
        cli_error_of(&err);
        return CLI_INTERNAL;
    }
    cli_phase(cli, "audit_us");
    code = cli_open_report(cli);
    if (code == CLI_DONE) {
        size_t alarming = report_audit(cli, audit, shown, counted);
        code = cli_finish(cli, o->exit_code && alarming ? CLI_FINDINGS : CLI_DONE);
        if (code != CLI_INTERNAL)
            sum_up(cli, audit);
    }
    kda_audit_free(audit);
    return code;
}
