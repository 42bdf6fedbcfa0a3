/*
 * kernel.c - the kernel handle: opening, symbols, facts of the machine.
 */
#include "kda/kernel.h"

#include <string.h>

#include "internal.h"

#define KERNEL_ARENA_LIMIT ((size_t)32 << 20)

/* Fixed address of KUSER_SHARED_DATA in every address space. Source: ntddk.h,
 * KI_USER_SHARED_DATA; SystemTime (KSYSTEM_TIME: low, high1, high2) at 0x14 in all versions. */
#define SHARED_DATA_VA 0xfffff78000000000u
#define SHARED_SYSTEM_TIME 0x14u

static void read_system_time(struct kda_kernel *kernel)
{
    const struct kda_image_info *image = kda_image_info(kernel->image);
    if (image->system_time_100ns) {
        kernel->info.system_time_100ns = image->system_time_100ns;
        kernel->info.system_time_from_header = true;
        return;
    }
    uint8_t time[12];
    if (kda_read(kernel, SHARED_DATA_VA + SHARED_SYSTEM_TIME, time, sizeof(time), NULL) != KDA_OK)
        return;
    /* The writer stores high2, low, high1: equal halves mean that no update was under way. */
    if (kda_le32(time + 4) == kda_le32(time + 8))
        kernel->info.system_time_100ns = kda_le64(time);
}

static void read_build(struct kda_kernel *kernel, uint64_t va)
{
    uint8_t number[4];
    if (kernel->info.build_va != 0 || va == 0 ||
        kda_read(kernel, va, number, sizeof(number), NULL) != KDA_OK)
        return;
    /* High nibble: 0xf free build, 0xc checked build. Source: NtBuildNumber, ntddk.h. */
    uint32_t build = kda_le32(number);
    if ((build >> 28 != 0xf && build >> 28 != 0xc) || (build & 0xffff) < 1000)
        return;
    kernel->info.build = build & 0xffff;
    kernel->info.build_va = va;
}

static void facts_without_symbols(struct kda_kernel *kernel)
{
    const struct kda_image_info *image = kda_image_info(kernel->image);
    kernel->info.build = image->build;
    kernel->info.cpus = image->cpus;
    read_system_time(kernel);
    struct kda_pe pe;
    uint64_t va;
    if (kernel->info.build == 0 && kda_pe_read(kernel, kernel->info.base, &pe, NULL) == KDA_OK &&
        kda_pe_export(kernel, kernel->info.base, &pe, "NtBuildNumber", &va, NULL) == KDA_OK)
        read_build(kernel, va);
}

bool kda_read_u64(struct kda_kernel *kernel, uint64_t va, uint64_t *ret)
{
    uint8_t bytes[8];
    if (va == 0 || kda_read(kernel, va, bytes, sizeof(bytes), NULL) != KDA_OK)
        return false;
    *ret = kda_le64(bytes);
    return true;
}

void kda_kernel_facts(struct kda_kernel *kernel)
{
    uint64_t cpus;
    if (kernel->info.build == 0)
        read_build(kernel, kda_symbol_va(kernel, KDA_SYM_NtBuildNumber));
    if (kernel->info.cpus == 0 &&
        kda_read_u64(kernel, kda_symbol_va(kernel, KDA_SYM_KeNumberProcessors), &cpus)) {
        uint32_t count = (uint32_t)cpus;
        if (count >= 1 && count <= 2048)
            kernel->info.cpus = count;
    }
    kda_kdbg_facts(kernel);
}

enum kda_status kda_kernel_open(struct kda_image *image, const struct kda_kernel_options *options,
                                struct kda_kernel **ret, struct kda_error *err)
{
    const struct kda_image_info *info = kda_image_info(image);
    if (info->kind == KDA_IMAGE_TRIAGE)
        return kda_fail(err, KDA_UNSUPPORTED, "kernel",
                        "this is a triage dump (DumpType 4): it holds no tracing memory; take a "
                        "live kernel dump (Task Manager, System process) or a full memory image");
    struct kda_kernel *kernel = kda_calloc(1, sizeof(*kernel));
    if (!kernel)
        return kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory opening the kernel");
    kernel->image = image;
    if (options)
        kernel->options = *options;
    kda_gaps_init(&kernel->gaps);
    kda_arena_init(&kernel->arena, KERNEL_ARENA_LIMIT);
    kda_map_init(&kernel->process_by_va);
    kernel->cache = kda_calloc(1, sizeof(*kernel->cache));
    if (kernel->cache)
        kernel->cache->pages = kda_calloc(KDA_CACHE_PAGES, KDA_PAGE_SIZE);
    kda_work_reset(kernel);
    kernel->tlb = kda_calloc(KDA_TLB_ENTRIES, sizeof(*kernel->tlb));
    enum kda_status status;
    if (kernel->cache && kernel->cache->pages && kernel->tlb)
        status = kda_find_kernel(kernel, err);
    else
        status = kda_fail(err, KDA_NO_MEMORY, "kernel", "out of memory opening the kernel");
    if (status != KDA_OK) {
        kda_kernel_close(kernel);
        return status;
    }
    kda_work_reset(kernel);
    facts_without_symbols(kernel);
    kda_kdbg_facts(kernel);
    *ret = kernel;
    return KDA_OK;
}

void kda_kernel_close(struct kda_kernel *kernel)
{
    if (!kernel)
        return;
    if (kernel->cache)
        kda_free(kernel->cache->pages);
    kda_free(kernel->cache);
    kda_free(kernel->tlb);
    kda_pool_free(kernel);
    kda_free(kernel->modules);
    kda_free(kernel->processes);
    kda_map_deinit(&kernel->process_by_va);
    kda_arena_deinit(&kernel->arena);
    kda_gaps_deinit(&kernel->gaps);
    kda_symbols_free(kernel->symbols);
    kda_free(kernel);
}

const struct kda_kernel_info *kda_kernel_info(const struct kda_kernel *kernel)
{
    return &kernel->info;
}

struct kda_image *kda_kernel_image(const struct kda_kernel *kernel)
{
    return kernel->image;
}

struct kda_gaps *kda_kernel_gaps(struct kda_kernel *kernel)
{
    return &kernel->gaps;
}

enum kda_status kda_kernel_load_symbols(struct kda_kernel *kernel, struct kda_error *err)
{
    if (kernel->symbols)
        return KDA_OK;
    enum kda_status status =
        kda_symbols_find(&kernel->info.id, &kernel->options.symbols, &kernel->symbols, err);
    if (status != KDA_OK)
        return status;
    kernel->layout = kda_symbols_layout(kernel->symbols);
    kda_adopt_system_root(kernel);
    kda_kernel_facts(kernel);
    return KDA_OK;
}

enum kda_status kda_kernel_use_layout(struct kda_kernel *kernel, struct kda_symbols *symbols,
                                      const uint8_t *cookie, struct kda_error *err)
{
    if (kernel->symbols) {
        kda_symbols_free(symbols);
        return kda_fail(err, KDA_USAGE, "kernel", "symbols are loaded already");
    }
    kernel->symbols = symbols;
    kernel->layout = kda_symbols_layout(symbols);
    if (cookie) {
        kernel->cookie = *cookie;
        kernel->cookie_read = true;
    }
    kda_kernel_facts(kernel);
    return KDA_OK;
}

const struct kda_symbols *kda_kernel_symbols(const struct kda_kernel *kernel)
{
    return kernel->symbols;
}

const struct kda_layout *kda_kernel_layout(const struct kda_kernel *kernel)
{
    return kernel->layout;
}

bool kda_kernel_exhausted(const struct kda_kernel *kernel)
{
    return kernel->exhausted;
}

uint64_t kda_kernel_pages_touched(const struct kda_kernel *kernel)
{
    return kernel->cache->misses;
}
