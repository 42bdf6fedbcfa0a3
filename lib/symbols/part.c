#include "part.h"

#include <stdio.h>
#include <string.h>

#include "alloc.h"

#define ORIGIN_TEXT_MAX (KDA_URL_MAX + KDA_VALIDATOR_MAX + 32)

static char *with_ending(const char *path, const char *ending)
{
    size_t size = strlen(path) + strlen(ending) + 1;
    char *joined = kda_calloc(size, 1);
    if (joined)
        (void)snprintf(joined, size, "%s%s", path, ending);
    return joined;
}

/* A side file that is missing or damaged only means that nothing can be resumed. */
static enum kda_status load_origin(struct kda_part *part, struct kda_error *err)
{
    struct kda_file *file = NULL;
    void *text = NULL;
    size_t size = 0;
    if (kda_path_kind(part->from_path) != KDA_PATH_FILE)
        return KDA_OK;
    enum kda_status status = kda_file_open(part->from_path, &file, err);
    if (status == KDA_OK)
        status = kda_file_read_all(file, ORIGIN_TEXT_MAX, &text, &size, err);
    if (status == KDA_OK && !kda_remote_origin_parse(text, size, &part->origin))
        memset(&part->origin, 0, sizeof(part->origin));
    kda_free(text);
    kda_file_close(file);
    return status == KDA_NO_MEMORY ? status : KDA_OK;
}

enum kda_status kda_part_init(struct kda_part *part, const char *target, struct kda_error *err)
{
    memset(part, 0, sizeof(*part));
    part->path = with_ending(target, ".part");
    part->from_path = with_ending(target, ".part.from");
    if (!part->path || !part->from_path)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", target);
    enum kda_status status = kda_outfile_open(part->path, &part->out, err);
    if (status != KDA_OK)
        return status;
    return load_origin(part, err);
}

static bool resumable(const struct kda_part *part)
{
    uint64_t size = kda_part_size(part);
    const struct kda_part_origin *origin = &part->origin;
    return size > 0 && origin->url[0] && origin->validator[0] &&
           (origin->total == 0 || size < origin->total);
}

void kda_part_deinit(struct kda_part *part, bool keep)
{
    if (part->out) {
        keep = keep && resumable(part);
        if (!keep)
            kda_file_remove(part->from_path);
        kda_outfile_close(part->out, keep);
    }
    kda_free(part->path);
    kda_free(part->from_path);
    memset(part, 0, sizeof(*part));
}

uint64_t kda_part_size(const struct kda_part *part)
{
    return kda_outfile_size(part->out);
}

uint64_t kda_part_resume(const struct kda_part *part, const char *url)
{
    return resumable(part) && strcmp(part->origin.url, url) == 0 ? kda_part_size(part) : 0;
}

static enum kda_status save_origin(const struct kda_part *part, struct kda_error *err)
{
    char text[ORIGIN_TEXT_MAX];
    struct kda_outfile *out = NULL;
    int size = snprintf(text, sizeof(text), "%s\n%s\n%llu\n", part->origin.url,
                        part->origin.validator, (unsigned long long)part->origin.total);
    enum kda_status status = kda_outfile_open(part->from_path, &out, err);
    if (status == KDA_OK)
        status = kda_outfile_reset(out, err);
    if (status == KDA_OK)
        status = kda_outfile_write(out, text, (size_t)size, err);
    kda_outfile_close(out, status == KDA_OK);
    return status;
}

enum kda_status kda_part_begin(struct kda_part *part, const struct kda_part_origin *origin,
                               struct kda_error *err)
{
    /* The old side file goes first: at no moment does it describe bytes of another download. */
    memset(&part->origin, 0, sizeof(part->origin));
    kda_file_remove(part->from_path);
    enum kda_status status = kda_outfile_reset(part->out, err);
    if (status != KDA_OK)
        return status;
    part->origin = *origin;
    return origin->validator[0] ? save_origin(part, err) : KDA_OK;
}

enum kda_status kda_part_write(struct kda_part *part, const void *bytes, size_t size,
                               struct kda_error *err)
{
    return kda_outfile_write(part->out, bytes, size, err);
}

void kda_part_forget(struct kda_part *part)
{
    memset(&part->origin, 0, sizeof(part->origin));
}

enum kda_status kda_part_commit(struct kda_part *part, const char *target, struct kda_error *err)
{
    return kda_outfile_commit(part->out, target, err);
}
