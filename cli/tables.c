/*
 * tables.c - csv and tsv of several kinds of rows: a folder with a file for each kind, because a
 * reader of tables wants every line of a file to have the same columns.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "term.h"

struct cli_tables {
    const struct cli *cli;
    const char *kinds[KDA_ROW_KINDS];
    struct cli_output files[KDA_ROW_KINDS]; /* of the kinds above */
    size_t count;
    struct cli_output *now; /* takes what is written */
    bool failed;            /* what went wrong was printed */
};
_Static_assert((unsigned)KDA_ROW_KINDS <= TERM_TEMPORARIES, "each file may be there for a while");

bool cli_is_table(const struct cli_options *options)
{
    return options->format &&
           (strcmp(options->format, "csv") == 0 || strcmp(options->format, "tsv") == 0);
}

/* "FOLDER/session.csv"; malloc, NULL: no memory. */
static char *path_of(const struct cli *cli, const char *kind)
{
    const char *folder = cli->options.output;
    size_t size = strlen(folder) + strlen(kind) + strlen(cli->options.format) + 3;
    char *path = malloc(size);
    bool slash = cli_ends_in_slash(folder);
    if (path)
        (void)snprintf(path, size, "%s%s%s.%s", folder, slash ? "" : "/", kind,
                       cli->options.format);
    return path;
}

int cli_want_folder(const struct cli_options *options, const char *command)
{
    const char *output = options->output;
    if (!cli_is_table(options) ||
        (output && strcmp(output, "-") != 0 && (term_is_folder(output) || !term_exists(output))))
        return CLI_DONE;
    cli_error("%s of kda %s is a table for each kind of row: name a folder with -o FOLDER%s%s%s",
              options->format, command, output ? "; '" : "", output ? output : "",
              output ? "' is none" : "");
    return CLI_USAGE;
}

bool cli_ends_in_slash(const char *path)
{
    size_t size = strlen(path);
    return size > 0 && (path[size - 1] == '/' || path[size - 1] == '\\');
}

int cli_tables_open(struct cli *cli)
{
    const char *folder = cli->options.output;
    cli->tables = calloc(1, sizeof(*cli->tables));
    if (!cli->tables || !term_make_folder(folder)) {
        cli_error("cannot make the folder '%s': %s", folder, term_error_text(term_last_error()));
        free(cli->tables);
        cli->tables = NULL;
        return CLI_INTERNAL;
    }
    cli->tables->cli = cli;
    return CLI_DONE;
}

bool cli_tables_kind(void *context, const char *kind)
{
    struct cli_tables *tables = context;
    for (size_t i = 0; i < tables->count; i++) {
        tables->now = &tables->files[i];
        if (tables->kinds[i] == kind)
            return true;
    }
    char *path = path_of(tables->cli, kind);
    struct cli_output *file = &tables->files[tables->count];
    const char *input = path ? cli_overwrites(tables->cli, path) : NULL;
    bool good = path && !input && cli_output_open(file, path);
    if (input)
        cli_error("the output '%s' is %s", path, input);
    else if (!good)
        cli_error("cannot write '%s': %s", path ? path : kind,
                  term_error_text(path ? file->error : term_last_error()));
    free(path);
    tables->failed |= !good;
    if (good) {
        tables->kinds[tables->count++] = kind;
        tables->now = file;
    }
    return good;
}

bool cli_tables_write(void *context, const char *bytes, size_t size)
{
    struct cli_tables *tables = context;
    return tables->now && cli_output_write(tables->now, bytes, size);
}

/* A table that an earlier run left would be taken for one of this run. */
static void note_leftovers(const struct cli_tables *tables)
{
    char list[512] = "";
    size_t used = 0;
    for (unsigned kind = 0; kind < KDA_ROW_KINDS; kind++) {
        const char *name = kda_row_kind_name((enum kda_row_kind)kind);
        bool written = false;
        for (size_t i = 0; i < tables->count; i++)
            written |= tables->kinds[i] == name;
        char *path = written ? NULL : path_of(tables->cli, name);
        if (path && term_exists(path) && used < sizeof(list))
            used +=
                (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", used ? ", " : "", name);
        free(path);
    }
    if (used > 0)
        cli_note(tables->cli, "'%s' keeps tables of an earlier run: %s",
                 tables->cli->options.output, list);
}

bool cli_tables_close(struct cli *cli, bool keep)
{
    struct cli_tables *tables = cli->tables;
    bool good = !tables->failed;
    for (size_t i = 0; i < tables->count; i++) {
        struct cli_output *file = &tables->files[i];
        if (!cli_output_close(file, keep && good) && good) {
            cli_error("cannot write '%s' to '%s': %s", tables->kinds[i], cli->options.output,
                      term_error_text(file->error));
            good = false;
        }
    }
    if (keep && good)
        note_leftovers(tables);
    free(tables);
    cli->tables = NULL;
    return good;
}
