/*
 * LiME: a 32-byte header before each range. Source: LiME's documented "lime" format, version 1;
 * the end address is the last byte of the range, not one past it.
 */
#include "runs.h"

#include <string.h>

#include "bytes.h"

#define LIME_HEADER 32u
#define LIME_MAGIC 0x4C694D45u

static enum kda_status probe(struct kda_image *image, struct kda_error *err)
{
    if (image->head_size < 8 || kda_le32(image->head) != LIME_MAGIC)
        return KDA_NOT_MINE;
    if (kda_le32(image->head + 4) != 1)
        return kda_fail_at(err, KDA_UNSUPPORTED, "image", 4,
                           "LiME format version %u; only version 1 is known",
                           kda_le32(image->head + 4));
    return KDA_OK;
}

/* One header; *next is where the following one stands, or 0 if this was the end. */
static enum kda_status read_range(struct kda_image *image, struct kda_runs *runs, uint64_t off,
                                  uint64_t *next, struct kda_error *err)
{
    uint8_t header[LIME_HEADER];
    enum kda_status status = kda_file_read_at(image->file, off, header, sizeof(header), err);
    if (status != KDA_OK)
        return status;
    uint64_t start = kda_le64(header + 8), last = kda_le64(header + 16);
    static const uint8_t zeros[LIME_HEADER];
    *next = 0;
    /* Some writers pad the file with an empty header. */
    if (off > 0 && memcmp(header, zeros, sizeof(zeros)) == 0)
        return KDA_OK;
    if (kda_le32(header) != LIME_MAGIC || last < start || last >= KDA_MAX_PA) {
        if (runs->count == 0)
            return kda_fail_at(err, KDA_BAD_DATA, "image", off,
                               "the LiME header at 0x%llx is damaged (range 0x%llx to 0x%llx)",
                               (unsigned long long)off, (unsigned long long)start,
                               (unsigned long long)last);
        kda_image_warn(image,
                       "the LiME header at file offset 0x%llx is damaged; what follows it was "
                       "left out",
                       (unsigned long long)off);
        return KDA_OK;
    }
    *next = off + LIME_HEADER + (last - start + 1);
    return kda_image_add_run(runs, start, last - start + 1, off + LIME_HEADER, err);
}

static enum kda_status open(struct kda_image *image, struct kda_error *err)
{
    struct kda_runs *runs;
    enum kda_status status = kda_image_new_runs(image, &runs, err);
    if (status != KDA_OK)
        return status;
    uint64_t size = kda_file_size(image->file), off = 0;
    do {
        if (off + LIME_HEADER > size) {
            if (off < size)
                kda_image_warn(image, "the last %u bytes of the file are not a LiME header",
                               (unsigned)(size - off));
            break;
        }
        status = read_range(image, runs, off, &off, err);
    } while (status == KDA_OK && off != 0);
    return status == KDA_OK ? kda_image_finish_runs(image, runs, err) : status;
}

const struct kda_image_ops kda_fmt_lime = {
    .probe = probe,
    .open = open,
    .read = kda_image_runs_read,
    .next_run = kda_image_runs_next,
    .place = kda_image_runs_place,
    .close = kda_image_runs_close,
};
