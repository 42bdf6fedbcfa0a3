#include "isf_unpack.h"

#ifdef KDA_HAVE_ISF

#include <lzma.h>
#include <string.h>

#include "alloc.h"

#define CHUNK ((size_t)64 * 1024)
#define MAX_DECODER_MEMORY ((uint64_t)128 * 1024 * 1024)

static const uint8_t xz_magic[6] = {0xfd, '7', 'z', 'X', 'Z', 0};

static void *decoder_alloc(void *context, size_t count, size_t size)
{
    (void)context;
    return kda_calloc(count, size);
}

static void decoder_free(void *context, void *block)
{
    (void)context;
    kda_free(block);
}

static enum kda_status decoder_failed(struct kda_file *file, lzma_ret code, struct kda_error *err)
{
    const char *name = kda_file_name(file);
    if (code == LZMA_MEM_ERROR)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory unpacking \"%s\"", name);
    if (code == LZMA_MEMLIMIT_ERROR)
        return kda_fail(err, KDA_LIMIT, "symbols", "unpacking \"%s\" needs over %llu MiB", name,
                        (unsigned long long)(MAX_DECODER_MEMORY >> 20));
    return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\": its xz data are damaged or cut", name);
}

struct output {
    void *bytes;
    size_t capacity, used;
};

/* One run of the decoder over the input at hand, with room made for output as needed. */
static enum kda_status decode(lzma_stream *stream, struct kda_file *file, struct output *out,
                              bool last, bool *ended, struct kda_error *err)
{
    do {
        if (out->used == KDA_ISF_MAX_TEXT)
            return kda_fail(err, KDA_LIMIT, "symbols", "\"%s\" unpacks to over %zu MiB",
                            kda_file_name(file), KDA_ISF_MAX_TEXT >> 20);
        if (out->used == out->capacity &&
            !kda_grow(&out->bytes, &out->capacity, out->used + 1, 1, KDA_ISF_MAX_TEXT))
            return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory unpacking \"%s\"",
                            kda_file_name(file));
        stream->next_out = (uint8_t *)out->bytes + out->used;
        stream->avail_out = out->capacity - out->used;
        lzma_ret code = lzma_code(stream, last ? LZMA_FINISH : LZMA_RUN);
        out->used = out->capacity - stream->avail_out;
        *ended = code == LZMA_STREAM_END;
        if (*ended)
            return KDA_OK;
        if (code != LZMA_OK)
            return decoder_failed(file, code, err);
    } while (stream->avail_in > 0 || stream->avail_out == 0);
    return KDA_OK;
}

static enum kda_status decode_file(lzma_stream *stream, struct kda_file *file, struct output *out,
                                   uint8_t *chunk, struct kda_error *err)
{
    uint64_t off = 0, total = kda_file_size(file);
    bool ended = false;
    while (!ended) {
        size_t size = total - off < CHUNK ? (size_t)(total - off) : CHUNK;
        enum kda_status status = kda_file_read_at(file, off, chunk, size, err);
        if (status != KDA_OK)
            return status;
        off += size;
        stream->next_in = chunk;
        stream->avail_in = size;
        status = decode(stream, file, out, off == total, &ended, err);
        if (status != KDA_OK)
            return status;
        if (off == total && !ended)
            return decoder_failed(file, LZMA_BUF_ERROR, err);
    }
    return KDA_OK;
}

static enum kda_status unpack(struct kda_file *file, char **ret, size_t *size,
                              struct kda_error *err)
{
    lzma_allocator allocator = {decoder_alloc, decoder_free, NULL};
    lzma_stream stream = LZMA_STREAM_INIT;
    stream.allocator = &allocator;
    struct output out = {0};
    enum kda_status status = KDA_OK;
    uint8_t *chunk = kda_calloc(CHUNK, 1);
    lzma_ret code = chunk ? lzma_stream_decoder(&stream, MAX_DECODER_MEMORY, 0) : LZMA_MEM_ERROR;
    if (code != LZMA_OK)
        status = decoder_failed(file, code, err);
    else
        status = decode_file(&stream, file, &out, chunk, err);
    lzma_end(&stream);
    kda_free(chunk);
    if (status != KDA_OK) {
        kda_free(out.bytes);
        return status;
    }
    *ret = out.bytes;
    *size = out.used;
    return KDA_OK;
}

enum kda_status kda_isf_text(struct kda_file *file, char **ret, size_t *size, struct kda_error *err)
{
    uint8_t head[sizeof(xz_magic)] = {0};
    if (kda_file_size(file) >= sizeof(head)) {
        enum kda_status status = kda_file_read_at(file, 0, head, sizeof(head), err);
        if (status != KDA_OK)
            return status;
    }
    if (memcmp(head, xz_magic, sizeof(head)) == 0)
        return unpack(file, ret, size, err);
    void *bytes;
    enum kda_status status = kda_file_read_all(file, KDA_ISF_MAX_TEXT, &bytes, size, err);
    if (status == KDA_OK)
        *ret = bytes;
    return status;
}

#endif
