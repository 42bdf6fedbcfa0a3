/*
 * pdbgen.h - builds small PDB files in memory, byte by byte, for what no linker at hand writes:
 * rearranged images, long member lists, damaged records.
 */
#ifndef KDA_TESTS_PDBGEN_H
#define KDA_TESTS_PDBGEN_H

#include <stddef.h>
#include <stdint.h>

/* Growing bytes. */
struct bytes {
    uint8_t *data;
    size_t size, capacity;
};

void bytes_put8(struct bytes *b, unsigned v);
void bytes_put16(struct bytes *b, unsigned v);
void bytes_put32(struct bytes *b, uint32_t v);
void put_text(struct bytes *b, const char *text); /* with NUL */
void put_zeros(struct bytes *b, size_t count);
void put_all(struct bytes *b, const struct bytes *other);
void bytes_free(struct bytes *b);

/* Puts streams into a container. Blocks are handed out from the end of the file down when
 * `backwards`, so that no two neighbours of a stream are neighbours in the file. */
void pdbgen_container(const struct bytes *streams, size_t count, uint32_t block_size, int backwards,
                      struct bytes *ret);

/* A type stream under construction. Indices start at 0x1000. */
struct tpi {
    struct bytes records;
    uint32_t next;
};

/* Adds a record: body = kind and what follows. Returns its index. */
uint32_t tpi_add(struct tpi *tpi, unsigned kind, const struct bytes *body);
void tpi_finish(struct tpi *tpi, struct bytes *ret); /* header and records; frees the records */

/* Pieces of bodies. */
void put_member(struct bytes *list, uint32_t type, uint32_t offset, const char *name);
uint32_t tpi_struct(struct tpi *tpi, unsigned kind, uint32_t fields, uint32_t size,
                    const char *name, unsigned properties);
uint32_t tpi_array(struct tpi *tpi, uint32_t element, uint32_t size);
uint32_t tpi_bits(struct tpi *tpi, uint32_t base, unsigned bit, unsigned bits);

/* Stream 1, and the DBI stream with its optional streams (0xffff = none). */
void pdbgen_info(struct bytes *ret, const uint8_t guid[16], uint32_t age);
struct pdbgen_dbi {
    uint32_t age;
    unsigned symbols, omap, sections, original_sections;
};
void pdbgen_dbi(struct bytes *ret, const struct pdbgen_dbi *dbi);
void put_section(struct bytes *ret, uint32_t rva);
void put_symbol(struct bytes *ret, unsigned kind, unsigned segment, uint32_t offset,
                const char *name);

#endif
