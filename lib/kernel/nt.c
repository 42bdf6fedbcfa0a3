/*
 * nt.c - what the kernel's own PE image tells without symbols: sections and exports.
 */
#include "internal.h"

enum kda_status kda_kernel_sections(struct kda_kernel *kernel, struct kda_section *sections,
                                    size_t *count, struct kda_error *err)
{
    struct kda_pe pe;
    enum kda_status status = kda_pe_read(kernel, kernel->info.base, &pe, err);
    return status == KDA_OK ? kda_pe_sections(kernel, kernel->info.base, &pe, sections, count, err)
                            : status;
}

enum kda_status kda_kernel_export(struct kda_kernel *kernel, const char *name, uint64_t *va,
                                  struct kda_error *err)
{
    struct kda_pe pe;
    enum kda_status status = kda_pe_read(kernel, kernel->info.base, &pe, err);
    return status == KDA_OK ? kda_pe_export(kernel, kernel->info.base, &pe, name, va, err) : status;
}
