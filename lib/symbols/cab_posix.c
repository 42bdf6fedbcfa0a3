#include "cab.h"

#ifdef KDA_HAVE_DOWNLOAD

#include <archive.h>
#include <archive_entry.h>
#include <string.h>

#include "alloc.h"

#define CHUNK ((size_t)64 * 1024)

struct source {
    struct kda_file *file;
    uint64_t pos;
    uint8_t *chunk;
    struct kda_error error; /* of a read, which libarchive would only repeat as a number */
};

static la_ssize_t read_chunk(struct archive *archive, void *context, const void **ret)
{
    struct source *source = context;
    uint64_t left = kda_file_size(source->file) - source->pos;
    size_t size = left < CHUNK ? (size_t)left : CHUNK;
    *ret = source->chunk;
    if (size == 0)
        return 0;
    if (kda_file_read_at(source->file, source->pos, source->chunk, size, &source->error) !=
        KDA_OK) {
        archive_set_error(archive, -1, "%s", source->error.text);
        return ARCHIVE_FATAL;
    }
    source->pos += size;
    return (la_ssize_t)size;
}

static enum kda_status cab_failed(struct archive *archive, const struct source *source,
                                  struct kda_error *err)
{
    if (source->error.status != KDA_OK) {
        if (err)
            *err = source->error;
        return source->error.status;
    }
    const char *text = archive_error_string(archive);
    return kda_fail(err, KDA_BAD_DATA, "symbols", "the compressed file cannot be unpacked: %s",
                    text ? text : "no reason given");
}

static enum kda_status first_entry(struct archive *archive, const struct source *source,
                                   struct kda_error *err)
{
    struct archive_entry *entry = NULL;
    int rc = kda_fault() ? ARCHIVE_FATAL : archive_read_next_header(archive, &entry);
    if (rc == ARCHIVE_EOF)
        return kda_fail(err, KDA_BAD_DATA, "symbols", "the compressed file is empty");
    if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN)
        return cab_failed(archive, source, err);
    return KDA_OK;
}

static enum kda_status copy_data(struct archive *archive, const struct source *source,
                                 struct kda_outfile *out, uint64_t max, struct kda_error *err)
{
    uint64_t total = 0;
    for (;;) {
        const void *bytes;
        size_t size;
        la_int64_t off;
        int rc = archive_read_data_block(archive, &bytes, &size, &off);
        if (rc == ARCHIVE_EOF)
            return KDA_OK;
        if (rc != ARCHIVE_OK)
            return cab_failed(archive, source, err);
        if (off < 0 || (uint64_t)off != total)
            return kda_fail(err, KDA_BAD_DATA, "symbols", "the compressed file has holes");
        if (size > max - total)
            return kda_fail(err, KDA_LIMIT, "symbols",
                            "the compressed file unpacks to more than %llu bytes",
                            (unsigned long long)max);
        enum kda_status status = kda_outfile_write(out, bytes, size, err);
        if (status != KDA_OK)
            return status;
        total += size;
    }
}

enum kda_status kda_cab_unpack(struct kda_file *cab, struct kda_outfile *out, uint64_t max,
                               struct kda_error *err)
{
    struct source source = {.file = cab};
    enum kda_status status = KDA_OK;
    struct archive *archive = kda_fault() ? NULL : archive_read_new();
    source.chunk = kda_calloc(CHUNK, 1);
    if (!archive || !source.chunk) {
        status = kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory unpacking \"%s\"",
                          kda_file_name(cab));
        goto out;
    }
    /* Only the cabinet reader: what a server sends must not reach every parser of the library. */
    if (archive_read_support_format_cab(archive) != ARCHIVE_OK ||
        archive_read_open(archive, &source, NULL, read_chunk, NULL) != ARCHIVE_OK) {
        status = cab_failed(archive, &source, err);
        goto out;
    }
    status = first_entry(archive, &source, err);
    if (status == KDA_OK)
        status = copy_data(archive, &source, out, max, err);
out:
    if (archive)
        (void)archive_read_free(archive);
    kda_free(source.chunk);
    return status;
}

#else

enum kda_status kda_cab_unpack(struct kda_file *cab, struct kda_outfile *out, uint64_t max,
                               struct kda_error *err)
{
    (void)out;
    (void)max;
    return kda_fail(err, KDA_UNSUPPORTED, "symbols",
                    "\"%s\" is compressed, and this kda was built without libarchive",
                    kda_file_name(cab));
}

#endif
