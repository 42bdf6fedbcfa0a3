/*
 * msf.h - the container of a PDB: numbered streams cut into blocks. Internal to lib/symbols.
 *
 * Opening reads the first block and the directory; a stream's bytes are read when asked for, runs
 * of neighbouring blocks with one read.
 *
 * Source: Microsoft's microsoft-pdb repository, PDB/msf/msf.cpp; docs/symbols.md sums it up.
 */
#ifndef KDA_SYMBOLS_MSF_H
#define KDA_SYMBOLS_MSF_H

#include <stddef.h>
#include <stdint.h>

#include "file.h"

#define KDA_MSF_MAX_STREAMS 65536u /* stream numbers are 16 bits wherever they are stored */
#define KDA_MSF_MAX_DIRECTORY ((size_t)64 * 1024 * 1024)
#define KDA_MSF_MAX_STREAM ((size_t)1024 * 1024 * 1024)
#define KDA_MSF_NO_STREAM 0xffffu

struct kda_msf_stream {
    uint32_t size;         /* bytes */
    const uint8_t *blocks; /* 32-bit block numbers, inside the directory */
};

struct kda_msf {
    struct kda_file *file; /* borrowed */
    uint32_t block_size, block_count;
    uint8_t *directory;
    struct kda_msf_stream *streams;
    uint32_t stream_count;
};

/* KDA_NOT_MINE: no PDB. KDA_UNSUPPORTED: a PDB of another container format, named. KDA_BAD_DATA:
 * truncated or contradicting itself. Borrows the file until kda_msf_deinit. */
KDA_MUST_CHECK enum kda_status kda_msf_init(struct kda_msf *msf, struct kda_file *file,
                                            struct kda_error *err);
void kda_msf_deinit(struct kda_msf *msf);

/* 0 for a stream that does not exist, KDA_MSF_NO_STREAM included. */
uint32_t kda_msf_size(const struct kda_msf *msf, uint32_t stream);

/* All or nothing; KDA_BAD_DATA when the range is not inside the stream. */
KDA_MUST_CHECK enum kda_status kda_msf_read(struct kda_msf *msf, uint32_t stream, uint32_t off,
                                            void *buf, size_t size, struct kda_error *err);

/* A whole stream in fresh memory (kda_free). A stream that does not exist has 0 bytes. */
KDA_MUST_CHECK enum kda_status kda_msf_read_all(struct kda_msf *msf, uint32_t stream, uint8_t **ret,
                                                size_t *size, struct kda_error *err);

#endif
