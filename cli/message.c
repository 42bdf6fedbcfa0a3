#include "cli.h"

#include <stdarg.h>
#include <string.h>

#define MESSAGE_MAX 2048

static void print(const char *fmt, va_list args)
{
    char text[MESSAGE_MAX], shown[MESSAGE_MAX * 2];
    (void)vsnprintf(text, sizeof(text), fmt, args);
    for (char *line = text; line;) {
        char *end = strchr(line, '\n');
        if (end)
            *end = '\0';
        (void)fprintf(stderr, "kda: %s\n", kda_printable(line, shown, sizeof(shown)));
        line = end ? end + 1 : NULL;
    }
    (void)fflush(stderr); /* where stderr has a buffer, so that characters are not torn apart */
}

void cli_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print(fmt, args);
    va_end(args);
}

void cli_note(const struct cli *cli, const char *fmt, ...)
{
    if (cli->options.quiet)
        return;
    va_list args;
    va_start(args, fmt);
    print(fmt, args);
    va_end(args);
}

int cli_needs_windows(const char *command, const char *does)
{
    cli_error("'%s' needs Windows: it %s; use kda.exe there", command, does);
    return CLI_USAGE;
}

void cli_error_of(const struct kda_error *err)
{
    if (err->has_where)
        cli_error("%s (at 0x%llx)", err->text, (unsigned long long)err->where);
    else
        cli_error("%s", err->text);
}
