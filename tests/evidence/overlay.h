/*
 * overlay.h - an image held in memory whose pages can be taken away or changed, run after run.
 *
 * The image is opened by its own format, its pages are copied, and from then on every read is
 * answered from the copy: a run costs no file access, and what a case changed is undone.
 */
#ifndef KDA_EVIDENCE_OVERLAY_H
#define KDA_EVIDENCE_OVERLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "kda/image.h"

struct overlay;

/* Opens `path`. Says on stderr why not, and returns NULL. */
struct overlay *overlay_open(const char *path);
void overlay_close(struct overlay *overlay);
struct kda_image *overlay_image(struct overlay *overlay);

/* Number of page frames, and whether the case at hand has that page. */
uint64_t overlay_frames(const struct overlay *overlay);
bool overlay_has(const struct overlay *overlay, uint64_t pfn);

/* Changes one thing until overlay_undo. The text is a word of a case (main.c says which there are);
 * false: it is none, or names a page that the image does not have. */
bool overlay_change(struct overlay *overlay, const char *word);
void overlay_undo(struct overlay *overlay);

/* Writes all pages, missing ones as zeros, then a byte for each: 1 = present. */
bool overlay_write(const struct overlay *overlay, const char *path);

/* Pages that were read one by one since overlay_forget, and those of longer reads (scans). */
enum { OVERLAY_READ = 1, OVERLAY_SCANNED = 2 };
unsigned overlay_touched(const struct overlay *overlay, uint64_t pfn);
void overlay_forget(struct overlay *overlay);

#endif
