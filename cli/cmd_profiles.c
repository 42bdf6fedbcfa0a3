/*
 * cmd_profiles.c - profiles of one's own: kda symbols add, list and export.
 */
#include "cli.h"

#include <string.h>

/* ---- list ---- */

static bool report_profile(void *context, const struct kda_own_profile *profile)
{
    struct cli *cli = context;
    kda_report_own_profile(cli->report, profile);
    return !kda_report_failed(cli->report);
}

int cli_run_symbols_list(struct cli *cli)
{
    struct kda_error err;
    int code = cli_open_report(cli);
    if (code != CLI_DONE)
        return code;
    kda_report_builtin_profiles(cli->report);
    if (kda_own_profiles(report_profile, cli, &err) != KDA_OK) {
        cli_error_of(&err);
        code = CLI_INTERNAL;
    }
    return cli_finish(cli, code);
}

/* ---- add ---- */

struct added {
    struct cli *cli;
    const char *path;
};

static bool report_added(void *context, const struct kda_own_profile *profile)
{
    struct added *added = context;
    if (strcmp(profile->path, added->path) != 0)
        return true;
    kda_report_own_profile(added->cli->report, profile);
    return false;
}

static int code_of_add(enum kda_status status)
{
    switch (status) {
    case KDA_OK:
        return CLI_DONE;
    case KDA_USAGE:
        return CLI_USAGE;
    case KDA_NO_MEMORY:
        return CLI_INTERNAL;
    default:
        return CLI_SYMBOLS;
    }
}

/* The image, if one is given, says whose file it must be and adds its PE stamp and size. */
static int open_second_image(struct cli *cli, struct kda_error *err)
{
    cli->options.positional[0] = cli->options.positional[1];
    int code = cli_open_image(cli); /* prints its own reason */
    if (code != CLI_DONE)
        return code;
    if (cli_is_triage(cli)) {
        cli_error("a triage dump does not hold the kernel's PDB identity");
        return CLI_SYMBOLS;
    }
    code = cli_open_kernel(cli, err);
    if (code != CLI_DONE)
        cli_error_of(err);
    return code;
}

int cli_run_symbols_add(struct cli *cli)
{
    struct kda_error err;
    const char *file = cli->options.positional[0];
    const struct kda_kernel_id *id = NULL;
    char *path = NULL;
    if (cli->options.positional[1]) {
        int opened = open_second_image(cli, &err);
        if (opened != CLI_DONE)
            return opened;
        id = &kda_kernel_info(cli->kernel)->id;
    }
    enum kda_status status = kda_symbols_add(file, id, &path, &err);
    if (status != KDA_OK) {
        cli_error_of(&err);
        return code_of_add(status);
    }
    int code = cli_open_report(cli);
    if (code == CLI_DONE) {
        struct added added = {cli, path};
        status = kda_own_profiles(report_added, &added, &err);
        if (status != KDA_OK)
            cli_error_of(&err);
        code = cli_finish(cli, status == KDA_OK ? CLI_DONE : CLI_INTERNAL);
    }
    kda_symbols_free_path(path);
    return code;
}

/* ---- export ---- */

struct export_rows {
    struct cli *cli;
    const struct kda_kernel_id *only; /* NULL = all */
    size_t count;
    int code;
};

static void put_line(struct export_rows *rows, const struct kda_kernel_id *id, const char *version,
                     const char *source, const struct kda_layout *layout)
{
    struct kda_error err;
    char *text = NULL;
    if (rows->code != CLI_DONE)
        return;
    if (kda_symbols_row(id, version, source, layout, &text, &err) != KDA_OK) {
        cli_error_of(&err);
        rows->code = CLI_INTERNAL;
    } else if (!cli_output_write(&rows->cli->output, text, strlen(text))) {
        rows->code = CLI_INTERNAL;
    }
    kda_symbols_free_path(text);
}

static bool same_pdb(const struct kda_kernel_id *a, const struct kda_kernel_id *b)
{
    return a->has_pdb && b->has_pdb && a->pdb_age == b->pdb_age &&
           memcmp(a->pdb_guid, b->pdb_guid, 16) == 0;
}

/* The heading comes with the first row: nothing is written when there is none. */
static void put_row(struct export_rows *rows, const struct kda_kernel_id *id, const char *version,
                    const char *source, const struct kda_layout *layout)
{
    if (rows->count++ == 0)
        put_line(rows, NULL, NULL, NULL, NULL);
    put_line(rows, id, version, source, layout);
}

static bool export_own(void *context, const struct kda_own_profile *profile)
{
    struct export_rows *rows = context;
    if (profile->layout && (!rows->only || same_pdb(rows->only, &profile->id)))
        put_row(rows, &profile->id, profile->version, profile->source, profile->layout);
    return rows->code == CLI_DONE;
}

static void export_builtin(struct export_rows *rows)
{
    for (size_t i = 0; i < kda_profile_count(); i++) {
        struct kda_profile_info info;
        struct kda_layout layout;
        kda_profile_get(i, &info);
        if (!same_pdb(rows->only, &info.id))
            continue;
        kda_profile_layout(i, &layout);
        put_row(rows, &info.id, info.version, "profile", &layout);
    }
}

/* "10.0.26100.x", as the table names a build whose revision nobody stated. */
static void export_kernel(struct export_rows *rows)
{
    char version[24];
    const struct kda_kernel_info *kernel = kda_kernel_info(rows->cli->kernel);
    const struct kda_symbols_info *info = kda_symbols_info(kda_kernel_symbols(rows->cli->kernel));
    const char *family = kernel->build >= 10240  ? "10.0"
                         : kernel->build >= 9600 ? "6.3"
                         : kernel->build >= 9200 ? "6.2"
                                                 : "6.1";
    (void)snprintf(version, sizeof(version), "%s.%u.x", family, (unsigned)kernel->build);
    bool known = info->version || kernel->build == 0;
    put_row(rows, &kernel->id, known ? info->version : version, info->source,
            kda_kernel_layout(rows->cli->kernel));
}

static int export_to_output(struct cli *cli, struct export_rows *rows)
{
    struct kda_error err;
    if (!cli_output_open(&cli->output, cli->options.output)) {
        cli_error("cannot write '%s': %s", cli->options.output, strerror(cli->output.error));
        return CLI_INTERNAL;
    }
    if (cli->kernel) {
        export_kernel(rows);
    } else if (kda_own_profiles(export_own, rows, &err) != KDA_OK) {
        cli_error_of(&err);
        rows->code = CLI_INTERNAL;
    }
    if (rows->only && rows->count == 0)
        export_builtin(rows);
    if (rows->count == 0 && rows->code == CLI_DONE) {
        cli_error("%s", rows->only ? "no profile of this kernel"
                                   : "there are no profiles of your own; see 'kda symbols add'");
        rows->code = CLI_SYMBOLS;
    }
    bool keep = rows->code == CLI_DONE;
    if (!cli_output_close(&cli->output, keep) && keep) {
        cli_error("cannot write '%s': %s",
                  cli->options.output ? cli->options.output : "standard output",
                  strerror(cli->output.error));
        return CLI_INTERNAL;
    }
    return rows->code;
}

int cli_run_symbols_export(struct cli *cli)
{
    struct kda_kernel_id id;
    struct export_rows rows = {.cli = cli};
    const char *word = cli->options.positional[0];
    if (cli->options.format) {
        cli_error("--format does not apply to 'kda symbols export', which writes one table");
        return CLI_USAGE;
    }
    if (word && kda_symbols_parse_key(word, &id)) {
        rows.only = &id;
    } else if (word) {
        cli->no_fit = true;
        int code = cli_open_all(cli);
        if (code != CLI_DONE)
            return code;
    }
    return export_to_output(cli, &rows);
}
