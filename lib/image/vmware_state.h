/*
 * vmware_state.h - what a VMware suspend (.vmss) or snapshot (.vmsn) file says about memory.
 */
#ifndef KDA_IMAGE_VMWARE_STATE_H
#define KDA_IMAGE_VMWARE_STATE_H

#include "image_internal.h"

/* A region of guest memory; numbers of 4 KiB pages. */
struct kda_vmware_region {
    uint64_t ppn;  /* guest page */
    uint64_t page; /* page in the memory file, or in the inline block */
    uint64_t size;
    unsigned have; /* which of the three were given, bits */
};

struct kda_vmware_cpu {
    uint64_t cr0, cr3, cr4;
};

struct kda_vmware_state {
    struct kda_vmware_region *regions;
    size_t region_count; /* 0: memory is flat */
    size_t region_capacity;
    uint64_t stated_regions; /* regionsCount */
    uint64_t inline_off; /* memory inside this file: where it stands, and bytes; size 0 = none */
    uint64_t inline_size;
    struct kda_vmware_cpu cpus[KDA_IMAGE_MAX_CPUS];
    size_t cpu_count;
};

bool kda_vmware_is_state(const uint8_t *head, size_t size);

/* Errors: KDA_BAD_DATA, KDA_LIMIT, KDA_UNSUPPORTED (compressed memory), KDA_IO, KDA_NO_MEMORY.
 * `ret` must be given to kda_vmware_state_deinit in any case. */
KDA_MUST_CHECK enum kda_status kda_vmware_read_state(struct kda_file *file,
                                                     struct kda_vmware_state *ret,
                                                     struct kda_error *err);
void kda_vmware_state_deinit(struct kda_vmware_state *state);

#endif
