/*
 * ntfake.h - a PDB with the layout of a real kernel, made by a compiler and a linker.
 *
 * From a layout (any row of the profile table) it writes C whose structures have every field at
 * the wanted offset and whose globals stand at the wanted RVAs, and runs clang and lld-link over
 * it. The result is what a symbol server would serve for that kernel, as far as this project reads.
 */
#ifndef KDA_TESTS_NTFAKE_H
#define KDA_TESTS_NTFAKE_H

#include <stdbool.h>
#include <stdio.h>

#include "kda/symbols.h"

/* Are clang and lld-link installed? */
bool ntfake_available(void);

/* Writes the C source. Fields of unknown size are left out. */
void ntfake_source(FILE *out, const struct kda_layout *layout);

/* Makes <folder>/ntkrnlmp.pdb (and source, object and image beside it) and gives it the identity of
 * `id`. The folder is made if missing; a file of that name is replaced. False with a line on
 * stderr when a step fails. */
bool ntfake_build(const struct kda_layout *layout, const struct kda_kernel_id *id,
                  const char *folder);

#endif
