/*
 * cmd_driver.c - kda driver: the service of the driver, its state, kinds and rules.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "advice.h"
#include "control.h"
#include "driver.h"
#include "term.h"

/* A driver may write and flush for some seconds before it is out. */
#define WAIT_SECONDS 60.0
#define WAIT_STEP_MS 50u

static int refuse(const struct cli *cli, enum advice_about about, uint32_t error, const char *what)
{
    advice_say(cli->host, about, error, what);
    return CLI_INPUT;
}

static int no_memory(void)
{
    cli_error("out of memory");
    return CLI_INTERNAL;
}

uint32_t driver_query(const struct cli *cli, struct host_service *service)
{
    *service = (struct host_service){.image = NULL};
    return cli->host->service_query(cli->host->context, service);
}

/* Whether the device answers, and as which version. */
static bool running_version(const struct host_ops *host, struct control_version *version)
{
    if (host->device_open(host->context, false) != HOST_OK)
        return false;
    bool good = control_get_version(host, version) == HOST_OK;
    host->device_close(host->context);
    return good;
}

int driver_print(struct cli *cli, void (*put)(FILE *to, const void *what), const void *what)
{
    int code = cli_open_bytes(cli);
    if (code != CLI_DONE)
        return code;
    put(cli->output.file, what);
    return cli_finish_bytes(cli, CLI_DONE);
}

/* ---- install ---- */

static int installed_already(const struct cli *cli, const struct host_service *service)
{
    struct control_version version;
    if (!service->kernel_driver)
        cli_error("a service named %s is there that is no driver: '%s'", control_service,
                  service->image ? service->image : "");
    else if (running_version(cli->host, &version))
        cli_error("driver %u.%u.%u is installed and runs (this is kda %s); for another one: kda "
                  "driver stop, kda driver remove, then install",
                  version.major, version.minor, version.patch, KDA_VERSION);
    else
        cli_error("a driver is installed already ('%s'); for another one: kda driver remove, then "
                  "install",
                  service->image ? service->image : "");
    return CLI_INPUT;
}

/* The file that was named, or the one beside this program. */
static char *source_of(const struct cli *cli)
{
    const char *named = cli->options.positional[1];
    char *folder = NULL;
    if (!named && cli->host->own_folder(cli->host->context, &folder) != HOST_OK)
        return NULL;
    size_t size = strlen(named ? named : folder) + sizeof("\\.sys") + strlen(control_service);
    char *path = malloc(size);
    if (path && named)
        memcpy(path, named, strlen(named) + 1);
    else if (path)
        (void)snprintf(path, size, "%s\\%s.sys", folder, control_service);
    free(folder);
    return path;
}

static int install_file(const struct cli *cli, const char *from, const char *to)
{
    const struct host_ops *host = cli->host;
    const bool in_place = term_same_file(from, to);
    uint32_t error = in_place ? HOST_OK : host->file_copy(host->context, from, to);
    if (error != HOST_OK) {
        char what[600];
        (void)snprintf(what, sizeof(what), "copy '%.250s' to '%.250s'", from, to);
        return refuse(cli, ADVICE_INSTALL, error, what);
    }
    error = host->service_create(host->context, to);
    if (error != HOST_OK) {
        if (!in_place)
            (void)host->file_delete(host->context, to);
        return refuse(cli, ADVICE_INSTALL, error, "install the driver");
    }
    cli_note(cli, "installed as '%s'; 'kda driver start' starts it", to);
    return CLI_DONE;
}

static int run_install(struct cli *cli)
{
    struct host_service service;
    uint32_t error = driver_query(cli, &service);
    if (error == HOST_OK) {
        int code = installed_already(cli, &service);
        free(service.image);
        return code;
    }
    if (error != HOST_NOT_INSTALLED)
        return refuse(cli, ADVICE_INSTALL, error, "ask for the service");
    char *from = source_of(cli), *to = NULL;
    int code = CLI_INTERNAL;
    if (!from || cli->host->driver_path(cli->host->context, &to) != HOST_OK)
        cli_error("the folder of drivers is not known, or memory ran out");
    else
        code = install_file(cli, from, to);
    free(from);
    free(to);
    return code;
}

/* ---- start, stop, remove ---- */

/* Waits while the service is in `during`; *state is what came then. */
static uint32_t wait_for(const struct cli *cli, enum host_state during, enum host_state *state)
{
    double end = term_seconds() + WAIT_SECONDS;
    for (;;) {
        struct host_service service;
        uint32_t error = driver_query(cli, &service);
        free(service.image);
        if (error != HOST_OK)
            return error;
        *state = service.state;
        if (service.state != during || term_seconds() >= end)
            return HOST_OK;
        term_sleep_ms(WAIT_STEP_MS);
    }
}

static int run_start(struct cli *cli)
{
    enum host_state state = HOST_STOPPED;
    uint32_t error = cli->host->service_start(cli->host->context);
    const bool already = error == HOST_RUNNING_ALREADY; /* also while it starts or stops */
    if (error == HOST_OK || already)
        error = wait_for(cli, HOST_STARTING, &state);
    if (error != HOST_OK)
        return refuse(cli, ADVICE_START, error, "start the driver");
    if (state == HOST_RUNNING) {
        if (already)
            cli_note(cli, "the driver runs already");
        return CLI_DONE;
    }
    if (already && state != HOST_STARTING)
        cli_error("the driver is stopping: start it again when 'kda driver status' says stopped");
    else
        cli_error("the driver was started and does not run%s",
                  state == HOST_STARTING ? " yet" : "; the System event log says why");
    return CLI_INPUT;
}

static int stop(const struct cli *cli)
{
    enum host_state state = HOST_STOPPED;
    uint32_t error = cli->host->service_stop(cli->host->context);
    if (error == HOST_NOT_RUNNING)
        return CLI_DONE;
    if (error == HOST_OK)
        error = wait_for(cli, HOST_STOPPING, &state);
    if (error != HOST_OK)
        return refuse(cli, ADVICE_STOP, error, "stop the driver");
    if (state == HOST_STOPPED)
        return CLI_DONE;
    cli_error("the driver does not stop: a program still has its device open (kda watch?); it "
              "stops when that ends");
    return CLI_INPUT;
}

static int run_stop(struct cli *cli)
{
    struct host_service service;
    uint32_t error = driver_query(cli, &service);
    free(service.image);
    if (error == HOST_OK && service.state == HOST_STOPPED) {
        cli_note(cli, "the driver does not run");
        return CLI_DONE;
    }
    return stop(cli);
}

/* `part` in lower case; ASCII case of the text ignored. */
static bool contains(const char *text, const char *part)
{
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && (text[i] >= 'A' && text[i] <= 'Z' ? text[i] + 32 : text[i]) == part[i])
            i++;
        if (!part[i])
            return true;
    }
    return false;
}

/* False: another tool has to remove it, which is said. */
static bool may_remove(const struct host_service *service)
{
    if (!service->kernel_driver) {
        cli_error("the service named %s is no driver: it is left alone", control_service);
        return false;
    }
    if (!service->image || !contains(service->image, "driverstore"))
        return true;
    cli_error("the driver was installed by its .inf, and is removed by: pnputil /delete-driver "
              "NAME.inf /uninstall (pnputil /enum-drivers tells NAME)");
    return false;
}

/* Where kda and the .inf put it; the system spells the folder before it in several ways. */
static bool is_in_place(const char *image)
{
    static const char place[] = "system32\\drivers\\kdamonitor.sys";
    const size_t size = image ? strlen(image) : 0;
    return size >= sizeof(place) - 1 && contains(image + size - (sizeof(place) - 1), place);
}

/* The service is gone; its file may still be mapped. */
static int delete_file(const struct cli *cli)
{
    const struct host_ops *host = cli->host;
    char *path = NULL, text[300];
    uint32_t error = host->driver_path(host->context, &path);
    if (error == HOST_OK)
        error = host->file_delete(host->context, path);
    if (error != HOST_OK && error != HOST_NOT_FOUND)
        cli_error("the service is removed and its file '%s' is left: %s; delete it after the next "
                  "restart",
                  path ? path : "", host->error_text(error, text, sizeof(text)));
    free(path);
    return error == HOST_OK || error == HOST_NOT_FOUND ? CLI_DONE : CLI_INPUT;
}

static int remove_stopped(const struct cli *cli, const struct host_service *service)
{
    const struct host_ops *host = cli->host;
    uint32_t error = host->service_delete(host->context);
    int code = CLI_DONE;
    if (error != HOST_OK)
        return refuse(cli, ADVICE_REMOVE, error, "remove the driver");
    if (is_in_place(service->image))
        code = delete_file(cli);
    else
        cli_note(cli, "its file is left: it is '%s', where kda installs none",
                 service->image ? service->image : "");
    if (code == CLI_DONE)
        cli_note(cli, "removed; its logs are left where they are");
    return code;
}

static int run_remove(struct cli *cli)
{
    struct host_service service;
    uint32_t error = driver_query(cli, &service);
    int code = CLI_INPUT;
    if (error != HOST_OK)
        code = refuse(cli, ADVICE_REMOVE, error, "remove the driver");
    else if (may_remove(&service))
        code = service.state == HOST_STOPPED ? CLI_DONE : stop(cli);
    if (code == CLI_DONE)
        code = remove_stopped(cli, &service);
    free(service.image);
    return code;
}

/* ---- kinds ---- */

/* "process.create": one text for each kind, as the registry has them. */
static bool kinds_to_texts(uint64_t kinds, struct host_texts *texts)
{
    texts->count = 0;
    texts->items = calloc(CONTROL_KINDS, sizeof(*texts->items));
    for (unsigned kind = 1; texts->items && kind < kda_log_kind_count(); kind++) {
        const char *name = kda_log_kind_name(kind);
        if (!(kinds >> kind & 1))
            continue;
        char *copy = malloc(strlen(name) + 1);
        if (!copy)
            return false;
        memcpy(copy, name, strlen(name) + 1);
        texts->items[texts->count++] = copy;
    }
    return texts->items != NULL;
}

static uint64_t kinds_of_texts(const struct host_texts *texts)
{
    uint64_t kinds = 0;
    for (size_t i = 0; i < texts->count; i++)
        kinds |= control_parse_kinds(texts->items[i], strlen(texts->items[i]));
    return kinds;
}

static uint32_t kinds_set(const struct cli *cli, uint64_t *kinds)
{
    struct host_texts texts = {NULL, 0};
    struct host_service service;
    uint32_t error = driver_query(cli, &service);
    free(service.image);
    if (error != HOST_OK)
        return error;
    error = cli->host->texts_read(cli->host->context, "Kinds", &texts);
    *kinds = error == HOST_OK ? kinds_of_texts(&texts) : control_default_kinds();
    /* Where none of the names is one, the driver takes what it takes where none are set. */
    if (error == HOST_OK && texts.count > 0 && *kinds == 0)
        *kinds = control_default_kinds();
    host_texts_free(&texts);
    return error == HOST_NOT_FOUND ? HOST_OK : error;
}

/* "registry" is the same as "registry.*". */
static uint64_t named_kinds(const char *text)
{
    char group[64];
    size_t size = strlen(text);
    uint64_t kinds = control_parse_kinds(text, size);
    if (kinds == 0 && (size_t)snprintf(group, sizeof(group), "%s.*", text) < sizeof(group))
        kinds = control_parse_kinds(group, strlen(group));
    return kinds;
}

static int apply_kinds(const struct cli *cli, uint64_t kinds, bool on)
{
    const struct host_ops *host = cli->host;
    uint64_t now = 0;
    uint32_t error = host->device_open(host->context, true);
    if (error == HOST_NOT_FOUND) {
        cli_note(cli, "the driver does not run: this is in force when it starts");
        return CLI_DONE;
    }
    if (error == HOST_OK) {
        error = control_set_kinds(host, on ? kinds : 0, on ? 0 : kinds, &now);
        host->device_close(host->context);
    }
    if (error != HOST_OK)
        return refuse(cli, ADVICE_DEVICE, error, "tell the driver");
    if ((now & kinds) != (on ? kinds : 0)) {
        cli_error("the driver did not take it");
        return CLI_INPUT;
    }
    return CLI_DONE;
}

static int unknown_kind(const char *name)
{
    struct cli_suggestion suggestion = {0};
    for (unsigned kind = 1; kind < kda_log_kind_count(); kind++)
        if (control_kinds() >> kind & 1)
            cli_suggest(&suggestion, name, kda_log_kind_name(kind));
    cli_error("the driver has no kind '%s'%s%s%s", name, suggestion.best ? "; did you mean '" : "",
              suggestion.best ? suggestion.best : "", suggestion.best ? "'?" : "");
    return CLI_USAGE;
}

static int run_set(struct cli *cli)
{
    const char *name = cli->options.positional[1], *value = cli->options.positional[2];
    if (!value) {
        cli_error("usage: kda driver set KIND on|off");
        return CLI_USAGE;
    }
    const bool on = strcmp(value, "on") == 0;
    const uint64_t kinds = named_kinds(name);
    if (!on && strcmp(value, "off") != 0) {
        cli_error("a kind is set on or off, not '%s'", value);
        return CLI_USAGE;
    }
    if (kinds == 0)
        return unknown_kind(name);
    uint64_t set = 0;
    uint32_t error = kinds_set(cli, &set);
    struct host_texts texts = {NULL, 0};
    set = on ? set | kinds : set & ~kinds;
    bool made = kinds_to_texts(set, &texts);
    if (error == HOST_OK && made)
        error = cli->host->texts_write(cli->host->context, "Kinds", &texts);
    host_texts_free(&texts);
    if (!made)
        return no_memory();
    if (error != HOST_OK)
        return refuse(cli, ADVICE_SETTINGS, error, "change the settings of the driver");
    return apply_kinds(cli, kinds, on);
}

/* ---- which of them ---- */

static const struct verb {
    const char *name;
    size_t least, most; /* words, with the verb */
    int (*run)(struct cli *cli);
} verbs[] = {
    {"install", 1, 2, run_install},       {"start", 1, 1, run_start},   {"stop", 1, 1, run_stop},
    {"status", 1, 1, driver_run_status},  {"remove", 1, 1, run_remove}, {"set", 3, 3, run_set},
    {"filter", 2, 64, driver_run_filter},
};

int cli_run_driver(struct cli *cli)
{
    const char *word = cli->options.positional[0];
    struct cli_suggestion suggestion = {0};
    if (!cli->host)
        return cli_needs_windows("kda driver", "installs and controls the sensor");
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        const struct verb *verb = &verbs[i];
        cli_suggest(&suggestion, word, verb->name);
        if (strcmp(verb->name, word) != 0)
            continue;
        size_t count = cli->options.positional_count;
        const char *format = cli->options.format;
        if (format && verb->run != driver_run_status && strcmp(format, "text") != 0) {
            cli_error("kda driver %s is written as text alone, not as %s", word, format);
            return CLI_USAGE;
        }
        if (count >= verb->least && count <= verb->most)
            return verb->run(cli);
        cli_error("too %s arguments for 'kda driver %s'; see 'kda driver --help'",
                  count < verb->least ? "few" : "many", word);
        return CLI_USAGE;
    }
    if (suggestion.best)
        cli_error("unknown 'kda driver %s'; did you mean '%s'?", word, suggestion.best);
    else
        cli_error("unknown 'kda driver %s'; see 'kda driver --help'", word);
    return CLI_USAGE;
}
