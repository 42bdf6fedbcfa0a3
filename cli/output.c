/*
 * output.c - where the bytes of a report go. With -o a temporary file beside the target is renamed
 * on success, so that a failed run never leaves half a file and never destroys a good one.
 */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#include "term.h"

static FILE *open_temporary(struct cli_output *output)
{
    size_t size = strlen(output->target) + 40;
    output->temporary = malloc(size);
    if (!output->temporary)
        return NULL;
    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(output->temporary, size, "%s.kda-%u-%u", output->target, term_process_id(),
                       i);
        FILE *file = term_create(output->temporary);
        if (file || !term_error_exists(term_last_error()))
            return file;
    }
    return NULL;
}

bool cli_output_open(struct cli_output *output, const char *path)
{
    memset(output, 0, sizeof(*output));
    if (!path || strcmp(path, "-") == 0) {
        output->file = stdout;
        return true;
    }
    bool replaceable = false;
    char *target = term_resolve(path, &replaceable);
    if (!target) {
        output->error = term_last_error();
        return false;
    }
    if (!replaceable) { /* a device or a pipe: written in place */
        output->file = term_open_to_write(target);
        output->error = output->file ? 0 : term_last_error();
        free(target);
        return output->file != NULL;
    }
    output->target = target;
    output->file = term_may_replace(target) ? open_temporary(output) : NULL;
    if (!output->file) {
        output->error = term_last_error();
        free(output->temporary);
        free(output->target);
        output->temporary = output->target = NULL;
        return false;
    }
    term_take_mode(output->file, target);
    term_remove_on_signal(output->temporary);
    return true;
}

bool cli_output_write(void *context, const char *bytes, size_t size)
{
    struct cli_output *output = context;
    if (output->error)
        return false;
    if (term_write(output->file, bytes, size) != size)
        output->error = term_last_error();
    return output->error == 0;
}

bool cli_output_close(struct cli_output *output, bool keep)
{
    if (!output->file)
        return true;
    /* Only the flush tells that a disk was full. */
    bool flushed = fflush(output->file) == 0 && !ferror(output->file);
    if (output->file != stdout)
        flushed &= fclose(output->file) == 0;
    if (!flushed && !output->error)
        output->error = term_last_error();
    output->file = NULL;
    if (output->target) {
        bool renamed = keep && !output->error && term_rename(output->temporary, output->target);
        if (keep && !output->error && !renamed)
            output->error = term_last_error();
        if (!renamed)
            term_remove(output->temporary);
        term_keep_on_signal(output->temporary);
        free(output->temporary);
        free(output->target);
        output->temporary = output->target = NULL;
    }
    return output->error == 0;
}

int cli_end_printing(void)
{
    return fflush(stdout) != 0 || ferror(stdout) ? CLI_INTERNAL : CLI_DONE;
}
