#include "tiny_pdb.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

#define BLOCK ((size_t)4096)

enum { MAP = 3, DIRECTORY = 4, STREAM_PDB = 5, STREAM_DBI = 6, FILLER = 7 };

static void put_super(uint8_t *file, uint32_t blocks, uint32_t directory_bytes)
{
    memcpy(file,
           "Microsoft C/C++ MSF 7.00\r\n\x1a"
           "DS\0\0\0",
           32);
    kda_put_le32(file + 0x20, (uint32_t)BLOCK);
    kda_put_le32(file + 0x24, 1);
    kda_put_le32(file + 0x28, blocks);
    kda_put_le32(file + 0x2c, directory_bytes);
    kda_put_le32(file + 0x34, MAP);
}

uint8_t *tiny_pdb_make(const uint8_t guid[16], uint32_t age, uint32_t blocks, uint32_t seed,
                       size_t *size)
{
    uint8_t *file = calloc(blocks, BLOCK);
    if (!file)
        return NULL;
    /* Streams: 0 old directory (empty), 1 PDB, 2 TPI (empty), 3 DBI. */
    uint8_t *directory = file + DIRECTORY * BLOCK;
    kda_put_le32(directory, 4);
    kda_put_le32(directory + 8, 28);
    kda_put_le32(directory + 16, 64);
    kda_put_le32(directory + 20, STREAM_PDB);
    kda_put_le32(directory + 24, STREAM_DBI);
    put_super(file, blocks, 28);
    kda_put_le32(file + MAP * BLOCK, DIRECTORY);
    uint8_t *pdb = file + STREAM_PDB * BLOCK;
    kda_put_le32(pdb, 20000404);
    kda_put_le32(pdb + 8, age + 1); /* differs on purpose: the DBI stream's age counts */
    memcpy(pdb + 12, guid, 16);
    uint8_t *dbi = file + STREAM_DBI * BLOCK;
    kda_put_le32(dbi, UINT32_MAX);
    kda_put_le32(dbi + 4, 19990903);
    kda_put_le32(dbi + 8, age);
    kda_put_le16(dbi + 20, 0xffff);
    for (size_t i = FILLER * BLOCK; i < blocks * BLOCK; i++) {
        seed = seed * 1664525 + 1013904223;
        file[i] = (uint8_t)(seed >> 24);
    }
    *size = blocks * BLOCK;
    return file;
}
