/*
 * own.h - profiles of the user's own: what a PDB or a symbol table said about one kernel, in a few
 * hundred bytes. Internal to lib/symbols.
 *
 * The file PDBNAME-GUIDAGE.kdaprof, little endian (a number: base 128, lowest seven bits first,
 * high bit = more follows):
 *
 *   0   "KDAPROF", NUL
 *   8   u32 version of the format: 1
 *   12  u32 bytes of the whole file
 *   16  u32 CRC-32 of everything from 20 on
 *   20  u32 CRC-32 over the names of all globals, then all fields (_STRUCT.Field), each with its
 *       NUL: a kda with another list refuses the file
 *   24  PDB GUID in memory order; u32 age
 *   44  u8 flags: bit 0 = u32 PE time stamp and u32 PE size follow
 *       PDB name, source ("pdb", "isf"): u8 length, bytes
 *       a number for each global (RVA + 1), then for each structure (size + 1); 0 = absent
 *       a byte for each field: bits 0..2 = 0 absent, 1..5 size 1, 2, 4, 8, 16, 6 another size
 *       (a number follows), 7 bits (bit and count of bits follow as bytes); bits 3..7 = distance
 *
 * The distance goes from the end of the field before (0 at the start of a structure; for bits, from
 * their own offset), stored as 2d or, backwards, 2d - 1; 31 = a number follows that is added.
 * Nothing may be left over; every field lies inside its structure, every RVA inside the image.
 */
#ifndef KDA_SYMBOLS_OWN_H
#define KDA_SYMBOLS_OWN_H

#include "file.h"
#include "handle.h"

#define KDA_OWN_ENDING ".kdaprof"
#define KDA_OWN_MAX_BYTES 16384u /* of a file; real ones have below 1,000 */
#define KDA_OWN_MAX_FILES 65536u /* looked at in the folder */
#define KDA_OWN_SOURCE_MAX 8

struct kda_own {
    struct kda_kernel_id id; /* the PDB half is always there */
    char source[KDA_OWN_SOURCE_MAX];
    struct kda_layout layout;
};

/* KDA_BAD_DATA for a layout that contradicts itself or a name that is no file name. */
KDA_MUST_CHECK enum kda_status kda_own_encode(const struct kda_own *own, uint8_t *out, size_t cap,
                                              size_t *size, struct kda_error *err);
/* `name` is for messages. KDA_BAD_DATA: damaged. KDA_UNSUPPORTED: written by a kda with another
 * format or list of fields. */
KDA_MUST_CHECK enum kda_status kda_own_decode(const uint8_t *bytes, size_t size, const char *name,
                                              struct kda_own *ret, struct kda_error *err);

KDA_MUST_CHECK enum kda_status kda_own_read(const char *path, struct kda_own *ret,
                                            uint64_t *time_100ns, struct kda_error *err);

/* Writes the profile into the user's folder; nobody ever sees half a file there. *path (nullable)
 * receives the place, to be freed with kda_free. Errors: KDA_USAGE (no folder: HOME is not set),
 * KDA_IO, KDA_BAD_DATA, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_own_write(const struct kda_own *own, char **path,
                                             struct kda_error *err);

/* The user's folder of profiles; NULL when the environment names none, or out of memory. The
 * caller frees with kda_free. */
char *kda_own_folder(void);

/* Loads the profile of `id` from `folder`. Files that cannot be used are skipped; the first such
 * is named in `note`. KDA_NO_SYMBOL, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_own_find(const char *folder, const struct kda_kernel_id *id,
                                            struct kda_own *ret, char **path, char *note,
                                            size_t note_cap, struct kda_error *err);

/* Name of the first thing without which nothing can be read, or NULL. */
const char *kda_layout_lacks(const struct kda_layout *layout);

#endif
