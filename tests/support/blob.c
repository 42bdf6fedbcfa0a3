#include "blob.h"

#include <stdlib.h>
#include <string.h>

#include "bytes.h"

void blob_free(struct blob *blob)
{
    free(blob->data);
    *blob = (struct blob){0};
}

void blob_put(struct blob *blob, const void *data, size_t size)
{
    if (blob->size + size > blob->capacity) {
        blob->capacity = (blob->size + size) * 2;
        blob->data = realloc(blob->data, blob->capacity);
        if (!blob->data)
            abort();
    }
    if (size > 0 && data)
        memcpy(blob->data + blob->size, data, size);
    else if (size > 0)
        memset(blob->data + blob->size, 0, size);
    blob->size += size;
}

void blob_put16(struct blob *blob, uint16_t value)
{
    uint8_t bytes[2];
    kda_put_le16(bytes, value);
    blob_put(blob, bytes, sizeof(bytes));
}

void blob_put32(struct blob *blob, uint32_t value)
{
    uint8_t bytes[4];
    kda_put_le32(bytes, value);
    blob_put(blob, bytes, sizeof(bytes));
}

void blob_put64(struct blob *blob, uint64_t value)
{
    uint8_t bytes[8];
    kda_put_le64(bytes, value);
    blob_put(blob, bytes, sizeof(bytes));
}

void blob_set32(struct blob *blob, size_t off, uint32_t value)
{
    kda_put_le32(blob->data + off, value);
}

void blob_set64(struct blob *blob, size_t off, uint64_t value)
{
    kda_put_le64(blob->data + off, value);
}

void blob_pad(struct blob *blob, size_t size)
{
    if (blob->size < size)
        blob_put(blob, NULL, size - blob->size);
}
