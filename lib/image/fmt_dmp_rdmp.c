/*
 * RDMP crash dumps (DumpType 8, 9, 0xA; WinDbg's .dump /k, /ka, /f): a list of page ranges at
 * 0x2000, pages packed one after another behind it.
 */
#include "runs.h"

#include "bytes.h"
#include "dmp.h"

/* Offsets in the file. The metadata begins at 0x2020 and ends at the first page. */
enum {
    OFF_METADATA_SIZE = 0x2010,
    OFF_FIRST_PAGE = 0x2018,
    OFF_METADATA = 0x2020,
    OFF_TOTAL_PAGES = 0x2028, /* type 0xA only */
    OFF_RANGES = 0x2030,
};

#define RANGE_SIZE 16u
#define RANGES_PER_READ 1024u

struct list {
    uint64_t end;   /* where the ranges end at the latest */
    uint64_t off;   /* where the next page stands */
    uint64_t total; /* pages to expect; UINT64_MAX = until the list ends */
    bool done;
};

static enum kda_status probe(struct kda_image *image, struct kda_error *err)
{
    uint32_t type;
    enum kda_status status = kda_dmp_type(image, &type, err);
    if (status != KDA_OK)
        return status;
    if (type == KDA_DMP_FULL || type == KDA_DMP_TRIAGE)
        return KDA_NOT_MINE;
    enum kda_dmp_tag tag;
    status = kda_dmp_tag(image, &tag, err);
    if (status != KDA_OK)
        return status;
    if (tag == KDA_DMP_TAG_RDMP)
        return KDA_OK;
    if (type == KDA_DMP_RDMP_KERNEL || type == KDA_DMP_RDMP_ACTIVE || type == KDA_DMP_RDMP_FULL)
        return kda_fail_at(err, KDA_BAD_DATA, "image", KDA_DMP_HEADER,
                           "a crash dump of DumpType %u without its page ranges (RDMP) at 0x2000",
                           type);
    return KDA_NOT_MINE;
}

static enum kda_status read_list_header(struct kda_image *image, struct list *list,
                                        struct kda_error *err)
{
    uint8_t bytes[OFF_RANGES - KDA_DMP_HEADER];
    enum kda_status status =
        kda_file_read_at(image->file, KDA_DMP_HEADER, bytes, sizeof(bytes), err);
    if (status != KDA_OK)
        return status;
    uint64_t size = kda_le64(bytes + (OFF_METADATA_SIZE - KDA_DMP_HEADER));
    uint64_t first = kda_le64(bytes + (OFF_FIRST_PAGE - KDA_DMP_HEADER));
    if (first < OFF_RANGES || first > kda_file_size(image->file))
        return kda_fail_at(err, KDA_BAD_DATA, "image", OFF_FIRST_PAGE,
                           "first page at 0x%llx, but the page ranges begin at 0x%x and the file "
                           "ends at 0x%llx",
                           (unsigned long long)first, OFF_RANGES,
                           (unsigned long long)kda_file_size(image->file));
    list->off = list->end = first;
    if (size != first - OFF_METADATA)
        kda_image_warn(image,
                       "the size of the page ranges (0x%llx) does not lead to the first "
                       "page (0x%llx)",
                       (unsigned long long)size, (unsigned long long)first);
    if (size < first - OFF_METADATA)
        list->end = size + OFF_METADATA;
    list->total = UINT64_MAX;
    if (image->info.dump_type == KDA_DMP_RDMP_FULL)
        list->total = kda_le64(bytes + (OFF_TOTAL_PAGES - KDA_DMP_HEADER));
    return KDA_OK;
}

/* A list without a total ends with an empty entry; page 0 alone does not end it, because a real
 * range may begin there. */
static enum kda_status take_range(struct list *list, struct kda_runs *runs, const uint8_t *entry,
                                  struct kda_error *err)
{
    uint64_t pfn = kda_le64(entry), count = kda_le64(entry + 8);
    if (list->total == 0 || (list->total == UINT64_MAX && pfn == 0 && count == 0)) {
        list->done = true;
        return KDA_OK;
    }
    if (list->total != UINT64_MAX) {
        if (count > list->total)
            count = list->total;
        list->total -= count;
    }
    uint64_t pa, size;
    if (!kda_mul64(pfn, KDA_PAGE_SIZE, &pa) || !kda_mul64(count, KDA_PAGE_SIZE, &size))
        pa = size = UINT64_MAX;
    enum kda_status status = kda_image_add_run(runs, pa, size, list->off, err);
    if (status == KDA_OK)
        list->off += size;
    return status;
}

static enum kda_status take_ranges(struct kda_image *image, struct kda_runs *runs,
                                   struct kda_error *err)
{
    struct list list = {0};
    enum kda_status status = read_list_header(image, &list, err);
    if (status != KDA_OK)
        return status;
    uint8_t bytes[RANGES_PER_READ * RANGE_SIZE];
    for (uint64_t at = OFF_RANGES; !list.done && at + RANGE_SIZE <= list.end;) {
        uint64_t left = (list.end - at) / RANGE_SIZE;
        size_t n = left < RANGES_PER_READ ? (size_t)left : RANGES_PER_READ;
        status = kda_file_read_at(image->file, at, bytes, n * RANGE_SIZE, err);
        for (size_t i = 0; i < n && !list.done && status == KDA_OK; i++)
            status = take_range(&list, runs, bytes + i * RANGE_SIZE, err);
        if (status != KDA_OK)
            return status;
        at += n * RANGE_SIZE;
    }
    if (list.total != UINT64_MAX && list.total != 0)
        kda_image_warn(image, "the page ranges end %llu pages before the stated total",
                       (unsigned long long)list.total);
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
    status = take_ranges(image, runs, err);
    return status == KDA_OK ? kda_image_finish_runs(image, runs, err) : status;
}

const struct kda_image_ops kda_fmt_dmp_rdmp = {
    .probe = probe,
    .open = open,
    .read = kda_image_runs_read,
    .next_run = kda_image_runs_next,
    .place = kda_image_runs_place,
    .close = kda_image_runs_close,
};
