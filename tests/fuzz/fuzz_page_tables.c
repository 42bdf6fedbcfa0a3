/*
 * Any bytes as RAM with page tables in it: translation and reads of many addresses under any root,
 * with four and five levels, then the search for a kernel.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void probe(struct kda_kernel *kernel, const uint8_t *data, size_t size)
{
    uint8_t bytes[64];
    for (size_t i = 0; i + 8 <= size && i < 64 * 8; i += 8) {
        uint64_t va = kda_le64(data + i), pa = 0;
        uint64_t root = data[i] * (uint64_t)KDA_PAGE_SIZE;
        for (unsigned half = 0; half < 2; half++, va |= 0xffff800000000000u) {
            enum kda_status status = kda_translate(kernel, root, va, &pa, NULL);
            enum kda_status again = kda_translate(kernel, root, va, &pa, NULL);
            if (status != again)
                abort(); /* the cache of translations must not change an answer */
            (void)!kda_read_in(kernel, root, va, bytes, sizeof(bytes), NULL);
        }
    }
}

static void search(struct kda_image *image)
{
    struct kda_kernel *kernel;
    struct kda_error err;
    if (kda_kernel_open(image, NULL, &kernel, &err) == KDA_OK)
        kda_kernel_close(kernel);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kda_image *image;
    /* RAM is a multiple of pages; what is left over is filled up with zeros. */
    size_t pages = size / KDA_PAGE_SIZE + 1;
    uint8_t *ram = calloc(pages, KDA_PAGE_SIZE);
    if (!ram)
        return 0;
    memcpy(ram, data, size);
    if (kda_image_open_memory(ram, pages * KDA_PAGE_SIZE, "fuzz.raw", &image, NULL) == KDA_OK) {
        struct kda_kernel *kernel = calloc(1, sizeof(*kernel));
        struct kda_cache *cache = calloc(1, sizeof(*cache));
        struct kda_tlb_entry *tlb = calloc(KDA_TLB_ENTRIES, sizeof(*tlb));
        uint8_t *block = calloc(KDA_CACHE_PAGES, KDA_PAGE_SIZE);
        if (kernel && cache && tlb && block) {
            kernel->image = image;
            kernel->cache = cache;
            kernel->cache->pages = block;
            kernel->tlb = tlb;
            for (unsigned la57 = 0; la57 < 2; la57++) {
                kernel->info.la57 = la57 != 0;
                kda_work_reset(kernel);
                kda_space_flush(kernel);
                probe(kernel, data, size);
            }
        }
        free(kernel);
        free(cache);
        free(tlb);
        free(block);
        search(image);
        kda_image_close(image);
    }
    free(ram);
    return 0;
}
