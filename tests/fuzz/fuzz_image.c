/*
 * Any bytes as a memory image: open, walk the runs, read some pages, read triage pieces. Bounded,
 * so that a small file that names a huge machine does not make the fuzzer slow.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "kda/image.h"

#define MAX_RUNS 64

static void need(int condition)
{
    if (!condition)
        abort();
}

static void read_pages(struct kda_image *image)
{
    static uint8_t buffer[2 * KDA_PAGE_SIZE];
    struct kda_error err;
    uint64_t start, size, pa = 0;
    for (int i = 0; i < MAX_RUNS && kda_image_next_run(image, pa, &start, &size); i++) {
        need(start >= pa && size > 0 && size % KDA_PAGE_SIZE == 0 && start % KDA_PAGE_SIZE == 0);
        /* What a run promises can be read. */
        need(kda_image_read_page(image, start / KDA_PAGE_SIZE, buffer, &err) == KDA_OK);
        need(kda_image_read_page(image, (start + size) / KDA_PAGE_SIZE - 1, buffer, NULL) ==
             KDA_OK);
        size_t n = size < sizeof(buffer) ? (size_t)size : sizeof(buffer);
        need(kda_image_read(image, start + size - n, buffer, n, &err) == KDA_OK);
        (void)!kda_image_read(image, start + size - 1, buffer, 2, &err);
        pa = start + size;
    }
    (void)!kda_image_read_page(image, pa / KDA_PAGE_SIZE, buffer, &err);
    (void)!kda_image_read_page(image, UINT64_MAX, buffer, NULL);
}

static void read_pieces(struct kda_image *image)
{
    const struct kda_image_info *info = kda_image_info(image);
    uint8_t bytes[64];
    for (size_t i = 0; i < info->block_count && i < MAX_RUNS; i++) {
        size_t n = info->blocks[i].size < sizeof(bytes) ? info->blocks[i].size : sizeof(bytes);
        need(kda_image_read_virtual(image, info->blocks[i].va, bytes, n, NULL) == KDA_OK);
        (void)!kda_image_read_virtual(image, info->blocks[i].va + info->blocks[i].size - 1, bytes,
                                      sizeof(bytes), NULL);
    }
    for (size_t i = 0; i < info->driver_count; i++)
        need(info->drivers[i].name != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kda_image *image = NULL;
    struct kda_error err = {0};
    enum kda_status status = kda_image_open_memory(data, size, "fuzz", &image, &err);
    if (status != KDA_OK) {
        need(image == NULL && err.status == status && status != KDA_NOT_MINE);
        return 0;
    }
    read_pages(image);
    read_pieces(image);
    kda_image_close(image);
    return 0;
}
