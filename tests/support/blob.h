/* blob.h - bytes that grow; memory that runs out ends the program. */
#ifndef KDA_TEST_BLOB_H
#define KDA_TEST_BLOB_H

#include <stddef.h>
#include <stdint.h>

struct blob {
    uint8_t *data;
    size_t size, capacity;
};

void blob_free(struct blob *blob);
/* Appends; `data` NULL = zeros. */
void blob_put(struct blob *blob, const void *data, size_t size);
void blob_put16(struct blob *blob, uint16_t value);
void blob_put32(struct blob *blob, uint32_t value);
void blob_put64(struct blob *blob, uint64_t value);
void blob_set32(struct blob *blob, size_t off, uint32_t value);
void blob_set64(struct blob *blob, size_t off, uint64_t value);
/* Grows with zeros to `size`. */
void blob_pad(struct blob *blob, size_t size);

#endif
