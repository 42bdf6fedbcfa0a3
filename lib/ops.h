/*
 * ops.h - the library's vtables on one page. A new image format or symbol source is a new file
 * and a row in the table of image.c or symbols.c; nothing else changes.
 */
#ifndef KDA_OPS_H
#define KDA_OPS_H

#include "kda/error.h"
#include "kda/image.h"
#include "kda/report.h"
#include "kda/symbols.h"

struct kda_file;
struct kda_report;
struct kda_row;

/*
 * Image format. CONTRIBUTING.md says how to add one.
 */
struct kda_image_ops {
    /* Looks at image->head and image->file only. KDA_OK: mine. KDA_NOT_MINE: another format.
     * Anything else: mine, but damaged, and the answer that the user gets ("unknown format" must
     * not hide a damaged file). */
    enum kda_status (*probe)(struct kda_image *image, struct kda_error *err);
    /* Reads the header, fills image->info and image->priv. NULL for formats refused by name. */
    enum kda_status (*open)(struct kda_image *image, struct kda_error *err);
    /* Bytes inside one 4 KiB page, or inside one stretch that next_run gave. */
    enum kda_status (*read)(struct kda_image *image, uint64_t pa, void *buf, size_t size,
                            struct kda_error *err);
    /* As kda_image_next_run. */
    bool (*next_run)(struct kda_image *image, uint64_t pa, uint64_t *start, uint64_t *size);
    /* Where the byte at `pa` stands in image->pages, and how many bytes follow it there in one
     * piece. False: not in the image. NULL: pages are not stored as they are. */
    bool (*place)(struct kda_image *image, uint64_t pa, uint64_t *off, uint64_t *left);
    /* Frees image->priv; called after a failed open too. */
    void (*close)(struct kda_image *image);
};

/*
 * Symbol source. CONTRIBUTING.md says how to add one.
 */
struct kda_symbol_source {
    const char *name;
    const char *title;
    /* File name endings this source reads, NULL-terminated; NULL = none (built-in). */
    const char *const *endings;
    /* Looks in its own places (table, stores, folders). KDA_NO_SYMBOL: not there; the text of *err
     * is then no sentence but the list of places where it looked, which symbols.c puts into one. */
    enum kda_status (*find)(const struct kda_kernel_id *id,
                            const struct kda_symbols_options *options, struct kda_symbols *ret,
                            struct kda_error *err);
    /* Loads one given file and checks that it is for `id` (NULL = no check), or looks in one given
     * folder or symbol path (KDA_NO_SYMBOL as above). NULL if built-in. */
    enum kda_status (*load)(const char *path, const struct kda_kernel_id *id,
                            struct kda_symbols *ret, struct kda_error *err);
};

/*
 * Output format. CONTRIBUTING.md says how to add one.
 * Writers see rows (lib/report/row.h), never the model, so a new row kind needs no new writer.
 */
struct kda_report_ops {
    struct kda_report_format format;
    void (*begin)(struct kda_report *report);
    void (*row)(struct kda_report *report, const struct kda_row *row);
    void (*end)(struct kda_report *report);
    void (*flush)(struct kda_report *report); /* nullable: nothing waits but for `end` */
};

#endif
