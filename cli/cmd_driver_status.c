/*
 * cmd_driver_status.c - kda driver status: the service, the driver behind it, its account.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "control.h"

struct facts {
    bool installed, answers;
    uint32_t error; /* of the device, where the service runs and it does not answer */
    struct host_service service;
    struct control_version version;
    struct control_status status;
    bool tells; /* an older driver does not tell its troubles */
    bool all;   /* -v */
    struct control_troubles troubles;
};

static const char *state_name(enum host_state state)
{
    static const char *const names[] = {"stopped", "starting", "running", "stopping"};
    return names[state];
}

static const char *start_name(unsigned start)
{
    static const char *const names[] = {"boot", "system", "automatic", "demand", "disabled"};
    return start < sizeof(names) / sizeof(names[0]) ? names[start] : "unknown";
}

static uint32_t ask(const struct host_ops *host, struct facts *facts)
{
    uint32_t error = host->device_open(host->context, false);
    if (error != HOST_OK)
        return error;
    error = control_get_version(host, &facts->version);
    if (error == HOST_OK)
        error = control_get_status(host, &facts->status);
    if (error == HOST_OK) {
        error = control_get_troubles(host, &facts->troubles);
        facts->tells = error == HOST_OK;
        if (error == CONTROL_UNKNOWN_REQUEST)
            error = HOST_OK;
    }
    host->device_close(host->context);
    return error;
}

/* ---- text ---- */

static void put_counts(FILE *to, const struct control_status *status)
{
    (void)fprintf(to, "\n%-24s %-5s %12s %12s %12s %12s\n", "kind", "state", "offered", "written",
                  "lost", "filtered");
    for (unsigned kind = 1; kind < kda_log_kind_count() && kind < CONTROL_KINDS; kind++) {
        const struct control_counts *c = &status->kind[kind];
        if (!(control_kinds() >> kind & 1) && c->offered == 0)
            continue;
        (void)fprintf(to, "%-24s %-5s %12llu %12llu %12llu %12llu\n", kda_log_kind_name(kind),
                      !(control_kinds() >> kind & 1) ? "-"
                      : status->kinds >> kind & 1    ? "on"
                                                     : "off",
                      (unsigned long long)c->offered, (unsigned long long)c->written,
                      (unsigned long long)c->lost, (unsigned long long)c->filtered);
    }
}

static void put_text(FILE *to, const void *what)
{
    const struct facts *facts = what;
    char shown[1024];
    if (!facts->installed) {
        (void)fputs("Service    not installed\n", to);
        return;
    }
    (void)fprintf(to, "Service    %s, start: %s\n", state_name(facts->service.state),
                  start_name(facts->service.start));
    (void)fprintf(
        to, "File       %s\n",
        kda_printable(facts->service.image ? facts->service.image : "", shown, sizeof(shown)));
    if (!facts->answers)
        return;
    const struct control_status *s = &facts->status;
    (void)fprintf(to, "Driver     %u.%u.%u, schema %u (this is kda %s)\n", facts->version.major,
                  facts->version.minor, facts->version.patch, facts->version.schema, KDA_VERSION);
    (void)fprintf(to, "Log        %s, file %u, %llu bytes\n", s->log, s->file_number,
                  (unsigned long long)s->file_bytes);
    if (s->writing)
        (void)fputs("Writing    yes\n", to);
    else
        (void)fprintf(to, "Writing    no: the last write ended with 0x%08x\n", s->write_status);
    (void)fprintf(to, "Queue      %llu waiting, next id %llu\n", (unsigned long long)s->queued,
                  (unsigned long long)s->next_id);
    (void)fprintf(to, "Readers    %u\n", s->readers);
    if (facts->tells)
        driver_put_troubles(to, &facts->troubles, facts->all);
    put_counts(to, s);
}

/* ---- json ---- */

void driver_put_string(FILE *to, const char *text)
{
    (void)fputc('"', to);
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            (void)fprintf(to, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            (void)fprintf(to, "\\u%04x", *p);
        else
            (void)fputc(*p, to);
    }
    (void)fputc('"', to);
}

static void put_json_counts(FILE *to, const struct control_status *status)
{
    const char *comma = "";
    (void)fputs(",\"kinds\":{", to);
    for (unsigned kind = 1; kind < kda_log_kind_count() && kind < CONTROL_KINDS; kind++) {
        const struct control_counts *c = &status->kind[kind];
        const bool optional = control_kinds() >> kind & 1;
        if (!optional && c->offered == 0)
            continue;
        (void)fprintf(to,
                      "%s\"%s\":{\"on\":%s,\"offered\":%llu,\"written\":%llu,\"lost\":%llu,"
                      "\"filtered\":%llu}",
                      comma, kda_log_kind_name(kind),
                      !optional || status->kinds >> kind & 1 ? "true" : "false",
                      (unsigned long long)c->offered, (unsigned long long)c->written,
                      (unsigned long long)c->lost, (unsigned long long)c->filtered);
        comma = ",";
    }
    (void)fputc('}', to);
}

static void put_json(FILE *to, const void *what)
{
    const struct facts *facts = what;
    (void)fprintf(to, "{\"row\":\"driver\",\"installed\":%s", facts->installed ? "true" : "false");
    if (facts->installed) {
        (void)fprintf(to, ",\"state\":\"%s\",\"start\":\"%s\",\"file\":",
                      state_name(facts->service.state), start_name(facts->service.start));
        driver_put_string(to, facts->service.image ? facts->service.image : "");
    }
    if (facts->answers) {
        const struct control_status *s = &facts->status;
        (void)fprintf(to,
                      ",\"version\":\"%u.%u.%u\",\"schema\":%u,\"log\":\"%s\",\"file_number\":%u,"
                      "\"file_bytes\":%llu,\"writing\":%s,\"write_status\":\"0x%08x\","
                      "\"queued\":%llu,\"next_id\":%llu,\"readers\":%u",
                      facts->version.major, facts->version.minor, facts->version.patch,
                      facts->version.schema, s->log, s->file_number,
                      (unsigned long long)s->file_bytes, s->writing ? "true" : "false",
                      s->write_status, (unsigned long long)s->queued,
                      (unsigned long long)s->next_id, s->readers);
        put_json_counts(to, s);
        if (facts->tells)
            driver_put_json_troubles(to, &facts->troubles);
    }
    (void)fputs("}\n", to);
}

/* Ends 0 only where the driver runs, answers, and its lines reach the disk. */
static int verdict(const struct cli *cli, const struct facts *facts)
{
    uint64_t lost = 0;
    if (!facts->installed || facts->service.state == HOST_STOPPED)
        return CLI_INPUT;
    if (!facts->answers) {
        advice_say(cli->host, ADVICE_DEVICE, facts->error, "ask the driver");
        return CLI_INPUT;
    }
    for (size_t i = 0; i < CONTROL_KINDS; i++)
        lost += facts->status.kind[i].lost;
    if (lost > 0)
        cli_note(cli, "%llu event%s lost since the log began", (unsigned long long)lost,
                 lost == 1 ? " was" : "s were");
    if (!facts->status.writing)
        cli_error("the driver records, and its lines do not reach the disk");
    bool whole = !facts->tells || driver_sensors_whole(cli, &facts->troubles);
    return lost > 0 || !whole || !facts->status.writing ? CLI_INCOMPLETE : CLI_DONE;
}

static int show(struct cli *cli, const struct facts *facts)
{
    const char *format = cli->options.format;
    const bool text = !format || strcmp(format, "text") == 0;
    int code = driver_print(cli, text ? put_text : put_json, facts);
    return code == CLI_DONE ? verdict(cli, facts) : code;
}

int driver_run_status(struct cli *cli)
{
    struct facts *facts = calloc(1, sizeof(*facts));
    if (!facts) {
        cli_error("out of memory");
        return CLI_INTERNAL;
    }
    int code;
    facts->all = cli->options.verbose;
    uint32_t error = driver_query(cli, &facts->service);
    if (error != HOST_OK && error != HOST_NOT_INSTALLED) {
        advice_say(cli->host, ADVICE_SERVICE, error, "ask for the service");
        code = CLI_INPUT;
    } else {
        facts->installed = error == HOST_OK;
        if (facts->installed && facts->service.state != HOST_STOPPED) {
            facts->error = ask(cli->host, facts);
            facts->answers = facts->error == HOST_OK;
        }
        code = show(cli, facts);
    }
    free(facts->service.image);
    free(facts);
    return code;
}
