/*
 * import.c - import tables of loaded drivers, as they stand in their images.
 *
 * A loaded driver's address table holds addresses; its name table keeps the names, unless the
 * section that holds it was thrown away after the driver's start (INIT): then the table is missing
 * memory, and nothing is said about it.
 *
 * Source: Microsoft PE/COFF specification, "The .idata Section".
 */
#include <string.h>

#include "internal.h"
#include "kda/callbacks.h"

#define DESCRIPTOR_SIZE 20u
#define MAX_DESCRIPTORS 256u
#define MAX_NAMES 4096u /* over all descriptors; drivers have some hundred */
#define MAX_NAME 256u
#define BY_NUMBER ((uint64_t)1 << 63)

struct imports {
    struct kda_kernel *kernel;
    uint64_t base;
    uint32_t size; /* of the image */
    kda_import_fn fn;
    void *context;
    uint32_t names;
    bool stopped;
};

/* A NUL-terminated ASCII name; reads no page behind the one it ends in. */
static enum kda_status read_name(struct imports *imports, uint32_t rva, char name[MAX_NAME],
                                 struct kda_error *err)
{
    size_t used = 0;
    while (used < MAX_NAME) {
        uint64_t va = imports->base + rva + used;
        size_t step = 4096 - (size_t)(va & 4095);
        if (step > MAX_NAME - used)
            step = MAX_NAME - used;
        if (rva + used >= imports->size)
            break;
        enum kda_status status = kda_read(imports->kernel, va, name + used, step, err);
        if (status != KDA_OK)
            return status;
        const char *end = memchr(name + used, 0, step);
        for (const char *p = name + used; p < (end ? end : name + used + step); p++)
            if (*p < 0x20 || *p > 0x7e)
                return kda_fail_at(err, KDA_BAD_DATA, "kernel", va, "an import is no text");
        if (end)
            return KDA_OK;
        used += step;
    }
    return kda_fail_at(err, KDA_BAD_DATA, "kernel", imports->base + rva,
                       "an import's name does not end");
}

static enum kda_status read_names(struct imports *imports, const char *module, uint32_t table,
                                  struct kda_error *err)
{
    for (uint32_t rva = table; !imports->stopped; rva += 8) {
        uint8_t bytes[8];
        char name[MAX_NAME];
        if (rva < table || rva >= imports->size || ++imports->names > MAX_NAMES)
            return kda_fail_at(err, KDA_BAD_DATA, "kernel", imports->base + table,
                               "the list of imports does not end");
        enum kda_status status =
            kda_read(imports->kernel, imports->base + rva, bytes, sizeof(bytes), err);
        if (status != KDA_OK)
            return status;
        uint64_t entry = kda_le64(bytes);
        if (entry == 0)
            break;
        if (entry & BY_NUMBER)
            continue;
        if (entry >= imports->size)
            return kda_fail_at(err, KDA_BAD_DATA, "kernel", imports->base + rva,
                               "an import's name lies outside the driver");
        status = read_name(imports, (uint32_t)entry + 2, name, err); /* a hint comes first */
        if (status != KDA_OK)
            return status;
        imports->stopped = !imports->fn(imports->context, module, name);
    }
    return KDA_OK;
}

enum kda_status kda_module_imports(struct kda_kernel *kernel, const struct kda_module *module,
                                   kda_import_fn fn, void *context, struct kda_error *err)
{
    struct kda_pe pe;
    enum kda_status status = kda_pe_read(kernel, module->base, &pe, err);
    if (status != KDA_OK)
        return status;
    struct imports imports = {kernel, module->base, pe.size, fn, context, 0, false};
    if (pe.import_rva == 0)
        return KDA_OK;
    for (uint32_t i = 0; !imports.stopped; i++) {
        uint8_t descriptor[DESCRIPTOR_SIZE];
        char from[MAX_NAME];
        uint64_t at = (uint64_t)pe.import_rva + i * DESCRIPTOR_SIZE;
        if (i >= MAX_DESCRIPTORS || at >= pe.size)
            return kda_fail_at(err, KDA_BAD_DATA, "kernel", module->base + pe.import_rva,
                               "the import table does not end");
        status = kda_read(kernel, module->base + at, descriptor, sizeof(descriptor), err);
        if (status != KDA_OK)
            return status;
        uint32_t names = kda_le32(descriptor), from_rva = kda_le32(descriptor + 12);
        if (from_rva == 0)
            break;
        status = read_name(&imports, from_rva, from, err);
        if (status == KDA_OK && names == 0)
            status = kda_fail_at(err, KDA_BAD_DATA, "kernel", module->base + at,
                                 "the import table of '%s' has no names", from);
        if (status == KDA_OK)
            status = read_names(&imports, from, names, err);
        if (status != KDA_OK)
            return status;
    }
    return KDA_OK;
}
