/* tsv.h - tab-separated test data: a whole file split in place into rows and cells. */
#ifndef KDA_TESTS_TSV_H
#define KDA_TESTS_TSV_H

#include <stdbool.h>
#include <stddef.h>

struct tsv {
    char *text;
    const char **cells; /* rows * columns, missing cells are "" */
    size_t rows, columns;
};

/* False when the file cannot be opened: the test is skipped. */
bool tsv_load(const char *path, size_t columns, struct tsv *ret);
void tsv_free(struct tsv *tsv);
const char *tsv_cell(const struct tsv *tsv, size_t row, size_t column);

#endif
