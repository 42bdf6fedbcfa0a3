/*
 * tiny_pdb.h - the smallest file that a PDB reader accepts: identity and filler, made of bytes
 * that the test chose.
 */
#ifndef KDA_TESTS_TINY_PDB_H
#define KDA_TESTS_TINY_PDB_H

#include <stddef.h>
#include <stdint.h>

/* A PDB of `blocks` blocks of 4096 bytes (at least 16), filled with a pattern from `seed`. The
 * caller frees with free(). NULL when memory is out. */
uint8_t *tiny_pdb_make(const uint8_t guid[16], uint32_t age, uint32_t blocks, uint32_t seed,
                       size_t *size);

#endif
