/*
 * Raw physical memory: the file offset is the physical address. There is nothing to recognise it
 * by, so it is tried last and says so.
 */
#include "runs.h"

static enum kda_status probe(struct kda_image *image, struct kda_error *err)
{
    uint64_t size = kda_file_size(image->file);
    if (size < KDA_PAGE_SIZE)
        return kda_fail(err, KDA_BAD_DATA, "image",
                        "%llu bytes with no known signature: smaller than one page, so this is no "
                        "memory image",
                        (unsigned long long)size);
    return KDA_OK;
}

static void warn(struct kda_image *image)
{
    uint64_t size = kda_file_size(image->file);
    if (kda_name_ends(kda_file_name(image->file), ".vmem"))
        kda_image_warn(image, size > KDA_DEVICE_HOLE
                                  ? "a .vmem file of more than 3 GiB without its .vmss or .vmsn "
                                    "beside it: addresses above 3 GiB are wrong; copy the state "
                                    "file next to it"
                                  : "a .vmem file without its .vmss or .vmsn beside it: read as a "
                                    "flat image, which is right below 3 GiB");
    else
        kda_image_warn(image, "no known signature: taken as raw physical memory");
    if (size > KDA_DEVICE_HOLE && !kda_name_ends(kda_file_name(image->file), ".vmem"))
        kda_image_warn(image, "a raw file of more than 3 GiB: if the tool that wrote it left out "
                              "the hole for devices below 4 GiB, addresses above it are wrong");
    if (size % KDA_PAGE_SIZE)
        kda_image_warn(image, "the last %u bytes are not a whole page and were left out",
                       (unsigned)(size % KDA_PAGE_SIZE));
}

static enum kda_status open(struct kda_image *image, struct kda_error *err)
{
    struct kda_runs *runs;
    enum kda_status status = kda_image_new_runs(image, &runs, err);
    if (status != KDA_OK)
        return status;
    status = kda_image_add_run(runs, 0, kda_file_size(image->file), 0, err);
    if (status != KDA_OK)
        return status;
    warn(image);
    return kda_image_finish_runs(image, runs, err);
}

const struct kda_image_ops kda_fmt_raw = {
    .probe = probe,
    .open = open,
    .read = kda_image_runs_read,
    .next_run = kda_image_runs_next,
    .place = kda_image_runs_place,
    .close = kda_image_runs_close,
};
