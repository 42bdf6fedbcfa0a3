/* Any bytes as the record part of a PDB's type stream: deeper than what survives the container.
 *
 * The container is made here: one file of blocks in order, stream 2 = header + input. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "symbols/handle.h"
#include "symbols/pdb.h"

#define BLOCK 512u
#define HEADER 56u
#define MAX_INPUT 65536u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Records that stand whole in the input; what follows the last belongs to none. */
static uint32_t count_records(const uint8_t *data, size_t size)
{
    uint32_t count = 0;
    for (size_t at = 0; size - at >= 4; count++) {
        size_t length = (size_t)kda_le16(data + at) + 2;
        if (length < 4 || length > size - at)
            break;
        at += length;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t stream[HEADER + MAX_INPUT], numbers[(HEADER + MAX_INPUT) / BLOCK * 4 + 4];
    if (size > MAX_INPUT)
        return 0;
    kda_put_le32(stream + 4, HEADER);
    kda_put_le32(stream + 8, 0x1000);
    kda_put_le32(stream + 12, 0x1000 + count_records(data, size));
    kda_put_le32(stream + 16, (uint32_t)size);
    memcpy(stream + HEADER, data, size);
    for (uint32_t i = 0; i < sizeof(numbers) / 4; i++)
        kda_put_le32(numbers + (size_t)i * 4, i);
    struct kda_msf_stream streams[3] = {{0}};
    streams[2].size = (uint32_t)(HEADER + size);
    streams[2].blocks = numbers;
    struct kda_msf msf = {.block_size = BLOCK,
                          .block_count = sizeof(numbers) / 4,
                          .streams = streams,
                          .stream_count = 3};
    struct kda_layout layout;
    kda_layout_clear(&layout);
    if (kda_file_open_memory(stream, HEADER + size, "fuzz.pdb", &msf.file, NULL) != KDA_OK)
        return 0;
    (void)kda_pdb_types(&msf, &layout, NULL);
    kda_file_close(msf.file);
    for (unsigned i = 0; i < KDA_FIELD_COUNT; i++) {
        const struct kda_field *f = &layout.field[i];
        if (f->bits && (f->offset == KDA_NONE || f->bit + f->bits > f->size * 8))
            abort(); /* a bit field outside its unit would be read wrong by everyone */
    }
    return 0;
}
