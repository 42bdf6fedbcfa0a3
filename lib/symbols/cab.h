/*
 * cab.h - the one file inside a Microsoft cabinet, as symbol servers compress with (".pd_").
 */
#ifndef KDA_SYMBOLS_CAB_H
#define KDA_SYMBOLS_CAB_H

#include "file.h"

/* Appends the first file of the cabinet to `out`. Errors: KDA_BAD_DATA (damaged, empty), KDA_LIMIT
 * (more than `max` bytes), KDA_IO, KDA_NO_MEMORY. */
KDA_MUST_CHECK enum kda_status kda_cab_unpack(struct kda_file *cab, struct kda_outfile *out,
                                              uint64_t max, struct kda_error *err);

#endif
