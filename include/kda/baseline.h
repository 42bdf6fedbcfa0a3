/*
 * kda/baseline.h - what differs between two maps: objects that appeared or vanished, and fields
 * that matter for security and changed.
 *
 * A map comes as the rows that `kda map -f json` or `-f jsonl` writes, so that one made months ago
 * serves as well as one made now. Objects are told apart by names, never by addresses, which change
 * with every start of the machine. Threads: one per handle.
 */
#ifndef KDA_BASELINE_H
#define KDA_BASELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kda/error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KDA_BASELINE_MAX_OBJECTS 1048576u
#define KDA_BASELINE_MAX_BYTES ((size_t)1 << 30) /* of a saved map */

struct kda_baseline;

KDA_MUST_CHECK enum kda_status kda_baseline_create(struct kda_baseline **ret,
                                                   struct kda_error *err);
void kda_baseline_destroy(struct kda_baseline *baseline); /* NULL is allowed */

/* Takes the rows of a map, in pieces of whole lines or all at once; the bytes are copied. Rows that
 * are not compared are passed over. Errors: KDA_BAD_DATA (a line that is no row), KDA_LIMIT,
 * KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_baseline_read(struct kda_baseline *baseline, const char *text,
                                                 size_t size, struct kda_error *err);
/* The same from a file. KDA_NOT_MINE: the file is no text of JSON, so it may be an image. Also
 * KDA_IO. */
KDA_MUST_CHECK enum kda_status kda_baseline_load(struct kda_baseline *baseline, const char *path,
                                                 struct kda_error *err);
/* Objects read so far; 0 = this was no map. */
size_t kda_baseline_count(const struct kda_baseline *baseline);
/* The map's maker read every callback, so that having none says something. Otherwise only those
 * kinds are compared of which both maps have some: a map may be of a build whose arrays are not
 * known, or saved by a version that did not look. */
void kda_baseline_cover_callbacks(struct kda_baseline *baseline);
/* Can callbacks of this kind ("registry") be compared? */
bool kda_baseline_covers(const struct kda_baseline *baseline, const char *callback_kind);

/* Rows of gaps in the map, and those added by its maker: what they hide looks like a difference. */
size_t kda_baseline_gaps(const struct kda_baseline *baseline);
void kda_baseline_add_gaps(struct kda_baseline *baseline, size_t count);

struct kda_change {
    const char *change; /* "appeared", "vanished", "changed" */
    const char *object; /* "session", "consumer", "provider", "slot", "registration", "callback" */
    const char *name;
    const char *field;          /* changed: which; NULL otherwise */
    const char *before, *after; /* NULL = not there */
    uint64_t va;                /* of the object in the later map, else in the earlier; 0 = none */
};
typedef void (*kda_change_fn)(void *context, const struct kda_change *change);

/* Calls `fn` for each difference, by object and name. */
void kda_baseline_compare(struct kda_baseline *before, struct kda_baseline *after, kda_change_fn fn,
                          void *context);

#ifdef __cplusplus
}
#endif

#endif
