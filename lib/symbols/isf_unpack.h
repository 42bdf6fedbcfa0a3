/* isf_unpack.h - the text of a symbol table file, decompressed. Internal to lib/symbols. */
#ifndef KDA_SYMBOLS_ISF_UNPACK_H
#define KDA_SYMBOLS_ISF_UNPACK_H

#include "file.h"

#define KDA_ISF_MAX_TEXT ((size_t)64 * 1024 * 1024) /* real ones have 3 to 7 MiB */

/* Whole text in fresh memory (kda_free). KDA_LIMIT over KDA_ISF_MAX_TEXT, KDA_BAD_DATA when the
 * compressed bytes are damaged or cut. */
KDA_MUST_CHECK enum kda_status kda_isf_text(struct kda_file *file, char **ret, size_t *size,
                                            struct kda_error *err);

#endif
