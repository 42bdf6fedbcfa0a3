/*
 * module.c - loaded drivers.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define MAX_IMAGE_SIZE 0x40000000u

#include "base/text.h"

/* Two structures describe a driver: _KLDR_DATA_TABLE_ENTRY where the PDB has it, else
 * _LDR_DATA_TABLE_ENTRY (7601, 9600); the needed fields agree. */
struct module_fields {
    enum kda_field_id base, size, full, name, stamp;
};

static const struct module_fields kldr = {
    KDA_F_KLDR_DATA_TABLE_ENTRY_DllBase, KDA_F_KLDR_DATA_TABLE_ENTRY_SizeOfImage,
    KDA_F_KLDR_DATA_TABLE_ENTRY_FullDllName, KDA_F_KLDR_DATA_TABLE_ENTRY_BaseDllName,
    KDA_F_KLDR_DATA_TABLE_ENTRY_TimeDateStamp};
static const struct module_fields ldr = {
    KDA_F_LDR_DATA_TABLE_ENTRY_DllBase, KDA_F_LDR_DATA_TABLE_ENTRY_SizeOfImage,
    KDA_F_LDR_DATA_TABLE_ENTRY_FullDllName, KDA_F_LDR_DATA_TABLE_ENTRY_BaseDllName,
    KDA_F_LDR_DATA_TABLE_ENTRY_TimeDateStamp};

struct module_walk {
    struct kda_kernel *kernel;
    const struct module_fields *fields;
    size_t capacity;
    enum kda_status status;
};

/* NULL when the build lacks the field, the string is empty or cannot be read; *why says which. */
static const char *module_string(struct module_walk *walk, uint64_t va, enum kda_field_id field,
                                 enum kda_status *why)
{
    const char *text = NULL;
    uint32_t offset = kda_field_offset(walk->kernel, field);
    *why = offset == KDA_NONE ? KDA_NO_SYMBOL
                              : kda_read_string(walk->kernel, va + offset, 1024, &text, NULL);
    if (*why == KDA_NO_MEMORY)
        walk->status = KDA_NO_MEMORY;
    return *why == KDA_OK && text[0] ? text : NULL;
}

static enum kda_step add_module(void *context, uint64_t va, enum kda_link how)
{
    struct module_walk *walk = context;
    struct kda_kernel *kernel = walk->kernel;
    uint64_t base = 0, size = 0, stamp = 0;
    struct kda_error why;
    if (how == KDA_LINK_MISSING)
        return KDA_STEP_TAKE; /* the walker has recorded the gap */
    enum kda_status status = kda_read_field(kernel, va, walk->fields->base, &base, &why);
    if (status == KDA_OK)
        status = kda_read_field(kernel, va, walk->fields->size, &size, &why);
    if (status != KDA_OK) {
        kda_gaps_add(&kernel->gaps, "module", va, status, "loader entry: %s", why.text);
        return KDA_STEP_TAKE;
    }
    /* An image starts at a page and ends in the kernel's half. */
    if (!kda_is_kernel_va(kernel, base) || (base & KDA_PAGE_MASK) != 0 || size == 0 ||
        size > MAX_IMAGE_SIZE) {
        kda_gaps_add(&kernel->gaps, "module", va, KDA_BAD_DATA,
                     "no loader entry: a driver of 0x%llx bytes at 0x%016llx",
                     (unsigned long long)size, (unsigned long long)base);
        return KDA_STEP_REFUSE;
    }
    void *items = kernel->modules;
    if (!kda_grow(&items, &walk->capacity, kernel->module_count + 1, sizeof(*kernel->modules),
                  KDA_MAX_MODULES)) {
        walk->status = KDA_NO_MEMORY;
        return KDA_STEP_STOP;
    }
    kernel->modules = items;
    (void)!kda_read_field(kernel, va, walk->fields->stamp, &stamp, NULL);
    struct kda_module *module = &kernel->modules[kernel->module_count++];
    memset(module, 0, sizeof(*module));
    module->va = va;
    module->base = base;
    module->size = (uint32_t)size;
    module->timestamp = (uint32_t)stamp;
    enum kda_status path, name;
    module->path = module_string(walk, va, walk->fields->full, &path);
    module->name = module_string(walk, va, walk->fields->name, &name);
    if (!module->name)
        module->name = "";
    status = name != KDA_OK ? name : path == KDA_NO_SYMBOL ? KDA_OK : path;
    if (status != KDA_OK)
        kda_gaps_add(&kernel->gaps, "module_name", va, status, "the driver's %s cannot be read",
                     name != KDA_OK ? "name" : "path");
    return walk->status == KDA_OK ? KDA_STEP_TAKE : KDA_STEP_STOP;
}

static int by_base(const void *a, const void *b)
{
    const struct kda_module *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

static enum kda_status read_modules(struct kda_kernel *kernel, struct kda_error *err)
{
    if (!kernel->layout)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "symbols are not loaded");
    uint64_t head = kda_symbol_va(kernel, KDA_SYM_PsLoadedModuleList);
    if (head == 0 && kda_image_info(kernel->image)->has_roots)
        head = kda_image_info(kernel->image)->ps_loaded_module_list;
    if (head == 0)
        return kda_fail(err, KDA_NO_SYMBOL, "kernel", "PsLoadedModuleList is not known");
    struct module_walk walk = {kernel, kda_has_field(kernel, kldr.base) ? &kldr : &ldr, 0, KDA_OK};
    enum kda_status status =
        kda_list_walk(kernel, head, KDA_MAX_MODULES, "modules", add_module, &walk, NULL, err);
    if (walk.status != KDA_OK)
        status = kda_fail(err, walk.status, "kernel", "out of memory for the driver list");
    if (status == KDA_NO_MEMORY) { /* anything else has left its gap */
        kernel->module_count = 0;
        kda_free(kernel->modules);
        kernel->modules = NULL;
        return status;
    }
    if (kernel->module_count > 1)
        qsort(kernel->modules, kernel->module_count, sizeof(*kernel->modules), by_base);
    kernel->modules_read = true;
    return KDA_OK;
}

enum kda_status kda_modules(struct kda_kernel *kernel, const struct kda_module **ret, size_t *count,
                            struct kda_error *err)
{
    if (!kernel->modules_read) {
        enum kda_status status = read_modules(kernel, err);
        if (status != KDA_OK)
            return status;
    }
    *ret = kernel->modules;
    *count = kernel->module_count;
    return KDA_OK;
}

const struct kda_module *kda_module_at(struct kda_kernel *kernel, uint64_t va)
{
    size_t low = 0, high = kernel->modules_read ? kernel->module_count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kernel->modules[middle].base <= va)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return NULL;
    const struct kda_module *module = &kernel->modules[low - 1];
    return va - module->base < module->size ? module : NULL;
}
