/*
 * keep.h - verified PDBs in symbol caches. Nothing gets a final name before its identity was
 * checked, so a good file is never replaced by a bad one.
 */
#ifndef KDA_SYMBOLS_KEEP_H
#define KDA_SYMBOLS_KEEP_H

#include "file.h"
#include "store.h"

/* KDA_BAD_DATA unless the file is a whole PDB of `id`. */
KDA_MUST_CHECK enum kda_status kda_keep_verify(const char *path, const struct kda_kernel_id *id,
                                               struct kda_error *err);

/* Good copy in the cache, in any place and spelling; out has KDA_STORE_PATH_MAX bytes. Damaged and
 * foreign files count as absent: KDA_ABSENT. KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_keep_find(const struct kda_kernel_id *id, const char *dir,
                                             char *out, struct kda_error *err);

/* Creates the folder for the file in a cache and gives its place. */
KDA_MUST_CHECK enum kda_status kda_keep_prepare(const struct kda_kernel_id *id, const char *dir,
                                                char *out, struct kda_error *err);
/* Removes the folders again if they stayed empty. */
void kda_keep_tidy(const char *target);

/* `from` (a PDB, or with `cab` a cabinet that holds one) -> verified file at `target`. */
KDA_MUST_CHECK enum kda_status kda_keep_install(const struct kda_kernel_id *id,
                                                struct kda_file *from, bool cab, uint64_t max,
                                                const char *target, struct kda_error *err);

#endif
