/*
 * pdb.h - reading a PDB: who it is for, and the wanted structures and globals. Internal to
 * lib/symbols.
 */
#ifndef KDA_SYMBOLS_PDB_H
#define KDA_SYMBOLS_PDB_H

#include "file.h"
#include "kda/symbols.h"
#include "msf.h"

/* GUID (memory order) and age of a PDB, as the kernel's RSDS record names it: the age is that of
 * the DBI stream, which differs from that of the PDB stream when the file was written again after
 * linking. Only the headers are read. Errors: KDA_NOT_MINE, KDA_UNSUPPORTED, KDA_BAD_DATA (also
 * when the file is shorter than it says), KDA_LIMIT, KDA_IO, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_pdb_identity(struct kda_file *file, uint8_t guid[16],
                                                uint32_t *age, struct kda_error *err);

/* Fills *ret from a PDB. `id` (nullable): KDA_BAD_DATA with both identities when the file is for
 * another kernel; an id without a PDB half is not compared. *ret is untouched on failure. */
KDA_MUST_CHECK enum kda_status kda_pdb_layout(struct kda_file *file, const struct kda_kernel_id *id,
                                              struct kda_layout *ret, struct kda_error *err);

/* KDA_BAD_DATA with both identities unless they are equal. `file` is the name for the message. */
KDA_MUST_CHECK enum kda_status kda_check_identity(const char *file, const uint8_t guid[16],
                                                  uint32_t age, const struct kda_kernel_id *id,
                                                  struct kda_error *err);

/* The DBI stream's header, as far as needed. Stream numbers may be KDA_MSF_NO_STREAM. */
struct kda_pdb_dbi {
    uint32_t age;
    uint32_t symbols;           /* stream of symbol records */
    uint32_t sections;          /* section headers of the image */
    uint32_t original_sections; /* of the image before it was rearranged */
    uint32_t omap;              /* original RVA -> RVA */
};

/* Sizes and fields of the wanted structures, from the TPI stream. */
KDA_MUST_CHECK enum kda_status kda_pdb_types(struct kda_msf *msf, struct kda_layout *ret,
                                             struct kda_error *err);

/* RVAs of the wanted globals, from the symbol records. */
KDA_MUST_CHECK enum kda_status kda_pdb_globals(struct kda_msf *msf, const struct kda_pdb_dbi *dbi,
                                               struct kda_layout *ret, struct kda_error *err);

#endif
