/*
 * triage.h - the process stored in a triage dump.
 */
#ifndef KDA_IMAGE_TRIAGE_H
#define KDA_IMAGE_TRIAGE_H

#include "image_internal.h"

struct kda_triage_process {
    uint32_t off;        /* file offset of the stored EPROCESS, 0 = none */
    uint32_t thread_off; /* file offset of the stored ETHREAD, 0 = none */
    uint16_t size;       /* SizeEProcess of the debugger data block, 0 = not given */
    uint16_t parent_off; /* OffsetEprocessParentCID of that block, 0 = not given */
};

/* Fills process_name, process_pid and process_va of info with what can be verified. A stored
 * process that does not verify is a warning; only KDA_IO and KDA_NO_MEMORY are errors. */
KDA_MUST_CHECK enum kda_status kda_triage_read_process(struct kda_image *image,
                                                       const struct kda_triage_process *process,
                                                       struct kda_error *err);

#endif
