/* isf.h - reading a Volatility symbol table (ISF). Internal to lib/symbols. */
#ifndef KDA_SYMBOLS_ISF_H
#define KDA_SYMBOLS_ISF_H

#include "file.h"
#include "kda/symbols.h"

/* As kda_pdb_layout, from .json or .json.xz (told apart by their first bytes). KDA_UNSUPPORTED
 * when built without the libraries. */
KDA_MUST_CHECK enum kda_status kda_isf_layout(struct kda_file *file, const struct kda_kernel_id *id,
                                              struct kda_layout *ret, struct kda_error *err);

/* The PDB that a table says it was made from; the name is "ntkrnlmp.pdb" where it says none. */
KDA_MUST_CHECK enum kda_status kda_isf_identity(struct kda_file *file, struct kda_kernel_id *ret,
                                                struct kda_error *err);

/* Does the path end as the files of this source do? */
bool kda_isf_named(const char *path);

#endif
