/* A profile file. The checksum is made to fit, or nothing behind it would ever be read; what is
 * accepted must be accepted again after writing it. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "symbols/own.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t crc32_of(const uint8_t *p, size_t size)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < size; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void check_again(const struct kda_own *own)
{
    static struct kda_own back;
    uint8_t bytes[KDA_OWN_MAX_BYTES];
    size_t size;
    if (kda_own_encode(own, bytes, sizeof(bytes), &size, NULL) != KDA_OK ||
        kda_own_decode(bytes, size, "again", &back, NULL) != KDA_OK ||
        memcmp(&own->layout, &back.layout, sizeof(back.layout)) != 0)
        abort();
}

/* Seeds outlive changes of the list of fields. */
static uint32_t names_of_today(void)
{
    struct kda_own own = {.id = {.has_pdb = true, .pdb_name = "a.pdb"}, .source = "pdb"};
    static uint32_t names;
    uint8_t bytes[KDA_OWN_MAX_BYTES];
    size_t size;
    if (names != 0)
        return names;
    kda_layout_clear(&own.layout);
    if (kda_own_encode(&own, bytes, sizeof(bytes), &size, NULL) != KDA_OK)
        abort();
    names = kda_le32(bytes + 20);
    return names;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kda_own own;
    struct kda_error err;
    if (size > KDA_OWN_MAX_BYTES)
        return 0;
    if (kda_own_decode(data, size, "fuzz", &own, &err) == KDA_OK)
        check_again(&own);
    uint8_t *bytes = malloc(size ? size : 1);
    if (bytes && size >= 24) {
        memcpy(bytes, data, size);
        kda_put_le32(bytes + 12, (uint32_t)size);
        kda_put_le32(bytes + 20, names_of_today());
        kda_put_le32(bytes + 16, crc32_of(bytes + 20, size - 20));
        if (kda_own_decode(bytes, size, "fuzz", &own, &err) == KDA_OK)
            check_again(&own);
    }
    free(bytes);
    return 0;
}
