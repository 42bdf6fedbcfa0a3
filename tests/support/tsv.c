#include "tsv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = NULL;
    if (fseek(f, 0, SEEK_END) == 0) {
        long size = ftell(f);
        rewind(f);
        text = size >= 0 ? malloc((size_t)size + 1) : NULL;
        if (text)
            text[fread(text, 1, (size_t)size, f)] = '\0';
    }
    (void)fclose(f);
    return text;
}

/* Cuts one line into cells; returns the start of the next line. */
static char *split_line(char *line, const char **cells, size_t columns)
{
    char *end = strchr(line, '\n');
    char *next = end ? end + 1 : line + strlen(line);
    if (end)
        *end = '\0';
    for (size_t i = 0; i < columns; i++) {
        char *tab = strchr(line, '\t');
        cells[i] = line;
        if (tab)
            *tab = '\0';
        line = tab ? tab + 1 : line + strlen(line);
    }
    return next;
}

bool tsv_load(const char *path, size_t columns, struct tsv *ret)
{
    char *text = read_text(path);
    if (!text)
        return false;
    size_t rows = 0;
    for (const char *p = text; *p; p++)
        rows += *p == '\n';
    const char **cells = calloc(rows * columns + 1, sizeof(*cells));
    if (!cells) {
        free(text);
        return false;
    }
    char *line = text;
    for (size_t i = 0; i < rows; i++)
        line = split_line(line, cells + i * columns, columns);
    *ret = (struct tsv){text, cells, rows, columns};
    return true;
}

void tsv_free(struct tsv *tsv)
{
    free(tsv->text);
    free(tsv->cells);
}

const char *tsv_cell(const struct tsv *tsv, size_t row, size_t column)
{
    return tsv->cells[row * tsv->columns + column];
}
