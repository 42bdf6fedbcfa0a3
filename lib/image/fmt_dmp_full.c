/*
 * Full crash dump (DumpType 1): the header's physical memory runs, packed one after another from
 * 0x2000.
 */
#include "runs.h"

#include "bytes.h"
#include "dmp.h"

enum { OFF_RUN_COUNT = 0x88, OFF_PAGE_COUNT = 0x90, OFF_RUNS = 0x98, OFF_CONTEXT = 0x348 };

/* What fits before the CONTEXT record. */
#define MAX_HEADER_RUNS ((OFF_CONTEXT - OFF_RUNS) / 16u)

static enum kda_status probe(struct kda_image *image, struct kda_error *err)
{
    uint32_t type;
    enum kda_status status = kda_dmp_type(image, &type, err);
    if (status != KDA_OK)
        return status;
    return type == KDA_DMP_FULL ? KDA_OK : KDA_NOT_MINE;
}

static enum kda_status take_runs(struct kda_image *image, const uint8_t *header,
                                 struct kda_runs *runs, struct kda_error *err)
{
    uint32_t count = kda_dmp_u32(header, OFF_RUN_COUNT);
    if (count == 0 || count > MAX_HEADER_RUNS)
        return kda_fail_at(err, KDA_BAD_DATA, "image", OFF_RUN_COUNT,
                           "a full dump with %u memory runs; there must be 1 to %u", count,
                           MAX_HEADER_RUNS);
    uint64_t off = KDA_DMP_HEADER, pages = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t pfn = kda_le64(header + OFF_RUNS + 16 * i);
        uint64_t n = kda_le64(header + OFF_RUNS + 16 * i + 8);
        uint64_t pa, size;
        if (!kda_mul64(pfn, KDA_PAGE_SIZE, &pa) || !kda_mul64(n, KDA_PAGE_SIZE, &size))
            pa = size = UINT64_MAX;
        enum kda_status status = kda_image_add_run(runs, pa, size, off, err);
        if (status != KDA_OK)
            return status;
        off += size;
        pages += n;
    }
    uint64_t stated = kda_dmp_u64(header, OFF_PAGE_COUNT);
    if (stated != 0 && stated != pages)
        kda_image_warn(image, "the header counts %llu pages, its runs %llu",
                       (unsigned long long)stated, (unsigned long long)pages);
    return KDA_OK;
}

static enum kda_status open(struct kda_image *image, struct kda_error *err)
{
    uint8_t header[KDA_DMP_HEADER];
    enum kda_status status = kda_dmp_read_header(image, header, err);
    if (status != KDA_OK)
        return status;
    struct kda_runs *runs;
    status = kda_image_new_runs(image, &runs, err);
    if (status != KDA_OK)
        return status;
    status = take_runs(image, header, runs, err);
    return status == KDA_OK ? kda_image_finish_runs(image, runs, err) : status;
}

const struct kda_image_ops kda_fmt_dmp_full = {
    .probe = probe,
    .open = open,
    .read = kda_image_runs_read,
    .next_run = kda_image_runs_next,
    .place = kda_image_runs_place,
    .close = kda_image_runs_close,
};
