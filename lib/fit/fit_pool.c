/*
 * fit_pool.c - the last resort: pool blocks by their tags, anywhere in physical memory. Freed
 * blocks keep their tags, so what they name are only candidates.
 */
#include <string.h>

#include "fit_int.h"

#define CHUNK ((size_t)1 << 20)
#define HEADER 16u                 /* _POOL_HEADER; the tag stands at 4 */
#define TAG_GUID_ENTRY 0x47777445u /* "EtwG" */
#define TAG_CONSUMER 0x43777445u   /* "EtwC" */
#define OBJECT_HEADER 0x30u
#define MAX_DISTINCT 4096u

struct pool_scan {
    struct kda_fit *fit;
    struct kda_map votes;
};

static void cast(struct pool_scan *scan, const uint8_t *page, size_t at)
{
    uint64_t count = 0;
    if (at + 8 > KDA_PAGE_SIZE)
        return;
    uint64_t state = kda_le64(page + at);
    if (!kda_fit_is_pool(scan->fit, state))
        return;
    bool known = kda_map_get(&scan->votes, state, &count);
    if (!known && scan->votes.count >= MAX_DISTINCT)
        return;
    if (!kda_map_put(&scan->votes, state, count + 1))
        scan->fit->out_of_memory = true;
}

static void scan_page(struct pool_scan *scan, const uint8_t *page)
{
    const struct fit_votes *entry = &scan->fit->votes[F(ETW_GUID_ENTRY, SiloState)];
    const struct fit_votes *consumer = &scan->fit->votes[F(ETW_REALTIME_CONSUMER, SiloState)];
    for (size_t off = 0; off < KDA_PAGE_SIZE; off += HEADER) {
        uint32_t tag = kda_le32(page + off + 4);
        if (tag == TAG_GUID_ENTRY)
            for (size_t i = 0; i < entry->count; i++)
                cast(scan, page, off + HEADER + entry->place[i].offset);
        /* Optional headers stand before the object header: their number is not known here. */
        for (size_t extra = 0; tag == TAG_CONSUMER && extra <= 0x60; extra += 16)
            for (size_t i = 0; i < consumer->count; i++)
                cast(scan, page, off + HEADER + OBJECT_HEADER + extra + consumer->place[i].offset);
    }
}

static bool scan_memory(struct pool_scan *scan, uint8_t *buf)
{
    struct kda_image *image = kda_kernel_image(scan->fit->kernel);
    uint64_t start, size;
    for (uint64_t pa = 0; kda_image_next_run(image, pa, &start, &size); pa = start + size) {
        for (uint64_t done = 0; done < size; done += CHUNK) {
            size_t take = size - done < CHUNK ? (size_t)(size - done) : CHUNK;
            if (scan->fit->out_of_memory)
                return false;
            if (kda_image_read(image, start + done, buf, take, NULL) != KDA_OK)
                continue;
            for (size_t off = 0; off + KDA_PAGE_SIZE <= take; off += KDA_PAGE_SIZE)
                scan_page(scan, buf + off);
        }
        if (size == 0)
            break;
    }
    return true;
}

size_t kda_fit_pool_states(struct kda_fit *fit, uint64_t *ret, size_t max)
{
    struct pool_scan scan = {fit, {0}};
    uint8_t *buf = kda_calloc(CHUNK, 1);
    size_t count = 0;
    if (!buf) {
        fit->out_of_memory = true;
        return 0;
    }
    kda_map_init(&scan.votes);
    if (scan_memory(&scan, buf))
        count = kda_fit_ranked(&scan.votes, ret, max);
    kda_map_deinit(&scan.votes);
    kda_free(buf);
    return count;
}
