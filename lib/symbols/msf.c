#include "msf.h"

#include <string.h>

#include "alloc.h"
#include "bytes.h"

#define MSF_MAGIC "Microsoft C/C++ MSF 7.00\r\n\x1a"
#define MSF_MAGIC_SIZE 32u
#define SUPER_SIZE 56u /* up to and with the first directory-map block number */
#define SUPER_MAX 4096u

static enum kda_status refuse(const char *name, const uint8_t *head, size_t size,
                              struct kda_error *err)
{
    static const struct {
        const char *magic, *what;
    } others[] = {
        {"Microsoft C/C++ program database 2.00", "an old PDB (format 2.00)"},
        {"Microsoft MSFZ Container", "a compressed PDB (MSFZ)"},
        {"BSJB", "a portable .NET PDB"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        size_t length = strlen(others[i].magic);
        if (size >= length && memcmp(head, others[i].magic, length) == 0)
            return kda_fail(err, KDA_UNSUPPORTED, "symbols",
                            "\"%s\" is %s; only PDB files of format 7.00 are read", name,
                            others[i].what);
    }
    return kda_fail(err, KDA_NOT_MINE, "symbols", "\"%s\" is not a PDB file", name);
}

static uint32_t blocks_for(const struct kda_msf *msf, uint32_t size)
{
    return size / msf->block_size + (size % msf->block_size != 0);
}

/* Reads `size` bytes at `off` of the bytes that a list of block numbers makes up. */
static enum kda_status read_blocks(const struct kda_msf *msf, const uint8_t *blocks, uint32_t off,
                                   uint8_t *buf, size_t size, struct kda_error *err)
{
    while (size > 0) {
        uint32_t index = off / msf->block_size, inside = off % msf->block_size;
        uint32_t first = kda_le32(blocks + (size_t)index * 4);
        if (first >= msf->block_count)
            return kda_fail(err, KDA_BAD_DATA, "symbols",
                            "\"%s\": block number %u, but the file has %u blocks",
                            kda_file_name(msf->file), first, msf->block_count);
        size_t chunk = msf->block_size - inside;
        for (uint32_t next = first + 1; chunk < size && next < msf->block_count; next++) {
            if (kda_le32(blocks + (size_t)++index * 4) != next)
                break;
            chunk += msf->block_size;
        }
        if (chunk > size)
            chunk = size;
        uint64_t at = (uint64_t)first * msf->block_size + inside;
        enum kda_status status = kda_file_read_at(msf->file, at, buf, chunk, err);
        if (status != KDA_OK)
            return status;
        buf += chunk;
        off += (uint32_t)chunk;
        size -= chunk;
    }
    return KDA_OK;
}

/* The directory is itself cut into blocks; their numbers stand in blocks whose numbers stand at the
 * end of the first block of the file. */
static enum kda_status read_directory(struct kda_msf *msf, const uint8_t *super, size_t super_size,
                                      uint32_t bytes, struct kda_error *err)
{
    const char *name = kda_file_name(msf->file);
    if (bytes > KDA_MSF_MAX_DIRECTORY || bytes > kda_file_size(msf->file))
        return kda_fail(err, KDA_LIMIT, "symbols", "\"%s\": stream directory of %u bytes", name,
                        bytes);
    uint32_t map_size = blocks_for(msf, bytes) * 4;
    uint32_t map_blocks = blocks_for(msf, map_size);
    if (map_blocks > (super_size - 0x34) / 4)
        return kda_fail(err, KDA_LIMIT, "symbols", "\"%s\": stream directory of %u bytes", name,
                        bytes);
    uint8_t *map = kda_calloc(map_size, 1);
    msf->directory = kda_calloc(bytes, 1);
    enum kda_status status = KDA_OK;
    if (!map || !msf->directory)
        status = kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", name);
    if (status == KDA_OK)
        status = read_blocks(msf, super + 0x34, 0, map, map_size, err);
    if (status == KDA_OK)
        status = read_blocks(msf, map, 0, msf->directory, bytes, err);
    kda_free(map);
    return status;
}

static enum kda_status index_streams(struct kda_msf *msf, uint32_t bytes, struct kda_error *err)
{
    const char *name = kda_file_name(msf->file);
    struct kda_cursor c = kda_cursor_make(msf->directory, bytes);
    uint32_t count = kda_take32(&c);
    if (c.failed || count > KDA_MSF_MAX_STREAMS || count > kda_cursor_left(&c) / 4)
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "\"%s\": stream directory of %u bytes claims %u streams", name, bytes,
                        count);
    msf->streams = kda_calloc(count, sizeof(*msf->streams));
    if (!msf->streams)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"", name);
    msf->stream_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = kda_take32(&c);
        msf->streams[i].size = size == UINT32_MAX ? 0 : size;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct kda_msf_stream *stream = &msf->streams[i];
        stream->blocks = kda_take(&c, (size_t)blocks_for(msf, stream->size) * 4);
        if (!stream->blocks || stream->size > kda_file_size(msf->file))
            return kda_fail(err, KDA_BAD_DATA, "symbols",
                            "\"%s\": stream %u of %u bytes does not fit the file", name, i,
                            stream->size);
    }
    return KDA_OK;
}

static enum kda_status open_container(struct kda_msf *msf, struct kda_error *err)
{
    const char *name = kda_file_name(msf->file);
    uint64_t file_size = kda_file_size(msf->file);
    uint8_t super[SUPER_MAX] = {0};
    size_t have = file_size < SUPER_MAX ? (size_t)file_size : SUPER_MAX;
    enum kda_status status = kda_file_read_at(msf->file, 0, super, have, err);
    if (status != KDA_OK)
        return status;
    if (have < MSF_MAGIC_SIZE || memcmp(super, MSF_MAGIC, sizeof(MSF_MAGIC) - 1) != 0)
        return refuse(name, super, have, err);
    if (have < SUPER_SIZE)
        return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\" ends inside its header", name);
    msf->block_size = kda_le32(super + 0x20);
    msf->block_count = kda_le32(super + 0x28);
    uint32_t size = msf->block_size;
    if (size < 512 || size > 65536 || (size & (size - 1)) != 0)
        return kda_fail(err, KDA_BAD_DATA, "symbols", "\"%s\": block size of %u bytes", name, size);
    /* What is short of its own block count was cut while it was copied or downloaded. */
    if ((uint64_t)msf->block_count * size > file_size)
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "\"%s\" is truncated: its header says %llu bytes, it has %llu", name,
                        (unsigned long long)msf->block_count * size, (unsigned long long)file_size);
    uint32_t bytes = kda_le32(super + 0x2c);
    status = read_directory(msf, super, size < have ? size : have, bytes, err);
    return status == KDA_OK ? index_streams(msf, bytes, err) : status;
}

enum kda_status kda_msf_init(struct kda_msf *msf, struct kda_file *file, struct kda_error *err)
{
    *msf = (struct kda_msf){.file = file};
    enum kda_status status = open_container(msf, err);
    if (status != KDA_OK)
        kda_msf_deinit(msf);
    return status;
}

void kda_msf_deinit(struct kda_msf *msf)
{
    kda_free(msf->directory);
    kda_free(msf->streams);
    *msf = (struct kda_msf){0};
}

uint32_t kda_msf_size(const struct kda_msf *msf, uint32_t stream)
{
    return stream < msf->stream_count && stream != KDA_MSF_NO_STREAM ? msf->streams[stream].size
                                                                     : 0;
}

enum kda_status kda_msf_read(struct kda_msf *msf, uint32_t stream, uint32_t off, void *buf,
                             size_t size, struct kda_error *err)
{
    uint32_t total = kda_msf_size(msf, stream);
    if (off > total || size > total - off)
        return kda_fail(err, KDA_BAD_DATA, "symbols",
                        "\"%s\": stream %u has %u bytes, but %zu are needed at 0x%x",
                        kda_file_name(msf->file), stream, total, size, off);
    return size == 0 ? KDA_OK : read_blocks(msf, msf->streams[stream].blocks, off, buf, size, err);
}

enum kda_status kda_msf_read_all(struct kda_msf *msf, uint32_t stream, uint8_t **ret, size_t *size,
                                 struct kda_error *err)
{
    size_t total = kda_msf_size(msf, stream);
    if (total > KDA_MSF_MAX_STREAM)
        return kda_fail(err, KDA_LIMIT, "symbols", "\"%s\": stream %u of %zu bytes",
                        kda_file_name(msf->file), stream, total);
    uint8_t *bytes = kda_calloc(total, 1);
    if (!bytes)
        return kda_fail(err, KDA_NO_MEMORY, "symbols", "out of memory for \"%s\"",
                        kda_file_name(msf->file));
    enum kda_status status = kda_msf_read(msf, stream, 0, bytes, total, err);
    if (status != KDA_OK) {
        kda_free(bytes);
        return status;
    }
    *ret = bytes;
    *size = total;
    return KDA_OK;
}
